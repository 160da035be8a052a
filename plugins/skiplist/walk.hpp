// skiplist: what one lane does on its own, with ordinary loops. Neighbours and ranges beside writers; where a table ends.
//
// Ranges and neighbours read chunk after chunk. What is taken from one chunk is taken between two looks at the same even
// version (or from a zombie's heir), so that each chunk is a snapshot; a range of several chunks is as many snapshots.
#pragma once
#include "layout.hpp"
#include "libgpuhash/drive/io.hpp"
#include "libgpuhash/kit/ordered.hpp"
#include "libgpuhash/tile/mutant.hpp"

GH_BEGIN

enum neighbor_kind : u32 { at_least = 0, above = 1, at_most = 2, below = 3 };

template <class Mem, class Table>
struct skip_walk {
  using F = typename Table::format;
  using key = typename F::key;
  using value = typename F::value;
  using word = typename F::word;
  const Table& t;

  GH_FN static word load(const word* p) { return Mem::template load<order::relaxed>(p); }

  // The chunk of level 0, or of the level `goal` where the table has that, that encloses k. *low: a key that it reaches down to, and which is above 0 unless it is the first.
  GH_FN u32 descend(key k, key* low, u32 goal = 0) const {
    u32 level = Mem::template load<order::relaxed>(t.top);
    u32 at = Table::head(level);
    *low = 0;
    for (;;) {
      const word* const c = t.chunk(at);
      const word next = load(c + t.slots - 2);
      const u32 link = Table::link_of(next);
      if (Table::is_gone(link) || k > F::key_of(next)) {
        if (Table::target(link) == none) {  // linked, and not to be seen yet
          Mem::relax();
          Mem::fence();
          continue;
        }
        Mem::fence();
        if (!Table::is_gone(link)) *low = key(F::key_of(next) + 1);
        at = Table::target(link);
        continue;
      }
      if (level == goal) return at;
      word down{};
      bool any = false;
      for (u32 i = 0; i < t.entries(); ++i) {
        const word w = load(c + i);
        if (F::key_of(w) <= k) {
          down = w;
          any = true;
        }
      }
      if (!any) {
        Mem::relax();
        Mem::fence();
        continue;
      }
      *low = F::key_of(down);
      at = u32(F::value_of(down));
      --level;
    }
  }

  // Call look(entry) for the entries of chunk `at` in order, again and again until no writer has changed it meanwhile; start()
  // comes before each time. Returns NEXT; a zombie's is returned at once.
  template <class Start, class Look>
  GH_FN word snapshot(u32 at, Start start, Look look) const {
    const word* const c = t.chunk(at);
    for (;; Mem::relax()) {
      const word before = load(c + t.slots - 1);
      Mem::fence();
      const word next = load(c + t.slots - 2);
      if (Table::is_gone(Table::link_of(next)) && Table::target(Table::link_of(next)) != none) return next;
      if (Table::is_locked(before)) continue;
      start();
      for (u32 i = 0; i < t.entries(); ++i) {
        const word w = load(c + i);
        if (F::key_of(w) != Table::no_key) look(w);
      }
      Mem::fence();
      if (load(c + t.slots - 1) == before) return next;
    }
  }

  // Pairs with low <= key < high, or to the end; those of range number i of a request go to `first` on, as far as there is
  // room.
  struct interval {
    key low, high;
    bool to_end;
    u64 most;  // that are counted
    u64 first = 0, room = 0;

    GH_FN bool has(key k) const { return k >= low && (to_end || k < high); }
    GH_FN bool is_empty() const { return most == 0 || !(to_end || low < high); }
  };

