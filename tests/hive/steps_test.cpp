// The kernels of hive's linear hashing (plugins/hive/steps.cuh) on emulated warps: steps_test [SEEDS [FIRST]]
//
// Segments are filled as one thread would do it, split, packed and merged, and looked at after each step. Small ones, so that
// packing pushes pairs about, and fails.
#include "plugins/hive/steps.cuh"

#include "tests/warp/batches.hpp"

namespace warp_test {
namespace {

template <class F>
class stepper {
  using word = typename F::word;
  using key = typename F::key;
  using index = typename F::index;

 public:
  stepper(u32 slot_bits, u32 ways, u64 seed) : e_(segment_kernels<F>::all), random_{seed}, slot_bits_(slot_bits) {
    t_.seed = seed, t_.base = 3, t_.segment_buckets = buckets, t_.slot_bits = slot_bits, t_.ways = ways;
    t_.lock_mask = 15;
    slots_.resize((most * buckets << slot_bits) * sizeof(word) / 16);
    stash_.resize(64 * sizeof(word) / 16), old_stash_.resize(stash_.size());
    filter_.assign(most * buckets / 4, ~0u);
    memset(slots_.data(), 0xff, slots_.size() * 16);
    memset(stash_.data(), 0xff, stash_.size() * 16);
    t_.slots = reinterpret_cast<word*>(slots_.data()), t_.stash = reinterpret_cast<word*>(stash_.data());
    t_.filter = filter_.data(), t_.note = &note_;
    bind_stash(24);
  }

  void go() {
    fill(0.95, 60);
    refill_stash(26);
    step({segment_step::repack, 0, 3});
    check("packing full segments");
    for (int i = 0; i < 3; ++i) {
      erase_some(30);
      step({segment_step::repack, 0, 3});
      check("packing segments that are nearly full");
    }
    step({segment_step::split, 0, 3, 3, 1});
    t_.round = 1;
    check("a split of a whole round");
    drain();
    erase_some(5);
    fill(0.6, 20);
    step({segment_step::repack, 0, 6});
    check("packing");
    if (packed_ && dead_outside()) wrong("dead slots are left by packing");
    refill_stash(40);
    refill_stash(2);
    step({segment_step::split, 0, 2, 6, 2});
    t_.split = 2;
    check("a split of some");
    drain();
    step({segment_step::merge, 1, 1, 6});  // of 1 and 7
    t_.split = result_[0].done ? 1 : 2;
    check("a merge");
    fill(0.85, 20);
    for (const u32 split : {t_.split, index(1)}) {  // that are likely to be too full
      if (split != t_.split || !t_.split) continue;
      step({segment_step::merge, u64(split) - 1, 1, 6});
      if (result_[0].done) t_.split = split - 1;
      check("a merge that may not fit");
    }
    drain();
    refill_stash(16);
    erase_some(1);
    while (t_.split) {
      step({segment_step::merge, u64(t_.split) - 1, 1, 6});
      if (!result_[0].done) wrong("segments without pairs were not merged");
      --t_.split;
    }
    check("the end");
  }
  // Every pair stays in the old segment, which is as full after the split as before.
  void one_sided() {
    t_.base = 1;
    for (u32 failed = 0; failed < 600;) {  // until hardly a slot is free
      const key k = draw();
      if (!(t_.first_hash(k) & 1)) failed += !put(k);
    }
    // Of the other side a few.
    u32 room = 0;
    const u64 some = 1 + random_.below(4);
    for (u64 i = 0; i < cells() && room < some; i += 8, ++room) {
      word& w = t_.slots[i];
      if (is_live<F>(w)) pairs_.erase(F::key_of(w));
      w = vacant<F>();
    }
    for (u32 tries = 0; tries < 1000 && room; ++tries) {
      const key k = draw();
      if ((t_.first_hash(k) & 1) && t_.stash_slots) room -= put(k);
    }
    step({segment_step::split, 0, 1, 1, 1});
    t_.round = 1;
    check("a split that moves little");
  }
  u64 refused = 0, unpacked = 0;  // merges, and splits that were made in place

