// Large batches: which kernels serve a batch, and where their lists lie in its memory.
#pragma once
#include "libgpuhash/drive/bulk/combine_all.cuh"
#include "libgpuhash/drive/bulk/combine_partitions.cuh"
#include "libgpuhash/drive/bulk/sample.cuh"
#include "libgpuhash/drive/bulk/serve.cuh"
#include "libgpuhash/kit/parts.hpp"

GH_BEGIN

// Memory of a work, from `base` on; base 0 asks how much.
class part_memory {
 public:
  explicit part_memory(void* base) : base_(static_cast<char*>(base)) {}
  template <class T>
  T* take(u64 n) {
    T* const p = reinterpret_cast<T*>(base_ + used_);
    used_ += (n * sizeof(T) + 255) & ~u64(255);
    return p;
  }
  u64 used() const { return used_; }

 private:
  char* base_;
  u64 used_ = 0;
};

inline u32 room_for(u64 n, u64 bins) {
  const u64 mean = (n + bins - 1) / bins;
  u64 root = 1;
  while (root * root < mean) root *= 2;
  return u32(mean + mean / 16 + 4 * root + u64(GPUHASH_PART_SLACK));
}

// False: this batch is for the driver that serves one element after the other. `chunk` elements are divided at a time.
template <class Parts>
bool plan_chunk(const typename Parts::table& t, const request& q, u64 chunk, void* memory,
                parts_work<typename Parts::F>* out, u64* bytes) {
  using F = typename Parts::F;
  using word = typename F::word;
  if (!in_kinds(q.kind, 1u << insert | 1u << assign | 1u << accumulate | 1u << erase)) return false;
  if (q.only_failed || q.n_there || q.out_values || q.n == 0 || !Parts::applies(t)) return false;
  const bool told = q.status != nullptr;
  const size_t block_bytes = block_bytes_at_most();
  if (block_bytes < sample_bytes<F>()) return false;
  u64 slots, parts, shares;
  bool served = true;  // part by part
  if constexpr (Parts::own_parts)
    slots = Parts::slots(t);
  else
    slots = t.n_slots;
  parts_work<F> w{};
  w.chunk = chunk;
  w.n = q.n < chunk ? q.n : chunk;
  if (q.parts != parts_always && !Parts::pays(t, q)) return false;
  const bool in_place = Parts::adds_in_place && (q.combine != 0 || q.value_type != 2);
  const bool has_contents = q.added > slots / nearly_empty_share;
  const auto at_least = [&](u64 n) {
    return w.n >= n && w.n >= slots / Parts::least_share * (w.n < Parts::least ? 2 : 1);
  };
  const bool distinct = q.kind != erase && at_least(has_contents ? Parts::least : Parts::least_sums(true, false)) &&
                        !(Parts::empty_only(q.kind, told) && has_contents);
  const bool skewed = Parts::divides_skewed && (q.kind == assign || (q.kind == accumulate && !in_place)) &&
                      w.n >= parts_least && w.n >= slots / parts_least_share;
  const bool sums = q.kind == accumulate && at_least(Parts::least_sums(told, has_contents));
  const bool only_repeating = Parts::sums_if_repeating && told && has_contents;
  const bool always = q.parts == parts_always || (sums && !only_repeating);
  w.divides = (always ? whatever_they_are : 0) | (skewed ? if_skewed : 0) |
              (distinct && !(sums && only_repeating) ? if_few_repeat : 0) |
              (sums && only_repeating ? if_some_repeat : 0);
  if (!w.divides) return false;
  w.sums = F::has_value && q.kind == accumulate;
  w.slots = slots;
  w.may_join = w.sums && !told && block_bytes >= joined_bytes;
  w.may_join_left = w.may_join && Parts::joins_directly;
  w.may_join_parts = w.sums && block_bytes >= part_joined_bytes;
  if constexpr (Parts::own_parts) {
    w.part_bits = Parts::part_bits(t);
    parts = Parts::parts(t), shares = Parts::shares(t);
    served = Parts::serve_bytes(t, told) <= block_bytes;
  } else {
    w.part_bits = u32(__builtin_ctzll(part_bytes / sizeof(word)));
    const u32 least = Parts::least_bits(t);
    while (w.part_bits > least && slots >> w.part_bits < parts_wanted && 1u << w.part_bits > part_slots_wanted)
      --w.part_bits;
    while (w.part_bits > least && serve_bytes<Parts>(t, w.part_bits, told) > block_bytes) --w.part_bits;
    parts = shares = (slots + (u64(1) << w.part_bits) - 1) >> w.part_bits;
  }
  if (parts > u64(part_threads) * part_threads) return false;
  w.parts = u32(parts);
  // Two passes with about as many bins each.
  while (w.parts > GPUHASH_PART_BINS && ((parts - 1) >> w.bin_bits) + 1 > u64(1) << w.bin_bits) ++w.bin_bits;
  w.bins = u32(((parts - 1) >> w.bin_bits) + 1);
  u64 bin_shares = shares == parts ? w.bins : shares >> w.bin_bits ? shares >> w.bin_bits : 1;
  // Few blocks would join all elements: more of them share a part.
  while (w.may_join_parts && !w.bin_bits && w.bins * 2 <= GPUHASH_PART_BINS) {
    ++w.sub_bits;
    w.bins *= 2;
    bin_shares *= 2;
  }
  w.bin_room = w.bin_bits || w.sub_bits ? room_for(w.n, bin_shares) : 0;
  // Keys that are not frequent in the sample may be so in their part, where they are joined.
  if (w.may_join_parts && w.bin_room) w.bin_room += u32(w.n / bin_shares / 8);
  if (!served && !w.sub_bits) return false;
  // In a small part one key that is not among the frequent ones may be as many elements as all others.
  const u64 repeated = !w.may_join_parts ? 0 : Parts::own_parts ? w.n / shares / 2 : w.n / shares;
  w.part_room = served ? room_for(w.n, shares) + u32(repeated) : 0;
  w.blocks = 2 * multiprocessors();
  for (const bool second : {false, true}) {
    u32& tile = w.tile[second];
    tile = divided_each<F> * part_threads;
    // Two blocks for each multiprocessor.
    while (tile > part_threads && divide_bytes<F>(second, tile, told) > block_bytes / 2) tile -= part_threads;
    // All blocks end at about the same time.
    const u64 turns = (w.n - 1) / (u64(w.blocks) * tile) + 1, fair = (w.n - 1) / (w.blocks * turns) + 1;
    while (tile > part_threads && tile - part_threads >= fair) tile -= part_threads;
    if (block_bytes < divide_bytes<F>(second, tile, told)) return false;
  }

  part_memory m(memory);
  const auto list = [&](u64 n, u64 counters) {
    part_list<F> l{};
    l.word = m.take<word>(n);
    l.at = told ? m.take<u32>(n) : nullptr;
    l.n = m.take<u32>(counters);
    return l;
  };
  w.bin = list(u64(w.bins) * w.bin_room, w.bins);
  w.part = list(served ? u64(w.parts) * w.part_room : w.n, w.parts);
  w.rest = list(w.n, 1);
  w.source = list(w.n, 1);
  w.frequent = m.take<typename F::key>(frequent_all);
  w.leader = m.take<u32>(frequent_all);
  w.last = m.take<u32>(frequent_all);
  w.joined = m.take<typename F::value>(frequent_all);
  w.failed = m.take<u32>(frequent_all);
  w.picked = m.take<typename F::key>(2 * part_samples);
  w.found = m.take<sampled>(1);  // the last: tests look there
  *bytes = m.used();
  *out = w;
  return true;
}

// In chunks that need no more memory than the pool keeps: mapping it anew takes longer than the batch.
template <class Parts>
bool plan_parts(const typename Parts::table& t, const request& q, void* memory, parts_work<typename Parts::F>* out,
                u64* bytes) {
  const u64 kept = bytes_of_device() / share_kept;
  if (!plan_chunk<Parts>(t, q, part_chunk, memory, out, bytes)) return false;
  parts_work<typename Parts::F> smaller{};
  u64 less = 0;
  while (*bytes > kept && out->chunk > part_chunk / chunks_most) {
    if (!plan_chunk<Parts>(t, q, out->chunk / 2, memory, &smaller, &less)) break;
    *out = smaller;
    *bytes = less;
  }
  return true;
}

template <class Parts>
uint64_t memory_for_parts(const void* table, const request& q) {
  parts_work<typename Parts::F> w{};
  u64 bytes = 0;
  return plan_parts<Parts>(*static_cast<const typename Parts::table*>(table), q, nullptr, &w, &bytes) ? bytes : 0;
}

GH_END
