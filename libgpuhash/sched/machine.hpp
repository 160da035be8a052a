// The simulated machine: a few tiles (fibers), one small memory, and a scheduler that is asked whenever the outcome could
// depend on the answer.
//
// Memory, sequentially consistent: an access takes effect when its tile is scheduled.
//
// Memory, weak: the view semantics of the release-acquire fragment of C++ (Kang, Hur, Lahav, Vafeiadis, Dreyer, "A
// promising semantics", POPL 2017, without promises). Each location keeps all messages ever written to it, in one
// order. A tile's view says, per location, how far along that order it is bound to be.
//   load     returns any message that its view permits, and the view moves up to it; an acquire load also takes over the
//            view that the message carries
//   store    goes anywhere after the tile's view, but not between a read-modify-write and the message that it read; a
//            release store carries the tile's view
//   read-modify-write   reads the newest message and goes right behind it; it hands on the view that the message it read
//            carries (release sequences). A compare-and-swap may also fail on an older message that differs from what it
//            expects.
// So relaxed stores are delayed and reordered, for each observer on its own. Not modelled: loads that run ahead of an
// earlier load's consequences (load buffering).
//   fence    acquires and releases: the tile's view takes over the views of all messages that it has read, and every later
//            store of the tile, relaxed ones included, carries the view that the tile has at the fence
//
// Accesses that no other tile can disturb: a cell that no run of a program ever writes reads the same at any time, so
// reading it is no occasion to ask. The machine starts with no cell `watched`, and when a write hits an unwatched one it
// adds the cell and asks for a fresh start (more_watched); once no run does that, every interleaving of the program is
// equivalent to one that was explored. The first access of an operation always asks, because it decides what ended before
// it began.
//
// Waiting: relax() blocks its tile until another one has written to a cell that the tile has read since its last relax(),
// because until then it would read the same again; meet() is a barrier of several tiles, as a block's or as that between two
// kernels. Tiles that all wait, or a run without end, violate.
#pragma once
#include <string.h>
#include <sys/mman.h>

#include <algorithm>
#include <new>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "libgpuhash/sched/fiber.hpp"
#include "libgpuhash/sched/scheduler.hpp"
#include "libgpuhash/tile/mutant.hpp"
#include "libgpuhash/tile/types.hpp"

namespace gpuhash::sim {

inline constexpr u32 max_tiles = 6, max_ops = 32;
inline constexpr u32 memory_bytes = 4096, cell_bytes = 4, max_cells = memory_bytes / cell_bytes;
inline constexpr u64 max_steps = 20000;

inline u64 stir(u64 a, u64 b) {
  const u64 x = (a ^ b * 0x9e3779b97f4a7c15ull) * 0xbf58476d1ce4e5b9ull;
  return x ^ x >> 32;
}

template <class T>
u128 wide_value(T v) {
  if constexpr (sizeof(T) == 16)
    return v;
  else
    return {u64(v), 0};
}
template <class T>
T narrow_value(u128 v) {
  if constexpr (sizeof(T) == 16)
    return v;
  else
    return T(v.lo);
}

// Messages of the weak mode.
class message_store {
 public:
  struct message {
    u128 value;
    std::vector<u8> view;  // empty: carries none
    bool glued;            // written by a read-modify-write of the message before it
  };

  void clear(u32 tiles, u32 cells) {
    for (u32 c : touched_) at_[c].by_age.clear(), at_[c].order.clear();
    touched_.clear();
    views_.assign(tiles, std::vector<u8>(cells));
    polled_.assign(tiles, {});
    read_.assign(tiles, {});
    fenced_.assign(tiles, {});
    hash_ = 0;
  }
  void fence(u32 tile) {
    std::vector<u8>& mine = views_[tile];
    for (const auto& view : read_[tile]) join(mine, view);
    read_[tile].clear();
    fenced_[tile] = mine;
  }
  // All of these tiles get the view of them all. Returns a hash of it.
  u64 meet(u32 some) {
    std::vector<u8> all = views_[u32(__builtin_ctz(some))];
    for (u32 m = some; m; m &= m - 1) join(all, views_[u32(__builtin_ctz(m))]);
    for (u32 m = some; m; m &= m - 1) views_[u32(__builtin_ctz(m))] = all;
    u64 h = 0;
    for (u8 v : all) h = stir(h, v);
    return h;
  }
  // The messages of a cell, newest last; first holds what was in memory when the run began.
  std::vector<u8>& order(u32 cell, u128 initial) {
    location& l = at_[cell];
    if (l.by_age.empty()) {
      touched_.push_back(cell);
      l.by_age.push_back({initial, {}, false});
      l.order.push_back(0);
    }
    return l.order;
  }
  message& get(u32 cell, u8 id) { return at_[cell].by_age[id]; }

