// The kernels of stadium for the CPU. Compiled once per instruction set, with GPUHASH_ISA naming it.
#include "engines.hpp"
#include "serve_host.hpp"

GH_BEGIN

// constinit: an initialiser would run when the module is loaded, on processors that cannot run this file's code, too.
static constinit const engine engines[stadium_engines] = {
    engine_of<small_pair<u32, 0>>(), engine_of<small_pair<u32, 4>>(), engine_of<small_pair<u32, 8>>(),
    engine_of<small_pair<u64, 0>>(), engine_of<small_pair<u64, 4>>(), engine_of<small_pair<u64, 8>>(),
    engine_of<wide_pair>(),          engine_of<wide_pair>()};  // the CPU has no bus to cross

GH_END

#define JOIN2(a, b) a##b
#define JOIN(a, b) JOIN2(a, b)
extern "C" const gpuhash::engine* JOIN(gpuhash_stadium_engines_, GPUHASH_ISA)() { return gpuhash::engines; }
