// Sizes of skiplist. Tests replace them (libgpuhash/tile/sizes.hpp).
#pragma once
#include <stdint.h>

#include "libgpuhash/tile/sizes.hpp"

namespace gpuhash {

// A batch behind the end is built without the other pairs, however many they are (bulk_build.hpp).
inline constexpr uint64_t least_behind = tunable("least_behind", uint64_t(1) << 8);
inline constexpr uint64_t least_behind_on_cuda = tunable("least_behind_on_cuda", uint64_t(1) << 12);

// Elements per lane at least whose operands are combined before they reach a pair (build.cuh).
inline constexpr uint32_t join_rounds_least = tunable("cuda.join_rounds_least", 16u);
// Subranges of all ranges of a batch: as many as keep a large GPU busy, in a few waves (parts.cuh).
inline constexpr uint64_t most_subranges = tunable("cuda.most_subranges", uint64_t(1) << 18);
// Elements of the first slice of a batch that adds to few pairs (plugin_cuda.cu).
inline constexpr uint64_t first_piece = tunable("cuda.first_piece", uint64_t(1) << 14);

}  // namespace gpuhash
