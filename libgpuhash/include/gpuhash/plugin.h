/* What a plugin implements. A plugin is one shared module that exports gpuhash_plugin_init_v1, and nothing else.
 *
 * The module may be written by hand in C against this header, or in three short C++ files with the kit of libgpuhash,
 * as the backends of this repository are; docs/plugins.md has both. It links neither libgpuhash nor a CUDA driver library.
 *
 * Compatibility: the major version is in the entry point's name. Structs are append-only. A host reads no further than
 * the plugin's struct_size says, and treats what is missing as NULL; a plugin reads no further into the host's structs
 * than their struct_size says. It announces no trait, width or device kind that its host's version does not have.
 *
 * Mandatory: name, at least one device and (without the trait WIDE) one key and one value width, and the entries probe,
 * create, destroy, run, info, export_pairs, clear, reserve, shrink, check, stats, histogram. With a trait its entries:
 * FLUSH flush, MULTI find_all, ORDERED lower_bound and range. All others, version, summary and options may be NULL or 0.
 *
 * Answers are checked. A module that lacks something is refused when it is loaded; a call that answers what the comments
 * below rule out fails with GPUHASH_PLUGIN_ERROR. Both errors name the module. What no host can contain is up to the
 * plugin: entries must not crash, must come back, and must write no further than the given sizes.
 */
#ifndef GPUHASH_PLUGIN_H
#define GPUHASH_PLUGIN_H

#include "gpuhash/gpuhash.h"

#define GPUHASH_PLUGIN_ABI_MAJOR 1u
#define GPUHASH_PLUGIN_ABI_MINOR 6u

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

  /* Since 1.1. A host of 1.0 ends here: its struct_size says so. */

  /* Run body(context, piece) for every piece 0 .. pieces-1, each once, on at most `threads` threads of which the caller is
   * one; returns when all have run. The threads are a team that all tables of the process share; pieces are claimed one
   * after another, so make several for each thread. Called by a body, it runs on the body's thread. A body must not throw,
   * and must not fork. */
  void (*parallel)(uint32_t threads, size_t pieces, void (*body)(void *context, size_t piece), void *context);
  /* The CPUs that this process may use, by its affinity and its cgroup's quota. A host of 1.1 has put it into
   * gpuhash_config.threads where a table of the CPU was to have 0. */
  uint32_t (*default_threads)(void);

  /* Since 1.4. */

  /* May this process use so many bytes of host memory more? NO_MEMORY, with the figures in err (which may be NULL), if the
   * system has fewer available or a control group of the process allows fewer. pinned: 1 for memory that cannot be swapped
   * out, else 0. Less than 64 MiB are counted, and compared once so many have been asked for. */
  gpuhash_status (*check_memory)(uint64_t bytes, uint32_t pinned, gpuhash_error *err);
  /* The same for memory that is mapped at p, private and writable, which nothing has been written to. 64 MiB and more of it
   * come into being, in steps, each of which is compared again, on at most `threads` threads, if they are more than a
   * sixteenth of what there is. After NO_MEMORY some may be there: unmap it. What host_memory allocates has been checked,
   * and not committed. */
  gpuhash_status (*commit_memory)(void *p, size_t bytes, uint32_t threads, gpuhash_error *err);
} gpuhash_host_api;

