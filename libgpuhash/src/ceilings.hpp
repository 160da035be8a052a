// Ceilings: what a machine can do at best when it touches memory as a hash table does, and nothing else.
//
// A pass makes n independent accesses. Access i reads a 32-bit random number from an array, as a table reads its batch
// of keys, maps it to a row of the memory under test with one multiplication, and
//   gather<B>  reads the B bytes of that row and writes 4 bytes that depend on all of them, as a find does;
//   cas64      compares-and-swaps one 64-bit word, as an insert does; all succeed, but those on a word that an earlier
//              access of the same pass has changed;
//   copy       streams n bytes from the first half of the memory to the second;
//   launch     launches a kernel that does nothing: what the host needs for a call on a CUDA device, at least.
// There is no hash, no compare and no probe, so a table can only be slower: unless it partitions its batch first.
#pragma once

#include "gpuhash/gpuhash.h"
#include "libgpuhash/hash/hash.hpp"

namespace gpuhash {

enum class access { gather, cas, copy, launch };

struct ceiling_request {
  access what;
  size_t row_bytes;  // of a gather: 8, 16, 32, 64, 128; of a cas: 8; of the others: 1
  uint64_t table_bytes;
  size_t n;
  size_t repeats;
  uint32_t threads;  // CPU only, never 0
  double* seconds;
};

/// ceilings.cu. The device exists. Weak: its address is NULL in a library built without CUDA.
[[gnu::weak]] gpuhash_status measure_cuda_ceiling(int ordinal, const ceiling_request& request, gpuhash_error* err);

/// Maps a 32-bit random number to a row. Where there are 2^32 rows and more, only every 2^k-th is visited: the places
/// stay random and spread over all of the memory.
struct spread {
  uint32_t rows;    // that are visited
  uint32_t stride;  // 8-byte words from one to the next
};

inline spread spread_over(uint64_t bytes, size_t row_bytes) {
  uint64_t rows = bytes / row_bytes, stride = row_bytes / sizeof(uint64_t);
  for (; rows > UINT32_MAX; rows /= 2) stride *= 2;
  return {uint32_t(rows), uint32_t(stride)};
}

}  // namespace gpuhash

GH_BEGIN

/// The first word of the row that belongs to this number.
GH_FN u64 place_of(spread s, u32 number) { return (u64(number) * s.rows >> 32) * s.stride; }

/// The random number of access i: all different for the first 2^32.
GH_FN u32 random_number(u64 i) { return mix(u32(i) * 0x9e3779b9u + 1u); }

GH_END
