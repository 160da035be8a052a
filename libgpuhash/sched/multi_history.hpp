// Histories of a key that may have several pairs: is one linearizable, as a multiset of values?
//
// Which of a key's pairs an erase takes, an assign or accumulate changes and a find shows is not promised, so the search
// tries each. erase_all is as many erases as it says, one after the other, and then a look that finds no pair. count looks
// at one pair after the other and is atomic only while no operation writes the key: it is held to bounds, what surely was
// there throughout its interval and what may have been there at some moment of it.
//
// Where nothing orders the operations (weak memory), long histories are puzzles: after `patience` dead ends such a history
// counts as linearizable.
#pragma once
#include <set>
#include <utility>

#include "libgpuhash/kit/meaning.hpp"
#include "libgpuhash/sched/history.hpp"
#include "libgpuhash/sched/program.hpp"

namespace gpuhash::sim {

using values = std::vector<u64>;  // sorted

class multi_history_checker {
 public:
  static constexpr u32 max_parts = 64, patience = 1000;

  // events: as in history.hpp; erase_all returned how many it erased. ordered: the parts of an erase_all take effect one
  // after the other (weak memory knows no such order).
  bool linearizable(const std::vector<event>& events, values start, values end, bool ordered) {
    std::sort(start.begin(), start.end());
    std::sort(end.begin(), end.end());
    if (!counts_fit(events, start.size())) return false;
    take_apart(events, ordered);
    end_ = std::move(end);
    ordered_ = ordered;
    failed_.clear();
    return search(0, start);
  }

 private:
  struct part {
    event what;
    u64 before;  // bit i: part i comes first
    u64 twin;    // bit of a part that nothing tells apart from this one: it may as well come first
  };

  static bool takes_one(u32 kind) { return kind == erase || kind == pop; }
  static u32 added(const event& e) { return in_kinds(e.kind, adding_kinds) && e.status == yes; }
  static u64 erased(const event& e) { return e.kind == erase_all ? e.returned : takes_one(e.kind) && e.status == yes; }
  // Parts that change nothing, parts that want the key to be absent, and parts that change one value into another.
  static bool only_looks(const event& e) {
    return e.status >= full || e.kind == find || e.kind == nop ||
           (e.status == no && (e.kind == insert || e.kind == find_or_insert || takes_one(e.kind)));
  }
  static bool wants_none(const event& e) {
    if (e.kind == insert_multi || e.kind == nop) return false;
    return e.status >= full || (in_kinds(e.kind, adding_kinds) ? e.status == yes : e.status == no);
  }
  static bool changes(const event& e) { return e.status == no && (e.kind == assign || e.kind == accumulate); }

  static bool counts_fit(const std::vector<event>& events, u64 start) {
    for (u32 c = 0; c < events.size(); ++c) {
      const bool counts = events[c].kind == count;
      if ((counts || events[c].kind == erase_all) && (events[c].status == yes) != (events[c].returned > 0))
        return false;
      if (!counts) continue;
      u64 least = start, most = start, gone = 0;
      for (u32 i = 0; i < events.size(); ++i) {
        const bool ended = events[c].before >> i & 1, later = events[i].before >> c & 1;
        if (ended) least += added(events[i]), most -= erased(events[i]);
        if (!later) most += added(events[i]), gone += erased(events[i]);
      }
      least -= std::min(least, gone);
      if (events[c].returned < least || events[c].returned > most) return false;
    }
    return true;
  }

  void take_apart(const std::vector<event>& events, bool ordered) {
    parts_.clear();
    u64 of[history_checker::max_events] = {};  // the parts of each event
    for (u32 i = 0; i < events.size(); ++i) {
      const event& e = events[i];
      if (e.kind == count) continue;
      const u64 before = parts_.size();
      if (e.kind == erase_all)
        for (u64 n = 0; n < e.returned; ++n) parts_.push_back({{erase, yes, 0, 0, 0}, 0, 0});
      parts_.push_back({e.kind == erase_all ? event{find, no, 0, 0, 0} : e, 0, 0});
      if (parts_.size() > max_parts)
        throw bad_input("more than 64 operations and erased pairs of one key are too many to check");
      for (u64 p = before; p < parts_.size(); ++p) {
        parts_[p].before = ordered ? of[i] : 0;
        of[i] |= 1ull << p;
      }
    }
    for (u32 i = 0; i < events.size(); ++i)
      for (u32 j = 0; j < events.size(); ++j)
        if (events[i].before >> j & 1)
          for (u64 rest = of[i]; rest; rest &= rest - 1) parts_[u32(__builtin_ctzll(rest))].before |= of[j];
    all_ = parts_.size() == 64 ? ~0ull : (1ull << parts_.size()) - 1;
    if (parts_.size() > 4) find_twins();
  }
  void find_twins() {
    for (u32 j = 1; j < parts_.size(); ++j)
      for (u32 i = j; i-- && !parts_[j].twin;) {
        const event &a = parts_[i].what, &b = parts_[j].what;
        bool same = a.kind == b.kind && a.status == b.status && a.argument == b.argument && a.returned == b.returned &&
                    parts_[i].before == parts_[j].before;
        for (u32 k = 0; same && k < parts_.size(); ++k) same = !((parts_[k].before >> i ^ parts_[k].before >> j) & 1);
        if (same) parts_[j].twin = 1ull << i;
      }
  }

