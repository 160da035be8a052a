// The C ABI of <gpuhash/columns.h>: arguments are checked here, locks are taken here.
#include "gpuhash/columns.h"

#include <sys/random.h>

#include <algorithm>
#include <mutex>
#include <new>
#include <vector>

#include "libgpuhash/columns/index.hpp"
#include "libgpuhash/columns/row_hash.hpp"
#include "libgpuhash/src/cpus.hpp"
#include "libgpuhash/src/structs.hpp"

using namespace gpuhash;
using namespace gpuhash::columns;

struct gpuhash_index {
  std::unique_ptr<columns::index> own;
};

namespace {

gpuhash_status check(const gpuhash_index* index, gpuhash_error* err) {
  if (index == nullptr) return fail(err, GPUHASH_INVALID_ARGUMENT, "index is NULL; make one with gpuhash_index_create");
  return refuse_forked(index->own->made_in, "index", err);
}

gpuhash_status read_config(const gpuhash_index_config* given, settings* out, gpuhash_error* err) {
  gpuhash_index_config c = GPUHASH_INDEX_CONFIG_INIT;
  if (given != nullptr)
    if (const gpuhash_status s = read_struct(given, c, "config", "GPUHASH_INDEX_CONFIG_INIT", sizeof(c), err)) return s;
  if (c.nulls > GPUHASH_NULLS_REFUSE)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "config.nulls is %u; it is one of GPUHASH_NULLS_GROUP, _DROP, _REFUSE",
                c.nulls);
  if (c.floats > GPUHASH_FLOATS_BITS || c.counts > 1)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "config.floats is %u and config.counts %u; each is 0 or 1", c.floats,
                c.counts);
  if (c.expected >= UINT32_MAX)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "config.expected is %llu; an index holds fewer than 2^32 keys",
                (unsigned long long)c.expected);
  while (c.seed == 0)
    if (getrandom(&c.seed, sizeof(c.seed), 0) != ssize_t{sizeof(c.seed)})
      return fail(err, GPUHASH_INTERNAL, "the system gives no random seed; set config.seed");
  *out = {c.nulls, c.floats, c.threads ? c.threads : default_threads(), c.counts != 0, c.expected, c.seed};
  return GPUHASH_OK;
}

// The rows of a call, in terms of the index.
gpuhash_status read_batch(const gpuhash_index* index, const ArrowSchema* type, const ArrowArray* array, row_type* t,
                          rows* r, gpuhash_error* err) {
  if (const gpuhash_status s = check(index, err)) return s;
  if (const gpuhash_status s = read_type(type, t, err)) return s;
  if (const gpuhash_status s = match(*t, index->own->type(), index->own->how().floats == GPUHASH_FLOATS_BITS, err))
    return s;
  return read_rows(array, *t, r, err);
}

// Keys of an index, as rows of another one.
struct copied_keys {
  ArrowSchema schema = {};
  ArrowArray array = {};
  std::vector<int64_t> counts;

  copied_keys() = default;
  copied_keys(const copied_keys&) = delete;
  copied_keys& operator=(const copied_keys&) = delete;
  ~copied_keys() {
    if (schema.release) schema.release(&schema);
    if (array.release) array.release(&array);
  }
};

// One piece of a merge: *n keys from number `first` on, or fewer. refuse_only: nothing is added, and *done says that no
// later piece has to be looked at.
gpuhash_status merge_piece(gpuhash_index* index, gpuhash_index* from, uint64_t first, bool refuse_only, uint64_t* n,
                           int64_t* ids, bool* done, gpuhash_error* err) {
  copied_keys keys;
  {
    std::shared_lock lock(from->own->mutex);
    *n = from->own->piece_of(first, *n);
    if (index->own->how().counts) {
      keys.counts.resize(*n);
      from->own->counts(first, *n, keys.counts.data());
    }
    if (const gpuhash_status s = from->own->keys(first, *n, &keys.schema, &keys.array)) return s;
  }
  row_type t;
  rows r;
  if (const gpuhash_status s = read_batch(index, &keys.schema, &keys.array, &t, &r, err)) return s;
  if (refuse_only) {
    *done = index->own->holds_all(t);
    return index->own->refuse_rows(t, r, int64_t(first), err);
  }
  std::unique_lock lock(index->own->mutex);
  return index->own->add(t, r, index->own->how().counts ? keys.counts.data() : nullptr, ids, err);
}

gpuhash_status refuse_ids(const gpuhash_index* index, size_t n, const int64_t* ids, gpuhash_error* err) {
  const uint64_t size = index->own->size();
  for (size_t i = 0; i < n; ++i)
    if (uint64_t(ids[i]) >= size)
      return fail(err, GPUHASH_INVALID_ARGUMENT, "ids[%zu] is %lld, and the index has %llu keys", i, (long long)ids[i],
                  (unsigned long long)size);
  return GPUHASH_OK;
}

