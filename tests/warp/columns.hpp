// Columns that verbs are tried with on emulated warps: what a partition by hashes could get wrong.
#pragma once
#include <stddef.h>
#include <string.h>

#include <string>
#include <vector>

#include "libgpuhash/hash/hash.hpp"
#include "tests/warp/checks.hpp"

namespace warp_test {

using gpuhash::u32;
using gpuhash::u64;
using gpuhash::u8;
using std::string;
using std::vector;

struct column {
  string name;
  vector<u64> keys;
};

// Keys whose hashes with this seed are these (libgpuhash/columns/cuda/work.cuh).
inline u64 key_of(u64 h, u64 seed, u32 key_bytes) {
  if (key_bytes == 4) {
    u32 x = u32(h);
    x ^= x >> 16;
    x *= 0x7ed1b41du;
    x ^= x >> 13 ^ x >> 26;
    x *= 0xa5cb9243u;
    return (x ^ x >> 16) ^ u32(seed);
  }
  h ^= h >> 33;
  h *= 0x9cb4b2f8129337dbull;
  h ^= h >> 33;
  h *= 0x4f74430c22a54005ull;
  return (h ^ h >> 33) ^ seed;
}

// A column of each shape.
inline vector<column> columns(size_t n, u32 key_bytes, u64 seed, random_numbers& r) {
  const u64 most = key_bytes == 4 ? 0xffffffffu : ~u64(0);
  vector<column> all = {{"one key", {}},
                        {"distinct", {}},
                        {"sorted", {}},
                        {"clustered", {}},
                        {"few", {}},
                        {"half one key", {}},
                        {"one bin", {}},
                        {"skewed", {}},
                        {"all bits set", {}},
                        {"one bucket", {}},
                        {"some of one bin", {}},
                        {"very few", {}},
                        {"very few, others rare", {}},
                        {"very few at first", {}},
                        {"one key at first", {}}};
  for (size_t i = 0; i < n; ++i) {
    const u64 any = r.next() & most;
    const u64 of_column[] = {
        7,
        gpuhash::mix(u64(i)) & most,
        i,
        i / 200,
        r.below(40),
        i % 2 ? 3 : any,
        key_of(r.below(700), seed, key_bytes),  // their first bits are zero
        u64(2) << r.below(20) | r.below(3),
        i % 3 ? any : most,
        i % 3 ? key_of(63 + (r.below(12) << 20), seed, key_bytes) : any,  // more than there are places for
        key_of(r.below(300), seed, key_bytes),
        i < n / 2 ? r.below(20) : i / 70 % 9 * 3,
        i % 130 ? r.below(12) : any,
        i + 60 < n ? r.below(12) : any,
        i < n / 4 * 3 ? 3 : any};
    for (size_t c = 0; c < all.size(); ++c) all[c].keys.push_back(of_column[c] & most);
  }
  if (n) all[6].keys[n / 2] = key_of(most, seed, key_bytes);  // the hash that marks an empty slot
  if (n > 8) all[11].keys[n / 2] = all[12].keys[n / 3] = key_of(most, seed, key_bytes);
  if (n > 8) all[11].keys[n / 5] = all[11].keys[n - 1] = key_of(most, seed, key_bytes);
  if (n > 8) all[4].keys[n / 3] = all[4].keys[1] = key_of(most, seed, key_bytes);
  return all;
}

template <class T>
vector<u8> packed(const vector<T>& from, u32 bytes) {
  vector<u8> to(from.size() * bytes + 1);
  for (size_t i = 0; i < from.size(); ++i) memcpy(to.data() + i * bytes, &from[i], bytes);
  return to;
}
inline u64 unpacked(const void* from, u32 bytes, size_t i) {
  u64 v = 0;
  memcpy(&v, static_cast<const char*>(from) + i * bytes, bytes);
  return v;
}

}  // namespace warp_test
