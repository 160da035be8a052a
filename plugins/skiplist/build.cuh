// skiplist on CUDA: a batch is sorted, and merged with the pairs of the table. A thread for each element, and each pair.
//
// What build.hpp does with pieces is done here by ranks. `before[i]` counts the keys before sorted element i that the table
// lacks; so such a key's place is that, and as many pairs of the table as have a smaller key.
#pragma once
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>

#include "layout.hpp"
#include "libgpuhash/drive/cuda.cuh"
#include "libgpuhash/kit/ordered.hpp"

GH_BEGIN

// The work space of a batch.
template <class F>
struct sorted_batch {
  using key = typename F::key;
  struct findings {
    u64 falls;       // a key is less than the one before it
    u64 fresh_side;  // keys of the side slots that are not there yet
  };
  key* keys;
  u32* element;
  key* other_keys;  // the same, once they are sorted
  u32* other_element;
  u64* fresh;   // 1: the first element of a key that the table lacks
  u64* before;  // n + 1 of them
  findings* found;
  unsigned char* cub;
  size_t cub_bytes;
  u32 n;
  const key* old_keys;
  u64 old;

  sorted_batch(const build_request& b, void* work)
      : n(u32(b.batch->n)), old_keys(static_cast<const key*>(b.old_keys)), old(b.old) {
    unsigned char* at = static_cast<unsigned char*>(work);
    const auto part = [&](size_t bytes) {
      unsigned char* const here = at;
      at += (bytes + 255) / 256 * 256;
      return here;
    };
    keys = reinterpret_cast<key*>(part(n * sizeof(key)));
    element = reinterpret_cast<u32*>(part(n * sizeof(u32)));
    other_keys = reinterpret_cast<key*>(part(n * sizeof(key)));
    other_element = reinterpret_cast<u32*>(part(n * sizeof(u32)));
    fresh = reinterpret_cast<u64*>(part((n + size_t(1)) * sizeof(u64)));
    before = reinterpret_cast<u64*>(part((n + size_t(1)) * sizeof(u64)));
    found = reinterpret_cast<findings*>(part(sizeof(findings)));
    size_t sorting = 0, adding = 0;
    cub::DeviceRadixSort::SortPairs(nullptr, sorting, keys, other_keys, element, other_element, n, 0,
                                    int(8 * sizeof(key)), cudaStream_t(nullptr));
    cub::DeviceScan::ExclusiveSum(nullptr, adding, fresh, before, n, cudaStream_t(nullptr));
    cub_bytes = sorting > adding ? sorting : adding;
    cub = part(cub_bytes);
    end = at;
  }
  unsigned char* end;

  // The first of n ascending keys that is not below k.
  GH_FN static u64 lower(const key* keys, u64 n, key k) {
    u64 begin = 0;
    while (begin < n) {
      const u64 middle = begin + (n - begin) / 2;
      const bool below = keys[middle] < k;
      begin = below ? middle + 1 : begin;
      n = below ? n : middle;
    }
    return begin;
  }
  GH_FN u64 old_lower(key k) const { return lower(old_keys, old, k); }
  GH_FN bool is_old(u64 at, key k) const { return at < old && old_keys[at] == k; }
  GH_FN bool is_first(u64 i) const { return i == 0 || keys[i - 1] != keys[i]; }
  GH_FN bool is_last(u64 i) const { return i + 1 == n || keys[i + 1] != keys[i]; }
};

template <class F>
GH_FN bool side_is_there(const skip_table<F>& t, typename F::key k) {
  const auto w = cuda_mem::load<order::relaxed>(t.side + (k == dead_key<typename F::key>));
  return F::key_of(w) != empty_key<typename F::key>;
}

