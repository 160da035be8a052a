// Groups of a column on a CUDA device: sizes of blocks, bins, samples and tables. Tests make those with a macro smaller, so
// that columns of a few thousand rows meet all that long ones do.
#pragma once
#include <cstdint>

namespace gpuhash::columns {

#ifndef GPUHASH_GROUP_THREADS
#define GPUHASH_GROUP_THREADS 1024
#endif
#ifndef GPUHASH_GROUP_DIVIDERS
#define GPUHASH_GROUP_DIVIDERS 512
#endif
#ifndef GPUHASH_GROUP_SERVERS
#define GPUHASH_GROUP_SERVERS 256
#endif
#ifndef GPUHASH_GROUP_SLOTS
#define GPUHASH_GROUP_SLOTS 4096
#endif
#ifndef GPUHASH_GROUP_EACH
#define GPUHASH_GROUP_EACH 10
#endif
#ifndef GPUHASH_GROUP_PASS_BITS
#define GPUHASH_GROUP_PASS_BITS 9
#endif
#ifndef GPUHASH_GROUP_COUNTED_BITS
#define GPUHASH_GROUP_COUNTED_BITS 14
#endif
#ifndef GPUHASH_GROUP_FREQUENT
#define GPUHASH_GROUP_FREQUENT 4096
#endif
#ifndef GPUHASH_GROUP_SAMPLE
#define GPUHASH_GROUP_SAMPLE 16384
#endif
#ifndef GPUHASH_GROUP_LONG_RUN
#define GPUHASH_GROUP_LONG_RUN 48
#endif

#ifndef GPUHASH_GROUP_OF_WARP
#define GPUHASH_GROUP_OF_WARP 256
#endif
#ifndef GPUHASH_GROUP_LISTED
#define GPUHASH_GROUP_LISTED (1 << 18)
#endif
#ifndef GPUHASH_GROUP_FEW_ROWS
#define GPUHASH_GROUP_FEW_ROWS (1 << 22)
#endif
#ifndef GPUHASH_GROUP_LIST_BITS
#define GPUHASH_GROUP_LIST_BITS 0
#endif

// Threads of blocks that count, scan, divide rows, and make groups of bins.
constexpr uint32_t count_threads = GPUHASH_GROUP_THREADS, scan_threads = GPUHASH_GROUP_THREADS;
constexpr uint32_t divide_threads = GPUHASH_GROUP_DIVIDERS;
constexpr uint32_t bin_threads = GPUHASH_GROUP_SERVERS;
constexpr uint32_t sample_threads = GPUHASH_GROUP_SERVERS, order_threads = GPUHASH_GROUP_SERVERS;

// A bin has rows for half of the slots of a table in the memory of a block on average, or fewer. With values there are
// half as many of both, since each slot has the aggregates of a key, too.
constexpr uint32_t slots_of_bin(bool values) { return GPUHASH_GROUP_SLOTS / (values ? 2 : 1); }
constexpr uint32_t rows_per_bin(bool values) { return slots_of_bin(values) / 2; }
constexpr uint32_t rows_of_thread(bool values) { return GPUHASH_GROUP_EACH / (values ? 2 : 1); }  // in a chunk of a bin

// One pass divides rows into that many bins (a power of two), or fewer: with more, the runs that leave a tile are short.
constexpr uint32_t bits_of_one_pass = GPUHASH_GROUP_PASS_BITS;
// With that many bins or fewer, rows per bin are counted in one go for both passes.
constexpr uint32_t bits_counted_at_once = GPUHASH_GROUP_COUNTED_BITS;

// Keys that are frequent among sampled rows are kept in a table in the memory of every block of the first pass, of so many
// slots at most, and so many bytes where slots have aggregates.
constexpr uint32_t most_frequent_slots = GPUHASH_GROUP_FREQUENT;
constexpr uint32_t most_frequent_bytes = 12 * most_frequent_slots;
constexpr uint32_t small_sample = GPUHASH_GROUP_SAMPLE, large_sample = 4 * small_sample;
constexpr uint64_t sampled_from = 4 * small_sample, large_from = 256 * uint64_t{small_sample};  // rows

// A block that divides rows takes a tile of so many for each thread. What travels along with a key has `carried` bytes.
constexpr uint32_t rows_of_divider(uint32_t key_bytes, uint32_t carried, bool values) {
  return values || key_bytes + carried > 8 ? 8 : 16;
}
// Runs of a tile that have so many rows on average are long enough for a warp each.
constexpr uint32_t long_run = GPUHASH_GROUP_LONG_RUN;

// Right rows of one key that a join lists: a thread, a warp or a block sorts them. More than most_listed are left to the caller.
constexpr uint32_t listed_by_thread = 8, listed_by_warp = GPUHASH_GROUP_OF_WARP, most_listed = GPUHASH_GROUP_LISTED;
constexpr uint64_t most_right_rows = uint64_t{1} << 30;  // where lists are asked for: places in them have 31 bits
constexpr uint32_t fewest_list_bits = GPUHASH_GROUP_LIST_BITS;
// Pairs that a thread writes.
constexpr uint32_t pairs_of_thread = 16;

// Words of 32 rows each whose first appearances one block numbers: one for each thread.
constexpr uint32_t words_per_strip = order_threads;

// A single result of each group is written to its place at random where columns are short, so that results fit the cache
// of a device, or groups are more than so many; else where it is listed is written at random, which is half as long, and
// it is read from there.
constexpr uint64_t few_rows = GPUHASH_GROUP_FEW_ROWS, most_found = 2 * few_rows;

// More rows than these are refused: row numbers have 32 bits, and one of them says that a row is of a frequent key.
constexpr uint64_t most_rows = uint64_t{1} << 31;

}  // namespace gpuhash::columns
