// linear_probe under the explorer: tiny tables, colliding keys, and the invariants of layout.hpp.
#include "libgpuhash/drive/sim.hpp"

#include "ops.hpp"

namespace gpuhash::sim {
namespace {

constexpr u32 widest = 4, n_keys = 14;

// The real operation; some planted mistakes deviate where it starts.
template <class Tile, u32 Kind>
struct explored_op : linear_op<Tile, Kind> {
  using base = linear_op<Tile, Kind>;
  void start(const typename base::table& t, u32 kd, typename base::key k, typename base::value v,
             typename base::index home) {
    base::start(t, kd, k, v, home);
    if (GH_MUTANT(long_writer) && adds(kd)) ++this->left;
    if (GH_MUTANT(full_too_early) && adds(kd) && this->left > 1) --this->left;
    if (GH_MUTANT(short_reader) && !adds(kd) && this->left > 1) --this->left;
  }
};

template <class F>
class linear_model final : public model {
  using key = typename F::key;
  using word = typename F::word;

 public:
  // g1, g2, g4: slots per group. A trailing c: counters are kept in memory, as kernels do. s: nobody erases, so that values
  // change in place.
  void build(const std::string& layout, u64 seed) override {
    const u32 bits = layout[1] == '4' ? 2 : layout[1] == '2' ? 1 : 0;
    t_.n_slots = bits == 1 ? 8 : 16;
    t_.group_bits = bits;
    t_.groups = typename F::index(t_.n_slots >> bits);
    t_.seed = seed;
    t_.by_mask = 0;
    t_.widest = widest;
    t_.probe_limit = 8;
    t_.slots = the_machine.place<word>(u32(t_.n_slots), 128);
    t_.side = the_machine.place<word>(2);
    counted_ = layout.back() == 'c', keys_stay_ = layout.back() == 's';
    if (counted_) counters_.place();
    choose_keys();
  }

  reply run(const op& o) override {
    if (o.key >= n_keys && o.key < dead_pattern) the_machine.fail("linear_probe has keys 0-9 a-d y z");
    joiner j{};
    j.keys_stay = keys_stay_ || GH_MUTANT(in_place_beside_erase);
    return serve<explored_op, 2, 4>(t_, o, keys_[o.key], j);
  }

  std::optional<u64> stored(u32 k) const override {
    if (k >= dead_pattern) {
      const word w = t_.side[k == dead_pattern];
      if (F::key_of(w) == empty_key<key>) return {};
      return u64(F::value_of(w));
    }
    for (u64 i = 0; i < t_.n_slots; ++i)
      if (F::key_of(t_.slots[i]) == keys_[k]) return u64(F::value_of(t_.slots[i]));
    return {};
  }

  std::string check() const override {
    for (u64 i = 0; i < t_.n_slots; ++i) {
      const word w = t_.slots[i];
      const bool remembers = F::has_value && F::key_of(w) == dead_key<key>;
      if (!is_live<F>(w) && !remembers) continue;
      const key k = remembers ? key(F::value_of(w)) : F::key_of(w);
      for (u64 s = i + 1; s < t_.n_slots; ++s)
        if (F::key_of(t_.slots[s]) == k || (F::has_value && t_.slots[s] == tombstone<F>(k)))
          return "I3: slots " + std::to_string(i) + " and " + std::to_string(s) + " both belong to key " + name(k);
      const u64 home = first_slot(k), far = (i + t_.n_slots - home) % t_.n_slots;
      if (far >= path(k))
        return "I4: key " + name(k) + " lies in slot " + std::to_string(i) + ", beyond its probe limit";
      for (u64 d = 0; d < far; ++d)
        if (t_.slots[(home + d) % t_.n_slots] == empty_word<F>())
          return "I2: slot " + std::to_string((home + d) % t_.n_slots) + " is EMPTY although key " + name(k) +
                 " lies behind it";
    }
    return changed_hands_;
  }

  std::string room_left(const op& o) const override {
    if (o.key >= dead_pattern) return "a side slot is never full";
    const key k = keys_[o.key];
    for (u64 d = 0; d < path(k); ++d) {
      const u64 i = (first_slot(k) + d) % t_.n_slots;
      if (t_.slots[i] == empty_word<F>() || F::key_of(t_.slots[i]) == k ||
          (F::has_value && t_.slots[i] == tombstone<F>(k)))
        return "slot " + std::to_string(i) + " could have taken key " + name(k);
    }
    return "";
  }

  std::pair<long, long> holds() const override {
    long live = 0, used = 0;
    for (u64 i = 0; i < t_.n_slots; ++i) live += is_live<F>(t_.slots[i]), used += !(t_.slots[i] == empty_word<F>());
    for (u32 i = 0; i < 2; ++i) live += F::key_of(t_.side[i]) != empty_key<key>;
    return {live, used};
  }

  // I1: a slot belongs to one key for good.
  void begin_run() override { changed_hands_.clear(); }
  void on_write(const void* p, u128 old) override {
    if (!changed_hands_.empty() || p < t_.slots || p >= t_.slots + t_.n_slots) return;
    const word was = narrow_value<word>(old), is = *static_cast<const word*>(p);
    if (was == is || was == empty_word<F>()) return;
    if (F::has_value ? owner(was) == owner(is) : is_live<F>(was) && F::key_of(is) == dead_key<key>) return;
    changed_hands_ = "I1: " + where(p) + " went from " + show(p, old) + " to " + show(p, wide_value(is));
  }

