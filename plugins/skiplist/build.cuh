// skiplist on CUDA: a batch is sorted, and merged with the pairs of the table. A thread for each element, and each pair.
//
// What build.hpp does with pieces is done here by ranks. `before[i]` counts the keys before sorted element i that the table
// lacks; so such a key's place is that, and as many pairs of the table as have a smaller key.
#pragma once
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>

#include "layout.hpp"
#include "libgpuhash/drive/cuda.cuh"
#include "libgpuhash/kit/meaning.hpp"
#include "libgpuhash/kit/ordered.hpp"
#include "sizes.hpp"

GH_BEGIN

inline u64* as_u64(uint64_t* p) { return reinterpret_cast<u64*>(p); }
GH_FN u64* as_device(uint64_t* p) { return reinterpret_cast<u64*>(p); }

// The first of n ascending keys that is not below k.
template <class Key>
GH_FN u64 ascending_lower(const Key* keys, u64 n, Key k) {
  u64 begin = 0;
  while (begin < n) {
    const u64 middle = begin + (n - begin) / 2;
    const bool below = keys[middle] < k;
    begin = below ? middle + 1 : begin;
    n = below ? n : middle;
  }
  return begin;
}

// Threads of a block look for keys that ascend, each for its own in an array that does so, too: where the block's lie is
// looked for first. All threads of the block.
template <class Key>
struct block_search {
  u64 begin, end;

  GH_FN static u64 lower(const Key* keys, u64 n, Key k) {
    GH_BLOCK_MEMORY(block_search, found);
    if (threadIdx.x == 0) found.begin = ascending_lower(keys, n, k);
    if (threadIdx.x == block_threads - 1) found.end = ascending_lower(keys, n, k);
    __syncthreads();
    return found.begin + ascending_lower(keys + found.begin, found.end - found.begin, k);
  }
};

// The work space of a batch with the types of its table's format.
template <class F>
struct sorted_batch {
  using key = typename F::key;
  const batch_arrays& a;

  GH_FN key* keys() const { return static_cast<key*>(a.keys); }
  GH_FN const key* old_keys() const { return static_cast<const key*>(a.old_keys); }
  GH_FN u64 lower(key k) const { return ascending_lower(keys(), a.n, k); }
  // By all threads of a block.
  GH_FN u64 old_lower(key k) const { return block_search<key>::lower(old_keys(), a.old, k); }
  GH_FN bool is_old(u64 at, key k) const { return at < a.old && old_keys()[at] == k; }
  GH_FN bool is_first(u64 i) const { return i == 0 || keys()[i - 1] != keys()[i]; }
  GH_FN bool is_last(u64 i) const { return i + 1 == a.n || keys()[i + 1] != keys()[i]; }
};

struct batch_space : batch_arrays {
  void* other_keys;  // the same, once they are sorted
  uint32_t* other_element;
  void* work;  // of CUB
  size_t work_bytes;
};
// Where the arrays of a batch lie from `work` on, and how many bytes there are.
template <class F>
batch_space arrays_of(const build_request& b, void* work, size_t* bytes) {
  using key = typename F::key;
  const u32 n = u32(b.batch->n);
  uintptr_t at = uintptr_t(work);
  const auto part = [&](size_t size) {
    void* const here = reinterpret_cast<void*>(at);
    at += (size + 255) / 256 * 256;
    return here;
  };
  batch_space a{};
  a.keys = part(n * sizeof(key));
  a.element = static_cast<uint32_t*>(part(n * sizeof(u32)));
  a.other_keys = part(n * sizeof(key));
  a.other_element = static_cast<uint32_t*>(part(n * sizeof(u32)));
  a.fresh = static_cast<uint64_t*>(part((n + size_t(1)) * sizeof(u64)));
  a.before = static_cast<uint64_t*>(part((n + size_t(1)) * sizeof(u64)));
  a.found = static_cast<uint64_t*>(part(4 * sizeof(u64)));
  a.old_keys = b.old_keys;
  a.old = b.old;
  a.n = n;
  size_t adding = 0;
  cub::DeviceRadixSort::SortPairs(nullptr, a.work_bytes, static_cast<key*>(a.keys), static_cast<key*>(a.other_keys),
                                  a.element, a.other_element, n, 0, int(8 * sizeof(key)), cudaStream_t(nullptr));
  cub::DeviceScan::ExclusiveSum(nullptr, adding, as_u64(a.fresh), as_u64(a.before), n, cudaStream_t(nullptr));
  if (a.work_bytes < adding) a.work_bytes = adding;
  a.work = part(a.work_bytes);
  *bytes = at - uintptr_t(work);
  return a;
}