  // Is what a part reported right when the key has these values?
  static bool fits(const event& e, const values& v) {
    if (e.kind == nop) return true;
    if (e.kind == insert_multi) return e.status != no;
    if (e.status >= full) return v.empty() && in_kinds(e.kind, adding_kinds);
    if (e.kind == find_or_insert)
      return e.status == yes ? v.empty() && e.returned == e.argument
                             : std::binary_search(v.begin(), v.end(), e.returned);
    const bool answers = e.kind == find || e.kind == pop;
    if (answers && e.status == yes) return std::binary_search(v.begin(), v.end(), e.returned);
    return !(answers && e.returned) && wants_none(e) == v.empty();
  }
  static values without(values v, u64 x) {
    v.erase(std::lower_bound(v.begin(), v.end(), x));
    return v;
  }
  static values with(values v, u64 x) {
    v.insert(std::lower_bound(v.begin(), v.end(), x), x);
    return v;
  }

  bool search(u64 done, const values& v) {
    bool absence = false, change = false;  // does a part that is left want it, do it?
    for (u64 rest = all_ & ~done; rest; rest &= rest - 1) {
      const event& e = parts_[u32(__builtin_ctzll(rest))].what;
      absence |= wants_none(e), change |= changes(e);
    }
    // Some parts can be taken at once, since later is no better: what only looks, and while no part needs absence, what adds.
    for (u64 rest = all_ & ~done; rest; rest &= rest - 1) {
      const u32 i = u32(__builtin_ctzll(rest));
      const event& e = parts_[i].what;
      if ((parts_[i].before & ~done) || !fits(e, v)) continue;
      if (only_looks(e)) return search(done | 1ull << i, v);
      if (!absence && e.kind == insert_multi) return search(done | 1ull << i, with(v, e.argument));
    }
    if (done == all_) return v == end_;
    if (failed_.contains({done, v})) return false;
    for (u64 rest = all_ & ~done; rest; rest &= rest - 1) {
      const u32 i = u32(__builtin_ctzll(rest));
      const part& p = parts_[i];
      if (((p.before | p.twin) & ~done) || only_looks(p.what) || !fits(p.what, v)) continue;
      if (after(p.what, done | 1ull << i, v, change)) return true;
    }
    failed_.insert({done, v});
    return !ordered_ && failed_.size() > patience;
  }

  // Do the parts that are left fit after one that writes?
  bool after(const event& e, u64 done, const values& v, bool change) {
    if (added(e)) return search(done, with(v, e.argument));
    for (size_t i = 0; i < v.size(); ++i) {
      if (i && v[i] == v[i - 1]) continue;
      if (e.kind == pop && v[i] != e.returned) continue;
      if (takes_one(e.kind) && !change && must_stay(v[i], done, v)) continue;
      values then = without(v, v[i]);
      if (e.kind == assign) then = with(std::move(then), e.argument);
      if (e.kind == accumulate) then = with(std::move(then), v[i] + e.argument);
      if (search(done, then)) return true;
    }
    return false;
  }
  // Would there be too few of this value at the end, whatever is still added, if one of them went?
  bool must_stay(u64 x, u64 done, const values& v) const {
    long spare = std::count(v.begin(), v.end(), x) - std::count(end_.begin(), end_.end(), x);
    for (u64 rest = all_ & ~done; rest; rest &= rest - 1) {
      const event& e = parts_[u32(__builtin_ctzll(rest))].what;
      spare += added(e) && e.argument == x;
    }
    return spare <= 0;
  }

  std::vector<part> parts_;
  values end_;
  u64 all_ = 0;
  bool ordered_ = true;
  std::set<std::pair<u64, values>> failed_;
};

}  // namespace gpuhash::sim
