// linear_probe's table as the explorer sees it: its memory, and the invariants of layout.hpp. The models of
// plugin_sim.cpp and of plugins/linear_probe/bulk_sim.cpp say how it is served.
#pragma once
#include "libgpuhash/drive/sim.hpp"
#include "ops.hpp"

namespace gpuhash::sim {

template <class F>
class linear_sim : public model {
 public:
  using key = typename F::key;
  using word = typename F::word;

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

  std::string draw() const override {
    std::string s;
    for (u64 i = 0; i < t_.n_slots; ++i) s += (i % line_ ? " " : i ? " | " : "") + text_of(t_.slots[i]);
    for (u32 i = 0; i < 2; ++i)
      if (F::key_of(t_.side[i]) != empty_key<key>)
        s += std::string("  side ") + (i ? "y" : "z") + "=" + std::to_string(u64(F::value_of(t_.side[i])));
    return s;
  }
  std::string where(const void* p) const override {
    if (p >= t_.slots && p < t_.slots + t_.n_slots)
      return "slot " + std::to_string(static_cast<const word*>(p) - t_.slots);
    return p == t_.side ? "side z" : "side y";
  }
  std::string show(const void*, u128 w) const override { return text_of(narrow_value<word>(w)); }

 protected:
  // Slots in groups of 2^group_bits, in lines of up to `widest`. line: slots between two bars of a drawing.
  void place(u32 n_slots, u32 group_bits, u32 widest, u32 probe_limit, u64 seed, u32 line) {
    t_.n_slots = n_slots;
    t_.group_bits = group_bits;
    t_.groups = typename F::index(n_slots >> group_bits);
    t_.seed = seed;
    t_.by_mask = 0;
    t_.widest = widest;
    t_.probe_limit = probe_limit;
    t_.slots = the_machine.place<word>(n_slots, 128);
    t_.side = the_machine.place<word>(2);
    line_ = line;
  }
  // Key i of n has group home_of[i].
  void choose_keys(const u32* home_of, u32 n) {
    n_keys_ = n;
    key candidate = 1;
    for (u32 i = 0; i < n; ++i)
      for (;; ++candidate)
        if (u64(t_.home(candidate)) == home_of[i]) {
          keys_[i] = candidate++;
          break;
        }
    keys_[dead_pattern] = dead_key<key>, keys_[empty_pattern] = empty_key<key>;
  }
  std::string text_of(word w) const {
    return show_word<F>(w, [this](key k) { return name(k); });
  }

  linear_table<F> t_;
  key keys_[max_keys];

 private:
  // The key that a pair's slot belongs to.
  static key owner(word w) { return is_live<F>(w) ? F::key_of(w) : key(F::value_of(w)); }
  u64 first_slot(key k) const { return u64(t_.home(k)) << t_.group_bits; }
  // I4: slots of k's path.
  u64 path(key k) const { return std::min<u64>(t_.probe_limit - (first_slot(k) & (t_.widest - 1)), t_.n_slots); }
  std::string name(key k) const {
    for (u32 i = 0; i < n_keys_; ++i)
      if (keys_[i] == k) return std::string(1, key_digits[i]);
    return "?";
  }

  u32 n_keys_ = 0, line_ = 0;
  std::string changed_hands_;
};

}  // namespace gpuhash::sim
