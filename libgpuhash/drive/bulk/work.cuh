// Large batches: what the kernels of one batch share (parts_work), and how they reach elements and append to lists.
#pragma once
#include "libgpuhash/drive/bulk/sizes.hpp"
#include "libgpuhash/drive/cuda.cuh"

GH_BEGIN

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

GH_END
