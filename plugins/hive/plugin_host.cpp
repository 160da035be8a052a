// The kernels of hive for the CPU. Compiled once per instruction set, with GPUHASH_ISA naming it.
#include "libgpuhash/drive/host.hpp"
#include "ops.hpp"

GH_BEGIN

// Rows are loaded with acquire. On x86 every load acquires, and vector loads are volatile to the compiler.
template <class F, int R>
struct hive_host_tile : host_tile<F, R> {
  using base = host_tile<F, R>;
  using typename base::row, typename base::word;

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

template <class Tile, u32 Kind>
using host_op = hive_op<hive_host_tile<typename Tile::format, Tile::slots>, Kind>;

template <class F>
int run(const void* table, const request& q, totals* sum) {
  constexpr u32 slot = sizeof(typename F::word);
  switch (static_cast<const hive_table<F>*>(table)->slot_bits) {
    case 3: return host_engines<hive_table, host_op, 8 * slot>::template run<F>(table, q, sum);
    case 4: return host_engines<hive_table, host_op, 16 * slot>::template run<F>(table, q, sum);
    default: return host_engines<hive_table, host_op, 32 * slot>::template run<F>(table, q, sum);
  }
}

// constinit: an initialiser would run when the module is loaded, on processors that cannot run this file's code, too.
static constinit const engine engines[format_count] = {
    {run<set32>, collect_on_host<hive_table<set32>>},
    {run<pair32>, collect_on_host<hive_table<pair32>>},
    {run<set64>, collect_on_host<hive_table<set64>>},
    {run<pair64>, collect_on_host<hive_table<pair64>>},
};

GH_END

#define JOIN2(a, b) a##b
#define JOIN(a, b) JOIN2(a, b)
extern "C" const gpuhash::engine* JOIN(gpuhash_hive_engines_, GPUHASH_ISA)() { return gpuhash::engines; }
