// hive: the tile with which the CPU reads a bucket.
#pragma once
#include "libgpuhash/tile/host.hpp"
#include "ops.hpp"

GH_BEGIN

// Rows are loaded with acquire. On x86 every load acquires, and vector loads are volatile to the compiler.
template <class F, int R>
struct hive_host_tile : host_tile<F, R> {
  using base = host_tile<F, R>;
  using typename base::row, typename base::word, typename base::hits;

  static constexpr bool lanes_ask() { return false; }
  static constexpr bool searches() { return false; }
  GH_FN static bool some(bool x) { return x; }
  GH_FN static const row& either(bool c, const row& a, const row& b) { return c ? a : b; }
  template <class Act>
  GH_FN void search(bool, const row&, const row&, hits (&)[2], Act) const {}
  template <class Act>
  GH_FN u32 once_at(bool, const row&, hits, Act) const {
    return 0;
  }
  GH_FN row load(const word* line) const {
    row r;
    if constexpr (base::vector)
      r.load(line);
    else
      for (int i = 0; i < R; ++i) r.all[i] = host_mem::load<order::acquire>(line + i);
    return r;
  }
  GH_FN row look(bool go, const word* line) const { return go ? load(line) : row{}; }
  template <class Act>
  GH_FN auto once(bool go, Act act) const {
    return go ? act() : decltype(act()){};
  }
};

GH_END
