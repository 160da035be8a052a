// hive: large batches by partitions of the table (drive/bulk). A partition is a segment, in which all buckets of its
// keys lie.
//
// A block copies its segment and the segment's filter into its memory, carries out its elements there, and writes both
// back. The table is held exclusively, so that locks have nothing to say. Elements that add go through these steps, as
// those of linear_probe do:
//   1  an element takes the next slot of its home, by adding to the home's counter. Then a thread for each bucket looks
//      for keys that took several slots, and makes one pair of them
//   2  elements that overflow a full home are listed. An element whose key is there changes the key's value; of each
//      other key one element goes to another of its buckets, or to a dead slot. The other elements of that key find it
//      when they try again
//   3  an element that found no slot takes the one of a key that can go to another of its buckets, at once or after a
//      third key has left that bucket. Slots are reserved by the counters before anything moves, so that no pair is
//      ever without one
//   4  an element that then has no place is left to the table itself, and so is one whose key may lie in the stash
//
// The rules of layout.hpp hold after each of these:
//   H1, H2  counters only grow while elements overflow their homes, and every slot that was taken is written: by a
//           pair, or as the tombstone of no key where a victim was lost to another thread. So what was full stays full
//   H3      the filter is that of the segment, and is written back
//   H6      a key that is added takes its own tombstone in its home before any other slot
//   H7      a key that is nowhere is added by one element at a time, and no element looks for keys while others move
#pragma once
#include "libgpuhash/drive/bulk/bulk.cuh"
#include "libgpuhash/drive/bulk/own_kernel.cuh"
#include "ops.hpp"
#include "sizes.hpp"
#include "tile.cuh"

GH_BEGIN

// Elements that overflow their homes and are served at a time; with these, three blocks share a multiprocessor.
inline constexpr u32 overflow_at_most = chained_at_most < 832 ? chained_at_most : 832;
// An element that has met equal keys in its chain so often is left over. One that meets them once finds the key when it
// tries again.
inline constexpr u32 most_meetings = 4;
static_assert(segment_window_each <= 32 && segment_window_each % loads_at_once == 0 &&
              segment_window_each * own_threads <= 0xffff);

inline constexpr u32 bulk_slot_bits = 3;  // of a bucket; the other widths are served one element at a time

template <class F, u32 Kind>
class segment_partition;

template <class Format>
struct hive_partitions : own_partitions_of<Format, hive_table<Format>, segment_partition> {
  using F = Format;
  using typename own_partitions_of<F, hive_table<F>, segment_partition>::table;
  using typename own_partitions_of<F, hive_table<F>, segment_partition>::index;
  using typename own_partitions_of<F, hive_table<F>, segment_partition>::word;
  static constexpr bool combines_directly = false;
  static constexpr bulk_policy policy = {
      .adds_in_place = false,
      .divides_skewed = true,
      .declines_dead = true,
      .least = parts_least / 2,
      .least_share = 8,
      .least_into_empty = parts_least / 2,
      .least_sums = parts_least / 2,
      .least_sums_into_empty = parts_least / 2,
      .sums_if_repeating = false,
      .only_into_empty = 0,
      .only_into_empty_with_statuses = 0,
      .longest_chain = 0,
  };

  static bool applies(const table& t) { return t.slot_bits == bulk_slot_bits; }
  GH_FN static index group_of(const table& t, typename F::key k) { return t.segment_of(t.first_hash(k)); }
  static u64 slots(const table& t) { return t.bucket_cells(); }
  static u64 partitions(const table& t) { return t.segments(); }
  static u32 partition_bits(const table&) { return 0; }
  static u64 shares(const table& t) { return u64(t.base) << t.round; }
  static u64 chain_after(const table&, u64) { return 0; }

