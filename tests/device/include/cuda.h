// The names of the CUDA driver that kit/cuda_space.cuh and kit/cuda_device.cuh use: see cuda_runtime.h beside it.
#pragma once
#include <stddef.h>

using CUresult = int;
using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUmemGenericAllocationHandle = unsigned long long;
using CUstream = struct CUstream_st*;
using CUevent = struct CUevent_st*;
enum {
  CUDA_SUCCESS = 0,
  CU_MEM_ALLOCATION_TYPE_PINNED = 1,
  CU_MEM_LOCATION_TYPE_DEVICE = 1,
  CU_MEM_ALLOC_GRANULARITY_RECOMMENDED = 1,
  CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3,
  CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 102
};
enum CUstreamCaptureMode {
  CU_STREAM_CAPTURE_MODE_GLOBAL,
  CU_STREAM_CAPTURE_MODE_LOCAL,
  CU_STREAM_CAPTURE_MODE_RELAXED
};
enum CUstreamCaptureStatus { CU_STREAM_CAPTURE_STATUS_NONE, CU_STREAM_CAPTURE_STATUS_ACTIVE };
struct CUmemLocation {
  int type, id;
};
struct CUmemAllocationProp {
  int type, requestedHandleTypes;
  CUmemLocation location;
};
struct CUmemAccessDesc {
  CUmemLocation location;
  int flags;
};

CUresult cuCtxGetDevice(CUdevice*);
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode*);
CUresult cuStreamGetId(CUstream, unsigned long long*);
CUresult cuStreamIsCapturing(CUstream, CUstreamCaptureStatus*);
CUresult cuEventRecord(CUevent, CUstream);
CUresult cuMemGetAllocationGranularity(size_t*, const CUmemAllocationProp*, int);
CUresult cuMemAddressReserve(CUdeviceptr*, size_t, size_t, CUdeviceptr, unsigned long long);
CUresult cuMemAddressFree(CUdeviceptr, size_t);
CUresult cuMemCreate(CUmemGenericAllocationHandle*, size_t, const CUmemAllocationProp*, unsigned long long);
CUresult cuMemRelease(CUmemGenericAllocationHandle);
CUresult cuMemMap(CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long);
CUresult cuMemUnmap(CUdeviceptr, size_t);
CUresult cuMemSetAccess(CUdeviceptr, size_t, const CUmemAccessDesc*, size_t);
CUresult cuDeviceGetAttribute(int*, int, CUdevice);
