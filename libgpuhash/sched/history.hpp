// Is a history of operations on one key linearizable? Wing and Gong's search, with a memo.
//
// A map is linearizable when each of its keys is (locality, Herlihy and Wing 1990), so every key is checked on its own:
// is there an order of its operations that keeps every "ended before the other began", starts at the key's state before
// the run, gives each operation the result that it reported, and ends at the state that the table shows afterwards?
#pragma once
#include <algorithm>
#include <vector>

#include "libgpuhash/tile/kinds.hpp"

namespace gpuhash::sim {

struct key_state {
  bool present;
  u64 value;
  bool operator==(const key_state&) const = default;
};

struct event {
  u32 kind;      // kinds.hpp
  u32 status;    // outcome
  u64 argument;  // insert, find_or_insert, assign: the value; accumulate: what was added
  u64 returned;  // find, pop, find_or_insert: the value; count, erase_all: how many
  u32 before;    // bit i: event i had ended when this one began
};

// Applies e to the state if its result is right there; otherwise returns false and leaves the state alone.
inline bool apply(const event& e, key_state& s) {
  // Nothing was done. An operation that could see the key may not say so.
  if (e.status == full || e.status == no_memory) return !s.present && in_kinds(e.kind, adding_kinds);
  const bool yes_ = e.status == yes;
  switch (e.kind) {
    case insert:
      if (yes_ == s.present) return false;
      if (yes_) s = {true, e.argument};
      return true;
    case find_or_insert:
      if (yes_ == s.present || e.returned != (s.present ? s.value : e.argument)) return false;
      if (yes_) s = {true, e.argument};
      return true;
    case assign:
      if (yes_ == s.present) return false;
      s = {true, e.argument};
      return true;
    case accumulate:
      if (yes_ == s.present) return false;
      s = {true, s.present ? s.value + e.argument : e.argument};
      return true;
    case find: return yes_ == s.present && e.returned == (s.present ? s.value : 0);
    case count: return yes_ == s.present && e.returned == s.present;
    case erase:
    case erase_all:
      if (yes_ != s.present || (e.kind == erase_all && e.returned != s.present)) return false;
      s = {false, 0};
      return true;
    case pop:
      if (yes_ != s.present || e.returned != s.value) return false;
      s = {false, 0};
      return true;
    default: return true;  // nop
  }
}

// Does e leave the key as it is, whatever order it is put into?
inline bool only_looks(const event& e) {
  return e.status >= full || e.kind == find || e.kind == count || e.kind == nop ||
         (e.status == no && in_kinds(e.kind, writing_kinds & ~changing_kinds));
}

class history_checker {
 public:
  static constexpr u32 max_events = 32;

  bool linearizable(const std::vector<event>& events, key_state start, key_state end) {
    events_ = &events;
    end_ = end;
    all_ = events.size() == 32 ? ~0u : (1u << events.size()) - 1;
    remember_ = events.size() > 4;  // below that, looking up costs more than searching again
    if (remember_) {
      failed_.clear();
      find_twins();
    }
    return search(0, start);
  }

 private:
  struct dead_end {
    u32 done;
    key_state state;
  };

  // Dead ends that were met, by open addressing.
  class memo {
   public:
    void clear() {
      if (size_) std::fill(places_.begin(), places_.end(), dead_end{0, {}});
      size_ = 0;
    }
    bool holds(const dead_end& d) const { return places_[find(d)].done != 0; }
    void add(const dead_end& d) {
      if (2 * ++size_ > places_.size()) {
        std::vector<dead_end> old(places_.size() * 2);
        old.swap(places_);
        for (const dead_end& o : old)
          if (o.done) places_[find(o)] = o;
      }
      places_[find(d)] = d;
    }

   private:
    size_t find(const dead_end& d) const {  // done is never 0 here: the search that fails at once is not repeated
      const size_t mask = places_.size() - 1;
      u64 h = (d.done * 2ull + d.state.present) * 0x9e3779b97f4a7c15ull ^ d.state.value * 0xbf58476d1ce4e5b9ull;
      for (size_t i = (h ^ h >> 32) & mask;; i = (i + 1) & mask)
        if (!places_[i].done || (places_[i].done == d.done && places_[i].state == d.state)) return i;
    }
    std::vector<dead_end> places_ = std::vector<dead_end>(64);
    size_t size_ = 0;
  };

  // Events that nothing tells apart may be taken in the order of their numbers: twin_[j] comes before j.
  void find_twins() {
    const auto& e = *events_;
    for (u32 j = 0; j < e.size(); ++j) {
      twin_[j] = 0;
      for (u32 i = j; i-- && !twin_[j];) {
        bool same = e[i].kind == e[j].kind && e[i].status == e[j].status && e[i].argument == e[j].argument &&
                    e[i].returned == e[j].returned && e[i].before == e[j].before;
        for (u32 k = 0; same && k < e.size(); ++k) same = (e[k].before >> i & 1) == (e[k].before >> j & 1);
        if (same) twin_[j] = 1u << i;
      }
    }
  }

  bool search(u32 done, key_state state) {
    const auto& e = *events_;
    // What only looks, and sees what it reported, is taken at once: later it could not do better.
    for (u32 rest = all_ & ~done; rest; rest &= rest - 1) {
      const u32 i = u32(__builtin_ctz(rest));
      if ((e[i].before & ~done) == 0 && only_looks(e[i]) && apply(e[i], state)) {
        return search(done | 1u << i, state);
      }
    }
    if (done == all_) return state == end_;
    if (remember_ && done && failed_.holds({done, state})) return false;
    for (u32 rest = all_ & ~done; rest; rest &= rest - 1) {
      const u32 i = u32(__builtin_ctz(rest));
      key_state then = state;
      if ((e[i].before & ~done) || only_looks(e[i]) || (remember_ && twin_[i] & ~done)) continue;
      if (apply(e[i], then) && search(done | 1u << i, then)) return true;
    }
    if (remember_ && done) failed_.add({done, state});
    return false;
  }

  const std::vector<event>* events_ = nullptr;
  key_state end_{};
  u32 all_ = 0;
  bool remember_ = false;
  u32 twin_[max_events] = {};
  memo failed_;
};

}  // namespace gpuhash::sim
