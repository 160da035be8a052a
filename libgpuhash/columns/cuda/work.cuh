// Groups of a column on a CUDA device: the hash, and what the kernels of a call share.
//
//   survey  in one kernel, whose last block to end finds where bins begin:
//     sample  reads some rows; keys that are frequent among them are held back from the partition   sample.cuh
//     count   counts the rows of each bin, so that bins have exactly the room that they need             count.cuh
//             or those of each key, where there are few: then nothing is divided                  met.cuh, few.cuh
//   divide  moves the hashes of keys, with numbers of rows or values, into bins, in one pass or two  partition.cuh
//   group   a block per bin: a table in its memory, and from it the groups                bins.cuh, table.cuh
//   match   lists the right rows of each key of a join, for the left rows that have it     match.cuh, lists.cuh
//   members says of rows of one column whether they are among those of another one                     members.cuh
//   back    brings the codes of groups to the rows that they are of                                   back.cuh
//   order   the order of first appearance: a bit for the first row of each group, and prefix sums    order.cuh
//   totals  sums, means, and the smallest and largest value of each group                            totals.cuh
//
// The hash is a bijection: bins hold hashes, and a group's key comes from its hash. The hash with all bits set marks an
// empty slot; the one key that has it never enters a table, and has a place of its own beside the frequent keys.
#pragma once
#include "libgpuhash/columns/cuda/plan.hpp"
#include "libgpuhash/hash/hash.hpp"
#include "libgpuhash/tile/cuda_mem.cuh"

namespace gpuhash::columns {

using u16 = uint16_t;
constexpr u32 whole_warp = 0xffffffffu;
template <class K>
constexpr K no_hash = K(~K(0));
constexpr u32 no_row = ~0u;

// Words that one read gets.
constexpr u32 words_at_once = 4;
struct alignas(16) neighbouring_words {
  u32 of[words_at_once];
};

// Stands for: there is no value, or nothing travels along with a key.
struct nothing {};
template <class Word>
constexpr bool is_there = !std::is_same_v<Word, nothing>;
template <class Word>
constexpr u32 bytes_of = is_there<Word> ? sizeof(Word) : 0;

GH_FN u32 unmix(u32 h) {
  h ^= h >> 16;
  h *= 0x7ed1b41du;  // the inverse of 0xc2b2ae35
  h ^= h >> 13 ^ h >> 26;
  h *= 0xa5cb9243u;  // of 0x85ebca6b
  return h ^ h >> 16;
}
GH_FN u64 unmix(u64 h) {
  h ^= h >> 33;
  h *= 0x9cb4b2f8129337dbull;
  h ^= h >> 33;
  h *= 0x4f74430c22a54005ull;
  return h ^ h >> 33;
}
static_assert(u32(0x7ed1b41du * 0xc2b2ae35u) == 1 && u32(0xa5cb9243u * 0x85ebca6bu) == 1);
static_assert(u64(0x9cb4b2f8129337dbull * 0xc4ceb9fe1a85ec53ull) == 1);
static_assert(u64(0x4f74430c22a54005ull * 0xff51afd7ed558ccdull) == 1);

// What kernels tell each other.
struct group_facts {
  u32 frequent;             // keys in the table of frequent keys
  u32 sampled_of_frequent;  // sampled rows that have one of them
  u32 side;                 // 1: a row has the key that marks empty slots
  u32 listed;               // groups in the lists of first rows and counts
  u32 alike;                // rows of warps that have the same bin
  u32 few_keys;             // in the table of all blocks that count by keys
  u32 many_keys;            // 1: that table has no room, or that of a block
  u32 few;                  // 1: it has all keys of the column
  u32 coded, surveyed, strips,
      grouped;  // blocks of code_few(), survey(), count_firsts() and group_bins() that have ended
};

// The right rows of a join that lists them: none repeats another one, some do, or too many do.
enum join_state : u32 { right_once, right_listed, right_too_often };
// Marks the word of a key that one right row has: it is the number of that row.
constexpr u32 of_one_row = 1u << 31;

// Aggregates of groups.
struct group_results {
  u64* sums;  // or doubles
  double* means;
  void *low, *high;  // as values are
};

// Of 32 rows: which are the first ones of groups, and how many such rows there are before them.
struct ranked_word {
  u32 bits, before;
};

template <class K>
struct group_work {
  const K* keys;
  const K* more;  // of the rows from `split` on; split is n where there is one column
  const void* values;
  u32 n, split;
  K seed;
  group_wants wants;
  group_plan plan;
  group_facts* facts;
  K* sampled_keys;
  u32* sampled_times;
  K* frequent;
  u32 *frequent_code, *frequent_first, *frequent_count;
  K* few_key;  // the keys that blocks have met, with how many rows, and their first ones
  u32 *few_count, *few_first;
  u32 *coarse_count, *coarse_start, *coarse_end;  // of each bin of the first pass, if there are two
  u32 *bin_count, *bin_start, *bin_end;
  K* coarse_key;
  K* bin_key;
  void *coarse_carried, *bin_carried;  // row numbers, or values
  u16 *coarse_place, *bin_place;       // of each row of a pass, in its tile; or that of its frequent key
  tile_run *coarse_run, *bin_run;      // of each tile: one for each bin, and then where its places end
  u64* frequent_whole;                 // totals of the frequent keys
  double* frequent_real;
  void *frequent_low, *frequent_high;
  group_results results;
  u32 *first_bit, *strip_total;
  ranked_word* ranked;
  // Groups whose numbers are not known yet: first rows, counts, and so many words of aggregates side by side. And then where
  // each group is listed.
  u32 listed_words, listed_mean, listed_low, listed_high;
  u32 *listed_first, *listed_count, *listed_results, *listed_at;
  K* out_keys;
  u8* out_members;
  long long *out_counts, *out_codes;
  u32* groups;             // the low half of the caller's number
  u64* shown;              // NULL, or host memory in which this number is written, too
  long long* group_first;  // the first row of each group, or NULL
  // If codes are first rows: these first rows, the number of pairs of each tile of the second column, and the number of
  // rows of the first column that are not the first of their key. keep: a row of the second column that meets none has
  // a pair, too.
  u32* first_row;
  unsigned long long* known;
  u32* repeats;
  bool keep;
  // Where they are listed, repeats is a join_state, and there are: the lists, and of each row of the second column its word
  // and how many pairs of its tile come before its own (lists.cuh).
  u32 *list, *met, *before;
  u32 list_bits;  // of a place in the lists

