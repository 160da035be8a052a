// Sequences of operations against a map.
//
// The first bytes choose the backend, the widths, capacity, growth and options, the rest are operations: a kind, a number
// of keys, the keys by one byte each, a value. Keys of a batch are distinct, so that every answer is determined.
#include <map>
#include <set>

#include "fuzz.hpp"

namespace {

struct state {
  gpuhash_table* t = nullptr;
  uint32_t key_bytes, value_bytes;
  bool grows;
  std::map<uint64_t, uint64_t> model;

  uint64_t key_mask() const { return key_bytes == 8 ? ~uint64_t(0) : 0xffffffffu; }
  uint64_t value_mask() const { return value_bytes == 8 ? ~uint64_t(0) : value_bytes == 4 ? 0xffffffffu : 0; }
  // Few keys, some of them patterns that structures use themselves.
  uint64_t key(uint8_t b) const {
    const uint64_t k = b < 8    ? ~uint64_t(0) - b
                       : b < 16 ? b - 8
                       : b < 24 ? uint64_t(1) << (b - 8) * 2
                                : b * 0x9e3779b97f4a7c15u;
    return k & key_mask();
  }
};

struct batch {
  std::vector<uint64_t> keys, values;
  std::vector<unsigned char> key_array, value_array, out;
  std::vector<uint8_t> status, ops;

