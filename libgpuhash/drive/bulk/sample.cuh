// Large batches: a sample of the elements says which keys are frequent, and whether it pays to divide the batch.
//
// Kernel `pick` reads a few thousand elements and the neighbour of each, and empties the lists. Kernel `sample` counts
// their keys: how often a key is among the sampled elements, and how often a neighbour repeats it (a run).
#pragma once
#include "libgpuhash/drive/bulk/combine.cuh"
#include "libgpuhash/drive/bulk/frequent.cuh"
#include "libgpuhash/drive/bulk/policy.hpp"

GH_BEGIN

// Reads the sample, and empties the lists. Many blocks do so, since one block would wait too long for so many reads at
// random places.
template <class F>
__global__ void __launch_bounds__(block_threads)
    pick(const __grid_constant__ request q, const __grid_constant__ bulk_work<F> w) {
  after_the_one_before();
  const u32 me = blockIdx.x * block_threads + threadIdx.x, all = pick_blocks * block_threads;
  const u64 n = elements(w);
  if (me < sample_size && n) {
    const u64 x = reduce(mix(u64(me) + 0x9e3779b97f4a7c15ull), n);
    const typename F::key k = F::key_of(element_at(q, w, x));
    w.picked[me] = k;
    w.picked[sample_size + me] = x + 1 < n ? F::key_of(element_at(q, w, x + 1)) : typename F::key(~k);
  }
  for (u32 i = me; i < w.partitions; i += all) w.partition.n[i] = 0;
  for (u32 i = me; w.bin_room && i < w.bins; i += all) w.bin.n[i] = 0;
  if (me == 0) *w.rest.n = 0;
}

// What was counted, in the memory of the block.
struct sample_counts {
  u32 frequent;     // keys that are
  u32 distinct;     // sampled keys
  u32 of_frequent;  // sampled elements of frequent keys
  u32 in_runs;      // sampled elements whose neighbour has the same key
  u32 repeated;     // sampled elements whose key another sampled element has
};

// The block of the kernel `sample`.
template <class F>
class sampling_block {
  using key = typename F::key;
  using value = typename F::value;
  static constexpr u32 slots = 2 * sample_size;

 public:
  static constexpr size_t bytes = slots * (sizeof(key) + sizeof(u32)) + frequent_slots * sizeof(key) + 32;
  static_assert(sizeof(sample_counts) <= 32);

  GH_FN sampling_block(const request& a_request, const bulk_work<F>& a_work, key* memory)
      : q(a_request),
        w(a_work),
        me(threadIdx.x),
        seen(memory),
        times(reinterpret_cast<u32*>(memory + slots)),
        chosen(reinterpret_cast<key*>(times + slots)),
        counts(reinterpret_cast<sample_counts*>(chosen + frequent_slots)),
        n(elements(a_work)),
        samples(!a_work.again || n > rest_at_most(a_work.n)) {}

  GH_FN void run() const {
    clear();
    __syncthreads();
    count();
    __syncthreads();
    choose_frequent();
    write_lists();
    if (me == 0) decide();
  }

 private:
  GH_FN void clear() const {
    for (u32 i = me; samples && i < slots; i += sample_threads) {
      seen[i] = empty_key<key>;
      times[i] = 0;
    }
    for (u32 i = me; i < frequent_slots; i += sample_threads) chosen[i] = empty_key<key>;
    if (me < sizeof(sample_counts) / sizeof(u32)) reinterpret_cast<u32*>(counts)[me] = 0;
  }

