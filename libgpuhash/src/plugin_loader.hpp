// Loading one plugin module: open it, let it describe itself, refuse what a table could not rely on.
#pragma once

#include <string>
#include <string_view>

#include "gpuhash/plugin.h"
#include "libgpuhash/src/error.hpp"

namespace gpuhash {

/// Load the module at `path` and fill `api` completely: what an older plugin does not know is NULL. A module that
/// dlopen has accepted stays loaded for ever, even one that is refused here: its constructors have run, and CUDA's
/// registrations cannot be undone. Each way to fail has its own sentence.
gpuhash_status load_plugin(const std::string& path, gpuhash_backend_v1& api, gpuhash_error* err);

/// Are a plugin's description and its table of entries fit to be used? plugin.h says what has to be there.
gpuhash_status check_backend(const gpuhash_backend_v1& api, const char* path, gpuhash_error* err);

/// The backend name in a file name gpuhash_<name>.so, or an empty view.
std::string_view name_in_file_name(std::string_view file_name);

/// Lower-case letters, digits and underscores, at most 63 of them.
bool is_backend_name(std::string_view name);

}  // namespace gpuhash
