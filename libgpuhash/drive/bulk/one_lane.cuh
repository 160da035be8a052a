// Large batches: operations of one lane, the counters of a thread, and how the table itself is asked for a key.
#pragma once
#include "libgpuhash/drive/bulk/sizes.hpp"
#include "libgpuhash/drive/cuda.cuh"

GH_BEGIN

// A tile of one lane, which reads a row of 64 bytes alone.
inline constexpr int row_bytes = 64;
template <class F, class Mem>
using lone_tile = cuda_tile<F, row_bytes / int(sizeof(typename F::word)), 1, false, Mem>;

// One operation, to its end.
template <class Op, class Table>
GH_FN void serve_one(Op& op, const Table& t, u32 kind, typename Op::key k, typename Op::value v,
                     typename Op::index home, joiner j) {
  typename Op::tile_type tile;
  op.start(t, kind, k, v, home);
  for (verdict d = verdict::next; d != verdict::done;) {
    d = op.step(tile, t, j, tile.load(op.line(t)), true);
    if constexpr (Op::has_slow)
      if (d == verdict::slow) d = op.slow(tile, t, j, true);
  }
}

// Blocks of a multiprocessor in kernels that serve elements in the table itself: with more of them registers would be
// spilled.
template <class Partitions>
constexpr int blocks_for_rest() {
  using op = typename Partitions::rest_op;
  return !op::has_slow ? 4 : sizeof(typename Partitions::F::word) == 16 ? 1 : least_blocks<op>;
}
template <class Partitions>
inline constexpr int rest_blocks = blocks_for_rest<Partitions>();

// What a thread has done for its elements.
struct done_here {
  int live = 0, used = 0;
  u32 good = 0;
};

// The op of kind find that a structure names, or else its op of kind `mixed`.
template <class Partitions>
struct find_op_of {
  using type = typename Partitions::rest_op;
};
template <class Partitions>
  requires requires { typename Partitions::find_op; }
struct find_op_of<Partitions> {
  using type = typename Partitions::find_op;
};

// Does the table have this key? All lanes of a warp call this; those that have a key `look`.
template <class Partitions>
GH_FN bool has_key(const typename Partitions::table& t, joiner j, bool looks, typename Partitions::F::key k) {
  using op = typename find_op_of<Partitions>::type;
  typename op::tile_type tile;
  return serve_homes<op, 1>(tile, t, j, looks, find, k, {}, t.home(k)).status == yes;
}

GH_END
