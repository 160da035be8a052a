// First probe of all elements: the part of the CUDA driver (cuda.cuh) for structures that serve most keys by one row.
//
// A warp visits the homes of all its elements by straight-line code, P rows in flight per tile (one, if a tile has fewer
// lanes: the compiler would put the operations into memory). An element that needs another row does not hold up its tile:
// such elements are packed onto the tiles afterwards; the first tile takes the first of them, and so
// on, whichever lanes they belong to.
//
// An op that wants it says `static constexpr bool homes_first = true`. It may have
//   void after_home(const table&)                      start() has been called; the home was visited, and said verdict::next
//   static bool absent(const table&, kind, key, home)  the same, asked by the element's own lane, all lanes at once: is it
//                                                      certain without another visit that the key is absent?
//
// Of an operation that only reads, a line says little: there it is, or it is nowhere, or look further. So such an op may
// have, for visits that take fewer instructions than step():
//   static bool looks(const table&)                     may it be done so? The same for all elements
//   static index first_line(const table&, home)         a number for the home's line,
//   static word* line_at(const table&, index)           which is there
//   static Glance look<Glance>(tile, table, row, key)   what the words of this lane say (glance)
// and, where nothing but lines decides about the others, too:
//   static word* line_after(const table&, key, word*, u32)  the next line of the key; with what the glance says in the lane
//                                                       that has the last word of the one before
//   static u32 most_visits(const table&)                lines that are visited after the home, at most; or one less
// And if the others may also be where no line is:
//   static bool goes_by_lines(const table&)             may they be looked for line by line?
//   static bool seek_elsewhere(const table&, key, value*)  is the key there? Its value. Asked by its own lane
#pragma once
#include "libgpuhash/drive/io.hpp"
#include "libgpuhash/tile/cuda.cuh"
#include "libgpuhash/tile/sizes.hpp"

GH_BEGIN

inline constexpr u32 block_threads = 32 * tunable("cuda.block_warps", 8u);

template <class Op>
constexpr bool starts_with_homes() {
  if constexpr (requires { Op::homes_first; })
    return Op::homes_first;
  else
    return false;
}

// What the words of one lane say of a key.
template <class Value>
struct glance {
  bool live, ends;  // it is there; it is nowhere behind
  Value seen;       // its value, if live
  u32 onward;       // for line_after()
};

template <class Op>
concept looks_at_homes = requires(const typename Op::table& t) { Op::looks(t); };
template <class Op>
concept looks_at_lines = looks_at_homes<Op> && requires(const typename Op::table& t) { Op::most_visits(t); };
template <class Op>
concept lies_elsewhere = requires(const typename Op::table& t) { Op::goes_by_lines(t); };

// Visits the homes of all elements of a warp: `left` of a lane is set if the home does not decide its element. Rows of
// four elements of each tile are in flight.
template <class Op, class Index>
GH_FN result<typename Op::F> look_at_homes(const typename Op::tile_type& tile, const typename Op::table& t,
                                           typename Op::key k, Index home, bool* left, u32* onward) {
  using value = typename Op::value;
  constexpr u32 W = Op::tile_type::lanes, in_flight = W < 4 ? W : 4;
  if constexpr (requires { Op::table::stored(k); }) k = Op::table::stored(k);
  const auto at = Op::first_line(t, home);
  u32 live = 0, ends = 0;  // a bit for each lane of the warp
  value seen{};
#pragma unroll 1
  for (u32 first = 0; first < W; first += in_flight) {
    typename Op::tile_type::row row[in_flight];
    glance<value> g[in_flight];
#pragma unroll
    for (u32 p = 0; p < in_flight; ++p) row[p] = tile.load(Op::line_at(t, shuffle(at, first + p, W)));
#pragma unroll
    for (u32 p = 0; p < in_flight; ++p) {
      g[p] = Op::template look<glance<value>>(tile, t, row[p], shuffle(k, first + p, W));
      const u32 all_live = __ballot_sync(full_warp, g[p].live), all_ends = __ballot_sync(full_warp, g[p].ends);
      const bool own = tile.lane == first + p;
      live = own ? all_live : live, ends = own ? all_ends : ends;
    }
    const u32 at_live = tile.first_lane(live);  // of the tile; counts for the elements that were looked for just now
#pragma unroll
    for (u32 p = 0; p < in_flight; ++p) {
      const bool own = tile.lane == first + p;
      if constexpr (Op::F::has_value && Op::fixed_kind == find) {
        const value x = shuffle(g[p].seen, at_live, W);
        seen = own ? x : seen;
      }
      if constexpr (looks_at_lines<Op>) {
        const u32 x = shuffle(g[p].onward, Op::tile_type::last_lane, W);
        *onward = own ? x : *onward;
      }
    }
  }
  const bool there = tile.own_part(live) != 0;
  *left = !there && tile.own_part(ends) == 0;
  const value answer = Op::fixed_kind == count ? value(1) : seen;
  return {u32(there), 0, 0, there ? answer : value(0)};
}

