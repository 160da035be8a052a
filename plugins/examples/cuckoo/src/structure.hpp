// cuckoo for the kit: sizes, and the tests of its invariants (layout.hpp).
#pragma once
#include <unordered_set>
#include <vector>

#include "layout.hpp"
#include "libgpuhash/kit/flat_table.hpp"

namespace gpuhash {

struct cuckoo_options {  // what `parse` in plugin.cpp reads, and what the kit asks for: 0 lets it choose
  uint64_t choices = 4;
  uint32_t parts = 0;
};

template <class F>
struct cuckoo_structure {
  using options = cuckoo_options;
  using layout = cuckoo_table<F>;
  using word = typename F::word;
  using key = typename F::key;
  static constexpr uint32_t line_cells = 64 / sizeof(word);  // slots of a row
  // Keys of a slot of the rows, at most, so that `capacity` keys have a place: less than the load of which the stash takes
  // what one move leaves over, found by trial (README.md).
  static constexpr double most_load(uint64_t choices) {
    return (line_cells == 8 ? 0.8 : 0.7) - (4 - double(choices)) * 0.15;
  }

  // What n_slots are divided into.
  struct division {
    uint64_t rows, stash, locks;  // rows of each
    explicit division(uint64_t all) {
      locks = 1 + all / 64;
      stash = 4 + all / 512;
      rows = all > locks + stash ? all - locks - stash : 0;
    }
  };

  static uint64_t slots_for(const options& o, uint64_t keys, double max_load) {  // 0: too many
    if (keys < 64) keys = 64;
    const double load = max_load < most_load(o.choices) ? max_load : most_load(o.choices);
    const double wanted = double(keys) / load;
    if (wanted > 1e18) return 0;
    const uint64_t needed = uint64_t(wanted) / line_cells + 1;
    uint64_t all = needed + needed / 56 + 6;
    while (division(all).rows < needed) ++all;
    return all > typename F::index(~typename F::index(0)) ? 0 : all * line_cells;
  }
  static layout bind(const options& o, void* slots, uint64_t n, void* side, uint64_t seed) {
    const division d(n / line_cells);
    layout t{};
    t.slots = static_cast<word*>(slots), t.side = static_cast<word*>(side);
    t.seed = seed;
    t.n_slots = n;
    t.rows = typename F::index(d.rows);
    t.stash_rows = uint32_t(d.stash);
    t.locks = t.slots + (d.rows + d.stash) * line_cells;
    t.n_locks = uint32_t(d.locks * line_cells);
    t.choices = uint32_t(o.choices);
    return t;
  }
  static bool finds_room(const layout&, double) { return false; }  // the rows of a key may be full at any load
  static const void* memory(const layout& t) { return t.slots; }

  static uint64_t path_rows(const layout& t) { return t.choices + t.stash_rows; }
  static const word* path_row(const layout& t, key k, uint64_t i) {
    const uint64_t row = i < t.choices ? uint64_t(t.row_of(k, uint32_t(i))) : t.rows + (i - t.choices);
    return t.slots + row * line_cells;
  }
  // Rows of its path before the one that a slot is in; path_rows if it is in none of them.
  static uint64_t distance(const layout& t, key k, const word* slot) {
    uint64_t i = 0;
    while (i < path_rows(t) && !(slot >= path_row(t, k, i) && slot < path_row(t, k, i) + line_cells)) ++i;
    return i;
  }
  static bool is_empty(word w) { return F::key_of(w) == empty_key<key>; }
  // Is there an EMPTY slot on k's path before this one?
  static bool has_gap(const layout& t, key k, const word* slot) {
    for (uint64_t i = 0;; ++i)
      for (uint32_t s = 0; s < line_cells; ++s) {
        const word* const at = path_row(t, k, i) + s;
        if (at == slot) return false;
        if (is_empty(*at)) return true;
      }
  }
  // I2 to I4 at rest for every slot, in host memory: NULL, or which invariant does not hold at which cell.
  static const char* broken(const layout& t, uint64_t* cell) {
    std::unordered_set<uint64_t> known;
    for (uint64_t i = 0; i < t.n_slots; ++i) {
      const word w = t.slots[i];
      if (is_empty(w)) continue;
      *cell = i;
      if (t.slots + i >= t.locks) return "a lock is held, though nothing runs (I4)";
      const key k = is_live<F>(w) ? F::key_of(w) : key(F::value_of(w));
      if (is_side_key(k)) return "a key of a side slot lies in the table";
      if (distance(t, k, t.slots + i) == path_rows(t)) return "a key lies in a row that is none of its path";
      if (has_gap(t, k, t.slots + i)) return "an empty slot lies before a key on its path (I2)";
      if (!known.insert(k).second) return "a key has two slots (I3)";
    }
    return nullptr;
  }

  template <class Each>
  static void each_distance(const layout& t, Each each) {
    for (uint64_t i = 0; i < t.n_slots; ++i)
      if (is_live<F>(t.slots[i])) each(distance(t, F::key_of(t.slots[i]), t.slots + i));
  }
  static void distances(const layout& t, size_t n, uint64_t* counts) {
    each_distance(t, [&](uint64_t d) { ++counts[d < n ? d : n - 1]; });
  }
  static void figures(const layout& t, std::vector<gpuhash_stat>& out) {
    uint64_t sum = 0, live = 0, stashed = 0;
    each_distance(t, [&](uint64_t d) { sum += d, ++live, stashed += d >= t.choices; });
    out.push_back({"probe_mean", live ? double(sum) / double(live) : 0.0});
    out.push_back({"stashed", double(stashed)});
  }
};

}  // namespace gpuhash
