// The team: the threads that serve batches on the CPU.
//
// One team serves all tables and all threads that call. A call is cut into pieces; a thread that is free claims the next one.
//
//   T1  The caller claims pieces from the start, or when its other work is done, and waits only for pieces that a worker has
//       begun: a worker that sleeps, or that the system does not run, costs nothing.
//   T2  A piece is claimed once, and a body is not run any more when its call has returned.
//   T3  A thread without work looks for a few microseconds whether that changes, and then sleeps. Nothing spins longer:
//       other processes may want the cores.
//   T4  Workers are started when a call could use them, and stay. Where no thread is to be had, the call has fewer.
//   T5  A call made by a body runs on the thread that makes it.
//   T6  A call may say that the next one follows at once. Its workers then look for longer, since waking a thread takes about
//       as long as a small call; they stop after `soon`, whatever was said.
//   T7  A worker that is woken on the CPU of the call goes to another one that it may use.
//   T8  A call may be in two halves, `start` and `finish`, with several open at once: workers take them in the order in which
//       they were started.
//   T9  To wake a thread takes some microseconds. A caller of `start`, who has something else to do, wakes two, and each of these
//       two more; a caller of `parallel` wakes all, which has the last one awake sooner.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "libgpuhash/tile/sizes.hpp"

namespace gpuhash {

/// Run body(context, piece) for every piece 0 .. pieces-1, on at most `threads` threads of which the caller is one.
/// Returns when all have run. body must not throw.
void parallel(uint32_t threads, size_t pieces, void (*body)(void* context, size_t piece), void* context);

/// A call that its caller comes back to (T8).
struct job;
/// The call, which `finish` ends, or NULL without memory for it. more_soon: T6.
job* start(uint32_t threads, size_t pieces, void (*body)(void* context, size_t piece), void* context, bool more_soon);
/// Run at most so many pieces; look for a little while if none is left to claim; whether all have run.
bool help(job& j, size_t pieces);
/// Run and wait for what is left.
void finish(job* j);

/// The results of body(begin, end), each a byte, for all pieces of 0 .. n-1, joined by |. The calling thread alone
/// looks at few elements.
template <class Body>
uint8_t any_of(uint32_t threads, size_t n, Body body) {
  constexpr size_t piece = tunable("any_of", size_t{1} << 16);
  if (n <= 4 * piece || threads <= 1) return body(size_t{0}, n);
  struct work {
    Body& body;
    size_t n;
    std::atomic<uint8_t> any{0};
  } all{body, n};
  parallel(
      threads, (n + piece - 1) / piece,
      [](void* context, size_t i) {
        auto& w = *static_cast<work*>(context);
        const size_t begin = i * piece;
        w.any.fetch_or(w.body(begin, w.n - begin < piece ? w.n : begin + piece), std::memory_order_relaxed);
      },
      &all);
  return all.any.load(std::memory_order_relaxed);
}

/// In a forked child, which has none of the workers: start from nothing. Under team_lock, like all of the team's state.
void forget_team();

}  // namespace gpuhash
