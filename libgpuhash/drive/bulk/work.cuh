// Large batches: the lists and counters that the kernels of one batch share (bulk_work), and how the kernels read
// elements and append to lists.
#pragma once
#include "libgpuhash/drive/bulk/sizes.hpp"
#include "libgpuhash/drive/cuda.cuh"

GH_BEGIN

// Elements on their way. `at` are their numbers in the batch.
template <class F>
struct element_list {
  typename F::word* word;
  u32* at;
  u32* n;
};

// Facts that the sample finds about the elements, and results of the first kernels.
struct sample_result {
  u32 frequent;        // keys
  u32 default_status;  // the status that most elements will have
  u32 failed;          // 1: a frequent key has found no room
  u32 divided;         // 1: the elements are divided
  u32 combines;        // 1: kernel combine_all serves them instead
  u32 divided_first;   // 1: one of these holds for the slice itself; 0: it is served one element after the other
  // Elements that combining equal keys of partitions would save, and elements that it would cost, in a unit of its own.
  u32 combining_saves, combining_costs;
  u32 lacking;     // an accumulate: what the operations say that found no room at last, or 0
  u32 failed_ops;  // and how many there are. They are listed in place of the partitions' elements
};

// Numbers, lists and counters of a batch, as its kernels get them. Elements are divided twice: the first time all of a
// slice of the batch, the second time (`again`) those that the first time has left.
template <class F>
struct bulk_work {
  u64 n;                           // elements of the slice
  u64 slice;                       // elements that are divided at a time, at most
  u32 partition_bits, partitions;  // slots of a partition are 2^partition_bits
  u32 bin_bits, bins;              // 2^bin_bits partitions share a bin of the first pass; 0: there is one pass
  u32 sub_bits;  // if not 0, a partition has 2^sub_bits bins, which are combined on their way into the partition
  u32 bin_room, partition_room;    // elements; partitions without room have their elements combined, and left
  u32 tile[2];                     // elements that a block divides at a time, in the first pass and the second
  u32 blocks;                      // of kernels that stride over their work
  u32 divides;                     // for which samples the batch is divided (policy.hpp)
  u64 slots;                       // of the table
  typename F::key* picked;         // 2 * sample_size: keys of some elements, and of those that follow them
  bool may_combine_all;            // kernel combine_all may serve the batch,
  bool may_combine_left;           // and what is left of it
  bool may_combine_partitions;     // kernel combine_partitions may combine the elements of a partition
  bool sums;                       // an accumulate: what found no room is tried again, and gets its status at last
  bool fresh;                      // nothing was ever added: all slots are EMPTY, and need not be read
  bool again;                      // the second time, for the elements of `source`; else for all of the slice
  bool unless_dead;                // the batch is not divided if many slots are dead
  element_list<F> source;          // what the first time has left
  element_list<F> bin, partition;  // bins and partitions have a room each, one after the other
  element_list<F> rest;            // has room for all
  typename F::key* frequent;       // keys; empty_key where there is none
  u32* leader;                     // an element of each frequent key, by its place in the source, or none
  u32* last;                       // another element of the key, or none
  typename F::value* combined;     // the operands of the key's elements
  u32* failed;                     // status of a frequent key that found no room, or 0
  sample_result* found;
};

// Element x of the source.
template <class F>
GH_FN u64 elements(const bulk_work<F>& w) {
  return w.again ? *w.source.n : w.n;
}
template <class F>
GH_FN typename F::word element_at(const request& q, const bulk_work<F>& w, u64 x) {
  return w.again ? w.source.word[x] : F::make(read_key<F>(q, x), read_value<F>(q, x));
}
template <class F>
GH_FN u32 number_at(const bulk_work<F>& w, u64 x) {  // in the batch
  return !w.again ? u32(x) : w.source.at ? w.source.at[x] : 0;
}

GH_FN u32 count_of(const u32* n, u32 room) { return *n < room ? *n : room; }

template <class F>
GH_FN void append(const element_list<F>& list, typename F::word w, u32 at) {
  const u32 i = atomicAdd(list.n, 1u);
  list.word[i] = w;
  if (list.at) list.at[i] = at;
}

// A place for each lane of a warp that has `some`: the next places of the counter.
GH_FN u32 take_places(u32* counter, bool some) {
  const u32 all = __ballot_sync(full_warp, some), lane = threadIdx.x % 32;
  u32 first = 0;
  if (lane == 0 && all) first = atomicAdd(counter, u32(__popc(all)));
  return shuffle(first, 0, 32) + u32(__popc(all & ((1u << lane) - 1)));
}
// append() for all lanes of a warp, those that have `some`.
template <class F>
GH_FN void append_some(const element_list<F>& list, bool some, typename F::word w, u32 at) {
  const u32 i = take_places(list.n, some);
  if (!some) return;
  list.word[i] = w;
  if (list.at) list.at[i] = at;
}

// The sum over all threads of a block, which call it once in a kernel.
GH_FN u32 sum_of_block(u32 mine) {
  GH_BLOCK_MEMORY(u32, all);
  if (threadIdx.x == 0) all = 0;
  __syncthreads();
  const u32 of_warp = warp_sum(mine);
  if (threadIdx.x % 32 == 0) atomicAdd(&all, of_warp);
  __syncthreads();
  return all;
}

// An operation of an accumulate that found no room is tried again: the second time after the first, and by retry_failed
// after the second.
template <class F>
GH_FN void defer(const bulk_work<F>& w, u32 status, typename F::word e, u32 at) {
  if (w.again) {
    append(element_list<F>{w.partition.word, w.partition.at, &w.found->failed_ops}, e, at);
    w.found->lacking = status;
  } else {
    append(w.rest, e, at);
  }
}

GH_END
