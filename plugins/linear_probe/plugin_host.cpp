// The kernels of linear_probe for the CPU. Compiled once per instruction set, with GPUHASH_ISA naming it.
#include "libgpuhash/drive/host.hpp"
#include "ops.hpp"

GH_BEGIN
template <class Tile, u32 Kind>
using linear_op_on_host = linear_op<Tile, Kind, false>;
GH_END

#define JOIN2(a, b) a##b
#define JOIN(a, b) JOIN2(a, b)
extern "C" const gpuhash::engine* JOIN(gpuhash_linear_probe_engines_, GPUHASH_ISA)() {
  return gpuhash::host_engines<gpuhash::linear_table, gpuhash::linear_op_on_host>::all();
}