  // Position in the order of the cell that tile's view has reached.
  u32 reached(u32 tile, u32 cell) { return rank(cell, views_[tile][cell]); }

  void see(u32 tile, u32 cell, u8 id, bool acquire) {
    std::vector<u8>& mine = views_[tile];
    mine[cell] = id;
    polled_[tile].push_back({cell, id});
    if (acquire)
      join(mine, get(cell, id).view);
    else if (!get(cell, id).view.empty())
      read_[tile].push_back(get(cell, id).view);
  }

  // Puts a new message at a position of the cell's order. over: the view of the message that a read-modify-write read.
  // Returns the message's name: cell and id in one.
  u64 put(u32 tile, u32 cell, u32 position, u128 value, bool release, const std::vector<u8>* over) {
    location& l = at_[cell];
    const u8 id = u8(l.by_age.size());
    std::vector<u8> carried;
    if (over) carried = *over;
    for (auto& [c, seen] : polled_[tile])  // what it writes itself is nothing new to it
      if (c == cell && position == l.order.size() && seen == l.order.back()) seen = id;
    l.order.insert(l.order.begin() + position, id);
    views_[tile][cell] = id;
    l.by_age.push_back({value, {}, over != nullptr});
    if (!fenced_[tile].empty()) {
      if (carried.empty())
        carried = fenced_[tile];
      else
        join(carried, fenced_[tile]);
      carried[cell] = id;
    }
    if (release) {
      if (carried.empty())
        carried = views_[tile];
      else
        join(carried, views_[tile]);
    }
    u64 h = stir(stir(value.lo, value.hi), u64(cell) * 256 + id);
    for (u8 v : carried) h = stir(h, v);
    for (u8 o : l.order) h = stir(h, o);
    hash_ += stir(h, over != nullptr);
    l.by_age.back().view = std::move(carried);
    return u64(cell) * 256 + id;
  }

  // Sooner or later every store is seen: moves tile's view of what it read since the last call up to the newest. Other
  // locations stay as they are, since polling one orders nothing else. Returns 0 if nothing moved, else a hash of it.
  // *anew: would it read something else now? Also where it has seen the newest message since, by a later load or a fence.
  u64 catch_up(u32 tile, bool* anew) {
    u64 moved = 0;
    for (const auto& [c, id] : polled_[tile]) {
      u8& mine = views_[tile][c];
      *anew |= at_[c].order.back() != id;
      if (at_[c].order.back() == mine) continue;
      mine = at_[c].order.back();
      moved = stir(moved + 1, u64(c) * 256 + mine);
    }
    polled_[tile].clear();
    return moved;
  }
  u64 hash() const { return hash_; }

 private:
  struct location {
    std::vector<message> by_age;  // index: id
    std::vector<u8> order;        // ids, as the location's stores are ordered
  };
  u32 rank(u32 cell, u8 id) const {
    const auto& order = at_[cell].order;
    return u32(std::find(order.begin(), order.end(), id) - order.begin());
  }
  void join(std::vector<u8>& into, const std::vector<u8>& from) {
    for (u32 c : touched_)
      if (c < from.size() && from[c] != into[c] && rank(c, from[c]) > rank(c, into[c])) into[c] = from[c];
  }

