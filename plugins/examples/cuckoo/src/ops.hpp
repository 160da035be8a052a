// cuckoo: insert, insert_or_assign, accumulate, find, count and erase. All but the moving of keys is lock free.
//
// After Alcantara and others, "Real-time parallel hashing on the GPU" (2009) and "Building an efficient hash table on the
// GPU" (2011): some hash functions, an insert that finds all places of its key taken moves another key on, and a stash for
// the few that still find none. Rows of several slots for a place are Erlingsson, Manasse and McSherry's (2006). There an
// insert exchanges its pair with another one, which no find sees until it has a new place; batches that only insert can
// do so. Here all operations run beside each other, and so
//   - a key is copied to its new slot before its old one is overwritten,
//   - it moves further on its own path only, to a row that has an EMPTY slot: one move for an insert, which makes most
//     of the difference (Kirsch and Mitzenmacher, "The power of one move", 2008).
//
// While key x moves from slot s to slot d, both hold it, and only s counts. No operation takes d for the slot of x: a
// path is walked in its order, and walkers of x that come to s find x there, or else have come too early. A walker that
// had passed s's row before x was there has seen an EMPTY slot in it (I2), where it ended. So the insert that has s's
// lock may write d until the compare-and-swap that overwrites s, by which d counts. If an update or an erase of x came
// first, that fails, and the word that they have left, a tombstone too, goes to d. Hence there are no sets: their
// tombstones do not remember a key. A key that is put into a row without EMPTY slots is put into the last row of its
// path, which it does not leave.
//
// One call of `step` is one visit of one row. The driver loads the row, loops, and keeps many operations in flight. What a
// Tile offers, and the rules that an ops.hpp keeps, are in libgpuhash/tile/tile.hpp. The invariants are in layout.hpp.
//
// Linearization points:
//   a write   at its winning compare-and-swap
//   no write  at the load of the slot that decides: k's live word, k's tombstone, or the EMPTY slot that ends the path. Where
//             there is none, at the load of the last row: k was in no slot before it then (I2).
#pragma once
#include "layout.hpp"
#include "libgpuhash/kit/meaning.hpp"
#include "libgpuhash/tile/sizes.hpp"
#include "libgpuhash/tile/tile.hpp"

GH_BEGIN

// Which key a slot is of, live or a tombstone.
template <class F>
GH_FN bool cuckoo_is_of(typename F::word w, typename F::key k) {
  return F::key_of(w) == k || w == tombstone<F>(k);
}

// What became of a pair whose path has no slot that an insert may take without a lock.
enum class cuckoo_put : u32 {
  retry,   // another insert has the lock, or has put the key there: walk again
  fresh,   // it is there, in a slot that was EMPTY, or in that of a key that has moved to one
  reused,  // it is there, in a slot that was a tombstone
  nowhere
};

// Puts one pair, by one lane, in scalar accesses.
template <class Mem, class F>
struct cuckoo_putter {
  using table = cuckoo_table<F>;
  using key = typename F::key;
  using word = typename F::word;
  using index = typename F::index;

  const table& t;
  u32 R;  // slots of a row
  key k;
  word pair;

  GH_FN static word load(const word* slot) { return Mem::template load<order::relaxed>(slot); }
  GH_FN static bool swap(word* slot, word from, word to) {
    return Mem::template cas<order::relaxed>(slot, from, to) == from;
  }
  // What was written under the lock before is seen, and what follows stays behind.
  // An insert that waits for the lock writes nothing.
  GH_FN static bool lock(word* at) {
    const bool mine = is_empty(load(at)) && swap(at, empty_word<F>(), tombstone<F>(0));
    Mem::fence();
    return mine;
  }
  GH_FN static void unlock(word* at) {
    Mem::fence();
    Mem::template store<order::relaxed>(at, empty_word<F>());
  }
  GH_FN static bool is_empty(word w) { return F::key_of(w) == empty_key<key>; }

