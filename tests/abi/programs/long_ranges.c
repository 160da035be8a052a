/* A range so long that several threads read it, while allocations of the process's own heap fail: one after the other, and
 * all from one on. What is read is the same without memory. Arguments: an ordered backend's name and its module's path. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "expect.h"

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);

static atomic_long countdown = -1; /* 0 or less: nothing is armed */
static atomic_int all_of_them, failed;

static int fails(void) {
  if (atomic_load(&countdown) <= 0) return 0;
  const long at = atomic_fetch_sub(&countdown, 1);
  if (at != 1) return 0;
  if (atomic_load(&all_of_them)) atomic_store(&countdown, 1);
  atomic_store(&failed, 1);
  errno = ENOMEM;
  return 1;
}

/* These take the place of the C library's own. */
void *malloc(size_t bytes) { return fails() ? NULL : __libc_malloc(bytes); }
void *calloc(size_t n, size_t bytes) { return fails() ? NULL : __libc_calloc(n, bytes); }
void *realloc(void *p, size_t bytes) { return fails() ? NULL : __libc_realloc(p, bytes); }

enum { n = 150000 };
static uint32_t keys[n], values[n], out_keys[n], out_values[n];

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  OK(gpuhash_backend_open(argv[2], NULL, &err));
  gpuhash_config config = GPUHASH_CONFIG_INIT;
  config.backend = argv[1], config.key_bytes = config.value_bytes = 4, config.threads = 3;
  gpuhash_table *table = NULL;
  OK(gpuhash_table_create(&config, &table, &err));
  if (table == NULL) return finish();
  for (uint32_t i = 0; i < n; ++i) keys[i] = 7 * i, values[i] = ~i;
  OK(gpuhash_insert(table, n, keys, values, NULL, NULL, &err));
  const uint64_t offsets[2] = {0, n - 100};
  const uint32_t high = 7 * (n - 100); /* the last 100 are left out */
  int turns = 0;
  for (int all = 0; all < 2; ++all) {
    atomic_store(&all_of_them, all);
    for (long i = 1;; i += i < 8 ? 1 : 5) {
      memset(out_keys, 0, sizeof out_keys), memset(out_values, 0, sizeof out_values);
      uint64_t count = 0;
      atomic_store(&failed, 0), atomic_store(&countdown, i);
      const gpuhash_status status =
          gpuhash_range_pairs(table, 1, NULL, &high, offsets, n - 100, out_keys, out_values, &count, NULL, &err);
      atomic_store(&countdown, -1);
      EXPECT(status == GPUHASH_OK && count == n - 100);
      EXPECT(memcmp(out_keys, keys, (n - 100) * sizeof *keys) == 0 && out_keys[n - 100] == 0);
      EXPECT(memcmp(out_values, values, (n - 100) * sizeof *values) == 0 && out_values[n - 100] == 0);
      if (!atomic_load(&failed)) break;
      ++turns;
    }
  }
  EXPECT(turns > 8); /* several of each */
  gpuhash_table_destroy(table);
  return finish();
}
