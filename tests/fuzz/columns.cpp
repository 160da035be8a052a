// Arrow structs of any content go into an index and are hashed: they are refused, or served as a model of std::map
// serves them.
//
// What Arrow's structs cannot say, the sizes of buffers, is right: buffers are as long as lengths, offsets and counts
// of the struct ask for, and AddressSanitizer watches their ends. All else may be wrong: counts, pointers, offsets,
// views, indices.
#include "gpuhash/columns.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include "fuzz.hpp"

namespace {

const char* const formats[] = {"n",   "b",     "c",        "C",         "s",   "S",   "i",   "I",    "l",
                               "L",   "e",     "f",        "g",         "u",   "U",   "z",   "Z",    "vu",
                               "vz",  "w:3",   "w:0",      "tdD",       "tdm", "tts", "ttn", "tsu:", "tss:UTC",
                               "tDn", "d:9,2", "d:9,2,32", "d:30,-2",   "+s",  "+l",  "+m",  "tiM",  "w:-1",
                               "d:5", "ts",    "",         "d:9,2,256", "xyz"};

struct array;

// One array and its schema, with all that they point to.
struct array {
  ArrowSchema schema{};
  ArrowArray data{};
  std::vector<std::unique_ptr<uint8_t[]>> memory;
  std::vector<const void*> buffers;
  std::vector<std::unique_ptr<array>> children;
  std::vector<ArrowSchema*> schemas;
  std::vector<ArrowArray*> arrays;
  std::unique_ptr<array> dictionary;

