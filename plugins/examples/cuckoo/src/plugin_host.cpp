// The kernels of cuckoo for the CPU. Compiled once per instruction set, with GPUHASH_ISA naming it.
#include "libgpuhash/drive/host.hpp"
#include "ops.hpp"

extern "C" const gpuhash::engine* GH_PASTE(gpuhash_cuckoo_engines_, GPUHASH_ISA)() {
  return gpuhash::host_engines<gpuhash::cuckoo_table, gpuhash::cuckoo_op>::all();
}
