// linear_probe: what the driver of large batches has to know (drive/cuda_parts.cuh).
//
// A path goes from its home upwards. So the slots from a multiple of 2^part_bits on are a table of their own, until a path
// comes to their end.
#pragma once
#include "libgpuhash/drive/cuda_parts.cuh"
#include "ops.hpp"

GH_BEGIN

template <class Format>
struct linear_parts {
  using F = Format;
  using table = linear_table<F>;
  using index = typename F::index;
  static constexpr bool goes_on = true, adds_in_place = true, own_parts = false, joins_directly = true;
  static constexpr bool divides_skewed = true, declines = false;
  static constexpr u64 least = parts_all_least, least_share = 4;
  // Told one after the other, an insert of a key that is there reads it, and writes its status in order.
  static constexpr bool empty_only(u32 kind, bool told) { return kind == insert && told; }
  template <class Tile, u32 Kind>
  using op = linear_op<Tile, Kind, true>;

  // I4: no path that stays in its part comes to its limit. And groups are whole rows.
  static bool applies(const table& t) {
    constexpr u64 most = part_bytes / sizeof(typename F::word);
    return t.probe_limit >= (t.n_slots < most ? t.n_slots : most) &&
           lone_tile<F, block_mem>::slots <= 1 << t.group_bits;
  }
  static u32 least_bits(const table& t) {
    const u32 widest_bits = u32(__builtin_ctz(t.widest));
    return t.group_bits > widest_bits ? t.group_bits : widest_bits;
  }
  GH_FN static index group_of(const table& t, typename F::key k) { return t.home(k); }
  GH_FN static table local(const table& t, typename F::word* slots, u32 n) {
    table part = t;
    part.slots = slots;
    part.n_slots = n;
    part.widest = 1u << (32 - __clz(n - 1));  // so that the limit is the end, wherever the home is
    part.probe_limit = n;
    return part;
  }
  // I2: paths begin where groups do. I1: and no slot becomes EMPTY again.
  static constexpr u32 group_bits(const table& t) { return t.group_bits; }
  GH_FN static index local_home(const table&, u32 group) { return group; }
  template <class Op>
  GH_FN static bool left(const Op& op) {
    return op.left == 0;
  }
};

GH_END
