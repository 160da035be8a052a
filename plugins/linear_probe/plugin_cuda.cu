// The kernels of linear_probe for CUDA.
//
// A visit reads one line: 64 bytes where groups are that wide, 128 bytes where they are wider. Groups narrower than a line
// (the blog's layout) take lines of 64 bytes that begin before the home, except for finds of groups of 32 bytes.
// docs/performance.md has the measurements behind the defaults.
#include "libgpuhash/drive/cuda.cuh"
#include "libgpuhash/kit/cuda_device.cuh"
#include "libgpuhash/kit/kernels.hpp"
#include "ops.hpp"
#include "parts.cuh"
#include "rebuild.cuh"

GH_BEGIN

template <class F, u32 Kind, int Bytes, bool Aligned>
int serve(const void* t, const request& q, totals* sum) {
  return run_on_cuda<linear_op<cuda_tile<F, Bytes / sizeof(typename F::word)>, Kind, Aligned>, 1>(t, q, sum);
}

template <class F, int Bytes, bool Aligned>
int run_lines(const void* t, const request& q, totals* sum) {
  return for_kind<F, linear_table<F>::kinds>(q.kind, int(cudaErrorInvalidValue),
                                             [&]<u32 Kind>() { return serve<F, Kind, Bytes, Aligned>(t, q, sum); });
}

template <class F>
int run(const void* table, const request& q, totals* sum) {
  const u32 group_bytes = sizeof(typename F::word) << static_cast<const linear_table<F>*>(table)->group_bits;
  if (group_bytes >= 128) return run_lines<F, 128, true>(table, q, sum);
  if (group_bytes == 64) return run_lines<F, 64, true>(table, q, sum);
  if (group_bytes == 32 && q.kind == find) return serve<F, find, 32, true>(table, q, sum);
  return run_lines<F, 64, false>(table, q, sum);
}

template <class F>
constexpr engine one() {
  engine e{run<F>, collect_on_cuda<linear_table<F>>};
  e.move = move_on_cuda<F>;
  e.parts = &bulk_engine_of<linear_partitions<F>>;
  e.anew = &rebuild_by_parts<F>::all;
  e.in_place = true;
  return e;
}
static const engine engines[format_count] = GPUHASH_OF_FORMATS(one);

GH_END

GPUHASH_CUDA_KERNELS(linear_probe)
