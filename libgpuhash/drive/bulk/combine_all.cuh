// Large batches: an accumulate of few keys is combined as a whole, and nothing is divided.
#pragma once
#include "libgpuhash/drive/bulk/one_lane.cuh"
#include "libgpuhash/drive/bulk/partition.cuh"

GH_BEGIN

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

GH_END
