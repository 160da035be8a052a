// cuckoo under the explorer: tiny tables, colliding keys, and the invariants of layout.hpp.
//
//     pygpuhash explore src/plugin_sim.cpp cuckoo --quick
//
// runs the operations of ops.hpp through every interleaving of small programs, and checks what each of them answered. A
// violation is printed with a string that replays it step by step: --replay STRING.
#define GPUHASH_SIZES {"cuckoo.turn_bits", 1}  // an insert lets one of two tries pass, not 255 of 256

#include "libgpuhash/drive/sim.hpp"
#include "ops.hpp"

namespace gpuhash::sim {
namespace {

// Rows 0, 1 and 2, a stash of one row, and locks for even and odd rows.
constexpr u32 slots_of_row = 2, n_rows = 3, n_slots = slots_of_row * (n_rows + 1), n_locks = 2, n_keys = 10;

template <class F>
class cuckoo_model final : public model {
  using key = typename F::key;
  using word = typename F::word;

 public:
  void build(const std::string&, u64 seed) override {
    t_.slots = the_machine.place<word>(n_slots, 128);
    t_.side = the_machine.place<word>(2);
    t_.locks = the_machine.place<word>(n_locks);
    t_.seed = seed;
    t_.n_slots = n_slots;
    t_.rows = n_rows, t_.stash_rows = 1, t_.n_locks = n_locks, t_.choices = 2;
    // The keys 4 and 8 have the rows 1 and 2, all others 0 and 1: where the rows 0 and 1 are full, 4 and 8 can move on.
    key candidate = 1;
    for (u32 i = 0; i < n_keys; ++i) {
      const u32 first = i && i % 4 == 0 ? 1 : 0;
      while (t_.row_of(candidate, 0) != first || t_.row_of(candidate, 1) != first + 1) ++candidate;
      keys_[i] = candidate++;
    }
    keys_[dead_pattern] = dead_key<key>, keys_[empty_pattern] = empty_key<key>;
  }

  reply run(const op& o) override { return serve<cuckoo_op, slots_of_row>(t_, o, keys_[o.key]); }

  std::optional<u64> stored(u32 k) const override {
    if (k >= dead_pattern) {
      const word w = t_.side[k == dead_pattern];
      if (is_empty(w)) return {};
      return u64(F::value_of(w));
    }
    for (u32 i = 0; i < n_slots; ++i)
      if (F::key_of(t_.slots[i]) == keys_[k]) return u64(F::value_of(t_.slots[i]));
    return {};
  }

  std::string check() const override {
    for (u32 i = 0; i < n_locks; ++i)
      if (!is_empty(t_.locks[i])) return "lock " + std::to_string(i) + " is held";
    for (u32 i = 0; i < n_slots; ++i) {
      if (is_empty(t_.slots[i])) continue;
      const key k = owner(t_.slots[i]);
      for (u32 s = i + 1; s < n_slots; ++s)
        if (!is_empty(t_.slots[s]) && owner(t_.slots[s]) == k)
          return "I3: slots " + std::to_string(i) + " and " + std::to_string(s) + " both belong to key " + name(k);
      for (u32 at : path(k)) {
        if (at == i) break;
        if (is_empty(t_.slots[at]))
          return "I2: slot " + std::to_string(at) + " is EMPTY although key " + name(k) + " lies behind it";
      }
    }
    return emptied_;
  }
  std::string room_left(const op& o) const override {
    if (o.key >= dead_pattern) return "a side slot is never full";
    for (u32 at : path(keys_[o.key]))
      if (is_empty(t_.slots[at]) || owner(t_.slots[at]) == keys_[o.key])
        return "slot " + std::to_string(at) + " could have taken key " + name(keys_[o.key]);
    return "";
  }
  std::pair<long, long> holds() const override {
    long live = 0, used = 0;
    for (u32 i = 0; i < n_slots; ++i) live += is_live<F>(t_.slots[i]), used += !is_empty(t_.slots[i]);
    for (u32 i = 0; i < 2; ++i) live += !is_empty(t_.side[i]);
    return {live, used};
  }

