// Sizes of the CPU driver: the elements of a block, and the elements of a chunk, which one thread takes at a time.
#pragma once
#include "libgpuhash/kit/team.hpp"
#include "libgpuhash/tile/host.hpp"

GH_BEGIN

inline constexpr u32 block_size = tunable("block_size", 64u);  // elements per block: one bit of a word for each
inline constexpr u32 blocks_ahead =
    tunable("blocks_ahead", 2u);                     // blocks between the request for a home line and its visit
inline constexpr u32 waiting_room = 2 * block_size;  // operations that wait for a second or later line
inline constexpr u32 blocks_joined = tunable("blocks_joined", 64u);  // after a compare-and-swap was lost
inline constexpr size_t combined_least =
    tunable("combined_least", 2048u);  // elements of a batch; a smaller one is not looked at
inline constexpr cut batch_cut =
    tunable_cut({lone_batch, 4096, 16384, block_size});  // elements that a thread takes at a time
inline constexpr cut combined_cut = tunable_cut({lone_batch, 4096, 131072, block_size});
// A batch that its table serves as the only one is not served by several threads (kit/batches.hpp).
static_assert(batch_cut.alone >= lone_batch && combined_cut.alone >= lone_batch);

GH_END