template <class F>
GH_FN typename F::word side_word(const skip_table<F>& t, typename F::key k) {
  return cuda_mem::load<order::relaxed>(t.side + (k == dead_key<typename F::key>));
}
template <class F>
GH_FN bool side_is_there(const skip_table<F>& t, typename F::key k) {
  return F::key_of(side_word(t, k)) != empty_key<typename F::key>;
}
// accumulate: the value that a side key will have.
template <class F>
GH_FN typename F::value* side_sum(const batch_arrays& a, u64 side) {
  return reinterpret_cast<typename F::value*>(a.found + 2 + side);
}
// In place of `fresh`: where the pair of an element's key is, and whether it has the element's operand already.
inline constexpr u64 stored_already = u64(1) << 63;

template <class F>
__global__ void __launch_bounds__(block_threads)
    load_batch(const __grid_constant__ skip_table<F> t, const __grid_constant__ request q,
               const __grid_constant__ batch_arrays a) {
  const u64 i = blockIdx.x * u64(block_threads) + threadIdx.x;
  if (i >= a.n) return;
  sorted_batch<F>{a}.keys()[i] = t.encode(read_key<F>(q, i));
  a.element[i] = u32(i);
}
template <class F>
__global__ void __launch_bounds__(block_threads) look_for_falls(const __grid_constant__ batch_arrays a) {
  const u64 i = blockIdx.x * u64(block_threads) + threadIdx.x;
  const auto* const keys = sorted_batch<F>{a}.keys();
  const bool falls = i > 0 && i < a.n && keys[i] < keys[i - 1];
  if (__any_sync(full_warp, falls) && threadIdx.x % 32 == 0) atomicMax(as_device(a.found), u64(1));
}
template <class F>
__global__ void __launch_bounds__(block_threads)
    mark_fresh(const __grid_constant__ skip_table<F> t, const __grid_constant__ batch_arrays a) {
  const u64 i = blockIdx.x * u64(block_threads) + threadIdx.x;
  const sorted_batch<F> b{a};
  const auto k = b.keys()[i < a.n ? i : a.n - 1];
  const u64 old = b.old_lower(k);
  if (i >= a.n) return;
  bool fresh = b.is_first(i);
  if (is_side_key(k)) {
    if (fresh && !side_is_there(t, k)) atomicAdd(as_device(a.found) + 1, u64(1));
    fresh = false;
  } else if (fresh) {
    fresh = !b.is_old(old, k);
  }
  a.fresh[i] = fresh;
}
// before[n]: all of them.
template <class F>
__global__ void __launch_bounds__(block_threads) add_last(const __grid_constant__ batch_arrays a) {
  if (blockIdx.x == 0 && threadIdx.x == 0) a.before[a.n] = a.before[a.n - 1] + a.fresh[a.n - 1];
}

