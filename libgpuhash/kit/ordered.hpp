// What an ordered structure's engines can do besides: neighbours, ranges, and building from sorted pairs.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "libgpuhash/kit/engine.hpp"

namespace gpuhash {

// Arrays of the table's device. counts and offsets are 8 bytes an element.
struct ordered_request {
  uint32_t which;  // neighbours: GPUHASH_AT_LEAST, ...
  size_t n;
  const void* low;   // keys of neighbours; of ranges NULL: from the first key on
  const void* high;  // of ranges: excluded; NULL: to the last key
  size_t most;       // pairs of a range; with offsets, of all of them
  void* out_keys;    // may be NULL
  void* out_values;  // may be NULL
  uint8_t* found;    // may be NULL
  uint64_t* counts;  // may be NULL
  const uint64_t*
      offsets;  // NULL: the pairs of range i begin at i * most; else at offsets[i], and end before offsets[i + 1]
  uint32_t key_bytes, value_bytes;
  uint32_t threads;
  uint32_t alone;  // CUDA: 1: no batch that writes runs at the same time
  void* stream;
};

// Every entry returns 0 or a CUDA error code; on CUDA the work is queued.
struct ordered_engine {
  int (*neighbors)(const void* table, const ordered_request& q);
  int (*ranges)(const void* table, const ordered_request& q);
  // Chunks of an empty table for n pairs whose keys ascend, `per` entries to a chunk.
  int (*build)(const void* table, size_t n, const void* keys, const void* values, uint32_t key_bytes,
               uint32_t value_bytes, uint32_t per, uint32_t threads, void* stream);
};

}  // namespace gpuhash
