// The CUDA driver for large batches: who serves which part of the table.
//
// One element at a time, a table is bound by random accesses of memory, and by the keys that many elements name: those all
// wait for one slot. A batch that is large beside its table is divided by parts of the table that fit into the memory of a
// block; then each block reads its part, carries out what belongs there, and writes the part back. Memory is accessed in
// long runs only. The table is held exclusively meanwhile.
//
//   pick          empties the lists, and reads a few thousand elements
//   sample        which keys are frequent among these; and does it pay to divide the batch? If not, its elements are served
//                 one after the other (request::unless), unless it was clear before (kit/parts.hpp)
//   ask           what will most elements of a told batch answer? Some of their keys are looked for
//   join_all      an untold accumulate most of whose elements are of frequent keys or of runs: nothing is divided. A block
//                 joins equal keys in a cache, and what finds no place there goes to the table itself, or is left
//   divide        elements go to bins, in one pass or two: by groups of parts, then by parts. Frequent keys, and those of
//                 the side slots, go to no bin: a block joins the elements of such a key, as one operation
//   try_joining   do the elements of a part repeat keys, all the same? A few parts are looked at, of an accumulate
//   join_parts    if so, a block for each part makes one element of those of equal keys
//   serve_parts   a block for each part: what is plain by counting, the rest by ops.hpp, on a table that lies in the
//                 block's memory
//   serve_rest    one at a time, in the table itself: frequent keys, and at last what is left
//   retry_failed  an accumulate: what found no room, and whose key is there after all
//   tell_failed   what is joined fails together. Of an accumulate, whose elements are joined in several places, those whose
//                 keys are absent
//
// Left are elements that their bin had no room for, and those whose path leaves their part. They go the same way a second
// time: among them keys are frequent that were not among all.
//
// Parts says of a structure:
//   using table, F                       its layout and slot format. t.slots: t.n_slots slots, which are cut into parts of
//                                        2^part_bits; both multiples of 16 bytes
//   op<Tile, Kind>                       its operations, for a tile of one lane; not with own_parts
//   static bool applies(t)               may this table be divided at all?
//   static constexpr bool adds_in_place  do integers that are accumulated one after the other wait for nobody?
//   static constexpr bool own_parts      are the parts not 2^part_bits slots each, and served by a kernel of its own?
//   static constexpr bool divides_skewed  are batches of parts=auto divided whose keys repeat? Else those alone of which
//                                        hardly any does, and those that join_all takes
//   static constexpr u64 least           elements of a batch of auto whose keys hardly repeat, in a table with contents, and
//   static constexpr u64 least_share     slots for each of them, at most
//   static constexpr u64 least_sums(told, contents)  of an accumulate, whatever its keys, in a table that has contents or is
//                                        nearly empty; and of (true, false) of any batch in one that is nearly empty. Where
//                                        they are fewer than `least`, there may be half as many slots for each
//   static constexpr bool empty_only(kind, told)  are these divided only where hardly any slot is in use? No element takes more
//                                        than one
//   static constexpr bool sums_if_repeating  are told sums of auto divided, in a table with contents, only if some sampled
//                                        elements repeat a key?
//   static bool pays(t, q)               is it worth while to divide such a batch of auto for this table?
//   static constexpr bool declines       is a batch of auto that adds, and has no frequent keys, better served one element after
//                                        the other where many slots are dead?
//   static index group_of(t, key)        the group where a path begins; own_parts: the part, or a bucket of it
//   static constexpr bool joins_directly  may join_all serve elements of the table itself? Else it leaves what it has joined
//   rest_op                              its operations of any kind, for a tile
// without own_parts
//   static u32 least_bits(t)             the smallest part_bits
//   static table local(t, slots, n)      a part of n slots as a table
//   static index local_home(t, group)    a home there whose group is this one
//   static bool left(op)                 did the path of a finished operation leave the part, so that nothing was done?
//   static u32 group_bits(t)             homes are the first slots of groups of 2^group_bits slots, which begin at multiples
//                                        of that, from 64 to 128 bytes. The slots in use are the first ones of a group. A
//                                        key that is not in the group of its home, of which a slot is empty, is nowhere
//   static constexpr bool goes_on        does a path go from a full group to the next one?
// with own_parts
//   static u64 slots(t), parts(t)        how many there are
//   static u32 part_bits(t)              2^part_bits of what group_of() says are a part
//   static u64 shares(t)                 no part has more than one in so many of the keys
//   static size_t serve_bytes(t, told)   of a block's memory
//   static auto server(kind)             the kernel; see serve_parts
//   static bool dead_at(t, random)       if it declines: is a slot that no other one is preferred to dead?
//   static constexpr u32 group_bits(t)   0
#pragma once
#include "libgpuhash/drive/cuda.cuh"
#include "libgpuhash/kit/parts.hpp"

GH_BEGIN

// Sizes that tests make smaller, so that small batches meet all that large ones do.
#ifndef GPUHASH_PART_THREADS
#define GPUHASH_PART_THREADS 512
#endif
#ifndef GPUHASH_PART_SAMPLES
#define GPUHASH_PART_SAMPLES 8192
#endif
#ifndef GPUHASH_PART_SAMPLERS
#define GPUHASH_PART_SAMPLERS 1024
#endif
#ifndef GPUHASH_PART_SLACK
#define GPUHASH_PART_SLACK 32
#endif
#ifndef GPUHASH_PART_SINGLE
#define GPUHASH_PART_SINGLE (u64(1) << 17)
#endif
#ifndef GPUHASH_PART_SLOTS
#define GPUHASH_PART_SLOTS 256
#endif
#ifndef GPUHASH_PART_REST
#define GPUHASH_PART_REST 1024
#endif
#ifndef GPUHASH_PART_BINS
#define GPUHASH_PART_BINS GPUHASH_PART_THREADS
#endif
#ifndef GPUHASH_PART_SERVERS
#define GPUHASH_PART_SERVERS 256
#endif
#ifndef GPUHASH_OWN_SERVERS
#define GPUHASH_OWN_SERVERS 384
#endif
#ifndef GPUHASH_PART_AT_ONCE
#define GPUHASH_PART_AT_ONCE 4
#endif
#ifndef GPUHASH_PART_EACH
#define GPUHASH_PART_EACH 10
#endif
#ifndef GPUHASH_PART_CHAINED
#define GPUHASH_PART_CHAINED 1023
#endif
#ifndef GPUHASH_PART_CACHE
#define GPUHASH_PART_CACHE (64 * 1024)
#endif
#ifndef GPUHASH_PART_JOINERS
#define GPUHASH_PART_JOINERS 1024
#endif
#ifndef GPUHASH_PART_JOINED
#define GPUHASH_PART_JOINED (96 * 1024)
#endif
#ifndef GPUHASH_PART_CHUNK
#define GPUHASH_PART_CHUNK (u64(1) << 27)
#endif
inline constexpr u32 part_threads = GPUHASH_PART_THREADS;     // of a block, and the most bins of a pass
inline constexpr u32 counted_at_once = GPUHASH_PART_AT_ONCE;  // elements of a thread on their way from memory
inline constexpr u32 part_samples = GPUHASH_PART_SAMPLES;
inline constexpr u32 sample_threads = GPUHASH_PART_SAMPLERS;  // of the block that looks at them
inline constexpr u64 part_chunk = GPUHASH_PART_CHUNK;         // elements that are divided at a time, at most
inline constexpr u64 chunks_most = 16;                        // instead of one of so many
inline constexpr u32 frequent_slots = 2048;                   // rows of two
inline constexpr u32 frequent_all = frequent_slots + 2;       // and the keys of the side slots
inline constexpr u32 frequent_least = 3;                      // samples of one key
// A batch is skewed where one sample of so many is of a frequent key, or of a run of equal keys.
inline constexpr u32 skewed_share = 8;
// And where more than this share of all samples is, keys are joined, and nothing is divided.
inline constexpr u32 joined_least = part_samples / 8 * 7;
// Fewer elements than this share of the slots are not divided a second time.
inline constexpr u64 left_share = 8;
inline constexpr u32 pick_blocks = (part_samples + 255) / 256;
// Inserting a key that is there reads it and no more: elements of fewer than 2^21 keys, whose slots lie in L2, are served
// faster one after the other. Of so many keys about 16 samples are repeats.
#ifndef GPUHASH_PART_REPEATS
#define GPUHASH_PART_REPEATS 16
#endif
inline constexpr u32 few_repeats = GPUHASH_PART_REPEATS;
// A table is nearly empty if no more than one of so many slots is in use.
inline constexpr u64 nearly_empty_share = 32;
inline constexpr u32 nobody = ~0u;
// What is left is divided if it is more than this share of all; or more than eight times that, where these are few.
inline constexpr u32 rest_share = GPUHASH_PART_REST;
inline constexpr u64 rest_few = GPUHASH_PART_SINGLE;
GH_FN u64 rest_at_most(u64 n) {
  const u64 share = n / rest_share, more = 8 * share < rest_few ? 8 * share : rest_few;
  return more > share ? more : share;
}
#ifndef GPUHASH_PART_BYTES
#define GPUHASH_PART_BYTES (32 * 1024)
#endif
inline constexpr u32 part_bytes = GPUHASH_PART_BYTES;
inline constexpr u32 parts_wanted = 1024;                     // so that all multiprocessors have work to the end
inline constexpr u32 part_slots_wanted = GPUHASH_PART_SLOTS;  // at least: of a small part many paths lead out

