// Many threads x all operations x growth x all formats, through the C ABI, for every module that is named; the
// allocator; the registry. What a sanitizer sees is half of it: the reports of all batches have to add up as well.
//
//     hammer SCALE MODULE...
#include <string.h>

#include <memory>

#include "common.hpp"

namespace {

constexpr unsigned n_threads = 4;
constexpr size_t pool_size = 600;     // distinct keys, so that threads meet on them
constexpr size_t team_batch = 40000;  // larger than a chunk of the CPU driver: served by several threads

struct format {
  uint32_t key_bytes, value_bytes;
};
constexpr format formats[] = {{4, 0}, {4, 4}, {4, 8}, {8, 0}, {8, 4}, {8, 8}};

// Key i of the pool. The last ones are all ones and its neighbours, which structures use themselves.
uint64_t pool_key(size_t i) {
  return i + 6 >= pool_size ? ~uint64_t(0) - (pool_size - 1 - i) : (i + 1) * 0x9e3779b97f4a7c15u % 0xfffffff0u;
}

// Arrays of a batch, each exactly as long as it has to be.
struct arrays {
  std::unique_ptr<unsigned char[]> keys, values, out;
  std::unique_ptr<uint8_t[]> status, ops;
  std::vector<size_t> at;

  arrays(random_numbers& random, const format& f, size_t n, size_t width)
      : keys(new unsigned char[n * f.key_bytes]),
        values(new unsigned char[n * 8]),
        out(new unsigned char[n * width]),
        status(new uint8_t[n]),
        ops(new uint8_t[n]),
        at(n) {
    for (size_t i = 0; i < n; ++i) {
      at[i] = random.below(pool_size);
      const uint64_t key = pool_key(at[i]), value = random.below(1u << 20) << 10 | at[i];
      memcpy(keys.get() + i * f.key_bytes, &key, f.key_bytes);
      memcpy(values.get() + i * (f.value_bytes ? f.value_bytes : 8), &value, f.value_bytes ? f.value_bytes : 8);
      constexpr uint8_t mixed[] = {GPUHASH_OP_NOP, GPUHASH_OP_INSERT, GPUHASH_OP_ASSIGN, GPUHASH_OP_FIND,
                                   GPUHASH_OP_ERASE};
      ops[i] = mixed[random.below(sizeof(mixed))];
    }
  }
};

struct table {
  gpuhash_table* t = nullptr;
  format f{};
  bool multi = false;
  counted_memory memory;
  gpuhash_memory resource = memory.resource();

