// Hash functions that a structure may offer by name, of keys of 4 and 8 bytes. Slower than hash.hpp, or weaker; for
// comparisons with what was published.
//
//   bithash1   Wang's 32-bit mix (T. Wang, "Integer Hash Function", 2007), the Hive paper's Listing 1
//   bithash2   Jenkins' 6-shift mix (B. Jenkins, "4-byte Integer Hashing", public domain), the same listing
//   murmur     the finaliser of MurmurHash3 (hash.hpp)
//   city       CityHash32 of the key's 4 bytes, CityHash64 of its 8 (Pike, Alakuijala, "CityHash" 1.1, MIT)
//   crc32      CRC-32/ISO-HDLC of the key's bytes, the lowest one first: that of zlib
//   crc64      CRC-64/XZ of the key's bytes
//
// bithash1 and bithash2 are functions of 32 bits. For 8 bytes each half is mixed with what came of the other one. A crc32 of 8
// bytes is used for both halves of the hash, a crc64 of 4 bytes by its higher half.
//
// All are keyed by a seed before and after, as in hash.hpp. A CRC is linear: with another seed it differs by a constant, so
// that keys that collide under one seed do so under all of them. On a GPU its table lies in global memory.
#pragma once
#include "hash.hpp"

GH_BEGIN

// Tables, and functions that the CPU calls instead of having them at each place.
#if defined(__CUDACC__)
#define GH_TABLE static __device__ constexpr
#define GH_CALLED GH_FN
#else
#define GH_TABLE inline constexpr
#define GH_CALLED inline
#endif

// 0 stands for a structure's own hash.
enum hash_function : u32 { by_bithash1 = 1, by_bithash2, by_murmur, by_city, by_crc32, by_crc64 };
inline constexpr const char* const hash_function_names[] = {"",     "bithash1", "bithash2", "murmur",
                                                            "city", "crc32",    "crc64"};

namespace named {

GH_FN u32 wang(u32 k) {
  k = ~k + (k << 15);
  k ^= k >> 12;
  k += k << 2;
  k ^= k >> 4;
  k *= 2057;
  return k ^ k >> 16;
}
GH_FN u32 jenkins(u32 k) {
  k = (k + 0x7ed55d16u) + (k << 12);
  k = (k ^ 0xc761c23cu) ^ k >> 19;
  k = (k + 0x165667b1u) + (k << 5);
  k = (k + 0xd3a2646cu) ^ k << 9;
  k = (k + 0xfd7046c5u) + (k << 3);
  return (k ^ 0xb55a4f09u) ^ k >> 16;
}

GH_FN u32 rotated(u32 x, u32 n) { return x >> n | x << (32 - n); }
GH_FN u64 rotated(u64 x, u32 n) { return x >> n | x << (64 - n); }

GH_FN u32 city_of(u32 k) {
  constexpr u32 c1 = 0xcc9e2d51u, c2 = 0x1b873593u;
  const auto join = [](u32 a, u32 h) { return rotated(h ^ rotated(a * c1, 17) * c2, 19) * 5 + 0xe6546b64u; };
  u32 b = 0, c = 9;
  for (u32 shift = 0; shift < 32; shift += 8) {
    b = b * c1 + u32(int8_t(k >> shift));  // a signed byte
    c ^= b;
  }
  return mix(join(b, join(4, c)));
}
GH_FN u64 city_of(u64 k) {
  constexpr u64 k2 = 0x9ae16a3b2f90404full, m = k2 + 16;
  const u64 a = k + k2, c = rotated(k, 37) * m + a, d = (rotated(a, 25) + k) * m;
  u64 x = (c ^ d) * m;
  x ^= x >> 47;
  x = (d ^ x) * m;
  return (x ^ x >> 47) * m;
}

// A CRC whose bits are in reverse order: the lowest one is that of the highest power.
template <class Word>
constexpr Word crc_polynomial = sizeof(Word) == 4 ? Word(0xedb88320u) : Word(0xc96c5795d7870f42ull);
template <class Word>
struct crc_table {
  Word of[256];
  constexpr crc_table() : of{} {
    for (u32 byte = 0; byte < 256; ++byte) {
      Word c = byte;
      for (int bit = 0; bit < 8; ++bit) c = c >> 1 ^ (c & 1 ? crc_polynomial<Word> : Word(0));
      of[byte] = c;
    }
  }
};
template <class Word>
GH_TABLE crc_table<Word> crc_bytes{};
template <class Word, class Key>
GH_CALLED Word crc_of(Key k) {
  Word c = ~Word(0);
  for (u32 i = 0; i < sizeof(Key); ++i) {
    c = c >> 8 ^ crc_bytes<Word>.of[u8(c) ^ u8(k)];
    k >>= 8;
  }
  return ~c;
}

// Bits of 8 bytes by a function of 4 that loses none.
template <class Mix>
GH_CALLED u64 of_halves(u64 k, Mix f) {
  const u32 low = f(u32(k) ^ f(u32(k >> 32)));
  return u64(f(u32(k >> 32) ^ low)) << 32 | low;
}

}  // namespace named

GH_CALLED u32 hash_by(u32 function, u32 k) {
  switch (function) {
    case by_bithash1: return named::wang(k);
    case by_bithash2: return named::jenkins(k);
    case by_city: return named::city_of(k);
    case by_crc32: return named::crc_of<u32>(k);
    case by_crc64: return u32(named::crc_of<u64>(k) >> 32);
    default: return mix(k);
  }
}
GH_CALLED u64 hash_by(u32 function, u64 k) {
  switch (function) {
    case by_bithash1: return named::of_halves(k, [](u32 x) { return named::wang(x); });
    case by_bithash2: return named::of_halves(k, [](u32 x) { return named::jenkins(x); });
    case by_city: return named::city_of(k);
    case by_crc32: return u64(named::crc_of<u32>(k)) * 0x100000001ull;
    case by_crc64: return named::crc_of<u64>(k);
    default: return mix(k);
  }
}
// Keyed as in hash.hpp; murmur is the same there.
GH_CALLED u32 hash_by(u32 function, u32 k, u64 seed) { return hash_by(function, k ^ u32(seed)) ^ u32(seed >> 32); }
GH_CALLED u64 hash_by(u32 function, u64 k, u64 seed) { return hash_by(function, k ^ seed) ^ (seed >> 32 | seed << 32); }

GH_END
