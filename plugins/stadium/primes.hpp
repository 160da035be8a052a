// The smallest prime that is not below a number.
#pragma once
#include <stdint.h>

namespace gpuhash {

inline uint64_t power_modulo(uint64_t base, uint64_t exponent, uint64_t n) {
  uint64_t result = 1;
  for (base %= n; exponent; exponent /= 2) {
    if (exponent % 2) result = uint64_t((unsigned __int128)result * base % n);
    base = uint64_t((unsigned __int128)base * base % n);
  }
  return result;
}

// Miller-Rabin. The first twelve primes as bases decide every number below 2^64 (Sorenson and Webster, "Strong
// pseudoprimes to twelve prime bases", 2017).
inline bool is_prime(uint64_t n) {
  constexpr uint64_t bases[] = {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37};
  for (uint64_t p : bases)
    if (n % p == 0) return n == p;
  if (n < 2) return false;
  const uint32_t twos = uint32_t(__builtin_ctzll(n - 1));
  for (uint64_t base : bases) {
    uint64_t x = power_modulo(base, (n - 1) >> twos, n);
    bool passes = x == 1 || x == n - 1;
    for (uint32_t i = 1; i < twos && !passes; ++i) {
      x = uint64_t((unsigned __int128)x * x % n);
      passes = x == n - 1;
    }
    if (!passes) return false;
  }
  return true;
}

// n is below 2^63.
inline uint64_t prime_from(uint64_t n) {
  if (n <= 2) return 2;
  for (n |= 1; !is_prime(n); n += 2) {
  }
  return n;
}

}  // namespace gpuhash
