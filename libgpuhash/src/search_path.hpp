// Where plugin modules are looked for: GPUHASH_PLUGIN_PATH, then the directory beside the library. Never the working
// directory, so relative and empty elements of the variable are skipped.
#pragma once

#include <string>
#include <vector>

namespace gpuhash {

std::vector<std::string> plugin_directories();

/// The directory beside the library, the last of plugin_directories(); empty when the library cannot be located.
std::string built_in_directory();

/// What is wrong with GPUHASH_PLUGIN_PATH, each element with what follows from it, ending in "; "; or "".
std::string search_path_faults();

/// Paths of the files named gpuhash_<name>.so in a directory, sorted. A directory that cannot be read has none.
std::vector<std::string> plugin_files(const std::string& directory);

}  // namespace gpuhash
