// The operations on arrays that are not a batch: find_all, lower_bound, ranges.
#include <cstdint>

#include "libgpuhash/src/answers.hpp"
#include "libgpuhash/src/arrays.hpp"
#include "libgpuhash/src/config.hpp"

namespace gpuhash {
namespace {

gpuhash_status check_call(const gpuhash_table* table, uint64_t trait, const char* op, const void* stream,
                          gpuhash_error* err) {
  if (const auto status = begin_call(table, err)) return status;
  if (const auto status = check_trait(*table->type, trait, op, err)) return status;
  return check_stream(table->device, stream, err);
}

}  // namespace
}  // namespace gpuhash

using namespace gpuhash;

extern "C" gpuhash_status gpuhash_find_all(gpuhash_table* table, size_t n, const void* keys, uint64_t* offsets,
                                           void* out_values, size_t max_values, void* stream, gpuhash_error* err) {
  if (const auto status = check_call(table, GPUHASH_TRAIT_MULTI, "find_all", stream, err)) return status;
  if (n == SIZE_MAX) return fail(err, GPUHASH_INVALID_ARGUMENT, "n is %zu, and offsets has n + 1 entries", n);
  array_check check(table->device, err);
  check.need({"keys", keys, n, table->key_bytes, false});
  check.need({"offsets", offsets, n + 1, sizeof(uint64_t), true});
  check.take({"out_values", out_values, max_values, table->value_bytes, true});
  if (const auto status = check.result()) return status;
  // Also for n = 0: offsets[0] is on the table's device.
  return ask_find_all(*table, n, keys, offsets, out_values, max_values, stream, err);
}

extern "C" gpuhash_status gpuhash_lower_bound(gpuhash_table* table, size_t n, const void* keys, void* out_keys,
                                              void* out_values, uint8_t* found, void* stream, gpuhash_error* err) {
  if (const auto status = check_call(table, GPUHASH_TRAIT_ORDERED, "lower_bound", stream, err)) return status;
  array_check check(table->device, err);
  check.need({"keys", keys, n, table->key_bytes, false});
  check.take({"out_keys", out_keys, n, table->key_bytes, true});
  check.take({"out_values", out_values, n, table->value_bytes, true});
  check.take({"found", found, n, 1, true});
  if (const auto status = check.result()) return status;
  if (n == 0) return GPUHASH_OK;
  return ask_lower_bound(*table, n, keys, out_keys, out_values, found, stream, err);
}

extern "C" gpuhash_status gpuhash_range(gpuhash_table* table, size_t n, const void* low, const void* high,
                                        size_t max_per_range, void* out_keys, void* out_values, uint64_t* counts,
                                        void* stream, gpuhash_error* err) {
  if (const auto status = check_call(table, GPUHASH_TRAIT_ORDERED, "range", stream, err)) return status;
  size_t room = 0;
  if (__builtin_mul_overflow(n, max_per_range, &room))
    return fail(err, GPUHASH_INVALID_ARGUMENT, "%zu ranges of up to %zu pairs overflow the address space", n,
                max_per_range);
  array_check check(table->device, err);
  check.need({"low", low, n, table->key_bytes, false});
  check.need({"high", high, n, table->key_bytes, false});
  check.take({"out_keys", out_keys, room, table->key_bytes, true});
  check.take({"out_values", out_values, room, table->value_bytes, true});
  check.need({"counts", counts, n, sizeof(uint64_t), true});
  if (const auto status = check.result()) return status;
  if (n == 0) return GPUHASH_OK;
  return ask_range(*table, n, low, high, max_per_range, out_keys, out_values, counts, stream, err);
}

