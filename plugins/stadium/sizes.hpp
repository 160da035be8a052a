// Sizes of stadium's inserts of rows on CUDA (serve_rows.cuh). Tests replace them (libgpuhash/tile/sizes.hpp).
#pragma once
#include "libgpuhash/tile/types.hpp"

GH_BEGIN

inline constexpr u32 list_chunk = tunable("cuda.list_chunk", 1u << 27);  // elements that are put into order at a time
inline constexpr u32 windows_at_once = tunable("cuda.windows_at_once", 1u << 16);  // that one block adds up
// If there are more, they are added up by so many.
inline constexpr u32 window_part = tunable("cuda.window_part", 1u << 12);
inline constexpr u32 rows_at_least = tunable("cuda.rows_at_least", 1u << 11);  // elements of a list that are under way
inline constexpr u32 rows_at_most = tunable("cuda.rows_at_most", 1u << 14);

GH_END
