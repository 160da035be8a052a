// Fork detection. Threads, driver contexts and locks do not survive a fork, so a handle remembers the generation of the
// process that made it, and is refused in a child.
#pragma once

#include <cstdint>

#include "libgpuhash/src/error.hpp"

namespace gpuhash {

/// How many forks lie between the process that loaded the library and this one. Written in the child, before any other
/// thread exists there: a plain read is enough.
extern uint64_t fork_generation;

/// How many threads may a new table's batches use? What the caller asks for, but one in a child of a process that had
/// tables: the OpenMP runtime's threads are gone there, and it would wait for them for ever.
uint32_t threads_after_fork(uint32_t asked);

inline gpuhash_status refuse_forked(uint64_t made_in, const char* what, gpuhash_error* err) {
  if (made_in == fork_generation) [[likely]]
    return GPUHASH_OK;
  return fail(err, GPUHASH_FORKED,
              "this %s was created before a fork and belongs to the parent process; create a new one in the child",
              what);
}

}  // namespace gpuhash
