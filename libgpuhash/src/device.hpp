// Devices, and where a pointer lives. The CUDA driver is opened at run time, so the library loads and works without it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "libgpuhash/src/error.hpp"

namespace gpuhash {

/// Refuse a device that does not exist. Kind 0 becomes the CPU.
gpuhash_status resolve_device(gpuhash_device& device, gpuhash_error* err);

/// "cpu" or "cuda:N", for messages.
struct device_name {
  char text[24];
  explicit device_name(gpuhash_device device);
};

/// Who can reach a pointer. Pinned and managed memory is reachable from both sides.
struct reach {
  bool cpu;
  int32_t cuda;  ///< ordinal, -1: no CUDA device, any_cuda: all
};
constexpr int32_t any_cuda = -2;

/// Asks the driver. Without one (see known_driver()) every pointer is the CPU's.
reach reach_of(const void* p);

/// reach_of(p).cpu, from a small memory of each thread for pages that it has asked about. A call with few keys passes the
/// same arrays again and again, and the driver takes longer to answer than such a call takes. An entry can outlive its
/// page's host memory; a device pointer there is then not refused, as it would not be without a driver.
bool cpu_reaches(const void* p);

}  // namespace gpuhash