// Elements on their way. `at` are their numbers in the batch.
template <class F>
struct part_list {
  typename F::word* word;
  u32* at;
  u32* n;
};

// For which samples a batch is divided: any of these bits.
inline constexpr u32 whatever_they_are = 1, if_skewed = 2, if_few_repeat = 4, if_some_repeat = 8;

// What the sample says of the elements.
struct sampled {
  u32 frequent;        // keys
  u32 usual;           // what most elements will answer
  u32 failed;          // 1: a frequent key has found no room
  u32 divided;         // 1: the elements are divided
  u32 joins;           // 1: those of the batch are joined by join_all
  u32 divided_first;   // 1: those of the batch were
  u32 joins_parts[2];  // elements that joining those of parts would save, and would cost, in a unit of its own
  u32 lacking;         // an accumulate: what the operations say that found no room at last, or 0
  u32 failed_ops;      // and how many there are. They are listed in place of the parts' elements
};

template <class F>
struct parts_work {
  u64 n;                 // elements
  u64 chunk;             // of so many of them at most
  u32 part_bits, parts;  // slots of a part are 2^part_bits
  u32 bin_bits, bins;    // 2^bin_bits parts share a bin of the first pass; 0: there is one pass
  u32 sub_bits;          // if not 0, a part has 2^sub_bits bins, whose elements are joined on their way into the part
  u32 bin_room, part_room;    // elements; no room for those of parts: they are joined, and left
  u32 tile[2];                // elements that a block divides at a time, in the first pass and the second
  u32 blocks;                 // of kernels that stride over their work
  u32 divides;                // the batch
  u64 slots;                  // of the table
  typename F::key* picked;    // 2 * part_samples: keys of some elements, and of those that follow them
  bool may_join;              // all of it, by join_all
  bool may_join_left;         // what is left, by join_all
  bool may_join_parts;        // each part's elements, by join_parts
  bool sums;                  // an accumulate: who found no room tries again, and is told at last
  bool fresh;                 // nothing was ever added: all slots are EMPTY, and need not be read
  bool again;                 // the second time, for those of `source`; else for all of the batch
  part_list<F> source;        // what the first time has left
  part_list<F> bin, part;     // a room for each, one after the other
  part_list<F> rest;          // room for all
  typename F::key* frequent;  // keys; empty_key where there is none
  u32* leader;                // an element of each, by its place in the source, or nobody
  u32* last;                  // another element, or nobody
  typename F::value* joined;
  u32* failed;  // status of a frequent key that found no room, or 0
  sampled* found;
};

// Element x of the source.
template <class F>
GH_FN u64 elements(const parts_work<F>& w) {
  return w.again ? *w.source.n : w.n;
}
template <class F>
GH_FN typename F::word element_at(const request& q, const parts_work<F>& w, u64 x) {
  return w.again ? w.source.word[x] : F::make(read_key<F>(q, x), read_value<F>(q, x));
}
template <class F>
GH_FN u32 number_at(const parts_work<F>& w, u64 x) {  // in the batch
  return !w.again ? u32(x) : w.source.at ? w.source.at[x] : 0;
}

GH_FN u32 count_of(const u32* n, u32 room) { return *n < room ? *n : room; }

template <class F>
GH_FN void append(const part_list<F>& list, typename F::word w, u32 at) {
  const u32 i = atomicAdd(list.n, 1u);
  list.word[i] = w;
  if (list.at) list.at[i] = at;
}

// A place for each lane of a warp that has `some`, from the counter on.
GH_FN u32 take_places(u32* counter, bool some) {
  const u32 all = __ballot_sync(full_warp, some), lane = threadIdx.x % 32;
  u32 first = 0;
  if (lane == 0 && all) first = atomicAdd(counter, u32(__popc(all)));
  return shuffle(first, 0, 32) + u32(__popc(all & ((1u << lane) - 1)));
}
// append() for all lanes of a warp, those that have `some`.
template <class F>
GH_FN void append_some(const part_list<F>& list, bool some, typename F::word w, u32 at) {
  const u32 i = take_places(list.n, some);
  if (!some) return;
  list.word[i] = w;
  if (list.at) list.at[i] = at;
}

// A key that finds no place in its row the first time has another row the second time.
template <class Key>
GH_FN u32 frequent_row(Key k, bool again) {
  const auto h = mix(Key(k ^ Key(0x5bd1e995u)));
  return u32(again ? h >> 16 : h) & (frequent_slots - 2);
}
// Where the key is in the list, or nobody.
template <class Key>
GH_FN u32 frequent_slot(const Key* list, Key k, bool again) {
  const u32 row = frequent_row(k, again);
  return list[row] == k ? row : list[row + 1] == k ? row + 1 : nobody;
}
template <class Key>
GH_FN u32 side_slot(Key k) {
  return frequent_slots + u32(empty_key<Key> - k);
}

// ---- joining -----------------------------------------------------------------------------------------------------------

// What changes nothing when it is joined with another operand.
template <class V>
GH_FN V no_operand_of(joiner j) {
  if constexpr (sizeof(V) == 8)
    if (j.narrow) return no_operand_of<u32>(j);
  constexpr V sign = V(1) << (8 * sizeof(V) - 1);
  if (j.type == 2) return j.combine == 0 ? sign : V(~V(0) >> 1);  // -0, and a NaN
  if (j.combine == 0) return 0;
  const V least = j.type == 1 ? sign : V(0);
  return j.combine == 1 ? V(~least) : least;
}

// Of 2^28 operands that may be joined none takes the sum out of range where the stored value would have kept it inside.
inline constexpr u32 log_joined = 28;
static_assert(part_chunk <= 1u << log_joined);

// ---- which keys are frequent ----------------------------------------------------------------------------------------------

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

// Once in a kernel, by all of its threads.
GH_FN u32 sum_of_block(u32 mine) {
  GH_BLOCK_MEMORY(u32, all);
  if (threadIdx.x == 0) all = 0;
  __syncthreads();
  const u32 of_warp = warp_sum(mine);
  if (threadIdx.x % 32 == 0) atomicAdd(&all, of_warp);
  __syncthreads();
  return all;
}

// Declines a batch that has no frequent keys, if one in so many sampled slots is dead: one after the other, elements go to
// their own tombstone by one swap, or to somebody's at once, while a part lists all of them as beyond their homes.
inline constexpr u32 dead_share = 32;
template <class Parts>
__global__ void __launch_bounds__(part_threads, 1)
    decline_for_dead(const __grid_constant__ typename Parts::table t,
                     const __grid_constant__ parts_work<typename Parts::F> w) {
  after_the_one_before();
  if (!w.found->divided || w.found->frequent) return;  // the same for the whole block
  constexpr u32 each = part_samples / part_threads;
  u32 dead = 0;
#pragma unroll
  for (u32 i = 0; i < each; ++i)
    dead += Parts::dead_at(t, mix(u64(i * part_threads + threadIdx.x) + 0x2545f4914f6cdd1dull));
  const u32 all = sum_of_block(dead);
  if (threadIdx.x == 0 && all >= part_samples / dead_share) w.found->divided = w.found->divided_first = 0;
}

// ---- dividing ------------------------------------------------------------------------------------------------------------

template <class F>
inline constexpr u32 divided_each =  // of a thread; with more keys of 8 bytes registers would be spilled
    GPUHASH_PART_EACH *
    (sizeof(typename F::word) == 16 ? 4
     : sizeof(typename F::key) == 8 ? 6
                                    : 8) /
    8;

// In the memory of a block: counters, in the first pass what frequent keys need, and then the elements of a tile in the
// order of their bins, their numbers if somebody is told what became of them, and their bins.
struct divide_counters {
  u32 count[part_threads], base[part_threads], of_warp[part_threads / 32], some_are_full, unused[3];
};
template <class F>
struct joined_here {
  typename F::key frequent[frequent_slots];
  typename F::value joined[frequent_all];
  u32 leader[frequent_all], last[frequent_all], unused[2];
};
template <class F>
constexpr size_t divide_bytes(bool second, u32 tile, bool told) {
  const size_t fixed = sizeof(divide_counters) + (second ? 0 : sizeof(joined_here<F>));
  return (fixed + 15) / 16 * 16 + tile * (sizeof(typename F::word) + sizeof(uint16_t) + (told ? sizeof(u32) : 0));
}

// Every part_threads-th of the elements from p on; element i is there if i * part_threads is less than `many`.
template <u32 N, class T, class From>
GH_FN void load_words(T* to, const From* p, u32 many) {
#pragma unroll
  for (u32 i = 0; i < N; ++i)
    if (i * part_threads < many) to[i] = p[i * part_threads];
}
template <u32 N, class T>
GH_FN void load_sized(T* to, const void* p, u32 bytes, u64 first, u32 many) {
  if constexpr (sizeof(T) == 8)
    if (bytes == 8) return load_words<N>(to, static_cast<const T*>(p) + first, many);
  load_words<N>(to, static_cast<const u32*>(p) + first, many);
}
// The same of the batch's arrays.
template <class F, u32 N>
GH_FN void load_elements(typename F::word* to, const request& q, u64 first, u32 many) {
  typename F::key k[N];
  typename F::value v[N] = {};
  load_sized<N>(k, q.keys, q.key_bytes, first, many);
  if (F::has_value && q.values) load_sized<N>(v, q.values, q.value_bytes, first, many);
#pragma unroll
  for (u32 i = 0; i < N; ++i) to[i] = F::make(k[i], v[i]);
}

