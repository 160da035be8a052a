// Groups of a column on a CUDA device: aggregates of values.
//
// A value becomes an amount; the amounts of equal keys are merged into the totals of their group, in the memory of a
// block at first, then in global memory where a key is frequent. A smallest and a largest value are kept as unsigned
// words that have the order of the numbers; a NaN has none, so that it is left out.
#pragma once
#include <bit>

#include "gpuhash/gpuhash.h"
#include "libgpuhash/columns/cuda/work.cuh"

namespace gpuhash::columns {

template <class V>
constexpr V sign_bit = V(1) << (8 * sizeof(V) - 1);
GH_FN bool is_nan(u32 bits) { return (bits & ~sign_bit<u32>) > 0x7f800000u; }
GH_FN bool is_nan(u64 bits) { return (bits & ~sign_bit<u64>) > 0x7ff0000000000000ull; }

template <class V>
GH_FN V in_order(V bits, u32 type) {
  if (type == GPUHASH_UINT) return bits;
  if (type == GPUHASH_INT) return bits ^ sign_bit<V>;
  return bits & sign_bit<V> ? V(~bits) : V(bits | sign_bit<V>);
}
template <class V>
GH_FN V out_of_order(V word, u32 type) {
  if (type == GPUHASH_UINT) return word;
  if (type == GPUHASH_INT) return word ^ sign_bit<V>;
  return word & sign_bit<V> ? V(word ^ sign_bit<V>) : V(~word);
}

GH_FN double real_of(u32 bits, u32 type) {
  return type == GPUHASH_FLOAT ? double(std::bit_cast<float>(bits)) : type == GPUHASH_INT ? double(int(bits)) : bits;
}
GH_FN double real_of(u64 bits, u32 type) {
  return type == GPUHASH_FLOAT ? std::bit_cast<double>(bits)
         : type == GPUHASH_INT ? double((long long)bits)
                               : double(bits);
}
GH_FN u64 whole_of(u32 bits, u32 type) { return type == GPUHASH_INT ? u64((long long)int(bits)) : bits; }
GH_FN u64 whole_of(u64 bits, u32) { return bits; }

// The amounts that one value, or several, add to the totals of their group.
template <class V>
struct amount {
  u64 whole = 0;
  double real = 0;
  V low = V(~V(0)), high = 0;
  u32 many = 0;

  GH_FN static amount of(const group_wants& wants, V bits) {
    amount a;
    a.many = 1;
    if (wants.totals.whole) a.whole = whole_of(bits, wants.value_type);
    if (wants.totals.real) a.real = real_of(bits, wants.value_type);
    if (wants.value_type != GPUHASH_FLOAT || !is_nan(bits)) a.low = a.high = in_order(bits, wants.value_type);
    return a;
  }
  GH_FN void merge(const amount& other) {
    whole += other.whole;
    real += other.real;
    low = min(low, other.low);
    high = max(high, other.high);
    many += other.many;
  }
  // The amount of another lane; all lanes of the warp call.
  GH_FN amount of_lane(const group_wants& wants, u32 lane) const {
    amount other;
    const group_totals& kept = wants.totals;
    other.many = __shfl_sync(whole_warp, many, lane);
    if (kept.whole) other.whole = __shfl_sync(whole_warp, whole, lane);
    if (kept.real) other.real = __shfl_sync(whole_warp, real, lane);
    if (kept.low) other.low = __shfl_sync(whole_warp, low, lane);
    if (kept.high) other.high = __shfl_sync(whole_warp, high, lane);
    return other;
  }
};

// Hardware adds words of 4 bytes in the memory of a block at once, and longer ones by trying until no other thread was
// in between.
GH_FN void add_in_block(u64* at, u64 x) {
  u32* const halves = reinterpret_cast<u32*>(at);
  const u32 low = u32(x), before = atomicAdd(halves, low);
  const u32 high = u32(x >> 32) + (before + low < low);
  if (high) atomicAdd(halves + 1, high);
}

// The totals of several groups, in the memory of a block or in global memory.
template <class V>
struct totals_of {
  u64* whole;
  double* real;
  V *low, *high;
  u32* many;

