// The checker for keys with several pairs against a brute force that tries every order and every choice, on random histories.
#include <stdio.h>

#include "libgpuhash/sched/multi_history.hpp"
#include "libgpuhash/sched/scheduler.hpp"

using namespace gpuhash;
using namespace gpuhash::sim;

struct history {
  std::vector<event> events;
  values start, end;
  bool ordered;
};

// Every order of everything that takes effect on its own, nothing else: no memo, no twins, nothing taken at once.
class brute_force {
 public:
  explicit brute_force(const history& h) : h_(h), left_(h.events.size()) {
    for (size_t i = 0; i < left_.size(); ++i) left_[i] = h.events[i].kind == erase_all ? h.events[i].returned + 1 : 1;
  }
  bool linearizable() {
    for (const event& e : h_.events)
      if (e.kind == erase_all && (e.status == yes) != (e.returned > 0)) return false;
    return search(h_.start);
  }

 private:
  bool search(values v) {
    bool all = true;
    for (u32 i = 0; i < left_.size(); ++i) {
      if (!left_[i]) continue;
      all = false;
      bool ready = true;
      for (u32 j = 0; j < left_.size(); ++j) ready &= !(h_.events[i].before >> j & 1) || !left_[j];
      if (ready && takes_effect(i, v)) return true;
    }
    std::sort(v.begin(), v.end());
    return all && v == h_.end;
  }

  bool takes_effect(u32 i, const values& v) {
    const event& e = h_.events[i];
    const u64 left = left_[i];
    bool found = false;
    if (e.kind ==
        erase_all) {  // its look comes last, or at any time when nothing is ordered: then bit 63 says that it was
      const u64 erases = left & ~looked;
      if (!(left & looked) && v.empty() && (erases == 1 || !h_.ordered)) {
        left_[i] = erases == 1 ? 0 : (left - 1) | looked;
        found = search(v);
      }
      if (!found && (left & looked ? erases : erases - 1)) {
        left_[i] = left - 1;
        if (left_[i] == looked) left_[i] = 0;
        found = any_without(v);
      }
    } else {
      left_[i] = 0;
      found = one(e, v);
    }
    left_[i] = left;
    return found;
  }

  bool one(const event& e, const values& v) {
    const bool none = v.empty(), yes_ = e.status == yes;
    if (e.status >= full) return in_kinds(e.kind, adding_kinds) && (none || e.kind == insert_multi) && search(v);
    switch (e.kind) {
      case insert_multi: return yes_ && search(plus(v, e.argument));
      case insert: return yes_ == none && search(none ? plus(v, e.argument) : v);
      case find:
        return yes_ ? std::count(v.begin(), v.end(), e.returned) && search(v) : none && !e.returned && search(v);
      case erase: return yes_ != none && (none ? search(v) : any_without(v));
      case pop: {
        if (none) return !yes_ && !e.returned && search(v);
        const auto at = std::find(v.begin(), v.end(), e.returned);
        if (!yes_ || at == v.end()) return false;
        values w = v;
        w.erase(w.begin() + (at - v.begin()));
        return search(w);
      }
      case find_or_insert:
        if (yes_) return none && e.returned == e.argument && search(plus(v, e.argument));
        return std::count(v.begin(), v.end(), e.returned) && search(v);
      default:  // assign, accumulate
        if (none) return yes_ && search(plus(v, e.argument));
        for (size_t i = 0; i < v.size() && !yes_; ++i) {
          values w = v;
          w[i] = e.kind == assign ? e.argument : w[i] + e.argument;
          if (search(w)) return true;
        }
        return false;
    }
  }
  bool any_without(const values& v) {
    for (size_t i = 0; i < v.size(); ++i) {
      values w = v;
      w.erase(w.begin() + long(i));
      if (search(w)) return true;
    }
    return false;
  }
  static values plus(values v, u64 x) {
    v.push_back(x);
    return v;
  }

  static constexpr u64 looked = 1ull << 63;
  const history& h_;
  std::vector<u64> left_;  // per event: what has still to take effect
};

// A key's pairs through time, to draw histories from: operation i takes effect at time 10 i + 5.
struct pair_life {
  u64 value;
  u32 born, died;
};

