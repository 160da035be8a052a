// Columns of bytes on a CUDA device: how kernels read rows, and how the words of rows are divided among threads.
//
// A row is read in words of 8 bytes, whatever its alignment. A thread does the words of a short row alone; longer rows
// are listed, and then each has a warp, or, if it is very long, the warps of the whole grid.
#pragma once
#include "libgpuhash/columns/cuda/bytes.hpp"
#include "libgpuhash/columns/cuda/work.cuh"

namespace gpuhash::columns {

constexpr u32 bytes_threads = order_threads;

// Facts of a call, in the scratch memory.
struct bytes_known {
  unsigned long long first_null;  // row
  u32 other;                      // 1: a row differs from the first one of its group
  u32 warp_rows, grid_rows;       // listed rows: from the beginning of the list on, and from its end
};

// Floats as words: equal numbers have equal ones.
GH_FN u64 equal_float(u64 v, u32 width) {
  const u64 sign = u64(1) << (8 * width - 1);
  const u64 infinite = width == 2 ? 0x7c00u : width == 4 ? 0x7f800000u : u64(0x7ff) << 52, last = infinite & -infinite;
  const u64 size = v & (sign - 1);
  return size == 0 ? 0 : size > infinite ? infinite | last >> 1 : v;
}

// An element: where its bytes are. A null has none.
struct bytes_span {
  const u8* at;
  u64 size;
  bool null;
};

struct bytes_side {
  const u8 *data, *validity;
  const void* offsets;
  u64 first;
  u32 offset_bytes, width, floats;
  u64 n;

  GH_FN u64 offset(u64 i) const {
    return offset_bytes == 4 ? static_cast<const u32*>(offsets)[i] : static_cast<const u64*>(offsets)[i];
  }
  GH_FN u64 begin_of(u64 i) const { return offset_bytes ? offset(i) : i * width; }
  GH_FN const u8* end() const { return data + begin_of(first + n); }
  GH_FN bool is_null(u64 i) const {
    i += first;
    return validity && !(validity[i / 8] >> i % 8 & 1);
  }
  GH_FN bytes_span row(u64 i) const {
    if (is_null(i)) return {data, 0, true};
    const u64 from = begin_of(first + i);
    return {data + from, begin_of(first + i + 1) - from, false};
  }
  // Word j of a row; bytes that the last one lacks are 0. Aligned words are read where they are the column's as a whole.
  GH_FN u64 word(const bytes_span& s, u64 j) const {
    const u8* const p = s.at + 8 * j;
    const u32 many = u32(min(u64(8), s.size - 8 * j)), off = u32(uintptr_t(p) % 8);
    const u8* const low = p - off;
    u64 v = 0;
    if (low >= data && low + (off + many > 8 ? 16 : 8) <= end()) {
      v = *reinterpret_cast<const u64*>(low) >> 8 * off;
      if (off + many > 8) v |= *reinterpret_cast<const u64*>(low + 8) << (64 - 8 * off);
      if (many < 8) v &= (u64(1) << 8 * many) - 1;
    } else {
      for (u32 i = 0; i < many; ++i) v |= u64(p[i]) << 8 * i;
    }
    return floats ? equal_float(v, width) : v;
  }
};

GH_FN u64 words_of(u64 bytes) { return (bytes + 7) / 8; }

// Rows of two columns; those of the other one have the numbers behind those of the first.
struct bytes_rows {
  bytes_side one, other;

  GH_FN const bytes_side& side(u64 row) const { return row < one.n ? one : other; }
  GH_FN u64 own(u64 row) const { return row < one.n ? row : row - one.n; }
};

// ---- the words of rows, divided among threads ------------------------------------------------------------------------

// Work has: items; u64 begin(item), which says how many words there are to do; u64 part(item, from, step), which does words
// from, from + step, ..., and gives their sum; and add(item, sum, alone), where alone says that the sum is that of all words.
template <class Work>
__global__ void __launch_bounds__(bytes_threads)
    do_short_rows(const __grid_constant__ Work w, bytes_known* known, u32* list) {
  for (u64 i = u64(blockIdx.x) * bytes_threads + threadIdx.x; i < w.items; i += u64(gridDim.x) * bytes_threads) {
    const u64 words = w.begin(i);
    if (words == 0) continue;
    if (words <= words_by_thread)
      w.add(i, w.part(i, 0, 1), true);
    else if (words <= words_by_warp)
      list[atomicAdd(&known->warp_rows, 1u)] = u32(i);
    else
      list[w.items - 1 - atomicAdd(&known->grid_rows, 1u)] = u32(i);
  }
}

template <class Work>
__global__ void __launch_bounds__(bytes_threads)
    do_long_rows(const __grid_constant__ Work w, const bytes_known* known, const u32* list) {
  const u32 lane = threadIdx.x % 32;
  const u64 warp = (u64(blockIdx.x) * bytes_threads + threadIdx.x) / 32, warps = u64(gridDim.x) * bytes_threads / 32;
  const u32 warp_rows = known->warp_rows, grid_rows = known->grid_rows;
  for (u64 i = warp; i < warp_rows; i += warps) {
    const u64 sum = sum_up_to(w.part(list[i], lane, 32));
    if (lane == 31) w.add(list[i], sum, false);
  }
  for (u64 i = 0; i < grid_rows; ++i) {
    const u32 row = list[w.items - 1 - i];
    const u64 sum = sum_up_to(w.part(row, warp * 32 + lane, warps * 32));
    if (lane == 31) w.add(row, sum, false);
  }
}

// ---- hashes ----------------------------------------------------------------------------------------------------------

// The hash is the sum of hashes of the length and of each word with its place, so that any threads may do any words.
struct hash_work {
  bytes_rows rows;
  u64 items, seed;
  u64* hashes;
  bytes_known* known;

