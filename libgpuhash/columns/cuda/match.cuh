// Joins of two columns on a CUDA device: a block lists the right rows of each key of a bin, and gives left rows the words that
// lead to them (lists.cuh).
//
// Bins of the two columns are apart: neither row numbers of left rows nor a mark of the column travel along. The table has right
// rows alone. Where it is full, those whose keys it does not have wait for another round (table.cuh), and left rows are looked
// up in each round. Lists are made in the memory of the block where a bin is one chunk, which nearly all are.
#pragma once
#include "libgpuhash/columns/cuda/lists.cuh"
#include "libgpuhash/columns/cuda/partition.cuh"
#include "libgpuhash/columns/cuda/table.cuh"

namespace gpuhash::columns {

template <class K>
class matching_block : bin_table<K, false> {
  using table = bin_table<K, false>;
  using table::chunk, table::each, table::slots;
  using table::hash, table::key, table::many, table::may_be_full, table::me, table::slot_at, table::staged;

 public:
  struct counters {
    u32 of_warp[bin_threads / 32], taken, base;
    u32 repeats;             // 1: some key has several right rows
    u32 larges, some_large;  // lists that the whole block sorts
  };
  static constexpr size_t bytes = table::table_bytes + room_of(slots, 4);
  static constexpr u32 resident = table::resident(bytes);

  GH_FN matching_block(const group_work<K>& work, carver memory, counters* some)
      : table(work, memory, &some->taken),
        w(work),
        row_of(work.bin_row() + this->from),
        words(memory.take<u32>(slots)),
        c(*some) {}

  GH_FN void run() const {
    if (is_too_much()) return;
    bool some_wait = false, served = false;
    do {
      some_wait = __syncthreads_or(may_be_full ? insert_all<true>() : insert_all<false>());
      give_words();
      __syncthreads();
      if (some_wait) mark_served();
      look_up(served);
      sort_large_lists();
      served = true;
      __syncthreads();
    } while (some_wait);
  }

 private:
  // Has the bin more right rows than a block is to sort? They are of one key then.
  GH_FN bool is_too_much() const {
    if (many > most_listed && me == 0) atomicMax(w.repeats, u32(right_too_often));
    return many > most_listed;
  }

  // Inserts the right rows of a round into an empty table; there may be none. MayBeFull: keys may be more than the table takes.
  // Returns whether a row of this thread waits for another round.
  template <bool MayBeFull>
  GH_FN bool insert_all() const {
    // Keys that repeat are looked for where all keys fit: not among rows that find theirs at the second look.
    bool some_wait = false, repeats = MayBeFull;
    const auto hit = [&](u32, bool is_new) { repeats |= !is_new; };
    u32 at = 0;
    do {
      const u32 here = min(chunk, many - at);
      this->stage(hash + at, here, [&] {
        if (at == 0) clear();
      });
      if (at == 0) __syncthreads();
      bool failed = this->template insert_chunk<MayBeFull, true>(here, hit);
      if (MayBeFull && __syncthreads_or(failed)) failed = this->look_again(at, here, hit);
      some_wait |= failed;
      at += chunk;
    } while (at < many);
    if (repeats) c.repeats = 1;
    return some_wait;
  }
  GH_FN void clear() const {
    this->clear_keys();
    if (me == 0) c.repeats = c.larges = c.some_large = 0;
  }
  // The next round leaves these rows out.
  GH_FN void mark_served() const {
    for (u32 x = me; x < many; x += bin_threads)
      if (slot_at(x) != slots) hash[x] = no_hash<K>;
  }

  // Slots get the words of their keys.
  GH_FN void give_words() const {
    if (c.repeats)
      list_rows();
    else
      for_each_row([&](u32 slot, u32 row) { words[slot] = row | of_one_row; });
    if (!frequent_is_used(w)) return;
    __syncthreads();
    for (u32 slot = me; slot < slots; slot += bin_threads) {
      if (key[slot] == no_hash<K>) continue;
      const u32 place = frequent_place(w.frequent, w.plan.frequent_slots, key[slot]);
      if (place < w.plan.frequent_slots) w.frequent_first[place] = words[slot];
    }
  }
  // Of right rows of the round: body(slot, row).
  template <class Body>
  GH_FN void for_each_row(Body body) const {
#pragma unroll 4
    for (u32 x = me; x < many; x += bin_threads) {
      const u32 row = row_of[x], slot = slot_at(x);
      if (slot != slots) body(slot, row);
    }
  }

