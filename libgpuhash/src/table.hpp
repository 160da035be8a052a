// A table as the C ABI hands it out: the plugin's table, and what is needed to check arguments before the plugin runs.
#pragma once

#include "libgpuhash/src/fork.hpp"
#include "libgpuhash/src/registry.hpp"

struct gpuhash_table {
  const gpuhash::backend* type;
  void* impl;  // the plugin's table
  gpuhash_device device;
  uint32_t key_bytes, value_bytes;
  uint32_t threads;  // on the CPU
  bool grows;
  uint64_t seed;
  uint64_t generation;    // see fork.hpp
  gpuhash_memory memory;  // the caller's, kept: the plugin points to it
};

namespace gpuhash {

/// Every call on a table begins with this: err is emptied, and the table has to belong to this process.
inline gpuhash_status begin_call(const gpuhash_table* table, gpuhash_error* err) {
  clear(err);
  if (table == nullptr) [[unlikely]]
    return fail(err, GPUHASH_INVALID_ARGUMENT, "table is NULL");
  return refuse_forked(table->generation, "table", err);
}

/// Are the table's values single numbers, and does the backend combine such?
inline bool accumulates(const gpuhash_table& table) {
  return table.value_bytes != 0 && table.value_bytes <= 8 && (table.type->api.traits & GPUHASH_TRAIT_ACCUMULATE) != 0;
}

}  // namespace gpuhash
