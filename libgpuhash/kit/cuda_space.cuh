// Address space of a CUDA device (device.hpp), by the driver's functions for virtual memory. They are asked of the runtime, so
// that nothing is linked with the driver.
#pragma once
#include <cuda.h>
#include <cuda_runtime.h>
#include <stddef.h>

namespace gpuhash {
namespace cuda_detail {

// A function of the driver, as the given version of CUDA has it.
template <class Function>
bool find_driver_function(const char* name, unsigned version, Function* out) {
  void* p = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
  const cudaError_t e = cudaGetDriverEntryPointByVersion(name, &p, version, cudaEnableDefault, &found);
#else  // older toolkits have the functions of their own version only, which their cuda.h declares
  (void)version;
  const cudaError_t e = cudaGetDriverEntryPoint(name, &p, cudaEnableDefault, &found);
#endif
  if (e != cudaSuccess) cudaGetLastError();
  const bool there = e == cudaSuccess && found == cudaDriverEntryPointSuccess && p;
  *out = there ? reinterpret_cast<Function>(p) : nullptr;
  return there;
}

struct space_functions {
  decltype(&cuMemGetAllocationGranularity) unit = nullptr;
  decltype(&cuMemAddressReserve) reserve = nullptr;
  decltype(&cuMemAddressFree) free = nullptr;
  decltype(&cuMemCreate) create = nullptr;
  decltype(&cuMemRelease) release = nullptr;
  decltype(&cuMemMap) map = nullptr;
  decltype(&cuMemUnmap) unmap = nullptr;
  decltype(&cuMemSetAccess) allow = nullptr;
  decltype(&cuDeviceGetAttribute) attribute = nullptr;
  bool complete = false;

  space_functions() {
    complete = find("cuMemGetAllocationGranularity", &unit) && find("cuMemAddressReserve", &reserve) &&
               find("cuMemAddressFree", &free) && find("cuMemCreate", &create) && find("cuMemRelease", &release) &&
               find("cuMemMap", &map) && find("cuMemUnmap", &unmap) && find("cuMemSetAccess", &allow) &&
               find("cuDeviceGetAttribute", &attribute);
  }

 private:
  template <class Function>
  static bool find(const char* name, Function* out) {
    return find_driver_function(name, 10020, out);
  }
};
inline const space_functions& space() {
  static const space_functions all;
  return all;
}

// The driver's errors have the numbers of the runtime's.
inline int memory_here(CUmemAllocationProp* of) {
  int device = 0;
  if (const cudaError_t e = cudaGetDevice(&device)) return int(e);
  *of = {};
  of->type = CU_MEM_ALLOCATION_TYPE_PINNED;  // the only type
  of->location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  of->location.id = device;
  return 0;
}
inline int reserve_space(void** p, size_t* bytes, size_t* unit) {
  CUmemAllocationProp of;
  if (const int e = memory_here(&of)) return e;
  if (!space().complete) return int(cudaErrorNotSupported);
  int can = 0;
  const CUresult asked =
      space().attribute(&can, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, CUdevice(of.location.id));
  if (asked || !can) return int(cudaErrorNotSupported);
  if (const CUresult e = space().unit(unit, &of, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)) return int(e);
  *bytes = (*bytes + *unit - 1) / *unit * *unit;
  CUdeviceptr at = 0;
  if (const CUresult e = space().reserve(&at, *bytes, 0, 0, 0)) return int(e);
  *p = reinterpret_cast<void*>(at);
  return 0;
}
inline int release_space(void* p, size_t bytes) { return int(space().free(reinterpret_cast<CUdeviceptr>(p), bytes)); }
inline int map_memory(void* p, size_t bytes) {
  CUmemAllocationProp of;
  if (const int e = memory_here(&of)) return e;
  const auto at = reinterpret_cast<CUdeviceptr>(p);
  CUmemGenericAllocationHandle memory = 0;
  if (const CUresult e = space().create(&memory, bytes, &of, 0)) return int(e);
  CUresult e = space().map(at, bytes, 0, memory, 0);
  space().release(memory);  // it lives as long as it is mapped
  if (e) return int(e);
  CUmemAccessDesc access{};
  access.location = of.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  e = space().allow(at, bytes, &access, 1);
  if (e) space().unmap(at, bytes);
  return int(e);
}
inline int unmap_memory(void* p, size_t bytes) { return int(space().unmap(reinterpret_cast<CUdeviceptr>(p), bytes)); }

}  // namespace cuda_detail
}  // namespace gpuhash
