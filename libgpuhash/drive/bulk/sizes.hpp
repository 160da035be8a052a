// Large batches: sizes of blocks, samples, bins and partitions, and the shares that decide what a kernel does.
// Tests replace those called "cuda." by smaller ones, so that small batches meet all that large ones do.
#pragma once
#include "libgpuhash/tile/types.hpp"

GH_BEGIN

inline constexpr u32 partition_threads = tunable("cuda.partition_threads", 512u);  // of a block
// Elements of a thread on their way from memory.
inline constexpr u32 loads_at_once = tunable("cuda.loads_at_once", 4u);
inline constexpr u32 sample_size = tunable("cuda.sample_size", 8192u);
inline constexpr u32 sample_threads = tunable("cuda.sample_threads", 1024u);    // of the block that counts the sample
inline constexpr u32 most_bins = tunable("cuda.most_bins", partition_threads);  // of a pass
inline constexpr u32 bin_slack = tunable("cuda.bin_slack", 32u);                // elements beyond what chance needs
// Elements of a thread that partitions a batch, of keys with 4 bytes.
inline constexpr int partition_each = tunable("cuda.partition_each", 10);
// Elements that are divided at a time, at most.
inline constexpr u64 slice_at_most = tunable("cuda.slice_at_most", u64(1) << 27);
inline constexpr u64 slices_most = 16;                   // instead of one of so many
inline constexpr u32 frequent_slots = 2048;              // of the list of frequent keys, in rows of two
inline constexpr u32 frequent_all = frequent_slots + 2;  // with the keys of the side slots
inline constexpr u32 frequent_least = 3;                 // samples of a frequent key
// A batch is skewed where one sample of so many is of a frequent key, or of a run of equal keys.
inline constexpr u32 skewed_share = 8;
// A batch of which more samples than these are of frequent keys, or of runs, is combined as a whole, and not divided.
inline constexpr u32 combine_all_least = sample_size / 8 * 7;
// Fewer elements than this share of the slots are not divided a second time.
inline constexpr u64 left_share = 8;
inline constexpr u32 pick_blocks = (sample_size + 255) / 256;
// A batch is of distinct keys if fewer samples than these repeat another one. Inserting a key that is there reads it
// and no more: elements of fewer than 2^21 keys, whose slots lie in L2, are served faster one after the other, and of
// so many keys about 16 samples are repeats.
inline constexpr u32 few_repeats = tunable("cuda.few_repeats", 16u);
inline constexpr u32 none = ~0u;  // no slot, no element
// Elements that are left over are divided if they are more than this share of all elements; or more than eight times
// that, if eight times that are few elements.
inline constexpr u32 rest_share = tunable("cuda.rest_share", 1024u);
inline constexpr u64 rest_few = tunable("cuda.rest_few", u64(1) << 17);
GH_FN u64 rest_at_most(u64 n) {
  const u64 share = n / rest_share, more = 8 * share < rest_few ? 8 * share : rest_few;
  return more > share ? more : share;
}
inline constexpr u32 partition_bytes = tunable("cuda.partition_bytes", 32u * 1024);
inline constexpr u32 partitions_wanted = 1024;  // so that all multiprocessors have work to the end
// At least so many: many paths lead out of a small partition.
inline constexpr u32 partition_slots_wanted = tunable("cuda.partition_slots_wanted", 256u);

GH_END
