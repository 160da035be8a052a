// Large batches by parts of the table (drive/cuda_parts.cuh), as a table's host code sees them.
#pragma once
#include <stdint.h>

#include "libgpuhash/kit/engine.hpp"

namespace gpuhash {

// How a request asks for it. auto: where it pays, from what was measured.
enum parts_choice : uint32_t { parts_auto = 0, parts_always = 1, parts_never = 2 };

// Smaller batches take less time than the launches.
inline constexpr uint64_t parts_least = uint64_t(1) << 20;
// A batch of fewer elements than this share of the slots does not pay for reading and writing the table.
inline constexpr uint64_t parts_least_share = 12;

struct parts_engine {
  // Bytes that the batch needs beside the table; 0: this batch is not for this way.
  uint64_t (*memory)(const void* table, const request& q);
  // As engine::run, but the table is held exclusively. `memory` is device memory of so many bytes.
  int (*run)(const void* table, const request& q, totals* sum, void* memory);
};

}  // namespace gpuhash
