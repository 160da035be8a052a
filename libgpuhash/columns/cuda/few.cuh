// Groups of a column on a CUDA device: a column of few keys, whose groups are known once its rows are counted (count.cuh).
//
// The table of its keys fits the memory of a block: each row is looked up there, for its code or its value, and rows are
// moved nowhere. Codes in any order are given while the keys are met: this takes one kernel, which reads the column once.
#pragma once
#include "libgpuhash/columns/cuda/count.cuh"
#include "libgpuhash/columns/cuda/totals.cuh"

namespace gpuhash::columns {

constexpr u32 few_blocks = 2;  // of one multiprocessor
constexpr u32 begin_each = 8;  // tiles of a block

// A copy of the table, in the memory of a block.
template <class K>
class few_table {
 public:
  GH_FN few_table(const group_work<K>& work, carver& memory)
      : w(work), slots(work.plan.few_slots), key(memory.take<K>(slots)) {}
  // The barrier after it is the caller's.
  GH_FN void copy() const {
    for (u32 i = threadIdx.x; i < slots; i += divide_threads) key[i] = w.frequent[i];
  }
  // Calls body(row, place of its key, what load(row) gave, is there such a row) of each row of the block, all lanes of a warp
  // together; several rows are loaded at a time, and every few times begin() is called.
  template <u32 Each, class Load, class Begin, class Body>
  GH_FN void for_rows(Load load, Begin begin, Body body) const {
    u32 tiles = 0;
    constexpr u32 tile = divide_threads * Each;
    using along = decltype(load(0u));
    for (u64 from = u64(blockIdx.x) * tile; from < w.n; from += u64(gridDim.x) * tile) {
      K k[Each];
      along some[Each];
#pragma unroll
      for (u32 i = 0; i < Each; ++i) {
        const u64 row = from + i * divide_threads + threadIdx.x;
        k[i] = row < w.n ? w.keys[row] : w.keys[0];
        some[i] = load(u32(row < w.n ? row : 0));
      }
      if (tiles++ % begin_each == 0) begin();
#pragma unroll
      for (u32 i = 0; i < Each; ++i) {
        const u64 row = from + i * divide_threads + threadIdx.x;
        body(u32(row), place_of(w.hash(k[i])), some[i], row < w.n);
      }
    }
  }

 private:
  GH_FN u32 place_of(K h) const {
    if (h == no_hash<K>) return slots;
    for (u32 at = frequent_bucket(slots, h);; at = (at + neighbours<K>::many) & (slots - 1)) {
      const neighbours<K> there = *reinterpret_cast<const neighbours<K>*>(key + at);
#pragma unroll
      for (u32 j = 0; j < neighbours<K>::many; ++j)
        if (there.of[j] == h) return at + j;
    }
  }

  const group_work<K>& w;
  const u32 slots;
  K* const key;
};

// Each row gets the code of its key, when the order of the groups is known.
template <class K>
size_t few_codes_bytes(const group_plan& p) {
  return room_of(p.few_slots, sizeof(K)) + room_of(p.few_slots + 1, 4);
}
template <class K>
__global__ void __launch_bounds__(divide_threads, few_blocks) give_few_codes(const __grid_constant__ group_work<K> w) {
  wait_for_the_one_before();
  GH_DYNAMIC_MEMORY(unsigned char, at);
  if (!w.facts->few) return;
  carver memory(at);
  const few_table<K> keys(w, memory);
  u32* const code = memory.take<u32>(w.plan.few_slots + 1);
  keys.copy();
  for (u32 i = threadIdx.x; i <= w.plan.few_slots; i += divide_threads)
    if (w.frequent_count[i]) code[i] = w.wants.first ? group_of(w, w.frequent_first[i]) : w.frequent_code[i];
  __syncthreads();
  keys.template for_rows<8>([](u32) { return 0u; }, [] {},
                            [&](u32 row, u32 place, u32, bool live) {
                              if (live) w.out_codes[row] = code[place];
                            });
}

// Rows get codes as they are read: keys are numbered in the order in which blocks meet them. If a table has no room, what was
// written is overwritten by the kernels of other columns, which do nothing else.
template <class K>
class coding_block {
  static constexpr u32 at_once = 2;  // codes that a thread writes
  using rows = read_rows<K, at_once>;
  using numbered = met_keys<K, true>;

 public:
  using counters = typename numbered::counters;
  GH_FN coding_block(const group_work<K>& work, carver memory, counters* some) : w(work), met(work, memory, some) {}

