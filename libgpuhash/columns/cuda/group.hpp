// Groups of a column on a CUDA device, as <gpuhash/columns.h> has them: the function of group.cu that the C function
// calls once it has checked its arguments.
#pragma once

#include "gpuhash/columns.h"
#include "libgpuhash/columns/cuda/plan.hpp"

namespace gpuhash::columns {

struct group_request {
  int ordinal;
  const void *keys, *values;
  uint64_t n;
  uint32_t key_bytes;
  group_wants wants;
  uint64_t seed;
  void* out_keys;
  int64_t *out_counts, *out_codes;
  void* out_sums;
  double* out_means;
  void *out_low, *out_high;
  uint64_t* groups;
  void* scratch;
  void* stream;
  uint64_t* host_groups;
  int64_t* out_first_rows;   // of groups
  void (*meanwhile)(void*);  // NULL, or called with `context` before the call waits
  void* context;
  // A second column behind the first one, for wants.rows.
  const void* more;
  uint64_t n_more;  // n is the sum of both
  int32_t* out_first;
  uint32_t* repeats;
  uint64_t* shown;  // NULL, or host memory in which kernels write the number of groups, too
};

/// group.cu. Queues everything on the stream, and waits for nothing but host_groups. Weak: its address is NULL in a library
/// built without CUDA.
[[gnu::weak]] gpuhash_status group_on_cuda(const group_request& request, gpuhash_error* err);

/// reduce.cu. The kernels of a request with values, on the current device; throws what group_on_cuda catches.
void reduce_on_device(const group_request& request);

}  // namespace gpuhash::columns
