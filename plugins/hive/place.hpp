// hive: what one lane does alone, with scalar accesses: locks, the filter, the stash, and finding a place for a key whose
// home is full: a dead slot, an eviction, or the stash. Rare, and never on the way of a hit.
//
// After the third and fourth step of the paper's insert, corrected: README.md says how. The invariants H1-H7 are in
// layout.hpp. None of these functions waits for a lock: a tile that holds one takes others only if they are free.
#pragma once
#include "layout.hpp"
#include "libgpuhash/kit/meaning.hpp"
#include "libgpuhash/tile/mutant.hpp"

GH_BEGIN

#if defined(__CUDACC__) && !defined(GPUHASH_EMULATED_WARP)
#define HIVE_RARE GH_FN
#else
#define HIVE_RARE inline __attribute__((noinline))
#endif

#if defined(__CUDACC__)
#define HIVE_UNROLL _Pragma("unroll")
#define HIVE_NO_UNROLL _Pragma("unroll 1")
#else
#define HIVE_UNROLL
#define HIVE_NO_UNROLL
#endif

// Steps of an insert whose home is full: locked, evicting, moved, stashing, unlocked. They do nothing, except in a
// program that counts and times them (asv_bench/harness/hive_steps.cpp).
#ifndef HIVE_EVENT
#define HIVE_EVENT(what) ((void)0)
#endif

// Keys of each bucket, in a round, for which another key might make room. One more costs time, and changes no answer.
#if defined(GPUHASH_SIM) || defined(GPUHASH_EMULATED_WARP)
inline constexpr u32 second_victims = 1;
#else
inline constexpr u32 second_victims = tunable("second_victims", 2u);
#endif
// A lost swap, or a lock that another tile holds, does not mean that there is no room; but tiles that stand in each
// other's way do not try for ever.
#if defined(GPUHASH_EMULATED_WARP)  // where each access is a choice of a scheduler
inline constexpr u32 most_retries = 4;
#else
inline constexpr u32 most_retries = tunable("hive_retries", 64u);
#endif
// A key whose slot is claimed first waits so often for locked buckets before it takes a place of the stash.
#if defined(GPUHASH_SIM)
inline constexpr u32 most_patience = 1;
#else
inline constexpr u32 most_patience = most_retries;
#endif

// And where slots are not claimed.
#if defined(GPUHASH_EMULATED_WARP)
inline constexpr u32 some_patience = 1;
#elif defined(__CUDACC__)
inline constexpr u32 some_patience = 8;
#else
inline constexpr u32 some_patience = 0;
#endif

// Slots on their way from memory.
#if defined(GPUHASH_SIM)
inline constexpr u32 slots_at_once = 1;  // buckets of the explorer have as few as two
#else
inline constexpr u32 slots_at_once = tunable("slots_at_once", 4u);
#endif
// A tile that puts a key elsewhere holds a lock for microseconds.
inline constexpr u32 turns_of_a_placing = tunable("turns_of_a_placing", 4u);

struct placed {
  enum { no_room, done, retry };
  u32 what;
  u32 used;  // EMPTY slots that were taken
  GH_FN u32 packed() const { return what | used << 2; }
  GH_FN static placed unpack(u32 x) { return {x & 3, x >> 2}; }
};

template <class Mem, class Table>
struct hive_hand {
  using F = typename Table::format;
  using key = typename F::key;
  using word = typename F::word;
  using index = typename F::index;

  const Table& t;

  // ---- locks and filter ------------------------------------------------------------------------------------------------

  // The lock's version, which is odd; or an even number: another tile holds it.
  GH_FN u32 try_lock(u32* lock) const {
#if !defined(__CUDACC__)  // who waits must not write; on CUDA another round trip would cost more
    const u32 seen = Mem::template load<order::relaxed>(lock);
    if (!(seen & 1)) return seen;
#endif
    return Mem::template fetch_and<order::acquire>(lock, ~1u);
  }
  // The same, after a wait if another tile holds it.
  GH_FN u32 lock(u32* lock) const {
    const u32 seen = try_lock(lock);
    if (!(seen & 1)) Mem::relax(turns_of_a_placing);
    HIVE_EVENT(locked);
    return seen;
  }
  GH_FN void unlock(u32* lock, u32 version) const {
    HIVE_EVENT(unlocked);
    Mem::template store<order::release>(lock, version + 2);
  }
  // The lock's version as it was, after a wait if another tile holds it.
  GH_FN u32 version(u32* lock) const {
    const u32 seen = Mem::template load<order::acquire>(lock);
    if (!(seen & 1)) Mem::relax();
    return seen;
  }

