// Groups of a column on a CUDA device: sizes of blocks, bins, samples and tables. Those with a name are smaller in
// tests (tests/sizes/kernels.hpp), so that columns of a few thousand rows meet all that long ones do.
#pragma once
#include <cstdint>

#include "libgpuhash/tile/sizes.hpp"

namespace gpuhash::columns {

// Threads of blocks that count, scan, divide rows, and make groups of bins.
constexpr uint32_t count_threads = tunable("cuda.group_threads", 1024u), scan_threads = count_threads;
constexpr uint32_t divide_threads = tunable("cuda.group_dividers", 512u);
constexpr uint32_t bin_threads = tunable("cuda.group_servers", 256u);
// Blocks of a multiprocessor that serve several bins each: several times as many as it has at a time.
constexpr uint32_t several_blocks = tunable("cuda.group_several", 16u);
constexpr uint32_t frequent_threads = bin_threads, order_threads = bin_threads;

// A multiprocessor of devices of compute capability 9.0: bytes of its memory, what a block takes of them besides its own (the
// system's, and what kernels declare), and threads. Registers are bounded by them; other devices run the kernels, too.
constexpr uint32_t bytes_of_processor = 227 << 10, reserved_of_block = 2 << 10, threads_of_processor = 2048;

// A bin has rows for half of the slots of a table in the memory of a block on average, or fewer. With values there are
// half as many of both, since each slot has the aggregates of a key, too.
constexpr uint32_t most_slots = tunable("cuda.group_slots", 4096u);
constexpr uint32_t slots_of_bin(bool values) { return most_slots / (values ? 2 : 1); }
constexpr uint32_t rows_per_bin(bool values) { return slots_of_bin(values) / 2; }
constexpr uint32_t most_each = tunable("cuda.group_each", 10u);
constexpr uint32_t rows_of_thread(bool values) { return most_each / (values ? 2 : 1); }  // in a chunk of a bin

// One pass divides rows into that many bins (a power of two), or fewer: with more, the runs that leave a tile are short.
constexpr uint32_t bits_of_one_pass = tunable("cuda.group_pass_bits", 9u);
// With that many bins or fewer, rows per bin are counted in one go for both passes: with the first number by words, with more
// bins by halves of words, which give up what they hold to the bin when that is half of what they can.
constexpr uint32_t bits_counted_by_words = tunable("cuda.group_counted_bits", 14u);
constexpr uint32_t bits_counted_at_once = tunable("cuda.group_halves_bits", 16u);
constexpr uint32_t half_bits = tunable("cuda.group_half_bits", 16u), held_by_half = 1u << (half_bits - 1);

// Keys that are frequent among sampled rows are kept in a table in the memory of every block of the first pass, of so many
// slots at most, and so many bytes where slots have aggregates.
constexpr uint32_t most_frequent_slots = tunable("cuda.group_frequent", 4096u);
constexpr uint32_t most_frequent_bytes = 12 * most_frequent_slots;
// The keys of a column that has few have a table of so many slots, or with values of so many bytes. Short columns take as long
// without it.
constexpr uint32_t most_few_slots = tunable("cuda.group_few", 4096u), most_few_bytes = 20 * most_few_slots;
constexpr uint32_t few_probes = tunable("cuda.group_few_probes", 64u);            // slots in which a key may be
constexpr uint64_t few_from = tunable("cuda.group_few_from", uint64_t{1} << 21);  // rows
constexpr uint32_t small_sample = tunable("cuda.group_sample", 16384u), large_sample = 4 * small_sample;
constexpr uint64_t sampled_from = 4 * small_sample, large_from = 256 * uint64_t{small_sample};  // rows

// A block that divides rows takes a tile of so many for each thread. What travels along with a key has `carried` bytes.
constexpr uint32_t rows_of_divider(uint32_t key_bytes, uint32_t carried, bool values) {
  return values || key_bytes + carried > 8 ? 8 : 16;
}
// Runs of a tile that have so many rows on average are long enough for a warp each.
constexpr uint32_t long_run = tunable("cuda.group_long_run", 48u);

// Right rows of one key that a join lists: each finds its place (match.cuh), or a warp or a block sorts them. More than most_listed
// are left to the caller.
constexpr uint32_t listed_by_row = 16, listed_by_warp = tunable("cuda.group_of_warp", 256u),
                   most_listed = tunable("cuda.group_listed", 1u << 18);
constexpr uint64_t most_right_rows = uint64_t{1} << 30;  // where lists are asked for: places in them have 31 bits
constexpr uint32_t fewest_list_bits = tunable("cuda.group_list_bits", 0u);
// Pairs that a thread writes.
constexpr uint32_t pairs_of_thread = 16;

// Words of 32 rows each whose first appearances one block numbers: one for each thread.
constexpr uint32_t words_per_strip = order_threads;

// A single result of each group is written to its place at random where columns are short, so that results fit the cache
// of a device, or groups are more than so many; else where it is listed is written at random, which is half as long, and
// it is read from there.
constexpr uint64_t few_rows = tunable("cuda.group_few_rows", uint64_t{1} << 22), most_found = 2 * few_rows;

// More rows than these are refused: row numbers have 32 bits, and one of them says that a row is of a frequent key.
constexpr uint64_t most_rows = uint64_t{1} << 31;

}  // namespace gpuhash::columns
