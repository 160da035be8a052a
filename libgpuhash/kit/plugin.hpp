// From tables to a module: the entry point and the vtable, the same for every backend that uses the kit.
//
// plugin.cpp of a backend says:
//   GPUHASH_HOST_ENGINES(name)  and  GPUHASH_CUDA_ENGINES(name), which declare its kernels
//   make(), which reads the options and makes a table: make_table<T>, by_format
//   const plugin_parts parts = {host_engines_here, cuda_engines_here, cuda_device_here(), make};
//   GPUHASH_PLUGIN(backend) at its end, with a function that says name, traits and options: describe_backend<parts>
#pragma once
#include <cxxabi.h>
#include <stdlib.h>
#include <string.h>

#include <exception>
#include <new>

#include "libgpuhash/kit/host_device.hpp"
#include "libgpuhash/kit/options.hpp"
#include "libgpuhash/kit/table.hpp"
#include "libgpuhash/tile/types.hpp"

namespace gpuhash {

const gpuhash_host_api* host = nullptr;

inline void run_alone(uint32_t, size_t pieces, void (*body)(void*, size_t), void* context) {
  for (size_t piece = 0; piece < pieces; ++piece) body(context, piece);
}
constinit host_services host_team = {run_alone, [] { return uint32_t(1); }, host_services::as_needed};
constinit thread_local uint32_t threads_of_call = 1;

// The functions of this host that were added after plugin ABI 1.0.
inline void take_services(const gpuhash_host_api& api) {
  if (api.struct_size >= offsetof(gpuhash_host_api, default_threads) + sizeof(api.default_threads)) {
    host_team.parallel = api.parallel;
    host_team.default_threads = api.default_threads;
  }
  // For tests: equal keys of a block are combined only after a lost compare-and-swap, which is a matter of luck, and
  // those of a chunk only if a sample says so. GPUHASH_TEST_JOIN decides instead.
  if (const char* join = secure_getenv("GPUHASH_TEST_JOIN"))
    host_team.join = !strcmp(join, "always")   ? host_services::always
                     : !strcmp(join, "never")  ? host_services::never
                     : !strcmp(join, "blocks") ? host_services::blocks
                                               : host_services::as_needed;
}

// The kernels of a backend for this processor: the widest instruction set that it has. NULL: the module has none for it.
struct host_engines_of {
  const engine* (*baseline)();
  const engine* (*avx2)();
  const engine* (*avx512)();
};
inline const engine* choose_host_engines(const host_engines_of& e) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  // What meson.build lets the compiler use, all of it; "supports" includes that the system saves the registers.
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
                  host_detail::has_lzcnt();
  const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                  __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
  // For comparing instruction sets; a set that the processor lacks is never taken.
  const char* most = secure_getenv("GPUHASH_ISA");
  const bool no_v4 = most && strcmp(most, "avx512"), no_v3 = no_v4 && strcmp(most, "avx2");
  if (e.avx512 && v4 && !no_v4) return e.avx512();
  if (e.avx2 && v3 && !no_v3) return e.avx2();
#endif
  return e.baseline();
}

struct plugin_parts {
  const engine* (*host)();
  const engine* (*cuda)();        // NULL: built without CUDA
  const device_api* cuda_device;  // NULL: built without CUDA
  gpuhash_status (*make)(const table::setup&, table** out, gpuhash_error* err);
  bool pairs_are_words = true;  // a slot of more than 8 bytes needs a compare-and-swap of 16
};

