// The simulated machine on programs of a few accesses, whose possible endings are known (litmus tests).
#include <stdio.h>

#include <functional>
#include <set>

#include "libgpuhash/sched/dfs.hpp"
#include "libgpuhash/tile/sim.hpp"

using namespace gpuhash;
using namespace gpuhash::sim;

static constexpr order rlx = order::relaxed, acq = order::acquire, rel = order::release;
static u32 *x, *y;
static u32 r[4];  // what the tiles read
static std::vector<std::function<void()>> tiles;
static int failures = 0;

struct endings {
  std::set<std::string> all;  // "r0 r1 .. / x y", or why a run violated
  u64 runs = 0;
};

// Every ending of these tiles. seen: what the ending shows.
static endings explore(bool weak, std::vector<std::function<void()>> bodies, std::function<std::string()> seen,
                       u32 failing = 0) {
  the_machine.weak = weak;
  the_machine.max_failures = failing;
  the_machine.clear_memory();
  x = the_machine.place<u32>(1), y = the_machine.place<u32>(1);
  *x = *y = 0;
  the_machine.keep_image();
  tiles = std::move(bodies);
  dfs search([]() -> uint64_t { return the_machine.state_hash(); }, -1, true);
  endings e;
  do {
    for (u32& v : r) v = 9;
    const bool completed = the_machine.run(u32(tiles.size()), [](u32 tile) { tiles[tile](); }, search);
    if (completed)
      e.all.insert(seen());
    else if (!the_machine.violation.empty())
      e.all.insert(the_machine.violation.substr(0, the_machine.violation.find(':')));
    ++e.runs;
  } while (search.next());
  return e;
}

static void expect(const char* name, bool fine) {
  printf("%-60s %s\n", name, fine ? "as expected" : "WRONG");
  failures += !fine;
}
static std::string two(u32 a, u32 b) { return std::to_string(a) + " " + std::to_string(b); }
static std::string reads() { return two(r[0], r[1]); }
static std::string memory() { return two(*x, *y); }

template <order Publish, order Look>
static bool sees_stale_data(bool weak) {
  return explore(weak,
                 {[] { mem::store<rlx>(x, 1u), mem::store<Publish>(y, 1u); },
                  [] { r[0] = mem::load<Look>(y), r[1] = mem::load<rlx>(x); }},
                 reads)
      .all.count("1 0");
}

