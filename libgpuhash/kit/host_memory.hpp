// Memory of the host as a module takes it: compared with what there is before it is used (libgpuhash/src/memory.hpp). A host
// older than plugin ABI 1.4 compares nothing.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "gpuhash/plugin.h"
#include "libgpuhash/kit/team.hpp"

namespace gpuhash {

extern const gpuhash_host_api* host;  // set by plugin init (kit/plugin.hpp)

inline bool host_checks_memory() {
  return host->struct_size >= offsetof(gpuhash_host_api, commit_memory) + sizeof(host->commit_memory) &&
         host->check_memory && host->commit_memory;
}

// May so many bytes more be used? NO_MEMORY says what limits them.
inline gpuhash_status check_host_memory(uint64_t bytes, bool pinned, gpuhash_error* err) {
  return host_checks_memory() ? host->check_memory(bytes, pinned, err) : gpuhash_status(GPUHASH_OK);
}
// Mapped memory that has not been used comes into being, or is refused.
inline bool commit_host_memory(void* p, size_t bytes) {
  return !host_checks_memory() || host->commit_memory(p, bytes, threads_of_call, nullptr) == GPUHASH_OK;
}

// Of the default memory resource, which wants the size back.
inline void give_host_memory(void* p, size_t bytes) {
  host->host_memory->deallocate(host->host_memory->context, p, bytes, 128, nullptr);
}
inline void* take_host_memory(size_t bytes) {
  void* const p = host->host_memory->allocate(host->host_memory->context, bytes, 128, nullptr);
  if (!p || commit_host_memory(p, bytes)) return p;
  give_host_memory(p, bytes);
  return nullptr;
}

}  // namespace gpuhash
