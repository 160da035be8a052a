// The kernels of skiplist for CUDA.
//
// A tile is as many lanes as read a chunk by 16 bytes each. Finds that run while no batch writes read through L1, where the
// upper levels then stay, and take a miss for what it is. Beside writers neighbours and ranges are served by a thread each.
#include "build.cuh"
#include "dense.hpp"
#include "libgpuhash/drive/cuda.cuh"
#include "libgpuhash/kit/cuda_device.cuh"
#include "libgpuhash/kit/kernels.hpp"
#include "ops.hpp"
#include "parts.cuh"
#include "read.cuh"
#include "sizes.hpp"
#include "walk.hpp"

GH_BEGIN

template <class F, int N>
using chunk_tile = cuda_tile<F, N, N* int(sizeof(typename F::word)) / 16>;

template <class F, int N, u32 Kind>
int serve(const void* t, const request& q, totals* sum) {
  return run_on_cuda<skip_update<chunk_tile<F, N>, Kind, skip_table<F>>, 1>(t, q, sum);
}
template <class F, int N, u32 Kind>
int look(const void* t, const request& q, totals* sum) {
  if (q.alone) return run_on_cuda<skip_find<chunk_tile<F, N>, Kind, skip_table<F>, true>, 1>(t, q, sum);
  return run_on_cuda<skip_find<chunk_tile<F, N>, Kind, skip_table<F>, false>, 1>(t, q, sum);
}

template <class F, int N>
int run_chunks(const void* t, const request& q, totals* sum) {
  return for_kind<F, skip_table<F>::kinds>(q.kind, int(cudaErrorInvalidValue), [&]<u32 Kind>() {
    if constexpr (in_kinds(Kind, writing_batches))
      return serve<F, N, Kind>(t, q, sum);
    else
      return look<F, N, Kind>(t, q, sum);
  });
}
template <class F>
int run_whole(const void* table, const request& q, totals* sum) {
  switch (static_cast<const skip_table<F>*>(table)->slots) {
    case 8: return run_chunks<F, 8>(table, q, sum);
    case 16: return run_chunks<F, 16>(table, q, sum);
    case 32:
      if constexpr (sizeof(typename F::word) == 8) return run_chunks<F, 32>(table, q, sum);
      break;
  }
  return int(cudaErrorInvalidValue);
}

// In a table of few chunks all tiles want the lock of one of them. So a batch that adds to few pairs is served in pieces, one
// after the other, each of which finds a quarter of what it will leave.
inline constexpr u64 many_pairs = 64 * first_piece;
template <class F>
int run(const void* table, const request& q, totals* sum) {
  const bool adds = in_kinds(q.kind, adding_batches);
  if (!adds || q.n_there) return run_whole<F>(table, q, sum);
  u64 done = 0;
  while (done < q.n) {
    const u64 there = q.added < many_pairs ? q.added + done : many_pairs;
    const u64 wanted = there >= many_pairs ? q.n : 3 * there > first_piece ? 3 * there : first_piece;
    const u64 piece = q.n - done < wanted ? q.n - done : wanted;
    if (const int e = run_whole<F>(table, part_of(q, done, piece), sum)) return e;
    done += piece;
  }
  return 0;
}

// ---- all pairs, in order: the live chunks of level 0 by their first key, and then what is in them ------------------------

