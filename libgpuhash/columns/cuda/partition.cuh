// Groups of a column on a CUDA device: rows go to the bins of their hashes.
//
// First the rows of each bin are counted, those of frequent keys too, so that a bin's room is exact whatever the keys
// are: none overflows, and all bins together have as much room as there are rows. A block takes a tile of rows, brings
// it into the order of its bins in its own memory, and what leaves for one bin leaves as a run of neighbours.
#pragma once
#include "libgpuhash/columns/cuda/few.cuh"

namespace gpuhash::columns {

// What travels along with a key, C, is nothing, a word of 4 bytes, which is a row number or a value, or a value of 8 bytes.
// Rows of a thread in a tile:
template <class K, class C, class V>
constexpr u32 divide_each = rows_of_divider(sizeof(K), bytes_of<C>, is_there<V>);
template <class K, class C, class V>
constexpr u32 divide_tile = divide_threads * divide_each<K, C, V>;

// The rows of a pass, tile by tile: of the columns, or of the bins of the first pass, each of which begins a new tile. bin: of
// the first pass; or in the first pass the column, where bins of columns are apart.
struct some_rows {
  u32 from, many, bin;
};
template <class K>
class tiles {
 public:
  // before: memory of the block, for the second pass, of coarse_bins() + 1 words. All threads call.
  GH_FN tiles(const group_work<K>& work, u32 a_tile, bool second, u32* a_before, u32* of_warp)
      : w(work), tile(a_tile), before(second ? a_before : nullptr) {
    if (!second) {
      of_first = (u64(w.split) + tile - 1) / tile;
      number = of_first + u32((u64(w.n - w.split) + tile - 1) / tile);
      return;
    }
    const u32 bins = w.plan.coarse_bins();
    u32 carry = 0;
    for (u32 i = threadIdx.x; i - threadIdx.x < bins; i += divide_threads) {
      const u32 own = i < bins ? (w.coarse_end[i] - w.coarse_start[i] + tile - 1) / tile : 0;
      const block_sum s = sum_before<divide_threads>(own, of_warp);
      if (i < bins) before[i] = carry + s.before;
      carry += s.all;
      __syncthreads();
    }
    if (threadIdx.x == 0) before[bins] = carry;
    __syncthreads();
    number = carry;
  }
  GH_FN u32 many() const { return number; }
  // The first tile of the second column.
  GH_FN u32 second_column() const { return before ? before[1u << w.plan.first_bits] : of_first; }
  GH_FN some_rows at(u32 g) const {
    if (!before) {
      const bool in_first = g < of_first;
      const u32 from = in_first ? g * tile : w.split + (g - of_first) * tile;
      return {from, min(tile, (in_first ? w.split : w.n) - from), w.plan.columns > 1 && !in_first};
    }
    u32 low = 0, high = w.plan.coarse_bins();  // before[low] <= g < before[high]
    while (high - low > 1) {
      const u32 middle = (low + high) / 2;
      (before[middle] <= g ? low : high) = middle;
    }
    const u32 from = w.coarse_start[low] + (g - before[low]) * tile;
    return {from, min(tile, w.coarse_end[low] - from), low};
  }

