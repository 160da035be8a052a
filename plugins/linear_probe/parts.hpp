// linear_probe: a partition of the table as a table of its own. Two drivers follow these rules: that of bulk batches
// (parts.cuh) and the explorer's (bulk_sim.cpp).
//
// A path goes from its home upwards. So the 2^part_bits slots from a multiple of that number on are a table of their own,
// for all keys whose path does not reach the end of these slots.
#pragma once
#include "ops.hpp"

GH_BEGIN

template <class Format>
struct linear_part_rules {
  using F = Format;
  using table = linear_table<F>;
  using index = typename F::index;
  static constexpr bool goes_on = true;
  template <class Tile, u32 Kind>
  using op = linear_op<Tile, Kind, true>;

  static u32 least_bits(const table& t) {
    const u32 widest_bits = u32(__builtin_ctz(t.widest));
    return t.group_bits > widest_bits ? t.group_bits : widest_bits;
  }
  GH_FN static index group_of(const table& t, typename F::key k) { return t.home(k); }
  GH_FN static table local(const table& t, typename F::word* slots, u32 n) {
    table part = t;
    part.slots = slots;
    part.n_slots = n;
    part.widest = 1u << 31;  // no part is longer, so that the limit is the end, wherever the home is
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
