// The schedulers on choices of which it is known what they have to try.
#include <stdio.h>

#include "libgpuhash/sched/dfs.hpp"
#include "libgpuhash/sched/pct.hpp"

using namespace gpuhash::sim;

static uint64_t state;
static const uint8_t tiles[] = {0, 1};

static uint32_t ask(scheduler& s, uint64_t at, bool preempts) {
  state = at;
  return s.choose({what::tile, 2, tiles, preempts, 0});
}

// State 3 is reached first after a preemption, and then without one: what two more preemptions lead to from there is found
// the second time only, under a bound of two.
static bool a_state_is_searched_again_with_fewer_preemptions() {
  dfs search([] { return state; }, 2, true);
  bool found = false;
  do {
    const uint32_t start = ask(search, 1, false);
    if (start == abandon || (start == 0 && ask(search, 2, true) != 1)) continue;
    if (ask(search, 3, true) != 1) continue;
    found |= ask(search, 4, true) == 1;
  } while (search.next());
  return found;
}

// Of depth d: how often a run of two tiles, which both can always go on, changes from one to the other, at the most.
static uint32_t most_changes(uint32_t depth) {
  pct walk(1, 2000, depth);
  uint32_t most = 0;
  do {
    uint32_t changes = 0;
    for (uint32_t step = 0, last = 0; step < 16; ++step) {
      const uint32_t now = ask(walk, 0, true);
      changes += step && now != last;
      last = now;
    }
    most = changes > most ? changes : most;
  } while (walk.next());
  return most;
}

int main() {
  int failures = 0;
  const auto expect = [&](bool fine, const char* what) {
    if (!fine) printf("wrong: %s\n", what);
    failures += !fine;
  };
  expect(a_state_is_searched_again_with_fewer_preemptions(), "dfs searches a state again with fewer preemptions");
  for (uint32_t depth = 1; depth <= 4; ++depth)
    expect(most_changes(depth) == depth - 1, "pct changes the tile at depth - 1 moments");
  return failures != 0;
}
