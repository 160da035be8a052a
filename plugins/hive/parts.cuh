// hive: large batches by parts of the table (drive/bulk/bulk.cuh). A part is a segment, in which all buckets of its keys lie.
//
// A block copies its segment and that one's filter into its memory, carries out its elements there, and writes both back. The
// table is held exclusively, so that locks have nothing to say. Of elements that add, as of linear_probe's:
//   1  each takes the next slot of its home, by adding to that one's counter. Then a thread for each bucket looks for keys
//      that took several slots, and makes one of them
//   2  those beyond a full home are listed. Whose key is there changes it; of each other key one element goes to another of
//      its buckets, or to a dead slot. Those that remain find the key of that one, if they try again
//   3  whoever found no slot so far takes one of a key that can go to another of its buckets, at once or after another one
//      has left that. Slots are reserved by the counters before anything moves, so that no pair is ever without one
//   4  what then has no place is left to the table itself, as is whose key may lie in the stash
//
// The rules of layout.hpp hold after each of these:
//   H1, H2  counters only grow while elements go beyond their homes, and every slot that was taken is written: by a pair, or
//           as the tombstone of no key where a victim was lost to another thread. So what was full stays full
//   H3      the filter is that of the segment, and is written back
//   H6      who is added takes its own tombstone in its home before any other slot
//   H7      who is nowhere is added by one element at a time, and nobody looks for keys while others move
#pragma once
#include "libgpuhash/drive/bulk/bulk.cuh"
#include "ops.hpp"
#include "tile.cuh"

GH_BEGIN

// Elements beyond their homes that are served at a time; with these, three blocks share a multiprocessor.
inline constexpr u32 beyond_at_most = chained_at_most < 832 ? chained_at_most : 832;
// Elements of a thread that are served before the next ones.
#ifndef GPUHASH_HIVE_ELEMENTS
#define GPUHASH_HIVE_ELEMENTS 32
#endif
inline constexpr u32 window_each = GPUHASH_HIVE_ELEMENTS;
// Who has met equal keys so often is left. Those who meet them once find the key when they try again.
inline constexpr u32 most_meetings = 4;
static_assert(window_each <= 32 && window_each % counted_at_once == 0 && window_each * serve_threads <= 0xffff);

inline constexpr u32 part_slot_bits = 3;  // of a bucket; the other widths are served one element at a time

template <class F, u32 Kind>
class segment_part;

template <class Format>
struct hive_parts {
  using F = Format;
  using table = hive_table<F>;
  using index = typename F::index;
  using word = typename F::word;
  static constexpr bool adds_in_place = false, own_parts = true, joins_directly = false;
  static constexpr bool divides_skewed = true, declines = true;
  static constexpr u64 least = parts_least / 2, least_share = 8;
  static constexpr u64 least_sums(bool, bool) { return least; }
  static constexpr bool sums_if_repeating = false;
  static constexpr bool pays(const table&, const request&) { return true; }
  static constexpr bool empty_only(u32, bool) { return false; }

  static bool applies(const table& t) { return t.slot_bits == part_slot_bits; }
  GH_FN static index group_of(const table& t, typename F::key k) { return t.segment_of(t.first_hash(k)); }
  static u64 slots(const table& t) { return t.bucket_cells(); }
  static u64 parts(const table& t) { return t.segments(); }
  static u32 part_bits(const table&) { return 0; }
  static u64 shares(const table& t) { return u64(t.base) << t.round; }
  static constexpr u32 group_bits(const table&) { return 0; }

  static constexpr u32 part_slots(const table& t) { return u32(t.segment_buckets) << part_slot_bits; }
  static constexpr u32 image_words(const table& t) {
    constexpr u32 of_row = 128 / sizeof(word);  // block_mem permutes what lies in a row
    return (part_slots(t) + of_row - 1) / of_row * of_row;
  }
  static constexpr u32 filter_words(const table& t) { return (u32(t.segment_buckets) + 3) / 4; }
  static size_t serve_bytes(const table& t, bool told);
  static auto server(u32 kind);
  GH_FN static bool dead_at(const table& t, u64 random) {
    return is_dead<F>(cuda_mem::load<order::relaxed>(t.slots + reduce(random, t.bucket_cells())));
  }
  using rest_op = hive_op<hive_cuda_tile<F, 1 << part_slot_bits, order::acquire>, mixed>;
};

