// Groups of a column on a CUDA device: the order of first appearance, without a sort.
//
// Each group has set the bit of its first row. The number of a group is the number of bits before its own: those of
// earlier words, of which there is a prefix sum, and those of its word.
#pragma once
#include "libgpuhash/columns/cuda/bins.cuh"

namespace gpuhash::columns {

template <class K>
GH_FN u32 words_of(const group_work<K>& w) {
  return (w.n - 1) / 32 + 1;
}

// The bits of each strip, a block for each; the last block to end adds up those of all earlier strips.
template <class K>
__global__ void __launch_bounds__(order_threads) count_firsts(const __grid_constant__ group_work<K> w) {
  wait_for_the_one_before();
  GH_BLOCK_MEMORY(warp_words<order_threads>, some);
  const u32 word = blockIdx.x * words_per_strip + threadIdx.x;
  const block_sum s = sum_before<order_threads>(word < words_of(w) ? __popc(w.first_bit[word]) : 0, some.of);
  if (threadIdx.x == 0) w.strip_total[blockIdx.x] = s.all;
  if (!all_others_have_ended(&w.facts->strips)) return;
  scan_counts<order_threads>(w.strip_total, w.plan.strips, 0, w.strip_total, nullptr, some.of);
}

// strip_total is now the number of groups before each strip. Writes the keys of the groups, in order: the lanes of a
// warp take the 32 rows of each of its words, several words at a time, so that many keys are on their way.
template <class K>
__global__ void __launch_bounds__(order_threads) give_in_order(const __grid_constant__ group_work<K> w) {
  wait_for_the_one_before();
  GH_BLOCK_MEMORY(warp_words<order_threads>, some);
  constexpr u32 at_once = 8;
  const u32 lane = threadIdx.x % 32, words = words_of(w), word = blockIdx.x * words_per_strip + threadIdx.x;
  const u32 mine = word < words ? w.first_bit[word] : 0;
  const u32 before = w.strip_total[blockIdx.x] + sum_before<order_threads>(__popc(mine), some.of).before;
  if (word < words) w.ranked[word] = {mine, before};
  if (word == words - 1) {
    *w.groups = before + __popc(mine);
    if (w.shown) *w.shown = before + __popc(mine);
  }
#pragma unroll 1
  for (u32 from = 0; from < 32; from += at_once) {
    K key[at_once];
    u32 at[at_once];
#pragma unroll
    for (u32 i = 0; i < at_once; ++i) {
      const u32 bits = __shfl_sync(whole_warp, mine, from + i), first = __shfl_sync(whole_warp, before, from + i);
      const bool there = bits >> lane & 1;
      at[i] = there ? first + __popc(bits & ((1u << lane) - 1)) : no_row;
      if (there) key[i] = w.keys[size_t(word - lane + from + i) * 32 + lane];
    }
#pragma unroll
    for (u32 i = 0; i < at_once; ++i)
      if (at[i] != no_row) {
        w.out_keys[at[i]] = key[i];
        if (w.group_first) w.group_first[at[i]] = (word - lane + from + i) * 32ll + lane;
      }
  }
}

// Is it noted where each group is listed?
template <class K>
GH_FN bool is_found(const group_work<K>& w) {
  return w.wants.results_listed() > 1 || (w.n > few_rows && w.facts->listed <= most_found);
}

// Where each group is listed. These are small words, which the cache of the device holds for the most part.
template <class K>
__global__ void __launch_bounds__(order_threads) find_listed(const __grid_constant__ group_work<K> w) {
  wait_for_the_one_before();
  if (!is_found(w)) return;
  const u32 listed = w.facts->listed;
  for (u32 i = blockIdx.x * order_threads + threadIdx.x; i < listed; i += gridDim.x * order_threads)
    w.listed_at[group_of(w, w.listed_first[i])] = i;
}

// Aggregates go from the list to their group's place. Found: they are read at random, group by group, from the places
// that find_listed has written; otherwise they are written at random, which is faster for one result of very many
// groups, and several times slower for each further one. V: the type of values.
template <class K, class V, bool Found>
__global__ void __launch_bounds__(order_threads) give_listed(const __grid_constant__ group_work<K> w) {
  wait_for_the_one_before();
  if (is_found(w) != Found) return;
  const u32 listed = w.facts->listed;
  for (u32 i = blockIdx.x * order_threads + threadIdx.x; i < listed; i += gridDim.x * order_threads) {
    const u32 at = Found ? w.listed_at[i] : i, group = Found ? i : group_of(w, w.listed_first[i]);
    if (w.wants.counts) w.out_counts[group] = w.listed_count[at];
    if constexpr (is_there<V>) give_listed_totals<V>(w, at, group);
  }
}

}  // namespace gpuhash::columns
