// Large batches: elements go to the bins of the partition of the table that their key belongs to.
//
// A block takes a tile of elements and brings it into the order of its bins in its own memory, so that what leaves for
// one bin leaves as a run of neighbours. One pass has at most partition_threads bins; where there are more partitions,
// a first pass goes to bins of several partitions each, and a second one from there to the partitions.
//
// The first pass holds the elements of frequent keys, and of the keys of the side slots, back: a block combines the
// elements of such a key into one operation, which kernel serve_rest carries out. A bin has a fixed room; an element
// that finds its bin full goes to the list of the rest.
#pragma once
#include "libgpuhash/drive/bulk/combine.cuh"
#include "libgpuhash/drive/bulk/frequent.cuh"

GH_BEGIN

template <class F>
inline constexpr u32 divided_each =  // elements of a thread; with more keys of 8 bytes registers would be spilled
    partition_each *
    (sizeof(typename F::word) == 16 ? 4
     : sizeof(typename F::key) == 8 ? 6
                                    : 8) /
    8;

// In the memory of a block: counters of its bins, in the first pass the frequent keys, and then the elements of a tile
// in the order of their bins, their numbers in the batch if it has statuses, and their bins.
struct divide_counters {
  u32 count[partition_threads], base[partition_threads], of_warp[partition_threads / 32], some_are_full, unused[3];
};
template <class F>
struct combined_here {
  typename F::key frequent[frequent_slots];
  typename F::value combined[frequent_all];
  u32 leader[frequent_all], last[frequent_all], unused[2];
};
template <class F>
constexpr size_t divide_bytes(bool second, u32 tile, bool with_statuses) {
  const size_t fixed = sizeof(divide_counters) + (second ? 0 : sizeof(combined_here<F>));
  return (fixed + 15) / 16 * 16 +
         tile * (sizeof(typename F::word) + sizeof(uint16_t) + (with_statuses ? sizeof(u32) : 0));
}

// Every partition_threads-th of the elements from p on; element i is there if i * partition_threads is less than
// `many`.
template <u32 N, class T, class From>
GH_FN void load_words(T* to, const From* p, u32 many) {
#pragma unroll
  for (u32 i = 0; i < N; ++i)
    if (i * partition_threads < many) to[i] = p[i * partition_threads];
}
template <u32 N, class T>
GH_FN void load_sized(T* to, const void* p, u32 bytes, u64 first, u32 many) {
  if constexpr (sizeof(T) == 8)
    if (bytes == 8) return load_words<N>(to, static_cast<const T*>(p) + first, many);
  load_words<N>(to, static_cast<const u32*>(p) + first, many);
}
// The same of the batch's arrays.
template <class F, u32 N>
GH_FN void load_elements(typename F::word* to, const request& q, u64 first, u32 many) {
  typename F::key k[N];
  typename F::value v[N] = {};
  load_sized<N>(k, q.keys, q.key_bytes, first, many);
  if (F::has_value && q.values) load_sized<N>(v, q.values, q.value_bytes, first, many);
#pragma unroll
  for (u32 i = 0; i < N; ++i) to[i] = F::make(k[i], v[i]);
}

// What a block divides at a time.
struct divided_tile {
  u64 from;
  u32 many, first, bins;
  // Of a thread: element i * partition_threads from its first one on is there if i * partition_threads is less.
  GH_FN u32 own(u32 me) const { return many > me ? many - me : 0; }
};

template <class F, bool Second>
struct tiles_to_divide {
  const bulk_work<F>& w;
  u64 number, n;  // of tiles, and of the elements of the first pass
  u32 tile, per_bin, bins;

  // From number g on, the first tile that has elements: from .. from + many - 1, whose bins begin with `first`.
  GH_FN divided_tile next(u64& g) const {
    divided_tile x{0, 0, 0, bins};
    for (; g < number && !x.many; g += w.blocks) {
      x.from = g * tile;
      u64 end = n;
      if constexpr (Second) {
        const u32 bin = u32(g / per_bin);
        x.from = u64(bin) * w.bin_room + g % per_bin * tile;
        end = u64(bin) * w.bin_room + count_of(w.bin.n + bin, w.bin_room);
        x.first = bin << w.bin_bits;
        x.bins = x.first + (1u << w.bin_bits) < w.partitions ? 1u << w.bin_bits : w.partitions - x.first;
      }
      if (x.from < end) x.many = u32(end - x.from < tile ? end - x.from : tile);
    }
    return x;
  }
};

// A partition whose elements are combined has 2^sub_bits bins.
template <class Key>
GH_FN u32 sub_bin_of(Key k, u32 sub_bits) {
  return u32(mix(Key(k ^ Key(0x58f38dedu)))) >> (32 - sub_bits);
}

// A block of the kernel `divide`. Second: it moves elements from the bins of the first pass into those of the
// partitions.
template <class Partitions, bool Second>
class dividing_block {
  using F = typename Partitions::F;
  using word = typename F::word;
  using value = typename F::value;

