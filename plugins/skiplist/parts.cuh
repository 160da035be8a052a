// skiplist on CUDA: few long ranges, while no batch writes.
//
// A tile walks a range chunk after chunk. So few ranges would keep few tiles busy, each waiting for memory most of the time:
// they are cut into parts (skip_walk::cut). A part is a range like any other, which a tile walks twice: to count its pairs, and,
// after a sum over all of the counts, to write them behind those of the parts before it.
//
// The parts of a range are [its low, cut 1), [cut 1, cut 2), ..., [last cut, its high): whatever the cuts are, as long as they
// ascend (P2), each key is in one of them, and those of the side slots are in the last one that reaches to them.
#pragma once
#include <cub/device/device_scan.cuh>

#include "libgpuhash/kit/cuda_device.cuh"
#include "read.cuh"
#include "sizes.hpp"

GH_BEGIN

template <class T>
struct device_array {
  T* p = nullptr;
  cudaStream_t stream;
  int error;
  device_array(size_t n, void* s) : stream(cudaStream_t(s)) {
    error = cuda_device.allocate(reinterpret_cast<void**>(&p), n * sizeof(T) + 16, s);
  }
  ~device_array() {
    if (p) cuda_device.release(p, stream);
  }
  device_array(const device_array&) = delete;
  device_array& operator=(const device_array&) = delete;
};

// Of `per` parts of each range of a request. counted: `before` has the pairs of all parts before each one; or else they are
// counted into it.
template <class Table>
struct range_parts {
  using key = typename Table::key;
  u32 per;
  bool counted;
  key* low;  // encoded
  u64* before;

  GH_FN u64 pairs_before(u64 i) const { return before[i] - before[i / per * per]; }  // of the same range
  template <class Walk>
  GH_FN typename Walk::interval interval_of(const Walk& walk, const ordered_request& q, u64 i) const {
    const u64 range = i / per;
    auto part = walk.interval_of(q, range);
    part.low = low[i];
    if (i + 1 != (range + 1) * per) {
      part.high = low[i + 1];
      part.to_end = false;
    }
    if (!counted) {
      part.first = 0;
      part.room = ~u64(0);
      return part;
    }
    const u64 others = pairs_before(i);
    part.first += others;
    part.room = part.room > others ? part.room - others : 0;
    if (!part.room) part.most = 0;
    return part;
  }
};

template <class Table>
__global__ void __launch_bounds__(block_threads)
    cut_ranges(const __grid_constant__ Table t, const __grid_constant__ ordered_request q,
               const __grid_constant__ range_parts<Table> parts) {
  const u64 i = blockIdx.x * u64(block_threads) + threadIdx.x;
  if (i >= q.n * parts.per) return;
  const skip_walk<cuda_mem, Table> walk{t};
  parts.low[i] = walk.cut(walk.interval_of(q, i / parts.per), u32(i % parts.per), parts.per);
}
template <class Tile, class Table>
__global__ void __launch_bounds__(block_threads, 3)
    serve_parts(const __grid_constant__ Table t, const __grid_constant__ ordered_request q,
                const __grid_constant__ range_parts<Table> parts) {
  const Tile tile;
  skip_asker<Tile, Table>{{tile, t}}.write_part(q, parts, blockIdx.x * size_t(block_threads) + threadIdx.x);
}
// What the request asks for besides pairs.
template <class Table>
__global__ void __launch_bounds__(block_threads)
    write_counts(const __grid_constant__ ordered_request q, const __grid_constant__ range_parts<Table> parts) {
  const u64 i = blockIdx.x * u64(block_threads) + threadIdx.x;
  if (i > q.n) return;
  const u64 first = parts.before[i * parts.per];
  if (q.sums) q.sums[i] = first;
  if (!q.counts || i == q.n) return;
  const u64 there = parts.before[(i + 1) * parts.per] - first;
  q.counts[i] = q.offsets || there < q.most ? there : q.most;
}

// Into how many parts each range is cut.
template <class Table>
u32 parts_of_ranges(const Table& t, const ordered_request& q) {
  const u64 all = most_subranges, least_chunks = 4;
  if (!q.alone || q.n == 0 || q.n > all / 2) return 1;
  u64 per = all / q.n;
  if (per > t.capacity / least_chunks) per = t.capacity / least_chunks;
  // Parts are counted without a limit, at worst those of ranges to the end of the table. A walk to the limit stops there; that
  // takes less time where the limit is less than a thousandth of the chunks that might be looked at.
  if (!q.offsets && q.n * t.capacity / 1024 > q.most) return 1;
  // Where there is room for few pairs, they are few.
  if (q.offsets && per > q.most / 16 / q.n) per = q.most / 16 / q.n;
  return per < 2 ? 1 : u32(per);
}

template <class F>
using part_kernel = void (*)(skip_table<F>, ordered_request, range_parts<skip_table<F>>);
template <class F>
int ranges_by_parts(const void* table, const ordered_request& q, u32 per, part_kernel<F> serve) {
  using T = skip_table<F>;
  const T& t = *static_cast<const T*>(table);
  const cudaStream_t s = cudaStream_t(q.stream);
  const u64 all = q.n * per;
  device_array<typename F::key> low(all, q.stream);
  device_array<u64> before(all + 1, q.stream);
  if (low.error || before.error) return low.error ? low.error : before.error;
  range_parts<T> parts{per, false, low.p, before.p};
  ordered_request counting = q;
  counting.out_keys = counting.out_values = nullptr;
  int e = launch(cut_ranges<T>, blocks_for(all), block_threads, q.stream, t, q, parts);
  if (!e) e = launch(serve, blocks_for(all), block_threads, q.stream, t, counting, parts);
  if (!e) e = int(cudaMemsetAsync(before.p + all, 0, sizeof(u64), s));
  size_t bytes = 0;
  if (!e) e = int(cub::DeviceScan::ExclusiveSum(nullptr, bytes, before.p, before.p, u32(all + 1), s));
  device_array<unsigned char> work(bytes, q.stream);
  if (!e) e = work.error;
  if (!e) e = int(cub::DeviceScan::ExclusiveSum(work.p, bytes, before.p, before.p, u32(all + 1), s));
  parts.counted = true;
  if (!e && (q.sums || q.counts)) e = launch(write_counts<T>, blocks_for(q.n + 1), block_threads, q.stream, q, parts);
  if (!e && !q.sums && (q.out_keys || q.out_values))
    e = launch(serve, blocks_for(all), block_threads, q.stream, t, q, parts);
  return e;
}

GH_END
