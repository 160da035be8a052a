// The registry of backends: finds plugin modules, loads each on its first use, and never unloads one.
//
// A module is known by its file name, gpuhash_<name>.so, in a directory of the search path, or by having been opened by
// its path. Its path always stands for it. What a name stands for follows one order:
//
//   1. the module beside the library: a module of another author never takes the name of a built-in structure
//   2. the directories of GPUHASH_PLUGIN_PATH, in their order
//   3. the modules that were opened by their path, in that order
//
// A name keeps its meaning once it was used. A module whose name means another one is listed under its path.
#pragma once

#include <string>

#include "gpuhash/plugin.h"
#include "libgpuhash/src/error.hpp"

namespace gpuhash {

/// A backend that is loaded. Lives as long as the process.
struct backend {
  std::string name;
  std::string path;
  std::string version, summary;  ///< printable
  gpuhash_backend_v1 api;        ///< complete: what an older plugin does not have is NULL
};

/// Load by name, or by absolute path. Thread-safe.
gpuhash_status find_backend(const char* name, const backend** out, gpuhash_error* err);

}  // namespace gpuhash
