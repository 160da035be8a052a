// Where plugin modules are looked for: see search_path.hpp.
#include "libgpuhash/src/search_path.hpp"

#include <dirent.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>

#include "libgpuhash/src/plugin_loader.hpp"

namespace gpuhash {
namespace {

// The directory of libgpuhash itself, as the dynamic linker found it, with symbolic links followed.
std::string library_directory() {
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&gpuhash_version), &info) == 0 || info.dli_fname == nullptr) return {};
  const std::unique_ptr<char, void (*)(void*)> path(realpath(info.dli_fname, nullptr), std::free);
  if (path == nullptr) return {};
  return std::string(path.get(), std::strrchr(path.get(), '/'));
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
  const std::string beside_library = library_directory();
  if (!beside_library.empty()) directories.push_back(beside_library + "/gpuhash/plugins-v1");
  return directories;
}

// With readdir: the directory_iterator of libstdc++ terminates the process when it finds no memory.
std::vector<std::string> plugin_files(const std::string& directory) {
  std::vector<std::string> files;
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(opendir(directory.c_str()), closedir);
  if (stream == nullptr) return files;
  while (const dirent* entry = readdir(stream.get()))
    if (!name_in_file_name(entry->d_name).empty()) files.push_back(directory + '/' + entry->d_name);
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace gpuhash
