// The segments of hive by themselves: split, merged and packed over and over, against the pairs that went in.
//   segments_test            says what is wrong, or nothing
// The size "hive_walk" bounds how far packing pushes pairs; 0 makes it fail often.
#include <stdio.h>
#include <stdlib.h>

#include <map>
#include <random>
#include <vector>

#include "plugins/hive/segments.hpp"

namespace gpuhash {
host_services host_team{[](uint32_t, size_t n, void (*body)(void*, size_t), void* context) {
                          for (size_t i = 0; i < n; ++i) body(context, i);
                        },
                        [] { return 1u; }, host_services::as_needed};
constinit thread_local uint32_t threads_of_call = 1;

namespace {

[[noreturn]] void wrong(const char* what, const char* when) {
  printf("%s, after %s\n", what, when);
  exit(1);
}

template <class F>
class world {
  using word = typename F::word;
  using key = typename F::key;
  using index = typename F::index;

 public:
  world(uint32_t slot_bits, uint32_t ways, uint32_t base, uint32_t stash)
      : slots_(uint64_t(most_segments * buckets) << slot_bits, empty_word<F>()),
        stash_(stash + 1, empty_word<F>()),
        filter_(most_segments * buckets / 4, ~0u) {
    t_.slots = slots_.data(), t_.stash = stash_.data(), t_.filter = filter_.data(), t_.note = &note_;
    t_.seed = 77, t_.base = index(base), t_.segment_buckets = buckets, t_.slot_bits = slot_bits, t_.ways = ways;
    t_.stash_slots = stash, t_.stash_path = stash < 16 ? stash : 16;
  }

  // As an insert of one thread does it.
  bool insert(key k, typename F::value v) {
    const index home = t_.home(k);
    const word w = F::make(k, v);
    for (uint32_t way = 0; way < t_.ways; ++way)
      for (uint32_t i = 0; i < 1u << t_.slot_bits; ++i) {
        word& slot = t_.bucket(t_.bucket_of(k, home, way))[i];
        if (is_live<F>(slot)) continue;
        if (way) *t_.filter_of(home) &= ~t_.filter_bit(k, home);
        used_ += is_empty<F>(slot), slot = w, pairs_[k] = v;
        return true;
      }
    const uint64_t before = stash_used();
    if (!segment_worker<F>(t_).put_in_stash(w)) return false;
    used_ += int64_t(stash_used() - before), pairs_[k] = v;
    return true;
  }
  void erase_some(uint32_t part) {
    ++erasures_;
    for (auto at = pairs_.begin(); at != pairs_.end();) {
      if (mix(u32(at->first) + erasures_) % part) {
        ++at;
        continue;
      }
      for (uint64_t i = 0; i < t_.cells(); ++i)
        if (is_live<F>(*t_.cell(i)) && F::key_of(*t_.cell(i)) == at->first) *t_.cell(i) = tombstone<F>(at->first);
      at = pairs_.erase(at);
    }
  }
  size_t size() const { return pairs_.size(); }
  uint64_t segments() const { return t_.segments(); }
  uint64_t stashed() const {
    uint64_t n = 0;
    for (uint32_t i = 0; i < t_.stash_slots; ++i) n += is_live<F>(t_.stash[i]);
    return n;
  }
  uint64_t dead() const {
    uint64_t n = 0;
    for (uint64_t i = 0; i < t_.cells(); ++i) n += is_dead<F>(*t_.cell(i));
    return n;
  }

  void split_one(bool with_memory = true) {
    const uint64_t level = uint64_t(t_.base) << t_.round;
    buffers b(t_);
    if (!with_memory) b.drop();
    std::fill_n(t_.bucket(index((level + t_.split) * buckets)), buckets << t_.slot_bits,
                F::make(key(3), 9));  // not clean
    used_ += segment_worker<F>(t_).split(t_.split, level + t_.split, index(1) << t_.round, b);
    if (++t_.split == level) t_.split = 0, ++t_.round;
    used_ += drained();
    check("a split");
  }
  bool merge_one() {
    const uint32_t round = t_.split ? t_.round : t_.round - 1;
    const uint64_t level = uint64_t(t_.base) << round, s = t_.split ? t_.split - 1 : level - 1;
    buffers b(t_);
    int64_t change = 0;
    const std::vector<word> before = slots_;
    if (!segment_worker<F>(t_).merge(s, level + s, b, &change)) {
      if (change || !(before == slots_)) wrong("something has changed", "a merge that was refused");
      return false;
    }
    used_ += change, t_.round = round, t_.split = index(s);
    used_ += drained();
    check("a merge");
    return true;
  }
  int64_t drained() {
    uint64_t left = 0;
    const int64_t change = segment_worker<F>(t_).drain_stash(&left);
    if (left != stashed()) wrong("the pairs left in the stash are not counted right", "draining it");
    return change;
  }
  bool repack(uint64_t s) {
    buffers b(t_);
    int64_t change = 0;
    const bool done = segment_worker<F>(t_).repack(s, b, &change);
    used_ += change;
    used_ += drained();
    check("packing");
    return done;
  }

