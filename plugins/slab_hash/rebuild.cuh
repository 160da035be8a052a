// slab_hash on CUDA: moving a table into one of another size, a thread for each new bucket.
//
// Buckets ascend with the hash in both tables, so that the pairs of a new bucket lie in one or a few old ones. The thread
// reads those, and appends what belongs to it (S2). No other tile writes to its chain, so that only the heap is shared.
#pragma once
#include "libgpuhash/drive/cuda.cuh"
#include "walk.hpp"

GH_BEGIN

// The pairs of new bucket b, which no other tile writes to.
template <class Table>
GH_FN void fill_chain(const Table& from, const Table& to, u64 b, u32& used, u32& failed) {
  using F = typename Table::format;
  using index = typename Table::index;
  const bool side = b >= to.buckets;
  const u64 old = from.buckets;
  // From the bucket that has the least hash of this one's to the bucket that has the first hash of the next one's.
  const u64 first = side ? old + (b - to.buckets) : b * old / to.buckets;
  const u64 next = side ? first : (b + 1) * old / to.buckets;
  const u64 last = side || next < old ? next : old - 1;
  auto end = chain_end<cuda_mem, Table>::of(to, index(b));
  for (u64 o = first; o <= last; ++o)
    from.template each_word<cuda_mem>(index(o), [&](typename F::word*, typename F::word w) {
      if (!is_live<F>(w) || (!side && to.home(F::key_of(w)) != index(b))) return;
      const bool placed = end.append(to, w);
      used += placed;
      failed += !placed;
    });
}

template <class Table>
__global__ void __launch_bounds__(block_threads, 4)
    fill_chains(const __grid_constant__ Table from, const __grid_constant__ Table to, totals* sum) {
  const u64 b = blockIdx.x * u64(block_threads) + threadIdx.x;
  u32 used = 0;
  u32 failed = 0;
  if (b < to.cells()) fill_chain(from, to, b, used, failed);
  add_moved(sum, used, failed);
}

template <class F>
int move_on_cuda(const void* from, const void* to, totals* sum, bool* moves, void* stream) {
  const auto& f = *static_cast<const slab_table<F>*>(from);
  const auto& t = *static_cast<const slab_table<F>*>(to);
  *moves = ascend_together(f, t) && !(u64(f.buckets) >> 32) && !(u64(t.buckets) >> 31);  // products of 64 bits
  if (!*moves) return 0;
  const u64 chains = u64(t.buckets) + 2;
  return launch(fill_chains<slab_table<F>>, (chains + block_threads - 1) / block_threads, block_threads, stream, f, t,
                sum);
}

GH_END
