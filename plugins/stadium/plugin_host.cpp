// The kernels of stadium for the CPU. Compiled once per instruction set, with GPUHASH_ISA naming it.
#include "engines.hpp"
#include "libgpuhash/kit/kernels.hpp"
#include "serve_host.hpp"

GH_BEGIN

static constinit const engine engines[stadium_engines] = {
    engine_of<small_pair<u32, 0>>(), engine_of<small_pair<u32, 4>>(), engine_of<small_pair<u32, 8>>(),
    engine_of<small_pair<u64, 0>>(), engine_of<small_pair<u64, 4>>(), engine_of<small_pair<u64, 8>>(),
    engine_of<wide_pair>(),          engine_of<wide_pair>()};  // the CPU has no bus to cross

GH_END

GPUHASH_HOST_KERNELS(stadium)
