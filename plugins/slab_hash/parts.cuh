// slab_hash: large batches by partitions of the table (drive/bulk). A partition is a run of buckets with their chains.
//
// A block copies the base slabs of its buckets, and then the slabs behind them, into its memory. A chain is there what
// it is in the table, slab after slab, so that a place in it is a number. Elements that add go through these steps:
//   1  an element whose key was there before the batch changes the key's value, or revives its tombstone. Any other
//      element takes the next place of its bucket's chain, by adding to the bucket's counter
//   2  a thread for each bucket looks for keys that took several places, and makes one pair of them. Where elements
//      found no place, because the chain's slabs were full, it links one or two more
//   3  these elements go through 1 and 2 again, a few times. An element that then has no place is left to the table
//      itself
//   4  a slab without keys is unlinked and given back
// Units come from the table's heap, one by one, as for other batches: the block's image of a slab is written to its
// unit at the end, so that a unit that is given back was never written to (A2).
//
// The rules of layout.hpp hold after each of these:
//   S1, S3  a key that is added was not among the keys that were there before the last step 2, and step 2 compares the
//           others
//   S2      places are taken in the order of the chain, and a place that step 2 empties is filled by the last one
//   S4, S5  this block alone has these buckets: no other one has seen a link that is taken back
#pragma once
#include "libgpuhash/drive/bulk/bulk.cuh"
#include "libgpuhash/drive/bulk/own_kernel.cuh"
#include "ops.hpp"
#include "sizes.hpp"

GH_BEGIN

inline constexpr u32 least_partition_bits = 3;  // log2 of its buckets, unless slabs are large
static_assert(slab_window_each <= 32 && slab_window_each % loads_at_once == 0);
static_assert(slab_window_each * own_threads <= 0x7fff);
inline constexpr u32 place_tries = 4;     // of an element, before it is left
inline constexpr u32 linked_at_once = 2;  // slabs of a chain
inline constexpr u32 slab_note_bytes = 64;
inline constexpr u32 no_slab = 0xffff;  // of a block's memory

template <class F, u32 Kind>
class slab_partition;

template <class Format>
struct slab_partitions : own_partitions_of<Format, slab_table<Format>, slab_partition> {
  using F = Format;
  using typename own_partitions_of<F, slab_table<F>, slab_partition>::table;
  using typename own_partitions_of<F, slab_table<F>, slab_partition>::index;
  using typename own_partitions_of<F, slab_table<F>, slab_partition>::word;
  static constexpr bool combines_directly = F::has_value;
  static constexpr bulk_policy policy = {
      .adds_in_place = true,
      // Elements of one key in a long chain wait for one another longer in the memory of a block than in the table.
      .divides_skewed = false,
      .declines_dead = true,
      .least = parts_all_least,
      .least_share = 4,
      .least_into_empty = parts_all_least / 2,
      .least_sums = parts_all_least,
      .least_sums_into_empty = parts_all_least / 4,
      .sums_if_repeating = true,
      // Chains that are in the table have to be copied, slab after slab.
      .only_into_empty = ~(1u << accumulate),
      .only_into_empty_with_statuses = ~0u,
      // A thread for each bucket looks at the whole chain, again and again.
      .longest_chain = 128,
  };
  template <class Tile, u32 Kind>
  using op = slab_op<Tile, Kind>;
  struct rest_op : slab_op<cuda_tile<F, row_bytes / int(sizeof(word))>, mixed> {
    static constexpr int cuda_blocks = 4;  // with five it would have to spill registers
  };

  static bool applies(const table& t) { return !t.duplicates; }
  GH_FN static index group_of(const table& t, typename F::key k) { return t.home(k); }
  static u64 slots(const table& t) { return u64(t.buckets) * t.slab_slots; }
  static u64 partitions(const table& t) { return ((u64(t.buckets) - 1) >> partition_bits(t)) + 1; }
  static u64 shares(const table& t) { return t.buckets >> partition_bits(t) ? t.buckets >> partition_bits(t) : 1; }
  // As many buckets as have base slabs of slab_partition_bytes; fewer where chains are so long that those would not
  // fit, and in small tables, so that all multiprocessors have work.
  static u32 partition_bits(const table& t) {
    u32 bits = 0;
    while ((u64(t.slab_slots) * sizeof(word) << (bits + 1)) <= slab_partition_bytes) ++bits;
    while (bits > least_partition_bits && slabs_behind(t, 1u << bits) > most_behind(t, 1u << bits)) --bits;
    while (bits > least_partition_bits && u64(t.buckets) >> bits < partitions_wanted &&
           t.slab_slots << bits > partition_slots_wanted)
      --bits;
    return bits;
  }

