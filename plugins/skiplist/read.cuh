// skiplist on CUDA: reading. The keys of a warp are searched for together, level by level.
//
// In ops.hpp a tile serves its lanes' elements by `step`, which can do everything. A search above level 0 needs little of it:
// of the words of a chunk the last one counts that is an entry up to the key, or NEXT where max is below the key. Its value
// is the chunk to visit next, one level down or to the right. So a visit takes one row, one ballot and one shuffle, and rows
// of four elements of each tile are in flight.
//
// Above level 0 rows may come from L1, beside writers too. What such a load reads was there at some time since the kernel
// began, or since the thread's last fence; it need not be the last that was written, nor as new as what the same thread
// has read before. In PTX's terms it is a strong load whose scope does not include the writers, so it is not morally
// strong with their stores, and neither coherence nor their fences order it; it reads one value that was stored all the
// same. More is not needed:
//   - each entry and each NEXT that a chunk above level 0 ever had leads to a chunk that is not right of the key (G2, G4), and
//     chunks are not used again while a search runs (G8);
//   - a chunk that is not to be seen yet has no entry up to the key, and no max below it. Then, and after a step to the right,
//     the level goes on with loads of device scope, which see what was written in the end.
// On level 0 rows are loaded with device scope, and a miss is looked at twice as `step` does it.
#pragma once
#include "libgpuhash/drive/cuda.cuh"
#include "ops.hpp"
#include "walk.hpp"

GH_BEGIN

// A row of chunks, for the warp's keys. `Tile` says how many lanes read it.
template <class Tile, class Table>
struct skip_reader {
  using F = typename Table::format;
  using key = typename F::key;
  using value = typename F::value;
  using word = typename F::word;
  static constexpr u32 R = Tile::slots, W = Tile::lanes, S = Tile::S;
  static constexpr u32 in_flight = W < 4 ? W : 4;
  static constexpr u32 next_lane = (R - 2) / S;  // that has NEXT, as its first word

  struct row {
    word w[S];
  };
  // What a row says of a key.
  struct view {
    u32 hits;   // lanes of the tile with words that count
    bool same;  // this lane's last one has the key itself
    value x;    // and this value

    GH_FN bool any() const { return hits != 0; }
    GH_FN u32 last_lane() const { return hits ? 31 - u32(__clz(int(hits))) : 0; }
    GH_FN bool goes_right() const { return hits >> next_lane & 1; }
  };

  const Tile& tile;
  const Table& t;

  GH_FN const word* at(u32 chunk) const {
    return t.segment[chunk >> offset_bits] + u64(chunk & (segment_chunks - 1)) * R + tile.lane * S;
  }
  template <bool Near>
  GH_FN row load(u32 chunk) const {
    row r;
    if constexpr (Near)
      cuda_mem::near_16(at(chunk), r.w);
    else if constexpr (S == 2)
      cuda_mem::load_two<false>(at(chunk), r.w);
    else
      r.w[0] = cuda_mem::load<order::relaxed>(at(chunk));
    return r;
  }
  // Words of this lane below which keys count: entries up to k, NEXT below k, LOCK never. k is no side key.
  GH_FN key bound(u32 i, key k) const {
    const u32 place = tile.lane * S + i;
    return place < R - 2 ? key(k + 1) : place == R - 2 ? k : key(0);
  }
  GH_FN view look(const row& r, key k) const {
    view v{0, false, 0};
    bool some = false;
#pragma unroll
    for (u32 i = 0; i < S; ++i) {
      const bool counts = F::key_of(r.w[i]) < bound(i, k);
      some |= counts;
      v.x = counts ? F::value_of(r.w[i]) : v.x;
      v.same = counts ? F::key_of(r.w[i]) == k : v.same;
    }
    v.hits = tile.ballot(some);
    return v;
  }
  GH_FN u32 handle(const view& v) const { return Table::target(shuffle(u32(v.x), v.last_lane(), W)); }

  // The chunk of level 0 in which the key of each lane is, or one left of it. All lanes of the warp; k is no side key.
  GH_FN u32 descend(key k) const {
    const u32 top = shuffle(cuda_mem::load<order::relaxed>(t.top), 0, 32);
    u32 found = 0;
#pragma unroll 1
    for (u32 first = 0; first < W; first += in_flight) {
      const u32 own =
          1u << tile.lane >> first;  // of lane == p, nvcc would make chunk[lane], and put the array into memory
      key sought[in_flight];
      u32 chunk[in_flight];
#pragma unroll
      for (u32 p = 0; p < in_flight; ++p) {
        sought[p] = shuffle(k, first + p, W);
        chunk[p] = Table::head(top);
      }
#pragma unroll 1
      for (u32 level = top; level > 0; --level) {
        u32 left = one_step<true>(sought, chunk, (1u << in_flight) - 1);
        while (__any_sync(full_warp, left != 0)) left = one_step<false>(sought, chunk, left);
      }
#pragma unroll
      for (u32 p = 0; p < in_flight; ++p) found |= own >> p & 1 ? chunk[p] : 0u;
    }
    return found;
  }

