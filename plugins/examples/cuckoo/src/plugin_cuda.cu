// The kernels of cuckoo for CUDA: a tile is as many lanes as read a row of 64 bytes, 16 bytes each.
#include "libgpuhash/drive/cuda.cuh"
#include "libgpuhash/kit/cuda_device.cuh"
#include "libgpuhash/kit/kernels.hpp"
#include "ops.hpp"

GH_BEGIN

template <class F, u32 Kind>
int serve(const void* t, const request& q, totals* sum) {
  return run_on_cuda<cuckoo_op<cuda_tile<F, 64 / sizeof(typename F::word)>, Kind>, 1>(t, q, sum);
}
template <class F>
int run(const void* t, const request& q, totals* sum) {
  switch (q.kind) {
    case find: return serve<F, find>(t, q, sum);
    case insert: return serve<F, insert>(t, q, sum);
    case assign: return serve<F, assigns<F>>(t, q, sum);
    case accumulate: return serve<F, joins<F>>(t, q, sum);
    case erase: return serve<F, erase>(t, q, sum);
    case count: return serve<F, count>(t, q, sum);
    case mixed: return serve<F, mixed>(t, q, sum);
  }
  return int(cudaErrorInvalidValue);
}
template <class F>
constexpr engine one() {
  return {run<F>, collect_on_cuda<cuckoo_table<F>>};
}
static const engine engines[format_count] = {{}, one<pair32>(), {}, one<pair64>()};  // no sets

GH_END

GPUHASH_CUDA_KERNELS(cuckoo)