template <class Table>
__global__ void __launch_bounds__(block_threads)
    list_chunks(const __grid_constant__ Table t, u32 m, typename Table::key* first, u32* handle, u64* n) {
  using F = typename Table::format;
  const u32 i = blockIdx.x * block_threads + threadIdx.x;
  if (i >= m) return;
  const u32 h = t.handle_of(i);
  const auto* const c = t.chunk(h);
  const auto load = [](const typename F::word* p) { return cuda_mem::load<order::relaxed>(p); };
  const auto entry = load(c);
  if (Table::is_gone(Table::link_of(load(c + t.slots - 2))) || Table::level_of(load(c + t.slots - 1)) != 0) return;
  if (F::key_of(entry) == Table::no_key) return;
  const u64 to = atomicAdd(n, u64(1));
  first[to] = F::key_of(entry);
  handle[to] = h;
}
template <class Table>
__global__ void __launch_bounds__(block_threads)
    count_entries(const __grid_constant__ Table t, u32 m, const u32* handle, u64* counts, const u64* n) {
  using F = typename Table::format;
  const u64 i = blockIdx.x * u64(block_threads) + threadIdx.x;
  if (i >= m) return;
  u64 here = 0;
  if (i < *n) {
    const auto* const c = t.chunk(handle[i]);
    for (u32 e = 0; e < t.entries(); ++e) here += F::key_of(cuda_mem::load<order::relaxed>(c + e)) != Table::no_key;
  }
  counts[i] = here;
}
template <class Table>
__global__ void __launch_bounds__(block_threads)
    copy_entries(const __grid_constant__ Table t, const u32* handle, const u64* before, const u64* n, void* keys,
                 void* values, u32 key_bytes, u32 value_bytes, u64* all) {
  using F = typename Table::format;
  const u64 i = (blockIdx.x * u64(block_threads) + threadIdx.x) / 8;
  const u32 lane = threadIdx.x % 8;
  if (i >= *n) return;
  const auto* const c = t.chunk(handle[i]);
  const u64 to = before[i];
  for (u32 e = lane; e < t.entries(); e += 8) {
    const auto w = cuda_mem::load<order::relaxed>(c + e);
    if (F::key_of(w) == Table::no_key) break;
    if (keys) write_element<typename F::key>(keys, key_bytes, to + e, t.decode(F::key_of(w)));
    if (values) write_element<typename F::value>(values, value_bytes, to + e, F::value_of(w));
    if (i + 1 == *n) atomicMax(all, to + e + 1);
  }
}

template <class F>
int collect(const void* table, cell_order, uint64_t, uint64_t chunks, const collecting& to) {
  using T = skip_table<F>;
  using key = typename F::key;
  const T& t = *static_cast<const T*>(table);
  void* const stream = to.stream;
  const cudaStream_t s = cudaStream_t(stream);
  const u32 m = u32(chunks);
  const u64 blocks = (u64(m) + block_threads - 1) / block_threads;
  device_array<key> first(m, stream), sorted_first(m, stream);
  device_array<u32> handle(m, stream), sorted(m, stream);
  device_array<u64> counts(m, stream), before(m, stream), listed(1, stream);
  const int errors[] = {first.error,  sorted_first.error, handle.error, sorted.error,
                        counts.error, before.error,       listed.error};
  for (const int e : errors)
    if (e) return e;
  // What is not listed sorts behind everything else.
  int e = int(cudaMemsetAsync(first.p, 0xff, m * sizeof(key), s));
  if (!e) e = int(cudaMemsetAsync(listed.p, 0, sizeof(u64), s));
  if (!e) e = launch(list_chunks<T>, blocks, block_threads, stream, t, m, first.p, handle.p, listed.p);
  size_t sort_bytes = 0, scan_bytes = 0;
  if (!e)
    e = int(cub::DeviceRadixSort::SortPairs(nullptr, sort_bytes, first.p, sorted_first.p, handle.p, sorted.p, m, 0,
                                            int(8 * sizeof(key)), s));
  if (!e) e = int(cub::DeviceScan::ExclusiveSum(nullptr, scan_bytes, counts.p, before.p, m, s));
  device_array<unsigned char> work(sort_bytes > scan_bytes ? sort_bytes : scan_bytes, stream);
  if (!e) e = work.error;
  if (!e)
    e = int(cub::DeviceRadixSort::SortPairs(work.p, sort_bytes, first.p, sorted_first.p, handle.p, sorted.p, m, 0,
                                            int(8 * sizeof(key)), s));
  if (!e) e = launch(count_entries<T>, blocks, block_threads, stream, t, m, sorted.p, counts.p, listed.p);
  if (!e) e = int(cub::DeviceScan::ExclusiveSum(work.p, scan_bytes, counts.p, before.p, m, s));
  if (!e)
    e = launch(copy_entries<T>, (u64(m) * 8 + block_threads - 1) / block_threads, block_threads, stream, t, sorted.p,
               before.p, listed.p, to.keys, to.values, to.key_bytes, to.value_bytes, reinterpret_cast<u64*>(to.count));
  return e;
}

// ---- ordered queries, and building -----------------------------------------------------------------------------------