  static size_t bytes(const group_wants& wants, size_t places) {
    const group_totals& kept = wants.totals;
    return (kept.whole ? room_of(places, 8) : 0) + (kept.real ? room_of(places, 8) : 0) +
           ((kept.low ? 1 : 0) + (kept.high ? 1 : 0)) * room_of(places, sizeof(V));
  }
  GH_FN static totals_of carve(const group_wants& wants, carver& memory, u32 places, u32* many) {
    totals_of t;
    const group_totals& kept = wants.totals;
    t.whole = memory.take<u64>(kept.whole ? places : 0);
    t.real = memory.take<double>(kept.real ? places : 0);
    t.low = memory.take<V>(kept.low ? places : 0);
    t.high = memory.take<V>(kept.high ? places : 0);
    t.many = many;
    return t;
  }
  // That of frequent keys, in global memory.
  template <class K>
  GH_FN static totals_of frequent(const group_work<K>& w) {
    return {w.frequent_whole, w.frequent_real, static_cast<V*>(w.frequent_low), static_cast<V*>(w.frequent_high),
            w.frequent_count};
  }

  GH_FN void clear(const group_wants& wants, u32 at) const {
    if (wants.totals.whole) whole[at] = 0;
    if (wants.totals.real) real[at] = 0;
    if (wants.totals.low) low[at] = V(~V(0));
    if (wants.totals.high) high[at] = 0;
    many[at] = 0;
  }
  GH_FN amount<V> read(const group_wants& wants, u32 at) const {
    amount<V> a;
    if (wants.totals.whole) a.whole = whole[at];
    if (wants.totals.real) a.real = real[at];
    if (wants.totals.low) a.low = low[at];
    if (wants.totals.high) a.high = high[at];
    a.many = many[at];
    return a;
  }
  template <bool OfBlock>
  GH_FN void add(const group_wants& wants, u32 at, const amount<V>& a, bool counts) const {
    if (counts) atomicAdd(many + at, a.many);
    if (wants.totals.whole) {
      if constexpr (OfBlock)
        add_in_block(whole + at, a.whole);
      else
        atomicAdd(whole + at, a.whole);
    }
    if (wants.totals.real) atomicAdd(real + at, a.real);
    if (wants.totals.low && a.low < *static_cast<volatile V*>(low + at)) atomicMin(low + at, a.low);
    if (wants.totals.high && a.high > *static_cast<volatile V*>(high + at)) atomicMax(high + at, a.high);
  }
};

// Adds amounts to totals in the memory of the block; all lanes of a warp call. Where a warp has one key only, as in columns
// that are sorted or have few keys, each lane keeps its amount until another key comes. Else lanes that have equal keys join
// what they have, as hardware would serve them one after the other; but where hardly any are equal, each adds its own.
template <class V>
class adder {
 public:
  // counts: rows are counted, too.
  GH_FN adder(const group_wants& a_wants, const totals_of<V>& some, bool a_counts)
      : wants(a_wants), totals(some), counts(a_counts) {}

  // live: this lane has an amount, for this place.
  GH_FN void add(bool live, u32 place, V bits) {
    if (spread) {
      if (live) totals.template add<true>(wants, place, amount<V>::of(wants, bits), counts);
      return;
    }
    const u32 first = __shfl_sync(whole_warp, place, 0);
    const amount<V> mine = live ? amount<V>::of(wants, bits) : amount<V>();
    if (__any_sync(whole_warp, !live || place != first)) return add_joined(live, place, mine);
    if (first != held_place) flush();
    held_place = first;
    held.merge(mine);
  }
  // Before rows that may be of other keys: whether lanes have equal keys is found out again.
  GH_FN void begin() { spread = false; }
  // Before totals are read.
  GH_FN void flush() {
    if (held_place != none) add_joined(true, held_place, held);
    held = amount<V>();
    held_place = none;
  }

 private:
  static constexpr u32 none = ~0u;

  // Lanes with equal places add up in pairs, pairs in pairs, until the first lane of each place has all.
  GH_FN void add_joined(bool live, u32 place, amount<V> mine) {
    const u32 lane = threadIdx.x % 32, below = (1u << lane) - 1;
    const u32 alike = __match_any_sync(whole_warp, live ? place : none - lane);
    u32 rank = __popc(alike & below), after = alike & ~below & ~(1u << lane);
    const bool leads = rank == 0;
    spread = __popc(__ballot_sync(whole_warp, leads)) >= 28;
#pragma unroll 1
    while (__any_sync(whole_warp, after != 0)) {
      const amount<V> next = mine.of_lane(wants, after ? __ffs(after) - 1 : lane);
      if (after) mine.merge(next);
      after &= __ballot_sync(whole_warp, rank % 2 == 0);
      rank /= 2;
    }
    if (live && leads) totals.template add<true>(wants, place, mine, counts);
  }

