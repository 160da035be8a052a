// Fork detection: see fork.hpp.
#include "libgpuhash/src/fork.hpp"

#include <pthread.h>

#include <atomic>

namespace gpuhash {

uint64_t fork_generation = 0;

namespace {

std::atomic<bool> has_team{false};  // this process may have started OpenMP threads
bool lost_team = false;             // an ancestor had; written in the child only

[[gnu::constructor]] void watch_forks() {
  pthread_atfork(nullptr, nullptr, [] {
    ++fork_generation;
    lost_team = lost_team || has_team;
  });
}

}  // namespace

uint32_t threads_after_fork(uint32_t asked) {
  if (lost_team) return 1;
  has_team.store(true, std::memory_order_relaxed);
  return asked;
}
}  // namespace gpuhash
