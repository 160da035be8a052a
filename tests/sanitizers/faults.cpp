// Faults, one at a time: the i-th `new`, the i-th block of a table's memory, the i-th open, read and dlopen fails, for
// every i, in every operation of every module that is named. What has to hold each time:
//   - the call says so with a code and a sentence, or succeeds without what failed;
//   - the table passes its check and holds what was reported, a retry completes, and destroy gives everything back;
//   - nothing leaks (LeakSanitizer looks at the end of the program).
//
//     faults SCALE MODULE...
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <functional>
#include <map>
#include <new>
#include <utility>

#include "common.hpp"

// ---- what can fail ----------------------------------------------------------------------------------------------------

namespace {

// Counts down to the failure. Only the thread that arms it sees failures.
struct fuse {
  long left = -1;
  bool blown = false;
  bool fails() {
    if (left < 0 || left-- != 0) return false;
    return blown = true;
  }
};
thread_local fuse new_fuse, file_fuse;

void* allocate(size_t bytes, size_t alignment) {
  if (new_fuse.fails()) return nullptr;
  return alignment <= 16 ? malloc(bytes ? bytes : 1)
                         : aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}
void* allocate_or_throw(size_t bytes, size_t alignment) {
  void* p = allocate(bytes, alignment);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}

}  // namespace

// These take the place of the standard library's own, in the modules too.
void* operator new(size_t n) { return allocate_or_throw(n, 16); }
void* operator new[](size_t n) { return allocate_or_throw(n, 16); }
void* operator new(size_t n, std::align_val_t a) { return allocate_or_throw(n, size_t(a)); }
void* operator new[](size_t n, std::align_val_t a) { return allocate_or_throw(n, size_t(a)); }
void* operator new(size_t n, const std::nothrow_t&) noexcept { return allocate(n, 16); }
void* operator new[](size_t n, const std::nothrow_t&) noexcept { return allocate(n, 16); }
void* operator new(size_t n, std::align_val_t a, const std::nothrow_t&) noexcept { return allocate(n, size_t(a)); }
void* operator new[](size_t n, std::align_val_t a, const std::nothrow_t&) noexcept { return allocate(n, size_t(a)); }
void operator delete(void* p) noexcept { free(p); }
void operator delete[](void* p) noexcept { free(p); }
void operator delete(void* p, size_t) noexcept { free(p); }
void operator delete[](void* p, size_t) noexcept { free(p); }
void operator delete(void* p, std::align_val_t) noexcept { free(p); }
void operator delete[](void* p, std::align_val_t) noexcept { free(p); }
void operator delete(void* p, size_t, std::align_val_t) noexcept { free(p); }
void operator delete[](void* p, size_t, std::align_val_t) noexcept { free(p); }

// These, the C library's. Programs with large files call the names that end in 64.
template <class Function>
static Function next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}
static ssize_t failing_read(const char* name, int file, void* to, size_t bytes, off_t at) {
  return file_fuse.fails() ? (errno = EIO, -1)
                           : next<ssize_t (*)(int, void*, size_t, off_t)>(name)(file, to, bytes, at);
}
static int failing_open(const char* name, const char* path, int flags, mode_t mode) {
  return file_fuse.fails() ? (errno = EMFILE, -1) : next<int (*)(const char*, int, mode_t)>(name)(path, flags, mode);
}
extern "C" {
ssize_t pread(int file, void* to, size_t bytes, off_t at) { return failing_read("pread", file, to, bytes, at); }
ssize_t pread64(int file, void* to, size_t bytes, off_t at) { return failing_read("pread64", file, to, bytes, at); }
int open(const char* path, int flags, ...) { return failing_open("open", path, flags, 0600); }
int open64(const char* path, int flags, ...) { return failing_open("open64", path, flags, 0600); }
void* dlopen(const char* path, int flags) {
  return file_fuse.fails() ? nullptr : next<void* (*)(const char*, int)>("dlopen")(path, flags);
}
}

namespace {

// ---- one table's life -------------------------------------------------------------------------------------------------

constexpr size_t n_keys = 3000;

struct subject {
  subject(const backend& of, const gpuhash_option* a_shape) : b(of), shape(a_shape) {}

  const backend& b;
  gpuhash_table* t = nullptr;
  counted_memory memory;
  gpuhash_memory resource = memory.resource();
  std::map<uint64_t, uint64_t> model;
  const gpuhash_option* const shape;  // NULL: the default

  gpuhash_status create(gpuhash_error* err) {
    gpuhash_config config = GPUHASH_CONFIG_INIT;
    config.backend = b.name.c_str(), config.seed = 7, config.threads = 1;
    config.memory = &resource;
    if (shape) config.options = shape, config.n_options = 1;
    return gpuhash_table_create(&config, &t, err);
  }
  ~subject() {
    gpuhash_table_destroy(t);
    if (memory.blocks != 0) wrong("%s: %zu blocks of a destroyed table are left", b.name.c_str(), memory.blocks.load());
  }

