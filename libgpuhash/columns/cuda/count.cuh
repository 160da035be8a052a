// Groups of a column on a CUDA device: counts the rows of each bin; or those of each key, where a column has few keys.
//
// A block begins with a table of the keys that it meets, in its memory. Where all blocks come to the end of the column so,
// and their keys together are few, too, the counts and first rows of all groups are known before any row is moved, and no
// row has to be (few.cuh). A block whose table is full adds the counts of its keys to those of their bins, and counts by bins
// from there on.
#pragma once
#include <algorithm>

#include "libgpuhash/columns/cuda/sample.cuh"

namespace gpuhash::columns {

constexpr u32 count_each = 8;  // rows of a thread at a time
constexpr u32 nowhere = ~0u;   // instead of a place in a table

// The keys of rows from `row` on, of a column of n rows: those behind its end are 0. aligned: does the column begin at a
// multiple of 16 bytes?
template <class K>
GH_FN neighbours<K> neighbours_at(const K* keys, u64 row, u64 n, bool aligned) {
  constexpr u32 many = neighbours<K>::many;
  if (aligned && row + many <= n) return *reinterpret_cast<const neighbours<K>*>(keys + row);
  neighbours<K> some;
#pragma unroll
  for (u32 i = 0; i < many; ++i) some.of[i] = row + i < n ? keys[row + i] : 0;
  return some;
}

// Adds 1 to the counter of each of `live` bins in the memory of the block. Neighbours often have the same one in columns
// that are sorted, and hardware would serve them one after the other. All lanes of the warp call. Returns whether all
// bins of the warp are alike.
template <u32 Many>
GH_FN bool count_neighbours(u32* counters, const u32 (&bin)[Many], u32 live) {
  const u32 first = __shfl_sync(whole_warp, bin[0], 0);
  bool alike = live == Many;
#pragma unroll
  for (u32 i = 1; i < Many; ++i) alike &= bin[i] == bin[0];
  if (!__any_sync(whole_warp, !alike || bin[0] != first)) {
    if (threadIdx.x % 32 == 0) atomicAdd(counters + first, 32 * Many);
    return true;
  }
  if (alike) {
    atomicAdd(counters + bin[0], Many);
  } else {
#pragma unroll
    for (u32 i = 0; i < Many; ++i)
      if (i < live) atomicAdd(counters + bin[i], 1u);
  }
  return false;
}

// The place of a key, which comes into the table while that has room; else `nowhere`. The table consists of buckets: a key is
// in the first slot that was empty, from its bucket on. keys: how many there are.
struct entered {
  u32 place;
  bool is_new;
};
template <class K>
GH_FN entered enter(K* table, u32 slots, u32* keys, K h) {
  u32 at = frequent_bucket(slots, h);
#pragma unroll 1
  for (u32 i = 0; i < few_probes; ++i, at = (at + 1) & (slots - 1)) {
    K there = static_cast<volatile K*>(table)[at];
    if (there == no_hash<K>) {
      if (*static_cast<volatile u32*>(keys) >= slots / 8 * 5) break;
      there = swap_if(table + at, no_hash<K>, h);
      if (there == no_hash<K>) {
        atomicAdd(keys, 1u);
        return {at, true};
      }
    }
    if (there == h) return {at, false};
  }
  return {nowhere, false};
}

// Rows that a block counts. A thread takes neighbouring ones, and has the next ones on their way meanwhile.
template <class K>
class counted_rows {
 public:
  static constexpr u32 many = neighbours<K>::many, each = count_each / many;
  static constexpr u64 piece = u64(count_threads) * count_each;

  GH_FN counted_rows(const K* a_column, u64 rows)
      : column(a_column), n(rows), from(blockIdx.x * piece), aligned(uintptr_t(a_column) % 16 == 0) {
    load(from);
  }
  GH_FN bool left() const { return from < n; }
  // The next ones become those that are here.
  GH_FN void take() {
#pragma unroll
    for (u32 i = 0; i < each; ++i) now[i] = next[i];
    load(from + gridDim.x * piece);
  }
  GH_FN void go_on() { from += gridDim.x * piece; }
  GH_FN u64 row(u32 i) const { return from + (i * count_threads + threadIdx.x) * many; }
  // How many of the neighbours are there.
  GH_FN u32 live(u32 i) const { return row(i) < n ? u32(min(u64(many), n - row(i))) : 0; }
  // Are all rows of the piece there?
  GH_FN bool whole() const { return from + piece <= n; }