 private:
  const group_work<K>& w;
  const u32 tile;
  u32* const before;
  u32 number, of_first;  // of_first: tiles of the first column
};

// ---- counting --------------------------------------------------------------------------------------------------------

// Counts the rows of the second pass's bins, where those were not counted first.
template <class K>
__global__ void __launch_bounds__(divide_threads) count_again(const __grid_constant__ group_work<K> w) {
  wait_for_the_one_before();
  GH_DYNAMIC_MEMORY(u32, counted);
  GH_BLOCK_MEMORY(warp_words<divide_threads>, some);
  const u32 bins = 1u << w.plan.second_bits;
  const tiles<K> all(w, divide_tile<K, nothing, nothing>, true, counted + bins, some.of);
  for (u32 g = blockIdx.x; g < all.many(); g += gridDim.x) {
    const some_rows rows = all.at(g);
    for (u32 i = threadIdx.x; i < bins; i += divide_threads) counted[i] = 0;
    __syncthreads();
    constexpr u32 each = 8;  // rows of a thread that are on their way together
    for (u32 from = 0; from < rows.many; from += each * divide_threads) {
      K h[each];
#pragma unroll
      for (u32 i = 0; i < each; ++i) {
        const u32 x = from + i * divide_threads + threadIdx.x;
        h[i] = x < rows.many ? w.coarse_key[rows.from + x] : 0;
      }
#pragma unroll
      for (u32 i = 0; i < each; ++i)
        count_one(counted, bin_of(h[i], w.plan.bits) & (bins - 1), from + i * divide_threads + threadIdx.x < rows.many);
    }
    __syncthreads();
    for (u32 i = threadIdx.x; i < bins; i += divide_threads)
      if (counted[i]) atomicAdd(w.bin_count + rows.bin * bins + i, counted[i]);
    __syncthreads();
  }
}

// Initialises the temporaries as kernels expect them: so many words are zero, and those behind them have all bits set;
// and there are no groups yet. This is one kernel, since several fills one after the other take longer for short
// columns.
static __global__ void __launch_bounds__(count_threads)
    set_temporaries(neighbouring_words* words, u64 zeros, u64 all, unsigned long long* groups) {
  wait_for_the_one_before();
  for (u64 i = u64(blockIdx.x) * count_threads + threadIdx.x; i < all; i += u64(gridDim.x) * count_threads) {
    const u32 word = i < zeros ? 0 : ~0u;
    words[i] = {{word, word, word, word}};
  }
  if (groups && blockIdx.x == 0 && threadIdx.x == 0) *groups = 0;
}

// Where each of `width` bins begins, from counts, for one block; the first begins at `carry`. end: the same, which rows that are
// added move on. of_warp: memory of the block, a word for each warp.
template <u32 Threads>
GH_FN void scan_counts(const u32* counts, u32 width, u32 carry, u32* start, u32* end, u32* of_warp) {
  // All arrays are temporaries, which begin at a multiple of 16 bytes, but for those of a part of the tiles or bins.
  const bool aligned = uintptr_t(counts) % 16 == 0 && uintptr_t(start) % 16 == 0 && uintptr_t(end) % 16 == 0;
  for (u32 from = 0; from < width; from += Threads * words_at_once) {
    const u32 x = from + threadIdx.x * words_at_once;
    const bool whole = aligned && x + words_at_once <= width;
    neighbouring_words own{}, at;
    if (whole)
      own = *reinterpret_cast<const neighbouring_words*>(counts + x);
    else
      for (u32 i = 0; i < words_at_once; ++i) own.of[i] = x + i < width ? counts[x + i] : 0;
    u32 sum = 0;
#pragma unroll
    for (u32 i = 0; i < words_at_once; ++i) sum += own.of[i];
    const block_sum s = sum_before<Threads>(sum, of_warp);
    u32 next = carry + s.before;
#pragma unroll
    for (u32 i = 0; i < words_at_once; ++i) {
      at.of[i] = next;
      next += own.of[i];
    }
    for (u32* const to : {start, end}) {
      if (!to) continue;
      if (whole)
        *reinterpret_cast<neighbouring_words*>(to + x) = at;
      else
        for (u32 i = 0; i < words_at_once; ++i)
          if (x + i < width) to[x + i] = at.of[i];
    }
    carry += s.all;
    __syncthreads();
  }
}

// A block for each `width` bins. The first of these begins at base[block], or at 0.
static __global__ void __launch_bounds__(scan_threads)
    find_starts(const u32* counts, u32 width, const u32* base, u32* start, u32* end) {
  wait_for_the_one_before();
  GH_BLOCK_MEMORY(warp_words<scan_threads>, some);
  const u64 first = u64(blockIdx.x) * width;
  scan_counts<scan_threads>(counts + first, width, base ? base[blockIdx.x] : 0, start + first,
                            end ? end + first : nullptr, some.of);
}

// The rows of the first pass's bins, from those of their parts; for one block, a warp for each bin.
template <class K>
GH_FN void add_up_parts(const group_work<K>& w) {
  const u32 parts = 1u << w.plan.second_bits, lane = threadIdx.x % 32;
  for (u32 bin = threadIdx.x / 32; bin < w.plan.coarse_bins(); bin += scan_threads / 32) {
    u32 rows = 0;
#pragma unroll 8
    for (u32 i = lane; i < parts; i += 32) rows += w.bin_count[(bin << w.plan.second_bits) + i];
    rows = __reduce_add_sync(whole_warp, rows);
    if (lane == 0) w.coarse_count[bin] = rows;
  }
  __syncthreads();
}

// Where bins begin that were counted first, for one block; where those of the first pass begin, too, if their parts were
// counted. Parts that are many are left to find_starts.
template <class K>
GH_FN void start_bins(const group_work<K>& w, u32* of_warp) {
  if (w.plan.by_halves) add_up_parts(w);
  if (w.plan.starts_by_parts()) {
    scan_counts<scan_threads>(w.coarse_count, w.plan.coarse_bins(), 0, w.coarse_start, w.coarse_end, of_warp);
    return;
  }
  scan_counts<scan_threads>(w.bin_count, w.plan.bins(), 0, w.bin_start, w.bin_end, of_warp);
  if (!w.two_passes()) return;
  for (u32 i = threadIdx.x; i < w.plan.coarse_bins(); i += scan_threads)
    w.coarse_start[i] = w.coarse_end[i] = w.bin_start[i << w.plan.second_bits];
}

// What has to be known before rows are divided: frequent keys, and where each bin begins; or few keys, with which no row has
// to be. Each block samples and counts its share of the rows; the last one to end does the rest, so that short columns wait
// for one kernel, not for three.
template <class K, bool ByKeys, bool Halves>
__global__ void __launch_bounds__(count_threads) survey(const __grid_constant__ group_work<K> w) {
  wait_for_the_one_before();
  if (!ByKeys && w.facts->few) return;  // rows have their codes
  using block = counting_block<K, ByKeys, Halves>;
  GH_DYNAMIC_MEMORY(unsigned char, memory);
  GH_BLOCK_MEMORY(warp_words<scan_threads>, some);
  GH_BLOCK_MEMORY(typename block::counters, counters);
  block(w, memory, &counters).run();
  if (!all_others_have_ended(&w.facts->surveyed)) return;
  if (!ByKeys || !settle_few(w)) start_bins(w, some.of);
  if (!w.wants.first && !w.wants.value_bytes) number_frequent<scan_threads>(w, some.of);
}

// ---- dividing --------------------------------------------------------------------------------------------------------

template <class K, class C, class V, bool Second>
struct divide_memory {
  static constexpr u32 tile = divide_tile<K, C, V>;
  static size_t bytes(const group_plan& p, const group_wants& wants) {
    const size_t bins = size_t{1} << (Second ? p.second_bits : p.first_bits), places = p.frequent_places();
    size_t all = room_of(tile, sizeof(K)) + room_of(tile, bytes_of<C>) + 2 * room_of(bins, 4);
    if (Second) return all + room_of(p.coarse_bins() + 1, 4);
    all += room_of(p.frequent_slots, sizeof(K));
    all += ((wants.counts || wants.members || is_there<V> ? 1 : 0) + (wants.first ? 1 : 0)) * room_of(places, 4);
    if constexpr (is_there<V>) all += totals_of<V>::bytes(wants, places);
    return all;
  }
};

// A block of the kernel `divide`. V: the word of values, whose totals this block keeps for the frequent keys. Second: rows go
// from the bins of the first pass to those of the second one.
template <class K, class C, class V, bool Second>
class dividing_block {
  static constexpr bool carries = is_there<C>, values = is_there<V>;
  static constexpr u32 each = divide_each<K, C, V>, tile = divide_memory<K, C, V, Second>::tile;
  static constexpr u32 held_back = 1u << 31;  // a row of a frequent key, whose place follows; or none
  static constexpr bool loads = carries && (Second || values);
  using word = std::conditional_t<carries, C, u32>;
  using value_word = std::conditional_t<values, V, u32>;

