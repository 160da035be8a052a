// linear_probe as a module: names, traits, options.
#include "libgpuhash/kit/plugin.hpp"
#include "structure.hpp"

GPUHASH_HOST_ENGINES(linear_probe)
GPUHASH_CUDA_ENGINES(linear_probe)

namespace gpuhash {
namespace {

constexpr gpuhash_option_info option_list[] = {
    {"row", "auto|1|4|8|16", "slots per group; a key's home is the start of a group. 1 is the blog's layout"},
    {"hash", "murmur|blog", "For reproduction. murmur: keyed by the seed. blog: the unseeded finaliser of the source"},
    {"indexing", "multiply|mask", "For reproduction. multiply: any capacity. mask: the blog's power of two"},
    {"probe_limit", "128 to 2147483648",
     "slots of a path after which an insert reports FULL. Default: 131072, 16384 if the table may not grow, or the "
     "whole "
     "table if it is filled above 0.9"},
    {"parts", "auto|always|never",
     "CUDA: serve a batch that adds or erases by parts of the table, each in the memory of a block. auto: 2^24 "
     "elements or more that insert, assign or accumulate, at least one for every 4 slots, that hardly repeat a key "
     "(fewer into a table that is nearly empty, or that accumulate); skewed batches that assign or add floats. "
     "CPU: combine equal keys of a batch that "
     "adds before they reach the table, and let a batch that one thread serves have the table to itself. auto: "
     "combine where a sample says that it pays"},
};

gpuhash_status parse(const gpuhash_config& c, linear_options& o, gpuhash_error* err) {
  uint32_t row = 0;
  gpuhash_status s = option_word(c, "row", "auto|1|4|8|16", &row, err);
  if (!s) s = option_word(c, "hash", "murmur|blog", &o.hash, err);
  if (!s) s = option_word(c, "indexing", "multiply|mask", &o.by_mask, err);
  if (!s) s = option_number(c, "probe_limit", 128, 1ull << 31, false, &o.probe_limit, err);
  if (!s) s = option_word(c, "parts", "auto|always|never", &o.parts, err);
  if (s) return s;
  // A table that may not grow takes as many keys as its capacity. A key too many is refused after `longest_run` slots,
  // if the load factor makes longer runs of full slots impossible, and else after a look at the whole table.
  if (!o.probe_limit) o.probe_limit = c.max_load_factor > 0.9 ? 1u << 31 : c.grow ? 1u << 17 : longest_run;
  // A group of one cache line is best while most keys lie in it; above a load of 0.8 a GPU does better with two.
  constexpr uint64_t rows[] = {0, 1, 4, 8, 16};
  o.row = rows[row];
  if (!o.row) {
    const uint32_t slot = c.value_bytes == 0 ? c.key_bytes : c.key_bytes + c.value_bytes == 8 ? 8 : 16;
    const bool two_lines = c.device.kind == GPUHASH_CUDA && c.max_load_factor > 0.8;
    o.row = (two_lines ? 128 : 64) / slot;
  }
  return GPUHASH_OK;
}

gpuhash_status make(const table::setup& given, table** out, gpuhash_error* err) {
  table::setup s = given;
  if (s.config.max_load_factor == 0.0) s.config.max_load_factor = 0.8;
  linear_options o;
  if (const gpuhash_status bad = parse(s.config, o, err)) return bad;
  return by_format(s.config, [&]<class F>() { return make_table<flat_table<linear_structure, F>>(s, o, out, err); });
}

const plugin_parts parts = {host_engines_here, cuda_engines_here, cuda_device_here(), make};

gpuhash_backend_v1 backend() {
  return describe_backend<parts>("linear_probe", "0.1.0",
                                 "open addressing with linear probing, lock free; after Farrell 2020",
                                 traits_of_kinds(single_kinds) | GPUHASH_TRAIT_GROW | GPUHASH_TRAIT_FLUSH, option_list);
}

}  // namespace
}  // namespace gpuhash

GPUHASH_PLUGIN(backend)