template <class F>
__global__ void __launch_bounds__(block_threads)
    load_batch(const __grid_constant__ skip_table<F> t, const __grid_constant__ request q,
               const __grid_constant__ sorted_batch<F> b) {
  const u64 i = blockIdx.x * u64(block_threads) + threadIdx.x;
  if (i >= b.n) return;
  b.keys[i] = t.encode(read_key<F>(q, i));
  b.element[i] = u32(i);
}
template <class F>
__global__ void __launch_bounds__(block_threads) look_for_falls(const __grid_constant__ sorted_batch<F> b) {
  const u64 i = blockIdx.x * u64(block_threads) + threadIdx.x;
  const bool falls = i > 0 && i < b.n && b.keys[i] < b.keys[i - 1];
  if (__any_sync(full_warp, falls) && threadIdx.x % 32 == 0) cuda_mem::store<order::relaxed>(&b.found->falls, u64(1));
}
template <class F>
__global__ void __launch_bounds__(block_threads)
    mark_fresh(const __grid_constant__ skip_table<F> t, const __grid_constant__ sorted_batch<F> b) {
  const u64 i = blockIdx.x * u64(block_threads) + threadIdx.x;
  if (i >= b.n) return;
  const auto k = b.keys[i];
  bool fresh = b.is_first(i);
  if (is_side_key(k)) {
    if (fresh && !side_is_there(t, k)) atomicAdd(&b.found->fresh_side, u64(1));
    fresh = false;
  } else if (fresh) {
    fresh = !b.is_old(b.old_lower(k), k);
  }
  b.fresh[i] = fresh;
}
// before[n]: all of them.
template <class F>
__global__ void __launch_bounds__(block_threads) add_last(const __grid_constant__ sorted_batch<F> b) {
  if (blockIdx.x == 0 && threadIdx.x == 0) b.before[b.n] = b.before[b.n - 1] + b.fresh[b.n - 1];
}

// What the elements of a batch leave behind, and their statuses.
template <class F>
__global__ void __launch_bounds__(block_threads)
    merge_elements(const __grid_constant__ skip_table<F> t, const __grid_constant__ request q,
                   const __grid_constant__ sorted_batch<F> b, typename F::key* keys, typename F::value* values) {
  const u64 i = blockIdx.x * u64(block_threads) + threadIdx.x;
  if (i >= b.n) return;
  const auto k = b.keys[i];
  const u32 element = b.element[i];
  const bool first = b.is_first(i);
  const bool in_side = is_side_key(k);
  const bool adds = in_side ? first && !side_is_there(t, k) : b.fresh[i] != 0;
  if (q.status) q.status[element] = u8(adds ? yes : no);
  const bool assigns = q.kind == assign && b.is_last(i);
  if (in_side || !(adds || assigns)) return;
  const u64 old = b.old_lower(k);
  // Of a key that is not there, before[i + 1] counts it, too.
  const u64 to = b.before[i + 1] + old - !b.is_old(old, k);
  if (adds) keys[to] = k;
  if (values && (q.kind == assign ? assigns : adds)) values[to] = read_value<F>(q, element);
}
// The pairs that were there.
template <class F>
__global__ void __launch_bounds__(block_threads)
    merge_old(const __grid_constant__ request q, const __grid_constant__ sorted_batch<F> b,
              const typename F::value* old_values, typename F::key* keys, typename F::value* values) {
  const u64 j = blockIdx.x * u64(block_threads) + threadIdx.x;
  if (j >= b.old) return;
  const auto k = b.old_keys[j];
  const u64 i = b.lower(b.keys, b.n, k);
  const u64 to = j + b.before[i];
  keys[to] = k;
  const bool assigned = q.kind == assign && i < b.n && b.keys[i] == k;
  if (values && !assigned) values[to] = old_values[j];
}
// The side slots, after their elements have looked at them: a thread each.
template <class F>
__global__ void __launch_bounds__(block_threads)
    merge_side(const __grid_constant__ skip_table<F> t, const __grid_constant__ request q,
               const __grid_constant__ sorted_batch<F> b) {
  using key = typename F::key;
  if (blockIdx.x > 0 || threadIdx.x > 1) return;
  const key k = key(~key(0) - threadIdx.x);
  const u64 begin = b.lower(b.keys, b.n, k);
  const u64 end = threadIdx.x ? b.lower(b.keys, b.n, empty_key<key>) : b.n;
  if (begin == end || (q.kind == insert && side_is_there(t, k))) return;
  const auto v = read_value<F>(q, b.element[q.kind == insert ? begin : end - 1]);
  cuda_mem::store<order::relaxed>(t.side + threadIdx.x, F::make(key(1), v));
}

