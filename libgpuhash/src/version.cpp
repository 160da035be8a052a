// Version and build information.
#include "gpuhash/gpuhash.h"

// The build defines what it built the plugins for: GPUHASH_BUILD_ISAS and GPUHASH_BUILD_CUDA.
#if defined(__clang__)
#define GPUHASH_COMPILER "clang " __clang_version__
#else
#define GPUHASH_COMPILER "gcc " __VERSION__
#endif

extern "C" void gpuhash_version(uint32_t* major, uint32_t* minor, uint32_t* patch) {
  if (major != nullptr) *major = GPUHASH_VERSION_MAJOR;
  if (minor != nullptr) *minor = GPUHASH_VERSION_MINOR;
  if (patch != nullptr) *patch = GPUHASH_VERSION_PATCH;
}

extern "C" const char* gpuhash_build_info(void) {
  return GPUHASH_COMPILER "; instruction sets: " GPUHASH_BUILD_ISAS "; CUDA: " GPUHASH_BUILD_CUDA;
}
