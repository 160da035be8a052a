// Groups of a column on a CUDA device: frequent keys.
//
// A sampled key that is met three times enters the table of frequent keys while that has room: those that are most
// frequent are met three times first. The table is used if its keys cover a twentieth of the sample. Whatever the sample
// says, groups are right: it decides only which way a row goes.
#pragma once
#include "libgpuhash/columns/cuda/work.cuh"

namespace gpuhash::columns {

constexpr u32 frequent_times = 3;
constexpr u32 frequent_share = 20;
constexpr u32 of_frequent = 1u << 15;  // marks the place of a frequent key among places of rows in a tile
static_assert(most_frequent_slots < of_frequent && 16 * divide_threads <= of_frequent);
constexpr u32 frequent_probes = 8, sample_probes = 16;  // slots

// Neighbours among keys or slots, which one read gets.
template <class K, u32 Many = 16 / sizeof(K)>
struct alignas(Many * sizeof(K)) neighbours {
  static constexpr u32 many = Many;
  K of[many];
};

template <class K>
GH_FN bool frequent_is_used(const group_work<K>& w) {
  return w.facts->few || (w.facts->frequent && w.facts->sampled_of_frequent * frequent_share >= w.plan.sampled);
}

// The table of frequent keys consists of buckets: a key is in the first slot of its bucket that was empty, or in one of the
// buckets behind it.
template <class K>
GH_FN u32 frequent_bucket(u32 slots, K h) {
  return u32(h) & (slots - neighbours<K>::many);
}

// The place of a hash in the table of frequent keys; `slots`, a power of two: it is not there.
template <class K>
GH_FN u32 frequent_place(const K* table, u32 slots, K h) {
  constexpr u32 many = neighbours<K>::many;
  u32 at = frequent_bucket(slots, h);
#pragma unroll 1
  for (u32 i = 0; i < frequent_probes; i += many, at = (at + many) & (slots - 1)) {
    const neighbours<K> there = *reinterpret_cast<const neighbours<K>*>(table + at);
    u32 place = slots;
#pragma unroll
    for (u32 j = 0; j < many; ++j) place = there.of[j] == h ? at + j : place;
    if (place != slots || there.of[many - 1] == no_hash<K>) return place;
  }
  return slots;
}

template <class K>
GH_FN void add_frequent(const group_work<K>& w, K h) {
  const u32 slots = w.plan.frequent_slots;
  if (*static_cast<volatile u32*>(&w.facts->frequent) >= slots / 2) return;
  u32 at = frequent_bucket(slots, h);
  for (u32 i = 0; i < frequent_probes; ++i, at = (at + 1) & (slots - 1)) {
    if (swap_if(w.frequent + at, no_hash<K>, h) != no_hash<K>) continue;
    atomicAdd(&w.facts->frequent, 1u);
    return;
  }
}

// Adds `many` to the times that a hash was sampled. Returns how many of these rows came after its key was found to be
// frequent: of very many keys, too, some are met three times by chance, but hardly ever a fourth time.
template <class K>
GH_FN u32 add_sampled(const group_work<K>& w, K h, u32 many) {
  u32 at = u32(h) & (w.plan.sample_slots - 1);
  for (u32 i = 0; i < sample_probes; ++i, at = (at + 1) & (w.plan.sample_slots - 1)) {
    const K before = swap_if(w.sampled_keys + at, no_hash<K>, h);
    if (before != no_hash<K> && before != h) continue;
    const u32 was = atomicAdd(w.sampled_times + at, many), is = was + many;
    if (is < frequent_times) return 0;
    if (was >= frequent_times) return many;
    add_frequent(w, h);
    return is - frequent_times;
  }
  return 0;
}

// `i`: the number of a row of the sample. All lanes of a warp have one.
template <class K>
GH_FN void sample_row(const group_work<K>& w, u32 i) {
  const u32 from = w.wants.lists ? w.split : 0;  // right rows of frequent keys are listed as all others are
  const K h = w.hash(*w.keys_from(from + reduce(mix(i + 0x9e3779b9u), w.n - from)));
  const u32 alike = __match_any_sync(whole_warp, h), leader = __ffs(alike) - 1;
  u32 of_frequent = 0;
  if (threadIdx.x % 32 == leader && h != no_hash<K>) of_frequent = add_sampled(w, h, __popc(alike));
  of_frequent = __reduce_add_sync(whole_warp, of_frequent);
  if (threadIdx.x % 32 == 0 && of_frequent) atomicAdd(&w.facts->sampled_of_frequent, of_frequent);
}
static_assert(small_sample % 32 == 0);

// Each block samples as many rows, as far as there are such: neighbouring ones of the sample, a warp at a time.
template <class K>
GH_FN void sample_share(const group_work<K>& w) {
  const u32 share = (w.plan.sampled / 32 + gridDim.x - 1) / gridDim.x * 32;
  const u32 end = min(w.plan.sampled, (blockIdx.x + 1) * share);
  for (u32 i = blockIdx.x * share + threadIdx.x; i < end; i += count_threads) sample_row(w, i);
}

// The groups of frequent keys come first, where any order will do: each was met in the sample, so that it has a row. One
// block does it, before there are other groups. of_warp: memory of the block, a word for each warp.
template <u32 Threads, class K>
GH_FN void number_frequent(const group_work<K>& w, u32* of_warp) {
  if (w.wants.members) {  // no key is known to be among the others yet
    for (u32 i = threadIdx.x; i < w.plan.frequent_places(); i += Threads) w.frequent_code[i] = 0;
    return;
  }
  constexpr u32 each = 4;
  const u32 slots = frequent_is_used(w) ? w.frequent_slots() : 0;
  u32 groups = 0;
  const auto number = [&](u32 place, K h) {
    w.frequent_code[place] = groups;
    w.out_keys[groups] = w.unhash(h);
    if (w.wants.counts) w.out_counts[groups] = w.frequent_count[place];  // 0 so far, unless keys are few
    ++groups;
  };
  u32 all = 0;
  for (u32 from = 0; from < slots; from += Threads * each) {
    K h[each];
    u32 own = 0;
#pragma unroll
    for (u32 i = 0; i < each; ++i) {
      const u32 place = from + i * Threads + threadIdx.x;
      h[i] = place < slots ? w.frequent[place] : no_hash<K>;
      own += h[i] != no_hash<K>;
    }
    const block_sum s = sum_before<Threads>(own, of_warp);
    groups = all + s.before;
#pragma unroll
    for (u32 i = 0; i < each; ++i)
      if (h[i] != no_hash<K>) number(from + i * Threads + threadIdx.x, h[i]);
    all += s.all;
    __syncthreads();
  }
  if (threadIdx.x) return;
  groups = all;
  if (w.facts->side) number(w.frequent_slots(), no_hash<K>);
  *w.groups = groups;
}

// The same for the order of first appearance, when all rows have been seen.
template <class K>
GH_FN void list_frequent(const group_work<K>& w, u32 place) {
  const u32 first = w.frequent_first[place];
  if (first == no_row) return;
  atomicOr(w.first_bit + first / 32, 1u << first % 32);
  if (!w.wants.listed()) return;
  const u32 at = atomicAdd(&w.facts->listed, 1u);
  w.listed_first[at] = first;
  w.listed_count[at] = w.frequent_count[place];
}

}  // namespace gpuhash::columns