  GH_FN bool lies_outside(key k, index home) const {  // some key of its home and bit did
    return !(Mem::template load<order::relaxed>(t.filter_of(home)) & t.filter_bit(k, home));
  }
  GH_FN void mark_outside(key k, index home) const {  // H3
    Mem::template fetch_and<order::relaxed>(t.filter_of(home), ~t.filter_bit(k, home));
  }

  // ---- the stash -------------------------------------------------------------------------------------------------------

  // Was anything ever in it?
  GH_FN bool has_stash() const {
    return t.stash_slots && !GH_MUTANT(unsearched_stash) && Mem::template load<order::relaxed>(t.note) != ~0u;
  }
  // 1 + the number of k's slot in the stash; 0: it is not there. With the lock of k's home, or between two looks at it.
  HIVE_RARE u32 find_in_stash(key k) const {
    u32 at = t.stash_start(k);
    HIVE_NO_UNROLL
    for (u32 i = 0; i < t.stash_path; ++i, at = at + 1 == t.stash_slots ? 0 : at + 1) {
      const word w = Mem::template load<order::acquire>(t.stash + at);
      if (F::key_of(w) == k) return 1 + at;
      if (is_empty<F>(w)) return 0;
    }
    return 0;
  }
  // Do what the operation does where k is live, in its stash slot. The word that was there, or a dead one: k was erased.
  GH_FN word serve_in_stash(u32 at, u32 kd, joiner j, key k, typename F::value v) const {
    for (;;) {
      const word seen = Mem::template load<order::relaxed>(t.stash + at);
      if (F::key_of(seen) != k || !writes(kd, true)) return seen;
      const word want = wanted<F>(kd, j, true, F::value_of(seen), k, v);
      if (Mem::template cas<order::relaxed>(t.stash + at, seen, want) == seen) return seen;
    }
  }
  GH_FN placed put_in_stash(index home, word pair) const {
    if (!t.stash_slots) return {placed::no_room, 0};
    HIVE_EVENT(stashing);
    const key k = F::key_of(pair);
    mark_outside(k, home);
    if (!GH_MUTANT(unsaid_stash)) Mem::template store<order::relaxed>(t.note, 0u);
    u32 at = t.stash_start(k);
    HIVE_NO_UNROLL
    for (u32 i = 0; i < t.stash_path; ++i, at = at + 1 == t.stash_slots ? 0 : at + 1) HIVE_NO_UNROLL
    for (word seen = Mem::template load<order::relaxed>(t.stash + at); !is_live<F>(seen);) {
      const word before = Mem::template cas<order::acq_rel>(t.stash + at, seen, pair);
      if (before == seen) return {placed::done, u32(is_empty<F>(seen))};
      seen = before;
    }
    return {placed::no_room, 0};
  }

  // For a pair that place() could not put into a bucket.
  HIVE_RARE u32 stash_instead(index home, word pair, placed before) const {
    const placed last = put_in_stash(home, pair);
    before.used += last.used;
    if (last.what == placed::done || GH_MUTANT(dropped_key)) before.what = placed::done;
    return before.packed();
  }
  // The stash is for keys that find no place. If other tiles were in the way of a key, it tries again, and unlocks its
  // home meanwhile, since a tile that holds a lock may want that of another one. It tries more often where slots are
  // claimed first: then buckets are locked for so long that all buckets of a key may be locked at one time.
  GH_FN bool keeps_trying(const placed& p, u32 retries) const {
    return p.what == placed::retry && retries < (t.commits ? most_patience : some_patience);
  }

  // ---- the buckets -----------------------------------------------------------------------------------------------------

  // Put the pair of key k somewhere: k is nowhere, the caller holds the lock of its home, and that has no EMPTY slot, unless
  // slots are claimed first (t.commits). `retry` instead of `no_room`: others were in the way.
  HIVE_RARE u32 place(index home, word pair) const {
    const key k = F::key_of(pair);
    u32 used = 0;
    bool busy = false;
    HIVE_NO_UNROLL
    for (u32 round = 0;; ++round) {
      HIVE_NO_UNROLL
      for (u32 way = 0; way < t.ways; ++way)
        if (take_free_slot(home, GH_MUTANT(early_other) ? t.ways - 1 - way : way, pair, used, busy))
          return placed{placed::done, used}.packed();
      if (round == evictions() || may_be_open(busy)) break;
      HIVE_EVENT(evicting);
      if (evict(home, pair, used, busy)) return placed{placed::done, used}.packed();
      // This is of use: the slot that it makes vacant is for the next round.
      if (round + 1 < evictions()) evict_second(k, home, round, used, busy);
    }
    return placed{u32(busy ? placed::retry : placed::no_room), used}.packed();
  }

