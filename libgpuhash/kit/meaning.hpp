// What each kind of operation does to the slot of one key. All structures and the side slots share these functions.
#pragma once
#include "libgpuhash/tile/kinds.hpp"

GH_BEGIN

// Does an operation of this kind write, given whether it found its key alive?
GH_FN bool writes(u32 k, bool alive) { return in_kinds(k, alive ? updating_kinds : adding_kinds); }

// The status of an operation of this kind that ends having found its key alive, or not. nop has looked at one row only.
GH_FN u32 status_of(u32 k, bool alive) { return k != nop && (in_kinds(k, adding_kinds) ? !alive : alive) ? yes : no; }

// Does a kernel of this kind have to know the value of a key that is there?
template <u32 Kind>
inline constexpr bool sees_value = in_kinds(Kind, answering_kinds | joining_kinds);
// Has an operation that ends with this status a value to answer?
GH_FN bool answers_with(u32 k, u32 status) {
  return in_kinds(k, answering_kinds) && (in_kinds(k, adding_kinds) ? status <= yes : status == yes);
}

// The value that an operation answers that found its key alive with the value `seen`, or did not find it and has added
// its own value.
template <class V>
GH_FN V answer_of(u32 kd, bool alive, V seen, V own) {
  if (in_kinds(kd, counting_kinds)) return V(alive);
  return !in_kinds(kd, answering_kinds) ? V(0) : alive ? seen : in_kinds(kd, adding_kinds) ? own : V(0);
}

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
GH_FN bool adds_integers(joiner j) { return j.combine == 0 && j.type != 2; }
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

// Operands of equal keys that reach the table with the first of them, in the order in which they take effect. The numbers
// of elements are those of a block; an element follows one before it, so that 0 is the end.
template <class V>
struct operands {
  const V* value;
  const u8* next;
  u8 first;
};

// Join one operand after another, as if each had come by itself: whatever serial order means for overflow, rounding and
// NaN, it means here.
template <class V>
GH_FN V join_others(joiner j, V a) {
  const auto& o = *static_cast<const operands<V>*>(j.others);
  for (u32 i = o.first; i; i = o.next[i]) a = join(j, a, o.value[i]);
  return a;
}

// Two operands that reach the table as one. In whichever order, a NaN operand of min and max loses.
template <class V>
GH_FN V join_operands(joiner j, V a, V b) {
  using real = std::conditional_t<sizeof(V) == 4, float, double>;
  if constexpr (sizeof(V) == 8)
    if (j.narrow) return join_operands<u32>(j, u32(a), u32(b));
  if (j.type == 2 && j.combine != 0 && bits_as<real>(a) != bits_as<real>(a)) return b;
  return join(j, a, b);
}

// May this operand be joined with others before it reaches the table? Not if it is so large a number to add, or an infinity
// or NaN, that the sum of operands might leave the range where the stored value would have kept it inside: 2^log_many
// operands that may be joined add up to less than half of the largest number.
template <class V>
GH_FN bool may_join_first(joiner j, V v, u32 log_many = 16) {
  if constexpr (sizeof(V) == 8)
    if (j.narrow) return may_join_first<u32>(j, u32(v), log_many);
  if (j.type != 2 || j.combine != 0) return true;
  constexpr u32 fraction_bits = sizeof(V) == 4 ? 23 : 52, exponents = sizeof(V) == 4 ? 255 : 2047;
  return u32(v >> fraction_bits & exponents) < exponents - log_many - 2;
}

// Where only the values of slots that have a key change, accumulate and assign may change a value by one instruction, which
// never has to be repeated, instead of swapping the word. Many that want one slot wait for each other much less then.
template <class Tile, u32 Kind>
inline constexpr bool updates_in_place =
    Tile::format::has_value && (Kind == accumulate || Kind == assign) && requires { Tile::mem::only_values_change; };
template <class Tile, u32 Kind>
GH_FN bool changes_in_place(joiner j) {
  return (Tile::mem::only_values_change || j.keys_stay) && (Kind == assign || adds_integers(j));
}
// The first hit is k's slot.
template <u32 Kind, class Tile, class Row, class Hits, class Key, class Value>
GH_FN void update(Tile& tile, bool go, typename Tile::word* line, const Row& row, const Hits& h, Key k, Value v,
                  bool narrow) {
  if constexpr (Kind == accumulate)
    tile.add(go, line, row, h, v, narrow);
  else
    tile.replace(go, line, row, h, Tile::format::make(k, v));
}

// The word that an operation wants to leave in the slot of key k.
template <class F>
GH_FN typename F::word wanted(u32 kd, joiner j, bool alive, typename F::value seen, typename F::key k,
                              typename F::value v) {
  if (in_kinds(kd, erasing_kinds)) return tombstone<F>(k);
  if (kd != accumulate) return F::make(k, v);
  const auto joined = alive ? join(j, seen, v) : v;
  return F::make(k, j.others ? join_others(j, joined) : joined);
}

GH_END
