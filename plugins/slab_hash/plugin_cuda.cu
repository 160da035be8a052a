// The kernels of slab_hash and of the stand-alone allocator for CUDA.
//
// A tile is as many lanes as read a slab by 16 bytes each; the option tile=32 has a whole warp serve one element after the
// other, which is the paper's warp-cooperative work sharing. docs/performance.md has the measurements behind the defaults.
#include "libgpuhash/alloc/slab_batch.cuh"
#include "libgpuhash/drive/cuda.cuh"
#include "libgpuhash/kit/cuda_device.cuh"
#include "libgpuhash/kit/kernels.hpp"
#include "ops.hpp"
#include "parts.cuh"
#include "rebuild.cuh"
#include "walk.hpp"

GH_BEGIN

template <class F, u32 Kind, int Bytes, int W, int P>
int serve(const void* t, const request& q, totals* sum) {
  return run_on_cuda<slab_op<cuda_tile<F, Bytes / sizeof(typename F::word), W>, Kind, true>, P>(t, q, sum);
}

// Kinds that a whole warp serves where the option asks for it.
inline constexpr u32 whole_warp_kinds = 1u << find | 1u << insert | 1u << assign | 1u << erase | 1u << mixed;

template <class F, int Bytes>
int run_slabs(const void* t, const request& q, totals* sum) {
  constexpr int W = Bytes / 16;
  const bool whole_warp = q.tile == 32;
  return for_kind<F, slab_table<F>::kinds>(q.kind, int(cudaErrorInvalidValue), [&]<u32 Kind>() {
    if constexpr (in_kinds(Kind, whole_warp_kinds))
      if (whole_warp && q.kind != accumulate) return serve<F, Kind, Bytes, 32, 1>(t, q, sum);
    return serve<F, Kind, Bytes, W, 1>(t, q, sum);
  });
}

template <class F>
int run(const void* table, const request& q, totals* sum) {
  switch (sizeof(typename F::word) * static_cast<const slab_table<F>*>(table)->slab_slots) {
    case 64: return run_slabs<F, 64>(table, q, sum);
    case 128: return run_slabs<F, 128>(table, q, sum);
    case 256: return run_slabs<F, 256>(table, q, sum);
  }
  return int(cudaErrorInvalidValue);
}

template <class Table>
__global__ void __launch_bounds__(block_threads)
    flush_chains(const __grid_constant__ Table t, u64 lo, u64 hi, totals* sum) {
  const u64 b = lo + blockIdx.x * u64(block_threads) + threadIdx.x;
  const int dropped = b < hi ? int(flush_bucket<cuda_mem>(t, typename Table::index(b))) : 0;
  const int all = warp_sum(dropped);
  if (all && threadIdx.x % 32 == 0) atomicAdd(reinterpret_cast<u64*>(&sum->used), u64(-(long long)all));
}
template <class F>
int flush_on_cuda(const void* table, uint64_t lo, uint64_t hi, totals* sum, uint32_t, void* stream) {
  if (hi <= lo) return 0;
  return launch(flush_chains<slab_table<F>>, (hi - lo + block_threads - 1) / block_threads, block_threads, stream,
                *static_cast<const slab_table<F>*>(table), lo, hi, sum);
}

template <class Table>
__global__ void __launch_bounds__(block_threads)
    copy_values(const __grid_constant__ Table t, const __grid_constant__ request q, const uint64_t* offsets) {
  const size_t i = blockIdx.x * size_t(block_threads) + threadIdx.x;
  if (i < q.n) write_values<cuda_mem>(t, q, i, offsets);
}
template <class F>
int values_on_cuda(const void* table, const request& q, const uint64_t* offsets) {
  return launch(copy_values<slab_table<F>>, (q.n + block_threads - 1) / block_threads, block_threads, q.stream,
                *static_cast<const slab_table<F>*>(table), q, offsets);
}

template <class F>
constexpr engine one() {
  return {run<F>,
          collect_on_cuda<slab_table<F>>,
          flush_on_cuda<F>,
          values_on_cuda<F>,
          nullptr,
          move_on_cuda<F>,
          nullptr,
          &bulk_engine_of<slab_partitions<F>>,
          true};
}
static const engine engines[format_count] = GPUHASH_OF_FORMATS(one);

GH_END

GPUHASH_CUDA_KERNELS(slab_hash)
extern "C" const gpuhash::slab_engine* gpuhash_slab_hash_slab_engine_cuda() { return gpuhash::cuda_slab_engine(); }