 private:
  static constexpr u64 most = 12, buckets = 12;
  u64 cells() const { return t_.bucket_cells(); }
  void bind_stash(u32 slots) { t_.stash_slots = slots, t_.stash_path = slots < 6 ? slots : 6; }
  key draw() {
    for (;;)
      if (const key k = key(random_.next()); !is_side_key(k)) return k;
  }

  bool put(key k) {
    if (pairs_.count(k)) return true;
    const auto v = typename F::value(F::has_value ? key(k * 5) : key(0));
    const index home = t_.home(k);
    for (u32 way = 0; way < t_.ways; ++way)
      for (u32 i = 0; i < 1u << slot_bits_; ++i) {
        word& slot = t_.bucket(t_.bucket_of(k, home, way))[i];
        if (is_live<F>(slot)) continue;
        if (way) *t_.filter_of(home) &= ~t_.filter_bit(k, home);
        slot = F::make(k, v);
        pairs_[k] = v;
        return true;
      }
    for (u32 i = 0, at = t_.stash_start(k); i < t_.stash_path; ++i, ++at) {
      word& slot = t_.stash[at % t_.stash_slots];
      if (is_live<F>(slot)) continue;
      slot = F::make(k, v);
      *t_.filter_of(home) &= ~t_.filter_bit(k, home);
      note_ = 0;
      pairs_[k] = v;
      return true;
    }
    return false;
  }
  void fill(double load, u32 failures) {
    for (u32 failed = 0; double(pairs_.size()) < load * double(cells()) && failed < failures;) failed += !put(draw());
  }
  void erase_some(u32 part) {
    for (u64 i = 0; i < t_.cells(); ++i) {
      word& w = *t_.cell(i);
      if (!is_live<F>(w) || random_.below(part)) continue;
      pairs_.erase(F::key_of(w));
      w = tombstone<F>(F::key_of(w));
    }
  }
  int64_t used() const {
    int64_t n = 0;
    for (u64 i = 0; i < most * buckets << slot_bits_; ++i) n += !is_empty<F>(t_.slots[i]);
    return n;
  }
  int64_t stash_used() const {
    int64_t n = 0;
    for (u32 i = 0; i < t_.stash_slots; ++i) n += !is_empty<F>(t_.stash[i]);
    return n;
  }
  u64 stashed() const {
    u64 n = 0;
    for (u32 i = 0; i < t_.stash_slots; ++i) n += is_live<F>(t_.stash[i]);
    return n;
  }
  u64 dead_outside() const {
    u64 n = 0;
    for (u64 i = 0; i < most * buckets << slot_bits_; ++i) n += is_dead<F>(t_.slots[i]);
    return n;
  }
  void clear_segment(u64 s, bool rubbish) {
    for (u64 i = 0; i < buckets << slot_bits_; ++i)
      t_.slots[(s * buckets << slot_bits_) + i] = rubbish ? F::make(key(3), 9) : empty_word<F>();
    for (u64 i = 0; i < buckets / 4; ++i) filter_[s * buckets / 4 + i] = rubbish ? 0x12345678 : ~0u;
  }