// What the elements of a batch leave behind, and their statuses.
template <class F>
__global__ void __launch_bounds__(block_threads)
    merge_elements(const __grid_constant__ skip_table<F> t, const __grid_constant__ request q,
                   const __grid_constant__ batch_arrays a, typename F::key* keys, typename F::value* values) {
  const u64 i = blockIdx.x * u64(block_threads) + threadIdx.x;
  const sorted_batch<F> b{a};
  const auto k = b.keys()[i < a.n ? i : a.n - 1];
  const u64 old = b.old_lower(k);
  if (i >= a.n) return;
  const u32 element = a.element[i];
  const bool first = b.is_first(i);
  const bool in_side = is_side_key(k);
  const bool adds = in_side ? first && !side_is_there(t, k) : a.fresh[i] != 0;
  if (q.status) q.status[element] = u8(adds ? yes : no);
  const bool assigns = q.kind == assign && b.is_last(i);
  // Of a key that is not there, before[i + 1] counts it, too.
  const u64 to = in_side ? u64(~k) : a.before[i + 1] + old - !b.is_old(old, k);
  if (q.kind == accumulate) {
    a.fresh[i] = to | (adds ? stored_already : 0);
    if (in_side && b.is_first(i)) *side_sum<F>(a, to) = adds ? read_value<F>(q, element) : F::value_of(side_word(t, k));
  }
  if (in_side || !(adds || assigns)) return;
  if (adds) keys[to] = k;
  if (values && (q.kind == assign ? assigns : adds)) values[to] = read_value<F>(q, element);
}
// The pairs that were there.
template <class F>
__global__ void __launch_bounds__(block_threads)
    merge_old(const __grid_constant__ request q, const __grid_constant__ batch_arrays a,
              const typename F::value* old_values, typename F::key* keys, typename F::value* values) {
  const u64 j = blockIdx.x * u64(block_threads) + threadIdx.x;
  const sorted_batch<F> b{a};
  const auto k = b.old_keys()[j < a.old ? j : a.old - 1];
  const u64 i = block_search<typename F::key>::lower(b.keys(), a.n, k);
  if (j >= a.old) return;
  const u64 to = j + a.before[i];
  keys[to] = k;
  const bool assigned = q.kind == assign && i < a.n && b.keys()[i] == k;
  if (values && !assigned) values[to] = old_values[j];
}
// accumulate, after merge_elements and merge_old have stored what the keys had, or the first operand of new ones. Operands of
// one key are joined by the warp that has them, of as many elements as it can take, before they reach the pair: so a frequent
// key is changed seldom.
inline constexpr u32 joined_at_most = 1u << 16;  // operands of a block: may_join_first of kit/meaning.hpp
inline constexpr u32 join_warps = 4096, join_rounds_most = joined_at_most / block_threads;
// As many as leave a GPU enough warps, and no more operands to a block than may be joined.
inline u32 join_rounds_of(u64 n) {
  const u64 rounds = n / (32 * join_warps);
  return rounds < join_rounds_least ? join_rounds_least : rounds > join_rounds_most ? join_rounds_most : u32(rounds);
}
static_assert(join_rounds_least <= join_rounds_most);

template <class V>
GH_FN void join_stored(V* stored, V v, joiner j) {
  if (adds_integers(j)) {
    if (sizeof(V) == 8 && j.narrow)
      atomicAdd(reinterpret_cast<u32*>(stored), u32(v));
    else
      atomicAdd(stored, v);
    return;
  }
  for (V seen = *static_cast<volatile V*>(stored);;) {
    const V joined = join(j, seen, v);
    if (joined == seen) return;
    const V before = atomicCAS(stored, seen, joined);
    if (before == seen) return;
    seen = before;
  }
}
template <class F>
struct open_sums {
  struct one {
    u32 open;
    typename F::key k;
    u64 to;
    typename F::value sum;
  } of_warp[block_threads / 32];
};

