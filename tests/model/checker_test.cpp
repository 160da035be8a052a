// The history checker against a brute force that tries every order, on random histories.
#include <stdio.h>

#include "libgpuhash/sched/history.hpp"
#include "libgpuhash/sched/scheduler.hpp"

using namespace gpuhash;
using namespace gpuhash::sim;

// Every order, nothing else: no memo, no shortcut.
static bool brute_force(const std::vector<event>& events, u32 done, key_state state, key_state end) {
  if (done == (1u << events.size()) - 1) return state == end;
  for (u32 i = 0; i < events.size(); ++i) {
    key_state then = state;
    if (done >> i & 1 || (events[i].before & ~done) || !apply(events[i], then)) continue;
    if (brute_force(events, done | 1u << i, then, end)) return true;
  }
  return false;
}

struct history {
  std::vector<event> events;
  key_state start, end;
};

// Operations with random intervals. Their answers come from one serial order within the intervals, or (one history in
// two) some of them are then changed at random. few_values makes operations that nothing tells apart.
static history draw(random_source& r, u32 n, bool ordered) {
  history h;
  const bool few_values = r.below(2);
  h.start = {r.below(2) != 0, 0};
  if (h.start.present) h.start.value = r.below(3);
  std::vector<u32> begin(n), finish(n);
  key_state state = h.start;
  for (u32 i = 0; i < n; ++i) {  // operation i takes effect at time 10 i + 5
    begin[i] = 10 * i + 5 - std::min(10 * i + 5, r.below(40)), finish[i] = 10 * i + 5 + r.below(40);
    static constexpr u32 kinds[] = {insert, assign, accumulate, find, erase, pop, find_or_insert};
    event e{kinds[r.below(7)], 0, few_values ? 0 : 1 + r.below(4), 0, 0};
    if (!in_kinds(e.kind, operand_kinds)) e.argument = 0;
    const key_state before = state;
    e.status = no;
    if (in_kinds(e.kind, answering_kinds)) e.returned = before.present ? before.value : e.argument;
    if (!apply(e, state)) {
      e.status = yes;
      if (!apply(e, state)) __builtin_trap();  // one of the two answers is right in every state
    }
    if (in_kinds(e.kind, adding_kinds) && !before.present && r.below(4) == 0)
      e.status = r.below(2) ? full : no_memory, state = before;
    h.events.push_back(e);
  }
  h.end = state;
  if (ordered)
    for (u32 i = 0; i < n; ++i)
      for (u32 j = 0; j < n; ++j)
        if (finish[j] < begin[i]) h.events[i].before |= 1u << j;
  if (r.below(2))
    for (u32 changes = 1 + r.below(2); changes; --changes) {
      event& e = h.events[r.below(n)];
      switch (r.below(3)) {
        case 0: e.status = r.below(4) ? r.below(2) : u32(full); break;
        case 1: e.returned = r.below(4); break;
        default:
          h.end = {r.below(2) != 0, 0};
          if (h.end.present) h.end.value = r.below(4);
      }
    }
  return h;
}

int main() {
  random_source r(1);
  history_checker checker;
  u64 histories = 0, linearizable = 0, disagreements = 0;
  for (u32 i = 0; i < 200000; ++i) {
    const history h = draw(r, i % 20 ? 1 + r.below(6) : 7 + r.below(2), r.below(4) != 0);
    const bool expected = brute_force(h.events, 0, h.start, h.end);
    ++histories, linearizable += expected;
    disagreements += checker.linearizable(h.events, h.start, h.end) != expected;
  }
  printf("{\"histories\": %llu, \"linearizable\": %llu, \"disagreements\": %llu}\n", histories, linearizable,
         disagreements);
  return disagreements != 0;
}