  GH_FN void run() {
    if (!met.are_few()) {
      w.facts->many_keys = 1;
      return;
    }
    __syncthreads();
    const bool aligned = uintptr_t(w.out_codes) % sizeof(codes) == 0;
    for (rows some(w.keys, w.n); some.left(); some.go_on()) {
      const u32 many_keys = *static_cast<volatile u32*>(&w.facts->many_keys);
      some.take();
      give(some, aligned);
      if (met.is_full(many_keys)) break;
    }
  }

 private:
  struct alignas(16) codes {
    long long of[at_once];
  };

  // Most keys are found by one read, the others one after the other, and those of the last piece, which may end before. All lanes
  // of a warp call.
  GH_FN void give(const rows& some, bool aligned) {
    u32 code[count_each], left = 0;
    const bool whole = some.whole();
    if (whole) {
      u32 place[count_each];
#pragma unroll
      for (u32 i = 0; i < count_each; ++i) place[i] = met.find(w.hash(key_of(some, i)), 0);
#pragma unroll
      for (u32 i = 0; i < count_each; ++i) {
        code[i] = nowhere;
        if (place[i] != nowhere) code[i] = static_cast<volatile u32*>(met.of_all)[place[i]];
        left |= u32(code[i] == nowhere) << i;
      }
    } else {
#pragma unroll
      for (u32 i = 0; i < count_each; ++i) left |= u32(i % at_once < some.live(i / at_once)) << i;
    }
#pragma unroll 1
    for (; left; left &= left - 1) {
      const u32 i = __ffs(left) - 1;
      K k = key_of(some, 0);
#pragma unroll
      for (u32 x = 1; x < count_each; ++x)
        if (i == x) k = key_of(some, x);
      const u32 place = met.find_or_enter(w.hash(k)), number = place == nowhere ? 0 : met.number_at(met.of_all + place);
#pragma unroll
      for (u32 x = 0; x < count_each; ++x)
        if (i == x) code[x] = number;
    }
    __syncwarp();
    if (whole && aligned) {
#pragma unroll
      for (u32 i = 0; i < count_each; i += at_once)
        *reinterpret_cast<codes*>(w.out_codes + some.row(i / at_once)) = {code[i], code[i + 1]};
    } else {
#pragma unroll
      for (u32 i = 0; i < count_each; ++i)
        if (i % at_once < some.live(i / at_once)) w.out_codes[some.row(i / at_once) + i % at_once] = code[i];
    }
  }
  GH_FN static K key_of(const rows& some, u32 i) { return some.now[i / at_once].of[i % at_once]; }

  const group_work<K>& w;
  numbered met;
};
template <class K>
__global__ void __launch_bounds__(count_threads) code_few(const __grid_constant__ group_work<K> w) {
  wait_for_the_one_before();
  GH_DYNAMIC_MEMORY(unsigned char, memory);
  using block = coding_block<K>;
  GH_BLOCK_MEMORY(typename block::counters, some);
  block(w, carver(memory), &some).run();
  if (!all_others_have_ended(&w.facts->coded) || threadIdx.x) return;
  if (*static_cast<volatile u32*>(&w.facts->many_keys)) return;
  w.facts->few = 1;
  *w.groups = *static_cast<volatile u32*>(&w.facts->few_keys);
}

// The values of rows enter the totals of their keys, of a block at first.
template <class K, class V>
size_t few_values_bytes(const group_plan& p, const group_wants& wants) {
  const size_t places = p.few_slots + 1;
  return room_of(p.few_slots, sizeof(K)) + room_of(places, 4) + totals_of<V>::bytes(wants, places);
}
template <class K, class V>
__global__ void __launch_bounds__(divide_threads, few_blocks) add_few_values(const __grid_constant__ group_work<K> w) {
  wait_for_the_one_before();
  GH_DYNAMIC_MEMORY(unsigned char, at);
  if (!w.facts->few) return;
  carver memory(at);
  const u32 places = w.plan.few_slots + 1;
  const few_table<K> keys(w, memory);
  u32* const rows = memory.take<u32>(places);  // are known
  const auto totals = totals_of<V>::carve(w.wants, memory, places, rows);
  adder<V> of_keys(w.wants, totals, false);
  keys.copy();
  for (u32 i = threadIdx.x; i < places; i += divide_threads) totals.clear(w.wants, i);
  __syncthreads();
  keys.template for_rows<4>([&](u32 row) { return static_cast<const V*>(w.values)[row]; }, [&] { of_keys.begin(); },
                            [&](u32, u32 place, V value, bool live) { of_keys.add(live, place, value); });
  of_keys.flush();
  __syncthreads();
  for (u32 i = threadIdx.x; i < places; i += divide_threads)
    if (w.frequent_count[i]) totals_of<V>::frequent(w).template add<false>(w.wants, i, totals.read(w.wants, i), false);
}

}  // namespace gpuhash::columns
