// Groups of a column on a CUDA device: counts the rows of each bin; or those of each key, where a column has few keys.
//
// A block begins with a table of the keys that it meets, in its memory. Where all blocks come to the end of the column so,
// and their keys together are few, too, the counts and first rows of all groups are known before any row is moved, and no
// row has to be (few.cuh). A block whose table is full adds the counts of its keys to those of their bins, and counts by bins
// from there on.
#pragma once
#include <algorithm>

#include "libgpuhash/columns/cuda/met.cuh"

namespace gpuhash::columns {

// Counters of the rows of bins, in the memory of a block. Halves: they are half a word each. The thread whose rows bring such a
// half to held_by_half takes out what the half holds, and adds it to the bin. Until it has, others take out their own rows: so
// a half never holds more than that and what each thread adds at once.
template <bool Halves>
class bin_counters {
 public:
  static constexpr size_t bytes(size_t bins) { return room_of(bins, Halves ? 2 : 4); }
  GH_FN bin_counters(void* memory, u32* counts_of_bins) : words(static_cast<u32*>(memory)), of_bin(counts_of_bins) {}

  // All threads of a block of count_threads call these two, with a barrier before and behind.
  GH_FN void clear(u32 bins) const {
    for (u32 i = threadIdx.x; i < bytes(bins) / 4; i += count_threads) words[i] = 0;
  }
  GH_FN void give(u32 bins) const {
    for (u32 i = threadIdx.x; i < bins; i += count_threads)
      if (const u32 rows = at(i)) atomicAdd(of_bin + i, rows);
  }
  // Of rows of one bin: up to words_at_once by each thread of the block, or by one for all lanes of its warp.
  GH_FN void add(u32 bin, u32 rows) const {
    if constexpr (!Halves) {
      atomicAdd(words + bin, rows);
    } else {
      const u32 shift = shift_of(bin), before = atomicAdd(words + bin / 2, rows << shift) >> shift & most_of_half;
      if (before + rows < held_by_half) return;
      const u32 out = before < held_by_half ? before + rows : rows;
      atomicAdd(words + bin / 2, 0 - (out << shift));
      atomicAdd(of_bin + bin, out);
    }
  }
  // Of any number of rows.
  GH_FN void add_many(u32 bin, u32 rows) const { atomicAdd((Halves ? of_bin : words) + bin, rows); }

 private:
  static constexpr u32 most_of_half = (1u << half_bits) - 1;
  static_assert(!Halves || held_by_half + count_threads * words_at_once <= most_of_half);
  GH_FN static u32 shift_of(u32 bin) { return bin % 2 * half_bits; }
  GH_FN u32 at(u32 bin) const { return Halves ? words[bin / 2] >> shift_of(bin) & most_of_half : words[bin]; }

  u32 *const words, *const of_bin;
};

// Adds 1 to the counter of each of `live` bins. Neighbours often have the same one in columns that are sorted, and hardware
// would serve them one after the other. All lanes of the warp call. Returns whether all bins of the warp are alike.
template <u32 Many, bool Halves>
GH_FN bool count_neighbours(const bin_counters<Halves>& counters, const u32 (&bin)[Many], u32 live) {
  const u32 first = __shfl_sync(whole_warp, bin[0], 0);
  bool alike = live == Many;
#pragma unroll
  for (u32 i = 1; i < Many; ++i) alike &= bin[i] == bin[0];
  if (!__any_sync(whole_warp, !alike || bin[0] != first)) {
    if (threadIdx.x % 32 == 0) counters.add(first, 32 * Many);
    return true;
  }
  if (alike) {
    counters.add(bin[0], Many);
  } else {
#pragma unroll
    for (u32 i = 0; i < Many; ++i)
      if (i < live) counters.add(bin[i], 1);
  }
  return false;
}

// ByKeys: the column may have few keys. Halves: as plan.by_halves says.
template <class K, bool ByKeys, bool Halves>
class counting_block {
  using rows = read_rows<K>;
  using met_by = met_keys<K, false>;
  static constexpr u32 many = rows::many, each = rows::each;

 public:
  using counters = typename met_by::counters;
  static size_t bytes(const group_plan& p, const group_wants& wants) {
    const size_t slots = p.few_slots, of_bins = bin_counters<Halves>::bytes(size_t{p.columns} << p.counted_bits());
    const size_t of_keys = ByKeys ? met_by::bytes(slots) + (wants.first ? room_of(slots + 1, 4) : 0) : 0;
    return std::max(of_bins, of_keys);
  }

