// skiplist: GFSL's chunks, levels and versions. Finds take no lock; updates lock one chunk, or two neighbours.
//
// After Moscovici, Cohen and Petrank (2017). Where this differs, README.md says why: a chunk's low never changes (G2), so
// that a search never backtracks or starts again; what is named above level 0 are chunks, not keys, so that each level is
// changed on its own; and no operation waits for a lock while it holds one.
//
// A search for k visits only chunks with low <= k (G2, G4, G6): down by an entry whose key is at most k, to the right where
// k > max, and on by a zombie's link. None of these steps becomes wrong later, so that above level 0 a row may be torn or
// stale and nothing has to be read twice.
//
// Updates: `slow` locks the chunk that encloses the key, looks again, and changes it. A split names its new chunk one level
// up, a merge takes the name of the chunk that is gone away; both after the locks are released, as an update of its own of
// the level above. Should that not be possible, searches take a step more, and nothing else is wrong.
//
// Linearization points:
//   hit       at the load of the entry: it is the live one, since a split clears what it moves before NEXT says so; or, in a
//             chunk that became a zombie after its NEXT was loaded, at that moment
//   miss      between two looks at LOCK that show the same even version; the row in between does not have the key
//   write     at the store of the entry, or of NEXT where that makes the entry count (a split that takes the key along)
//
// Chunks are also written by table.hpp, with dense.hpp, build.hpp and build.cuh, which hold the table exclusively: whole levels of
// new chunks for a large batch or a rebuild (G1, G3 to G5 are made anew, no zombie is left), and pairs that are appended to the
// last chunk of level 0, whose low stays (G2).
#pragma once
#include "layout.hpp"
#include "libgpuhash/kit/meaning.hpp"
#include "libgpuhash/tile/mutant.hpp"

GH_BEGIN

// The result of an update, and the work that it leaves to be done one level up.
enum class deed : u32 { lost, no, yes, no_memory, raise, remove };

// The update of one locked chunk: one lane, scalar accesses. `at` encloses k where it is locked and live.
template <class Mem, class Table>
struct locked_chunk {
  using F = typename Table::format;
  using key = typename F::key;
  using word = typename F::word;
  // deed, and the chunk that is to be named or forgotten one level up, at the key `low`.
  struct answer {
    deed what;
    u32 child = none;
    key low = 0;
  };

  const Table& t;
  const u32 handle;
  word* const c;
  const u32 n_slots;
  word before{};  // LOCK
  word next{};    // NEXT
  u32 n = 0;      // entries
  u32 pos = 0;    // those below the key
  word there{};   // the entry at pos

  GH_FN locked_chunk(const Table& table, u32 h) : t(table), handle(h), c(table.chunk(h)), n_slots(table.slots) {}

  GH_FN static word load(const word* p) { return Mem::template load<order::relaxed>(p); }
  GH_FN static void store(word* p, word w) { Mem::template store<order::relaxed>(p, w); }
  GH_FN static word empty() { return empty_word<F>(); }
  GH_FN u32 room() const { return n_slots - 2; }
  GH_FN word* lock_slot() const { return c + n_slots - 1; }
  GH_FN word* next_slot() const { return c + n_slots - 2; }

  GH_FN bool try_lock() {
    before = load(lock_slot());
    if (Table::is_locked(before)) return false;
    if (!(Mem::template cas<order::relaxed>(lock_slot(), before, Table::bumped(before)) == before)) return false;
    if (!GH_MUTANT(unfenced_lock)) Mem::fence();  // G7: what was written before is seen, and what follows stays behind
    next = load(next_slot());
    return true;
  }
  GH_FN void unlock_unchanged() const {
    Mem::fence();
    store(lock_slot(), before);
  }
  GH_FN void unlock() const {
    if (!GH_MUTANT(plain_unlock)) Mem::fence();
    store(lock_slot(), GH_MUTANT(kept_version) ? before : Table::bumped(Table::bumped(before)));
  }
  GH_FN void count_entries() {
    for (u32 i = 0; i < room(); ++i) n += F::key_of(load(c + i)) != Table::no_key;
  }
  GH_FN bool look_for(key k) {
    bool found = false;
    for (u32 i = 0; i < room(); ++i) {
      const word w = load(c + i);
      n += F::key_of(w) != Table::no_key;
      pos += F::key_of(w) < k;
      if (F::key_of(w) == k) {
        there = w;
        found = true;
      }
    }
    return found;
  }

