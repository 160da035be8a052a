// linear_probe on CUDA: moving a table into a larger or smaller one.
//
// Homes ascend with the hash in both tables. So the pairs of a run of new groups lie together in the old table, from the home
// of their least hash to the first EMPTY slot behind the home of the greatest one (I2). A block makes such a run, a
// partition, in its memory, and writes it out, EMPTY slots and all: both tables are accessed in long runs, and the new one
// need not be emptied before. A pair that finds no slot in its partition is placed when all partitions are there.
//
// The other way, where homes do not ascend, where the table is small, and where more pairs leave their partitions than can
// be kept: a thread for each slot of the old table inserts its pair into an empty new one.
#pragma once
#include "layout.hpp"
#include "libgpuhash/drive/cuda.cuh"
#include "libgpuhash/kit/parts.hpp"
#include "sizes.hpp"

GH_BEGIN

// Puts a pair whose key is absent into the first EMPTY slot of its path (I2), of which the first `far` ones are full. Only
// calls of this function write meanwhile.
template <class F>
GH_FN bool place(const linear_table<F>& t, typename F::word w, u64 home, u64 far) {
  const u64 most = t.probe_limit - (home & (t.widest - 1));  // I4
  u64 at = home + far < t.n_slots ? home + far : home + far - t.n_slots;
  for (; far < most; ++far) {
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
  const bool placed = live && place<F>(to, w, u64(to.home(F::key_of(w))) << to.group_bits, 0);
  add_moved(sum, placed, live && !placed);
}

template <class F>
struct new_parts {
  u32 groups;  // of a part, but for the last one
  u32 blocks;  // of place_left
  u64 room;
  u64* n_left;
  typename F::word* left;  // pairs that found no slot in their part
};

// A part in the block's memory: its slots, and how many of them each group has given away, or would have if it had more.
template <class F>
struct part_being_built {
  typename F::word* slots;
  u32* given;
  u32 groups, group_bits;

  // The next slot of the group, or else of the first one behind it that has one: those before it are full then (I2). False:
  // there is none.
  GH_FN bool put(typename F::word w, u32 group) const {
    const u32 group_slots = 1u << group_bits;
    for (; group < groups; ++group) {
      if (static_cast<volatile u32*>(given)[group] >= group_slots) continue;
      const u32 slot = atomicAdd(given + group, 1u);
      if (slot >= group_slots) continue;
      block_mem::store<order::relaxed>(slots + (group << group_bits) + slot, w);
      return true;
    }
    return false;
  }
};

template <class F>
__global__ void __launch_bounds__(move_threads)
    build_parts(const __grid_constant__ linear_table<F> from, const __grid_constant__ linear_table<F> to,
                const __grid_constant__ new_parts<F> parts, totals* sum) {
  after_the_one_before();
  using word = typename F::word;
  using key = typename F::key;
  constexpr u32 wide = 16 / sizeof(word), at_once = moved_at_once, stride = at_once * move_threads * wide;
  GH_DYNAMIC_MEMORY(word, slots);
  const u32 me = threadIdx.x;
  const u64 first = blockIdx.x * u64(parts.groups), all = to.groups, old = from.groups;
  const u32 groups = all - first < parts.groups ? u32(all - first) : parts.groups, size = groups << to.group_bits;
  const part_being_built<F> part{slots, reinterpret_cast<u32*>(slots + (parts.groups << to.group_bits)), groups,
                                 to.group_bits};
  word none[wide];
#pragma unroll
  for (auto& w : none) w = empty_word<F>();
  for (u32 i = me * wide; i < size; i += move_threads * wide) block_mem::store_row(slots + i, none);
  for (u32 i = me; i < groups; i += move_threads) part.given[i] = 0;
  __syncthreads();

  // Old slots from the first home on. No pair of the part has a home behind group `last`: so an EMPTY slot of that group or
  // behind it lies behind all of them (I2), and so many slots lie before that group.
  const u64 begin = (first * old / all << from.group_bits) & ~u64(wide - 1), last = (first + groups) * old / all;
  const u64 before_last = (last << from.group_bits) - begin;
  u32 moved = 0;
  for (u64 done = 0; done < from.n_slots; done += stride) {
    lane_words<word, int(wide), false> some[at_once];
    const auto far = [&](u32 g) { return done + (g * move_threads + me) * wide; };
#pragma unroll
    for (u32 g = 0; g < at_once; ++g) {
      const u64 at = begin + far(g);
      if (far(g) < from.n_slots) some[g].load(from.slots + (at < from.n_slots ? at : at - from.n_slots));
    }
    bool ends = false;
#pragma unroll
    for (u32 g = 0; g < at_once; ++g) {
      if (far(g) >= from.n_slots) continue;
#pragma unroll
      for (u32 x = 0; x < wide; ++x) {
        const word w = some[g].w[x];
        ends |= F::key_of(w) == empty_key<key> && far(g) + x >= before_last;
        if (!is_live<F>(w)) continue;
        const u64 group = u64(to.home(F::key_of(w))) - first;
        if (group >= groups) continue;  // another part's
        if (part.put(w, u32(group))) {
          ++moved;
          continue;
        }
        const u64 i = atomicAdd(parts.n_left, u64(1));
        if (i < parts.room) parts.left[i] = w;
      }
    }
    if (done + stride > before_last && __syncthreads_or(ends)) break;
  }
  __syncthreads();
  for (u32 i = me * wide; i < size; i += move_threads * wide) {
    lane_words<word, int(wide), false, block_mem> some;
    some.load(slots + i);
    cuda_mem::store_row(to.slots + (first << to.group_bits) + i, some.w);
  }
  add_moved(sum, moved, 0);
}

template <class F>
__global__ void __launch_bounds__(block_threads)
    place_left(const __grid_constant__ linear_table<F> to, const __grid_constant__ new_parts<F> parts, totals* sum) {
  after_the_one_before();
  const u64 n = *parts.n_left, me = blockIdx.x * u64(block_threads) + threadIdx.x;
  u32 placed = 0, failed = n > parts.room && me == 0;  // they are not all known
  for (u64 i = me; n <= parts.room && i < n; i += u64(parts.blocks) * block_threads) {
    const u64 group = to.home(F::key_of(parts.left[i])), part_end = (group / parts.groups + 1) * parts.groups;
    const u64 end = part_end < to.groups ? part_end : u64(to.groups);
    const bool done = place<F>(to, parts.left[i], group << to.group_bits, (end - group) << to.group_bits);
    placed += done;
    failed += !done;
  }
  add_moved(sum, placed, failed);
}

template <class F>
struct rebuild_by_parts {
  using table = linear_table<F>;
  using word = typename F::word;
  static constexpr u64 counter_bytes = 256;

  // False: these two are not for this way. I4: and no path that stays in its part comes to its limit.
  static bool applies(const table& from, const table& to) {
    const u64 group_bytes = sizeof(word) << to.group_bits;
    return !from.by_mask && !to.by_mask && from.seed == to.seed && to.n_slots >= moved_least &&
           !(u64(from.groups) >> 32) && !(u64(to.groups) >> 32) &&  // products of 64 bits
           group_bytes <= least_moved_bytes && to.probe_limit >= moved_bytes / sizeof(word);
  }
  static u64 room(const table& to) { return to.n_slots / left_room_share; }
  static uint64_t memory(const void* from, const void* to) {
    const table& t = *static_cast<const table*>(to);
    return applies(*static_cast<const table*>(from), t) ? counter_bytes + room(t) * sizeof(word) : 0;
  }
  static int run(const void* from, const void* to, totals* sum, void* memory, void* stream) {
    const table& t = *static_cast<const table*>(to);
    char* const base = static_cast<char*>(memory);
    const u64 group_bytes = sizeof(word) << t.group_bits;
    u64 bytes = moved_bytes;
    while (bytes > least_moved_bytes && t.n_slots * sizeof(word) / bytes < 2 * u64(multiprocessors())) bytes /= 2;
    const new_parts<F> parts{u32(bytes / group_bytes), multiprocessors(), room(t), reinterpret_cast<u64*>(base),
                             reinterpret_cast<word*>(base + counter_bytes)};
    const u64 blocks = (u64(t.groups) + parts.groups - 1) / parts.groups;
    const int e = launch_with(build_parts<F>, blocks, move_threads, bytes + parts.groups * sizeof(u32), stream,
                              *static_cast<const table*>(from), t, parts, sum);
    return e ? e : launch_next(place_left<F>, parts.blocks, block_threads, 0, stream, t, parts, sum);
  }
  static constexpr rebuild_engine all = {memory, run};
};

template <class F>
int move_on_cuda(const void* from, const void* to, totals* sum, bool* moves, void* stream) {
  const auto& f = *static_cast<const linear_table<F>*>(from);
  *moves = true;
  return launch(move_slots<F>, (f.n_slots + block_threads - 1) / block_threads, block_threads, stream, f,
                *static_cast<const linear_table<F>*>(to), sum);
}

GH_END
