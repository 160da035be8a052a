// Groups of a column on a CUDA device: a column of few keys, whose groups are known once its rows are counted (count.cuh).
//
// The table of its keys fits the memory of a block: each row is looked up there, for its code or its value, and rows are
// moved nowhere.
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

// The values of rows enter the totals of their keys, of a block at first.
template <class K, class V>
size_t few_values_bytes(const group_plan& p, const group_wants& wants) {
  const size_t places = p.few_slots + 1;
  return room_of(p.few_slots, sizeof(K)) + room_of(places, 4) + totals_of<V>::bytes(wants, places);
}
template <class K, class V>
__global__ void __launch_bounds__(divide_threads, few_blocks) add_few_values(const __grid_constant__ group_work<K> w) {
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
