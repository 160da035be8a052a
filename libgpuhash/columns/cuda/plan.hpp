// Groups of a column on a CUDA device: what a call does, and where its temporaries lie in the caller's scratch memory.
//
// Plain functions of the request alone, so that the host can say how much memory a call needs, and tests can try them
// without a device.
#pragma once

#include <cstddef>
#include <cstdint>

#include "libgpuhash/columns/cuda/sizes.hpp"

namespace gpuhash::columns {

// The totals that are kept for each group while its values come.
struct group_totals {
  bool whole;  // the sum of integers, modulo 2^64
  bool real;   // the sum of floats, or of integers as floats
  bool low, high;
};

// What a caller asks for.
struct group_wants {
  bool first;                // groups are in the order of their first appearance
  bool counts;               // how many rows each group has
  bool codes;                // the number of each row's group
  uint32_t value_bytes = 0;  // 4 or 8; 0: there are no values
  uint32_t value_type = 0;   // GPUHASH_UINT, _INT, _FLOAT
  bool sums = false, means = false;
  group_totals totals{};
  // A code is the first row of its group, and groups have neither numbers nor keys: first and codes are set, too.
  bool rows = false;
  // Rows of the second column get the word that leads to the rows of the first one that equal them; rows is set, too.
  bool lists = false;
  // A code says whether a row of the second column is among those of the first one, in a byte, and there are no groups; codes
  // is set, too.
  bool members = false;

  // Does a row of the second column get something back, and one of the first column nothing?
  constexpr bool second_only() const { return lists || members; }

  // In the order of first appearance row numbers travel along with the keys, or else values if there are any.
  constexpr uint32_t carried_bytes() const { return first ? 4 : value_bytes; }
  // Counts alone, in the order of first appearance, go back to the first row of each group.
  constexpr bool counts_go_back() const { return first && counts && !codes && !value_bytes; }
  // Does anything go back to the rows? And to those of frequent keys, too?
  constexpr bool way_back() const { return codes || counts_go_back(); }
  constexpr bool way_back_of_frequent() const { return codes && (first || members); }
  // Can a row get its code as soon as its key is met, where keys are few?
  constexpr bool codes_at_once() const { return codes && !first && !counts && !value_bytes && !members; }
  // Have groups numbers in that order?
  constexpr bool numbered() const { return first && !rows; }
  // Results other than keys are listed until the order is known: so many results of each group.
  constexpr bool listed() const { return first && !counts_go_back() && (counts || value_bytes); }
  constexpr uint32_t results_listed() const { return counts + sums + means + totals.low + totals.high; }
  // The aggregates of one group where these are listed: where each begins, after the sum, and words of 4 bytes in all.
  constexpr uint32_t listed_mean() const { return 2 * sums; }
  constexpr uint32_t listed_low() const { return listed_mean() + 2 * means; }
  constexpr uint32_t listed_high() const { return listed_low() + totals.low * value_bytes / 4; }
  constexpr uint32_t listed_words() const { return listed_high() + totals.high * value_bytes / 4; }
  // Bytes of the totals of one group.
  constexpr uint32_t total_bytes() const {
    return (totals.whole ? 8 : 0) + (totals.real ? 8 : 0) +
           ((totals.low ? 1 : 0) + (totals.high ? 1 : 0)) * value_bytes;
  }
};

// A run: the rows of one tile that are of one bin. They lie from place `from` of the tile on, and `shift` further on in the
// bins.
struct tile_run {
  uint32_t from, shift;
};

struct group_plan {
  uint32_t bits;            // 2^bits bins, of each column of which bins are apart
  uint32_t columns;         // so many: bin b of column c is bin c * 2^bits + b
  uint32_t first_bits;      // of these, in the first pass
  uint32_t second_bits;     // in the second pass; 0: there is one pass only
  uint32_t sampled;         // rows of the sample, 0: none is taken
  uint32_t sample_slots;    // a power of two
  uint32_t frequent_slots;  // a power of two, of which at most half are taken
  uint32_t few_slots;       // the same of the keys of a column that has few; 0: these are not looked for
  uint32_t strips;
  uint32_t tile;  // rows of a tile, where something goes back to them
  uint64_t tiles;
  bool counted_at_once, by_halves;  // by_halves: of words

