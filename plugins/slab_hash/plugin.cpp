// slab_hash as a module: names, traits, options; and SlabAlloc on its own.
#include <algorithm>

#include "libgpuhash/kit/plugin.hpp"
#include "libgpuhash/kit/slab_allocator.hpp"
#include "table.hpp"

GPUHASH_HOST_ENGINES(slab_hash)
GPUHASH_CUDA_ENGINES(slab_hash)
extern "C" const gpuhash::slab_engine* gpuhash_slab_hash_slab_engine_baseline();
#if GPUHASH_WITH_CUDA
extern "C" const gpuhash::slab_engine* gpuhash_slab_hash_slab_engine_cuda();
static const gpuhash::slab_engine* cuda_slab_engine_here() { return gpuhash_slab_hash_slab_engine_cuda(); }
#else
static const gpuhash::slab_engine* cuda_slab_engine_here() { return nullptr; }
#endif

namespace gpuhash {
namespace {

constexpr gpuhash_option_info option_list[] = {
    {"buckets", "1 to 2^32", "base slabs; fixes them, so that the table never rebuilds itself. Default: from capacity"},
    {"utilization", "0.05 to 0.94", "memory utilisation aimed at for capacity keys; default 0.6"},
    {"allocator", "slab_alloc|slab_alloc_light",
     "For reproduction. slab_alloc: super blocks are added as needed. slab_alloc_light: one contiguous range"},
    {"slab_bytes", "auto|64|128|256", "bytes of a slab. auto: 128, or 64 for narrow slots on CUDA"},
    {"duplicates", "0|1", "1: insert_multi may add a key again"},
    {"hash", "murmur|paper",
     "For reproduction. murmur: keyed by the seed. paper: ((a k + b) mod p) mod B, with a and b from the seed"},
    {"tile", "auto|32",
     "For reproduction. CUDA: lanes that serve one element. 32: a warp serves its elements in turn, as in the paper"},
    {"parts", "auto|always|never",
     "CUDA: serve a batch that adds or erases by parts of the table, each in the memory of a block; without "
     "duplicates. "
     "auto: large ones of distinct keys, or of few keys. CPU: combine equal keys of a batch that adds before they "
     "reach the table, and let a batch that one thread serves have the table to itself. auto: combine where a sample "
     "says that it pays"},
};

// The fastest slab at this utilisation, as measured (docs/performance.md), that can reach it.
uint32_t fitting_slab(const gpuhash_config& c, double utilization) {
  const bool narrow = c.key_bytes == 4 && c.value_bytes <= 4;
  const uint32_t slot = c.value_bytes ? (narrow ? 8 : 16) : c.key_bytes;
  uint32_t bytes = c.device.kind == GPUHASH_CUDA && slot < 16 && utilization <= 0.75 ? 64 : 128;
  while (bytes < 256 && 1 - double(slot) / bytes <= utilization) bytes *= 2;
  return bytes;
}

gpuhash_status parse(const gpuhash_config& c, slab_options& o, gpuhash_error* err) {
  uint32_t slab = 0, tile = 0;
  gpuhash_status s = option_number(c, "buckets", 1, 1ull << 32, false, &o.buckets, err);
  if (!s) s = option_real(c, "utilization", 0.05, 0.94, &o.utilization, err);
  if (!s) s = option_word(c, "allocator", "slab_alloc|slab_alloc_light", &o.light, err);
  if (!s) s = option_word(c, "slab_bytes", "auto|64|128|256", &slab, err);
  if (!s) s = option_word(c, "duplicates", "0|1", &o.duplicates, err);
  if (!s) s = option_word(c, "hash", "murmur|paper", &o.hash, err);
  if (!s) s = option_word(c, "tile", "auto|32", &tile, err);
  if (!s) s = option_word(c, "parts", "auto|always|never", &o.parts, err);
  o.slab_bytes = slab ? 32u << slab : fitting_slab(c, o.utilization), o.tile = tile ? 32 : 0;
  return s;
}

gpuhash_status make(const table::setup& given, table** out, gpuhash_error* err) {
  table::setup s = given;
  if (s.config.max_load_factor == 0.0) s.config.max_load_factor = 1.0;  // average slab count
  slab_options o;
  if (const gpuhash_status bad = parse(s.config, o, err)) return bad;
  return by_format(s.config, [&]<class F>() { return make_table<slab_hash_table<F>>(s, o, out, err); });
}

const plugin_parts parts = {host_engines_here, cuda_engines_here, cuda_device_here(), make};

// ---- SlabAlloc on its own -----------------------------------------------------------------------------------------------

slab_allocator& of(void* a) { return *static_cast<slab_allocator*>(a); }
template <class Call>
gpuhash_status guarded(gpuhash_error* err, Call call) {
  return vtable<parts>::guarded(err, call);
}

gpuhash_status create_allocator(const gpuhash_slab_config* c, void** out, gpuhash_error* err) {
  if (const gpuhash_status s = vtable<parts>::probe_device(c->device, err)) return s;
  const bool cuda = c->device.kind == GPUHASH_CUDA, light = !strcmp(c->kind, "slab_alloc_light");
  if (!light && strcmp(c->kind, "slab_alloc"))
    return host->fail(err, GPUHASH_NOT_FOUND, "there is no slab allocator '%s'; choose slab_alloc or slab_alloc_light",
                      c->kind);
  auto a =
      std::make_unique<slab_allocator>(*c, *vtable<parts>::device(c->device.kind),
                                       cuda ? *cuda_slab_engine_here() : *gpuhash_slab_hash_slab_engine_baseline());
  const gpuhash_status s = a->create(light, err);
  if (s == GPUHASH_OK) *out = a.release();
  return s;
}

constexpr gpuhash_slab_api_v1 slab_api = {
    .struct_size = sizeof(gpuhash_slab_api_v1),
    .create = [](const gpuhash_slab_config* c, void** out,
                 gpuhash_error* e) { return guarded(e, [&] { return create_allocator(c, out, e); }); },
    .destroy =
        [](void* a) {
          guarded(nullptr, [a] {
            delete static_cast<slab_allocator*>(a);
            return gpuhash_status(GPUHASH_OK);
          });
        },
    .allocate = [](void* a, size_t n, uint32_t* u, void* s,
                   gpuhash_error* e) { return guarded(e, [&] { return of(a).allocate(n, u, s, e); }); },
    .free_units = [](void* a, size_t n, const uint32_t* u, uint8_t* st, void* s,
                     gpuhash_error* e) { return guarded(e, [&] { return of(a).release(n, u, st, s, e); }); },
    .translate = [](void* a, size_t n, const uint32_t* u, void** p, void* s,
                    gpuhash_error* e) { return guarded(e, [&] { return of(a).translate(n, u, p, s, e); }); },
    .stats = [](void* a, gpuhash_slab_stats* o,
                gpuhash_error* e) { return guarded(e, [&] { return of(a).stats(o, e); }); },
};

gpuhash_backend_v1 backend() {
  gpuhash_backend_v1 b = describe_backend<parts>(
      "slab_hash", "0.1.0", "chaining over slabs with an allocator of its own, lock free; after Ashkiani et al. 2018",
      slab_traits, option_list);
  b.slab = &slab_api;
  return b;
}

}  // namespace
}  // namespace gpuhash

GPUHASH_PLUGIN(backend)