/* A backend. The host has checked every argument against gpuhash.h's contract before it calls (pointers, alignment,
 * device, overlap, sizes, the table being alive), except for the values of options. Every entry may be called from many
 * threads at once, create and destroy of one table excepted. Entries answer a status of gpuhash.h and, unless it is OK,
 * put a sentence into err, which is never NULL. None may throw. */
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
  /* OK with a table that is not NULL. config and what it points to end with the call; of memory, only the struct does. */
  gpuhash_status (*create)(const gpuhash_config *config, void **table, gpuhash_error *err);
  void (*destroy)(void *table);
  /* OK only if every element was carried out: no status byte is above GPUHASH_YES. FULL or NO_MEMORY: those that were not
   * have GPUHASH_ELEMENT_FULL or _NO_MEMORY. If counts is given, both of its fields are set (not added to). The op codes
   * of execute are GPUHASH_OP_NOP to GPUHASH_OP_ERASE on the CPU; on CUDA others get GPUHASH_ELEMENT_BAD_OP. */
  gpuhash_status (*run)(void *table, const gpuhash_batch *batch, gpuhash_error *err);
  /* One consistent picture: used <= slots, size <= used + 2, capacity <= slots + 2. traits: 0, or those that this table
   * has of the backend's. seed: 0, or the one that this table's hash uses, if that is not the config's. backend, device
   * and widths are the host's to fill in. */
  gpuhash_status (*info)(void *table, gpuhash_table_info *out, gpuhash_error *err);
  /* With keys: OK only if all pairs fit into *n; else INVALID_ARGUMENT. Both set *n to the number of pairs. */
  gpuhash_status (*export_pairs)(void *table, size_t *n, void *keys, void *values, void *stream, gpuhash_error *err);
  gpuhash_status (*clear)(void *table, void *stream, gpuhash_error *err);
  gpuhash_status (*reserve)(void *table, uint64_t keys, void *stream, gpuhash_error *err);
  gpuhash_status (*shrink)(void *table, void *stream, gpuhash_error *err);
  gpuhash_status (*flush)(void *table, void *stream, gpuhash_error *err);
  gpuhash_status (*check)(void *table, gpuhash_error *err);
  /* Writes min(*n, all) figures, with printable names that end within their array; sets *n to all, at most 1024. */
  gpuhash_status (*stats)(void *table, size_t *n, gpuhash_stat *out, gpuhash_error *err);
  gpuhash_status (*histogram)(void *table, size_t n, uint64_t *counts, gpuhash_error *err);
  /* offsets: n + 1 ascending numbers from 0 on. OK with values only if all fit into max_values. */
  gpuhash_status (*find_all)(void *table, size_t n, const void *keys, uint64_t *offsets, void *values,
                             size_t max_values, void *stream, gpuhash_error *err);
  gpuhash_status (*lower_bound)(void *table, size_t n, const void *keys, void *out_keys, void *out_values,
                                uint8_t *found, void *stream, gpuhash_error *err);
  gpuhash_status (*range)(void *table, size_t n, const void *low, const void *high, size_t max_per_range,
                          void *out_keys, void *out_values, uint64_t *counts, void *stream, gpuhash_error *err);
  /* Set by a plugin that offers slab allocation on its own; NULL elsewhere. */
  const struct gpuhash_slab_api_v1 *slab;
  gpuhash_status (*flush_range)(void *table, uint64_t first, uint64_t count, void *stream, gpuhash_error *err);

  /* Since 1.2. */

  /* Trait ORDERED, or NULL: gpuhash_neighbors and gpuhash_range_pairs. */
  gpuhash_status (*neighbors)(void *table, uint32_t which, size_t n, const void *keys, void *out_keys, void *out_values,
                              uint8_t *found, void *stream, gpuhash_error *err);
  gpuhash_status (*range_pairs)(void *table, size_t n, const void *low, const void *high, const uint64_t *offsets,
                                size_t max_pairs, void *out_keys, void *out_values, uint64_t *counts, void *stream,
                                gpuhash_error *err);

  /* Since 1.3. */

  /* Trait ORDERED, or NULL: gpuhash_range_all. offsets: n + 1 ascending numbers from 0 on. */
  gpuhash_status (*range_all)(void *table, size_t n, const void *low, const void *high, uint64_t *offsets,
                              size_t max_pairs, void *out_keys, void *out_values, void *stream, gpuhash_error *err);

  /* Since 1.6. */

  /* gpuhash_export_part, or NULL. The state is BEGINS or GOES_ON. OK with at most *n pairs, and with at least 1 unless it
   * sets the state to DONE; it changes the fields behind order as it likes. Any order is right. */
  gpuhash_status (*export_part)(void *table, gpuhash_export_cursor *cursor, size_t *n, void *keys, void *values,
                                void *stream, gpuhash_error *err);
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