  neighbours<K> now[each], next[each];

 private:
  GH_FN void load(u64 at) {
#pragma unroll
    for (u32 i = 0; i < each; ++i)
      next[i] = neighbours_at(column, at + (i * count_threads + threadIdx.x) * many, n, aligned);
  }

  const K* column;
  u64 n, from;
  bool aligned;
};

// ByKeys: the column may have few keys.
template <class K, bool ByKeys>
class counting_block {
  using rows = counted_rows<K>;
  static constexpr u32 many = rows::many, each = rows::each;

 public:
  struct counters {
    u32 keys, once, twice, is_full;  // keys in the table; those of one tried row, and of two
  };
  static size_t bytes(const group_plan& p, const group_wants& wants) {
    const size_t slots = p.few_slots, of_bins = size_t{4} * p.columns << p.counted_bits();
    const size_t of_keys = ByKeys ? room_of(slots, sizeof(K)) + (wants.first ? 3 : 2) * room_of(slots + 1, 4) : 0;
    return std::max(of_bins, of_keys);
  }

  GH_FN counting_block(const group_work<K>& work, unsigned char* at, counters* some)
      : w(work),
        me(threadIdx.x),
        slots(work.plan.few_slots),
        bits(work.plan.counted_bits()),
        memory(at),
        counted(reinterpret_cast<u32*>(at)),
        key(memory.take<K>(slots)),
        count(memory.take<u32>(slots + 1)),
        of_all(memory.take<u32>(slots + 1)),
        first(memory.take<u32>(slots + 1)),
        c(*some) {}

  GH_FN void run() {
    rows some(w.keys, w.split);
    bool done = false;
    if (ByKeys && are_few())
      done = count_keys(some);
    else
      clear_bins();
    if (done) give_keys();
    if (ByKeys && !done && me == 0) w.facts->many_keys = 1;
    if (!done || __any_sync(whole_warp, *static_cast<volatile u32*>(&w.facts->many_keys))) sample_share(w);
    if (!done) count_bins(some);
  }

 private:
  // ---- by keys -------------------------------------------------------------------------------------------------------

  // So many rows of the column, the same in all blocks, say whether it pays to begin: by how many keys they have, and by how many
  // more there are at least, of which no row was met (Chao 1984: by those of one row, and of two).
  GH_FN bool are_few() {
    const u32 tried = min(count_threads, w.n);
    const K k = me < tried ? w.keys[reduce(mix(~me), w.n)] : 0;
    clear(key, slots, no_hash<K>);
    clear(count, slots + 1, 0u);
    if (me == 0) c = {};
    __syncthreads();
    const u32 place = me < tried ? place_of<false>(w.hash(k)) : nowhere;
    if (place != nowhere) {
      const u32 before = atomicAdd(count + place, 1u);
      if (before < 2) atomicAdd(&c.once, before == 0 ? 1u : ~0u);
      if (before == 1 || before == 2) atomicAdd(&c.twice, before == 1 ? 1u : ~0u);
    } else if (me < tried) {
      atomicOr(&c.is_full, 1u);
    }
    __syncthreads();
    const bool are_many = c.is_full || c.keys + c.once * (c.once - 1) / 2 / (c.twice + 1) > slots / 2;
    if (__syncthreads_or(are_many)) return false;  // all threads have read this, before one finds no room below
    for (u32 i = me; i < slots; i += count_threads)
      if (key[i] != no_hash<K>) enter_all(i, key[i]);
    clear(count, slots + 1, 0u);
    if (w.wants.first) clear(first, slots + 1, no_row);
    __syncthreads();
    return true;
  }
  template <class Word>
  GH_FN void clear(Word* words, u32 n, Word word) const {
    for (u32 i = me; i < n; i += count_threads) words[i] = word;
  }

  // Shared: a new key comes into the table of all blocks, too.
  template <bool Shared>
  GH_FN u32 place_of(K h) {
    if (h == no_hash<K>) return slots;
    const entered at = enter(key, slots, &c.keys, h);
    if (Shared && at.is_new) enter_all(at.place, h);
    return at.place;
  }
  GH_FN void enter_all(u32 place, K h) {
    of_all[place] = enter(w.few_key, slots, &w.facts->few_keys, h).place;
    if (of_all[place] != nowhere) return;
    w.facts->many_keys = 1;
    atomicOr(&c.is_full, 1u);
  }

