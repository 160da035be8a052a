// device_api over the CUDA runtime. Memory comes from a stream-ordered pool for each device, of the module's own. It keeps a
// little of what is given back: the default pool gives all of it to the system at the next wait, and getting a gigabyte
// anew takes about as long as dividing a batch that needs it.
#pragma once
#include <cuda_runtime.h>
#include <stdio.h>

#include <atomic>
#include <mutex>
#include <new>
#include <vector>

#include "libgpuhash/kit/adding.hpp"
#include "libgpuhash/kit/device.hpp"
#include "libgpuhash/kit/sketch.hpp"
#include "libgpuhash/tile/cuda.cuh"
#if !defined(GPUHASH_EMULATED_WARP)
#include "libgpuhash/kit/cuda_space.cuh"
#endif

namespace gpuhash {
namespace cuda_detail {

inline int probe(int ordinal, char* why, size_t size) {
  int n = 0;
  const cudaError_t e = cudaGetDeviceCount(&n);
  if (e == cudaErrorInsufficientDriver)
    return snprintf(
               why, size,
               "the CUDA driver here is for an older CUDA than %d.%d, with which this backend was built: update the "
               "driver, or build the backend with the driver's CUDA",
               CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10),
           cudaGetLastError(), int(e);
  if (e != cudaSuccess)
    return snprintf(why, size, "no CUDA device: %s", cudaGetErrorString(e)), cudaGetLastError(), int(e);
  if (ordinal < 0 || ordinal >= n)
    return snprintf(why, size, "cuda:%d does not exist: %d found", ordinal, n), int(cudaErrorInvalidDevice);
  cudaDeviceProp p;
  if (cudaGetDeviceProperties(&p, ordinal) != cudaSuccess)
    return snprintf(why, size, "cuda:%d does not answer", ordinal), cudaGetLastError(), int(cudaErrorInvalidDevice);
  if (p.major < 7 || (p.major == 7 && p.minor < 5))
    return snprintf(why, size, "cuda:%d has compute capability %d.%d; 7.5 is needed", ordinal, p.major, p.minor),
           int(cudaErrorInvalidDevice);
  return 0;
}
// What every small call asks, asked of the driver, which answers 15 to 40 ns sooner than the runtime. Where it has no answer
// (no context is current yet, or the function is missing) the runtime is asked.
#if defined(GPUHASH_EMULATED_WARP)
inline bool device_is_current(int) { return false; }
inline bool driver_stream_id(void*, uint64_t*) { return false; }
inline bool is_outside_captures(void*) { return false; }
inline bool exchange_mode(cudaStreamCaptureMode*) { return false; }
inline bool driver_record(void*, void*) { return false; }
#else
struct quick_functions {
  decltype(&cuCtxGetDevice) device = nullptr;
  decltype(&cuThreadExchangeStreamCaptureMode) exchange = nullptr;
  decltype(&cuStreamGetId) stream_id = nullptr;
  decltype(&cuStreamIsCapturing) capturing = nullptr;
  decltype(&cuEventRecord) record = nullptr;

