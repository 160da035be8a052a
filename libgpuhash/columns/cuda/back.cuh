// Groups of a column on a CUDA device: codes go back to the rows that they are of, or counts to the first row of each group.
//
// The passes of a partition have noted a place for each row in its tile, and where the tile's rows of each bin went. So a
// block copies the codes of a tile's rows, run by run, into its own memory, and takes them from there by the places:
// first to the rows in the bins of the first pass, then to those of the column. Nothing is read or written at random.
#pragma once
#include "libgpuhash/columns/cuda/order.cuh"

namespace gpuhash::columns {

constexpr u32 back_blocks = 3;  // of one multiprocessor

// What goes back: Word, a code, or a byte of it where rows are members or not; Lists: left rows of a join get their words.
template <class K, class C, bool Second, bool Lists = false, class Word = u32>
size_t back_bytes(const group_plan& p) {
  const size_t bins = size_t{1} << (Second ? p.second_bits : p.first_bits);
  constexpr size_t sums = Lists ? divide_tile<K, C, nothing> / 32 : 0;
  return room_of(divide_tile<K, C, nothing>, sizeof(Word)) + room_of(bins + 1, sizeof(tile_run)) + room_of(sums, 4) +
         (Second ? room_of(p.coarse_bins() + 1, 4) : 0);
}

// C: the type of the word that traveled along with keys, which decides how long tiles are.
template <class K, class C, bool Second, bool Lists, class Word>
class returning_block {
  static constexpr bool members = sizeof(Word) == 1;
  static constexpr u32 each = divide_each<K, C, nothing>, tile = divide_tile<K, C, nothing>;
  static constexpr u32 at_once = 4;  // rows of a lane

 public:
  GH_FN returning_block(const group_work<K>& work, unsigned char* at, u32* sums)
      : w(work),
        me(threadIdx.x),
        bins(1u << (Second ? work.plan.second_bits : work.plan.first_bits)),
        lanes(tile >= long_run * bins ? 32 : 8),
        memory(at),
        code(memory.take<Word>(tile)),
        run_of(memory.take<tile_run>(bins + 1)),
        sums_of(memory.take<u32>(Lists ? tile / 32 : 0)),
        tiles_before(memory.take<u32>(Second ? work.plan.coarse_bins() + 1 : 0)),
        of_warp(sums) {}

  GH_FN void run() {
    const tiles<K> all(w, tile, Second, tiles_before, of_warp);
    if (Lists && *w.repeats == right_too_often) return;
    for (u32 g = blockIdx.x + (Lists || members ? all.second_column() : 0); g < all.many(); g += gridDim.x) {
      const tile_run* const runs = (Second ? w.bin_run : w.coarse_run) + size_t(g) * (bins + 1);
      if (!Second && !w.wants.way_back_of_frequent() && runs[bins].from == 0) continue;  // nothing is left to do
      const some_rows rows = all.at(g);
      u32 place[each];
      load(rows, place);
      for (u32 i = me; i <= bins; i += divide_threads) run_of[i] = runs[i];
      __syncthreads();
      fetch();
      __syncthreads();
      if constexpr (Lists && !Second)
        give_words(rows, g, place);
      else if (!Second && w.wants.rows)
        give_first_rows(rows, g, place);
      else
        give(rows, place);
      __syncthreads();
    }
  }

 private:
  GH_FN void load(some_rows rows, u32 (&place)[each]) const {
    const u16* const from = (Second ? w.bin_place : w.coarse_place) + rows.from;
#pragma unroll
    for (u32 i = 0; i < each; ++i) {
      const u32 x = i * divide_threads + me;
      place[i] = x < rows.many ? from[x] : 0;
    }
  }

  // A warp takes a run, or a part of it where runs are short, so that many are on their way.
  GH_FN void fetch() const {
    const Word* const from = codes(Second || !w.two_passes());
    for (u32 bin = me / lanes; bin < bins; bin += divide_threads / lanes) {
      const tile_run r = run_of[bin];
      const u32 end = run_of[bin + 1].from;
      for (u32 at = r.from + me % lanes; at < end; at += lanes * at_once) {
        Word c[at_once];
#pragma unroll
        for (u32 i = 0; i < at_once; ++i) c[i] = at + i * lanes < end ? from[u32(r.shift + at + i * lanes)] : 0;
#pragma unroll
        for (u32 i = 0; i < at_once; ++i)
          if (at + i * lanes < end) code[at + i * lanes] = c[i];
      }
    }
  }

