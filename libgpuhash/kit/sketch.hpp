// An estimate of how many distinct keys a batch on a GPU has. Each key is read once.
//
// HyperLogLog (Flajolet, Fusy, Gandouet and Meunier 2007): the first bits of a key's hash say which of 2^10 ranks it is
// for, and a rank is the longest run of zeros that the other bits of its keys begin with, plus one. The standard error is
// 1.04 over the root of the number of ranks, 3.3 %, from one key on with the estimator of Ertl (2017, arXiv:1702.01284,
// algorithm 6).
#pragma once
#include <math.h>
#include <stddef.h>

#include "libgpuhash/hash/hash.hpp"
#include "libgpuhash/kit/sizes.hpp"
#include "libgpuhash/tile/types.hpp"

namespace gpuhash {

inline constexpr u32 ranks_of_sketch = 1u << log_ranks, highest_rank = 65 - log_ranks;

inline double sketch_margin() { return sketch_margins * 1.04 / sqrt(double(ranks_of_sketch)); }

struct sketched_key {
  u32 place, rank;
};
GH_FN sketched_key sketch_of(u64 key) {
  const u64 h = mix(key + 0x9e3779b97f4a7c15ull), rest = h << log_ranks;
#if defined(__CUDA_ARCH__)
  return {u32(h >> (64 - log_ranks)), rest ? u32(__clzll((long long)rest)) + 1 : highest_rank};
#else
  return {u32(h >> (64 - log_ranks)), rest ? u32(__builtin_clzll(rest)) + 1 : highest_rank};
#endif
}

// From the ranks of all keys; 0 where no key came.
inline double distinct_by_ranks(const u32* ranks) {
  double count[highest_rank + 1] = {};
  for (u32 i = 0; i < ranks_of_sketch; ++i) ++count[ranks[i] < highest_rank ? ranks[i] : highest_rank];
  const double m = ranks_of_sketch;
  if (count[0] == m) return 0;
  double z = 0;
  if (double x = 1 - count[highest_rank] / m; x > 0 && x < 1) {  // tau
    double y = 1, before = 0;
    z = 1 - x;
    do {
      x = sqrt(x), before = z, y /= 2;
      z -= (1 - x) * (1 - x) * y;
    } while (z != before);
    z *= m / 3;
  }
  for (u32 k = highest_rank - 1; k >= 1; --k) z = (z + count[k]) / 2;
  double x = count[0] / m, y = 1, sigma = x, before = 0;  // sigma
  do {
    x *= x, before = sigma;
    sigma += x * y, y *= 2;
  } while (sigma != before);
  return m * m / (2 * 0.693147180559945309) / (z + m * sigma);
}

}  // namespace gpuhash
