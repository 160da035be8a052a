// Sizes of hive. Tests replace them (libgpuhash/tile/sizes.hpp).
#pragma once
#include <stdint.h>

#include "libgpuhash/tile/sizes.hpp"

namespace gpuhash {

inline constexpr uint64_t segment_bytes = tunable("hive_segment", uint64_t(64) << 10);
// With fewer segments than this nothing is gained: keys of one segment only could not use the room of another one.
inline constexpr uint64_t least_segments = tunable("hive_segments", uint64_t(16));
static_assert(least_segments > 1);  // a table of one segment is whole: its buckets are no multiple of a filter's word
// A step splits at most so many segments on CUDA, for which there is work memory.
inline constexpr uint64_t segments_at_once = tunable("hive_step", uint64_t(512));
// Address space that is reserved, by what the table takes at first.
inline constexpr uint64_t reserve_factor = tunable("hive_reserve", uint64_t(4096));
// How far a pair whose buckets are full pushes others on before packing a segment fails (segments.hpp, steps.cuh).
inline constexpr uint32_t longest_walk = tunable("hive_walk", 500u);

// Of a segment's slots, one in so many pairs may find its home full (steps.cuh).
inline constexpr uint32_t listed_share = tunable("cuda.listed_share", 2u);
// Elements of a thread that are served before the next ones (parts.cuh).
inline constexpr uint32_t segment_window_each = tunable("cuda.segment_window_each", 32u);

}  // namespace gpuhash
