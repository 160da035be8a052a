// The invariants of layout.hpp, tested on a table in plain memory that no batch uses.
#pragma once
#include <string.h>

#include <string>
#include <vector>

#include "layout.hpp"

namespace gpuhash {

template <class F>
class skip_check {
  using table = skip_table<F>;
  using key = typename F::key;
  using word = typename F::word;

 public:
  explicit skip_check(const table& t) : t_(t), taken_(*t.taken < t.capacity ? *t.taken : t.capacity) {
    low_.resize(taken_);
    level_of_.assign(taken_, u8(~0));
  }

  // What is where. Filled by run().
  u64 live = 0;                  // entries of level 0
  u64 chunks[most_levels] = {};  // live ones
  u64 names = 0;                 // entries above level 0
  u64 zombies = 0;

  // The first broken invariant in one sentence, or "".
  std::string run() {
    if (*t_.top >= t_.levels) return "the top level is " + std::to_string(*t_.top) + " of " + std::to_string(t_.levels);
    u64 listed = 0;
    for (u32 l = 0; l < t_.levels; ++l) {
      const std::string wrong = level(l);
      if (!wrong.empty()) return wrong;
      listed += chunks[l];
    }
    for (u32 i = 0; i < taken_; ++i) {
      const u32 link = table::link_of(next_of(t_.handle_of(i)));
      if (!table::is_gone(link)) continue;
      ++zombies;
      if (live_target(t_.handle_of(i)) == none) return "G6: zombie " + std::to_string(i) + " leads to no live chunk";
    }
    if (listed + zombies != taken_)
      return "G8: " + std::to_string(taken_) + " chunks were handed out, " + std::to_string(listed) +
             " are on levels and " + std::to_string(zombies) + " are zombies";
    return "";
  }
  // The same of the chunks that were not handed out.
  std::string run_spare() const {
    for (u32 i = taken_; i < t_.capacity; ++i) {
      const word* const c = t_.chunk(t_.handle_of(i));
      const auto* const bytes = reinterpret_cast<const unsigned char*>(c);
      if (bytes[0] != 0xff || memcmp(bytes, bytes + 1, t_.slots * sizeof(word) - 1) != 0)
        return "chunk " + std::to_string(i) + " was not handed out and is not empty";
    }
    return "";
  }
  bool owns(u32 handle) const {
    const u32 s = handle >> offset_bits;
    return s < t_.segments &&
           t_.first[s] + (handle & (segment_chunks - 1)) < (s + 1 < t_.segments ? t_.first[s + 1] : taken_);
  }
  // Where a zombie's links lead, or none.
  u32 live_target(u32 handle) const {
    for (u64 hops = 0; hops <= taken_; ++hops) {
      if (!owns(handle)) return none;
      const u32 link = table::link_of(next_of(handle));
      if (!table::is_gone(link)) return handle;
      handle = table::target(link);
    }
    return none;
  }
  word next_of(u32 handle) const { return t_.chunk(handle)[t_.slots - 2]; }

 private:
  std::string level(u32 l) {
    const auto bad = [&](const char* which, u32 handle, const char* what) {
      return std::string(which) + ": level " + std::to_string(l) + ", chunk " + std::to_string(handle) + ": " + what;
    };
    key low = 0;
    for (u32 at = table::head(l);;) {
      if (!owns(at)) return bad("G1", at, "is not of this pool");
      if (level_of_[number(at)] != u8(~0)) return bad("G1", at, "two links lead here");
      low_[number(at)] = low;
      level_of_[number(at)] = u8(l);
      ++chunks[l];
      const word* const c = t_.chunk(at);
      const word next = c[t_.slots - 2];
      const u32 link = table::link_of(next);
      const key max = F::key_of(next);
      if (table::is_gone(link)) return bad("G1", at, "a zombie is on the level");
      if (table::is_locked(c[t_.slots - 1])) return bad("G7", at, "is locked");
      if (table::level_of(c[t_.slots - 1]) != l) return bad("G1", at, "says that it is on another level");
      if (max < low) return bad("G1", at, "its max is below its low");
      key before = 0;
      u32 n = 0;
      for (u32 i = 0; i < t_.entries(); ++i) {
        const key k = F::key_of(c[i]);
        if (k == table::no_key) continue;
        if (n != i) return bad("G3", at, "an empty word lies before an entry");
        if (n && k <= before) return bad("G3", at, "its entries are not sorted");
        if (k < low || k > max) return bad("G3", at, "an entry lies outside low and max");
        before = k;
        ++n;
        if (l == 0) continue;
        const std::string wrong = named(l, u32(F::value_of(c[i])), k);
        if (!wrong.empty()) return bad("G4", at, wrong.c_str());
      }
      if (l && (n == 0 || F::key_of(c[0]) != low)) return bad("G5", at, "its first entry's key is not its low");
      if (l && l > *t_.top && (n != 1 || link != none))
        return bad("G5", at, "it is above the top level and has entries");
      (l ? names : live) += n;
      if (link == none) return max == table::no_key ? "" : bad("G1", at, "the last chunk does not reach to the end");
      low = key(max + 1);
      at = link;
    }
  }
  // Does the chunk that an entry of level l with key k names begin at k or before it?
  std::string named(u32 l, u32 child, key k) const {
    const u32 to = live_target(child);
    if (to == none) return "an entry names no chunk";
    if (level_of_[number(to)] != l - 1) return "an entry names a chunk of another level";
    return low_[number(to)] <= k ? "" : "an entry names a chunk that begins behind it";
  }
  u32 number(u32 handle) const { return t_.first[handle >> offset_bits] + (handle & (segment_chunks - 1)); }

  const table& t_;
  const u32 taken_;
  std::vector<key> low_;      // by number of the chunk, where level_of_ says that it was met
  std::vector<u8> level_of_;  // ~0: not yet
};

// The heads of an empty table, in plain memory.
template <class F>
void write_heads(const skip_table<F>& t, typename F::word* to) {
  using table = skip_table<F>;
  for (u32 l = 0; l < t.levels; ++l) {
    typename F::word* const c = to + u64(l) * t.slots;
    for (u32 i = 0; i < t.slots; ++i) c[i] = empty_word<F>();
    if (l) c[0] = F::make(0, table::head(l - 1));
    c[t.slots - 2] = table::next_word(table::no_key, none);
    c[t.slots - 1] = table::fresh_lock(l);
  }
}

}  // namespace gpuhash
