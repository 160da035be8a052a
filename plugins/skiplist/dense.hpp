// skiplist: bulk building from pairs in the order of their keys, of all chunks of a table or of those behind its end.
//
// On each level new chunks follow one that is there, number 0, which is filled up first: the head of an empty table, or the
// last chunk of one that has pairs. The pairs of number 0 of level 0 are among the given ones; above level 0 its entries stay,
// and separator keys of new chunks follow them. New chunks lie one behind the other in the pool, level by level.
#pragma once
#include "layout.hpp"
#include "libgpuhash/drive/io.hpp"
#include "libgpuhash/kit/ordered.hpp"

GH_BEGIN

static_assert(table_end::most_levels == most_levels);

// Every chunk but the last of a level has `per` entries, and number 0 perhaps one more.
struct dense_shape {
  u32 levels = 0;                 // that get entries
  u32 top = 0;                    // of the table, afterwards
  u32 taken = 0;                  // chunks of the pool that are handed out before
  u64 all = 0;                    // new chunks
  u64 chunks[most_levels] = {};   // number 0 included
  u64 before[most_levels] = {};   // new chunks of the levels below
  u64 span[most_levels] = {};     // pairs under a chunk
  u64 ahead[most_levels] = {};    // pairs that number 0 has room for and that lie under its own entries
  u32 first[most_levels] = {};    // number 0
  u32 own[most_levels] = {};      // entries of number 0 that stay as they are
  u32 earlier[most_levels] = {};  // those before the one that leads to number 0 one level down

  // For n pairs, on the host. The pairs of the last chunk are among them, and the keys from number `per` on are above
  // `from` of the end: so the names of new chunks come behind all names that are there.
  static dense_shape behind(const table_end& end, u64 n, u32 per, u32 most) {
    dense_shape s;
    s.taken = end.taken;
    u64 entries = n, span = per, ahead = 0;
    for (; s.levels < most; ++s.levels, span *= per) {
      const u32 l = s.levels;
      s.first[l] = end.chunk[l];
      s.own[l] = l ? end.entries[l] : 0;
      s.earlier[l] = l ? (s.own[l] < per ? s.own[l] : per) - 1 : 0;
      entries += s.earlier[l];
      ahead += s.earlier[l] * (span / per);
      s.chunks[l] = entries ? (entries + per - 1) / per : 1;
      s.before[l] = s.all;
      s.span[l] = span;
      s.ahead[l] = ahead;
      s.all += s.chunks[l] - 1;
      entries = s.chunks[l];
      if (entries == 1) {
        ++s.levels;
        break;
      }
    }
    s.top = end.top < s.levels - 1 ? s.levels - 1 : end.top;
    return s;
  }
  // For n pairs of an empty table.
  static dense_shape of(u64 n, u32 per, u32 most) {
    table_end end{};
    end.taken = most;
    for (u32 l = 0; l < most; ++l) {
      end.chunk[l] = l;  // the head
      end.entries[l] = l > 0;
    }
    return behind(end, n, per, most);
  }
};

// Write word i of chunk number j of level l, for n pairs whose keys ascend.
template <class Mem, class Table>
GH_FN void write_dense(const Table& t, const dense_shape& s, u32 l, u64 j, u32 i, u64 n, const void* keys,
                       const void* values, u32 key_bytes, u32 value_bytes, u32 per) {
  using F = typename Table::format;
  using key = typename F::key;
  using value = typename F::value;
  if (j == 0 && (i < s.own[l] || i + 1 == t.slots)) return;
  const auto handle = [&](u32 level, u64 number) {
    return number ? t.handle_of(u32(s.taken + s.before[level] + number - 1)) : s.first[level];
  };
  const auto low = [&](u32 level, u64 number) {  // not of number 0
    return t.encode(read_element<key>(keys, key_bytes, number * s.span[level] - s.ahead[level]));
  };
  typename F::word w = empty_word<F>();
  const u64 e = j * per + i - s.earlier[l];  // of the pairs, or of the chunks one level down
  if (i + 1 == t.slots) {
    w = Table::fresh_lock(l);
  } else if (i + 2 == t.slots) {
    const bool last = j + 1 == s.chunks[l];
    w = Table::next_word(last ? Table::no_key : key(low(l, j + 1) - 1), last ? none : handle(l, j + 1));
  } else if (i < per && e < (l ? s.chunks[l - 1] : n)) {
    w = l ? F::make(low(l - 1, e), handle(l - 1, e))
          : F::make(t.encode(read_element<key>(keys, key_bytes, e)),
                    values ? read_element<value>(values, value_bytes, e) : value(0));
  }
  Mem::template store<order::relaxed>(t.chunk(handle(l, j)) + i, w);
}

GH_END
