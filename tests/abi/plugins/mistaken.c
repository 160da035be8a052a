/* A plugin that makes one mistake: the environment variable MISTAKE names it, test_mistakes.py says what the host has to
 * answer. Otherwise it is echo. Mistakes of the description are made in init, those of an answer in the entry. */
#define gpuhash_plugin_init_v1 init_of_echo
#include <math.h>
#include <stdlib.h>
#include <string.h>

#ifndef NAME
#define NAME "mistaken"
#endif
#include "echo.c"
#undef gpuhash_plugin_init_v1

static const gpuhash_host_api *the_host;
static const char *mistake = "";

static int is(const char *name) { return strcmp(mistake, name) == 0; }

/* ---- answers -------------------------------------------------------------------------------------------------------- */

static gpuhash_status bad_probe(gpuhash_device device, gpuhash_error *err) {
  UNUSED(&device, err);
  return is("probe_status") ? 1000 : GPUHASH_OK;
}

static gpuhash_status bad_create(const gpuhash_config *config, void **table, gpuhash_error *err) {
  if (is("create_null")) return GPUHASH_OK;
  if (is("create_status")) return 99;
  if (is("create_silent")) return GPUHASH_NO_MEMORY;
  return create(config, table, err);
}

static gpuhash_status bad_run(void *table, const gpuhash_batch *batch, gpuhash_error *err) {
  UNUSED(table);
  if (batch->out_status != NULL) memset(batch->out_status, GPUHASH_NO, batch->n);
  if (batch->counts != NULL && !is("counts_unset")) *batch->counts = (gpuhash_counts){0, 0};
  if (is("run_status")) return 77;
  if (is("run_negative")) return -5;
  if (is("run_silent")) return GPUHASH_FULL;
  if (is("run_endless_message")) {
    memset(err->message, 'A', sizeof err->message);
    return GPUHASH_FULL;
  }
  if (is("run_control_message")) return the_host->fail(err, GPUHASH_FULL, "no\nroom\x1b[2J");
  if (is("run_ok_with_error")) the_host->fail(err, GPUHASH_FULL, "nothing of the kind");
  if (is("run_lost_element")) batch->out_status[batch->n - 1] = GPUHASH_ELEMENT_FULL;
  if (is("run_status_byte")) {
    batch->out_status[0] = 9;
    return the_host->fail(err, GPUHASH_FULL, "one is full");
  }
  if (is("counts_many")) *batch->counts = (gpuhash_counts){batch->n, 1};
  if (is("counts_wrap")) *batch->counts = (gpuhash_counts){1, UINT64_MAX - 1};
  if (is("counts_failed")) *batch->counts = (gpuhash_counts){0, 1};
  return GPUHASH_OK;
}

static gpuhash_status bad_info(void *table, gpuhash_table_info *out, gpuhash_error *err) {
  UNUSED(table, err);
  out->slots = out->capacity = 64;
  out->size = out->used = 10;
  if (is("info_used")) out->used = 65;
  if (is("info_size")) out->size = UINT64_MAX;
  if (is("info_slots")) out->slots = UINT64_MAX;
  if (is("info_bytes")) out->bytes = (uint64_t)1 << 60;
  if (is("info_capacity")) out->capacity = (uint64_t)1 << 40;
  if (is("info_load")) out->max_load_factor = NAN;
  if (is("info_traits")) out->traits = (uint64_t)1 << 20;
  if (is("info_struct")) out->struct_size = 100000;
  return GPUHASH_OK;
}

static gpuhash_status bad_export(void *table, size_t *n, void *keys, void *values, void *stream, gpuhash_error *err) {
  UNUSED(table, values, stream, err);
  if (is("export_absurd")) *n = (size_t)1 << 50;
  if (is("export_more") && keys != NULL) ++*n;
  return GPUHASH_OK;
}

static gpuhash_status bad_part(void *table, gpuhash_export_cursor *cursor, size_t *n, void *keys, void *values,
                               void *stream, gpuhash_error *err) {
  UNUSED(table, keys, values, stream, err);
  cursor->state = is("part_state") ? 7 : GPUHASH_EXPORT_GOES_ON;
  cursor->table = NULL;
  cursor->struct_size = 0;
  if (is("part_none")) *n = 0;
  if (is("part_more")) ++*n;
  return GPUHASH_OK;
}

