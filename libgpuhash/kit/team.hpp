// The host's team of threads, as a plugin uses it: a range is cut into pieces, which the team's threads claim one after
// another. A host older than plugin ABI 1.1 has no team: then everything runs on the calling thread.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "libgpuhash/tile/types.hpp"

namespace gpuhash {

// What plugin.h's gpuhash_host_api offers, filled in when the module is introduced (kit/plugin.hpp).
struct host_services {
  void (*parallel)(uint32_t threads, size_t pieces, void (*body)(void* context, size_t piece), void* context);
  uint32_t (*default_threads)();
  // Of equal keys by the CPU driver; for tests. always: of chunks; blocks: of blocks; never: of neither.
  enum { as_needed, always, never, blocks } join;
};
extern host_services host_team;

// How many threads the table may use whose operation the calling thread carries out: for filling memory, which knows
// no table.
extern constinit thread_local uint32_t threads_of_call;

}  // namespace gpuhash

GH_BEGIN

// How a range is cut: into pieces of `least` to `most` elements, multiples of `unit`. Several to a thread, so that one that
// the system does not run for a while holds few of them. A range no longer than `alone` is not cut: to wake another thread
// takes as long as serving it.
struct cut {
  size_t alone, least, most, unit = 1;
};
inline constexpr size_t pieces_per_thread = 4;
// A batch of so many elements is not cut, and a table may serve it as the only thread there is (kit/batches.hpp).
inline constexpr size_t lone_batch = gpuhash::tunable("lone_batch", size_t(8192));

constexpr cut tunable_cut(const cut& usual) {
  return {gpuhash::tunable("cut.alone", usual.alone), gpuhash::tunable("cut.least", usual.least),
          gpuhash::tunable("cut.most", usual.most), usual.unit};
}

// Run body(begin, end) on the pieces of 0 .. n-1, on at most so many threads.
template <class Body>
void in_pieces(u32 threads, size_t n, const cut& how, Body body) {
  if (n <= how.alone || threads <= 1) {
    if (n) body(size_t(0), n);
    return;
  }
  struct work {
    Body& body;
    size_t n, piece;
  };
  const size_t share = n / (threads * pieces_per_thread) + 1;
  const size_t size = share < how.least ? how.least : share > how.most ? how.most : share;
  work all{body, n, (size + how.unit - 1) / how.unit * how.unit};
  host_team.parallel(
      threads, (n + all.piece - 1) / all.piece,
      [](void* context, size_t piece) {
        const work& w = *static_cast<work*>(context);
        const size_t begin = piece * w.piece;
        w.body(begin, w.n - begin < w.piece ? w.n : begin + w.piece);
      },
      &all);
}

GH_END