  static u64 chain_after(const table& t, u64 keys) {
    const u64 room = (t.buckets + units(t)) * (t.slab_slots - 1);
    return ((keys < room ? keys : room) + t.buckets - 1) / t.buckets;
  }

  // Slabs behind the base slabs of so many buckets: their share of the heap's units, and a quarter and 32 for chance.
  static constexpr u64 units(const table& t) { return u64(t.heap.supers) * t.heap.blocks * block_units; }
  static constexpr u64 slabs_behind(const table& t, u32 buckets) {
    const u64 share = units(t) * buckets / (u64(t.buckets) + 1);
    return share + share / 4 + 32;
  }
  static constexpr u32 most_behind(const table& t, u32 buckets) {
    return 2 * slab_partition_bytes / u32(t.slab_slots * sizeof(word)) - buckets;
  }
  static constexpr u32 overflow_slabs(const table& t, u32 buckets) {
    const u64 wanted = slabs_behind(t, buckets), most = most_behind(t, buckets);
    return u32(wanted < most ? wanted : most);
  }
  static constexpr u32 image_words(const table& t, u32 slabs) {
    return slab_partitions::image_of(slabs * t.slab_slots);
  }
  // The image; counters of buckets; units of slabs behind them; notes; the slab behind each one; who took each place.
  static size_t serve_bytes(const table& t, bool with_statuses) {
    const u32 buckets = 1u << partition_bits(t), slabs = buckets + overflow_slabs(t, buckets),
              image = image_words(t, slabs);
    return image * sizeof(word) + slabs * (sizeof(u32) + sizeof(uint16_t)) + slab_note_bytes +
           (with_statuses ? image * sizeof(uint16_t) : 0);
  }
  GH_FN static bool dead_at(const table& t, u64 random) {  // of base slabs
    const u32 data = t.slab_slots - 1;
    const u64 x = reduce(random, u64(t.buckets) * data);
    const word w = cuda_mem::load<order::relaxed>(t.base + x / data * t.slab_slots + x % data);
    return F::key_of(w) == dead_key<typename F::key>;
  }
};

// The buckets of a block in its memory.
template <class F, u32 Kind>
class slab_partition : public own_partition<slab_partition<F, Kind>, slab_table<F>, F, Kind> {
  using base_type = own_partition<slab_partition<F, Kind>, slab_table<F>, F, Kind>;
  friend base_type;
  using partitions = slab_partitions<F>;
  using base_type::adds, base_type::wide, base_type::at, base_type::put, base_type::swap, base_type::leave;
  using base_type::change, base_type::erase_in, base_type::number_of, base_type::take_each;
  using base_type::t, base_type::q, base_type::w, base_type::j, base_type::slots, base_type::done;
  using typename base_type::index;
  using typename base_type::key;
  using typename base_type::window;
  using typename base_type::word;
  static constexpr u32 keys_at_once = sizeof(word) == 4 ? 16 : 8;
  using some_words = lane_words<word, int(wide), false, block_mem>;
  // A counter: places of the chain that are taken, or would be if there were as many; and, above, those of keys that
  // are known to differ.
  static constexpr u32 had_at = 16, taken_mask = 0xffff;

  struct notes {
    u32 slabs;  // behind the base slabs that are in use, or would be
    u32 left[place_tries];
  };
  static_assert(sizeof(notes) <= slab_note_bytes);

 public:
  using typename base_type::table;
  static constexpr u32 window_each = slab_window_each;
  // Of a multiprocessor: with more of them registers would be spilled.
  static constexpr int blocks = sizeof(key) == 4 && F::has_value ? 3 : 2;

  GH_FN slab_partition(const table& a_table, const request& a_request, const bulk_work<F>& a_work,
                       unsigned char* memory)
      : base_type(a_table, a_request, a_work, reinterpret_cast<word*>(memory)),
        default_status(a_work.found->default_status),
        slab_slots(a_table.slab_slots),
        data(a_table.slab_slots - 1),
        all_buckets(1u << a_work.partition_bits),
        overflow_room(partitions::overflow_slabs(a_table, all_buckets)),
        counters(reinterpret_cast<u32*>(slots + partitions::image_words(a_table, all_buckets + overflow_room))),
        units(counters + all_buckets),
        now(*reinterpret_cast<notes*>(units + overflow_room)),
        next(reinterpret_cast<uint16_t*>(reinterpret_cast<unsigned char*>(&now) + slab_note_bytes)),
        who(a_request.status ? next + all_buckets + overflow_room : nullptr) {
    const u64 first = u64(blockIdx.x) * all_buckets;
    buckets = u32(a_table.buckets - first < all_buckets ? a_table.buckets - first : all_buckets);
    base = a_table.bucket(index(first));
  }