  static constexpr u32 partition_slots(const table& t) { return u32(t.segment_buckets) << bulk_slot_bits; }
  static constexpr u32 image_words(const table& t) { return hive_partitions::image_of(partition_slots(t)); }
  static constexpr u32 filter_words(const table& t) { return (u32(t.segment_buckets) + 3) / 4; }
  static size_t serve_bytes(const table& t, bool with_statuses);
  GH_FN static bool dead_at(const table& t, u64 random) {
    return is_dead<F>(cuda_mem::load<order::relaxed>(t.slots + reduce(random, t.bucket_cells())));
  }
  using rest_op = hive_op<hive_cuda_tile<F, 1 << bulk_slot_bits, order::acquire>, mixed>;
  // With rest_op's own find report_failed would spill.
  using find_op = hive_op<hive_cuda_tile<F, 1 << bulk_slot_bits, order::acquire>, find>;
};

// A segment in a block's memory.
template <class F, u32 Kind>
class segment_partition : public own_partition<segment_partition<F, Kind>, hive_table<F>, F, Kind> {
  using base_type = own_partition<segment_partition<F, Kind>, hive_table<F>, F, Kind>;
  friend base_type;
  using partitions = hive_partitions<F>;
  using base_type::adds, base_type::wide, base_type::at, base_type::put, base_type::swap, base_type::leave;
  using base_type::change, base_type::erase_in, base_type::take_each;
  using base_type::t, base_type::q, base_type::w, base_type::j, base_type::slots, base_type::done;
  using typename base_type::index;
  using typename base_type::key;
  using typename base_type::window;
  using typename base_type::word;
  using counted_type = counted_partition<partitions, Kind>;
  static constexpr u32 bucket_slots = 1u << bulk_slot_bits;
  static constexpr u32 overflow_each = (overflow_at_most + own_threads - 1) / own_threads;
  static constexpr u32 taken_mask = counted_type::taken_mask, had_at = counted_type::had_at,
                       had_bits = counted_type::had_mask << had_at;
  enum : u32 { is_done, is_unclear, is_hard };

 public:
  using typename base_type::table;
  // Of the block.
  struct notes {
    u32 left, unclear, hard;
    u32 holes, dead;  // are there EMPTY slots before others of a bucket? Dead ones?
  };
  // The memory of a block begins with these, the chains, and the list. Then come the slots, the counters, the filter,
  // and, with statuses, the element that took each slot.
  static constexpr u32 note_bytes = 32;
  static constexpr u32 fixed_bytes =
      (note_bytes + overflow_at_most * (sizeof(u32) + sizeof(uint16_t)) + 1023) / 1024 * 1024;  // block_mem
  static size_t bytes(const table& t, bool with_statuses) {
    return fixed_bytes + partitions::image_words(t) * sizeof(word) +
           (size_t(t.segment_buckets) + partitions::filter_words(t)) * sizeof(u32) +
           (with_statuses ? partitions::partition_slots(t) * sizeof(uint16_t) : 0);
  }

  static constexpr u32 window_each = segment_window_each;
  // Of a multiprocessor: with more of them registers would be spilled.
  static constexpr int blocks = sizeof(word) == 16 ? 1 : sizeof(key) == 8 ? 2 : 3;

  GH_FN segment_partition(const table& a_table, const request& a_request, const bulk_work<F>& a_work,
                          unsigned char* memory)
      : base_type(a_table, a_request, a_work, reinterpret_cast<word*>(memory + fixed_bytes)),
        buckets(u32(a_table.segment_buckets)),
        size(partitions::partition_slots(a_table)),
        now(*reinterpret_cast<notes*>(memory)),
        chains(reinterpret_cast<u32*>(memory + note_bytes)),
        listed(reinterpret_cast<uint16_t*>(chains + overflow_at_most)),
        counters(reinterpret_cast<u32*>(slots + partitions::image_words(a_table))),
        filter(counters + buckets),
        noted(a_table.stash_slots && cuda_mem::load<order::relaxed>(a_table.note) != ~0u) {}

