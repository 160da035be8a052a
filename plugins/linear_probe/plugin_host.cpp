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
  return host_engines<linear_table, op_of_any_groups, 64, writing_kinds>::run<F>(table, q, sum);
}

// constinit: an initialiser would run when the module is loaded, on processors that cannot run this file's code, too.
static constinit const engine engines[format_count] = {
    {run<set32>, collect_on_host<linear_table<set32>>, nullptr, nullptr, linear_rebuild<set32>::run},
    {run<pair32>, collect_on_host<linear_table<pair32>>, nullptr, nullptr, linear_rebuild<pair32>::run},
    {run<set64>, collect_on_host<linear_table<set64>>, nullptr, nullptr, linear_rebuild<set64>::run},
    {run<pair64>, collect_on_host<linear_table<pair64>>, nullptr, nullptr, linear_rebuild<pair64>::run},
};

GH_END

#define JOIN2(a, b) a##b
#define JOIN(a, b) JOIN2(a, b)
extern "C" const gpuhash::engine* JOIN(gpuhash_linear_probe_engines_, GPUHASH_ISA)() { return gpuhash::engines; }