  GH_FN counting_block(const group_work<K>& work, unsigned char* at, counters* some)
      : w(work),
        me(threadIdx.x),
        bits(work.plan.counted_bits()),
        memory(at),
        counted(at, work.counts()),
        met(work, memory, some),
        first(memory.take<u32>(met.slots + 1)) {}

  GH_FN void run() {
    rows some(w.keys, w.split);
    bool done = false;
    if (ByKeys && met.are_few())
      done = count_keys(some);
    else
      clear_bins();
    if (done) give_keys();
    if (ByKeys && !done && me == 0) w.facts->many_keys = 1;
    if (!done || __any_sync(whole_warp, *static_cast<volatile u32*>(&w.facts->many_keys))) sample_share(w);
    if (!done) count_bins(some);
  }

 private:
  // ---- by keys -------------------------------------------------------------------------------------------------------

  // Returns whether the tables had room to the end. If not, keys have been counted by their bins since, and the rows after
  // these are still to be counted.
  GH_FN bool count_keys(rows& some) {
    if (w.wants.first) met.clear(first, met.slots + 1, no_row);
    __syncthreads();
    u32 missed = 0;  // rows of this thread, by their numbers
    while (some.left()) {
      const u32 many_keys = *static_cast<volatile u32*>(&w.facts->many_keys);
      some.take();
      missed = count_piece(some);
      some.go_on();
      if (met.is_full(many_keys)) break;
    }
    __syncthreads();
    if (!met.was_full()) return true;
    keys_to_bins();
#pragma unroll
    for (u32 i = 0; i < count_each; ++i)
      if (missed >> i & 1) counted.add(bin_of(w.hash(some.now[i / many].of[i % many]), bits), 1);
    return false;
  }
  // Returns which of the rows of this thread found no room. Most keys are found by one read, the others one after the other,
  // and those of the last piece, which may end before. All lanes of a warp call.
  GH_FN u32 count_piece(const rows& some) {
    K h[count_each];
    u32 left = 0, missed = 0;
#pragma unroll
    for (u32 i = 0; i < count_each; ++i) h[i] = w.hash(some.now[i / many].of[i % many]);
    if (some.whole()) {
      u32 place[count_each];
#pragma unroll
      for (u32 i = 0; i < count_each; ++i) {
        place[i] = met.find(h[i], 0);
        left |= u32(place[i] == nowhere) << i;
      }
#pragma unroll
      for (u32 i = 0; i < count_each; i += many) count_found(place + i, some.row(i / many));
    } else {
#pragma unroll
      for (u32 i = 0; i < count_each; ++i) left |= u32(i % many < some.live(i / many)) << i;
    }
#pragma unroll 1
    for (; left; left &= left - 1) {
      const u32 i = __ffs(left) - 1;
      K of_row = h[0];
#pragma unroll
      for (u32 x = 1; x < count_each; ++x)
        if (i == x) of_row = h[x];
      const u32 at = met.find_or_enter(of_row);
      if (at == nowhere)
        missed |= 1u << i;
      else
        add(at, 1, some.row(i / many) + i % many);
    }
    __syncwarp();
    return missed;
  }
  // place: of the keys of neighbours, of which `row` is the first one.
  GH_FN void count_found(const u32* place, u64 row) {
    bool are_alike = place[0] != nowhere;
#pragma unroll
    for (u32 j = 1; j < many; ++j) are_alike &= place[j] == place[0];
    const u32 one = __shfl_sync(whole_warp, place[0], 0);
    if (!__any_sync(whole_warp, !are_alike || place[0] != one)) {
      if (me % 32 == 0) add(one, 32 * many, row);
      alike += 32 * many;
      return;
    }
#pragma unroll
    for (u32 j = 0; j < many; ++j)
      if (place[j] != nowhere) add(place[j], 1, row + j);
  }
  // Rows of a key, of which this is the first one.
  GH_FN void add(u32 place, u32 rows_of_key, u64 row) {
    atomicAdd(met.count + place, rows_of_key);
    if (w.wants.first && row < static_cast<volatile u32*>(first)[place]) atomicMin(first + place, u32(row));
  }

