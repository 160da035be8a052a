// gpuhash_partition of <gpuhash/columns.h>: arguments are checked here.
#include "libgpuhash/columns/partition.hpp"

#include "libgpuhash/src/cpus.hpp"
#include "libgpuhash/src/structs.hpp"

using namespace gpuhash;
using namespace gpuhash::columns;

namespace {

gpuhash_status read_request(const gpuhash_partition_request* given, gpuhash_partition_request* r, gpuhash_error* err) {
  if (const auto s = read_struct(given, *r, "request", "GPUHASH_PARTITION_REQUEST_INIT", sizeof(*r), err)) return s;
  if (r->shards == 0 || r->shards > GPUHASH_MOST_SHARDS)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "request.shards is %u; pass 1 to %u", r->shards, GPUHASH_MOST_SHARDS);
  if (r->values != nullptr && r->value_bytes == 0)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "request.value_bytes is 0; a value has at least one byte");
  return GPUHASH_OK;
}

// Can copies of these keys be grouped?
gpuhash_status check_copies(const row_type& type, const rows& given, gpuhash_error* err) {
  const column_type& t = type.columns[0];
  if (t.dictionary || (t.how != layout::fixed && t.how != layout::fixed_bytes))
    return fail(err, GPUHASH_UNSUPPORTED,
                "request.out_keys is set, and keys are %s, not cells of fixed width; take them by out_order",
                t.dictionary ? "a dictionary" : describe(t).c_str());
  for (int64_t i = 0; given.columns[0].validity != nullptr && i < given.length; ++i)
    if (!given.columns[0].valid(i))
      return fail(err, GPUHASH_UNSUPPORTED, "request.out_keys is set, and row %lld is null; take keys by out_order",
                  (long long)i);
  return GPUHASH_OK;
}

gpuhash_status partition(const gpuhash_partition_request& r, gpuhash_error* err) {
  row_type t;
  rows given;
  if (const auto s = read_type(r.type, &t, err)) return s;
  if (const auto s = read_rows(r.keys, t, &given, err)) return s;
  if (r.out_keys != nullptr)
    if (const auto s = check_copies(t, given, err)) return s;
  if (r.out_values != nullptr && r.values == nullptr && given.length > 0)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "request.out_values is set, and values is NULL");
  grouped_array arrays[3];
  size_t count = 0;
  if (r.out_keys) {
    const column_view& c = given.columns[0];
    const size_t width = t.columns[0].width;
    arrays[count++] = {static_cast<const char*>(c.data) + size_t(c.first) * width, r.out_keys, width};
  }
  if (r.out_values) arrays[count++] = {r.values, r.out_values, r.value_bytes};
  if (r.out_order) arrays[count++] = {nullptr, r.out_order, sizeof(int64_t)};
  const bool groups = count > 0 || r.out_offsets != nullptr;
  if (!groups && r.out_shards == nullptr) return GPUHASH_OK;
  const uint32_t threads = r.threads ? r.threads : default_threads();
  std::unique_ptr<int32_t[]> own;
  if (r.out_shards == nullptr) own.reset(new int32_t[size_t(given.length)]);
  int32_t* const ids = own ? own.get() : r.out_shards;
  shards_of_rows(t, given, r.shards, r.seed, threads, ids);
  if (groups) group_by_shard(ids, given.length, r.shards, threads, r.out_offsets, arrays, count);
  return GPUHASH_OK;
}

}  // namespace

extern "C" gpuhash_status gpuhash_partition(const gpuhash_partition_request* request, gpuhash_error* err) {
  return guarded(err, [&]() -> gpuhash_status {
    gpuhash_partition_request r = GPUHASH_PARTITION_REQUEST_INIT;
    if (const auto s = read_request(request, &r, err)) return s;
    return partition(r, err);
  });
}
