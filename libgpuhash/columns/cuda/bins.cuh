// Groups of a column on a CUDA device: a block makes the groups of a bin, in a table in its memory.
//
// A bin has about 2,000 rows, but may have any number, and any number of keys. Rows come in chunks. While the table has
// room, a new key enters it; a row whose key is not there when the table is full waits for another round over the bin,
// with an empty table. All rows of a key are served in one round: a row that found no room is looked up again when all
// threads have stopped inserting. So each round serves as many keys as the table holds, and the last one ends.
#pragma once
#include "libgpuhash/columns/cuda/lists.cuh"
#include "libgpuhash/columns/cuda/partition.cuh"

namespace gpuhash::columns {

// V: the type of values, whose totals each group has. First: groups get their first rows. Codes: rows get their groups.
// Lists: the code of a row leads to the right rows that have its key (lists.cuh).
template <class K, class V, bool Counts, bool First, bool Codes, bool Lists>
class grouping_block {
  static constexpr bool values = is_there<V>, counts_go_back = First && Counts && !Codes && !values;
  static constexpr u32 slots = slots_of_bin(values), each = rows_of_thread(values), chunk = bin_threads * each;
  // Keys that a table takes; then each thread may have one more on its way, and there is an empty slot after that.
  static constexpr u32 most_keys = slots - 2 * bin_threads;
  static_assert(most_keys + bin_threads < slots && chunk <= most_keys);
  static_assert(!values || (Counts && !Codes));
  static_assert(!Lists || (First && Codes && !Counts));
  using value_word = std::conditional_t<values, V, u32>;

 public:
  struct counters {
    u32 of_warp[bin_threads / 32], taken, base;
    u32 larges, some_large;  // lists that the whole block sorts
  };
  static size_t bytes(const group_wants& wants) {
    return room_of(slots, sizeof(K)) + room_of(chunk, sizeof(K)) +
           ((Counts ? 1 : 0) + (First || Codes ? 1 : 0)) * room_of(slots, 4) +
           (values ? totals_of<value_word>::bytes(wants, slots) : 0);
  }

  // Blocks that a multiprocessor has memory for, so that registers suffice for as many; 0: that depends on values. With wide
  // keys, values and first rows memory is short before registers are.
  static constexpr u32 resident() {
    constexpr size_t of_one = (slots + chunk) * sizeof(K) + ((Counts ? 1 : 0) + (First || Codes ? 1 : 0)) * slots * 4;
    constexpr u32 room = bytes_of_processor / (of_one + reserved_of_block), most = 2048 / bin_threads;
    if (values) return First && sizeof(K) == 8 ? 3 : 0;
    return room < most ? room : most;
  }

  GH_FN grouping_block(const group_work<K>& work, unsigned char* at, counters* some)
      : w(work),
        me(threadIdx.x),
        from(work.bin_start[blockIdx.x]),
        many(work.bin_end[blockIdx.x] - from),
        may_be_full(many > most_keys),
        memory(at),
        key(memory.take<K>(slots)),
        staged(memory.take<K>(chunk)),
        count(memory.take<u32>(Counts ? slots : 0)),
        first(memory.take<u32>(First || Codes ? slots : 0)),
        totals(totals_of<value_word>::carve(work.wants, memory, values ? slots : 0, count)),
        of_keys(work.wants, totals, work.wants.counts || work.wants.means),
        c(*some) {}

  GH_FN void run() {
    bool some_wait = many != 0;
    if constexpr (Lists) some_wait = some_wait && !is_too_much();
    while (some_wait) {
      some_wait = __syncthreads_or(may_be_full ? insert_all<true>() : insert_all<false>());
      if constexpr (Lists)
        give_lists();
      else if (First)
        give_firsts();
      else
        give_groups();
      if (Codes || counts_go_back || some_wait) {
        __syncthreads();
        give_back(some_wait);
      }
      if constexpr (Lists) sort_large_lists();
      __syncthreads();
    }
  }

 private:
  static GH_FN u32 slot_of(K h) { return slot_in_bin<slots>(h); }

