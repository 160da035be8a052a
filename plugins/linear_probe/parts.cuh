// linear_probe: the members that the driver of large batches (drive/bulk) needs of a structure. parts.hpp says how a
// partition is a table of its own.
#pragma once
#include "libgpuhash/drive/bulk/bulk.cuh"
#include "parts.hpp"

GH_BEGIN

template <class Format>
struct linear_partitions : linear_part_rules<Format> {
  using F = Format;
  using table = linear_table<F>;
  using rest_op = linear_op<cuda_tile<F, row_bytes / sizeof(typename F::word)>, mixed, true>;
  static constexpr bool own_partitions = false, combines_directly = true;
  static constexpr bulk_policy policy = {
      .adds_in_place = true,
      .divides_skewed = true,
      .declines_dead = false,
      .least = parts_all_least,
      .least_share = 4,
      .least_into_empty = parts_all_least / 2,
      .least_sums = parts_all_least / 2,
      .least_sums_into_empty = parts_all_least / 4,
      .sums_if_repeating = false,
      .only_into_empty = 0,
      // One element after the other, an insert of a key that is there reads it, and writes its status in order.
      .only_into_empty_with_statuses = 1u << insert,
      .longest_chain = 0,
  };

  static u64 slots(const table& t) { return t.n_slots; }
  static u64 chain_after(const table&, u64) { return 0; }
  // I4: no path that stays in its partition comes to its limit. And groups are whole rows.
  static bool applies(const table& t) {
    constexpr u64 most = partition_bytes / sizeof(typename F::word);
    return t.probe_limit >= (t.n_slots < most ? t.n_slots : most) &&
           lone_tile<F, block_mem>::slots <= 1 << t.group_bits;
  }
};

GH_END