// Elements that need more than their home, for each warp of a block.
template <class Op>
struct waiting_elements {
  typename Op::word* line;
  typename Op::key key;
  typename Op::value value;
  u32 there;
};

// Serves the elements that are left, line after line. A tile takes the next element as soon as it is done with one.
template <class Op>
GH_FN void look_further(const typename Op::tile_type& tile, const typename Op::table& t, typename Op::key k,
                        typename Op::word* line, bool left, result<typename Op::F>* res) {
  using value = typename Op::value;
  constexpr u32 W = Op::tile_type::lanes, tiles = 32 / W;
  const u32 waiting = __ballot_sync(full_warp, left), many = u32(__popc(waiting));
  if (many == 0) return;
  if constexpr (requires { Op::table::stored(k); }) k = Op::table::stored(k);
  using elements = waiting_elements<Op>[block_threads / 32][32];
  GH_BLOCK_MEMORY(elements, list);
  auto* const all = list[threadIdx.x / 32];
  const u32 rank = u32(__popc(waiting & ((1u << threadIdx.x % 32) - 1)));
  if (left) all[rank] = {line, k, value(0), 0};
  __syncwarp();
  const u32 most = Op::most_visits(t);
  u32 mine = tile.shift / W, visits = 1;  // the home
  bool busy = mine < many;
  if (busy) line = all[mine].line, k = all[mine].key;
  while (__any_sync(full_warp, busy)) {
    __syncwarp();  // one lane may write what is beside the words that the others have read
    typename Op::tile_type::row row{};
    if (busy) row = tile.load(line);
    const auto g = Op::template look<glance<value>>(tile, t, row, k);
    const u32 all_live = __ballot_sync(full_warp, g.live), all_ends = __ballot_sync(full_warp, g.ends);
    const u32 onward = shuffle(g.onward, Op::tile_type::last_lane, W);
    const bool there = tile.own_part(all_live) != 0;
    if (busy && there && tile.lane == tile.first_lane(all_live)) all[mine].value = g.seen, all[mine].there = 1;
    ++visits;
    if (busy && (there || tile.own_part(all_ends) || visits > most)) {
      mine += tiles, visits = 1;
      busy = mine < many;
      if (busy) line = all[mine].line, k = all[mine].key;
    } else if (busy) {
      line = Op::line_after(t, k, line, onward);
    }
  }
  __syncwarp();
  if (!left || !all[rank].there) return;
  res->status = yes;
  res->value = Op::fixed_kind == count ? value(1) : all[rank].value;
}

// Lanes of each warp of a block whose elements are not served yet.
struct waiting_lanes {
  u32 lane[block_threads / 32][32];
};

