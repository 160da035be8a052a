// Rows by shard on a CUDA device: a stable partition by one digit of the shards, or by two, one after the other.
//
//   count   each block counts the rows of each digit in its strip, a range of rows                  count_digits
//   add up  the rows of a digit in the strips before, and of all digits before: where a strip goes   strips_before, starts
//   move    each block takes its strip again, tile by tile, and moves the elements of all arrays     move_rows
//
// A row's shard is computed from its key in both passes: that is cheaper than to write and read it. A block brings the numbers
// of a tile's rows into the order of their digits in its own memory. Elements then leave for one digit as a run of neighbours,
// and come from the tile, which the first cache holds, so that every byte is read from memory once for each pass.
#include "libgpuhash/columns/partition_cuda.hpp"

#include "libgpuhash/columns/contract.hpp"
#include "libgpuhash/columns/cuda/launch.cuh"
#include "libgpuhash/columns/cuda/work.cuh"

namespace gpuhash::columns {
namespace {

using u16 = uint16_t;
using i64 = int64_t;

constexpr u32 warps_of_block = partition_threads / 32;
constexpr u32 warp_threads = 32;

// Stands for the type of a key: the shards are known.
struct known {};
// Stands for the type of a key that is bytes, of which all keys have as many.
struct byte_row {};

// ---- the shard of a row ----------------------------------------------------------------------------------------------

// The half of 2 bytes, exactly. Its exponent is 1,008 too small as that of a double, which has room for halves that are subnormal.
GH_FN double half_as_double(u16 h) {
  const bool finite = (h >> 10 & 31) != 31;
  const u64 bits = u64(h & 0x7fff) << 42 | (finite ? 0 : u64(0x7ff) << 52);
  double size;
  memcpy(&size, &bits, sizeof(size));
  if (finite) size *= 0x1p1008;
  return h >> 15 ? -size : size;
}

struct cell_hash {
  cell_kind kind;
  u64 key, fraction;
  i64 nanoseconds;

  GH_FN u64 of_double(double d) const { return contract::of_float(key, fraction, d); }
  template <class Word>
  GH_FN u64 operator()(Word cell) const {
    const auto number = i64(std::make_signed_t<Word>(cell));
    switch (kind) {
      case cell_kind::unsigned_integer: return contract::of_integer(key, u64(cell), 0);
      case cell_kind::signed_integer: return contract::of_word(key, u64(number));
      case cell_kind::ticks: return contract::of_ticks(key, number, nanoseconds);
      default: break;
    }
    if constexpr (sizeof(Word) == 8) {
      double d;
      memcpy(&d, &cell, sizeof(d));
      return of_double(d);
    } else if constexpr (sizeof(Word) == 4) {
      float f;
      memcpy(&f, &cell, sizeof(f));
      return of_double(double(f));
    } else {
      return of_double(half_as_double(u16(cell)));
    }
  }
};

// An array that is grouped, and the largest word by which its elements and their ends are whole.
struct moved_array {
  grouped_array of;
  u32 word;
  bool spread;                          // by shard, which is then the digit
  void* of_shard[GPUHASH_MOST_SPREAD];  // where the elements of each go, instead of `of.to`
};

// A pass over the rows, by one digit of their shards.
struct partition_work {
  const void* keys;
  const int32_t* shard;  // of each row, where they are known
  cell_hash hash;
  contract::bytes_keys of_bytes;  // of keys that are bytes, and how many a key has
  u32 width;
  u64 n, strip;  // rows, of all and of a strip
  u32 strips, shards, shift, digits, bits;
  int32_t* ids;            // to be written; NULL: not asked for
  u64* counts;             // of each digit and strip, and then how many are in the strips before
  u64* totals;             // of each digit, and then where it begins
  const int64_t* through;  // row i of this pass is row through[i] of the arrays; NULL: the same
  u32* places;             // of rows in the grouped arrays; NULL: not asked for
  moved_array arrays[4];
  u32 count;