 private:
  // One step for the keys whose bits are set in `go`. Returns those that are not one level down yet.
  template <bool Near>
  GH_FN u32 one_step(const key (&sought)[in_flight], u32 (&chunk)[in_flight], u32 go) const {
    row r[in_flight];
#pragma unroll
    for (u32 p = 0; p < in_flight; ++p) r[p] = load<Near>(chunk[p]);
    u32 left = 0;
#pragma unroll
    for (u32 p = 0; p < in_flight; ++p) {
      const view v = look(r[p], sought[p]);
      const u32 to = handle(v);
      const bool goes = go >> p & 1;
      chunk[p] = goes && v.any() ? to : chunk[p];
      left |= goes && (!v.any() || v.goes_right()) ? 1u << p : 0u;
    }
    return left;
  }
};

// find and count. Alone: no batch writes at the same time, so that a miss is a miss at once.
template <class Tile, u32 Kind, class Table, bool Alone>
struct skip_find {
  using F = typename Table::format;
  using table = Table;
  using key = typename F::key;
  using value = typename F::value;
  using word = typename F::word;
  using tile_type = Tile;
  using reader = skip_reader<Tile, Table>;
  static constexpr u32 fixed_kind = Kind;
  static constexpr bool has_slow = false;
  static constexpr int cuda_blocks = Tile::lanes == 4 ? 0 : Alone && sizeof(key) == 4 ? 5 : 4;  // else ptxas spills
  static constexpr u32 W = Tile::lanes, in_flight = reader::in_flight;

  // What the element of this lane answers, if it `carries` one.
  GH_FN static result<F> serve_warp(Tile& tile, const Table& t, joiner j, bool carries, key k) {
    if (!carries) k = 0;
    const reader r{tile, t};
    element e{carries, false, r.descend(k), 0, {}};
    while (__any_sync(full_warp, visit(r, k, e))) {
    }
    if constexpr (!Alone) look_twice(tile, t, j, k, e);
    const value answer = Kind == count ? value(1) : e.x;
    return {u32(e.there), 0, 0, e.there ? answer : value(0)};
  }

 private:
  struct element {
    bool left, there;
    u32 chunk;
    value x;
    word lock;  // of the chunk in which the key was not seen
  };
  // The chunks of level 0 for lanes that are left: there it is, or it is not seen. True: it is further to the right.
  GH_FN static bool visit(const reader& r, key k, element& e) {
    const Tile& tile = r.tile;
    const u32 wanted = tile.ballot(e.left);
    bool moves = false;
#pragma unroll 1
    for (u32 first = 0; first < W; first += in_flight) {
      typename reader::row row[in_flight];
      key sought[in_flight];
#pragma unroll
      for (u32 p = 0; p < in_flight; ++p) {
        sought[p] = shuffle(k, first + p, W);
        const u32 at = shuffle(e.chunk, first + p, W);
        row[p] = {};
        if (wanted >> (first + p) & 1) row[p] = r.template load<false>(at);
      }
#pragma unroll
      for (u32 p = 0; p < in_flight; ++p) {
        const auto v = r.look(row[p], sought[p]);
        const u32 from = v.last_lane();
        const bool right = v.goes_right();
        const bool same = tile.ballot(v.same && tile.lane == from) != 0;
        const value x = shuffle(v.x, from, W);
        const bool own = tile.lane == first + p && e.left;
        e.chunk = own && right ? Table::target(u32(x)) : e.chunk;
        e.there |= own && same && !right;
        e.x = own ? x : e.x;
        if constexpr (!Alone) {
          const word last = shuffle(row[p].w[reader::S - 1], W - 1, W);
          e.lock = own ? last : e.lock;
        }
        moves |= own && right;
      }
    }
    e.left = e.left && !e.there;
    return moves;
  }
  // Misses beside writers: as ops.hpp has them, from the chunk on in which the key was not seen.
  GH_FN static void look_twice(Tile& tile, const Table& t, joiner j, key k, element& e) {
    if (!__any_sync(full_warp, e.left)) return;
    __syncwarp();
    cuda_mem::fence();
    u32 untaken = tile.ballot(e.left), owner = W;
    skip_op<Tile, Kind, Table> op;
    const auto take = [&](bool wanted) {
      const bool some = untaken != 0;
      const u32 from = some ? u32(__ffs(int(untaken))) - 1 : 0;
      skip_op<Tile, Kind, Table> fresh;
      fresh.start_after_look(shuffle(k, from, W), shuffle(e.chunk, from, W), shuffle(e.lock, from, W));
      op = wanted && some ? fresh : op;
      owner = wanted ? (some ? from : W) : owner;
      untaken = wanted ? untaken & (untaken - 1) : untaken;
    };
    op.start_after_look(0, Table::head(0), word{});
    take(true);
    do {
      const auto row = tile.load(op.line(t));
      const verdict d = op.step(tile, t, j, row, owner < W);
      const bool finished = owner < W && d == verdict::done;
      const bool own = finished && tile.lane == owner;
      e.there |= own && op.res.status == yes;
      e.x = own ? op.res.value : e.x;
      take(finished);
    } while (__any_sync(full_warp, owner < W));
  }
};

