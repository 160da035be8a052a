// The kernels of linear_probe for the CPU. Compiled once per instruction set, with GPUHASH_ISA naming it.
#include "libgpuhash/drive/host.hpp"
#include "libgpuhash/kit/kernels.hpp"
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
  return {run<F>, collect_on_host<linear_table<F>>, nullptr, nullptr, linear_rebuild<F>::run};
}
static constinit const engine engines[format_count] = GPUHASH_OF_FORMATS(of_linear);

GH_END

GPUHASH_HOST_KERNELS(linear_probe)
