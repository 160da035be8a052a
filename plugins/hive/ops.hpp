// hive: insert, insert_or_assign, accumulate, find and erase.
//
// After the paper's four steps of an insert (README.md), corrected, and in an order of our own: a key goes to the first
// EMPTY slot of its home by one compare-and-swap, and only a key whose home is full takes a lock. The invariants H1-H7 are in
// layout.hpp, what is done under locks in place.hpp.
//
// Linearization points:
//   a write   at its winning compare-and-swap; of a key that is added by an eviction at the swap that puts it in the victim's
//             slot
//   a hit     at the load of k's live word
//   a miss    at one of
//     M1  the load of an EMPTY slot of the home that was EMPTY at a second look, too: the home was not full before the
//         second look began, so k has not left it during the first (H2), which would have shown it.
//     M2  the load of the home's filter bit, not cleared, after the home was read: k has never been outside (H3). Had it been
//         relocated while the home was read, then the bit had been cleared before. On CUDA asked beside writers whether or
//         not the home has an EMPTY slot (absent).
//     M3  anywhere between two looks at the lock of k's home that show it free and the same: meanwhile k has not moved (H4),
//         and each of its buckets and the stash was read. (k was erased at some moment, or never there.)
//   M1 and M2 need what a tile reads to be ordered after what an evictor did before it wrote that: rows are read with
//   acquire, and evictors swap with release. Where no writer runs (Alone) an EMPTY slot or a bit says it all.
//
// Slots are also written by
//   place.hpp    beside other operations, under the locks that H4 and H5 ask for; what it writes keeps H1 to H7
//   parts.cuh    a segment in a block's memory, for large batches on CUDA; with the table held exclusively, so that only H1 to
//                H3, H6 and H7 have to hold when it is written back
//   segments.hpp, steps.cuh   a segment that is split, merged or packed, exclusively (P1 to P3), from whose pairs H2, H3 and H7
//                are made anew
#pragma once
#include "libgpuhash/tile/mutant.hpp"
#include "libgpuhash/tile/tile.hpp"
#include "place.hpp"

GH_BEGIN

// One operation. Kind is a kind, or `mixed` when each element has its own. A row is a bucket. Beside what every tile has, a
// tile of hive has
//   row  look(go, line)                     a load for those that go
//   bool lanes_ask()                        does the driver ask absent() after the visit of a home?
//   row  either(bool, row a, row b)         a or b
//   bool some(bool)                         does any of the tiles that run together say so?
//   bool searches()                         are these two there?
//   void search(go, row 0, row 1, hits (&found)[2], act)     the slots of which act(row's number, word) says true, asked by the
//                                                            lanes that hold them, all at once
//   T    once_at(go, row, hits, act)        act(word, slot's number) of the first hit, by the lane that holds it
// Its rows are loaded with acquire where Kind may be certain of a miss.
template <class Tile, u32 Kind, bool Alone = false, class Table = hive_table<typename Tile::format>>
struct hive_op {
  using F = typename Tile::format;
  using table = Table;
  using key = typename F::key;
  using value = typename F::value;
  using word = typename F::word;
  using index = typename F::index;
  using tile_type = Tile;
  static constexpr u32 R = Tile::slots;
  static constexpr u32 fixed_kind = Kind;
  static constexpr bool has_slow = true;
  static constexpr bool may_add = Kind == mixed || in_kinds(Kind, adding_kinds);
  static constexpr bool small = sizeof(key) == 4 && F::has_value;
  // CUDA: more blocks of them would have to spill registers.
  static constexpr int cuda_blocks = !may_add ? (sizeof(key) == 4 && Alone ? 5 : 3) : Kind == insert && small ? 3 : 2;
  static constexpr bool may_look = !in_kinds(Kind, adding_kinds);
  static constexpr bool homes_first = true;

  key k;
  value v;
  index home;
  index at;    // the bucket to visit,
  u32 way;     // which is that one of k's
  u32 looked;  // 1: the home had an EMPTY slot at the first look
  u32 own_kind;
  u32 retries;  // because there was no room for the moment
  u32 taken;    // EMPTY slots, on the way
  result<F> res;

  GH_FN u32 kind() const { return Kind == mixed ? own_kind : Kind; }