// The other kinds: a warp descends to level 0 together, and from there on each tile goes its way.
template <class Tile, u32 Kind, class Table>
struct skip_update : skip_op<Tile, Kind, Table> {
  using typename skip_op<Tile, Kind, Table>::key;
  using typename skip_op<Tile, Kind, Table>::value;
  using typename skip_op<Tile, Kind, Table>::index;
  static constexpr int cuda_blocks = Kind == mixed ? 2 : 3;

  GH_FN static index find_home(const Tile& tile, const Table& t, bool carries, key k) {
    return skip_reader<Tile, Table>{tile, t}.descend(carries ? k : key(0));
  }
  GH_FN void start(const Table&, u32 kd, key k, value v, index chunk) { this->start_at(kd, k, v, u32(chunk)); }
};

// Neighbours and ranges while no batch writes.
template <class Tile, class Table>
struct skip_asker : skip_reader<Tile, Table> {
  using base = skip_reader<Tile, Table>;
  using typename base::key;
  using typename base::row;
  using typename base::value;
  using F = typename base::F;
  using walk = skip_walk<cuda_mem, Table>;
  using pair = typename walk::pair;
  using base::in_flight, base::W, base::S, base::R, base::next_lane, base::t, base::tile;

  GH_FN bool is_entry(u32 i, const row& r) const {
    return tile.lane * S + i < R - 2 && F::key_of(r.w[i]) != Table::no_key;
  }
  GH_FN u32 link(const row& r) const { return shuffle(Table::link_of(r.w[0]), next_lane, W); }