  GH_FN void clear() const {
    fill(key, slots, ~0u);
    if constexpr (First) fill(first, slots, Lists ? 0 : no_row);
    if constexpr (Counts) fill(count, slots, 0);
    if constexpr (values) {
      const group_totals& kept = w.wants.totals;
      if (kept.whole) fill(totals.whole, slots, 0);
      if (kept.real) fill(totals.real, slots, 0);
      if (kept.low) fill(totals.low, slots, ~0u);
      if (kept.high) fill(totals.high, slots, 0);
    }
    if (me == 0) c.taken = c.larges = c.some_large = 0;
  }
  // Sets all words of an array in the memory of the block.
  template <class Word>
  GH_FN void fill(Word* array, u32 many_words, u32 word) const {
    constexpr u32 at_once = sizeof(neighbouring_words) / sizeof(Word);
    for (u32 i = me; i < many_words / at_once; i += bin_threads)
      reinterpret_cast<neighbouring_words*>(array)[i] = {{word, word, word, word}};
  }

  // Inserts the rows of a round into an empty table. MayBeFull: keys may be more than the table takes. Returns whether a row
  // of this thread waits for another round.
  template <bool MayBeFull>
  GH_FN bool insert_all() {
    bool some_wait = false;
    for (u32 at = 0; at < many; at += chunk) {
      const u32 here = min(chunk, many - at);
      u32 row[First ? each : 1];
      value_word value[values ? each : 1];
      stage(at, here, row, value);
      bool failed = insert_chunk<MayBeFull>(here);
      if (MayBeFull && __syncthreads_or(failed)) failed = look_again(at, here);
      some_wait |= failed;
      if constexpr (First) note_rows(here, row);
      if constexpr (values && First) fetch_values(here, row, value);
      if constexpr (values) note_values(here, value);
    }
    if constexpr (values) of_keys.flush();
    return some_wait;
  }
  // A thread stages, inserts and looks up rows of its own: those at its number, and every bin_threads-th from there on.
  // What travels along is on its way meanwhile; and the first rows of a round are, while the table is cleared.
  GH_FN void stage(u32 at, u32 here, u32* row, value_word* value) const {
    const value_word* const along = static_cast<const value_word*>(w.bin_carried);
    K h[each];
#pragma unroll
    for (u32 i = 0; i < each; ++i) {
      const u32 x = i * bin_threads + me;
      h[i] = x < here ? w.bin_key[from + at + x] : 0;
      if constexpr (First) row[i] = x < here ? w.bin_row()[from + at + x] : 0;
    }
#pragma unroll
    for (u32 i = 0; values && !First && i < each; ++i) {
      const u32 x = i * bin_threads + me;
      value[values ? i : 0] = x < here ? along[from + at + x] : 0;
    }
    if (at == 0) clear();
#pragma unroll
    for (u32 i = 0; i < each; ++i) staged[i * bin_threads + me] = h[i];
    if (at == 0) __syncthreads();
  }

  // What is staged for a row becomes the slot of its key, where that is asked for; slots where it has none. A thread takes
  // its next row as soon as it is done with one: so a warp takes as long as the longest sum of probes of a lane, and not
  // as the sum of the longest probes. Returns whether a row of this thread found no room.
  template <bool MayBeFull>
  GH_FN bool insert_chunk(u32 here) const {
    bool failed = false;
    u32 x = me, at = 0;
    K h = no_hash<K>;
    if (x < here) at = slot_of(h = staged[x]);
    while (x < here) {
      const bool served_before = MayBeFull && h == no_hash<K>;
      K there = *static_cast<volatile K*>(key + at);
      if (there == no_hash<K> && !served_before && (!MayBeFull || has_room())) {
        there = swap_if(key + at, no_hash<K>, h);
        if (there == no_hash<K>) {
          there = h;
          if (MayBeFull) atomicAdd(&c.taken, 1u);
        }
      }
      const bool hit = there == h && !served_before;
      if (!hit && (!MayBeFull || (there != no_hash<K> && !served_before))) {
        at = (at + 1) % slots;
        continue;
      }
      if constexpr (MayBeFull || First || Codes || values) staged[x] = hit ? at : slots;
      failed |= !hit && !served_before;
      if (Counts && !values && hit) atomicAdd(count + at, 1u);
      x += bin_threads;
      if (x < here) at = slot_of(h = staged[x]);
    }
    return failed;
  }
  GH_FN bool has_room() const { return *static_cast<volatile u32*>(&c.taken) < most_keys; }