  GH_FN void start(const table&, u32 kd, key a_key, value a_value, index a_home) {
    k = a_key, v = a_value, home = at = a_home, own_kind = kd;
    way = looked = retries = taken = 0;
    res = {no, 0, 0, 0};
  }

  GH_FN word* line(const table& t) const { return t.bucket(at); }

  // For drivers that visit homes first (drive/cuda_homes.cuh): the same as step() of a home, for find and count.
  GH_FN static bool looks(const table&)
    requires(Kind == find || Kind == count)
  {
    return true;
  }
  GH_FN static index first_line(const table&, index a_home) { return a_home; }
  GH_FN static word* line_at(const table& t, index a_home) { return t.bucket(a_home); }
  template <class Glance>
  GH_FN static Glance look(const Tile& tile, const table&, const typename Tile::row& row, key a_key) {
    const auto live = [a_key](word w) { return F::key_of(w) == a_key; };
    const auto open = [](word w) { return F::key_of(w) == empty_key<key>; };
    return {tile.has(row, R, live), Alone && tile.has(row, R, open), F::value_of(tile.first_word(row, live)), 0};
  }
  // A find that has the table to itself, with two buckets for a key: the other bucket is the only other line, and a key
  // that is in neither may be in the stash.
  GH_FN static u32 most_visits(const table&)
    requires(Alone)
  {
    return 1;
  }
  GH_FN static word* line_after(const table& t, key a_key, word* home_line, u32) {
    return t.bucket(t.bucket_of(a_key, index(u64(home_line - t.slots) >> t.slot_bits), 1));
  }
  GH_FN static bool goes_by_lines(const table& t) { return t.ways == 2; }
  GH_FN static bool seek_elsewhere(const table& t, key a_key, value* seen) {
    const hive_hand<typename Tile::mem, table> hand{t};
    const u32 stashed = hand.has_stash() ? hand.find_in_stash(a_key) : 0;
    if (stashed) *seen = F::value_of(Tile::mem::template load<order::relaxed>(t.stash + (stashed - 1)));
    return stashed != 0;
  }
  GH_FN void after_home(const table& t) { way = 1, at = t.bucket_of(k, home, 1); }
  GH_FN static bool absent(const table& t, u32 kd, key a_key, index a_home) {  // M2
    if constexpr (!may_look) return false;
    return !in_kinds(kd, adding_kinds) && !hive_hand<typename Tile::mem, table>{t}.lies_outside(a_key, a_home);
  }

  GH_FN verdict step(Tile& tile, const table& t, joiner j, const typename Tile::row& row, bool go) {
    const u32 kd = kind();
    const bool adding = in_kinds(kd, adding_kinds), at_home = way == 0;
    const auto live = tile.with_key(row, k, 0);
    const auto open = tile.with_key(row, empty_key<key>, 0);
    const bool alive = tile.any(live);
    // In another bucket it says nothing; nor where slots are claimed first, which is done under the lock.
    const bool has_open = at_home && tile.any(open) && !(adding && t.commits);
    auto spot = tile.choose(alive, live, open);
    bool revives = false;
    if constexpr (may_add && F::has_value) {  // H6
      const auto dead = tile.with_word(row, tombstone<F>(k), 0);
      revives = adding && at_home && !alive && tile.any(dead);
      spot = tile.choose(revives, dead, spot);
    }
    value seen = 0;
    if constexpr (sees_value<Kind>) seen = tile.value_at(row, live);

    const bool ends = alive || (adding && (has_open || revives));
    const bool writing = ends && kd != nop && writes(kd, alive);
    bool won = false;
    if constexpr (in_kinds(Kind, writing_batches))  // H2: the first EMPTY slot
      won = tile.cas(go && writing, line(t), row, spot, wanted<F>(kd, j, alive, seen, k, v));
    const bool retry = writing && !won;

    const bool misses = !ends && kd != nop && !adding;
    const bool by_lane = Tile::lanes_ask() && !Alone;
    const bool again = misses && has_open && !by_lane && !Alone && !looked && !GH_MUTANT(one_glance);  // M1
    bool in_home = misses && has_open && !by_lane && !again;
    if constexpr (may_look) {  // M2
      const bool asks = misses && at_home && !has_open && !Tile::lanes_ask();
      const u32 outside =
          tile.once(go && asks, [&] { return u32(hive_hand<typename Tile::mem, table>{t}.lies_outside(k, home)); });
      in_home |= asks && !outside;
    }
    const bool added = writing && !alive;
    const bool ended = ends || in_home || kd == nop;
    res.status = status_of(kd, alive);
    res.live = added - (writing && in_kinds(kd, erasing_kinds));
    res.used = int(added && !revives) + int(taken);
    res.value = answer_of(kd, alive, seen, v);
    looked = again;
    if (retry || again) return verdict::again;
    if (ended) return verdict::done;
    if (way + 1 == t.ways) return verdict::slow;
    way = way + 1;
    at = t.bucket_of(k, home, way);
    return verdict::next;
  }

