// The tile of the explorer: a fiber that asks the scheduler before each access of each lane.
//
// A row load is torn: its slots are read one by one, in an order that the scheduler picks, and other tiles may go on in
// between. With a compare-and-swap per one-lane write this is all that a warp's load instruction can do to an operation.
//
// Rule 3 of tile.hpp is asserted: every step of one kind of operation calls the same collectives in the same order, and
// with go = false it writes nothing (drive/sim.hpp makes the calls).
//
// Planted mistakes that need no change of an ops.hpp are made here (GH_MUTANT, tile/mutant.hpp).
#pragma once
#define GPUHASH_SIM 1
#include "libgpuhash/sched/machine.hpp"
#include "libgpuhash/tile/tile.hpp"

namespace gpuhash::sim {

struct mem {
  static constexpr bool only_values_change = false;
  template <order O, class T>
  static T load(const T* p) {
    static_assert(O == order::relaxed || O == order::acquire);
    return the_machine.load(p, O);
  }
  template <order O, class T>
  static void store(T* p, T v) {
    static_assert(O == order::relaxed || O == order::release);
    the_machine.store(p, v, O);
  }
  template <order O, class T>
  static T cas(T* p, T expected, T desired) {
    if (GH_MUTANT(side_store) || GH_MUTANT(load_store)) return cas_by_store<O>(p, expected, desired);
    return the_machine.cas(p, expected, desired, O);
  }
  template <order O, class T>
  static T exchange(T* p, T v) {
    return the_machine.modify("exchange", p, O, [&](T) { return v; });
  }
  template <order O, class T>
  static T fetch_add(T* p, T v) {
    if (GH_MUTANT(counter_store)) {
      const T seen = the_machine.load(p, order::relaxed);
      the_machine.store(p, T(seen + v), order::relaxed);
      return seen;
    }
    return the_machine.modify("add", p, O, [&](T seen) { return T(seen + v); });
  }
  template <order O, class T>
  static T fetch_or(T* p, T v) {
    return the_machine.modify("or", p, O, [&](T seen) { return T(seen | v); });
  }
  template <order O, class T>
  static T fetch_and(T* p, T v) {
    return the_machine.modify("and", p, O, [&](T seen) { return T(seen & v); });
  }
  static bool allocation_fails() { return the_machine.fail_allocation(); }
  static void fence() { the_machine.fence(); }
  static void relax(u32 = 0) { the_machine.relax(); }

  // Mutants only.
  template <order O, class T>
  static T cas_by_store(T* p, T expected, T desired) {
    const T seen = the_machine.load(p, order::relaxed);
    if (seen == expected) the_machine.store(p, desired, order::relaxed);
    return seen;
  }
};

template <class F, u32 R>
struct sim_tile {
  using format = F;
  using mem = sim::mem;
  using word = typename F::word;
  using key = typename F::key;
  using value = typename F::value;
  static constexpr u32 slots = R;

  // Neither converts to bool, as lane-varying data must not.
  struct row {
    word w[R];
    const word* line;
  };
  struct hits {
    u32 mask;
  };

  u64 collectives = 0;  // a hash of the calls of this step