 public:
  static constexpr u32 each = divided_each<F>;

  GH_FN dividing_block(const typename Partitions::table& a_table, const request& a_request, const bulk_work<F>& a_work,
                       unsigned char* memory)
      : t(a_table),
        q(a_request),
        w(a_work),
        tile(a_work.tile[Second]),
        here(*reinterpret_cast<divide_counters*>(memory)),
        combines(*reinterpret_cast<combined_here<F>*>(memory + sizeof(divide_counters))),
        staged(reinterpret_cast<word*>(memory + divide_bytes<F>(Second, 0, false))),
        with_statuses(a_work.rest.at),
        staged_at(reinterpret_cast<u32*>(staged + tile)),
        staged_bin(reinterpret_cast<uint16_t*>(staged_at + (with_statuses ? tile : 0))),
        me(threadIdx.x),
        j(joiner_of(a_request)),
        some_frequent(!Second && a_work.found->frequent != 0),
        default_status(a_work.found->default_status),
        to_partitions(Second || a_work.bin_room == 0),
        to(to_partitions ? a_work.partition : a_work.bin),
        room(to_partitions ? a_work.partition_room : a_work.bin_room),
        group_shift(a_work.partition_bits - Partitions::group_bits(a_table) + (to_partitions ? 0 : a_work.bin_bits)),
        sub_bits(Second ? 0 : a_work.sub_bits) {}

  GH_FN void run() {
    if constexpr (!Second) clear_frequent();
    const u64 n = elements(w);
    const u32 per_bin = Second ? (w.bin_room + tile - 1) / tile : 0;
    const u64 tiles = Second ? u64(w.bins) * per_bin : (n + tile - 1) / tile;
    const tiles_to_divide<F, Second> all{w, tiles, n, tile, per_bin, to_partitions ? w.partitions : w.bins};
    word mine[each];
    u64 g = blockIdx.x;
    divided_tile now = all.next(g);
    load(mine, now);
    while (now.many) {  // the same for the whole block
      const u32 first = now.first;
      u32 place[each];  // an element's bin and its rank there; then where it is staged
      clear_counters(now);
      __syncthreads();
      choose_bins(mine, place, now);
      __syncthreads();
      const u32 total = reserve(first, now.bins);
      __syncthreads();
      stage(mine, place, now.from);
      __syncthreads();
      const bool some_are_full = here.some_are_full;
      now = all.next(g);
      load(mine, now);  // while these leave: no load would be moved across what changes memory
      write_out(first, total, some_are_full);
      __syncthreads();
    }
    if constexpr (!Second) {
      __syncthreads();
      add_frequent();
    }
  }

 private:
  GH_FN void load(word (&mine)[each], divided_tile x) const {
    if constexpr (Second)
      load_words<each>(mine, w.bin.word + x.from + me, x.own(me));
    else if (w.again)
      load_words<each>(mine, w.source.word + x.from + me, x.own(me));
    else
      load_elements<F, each>(mine, q, x.from + me, x.own(me));
  }
  GH_FN u32 bin_of(word e, u32 first) const {
    const u32 bin = u32(Partitions::group_of(t, F::key_of(e)) >> group_shift) - first;
    return sub_bits ? bin << sub_bits | sub_bin_of(F::key_of(e), sub_bits) : bin;
  }

  // No bin has elements so far. Each element's status is what most of them will be.
  GH_FN void clear_counters(const divided_tile& now) const {
    if (me < now.bins) here.count[me] = 0;
    if (me == 0) here.some_are_full = 0;
    if constexpr (!Second) {
      for (u32 x = me; with_statuses && x < now.many; x += partition_threads)
        q.status[number_at(w, now.from + x)] = u8(default_status);
    }
  }

  // place: `none` for an element that goes to no bin.
  GH_FN void choose_bins(const word (&mine)[each], u32 (&place)[each], const divided_tile& now) const {
    const u32 own_many = now.own(me);
#pragma unroll
    for (u32 i = 0; i < each; ++i) {
      place[i] = none;
      if (i * partition_threads >= own_many) continue;
      if constexpr (!Second)
        if (hold_back(mine[i], u32(now.from) + i * partition_threads + me)) continue;
      const u32 bin = bin_of(mine[i], now.first);
      place[i] = bin << 16 | atomicAdd(here.count + bin, 1u);
    }
  }

