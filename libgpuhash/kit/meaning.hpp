// What each operation means for one key, wherever its slot lies: shared by all structures and by the side slots.
#pragma once
#include "libgpuhash/tile/types.hpp"

GH_BEGIN

GH_FN constexpr bool in_kinds(u32 k, u32 kinds) { return (kinds >> k) & 1; }
inline constexpr u32 adding_kinds = 1u << insert | 1u << assign | 1u << accumulate | 1u << insert_multi;
inline constexpr u32 updating_kinds = 1u << assign | 1u << accumulate | 1u << erase | 1u << erase_all;

// Does an operation of this kind write, given whether it found its key alive?
GH_FN bool writes(u32 k, bool alive) { return in_kinds(k, alive ? updating_kinds : adding_kinds); }

// The status of an operation of this kind that ends having found its key alive, or not. nop has looked at one row only.
GH_FN u32 status_of(u32 k, bool alive) { return k != nop && (in_kinds(k, adding_kinds) ? !alive : alive) ? yes : no; }

template <class V>
GH_FN V join_uint(u32 combine, V a, V b) {
  return combine == 0 ? a + b : combine == 1 ? (b < a ? b : a) : (a < b ? b : a);
}
template <class To, class From>
GH_FN To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  __builtin_memcpy(&to, &from, sizeof(to));
  return to;
}
// a is the stored value, b the operand. A NaN operand of min and max loses, a stored NaN stays.
template <class V>
GH_FN V join(joiner j, V a, V b) {
  using integer = std::conditional_t<sizeof(V) == 4, int32_t, int64_t>;
  using real = std::conditional_t<sizeof(V) == 4, float, double>;
  if constexpr (sizeof(V) == 8)
    if (j.narrow) return join<u32>(j, u32(a), u32(b));
  if (j.type == 1) return V(j.combine == 0 ? integer(a + b) : join_uint<integer>(j.combine, integer(a), integer(b)));
  if (j.type == 2) return bits_as<V>(join_uint<real>(j.combine, bits_as<real>(a), bits_as<real>(b)));
  return join_uint<V>(j.combine, a, b);
}

// Two operands that reach the table as one: in whichever order, a NaN operand of min and max loses.
template <class V>
GH_FN V join_operands(joiner j, V a, V b) {
  using real = std::conditional_t<sizeof(V) == 4, float, double>;
  if constexpr (sizeof(V) == 8)
    if (j.narrow) return join_operands<u32>(j, u32(a), u32(b));
  if (j.type == 2 && j.combine != 0 && bits_as<real>(a) != bits_as<real>(a)) return b;
  return join(j, a, b);
}

// The word that an operation wants to leave in the slot of key k.
template <class F>
GH_FN typename F::word wanted(u32 kd, joiner j, bool alive, typename F::value seen, typename F::key k,
                              typename F::value v) {
  if (kd == erase || kd == erase_all) return tombstone<F>(k);
  return F::make(k, kd == accumulate && alive ? join(j, seen, v) : v);
}

GH_END
