// Forks of the process. Driver contexts, and the locks of tables, do not survive a fork: a handle remembers
// the generation of the process that made it, and is refused in a child. The library's own state does survive: fork()
// takes every lock of library_lock first, so that the child finds all of it at rest, and the child's team of threads
// starts from nothing.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "libgpuhash/src/error.hpp"

namespace gpuhash {

/// How many forks lie between the process that loaded the library and this one. Written in the child, before any other
/// thread exists there: a plain read is enough.
extern uint64_t fork_generation;

/// A lock of state that is not a table's. There are those of library_lock and no others, so that fork() misses none.
class static_mutex {
 public:
  void lock();
  void unlock();
  void before_fork();  ///< take it, unless this thread has it already (a driver that forks while it is opened)
  void after_fork();   ///< give it back, in the parent and in the child

 private:
  std::mutex mutex_;
  std::atomic<const void*> owner_{nullptr};
  bool for_fork_ = false;
};

/// In the order in which one thread may take several of them.
enum lock_name : size_t { registry_lock, driver_lock, team_lock, lock_count };
extern static_mutex library_lock[lock_count];

inline gpuhash_status refuse_forked(uint64_t made_in, const char* what, gpuhash_error* err) {
  if (made_in == fork_generation) [[likely]]
    return GPUHASH_OK;
  return fail(err, GPUHASH_FORKED,
              "this %s was created before a fork and belongs to the parent process; create a new one in the child",
              what);
}

}  // namespace gpuhash