  // Returns whether the tables had room to the end. If not, keys have been counted by their bins since, and the rows after
  // these are still to be counted.
  GH_FN bool count_keys(rows& some) {
    u32 missed = 0;  // rows of this thread, by their numbers
    while (some.left()) {
      const u32 many_keys = *static_cast<volatile u32*>(&w.facts->many_keys);
      some.take();
      missed = count_piece(some);
      some.go_on();
      if (missed || many_keys) atomicOr(&c.is_full, 1u);
      if (__any_sync(whole_warp, *static_cast<volatile u32*>(&c.is_full))) break;
    }
    __syncthreads();
    if (!c.is_full) return true;
    keys_to_bins();
#pragma unroll
    for (u32 i = 0; i < count_each; ++i)
      if (missed >> i & 1) atomicAdd(counted + bin_of(w.hash(some.now[i / many].of[i % many]), bits), 1u);
    return false;
  }
  // Returns which of the rows of this thread found no room. Most keys are found by one read, the others one after the other,
  // and those of the last piece, which may end before. All lanes of a warp call.
  GH_FN u32 count_piece(const rows& some) {
    K h[count_each];
    u32 left = 0, missed = 0;
#pragma unroll
    for (u32 i = 0; i < count_each; ++i) h[i] = w.hash(some.now[i / many].of[i % many]);
    if (some.whole()) {
      u32 place[count_each];
#pragma unroll
      for (u32 i = 0; i < count_each; ++i) {
        place[i] = find(h[i], 0);
        left |= u32(place[i] == nowhere) << i;
      }
#pragma unroll
      for (u32 i = 0; i < count_each; i += many) count_found(place + i, some.row(i / many));
    } else {
#pragma unroll
      for (u32 i = 0; i < count_each; ++i) left |= u32(i % many < some.live(i / many)) << i;
    }
#pragma unroll 1
    for (; left; left &= left - 1) {
      const u32 i = __ffs(left) - 1;
      K of_row = h[0];
#pragma unroll
      for (u32 x = 1; x < count_each; ++x)
        if (i == x) of_row = h[x];
      u32 at = find(of_row, 1);
      if (at == nowhere) at = place_of<true>(of_row);
      if (at == nowhere)
        missed |= 1u << i;
      else
        add(at, 1, some.row(i / many) + i % many);
    }
    __syncwarp();
    return missed;
  }
  // The place of a key in its bucket, or in one of those behind it; or `nowhere`.
  GH_FN u32 find(K h, u32 bucket) const {
    const u32 at = (frequent_bucket(slots, h) + bucket * many) & (slots - 1);
    const neighbours<K> there = *reinterpret_cast<const neighbours<K>*>(key + at);
    u32 place = nowhere;
#pragma unroll
    for (u32 j = 0; j < many; ++j)
      if (there.of[j] == h) place = at + j;
    return h == no_hash<K> ? nowhere : place;
  }
  // place: of the keys of neighbours, of which `row` is the first one.
  GH_FN void count_found(const u32* place, u64 row) {
    bool are_alike = place[0] != nowhere;
#pragma unroll
    for (u32 j = 1; j < many; ++j) are_alike &= place[j] == place[0];
    const u32 one = __shfl_sync(whole_warp, place[0], 0);
    if (!__any_sync(whole_warp, !are_alike || place[0] != one)) {
      if (me % 32 == 0) add(one, 32 * many, row);
      alike += 32 * many;
      return;
    }
#pragma unroll
    for (u32 j = 0; j < many; ++j)
      if (place[j] != nowhere) add(place[j], 1, row + j);
  }
  // Rows of a key, of which this is the first one.
  GH_FN void add(u32 place, u32 rows_of_key, u64 row) {
    atomicAdd(count + place, rows_of_key);
    if (w.wants.first && row < static_cast<volatile u32*>(first)[place]) atomicMin(first + place, u32(row));
  }