 private:
  // ---- the image ----------------------------------------------------------------------------------------------------

  // Slabs are numbered: those of buckets, then those behind them. Slots are numbered through all slabs.
  GH_FN u32 link_of(u32 slab) const { return slab * slab_slots + data; }
  GH_FN word* in_table(u32 slab) const {
    return slab < all_buckets ? base + slab * slab_slots : t.slab(units[slab - all_buckets]);
  }
  GH_FN u32 used_slabs() const { return now.slabs < overflow_room ? now.slabs : overflow_room; }

  GH_FN void load() {
    if (threadIdx.x == 0) now.slabs = 0;
    copy_to_block<F, own_threads>(slots, base, buckets * slab_slots, w.fresh, [](u32, bool, const word*) {});
    __syncthreads();
    for (u32 b = threadIdx.x; b < buckets; b += own_threads) follow(b);
    __syncthreads();
    for (u32 from = 0, to; (to = used_slabs()) > from; from = to) {
      const u32 rows = slab_slots / wide;
      for (u32 i = from * rows + threadIdx.x; i < to * rows; i += own_threads) {
        const u32 slab = all_buckets + i / rows, in_slab = i % rows * wide;
        lane_words<word, int(wide), false> some;
        some.load(in_table(slab) + in_slab);
        block_mem::store_row(slots + slab * slab_slots + in_slab, some.w);
      }
      __syncthreads();
      for (u32 i = from + threadIdx.x; i < to; i += own_threads) follow(all_buckets + i);
      __syncthreads();
    }
    for (u32 b = threadIdx.x; b < buckets; b += own_threads) counters[b] = count_used(b);
    __syncthreads();
  }
  // Room for the slab behind this one, if there is one. Where there is no room a partition of the chain is missing.
  GH_FN void follow(u32 slab) const {
    next[slab] = no_slab;
    const word link = at(link_of(slab));
    if (link == empty_word<F>()) return;
    const u32 i = atomicAdd(&now.slabs, 1u);
    if (i >= overflow_room) return;
    units[i] = table::next_of(link);
    next[slab] = uint16_t(all_buckets + i);
  }
  // The counter of a bucket. A chain of which a partition is missing is full as far as it is here (S2), and no slab is
  // left for it: so its keys that are not here find no place.
  GH_FN u32 count_used(u32 b) const {
    u32 had = 0, slab = b;
    for (; next[slab] != no_slab; slab = next[slab]) had += data;  // S2
    for (u32 i = 0; i < data && F::key_of(at(slab * slab_slots + i)) != empty_key<key>; ++i) ++had;
    return had << had_at | had;
  }
  GH_FN void store() const {
    if constexpr (adds) {
      for (u32 b = threadIdx.x; b < buckets; b += own_threads) trim(b);
      __syncthreads();
    }
    copy_to_table<F, own_threads>(base, slots, buckets * slab_slots);
    const u32 rows = slab_slots / wide, behind = used_slabs() * rows;
    for (u32 i = threadIdx.x; i < behind; i += own_threads) {
      const u32 slab = all_buckets + i / rows, in_slab = i % rows * wide;
      if (units[i / rows] != no_unit)
        copy_row_to_table<F>(in_table(slab) + in_slab, slots + slab * slab_slots + in_slab);
    }
  }

  // ---- keys ---------------------------------------------------------------------------------------------------------

