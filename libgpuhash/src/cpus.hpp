// How many threads a batch on the CPU gets when the caller does not say.
#pragma once

#include <cstdint>
#include <string>

namespace gpuhash {

/// The CPUs that the cgroups of a process grant it by their quotas (versions 1 and 2, the least of a group and those above
/// it), rounded up; 0 if there is no quota. `membership` is the text of /proc/<pid>/cgroup, `root` where cgroups are mounted.
uint32_t cgroup_cpus(const std::string& membership, const std::string& root);

/// The CPUs that this process may use: those that the calling thread may run on, or fewer if its cgroup has a quota.
/// Containers see all CPUs of their machine; what they may use is less. A quota that changes is noticed within a second.
uint32_t default_threads();

}  // namespace gpuhash
