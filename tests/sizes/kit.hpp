// Sizes of the simulated kit (tests/kit): tables of few keys. With GPUHASH_AT_EXTREMES, too: rebuilds of many steps,
// batches of many slices that run beside others, estimates of distinct keys for small batches.
#pragma once

// clang-format off
#ifdef GPUHASH_AT_EXTREMES
#define GPUHASH_EXTREME_SIZES \
  {"rebuild_step", 64}, {"status_part", 200}, {"alone_part", 50}, {"estimate_least", 64}, {"looked_up_least", 16}, \
  {"refused_slice", 24}, {"picked", 64}, {"most_parts", 1024}, {"least_behind", 1}, {"least_behind_on_cuda", 1}, \
  {"log_ranks", 2} /* half of the estimates are too low, some by half */, {"sketch_margins", 0},
#else
#define GPUHASH_EXTREME_SIZES
#endif
#define GPUHASH_SIZES GPUHASH_EXTREME_SIZES \
  {"hive_segment", 2048}, {"hive_segments", 2}, {"hive_reserve", 16}, {"hive_step", 3}
// clang-format on