  // The counters of bins take the place of the table.
  GH_FN void keys_to_bins() {
    constexpr u32 of_thread = (most_few_slots + count_threads - 1) / count_threads;
    K h[of_thread];
    u32 rows_of[of_thread];
#pragma unroll
    for (u32 i = 0; i < of_thread; ++i) {
      const u32 slot = i * count_threads + me;
      h[i] = slot < met.slots ? met.key[slot] : no_hash<K>;
      rows_of[i] = h[i] != no_hash<K> ? met.count[slot] : 0;
    }
    if (me == 0 && met.count[met.slots]) w.facts->side = 1;  // its rows never come into a bin
    clear_bins();
#pragma unroll
    for (u32 i = 0; i < of_thread; ++i)
      if (rows_of[i]) counted.add_many(bin_of(h[i], bits), rows_of[i]);
  }

  GH_FN void give_keys() {
    for (u32 slot = me; slot <= met.slots; slot += count_threads) {
      if (!met.count[slot]) continue;
      const u32 place = slot < met.slots ? met.of_all[slot] : slot;
      if (slot == met.slots) w.facts->side = 1;
      atomicAdd(w.few_count + place, met.count[slot]);
      if (w.wants.first) atomicMin(w.few_first + place, first[slot]);
    }
    if (me % 32 == 0 && alike) atomicAdd(&w.facts->alike, alike);
  }

  // ---- by bins -------------------------------------------------------------------------------------------------------

  // All threads call.
  GH_FN void clear_bins() const {
    __syncthreads();  // the memory is read no more
    counted.clear(w.plan.columns << bits);
    __syncthreads();
  }
  GH_FN void count_bins(rows& some) {
    u32 first_bin = 0;
    bool side = false;
#pragma unroll 1
    for (u32 column = 0; column < 2; ++column) {
      for (; some.left(); some.go_on()) {
        some.take();
#pragma unroll
        for (u32 i = 0; i < each; ++i) {
          const u32 live = some.live(i);
          u32 bin[many];
#pragma unroll
          for (u32 j = 0; j < many; ++j) {
            const K h = w.hash(some.now[i].of[j]);
            side |= j < live && h == no_hash<K>;
            bin[j] = first_bin + bin_of(h, bits);
          }
          if (count_neighbours(counted, bin, live)) alike += 32 * many;
        }
      }
      if (w.split == w.n) break;
      some = rows(w.more, w.n - w.split);
      if (w.plan.columns > 1) first_bin = 1u << bits;
    }
    if (side) w.facts->side = 1;
    give_bins();
  }
  GH_FN void give_bins() const {
    if (me % 32 == 0 && alike) atomicAdd(&w.facts->alike, alike);
    __syncthreads();
    counted.give(w.plan.columns << bits);
  }

  const group_work<K>& w;
  const u32 me, bits;
  carver memory;
  const bin_counters<Halves> counted;  // in the memory; or instead:
  met_by met;
  u32* const first;  // rows of keys
  u32 alike = 0;     // rows of warps that have one bin or key
};

// Do so many neighbours have the same bin that it pays to look for warps whose rows all have it?
template <class K>
GH_FN bool is_clustered(const group_work<K>& w) {
  return w.facts->alike > w.n / 8;
}

// When all blocks have counted: are keys few? Then they take the place of the frequent keys. If not, the rows of those in the
// table of all blocks are of their bins. One block calls.
template <class K>
GH_FN bool settle_few(const group_work<K>& w) {
  const u32 slots = w.plan.few_slots;
  const bool few = !*static_cast<volatile u32*>(&w.facts->many_keys);
  for (u32 i = threadIdx.x; i <= slots; i += count_threads) {
    const K h = i < slots ? w.few_key[i] : no_hash<K>;
    const u32 rows = w.few_count[i];
    if (few) {
      if (i < slots) w.frequent[i] = h;
      w.frequent_count[i] = rows;
      if (w.wants.first) w.frequent_first[i] = w.few_first[i];
    } else if (rows) {
      atomicAdd(w.counts() + bin_of(h, w.plan.counted_bits()), rows);
    }
  }
  if (few && threadIdx.x == 0) w.facts->few = 1;
  __syncthreads();
  return few;
}

}  // namespace gpuhash::columns