static gpuhash_status bad_stats(void *table, size_t *n, gpuhash_stat *out, gpuhash_error *err) {
  UNUSED(table, err);
  const size_t room = *n;
  *n = is("stats_many") ? (size_t)1 << 40 : 1;
  if (room == 0) return GPUHASH_OK;
  if (is("stats_endless"))
    memset(out[0].name, 'A', sizeof out[0].name);
  else if (is("stats_control"))
    strcpy(out[0].name, "a\tb");
  else if (!is("stats_nameless"))
    strcpy(out[0].name, "figure");
  return GPUHASH_OK;
}

static gpuhash_status bad_find_all(void *table, size_t n, const void *keys, uint64_t *offsets, void *values,
                                   size_t max_values, void *stream, gpuhash_error *err) {
  UNUSED(table, keys, values, stream, err);
  if (is("find_all_unset")) return GPUHASH_OK;
  memset(offsets, 0, (n + 1) * sizeof *offsets);
  if (is("find_all_falls")) offsets[1] = 5;
  for (size_t i = 0; i <= n && is("find_all_starts_late"); ++i) offsets[i] = 1;
  if (is("find_all_more")) offsets[n] = max_values + 1;
  return GPUHASH_OK;
}

static gpuhash_status bad_lower_bound(void *table, size_t n, const void *keys, void *out_keys, void *out_values,
                                      uint8_t *found, void *stream, gpuhash_error *err) {
  UNUSED(table, keys, out_keys, out_values, stream, err);
  memset(found, is("lower_bound_byte") ? 7 : 0, n);
  return GPUHASH_OK;
}

static gpuhash_status bad_range(void *table, size_t n, const void *low, const void *high, size_t max_per_range,
                                void *out_keys, void *out_values, uint64_t *counts, void *stream, gpuhash_error *err) {
  UNUSED(table, low, high, out_keys, out_values, stream, err);
  memset(counts, 0, n * sizeof *counts);
  if (is("range_more")) counts[n - 1] = max_per_range + 1;
  return GPUHASH_OK;
}

static gpuhash_status bad_whole(void *table, void *stream, gpuhash_error *err) {
  UNUSED(table, stream, err);
  return is("whole_status") ? 12 : GPUHASH_OK;
}
static gpuhash_status bad_reserve(void *table, uint64_t keys, void *stream, gpuhash_error *err) {
  UNUSED(&keys);
  return bad_whole(table, stream, err);
}
static gpuhash_status bad_check(void *table, gpuhash_error *err) { return bad_whole(table, NULL, err); }
static gpuhash_status bad_histogram(void *table, size_t n, uint64_t *counts, gpuhash_error *err) {
  UNUSED(&n, counts);
  return bad_whole(table, NULL, err);
}
static gpuhash_status bad_flush_range(void *table, uint64_t first, uint64_t count, void *stream, gpuhash_error *err) {
  UNUSED(&first, &count);
  return bad_whole(table, stream, err);
}

static gpuhash_status bad_slab_create(const gpuhash_slab_config *config, void **allocator, gpuhash_error *err) {
  return is("slab_create_null") ? GPUHASH_OK : slab_create(config, allocator, err);
}
static gpuhash_status bad_slab_allocate(void *allocator, size_t n, uint32_t *units, void *stream, gpuhash_error *err) {
  UNUSED(allocator, &n, units, stream, err);
  return is("slab_allocate_status") ? 77 : GPUHASH_OK;
}
static gpuhash_status bad_slab_stats(void *allocator, gpuhash_slab_stats *out, gpuhash_error *err) {
  UNUSED(allocator, err);
  out->units = 8;
  out->allocated = is("slab_stats") ? 9 : 1;
  return GPUHASH_OK;
}

/* ---- the description ------------------------------------------------------------------------------------------------ */

static gpuhash_slab_api_v1 bad_slab = {
    sizeof bad_slab, bad_slab_create, free, bad_slab_allocate, slab_free, slab_translate, bad_slab_stats,
};
static const gpuhash_option_info same_key[] = {{"one", "0|1", ""}, {"one", "0|1", ""}};
static const gpuhash_option_info odd_key[] = {{"two words", "0|1", ""}};