  // Entries from `from` on move up by one, and w takes the place. The highest is moved first: so none is ever missing.
  GH_FN void put(u32 at, u32 end, word w) const {
    for (u32 i = end; i > at; --i) store(c + i, load(c + i - 1));
    store(c + at, w);
  }
  GH_FN void take_out() {
    for (u32 i = pos; i + 1 < n; ++i) store(c + i, load(c + i + 1));
    store(c + n - 1, empty());
    --n;
  }

  GH_FN void clear_from(u32 first) const {
    for (u32 i = first; i < n; ++i) store(c + i, empty());
  }

  // w, whose key k is at pos, is added. Locked before and unlocked after.
  GH_FN answer add(key k, word w) {
    if (n < room()) {
      put(pos, n, w);
      unlock();
      return {deed::yes};
    }
    return split(k, w);
  }
  GH_FN answer split(key k, word w) {
    const u32 fresh = t.template allocate<Mem>();
    if (fresh == none) {
      if (!GH_MUTANT(locked_no_memory)) unlock_unchanged();
      return {deed::no_memory};
    }
    // Keys that come in ascending order leave full chunks behind.
    const bool appends = pos == n && Table::link_of(next) == none;
    const u32 half = appends ? n : n / 2;
    const bool stays = pos <= half && !appends;
    word* const to = t.chunk(fresh);
    const key low = appends ? k : F::key_of(load(c + half));
    u32 filled = 0;
    for (u32 i = half; i < n; ++i) {
      if (i == pos && !stays) store(to + filled++, w);
      store(to + filled++, load(c + i));
    }
    if (pos == n && !stays) store(to + filled++, w);
    store(to + n_slots - 2, GH_MUTANT(lost_next) ? Table::next_word(F::key_of(next), none) : next);
    store(to + n_slots - 1, Table::fresh_lock(Table::level_of(before)));
    // The entries are cleared before the link is set. Once the link is there, another tile may change a moved entry in
    // its new chunk, and a merge may take NEXT back: a find that loads the entry that was left here first, and NEXT
    // after that, would take the old entry for a hit. A find that sees the cleared entry waits.
    if (!GH_MUTANT(moved_kept) && !GH_MUTANT(late_clear)) clear_from(half);
    if (!GH_MUTANT(early_link)) Mem::fence();  // who follows the link sees a whole chunk
    store(next_slot(), Table::next_word(GH_MUTANT(kept_max) ? F::key_of(next) : key(low - 1), fresh));
    if (GH_MUTANT(late_clear)) clear_from(half);
    if (stays) put(pos, half, w);
    if (GH_MUTANT(wrong_unlock))  // the chunk by value: the new one is unlocked, and this one never
      store(to + n_slots - 1, Table::fresh_lock(Table::level_of(before)));
    else
      unlock();
    return {deed::raise, fresh, low};
  }

  // The entry at pos is removed; if few are left, those of the chunk to the right move here, if they fit (G2: to the top).
  GH_FN answer remove() {
    take_out();
    const u32 right = Table::link_of(next);
    if (n >= t.merge_below || right == none) {
      unlock();
      return {deed::yes};
    }
    locked_chunk other(t, right);
    if (!other.try_lock()) {  // rather than wait; another tile's removal will do it
      unlock();
      return {deed::yes};
    }
    other.count_entries();
    if (n + other.n > room()) {
      other.unlock_unchanged();
      unlock();
      return {deed::yes};
    }
    for (u32 i = 0; i < other.n; ++i) store(c + n + i, load(other.c + i));
    store(next_slot(), other.next);
    Mem::fence();  // who follows the zombie's link sees what is here now
    if (!GH_MUTANT(no_zombie))
      store(other.next_slot(), Table::zombie_word(handle));
    else
      other.unlock();
    unlock();
    return {deed::remove, right, key(F::key_of(next) + 1)};
  }
};

