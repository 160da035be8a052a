// Operations on arrays: gpuhash_run, which checks a batch and hands it to the plugin, and a function for each
// operation.
#include "libgpuhash/src/batch.hpp"

#include <cstdint>
#include <vector>

#include "libgpuhash/src/answers.hpp"
#include "libgpuhash/src/arrays.hpp"
#include "libgpuhash/src/config.hpp"
#include "libgpuhash/src/structs.hpp"
#include "libgpuhash/src/team.hpp"
#include "libgpuhash/tile/kinds.hpp"

namespace gpuhash {
namespace {

gpuhash_status refuse_code(uint32_t op, gpuhash_error* err) {
  if (op != GPUHASH_OP_NOP && op < kinds_end) [[likely]]
    return GPUHASH_OK;
  return fail(err, GPUHASH_INVALID_ARGUMENT, "op is %u; operations of a batch are 1 to %u", op, kinds_end - 1);
}

[[gnu::always_inline]] inline gpuhash_status check_op(const gpuhash_table& table, const gpuhash_batch& batch,
                                                      gpuhash_error* err) {
  if (const auto status = refuse_code(batch.op, err)) return status;
  const kind_row& rule = kind_rows[batch.op];
  if ((table.type->api.traits & rule.trait) == 0) [[unlikely]]
    return check_trait(*table.type, rule.trait, rule.name, err);
  if ((batch.flags & ~uint32_t{GPUHASH_DEDUP_LAST}) != 0) [[unlikely]]
    return fail(err, GPUHASH_INVALID_ARGUMENT, "flags is 0x%x; only GPUHASH_DEDUP_LAST (0x1) is known", batch.flags);
  if (!rule.joins) return GPUHASH_OK;
  if (batch.combine > GPUHASH_MAX)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "combine is %u; use GPUHASH_ADD (0), _MIN (1) or _MAX (2)",
                batch.combine);
  if (batch.value_type > GPUHASH_FLOAT)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "value_type is %u; use GPUHASH_UINT (0), _INT (1) or _FLOAT (2)",
                batch.value_type);
  if (table.value_bytes == 0 && batch.op == GPUHASH_OP_ACCUMULATE)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "accumulate needs values, but the table is a set (value_bytes is 0)");
  return GPUHASH_OK;
}

[[gnu::cold]] gpuhash_status refuse_unused(const char* field, const kind_row& rule, gpuhash_error* err) {
  return fail(err, GPUHASH_INVALID_ARGUMENT, "%s is given, but %s takes none; pass NULL", field, rule.name);
}

[[gnu::always_inline]] inline gpuhash_status check_arrays(const gpuhash_table& table, const gpuhash_batch& batch,
                                                          const batch_place& place, gpuhash_error* err) {
  const kind_row& rule = kind_rows[batch.op];
  const size_t n = batch.n;
  array_check check(place.device, err);
  check.need({"keys", batch.keys, n, table.key_bytes, false});
  if (rule.operand && !place.values_apart)
    check.need({"values", batch.values, n, table.value_bytes, false});
  else if (batch.values != nullptr)
    return refuse_unused("values", rule, err);
  if (rule.answers_value)
    check.take({"out_values", batch.out_values, n, table.value_bytes, true});
  else if (rule.answers_count)
    check.need({"out_values", batch.out_values, n, sizeof(uint64_t), true});
  else if (batch.out_values != nullptr)
    return refuse_unused("out_values", rule, err);
  const array status{"out_status", batch.out_status, n, 1, true};
  place.want_status ? check.need(status) : check.take(status);
  if (batch.op == GPUHASH_OP_EXECUTE)
    check.need({"ops", batch.ops, n, 1, false});
  else if (batch.ops != nullptr)
    return refuse_unused("ops", rule, err);
  return check.result();
}

gpuhash_op_info info_of(const kind_row& row) {
  const bool any = row.code == mixed;
  uint32_t facts = 0;
  if (any || row.adds) facts |= GPUHASH_FACT_ADDS;
  if (any || row.erases) facts |= GPUHASH_FACT_ERASES;
  if (any || row.changes) facts |= GPUHASH_FACT_CHANGES;
  if (row.operand) facts |= GPUHASH_FACT_TAKES_VALUES;
  if (row.answers_value) facts |= GPUHASH_FACT_ANSWERS_VALUES;
  if (row.answers_count) facts |= GPUHASH_FACT_ANSWERS_COUNTS;
  if (row.in_mixed) facts |= GPUHASH_FACT_IN_EXECUTE;
  return {sizeof(gpuhash_op_info), row.name, row.trait, facts};
}

// ---- op codes that execute does not have ------------------------------------------------------------------------------
//
// The rest of the batch is carried out, then the call refuses. On CUDA the codes lie in the device's memory, and the
// kernels set the status bytes.

