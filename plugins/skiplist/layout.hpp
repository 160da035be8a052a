// skiplist: the bytes of the table.
//
//   segment  | chunk | chunk | ...                              pool: memory in pieces, so that growth copies nothing
//   chunk    | entry | entry | ... | entry | NEXT | LOCK |      8, 16 or 32 words, read as one row
//   entry    (key, value); above level 0 (key, handle of a chunk one level down). Sorted; EMPTY words follow the last one
//   NEXT     (max, link): the largest key that may be here, and the handle of the chunk to the right, or `none`.
//            A link with the bit `gone`: this chunk is a zombie, and the link names the chunk that took its entries over
//   LOCK     (version, level). The version is odd while a tile writes the chunk; in a zombie it stays so
//
//   level 2  | 0 -> . |-----------------------------------------| k -> . |---
//   level 1  | 0 -> . | c -> . | f -> . |-----------------------| k -> . |---
//   level 0  | a b    | c d e  | f g h  | ...                   | k l    |---
//
// Memory filled with 0xff is a pool of chunks that are not linked yet: entries EMPTY, NEXT gone to `none`, LOCK odd.
// Chunk i is the head of level i. Keys ~0 and ~0-1 live in the side slots (kit/side.hpp), which sort behind all others.
//
// low of a chunk: the least key that may be here. It is written down nowhere but follows from its left neighbour:
//
// Invariants (cited in ops.hpp, tested by check and by the explorer):
//   G1  On each level the live chunks, from the head on along NEXT, cut all keys into [low, max] without gap or overlap:
//       the head's low is 0, another chunk's is its left neighbour's max + 1, the last one's max is ~0.
//   G2  low never changes while a chunk lives. A split takes from the top of a chunk, a merge adds to its top.
//   G3  The entries of a live chunk are sorted, distinct, within [low, max], and no EMPTY word lies before one of them.
//   G4  Above level 0, entry (K, c): low of c is at most K, or, if c is a zombie, so is that of the live chunk that its links
//       lead to. K need not be a key that is in the table.
//   G5  Above level 0 the first entry's key is low. So every chunk that a search visits has an entry to go down by.
//   G6  A zombie changes no more, but that its link may skip other zombies. It leads to a live chunk of the same level.
//   G7  A chunk's words but LOCK are written only by who made LOCK odd, and before it becomes even.
//   G8  No chunk is used again before the next exclusive rebuild.
#pragma once
#include "libgpuhash/tile/tile.hpp"

GH_BEGIN

enum key_order : u32 { order_unsigned = 0, order_signed = 1, order_float = 2 };

inline constexpr u32 most_levels = 24;
inline constexpr u32 most_segments = 24;
inline constexpr u32 offset_bits = 26;  // of a handle; the bits above name the segment
inline constexpr u32 segment_chunks = 1u << offset_bits;
inline constexpr u32 none = 0x7fffffffu;
inline constexpr u32 gone = 0x80000000u;

template <class F>
struct skip_table {
  using format = F;
  using key = typename F::key;
  using value = typename F::value;
  using word = typename F::word;
  using index = typename F::index;
  static_assert(F::has_value, "sets are stored as pairs");

  static constexpr u32 kinds = single_kinds;
  static constexpr bool side_slots = true;
  static constexpr key no_key = empty_key<key>;

  word* side;
  u32* top;    // the highest level that has entries; only ever raised
  u32* taken;  // chunks of the pool that were handed out
  u32 slots;   // words of a chunk
  u32 levels;
  u32 capacity;     // chunks
  u32 merge_below;  // entries
  u32 raise_below;  // of 2^16: p_chunk
  key sign;         // the highest bit of the user's keys, which may be narrower than these
  u32 order;        // of the user's keys
  u32 segments;
  u32 first[most_segments];  // number of the first chunk of a segment
  word* segment[most_segments];

  GH_FN u32 entries() const { return slots - 2; }
  GH_FN word* chunk(u32 handle) const {
    return segment[handle >> offset_bits] + u64(handle & (segment_chunks - 1)) * slots;
  }
  // The handle of the i-th chunk.
  GH_FN u32 handle_of(u32 i) const {
    u32 s = segments - 1;
    while (first[s] > i) --s;
    return s << offset_bits | (i - first[s]);
  }
  GH_FN static u32 head(u32 level) { return level; }

  GH_FN static word next_word(key max, u32 link) { return F::make(max, link); }
  GH_FN static word zombie_word(u32 link) { return F::make(0, link | gone); }
  GH_FN static u32 link_of(word w) { return u32(F::value_of(w)); }
  GH_FN static bool is_gone(u32 link) { return link & gone; }
  GH_FN static u32 target(u32 link) { return link & ~gone; }
  GH_FN static bool is_locked(word lock) { return F::key_of(lock) & 1; }
  GH_FN static word bumped(word lock) { return F::make(key(F::key_of(lock) + 1), F::value_of(lock)); }
  GH_FN static word fresh_lock(u32 level) { return F::make(0, level); }
  GH_FN static u32 level_of(word lock) { return u32(F::value_of(lock)); }
  // Is a new chunk whose least key is k named one level up?
  GH_FN bool raises(key k) const { return (u64(k) * 0x9e3779b97f4a7c15ull >> 48) < raise_below; }

  // User keys are mapped to unsigned numbers of the same order; floats as IEEE 754's totalOrder has them.
  GH_FN key encode(key k) const {
    return order == order_unsigned              ? k
           : order == order_float && (k & sign) ? key(~k & (sign | (sign - 1)))
                                                : key(k ^ sign);
  }
  GH_FN key decode(key k) const {
    return order == order_unsigned               ? k
           : order == order_float && !(k & sign) ? key(~k & (sign | (sign - 1)))
                                                 : key(k ^ sign);
  }
  GH_FN index home(key) const { return 0; }

  // A chunk of the pool for this tile alone, or none.
  template <class Mem>
  GH_FN u32 allocate() const {
    if (Mem::allocation_fails() || Mem::template load<::gpuhash::order::relaxed>(taken) >= capacity) return none;
    const u32 i = Mem::template fetch_add<::gpuhash::order::relaxed>(taken, 1u);
    return i < capacity ? handle_of(i) : none;
  }
};

GH_END
