// The published hash (contract.hpp) of the rows of an array.
#pragma once

#include "libgpuhash/columns/rows.hpp"

namespace gpuhash::columns {

/// bits: 64, one word for each row, or 128, two. May throw bad_alloc.
void hash_rows(const row_type& type, const rows& given, uint32_t bits, uint64_t seed, uint32_t threads, uint64_t* out);

}  // namespace gpuhash::columns
