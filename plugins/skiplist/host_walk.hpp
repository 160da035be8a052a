// skiplist on the CPU: many walks at a time, and neighbours.
//
// A walk waits for memory at each chunk. So the walks of a group descend together: while one reads its chunk, the chunks of
// the others are on their way. Most walks read one chunk of each level, so that a level is a loop without branches that are
// hard to predict; a walk that has to go to the right does so at once.
//
//   W1  An element of the caller's arrays is read once, before its walk begins.
//   W2  Above level 0 a row may be torn or stale, as in ops.hpp: a name whose key is not above the one that is sought leads
//       to a chunk at or left of it (G4).
//   W3  What is taken from a chunk of level 0, or said not to be there, is taken between two looks at the same even LOCK.
#pragma once
#include "libgpuhash/kit/team.hpp"
#include "libgpuhash/tile/host.hpp"
#include "walk.hpp"

GH_BEGIN

// t.chunk(handle) of a table whose chunks have R words: it is on the way from each chunk to the next.
template <u32 R, class F>
GH_FN typename F::word* chunk_at(const skip_table<F>& t, u32 handle) {
  return t.segment[handle >> offset_bits] + u64(handle & (segment_chunks - 1)) * R;
}

// Tile: another one is the explorer's.
template <class F, u32 R, class Tile = host_tile<F, int(R)>>
class walk_group {
  using table = skip_table<F>;
  using key = typename F::key;
  using word = typename F::word;
  using tile = Tile;
  using mem = typename tile::mem;
  using row = typename tile::row;

 public:
  static constexpr u32 most = tunable("walks", 64u);
  enum class seen : u32 { there, none, elsewhere };

  key sought[most];  // by walk; below those of the side slots
  u32 at[most];      // the chunk where it is
  key low[most];     // which reaches down to this key; above 0 unless it is the first
  u32 names[most];   // the chunk of level 1 that it came by; or none
  u32 of[most];      // whose walk it is

  explicit walk_group(const table& t, u32 chunks_ahead = 0) : t_(t), ahead_(chunks_ahead) {}

  // The first n walks, to the chunks of level 0 that enclose their keys, or have done so. These are on their way then, if
  // AsksForLast.
  template <bool AsksForLast = true>
  void descend(u32 n) {
    key first = sought[0], last = sought[0];
    for (u32 i = 1; i < n; ++i) {
      first = sought[i] < first ? sought[i] : first;
      last = sought[i] > last ? sought[i] : last;
    }
    u32 level = mem::template load<order::relaxed>(t_.top);
    u32 here = table::head(level);
    u32 from = none;
    key reached = 0;
    for (; level > 0; --level) {  // as one, as long as all of them have the same way
      const word name = name_for(here, first);
      if (first != last && !leads(here, name, last)) break;
      from = here;
      reached = F::key_of(name);
      here = u32(F::value_of(name));
    }
    for (u32 i = 0; i < n; ++i) {
      at[i] = here;
      names[i] = from;
      low[i] = reached;
    }
    for (; level > 0; --level)
      for (u32 i = 0; i < n; ++i) {
        const word name = name_for(at[i], sought[i]);
        if (level == 1 && ahead_) ask_ahead(at[i], sought[i]);
        names[i] = at[i];
        low[i] = F::key_of(name);
        at[i] = u32(F::value_of(name));
        if (AsksForLast || level > 1) ask_for(at[i]);
      }
  }