 public:
  GH_FN dividing_block(const group_work<K>& work, unsigned char* at, u32* sums)
      : w(work),
        me(threadIdx.x),
        to_bins(Second || !work.two_passes()),
        own_bits(Second ? work.plan.second_bits : work.plan.first_bits),
        bits(Second ? work.plan.bits : work.plan.first_bits),
        counts(work.wants.counts || values),
        places(Second ? 0 : work.plan.frequent_places()),
        memory(at),
        staged(memory.take<K>(tile)),
        staged_word(memory.take<word>(carries ? tile : 0)),
        count(memory.take<u32>(1u << own_bits)),
        base(memory.take<u32>(1u << own_bits)),
        tiles_before(memory.take<u32>(Second ? work.plan.coarse_bins() + 1 : 0)),
        frequent(memory.take<K>(Second ? 0 : work.plan.frequent_slots)),
        seen(memory.take<u32>(counts || work.wants.members ? places : 0)),
        first(memory.take<u32>(work.wants.first ? places : 0)),
        totals(totals_of<value_word>::carve(work.wants, memory, values ? places : 0, seen)),
        of_keys(work.wants, totals, true),
        of_warp(sums),
        uses_frequent(!Second && frequent_is_used(work)),
        holds_back(!Second && (uses_frequent || work.facts->side)),
        clustered(is_clustered(work)) {}