gpuhash_status refuse_range(const gpuhash_index* index, const char* what, uint64_t first, uint64_t count,
                            gpuhash_error* err) {
  const uint64_t size = index->own->size();
  if (first <= size && count <= size - first) return GPUHASH_OK;
  return fail(err, GPUHASH_INVALID_ARGUMENT, "%s %llu to %llu are asked for, and the index has %llu", what,
              (unsigned long long)first, (unsigned long long)(first + count), (unsigned long long)size);
}

}  // namespace

extern "C" {

gpuhash_status gpuhash_index_create(const ArrowSchema* type, const gpuhash_index_config* config, gpuhash_index** out,
                                    gpuhash_error* err) {
  return guarded(err, [&]() -> gpuhash_status {
    if (out == nullptr) return fail(err, GPUHASH_INVALID_ARGUMENT, "out is NULL");
    *out = nullptr;
    settings s;
    row_type t;
    if (const gpuhash_status status = read_config(config, &s, err)) return status;
    if (const gpuhash_status status = read_type(type, &t, err)) return status;
    auto made = std::make_unique<gpuhash_index>();
    made->own = make_index(std::move(t), s);
    *out = made.release();
    return GPUHASH_OK;
  });
}

void gpuhash_index_destroy(gpuhash_index* index) { delete index; }

gpuhash_status gpuhash_index_add(gpuhash_index* index, const ArrowSchema* type, const ArrowArray* array, int64_t* ids,
                                 gpuhash_error* err) {
  return guarded(err, [&]() -> gpuhash_status {
    row_type t;
    rows r;
    const auto none_added = [&] {
      if (ids && array && array->release && array->length > 0) std::fill_n(ids, array->length, -2);
    };
    try {
      if (const gpuhash_status s = read_batch(index, type, array, &t, &r, err)) return s;
      std::unique_lock lock(index->own->mutex);
      const gpuhash_status s = index->own->add(t, r, nullptr, ids, err);
      if (s == GPUHASH_INVALID_ARGUMENT) none_added();
      return s;
    } catch (const std::bad_alloc&) {  // before the first is
      none_added();
      throw;
    }
  });
}

gpuhash_status gpuhash_index_find(gpuhash_index* index, const ArrowSchema* type, const ArrowArray* array, int64_t* ids,
                                  gpuhash_error* err) {
  return guarded(err, [&]() -> gpuhash_status {
    row_type t;
    rows r;
    if (const gpuhash_status s = read_batch(index, type, array, &t, &r, err)) return s;
    if (ids == nullptr && r.length > 0) return fail(err, GPUHASH_INVALID_ARGUMENT, "ids is NULL; find writes them");
    std::shared_lock lock(index->own->mutex);
    return index->own->find(r, ids);
  });
}

gpuhash_status gpuhash_index_contains(gpuhash_index* index, const ArrowSchema* type, const ArrowArray* array,
                                      uint8_t* mask, gpuhash_error* err) {
  return guarded(err, [&]() -> gpuhash_status {
    row_type t;
    rows r;
    if (const gpuhash_status s = read_batch(index, type, array, &t, &r, err)) return s;
    if (mask == nullptr && r.length > 0)
      return fail(err, GPUHASH_INVALID_ARGUMENT, "mask is NULL; contains writes a byte for each row");
    std::shared_lock lock(index->own->mutex);
    return index->own->contains(r, mask);
  });
}

gpuhash_status gpuhash_index_keys(gpuhash_index* index, uint64_t first, uint64_t count, ArrowSchema* type,
                                  ArrowArray* keys, gpuhash_error* err) {
  return guarded(err, [&]() -> gpuhash_status {
    if (const gpuhash_status s = check(index, err)) return s;
    if (type == nullptr || keys == nullptr) return fail(err, GPUHASH_INVALID_ARGUMENT, "type or keys is NULL");
    std::shared_lock lock(index->own->mutex);
    if (const gpuhash_status s = refuse_range(index, "keys", first, count, err)) return s;
    return index->own->keys(first, count, type, keys);
  });
}

gpuhash_status gpuhash_index_take(gpuhash_index* index, size_t n, const int64_t* ids, ArrowSchema* type,
                                  ArrowArray* keys, gpuhash_error* err) {
  return guarded(err, [&]() -> gpuhash_status {
    if (const gpuhash_status s = check(index, err)) return s;
    if (type == nullptr || keys == nullptr || (n > 0 && ids == nullptr))
      return fail(err, GPUHASH_INVALID_ARGUMENT, "ids, type or keys is NULL");
    std::shared_lock lock(index->own->mutex);
    if (const gpuhash_status s = refuse_ids(index, n, ids, err)) return s;
    return index->own->take(n, ids, type, keys);
  });
}

gpuhash_status gpuhash_index_counts(gpuhash_index* index, uint64_t first, uint64_t count, int64_t* counts,
                                    gpuhash_error* err) {
  return guarded(err, [&]() -> gpuhash_status {
    if (const gpuhash_status s = check(index, err)) return s;
    if (!index->own->how().counts)
      return fail(err, GPUHASH_UNSUPPORTED, "the index does not count; create it with config.counts = 1");
    std::shared_lock lock(index->own->mutex);
    if (counts == nullptr && count > 0) return fail(err, GPUHASH_INVALID_ARGUMENT, "counts is NULL");
    if (const gpuhash_status s = refuse_range(index, "counts of keys", first, count, err)) return s;
    index->own->counts(first, count, counts);
    return GPUHASH_OK;
  });
}

gpuhash_status gpuhash_index_merge(gpuhash_index* index, gpuhash_index* from, uint64_t first, uint64_t count,
                                   int64_t* ids, gpuhash_error* err) {
  return guarded(err, [&]() -> gpuhash_status {
    if (const gpuhash_status s = check(index, err)) return s;
    if (const gpuhash_status s = check(from, err)) return s;
    if (index->own->how().counts && !from->own->how().counts)
      return fail(err, GPUHASH_UNSUPPORTED,
                  "the index counts, and the one it is merged with does not; create both with config.counts = 1");
    {
      std::shared_lock lock(from->own->mutex);
      if (const gpuhash_status s = refuse_range(from, "keys", first, count, err)) return s;
    }
    if (ids) std::fill_n(ids, count, -2);
    for (const bool refuse_only : {true, false}) {
      bool done = false;
      uint64_t passed = 0, n;
      do {  // also of no keys, whose type may be refused
        n = count - passed;
        int64_t* const mine = ids ? ids + passed : nullptr;
        if (const gpuhash_status s = merge_piece(index, from, first + passed, refuse_only, &n, mine, &done, err))
          return s;
        passed += n;
      } while (passed < count && !done);
    }
    return GPUHASH_OK;
  });
}

gpuhash_status gpuhash_index_get_info(gpuhash_index* index, gpuhash_index_info* out, gpuhash_error* err) {
  return guarded(err, [&]() -> gpuhash_status {
    if (const gpuhash_status s = check(index, err)) return s;
    if (const gpuhash_status s = check_output(out, "out", err)) return s;
    std::shared_lock lock(index->own->mutex);
    write_struct(out, gpuhash_index_info{sizeof(gpuhash_index_info), index->own->size(), index->own->bytes(),
                                         index->own->null()});
    return GPUHASH_OK;
  });
}

gpuhash_status gpuhash_hash_rows(const ArrowSchema* type, const ArrowArray* array, uint32_t bits, uint64_t seed,
                                 uint32_t threads, uint64_t* out, gpuhash_error* err) {
  return guarded(err, [&]() -> gpuhash_status {
    if (bits != 64 && bits != 128) return fail(err, GPUHASH_INVALID_ARGUMENT, "bits is %u; a hash has 64 or 128", bits);
    row_type t;
    rows r;
    if (const gpuhash_status s = read_type(type, &t, err)) return s;
    if (const gpuhash_status s = read_rows(array, t, &r, err)) return s;
    if (out == nullptr && r.length > 0) return fail(err, GPUHASH_INVALID_ARGUMENT, "out is NULL; hashes go there");
    hash_rows(t, r, bits, seed, threads ? threads : default_threads(), out);
    return GPUHASH_OK;
  });
}

gpuhash_status gpuhash_rows_by_id(size_t n, const int64_t* ids, uint64_t size, int64_t* offsets, int64_t* rows,
                                  gpuhash_error* err) {
  return guarded(err, [&]() -> gpuhash_status {
    if (offsets == nullptr || (n > 0 && (ids == nullptr || rows == nullptr)))
      return fail(err, GPUHASH_INVALID_ARGUMENT, "ids, offsets or rows is NULL");
    std::fill_n(offsets, size + 1, 0);
    for (size_t i = 0; i < n; ++i) {
      if (ids[i] >= int64_t(size))
        return fail(err, GPUHASH_INVALID_ARGUMENT, "ids[%zu] is %lld, and there are %llu ids", i, (long long)ids[i],
                    (unsigned long long)size);
      if (ids[i] >= 0) ++offsets[ids[i] + 1];
    }
    for (uint64_t i = 0; i < size; ++i) offsets[i + 1] += offsets[i];
    for (size_t i = 0; i < n; ++i)
      if (ids[i] >= 0) rows[offsets[ids[i]]++] = int64_t(i);
    for (uint64_t i = size; i > 0; --i) offsets[i] = offsets[i - 1];
    offsets[0] = 0;
    return GPUHASH_OK;
  });
}

}  // extern "C"