  quick_functions() {
    find_driver_function("cuCtxGetDevice", 2000, &device);
    find_driver_function("cuThreadExchangeStreamCaptureMode", 10010, &exchange);
    find_driver_function("cuStreamGetId", 12000, &stream_id);
    find_driver_function("cuStreamIsCapturing", 10000, &capturing);
    find_driver_function("cuEventRecord", 2000, &record);
  }
};
inline const quick_functions& quick() {
  static const quick_functions all;
  return all;
}
inline bool device_is_current(int ordinal) {
  CUdevice there = -1;
  return quick().device && quick().device(&there) == CUDA_SUCCESS && there == ordinal;
}
inline bool driver_stream_id(void* s, uint64_t* id) {
  unsigned long long n = 0;
  const bool said = quick().stream_id && quick().stream_id(CUstream(s), &n) == CUDA_SUCCESS;
  if (said) *id = n;
  return said;
}
inline bool is_outside_captures(void* s) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  return quick().capturing && quick().capturing(CUstream(s), &status) == CUDA_SUCCESS &&
         status == CU_STREAM_CAPTURE_STATUS_NONE;
}
inline bool exchange_mode(cudaStreamCaptureMode* mode) {
  auto m = CUstreamCaptureMode(*mode);  // of the same numbers
  if (!quick().exchange || quick().exchange(&m) != CUDA_SUCCESS) return false;
  *mode = cudaStreamCaptureMode(m);
  return true;
}
inline bool driver_record(void* e, void* s) {
  return quick().record && quick().record(CUevent(e), CUstream(s)) == CUDA_SUCCESS;
}
#endif

// What was before: the device, and how captures restrict the thread.
inline constexpr int capture_modes = 4;
inline int enter(int ordinal, int* before) {
  int device = ordinal;
  if (!device_is_current(ordinal))
    if (const cudaError_t e = cudaGetDevice(&device)) return int(e);
  if (device != ordinal)
    if (const cudaError_t e = cudaSetDevice(ordinal)) return int(e);
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  if (exchange_mode(&mode)) return *before = (device * 2 + (device != ordinal)) * capture_modes + int(mode), 0;
  if (const cudaError_t e = cudaThreadExchangeStreamCaptureMode(&mode)) {
    if (device != ordinal) cudaSetDevice(device);
    return int(e);
  }
  *before = (device * 2 + (device != ordinal)) * capture_modes + int(mode);
  return 0;
}
inline void leave(int before) {
  auto mode = cudaStreamCaptureMode(before % capture_modes);
  if (!exchange_mode(&mode)) cudaThreadExchangeStreamCaptureMode(&mode);
  const int device = before / capture_modes;
  if (device % 2) cudaSetDevice(device / 2);
}
inline constexpr int pools_at_most = 64;  // a device beyond them uses its default pool
inline std::atomic<cudaMemPool_t> pools[pools_at_most];
// The current device's pool, made on first use and never given back. NULL: its default one.
inline cudaMemPool_t pool_here() {
  int device = 0;
  if (cudaGetDevice(&device) || device >= pools_at_most) return nullptr;
  if (cudaMemPool_t there = pools[device].load(std::memory_order_acquire)) return there;
  cudaMemPoolProps of{};
  of.allocType = cudaMemAllocationTypePinned;  // the only type
  of.location.type = cudaMemLocationTypeDevice;
  of.location.id = device;
  cudaMemPool_t fresh = nullptr, before = nullptr;
  cudaDeviceProp device_has;
  if (cudaGetDeviceProperties(&device_has, device) || cudaMemPoolCreate(&fresh, &of)) {
    cudaGetLastError();
    return nullptr;
  }
  uint64_t kept = device_has.totalGlobalMem / share_kept;
  cudaMemPoolSetAttribute(fresh, cudaMemPoolAttrReleaseThreshold, &kept);
  if (pools[device].compare_exchange_strong(before, fresh, std::memory_order_acq_rel)) return fresh;
  cudaMemPoolDestroy(fresh);  // another thread was faster
  return before;
}
inline int allocate(void** p, size_t bytes, void* s) {
  cudaMemPool_t const pool = pool_here();
  const cudaError_t e =
      pool ? cudaMallocFromPoolAsync(p, bytes, pool, cudaStream_t(s)) : cudaMallocAsync(p, bytes, cudaStream_t(s));
  if (e != cudaSuccess) cudaGetLastError();
  return int(e);
}
inline int release(void* p, void* s) { return int(cudaFreeAsync(p, cudaStream_t(s))); }
inline int fill(void* p, int byte, size_t bytes, void* s) {
  return int(cudaMemsetAsync(p, byte, bytes, cudaStream_t(s)));
}
inline int copy(void* to, const void* from, size_t bytes, void* s) {
  return int(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, cudaStream_t(s)));
}
inline constexpr unsigned counting_threads = 256, counted_by_thread = 16, counting_blocks_most = 1024;
inline constexpr unsigned ranking_blocks_most = 512, ranked_at_once = 4;
static __global__ void __launch_bounds__(counting_threads)
    count_adding_codes(const uint8_t* ops, const uint8_t* there, size_t n, size_t stride, uint64_t* sum) {
  uint32_t mine = 0;
  for (size_t i = blockIdx.x * size_t(counting_threads) + threadIdx.x; i < n; i += stride)
    mine += takes_room_in_mix(ops[i], there ? there[i] : 0);
  const uint32_t all = warp_sum(mine);
  if (threadIdx.x % 32 == 0 && all) atomicAdd(reinterpret_cast<u64*>(sum), u64(all));
}
inline int count_adding(const uint8_t* ops, const uint8_t* there, size_t n, uint64_t* sum, void* s) {
  const size_t wanted = (n + counting_threads * counted_by_thread - 1) / (counting_threads * counted_by_thread);
  const size_t blocks = wanted < counting_blocks_most ? wanted : counting_blocks_most;
  const size_t stride = size_t(counting_threads) * blocks;
  return launch(count_adding_codes, blocks, counting_threads, s, ops, there, n, stride, sum);
}
template <class Key>
__global__ void __launch_bounds__(counting_threads)
    copy_picked(const Key* keys, const uint8_t* ops, size_t n, Key* to, size_t many) {
  const size_t i = blockIdx.x * size_t(counting_threads) + threadIdx.x;
  if (i < many) to[i] = keys[picked_from(i, n, many, ops)];
}
inline int pick_keys(const void* keys, const uint8_t* ops, size_t n, uint32_t key_bytes, void* to, size_t many,
                     void* s) {
  const size_t blocks = (many + counting_threads - 1) / counting_threads;
  if (key_bytes == 8)
    return launch(copy_picked<u64>, blocks, counting_threads, s, static_cast<const u64*>(keys), ops, n,
                  static_cast<u64*>(to), many);
  return launch(copy_picked<u32>, blocks, counting_threads, s, static_cast<const u32*>(keys), ops, n,
                static_cast<u32*>(to), many);
}
// Each block has ranks of its own, of which only few rise once it has seen some keys.
struct block_sketch {
  u32 ranks[ranks_of_sketch];
};
template <class Key>
__global__ void __launch_bounds__(counting_threads)
    rank_keys(const Key* keys, const uint8_t* ops, size_t n, size_t stride, u32* ranks) {
  GH_BLOCK_MEMORY(block_sketch, mine);
  for (u32 i = threadIdx.x; i < ranks_of_sketch; i += counting_threads) mine.ranks[i] = 0;
  __syncthreads();
  for (size_t i = blockIdx.x * size_t(counting_threads) + threadIdx.x; i < n; i += ranked_at_once * stride) {
    Key some[ranked_at_once];
    bool adds[ranked_at_once];
    for (u32 j = 0; j < ranked_at_once; ++j) {
      const size_t at = i + j * stride < n ? i + j * stride : i;
      some[j] = keys[at];
      adds[j] = !ops || adds_in_mix(ops[at]);
    }
    for (u32 j = 0; j < ranked_at_once; ++j) {
      const sketched_key k = sketch_of(some[j]);
      if (adds[j] && mine.ranks[k.place] < k.rank) atomicMax(mine.ranks + k.place, k.rank);
    }
  }
  __syncthreads();
  for (u32 i = threadIdx.x; i < ranks_of_sketch; i += counting_threads)
    if (mine.ranks[i]) atomicMax(ranks + i, mine.ranks[i]);
}
inline int sketch_keys(const void* keys, const uint8_t* ops, size_t n, uint32_t key_bytes, uint32_t* ranks, void* s) {
  const size_t wanted = (n + counting_threads * counted_by_thread - 1) / (counting_threads * counted_by_thread);
  const size_t blocks = wanted < ranking_blocks_most ? wanted : ranking_blocks_most;
  if (key_bytes == 8)
    return launch(rank_keys<u64>, blocks, counting_threads, s, static_cast<const u64*>(keys), ops, n,
                  blocks * counting_threads, ranks);
  return launch(rank_keys<u32>, blocks, counting_threads, s, static_cast<const u32*>(keys), ops, n,
                blocks * counting_threads, ranks);
}
inline int wait(void* s) { return int(cudaStreamSynchronize(cudaStream_t(s))); }
inline int make_event(void** e) {
  return int(cudaEventCreateWithFlags(reinterpret_cast<cudaEvent_t*>(e), cudaEventDisableTiming));
}
inline void drop_event(void* e) { cudaEventDestroy(cudaEvent_t(e)); }
inline int record(void* e, void* s) {
  return driver_record(e, s) ? 0 : int(cudaEventRecord(cudaEvent_t(e), cudaStream_t(s)));
}
inline bool finished(void* e) { return cudaEventQuery(cudaEvent_t(e)) == cudaSuccess; }
inline int follow(void* s, void* e) { return int(cudaStreamWaitEvent(cudaStream_t(s), cudaEvent_t(e), 0)); }
inline int stream_id(void* s, uint64_t* id) {
  if (driver_stream_id(s, id)) return 0;
  unsigned long long n = 0;
  const cudaError_t e = cudaStreamGetId(cudaStream_t(s), &n);
  *id = n;
  return int(e);
}
// Idle streams. A stream takes half a MiB of the device, which the driver keeps when the stream is destroyed: as many are made
// as are in use at a time, and none is destroyed.
struct idle_streams {
  struct idle {
    int ordinal;
    cudaStream_t stream;
  };
  std::mutex mutex;
  std::vector<idle> all;
};
inline idle_streams& idle_here() {
  static auto* const here = new idle_streams;  // tables may be destroyed after static objects
  return *here;
}
inline int borrow_stream(int ordinal, void** s) {
  idle_streams& idle = idle_here();
  {
    const std::lock_guard<std::mutex> lock(idle.mutex);
    for (size_t i = idle.all.size(); i-- > 0;)
      if (idle.all[i].ordinal == ordinal) {
        *s = idle.all[i].stream;
        idle.all.erase(idle.all.begin() + ptrdiff_t(i));
        return 0;
      }
  }
  int device = ordinal;
  if (const cudaError_t e = cudaGetDevice(&device)) return int(e);
  if (device != ordinal) return int(cudaErrorInvalidDevice);  // a stream is made on the current one
  return int(cudaStreamCreateWithFlags(reinterpret_cast<cudaStream_t*>(s), cudaStreamNonBlocking));
}
inline void return_stream(int ordinal, void* s) {
  idle_streams& idle = idle_here();
  try {
    const std::lock_guard<std::mutex> lock(idle.mutex);
    idle.all.push_back({ordinal, cudaStream_t(s)});
  } catch (const std::bad_alloc&) {
    cudaStreamDestroy(cudaStream_t(s));
  }
}
inline int captured_by(void* s, void** graph, const char** forbids) {
  if (is_outside_captures(s)) return *graph = nullptr, *forbids = nullptr, 0;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cudaGraph_t into = nullptr;
  // CUDA 12 and 13 differ in the parameters that follow, all of which may be left out.
  const cudaError_t e = cudaStreamGetCaptureInfo(cudaStream_t(s), &status, nullptr, &into);
  *graph = status == cudaStreamCaptureStatusActive ? into : nullptr;
  const bool of_captures = e >= cudaErrorStreamCaptureUnsupported && e <= cudaErrorStreamCaptureWrongThread;
  if (of_captures) cudaGetLastError();
  *forbids = of_captures                                    ? cudaGetErrorString(e)
             : status == cudaStreamCaptureStatusInvalidated ? cudaGetErrorString(cudaErrorStreamCaptureInvalidated)
                                                            : nullptr;
  return of_captures ? 0 : int(e);
}
inline int keep_while(void* graph, void (*gone)(void*), void* note) {
  cudaUserObject_t object = nullptr;
  if (const cudaError_t e = cudaUserObjectCreate(&object, note, gone, 1, cudaUserObjectNoDestructorSync)) return int(e);
  // A graph that does not take it leaves it to us; letting it go would call gone, which the caller does.
  return int(cudaGraphRetainUserObject(cudaGraph_t(graph), object, 1, cudaGraphUserObjectMove));
}
inline int follow_in_graph(void* s, void* e) {
  return int(cudaStreamWaitEvent(cudaStream_t(s), cudaEvent_t(e), cudaEventWaitExternal));
}
inline int allocate_pinned(void** p, size_t bytes) {
  const cudaError_t e = cudaHostAlloc(p, bytes, cudaHostAllocMapped | cudaHostAllocPortable);
  if (e != cudaSuccess) cudaGetLastError();
  return int(e);
}
inline int release_pinned(void* p) { return int(cudaFreeHost(p)); }
inline bool has_wide_cas(int ordinal) {
  int major = 0;
  return cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, ordinal) == cudaSuccess && major >= 9;
}
inline const char* error_text(int e) { return cudaGetErrorString(cudaError_t(e)); }

}  // namespace cuda_detail