// Elements that their homes have not answered, those of lanes whose `left` is set: all tiles of the warp serve them, a tile one
// element at a time, of whichever lane it is.
template <class Op, class Begin>
GH_FN result<typename Op::F> serve_left(typename Op::tile_type& tile, const typename Op::table& t, joiner j,
                                        Begin begin, bool left, bool beyond, result<typename Op::F> res) {
  using F = typename Op::F;
  constexpr u32 W = Op::tile_type::lanes, tiles = 32 / W;
  GH_BLOCK_MEMORY(waiting_lanes, list);
  u32* const of_warp = list.lane[threadIdx.x / 32];
  for (u32 waiting; (waiting = __ballot_sync(full_warp, left)) != 0;) {
    const u32 rank = u32(__popc(waiting & ((1u << threadIdx.x % 32) - 1)));
    if (left) of_warp[rank] = threadIdx.x % 32;
    __syncwarp();
    const u32 tile_no = tile.shift / W;
    bool busy = tile_no < u32(__popc(waiting));
    const u32 from = busy ? of_warp[tile_no] : 0;
    __syncwarp();  // the list is written anew in the next round
    Op op;
    begin(op, from, 32);
    const bool was_home = shuffle(u32(beyond), from, 32);
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

    const u32 server = rank * W % 32;
    answer = {shuffle(answer.status, server, 32), int(shuffle(u32(answer.live), server, 32)),
              int(shuffle(u32(answer.used), server, 32)), shuffle(answer.value, server, 32)};
    const bool served = left && rank < tiles;
    res = served ? answer : res;
    left = left && !served;
  }
  return res;
}

// The answer of this lane's element, if `carries`; else `no`.
template <class Op, int P, class Index>
GH_FN result<typename Op::F> serve_homes(typename Op::tile_type& tile, const typename Op::table& t, joiner j,
                                         bool carries, u32 kd, typename Op::key k, typename Op::F::value v,
                                         Index home) {
  using F = typename Op::F;
  constexpr u32 W = Op::tile_type::lanes, in_flight = u32(P) < W ? u32(P) : 1;
  constexpr bool no_operand = !in_kinds(Op::fixed_kind, operand_kinds);
  const auto begin = [&](Op& op, u32 from, u32 width) {
    typename F::value a_value{};
    if constexpr (F::has_value && !no_operand) a_value = shuffle(v, from, width);
    const u32 a_kind = Op::fixed_kind == mixed ? shuffle(kd, from, width) : Op::fixed_kind;
    op.start(t, a_kind, shuffle(k, from, width), a_value, shuffle(home, from, width));
  };
  result<F> res{no, 0, 0, 0};
  bool left = carries, beyond = false, glanced = false;
  if constexpr (looks_at_homes<Op>) glanced = Op::looks(t);
  if (glanced) {
    if constexpr (looks_at_homes<Op>) {
      u32 onward = 0;
      res = look_at_homes<Op>(tile, t, k, home, &beyond, &onward);
      left = beyond = beyond && carries;
      if constexpr (looks_at_lines<Op>) {
        bool by_lines = true;
        if constexpr (lies_elsewhere<Op>) by_lines = Op::goes_by_lines(t);
        if (by_lines) {
          if constexpr (requires { Op::absent(t, kd, k, home); })
            if (left) left = !Op::absent(t, kd, k, home);
          typename Op::word* next = nullptr;
          if (left) next = Op::line_after(t, k, Op::line_at(t, Op::first_line(t, home)), onward);
          look_further<Op>(tile, t, k, next, left, &res);
          if constexpr (lies_elsewhere<Op>)
            if (left && res.status != yes && Op::seek_elsewhere(t, k, &res.value)) {
              res.status = yes;
              if constexpr (Op::fixed_kind == count) res.value = 1;
            }
          return res;
        }
      }
    }
  }
  const u32 carried = tile.ballot(carries);
#pragma unroll 1
  for (u32 first = glanced ? W : 0; first < W; first += in_flight) {
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
  __syncwarp();  // accesses from here on are ordered after the loads of other lanes
  if constexpr (requires { Op::absent(t, kd, k, home); })
    if (left && beyond) left = !Op::absent(t, kd, k, home);

  return serve_left<Op>(tile, t, j, begin, left, beyond, res);
}

GH_END