template <const plugin_parts& parts>
struct vtable {
  static const device_api* device(int kind) {
    return kind == GPUHASH_CPU ? &host_device : kind == GPUHASH_CUDA ? parts.cuda_device : nullptr;
  }
  static gpuhash_status probe(gpuhash_device d, gpuhash_error* err) {
    return guarded(err, [&] { return probe_device(d, err); });
  }
  static gpuhash_status probe_device(gpuhash_device d, gpuhash_error* err) {
    const device_api* api = device(d.kind);
    if (!api)
      return host->fail(err, GPUHASH_UNSUPPORTED, "this backend was built without %s kernels",
                        d.kind == GPUHASH_CUDA ? "CUDA" : "such");
    char why[256] = "";
    if (api->probe(d.ordinal, why, sizeof(why))) return host->fail(err, GPUHASH_DEVICE_ERROR, "%s", why);
    return GPUHASH_OK;
  }
  static gpuhash_status create(const gpuhash_config* c, void** out, gpuhash_error* err) {
    return guarded(err, [&] { return create_table(c, out, err); });
  }
  static gpuhash_status create_table(const gpuhash_config* c, void** out, gpuhash_error* err) {
    if (const gpuhash_status s = probe_device(c->device, err)) return s;
    const bool cuda = c->device.kind == GPUHASH_CUDA;
    const device_api* api = device(c->device.kind);
    if (parts.pairs_are_words && c->value_bytes && (c->key_bytes == 8 || c->value_bytes == 8) &&
        !api->has_wide_cas(c->device.ordinal))
      return host->fail(err, GPUHASH_UNSUPPORTED,
                        "pairs of %u + %u bytes need a 16-byte compare-and-swap, which %s:%d lacks (compute "
                        "capability 9.0 and x86-64-v2 have it); use 4-byte keys and values, a set, or another device",
                        c->key_bytes, c->value_bytes, cuda ? "cuda" : "cpu", c->device.ordinal);
    void* graph = nullptr;
    const char* forbids = nullptr;
    if (const int e = api->captured_by(c->stream, &graph, &forbids))
      return host->fail(err, GPUHASH_DEVICE_ERROR, "the device has failed: %s", api->error_text(e));
    if (graph || forbids)
      return host->fail(
          err, GPUHASH_INVALID_ARGUMENT,
          "the stream %p is being captured into a CUDA graph, or a capture forbids its use: create the table "
          "before the capture",
          c->stream);
    table* t = nullptr;
    const gpuhash_status s = parts.make({*c, api, cuda ? parts.cuda() : parts.host()}, &t, err);
    *out = t;
    return s;
  }
  static table& of(void* t) { return *static_cast<table*>(t); }
  // Every entry goes through here: no exception may leave a module. (Those that end a thread pass through.)
  template <class Call>
  static gpuhash_status guarded(gpuhash_error* err, Call call) {
    try {
      return call();
    } catch (const abi::__forced_unwind&) {
      throw;
    } catch (const std::bad_alloc&) {
      return host->fail(err, GPUHASH_NO_MEMORY, "no host memory was left for the call's own records");
    } catch (const std::exception& e) {
      return host->fail(err, GPUHASH_INTERNAL, "internal error of the backend, please report it: %s", e.what());
    } catch (...) {
      return host->fail(err, GPUHASH_INTERNAL, "internal error of the backend, please report it: an unknown exception");
    }
  }
  static void destroy(void* t) {
    guarded(nullptr, [t] {
      delete static_cast<table*>(t);
      return gpuhash_status(GPUHASH_OK);
    });
  }
  static void fill(gpuhash_backend_v1& b) {
    b.probe = probe;
    b.create = create;
    b.destroy = destroy;
    b.run = [](void* t, const gpuhash_batch* q, gpuhash_error* e) {
      return guarded(e, [&] { return of(t).run(*q, e); });
    };
    b.info = [](void* t, gpuhash_table_info* o, gpuhash_error* e) {
      return guarded(e, [&] { return of(t).info(o, e); });
    };
    b.export_pairs = [](void* t, size_t* n, void* k, void* v, void* s, gpuhash_error* e) {
      return guarded(e, [&] { return of(t).export_pairs(n, k, v, s, e); });
    };
    b.export_part = [](void* t, gpuhash_export_cursor* c, size_t* n, void* k, void* v, void* s, gpuhash_error* e) {
      return guarded(e, [&] { return of(t).export_part(c, n, k, v, s, e); });
    };
    b.clear = [](void* t, void* s, gpuhash_error* e) { return guarded(e, [&] { return of(t).clear(s, e); }); };
    b.reserve = [](void* t, uint64_t k, void* s, gpuhash_error* e) {
      return guarded(e, [&] { return of(t).reserve(k, s, e); });
    };
    b.shrink = [](void* t, void* s, gpuhash_error* e) { return guarded(e, [&] { return of(t).shrink(s, e); }); };
    b.flush = [](void* t, void* s, gpuhash_error* e) {
      return guarded(e, [&] { return of(t).flush(0, ~uint64_t(0), s, e); });
    };
    b.flush_range = [](void* t, uint64_t f, uint64_t c, void* s, gpuhash_error* e) {
      return guarded(e, [&] { return of(t).flush(f, c, s, e); });
    };
    b.find_all = [](void* t, size_t n, const void* k, uint64_t* o, void* v, size_t m, void* s, gpuhash_error* e) {
      return guarded(e, [&] { return of(t).find_all(n, k, o, v, m, s, e); });
    };
    b.check = [](void* t, gpuhash_error* e) { return guarded(e, [&] { return of(t).check(e); }); };
    b.stats = [](void* t, size_t* n, gpuhash_stat* o, gpuhash_error* e) {
      return guarded(e, [&] { return of(t).stats(n, o, e); });
    };
    b.histogram = [](void* t, size_t n, uint64_t* c, gpuhash_error* e) {
      return guarded(e, [&] { return of(t).histogram(n, c, e); });
    };
  }
  static void fill_ordered(gpuhash_backend_v1& b) {
    b.lower_bound = [](void* t, size_t n, const void* keys, void* out_keys, void* out_values, uint8_t* found,
                       void* stream, gpuhash_error* e) {
      return neighbors(t, GPUHASH_AT_LEAST, n, keys, out_keys, out_values, found, stream, e);
    };
    b.neighbors = neighbors;
    b.range = [](void* t, size_t n, const void* low, const void* high, size_t most, void* out_keys, void* out_values,
                 uint64_t* counts, void* stream, gpuhash_error* e) {
      ordered_request q = between(n, low, high, out_keys, out_values, counts, stream);
      q.most = most;
      return guarded(e, [&] { return of(t).ranges(q, e); });
    };
    b.range_pairs = [](void* t, size_t n, const void* low, const void* high, const uint64_t* offsets, size_t max_pairs,
                       void* out_keys, void* out_values, uint64_t* counts, void* stream, gpuhash_error* e) {
      ordered_request q = between(n, low, high, out_keys, out_values, counts, stream);
      q.most = offsets ? max_pairs : ~size_t(0);
      q.offsets = offsets;
      return guarded(e, [&] { return of(t).ranges(q, e); });
    };
    b.range_all = range_all;
  }
  static gpuhash_status range_all(void* t, size_t n, const void* low, const void* high, uint64_t* offsets,
                                  size_t max_pairs, void* out_keys, void* out_values, void* stream, gpuhash_error* e) {
    ordered_request q = between(n, low, high, out_keys, out_values, nullptr, stream);
    q.most = max_pairs;
    return guarded(e, [&] { return of(t).range_all(q, offsets, e); });
  }
  static gpuhash_status neighbors(void* t, uint32_t which, size_t n, const void* keys, void* out_keys, void* out_values,
                                  uint8_t* found, void* stream, gpuhash_error* e) {
    ordered_request q = between(n, keys, nullptr, out_keys, out_values, nullptr, stream);
    q.which = which;
    q.found = found;
    return guarded(e, [&] { return of(t).neighbors(q, e); });
  }
  static ordered_request between(size_t n, const void* low, const void* high, void* out_keys, void* out_values,
                                 uint64_t* counts, void* stream) {
    ordered_request q{};
    q.n = n;
    q.low = low;
    q.high = high;
    q.out_keys = out_keys;
    q.out_values = out_values;
    q.counts = counts;
    q.stream = stream;
    return q;
  }
};

