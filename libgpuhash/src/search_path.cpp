// Where plugin modules are looked for: see search_path.hpp.
#include "libgpuhash/src/search_path.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "libgpuhash/src/plugin_loader.hpp"

namespace gpuhash {
namespace {

namespace fs = std::filesystem;

// The directory of libgpuhash itself, as the dynamic linker found it, with symbolic links followed.
fs::path library_directory() {
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&gpuhash_version), &info) == 0 || info.dli_fname == nullptr) return {};
  std::error_code ignored;
  return fs::canonical(info.dli_fname, ignored).parent_path();
}

}  // namespace

std::vector<std::string> plugin_directories() {
  std::vector<std::string> directories;
  if (const char* variable = secure_getenv("GPUHASH_PLUGIN_PATH")) {
    std::string_view rest = variable;
    while (!rest.empty()) {
      const auto element = rest.substr(0, rest.find(':'));
      rest.remove_prefix(std::min(rest.size(), element.size() + 1));
      if (element.starts_with('/')) directories.emplace_back(element);
    }
  }
  static const fs::path beside_library = library_directory();
  if (!beside_library.empty()) directories.push_back(beside_library / "gpuhash" / "plugins-v1");
  return directories;
}

std::vector<std::string> plugin_files(const std::string& directory) {
  std::vector<std::string> files;
  std::error_code stop;
  for (fs::directory_iterator entry(directory, stop), end; !stop && entry != end; entry.increment(stop))
    if (!name_in_file_name(entry->path().filename().native()).empty()) files.push_back(entry->path());
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace gpuhash
