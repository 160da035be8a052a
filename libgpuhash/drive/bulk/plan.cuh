// Large batches: how many partitions, bins and elements at a time a batch has, and where its lists lie in its memory.
//
// Runs on the host, before the batch: first for the bytes that the batch needs, then with the memory itself.
#pragma once
#include "libgpuhash/drive/bulk/combine_all.cuh"
#include "libgpuhash/drive/bulk/combine_partitions.cuh"
#include "libgpuhash/drive/bulk/policy.hpp"
#include "libgpuhash/drive/bulk/sample.cuh"
#include "libgpuhash/drive/bulk/serve.cuh"

GH_BEGIN

// Memory of a batch, from `base` on; base 0 asks how much.
class memory_layout {
 public:
  explicit memory_layout(void* base) : base_(static_cast<char*>(base)) {}
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
  return u32(mean + mean / 16 + 4 * root + bin_slack);
}

// A plan for batches of which `slice` elements are divided at a time.
template <class Partitions>
class bulk_plan {
  using F = typename Partitions::F;
  using word = typename F::word;

 public:
  bulk_plan(const typename Partitions::table& a_table, const request& a_request, u64 slice)
      : t(a_table), q(a_request), with_statuses(a_request.status != nullptr), block_bytes(block_bytes_at_most()) {
    w.slice = slice;
    w.n = q.n < slice ? q.n : slice;
  }

  // False: the driver that serves one element after the other serves this batch.
  bool make() {
    if (!in_kinds(q.kind, 1u << insert | 1u << assign | 1u << accumulate | 1u << erase)) return false;
    if (q.only_failed || q.n_there || q.out_values || q.n == 0 || !Partitions::applies(t)) return false;
    if (block_bytes < sample_bytes<F>() || !choose_way()) return false;
    return size_partitions() && size_bins() && size_tiles();
  }

  // Lists from `memory` on. Returns their bytes.
  u64 place(void* memory) {
    memory_layout m(memory);
    const auto list = [&](u64 n, u64 counters) {
      element_list<F> l{};
      l.word = m.take<word>(n);
      l.at = with_statuses ? m.take<u32>(n) : nullptr;
      l.n = m.take<u32>(counters);
      return l;
    };
    w.bin = list(u64(w.bins) * w.bin_room, w.bins);
    w.partition = list(served ? u64(w.partitions) * w.partition_room : w.n, w.partitions);
    w.rest = list(w.n, 1);
    w.source = list(w.n, 1);
    w.frequent = m.take<typename F::key>(frequent_all);
    w.leader = m.take<u32>(frequent_all);
    w.last = m.take<u32>(frequent_all);
    w.combined = m.take<typename F::value>(frequent_all);
    w.failed = m.take<u32>(frequent_all);
    w.picked = m.take<typename F::key>(2 * sample_size);
    w.found = m.take<sample_result>(1);  // the last: tests look there
    return m.used();
  }

  bulk_work<F> w{};

 private:
  // On which samples the batch is divided, and by what its elements are combined.
  bool choose_way() {
    w.slots = Partitions::slots(t);
    const batch_facts facts{q.kind,        q.kind == accumulate && q.combine == 0 && q.value_type == 2,
                            with_statuses, q.parts == parts_always,
                            w.n,           w.slots,
                            q.added,       Partitions::chain_after(t, q.added + q.n)};
    const bulk_choice choice = choose(Partitions::policy, facts);
    w.divides = choice.when;
    w.unless_dead = choice.unless_dead;
    w.sums = F::has_value && q.kind == accumulate;
    w.may_combine_all = w.sums && !with_statuses && block_bytes >= cache_bytes;
    w.may_combine_left = w.may_combine_all && Partitions::combines_directly;
    w.may_combine_partitions = w.sums && block_bytes >= combine_bytes;
    return w.divides;
  }