// A segment in a block's memory.
template <class F, u32 Kind>
class segment_part {
  using parts = hive_parts<F>;
  using table = hive_table<F>;
  using word = typename F::word;
  using key = typename F::key;
  using index = typename F::index;
  using counted_part_type = counted_part<parts, Kind>;
  static constexpr bool adds = Kind != erase;
  static constexpr u32 wide = 16 / sizeof(word), bucket_slots = 1u << part_slot_bits;
  static constexpr u32 beyond_each = (beyond_at_most + serve_threads - 1) / serve_threads;
  static constexpr u32 taken_mask = counted_part_type::taken_mask, had_at = counted_part_type::had_at,
                       had_bits = counted_part_type::had_mask << had_at;
  enum : u32 { is_done, is_unclear, is_hard };

 public:
  // Of the block.
  struct notes {
    u32 left, unclear, hard;
    u32 holes, dead;  // are there EMPTY slots before others of a bucket? Dead ones?
  };
  // What comes first in its memory: these, chains, the list. Then the slots, the counters, the filter, and who took each slot,
  // if somebody is told.
  static constexpr u32 note_bytes = 32;
  static constexpr u32 fixed_bytes =
      (note_bytes + beyond_at_most * (sizeof(u32) + sizeof(uint16_t)) + 1023) / 1024 * 1024;  // block_mem
  static size_t bytes(const table& t, bool told) {
    return fixed_bytes + parts::image_words(t) * sizeof(word) +
           (size_t(t.segment_buckets) + parts::filter_words(t)) * sizeof(u32) +
           (told ? parts::part_slots(t) * sizeof(uint16_t) : 0);
  }

  GH_FN segment_part(const table& a_table, const request& a_request, const parts_work<F>& a_work, unsigned char* memory)
      : t(a_table),
        q(a_request),
        w(a_work),
        j(joiner_of(a_request)),
        buckets(u32(a_table.segment_buckets)),
        size(parts::part_slots(a_table)),
        now(*reinterpret_cast<notes*>(memory)),
        chains(reinterpret_cast<u32*>(memory + note_bytes)),
        listed(reinterpret_cast<uint16_t*>(chains + beyond_at_most)),
        slots(reinterpret_cast<word*>(memory + fixed_bytes)),
        counters(reinterpret_cast<u32*>(slots + parts::image_words(a_table))),
        filter(counters + buckets),
        noted(a_table.stash_slots && cuda_mem::load<order::relaxed>(a_table.note) != ~0u) {}

