// linear_probe under the explorer: tiny tables, colliding keys, and the invariants of layout.hpp.
#include "sim_table.hpp"

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
  verdict step(Tile& tile, const typename base::table& t, joiner j, const typename Tile::row& row, bool go) {
    const auto before = this->res.value;
    const verdict d = base::step(tile, t, j, row, go);
    if (GH_MUTANT(stale_pop) && this->kind() == pop && before) this->res.value = before;
    if (GH_MUTANT(own_answer) && this->kind() == find_or_insert) this->res.value = this->v;
    return d;
  }
};

template <class F>
class linear_model final : public linear_sim<F> {
  using linear_sim<F>::t_;
  using linear_sim<F>::keys_;

 public:
  // g1, g2, g4: slots per group. A trailing c: counters are kept in memory, as kernels do. s: no batch erases, so that values
  // change in place.
  void build(const std::string& layout, u64 seed) override {
    const u32 bits = layout[1] == '4' ? 2 : layout[1] == '2' ? 1 : 0;
    this->place(bits == 1 ? 8 : 16, bits, widest, 8, seed, widest);
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

  void end_tile(const reply& sum) override {
    if (counted_) counters_.add(sum);
  }
  std::string check_counters() const override { return counted_ ? counters_.check(this->holds()) : ""; }

  std::string where(const void* p) const override {
    return is_counter(p) ? p == counters_.live ? "live" : "used" : linear_sim<F>::where(p);
  }
  std::string show(const void* p, u128 w) const override {
    return is_counter(p) ? std::to_string((long long)w.lo) : linear_sim<F>::show(p, w);
  }

 private:
  bool is_counter(const void* p) const { return counted_ && (p == counters_.live || p == counters_.used); }

  // Keys 0 1 2 .. share a home or have neighbouring ones, near the end of the table, so that paths wrap.
  void choose_keys() {
    static constexpr u32 further[n_keys] = {0, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0};
    const u32 groups = u32(t_.groups), last = t_.group_bits ? groups - 1 : groups - 5;
    u32 home_of[n_keys];
    for (u32 i = 0; i < n_keys; ++i) home_of[i] = (last + further[i]) % groups;
    linear_sim<F>::choose_keys(home_of, n_keys);
  }

  bool counted_ = false, keys_stay_ = false;
  counters counters_;
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
    .letters = "isafecpo",
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
                mutant::in_place_beside_erase,
                mutant::stale_pop,
                mutant::own_answer},
    .scenes = scenes(),
    .failures = 0,
    .make = make_model<linear_model>,
    .programs = {},
    .letters_in = {{"g1s", "isafco"}, {"g2s", "isafco"}},
}};

}  // namespace
}  // namespace gpuhash::sim
