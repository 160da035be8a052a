// The kernels of linear_probe for the CPU. Compiled once per instruction set, with GPUHASH_ISA naming it.
#include "libgpuhash/drive/host.hpp"
#include "ops.hpp"
#include "rebuild.hpp"

GH_BEGIN

template <class Tile, u32 Kind>
using op_of_whole_lines = linear_op<Tile, Kind, true>;
template <class Tile, u32 Kind>
using op_of_any_groups = linear_op<Tile, Kind, false>;

template <class F>
int run(const void* table, const request& q, totals* sum) {
  const u32 group_bytes = sizeof(typename F::word) << static_cast<const linear_table<F>*>(table)->group_bits;
  if (group_bytes >= 64) return host_engines<linear_table, op_of_whole_lines>::run<F>(table, q, sum);
  return host_engines<linear_table, op_of_any_groups, 64, kinds_of_one_driver>::run<F>(table, q, sum);
}

template <class F>
constexpr engine of_linear() {
  return host_homes<linear_table<F>>::added_to(
      {run<F>, collect_on_host<linear_table<F>>, nullptr, nullptr, linear_rebuild<F>::run});
}
// constinit: an initialiser would run when the module is loaded, on processors that cannot run this file's code, too.
static constinit const engine engines[format_count] = {
    of_linear<set32>(),
    of_linear<pair32>(),
    of_linear<set64>(),
    of_linear<pair64>(),
};

GH_END

#define JOIN2(a, b) a##b
#define JOIN(a, b) JOIN2(a, b)
extern "C" const gpuhash::engine* JOIN(gpuhash_linear_probe_engines_, GPUHASH_ISA)() { return gpuhash::engines; }
