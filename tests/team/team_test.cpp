// The team of threads (libgpuhash/src/team.hpp), the lock rule of forks and the default number of threads, each on its
// own: T1 to T9 are that file's. The program is built once as it is and once under ThreadSanitizer.
//
//     team_test CASE        prints what did not hold
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "libgpuhash/src/cpus.hpp"
#include "libgpuhash/src/fork.hpp"
#include "libgpuhash/src/team.hpp"

using namespace gpuhash;
using namespace std::chrono_literals;

// ---- a system of many CPUs: these functions take the place of the C library's ------------------------------------------

namespace {

constexpr int many_cpus = 3000;
constexpr int here = 1500, elsewhere = 2999;  // threads may run on these two, and seem to run on the first
constexpr int third = 2000;
std::atomic<bool> pretend{false};

std::mutex applied_lock;
std::vector<std::set<int>> applied;      // the masks that threads have asked for, in order
std::set<int> allowed{here, elsewhere};  // the mask that threads seem to have
std::set<int> from_outside;              // if not empty: what another process sets after each change

std::vector<std::set<int>> applied_masks() {
  const std::lock_guard lock(applied_lock);
  return applied;
}

}  // namespace

extern "C" int sched_getcpu() noexcept {
  unsigned cpu = 0;
  if (pretend) return here;
  return syscall(SYS_getcpu, &cpu, nullptr, nullptr) == 0 ? int(cpu) : -1;
}

extern "C" int sched_getaffinity(pid_t thread, size_t bytes, cpu_set_t* set) noexcept {
  if (pretend && 8 * bytes < size_t(many_cpus)) return errno = EINVAL, -1;
  std::memset(set, 0, bytes);
  if (!pretend) return syscall(SYS_sched_getaffinity, thread, bytes, set) < 0 ? -1 : 0;
  const std::lock_guard lock(applied_lock);
  for (const int c : allowed) CPU_SET_S(size_t(c), bytes, set);
  return 0;
}

extern "C" int sched_setaffinity(pid_t thread, size_t bytes, const cpu_set_t* set) noexcept {
  if (!pretend) return syscall(SYS_sched_setaffinity, thread, bytes, set) < 0 ? -1 : 0;
  std::set<int> cpus;
  for (int c = 0; c < int(8 * bytes); ++c)
    if (CPU_ISSET_S(size_t(c), bytes, set)) cpus.insert(c);
  const std::lock_guard lock(applied_lock);
  applied.push_back(cpus);
  allowed = from_outside.empty() ? cpus : from_outside;
  return 0;
}

