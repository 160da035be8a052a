// Groups of a column on a CUDA device: the order of first appearance, without a sort.
//
// Each group has set the bit of its first row. The number of a group is the number of bits before its own: those of
// earlier words, of which there is a prefix sum, and those of its word.
#pragma once
#include "libgpuhash/columns/cuda/bins.cuh"

namespace gpuhash::columns {

constexpr u32 words_per_warp = words_per_strip / (order_threads / 32);

template <class K>
GH_FN u32 words_of(const group_work<K>& w) {
  return (w.n - 1) / 32 + 1;
}
template <class K>
GH_FN u32 group_of(const group_work<K>& w, u32 first_row) {
  const u32 word = first_row / 32;
  return w.prefix[word] + __popc(w.first_bit[word] & ((1u << first_row % 32) - 1));
}

// The bits of each strip; a block for each.
template <class K>
__global__ void __launch_bounds__(order_threads) count_firsts(const __grid_constant__ group_work<K> w) {
  GH_BLOCK_MEMORY(warp_words<order_threads>, some);
  const u32 from = blockIdx.x * words_per_strip, words = words_of(w);
  u32 own = 0;
  for (u32 i = threadIdx.x; i < words_per_strip && from + i < words; i += order_threads)
    own += __popc(w.first_bit[from + i]);
  const block_sum s = sum_before<order_threads>(own, some.of);
  if (threadIdx.x == 0) w.strip_total[blockIdx.x] = s.all;
}

// strip_total is now what is before each strip. Gives the keys of the groups, in order.
template <class K>
__global__ void __launch_bounds__(order_threads) give_in_order(const __grid_constant__ group_work<K> w) {
  GH_BLOCK_MEMORY(warp_words<order_threads>, some);
  const u32 lane = threadIdx.x % 32, words = words_of(w);
  const u32 from = blockIdx.x * words_per_strip + threadIdx.x / 32 * words_per_warp;
  const auto bits_of = [&](u32 word) { return word < words ? w.first_bit[word] : 0; };
  u32 own = 0;
  for (u32 i = lane; i < words_per_warp; i += 32) own += __popc(bits_of(from + i));
  // Of the lanes of a warp, the first one's sum has nothing of its own warp.
  const block_sum s = sum_before<order_threads>(own, some.of);
  u32 before = w.strip_total[blockIdx.x] + __shfl_sync(whole_warp, s.before, 0);
  for (u32 i = 0; i < words_per_warp && from + i < words; i += 32) {
    const u32 word = from + i + lane, mine = bits_of(word), up_to = sum_up_to(__popc(mine));
    const u32 prefix = before + up_to - __popc(mine);
    if (word < words) w.prefix[word] = prefix;
    if (word == words - 1) *w.groups = prefix + __popc(mine);
    before += __shfl_sync(whole_warp, up_to, 31);
    for (u32 left = __ballot_sync(whole_warp, mine != 0); left; left &= left - 1) {
      const u32 other = __ffs(left) - 1;
      const u32 bits = __shfl_sync(whole_warp, mine, other), at = __shfl_sync(whole_warp, prefix, other);
      if (bits >> lane & 1)
        w.out_keys[at + __popc(bits & ((1u << lane) - 1))] = w.keys[size_t(from + i + other) * 32 + lane];
    }
  }
}

// Each row has the first row of its group, or the place of a frequent key below 0.
template <class K>
__global__ void __launch_bounds__(order_threads) number_rows(const __grid_constant__ group_work<K> w) {
  for (u32 i = blockIdx.x * order_threads + threadIdx.x; i < w.n; i += gridDim.x * order_threads) {
    const long long is = w.out_codes[i];
    w.out_codes[i] = group_of(w, is < 0 ? w.frequent_first[-1 - is] : u32(is));
  }
}

// What is listed goes to its group's place. V: the word of values.
template <class K, class V>
__global__ void __launch_bounds__(order_threads) give_listed_in_order(const __grid_constant__ group_work<K> w) {
  const u32 listed = w.facts->listed;
  for (u32 i = blockIdx.x * order_threads + threadIdx.x; i < listed; i += gridDim.x * order_threads) {
    const u32 group = group_of(w, w.listed_first[i]);
    if (w.wants.counts) w.out_counts[group] = w.listed_count[i];
    if constexpr (is_there<V>) {
      if (w.wants.sums) w.results.sums[group] = w.listed.sums[i];
      if (w.wants.means) w.results.means[group] = w.listed.means[i];
      if (w.wants.totals.low) static_cast<V*>(w.results.low)[group] = static_cast<const V*>(w.listed.low)[i];
      if (w.wants.totals.high) static_cast<V*>(w.results.high)[group] = static_cast<const V*>(w.listed.high)[i];
    }
  }
}

}  // namespace gpuhash::columns
