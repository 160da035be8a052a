// Homes first: the part of the CUDA driver (cuda.cuh) for structures of whose keys most are served by one visit.
//
// A warp visits the homes of all its elements by straight-line code, P rows in flight per tile (one, if a tile has fewer lanes:
// the compiler would put the operations into memory), and no tile waits for an
// element that needs more. Those that do are packed onto the tiles afterwards: the first tile takes the first one, and so
// on, whichever lanes they belong to.
//
// An op that wants it says `static constexpr bool homes_first = true`. It may have
//   void after_home(const table&)                      start() has been called; the home was visited, and said verdict::next
//   static bool absent(const table&, kind, key, home)  the same, asked by the element's own lane, all lanes at once: is it
//                                                      certain without another visit that the key is absent?
#pragma once
#include "libgpuhash/drive/io.hpp"
#include "libgpuhash/tile/cuda.cuh"

GH_BEGIN

template <class Op>
constexpr bool starts_with_homes() {
  if constexpr (requires { Op::homes_first; })
    return Op::homes_first;
  else
    return false;
}

// Which bit of a mask is its n-th one; 32: it has no more than n.
template <u32 Most>
GH_FN u32 bit_number(u32 mask, u32 n) {
#pragma unroll
  for (u32 i = 1; i < Most; ++i) mask = i <= n ? mask & (mask - 1) : mask;
  return mask ? u32(__ffs(int(mask)) - 1) : 32;
}

// What the element of this lane answered, if `carries`; else `no`.
template <class Op, int P, class Index>
GH_FN result<typename Op::F> serve_homes(typename Op::tile_type& tile, const typename Op::table& t, joiner j,
                                         bool carries, u32 kd, typename Op::key k, typename Op::F::value v,
                                         Index home) {
  using F = typename Op::F;
  constexpr u32 W = Op::tile_type::lanes, tiles = 32 / W, in_flight = u32(P) < W ? u32(P) : 1;
  constexpr bool no_operand = Op::fixed_kind == find || Op::fixed_kind == count || Op::fixed_kind == erase;
  const auto begin = [&](Op& op, u32 from, u32 width) {
    typename F::value a_value{};
    if constexpr (F::has_value && !no_operand) a_value = shuffle(v, from, width);
    const u32 a_kind = Op::fixed_kind == mixed ? shuffle(kd, from, width) : Op::fixed_kind;
    op.start(t, a_kind, shuffle(k, from, width), a_value, shuffle(home, from, width));
  };
  result<F> res{no, 0, 0, 0};
  const u32 carried = tile.ballot(carries);
  bool left = carries, beyond = false;

#pragma unroll 1
  for (u32 first = 0; first < W; first += in_flight) {
    Op op[in_flight];
    typename Op::tile_type::row row[in_flight];
#pragma unroll
    for (u32 p = 0; p < in_flight; ++p) {
      begin(op[p], first + p, W);
      row[p] = tile.load(op[p].line(t));
    }
#pragma unroll
    for (u32 p = 0; p < in_flight; ++p) {
      const verdict d = op[p].step(tile, t, j, row[p], carried >> (first + p) & 1);
      const bool own = carries && tile.lane == first + p;
      if (own && d == verdict::done) res = op[p].res;
      left = own ? d != verdict::done : left;
      beyond = own ? d == verdict::next : beyond;
    }
  }
  __syncwarp();  // what follows is ordered after the loads of other lanes
  if constexpr (requires { Op::absent(t, kd, k, home); })
    if (left && beyond) left = !Op::absent(t, kd, k, home);

  for (u32 waiting; (waiting = __ballot_sync(full_warp, left)) != 0;) {
    const u32 from = bit_number<tiles>(waiting, tile.shift / W);
    bool busy = from < 32;
    Op op;
    begin(op, busy ? from : 0, 32);
    const bool was_home = shuffle(u32(beyond), busy ? from : 0, 32);
    if constexpr (requires { op.after_home(t); })
      if (was_home) op.after_home(t);
    result<F> answer{no, 0, 0, 0};
    do {
      typename Op::tile_type::row row{};
      if (busy) row = tile.load(op.line(t));
      verdict d = op.step(tile, t, j, row, busy);
      if constexpr (Op::has_slow) {
        const bool slow = busy && d == verdict::slow;
        if (__any_sync(full_warp, slow)) {
          const verdict after = op.slow(tile, t, j, slow);
          d = slow ? after : d;
        }
      }
      if (busy && d == verdict::done) answer = op.res;  // an op without work may change its own
      busy = busy && d != verdict::done;
    } while (__any_sync(full_warp, busy));

    const u32 rank = u32(__popc(waiting & ((1u << threadIdx.x % 32) - 1)));
    const u32 server = rank * W % 32;
    answer = {shuffle(answer.status, server, 32), int(shuffle(u32(answer.live), server, 32)),
              int(shuffle(u32(answer.used), server, 32)), shuffle(answer.value, server, 32)};
    const bool served = left && rank < tiles;
    res = served ? answer : res;
    left = left && !served;
  }
  return res;
}

GH_END