  GH_FN void give(some_rows rows, const u32 (&place)[each]) const {
#pragma unroll
    for (u32 i = 0; i < each; ++i) {
      const u32 x = i * divide_threads + me, row = rows.from + x;
      if (x >= rows.many) continue;
      const u32 word = place[i] & of_frequent ? word_of(place[i] & ~of_frequent) : code[place[i]];
      if (Second)
        codes(false)[row] = Word(word);
      else if constexpr (members)
        w.out_members[row - w.split] = Word(word);
      else if (!w.wants.codes)
        give_count(row, word);
      else
        w.out_codes[row] = w.wants.first ? group_of(w, word) : word;
    }
  }
  // All lanes of a warp call.
  GH_FN void give_first_rows(some_rows rows, u32 g, const u32 (&place)[each]) const {
    u32 known = 0, repeats = 0;
#pragma unroll
    for (u32 i = 0; i < each; ++i) {
      const u32 x = i * divide_threads + me, row = rows.from + x;
      if (x >= rows.many) continue;
      const u32 first = place[i] & of_frequent ? w.frequent_first[place[i] & ~of_frequent] : code[place[i]];
      w.first_row[row] = first;
      known += row >= w.split && (first < w.split || w.keep);
      repeats += row < w.split && first != row;
    }
    known = __reduce_add_sync(whole_warp, known);
    repeats = __reduce_add_sync(whole_warp, repeats);
    if (me % 32) return;
    if (known) atomicAdd(w.known + g, (unsigned long long)known);
    if (repeats) atomicAdd(w.repeats, repeats);
  }
  // Left rows get the words of their keys. Each also gets the number of pairs of its tile that come before its own.
  GH_FN void give_words(some_rows rows, u32 g, const u32 (&place)[each]) const {
    u32* const met = w.met + (rows.from - w.split);
#pragma unroll
    for (u32 i = 0; i < each; ++i) {
      const u32 x = i * divide_threads + me;
      if (x < rows.many) met[x] = place[i] & of_frequent ? word_of(place[i] & ~of_frequent) : code[place[i]];
    }
    __syncthreads();  // codes have been read; what comes before each row takes their place
#pragma unroll 4
    for (u32 i = 0; i < each; ++i) {
      const u32 x = i * divide_threads + me, many = x < rows.many ? pairs_of_word(w, met[x]) : 0;
      const u32 up_to = sum_up_to(many);
      if (me % 32 == 31) sums_of[x / 32] = up_to;
      code[x] = up_to - many;
    }
    __syncthreads();
    const block_sum s = sum_before<divide_threads>(me < tile / 32 ? sums_of[me] : 0, of_warp);
    if (me < tile / 32) sums_of[me] = s.before;
    if (me == 0) w.known[g] = s.all;
    if (*w.repeats == right_once) return;  // each row has one pair or none
    __syncthreads();
    for (u32 x = me; x < rows.many; x += divide_threads) w.before[rows.from - w.split + x] = sums_of[x / 32] + code[x];
  }
  GH_FN Word* codes(bool of_bins) const {
    if constexpr (members)
      return of_bins ? w.bin_member() : w.coarse_member();
    else
      return of_bins ? w.bin_code() : w.coarse_code();
  }
  // What a row of a frequent key gets.
  GH_FN u32 word_of(u32 key) const {
    if (!w.wants.first) return w.frequent_code[key];
    return w.wants.codes ? w.frequent_first[key] : 0;
  }
  GH_FN void give_count(u32 row, u32 count) const {
    if (count) w.out_counts[group_of(w, row)] = count;
  }

  const group_work<K>& w;
  const u32 me, bins, lanes;
  carver memory;
  Word* const code;
  tile_run* const run_of;
  u32* const sums_of;
  u32 *const tiles_before, *const of_warp;
};

template <class K, class C, bool Second, bool Lists = false, class Word = u32>
__global__ void __launch_bounds__(divide_threads, back_blocks) bring_back(const __grid_constant__ group_work<K> w) {
  wait_for_the_one_before();
  GH_DYNAMIC_MEMORY(unsigned char, memory);
  GH_BLOCK_MEMORY(warp_words<divide_threads>, some);
  if (w.facts->few) return;  // rows have their codes, or nothing goes back
  returning_block<K, C, Second, Lists, Word>(w, memory, some.of).run();
}

// If counts go back: the counts of frequent keys.
template <class K>
__global__ void __launch_bounds__(frequent_threads) give_frequent_counts(const __grid_constant__ group_work<K> w) {
  wait_for_the_one_before();
  const u32 key = blockIdx.x * frequent_threads + threadIdx.x;
  if (key >= w.frequent_places() || w.frequent_first[key] == no_row) return;
  w.out_counts[group_of(w, w.frequent_first[key])] = w.frequent_count[key];
}

}  // namespace gpuhash::columns