// What a block divides at a time.
struct divided_tile {
  u64 from;
  u32 many, first, bins;
  // Of a thread: element i * part_threads from its first one on is there if i * part_threads is less.
  GH_FN u32 own(u32 me) const { return many > me ? many - me : 0; }
};

template <class F, bool Second>
struct tiles_to_divide {
  const parts_work<F>& w;
  u64 number, n;  // of tiles, and of the elements of the first pass
  u32 tile, per_bin, bins;

  // From number g on, the first one that has elements: from .. from + many - 1, whose bins begin with `first`.
  GH_FN divided_tile next(u64& g) const {
    divided_tile x{0, 0, 0, bins};
    for (; g < number && !x.many; g += w.blocks) {
      x.from = g * tile;
      u64 end = n;
      if constexpr (Second) {
        const u32 bin = u32(g / per_bin);
        x.from = u64(bin) * w.bin_room + g % per_bin * tile;
        end = u64(bin) * w.bin_room + count_of(w.bin.n + bin, w.bin_room);
        x.first = bin << w.bin_bits;
        x.bins = x.first + (1u << w.bin_bits) < w.parts ? 1u << w.bin_bits : w.parts - x.first;
      }
      if (x.from < end) x.many = u32(end - x.from < tile ? end - x.from : tile);
    }
    return x;
  }
};

template <class Key>
GH_FN u32 bin_of_part(Key k, u32 sub_bits) {
  return u32(mix(Key(k ^ Key(0x58f38dedu)))) >> (32 - sub_bits);
}

// Second: from the bins of the first pass into those of the parts.
template <class Parts, bool Second>
__global__ void __launch_bounds__(part_threads, 2)
    divide(const __grid_constant__ typename Parts::table t, const __grid_constant__ request q,
           const __grid_constant__ parts_work<typename Parts::F> w) {
  after_the_one_before();
  using F = typename Parts::F;
  using word = typename F::word;
  constexpr u32 each = divided_each<F>;
  const u32 tile = w.tile[Second];
  GH_DYNAMIC_MEMORY(unsigned char, memory);
  divide_counters& here = *reinterpret_cast<divide_counters*>(memory);
  joined_here<F>& joins = *reinterpret_cast<joined_here<F>*>(memory + sizeof(divide_counters));
  word* const staged = reinterpret_cast<word*>(memory + divide_bytes<F>(Second, 0, false));
  const bool told = w.rest.at;
  u32* const staged_at = reinterpret_cast<u32*>(staged + tile);
  uint16_t* const staged_bin = reinterpret_cast<uint16_t*>(staged_at + (told ? tile : 0));
  const u32 me = threadIdx.x, lane = me % 32, warp = me / 32;
  if (!w.found->divided) return;
  const u64 n = elements(w);
  const joiner j = joiner_of(q);
  const bool some_frequent = !Second && w.found->frequent != 0;
  const u32 usual = w.found->usual;
  if constexpr (!Second) {
    for (u32 i = me; i < frequent_all; i += part_threads) {
      if (i < frequent_slots) joins.frequent[i] = w.frequent[i];
      joins.joined[i] = no_operand_of<typename F::value>(j);
      joins.leader[i] = joins.last[i] = nobody;
    }
  }

  const bool to_parts = Second || w.bin_room == 0;
  const part_list<F>& to = to_parts ? w.part : w.bin;
  const u32 room = to_parts ? w.part_room : w.bin_room;
  const u32 group_shift = w.part_bits - Parts::group_bits(t) + (to_parts ? 0 : w.bin_bits);
  const u32 sub_bits = Second ? 0 : w.sub_bits;
  const u32 per_bin = Second ? (w.bin_room + tile - 1) / tile : 0;
  const u64 tiles = Second ? u64(w.bins) * per_bin : (n + tile - 1) / tile;
  word mine[each];
  const auto load = [&](divided_tile x) {
    if constexpr (Second)
      load_words<each>(mine, w.bin.word + x.from + me, x.own(me));
    else if (w.again)
      load_words<each>(mine, w.source.word + x.from + me, x.own(me));
    else
      load_elements<F, each>(mine, q, x.from + me, x.own(me));
  };
  const tiles_to_divide<F, Second> all{w, tiles, n, tile, per_bin, to_parts ? w.parts : w.bins};
  u64 g = blockIdx.x;
  divided_tile now = all.next(g);
  load(now);
  while (now.many) {  // the same for the whole block
    const u64 from = now.from;
    const u32 many = now.many, first = now.first, bins = now.bins, own_many = now.own(me);
    const auto bin_of = [&](word e) {
      const u32 bin = u32(Parts::group_of(t, F::key_of(e)) >> group_shift) - first;
      return sub_bits ? bin << sub_bits | bin_of_part(F::key_of(e), sub_bits) : bin;
    };
    u32 place[each];  // bin and rank in it
    if (me < bins) here.count[me] = 0;
    if (me == 0) here.some_are_full = 0;
    if constexpr (!Second) {
      for (u32 x = me; told && x < many; x += part_threads) q.status[number_at(w, from + x)] = u8(usual);
    }
    __syncthreads();
#pragma unroll
    for (u32 i = 0; i < each; ++i) {
      place[i] = nobody;
      if (i * part_threads >= own_many) continue;
      if constexpr (!Second) {
        const auto k = F::key_of(mine[i]);
        u32 slot = nobody;
        if (is_side_key(k))
          slot = side_slot(k);
        else if (some_frequent)
          slot = frequent_slot(joins.frequent, k, w.again);
        if (slot != nobody) {
          const u32 x = u32(from) + i * part_threads + me;
          const auto v = F::value_of(mine[i]);
          if (q.kind != accumulate || may_join_first(j, v, log_joined)) {
            if (told) q.status[number_at(w, x)] = u8(no);
            u32 leads = static_cast<volatile u32*>(joins.leader)[slot];
            if (leads == nobody) leads = atomicCAS(joins.leader + slot, nobody, x);
            if (leads != nobody && q.kind == assign) joins.last[slot] = x;
            if (q.kind == accumulate) join_in_block(joins.joined + slot, v, j);
            continue;
          }
          if (is_side_key(k)) {
            append(w.rest, mine[i], number_at(w, x));
            continue;
          }
        }
      }
      const u32 bin = bin_of(mine[i]);
      place[i] = bin << 16 | atomicAdd(here.count + bin, 1u);
    }
    __syncthreads();

    // Where each bin begins in this block's memory, and in its room.
    const u32 own = me < bins ? here.count[me] : 0;
    u32 up_to = own;
#pragma unroll
    for (u32 d = 1; d < 32; d *= 2) {
      const u32 below = __shfl_up_sync(full_warp, up_to, d);
      up_to += lane >= d ? below : 0;
    }
    if (lane == 31) here.of_warp[warp] = up_to;
    __syncthreads();
    u32 total = 0, before = 0;
#pragma unroll
    for (u32 i = 0; i < part_threads / 32; ++i) {
      before += i < warp ? here.of_warp[i] : 0;
      total += here.of_warp[i];
    }
    if (me < bins) {
      const u32 start = before + up_to - own;
      here.count[me] = start;
      const u32 in_bin = own ? atomicAdd(to.n + first + me, own) : 0;
      here.base[me] = (first + me) * room + in_bin - start;
      if (in_bin + own > room) here.some_are_full = 1;
    }
    __syncthreads();
#pragma unroll
    for (u32 i = 0; i < each; ++i) {
      if (place[i] == nobody) continue;
      const u32 bin = place[i] >> 16, at = here.count[bin] + (place[i] & 0xffff);
      staged[at] = mine[i];
      staged_bin[at] = uint16_t(bin);
      place[i] = at;
    }
    if (told) {
#pragma unroll
      for (u32 i = 0; i < each; ++i) {
        const u64 x = from + i * part_threads + me;
        if (place[i] != nobody) staged_at[place[i]] = Second ? w.bin.at[x] : number_at(w, x);
      }
    }
    __syncthreads();
    const bool some_are_full = here.some_are_full;
    now = all.next(g);
    load(now);  // while these leave: no load would be moved across what changes memory
#pragma unroll(sizeof(typename F::key) == 8 ? 2 : 4)
    for (u32 x = me; x < total; x += part_threads) {
      const word e = staged[x];
      const u32 bin = staged_bin[x], i = here.base[bin] + x;
      if (some_are_full && i >= (first + bin + 1) * room) {
        append(w.rest, e, told ? staged_at[x] : 0);
        continue;
      }
      to.word[i] = e;
      if (told) to.at[i] = staged_at[x];
    }
    __syncthreads();
  }

  if constexpr (!Second) {
    __syncthreads();
    for (u32 i = me; i < frequent_all; i += part_threads) {
      const u32 leads = joins.leader[i];
      if (leads == nobody) continue;
      const u32 before = atomicCAS(w.leader + i, nobody, leads);
      if (q.kind == assign) {
        if (before != nobody) w.last[i] = leads;
        if (joins.last[i] != nobody) w.last[i] = joins.last[i];
      }
      if (q.kind == accumulate) join_into(w.joined + i, joins.joined[i], j);
    }
  }
}

// An operation of an accumulate that found no room goes on to the second time; of that, to the list of those that failed.
template <class F>
GH_FN void put_off(const parts_work<F>& w, u32 status, typename F::word e, u32 at) {
  if (w.again) {
    append(part_list<F>{w.part.word, w.part.at, &w.found->failed_ops}, e, at);
    w.found->lacking = status;
  } else {
    append(w.rest, e, at);
  }
}