  // Where part number i of an interval begins, if it is cut into so many: at the lower end of a chunk of level 0 as a rule. The
  // parts are as long as the names above are even. Each is found on its own, in time that its length does not matter to.
  //   P1  cut(of, i, parts) is in the interval, or its low.
  //   P2  cut(of, 0, parts) is its low, and while no batch writes cut(of, i, parts) does not fall as i rises.
  // Any ascending keys would do: what is read here only decides how long the parts are.
  GH_FN key cut(const interval& of, u32 i, u32 parts) const {
    key low = of.low;
    if (of.is_empty()) return low;
    key last = of.to_end ? dead_key<key> : key(of.high - 1);
    u32 level = Mem::template load<order::relaxed>(t.top);
    for (u32 at = Table::head(level); level > 0 && i > 0;) {
      const word* const c = t.chunk(at);
      const word next = load(c + t.slots - 2);
      const u32 link = Table::link_of(next);
      if (Table::is_gone(link) || low > F::key_of(next)) {
        if (Table::target(link) == none) break;  // not to be seen yet
        Mem::fence();
        at = Table::target(link);
        continue;
      }
      u32 first = 0, end = 0;  // the entries below which low .. last are: from the last one up to `low`
      for (u32 e = 0; e < t.entries(); ++e) {
        const key k = F::key_of(load(c + e));
        first += e > 0 && k <= low;
        end += k <= last;
      }
      if (end <= first) break;  // another thread writes; as below
      const u32 place = i * (end - first), e = first + place / parts;
      const word down = load(c + e);
      if (F::key_of(down) > last) break;
      if (F::key_of(down) > low) low = F::key_of(down);
      const key after = e + 1 < end ? F::key_of(load(c + e + 1)) : key(0);
      if (after > low && after <= last) last = key(after - 1);
      i = place % parts;
      at = u32(F::value_of(down));
      --level;
    }
    return low;
  }

  // The pairs of an interval in ascending order: emit(i, key, value) for the i-th, more than once where a chunk has to be
  // read again. Returns how many there are.
  template <class Emit>
  GH_FN u64 range(const interval& of, Emit emit) const {
    u64 n = 0;
    key from = of.low;
    if (from < dead_key<key> && !of.is_empty()) {
      key ignored = 0;
      u32 at = descend(from, &ignored);
      for (;;) {
        u64 here = 0;
        const word next = snapshot(
            at, [&] { here = n; },
            [&](word w) {
              const key k = F::key_of(w);
              if (k < from || !of.has(k) || here == of.most) return;
              emit(here++, k, F::value_of(w));
            });
        const u32 link = Table::link_of(next);
        if (Table::is_gone(link)) {  // its heir has what was here, and more to the left of it
          Mem::fence();
          at = Table::target(link);
          continue;
        }
        const key max = F::key_of(next);
        if (from > max) {  // a zombie's heir may have been split
          at = Table::target(link);
          continue;
        }
        n = here;
        if (n == of.most || link == none || (!of.to_end && of.high <= max)) break;
        from = key(max + 1);
        at = Table::target(link);
      }
    }
    return range_of_side(of, n, emit);
  }
  // After n others: the side keys, ~0-1 and then ~0.
  template <class Emit>
  GH_FN u64 range_of_side(const interval& of, u64 n, Emit emit) const {
    for (u32 s = 2; s-- > 0 && n < of.most;) {
      const key k = key(~key(0) - s);
      if (!of.has(k)) continue;
      const word w = load(t.side + s);
      if (F::key_of(w) != empty_key<key>) emit(n++, k, F::value_of(w));
    }
    return n;
  }

  struct pair {
    bool there;
    key k;
    value v;
  };
  GH_FN pair least(key from) const {  // not below
    pair p{false, 0, 0};
    range({from, 0, true, 1}, [&](u64, key k, value v) { p = {true, k, v}; });
    return p;
  }
  GH_FN pair greatest(key up_to) const {  // not above
    for (u32 s = 0; s < 2; ++s) {
      const key k = key(~key(0) - s);
      const word w = load(t.side + s);
      if (k <= up_to && F::key_of(w) != empty_key<key>) return {true, k, F::value_of(w)};
    }
    if (up_to >= dead_key<key>) up_to = key(dead_key<key> - 1);
    for (key bound = up_to;;) {
      key low = 0;
      u32 at = descend(bound, &low);
      pair p{false, 0, 0};
      for (;;) {
        const word next = snapshot(
            at, [&] { p = {false, 0, 0}; },
            [&](word w) {
              if (F::key_of(w) <= bound) p = {true, F::key_of(w), F::value_of(w)};
            });
        const u32 link = Table::link_of(next);
        if (!Table::is_gone(link) && bound <= F::key_of(next)) break;
        Mem::fence();
        if (!Table::is_gone(link)) low = key(F::key_of(next) + 1);
        at = Table::target(link);
      }
      if (p.there || low == 0) return p;
      bound = key(low - 1);  // this chunk has nothing from low to bound
    }
  }
  // at_least and above; at_most and below
  GH_FN pair up(u32 which, key k) const {
    if (which == at_least) return least(k);
    return k == empty_key<key> ? pair{false, 0, 0} : least(key(k + 1));
  }
  GH_FN pair down(u32 which, key k) const {
    if (which == at_most) return greatest(k);
    return k == 0 ? pair{false, 0, 0} : greatest(key(k - 1));
  }

