// slab_hash under the explorer: one bucket, slabs of 3 slots and a link, a heap of 3 units, allocations that fail.
#include "libgpuhash/drive/sim.hpp"

#include "ops.hpp"

namespace gpuhash::sim {
namespace {

constexpr u32 n_keys = 14, slab_slots = 4, free_units = 3;

template <class Tile, u32 Kind>
using explored_op = slab_op<Tile, Kind>;

template <class F>
class slab_model final : public model {
  using key = typename F::key;
  using word = typename F::word;

 public:
  void build(const std::string&, u64 seed) override {
    t_ = {};
    t_.seed = seed, t_.buckets = 1, t_.slab_slots = slab_slots;
    t_.base = the_machine.place<word>((1 + 2) * slab_slots, 64);
    slab_heap& h = t_.heap;
    h.supers = h.blocks = 1, h.unit_bits = u32(__builtin_ctz(slab_slots * sizeof(word)));
    h.units[0] = reinterpret_cast<unsigned char*>(the_machine.place<word>(free_units * slab_slots, 64));
    h.bitmaps[0] = the_machine.place<u32>(block_words);
    h.note = the_machine.place<u32>(1);
    *h.note = 0;
    h.bitmaps[0][0] = ~0u << free_units;  // the other units are taken, and have no memory
    for (u32 i = 0; i < n_keys; ++i) keys_[i] = key(i + 1);
    keys_[dead_pattern] = dead_key<key>, keys_[empty_pattern] = empty_key<key>;
  }

  reply run(const op& o) override { return serve<explored_op, 4, 2>(t_, o, keys_[o.key]); }

  std::optional<u64> stored(u32 k) const override {
    std::optional<u64> v;
    each_slot(t_.home(keys_[k]), [&](const word* s) {
      if (F::key_of(*s) == t_.stored(keys_[k])) v = u64(F::value_of(*s));
    });
    return v;
  }

  std::string check() const override {
    if (!changed_hands_.empty()) return changed_hands_;
    u32 on_chains = 0;
    for (u32 b = 0; b < t_.cells(); ++b) {
      const word* open = nullptr;
      std::vector<key> owners;
      std::string broken;
      each_slot(b, [&](const word* s) {
        if (*s == empty_word<F>()) {
          open = s;
          return;
        }
        if (open) broken = "S2: " + where(open) + " is EMPTY although " + where(s) + " behind it is not";
        if (!is_live<F>(*s) && !F::has_value) return;
        const key k = is_live<F>(*s) ? F::key_of(*s) : key(F::value_of(*s));
        if (std::find(owners.begin(), owners.end(), k) != owners.end())
          broken = "S3: key " + name(k) + " has two slots";
        owners.push_back(k);
      });
      if (!broken.empty()) return broken;
      each_slab(b, [&](const word*, u32 handle) { on_chains |= handle == no_unit ? 0 : 1u << handle; });
    }
    const u32 taken = t_.heap.bitmaps[0][0] & ((1u << free_units) - 1);
    if (on_chains != taken)
      return "S5: units " + std::to_string(taken) + " are taken, units " + std::to_string(on_chains) +
             " are on chains (as bits)";
    return "";
  }
  std::string room_left(const op&) const override { return "slab_hash is never full"; }
  std::pair<long, long> holds() const override {
    long live = 0, used = 0;
    for (u32 b = 0; b < t_.cells(); ++b)
      each_slot(b, [&](const word* s) { live += is_live<F>(*s), used += !(*s == empty_word<F>()); });
    return {live, used};
  }

  // S1: a slot belongs to one key for good. S4: a link goes from none to a slab once.
  void begin_run() override { changed_hands_.clear(); }
  void on_write(const void* p, u128 old) override {
    if (!changed_hands_.empty() || !is_word(p)) return;
    const word was = narrow_value<word>(old), is = *static_cast<const word*>(p);
    if (was == is || was == empty_word<F>()) return;
    const auto owner = [](word w) { return is_live<F>(w) ? F::key_of(w) : key(F::value_of(w)); };
    const bool kept = F::has_value ? owner(was) == owner(is) : is_live<F>(was) && F::key_of(is) == dead_key<key>;
    if (!is_link(p) && kept) return;
    changed_hands_ = (is_link(p) ? "S4: " : "S1: ") + where(p) + " went from " + show(old, sizeof(word)) + " to " +
                     show(wide_value(is), sizeof(word));
  }