  const group_wants& wants;
  const totals_of<V> totals;
  const bool counts;
  amount<V> held;
  u32 held_place = none;  // the same in all lanes
  bool spread = false;    // too
};

// The aggregates of a group.
template <class V>
GH_FN u64 sum_of(const group_wants& wants, const amount<V>& all) {
  return wants.value_type == GPUHASH_FLOAT ? std::bit_cast<u64>(all.real) : all.whole;
}
template <class V>
GH_FN double mean_of(const group_wants& wants, const amount<V>& all) {
  const double sum = wants.totals.real ? all.real : real_of(all.whole, wants.value_type);
  return sum / all.many;
}
// Of floats, the words of groups that have no number, all ones and 0, are those of NaNs.
template <class V>
GH_FN V low_of(const group_wants& wants, const amount<V>& all) {
  return out_of_order(all.low, wants.value_type);
}
template <class V>
GH_FN V high_of(const group_wants& wants, const amount<V>& all) {
  return out_of_order(all.high, wants.value_type);
}

// Writes the aggregates of a group as its result number `at`.
template <class V>
GH_FN void give_totals(const group_wants& wants, const group_results& to, u32 at, const amount<V>& all) {
  if (wants.sums) to.sums[at] = sum_of(wants, all);
  if (wants.means) to.means[at] = mean_of(wants, all);
  if (wants.totals.low) static_cast<V*>(to.low)[at] = low_of(wants, all);
  if (wants.totals.high) static_cast<V*>(to.high)[at] = high_of(wants, all);
}

// Puts a group into the list, since its number is not known yet. Its aggregates lie side by side, so that a read at
// random gets all of them at once.
GH_FN void put(u32* at, u32 word) { *at = word; }
GH_FN void put(u32* at, u64 word) {
  at[0] = u32(word);
  at[1] = u32(word >> 32);
}
template <class K, class V>
GH_FN void list_group(const group_work<K>& w, u32 at, u32 first, const amount<V>& all) {
  const group_wants& wants = w.wants;
  w.listed_first[at] = first;
  w.listed_count[at] = all.many;
  u32* const to = w.listed_results + size_t(at) * w.listed_words;
  if (wants.sums) put(to, sum_of(wants, all));
  if (wants.means) put(to + w.listed_mean, std::bit_cast<u64>(mean_of(wants, all)));
  if (wants.totals.low) put(to + w.listed_low, low_of(wants, all));
  if (wants.totals.high) put(to + w.listed_high, high_of(wants, all));
}
GH_FN void get(const u32* at, u32& word) { word = *at; }
GH_FN void get(const u32* at, u64& word) { word = u64(at[1]) << 32 | at[0]; }
// The aggregates that are listed at `at` become those of result number `group`.
template <class V, class K>
GH_FN void give_listed_totals(const group_work<K>& w, u32 at, u32 group) {
  const group_wants& wants = w.wants;
  const u32* const from = w.listed_results + size_t(at) * w.listed_words;
  u64 mean = 0;
  if (wants.sums) get(from, w.results.sums[group]);
  if (wants.means) get(from + w.listed_mean, mean), w.results.means[group] = std::bit_cast<double>(mean);
  if (wants.totals.low) get(from + w.listed_low, static_cast<V*>(w.results.low)[group]);
  if (wants.totals.high) get(from + w.listed_high, static_cast<V*>(w.results.high)[group]);
}

// The group of a frequent key, when all rows have been seen.
template <class K, class V>
GH_FN void give_frequent(const group_work<K>& w, u32 place) {
  const amount<V> all = totals_of<V>::frequent(w).read(w.wants, place);
  if (!all.many) return;
  if (w.wants.first) {
    const u32 first = w.frequent_first[place], at = atomicAdd(&w.facts->listed, 1u);
    atomicOr(w.first_bit + first / 32, 1u << first % 32);
    return list_group(w, at, first, all);
  }
  const u32 group = atomicAdd(w.groups, 1u);
  w.out_keys[group] = w.unhash(place < w.frequent_slots() ? w.frequent[place] : no_hash<K>);
  if (w.wants.counts) w.out_counts[group] = all.many;
  give_totals(w.wants, w.results, group, all);
}

}  // namespace gpuhash::columns