  // The nearest entry in the chunk where walk i is: at least the key, or at most. `none`: it has none, and *next is its NEXT.
  // `elsewhere`: it does not enclose the key any more, or another thread writes; the walk may have moved, and is to look
  // again.
  template <bool Up>
  GH_FN seen look(u32 i, word* entry, word* next) {
    const key k = sought[i];
    const word* const c = chunk_at<R>(t_, at[i]);
    const word before = load(c + R - 1);
    mem::fence();
    const row r = tile().load(c);
    const u32 below = tile().number(up_to(r, Up ? key(k - 1) : k)) & (!Up || k ? ~0u : 0);
    const u32 e = Up ? below : below - 1 + (below == 0);
    *entry = slot(r, c, e);
    *next = slot(r, c, R - 2);
    mem::fence();
    const bool same = load(c + R - 1) == before;
    const bool outside = table::is_gone(table::link_of(*next)) | (k > F::key_of(*next));
    if (__builtin_expect(outside | !same | table::is_locked(before), 0)) {
      if (outside)
        low[i] = step_aside(&at[i], *next, low[i]);
      else
        mem::relax();
      return seen::elsewhere;
    }
    const bool there = Up ? e < R - 2 && F::key_of(*entry) != table::no_key : below != 0;
    return there ? seen::there : seen::none;
  }
  // Walk i becomes number `to`.
  void keep(u32 i, u32 to) {
    sought[to] = sought[i];
    at[to] = at[i];
    low[to] = low[i];
    of[to] = of[i];
  }
  void go_on(u32 i, u32 chunk) {
    at[i] = chunk;
    ask_for(chunk);
  }

 private:
  GH_FN static word load(const word* p) { return mem::template load<order::relaxed>(p); }
  // Both compute this from a row that was loaded just now, or from one that arrives a little later: which of the two
  // takes less time.
  GH_FN static word slot(const row& r, const word* c, u32 i) {
    if constexpr (tile::vector)
      return load(c + i);
    else
      return r.word(i);
  }
  GH_FN static u32 up_to(const row& r, key k) { return tile().at_most(r, k, 0, R - 2); }
  GH_FN void ask_for(u32 chunk) const {
    const auto* const p = reinterpret_cast<const char*>(chunk_at<R>(t_, chunk));
    for (u32 byte = 0; byte < R * sizeof(word); byte += 64) mem::template prefetch<false>(p + byte);
  }
  // The chunks behind the one that encloses k, by their names in this chunk.
  GH_FN void ask_ahead(u32 chunk, key k) const {
    const word* const c = chunk_at<R>(t_, chunk);
    const u32 e = tile().number(up_to(tile().load(c), k));
    for (u32 i = e; i < R - 2 && i < e + ahead_; ++i) {
      const word name = load(c + i);
      if (F::key_of(name) == table::no_key) break;
      ask_for(u32(F::value_of(name)));
    }
  }
  // The name above level 0 by which k is reached, from this chunk or one right of it, to which `chunk` is moved then.
  GH_FN word name_for(u32& chunk, key k) const {
    for (key ignored = 0;;) {
      const word* const c = chunk_at<R>(t_, chunk);
      const row r = tile().load(c);
      const u32 below = up_to(r, k);
      const word name = slot(r, c, 31 - u32(__builtin_clz(below | 1))), next = slot(r, c, R - 2);
      const bool outside = table::is_gone(table::link_of(next)) | (k > F::key_of(next));
      const bool reaches = F::key_of(name) <= k || GH_MUTANT(unchecked_name);
      if (__builtin_expect(reaches & !outside, 1)) return name;
      if (outside)
        ignored = step_aside(&chunk, next, ignored);
      else
        wait();  // linked, and not to be seen yet; or names moved past the loads
    }
  }
  // Is that the name for `last`, too?
  GH_FN bool leads(u32 chunk, word name, key last) const {
    const word* const c = chunk_at<R>(t_, chunk);
    const row r = tile().load(c);
    const word other = slot(r, c, 31 - u32(__builtin_clz(up_to(r, last) | 1)));
    return F::key_of(other) == F::key_of(name) && last <= F::key_of(slot(r, c, R - 2));
  }
  // To where NEXT leads from a chunk. Returns what it reaches down to.
  [[gnu::noinline]] static key step_aside(u32* chunk, word next, key low) {
    const u32 link = table::link_of(next);
    if (table::target(link) == none && !GH_MUTANT(step_to_none)) {  // linked, and not to be seen yet
      wait();
      return low;
    }
    mem::fence();  // the chunk that took a zombie over holds its entries by now
    *chunk = table::target(link);
    return table::is_gone(link) ? low : key(F::key_of(next) + 1);
  }
  static void wait() {
    mem::relax();
    mem::fence();
  }