  // I1, and I4: who overwrites a key holds the lock of its row.
  void begin_run() override { emptied_.clear(); }
  void on_write(const void* p, u128 old) override {
    if (!emptied_.empty() || p < t_.slots || p >= t_.slots + n_slots) return;
    const word was = narrow_value<word>(old), is = *static_cast<const word*>(p);
    const u64 row = u64(static_cast<const word*>(p) - t_.slots) / slots_of_row;
    if (is_empty(was)) return;
    if (is_empty(is)) emptied_ = "I1: " + where(p) + " went from " + show(p, old) + " to " + show(p, wide_value(is));
    if (row < n_rows && owner(was) != owner(is) && is_empty(*t_.lock_of(row)))
      emptied_ =
          "I4: " + where(p) + " went from " + show(p, old) + " to " + show(p, wide_value(is)) + " without a lock";
  }

  std::string draw() const override {
    std::string s;
    for (u32 i = 0; i < n_slots; ++i) s += (i % slots_of_row ? " " : i ? " | " : "") + text_of(t_.slots[i]);
    return s;
  }
  std::string where(const void* p) const override {
    if (p >= t_.slots && p < t_.slots + n_slots)
      return "slot " + std::to_string(static_cast<const word*>(p) - t_.slots);
    if (p >= t_.locks && p < t_.locks + n_locks)
      return "lock " + std::to_string(static_cast<const word*>(p) - t_.locks);
    return p == t_.side ? "side z" : "side y";
  }
  std::string show(const void* p, u128 w) const override {
    if (p >= t_.locks && p < t_.locks + n_locks) return is_empty(narrow_value<word>(w)) ? "free" : "held";
    return text_of(narrow_value<word>(w));
  }

 private:
  static bool is_empty(word w) { return F::key_of(w) == empty_key<key>; }
  // The key of a slot that is not EMPTY, also of a tombstone.
  static key owner(word w) { return is_live<F>(w) ? F::key_of(w) : key(F::value_of(w)); }
  // Its slots in their order.
  std::vector<u32> path(key k) const {
    std::vector<u32> slots;
    for (u64 row : {u64(t_.row_of(k, 0)), u64(t_.row_of(k, 1)), u64(n_rows)})
      for (u32 s = 0; s < slots_of_row; ++s) slots.push_back(u32(row) * slots_of_row + s);
    return slots;
  }
  std::string name(key k) const {
    for (u32 i = 0; i < n_keys; ++i)
      if (keys_[i] == k) return std::string(1, key_digits[i]);
    return "?";
  }
  std::string text_of(word w) const {
    return show_word<F>(w, [this](key k) { return name(k); });
  }

  cuckoo_table<F> t_;
  key keys_[max_keys];
  std::string emptied_;
};

const std::vector<std::pair<u32, u32>> any{{0, 0}};  // widths: there is one

const registration cuckoo{{
    .name = "cuckoo",
    .formats = {"pair32", "pair64"},
    .layouts = {"r2"},
    .widths = {slots_of_row},
    .letters = "isafec",
    .fillers = n_keys,
    .side_keys = true,
    .mutants = {},
    // Of triples, those of which one tile adds a key: two that wait for a lock are pairs' matter.
    .scenes = {{"empty", "r2", "", {0, 1}, any, "ifea", 1},
               {"present", "r2", "i2=9,i0=8", {0, 1}, any, "ifea", 1},
               {"own tombstone", "r2", "i0=8,e0", {0, 1}, any, "ifea", 1},
               {"one moves", "r2", "i2=9,i3=9,i4=9,i5=9", {0, 4}, any, "ifea", 1},
               {"two move", "r2", "i2=9,i3=9,i4=9,i8=9", {0, 1}, any, "ife", 1},
               {"a tombstone in the way", "r2", "i2=9,i3=9,i4=9,i8=9,e4", {0, 4}, any, "ife", 1},
               {"stash", "r2", "i2=9,i3=9,i5=9,i6=9", {0, 1}, any, "ife", 1},
               {"in the stash", "r2", "i2=9,i3=9,i5=9,i6=9,i0=8", {0, 1}, any, "ife", 1},
               {"near full", "r2", "i2=9,i3=9,i5=9,i6=9,i7=9", {0, 1}, any, "ife", 1},
               {"full", "r2", "i2=9,i3=9,i5=9,i6=9,i7=9,i9=9", {0, 1}, any, "ife", 1},
               {"side keys", "r2", "iz=7", {34, 35}, any, "ifea", 1}},
    .failures = 0,
    .make = make_model<cuckoo_model>,
    .programs = {},
}};

}  // namespace
}  // namespace gpuhash::sim
