/* The i-th allocation of a table's memory resource fails, for every i. After each failure the call says so, the table
 * passes its check and holds exactly what its statuses promised, a retry completes, and destroy gives everything back.
 * Arguments: the backend's name, and the path of its module. */
#include <stdlib.h>

#include "expect.h"

enum { n = 4096, batch_size = 512, most_allocations = 1000 };

static uint64_t keys[n], values[n], found_values[n];
static uint8_t status[n], found[n], present[n];
static size_t calls, fail_at, live, live_bytes;

static void *allocate(void *context, size_t bytes, size_t alignment, void *stream) {
  (void)context, (void)stream;
  if (++calls == fail_at) return NULL;
  if (alignment < 64) alignment = 64;
  void *p = aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (p != NULL) ++live, live_bytes += bytes;
  return p;
}

static void deallocate(void *context, void *p, size_t bytes, size_t alignment, void *stream) {
  (void)context, (void)alignment, (void)stream;
  --live, live_bytes -= bytes;
  free(p);
}

/* The table passes its check and holds what `present` says. */
static void verify(gpuhash_table *table) {
  uint64_t size = 0, expected = 0;
  OK(gpuhash_check(table, &err));
  OK(gpuhash_size(table, &size, &err));
  OK(gpuhash_find(table, n, keys, found_values, found, NULL, &err));
  int same = 1;
  for (size_t i = 0; i < n; ++i) {
    expected += present[i];
    same &= found[i] == present[i] && found_values[i] == (present[i] ? values[i] : 0);
  }
  EXPECT(same);
  EXPECT(size == expected);
}

static void insert(gpuhash_table *table, size_t from, size_t count) {
  memset(status + from, 77, count);
  const gpuhash_status got = gpuhash_insert(table, count, keys + from, values + from, status + from, NULL, &err);
  int failed = 0, legal = 1;
  for (size_t i = from; i < from + count; ++i) {
    legal &= status[i] <= GPUHASH_ELEMENT_NO_MEMORY && !(present[i] && status[i] == GPUHASH_YES);
    failed |= status[i] >= GPUHASH_ELEMENT_FULL;
    present[i] |= status[i] == GPUHASH_YES;
  }
  EXPECT(legal);
  EXPECT(failed ? got == GPUHASH_NO_MEMORY || got == GPUHASH_FULL : got == GPUHASH_OK);
}

static void expect_done_or_no_memory(gpuhash_status got) { EXPECT(got == GPUHASH_OK || got == GPUHASH_NO_MEMORY); }

/* A table's life with the failure armed. Returns whether an allocation has failed. */
static int live_through(const gpuhash_config *config) {
  gpuhash_table *table = NULL;
  memset(present, 0, sizeof present);
  calls = 0;
  const gpuhash_status created = gpuhash_table_create(config, &table, &err);
  if (created != GPUHASH_OK) {
    EXPECT(created == GPUHASH_NO_MEMORY && err.code == created && err.message[0] != 0);
    EXPECT(table == NULL && live == 0);
    return 1;
  }
  for (size_t i = 0; i < n; i += batch_size) insert(table, i, batch_size);
  verify(table);
  expect_done_or_no_memory(gpuhash_reserve(table, 4 * n, NULL, &err));
  verify(table);
  expect_done_or_no_memory(gpuhash_erase(table, n / 2, keys, NULL, NULL, &err));
  memset(present, 0, n / 2);
  verify(table);
  expect_done_or_no_memory(gpuhash_flush(table, NULL, &err));
  expect_done_or_no_memory(gpuhash_shrink(table, NULL, &err));
  verify(table);
  const int has_failed = calls >= fail_at;
  fail_at = 0;
  insert(table, 0, n); /* the retry */
  for (size_t i = 0; i < n; ++i) EXPECT(present[i]);
  verify(table);
  gpuhash_table_destroy(table);
  EXPECT(live == 0 && live_bytes == 0);
  return has_failed;
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  const gpuhash_memory memory = {sizeof memory, NULL, allocate, deallocate};
  gpuhash_config config = GPUHASH_CONFIG_INIT;
  config.backend = argv[1];
  config.seed = 1;
  config.memory = &memory;
  OK(gpuhash_backend_open(argv[2], NULL, &err));
  for (uint64_t i = 0; i < n; ++i) keys[i] = i * 0x9e3779b97f4a7c15u - 1, values[i] = i + 1;
  size_t i = 1;
  do fail_at = i;
  while (live_through(&config) && i++ < most_allocations && failures == 0);
  EXPECT(i > 2 && i < most_allocations);
  printf("%zu allocations failed in turn\n", i - 1);
  return finish();
}