static history draw(random_source& r, u32 n, bool counts) {
  history h;
  h.ordered = r.below(4) != 0;
  const u32 some = r.below(2) ? 3 : 1000;  // few values: pairs that nothing tells apart
  std::vector<pair_life> pairs;
  for (u32 i = r.below(3); i; --i) pairs.push_back({1 + r.below(some), 0, ~0u});
  for (const pair_life& p : pairs) h.start.push_back(p.value);
  std::vector<u32> begin(n), finish(n);
  const auto live = [&](u32 t) {
    std::vector<u32> all;
    for (u32 i = 0; i < pairs.size(); ++i)
      if (pairs[i].born <= t && t < pairs[i].died) all.push_back(i);
    return all;
  };
  static constexpr u32 kinds[] = {insert,       assign,       accumulate, find, erase,
                                  insert_multi, insert_multi, erase_all,  pop,  find_or_insert};
  for (u32 i = 0; i < n; ++i) {
    const u32 now = 10 * i + 5;
    begin[i] = now - std::min(now, r.below(40)), finish[i] = now + r.below(40);
    event e{counts && r.below(4) == 0 ? u32(count) : kinds[r.below(10)], no, 1 + r.below(some), 0, 0};
    std::vector<u32> there = live(now);
    if (in_kinds(e.kind, adding_kinds) && (there.empty() || e.kind == insert_multi)) {
      e.status = r.below(6) ? yes : no_memory;
      if (e.status == yes) pairs.push_back({e.argument, now, ~0u});
      if (e.status == yes && e.kind == find_or_insert) e.returned = e.argument;
    } else if (e.kind == assign || e.kind == accumulate) {
      u64& v = pairs[there[r.below(u32(there.size()))]].value;
      v = e.kind == assign ? e.argument : v + e.argument;
    } else if (e.kind == find_or_insert) {
      e.returned = pairs[there[r.below(u32(there.size()))]].value;
    } else if (e.kind == pop && !there.empty()) {
      pair_life& p = pairs[there[r.below(u32(there.size()))]];
      e.status = yes, e.returned = p.value, p.died = now;
    } else if (e.kind == find && !there.empty()) {
      e.status = yes, e.returned = pairs[there[r.below(u32(there.size()))]].value;
    } else if (e.kind == erase && !there.empty()) {
      e.status = yes, pairs[there[r.below(u32(there.size()))]].died = now;
    } else if (e.kind == erase_all) {
      e.returned = there.size(), e.status = e.returned ? yes : no;
      for (u32 p : there) pairs[p].died = now;
    }
    h.events.push_back(e);
  }
  for (u32 i : live(~0u - 1)) h.end.push_back(pairs[i].value);
  std::sort(h.end.begin(), h.end.end());
  for (u32 i = 0; i < n; ++i)
    for (u32 j = 0; j < n; ++j)
      if (h.ordered && finish[j] < begin[i]) h.events[i].before |= 1u << j;
  for (u32 i = 0; i < n; ++i) {
    event& e = h.events[i];
    if (e.kind != count) continue;
    for (const pair_life& p : pairs) {  // each pair is looked at some time
      const u32 at = begin[i] + r.below(finish[i] - begin[i] + 1);
      e.returned += p.born <= at && at < p.died;
    }
    e.status = e.returned ? yes : no;
  }
  return h;
}

static void spoil(random_source& r, history& h) {
  event& e = h.events[r.below(u32(h.events.size()))];
  switch (r.below(3)) {
    case 0: e.status = r.below(4) ? r.below(2) : u32(no_memory); break;
    case 1: e.returned = r.below(4); break;
    default:
      h.end.clear();
      for (u32 i = r.below(3); i; --i) h.end.push_back(1 + r.below(3));
      std::sort(h.end.begin(), h.end.end());
  }
}

int main() {
  random_source r(1);
  multi_history_checker checker;
  u64 histories = 0, linearizable = 0, disagreements = 0, counted = 0, refused = 0, missed = 0;
  const auto judge = [&](const history& h) { return checker.linearizable(h.events, h.start, h.end, h.ordered); };
  for (u32 i = 0; i < 150000; ++i) {
    history h = draw(r, 1 + r.below(i % 20 ? 5 : 6), false);
    if (r.below(2)) spoil(r, h);
    const bool expected = brute_force(h).linearizable();
    ++histories, linearizable += expected;
    disagreements += judge(h) != expected;
  }
  for (u32 i = 0; i < 50000; ++i) {  // counts: what may be seen is not refused, what cannot be is
    history h = draw(r, 2 + r.below(6), true);
    ++counted, refused += !judge(h);
    for (event& e : h.events)
      if (e.kind == count) {
        e.returned += h.start.size() + h.events.size(), e.status = yes;
        missed += judge(h);
        break;
      }
  }
  printf(
      "{\"histories\": %llu, \"linearizable\": %llu, \"disagreements\": %llu, \"counted\": %llu, \"refused\": %llu, "
      "\"missed\": %llu}\n",
      histories, linearizable, disagreements, counted, refused, missed);
  return disagreements || refused || missed;
}
