// slab_hash: large batches by parts of the table (drive/bulk/bulk.cuh). A part is a run of buckets with their chains.
//
// A block copies the base slabs of its buckets, and then the slabs behind them, into its memory. A chain is there what it is
// in the table, slab after slab, so that a place in it is a number. Of elements that add, as of linear_probe's:
//   1  whose key was there before changes it, or revives its tombstone. Each other takes the next place of its bucket's
//      chain, by adding to that one's counter
//   2  a thread for each bucket looks for keys that took several places, and makes one of them. Where elements found no
//      place, because the chain's slabs were full, it links one or two more
//   3  these elements go through 1 and 2 again, a few times. Who then has no place is left to the table itself
//   4  a slab that nobody needed is unlinked and given back
// Units come from the table's heap, one by one, as for other batches: the block's image of a slab is written to its unit at
// the end, so that a unit that is given back was never written to (A2).
//
// The rules of layout.hpp hold after each of these:
//   S1, S3  who is added was not among the keys that were there before the last step 2, and step 2 compares the others
//   S2      places are taken in the order of the chain, and what step 2 drops is filled by the last one
//   S4, S5  nobody else has the table: a link that is taken back was seen by this block alone
#pragma once
#include "libgpuhash/drive/bulk/bulk.cuh"
#include "ops.hpp"

GH_BEGIN

// Bytes of the base slabs of a part. As many again are for the slabs behind them, or more where chains are long.
#ifndef GPUHASH_SLAB_PART
#define GPUHASH_SLAB_PART (32 * 1024)
#endif
inline constexpr u32 slab_part_bytes = GPUHASH_SLAB_PART;
inline constexpr u32 least_part_bits = 3;  // log2 of its buckets, unless slabs are large
// Elements of a thread that are served before the next ones.
#ifndef GPUHASH_SLAB_ELEMENTS
#define GPUHASH_SLAB_ELEMENTS 32
#endif
inline constexpr u32 slab_window_each = GPUHASH_SLAB_ELEMENTS;
static_assert(slab_window_each <= 32 && slab_window_each % counted_at_once == 0);
static_assert(slab_window_each * serve_threads <= 0x7fff);
inline constexpr u32 place_tries = 4;     // of an element, before it is left
inline constexpr u32 linked_at_once = 2;  // slabs of a chain
inline constexpr u32 slab_note_bytes = 64;
inline constexpr u32 no_slab = 0xffff;  // of a block's memory

template <class F, u32 Kind>
class slab_part;

template <class Format>
struct slab_parts {
  using F = Format;
  using table = slab_table<F>;
  using index = typename F::index;
  using word = typename F::word;
  static constexpr bool adds_in_place = true, own_parts = true, joins_directly = F::has_value;
  // Where keys repeat, those of a long chain wait for one another longer in the memory of a block than in the table.
  static constexpr bool divides_skewed = false, declines = true;
  static constexpr u64 least = parts_all_least, least_share = 4;
  static constexpr u64 least_sums(bool told, bool contents) { return parts_all_least / (contents ? 1 : told ? 2 : 4); }
  static constexpr bool sums_if_repeating = true;
  // A thread for each bucket looks at the whole chain, again and again.
  static constexpr u64 longest_chain = 128;  // keys
  static bool pays(const table& t, const request& q) {
    const u64 room = (t.buckets + units(t)) * (t.slab_slots - 1), most = q.added + q.n;
    return (most < room ? most : room) <= longest_chain * t.buckets;
  }
  // Chains that are there have to be copied, slab after slab.
  static constexpr bool empty_only(u32 kind, bool told) { return kind != accumulate || told; }
  template <class Tile, u32 Kind>
  using op = slab_op<Tile, Kind>;
  struct rest_op : slab_op<cuda_tile<F, row_bytes / int(sizeof(word))>, mixed> {
    static constexpr int cuda_blocks = 4;  // with five it would have to spill registers
  };