bool is_bad(uint8_t op, bool accumulates) {
  return op > GPUHASH_OP_ERASE || (op == GPUHASH_OP_ACCUMULATE && !accumulates);
}

const char* why_bad(uint8_t op) {
  return op == GPUHASH_OP_ACCUMULATE ? "needs values of 4 or 8 bytes, and a backend with the trait ACCUMULATE"
                                     : "execute does not have: 0 (NOP) to 5 (ERASE) are legal";
}

bool has_bad_op(const gpuhash_table& table, const gpuhash_batch& batch) {
  if (batch.op != GPUHASH_OP_EXECUTE) return false;
  const bool allowed = accumulates(table);
  const uint8_t bad = any_of(table.threads, batch.n, [&](size_t begin, size_t end) {
    uint8_t any = 0;  // bytes, for vectors
    for (size_t i = begin; i < end; ++i) any |= uint8_t(is_bad(batch.ops[i], allowed));
    return any;
  });
  return bad != 0;
}

// Plugins do nothing for an element with such a code, whatever status they give it.
[[gnu::cold]] gpuhash_status run_and_refuse(const gpuhash_table& table, const gpuhash_batch& batch,
                                            gpuhash_error* err) {
  const bool allowed = accumulates(table);
  const std::vector<uint8_t> given(batch.ops, batch.ops + batch.n);
  std::vector<uint8_t> legal = given;
  size_t first = batch.n, bad = 0;
  for (size_t i = batch.n; i-- > 0;) {
    if (!is_bad(given[i], allowed)) continue;
    legal[i] = GPUHASH_OP_NOP;
    first = i;
    ++bad;
  }
  gpuhash_batch rest = batch;
  rest.ops = legal.data();
  const auto status = ask_run(table, rest, "execute", err);
  for (size_t i = 0; i < batch.n && batch.out_status != nullptr; ++i)
    if (is_bad(given[i], allowed)) batch.out_status[i] = GPUHASH_ELEMENT_BAD_OP;
  if (batch.counts != nullptr) batch.counts->failed += bad;
  if (status != GPUHASH_OK || bad == 0) return status;
  return fail(err, GPUHASH_INVALID_ARGUMENT,
              "ops[%zu] is %u, which %s; %zu of %zu elements have status 4 and were left out, the others are done",
              first, unsigned{given[first]}, why_bad(given[first]), bad, batch.n);
}

}  // namespace

gpuhash_status check_batch(const gpuhash_table& table, const gpuhash_batch& batch, const batch_place& place,
                           gpuhash_error* err) {
  if (const auto status = check_op(table, batch, err)) return status;
  return check_arrays(table, batch, place, err);
}

gpuhash_status refuse_bad_ops(const gpuhash_table& table, const gpuhash_batch& batch, gpuhash_error* err) {
  if (!has_bad_op(table, batch)) return GPUHASH_OK;
  const bool allowed = accumulates(table);
  size_t first = 0;
  while (!is_bad(batch.ops[first], allowed)) ++first;
  return fail(err, GPUHASH_INVALID_ARGUMENT, "ops[%zu] is %u, which %s; nothing was carried out", first,
              unsigned{batch.ops[first]}, why_bad(batch.ops[first]));
}

}  // namespace gpuhash

using namespace gpuhash;

extern "C" gpuhash_status gpuhash_run(gpuhash_table* table, const gpuhash_batch* batch, gpuhash_error* err) {
  if (const auto status = begin_call(table, err)) return status;
  gpuhash_batch copy;
  if (batch == nullptr || batch->struct_size != sizeof *batch) [[unlikely]] {  // another version's, or none
    if (const auto status = read_struct(batch, copy, "batch", "GPUHASH_BATCH_INIT", sizeof copy, err)) return status;
    batch = &copy;
  }
  if (const auto status = check_op(*table, *batch, err)) return status;
  if (const auto status = check_stream(table->device, batch->stream, err)) return status;
  if (batch->counts != nullptr) *batch->counts = {0, 0};
  if (const auto status = check_arrays(*table, *batch, {table->device}, err)) return status;
  if (batch->n == 0) return GPUHASH_OK;
  if (table->device.kind == GPUHASH_CPU && has_bad_op(*table, *batch)) [[unlikely]]
    return guarded(err, [&] { return run_and_refuse(*table, *batch, err); });
  return ask_run(*table, *batch, kind_rows[batch->op].name, err);
}

extern "C" gpuhash_status gpuhash_op_get_info(uint32_t op, gpuhash_op_info* out, gpuhash_error* err) {
  return guarded(err, [&] {
    if (const auto status = check_output(out, "out", err)) return status;
    if (const auto status = refuse_code(op, err)) return status;
    write_struct(out, info_of(kind_rows[op]));
    return gpuhash_status{GPUHASH_OK};
  });
}

