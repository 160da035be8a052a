// The published hash, version 1: docs/hash.md says the same in words, and tests/columns/hash_vectors.tsv what comes out.
// What is here never changes; another function is another version.
//
// Integers of fixed width, bytes read one by one: the same on every processor, and compiled for the CPU and for CUDA.
// Tables and the index place keys by other functions (hash/hash.hpp, columns/keys.hpp), on purpose: the keys of one shard
// would cluster in a table that placed them by the hash that chose the shard.
#pragma once
#include <string.h>

#include "libgpuhash/hash/fold.hpp"
#include "libgpuhash/tile/types.hpp"

GH_BEGIN

namespace contract {

// What a cell is. Cells of two kinds are never equal.
enum kind : u32 {
  null,
  boolean,
  integer,   // also a float that is an integer of -2^63 to 2^64 - 1
  fraction,  // any other float
  instant,
  zoned_instant,
  time_of_day,
  duration,
  decimal,
  text,
  bytes,
  row
};

// A bijection: P. Evensen, "Moremur", 2019 (mostlymangling.blogspot.com).
GH_FN uint64_t mix(uint64_t x) {
  x ^= x >> 27;
  x *= 0x3c79ac492ba7b653u;
  x ^= x >> 33;
  x *= 0x1c69b3f74ac4ae35u;
  return x ^ x >> 27;
}

// ---- keys ------------------------------------------------------------------------------------------------------------

// Key number n of a key; n * the golden ratio, as SplitMix64 steps (Steele, Lea, Flood, 2014).
GH_FN uint64_t derive(uint64_t key, uint64_t n) { return mix(key + n * 0x9e3779b97f4a7c15u); }

// The key of the first 64 bits of a hash (half 0), or of the second (1): the digits of pi.
GH_FN uint64_t root(uint64_t seed, u32 half) { return mix(seed ^ (half ? 0x13198a2e03707344u : 0x243f6a8885a308d3u)); }

GH_FN uint64_t key_of(uint64_t root, kind k) { return derive(root, k); }

// ---- cells -----------------------------------------------------------------------------------------------------------

GH_FN uint64_t of_null(uint64_t root) { return key_of(root, null); }

GH_FN uint64_t of_word(uint64_t key, uint64_t word) { return mix(key ^ word); }

// high * 2^64 + low; both are words of two's complement. A number that int64_t holds is one word.
GH_FN uint64_t of_integer(uint64_t key, uint64_t low, uint64_t high) {
  const uint64_t beyond = high + (low >> 63);  // high, less the sign of low
  return of_word(beyond ? derive(key, beyond) : key, low);
}

// There is no branch on whether a float is an integer, in which floats mostly differ.
GH_FN uint64_t of_float(uint64_t integer_key, uint64_t fraction_key, double d) {
  if (d >= 0x1p63 && d < 0x1p64) return of_integer(integer_key, uint64_t(d), 0);
  uint64_t bits = 0x7ff8000000000000u;  // of all NaNs
  if (d == d) memcpy(&bits, &d, sizeof(bits));
  const bool small = d >= -0x1p63 && d < 0x1p63;
  const auto i = int64_t(small ? d : 0.0);
  const uint64_t is_integer = 0 - uint64_t(small & (double(i) == d));  // all bits, or none
  return of_word(fraction_key ^ ((fraction_key ^ integer_key) & is_integer),
                 bits ^ ((bits ^ uint64_t(i)) & is_integer));
}

// A time: its nanoseconds, an integer of 128 bits.
GH_FN uint64_t of_ticks(uint64_t key, int64_t ticks, int64_t nanoseconds) {
  const auto all = static_cast<__int128>(ticks) * nanoseconds;
  return of_integer(key, uint64_t(all), uint64_t(all >> 64));
}

// digits / 10^scale, of the least scale for which the digits are an integer: 0 for 0.
GH_FN uint64_t of_decimal(uint64_t key, __int128 digits, int32_t scale) {
  if (digits == 0) scale = 0;
  while (digits != int64_t(digits) && digits % 10 == 0) digits /= 10, --scale;
  if (digits == int64_t(digits)) {
    auto few = int64_t(digits);
    while (few != 0 && few % 10 == 0) few /= 10, --scale;
    digits = few;
  }
  return of_integer(derive(key, uint64_t(int64_t(scale))), uint64_t(digits), uint64_t(digits >> 64));
}

// ---- text and bytes --------------------------------------------------------------------------------------------------

// The two lanes before the first block, and the factor.
struct bytes_keys {
  uint64_t even, odd, factor;
};
GH_FN bytes_keys keys_of_bytes(uint64_t root, kind k) {
  const uint64_t key = key_of(root, k);
  return {key, derive(key, 1), derive(key, 2)};
}

GH_FN uint64_t load32(const u8* p) {
  return uint64_t(p[0]) | uint64_t(p[1]) << 8 | uint64_t(p[2]) << 16 | uint64_t(p[3]) << 24;
}
GH_FN uint64_t load64(const u8* p) {
  return uint64_t(p[0]) | uint64_t(p[1]) << 8 | uint64_t(p[2]) << 16 | uint64_t(p[3]) << 24 | uint64_t(p[4]) << 32 |
         uint64_t(p[5]) << 40 | uint64_t(p[6]) << 48 | uint64_t(p[7]) << 56;
}
// The word of n bytes, 0 to 8, and of zeros.
GH_FN uint64_t load_some(const u8* p, size_t n) {
  if (n >= 4) return load32(p) | load32(p + n - 4) << 8 * (n - 4);  // some bytes twice
  if (n == 0) return 0;
  return uint64_t(p[0]) | uint64_t(p[n / 2]) << 8 * (n / 2) | uint64_t(p[n - 1]) << 8 * (n - 1);
}

GH_FN uint64_t next_lane(uint64_t lane, uint64_t a, uint64_t b, uint64_t factor) { return fold(lane ^ a, factor ^ b); }
// A block of n bytes, 1 to 16, and of zeros.
GH_FN uint64_t last_block(uint64_t lane, const u8* p, size_t n, uint64_t factor) {
  if (n > 8) return next_lane(lane, load64(p), load64(p + n - 8) >> 8 * (16 - n), factor);
  return next_lane(lane, load_some(p, n), 0, factor);
}

GH_FN uint64_t of_bytes(const bytes_keys& keys, const u8* p, size_t n) {
  uint64_t even = keys.even, odd = keys.odd;
  size_t left = n;
  for (; left >= 32; left -= 32, p += 32) {
    even = next_lane(even, load64(p), load64(p + 8), keys.factor);
    odd = next_lane(odd, load64(p + 16), load64(p + 24), keys.factor);
  }
  if (left > 16) {
    even = next_lane(even, load64(p), load64(p + 8), keys.factor);
    odd = last_block(odd, p + 16, left - 16, keys.factor);
  } else if (left > 0) {
    even = last_block(even, p, left, keys.factor);
  }
  return mix(even ^ odd ^ n);
}

// ---- rows of several columns -----------------------------------------------------------------------------------------

// The hash of a row so far: at first the key of rows, then mixed with the hash of each field.
GH_FN uint64_t next_field(uint64_t so_far, uint64_t hash) { return mix(so_far ^ hash); }

// The hash of a row as a field of another row. Without this step it would equal the outer row's hash after the same
// fields, and all rows (x, (x)) would have one hash.
GH_FN uint64_t of_inner_row(uint64_t hash) { return derive(hash, 1); }

}  // namespace contract

GH_END