  GH_FN void count() const {
    constexpr u32 each = sample_size / sample_threads;
    key sampled_keys[each], next_keys[each];
#pragma unroll
    for (u32 i = 0; i < each; ++i) {
      if (!samples) continue;
      sampled_keys[i] = w.picked[i * sample_threads + me];
      next_keys[i] = w.picked[sample_size + i * sample_threads + me];
    }
#pragma unroll
    for (u32 i = 0; i < each; ++i) {
      if (!samples) continue;
      const key k = sampled_keys[i];
      if (next_keys[i] == k) atomicAdd(&counts->in_runs, 1u);
      if (is_side_key(k)) {
        atomicAdd(&counts->of_frequent, 1u);
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
  }

  // The most frequent ones first: a row of the list has room for two.
  GH_FN void choose_frequent() const {
    u32 below = ~0u;
    for (u32 round = 0; samples && round < 3; ++round) {
      const u32 least = round == 0 ? 64 : round == 1 ? 12 : frequent_least;
      for (u32 i = me; i < slots; i += sample_threads) {
        const u32 many = times[i];
        if (many && below == ~0u) atomicAdd(&counts->distinct, 1u);
        if (many > 1 && below == ~0u) atomicAdd(&counts->repeated, many - 1);
        if (many < least || many >= below) continue;
        const u32 row = frequent_row(seen[i], w.again);
        for (u32 side = 0; side < 2; ++side)
          if (atomicCAS(chosen + row + side, empty_key<key>, seen[i]) == empty_key<key>) {
            atomicAdd(&counts->frequent, 1u);
            atomicAdd(&counts->of_frequent, many);
            break;
          }
      }
      below = least;
      __syncthreads();
    }
  }

  GH_FN void write_lists() const {
    const value no_operand = no_operand_of<value>(joiner_of(q));
    for (u32 i = me; i < frequent_all; i += sample_threads) {
      w.frequent[i] = i < frequent_slots ? chosen[i] : key(empty_key<key> - key(i - frequent_slots));
      w.leader[i] = w.last[i] = none;
      w.failed[i] = 0;
      w.combined[i] = no_operand;
    }
  }

  // One thread.
  GH_FN void decide() const {
    const sample_counts& found = *counts;
    w.found->frequent = found.frequent;
    // Of d distinct keys, m samples repeat about m^2 / 2d times. Are there twice as many elements as keys? Then most
    // elements find their key in the table.
    const bool several = found.repeated >= few_repeats && found.repeated * n > u64(sample_size) * sample_size;
    w.found->default_status = q.kind == erase || (found.distinct > sample_size / 2 && !several) ? yes : no;
    w.found->failed = 0;
    w.found->combining_saves = w.found->combining_costs = 0;
    if (!w.again) w.found->lacking = w.found->failed_ops = 0;
    const bool skewed = found.of_frequent > sample_size / skewed_share || found.in_runs > sample_size / skewed_share;
    // A structure whose operations combine_all cannot serve gains more by dividing a batch of frequent keys: dividing
    // leaves fewer elements over.
    const bool hot = w.may_combine_all && found.of_frequent + found.in_runs > combine_all_least &&
                     (w.may_combine_left || found.of_frequent < sample_size / 2);
    const bool few = n <= w.slots / left_share;  // dividing reads and writes the table
    const u32 repeats = found.in_runs + found.repeated;
    const bool wanted = sample_wants(w.divides, {skewed, hot, repeats});
    const bool combines = samples && (w.again ? w.may_combine_left && (hot || few) : hot && wanted);
    if (!w.again) w.found->divided_first = wanted;
    w.found->combines = combines;
    w.found->divided = samples && !combines && (w.again || wanted);
  }

  const request& q;
  const bulk_work<F>& w;
  const u32 me;
  key* const seen;    // a hash table of the sampled keys,
  u32* const times;   // and how often each was sampled
  key* const chosen;  // the frequent ones, as the batch's list has them
  sample_counts* const counts;
  const u64 n;
  const bool samples;  // the second time few elements may be left: nothing is sampled then
};

template <class F>
__global__ void __launch_bounds__(sample_threads, 1)
    sample(const __grid_constant__ request q, const __grid_constant__ bulk_work<F> w) {
  after_the_one_before();
  GH_DYNAMIC_MEMORY(typename F::key, memory);
  sampling_block<F>(q, w, memory).run();
}

template <class F>
constexpr size_t sample_bytes() {
  return sampling_block<F>::bytes;
}

GH_END