  GH_FN u32 place_in_lists(u32 word) const { return word & ((1u << list_bits) - 1); }

  GH_FN K hash(K k) const { return mix(K(k ^ seed)); }
  GH_FN K unhash(K h) const { return K(unmix(h) ^ seed); }
  // The keys of rows from `row` on, in one of the columns.
  GH_FN const K* keys_from(u32 row) const { return row < split ? keys + row : more + (row - split); }
  // Of the table of the frequent keys; or of all, where keys are few.
  GH_FN u32 frequent_slots() const { return facts->few ? plan.few_slots : plan.frequent_slots; }
  GH_FN u32 frequent_places() const { return frequent_slots() + 1; }
  // Numbers of few keys lie where their first rows would: no call has both.
  GH_FN u32* few_number() const { return few_first; }
  // Of the bins whose rows are counted first.
  GH_FN u32* counts() const { return plan.counted_at_once ? bin_count : coarse_count; }
  GH_FN bool two_passes() const { return plan.second_bits > 0; }
  GH_FN const u32* bin_row() const { return static_cast<const u32*>(bin_carried); }
  // Codes of the rows in bins, or the first rows of their groups, and then of those in the bins of the first pass. They lie
  // where row numbers and hashes were that are not read any more.
  GH_FN u32* bin_code() const { return static_cast<u32*>(bin_carried); }
  GH_FN u32* coarse_code() const { return reinterpret_cast<u32*>(coarse_key); }
  // The same where a code is a byte.
  GH_FN u8* bin_member() const { return static_cast<u8*>(bin_carried); }
  GH_FN u8* coarse_member() const { return reinterpret_cast<u8*>(coarse_key); }
};

// In the order of first appearance, once it is known.
template <class K>
GH_FN u32 group_of(const group_work<K>& w, u32 first_row) {
  const ranked_word word = w.ranked[first_row / 32];
  return word.before + __popc(word.bits & ((1u << first_row % 32) - 1));
}

// Takes pieces of a block's memory. Each begins at a multiple of 16 bytes, which some are read and written by.
constexpr size_t room_of(size_t n, size_t bytes) { return (n * bytes + 15) / 16 * 16; }
class carver {
 public:
  GH_FN explicit carver(unsigned char* memory) : at_(memory) {}
  template <class T>
  GH_FN T* take(u32 n) {
    T* const p = reinterpret_cast<T*>(at_);
    at_ += room_of(n, bytes_of<T>);
    return p;
  }