  GH_FN u32 find(K h) const {
    if (h == no_hash<K>) return slots;
    for (u32 at = slot_of(h);; at = (at + 1) % slots) {
      const K there = key[at];
      if (there == h) return at;
      if (there == no_hash<K>) return slots;
    }
  }
  // The result of a row of the bin, when a round has served all keys of the round.
  GH_FN u32 slot_at(u32 x) const { return many <= chunk ? u32(staged[x]) : find(w.bin_key[from + x]); }
  // No thread inserts now: the key of a row that found no room may have come into the table meanwhile.
  GH_FN bool look_again(u32 at, u32 here) const {
    bool failed = false;
    for (u32 x = me; x < here; x += bin_threads) {
      if (u32(staged[x]) != slots) continue;
      const K h = w.bin_key[from + at + x];
      const u32 slot = find(h);
      staged[x] = slot;
      failed |= slot == slots && h != no_hash<K>;
      if (Counts && !values && slot != slots) atomicAdd(count + slot, 1u);
    }
    return failed;
  }

  GH_FN void note_rows(u32 here, const u32* row) const {
#pragma unroll
    for (u32 i = 0; i < each; ++i) {
      const u32 x = i * bin_threads + me;
      const u32 slot = x < here ? u32(staged[x]) : slots;
      if constexpr (Lists) {
        if (slot != slots && row[i] < w.split) atomicAdd(first + slot, 1u);
      } else if (slot != slots && row[i] < static_cast<volatile u32*>(first)[slot])
        atomicMin(first + slot, row[i]);
    }
  }

  // Values that did not travel along with the keys are read by the numbers of their rows.
  GH_FN void fetch_values(u32 here, const u32* row, value_word* value) const {
#pragma unroll
    for (u32 i = 0; i < each; ++i)
      value[i] = i * bin_threads + me < here ? static_cast<const value_word*>(w.values)[row[i]] : 0;
  }
  // Rows are of this thread, as in insert_chunk; all lanes of a warp stay together.
  GH_FN void note_values(u32 here, const value_word* value) {
    of_keys.begin();
#pragma unroll
    for (u32 i = 0; i < each; ++i) {
      const u32 x = i * bin_threads + me;
      const u32 slot = x < here ? u32(staged[x]) : slots;
      if (i * bin_threads < here) of_keys.add(slot != slots, slot, value[i]);
    }
  }

  // ---- the groups of a round ----------------------------------------------------------------------------------------

  static constexpr u32 of_one_warp = slots / (bin_threads / 32);
  // Nobody needs what is staged any more, so that slots with keys are gathered there: most slots have none.
  static constexpr bool gathers = !Codes;
  static_assert(!gathers || slots * sizeof(u16) <= chunk * sizeof(K));
  GH_FN u16* gathered() const { return reinterpret_cast<u16*>(staged) + me / 32 * of_one_warp; }

  // The first of so many places in the results, one for each key in the table; and the number of keys in the slots of
  // the warps before this one is in c.of_warp. Returns the number of those in the slots of this warp. All threads call.
  GH_FN u32 number(u32* counter) const {
    const u32 lane = me % 32, warp = me / 32;
    u32 own = 0;
    for (u32 i = lane; i < of_one_warp; i += 32) {
      const u32 slot = warp * of_one_warp + i;
      const bool there = key[slot] != no_hash<K>;
      if constexpr (gathers) {
        const u32 some = __ballot_sync(whole_warp, there);
        if (there) gathered()[own + __popc(some & ((1u << lane) - 1))] = u16(slot);
        own += __popc(some);
      } else {
        own += there;
      }
    }
    if constexpr (!gathers) own = __reduce_add_sync(whole_warp, own);
    if (lane == 0) c.of_warp[warp] = own;
    __syncthreads();
    if (warp == 0) {
      const u32 x = lane < bin_threads / 32 ? c.of_warp[lane] : 0, up_to = sum_up_to(x);
      if (lane < bin_threads / 32) c.of_warp[lane] = up_to - x;
      if (lane == 31) c.base = atomicAdd(counter, up_to);
    }
    __syncthreads();
    return own;
  }
  // own: as `number` has returned it.
  template <class Body>
  GH_FN void for_each_key(u32 own, Body body) const {
    const u32 lane = me % 32, warp = me / 32;
    u32 at = c.base + c.of_warp[warp];
    if constexpr (gathers) {
      for (u32 i = lane; i < own; i += 32) body(gathered()[i], key[gathered()[i]], at + i);
      return;
    }
    for (u32 i = 0; i < of_one_warp; i += 32) {
      const u32 slot = warp * of_one_warp + i + lane;
      const K h = key[slot];
      const u32 there = __ballot_sync(whole_warp, h != no_hash<K>);
      if (h != no_hash<K>) body(slot, h, at + __popc(there & ((1u << lane) - 1)));
      at += __popc(there);
    }
  }

