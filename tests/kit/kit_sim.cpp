// The kit under deterministic simulation: kit_sim STRUCTURE DEVICE PLAN FIRST LAST [options]
//
//   STRUCTURE  hive, linear_probe, skiplist, slab_hash, stadium
//   DEVICE     cuda (the fake one), cpu
//   PLAN       plain; memory: some allocations fail; faults: a call of the device fails (cuda)
//   FIRST LAST seeds
//   --at I     memory, faults: the I-th allocation or call is the first to fail; every one in turn if I is 'all'
//   --trace    prints the calls of each run
//   --mistake N  activates a planted one (mistakes.py)
//   --record   says of each seed to the places of which planted mistakes it came
//   --seeds    of FIRST to LAST only these, as in ,3,17,
//   --all      goes on after a violation
//   --steps N  goes on until N scheduler steps are done
//
// A violation prints the command that repeats it, and ends the program with status 1.
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <new>

#include "libgpuhash/kit/team.hpp"
#include "plugins/hive/table.hpp"
#include "plugins/linear_probe/structure.hpp"
#include "plugins/skiplist/table.hpp"
#include "plugins/slab_hash/table.hpp"
#include "plugins/stadium/structure.hpp"
#include "tests/kit/workload.hpp"

namespace gpuhash {

template <class F>
struct skiplist_under_test {
  static bool look(const table& t, uint64_t* said, uint64_t* there) {
    const auto* const s = dynamic_cast<const skiplist_table<F>*>(&t);
    if (!s) return false;
    const uint64_t all = s->pool_.layout.capacity, taken = *kit_sim::the_device.real(s->pool_.layout.taken);
    *said = s->chunks_.left();
    *there = taken < all ? all - taken : 0;
    return true;
  }
};
namespace kit_sim {
void free_chunks(const table& t, uint64_t* said, uint64_t* there) {
  if (!skiplist_under_test<pair32>::look(t, said, there)) skiplist_under_test<pair64>::look(t, said, there);
}
}  // namespace kit_sim

const gpuhash_host_api* host = nullptr;
// One thread, which is the simulated one. How equal keys of a block are joined is drawn.
constinit host_services host_team = {[](uint32_t, size_t pieces, void (*body)(void*, size_t), void* context) {
                                       for (size_t piece = 0; piece < pieces; ++piece) body(context, piece);
                                     },
                                     [] { return uint32_t(1); }, host_services::as_needed};
constinit thread_local uint32_t threads_of_call = 1;

namespace kit_sim {
namespace {

gpuhash_status fail(gpuhash_error* err, gpuhash_status code, const char* format, ...) {
  if (!err) return code;
  va_list args;
  va_start(args, format);
  vsnprintf(err->message, sizeof(err->message), format, args);
  va_end(args);
  err->code = code;
  return code;
}

// The caller's memory resource.
gpuhash_memory resource = {
    sizeof(gpuhash_memory), nullptr,
    [](void*, size_t bytes, size_t, void* stream) -> void* {
      void* p = nullptr;
      return the_device.allocate(&p, bytes, stream, device::owner::resource, "the resource's allocate") ? nullptr : p;
    },
    [](void*, void* p, size_t, size_t, void* stream) {
      the_device.release(p, stream, device::owner::resource, "the resource's deallocate");
    }};

template <class F>
table* make_one(const run_options& r, const table_options& o, gpuhash_status* status, gpuhash_error* err) {
  if (r.hive) {
    hive_options ho;
    ho.bucket = 8 * (o.row < 2   ? 1
                     : o.row < 8 ? 2
                                 : 4),
    ho.ways = 2 + o.by_mask, ho.stash = o.probe_limit < 3000 ? 0 : 1.0 / 64;
    ho.contract = o.config.seed % 4 ? 0.25 : 0;
    auto t = std::make_unique<hive<F>>(table::setup{o.config, &fake_api, fake_engines<hive_memory>()}, ho);
    *status = t->create(err);
    return *status == GPUHASH_OK ? t.release() : nullptr;
  }
  if (r.slab) {
    slab_options so;
    so.buckets = o.buckets, so.slab_bytes = o.slab_bytes, so.light = o.light, so.duplicates = o.duplicates;
    auto t = std::make_unique<slab_hash_table<F>>(table::setup{o.config, &fake_api, fake_engines<slab_memory>()}, so);
    *status = t->create(err);
    return *status == GPUHASH_OK ? t.release() : nullptr;
  }
  if constexpr (F::has_value)
    if (r.skip) {
      skip_options so;
      so.chunk = o.row < 2 ? 8 : o.row < 8 ? 16 : 32;
      so.p_chunk = o.by_mask ? 0.5 : 1.0;
      so.merge = o.probe_limit == 128 ? 0.5 : 1.0 / 3;
      so.order = o.order;
      so.build = o.build;
      auto t = std::make_unique<skiplist_table<F>>(table::setup{o.config, &fake_api, fake_skiplist_engines()}, so);
      *status = t->create(err);
      return *status == GPUHASH_OK ? t.release() : nullptr;
    }
  if (r.stadium) {
    stadium_options so;
    so.log_bits = o.log_bits, so.probe_limit = o.probe_limit == 128 ? 16 : 4096;
    so.log_line = u32(__builtin_ctzll(o.row));
    so.pinned = r.cuda && o.row >= 4;
    auto t = std::make_unique<stadium>(table::setup{o.config, &fake_api, fake_stadium_engines()}, so);
    *status = t->create(err);
    return *status == GPUHASH_OK ? t.release() : nullptr;
  }
  linear_options lo;
  lo.row = o.row, lo.by_mask = o.by_mask, lo.probe_limit = o.probe_limit;
  auto t = std::make_unique<flat_table<linear_structure, F>>(
      table::setup{o.config, &fake_api, fake_engines<linear_memory>()}, lo);
  *status = t->create(err);
  return *status == GPUHASH_OK ? t.release() : nullptr;
}

table_options draw_options(const run_options& r) {
  world& w = the_world;
  table_options o;
  gpuhash_config& c = o.config;
  c.struct_size = sizeof(c);
  c.device = {r.cuda ? GPUHASH_CUDA : GPUHASH_CPU, r.cuda ? the_device.ordinal : 0};
  static constexpr uint32_t widths[][2] = {{8, 8}, {8, 8}, {4, 4}, {4, 4}, {4, 0}, {8, 0}, {8, 4}, {4, 8}};
  const auto& width = widths[w.below(8)];
  c.key_bytes = width[0], c.value_bytes = width[1];
  c.capacity = w.one_in(3) ? 0 : w.below(200);
  c.grow = w.below(8) != 0;
  c.threads = 1;
  c.seed = 1 + w.random();
  static constexpr uint32_t primes[] = {97, 599, 3001};
  o.keys = primes[w.below(3)];
  o.threads = w.one_in(2) ? 1 : 2 + w.below(3);
  if (!r.cuda && w.below(4)) o.threads = 2 + w.below(4);
  o.streams = r.cuda ? 1 + w.below(3) : 1;
  o.resource = w.one_in(4);
  if (o.resource) c.memory = &resource;
  if (r.slab) {
    static constexpr double loads[] = {1.0, 1.0, 0.5, 2.0};
    c.max_load_factor = loads[w.below(4)];
    if (w.one_in(3)) o.buckets = 1 + w.below(40);
    o.slab_bytes = 64u << w.below(3);
    const bool refuses = r.what == plan::memory;
    o.light = w.one_in(refuses ? 2 : 4);
    o.duplicates = w.one_in(4);
    if (w.one_in(refuses ? 2 : 3)) {  // many keys in few buckets of small slabs: the heap is soon full
      c.key_bytes = c.value_bytes = 8;
      o.buckets = refuses && w.one_in(2) ? 0 : 1 + w.below(100);
      o.slab_bytes = 64;
      o.keys = 3001;
    }
  } else {
    static constexpr double loads[] = {0.8, 0.8, 0.5, 1.0};
    c.max_load_factor = loads[w.below(4)];
    if (w.one_in(2)) o.probe_limit = 128;
    o.row = 1u << w.below(4);
    o.by_mask = w.one_in(4);
    if (r.stadium) o.log_bits = 1 + w.below(3);
    if (r.skip) {
      o.order = w.below(2);
      o.build = w.below(3);
    }
  }
  return o;
}

std::string told(const run_options& r, const table_options& o) {
  char text[256];
  snprintf(text, sizeof(text),
           "keys of %u bytes, values of %u, capacity %llu, load %.1f, grow %u, threads %u, streams %u%s",
           o.config.key_bytes, o.config.value_bytes, (unsigned long long)o.config.capacity, o.config.max_load_factor,
           o.config.grow, o.threads, o.streams, o.resource ? ", resource" : "");
  std::string s = text;
  if (r.slab)
    snprintf(text, sizeof(text), ", buckets %llu, slab_bytes %u%s%s", (unsigned long long)o.buckets, o.slab_bytes,
             o.light ? ", light" : "", o.duplicates ? ", duplicates" : "");
  else
    snprintf(text, sizeof(text), ", row %llu, probe_limit %llu%s", (unsigned long long)o.row,
             (unsigned long long)o.probe_limit, o.by_mask ? ", mask" : "");
  if (r.skip) s += ", order " + std::to_string(o.order) + ", build " + std::to_string(o.build);
  return s + text;
}

struct figures {
  uint64_t seeds = 0, steps = 0, calls = 0, elements = 0, failed = 0, faults = 0, violations = 0;
};

std::string replay;  // the command that repeats the run
run_options running;
table_options running_options;

void on_signal(int number) {
  char text[512];
  const int n = snprintf(text, sizeof(text), "violation: signal %d%s\nreplay: %s\n", number,
                         number == SIGSEGV     ? " (the host touches device memory, or memory that is not there)"
                         : number == SIGVTALRM ? " (a call does not return)"
                                               : "",
                         replay.c_str());
  if (write(2, text, size_t(n)) < 0) _exit(3);
  _exit(1);
}

// False: it ended with a violation.
bool run_seed(const run_options& r, uint64_t seed, const std::string& command, figures& sum) {
  running = r;
  replay = command;
  const itimerval most{{0, 0}, {60, 0}};  // of the processor's time, of which a run takes some milliseconds
  setitimer(ITIMER_VIRTUAL, &most, nullptr);
  uint64_t faults = 0;
  const bool good = the_world.run(seed, [&] {
    const table_options o = running_options = draw_options(r);
    host_team.join = decltype(host_team.join)(the_world.below(3));
    workload w(r, o);
    w.go();
    sum.calls += w.calls, sum.elements += w.elements, sum.failed += w.failed_elements;
  });
  faults = the_device.injected + the_device.injected_memory;
  ++sum.seeds, sum.steps += the_world.steps, sum.faults += faults;
  if (good) return true;
  ++sum.violations;
  fprintf(stderr, "violation: %s\n  table: %s\n  replay: %s\n", the_world.violations.back().c_str(),
          told(r, running_options).c_str(), command.c_str());
  return false;
}

}  // namespace

table* make_table(const run_options& r, const table_options& o, gpuhash_status* status, gpuhash_error* err) {
  const bool narrow = o.config.key_bytes == 4 && o.config.value_bytes <= 4;
  if (o.config.value_bytes == 0 && !r.skip)
    return o.config.key_bytes == 4 ? make_one<set32>(r, o, status, err) : make_one<set64>(r, o, status, err);
  return narrow ? make_one<pair32>(r, o, status, err) : make_one<pair64>(r, o, status, err);
}

void tell_places(uint64_t seed) {
  printf("seed %llu: came to", (unsigned long long)seed);
  for (size_t i = 0; i < sizeof(came_to); ++i)
    if (came_to[i]) printf(" %zu", i);
  printf("\n");
}

int simulate(int argc, char** argv) {
  if (argc < 6) {
    fprintf(stderr,
            "usage: kit_sim hive|linear_probe|skiplist|slab_hash|stadium cuda|cpu plain|memory|faults FIRST LAST [--at "
            "I|all] "
            "[--steps N] [--all] [--trace]\n");
    return 2;
  }
  static gpuhash_host_api api{};
  api.fail = fail;
  static constexpr gpuhash_memory systems{sizeof(gpuhash_memory), nullptr, nullptr,
                                          nullptr};  // which no batch uses here
  api.host_memory = &systems;
  api.struct_size = sizeof(api);
  api.check_memory = [](uint64_t bytes, uint32_t pinned, gpuhash_error* err) {
    const bool of_table = !the_device.cuda || pinned;  // and not the records of check and stats, which are of the host
    const bool lacking = of_table && the_device.out_of_memory(bytes);
    return lacking ? fail(err, GPUHASH_NO_MEMORY, "memory is out") : gpuhash_status(GPUHASH_OK);
  };
  api.commit_memory = [](void*, size_t bytes, uint32_t, gpuhash_error* err) {
    return host->check_memory(bytes, 0, err);
  };
  host = &api;
  run_options r;
  r.slab = !strcmp(argv[1], "slab_hash");
  r.hive = !strcmp(argv[1], "hive");
  r.stadium = !strcmp(argv[1], "stadium");
  r.skip = !strcmp(argv[1], "skiplist");
  r.cuda = !strcmp(argv[2], "cuda");
  r.what = !strcmp(argv[3], "memory") ? plan::memory : !strcmp(argv[3], "faults") ? plan::faults : plan::plain;
  const uint64_t first = strtoull(argv[4], nullptr, 10), last = strtoull(argv[5], nullptr, 10);
  bool each = false, go_on = false, records = false;
  const char* only = nullptr;
  uint64_t at = 0, steps = 0;
  for (int i = 6; i < argc; ++i) {
    if (!strcmp(argv[i], "--trace")) the_world.trace = true;
    if (!strcmp(argv[i], "--all")) go_on = true;
    if (!strcmp(argv[i], "--mistake")) planted = atoi(argv[++i]);
    if (!strcmp(argv[i], "--record")) records = true;
    if (!strcmp(argv[i], "--seeds")) only = argv[++i];
    if (!strcmp(argv[i], "--steps")) steps = strtoull(argv[++i], nullptr, 10);
    if (!strcmp(argv[i], "--at")) {
      each = !strcmp(argv[++i], "all");
      at = each ? 0 : strtoull(argv[i], nullptr, 10);
    }
  }
  for (int s : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGVTALRM}) {
    static char stack[64 << 10];
    stack_t alternative{stack, 0, sizeof(stack)};
    sigaltstack(&alternative, nullptr);
    struct sigaction action{};
    action.sa_handler = on_signal;
    action.sa_flags = SA_ONSTACK;
    sigaction(s, &action, nullptr);
  }
  figures sum;
  const std::string command = std::string(argv[0]) + ' ' + argv[1] + ' ' + argv[2] + ' ' + argv[3] + ' ';
  for (uint64_t seed = first; seed <= last && (!steps || sum.steps < steps); ++seed) {
    if (only && !strstr(only, (',' + std::to_string(seed) + ',').c_str())) continue;
    const std::string this_one = command + std::to_string(seed) + ' ' + std::to_string(seed);
    memset(came_to, 0, sizeof(came_to));
    for (uint64_t i = each ? 1 : at;; ++i) {
      r.at = i;
      const uint64_t faults = sum.faults;
      const bool good = run_seed(r, seed, this_one + (i ? " --at " + std::to_string(i) : "") + " --trace", sum);
      if (!good && !go_on) return 1;
      if (!each || sum.faults == faults) break;  // no such allocation or call any more
    }
    if (records) tell_places(seed);
  }
  printf("%s %s %s: %llu runs, %llu steps, %llu calls, %llu elements (%llu left out), %llu faults, %llu violations\n",
         argv[1], argv[2], argv[3], (unsigned long long)sum.seeds, (unsigned long long)sum.steps,
         (unsigned long long)sum.calls, (unsigned long long)sum.elements, (unsigned long long)sum.failed,
         (unsigned long long)sum.faults, (unsigned long long)sum.violations);
  return sum.violations != 0;
}

}  // namespace kit_sim
}  // namespace gpuhash

int main(int argc, char** argv) { return gpuhash::kit_sim::simulate(argc, argv); }