  // Could the key that bucket b shows leave it for the last slot of another of its buckets? Buckets fill from their first slot
  // on, so that this one is free where any is, unless it is a dead one.
  GH_FN bool may_leave(index b, word seen) const {
    const key v = F::key_of(seen);
    const word last = Mem::template load<order::relaxed>(last_slot(way_out(v, t.home(v), b)));
    return is_live<F>(seen) && is_free(last);
  }
  // Let the pair take this slot of bucket b, one of its own, whose key seems to be able to leave it. No slot of b is EMPTY, and
  // the caller holds the lock of the pair's home.
  HIVE_RARE u32 evict_one(index home, index b, u32 slot, word victim, word pair) const {
    u32 used = 0;
    bool busy = false;
    const index v_home = t.home(F::key_of(victim)), to = way_out(F::key_of(victim), v_home, b);
    if (b != home) mark_outside(F::key_of(pair), home);
    const bool won = relocate(t.lock_of(home), t.bucket(b) + slot, victim, v_home, to, last_slot(to), pair, used, busy);
    return placed{u32(won ? placed::done : placed::retry), used}.packed();
  }

  // The same where the lanes of a tile have searched both buckets (hive_op::find_room), for kernels, which have few
  // registers: a victim after the other, and where there is none that can leave at once, one that can after another one has
  // left its other bucket.
  HIVE_RARE u32 place_later(index home, word pair) const {
    const key k = F::key_of(pair);
    u32 used = 0;
    bool busy = false;
    HIVE_NO_UNROLL
    for (u32 way = 0; way < t.ways; ++way)
      if (likely_free_slot(t.bucket_of(k, home, way)) && take_free_slot(home, way, pair, used, busy))
        return placed{placed::done, used}.packed();
    const u32 first = evictions() && !may_be_open(busy) ? 0 : 0xff;
    static_assert(32 * most_ways <= 0xff);
    HIVE_NO_UNROLL
    for (u32 n = first; (n & 0xff) < t.ways << t.slot_bits && n >> 8 <= evictions(); ++n) {  // above, how many made way
      const u32 i = n & 0xff, way = i >> t.slot_bits;
      if (way) mark_outside(k, home);
      index b = t.bucket_of(k, home, way);
      word* slot = t.bucket(b) + (i & (bucket_slots() - 1));
      word victim = Mem::template load<order::acquire>(slot);
      if (!is_live<F>(victim)) continue;  // it was erased
      index v_home = t.home(F::key_of(victim)), to = way_out(F::key_of(victim), v_home, b);
      word* free = likely_free_slot(to);
      const bool last = free;
      if (!last) {  // H2: no key is placed outside a home that is not full
        b = to, slot = who_may_leave(b, victim);
        if (!slot) continue;
        v_home = t.home(F::key_of(victim)), to = way_out(F::key_of(victim), v_home, b);
        free = last_slot(to);
      }
      const bool won = relocate(t.lock_of(home), slot, victim, v_home, to, free, last ? pair : vacant<F>(), used, busy);
      if (won && last) return placed{placed::done, used}.packed();
      if (won) n += 0xff;  // now this one can leave; if not, others are about there, and the next victim is elsewhere
    }
    return placed{u32(busy ? placed::retry : placed::no_room), used}.packed();
  }

 private:
  GH_FN u32 evictions() const { return GH_MUTANT(unasked_eviction) ? 1 : t.evictions; }
  // Slots that are claimed first: a bucket whose lock another tile held may have EMPTY ones, and no key is placed outside
  // it then (H2).
  GH_FN bool may_be_open(bool busy) const { return t.commits && busy && !GH_MUTANT(open_victim); }
  // One of v's buckets other than b, which is one.
  GH_FN index way_out(key v, index v_home, index b) const {
    const index first = t.bucket_of(v, v_home, 1);
    return b != v_home ? v_home : first;
  }
  GH_FN word* last_slot(index b) const { return t.bucket(b) + bucket_slots() - 1; }

  static constexpr bool is_free(word w) { return !is_live<F>(w); }
  GH_FN u32 bucket_slots() const { return 1u << t.slot_bits; }

