// Exclusive operations on a whole table: export, size, clear, reserve, shrink, flush, check, statistics.
#include <cstdint>

#include "libgpuhash/src/answers.hpp"
#include "libgpuhash/src/arrays.hpp"
#include "libgpuhash/src/config.hpp"

using namespace gpuhash;

namespace {

gpuhash_status check_call(const gpuhash_table* table, const void* stream, gpuhash_error* err) {
  if (const auto status = begin_call(table, err)) return status;
  return check_stream(table->device, stream, err);
}

}  // namespace

extern "C" gpuhash_status gpuhash_export(gpuhash_table* table, size_t* n, void* keys, void* out_values, void* stream,
                                         gpuhash_error* err) {
  if (const auto status = check_call(table, stream, err)) return status;
  if (n == nullptr) return fail(err, GPUHASH_INVALID_ARGUMENT, "n is NULL; it receives the number of pairs");
  if (keys == nullptr && out_values != nullptr)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "out_values is given, but keys is NULL, which asks for the number only");
  if (keys != nullptr) {
    array_check check(table->device, err);
    check.take({"keys", keys, *n, table->key_bytes, true});
    check.take({"out_values", out_values, *n, table->value_bytes, true});
    if (const auto status = check.result()) return status;
  }
  return ask_export(*table, n, keys, out_values, stream, err);
}

extern "C" gpuhash_status gpuhash_export_part(gpuhash_table* table, gpuhash_export_cursor* cursor, size_t* n,
                                              void* keys, void* out_values, void* stream, gpuhash_error* err) {
  if (const auto status = check_call(table, stream, err)) return status;
  if (table->type->api.export_part == nullptr)
    return fail(err, GPUHASH_UNSUPPORTED, "backend '%s' does not have export_part, but export",
                table->type->name.c_str());
  if (cursor == nullptr || cursor->struct_size != sizeof *cursor || cursor->state > GPUHASH_EXPORT_CHANGED)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "cursor is %s; begin with GPUHASH_EXPORT_CURSOR_INIT",
                cursor == nullptr ? "NULL" : "none of this version");
  if (cursor->order > GPUHASH_EXPORT_AS_STORED)
    return fail(err, GPUHASH_INVALID_ARGUMENT,
                "cursor: %u is no order; pass GPUHASH_EXPORT_SPREAD or GPUHASH_EXPORT_AS_STORED", cursor->order);
  const bool begins = cursor->state == GPUHASH_EXPORT_BEGINS;
  if (!begins && cursor->table != table)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "cursor is of another table; begin with GPUHASH_EXPORT_CURSOR_INIT");
  if (cursor->state == GPUHASH_EXPORT_CHANGED)
    return fail(err, GPUHASH_INVALID_ARGUMENT,
                "the table has changed since the export's first part; begin with GPUHASH_EXPORT_CURSOR_INIT");
  if (n == nullptr || *n == 0)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "%s; it says for how many pairs there is room",
                n == nullptr ? "n is NULL" : "*n is 0");
  array_check check(table->device, err);
  check.need({"keys", keys, *n, table->key_bytes, true});
  check.take({"out_values", out_values, *n, table->value_bytes, true});
  if (const auto status = check.result()) return status;
  if (cursor->state == GPUHASH_EXPORT_DONE) {
    *n = 0;
    return GPUHASH_OK;
  }
  gpuhash_export_cursor next = *cursor;
  if (begins) next = {sizeof next, table, GPUHASH_EXPORT_BEGINS, cursor->order, 0, 0, 0, 0};
  const auto status = ask_export_part(*table, next, n, keys, out_values, stream, err);
  if (status == GPUHASH_OK || next.state == GPUHASH_EXPORT_CHANGED) *cursor = next;
  return status;
}

extern "C" gpuhash_status gpuhash_size(gpuhash_table* table, uint64_t* size, gpuhash_error* err) {
  if (const auto status = begin_call(table, err)) return status;
  if (size == nullptr) return fail(err, GPUHASH_INVALID_ARGUMENT, "size is NULL");
  gpuhash_table_info info;
  if (const auto status = ask_info(*table, info, err)) return status;
  *size = info.size;
  return GPUHASH_OK;
}