  // The right rows of each key side by side, in ascending order.
  GH_FN void list_rows() const {
    this->fill(words, slots, 0);
    __syncthreads();
    many <= chunk ? list_held() : list_others();
  }

  // The rows of one chunk: what is staged makes room for the lists, since each thread holds the slots of its rows. There a row of
  // a short list counts the rows that come before it.
  GH_FN void list_held() const {
    u32 at[each];  // the slot of the key, and from bit 16 on the place in its list
    const auto for_each_held = [&](auto body) {
#pragma unroll
      for (u32 i = 0; i < each; ++i)
        if (const u32 x = i * bin_threads + me; x < many) body(x, at[i]);
    };
    for_each_held([&](u32 x, u32& own) {
      own = u32(staged[x]);
      own |= atomicAdd(words + own, 1u) << 16;
    });
    __syncthreads();
    const u32 next = stage_lists();
    __syncthreads();
    u32* const list = reinterpret_cast<u32*>(staged);
    for_each_held([&](u32 x, u32 own) {
      const u32 row = row_of[x], word = words[own & low];
      if (word == 1)
        words[own & low] = row | of_one_row;
      else
        list[(word >> 16) + (own >> 16)] = row;
    });
    __syncthreads();
    for_each_held([&](u32, u32& own) {
      const u32 word = words[own & low], right = word & low, *const rows = list + (word >> 16);
      if (word >= of_one_row || right > listed_by_row) return;
      // Each begins behind itself, so that rows of a warp read what lies in different banks of the memory.
      u32 before = 0, j = own >> 16;
      const u32 row = rows[j];
      for (u32 more = right; more; --more) {
        j = j + 1 == right ? 0 : j + 1;
        before += rows[j] < row;
      }
      own = (own & low) | before << 16;
    });
    __syncthreads();
    const bool some_are_long = give_words_of_lists(c.base + next);
    __syncthreads();
    for_each_held([&](u32 x, u32 own) {
      const u32 word = words[own & low];
      if (word < of_one_row) w.list[w.place_in_lists(word) + (own >> 16)] = row_of[x];
    });
    if (__syncthreads_or(some_are_long)) sort_lists(listed_by_row);
  }
  // Slots have the number of right rows of their keys. Those of several rows get where these are staged, from bit 16 on, beside
  // it. Returns where the lists of this thread's slots come to lie, from the first one of the bin on.
  GH_FN u32 stage_lists() const {
    u32 own = 0;  // rows, and from bit 16 on words that their lists take
    for (u32 slot = me; slot < slots; slot += bin_threads)
      if (const u32 right = words[slot]; right > 1) own += right | words_of_list(w, right) << 16;
    const block_sum s = sum_before<bin_threads>(own, c.of_warp);
    if (me == 0) take_lists(s.all >> 16);
    u32 next = s.before & low;
    for (u32 slot = me; slot < slots; slot += bin_threads)
      if (const u32 right = words[slot]; right > 1) {
        words[slot] = next << 16 | right;
        next += right;
      }
    return s.before >> 16;
  }
  // next: where the lists of this thread's slots come to lie. Returns whether rows of some do not know their places yet.
  GH_FN bool give_words_of_lists(u32 next) const {
    bool some_are_long = false;
    for (u32 slot = me; slot < slots; slot += bin_threads) {
      const u32 word = words[slot], right = word & low;
      if (word == 0) words[slot] = one_to_come;
      if (word == 0 || word >= of_one_row) continue;
      some_are_long |= right > listed_by_row;
      words[slot] = word_of_list(right, next);
      next += words_of_list(w, right);
    }
    return some_are_long;
  }
  static constexpr u32 low = 0xffff;
  static_assert(chunk < low / 4);  // lists take up to twice as many words as rows, and of_one_row marks no list

