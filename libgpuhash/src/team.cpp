// The team: see team.hpp.
#include "libgpuhash/src/team.hpp"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>

#include "libgpuhash/src/cpus.hpp"
#include "libgpuhash/src/fork.hpp"

namespace gpuhash {
namespace {

constexpr int looks = 64;              // before going to sleep; a look takes 10 to 50 ns (T3)
constexpr int64_t soon = 200'000;      // ns (T6)
constexpr uint32_t woken_at_once = 2;  // T9

int64_t nanoseconds() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

// Looks for a little while whether this has become true.
template <class True>
void look(True there, bool more_soon) {
  const int64_t end = more_soon ? nanoseconds() + soon : 0;
  do {
    for (int i = 0; i < looks && !there(); ++i) pause_a_little();
  } while (more_soon && !there() && nanoseconds() < end);
}

void sleep_while(std::atomic<uint32_t>& word, uint32_t value) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}
void wake(std::atomic<uint32_t>& word, uint32_t threads) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE_PRIVATE, threads, nullptr, nullptr, 0);
}

enum : uint32_t { running, awaited, ended };

}  // namespace

// A call of parallel(), or of start() and finish(). It outlives the call while a worker holds it, which may be between its
// last piece and its next look; the body does not (T2).
struct job {
  void (*const body)(void*, size_t);
  void* const context;
  const size_t pieces;
  const bool more_soon, halves;          // T6; whether it is one of start() and finish()
  uint32_t places;                       // workers that may still join; under team_lock
  job* next = nullptr;                   // of the open ones; under team_lock
  std::atomic<size_t> first_free{0};     // pieces from here on are not claimed
  std::atomic<size_t> unfinished;        // pieces
  std::atomic<uint32_t> state{running};  // where the caller sleeps
  std::atomic<uint32_t> holders{1};      // the caller and its workers

  job(void (*a_body)(void*, size_t), void* a_context, size_t n, uint32_t workers, bool more, bool in_halves)
      : body(a_body),
        context(a_context),
        pieces(n),
        more_soon(more),
        halves(in_halves),
        places(workers),
        unfinished(n) {}

  size_t claim() { return first_free.fetch_add(1, std::memory_order_relaxed); }
  bool all_claimed() const { return first_free.load(std::memory_order_relaxed) >= pieces; }

