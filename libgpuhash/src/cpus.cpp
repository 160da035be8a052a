// How many threads a batch gets: see cpus.hpp.
#include "libgpuhash/src/cpus.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>

#include "libgpuhash/src/cgroups.hpp"

namespace gpuhash {
namespace {

constexpr double unlimited = std::numeric_limits<double>::infinity();

// CPUs of one group, from the files of its directory.
double quota_of(const std::string& directory) {
  double quota = 0, period = 0;
  const std::string both = read_file(directory + "/cpu.max");  // version 2: "150000 100000", or "max 100000"
  if (!both.empty()) {
    if (std::sscanf(both.c_str(), "%lf %lf", &quota, &period) != 2) return unlimited;
  } else if (std::sscanf(read_file(directory + "/cpu.cfs_quota_us").c_str(), "%lf", &quota) != 1 ||
             std::sscanf(read_file(directory + "/cpu.cfs_period_us").c_str(), "%lf", &period) != 1) {
    return unlimited;
  }
  return quota > 0 && period > 0 ? quota / period : unlimited;  // version 1 says -1 for none
}

uint32_t cpus_of_affinity() {
  const size_t cpus = cpu_mask().count();
  return uint32_t(std::max(1l, cpus != 0 ? long(cpus) : sysconf(_SC_NPROCESSORS_ONLN)));
}

// Reading the files takes longer than making a small table does.
uint32_t recent_cgroup_cpus() {
  static constinit std::atomic<int64_t> read_at{0};
  static constinit std::atomic<uint32_t> cpus{0};
  const int64_t now =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count();
  if (const int64_t then = read_at.load(std::memory_order_acquire); then == 0 || now - then >= 1000) {
    cpus.store(cgroup_cpus(read_file("/proc/self/cgroup"), "/sys/fs/cgroup"), std::memory_order_relaxed);
    read_at.store(std::max<int64_t>(now, 1), std::memory_order_release);
  }
  return cpus.load(std::memory_order_relaxed);
}

constinit std::atomic<uint32_t> chosen_threads{0};

// A number of threads in the environment; 0: there is none.
uint32_t threads_of(const char* variable) {
  const char* const given = std::getenv(variable);
  if (given == nullptr) return 0;
  char* end = nullptr;
  const unsigned long threads = std::strtoul(given, &end, 10);
  return end != given && *end == 0 && threads <= most_threads ? uint32_t(threads) : 0;
}

}  // namespace

cpu_mask::cpu_mask() {
  for (size_t most = 1024; most <= size_t{1} << 20; most *= 2) {  // more CPUs than the mask has room for are an error
    set_.reset(CPU_ALLOC(most));
    bytes_ = CPU_ALLOC_SIZE(most);
    if (set_ == nullptr || sched_getaffinity(0, bytes_, set_.get()) == 0) return;
  }
  set_.reset();
}

uint32_t cgroup_cpus(const std::string& membership, const std::string& root) {
  double least = unlimited;
  each_cgroup(membership, root, "cpu", [&](const std::string& group) { least = std::min(least, quota_of(group)); });
  return std::isfinite(least) ? uint32_t(std::clamp(std::ceil(least - 1e-9), 1.0, 1e6)) : 0;
}

void set_default_threads(uint32_t threads) { chosen_threads.store(threads, std::memory_order_relaxed); }

uint32_t default_threads() {
  static const uint32_t own = threads_of("GPUHASH_THREADS"), of_openmp = threads_of("OMP_NUM_THREADS");
  if (const uint32_t chosen = chosen_threads.load(std::memory_order_relaxed)) return chosen;
  if (own != 0) return own;
  uint32_t cpus = cpus_of_affinity();
  if (of_openmp != 0) cpus = std::min(cpus, of_openmp);
  try {
    if (const uint32_t granted = recent_cgroup_cpus()) cpus = std::min(cpus, granted);
  } catch (const std::bad_alloc&) {  // no memory for a path: then the affinity decides
  }
  return cpus;
}

}  // namespace gpuhash
