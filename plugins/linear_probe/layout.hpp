// linear_probe: the bytes of the table.
//
//   slots   | g slots | g slots | ...  | g slots |        one word each (tile/types.hpp), 128-byte aligned
//             group 0   group 1          group G-1
//   side    | key ~0 | key ~0-1 |                         kit/side.hpp
//
// A key's home is the first slot of one group of g slots (the option "row": 1 is the blog's layout, where each slot is a
// home). Its probe path is every slot from there on, in order, around the end. A visit reads a line: R slots aligned to R, of which
// those before the home are passed over on the first visit. So kernels of different widths work on one table.
//
// Invariants (cited in ops.hpp, tested by check):
//   I1  A slot goes EMPTY -> k, then between k's live words and k's tombstone. It never becomes EMPTY again, and never
//       another key's, until an exclusive rebuild. (In a set: EMPTY -> k -> DEAD, and DEAD stays.)
//   I2  When a slot became k's, every slot before it on k's probe path was already not EMPTY. By I1 it still is.
//   I3  So a key has at most one slot that is not DEAD to it: the first insert took the first EMPTY slot of the path.
//   I4  A path ends probe_limit slots after the start of the widest line that holds its home, whatever the width of the
//       lines that walk it. probe_limit >= n_slots + widest makes every path visit every slot.
#pragma once
#include "libgpuhash/hash/hash.hpp"
#include "libgpuhash/tile/kinds.hpp"

GH_BEGIN

template <class F>
struct linear_table {
  using format = F;
  using key = typename F::key;
  using word = typename F::word;
  using index = typename F::index;

  word* slots;
  word* side;
  u64 seed;         // 0 with the blog's hash
  u64 n_slots;      // a multiple of group and of the widest line
  index groups;     // n_slots / slots per group
  u32 group_bits;   // log2 of the slots per group
  u32 by_mask;      // 1: home = hash & (n_slots - 1), as in the blog; n_slots is then a power of two
  u32 widest;       // slots of the widest line that any kernel reads, a power of two
  u32 probe_limit;  // slots, a multiple of widest

  static constexpr u32 kinds = single_kinds;
  static constexpr bool side_slots = true;
  static constexpr bool cells_are_slots = true;
  // Every slot, for export and rebuild: emit(key, value) for each live pair of cell i.
  GH_FN u64 cells() const { return n_slots; }
  template <class Mem, class Emit>
  GH_FN void each_live(u64 i, Emit emit) const {
    const word w = Mem::template load<order::relaxed>(slots + i);
    if (is_live<F>(w)) emit(F::key_of(w), F::value_of(w));
  }

  GH_FN index home(key k) const {
    const auto h = hash(k, seed);
    return by_mask ? index((u64(h) & (n_slots - 1)) >> group_bits) : reduce(index(h), groups);
  }
};

GH_END