  // Where each bin begins in this block's memory, and in its room. Returns the number of staged elements.
  GH_FN u32 reserve(u32 first, u32 bins) const {
    const u32 lane = me % 32, warp = me / 32;
    const u32 own = me < bins ? here.count[me] : 0;
    u32 up_to = own;
#pragma unroll
    for (u32 d = 1; d < 32; d *= 2) {
      const u32 below = __shfl_up_sync(full_warp, up_to, d);
      up_to += lane >= d ? below : 0;
    }
    if (lane == 31) here.of_warp[warp] = up_to;
    __syncthreads();
    u32 total = 0, before = 0;
#pragma unroll
    for (u32 i = 0; i < partition_threads / 32; ++i) {
      before += i < warp ? here.of_warp[i] : 0;
      total += here.of_warp[i];
    }
    if (me < bins) {
      const u32 start = before + up_to - own;
      here.count[me] = start;
      const u32 in_bin = own ? atomicAdd(to.n + first + me, own) : 0;
      here.base[me] = (first + me) * room + in_bin - start;
      if (in_bin + own > room) here.some_are_full = 1;
    }
    return total;
  }

  GH_FN void stage(const word (&mine)[each], u32 (&place)[each], u64 from) const {
#pragma unroll
    for (u32 i = 0; i < each; ++i) {
      if (place[i] == none) continue;
      const u32 bin = place[i] >> 16, at = here.count[bin] + (place[i] & 0xffff);
      staged[at] = mine[i];
      staged_bin[at] = uint16_t(bin);
      place[i] = at;
    }
    if (with_statuses) {
#pragma unroll
      for (u32 i = 0; i < each; ++i) {
        const u64 x = from + i * partition_threads + me;
        if (place[i] != none) staged_at[place[i]] = Second ? w.bin.at[x] : number_at(w, x);
      }
    }
  }

  GH_FN void write_out(u32 first, u32 total, bool some_are_full) const {
#pragma unroll(sizeof(typename F::key) == 8 ? 2 : 4)
    for (u32 x = me; x < total; x += partition_threads) {
      const word e = staged[x];
      const u32 bin = staged_bin[x], i = here.base[bin] + x;
      if (some_are_full && i >= (first + bin + 1) * room) {
        append(w.rest, e, with_statuses ? staged_at[x] : 0);
        continue;
      }
      to.word[i] = e;
      if (with_statuses) to.at[i] = staged_at[x];
    }
  }

  // ---- frequent keys, in the first pass -----------------------------------------------------------------------------

  GH_FN void clear_frequent() const {
    for (u32 i = me; i < frequent_all; i += partition_threads) {
      if (i < frequent_slots) combines.frequent[i] = w.frequent[i];
      combines.combined[i] = no_operand_of<value>(j);
      combines.leader[i] = combines.last[i] = none;
    }
  }
  // Element x of the source. True: it is combined with others of its key, or goes to the rest, and needs no bin.
  GH_FN bool hold_back(word e, u32 x) const {
    const auto k = F::key_of(e);
    u32 slot = none;
    if (is_side_key(k))
      slot = side_slot(k);
    else if (some_frequent)
      slot = frequent_slot(combines.frequent, k, w.again);
    if (slot == none) return false;
    const value v = F::value_of(e);
    if (q.kind != accumulate || may_join_first(j, v, log_combined)) {
      if (with_statuses) q.status[number_at(w, x)] = u8(no);
      u32 leads = static_cast<volatile u32*>(combines.leader)[slot];
      if (leads == none) leads = atomicCAS(combines.leader + slot, none, x);
      if (leads != none && q.kind == assign) combines.last[slot] = x;
      if (q.kind == accumulate) join_in_block(combines.combined + slot, v, j);
      return true;
    }
    if (!is_side_key(k)) return false;
    append(w.rest, e, number_at(w, x));
    return true;
  }
  // What this block has combined goes to the lists of the batch.
  GH_FN void add_frequent() const {
    for (u32 i = me; i < frequent_all; i += partition_threads) {
      const u32 leads = combines.leader[i];
      if (leads == none) continue;
      const u32 before = atomicCAS(w.leader + i, none, leads);
      if (q.kind == assign) {
        if (before != none) w.last[i] = leads;
        if (combines.last[i] != none) w.last[i] = combines.last[i];
      }
      if (q.kind == accumulate) join_into(w.combined + i, combines.combined[i], j);
    }
  }

  const typename Partitions::table& t;
  const request& q;
  const bulk_work<F>& w;
  const u32 tile;
  divide_counters& here;
  combined_here<F>& combines;
  word* const staged;
  const bool with_statuses;
  u32* const staged_at;
  uint16_t* const staged_bin;
  const u32 me;
  const joiner j;
  const bool some_frequent;
  const u32 default_status;
  const bool to_partitions;
  const element_list<F>& to;
  const u32 room, group_shift, sub_bits;
};

template <class Partitions, bool Second>
__global__ void __launch_bounds__(partition_threads, 2)
    divide(const __grid_constant__ typename Partitions::table t, const __grid_constant__ request q,
           const __grid_constant__ bulk_work<typename Partitions::F> w) {
  after_the_one_before();
  GH_DYNAMIC_MEMORY(unsigned char, memory);
  if (!w.found->divided) return;
  dividing_block<Partitions, Second>(t, q, w, memory).run();
}

GH_END