  void end_tile(const reply& sum) override {
    if (counted_) counters_.add(sum);
  }

  std::string check_counters() const override { return counted_ ? counters_.check(holds()) : ""; }

  std::string draw() const override {
    std::string s;
    for (u64 i = 0; i < t_.n_slots; ++i)
      s += (i % widest ? " " : i ? " | " : "") + show_word<F>(t_.slots[i], [this](key k) { return name(k); });
    for (u32 i = 0; i < 2; ++i)
      if (F::key_of(t_.side[i]) != empty_key<key>)
        s += std::string("  side ") + (i ? "y" : "z") + "=" + std::to_string(u64(F::value_of(t_.side[i])));
    return s;
  }
  std::string where(const void* p) const override {
    if (p >= t_.slots && p < t_.slots + t_.n_slots)
      return "slot " + std::to_string(static_cast<const word*>(p) - t_.slots);
    if (p >= t_.side && p < t_.side + 2) return p == t_.side ? "side z" : "side y";
    return p == counters_.live ? "live" : "used";
  }
  std::string show(const void* p, u128 w) const override {
    if (p == counters_.live || p == counters_.used) return std::to_string((long long)w.lo);
    return show_word<F>(narrow_value<word>(w), [this](key k) { return name(k); });
  }

 private:
  // The key that a pair's slot belongs to.
  static key owner(word w) { return is_live<F>(w) ? F::key_of(w) : key(F::value_of(w)); }
  u64 first_slot(key k) const { return u64(t_.home(k)) << t_.group_bits; }
  // I4: slots of k's path.
  u64 path(key k) const { return std::min<u64>(t_.probe_limit - (first_slot(k) & (widest - 1)), t_.n_slots); }

  // Keys 0 1 2 .. share a home or have neighbouring ones, near the end of the table, so that paths wrap.
  void choose_keys() {
    static constexpr u32 home_of[n_keys] = {0, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0};
    const u32 last = t_.group_bits ? u32(t_.groups) - 1 : u32(t_.groups) - 5;
    key candidate = 1;
    for (u32 i = 0; i < n_keys; ++i)
      for (;; ++candidate)
        if (u64(t_.home(candidate)) == (last + home_of[i]) % u64(t_.groups)) {
          keys_[i] = candidate++;
          break;
        }
    keys_[dead_pattern] = dead_key<key>, keys_[empty_pattern] = empty_key<key>;
  }
  std::string name(key k) const {
    for (u32 i = 0; i < n_keys; ++i)
      if (keys_[i] == k) return std::string(1, key_digits[i]);
    return "?";
  }

  linear_table<F> t_;
  key keys_[max_keys];
  bool counted_ = false, keys_stay_ = false;
  counters counters_;
  std::string changed_hands_;
};

std::vector<scene> scenes() {
  const std::vector<std::pair<u32, u32>> one{{2, 2}}, all{{2, 2}, {4, 4}, {2, 4}, {4, 2}};
  return {
      {"empty", "g2", "", {0, 1}, all},
      {"present", "g2", "i2=9,i0=8", {0, 1}, all},
      {"own tombstone", "g2", "i0=8,e0", {0, 1}, all},
      {"tombstones", "g2", "i2=9,i3=9,i0=8,e2,e0,e3", {0, 1}, all},
      {"near full", "g1", "i2=9,i4=9,i5=9,i7=9", {0, 1}, all},
      {"near full, dead", "g1", "i2=9,i4=9,i5=9,e4,i0=8,e0", {0, 1}, all},
      {"full", "g1", "i2=9,i4=9,i5=9,i7=9,i8=9", {0, 1}, all},
      {"full, present", "g1", "i2=9,i4=9,i5=9,i7=9,i0=8", {0, 1}, all},
      {"full, dead", "g4", "i2=9,i4=9,i5=9,i7=9,i8=9,ia=9,ib=9,i0=8,e0,e2", {0, 1}, one},
      {"side keys", "g2", "iz=7", {34, 35}, one},
      {"side key beside another", "g2", "", {0, 35}, one},
      {"counted", "g2c", "i0=8", {0, 1}, one},
      {"empty, in place", "g2s", "", {0, 1}, one},
      {"present, in place", "g2s", "i2=9,i0=8", {0, 1}, one},
  };
}

const registration linear_probe{{
    .name = "linear_probe",
    .formats = all_formats,
    .layouts = {"g1", "g2", "g4", "g1c", "g2c", "g4c", "g1s", "g2s"},
    .widths = {2, 4},
    .letters = "isafec",
    .fillers = n_keys,
    .side_keys = true,
    .mutants = {mutant::tombstone_reuse,
                mutant::foreign_tombstone,
                mutant::tombstone_ends_find,
                mutant::load_store,
                mutant::plain_erase,
                mutant::any_expected,
                mutant::lost_cas,
                mutant::torn_pair,
                mutant::late_value,
                mutant::last_empty,
                mutant::no_first_mask,
                mutant::short_reader,
                mutant::long_writer,
                mutant::ignored_tombstone,
                mutant::full_too_early,
                mutant::side_store,
                mutant::counter_store,
                mutant::idle_writes,
                mutant::skipped_collective,
                mutant::stale_sum,
                mutant::put_before_keys,
                mutant::in_place_beside_erase},
    .scenes = scenes(),
    .failures = 0,
    .make = make_model<linear_model>,
    .programs = {},
    .letters_in = {{"g1s", "isafc"}, {"g2s", "isafc"}},
}};

}  // namespace
}  // namespace gpuhash::sim
