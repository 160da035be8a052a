// Configurations: every field from the input, names, options and their values as text. What is accepted has to work;
// what is refused has to say why.
#include "fuzz.hpp"

namespace {

// The keys of options that exist, so that their values are reached; the input may spell others.
constexpr const char* known[] = {"row",         "hash",      "indexing",   "probe_limit", "buckets",
                                 "utilization", "allocator", "slab_bytes", "duplicates",  "tile"};

void use(gpuhash_table* t, const gpuhash_config& c) {
  const uint64_t keys[4] = {0, 1, ~uint64_t(0), ~uint64_t(0) - 1}, values[4] = {1, 2, 3, 4};
  uint64_t out[4] = {};
  uint8_t found[4] = {};
  gpuhash_error err = GPUHASH_ERROR_INIT;
  const gpuhash_status inserted = gpuhash_insert(t, 4, keys, c.value_bytes ? values : nullptr, nullptr, nullptr, &err);
  expect_explained(inserted, err);
  const gpuhash_status status = gpuhash_find(t, 4, keys, c.value_bytes ? out : nullptr, found, nullptr, &err);
  expect_explained(status, err);
  if (inserted == GPUHASH_OK && (status != GPUHASH_OK || !found[0] || !found[3]))
    wrong("a key that was inserted is missing");
  if (gpuhash_check(t, &err) != GPUHASH_OK) wrong("%s", err.message);
}

double real(bytes& in) {
  const uint64_t bits = in.number(8);
  double x;
  memcpy(&x, &bits, sizeof(x));
  return x;
}

void try_table(bytes& in) {
  const uint8_t shape = in.byte();
  little_memory little;
  const gpuhash_memory memory = little.resource();
  gpuhash_config c = GPUHASH_CONFIG_INIT;
  const auto& all = backends();
  c.key_bytes = shape & 1 ? 4 : shape & 2 ? 8 : uint32_t(in.number(4));
  c.value_bytes = shape & 4 ? 4 : shape & 8 ? 0 : uint32_t(in.number(4));
  c.capacity = in.number(shape & 16 ? 2 : 8);
  if (shape & 32) c.max_load_factor = real(in);
  if (shape & 64) c.device = {int32_t(in.number(4)), int32_t(in.number(4))}, c.grow = in.byte();
  c.threads = 1 + in.byte() % 2, c.seed = 1;
  c.memory = &memory;
  std::string name = all[in.byte() % all.size()].name;
  if (shape & 128) name = in.text();
  c.backend = name.c_str();
  std::string texts[6];
  gpuhash_option options[3] = {};
  for (; c.n_options < 3 && in.left; ++c.n_options) {
    std::string *key = texts + 2 * c.n_options, *value = key + 1;
    const uint8_t which = in.byte();
    *key = which < sizeof(known) / sizeof(known[0]) ? known[which] : in.text();
    *value = in.text();
    options[c.n_options] = {key->c_str(), value->c_str()};
  }
  c.options = options;
  gpuhash_table* t = nullptr;
  gpuhash_error err = GPUHASH_ERROR_INIT;
  const gpuhash_status status = gpuhash_table_create(&c, &t, &err);
  expect_explained(status, err);
  if ((status == GPUHASH_OK) != (t != nullptr)) wrong("status %d, table %p", status, (void*)t);
  if (t) use(t, c);
  gpuhash_table_destroy(t);
}

void try_allocator(bytes& in) {
  little_memory little;
  const gpuhash_memory memory = little.resource();
  gpuhash_slab_config c = GPUHASH_SLAB_CONFIG_INIT;
  const uint8_t shape = in.byte();
  std::string kind = in.text();
  c.kind = shape & 1 ? kind.c_str() : shape & 2 ? "slab_alloc" : "slab_alloc_light";
  c.unit_bytes = shape & 4 ? 64u << in.byte() % 3 : uint32_t(in.number(4));
  c.super_blocks = shape & 8 ? in.byte() : uint32_t(in.number(4));
  c.max_super_blocks = shape & 16 ? in.byte() : uint32_t(in.number(4));
  c.memory_blocks = shape & 32 ? in.byte() % 4 : uint32_t(in.number(4));
  c.threads = 1, c.memory = &memory, c.wipe = in.byte();
  gpuhash_slab_allocator* a = nullptr;
  gpuhash_error err = GPUHASH_ERROR_INIT;
  const gpuhash_status status = gpuhash_slab_allocator_create(&c, &a, &err);
  expect_explained(status, err);
  if (status != GPUHASH_OK) return;
  // Units that were handed out go back once; whatever the input names otherwise is refused.
  uint32_t units[8], named[4];
  uint8_t freed[8];
  const gpuhash_status got = gpuhash_slab_allocate(a, 8, units, nullptr, &err);
  expect_explained(got, err);
  for (uint32_t& u : named) u = uint32_t(in.number(4));
  void* addresses[4];
  if (gpuhash_slab_translate(a, 4, named, addresses, nullptr, &err) != GPUHASH_OK) wrong("%s", err.message);
  expect_explained(gpuhash_slab_free(a, 8, units, freed, nullptr, &err), err);
  for (int i = 0; i < 8; ++i)
    if ((units[i] != GPUHASH_NO_UNIT) != (freed[i] == GPUHASH_YES)) wrong("unit %x: status %u", units[i], freed[i]);
  if (gpuhash_slab_free(a, 4, named, freed, nullptr, &err) == GPUHASH_OK) wrong("units that are free were freed");
  gpuhash_slab_allocator_destroy(a);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  bytes in{data, size};
  if (in.byte() % 4)
    try_table(in);
  else
    try_allocator(in);
  return 0;
}
