// linear_probe: what the driver of large batches has to know (drive/bulk/bulk.cuh). How a part is a table of its own is in
// parts.hpp.
#pragma once
#include "libgpuhash/drive/bulk/bulk.cuh"
#include "parts.hpp"

GH_BEGIN

template <class Format>
struct linear_parts : linear_part_rules<Format> {
  using F = Format;
  using table = linear_table<F>;
  using rest_op = linear_op<cuda_tile<F, row_bytes / sizeof(typename F::word)>, mixed, true>;
  static constexpr bool adds_in_place = true, own_parts = false, joins_directly = true;
  static constexpr bool divides_skewed = true, declines = false;
  static constexpr u64 least = parts_all_least, least_share = 4;
  static constexpr u64 least_sums(bool told, bool contents) { return parts_all_least / (told || contents ? 2 : 4); }
  static constexpr bool sums_if_repeating = false;
  static constexpr bool pays(const table&, const request&) { return true; }
  // Told one after the other, an insert of a key that is there reads it, and writes its status in order.
  static constexpr bool empty_only(u32 kind, bool told) { return kind == insert && told; }

  // I4: no path that stays in its part comes to its limit. And groups are whole rows.
  static bool applies(const table& t) {
    constexpr u64 most = part_bytes / sizeof(typename F::word);
    return t.probe_limit >= (t.n_slots < most ? t.n_slots : most) &&
           lone_tile<F, block_mem>::slots <= 1 << t.group_bits;
  }
};

GH_END