template <class Table, bool Up>
__global__ void __launch_bounds__(block_threads, 4)  // here and below, more blocks would have to spill
    serve_neighbors(const __grid_constant__ Table t, const __grid_constant__ ordered_request q) {
  const size_t i = blockIdx.x * size_t(block_threads) + threadIdx.x;
  if (i < q.n) skip_walk<cuda_mem, Table>{t}.template write_neighbor<Up>(q, i);
}
template <class Table>
__global__ void __launch_bounds__(block_threads, 3)
    serve_ranges(const __grid_constant__ Table t, const __grid_constant__ ordered_request q) {
  const size_t i = blockIdx.x * size_t(block_threads) + threadIdx.x;
  if (i < q.n) skip_walk<cuda_mem, Table>{t}.write_range(q, i);
}
// The same while no batch writes: a warp searches for its elements together.
template <class Tile, class Table>
__global__ void __launch_bounds__(block_threads, 4)
    serve_neighbors_alone(const __grid_constant__ Table t, const __grid_constant__ ordered_request q) {
  const Tile tile;
  skip_asker<Tile, Table>{{tile, t}}.write_neighbor(q, blockIdx.x * size_t(block_threads) + threadIdx.x);
}
template <class Tile, class Table>
__global__ void __launch_bounds__(block_threads, 3)
    serve_ranges_alone(const __grid_constant__ Table t, const __grid_constant__ ordered_request q) {
  const Tile tile;
  skip_asker<Tile, Table>{{tile, t}}.write_range(q, blockIdx.x * size_t(block_threads) + threadIdx.x);
}

template <class F>
using ordered_kernel = void (*)(skip_table<F>, ordered_request);
template <class F, int N>
ordered_kernel<F> alone_kernel(bool ranges) {
  using tile = chunk_tile<F, N>;
  return ranges ? serve_ranges_alone<tile, skip_table<F>> : serve_neighbors_alone<tile, skip_table<F>>;
}
template <class F>
ordered_kernel<F> alone_kernel(u32 slots, bool ranges) {
  if constexpr (sizeof(typename F::word) == 8)
    if (slots == 32) return alone_kernel<F, 32>(ranges);
  return slots == 16 ? alone_kernel<F, 16>(ranges) : alone_kernel<F, 8>(ranges);
}
template <class F>
part_kernel<F> kernel_of_parts(u32 slots) {
  if constexpr (sizeof(typename F::word) == 8)
    if (slots == 32) return serve_parts<chunk_tile<F, 32>, skip_table<F>>;
  return slots == 16 ? serve_parts<chunk_tile<F, 16>, skip_table<F>> : serve_parts<chunk_tile<F, 8>, skip_table<F>>;
}
template <class F>
int ask(const void* table, const ordered_request& q, ordered_kernel<F> beside, bool ranges) {
  const auto& t = *static_cast<const skip_table<F>*>(table);
  const ordered_kernel<F> kernel = q.alone ? alone_kernel<F>(t.slots, ranges) : beside;
  return launch(kernel, (q.n + block_threads - 1) / block_threads, block_threads, q.stream, t, q);
}
template <class F>
int neighbors(const void* table, const ordered_request& q) {
  const bool up = q.which <= above;
  return ask<F>(table, q, up ? serve_neighbors<skip_table<F>, true> : serve_neighbors<skip_table<F>, false>, false);
}
template <class F>
int ranges(const void* table, const ordered_request& given) {
  if (const u32 per = parts_of_ranges(*static_cast<const skip_table<F>*>(table), given); per > 1)
    return ranges_by_parts<F>(table, given, per, kernel_of_parts<F>(static_cast<const skip_table<F>*>(table)->slots));
  ordered_request q = given;
  if (q.sums) q.counts = q.sums;
  int e = q.n ? ask<F>(table, q, serve_ranges<skip_table<F>>, true) : 0;
  if (!q.sums || e) return e;
  const u32 n = u32(q.n) + 1;
  const cudaStream_t s = cudaStream_t(q.stream);
  u64* const sums = reinterpret_cast<u64*>(q.sums);
  size_t bytes = 0;
  e = int(cudaMemsetAsync(sums + q.n, 0, sizeof(u64), s));
  if (!e) e = int(cub::DeviceScan::ExclusiveSum(nullptr, bytes, sums, sums, n, s));
  device_array<unsigned char> work(bytes, q.stream);
  if (!e) e = work.error;
  if (!e) e = int(cub::DeviceScan::ExclusiveSum(work.p, bytes, sums, sums, n, s));
  return e;
}