// A table of this type, which is destroyed again if it cannot be made whole.
template <class T, class Options>
gpuhash_status make_table(const table::setup& s, const Options& o, table** out, gpuhash_error* err) {
  auto t = std::make_unique<T>(s, o);
  const gpuhash_status status = t->create(err);
  if (status == GPUHASH_OK) *out = t.release();
  return status;
}

// make.operator()<F>() for the slot format of a config.
template <class Make>
gpuhash_status by_format(const gpuhash_config& c, Make make) {
  if (c.value_bytes == 0)
    return c.key_bytes == 4 ? make.template operator()<set32>() : make.template operator()<set64>();
  return c.key_bytes == 4 && c.value_bytes <= 4 ? make.template operator()<pair32>()
                                                : make.template operator()<pair64>();
}

// What a backend says of itself: with keys of 4 and 8 bytes, values of these or none, and the devices it is built for.
template <const plugin_parts& parts>
gpuhash_backend_v1 describe_backend(const char* name, const char* version, const char* summary, uint64_t traits) {
  gpuhash_backend_v1 b{};
  b.struct_size = sizeof(b);
  b.name = name;
  b.version = version;
  b.summary = summary;
  b.traits = traits;
  b.key_widths = 1u << 4 | 1u << 8;
  b.value_widths = 1u << 0 | 1u << 4 | 1u << 8;
  b.devices = 1u << GPUHASH_CPU | (parts.cuda ? 1u << GPUHASH_CUDA : 0);
  vtable<parts>::fill(b);
  return b;
}
template <const plugin_parts& parts, size_t n>
gpuhash_backend_v1 describe_backend(const char* name, const char* version, const char* summary, uint64_t traits,
                                    const gpuhash_option_info (&options)[n]) {
  gpuhash_backend_v1 b = describe_backend<parts>(name, version, summary, traits);
  b.options = options;
  b.n_options = n;
  return b;
}

