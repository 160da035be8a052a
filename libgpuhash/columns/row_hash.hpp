// The published hash (contract.hpp) of the rows of an array.
#pragma once

#include "libgpuhash/columns/contract.hpp"
#include "libgpuhash/columns/rows.hpp"

namespace gpuhash::columns {

/// May instructions of AVX2 be used? The processor has them, and GPUHASH_ISA does not leave them out.
bool has_avx2();

/// The kind that the hash has for the cells of a family.
contract::kind kind_of(family f);

/// bits: 64, one word for each row, or 128, two. May throw bad_alloc.
void hash_rows(const row_type& type, const rows& given, uint32_t bits, uint64_t seed, uint32_t threads, uint64_t* out);

/// serve(context, begin, n, hashes) for all blocks of rows, in any order and side by side: rows begin .. begin + n - 1 and
/// their hashes of 64 bits. serve must not throw; the call itself may throw bad_alloc.
void hash_blocks(const row_type& type, const rows& given, uint64_t seed, uint32_t threads,
                 void (*serve)(void* context, int64_t begin, int64_t n, const uint64_t* hashes), void* context);

}  // namespace gpuhash::columns
