// gpuhash_partition of <gpuhash/columns.h>: arguments are checked here.
#include "libgpuhash/columns/partition.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "libgpuhash/columns/contract.hpp"
#include "libgpuhash/columns/partition_cuda.hpp"
#include "libgpuhash/columns/row_hash.hpp"
#include "libgpuhash/src/cpus.hpp"
#include "libgpuhash/src/device.hpp"
#include "libgpuhash/src/structs.hpp"

using namespace gpuhash;
using namespace gpuhash::columns;

namespace {

gpuhash_status read_request(const gpuhash_partition_request* given, gpuhash_partition_request* r, gpuhash_error* err) {
  if (const auto s = read_struct(given, *r, "request", "GPUHASH_PARTITION_REQUEST_INIT",
                                 offsetof(gpuhash_partition_request, device), err))
    return s;
  if (r->shards == 0 || r->shards > GPUHASH_MOST_SHARDS)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "request.shards is %u; pass 1 to %u", r->shards, GPUHASH_MOST_SHARDS);
  if (r->values != nullptr && r->value_bytes == 0)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "request.value_bytes is 0; a value has at least one byte");
  return GPUHASH_OK;
}

gpuhash_status check_places(const gpuhash_partition_request& r, const rows& given, gpuhash_error* err) {
  if (r.out_places != nullptr && given.length > int64_t{0xffffffff})
    return fail(err, GPUHASH_INVALID_ARGUMENT,
                "request.out_places is set, and there are %lld rows; pass fewer than 2^32", (long long)given.length);
  return GPUHASH_OK;
}

// Can rows go to a place of their own for each shard?
gpuhash_status check_spread(const gpuhash_partition_request& r, gpuhash_error* err) {
  if (r.shard_keys == nullptr && r.shard_values == nullptr) return GPUHASH_OK;
  const char* const name = r.shard_keys ? "shard_keys" : "shard_values";
  if (r.device.kind != GPUHASH_CUDA)
    return fail(err, GPUHASH_UNSUPPORTED, "request.%s is set, and the device is the CPU; pass out_keys and out_values",
                name);
  if (r.shards > GPUHASH_MOST_SPREAD)
    return fail(err, GPUHASH_UNSUPPORTED,
                "request.%s is set, and there are %u shards; at most %u have places of their own", name, r.shards,
                GPUHASH_MOST_SPREAD);
  if ((r.shard_keys && r.out_keys) || (r.shard_values && r.out_values))
    return fail(err, GPUHASH_INVALID_ARGUMENT, "request.%s and request.%s are both set; one of them is NULL", name,
                r.shard_keys && r.out_keys ? "out_keys" : "out_values");
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

const void* first_cell(const row_type& type, const rows& given) {
  const column_view& c = given.columns[0];
  return static_cast<const char*>(c.data) + size_t(c.first) * type.columns[0].width;
}

// The places of rows, from the rows that are at each place.
void invert(const int64_t* order, int64_t n, uint32_t* places) {
  for (int64_t i = 0; i < n; ++i) places[order[i]] = uint32_t(i);
}

// The arrays that are grouped, and how many there are.
uint32_t arrays_of(const gpuhash_partition_request& r, const row_type& type, const rows& given,
                   grouped_array (&arrays)[3]) {
  uint32_t count = 0;
  if (r.out_keys) arrays[count++] = {first_cell(type, given), r.out_keys, type.columns[0].width};
  if (r.out_values) arrays[count++] = {r.values, r.out_values, r.value_bytes};
  if (r.out_order) arrays[count++] = {nullptr, r.out_order, sizeof(int64_t)};
  return count;
}

// ---- on a CUDA device ------------------------------------------------------------------------------------------------

size_t scratch_of(const gpuhash_partition_request& r, uint64_t n) {
  const bool groups =
      r.out_offsets || r.out_order || r.out_places || r.out_keys || r.out_values || r.shard_keys || r.shard_values;
  return groups && n > 0 ? partition_plan(n, r.shards).bytes : 0;
}

// Are these keys hashed on a device, where no byte of them is read here?
gpuhash_status check_keys_of_device(const row_type& type, const rows& given, gpuhash_error* err) {
  const column_type& t = type.columns[0];
  const bool number = t.kind == family::integer || t.kind == family::floating || t.nanoseconds != 0;
  const bool fixed = number && t.how == layout::fixed && t.width <= 8;
  if (!type.single() || t.dictionary || !(fixed || t.how == layout::fixed_bytes))
    return fail(err, GPUHASH_UNSUPPORTED,
                "keys on a CUDA device are %s; they are one column of integers, floats or times of up to 8 bytes, or "
                "of bytes of one width",
                type.single() ? describe(t).c_str() : "rows of several columns");
  if (given.columns[0].validity != nullptr)
    return fail(err, GPUHASH_UNSUPPORTED, "keys on a CUDA device may have nulls: pass null_count 0, or no validity");
  return GPUHASH_OK;
}

gpuhash_status check_memory_of(const gpuhash_partition_request& r, const row_type& type, const rows& given,
                               gpuhash_error* err) {
  if (given.length == 0) return GPUHASH_OK;
  const void* const keys = first_cell(type, given);
  const uint32_t width = type.columns[0].width;
  if (type.columns[0].how == layout::fixed && uintptr_t(keys) % width != 0)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "the keys are at %p; they are aligned to %u bytes", keys, width);
  const size_t bytes = scratch_of(r, uint64_t(given.length));
  if (bytes == 0) return GPUHASH_OK;
  if (r.scratch_bytes < bytes)
    return fail(err, GPUHASH_INVALID_ARGUMENT,
                "request.scratch_bytes is %zu, and the call takes %zu: ask gpuhash_partition_scratch", r.scratch_bytes,
                bytes);
  if (r.scratch == nullptr) return fail(err, GPUHASH_INVALID_ARGUMENT, "request.scratch is NULL");
  if (uintptr_t(r.scratch) % 256 != 0)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "request.scratch is %p, which is not aligned to 256 bytes", r.scratch);
  return GPUHASH_OK;
}

