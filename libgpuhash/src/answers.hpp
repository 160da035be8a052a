// Checks of the answers of plugins. Every call from the core into a plugin goes through here, so that a mistake of its
// author becomes an error that names the backend, the operation and the value, and not damage in the host.
//
//   A1  Only status codes of gpuhash.h reach the caller.
//   A2  A failed call has a sentence, even where the plugin gave none. A call that is OK leaves err empty.
//   A3  No exception crosses the C ABI. (Those that the C library uses to end a thread pass through.)
//   A4  Numbers by which the caller will size or read memory are within what the call could have filled.
//
// A plugin writes into an error of ours, never into the caller's. Of arrays, those in the CPU's memory are looked at.
#pragma once

#include <cxxabi.h>

#include "libgpuhash/src/table.hpp"

namespace gpuhash {

/// PLUGIN_ERROR: "backend 'x' ('/path'): <entry> ...".
[[gnu::format(printf, 4, 5), gnu::cold]] gpuhash_status wrong_answer(const backend& b, const char* entry,
                                                                     gpuhash_error* err, const char* format, ...);
/// In a catch clause: the exception, as an error.
[[gnu::cold]] gpuhash_status explain_exception(const backend& b, const char* entry, gpuhash_error* err) noexcept;
/// A status other than OK and what the plugin said with it, as the caller gets them.
[[gnu::cold]] gpuhash_status explain_failure(const backend& b, const char* entry, gpuhash_status status,
                                             gpuhash_error& said, gpuhash_error* err) noexcept;

/// Call an entry of a plugin: call(gpuhash_error*). Keeps A1, A2 and A3.
template <class Call>
gpuhash_status ask(const backend& b, const char* entry, gpuhash_error* err, const Call& call) {
  gpuhash_error said;  // not initialised as a whole: that would cost more than the call's other checks
  said.struct_size = sizeof said;
  said.code = GPUHASH_OK;
  said.message[0] = 0;
  gpuhash_status status = GPUHASH_INTERNAL;
  try {
    status = call(&said);
  } catch (const abi::__forced_unwind&) {
    throw;
  } catch (...) {
    return explain_exception(b, entry, err);
  }
  if (status == GPUHASH_OK) [[likely]]
    return GPUHASH_OK;
  return explain_failure(b, entry, status, said, err);
}

/// The entries whose answers are more than a status (A4). `op` names the operation of the batch.
gpuhash_status ask_create(const backend& b, const gpuhash_config& config, void** impl, gpuhash_error* err);
gpuhash_status ask_run(const gpuhash_table& table, const gpuhash_batch& batch, const char* op, gpuhash_error* err);
gpuhash_status ask_info(const gpuhash_table& table, gpuhash_table_info& info, gpuhash_error* err);
gpuhash_status ask_export(const gpuhash_table& table, size_t* n, void* keys, void* values, void* stream,
                          gpuhash_error* err);
gpuhash_status ask_export_part(const gpuhash_table& table, gpuhash_export_cursor& cursor, size_t* n, void* keys,
                               void* values, void* stream, gpuhash_error* err);
gpuhash_status ask_stats(const gpuhash_table& table, size_t* n, gpuhash_stat* out, gpuhash_error* err);
gpuhash_status ask_find_all(const gpuhash_table& table, size_t n, const void* keys, uint64_t* offsets, void* values,
                            size_t max_values, void* stream, gpuhash_error* err);
gpuhash_status ask_lower_bound(const gpuhash_table& table, size_t n, const void* keys, void* out_keys, void* out_values,
                               uint8_t* found, void* stream, gpuhash_error* err);
gpuhash_status ask_range_all(const gpuhash_table& table, size_t n, const void* low, const void* high, uint64_t* offsets,
                             size_t max_pairs, void* keys, void* values, void* stream, gpuhash_error* err);
gpuhash_status ask_neighbors(const gpuhash_table& table, uint32_t which, size_t n, const void* keys, void* out_keys,
                             void* out_values, uint8_t* found, void* stream, gpuhash_error* err);
gpuhash_status ask_range(const gpuhash_table& table, size_t n, const void* low, const void* high, size_t max_per_range,
                         void* out_keys, void* out_values, uint64_t* counts, void* stream, gpuhash_error* err);
gpuhash_status ask_slab_stats(const backend& b, void* allocator, gpuhash_slab_stats& stats, gpuhash_error* err);

/// destroy cannot fail: an exception of it is dropped.
template <class Call>
void ask_destroy(const Call& call) {
  try {
    call();
  } catch (const abi::__forced_unwind&) {
    throw;
  } catch (...) {
  }
}

/// Text of a plugin, fit to be printed: at most `most` bytes, control characters as '?'. NULL is "".
std::string printable(const char* text, size_t most = 200);

}  // namespace gpuhash