namespace {

gpuhash_batch batch_of(uint32_t op, size_t n, const void* keys, const void* values, void* out_values,
                       uint8_t* out_status, void* stream) {
  return {sizeof(gpuhash_batch), op, 0, n, keys, values, out_values, out_status, nullptr, 0, 0, stream, nullptr};
}

}  // namespace

extern "C" gpuhash_status gpuhash_insert(gpuhash_table* table, size_t n, const void* keys, const void* values,
                                         uint8_t* status, void* stream, gpuhash_error* err) {
  const auto batch = batch_of(GPUHASH_OP_INSERT, n, keys, values, nullptr, status, stream);
  return gpuhash_run(table, &batch, err);
}

extern "C" gpuhash_status gpuhash_insert_or_assign(gpuhash_table* table, size_t n, const void* keys, const void* values,
                                                   uint8_t* status, void* stream, gpuhash_error* err) {
  const auto batch = batch_of(GPUHASH_OP_ASSIGN, n, keys, values, nullptr, status, stream);
  return gpuhash_run(table, &batch, err);
}

extern "C" gpuhash_status gpuhash_insert_multi(gpuhash_table* table, size_t n, const void* keys, const void* values,
                                               uint8_t* status, void* stream, gpuhash_error* err) {
  const auto batch = batch_of(GPUHASH_OP_INSERT_MULTI, n, keys, values, nullptr, status, stream);
  return gpuhash_run(table, &batch, err);
}

extern "C" gpuhash_status gpuhash_accumulate(gpuhash_table* table, size_t n, const void* keys, const void* values,
                                             uint32_t combine, uint32_t value_type, uint8_t* status, void* stream,
                                             gpuhash_error* err) {
  auto batch = batch_of(GPUHASH_OP_ACCUMULATE, n, keys, values, nullptr, status, stream);
  batch.combine = combine;
  batch.value_type = value_type;
  return gpuhash_run(table, &batch, err);
}

extern "C" gpuhash_status gpuhash_find(gpuhash_table* table, size_t n, const void* keys, void* out_values,
                                       uint8_t* found, void* stream, gpuhash_error* err) {
  const auto batch = batch_of(GPUHASH_OP_FIND, n, keys, nullptr, out_values, found, stream);
  return gpuhash_run(table, &batch, err);
}

extern "C" gpuhash_status gpuhash_contains(gpuhash_table* table, size_t n, const void* keys, uint8_t* found,
                                           void* stream, gpuhash_error* err) {
  const auto batch = batch_of(GPUHASH_OP_FIND, n, keys, nullptr, nullptr, found, stream);
  return gpuhash_run(table, &batch, err);
}

extern "C" gpuhash_status gpuhash_count(gpuhash_table* table, size_t n, const void* keys, uint64_t* counts,
                                        void* stream, gpuhash_error* err) {
  const auto batch = batch_of(GPUHASH_OP_COUNT, n, keys, nullptr, counts, nullptr, stream);
  return gpuhash_run(table, &batch, err);
}

extern "C" gpuhash_status gpuhash_erase(gpuhash_table* table, size_t n, const void* keys, uint8_t* erased, void* stream,
                                        gpuhash_error* err) {
  const auto batch = batch_of(GPUHASH_OP_ERASE, n, keys, nullptr, nullptr, erased, stream);
  return gpuhash_run(table, &batch, err);
}

extern "C" gpuhash_status gpuhash_erase_all(gpuhash_table* table, size_t n, const void* keys, uint8_t* erased,
                                            void* stream, gpuhash_error* err) {
  const auto batch = batch_of(GPUHASH_OP_ERASE_ALL, n, keys, nullptr, nullptr, erased, stream);
  return gpuhash_run(table, &batch, err);
}

extern "C" gpuhash_status gpuhash_pop(gpuhash_table* table, size_t n, const void* keys, void* out_values,
                                      uint8_t* popped, void* stream, gpuhash_error* err) {
  const auto batch = batch_of(GPUHASH_OP_POP, n, keys, nullptr, out_values, popped, stream);
  return gpuhash_run(table, &batch, err);
}

extern "C" gpuhash_status gpuhash_find_or_insert(gpuhash_table* table, size_t n, const void* keys, const void* values,
                                                 void* out_values, uint8_t* inserted, void* stream,
                                                 gpuhash_error* err) {
  const auto batch = batch_of(GPUHASH_OP_FIND_OR_INSERT, n, keys, values, out_values, inserted, stream);
  return gpuhash_run(table, &batch, err);
}

extern "C" gpuhash_status gpuhash_execute(gpuhash_table* table, size_t n, const uint8_t* ops, const void* keys,
                                          const void* values, void* out_values, uint8_t* status, void* stream,
                                          gpuhash_error* err) {
  auto batch = batch_of(GPUHASH_OP_EXECUTE, n, keys, values, out_values, status, stream);
  batch.ops = ops;
  return gpuhash_run(table, &batch, err);
}