  GH_FN void run() {
    if constexpr (!Second) clear_frequent();
    __syncthreads();
    if constexpr (apart)
      holds_back ? divide_tiles<true>() : divide_tiles<false>();
    else
      divide_tiles<false>();
    if constexpr (!Second) give_frequent();
  }

 private:
  // Loops over tiles are apart where rows are held back and where none are, if registers suffice for both.
  static constexpr bool apart = !Second && (sizeof(K) == 4 || values);

  template <bool Holds>
  GH_FN void divide_tiles() {
    const tiles<K> all(w, tile, Second, tiles_before, of_warp);
    for (u32 g = blockIdx.x; g < all.many(); g += gridDim.x) {
      const some_rows rows = all.at(g);
      K h[each];
      word along[loads ? each : 1];
      u32 rank[each];
      load(rows, h, along);
      for (u32 i = me; i < 1u << own_bits; i += divide_threads) count[i] = 0;
      __syncthreads();
      Holds || (!Second && !apart && holds_back) ? choose_bins<!Second>(rows, h, along, rank)
                                                 : choose_bins<false>(rows, h, along, rank);
      __syncthreads();
      const u32 total = reserve(rows, g);
      stage(rows, h, along, rank);
      if constexpr (!values && !Second)
        if (w.wants.way_back()) note_places(rows, total, h, rank);
      __syncthreads();
      write_out(total, travels(rows));
      __syncthreads();
    }
  }

  GH_FN u32 own_bin(K h) const { return bin_of(h, bits) & ((1u << own_bits) - 1); }

  // Do values travel along with the keys in this call? If row numbers do, values stay where they are.
  GH_FN bool values_travel() const { return values && !w.wants.first; }

  // Are the rows of a column after the first one of two whose bins are apart?
  GH_FN bool in_second_column(some_rows rows) const {
    return rows.bin >= 1u << (Second ? w.plan.first_bits : 0) && w.plan.columns > 1;
  }
  // Does a word travel along with them?
  GH_FN bool travels(some_rows rows) const { return carries && !in_second_column(rows); }

  GH_FN void load(some_rows rows, K (&h)[each], word* along) const {
    const K* const from = Second ? w.coarse_key + rows.from : w.keys_from(rows.from);
    const word* const words = static_cast<const word*>(Second ? w.coarse_carried : w.values) + rows.from;
    const bool there = loads && (Second ? travels(rows) : values_travel());
#pragma unroll
    for (u32 i = 0; i < each; ++i) {
      const u32 x = i * divide_threads + me;
      h[i] = x < rows.many ? from[x] : 0;
      if constexpr (loads) along[i] = there && x < rows.many ? words[x] : 0;
    }
  }

