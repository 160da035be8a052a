// Groups of a column on a CUDA device: the keys that a block meets while it reads its rows.
//
// A block begins with a table of them in its memory, where a sample says that the column has few keys. Each of them comes into
// one table of all blocks, too: so these know in the end whether the keys of the column are few (count.cuh, few.cuh).
#pragma once
#include "libgpuhash/columns/cuda/sample.cuh"

namespace gpuhash::columns {

constexpr u32 count_each = 8;  // rows of a thread at a time
constexpr u32 nowhere = ~0u;   // instead of a place in a table, or of a number

// The keys of rows from `row` on, of a column of n rows: those behind its end are 0. aligned: does the column begin where
// neighbours may?
template <class K, u32 Many>
GH_FN neighbours<K, Many> neighbours_at(const K* keys, u64 row, u64 n, bool aligned) {
  if (aligned && row + Many <= n) return *reinterpret_cast<const neighbours<K, Many>*>(keys + row);
  neighbours<K, Many> some;
#pragma unroll
  for (u32 i = 0; i < Many; ++i) some.of[i] = row + i < n ? keys[row + i] : 0;
  return some;
}

// Rows that a block reads. A thread takes neighbouring ones, and has the next ones on their way meanwhile.
template <class K, u32 Many = neighbours<K>::many>
class read_rows {
 public:
  static constexpr u32 many = Many, each = count_each / many;
  static constexpr u64 piece = u64(count_threads) * count_each;

  GH_FN read_rows(const K* a_column, u64 rows)
      : column(a_column),
        n(rows),
        from(blockIdx.x * piece),
        aligned(uintptr_t(a_column) % sizeof(neighbours<K, many>) == 0) {
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

  neighbours<K, many> now[each], next[each];

 private:
  GH_FN void load(u64 at) {
#pragma unroll
    for (u32 i = 0; i < each; ++i)
      next[i] = neighbours_at<K, many>(column, at + (i * count_threads + threadIdx.x) * many, n, aligned);
  }

  const K* column;
  u64 n, from;
  bool aligned;
};

// The place of a key, which comes into the table while that has room; else `nowhere`. The table consists of buckets: a key is
// in the first slot that was empty, from its bucket on. keys: how many there are.
struct entered {
  u32 place;
  bool is_new;
  u32 before;  // keys that were in the table when a new one came
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
      if (there == no_hash<K>) return {at, true, atomicAdd(keys, 1u)};
    }
    if (there == h) return {at, false, 0};
  }
  return {nowhere, false, 0};
}

// Numbers: keys are numbered as they come into the table of all blocks; else they have places there.
template <class K, bool Numbers>
class met_keys {
  static constexpr u32 many = neighbours<K>::many;

 public:
  struct counters {
    u32 keys, once, twice, is_full;  // keys in the table; those of one tried row, and of two
  };
  static size_t bytes(size_t slots) { return room_of(slots, sizeof(K)) + 2 * room_of(slots + 1, 4); }

  GH_FN met_keys(const group_work<K>& work, carver& memory, counters* some)
      : slots(work.plan.few_slots),
        key(memory.take<K>(slots)),
        count(memory.take<u32>(slots + 1)),
        of_all(memory.take<u32>(slots + 1)),
        w(work),
        me(threadIdx.x),
        c(*some) {}

  // So many rows of the column, the same in all blocks, say whether it pays to begin: by how many keys they have, and by how many
  // more there are at least, of which no row was met (Chao 1984: by those of one row, and of two). All threads call.
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
    if constexpr (Numbers) {
      clear(of_all, slots + 1, nowhere);
      __syncthreads();
    }
    for (u32 i = me; i < slots; i += count_threads)
      if (key[i] != no_hash<K>) enter_all(i, key[i]);
    clear(count, slots + 1, 0u);
    return true;
  }
  template <class Word>
  GH_FN void clear(Word* words, u32 n, Word word) const {
    for (u32 i = me; i < n; i += count_threads) words[i] = word;
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
  // The place of a key that was not found so, and may be new; or `nowhere`: there is no room.
  GH_FN u32 find_or_enter(K h) {
    const u32 at = find(h, 1);
    return at == nowhere ? place_of<true>(h) : at;
  }

  const u32 slots;
  K* const key;
  u32 *const count, *const of_all;  // rows of each; and its place in the table of all blocks, or its number

  // Has a key found no room, here or in another block, so that threads of the warp have to stop? All lanes call.
  GH_FN bool is_full(bool others_are) const {
    if (others_are) atomicOr(&c.is_full, 1u);
    return __any_sync(whole_warp, *static_cast<volatile u32*>(&c.is_full));
  }
  // The same of the block, after a barrier.
  GH_FN bool was_full() const { return c.is_full; }

 private:
  // Shared: a new key comes into the table of all blocks, too.
  template <bool Shared>
  GH_FN u32 place_of(K h) {
    if (h == no_hash<K>) {
      if constexpr (Shared && Numbers) number_side();
      return slots;
    }
    const entered at = enter(key, slots, &c.keys, h);
    if (Shared && at.is_new) enter_all(at.place, h);
    if (Shared && at.place == nowhere) tell_no_room();
    return at.place;
  }
  GH_FN void enter_all(u32 place, K h) {
    const entered at = enter(w.few_key, slots, &w.facts->few_keys, h);
    if (at.place == nowhere) tell_no_room();
    if constexpr (!Numbers) {
      of_all[place] = at.place;
      return;
    }
    if (at.is_new) give_number(at.place, h, at.before);
    atomicMin(of_all + place, at.place == nowhere ? 0 : number_at(w.few_number() + at.place));  // others wait for it
  }
  // To this block, and to the others.
  GH_FN void tell_no_room() const {
    w.facts->many_keys = 1;
    atomicOr(&c.is_full, 1u);
  }

  // ---- numbers of keys -----------------------------------------------------------------------------------------------

 public:
  // The number of a key, which the thread that has met it first is about to write.
  GH_FN static u32 number_at(const u32* at) {
    u32 number = *static_cast<const volatile u32*>(at);
    for (u32 turns = 0; number == nowhere; ++turns) {
      cuda_mem::relax(turns);
      number = *static_cast<const volatile u32*>(at);
    }
    return number;
  }

 private:
  GH_FN void give_number(u32 place, K h, u32 number) const {
    w.out_keys[number] = w.unhash(h);
    *static_cast<volatile u32*>(w.few_number() + place) = number;
  }
  // The key whose hash marks an empty slot has a number, too, and no place in a table.
  GH_FN void number_side() const {
    if (*static_cast<volatile u32*>(of_all + slots) != nowhere) return;
    if (atomicOr(&w.facts->side, 1u) == 0) give_number(slots, no_hash<K>, atomicAdd(&w.facts->few_keys, 1u));
    atomicMin(of_all + slots, number_at(w.few_number() + slots));
  }

  const group_work<K>& w;
  const u32 me;
  counters& c;
};

}  // namespace gpuhash::columns
