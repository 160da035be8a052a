// Large batches: a sample of the elements says which keys are frequent, and whether the batch is divided.
#pragma once
#include "libgpuhash/drive/bulk/combine.cuh"
#include "libgpuhash/drive/bulk/frequent.cuh"

GH_BEGIN

// Many blocks, since one would wait for so many reads from everywhere.
template <class F>
__global__ void __launch_bounds__(block_threads)
    pick(const __grid_constant__ request q, const __grid_constant__ parts_work<F> w) {
  after_the_one_before();
  const u32 me = blockIdx.x * block_threads + threadIdx.x, all = pick_blocks * block_threads;
  const u64 n = elements(w);
  if (me < part_samples && n) {
    const u64 x = reduce(mix(u64(me) + 0x9e3779b97f4a7c15ull), n);
    const typename F::key k = F::key_of(element_at(q, w, x));
    w.picked[me] = k;
    w.picked[part_samples + me] = x + 1 < n ? F::key_of(element_at(q, w, x + 1)) : typename F::key(~k);
  }
  for (u32 i = me; i < w.parts; i += all) w.part.n[i] = 0;
  for (u32 i = me; w.bin_room && i < w.bins; i += all) w.bin.n[i] = 0;
  if (me == 0) *w.rest.n = 0;
}

// One block.
template <class F>
__global__ void __launch_bounds__(sample_threads, 1)
    sample(const __grid_constant__ request q, const __grid_constant__ parts_work<F> w) {
  after_the_one_before();
  using key = typename F::key;
  constexpr u32 slots = 2 * part_samples;
  GH_DYNAMIC_MEMORY(key, seen);
  u32* const times = reinterpret_cast<u32*>(seen + slots);
  key* const chosen = reinterpret_cast<key*>(times + slots);
  // How many: frequent keys, distinct samples, samples of frequent keys, samples that the next element repeats, and that
  // another sample does.
  u32* const found = reinterpret_cast<u32*>(chosen + frequent_slots);
  const u32 me = threadIdx.x;
  const u64 n = elements(w);
  const bool samples = !w.again || n > rest_at_most(w.n);
  for (u32 i = me; samples && i < slots; i += sample_threads) {
    seen[i] = empty_key<key>;
    times[i] = 0;
  }
  for (u32 i = me; i < frequent_slots; i += sample_threads) chosen[i] = empty_key<key>;
  if (me < 5) found[me] = 0;
  __syncthreads();

  constexpr u32 each = part_samples / sample_threads;
  key sampled_keys[each], next_keys[each];
#pragma unroll
  for (u32 i = 0; i < each; ++i) {
    if (!samples) continue;
    sampled_keys[i] = w.picked[i * sample_threads + me];
    next_keys[i] = w.picked[part_samples + i * sample_threads + me];
  }
#pragma unroll
  for (u32 i = 0; i < each; ++i) {
    if (!samples) continue;
    const key k = sampled_keys[i];
    if (next_keys[i] == k) atomicAdd(found + 3, 1u);
    if (is_side_key(k)) {
      atomicAdd(found + 2, 1u);
      continue;
    }
    u32 at = u32(mix(k)) % slots;
    for (u32 tries = 0; tries < 8; ++tries, at = (at + 1) % slots) {
      const key before = atomicCAS(seen + at, empty_key<key>, k);
      if (before != empty_key<key> && before != k) continue;
      atomicAdd(times + at, 1u);
      break;
    }
  }
  __syncthreads();

  // The most frequent ones first: a row has room for two.
  u32 below = ~0u;
  for (u32 round = 0; samples && round < 3; ++round) {
    const u32 least = round == 0 ? 64 : round == 1 ? 12 : frequent_least;
    for (u32 i = me; i < slots; i += sample_threads) {
      const u32 many = times[i];
      if (many && below == ~0u) atomicAdd(found + 1, 1u);
      if (many > 1 && below == ~0u) atomicAdd(found + 4, many - 1);
      if (many < least || many >= below) continue;
      const u32 row = frequent_row(seen[i], w.again);
      for (u32 side = 0; side < 2; ++side)
        if (atomicCAS(chosen + row + side, empty_key<key>, seen[i]) == empty_key<key>) {
          atomicAdd(found, 1u);
          atomicAdd(found + 2, many);
          break;
        }
    }
    below = least;
    __syncthreads();
  }
  const typename F::value none = no_operand_of<typename F::value>(joiner_of(q));
  for (u32 i = me; i < frequent_all; i += sample_threads) {
    w.frequent[i] = i < frequent_slots ? chosen[i] : key(empty_key<key> - key(i - frequent_slots));
    w.leader[i] = w.last[i] = nobody;
    w.failed[i] = 0;
    w.joined[i] = none;
  }
  if (me) return;
  w.found->frequent = found[0];
  // Of d distinct keys, m samples repeat about m^2 / 2d times: are there twice as many elements? Then most find their key there.
  const bool several = found[4] >= few_repeats && found[4] * n > u64(part_samples) * part_samples;
  w.found->usual = q.kind == erase || (found[1] > part_samples / 2 && !several) ? yes : no;
  w.found->failed = 0;
  w.found->joins_parts[0] = w.found->joins_parts[1] = 0;
  if (!w.again) w.found->lacking = w.found->failed_ops = 0;
  const bool skewed = found[2] > part_samples / skewed_share || found[3] > part_samples / skewed_share;
  // Of frequent keys alone a structure for which join_all serves nothing has less to leave when they are divided.
  const bool hot = w.may_join && found[2] + found[3] > joined_least && (w.may_join_left || found[2] < part_samples / 2);
  const bool few = n <= w.slots / left_share;  // dividing reads and writes the table
  const u32 repeats = found[3] + found[4];
  const bool wanted = w.divides & whatever_they_are || (w.divides & if_skewed && skewed) ||
                      (w.divides & if_few_repeat && (hot || repeats < few_repeats)) ||
                      (w.divides & if_some_repeat && repeats >= few_repeats);
  const bool joins = samples && (w.again ? w.may_join_left && (hot || few) : hot && wanted);
  if (!w.again) w.found->divided_first = wanted;
  w.found->joins = joins;
  w.found->divided = samples && !joins && (w.again || wanted);
}

template <class F>
constexpr size_t sample_bytes() {
  return 2 * part_samples * (sizeof(typename F::key) + sizeof(u32)) + frequent_slots * sizeof(typename F::key) + 32;
}

GH_END
