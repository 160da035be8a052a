// Large batches: elements go to the bins of the partition that their key belongs to.
#pragma once
#include "libgpuhash/drive/bulk/combine.cuh"
#include "libgpuhash/drive/bulk/frequent.cuh"

GH_BEGIN

template <class F>
inline constexpr u32 divided_each =  // of a thread; with more keys of 8 bytes registers would be spilled
    GPUHASH_PART_EACH *
    (sizeof(typename F::word) == 16 ? 4
     : sizeof(typename F::key) == 8 ? 6
                                    : 8) /
    8;

// In the memory of a block: counters, in the first pass what frequent keys need, and then the elements of a tile in the
// order of their bins, their numbers if somebody is told what became of them, and their bins.
struct divide_counters {
  u32 count[part_threads], base[part_threads], of_warp[part_threads / 32], some_are_full, unused[3];
};
template <class F>
struct joined_here {
  typename F::key frequent[frequent_slots];
  typename F::value joined[frequent_all];
  u32 leader[frequent_all], last[frequent_all], unused[2];
};
template <class F>
constexpr size_t divide_bytes(bool second, u32 tile, bool told) {
  const size_t fixed = sizeof(divide_counters) + (second ? 0 : sizeof(joined_here<F>));
  return (fixed + 15) / 16 * 16 + tile * (sizeof(typename F::word) + sizeof(uint16_t) + (told ? sizeof(u32) : 0));
}

// Every part_threads-th of the elements from p on; element i is there if i * part_threads is less than `many`.
template <u32 N, class T, class From>
GH_FN void load_words(T* to, const From* p, u32 many) {
#pragma unroll
  for (u32 i = 0; i < N; ++i)
    if (i * part_threads < many) to[i] = p[i * part_threads];
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
  // Of a thread: element i * part_threads from its first one on is there if i * part_threads is less.
  GH_FN u32 own(u32 me) const { return many > me ? many - me : 0; }
};

template <class F, bool Second>
struct tiles_to_divide {
  const parts_work<F>& w;
  u64 number, n;  // of tiles, and of the elements of the first pass
  u32 tile, per_bin, bins;

  // From number g on, the first one that has elements: from .. from + many - 1, whose bins begin with `first`.
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
        x.bins = x.first + (1u << w.bin_bits) < w.parts ? 1u << w.bin_bits : w.parts - x.first;
      }
      if (x.from < end) x.many = u32(end - x.from < tile ? end - x.from : tile);
    }
    return x;
  }
};

template <class Key>
GH_FN u32 bin_of_part(Key k, u32 sub_bits) {
  return u32(mix(Key(k ^ Key(0x58f38dedu)))) >> (32 - sub_bits);
}

