// Batches of allocations on CUDA: SlabAlloc's warp. A warp keeps a resident memory block, one word of its bitmap in each
// lane; its 32 requests are met by the lanes that have free units, all that a lane gives by one atomic.
#pragma once
#include "libgpuhash/alloc/slab_engine.hpp"
#include "libgpuhash/alloc/slab_heap.hpp"
#include "libgpuhash/tile/cuda.cuh"

GH_BEGIN

inline constexpr u32 slab_threads = 256;

// Sum of v over the lanes below this one; *all: over all lanes.
GH_FN u32 sum_below(u32 v, u32* all) {
  u32 up_to = v;
#pragma unroll
  for (u32 d = 1; d < 32; d *= 2) {
    const u32 below = __shfl_up_sync(full_warp, up_to, d);
    up_to += threadIdx.x % 32 >= d ? below : 0;
  }
  *all = shuffle(up_to, 31, 32);
  return up_to - v;
}

__global__ void __launch_bounds__(slab_threads)
    allocate_units(const __grid_constant__ slab_heap h, size_t n, u32* units, u64 hint, u64* missing) {
  const size_t begin = (blockIdx.x * size_t(slab_threads) + threadIdx.x) & ~size_t(31);
  const u32 lane = threadIdx.x % 32;
  u32 need = begin >= n ? 0 : n - begin < 32 ? u32(n - begin) : 32;  // the same in all lanes
  size_t at = begin;
  for (u32 attempt = 0; need && attempt < h.tries(); ++attempt) {
    const u32 b = h.block_to_try(hint + begin, attempt), super = b / h.blocks, block = b % h.blocks;
    const u32 w = (lane + u32(begin >> 5)) % block_words;  // warps that share a block begin at different words
    u32* const word = h.bitmap(super, block) + w;
    u32 seen = cuda_mem::load<order::relaxed>(word);
    for (;;) {
      u32 on_offer;
      const u32 before_me = sum_below(__popc(~seen), &on_offer);
      if (!on_offer || !need) break;
      u32 want = ~seen, mine = need > before_me ? need - before_me : 0;  // this lane gives `mine` units at most
      if (mine == 0) want = 0;
      while (u32(__popc(want)) > mine) want &= want - 1;
      u32 got = 0;
      if (want) {
        const u32 before = cuda_mem::fetch_or<order::relaxed>(word, want);
        got = want & ~before;  // A1
        seen = before | want;
      }
      u32 all;
      size_t to = at + sum_below(__popc(got), &all);
      for (; got; got &= got - 1) units[to++] = slab_heap::handle(super, block, w * 32 + slab_heap::lowest(got));
      at += all, need -= all;
    }
  }
  if (need) {
    if (lane < need) units[at + lane] = no_unit;
    if (lane == 0) atomicAdd(missing, u64(need));
  }
}

__global__ void __launch_bounds__(slab_threads)
    release_units(const __grid_constant__ slab_heap h, size_t n, const u32* units, u8* status, u32 wipe, u64* refused,
                  u64* first) {
  const size_t i = blockIdx.x * size_t(slab_threads) + threadIdx.x;
  if (i >= n) return;
  const u32 unit = units[i];
  const bool good = h.owns(unit) && h.release<cuda_mem>(unit);
  if (good && wipe)
    for (u64* p = reinterpret_cast<u64*>(h.address(unit));
         p != reinterpret_cast<u64*>(h.address(unit) + (size_t(1) << h.unit_bits)); ++p)
      cuda_mem::store<order::relaxed>(p, ~u64(0));  // A2
  if (status) status[i] = good;
  if (!good) {
    atomicAdd(refused, u64(1));
    atomicMin(first, u64(i));
  }
}

__global__ void __launch_bounds__(slab_threads)
    translate_units(const __grid_constant__ slab_heap h, size_t n, const u32* units, void** addresses) {
  const size_t i = blockIdx.x * size_t(slab_threads) + threadIdx.x;
  if (i < n) addresses[i] = h.owns(units[i]) ? h.address(units[i]) : nullptr;
}

inline u64 slab_blocks(size_t n) { return (n + slab_threads - 1) / slab_threads; }
inline int cuda_allocate(const void* heap, size_t n, uint32_t* units, uint64_t hint, uint64_t* missing, uint32_t,
                         void* stream) {
  return launch(allocate_units, slab_blocks(n), slab_threads, stream, *static_cast<const slab_heap*>(heap), n, units,
                hint, reinterpret_cast<u64*>(missing));
}
inline int cuda_release(const void* heap, size_t n, const uint32_t* units, uint8_t* status, uint32_t wipe,
                        uint64_t* refused, uint64_t* first, uint32_t, void* stream) {
  return launch(release_units, slab_blocks(n), slab_threads, stream, *static_cast<const slab_heap*>(heap), n, units,
                status, wipe, reinterpret_cast<u64*>(refused), reinterpret_cast<u64*>(first));
}
inline int cuda_translate(const void* heap, size_t n, const uint32_t* units, void** addresses, uint32_t, void* stream) {
  return launch(translate_units, slab_blocks(n), slab_threads, stream, *static_cast<const slab_heap*>(heap), n, units,
                addresses);
}

inline const slab_engine* cuda_slab_engine() {
  static const slab_engine e = {cuda_allocate, cuda_release, cuda_translate};
  return &e;
}

GH_END
