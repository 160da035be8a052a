// SlabAlloc and SlabAlloc-light: units of 64, 128 or 256 bytes, handed out and taken back by any number of tiles at once.
//
// After Ashkiani, Farach-Colton and Owens, "A Dynamic Hash Table for the GPU" (2018), section V:
//
//   super block   up to 255, contiguous memory each, added by the host between batches
//   memory block  up to 2^14 a super block, 1024 units each
//   bitmap        32 words of 32 bits a memory block; a set bit is a unit that is taken
//
//   handle        | super block 8 | memory block 14 | unit 10 |      0xffffffff is no unit: super block 255 is never made
//
// slab_alloc reads the address of a unit's super block from a table; slab_alloc_light has one contiguous range, so that
// the address is a multiplication.
//
//   A1  A unit belongs to the tile that turned its bit from 0 to 1, until it is released.
//   A2  A unit that is free holds only 0xff bytes if the heap is wiped: units that were written are freed by exclusive
//       operations only, which wipe them.
//   A3  An allocation fails only if it saw every block full, or the note. A tile that releases a unit removes the note
//       afterwards.
//
// A tile looks in blocks drawn by a hash first, so that tiles that allocate at the same time meet rarely, and then in
// every block once: an allocation fails only if each block was seen full (the paper's retries at random for ever). The
// first to see that leaves a note, so that the many others of its batch need not look everywhere too, but in one block;
// a tile that releases a unit removes the note.
#pragma once
#include "libgpuhash/hash/hash.hpp"
#include "libgpuhash/tile/mutant.hpp"

GH_BEGIN

inline constexpr u32 no_unit = 0xffffffffu;
#if defined(GPUHASH_SIM)  // the explorer's blocks are as small as they can be, so that a full heap is few loads
inline constexpr u32 block_words = 2, hashed_tries = 1;
#else
inline constexpr u32 block_words = 32, hashed_tries = tunable("hashed_tries", 8u);
#endif
inline constexpr u32 block_units = 32 * block_words;

struct slab_heap {
  static constexpr u32 max_supers = 255, max_blocks = 1u << 14, super_units = max_blocks * block_units;

  unsigned char* units[max_supers];  // of each super block
  u32* bitmaps[max_supers];          // 32 words for each of its memory blocks
  u32* note;                         // 1: every block was seen full, and no unit has come back since
  u32 supers;                        // in use
  u32 blocks;                        // memory blocks in each super block
  u32 unit_bits;                     // log2 of the unit's bytes
  u32 light;                         // 1: super blocks follow each other in memory
  u32 fresh;                         // super blocks from this one on were added when those before were well filled
  u32 share;                         // of 2^32 blocks that are drawn, so many lie in fresh ones; 0: there are none
  u64 seed;

  GH_FN u64 capacity() const { return u64(supers) * blocks * block_units; }
  GH_FN static u32 handle(u32 super, u32 block, u32 unit) { return super << 24 | block << 10 | unit; }
  GH_FN bool owns(u32 h) const { return (h >> 24) < supers && (h >> 10 & (max_blocks - 1)) < blocks; }
  GH_FN unsigned char* address(u32 h) const {
    if (light)
      return units[0] + (u64(h >> 24) * blocks * block_units + (h & (super_units - 1))) * (u64(1) << unit_bits);
    return units[h >> 24] + (u64(h & (super_units - 1)) << unit_bits);
  }
  GH_FN u32* bitmap(u32 super, u32 block) const { return bitmaps[super] + block * block_words; }

  // Where to look on the i-th try of a request; hint tells requests apart. Tries from hashed_tries on walk every block, a
  // block of each super block in turn: they fill up one after the other, so that a walk through one would be a long one.
  GH_FN u32 block_to_try(u64 hint, u32 i) const {
    const u32 all = supers * blocks;
    if (i < hashed_tries) {
      const u64 drawn = mix(hint + seed + i);  // reduce() takes its upper half, the share its lower one
      const u32 old = fresh * blocks;
      if (!share) return u32(reduce(drawn, u64(all)));
      return u32(drawn) < share ? old + u32(reduce(drawn, u64(all - old))) : u32(reduce(drawn, u64(old)));
    }
    const u32 first = u32(reduce(mix(hint + seed), u64(all)));
    const u32 walked = i - hashed_tries;
    return (first + walked) % supers * blocks + (first / supers + walked / supers) % blocks;
  }
  GH_FN u32 tries() const { return hashed_tries + (GH_MUTANT(no_sweep) ? 0 : supers * blocks); }

  GH_FN static u32 lowest(u32 w) {
#if defined(__CUDA_ARCH__)
    return __ffs(w) - 1;
#else
    return u32(__builtin_ctz(w));
#endif
  }

  // One unit for one lane, or no_unit. Linearizes at the winning fetch_or. A note may outlive a unit that comes back while it
  // is written; then a single allocation or a few fail early, until the next unit comes back or the host adds some.
  template <class Mem>
  GH_FN u32 allocate(u64 hint) const {
    if (Mem::allocation_fails()) return no_unit;
    for (u32 i = 0; i < tries(); ++i) {
      if (i == 1 && Mem::template load<order::relaxed>(note)) return no_unit;
      const u32 b = block_to_try(hint, i), super = b / blocks, block = b % blocks;
      u32* const words = bitmap(super, block);
      const u32 start = u32(mix(hint ^ i) >> 59);
      for (u32 step = 0; step < block_words; ++step) {
        const u32 w = (start + step) % block_words;
        for (u32 seen = Mem::template load<order::relaxed>(words + w); seen != ~0u;) {
          const u32 bit = lowest(~seen);
          const u32 before = Mem::template fetch_or<order::relaxed>(words + w, 1u << bit);
          if (!(before >> bit & 1)) return handle(super, block, w * 32 + bit);  // A1
          seen = before;
        }
      }
    }
    Mem::template store<order::relaxed>(note, 1u);
    return no_unit;
  }

  // Give a unit back. False if it was not taken: freed twice, or never handed out.
  template <class Mem>
  GH_FN bool release(u32 h) const {
    const u32 bit = 1u << (h & 31);
    const u32 before =
        Mem::template fetch_and<order::relaxed>(bitmap(h >> 24, h >> 10 & (max_blocks - 1)) + (h >> 5 & 31), ~bit);
    if (Mem::template load<order::relaxed>(note)) Mem::template store<order::relaxed>(note, 0u);
    return before & bit;
  }
};

GH_END
