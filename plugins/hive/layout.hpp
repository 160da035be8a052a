// hive: the bytes of the table.
//
//   slots    | bucket 0 | bucket 1 | ... | bucket N-1 |    B slots each (8, 16 or 32), a power of two; 128-byte aligned
//   stash    | slot | slot | ... |                         a small table of slots, probed linearly
//   locks    | u32 | u32 | ... |                           of home buckets; bucket b has word b mod their number
//   filter   | u8 | u8 | ... |                             of home buckets, four bytes to a word
//   note     | u32 |                                       was anything ever stashed?
//   side     | key ~0 | key ~0-1 |                         kit/side.hpp
//
// A key has a home, bucket h1, and one or two other buckets, h2 and h3, all different and all in one segment of the table. It
// lies in its home as long as that has an EMPTY slot; then in any of its buckets, or in the stash.
//
// All bytes are 0xff in an empty table. A lock is free while its word is odd; a tile that locks it makes it even, and one that
// unlocks it makes it odd and another number than before. A bit of the filter is 1 until a key of that home and bit lies
// outside of its home.
//
// Invariants (cited in ops.hpp and place.hpp, tested by check and by the explorer):
//   H1  A slot never becomes EMPTY again until its segment is packed, exclusively. Erase leaves k's tombstone, a relocation
//       that failed or made room leaves the tombstone of no key, {DEAD, DEAD}.
//   H2  While the home of k has an EMPTY slot, k is in its home or nowhere, and comes to it by a swap of the first EMPTY
//       slot.
//   H3  Before k appears outside of its home, its home's filter bit is cleared. No bit is set again.
//   H4  k is added outside of its home, or to a home without an EMPTY slot, and k is relocated, only by who holds the lock of
//       k's home. (Not: reviving k's tombstone in its home, changing k's value, erasing k.)
//   H5  A dead slot of bucket b becomes another key's only by who holds the lock of b.
//   H6  Where a slot of k's home holds k's tombstone, k is live nowhere. So the tile that swaps that for k adds it once.
//   H7  k has at most one live slot.
#pragma once
#include "libgpuhash/hash/hash.hpp"
#include "libgpuhash/tile/kinds.hpp"
#if !defined(__CUDACC__)
#include <bit>
#endif
// The hash functions of a module that was compiled for them alone, as `functions` has them (asv_bench/harness/hive_hashes.py).
#if defined(HIVE_HASHES) || !defined(__CUDACC__)
#include "libgpuhash/hash/functions.hpp"
#endif

GH_BEGIN

inline constexpr u32 most_ways = 3;
inline constexpr u32 least_buckets = 4;  // of a segment, so that the buckets of a key can differ
// Rounds of evictions, before the stash has to take a key. One more costs time, and changes no answer.
#if defined(GPUHASH_SIM)
inline constexpr u32 eviction_rounds = 2;
#elif defined(GPUHASH_EMULATED_WARP)
inline constexpr u32 eviction_rounds = 1;
#else
inline constexpr u32 eviction_rounds = 8;
#endif
inline constexpr u32 most_eviction_rounds = 64;

// The tombstone of no key.
template <class F>
constexpr typename F::word vacant() {
  return tombstone<F>(dead_key<typename F::key>);
}
template <class F>
constexpr bool is_dead(typename F::word w) {
  return F::key_of(w) == dead_key<typename F::key>;
}
template <class F>
constexpr bool is_empty(typename F::word w) {
  return F::key_of(w) == empty_key<typename F::key>;
}

// A second family of mixers, whose bits have nothing to do with those of hash.hpp (constants: Wellons, "Hash Function
// Prospector", public domain; Vigna's SplitMix64, public domain).
GH_FN u32 mix_again(u32 k) {
  k ^= k >> 16;
  k *= 0x7feb352du;
  k ^= k >> 15;
  k *= 0x846ca68bu;
  return k ^ k >> 16;
}
GH_FN u64 mix_again(u64 k) {
  k ^= k >> 30;
  k *= 0xbf58476d1ce4e5b9ull;
  k ^= k >> 27;
  k *= 0x94d049bb133111ebull;
  return k ^ k >> 31;
}

// Own: `functions` is 0, and hashes are not looked up by name. The CPU's operations on buckets of 8 slots are compiled for
// such tables: asking costs an insert 3 to 6 % of its instructions, an accumulate 1.4 %.
template <class F, bool Own = false>
struct hive_table {
  using format = F;
  using key = typename F::key;
  using word = typename F::word;
  using index = typename F::index;

  word* slots;
  word* stash;
  u32* locks;
  u32* filter;
  u32* note;  // ~0: nothing was ever stashed
  word* side;
  u64 seed;
  index base;             // segments of round 0
  index split;            // so many segments of this round are split in two
  index segment_buckets;  // of each segment
  u32 round;              // in which there were base << round segments at first
  u32 slot_bits;          // log2 of B
  u32 ways;               // buckets of a key: 2 or 3
  u32 functions;          // a hash_function for each way, 4 bits each; 0: the structure's own, as on CUDA
  u32 lock_mask;
  u32 stash_slots;                  // 0: none
  u32 stash_path;                   // slots of the stash from a key's first one on where it may lie
  u32 evictions = eviction_rounds;  // 0: no key makes room for another one
  u32 commits = 0;                  // 1: a slot is claimed under its bucket's lock, and then written

  static constexpr u32 kinds = single_kinds;
  static constexpr bool side_slots = true;

