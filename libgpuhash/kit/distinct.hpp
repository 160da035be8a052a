// How many distinct keys does a batch have, about? For room: a batch that would not fit if all of its keys were different
// may well fit as it is.
//
// Linear counting (Whang, Vander-Zanden and Taylor 1990): keys are hashed to the bits of a map, and the share of bits that
// stay clear says how many keys there are. With 2^20 bits and 2^22 keys at most the standard error is below 0.2 %, and the
// map fits the second-level cache.
#pragma once
#include <math.h>
#include <stdint.h>
#include <string.h>

#include <memory>
#include <new>

namespace gpuhash {

inline constexpr size_t most_estimated = size_t(1) << 22;
// A smaller batch is cheap to look up key by key.
#ifndef GPUHASH_ESTIMATE_LEAST
#define GPUHASH_ESTIMATE_LEAST (size_t(1) << 14)
#endif
inline constexpr size_t estimate_least = GPUHASH_ESTIMATE_LEAST;

class distinct_map {
 public:
  // For so many keys.
  explicit distinct_map(size_t keys) {
    while (bits_ < largest_bits && uint64_t(1) << bits_ < keys) ++bits_;
    map_.reset(new (std::nothrow) uint64_t[words()]());
  }
  explicit operator bool() const { return bool(map_); }

  template <class Key>
  void add(const Key* keys, size_t n) {
    uint64_t* const map = map_.get();
    const uint32_t down = 64 - bits_;
    for (size_t i = 0; i < n; ++i) {
      const uint64_t h = mixed(keys[i]) >> down;
      map[h / 64] |= uint64_t(1) << h % 64;
    }
  }
  // No more than `keys`, and more than there are but for chances of one in millions.
  uint64_t most(uint64_t keys) const {
    uint64_t set = 0;
    for (size_t i = 0; i < words(); ++i) set += uint64_t(__builtin_popcountll(map_[i]));
    const double all = double(uint64_t(1) << bits_);
    const double clear = all - double(set);
    if (clear < 1) return keys;
    const double about = all * log(all / clear);
    const double with_margin = about * 1.01 + 64;
    return with_margin < double(keys) ? uint64_t(with_margin) : keys;
  }

 private:
  static constexpr uint32_t largest_bits = 20;
  size_t words() const { return (size_t(1) << bits_) / 64; }
  static uint64_t mixed(uint64_t k) {
    k ^= k >> 32;
    k *= 0x9e3779b97f4a7c15ull;
    k ^= k >> 29;
    return k * 0xbf58476d1ce4e5b9ull;
  }
  uint32_t bits_ = 12;
  std::unique_ptr<uint64_t[]> map_;
};

}  // namespace gpuhash
