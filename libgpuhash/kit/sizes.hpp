// Sizes of the kit: how many elements are served at a time, and the least number of elements for which a way of serving
// them pays. Tests replace these sizes (tile/sizes.hpp).
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "libgpuhash/tile/sizes.hpp"

namespace gpuhash {

// Batches (batches.hpp).
// Elements of a growing table's slice that has no status array: the library keeps their statuses itself.
inline constexpr size_t status_part = tunable("status_part", size_t(1) << 22);
// Elements that a batch serves in one hold of the table.
inline constexpr size_t alone_part = tunable("alone_part", size_t(1) << 21);

// Growth (growth.hpp, full_table.hpp, moving.hpp).
inline constexpr size_t most_parts = tunable("most_parts", size_t(4));  // into which a batch is cut
// Elements of a batch that are looked up at least, however small the table is.
inline constexpr size_t least_looked_up = tunable("looked_up_least", size_t(1024));
// Elements that are looked up at a time where growth was refused.
inline constexpr size_t refused_slice = tunable("refused_slice", size_t(1) << 18);
// Cells that are moved at a time bound the memory that a rebuild takes besides the new storage.
inline constexpr uint64_t rebuild_step = tunable("rebuild_step", uint64_t(1) << 24);

// Estimates of the number of distinct keys (distinct.hpp, sketch.hpp).
// A smaller batch is cheap to look up key by key.
inline constexpr size_t estimate_least = tunable("estimate_least", size_t(1) << 12);
// Keys of a batch on CUDA that are looked up, to say how many of them are there.
inline constexpr size_t most_picked = tunable("picked", size_t(1) << 14);
inline constexpr uint32_t log_ranks = tunable("log_ranks", 10u);  // of a sketch
// An upper bound of the number, but for chances of one in ten thousands, in standard errors of the estimate.
inline constexpr uint32_t sketch_margins = tunable("sketch_margins", 4u);

// Partitioned batches of the CPU (divided.hpp).
// Elements that are partitioned at a time, for which there has to be memory.
inline constexpr size_t most_divided = tunable("divided_chunk", size_t(1) << 23);
// Elements that one thread takes at a time. Of each partition it should have some lines.
inline constexpr size_t divided_piece = tunable("divided_piece", size_t(1) << 17);

// Partitioned batches on CUDA (parts.hpp).
// A smaller batch takes less time than asking it.
inline constexpr uint64_t parts_least = tunable("parts_least", uint64_t(1) << 21);
// From so many elements on dividing pays for keys that are distinct, too, if one after the other takes few accesses.
inline constexpr uint64_t parts_all_least = tunable("parts_all_least", uint64_t(1) << 24);

}  // namespace gpuhash