  uint8_t* room(size_t n) {
    memory.push_back(std::make_unique<uint8_t[]>(n));
    buffers.push_back(memory.back().get());
    return memory.back().get();
  }
};

void keep(ArrowSchema*) {}
void keep(ArrowArray*) {}

size_t width_of(const std::string& f) {
  if (f == "c" || f == "C") return 1;
  if (f == "s" || f == "S" || f == "e") return 2;
  if (f == "i" || f == "I" || f == "f" || f == "tdD" || f == "tts" || f == "d:9,2,32") return 4;
  if (f.substr(0, 2) == "d:") return 16;
  if (f == "w:3") return 3;
  return f == "w:0" ? 0 : 8;
}

// Values are drawn from few, so that rows repeat.
uint64_t value(bytes& in) {
  const uint8_t b = in.byte();
  return b < 200 ? b % 5 : b < 210 ? ~uint64_t{0} : in.number(8);
}

template <class Offset>
void offsets(bytes& in, array* a, int64_t rows, bool sound) {
  auto* const p = reinterpret_cast<Offset*>(a->room(sizeof(Offset) * size_t(rows + 1)));
  Offset at = Offset(in.byte() % 4), most = at;
  for (int64_t i = 0; i <= rows; ++i) {
    p[i] = at;
    if (!sound && in.byte() < 8) p[i] = Offset(value(in));
    at = Offset(at + in.byte() % 16);
    if (p[i] >= 0 && p[i] < 4096 && p[i] > most) most = p[i];
  }
  if (p[rows] > 4096) p[rows] = Offset(most);  // the bytes that a struct asks for have to be there
  const size_t n = p[rows] < 0 ? 0 : size_t(p[rows]);
  uint8_t* const text = a->room(n);
  for (size_t i = 0; i < n; ++i) text[i] = uint8_t("ab\0"[in.byte() % 3]);
}

void views(bytes& in, array* a, int64_t rows, bool sound) {
  struct cell {
    int32_t length, head, heap, offset;
  };
  auto* const p = reinterpret_cast<cell*>(a->room(16 * size_t(rows)));
  const int heaps = in.byte() % 3;
  std::vector<int64_t> sizes;
  for (int i = 0; i < heaps; ++i) {
    sizes.push_back(16 + in.byte() % 64);
    uint8_t* const text = a->room(size_t(sizes.back()));
    for (int64_t j = 0; j < sizes.back(); ++j) text[j] = uint8_t('a' + j % 2);
  }
  for (int64_t i = 0; i < rows; ++i) {
    p[i].length = in.byte() % (heaps ? 17 : 13);
    memset(&p[i].head, 'a' + in.byte() % 2, 12);
    if (p[i].length > 12) memcpy(&p[i].head, "abab", 4), p[i].heap = in.byte() % heaps, p[i].offset = 0;
    if (!sound && in.byte() < 8)
      p[i].length = int32_t(value(in)), p[i].heap = int32_t(value(in)), p[i].offset = int32_t(value(in));
  }
  uint8_t* const lengths = a->room(8 * sizes.size());
  if (!sizes.empty()) memcpy(lengths, sizes.data(), 8 * sizes.size());
  if (sizes.empty()) a->buffers.back() = nullptr;
}

std::unique_ptr<array> make(bytes& in, const std::string& format, int64_t length, bool sound, int depth) {
  auto a = std::make_unique<array>();
  const int64_t offset = in.byte() % 3, rows = length + offset;
  a->schema = {strdup(format.c_str()),
               in.byte() % 2 ? "x" : nullptr,
               nullptr,
               in.byte() % 4,
               0,
               nullptr,
               nullptr,
               keep,
               nullptr};
  a->data.length = length;
  a->data.offset = offset;
  a->data.null_count = in.byte() % 3 ? -1 : 0;
  const bool fixed = format != "n" && format[0] != '+';
  if (format != "n") {
    uint8_t* const valid = a->room(size_t(rows + 7) / 8);
    for (int64_t i = 0; i < (rows + 7) / 8; ++i) valid[i] = uint8_t(in.byte() | in.byte());
    if (in.byte() % 2) a->buffers.back() = nullptr;
  }
  if (format == "+s" && depth < 3) {
    const int n = in.byte() % 4;
    for (int i = 0; i < n; ++i) {
      const char* const child = formats[in.byte() % (sound ? 32 : std::size(formats))];
      const bool short_one = !sound && in.byte() < 8;
      a->children.push_back(make(in, child, short_one ? length / 2 : rows, sound, depth + 1));
      a->schemas.push_back(&a->children.back()->schema);
      a->arrays.push_back(&a->children.back()->data);
    }
    a->schema.n_children = a->data.n_children = n;
    a->schema.children = a->schemas.data();
    a->data.children = a->arrays.data();
  } else if (format == "u" || format == "z") {
    offsets<int32_t>(in, a.get(), rows, sound);
  } else if (format == "U" || format == "Z") {
    offsets<int64_t>(in, a.get(), rows, sound);
  } else if (format == "vu" || format == "vz") {
    views(in, a.get(), rows, sound);
  } else if (format == "b") {
    uint8_t* const p = a->room(size_t(rows + 7) / 8);
    for (int64_t i = 0; i < (rows + 7) / 8; ++i) p[i] = in.byte();
  } else if (fixed) {
    const size_t width = width_of(format);
    uint8_t* const p = a->room(width * size_t(rows));
    for (int64_t i = 0; i < rows; ++i) {
      const uint64_t v[2] = {value(in), 0};
      memcpy(p + size_t(i) * width, v, width);
    }
    if (depth < 2 && width >= 1 && width <= 8 && strchr("cCsSiIlL", format[0]) && in.byte() % 4 == 0) {
      const char* const values = formats[in.byte() % (sound ? 31 : std::size(formats))];
      a->dictionary = make(in, values, 5, sound, 2);
      a->schema.dictionary = &a->dictionary->schema;
      a->data.dictionary = &a->dictionary->data;
      if (sound)
        for (int64_t i = 0; i < rows; ++i) {
          const uint64_t index = p[size_t(i) * width] % 5;
          memcpy(p + size_t(i) * width, &index, width);
        }
    }
  }
  a->data.n_buffers = int64_t(a->buffers.size());
  a->data.buffers = a->buffers.data();
  a->data.release = keep;
  if (!sound) switch (in.byte()) {
      case 0: a->data.n_buffers -= format[0] == 'v' ? a->data.n_buffers : 1; break;  // the last one has sizes
      case 1: a->data.buffers = nullptr; break;
      case 2: a->data.n_children += 1; break;
      case 3: a->data.length = -1; break;
      case 4: a->data.offset = INT64_MIN; break;
      case 5: a->data.null_count = length + 1; break;
      case 6: a->data.release = nullptr; break;
      case 7: a->schema.release = nullptr; break;
      case 8: a->schema.children = nullptr; break;
      case 9: a->data.children = nullptr; break;
      case 10: a->data.dictionary = nullptr; break;
      case 11:
        if (!a->buffers.empty()) a->buffers[in.byte() % a->buffers.size()] = nullptr;
        break;
      case 12: a->schema.n_children = -1; break;
      case 13:
        if (!a->arrays.empty()) a->arrays[0] = nullptr;
        break;
      default: break;
    }
  return a;
}

void drop(array* a) {
  free(const_cast<char*>(a->schema.format));
  for (auto& c : a->children) drop(c.get());
  if (a->dictionary) drop(a->dictionary.get());
}

// Rows are grouped by shard, in their order, or refused.
void partition(array* a, const gpuhash_index_config& config, uint32_t shards) {
  gpuhash_error err = GPUHASH_ERROR_INIT;
  const auto n = size_t(std::max<int64_t>(a->data.length, 0));
  std::vector<int32_t> ids(n);
  std::vector<int64_t> offsets(shards + 1), order(n);
  std::vector<uint8_t> keys(16 * n);
  gpuhash_partition_request r = GPUHASH_PARTITION_REQUEST_INIT;
  r.type = &a->schema;
  r.keys = &a->data;
  r.shards = shards;
  r.seed = config.seed;
  r.threads = config.threads;
  r.out_keys = keys.data();
  expect_explained(gpuhash_partition(&r, &err), err);
  r.out_keys = nullptr;
  r.out_shards = ids.data();
  r.out_offsets = offsets.data();
  r.out_order = order.data();
  const gpuhash_status s = gpuhash_partition(&r, &err);
  expect_explained(s, err);
  if (s != GPUHASH_OK) return;
  if (offsets[shards] != a->data.length) wrong("%zu rows, and %lld in shards", n, (long long)offsets[shards]);
  for (uint32_t shard = 0; shard < shards; ++shard)
    for (int64_t i = offsets[shard]; i < offsets[shard + 1]; ++i)
      if (ids[size_t(order[size_t(i)])] != int32_t(shard) ||
          (i > offsets[shard] && order[size_t(i - 1)] >= order[size_t(i)]))
        wrong("row %lld is out of place", (long long)order[size_t(i)]);
}

// Rows have one published hash if they have one id, and others if they have others.
void hash(array* a, const gpuhash_index_config& config, const std::vector<int64_t>& ids) {
  gpuhash_error err = GPUHASH_ERROR_INIT;
  std::vector<uint64_t> one(ids.size()), both(2 * ids.size());
  if (gpuhash_hash_rows(&a->schema, &a->data, 64, config.seed, config.threads, one.data(), &err) ||
      gpuhash_hash_rows(&a->schema, &a->data, 128, config.seed, config.threads, both.data(), &err))
    wrong("rows have ids and no hashes: %s", err.message);
  std::map<int64_t, std::pair<uint64_t, uint64_t>> of_id;
  std::map<std::pair<uint64_t, uint64_t>, int64_t> ids_of;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (one[i] != both[2 * i]) wrong("row %zu has two hashes of 64 bits", i);
    if (ids[i] < 0 || config.floats == GPUHASH_FLOATS_BITS) continue;
    const std::pair own(both[2 * i], both[2 * i + 1]);
    if (of_id.emplace(ids[i], own).first->second != own) wrong("rows of id %lld have two hashes", (long long)ids[i]);
    if (ids_of.emplace(own, ids[i]).first->second != ids[i]) wrong("id %lld has another one's hash", (long long)ids[i]);
  }
}