// ---- joining all of them ---------------------------------------------------------------------------------------------------

inline constexpr int row_bytes = 64;
// A row, and one lane that serves it alone.
template <class F, class Mem>
using lone_tile = cuda_tile<F, row_bytes / int(sizeof(typename F::word)), 1, false, Mem>;

// A table of sums in a block's memory.
template <class Key, class Value>
GH_FN void clear_sums(Key* keys, Value* sums, u32 slots, u32 threads, joiner j) {
  for (u32 i = threadIdx.x; i < slots; i += threads) {
    keys[i] = empty_key<Key>;
    sums[i] = no_operand_of<Value>(j);
  }
}

template <class Op, class Table>
GH_FN void serve_one(Op& op, const Table& t, u32 kind, typename Op::key k, typename Op::value v,
                     typename Op::index home, joiner j) {
  typename Op::tile_type tile;
  op.start(t, kind, k, v, home);
  for (verdict d = verdict::next; d != verdict::done;) {
    d = op.step(tile, t, j, tile.load(op.line(t)), true);
    if constexpr (Op::has_slow)
      if (d == verdict::slow) d = op.slow(tile, t, j, true);
  }
}

// Of kernels that serve elements of the table itself, on a multiprocessor: with more of them registers would be spilled.
template <class Parts>
constexpr int blocks_for_rest() {
  using op = typename Parts::rest_op;
  return !op::has_slow ? 4 : sizeof(typename Parts::F::word) == 16 ? 1 : least_blocks<op>;
}
template <class Parts>
inline constexpr int rest_blocks = blocks_for_rest<Parts>();

// What a thread has done for its elements.
struct done_here {
  int live = 0, used = 0;
  u32 good = 0;
};
inline constexpr u32 joined_bytes = GPUHASH_PART_CACHE;  // of a block's cache
template <class F>
inline constexpr u32 joined_slots = joined_bytes / (sizeof(typename F::key) + sizeof(typename F::value));
// Elements of a thread on their way from memory.
template <class F>
inline constexpr u32 joined_each = sizeof(typename F::word) == 16 ? 2 : 4;

// The cache is filled by those who come first, in rows of two. Nobody is told what became of an element, since an operation
// stands for many.
template <class Parts>
__global__ void __launch_bounds__(part_threads, 2)
    join_all(const __grid_constant__ typename Parts::table t, const __grid_constant__ request q,
             const __grid_constant__ parts_work<typename Parts::F> w, totals* sum) {
  after_the_one_before();
  using F = typename Parts::F;
  using key = typename F::key;
  using value = typename F::value;
  constexpr u32 slots = joined_slots<F>, each = joined_each<F>, tile = each * part_threads;
  GH_DYNAMIC_MEMORY(key, keys);
  value* const sums = reinterpret_cast<value*>(keys + slots);
  if (!w.found->joins) return;
  const u32 me = threadIdx.x;
  const joiner j = joiner_of(q);
  clear_sums(keys, sums, slots, part_threads, j);
  done_here done;
  const auto serve = [&](bool some, key k, value v) {
    if constexpr (!Parts::joins_directly) {
      append_some(w.rest, some, F::make(k, v), 0);
    } else if (some) {
      typename Parts::template op<lone_tile<F, cuda_mem>, accumulate> op;
      const bool aside = Parts::table::side_slots && is_side_key(k);
      if (!aside) serve_one(op, t, accumulate, k, v, t.home(k), j);
      if constexpr (Parts::table::side_slots)
        if (aside) op.res = serve_side<F, cuda_mem>(t.side, accumulate, j, k, v);
      done.live += op.res.live;
      done.used += op.res.used;
      done.good += op.res.status == yes;
      if (lacks_room(op.res.status)) put_off(w, op.res.status, F::make(k, v), 0);
    }
  };
  __syncthreads();
  const u64 n = elements(w);
  const bool of_left = w.again;
  for (u64 from = u64(blockIdx.x) * tile; from < n; from += u64(w.blocks) * tile) {
    const u32 many = u32(n - from < tile ? n - from : tile), own_many = many > me ? many - me : 0;
    typename F::word mine[each];
    if (of_left)
      load_words<each>(mine, w.source.word + from + me, own_many);
    else
      load_elements<F, each>(mine, q, from + me, own_many);
    u32 missed = 0;
#pragma unroll
    for (u32 i = 0; i < each; ++i) {
      if (i * part_threads >= own_many) continue;
      const key k = F::key_of(mine[i]);
      const value v = F::value_of(mine[i]);
      bool joined = false;
      const u32 row = u32(mix(k)) & (slots - 2);
      for (u32 side = 0; side < 2 && !joined && !is_side_key(k) && may_join_first(j, v, log_joined); ++side) {
        key seen = static_cast<volatile key*>(keys)[row + side];
        if (seen == empty_key<key>) seen = atomicCAS(keys + row + side, empty_key<key>, k);
        joined = seen == empty_key<key> || seen == k;
        if (joined) join_in_block(sums + row + side, v, j);
      }
      missed |= u32(!joined) << i;
    }
    for (; __any_sync(full_warp, missed); missed &= missed - 1) {
      const u32 i = u32(__ffs(missed) - 1);
      typename F::word e = mine[0];
#pragma unroll
      for (u32 x = 1; x < each; ++x) e = i == x ? mine[x] : e;
      serve(missed != 0, F::key_of(e), F::value_of(e));
    }
  }
  __syncthreads();
  for (u32 from = 0; from < slots; from += part_threads) {
    const u32 i = from + me < slots ? from + me : 0;
    serve(from + me < slots && keys[i] != empty_key<key>, keys[i], sums[i]);
  }
  add_sums(sum, q.batch_sum, warp_sum(done.live), warp_sum(done.used), warp_sum(int(done.good)), 0, 0);
}

// ---- joining in parts ------------------------------------------------------------------------------------------------------
//
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
inline constexpr u32 joins_unit = 256;
inline constexpr u32 join_tries = 16;  // places that a key looks at, before its element is left

