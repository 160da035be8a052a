// Rows by shard on emulated warps: gpuhash_partition with its kernels, compared with its results on the CPU, for keys
// of every width and kind. Sizes are small (test_partition.py), so that more than 16 shards take two passes.

#include <algorithm>
#include <bit>
#include <string>
#include <vector>

#include "gpuhash/columns.h"
#include "libgpuhash/columns/partition_cuda.hpp"
#include "libgpuhash/hash/hash.hpp"
#include "libgpuhash/src/cpus.hpp"
#include "libgpuhash/src/device.hpp"
#include "libgpuhash/src/team.hpp"
#include "tests/warp/checks.hpp"
#include "tests/warp/emulator.hpp"

using gpuhash::u32;
using gpuhash::u64;
using gpuhash::u8;
using std::string;
using std::vector;

namespace gpuhash {
// The one device that is there, and the one thread.
gpuhash_status resolve_device(gpuhash_device&, gpuhash_error*) { return GPUHASH_OK; }
uint32_t default_threads() { return 1; }
void parallel(uint32_t, size_t pieces, void (*body)(void*, size_t), void* context) {
  for (size_t i = 0; i < pieces; ++i) body(context, i);
}
}  // namespace gpuhash

namespace {

using namespace warp_test;

struct key_type {
  const char* format;  // Arrow's
  u32 width;
};
constexpr key_type types[] = {{"c", 1},     {"C", 1},     {"s", 2},    {"S", 2},   {"i", 4},     {"I", 4},
                              {"l", 8},     {"L", 8},     {"e", 2},    {"f", 4},   {"g", 8},     {"tdD", 4},
                              {"tdm", 8},   {"tsn:", 8},  {"tss:", 8}, {"tDu", 8}, {"ttm", 4},   {"ttn", 8},
                              {"w:1", 1},   {"w:4", 4},   {"w:7", 7},  {"w:8", 8}, {"w:12", 12}, {"w:16", 16},
                              {"w:31", 31}, {"w:32", 32}, {"w:75", 75}};

// A cell: small numbers, any bits, and the numbers at which floats and integers differ.
u64 cell(const key_type& t, random_numbers& r) {
  const u64 any = r.next(), kind = r.below(8);
  const double number = kind == 0 ? double(any % 100) - 50 : double(any % 1000) / 8;
  if (t.format[0] == 'g' && kind < 4) return std::bit_cast<u64>(kind == 3 ? double(any) : number);
  if (t.format[0] == 'f' && kind < 4) return std::bit_cast<u32>(kind == 3 ? float(any) : float(number));
  return kind < 2 ? any % 50 : any;
}

struct wanted_results {
  bool shards, offsets, order, places, keys, values;
};

u64 runs = 0;

// The values in the order of the rows, from one array.
void collect(size_t n, memory& places, memory& grouped, size_t value_bytes, size_t value_off, memory& wanted) {
  const void* const from[1] = {grouped.data()};
  const int64_t offsets[2] = {0, int64_t(n)};
  for (const gpuhash_device device : {gpuhash_device{GPUHASH_CPU, 0}, gpuhash_device{GPUHASH_CUDA, 0}}) {
    memory back(n * value_bytes, value_off);
    gpuhash_collect_request q = GPUHASH_COLLECT_REQUEST_INIT;
    q.n = n, q.places = places.of<u32>(), q.offsets = offsets, q.collected[0] = {from, value_bytes, back.data()};
    q.device = device;
    gpuhash_error err = GPUHASH_ERROR_INIT;
    if (gpuhash_collect(&q, &err)) wrong("%s", err.message);
    HOLDS(back.same(wanted));
  }
}

// One request on the CPU and on the device. value_off: bytes that values lie beside what their width is aligned to.
void compare(const key_type& t, size_t n, u32 shards, size_t value_bytes, wanted_results wants, bool one_key,
             random_numbers& r) {
  const size_t first = r.below(3), value_off = r.below(2) * 3;
  where = string(t.format) + ", " + std::to_string(n) + " rows, " + std::to_string(shards) + " shards, values of " +
          std::to_string(value_bytes) + (one_key ? ", one key" : "");
  memory keys((n + first) * t.width), values(n * value_bytes, value_off);
  for (size_t i = 0; i < n + first; ++i) {
    const u64 own = one_key ? 7 : cell(t, r);
    for (u32 at = 0; at < t.width; at += 8) {
      const u64 word = at ? r.next() : own;
      memcpy(keys.data() + i * t.width + at, &word, std::min(t.width - at, 8u));
    }
  }
  for (size_t i = 0; i < n * value_bytes; ++i) values.data()[i] = char(r.next());
  const void* buffers[2] = {nullptr, keys.data()};
  ArrowSchema type{};
  type.format = t.format, type.name = "", type.release = [](ArrowSchema*) {};
  ArrowArray rows{};
  rows.length = int64_t(n), rows.offset = int64_t(first), rows.n_buffers = 2, rows.buffers = buffers;
  rows.release = [](ArrowArray*) {};

  struct results {
    memory shards, offsets, order, places, keys, values;
  };
  results both[2] = {{memory(n * 4), memory((shards + 1) * 8), memory(n * 8), memory(n * 4), memory(n * t.width),
                      memory(n * value_bytes, value_off)},
                     {memory(n * 4), memory((shards + 1) * 8), memory(n * 8), memory(n * 4), memory(n * t.width),
                      memory(n * value_bytes, value_off)}};
  for (int cuda = 0; cuda < 2; ++cuda) {
    gpuhash_partition_request q = GPUHASH_PARTITION_REQUEST_INIT;
    q.type = &type, q.keys = &rows, q.shards = shards, q.threads = 1, q.seed = r.state % 3;
    q.values = values.data(), q.value_bytes = value_bytes;
    if (wants.shards) q.out_shards = both[cuda].shards.of<int32_t>();
    if (wants.offsets) q.out_offsets = both[cuda].offsets.of<int64_t>();
    if (wants.order) q.out_order = both[cuda].order.of<int64_t>();
    if (wants.places) q.out_places = both[cuda].places.of<u32>();
    if (wants.keys) q.out_keys = both[cuda].keys.data();
    if (wants.values) q.out_values = both[cuda].values.data();
    gpuhash_error err = GPUHASH_ERROR_INIT;
    if (cuda) q.device.kind = GPUHASH_CUDA;
    HOLDS(gpuhash_partition_scratch(&q, &q.scratch_bytes, &err) == GPUHASH_OK);
    memory scratch(q.scratch_bytes);
    q.scratch = q.scratch_bytes ? scratch.data() : nullptr;
    if (gpuhash_partition(&q, &err)) wrong("%s", err.message);
  }
  HOLDS(both[0].shards.same(both[1].shards));
  HOLDS(both[0].offsets.same(both[1].offsets));
  HOLDS(both[0].order.same(both[1].order));
  HOLDS(both[0].places.same(both[1].places));
  HOLDS(both[0].keys.same(both[1].keys));
  HOLDS(both[0].values.same(both[1].values));
  for (const gpuhash_device device : {gpuhash_device{GPUHASH_CPU, 0}, gpuhash_device{GPUHASH_CUDA, 0}}) {
    if (!wants.order || !wants.values) break;
    gpuhash_error err = GPUHASH_ERROR_INIT;
    memory back(n * value_bytes, value_off);
    if (gpuhash_ungroup(n, both[1].order.of<int64_t>(), both[1].values.data(), value_bytes, back.data(), device,
                        nullptr, &err))
      wrong("%s", err.message);
    HOLDS(back.same(values));
  }
  if (wants.places && wants.values && n > 0) collect(n, both[1].places, both[1].values, value_bytes, value_off, values);
  ++runs;
}

// Rows that go to a place of their own for each shard, in a second call, and what comes back from there: two arrays of
// `bytes[0]` and `bytes[1]` bytes a row. The last shard that has rows is left out on the way back: its rows become 0.
void spread(size_t n, u32 shards, const size_t (&bytes)[2], size_t off, random_numbers& r) {
  where = std::to_string(n) + " rows to " + std::to_string(shards) + " places, of " + std::to_string(bytes[0]) +
          " and " + std::to_string(bytes[1]) + " bytes";
  memory keys(n * 4), values(n * bytes[0], off), offsets((shards + 1) * 8), places(n * 4);
  for (size_t i = 0; i < n; ++i) keys.of<u32>()[i] = u32(r.next());
  for (size_t i = 0; i < n * bytes[0]; ++i) values.data()[i] = char(r.next());
  const void* buffers[2] = {nullptr, keys.data()};
  ArrowSchema type{};
  type.format = "I", type.name = "", type.release = [](ArrowSchema*) {};
  ArrowArray rows{};
  rows.length = int64_t(n), rows.n_buffers = 2, rows.buffers = buffers, rows.release = [](ArrowArray*) {};
  gpuhash_partition_request q = GPUHASH_PARTITION_REQUEST_INIT;
  q.type = &type, q.keys = &rows, q.shards = shards, q.threads = 1, q.device.kind = GPUHASH_CUDA;
  q.out_offsets = offsets.of<int64_t>();
  gpuhash_error err = GPUHASH_ERROR_INIT;
  HOLDS(gpuhash_partition_scratch(&q, &q.scratch_bytes, &err) == GPUHASH_OK);
  memory scratch(q.scratch_bytes);
  q.scratch = q.scratch_bytes ? scratch.data() : nullptr;
  HOLDS(gpuhash_partition(&q, &err) == GPUHASH_OK);
  const vector<int64_t> begins(offsets.of<int64_t>(), offsets.of<int64_t>() + shards + 1);
  vector<memory> own_keys, own_values, bytes_of;
  own_keys.reserve(shards), own_values.reserve(shards), bytes_of.reserve(shards);
  vector<void*> key_places, value_places;
  vector<const void*> from, second;
  for (u32 s = 0; s < shards; ++s) {
    const auto many = size_t(begins[s + 1] - begins[s]);
    own_keys.emplace_back(many * 4), own_values.emplace_back(many * bytes[0], off),
        bytes_of.emplace_back(many * bytes[1]);
    for (size_t i = 0; i < many * bytes[1]; ++i) bytes_of[s].data()[i] = char(r.next());
    key_places.push_back(own_keys[s].data()), value_places.push_back(own_values[s].data());
    from.push_back(own_values[s].data()), second.push_back(bytes_of[s].data());
  }
  offsets.clear();
  q.counted = 1, q.out_places = places.of<u32>(), q.shard_keys = key_places.data();
  q.values = values.data(), q.value_bytes = bytes[0], q.shard_values = value_places.data();
  if (gpuhash_partition(&q, &err)) wrong("%s", err.message);
  u32 last = 0;
  for (u32 s = 0; s < shards; ++s) last = begins[s] < begins[s + 1] ? s : last;
  second[last] = nullptr;
  memory back(n * bytes[0], off), flags(n * bytes[1]);
  gpuhash_collect_request u = GPUHASH_COLLECT_REQUEST_INIT;
  u.n = n, u.places = places.of<u32>(), u.offsets = begins.data(), u.shards = shards, u.device.kind = GPUHASH_CUDA;
  u.arrays = 2, u.collected[0] = {from.data(), bytes[0], back.data()},
  u.collected[1] = {second.data(), bytes[1], flags.data()};
  if (gpuhash_collect(&u, &err)) wrong("%s", err.message);
  HOLDS(back.same(values));
  for (size_t i = 0; i < n; ++i) {
    u32 s = 0;
    while (int64_t(places.of<u32>()[i]) >= begins[s + 1]) ++s;
    const auto at = size_t(places.of<u32>()[i] - begins[s]);
    HOLDS(own_keys[s].of<u32>()[at] == keys.of<u32>()[i]);
    for (size_t b = 0; b < bytes[1]; ++b)
      HOLDS(flags.data()[i * bytes[1] + b] == (s == last ? 0 : bytes_of[s].data()[at * bytes[1] + b]));
  }
  ++runs;
}

void all_of(random_numbers& r) {
  constexpr wanted_results all = {true, true, true, true, true, true};
  for (const key_type& t : types) {
    compare(t, 300 + r.below(900), 5, 8, all, false, r);
    compare(t, 100 + r.below(200), 200, 1, all, false, r);
  }
  const key_type& wide = types[6];
  for (const size_t n : {0, 1, 31, 256, 257, 1000})
    for (const u32 shards : {1u, 2u, 16u, 17u, 256u}) compare(wide, n, shards, 4, all, r.below(4) == 0, r);
  for (const size_t bytes : {1, 2, 3, 4, 8, 12, 16, 40})
    compare(types[4], 500, r.below(2) ? 3 : 77, bytes, all, false, r);
  for (u32 some = 0; some < 64; ++some) {
    const wanted_results wants = {bool(some & 1), bool(some & 2),  bool(some & 4),
                                  bool(some & 8), bool(some & 16), bool(some & 32)};
    compare(wide, 300, some % 3 ? 7 : 50, 8, wants, false, r);
  }
  for (const size_t n : {1, 255, 257, 3000})
    for (const u32 shards : {1u, 2u, 7u, 16u}) spread(n, shards, {4, 1}, 0, r);
  for (const size_t bytes : {1, 2, 8, 12, 40}) spread(700, 3, {bytes, 1}, r.below(2) * 3, r);
  for (const size_t bytes : {2, 4, 12}) spread(700, 2, {8, bytes}, 0, r);
  compare(wide, 11'000 + r.below(300), 11, 8, all, false, r);  // several tiles of a strip
  compare(wide, 9'600 + r.below(600), 11, 8, all, false, r);   // more strips than a warp has lanes
}

gpuhash_status asked(const gpuhash_partition_request& q, gpuhash_error* err) { return gpuhash_partition(&q, err); }

// What a device is not asked for, each by name.
void refusals() {
  where = "a refusal";
  const int64_t some[4] = {};
  int32_t shards[4];
  const void* buffers[3] = {nullptr, some, some};
  ArrowSchema type{};
  type.format = "l", type.name = "", type.release = [](ArrowSchema*) {};
  ArrowArray rows{};
  rows.length = 2, rows.n_buffers = 2, rows.buffers = buffers, rows.release = [](ArrowArray*) {};
  gpuhash_partition_request q = GPUHASH_PARTITION_REQUEST_INIT;
  q.type = &type, q.keys = &rows, q.shards = 2, q.device.kind = GPUHASH_CUDA, q.out_shards = shards;
  gpuhash_error err = GPUHASH_ERROR_INIT;
  HOLDS(asked(q, &err) == GPUHASH_OK);
  const auto refused = [&](const char* message) {
    HOLDS(asked(q, &err) != GPUHASH_OK);
    if (!strstr(err.message, message)) wrong("'%s' is not in '%s'", message, err.message);
  };
  for (const char* format : {"u", "b", "d:30,2", "z"}) {
    type.format = format, rows.n_buffers = format[0] == 'u' || format[0] == 'z' ? 3 : 2;
    refused("they are one column of integers, floats or times of up to 8 bytes, or of bytes of one width");
  }
  type.format = "l", rows.n_buffers = 2, rows.null_count = -1, buffers[0] = some;
  refused("may have nulls: pass null_count 0");
  rows.null_count = 0, buffers[1] = reinterpret_cast<const char*>(some) + 4;
  refused("aligned to 8 bytes");
  type.format = "w:8";  // bytes may lie anywhere
  HOLDS(asked(q, &err) == GPUHASH_OK);
  rows.null_count = -1;
  refused("may have nulls: pass null_count 0");
  type.format = "l", rows.null_count = 0;
  buffers[1] = some, q.out_order = reinterpret_cast<int64_t*>(shards);
  refused("ask gpuhash_partition_scratch");
  HOLDS(gpuhash_partition_scratch(&q, &q.scratch_bytes, &err) == GPUHASH_OK && q.scratch_bytes > 0);
  refused("request.scratch is NULL");
  q.scratch = shards + 1;
  refused("not aligned to 256 bytes");
  HOLDS(gpuhash_partition_scratch(&q, nullptr, &err) == GPUHASH_INVALID_ARGUMENT);
  // A caller that was compiled before requests named a device: what lies behind its struct is not read.
  q.struct_size = offsetof(gpuhash_partition_request, device), q.out_order = nullptr, q.device.kind = 77;
  HOLDS(asked(q, &err) == GPUHASH_OK);
}

}  // namespace

int main(int count, char** given) {
  const u64 rounds = count > 1 ? strtoull(given[1], nullptr, 0) : 1;
  u64 seed = count > 2 ? strtoull(given[2], nullptr, 0) : 1;
  refusals();
  for (u64 round = 0; round < rounds; ++round, ++seed) {
    random_numbers r{seed};
    emulated::machine::the().seed = seed;
    all_of(r);
  }
  printf("%llu runs, %llu steps, nothing wrong\n", runs, (unsigned long long)emulated::machine::the().steps);
}
