// Memory of the host by files that say what there is: memory_test CASE, with GPUHASH_TEST_MEMORY naming an empty folder.
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "libgpuhash/src/memory.hpp"
#include "libgpuhash/src/team.hpp"
#include "libgpuhash/tile/sizes.hpp"

using namespace gpuhash;

namespace {

int failures = 0;
#define EXPECT(condition) \
  if (!(condition)) ++failures, std::fprintf(stderr, "%s:%d: expected %s\n", __FILE__, __LINE__, #condition)

const std::string root = std::getenv("GPUHASH_TEST_MEMORY");
constexpr uint64_t KiB = 1024, MiB = 1024 * KiB;
// Of test_memory.py.
constexpr uint64_t checked_from = gpuhash::tunable("memory_checked", uint64_t{0});
constexpr size_t step = gpuhash::tunable("memory_step", size_t{0});
static_assert(checked_from && step);

void write(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(root + path).parent_path());
  std::ofstream(root + path) << text;
}
void system_has(uint64_t bytes, uint64_t swap = 0) {
  write("/proc/meminfo", "MemTotal:       99999999 kB\nMemAvailable:   " + std::to_string(bytes / KiB) +
                             " kB\nSwapTotal: 9 kB\nSwapFree:        " + std::to_string(swap / KiB) + " kB\n");
}
bool says(const memory_room& room, const char* what) { return std::strstr(room.limit, what) != nullptr; }
uint64_t available(bool pinned = false) { return available_memory(pinned, root).bytes; }

struct mapping {
  explicit mapping(size_t n) : bytes(n) {
    p = static_cast<char*>(mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  }
  ~mapping() { munmap(p, bytes); }
  size_t there() const {  // bytes that have come into being
    std::vector<unsigned char> pages((bytes + 4095) / 4096);
    mincore(p, bytes, pages.data());
    return 4096 * size_t(std::count_if(pages.begin(), pages.end(), [](unsigned char c) { return c & 1; }));
  }
  size_t bytes;
  char* p;
};

// What happens when a step is done, and what the system says of MADV_POPULATE_WRITE.
void (*after_step)() = nullptr;
uint32_t most_threads = 0;
int populate_error = 0;
int populated = 0;

gpuhash_error error = GPUHASH_ERROR_INIT;
bool commits(mapping& m) {
  error = GPUHASH_ERROR_INIT;
  return commit_memory(m.p, m.bytes, 3, &error) == GPUHASH_OK;
}
bool checks(uint64_t bytes, bool pinned = false) {
  error = GPUHASH_ERROR_INIT;
  return check_memory(bytes, pinned, &error) == GPUHASH_OK;
}
bool message_has(const char* what) {
  return error.code == GPUHASH_NO_MEMORY && std::strstr(error.message, what) != nullptr;
}

// ---- what there is --------------------------------------------------------------------------------------------------

void the_system() {
  EXPECT(available() == ~uint64_t{0});  // nothing is known
  EXPECT(checks(~uint64_t{0}));
  system_has(100 * MiB, 50 * MiB);
  EXPECT(available() == 150 * MiB);
  EXPECT(says(available_memory(false, root), "the system has 157286400 available, swap space included"));
  EXPECT(available(true) == 100 * MiB);
  EXPECT(says(available_memory(true, root), "the system has 104857600 available"));
  EXPECT(!says(available_memory(true, root), "swap"));
  EXPECT(checks(120 * MiB) && !checks(120 * MiB, true));
  EXPECT(message_has("125829120 bytes of pinned host memory cannot be had: the system has 104857600 available"));
  EXPECT(!checks(150 * MiB) && checks(149 * MiB));  // page tables
  EXPECT(!checks(~uint64_t{0}) && !checks(uint64_t{1} << 63));
  write("/proc/meminfo", "MemTotal: 9 kB\nMemAvailable: nonsense\n");
  EXPECT(available() == ~uint64_t{0});
}

void groups_of_version_2() {
  const std::string groups = "/sys/fs/cgroup";
  system_has(1000 * MiB, 100 * MiB);
  write("/proc/self/cgroup", "0::/a/b\n");
  write(groups + "/a/b/memory.max", "max\n");
  write(groups + "/a/memory.max", "209715200\n");  // of the group above
  write(groups + "/a/memory.current", "167772160\n");
  write(groups + "/a/memory.swap.max", "0\n");
  EXPECT(available() == 40 * MiB);
  EXPECT(says(available_memory(false, root),
              "the control group /sys/fs/cgroup/a, whose limit is 209715200, has 41943040 left"));
  // Caches are given up.
  write(groups + "/a/memory.stat",
        "anon 7\nfile 99999999999\ninactive_anon 5\nactive_anon 6\ninactive_file 1048576\nactive_file 2097152\n"
        "slab_reclaimable 4194304\n");
  EXPECT(available() == 47 * MiB);
  write(groups + "/a/memory.swap.max", "max\n");
  EXPECT(available() == 147 * MiB && available(true) == 47 * MiB);
  write(groups + "/a/memory.swap.max", "20971520\n");
  write(groups + "/a/memory.swap.current", "10485760\n");
  EXPECT(available() == 57 * MiB);
  write(groups + "/a/b/memory.max", "1048576\n");  // the least of all
  EXPECT(available(true) == 1 * MiB);
  write(groups + "/a/b/memory.current", "2097152\n");  // its limit was lowered
  EXPECT(available(true) == 0 && !checks(checked_from, true));
  EXPECT(message_has("/sys/fs/cgroup/a/b, whose limit is 1048576, has "));
  write("/proc/self/cgroup", "0::/docker/0123\n");  // a container, whose own group is the root
  EXPECT(available() == 1100 * MiB);
  write(groups + "/memory.max", "314572800\n");
  write(groups + "/memory.swap.max", "0\n");
  write(groups + "/memory.current", "4096\n");
  EXPECT(available() == 300 * MiB - 4096);
}

void groups_of_version_1() {
  const std::string groups = "/sys/fs/cgroup/memory";
  system_has(1000 * MiB, 100 * MiB);
  write("/proc/self/cgroup", "9:cpu,cpuacct:/z\n4:memory:/x/y\n0::/\n");
  write(groups + "/memory.limit_in_bytes", "9223372036854771712\n");  // none
  write(groups + "/memory.usage_in_bytes", "4096\n");
  write(groups + "/x/memory.limit_in_bytes", "209715200\n");
  write(groups + "/x/memory.usage_in_bytes", "104857600\n");
  write(groups + "/x/memory.stat",
        "inactive_file 9\nactive_file 9\ntotal_inactive_file 1048576\ntotal_active_file 1048576\n");
  write(groups + "/x/y/memory.limit_in_bytes", "1073741824\n");
  write(groups + "/x/y/memory.usage_in_bytes", "0\n");
  EXPECT(available(true) == 102 * MiB);
  EXPECT(available() == 202 * MiB);
  EXPECT(says(available_memory(false, root), "/sys/fs/cgroup/memory/x, whose limit is 209715200"));
  write(groups + "/x/memory.memsw.limit_in_bytes", "230686720\n");  // memory and swap space together: 220 MiB
  write(groups + "/x/memory.memsw.usage_in_bytes", "125829120\n");
  EXPECT(available() == 102 * MiB);
  write("/proc/self/cgroup", "9:cpu,cpuacct:/x\n3:cpuset:/x\n");
  EXPECT(available() == 1100 * MiB);
}

// ---- blocks ---------------------------------------------------------------------------------------------------------

void small_ones_are_counted() {
  system_has(0);
  EXPECT(checks(checked_from / 4) && checks(checked_from / 4) && checks(checked_from / 4));
  EXPECT(!checks(checked_from / 4));                                           // as many as a large one
  EXPECT(!checks(4096) && message_has("4096 bytes of memory cannot be had"));  // until one passes
  system_has(100 * MiB);
  EXPECT(checks(4096));
  system_has(0);
  mapping m(checked_from - 4096);
  EXPECT(commits(m) && m.there() == 0);
  EXPECT(!commits(m) && m.there() == 0);
  EXPECT(!checks(checked_from));
  system_has(100 * MiB);
  EXPECT(checks(checked_from) && commits(m) && m.there() == 0);
}

void large_ones_come_into_being() {
  system_has(16 * step);
  mapping small(step);  // beside what there is
  EXPECT(commits(small) && small.there() == 0 && checks(15 * step));
  system_has(16 * step - 4096);
  EXPECT(commits(small) && small.there() == step);
  system_has(30 * MiB);
  mapping m(2 * step + 3 * 4096);
  EXPECT(commits(m) && m.there() == m.bytes);
  EXPECT(most_threads == 3 && populated > 3);
  mapping part(3 * step);
  part.bytes -= 2 * 100;
  part.p += 100;  // not whole pages: the first and the last one are not touched
  EXPECT(commits(part));
  part.p -= 100, part.bytes += 200;
  EXPECT(part.there() == part.bytes - 2 * 4096);
  system_has(step + step / 256);
  EXPECT(checks(step));  // nothing is kept for those two
  mapping large(step);
  system_has(large.bytes - 4096);
  EXPECT(!commits(large) && large.there() == 0);
  EXPECT(commit_memory(large.p, large.bytes, 1, nullptr) == GPUHASH_NO_MEMORY);
}

void others_take_memory_meanwhile() {
  system_has(30 * MiB);
  mapping m(4 * step);
  after_step = [] { system_has(3 * step - 4096); };  // less than the rest
  EXPECT(!commits(m) && m.there() == step);
  EXPECT(message_has((std::to_string(3 * step) + " bytes of memory cannot be had").c_str()));
  after_step = [] { system_has(0); };
  system_has(30 * MiB);
  EXPECT(!commits(m));
  after_step = nullptr;
  system_has(30 * MiB);
  EXPECT(checks(29 * MiB) && commits(m) && checks(29 * MiB));  // nothing is kept for what was refused
}

void what_is_granted_is_not_granted_twice() {
  static bool refused, refused_too, granted, told;
  system_has(8 * step);
  mapping m(4 * step);
  after_step = [] {  // of the first step: 3 are to come, and the system still says that it has 8
    refused |= !checks(6 * step);
    told |= message_has((", of which other threads are about to use " + std::to_string(4 * step)).c_str()) ||
            message_has((", of which other threads are about to use " + std::to_string(3 * step)).c_str());
    granted |= checks(2 * step);
    static mapping other(6 * step);
    static bool asked = false;  // once
    refused_too |= !std::exchange(asked, true) && !commits(other) && other.there() == 0;
  };
  EXPECT(commits(m) && refused && refused_too && granted && told);
  after_step = nullptr;
  EXPECT(checks(7 * step));  // and nothing is left of it
  after_step = [] {          // a child has none of the threads
    const pid_t child = fork();
    if (child == 0) forget_grants(), _exit(checks(7 * step) ? 0 : 1);
    int status = -1;
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
  };
  EXPECT(commits(m));
}

void the_system_refuses() {
  system_has(30 * MiB);
  mapping m(3 * step);
  populate_error = EINVAL;  // a system older than Linux 5.14
  EXPECT(commits(m) && m.there() == m.bytes);
  mapping other(3 * step);
  populate_error = ENOMEM;
  EXPECT(!commits(other) && other.there() == 0);
  EXPECT(message_has("bytes of memory cannot be had: the system has refused them"));
  populate_error = 0;
  EXPECT(checks(29 * MiB));
}

void the_default_resource() {
  const auto take = [](size_t bytes) { return host_memory.allocate(nullptr, bytes, 128, nullptr); };
  system_has(2 * checked_from);
  void* const p = take(checked_from);
  EXPECT(p != nullptr);
  EXPECT(take(2 * checked_from) == nullptr);
  EXPECT(take(~size_t{0}) == nullptr && take(~size_t{0} / 2) == nullptr && take(size_t{1} << 62) == nullptr);
  host_memory.deallocate(nullptr, p, checked_from, 128, nullptr);
}

const struct {
  const char* name;
  void (*run)();
} cases[] = {
    {"the_system", the_system},
    {"groups_of_version_2", groups_of_version_2},
    {"groups_of_version_1", groups_of_version_1},
    {"small_ones_are_counted", small_ones_are_counted},
    {"large_ones_come_into_being", large_ones_come_into_being},
    {"others_take_memory_meanwhile", others_take_memory_meanwhile},
    {"what_is_granted_is_not_granted_twice", what_is_granted_is_not_granted_twice},
    {"the_system_refuses", the_system_refuses},
    {"the_default_resource", the_default_resource},
};

}  // namespace

void gpuhash::parallel(uint32_t threads, size_t pieces, void (*body)(void*, size_t), void* context) {
  most_threads = std::max(most_threads, threads);
  for (size_t i = 0; i < pieces; ++i) body(context, i);
  if (after_step != nullptr) after_step();
}

extern "C" int madvise(void* p, size_t bytes, int advice) noexcept {
  constexpr int populate_write = 23;
  populated += advice == populate_write;
  if (advice == populate_write && populate_error != 0) return errno = populate_error, -1;
  return int(syscall(SYS_madvise, p, bytes, advice));
}

int main(int argc, char** argv) {
  for (const auto& c : cases)
    if (argc != 2)
      std::puts(c.name);
    else if (std::strcmp(argv[1], c.name) == 0)
      return c.run(), failures != 0;
  return argc != 2 ? 0 : 2;
}