  static bool applies(const table& t) { return !t.duplicates; }
  GH_FN static index group_of(const table& t, typename F::key k) { return t.home(k); }
  static constexpr u32 group_bits(const table&) { return 0; }
  static u64 slots(const table& t) { return u64(t.buckets) * t.slab_slots; }
  static u64 parts(const table& t) { return ((u64(t.buckets) - 1) >> part_bits(t)) + 1; }
  static u64 shares(const table& t) { return t.buckets >> part_bits(t) ? t.buckets >> part_bits(t) : 1; }
  // As many buckets as have base slabs of slab_part_bytes; fewer where chains are so long that those would not
  // fit, and in small tables, so that all multiprocessors have work.
  static u32 part_bits(const table& t) {
    u32 bits = 0;
    while ((u64(t.slab_slots) * sizeof(word) << (bits + 1)) <= slab_part_bytes) ++bits;
    while (bits > least_part_bits && slabs_behind(t, 1u << bits) > most_behind(t, 1u << bits)) --bits;
    while (bits > least_part_bits && u64(t.buckets) >> bits < parts_wanted && t.slab_slots << bits > part_slots_wanted)
      --bits;
    return bits;
  }

  // Slabs behind the base slabs of so many buckets: their share of the heap's units, and a quarter and 32 for chance.
  static constexpr u64 units(const table& t) { return u64(t.heap.supers) * t.heap.blocks * block_units; }
  static constexpr u64 slabs_behind(const table& t, u32 buckets) {
    const u64 share = units(t) * buckets / (u64(t.buckets) + 1);
    return share + share / 4 + 32;
  }
  static constexpr u32 most_behind(const table& t, u32 buckets) {
    return 2 * slab_part_bytes / u32(t.slab_slots * sizeof(word)) - buckets;
  }
  static constexpr u32 further_slabs(const table& t, u32 buckets) {
    const u64 wanted = slabs_behind(t, buckets), most = most_behind(t, buckets);
    return u32(wanted < most ? wanted : most);
  }
  static constexpr u32 image_words(const table& t, u32 slabs) {
    constexpr u32 of_row = 128 / sizeof(word);  // block_mem permutes what lies in a row
    return (slabs * t.slab_slots + of_row - 1) / of_row * of_row;
  }
  // The image; counters of buckets; units of slabs behind them; notes; the slab behind each one; who took each place.
  static size_t serve_bytes(const table& t, bool told) {
    const u32 buckets = 1u << part_bits(t), slabs = buckets + further_slabs(t, buckets), image = image_words(t, slabs);
    return image * sizeof(word) + slabs * (sizeof(u32) + sizeof(uint16_t)) + slab_note_bytes +
           (told ? image * sizeof(uint16_t) : 0);
  }
  static auto server(u32 kind);
  GH_FN static bool dead_at(const table& t, u64 random) {  // of base slabs
    const u32 data = t.slab_slots - 1;
    const u64 x = reduce(random, u64(t.buckets) * data);
    const word w = cuda_mem::load<order::relaxed>(t.base + x / data * t.slab_slots + x % data);
    return F::key_of(w) == dead_key<typename F::key>;
  }
};

// The buckets of a block in its memory.
template <class F, u32 Kind>
class slab_part {
  using parts = slab_parts<F>;
  using table = slab_table<F>;
  using word = typename F::word;
  using key = typename F::key;
  using index = typename F::index;
  static constexpr bool adds = Kind != erase;
  static constexpr u32 wide = 16 / sizeof(word);
  static constexpr u32 keys_at_once = sizeof(word) == 4 ? 16 : 8;
  using some_words = lane_words<word, int(wide), false, block_mem>;
  // A counter: places of the chain that are taken, or would be if there were as many; and, above, those of keys that are
  // known to differ.
  static constexpr u32 had_at = 16, taken_mask = 0xffff;

  struct notes {
    u32 slabs;  // behind the base slabs that are in use, or would be
    u32 left[place_tries];
  };
  static_assert(sizeof(notes) <= slab_note_bytes);

 public:
  GH_FN slab_part(const table& a_table, const request& a_request, const parts_work<F>& a_work, unsigned char* memory)
      : t(a_table),
        q(a_request),
        w(a_work),
        j(joiner_of(a_request)),
        usual(a_work.found->usual),
        slab_slots(a_table.slab_slots),
        data(a_table.slab_slots - 1),
        all_buckets(1u << a_work.part_bits),
        further(parts::further_slabs(a_table, all_buckets)),
        slots(reinterpret_cast<word*>(memory)),
        counters(reinterpret_cast<u32*>(slots + parts::image_words(a_table, all_buckets + further))),
        units(counters + all_buckets),
        now(*reinterpret_cast<notes*>(units + further)),
        next(reinterpret_cast<uint16_t*>(reinterpret_cast<unsigned char*>(&now) + slab_note_bytes)),
        who(a_request.status ? next + all_buckets + further : nullptr) {
    const u64 first = u64(blockIdx.x) * all_buckets;
    buckets = u32(a_table.buckets - first < all_buckets ? a_table.buckets - first : all_buckets);
    base = a_table.bucket(index(first));
  }

