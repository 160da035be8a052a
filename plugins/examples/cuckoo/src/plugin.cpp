// cuckoo as a module: names, traits, options. What is said here stands in manifest.toml, too.
#include "libgpuhash/kit/plugin.hpp"
#include "structure.hpp"

GPUHASH_HOST_ENGINES(cuckoo)
GPUHASH_CUDA_ENGINES(cuckoo)

namespace gpuhash {
namespace {

const gpuhash_option_info option_list[] = {
    {"choices", "2..4", "rows that a key may be in, and hash functions, beside the stash"},
};

gpuhash_status parse(const gpuhash_config& c, cuckoo_options& o, gpuhash_error* err) {
  return option_number(c, "choices", 2, 4, false, &o.choices, err);
}

template <class F>
gpuhash_status make_one(table::setup s, const cuckoo_options& o, table** out, gpuhash_error* err) {
  if (s.config.max_load_factor == 0.0) s.config.max_load_factor = cuckoo_structure<F>::most_load(o.choices);
  auto t = std::make_unique<flat_table<cuckoo_structure, F>>(s, o);
  const gpuhash_status status = t->create(err);
  if (status == GPUHASH_OK) *out = t.release();
  return status;
}

gpuhash_status make(const table::setup& s, table** out, gpuhash_error* err) {
  cuckoo_options o;
  if (const gpuhash_status bad = parse(s.config, o, err)) return bad;
  const bool narrow = s.config.key_bytes == 4 && s.config.value_bytes <= 4;
  return narrow ? make_one<pair32>(s, o, out, err) : make_one<pair64>(s, o, out, err);
}

const plugin_parts parts = {host_engines_here, cuda_engines_here, cuda_device_here(), make};

gpuhash_backend_v1 describe() {
  gpuhash_backend_v1 b{};
  b.struct_size = sizeof(b);
  b.name = "cuckoo";
  b.version = PLUGIN_VERSION;  // of pyproject.toml
  b.summary = "cuckoo hashing with rows of 64 bytes, one move and a stash";
  b.traits = GPUHASH_TRAIT_INSERT | GPUHASH_TRAIT_ACCUMULATE | GPUHASH_TRAIT_GROW | GPUHASH_TRAIT_FLUSH;
  b.key_widths = 1u << 4 | 1u << 8;
  b.value_widths = 1u << 4 | 1u << 8;  // no sets: ops.hpp says why
  b.devices = 1u << GPUHASH_CPU | (parts.cuda ? 1u << GPUHASH_CUDA : 0);
  b.options = option_list;
  b.n_options = sizeof(option_list) / sizeof(option_list[0]);
  vtable<parts>::fill(b);
  return b;
}

}  // namespace
}  // namespace gpuhash

extern "C" gpuhash_status gpuhash_plugin_init_v1(uint32_t host_major, uint32_t, const gpuhash_host_api* api,
                                                 gpuhash_backend_v1* out, gpuhash_error* err) {
  static const gpuhash_backend_v1 mine = gpuhash::describe();
  return gpuhash::introduce(host_major, api, mine, out, err);
}