  void step(const segment_step& s) {
    const bool splits = s.what == segment_step::split, merges = s.what == segment_step::merge;
    int64_t before = used();
    for (u64 i = 0; splits && i < s.count; ++i) clear_segment(s.first + i + s.apart, true);
    work_.assign(s.count * e_.work_bytes(&t_) / 16 + 2, u128{7, 9});
    work_.back() = u128{11, 13};
    const auto was = slots_;
    result_.assign(s.count + 1, {-77, 5});
    SAME(e_.step(&t_, s, work_.data(), result_.data(), nullptr), 0);
    if (!(work_.back() == u128{11, 13})) wrong("a step wrote behind its memory");
    if (result_[s.count].change != -77) wrong("a step wrote behind its results");
    packed_ = true;
    for (u64 i = 0; i < s.count; ++i) {
      if (result_[i].done > 1 || (splits && !result_[i].done))
        wrong("segment %zu is said to be %u", size_t(i), result_[i].done);
      packed_ &= result_[i].done;
      before += result_[i].change;
      if (merges && result_[i].done) clear_segment(s.first + i + s.apart, false);
      refused += merges && !result_[i].done;
    }
    if (splits) unpacked += dead_outside() != 0;
    if (!splits && !packed_ && s.count == 1 && memcmp(was.data(), slots_.data(), was.size() * 16))
      wrong("a step that was refused has changed something");
    SAME(used(), before);
    for (u64 i = 0; i < s.count; ++i)
      if (!splits && result_[i].done) look_at_filter(s.first + i);
    drained_ = false;
  }
  // It says of no more pairs than were ever outside while the segment was packed: those that are, and a few that were pushed
  // back.
  void look_at_filter(u64 s) const {
    u32 outside = 0, cleared = 0;
    for (u64 i = s * buckets << slot_bits_; i < (s + 1) * buckets << slot_bits_; ++i)
      outside += is_live<F>(t_.slots[i]) &&
                 u64(t_.place_of(t_.first_hash(F::key_of(t_.slots[i])))) != (i >> slot_bits_) - s * buckets;
    for (u64 i = 0; i < buckets / 4; ++i) cleared += u32(__builtin_popcount(~filter_[s * buckets / 4 + i]));
    if (cleared > outside + 12)
      wrong("the filter of segment %zu has %u bits for %u pairs", size_t(s), cleared, outside);
  }
  void drain() {
    // Some homes have a free slot again; a dead one of another key is as good as an EMPTY one.
    for (u32 i = 0; i < t_.stash_slots; i += 2)
      if (is_live<F>(t_.stash[i])) {
        word& w = t_.bucket(t_.home(F::key_of(t_.stash[i])))[i % (1u << slot_bits_)];
        if (!is_live<F>(w)) continue;
        pairs_.erase(F::key_of(w));
        w = vacant<F>();
      }
    u64 movable = 0;
    for (u32 i = 0; i < t_.stash_slots; ++i)
      if (is_live<F>(t_.stash[i])) {
        bool free = false;
        const index home = t_.home(F::key_of(t_.stash[i]));
        for (u32 s = 0; s < 1u << slot_bits_; ++s) free |= !is_live<F>(t_.bucket(home)[s]);
        movable += free;
      }
    stash_result r{3, 5, 7};
    const int64_t before = used();
    const u64 stashed_before = stashed();
    SAME(e_.drain(&t_, &r, nullptr), 0);
    SAME(used() - before, r.change - 3);
    SAME(stashed(), r.left - 5);
    if (movable && stashed() == stashed_before) wrong("no pair left the stash");
    u64 dead = 0;
    for (u32 i = 0; i < t_.stash_slots; ++i) dead += is_dead<F>(t_.stash[i]);
    SAME(r.dead - 7, note_ == ~0u ? 0 : dead);
    drained_ = true;
    check("draining the stash");
    for (u32 i = 0; i < t_.stash_slots; ++i)
      if (is_live<F>(t_.stash[i]))
        for (u32 s = 0; s < 1u << slot_bits_; ++s)
          if (!is_live<F>(t_.bucket(t_.home(F::key_of(t_.stash[i])))[s])) wrong("a pair of the stash could go home");
  }
  void refill_stash(u32 slots) {
    old_stash_ = stash_;
    const u32 before = t_.stash_slots;
    const u64 were = stashed(), in_use = u64(stash_used());
    memset(stash_.data(), 0xff, stash_.size() * 16);
    const u32 note = std::exchange(note_, ~0u);
    bind_stash(slots);
    stash_result r{0, 0, 0};
    SAME(e_.restash(&t_, old_stash_.data(), before, &r, nullptr), 0);
    SAME(r.change, stash_used());
    SAME(r.dead, in_use);
    SAME(stashed() + r.left, were);
    if (r.left == 0) return check("refilling the stash");
    stash_ = old_stash_;
    note_ = note;
    bind_stash(before);
  }

