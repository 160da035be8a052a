// Large batches: elements that add take slots of a partition by counting.
//
// Most keys of a batch that adds lie in the group of their home, if they are in the table at all. So each element takes
// the next slot of its group, by adding to the group's counter (take). Then a thread for each group looks for equal
// keys that took several slots, and makes one pair of them (finish_group). An element that overflows its group goes to
// the group's chain (chain); if its key is neither in the group nor in the chain once more, it takes the first slot
// that a later group has left, by the counters alone (place_overflow). What then remains is served by ops.hpp: equal
// keys, keys whose group had no room before the batch, and all other rare cases.
#pragma once
#include "libgpuhash/drive/bulk/one_lane.cuh"
#include "libgpuhash/drive/bulk/work.cuh"

GH_BEGIN

// Elements that overflow their groups are compared by chains, one for each group, if they are no more than these: more
// of them are mostly equal keys.
inline constexpr u32 chained_at_most = tunable("cuda.chained_at_most", 1023u);

// What became of an element that overflows its group.
enum overflow_end : u32 { overflow_placed, overflow_left, overflow_unclear };

template <class Partitions, u32 Kind>
struct counted_partition {
  using F = typename Partitions::F;
  using word = typename F::word;
  using key = typename F::key;
  static constexpr u32 wide = 16 / sizeof(word);           // words of 16 bytes
  static constexpr u32 widest_group = 128 / sizeof(word);  // slots
  using some_words = lane_words<word, int(wide), false, block_mem>;
  // A counter has three numbers: slots of the group that are taken, or would be if there were as many; those that were
  // taken before the batch; and the last element of the group's chain, from 1 on.
  static constexpr u32 had_at = 16, chain_at = 22, taken_mask = 0xffff, had_mask = 63, link_mask = 1023;
  static_assert(widest_group <= had_mask && chained_at_most <= link_mask);

  word* slots;
  u32* counters;
  u32* chains;    // of element i, from 1 on, at i - 1: the next one, and some bits of its key's hash
  uint16_t* who;  // or NULL
  const u32* at;  // numbers of the elements in the batch, or NULL
  u8* status;
  u32 default_status, group_bits, groups;

  GH_FN u32 group_slots() const { return 1u << group_bits; }
  GH_FN u32 counter_of(u32 group) const { return *static_cast<volatile u32*>(counters + group); }
  GH_FN void report(u32 x, u32 answer) const {
    if (status && answer != default_status) status[at[x]] = u8(answer);
  }

  // The counters of groups, from what their lanes loaded. All lanes of a warp.
  GH_FN void begin(u32 i, bool mine, const word* w) const {
    const u32 lane = threadIdx.x % 32, lanes = group_slots() / wide;
    u32 n = 0;
    // The slots in use are the first ones, also of what a lane has.
    if (__any_sync(full_warp, mine && F::key_of(w[0]) != empty_key<key>)) {
#pragma unroll
      for (u32 x = 0; x < wide; ++x) {
        const u32 in_use = __ballot_sync(full_warp, mine && F::key_of(w[x]) != empty_key<key>);
        n += __popc(in_use >> lane & ((1u << lanes) - 1));
      }
    }
    if (mine && i % group_slots() == 0) counters[i >> group_bits] = n << had_at | n;
  }

  // Where key k is among the first `many` slots of the group that begins at `first`, or none. *dead: tombstones are
  // there.
  GH_FN u32 slot_with(u32 first, u32 many, key k, bool* dead) const {
    u32 found = none;
#pragma unroll 4
    for (u32 i = 0; i < group_slots(); i += wide) {  // of all of them, so that the threads of a warp stay together
      some_words some;
      some.load(slots + first + i);
#pragma unroll
      for (u32 y = 0; y < wide; ++y) {
        if (F::key_of(some.w[y]) == k && i + y < many) found = first + i + y;
        *dead |= F::key_of(some.w[y]) == dead_key<key>;
      }
    }
    return found;
  }

  // Element x, whose home is this group. False: it took no slot and changed none.
  GH_FN bool take(word e, u32 x, u32 group, joiner j) const {
    const key k = F::key_of(e);
    const u32 first = group << group_bits, had = counter_of(group) >> had_at & had_mask;
    if (had) {
      bool dead = false;
      const u32 slot = slot_with(first, had, k, &dead);
      if (slot != none) {
        if (Kind == accumulate && !adds_integers(j)) return false;
        if constexpr (Kind == accumulate) block_mem::add_value<F>(slots + slot, F::value_of(e), j.narrow);
        if constexpr (Kind == assign) block_mem::store<order::relaxed>(slots + slot, e);
        report(x, no);
        return true;
      }
      // The key may lie in a later group, or have a tombstone.
      if (had == group_slots() || (F::has_value && dead)) return false;
    }
    const u32 place = atomicAdd(counters + group, 1u) & taken_mask;
    if (place >= group_slots()) return false;
    block_mem::store<order::relaxed>(slots + first + place, e);
    if (who) who[first + place] = uint16_t(x);
    return true;
  }

