// An estimate of how many distinct keys a batch has. Growth needs it: a batch that would not fit if all of its keys were
// distinct may well fit as it is.
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

#include "libgpuhash/kit/sizes.hpp"

namespace gpuhash {

inline constexpr size_t most_estimated = tunable("estimated", size_t(1) << 22);
inline constexpr size_t estimate_sample = estimate_least < 4096 ? estimate_least : 4096;

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
  // Several threads at a time may merge a map of as many keys into this one; they differ in where they begin.
  void merge(const distinct_map& other, size_t from) {
    const size_t all = words();
    for (size_t i = 0; i < all; ++i) {
      const size_t at = (from + i) % all;
      const uint64_t seen = __atomic_load_n(&map_[at], __ATOMIC_RELAXED);
      if (other.map_[at] & ~seen) __atomic_fetch_or(&map_[at], other.map_[at], __ATOMIC_RELAXED);
    }
  }
  // The number of distinct keys is not less than `least` and not more than `most`, but for chances of one in tens of
  // thousands.
  struct range {
    uint64_t least, most;
  };
  range about(uint64_t keys) const {
    uint64_t set = 0;
    for (size_t i = 0; i < words(); ++i) set += uint64_t(__builtin_popcountll(map_[i]));
    const double all = double(uint64_t(1) << bits_);
    const double clear = all - double(set);
    if (clear < 1) return {set, keys};
    const double load = log(all / clear);
    const double margin = 4 * sqrt(all * (exp(load) - load - 1)) + 2;
    const double middle = all * load;
    const double most = middle + margin < double(keys) ? middle + margin : double(keys);
    return {middle > margin ? uint64_t(middle - margin) : 0, uint64_t(most)};
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
  friend class few_distinct;
  uint32_t bits_ = 12;
  std::unique_ptr<uint64_t[]> map_;
};

// The distinct keys of a batch, each once, if they are few: a set of a fixed size.
class few_distinct {
 public:
  static constexpr size_t most =
      tunable("few_distinct", size_t(1) << 12);  // a quarter of the places: hardly any key is far from its own

  // False: they are more than `most`.
  template <class Key>
  bool add(const Key* keys, size_t n) {
    for (size_t i = 0; i < n; ++i)
      if (!add_one(keys[i])) return false;
    return true;
  }
  bool add(const few_distinct& other) { return add(other.keys_, other.n_); }
  size_t size() const { return n_; }
  const uint64_t* keys() const { return keys_; }

 private:
  bool add_one(uint64_t k) {
    uint32_t at = uint32_t(distinct_map::mixed(k) >> (64 - log_places));
    while (number_[at] && keys_[number_[at] - 1] != k) at = (at + 1) % (1u << log_places);
    if (number_[at]) return true;
    if (n_ == most) return false;
    keys_[n_] = k;
    number_[at] = uint16_t(++n_);
    return true;
  }
  static constexpr uint32_t log_places = 14;
  size_t n_ = 0;
  uint16_t number_[1u << log_places] = {};  // of the key that has a place, from 1; 0: the place is empty
  uint64_t keys_[most];
};

}  // namespace gpuhash
