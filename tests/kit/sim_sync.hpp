// The kit's locks and atomics (libgpuhash/kit/sync.hpp) as the simulated world sees them: each access is a scheduling
// point, and orders the threads as the standard says it does.
#pragma once
#include <atomic>
#include <mutex>

#include "tests/kit/world.hpp"

namespace gpuhash {
namespace kit_sim {

class sim_mutex {
 public:
  sim_mutex() = default;
  sim_mutex(const sim_mutex&) = delete;
  sim_mutex& operator=(const sim_mutex&) = delete;
  ~sim_mutex() {
    if (held_ && the_world.running()) the_world.violation("a mutex is destroyed while it is held");
  }
  void lock() {
    if (!the_world.running()) return;
    the_world.point();
    if (held_ && holder_ == the_world.me()) the_world.violation("a thread locks a mutex that it holds");
    the_world.wait_for("a mutex", [this] { return !held_; });
    take();
  }
  bool try_lock() {
    if (!the_world.running()) return true;
    the_world.point();
    if (held_) return false;
    take();
    return true;
  }
  void unlock() {
    if (!the_world.running()) return;
    if (!held_ || holder_ != the_world.me()) the_world.violation("a thread unlocks a mutex that it does not hold");
    held_ = false;
    the_world.publish(clock_);
    the_world.point();
  }

 private:
  friend class sim_condition;
  void take() {
    held_ = true;
    holder_ = the_world.me();
    the_world.clock().join(clock_);
  }
  bool held_ = false;
  uint32_t holder_ = 0;
  vector_clock clock_;
};

class sim_condition {
 public:
  void wait(std::unique_lock<sim_mutex>& lock) {
    const uint64_t ticket = next_++;
    waiting_.push_back(ticket);
    sim_mutex& m = *lock.mutex();
    m.held_ = false;
    the_world.publish(m.clock_);
    if (!the_world.one_in(16)) {  // or a spurious wake-up
      the_world.wait_for("a condition", [this, ticket] {
        for (const uint64_t w : waiting_)
          if (w == ticket) return false;
        return true;
      });
    }
    std::erase(waiting_, ticket);
    the_world.wait_for("a mutex after a condition", [&m] { return !m.held_; });
    m.take();
  }
  template <class Predicate>
  void wait(std::unique_lock<sim_mutex>& lock, Predicate done) {
    while (!done()) wait(lock);
  }
  void notify_one() {
    if (!waiting_.empty()) waiting_.erase(waiting_.begin() + the_world.below(waiting_.size()));
    the_world.point();
  }
  void notify_all() {
    waiting_.clear();
    the_world.point();
  }

 private:
  std::vector<uint64_t> waiting_;
  uint64_t next_ = 0;
};

template <class T>
class sim_atomic {
 public:
  sim_atomic() = default;
  sim_atomic(T v) : value_(v) {}
  sim_atomic(const sim_atomic&) = delete;
  sim_atomic& operator=(const sim_atomic&) = delete;

  using order = std::memory_order;
  T load(order o = order::seq_cst) const {
    sync(false, o);
    return value_;
  }
  void store(T v, order o = order::seq_cst) {
    sync(true, o);
    value_ = v;
  }
  T exchange(T v, order o = order::seq_cst) {
    return change([v](T) { return v; }, o);
  }
  bool compare_exchange_strong(T& seen, T v, order o = order::seq_cst, order = order::seq_cst) {
    sync(true, o);
    if (value_ != seen) {
      seen = value_;
      return false;
    }
    value_ = v;
    return true;
  }
  bool compare_exchange_weak(T& seen, T v, order o = order::seq_cst, order = order::seq_cst) {
    if (the_world.running() && the_world.one_in(8)) {
      seen = load(o);
      return false;
    }
    return compare_exchange_strong(seen, v, o);
  }
  T fetch_add(T v, order o = order::seq_cst) {
    return change([v](T a) { return T(a + v); }, o);
  }
  T fetch_sub(T v, order o = order::seq_cst) {
    return change([v](T a) { return T(a - v); }, o);
  }
  T fetch_or(T v, order o = order::seq_cst) {
    return change([v](T a) { return T(a | v); }, o);
  }
  T fetch_and(T v, order o = order::seq_cst) {
    return change([v](T a) { return T(a & v); }, o);
  }
  operator T() const { return load(); }
  T operator=(T v) {
    store(v);
    return v;
  }
  T operator+=(T v) { return T(fetch_add(v) + v); }
  T operator-=(T v) { return T(fetch_sub(v) - v); }
  T operator++() { return T(fetch_add(1) + 1); }
  T operator--() { return T(fetch_sub(1) - 1); }
  T operator++(int) { return fetch_add(1); }
  T operator--(int) { return fetch_sub(1); }

 private:
  template <class Change>
  T change(Change f, order o) {
    sync(true, o);
    const T before = value_;
    value_ = f(before);
    return before;
  }
  void sync(bool writes, order o) const {
    if (!the_world.running()) return;
    the_world.point();
    if (o == order::relaxed) return;
    if (o != order::release) the_world.clock().join(clock_);
    if (writes && o != order::acquire) the_world.publish(clock_);
  }
  T value_{};
  mutable vector_clock clock_;
};

}  // namespace kit_sim

using kit_mutex = kit_sim::sim_mutex;
using kit_condition = kit_sim::sim_condition;
template <class T>
using kit_atomic = kit_sim::sim_atomic<T>;

}  // namespace gpuhash
