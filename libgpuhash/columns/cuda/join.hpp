// Joins of two columns on a CUDA device, as <gpuhash/columns.h> has them: the functions of join.cu that the C function
// calls once it has checked its arguments.
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
  int32_t* out_first;  // NULL: right rows are listed
  int64_t *out_left, *out_right;
  uint64_t* facts;
  void* scratch;
  void* stream;
  uint64_t* host_facts;
};

// A join is a call for the first row of each key, of the right column with the left one behind it; or, with lists, for what
// leads to the right rows of each key.
inline constexpr group_wants join_wants(bool lists) {
  group_wants wants{true, false, true};
  wants.rows = true;
  wants.lists = lists;
  return wants;
}

// Where right rows are listed, tables have those alone. Left rows count, too, where they are very many: a block looks up those of
// a bin.
inline constexpr uint64_t rows_in_tables(uint64_t n_left, uint64_t n_right) {
  return n_right > n_left / 4 ? n_right : n_left / 4;
}

// Where a join's temporaries lie.
struct join_plan {
  group_plan groups;
  uint32_t list_bits;        // of a place in the lists
  size_t list, met, before;  // met is where hashes in bins were, which are not read any more then
  size_t bytes;
};

// Of columns that together have rows.
inline join_plan plan_join(uint64_t n_left, uint64_t n_right, uint32_t key_bytes, bool lists) {
  using plan_detail::take;
  join_plan p{};
  const uint64_t n = n_left + n_right;
  p.groups = plan_groups(n, key_bytes, join_wants(lists), lists ? rows_in_tables(n_left, n_right) : n);
  p.bytes = p.groups.bytes;
  if (!lists) return p;
  p.met = p.groups.bin_key;
  p.list_bits = fewest_list_bits;
  p.list = take(&p.bytes, 8 * n_right);  // lists have two rows or more, and each takes up to twice as many words
  while (2 * n_right > uint64_t{1} << p.list_bits) ++p.list_bits;
  p.before = take(&p.bytes, 4 * n_left);
  return p;
}

/// join.cu. Both queue everything on the stream, and wait for nothing but host_facts. Weak, as group_on_cuda.
[[gnu::weak]] gpuhash_status join_on_cuda(const join_request& request, gpuhash_error* err);
[[gnu::weak]] gpuhash_status pairs_on_cuda(const join_request& request, uint64_t pairs, gpuhash_error* err);

}  // namespace gpuhash::columns