namespace {

int wrong = 0;
#define EXPECT(condition)                                               \
  do {                                                                  \
    if (!(condition)) {                                                 \
      ++wrong;                                                          \
      std::printf("line %d: %s does not hold\n", __LINE__, #condition); \
    }                                                                   \
  } while (false)

template <class Body>
void run(uint32_t threads, size_t pieces, Body body) {
  parallel(threads, pieces, [](void* b, size_t piece) { (*static_cast<Body*>(b))(piece); }, &body);
}

std::string status_line(const std::string& task, const char* name) {
  std::ifstream file("/proc/self/task/" + task + "/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(name)) return line.substr(std::strlen(name));
  return {};
}

size_t workers() {
  size_t n = 0;
  DIR* tasks = opendir("/proc/self/task");
  while (const dirent* d = readdir(tasks))
    if (d->d_name[0] != '.') n += status_line(d->d_name, "Name:\t") == "gpuhash";
  closedir(tasks);
  return n;
}

template <class Condition>
bool comes_true(Condition condition) {
  for (int i = 0; i < 2000 && !condition(); ++i) std::this_thread::sleep_for(1ms);
  return condition();
}

// A piece that ends only when `wanted` threads are inside pieces at the same time.
bool meet(uint32_t threads, int wanted) {
  std::atomic<int> inside{0};
  std::atomic<bool> met{false};
  run(threads, size_t(threads), [&](size_t) {
    if (++inside == wanted) met = true;
    comes_true([&] { return met.load(); });
  });
  return met;
}

void every_piece_runs_once() {
  for (const size_t pieces : {0, 1, 2, 3, 7, 64, 1000})
    for (const uint32_t threads : {0u, 1u, 2u, 3u, 8u}) {
      std::vector<std::atomic<int>> runs(pieces);
      std::vector<int> plain(pieces);  // written by one thread, read by another: the team hands it over
      run(threads, pieces, [&](size_t piece) { ++runs[piece], plain[piece] = int(piece) + 1; });
      for (size_t i = 0; i < pieces; ++i) EXPECT(runs[i] == 1 && plain[i] == int(i) + 1);
    }
  for (int round = 0; round < 3000; ++round) {  // calls end and begin while workers are between looks
    std::atomic<size_t> sum{0};
    run(4, 5, [&](size_t piece) { sum += piece + 1; });
    EXPECT(sum == 15);
  }
}

void workers_take_part() {
  EXPECT(workers() == 0);
  EXPECT(meet(4, 4));
  EXPECT(workers() == 3);  // T4: started once, and kept
  EXPECT(meet(4, 4));
  EXPECT(meet(2, 2));
  EXPECT(workers() == 3);
}

void no_more_threads_than_asked() {
  EXPECT(meet(6, 6));
  for (const uint32_t threads : {1u, 2u, 3u}) {
    std::atomic<int> inside{0}, most{0};
    run(threads, 50, [&](size_t) {
      const int now = ++inside;
      int seen = most;
      while (now > seen && !most.compare_exchange_weak(seen, now)) {
      }
      std::this_thread::sleep_for(1ms);
      --inside;
    });
    EXPECT(most >= 1 && most <= int(threads));
  }
  EXPECT(meet(1, 1) && workers() == 5);
}

// T1: every worker is kept busy by another caller; the call returns nevertheless.
void caller_waits_for_nobody() {
  std::atomic<bool> go{false};
  std::atomic<int> inside{0};
  std::thread other([&] {
    run(3, 3, [&](size_t) {
      ++inside;
      while (!go) std::this_thread::sleep_for(1ms);
    });
  });
  EXPECT(comes_true([&] { return inside == 3; }));
  std::set<std::thread::id> who;
  run(3, 100, [&](size_t) { who.insert(std::this_thread::get_id()); });  // one thread only, or this is a race
  EXPECT(who.size() == 1 && *who.begin() == std::this_thread::get_id());
  EXPECT(!go);
  go = true;
  other.join();
}

void callers_share_the_team() {
  std::vector<std::thread> callers;
  std::atomic<size_t> sum{0};
  for (int c = 0; c < 8; ++c)
    callers.emplace_back([&] {
      for (int round = 0; round < 300; ++round) run(4, 9, [&](size_t piece) { sum += piece; });
    });
  for (auto& c : callers) c.join();
  EXPECT(sum == size_t(8) * 300 * 36);
  EXPECT(workers() == 3);
}

// T5, on the caller's thread and on a worker's.
void calls_of_a_body_run_inline() {
  std::atomic<int> pieces{0}, elsewhere{0};
  run(3, 12, [&](size_t) {
    const auto me = std::this_thread::get_id();
    run(3, 5, [&](size_t) { ++pieces, elsewhere += std::this_thread::get_id() != me; });
    std::this_thread::sleep_for(1ms);
  });
  EXPECT(pieces == 60 && elsewhere == 0);
}

// T3: who has nothing to do uses no processor time, and neither does a caller that waits for a worker's piece.
void nobody_spins() {
  EXPECT(meet(8, 8));
  std::this_thread::sleep_for(20ms);
  const auto used = [] {
    timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
  };
  double before = used();
  std::this_thread::sleep_for(300ms);
  EXPECT(used() - before < 0.05);
  const auto me = std::this_thread::get_id();
  before = used();
  std::atomic<bool> begun{false};
  run(2, 2, [&](size_t) {
    if (std::this_thread::get_id() == me) {
      comes_true([&] { return begun.load(); });
    } else {
      begun = true;
      std::this_thread::sleep_for(300ms);
    }
  });
  EXPECT(begun && used() - before < 0.1);
}

// T8: a call in two halves. The caller runs no piece between them; alone it runs all of them in the second.
void caller_has_other_work() {
  for (const uint32_t threads : {1u, 2u, 5u}) {
    for (const bool more : {false, true}) {
      const auto me = std::this_thread::get_id();
      struct state {
        uint32_t threads;
        std::thread::id me;
        std::atomic<int> pieces{0};
        std::atomic<bool> others_began{false};
        int own_before = 0, calls = 0;
      } s{threads, me};
      job* const j = start(
          threads, 40,
          [](void* c, size_t) {
            auto& t = *static_cast<state*>(c);
            if (std::this_thread::get_id() == t.me)
              t.own_before += t.calls == 0;
            else
              t.others_began = true;
            ++t.pieces;
          },
          &s, more);
      EXPECT(j != nullptr);
      if (threads > 1) comes_true([&] { return s.others_began.load(); });
      ++s.calls;
      finish(j);
      EXPECT(s.calls == 1 && s.pieces == 40 && s.own_before == 0);
      EXPECT(s.others_began == (threads > 1));
    }
  }
}

// T8: several calls at once. Workers take them in their order; the caller helps whichever it likes, piece by piece.
void several_calls_are_open() {
  struct state {
    std::mutex lock;
    std::vector<int> order;  // of the calls whose pieces ran
    std::atomic<int> mine{0};
    std::thread::id me = std::this_thread::get_id();
  } s;
  struct call {
    state* all;
    int number;
    std::atomic<int> pieces{0};
  };
  const auto body = [](void* c, size_t) {
    auto& t = *static_cast<call*>(c);
    t.all->mine += std::this_thread::get_id() == t.all->me;
    {
      const std::lock_guard lock(t.all->lock);
      t.all->order.push_back(t.number);
    }
    ++t.pieces;
  };
  call calls[3] = {{&s, 0}, {&s, 1}, {&s, 2}};
  job* jobs[3];
  for (int i = 0; i < 3; ++i) jobs[i] = start(2, 50, body, &calls[i], false);
  for (auto& c : calls) comes_true([&] { return c.pieces == 50; });  // the worker alone
  EXPECT(s.mine == 0 && std::is_sorted(s.order.begin(), s.order.end()));
  for (job* const j : jobs) {
    EXPECT(help(*j, 0) && help(*j, 9));
    finish(j);
  }
  EXPECT(s.order.size() == 150);

  call alone{&s, 3};
  job* const j = start(1, 5, body, &alone, false);
  EXPECT(!help(*j, 0) && alone.pieces == 0);
  EXPECT(!help(*j, 2) && alone.pieces == 2);
  EXPECT(help(*j, 3) && alone.pieces == 5 && s.mine == 5);
  EXPECT(help(*j, 1) && alone.pieces == 5);
  finish(j);
  finish(start(3, 0, body, &alone, true));
  EXPECT(alone.pieces == 5);
}

// T5: a call that a body starts is the body's own.
void a_body_starts_calls() {
  std::atomic<int> inner{0}, elsewhere{0};
  run(4, 8, [&](size_t) {
    struct state {
      std::atomic<int>*inner, *elsewhere;
      std::thread::id me;
    } s{&inner, &elsewhere, std::this_thread::get_id()};
    job* const j = start(
        4, 10,
        [](void* c, size_t) {
          auto& t = *static_cast<state*>(c);
          std::this_thread::sleep_for(200us);  // for which others would have time
          ++*t.inner;
          *t.elsewhere += std::this_thread::get_id() != t.me;
        },
        &s, false);
    EXPECT(!help(*j, 3));
    finish(j);
  });
  EXPECT(inner == 80 && elsewhere == 0);
}

// T9: everyone is woken, for a call in halves too, where a thread wakes two others at most.
void all_are_woken() {
  for (int round = 0; round < 3; ++round) {
    std::this_thread::sleep_for(5ms);  // they sleep
    EXPECT(meet(13, 13));
    std::this_thread::sleep_for(5ms);
    std::atomic<int> inside{0};
    job* const j = start(
        13, 13,
        [](void* c, size_t) {
          auto& all = *static_cast<std::atomic<int>*>(c);
          ++all;
          comes_true([&] { return all.load() == 13; });
        },
        &inside, false);
    EXPECT(!help(*j, 0));
    finish(j);
    EXPECT(inside == 13);
  }
}

// T6: who was told of a next call that never comes sleeps soon, all the same.
void nobody_waits_for_what_was_said() {
  const auto used = [] {
    timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
  };
  const auto nothing = [](void*, size_t) { std::this_thread::sleep_for(1ms); };
  finish(start(8, 8, nothing, nullptr, true));
  std::this_thread::sleep_for(20ms);
  const double before = used();
  std::this_thread::sleep_for(300ms);
  EXPECT(used() - before < 0.05);
  finish(start(8, 8, nothing, nullptr, true));  // and is woken for one that comes late
}

// Workers have a name, take no signals but their own faults, and the caller's mask is as before.
void workers_are_well_behaved() {
  sigset_t before, after;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  EXPECT(meet(3, 3));
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  for (int s = 1; s < 65; ++s) EXPECT(sigismember(&before, s) == sigismember(&after, s));
  int checked = 0;
  DIR* tasks = opendir("/proc/self/task");
  while (const dirent* d = readdir(tasks)) {
    if (d->d_name[0] == '.' || status_line(d->d_name, "Name:\t") != "gpuhash") continue;
    ++checked;
    const uint64_t blocked = std::stoull(status_line(d->d_name, "SigBlk:\t"), nullptr, 16);
    for (const int s : {SIGINT, SIGTERM, SIGALRM, SIGCHLD, SIGUSR1, SIGPROF, SIGHUP}) EXPECT(blocked >> (s - 1) & 1);
    for (const int s : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) EXPECT(!(blocked >> (s - 1) & 1));
  }
  closedir(tasks);
  EXPECT(checked == 2);
}

// T4: no thread is to be had.
void threads_run_out() {
  if (getuid() == 0 && setuid(65534) != 0) EXPECT(!"root may always start threads");
  const rlimit none{1, 1};
  EXPECT(setrlimit(RLIMIT_NPROC, &none) == 0);
  std::atomic<int> runs{0};
  run(4, 40, [&](size_t) { ++runs; });
  EXPECT(runs == 40 && workers() == 0);
}

int child_of(pid_t child) {
  int code = 0;
  EXPECT(waitpid(child, &code, 0) == child);
  return WIFEXITED(code) ? WEXITSTATUS(code) : 1000 + WTERMSIG(code);
}

// The child has no workers, and gets its own; the parent's work as before.
void child_starts_from_nothing() {
  EXPECT(meet(4, 4));
  for (int i = 0; i < 3; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      EXPECT(fork_generation == 1 && workers() == 0);
      EXPECT(meet(4, 4) && workers() == 3);
      const pid_t grandchild = fork();
      if (grandchild == 0) {
        alarm(10);
        EXPECT(fork_generation == 2 && meet(3, 3));
        _exit(wrong != 0);
      }
      EXPECT(child_of(grandchild) == 0);
      EXPECT(meet(4, 4));
      _exit(wrong != 0);
    }
    EXPECT(child_of(child) == 0);
    EXPECT(fork_generation == 0 && meet(4, 4));
  }
}

// Forks while other threads are in the middle of calls, and while they hold and take the library's locks.
void fork_amid_calls() {
  std::atomic<bool> stop{false};
  std::vector<std::thread> busy;
  for (int i = 0; i < 3; ++i)
    busy.emplace_back([&] {
      while (!stop) run(3, 6, [](size_t) { usleep(20); });
    });
  for (auto& lock : library_lock)
    busy.emplace_back([&] {
      while (!stop) std::lock_guard<static_mutex>{lock};
    });
  for (int i = 0; i < 100; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      for (auto& lock : library_lock) std::lock_guard<static_mutex>{lock};
      _exit(!meet(3, 3));
    }
    EXPECT(child_of(child) == 0);
  }
  stop = true;
  for (auto& b : busy) b.join();
}

// A driver that forks while it is opened does so under a lock that the forking thread has.
void fork_under_a_lock() {
  for (auto& lock : library_lock) {
    const std::lock_guard<static_mutex> hold(lock);
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      _exit(0);
    }
    EXPECT(child_of(child) == 0);
  }
  EXPECT(meet(3, 3));
}

