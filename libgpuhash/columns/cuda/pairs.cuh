// Joins of two columns on a CUDA device: the pairs, by their left rows and then by their right ones.
//
// How many pairs each tile of left rows has is known; a prefix sum says where those of each tile begin. Where each left row
// has one pair at most, a block writes the pairs of a tile. Else a block writes so many pairs, whatever rows they are of: it
// searches the left row of its first one, marks in its memory where each row's pairs begin, and each thread looks for the last
// mark before its own pair. So neighbours write neighbours, and a row of a million pairs is shared by as many blocks as it takes.
#pragma once
#include "libgpuhash/columns/cuda/lists.cuh"

namespace gpuhash::columns {

// Computes where the pairs of each tile begin, from the number of its pairs; and how many pairs there are.
struct wide_warp_words {
  u64 of[scan_threads / 32];
};
static __global__ void __launch_bounds__(scan_threads)
    find_pairs(unsigned long long* known, u32 tiles, unsigned long long* pairs) {
  wait_for_the_one_before();
  GH_BLOCK_MEMORY(wide_warp_words, some);
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  u64 carry = 0;
  for (u32 from = 0; from < tiles; from += scan_threads) {
    const u32 x = from + threadIdx.x;
    const u64 own = x < tiles ? known[x] : 0;
    u64 up_to = own;
#pragma unroll
    for (u32 d = 1; d < 32; d *= 2) {
      const u64 below = __shfl_up_sync(whole_warp, up_to, d);
      up_to += lane >= d ? below : 0;
    }
    if (lane == 31) some.of[warp] = up_to;
    __syncthreads();
    u64 before = carry + up_to - own;
    for (u32 i = 0; i < scan_threads / 32; ++i) {
      before += i < warp ? some.of[i] : 0;
      carry += some.of[i];
    }
    if (x < tiles) known[x] = before;
    __syncthreads();
  }
  if (threadIdx.x == 0) *pairs = carry;
}

struct pairs_work {
  const u32* word;  // of each left row; without lists, the first row of its key
  u32 n_left, n_right;
  const unsigned long long* start;  // of the pairs of each tile of left rows
  bool lists, keep;
  const u32* repeats;
  long long *left, *right;
  // With lists:
  const u32 *list, *before;
  u32 place_bits;  // of the word of a list
  u64 pairs;
  u32 width;  // of these, for each block

  // The partner of a left row that meets one right row at most: that right row; `kept`, if a left row without a partner
  // is kept; or no_row, if the row is in no pair.
  static constexpr u32 kept = no_row - 1;
  GH_FN u32 met(u32 row) const {
    if (row >= n_left) return no_row;
    const u32 own = word[row];
    if (lists ? own == no_row : own >= n_right) return keep ? kept : no_row;
    return lists ? own & ~of_one_row : own;
  }
};

// A block for each tile of left rows, where each has one pair or none, of a thread for each `pairs_each` of them.
constexpr u32 pairs_each = 8;
template <u32 Tile>
__global__ void __launch_bounds__(Tile / pairs_each, threads_of_processor* pairs_each / Tile)
    give_pairs(const __grid_constant__ pairs_work w) {
  wait_for_the_one_before();
  constexpr u32 threads = Tile / pairs_each, warps = threads / 32, sums = pairs_each * warps;
  static_assert(sums <= threads);
  struct counts {
    u32 of[sums], of_warp[warps];
  };
  GH_BLOCK_MEMORY(counts, known);
  if (*w.repeats) return;
  const u32 me = threadIdx.x, lane = me % 32, from = blockIdx.x * Tile;
  u32 right[pairs_each];
#pragma unroll
  for (u32 i = 0; i < pairs_each; ++i) {
    right[i] = w.met(from + i * threads + me);
    const u32 some = __ballot_sync(whole_warp, right[i] != no_row);
    if (lane == 0) known.of[i * warps + me / 32] = __popc(some);
  }
  __syncthreads();
  const block_sum s = sum_before<threads>(me < sums ? known.of[me] : 0, known.of_warp);
  if (me < sums) known.of[me] = s.before;
  const u64 start = w.start[blockIdx.x];
  __syncthreads();
#pragma unroll
  for (u32 i = 0; i < pairs_each; ++i) {
    const u32 some = __ballot_sync(whole_warp, right[i] != no_row);
    if (right[i] == no_row) continue;
    const u64 at = start + known.of[i * warps + me / 32] + __popc(some & ((1u << lane) - 1));
    w.left[at] = from + i * threads + me;
    w.right[at] = right[i] == pairs_work::kept ? -1 : (long long)right[i];
  }
}

// A block that writes w.width pairs, or fewer at the end. Tile: left rows of a tile.
template <u32 Tile>
class spreading_block {
 public:
  static constexpr u32 most = order_threads * pairs_of_thread, words = most / 32, of_lane = words / 32;
  static_assert(words % 32 == 0);
  struct memory {
    // At the place of a row's first pair: the row, and its word, advanced by the row's pairs that other blocks write.
    u32 row[most], word[most];
    u32 mark[words];  // a bit for each such place
    u32 last[words];  // the last such place before a word, if any
    u32 begin;
  };

