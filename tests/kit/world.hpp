// The world that the kit runs in under test: fibers for the caller's threads, a seeded scheduler, and vector clocks.
//
// One seed is one run. Whatever is left to chance is drawn from world.random: which thread goes on at a scheduling point
// (every lock, wait, atomic access, call of the device), how far the device gets meanwhile, what the workload does.
//
// Who is ordered after whom is kept in vector clocks, so that a missing order is found whether or not this run suffers
// from it. An actor is a fiber or a stream; its entry counts its steps that others may come to know of.
#pragma once
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include "libgpuhash/sched/fiber.hpp"
#include "libgpuhash/sched/scheduler.hpp"

namespace gpuhash::kit_sim {

inline constexpr uint32_t most_actors = 64, most_fibers = 8;

struct vector_clock {
  uint32_t at[most_actors] = {};

  void join(const vector_clock& other) {
    for (uint32_t i = 0; i < most_actors; ++i) at[i] = at[i] < other.at[i] ? other.at[i] : at[i];
  }
  // The first actor whose entry exceeds ours: something of it that we are not ordered after; or most_actors.
  uint32_t first_beyond(const vector_clock& other) const {
    uint32_t beyond = 0;
    for (uint32_t i = 0; i < most_actors; ++i) beyond |= other.at[i] > at[i];
    if (!beyond) return most_actors;
    uint32_t i = 0;
    while (other.at[i] <= at[i]) ++i;
    return i;
  }
};

inline int planted = 0;     // the mistake that is active (mistakes.py)
inline bool came_to[1024];  // the mistakes at whose places the run of a seed has been

// Is planted mistake `number` active? Stands at the place of each.
constexpr bool is_planted(int number) {
  if (std::is_constant_evaluated()) return false;
  came_to[number] = true;
  return planted == number;
}

class world {
 public:
  sim::random_source random{0};
  uint64_t seed = 0, steps = 0;
  uint64_t step_limit = 4'000'000;
  const char* doing[most_fibers] = {};  // the public call that each fiber is in
  bool trace = false;

  uint32_t below(uint64_t n) { return n < 2 ? 0 : random.below(uint32_t(n)); }
  bool one_in(uint32_t n) { return below(n) == 0; }

  // ---- what the device adds: may it do something, and do it ---------------------------------------------------------
  bool (*device_can)() = nullptr;
  void (*device_step)() = nullptr;
  std::string (*describe)() = nullptr;  // the run's options, for a message

  // ---- fibers -------------------------------------------------------------------------------------------------------
  // Runs body as fiber 0 until it returns, or until it is stopped by a violation: then false.
  bool run(uint64_t a_seed, std::function<void()> body) {
    seed = a_seed;
    random = sim::random_source(a_seed);
    steps = 0;
    device_share = below(5);
    switch_share = 1 + below(6);
    for (fiber_state& f : fibers_) f.used = false, f.waits = nullptr;
    stopped_ = false;
    current_ = nullptr;
    start(0, std::move(body));
    fibers_[0].clock = {};
    fibers_[0].clock.at[0] = 1;
    current_ = &fibers_[0];
    sim::switch_context(outside_, fibers_[0].stack.here);
    return !stopped_;
  }
  // Starts a thread; it is ordered after what its maker did.
  uint32_t spawn(std::function<void()> body) {
    uint32_t id = 1;
    while (fibers_[id].used) ++id;
    start(id, std::move(body));
    fibers_[id].clock.join(current_->clock);
    ++fibers_[id].clock.at[id];
    ++current_->clock.at[me()];
    return id;
  }
  void join_all() {
    wait_for("threads to end", [this] {
      for (uint32_t i = 1; i < most_fibers; ++i)
        if (fibers_[i].used) return false;
      return true;
    });
    for (uint32_t i = 1; i < most_fibers; ++i) clock().join(fibers_[i].clock);
  }
  bool running() const { return current_ != nullptr; }
  uint32_t me() const { return uint32_t(current_ - fibers_); }
  vector_clock& clock() { return current_->clock; }
  // Whoever learns of this clock is ordered after all that this fiber has done so far, and not after what it does next.
  void publish(vector_clock& to) {
    to.join(clock());
    ++clock().at[me()];
  }

