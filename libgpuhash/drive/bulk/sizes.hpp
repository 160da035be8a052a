// Large batches: sizes of blocks, samples, bins and partitions, and the shares that decide what a kernel does.
// Tests make those with a macro smaller, so that small batches meet all that large ones do.
#pragma once
#include "libgpuhash/tile/types.hpp"

GH_BEGIN

#ifndef GPUHASH_PART_THREADS
#define GPUHASH_PART_THREADS 512
#endif
#ifndef GPUHASH_PART_SAMPLES
#define GPUHASH_PART_SAMPLES 8192
#endif
#ifndef GPUHASH_PART_SAMPLERS
#define GPUHASH_PART_SAMPLERS 1024
#endif
#ifndef GPUHASH_PART_SLACK
#define GPUHASH_PART_SLACK 32
#endif
#ifndef GPUHASH_PART_SINGLE
#define GPUHASH_PART_SINGLE (u64(1) << 17)
#endif
#ifndef GPUHASH_PART_SLOTS
#define GPUHASH_PART_SLOTS 256
#endif
#ifndef GPUHASH_PART_REST
#define GPUHASH_PART_REST 1024
#endif
#ifndef GPUHASH_PART_BINS
#define GPUHASH_PART_BINS GPUHASH_PART_THREADS
#endif
#ifndef GPUHASH_PART_SERVERS
#define GPUHASH_PART_SERVERS 256
#endif
#ifndef GPUHASH_OWN_SERVERS
#define GPUHASH_OWN_SERVERS 384
#endif
#ifndef GPUHASH_PART_AT_ONCE
#define GPUHASH_PART_AT_ONCE 4
#endif
#ifndef GPUHASH_PART_EACH
#define GPUHASH_PART_EACH 10
#endif
#ifndef GPUHASH_PART_CHAINED
#define GPUHASH_PART_CHAINED 1023
#endif
#ifndef GPUHASH_PART_CACHE
#define GPUHASH_PART_CACHE (64 * 1024)
#endif
#ifndef GPUHASH_PART_JOINERS
#define GPUHASH_PART_JOINERS 1024
#endif
#ifndef GPUHASH_PART_JOINED
#define GPUHASH_PART_JOINED (96 * 1024)
#endif
#ifndef GPUHASH_PART_CHUNK
#define GPUHASH_PART_CHUNK (u64(1) << 27)
#endif
inline constexpr u32 partition_threads = GPUHASH_PART_THREADS;  // of a block, and the most bins of a pass
inline constexpr u32 loads_at_once = GPUHASH_PART_AT_ONCE;      // elements of a thread on their way from memory
inline constexpr u32 sample_size = GPUHASH_PART_SAMPLES;
inline constexpr u32 sample_threads = GPUHASH_PART_SAMPLERS;  // of the block that counts the sample
inline constexpr u64 slice_at_most = GPUHASH_PART_CHUNK;      // elements that are divided at a time, at most
inline constexpr u64 slices_most = 16;                        // instead of one of so many
inline constexpr u32 frequent_slots = 2048;                   // of the list of frequent keys, in rows of two
inline constexpr u32 frequent_all = frequent_slots + 2;       // with the keys of the side slots
inline constexpr u32 frequent_least = 3;                      // samples of a frequent key
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
#ifndef GPUHASH_PART_REPEATS
#define GPUHASH_PART_REPEATS 16
#endif
inline constexpr u32 few_repeats = GPUHASH_PART_REPEATS;
inline constexpr u32 none = ~0u;  // no slot, no element
// What is left is divided if it is more than this share of all elements; or more than eight times that, where eight
// times that are few elements.
inline constexpr u32 rest_share = GPUHASH_PART_REST;
inline constexpr u64 rest_few = GPUHASH_PART_SINGLE;
GH_FN u64 rest_at_most(u64 n) {
  const u64 share = n / rest_share, more = 8 * share < rest_few ? 8 * share : rest_few;
  return more > share ? more : share;
}
#ifndef GPUHASH_PART_BYTES
#define GPUHASH_PART_BYTES (32 * 1024)
#endif
inline constexpr u32 partition_bytes = GPUHASH_PART_BYTES;
inline constexpr u32 partitions_wanted = 1024;                     // so that all multiprocessors have work to the end
inline constexpr u32 partition_slots_wanted = GPUHASH_PART_SLOTS;  // at least: of a small partition many paths lead out

GH_END
