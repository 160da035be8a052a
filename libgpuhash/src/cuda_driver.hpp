// The few functions of the CUDA driver API that the core needs, found through dlopen. Declared here rather than taken
// from cuda.h, so that a build without the CUDA toolkit still serves plugins that were built with it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpuhash/staging.h"

namespace gpuhash {

struct cuda_driver {
  using result = int;  // CUresult; 0 is success
  using device = int;  // CUdevice

  result (*init)(unsigned flags);
  result (*get_error_string)(result code, const char** text);
  result (*driver_version)(int* version);
  result (*device_count)(int* count);
  result (*device_get)(device* out, int ordinal);
  result (*device_name)(char* name, int length, device dev);
  result (*device_memory)(size_t* bytes, device dev);
  result (*device_attribute)(int* value, int attribute, device dev);
  result (*pointer_attributes)(unsigned n, int* attributes, void** values, unsigned long long pointer);
  gpuhash_staging_calls staging;  ///< without `run`

  /// What a code of the driver means.
  const char* text_of(result code) const;

  int count;         ///< devices; 0 when reason is set
  char reason[256];  ///< why there is none, "" otherwise

  // Values of cuda.h's enumerations. They are part of the driver's stable binary interface.
  static constexpr int attribute_multiprocessors = 16;
  static constexpr int attribute_compute_major = 75;
  static constexpr int attribute_compute_minor = 76;
  static constexpr int pointer_memory_type = 2;
  static constexpr int pointer_is_managed = 8;
  static constexpr int pointer_ordinal = 9;
  static constexpr unsigned memory_type_device = 2;
};

/// Opens and initialises the driver on the first call; the outcome is kept. Never fails: count and reason tell.
const cuda_driver& driver();

/// The driver if driver() or borrow_driver() has found one before, else NULL. Costs one or two loads.
const cuda_driver* known_driver();

/// known_driver(), or else the driver that another library has loaded into this process (a framework, before it handed us
/// an array). Loads and initialises nothing.
const cuda_driver* borrow_driver();

}  // namespace gpuhash