  void check(const char* when) const {
    std::map<key, typename F::value> seen;
    int64_t used = 0;
    for (uint64_t i = 0; i < t_.cells(); ++i) {
      const word w = *t_.cell(i);
      used += !is_empty<F>(w);
      if (!is_live<F>(w)) continue;
      const key k = F::key_of(w);
      const index home = t_.home(k);
      const uint64_t b = i >> t_.slot_bits;
      const bool stashed = i >= t_.bucket_cells();
      bool own = stashed;
      for (uint32_t way = 0; way < t_.ways; ++way) own |= uint64_t(t_.bucket_of(k, home, way)) == b;
      if (!own) wrong("a pair is in a bucket that is not its own", when);
      if (!seen.emplace(k, F::value_of(w)).second) wrong("a key is there twice", when);
      if (!stashed && b == uint64_t(home)) continue;
      for (uint32_t s = 0; s < 1u << t_.slot_bits; ++s)
        if (is_empty<F>(t_.bucket(home)[s])) wrong("a key is outside, and its home is not full (H2)", when);
      if (*t_.filter_of(home) & t_.filter_bit(k, home))
        wrong("the filter does not say that a key is outside (H3)", when);
      if (stashed && note_ == ~0u) wrong("the note does not say that a key is in the stash", when);
    }
    if (seen != pairs_) wrong("the pairs are not those that went in", when);
    if (used != used_) wrong("the count of used slots is wrong", when);
  }

 private:
  static constexpr uint64_t most_segments = 64, buckets = 16;
  struct buffers : segment_worker<F>::buffers {
    using segment_worker<F>::buffers::buffers;
    void drop() {
      delete[] this->image;
      this->image = nullptr;
    }
  };
  uint64_t stash_used() const {
    uint64_t n = 0;
    for (uint32_t i = 0; i < t_.stash_slots; ++i) n += !is_empty<F>(t_.stash[i]);
    return n;
  }

  std::vector<word> slots_, stash_;
  std::vector<u32> filter_;
  u32 note_ = ~0u;
  hive_table<F> t_{};
  std::map<key, typename F::value> pairs_;
  int64_t used_ = 0;
  u32 erasures_ = 0;
};

// Every pair stays in the old segment, which is as full after the split as before.
template <class F>
void one_sided(u64 side) {
  using key = typename F::key;
  std::mt19937_64 random(5);
  world<F> w(3, 2, 1, 64);
  for (uint32_t failed = 0; failed < 50;) {
    const key k = key(random());
    if (!is_side_key(k) && (hash(k, 77) & 1) == side) failed += !w.insert(k, typename F::value(k));
  }
  w.split_one();
  w.split_one();
}

template <class F>
void up_and_down(uint32_t slot_bits, uint32_t ways, uint32_t base, bool with_memory) {
  using key = typename F::key;
  std::mt19937_64 random(slot_bits * 100 + ways * 10 + base);
  world<F> w(slot_bits, ways, base, 64);
  const auto fill = [&](double load) {
    const auto wanted = size_t(load * double(w.segments() * (16u << slot_bits)));
    for (uint32_t failed = 0; w.size() < wanted && failed < 200;) {
      const key k = key(random());
      if (!is_side_key(k)) failed += !w.insert(k, typename F::value(F::has_value ? key(k * 5) : key(0)));
    }
    w.check("inserts");
  };
  bool stashed = false;
  fill(0.97);
  for (int i = 0; w.segments() < 24; ++i) {
    stashed |= w.stashed() > 0;
    w.split_one(with_memory);
    if (i % 3 == 0) w.erase_some(9);
    fill(i % 4 ? 0.7 : 0.9);
  }
  if (!stashed) wrong("the stash was never used", "growth");
  w.erase_some(2);
  if (!w.dead()) wrong("nothing is dead", "erasing");
  if (w.repack(1) && longest_walk) {
    for (uint64_t s = 0; s < w.segments(); ++s)
      if (!w.repack(s)) wrong("a segment of half its load could not be packed", "erasing");
    if (w.dead() > 64) wrong("there are dead slots outside of the stash", "packing");
  }
  bool refused = false;
  while (w.segments() > base) {
    if (w.merge_one()) continue;
    refused = true;
    if (w.size() < 8) wrong("nearly empty segments were not merged", "erasing");
    w.erase_some(3);
  }
  if (!refused) wrong("segments that are too full were merged", "erasing");
  w.erase_some(1);
  if (w.size()) wrong("something is left", "erasing all");
}

}  // namespace
}  // namespace gpuhash

int main() {
  using namespace gpuhash;
  one_sided<pair32>(0);
  one_sided<pair64>(1);
  for (const bool with_memory : {true, false}) {
    up_and_down<pair32>(3, 2, 1, with_memory);
    up_and_down<set32>(2, 3, 3, with_memory);
    up_and_down<pair64>(3, 2, 5, with_memory);
    up_and_down<set64>(4, 3, 2, with_memory);
  }
  return 0;
}
