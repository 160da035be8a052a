// What this repository uses of CUB, on the host: see cuda_runtime.h beside it.
#pragma once
#include <cuda_runtime.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace cub {

struct DeviceRadixSort {
  // Stable. The first call, without temporary storage, asks how much is needed.
  template <class Key, class Value, class N>
  static cudaError_t SortPairs(void* temporary, size_t& bytes, const Key* keys, Key* to_keys, const Value* values,
                               Value* to_values, N n, int, int, cudaStream_t) {
    if (!temporary) return bytes = 1, cudaSuccess;
    if (call_fails()) return cudaErrorLaunchFailure;
    make_copies();
    std::vector<size_t> order(n);
    std::iota(order.begin(), order.end(), size_t(0));
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return keys[a] < keys[b]; });
    for (size_t i = 0; i < order.size(); ++i) {
      to_keys[i] = keys[order[i]];
      to_values[i] = values[order[i]];
    }
    return cudaSuccess;
  }
};

}  // namespace cub
