// Large batches: combining the operands of equal keys, in the memory of a block.
//
// Three kernels do so: divide for frequent keys, combine_all for a whole batch, combine_partitions for a partition.
#pragma once
#include "libgpuhash/drive/bulk/work.cuh"

GH_BEGIN

// The operand that changes nothing when it is combined with another one.
template <class V>
GH_FN V no_operand_of(joiner j) {
  if constexpr (sizeof(V) == 8)
    if (j.narrow) return no_operand_of<u32>(j);
  constexpr V sign = V(1) << (8 * sizeof(V) - 1);
  if (j.type == 2) return j.combine == 0 ? sign : V(~V(0) >> 1);  // -0, and a NaN
  if (j.combine == 0) return 0;
  const V least = j.type == 1 ? sign : V(0);
  return j.combine == 1 ? V(~least) : least;
}

// Of 2^28 operands that may be combined none takes the sum out of range where the stored value would have kept it
// inside.
inline constexpr u32 log_combined = 28;
static_assert(slice_at_most <= 1u << log_combined);

// Let a table of sums in a block's memory have no key.
template <class Key, class Value>
GH_FN void clear_sums(Key* keys, Value* sums, u32 slots, u32 threads, joiner j) {
  for (u32 i = threadIdx.x; i < slots; i += threads) {
    keys[i] = empty_key<Key>;
    sums[i] = no_operand_of<Value>(j);
  }
}

inline constexpr u32 combining_unit = 256;
inline constexpr u32 combine_tries = 16;  // slots that are tried for a key

// The slot of key k among the first `slots` of such a table, where it is put if it was not there (*there); or none.
template <class Key>
GH_FN u32 place_in_block(Key* keys, u32 slots, Key k, bool* there) {
  u32 at = reduce(u32(mix(Key(k ^ Key(0x2545f491u)))), slots);
  for (u32 tries = 0; tries < combine_tries; ++tries) {
    Key seen = static_cast<volatile Key*>(keys)[at];
    if (seen == empty_key<Key>) seen = atomicCAS(keys + at, empty_key<Key>, k);
    *there = seen == k;
    if (*there || seen == empty_key<Key>) return at;
    at = at + 1 == slots ? 0 : at + 1;
  }
  return none;
}

GH_END