  location at_[max_cells];
  std::vector<u32> touched_;
  std::vector<std::vector<u8>> views_;              // per tile and cell: an id
  std::vector<std::vector<std::vector<u8>>> read_;  // per tile: views of what relaxed loads read since its last fence
  std::vector<std::vector<u8>> fenced_;             // per tile: its view at its last fence; empty: none yet
  std::vector<std::vector<std::pair<u32, u8>>>
      polled_;  // per tile: cells read since it last caught up, and the messages
  u64 hash_ = 0;
};

// What an access was, for the one who draws a replay.
struct access_record {
  u32 tile;
  const char* name;  // load, cas, ...
  const void* where;
  u32 bytes;
  u128 seen, wrote;
  bool writes;
  u32 stale;  // weak mode: how many messages behind the newest a load was
};

class machine {
 public:
  // ---- one run ------------------------------------------------------------------------------------------------------

  // Runs body(tile) on every tile under s. true when all came to their end; otherwise violation says why, or is empty when
  // the scheduler abandoned the run.
  bool run(u32 n_tiles, void (*body)(u32), scheduler& s) {
    scheduler_ = &s, body_ = body, n_tiles_ = n_tiles;
    put_back();
    n_taken = 0, steps = 0, finished_ops = 0, memory_hash_ = 0, failures_left_ = max_failures;
    violation.clear();
    completed_ = more_watched = false;
    if (weak) messages_.clear(n_tiles, used_ / cell_bytes);
    for (u32 t = 0; t < n_tiles; ++t) {
      tile_state& me = tiles_[t];
      me.observed = stir(t + 1, 0), me.row = 0;
      me.elected = true, me.others_wrote = me.in_row = me.idle = false;
      me.look = ++looks_;
      me.fresh_op = none;
      me.stack.restart(&machine::enter);
    }
    live_ = runnable_ = (1u << n_tiles) - 1, meeting_ = 0;
    scheduling_ = true;
    u8 who[max_tiles];
    for (u32 t = 0; t < n_tiles; ++t) who[t] = u8(t);
    const u32 answer = n_tiles > 1 ? s.choose({what::tile, n_tiles, who, false, 0}) : 0;
    if (answer == abandon) return scheduling_ = false;
    if (n_tiles > 1) taken[n_taken++] = u8(answer);
    current = answer;
    switch_context(main_, tiles_[current].stack.here);
    scheduling_ = false;
    return completed_;
  }

  // The initial memory of later runs is what it holds now.
  void keep_image() { memcpy(image_, memory, used_); }
  void put_back() { memcpy(memory, image_, used_); }
  void clear_memory() {
    memset(memory, 0xff, memory_bytes);
    memset(word_bytes_, 0, sizeof word_bytes_);
    watch_all(true);
    used_ = 0;
    violation.clear();
  }
  template <class T>
  T* place(u32 n, u32 alignment = 16) {
    used_ = (used_ + alignment - 1) / alignment * alignment;
    if (used_ + n * sizeof(T) > memory_bytes) fail("the initial table does not fit the simulated memory");
    T* p = reinterpret_cast<T*>(memory + used_);
    used_ += u32(n * sizeof(T));
    return p;
  }

  // ---- what a run asks and tells ------------------------------------------------------------------------------------

  // The next access of this tile begins operation i: that is the latest moment at which it can have been invoked.
  void begin_op(u32 i, u32 kind) { tiles_[current].fresh_op = i, tiles_[current].kind = kind; }
  void end_op(u32 i) {
    if (tiles_[current].fresh_op != none) invoke(tiles_[current]);  // it made no access
    finished_ops |= 1u << i;
  }

