// How many slabs and units so many keys of a slab_hash take, expected and at most: from the number of slots of a slab, and
// from what is known of the keys' distribution.
#pragma once
#include <math.h>
#include <stdint.h>

#include "libgpuhash/tile/sizes.hpp"

namespace gpuhash {

// Slabs of a bucket whose number of keys is Poisson distributed with this mean, M of them to a slab; at least one.
struct slab_moments {
  double mean, variance;
};
inline slab_moments slabs_of_bucket(double mean, uint32_t M) {
  if (mean > 64.0 * M)
    return {mean / M + 0.5, mean / M / M + 1.0 / 12};  // the sum below would be long, and say the same
  const double sd = sqrt(mean);
  double sum = 0, squares = 0, weight = 0;
  for (double k = floor(mean - 8 * sd < 0 ? 0 : mean - 8 * sd); k <= mean + 8 * sd + 8; ++k) {
    int sign = 0;  // lgamma() would write that of all threads to one variable
    const double p = exp(k * log(mean) - mean - lgamma_r(k + 1, &sign));
    const double slabs = k < 1 ? 1 : ceil(k / M);
    sum += p * slabs;
    squares += p * slabs * slabs;
    weight += p;
  }
  if (!(weight > 0)) return {1, 0};
  const double expected = sum / weight;
  return {expected, squares / weight - expected * expected};
}
inline double expected_slabs(double mean, uint32_t M) { return slabs_of_bucket(mean, M).mean; }
// The paper's memory utilisation, x n / ((M x + y) sum of slabs), at average slab count beta.
inline double utilization_at(double beta, uint32_t M) { return beta * M / ((M + 1) * expected_slabs(beta * M, M)); }
// The least average slab count that reaches this utilisation, or 64 if none below does. Utilisation falls where most
// buckets come to need one slab more, so that it is searched from below.
inline double beta_for(double utilization, uint32_t M) {
  double low = 1e-3, high = low;
  while (high < 64 && utilization_at(high, M) < utilization) low = high, high *= 1.05;
  if (high >= 64) return 64;
  for (int i = 0; i < 40; ++i) {
    const double middle = (low + high) / 2;
    (utilization_at(middle, M) < utilization ? low : high) = middle;
  }
  return high;
}

// Warps of the largest devices, and more. Each takes one unit at a time, and gives it back if it was too late to link it.
inline constexpr double most_in_hand = tunable("units_in_hand", 1 << 14);
// Units are found quickly while some are free in most memory blocks, so that an eighth stays free.
inline constexpr double well_filled = 0.875;

// Units that a table of these options takes beyond the base slabs.
struct slab_needs {
  uint32_t data_slots;  // of a slab
  bool distributed;     // the table's own hash has distributed the keys
  bool repeats;         // a key may have many slots
  bool grows, on_cuda;

  // Units that so many keys need beyond the base slabs: as many as expected, and a little more for chance. Where keys may
  // repeat and the heap may not grow, as many as the worst distribution takes.
  double units_for(uint64_t keys, uint64_t buckets) const {
    const double least = least_units_for(keys, buckets);
    if (!on_cuda || !grows) return least;
    const double most = most_units(keys, buckets) / well_filled;  // so that no batch has to be waited for
    return most > least ? most : least;
  }
  double least_units_for(uint64_t keys, uint64_t buckets) const {
    if (repeats && !grows) return double(keys) / data_slots + 64;
    const double overflow = double(buckets) * (expected_slabs(double(keys) / double(buckets), data_slots) - 1);
    return overflow + 6 * sqrt(overflow) + 64;
  }
  // Units that are taken, at most, while so many slots are used. Only a full slab has a successor, so that no distribution
  // of the keys takes more than one unit for each slab of them. Where the table's own hash has distributed them they take
  // fewer: 9 standard deviations more than expected are exceeded once in 10^18 tables. The paper's hash is no such hash, and
  // keys that may repeat are not distributed.
  double most_units(uint64_t used, uint64_t buckets) const {
    const double K = double(used);
    const double B = double(buckets);
    double linked = K / data_slots;
    if (distributed) {
      const slab_moments m = slabs_of_bucket(K / B, data_slots);
      const double likely = B * (m.mean - 1) + 9 * sqrt(B * m.variance) + 9;
      linked = likely < linked ? likely : linked;
    }
    return linked + (K < most_in_hand ? K : most_in_hand);
  }
  // The most slots that may be used before a heap of so many units might be fuller than that.
  uint64_t sure_slots(uint64_t capacity, uint64_t buckets) const {
    const double units = well_filled * double(capacity);
    double low = 0;
    double high = 2 * (double(buckets) + units) * data_slots;
    for (int i = 0; i < 24; ++i) {
      const double middle = (low + high) / 2;
      (most_units(uint64_t(middle), buckets) <= units ? low : high) = middle;
    }
    return uint64_t(low);
  }
  // The most keys, up to `most`, that so many units are enough for. To find out takes some tenths of a millisecond.
  uint64_t keys_for(uint64_t units, uint64_t buckets, uint64_t most) const {
    uint64_t low = 0, high = most;
    while (low < high) {
      const uint64_t middle = high - (high - low) / 2;
      if (units_for(middle, buckets) <= double(units))
        low = middle;
      else
        high = middle - 1;
    }
    return low;
  }
};

}  // namespace gpuhash