  batch(state& s, bytes& in) {
    std::set<uint64_t> seen;
    const size_t n = in.byte() % 64;
    const uint64_t value = in.number(4) * 0x100000001u;
    for (size_t i = 0; i < n; ++i) {
      const uint64_t k = s.key(in.byte());
      if (seen.insert(k).second) keys.push_back(k), values.push_back((value + i) & s.value_mask());
    }
    key_array.resize(keys.size() * s.key_bytes), value_array.resize(keys.size() * s.value_bytes);
    out.resize(keys.size() * 8), status.assign(keys.size(), 99), ops.resize(keys.size());
    for (size_t i = 0; i < keys.size(); ++i) {
      memcpy(key_array.data() + i * s.key_bytes, &keys[i], s.key_bytes);
      if (s.value_bytes) memcpy(value_array.data() + i * s.value_bytes, &values[i], s.value_bytes);
      constexpr uint8_t mixed[] = {GPUHASH_OP_NOP, GPUHASH_OP_INSERT, GPUHASH_OP_ASSIGN, GPUHASH_OP_FIND,
                                   GPUHASH_OP_ERASE};
      ops[i] = mixed[(in.byte() + i) % sizeof(mixed)];
    }
  }
  uint64_t value_of(const state& s, size_t i) const {
    uint64_t v = 0;
    memcpy(&v, out.data() + i * s.value_bytes, s.value_bytes);
    return v;
  }
};

// What element i answers, and what it does to the model.
void apply(state& s, const batch& b, uint8_t op, uint32_t combine, size_t i) {
  const auto at = s.model.find(b.keys[i]);
  const bool there = at != s.model.end();
  const bool puts = op == GPUHASH_OP_FIND_OR_INSERT;
  const bool adds = puts || op == GPUHASH_OP_INSERT || op == GPUHASH_OP_ASSIGN || op == GPUHASH_OP_ACCUMULATE;
  if (adds && b.status[i] > GPUHASH_YES) {
    if (s.grows || there) wrong("operation %u: status %u for key %llx", op, b.status[i], (unsigned long long)b.keys[i]);
    return;
  }
  const uint8_t expected = op == GPUHASH_OP_NOP ? 0 : adds ? !there : there;
  if (b.status[i] != expected)
    wrong("operation %u: status %u for key %llx, expected %u", op, b.status[i], (unsigned long long)b.keys[i],
          expected);
  const bool pops = op == GPUHASH_OP_POP;
  if ((op == GPUHASH_OP_FIND || pops) && s.value_bytes && b.value_of(s, i) != (there ? at->second : 0))
    wrong("key %llx has value %llx, expected %llx", (unsigned long long)b.keys[i], (unsigned long long)b.value_of(s, i),
          (unsigned long long)(there ? at->second : 0));
  if (puts && s.value_bytes && b.value_of(s, i) != (there ? at->second : b.values[i]))
    wrong("key %llx is said to have value %llx", (unsigned long long)b.keys[i], (unsigned long long)b.value_of(s, i));
  if ((op == GPUHASH_OP_ERASE || pops) && there)
    s.model.erase(at);
  else if (adds && !there)
    s.model[b.keys[i]] = b.values[i];
  else if (op == GPUHASH_OP_ASSIGN)
    at->second = b.values[i];
  else if (op == GPUHASH_OP_ACCUMULATE)
    at->second = combine == GPUHASH_ADD   ? (at->second + b.values[i]) & s.value_mask()
                 : combine == GPUHASH_MIN ? std::min(at->second, b.values[i])
                                          : std::max(at->second, b.values[i]);
}

void run_batch(state& s, bytes& in, uint8_t op) {
  if (op == GPUHASH_OP_ACCUMULATE && !s.value_bytes) op = GPUHASH_OP_INSERT;
  const uint32_t combine = in.byte() % 3;
  batch b(s, in);
  gpuhash_batch q = GPUHASH_BATCH_INIT;
  gpuhash_error err = GPUHASH_ERROR_INIT;
  q.op = op, q.n = b.keys.size(), q.combine = combine;
  q.keys = b.key_array.data(), q.out_status = b.status.data();
  const bool mixed = op == GPUHASH_OP_EXECUTE, finds = op == GPUHASH_OP_FIND || op == GPUHASH_OP_POP;
  if (s.value_bytes && !finds && op != GPUHASH_OP_ERASE) q.values = b.value_array.data();
  if (s.value_bytes && (finds || mixed || op == GPUHASH_OP_FIND_OR_INSERT)) q.out_values = b.out.data();
  if (mixed) q.ops = b.ops.data();
  const gpuhash_status status = gpuhash_run(s.t, &q, &err);
  expect_explained(status, err);
  if (status != GPUHASH_OK && (s.grows || (status != GPUHASH_FULL && status != GPUHASH_NO_MEMORY)))
    wrong("operation %u: %s", op, err.message);
  for (size_t i = 0; i < b.keys.size(); ++i) apply(s, b, mixed ? b.ops[i] : op, combine, i);
}

void whole_table(state& s, uint8_t what) {
  gpuhash_error err = GPUHASH_ERROR_INIT;
  gpuhash_status status = GPUHASH_OK;
  switch (what % 6) {
    case 0: status = gpuhash_flush(s.t, nullptr, &err); break;
    case 1: status = gpuhash_shrink(s.t, nullptr, &err); break;
    case 2: status = gpuhash_reserve(s.t, what * 16, nullptr, &err); break;
    case 3:
      if (what < 32) status = gpuhash_clear(s.t, nullptr, &err), s.model.clear();
      break;
    case 4: {
      gpuhash_stat figures[3];
      size_t n = 3;
      status = gpuhash_stats(s.t, &n, figures, &err);
      break;
    }
    case 5: {
      uint64_t counts[3];
      status = gpuhash_histogram(s.t, 3, counts, &err);
      break;
    }
  }
  if (status != GPUHASH_OK) wrong("maintenance %u: %s", what % 6, err.message);
}

void settle(state& s) {
  gpuhash_error err = GPUHASH_ERROR_INIT;
  if (gpuhash_check(s.t, &err) != GPUHASH_OK) wrong("%s", err.message);
  size_t n = s.model.size();
  std::vector<unsigned char> keys(n * s.key_bytes), values(n * 8);
  if (gpuhash_export(s.t, &n, keys.data(), s.value_bytes ? values.data() : nullptr, nullptr, &err) != GPUHASH_OK)
    wrong("%s", err.message);
  if (n != s.model.size()) wrong("%zu pairs, expected %zu", n, s.model.size());
  std::set<uint64_t> seen;
  for (size_t i = 0; i < n; ++i) {
    uint64_t k = 0, v = 0;
    memcpy(&k, keys.data() + i * s.key_bytes, s.key_bytes);
    memcpy(&v, values.data() + i * s.value_bytes, s.value_bytes);
    const auto at = s.model.find(k);
    if (at == s.model.end() || !seen.insert(k).second || at->second != v)
      wrong("pair %llx, %llx is exported", (unsigned long long)k, (unsigned long long)v);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  bytes in{data, size};
  const auto& all = backends();
  const gpuhash_backend_info& b = all[in.byte() % all.size()];
  const uint8_t shape = in.byte();
  state s{};
  s.key_bytes = shape & 1 ? 8 : 4;
  s.value_bytes = (shape >> 1 & 3) % 3 * 4;
  s.grows = shape >> 3 & 1;
  little_memory little;
  const gpuhash_memory memory = little.resource();
  const gpuhash_option narrow = {b.traits & GPUHASH_TRAIT_MULTI ? "slab_bytes" : "row",
                                 b.traits & GPUHASH_TRAIT_MULTI ? "64" : "1"};
  gpuhash_config config = GPUHASH_CONFIG_INIT;
  config.backend = b.name;
  config.key_bytes = s.key_bytes, config.value_bytes = s.value_bytes;
  config.capacity = in.byte(), config.grow = s.grows, config.seed = 1 + in.byte(), config.threads = 1;
  config.memory = &memory;
  if (shape >> 4 & 1 && (b.traits & GPUHASH_TRAIT_MULTI || !strcmp(b.name, "linear_probe")))
    config.options = &narrow, config.n_options = 1;
  gpuhash_error err = GPUHASH_ERROR_INIT;
  if (gpuhash_table_create(&config, &s.t, &err) != GPUHASH_OK) wrong("%s", err.message);
  while (in.left) {
    constexpr uint8_t ops[] = {GPUHASH_OP_INSERT, GPUHASH_OP_ASSIGN,         GPUHASH_OP_ACCUMULATE,
                               GPUHASH_OP_FIND,   GPUHASH_OP_ERASE,          GPUHASH_OP_EXECUTE,
                               GPUHASH_OP_POP,    GPUHASH_OP_FIND_OR_INSERT, 0};
    const uint8_t op = ops[in.byte() % sizeof(ops)];
    if (op)
      run_batch(s, in, op);
    else
      whole_table(s, in.byte());
  }
  settle(s);
  gpuhash_table_destroy(s.t);
  return 0;
}