// Second: from the bins of the first pass into those of the parts.
template <class Parts, bool Second>
__global__ void __launch_bounds__(part_threads, 2)
    divide(const __grid_constant__ typename Parts::table t, const __grid_constant__ request q,
           const __grid_constant__ parts_work<typename Parts::F> w) {
  after_the_one_before();
  using F = typename Parts::F;
  using word = typename F::word;
  constexpr u32 each = divided_each<F>;
  const u32 tile = w.tile[Second];
  GH_DYNAMIC_MEMORY(unsigned char, memory);
  divide_counters& here = *reinterpret_cast<divide_counters*>(memory);
  joined_here<F>& joins = *reinterpret_cast<joined_here<F>*>(memory + sizeof(divide_counters));
  word* const staged = reinterpret_cast<word*>(memory + divide_bytes<F>(Second, 0, false));
  const bool told = w.rest.at;
  u32* const staged_at = reinterpret_cast<u32*>(staged + tile);
  uint16_t* const staged_bin = reinterpret_cast<uint16_t*>(staged_at + (told ? tile : 0));
  const u32 me = threadIdx.x, lane = me % 32, warp = me / 32;
  if (!w.found->divided) return;
  const u64 n = elements(w);
  const joiner j = joiner_of(q);
  const bool some_frequent = !Second && w.found->frequent != 0;
  const u32 usual = w.found->usual;
  if constexpr (!Second) {
    for (u32 i = me; i < frequent_all; i += part_threads) {
      if (i < frequent_slots) joins.frequent[i] = w.frequent[i];
      joins.joined[i] = no_operand_of<typename F::value>(j);
      joins.leader[i] = joins.last[i] = nobody;
    }
  }

  const bool to_parts = Second || w.bin_room == 0;
  const part_list<F>& to = to_parts ? w.part : w.bin;
  const u32 room = to_parts ? w.part_room : w.bin_room;
  const u32 group_shift = w.part_bits - Parts::group_bits(t) + (to_parts ? 0 : w.bin_bits);
  const u32 sub_bits = Second ? 0 : w.sub_bits;
  const u32 per_bin = Second ? (w.bin_room + tile - 1) / tile : 0;
  const u64 tiles = Second ? u64(w.bins) * per_bin : (n + tile - 1) / tile;
  word mine[each];
  const auto load = [&](divided_tile x) {
    if constexpr (Second)
      load_words<each>(mine, w.bin.word + x.from + me, x.own(me));
    else if (w.again)
      load_words<each>(mine, w.source.word + x.from + me, x.own(me));
    else
      load_elements<F, each>(mine, q, x.from + me, x.own(me));
  };
  const tiles_to_divide<F, Second> all{w, tiles, n, tile, per_bin, to_parts ? w.parts : w.bins};
  u64 g = blockIdx.x;
  divided_tile now = all.next(g);
  load(now);
  while (now.many) {  // the same for the whole block
    const u64 from = now.from;
    const u32 many = now.many, first = now.first, bins = now.bins, own_many = now.own(me);
    const auto bin_of = [&](word e) {
      const u32 bin = u32(Parts::group_of(t, F::key_of(e)) >> group_shift) - first;
      return sub_bits ? bin << sub_bits | bin_of_part(F::key_of(e), sub_bits) : bin;
    };
    u32 place[each];  // bin and rank in it
    if (me < bins) here.count[me] = 0;
    if (me == 0) here.some_are_full = 0;
    if constexpr (!Second) {
      for (u32 x = me; told && x < many; x += part_threads) q.status[number_at(w, from + x)] = u8(usual);
    }
    __syncthreads();
#pragma unroll
    for (u32 i = 0; i < each; ++i) {
      place[i] = nobody;
      if (i * part_threads >= own_many) continue;
      if constexpr (!Second) {
        const auto k = F::key_of(mine[i]);
        u32 slot = nobody;
        if (is_side_key(k))
          slot = side_slot(k);
        else if (some_frequent)
          slot = frequent_slot(joins.frequent, k, w.again);
        if (slot != nobody) {
          const u32 x = u32(from) + i * part_threads + me;
          const auto v = F::value_of(mine[i]);
          if (q.kind != accumulate || may_join_first(j, v, log_joined)) {
            if (told) q.status[number_at(w, x)] = u8(no);
            u32 leads = static_cast<volatile u32*>(joins.leader)[slot];
            if (leads == nobody) leads = atomicCAS(joins.leader + slot, nobody, x);
            if (leads != nobody && q.kind == assign) joins.last[slot] = x;
            if (q.kind == accumulate) join_in_block(joins.joined + slot, v, j);
            continue;
          }
          if (is_side_key(k)) {
            append(w.rest, mine[i], number_at(w, x));
            continue;
          }
        }
      }
      const u32 bin = bin_of(mine[i]);
      place[i] = bin << 16 | atomicAdd(here.count + bin, 1u);
    }
    __syncthreads();

    // Where each bin begins in this block's memory, and in its room.
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
    for (u32 i = 0; i < part_threads / 32; ++i) {
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
    __syncthreads();
#pragma unroll
    for (u32 i = 0; i < each; ++i) {
      if (place[i] == nobody) continue;
      const u32 bin = place[i] >> 16, at = here.count[bin] + (place[i] & 0xffff);
      staged[at] = mine[i];
      staged_bin[at] = uint16_t(bin);
      place[i] = at;
    }
    if (told) {
#pragma unroll
      for (u32 i = 0; i < each; ++i) {
        const u64 x = from + i * part_threads + me;
        if (place[i] != nobody) staged_at[place[i]] = Second ? w.bin.at[x] : number_at(w, x);
      }
    }
    __syncthreads();
    const bool some_are_full = here.some_are_full;
    now = all.next(g);
    load(now);  // while these leave: no load would be moved across what changes memory
#pragma unroll(sizeof(typename F::key) == 8 ? 2 : 4)
    for (u32 x = me; x < total; x += part_threads) {
      const word e = staged[x];
      const u32 bin = staged_bin[x], i = here.base[bin] + x;
      if (some_are_full && i >= (first + bin + 1) * room) {
        append(w.rest, e, told ? staged_at[x] : 0);
        continue;
      }
      to.word[i] = e;
      if (told) to.at[i] = staged_at[x];
    }
    __syncthreads();
  }

  if constexpr (!Second) {
    __syncthreads();
    for (u32 i = me; i < frequent_all; i += part_threads) {
      const u32 leads = joins.leader[i];
      if (leads == nobody) continue;
      const u32 before = atomicCAS(w.leader + i, nobody, leads);
      if (q.kind == assign) {
        if (before != nobody) w.last[i] = leads;
        if (joins.last[i] != nobody) w.last[i] = joins.last[i];
      }
      if (q.kind == accumulate) join_into(w.joined + i, joins.joined[i], j);
    }
  }
}

GH_END