  // rank: of a row in its bin, among those of the tile; or held_back with the place of its key. Holds: rows of some keys are
  // held back.
  template <bool Holds>
  GH_FN void choose_bins(some_rows rows, K (&h)[each], const word* along, u32 (&rank)[each]) {
    if constexpr (Holds && values) of_keys.begin();
#pragma unroll
    for (u32 i = 0; i < each; ++i) {
      const u32 x = i * divide_threads + me;
      const bool there = x < rows.many;
      rank[i] = held_back;
      if constexpr (!Second) h[i] = w.hash(h[i]);
      if constexpr (Holds) {
        const u32 place = place_of(h[i], rows.from);
        const bool held = there && place < places;
        note_held(held, place, rows.from + x, loads ? along[loads ? i : 0] : 0);
        if (held) {
          rank[i] |= place;
          continue;
        }
      } else if (clustered) {
        const u32 own = take_one(count, own_bin(h[i]), there);
        if (there) rank[i] = own;
        continue;
      }
      if (there) rank[i] = atomicAdd(count + own_bin(h[i]), 1u);
    }
  }

  // Where each bin begins in this block's memory, and in its room. Returns how many rows are staged.
  GH_FN u32 reserve(some_rows rows, u32 g) const {
    const u32 bins = 1u << own_bits, per_thread = (bins + divide_threads - 1) / divide_threads;
    const u32 from = min(me * per_thread, bins), to = min(from + per_thread, bins);
    tile_run* const runs = (Second ? w.bin_run : w.coarse_run) + size_t(g) * (bins + 1);
    u32* const ends = (to_bins ? w.bin_end : w.coarse_end) + rows.bin * bins;
    u32 sum = 0;
    for (u32 i = from; i < to; ++i) sum += count[i];
    const block_sum s = sum_before<divide_threads>(sum, of_warp);
    u32 at = s.before;
    for (u32 i = from; i < to; ++i) {
      const u32 own = count[i];
      base[i] = (own ? atomicAdd(ends + i, own) : 0) - at;
      count[i] = at;
      if (w.wants.way_back()) runs[i] = {at, base[i]};
      at += own;
    }
    if (w.wants.way_back() && me == 0) runs[bins] = {s.all, 0};
    __syncthreads();
    return s.all;
  }

  GH_FN void stage(some_rows rows, const K (&h)[each], const word* along, const u32 (&rank)[each]) const {
    const bool there = loads && (Second || values_travel());
    const bool goes_back = w.wants.way_back() && !(w.wants.second_only() && !in_second_column(rows));
    const bool along_too = travels(rows);
#pragma unroll
    for (u32 i = 0; i < each; ++i) {
      if (rank[i] & held_back) continue;
      const u32 at = count[own_bin(h[i])] + rank[i];
      staged[at] = h[i];
      if constexpr (!values && Second)
        if (goes_back) w.bin_place[rows.from + i * divide_threads + me] = u16(at);
      if (carries && along_too)
        staged_word[at] = there ? along[loads ? i : 0] : word(rows.from + i * divide_threads + me);
    }
  }

  // Notes where the code or count of each row will be found (back.cuh). A tile of frequent keys alone needs no places
  // in two cases: if these keys have their codes by now, so that its rows get them at once; or if counts go back, since
  // frequent keys have counts of their own.
  GH_FN void note_places(some_rows rows, u32 total, const K (&h)[each], const u32 (&rank)[each]) const {
    const bool done = total == 0 && !w.wants.way_back_of_frequent();
    u16* const place = w.coarse_place + rows.from;
    if ((done && !w.wants.codes) || (w.wants.second_only() && rows.from < w.split)) return;
#pragma unroll
    for (u32 i = 0; i < each; ++i) {
      const u32 x = i * divide_threads + me;
      if (x >= rows.many) continue;
      if (done)
        w.out_codes[rows.from + x] = w.frequent_code[rank[i] & ~held_back];
      else
        place[x] = rank[i] & held_back ? u16(of_frequent | rank[i]) : u16(count[own_bin(h[i])] + rank[i]);
    }
  }

  GH_FN void write_out(u32 total, bool along_too) const {
    K* const key = to_bins ? w.bin_key : w.coarse_key;
    word* const along = static_cast<word*>(to_bins ? w.bin_carried : w.coarse_carried);
#pragma unroll 4
    for (u32 x = me; x < total; x += divide_threads) {
      const K h = staged[x];
      const u32 at = base[own_bin(h)] + x;
      key[at] = h;
      if (carries && along_too) along[at] = staged_word[x];
    }
  }

