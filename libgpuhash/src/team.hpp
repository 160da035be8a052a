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
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "libgpuhash/tile/sizes.hpp"

namespace gpuhash {

/// Run body(context, piece) for every piece 0 .. pieces-1, on at most `threads` threads of which the caller is one.
/// Returns when all have run. body must not throw.
void parallel(uint32_t threads, size_t pieces, void (*body)(void* context, size_t piece), void* context);

/// Other work of the thread that calls, and when its next call comes.
struct beside {
  void (*meanwhile)(void* context) = nullptr;  ///< run first by the caller, while the workers begin; must not throw
  void* context = nullptr;
  bool more_soon = false;  ///< T6
};
void parallel(uint32_t threads, size_t pieces, void (*body)(void* context, size_t piece), void* context,
              const beside& other);

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