  GH_FN void run(totals* sum) {
    const u32 n = count_of(w.part.n + blockIdx.x, w.part_room);
    if (n == 0) return;  // the whole block
    load();
    for (u32 from = 0; from < n; from += window_each * serve_threads) {
      const u32 many = n - from < window_each * serve_threads ? n - from : window_each * serve_threads;
      const u64 first = u64(blockIdx.x) * w.part_room + from;
      const window these{w.part.word + first, w.part.at ? w.part.at + first : nullptr, many};
      if constexpr (adds)
        add(these, from + many < n);
      else
        erase_all_of(these);
    }
    __syncthreads();
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

  GH_FN word* table_slots() const { return t.slots + u64(blockIdx.x) * size; }
  GH_FN u32* table_filter() const { return t.filter + u64(blockIdx.x) * (buckets / 4); }
  GH_FN counted_part_type counted(const window& these) const {
    uint16_t* const who = q.status ? reinterpret_cast<uint16_t*>(filter + parts::filter_words(t)) : nullptr;
    return {slots, counters, chains, who, these.at, q.status, w.found->usual, part_slot_bits, buckets};
  }

  // ---- the segment -----------------------------------------------------------------------------------------------------

  GH_FN void load() {
    constexpr u32 at_once = counted_at_once;
    if (threadIdx.x == 0) now = {};
    for (u32 i = threadIdx.x; i < parts::filter_words(t); i += serve_threads)
      filter[i] = cuda_mem::load<order::relaxed>(table_filter() + i);
    __syncthreads();
    for (u32 from = 0; from < size; from += at_once * serve_threads * wide) {
      lane_words<word, int(wide), false> some[at_once];
#pragma unroll
      for (u32 g = 0; g < at_once; ++g) {
        const u32 i = from + (g * serve_threads + threadIdx.x) * wide;
        if (i < size) load_slots<F>(some[g], w.fresh, table_slots() + i);
      }
#pragma unroll
      for (u32 g = 0; g < at_once; ++g) {
        const u32 i = from + (g * serve_threads + threadIdx.x) * wide;
        if (i < size) block_mem::store_row(slots + i, some[g].w);
        look_at(i, i < size, some[g].w);
      }
    }
    __syncthreads();
    if (!now.holes) return;  // the same for the whole block
    for (u32 b = threadIdx.x; b < buckets; b += serve_threads) close_holes(b);
    __syncthreads();
  }
  // The counters of buckets, from what their lanes loaded. All lanes of a warp.
  GH_FN void look_at(u32 i, bool mine, const word* from) const {
    constexpr u32 lanes = bucket_slots / wide;
    bool any = false, dead = false;
#pragma unroll
    for (u32 x = 0; x < wide; ++x) {
      any |= mine && !is_empty<F>(from[x]);
      dead |= mine && is_dead<F>(from[x]);
    }
    u32 n = 0;
    if (__any_sync(full_warp, any)) {
      const u32 lane = threadIdx.x % 32;
      u32 before = __shfl_up_sync(full_warp, u32(!is_empty<F>(from[wide - 1])), 1);
      if (i % bucket_slots == 0) before = 1;
      bool hole = false;
#pragma unroll
      for (u32 x = 0; x < wide; ++x) {
        const u32 used = mine && !is_empty<F>(from[x]);
        hole |= used && !before;
        before = used;
        n += __popc(__ballot_sync(full_warp, used) >> lane & ((1u << lanes) - 1));
      }
      if (hole) now.holes = 1;
      if (dead) now.dead = 1;
    }
    if (mine && i % bucket_slots == 0) counters[i >> part_slot_bits] = n << had_at | n;
  }
  // Evictions let EMPTY slots be before others. Here the slots in use are to be the first ones.
  GH_FN void close_holes(u32 b) const {
    word* const bucket = slots + (b << part_slot_bits);
    u32 to = 0;
    HIVE_NO_UNROLL
    for (u32 i = 0; i < bucket_slots; ++i) {
      const word seen = block_mem::load<order::relaxed>(bucket + i);
      if (is_empty<F>(seen)) continue;
      if (to != i) {
        block_mem::store<order::relaxed>(bucket + to, seen);
        block_mem::store<order::relaxed>(bucket + i, empty_word<F>());
      }
      ++to;
    }
  }
  GH_FN void store() const {
    for (u32 i = threadIdx.x * wide; i < size; i += serve_threads * wide) {
      lane_words<word, int(wide), false, block_mem> some;
      some.load(slots + i);
      cuda_mem::store_row(table_slots() + i, some.w);
    }
    for (u32 i = threadIdx.x; adds && i < parts::filter_words(t); i += serve_threads)
      cuda_mem::store<order::relaxed>(table_filter() + i, filter[i]);
  }

  // ---- keys ------------------------------------------------------------------------------------------------------------

  GH_FN u32 home_of(key k) const { return u32(t.place_of(t.first_hash(k))); }
  GH_FN u32 bucket_of(key k, u32 own, u32 way) const { return u32(t.bucket_among(k, index(own), way)); }
  GH_FN bool lies_outside(key k, u32 own) const {
    return !(static_cast<volatile u32*>(filter)[own >> 2] & t.filter_bit(k, index(own)));
  }
  GH_FN void mark_outside(key k, u32 own) const { atomicAnd(filter + (own >> 2), ~t.filter_bit(k, index(own))); }  // H3
  GH_FN bool has_room(u32 b) const { return (static_cast<volatile u32*>(counters)[b] & taken_mask) < bucket_slots; }
  // The number of an EMPTY slot of the bucket, which is the caller's then; or nobody.
  GH_FN u32 take_slot(u32 b) const {
    if (!has_room(b)) return nobody;
    const u32 place = atomicAdd(counters + b, 1u) & taken_mask;
    return place < bucket_slots ? (b << part_slot_bits) + place : nobody;
  }
  GH_FN void put(u32 slot, word e) const { block_mem::store<order::relaxed>(slots + slot, e); }
  GH_FN word at(u32 slot) const { return block_mem::load<order::relaxed>(slots + slot); }
  GH_FN bool swap(u32 slot, word from, word to) const {
    return block_mem::cas<order::relaxed>(slots + slot, from, to) == from;
  }
  // Where k is, or nobody. *dead: its home has dead slots.
  GH_FN u32 find_slot(const counted_part_type& here, key k, u32 own, bool* dead, bool* outside) const {
    u32 slot = here.slot_with(own << part_slot_bits, bucket_slots, k, dead);
    *outside = slot == nobody && lies_outside(k, own);
    bool unused = false;
    HIVE_NO_UNROLL
    for (u32 way = 1; *outside && slot == nobody && way < t.ways; ++way)
      slot = here.slot_with(bucket_of(k, own, way) << part_slot_bits, bucket_slots, k, &unused);
    return slot;
  }
  GH_FN void leave(const window& these, u32 x) const { append(w.rest, these.mine[x], these.at ? these.at[x] : 0); }

  // ---- erasing ---------------------------------------------------------------------------------------------------------

  GH_FN void erase_all_of(const window& these) {
    const counted_part_type here = counted(these);
    for (u32 x = threadIdx.x; x < these.many; x += serve_threads) {
      const key k = F::key_of(these.mine[x]);
      const u32 own = home_of(k);
      bool dead = false, outside = false;
      const u32 slot = find_slot(here, k, own, &dead, &outside);
      if (slot == nobody && outside && noted) {
        leave(these, x);
        continue;
      }
      const word seen = slot == nobody ? empty_word<F>() : at(slot);
      const bool erased = F::key_of(seen) == k && swap(slot, seen, tombstone<F>(k));  // or an equal one did
      done.live -= erased;
      done.good += erased;
      here.tell(x, erased ? yes : no);
    }
  }

  // ---- adding ----------------------------------------------------------------------------------------------------------

  GH_FN void add(const window& these, bool more) {
    constexpr u32 at_once = counted_at_once;
    const counted_part_type here = counted(these);
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
        if (x < these.many && !here.take(e[g], x, home_of(F::key_of(e[g])), j)) left |= 1u << (turn + g);
      }
    }
    __syncthreads();
    for (u32 b = threadIdx.x; b < buckets; b += serve_threads) here.settle(b, j, done);
    const u32 before = left ? atomicAdd(&now.left, u32(__popc(left))) : 0;
    __syncthreads();
    const u32 total = now.left;
    for (u32 served = 0; served < total; served += beyond_at_most) {
      u32 to = before - served;
      for (u32 bits = left; bits; bits &= bits - 1, ++to)
        if (to < beyond_at_most) listed[to] = uint16_t(u32(__ffs(bits) - 1) * serve_threads + threadIdx.x);
      __syncthreads();
      add_beyond(these, here, total - served < beyond_at_most ? total - served : beyond_at_most);
      if (served + beyond_at_most < total) count_again(false);
    }
    if (!more) return;
    count_again(true);
    if (threadIdx.x == 0) now.left = 0;
    __syncthreads();
  }
  // What counters say when the next elements come: that all slots taken were there before, if `fresh`; and nothing of chains.
  GH_FN void count_again(bool fresh) const {
    __syncthreads();
    for (u32 b = threadIdx.x; b < buckets; b += serve_threads) {
      const u32 counter = counters[b], taken = counter & taken_mask;
      const u32 n = taken < bucket_slots ? taken : bucket_slots;
      counters[b] = fresh ? n << had_at | n : (counter & had_bits) | n;
    }
    __syncthreads();
  }

  // The first `many` elements of the list.
  GH_FN void add_beyond(const window& these, const counted_part_type& here, u32 many) {
    for (u32 meetings = 1; many; ++meetings) {
      for (u32 i = threadIdx.x; i < many; i += serve_threads) {
        const word e = these.mine[listed[i]];
        here.chain(e, home_of(F::key_of(e)), i + 1);
      }
      __syncthreads();
      u32 own[beyond_each];  // and above its number what became of it
#pragma unroll
      for (u32 n = 0; n < beyond_each; ++n) {
        const u32 i = threadIdx.x + n * serve_threads;
        own[n] = i < many ? listed[i] : 0;
        if (i < many) own[n] |= add_one(these, here, own[n], i + 1) << 16;
      }
      __syncthreads();
#pragma unroll
      for (u32 n = 0; n < beyond_each; ++n) {
        const u32 end = own[n] >> 16, x = own[n] & 0xffff;
        if (end == is_hard) chains[atomicAdd(&now.hard, 1u)] = x;
        if (end != is_unclear) continue;
        if (meetings == most_meetings)
          leave(these, x);
        else
          listed[atomicAdd(&now.unclear, 1u)] = uint16_t(x);
      }
      __syncthreads();
      const u32 hard = now.hard;
      many = now.unclear;
      for (u32 i = threadIdx.x; i < hard; i += serve_threads) {
        const u32 x = chains[i];
        if (t.evictions && evict(these.mine[x]))
          added(here, x, 0);
        else
          leave(these, x);
      }
      __syncthreads();
      if (threadIdx.x == 0) now.hard = now.unclear = 0;
      if (many)
        count_again(false);
      else
        __syncthreads();
    }
  }
  GH_FN void added(const counted_part_type& here, u32 x, u32 used) {
    here.tell(x, yes);
    ++done.live;
    ++done.good;
    done.used += int(used);
  }

  // Element x, number `number` of the list from 1 on, whose home was full.
  GH_FN u32 add_one(const window& these, const counted_part_type& here, u32 x, u32 number) {
    const word e = these.mine[x];
    const key k = F::key_of(e);
    const u32 own = home_of(k);
    bool dead = false, outside = false;
    const u32 slot = find_slot(here, k, own, &dead, &outside);
    if (slot != nobody) {
      change(slot, e);
      here.tell(x, no);
      return is_done;
    }
    if (outside && noted) {
      leave(these, x);
      return is_done;
    }
    const u32 bits = counted_part_type::some_bits(k), links = counted_part_type::link_mask;
    for (u32 i = chains[number - 1] & links; i; i = chains[i - 1] & links)
      if ((chains[i - 1] & ~links) == bits) return is_unclear;
    if (dead && reuse(own, e)) return added(here, x, 0), is_done;
    HIVE_NO_UNROLL
    for (u32 way = 0; way < t.ways; ++way) {
      const u32 b = bucket_of(k, own, way), free = take_slot(b);
      if (free == nobody) continue;
      if (way) mark_outside(k, own);
      put(free, e);
      return added(here, x, 1), is_done;
    }
    HIVE_NO_UNROLL
    for (u32 way = 1; now.dead && way < t.ways; ++way) {
      if (!reuse(bucket_of(k, own, way), e)) continue;
      mark_outside(k, own);
      return added(here, x, 0), is_done;
    }
    return is_hard;
  }
  // Let e have a dead slot of the bucket, its own one first (H6).
  GH_FN bool reuse(u32 b, word e) const {
    HIVE_NO_UNROLL
    for (u32 any = F::has_value ? 0 : 1; any < 2; ++any) HIVE_NO_UNROLL
    for (u32 i = 0; i < bucket_slots; ++i) {
      const u32 slot = (b << part_slot_bits) + i;
      const word seen = at(slot);
      if (is_dead<F>(seen) && (any || seen == tombstone<F>(F::key_of(e))) && swap(slot, seen, e)) return true;
    }
    return false;
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

  // ---- evicting --------------------------------------------------------------------------------------------------------

  // A slot for the key v of bucket b in another of its buckets, which is the caller's then; or nobody.
  GH_FN u32 way_out(key v, u32 b, u32* own) const {
    *own = home_of(v);
    HIVE_NO_UNROLL
    for (u32 way = 0; way < t.ways; ++way) {
      const u32 to = bucket_of(v, *own, way);
      if (to == b) continue;
      const u32 slot = take_slot(to);
      if (slot != nobody) return slot;
    }
    return nobody;
  }
  // Let v, of the slot `from`, go to the slot `to`, which is the caller's, and leave `instead`. False: it is not there any
  // more, and nobody has the other slot.
  GH_FN bool move(u32 from, word v, u32 own, u32 to, word instead) const {
    if (!swap(from, v, instead)) {
      put(to, vacant<F>());
      now.dead = 1;
      return false;
    }
    if (to >> part_slot_bits != own) mark_outside(F::key_of(v), own);
    put(to, v);
    return true;
  }
  // Let e have the slot of another key. All its buckets are full. Dead slots are here whoever made them dead: nobody takes one.
  GH_FN bool evict(word e) {
    const key k = F::key_of(e);
    const u32 own = home_of(k), first = u32(mix(k)) >> 8;
    HIVE_NO_UNROLL
    for (u32 deep = 0; deep < 2; ++deep) HIVE_NO_UNROLL
    for (u32 i = 0; i < t.ways << part_slot_bits; ++i) {
      const u32 b = bucket_of(k, own, i >> part_slot_bits);
      const u32 slot = (b << part_slot_bits) + ((first + i) & (bucket_slots - 1));
      const word v = at(slot);
      if (!is_live<F>(v)) continue;
      u32 v_own = 0, to = nobody;
      if (deep)
        to = make_way(v, b, &v_own);
      else if ((to = way_out(F::key_of(v), b, &v_own)) != nobody)
        ++done.used;
      if (to == nobody || !move(slot, v, v_own, to, e)) continue;
      if (i >> part_slot_bits) mark_outside(k, own);
      return true;
    }
    return false;
  }
  // As way_out, where another key leaves its slot first.
  GH_FN u32 make_way(word v, u32 b, u32* v_own) {
    const key k = F::key_of(v);
    *v_own = home_of(k);
    HIVE_NO_UNROLL
    for (u32 i = 0; i < t.ways << part_slot_bits; ++i) {
      const u32 c = bucket_of(k, *v_own, i >> part_slot_bits), slot = (c << part_slot_bits) + (i & (bucket_slots - 1));
      if (c == b) continue;
      const word u = at(slot);
      if (!is_live<F>(u)) continue;
      u32 u_own = 0;
      const u32 to = way_out(F::key_of(u), c, &u_own);
      if (to == nobody) continue;
      ++done.used;
      if (move(slot, u, u_own, to, vacant<F>())) return slot;
    }
    return nobody;
  }

  const table& t;
  const request& q;
  const parts_work<F>& w;
  const joiner j;
  const u32 buckets, size;
  notes& now;
  u32* const chains;       // counted_part; then elements that evict
  uint16_t* const listed;  // elements beyond their homes
  word* const slots;
  u32* const counters;
  u32* const filter;
  const bool noted;  // was anything ever stashed?
  done_here done;
};

template <class Format>
size_t hive_parts<Format>::serve_bytes(const table& t, bool told) {
  return segment_part<F, insert>::bytes(t, told);
}

// On a multiprocessor: more would have to spill registers.
template <class F>
inline constexpr int segment_blocks = sizeof(typename F::word) == 16 ? 1
                                      : sizeof(typename F::key) == 8 ? 2
                                                                     : 3;

template <class F, u32 Kind>
__global__ void __launch_bounds__(serve_threads, segment_blocks<F>)
    serve_segments(const __grid_constant__ hive_table<F> t, const __grid_constant__ request q,
                   const __grid_constant__ parts_work<F> w, totals* sum) {
  after_the_one_before();
  GH_DYNAMIC_MEMORY(unsigned char, memory);
  if (!w.found->divided) return;
  segment_part<F, Kind>(t, q, w, memory).run(sum);
}

template <class Format>
auto hive_parts<Format>::server(u32 kind) {
  return kind == erase        ? serve_segments<F, erase>
         : kind == assign     ? serve_segments<F, assigns<F>>
         : kind == accumulate ? serve_segments<F, joins<F>>
                              : serve_segments<F, insert>;
}

GH_END