  GH_FN void give_groups() const {
    for_each_key(number(w.groups), [&](u32 slot, K h, u32 group) {
      w.out_keys[group] = w.unhash(h);
      if (Counts && w.wants.counts) w.out_counts[group] = count[slot];
      if constexpr (values) give_totals(w.wants, w.results, group, totals.read(w.wants, slot));
      if (Codes) first[slot] = group;
    });
  }
  GH_FN void give_firsts() const {
    if (Codes && w.wants.rows) return;
    for (u32 slot = me; slot < slots; slot += bin_threads)
      if (first[slot] != no_row) atomicOr(w.first_bit + first[slot] / 32, 1u << first[slot] % 32);
    if (!Counts || counts_go_back) return;
    for_each_key(number(&w.facts->listed), [&](u32 slot, K, u32 at) {
      if constexpr (values) return list_group(w, at, first[slot], totals.read(w.wants, slot));
      w.listed_first[at] = first[slot];
      w.listed_count[at] = count[slot];
    });
  }

  // ---- lists of a round, of a join (lists.cuh) -----------------------------------------------------------------------

  // Has the bin more right rows than a block is to sort? They are of one key then.
  GH_FN bool is_too_much() const {
    if (many <= most_listed) return false;
    constexpr u32 at_once = 8, piece = 64 * at_once * bin_threads;
    u32 right = 0, all = 0;
    for (u32 at = 0; at < many && all <= most_listed; at += piece) {
      const u32 end = min(many, at + piece);
      for (u32 x = at + me; x < end; x += at_once * bin_threads)
#pragma unroll
        for (u32 i = 0; i < at_once; ++i)
          right += x + i * bin_threads < end && w.bin_row()[from + x + i * bin_threads] < w.split;
      all = sum_before<bin_threads>(right, c.of_warp).all;
      __syncthreads();
    }
    if (all > most_listed && me == 0) atomicMax(w.repeats, u32(right_too_often));
    return all > most_listed;
  }

  // Slots have the number of right rows of their keys, and get their words.
  GH_FN void give_lists() const {
    const bool some = reserve_lists();
    __syncthreads();
    for (u32 x = me; x < many; x += bin_threads) {
      const u32 row = w.bin_row()[from + x], slot = row < w.split ? slot_at(x) : slots;
      if (slot == slots) continue;
      if (first[slot] == one_to_come)
        first[slot] = row | of_one_row;
      else
        w.list[w.place_in_lists(atomicAdd(first + slot, ~0u)) - 1] = row;  // from the end down to where the list begins
    }
    __syncthreads();
    if (some) sort_lists();
    if (!frequent_is_used(w)) return;
    for (u32 slot = me; slot < slots; slot += bin_threads) {
      if (first[slot] == no_row) continue;
      const u32 place = frequent_place(w.frequent, w.plan.frequent_slots, key[slot]);
      if (place < w.plan.frequent_slots) w.frequent_first[place] = first[slot];
    }
  }