  GH_FN void run(totals* sum) {
    const u32 n = count_of(w.part.n + blockIdx.x, w.part_room);
    if (n == 0) return;  // the whole block
    load();
    for (u32 from = 0; from < n; from += slab_window_each * serve_threads) {
      const u32 many = n - from < slab_window_each * serve_threads ? n - from : slab_window_each * serve_threads;
      const u64 first = u64(blockIdx.x) * w.part_room + from;
      const window these{w.part.word + first, w.part.at ? w.part.at + first : nullptr, many};
      if constexpr (adds)
        add(these);
      else
        erase_all_of(these);
    }
    __syncthreads();
    if constexpr (adds) {
      for (u32 b = threadIdx.x; b < buckets; b += serve_threads) trim(b);
      __syncthreads();
    }
    store();
    add_sums(sum, q.batch_sum, warp_sum(done.live), warp_sum(done.used), warp_sum(int(done.good)), 0, 0);
  }

 private:
  // Elements that are served at a time.
  struct window {
    const word* mine;
    const u32* at;  // their numbers in the batch, or NULL
    u32 many;
  };

  // ---- the image -------------------------------------------------------------------------------------------------------

  // Slabs are numbered: those of buckets, then those behind them. Slots are numbered through all slabs.
  GH_FN word at(u32 slot) const { return block_mem::load<order::relaxed>(slots + slot); }
  GH_FN void put(u32 slot, word e) const { block_mem::store<order::relaxed>(slots + slot, e); }
  GH_FN bool swap(u32 slot, word from, word to) const {
    return block_mem::cas<order::relaxed>(slots + slot, from, to) == from;
  }
  GH_FN u32 link_of(u32 slab) const { return slab * slab_slots + data; }
  GH_FN word* in_table(u32 slab) const {
    return slab < all_buckets ? base + slab * slab_slots : t.slab(units[slab - all_buckets]);
  }
  GH_FN u32 used_slabs() const { return now.slabs < further ? now.slabs : further; }

  GH_FN void load() {
    constexpr u32 at_once = counted_at_once;
    if (threadIdx.x == 0) now.slabs = 0;
    const u32 size = buckets * slab_slots;
    for (u32 from = 0; from < size; from += at_once * serve_threads * wide) {
      lane_words<word, int(wide), false> some[at_once];
#pragma unroll
      for (u32 g = 0; g < at_once; ++g) {
        const u32 i = from + (g * serve_threads + threadIdx.x) * wide;
        if (i < size) load_slots<F>(some[g], w.fresh, base + i);
      }
#pragma unroll
      for (u32 g = 0; g < at_once; ++g) {
        const u32 i = from + (g * serve_threads + threadIdx.x) * wide;
        if (i < size) block_mem::store_row(slots + i, some[g].w);
      }
    }
    __syncthreads();
    for (u32 b = threadIdx.x; b < buckets; b += serve_threads) follow(b);
    __syncthreads();
    for (u32 from = 0, to; (to = used_slabs()) > from; from = to) {
      const u32 rows = slab_slots / wide;
      for (u32 i = from * rows + threadIdx.x; i < to * rows; i += serve_threads) {
        const u32 slab = all_buckets + i / rows, in_slab = i % rows * wide;
        lane_words<word, int(wide), false> some;
        some.load(in_table(slab) + in_slab);
        block_mem::store_row(slots + slab * slab_slots + in_slab, some.w);
      }
      __syncthreads();
      for (u32 i = from + threadIdx.x; i < to; i += serve_threads) follow(all_buckets + i);
      __syncthreads();
    }
    for (u32 b = threadIdx.x; b < buckets; b += serve_threads) counters[b] = look_at(b);
    __syncthreads();
  }
  // Room for the slab behind this one, if there is one. Where there is no room a part of the chain is missing.
  GH_FN void follow(u32 slab) const {
    next[slab] = no_slab;
    const word link = at(link_of(slab));
    if (link == empty_word<F>()) return;
    const u32 i = atomicAdd(&now.slabs, 1u);
    if (i >= further) return;
    units[i] = table::next_of(link);
    next[slab] = uint16_t(all_buckets + i);
  }
  // The counter of a bucket. A chain of which a part is missing is full as far as it is here (S2), and no slab is left for
  // it: so its keys that are not here find no place.
  GH_FN u32 look_at(u32 b) const {
    u32 had = 0, slab = b;
    for (; next[slab] != no_slab; slab = next[slab]) had += data;  // S2
    for (u32 i = 0; i < data && F::key_of(at(slab * slab_slots + i)) != empty_key<key>; ++i) ++had;
    return had << had_at | had;
  }
  GH_FN void store() const {
    const u32 size = buckets * slab_slots, rows = slab_slots / wide, behind = used_slabs() * rows;
    for (u32 i = threadIdx.x * wide; i < size; i += serve_threads * wide) write_row(i, base + i);
    for (u32 i = threadIdx.x; i < behind; i += serve_threads) {
      const u32 slab = all_buckets + i / rows, in_slab = i % rows * wide;
      if (units[i / rows] != no_unit) write_row(slab * slab_slots + in_slab, in_table(slab) + in_slab);
    }
  }
  GH_FN void write_row(u32 slot, word* to) const {
    some_words some;
    some.load(slots + slot);
    cuda_mem::store_row(to, some.w);
  }

