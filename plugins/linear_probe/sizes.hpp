// Sizes of linear_probe's partitioned rebuild on CUDA (rebuild.cuh). Tests replace them (libgpuhash/tile/sizes.hpp).
#pragma once
#include "libgpuhash/tile/types.hpp"

GH_BEGIN

inline constexpr u32 moved_bytes = tunable("cuda.moved_bytes", 32u * 1024);  // of a partition, at most
inline constexpr u32 least_moved_bytes = moved_bytes / 8;                    // in a table of few partitions
inline constexpr u32 move_threads = tunable("cuda.move_threads", 256u);      // of a block
inline constexpr u32 moved_at_once = tunable("cuda.moved_at_once", 4u);  // rows of a thread on their way from memory
inline constexpr u64 moved_least = tunable("cuda.moved_least", u64(1) << 16);  // slots of the new table
// Of the new slots, one in so many is for pairs that leave their partitions.
inline constexpr u64 left_room_share = tunable("cuda.left_room_share", u64(64));

GH_END