  // Which of the slots in left is read next? Unwatched ones go first: their moment makes no difference.
  template <class T>
  u32 next_slot(const T* line, u32 left) {
    u32 quiet = 0;
    if (scheduling_)
      for (u32 m = left; m; m &= m - 1)
        if (!watched(line + __builtin_ctz(m))) quiet |= m & -m;
    point(!quiet);
    u32 skip = 0;
    if (quiet) skip = u32(__builtin_popcount(left & ((quiet & -quiet) - 1)));
    if (scheduling_ && (left & (left - 1))) {
      if (quiet)
        note(skip);
      else
        skip = decide({what::slot, u32(__builtin_popcount(left)), nullptr, false, current});
    }
    while (skip--) left &= left - 1;
    return u32(__builtin_ctz(left));
  }
  // The slots of a row are learned together: in which order they were read makes no difference afterwards.
  void begin_row() { tiles_[current].in_row = true; }
  void end_row() {
    tile_state& me = tiles_[current];
    me.observed = stir(me.observed, me.row);
    me.row = 0;
    me.in_row = false;
  }

  // Does this allocation fail? At most max_failures do in a run.
  bool fail_allocation() {
    if (!scheduling_ || !failures_left_) return false;
    const bool fails = decide({what::failure, 2, nullptr, false, current}) != 0;
    failures_left_ -= fails;
    learn(stir(fails, 77));
    return fails;
  }

  // No access, so no occasion to ask: what it does is a function of what the tile has read.
  void fence() {
    if (weak && scheduling_) messages_.fence(current);
  }

  void relax() {
    if (!scheduling_) {
      if (++steps > max_steps) fail("hang: waits, and no other tile can go on");
      return;
    }
    tile_state& me = tiles_[current];
    bool again = me.others_wrote;
    if (weak)
      if (const u64 caught_up = messages_.catch_up(current, &again)) learn(caught_up);
    me.others_wrote = false;
    if (++steps > max_steps) fail("hang: a waiting loop does not end");
    if (again) {
      me.look = ++looks_;
      return;
    }
    runnable_ &= ~(1u << current);
    if (!runnable_) fail("hang: every tile waits for another");
    me.elected = true;
    resume(elect());
  }

  // A barrier: no tile goes on before n tiles have come, and then each of them sees what any of them has done or seen.
  // Who came last makes no difference.
  void meet(u32 n) {
    if (!scheduling_ || n == 1) return;
    meeting_ |= 1u << current;
    if (u32(__builtin_popcount(meeting_)) < n) {
      runnable_ &= ~(1u << current);
      if (!runnable_) fail("hang: every tile waits for another");
      tiles_[current].elected = true;
      return resume(elect());
    }
    if (weak) {
      const u64 seen = messages_.meet(meeting_);
      for (u32 m = meeting_; m; m &= m - 1)
        tiles_[__builtin_ctz(m)].observed = stir(tiles_[__builtin_ctz(m)].observed, seen);
    }
    runnable_ |= meeting_;
    meeting_ = 0;
  }

  [[noreturn]] void fail(std::string why) {
    violation = std::move(why);
    if (!scheduling_) throw violation;
    leave();
    __builtin_unreachable();
  }

  // ---- accesses -----------------------------------------------------------------------------------------------------

  template <class T>
  T load(const T* p, order o) {
    point(watched(p));
    return read(p, o);
  }
  // A load whose moment has come (tile/sim.hpp uses it for the slots of a row).
  template <class T>
  T read(const T* p, order o) {
    const u32 c = cell_of(p, sizeof(T));
    T v = *p;
    u32 stale = 0, id = 0;
    if (weak && scheduling_) {
      const std::vector<u8>& ids = messages_.order(c, wide_value(v));
      const u32 newest = u32(ids.size()) - 1, reached = messages_.reached(current, c);
      if (newest > reached) stale = decide({what::message, newest - reached + 1, nullptr, false, tag(c)});
      id = ids[newest - stale];
      messages_.see(current, c, u8(id), o == order::acquire);
      v = narrow_value<T>(messages_.get(c, u8(id)).value);
    }
    observe(c, wide_value(v), id);
    if (watcher) watcher({current, "load", p, sizeof(T), wide_value(v), {}, false, stale});
    return v;
  }

