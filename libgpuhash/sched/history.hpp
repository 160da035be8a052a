// Is a history of operations on one key linearizable? Wing and Gong's search, with a memo.
//
// A map is linearizable when each of its keys is (locality, Herlihy and Wing 1990), so every key is checked on its own:
// is there an order of its operations that keeps every "ended before the other began", starts at the key's state before
// the run, gives each operation the result that it reported, and ends at the state that the table shows afterwards?
#pragma once
#include <vector>

#include "libgpuhash/tile/types.hpp"

namespace gpuhash::sim {

struct key_state {
  bool present;
  u64 value;
  bool operator==(const key_state&) const = default;
};

struct event {
  u32 kind;      // types.hpp
  u32 status;    // outcome
  u64 argument;  // insert, assign: the value; accumulate: what was added
  u64 returned;  // find: the value
  u32 before;    // bit i: event i had ended when this one began
};

// Applies e to the state if its result is right there; otherwise returns false and leaves the state alone.
inline bool apply(const event& e, key_state& s) {
  if (e.status == full || e.status == no_memory)  // nothing was done, and nobody may say so who could see the key
    return !s.present && (e.kind == insert || e.kind == assign || e.kind == accumulate);
  const bool yes_ = e.status == yes;
  switch (e.kind) {
    case insert:
      if (yes_ == s.present) return false;
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
    case find:
      return yes_ == s.present && e.returned == (s.present ? s.value : 0);
    case erase:
      if (yes_ != s.present) return false;
      s = {false, 0};
      return true;
    default:
      return true;  // nop
  }
}

class history_checker {
 public:
  static constexpr u32 max_events = 32;

  bool linearizable(const std::vector<event>& events, key_state start, key_state end) {
    events_ = &events;
    end_ = end;
    all_ = events.size() == 32 ? ~0u : (1u << events.size()) - 1;
    failed_.clear();
    return search(0, start);
  }

 private:
  struct dead_end {
    u32 done;
    key_state state;
  };

  bool search(u32 done, key_state state) {
    if (done == all_) return state == end_;
    const bool remember = events_->size() > 4;  // below that, looking up costs more than searching again
    if (remember)
      for (const dead_end& d : failed_)
        if (d.done == done && d.state == state) return false;
    for (u32 rest = all_ & ~done; rest; rest &= rest - 1) {
      const u32 i = u32(__builtin_ctz(rest));
      const event& e = (*events_)[i];
      key_state then = state;
      if ((e.before & ~done) == 0 && apply(e, then) && search(done | 1u << i, then)) return true;
    }
    if (remember) failed_.push_back({done, state});
    return false;
  }

  const std::vector<event>* events_ = nullptr;
  key_state end_{};
  u32 all_ = 0;
  std::vector<dead_end> failed_;
};

}  // namespace gpuhash::sim