  void run(size_t piece) {
    body(context, piece);
    if (unfinished.fetch_sub(1, std::memory_order_acq_rel) == 1 && state.exchange(ended) == awaited) wake(state, 1);
  }
  // Run piece after piece, the first of which is claimed already.
  void serve(size_t piece) {
    for (; piece < pieces; piece = claim()) run(piece);
  }
  bool done() const { return unfinished.load(std::memory_order_acquire) == 0; }
  void await() {
    look([this] { return done(); }, more_soon);
    while (!done()) {
      uint32_t seen = running;
      state.compare_exchange_strong(seen, awaited);
      if (seen != ended) sleep_while(state, awaited);
    }
  }
  void drop() {
    if (holders.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }
};

namespace {

// Under team_lock, but for `calls`, which is changed under it and looked at anywhere.
struct team {
  job* open = nullptr;
  uint32_t workers = 0, looking = 0, asleep = 0;
  int cpu = -1;                    // of the last caller
  std::atomic<uint32_t> calls{0};  // so far; workers without work sleep on it
};
constinit team the_team;
thread_local bool in_body = false;

using hold = std::lock_guard<static_mutex>;
static_mutex& lock() { return library_lock[team_lock]; }

// A thread that was woken on the caller's CPU has slept while the caller did the work, and would do so again: the system may
// wake it there for seconds, although others are idle. To be put elsewhere it leaves out that CPU for a moment.
void leave(int cpu) {
  if (cpu < 0 || sched_getcpu() != cpu) return;
  cpu_mask mask;
  if (!mask.has(cpu)) return;
  mask.remove(cpu);
  if (mask.count() == 0 || !mask.apply()) return;
  // While this worker waited for another CPU, another thread or process may have set the worker's mask: that mask stays.
  if (!cpu_mask().is(mask)) return;
  mask.add(cpu);
  mask.apply();
}

// A job and a piece of it that this thread has claimed (T1), or NULL. Under the lock.
job* find_work(size_t* piece) {
  for (job* j = the_team.open; j != nullptr; j = j->next) {
    if (j->places == 0 || j->all_claimed() || (*piece = j->claim()) >= j->pieces) continue;
    --j->places;
    j->holders.fetch_add(1, std::memory_order_relaxed);
    return j;
  }
  return nullptr;
}

// How many sleepers to wake for this job now. Under the lock.
uint32_t to_wake(const job& j) {
  const uint32_t wanted = std::min(j.places > the_team.looking ? j.places - the_team.looking : 0, the_team.asleep);
  return j.halves ? std::min(wanted, woken_at_once) : wanted;
}

// The next job, and a piece of it. Sleeps as long as there is none.
job* wait_for_work(size_t* piece, bool more_soon) {
  std::atomic<uint32_t>& calls = the_team.calls;
  for (;;) {
    uint32_t seen;
    {
      const hold h(lock());
      if (job* j = find_work(piece)) return j;
      seen = calls.load(std::memory_order_relaxed);
      ++the_team.looking;
    }
    look([&] { return calls.load(std::memory_order_relaxed) != seen; }, more_soon);
    more_soon = false;
    {
      const hold h(lock());
      --the_team.looking;
      if (job* j = find_work(piece)) return j;
      seen = calls.load(std::memory_order_relaxed);
      ++the_team.asleep;
    }
    sleep_while(calls, seen);
    int cpu;
    uint32_t others = 0;
    {
      const hold h(lock());
      --the_team.asleep;
      cpu = the_team.cpu;
      for (const job* j = the_team.open; j != nullptr && others == 0; j = j->next)
        if (j->halves && !j->all_claimed()) others = to_wake(*j);
    }
    if (others != 0) wake(calls, others);
    leave(cpu);
  }
}

void* work(void*) {
  in_body = true;
  bool more_soon = false;
  for (;;) {
    size_t piece = 0;
    job* const j = wait_for_work(&piece, more_soon);
    more_soon = j->more_soon;
    j->serve(piece);
    j->drop();
  }
}

// With signals blocked: handlers are for the program's own threads. A fault of the thread itself is not for others: if it
// were blocked, the process would end without a word from the handler that explains crashes.
bool start_worker() {
  sigset_t all, before;
  sigfillset(&all);
  for (const int fault : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT, SIGSYS}) sigdelset(&all, fault);
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  const bool started = pthread_create(&thread, &attributes, work, nullptr) == 0;
  if (started) pthread_setname_np(thread, "gpuhash");  // the thread cannot have ended: workers stay
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  return started;
}

void publish(job& j) {
  uint32_t sleepers = 0;
  {
    const hold h(lock());
    while (the_team.workers < j.places && start_worker()) ++the_team.workers;  // T4
    job** end = &the_team.open;
    while (*end != nullptr) end = &(*end)->next;
    *end = &j;
    the_team.cpu = sched_getcpu();
    the_team.calls.fetch_add(1, std::memory_order_relaxed);
    sleepers = to_wake(j);
  }
  if (sleepers != 0) wake(the_team.calls, sleepers);
}

void withdraw(job& j) {
  const hold h(lock());
  job** at = &the_team.open;
  while (*at != &j) at = &(*at)->next;
  *at = j.next;
}

}  // namespace

namespace {

job* open_job(uint32_t threads, size_t pieces, void (*body)(void*, size_t), void* context, bool more_soon,
              bool halves) {
  const size_t others = in_body ? 0 : std::min<size_t>(threads, pieces);  // T5
  job* const j =
      new (std::nothrow) job(body, context, pieces, others == 0 ? 0 : uint32_t(others) - 1, more_soon, halves);
  if (j != nullptr) publish(*j);
  return j;
}

}  // namespace

job* start(uint32_t threads, size_t pieces, void (*body)(void*, size_t), void* context, bool more_soon) {
  return open_job(threads, pieces, body, context, more_soon, true);
}

bool help(job& j, size_t pieces) {
  const bool outermost = !in_body;
  in_body = true;
  size_t piece = 0;
  for (; pieces != 0 && (piece = j.claim()) < j.pieces; --pieces) j.run(piece);
  if (outermost) in_body = false;
  if (pieces != 0) look([&j] { return j.done(); }, false);
  return j.done();
}

void finish(job* j) {
  const bool outermost = !in_body;
  in_body = true;
  j->serve(j->claim());
  if (outermost) in_body = false;
  withdraw(*j);
  j->await();
  j->drop();
}

void parallel(uint32_t threads, size_t pieces, void (*body)(void*, size_t), void* context) {
  job* const j =
      threads > 1 && pieces > 1 && !in_body ? open_job(threads, pieces, body, context, false, false) : nullptr;
  if (j != nullptr) return finish(j);
  for (size_t piece = 0; piece < pieces; ++piece) body(context, piece);
}

// Jobs of the parent's other threads are left behind: those threads, which could end them, are not there.
void forget_team() {
  the_team.open = nullptr;
  the_team.workers = the_team.looking = the_team.asleep = 0;
}

}  // namespace gpuhash