  table(const backend& b, const format& a_format, bool several, bool own_memory, uint64_t capacity)
      : f(a_format), multi(several) {
    gpuhash_config config = GPUHASH_CONFIG_INIT;
    const gpuhash_option duplicates = {"duplicates", "1"};
    config.backend = b.name.c_str();
    config.key_bytes = f.key_bytes, config.value_bytes = f.value_bytes;
    config.capacity = capacity, config.seed = 7, config.threads = 3;
    if (own_memory) config.memory = &resource;
    if (multi) config.options = &duplicates, config.n_options = 1;
    MUST(gpuhash_table_create(&config, &t, &err));
  }
  ~table() {
    gpuhash_table_destroy(t);
    if (memory.blocks != 0) wrong("a destroyed table keeps %zu blocks", memory.blocks.load());
  }
};

struct score {
  int64_t live = 0;  // pairs reported as added, less pairs reported as erased
  size_t batches = 0, elements = 0;
};

int64_t change(uint32_t op, uint8_t status) {
  if (status != GPUHASH_YES) return 0;
  if (op == GPUHASH_OP_ERASE) return -1;
  return op == GPUHASH_OP_INSERT || op == GPUHASH_OP_ASSIGN || op == GPUHASH_OP_ACCUMULATE ||
         op == GPUHASH_OP_INSERT_MULTI;
}

// A found value names its key in its low bits, whichever thread wrote it.
void check_found(const table& t, const arrays& a, size_t n, const uint8_t* ops) {
  for (size_t i = 0; i < n; ++i) {
    if (a.status[i] != GPUHASH_YES || (ops && ops[i] != GPUHASH_OP_FIND)) continue;
    uint32_t low = 0;
    memcpy(&low, a.out.get() + i * t.f.value_bytes, 4);
    if ((low & 1023) != a.at[i]) wrong("key %zu has the value of key %u", a.at[i], low & 1023);
  }
}

void one_batch(table& t, random_numbers& random, uint32_t op, size_t n, score& s) {
  arrays a(random, t.f, n, op == GPUHASH_OP_COUNT ? 8 : t.f.value_bytes ? t.f.value_bytes : 1);
  gpuhash_batch b = GPUHASH_BATCH_INIT;
  b.op = op, b.n = n, b.keys = a.keys.get();
  const bool adds = op == GPUHASH_OP_INSERT || op == GPUHASH_OP_ASSIGN || op == GPUHASH_OP_ACCUMULATE ||
                    op == GPUHASH_OP_INSERT_MULTI || op == GPUHASH_OP_EXECUTE;
  if (adds && t.f.value_bytes) b.values = a.values.get();
  if (op == GPUHASH_OP_COUNT || ((op == GPUHASH_OP_FIND || op == GPUHASH_OP_EXECUTE) && t.f.value_bytes))
    b.out_values = a.out.get();
  if (op != GPUHASH_OP_COUNT) b.out_status = a.status.get();
  if (op == GPUHASH_OP_EXECUTE) b.ops = a.ops.get();
  if (op == GPUHASH_OP_ACCUMULATE) b.combine = GPUHASH_MAX;  // keeps a value of the same key
  gpuhash_counts counts{};
  if (random.below(2)) b.counts = &counts;
  MUST(gpuhash_run(t.t, &b, &err));
  uint64_t yes = 0;
  for (size_t i = 0; i < n && op != GPUHASH_OP_COUNT; ++i) {
    if (a.status[i] > GPUHASH_YES) wrong("operation %u: status %u of a table that grows", op, a.status[i]);
    yes += a.status[i];
    s.live += change(op == GPUHASH_OP_EXECUTE ? a.ops[i] : op, a.status[i]);
  }
  if (b.counts && op != GPUHASH_OP_COUNT && counts.yes != yes)
    wrong("operation %u: counts say %llu, the statuses %llu", op, (unsigned long long)counts.yes,
          (unsigned long long)yes);
  if ((op == GPUHASH_OP_FIND || op == GPUHASH_OP_EXECUTE) && t.f.value_bytes)
    check_found(t, a, n, op == GPUHASH_OP_EXECUTE ? a.ops.get() : nullptr);
  ++s.batches, s.elements += n;
}

// One pass over everything that has the table to itself, or reads it whole.
void maintain(table& t, const backend& b, random_numbers& random) {
  gpuhash_table_info info{};
  info.struct_size = sizeof(info);
  uint64_t size = 0, counts[16];
  gpuhash_stat figures[8];
  size_t n_figures = 8, n_pairs = 0;
  MUST(gpuhash_check(t.t, &err));
  MUST(gpuhash_table_get_info(t.t, &info, &err));
  MUST(gpuhash_size(t.t, &size, &err));
  MUST(gpuhash_stats(t.t, &n_figures, figures, &err));
  MUST(gpuhash_histogram(t.t, 16, counts, &err));
  MUST(gpuhash_export(t.t, &n_pairs, nullptr, nullptr, nullptr, &err));
  if (!t.multi && n_pairs > pool_size) wrong("%zu pairs of %zu keys", n_pairs, pool_size);
  const size_t room = n_pairs + 100;
  std::unique_ptr<unsigned char[]> keys(new unsigned char[room * t.f.key_bytes]), values(new unsigned char[room * 8]);
  gpuhash_error err = GPUHASH_ERROR_INIT;
  const gpuhash_status got =
      gpuhash_export(t.t, &(n_pairs = room), keys.get(), t.f.value_bytes ? values.get() : nullptr, nullptr, &err);
  if (got != GPUHASH_OK && n_pairs <= room) wrong("export: %s", err.message);  // else: many were added in between
  MUST(gpuhash_reserve(t.t, random.below(4 * pool_size), nullptr, &err));
  MUST(gpuhash_shrink(t.t, nullptr, &err));
  if (b.traits & GPUHASH_TRAIT_FLUSH) MUST(gpuhash_flush(t.t, nullptr, &err));
}

void find_all(table& t, random_numbers& random) {
  constexpr size_t n = 50;
  arrays a(random, t.f, n, 1);
  std::vector<uint64_t> offsets(n + 1);
  std::vector<unsigned char> values(8 * 4096);
  gpuhash_error err = GPUHASH_ERROR_INIT;
  const gpuhash_status got = gpuhash_find_all(t.t, n, a.keys.get(), offsets.data(), values.data(), 4096, nullptr, &err);
  if (got != GPUHASH_OK && offsets[n] <= 4096) wrong("find_all: %s", err.message);
  if (!std::is_sorted(offsets.begin(), offsets.end())) wrong("the offsets of find_all are not ascending");
}

// The pairs that are there at the end are those that were reported.
void settle(table& t, const score& sum) {
  MUST(gpuhash_check(t.t, &err));
  uint64_t size = 0;
  MUST(gpuhash_size(t.t, &size, &err));
  if (int64_t(size) != sum.live)
    wrong("%llu pairs are there, %lld were reported", (unsigned long long)size, (long long)sum.live);
}

score hammer_table(const backend& b, const format& f, bool multi, bool own_memory, int scale) {
  table t(b, f, multi, own_memory, 0);
  std::vector<uint32_t> ops = {GPUHASH_OP_INSERT, GPUHASH_OP_ASSIGN,  GPUHASH_OP_FIND,
                               GPUHASH_OP_ERASE,  GPUHASH_OP_EXECUTE, GPUHASH_OP_COUNT};
  if (f.value_bytes && b.traits & GPUHASH_TRAIT_ACCUMULATE) ops.push_back(GPUHASH_OP_ACCUMULATE);
  if (multi) ops.push_back(GPUHASH_OP_INSERT_MULTI);
  std::vector<score> scores(n_threads);
  std::atomic<unsigned> left{n_threads};
  in_threads(n_threads + 1, [&](unsigned i) {
    random_numbers random{i + 1};
    if (i == n_threads) {
      while (left.load()) {
        maintain(t, b, random);
        if (multi) find_all(t, random);
        std::this_thread::yield();
      }
      return;
    }
    for (int call = 0; call < 60 * scale; ++call) {
      constexpr size_t sizes[] = {1, 7, 33, 500};
      const uint32_t op = ops[random.below(ops.size())];
      // Large batches repeat keys; of a table with several pairs per key they would only fill it.
      const bool large = call % 20 == 19 && op != GPUHASH_OP_INSERT_MULTI;
      one_batch(t, random, op, large ? team_batch : sizes[random.below(4)], scores[i]);
    }
    --left;
  });
  score sum;
  for (const score& s : scores) sum.live += s.live, sum.batches += s.batches, sum.elements += s.elements;
  settle(t, sum);
  if (multi) return sum;
  // erase_all empties the table through the team.
  std::vector<uint64_t> keys(team_batch);
  for (size_t i = 0; i < team_batch; ++i) keys[i] = pool_key(i % pool_size);
  std::vector<uint32_t> narrow(keys.begin(), keys.end());
  MUST(gpuhash_erase(t.t, team_batch, f.key_bytes == 8 ? (const void*)keys.data() : narrow.data(), nullptr, nullptr,
                     &err));
  settle(t, {});
  return sum;
}

// Distinct keys through growth, by all threads at once, each its own; every key is there at once and at the end.
void hammer_growth(const backend& b, const format& f, int scale) {
  table t(b, f, false, true, 0);
  const size_t each = 6000 * size_t(scale), step = 500;
  in_threads(n_threads, [&](unsigned i) {
    std::vector<uint32_t> k4(step), v4(step);
    std::vector<uint64_t> k8(step), v8(step);
    std::vector<uint8_t> status(step);
    for (size_t from = 0; from < each; from += step) {
      for (size_t j = 0; j < step; ++j)
        k8[j] = (i * each + from + j) * 0x9e3779b1u % (1u << 31), v8[j] = ~k8[j], k4[j] = uint32_t(k8[j]),
        v4[j] = uint32_t(v8[j]);
      const void* const keys = f.key_bytes == 4 ? (const void*)k4.data() : k8.data();
      const void* const values = f.value_bytes == 0 ? nullptr : f.value_bytes == 4 ? (const void*)v4.data() : v8.data();
      MUST(gpuhash_insert(t.t, step, keys, values, status.data(), nullptr, &err));
      if (size_t(std::count(status.begin(), status.end(), GPUHASH_YES)) != step)
        wrong("a fresh key is not reported as inserted");
      MUST(gpuhash_contains(t.t, step, keys, status.data(), nullptr, &err));
      if (size_t(std::count(status.begin(), status.end(), GPUHASH_YES)) != step)
        wrong("a key that was inserted is missing");
    }
  });
  settle(t, {int64_t(n_threads * each)});
}

// Units are handed out once, and hold what was written into them.
void hammer_allocator(const char* kind, int scale) {
  gpuhash_slab_config config = GPUHASH_SLAB_CONFIG_INIT;
  counted_memory memory;
  const gpuhash_memory resource = memory.resource();
  config.kind = kind, config.memory_blocks = 2, config.super_blocks = 4, config.seed = 3, config.threads = 3;
  config.memory = &resource;
  gpuhash_slab_allocator* a = nullptr;
  MUST(gpuhash_slab_allocator_create(&config, &a, &err));
  in_threads(n_threads, [&](unsigned i) {
    random_numbers random{i + 100};
    for (int round = 0; round < 20 * scale; ++round) {
      const size_t n = random.below(300) + 1;
      std::vector<uint32_t> units(n);
      std::vector<void*> addresses(n);
      MUST(gpuhash_slab_allocate(a, n, units.data(), nullptr, &err));
      MUST(gpuhash_slab_translate(a, n, units.data(), addresses.data(), nullptr, &err));
      for (size_t j = 0; j < n; ++j) *static_cast<uint64_t*>(addresses[j]) = uint64_t(i) << 32 | units[j];
      for (size_t j = 0; j < n; ++j)
        if (*static_cast<uint64_t*>(addresses[j]) != (uint64_t(i) << 32 | units[j]))
          wrong("unit %x was handed out twice", units[j]);
      gpuhash_slab_stats stats{};
      stats.struct_size = sizeof(stats);
      MUST(gpuhash_slab_get_stats(a, &stats, &err));
      MUST(gpuhash_slab_free(a, n, units.data(), nullptr, nullptr, &err));
    }
  });
  gpuhash_slab_stats stats{};
  stats.struct_size = sizeof(stats);
  MUST(gpuhash_slab_get_stats(a, &stats, &err));
  if (stats.allocated != 0) wrong("%llu units are taken after all were freed", (unsigned long long)stats.allocated);
  gpuhash_slab_allocator_destroy(a);
  if (memory.blocks != 0) wrong("a destroyed allocator keeps %zu blocks", memory.blocks.load());
}

// Opening, listing, probing, and tables that come and go.
void hammer_registry(const std::vector<const char*>& paths, int scale) {
  in_threads(n_threads, [&](unsigned i) {
    for (int round = 0; round < 20 * scale; ++round) {
      const backend b = open_module(paths[(i + unsigned(round)) % paths.size()]);
      gpuhash_error err = GPUHASH_ERROR_INIT;
      for (size_t j = 0; j < gpuhash_backend_count(); ++j) {
        gpuhash_backend_info info{};
        info.struct_size = sizeof(info);
        MUST(gpuhash_backend_get(j, &info, &err));
      }
      MUST(gpuhash_backend_probe(b.name.c_str(), {GPUHASH_CPU, 0}, &err));
      if (gpuhash_backend_load("no such backend", nullptr, &err) != GPUHASH_NOT_FOUND)
        wrong("an unknown backend was loaded");
      table t(b, formats[i % 6], false, round % 2, 10);
      score s;
      random_numbers random{i + 1};
      one_batch(t, random, GPUHASH_OP_INSERT, 20, s);
    }
  });
}

}  // namespace

int main(int argc, char** argv) {
  const int scale = argc > 2 ? atoi(argv[1]) : 0;
  if (scale < 1) return fprintf(stderr, "usage: hammer SCALE MODULE...\n"), 2;
  const std::vector<const char*> paths(argv + 2, argv + argc);
  for (const char* path : paths) {
    const backend b = open_module(path);
    score sum;
    const auto add = [&sum](const score& s) { sum.batches += s.batches, sum.elements += s.elements; };
    for (const format& f : formats) {
      add(hammer_table(b, f, false, f.value_bytes != 4, scale));
      if (b.traits & GPUHASH_TRAIT_MULTI) add(hammer_table(b, f, true, f.value_bytes == 4, scale));
      if (b.traits & GPUHASH_TRAIT_GROW) hammer_growth(b, f, scale);
    }
    printf("  %s: %zu batches of %zu elements in all, from %u threads, nothing wrong\n", b.name.c_str(), sum.batches,
           sum.elements, n_threads);
    if (b.name == "slab_hash")
      for (const char* kind : {"slab_alloc", "slab_alloc_light"}) hammer_allocator(kind, scale);
  }
  hammer_registry(paths, scale);
  printf("  registry and allocators: nothing wrong\n");
}