  constexpr uint32_t bins() const { return columns << bits; }
  constexpr uint32_t coarse_bins() const { return columns << first_bits; }

  // Is where bins begin found for the first pass first, and for the parts of each of its bins in a kernel of their own?
  constexpr bool starts_by_parts() const { return by_halves || !counted_at_once; }
  // So many first bits of a hash say in which bin it is counted first.
  constexpr uint32_t counted_bits() const { return counted_at_once ? bits : first_bits; }
  // The places of frequent keys: one for each slot, and the last one for the key whose hash marks an empty slot.
  constexpr uint32_t frequent_places() const { return frequent_slots + 1; }
  // The same of few keys, which take the place of the frequent ones: as many as either may need.
  constexpr uint32_t known_places() const { return (few_slots > frequent_slots ? few_slots : frequent_slots) + 1; }

  // Offsets of the temporaries: first those that are zero at the start, then those with all bits set, then all others.
  size_t facts, coarse_count, bin_count, coarse_start, coarse_end, bin_start, bin_end;
  size_t sampled_times, frequent_count, few_count, first_bits_at, known;
  size_t frequent_whole, frequent_real, frequent_high;
  size_t ones, sampled_keys, frequent, frequent_first, few_key, few_first, frequent_low;
  size_t rest, frequent_code, prefix, strip_total;
  size_t coarse_key, coarse_carried, bin_key, bin_carried;
  size_t coarse_place, coarse_run, bin_place, bin_run;
  size_t listed_results;
  size_t bytes;
};

inline constexpr uint32_t bits_for(uint64_t rows, bool values) {
  uint32_t bits = 0;
  while (rows > uint64_t{rows_per_bin(values)} << bits) ++bits;
  return bits;
}

namespace plan_detail {
// Takes the next bytes of the scratch memory.
inline size_t take(size_t* end, size_t bytes) {
  const size_t at = *end;
  *end = (at + bytes + 255) / 256 * 256;
  return at;
}

inline void plan_passes(group_plan& p, uint64_t n, uint64_t in_tables, uint32_t key_bytes, const group_wants& wants) {
  p.columns = wants.second_only() ? 2 : 1;
  p.bits = bits_for(in_tables, wants.value_bytes != 0);
  p.first_bits = p.bits <= bits_of_one_pass ? p.bits : p.bits / 2;
  p.second_bits = p.bits - p.first_bits;
  p.counted_at_once = p.bits + p.columns - 1 <= bits_counted_at_once;
  p.by_halves = p.counted_at_once && p.bits + p.columns - 1 > bits_counted_by_words;
  p.sampled = n < sampled_from ? 0 : n < large_from ? small_sample : large_sample;
  p.sample_slots = 4 * p.sampled;
  p.frequent_slots = most_frequent_slots;
  p.few_slots = wants.rows || wants.members || n < few_from ? 0 : most_few_slots;
  p.tile = divide_threads * rows_of_divider(key_bytes, wants.carried_bytes(), wants.value_bytes != 0);
  p.tiles = wants.way_back() ? (n + p.tile - 1) / p.tile + (wants.rows || wants.members)
                             : 0;  // a second column begins a new tile
  if (!wants.value_bytes) return;
  const uint32_t of_one = key_bytes + 4 + wants.total_bytes(), first = wants.first ? 4 : 0;
  while (p.frequent_slots * (of_one + first) > most_frequent_bytes) p.frequent_slots /= 2;
  while (p.few_slots * of_one > most_few_bytes) p.few_slots /= 2;
}

// How codes or counts find their rows: a place for each row and the runs of each tile, in each pass.
inline void plan_way_back(group_plan& p, uint64_t n, const group_wants& wants) {
  const uint64_t rows = wants.way_back() ? n : 0, tiles = p.tiles;
  const uint64_t coarse = rows ? p.coarse_bins() : 0, fine = uint64_t{1} << p.second_bits;
  const bool two = p.second_bits > 0;
  p.coarse_place = take(&p.bytes, 2 * rows);
  p.coarse_run = take(&p.bytes, sizeof(tile_run) * tiles * ((uint64_t{1} << p.first_bits) + 1));
  p.bin_place = take(&p.bytes, two ? 2 * rows : 0);
  p.bin_run = take(&p.bytes, two ? sizeof(tile_run) * (tiles + coarse) * (fine + 1) : 0);  // bins begin new tiles
}
}  // namespace plan_detail

// n is from 1 to most_rows, key_bytes 4 or 8. in_tables: rows that come into tables, if not all do.
inline group_plan plan_groups(uint64_t n, uint32_t key_bytes, const group_wants& wants, uint64_t in_tables = 0) {
  using plan_detail::take;
  group_plan p{};
  plan_detail::plan_passes(p, n, in_tables ? in_tables : n, key_bytes, wants);
  const bool two = p.second_bits > 0;
  const group_totals& totals = wants.totals;
  const size_t coarse = p.coarse_bins(), bins = p.bins(), places = p.known_places(), few = p.few_slots;
  const size_t words = wants.numbered() ? (n + 31) / 32 : 0, amount = wants.value_bytes;
  p.strips = uint32_t((words + words_per_strip - 1) / words_per_strip);
  size_t& end = p.bytes;
  p.facts = take(&end, 256);
  p.coarse_count = take(&end, 4 * coarse);
  p.bin_count = take(&end, 4 * bins);
  p.coarse_start = take(&end, 4 * coarse);
  p.coarse_end = take(&end, 4 * coarse);
  p.bin_start = take(&end, 4 * bins);
  p.bin_end = take(&end, 4 * bins);
  p.sampled_times = take(&end, 4 * p.sample_slots);
  p.frequent_count = take(&end, 4 * places);
  p.few_count = take(&end, few ? 4 * (few + 1) : 0);
  p.first_bits_at = take(&end, 4 * words);
  p.known = take(&end, wants.rows ? 8 * p.tiles : 0);
  p.frequent_whole = take(&end, totals.whole ? 8 * places : 0);
  p.frequent_real = take(&end, totals.real ? 8 * places : 0);
  p.frequent_high = take(&end, totals.high ? amount * places : 0);
  p.ones = p.sampled_keys = take(&end, size_t{key_bytes} * p.sample_slots);
  p.frequent = take(&end, key_bytes * places);
  p.frequent_first = take(&end, 4 * places);
  p.few_key = take(&end, key_bytes * few);
  p.few_first = take(&end, few ? 4 * (few + 1) : 0);
  p.frequent_low = take(&end, totals.low ? amount * places : 0);
  p.rest = p.frequent_code = take(&end, 4 * places);
  p.prefix = take(&end, 8 * words);
  p.strip_total = take(&end, size_t{4} * p.strips);
  // Counts and aggregates in the order of first appearance are listed, counts where the rows of the first pass were. Which
  // of them each group has is noted where the rows in bins were.
  const bool listed = wants.listed();
  p.coarse_key = take(&end, two || listed ? key_bytes * n : 0);
  p.coarse_carried = take(&end, listed ? 4 * n : two ? wants.carried_bytes() * n : 0);
  p.bin_key = take(&end, key_bytes * n);
  p.bin_carried = take(&end, (wants.members ? 1 : wants.codes ? 4 : wants.carried_bytes()) * n);
  plan_detail::plan_way_back(p, n, wants);
  p.listed_results = take(&end, listed ? 4 * wants.listed_words() * n : 0);
  return p;
}

}  // namespace gpuhash::columns