// Alone: no batch writes at the same time, so that a miss is a miss at once.
template <class Tile, u32 Kind, class Table = skip_table<typename Tile::format>, bool Alone = false>
struct skip_op {
  using F = typename Tile::format;
  using table = Table;
  using key = typename F::key;
  using value = typename F::value;
  using word = typename F::word;
  using index = typename F::index;
  using tile_type = Tile;
  using Mem = typename Tile::mem;
  static constexpr u32 R = Tile::slots;
  static constexpr u32 fixed_kind = Kind;
  static constexpr bool writing = in_kinds(Kind, writing_batches);
  static constexpr bool has_slow = writing, waits_for_locks = writing;
  // Updates need 80 registers, those of wide keys beside other kinds some more.
  static constexpr int cuda_blocks = Kind == mixed && sizeof(typename F::key) == 8 ? 2 : writing ? 3 : 0;
  static constexpr bool many_rows = true;  // no operation ends at the first row, but in a tiny table
  // An update that starts on level 0 may come late: where the table grows quickly, its key is far to the right by then. After
  // some steps it searches from the top, once, for nothing says that there are names above level 0.
  static constexpr u8 most_sideways = tunable("sideways", u8(4)), from_top = 255;

  u32 at;      // the chunk to visit
  u32 zombie;  // the one that led here, or none
  u32 child;   // of a router: the chunk that it names
  u8 level, goal;
  bool looked;  // at LOCK, for a miss
  u8 sideways;  // steps to the right since start_at; `from_top` when the search has begun at the top
  u8 turns;     // in vain, at this chunk
  u8 own_kind;
  u8 routes;  // 0: the operation itself; or the deed that is left one level up
  key k;
  key sought;  // k, or a router's key
  value v;
  word seen;  // LOCK
  result<F> res;

  GH_FN u32 kind() const { return Kind == mixed ? own_kind : Kind; }

  GH_FN void begin(u32 kd, key a_key, value a_value) {
    k = a_key;
    v = a_value;
    own_kind = u8(kd);
    res = {no, 0, 0, 0};
    routes = 0;
    child = none;
    seen = empty_word<F>();
  }
  GH_FN void start(const table& t, u32 kd, key a_key, value a_value, index) {
    begin(kd, a_key, a_value);
    sideways = from_top;
    search(same_for_all(read_top(t)), a_key, 0);
  }
  // From a chunk of level 0 on, which is not right of the key.
  GH_FN void start_at(u32 kd, key a_key, value a_value, u32 chunk) {
    begin(kd, a_key, a_value);
    sideways = 0;
    search(0, a_key, 0);
    at = chunk;
  }
  // There the key was not seen in a row whose LOCK was this; a fence has followed.
  GH_FN void start_after_look(key a_key, u32 chunk, word lock) {
    start_at(Kind, a_key, 0, chunk);
    seen = lock;
    looked = !table::is_locked(lock);
  }
  GH_FN word* line(const table& t) const { return t.chunk(at); }
  // The chunks above its goal an operation only reads.
  GH_FN bool may_write_here() const { return level == goal; }