  // On a copy: an operation whose address is known to a function would not live in registers.
  GH_FN verdict slow(Tile& tile, const table& t, joiner j, bool go) {
    hive_op copy = *this;
    const verdict d = copy.look_everywhere(tile, t, j, go);
    *this = copy;
    return d;
  }

 private:
  // k was in none of its buckets. Add it, with its home locked; or make certain that it is absent (M3).
  HIVE_RARE verdict look_everywhere(Tile& tile, const table& t, joiner j, bool go) {
    const u32 kd = kind();
    const bool adding = in_kinds(kd, adding_kinds);
    const hive_hand<typename Tile::mem, table> hand{t};
    u32* const lock = t.lock_of(home);
    const u32 version = Alone ? 1 : tile.once(go, [&] {
      const bool locks = adding && !GH_MUTANT(unlocked_home) && !(GH_MUTANT(lockless_claim) && t.commits);
      return locks ? hand.lock(lock) : hand.version(lock);
    });
    const bool mine = go && (version & 1 || (GH_MUTANT(impatient_miss) && !adding));

    // All rows and the note are on their way at once. Alone, the rows are as they were.
    typename Tile::row rows[most_ways];
    HIVE_UNROLL
    for (u32 w = 0; w < most_ways; ++w)
      rows[w] = tile.look(mine && !Alone && w < t.ways, t.bucket(t.bucket_of(k, home, w)));
    const bool noted = tile.once(mine, [&] { return u32(hand.has_stash()); }) != 0;

    bool alive = false, lost = false;
    value seen = 0;
    HIVE_UNROLL
    for (u32 w = 0; w < most_ways; ++w) {
      if (Alone || w >= t.ways) continue;  // the same for all tiles
      const auto live = tile.with_key(rows[w], k, 0);
      const bool here = mine && !alive && tile.any(live);
      value at_live = 0;
      if constexpr (sees_value<Kind>) at_live = tile.value_at(rows[w], live);
      const bool writing = here && writes(kd, true);
      bool won = false;
      if constexpr (in_kinds(Kind, writing_batches))
        won =
            tile.cas(writing, t.bucket(t.bucket_of(k, home, w)), rows[w], live, wanted<F>(kd, j, true, at_live, k, v));
      alive |= here, lost |= writing && !won, seen = here ? at_live : seen;
    }

    const bool search_stash = mine && !alive && noted;
    if (tile.some(search_stash)) {
      const u32 stashed = tile.once(search_stash, [&] { return hand.find_in_stash(k); });
      const bool in_stash = search_stash && stashed;
      const word there = tile.once(in_stash, [&] { return hand.serve_in_stash(stashed - 1, kd, j, k, v); });
      if (in_stash) {
        alive = F::key_of(there) == k, lost = !alive;
        seen = alive ? F::value_of(there) : value(0);
      }
    }

    placed put{placed::done, 0};
    if constexpr (may_add) put = place(tile, t, j, hand, mine && adding && !alive && !lost, rows, lost);
    const bool out_of_room = put.what == placed::no_room, out_of_room_for_now = put.what == placed::retry;

    if constexpr (!Alone) {
      const u32 after = tile.once(mine, [&] {
        if (!adding) return Tile::mem::template load<order::relaxed>(lock);
        hand.unlock(lock, version);
        return version;
      });
      lost |= mine && !alive && after != version && !GH_MUTANT(unchecked_miss);  // M3
    }

    if (!go) return verdict::done;
    const bool too_often = out_of_room_for_now && retries == most_retries;
    retries += out_of_room_for_now && !too_often;
    taken += put.used;
    way = looked = 0, at = home;
    res.status = alive ? status_of(kd, true) : adding ? u32(out_of_room || too_often ? full : yes) : u32(no);
    res.live = in_kinds(kd, erasing_kinds) ? -int(alive) : int(res.status == yes && adding && !alive);
    res.used = int(taken);
    res.value = answer_of(kd, alive, seen, v);
    return !mine || lost || (out_of_room_for_now && !too_often) ? verdict::again : verdict::done;
  }