void set_hash(const column_type& t, uint64_t seed, partition_on_device* d) {
  const uint64_t root = contract::root(seed_of_shards(seed), 0);
  const bool floating = t.kind == family::floating, ticks = t.nanoseconds > 1;
  d->kind = t.how == layout::fixed_bytes ? cell_kind::bytes
            : floating                   ? cell_kind::floating
            : ticks                      ? cell_kind::ticks
            : t.is_signed                ? cell_kind::signed_integer
                                         : cell_kind::unsigned_integer;
  d->key = contract::key_of(root, kind_of(t.kind));
  d->fraction = contract::key_of(root, contract::fraction);
  d->nanoseconds = t.nanoseconds;
  d->of_bytes = contract::keys_of_bytes(root, kind_of(t.kind));
}

gpuhash_status partition_there(const gpuhash_partition_request& r, const row_type& type, const rows& given,
                               gpuhash_error* err) {
  if (const auto s = check_keys_of_device(type, given, err)) return s;
  if (const auto s = check_memory_of(r, type, given, err)) return s;
  gpuhash_device device = r.device;
  if (const auto s = resolve_device(device, err)) return s;
  if (partition_on_cuda == nullptr)
    return fail(err, GPUHASH_UNSUPPORTED,
                "this build of gpuhash has no CUDA kernels; install one that was built with nvcc");
  partition_on_device d{};
  d.ordinal = device.ordinal, d.stream = r.stream, d.scratch = static_cast<char*>(r.scratch);
  d.keys = first_cell(type, given), d.width = type.columns[0].width, d.n = uint64_t(given.length);
  d.shards = r.shards, d.ids = r.out_shards, d.offsets = r.out_offsets;
  d.places = r.out_places, d.counted = r.counted != 0;
  d.count = arrays_of(r, type, given, d.arrays);
  if (r.shard_keys) {
    d.arrays[d.count] = {d.keys, nullptr, d.width};
    d.spread[d.count++] = r.shard_keys;
  }
  if (r.shard_values) {
    d.arrays[d.count] = {r.values, nullptr, r.value_bytes};
    d.spread[d.count++] = r.shard_values;
  }
  set_hash(type.columns[0], r.seed, &d);
  if (!d.groups() && d.ids == nullptr) return GPUHASH_OK;
  return partition_on_cuda(d, err);
}

// ---- on the CPU ------------------------------------------------------------------------------------------------------

