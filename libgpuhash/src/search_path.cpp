// Where plugin modules are looked for: see search_path.hpp.
#include "libgpuhash/src/search_path.hpp"

#include <dirent.h>
#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
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

// The elements of GPUHASH_PLUGIN_PATH.
std::vector<std::string> path_elements() {
  std::vector<std::string> elements;
  const char* variable = secure_getenv("GPUHASH_PLUGIN_PATH");
  std::string_view rest = variable == nullptr ? "" : variable;
  while (!rest.empty()) {
    const auto element = rest.substr(0, rest.find(':'));
    rest.remove_prefix(std::min(rest.size(), element.size() + 1));
    elements.emplace_back(element);
  }
  return elements;
}

const char* fault_of(const std::string& element) {
  if (element.empty()) return nullptr;  // as two colons in a row leave it
  if (element[0] != '/') return "is not absolute and is left out";
  struct stat file;
  if (stat(element.c_str(), &file) != 0) return errno == EACCES ? "cannot be read" : "does not exist";
  if (!S_ISDIR(file.st_mode)) return "is not a directory";
  return access(element.c_str(), R_OK | X_OK) == 0 ? nullptr : "cannot be read";
}

}  // namespace

std::string built_in_directory() {
  const std::string beside_library = library_directory();
  return beside_library.empty() ? beside_library : beside_library + "/gpuhash/plugins-v1";
}

std::vector<std::string> plugin_directories() {
  std::vector<std::string> directories;
  for (auto& element : path_elements())
    if (element.starts_with('/')) directories.push_back(std::move(element));
  if (std::string built_in = built_in_directory(); !built_in.empty()) directories.push_back(std::move(built_in));
  return directories;
}

std::string search_path_faults() {
  std::string faults;
  for (const auto& element : path_elements())
    if (const char* fault = fault_of(element))
      faults.append("'").append(element).append("' in GPUHASH_PLUGIN_PATH ").append(fault).append("; ");
  return faults;
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
