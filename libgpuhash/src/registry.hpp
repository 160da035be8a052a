// The registry of backends: finds plugin modules, loads each on its first use, and never unloads one.
//
// A module is known by its file name, gpuhash_<name>.so, in a directory of the search path, or by having been opened by
// its path. The first module that is loaded under a name keeps that name. When two files claim a name that nobody uses
// yet, asking for it is an error that names both, and opening one of them by its path settles it.
#pragma once

#include <string>

#include "gpuhash/plugin.h"
#include "libgpuhash/src/error.hpp"

namespace gpuhash {

/// A backend that is loaded. Lives as long as the process.
struct backend {
  std::string name;
  std::string path;
  gpuhash_backend_v1 api;  ///< complete: what an older plugin does not have is NULL
};

/// Load by name. Thread-safe.
gpuhash_status find_backend(const char* name, const backend** out, gpuhash_error* err);

}  // namespace gpuhash