 private:
  GH_FN word* table_slots() const { return t.slots + u64(blockIdx.x) * size; }
  GH_FN u32* table_filter() const { return t.filter + u64(blockIdx.x) * (buckets / 4); }
  GH_FN counted_type counted(const window& these) const {
    uint16_t* const who = q.status ? reinterpret_cast<uint16_t*>(filter + partitions::filter_words(t)) : nullptr;
    return {slots, counters, chains, who, these.at, q.status, w.found->default_status, bulk_slot_bits, buckets};
  }

  // ---- the segment --------------------------------------------------------------------------------------------------

  GH_FN void load() {
    if (threadIdx.x == 0) now = {};
    for (u32 i = threadIdx.x; i < partitions::filter_words(t); i += own_threads)
      filter[i] = cuda_mem::load<order::relaxed>(table_filter() + i);
    __syncthreads();
    copy_to_block<F, own_threads>(slots, table_slots(), size, w.fresh,
                                  [&](u32 i, bool some, const word* words) { count_used(i, some, words); });
    __syncthreads();
    if (!now.holes) return;  // the same for the whole block
    for (u32 b = threadIdx.x; b < buckets; b += own_threads) close_holes(b);
    __syncthreads();
  }
  // The counters of buckets, from what their lanes loaded. All lanes of a warp.
  GH_FN void count_used(u32 i, bool mine, const word* from) const {
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
    if (mine && i % bucket_slots == 0) counters[i >> bulk_slot_bits] = n << had_at | n;
  }
  // Evictions let EMPTY slots be before others. Here the slots in use are to be the first ones.
  GH_FN void close_holes(u32 b) const {
    word* const bucket = slots + (b << bulk_slot_bits);
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
    copy_to_table<F, own_threads>(table_slots(), slots, size);
    for (u32 i = threadIdx.x; adds && i < partitions::filter_words(t); i += own_threads)
      cuda_mem::store<order::relaxed>(table_filter() + i, filter[i]);
  }

  // ---- keys ---------------------------------------------------------------------------------------------------------

  GH_FN u32 home_of(key k) const { return u32(t.place_of(t.first_hash(k))); }
  GH_FN u32 bucket_of(key k, u32 own, u32 way) const { return u32(t.bucket_among(k, index(own), way)); }
  GH_FN bool lies_outside(key k, u32 own) const {
    return !(static_cast<volatile u32*>(filter)[own >> 2] & t.filter_bit(k, index(own)));
  }
  GH_FN void mark_outside(key k, u32 own) const { atomicAnd(filter + (own >> 2), ~t.filter_bit(k, index(own))); }  // H3
  GH_FN bool has_room(u32 b) const { return (static_cast<volatile u32*>(counters)[b] & taken_mask) < bucket_slots; }
  // The number of an EMPTY slot of the bucket, which is the caller's then; or none.
  GH_FN u32 take_slot(u32 b) const {
    if (!has_room(b)) return none;
    const u32 place = atomicAdd(counters + b, 1u) & taken_mask;
    return place < bucket_slots ? (b << bulk_slot_bits) + place : none;
  }
  // Where k is, or none. *dead: its home has dead slots.
  GH_FN u32 find_slot(const counted_type& here, key k, u32 own, bool* dead, bool* outside) const {
    u32 slot = here.slot_with(own << bulk_slot_bits, bucket_slots, k, dead);
    *outside = slot == none && lies_outside(k, own);
    bool unused = false;
    HIVE_NO_UNROLL
    for (u32 way = 1; *outside && slot == none && way < t.ways; ++way)
      slot = here.slot_with(bucket_of(k, own, way) << bulk_slot_bits, bucket_slots, k, &unused);
    return slot;
  }

  // ---- erasing ------------------------------------------------------------------------------------------------------

