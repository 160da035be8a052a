// slab_hash: the paper's REPLACE (insert, assign, accumulate), INSERT (insert_multi), SEARCH (find), SEARCHALL (count),
// DELETE (erase) and DELETEALL (erase_all), all lock free.
//
// After Ashkiani, Farach-Colton and Owens (2018), sections III and IV, corrected: a pair is one word, a write is a
// compare-and-swap of the word that was read, tombstones remember their key, and erased slots stay taken until FLUSH in
// both modes (README.md says why). The invariants S1-S6 are in layout.hpp.
//
// Linearization points:
//   a write   at its winning compare-and-swap
//   no write  at the load of the slot that decides: k's live word, or the EMPTY slot or missing link that ends the path.
//             Slots before it were loaded earlier, but k can have come to none of them since (S1, S2), except by
//             reviving its own tombstone; then the operation linearizes at the load of that tombstone.
//             A row is no snapshot: where keys may have several pairs, one may be erased while another comes to a slot
//             that was loaded already. There a miss counts when a second look at the row ends at the same EMPTY slot or
//             link.
//   erase_all, count: where keys may have several pairs, each slot at its own load or swap; as a whole they are atomic
//             only while no operation writes k.
//
// Slots and links are also written by the following, which hold the table exclusively:
//   parts.cuh                 chains of a run of buckets in a block's memory, for large batches on CUDA. Keys of a chain come
//                             to its first EMPTY slots (S2), once each (S3); a slab is linked wiped, and given back unlinked
//                             (S4, S5)
//   rebuild.hpp, rebuild.cuh  new chains, each appended to by one thread (S2); keys are not compared, since S3 held before
#pragma once
#include "layout.hpp"
#include "libgpuhash/kit/meaning.hpp"
#include "libgpuhash/tile/mutant.hpp"
#include "libgpuhash/tile/tile.hpp"

GH_BEGIN

// insert_multi needs the first EMPTY slot of its chain only, so that it can pass over the pairs of a frequent key. It goes by
// the links through so many slabs, since chains are short as a rule, and then on at the chain's tail (S6).
#if defined(GPUHASH_SIM)
inline constexpr u32 slabs_before_tail = 1;
#else
inline constexpr u32 slabs_before_tail = 2;
#endif
struct no_tail {};
struct known_tail {
  u32* where;
  u32 passed;  // slabs that it left by their links
  u32 taken;   // the tail that it went on at; no_unit: none yet
};

// Whole: a line is a slab. Otherwise a slab is several lines, and a hit near its front does not fetch the rest.
template <class Tile, u32 Kind, bool Whole = false, class Table = slab_table<typename Tile::format>>
struct slab_op {
  using F = typename Tile::format;
  using table = Table;
  using key = typename F::key;
  using value = typename F::value;
  using word = typename F::word;
  using index = typename F::index;
  using tile_type = Tile;
  static constexpr u32 R = Tile::slots;
  static constexpr u32 fixed_kind = Kind;
  static constexpr bool has_slow = Kind == mixed || in_kinds(Kind, adding_kinds);
  // A multiprocessor is full of warps of find and erase, which have 32 registers then; with so few erase_all would spill.
  static constexpr int cuda_blocks = has_slow                                              ? sizeof(key) == 8 ? 4 : 5
                                     : (Kind == find || Kind == erase) && sizeof(key) == 4 ? 8
                                                                                           : 0;

  word* at;  // the line to visit
  key k;
  value v;
  u32 line_no;  // of its slab
  u32 looked;   // duplicates: 1 + EMPTY slots of the line when it was looked at and k was missing; 0: not yet
  u32 own_kind;
  result<F> res;
  [[no_unique_address]] std::conditional_t<Kind == insert_multi, known_tail, no_tail> tail;

  GH_FN u32 kind() const { return Kind == mixed ? own_kind : Kind; }

  GH_FN void start(const table& t, u32 kd, key a_key, value a_value, index home) {
    at = t.bucket(home), k = table::stored(a_key), v = a_value, line_no = 0, looked = 0, own_kind = kd;
    res = {no, 0, 0, 0};
    if constexpr (Kind == insert_multi) tail = {t.tail(home), 0, no_unit};
  }

  GH_FN word* line(const table&) const { return at; }