  GH_FN verdict step(Tile& tile, const table& t, joiner, const typename Tile::row& row, bool go) {
    const word next = tile.slot(row, R - 2), lock = tile.slot(row, R - 1);
    const auto below = tile.at_most(row, sought, 0, R - 2);
    const word entry = tile.last_word(row, below);
    word last_look = lock;
    if constexpr (has_lanes && !Alone && !in_kinds(Kind, adding_kinds)) {
      if (looked) last_look = look_at_lock(t);
      last_look = same_for_all(last_look);
    }
    if (!go) return verdict::done;
    const u32 kd = kind();
    if (kd == nop) return verdict::done;
    const u32 link = table::link_of(next);
    const bool dead = table::is_gone(link);
    if (GH_MUTANT(zombie_read) && kd == find && level == goal && tile.any(below) && F::key_of(entry) == sought) {
      res.status = yes;
      res.value = F::value_of(entry);
      return verdict::done;
    }
    if (dead || sought > F::key_of(next)) {
      if (table::target(link) == none) return wait();  // linked, and not to be seen yet
      if (dead) {
        if (!Alone) Mem::fence();  // the chunk that took it over holds its entries by now
        if ((writing || !has_lanes) && zombie != none) shorten(t, link);
      }
      zombie = dead ? at : none;
      move(table::target(link), level);
      if (writing && sideways != from_top && sideways++ == most_sideways) return verdict::slow;
      return verdict::next;
    }
    if (level > goal) {
      if (!tile.any(below)) return wait();  // the same
      zombie = none;
      return move(u32(F::value_of(entry)), level - 1u);
    }
    if (writing && routes) return verdict::slow;
    const bool hit = tile.any(below) && F::key_of(entry) == sought;
    if (hit) {
      if (writing && in_kinds(kd, updating_kinds)) {
        if (in_kinds(kd, answering_kinds)) v = F::value_of(entry);  // which has to be there still when it is erased
        return verdict::slow;
      }
      res.status = status_of(kd, true);
      res.value = answer_of(kd, true, F::value_of(entry), v);
      return verdict::done;
    }
    if (writing && in_kinds(kd, adding_kinds)) return verdict::slow;
    return Alone ? verdict::done : look_again(t, last_look);
  }

  GH_FN verdict slow(Tile& tile, const table& t, joiner j, bool go) {
    const bool late = sideways != from_top && sideways > most_sideways;
    const u128 r = tile.once(go, [&] {
      if (late) return u128{read_top(t), 0};
      const auto a = routes ? route(t) : update(t, j);
      return u128{u64(u32(a.what) << 8 | read_top(t)) << 32 | a.child, u64(a.low)};
    });
    if (!go) return verdict::done;
    if (late) {
      sideways = from_top;
      search(u32(r.lo), sought, goal);
      return verdict::next;
    }
    const deed what = deed(u32(r.lo >> 40));
    const u32 top = u32(r.lo >> 32) & 255;
    if (what == deed::lost) {
      count_turn();
      return verdict::again;
    }
    if (!routes) {
      const u32 kd = kind();
      const bool added = in_kinds(kd, adding_kinds) && (what == deed::yes || what == deed::raise);
      const bool erased = in_kinds(kd, erasing_kinds) && (what == deed::yes || what == deed::remove);
      res.status = what == deed::no_memory ? no_memory : added || erased ? yes : no;
      res.live = res.used = int(added) - int(erased);
      res.value = answer_of(kd, erased, v, v);
    }
    if (what != deed::raise && what != deed::remove) return verdict::done;
    const key low = key(r.hi);
    const u32 up = goal + 1u;
    if (up >= t.levels || (what == deed::raise && !t.raises(low))) return verdict::done;
    routes = u8(what);
    child = u32(r.lo);
    search(top, low, up);
    return verdict::next;
  }

 private:
  // Lanes of a tile that load the same word one after the other need not see the same.
  static constexpr bool has_lanes = requires { Tile::from_first(u32(0)); };
  template <class T>
  GH_FN static T same_for_all(T x) {
    if constexpr (has_lanes)
      return Tile::from_first(x);
    else
      return x;
  }
  GH_FN static u32 read_top(const table& t) { return Mem::template load<order::relaxed>(t.top); }

