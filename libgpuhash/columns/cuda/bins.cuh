// Groups of a column on a CUDA device: a block makes the groups of a bin, in a table in its memory (table.cuh).
#pragma once
#include "libgpuhash/columns/cuda/partition.cuh"
#include "libgpuhash/columns/cuda/table.cuh"

namespace gpuhash::columns {

// V: the type of values, whose totals each group has. First: groups get their first rows. Codes: rows get their groups.
template <class K, class V, bool Counts, bool First, bool Codes>
class grouping_block : bin_table<K, is_there<V>> {
  using table = bin_table<K, is_there<V>>;
  using table::chunk, table::each, table::slots;
  using table::from, table::hash, table::key, table::many, table::may_be_full, table::me, table::slot_at, table::staged;

  static constexpr bool values = is_there<V>, counts_go_back = First && Counts && !Codes && !values;
  static constexpr bool keeps_slots = First || Codes || values;
  static constexpr u32 words_of_slot = (Counts ? 1 : 0) + (First || Codes ? 1 : 0);
  static_assert(!values || (Counts && !Codes));
  using value_word = std::conditional_t<values, V, u32>;

 public:
  struct counters {
    u32 of_warp[bin_threads / 32], taken, base;
  };
  static size_t bytes(const group_wants& wants) {
    return table::table_bytes + words_of_slot * room_of(slots, 4) +
           (values ? totals_of<value_word>::bytes(wants, slots) : 0);
  }
  // Registers suffice for as many blocks as a multiprocessor has memory for; 0: that depends on values. With wide keys, values
  // and first rows memory is short before registers are.
  static constexpr u32 resident() {
    if (values) return First && sizeof(K) == 8 ? 3 : 0;
    return table::resident(table::table_bytes + words_of_slot * room_of(slots, 4));
  }

  GH_FN grouping_block(const group_work<K>& work, carver memory, counters* some, u32 bin)
      : table(work, memory, &some->taken, bin),
        w(work),
        count(memory.take<u32>(Counts ? slots : 0)),
        first(memory.take<u32>(First || Codes ? slots : 0)),
        totals(totals_of<value_word>::carve(work.wants, memory, values ? slots : 0, count)),
        of_keys(work.wants, totals, work.wants.counts || work.wants.means),
        c(*some) {}

  GH_FN void run() {
    bool some_wait = many != 0;
    while (some_wait) {
      some_wait = __syncthreads_or(may_be_full ? insert_all<true>() : insert_all<false>());
      if (First)
        give_firsts();
      else
        give_groups();
      if (Codes || counts_go_back || some_wait) {
        __syncthreads();
        give_back(some_wait);
      }
      __syncthreads();
    }
  }

 private:
  GH_FN void clear() const {
    this->clear_keys();
    if constexpr (First) this->fill(first, slots, no_row);
    if constexpr (Counts) this->fill(count, slots, 0);
    if constexpr (values) {
      const group_totals& kept = w.wants.totals;
      if (kept.whole) this->fill(totals.whole, slots, 0);
      if (kept.real) this->fill(totals.real, slots, 0);
      if (kept.low) this->fill(totals.low, slots, ~0u);
      if (kept.high) this->fill(totals.high, slots, 0);
    }
  }

  // Inserts the rows of a round into an empty table. MayBeFull: keys may be more than the table takes. Returns whether a row
  // of this thread waits for another round.
  template <bool MayBeFull>
  GH_FN bool insert_all() {
    const auto hit = [&](u32 slot, bool) {
      if (Counts && !values) atomicAdd(count + slot, 1u);
    };
    bool some_wait = false;
    for (u32 at = 0; at < many; at += chunk) {
      const u32 here = min(chunk, many - at);
      u32 row[First ? each : 1];
      value_word value[values ? each : 1];
      this->stage(hash + at, here, [&] {
        load_along(at, here, row, value);
        if (at == 0) clear();
      });
      if (at == 0) __syncthreads();
      bool failed = this->template insert_chunk<MayBeFull, keeps_slots>(here, hit);
      if (MayBeFull && __syncthreads_or(failed)) failed = this->look_again(at, here, hit);
      some_wait |= failed;
      if constexpr (First) note_rows(here, row);
      if constexpr (values && First) fetch_values(here, row, value);
      if constexpr (values) note_values(here, value);
    }
    if constexpr (values) of_keys.flush();
    return some_wait;
  }
  // What travels along with the rows of a chunk.
  GH_FN void load_along(u32 at, u32 here, u32* row, value_word* value) const {
    const value_word* const along = static_cast<const value_word*>(w.bin_carried);
#pragma unroll
    for (u32 i = 0; i < each; ++i) {
      const u32 x = i * bin_threads + me;
      if constexpr (First) row[i] = x < here ? w.bin_row()[from + at + x] : 0;
      if constexpr (values && !First) value[i] = x < here ? along[from + at + x] : 0;
    }
  }

  GH_FN void note_rows(u32 here, const u32* row) const {
#pragma unroll
    for (u32 i = 0; i < each; ++i) {
      const u32 x = i * bin_threads + me;
      const u32 slot = x < here ? u32(staged[x]) : slots;
      if (slot != slots && row[i] < static_cast<volatile u32*>(first)[slot]) atomicMin(first + slot, row[i]);
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
      if (some_wait) hash[x] = no_hash<K>;
    }
  }

  const group_work<K>& w;
  u32 *const count, *const first;  // first: the first row of each key, or its code
  const totals_of<value_word> totals;
  adder<value_word> of_keys;
  counters& c;
};

// Where rows of few keys have their codes by now, blocks find nothing to do: they are fewer, and serve several bins each if keys are
// many.
template <class V, bool Counts, bool First, bool Codes>
constexpr bool serves_several = Codes && !First && !Counts && !is_there<V>;

template <class K, class V, bool Counts, bool First, bool Codes>
__global__ void __launch_bounds__(bin_threads, grouping_block<K, V, Counts, First, Codes>::resident())
    group_bins(const __grid_constant__ group_work<K> w) {
  wait_for_the_one_before();
  using block = grouping_block<K, V, Counts, First, Codes>;
  GH_DYNAMIC_MEMORY(unsigned char, memory);
  GH_BLOCK_MEMORY(typename block::counters, some);
  if constexpr (serves_several<V, Counts, First, Codes>) {
    if (!w.facts->few)
      for (u32 bin = blockIdx.x; bin < 1u << w.plan.bits; bin += gridDim.x) block(w, carver(memory), &some, bin).run();
  } else {
    block(w, carver(memory), &some, blockIdx.x).run();
  }
  if (is_there<V> || w.wants.numbered())  // else frequent keys have their groups, or none
    for (u32 place = blockIdx.x * bin_threads + threadIdx.x; place < w.frequent_places();
         place += gridDim.x * bin_threads)
      if constexpr (is_there<V>)
        give_frequent<K, V>(w, place);
      else
        list_frequent(w, place);
  if (!First && w.shown && all_others_have_ended(&w.facts->grouped) && threadIdx.x == 0)
    *w.shown = *static_cast<volatile u32*>(w.groups);
}

}  // namespace gpuhash::columns
