/* plugin.h as it was when the plugin ABI was 1.0; frozen, for test_loading.py. */
/* What a plugin implements. A plugin is one shared module that exports gpuhash_plugin_init_v1, and nothing else.
 *
 * The module may be written by hand in C against this header, or in three short C++ files with the kit of libgpuhash,
 * as the backends of this repository are. It links neither libgpuhash nor a CUDA driver library.
 *
 * Compatibility: the major version is in the entry point's name. Structs are append-only. A host reads no further than
 * the plugin's struct_size says, and treats what is missing as NULL; a plugin reads no further into the host's structs
 * than their struct_size says.
 */
#ifndef GPUHASH_PLUGIN_H
#define GPUHASH_PLUGIN_H

#include "gpuhash/gpuhash.h"

#define GPUHASH_PLUGIN_ABI_MAJOR 1u
#define GPUHASH_PLUGIN_ABI_MINOR 0u

#ifdef __cplusplus
extern "C" {
#endif

/* What the host offers to a plugin. Valid for the life of the process. */
typedef struct gpuhash_host_api {
  size_t struct_size;
  uint32_t abi_major, abi_minor;
  uint32_t version_major, version_minor, version_patch;
  /* printf into err (which may be NULL) and return code, so that a plugin writes: return host->fail(err, CODE, ...); */
  gpuhash_status (*fail)(gpuhash_error *err, gpuhash_status code, const char *format, ...);
  /* Aligned, huge-page-advised host memory: the default memory resource of the CPU device. */
  const gpuhash_memory *host_memory;
} gpuhash_host_api;

typedef struct gpuhash_option_info {
  const char *key;
  const char *choices; /* "8|16", "uint", ...: shown when a value is refused */
  const char *help;
} gpuhash_option_info;

/* A backend. The host has checked every argument against gpuhash.h's contract before it calls (pointers, alignment,
 * device, overlap, sizes, the table being alive), except for the values of options. Entries whose trait is absent may
 * be NULL. Every entry may be called from many threads at once, create and destroy of one table excepted. */
typedef struct gpuhash_backend_v1 {
  size_t struct_size;
  const char *name;
  const char *version;
  const char *summary;
  uint64_t traits;
  uint32_t key_widths, value_widths; /* bit b set: b bytes */
  uint32_t devices;                  /* bit k set: device kind k */
  const gpuhash_option_info *options;
  size_t n_options;

  gpuhash_status (*probe)(gpuhash_device device, gpuhash_error *err);
  gpuhash_status (*create)(const gpuhash_config *config, void **table, gpuhash_error *err);
  void (*destroy)(void *table);
  gpuhash_status (*run)(void *table, const gpuhash_batch *batch, gpuhash_error *err);
  gpuhash_status (*info)(void *table, gpuhash_table_info *out, gpuhash_error *err);
  gpuhash_status (*export_pairs)(void *table, size_t *n, void *keys, void *values, void *stream, gpuhash_error *err);
  gpuhash_status (*clear)(void *table, void *stream, gpuhash_error *err);
  gpuhash_status (*reserve)(void *table, uint64_t keys, void *stream, gpuhash_error *err);
  gpuhash_status (*shrink)(void *table, void *stream, gpuhash_error *err);
  gpuhash_status (*flush)(void *table, void *stream, gpuhash_error *err);
  gpuhash_status (*check)(void *table, gpuhash_error *err);
  gpuhash_status (*stats)(void *table, size_t *n, gpuhash_stat *out, gpuhash_error *err);
  gpuhash_status (*histogram)(void *table, size_t n, uint64_t *counts, gpuhash_error *err);
  gpuhash_status (*find_all)(void *table, size_t n, const void *keys, uint64_t *offsets, void *values,
                             size_t max_values, void *stream, gpuhash_error *err);
  gpuhash_status (*lower_bound)(void *table, size_t n, const void *keys, void *out_keys, void *out_values,
                                uint8_t *found, void *stream, gpuhash_error *err);
  gpuhash_status (*range)(void *table, size_t n, const void *low, const void *high, size_t max_per_range,
                          void *out_keys, void *out_values, uint64_t *counts, void *stream, gpuhash_error *err);
  /* Set by a plugin that offers slab allocation on its own; NULL elsewhere. */
  const struct gpuhash_slab_api_v1 *slab;
  gpuhash_status (*flush_range)(void *table, uint64_t first, uint64_t count, void *stream, gpuhash_error *err);
} gpuhash_backend_v1;

/* The stand-alone allocator of gpuhash.h, as a plugin provides it. */
typedef struct gpuhash_slab_api_v1 {
  size_t struct_size;
  gpuhash_status (*create)(const gpuhash_slab_config *config, void **allocator, gpuhash_error *err);
  void (*destroy)(void *allocator);
  gpuhash_status (*allocate)(void *allocator, size_t n, uint32_t *units, void *stream, gpuhash_error *err);
  gpuhash_status (*free_units)(void *allocator, size_t n, const uint32_t *units, uint8_t *status, void *stream,
                               gpuhash_error *err);
  gpuhash_status (*translate)(void *allocator, size_t n, const uint32_t *units, void **addresses, void *stream,
                              gpuhash_error *err);
  gpuhash_status (*stats)(void *allocator, gpuhash_slab_stats *out, gpuhash_error *err);
} gpuhash_slab_api_v1;

/* The one symbol of a module. out->struct_size is set by the host to what it knows; the plugin fills what both know and
 * sets out->struct_size to what it filled. A plugin that cannot serve this host returns UNSUPPORTED and says why. */
GPUHASH_API gpuhash_status gpuhash_plugin_init_v1(uint32_t host_major, uint32_t host_minor,
                                                  const gpuhash_host_api *host, gpuhash_backend_v1 *out,
                                                  gpuhash_error *err);

#ifdef __cplusplus
}
#endif
#endif