extern "C" gpuhash_status gpuhash_neighbors(gpuhash_table* table, uint32_t which, size_t n, const void* keys,
                                            void* out_keys, void* out_values, uint8_t* found, void* stream,
                                            gpuhash_error* err) {
  if (const auto status = check_call(table, GPUHASH_TRAIT_ORDERED, "neighbors", stream, err)) return status;
  if (table->type->api.neighbors == nullptr)
    return fail(err, GPUHASH_UNSUPPORTED, "backend '%s' does not have neighbors, but lower_bound and range",
                table->type->name.c_str());
  if (which > GPUHASH_BELOW)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "which is %u; pass GPUHASH_AT_LEAST (0) to GPUHASH_BELOW (3)", which);
  array_check check(table->device, err);
  check.need({"keys", keys, n, table->key_bytes, false});
  check.take({"out_keys", out_keys, n, table->key_bytes, true});
  check.take({"out_values", out_values, n, table->value_bytes, true});
  check.take({"found", found, n, 1, true});
  if (const auto status = check.result()) return status;
  if (n == 0) return GPUHASH_OK;
  return ask_neighbors(*table, which, n, keys, out_keys, out_values, found, stream, err);
}

extern "C" gpuhash_status gpuhash_range_pairs(gpuhash_table* table, size_t n, const void* low, const void* high,
                                              const uint64_t* offsets, size_t max_pairs, void* out_keys,
                                              void* out_values, uint64_t* counts, void* stream, gpuhash_error* err) {
  if (const auto status = check_call(table, GPUHASH_TRAIT_ORDERED, "range_pairs", stream, err)) return status;
  if (table->type->api.range_pairs == nullptr)
    return fail(err, GPUHASH_UNSUPPORTED, "backend '%s' does not have range_pairs, but lower_bound and range",
                table->type->name.c_str());
  if (n == SIZE_MAX) return fail(err, GPUHASH_INVALID_ARGUMENT, "n is %zu, and offsets has n + 1 entries", n);
  array_check check(table->device, err);
  check.take({"low", low, n, table->key_bytes, false});
  check.take({"high", high, n, table->key_bytes, false});
  if (offsets != nullptr) {
    check.take({"offsets", offsets, n + 1, sizeof(uint64_t), false});
    check.take({"out_keys", out_keys, max_pairs, table->key_bytes, true});
    check.take({"out_values", out_values, max_pairs, table->value_bytes, true});
    check.take({"counts", counts, n, sizeof(uint64_t), true});
  } else {
    check.need({"counts", counts, n, sizeof(uint64_t), true});
  }
  if (const auto status = check.result()) return status;
  if (n == 0) return GPUHASH_OK;
  if (offsets == nullptr) {
    out_keys = nullptr;
    out_values = nullptr;
  }
  return ask(*table->type, "range_pairs", err, [&](gpuhash_error* said) {
    return table->type->api.range_pairs(table->impl, n, low, high, offsets, max_pairs, out_keys, out_values, counts,
                                        stream, said);
  });
}

extern "C" gpuhash_status gpuhash_range_all(gpuhash_table* table, size_t n, const void* low, const void* high,
                                            uint64_t* offsets, size_t max_pairs, void* out_keys, void* out_values,
                                            void* stream, gpuhash_error* err) {
  if (const auto status = check_call(table, GPUHASH_TRAIT_ORDERED, "range_all", stream, err)) return status;
  if (table->type->api.range_all == nullptr)
    return fail(err, GPUHASH_UNSUPPORTED, "backend '%s' does not have range_all, but range", table->type->name.c_str());
  if (n >= UINT32_MAX)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "%zu ranges are more than one call takes; pass fewer than 2^32 - 1", n);
  array_check check(table->device, err);
  check.take({"low", low, n, table->key_bytes, false});
  check.take({"high", high, n, table->key_bytes, false});
  check.need({"offsets", offsets, n + 1, sizeof(uint64_t), true});
  check.take({"out_keys", out_keys, max_pairs, table->key_bytes, true});
  check.take({"out_values", out_values, max_pairs, table->value_bytes, true});
  if (const auto status = check.result()) return status;
  // Also for n = 0: offsets[0] is on the table's device.
  return ask_range_all(*table, n, low, high, offsets, max_pairs, out_keys, out_values, stream, err);
}
