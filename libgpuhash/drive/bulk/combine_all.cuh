// Large batches: an accumulate of few keys is combined as a whole, and nothing is divided.
//
// Each block combines elements in a cache of its own memory, which the keys that come first fill. An element whose key
// finds no place in the cache goes on alone: to the table itself, if one lane may serve it there, else to the list of
// the rest. At the end the cache goes the same way. An operation stands for many elements, so a batch with statuses is
// never served here.
#pragma once
#include "libgpuhash/drive/bulk/one_lane.cuh"
#include "libgpuhash/drive/bulk/partition.cuh"

GH_BEGIN

inline constexpr u32 cache_bytes = tunable("cuda.cache_bytes", 64u * 1024);
template <class F>
inline constexpr u32 cache_slots = cache_bytes / (sizeof(typename F::key) + sizeof(typename F::value));
// Elements of a thread on their way from memory.
template <class F>
inline constexpr u32 cached_each = sizeof(typename F::word) == 16 ? 2 : 4;

// A block of the kernel `combine_all`.
template <class Partitions>
class combining_block {
  using F = typename Partitions::F;
  using key = typename F::key;
  using value = typename F::value;
  using word = typename F::word;

 public:
  static constexpr u32 slots = cache_slots<F>, each = cached_each<F>, tile = each * partition_threads;

  GH_FN combining_block(const typename Partitions::table& a_table, const request& a_request, const bulk_work<F>& a_work,
                        key* memory)
      : t(a_table),
        q(a_request),
        w(a_work),
        keys(memory),
        sums(reinterpret_cast<value*>(memory + slots)),
        me(threadIdx.x),
        j(joiner_of(a_request)) {}

  GH_FN void run(totals* sum) {
    clear_sums(keys, sums, slots, partition_threads, j);
    __syncthreads();
    const u64 n = elements(w);
    const bool of_left = w.again;
    for (u64 from = u64(blockIdx.x) * tile; from < n; from += u64(w.blocks) * tile) {
      const u32 many = u32(n - from < tile ? n - from : tile), own_many = many > me ? many - me : 0;
      word mine[each];
      if (of_left)
        load_words<each>(mine, w.source.word + from + me, own_many);
      else
        load_elements<F, each>(mine, q, from + me, own_many);
      u32 missed = 0;
#pragma unroll
      for (u32 i = 0; i < each; ++i) {
        if (i * partition_threads >= own_many) continue;
        const bool combined = add_to_cache(F::key_of(mine[i]), F::value_of(mine[i]));
        missed |= u32(!combined) << i;
      }
      for (; __any_sync(full_warp, missed); missed &= missed - 1) {
        const u32 i = u32(__ffs(missed) - 1);
        word e = mine[0];
#pragma unroll
        for (u32 x = 1; x < each; ++x) e = i == x ? mine[x] : e;
        pass_on(missed != 0, F::key_of(e), F::value_of(e));
      }
    }
    __syncthreads();
    for (u32 from = 0; from < slots; from += partition_threads) {
      const u32 i = from + me < slots ? from + me : 0;
      pass_on(from + me < slots && keys[i] != empty_key<key>, keys[i], sums[i]);
    }
    add_sums(sum, q.batch_sum, warp_sum(done.live), warp_sum(done.used), warp_sum(int(done.good)), 0, 0);
  }

 private:
  // A key has a row of two slots. False: other keys have both, or this operand may not be combined.
  GH_FN bool add_to_cache(key k, value v) const {
    bool combined = false;
    const u32 row = u32(mix(k)) & (slots - 2);
    for (u32 side = 0; side < 2 && !combined && !is_side_key(k) && may_join_first(j, v, log_combined); ++side) {
      key seen = static_cast<volatile key*>(keys)[row + side];
      if (seen == empty_key<key>) seen = atomicCAS(keys + row + side, empty_key<key>, k);
      combined = seen == empty_key<key> || seen == k;
      if (combined) join_in_block(sums + row + side, v, j);
    }
    return combined;
  }
  // All lanes of a warp, those that have `some`.
  GH_FN void pass_on(bool some, key k, value v) {
    if constexpr (!Partitions::combines_directly) {
      append_some(w.rest, some, F::make(k, v), 0);
    } else if (some) {
      typename Partitions::template op<lone_tile<F, cuda_mem>, accumulate> op;
      const bool aside = Partitions::table::side_slots && is_side_key(k);
      if (!aside) serve_one(op, t, accumulate, k, v, t.home(k), j);
      if constexpr (Partitions::table::side_slots)
        if (aside) op.res = serve_side<F, cuda_mem>(t.side, accumulate, j, k, v);
      done.live += op.res.live;
      done.used += op.res.used;
      done.good += op.res.status == yes;
      if (lacks_room(op.res.status)) defer(w, op.res.status, F::make(k, v), 0);
    }
  }

  const typename Partitions::table& t;
  const request& q;
  const bulk_work<F>& w;
  key* const keys;
  value* const sums;
  const u32 me;
  const joiner j;
  done_here done;
};

template <class Partitions>
__global__ void __launch_bounds__(partition_threads, 2)
    combine_all(const __grid_constant__ typename Partitions::table t, const __grid_constant__ request q,
                const __grid_constant__ bulk_work<typename Partitions::F> w, totals* sum) {
  after_the_one_before();
  GH_DYNAMIC_MEMORY(typename Partitions::F::key, keys);
  if (!w.found->combines) return;
  combining_block<Partitions>(t, q, w, keys).run(sum);
}

GH_END