// Copies what both sides know, and refuses a host of another major version.
inline gpuhash_status introduce(uint32_t major, const gpuhash_host_api* api, const gpuhash_backend_v1& mine,
                                gpuhash_backend_v1* out, gpuhash_error* err) {
  if (major != GPUHASH_PLUGIN_ABI_MAJOR)
    return api->fail(err, GPUHASH_UNSUPPORTED,
                     "this plugin speaks plugin ABI %u and the host speaks %u; install versions that match",
                     GPUHASH_PLUGIN_ABI_MAJOR, major);
  host = api;
  take_services(*api);
  const size_t n = out->struct_size < sizeof(mine) ? out->struct_size : sizeof(mine);
  memcpy(out, &mine, n);
  out->struct_size = n;
  if (api->abi_minor < 5) out->traits &= ~uint64_t{GPUHASH_TRAIT_ANSWERS};  // which that host does not know
  return GPUHASH_OK;
}

}  // namespace gpuhash

// A module without objects for an instruction set defines GPUHASH_WITHOUT_AVX2 or GPUHASH_WITHOUT_AVX512.
#if defined(GPUHASH_WITHOUT_AVX2) || !defined(__x86_64__)
#define GPUHASH_IF_AVX2(engines) nullptr
#else
#define GPUHASH_IF_AVX2(engines) engines
#endif
#if defined(GPUHASH_WITHOUT_AVX512) || !defined(__x86_64__)
#define GPUHASH_IF_AVX512(engines) nullptr
#else
#define GPUHASH_IF_AVX512(engines) engines
#endif

// Declares the kernels of backend `name`, as plugin_host.cpp and plugin_cuda.cu define them.
#define GPUHASH_HOST_ENGINES(name)                                                             \
  extern "C" const gpuhash::engine* gpuhash_##name##_engines_baseline();                       \
  extern "C" const gpuhash::engine* gpuhash_##name##_engines_avx2();                           \
  extern "C" const gpuhash::engine* gpuhash_##name##_engines_avx512();                         \
  static const gpuhash::engine* host_engines_here() {                                          \
    return gpuhash::choose_host_engines({gpuhash_##name##_engines_baseline,                    \
                                         GPUHASH_IF_AVX2(gpuhash_##name##_engines_avx2),       \
                                         GPUHASH_IF_AVX512(gpuhash_##name##_engines_avx512)}); \
  }
#if GPUHASH_WITH_CUDA
#define GPUHASH_CUDA_ENGINES(name)                                                            \
  extern "C" const gpuhash::engine* gpuhash_##name##_engines_cuda();                          \
  extern "C" const gpuhash::device_api* gpuhash_##name##_device_cuda();                       \
  static const gpuhash::engine* (*const cuda_engines_here)() = gpuhash_##name##_engines_cuda; \
  static const gpuhash::device_api* cuda_device_here() { return gpuhash_##name##_device_cuda(); }
#else
#define GPUHASH_CUDA_ENGINES(name)                                      \
  static const gpuhash::engine* (*const cuda_engines_here)() = nullptr; \
  static const gpuhash::device_api* cuda_device_here() { return nullptr; }
#endif

// The entry of a module, whose backend is what the function `backend` of namespace gpuhash says.
#define GPUHASH_PLUGIN(backend)                                                                                \
  extern "C" gpuhash_status gpuhash_plugin_init_v1(uint32_t host_major, uint32_t, const gpuhash_host_api* api, \
                                                   gpuhash_backend_v1* out, gpuhash_error* err) {              \
    static const gpuhash_backend_v1 mine = gpuhash::backend();                                                 \
    return gpuhash::introduce(host_major, api, mine, out, err);                                                \
  }
