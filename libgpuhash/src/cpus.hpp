// How many threads a batch on the CPU gets when the caller does not say.
#pragma once

#include <sched.h>

#include <cstdint>
#include <memory>
#include <string>

namespace gpuhash {

/// The CPUs that the cgroups of a process grant it by their quotas (versions 1 and 2, the least of a group and those above
/// it), rounded up; 0 if there is no quota. `membership` is the text of /proc/<pid>/cgroup, `root` where cgroups are mounted.
uint32_t cgroup_cpus(const std::string& membership, const std::string& root);

/// The CPUs that the calling thread may run on, however many the system has; none where it does not say.
class cpu_mask {
 public:
  cpu_mask();

  size_t count() const { return set_ == nullptr ? 0 : size_t(CPU_COUNT_S(bytes_, set_.get())); }
  bool has(int cpu) const { return set_ != nullptr && CPU_ISSET_S(size_t(cpu), bytes_, set_.get()) != 0; }
  bool is(const cpu_mask& other) const {
    return set_ != nullptr && bytes_ == other.bytes_ && CPU_EQUAL_S(bytes_, set_.get(), other.set_.get()) != 0;
  }
  void add(int cpu) { CPU_SET_S(size_t(cpu), bytes_, set_.get()); }
  void remove(int cpu) { CPU_CLR_S(size_t(cpu), bytes_, set_.get()); }
  /// Have the calling thread run on these only.
  bool apply() const { return sched_setaffinity(0, bytes_, set_.get()) == 0; }

 private:
  struct give_back {
    void operator()(cpu_set_t* set) const { CPU_FREE(set); }
  };
  std::unique_ptr<cpu_set_t, give_back> set_;
  size_t bytes_ = 0;
};

/// The CPUs that this process may use: those that the calling thread may run on, or fewer if its cgroup has a quota.
/// Containers see all CPUs of their machine; what they may use is less. A quota that changes is noticed within a second.
/// Where a default was set, for the process or in its environment, it is that instead: GPUHASH_THREADS, or fewer where
/// OMP_NUM_THREADS says so, by which schedulers share a machine among processes.
uint32_t default_threads();

/// What a thread does between two looks at what another one writes: 10 to 50 ns.
inline void pause_a_little() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");  // takes about as long as a pause of x86; yield takes no time
#endif
}

constexpr uint32_t most_threads = 4096;

/// The default of the process; 0: the environment and the CPUs decide.
void set_default_threads(uint32_t threads);

}  // namespace gpuhash