  GH_FN bool take_free_slot(index home, u32 way, word pair, u32& used, bool& busy) const {
    const key k = F::key_of(pair);
    const index b = t.bucket_of(k, home, way);
    u32* const held = t.lock_of(home);
    HIVE_NO_UNROLL
    for (u32 i = 0; i < bucket_slots(); ++i) {
      word* const slot = t.bucket(b) + i;
      word seen = Mem::template load<order::acquire>(slot);
      if (is_live<F>(seen)) continue;
      if (way) mark_outside(k, home);
      if (is_empty<F>(seen) && !t.commits) {
        seen = Mem::template cas<order::acq_rel>(slot, empty_word<F>(), pair);
        if (is_empty<F>(seen)) return ++used, true;
        if (is_live<F>(seen)) continue;
      }
      u32* const lock = t.lock_of(b);  // H5
      const bool takes = lock != held && !GH_MUTANT(unlocked_reuse);
      const u32 version = takes ? try_lock(lock) : 0;
      if (takes && !(version & 1)) {
        busy = true;
        continue;
      }
      seen = Mem::template load<order::acquire>(slot);
      const bool won = t.commits ? claim(slot, seen) : is_dead<F>(seen) && swap(slot, seen, pair);
      if (won && t.commits) {
        swap(slot, vacant<F>(), pair);  // released, as a store of 16 bytes would not be everywhere
        used += is_empty<F>(seen);
      }
      if (takes) unlock(lock, version);
      if (won) return true;
      busy = true;
    }
    return false;
  }
  GH_FN static bool swap(word* slot, word seen, word to) {
    return Mem::template cas<order::acq_rel>(slot, seen, to) == seen;
  }
  // Make a free slot the caller's, who holds its bucket's lock: a vacant slot of a locked bucket belongs to the lock's
  // holder (H5). A dead one may be taken back meanwhile, by the key whose tombstone it is (H6).
  GH_FN static bool claim(word* slot, word seen) {
    if (GH_MUTANT(stored_claim)) return is_free(seen) && (Mem::template store<order::relaxed>(slot, vacant<F>()), true);
    return is_free(seen) && swap(slot, seen, vacant<F>());
  }

  // A slot of bucket b that is EMPTY or dead; or NULL.
  GH_FN word* free_slot(index b) const {
    HIVE_NO_UNROLL
    for (u32 i = 0; i < bucket_slots(); ++i)
      if (is_free(Mem::template load<order::acquire>(t.bucket(b) + i))) return t.bucket(b) + i;
    return nullptr;
  }

  // The same, and the slot of bucket b whose key may leave it, or NULL, by relaxed loads. Slots that are not EMPTY stay so (H1),
  // and what else they say is tested again when they are swapped.
  GH_FN word* likely_free_slot(index b) const {
    word* found = nullptr;
    HIVE_NO_UNROLL
    for (u32 from = 0; from < bucket_slots() && !found; from += slots_at_once) {
      word w[slots_at_once];
      HIVE_UNROLL
      for (u32 i = 0; i < slots_at_once; ++i) w[i] = Mem::template load<order::relaxed>(t.bucket(b) + from + i);
      HIVE_UNROLL
      for (u32 i = 0; i < slots_at_once; ++i) found = !found && is_free(w[i]) ? t.bucket(b) + from + i : found;
    }
    return found;
  }
  GH_FN word* who_may_leave(index b, word& seen) const {
    HIVE_NO_UNROLL
    for (u32 i = 0; i < bucket_slots(); ++i) {
      const word w = Mem::template load<order::relaxed>(t.bucket(b) + i);
      if (!may_leave(b, w)) continue;
      seen = w;
      return t.bucket(b) + i;
    }
    return nullptr;
  }

  // Slots of bucket b whose key could go to a bucket with a free last slot; a bit for each. Buckets fill from their first slot
  // on, so that this one is free where any is, unless it is a dead one. Loads without branches: their lines arrive together.
  GH_FN u32 likely_victims(index b) const {
    u32 likely = 0;
    HIVE_NO_UNROLL
    for (u32 i = 0; i < bucket_slots(); ++i) {
      const key v = F::key_of(Mem::template load<order::relaxed>(t.bucket(b) + i));
      const index v_home = t.home(v);
      HIVE_NO_UNROLL
      for (u32 way = 0; way < t.ways; ++way) {
        const index to = t.bucket_of(v, v_home, way);
        likely |= u32(is_free(Mem::template load<order::relaxed>(t.bucket(to) + bucket_slots() - 1)) && to != b) << i;
      }
    }
    return likely;
  }

