/* toy with one fault that no host can see in a single answer; the environment variable WRONG names it. The conformance
 * suite has to find each, and say which check did. */
#define gpuhash_plugin_init_v1 init_of_toy
#include <stdlib.h>

#include "toy.c"
#undef gpuhash_plugin_init_v1

static int is(const char *name) { return getenv("WRONG") != NULL && strcmp(getenv("WRONG"), name) == 0; }

static gpuhash_status wrong_create(const gpuhash_config *config, void **out, gpuhash_error *err) {
  gpuhash_config c = *config;
  if (is("ignores_seed")) c.seed = 5;
  if (is("ignores_memory")) c.memory = NULL;
  return create(&c, out, err);
}

static void wrong_destroy(void *self) {
  if (!is("leaks")) destroy(self);
}

static gpuhash_status wrong_run(void *self, const gpuhash_batch *batch, gpuhash_error *err) {
  if (is("crashes") && batch->op == GPUHASH_OP_ERASE) abort();
  const gpuhash_status status = run(self, batch, err);
  if (is("counts_nothing") && batch->counts != NULL) *batch->counts = (gpuhash_counts){0, 0};
  return status;
}

static gpuhash_status wrong_info(void *self, gpuhash_table_info *out, gpuhash_error *err) {
  const gpuhash_status status = info(self, out, err);
  if (is("tells_no_bytes")) out->bytes = 42;
  return status;
}

static gpuhash_status wrong_export(void *self, size_t *n, void *keys, void *values, void *stream, gpuhash_error *err) {
  const size_t room = *n;
  const gpuhash_status status = export_pairs(self, n, keys, values, stream, err);
  if (is("exports_more") && (keys == NULL || room >= *n + 3)) *n += 3;
  return status;
}

static gpuhash_status wrong_shrink(void *self, void *stream, gpuhash_error *err) {
  if (is("hangs"))
    for (volatile int i = 0;; i = 1 - i) continue;
  return shrink(self, stream, err);
}

static gpuhash_status wrong_stats(void *self, size_t *n, gpuhash_stat *out, gpuhash_error *err) {
  const size_t room = *n;
  const gpuhash_status status = stats(self, n, out, err);
  if (is("names_twice") && room >= 2) strcpy(out[1].name, out[0].name);
  if (is("names_badly") && room >= 1) strcpy(out[0].name, "two words");
  return status;
}

GPUHASH_API gpuhash_status gpuhash_plugin_init_v1(uint32_t major, uint32_t minor, const gpuhash_host_api *api,
                                                  gpuhash_backend_v1 *out, gpuhash_error *err) {
  if (is("crashes_at_init")) abort();
  if (is("hangs_at_init"))
    for (volatile int i = 0;; i = 1 - i) continue;
  const gpuhash_status status = init_of_toy(major, minor, api, out, err);
  out->name = "wrong";
  out->create = wrong_create;
  out->destroy = wrong_destroy;
  out->run = wrong_run;
  out->info = wrong_info;
  out->export_pairs = wrong_export;
  out->shrink = wrong_shrink;
  out->stats = wrong_stats;
  return status;
}
