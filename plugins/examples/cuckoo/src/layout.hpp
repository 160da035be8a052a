// cuckoo: the bytes of the table.
//
//   slots   | R slots | ... | R slots | R slots | ... | R slots | R slots | ... |    one word each (tile/types.hpp)
//             row 0           row N-1   stash                     locks             a row is one cache line of 64 bytes
//   side    | key ~0 | key ~0-1 |       the two keys whose patterns mark empty and erased slots, so that none is reserved
//
// A key has `choices` rows, one for each hash function. Its path is these rows in their order, and then the rows of the
// stash, in theirs. A lock is a slot that is EMPTY while it is free; each guards every n_locks-th row.
//
// Invariants (cited in ops.hpp, tested by `broken` in structure.hpp):
//   I1  A slot goes EMPTY -> key, and never becomes EMPTY again until an exclusive rebuild.
//   I2  When a slot became k's, every slot before it on k's path was already not EMPTY. By I1 it still is.
//   I3  A key has one slot, live or tombstone, but while it is moved: then a copy lies further on its path (ops.hpp).
//   I4  A slot of a row becomes another key's only while that row's lock is held.
#pragma once
#include "libgpuhash/hash/hash.hpp"

GH_BEGIN

template <class F>
struct cuckoo_table {
  using format = F;
  using key = typename F::key;
  using word = typename F::word;
  using index = typename F::index;

  word* slots;
  word* side;
  u64 seed;
  u64 n_slots;  // of rows, stash and locks
  word* locks;
  index rows;
  u32 stash_rows;
  u32 n_locks;
  u32 choices;  // rows of a key

  static constexpr u32 kinds =
      1u << insert | 1u << assign | 1u << accumulate | 1u << find | 1u << erase | 1u << count | 1u << mixed;
  static constexpr bool side_slots = true;
  static constexpr bool cells_are_slots = true;

  // Every slot, for export and rebuild: emit(key, value) for the live pair of cell i, if there is one.
  GH_FN u64 cells() const { return n_slots; }
  template <class Mem, class Emit>
  GH_FN void each_live(u64 i, Emit emit) const {
    const word w = Mem::template load<order::relaxed>(slots + i);
    if (is_live<F>(w)) emit(F::key_of(w), F::value_of(w));
  }

  GH_FN index row_of(key k, u32 choice) const {
    return reduce(index(hash(k, seed + choice * 0x9e3779b97f4a7c15ull)), rows);
  }
  GH_FN index home(key k) const { return row_of(k, 0); }
  GH_FN word* lock_of(index row) const { return locks + u64(row) % n_locks; }
};

GH_END