  // The end of the table, and the pairs of its last chunk, while no batch writes. Merges may have left names behind
  // that lie right of the last chunk's low (G4, G5): `from` is not below these either.
  GH_FN void write_end(table_end* end, key* keys, value* values) const {
    const u32 top = load_word(t.top);
    for (u32 l = top + 1; l < t.levels; ++l) {  // heads that name heads
      end->chunk[l] = Table::head(l);
      end->entries[l] = 1;
    }
    key from = 0;
    for (u32 l = top, at = Table::head(top);; --l) {
      at = last_from(at, &from);
      u32 n = 0;
      word last{};
      for (u32 i = 0; i < t.entries(); ++i) {
        const word w = load(t.chunk(at) + i);
        if (F::key_of(w) == Table::no_key) break;
        last = w;
        ++n;
      }
      end->chunk[l] = at;
      end->entries[l] = n;
      if (l == 0) break;
      from = F::key_of(last) > from ? F::key_of(last) : from;
      at = u32(F::value_of(last));
    }
    end->from = from;
    end->top = top;
    end->taken = load_word(t.taken);
    end->below = copy_last(end->chunk[0], from, keys, values);
    end->falls_short = 0;
  }
  template <bool Up>
  GH_FN void write_neighbor(const ordered_request& q, size_t i) const {
    const key k = t.encode(read_element<key>(q.low, q.key_bytes, i));
    write_pair(q, i, Up ? up(q.which, k) : down(q.which, k));
  }
  GH_FN void write_pair(const ordered_request& q, size_t i, const pair& p) const {
    if (q.found) q.found[i] = p.there;
    if (q.out_keys) write_element<key>(q.out_keys, q.key_bytes, i, p.there ? t.decode(p.k) : key(0));
    if (q.out_values) write_element<value>(q.out_values, q.value_bytes, i, p.there ? p.v : value(0));
  }
  GH_FN interval interval_of(const ordered_request& q, size_t i) const {
    interval r{};
    r.low = q.low ? t.encode(read_element<key>(q.low, q.key_bytes, i)) : key(0);
    r.high = q.high ? t.encode(read_element<key>(q.high, q.key_bytes, i)) : key(0);
    r.to_end = q.high == nullptr;
    r.first = u64(i) * q.most;  // where nothing is written, most may be anything
    r.room = q.most;
    if (q.offsets) {  // the caller's, who may have put anything there
      r.first = q.offsets[i];
      const u64 end = q.offsets[i + 1] < q.most ? q.offsets[i + 1] : q.most;
      r.room = r.first < end ? end - r.first : 0;
    }
    // With offsets all pairs are counted, so that the caller knows whether there was room for them.
    r.most = q.offsets ? ~u64(0) : q.most;
    return r;
  }
  GH_FN void emit(const ordered_request& q, const interval& r, u64 j, key k, value v) const {
    if (j >= r.room) return;
    if (q.out_keys) write_element<key>(q.out_keys, q.key_bytes, r.first + j, t.decode(k));
    if (q.out_values) write_element<value>(q.out_values, q.value_bytes, r.first + j, v);
  }
  GH_FN void write_range(const ordered_request& q, size_t i) const {
    const interval r = interval_of(q, i);
    const u64 n = range(r, [&](u64 j, key k, value v) { emit(q, r, j, k, v); });
    if (q.counts) q.counts[i] = n;
  }

 private:
  GH_FN static u32 load_word(const u32* p) { return Mem::template load<order::relaxed>(p); }
  // The last chunk of a level, from one of its chunks on. *from is raised to its low where that is seen.
  GH_FN u32 last_from(u32 at, key* from) const {
    for (;;) {
      const word next = load(t.chunk(at) + t.slots - 2);
      const u32 link = Table::link_of(next);
      if (link == none) return at;
      if (!Table::is_gone(link) && F::key_of(next) >= *from) *from = key(F::key_of(next) + 1);
      at = Table::target(link);
    }
  }
  // The pairs of a chunk. Returns how many of them have keys below `from`.
  GH_FN u32 copy_last(u32 chunk, key from, key* keys, value* values) const {
    u32 below = 0;
    for (u32 i = 0; i < t.entries(); ++i) {
      const word w = load(t.chunk(chunk) + i);
      if (F::key_of(w) == Table::no_key) break;
      keys[i] = F::key_of(w);
      if (values) values[i] = F::value_of(w);
      below += F::key_of(w) < from;
    }
    return below;
  }
};

GH_END
