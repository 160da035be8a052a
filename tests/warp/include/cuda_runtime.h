// The names of the CUDA runtime that kit/cuda_device.cuh uses, over host memory (tests/warp/emulator.hpp). Streams are in
// order, and everything has happened when a call returns, but for copies: those are made when the stream is asked for
// something else, so that nobody sees what it has not waited for.
#pragma once
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <set>
#include <vector>

#define CUDART_VERSION 13000

enum cudaError_t {
  cudaSuccess,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInsufficientDriver = 35,
  cudaErrorInvalidDevice = 101,
  cudaErrorLaunchFailure = 719,
  cudaErrorStreamCaptureUnsupported = 900,
  cudaErrorStreamCaptureInvalidated = 901,
  cudaErrorStreamCaptureWrongThread = 908
};
using cudaStream_t = struct CUstream_st*;
using cudaEvent_t = struct CUevent_st*;
enum {
  cudaMemcpyDefault = 4,
  cudaEventDisableTiming = 2,
  cudaStreamNonBlocking = 1,
  cudaEventWaitExternal = 1,
  cudaUserObjectNoDestructorSync = 1,
  cudaGraphUserObjectMove = 1,
  cudaDevAttrComputeCapabilityMajor = 75
};
enum cudaStreamCaptureMode {
  cudaStreamCaptureModeGlobal,
  cudaStreamCaptureModeThreadLocal,
  cudaStreamCaptureModeRelaxed
};
enum cudaStreamCaptureStatus {
  cudaStreamCaptureStatusNone,
  cudaStreamCaptureStatusActive,
  cudaStreamCaptureStatusInvalidated
};
using cudaGraph_t = struct CUgraph_st*;
using cudaUserObject_t = struct CUuserObject_st*;
struct cudaDeviceProp {
  int major, minor;
  size_t totalGlobalMem = size_t(1) << 30;
};
using cudaMemPool_t = struct CUmemPoolHandle_st*;
enum { cudaMemAllocationTypePinned = 1, cudaMemLocationTypeDevice = 1, cudaMemPoolAttrReleaseThreshold = 4 };
struct cudaMemPoolProps {
  int allocType;
  struct {
    int type, id;
  } location;
};

inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline const char* cudaGetErrorString(cudaError_t) { return "an error"; }
inline const char* cudaGetErrorName(cudaError_t) { return "cudaErrorOfThisTest"; }
inline cudaError_t cudaGetDeviceCount(int* n) { return *n = 1, cudaSuccess; }
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int) { return *p = {9, 0}, cudaSuccess; }
inline cudaError_t cudaDeviceGetAttribute(int* v, int, int) { return *v = 9, cudaSuccess; }
inline cudaError_t cudaGetDevice(int* d) { return *d = 0, cudaSuccess; }
inline cudaError_t cudaSetDevice(int) { return cudaSuccess; }
// Set by tests: is every stream being captured?
inline bool capturing = false;
inline cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode*) { return cudaSuccess; }
inline cudaError_t cudaStreamGetCaptureInfo(cudaStream_t, cudaStreamCaptureStatus* s, unsigned long long*,
                                            cudaGraph_t*) {
  return *s = capturing ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone, cudaSuccess;
}
inline cudaError_t cudaUserObjectCreate(cudaUserObject_t*, void*, void (*)(void*), unsigned, unsigned) {
  return cudaErrorInvalidValue;
}
inline cudaError_t cudaGraphRetainUserObject(cudaGraph_t, cudaUserObject_t, unsigned, unsigned) {
  return cudaErrorInvalidValue;
}
// Set by tests: is there no memory? The how-manieth call from now on fails, be it a launch or another one; 0: none.
inline bool memory_is_out = false;
inline int failing_call = 0;
inline bool allocations_fail = true;  // are they among these calls?
inline std::set<void*> allocations;   // that were not given back

struct copy_to_come {
  void* to;
  const void* from;
  size_t bytes;
};
inline std::vector<copy_to_come> copies;
inline bool call_fails() {
  if (!failing_call || --failing_call) return false;
  return copies.clear(), true;  // nothing happens any more
}
inline void make_copies() {
  for (const copy_to_come& one : copies) memcpy(one.to, one.from, one.bytes);
  copies.clear();
}
inline cudaError_t cudaMemPoolCreate(cudaMemPool_t*, const cudaMemPoolProps*) { return cudaErrorInvalidValue; }
inline cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, int, void*) { return cudaErrorInvalidValue; }
inline cudaError_t cudaMemPoolDestroy(cudaMemPool_t) { return cudaSuccess; }
inline cudaError_t cudaMallocFromPoolAsync(void**, size_t, cudaMemPool_t, cudaStream_t) {
  return cudaErrorInvalidValue;
}
inline cudaError_t cudaMallocAsync(void** p, size_t n, cudaStream_t) {
  if (memory_is_out || (allocations_fail && call_fails())) return cudaErrorMemoryAllocation;
  *p = aligned_alloc(256, (n + 255) / 256 * 256);
  allocations.insert(*p);
  return *p ? cudaSuccess : cudaErrorMemoryAllocation;
}
enum { cudaHostAllocPortable = 1, cudaHostAllocMapped = 2 };
inline cudaError_t cudaHostAlloc(void** p, size_t n, unsigned) { return cudaMallocAsync(p, n, nullptr); }
inline cudaError_t cudaFreeAsync(void* p, cudaStream_t) {
  make_copies();
  if (p && !allocations.erase(p)) abort();
  return free(p), cudaSuccess;
}
enum cudaMemoryType { cudaMemoryTypeUnregistered, cudaMemoryTypeHost };
struct cudaPointerAttributes {
  cudaMemoryType type;
};
inline cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* found, const void* p) {
  found->type = allocations.count(const_cast<void*>(p)) ? cudaMemoryTypeHost : cudaMemoryTypeUnregistered;
  return cudaSuccess;
}
inline cudaError_t cudaFreeHost(void* p) { return cudaFreeAsync(p, nullptr); }
inline cudaError_t cudaMemsetAsync(void* p, int byte, size_t n, cudaStream_t) {
  if (call_fails()) return cudaErrorLaunchFailure;
  make_copies();
  return memset(p, byte, n), cudaSuccess;
}
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t n, int, cudaStream_t) {
  if (call_fails()) return cudaErrorLaunchFailure;
  copies.push_back({to, from, n});
  return cudaSuccess;
}
inline cudaError_t cudaStreamGetId(cudaStream_t, unsigned long long* id) { return *id = 1, cudaSuccess; }
inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* s, unsigned) { return *s = nullptr, cudaSuccess; }
inline cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaStreamSynchronize(cudaStream_t) {
  if (call_fails()) return cudaErrorLaunchFailure;
  return make_copies(), cudaSuccess;
}
inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* e, unsigned) { return *e = nullptr, cudaSuccess; }
inline cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }
inline cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaEventQuery(cudaEvent_t) { return cudaSuccess; }
inline cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, int) { return cudaSuccess; }