  // Let the pair take the slot of a key of one of its buckets that can go to another of its own. First the likely ones.
  GH_FN bool evict(index home, word pair, u32& used, bool& busy) const {
    const key k = F::key_of(pair);
    HIVE_NO_UNROLL
    for (u32 n = 0; n < 2 * t.ways; ++n) {
      const u32 way = n < t.ways ? n : n - t.ways;
      const index b = t.bucket_of(k, home, way);
      if (way) mark_outside(k, home);
      const u32 tried = n < t.ways ? likely_victims(b) : ~0u;
      HIVE_NO_UNROLL
      for (u32 i = 0; i < bucket_slots(); ++i)
        if (tried >> i & 1 && move_victim(t.lock_of(home), b, t.bucket(b) + i, pair, used, busy)) return true;
    }
    return false;
  }

  // No victim can go anywhere. Make a slot of another bucket vacant where one of them could go then.
  GH_FN void evict_second(key k, index home, u32 round, u32& used, bool& busy) const {
    HIVE_NO_UNROLL
    for (u32 n = 0; n < second_victims * t.ways; ++n) {
      const index b = t.bucket_of(k, home, n % t.ways);
      const u32 drawn = u32(mix(u32(k) + round * 64 + n));
      const word seen = Mem::template load<order::acquire>(t.bucket(b) + (drawn & (bucket_slots() - 1)));
      if (!is_live<F>(seen)) return;  // it was erased
      const key v = F::key_of(seen);
      const index v_home = t.home(v);
      HIVE_NO_UNROLL
      for (u32 way = 0; way < t.ways; ++way) {
        const index c = t.bucket_of(v, v_home, way);
        if (c == b) continue;
        if (free_slot(c) && !GH_MUTANT(early_second)) return;  // H2: no key is placed outside a home that is not full
        HIVE_NO_UNROLL
        for (u32 i = 0; i < bucket_slots(); ++i)
          if (move_victim(t.lock_of(home), c, t.bucket(c) + i, vacant<F>(), used, busy)) return;
      }
    }
  }

  // Move the key in this slot of bucket b, which has no EMPTY slot, to another of its buckets, and leave `instead` there.
  GH_FN bool move_victim(u32* held, index b, word* slot, word instead, u32& used, bool& busy) const {
    const word victim = Mem::template load<order::acquire>(slot);
    if (!is_live<F>(victim)) return false;
    const key v = F::key_of(victim);
    const index v_home = t.home(v);
    HIVE_NO_UNROLL
    for (u32 way = 0; way < t.ways; ++way) {
      const index to = t.bucket_of(v, v_home, way);
      if (to == b) continue;
      word* const free = free_slot(to);
      if (free && relocate(held, slot, victim, v_home, to, free, instead, used, busy)) return true;
    }
    return false;
  }

  // The relocation protocol. The victim is nowhere between the two writes: an operation that misses it then finds its
  // filter bit cleared and its home's lock taken, and looks again.
  GH_FN bool relocate(u32* held, word* slot, word victim, index v_home, index to, word* free, word instead, u32& used,
                      bool& busy) const {
    u32* const own = t.lock_of(v_home);
    u32* const other = t.lock_of(to);
    const bool take_own = own != held && !GH_MUTANT(unlocked_victim);
    const bool take_other = other != held && other != own && !GH_MUTANT(unlocked_destination);
    const u32 own_version = take_own ? try_lock(own) : 1;  // H4
    if (!(own_version & 1)) return busy = true, false;
    const u32 other_version = take_other ? try_lock(other) : 1;  // H5
    bool won = false;
    if (other_version & 1) {
      // Reserved: a vacant slot of a locked bucket belongs to the lock's holder.
      word seen = Mem::template cas<order::acq_rel>(free, empty_word<F>(), vacant<F>());
      bool reserved = is_empty<F>(seen) || seen == vacant<F>();
      if (!reserved && is_dead<F>(seen)) {
        const word dead = seen;
        seen = Mem::template cas<order::acq_rel>(free, dead, vacant<F>());
        reserved = seen == dead;
      }
      used += reserved && is_empty<F>(seen) && !GH_MUTANT(uncounted_move);
      if (reserved) {
        if (to != v_home && !GH_MUTANT(unmarked_victim)) mark_outside(F::key_of(victim), v_home);  // H3
        if (GH_MUTANT(published_first)) Mem::template store<order::relaxed>(free, victim);
        if (GH_MUTANT(early_unlock) && take_own) unlock(own, own_version);
        won = Mem::template cas<order::acq_rel>(slot, victim, instead) == victim;
        if (won) {
          HIVE_EVENT(moved);
          Mem::template store<order::relaxed>(free, victim);
        }
      }
      if (take_other) unlock(other, other_version);
    }
    if (take_own && !(GH_MUTANT(early_unlock) && won)) unlock(own, own_version);
    busy |= !won;
    return won;
  }
};

GH_END