  GH_FN u32 shard_of(u64 hash) const { return u32((hash >> 32) * shards >> 32); }
  GH_FN u32 digit(u32 of) const { return of >> shift & (most_digits - 1); }
  GH_FN u64 begin() const { return u64(blockIdx.x) * strip; }
  GH_FN u64 end() const { return min(n, begin() + strip); }
};

// The shards of `each` rows of a thread, the first of which is `row`, with so many rows from one to the next.
template <class Cell>
GH_FN void read_shards(const partition_work& w, u64 row, u32 step, u64 end, u32 (&shard)[partition_each]) {
  if constexpr (std::is_same_v<Cell, known>) {
#pragma unroll
    for (u32 i = 0; i < partition_each; ++i) shard[i] = row + i * step < end ? u32(w.shard[row + i * step]) : 0;
  } else if constexpr (std::is_same_v<Cell, byte_row>) {
#pragma unroll
    for (u32 i = 0; i < partition_each; ++i) {
      const u8* const at = static_cast<const u8*>(w.keys) + (row + i * step) * w.width;
      shard[i] = row + i * step < end ? w.shard_of(contract::of_bytes(w.of_bytes, at, w.width)) : 0;
    }
  } else {
    Cell cells[partition_each];
#pragma unroll
    for (u32 i = 0; i < partition_each; ++i)
      cells[i] = row + i * step < end ? static_cast<const Cell*>(w.keys)[row + i * step] : Cell(0);
#pragma unroll
    for (u32 i = 0; i < partition_each; ++i) shard[i] = w.shard_of(w.hash(cells[i]));
  }
}

// The lanes that are live and have this digit, by one vote for each of its bits.
GH_FN u32 lanes_with(u32 digit, u32 bits, bool live) {
  u32 lanes = __ballot_sync(whole_warp, live);
  for (u32 b = 0; b < bits; ++b) {
    const bool set = digit >> b & 1;
    const u32 others = __ballot_sync(whole_warp, set);
    lanes &= set ? others : ~others;
  }
  return lanes;
}

// ---- counting --------------------------------------------------------------------------------------------------------

template <class Cell>
__global__ void __launch_bounds__(partition_threads) count_digits(const __grid_constant__ partition_work w) {
  GH_DYNAMIC_MEMORY(u32, counted);
  const u32 me = threadIdx.x;
  for (u32 d = me; d < w.digits; d += partition_threads) counted[d] = 0;
  __syncthreads();
  const u64 end = w.end();
  for (u64 from = w.begin(); from < end; from += partition_tile) {
    u32 shard[partition_each];
    read_shards<Cell>(w, from + me, partition_threads, end, shard);
#pragma unroll
    for (u32 i = 0; i < partition_each; ++i) {
      const u64 row = from + i * partition_threads + me;
      const bool live = row < end;
      if (live && w.ids) w.ids[row] = int32_t(shard[i]);
      const u32 digit = w.digit(shard[i]), lanes = lanes_with(digit, w.bits, live);
      if (live && u32(__ffs(lanes)) == me % 32 + 1) atomicAdd(counted + digit, u32(__popc(lanes)));
    }
  }
  __syncthreads();
  for (u32 d = me; w.counts && d < w.digits; d += partition_threads)
    w.counts[u64(d) * w.strips + blockIdx.x] = counted[d];
}

// Each of n words becomes the sum of those before. Returns the sum of all; a warp calls.
GH_FN u64 sums_before(u64* words, u32 n) {
  u64 carry = 0;
  for (u32 i = threadIdx.x; i - threadIdx.x < n; i += 32) {
    const u64 own = i < n ? words[i] : 0, up_to = sum_up_to(own);
    if (i < n) words[i] = carry + up_to - own;
    carry += __shfl_sync(whole_warp, up_to, 31);
  }
  return carry;
}

// How many rows of each digit the strips before have; a block for each digit.
__global__ void __launch_bounds__(warp_threads) strips_before(u64* counts, u32 strips, u64* totals) {
  const u64 all = sums_before(counts + u64(blockIdx.x) * strips, strips);
  if (threadIdx.x == 0) totals[blockIdx.x] = all;
}

// Where each digit begins; one block.
__global__ void __launch_bounds__(warp_threads) starts(u64* totals, u32 digits, u64 n, int64_t* offsets) {
  sums_before(totals, digits);
  __syncwarp();
  if (!offsets) return;
  for (u32 d = threadIdx.x; d < digits; d += 32) offsets[d] = int64_t(totals[d]);
  if (threadIdx.x == 0) offsets[digits] = int64_t(n);
}

// Where each shard begins among shards in order.
__global__ void __launch_bounds__(partition_threads)
    find_offsets(const int32_t* sorted, u64 n, u32 shards, int64_t* offsets) {
  const u32 shard = blockIdx.x * partition_threads + threadIdx.x;
  if (shard > shards) return;
  u64 low = 0, high = n;
  while (low < high) {
    const u64 middle = (low + high) / 2;
    if (u32(sorted[middle]) < shard)
      low = middle + 1;
    else
      high = middle;
  }
  offsets[shard] = int64_t(low);
}

// ---- moving ----------------------------------------------------------------------------------------------------------

template <class Cell>
class moving_block {
 public:
  GH_FN moving_block(const partition_work& work, unsigned char* at, u32* sums)
      : w(work),
        memory(at),
        base(memory.take<u64>(work.digits)),
        next(memory.take<u64>(work.digits)),
        order(memory.take<u32>(partition_tile)),
        counts(memory.take<u32>(warps_of_block * work.digits)),
        of_warp(sums) {}
  static size_t bytes(u32 digits) {
    return 2 * room_of(digits, 8) + room_of(partition_tile, 4) + room_of(warps_of_block * digits, 4);
  }

