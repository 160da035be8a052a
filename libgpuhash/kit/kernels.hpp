// How a structure's files of kernels end: an engine for every slot format, and the functions by which plugin.cpp finds
// them (GPUHASH_HOST_ENGINES, GPUHASH_CUDA_ENGINES of kit/plugin.hpp).
#pragma once
#include "libgpuhash/kit/engine.hpp"
#include "libgpuhash/tile/types.hpp"

// What one<F>() makes for each format, in the order of format_id.
#if defined(GPUHASH_PAIR32_ONLY)  // a module that is compiled for a benchmark of tables of pairs of 4 and 4 bytes
#define GPUHASH_OF_FORMATS(one) \
  {                             \
    {}, one<pair32>(), {}, {}   \
  }
#else
#define GPUHASH_OF_FORMATS(one) {one<set32>(), one<pair32>(), one<set64>(), one<pair64>()}
#endif

// plugin_host.cpp: the array `engines` of namespace gpuhash is the structure's. It has to be constinit: an initialiser
// would run when the module is loaded, on processors that cannot run this file's code, too.
#define GPUHASH_HOST_KERNELS(name) \
  extern "C" const gpuhash::engine* GH_PASTE(gpuhash_##name##_engines_, GPUHASH_ISA)() { return gpuhash::engines; }

// plugin_cuda.cu.
#define GPUHASH_CUDA_KERNELS(name)                                                               \
  extern "C" const gpuhash::engine* gpuhash_##name##_engines_cuda() { return gpuhash::engines; } \
  extern "C" const gpuhash::device_api* gpuhash_##name##_device_cuda() { return &gpuhash::cuda_device; }
