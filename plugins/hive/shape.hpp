// The shape of a hive table: its numbers of segments, buckets and stash slots, for a number of keys or of segments.
// table.hpp says how a table comes to have them.
#pragma once
#include <math.h>
#include <stddef.h>

#include "layout.hpp"
#include "sizes.hpp"
#include "steps.hpp"

namespace gpuhash {

struct hive_options {
  uint64_t bucket = 8;                   // slots
  uint64_t ways = 2;                     // buckets of a key
  double stash = 1.0 / 64;               // slots of the stash by slots of the buckets; 0: none
  uint64_t evictions = eviction_rounds;  // 0: none
  uint32_t commits = 0;                  // hive_table::commits
  uint32_t whole = 0;                    // 1: the table is one segment
  uint32_t functions = 0;                // hive_table::functions
  double contract = 0.25;                // load below which a growing table gives memory back; 0: never
  uint32_t parts = 0;                    // parts_choice
};

inline constexpr uint32_t stash_path_slots = 128;  // where in the stash a key may lie
// Fewer would take more memory on CUDA than they need: each region of address space gets it in pieces of 2 MiB.
inline constexpr uint64_t least_on_cuda = 4 * least_segments;
inline constexpr double first_share = 0.875;  // of max_load_factor, at which splitting begins
// A step splits at least one in so many segments. On CUDA a step that keeps all of the device busy takes as long as a
// step of a single segment, and each step is waited for: so there a step splits more segments.
inline constexpr uint64_t least_step = 128, least_step_on_cuda = 16;
// Of address space no more than most_reserved is reserved, or so many times what the table takes at first.
inline constexpr uint64_t least_reserve_factor = 4;
inline constexpr uint64_t most_reserved = uint64_t(256) << 30;

// How large everything is.
struct hive_shape {
  uint64_t base = 0, round = 0, split = 0, segment_buckets = 0, stash = 0, locks = 0;
  uint64_t slots = 0;                                                        // of the buckets
  size_t stash_at = 0, locks_at = 0, filter_at = 0, note_at = 0, bytes = 0;  // bytes 0: too many
  uint64_t level() const { return base << round; }
  uint64_t segments() const { return level() + split; }
  uint64_t buckets() const { return segments() * segment_buckets; }
};

template <class F>
class hive_sizes {
  using word = typename F::word;
  using index = typename F::index;

 public:
  // in_place: may the table lie in address space, and grow there?
  hive_sizes(const hive_options& o, double max_load, bool on_cuda, bool in_place)
      : options_(o), max_load_(max_load), on_cuda_(on_cuda), stretches_(in_place) {}

  bool stretches() const { return stretches_; }
  uint64_t least_stretched() const { return on_cuda_ ? least_on_cuda : least_segments; }

  uint64_t limit_of(const hive_shape& s) const {
    const bool stretches = stretches_ && s.segments() >= least_stretched();
    const double done = double(s.split) / double(s.level());  // of the round
    const double share = stretches ? (first_share + (1 - first_share) * done) / (1 + done) : 1;
    const uint64_t n = uint64_t(double(s.slots) * max_load_ * share);
    return n ? n : 1;
  }

  hive_shape shape_for(uint64_t keys) const {
    hive_shape s;
    if (keys < 64) keys = 64;
    double wanted = ceil(double(keys) / max_load_ / double(options_.bucket));
    const uint64_t most = segment_bytes / (options_.bucket * sizeof(word));  // buckets of a segment
    const bool whole = options_.whole || wanted < double(least_segments * most);
    const bool stretches = stretches_ && wanted >= double(least_stretched() * most);
    if (stretches) wanted = ceil(wanted / first_share);
    if (wanted > 1e15) return s;
    const uint64_t buckets = uint64_t(wanted) < least_buckets ? uint64_t(least_buckets) : uint64_t(wanted);
    const uint64_t segments = whole ? 1 : buckets / most;
    while (stretches && segments >> (s.round + 1) >= least_stretched()) ++s.round;
    s.base = segments >> s.round;
    const uint64_t unit = whole ? 1 : 4;  // of buckets: no two segments share a word of the filter
    s.segment_buckets = (buckets + s.segments() - 1) / s.segments();
    for (s.segment_buckets = (s.segment_buckets + unit - 1) / unit * unit;; s.segment_buckets += unit) {
      measure(s);
      if (limit_of(s) >= keys) return s;  // or else it has been rounded down
    }
  }
  // What follows from the number of segments and their size.
  void measure(hive_shape& s) const {
    const uint64_t n = s.buckets();
    s.slots = n * options_.bucket, s.stash = 0, s.bytes = 0;
    if (n >= uint64_t(index(~index(0)))) return;
    if (options_.stash > 0) {
      const double part = ceil(double(s.slots) * options_.stash / 64) * 64;
      s.stash = part > double(1u << 31) ? uint64_t(1) << 31 : uint64_t(part);
    }
    for (s.locks = 64; s.locks < n / 8 && s.locks < 1u << 31;) s.locks *= 2;
    place_parts(s);
  }
  // Where everything lies in a block.
  static void place_parts(hive_shape& s) {
    s.stash_at = s.slots * sizeof(word);
    s.locks_at = s.stash_at + s.stash * sizeof(word);
    s.filter_at = s.locks_at + s.locks * sizeof(u32);
    s.note_at = s.filter_at + (s.buckets() + 3) / 4 * 4;
    s.bytes = (s.note_at + sizeof(u32) + 127) / 128 * 128;
  }
  hive_shape with_segments(hive_shape s, uint64_t n) const {
    for (s.round = 0; s.base << (s.round + 1) <= n;) ++s.round;
    s.split = n - s.level();
    measure(s);
    return s;
  }
  // The fewest segments of the table whose limit reaches so many keys.
  uint64_t segments_for(const hive_shape& now, uint64_t keys) const {
    const double of_segment = double(now.segment_buckets * options_.bucket) * max_load_;
    uint64_t level = now.base;
    while (double(level) * of_segment < double(keys)) level *= 2;
    const double done = (double(keys) / (double(level) * of_segment) - first_share) / (1 - first_share);
    uint64_t n = done <= 0 ? level : level + uint64_t(ceil(done * double(level)));
    while (limit_of(with_segments(now, n)) < keys) ++n;
    return n;
  }

  static void bind_sizes(const hive_shape& s, hive_table<F>& t) {
    t.base = index(s.base), t.round = uint32_t(s.round), t.split = index(s.split);
    t.segment_buckets = index(s.segment_buckets);
    t.lock_mask = uint32_t(s.locks - 1);
  }
  static void bind_stash(uint64_t slots, hive_table<F>& t) {
    t.stash_slots = uint32_t(slots);
    t.stash_path = t.stash_slots < stash_path_slots ? t.stash_slots : stash_path_slots;
  }

 private:
  const hive_options options_;
  const double max_load_;
  const bool on_cuda_, stretches_;
};

}  // namespace gpuhash