// The first slots of a table of keys.
template <class Key>
GH_FN u32 place_in_block(Key* keys, u32 slots, Key k, bool* there) {
  u32 at = reduce(u32(mix(Key(k ^ Key(0x2545f491u)))), slots);
  for (u32 tries = 0; tries < join_tries; ++tries) {
    Key seen = static_cast<volatile Key*>(keys)[at];
    if (seen == empty_key<Key>) seen = atomicCAS(keys + at, empty_key<Key>, k);
    *there = seen == k;
    if (*there || seen == empty_key<Key>) return at;
    at = at + 1 == slots ? 0 : at + 1;
  }
  return nobody;
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

// ---- serving -------------------------------------------------------------------------------------------------------------

// ---- by counting. Most keys of a batch that adds lie in the group of their home, if they are in the table at all. So each
// element takes the next slot of its group, by adding to the group's counter; then a thread for each group sees whether
// equal keys took several. An element that does not fit its group, and whose key is neither there nor in another such
// element, takes the first slot that is left further on, by the counters alone. What remains is left to ops.hpp: equal keys,
// those whose group had no room before the batch, and whatever else is out of the ordinary.

inline constexpr u32 part_servers = GPUHASH_PART_SERVERS;  // threads of a block
inline constexpr u32 serve_threads = GPUHASH_OWN_SERVERS;  // of one where the structure has parts of its own
template <class F, u32 Kind>                               // with more of them registers would be spilled
inline constexpr int serve_blocks = sizeof(typename F::word) == 16                                   ? 3
                                    : F::has_value && sizeof(typename F::key) == 4 && Kind != insert ? 5
                                                                                                     : 4;
inline constexpr u32 few_each = 4;  // elements of a thread, if there are few of them
// Elements beyond their groups in chains of those of one group. More of them are mostly equal keys.
inline constexpr u32 chained_at_most = GPUHASH_PART_CHAINED;

// Slots of a part in the block's memory; then, for batches that count, a counter for each group, the number of elements that
// are left, and chains; if somebody is told, who took each slot. Counters become a list of elements for ops.hpp.
template <class Parts>
constexpr size_t serve_bytes(const typename Parts::table& t, u32 part_bits, bool told) {
  if constexpr (Parts::own_parts) return Parts::serve_bytes(t, told);
  const size_t slots = size_t(1) << part_bits;
  return slots * sizeof(typename Parts::F::word) + (slots >> Parts::group_bits(t)) * sizeof(u32) + 16 +
         chained_at_most * (sizeof(u32) + sizeof(uint16_t)) + (told ? slots * sizeof(uint16_t) : 0);
}

template <class F, class Words>
GH_FN void load_slots(Words& to, bool fresh, const typename F::word* from) {
  if (!fresh) return to.load(from);
#pragma unroll
  for (auto& w : to.w) w = empty_word<F>();
}

// What became of an element beyond its group.
enum further : u32 { further_placed, further_left, further_unclear };

template <class Parts, u32 Kind>
struct counted_part {
  using F = typename Parts::F;
  using word = typename F::word;
  using key = typename F::key;
  static constexpr u32 wide = 16 / sizeof(word);           // words of 16 bytes
  static constexpr u32 widest_group = 128 / sizeof(word);  // slots
  using some_words = lane_words<word, int(wide), false, block_mem>;
  // A counter: slots of the group that are taken, or would be if there were as many; those that were before the batch; and
  // the last element of its chain, from 1 on.
  static constexpr u32 had_at = 16, chain_at = 22, taken_mask = 0xffff, had_mask = 63, link_mask = 1023;
  static_assert(widest_group <= had_mask && chained_at_most <= link_mask);

  word* slots;
  u32* counters;
  u32* chains;    // of element i, from 1 on, at i - 1: the next one, and some bits of its key's hash
  uint16_t* who;  // or NULL
  const u32* at;  // numbers of the elements in the batch, or NULL
  u8* status;
  u32 usual, group_bits, groups;

  GH_FN u32 group_slots() const { return 1u << group_bits; }
  GH_FN u32 counter_of(u32 group) const { return *static_cast<volatile u32*>(counters + group); }
  GH_FN void tell(u32 x, u32 answer) const {
    if (status && answer != usual) status[at[x]] = u8(answer);
  }

  // The counters of groups, from what their lanes loaded. All lanes of a warp.
  GH_FN void begin(u32 i, bool mine, const word* w) const {
    const u32 lane = threadIdx.x % 32, lanes = group_slots() / wide;
    u32 n = 0;
    // The slots in use are the first ones, also of what a lane has.
    if (__any_sync(full_warp, mine && F::key_of(w[0]) != empty_key<key>)) {
#pragma unroll
      for (u32 x = 0; x < wide; ++x) {
        const u32 in_use = __ballot_sync(full_warp, mine && F::key_of(w[x]) != empty_key<key>);
        n += __popc(in_use >> lane & ((1u << lanes) - 1));
      }
    }
    if (mine && i % group_slots() == 0) counters[i >> group_bits] = n << had_at | n;
  }

  // Where key k is among the first `many` slots of the group that begins at `first`, or nobody. *dead: tombstones are there.
  GH_FN u32 slot_with(u32 first, u32 many, key k, bool* dead) const {
    u32 found = nobody;
#pragma unroll 4
    for (u32 i = 0; i < group_slots(); i += wide) {  // of all of them, so that the threads of a warp stay together
      some_words some;
      some.load(slots + first + i);
#pragma unroll
      for (u32 y = 0; y < wide; ++y) {
        if (F::key_of(some.w[y]) == k && i + y < many) found = first + i + y;
        *dead |= F::key_of(some.w[y]) == dead_key<key>;
      }
    }
    return found;
  }

  // Element x, whose home is this group. False: it is left.
  GH_FN bool take(word e, u32 x, u32 group, joiner j) const {
    const key k = F::key_of(e);
    const u32 first = group << group_bits, had = counter_of(group) >> had_at & had_mask;
    if (had) {
      bool dead = false;
      const u32 slot = slot_with(first, had, k, &dead);
      if (slot != nobody) {
        if (Kind == accumulate && !adds_integers(j)) return false;
        if constexpr (Kind == accumulate) block_mem::add_value<F>(slots + slot, F::value_of(e), j.narrow);
        if constexpr (Kind == assign) block_mem::store<order::relaxed>(slots + slot, e);
        tell(x, no);
        return true;
      }
      // It may lie further on, or have a tombstone.
      if (had == group_slots() || (F::has_value && dead)) return false;
    }
    const u32 place = atomicAdd(counters + group, 1u) & taken_mask;
    if (place >= group_slots()) return false;
    block_mem::store<order::relaxed>(slots + first + place, e);
    if (who) who[first + place] = uint16_t(x);
    return true;
  }

  // After all have taken their slots: one thread.
  GH_FN void settle(u32 group, joiner j, done_here& done) const {
    const u32 counter = counters[group], had = counter >> had_at & had_mask, taken = counter & taken_mask;
    u32 end = taken < group_slots() ? taken : group_slots();
    if (end == had) return;
    const u32 first = group << group_bits;
    key keys[widest_group];
#pragma unroll
    for (u32 i = 0; i < widest_group; i += wide) {
      if (i >= group_slots()) break;
      some_words some;
      some.load(slots + first + i);
#pragma unroll
      for (u32 y = 0; y < wide; ++y) keys[i + y] = F::key_of(some.w[y]);
    }
    bool twice = false;
#pragma unroll
    for (u32 i = 1; i < widest_group; ++i) {
      if (i >= end) break;
      bool same = false;
#pragma unroll
      for (u32 y = 0; y < i; ++y) same |= keys[y] == keys[i];
      twice |= same;
    }
    if (twice) end = join_equal(first, had, end, j);
    counters[group] = had << had_at | end;
    done.live += int(end - had);
    done.used += int(end - had);
    done.good += end - had;
    if (status && usual != yes)
      for (u32 i = had; i < end; ++i) tell(who[first + i], yes);
  }

  // Slots had .. end - 1 of a group were taken. The first element of each key stays. Returns the new end.
  GH_FN u32 join_equal(u32 first, u32 had, u32 end, joiner j) const {
    word* const group = slots + first;
    for (u32 i = had + 1; i < end;) {
      const word w = block_mem::load<order::relaxed>(group + i);
      u32 y = had;
      word before{};
      for (; y < i; ++y) {
        before = block_mem::load<order::relaxed>(group + y);
        if (F::key_of(before) == F::key_of(w)) break;
      }
      if (y == i) {
        ++i;
        continue;
      }
      if (Kind == assign || Kind == accumulate)
        block_mem::store<order::relaxed>(group + y,
                                         wanted<F>(Kind, j, true, F::value_of(before), F::key_of(w), F::value_of(w)));
      --end;
      if (who) {
        tell(who[first + i], no);
        who[first + i] = who[first + end];
      }
      block_mem::store<order::relaxed>(group + i, block_mem::load<order::relaxed>(group + end));
      block_mem::store<order::relaxed>(group + end, empty_word<F>());
    }
    return end;
  }

  GH_FN static u32 some_bits(key k) { return u32(mix(k)) & ~link_mask; }
  // Element e, by its number, becomes the last of its group's chain.
  GH_FN void chain(word e, u32 group, u32 number) const {
    for (u32 seen = counter_of(group);;) {
      chains[number - 1] = some_bits(F::key_of(e)) | seen >> chain_at;
      const u32 next = (seen & ((1u << chain_at) - 1)) | number << chain_at;
      const u32 before = atomicCAS(counters + group, seen, next);
      if (before == seen) break;
      seen = before;
    }
  }
  // After all are in their chains.
  GH_FN further place_further(word e, u32 x, u32 group, u32 number, done_here& done) const {
    const key k = F::key_of(e);
    const u32 bits = some_bits(k), counter = counter_of(group);
    const u32 taken = counter & taken_mask;
    if ((counter >> had_at & had_mask) == group_slots()) return further_unclear;
    for (u32 i = chains[number - 1] & link_mask; i; i = chains[i - 1] & link_mask)
      if ((chains[i - 1] & ~link_mask) == bits) return further_unclear;
    bool dead = false;
    if (slot_with(group << group_bits, taken < group_slots() ? taken : group_slots(), k, &dead) != nobody)
      return further_unclear;
    if (F::has_value && dead) return further_unclear;
    for (; group < groups; ++group) {
      if ((counter_of(group) & taken_mask) >= group_slots()) continue;
      const u32 place = atomicAdd(counters + group, 1u) & taken_mask;
      if (place >= group_slots()) continue;
      block_mem::store<order::relaxed>(slots + (group << group_bits) + place, e);
      tell(x, yes);
      ++done.live;
      ++done.used;
      ++done.good;
      return further_placed;
    }
    return further_left;
  }
};

template <class Parts, u32 Kind>
__global__ void __launch_bounds__(part_servers, serve_blocks<typename Parts::F, Kind>)
    serve_parts(const __grid_constant__ typename Parts::table t, const __grid_constant__ request q,
                const __grid_constant__ parts_work<typename Parts::F> w, totals* sum) {
  after_the_one_before();
  using F = typename Parts::F;
  using word = typename F::word;
  using op_type = typename Parts::template op<lone_tile<F, block_mem>, Kind>;
  constexpr bool adds = Kind != erase;
  constexpr u32 wide = 16 / sizeof(word), at_once = counted_at_once;
  GH_DYNAMIC_MEMORY(word, slots);
  const u32 part = blockIdx.x, me = threadIdx.x;
  if (!w.found->divided) return;
  const u32 n = count_of(w.part.n + part, w.part_room);
  if (n == 0) return;  // the whole block
  const u64 begin = u64(part) << w.part_bits, all = t.n_slots;
  const u32 size = u32(all - begin < u64(1) << w.part_bits ? all - begin : u64(1) << w.part_bits);
  const word* const mine = w.part.word + u64(part) * w.part_room;
  const u32* const at = w.part.at ? w.part.at + u64(part) * w.part_room : nullptr;
  const joiner j = joiner_of(q);
  const u32 usual = w.found->usual;
  // More elements than slots: most of them are of keys that others are of, too.
  const bool counts = adds && n <= size && n <= 32 * part_servers;
  const u32 group_bits = Parts::group_bits(t), groups = size >> group_bits;
  u32* const counters = reinterpret_cast<u32*>(slots + (u64(1) << w.part_bits));
  u32* const n_left = counters + ((u64(1) << w.part_bits) >> group_bits);
  u32* const chains = n_left + 4;
  uint16_t* const chained = reinterpret_cast<uint16_t*>(chains + chained_at_most);
  uint16_t* const who = q.status ? chained + chained_at_most : nullptr;
  const counted_part<Parts, Kind> counted{slots, counters, chains, who, at, q.status, usual, group_bits, groups};

  for (u32 from = 0; from < size; from += at_once * part_servers * wide) {
    lane_words<word, int(wide), false> some[at_once];
#pragma unroll
    for (u32 g = 0; g < at_once; ++g) {
      const u32 i = from + (g * part_servers + me) * wide;
      if (i < size) load_slots<F>(some[g], w.fresh, t.slots + begin + i);
    }
#pragma unroll
    for (u32 g = 0; g < at_once; ++g) {
      const u32 i = from + (g * part_servers + me) * wide;
      if (i < size) block_mem::store_row(slots + i, some[g].w);
      if (counts) counted.begin(i, i < size, some[g].w);
    }
  }
  if (me < 3) n_left[me] = 0;
  __syncthreads();

  done_here done;
  const u32 first_group = u32(begin >> group_bits);
  const auto group_of = [&](word e) { return u32(Parts::group_of(t, F::key_of(e))) - first_group; };
  u32 total = n, room = n;   // elements for ops.hpp, and how many of them at a time
  u32 left = 0, before = 0;  // a bit for each of this thread's elements; and those of other threads that come before
  bool in_chains = false;    // these are elements of the chains
  if constexpr (adds) {
    if (counts) {
      bool pays = true;
      for (u32 from = 0, turn = 0; from < n; from += at_once * part_servers, turn += at_once) {
        word e[at_once];
#pragma unroll
        for (u32 g = 0; g < at_once; ++g) {
          const u32 x = from + g * part_servers + me;
          if (x < n && pays) e[g] = mine[x];
        }
#pragma unroll
        for (u32 g = 0; g < at_once; ++g) {
          const u32 x = from + g * part_servers + me;
          if (x < n && !(pays && counted.take(e[g], x, group_of(e[g]), j))) left |= 1u << (turn + g);
        }
        if (from == 0 && n > at_once * part_servers) {  // many elements of few keys are left, all of them
          if (left) atomicAdd(n_left + 1, u32(__popc(left)));
          __syncthreads();
          pays = n_left[1] < at_once * part_servers / 4;
        }
      }
      __syncthreads();
      for (u32 g = me; g < groups; g += part_servers) counted.settle(g, j, done);
      if (left) before = atomicAdd(n_left, u32(__popc(left)));
      __syncthreads();
      total = *n_left;
      if (Parts::goes_on && total && total <= chained_at_most) {  // the same for the whole block
        for (u32 bits = left, to = before; bits; bits &= bits - 1, ++to)
          chained[to] = uint16_t(u32(__ffs(bits) - 1) * part_servers + me);
        __syncthreads();
        for (u32 i = me; i < total; i += part_servers) {
          const word e = mine[chained[i]];
          counted.chain(e, group_of(e), i + 1);
        }
        __syncthreads();
        left = 0;
        in_chains = true;
        for (u32 i = me, bit = 1; i < total; i += part_servers, bit *= 2) {
          const u32 x = chained[i];
          const word e = mine[x];
          const u32 end = counted.place_further(e, x, group_of(e), i + 1, done);
          if (end == further_left) append(w.rest, e, at ? at[x] : 0);
          if (end == further_unclear) left |= bit;
        }
        if (left) before = atomicAdd(n_left + 2, u32(__popc(left)));
        __syncthreads();
        total = n_left[2];
      }
      room = 2 * groups;
    }
  }

  const auto local = Parts::local(t, slots, size);
  uint16_t* const list = reinterpret_cast<uint16_t*>(counters);
  typename op_type::tile_type tile;
  op_type op;
  const auto start = [&](word e) {
    op.start(local, Kind, F::key_of(e), F::value_of(e), Parts::local_home(t, group_of(e)));
  };
  for (u32 served = 0; served < total; served += room) {
    if (counts) {
      u32 to = before - served;
      for (u32 bits = left; bits; bits &= bits - 1, ++to) {
        const u32 own = u32(__ffs(bits) - 1) * part_servers + me;
        if (to < room) list[to] = in_chains ? chained[own] : uint16_t(own);
      }
      __syncthreads();
    }
    const u32 many = total - served < room ? total - served : room;
    // Few elements by few warps: a warp takes as long as its longest path, unless its threads have several each.
    const u32 wanted = (many / few_each + 31) & ~31u;
    const u32 threads = wanted < 32 ? 32 : wanted < part_servers ? wanted : part_servers;
    const auto number = [&](u32 i) { return counts ? u32(list[i]) : i; };
    // A thread goes from one element to its next while others of its warp are still on their way: paths differ in length.
    // The next but one comes from memory meanwhile.
    u32 i = me < threads ? me : many, x = 0, x_ahead = 0;
    word e{}, ahead{};
    if (i < many) {
      x = number(i);
      e = mine[x];
      start(e);
    }
    if (i + threads < many) {
      x_ahead = number(i + threads);
      ahead = mine[x_ahead];
    }
    while (__any_sync(full_warp, i < many)) {  // a vote, so that the lanes of a warp meet again
      if (i >= many || op.step(tile, local, j, tile.load(op.line(local)), true) != verdict::done) continue;
      if (Parts::left(op)) {
        append(w.rest, e, at ? at[x] : 0);
      } else {
        done.live += op.res.live;
        done.used += op.res.used;
        done.good += op.res.status == yes;
        counted.tell(x, op.res.status);
      }
      i += threads;
      x = x_ahead;
      e = ahead;
      if (i < many) start(e);
      if (i + threads < many) {
        x_ahead = number(i + threads);
        ahead = mine[x_ahead];
      }
    }
    __syncthreads();
  }
  for (u32 i = me * wide; i < size; i += part_servers * wide) {
    lane_words<word, int(wide), false, block_mem> some;
    some.load(slots + i);
    cuda_mem::store_row(t.slots + begin + i, some.w);
  }
  add_sums(sum, q.batch_sum, warp_sum(done.live), warp_sum(done.used), warp_sum(int(done.good)), 0, 0);
}

// Does the table have this key? All lanes of a warp, those that look.
template <class Parts>
GH_FN bool has_key(const typename Parts::table& t, joiner j, bool looks, typename Parts::F::key k) {
  typename Parts::rest_op::tile_type tile;
  return serve_homes<typename Parts::rest_op, 1>(tile, t, j, looks, find, k, {}, t.home(k)).status == yes;
}

// Looks for the keys of some elements in the table. One block. What most elements answer is written while the batch is read;
// any other answer is a byte somewhere in memory.
inline constexpr u32 asked_each = 4;
template <class Parts>
__global__ void __launch_bounds__(block_threads, 1)
    ask(const __grid_constant__ typename Parts::table t, const __grid_constant__ request q,
        const __grid_constant__ parts_work<typename Parts::F> w) {
  after_the_one_before();
  using F = typename Parts::F;
  if (!w.found->divided) return;  // the same for the whole block
  const joiner j = joiner_of(q);
  u32 there = 0;
#pragma unroll 1
  for (u32 i = 0; i < asked_each; ++i) {
    const u64 x = reduce(mix(u64(i * block_threads + threadIdx.x) + 0x5851f42d4c957f2dull), w.n);
    const auto k = F::key_of(element_at(q, w, x));
    const bool looks = !is_side_key(k);
    there += has_key<Parts>(t, j, looks, k);
  }
  const u32 all = sum_of_block(there);
  if (threadIdx.x == 0 && all > asked_each * block_threads / 2) w.found->usual = no;
}

// What is served one at a time: elements that are left, and an operation for each frequent key. The first time these only:
// what else is left goes the same way again.
template <class F>
struct rest_item {
  typename F::key k;
  typename F::value v;
  u32 at;    // its number in the batch; of a frequent key, the leader's
  u32 slot;  // of a frequent key; or nobody
};
template <class F>
struct rest_items {
  const request& q;
  const parts_work<F>& w;
  const part_list<F>& list;
  const u32 listed;

  GH_FN rest_items(const request& a_request, const parts_work<F>& a_work)
      : q(a_request),
        w(a_work),
        list(w.found->divided ? w.rest : w.source),
        listed(w.again && !w.found->joins ? *list.n : 0) {}
  GH_FN u64 number() const { return u64(listed) + frequent_all; }
  // An item for each thread of the block whose number is a multiple of `apart`, from item `first` on. False: there is none, or
  // another thread's stands for it. Equal keys of an accumulate are joined: thousands of them would wait for one slot.
  GH_FN bool take_for_block(u64 first, u32 apart, rest_item<F>* x) const {
    const u64 i = first + threadIdx.x / apart;
    const bool mine = threadIdx.x % apart == 0 && i < number() && take(i, x);
    if constexpr (F::has_value)
      if (q.kind == accumulate) {
        using join_type = block_join<F, accumulate>;
        GH_BLOCK_MEMORY(join_type, equal);
        const bool leads = equal.join_equal(mine, accumulate, x->k, x->v, joiner_of(q)) == threadIdx.x;
        // Its key is there then; if not, all of its elements hear of that at last.
        if (mine && !leads && q.status) q.status[x->at] = u8(no);
        return mine && leads;
      }
    return mine;
  }

 private:
  // False: a frequent key that nobody names.
  GH_FN bool take(u64 i, rest_item<F>* x) const {
    if (i < listed) {
      *x = {F::key_of(list.word[i]), F::value_of(list.word[i]), list.at ? list.at[i] : 0, nobody};
      return true;
    }
    const u32 slot = u32(i - listed), leads = w.leader[slot], last = w.last[slot];
    if (leads == nobody) return false;
    x->k = w.frequent[slot];
    x->v = q.kind == accumulate ? w.joined[slot]
                                : F::value_of(element_at(q, w, q.kind == assign && last != nobody ? last : leads));
    x->at = number_at(w, leads);
    x->slot = slot;
    return true;
  }

 public:
  GH_FN void tell(const rest_item<F>& x, u32 status, u32* lost) const {
    if (q.status) q.status[x.at] = u8(status);
    if (!lacks_room(status)) return;
    if (w.sums) {
      put_off(w, status, F::make(x.k, x.v), x.at);
    } else if (x.slot == nobody) {
      ++*lost;
    } else {
      w.failed[x.slot] = status;
      w.found->failed = 1;
    }
  }
};

// By tiles, as the driver for other batches does it (drive/cuda_homes.cuh): paths may be long here. Few items by many warps,
// an item for each tile.
template <class Parts>
__global__ void __launch_bounds__(block_threads, rest_blocks<Parts>)
    serve_rest(const __grid_constant__ typename Parts::table t, const __grid_constant__ request q,
               const __grid_constant__ parts_work<typename Parts::F> w, totals* sum) {
  after_the_one_before();
  using F = typename Parts::F;
  using op_type = typename Parts::rest_op;
  constexpr u32 W = op_type::tile_type::lanes;
  const joiner j = joiner_of(q);
  const rest_items<F> items(q, w);
  const u64 n = items.number();
  const u64 blocks = u64(w.blocks) / 2 * rest_blocks<Parts>;
  const u32 apart = n * W <= blocks * block_threads ? W : 1, at_once = block_threads / apart;
  typename op_type::tile_type tile;
  int live = 0, used = 0;
  u32 good = 0, lost = 0;
  for (u64 from = u64(blockIdx.x) * at_once; from < n; from += blocks * at_once) {
    rest_item<F> x{};
    const bool mine = items.take_for_block(from, apart, &x);
    if (!__any_sync(full_warp, mine)) continue;
    const bool aside = Parts::table::side_slots && is_side_key(x.k);
    result<F> res = serve_homes<op_type, 1>(tile, t, j, mine && !aside, q.kind, x.k, x.v, t.home(x.k));
    if constexpr (Parts::table::side_slots)
      if (mine && aside) res = serve_side<F, cuda_mem>(t.side, q.kind, j, x.k, x.v);
    live += res.live;
    used += res.used;
    good += mine && res.status == yes;
    if (mine) items.tell(x, res.status, &lost);
  }
  add_sums(sum, q.batch_sum, warp_sum(live), warp_sum(used), warp_sum(int(good)), warp_sum(int(lost)), 0);
}

// A frequent key that found no room: so say all its elements that were joined.
template <class Parts>
GH_FN u32 tell_joined(const typename Parts::table&, const request& q, const parts_work<typename Parts::F>& w) {
  using F = typename Parts::F;
  const u64 n = elements(w);
  u32 lost = 0;
  for (u64 i = blockIdx.x * u64(block_threads) + threadIdx.x; i < n; i += u64(w.blocks) * block_threads) {
    const auto e = element_at(q, w, i);
    if (is_side_key(F::key_of(e))) continue;  // they have always room
    const u32 slot = frequent_slot(w.frequent, F::key_of(e), w.again);
    if (slot == nobody || !w.failed[slot]) continue;
    ++lost;
    if (q.status) q.status[number_at(w, i)] = u8(w.failed[slot]);
  }
  return lost;
}

// Where an operation found no room, and another one of its key did later, the key is there, and takes the operand. Nothing is
// added here, so that who finds a key absent is right about that to the end.
template <class Parts>
__global__ void __launch_bounds__(block_threads, rest_blocks<Parts>)
    retry_failed(const __grid_constant__ typename Parts::table t, const __grid_constant__ request q,
                 const __grid_constant__ parts_work<typename Parts::F> w) {
  after_the_one_before();
  using F = typename Parts::F;
  const u32 n = w.found->failed_ops, lane = threadIdx.x % 32;
  const joiner j = joiner_of(q);
  for (u32 from = blockIdx.x * block_threads + threadIdx.x / 32 * 32; from < n; from += w.blocks * block_threads) {
    const u32 i = from + lane < n ? from + lane : n - 1;
    const auto k = F::key_of(w.part.word[i]);
    const auto v = F::value_of(w.part.word[i]);
    const bool there = has_key<Parts>(t, j, from + lane < n, k);
    typename Parts::rest_op::tile_type tile;
    serve_homes<typename Parts::rest_op, 1>(tile, t, j, there, accumulate, k, v, t.home(k));
    if (there && q.status) q.status[w.part.at[i]] = u8(no);
  }
}

// Elements of an accumulate whose keys are absent: those found no room, since the table is held exclusively and nothing was
// erased.
template <class Parts>
GH_FN u32 tell_absent(const typename Parts::table& t, const request& q, const parts_work<typename Parts::F>& w) {
  using F = typename Parts::F;
  const joiner j = joiner_of(q);
  const u32 lane = threadIdx.x % 32;
  u32 lost = 0;
  for (u64 from = blockIdx.x * u64(block_threads) + threadIdx.x / 32 * 32; from < w.n;
       from += u64(w.blocks) * block_threads) {
    const u64 i = from + lane;
    const auto k = i < w.n ? read_key<F>(q, i) : empty_key<typename F::key>;
    const bool looks = !is_side_key(k);  // they have always room
    if (has_key<Parts>(t, j, looks, k) || !looks) continue;
    ++lost;
    if (q.status) q.status[i] = u8(w.found->lacking);
  }
  return lost;
}

template <class Parts>
__global__ void __launch_bounds__(block_threads, rest_blocks<Parts>)
    tell_failed(const __grid_constant__ typename Parts::table t, const __grid_constant__ request q,
                const __grid_constant__ parts_work<typename Parts::F> w, totals* sum) {
  after_the_one_before();
  u32 lost = 0;
  if (!w.sums) {
    if (w.found->failed == 0) return;
    lost = tell_joined<Parts>(t, q, w);
  } else {
    if (!w.again || w.found->lacking == 0) return;
    lost = tell_absent<Parts>(t, q, w);
  }
  add_sums(sum, q.batch_sum, 0, 0, 0, warp_sum(int(lost)), 0);
}

// ---- the host's side -----------------------------------------------------------------------------------------------------

template <class F>
constexpr size_t sample_bytes() {
  return 2 * part_samples * (sizeof(typename F::key) + sizeof(u32)) + frequent_slots * sizeof(typename F::key) + 32;
}

// Memory of a work, from `base` on; base 0 asks how much.
class part_memory {
 public:
  explicit part_memory(void* base) : base_(static_cast<char*>(base)) {}
  template <class T>
  T* take(u64 n) {
    T* const p = reinterpret_cast<T*>(base_ + used_);
    used_ += (n * sizeof(T) + 255) & ~u64(255);
    return p;
  }
  u64 used() const { return used_; }

 private:
  char* base_;
  u64 used_ = 0;
};

inline u32 room_for(u64 n, u64 bins) {
  const u64 mean = (n + bins - 1) / bins;
  u64 root = 1;
  while (root * root < mean) root *= 2;
  return u32(mean + mean / 16 + 4 * root + u64(GPUHASH_PART_SLACK));
}

// False: this batch is for the driver that serves one element after the other. `chunk` elements are divided at a time.
template <class Parts>
bool plan_chunk(const typename Parts::table& t, const request& q, u64 chunk, void* memory,
                parts_work<typename Parts::F>* out, u64* bytes) {
  using F = typename Parts::F;
  using word = typename F::word;
  if (!in_kinds(q.kind, 1u << insert | 1u << assign | 1u << accumulate | 1u << erase)) return false;
  if (q.only_failed || q.n_there || q.out_values || q.n == 0 || !Parts::applies(t)) return false;
  const bool told = q.status != nullptr;
  const size_t block_bytes = block_bytes_at_most();
  if (block_bytes < sample_bytes<F>()) return false;
  u64 slots, parts, shares;
  bool served = true;  // part by part
  if constexpr (Parts::own_parts)
    slots = Parts::slots(t);
  else
    slots = t.n_slots;
  parts_work<F> w{};
  w.chunk = chunk;
  w.n = q.n < chunk ? q.n : chunk;
  if (q.parts != parts_always && !Parts::pays(t, q)) return false;
  const bool in_place = Parts::adds_in_place && (q.combine != 0 || q.value_type != 2);
  const bool has_contents = q.added > slots / nearly_empty_share;
  const auto at_least = [&](u64 n) {
    return w.n >= n && w.n >= slots / Parts::least_share * (w.n < Parts::least ? 2 : 1);
  };
  const bool distinct = q.kind != erase && at_least(has_contents ? Parts::least : Parts::least_sums(true, false)) &&
                        !(Parts::empty_only(q.kind, told) && has_contents);
  const bool skewed = Parts::divides_skewed && (q.kind == assign || (q.kind == accumulate && !in_place)) &&
                      w.n >= parts_least && w.n >= slots / parts_least_share;
  const bool sums = q.kind == accumulate && at_least(Parts::least_sums(told, has_contents));
  const bool only_repeating = Parts::sums_if_repeating && told && has_contents;
  const bool always = q.parts == parts_always || (sums && !only_repeating);
  w.divides = (always ? whatever_they_are : 0) | (skewed ? if_skewed : 0) |
              (distinct && !(sums && only_repeating) ? if_few_repeat : 0) |
              (sums && only_repeating ? if_some_repeat : 0);
  if (!w.divides) return false;
  w.sums = F::has_value && q.kind == accumulate;
  w.slots = slots;
  w.may_join = w.sums && !told && block_bytes >= joined_bytes;
  w.may_join_left = w.may_join && Parts::joins_directly;
  w.may_join_parts = w.sums && block_bytes >= part_joined_bytes;
  if constexpr (Parts::own_parts) {
    w.part_bits = Parts::part_bits(t);
    parts = Parts::parts(t), shares = Parts::shares(t);
    served = Parts::serve_bytes(t, told) <= block_bytes;
  } else {
    w.part_bits = u32(__builtin_ctzll(part_bytes / sizeof(word)));
    const u32 least = Parts::least_bits(t);
    while (w.part_bits > least && slots >> w.part_bits < parts_wanted && 1u << w.part_bits > part_slots_wanted)
      --w.part_bits;
    while (w.part_bits > least && serve_bytes<Parts>(t, w.part_bits, told) > block_bytes) --w.part_bits;
    parts = shares = (slots + (u64(1) << w.part_bits) - 1) >> w.part_bits;
  }
  if (parts > u64(part_threads) * part_threads) return false;
  w.parts = u32(parts);
  // Two passes with about as many bins each.
  while (w.parts > GPUHASH_PART_BINS && ((parts - 1) >> w.bin_bits) + 1 > u64(1) << w.bin_bits) ++w.bin_bits;
  w.bins = u32(((parts - 1) >> w.bin_bits) + 1);
  u64 bin_shares = shares == parts ? w.bins : shares >> w.bin_bits ? shares >> w.bin_bits : 1;
  // Few blocks would join all elements: more of them share a part.
  while (w.may_join_parts && !w.bin_bits && w.bins * 2 <= GPUHASH_PART_BINS) {
    ++w.sub_bits;
    w.bins *= 2;
    bin_shares *= 2;
  }
  w.bin_room = w.bin_bits || w.sub_bits ? room_for(w.n, bin_shares) : 0;
  // Keys that are not frequent in the sample may be so in their part, where they are joined.
  if (w.may_join_parts && w.bin_room) w.bin_room += u32(w.n / bin_shares / 8);
  if (!served && !w.sub_bits) return false;
  // In a small part one key that is not among the frequent ones may be as many elements as all others.
  const u64 repeated = !w.may_join_parts ? 0 : Parts::own_parts ? w.n / shares / 2 : w.n / shares;
  w.part_room = served ? room_for(w.n, shares) + u32(repeated) : 0;
  w.blocks = 2 * multiprocessors();
  for (const bool second : {false, true}) {
    u32& tile = w.tile[second];
    tile = divided_each<F> * part_threads;
    // Two blocks for each multiprocessor.
    while (tile > part_threads && divide_bytes<F>(second, tile, told) > block_bytes / 2) tile -= part_threads;
    // All blocks end at about the same time.
    const u64 turns = (w.n - 1) / (u64(w.blocks) * tile) + 1, fair = (w.n - 1) / (w.blocks * turns) + 1;
    while (tile > part_threads && tile - part_threads >= fair) tile -= part_threads;
    if (block_bytes < divide_bytes<F>(second, tile, told)) return false;
  }

  part_memory m(memory);
  const auto list = [&](u64 n, u64 counters) {
    part_list<F> l{};
    l.word = m.take<word>(n);
    l.at = told ? m.take<u32>(n) : nullptr;
    l.n = m.take<u32>(counters);
    return l;
  };
  w.bin = list(u64(w.bins) * w.bin_room, w.bins);
  w.part = list(served ? u64(w.parts) * w.part_room : w.n, w.parts);
  w.rest = list(w.n, 1);
  w.source = list(w.n, 1);
  w.frequent = m.take<typename F::key>(frequent_all);
  w.leader = m.take<u32>(frequent_all);
  w.last = m.take<u32>(frequent_all);
  w.joined = m.take<typename F::value>(frequent_all);
  w.failed = m.take<u32>(frequent_all);
  w.picked = m.take<typename F::key>(2 * part_samples);
  w.found = m.take<sampled>(1);  // the last: tests look there
  *bytes = m.used();
  *out = w;
  return true;
}

// In chunks that need no more memory than the pool keeps: mapping it anew takes longer than the batch.
template <class Parts>
bool plan_parts(const typename Parts::table& t, const request& q, void* memory, parts_work<typename Parts::F>* out,
                u64* bytes) {
  const u64 kept = bytes_of_device() / share_kept;
  if (!plan_chunk<Parts>(t, q, part_chunk, memory, out, bytes)) return false;
  parts_work<typename Parts::F> smaller{};
  u64 less = 0;
  while (*bytes > kept && out->chunk > part_chunk / chunks_most) {
    if (!plan_chunk<Parts>(t, q, out->chunk / 2, memory, &smaller, &less)) break;
    *out = smaller;
    *bytes = less;
  }
  return true;
}

template <class Parts>
uint64_t memory_for_parts(const void* table, const request& q) {
  parts_work<typename Parts::F> w{};
  u64 bytes = 0;
  return plan_parts<Parts>(*static_cast<const typename Parts::table*>(table), q, nullptr, &w, &bytes) ? bytes : 0;
}

template <class Parts>
auto serve_parts_of(u32 kind) {
  if constexpr (Parts::own_parts)
    return Parts::server(kind);
  else
    return kind == insert       ? serve_parts<Parts, insert>
           : kind == assign     ? serve_parts<Parts, assign>
           : kind == accumulate ? serve_parts<Parts, accumulate>
                                : serve_parts<Parts, erase>;
}

// The batch in chunks, each of which has the memory to itself.
template <class Parts>
int run_by_parts(const void* table, const request& given, totals* sum, void* memory,
                 int (*otherwise)(const void* table, const request& q, totals* sum)) {
  using F = typename Parts::F;
  const auto& t = *static_cast<const typename Parts::table*>(table);
  parts_work<F> w{};
  u64 bytes = 0;
  plan_parts<Parts>(t, given, memory, &w, &bytes);
  const bool told = given.status != nullptr;
  const bool may_decline = Parts::declines && given.parts != parts_always && given.kind != erase;
  const size_t bytes_of_part = serve_bytes<Parts>(t, w.part_bits, told);
  for (u64 done = 0; done < given.n; done += w.chunk) {
    request q = part_of(given, done, given.n - done < w.chunk ? given.n - done : w.chunk);
    w.n = q.n;
    // Kernels that find nothing to do end at once.
    for (const bool again : {false, true}) {
      w.again = again;
      w.fresh = given.added == 0 && done == 0 && !again;
      std::swap(w.source, w.rest);  // what the first time leaves is the source of the second
      int e = again ? launch_next(pick<F>, pick_blocks, block_threads, 0, q.stream, q, w)
                    : launch(pick<F>, pick_blocks, block_threads, q.stream, q, w);
      if (!e) e = launch_next(sample<F>, 1, sample_threads, sample_bytes<F>(), q.stream, q, w);
      if constexpr (Parts::declines)
        if (!e && may_decline && !again) e = launch_next(decline_for_dead<Parts>, 1, part_threads, 0, q.stream, t, w);
      if (!e && told && q.kind != erase && !again) e = launch_next(ask<Parts>, 1, block_threads, 0, q.stream, t, q, w);
      if constexpr (F::has_value)
        if (!e && (again ? w.may_join_left : w.may_join))
          e = launch_next(join_all<Parts>, w.blocks, part_threads, joined_bytes, q.stream, t, q, w, sum);
      if (!e)
        e = launch_next(divide<Parts, false>, w.blocks, part_threads, divide_bytes<F>(false, w.tile[0], told), q.stream,
                        t, q, w);
      if (!e && w.bin_bits)
        e = launch_next(divide<Parts, true>, w.blocks, part_threads, divide_bytes<F>(true, w.tile[1], told), q.stream,
                        t, q, w);
      if constexpr (F::has_value)
        if (!e && w.may_join_parts && (!again || w.sub_bits)) {
          e = launch_next(try_joining<F>, lists_tried, join_threads, 0, q.stream, w);
          if (!e)
            e = launch_next(join_parts<F>, w.sub_bits ? w.bins : w.parts, join_threads, part_joined_bytes, q.stream, q,
                            w);
        }
      if (!e && w.part_room)
        e = launch_next(serve_parts_of<Parts>(q.kind), w.parts, Parts::own_parts ? serve_threads : part_servers,
                        bytes_of_part, q.stream, t, q, w, sum);
      if (!e)
        e = launch_next(serve_rest<Parts>, w.blocks / 2 * rest_blocks<Parts>, block_threads, 0, q.stream, t, q, w, sum);
      if constexpr (F::has_value)
        if (!e && w.sums && again) e = launch_next(retry_failed<Parts>, w.blocks, block_threads, 0, q.stream, t, q, w);
      if (!e) e = launch_next(tell_failed<Parts>, w.blocks, block_threads, 0, q.stream, t, q, w, sum);
      if (e) return e;
    }
    if (w.divides & whatever_they_are && !may_decline) continue;
    q.unless = &w.found->divided_first;
    if (const int e = otherwise(table, q, sum)) return e;
  }
  return 0;
}

template <class Parts>
inline constexpr parts_engine parts_of = {memory_for_parts<Parts>, run_by_parts<Parts>};

GH_END