  template <class T>
  void store(T* p, T v, order o) {
    point(watched(p));
    const u32 c = cell_of(p, sizeof(T));
    u32 back = 0;
    if (weak && scheduling_) {
      const std::vector<u8>& ids = messages_.order(c, wide_value(*p));
      const u32 end = u32(ids.size()), reached = messages_.reached(current, c);
      u32 places = 0, at[256];
      for (u32 i = end; i > reached; --i)
        if (i == end || !messages_.get(c, ids[i]).glued) at[places++] = i;
      if (places > 1) back = decide({what::position, places, nullptr, false, tag(c)});
      learn(messages_.put(current, c, at[back], wide_value(v), o == order::release, nullptr));
    } else {
      learn(c);  // of a store that changes nothing the memory would not tell that it is done
    }
    const T old = *p;
    if (!back) write(p, v);
    wrote(c);
    if (watcher) watcher({current, "store", p, sizeof(T), wide_value(old), wide_value(v), true, back});
  }

  // f(seen) is what to write; returns what was seen.
  template <class T, class F>
  T modify(const char* name, T* p, order o, F f) {
    point(watched(p));
    const u32 c = cell_of(p, sizeof(T));
    const T seen = *p, next = f(seen);
    if (weak && scheduling_) {
      messages_.order(c, wide_value(seen));
      put_over(c, wide_value(next), o);
    }
    observe(c, wide_value(seen), 0);  // put_over has said which message that was
    write(p, next);
    wrote(c);
    if (watcher) watcher({current, name, p, sizeof(T), wide_value(seen), wide_value(next), true, 0});
    return seen;
  }

  template <class T>
  T cas(T* p, T expected, T desired, order o) {
    point(watched(p));
    const u32 c = cell_of(p, sizeof(T));
    T seen = *p;
    u32 id = 0, stale = 0;
    if (weak && scheduling_) {
      const std::vector<u8>& ids = messages_.order(c, wide_value(seen));
      const u32 newest = u32(ids.size()) - 1, reached = messages_.reached(current, c);
      // Alternatives: the newest message, and every older one in view on which the comparison fails.
      u32 n = 0, behind[256];
      for (u32 back = 0; back <= newest - reached; ++back)
        if (back == 0 || !(narrow_value<T>(messages_.get(c, ids[newest - back]).value) == expected)) behind[n++] = back;
      if (n > 1) stale = behind[decide({what::message, n, nullptr, false, tag(c)})];
      id = ids[newest - stale];
      seen = narrow_value<T>(messages_.get(c, u8(id)).value);
      if (seen == expected)
        put_over(c, wide_value(desired), o);
      else
        messages_.see(current, c, u8(id), o == order::acquire || o == order::acq_rel);
      // Lost to a write that the tile has not seen before: the next try will not see what this one did.
      if (!(seen == expected) && newest - stale > reached) tiles_[current].others_wrote = true;
    }
    observe(c, wide_value(seen), id);
    const bool won = seen == expected;
    if (won) write(p, desired), wrote(c);
    if (!won && weak) tiles_[current].others_wrote = true;  // it expected what it read before, and now knows better
    if (watcher) watcher({current, "cas", p, sizeof(T), wide_value(seen), wide_value(desired), won, stale});
    return seen;
  }

  // ---- watched cells ------------------------------------------------------------------------------------------------

  void watch_all(bool all) { memset(watched_, all, sizeof watched_); }

  // ---- state --------------------------------------------------------------------------------------------------------

  // A hash of all that later steps can depend on, but for the choice at hand.
  u64 state_hash() const {
    u64 h = weak ? messages_.hash() : memory_hash_;
    for (u32 t = 0; t < n_tiles_; ++t) {
      const tile_state& me = tiles_[t];
      h += stir(me.observed + me.row, (runnable_ >> t & 1) + 2 * me.others_wrote + 4 * (live_ >> t & 1));
    }
    return h;
  }
  // While set, the current tile must not write.
  void idle(bool yes) { tiles_[current].idle = yes; }
  u32 current_kind() const { return tiles_[current].kind; }
  u32 before(u32 op) const { return before_[op]; }
  u32 used() const { return used_; }
  bool holds(const void* p, u32 bytes) const {
    const auto* b = static_cast<const u8*>(p);
    return b >= memory && b + bytes <= memory + used_;
  }