  // Keys of several right rows get their words, but with the end of the list. Returns whether there is one.
  GH_FN bool reserve_lists() const {
    u32 own = 0;
    for (u32 slot = me; slot < slots; slot += bin_threads) own += words_of_list(w, first[slot]);
    const block_sum s = sum_before<bin_threads>(own, c.of_warp);
    if (me == 0 && s.all) {
      c.base = atomicAdd(&w.facts->listed, s.all);
      if (*static_cast<volatile u32*>(w.repeats) == right_once) atomicMax(w.repeats, u32(right_listed));
    }
    __syncthreads();
    u32 at = s.all ? c.base + s.before : 0;
    for (u32 slot = me; slot < slots; slot += bin_threads) {
      const u32 right = first[slot];
      if (right <= 1) {
        first[slot] = right ? one_to_come : no_row;
        continue;
      }
      const bool length = has_length(w, right);
      if (length) w.list[at] = right;
      first[slot] = (length ? 0 : right << w.list_bits) | (at + length + right);
      at += words_of_list(w, right);
    }
    return s.all != 0;
  }

  GH_FN void sort_lists() const {
    for (u32 slot = me; slot < slots; slot += bin_threads) {
      const u32 word = first[slot], right = word < of_one_row ? length_of(w, word) : 0, at = w.place_in_lists(word);
      if (right && right <= listed_by_thread) sort_by_thread(w.list + at, right);
      u32 others = __ballot_sync(whole_warp, right > listed_by_thread && right <= listed_by_warp);
      for (; others; others &= others - 1) {
        const u32 lane = __ffs(others) - 1;
        sort_by_warp(w.list + __shfl_sync(whole_warp, at, lane), __shfl_sync(whole_warp, right, lane));
      }
      if (right > listed_by_warp) c.some_large = 1;
    }
  }

  // When nothing else needs the memory of hashes: the lists of the round that the whole block sorts.
  GH_FN void sort_large_lists() const {
    __syncthreads();
    if (!c.some_large) return;
    static_assert(most_listed / listed_by_warp <= chunk);
    u32* const large = reinterpret_cast<u32*>(staged);
    for (u32 slot = me; slot < slots; slot += bin_threads) {
      const u32 word = first[slot];
      if (word < of_one_row && length_of(w, word) > listed_by_warp) large[atomicAdd(&c.larges, 1u)] = word;
    }
    __syncthreads();
    for (u32 i = 0; i < c.larges; ++i)
      sort_by_block<bin_threads>(w.list + w.place_in_lists(large[i]), length_of(w, large[i]),
                                 reinterpret_cast<u32*>(key), slots * sizeof(K) / 4);
  }

  // ---- the way back --------------------------------------------------------------------------------------------------

  // Rows of the bin get the code of their group, or its first row where codes are not known yet; or the first row of each
  // group gets its count, and others 0. some_wait: those that are
  // served are marked, so that the next round leaves them out.
  GH_FN void give_back(bool some_wait) const {
    for (u32 x = me; x < many; x += bin_threads) {
      const u32 slot = slot_at(x);
      if (slot == slots) continue;
      if (Codes) w.bin_code()[from + x] = first[slot];
      if (counts_go_back) w.bin_code()[from + x] = w.bin_row()[from + x] == first[slot] ? count[slot] : 0;
      if (some_wait) w.bin_key[from + x] = no_hash<K>;
    }
  }

  const group_work<K>& w;
  const u32 me, from, many;
  const bool may_be_full;
  carver memory;
  K *const key, *const staged;
  u32 *const count, *const first;  // first: the first row of each key, or its code
  const totals_of<value_word> totals;
  adder<value_word> of_keys;
  counters& c;
};

template <class K, class V, bool Counts, bool First, bool Codes, bool Lists>
__global__ void __launch_bounds__(bin_threads, grouping_block<K, V, Counts, First, Codes, Lists>::resident())
    group_bins(const __grid_constant__ group_work<K> w) {
  using block = grouping_block<K, V, Counts, First, Codes, Lists>;
  GH_DYNAMIC_MEMORY(unsigned char, memory);
  GH_BLOCK_MEMORY(typename block::counters, some);
  block(w, memory, &some).run();
  if (!is_there<V> && !w.wants.numbered()) return;  // frequent keys have their groups, or none
  for (u32 place = blockIdx.x * bin_threads + threadIdx.x; place < w.plan.frequent_places();
       place += gridDim.x * bin_threads)
    if constexpr (is_there<V>)
      give_frequent<K, V>(w, place);
    else
      list_frequent(w, place);
}

}  // namespace gpuhash::columns
