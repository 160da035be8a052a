// Large batches: equal keys of a partition become one element.
#pragma once
#include "libgpuhash/drive/bulk/combine.cuh"

GH_BEGIN

// What fits no list of frequent keys may still repeat: a key that ten elements name is ten elements of one part. A block
// joins them in a table of its own memory, and writes the list of its part anew. Whether that pays is seen from the first
// elements of a few parts: among m elements of d distinct keys about m^2 / 2d repeat one. Where n elements are fewer than d,
// most of them are of a key of their own.

inline constexpr u32 join_threads = GPUHASH_PART_JOINERS, part_joined_bytes = GPUHASH_PART_JOINED;
inline constexpr u32 trial_slots = 4 * join_threads;
template <class F>  // told: with the element that answers for its key
constexpr u32 part_joined_slots(bool told) {
  return part_joined_bytes / (sizeof(typename F::key) + sizeof(typename F::value) + (told ? sizeof(u32) : 0));
}

// Where the elements are that are joined: in bins of parts, or in the parts' own lists.
template <class F>
GH_FN const part_list<F>& lists_to_join(const parts_work<F>& w) {
  return w.sub_bits ? w.bin : w.part;
}

// Looks at some elements of a few lists.
inline constexpr u32 lists_tried = 64, least_joined = join_threads / 4;
template <class F>
__global__ void __launch_bounds__(join_threads, 1) try_joining(const __grid_constant__ parts_work<F> w) {
  after_the_one_before();
  using key = typename F::key;
  using some_keys = key[trial_slots];
  GH_BLOCK_MEMORY(some_keys, keys);
  if (!w.found->divided) return;
  const u32 lists = w.sub_bits ? w.bins : w.parts, room = w.sub_bits ? w.bin_room : w.part_room, me = threadIdx.x;
  const u32 list = u32(u64(blockIdx.x) * lists / lists_tried);
  const bool again = blockIdx.x && list == u32(u64(blockIdx.x - 1) * lists / lists_tried);
  const u32 n = count_of(lists_to_join(w).n + list, room);
  if (again || n < least_joined) return;  // the same for the whole block
  const u32 looked_at = n / 2 < join_threads ? n / 2 : join_threads;
  for (u32 i = me; i < trial_slots; i += join_threads) keys[i] = empty_key<key>;
  __syncthreads();
  bool there = false;
  if (me < looked_at)
    place_in_block(keys, trial_slots, F::key_of(lists_to_join(w).word[u64(list) * room + me]), &there);
  const u32 repeats = sum_of_block(there);
  if (me) return;
  atomicAdd(w.found->joins_parts, u32(u64(2 * joins_unit) * repeats * n / (u64(looked_at) * looked_at)));
  atomicAdd(w.found->joins_parts + 1, joins_unit);
}

// A block for each list. What does not pay is only moved from the bins of a part into its list.
template <class F>
__global__ void __launch_bounds__(join_threads, 2)
    join_parts(const __grid_constant__ request q, const __grid_constant__ parts_work<F> w) {
  after_the_one_before();
  using key = typename F::key;
  using value = typename F::value;
  using word = typename F::word;
  constexpr u32 at_once = 2;  // with more of them registers would be spilled
  GH_DYNAMIC_MEMORY(key, keys);
  GH_BLOCK_MEMORY(u32, listed);
  if (!w.found->divided) return;
  const u32 part = blockIdx.x >> w.sub_bits, me = threadIdx.x;
  const u32 room = w.sub_bits ? w.bin_room : w.part_room;
  const part_list<F>& from = lists_to_join(w);
  const u32 n = count_of(from.n + blockIdx.x, room);
  const u32 gain = w.found->joins_parts[0], cost = w.found->joins_parts[1];
  const bool joins = cost && gain >= cost / 4 * 3 && n >= least_joined;  // three elements for four keys
  if (!joins && !w.sub_bits) return;                                     // the same for the whole block
  const bool told = w.rest.at;
  const u32 most = part_joined_slots<F>(told), slots = 2 * n < most ? 2 * n : most;
  value* const sums = reinterpret_cast<value*>(keys + most);
  u32* const leaders = reinterpret_cast<u32*>(sums + most);
  const u64 first_of_list = u64(blockIdx.x) * room, first_of_part = u64(part) * w.part_room;
  const joiner j = joiner_of(q);
  const u32 usual = w.found->usual;
  // All lanes of a warp.
  const auto list = [&](bool some, word e, u32 number) {
    const u32 at = take_places(w.sub_bits ? w.part.n + part : &listed, some);
    const bool fits = some && at < w.part_room;
    if (fits) {
      w.part.word[first_of_part + at] = e;
      if (told) w.part.at[first_of_part + at] = number;
    }
    append_some(w.rest, some && !fits, e, number);
  };

  if (joins) clear_sums(keys, sums, slots, join_threads, j);
  if (me == 0) listed = 0;
  __syncthreads();
  for (u32 begin = 0; begin < n; begin += at_once * join_threads) {
    word e[at_once];
    u32 number[at_once] = {};
#pragma unroll
    for (u32 g = 0; g < at_once; ++g) {
      const u32 x = begin + g * join_threads + me;
      if (x < n) e[g] = from.word[first_of_list + x];
      if (x < n && told) number[g] = from.at[first_of_list + x];
    }
#pragma unroll
    for (u32 g = 0; g < at_once; ++g) {
      const bool mine = begin + g * join_threads + me < n;
      u32 at = nobody;
      bool there = false;
      if (mine && joins && may_join_first(j, F::value_of(e[g]), log_joined))
        at = place_in_block(keys, slots, F::key_of(e[g]), &there);
      if (at != nobody) join_in_block(sums + at, F::value_of(e[g]), j);
      if (at != nobody && told) {
        if (!there) leaders[at] = number[g];
        if (there && usual != no) q.status[number[g]] = u8(no);
      }
      if (!joins)
        list(mine, e[g], number[g]);
      else if (mine && at == nobody)
        append(w.rest, e[g], number[g]);
    }
  }
  __syncthreads();  // all have been read
  if (!joins) return;
  for (u32 begin = 0; begin < slots; begin += join_threads) {
    const u32 i = begin + me < slots ? begin + me : 0;
    const bool some = begin + me < slots && keys[i] != empty_key<key>;
    list(some, F::make(keys[i], sums[i]), some && told ? leaders[i] : 0);
  }
  __syncthreads();
  if (me == 0 && !w.sub_bits) w.part.n[part] = listed;
}

GH_END
