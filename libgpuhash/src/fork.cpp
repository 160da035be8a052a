// Forks of the process: see fork.hpp.
#include "libgpuhash/src/fork.hpp"

#include <pthread.h>

#include "libgpuhash/src/cpus.hpp"
#include "libgpuhash/src/memory.hpp"
#include "libgpuhash/src/team.hpp"

namespace gpuhash {

uint64_t fork_generation = 0;
constinit static_mutex library_lock[lock_count];

namespace {

constexpr int looks = 64;  // at a lock, before going to sleep

thread_local char me;  // its address tells threads apart; the thread that forks has the same one in the child

void before_fork() {
  for (auto& lock : library_lock) lock.before_fork();
}

void after_fork() {
  for (size_t i = lock_count; i-- > 0;) library_lock[i].after_fork();
}

[[gnu::constructor]] void watch_forks() {
  pthread_atfork(before_fork, after_fork, [] {
    ++fork_generation;
    forget_team();
    forget_grants();
    after_fork();
  });
}

}  // namespace

void static_mutex::lock() {
  // What is done under the team's lock takes a fraction of the time that it takes to sleep and to be woken.
  bool locked = mutex_.try_lock();
  for (int i = 0; i < looks && !locked; ++i) {
    pause_a_little();
    locked = mutex_.try_lock();
  }
  if (!locked) mutex_.lock();
  owner_.store(&me, std::memory_order_relaxed);
}

void static_mutex::unlock() {
  owner_.store(nullptr, std::memory_order_relaxed);
  mutex_.unlock();
}

void static_mutex::before_fork() {
  if (owner_.load(std::memory_order_relaxed) == &me) return;
  lock();
  for_fork_ = true;
}

void static_mutex::after_fork() {
  if (!for_fork_) return;
  for_fork_ = false;
  unlock();
}

}  // namespace gpuhash
