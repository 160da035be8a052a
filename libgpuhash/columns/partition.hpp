// Rows by shard: the number of each row's shard, and arrays grouped by it, in two passes over the rows.
#pragma once

#include "libgpuhash/columns/rows.hpp"

namespace gpuhash::columns {

/// The hash that chooses shards has a seed of its own: what else hashes by the same contract and the caller's seed, a file
/// or a table in a shard, is independent of the shard.
constexpr uint64_t seed_of_shards(uint64_t seed) { return seed ^ GPUHASH_PARTITION_SALT; }

/// The shard of a hash. Hashes of one shard are a range of those of 64 bits.
constexpr int32_t shard_of(uint64_t hash, uint64_t shards) { return int32_t((hash >> 32) * shards >> 32); }

/// An array with an element for each row, and where its elements go, grouped. from NULL: the numbers of the rows.
struct grouped_array {
  const void* from;
  void* to;
  size_t bytes;  // of an element
};

/// ids: the shard of each row.
void shards_of_rows(const row_type& type, const rows& given, uint32_t shards, uint64_t seed, uint32_t threads,
                    int32_t* ids);

/// Group `count` arrays of n elements by these ids; elements of one shard keep their order. offsets: shards + 1, or NULL.
/// May throw bad_alloc before anything is written.
void group_by_shard(const int32_t* ids, int64_t n, uint32_t shards, uint32_t threads, int64_t* offsets,
                    const grouped_array* arrays, size_t count);

}  // namespace gpuhash::columns