  // Visit the chunks of lanes that ask, of level 0, until they do no more: visit(own, row, key, *chunk) is called for each
  // element of a tile by all of its lanes, own in the lane whose element it is; true: that lane asks no more.
  template <class Visit>
  GH_FN void each_chunk(bool asks, key k, Visit visit) const {
    u32 chunk = this->descend(asks ? k : key(0));
    while (__any_sync(full_warp, asks)) {
      const u32 wanted = tile.ballot(asks);
#pragma unroll 1
      for (u32 first = 0; first < W; first += in_flight) {
        row r[in_flight];
#pragma unroll
        for (u32 p = 0; p < in_flight; ++p) {
          const u32 at = shuffle(chunk, first + p, W);
          r[p] = {};
          if (wanted >> (first + p) & 1) r[p] = this->template load<false>(at);
        }
#pragma unroll
        for (u32 p = 0; p < in_flight; ++p) {
          const bool own = asks && tile.lane == first + p;
          if (visit(own, r[p], shuffle(k, first + p, W), &chunk) && own) asks = false;
        }
      }
    }
  }
  // The first pair not below k.
  GH_FN pair least(bool asks, key k) const {
    pair found{false, 0, 0};
    each_chunk(asks && !is_side_key(k), k, [&](bool own, const row& r, key from, u32* chunk) {
      const u32 onward = link(r);
      const bool gone = Table::is_gone(onward);
      key mine = 0;
      value x = 0;
      bool some = false;
#pragma unroll
      for (u32 i = S; i-- > 0;) {
        const bool counts = !gone && is_entry(i, r) && F::key_of(r.w[i]) >= from;
        some |= counts;
        mine = counts ? F::key_of(r.w[i]) : mine;
        x = counts ? F::value_of(r.w[i]) : x;
      }
      const u32 hits = tile.ballot(some), lane = hits ? u32(__ffs(int(hits))) - 1 : 0;
      mine = shuffle(mine, lane, W);
      x = shuffle(x, lane, W);
      if (own && hits) found = {true, mine, x};
      if (own && !hits) *chunk = Table::target(onward);
      return hits != 0 || Table::target(onward) == none;
    });
    for (u32 s = 2; s-- > 0;) {
      const auto w = walk::load(t.side + s);
      if (asks && !found.there && key(~key(0) - s) >= k && F::key_of(w) != empty_key<key>)
        found = {true, key(~key(0) - s), F::value_of(w)};
    }
    return found;
  }
  // The last pair not above k. Where the key's chunk has none, the lane looks for it by itself.
  GH_FN pair greatest(bool asks, key k) const {
    pair found{false, 0, 0};
    for (u32 s = 0; s < 2; ++s) {
      const auto w = walk::load(t.side + s);
      if (asks && !found.there && key(~key(0) - s) <= k && F::key_of(w) != empty_key<key>)
        found = {true, key(~key(0) - s), F::value_of(w)};
    }
    k = is_side_key(k) ? key(dead_key<key> - 1) : k;
    bool none_there = false;
    each_chunk(asks && !found.there, k, [&](bool own, const row& r, key up_to, u32* chunk) {
      const auto v = this->look(r, up_to);
      key mine = 0;
#pragma unroll
      for (u32 i = 0; i < S; ++i) mine = F::key_of(r.w[i]) < this->bound(i, up_to) ? F::key_of(r.w[i]) : mine;
      mine = shuffle(mine, v.last_lane(), W);
      const value x = shuffle(v.x, v.last_lane(), W);
      const bool right = v.goes_right();
      if (own && right) *chunk = Table::target(u32(x));
      if (own && !right && v.any()) found = {true, mine, x};
      none_there |= own && !v.any();
      return !right;
    });
    if (none_there) found = walk{t}.greatest(k);
    return found;
  }
  GH_FN void write_neighbor(const ordered_request& q, size_t i) const {
    const bool asks = i < q.n;
    const key k = asks ? t.encode(read_element<key>(q.low, q.key_bytes, i)) : key(0);
    pair p;
    if (q.which <= above) {
      const bool past = q.which == above && k == empty_key<key>;
      p = least(asks && !past, key(k + (q.which == above)));
    } else {
      const bool past = q.which == below && k == 0;
      p = greatest(asks && !past, key(k - (q.which == below)));
    }
    if (asks) walk{t}.write_pair(q, i, p);
  }

  // The ranges of the lanes' elements. Several of a tile are in flight, a chunk of each at a time. What a chunk has of a range
  // is less than memory is written by; so short ranges of a warp are put together in the block's memory first.
  GH_FN void write_range(const ordered_request& q, size_t i) const {
    GH_BLOCK_MEMORY(staged_pairs, staged);
    const bool mine = i < q.n, limited = q.offsets == nullptr, stages = limited && q.most <= most_staged;
    const u64 staged_from = (i - threadIdx.x) * q.most;
    const auto own = walk{t}.interval_of(q, mine ? i : 0);
    u64 n = walk_along(q, own, mine, limited, stages ? &staged : nullptr, staged_from);
    if (stages) write_staged(q, staged, staged_from, u32(n));
    if (!mine) return;
    n = walk{t}.range_of_side(own, n, [&](u64 j, key k, value v) { walk{t}.emit(q, own, j, k, v); });
    if (q.counts) q.counts[i] = n;
  }
  // The same for parts of ranges (parts.cuh), which either count or write.
  template <class Parts>
  GH_FN void write_part(const ordered_request& q, const Parts& parts, size_t i) const {
    const bool mine = i < q.n * parts.per;
    const auto own = parts.interval_of(walk{t}, q, mine ? i : 0);
    u64 n = walk_along(q, own, mine, false, nullptr, 0);
    if (!mine) return;
    n = walk{t}.range_of_side(own, n, [&](u64 j, key k, value v) { walk{t}.emit(q, own, j, k, v); });
    if (!parts.counted) parts.before[i] = n;
  }

