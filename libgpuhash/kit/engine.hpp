// The seam between a table's host code (kit/table.hpp) and its kernels: plain structs and function pointers, so that
// one host object drives kernels compiled for several instruction sets and for CUDA.
#pragma once
#include <stddef.h>
#include <stdint.h>

namespace gpuhash {

// Added to by kernels: on CUDA these lie in device memory, in stripes that blocks take turns at, since millions of warps
// that add to one address would wait for each other.
inline constexpr unsigned total_stripes = 32;
struct totals {
  int64_t live, used;    // changes of the table's counters
  uint64_t yes, failed;  // elements with status yes; elements that found no room or no memory
  uint64_t bad_ops;      // CUDA: elements of a mixed batch whose op code the table does not have
};

// CPU: several threads add up what they did.
inline void add_totals(totals* sum, const totals& part) {
  __atomic_fetch_add(&sum->live, part.live, __ATOMIC_RELAXED);
  __atomic_fetch_add(&sum->used, part.used, __ATOMIC_RELAXED);
  __atomic_fetch_add(&sum->yes, part.yes, __ATOMIC_RELAXED);
  __atomic_fetch_add(&sum->failed, part.failed, __ATOMIC_RELAXED);
}

struct request {
  uint32_t kind;  // tile/kinds.hpp
  uint32_t combine, value_type;
  uint32_t is_set;  // 1: the table has no values
  size_t n;
  const uint64_t*
      n_there;  // if set, the number of elements lies there (device memory on CUDA) and n is its upper bound
  const void* keys;
  const void* values;               // may be NULL: zero
  void* out_values;                 // may be NULL
  uint8_t* status;                  // may be NULL
  const uint8_t* ops;               // kind mixed
  uint32_t key_bytes, value_bytes;  // of the arrays; a pair64 table takes 4 or 8 for each
  totals* batch_sum;                // CUDA: if set, total_stripes of them in device memory, added to as well
  uint32_t threads;                 // CPU
  void* stream;                     // CUDA
  uint32_t tile;                    // CUDA: lanes that serve one element, where a backend has a choice; 0: chosen
  uint32_t only_failed;             // 1: serve only elements whose status byte says that they were not carried out
  // 1: no batch that writes runs at the same time (kit/gate). CPU: no other batch at all runs, and one thread serves
  // this one
  uint32_t alone;
  uint32_t parts;          // may elements be rearranged before they reach the table? (kit/parts.hpp)
  uint64_t added;          // CUDA: elements that were added since the table was empty, at most
  const uint32_t* unless;  // CUDA: if set, and what lies there is not 0, another kernel serves the batch
  // CUDA, accumulate and assign: 1: no batch that erases runs at the same time, so that a slot that has a key keeps it
  uint32_t keys_stay;
};

inline constexpr uint32_t kind_count = 7;  // tile/kinds.hpp; its answers have 8 bytes, whatever the table's values are

// Elements first .. first + n - 1 of a batch.
inline request part_of(request q, size_t first, size_t n) {
  const auto skip = [first](const void* p, size_t width) {
    return p ? static_cast<const char*>(p) + first * width : nullptr;
  };
  q.n = n;
  q.keys = skip(q.keys, q.key_bytes);
  q.values = skip(q.values, q.value_bytes);
  q.out_values = const_cast<char*>(skip(q.out_values, q.kind == kind_count ? sizeof(uint64_t) : q.value_bytes));
  if (q.status) q.status += first;
  if (q.ops) q.ops += first;
  return q;
}

// In which order cells are collected. Homes ascend with the hash: pairs that leave one table in the order of its cells
// and enter a small one, which grows, would all crowd in one corner of it. So lines of cells are taken in strides that
// leave no part of the table out for long (multiples of a stride near the golden section of all lines).
struct cell_order {
  uint64_t lines = 0;
  uint64_t stride = 0;  // coprime to lines; 0: cells in order
  uint32_t line_cells = 1;
};

// Where live pairs go that leave a table.
struct collecting {
  void* keys;    // either may be NULL
  void* values;  // likewise
  uint32_t key_bytes, value_bytes;
  uint64_t* count;               // pairs that are there already, which counts on (device memory on CUDA)
  uint64_t room = ~uint64_t(0);  // CPU: pairs that the arrays hold. More are counted, and not written
  uint32_t threads = 1;
  void* stream = nullptr;
};

struct engine {
  // Serves a batch on the table whose layout struct is `table`. CPU: adds to *sum. CUDA: asynchronous, adds to sum[0 ..
  // total_stripes) in device memory. There `yes` of *sum is left alone, since only batch_sum counts it; nor are
  // `failed` and `bad_ops` added if there is a batch_sum, since the call that passed the batch_sum reports them. So
  // `failed` of *sum counts failures that were not reported yet. Returns 0 or a CUDA error code.
  int (*run)(const void* table, const request& q, totals* sum);
  // Append the live pairs of cells lo..hi of `order`.
  int (*collect)(const void* table, cell_order order, uint64_t lo, uint64_t hi, const collecting& to);

  // Chaining only, else NULL. The table is held exclusively.
  // Compact the chains of cells lo..hi and give their spare units back; adds to *sum.
  int (*flush)(const void* table, uint64_t lo, uint64_t hi, totals* sum, uint32_t threads, void* stream) = nullptr;
  // Write the values of key i from out_values[offsets[i]] on.
  int (*values_of)(const void* table, const request& q, const uint64_t* offsets) = nullptr;

  // CPU, or NULL. Fill the empty table `to` (kit/flat_table.hpp: of which every slot has to be written) with `from`'s pairs,
  // faster than by inserting. Adds the slots used to sum->used, pairs without a place to sum->failed. No other batch uses
  // either table. False: nothing was done, these two are not for this way.
  bool (*rebuild)(const void* from, const void* to, totals* sum, uint32_t threads) = nullptr;
  // CUDA, or NULL. The same, asynchronously; adds to sum[0 .. total_stripes) in device memory. *moves false: nothing was
  // queued. Returns 0 or a CUDA error code.
  int (*move)(const void* from, const void* to, totals* sum, bool* moves, void* stream) = nullptr;

  // Ordered structures only, else NULL (kit/ordered.hpp).
  const struct ordered_engine* ordered = nullptr;
  // CUDA, or NULL: large batches by parts of the table (kit/parts.hpp).
  const struct parts_engine* parts = nullptr;
  // CUDA: do kernels ask for request::keys_stay? Batches that erase follow those that had it set.
  bool in_place = false;
  // CUDA, hive, else NULL: its steps of linear hashing (plugins/hive/steps.hpp).
  const struct segment_engine* segments = nullptr;
  // CPU, or NULL: where keys have their homes, for batches in the order of the table (kit/divided.hpp).
  const struct homes_engine* homes = nullptr;
  // CUDA, or NULL: a way to rebuild that is tried before `move` (kit/parts.hpp).
  const struct rebuild_engine* anew = nullptr;
};

// Slot formats, as engines and tables number them.
enum format_id { format_set32, format_pair32, format_set64, format_pair64, format_count };

}  // namespace gpuhash
