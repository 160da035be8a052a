// GH_MUTANT(name): is this planted mistake active? Constant false, and so no code at all, outside the explorer.
//
// The mistakes are listed in tests/model/mutants/*.def. Most are made beneath an ops.hpp (in the explorer's tile) or
// beside it (in a plugin_sim.cpp), so that the source stays as it is; the macro is for those that have to be inside.
#pragma once

#if defined(GPUHASH_SIM)

namespace gpuhash::sim {

enum class mutant {
  none,
#define M(name, deviates, source) name,
#include "tests/model/mutants/all.def"
#undef M
};
inline mutant active_mutant = mutant::none;

struct mutant_entry {
  const char *name, *deviates, *source;
};
inline constexpr mutant_entry mutant_table[] = {
// in the enumerators' order, none left out
#define M(name, deviates, source) {#name, deviates, source},
#include "tests/model/mutants/all.def"
#undef M
};

}  // namespace gpuhash::sim
#define GH_MUTANT(name) (::gpuhash::sim::active_mutant == ::gpuhash::sim::mutant::name)

#else
#define GH_MUTANT(name) false
#endif