  // For drivers that visit homes first (drive/cuda_homes.cuh): the same as step() of a home, for find and count of keys
  // that have one pair.
  static constexpr bool homes_first = Whole && (Kind == find || Kind == count);
  GH_FN static bool looks(const table& t)
    requires(homes_first)
  {
    return !t.duplicates;
  }
  GH_FN static index first_line(const table&, index home) { return home; }
  GH_FN static word* line_at(const table& t, index home) { return t.bucket(home); }
  template <class Glance>
  GH_FN static Glance look(const Tile& tile, const table&, const typename Tile::row& row, key a_key) {
    const auto live = [a_key](word w) { return F::key_of(w) == a_key; };
    const auto open = [](word w) { return F::key_of(w) == empty_key<key>; };
    const u32 next = table::next_of(tile.own_last(row));
    const bool chain_ends = tile.lane == Tile::last_lane && next == no_unit;
    return {tile.has(row, R - 1, live), tile.has(row, R - 1, open) || chain_ends,
            F::value_of(tile.first_word(row, live)), next};
  }
  GH_FN static word* line_after(const table& t, key, word*, u32 next) { return t.slab(next); }
  GH_FN static u32 most_visits(const table&) { return ~0u; }

  GH_FN verdict step(Tile& tile, const table& t, joiner j, const typename Tile::row& row, bool go) {
    constexpr bool may_add = Kind == mixed || in_kinds(Kind, adding_kinds);
    const bool last_line = Whole || (line_no + 1) * R == t.slab_slots;
    const u32 end = R - last_line;  // the last slot of a slab is its link

    const auto live = tile.with_key(row, k, 0, end);
    const auto open = tile.with_key(row, empty_key<key>, 0, end);
    const bool adds_one = Kind == insert_multi;  // whether the key is there or not
    auto spot = tile.choose(tile.any(live) && !adds_one, live, open);
    bool revives = false, won = false;
    if constexpr (may_add && Kind != insert_multi && F::has_value) {  // S1, S3
      const auto dead = tile.with_word(row, tombstone<F>(k), 0, end);
      revives = !t.duplicates && !tile.any(live) && tile.any(dead);
      spot = tile.choose(revives, dead, spot);
    }
    const bool alive = tile.any(live) && !adds_one, ends = alive || revives || tile.any(open);
    value seen = 0;
    if constexpr (sees_value<Kind>) seen = tile.value_at(row, live);
    const u32 next = table::next_of(tile.slot(row, R - 1)), kd = kind();
    const bool writing = ends && kd != nop && writes(kd, alive);
    const word want = wanted<F>(kd, j, alive, seen, k, v);
    if constexpr (updates_in_place<Tile, Kind>) {  // S1: a slot that no batch erases stays its key's
      const bool in_place = alive && changes_in_place<Tile, Kind>(j);
      update<Kind>(tile, go && in_place, at, row, live, k, v, j.narrow);
      won = in_place || (Kind == accumulate && alive && F::value_of(want) == seen);  // or nothing is to be written
    }
    if constexpr (in_kinds(Kind, writing_batches)) won |= tile.cas(go && writing && !won, at, row, spot, want);

    // Selects, not branches: tiles of a warp step together.
    const bool retry = writing && !won, chain_ends = last_line && next == no_unit;
    bool stays = retry, finished = ends || kd == nop;
    if constexpr (Kind == count || Kind == erase_all) {
      // These operations finish at a key's only pair (S3), or at the end of the chain.
      const bool hit = Kind == erase_all ? won : alive, only = hit && !t.duplicates;
      if constexpr (Kind == erase_all) res.live -= won;
      if constexpr (Kind == count) {  // a set's only word of k may move while the row is read, and be seen twice
        const u32 here = tile.number(live);
        res.value += value(t.duplicates ? here : hit);
      }
      res.status = hit ? yes : res.status;
      stays = Kind == erase_all && alive && !only;  // the line may hold more pairs of k
      finished = tile.any(open) || only;
    } else {
      const bool added = writing && !alive;
      res.status = status_of(kd, alive);
      res.live = added - (writing && in_kinds(kd, erasing_kinds));
      res.used = added && !revives;
      res.value = answer_of(kd, alive, seen, v);
    }
    if constexpr (Kind == mixed || Kind == find || in_kinds(Kind, erasing_kinds)) {
#if defined(__CUDACC__)
      const bool missed = !alive && (finished || chain_ends) && kd != nop && !in_kinds(kd, adding_kinds);
      if (t.duplicates) stays |= looks_again(tile, open, missed);
#else
      if (t.duplicates) stays |= looks_again(tile, open, !alive && (finished || chain_ends) && !may_only_add(kd));
#endif
    }
    bool moves = !stays && !finished && !chain_ends;
    if constexpr (Kind == insert_multi) {
      moves = moves && !(last_line && tail.passed >= slabs_before_tail);  // slow() moves it
      tail.passed += moves && last_line;
    }
    at = !moves ? at : last_line ? t.slab(next) : at + R;
    line_no = !moves ? line_no : last_line ? 0 : line_no + 1;
    return stays                                     ? verdict::again
           : moves                                   ? verdict::next
           : !finished && in_kinds(kd, adding_kinds) ? verdict::slow  // every slot up to here is taken
                                                     : verdict::done;
  }