  // ---- keys ------------------------------------------------------------------------------------------------------------

  GH_FN u32 bucket_of(word e) const { return u32(t.home(F::key_of(e)) - index(u64(blockIdx.x) * all_buckets)); }
  GH_FN u32 counter_of(u32 b) const { return *static_cast<volatile u32*>(counters + b); }
  // The slot of a place of the chain, or nobody.
  GH_FN u32 slot_of(u32 b, u32 place) const {
    u32 slab = b;
    for (; place >= data && slab != no_slab; place -= data) slab = next[slab];
    return slab == no_slab ? nobody : slab * slab_slots + place;
  }
  // Is a part of the chain not here?
  GH_FN bool misses_slabs(u32 b) const {
    u32 last = b;
    while (next[last] != no_slab) last = next[last];
    return !(at(link_of(last)) == empty_word<F>());
  }
  // Where k is among the first places of a chain, or nobody. *dead: the slot of its tombstone, or nobody.
  GH_FN u32 find_slot(u32 b, u32 many, key k, u32* dead) const {
    u32 found = nobody;
    *dead = nobody;
    for (u32 slab = b; many && found == nobody; slab = next[slab]) {
      const u32 here = many < data ? many : data, first = slab * slab_slots;
      for (u32 i = 0; i < here; i += wide) {
        some_words some;
        some.load(slots + first + i);
#pragma unroll
        for (u32 y = 0; y < wide; ++y) {
          if (F::key_of(some.w[y]) == k && i + y < here) found = first + i + y;
          if (F::has_value && some.w[y] == tombstone<F>(k) && i + y < here) *dead = first + i + y;
        }
      }
      many -= here;
    }
    return found;
  }
  GH_FN void tell(const window& these, u32 x, u32 answer) const {
    if (q.status && answer != usual) q.status[these.at[x]] = u8(answer);
  }
  GH_FN void leave(const window& these, u32 x) const { append(w.rest, these.mine[x], these.at ? these.at[x] : 0); }

  // ---- erasing ---------------------------------------------------------------------------------------------------------

  GH_FN void erase_all_of(const window& these) {
    for (u32 x = threadIdx.x; x < these.many; x += serve_threads) {
      const word e = these.mine[x];
      const key k = F::key_of(e);
      const u32 b = bucket_of(e);
      u32 dead = nobody;
      const u32 slot = find_slot(b, counters[b] >> had_at, k, &dead);
      if (slot == nobody && misses_slabs(b)) {
        leave(these, x);
        continue;
      }
      const word seen = slot == nobody ? empty_word<F>() : at(slot);
      const bool erased = F::key_of(seen) == k && swap(slot, seen, tombstone<F>(k));  // or an equal one did
      done.live -= erased;
      done.good += erased;
      tell(these, x, erased ? yes : no);
    }
  }

  // ---- adding ----------------------------------------------------------------------------------------------------------

