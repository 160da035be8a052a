// Kernels of columns on a CUDA device: launches of one call, on the caller's stream and device.
#pragma once
#include <cuda_runtime.h>

#include <cstring>

#include "libgpuhash/columns/cuda/pinned.hpp"
#include "libgpuhash/src/error.hpp"
#include "libgpuhash/tile/cuda_mem.cuh"

namespace gpuhash::columns {

struct cuda_failure {
  cudaError_t code;
  const char* call;
};

// Thrown if the stream is being captured into a graph and the caller has asked for a result on the host.
struct captured {
  const char* asked;
};

inline void check(int code, const char* call) {
  if (code != cudaSuccess) throw cuda_failure{cudaError_t(code), call};
}

// The memory that a block takes at most: halves of words for as many bins as are counted at once. A tile of keys of 8 bytes, and
// the frequent keys with counts and first rows, take less.
constexpr size_t most_shared = 128 << 10;

class launcher {
 public:
  explicit launcher(void* stream) : stream_(stream), processors_(multiprocessors()) {}
  template <class... P>
  void operator()(void (*kernel)(P...), unsigned blocks, unsigned threads, size_t shared,
                  const std::type_identity_t<P>&... arguments) const {
    check_room(shared);
    check(launch_with(kernel, blocks, threads, shared, stream_, arguments...), "the launch of a kernel");
  }
  // The same right behind another kernel of the call, before whose end it is set up: both begin with wait_for_the_one_before().
  template <class... P>
  void next(void (*kernel)(P...), unsigned blocks, unsigned threads, size_t shared,
            const std::type_identity_t<P>&... arguments) const {
    check_room(shared);
    check(launch_next(kernel, blocks, threads, shared, stream_, arguments...), "the launch of a kernel");
  }
  void fill(void* p, int byte, size_t bytes) const {
    if (bytes) check(cudaMemsetAsync(p, byte, bytes, static_cast<cudaStream_t>(stream_)), "cudaMemsetAsync");
  }
  // A copy of a few bytes on the host, for which the call waits.
  void bring(void* to, const void* from, size_t bytes) const {
    const pinned_bytes pinned;
    void* const there = pinned.at() && bytes <= pinned.room ? pinned.at() : to;
    check(cudaMemcpyAsync(there, from, bytes, cudaMemcpyDefault, static_cast<cudaStream_t>(stream_)),
          "cudaMemcpyAsync");
    wait();
    if (there != to) std::memcpy(to, there, bytes);
  }
  void wait() const { check(cudaStreamSynchronize(static_cast<cudaStream_t>(stream_)), "cudaStreamSynchronize"); }
  // A graph cannot wait for the host.
  void refuse_captured(const char* asked) const {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    cudaGraph_t into = nullptr;
    if (cudaStreamGetCaptureInfo(static_cast<cudaStream_t>(stream_), &status, nullptr, &into))
      cudaGetLastError();  // another capture forbids the question, and the kernels: they say so
    if (status == cudaStreamCaptureStatusActive) throw captured{asked};
  }
  // Blocks for so many pieces of work, at most so many for each multiprocessor.
  unsigned blocks(uint64_t pieces, unsigned per_processor) const {
    const uint64_t most = uint64_t(processors_) * per_processor;
    return unsigned(pieces < most ? pieces : most);
  }

 private:
  static void check_room(size_t shared) {
    if (shared > most_shared) throw cuda_failure{cudaErrorInvalidValue, "the launch of a kernel"};
  }

  void* const stream_;
  const unsigned processors_;
};

// Runs a function that queues the kernels of a call on a device, and says in a sentence what has failed.
template <class Body>
gpuhash_status on_device(int ordinal, gpuhash_error* err, Body body) {
  int before = 0;
  try {
    check(cudaGetDevice(&before), "cudaGetDevice");
    check(cudaSetDevice(ordinal), "cudaSetDevice");
    struct back {
      int device;
      ~back() { cudaSetDevice(device); }
    } const afterwards{before};
    if (const size_t shared = block_bytes_at_most(); shared < most_shared)
      return fail(
          err, GPUHASH_UNSUPPORTED,
          "cuda:%d has %zu bytes of shared memory for a block, and verbs on columns take up to %zu: use a table",
          ordinal, shared, most_shared);
    body();
    return GPUHASH_OK;
  } catch (const captured& by) {
    return fail(err, GPUHASH_INVALID_ARGUMENT,
                "request.%s is given, and the stream is being captured into a graph: leave it out, or call outside of "
                "the capture",
                by.asked);
  } catch (const cuda_failure& failure) {
    return fail(err, GPUHASH_DEVICE_ERROR, "%s failed on cuda:%d: %s (%s)", failure.call, ordinal,
                cudaGetErrorString(failure.code), cudaGetErrorName(failure.code));
  }
}

}  // namespace gpuhash::columns