 private:
  unsigned char* at_;
};

GH_FN u32 high_word(u32 h) { return h; }
GH_FN u32 high_word(u64 h) { return u32(h >> 32); }
// The first `bits` bits of a hash; there may be none.
template <class K>
GH_FN u32 bin_of(K h, u32 bits) {
  return bits ? high_word(h) >> (32 - bits) : 0;
}

// Of a table of a bin. The first bits of a hash are the same in a bin, and more of them where keys were chosen badly: all
// others count.
template <u32 Slots, class K>
GH_FN u32 slot_in_bin(K h) {
  return u32(h) * 0x9e3779b1u / (~0u / Slots + 1);
}

GH_FN u32 swap_if(u32* at, u32 expected, u32 desired) { return atomicCAS(at, expected, desired); }
GH_FN u64 swap_if(u64* at, u64 expected, u64 desired) {
  return atomicCAS(reinterpret_cast<unsigned long long*>(at), (unsigned long long)expected,
                   (unsigned long long)desired);
}

// The sum of all lanes up to this one, of words of 4 or 8 bytes.
template <class Word>
GH_FN Word sum_up_to(Word x) {
  const u32 lane = threadIdx.x % 32;
#pragma unroll
  for (u32 d = 1; d < 32; d *= 2) {
    const Word below = __shfl_up_sync(whole_warp, x, d);
    x += lane >= d ? below : 0;
  }
  return x;
}

// Memory of a block: a word for each warp.
template <u32 Threads>
struct warp_words {
  u32 of[Threads / 32];
};

// The sum of all threads before this one, and of all. of_warp: memory of the block, a word for each warp, which may be
// used again after the block's next barrier.
struct block_sum {
  u32 before, all;
};
template <u32 Threads>
GH_FN block_sum sum_before(u32 x, u32* of_warp) {
  const u32 up_to = sum_up_to(x), warp = threadIdx.x / 32;
  if (threadIdx.x % 32 == 31) of_warp[warp] = up_to;
  __syncthreads();
  block_sum s{up_to - x, 0};
#pragma unroll
  for (u32 i = 0; i < Threads / 32; ++i) {
    const u32 many = of_warp[i];
    s.before += i < warp ? many : 0;
    s.all += many;
  }
  return s;
}

// Is this the last block of its kernel to come here? Then it may read what all others have written before. `ended`: a
// counter that begins at zero. All threads call.
GH_FN bool all_others_have_ended(u32* ended) {
  GH_BLOCK_MEMORY(u32, before);
  cuda_mem::fence();
  __syncthreads();
  if (threadIdx.x == 0) before = atomicAdd(ended, 1u);
  __syncthreads();
  if (before != gridDim.x - 1) return false;
  cuda_mem::fence();
  return true;
}

// Adds 1 to a counter in the memory of the block. Neighbours often have the same one in columns that are sorted, and
// hardware would serve them one after the other. All lanes of the warp call; `live`: this one counts.
GH_FN void count_one(u32* counters, u32 which, bool live) {
  const u32 first = __shfl_sync(whole_warp, which, 0);
  if (!__any_sync(whole_warp, !live || which != first)) {
    if (threadIdx.x % 32 == 0) atomicAdd(counters + which, 32u);
  } else if (live) {
    atomicAdd(counters + which, 1u);
  }
}

// The same. Each lane that lives gets what its counter was before its own 1.
GH_FN u32 take_one(u32* counters, u32 which, bool live) {
  const u32 lane = threadIdx.x % 32, first = __shfl_sync(whole_warp, which, 0);
  if (__any_sync(whole_warp, !live || which != first)) return live ? atomicAdd(counters + which, 1u) : 0;
  const u32 before = lane == 0 ? atomicAdd(counters + which, 32u) : 0;
  return __shfl_sync(whole_warp, before, 0) + lane;
}

}  // namespace gpuhash::columns