  GH_FN static bool may_only_add(u32 kd) { return kd == nop || in_kinds(kd, adding_kinds); }

  // Where the key was missed: has the row not been seen twice yet with as many open slots? All tiles of a warp call, or none.
  // On a GPU step() computes `missed` before the branch on t.duplicates, or it would keep four registers more; on a CPU in
  // it, or what follows would wait.
  template <class Hits>
  GH_FN bool looks_again(Tile& tile, Hits open, bool missed) {
    const u32 look = 1 + tile.number(open);
    const bool again = missed && looked != look;
    looked = missed ? look : 0;
    return again;
  }

  // `at` is the last line of a slab whose slots are taken: go on at the chain's tail, or in the next slab, or append one.
  GH_FN verdict slow(Tile& tile, const table& t, joiner, bool go) {
    using Mem = typename Tile::mem;
    if constexpr (Kind == insert_multi) {
      // Twice to the same tail would be a circle where it lags. Where others come to the same tail at the same time, their
      // pairs fill slab after slab; hence once more for each tail that is new, and at once.
      const u32 known = tile.once(go, [&] { return Mem::template load<order::relaxed>(tail.where); });
      const bool before = tail.taken != no_unit, jumps = known != no_unit && known != tail.taken;
      const u32 next = tile.once(go && !jumps, [&] { return linked_or_mine<Mem>(t); });
      tail.taken = go && jumps ? known : tail.taken;
      const verdict d = enter(t, jumps ? known : next, go);
      return before && d == verdict::next ? verdict::again : d;
    }
    return enter(t, tile.once(go, [&] { return append<Mem>(t); }), go);
  }

 private:
  GH_FN verdict enter(const table& t, u32 next, bool go) {
    const bool out = next == no_unit;
    res.status = go && out ? no_memory : res.status;
    res.live = go ? 0 : res.live, res.used = go ? 0 : res.used;
    at = go && !out ? t.slab(next) : at;
    line_no = go ? 0 : line_no;
    return out ? verdict::done : verdict::next;
  }

  template <class Mem>
  GH_FN u32 linked_or_mine(const table& t) const {
    const u32 next = table::next_of(Mem::template load<order::relaxed>(at + R - 1));
    return next != no_unit ? next : append<Mem>(t);
  }

  // The paper's warp_allocate and link. The slab behind this one, or no_unit.
  template <class Mem>
  GH_FN u32 append(const table& t) const {
    const u32 mine = t.heap.template allocate<Mem>(u64(reinterpret_cast<uintptr_t>(at)) >> 4);
    if (mine == no_unit)
      return table::next_of(Mem::template load<order::relaxed>(at + R - 1));  // another tile's slab will do
    if constexpr (Kind == insert_multi)
      if (GH_MUTANT(early_tail)) Mem::template store<order::relaxed>(tail.where, mine);
    // S4. The unit is wiped (A2), so a tile that follows the link reads EMPTY slots, however late other writes arrive.
    const word before = Mem::template cas<order::relaxed>(at + R - 1, empty_word<F>(), table::link_to(mine));
    if (!(before == empty_word<F>())) {
      t.heap.template release<Mem>(mine);  // another tile was first, and none has seen this slab
      return table::next_of(before);
    }
    // S6. Only insert_multi looks at the tail, so only it moves it. A late store may set it back: then the next elements
    // have a longer way, until another slab is linked.
    if constexpr (Kind == insert_multi) Mem::template store<order::relaxed>(tail.where, mine);
    return mine;
  }
};

GH_END
