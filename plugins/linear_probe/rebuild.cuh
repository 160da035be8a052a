// linear_probe on CUDA: moving a table into a larger or smaller one, a thread for each slot of the old one.
//
// Homes ascend with the hash in both tables, so that threads of a warp write near each other: what would be random accesses
// to memory are accesses to L2.
#pragma once
#include "layout.hpp"
#include "libgpuhash/drive/cuda.cuh"

GH_BEGIN

// Puts a pair whose key is absent into the first EMPTY slot of its path (I2). Nobody but others like this one writes.
template <class F>
GH_FN bool place(const linear_table<F>& t, typename F::word w) {
  const u64 home = u64(t.home(F::key_of(w))) << t.group_bits;
  const u64 most = t.probe_limit - (home & (t.widest - 1));  // I4
  u64 at = home;
  for (u64 far = 0; far < most; ++far) {
    const auto before = cuda_mem::cas<order::relaxed>(t.slots + at, empty_word<F>(), w);
    if (before == empty_word<F>()) return true;
    at = at + 1 == t.n_slots ? 0 : at + 1;
  }
  return false;
}

template <class F>
__global__ void __launch_bounds__(block_threads)
    move_slots(const __grid_constant__ linear_table<F> from, const __grid_constant__ linear_table<F> to, totals* sum) {
  const u64 i = blockIdx.x * u64(block_threads) + threadIdx.x;
  const auto w = i < from.n_slots ? cuda_mem::load<order::relaxed>(from.slots + i) : empty_word<F>();
  const bool live = is_live<F>(w);
  const bool placed = live && place<F>(to, w);
  add_moved(sum, placed, live && !placed);
}

template <class F>
int move_on_cuda(const void* from, const void* to, totals* sum, bool* moves, void* stream) {
  const auto& f = *static_cast<const linear_table<F>*>(from);
  *moves = true;
  return launch(move_slots<F>, (f.n_slots + block_threads - 1) / block_threads, block_threads, stream, f,
                *static_cast<const linear_table<F>*>(to), sum);
}

GH_END