template <class F>
size_t batch_work(const build_request& b) {
  const sorted_batch<F> s(b, nullptr);
  return size_t(s.end - static_cast<unsigned char*>(nullptr));
}
inline u64 blocks_for(u64 n) { return (n + block_threads - 1) / block_threads; }

// The batch with its keys in order: where they were, or beside it.
template <class F>
sorted_batch<F> in_order(const build_request& b, bool was_sorted) {
  sorted_batch<F> s(b, b.work);
  if (was_sorted) {
    s.keys = s.other_keys;
    s.element = s.other_element;
  }
  return s;
}
template <class F>
int sort_batch(const void* table, build_request& b) {
  const auto& t = *static_cast<const skip_table<F>*>(table);
  void* const stream = b.batch->stream;
  const cudaStream_t s = cudaStream_t(stream);
  sorted_batch<F> batch(b, b.work);
  typename sorted_batch<F>::findings found{};
  const auto read = [&](void* to, const void* from, size_t bytes) {
    const int e = int(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, s));
    return e ? e : int(cudaStreamSynchronize(s));
  };
  const u64 blocks = blocks_for(batch.n);
  int e = int(cudaMemsetAsync(batch.found, 0, sizeof(found), s));
  if (!e) e = launch(load_batch<F>, blocks, block_threads, stream, t, *b.batch, batch);
  if (!e) e = launch(look_for_falls<F>, blocks, block_threads, stream, batch);
  if (!e) e = read(&found, batch.found, sizeof(found));
  if (!e && found.falls)
    e = int(cub::DeviceRadixSort::SortPairs(batch.cub, batch.cub_bytes, batch.keys, batch.other_keys, batch.element,
                                            batch.other_element, batch.n, 0, int(8 * sizeof(typename F::key)), s));
  b.sorted = found.falls != 0;
  batch = in_order<F>(b, b.sorted);
  if (!e) e = launch(mark_fresh<F>, blocks, block_threads, stream, t, batch);
  if (!e) e = int(cub::DeviceScan::ExclusiveSum(batch.cub, batch.cub_bytes, batch.fresh, batch.before, batch.n, s));
  if (!e) e = launch(add_last<F>, 1, block_threads, stream, batch);
  u64 fresh = 0;
  if (!e) e = read(&fresh, batch.before + batch.n, sizeof(fresh));
  if (!e) e = read(&found, batch.found, sizeof(found));
  b.fresh = fresh;
  b.fresh_side = found.fresh_side;
  return e;
}
template <class F>
int merge_batch(const void* table, const build_request& b, void* keys, void* values) {
  const auto& t = *static_cast<const skip_table<F>*>(table);
  auto* const to_keys = static_cast<typename F::key*>(keys);
  auto* const to_values = static_cast<typename F::value*>(values);
  void* const stream = b.batch->stream;
  const sorted_batch<F> batch = in_order<F>(b, b.sorted);
  int e = launch(merge_elements<F>, blocks_for(batch.n), block_threads, stream, t, *b.batch, batch, to_keys, to_values);
  if (!e && b.old)
    e = launch(merge_old<F>, blocks_for(b.old), block_threads, stream, *b.batch, batch,
               static_cast<const typename F::value*>(b.old_values), to_keys, to_values);
  if (!e) e = launch(merge_side<F>, 1, block_threads, stream, t, *b.batch, batch);
  return e;
}

GH_END