  std::string draw() const override {
    std::string s;
    for (u32 b = 0; b < t_.cells(); ++b) {
      bool blank = b > 0;
      each_slot(b, [&](const word* w) { blank &= *w == empty_word<F>(); });
      if (!blank) s += (b ? "  | " : "") + std::string(b == 0 ? "" : b == 1 ? "z:" : "y:");
      if (!blank) each_slot(b, [&](const word* w) { s += " " + show(wide_value(*w), sizeof(word)); });
    }
    return s + "  taken " + std::to_string(t_.heap.bitmaps[0][0] & ((1u << free_units) - 1));
  }
  std::string where(const void* p) const override {
    if (!is_word(p)) return "bitmap";
    const auto* w = static_cast<const word*>(p);
    const bool in_base = w >= t_.base && w < t_.base + t_.cells() * slab_slots;
    const u64 i = u64(w - (in_base ? t_.base : t_.slab(0)));
    return (in_base ? "base " : "unit ") + std::to_string(i / slab_slots) +
           (is_link(p) ? ".link" : "." + std::to_string(i % slab_slots));
  }
  std::string show(u128 w, u32 bytes) const override {
    if (bytes != sizeof(word)) return std::to_string(w.lo);
    return show_word<F>(narrow_value<word>(w), [this](key k) { return name(k); });
  }

 private:
  template <class Visit>
  void each_slab(u32 b, Visit visit) const {
    u32 handle = no_unit;
    for (const word* at = t_.bucket(b);; at = t_.slab(handle)) {
      visit(at, handle);
      handle = t_.next_of(at[slab_slots - 1]);
      if (handle == no_unit) return;
    }
  }
  template <class Visit>
  void each_slot(u32 b, Visit visit) const {
    each_slab(b, [&](const word* at, u32) {
      for (u32 i = 0; i + 1 < slab_slots; ++i) visit(at + i);
    });
  }
  bool is_word(const void* p) const { return p >= t_.base && p < t_.heap.bitmaps[0]; }
  bool is_link(const void* p) const {
    const auto* w = static_cast<const word*>(p);
    return u64(w - (w < t_.slab(0) ? t_.base : t_.slab(0))) % slab_slots == slab_slots - 1;
  }
  std::string name(key k) const {
    for (u32 i = 0; i < n_keys; ++i)
      if (keys_[i] == k) return std::string(1, key_digits[i]);
    return "?";
  }

  slab_table<F> t_;
  key keys_[max_keys];
  std::string changed_hands_;
};

std::vector<scene> scenes() {
  const std::vector<std::pair<u32, u32>> one{{4, 4}}, all{{4, 4}, {2, 2}, {4, 2}, {2, 4}};
  return {
      {"empty", "b1", "", {0, 1}, all},
      {"present", "b1", "i2=9,i0=8", {0, 1}, all},
      {"slab full", "b1", "i2=9,i3=9,i4=9", {0, 1}, all, false},
      {"slab full, dead", "b1", "i2=9,i0=8,i4=9,e2,e0", {0, 1}, all, false},
      {"in the second slab", "b1", "i2=9,i3=9,i4=9,i0=8", {0, 1}, all},
      {"chain of three", "b1", "i2=9,i3=9,i4=9,i5=9,i6=9,i7=9,i0=8,e5", {0, 1}, one, false},
      {"heap exhausted", "b1", "i2=9,i3=9,i4=9,i5=9,i6=9,i7=9,i8=9,i9=9,ia=9,ib=9,ic=9,i0=8", {0, 1}, one, false},
      {"side keys", "b1", "iz=7", {34, 35}, one},
      {"side key beside another", "b1", "", {0, 35}, one},
  };
}

const registration slab_hash{{
    .name = "slab_hash",
    .formats = all_formats,
    .layouts = {"b1"},
    .widths = {2, 4},
    .letters = "isafe",
    .fillers = n_keys,
    .side_keys = true,
    .mutants = {},
    .scenes = scenes(),
    .failures = 1,
    .make = make_model<slab_model>,
    .programs = {},
}};

}  // namespace
}  // namespace gpuhash::sim
