// linear_probe: insert, insert_or_assign, accumulate, find and erase, all lock free.
//
// After Farrell, "A Simple GPU Hash Table" (2020), with one word per slot instead of a key and a value, and tombstones
// that remember their key. The invariants I1-I4 are in layout.hpp.
//
// Linearization points:
//   a write   at its winning compare-and-swap
//   no write  at the load of the slot that decides: k's live word, k's tombstone, or the EMPTY slot that ends the path.
//             An EMPTY slot decides although the slots before it were loaded earlier: k cannot be in one of them, or it
//             would have been there when they were loaded, or this slot would not have been EMPTY after (I2).
//
// Slots are also written by the following, which hold the table exclusively, and leave I1 to I4 as they found them:
//   parts.hpp                 a partition of the table in a block's memory, for large batches on CUDA (drive/bulk): pairs go to
//                             the first EMPTY slot behind their home, so that I2 and I3 hold when it is written back
//   rebuild.hpp, rebuild.cuh  a new table, in one pass: each pair behind its home without a gap (I2), once (I3)
#pragma once
#include "layout.hpp"
#include "libgpuhash/kit/meaning.hpp"
#include "libgpuhash/tile/tile.hpp"

GH_BEGIN

// One operation. Kind is a kind, or `mixed` when each element has its own. R: slots per line. Aligned: groups are whole
// lines, so that no line begins before a home.
template <class Tile, u32 Kind, bool Aligned = false>
struct linear_op {
  using F = typename Tile::format;
  using table = linear_table<F>;
  using key = typename F::key;
  using value = typename F::value;
  using word = typename F::word;
  using index = typename F::index;
  using tile_type = Tile;
  static constexpr u32 R = Tile::slots;
  static constexpr u32 fixed_kind = Kind;
  static constexpr bool has_slow = false;
  static constexpr bool widest_line = requires { requires Tile::widest == R; };
  static constexpr bool homes_first = Aligned && (Kind == find || Kind == count);

  key k;
  value v;
  index at;   // the line to visit
  u32 first;  // slots of it that lie before home; no path begins with them
  u32 left;   // visits left before the limit
  u32 own_kind;
  result<F> res;

  GH_FN u32 kind() const { return Kind == mixed ? own_kind : Kind; }

  // home counts groups; a line may hold several of them, or be one of several of a group.
  GH_FN void start(const table& t, u32 kd, key a_key, value a_value, index home) {
    constexpr u32 line_bits = __builtin_ctz(R);
    k = a_key, v = a_value, own_kind = kd;
    if constexpr (Aligned) {
      at = first_line(t, home), first = 0;
    } else {
      const int wider = int(t.group_bits) - int(line_bits);
      const u32 up = wider > 0 ? u32(wider) : 0;
      const u32 down = wider < 0 ? u32(-wider) : 0;
      at = home << up >> down;
      first = u32(home & ((index(1) << down) - 1)) << t.group_bits;
    }
    left =
        t.probe_limit / R - (widest_line ? 0 : u32(at & (t.widest / R - 1)));  // I4: lines of every width end together
    res = {no, 0, 0, 0};
  }

  GH_FN word* line(const table& t) const { return line_at(t, at); }
  // For drivers that visit homes first (drive/cuda_homes.cuh): the same as step() of a home, for find and count.
  GH_FN static bool looks(const table&)
    requires(homes_first)
  {
    return true;
  }
  GH_FN static index first_line(const table& t, index home) { return home << (t.group_bits - __builtin_ctz(R)); }
  GH_FN static word* line_at(const table& t, index at) { return t.slots + u64(at) * R; }
  template <class Glance>
  GH_FN static Glance look(const Tile& tile, const table&, const typename Tile::row& row, key a_key) {
    const auto live = [a_key](word w) { return F::key_of(w) == a_key; };
    const auto open = [](word w) { return F::key_of(w) == empty_key<key>; };
    return {tile.has(row, R, live), tile.has(row, R, open), F::value_of(tile.first_word(row, live)), 0};
  }
  GH_FN static word* line_after(const table& t, key, word* line, u32) {
    return line + R == t.slots + t.n_slots ? t.slots : line + R;
  }
  GH_FN static u32 most_visits(const table& t) { return t.probe_limit / R; }  // some too many do no harm

  GH_FN verdict step(Tile& tile, const table& t, joiner j, const typename Tile::row& row, bool go) {
    constexpr bool may_add = Kind == mixed || in_kinds(Kind, adding_kinds);
    // Only an EMPTY slot before the home slot has to be passed over: k itself is never there but at the end of its path.
    const auto live = tile.with_key(row, k, 0);
    const auto open = tile.with_key(row, empty_key<key>, first);
    auto spot = tile.choose(tile.any(live), live, open);
    bool revives = false;
    if constexpr (may_add && F::has_value) {  // I1: k's tombstone, if there is one, is the only slot k may take
      const auto dead = tile.with_word(row, tombstone<F>(k), 0);
      revives = !tile.any(live) && tile.any(dead);
      spot = tile.choose(revives, dead, spot);
    }
    const bool alive = tile.any(live), ends = alive || revives || tile.any(open);
    value seen = 0;
    if constexpr (sees_value<Kind>) seen = tile.value_at(row, live);

    const u32 kd = kind();
    const bool writing = ends && kd != nop && writes(kd, alive);
    bool won = false;
    const word want = wanted<F>(kd, j, alive, seen, k, v);
    if constexpr (updates_in_place<Tile, Kind>) {  // I1: a slot that no batch erases stays its key's
      const bool in_place = alive && changes_in_place<Tile, Kind>(j);
      update<Kind>(tile, go && in_place, line(t), row, live, k, v, j.narrow);
      won = in_place || (Kind == accumulate && alive && F::value_of(want) == seen);  // or nothing is to be written
    }
    if constexpr (in_kinds(Kind,
                           writing_batches))  // I2: the first EMPTY slot of the path, or the slot that is k's already
      won |= tile.cas(go && writing && !won, line(t), row, spot, want);

    // All of the following are selects, not branches: tiles of a warp step together.
    const bool retry = writing && !won, ended = ends || kd == nop, moves = !retry && !ended;
    const bool added = writing && !alive;
    res.status = ended ? status_of(kd, alive) : in_kinds(kd, adding_kinds) ? full : no;
    res.live = added - (writing && in_kinds(kd, erasing_kinds));
    res.used = added && !revives;
    res.value = answer_of(kd, alive, seen, v);
    left -= moves;
    first = moves ? 0 : first;
    at = !moves ? at : at + 1 == index(t.n_slots / R) ? 0 : at + 1;
    return retry ? verdict::again : ended || left == 0 ? verdict::done : verdict::next;  // I4
  }

  GH_FN verdict slow(Tile&, const table&, joiner, bool) { return verdict::done; }  // never asked for
};

GH_END
