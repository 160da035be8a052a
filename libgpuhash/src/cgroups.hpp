// The control groups of a process, whose files say what the process may use.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace gpuhash {

/// The text of a small file; nothing if the file cannot be read.
std::string read_file(const std::string& path);

/// Calls visit with the directory of each control group that may restrict a process by `controller`, in versions 1 and 2: of
/// the group of the process and of all groups above it. `membership` is the text of /proc/<pid>/cgroup, `root` where control
/// groups are mounted. What a container does not see of its path is not there for it; then its own group is what is mounted.
void each_cgroup(const std::string& membership, const std::string& root, std::string_view controller,
                 const std::function<void(const std::string& directory)>& visit);

}  // namespace gpuhash
