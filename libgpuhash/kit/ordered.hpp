// ordered_engine: the functions that the engine of an ordered structure adds to `engine`: neighbours, ranges, and bulk
// building.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "libgpuhash/kit/engine.hpp"

namespace gpuhash {

// Arrays of the table's device. counts and offsets are 8 bytes an element.
struct ordered_request {
  uint32_t which;  // neighbours: GPUHASH_AT_LEAST, ...
  size_t n;
  const void* low;   // keys of neighbours; of ranges NULL: from the first key on
  const void* high;  // of ranges: excluded; NULL: to the last key
  size_t most;       // pairs of a range; with offsets, of all of them
  void* out_keys;    // may be NULL
  void* out_values;  // may be NULL
  uint8_t* found;    // may be NULL
  uint64_t* counts;  // may be NULL
  const uint64_t*
      offsets;  // NULL: the pairs of range i begin at i * most; else at offsets[i], and end before offsets[i + 1]
  // n + 1 of them, or NULL: where the pairs of each range would begin, one range's behind the other's. Then nothing else is
  // written.
  uint64_t* sums;
  uint32_t key_bytes, value_bytes;
  uint32_t threads;
  uint32_t alone;  // CUDA: 1: no batch that writes runs at the same time
  void* stream;
};

// A batch of insert, insert_or_assign or accumulate that a rebuild takes over: its keys are sorted, and merged with the pairs
// that are there. It takes effect in the order of its elements. Keys are those of the table's own order (encoded).
struct build_request {
  const request* batch;
  const void* old_keys;  // ascending; a word's half each, as those that are written
  const void* old_values;
  size_t old;
  void* work;  // work_bytes, from the first call to the last
  // What sort finds out:
  uint64_t fresh;       // keys that are not there yet, those of the side slots left out
  uint64_t fresh_side;  // those of the side slots
  bool moved;           // CUDA: the batch was not in order, and its sorted keys lie beside where they were
};

// The work space of a batch on CUDA, as its kernels get it.
struct batch_arrays {
  void* keys;
  uint32_t* element;
  uint64_t* fresh;   // 1: the first element of a key that the table lacks
  uint64_t* before;  // n + 1 of them
  uint64_t* found;   // words: a key is less than the one before it; side keys that are not there yet; two sums of those
  const void* old_keys;
  uint64_t old, n;
};

// Where a table ends, as kernels write it, for a batch whose keys come behind that.
struct table_end {
  static constexpr uint32_t most_levels = 24;
  uint64_t from;         // keys that are not below it belong into the last chunk, or behind it; encoded
  uint32_t falls_short;  // 1: some key of the batch is below it
  uint32_t below;        // pairs of the last chunk whose keys are
  uint32_t top, taken;
  uint32_t chunk[most_levels];    // the last one of each level
  uint32_t entries[most_levels];  // of it
};

// Every entry returns 0 or a CUDA error code; on CUDA the work is queued.
struct ordered_engine {
  int (*neighbors)(const void* table, const ordered_request& q);
  int (*ranges)(const void* table, const ordered_request& q);
  // Chunks of an empty table for n pairs whose keys ascend, `per` entries to a chunk.
  int (*build)(const void* table, size_t n, const void* keys, const void* values, uint32_t key_bytes,
               uint32_t value_bytes, uint32_t per, uint32_t threads, void* stream);

  // Bulk build from a batch; the table is held exclusively. Only kinds whose bit is set in built_kinds. sort waits, and
  // changes nothing outside of `work`; merge writes all pairs in order, the batch's statuses, and the side slots.
  uint32_t built_kinds;
  size_t (*work_bytes)(const build_request& b);
  int (*sort)(const void* table, build_request& b);
  int (*merge)(const void* table, const build_request& b, void* keys, void* values);
  // CPU, or NULL: the chunks of an empty table from a batch whose keys ascend, and its statuses. False: they do not; nothing
  // was written but chunks of the pool.
  bool (*build_ascending)(const void* table, const request& q, uint32_t per);

  // A batch behind the end; the table is held exclusively. Where the table ends, which goes to `end` in memory of its
  // device, whether the batch comes behind that, and the pairs of the last chunk, as old_keys and old_values are.
  int (*look_at_end)(const void* table, const request& q, table_end* end, void* keys, void* values);
  // Instead of those pairs, n pairs whose keys ascend. `end` is a copy in the host's memory. Changes what is behind the end only.
  int (*extend)(const void* table, const table_end& end, size_t n, const void* keys, const void* values,
                uint32_t key_bytes, uint32_t value_bytes, uint32_t per, uint32_t threads, void* stream);
};

}  // namespace gpuhash