  // After all have taken their slots: one thread.
  GH_FN void finish_group(u32 group, joiner j, done_here& done) const {
    const u32 counter = counters[group], had = counter >> had_at & had_mask, taken = counter & taken_mask;
    u32 end = taken < group_slots() ? taken : group_slots();
    if (end == had) return;
    const u32 first = group << group_bits;
    key keys[widest_group];
#pragma unroll
    for (u32 i = 0; i < widest_group; i += wide) {
      if (i >= group_slots()) break;
      some_words some;
      some.load(slots + first + i);
#pragma unroll
      for (u32 y = 0; y < wide; ++y) keys[i + y] = F::key_of(some.w[y]);
    }
    bool twice = false;
#pragma unroll
    for (u32 i = 1; i < widest_group; ++i) {
      if (i >= end) break;
      bool same = false;
#pragma unroll
      for (u32 y = 0; y < i; ++y) same |= keys[y] == keys[i];
      twice |= same;
    }
    if (twice) end = combine_equal(first, had, end, j);
    counters[group] = had << had_at | end;
    done.live += int(end - had);
    done.used += int(end - had);
    done.good += end - had;
    if (status && default_status != yes)
      for (u32 i = had; i < end; ++i) report(who[first + i], yes);
  }

  // Slots had .. end - 1 of a group were taken. The first element of each key stays. Returns the new end.
  GH_FN u32 combine_equal(u32 first, u32 had, u32 end, joiner j) const {
    word* const group = slots + first;
    for (u32 i = had + 1; i < end;) {
      const word w = block_mem::load<order::relaxed>(group + i);
      u32 y = had;
      word before{};
      for (; y < i; ++y) {
        before = block_mem::load<order::relaxed>(group + y);
        if (F::key_of(before) == F::key_of(w)) break;
      }
      if (y == i) {
        ++i;
        continue;
      }
      if (Kind == assign || Kind == accumulate)
        block_mem::store<order::relaxed>(group + y,
                                         wanted<F>(Kind, j, true, F::value_of(before), F::key_of(w), F::value_of(w)));
      --end;
      if (who) {
        report(who[first + i], no);
        who[first + i] = who[first + end];
      }
      block_mem::store<order::relaxed>(group + i, block_mem::load<order::relaxed>(group + end));
      block_mem::store<order::relaxed>(group + end, empty_word<F>());
    }
    return end;
  }

  GH_FN static u32 some_bits(key k) { return u32(mix(k)) & ~link_mask; }
  // Element e, by its number, becomes the last of its group's chain.
  GH_FN void chain(word e, u32 group, u32 number) const {
    for (u32 seen = counter_of(group);;) {
      chains[number - 1] = some_bits(F::key_of(e)) | seen >> chain_at;
      const u32 next = (seen & ((1u << chain_at) - 1)) | number << chain_at;
      const u32 before = atomicCAS(counters + group, seen, next);
      if (before == seen) break;
      seen = before;
    }
  }
  // After all are in their chains.
  GH_FN overflow_end place_overflow(word e, u32 x, u32 group, u32 number, done_here& done) const {
    const key k = F::key_of(e);
    const u32 bits = some_bits(k), counter = counter_of(group);
    const u32 taken = counter & taken_mask;
    if ((counter >> had_at & had_mask) == group_slots()) return overflow_unclear;
    for (u32 i = chains[number - 1] & link_mask; i; i = chains[i - 1] & link_mask)
      if ((chains[i - 1] & ~link_mask) == bits) return overflow_unclear;
    bool dead = false;
    if (slot_with(group << group_bits, taken < group_slots() ? taken : group_slots(), k, &dead) != none)
      return overflow_unclear;
    if (F::has_value && dead) return overflow_unclear;
    for (; group < groups; ++group) {
      if ((counter_of(group) & taken_mask) >= group_slots()) continue;
      const u32 place = atomicAdd(counters + group, 1u) & taken_mask;
      if (place >= group_slots()) continue;
      block_mem::store<order::relaxed>(slots + (group << group_bits) + place, e);
      report(x, yes);
      ++done.live;
      ++done.used;
      ++done.good;
      return overflow_placed;
    }
    return overflow_left;
  }
};

GH_END
