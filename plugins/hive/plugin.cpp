// hive as a module: names, traits, options.
#include "libgpuhash/kit/plugin.hpp"
#include "table.hpp"

GPUHASH_HOST_ENGINES(hive)
GPUHASH_CUDA_ENGINES(hive)

namespace gpuhash {
namespace {

#define HASH_NAMES "bithash1, bithash2, murmur, city, crc32, crc64"

constexpr gpuhash_option_info option_list[] = {
    {"bucket", "8|16|32", "slots of a bucket; 32 is the paper's. Default: 8"},
    {"ways", "2|3", "buckets that a key may lie in. Default: 2"},
    {"stash", "0 to 0.25", "slots of the stash, by slots of the buckets; 0: none. Default: 1/64"},
    {"evictions", "0 to 64",
     "rounds in which keys make room for a key whose buckets are full, before it goes to the stash; 0: none. Default: "
     "8"},
    {"claim", "swap|commit",
     "For reproduction. How a key takes a free slot. swap: by one compare-and-swap. commit: the paper's two steps, "
     "under the lock of its "
     "home: the slot is claimed, then written. Default: swap"},
    {"contract", "0 to 0.25",
     "load below which a growing table gives memory back as keys are erased; 0: never. Default: 0.25"},
    {"segment", "auto|whole",
     "For reproduction. auto: the buckets of a key lie in the same 64 KiB of large tables. whole: anywhere"},
    {"parts", "auto|always|never",
     "CUDA: serve a batch that adds or erases by segments, each in the memory of a block; tables with bucket=8. auto: "
     "2^20 elements or more that insert, assign or accumulate, at least one for every 8 slots, that hardly repeat a "
     "key "
     "or accumulate; skewed batches that assign or accumulate; where many slots are dead, only batches with frequent "
     "keys. CPU: combine equal keys of a batch that adds before they reach the table, let a batch that one thread "
     "serves have the table to itself, and "
     "serve a large batch in the order of the table. auto: combine where a sample says that it pays; in order, 2^20 "
     "elements or more that add keys to a table that they leave three quarters full"},
    {"hashes", "two or three names, joined by +",
     "For reproduction. On the CPU, hash functions of a key's buckets, of " HASH_NAMES},
};

// "bithash1+city" to hive_options::functions and ways.
gpuhash_status parse_hashes(const gpuhash_config& c, hive_options& o, gpuhash_error* err) {
  const char* const text = option_text(c, "hashes");
  if (!text) return GPUHASH_OK;
  uint32_t functions = 0, ways = 0;
  bool known = true, twice = false;
  for (const char *name = text, *end = text; known && end; name = end + 1) {
    end = strchr(name, '+');
    const size_t length = end ? size_t(end - name) : strlen(name);
    uint32_t f = by_crc64;
    while (f && (strlen(hash_function_names[f]) != length || memcmp(hash_function_names[f], name, length))) --f;
    known = f && ways < most_ways;
    for (uint32_t way = 0; way < ways; ++way) twice |= (functions >> 4 * way & 15) == f;
    functions |= f << 4 * ways++;
  }
  if (!known || twice || ways < 2)
    return host->fail(err, GPUHASH_INVALID_ARGUMENT,
                      "option hashes=%s: give two or three different ones of " HASH_NAMES ", joined by +", text);
  if (option_text(c, "ways") && ways != o.ways)
    return host->fail(err, GPUHASH_INVALID_ARGUMENT,
                      "option hashes=%s names %u functions, and ways=%u asks for %u: leave out ways", text, ways,
                      uint32_t(o.ways), uint32_t(o.ways));
  if (c.device.kind == GPUHASH_CUDA)
    return host->fail(
        err, GPUHASH_UNSUPPORTED,
        "option hashes=%s: the kernels for CUDA have hive's own hash functions only; leave out hashes, or "
        "use device='cpu'",
        text);
  o.functions = functions, o.ways = ways;
  return GPUHASH_OK;
}

gpuhash_status parse(const gpuhash_config& c, hive_options& o, gpuhash_error* err) {
  uint32_t bucket = 0, ways = 0;
  gpuhash_status s = option_word(c, "bucket", "8|16|32", &bucket, err);
  if (!s) s = option_word(c, "ways", "2|3", &ways, err);
  if (!s) s = option_real(c, "stash", 0, 0.25, &o.stash, err);
  if (!s) s = option_number(c, "evictions", 0, most_eviction_rounds, false, &o.evictions, err);
  if (!s) s = option_word(c, "claim", "swap|commit", &o.commits, err);
  if (!s) s = option_real(c, "contract", 0, 0.25, &o.contract, err);
  if (!s) s = option_word(c, "segment", "auto|whole", &o.whole, err);
  if (!s) s = option_word(c, "parts", "auto|always|never", &o.parts, err);
  o.bucket = 8u << bucket, o.ways = 2 + ways;
  return s ? s : parse_hashes(c, o, err);
}

// Loads that tables of usual sizes reach with these steps of an insert (README.md).
double usual_load(const hive_options& o) {
  const bool stash = o.stash >= 1.0 / 64;
  if (o.evictions == 0) return stash ? 0.7 : 0.25;
  return stash || o.evictions >= eviction_rounds ? 0.9 : 0.75;
}

gpuhash_status make(const table::setup& given, table** out, gpuhash_error* err) {
  table::setup s = given;
  hive_options o;
  if (const gpuhash_status bad = parse(s.config, o, err)) return bad;
  if (s.config.max_load_factor == 0.0) s.config.max_load_factor = usual_load(o);
  return by_format(s.config, [&]<class F>() { return make_table<hive<F>>(s, o, out, err); });
}

const plugin_parts parts = {host_engines_here, cuda_engines_here, cuda_device_here(), make};

gpuhash_backend_v1 backend() {
  return describe_backend<parts>(
      "hive", "0.1.0", "bucketed cuckoo hashing for high loads, with a stash; hits lock free; after the Hive paper",
      traits_of_kinds(single_kinds) | GPUHASH_TRAIT_GROW | GPUHASH_TRAIT_FLUSH, option_list);
}

}  // namespace
}  // namespace gpuhash

GPUHASH_PLUGIN(backend)
