// Joins of two columns on a CUDA device: each left row with the first right row that has its key.
//
// The way of codes finds the first row of each key, of the right column with the left one behind it (chain.cuh). Right rows
// come first: so a left row meets a right one if the first row of its key is a right one. How many left rows of each tile do is
// known then, a prefix sum says where the pairs of each tile begin, and they are written in the order of the left rows.
#include "libgpuhash/columns/cuda/join.hpp"

#include "libgpuhash/columns/cuda/chain.cuh"

namespace gpuhash::columns {
namespace {

struct pairs_work {
  const u32* first;  // of each right row, and behind these of each left one
  u32 n_left, n_right;
  const u32* start;  // where the pairs of each tile of left rows begin
  bool keep;
  long long *left, *right;
  u32 *pairs, *repeats;  // the low halves of the caller's numbers
};

// A block for each tile of left rows. Each: rows of a thread.
template <u32 Each>
__global__ void __launch_bounds__(divide_threads) give_pairs(const __grid_constant__ pairs_work w) {
  constexpr u32 warps = divide_threads / 32, tile = divide_threads * Each, sums = Each * warps;
  static_assert(sums <= divide_threads);
  struct counts {
    u32 of[sums], of_warp[warps];
  };
  GH_BLOCK_MEMORY(counts, known);
  const u32 me = threadIdx.x, lane = me % 32, from = blockIdx.x * tile;
  u32 first[Each];
#pragma unroll
  for (u32 i = 0; i < Each; ++i) {
    const u32 row = from + i * divide_threads + me;
    first[i] = row < w.n_left ? w.first[w.n_right + row] : no_row;
    const u32 there = __ballot_sync(whole_warp, first[i] < w.n_right);
    if (lane == 0) known.of[i * warps + me / 32] = __popc(there);
  }
  __syncthreads();
  const block_sum s = sum_before<divide_threads>(me < sums ? known.of[me] : 0, known.of_warp);
  if (me < sums) known.of[me] = s.before;
  const u32 start = w.start[blockIdx.x];
  if (blockIdx.x == gridDim.x - 1 && me == 0) *w.pairs = w.keep ? w.n_left : start + s.all;
  if (*w.repeats) return;  // each left row may meet several right ones
  __syncthreads();
#pragma unroll
  for (u32 i = 0; i < Each; ++i) {
    const u32 row = from + i * divide_threads + me;
    const bool there = first[i] < w.n_right;
    const u32 before = __popc(__ballot_sync(whole_warp, there) & ((1u << lane) - 1));
    if (!there && (!w.keep || row >= w.n_left)) continue;
    const u32 at = w.keep ? row : start + known.of[i * warps + me / 32] + before;
    w.left[at] = row;
    w.right[at] = there ? (long long)first[i] : -1;
  }
}

template <class K>
void join(const join_request& r) {
  const launcher launch(r.stream);
  launch.fill(r.facts, 0, 2 * sizeof(*r.facts));
  if (r.n_left + r.n_right == 0) return;
  u32* const facts = reinterpret_cast<u32*>(r.facts);
  group_request both{};
  both.n = r.n_left + r.n_right, both.key_bytes = r.key_bytes, both.wants = join_wants(), both.seed = r.seed;
  both.keys = r.right, both.more = r.left, both.n_more = r.n_left;
  both.scratch = r.scratch, both.out_first = r.out_first, both.repeats = facts + 2;
  const group_work<K> w = work_of<K>(both, plan_groups(both.n, r.key_bytes, both.wants));
  prepare(launch, both, w);
  divide_rows<K, u32, nothing>(launch, w);
  group<K, nothing, false, true, true>(launch, w);
  go_back<K, u32>(launch, w);
  constexpr u32 each = divide_each<K, u32, nothing>, tile = each * divide_threads;
  const u32 tiles = u32((r.n_left + tile - 1) / tile);
  if (tiles == 0) return;
  u32* const known = w.known + (r.n_right + tile - 1) / tile;
  launch(find_starts, 1, scan_threads, 0, known, tiles, nullptr, known, nullptr);
  const pairs_work pairs{w.first_row,
                         u32(r.n_left),
                         u32(r.n_right),
                         known,
                         r.keep,
                         reinterpret_cast<long long*>(r.out_left),
                         reinterpret_cast<long long*>(r.out_right),
                         facts,
                         facts + 2};
  launch(give_pairs<each>, tiles, divide_threads, 0, pairs);
}

}  // namespace

gpuhash_status join_on_cuda(const join_request& r, gpuhash_error* err) {
  return on_device(r.ordinal, err, [&] { r.key_bytes == 4 ? join<u32>(r) : join<u64>(r); });
}

}  // namespace gpuhash::columns
