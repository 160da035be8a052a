// What this repository uses of CUB, on the host: see cuda_runtime.h beside it.
#pragma once
#include <cuda_runtime.h>

namespace cub {

struct DeviceScan {
  template <class In, class Out, class N>
  static cudaError_t ExclusiveSum(void* temporary, size_t& bytes, const In* in, Out* out, N n, cudaStream_t) {
    if (!temporary) return bytes = 1, cudaSuccess;
    if (call_fails()) return cudaErrorLaunchFailure;
    make_copies();
    Out sum = 0;
    for (N i = 0; i < n; ++i) {
      const Out here = in[i];
      out[i] = sum;
      sum += here;
    }
    return cudaSuccess;
  }
};

}  // namespace cub