  GH_FN void erase_all_of(const window& these) {
    const counted_type here = counted(these);
    for (u32 x = threadIdx.x; x < these.many; x += own_threads) {
      const key k = F::key_of(these.mine[x]);
      const u32 own = home_of(k);
      bool dead = false, outside = false;
      const u32 slot = find_slot(here, k, own, &dead, &outside);
      if (slot == none && outside && noted) {
        leave(these, x);
        continue;
      }
      here.report(x, erase_in(slot, k) ? yes : no);
    }
  }

  // ---- adding -------------------------------------------------------------------------------------------------------

  GH_FN void add(const window& these, bool more) {
    const counted_type here = counted(these);
    const u32 left = take_each(these, [&](word e, u32 x) { return here.take(e, x, home_of(F::key_of(e)), j); });
    __syncthreads();
    for (u32 b = threadIdx.x; b < buckets; b += own_threads) here.finish_group(b, j, done);
    const u32 before = left ? atomicAdd(&now.left, u32(__popc(left))) : 0;
    __syncthreads();
    const u32 total = now.left;
    for (u32 served = 0; served < total; served += overflow_at_most) {
      u32 to = before - served;
      for (u32 bits = left; bits; bits &= bits - 1, ++to)
        if (to < overflow_at_most) listed[to] = uint16_t(u32(__ffs(bits) - 1) * own_threads + threadIdx.x);
      __syncthreads();
      add_overflow(these, here, total - served < overflow_at_most ? total - served : overflow_at_most);
      if (served + overflow_at_most < total) count_again(false);
    }
    if (!more) return;
    count_again(true);
    if (threadIdx.x == 0) now.left = 0;
    __syncthreads();
  }
  // What counters say when the next elements come: that all slots taken were there before, if `fresh`; and nothing of
  // chains.
  GH_FN void count_again(bool fresh) const {
    __syncthreads();
    for (u32 b = threadIdx.x; b < buckets; b += own_threads) {
      const u32 counter = counters[b], taken = counter & taken_mask;
      const u32 n = taken < bucket_slots ? taken : bucket_slots;
      counters[b] = fresh ? n << had_at | n : (counter & had_bits) | n;
    }
    __syncthreads();
  }