int main() {
  for (bool weak : {false, true}) {
    printf("%s\n", weak ? "weak" : "sequentially consistent");
    expect("message passing, relaxed: stale data only in weak memory", sees_stale_data<rlx, rlx>(weak) == weak);
    expect("message passing, release without acquire: the same", sees_stale_data<rel, rlx>(weak) == weak);
    expect("message passing, acquire without release: the same", sees_stale_data<rlx, acq>(weak) == weak);
    expect("message passing, release and acquire: never stale", !sees_stale_data<rel, acq>(weak));

    const auto buffering = explore(weak,
                                   {[] { mem::store<rlx>(x, 1u), r[0] = mem::load<rlx>(y); },
                                    [] { mem::store<rlx>(y, 1u), r[1] = mem::load<rlx>(x); }},
                                   reads);
    expect("store buffering: both miss only in weak memory",
           buffering.all.count("0 0") == weak && buffering.all.size() == 3u + weak);

    const auto writes = explore(weak,
                                {[] { mem::store<rlx>(x, 1u), mem::store<rlx>(y, 2u); },
                                 [] { mem::store<rlx>(y, 1u), mem::store<rlx>(x, 2u); }},
                                memory);
    expect("2+2W: both first stores last only in weak memory", writes.all.count("1 1") == weak);

    const auto coherence = explore(weak,
                                   {[] { mem::store<rlx>(x, 1u), mem::store<rlx>(x, 2u); },
                                    [] { r[0] = mem::load<rlx>(x), r[1] = mem::load<rlx>(x); }},
                                   reads);
    expect("coherence: never an older value after a newer one",
           coherence.all == std::set<std::string>{"0 0", "0 1", "0 2", "1 1", "1 2", "2 2"});

    const auto opposite = explore(weak,
                                  {[] { mem::store<rlx>(x, 1u); }, [] { mem::store<rlx>(y, 1u); },
                                   [] { r[0] = mem::load<rlx>(x), r[1] = mem::load<rlx>(y); },
                                   [] { r[2] = mem::load<rlx>(y), r[3] = mem::load<rlx>(x); }},
                                  [] { return reads() + " " + two(r[2], r[3]); });
    expect("IRIW: readers disagree only in weak memory", opposite.all.count("1 0 1 0") == weak);

    const auto load_buffering = explore(weak,
                                        {[] { r[0] = mem::load<rlx>(x), mem::store<rlx>(y, 1u); },
                                         [] { r[1] = mem::load<rlx>(y), mem::store<rlx>(x, 1u); }},
                                        reads);
    expect("load buffering: not modelled", !load_buffering.all.count("1 1"));

    const auto idle_stores =
        explore(weak,
                {[] { mem::store<rlx>(x, 0u), mem::store<rlx>(x, 0u), mem::store<rlx>(x, 0u), mem::store<rlx>(y, 1u); },
                 [] { r[0] = mem::load<rlx>(y); }},
                [] { return std::to_string(r[0]); });
    expect("stores that change nothing lead on", idle_stores.all == std::set<std::string>{"0", "1"});

    const auto add = explore(
        weak, {[] { mem::fetch_add<rlx>(x, 1u); }, [] { mem::fetch_add<rlx>(x, 1u); }, [] { mem::store<rlx>(y, 5u); }},
        memory);
    expect("additions are never lost", add.all == std::set<std::string>{"2 5"});

    const auto between = explore(weak, {[] { mem::fetch_add<rlx>(x, 1u); }, [] { mem::store<rlx>(x, 10u); }}, memory);
    expect("a store does not come between the halves of an addition",
           between.all == std::set<std::string>{"10 0", "11 0"});

    const auto sequence =
        explore(weak,
                {[] { mem::store<rlx>(x, 1u), mem::store<rel>(y, 1u); }, [] { mem::fetch_add<rlx>(y, 1u); },
                 [] { r[0] = mem::load<acq>(y), r[1] = mem::load<rlx>(x); }},
                reads);
    expect("a release is handed on by a relaxed addition", !sequence.all.count("2 0") && sequence.all.count("2 1"));
    expect("... but a relaxed addition of its own releases nothing", sequence.all.count("1 0"));

    const auto swap = explore(weak, {[] { r[0] = mem::cas<rlx>(x, 0u, 1u); }, [] { r[1] = mem::cas<rlx>(x, 0u, 2u); }},
                              [] { return reads() + " " + memory(); });
    expect("one of two compare-and-swaps wins", swap.all == std::set<std::string>{"0 1 1 0", "2 0 2 0"});

    const auto wait = explore(weak,
                              {[] { mem::store<rlx>(x, 1u); },
                               [] {
                                 while (!mem::load<rlx>(x)) mem::relax();
                               }},
                              memory);
    expect("a wait ends when the other tile has written", wait.all == std::set<std::string>{"1 0"});
    const auto polling = explore(weak,
                                 {[] { mem::store<rlx>(y, 1u), mem::store<rlx>(x, 1u); },
                                  [] {
                                    while (!mem::load<rlx>(x)) mem::relax();
                                    r[0] = mem::load<rlx>(y);
                                  }},
                                 [] { return std::to_string(r[0]); });
    expect("polling one location orders no other one", polling.all.count("0") == weak && polling.all.count("1"));
    const auto changing = explore(weak,
                                  {[] { mem::store<rlx>(x, 1u); },
                                   [] {
                                     while (mem::load<rlx>(x) != mem::load<rlx>(x)) mem::relax();
                                   }},
                                  memory);
    expect("who has seen something change does not wait for more", changing.all == std::set<std::string>{"1 0"});
    const auto meeting = explore(weak,
                                 {[] { mem::store<rlx>(x, 1u), the_machine.meet(2), r[1] = mem::load<rlx>(y); },
                                  [] { mem::store<rlx>(y, 1u), the_machine.meet(2), r[0] = mem::load<rlx>(x); }},
                                 reads);
    expect("who meets sees what the others have written before", meeting.all == std::set<std::string>{"1 1"});
    const auto third = explore(
        weak,
        {[] { mem::store<rlx>(x, 1u), the_machine.meet(2); }, [] { the_machine.meet(2), mem::store<rlx>(y, 1u); },
         [] { r[0] = mem::load<rlx>(y), r[1] = mem::load<rlx>(x); }},
        reads);
    expect("... and others see the two in order but in weak memory", third.all.count("1 0") == weak);
    const auto alone = explore(weak, {[] { the_machine.meet(2); }, [] { mem::store<rlx>(x, 1u); }}, memory);
    expect("to wait for somebody who does not come hangs", alone.all == std::set<std::string>{"hang"});
    const auto stuck = explore(weak,
                               {[] {
                                  while (!mem::load<rlx>(x)) mem::relax();
                                },
                                [] {
                                  while (!mem::load<rlx>(y)) mem::relax();
                                }},
                               memory);
    expect("two waits for each other hang", stuck.all == std::set<std::string>{"hang"});
    const auto spin = explore(weak, {[] {
                                while (!mem::load<rlx>(x)) {
                                }
                              }},
                              memory);
    expect("a loop without relax() and without end hangs", spin.all == std::set<std::string>{"hang"});

    const auto fails = [] { return (fail_allocation() ? 1u : 0u) + (fail_allocation() ? 2u : 0u); };
    const auto allocation = explore(weak, {[&] { r[0] = fails(); }, [&] { r[1] = fails(); }}, reads, 1);
    expect("one of four allocations fails, or none",
           allocation.all == std::set<std::string>{"0 0", "1 0", "2 0", "0 1", "0 2"});

    const auto sizes = explore(weak, {[] {
                                 mem::load<rlx>(reinterpret_cast<u64*>(x));
                                 mem::load<rlx>(x);
                               }},
                               memory);
    expect("two access sizes of one location are refused", sizes.all == std::set<std::string>{"mixed sizes"});
    const auto outside = explore(weak, {[] { mem::load<rlx>(x + 4096); }}, memory);
    expect("an access outside the table is refused",
           outside.all.size() == 1 && outside.all.begin()->find("outside") != std::string::npos);
  }
  return failures != 0;
}