gpuhash_status partition_here(const gpuhash_partition_request& r, const row_type& t, const rows& given,
                              gpuhash_error* err) {
  if (r.out_keys != nullptr)
    if (const auto s = check_copies(t, given, err)) return s;
  std::unique_ptr<int64_t[]> order;
  gpuhash_partition_request all = r;
  if (r.out_places != nullptr && r.out_order == nullptr) {
    order.reset(new int64_t[size_t(given.length)]);
    all.out_order = order.get();
  }
  grouped_array arrays[3];
  const uint32_t count = arrays_of(all, t, given, arrays);
  const bool groups = count > 0 || r.out_offsets != nullptr;
  if (!groups && r.out_shards == nullptr) return GPUHASH_OK;
  const uint32_t threads = r.threads ? r.threads : default_threads();
  std::unique_ptr<int32_t[]> own;
  if (r.out_shards == nullptr) own.reset(new int32_t[size_t(given.length)]);
  int32_t* const ids = own ? own.get() : r.out_shards;
  shards_of_rows(t, given, r.shards, r.seed, threads, ids);
  if (groups) group_by_shard(ids, given.length, r.shards, threads, r.out_offsets, arrays, count);
  if (r.out_places != nullptr) invert(all.out_order, given.length, r.out_places);
  return GPUHASH_OK;
}

gpuhash_status partition(const gpuhash_partition_request& r, gpuhash_error* err) {
  row_type t;
  rows given;
  if (const auto s = read_type(r.type, &t, err)) return s;
  if (const auto s = read_rows(r.keys, t, &given, err)) return s;
  if (const auto s = check_spread(r, err)) return s;
  if (const auto s = check_places(r, given, err)) return s;
  if ((r.out_values != nullptr || r.shard_values != nullptr) && r.values == nullptr && given.length > 0)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "request.%s is set, and values is NULL",
                r.out_values ? "out_values" : "shard_values");
  if (r.device.kind == GPUHASH_CUDA) return partition_there(r, t, given, err);
  gpuhash_device device = r.device;
  if (const auto s = resolve_device(device, err)) return s;
  return partition_here(r, t, given, err);
}

}  // namespace

extern "C" gpuhash_status gpuhash_partition_scratch(const gpuhash_partition_request* request, size_t* bytes,
                                                    gpuhash_error* err) {
  return guarded(err, [&]() -> gpuhash_status {
    if (bytes == nullptr) return fail(err, GPUHASH_INVALID_ARGUMENT, "bytes is NULL");
    gpuhash_partition_request r = GPUHASH_PARTITION_REQUEST_INIT;
    if (const auto s = read_request(request, &r, err)) return s;
    if (r.keys == nullptr || r.keys->length < 0)
      return fail(err, GPUHASH_INVALID_ARGUMENT, "request.keys is NULL or has a negative length");
    *bytes = scratch_of(r, uint64_t(r.keys->length));
    return GPUHASH_OK;
  });
}

extern "C" gpuhash_status gpuhash_partition(const gpuhash_partition_request* request, gpuhash_error* err) {
  return guarded(err, [&]() -> gpuhash_status {
    gpuhash_partition_request r = GPUHASH_PARTITION_REQUEST_INIT;
    if (const auto s = read_request(request, &r, err)) return s;
    return partition(r, err);
  });
}

namespace {

gpuhash_status ungroup(size_t n, const int64_t* order, const void* from, size_t bytes, void* to, gpuhash_device device,
                       void* stream, gpuhash_error* err) {
  if (bytes == 0) return fail(err, GPUHASH_INVALID_ARGUMENT, "bytes is 0; a row has at least one byte");
  if (n > 0 && (order == nullptr || from == nullptr || to == nullptr))
    return fail(err, GPUHASH_INVALID_ARGUMENT, "%s is NULL, and n is %zu",
                order == nullptr  ? "order"
                : from == nullptr ? "from"
                                  : "to",
                n);
  if (const auto s = resolve_device(device, err)) return s;
  if (device.kind == GPUHASH_CUDA) {
    if (ungroup_on_cuda == nullptr)
      return fail(err, GPUHASH_UNSUPPORTED,
                  "this build of gpuhash has no CUDA kernels; install one that was built with nvcc");
    return ungroup_on_cuda({device.ordinal, stream, n, order, {from, to, bytes}}, err);
  }
  for (size_t i = 0; i < n; ++i)
    std::memcpy(static_cast<char*>(to) + size_t(order[i]) * bytes, static_cast<const char*>(from) + i * bytes, bytes);
  return GPUHASH_OK;
}

}  // namespace

