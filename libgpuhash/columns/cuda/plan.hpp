// Groups of a column on a CUDA device: what a call does, and where its temporaries lie in the caller's scratch memory.
//
// Plain functions of the request alone, so that the host can say how much memory a call needs, and tests can try them
// without a device.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpuhash::columns {

// A bin has that many rows on average, or fewer, so that its keys fit in a table in the memory of a block.
constexpr uint32_t rows_per_bin = 2048;
// One pass divides rows into that many bins (a power of two), or fewer: with more, the runs that leave a tile are short.
constexpr uint32_t bits_of_one_pass = 9;
// With that many bins or fewer, rows per bin are counted in one go for both passes.
constexpr uint32_t bits_counted_at_once = 14;

// Keys that are frequent among sampled rows are kept in a table in the memory of every block of the first pass. The
// last place is the one of the key whose hash marks an empty slot.
constexpr uint32_t frequent_slots = 4096;
constexpr uint32_t frequent_most = frequent_slots / 2;
constexpr uint32_t frequent_places = frequent_slots + 1;
constexpr uint32_t sampled_from = 1 << 16;  // rows; fewer are served without a sample

// Words of 32 rows each whose first appearances one block numbers.
constexpr uint32_t words_per_strip = 4096;

// More rows than these are refused: row numbers have 32 bits, and one of them says that a row is of a frequent key.
constexpr uint64_t most_rows = uint64_t{1} << 31;

// What a caller asks for.
struct group_wants {
  bool first;   // groups are in the order of their first appearance
  bool counts;  // how many rows each group has
  bool codes;   // the number of each row's group
  // Do row numbers travel along with the keys?
  constexpr bool rows() const { return first || codes; }
};

struct group_plan {
  uint32_t bits;         // 2^bits bins
  uint32_t first_bits;   // of these, in the first pass
  uint32_t second_bits;  // in the second pass; 0: there is one pass only
  uint32_t sampled;      // rows of the sample, 0: none is taken
  uint32_t sample_slots;
  uint32_t strips;
  bool counted_at_once;

  // Offsets of the temporaries. What is zero at first, what has all bits set at first, and the rest.
  size_t facts, coarse_count, bin_count, sampled_times, frequent_count, first_bits_at;
  size_t ones, sampled_keys, frequent, frequent_first;
  size_t rest, frequent_code, coarse_start, coarse_end, bin_start, bin_end, prefix, strip_total;
  size_t coarse_key, coarse_row, bin_key, bin_row;
  size_t bytes;
};

inline constexpr uint32_t bits_for(uint64_t rows) {
  uint32_t bits = 0;
  while (rows > uint64_t{rows_per_bin} << bits) ++bits;
  return bits;
}

namespace plan_detail {
// Takes the next bytes of the scratch memory.
inline size_t take(size_t* end, size_t bytes) {
  const size_t at = *end;
  *end = (at + bytes + 255) / 256 * 256;
  return at;
}
}  // namespace plan_detail

// n is from 1 to most_rows, key_bytes 4 or 8.
inline group_plan plan_groups(uint64_t n, uint32_t key_bytes, group_wants wants) {
  using plan_detail::take;
  group_plan p{};
  p.bits = bits_for(n);
  p.first_bits = p.bits <= bits_of_one_pass ? p.bits : p.bits / 2;
  p.second_bits = p.bits - p.first_bits;
  p.counted_at_once = p.bits <= bits_counted_at_once;
  p.sampled = n < sampled_from ? 0 : n < uint64_t{1} << 22 ? 1 << 14 : 1 << 16;
  p.sample_slots = 4 * p.sampled;
  const bool two = p.second_bits > 0;
  const size_t coarse = size_t{1} << p.first_bits, bins = size_t{1} << p.bits;
  const size_t words = wants.first ? (n + 31) / 32 : 0;
  p.strips = uint32_t((words + words_per_strip - 1) / words_per_strip);
  size_t& end = p.bytes;
  p.facts = take(&end, 256);
  p.coarse_count = take(&end, 4 * coarse);
  p.bin_count = take(&end, 4 * bins);
  p.sampled_times = take(&end, 4 * p.sample_slots);
  p.frequent_count = take(&end, 4 * frequent_places);
  p.first_bits_at = take(&end, 4 * words);
  p.ones = p.sampled_keys = take(&end, size_t{key_bytes} * p.sample_slots);
  p.frequent = take(&end, size_t{key_bytes} * frequent_slots);
  p.frequent_first = take(&end, 4 * frequent_places);
  p.rest = p.frequent_code = take(&end, 4 * frequent_places);
  p.coarse_start = take(&end, 4 * coarse);
  p.coarse_end = take(&end, 4 * coarse);
  p.bin_start = take(&end, 4 * bins);
  p.bin_end = take(&end, 4 * bins);
  p.prefix = take(&end, 4 * words);
  p.strip_total = take(&end, size_t{4} * p.strips);
  // Counts in the order of first appearance are listed where the rows of the first pass were.
  const bool listed = wants.first && wants.counts;
  p.coarse_key = take(&end, two || listed ? key_bytes * n : 0);
  p.coarse_row = take(&end, (two && wants.rows()) || listed ? 4 * n : 0);
  p.bin_key = take(&end, key_bytes * n);
  p.bin_row = take(&end, wants.rows() ? 4 * n : 0);
  return p;
}

}  // namespace gpuhash::columns
