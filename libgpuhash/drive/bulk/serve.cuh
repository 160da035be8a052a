// Large batches: a block serves a partition in its own memory.
#pragma once
#include "libgpuhash/drive/bulk/count_slots.cuh"

GH_BEGIN

template <class Parts, u32 Kind>
__global__ void __launch_bounds__(part_servers, serve_blocks<typename Parts::F, Kind>)
    serve_parts(const __grid_constant__ typename Parts::table t, const __grid_constant__ request q,
                const __grid_constant__ parts_work<typename Parts::F> w, totals* sum) {
  after_the_one_before();
  using F = typename Parts::F;
  using word = typename F::word;
  using op_type = typename Parts::template op<lone_tile<F, block_mem>, Kind>;
  constexpr bool adds = Kind != erase;
  constexpr u32 wide = 16 / sizeof(word), at_once = counted_at_once;
  GH_DYNAMIC_MEMORY(word, slots);
  const u32 part = blockIdx.x, me = threadIdx.x;
  if (!w.found->divided) return;
  const u32 n = count_of(w.part.n + part, w.part_room);
  if (n == 0) return;  // the whole block
  const u64 begin = u64(part) << w.part_bits, all = t.n_slots;
  const u32 size = u32(all - begin < u64(1) << w.part_bits ? all - begin : u64(1) << w.part_bits);
  const word* const mine = w.part.word + u64(part) * w.part_room;
  const u32* const at = w.part.at ? w.part.at + u64(part) * w.part_room : nullptr;
  const joiner j = joiner_of(q);
  const u32 usual = w.found->usual;
  // More elements than slots: most of them are of keys that others are of, too.
  const bool counts = adds && n <= size && n <= 32 * part_servers;
  const u32 group_bits = Parts::group_bits(t), groups = size >> group_bits;
  u32* const counters = reinterpret_cast<u32*>(slots + (u64(1) << w.part_bits));
  u32* const n_left = counters + ((u64(1) << w.part_bits) >> group_bits);
  u32* const chains = n_left + 4;
  uint16_t* const chained = reinterpret_cast<uint16_t*>(chains + chained_at_most);
  uint16_t* const who = q.status ? chained + chained_at_most : nullptr;
  const counted_part<Parts, Kind> counted{slots, counters, chains, who, at, q.status, usual, group_bits, groups};

  for (u32 from = 0; from < size; from += at_once * part_servers * wide) {
    lane_words<word, int(wide), false> some[at_once];
#pragma unroll
    for (u32 g = 0; g < at_once; ++g) {
      const u32 i = from + (g * part_servers + me) * wide;
      if (i < size) load_slots<F>(some[g], w.fresh, t.slots + begin + i);
    }
#pragma unroll
    for (u32 g = 0; g < at_once; ++g) {
      const u32 i = from + (g * part_servers + me) * wide;
      if (i < size) block_mem::store_row(slots + i, some[g].w);
      if (counts) counted.begin(i, i < size, some[g].w);
    }
  }
  if (me < 3) n_left[me] = 0;
  __syncthreads();

  done_here done;
  const u32 first_group = u32(begin >> group_bits);
  const auto group_of = [&](word e) { return u32(Parts::group_of(t, F::key_of(e))) - first_group; };
  u32 total = n, room = n;   // elements for ops.hpp, and how many of them at a time
  u32 left = 0, before = 0;  // a bit for each of this thread's elements; and those of other threads that come before
  bool in_chains = false;    // these are elements of the chains
  if constexpr (adds) {
    if (counts) {
      bool pays = true;
      for (u32 from = 0, turn = 0; from < n; from += at_once * part_servers, turn += at_once) {
        word e[at_once];
#pragma unroll
        for (u32 g = 0; g < at_once; ++g) {
          const u32 x = from + g * part_servers + me;
          if (x < n && pays) e[g] = mine[x];
        }
#pragma unroll
        for (u32 g = 0; g < at_once; ++g) {
          const u32 x = from + g * part_servers + me;
          if (x < n && !(pays && counted.take(e[g], x, group_of(e[g]), j))) left |= 1u << (turn + g);
        }
        if (from == 0 && n > at_once * part_servers) {  // many elements of few keys are left, all of them
          if (left) atomicAdd(n_left + 1, u32(__popc(left)));
          __syncthreads();
          pays = n_left[1] < at_once * part_servers / 4;
        }
      }
      __syncthreads();
      for (u32 g = me; g < groups; g += part_servers) counted.settle(g, j, done);
      if (left) before = atomicAdd(n_left, u32(__popc(left)));
      __syncthreads();
      total = *n_left;
      if (Parts::goes_on && total && total <= chained_at_most) {  // the same for the whole block
        for (u32 bits = left, to = before; bits; bits &= bits - 1, ++to)
          chained[to] = uint16_t(u32(__ffs(bits) - 1) * part_servers + me);
        __syncthreads();
        for (u32 i = me; i < total; i += part_servers) {
          const word e = mine[chained[i]];
          counted.chain(e, group_of(e), i + 1);
        }
        __syncthreads();
        left = 0;
        in_chains = true;
        for (u32 i = me, bit = 1; i < total; i += part_servers, bit *= 2) {
          const u32 x = chained[i];
          const word e = mine[x];
          const u32 end = counted.place_further(e, x, group_of(e), i + 1, done);
          if (end == further_left) append(w.rest, e, at ? at[x] : 0);
          if (end == further_unclear) left |= bit;
        }
        if (left) before = atomicAdd(n_left + 2, u32(__popc(left)));
        __syncthreads();
        total = n_left[2];
      }
      room = 2 * groups;
    }
  }

  const auto local = Parts::local(t, slots, size);
  uint16_t* const list = reinterpret_cast<uint16_t*>(counters);
  typename op_type::tile_type tile;
  op_type op;
  const auto start = [&](word e) {
    op.start(local, Kind, F::key_of(e), F::value_of(e), Parts::local_home(t, group_of(e)));
  };
  for (u32 served = 0; served < total; served += room) {
    if (counts) {
      u32 to = before - served;
      for (u32 bits = left; bits; bits &= bits - 1, ++to) {
        const u32 own = u32(__ffs(bits) - 1) * part_servers + me;
        if (to < room) list[to] = in_chains ? chained[own] : uint16_t(own);
      }
      __syncthreads();
    }
    const u32 many = total - served < room ? total - served : room;
    // Few elements by few warps: a warp takes as long as its longest path, unless its threads have several each.
    const u32 wanted = (many / few_each + 31) & ~31u;
    const u32 threads = wanted < 32 ? 32 : wanted < part_servers ? wanted : part_servers;
    const auto number = [&](u32 i) { return counts ? u32(list[i]) : i; };
    // A thread goes from one element to its next while others of its warp are still on their way: paths differ in length.
    // The next but one comes from memory meanwhile.
    u32 i = me < threads ? me : many, x = 0, x_ahead = 0;
    word e{}, ahead{};
    if (i < many) {
      x = number(i);
      e = mine[x];
      start(e);
    }
    if (i + threads < many) {
      x_ahead = number(i + threads);
      ahead = mine[x_ahead];
    }
    while (__any_sync(full_warp, i < many)) {  // a vote, so that the lanes of a warp meet again
      if (i >= many || op.step(tile, local, j, tile.load(op.line(local)), true) != verdict::done) continue;
      if (Parts::left(op)) {
        append(w.rest, e, at ? at[x] : 0);
      } else {
        done.live += op.res.live;
        done.used += op.res.used;
        done.good += op.res.status == yes;
        counted.tell(x, op.res.status);
      }
      i += threads;
      x = x_ahead;
      e = ahead;
      if (i < many) start(e);
      if (i + threads < many) {
        x_ahead = number(i + threads);
        ahead = mine[x_ahead];
      }
    }
    __syncthreads();
  }
  for (u32 i = me * wide; i < size; i += part_servers * wide) {
    lane_words<word, int(wide), false, block_mem> some;
    some.load(slots + i);
    cuda_mem::store_row(t.slots + begin + i, some.w);
  }
  add_sums(sum, q.batch_sum, warp_sum(done.live), warp_sum(done.used), warp_sum(int(done.good)), 0, 0);
}

GH_END