  // At the same address in every process: operations may hash addresses, and a replay has to repeat that.
  u8* const memory = map_memory();
  bool weak = false;
  bool ordered = true;  // what ended before an operation began can be seen, by the history check
  u32 max_failures = 0;
  u32 current = 0;
  u64 steps = 0;
  u32 finished_ops = 0;
  void (*on_write)(const void* p, u128 old) = nullptr;  // after every write
  void (*watcher)(const access_record&) = nullptr;
  bool more_watched = false;  // the run was stopped because it wrote an unwatched cell, which is watched from now on
  std::string violation;
  u8 taken[4 * max_steps];  // the answers of this run
  u32 n_taken = 0;

 private:
  static constexpr u32 none = ~0u;

  struct tile_state {
    fiber stack;
    u64 observed;       // hash of everything this tile has learned: its local state is a function of it
    u64 row;            // the same for the row that is being read, in no order
    u64 look;           // begins with its last relax(): a number that no other look has
    bool elected;       // chosen for its next access already
    bool others_wrote;  // to what this tile has read since its last relax()
    bool in_row, idle;
    u32 kind;      // of the operation in progress
    u32 fresh_op;  // operation whose first access is still to come
  };

  static u8* map_memory() {
    void* const wanted = reinterpret_cast<void*>(0x6a5700000000);
    void* p = mmap(wanted, memory_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) throw std::bad_alloc();
    return static_cast<u8*>(p);
  }
  static void enter();

  void invoke(tile_state& me) {
    before_[me.fresh_op] = finished_ops;
    if (ordered) me.observed = stir(me.observed, finished_ops);
    me.fresh_op = none;
  }

  // Before each access: which tile goes on? An access that no other tile can disturb goes on by itself.
  void point(bool ask) {
    if (!scheduling_) return;
    if (++steps > max_steps) fail("hang: the run does not end (" + std::to_string(max_steps) + " accesses)");
    tile_state& me = tiles_[current];
    if (me.elected) {
      me.elected = false;  // the choice that started or woke the tile was the one for this access
    } else if (runnable_ & (runnable_ - 1)) {
      if (ask || me.fresh_op != none) {
        u8 who[max_tiles];
        const u32 n = others(who, 1) + 1;
        who[0] = u8(current);
        if (const u32 answer = decide({what::tile, n, who, true, 0})) resume(who[answer]);
      } else {
        note(0);
      }
    }
    if (me.fresh_op != none) invoke(me);
  }
  bool watched(const void* p) const {
    const u64 at = u64(static_cast<const u8*>(p) - memory);
    return at >= memory_bytes || watched_[at / cell_bytes];
  }

  u32 decide(const choice& c) {
    const u32 answer = scheduler_->choose(c);
    if (answer == abandon) leave();
    note(answer);
    return answer;
  }
  // Writes an answer down, also where it was not asked for: a replay watches everything.
  void note(u32 answer) {
    if (n_taken == sizeof taken) fail("hang: the run takes too many decisions");
    taken[n_taken++] = u8(answer);
  }
  u64 tag(u32 cell) const { return u64(cell) * max_tiles + current + max_tiles; }

  u32 others(u8* who, u32 from) const {
    u32 n = from;
    for (u32 m = runnable_ & ~(1u << current); m; m &= m - 1) who[n++] = u8(__builtin_ctz(m));
    return n - from;
  }
  // The current tile cannot go on: who does?
  u32 elect() {
    u8 who[max_tiles];
    u32 n = 0;
    for (u32 m = runnable_; m; m &= m - 1) who[n++] = u8(__builtin_ctz(m));
    return n > 1 ? who[decide({what::tile, n, who, false, 0})] : who[0];
  }
  void resume(u32 tile) {
    if (tile == current) return;
    context& from = tiles_[current].stack.here;
    current = tile;
    switch_context(from, tiles_[tile].stack.here);
  }
  void leave() { switch_context(tiles_[current].stack.here, main_); }

