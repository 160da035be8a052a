// Which elements of a column are among others, on a CUDA device: the function of isin.cu that the C function calls once
// it has checked its arguments, and the bytes of scratch memory that it needs.
#pragma once

#include "gpuhash/columns.h"
#include "libgpuhash/columns/cuda/plan.hpp"

namespace gpuhash::columns {

// So many others have a table in the memory of a block; more have one in the caller's scratch memory, behind a word that says
// whether the key is there whose hash marks empty slots. That is fast while the cache of a device holds it: where others have
// more bytes than these, both columns are divided into bins.
constexpr uint64_t most_in_block = most_slots / 2, most_others = uint64_t{1} << 29;
constexpr uint64_t most_table_bytes = tunable("cuda.isin_table", uint64_t{1} << 24);

// A power of two: a quarter of them are taken, or less.
inline constexpr uint64_t slots_for(uint64_t others) {
  uint64_t slots = 32;
  while (slots < 4 * others) slots *= 2;
  return slots;
}
inline constexpr bool is_divided(uint64_t n, uint64_t others, uint32_t key_bytes) {
  return others > most_in_block && others * key_bytes > most_table_bytes && n + others <= most_rows;
}
inline group_plan plan_members(uint64_t n, uint64_t others, uint32_t key_bytes) {
  group_wants wants{false, false, true};
  wants.members = true;
  return plan_groups(n + others, key_bytes, wants, others);
}
inline size_t isin_scratch(uint64_t n, uint64_t others, uint32_t key_bytes) {
  if (others <= most_in_block) return 0;
  if (is_divided(n, others, key_bytes)) return plan_members(n, others, key_bytes).bytes;
  return 256 + slots_for(others) * key_bytes;
}

struct isin_request {
  int ordinal;
  const void* keys;
  uint64_t n;
  const void* among;
  uint64_t n_among;
  uint32_t key_bytes;
  uint64_t seed;
  uint8_t* out;
  void* scratch;
  void* stream;
};

/// isin.cu. Queues everything on the stream, and waits for nothing. Weak, as group_on_cuda.
[[gnu::weak]] gpuhash_status isin_on_cuda(const isin_request& request, gpuhash_error* err);

}  // namespace gpuhash::columns
