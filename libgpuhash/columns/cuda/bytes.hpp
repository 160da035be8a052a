// Columns of bytes on a CUDA device: the functions of bytes.cu that the C functions call once they have checked their
// arguments, and the bytes of scratch memory that they need.
#pragma once

#include "gpuhash/columns.h"
#include "libgpuhash/columns/cuda/sizes.hpp"

namespace gpuhash::columns {

// Words of 8 bytes: rows of no more are a thread's, rows of more than the second a warp's, and longer ones all warps'.
constexpr uint32_t words_by_thread = tunable("cuda.bytes_by_thread", 8u);
constexpr uint32_t words_by_warp = tunable("cuda.bytes_by_warp", 8192u);

// Rows are added up strip by strip.
constexpr uint32_t most_strips = tunable("cuda.bytes_strips", 1024u);

// Facts of a call, its strips, and a list of rows.
constexpr size_t bytes_facts = 256;
inline constexpr size_t bytes_scratch(uint64_t rows) { return bytes_facts + 8 * most_strips + 4 * rows; }

struct bytes_call {
  int ordinal;
  void* stream;
  gpuhash_bytes_column one, other;
  void* scratch;
};

/// bytes.cu. Queued on the stream; those with a result on the host wait for it. Weak, as group_on_cuda.
[[gnu::weak]] gpuhash_status hash_bytes_on_cuda(const bytes_call& call, uint64_t seed, uint64_t* hashes,
                                                uint64_t* host_null, gpuhash_error* err);
[[gnu::weak]] gpuhash_status check_bytes_on_cuda(const bytes_call& call, const int64_t* codes, uint64_t groups,
                                                 int64_t* first, uint64_t* host_other, gpuhash_error* err);
[[gnu::weak]] gpuhash_status place_bytes_on_cuda(const bytes_call& call, const int64_t* rows, uint64_t n, void* offsets,
                                                 uint64_t* host_bytes, gpuhash_error* err);
[[gnu::weak]] gpuhash_status take_bytes_on_cuda(const bytes_call& call, const int64_t* rows, uint64_t n,
                                                const void* offsets, void* data, uint8_t* validity, gpuhash_error* err);
[[gnu::weak]] gpuhash_status keep_bytes_on_cuda(const bytes_call& call, int64_t* rows, uint64_t* host_rows,
                                                gpuhash_error* err);

}  // namespace gpuhash::columns