// Of a sound array: its ids agree with each other, whatever the threads, and its keys come back.
void serve(array* a, const gpuhash_index_config& config) {
  gpuhash_error err = GPUHASH_ERROR_INIT;
  gpuhash_index* index = nullptr;
  gpuhash_status s = gpuhash_index_create(&a->schema, &config, &index, &err);
  expect_explained(s, err);
  if (s) return;
  const auto n = size_t(a->data.length < 0 ? 0 : a->data.length);
  std::vector<int64_t> ids(n, -9), found(n, -9);
  s = gpuhash_index_add(index, &a->schema, &a->data, ids.data(), &err);
  expect_explained(s, err);
  if (s == GPUHASH_OK) {
    hash(a, config, ids);
    gpuhash_index_info info{sizeof(info), 0, 0, 0};
    if (gpuhash_index_get_info(index, &info, &err)) wrong("%s", err.message);
    int64_t next = 0;
    for (const int64_t id : ids) {
      if (id > next || id < -1 || (id == -1 && config.nulls != GPUHASH_NULLS_DROP))
        wrong("id %lld after %lld keys", (long long)id, (long long)next);
      next += id == next;
    }
    if (uint64_t(next) != info.size) wrong("%lld ids, %llu keys", (long long)next, (unsigned long long)info.size);
    if (gpuhash_index_find(index, &a->schema, &a->data, found.data(), &err) || found != ids)
      wrong("not found again: %s", err.message);
    std::vector<uint8_t> mask(ids.size(), 9);
    if (gpuhash_index_contains(index, &a->schema, &a->data, mask.data(), &err)) wrong("%s", err.message);
    for (size_t i = 0; i < ids.size(); ++i)
      if (mask[i] != (ids[i] >= 0)) wrong("row %zu has id %lld and mask %d", i, (long long)ids[i], mask[i]);
    ArrowSchema type{};
    ArrowArray keys{};
    if (gpuhash_index_keys(index, 0, info.size, &type, &keys, &err)) wrong("%s", err.message);
    std::vector<int64_t> own(size_t(info.size), -9);
    if (gpuhash_index_find(index, &type, &keys, own.data(), &err)) wrong("keys are refused: %s", err.message);
    for (size_t i = 0; i < own.size(); ++i)
      if (own[i] != int64_t(i)) wrong("key %zu has id %lld", i, (long long)own[i]);
    type.release(&type);
    keys.release(&keys);
  }
  gpuhash_index_destroy(index);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  bytes in{data, size};
  const bool sound = in.byte() % 2;
  gpuhash_index_config config = GPUHASH_INDEX_CONFIG_INIT;
  config.nulls = in.byte() % 3;
  config.floats = in.byte() % 2;
  config.threads = 1 + in.byte() % 3;
  config.seed = 7;
  const char* const format = formats[in.byte() % (sound ? 32 : std::size(formats))];
  const int64_t length = in.byte() % 40;
  auto a = make(in, format, length, sound, 0);
  serve(a.get(), config);
  gpuhash_error err = GPUHASH_ERROR_INIT;
  std::vector<uint64_t> hashes(2 * size_t(length));
  expect_explained(gpuhash_hash_rows(&a->schema, &a->data, 128, 0, config.threads, hashes.data(), &err), err);
  partition(a.get(), config, 1 + in.byte() % 7u);
  // Rows of one type looked up among those of another.
  auto b = make(in, formats[in.byte() % 32], length, sound, 0);
  gpuhash_index* index = nullptr;
  if (gpuhash_index_create(&a->schema, &config, &index, &err) == GPUHASH_OK) {
    std::vector<int64_t> ids(size_t(length), -9);
    expect_explained(gpuhash_index_add(index, &a->schema, &a->data, nullptr, &err), err);
    expect_explained(gpuhash_index_find(index, &b->schema, &b->data, ids.data(), &err), err);
    std::vector<uint8_t> mask(ids.size(), 9);
    expect_explained(gpuhash_index_contains(index, &b->schema, &b->data, mask.data(), &err), err);
    expect_explained(gpuhash_index_add(index, &b->schema, &b->data, ids.data(), &err), err);
    gpuhash_index_destroy(index);
  }
  drop(a.get());
  drop(b.get());
  return 0;
}