  row load(const word* line) {
    note(1);
    row r;
    r.line = line;
    the_machine.begin_row();
    for (u32 left = (1u << R) - 1; left;) {
      const u32 i = the_machine.next_slot(line, left);
      left &= ~(1u << i);
      r.w[i] = the_machine.read(line + i, order::relaxed);
      if (GH_MUTANT(torn_pair))
        r.w[i] = F::make(F::key_of(r.w[i]), F::value_of(mem::template load<order::relaxed>(line + i)));
    }
    the_machine.end_row();
    return r;
  }
  hits with_key(const row& r, key k, u32 first, u32 end = R) {
    note(2);
    if (GH_MUTANT(no_first_mask)) first = 0;
    u32 m = 0;
    for (u32 i = first; i < end; ++i)
      m |= u32(F::key_of(r.w[i]) == k || (k == empty_key<key> && ends_path(r.w[i]))) << i;
    return {m};
  }
  hits with_word(const row& r, word w, u32 first, u32 end = R) {
    note(3);
    u32 m = 0, open = 0;
    for (u32 i = first; i < end; ++i) m |= u32(r.w[i] == w) << i, open |= u32(r.w[i] == empty_word<F>()) << i;
    if (GH_MUTANT(ignored_tombstone)) m = 0;
    if (GH_MUTANT(foreign_tombstone) && open && !m)
      for (u32 i = first; i < end; ++i) m |= u32(F::key_of(r.w[i]) == dead_key<key>) << i;
    return {m};
  }
  hits at_most(const row& r, key k, u32 first, u32 end = R) {
    note(11);
    u32 m = 0;
    for (u32 i = first; i < end; ++i) m |= u32(F::key_of(r.w[i]) <= k) << i;
    return {m};
  }
  word last_word(const row& r, hits h) {
    note(12);
    return h.mask ? r.w[31 - u32(__builtin_clz(h.mask))] : F::make(key(0x5eed5eed), value(0x5eed5eed));
  }
  bool any(hits h) { return h.mask != 0; }  // on CUDA the ballot was with_key's: no lane asks another here
  u32 number(hits h) {
    note(9);
    return u32(__builtin_popcount(h.mask));
  }
  hits choose(bool c, hits a, hits b) { return c ? a : b; }
  // Without a hit there is no such word: what comes back must not matter, so it is one that no program uses.
  word word_at(const row& r, hits h) {
    if (!(GH_MUTANT(skipped_collective) && !h.mask)) note(6);
    if (!h.mask) return F::make(key(0x5eed5eed), value(0x5eed5eed));
    return r.w[lead(h)];
  }
  value value_at(const row& r, hits h) {
    const word w = word_at(r, h);
    return F::value_of(GH_MUTANT(late_value) && h.mask ? mem::template load<order::relaxed>(r.line + lead(h)) : w);
  }
  word slot(const row& r, u32 i) {
    note(7);
    return r.w[i];
  }
  // What comes back without go must not matter either.
  template <class Act>
  auto once(bool go, Act act) {
    note(10);
    return go ? act() : decltype(act())(0x5eed5eed);
  }
  void add(bool go, word* line, const row& r, hits h, value v, bool) {
    note(13);
    if (!go) return;
    if (!h.mask) the_machine.fail("lockstep: add was called without a hit");
    word* const slot = line + lead(h);
    const auto sum = [v](word seen) { return F::make(F::key_of(seen), value(F::value_of(seen) + v)); };
    if (GH_MUTANT(stale_sum)) return mem::template store<order::relaxed>(slot, sum(r.w[lead(h)]));
    the_machine.modify("add", slot, order::relaxed, sum);
  }
  void replace(bool go, word* line, const row&, hits h, word w) {
    note(14);
    if (!go) return;
    if (!h.mask) the_machine.fail("lockstep: replace was called without a hit");
    mem::template store<order::relaxed>(line + lead(h), w);
  }
  bool cas(bool go, word* line, const row& r, hits h, word desired) {
    note(8);
    if (GH_MUTANT(idle_writes)) go = h.mask != 0;
    if (!go) return false;
    if (!h.mask) the_machine.fail("lockstep: cas was called without a hit");
    u32 i = lead(h);
    if (GH_MUTANT(last_empty) && r.w[i] == empty_word<F>()) i = 31 - u32(__builtin_clz(h.mask));
    word expected = r.w[i];
    if (GH_MUTANT(any_expected)) expected = mem::template load<order::relaxed>(line + i);
    if ((GH_MUTANT(plain_erase) && F::key_of(desired) == dead_key<key>) ||
        (GH_MUTANT(put_before_keys) && the_machine.current_kind() == assign)) {
      mem::template store<order::relaxed>(line + i, desired);
      return true;
    }
    if (GH_MUTANT(side_store)) return the_machine.cas(line + i, expected, desired, order::relaxed) == expected;
    const bool won = mem::template cas<order::relaxed>(line + i, expected, desired) == expected;
    return won || GH_MUTANT(lost_cas);
  }

 private:
  void note(u32 call) { collectives = collectives * 11 + call; }
  static u32 lead(hits h) { return u32(__builtin_ctz(h.mask)); }
  // Mutants only: a tombstone that is taken for the end of the path.
  static bool ends_path(word w) {
    if (F::key_of(w) != dead_key<key>) return false;
    const u32 kd = the_machine.current_kind();
    return (GH_MUTANT(tombstone_reuse) && (kd == insert || kd == assign || kd == accumulate)) ||
           (GH_MUTANT(tombstone_ends_find) && kd == find);
  }
};

}  // namespace gpuhash::sim