// What the warps of a block have left open, of which neighbours are often one key's.
template <class F, class Store>
GH_FN void store_ends(const open_sums<F>& ends, joiner j, Store store) {
  auto all = ends.of_warp[0];
  for (u32 w = 1; w < block_threads / 32; ++w) {
    const auto next = ends.of_warp[w];
    if (!next.open) continue;
    if (all.open && all.k == next.k) {
      all.sum = join_operands(j, all.sum, next.sum);
      continue;
    }
    if (all.open) store(all.to, all.k, all.sum);
    all = next;
  }
  if (all.open) store(all.to, all.k, all.sum);
}

template <class F>
__global__ void __launch_bounds__(block_threads)
    join_elements(const __grid_constant__ request q, const __grid_constant__ batch_arrays a, typename F::value* values,
                  u32 rounds) {
  using key = typename F::key;
  using value = typename F::value;
  const sorted_batch<F> b{a};
  const joiner j = joiner_of(q);
  const u32 lane = threadIdx.x % 32;
  const u64 begin = (blockIdx.x * u64(block_threads) + threadIdx.x) / 32 * (32 * rounds);
  const auto store = [&](u64 to, key k, value v) {
    join_stored(is_side_key(k) ? side_sum<F>(a, to) : values + to, v, j);
  };
  // Operands of the last key that have been joined and not stored: the same in all lanes.
  u32 open = 0;
  key open_key = 0;
  u64 open_to = 0;
  value sum = 0;
#pragma unroll 1
  for (u32 r = 0; r < rounds; ++r) {
    const u64 i = begin + r * 32 + lane;
    const u64 mine = i < a.n ? i : a.n - 1;
    const key k = b.keys()[mine];
    const u64 at = a.fresh[mine], to = at & ~stored_already;
    u32 some = i < a.n && at == to;
    value v = some ? read_value<F>(q, a.element[mine]) : value(0);
    if (some && !may_join_first(j, v)) {
      store(to, k, v);
      some = 0;
    }
    if (lane == 0 && open) {
      if (k == open_key) {
        v = some ? join_operands(j, sum, v) : sum;
        some = 1;
      } else {
        store(open_to, open_key, sum);
      }
    }
    // A lane joins what is right of it, of its key: after the last step, all of that. From the last lanes on it goes on with
    // the first ones, which have this key only where all lanes have it: then no lane joins what that gives.
#pragma unroll
    for (u32 apart = 1; apart < 32; apart *= 2) {
      const u32 from = (lane + apart) % 32;
      const bool same = shuffle(k, from, 32) == k;
      const u32 other = shuffle(some, from, 32);
      const value x = shuffle(v, from, 32);
      v = !same || !other ? v : some ? join_operands(j, v, x) : x;
      some |= same && other;
    }
    const bool first = shuffle(k, (lane + 31) % 32, 32) != k || lane == 0;
    const u32 last = 31 - u32(__clz(int(__ballot_sync(full_warp, first))));
    open = shuffle(some, last, 32);
    open_key = shuffle(k, last, 32);
    open_to = shuffle(to, last, 32);
    sum = shuffle(v, last, 32);
    if (first && lane != last && some) store(to, k, v);
  }
  GH_BLOCK_MEMORY(open_sums<F>, ends);
  if (lane == 0) ends.of_warp[threadIdx.x / 32] = {open, open_key, open_to, sum};
  __syncthreads();
  if (threadIdx.x) return;
  store_ends(ends, j, store);
}
// The side slots, after their elements have looked at them: a thread each.
template <class F>
__global__ void __launch_bounds__(block_threads)
    merge_side(const __grid_constant__ skip_table<F> t, const __grid_constant__ request q,
               const __grid_constant__ batch_arrays a) {
  using key = typename F::key;
  if (blockIdx.x > 0 || threadIdx.x > 1) return;
  const key k = key(~key(0) - threadIdx.x);
  const sorted_batch<F> b{a};
  const u64 begin = b.lower(k);
  const u64 end = threadIdx.x ? b.lower(empty_key<key>) : a.n;
  if (begin == end || (q.kind == insert && side_is_there(t, k))) return;
  const auto v = q.kind == accumulate ? *side_sum<F>(a, threadIdx.x)
                                      : read_value<F>(q, a.element[q.kind == insert ? begin : end - 1]);
  cuda_mem::store<order::relaxed>(t.side + threadIdx.x, F::make(key(1), v));
}