  GH_FN spreading_block(const pairs_work& work, memory& some)
      : w(work),
        m(some),
        me(threadIdx.x),
        from(u64(blockIdx.x) * work.width),
        many(u32(min(u64(work.width), work.pairs - from))) {}

  GH_FN void run() const {
    for (u32 i = me; i < words; i += order_threads) m.mark[i] = 0;
    mark_rows(row_of(from));
    __syncthreads();
    if (me < 32) find_last();
    __syncthreads();
    write();
  }

 private:
  GH_FN u64 start_of(u32 row) const { return w.start[row / Tile] + w.before[row]; }

  // The last row whose pairs begin there, or earlier; one with a pair, if there is such a row. All threads call.
  GH_FN u32 row_of(u64 pair) const {
    if (me < 32) {
      u32 low = 0, high = w.n_left;  // the row is from low on, and before high
      while (high - low > 1) {
        const u32 step = (high - low + 31) / 32, row = low + (me + 1) * step;
        const bool up_to = (me + 1) * u64(step) < high - low && start_of(row) <= pair;
        low += __popc(__ballot_sync(whole_warp, up_to)) * step;
        high = min(high - low, step) + low;
      }
      if (me == 0) m.begin = low;
    }
    __syncthreads();
    const u32 row = m.begin;
    __syncthreads();
    return row;
  }

  GH_FN void mark_rows(u32 begin) const {
    constexpr u32 each = 4;  // rows of a thread, so that many are on their way
    for (bool more = true; more && begin < w.n_left;) {
      u64 start[each];
      u32 word[each];
#pragma unroll
      for (u32 i = 0; i < each; ++i) {
        const u32 row = begin + i * order_threads + me;
        start[i] = row < w.n_left ? start_of(row) : ~u64(0);
        word[i] = row < w.n_left ? w.word[row] : no_row;
      }
      bool some = false, outside = false;
#pragma unroll
      for (u32 i = 0; i < each; ++i) {
        outside |= start[i] >= from + many;
        if (start[i] >= from + many || (word[i] == no_row && !w.keep)) continue;
        mark(begin + i * order_threads + me, start[i], word[i]);
        some = true;
      }
      more = !__syncthreads_or(outside);
      const bool all_empty = !__syncthreads_or(some);
      begin += each * order_threads;
      // Rows without pairs, of which there may be millions: the next one that has some.
      if (more && all_empty && begin < w.n_left) begin = row_of(start_of(begin));
    }
  }
  GH_FN void mark(u32 row, u64 start, u32 word) const {
    const u32 of_others = start < from ? u32(from - start) : 0, at = start < from ? 0 : u32(start - from);
    m.row[at] = row;
    m.word[at] = word < of_one_row ? (word & w.place_bits) + of_others : word;
    atomicOr(m.mark + at / 32, 1u << at % 32);
  }

  GH_FN void find_last() const {
    u32 own = 0;  // places count from 1 here
    for (u32 i = 0; i < of_lane; ++i) {
      const u32 x = me * of_lane + i;
      if (m.mark[x]) own = x * 32 + 32 - __clz(m.mark[x]);
    }
    u32 up_to = own;
#pragma unroll
    for (u32 d = 1; d < 32; d *= 2) {
      const u32 below = __shfl_up_sync(whole_warp, up_to, d);
      if (me >= d) up_to = max(up_to, below);
    }
    u32 before = __shfl_up_sync(whole_warp, up_to, 1);
    if (me == 0) before = 0;
    for (u32 i = 0; i < of_lane; ++i) {
      const u32 x = me * of_lane + i;
      m.last[x] = before - 1;  // there always is one, but before the first word
      if (m.mark[x]) before = x * 32 + 32 - __clz(m.mark[x]);
    }
  }

  GH_FN void write() const {
#pragma unroll 4
    for (u32 x = me; x < many; x += order_threads) {
      const u32 marks = m.mark[x / 32] & (~0u >> (31 - x % 32));
      const u32 at = marks ? x / 32 * 32 + 31 - __clz(marks) : m.last[x / 32];
      const u32 word = m.word[at];
      const bool listed = word < of_one_row;
      const long long right = word == no_row ? -1 : (long long)(listed ? w.list[word + (x - at)] : word & ~of_one_row);
      // The lists, which are read at random, are to stay in the cache; pairs are not read again.
      __stcs(w.left + from + x, (long long)m.row[at]);
      __stcs(w.right + from + x, right);
    }
  }

  const pairs_work& w;
  memory& m;
  const u32 me;
  const u64 from;
  const u32 many;
};

template <u32 Tile>
__global__ void __launch_bounds__(order_threads) spread_pairs(const __grid_constant__ pairs_work w) {
  wait_for_the_one_before();
  GH_BLOCK_MEMORY(typename spreading_block<Tile>::memory, some);
  if (*w.repeats != right_listed) return;
  spreading_block<Tile>(w, some).run();
}

}  // namespace gpuhash::columns