extern "C" gpuhash_status gpuhash_clear(gpuhash_table* table, void* stream, gpuhash_error* err) {
  if (const auto status = check_call(table, stream, err)) return status;
  return ask(*table->type, "clear", err,
             [&](gpuhash_error* said) { return table->type->api.clear(table->impl, stream, said); });
}

extern "C" gpuhash_status gpuhash_reserve(gpuhash_table* table, uint64_t keys, void* stream, gpuhash_error* err) {
  if (const auto status = check_call(table, stream, err)) return status;
  if (const auto status = check_capacity("keys", keys, table->key_bytes, table->value_bytes, err)) return status;
  return ask(*table->type, "reserve", err,
             [&](gpuhash_error* said) { return table->type->api.reserve(table->impl, keys, stream, said); });
}

extern "C" gpuhash_status gpuhash_shrink(gpuhash_table* table, void* stream, gpuhash_error* err) {
  if (const auto status = check_call(table, stream, err)) return status;
  return ask(*table->type, "shrink", err,
             [&](gpuhash_error* said) { return table->type->api.shrink(table->impl, stream, said); });
}

extern "C" gpuhash_status gpuhash_flush(gpuhash_table* table, void* stream, gpuhash_error* err) {
  if (const auto status = check_call(table, stream, err)) return status;
  if (table->type->api.flush == nullptr)
    return fail(err, GPUHASH_UNSUPPORTED, "backend '%s' does not have flush", table->type->name.c_str());
  return ask(*table->type, "flush", err,
             [&](gpuhash_error* said) { return table->type->api.flush(table->impl, stream, said); });
}

extern "C" gpuhash_status gpuhash_flush_range(gpuhash_table* table, uint64_t first, uint64_t count, void* stream,
                                              gpuhash_error* err) {
  if (const auto status = check_call(table, stream, err)) return status;
  if (table->type->api.flush_range == nullptr)
    return fail(err, GPUHASH_UNSUPPORTED, "backend '%s' does not have flush_range", table->type->name.c_str());
  if (first > UINT64_MAX - count)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "%llu buckets from bucket %llu on overflow 64 bits",
                static_cast<unsigned long long>(count), static_cast<unsigned long long>(first));
  return ask(*table->type, "flush_range", err, [&](gpuhash_error* said) {
    return table->type->api.flush_range(table->impl, first, count, stream, said);
  });
}

extern "C" gpuhash_status gpuhash_check(gpuhash_table* table, gpuhash_error* err) {
  if (const auto status = begin_call(table, err)) return status;
  return ask(*table->type, "check", err,
             [&](gpuhash_error* said) { return table->type->api.check(table->impl, said); });
}

extern "C" gpuhash_status gpuhash_stats(gpuhash_table* table, size_t* n, gpuhash_stat* out, gpuhash_error* err) {
  if (const auto status = begin_call(table, err)) return status;
  if (n == nullptr) return fail(err, GPUHASH_INVALID_ARGUMENT, "n is NULL; it receives the number of figures");
  if (out == nullptr && *n != 0)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "out is NULL, but *n promises room for %zu figures", *n);
  return ask_stats(*table, n, out, err);
}

extern "C" gpuhash_status gpuhash_histogram(gpuhash_table* table, size_t n, uint64_t* counts, gpuhash_error* err) {
  if (const auto status = begin_call(table, err)) return status;
  if (n == 0) return fail(err, GPUHASH_INVALID_ARGUMENT, "n is 0; a histogram needs at least one entry");
  array_check check({GPUHASH_CPU, 0}, err);
  check.need({"counts", counts, n, sizeof(uint64_t), true});
  if (const auto status = check.result()) return status;
  return ask(*table->type, "histogram", err,
             [&](gpuhash_error* said) { return table->type->api.histogram(table->impl, n, counts, said); });
}
