// cuckoo as a module: names, traits, options. What is said here stands in manifest.toml, too.
#include "libgpuhash/kit/plugin.hpp"
#include "structure.hpp"

GPUHASH_HOST_ENGINES(cuckoo)
GPUHASH_CUDA_ENGINES(cuckoo)

namespace gpuhash {
namespace {

constexpr gpuhash_option_info option_list[] = {
    {"choices", "2..4", "rows that a key may be in, and hash functions, beside the stash"},
};

gpuhash_status parse(const gpuhash_config& c, cuckoo_options& o, gpuhash_error* err) {
  return option_number(c, "choices", 2, 4, false, &o.choices, err);
}

template <class F>
gpuhash_status make_one(table::setup s, const cuckoo_options& o, table** out, gpuhash_error* err) {
  if (s.config.max_load_factor == 0.0) s.config.max_load_factor = cuckoo_structure<F>::most_load(o.choices);
  return make_table<flat_table<cuckoo_structure, F>>(s, o, out, err);
}

gpuhash_status make(const table::setup& s, table** out, gpuhash_error* err) {
  cuckoo_options o;
  if (const gpuhash_status bad = parse(s.config, o, err)) return bad;
  const bool narrow = s.config.key_bytes == 4 && s.config.value_bytes <= 4;
  return narrow ? make_one<pair32>(s, o, out, err) : make_one<pair64>(s, o, out, err);
}

const plugin_parts parts = {host_engines_here, cuda_engines_here, cuda_device_here(), make};

gpuhash_backend_v1 backend() {
  gpuhash_backend_v1 b = describe_backend<parts>(
      "cuckoo", PLUGIN_VERSION, "cuckoo hashing with rows of 64 bytes, one move and a stash",
      GPUHASH_TRAIT_INSERT | GPUHASH_TRAIT_ACCUMULATE | GPUHASH_TRAIT_GROW | GPUHASH_TRAIT_FLUSH, option_list);
  b.value_widths = 1u << 4 | 1u << 8;  // no sets: ops.hpp says why
  return b;
}

}  // namespace
}  // namespace gpuhash

GPUHASH_PLUGIN(backend)