  // Insert keys from .. to, and note those that report inserted. True when all are there.
  bool insert(uint64_t from, uint64_t to, gpuhash_status* status, gpuhash_error* err) {
    std::vector<uint64_t> keys, values;
    for (uint64_t k = from; k < to; ++k)
      keys.push_back(k == to - 1 ? ~uint64_t(0) - from : k * 977), values.push_back(k + 1);
    std::vector<uint8_t> answers(keys.size(), 99);
    const fuse armed = std::exchange(new_fuse, saved_);
    *status = gpuhash_insert(t, keys.size(), keys.data(), values.data(), answers.data(), nullptr, err);
    saved_ = std::exchange(new_fuse, armed);
    bool all = true;
    for (size_t i = 0; i < keys.size(); ++i) {
      if (answers[i] == GPUHASH_YES) model[keys[i]] = values[i];
      all &= model.count(keys[i]) != 0;
      if (*status == GPUHASH_OK && answers[i] > GPUHASH_YES)
        wrong("%s: insert says OK, element %zu says %u", b.name.c_str(), i, answers[i]);
    }
    return all;
  }

  // Run a call with the failure armed; failures of this program's own containers are not meant.
  gpuhash_status guarded(const std::function<gpuhash_status()>& call) {
    const fuse armed = std::exchange(new_fuse, saved_);
    const gpuhash_status status = call();
    saved_ = std::exchange(new_fuse, armed);
    return status;
  }
  void arm(long i) { saved_ = {i, false}, new_fuse = {}; }
  void disarm() { saved_ = {}, memory.fail_in = -1; }
  bool blown() const { return saved_.blown; }

  void verify(const char* after) {
    gpuhash_error err = GPUHASH_ERROR_INIT;
    if (gpuhash_check(t, &err) != GPUHASH_OK) wrong("%s after %s: %s", b.name.c_str(), after, err.message);
    uint64_t size = 0;
    MUST(gpuhash_size(t, &size, &err));
    if (size != model.size())
      wrong("%s after %s: %llu keys, %zu were reported", b.name.c_str(), after, (unsigned long long)size, model.size());
    std::vector<uint64_t> keys, values;
    for (const auto& [k, v] : model) keys.push_back(k), values.push_back(v);
    std::vector<uint64_t> got(keys.size());
    std::vector<uint8_t> found(keys.size());
    MUST(gpuhash_find(t, keys.size(), keys.data(), got.data(), found.data(), nullptr, &err));
    for (size_t i = 0; i < keys.size(); ++i)
      if (!found[i] || got[i] != values[i])
        wrong("%s after %s: key %llu is lost", b.name.c_str(), after, (unsigned long long)keys[i]);
  }