// A thread for each word of a level.
template <class Table>
__global__ void __launch_bounds__(block_threads)
    build_level(const __grid_constant__ Table t, const __grid_constant__ dense_shape s, u32 level, u64 n,
                const void* keys, const void* values, u32 key_bytes, u32 value_bytes, u32 per) {
  const u64 i = blockIdx.x * u64(block_threads) + threadIdx.x;
  const u64 chunk = i / t.slots;
  if (chunk < s.chunks[level])
    write_dense<cuda_mem>(t, s, level, chunk, u32(i % t.slots), n, keys, values, key_bytes, value_bytes, per);
  if (i == 0 && level == 0) {
    cuda_mem::store<order::relaxed>(t.top, s.top);
    cuda_mem::store<order::relaxed>(t.taken, u32(s.taken + s.all));
  }
}
template <class F>
int build_levels(const skip_table<F>& t, const dense_shape& s, size_t n, const void* keys, const void* values,
                 uint32_t key_bytes, uint32_t value_bytes, uint32_t per, void* stream) {
  int e = 0;
  for (u32 l = 0; !e && l < s.levels; ++l)
    e = launch(build_level<skip_table<F>>, blocks_for(s.chunks[l] * t.slots), block_threads, stream, t, s, l, u64(n),
               keys, values, key_bytes, value_bytes, per);
  return e;
}
template <class F>
int build(const void* table, size_t n, const void* keys, const void* values, uint32_t key_bytes, uint32_t value_bytes,
          uint32_t per, uint32_t, void* stream) {
  const auto& t = *static_cast<const skip_table<F>*>(table);
  return build_levels<F>(t, dense_shape::of(n, per, t.levels), n, keys, values, key_bytes, value_bytes, per, stream);
}

// ---- a batch behind the end ------------------------------------------------------------------------------------------

// One thread, which makes a step for each level.
template <class Table>
__global__ void __launch_bounds__(block_threads) find_end(const __grid_constant__ Table t, table_end* end,
                                                          typename Table::key* keys, typename Table::value* values) {
  if (blockIdx.x == 0 && threadIdx.x == 0) skip_walk<cuda_mem, Table>{t}.write_end(end, keys, values);
}
// After it: has the batch a key before the end?
template <class F>
__global__ void __launch_bounds__(block_threads)
    compare_with_end(const __grid_constant__ skip_table<F> t, const __grid_constant__ request q, table_end* end) {
  const u64 i = blockIdx.x * u64(block_threads) + threadIdx.x;
  const bool short_of_it = i < q.n && t.encode(read_key<F>(q, i)) < end->from;
  if (__any_sync(full_warp, short_of_it) && threadIdx.x % 32 == 0 &&
      cuda_mem::load<order::relaxed>(&end->falls_short) == 0)
    cuda_mem::store<order::relaxed>(&end->falls_short, 1u);
}
template <class F>
int look_at_end(const void* table, const request& q, table_end* end, void* keys, void* values) {
  using T = skip_table<F>;
  const T& t = *static_cast<const T*>(table);
  const int e = launch(find_end<T>, 1, block_threads, q.stream, t, end, static_cast<typename F::key*>(keys),
                       static_cast<typename F::value*>(values));
  return e ? e : launch(compare_with_end<F>, blocks_for(q.n), block_threads, q.stream, t, q, end);
}
template <class F>
int extend(const void* table, const table_end& end, size_t n, const void* keys, const void* values, uint32_t key_bytes,
           uint32_t value_bytes, uint32_t per, uint32_t, void* stream) {
  const auto& t = *static_cast<const skip_table<F>*>(table);
  return build_levels<F>(t, dense_shape::behind(end, n, per, t.levels), n, keys, values, key_bytes, value_bytes, per,
                         stream);
}

template <class F>
static const ordered_engine ordered_of = {neighbors<F>,  ranges<F>,      build<F>, combining_kinds, batch_work<F>,
                                          sort_batch<F>, merge_batch<F>, nullptr,  look_at_end<F>,  extend<F>};
template <class F>
constexpr engine one() {
  return {run<F>, collect<F>, nullptr, nullptr, nullptr, nullptr, &ordered_of<F>};
}
static const engine engines[format_count] = {one<pair32>(), one<pair32>(), one<pair64>(), one<pair64>()};

GH_END

GPUHASH_CUDA_KERNELS(skiplist)
