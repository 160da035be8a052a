// Groups of a column on a CUDA device: rows go to the bins of their hashes.
//
// First the rows of each bin are counted, those of frequent keys too, so that a bin's room is exact whatever the keys
// are: none overflows, and all bins together have as much room as there are rows. A block takes a tile of rows, brings
// it into the order of its bins in its own memory, and what leaves for one bin leaves as a run of neighbours.
#pragma once
#include "libgpuhash/columns/cuda/sample.cuh"

namespace gpuhash::columns {

constexpr u32 count_threads = 1024, count_each = 8;
constexpr u32 divide_threads = 512;

// Rows of a thread in a tile.
template <class K, bool Rows>
constexpr u32 divide_each = sizeof(K) == 8 && Rows ? 8 : 16;
template <class K, bool Rows>
constexpr u32 divide_tile = divide_threads * divide_each<K, Rows>;

// The rows of a pass, tile by tile: of the column, or of the bins of the first pass, each of which begins a new tile.
struct some_rows {
  u32 from, many, bin;
};
template <class K>
class tiles {
 public:
  // before: memory of the block, for the second pass, of 2^first_bits + 1 words. All threads call.
  GH_FN tiles(const group_work<K>& work, u32 a_tile, bool second, u32* a_before, u32* of_warp)
      : w(work), tile(a_tile), before(second ? a_before : nullptr) {
    if (!second) {
      number = (w.n + tile - 1) / tile;
      return;
    }
    const u32 bins = 1u << w.plan.first_bits;
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
  GH_FN some_rows at(u32 g) const {
    if (!before) {
      const u32 from = g * tile;
      return {from, min(tile, w.n - from), 0};
    }
    u32 low = 0, high = 1u << w.plan.first_bits;  // before[low] <= g < before[high]
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
  u32 number;
};

// ---- counting --------------------------------------------------------------------------------------------------------

// Counts rows by the first `bits` bits of their hashes.
template <class K>
__global__ void __launch_bounds__(count_threads)
    count_rows(const __grid_constant__ group_work<K> w, u32 bits, u32* counts) {
  extern __shared__ u32 counted[];
  const u32 bins = 1u << bits;
  for (u32 i = threadIdx.x; i < bins; i += count_threads) counted[i] = 0;
  __syncthreads();
  bool side = false;
  constexpr u32 piece = count_threads * count_each;
  for (u64 from = u64(blockIdx.x) * piece; from < w.n; from += u64(gridDim.x) * piece) {
    K k[count_each];
#pragma unroll
    for (u32 i = 0; i < count_each; ++i) {
      const u64 row = from + i * count_threads + threadIdx.x;
      k[i] = row < w.n ? w.keys[row] : 0;
    }
#pragma unroll
    for (u32 i = 0; i < count_each; ++i) {
      const bool live = from + i * count_threads + threadIdx.x < w.n;
      const K h = w.hash(k[i]);
      side |= live && h == no_hash<K>;
      count_one(counted, bin_of(h, bits), live);
    }
  }
  if (side) w.facts->side = 1;
  __syncthreads();
  for (u32 i = threadIdx.x; i < bins; i += count_threads)
    if (counted[i]) atomicAdd(counts + i, counted[i]);
}

// The same of the second pass's bins, where the first pass did not count them.
template <class K, bool Rows>
__global__ void __launch_bounds__(divide_threads) count_again(const __grid_constant__ group_work<K> w) {
  extern __shared__ u32 counted[];
  __shared__ u32 of_warp[divide_threads / 32];
  const u32 bins = 1u << w.plan.second_bits;
  const tiles<K> all(w, divide_tile<K, Rows>, true, counted + bins, of_warp);
  for (u32 g = blockIdx.x; g < all.many(); g += gridDim.x) {
    const some_rows rows = all.at(g);
    for (u32 i = threadIdx.x; i < bins; i += divide_threads) counted[i] = 0;
    __syncthreads();
    for (u32 x = threadIdx.x; x - threadIdx.x < rows.many; x += divide_threads) {
      const bool live = x < rows.many;
      const K h = live ? w.coarse_key[rows.from + x] : 0;
      count_one(counted, bin_of(h, w.plan.bits) & (bins - 1), live);
    }
    __syncthreads();
    for (u32 i = threadIdx.x; i < bins; i += divide_threads)
      if (counted[i]) atomicAdd(w.bin_count + rows.bin * bins + i, counted[i]);
    __syncthreads();
  }
}

// Where each of `width` bins begins, from counts; a block for each `width` bins. The first begins at base[block], or
// at 0. end: the same, which rows that are added move on.
constexpr u32 scan_threads = 1024, scan_each = 4;
__global__ void __launch_bounds__(scan_threads)
    find_starts(const u32* counts, u32 width, const u32* base, u32* start, u32* end) {
  __shared__ u32 of_warp[scan_threads / 32];
  const u64 first = u64(blockIdx.x) * width;
  u32 carry = base ? base[blockIdx.x] : 0;
  for (u32 from = 0; from < width; from += scan_threads * scan_each) {
    u32 own[scan_each], sum = 0;
#pragma unroll
    for (u32 i = 0; i < scan_each; ++i) {
      const u32 x = from + threadIdx.x * scan_each + i;
      own[i] = x < width ? counts[first + x] : 0;
      sum += own[i];
    }
    const block_sum s = sum_before<scan_threads>(sum, of_warp);
    u32 at = carry + s.before;
#pragma unroll
    for (u32 i = 0; i < scan_each; ++i) {
      const u32 x = from + threadIdx.x * scan_each + i;
      if (x < width) {
        start[first + x] = at;
        if (end) end[first + x] = at;
      }
      at += own[i];
    }
    carry += s.all;
    __syncthreads();
  }
}

// Where each bin of the first pass begins, if its parts were counted.
template <class K>
__global__ void __launch_bounds__(count_threads) join_starts(const __grid_constant__ group_work<K> w) {
  const u32 i = blockIdx.x * count_threads + threadIdx.x;
  if (i < 1u << w.plan.first_bits) w.coarse_start[i] = w.coarse_end[i] = w.bin_start[i << w.plan.second_bits];
}

// ---- dividing --------------------------------------------------------------------------------------------------------

template <class K, bool Rows, bool Second>
struct divide_memory {
  static constexpr u32 tile = divide_tile<K, Rows>;
  static constexpr size_t tile_bytes = size_t(tile) * (sizeof(K) + (Rows ? 4 : 0));
  static constexpr size_t frequent_bytes = Second ? 0 : frequent_slots * sizeof(K);
  static size_t bytes(const group_plan& p, group_wants wants) {
    const size_t bins = size_t{1} << (Second ? p.second_bits : p.first_bits);
    const size_t here =
        Second ? (size_t{1} << p.first_bits) + 1 : frequent_places * ((wants.counts ? 1 : 0) + (wants.first ? 1 : 0));
    return tile_bytes + frequent_bytes + 4 * (2 * bins + here);
  }
};

// A block of the kernel `divide`. Second: rows go from the bins of the first pass to those of the second one.
template <class K, bool Rows, bool Second>
class dividing_block {
  using memory_of = divide_memory<K, Rows, Second>;
  static constexpr u32 each = divide_each<K, Rows>, tile = memory_of::tile;
  static constexpr u32 held_back = 1u << 31;  // a row of a frequent key

 public:
  GH_FN dividing_block(const group_work<K>& work, unsigned char* memory, u32* sums)
      : w(work),
        me(threadIdx.x),
        to_bins(Second || !work.two_passes()),
        own_bits(Second ? work.plan.second_bits : work.plan.first_bits),
        bits(Second ? work.plan.bits : work.plan.first_bits),
        staged(reinterpret_cast<K*>(memory)),
        frequent(staged + tile),
        staged_row(reinterpret_cast<u32*>(frequent + (Second ? 0 : frequent_slots))),
        count(staged_row + (Rows ? tile : 0)),
        base(count + (1u << own_bits)),
        seen(base + (1u << own_bits)),
        first(seen + (!Second && work.wants.counts ? frequent_places : 0)),
        of_warp(sums),
        uses_frequent(!Second && frequent_is_used(work)) {}

  GH_FN void run() {
    if constexpr (!Second) clear_frequent();
    __syncthreads();
    const tiles<K> all(w, tile, Second, seen, of_warp);
    for (u32 g = blockIdx.x; g < all.many(); g += gridDim.x) {
      const some_rows rows = all.at(g);
      K h[each];
      u32 row[Rows && Second ? each : 1], rank[each];
      load(rows, h, row);
      for (u32 i = me; i < 1u << own_bits; i += divide_threads) count[i] = 0;
      __syncthreads();
      choose_bins(rows, h, rank);
      __syncthreads();
      const u32 total = reserve(rows);
      stage(rows, h, row, rank);
      __syncthreads();
      write_out(total);
      __syncthreads();
    }
    if constexpr (!Second) give_frequent();
  }

 private:
  GH_FN u32 own_bin(K h) const { return bin_of(h, bits) & ((1u << own_bits) - 1); }

  GH_FN void load(some_rows rows, K (&h)[each], u32* row) const {
    const K* from = (Second ? w.coarse_key : w.keys) + rows.from;
#pragma unroll
    for (u32 i = 0; i < each; ++i) {
      const u32 x = i * divide_threads + me;
      h[i] = x < rows.many ? from[x] : 0;
      if constexpr (Rows && Second) row[i] = x < rows.many ? w.coarse_row[rows.from + x] : 0;
    }
  }

  // rank: of a row in its bin, among those of the tile; or held_back.
  GH_FN void choose_bins(some_rows rows, K (&h)[each], u32 (&rank)[each]) const {
#pragma unroll
    for (u32 i = 0; i < each; ++i) {
      const u32 x = i * divide_threads + me;
      rank[i] = held_back;
      if constexpr (!Second) {
        h[i] = w.hash(h[i]);
        const u32 place = place_of(h[i]);
        const bool held = x < rows.many && place < frequent_places;
        hold_back(held, place, rows.from + x);
        if (held) continue;
      }
      if (x < rows.many) rank[i] = atomicAdd(count + own_bin(h[i]), 1u);
    }
  }

  // Where each bin begins in this block's memory, and in its room. Returns how many rows are staged.
  GH_FN u32 reserve(some_rows rows) const {
    const u32 bins = 1u << own_bits, per_thread = (bins + divide_threads - 1) / divide_threads;
    const u32 from = min(me * per_thread, bins), to = min(from + per_thread, bins);
    u32* const ends = (to_bins ? w.bin_end : w.coarse_end) + (Second ? rows.bin * bins : 0);
    u32 sum = 0;
    for (u32 i = from; i < to; ++i) sum += count[i];
    const block_sum s = sum_before<divide_threads>(sum, of_warp);
    u32 at = s.before;
    for (u32 i = from; i < to; ++i) {
      const u32 own = count[i];
      base[i] = (own ? atomicAdd(ends + i, own) : 0) - at;
      count[i] = at;
      at += own;
    }
    __syncthreads();
    return s.all;
  }

  GH_FN void stage(some_rows rows, const K (&h)[each], const u32* row, const u32 (&rank)[each]) const {
#pragma unroll
    for (u32 i = 0; i < each; ++i) {
      if (rank[i] == held_back) continue;
      const u32 at = count[own_bin(h[i])] + rank[i];
      staged[at] = h[i];
      if constexpr (Rows) staged_row[at] = Second ? row[i] : rows.from + i * divide_threads + me;
    }
  }

  GH_FN void write_out(u32 total) const {
    K* const key = to_bins ? w.bin_key : w.coarse_key;
    u32* const row = to_bins ? w.bin_row : w.coarse_row;
#pragma unroll 4
    for (u32 x = me; x < total; x += divide_threads) {
      const K h = staged[x];
      const u32 at = base[own_bin(h)] + x;
      key[at] = h;
      if constexpr (Rows) row[at] = staged_row[x];
    }
  }

  // ---- frequent keys, in the first pass -----------------------------------------------------------------------------

  GH_FN void clear_frequent() const {
    for (u32 i = me; i < frequent_places; i += divide_threads) {
      if (i < frequent_slots && uses_frequent) frequent[i] = w.frequent[i];
      if (w.wants.counts) seen[i] = 0;
      if (w.wants.first) first[i] = no_row;
    }
  }
  GH_FN u32 place_of(K h) const {
    if (h == no_hash<K>) return frequent_slots;
    const u32 place = uses_frequent ? frequent_place(frequent, h) : frequent_slots;
    return place < frequent_slots ? place : frequent_places;
  }
  // All lanes of a warp call.
  GH_FN void hold_back(bool held, u32 place, u32 row) const {
    if (!__any_sync(whole_warp, held)) return;
    if (w.wants.counts) count_one(seen, place, held);
    if (!held) return;
    if (w.wants.first && row < static_cast<volatile u32*>(first)[place]) atomicMin(first + place, row);
    // In the order of first appearance the code is known when all rows have been seen: until then it is a place.
    if (w.wants.codes) w.out_codes[row] = w.wants.first ? -1 - (long long)place : (long long)w.frequent_code[place];
  }
  GH_FN void give_frequent() const {
    __syncthreads();
    for (u32 i = me; i < frequent_places; i += divide_threads) {
      const u32 many = w.wants.counts ? seen[i] : 0;
      if (w.wants.first && first[i] != no_row) atomicMin(w.frequent_first + i, first[i]);
      if (!many) continue;
      if (w.wants.first)
        atomicAdd(w.frequent_count + i, many);
      else
        atomicAdd(reinterpret_cast<unsigned long long*>(w.out_counts) + w.frequent_code[i], (unsigned long long)many);
    }
  }

  const group_work<K>& w;
  const u32 me;
  const bool to_bins;
  const u32 own_bits, bits;
  K *const staged, *const frequent;
  u32 *const staged_row, *const count, *const base;
  u32 *const seen, *const first;  // in the second pass `seen` is the tiles before each bin
  u32* const of_warp;
  const bool uses_frequent;
};

template <class K, bool Rows, bool Second>
__global__ void __launch_bounds__(divide_threads, 2) divide(const __grid_constant__ group_work<K> w) {
  extern __shared__ __align__(16) unsigned char memory[];
  __shared__ u32 of_warp[divide_threads / 32];
  dividing_block<K, Rows, Second>(w, memory, of_warp).run();
}

}  // namespace gpuhash::columns
