/* Opens a module, makes a table of its backend and one call, and prints the first answer that is not OK, or else the
 * call's: its status, err.code and err.message. Arguments: the path of the module, the call. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpuhash/gpuhash.h"

enum { n = 40, many = 300001 };
static uint64_t keys[many], values[many], outputs[n], offsets[n + 1];
static uint8_t status[many];
static gpuhash_error err = {sizeof err, GPUHASH_CORRUPT, "what an earlier call said"};

static int say(gpuhash_status answer) {
  printf("%s\t%s\t%.512s\n", gpuhash_status_name(answer), gpuhash_status_name(err.code), err.message);
  return answer != GPUHASH_OK;
}

static gpuhash_status run(gpuhash_table *t, size_t elements, int counting) {
  gpuhash_counts counts;
  gpuhash_batch batch = GPUHASH_BATCH_INIT;
  batch.op = GPUHASH_OP_INSERT;
  batch.n = elements;
  batch.keys = keys;
  batch.values = values;
  batch.out_status = status;
  batch.counts = counting ? &counts : NULL;
  return gpuhash_run(t, &batch, &err);
}

static gpuhash_status call(gpuhash_table *t, const char *name) {
  gpuhash_table_info info = {.struct_size = sizeof info};
  gpuhash_stat stat[4];
  gpuhash_export_cursor cursor = GPUHASH_EXPORT_CURSOR_INIT;
  size_t room = strcmp(name, "stats") == 0 ? 4 : n;
  uint64_t size;
  if (strcmp(name, "run") == 0) return run(t, n, 0);
  if (strcmp(name, "large") == 0) return run(t, many, 0);
  if (strcmp(name, "counted") == 0) return run(t, n, 1);
  if (strcmp(name, "info") == 0) return gpuhash_table_get_info(t, &info, &err);
  if (strcmp(name, "size") == 0) return gpuhash_size(t, &size, &err);
  if (strcmp(name, "export") == 0) return gpuhash_export(t, &room, keys, values, NULL, &err);
  if (strcmp(name, "part") == 0) return gpuhash_export_part(t, &cursor, &room, keys, values, NULL, &err);
  if (strcmp(name, "pairs") == 0) return gpuhash_export(t, &room, NULL, NULL, NULL, &err);
  if (strcmp(name, "stats") == 0) return gpuhash_stats(t, &room, stat, &err);
  if (strcmp(name, "find_all") == 0) return gpuhash_find_all(t, n, keys, offsets, outputs, n, NULL, &err);
  if (strcmp(name, "lower_bound") == 0) return gpuhash_lower_bound(t, n, keys, NULL, outputs, status, NULL, &err);
  if (strcmp(name, "range") == 0) return gpuhash_range(t, n, keys, values, 1, NULL, NULL, outputs, NULL, &err);
  if (strcmp(name, "clear") == 0) return gpuhash_clear(t, NULL, &err);
  if (strcmp(name, "reserve") == 0) return gpuhash_reserve(t, 9, NULL, &err);
  if (strcmp(name, "shrink") == 0) return gpuhash_shrink(t, NULL, &err);
  if (strcmp(name, "flush") == 0) return gpuhash_flush(t, NULL, &err);
  if (strcmp(name, "flush_range") == 0) return gpuhash_flush_range(t, 0, 1, NULL, &err);
  if (strcmp(name, "check") == 0) return gpuhash_check(t, &err);
  if (strcmp(name, "histogram") == 0) return gpuhash_histogram(t, n, outputs, &err);
  return GPUHASH_OK; /* "create", "destroy" */
}

static int use_allocator(void) {
  gpuhash_slab_config config = GPUHASH_SLAB_CONFIG_INIT;
  gpuhash_slab_allocator *allocator;
  gpuhash_slab_stats stats = {.struct_size = sizeof stats};
  static uint32_t units[n];
  if (say(gpuhash_slab_allocator_create(&config, &allocator, &err))) return 0;
  if (!say(gpuhash_slab_allocate(allocator, n, units, NULL, &err)))
    say(gpuhash_slab_get_stats(allocator, &stats, &err));
  gpuhash_slab_allocator_destroy(allocator);
  return 0;
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  if (strcmp(argv[2], "slab") == 0) return use_allocator();
  gpuhash_backend_info info = {.struct_size = sizeof info};
  const gpuhash_status opened = gpuhash_backend_open(argv[1], &info, &err);
  if (opened != GPUHASH_OK || strcmp(argv[2], "open") == 0) {
    say(opened);
    if (opened == GPUHASH_OK) printf("%s\t%s\t%s\n", info.name, info.version, info.summary);
    return 0;
  }
  if (strcmp(argv[2], "probe") == 0) {
    say(gpuhash_backend_probe(info.name, (gpuhash_device){GPUHASH_CPU, 0}, &err));
    return 0;
  }
  gpuhash_config config = GPUHASH_CONFIG_INIT;
  config.backend = info.name;
  gpuhash_table *table;
  const gpuhash_status created = gpuhash_table_create(&config, &table, &err);
  if (created != GPUHASH_OK) {
    say(created);
    return 0;
  }
  if (strcmp(argv[2], "create") != 0) strcpy(err.message, "what an earlier call said");
  say(call(table, argv[2]));
  gpuhash_table_destroy(table);
  printf("destroyed\n");
  return 0;
}