static void leave_out_an_entry(gpuhash_backend_v1 *out) {
#define ENTRY(name) \
  if (is("no_" #name)) out->name = NULL
  ENTRY(probe);
  ENTRY(create);
  ENTRY(destroy);
  ENTRY(run);
  ENTRY(info);
  ENTRY(export_pairs);
  ENTRY(clear);
  ENTRY(reserve);
  ENTRY(shrink);
  ENTRY(check);
  ENTRY(stats);
  ENTRY(histogram);
  ENTRY(flush);
  ENTRY(find_all);
  ENTRY(lower_bound);
  ENTRY(range);
}

static void describe_wrongly(gpuhash_backend_v1 *out) {
  if (is("size_zero")) out->struct_size = 0;
  if (is("size_huge")) out->struct_size = 100000;
  if (is("size_short")) out->struct_size = offsetof(gpuhash_backend_v1, check);
  if (is("trait_unknown")) out->traits |= (uint64_t)1 << 40;
  if (is("key_width_3")) out->key_widths = 1u << 3 | 1u << 4;
  if (is("key_width_16")) out->key_widths = 1u << 16 | 1u << 4;
  if (is("value_width_2")) out->value_widths = 1u << 2 | 1u << 4;
  if (is("wide_width_6")) {
    out->traits |= GPUHASH_TRAIT_WIDE;
    out->key_widths = 1u << 6;
  }
  if (is("no_key_width")) out->key_widths = 0;
  if (is("no_value_width")) out->value_widths = 0;
  if (is("no_device")) out->devices = 0;
  if (is("device_5")) out->devices |= 1u << 5;
  if (is("device_0")) out->devices |= 1u;
  if (is("name_null")) out->name = NULL;
  if (is("name_empty")) out->name = "";
  if (is("name_words")) out->name = "Two Words";
  if (is("name_control")) out->name = "a\nb";
  if (is("name_long")) out->name = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
  if (is("name_other")) out->name = "other";
  if (is("version_null")) out->version = out->summary = NULL;
  if (is("summary_control")) out->summary = "two\nlines";
  if (is("options_null")) out->n_options = 3;
  if (is("options_many")) {
    out->n_options = 1000000;
    out->options = same_key;
  }
  if (is("options_same")) {
    out->n_options = 2;
    out->options = same_key;
  }
  if (is("options_odd")) {
    out->n_options = 1;
    out->options = odd_key;
  }
  if (is("slab_short")) bad_slab.struct_size = 16;
  if (is("slab_hole")) bad_slab.translate = NULL;
  if (is("slab_last")) bad_slab.stats = NULL;
}

GPUHASH_API gpuhash_status gpuhash_plugin_init_v1(uint32_t major, uint32_t minor, const gpuhash_host_api *host,
                                                  gpuhash_backend_v1 *out, gpuhash_error *err) {
  const size_t offered = out->struct_size;
  the_host = host;
  if (getenv("MISTAKE") != NULL) mistake = getenv("MISTAKE");
  if (is("init_status")) return 77;
  if (is("init_negative")) return -1;
  if (is("init_fills_nothing")) return GPUHASH_OK;
  if (is("init_control_message")) return host->fail(err, GPUHASH_UNSUPPORTED, "bad\nnews");
  if (is("init_crash")) abort();
  if (is("init_endless"))
    for (volatile int i = 0;; i = 1 - i) continue;
  init_of_echo(major, minor, host, out, err);
  out->traits = 0x7f & ~(uint64_t)GPUHASH_TRAIT_WIDE;
  out->key_widths = 1u << 4 | 1u << 8;
  out->value_widths = 1u | 1u << 4 | 1u << 8;
  out->probe = bad_probe;
  out->create = bad_create;
  out->run = bad_run;
  out->info = bad_info;
  out->export_pairs = bad_export;
  out->export_part = bad_part;
  out->clear = out->shrink = out->flush = bad_whole;
  out->reserve = bad_reserve;
  out->check = bad_check;
  out->stats = bad_stats;
  out->histogram = bad_histogram;
  out->find_all = bad_find_all;
  out->lower_bound = bad_lower_bound;
  out->range = bad_range;
  out->flush_range = bad_flush_range;
  out->slab = &bad_slab;
  if (is("size_untouched")) out->struct_size = offered;
  leave_out_an_entry(out);
  describe_wrongly(out);
  return GPUHASH_OK;
}
