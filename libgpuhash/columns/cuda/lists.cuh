// Joins of two columns on a CUDA device: the right rows of each key, where a key has several.
//
// The block that makes the table of a bin counts the right rows of each key, and writes those of a key side by side, in
// ascending order: a list. What a row of the key gets is its word:
//
//   no_row                         no right row has the key
//   row | of_one_row               one has, which is this one
//   length << list_bits | place    where the list begins, and how long it is; or 0, where there are not enough bits for that: it
//                                  stands before the list
//
// So a left row knows how many right rows it meets without a look, and comes to them by one random read; columns whose right rows
// do not repeat take none. Lists begin at multiples of 16 bytes, but for those with a length before them: most reads are of one
// sector of memory.
#pragma once
#include "libgpuhash/columns/cuda/work.cuh"

namespace gpuhash::columns {

constexpr u32 one_to_come = no_row - 1;  // in the place of a word, until the key's only right row is known

// Does the length of a list stand before it?
template <class K>
GH_FN bool has_length(const group_work<K>& w, u32 right) {
  return right >> (31 - w.list_bits);
}
// What so many right rows of a key take.
template <class K>
GH_FN u32 words_of_list(const group_work<K>& w, u32 right) {
  return right > 1 ? (right + has_length(w, right) + 3) / 4 * 4 : 0;
}
// Of the word of a list.
template <class K>
GH_FN u32 length_of(const group_work<K>& w, u32 word) {
  const u32 length = word >> w.list_bits;
  return length ? length : w.list[word - 1];
}

template <class K>
GH_FN u32 pairs_of_word(const group_work<K>& w, u32 word) {
  if (word == no_row) return w.keep;
  return word & of_one_row ? 1 : length_of(w, word);
}

// Bitonic sorting: each step puts the smaller of two elements first. So places without an element may count as elements
// that come after all others, which no step moves.
//
// The steps that merge two sorted halves of `size` elements each time, from those that compare elements which are at least `fewest`
// apart on. By so many threads, of which this is number `me`; wait: until all of them have come here.
template <u32 Threads, class Wait>
GH_FN void merge_in_memory(u32* list, u32 many, u32 size, u32 most, u32 fewest, u32 me, Wait wait) {
  for (u32 half = most; half >= fewest; half /= 2) {
    const u32 other = half == size / 2 ? size - 1 : half;
    for (u32 i = me;; i += Threads) {
      const u32 low = i / half * (2 * half) + i % half, high = low ^ other;
      if (low >= many) break;
      const u32 one = list[low], two = high < many ? list[high] : no_row;
      if (two < one) list[low] = two, list[high] = one;
    }
    wait();
    if (half == 1) break;
  }
}
template <u32 Threads, class Wait>
GH_FN void sort_in_memory(u32* list, u32 many, u32 me, Wait wait) {
  for (u32 size = 2; size / 2 < many; size *= 2) merge_in_memory<Threads>(list, many, size, size / 2, 1, me, wait);
}

// By all threads of a block, piece by piece in its memory, which has room for `room` elements, a power of two.
template <u32 Threads>
GH_FN void sort_by_block(u32* list, u32 many, u32* piece, u32 room) {
  const u32 me = threadIdx.x;
  const auto wait = [] { __syncthreads(); };
  for (u32 size = room; size / 2 < many || size == room; size *= 2) {
    // Elements that are far apart are compared in global memory; then a piece has only smaller elements than the next.
    if (size > room) merge_in_memory<Threads>(list, many, size, size / 2, room, me, wait);
    for (u32 from = 0; from < many; from += room) {
      const u32 here = min(room, many - from);
      for (u32 i = me; i < here; i += Threads) piece[i] = list[from + i];
      wait();
      if (size == room)
        sort_in_memory<Threads>(piece, here, me, wait);
      else
        merge_in_memory<Threads>(piece, here, size, room / 2, 1, me, wait);
      for (u32 i = me; i < here; i += Threads) list[from + i] = piece[i];
      wait();
    }
  }
}

// All lanes of the warp call with the same list.
GH_FN void sort_by_warp(u32* list, u32 many) {
  const u32 lane = threadIdx.x % 32;
  if (many > 32) return sort_in_memory<32>(list, many, lane, [] { __syncwarp(); });
  u32 row = lane < many ? list[lane] : no_row;
  for (u32 size = 2; size / 2 < many; size *= 2)
    for (u32 half = size / 2; half; half /= 2) {
      const u32 other = lane ^ (half == size / 2 ? size - 1 : half), there = __shfl_sync(whole_warp, row, other);
      row = lane < other ? min(row, there) : max(row, there);
    }
  if (lane < many) list[lane] = row;
}

}  // namespace gpuhash::columns
