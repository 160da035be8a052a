// Functions that the programs of this directory share: calls that have to succeed, random numbers, memory that is
// counted.
#pragma once
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "gpuhash/gpuhash.h"

// The first thing that is wrong ends the program: what follows would only be noise.
[[noreturn]] __attribute__((format(printf, 1, 2))) inline void wrong(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fprintf(stderr, "wrong: ");
  vfprintf(stderr, format, arguments);
  fprintf(stderr, "\n");
  exit(1);
}

inline void must(gpuhash_status status, const gpuhash_error& err, const char* call) {
  if (status != GPUHASH_OK) wrong("%s: %s: %s", call, gpuhash_status_name(status), err.message);
}
#define MUST(call)                          \
  do {                                      \
    gpuhash_error err = GPUHASH_ERROR_INIT; \
    must(call, err, #call);                 \
  } while (0)

// splitmix64
struct random_numbers {
  uint64_t state;
  uint64_t next() {
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
  }
  uint64_t below(uint64_t n) { return next() % n; }
};

// A memory resource from the C heap, whose blocks AddressSanitizer guards.
struct counted_memory {
  std::atomic<size_t> blocks{0}, calls{0};
  std::atomic<long> fail_in{-1};  // this many calls from now one fails; below 0: none

  gpuhash_memory resource() { return {sizeof(gpuhash_memory), this, take, give}; }
  static void* take(void* self, size_t bytes, size_t alignment, void*) {
    auto& me = *static_cast<counted_memory*>(self);
    ++me.calls;
    if (me.fail_in >= 0 && me.fail_in-- == 0) return nullptr;
    ++me.blocks;
    return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  }
  static void give(void* self, void* p, size_t, size_t, void*) {
    --static_cast<counted_memory*>(self)->blocks;
    free(p);
  }
};

struct backend {
  std::string name;
  uint64_t traits;
};

inline backend open_module(const char* path) {
  gpuhash_backend_info info{};
  info.struct_size = sizeof(info);
  MUST(gpuhash_backend_open(path, &info, &err));
  return {info.name, info.traits};
}

template <class Work>
void in_threads(unsigned n, Work work) {
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < n; ++i) threads.emplace_back(work, i);
  for (std::thread& t : threads) t.join();
}