  GH_FN void add(const window& these) {
    constexpr u32 at_once = counted_at_once;
    if (threadIdx.x < place_tries) now.left[threadIdx.x] = 0;
    u32 left = 0;  // a bit for each of this thread's elements
    for (u32 from = 0, turn = 0; from < these.many; from += at_once * serve_threads, turn += at_once) {
      word e[at_once];
#pragma unroll
      for (u32 g = 0; g < at_once; ++g) {
        const u32 x = from + g * serve_threads + threadIdx.x;
        if (x < these.many) e[g] = these.mine[x];
      }
#pragma unroll
      for (u32 g = 0; g < at_once; ++g) {
        const u32 x = from + g * serve_threads + threadIdx.x;
        if (x < these.many && !take(these, e[g], x)) left |= 1u << (turn + g);
      }
    }
    __syncthreads();
    for (u32 tries = 1; tries < place_tries; ++tries) {
      for (u32 b = threadIdx.x; b < buckets; b += serve_threads) settle(these, b);
      if (left) now.left[tries] = 1;
      __syncthreads();
      if (!now.left[tries]) return;  // the same for the whole block
      for (u32 bits = left; bits; bits &= bits - 1) {
        const u32 bit = bits & (0 - bits), x = number_of(bit);
        if (take(these, these.mine[x], x)) left ^= bit;
      }
      __syncthreads();
    }
    for (u32 b = threadIdx.x; b < buckets; b += serve_threads) settle(these, b);
    for (u32 bits = left; bits; bits &= bits - 1) leave(these, number_of(bits & (0 - bits)));
    __syncthreads();
  }
  GH_FN static u32 number_of(u32 bit) { return u32(__ffs(bit) - 1) * serve_threads + threadIdx.x; }

  // Element x. False: there is no place for it.
  GH_FN bool take(const window& these, word e, u32 x) {
    const u32 b = bucket_of(e), counter = counter_of(b), had = counter >> had_at;
    if (had && change_there(these, e, x, b, had)) return true;
    const u32 slot = slot_of(b, atomicAdd(counters + b, 1u) & taken_mask);
    if (slot == nobody) return false;
    put(slot, e);
    if (who) who[slot] = uint16_t(x);
    return true;
  }
  // False: the key was not there.
  GH_FN bool change_there(const window& these, word e, u32 x, u32 b, u32 had) {
    for (;;) {
      u32 dead = nobody;
      const u32 slot = find_slot(b, had, F::key_of(e), &dead);
      if (slot != nobody) {
        change(slot, e);
        tell(these, x, no);
        return true;
      }
      if (dead == nobody) return false;
      if (!swap(dead, tombstone<F>(F::key_of(e)), e)) continue;  // an equal one was first
      ++done.live;
      ++done.good;
      tell(these, x, yes);
      return true;
    }
  }
  // The pair in this slot, whose key is e's.
  GH_FN void change(u32 slot, word e) const {
    if constexpr (Kind == assign) put(slot, e);
    if constexpr (Kind == accumulate) {
      if (adds_integers(j)) return block_mem::add_value<F>(slots + slot, F::value_of(e), j.narrow);
      for (;;) {
        const word seen = at(slot);
        const word want = wanted<F>(Kind, j, true, F::value_of(seen), F::key_of(e), F::value_of(e));
        if (want == seen || swap(slot, seen, want)) return;
      }
    }
  }