 private:
  fuse saved_;  // in force inside the library only
};

void expect_explained(const subject& s, gpuhash_status status, const gpuhash_error& err, const char* call) {
  if (status == GPUHASH_OK) return;
  if (status != GPUHASH_NO_MEMORY && status != GPUHASH_FULL)
    wrong("%s: %s says %s: %s", s.b.name.c_str(), call, gpuhash_status_name(status), err.message);
  if (err.code != status || err.message[0] == 0) wrong("%s: %s failed without a sentence", s.b.name.c_str(), call);
}

// The calls of a life, in order. Each leaves the model as the table is to be.
struct call {
  const char* name;
  std::function<gpuhash_status(subject&, gpuhash_error*)> run;
};
const std::vector<call> calls = {
    {"insert",
     [](subject& s, gpuhash_error* e) {
       gpuhash_status status;
       s.insert(0, 200, &status, e);
       return status;
     }},
    {"insert that grows",
     [](subject& s, gpuhash_error* e) {
       gpuhash_status status;
       s.insert(200, n_keys, &status, e);
       return status;
     }},
    {"reserve",
     [](subject& s, gpuhash_error* e) {
       return s.guarded([&] { return gpuhash_reserve(s.t, 4 * n_keys, nullptr, e); });
     }},
    {"erase",
     [](subject& s, gpuhash_error* e) {
       std::vector<uint64_t> keys;
       for (const auto& [k, v] : s.model)
         if (v % 3) keys.push_back(k);
       std::vector<uint8_t> gone(keys.size(), 0);
       const gpuhash_status status =
           s.guarded([&] { return gpuhash_erase(s.t, keys.size(), keys.data(), gone.data(), nullptr, e); });
       for (size_t i = 0; i < keys.size(); ++i)
         if (gone[i]) s.model.erase(keys[i]);
       return status;
     }},
    {"flush", [](subject& s, gpuhash_error* e) { return s.guarded([&] { return gpuhash_flush(s.t, nullptr, e); }); }},
    {"shrink", [](subject& s, gpuhash_error* e) { return s.guarded([&] { return gpuhash_shrink(s.t, nullptr, e); }); }},
    {"check", [](subject& s, gpuhash_error* e) { return s.guarded([&] { return gpuhash_check(s.t, e); }); }},
    {"stats",
     [](subject& s, gpuhash_error* e) {
       gpuhash_stat figures[4];
       size_t n = 4;
       return s.guarded([&] { return gpuhash_stats(s.t, &n, figures, e); });
     }},
    {"histogram",
     [](subject& s, gpuhash_error* e) {
       uint64_t counts[8];
       return s.guarded([&] { return gpuhash_histogram(s.t, 8, counts, e); });
     }},
    {"export",
     [](subject& s, gpuhash_error* e) {
       size_t n = s.model.size();
       std::vector<uint64_t> keys(n), values(n);
       return s.guarded([&] { return gpuhash_export(s.t, &n, keys.data(), values.data(), nullptr, e); });
     }},
    {"find_all",
     [](subject& s, gpuhash_error* e) {
       if (!(s.b.traits & GPUHASH_TRAIT_MULTI)) return gpuhash_status(GPUHASH_OK);
       const uint64_t keys[] = {0, 977, 12345};
       uint64_t offsets[4], values[8];
       return s.guarded([&] { return gpuhash_find_all(s.t, 3, keys, offsets, values, 8, nullptr, e); });
     }},
    {"insert after all that",
     [](subject& s, gpuhash_error* e) {
       gpuhash_status status;
       s.insert(n_keys, 2 * n_keys, &status, e);
       return status;
     }},
};

// A life in which the i-th allocation of call `which` fails. False: there was no i-th.
bool live_through(const backend& b, size_t which, long i, bool own_memory, const gpuhash_option* shape) {
  subject s(b, shape);
  const auto arm = [&] { own_memory ? void(s.memory.fail_in = i) : s.arm(i); };
  const auto happened = [&] { return own_memory ? s.memory.fail_in < 0 : s.blown(); };
  gpuhash_error err = GPUHASH_ERROR_INIT;
  if (which == calls.size()) {  // create
    arm();
    gpuhash_status status = s.guarded([&] { return s.create(&err); });
    const bool failed = happened();
    expect_explained(s, status, err, "create");
    if (status != GPUHASH_OK && (s.t != nullptr || s.memory.blocks != 0))
      wrong("%s: create failed and left something", b.name.c_str());
    s.disarm();
    if (status != GPUHASH_OK) MUST(s.create(&err));
    s.verify("create");
    return failed;
  }
  MUST(s.create(&err));
  bool failed = false;
  for (size_t c = 0; c < calls.size(); ++c) {
    if (c == which) arm();
    const gpuhash_status status = calls[c].run(s, &err);
    if (c == which) failed = happened();
    expect_explained(s, status, err, calls[c].name);
    if (!failed && status != GPUHASH_OK)
      wrong("%s: %s failed with nothing planted: %s", b.name.c_str(), calls[c].name, err.message);
    s.disarm();
    s.verify(calls[c].name);
    if (c == which) {  // the retry
      MUST(calls[c].run(s, &err));
      s.verify("the retry");
    }
  }
  return failed;
}

size_t every_allocation(const backend& b) {
  static constexpr gpuhash_option duplicates = {"duplicates", "1"}, built = {"build", "always"};
  static constexpr const gpuhash_option* shapes[] = {nullptr, &duplicates, &built};
  size_t planted = 0;
  for (const bool own_memory : {false, true})
    for (const gpuhash_option* shape : shapes) {
      if (shape == &duplicates && !(b.traits & GPUHASH_TRAIT_MULTI)) continue;
      if (shape == &built && !(b.traits & GPUHASH_TRAIT_ORDERED)) continue;
      for (size_t which = 0; which <= calls.size(); ++which)
        for (long i = 0; live_through(b, which, i, own_memory, shape); ++i)
          if (++planted > 100000) wrong("%s: no end of allocations", b.name.c_str());
    }
  return planted;
}

// ---- the stand-alone allocator ----------------------------------------------------------------------------------------

bool allocator_lives_through(const char* kind, long i, bool own_memory) {
  counted_memory memory;
  const gpuhash_memory resource = memory.resource();
  gpuhash_slab_config config = GPUHASH_SLAB_CONFIG_INIT;
  config.kind = kind, config.memory_blocks = 1, config.seed = 3, config.threads = 1, config.memory = &resource;
  gpuhash_slab_allocator* a = nullptr;
  std::vector<uint32_t> units(3000);
  std::vector<void*> addresses(3000);
  gpuhash_error err = GPUHASH_ERROR_INIT;
  gpuhash_slab_stats stats{};
  stats.struct_size = sizeof(stats);

  if (own_memory)
    memory.fail_in = i;
  else
    new_fuse = {i, false};
  gpuhash_status status = gpuhash_slab_allocator_create(&config, &a, &err);
  const bool created = status == GPUHASH_OK;
  if (created) {
    status = gpuhash_slab_allocate(a, units.size(), units.data(), nullptr, &err);
    if (status != GPUHASH_OK && status != GPUHASH_NO_MEMORY) wrong("%s: allocate: %s", kind, err.message);
    status = gpuhash_slab_translate(a, units.size(), units.data(), addresses.data(), nullptr, &err);
    if (status != GPUHASH_OK && status != GPUHASH_NO_MEMORY) wrong("%s: translate: %s", kind, err.message);
    status = gpuhash_slab_get_stats(a, &stats, &err);
    if (status != GPUHASH_OK && status != GPUHASH_NO_MEMORY) wrong("%s: stats: %s", kind, err.message);
  } else if (status != GPUHASH_NO_MEMORY || a != nullptr) {
    wrong("%s: create: %s", kind, err.message);
  }
  const bool failed = own_memory ? memory.fail_in < 0 : new_fuse.blown;
  new_fuse = {}, memory.fail_in = -1;
  if (created) {
    std::erase(units, GPUHASH_NO_UNIT);
    MUST(gpuhash_slab_get_stats(a, &stats, &err));
    if (stats.allocated != units.size())
      wrong("%s: %llu units are taken, %zu were handed out", kind, (unsigned long long)stats.allocated, units.size());
    MUST(gpuhash_slab_free(a, units.size(), units.data(), nullptr, nullptr, &err));
    gpuhash_slab_allocator_destroy(a);
  }
  if (memory.blocks != 0) wrong("%s: %zu blocks are left", kind, memory.blocks.load());
  return failed;
}

size_t every_allocation_of_the_allocator() {
  size_t planted = 0;
  for (const char* kind : {"slab_alloc", "slab_alloc_light"})
    for (const bool own_memory : {false, true})
      for (long i = 0; allocator_lives_through(kind, i, own_memory); ++i) ++planted;
  return planted;
}

// ---- files ------------------------------------------------------------------------------------------------------------

// A copy of the module under a new name, so that it is opened as if for the first time; a link would be the same file.
std::string fresh_copy(const char* path, long i) {
  char name[64];
  snprintf(name, sizeof(name), "/tmp/gpuhash_faults_%d_%ld.so", int(getpid()), i);
  FILE* from = fopen(path, "rb");
  FILE* to = fopen(name, "wb");
  if (!from || !to) wrong("%s cannot be copied", path);
  char buffer[65536];
  for (size_t n; (n = fread(buffer, 1, sizeof(buffer), from)) > 0;) fwrite(buffer, 1, n, to);
  fclose(from), fclose(to);
  return name;
}

// Opening a module of which the i-th open or read fails says so, and the next attempt finds the file whole.
size_t every_file_access(const char* path) {
  size_t planted = 0;
  for (long i = 0;; ++i) {
    const std::string copy = fresh_copy(path, i);
    gpuhash_error err = GPUHASH_ERROR_INIT;
    file_fuse = {i, false};
    const gpuhash_status status = gpuhash_backend_open(copy.c_str(), nullptr, &err);
    const bool failed = file_fuse.blown;
    file_fuse = {};
    if (failed && status == GPUHASH_OK) wrong("access %ld to %s failed, and opening it says OK", i, copy.c_str());
    if (status != GPUHASH_OK && (status != GPUHASH_PLUGIN_ERROR || err.message[0] == 0))
      wrong("open: %s: %s", gpuhash_status_name(status), err.message);
    const gpuhash_status again = gpuhash_backend_open(copy.c_str(), nullptr, &err);
    // The name of the backend in it is taken by the module that this is a copy of; that is a sentence of its own.
    if (again != GPUHASH_OK && strstr(err.message, "cannot be read"))
      wrong("the second attempt still says: %s", err.message);
    unlink(copy.c_str());
    if (!failed) return planted;
    ++planted;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return fprintf(stderr, "usage: faults SCALE MODULE...\n"), 2;
  for (int i = 2; i < argc; ++i) {
    const backend b = open_module(argv[i]);
    const size_t allocations = every_allocation(b), files = every_file_access(argv[i]);
    printf("  %s: %zu failing allocations, %zu failing file accesses, nothing wrong\n", b.name.c_str(), allocations,
           files);
    if (b.name == "slab_hash")
      printf("  allocators: %zu failing allocations, nothing wrong\n", every_allocation_of_the_allocator());
  }
}