  GH_FN cuckoo_put put() const {
    const index row = t.row_of(k, t.choices - 1);
    word* const mine = t.lock_of(row);
    if (!lock(mine)) {
      Mem::relax();
      return cuckoo_put::retry;
    }
    const cuckoo_put done = put_into(row, mine);
    unlock(mine);
    return done;
  }

 private:
  // k itself may be there by now: in this row or the stash, since no earlier row has an EMPTY slot (I2).
  GH_FN cuckoo_put put_into(index row, word* mine) const {
    word* const line = t.slots + u64(row) * R;
    word* const stash = t.slots + u64(t.rows) * R;
    const u32 stash_slots = t.stash_rows * R;
    word *dead = nullptr, *open = nullptr;
    word was = empty_word<F>();
    for (u32 i = 0; i < R + stash_slots && !open; ++i) {
      word* const slot = i < R ? line + i : stash + (i - R);
      const word w = load(slot);
      if (cuckoo_is_of<F>(w, k)) return cuckoo_put::retry;
      if (is_empty(w)) {
        if (i < R) return cuckoo_put::retry;
        open = slot;
      }
      if (!dead && F::key_of(w) == dead_key<key>) dead = slot, was = w;
    }
    if (dead) return swap(dead, was, pair) ? cuckoo_put::reused : cuckoo_put::retry;
    bool busy = false;
    for (u32 i = 0; i < R; ++i)
      if (moves_on(line + i, row, mine, &busy)) return cuckoo_put::fresh;
    if (open) return swap(open, empty_word<F>(), pair) ? cuckoo_put::fresh : cuckoo_put::retry;
    if (busy) Mem::relax();  // then its turn comes again (cuckoo_op::has_turn)
    return busy ? cuckoo_put::retry : cuckoo_put::nowhere;
  }

  // Move the key of `from` further on its path, and leave the pair there.
  GH_FN bool moves_on(word* from, index row, word* mine, bool* busy) const {
    const word w = load(from);
    if (!is_live<F>(w)) return false;  // erased by now
    const key x = F::key_of(w);
    if (t.row_of(x, t.choices - 1) == row) return false;  // its last row; functions may agree
    u32 choice = 1;
    while (t.row_of(x, choice - 1) != row) ++choice;
    for (; choice < t.choices; ++choice) {
      const index to = t.row_of(x, choice);
      word* const other = t.lock_of(to);
      if (other != mine && !lock(other))
        return !(*busy = true);  // its row may have an EMPTY slot, which x has to take (I2)
      const bool done = moves_to(t.slots + u64(to) * R, from, w);
      if (other != mine) unlock(other);
      if (done) return true;
    }
    return false;
  }

  // Into this row, whose lock is held.
  GH_FN bool moves_to(word* line, word* from, word w) const {
    for (u32 i = 0; i < R; ++i) {
      if (!is_empty(load(line + i)) || !swap(line + i, empty_word<F>(), w)) continue;
      for (;;) {
        Mem::fence();  // a walker that sees the pair in the old slot sees the copy
        const word seen = Mem::template cas<order::relaxed>(from, w, pair);
        if (seen == w) return true;
        w = seen;  // x was updated or erased meanwhile
        Mem::template store<order::relaxed>(line + i, w);
      }
    }
    return false;
  }
};

// One operation. Kind is a kind, or `mixed` when each element has its own.
template <class Tile, u32 Kind>
struct cuckoo_op {
  using F = typename Tile::format;
  using table = cuckoo_table<F>;
  using key = typename F::key;
  using value = typename F::value;
  using word = typename F::word;
  using index = typename F::index;
  using tile_type = Tile;
  using Mem = typename Tile::mem;
  static constexpr u32 R = Tile::slots;
  static constexpr u32 fixed_kind = Kind;
  static constexpr bool has_slow = Kind == mixed || in_kinds(Kind, adding_kinds);

  key k;
  value v;
  index at;    // the row to visit; those of the stash follow the others
  u32 passed;  // rows of the path before it
  u32 tries;   // to put the pair where it needs a lock
  u32 own_kind;
  result<F> res;