  // The counters of bins take the place of the table.
  GH_FN void keys_to_bins() {
    constexpr u32 of_thread = (most_few_slots + count_threads - 1) / count_threads;
    K h[of_thread];
    u32 rows_of[of_thread];
#pragma unroll
    for (u32 i = 0; i < of_thread; ++i) {
      const u32 slot = i * count_threads + me;
      h[i] = slot < slots ? key[slot] : no_hash<K>;
      rows_of[i] = h[i] != no_hash<K> ? count[slot] : 0;
    }
    if (me == 0 && count[slots]) w.facts->side = 1;  // its rows never come into a bin
    clear_bins();
#pragma unroll
    for (u32 i = 0; i < of_thread; ++i)
      if (rows_of[i]) atomicAdd(counted + bin_of(h[i], bits), rows_of[i]);
  }

  GH_FN void give_keys() {
    for (u32 slot = me; slot <= slots; slot += count_threads) {
      if (!count[slot]) continue;
      const u32 place = slot < slots ? of_all[slot] : slots;
      if (slot == slots) w.facts->side = 1;
      atomicAdd(w.few_count + place, count[slot]);
      if (w.wants.first) atomicMin(w.few_first + place, first[slot]);
    }
    if (me % 32 == 0 && alike) atomicAdd(&w.facts->alike, alike);
  }

  // ---- by bins -------------------------------------------------------------------------------------------------------

  // All threads call.
  GH_FN void clear_bins() const {
    __syncthreads();  // the memory is read no more
    for (u32 i = me; i < w.plan.columns << bits; i += count_threads) counted[i] = 0;
    __syncthreads();
  }
  GH_FN void count_bins(rows& some) {
    u32* counters_of_bins = counted;
    bool side = false;
#pragma unroll 1
    for (u32 column = 0; column < 2; ++column) {
      for (; some.left(); some.go_on()) {
        some.take();
#pragma unroll
        for (u32 i = 0; i < each; ++i) {
          const u32 live = some.live(i);
          u32 bin[many];
#pragma unroll
          for (u32 j = 0; j < many; ++j) {
            const K h = w.hash(some.now[i].of[j]);
            side |= j < live && h == no_hash<K>;
            bin[j] = bin_of(h, bits);
          }
          if (count_neighbours(counters_of_bins, bin, live)) alike += 32 * many;
        }
      }
      if (w.split == w.n) break;
      some = rows(w.more, w.n - w.split);
      if (w.plan.columns > 1) counters_of_bins = counted + (1u << bits);
    }
    if (side) w.facts->side = 1;
    give_bins();
  }
  GH_FN void give_bins() const {
    if (me % 32 == 0 && alike) atomicAdd(&w.facts->alike, alike);
    __syncthreads();
    for (u32 i = me; i < w.plan.columns << bits; i += count_threads)
      if (counted[i]) atomicAdd(w.counts() + i, counted[i]);
  }

  const group_work<K>& w;
  const u32 me, slots, bits;
  carver memory;
  u32* const counted;  // rows of bins; or instead:
  // The keys that the block has met, with how many rows, their places in the table of all blocks, and their first rows.
  K* const key;
  u32 *const count, *const of_all, *const first;
  counters& c;
  u32 alike = 0;  // rows of warps that have one bin or key
};

// Do so many neighbours have the same bin that it pays to look for warps whose rows all have it?
template <class K>
GH_FN bool is_clustered(const group_work<K>& w) {
  return w.facts->alike > w.n / 8;
}

// When all blocks have counted: are keys few? Then they take the place of the frequent keys. If not, the rows of those in the
// table of all blocks are of their bins. One block calls.
template <class K>
GH_FN bool settle_few(const group_work<K>& w) {
  const u32 slots = w.plan.few_slots;
  const bool few = !*static_cast<volatile u32*>(&w.facts->many_keys);
  for (u32 i = threadIdx.x; i <= slots; i += count_threads) {
    const K h = i < slots ? w.few_key[i] : no_hash<K>;
    const u32 rows = w.few_count[i];
    if (few) {
      if (i < slots) w.frequent[i] = h;
      w.frequent_count[i] = rows;
      if (w.wants.first) w.frequent_first[i] = w.few_first[i];
    } else if (rows) {
      atomicAdd(w.counts() + bin_of(h, w.plan.counted_bits()), rows);
    }
  }
  if (few && threadIdx.x == 0) w.facts->few = 1;
  __syncthreads();
  return few;
}

}  // namespace gpuhash::columns
