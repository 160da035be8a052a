// Fork detection: see fork.hpp.
#include "libgpuhash/src/fork.hpp"

#include <pthread.h>

namespace gpuhash {

uint64_t fork_generation = 0;

namespace {

[[gnu::constructor]] void watch_forks() {
  pthread_atfork(nullptr, nullptr, [] { ++fork_generation; });
}

}  // namespace
}  // namespace gpuhash
