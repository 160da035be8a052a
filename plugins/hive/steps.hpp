// Linear hashing on CUDA: the plain structs and functions that hive's host code and its kernels share.
#pragma once
#include <stddef.h>
#include <stdint.h>

namespace gpuhash {

// What becomes of a number of segments, each by itself (segments.hpp says how).
struct segment_step {
  enum kind : uint32_t {
    split,   // segment s: its pairs whose hash has `bit` go to segment s + apart
    merge,   // the pairs of segment s + apart join those of segment s; or nothing changes if they do not fit
    repack,  // dead slots go; or nothing changes if the pairs find no places
  };
  kind what;
  uint64_t first, count;  // segments
  uint64_t apart = 0;
  uint64_t bit = 0;
};
struct segment_result {
  int64_t change = 0;  // of the slots used
  uint32_t done = 0;
};
// What became of the stash.
struct stash_result {
  int64_t change = 0;  // of the slots used
  uint64_t left = 0;   // pairs that found no place
  uint64_t dead = 0;   // slots of the old stash that are in use for nothing
};

// CUDA, with the table held exclusively; asynchronous. All memory is the device's. Returns 0 or a CUDA error code.
struct segment_engine {
  size_t (*work_bytes)(const void* table);  // memory for each segment of a step
  int (*step)(const void* table, const segment_step& s, void* work, segment_result* results, void* stream);
  // Pairs of the stash go home where that has a free slot. Adds to *result. Nothing happens where nothing was ever stashed.
  int (*drain)(const void* table, stash_result* result, void* stream);
  // Pairs of what was the stash, so many slots, enter that of the table, which is empty. Adds to *result.
  int (*restash)(const void* table, const void* old, uint64_t slots, stash_result* result, void* stream);
};

}  // namespace gpuhash
