// Joins of two columns on a CUDA device, as <gpuhash/columns.h> has them: what join.cu is asked for when all is checked.
#pragma once

#include "gpuhash/columns.h"
#include "libgpuhash/columns/cuda/plan.hpp"

namespace gpuhash::columns {

struct join_request {
  int ordinal;
  const void *left, *right;
  uint64_t n_left, n_right;
  uint32_t key_bytes;
  bool keep;
  uint64_t seed;
  int32_t* out_first;
  int64_t *out_left, *out_right;
  uint64_t* facts;
  void* scratch;
  void* stream;
};

// A join is a call for the first row of each key, of the right column with the left one behind it.
inline constexpr group_wants join_wants() {
  group_wants wants{true, false, true};
  wants.rows = true;
  return wants;
}

/// join.cu. Queues everything on the stream, and waits for nothing. Weak, as group_on_cuda.
[[gnu::weak]] gpuhash_status join_on_cuda(const join_request& request, gpuhash_error* err);

}  // namespace gpuhash::columns
