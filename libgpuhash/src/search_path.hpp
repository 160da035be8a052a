// Where plugin modules are looked for: GPUHASH_PLUGIN_PATH, then the directory beside the library. Never the working
// directory, so relative and empty elements of the variable are skipped.
#pragma once

#include <string>
#include <vector>

namespace gpuhash {

std::vector<std::string> plugin_directories();

/// Paths of the files named gpuhash_<name>.so in a directory, sorted. A directory that cannot be read has none.
std::vector<std::string> plugin_files(const std::string& directory);

}  // namespace gpuhash
