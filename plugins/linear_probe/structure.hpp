// linear_probe for the kit: options, sizes, and the tests of its invariants (layout.hpp).
#pragma once
#include <vector>

#include "layout.hpp"
#include "libgpuhash/kit/flat_table.hpp"

namespace gpuhash {

// A run of so many slots in use does not come about below a load factor of 0.9, unless keys are chosen for it: its
// probability falls as exp(-0.005 length) there (Knuth, The Art of Computer Programming 3, 6.4).
inline constexpr uint32_t longest_run = 1u << 14;

struct linear_options {
  uint64_t row = 0;  // slots per group; 0: chosen by load factor
  uint32_t hash = hash_murmur;
  uint32_t by_mask = 0;
  uint64_t probe_limit = 0;  // slots; 0: chosen
  uint32_t parts = 0;        // parts_choice
};

template <class F>
struct linear_structure {
  using options = linear_options;
  using layout = linear_table<F>;
  using word = typename F::word;
  using key = typename F::key;
  static constexpr uint32_t widest = 128 / sizeof(word);
  static constexpr uint32_t line_cells = 64 / sizeof(word);

  static uint64_t slots_for(const options& o, uint64_t keys, double max_load) {
    if (keys < 64) keys = 64;
    const double wanted = double(keys) / max_load;
    if (wanted > 1e18) return 0;
    uint64_t n = uint64_t(wanted);
    while (uint64_t(double(n) * max_load) < keys) ++n;  // limit() must reach keys
    const uint64_t unit = o.row > widest ? o.row : widest;
    n = (n + unit - 1) / unit * unit;
    if (o.by_mask) {
      uint64_t p = widest;
      while (p < n) p *= 2;
      n = p;
    }
    const uint64_t groups = n / o.row;
    return groups > typename F::index(~typename F::index(0)) ? 0 : n;
  }
  static layout bind(const options& o, void* slots, uint64_t n, void* side, uint64_t seed) {
    layout t{};
    t.slots = static_cast<word*>(slots), t.side = static_cast<word*>(side);
    t.seed = o.hash == hash_blog ? 0 : seed;
    t.n_slots = n;
    t.group_bits = uint32_t(__builtin_ctzll(o.row));
    t.groups = typename F::index(n >> t.group_bits);
    t.by_mask = o.by_mask;
    t.widest = widest;
    const uint64_t whole = n + widest, limit = o.probe_limit / widest * widest;
    t.probe_limit = uint32_t(whole < limit ? whole : limit);
    return t;
  }
  static bool finds_room(const layout& t, double max_load) {
    return t.probe_limit >= t.n_slots + t.widest || (max_load <= 0.9 && t.probe_limit >= longest_run);
  }
  static const void* memory(const layout& t) { return t.slots; }

  static uint64_t distance(const layout& t, uint64_t slot, key k) {  // slots from home, around the end
    const uint64_t home = uint64_t(t.home(k)) << t.group_bits;
    return slot >= home ? slot - home : slot + t.n_slots - home;
  }

  // Which slots of a run hold keys of one home: so a key is compared with those of its home only, however long the run is.
  class keys_by_home {
   public:
    explicit keys_by_home(const layout& t) : t_(t) {}
    void begin(uint64_t first) { first_ = first, latest_.clear(), before_.clear(); }
    void pass() { before_.push_back(none); }  // over a slot that has no key
    // The next slot of the run, which has key k. False: an earlier one has it, too.
    bool add(key k) {
      const uint64_t home = uint64_t(t_.home(k)) << t_.group_bits;
      const uint64_t group = (home >= first_ ? home - first_ : home + t_.n_slots - first_) >> t_.group_bits;
      if (group >= latest_.size()) latest_.resize(group + 1, none);
      for (uint64_t i = latest_[group]; i != none; i = before_[i]) {
        const uint64_t at = first_ + i < t_.n_slots ? first_ + i : first_ + i - t_.n_slots;
        if (F::key_of(t_.slots[at]) == k || (F::has_value && t_.slots[at] == tombstone<F>(k))) return false;
      }
      before_.push_back(latest_[group]);
      latest_[group] = before_.size() - 1;
      return true;
    }

   private:
    static constexpr uint64_t none = ~uint64_t(0);
    const layout& t_;
    uint64_t first_ = 0;            // slot of the run
    std::vector<uint64_t> latest_;  // by group from there on: slots of the run
    std::vector<uint64_t> before_;  // by slot: the one before it that has the same home
  };

  // I2 and I3 for every slot: an EMPTY slot between a key and its home would hide it, and let it be inserted twice. One pass,
  // from an EMPTY slot around the end, over runs of used slots.
  static const char* broken(const layout& t, uint64_t* cell) {
    const uint64_t n = t.n_slots;
    uint64_t start = 0;
    while (start < n && F::key_of(t.slots[start]) != empty_key<key>) ++start;
    const bool any_empty = start < n;
    if (!any_empty) start = 0;
    keys_by_home run(t);
    uint64_t length = 0;  // of the run, so far
    for (uint64_t step = 0; step < n; ++step) {
      const uint64_t i = start + step < n ? start + step : start + step - n;
      const word w = t.slots[i];
      *cell = i;
      if (F::key_of(w) == empty_key<key>) {
        length = 0;
        continue;
      }
      if (length++ == 0) run.begin(i);
      if (F::key_of(w) == dead_key<key> && !F::has_value) {  // a set's tombstone has forgotten its key
        run.pass();
        continue;
      }
      const key k = F::key_of(w) == dead_key<key> ? key(F::value_of(w)) : F::key_of(w);
      if (is_side_key(k)) return "a key of a side slot lies in the table";
      const uint64_t far = distance(t, i, k);
      if (any_empty && far >= length) return "an empty slot lies between a key and its home (I2)";
      const uint64_t into_line = (uint64_t(t.home(k)) << t.group_bits) % t.widest;
      if (far + into_line >= t.probe_limit) return "a key lies beyond the probe limit (I4)";
      if (!run.add(k)) return "a key has two slots (I3)";
    }
    return nullptr;
  }

  template <class Each>
  static void each_distance(const layout& t, Each each) {  // in groups
    for (uint64_t i = 0; i < t.n_slots; ++i)
      if (is_live<F>(t.slots[i])) each(distance(t, i, F::key_of(t.slots[i])) >> t.group_bits);
  }
  static void distances(const layout& t, size_t n, uint64_t* counts) {
    each_distance(t, [&](uint64_t d) { ++counts[d < n ? d : n - 1]; });
  }
  static void figures(const layout& t, std::vector<gpuhash_stat>& out) {
    uint64_t sum = 0, most = 0, live = 0;
    each_distance(t, [&](uint64_t d) { sum += d, ++live, most = d > most ? d : most; });
    out.push_back({"probe_mean", live ? double(sum) / double(live) : 0.0});
    out.push_back({"probe_max", double(most)});
    out.push_back({"row", double(uint64_t(1) << t.group_bits)});
    out.push_back({"probe_limit", double(t.probe_limit)});
  }
};

}  // namespace gpuhash
