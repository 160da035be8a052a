// Reading a request's arrays and writing its results, one element at a time.
#pragma once
#include "libgpuhash/kit/engine.hpp"
#include "libgpuhash/tile/tile.hpp"

GH_BEGIN

template <class T>
GH_FN T read_element(const void* p, u32 bytes, size_t i) {
  if constexpr (sizeof(T) == 8)
    if (bytes == 8) return static_cast<const T*>(p)[i];
  return static_cast<const u32*>(p)[i];
}
template <class T>
GH_FN void write_element(void* p, u32 bytes, size_t i, T v) {
  if constexpr (sizeof(T) == 8)
    if (bytes == 8) {
      static_cast<T*>(p)[i] = v;
      return;
    }
  static_cast<u32*>(p)[i] = u32(v);
}

template <class F>
GH_FN typename F::key read_key(const request& q, size_t i) {
  return read_element<typename F::key>(q.keys, q.key_bytes, i);
}
template <class F>
GH_FN typename F::value read_value(const request& q, size_t i) {
  if constexpr (!F::has_value)
    return 0;
  else
    return q.values ? read_element<typename F::value>(q.values, q.value_bytes, i) : 0;
}

// The op code of element i of a mixed batch. One that the table does not have is a NOP here; on the CPU the core refuses
// it, on CUDA it is only seen here, and the driver says bad_op. (The slots of a set may have values all the same.)
static_assert(mixable_kinds == (2u << erase) - 1);
GH_FN bool is_op(const request& q, u32 code) {
  return q.kind != mixed || (code <= erase && !(q.is_set && code == accumulate));
}
// What the kernel of mixed batches carries out for element i: its own operation, or that of the batch (kernel_of).
GH_FN u32 op_of(const request& q, size_t i) { return q.kind == mixed ? q.ops[i] : q.kind; }
GH_FN u32 read_op(const request& q, size_t i) {
  const u32 code = q.ops[i];
  return code <= erase ? code : u32(nop);
}

// The answer of element i. Counts are 8 bytes whatever the table's values are.
template <class F>
GH_FN void write_result(const request& q, size_t i, const result<F>& r) {
  if (q.status) q.status[i] = u8(r.status);
  if (!q.out_values) return;
  if (q.kind == count)
    static_cast<u64*>(q.out_values)[i] = r.value;
  else
    write_element<typename F::value>(q.out_values, q.value_bytes, i, r.value);
}
// A retry serves the elements that found no room before.
GH_FN bool lacks_room(u32 status) { return status == full || status == no_memory; }
GH_FN bool has_work(const request& q, size_t i) { return !q.only_failed || lacks_room(q.status[i]); }

// The i-th cell in an order.
GH_FN u64 cell_at(const cell_order& o, u64 i) {
  return o.stride ? i / o.line_cells * o.stride % o.lines * o.line_cells + i % o.line_cells : i;
}

GH_FN joiner joiner_of(const request& q) {
  return {q.combine, q.value_type, q.value_bytes == 4, nullptr, q.keys_stay != 0};
}

GH_END
