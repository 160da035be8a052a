/* echo: announces every trait, agrees to every call and stores nothing. The tests of arguments use it: a call that
 * reaches a plugin has passed every check. Compile it with -DNAME='"..."', and -DDEVICES= a bit for each kind. */
#include <stdlib.h>

#include "gpuhash/plugin.h"

#ifndef DEVICES
#define DEVICES (1u << GPUHASH_CPU)
#endif

#define UNUSED(...) (void)sizeof((const void *[]){__VA_ARGS__})

static gpuhash_status probe(gpuhash_device device, gpuhash_error *err) {
  UNUSED(&device, err);
  return GPUHASH_OK;
}
static gpuhash_status create(const gpuhash_config *config, void **table, gpuhash_error *err) {
  UNUSED(config, err);
  *table = malloc(1);
  return *table != NULL ? GPUHASH_OK : GPUHASH_NO_MEMORY;
}
static gpuhash_status run(void *table, const gpuhash_batch *batch, gpuhash_error *err) {
  UNUSED(table, err);
  if (batch->counts != NULL) *batch->counts = (gpuhash_counts){0, 0};
  return GPUHASH_OK;
}
static gpuhash_status info(void *table, gpuhash_table_info *out, gpuhash_error *err) {
  UNUSED(table, out, err);
  return GPUHASH_OK;
}
static gpuhash_status export_pairs(void *table, size_t *n, void *keys, void *values, void *stream, gpuhash_error *err) {
  UNUSED(table, keys, values, stream, err);
  *n = 0;
  return GPUHASH_OK;
}
static gpuhash_status on_stream(void *table, void *stream, gpuhash_error *err) {
  UNUSED(table, stream, err);
  return GPUHASH_OK;
}
static gpuhash_status reserve(void *table, uint64_t keys, void *stream, gpuhash_error *err) {
  UNUSED(table, &keys, stream, err);
  return GPUHASH_OK;
}
static gpuhash_status check(void *table, gpuhash_error *err) {
  UNUSED(table, err);
  return GPUHASH_OK;
}
static gpuhash_status stats(void *table, size_t *n, gpuhash_stat *out, gpuhash_error *err) {
  UNUSED(table, out, err);
  *n = 0;
  return GPUHASH_OK;
}
static gpuhash_status histogram(void *table, size_t n, uint64_t *counts, gpuhash_error *err) {
  UNUSED(table, &n, counts, err);
  return GPUHASH_OK;
}
static gpuhash_status find_all(void *table, size_t n, const void *keys, uint64_t *offsets, void *values,
                               size_t max_values, void *stream, gpuhash_error *err) {
  UNUSED(table, keys, values, &max_values, stream, err);
  for (size_t i = 0; i <= n; ++i) offsets[i] = 0;
  return GPUHASH_OK;
}
static gpuhash_status lower_bound(void *table, size_t n, const void *keys, void *out_keys, void *out_values,
                                  uint8_t *found, void *stream, gpuhash_error *err) {
  UNUSED(table, &n, keys, out_keys, out_values, found, stream, err);
  return GPUHASH_OK;
}
static gpuhash_status range(void *table, size_t n, const void *low, const void *high, size_t max_per_range,
                            void *out_keys, void *out_values, uint64_t *counts, void *stream, gpuhash_error *err) {
  UNUSED(table, &n, low, high, &max_per_range, out_keys, out_values, counts, stream, err);
  return GPUHASH_OK;
}

static gpuhash_status flush_range(void *table, uint64_t first, uint64_t count, void *stream, gpuhash_error *err) {
  UNUSED(table, &first, &count, stream, err);
  return GPUHASH_OK;
}

static gpuhash_status slab_create(const gpuhash_slab_config *config, void **allocator, gpuhash_error *err) {
  UNUSED(config, err);
  *allocator = malloc(1);
  return *allocator != NULL ? GPUHASH_OK : GPUHASH_NO_MEMORY;
}
static gpuhash_status slab_allocate(void *allocator, size_t n, uint32_t *units, void *stream, gpuhash_error *err) {
  UNUSED(allocator, &n, units, stream, err);
  return GPUHASH_OK;
}
static gpuhash_status slab_free(void *allocator, size_t n, const uint32_t *units, uint8_t *status, void *stream,
                                gpuhash_error *err) {
  UNUSED(allocator, &n, units, status, stream, err);
  return GPUHASH_OK;
}
static gpuhash_status slab_translate(void *allocator, size_t n, const uint32_t *units, void **addresses, void *stream,
                                     gpuhash_error *err) {
  UNUSED(allocator, &n, units, addresses, stream, err);
  return GPUHASH_OK;
}
static gpuhash_status slab_stats(void *allocator, gpuhash_slab_stats *out, gpuhash_error *err) {
  UNUSED(allocator, err);
  out->units = 1;
  return GPUHASH_OK;
}

static const gpuhash_slab_api_v1 slab = {
    sizeof slab, slab_create, free, slab_allocate, slab_free, slab_translate, slab_stats,
};

GPUHASH_API gpuhash_status gpuhash_plugin_init_v1(uint32_t major, uint32_t minor, const gpuhash_host_api *host,
                                                  gpuhash_backend_v1 *out, gpuhash_error *err) {
  UNUSED(&major, &minor, host, err);
  *out = (gpuhash_backend_v1){
      .struct_size = sizeof *out,
      .name = NAME, /* "echo", or "slab_hash" to provide the stand-alone allocator */
      .version = "1.0",
      .summary = "agrees to everything",
      .traits = 2 * (uint64_t)GPUHASH_TRAIT_ANSWERS - 1, /* all */
      .devices = DEVICES,
      .probe = probe,
      .create = create,
      .destroy = free,
      .run = run,
      .info = info,
      .export_pairs = export_pairs,
      .clear = on_stream,
      .reserve = reserve,
      .shrink = on_stream,
      .flush = on_stream,
      .check = check,
      .stats = stats,
      .histogram = histogram,
      .find_all = find_all,
      .lower_bound = lower_bound,
      .range = range,
      .slab = &slab,
      .flush_range = flush_range,
  };
  return GPUHASH_OK;
}
