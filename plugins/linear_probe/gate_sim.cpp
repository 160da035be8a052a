// The gate around a structure's operations, as a model of the explorer: batches share the gate, growth has it alone.
//
// Every operation is a batch of its own: enter the gate (acquire), look up the generation, which says which of two tables
// holds the keys, serve, leave (release). So operations are ordered as calls are, in weak memory too. grow closes the gate,
// copies the live pairs into the larger table with plain stores, switches the generation and opens the gate (release). The
// tables are linear_probe's.
#include "libgpuhash/drive/sim.hpp"
#include "libgpuhash/sched/batch_gate.hpp"
#include "ops.hpp"

namespace gpuhash::sim {
namespace {

constexpr u32 n_keys = 3, old_slots = 2, new_slots = 4;

template <class F>
class gate_model final : public model {
  using key = typename F::key;
  using word = typename F::word;

 public:
  void build(const std::string&, u64 seed) override {
    gate_.place();
    generation_ = the_machine.place<u32>(1, 4);
    *generation_ = 0;
    for (u32 g = 0; g < 2; ++g) {
      linear_table<F>& t = tables_[g];
      t.n_slots = g ? new_slots : old_slots;
      t.group_bits = 0, t.groups = typename F::index(t.n_slots);
      t.seed = seed, t.by_mask = 0, t.widest = 2, t.probe_limit = u32(t.n_slots);
      t.slots = the_machine.place<word>(u32(t.n_slots));
      t.side = nullptr;  // no program uses the side keys
    }
    key candidate = 1;
    for (u32 i = 0; i < n_keys; ++i, ++candidate) {  // keys that share their home in the old table
      while (tables_[0].home(candidate) != 1) ++candidate;
      keys_[i] = candidate;
    }
  }

  reply run(const op& o) override {
    if (o.kind == grow) return grow_table(), reply{};
    const u32 early = GH_MUTANT(old_table) ? mem::load<order::relaxed>(generation_) : 0;
    gate_.enter();
    const u32 g = GH_MUTANT(old_table) ? early : mem::load<order::relaxed>(generation_);
    const reply r = serve<linear_op, 2>(tables_[g], o, keys_[o.key]);
    gate_.leave();
    return r;
  }

  std::optional<u64> stored(u32 k) const override {
    const linear_table<F>& t = tables_[*generation_];
    for (u64 i = 0; i < t.n_slots; ++i)
      if (F::key_of(t.slots[i]) == keys_[k]) return u64(F::value_of(t.slots[i]));
    return {};
  }
  std::string check() const override {
    if (const std::string left = gate_.check(); !left.empty()) return left;
    const linear_table<F>& t = tables_[*generation_];
    for (u64 i = 0; i < t.n_slots; ++i)
      for (u64 j = 0; j < i; ++j)
        if (is_live<F>(t.slots[i]) && F::key_of(t.slots[i]) == F::key_of(t.slots[j])) return "a key lies in two slots";
    return "";
  }
  std::string room_left(const op&) const override { return ""; }  // growth may have made room since
  std::pair<long, long> holds() const override { return {-1, -1}; }

  std::string draw() const override {
    std::string s = "gate " + gate_.draw() + "  generation " + std::to_string(*generation_);
    for (const auto& t : tables_) {
      s += " |";
      for (u64 i = 0; i < t.n_slots; ++i) s += ' ' + show(t.slots + i, wide_value(t.slots[i]));
    }
    return s;
  }
  std::string where(const void* p) const override {
    if (gate_.is(p)) return "gate";
    if (p == generation_) return "generation";
    const u32 g = p >= tables_[1].slots;
    return (g ? "new " : "old ") + std::to_string(static_cast<const word*>(p) - tables_[g].slots);
  }
  std::string show(const void* p, u128 w) const override {
    if (gate_.is(p) || p == generation_) return std::to_string(w.lo);
    return show_word<F>(narrow_value<word>(w), [this](key k) { return name(k); });
  }

 private:
  void grow_table() {
    if (!GH_MUTANT(no_gate)) gate_.close();
    if (mem::load<order::relaxed>(generation_) == 0) {
      for (u32 i = 0; i < old_slots; ++i) {
        const word w = mem::load<order::relaxed>(tables_[0].slots + i);
        if (is_live<F>(w)) copy(w);
      }
      mem::store<order::relaxed>(generation_, 1u);
    }
    if (!GH_MUTANT(no_gate) && !GH_MUTANT(forgotten_gate)) gate_.open();
  }

  void copy(word w) {
    const linear_table<F>& t = tables_[1];
    u64 at = t.home(F::key_of(w));
    while (!(mem::load<order::relaxed>(t.slots + at) == empty_word<F>())) at = (at + 1) % t.n_slots;
    mem::store<order::relaxed>(t.slots + at, w);
  }

  std::string name(key k) const {
    for (u32 i = 0; i < n_keys; ++i)
      if (keys_[i] == k) return std::string(1, key_digits[i]);
    return "?";
  }

  batch_gate gate_;
  u32* generation_;
  linear_table<F> tables_[2];
  key keys_[n_keys];
};

// Growth beside two operations, on one tile or on two.
std::vector<std::pair<std::string, std::string>> programs() {
  std::vector<std::pair<std::string, std::string>> all;
  const std::vector<std::string> ops{"i0=1", "a0=3", "f0", "e0", "s0=2", "i1=4", "f1"};
  for (const char* setup : {"", "i0=8", "i1=9,i0=8,e0"})
    for (size_t a = 0; a < ops.size(); ++a)
      for (size_t b = 0; b < ops.size(); ++b) {
        all.push_back({"two", std::string(setup) + ":" + ops[a] + "," + ops[b] + "+g"});
        if (a <= b && b < 3) all.push_back({"two", std::string(setup) + ":" + ops[a] + "+" + ops[b] + "+g"});
      }
  all.push_back({"two", "i0=8:g,e0+g"});
  return all;
}

const registration gate{{
    .name = "gate",
    .formats = {"pair32", "set64"},
    .layouts = {"two"},
    .widths = {2},
    .letters = "isafeg",
    .fillers = n_keys,
    .side_keys = false,
    .synchronized = true,
    .mutants = {mutant::no_gate, mutant::gate_checked_once, mutant::enter_unchecked, mutant::relaxed_publish,
                mutant::relaxed_enter, mutant::relaxed_leave, mutant::relaxed_wait, mutant::forgotten_gate,
                mutant::old_table},
    .scenes = {},
    .failures = 0,
    .make = make_model<gate_model>,
    .programs = programs(),
}};

}  // namespace
}  // namespace gpuhash::sim