  GH_FN u64 of(u64 word, u64 place) const { return mix(u64(word ^ mix(u64(seed + place * 0x9e3779b97f4a7c15u)))); }
  GH_FN u64 begin(u64 i) const {
    const bytes_span s = rows.side(i).row(rows.own(i));
    if (s.null && known->first_null > i) atomicMin(&known->first_null, (unsigned long long)i);
    hashes[i] = s.null ? of(1, ~u64(0)) : of(s.size, 0);
    return words_of(s.size);
  }
  GH_FN u64 part(u64 i, u64 from, u64 step) const {
    const bytes_side& side = rows.side(i);
    const bytes_span s = side.row(rows.own(i));
    u64 sum = 0;
    for (u64 j = from, words = words_of(s.size); j < words; j += step) sum += of(side.word(s, j), j + 1);
    return sum;
  }
  GH_FN void add(u64 i, u64 sum, bool alone) const {
    if (alone)
      hashes[i] += sum;
    else
      atomicAdd(reinterpret_cast<unsigned long long*>(hashes) + i, (unsigned long long)sum);
  }
};

// ---- the first row of each group, and whether the others have its bytes ----------------------------------------------

struct check_work {
  bytes_rows rows;
  u64 items;
  const long long* codes;
  long long* first;
  bytes_known* known;

  GH_FN void differs() const { known->other = 1; }
  GH_FN u64 begin(u64 i) const {
    if (codes[i] < 0) return 0;
    const u64 with = u64(first[codes[i]]);
    if (with == i) return 0;
    const bytes_span a = rows.side(i).row(rows.own(i)), b = rows.side(with).row(rows.own(with));
    if (a.size != b.size || a.null != b.null) return differs(), 0;
    return words_of(a.size);
  }
  GH_FN u64 part(u64 i, u64 from, u64 step) const {
    const u64 with = u64(first[codes[i]]);
    const bytes_side &mine = rows.side(i), &its = rows.side(with);
    const bytes_span a = mine.row(rows.own(i)), b = its.row(rows.own(with));
    for (u64 j = from, words = words_of(a.size); j < words; j += step)
      if (mine.word(a, j) != its.word(b, j)) differs();
    return 0;
  }
  GH_FN void add(u64, u64, bool) const {}
};

static __global__ void __launch_bounds__(bytes_threads)
    note_first_rows(u64 n, const long long* codes, unsigned long long* first) {
  for (u64 i = u64(blockIdx.x) * bytes_threads + threadIdx.x; i < n; i += u64(gridDim.x) * bytes_threads)
    if (codes[i] >= 0 && static_cast<volatile unsigned long long*>(first)[codes[i]] > i)
      atomicMin(first + codes[i], (unsigned long long)i);
}

// ---- rows that are picked --------------------------------------------------------------------------------------------

struct take_work {
  bytes_rows rows;
  u64 items;
  const long long* picked;
  const void* offsets;  // of the result
  u8* data;