  bool size_partitions() {
    u64 partitions;
    if constexpr (Partitions::own_partitions) {
      w.partition_bits = Partitions::partition_bits(t);
      partitions = Partitions::partitions(t), shares = Partitions::shares(t);
      served = Partitions::serve_bytes(t, with_statuses) <= block_bytes;
    } else {
      w.partition_bits = u32(__builtin_ctzll(partition_bytes / sizeof(word)));
      const u32 least = Partitions::least_bits(t);
      while (w.partition_bits > least && w.slots >> w.partition_bits < partitions_wanted &&
             1u << w.partition_bits > partition_slots_wanted)
        --w.partition_bits;
      while (w.partition_bits > least && serve_bytes<Partitions>(t, w.partition_bits, with_statuses) > block_bytes)
        --w.partition_bits;
      partitions = shares = (w.slots + (u64(1) << w.partition_bits) - 1) >> w.partition_bits;
    }
    w.partitions = u32(partitions);
    return partitions <= u64(partition_threads) * partition_threads;
  }

  bool size_bins() {
    const u64 partitions = w.partitions;
    // Two passes with about as many bins each.
    while (partitions > most_bins && ((partitions - 1) >> w.bin_bits) + 1 > u64(1) << w.bin_bits) ++w.bin_bits;
    w.bins = u32(((partitions - 1) >> w.bin_bits) + 1);
    u64 bin_shares = shares == partitions ? w.bins : shares >> w.bin_bits ? shares >> w.bin_bits : 1;
    // Where there are few partitions several blocks combine the elements of each, or few blocks would combine all of
    // them.
    while (w.may_combine_partitions && !w.bin_bits && w.bins * 2 <= most_bins) {
      ++w.sub_bits;
      w.bins *= 2;
      bin_shares *= 2;
    }
    w.bin_room = w.bin_bits || w.sub_bits ? room_for(w.n, bin_shares) : 0;
    // Keys that are not frequent in the sample may be so in their partition, where they are combined.
    if (w.may_combine_partitions && w.bin_room) w.bin_room += u32(w.n / bin_shares / 8);
    if (!served && !w.sub_bits) return false;
    // In a small partition one key that is not among the frequent ones may be as many elements as all others.
    const u64 repeated = !w.may_combine_partitions ? 0 : Partitions::own_partitions ? w.n / shares / 2 : w.n / shares;
    w.partition_room = served ? room_for(w.n, shares) + u32(repeated) : 0;
    return true;
  }

  bool size_tiles() {
    w.blocks = 2 * multiprocessors();
    for (const bool second : {false, true}) {
      u32& tile = w.tile[second];
      tile = divided_each<F> * partition_threads;
      // Two blocks for each multiprocessor.
      while (tile > partition_threads && divide_bytes<F>(second, tile, with_statuses) > block_bytes / 2)
        tile -= partition_threads;
      // All blocks end at about the same time.
      const u64 turns = (w.n - 1) / (u64(w.blocks) * tile) + 1, fair = (w.n - 1) / (w.blocks * turns) + 1;
      while (tile > partition_threads && tile - partition_threads >= fair) tile -= partition_threads;
      if (block_bytes < divide_bytes<F>(second, tile, with_statuses)) return false;
    }
    return true;
  }

  const typename Partitions::table& t;
  const request& q;
  const bool with_statuses;
  const size_t block_bytes;
  u64 shares = 0;      // no partition has more than one in so many of the keys
  bool served = true;  // by kernels, partition by partition; else elements are only combined
};

// In slices that need no more memory than the pool keeps: mapping it anew takes longer than the batch.
template <class Partitions>
bool plan_batch(const typename Partitions::table& t, const request& q, void* memory,
                bulk_work<typename Partitions::F>* out, u64* bytes) {
  const u64 kept = bytes_of_device() / share_kept;
  for (u64 slice = slice_at_most;; slice /= 2) {
    bulk_plan<Partitions> plan(t, q, slice);
    if (!plan.make()) return slice != slice_at_most;  // the last one stands
    *bytes = plan.place(memory);
    *out = plan.w;
    if (*bytes <= kept || slice <= slice_at_most / slices_most) return true;
  }
}

template <class Partitions>
uint64_t bulk_memory(const void* table, const request& q) {
  bulk_work<typename Partitions::F> w{};
  u64 bytes = 0;
  return plan_batch<Partitions>(*static_cast<const typename Partitions::table*>(table), q, nullptr, &w, &bytes) ? bytes
                                                                                                                : 0;
}

GH_END