  void check(const char* when) const {
    std::map<key, typename F::value> seen;
    for (u64 i = 0; i < t_.cells(); ++i) {
      const word w = *t_.cell(i);
      if (!is_live<F>(w)) continue;
      const key k = F::key_of(w);
      const index home = t_.home(k);
      const u64 b = i >> slot_bits_;
      const bool in_stash = i >= cells();
      bool own = in_stash;
      for (u32 way = 0; way < t_.ways; ++way) own |= u64(t_.bucket_of(k, home, way)) == b;
      if (!own) wrong("after %s a pair is in a bucket that is not its own", when);
      if (!seen.emplace(k, F::value_of(w)).second) wrong("after %s a key is there twice", when);
      if (in_stash ? !drained_ : b == u64(home)) continue;
      for (u32 s = 0; s < 1u << slot_bits_; ++s)
        if (is_empty<F>(t_.bucket(home)[s])) wrong("after %s a key is outside, and its home is not full (H2)", when);
      if (*t_.filter_of(home) & t_.filter_bit(k, home)) wrong("after %s the filter does not know of a key (H3)", when);
      bool reached = !in_stash;
      for (u32 s = 0, slot = t_.stash_start(k); s < t_.stash_path && in_stash; ++s, ++slot) {
        if (is_empty<F>(t_.stash[slot % t_.stash_slots])) break;
        reached |= t_.stash + slot % t_.stash_slots == t_.cell(i);
      }
      if (!reached) wrong("after %s a pair of the stash cannot be found there", when);
      if (in_stash && note_ == ~0u) wrong("after %s the note does not know of the stash", when);
    }
    if (seen != pairs_) wrong("after %s there are %zu pairs of %zu, or others", when, seen.size(), pairs_.size());
  }

  const segment_engine& e_;
  random_numbers random_;
  const u32 slot_bits_;
  hive_table<F> t_{};
  vector<u128> slots_, stash_, old_stash_, work_;
  vector<u32> filter_;
  u32 note_ = ~0u;
  vector<segment_result> result_;
  std::map<key, typename F::value> pairs_;
  bool packed_ = true, drained_ = true;
};

template <class F>
void some_steps(format_id format, u32 slot_bits, u32 ways, u64 seed, u64* refused, u64* unpacked) {
  where = "steps of format " + std::to_string(int(format)) + " seed " + std::to_string(seed);
  emulated::machine::the().seed = seed;
  stepper<F> s(slot_bits, ways, seed * 4 + u64(format));
  s.go();
  stepper<F> full(slot_bits, ways, seed * 4 + u64(format));
  full.one_sided();
  *refused += s.refused, *unpacked += full.unpacked;
}
}  // namespace
}  // namespace warp_test

int main(int argc, char** argv) {
  using namespace warp_test;
  const u64 seeds = argc > 1 ? u64(atoll(argv[1])) : 10, first = argc > 2 ? u64(atoll(argv[2])) : 1;
  u64 refused = 0, unpacked = 0;
  for (u64 seed = first; seed < first + seeds; ++seed) {
    some_steps<pair32>(format_pair32, 3, 2, seed, &refused, &unpacked);
    some_steps<set32>(format_set32, 3, 3, seed, &refused, &unpacked);
    some_steps<pair64>(format_pair64, 4, 2, seed, &refused, &unpacked);
    some_steps<set64>(format_set64, 3, 2, seed, &refused, &unpacked);
  }
  if (!refused) wrong("no merge was refused");
  if (!unpacked) wrong("no segment was split in place");
  return 0;
}
