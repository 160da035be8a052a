// Files that are opened as modules, the variable that says where modules are, and what a module's code says of itself and
// answers: the input plays a stranger's plugin, whose every answer is taken from it.
//
// A file that passes the library's own test is not given to the dynamic linker here: that one runs what is in it.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <new>
#include <stdexcept>

#include "fuzz.hpp"
#include "libgpuhash/src/answers.hpp"
#include "libgpuhash/src/plugin_loader.hpp"
#include "libgpuhash/src/search_path.hpp"
#include "libgpuhash/src/shared_object.hpp"

namespace {

void try_file(bytes in) {
  const int file = memfd_create("module", 0);
  if (file < 0 || write(file, in.at, in.left) != ssize_t(in.left)) wrong("no file in memory");
  const std::string path = "/proc/self/fd/" + std::to_string(file);
  gpuhash_error err = GPUHASH_ERROR_INIT, same = GPUHASH_ERROR_INIT;
  const gpuhash_status status = gpuhash::check_shared_object(path.c_str(), &err);
  expect_explained(status, err);
  if (status != GPUHASH_OK) {
    const gpuhash_status opened = gpuhash_backend_open(path.c_str(), nullptr, &same);
    if (opened != status) wrong("the test says %d, opening says %d: %s", status, opened, same.message);
    expect_explained(opened, same);
  }
  close(file);
}

// Only absolute directories are taken from the variable, as they stand there.
void try_search_path(bytes in) {
  const std::string given = in.text();
  setenv("GPUHASH_PLUGIN_PATH", given.c_str(), 1);
  auto found = gpuhash::plugin_directories();
  if (found.empty()) wrong("the directory beside the library is missing");
  found.pop_back();
  size_t expected = 0, from = 0;
  for (size_t end = 0; end <= given.size(); ++end) {
    if (end < given.size() && given[end] != ':') continue;
    const std::string element = given.substr(from, end - from);
    from = end + 1;
    if (element.empty() || element[0] != '/') continue;
    if (expected >= found.size() || found[expected++] != element) wrong("'%s' is lost from the path", element.c_str());
  }
  if (expected != found.size()) wrong("%zu directories of '%s', expected %zu", found.size(), given.c_str(), expected);
}

// ---- a stranger's plugin ------------------------------------------------------------------------------------------------

bytes answers{nullptr, 0};  // what the plugin says next

// A small number, a number around a limit, or any number.
uint64_t figure() {
  const uint8_t how = answers.byte();
  if (how < 160) return how % 16;
  if (how < 200) return ~uint64_t{0} - how % 4;
  if (how < 220) return uint64_t{1} << how % 64;
  return answers.number(8);
}

void fill(void* p, size_t n) {
  for (size_t i = 0; i < n; ++i) static_cast<uint8_t*>(p)[i] = answers.byte();
}

// A status with or without a sentence, or an exception.
gpuhash_status outcome(gpuhash_error* err) {
  if (err->struct_size != sizeof *err || err->code != GPUHASH_OK || err->message[0] != 0)
    wrong("a plugin was given an error that is not empty");
  switch (answers.byte()) {
    case 1: throw std::runtime_error("thrown by a plugin");
    case 2: throw 7;
    case 3: throw std::bad_alloc();
    case 4: memset(err->message, 'A', sizeof err->message); break;
    case 5: fill(err->message, sizeof err->message); break;
    case 6: err->struct_size = size_t(figure()); break;
  }
  const uint8_t status = answers.byte();
  return status < 128 ? GPUHASH_OK : status < 200 ? status - 128 : gpuhash_status(answers.number(4));
}

char a_table;

gpuhash_backend_v1 entries() {
  gpuhash_backend_v1 b{};
  b.probe = [](gpuhash_device, gpuhash_error* e) { return outcome(e); };
  b.create = [](const gpuhash_config*, void** table, gpuhash_error* e) {
    *table = answers.byte() % 8 == 0 ? nullptr : &a_table;
    return outcome(e);
  };
  b.destroy = [](void*) {
    if (answers.byte() == 1) throw 7;
  };
  b.run = [](void*, const gpuhash_batch* q, gpuhash_error* e) {
    if (q->out_status != nullptr && answers.byte() < 128) fill(q->out_status, q->n);
    if (q->counts != nullptr && answers.byte() < 200) *q->counts = {figure(), figure()};
    return outcome(e);
  };
  b.info = [](void*, gpuhash_table_info* out, gpuhash_error* e) {
    if (answers.byte() % 16 == 0) out->struct_size = size_t(figure());
    out->size = figure();
    out->used = figure();
    out->slots = figure();
    out->capacity = figure();
    out->bytes = figure();
    out->traits = answers.byte() % 4 == 0 ? figure() : 0;
    fill(&out->max_load_factor, sizeof out->max_load_factor);
    return outcome(e);
  };
  b.export_pairs = [](void*, size_t* n, void*, void*, void*, gpuhash_error* e) {
    *n = size_t(figure());
    return outcome(e);
  };
  b.stats = [](void*, size_t* n, gpuhash_stat* out, gpuhash_error* e) {
    const size_t room = *n;
    *n = size_t(figure());
    for (size_t i = 0; i < room && i < *n; ++i) fill(out[i].name, answers.byte() % (sizeof out[i].name + 1));
    return outcome(e);
  };
  b.find_all = [](void*, size_t n, const void*, uint64_t* offsets, void*, size_t, void*, gpuhash_error* e) {
    for (size_t i = 0; i <= n; ++i) offsets[i] = figure();
    return outcome(e);
  };
  b.range = [](void*, size_t n, const void*, const void*, size_t, void*, void*, uint64_t* counts, void*,
               gpuhash_error* e) {
    for (size_t i = 0; i < n; ++i) counts[i] = figure();
    return outcome(e);
  };
  return b;
}

void expect_sane(bool holds, const char* what) {
  if (!holds) wrong("%s got through", what);
}

// A call that is OK has left err empty; any other status is one of gpuhash.h, with a sentence.
bool explained(gpuhash_status status, gpuhash_error& err) {
  if (status < GPUHASH_OK || status > GPUHASH_INTERNAL) wrong("status %d got through", status);
  expect_explained(status, err);
  if (status == GPUHASH_OK && (err.code != GPUHASH_OK || err.message[0] != 0)) wrong("OK, and '%s'", err.message);
  err = gpuhash_error{sizeof err, GPUHASH_CORRUPT, "what an earlier call said"};
  return status == GPUHASH_OK;
}

void try_answers(bytes in) {
  constexpr size_t n = 40;
  uint64_t keys[n] = {}, outputs[n], offsets[n + 1];
  uint8_t status[n] = {};
  answers = in;
  gpuhash::backend b{"stranger", "/gpuhash_stranger.so", "", "", entries()};
  b.api.traits = 2 * uint64_t{GPUHASH_TRAIT_FLUSH} - 1;
  gpuhash_table t{};
  t.type = &b;
  t.device = {GPUHASH_CPU, 0};
  t.key_bytes = t.value_bytes = 8;
  t.generation = gpuhash::fork_generation;
  gpuhash_error err{sizeof err, GPUHASH_CORRUPT, "what an earlier call said"};
  gpuhash_config config = GPUHASH_CONFIG_INIT;
  gpuhash::clear(&err);
  if (explained(gpuhash::ask_create(b, config, &t.impl, &err), err)) expect_sane(t.impl != nullptr, "a table at NULL");

  gpuhash_counts counts;
  gpuhash_batch batch = GPUHASH_BATCH_INIT;
  batch.op = GPUHASH_OP_INSERT;
  batch.n = n;
  batch.keys = batch.values = keys;
  batch.out_status = status;
  batch.counts = &counts;
  if (explained(gpuhash_run(&t, &batch, &err), err)) {
    for (const uint8_t s : status) expect_sane(s <= GPUHASH_YES, "a failed element in a call that is OK");
    expect_sane(counts.failed == 0 && counts.yes <= n, "a count");
  }
  expect_sane(counts.yes <= n && counts.failed <= n - counts.yes, "a count of a failed call");

  gpuhash_table_info info{};
  info.struct_size = sizeof info;
  if (explained(gpuhash_table_get_info(&t, &info, &err), err)) {
    expect_sane(info.used <= info.slots && info.size <= info.used + 2 && info.capacity <= info.slots + 2, "a size");
    expect_sane(info.max_load_factor >= 0 && std::isfinite(info.max_load_factor), "a load factor");
  }
  size_t room = n;
  if (explained(gpuhash_export(&t, &room, keys, outputs, nullptr, &err), err)) expect_sane(room <= n, "an export");
  room = 0;
  if (explained(gpuhash_export(&t, &room, nullptr, nullptr, nullptr, &err), err))
    expect_sane(room <= uint64_t{1} << 45, "an export's size");
  gpuhash_stat stats[4];
  room = 4;
  if (explained(gpuhash_stats(&t, &room, stats, &err), err))
    for (size_t i = 0; i < 4 && i < room; ++i)
      expect_sane(stats[i].name[0] != 0 && memchr(stats[i].name, 0, sizeof stats[i].name) != nullptr, "a name");
  if (explained(gpuhash_find_all(&t, n, keys, offsets, outputs, n, nullptr, &err), err))
    for (size_t i = 0; i < n; ++i)
      expect_sane(offsets[0] == 0 && offsets[i] <= offsets[i + 1] && offsets[n] <= n, "offsets");
  uint64_t in_range[2];
  if (explained(gpuhash_range(&t, 2, keys, outputs, 1, nullptr, nullptr, in_range, nullptr, &err), err))
    expect_sane(in_range[0] <= 1 && in_range[1] <= 1, "a range");
  gpuhash::ask_destroy([&] { b.api.destroy(t.impl); });
}

// A description from the input: what passes has all that a host relies on.
void try_description(bytes in) {
  static const gpuhash_option_info options[] = {
      {"one", "", ""}, {"two", nullptr, nullptr}, {"Two", "", ""}, {"one", "", ""}};
  static std::string name;
  gpuhash_backend_v1 b = entries();
  const auto any = reinterpret_cast<decltype(b.clear)>(b.destroy);
  b.clear = b.shrink = b.flush = any;
  b.reserve = reinterpret_cast<decltype(b.reserve)>(any);
  b.check = reinterpret_cast<decltype(b.check)>(any);
  b.histogram = reinterpret_cast<decltype(b.histogram)>(any);
  b.lower_bound = reinterpret_cast<decltype(b.lower_bound)>(any);
  answers = in;
  b.traits = figure();
  b.key_widths = uint32_t(figure());
  b.value_widths = uint32_t(figure());
  b.devices = uint32_t(figure());
  b.n_options = answers.byte() < 200 ? answers.byte() % 5 : size_t(figure()) | 1024;  // as many as there are, or absurd
  b.options = answers.byte() % 8 == 0 ? nullptr : options;
  auto* const pointers = reinterpret_cast<void**>(&b.probe);
  const uint8_t hole = answers.byte();
  if (hole < 16) pointers[hole] = nullptr;
  name = answers.text();
  b.name = name.c_str();
  gpuhash_error err = GPUHASH_ERROR_INIT;
  const gpuhash_status status = gpuhash::check_backend(b, "/gpuhash_stranger.so", &err);
  expect_explained(status, err);
  if (status != GPUHASH_OK) return;
  expect_sane(gpuhash::is_backend_name(name), "a name");
  expect_sane(b.traits < 2 * uint64_t{GPUHASH_TRAIT_FLUSH}, "a trait");
  expect_sane(b.devices != 0 && (b.devices & ~6u) == 0, "a device");
  expect_sane(b.n_options <= 2, "options");
  const uint64_t excuse = hole == 9    ? GPUHASH_TRAIT_FLUSH
                          : hole == 13 ? GPUHASH_TRAIT_MULTI
                          : hole >= 14 ? GPUHASH_TRAIT_ORDERED
                                       : 0;  // of the entries that may be NULL where their trait is absent
  expect_sane(hole >= 16 || (excuse && !(b.traits & excuse)), "a missing entry");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  bytes in{data, size};
  switch (in.byte()) {
    case ':': try_search_path(in); break;
    case '?': try_answers(in); break;
    case '!': try_description(in); break;
    default: try_file(in);
  }
  return 0;
}