  GH_FN void run() {
    for (u32 d = me; d < w.digits; d += partition_threads)
      next[d] = w.totals[d] + w.counts[u64(d) * w.strips + blockIdx.x];
    const u64 end = w.end();
    for (u64 from = w.begin(); from < end; from += partition_tile) {
      const u32 many = u32(min(u64(partition_tile), end - from));
      for (u32 i = me; i < warps_of_block * w.digits; i += partition_threads) counts[i] = 0;
      __syncthreads();            // all have moved their elements of the tile before
      u32 place[partition_each];  // of a row among those of its warp and digit, and the digit
      rank_rows(from, many, place);
      __syncthreads();
      reserve();
      __syncthreads();
      bring_in_order(from, many, place);
      __syncthreads();
      for (u32 a = 0; a < w.count; ++a) move(w.arrays[a], from, many);
    }
  }

 private:
  // Row x of the tile is of thread x / 32 / each * 32 + x % 32: warps have neighbours, so that ranks are in the order of rows.
  GH_FN u32 row_of(u32 i) const { return me / 32 * 32 * partition_each + i * 32 + me % 32; }

  GH_FN void rank_rows(u64 from, u32 many, u32 (&place)[partition_each]) const {
    u32* const own = counts + me / 32 * w.digits;
    read_shards<Cell>(w, from + row_of(0), 32, from + many, place);
#pragma unroll
    for (u32 i = 0; i < partition_each; ++i) {
      const bool live = row_of(i) < many;
      const u32 digit = w.digit(place[i]), lanes = lanes_with(digit, w.bits, live);
      const u32 first = live ? u32(__ffs(lanes)) - 1 : 0;
      u32 before = 0;
      if (live && first == me % 32) before = atomicAdd(own + digit, u32(__popc(lanes)));
      before = __shfl_sync(whole_warp, before, int(first));
      place[i] = digit << 16 | (before + u32(__popc(lanes & ((1u << me % 32) - 1))));
    }
  }

  // Where the rows of each warp and digit go, in the order of digits, and the distance from there to their place in the
  // results.
  GH_FN void reserve() const {
    u32 own = 0;
    for (u32 i = 0; me < w.digits && i < warps_of_block; ++i) own += counts[i * w.digits + me];
    u32 at = sum_before<partition_threads>(own, of_warp).before;
    if (me >= w.digits) return;
    base[me] = next[me] - at;
    next[me] += own;
    for (u32 i = 0; i < warps_of_block; ++i) {
      const u32 of_one = counts[i * w.digits + me];
      counts[i * w.digits + me] = at;
      at += of_one;
    }
  }

