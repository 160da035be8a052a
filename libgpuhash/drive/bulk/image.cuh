// Large batches: the slots of a partition, copied into the memory of a block and back. The table is held exclusively
// meanwhile, and memory is accessed in long runs.
#pragma once
#include "libgpuhash/drive/bulk/work.cuh"

GH_BEGIN

// Words of 16 bytes.
template <class F>
inline constexpr u32 wide_words = 16 / sizeof(typename F::word);

// `fresh`: nothing was ever added to the table, so that its slots are EMPTY and need not be read.
template <class F, class Words>
GH_FN void load_slots(Words& to, bool fresh, const typename F::word* from) {
  if (!fresh) return to.load(from);
#pragma unroll
  for (auto& w : to.w) w = empty_word<F>();
}

// Slots 0 .. size - 1 of the table's array `from`. All lanes of a warp call each(i, some, words) for slots i .. i +
// wide_words - 1, those with `some` for slots that are there.
template <class F, u32 Threads, class Each>
GH_FN void copy_to_block(typename F::word* slots, const typename F::word* from, u32 size, bool fresh,
                         const Each& each) {
  constexpr u32 wide = wide_words<F>, at_once = loads_at_once;
  for (u32 first = 0; first < size; first += at_once * Threads * wide) {
    lane_words<typename F::word, int(wide), false> some[at_once];
#pragma unroll
    for (u32 g = 0; g < at_once; ++g) {
      const u32 i = first + (g * Threads + threadIdx.x) * wide;
      if (i < size) load_slots<F>(some[g], fresh, from + i);
    }
#pragma unroll
    for (u32 g = 0; g < at_once; ++g) {
      const u32 i = first + (g * Threads + threadIdx.x) * wide;
      if (i < size) block_mem::store_row(slots + i, some[g].w);
      each(i, i < size, some[g].w);
    }
  }
}

// One row of 16 bytes, of one thread.
template <class F>
GH_FN void copy_row_to_table(typename F::word* to, const typename F::word* slots) {
  lane_words<typename F::word, int(wide_words<F>), false, block_mem> some;
  some.load(slots);
  cuda_mem::store_row(to, some.w);
}
template <class F, u32 Threads>
GH_FN void copy_to_table(typename F::word* to, const typename F::word* slots, u32 size) {
  for (u32 i = threadIdx.x * wide_words<F>; i < size; i += Threads * wide_words<F>)
    copy_row_to_table<F>(to + i, slots + i);
}

GH_END
