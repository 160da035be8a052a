// Rows by shard on a CUDA device, and back: the functions of partition.cu and collect.cu that the C functions call once they
// have checked their arguments, and the bytes of scratch memory that a partition needs.
#pragma once

#include <algorithm>
#include <cstdint>

#include "libgpuhash/columns/contract.hpp"
#include "libgpuhash/columns/partition.hpp"
#include "libgpuhash/tile/sizes.hpp"

namespace gpuhash::columns {

// Sizes with a name are smaller in tests (tests/sizes/kernels.hpp), so that a few thousand rows reach all code that
// many rows do.

// A block takes a tile of rows at a time, `each` by each thread, and divides it by one digit of the shards.
constexpr uint32_t partition_threads = tunable("cuda.shard_threads", 512u);
constexpr uint32_t partition_each = tunable("cuda.shard_each", 8u);
constexpr uint32_t partition_tile = partition_threads * partition_each;
constexpr uint32_t digit_bits = tunable("cuda.shard_bits", 8u), most_digits = 1u << digit_bits;
constexpr uint32_t most_strips = 1024;  // of rows, each of which a block takes; so many for each multiprocessor:
constexpr uint32_t partition_blocks = tunable("cuda.shard_blocks", 2u);
static_assert(most_digits <= partition_threads && partition_tile <= 1u << 16);
static_assert(GPUHASH_MOST_SPREAD <= most_digits);

enum class cell_kind : uint32_t { unsigned_integer, signed_integer, floating, ticks, bytes };

// Of 8, 4, 2 and 1 bytes, by which these addresses and lengths are whole.
constexpr uint32_t largest_word(uint64_t ends) { return ends % 8 == 0 ? 8 : ends % 4 == 0 ? 4 : ends % 2 == 0 ? 2 : 1; }

struct partition_on_device {
  int ordinal;
  void* stream;
  const void* keys;  // cells of `width` bytes
  uint32_t width;
  cell_kind kind;
  uint64_t key;         // of the hash of such cells
  uint64_t fraction;    // of floats that are no integers
  int64_t nanoseconds;  // of a tick
  contract::bytes_keys of_bytes;
  uint64_t n;
  uint32_t shards;
  int32_t* ids;
  int64_t* offsets;
  uint32_t* places;
  grouped_array arrays[3];
  uint32_t count;
  void* const* spread[3];  // of each array: where the rows of each shard go; NULL: one after the other
  bool counted;            // scratch has the counts of a call before
  char* scratch;

  bool moves() const { return count > 0 || places != nullptr; }
  bool groups() const { return moves() || offsets != nullptr; }
};

// Where temporaries lie in scratch memory, from its begin on. Shards of more digits than one take two passes: the first has
// row numbers and shards ordered by the lower digit, the second moves the arrays.
struct partition_plan {
  uint64_t strips;
  size_t counts, totals, ids, order, passed, sorted, bytes;

  partition_plan(uint64_t n, uint32_t shards) : strips(most_of(n)) {
    const bool two = shards > most_digits;
    const uint64_t digits = two ? most_digits : shards;
    size_t at = 0;
    const auto take = [&at](uint64_t size) {
      const size_t begin = at;
      at += (size_t(size) + 255) / 256 * 256;
      return begin;
    };
    counts = take(8 * digits * strips);
    totals = take(8 * digits);
    ids = take(two ? 4 * n : 0);
    order = take(two ? 8 * n : 0);
    passed = take(two ? 4 * n : 0);
    sorted = take(two ? 4 * n : 0);
    bytes = at;
  }
  static uint64_t most_of(uint64_t n) {
    return std::min<uint64_t>((n + partition_tile - 1) / partition_tile, most_strips);
  }
};

/// partition.cu. Queues everything on the stream, and waits for nothing. Weak, as group_on_cuda.
[[gnu::weak]] gpuhash_status partition_on_cuda(const partition_on_device& request, gpuhash_error* err);

// Row order[i] of `to` becomes row i of `from`.
struct ungroup_on_device {
  int ordinal;
  void* stream;
  uint64_t n;
  const int64_t* order;
  grouped_array array;
};
/// collect.cu; so is the next one.
[[gnu::weak]] gpuhash_status ungroup_on_cuda(const ungroup_on_device& request, gpuhash_error* err);

[[gnu::weak]] gpuhash_status collect_on_cuda(const gpuhash_collect_request& request, int ordinal, gpuhash_error* err);

}  // namespace gpuhash::columns
