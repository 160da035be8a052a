// GH_MUTANT(name): is this planted mistake active? Constant false, and so no code at all, outside the explorer, and outside of
// modules that are compiled with mistakes to see what it costs not to make them: -DGPUHASH_PLANTED='"name name"'.
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

#elif defined(GPUHASH_PLANTED)

#include <type_traits>

namespace gpuhash {

// Is it one of the words?
constexpr bool is_planted(const char* name) {
  for (const char* words = GPUHASH_PLANTED; *words;) {
    const char* n = name;
    while (*n && *n == *words) ++n, ++words;
    if (*n == 0 && (*words == 0 || *words == ' ')) return true;
    while (*words && *words != ' ') ++words;
    while (*words == ' ') ++words;
  }
  return false;
}

}  // namespace gpuhash
#define GH_MUTANT(name) (::std::bool_constant<::gpuhash::is_planted(#name)>::value)

#else
#define GH_MUTANT(name) false
#endif
