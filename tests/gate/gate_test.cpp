// stream_gate on a device that only keeps account of what is ordered after what: gate_test [RUNS]
//
// Batches of a few streams and graphs, at random. No two of them may run at the same time of which one was told that keys
// stay, or that it is alone, and the other one does what that excludes.
#include "libgpuhash/kit/gate.hpp"

#include <stdio.h>
#include <stdlib.h>

#include <bitset>
#include <deque>

namespace {

using namespace gpuhash;

constexpr size_t most = 64;
using works = std::bitset<most>;

uint64_t state;
uint64_t below(uint64_t n) {
  state = (state ^ state >> 30) * 0xbf58476d1ce4e5b9u + 0x9e3779b97f4a7c15u;
  return (state ^ state >> 27) % n;
}

struct stream {
  uint64_t id;
  works before;  // what its next work follows
};
struct event {
  works after;  // what had been queued on its stream
};
works done;  // has ended, as the host knows
std::deque<stream> streams;

int make_event(void** e) { return *e = new event{}, 0; }
void drop_event(void* e) { delete static_cast<event*>(e); }
int record(void* e, void* s) { return static_cast<event*>(e)->after = static_cast<stream*>(s)->before, 0; }
bool finished(void* e) {
  event& one = *static_cast<event*>(e);
  if (below(3) == 0) done |= one.after;
  return (one.after & ~done).none();
}
int follow(void* s, void* e) { return static_cast<stream*>(s)->before |= static_cast<event*>(e)->after, 0; }
int stream_id(void* s, uint64_t* id) { return *id = static_cast<stream*>(s)->id, 0; }
device_api fake() {
  device_api api{};
  api.make_event = make_event, api.drop_event = drop_event, api.record = record, api.finished = finished;
  api.follow = api.follow_in_graph = follow, api.stream_id = stream_id;
  return api;
}

struct work {
  bool writes, erases, keys_stay, alone, exclusive;
  works after;
};

[[noreturn]] void wrong(const char* what, uint64_t run, size_t a, size_t b) {
  fprintf(stderr, "run %llu: %s: %zu and %zu\n", (unsigned long long)run, what, a, b);
  exit(1);
}
bool clash(const work& a, const work& b) {
  return a.exclusive || (a.keys_stay && b.erases) || (a.alone && !a.writes && b.writes);
}

}  // namespace

int main(int argc, char** argv) {
  const device_api api = fake();
  uint64_t kept = 0, lost = 0;
  for (uint64_t run = 1; run <= (argc > 1 ? strtoull(argv[1], nullptr, 10) : 20000); ++run) {
    state = run * 0x9e3779b97f4a7c15u, done.reset(), streams.clear();
    const size_t many = 2 + below(3);
    for (size_t i = 0; i < many; ++i) streams.push_back({i + 1, {}});
    const bool erasing = below(4) != 0;
    stream_gate gate(api);
    std::vector<work> all;
    works launches;  // of graphs that write: at any time from their capture on
    for (size_t i = 0, n = 3 + below(20); i < n; ++i) {
      stream& s = streams[below(many)];
      // erase, two that change values, find, insert, exclusive, a graph
      const uint64_t kind = erasing ? below(7) : 1 + below(4);
      work w{kind != 3, kind == 0, kind == 1 || kind == 2, false, kind == 5, {}};
      if (kind == 6) {
        stream capture{100 + i, {}};
        w.erases = below(2), w.keys_stay = false;
        if (gate.before_capture(&capture, true)) return 2;
        w.after = capture.before | done;
        for (size_t x = 0; x < i; ++x)
          if (!w.after[x] && clash(all[x], w)) wrong("at the same time", run, x, i);
        all.push_back(w), launches.set(i);
        continue;
      }
      stream_gate::turn turn{w.writes};
      turn.erases = w.erases, turn.keys_stay = w.keys_stay;
      // The kit refuses what is exclusive while there are graphs, and tells no batch beside them that it is alone.
      if (w.exclusive && launches.any()) w = {true, false, false, false, false, {}};
      if (w.exclusive ? gate.before_exclusive(&s) : gate.before_batch(&s, &turn)) return 2;
      w.keys_stay = turn.keys_stay && !w.exclusive && launches.none();
      turn.keys_stay = w.keys_stay;
      turn.alone &= launches.none();
      w.alone = turn.alone && !w.exclusive;
      w.after = s.before | done;
      s.before = w.after, s.before.set(i);
      if (w.exclusive ? gate.after_exclusive(&s) : gate.after_batch(&s, turn)) return 2;
      all.push_back(w);
      for (size_t x = 0; x < i; ++x) {
        if (w.after[x]) continue;
        if (clash(all[x], w) || clash(w, all[x])) wrong("at the same time", run, x, i);
      }
      if (kind == 1 || kind == 2) w.keys_stay ? ++kept : ++lost;
      if (!erasing && (kind == 1 || kind == 2) && !w.keys_stay) wrong("nobody erases", run, i, i);
    }
  }
  printf("keys stayed for %llu batches, and %llu others\n", (unsigned long long)kept, (unsigned long long)lost);
  return kept > lost && lost ? 0 : 3;
}