  GH_FN void bring_in_order(u64 from, u32 many, const u32 (&place)[partition_each]) const {
    const u32* const own = counts + me / 32 * w.digits;
#pragma unroll
    for (u32 i = 0; i < partition_each; ++i)
      if (row_of(i) < many) {
        const u32 digit = place[i] >> 16;
        const u32 x = own[digit] + (place[i] & 0xffff);
        order[x] = digit << 16 | row_of(i);
        if (w.places) w.places[row_in_arrays(from + row_of(i))] = u32(base[digit] + x);
      }
  }

  GH_FN u64 row_in_arrays(u64 row) const { return w.through ? u64(w.through[row]) : row; }

  GH_FN void move(const moved_array& a, u64 from, u32 many) const {
    if (!a.of.from) return move_numbers(static_cast<int64_t*>(a.of.to), from, many);
    switch (a.word) {
      case 8: return move_cells<u64>(a, from, many);
      case 4: return move_cells<u32>(a, from, many);
      case 2: return move_cells<u16>(a, from, many);
      default: return move_cells<u8>(a, from, many);
    }
  }
  GH_FN void move_numbers(int64_t* to, u64 from, u32 many) const {
    for (u32 x = me; x < many; x += partition_threads)
      to[base[order[x] >> 16] + x] = int64_t(row_in_arrays(from + (order[x] & 0xffff)));
  }
  // Where element x of the tile goes, which has this digit.
  template <class Word>
  GH_FN Word* target(const moved_array& a, u32 digit, u32 x, u64 words) const {
    const u64 place = base[digit] + x;
    if (!a.spread) return static_cast<Word*>(a.of.to) + place * words;
    return static_cast<Word*>(a.of_shard[digit]) + (place - w.totals[digit]) * words;
  }
  template <class Word>
  GH_FN void move_cells(const moved_array& a, u64 from, u32 many) const {
    const Word* const source = static_cast<const Word*>(a.of.from);
    const u64 words = a.of.bytes / sizeof(Word);
    if (words == 1) {
#pragma unroll 4
      for (u32 x = me; x < many; x += partition_threads) {
        const u32 what = order[x];
        *target<Word>(a, what >> 16, x, 1) = source[row_in_arrays(from + (what & 0xffff))];
      }
      return;
    }
    for (u64 y = me; y < many * words; y += partition_threads) {  // neighbours move parts of one element
      const u32 x = u32(y / words), what = order[x];
      const u64 part = y % words;
      target<Word>(a, what >> 16, x, words)[part] = source[row_in_arrays(from + (what & 0xffff)) * words + part];
    }
  }

  const partition_work& w;
  const u32 me = threadIdx.x;
  carver memory;
  u64 *const base, *const next;  // of each digit: place in the results less place in `order`; place of the next row
  u32* const order;              // rows of the tile, and their digits
  u32* const counts;             // of each warp and digit
  u32* const of_warp;
};

template <class Cell>
__global__ void __launch_bounds__(partition_threads, 2) move_rows(const __grid_constant__ partition_work w) {
  GH_DYNAMIC_MEMORY(unsigned char, memory);
  GH_BLOCK_MEMORY(warp_words<partition_threads>, some);
  moving_block<Cell>(w, memory, some.of).run();
}

// ---- launches --------------------------------------------------------------------------------------------------------

class partition_call {
 public:
  explicit partition_call(const partition_on_device& request)
      : r(request), plan(request.n, request.shards), launch(request.stream) {
    w.keys = r.keys, w.n = r.n, w.shards = r.shards;
    w.hash = {r.kind, r.key, r.fraction, r.nanoseconds};
    w.of_bytes = r.of_bytes, w.width = r.width;
    const u64 tiles = (r.n + partition_tile - 1) / partition_tile;
    const u64 most = launch.blocks(plan.strips, partition_blocks);
    w.strip = (tiles + most - 1) / most * partition_tile;
    w.strips = u32((r.n + w.strip - 1) / w.strip);
    w.counts = r.groups() ? at<u64>(plan.counts) : nullptr;
    w.totals = r.groups() ? at<u64>(plan.totals) : nullptr;
  }

