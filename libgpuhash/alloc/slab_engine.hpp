// The functions by which the allocator's host code (kit/slab_heap_owner.hpp) calls its kernels. heap is a slab_heap.
#pragma once
#include <stddef.h>
#include <stdint.h>

namespace gpuhash {

struct slab_engine {
  // n handles into units; *missing counts those that could not be had (device memory on CUDA).
  int (*allocate)(const void* heap, size_t n, uint32_t* units, uint64_t hint, uint64_t* missing, uint32_t threads,
                  void* stream);
  // Gives n units back, and wipes them if wipe; no allocation may run at the same time. status[i] (may be NULL): 1 freed, 0 refused. *refused counts, and
  // *first is the lowest index refused (set to ~0 by the caller).
  int (*release)(const void* heap, size_t n, const uint32_t* units, uint8_t* status, uint32_t wipe, uint64_t* refused,
                 uint64_t* first, uint32_t threads, void* stream);
  int (*translate)(const void* heap, size_t n, const uint32_t* units, void** addresses, uint32_t threads, void* stream);
};

}  // namespace gpuhash