  const table& t_;
  const u32 ahead_;  // chunks that will be read behind the one that encloses a key
};

// Neighbours of all elements of a request.
template <class F, u32 R>
class host_neighbors {
  using table = skip_table<F>;
  using key = typename F::key;
  using word = typename F::word;
  using group = walk_group<F, R>;
  using walk = skip_walk<host_mem, table>;
  using pair = typename walk::pair;

 public:
  host_neighbors(const table& t, const ordered_request& q) : walk_{t}, q_(q) {}

  void serve() const {
    in_pieces(q_.threads, q_.n, neighbor_cut, [&](size_t begin, size_t end) {
      group g(walk_.t);
      for (size_t b = begin; b < end; b += group::most) {
        const u32 many = u32(end - b < group::most ? end - b : group::most);
        q_.which <= above ? serve<true>(g, b, many) : serve<false>(g, b, many);
      }
    });
  }

 private:
  static constexpr cut neighbor_cut = tunable_cut({1024, 512, 8192, group::most});
  static constexpr pair nothing{false, 0, 0};

  template <bool Up>
  void serve(group& g, size_t b, u32 many) const {
    u32 n = begin<Up>(g, b, many);
    if (n) g.descend(n);
    while (n) {
      u32 kept = 0;
      bool descends = false;
      for (u32 i = 0; i < n; ++i) {
        word entry, next;
        const auto seen = g.template look<Up>(i, &entry, &next);
        if (__builtin_expect(seen == group::seen::there, 1)) {
          answer(b + g.of[i], {true, F::key_of(entry), F::value_of(entry)});
          continue;
        }
        if (seen == group::seen::none) {
          const u32 link = table::link_of(next);
          if (Up ? link == none : g.low[i] == 0) {
            answer(b + g.of[i], Up ? of_side(dead_key<key>) : nothing);
            continue;
          }
          if (Up)
            g.go_on(i, link);
          else
            g.sought[i] = key(g.low[i] - 1);
          descends = !Up;
        }
        g.keep(i, kept++);
      }
      n = kept;
      if (descends) g.descend(n);  // those that only have to look again, too: they are few
    }
  }
  // Walks for the elements from b on; answers those that need none.
  template <bool Up>
  u32 begin(group& g, size_t b, u32 many) const {
    key asked[group::most];
    for (u32 j = 0; j < many; ++j) asked[j] = read_element<key>(q_.low, q_.key_bytes, b + j);
    asm volatile("" : : "r"(asked) : "memory");  // W1
    const key beyond = Up ? empty_key<key> : key(0);
    const bool strictly = q_.which == above || q_.which == below;
    u32 n = 0;
    for (u32 j = 0; j < many; ++j) {
      key k = walk_.t.encode(asked[j]);
      if (__builtin_expect(strictly & (k == beyond), 0)) {
        answer(b + j, nothing);
        continue;
      }
      if (strictly) k = Up ? key(k + 1) : key(k - 1);
      if (__builtin_expect(is_side_key(k), 0)) {
        const pair side = Up ? of_side(k) : of_side_up_to(k);
        if (Up || side.there) {
          answer(b + j, side);
          continue;
        }
        k = key(dead_key<key> - 1);
      }
      g.sought[n] = k;
      g.of[n++] = j;
    }
    return n;
  }
  // Of the side slots' keys, ~0-1 and ~0, the least that is at least k, and the greatest that is at most k.
  [[gnu::noinline]] pair of_side(key k) const {
    pair p = nothing;
    walk_.range_of_side({k, 0, true, 1}, 0, [&](u64, key found, typename F::value v) { p = {true, found, v}; });
    return p;
  }
  [[gnu::noinline]] pair of_side_up_to(key k) const {
    pair p = nothing;
    walk_.range_of_side({dead_key<key>, key(k + 1), k == empty_key<key>, 2}, 0,
                        [&](u64, key found, typename F::value v) { p = {true, found, v}; });
    return p;
  }
  GH_FN void answer(size_t i, const pair& p) const { walk_.write_pair(q_, i, p); }

  const walk walk_;
  const ordered_request q_;
};

GH_END
