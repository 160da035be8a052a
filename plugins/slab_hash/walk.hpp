// slab_hash while a table is held exclusively: FLUSH and SEARCHALL, one lane per chain.
#pragma once
#include "layout.hpp"
#include "libgpuhash/drive/io.hpp"

GH_BEGIN

// The paper's FLUSH of one bucket: live pairs move to the front of the chain, the slabs behind the last of them are wiped
// and go back to the heap. Returns how many dead slots were dropped.
template <class Mem, class Table>
GH_FN u32 flush_bucket(const Table& t, typename Table::index b) {
  using F = typename Table::format;
  using word = typename F::word;
  const u32 data = t.slab_slots - 1;
  u32 dropped = 0, filled = 0, last = no_unit;  // last: the slab that is being filled, if it is not the base slab
  word* to = t.bucket(b);
  t.template each_word<Mem>(b, [&](word* from, word w) {
    if (!is_live<F>(w)) {
      ++dropped;
      return;
    }
    if (filled == data) {
      last = Table::next_of(Mem::template load<order::relaxed>(to + data));
      to = t.slab(last);
      filled = 0;
    }
    if (to + filled != from) Mem::template store<order::relaxed>(to + filled, w);
    ++filled;
  });
  if (!dropped) return 0;
  if (t.duplicates) Mem::template store<order::relaxed>(t.tail(b), last);  // S6
  u32 next = Table::next_of(Mem::template load<order::relaxed>(to + data));
  for (u32 i = filled; i <= data; ++i) Mem::template store<order::relaxed>(to + i, empty_word<F>());
  while (next != no_unit) {
    word* const spare = t.slab(next);
    const u32 after = Table::next_of(Mem::template load<order::relaxed>(spare + data));
    for (u32 i = 0; i <= data; ++i) Mem::template store<order::relaxed>(spare + i, empty_word<F>());  // A2
    t.heap.template release<Mem>(next);
    next = after;
  }
  return dropped;
}

// The end of a chain that a rebuild fills, which no other tile writes to.
template <class Mem, class Table>
struct chain_end {
  using word = typename Table::format::word;
  word* slab;
  u32* tail;  // NULL: the table keeps none
  u32 filled;

  GH_FN static chain_end of(const Table& t, typename Table::index b) {
    return {t.bucket(b), t.duplicates ? t.tail(b) : nullptr, 0};
  }

  // False: there was no unit for one more slab.
  GH_FN bool append(const Table& t, word w) {
    const u32 data = t.slab_slots - 1;
    if (filled == data) {
      const u32 unit = t.heap.template allocate<Mem>(u64(reinterpret_cast<uintptr_t>(slab)) >> 4);
      if (unit == no_unit) return false;
      Mem::template store<order::relaxed>(slab + data, Table::link_to(unit));  // S4
      if (tail) Mem::template store<order::relaxed>(tail, unit);               // S6
      slab = t.slab(unit);
      filled = 0;
    }
    Mem::template store<order::relaxed>(slab + filled++, w);
    return true;
  }
};

// Do the buckets of both ascend with the same hash, so that each new one's pairs lie in a few old ones?
template <class Table>
inline bool ascend_together(const Table& from, const Table& to) {
  return from.hash_kind == slab_murmur && to.hash_kind == slab_murmur && from.seed == to.seed;
}

// SEARCHALL of one key: its values, in the order of its chain, as many as were counted. If the caller has written to
// the array of keys since then, some values are left out or zero, but nothing is written to the places of other keys.
template <class Mem, class Table>
GH_FN void write_values(const Table& t, const request& q, size_t i, const uint64_t* offsets) {
  using F = typename Table::format;
  const auto k = read_key<F>(q, i), stored = Table::stored(k);
  const u64 end = offsets[i + 1];
  u64 at = offsets[i];
  t.template each_word<Mem>(t.home(k), [&](typename F::word*, typename F::word w) {
    if (F::key_of(w) == stored && at < end)
      write_element<typename F::value>(q.out_values, q.value_bytes, at++, F::value_of(w));
  });
  for (; at < end; ++at) write_element<typename F::value>(q.out_values, q.value_bytes, at, typename F::value(0));
}

GH_END
