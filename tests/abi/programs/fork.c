/* After a fork the child may destroy a table of its parent's and make its own, and every other use is refused; the
 * parent's table is as before. Arguments: the backend's name, the path of its module, and the path of the one that
 * provides the stand-alone allocator. */
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"

enum { n = 100000 }; /* enough for a team of threads, which a fork does not copy */

static uint64_t keys[n], values[n], outputs[n + 1];
static uint8_t status[n];

static gpuhash_table *create(const char *backend) {
  gpuhash_config config = GPUHASH_CONFIG_INIT;
  config.backend = backend;
  gpuhash_table *table = NULL;
  OK(gpuhash_table_create(&config, &table, &err));
  if (table == NULL) exit(finish());
  return table;
}

#define FORKED(call) REFUSED(GPUHASH_FORKED, "was created before a fork", call)

static int in_child(const char *backend, gpuhash_table *table, gpuhash_slab_allocator *allocator) {
  size_t count = n;
  uint32_t unit = 0;
  void *address = NULL;
  gpuhash_batch batch = GPUHASH_BATCH_INIT;
  gpuhash_table_info info = {.struct_size = sizeof info};
  gpuhash_slab_stats stats = {.struct_size = sizeof stats};
  FORKED(gpuhash_run(table, &batch, &err));
  FORKED(gpuhash_insert(table, n, keys, values, status, NULL, &err));
  FORKED(gpuhash_find(table, n, keys, outputs, status, NULL, &err));
  FORKED(gpuhash_find_all(table, n, keys, outputs, NULL, 0, NULL, &err));
  FORKED(gpuhash_lower_bound(table, n, keys, outputs, NULL, status, NULL, &err));
  FORKED(gpuhash_range(table, 1, keys, values, 1, outputs, NULL, outputs + 1, NULL, &err));
  FORKED(gpuhash_export(table, &count, NULL, NULL, NULL, &err));
  FORKED(gpuhash_size(table, outputs, &err));
  FORKED(gpuhash_table_get_info(table, &info, &err));
  FORKED(gpuhash_clear(table, NULL, &err));
  FORKED(gpuhash_reserve(table, 1, NULL, &err));
  FORKED(gpuhash_shrink(table, NULL, &err));
  FORKED(gpuhash_flush(table, NULL, &err));
  FORKED(gpuhash_flush_range(table, 0, 1, NULL, &err));
  FORKED(gpuhash_check(table, &err));
  FORKED(gpuhash_stats(table, &count, NULL, &err));
  FORKED(gpuhash_histogram(table, 1, outputs, &err));
  FORKED(gpuhash_slab_allocate(allocator, 1, &unit, NULL, &err));
  FORKED(gpuhash_slab_free(allocator, 1, &unit, NULL, NULL, &err));
  FORKED(gpuhash_slab_translate(allocator, 1, &unit, &address, NULL, &err));
  FORKED(gpuhash_slab_get_stats(allocator, &stats, &err));
  gpuhash_table_destroy(table);
  gpuhash_slab_allocator_destroy(allocator);

  table = create(backend);
  OK(gpuhash_insert(table, n, keys, values, status, NULL, &err));
  OK(gpuhash_check(table, &err));
  gpuhash_table_destroy(table);
  return finish();
}

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  for (int i = 2; i < 4; ++i) OK(gpuhash_backend_open(argv[i], NULL, &err));
  for (uint64_t i = 0; i < n; ++i) keys[i] = i, values[i] = i * i;
  gpuhash_table *table = create(argv[1]);
  gpuhash_slab_config config = GPUHASH_SLAB_CONFIG_INIT;
  gpuhash_slab_allocator *allocator = NULL;
  OK(gpuhash_slab_allocator_create(&config, &allocator, &err));
  OK(gpuhash_insert(table, n, keys, values, status, NULL, &err));
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    _exit(in_child(argv[1], table, allocator));
  }
  int code = 0;
  EXPECT(waitpid(child, &code, 0) == child);
  EXPECT(WIFEXITED(code) && WEXITSTATUS(code) == 0);
  OK(gpuhash_find(table, n, keys, outputs, status, NULL, &err));
  for (int i = 0; i < n; ++i) EXPECT(status[i] == GPUHASH_YES && outputs[i] == values[i]);
  gpuhash_table_destroy(table);
  gpuhash_slab_allocator_destroy(allocator);
  return finish();
}
