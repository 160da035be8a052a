// Columns on a CUDA device: a few bytes of pinned host memory, in which a short result arrives.
//
// A copy to memory that is not pinned goes through the driver's own, and takes 8 us longer on an H200: as long as a
// kernel of a short column.
#pragma once
#include <cuda_runtime.h>

#include <cstddef>
#include <mutex>
#include <vector>

namespace gpuhash::columns {

class pinned_bytes {
 public:
  static constexpr size_t room = 64;

  pinned_bytes() : at_(taken()) {
    if (at_ && is_pinned(at_)) return;
    at_ = nullptr;
    // Other threads may be capturing graphs, during which memory is only made in this mode.
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    const bool exchanged = cudaThreadExchangeStreamCaptureMode(&mode) == cudaSuccess;
    if (cudaHostAlloc(&at_, room, cudaHostAllocPortable) != cudaSuccess) {
      cudaGetLastError();
      at_ = nullptr;
    }
    if (exchanged) cudaThreadExchangeStreamCaptureMode(&mode);
  }
  ~pinned_bytes() {
    if (!at_) return;
    list& those = kept();
    const std::lock_guard lock(those.mutex);
    those.free.push_back(at_);
  }
  pinned_bytes(const pinned_bytes&) = delete;
  pinned_bytes& operator=(const pinned_bytes&) = delete;

  // `room` bytes; NULL: there is no such memory.
  void* at() const { return at_; }

 private:
  struct list {
    std::mutex mutex;
    std::vector<void*> free;
  };
  // One for each call that was in progress at the same time. They are never freed: the driver may have ended before.
  static list& kept() {
    static list* const those = new list;
    return *those;
  }
  static void* taken() {
    list& those = kept();
    const std::lock_guard lock(those.mutex);
    if (those.free.empty()) return nullptr;
    void* const at = those.free.back();
    those.free.pop_back();
    return at;
  }
  // A reset of the device has taken it back.
  static bool is_pinned(const void* at) {
    cudaPointerAttributes found{};
    if (cudaPointerGetAttributes(&found, at) == cudaSuccess) return found.type == cudaMemoryTypeHost;
    cudaGetLastError();
    return false;
  }

  void* at_;
};

}  // namespace gpuhash::columns
