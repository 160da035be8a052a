// Large batches: elements that found no room get their status.
#pragma once
#include "libgpuhash/drive/bulk/frequent.cuh"
#include "libgpuhash/drive/bulk/one_lane.cuh"
#include "libgpuhash/drive/bulk/work.cuh"

GH_BEGIN

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

GH_END