  constexpr u64 segments() const { return (u64(base) << round) + split; }
  constexpr u64 buckets() const { return segments() * segment_buckets; }
  constexpr u64 bucket_cells() const { return buckets() << slot_bits; }
  // Every slot, the stash's included, for export and rebuild: emit(key, value) for each live pair of cell i.
  GH_FN u64 cells() const { return bucket_cells() + stash_slots; }
  GH_FN word* cell(u64 i) const { return i < bucket_cells() ? slots + i : stash + (i - bucket_cells()); }
  static constexpr bool cells_are_slots = true;
  const word* slots_at(u64 i, u64* many) const {
    if (i < bucket_cells() && *many > bucket_cells() - i) *many = bucket_cells() - i;
    return cell(i);
  }
  template <class Mem, class Emit>
  GH_FN void each_live(u64 i, Emit emit) const {
    const word w = Mem::template load<order::relaxed>(cell(i));
    if (is_live<F>(w)) emit(F::key_of(w), F::value_of(w));
  }

#if !defined(__CUDACC__)
  // The same table, if `functions` is 0.
  hive_table<F, true> with_own_hashes() const { return std::bit_cast<hive_table<F, true>>(*this); }
#endif

  GH_FN word* bucket(index b) const { return slots + (u64(b) << slot_bits); }
  GH_FN u32* lock_of(index b) const { return locks + (u32(b) & lock_mask); }
  GH_FN u32* filter_of(index home) const { return filter + (home >> 2); }

  // The segment of a hash by linear hashing: of round 0 the high part of hash * base, the low part of which says where in the
  // segment the home is; and for each later round another low bit of the hash.
  GH_FN index segment_of(index h) const {
    const index s = reduce(h, base) + base * (h & ((index(1) << round) - 1));
    return s + (s < split ? base * (h & index(1) << round) : 0);
  }
  // The home among the buckets of its segment.
  GH_FN index place_of(index h) const { return reduce(index(h * base), segment_buckets); }
  GH_FN u64 homes() const { return buckets(); }
  // The same on the CPU: all buckets of a key lie near its home, and so do the slots that are read to make room for it.
  GH_FN bool gains_by_order() const { return segments() >= 64; }
  GH_FN index home(key k) const {
    const index h = first_hash(k);
    return segment_of(h) * segment_buckets + place_of(h);
  }
  // The hashes of bucket number 0 and 1.
  GH_FN index first_hash(key k) const { return by_name() ? named_hash(k, 0) : index(hash(k, seed)); }
  GH_FN index second_hash(key k) const { return by_name() ? named_hash(k, 1) : other_hash(k); }
  // The hash function of the filter and the stash, whichever functions choose the buckets.
  GH_FN index other_hash(key k) const { return index(mix_again(key(k ^ key(seed >> 17)))); }
  // The bit of k in the word filter_of(home).
  GH_FN u32 filter_bit(key k, index home) const { return 1u << ((u32(home) & 3) * 8 + (u32(other_hash(k)) & 7)); }
  // Bucket number `way` of k: 0 is its home.
  GH_FN index bucket_of(key k, index home, u32 way) const {
    if (way == 0) return home;
    // Not from `home` alone, which in a tile without work is not the key's.
    const index first = segment_of(first_hash(k)) * segment_buckets;
    return first + bucket_among(k, home - first, way);
  }
  // The same among the buckets of k's segment, of which `own` is its home.
  GH_FN index bucket_among(key k, index own, u32 way) const {
    if (way == 0) return own;
    return choose(own, way, second_hash(k), [&](index g) { return by_name() ? named_hash(k, 2) : third_of(g); });
  }
  // The stash slot that k is looked for at first.
  GH_FN u32 stash_start(key k) const { return reduce(u32(mix(u32(other_hash(k)))), stash_slots); }

 private:
  // A key's second or third bucket of a segment, of which `own` is its home.
  template <class Third>
  GH_FN index choose(index own, u32 way, index second, Third third) const {
    index b = reduce(second, segment_buckets);
    b = b == own ? following(b) : b;
    if (way == 1) return b;
    index c = reduce(index(third(second)), segment_buckets);
    c = c == own || c == b ? following(c) : c;
    c = c == own || c == b ? following(c) : c;
    return c;
  }
  GH_FN static index third_of(index second) { return index(mix(key(second + key(0x9e3779b9u)))); }
#if defined(HIVE_HASHES)
  static constexpr bool by_name() { return true; }
  GH_FN index named_hash(key k, u32 way) const {
    return hash_by(HIVE_HASHES >> 4 * way & 15, k, seed << 17 * way | (seed >> 1) >> (63 - 17 * way));
  }
#elif defined(__CUDACC__)
  static constexpr bool by_name() { return false; }
  GH_FN static index named_hash(key, u32) { return 0; }
#else
  GH_FN bool by_name() const { return !Own && __builtin_expect(functions, 0); }
  GH_FN index named_hash(key k, u32 way) const { return named_hash(k, way, functions, seed); }
  // A call that is not inlined takes all by value: a table whose address is known to a function would not live in registers.
  [[gnu::noinline, gnu::cold, gnu::const]] static index named_hash(key k, u32 way, u32 by, u64 seeds) {
    return hash_by(by >> 4 * way & 15, k, seeds << 17 * way | (seeds >> 1) >> (63 - 17 * way));
  }
#endif
  GH_FN index following(index b) const { return b + 1 == segment_buckets ? 0 : b + 1; }
};

GH_END