 private:
  struct open_range {
    key low, high;
    u32 chunk;    // to visit next
    u64 to, end;  // where its next pair goes; from end on there is no room
  };
  // Ranges of so many pairs at most, and room for those of a block.
  static constexpr u32 staged_bytes = block_threads <= 256 ? 128 : (u32(32) << 10) / block_threads;  // of a thread
  static constexpr u32 most_staged = staged_bytes / sizeof(typename base::word);
  struct staged_pairs {
    key keys[block_threads * most_staged];
    value values[block_threads * most_staged];
  };
  // The pairs of the lanes' intervals, those of side slots left out. Returns how many this lane's element has.
  GH_FN u64 walk_along(const ordered_request& q, const typename walk::interval& own, bool mine, bool limited,
                       staged_pairs* staged, u64 staged_from) const {
    const u64 own_end = own.first + own.room;
    const key own_high = own.to_end ? dead_key<key> : own.high;  // no chunk has a key from there on
    const u32 asking = tile.ballot(mine && !own.is_empty() && own.low < dead_key<key>);
    if (!__any_sync(full_warp, asking != 0)) return 0;
    const u32 begin = this->descend(asking >> tile.lane & 1 ? own.low : key(0));
    u64 n_own = 0;
#pragma unroll 1
    for (u32 first = 0; first < W; first += in_flight) {
      open_range range[in_flight];
      u32 busy = asking >> first & ((1u << in_flight) - 1);
#pragma unroll
      for (u32 p = 0; p < in_flight; ++p)
        range[p] = {shuffle(own.low, first + p, W), shuffle(own_high, first + p, W), shuffle(begin, first + p, W),
                    shuffle(own.first, first + p, W), shuffle(own_end, first + p, W)};
      while (__any_sync(full_warp, busy != 0)) {
        row r[in_flight];
#pragma unroll
        for (u32 p = 0; p < in_flight; ++p) {
          r[p] = {};
          if (busy >> p & 1) r[p] = this->template load<false>(range[p].chunk);
        }
#pragma unroll
        for (u32 p = 0; p < in_flight; ++p)
          if (write_chunk(q, range[p], r[p], busy >> p & 1, limited, staged, staged_from)) busy &= ~(1u << p);
      }
#pragma unroll
      for (u32 p = 0; p < in_flight; ++p) {
        const u64 n = range[p].to - own.first;
        if (tile.lane == first + p) n_own = n;
      }
    }
    return n_own;
  }
  // Each lane's element has n of them.
  GH_FN void write_staged(const ordered_request& q, const staged_pairs& staged, u64 from, u32 n) const {
    __syncwarp();
    const u32 most = u32(q.most), lane = threadIdx.x % 32, begin = (threadIdx.x - lane) * most;
    for (u32 at = lane; at < 32 * most; at += 32) {
      const u32 element = at / most;
      if (at - element * most >= shuffle(n, element, 32)) continue;
      if (q.out_keys) write_element<key>(q.out_keys, q.key_bytes, from + begin + at, staged.keys[begin + at]);
      if (q.out_values) write_element<value>(q.out_values, q.value_bytes, from + begin + at, staged.values[begin + at]);
    }
  }
  // What a chunk has of a range. True: it was the last one.
  GH_FN bool write_chunk(const ordered_request& q, open_range& range, const row& r, bool go, bool limited,
                         staged_pairs* staged, u64 staged_from) const {
    const u32 onward = link(r);
    const key max = shuffle(F::key_of(r.w[0]), next_lane, W);
    const bool gone = Table::is_gone(onward);
    bool in[S];
    u32 before = 0, here = 0;
#pragma unroll
    for (u32 i = 0; i < S; ++i) {
      const key k = F::key_of(r.w[i]);
      in[i] = go && !gone && is_entry(i, r) && k >= range.low && k < range.high;
      const u32 all = tile.ballot(in[i]);
      before += u32(__popc(all & ((1u << tile.lane) - 1)));
      here += u32(__popc(all));
    }
#pragma unroll
    for (u32 i = 0; i < S; ++i) {
      const u64 at = range.to + before;
      const bool fits = in[i] && at < range.end;
      if (fits && staged) {
        staged->keys[at - staged_from] = t.decode(F::key_of(r.w[i]));
        staged->values[at - staged_from] = F::value_of(r.w[i]);
      } else if (fits) {
        if (q.out_keys) write_element<key>(q.out_keys, q.key_bytes, at, t.decode(F::key_of(r.w[i])));
        if (q.out_values) write_element<value>(q.out_values, q.value_bytes, at, F::value_of(r.w[i]));
      }
      before += in[i];
    }
    range.to += here;
    if (limited && range.to > range.end) range.to = range.end;
    range.chunk = Table::target(onward);
    return (limited && range.to == range.end) || onward == none || (!gone && range.high <= max);
  }
};

GH_END