  // The pair in its first bucket, or its second, or wherever room can be made; `lost`: another batch was faster.
  template <class Hand>
  GH_FN placed place(Tile& tile, const table& t, joiner j, const Hand& hand, bool places,
                     const typename Tile::row (&rows)[most_ways], bool& lost) {
    placed put{placed::done, 0};
    const u32 kd = kind();
    const word pair = wanted<F>(kd, j, false, value(0), k, v);
    auto spot = tile.with_key(rows[0], dead_key<key>, 0);
    if constexpr (F::has_value) {  // H6: its own tombstone before any other
      const auto own = tile.with_word(rows[0], tombstone<F>(k), 0);
      spot = tile.choose(tile.any(own) && !GH_MUTANT(other_tombstone), own, spot);
    }
    const auto open = tile.with_key(rows[1], empty_key<key>, 0);
    const bool in_first = places && tile.any(spot);
    const bool in_second = places && !tile.any(spot) && tile.any(open) && !t.commits;
    tile.once(in_second, [&] {
      if (!GH_MUTANT(unmarked_key)) hand.mark_outside(k, home);
      return 0u;
    });
    const index second = t.bucket_of(k, home, 1);
    const bool won = tile.cas(in_first || in_second, t.bucket(in_first ? home : second),
                              Tile::either(in_first, rows[0], rows[1]), tile.choose(in_first, spot, open), pair);
    lost |= (in_first || in_second) && !won;
    put.used = in_second && won;
    const bool hard = places && !in_first && !in_second;
    if (tile.some(hard)) {
      const placed p = find_room(tile, t, hand, hard, home, second, rows, pair, retries);
      if (hard) put = p;
    }
    return put;
  }

  // Neither bucket of k has a slot for the pair, or it has to be claimed.
  template <class Hand>
  GH_FN static placed find_room(Tile& tile, const table& t, const Hand& hand, bool hard, index home, index second,
                                const typename Tile::row (&rows)[most_ways], word pair, u32 retries) {
    placed put{placed::no_room, 0};
    bool wants = hard;
    u32 used = 0;  // by an eviction that came to nothing in the end
    if (Tile::searches() && t.evictions && !t.commits) {
      if (hard) HIVE_EVENT(evicting);
      const bool in_third = t.ways == 3 && tile.any(tile.with_key(rows[2], empty_key<key>, 0));
      typename Tile::hits can[2];
      tile.search(hard && !in_third, rows[0], rows[1], can,
                  [&](u32 w, word seen) { return hand.may_leave(w ? second : home, seen); });
      const bool first = tile.any(can[0]), found = hard && !in_third && (first || tile.any(can[1]));
      const index b = first ? home : second;
      put = placed::unpack(
          tile.once_at(found, Tile::either(first, rows[0], rows[1]), tile.choose(first, can[0], can[1]),
                       [&](word victim, u32 slot) { return hand.evict_one(home, b, slot, victim, pair); }));
      wants = hard && !(found && put.what == placed::done);
      used = found ? put.used : 0;
    }
    if (tile.some(wants)) {
      placed p = placed::unpack(
          tile.once(wants, [&] { return Tile::searches() ? hand.place_later(home, pair) : hand.place(home, pair); }));
      const bool stashes = wants && p.what != placed::done && !hand.keeps_trying(p, retries);
      if (tile.some(stashes)) {
        const placed last = placed::unpack(tile.once(stashes, [&] { return hand.stash_instead(home, pair, p); }));
        if (stashes) p = last;
      }
      if (wants) put = p, put.used += used;
    }
    return put;
  }
};

GH_END