  GH_FN u8* to(u64 i, u64 size) const {
    const u32 bytes = rows.one.offset_bytes;
    return data + (bytes == 0   ? i * size
                   : bytes == 4 ? static_cast<const u32*>(offsets)[i]
                                : static_cast<const u64*>(offsets)[i]);
  }
  GH_FN bytes_span from(u64 i) const { return rows.side(u64(picked[i])).row(rows.own(u64(picked[i]))); }
  GH_FN u64 begin(u64 i) const {
    const bytes_span s = from(i);
    const u32 width = rows.one.width;
    if (s.null && !rows.one.offset_bytes)
      for (u32 j = 0; j < width; ++j) data[i * width + j] = 0;
    return words_of(s.size);
  }
  GH_FN u64 part(u64 i, u64 begin, u64 step) const {
    const bytes_span s = from(i);
    const bytes_side& side = rows.side(u64(picked[i]));
    u8* const out = to(i, s.size);
    for (u64 j = begin, words = words_of(s.size); j < words; j += step) {
      const u64 word = side.word(s, j), many = min(u64(8), s.size - 8 * j);
      u8* const p = out + 8 * j;
      if (many == 8 && uintptr_t(p) % 8 == 0)
        *reinterpret_cast<u64*>(p) = word;
      else if (many == 4 && uintptr_t(p) % 4 == 0)
        *reinterpret_cast<u32*>(p) = u32(word);
      else
        for (u32 b = 0; b < many; ++b) p[b] = u8(word >> 8 * b);
    }
    return 0;
  }
  GH_FN void add(u64, u64, bool) const {}
};

// Eight rows' bits of the result's bitmap for each thread.
static __global__ void __launch_bounds__(bytes_threads)
    take_validity(const __grid_constant__ take_work w, u8* validity) {
  const u64 bytes = (w.items + 7) / 8;
  for (u64 i = u64(blockIdx.x) * bytes_threads + threadIdx.x; i < bytes; i += u64(gridDim.x) * bytes_threads) {
    u32 bits = 0;
    for (u32 j = 0; j < 8 && 8 * i + j < w.items; ++j) bits |= u32(!w.from(8 * i + j).null) << j;
    validity[i] = u8(bits);
  }
}

// ---- prefix sums over rows -------------------------------------------------------------------------------------------

// The bytes of rows that are picked: where each begins in the result.
struct place_sizes {
  bytes_rows rows;
  u64 items;
  const long long* picked;
  void* offsets;

  GH_FN u64 size(u64 i) const { return rows.side(u64(picked[i])).row(rows.own(u64(picked[i]))).size; }
  GH_FN void put(u64 i, u64 before, u64 size) const {
    if (rows.one.offset_bytes == 4)
      static_cast<u32*>(offsets)[i + 1] = u32(before + size);
    else
      static_cast<u64*>(offsets)[i + 1] = before + size;
  }
};

// The rows that are not null, listed.
struct keep_rows {
  bytes_rows rows;
  u64 items;
  long long* kept;

  GH_FN u64 size(u64 i) const { return !rows.side(i).is_null(rows.own(i)); }
  GH_FN void put(u64 i, u64 before, u64 size) const {
    if (size) kept[before] = (long long)i;
  }
};

// A block has rows `each` times its number and on.
template <class Sizes>
__global__ void __launch_bounds__(bytes_threads)
    add_up_strips(const __grid_constant__ Sizes w, u64 each, unsigned long long* strips) {
  const u64 end = min(w.items, (blockIdx.x + 1) * each);
  u64 sum = 0;
  for (u64 i = blockIdx.x * each + threadIdx.x; i < end; i += bytes_threads) sum += w.size(i);
  if (sum) atomicAdd(strips + blockIdx.x, (unsigned long long)sum);
}

struct strip_sums {
  unsigned long long before;
  u64 of_warp[bytes_threads / 32];
};

template <class Sizes>
__global__ void __launch_bounds__(bytes_threads)
    place_strips(const __grid_constant__ Sizes w, u64 each, const unsigned long long* strips) {
  GH_BLOCK_MEMORY(strip_sums, block);
  if (threadIdx.x == 0) block.before = 0;
  __syncthreads();
  for (u32 i = threadIdx.x; i < blockIdx.x; i += bytes_threads) atomicAdd(&block.before, strips[i]);
  __syncthreads();
  const u64 end = min(w.items, (blockIdx.x + 1) * each);
  u64 before = block.before;
  for (u64 from = blockIdx.x * each; from < end; from += bytes_threads) {
    const u64 i = from + threadIdx.x, size = i < end ? w.size(i) : 0, up_to = sum_up_to(size);
    if (threadIdx.x % 32 == 31) block.of_warp[threadIdx.x / 32] = up_to;
    __syncthreads();
    u64 mine = before;
    for (u32 warp = 0; warp < bytes_threads / 32; ++warp) {
      mine += warp < threadIdx.x / 32 ? block.of_warp[warp] : 0;
      before += block.of_warp[warp];
    }
    if (i < end) w.put(i, mine + up_to - size, size);
    __syncthreads();
  }
}

}  // namespace gpuhash::columns