extern "C" gpuhash_status gpuhash_ungroup(size_t n, const int64_t* order, const void* from, size_t bytes, void* to,
                                          gpuhash_device device, void* stream, gpuhash_error* err) {
  return guarded(err, [&] { return ungroup(n, order, from, bytes, to, device, stream, err); });
}

namespace {

gpuhash_status check_collected(const gpuhash_collect_request& r, uint32_t array, gpuhash_error* err) {
  const gpuhash_collected& g = r.collected[array];
  if (g.bytes == 0)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "request.collected[%u].bytes is 0; a row has at least one byte", array);
  if (g.from == nullptr || g.to == nullptr)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "request.collected[%u].%s is NULL", array, g.from ? "to" : "from");
  return GPUHASH_OK;
}

gpuhash_status check_collect(const gpuhash_collect_request& r, gpuhash_error* err) {
  if (r.n > 0xffffffff) return fail(err, GPUHASH_INVALID_ARGUMENT, "request.n is %zu; pass fewer than 2^32 rows", r.n);
  if (r.shards == 0 || r.shards > GPUHASH_MOST_SPREAD)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "request.shards is %u; pass 1 to %u, or the rows of all as those of 1",
                r.shards, GPUHASH_MOST_SPREAD);
  if (r.arrays == 0 || r.arrays > 2)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "request.arrays is %u; pass 1 or 2", r.arrays);
  if (r.n == 0) return GPUHASH_OK;
  if (r.places == nullptr || r.offsets == nullptr)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "request.%s is NULL, and n is %zu", r.places ? "offsets" : "places",
                r.n);
  for (uint32_t s = 0; s < r.shards; ++s)
    if (r.offsets[s] > r.offsets[s + 1])
      return fail(err, GPUHASH_INVALID_ARGUMENT, "request.offsets[%u] is %lld, more than the next one", s,
                  (long long)r.offsets[s]);
  if (r.offsets[0] != 0 || uint64_t(r.offsets[r.shards]) != r.n)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "request.offsets are from %lld to %lld; they are from 0 to n, %zu",
                (long long)r.offsets[0], (long long)r.offsets[r.shards], r.n);
  for (uint32_t a = 0; a < r.arrays; ++a)
    if (const auto s = check_collected(r, a, err)) return s;
  return GPUHASH_OK;
}

void collect_here(const gpuhash_collect_request& r, const gpuhash_collected& g) {
  for (size_t i = 0; i < r.n; ++i) {
    const auto place = int64_t(r.places[i]);
    const int64_t* const end = std::upper_bound(r.offsets, r.offsets + r.shards, place);
    const auto shard = size_t(end - r.offsets) - 1;
    char* const to = static_cast<char*>(g.to) + i * g.bytes;
    if (g.from[shard] == nullptr)
      std::memset(to, 0, g.bytes);
    else
      std::memcpy(to, static_cast<const char*>(g.from[shard]) + size_t(place - r.offsets[shard]) * g.bytes, g.bytes);
  }
}

gpuhash_status collect(const gpuhash_collect_request& r, gpuhash_error* err) {
  if (const auto s = check_collect(r, err)) return s;
  gpuhash_device device = r.device;
  if (const auto s = resolve_device(device, err)) return s;
  if (device.kind == GPUHASH_CUDA) {
    if (collect_on_cuda == nullptr)
      return fail(err, GPUHASH_UNSUPPORTED,
                  "this build of gpuhash has no CUDA kernels; install one that was built with nvcc");
    return collect_on_cuda(r, device.ordinal, err);
  }
  for (uint32_t a = 0; a < r.arrays && r.n > 0; ++a) collect_here(r, r.collected[a]);
  return GPUHASH_OK;
}

}  // namespace

extern "C" gpuhash_status gpuhash_collect(const gpuhash_collect_request* request, gpuhash_error* err) {
  return guarded(err, [&]() -> gpuhash_status {
    gpuhash_collect_request r = GPUHASH_COLLECT_REQUEST_INIT;
    if (const auto s =
            read_struct(request, r, "request", "GPUHASH_COLLECT_REQUEST_INIT", sizeof(gpuhash_collect_request), err))
      return s;
    return collect(r, err);
  });
}
