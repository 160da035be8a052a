// skiplist on the CPU: updates, and what else a mixed batch has, for the driver of drive/host.hpp.
//
// The searches of a block's elements go down to level 0 together (host_walk.hpp), and end some blocks before the elements are
// served: the chunk where one has ended is what the driver takes for the home of a key. From there on each element is an
// operation of ops.hpp, which asks for the chunk as an update needs it, to write. Above level 0 the threads share their copies
// of chunks; only the few operations that name or forget a chunk there ask for one to write.
//
//   U1  Where an operation begins, low is at most its key. For a home that was so when its search ended, and remains so,
//       whatever writers do meanwhile (G2); a zombie leads to a chunk for which it is so (G6).
//   U2  A chunk whose low is at most a key is one whose low is at most any larger key.
#pragma once
#include "host_walk.hpp"
#include "libgpuhash/drive/host_sizes.hpp"
#include "ops.hpp"

GH_BEGIN

// A block ends this many chunks behind the homes of its elements, where its keys ascend behind all others.
inline constexpr u32 most_chunks_over = (blocks_ahead + 1) * block_size;

// Walks: another group is the explorer's.
template <class Tile, u32 Kind, class Walks = walk_group<typename Tile::format, u32(Tile::slots)>>
struct host_update : skip_op<Tile, Kind> {
  using base = skip_op<Tile, Kind>;
  using typename base::index, typename base::key, typename base::table, typename base::value;

  // The chunks of level 0 that enclose n keys, or have done so, and where they lie.
  static void find_homes(const table& t, const key* keys, index* homes, const void** lines, u32 n) {
    Walks g(t);
    for (u32 j = 0; j < n;) {
      u32 walks = 0;
      for (; j < n && walks < g.most; ++j) {
        homes[j] = table::head(0);  // of keys that live in side slots, for which no operation begins
        if (__builtin_expect(is_side_key(keys[j]), 0)) continue;
        g.sought[walks] = keys[j];
        g.of[walks++] = j;
      }
      if (walks) g.template descend<false>(walks);
      for (u32 i = 0; i < walks; ++i) homes[g.of[i]] = index(g.at[i]);
    }
    for (u32 j = 0; j < n; ++j) lines[j] = chunk_at<base::R>(t, u32(homes[j]));
  }

  // An object serves the elements of a block one after the other. Keys that ascend have the same home as a rule, and where the
  // one before is by now is nearer to the next one: the home may have been split often since its search, and what was split
  // off is not named above level 0 at once. The rest of the way to the right is taken here, or elements that begin nearer to
  // their chunks would overtake others: keys that ascend fill chunks only in their order.
  GH_FN void start(const table& t, u32 kd, key a_key, value a_value, index home) {
    const u32 nearer = u32(home) == home_ ? reached(a_key) : none;
    home_ = u32(home);
    this->start_at(kd, a_key, a_value, to_the_right(t, nearer == none ? home_ : nearer, a_key));
  }

 private:
  // The chunk of level 0 where the operation before this one is, or which it has split off; none if that may be right of a key.
  GH_FN u32 reached(key a_key) const {
    if (!this->routes) {
      const bool left = this->k <= a_key || GH_MUTANT(unchecked_key);
      return left && (this->level == 0 || GH_MUTANT(unchecked_level)) ? this->at : none;
    }
    const bool split = deed(this->routes) == deed::raise && this->goal == 1;
    return split && (this->sought <= a_key || GH_MUTANT(unchecked_low)) ? this->child : none;
  }

  // From a chunk to the one that encloses a key, or so far that the operation itself has to see how to go on.
  GH_FN static u32 to_the_right(const table& t, u32 chunk, key k) {
    for (u32 i = 0; i < most_chunks_over; ++i) {
      const auto next = base::Mem::template load<order::relaxed>(chunk_at<base::R>(t, chunk) + base::R - 2);
      const u32 link = table::link_of(next);
      if (__builtin_expect(k <= base::F::key_of(next) || table::is_gone(link), 1)) break;
      chunk = table::target(link);
    }
    return chunk;
  }

  u32 home_ = none;  // of the element that this object has served before
};

GH_END
