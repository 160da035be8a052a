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
inline constexpr u32 part_threads = GPUHASH_PART_THREADS;     // of a block, and the most bins of a pass
inline constexpr u32 counted_at_once = GPUHASH_PART_AT_ONCE;  // elements of a thread on their way from memory
inline constexpr u32 part_samples = GPUHASH_PART_SAMPLES;
inline constexpr u32 sample_threads = GPUHASH_PART_SAMPLERS;  // of the block that looks at them
inline constexpr u64 part_chunk = GPUHASH_PART_CHUNK;         // elements that are divided at a time, at most
inline constexpr u64 chunks_most = 16;                        // instead of one of so many
inline constexpr u32 frequent_slots = 2048;                   // rows of two
inline constexpr u32 frequent_all = frequent_slots + 2;       // and the keys of the side slots
inline constexpr u32 frequent_least = 3;                      // samples of one key
// A batch is skewed where one sample of so many is of a frequent key, or of a run of equal keys.
inline constexpr u32 skewed_share = 8;
// And where more than this share of all samples is, keys are joined, and nothing is divided.
inline constexpr u32 joined_least = part_samples / 8 * 7;
// Fewer elements than this share of the slots are not divided a second time.
inline constexpr u64 left_share = 8;
inline constexpr u32 pick_blocks = (part_samples + 255) / 256;
// Inserting a key that is there reads it and no more: elements of fewer than 2^21 keys, whose slots lie in L2, are served
// faster one after the other. Of so many keys about 16 samples are repeats.
#ifndef GPUHASH_PART_REPEATS
#define GPUHASH_PART_REPEATS 16
#endif
inline constexpr u32 few_repeats = GPUHASH_PART_REPEATS;
// A table is nearly empty if no more than one of so many slots is in use.
inline constexpr u64 nearly_empty_share = 32;
inline constexpr u32 nobody = ~0u;
// What is left is divided if it is more than this share of all; or more than eight times that, where these are few.
inline constexpr u32 rest_share = GPUHASH_PART_REST;
inline constexpr u64 rest_few = GPUHASH_PART_SINGLE;
GH_FN u64 rest_at_most(u64 n) {
  const u64 share = n / rest_share, more = 8 * share < rest_few ? 8 * share : rest_few;
  return more > share ? more : share;
}
#ifndef GPUHASH_PART_BYTES
#define GPUHASH_PART_BYTES (32 * 1024)
#endif
inline constexpr u32 part_bytes = GPUHASH_PART_BYTES;
inline constexpr u32 parts_wanted = 1024;                     // so that all multiprocessors have work to the end
inline constexpr u32 part_slots_wanted = GPUHASH_PART_SLOTS;  // at least: of a small part many paths lead out

GH_END
