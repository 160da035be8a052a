// Large batches by partitions of the table (drive/bulk), as a table's host code sees them.
#pragma once
#include <stdint.h>

#include "libgpuhash/kit/engine.hpp"
#include "libgpuhash/kit/sizes.hpp"

namespace gpuhash {

// How a request asks for it. With auto a structure's policy says which batches are divided, on CUDA:
// drive/bulk/policy.hpp. On the CPU the option also says whether equal keys of a chunk are combined before they reach the
// table, and whether a batch that one thread serves may ask for the table to itself (always: combined whatever the keys are).
// A batch is divided there (divided.hpp) with `always` if it is of one kind that writes. auto:
//   insert, assign,      in tables that gain by it (homes_engine::gains), if the batch has divided_least elements and one for
//   accumulate           every divided_least_share slots, the table has divided_table bytes, keys and elements together are
//                        three quarters of the slots, and hardly any sampled element repeats another, nor are most of them there
// drive/README.md names all ways by which a batch is served.
enum parts_choice : uint32_t { parts_auto = 0, parts_always = 1, parts_never = 2 };

// A batch of fewer elements than this share of the slots does not pay for reading and writing the table.
inline constexpr uint64_t parts_least_share = 16;

// CPU: where paths begin, for batches in the order of the table (divided.hpp).
struct homes_engine {
  uint64_t (*count)(const void* table);
  // Does an element that adds a key save more random accesses than dividing it costs?
  bool (*gains)(const void* table);
  // The parts of n keys of q, from number `begin` on: their homes, shifted to the right.
  void (*parts_of)(const void* table, const request& q, size_t begin, uint32_t n, uint32_t shift, uint16_t* parts);
};

inline constexpr uint64_t divided_least = tunable("divided_least", uint64_t(1) << 20);
inline constexpr uint64_t divided_least_share = tunable("divided_least_share", 32u);
inline constexpr uint64_t divided_table =
    tunable("divided_table", uint64_t(1) << 24);  // a smaller one lies in the third-level cache, or nearly

// CUDA: rebuilding by parts of the new table.
struct rebuild_engine {
  // Bytes that it needs beside both tables; 0: these two are not for this way.
  uint64_t (*memory)(const void* from, const void* to);
  // engine::rebuild, asynchronously; adds to sum[0 .. total_stripes) in device memory. `memory` is device memory of so many
  // bytes, of which the first 8 are 0.
  int (*run)(const void* from, const void* to, totals* sum, void* memory, void* stream);
};

struct parts_engine {
  // Bytes that the batch needs beside the table; 0: this batch is not for this way.
  uint64_t (*memory)(const void* table, const request& q);
  // As engine::run, but the table is held exclusively. `memory` is device memory of so many bytes.
  // `otherwise` serves a batch that is not divided, once the device knows.
  int (*run)(const void* table, const request& q, totals* sum, void* memory,
             int (*otherwise)(const void* table, const request& q, totals* sum));
};

}  // namespace gpuhash
