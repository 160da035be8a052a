// Batches of allocations on the CPU: a thread keeps a resident memory block and takes whole words of its bitmap at once.
#pragma once
#include "libgpuhash/alloc/slab_engine.hpp"
#include "libgpuhash/alloc/slab_heap.hpp"
#include "libgpuhash/kit/team.hpp"
#include "libgpuhash/tile/host.hpp"

GH_BEGIN

inline constexpr cut slab_cut = tunable_cut({16384, 8192, 32768});

// Units for units[begin..end), up to 32 per atomic; the number that could not be had.
inline u64 allocate_range(const slab_heap& h, u32* units, size_t begin, size_t end, u64 hint) {
  size_t i = begin;
  for (u32 attempt = 0; attempt < h.tries() && i < end; ++attempt) {
    const u32 b = h.block_to_try(hint, attempt), super = b / h.blocks, block = b % h.blocks;
    u32* const words = h.bitmap(super, block);
    for (u32 w = 0; w < block_words && i < end; ++w) {
      u32 seen = host_mem::load<order::relaxed>(words + w);
      while (seen != ~0u && i < end) {
        u32 want = ~seen;
        while (size_t(__builtin_popcount(want)) > end - i) want &= want - 1;
        const u32 before = host_mem::fetch_or<order::relaxed>(words + w, want);
        for (u32 got = want & ~before; got; got &= got - 1)
          units[i++] = slab_heap::handle(super, block, w * 32 + slab_heap::lowest(got));  // A1
        seen = before | want;
      }
    }
  }
  for (size_t rest = i; rest < end; ++rest) units[rest] = no_unit;
  return end - i;
}

inline int host_allocate(const void* heap, size_t n, uint32_t* units, uint64_t hint, uint64_t* missing,
                         uint32_t threads, void*) {
  const auto& h = *static_cast<const slab_heap*>(heap);
  in_pieces(threads, n, slab_cut, [&](size_t begin, size_t end) {
    const u64 none = allocate_range(h, units, begin, end, hint + begin);
    __atomic_fetch_add(missing, none, __ATOMIC_RELAXED);
  });
  return 0;
}

inline void lower_to(uint64_t* least, uint64_t value) {
  uint64_t seen = __atomic_load_n(least, __ATOMIC_RELAXED);
  while (value < seen && !__atomic_compare_exchange_n(least, &seen, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
}

inline int host_release(const void* heap, size_t n, const uint32_t* units, uint8_t* status, uint32_t wipe,
                        uint64_t* refused, uint64_t* first, uint32_t threads, void*) {
  const auto& h = *static_cast<const slab_heap*>(heap);
  in_pieces(threads, n, slab_cut, [&](size_t begin, size_t end) {
    uint64_t bad = 0;
    for (size_t i = begin; i < end; ++i) {
      const u32 unit = host_mem::load<order::relaxed>(units + i);  // once: the caller may write to the array
      const bool good = h.owns(unit) && h.release<host_mem>(unit);
      if (good && wipe) __builtin_memset(h.address(unit), 0xff, size_t(1) << h.unit_bits);  // A2
      if (status) status[i] = good;
      if (!good && bad++ == 0) lower_to(first, i);
    }
    __atomic_fetch_add(refused, bad, __ATOMIC_RELAXED);
  });
  return 0;
}

inline int host_translate(const void* heap, size_t n, const uint32_t* units, void** addresses, uint32_t threads,
                          void*) {
  const auto& h = *static_cast<const slab_heap*>(heap);
  in_pieces(threads, n, slab_cut, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      const u32 unit = host_mem::load<order::relaxed>(units + i);  // once
      addresses[i] = h.owns(unit) ? h.address(unit) : nullptr;
    }
  });
  return 0;
}

inline const slab_engine* host_slab_engine() {
  static constexpr slab_engine e = {host_allocate, host_release, host_translate};
  return &e;
}

GH_END