  GH_FN u32 kind() const { return Kind == mixed ? own_kind : Kind; }

  GH_FN void start(const table&, u32 kd, key a_key, value a_value, index home) {
    k = a_key, v = a_value, own_kind = kd;
    at = home, passed = 0, tries = 0;
    res = {no, 0, 0, 0};
  }

  GH_FN word* line(const table& t) const { return t.slots + u64(at) * R; }

  GH_FN verdict step(Tile& tile, const table& t, joiner j, const typename Tile::row& row, bool go) {
    const auto live = tile.with_key(row, k, 0);
    const auto dead = tile.with_word(row, tombstone<F>(k), 0);
    const auto open = tile.with_key(row, empty_key<key>, 0);
    const bool alive = tile.any(live), buried = !alive && tile.any(dead);
    const auto spot = tile.choose(alive, live, tile.choose(buried, dead, open));
    value seen = 0;
    if constexpr (Kind == mixed || Kind == find || Kind == accumulate) seen = tile.value_at(row, live);

    const u32 kd = kind();
    const bool in_stash = passed >= t.choices, vacant = tile.any(open);
    const bool ends = alive || buried || vacant || passed + 1 == t.choices + t.stash_rows || kd == nop;
    const bool adds = !alive && in_kinds(kd, adding_kinds);
    const bool takes = adds && !buried && vacant && !in_stash;  // I2: the first EMPTY slot of the path
    const bool asks = ends && adds && !buried && !takes;
    const bool writing = takes || (adds && buried) || (alive && writes(kd, alive));
    bool won = false;
    if constexpr (Kind != find && Kind != count)
      won = tile.cas(go && writing, line(t), row, spot, wanted<F>(kd, j, alive, seen, k, v));

    // All of the following are selects, not branches: tiles of a warp step together.
    const bool retry = writing && !won, moves = !ends;
    res.status = status_of(kd, alive);
    res.live = adds - (writing && kd == erase);
    res.used = takes;
    res.value = Kind == count ? value(alive) : kd == find && alive ? seen : value(0);
    passed += moves;
    at = !moves ? at : passed < t.choices ? t.row_of(k, passed) : passed == t.choices ? t.rows : at + 1;
    if (go && moves) Mem::fence();  // a key that has moved on from this row is seen in the next
    return retry ? verdict::again : moves ? verdict::next : asks ? verdict::slow : verdict::done;
  }

  // The path has no slot that may be taken at once, and did not have k.
  GH_FN verdict slow(Tile& tile, const table& t, joiner j, bool go) {
    const word pair = wanted<F>(kind(), j, false, value(0), k, v);
    const cuckoo_putter<Mem, F> putter{t, R, k, pair};
    const bool turn = has_turn();
    const auto put = cuckoo_put(tile.once(go, [&] { return u32(turn ? putter.put() : cuckoo_put::retry); }));
    const bool again = put == cuckoo_put::retry, none = put == cuckoo_put::nowhere;
    res.status = !go ? res.status : none ? full : yes;
    res.live = !go ? res.live : !none && !again;
    res.used = !go ? res.used : put == cuckoo_put::fresh;
    at = go && again ? t.home(k) : at;
    passed = go && again ? 0 : passed;
    tries += go && again;
    return again ? verdict::next : verdict::done;
  }

 private:
  // Inserts that each hold a lock that another one needs would try again side by side for ever, as the lanes of a warp do
  // everything at the same time. So an insert lets more and more of its tries pass, and which ones its key decides. The
  // explorer's few tiles need one bit: each try that is let pass walks the whole path again, in accesses to interleave.
  GH_FN bool has_turn() const {
    constexpr u32 most = tunable("cuckoo.turn_bits", 8u);
    const u32 bits = tries < most ? tries : most;
    return (u32(hash(k, tries)) & ((1u << bits) - 1)) == 0;
  }
};

GH_END