  template <class Cell>
  void run() {
    if (r.shards > most_digits && r.groups()) return two_passes<Cell>();
    w.ids = r.ids;
    r.groups() ? set_digit(0, r.shards) : set_digit(31, 1);  // one digit, 0: nothing is divided
    if (!r.counted || r.ids) count<Cell>(r.offsets);
    if (!r.moves()) return;
    take_results();
    move<Cell>();
  }

 private:
  template <class T>
  T* at(size_t byte) const {
    return reinterpret_cast<T*>(r.scratch + byte);
  }
  void set_digit(u32 shift, u32 digits) {
    w.shift = shift, w.digits = digits, w.bits = 0;
    while (1u << w.bits < digits) ++w.bits;
  }
  // What the pass that groups by all of a shard writes.
  void take_results() {
    w.places = r.places, w.count = r.count;
    for (u32 a = 0; a < r.count; ++a) set_array(a, r.arrays[a], r.spread[a]);
  }
  void set_array(u32 a, const grouped_array& array, void* const* spread) {
    moved_array& m = w.arrays[a];
    u64 ends = u64(uintptr_t(array.from)) | array.bytes | (spread ? 0 : u64(uintptr_t(array.to)));
    m.of = array, m.spread = spread != nullptr;
    for (u32 shard = 0; spread && shard < r.shards; ++shard)
      m.of_shard[shard] = spread[shard], ends |= u64(uintptr_t(spread[shard]));
    m.word = largest_word(ends);
  }
  template <class Cell>
  void count(int64_t* offsets) {
    launch(count_digits<Cell>, w.strips, partition_threads, w.digits * sizeof(u32), w);
    if (!w.counts) return;
    launch(strips_before, w.digits, warp_threads, 0, w.counts, w.strips, w.totals);
    launch(starts, 1, warp_threads, 0, w.totals, w.digits, w.n, offsets);
  }
  template <class Cell>
  void move() {
    launch(move_rows<Cell>, w.strips, partition_threads, moving_block<Cell>::bytes(w.digits), w);
  }

  template <class Cell>
  void two_passes() {
    int32_t* const ids = r.ids ? r.ids : at<int32_t>(plan.ids);
    w.ids = ids;
    set_digit(0, most_digits);
    count<Cell>(nullptr);
    w.ids = nullptr, w.shard = ids;
    set_array(0, {nullptr, at<void>(plan.order), sizeof(int64_t)}, nullptr);
    set_array(1, {ids, at<void>(plan.passed), sizeof(int32_t)}, nullptr);
    w.count = 2;
    move<known>();
    w.shard = at<int32_t>(plan.passed), w.through = at<int64_t>(plan.order);
    set_digit(digit_bits, (r.shards - 1) / most_digits + 1);
    count<known>(nullptr);
    take_results();
    if (r.offsets) set_array(w.count++, {ids, at<void>(plan.sorted), sizeof(int32_t)}, nullptr);
    move<known>();
    if (r.offsets)
      launch(find_offsets, r.shards / partition_threads + 1, partition_threads, 0, at<int32_t>(plan.sorted), r.n,
             r.shards, r.offsets);
  }

  const partition_on_device& r;
  const partition_plan plan;
  const launcher launch;
  partition_work w{};
};

}  // namespace

gpuhash_status partition_on_cuda(const partition_on_device& r, gpuhash_error* err) {
  return on_device(r.ordinal, err, [&] {
    if (r.n == 0) {
      if (r.offsets) launcher(r.stream).fill(r.offsets, 0, (size_t(r.shards) + 1) * sizeof(*r.offsets));
      return;
    }
    partition_call call(r);
    if (r.kind == cell_kind::bytes) return call.run<byte_row>();
    switch (r.width) {
      case 1: return call.run<u8>();
      case 2: return call.run<u16>();
      case 4: return call.run<u32>();
      default: return call.run<u64>();
    }
  });
}

}  // namespace gpuhash::columns