  void tile_ends() {
    live_ &= ~(1u << current), runnable_ &= ~(1u << current);
    if (!live_) {
      completed_ = true;
      leave();
    }
    if (!runnable_) fail("hang: every tile that is left waits for another");
    resume(elect());
  }

  void learn(u64 x) { tiles_[current].observed = stir(tiles_[current].observed, x); }
  void observe(u32 cell, u128 v, u32 id) {
    last_look_[current][cell] = tiles_[current].look;
    const u64 x = stir(stir(v.lo, v.hi), u64(cell) * 256 + id);
    if (tiles_[current].in_row)
      tiles_[current].row += x;
    else
      learn(x);
  }

  template <class T>
  void write(T* p, T v) {
    const u64 c = u64(reinterpret_cast<const u8*>(p) - memory);
    if (scheduling_ && !watched_[c / cell_bytes]) {
      watched_[c / cell_bytes] = more_watched = true;
      leave();
    }
    const u128 old = wide_value(*p), now = wide_value(v);
    memory_hash_ += stir(stir(now.lo, now.hi), c) - stir(stir(old.lo, old.hi), c);
    *p = v;
    if (on_write && scheduling_) on_write(p, old);
  }
  void wrote(u32 cell) {
    if (tiles_[current].idle) fail("lockstep: memory was written although go was false");
    for (u32 m = live_ & ~(1u << current); m; m &= m - 1) {
      const u32 t = u32(__builtin_ctz(m));
      if (last_look_[t][cell] != tiles_[t].look) continue;
      if ((runnable_ | meeting_) >> t & 1)
        tiles_[t].others_wrote = true;
      else
        runnable_ |= 1u << t, tiles_[t].look = ++looks_;
    }
  }
  void put_over(u32 cell, u128 v, order o) {
    const std::vector<u8>& ids = messages_.order(cell, v);
    messages_.see(current, cell, ids.back(), o == order::acquire || o == order::acq_rel);
    const bool release = o == order::release || o == order::acq_rel;
    learn(messages_.put(current, cell, u32(ids.size()), v, release, &messages_.get(cell, ids.back()).view));
  }

  // One access size per location, and never outside the table.
  u32 cell_of(const void* p, u32 bytes) {
    const u64 at = u64(static_cast<const u8*>(p) - memory);
    if (at + bytes > used_) fail("an access of " + std::to_string(bytes) + " bytes lies outside the table");
    if (at % bytes) fail("an access of " + std::to_string(bytes) + " bytes is misaligned");
    const u32 c = u32(at / cell_bytes);
    if (word_bytes_[c] != bytes) {
      for (u32 i = 0; i < bytes / cell_bytes; ++i) {
        if (word_bytes_[c + i])
          fail("mixed sizes: a location of " + std::to_string(word_bytes_[c + i]) + "-byte accesses sees one of " +
               std::to_string(bytes) + " bytes");
      }
      for (u32 i = 0; i < bytes / cell_bytes; ++i) word_bytes_[c + i] = i ? 255 : u8(bytes);
    }
    return c;
  }

  scheduler* scheduler_ = nullptr;
  void (*body_)(u32) = nullptr;
  u32 n_tiles_ = 0, live_ = 0, runnable_ = 0, meeting_ = 0, used_ = 0, failures_left_ = 0;
  bool scheduling_ = false, completed_ = false;
  u64 memory_hash_ = 0;
  context main_;
  tile_state tiles_[max_tiles];
  u64 looks_ = 0, last_look_[max_tiles][max_cells] = {};  // of a tile at a cell
  u32 before_[max_ops];
  u8 image_[memory_bytes];
  bool watched_[max_cells];
  u8 word_bytes_[max_cells];  // the size by which a location is accessed; 255: inside a word
  message_store messages_;
};

inline machine the_machine;

inline void machine::enter() {
  the_machine.body_(the_machine.current);
  the_machine.tile_ends();
}

// For allocators: does this allocation fail? A choice of the scheduler.
inline bool fail_allocation() { return the_machine.fail_allocation(); }

}  // namespace gpuhash::sim