  // ---- frequent keys, in the first pass -----------------------------------------------------------------------------

  GH_FN void clear_frequent() const {
    for (u32 i = me; i < places; i += divide_threads) {
      if (i < w.plan.frequent_slots && uses_frequent) frequent[i] = w.frequent[i];
      if (w.wants.first) first[i] = no_row;
      if constexpr (values)
        totals.clear(w.wants, i);
      else if (counts || w.wants.members)
        seen[i] = 0;
    }
  }
  // row: one of the tile.
  GH_FN u32 place_of(K h, u32 row) const {
    const u32 slots = w.plan.frequent_slots;
    if (h == no_hash<K>) return slots;
    const u32 place = uses_frequent && !(w.wants.lists && row < w.split) ? frequent_place(frequent, slots, h) : slots;
    return place < slots ? place : places;
  }
  // All lanes of a warp call.
  GH_FN void note_held(bool held, u32 place, u32 row, word along) {
    if (!__any_sync(whole_warp, held)) return;
    if constexpr (values)
      of_keys.add(held, place, values_travel() ? value_word(along) : held ? value_of(row) : 0);
    else if (counts && clustered)
      count_one(seen, place, held);
    else if (counts && held)
      atomicAdd(seen + place, 1u);
    if (!held) return;
    if (w.wants.lists) return list_of_side(row);
    if (w.wants.members && row < w.split) seen[place] = 1;
    if (w.wants.first && row < static_cast<volatile u32*>(first)[place]) atomicMin(first + place, row);
  }
  // A right row whose key never enters a table, since its hash marks empty slots. One key at most is such: two rows of
  // it are not listed.
  GH_FN void list_of_side(u32 row) const {
    if (row >= w.split) return;
    if (atomicMin(w.frequent_first + w.plan.frequent_slots, row | of_one_row) != no_row)
      atomicMax(w.repeats, u32(right_too_often));
  }
  GH_FN value_word value_of(u32 row) const { return static_cast<const value_word*>(w.values)[row]; }

  GH_FN void give_frequent() {
    if constexpr (values) of_keys.flush();
    __syncthreads();
    for (u32 i = me; i < places; i += divide_threads) {
      if (w.wants.first && first[i] != no_row) atomicMin(w.frequent_first + i, first[i]);
      if (w.wants.members && seen[i]) w.frequent_code[i] = 1;
      const u32 many = counts ? seen[i] : 0;
      if (!many) continue;
      if constexpr (values)
        totals_of<V>::frequent(w).template add<false>(w.wants, i, totals.read(w.wants, i), true);
      else if (w.wants.first)
        atomicAdd(w.frequent_count + i, many);
      else
        atomicAdd(reinterpret_cast<unsigned long long*>(w.out_counts) + w.frequent_code[i], (unsigned long long)many);
    }
  }

  const group_work<K>& w;
  const u32 me;
  const bool to_bins;
  const u32 own_bits, bits;
  const bool counts;  // rows of frequent keys
  const u32 places;
  carver memory;
  K* const staged;
  word* const staged_word;
  u32 *const count, *const base, *const tiles_before;
  K* const frequent;
  u32 *const seen, *const first;
  const totals_of<value_word> totals;
  adder<value_word> of_keys;
  u32* const of_warp;
  const bool uses_frequent, holds_back;  // rows of some keys
  const bool clustered;
};

template <class K, class C, class V, bool Second>
__global__ void __launch_bounds__(divide_threads, 2) divide(const __grid_constant__ group_work<K> w) {
  wait_for_the_one_before();
  GH_DYNAMIC_MEMORY(unsigned char, memory);
  GH_BLOCK_MEMORY(warp_words<divide_threads>, some);
  if constexpr (!Second)
    if (w.facts->few) return;  // rows stay where they are
  dividing_block<K, C, V, Second>(w, memory, some.of).run();
}

}  // namespace gpuhash::columns