inline constexpr device_api cuda_device = {
    .probe = cuda_detail::probe,
    .enter = cuda_detail::enter,
    .leave = cuda_detail::leave,
    .allocate = cuda_detail::allocate,
    .release = cuda_detail::release,
    .fill = cuda_detail::fill,
    .copy = cuda_detail::copy,
    .wait = cuda_detail::wait,
    .count_adding = cuda_detail::count_adding,
    .pick_keys = cuda_detail::pick_keys,
    .sketch_keys = cuda_detail::sketch_keys,
    .make_event = cuda_detail::make_event,
    .drop_event = cuda_detail::drop_event,
    .record = cuda_detail::record,
    .finished = cuda_detail::finished,
    .follow = cuda_detail::follow,
    .error_text = cuda_detail::error_text,
    .has_wide_cas = cuda_detail::has_wide_cas,
    .out_of_memory = int(cudaErrorMemoryAllocation),
    .stream_id = cuda_detail::stream_id,
    .borrow_stream = cuda_detail::borrow_stream,
    .return_stream = cuda_detail::return_stream,
    .captured_by = cuda_detail::captured_by,
    .keep_while = cuda_detail::keep_while,
    .follow_in_graph = cuda_detail::follow_in_graph,
    .allocate_pinned = cuda_detail::allocate_pinned,
    .release_pinned = cuda_detail::release_pinned,
#if !defined(GPUHASH_EMULATED_WARP)
    .reserve_space = cuda_detail::reserve_space,
    .release_space = cuda_detail::release_space,
    .map_memory = cuda_detail::map_memory,
    .unmap_memory = cuda_detail::unmap_memory,
#endif
};

}  // namespace gpuhash