inline u64 blocks_for(u64 n) { return (n + block_threads - 1) / block_threads; }

template <class F>
size_t batch_work(const build_request& b) {
  size_t bytes = 0;
  arrays_of<F>(b, nullptr, &bytes);
  return bytes;
}
// The arrays with the keys in order: where they were, or beside it.
template <class F>
batch_space in_order(const build_request& b) {
  size_t bytes = 0;
  batch_space a = arrays_of<F>(b, b.work, &bytes);
  if (b.moved) {
    a.keys = a.other_keys;
    a.element = a.other_element;
  }
  return a;
}
template <class F>
int sort_batch(const void* table, build_request& b) {
  using key = typename F::key;
  const auto& t = *static_cast<const skip_table<F>*>(table);
  void* const stream = b.batch->stream;
  const cudaStream_t s = cudaStream_t(stream);
  b.moved = false;
  batch_space a = in_order<F>(b);
  const auto read = [&](uint64_t* to, const uint64_t* from) {
    const int e = int(cudaMemcpyAsync(to, from, sizeof(*to), cudaMemcpyDefault, s));
    return e ? e : int(cudaStreamSynchronize(s));
  };
  const u64 blocks = blocks_for(a.n);
  uint64_t falls = 0;
  int e = int(cudaMemsetAsync(a.found, 0, 2 * sizeof(u64), s));
  if (!e) e = launch(load_batch<F>, blocks, block_threads, stream, t, *b.batch, a);
  if (!e) e = launch(look_for_falls<F>, blocks, block_threads, stream, a);
  if (!e) e = read(&falls, a.found);
  if (!e && falls) {
    e = int(cub::DeviceRadixSort::SortPairs(a.work, a.work_bytes, static_cast<key*>(a.keys),
                                            static_cast<key*>(a.other_keys), a.element, a.other_element, u32(a.n), 0,
                                            int(8 * sizeof(key)), s));
    b.moved = true;
    a = in_order<F>(b);
  }
  if (!e) e = launch(mark_fresh<F>, blocks, block_threads, stream, t, a);
  if (!e) e = int(cub::DeviceScan::ExclusiveSum(a.work, a.work_bytes, as_u64(a.fresh), as_u64(a.before), u32(a.n), s));
  if (!e) e = launch(add_last<F>, 1, block_threads, stream, a);
  if (!e) e = read(&b.fresh, a.before + a.n);
  if (!e) e = read(&b.fresh_side, a.found + 1);
  return e;
}
template <class F>
int merge_batch(const void* table, const build_request& b, void* keys, void* values) {
  const auto& t = *static_cast<const skip_table<F>*>(table);
  auto* const to_keys = static_cast<typename F::key*>(keys);
  auto* const to_values = static_cast<typename F::value*>(values);
  void* const stream = b.batch->stream;
  const batch_space a = in_order<F>(b);
  int e = launch(merge_elements<F>, blocks_for(a.n), block_threads, stream, t, *b.batch, a, to_keys, to_values);
  if (!e && b.old)
    e = launch(merge_old<F>, blocks_for(b.old), block_threads, stream, *b.batch, a,
               static_cast<const typename F::value*>(b.old_values), to_keys, to_values);
  const u32 rounds = join_rounds_of(a.n);
  if (!e && b.batch->kind == accumulate)
    e = launch(join_elements<F>, blocks_for((a.n + rounds - 1) / rounds), block_threads, stream, *b.batch, a, to_values,
               rounds);
  if (!e) e = launch(merge_side<F>, 1, block_threads, stream, t, *b.batch, a);
  return e;
}

GH_END
