// Large batches: elements that found no room get their status, as the last step of each pass over a batch.
//
// Of most kinds an element fails with the operation of its frequent key (report_combined). Elements of an accumulate
// are combined in several places, so that one operation stands for many: an operation that found no room is tried once
// more (retry_failed), and then elements fail whose keys are absent (report_absent).
#pragma once
#include "libgpuhash/drive/bulk/frequent.cuh"
#include "libgpuhash/drive/bulk/one_lane.cuh"
#include "libgpuhash/drive/bulk/work.cuh"

GH_BEGIN

// The elements of frequent keys that found no room: each gets the status of its key's operation. Returns how many of
// this thread's elements these are.
template <class Partitions>
GH_FN u32 report_combined(const typename Partitions::table&, const request& q,
                          const bulk_work<typename Partitions::F>& w) {
  using F = typename Partitions::F;
  const u64 n = elements(w);
  u32 lost = 0;
  for (u64 i = blockIdx.x * u64(block_threads) + threadIdx.x; i < n; i += u64(w.blocks) * block_threads) {
    const auto e = element_at(q, w, i);
    if (is_side_key(F::key_of(e))) continue;  // these have always room
    const u32 slot = frequent_slot(w.frequent, F::key_of(e), w.again);
    if (slot == none || !w.failed[slot]) continue;
    ++lost;
    if (q.status) q.status[number_at(w, i)] = u8(w.failed[slot]);
  }
  return lost;
}

// An operation of an accumulate that found no room, and whose key another operation has added since, gives its operand
// to that key. Nothing is added here, so that a key that is absent stays absent to the end.
template <class Partitions>
__global__ void __launch_bounds__(block_threads, rest_blocks<Partitions>)
    retry_failed(const __grid_constant__ typename Partitions::table t, const __grid_constant__ request q,
                 const __grid_constant__ bulk_work<typename Partitions::F> w) {
  after_the_one_before();
  using F = typename Partitions::F;
  const u32 n = w.found->failed_ops, lane = threadIdx.x % 32;
  const joiner j = joiner_of(q);
  for (u32 from = blockIdx.x * block_threads + threadIdx.x / 32 * 32; from < n; from += w.blocks * block_threads) {
    const u32 i = from + lane < n ? from + lane : n - 1;
    const auto k = F::key_of(w.partition.word[i]);
    const auto v = F::value_of(w.partition.word[i]);
    const bool there = has_key<Partitions>(t, j, from + lane < n, k);
    typename Partitions::rest_op::tile_type tile;
    serve_homes<typename Partitions::rest_op, 1>(tile, t, j, there, accumulate, k, v, t.home(k));
    if (there && q.status) q.status[w.partition.at[i]] = u8(no);
  }
}

// Elements of an accumulate whose keys are absent have found no room, since the table is held exclusively and nothing
// was erased. Returns how many of this thread's elements these are.
template <class Partitions>
GH_FN u32 report_absent(const typename Partitions::table& t, const request& q,
                        const bulk_work<typename Partitions::F>& w) {
  using F = typename Partitions::F;
  const joiner j = joiner_of(q);
  const u32 lane = threadIdx.x % 32;
  u32 lost = 0;
  for (u64 from = blockIdx.x * u64(block_threads) + threadIdx.x / 32 * 32; from < w.n;
       from += u64(w.blocks) * block_threads) {
    const u64 i = from + lane;
    const auto k = i < w.n ? read_key<F>(q, i) : empty_key<typename F::key>;
    const bool looks = !is_side_key(k);  // these have always room
    if (has_key<Partitions>(t, j, looks, k) || !looks) continue;
    ++lost;
    if (q.status) q.status[i] = u8(w.found->lacking);
  }
  return lost;
}

template <class Partitions>
__global__ void __launch_bounds__(block_threads, rest_blocks<Partitions>)
    report_failed(const __grid_constant__ typename Partitions::table t, const __grid_constant__ request q,
                  const __grid_constant__ bulk_work<typename Partitions::F> w, totals* sum) {
  after_the_one_before();
  u32 lost = 0;
  if (!w.sums) {
    if (w.found->failed == 0) return;
    lost = report_combined<Partitions>(t, q, w);
  } else {
    if (!w.again || w.found->lacking == 0) return;
    lost = report_absent<Partitions>(t, q, w);
  }
  add_sums(sum, q.batch_sum, 0, 0, 0, warp_sum(int(lost)), 0);
}

GH_END