  // The rows of a bin that is longer: they come to their lists in any order, and these are sorted where they are.
  GH_FN void list_others() const {
    for (u32 x = me; x < many; x += bin_threads)
      if (const u32 slot = slot_at(x); slot != slots) atomicAdd(words + slot, 1u);
    __syncthreads();
    reserve_lists();
    __syncthreads();
    for_each_row([&](u32 slot, u32 row) {
      if (words[slot] == one_to_come)
        words[slot] = row | of_one_row;
      else
        w.list[w.place_in_lists(atomicAdd(words + slot, ~0u)) - 1] = row;  // from the end down to where the list begins
    });
    __syncthreads();
    sort_lists(1);
  }

  // Slots have the number of right rows of their keys. Keys of several right rows get their words, but with the end of the list.
  GH_FN void reserve_lists() const {
    u32 own = 0;
    for (u32 slot = me; slot < slots; slot += bin_threads) own += words_of_list(w, words[slot]);
    const block_sum s = sum_before<bin_threads>(own, c.of_warp);
    if (me == 0) take_lists(s.all);
    __syncthreads();
    u32 at = c.base + s.before;
    for (u32 slot = me; slot < slots; slot += bin_threads) {
      const u32 right = words[slot];
      words[slot] = right > 1 ? word_of_list(right, at) + right : one_to_come;
      at += words_of_list(w, right);
    }
  }
  // So many words of the lists of all bins are this one's.
  GH_FN void take_lists(u32 many_words) const {
    if (many_words == 0) return;
    c.base = atomicAdd(&w.facts->listed, many_words);
    if (*static_cast<volatile u32*>(w.repeats) == right_once) atomicMax(w.repeats, u32(right_listed));
  }
  // The word that leads to a list of so many right rows, for which there is room from `at` on.
  GH_FN u32 word_of_list(u32 right, u32 at) const {
    const bool length = has_length(w, right);
    if (length) w.list[at] = right;
    return (length ? 0 : right << w.list_bits) | (at + length);
  }

  // Those of more than so many rows.
  GH_FN void sort_lists(u32 sorted) const {
    for (u32 slot = me; slot < slots; slot += bin_threads) {
      const u32 word = words[slot], right = word < of_one_row ? length_of(w, word) : 0, at = w.place_in_lists(word);
      u32 others = __ballot_sync(whole_warp, right > sorted && right <= listed_by_warp);
      for (; others; others &= others - 1) {
        const u32 lane = __ffs(others) - 1;
        sort_by_warp(w.list + __shfl_sync(whole_warp, at, lane), __shfl_sync(whole_warp, right, lane));
      }
      if (right > listed_by_warp) c.some_large = 1;
    }
  }

  // Left rows of the bin get the words of their keys. served: an earlier round has been here.
  GH_FN void look_up(bool served) const {
    const u32 bin = blockIdx.x + (1u << w.plan.bits), left = w.bin_start[bin];
    this->look_up_all(w.bin_key + left, w.bin_end[bin] - left, [&](u32 x, u32 slot, bool there) {
      if (there || !served) w.bin_code()[left + x] = there ? words[slot] : no_row;
    });
  }

  // When nothing else needs the memory of hashes: the lists of the round that the whole block sorts.
  GH_FN void sort_large_lists() const {
    __syncthreads();
    if (!c.some_large) return;
    static_assert(most_listed / listed_by_warp <= chunk);
    u32* const large = reinterpret_cast<u32*>(staged);
    for (u32 slot = me; slot < slots; slot += bin_threads) {
      const u32 word = words[slot];
      if (word < of_one_row && length_of(w, word) > listed_by_warp) large[atomicAdd(&c.larges, 1u)] = word;
    }
    __syncthreads();
    for (u32 i = 0; i < c.larges; ++i)
      sort_by_block<bin_threads>(w.list + w.place_in_lists(large[i]), length_of(w, large[i]),
                                 reinterpret_cast<u32*>(key), slots * sizeof(K) / 4);
  }

  const group_work<K>& w;
  const u32* const row_of;  // of each right row of the bin
  u32* const words;         // of slots
  counters& c;
};

template <class K>
__global__ void __launch_bounds__(bin_threads, matching_block<K>::resident)
    match_bins(const __grid_constant__ group_work<K> w) {
  wait_for_the_one_before();
  GH_DYNAMIC_MEMORY(unsigned char, memory);
  GH_BLOCK_MEMORY(typename matching_block<K>::counters, some);
  matching_block<K>(w, carver(memory), &some).run();
}

}  // namespace gpuhash::columns
