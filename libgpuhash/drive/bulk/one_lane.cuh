// Large batches: an element that is served by one lane, and what a thread has done for its elements.
#pragma once
#include "libgpuhash/drive/bulk/sizes.hpp"
#include "libgpuhash/drive/cuda.cuh"

GH_BEGIN

inline constexpr int row_bytes = 64;
// A row, and one lane that serves it alone.
template <class F, class Mem>
using lone_tile = cuda_tile<F, row_bytes / int(sizeof(typename F::word)), 1, false, Mem>;

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

// Of kernels that serve elements of the table itself, on a multiprocessor: with more of them registers would be spilled.
template <class Parts>
constexpr int blocks_for_rest() {
  using op = typename Parts::rest_op;
  return !op::has_slow ? 4 : sizeof(typename Parts::F::word) == 16 ? 1 : least_blocks<op>;
}
template <class Parts>
inline constexpr int rest_blocks = blocks_for_rest<Parts>();

// What a thread has done for its elements.
struct done_here {
  int live = 0, used = 0;
  u32 good = 0;
};

// Does the table have this key? All lanes of a warp, those that look.
template <class Parts>
GH_FN bool has_key(const typename Parts::table& t, joiner j, bool looks, typename Parts::F::key k) {
  typename Parts::rest_op::tile_type tile;
  return serve_homes<typename Parts::rest_op, 1>(tile, t, j, looks, find, k, {}, t.home(k)).status == yes;
}

GH_END