  // A scheduling point.
  void point() {
    if (!current_) return;
    count_step();
    while (device_share && device_can && below(4) < device_share && device_can()) {
      count_step();
      device_step();
    }
    if (one_in(switch_share)) give_way();
  }
  // Goes on when ready() says so. Whoever is ready may go first.
  template <class Ready>
  void wait_for(const char* what, Ready ready) {
    if (ready()) return;
    const auto ask = [](void* p) { return (*static_cast<Ready*>(p))(); };
    fiber_state& self = *current_;
    while (!ready()) {
      self.waits = what, self.ready = ask, self.context = &ready;
      count_step();
      const bool device = device_can && device_can();
      const bool others = another_ready();
      if (!device && !others) stuck();
      if (device && (!others || below(2)))
        device_step();
      else
        give_way();
      self.waits = nullptr;
    }
  }

  // ---- violations ---------------------------------------------------------------------------------------------------
  std::vector<std::string> violations;  // of the run; the first one stops it

  [[noreturn]] __attribute__((format(printf, 2, 3))) void violation(const char* format, ...) {
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    const char* const call = current_ && doing[me()] ? doing[me()] : "no call";
    violations.push_back(std::string(text) + " [thread " + std::to_string(current_ ? me() : 0) + ", in " + call +
                         ", step " + std::to_string(steps) + "]");
    stopped_ = true;
    current_ = nullptr;
    sim::context nowhere;
    sim::switch_context(nowhere, outside_);
    abort();
  }

  uint32_t device_share = 2, switch_share = 2;

 private:
  struct fiber_state {
    sim::fiber stack{512 << 10};
    bool used = false;
    std::function<void()> body;
    vector_clock clock;
    const char* waits = nullptr;  // what for
    bool (*ready)(void*) = nullptr;
    void* context = nullptr;
  };
  fiber_state fibers_[most_fibers];
  fiber_state* current_ = nullptr;
  sim::context outside_;
  bool stopped_ = false;

  void count_step() {
    if (++steps > step_limit) {
      std::string who;
      for (uint32_t i = 0; i < most_fibers; ++i)
        if (fibers_[i].used) who += std::string("; thread ") + std::to_string(i) + " in " + (doing[i] ? doing[i] : "-");
      violation("the run does not end%s", who.c_str());
    }
  }
  [[noreturn]] void stuck() {
    std::string who;
    for (uint32_t i = 0; i < most_fibers; ++i)
      if (fibers_[i].used && fibers_[i].waits)
        who += std::string("; thread ") + std::to_string(i) + " waits for " + fibers_[i].waits + " in " +
               (doing[i] ? doing[i] : "no call");
    violation("deadlock%s", who.c_str());
  }
  bool can_go(const fiber_state& f) const { return f.used && (!f.waits || f.ready(f.context)); }
  bool another_ready() const {
    for (const fiber_state& f : fibers_)
      if (&f != current_ && can_go(f)) return true;
    return false;
  }
  void give_way() {
    fiber_state* ready[most_fibers];
    uint32_t n = 0;
    for (fiber_state& f : fibers_)
      if (&f != current_ && can_go(f)) ready[n++] = &f;
    if (!n) return;
    fiber_state* const from = current_;
    current_ = ready[below(n)];
    sim::switch_context(from->stack.here, current_->stack.here);
  }
  void start(uint32_t id, std::function<void()> body);
  static void entry();
};

inline world the_world;

inline void world::start(uint32_t id, std::function<void()> body) {
  fiber_state& f = fibers_[id];
  f.used = true;
  f.waits = nullptr;
  f.body = std::move(body);
  f.clock = {};
  doing[id] = nullptr;
  f.stack.restart(entry);
}
inline void world::entry() {
  world& w = the_world;
  fiber_state& self = *w.current_;
  self.body();
  self.used = false;
  if (&self == &w.fibers_[0]) {
    w.current_ = nullptr;
    sim::switch_context(self.stack.here, w.outside_);
  }
  w.wait_for("nothing: it has ended", [] { return false; });
  abort();
}

}  // namespace gpuhash::kit_sim