  GH_FN u32 bucket_of(word e) const { return u32(t.home(F::key_of(e)) - index(u64(blockIdx.x) * all_buckets)); }
  GH_FN u32 counter_of(u32 b) const { return *static_cast<volatile u32*>(counters + b); }
  // The slot of a place of the chain, or none.
  GH_FN u32 slot_of(u32 b, u32 place) const {
    u32 slab = b;
    for (; place >= data && slab != no_slab; place -= data) slab = next[slab];
    return slab == no_slab ? none : slab * slab_slots + place;
  }
  // Is a partition of the chain not here?
  GH_FN bool misses_slabs(u32 b) const {
    u32 last = b;
    while (next[last] != no_slab) last = next[last];
    return !(at(link_of(last)) == empty_word<F>());
  }
  // Where k is among the first places of a chain, or none. *dead: the slot of its tombstone, or none.
  GH_FN u32 find_slot(u32 b, u32 many, key k, u32* dead) const {
    u32 found = none;
    *dead = none;
    for (u32 slab = b; many && found == none; slab = next[slab]) {
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
  GH_FN void report(const window& these, u32 x, u32 answer) const {
    if (q.status && answer != default_status) q.status[these.at[x]] = u8(answer);
  }

  // ---- erasing ------------------------------------------------------------------------------------------------------

  GH_FN void erase_all_of(const window& these) {
    for (u32 x = threadIdx.x; x < these.many; x += own_threads) {
      const word e = these.mine[x];
      const key k = F::key_of(e);
      const u32 b = bucket_of(e);
      u32 dead = none;
      const u32 slot = find_slot(b, counters[b] >> had_at, k, &dead);
      if (slot == none && misses_slabs(b)) {
        leave(these, x);
        continue;
      }
      report(these, x, erase_in(slot, k) ? yes : no);
    }
  }

  // ---- adding -------------------------------------------------------------------------------------------------------

  GH_FN void add(const window& these, bool) {
    if (threadIdx.x < place_tries) now.left[threadIdx.x] = 0;
    u32 left = take_each(these, [&](word e, u32 x) { return take(these, e, x); });
    __syncthreads();
    for (u32 tries = 1; tries < place_tries; ++tries) {
      for (u32 b = threadIdx.x; b < buckets; b += own_threads) finish_group(these, b);
      if (left) now.left[tries] = 1;
      __syncthreads();
      if (!now.left[tries]) return;  // the same for the whole block
      for (u32 bits = left; bits; bits &= bits - 1) {
        const u32 bit = bits & (0 - bits), x = number_of(bit);
        if (take(these, these.mine[x], x)) left ^= bit;
      }
      __syncthreads();
    }
    for (u32 b = threadIdx.x; b < buckets; b += own_threads) finish_group(these, b);
    for (u32 bits = left; bits; bits &= bits - 1) leave(these, number_of(bits & (0 - bits)));
    __syncthreads();
  }

  // Element x. False: there is no place for it.
  GH_FN bool take(const window& these, word e, u32 x) {
    const u32 b = bucket_of(e), counter = counter_of(b), had = counter >> had_at;
    if (had && change_there(these, e, x, b, had)) return true;
    const u32 slot = slot_of(b, atomicAdd(counters + b, 1u) & taken_mask);
    if (slot == none) return false;
    put(slot, e);
    if (who) who[slot] = uint16_t(x);
    return true;
  }
  // False: the key was not there.
  GH_FN bool change_there(const window& these, word e, u32 x, u32 b, u32 had) {
    for (;;) {
      u32 dead = none;
      const u32 slot = find_slot(b, had, F::key_of(e), &dead);
      if (slot != none) {
        change(slot, e);
        report(these, x, no);
        return true;
      }
      if (dead == none) return false;
      if (!swap(dead, tombstone<F>(F::key_of(e)), e)) continue;  // an equal one was first
      ++done.live;
      ++done.good;
      report(these, x, yes);
      return true;
    }
  }
  // After elements have taken places of this bucket: one thread.
  GH_FN void finish_group(const window& these, u32 b) {
    const u32 counter = counters[b], had = counter >> had_at, taken = counter & taken_mask;
    if (taken == had) return;
    u32 last = b, room = data;
    for (; next[last] != no_slab; room += data) last = next[last];
    u32 end = taken < room ? taken : room;
    const u32 overflow = taken - end;
    if (some_equal(b, had, end)) end = combine_equal(these, b, had, end);
    done.live += int(end - had);
    done.used += int(end - had);
    done.good += end - had;
    if (q.status && default_status != yes)
      for (u32 i = had; i < end; ++i) report(these, who[slot_of(b, i)], yes);
    counters[b] = end << had_at | end;
    // Where keys were equal there is room, and more of them may be.
    if (!overflow || end < room) return;
    for (u32 i = 0; i < linked_at_once && room < end + overflow; ++i, room += data) {
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
  GH_FN u32 combine_equal(const window& these, u32 b, u32 had, u32 end) const {
    for (u32 i = had + 1; i < end;) {
      const u32 own = slot_of(b, i);
      const word e = at(own);
      u32 first = none;
      for (u32 y = had; y < i && first == none; ++y) {
        const u32 other = slot_of(b, y);
        if (F::key_of(at(other)) == F::key_of(e)) first = other;
      }
      if (first == none) {
        ++i;
        continue;
      }
      if constexpr (Kind == assign || Kind == accumulate)
        put(first, wanted<F>(Kind, j, true, F::value_of(at(first)), F::key_of(e), F::value_of(e)));
      const u32 emptied = slot_of(b, --end);
      if (who) {
        report(these, who[own], no);
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
    if (i >= overflow_room) return no_slab;
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
  // Gives back the slabs that were appended and are not needed.
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

  const u32 default_status;    // answer
  const u32 slab_slots, data;  // words of a slab; and without the link
  const u32 all_buckets, overflow_room;
  u32* const counters;
  u32* const units;  // of slabs behind the base slabs
  notes& now;
  uint16_t* const next;  // the slab behind each
  uint16_t* const who;
  u32 buckets;
  word* base;
};

GH_END
