// A table of slab_hash for the tests of its kernels on emulated warps.
#pragma once
#include "plugins/slab_hash/layout.hpp"
#include "tests/warp/batches.hpp"

namespace warp_test {

// Memory of a heap of which only so many units are free.
struct heap_memory {
  vector<u128> units;
  vector<vector<u32>> bitmaps;
  u32 note = 0;
  slab_heap h{};

  heap_memory(u32 supers, u32 blocks, u32 unit_bytes, u64 free_units) {
    const size_t per_super = size_t(blocks) * block_units * unit_bytes;
    units.resize(supers * per_super / 16 + 8);
    memset(units.data(), 0xff, units.size() * 16);
    auto* base = reinterpret_cast<unsigned char*>((reinterpret_cast<uintptr_t>(units.data()) + 127) & ~uintptr_t(127));
    bitmaps.resize(supers);
    for (u32 s = 0; s < supers; ++s) {
      bitmaps[s].resize(size_t(blocks) * block_words);
      for (u32& word : bitmaps[s])
        for (u32 bit = 0; bit < 32; ++bit)
          if (free_units)
            --free_units;
          else
            word |= 1u << bit;
      h.units[s] = base + s * per_super, h.bitmaps[s] = bitmaps[s].data();
    }
    if (supers > 1) h.fresh = 1, h.share = 0xc0000000u;  // as after growth: every draw meets both kinds of super blocks
    h.note = &note, h.supers = supers, h.blocks = blocks, h.unit_bits = u32(__builtin_ctz(unit_bytes)), h.seed = 99;
  }
  u64 taken() const {
    u64 n = 0;
    for (const auto& bits : bitmaps)
      for (const u32 word : bits) n += u64(__builtin_popcount(word));
    return n;
  }
};

template <class F>
struct slab_store : store {
  slab_table<F> t{};
  heap_memory heap;

  slab_store(const engine* e, u64 keys, u32 slab_bytes, bool duplicates)
      : slab_store(e, keys / (slab_bytes / sizeof(typename F::word) * 3) + 2, slab_bytes, duplicates,
                   keys < 100 ? 3 : ~u64(0)) {}
  slab_store(const engine* e, u64 buckets, u32 slab_bytes, bool duplicates, u64 free_units)
      : heap(2, 2, slab_bytes, free_units) {
    const u32 slots = slab_bytes / sizeof(typename F::word);
    memory_.resize((buckets + 2) * slab_bytes / 16 + 8);
    memset(memory_.data(), 0xff, memory_.size() * 16);
    t.base = reinterpret_cast<typename F::word*>((reinterpret_cast<uintptr_t>(memory_.data()) + 127) & ~uintptr_t(127));
    tails_.resize(buckets + 2, no_unit);
    t.tails = duplicates ? tails_.data() : nullptr;
    t.seed = 777, t.buckets = typename F::index(buckets), t.slab_slots = slots, t.duplicates = duplicates;
    t.heap = heap.h;
    run = e, layout = &t, cells = buckets + 2;
    key_bytes = sizeof(typename F::key), value_bytes = F::has_value ? sizeof(typename F::value) : 0;
  }
  // By S2 the empty slots of a chain are its suffix; a unit is on one chain or free (S5).
  int64_t used() const override {
    int64_t n = 0;
    for (u64 b = 0; b < cells; ++b) {
      bool ended = false;
      for (const typename F::word* at = t.bucket(typename F::index(b));;) {
        for (u32 i = 0; i + 1 < t.slab_slots; ++i) {
          const bool empty = F::key_of(at[i]) == empty_key<typename F::key>;
          if (ended && !empty) wrong("bucket %llu: a key follows an empty slot (S2)", b);
          ended |= empty;
          n += !empty;
        }
        const u32 next = t.next_of(at[t.slab_slots - 1]);
        if (next == no_unit) break;
        if (!t.heap.owns(next)) wrong("bucket %llu: a link leads nowhere (S4)", b);
        at = t.slab(next);
      }
    }
    return n;
  }
  u64 linked() const {
    u64 n = 0;
    for (u64 b = 0; b < cells; ++b)
      for (const typename F::word* at = t.bucket(typename F::index(b));;) {
        const u32 next = t.next_of(at[t.slab_slots - 1]);
        if (next == no_unit) break;
        ++n, at = t.slab(next);
      }
    return n;
  }

 private:
  vector<u128> memory_;
  std::vector<u32> tails_;
};

}  // namespace warp_test