void write_file(const std::string& path, const char* text) { std::ofstream(path) << text; }

void cgroup_quotas() {
  char folder[] = "/tmp/gpuhash-cgroup-XXXXXX";
  EXPECT(mkdtemp(folder) != nullptr);
  const std::string root = folder;
  EXPECT(std::system(
             ("cd " + root + " && mkdir -p a/b c none v1/cpu,cpuacct/x/y v1/cpuset/x/y && ln -s cpu,cpuacct v1/cpu")
                 .c_str()) == 0);
  const std::string v1 = root + "/v1";
  write_file(root + "/a/cpu.max", "250000 100000\n");
  write_file(root + "/a/b/cpu.max", "max 100000\n");
  write_file(root + "/c/cpu.max", "5000 100000\n");
  write_file(v1 + "/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  write_file(v1 + "/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  write_file(v1 + "/cpu,cpuacct/x/cpu.cfs_quota_us", "400000\n");
  write_file(v1 + "/cpu,cpuacct/x/cpu.cfs_period_us", "100000\n");
  write_file(v1 + "/cpu,cpuacct/x/y/cpu.cfs_quota_us", "120000\n");
  write_file(v1 + "/cpu,cpuacct/x/y/cpu.cfs_period_us", "50000\n");
  EXPECT(cgroup_cpus("0::/a\n", root) == 3);    // rounded up
  EXPECT(cgroup_cpus("0::/a/b\n", root) == 3);  // of the group above
  EXPECT(cgroup_cpus("0::/c\n", root) == 1);
  EXPECT(cgroup_cpus("0::/none\n", root) == 0);
  EXPECT(cgroup_cpus("0::/\n", root) == 0);
  EXPECT(cgroup_cpus("0::/gone/a\n", root) == 0);
  EXPECT(cgroup_cpus("", root) == 0 && cgroup_cpus("nonsense", root) == 0 && cgroup_cpus("0:", root) == 0);
  EXPECT(cgroup_cpus("3:cpuset:/x/y\n2:cpu,cpuacct:/x/y\n", v1) == 3);
  EXPECT(cgroup_cpus("2:cpu,cpuacct:/x\n", v1) == 4);
  EXPECT(cgroup_cpus("2:cpu,cpuacct:/\n", v1) == 0);  // -1: none
  EXPECT(cgroup_cpus("3:cpuset:/x/y\n", v1) == 0);
  write_file(root + "/cpu.max", "200000 100000");  // in a container its own group is the root
  EXPECT(cgroup_cpus("0::/\n", root) == 2);
  EXPECT(cgroup_cpus("0::/a\n", root) == 2);  // the least
  EXPECT(cgroup_cpus("0::/docker/0123\n", root) == 2);
  EXPECT(std::system(("rm -r " + root).c_str()) == 0);
}

void affinity_counts() {
  cpu_set_t all, one;
  EXPECT(sched_getaffinity(0, sizeof all, &all) == 0);
  const uint32_t before = default_threads();
  EXPECT(before >= 1 && before <= uint32_t(CPU_COUNT(&all)));
  CPU_ZERO(&one);
  for (int c = 0; c < CPU_SETSIZE; ++c)
    if (CPU_ISSET(c, &all) && CPU_COUNT(&one) == 0) CPU_SET(c, &one);
  EXPECT(sched_setaffinity(0, sizeof one, &one) == 0);
  EXPECT(default_threads() == 1);
  EXPECT(sched_setaffinity(0, sizeof all, &all) == 0);
  EXPECT(default_threads() == before);
}

// A worker that was woken on its caller's CPU leaves that one for a moment, also where CPUs have large numbers.
void many_cpus_of_a_system() {
  pretend = true;
  EXPECT(default_threads() <= 2);
  for (int call = 0; call < 1000 && applied_masks().size() < 2; ++call) {
    run(2, 2, [](size_t) { std::this_thread::sleep_for(1ms); });
    std::this_thread::sleep_for(2ms);  // the worker goes to sleep, and the next call wakes it
  }
  const auto masks = applied_masks();
  EXPECT(masks.size() >= 2);
  if (masks.size() < 2) return;
  EXPECT(masks[0] == std::set<int>{elsewhere});
  EXPECT((masks[1] == std::set<int>{here, elsewhere}));
  pretend = false;
}

// Who sets a worker's mask while it leaves its caller's CPU has that one, not the one from before.
void a_mask_that_is_set_meanwhile_stays() {
  from_outside = {here, third};
  pretend = true;
  for (int call = 0; call < 1000 && applied_masks().empty(); ++call) {
    run(2, 2, [](size_t) { std::this_thread::sleep_for(1ms); });
    std::this_thread::sleep_for(2ms);
  }
  std::this_thread::sleep_for(10ms);
  const auto masks = applied_masks();
  EXPECT(!masks.empty());
  for (const auto& mask : masks) EXPECT(mask == std::set<int>{elsewhere} || mask == std::set<int>{third});
  pretend = false;
}

const struct {
  const char* name;
  void (*run)();
} cases[] = {
    {"every_piece_runs_once", every_piece_runs_once},
    {"workers_take_part", workers_take_part},
    {"no_more_threads_than_asked", no_more_threads_than_asked},
    {"caller_waits_for_nobody", caller_waits_for_nobody},
    {"callers_share_the_team", callers_share_the_team},
    {"calls_of_a_body_run_inline", calls_of_a_body_run_inline},
    {"nobody_spins", nobody_spins},
    {"caller_has_other_work", caller_has_other_work},
    {"several_calls_are_open", several_calls_are_open},
    {"a_body_starts_calls", a_body_starts_calls},
    {"all_are_woken", all_are_woken},
    {"nobody_waits_for_what_was_said", nobody_waits_for_what_was_said},
    {"workers_are_well_behaved", workers_are_well_behaved},
    {"threads_run_out", threads_run_out},
    {"child_starts_from_nothing", child_starts_from_nothing},
    {"fork_amid_calls", fork_amid_calls},
    {"fork_under_a_lock", fork_under_a_lock},
    {"cgroup_quotas", cgroup_quotas},
    {"affinity_counts", affinity_counts},
    {"many_cpus_of_a_system", many_cpus_of_a_system},
    {"a_mask_that_is_set_meanwhile_stays", a_mask_that_is_set_meanwhile_stays},
};

}  // namespace

int main(int argc, char** argv) {
  for (const auto& c : cases)
    if (argc == 2 && std::strcmp(c.name, argv[1]) == 0) {
      c.run();
      std::printf("%d did not hold\n", wrong);
      return wrong != 0;
    }
  for (const auto& c : cases) std::printf("%s\n", c.name);
  return 2;
}
