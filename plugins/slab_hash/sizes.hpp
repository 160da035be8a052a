// Sizes of slab_hash's partitions on CUDA (parts.cuh). Tests replace them (libgpuhash/tile/sizes.hpp).
#pragma once
#include "libgpuhash/tile/types.hpp"

GH_BEGIN

// Bytes of the base slabs of a partition. As many again are for the slabs behind them, or more where chains are long.
inline constexpr u32 slab_partition_bytes = tunable("cuda.slab_partition_bytes", 32u * 1024);
// Elements of a thread that are served before the next ones.
inline constexpr u32 slab_window_each = tunable("cuda.slab_window_each", 32u);

GH_END
