// skiplist as a module: names, traits, options.
#include "libgpuhash/kit/plugin.hpp"
#include "table.hpp"

GPUHASH_HOST_ENGINES(skiplist)
GPUHASH_CUDA_ENGINES(skiplist)

namespace gpuhash {
namespace {

constexpr gpuhash_option_info option_list[] = {
    {"order", "unsigned|signed|float", "how keys are compared; from Python it follows the dtype of the keys"},
    {"chunk", "auto|8|16|32", "words of a chunk, two of which are no entries. auto: 16, or 8 on CUDA"},
    {"p_chunk", "0 to 1", "For reproduction. Which part of the chunks is named one level up; default 1"},
    {"merge", "0 to 0.5", "a chunk less full than that takes over the next one's entries, if they fit; default 1/3"},
    {"build", "auto|always|never",
     "when a batch is sorted and merged with the whole table at once, or with its end. auto: large ones, and those "
     "behind the end; on CUDA in tables that grow"},
};

gpuhash_status parse(const gpuhash_config& c, skip_options& o, gpuhash_error* err) {
  uint32_t chunk = 0;
  gpuhash_status s = option_word(c, "order", "unsigned|signed|float", &o.order, err);
  if (!s) s = option_word(c, "chunk", "auto|8|16|32", &chunk, err);
  if (!s) s = option_real(c, "p_chunk", 0, 1, &o.p_chunk, err);
  if (!s) s = option_real(c, "merge", 0, 0.5, &o.merge, err);
  if (!s) s = option_word(c, "build", "auto|always|never", &o.build, err);
  o.chunk = chunk ? 4u << chunk : c.device.kind == GPUHASH_CUDA ? 8 : 16;
  if (!s && o.chunk == 32 && c.device.kind == GPUHASH_CUDA && (c.key_bytes == 8 || c.value_bytes == 8))
    return host->fail(err, GPUHASH_UNSUPPORTED,
                      "chunk=32 of keys or values of 8 bytes has more words than a warp reads at once; use 8 or 16");
  return s;
}

gpuhash_status make(const table::setup& given, table** out, gpuhash_error* err) {
  table::setup s = given;
  if (s.config.max_load_factor == 0.0) s.config.max_load_factor = 1.0;
  skip_options o;
  if (const gpuhash_status bad = parse(s.config, o, err)) return bad;
  const bool narrow = s.config.key_bytes == 4 && s.config.value_bytes <= 4;
  return narrow ? make_table<skiplist_table<pair32>>(s, o, out, err)
                : make_table<skiplist_table<pair64>>(s, o, out, err);
}

const plugin_parts parts = {host_engines_here, cuda_engines_here, cuda_device_here(), make};

gpuhash_backend_v1 backend() {
  gpuhash_backend_v1 b = describe_backend<parts>(
      "skiplist", "0.1.0", "an ordered dictionary of sorted chunks in levels; after Moscovici et al. 2017 (GFSL)",
      traits_of_kinds(single_kinds) | GPUHASH_TRAIT_GROW | GPUHASH_TRAIT_FLUSH | GPUHASH_TRAIT_ORDERED, option_list);
  vtable<parts>::fill_ordered(b);
  return b;
}

}  // namespace
}  // namespace gpuhash

GPUHASH_PLUGIN(backend)
