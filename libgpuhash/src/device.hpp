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

}  // namespace gpuhash
