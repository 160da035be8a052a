// The control groups of a process: see cgroups.hpp.
#include "libgpuhash/src/cgroups.hpp"

#include <algorithm>
#include <cstdio>
#include <memory>

namespace gpuhash {
namespace {

// The group `path` below `mount`, and all above it.
void each_above(const std::string& mount, std::string path, const std::function<void(const std::string&)>& visit) {
  for (;;) {
    visit(mount + path);
    if (path.empty()) return;
    path.erase(std::min(path.rfind('/'), path.size()));
  }
}

}  // namespace

std::string read_file(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "re"), std::fclose);
  char text[16384];
  return file ? std::string(text, std::fread(text, 1, sizeof text, file.get())) : std::string();
}

// Lines are "<hierarchy>:<controllers>:<path>"; version 2 is hierarchy 0, without controllers.
void each_cgroup(const std::string& membership, const std::string& root, std::string_view controller,
                 const std::function<void(const std::string&)>& visit) {
  const std::string name(controller);
  for (size_t at = 0; at < membership.size();) {
    const size_t end = std::min(membership.find('\n', at), membership.size());
    const std::string line = membership.substr(at, end - at);
    at = end + 1;
    const size_t first = line.find(':'), second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    std::string path = line.substr(second + 1);
    if (path == "/") path.clear();
    if (controllers.empty()) {
      each_above(root, path, visit);
      each_above(root + "/unified", path, visit);
    } else if (("," + controllers + ",").find("," + name + ",") != std::string::npos) {
      each_above(root + "/" + controllers, path, visit);
      if (controllers != name) each_above(root + "/" + name, path, visit);
    }
  }
}

}  // namespace gpuhash