  GH_FN void search(u32 top, key for_key, u32 to_level) {
    sought = for_key;
    goal = u8(to_level);
    level = u8(top < to_level ? to_level : top);
    at = table::head(level);
    zombie = none;
    looked = false;
    turns = 0;
  }
  // The zombie before this one leads on to where this one does: a table that shrinks from its end makes chains of them.
  // All lanes of a tile write the same. On CUDA finds write nothing.
  GH_FN void shorten(const table& t, u32 link) const {
    Mem::template cas<order::relaxed>(t.chunk(zombie) + R - 2, table::zombie_word(at),
                                      table::zombie_word(table::target(link)));
  }
  GH_FN verdict move(u32 to, u32 to_level) {
    at = to;
    level = u8(to_level);
    looked = false;
    turns = 0;
    return verdict::next;
  }
  GH_FN void count_turn() { turns += turns < 255; }
  GH_FN verdict wait() {
    looked = false;
    Mem::relax(turns);
    count_turn();
    return verdict::again;
  }
  // The key is not in the row, which is no snapshot: entries may have moved past the loads. It counts for a row that comes
  // after one look at LOCK and before another, which a tile of several lanes has taken by now.
  GH_FN word look_at_lock(const table& t) const {
    if (!GH_MUTANT(unfenced_look)) Mem::fence();
    return Mem::template load<order::relaxed>(t.chunk(at) + R - 1);
  }
  GH_FN verdict look_again(const table& t, word lock) {
    if (GH_MUTANT(one_look_at_chunk)) return verdict::done;
    if (looked) {
      if constexpr (!has_lanes) lock = look_at_lock(t);
      if (lock == seen || GH_MUTANT(uncompared_look)) return verdict::done;
    }
    if (table::is_locked(lock) && !GH_MUTANT(locked_look)) return wait();
    seen = lock;
    looked = true;
    if (!GH_MUTANT(unfenced_look)) Mem::fence();
    return verdict::again;
  }

  using locked = locked_chunk<Mem, table>;
  using answer = typename locked::answer;

  // Lock `at`. False: it is locked, or has been split or merged since.
  GH_FN bool lock_enclosing(locked& c) const {
    if (!c.try_lock()) {
      if (table::is_locked(c.before)) Mem::relax(turns);
      return false;
    }
    if (sought <= F::key_of(c.next) || GH_MUTANT(unchecked_enclosing)) return true;
    c.unlock_unchanged();
    return false;
  }

  GH_FN answer update(const table& t, joiner j) const {
    locked c(t, at);
    if (!lock_enclosing(c)) return {deed::lost};
    const u32 kd = kind();
    const bool alive = c.look_for(k);
    if (!writes(kd, alive)) {
      c.unlock_unchanged();
      if (kd == find_or_insert && !GH_MUTANT(unseen_pair)) return {deed::lost};  // another one's pair: look at it
      return {deed::no};
    }
    if (kd == pop && F::value_of(c.there) != v && !GH_MUTANT(value_before_lock)) {
      c.unlock_unchanged();
      return {deed::lost};
    }
    if (in_kinds(kd, erasing_kinds)) return c.remove();
    const word w = wanted<F>(kd, j, alive, F::value_of(c.there), k, v);
    if (!alive) return c.add(k, w);
    locked::store(c.c + c.pos, w);
    c.unlock();
    return {deed::no};
  }

  // One level up, chunk `child` with the low `sought` is to be named, or forgotten.
  GH_FN answer route(const table& t) const {
    locked c(t, at);
    if (!lock_enclosing(c)) return {deed::lost};
    const bool there = c.look_for(sought);
    const word name = F::make(sought, child);
    if (deed(routes) == deed::raise) {
      if (there) {
        locked::store(c.c + c.pos, name);
        c.unlock();
        return {deed::no};
      }
      raise_top(t);
      return c.add(sought, name);
    }
    if (!there || u32(F::value_of(c.there)) != child) {
      c.unlock_unchanged();
      return {deed::no};
    }
    if (c.pos == 0 && !GH_MUTANT(first_entry_removed)) {  // G5: it stays, and names who took the entries over (G4)
      const u32 link = table::link_of(locked::load(t.chunk(child) + t.slots - 2));
      locked::store(c.c, F::make(sought, table::target(link)));
      c.unlock();
      return {deed::no};
    }
    return c.remove();
  }
  GH_FN void raise_top(const table& t) const {
    for (u32 top = Mem::template load<order::relaxed>(t.top); top < goal;) {
      const u32 seen_top = Mem::template cas<order::relaxed>(t.top, top, u32(goal));
      if (seen_top == top) return;
      top = seen_top;
    }
  }
};

GH_END