  // After elements have taken places of this bucket: one thread.
  GH_FN void settle(const window& these, u32 b) {
    const u32 counter = counters[b], had = counter >> had_at, taken = counter & taken_mask;
    if (taken == had) return;
    u32 last = b, room = data;
    for (; next[last] != no_slab; room += data) last = next[last];
    u32 end = taken < room ? taken : room;
    const u32 beyond = taken - end;
    if (some_equal(b, had, end)) end = join_equal(these, b, had, end);
    done.live += int(end - had);
    done.used += int(end - had);
    done.good += end - had;
    if (q.status && usual != yes)
      for (u32 i = had; i < end; ++i) tell(these, who[slot_of(b, i)], yes);
    counters[b] = end << had_at | end;
    // Where keys were equal there is room, and more of them may be.
    if (!beyond || end < room) return;
    for (u32 i = 0; i < linked_at_once && room < end + beyond; ++i, room += data) {
      last = append_slab(last);
      if (last == no_slab) return;
    }
  }
  // Has some key two of the places had .. end - 1?
  GH_FN bool some_equal(u32 b, u32 had, u32 end) const {
    if (end - had < 2) return false;
    bool same = false;
    constexpr u32 most = keys_at_once;
    const u32 first = most < data ? most : data;  // places that are looked at all at once
    if (had < first) {
      key keys[most];
#pragma unroll
      for (u32 i = 0; i < most; i += wide) {
        if (i >= slab_slots) break;
        some_words some;
        some.load(slots + b * slab_slots + i);
#pragma unroll
        for (u32 y = 0; y < wide; ++y) keys[i + y] = F::key_of(some.w[y]);
      }
#pragma unroll
      for (u32 i = 1; i < most; ++i) {
        if (i >= end || i >= data) break;
#pragma unroll
        for (u32 y = 0; y < i; ++y) same |= keys[y] == keys[i];
      }
    }
    for (u32 i = had < first ? first : had + 1; i < end && !same; ++i) {
      const key k = F::key_of(at(slot_of(b, i)));
      for (u32 y = had; y < i; ++y) same |= F::key_of(at(slot_of(b, y))) == k;
    }
    return same;
  }
  // The first element of each key stays. Returns the new end.
  GH_FN u32 join_equal(const window& these, u32 b, u32 had, u32 end) const {
    for (u32 i = had + 1; i < end;) {
      const u32 own = slot_of(b, i);
      const word e = at(own);
      u32 first = nobody;
      for (u32 y = had; y < i && first == nobody; ++y) {
        const u32 other = slot_of(b, y);
        if (F::key_of(at(other)) == F::key_of(e)) first = other;
      }
      if (first == nobody) {
        ++i;
        continue;
      }
      if constexpr (Kind == assign || Kind == accumulate)
        put(first, wanted<F>(Kind, j, true, F::value_of(at(first)), F::key_of(e), F::value_of(e)));
      const u32 emptied = slot_of(b, --end);
      if (who) {
        tell(these, who[own], no);
        who[own] = who[emptied];
      }
      put(own, at(emptied));
      put(emptied, empty_word<F>());
    }
    return end;
  }
  // A slab behind this one, which is the last of its chain; or no_slab. One thread for each chain.
  GH_FN u32 append_slab(u32 last) const {
    const u32 i = atomicAdd(&now.slabs, 1u);
    if (i >= further) return no_slab;
    const u64 hint = u64(reinterpret_cast<uintptr_t>(in_table(last))) >> 4;
    units[i] = t.heap.template allocate<cuda_mem>(hint);
    if (units[i] == no_unit) return no_slab;
    const u32 slab = all_buckets + i;
    for (u32 x = 0; x < slab_slots; ++x) put(slab * slab_slots + x, empty_word<F>());
    put(link_of(last), table::link_to(units[i]));
    next[slab] = no_slab;
    next[last] = uint16_t(slab);
    return slab;
  }
  // Give back what was appended, and is not needed.
  GH_FN void trim(u32 b) const {
    const u32 end = counters[b] >> had_at;
    u32 room = data;
    for (u32 slab = b; next[slab] != no_slab; slab = next[slab], room += data) {
      u32 spare = next[slab];
      if (room < end) continue;
      put(link_of(slab), empty_word<F>());
      for (; spare != no_slab; spare = next[spare]) {
        u32& unit = units[spare - all_buckets];
        t.heap.template release<cuda_mem>(unit);
        unit = no_unit;
      }
      return;
    }
  }

  const table& t;
  const request& q;
  const parts_work<F>& w;
  const joiner j;
  const u32 usual;             // answer
  const u32 slab_slots, data;  // words of a slab; and without the link
  const u32 all_buckets, further;
  word* const slots;
  u32* const counters;
  u32* const units;  // of slabs behind the base slabs
  notes& now;
  uint16_t* const next;  // the slab behind each
  uint16_t* const who;
  u32 buckets;
  word* base;
  done_here done;
};

// On a multiprocessor: more would have to spill registers.
template <class F>
inline constexpr int chain_blocks = sizeof(typename F::key) == 4 && F::has_value ? 3 : 2;

template <class F, u32 Kind>
__global__ void __launch_bounds__(serve_threads, chain_blocks<F>)
    serve_slabs(const __grid_constant__ slab_table<F> t, const __grid_constant__ request q,
                const __grid_constant__ parts_work<F> w, totals* sum) {
  after_the_one_before();
  GH_DYNAMIC_MEMORY(unsigned char, memory);
  if (!w.found->divided) return;
  slab_part<F, Kind>(t, q, w, memory).run(sum);
}

template <class Format>
auto slab_parts<Format>::server(u32 kind) {
  return kind == erase        ? serve_slabs<F, erase>
         : kind == assign     ? serve_slabs<F, assigns<F>>
         : kind == accumulate ? serve_slabs<F, joins<F>>
                              : serve_slabs<F, insert>;
}

GH_END