  // The first `many` elements of the list.
  GH_FN void add_overflow(const window& these, const counted_type& here, u32 many) {
    for (u32 meetings = 1; many; ++meetings) {
      for (u32 i = threadIdx.x; i < many; i += own_threads) {
        const word e = these.mine[listed[i]];
        here.chain(e, home_of(F::key_of(e)), i + 1);
      }
      __syncthreads();
      u32 own[overflow_each];  // and above its number what became of it
#pragma unroll
      for (u32 n = 0; n < overflow_each; ++n) {
        const u32 i = threadIdx.x + n * own_threads;
        own[n] = i < many ? listed[i] : 0;
        if (i < many) own[n] |= add_one(these, here, own[n], i + 1) << 16;
      }
      __syncthreads();
#pragma unroll
      for (u32 n = 0; n < overflow_each; ++n) {
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
      for (u32 i = threadIdx.x; i < hard; i += own_threads) {
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
  GH_FN void added(const counted_type& here, u32 x, u32 used) {
    here.report(x, yes);
    ++done.live;
    ++done.good;
    done.used += int(used);
  }

  // Element x, number `number` of the list from 1 on, whose home was full.
  GH_FN u32 add_one(const window& these, const counted_type& here, u32 x, u32 number) {
    const word e = these.mine[x];
    const key k = F::key_of(e);
    const u32 own = home_of(k);
    bool dead = false, outside = false;
    const u32 slot = find_slot(here, k, own, &dead, &outside);
    if (slot != none) {
      change(slot, e);
      here.report(x, no);
      return is_done;
    }
    if (outside && noted) {
      leave(these, x);
      return is_done;
    }
    const u32 bits = counted_type::some_bits(k), links = counted_type::link_mask;
    for (u32 i = chains[number - 1] & links; i; i = chains[i - 1] & links)
      if ((chains[i - 1] & ~links) == bits) return is_unclear;
    if (dead && reuse(own, e)) return added(here, x, 0), is_done;
    HIVE_NO_UNROLL
    for (u32 way = 0; way < t.ways; ++way) {
      const u32 b = bucket_of(k, own, way), free = take_slot(b);
      if (free == none) continue;
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
      const u32 slot = (b << bulk_slot_bits) + i;
      const word seen = at(slot);
      if (is_dead<F>(seen) && (any || seen == tombstone<F>(F::key_of(e))) && swap(slot, seen, e)) return true;
    }
    return false;
  }

  // ---- evicting -----------------------------------------------------------------------------------------------------

  // A slot for the key v of bucket b in another of its buckets, which is the caller's then; or none.
  GH_FN u32 way_out(key v, u32 b, u32* own) const {
    *own = home_of(v);
    HIVE_NO_UNROLL
    for (u32 way = 0; way < t.ways; ++way) {
      const u32 to = bucket_of(v, *own, way);
      if (to == b) continue;
      const u32 slot = take_slot(to);
      if (slot != none) return slot;
    }
    return none;
  }
  // Let v, of the slot `from`, go to the slot `to`, which is the caller's, and leave `instead`. False: v is no longer
  // there, and the slot `to` is dead.
  GH_FN bool move(u32 from, word v, u32 own, u32 to, word instead) const {
    if (!swap(from, v, instead)) {
      put(to, vacant<F>());
      now.dead = 1;
      return false;
    }
    if (to >> bulk_slot_bits != own) mark_outside(F::key_of(v), own);
    put(to, v);
    return true;
  }
  // Let e have the slot of another key. All its buckets are full. Dead slots stay dead, since no element takes one now.
  GH_FN bool evict(word e) {
    const key k = F::key_of(e);
    const u32 own = home_of(k), first = u32(mix(k)) >> 8;
    HIVE_NO_UNROLL
    for (u32 deep = 0; deep < 2; ++deep) HIVE_NO_UNROLL
    for (u32 i = 0; i < t.ways << bulk_slot_bits; ++i) {
      const u32 b = bucket_of(k, own, i >> bulk_slot_bits);
      const u32 slot = (b << bulk_slot_bits) + ((first + i) & (bucket_slots - 1));
      const word v = at(slot);
      if (!is_live<F>(v)) continue;
      u32 v_own = 0, to = none;
      if (deep)
        to = make_way(v, b, &v_own);
      else if ((to = way_out(F::key_of(v), b, &v_own)) != none)
        ++done.used;
      if (to == none || !move(slot, v, v_own, to, e)) continue;
      if (i >> bulk_slot_bits) mark_outside(k, own);
      return true;
    }
    return false;
  }
  // As way_out, where another key leaves its slot first.
  GH_FN u32 make_way(word v, u32 b, u32* v_own) {
    const key k = F::key_of(v);
    *v_own = home_of(k);
    HIVE_NO_UNROLL
    for (u32 i = 0; i < t.ways << bulk_slot_bits; ++i) {
      const u32 c = bucket_of(k, *v_own, i >> bulk_slot_bits), slot = (c << bulk_slot_bits) + (i & (bucket_slots - 1));
      if (c == b) continue;
      const word u = at(slot);
      if (!is_live<F>(u)) continue;
      u32 u_own = 0;
      const u32 to = way_out(F::key_of(u), c, &u_own);
      if (to == none) continue;
      ++done.used;
      if (move(slot, u, u_own, to, vacant<F>())) return slot;
    }
    return none;
  }

  const u32 buckets, size;
  notes& now;
  u32* const chains;       // of counted_partition; then elements that evict
  uint16_t* const listed;  // elements that overflow their homes
  u32* const counters;
  u32* const filter;
  const bool noted;  // was anything ever stashed?
};

template <class Format>
size_t hive_partitions<Format>::serve_bytes(const table& t, bool with_statuses) {
  return segment_partition<F, insert>::bytes(t, with_statuses);
}

GH_END
