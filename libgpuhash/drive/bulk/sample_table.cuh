// Large batches: samples of the table. Are many of its slots dead? Are most of the batch's keys in it?
#pragma once
#include "libgpuhash/drive/bulk/one_lane.cuh"
#include "libgpuhash/drive/bulk/sample.cuh"

GH_BEGIN

// Declines a batch that has no frequent keys if one in so many sampled slots is dead. One after the other, an element
// takes its own tombstone by one swap, or another dead slot at once; in a partition all such elements would overflow
// their homes.
inline constexpr u32 dead_share = 32;
template <class Partitions>
__global__ void __launch_bounds__(partition_threads, 1)
    decline_for_dead(const __grid_constant__ typename Partitions::table t,
                     const __grid_constant__ bulk_work<typename Partitions::F> w) {
  after_the_one_before();
  if (!w.found->divided || w.found->frequent) return;  // the same for the whole block
  constexpr u32 each = sample_size / partition_threads;
  u32 dead = 0;
#pragma unroll
  for (u32 i = 0; i < each; ++i)
    dead += Partitions::dead_at(t, mix(u64(i * partition_threads + threadIdx.x) + 0x2545f4914f6cdd1dull));
  const u32 all = sum_of_block(dead);
  if (threadIdx.x == 0 && all >= sample_size / dead_share) w.found->divided = w.found->divided_first = 0;
}

// Looks for the keys of some elements in the table: one block. The status that most elements will have is written while
// the batch is read; any other status is a byte somewhere in memory.
inline constexpr u32 asked_each = 4;
template <class Partitions>
__global__ void __launch_bounds__(block_threads, 1)
    ask(const __grid_constant__ typename Partitions::table t, const __grid_constant__ request q,
        const __grid_constant__ bulk_work<typename Partitions::F> w) {
  after_the_one_before();
  using F = typename Partitions::F;
  if (!w.found->divided) return;  // the same for the whole block
  const joiner j = joiner_of(q);
  u32 there = 0;
#pragma unroll 1
  for (u32 i = 0; i < asked_each; ++i) {
    const u64 x = reduce(mix(u64(i * block_threads + threadIdx.x) + 0x5851f42d4c957f2dull), w.n);
    const auto k = F::key_of(element_at(q, w, x));
    const bool looks = !is_side_key(k);
    there += has_key<Partitions>(t, j, looks, k);
  }
  const u32 all = sum_of_block(there);
  if (threadIdx.x == 0 && all > asked_each * block_threads / 2) w.found->default_status = no;
}

GH_END
