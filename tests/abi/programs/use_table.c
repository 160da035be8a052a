/* What a first user of the C ABI does, in strict C11: name a backend, insert, find, accumulate, erase, export.
 * Arguments: the backend's name, and optionally the path of its module. */
#include <stdlib.h>

#include "expect.h"

enum { n = 1000 };

static uint64_t keys[2 * n], values[2 * n], found_values[2 * n];
static uint8_t status[2 * n];

static gpuhash_table *create(const char *backend, uint32_t value_bytes) {
  gpuhash_config config = GPUHASH_CONFIG_INIT;
  config.backend = backend;
  config.value_bytes = value_bytes;
  gpuhash_table *table = NULL;
  OK(gpuhash_table_create(&config, &table, &err));
  return table;
}

static void pairs(const char *backend) {
  gpuhash_table *table = create(backend, 8);
  if (table == NULL) return;
  for (uint64_t i = 0; i < 2 * n; ++i) keys[i] = i - 1, values[i] = 3 * i; /* keys[0]: all ones */
  OK(gpuhash_insert(table, n, keys, values, status, NULL, &err));
  for (int i = 0; i < n; ++i) EXPECT(status[i] == GPUHASH_YES);
  OK(gpuhash_find(table, 2 * n, keys, found_values, status, NULL, &err));
  for (int i = 0; i < 2 * n; ++i) {
    EXPECT(status[i] == (i < n));
    EXPECT(found_values[i] == (i < n ? values[i] : 0));
  }
  OK(gpuhash_erase(table, n / 2, keys, status, NULL, &err));
  uint64_t size = 0;
  OK(gpuhash_size(table, &size, &err));
  EXPECT(size == n - n / 2);
  size_t exported = n;
  OK(gpuhash_export(table, &exported, keys, values, NULL, &err));
  EXPECT(exported == n - n / 2);
  for (size_t i = 0; i < exported; ++i) EXPECT(values[i] == 3 * (keys[i] + 1));
  OK(gpuhash_check(table, &err));
  gpuhash_table_destroy(table);
}

static void counting(const char *backend) {
  gpuhash_table *table = create(backend, 8);
  if (table == NULL) return;
  for (uint64_t i = 0; i < n; ++i) keys[i] = i % 10, values[i] = 1;
  gpuhash_counts counts;
  gpuhash_batch batch = GPUHASH_BATCH_INIT;
  batch.op = GPUHASH_OP_ACCUMULATE;
  batch.n = n;
  batch.keys = keys;
  batch.values = values;
  batch.counts = &counts;
  OK(gpuhash_run(table, &batch, &err));
  EXPECT(counts.yes == 10);
  EXPECT(counts.failed == 0);
  OK(gpuhash_find(table, 10, keys, found_values, NULL, NULL, &err));
  for (int i = 0; i < 10; ++i) EXPECT(found_values[i] == n / 10);
  keys[0] = UINT64_MAX; /* absent */
  memset(found_values, 0x55, sizeof found_values);
  OK(gpuhash_count(table, 10, keys, found_values, NULL, &err));
  for (int i = 0; i < 10; ++i) EXPECT(found_values[i] == (i != 0));
  gpuhash_table_destroy(table);
}

static void set(const char *backend) {
  gpuhash_table *table = create(backend, 0);
  if (table == NULL) return;
  for (uint64_t i = 0; i < n; ++i) keys[i] = i / 2;
  OK(gpuhash_insert(table, n, keys, NULL, status, NULL, &err));
  int inserted = 0;
  for (int i = 0; i < n; ++i) inserted += status[i];
  EXPECT(inserted == n / 2);
  OK(gpuhash_contains(table, n, keys, status, NULL, &err));
  for (int i = 0; i < n; ++i) EXPECT(status[i] == GPUHASH_YES);
  gpuhash_table_info info = {.struct_size = sizeof info};
  OK(gpuhash_table_get_info(table, &info, &err));
  EXPECT(strcmp(info.backend, backend) == 0);
  EXPECT(info.size == n / 2);
  EXPECT(info.seed != 0);
  EXPECT(info.value_bytes == 0);
  uint64_t counts[2][9] = {{0}}; /* whatever was in the array */
  memset(counts[1], 0x55, sizeof counts[1]);
  counts[0][8] = counts[1][8];
  for (int i = 0; i < 2; ++i) OK(gpuhash_histogram(table, 8, counts[i], &err));
  EXPECT(memcmp(counts[0], counts[1], sizeof counts[0]) == 0);
  gpuhash_table_destroy(table);
}

static void count_calls(void *calls) { ++*(int *)calls; }

static void copies(void) {
  static uint8_t from[1 << 20], to[(1 << 20) + 1], more[3] = {4, 4, 4}, there[3], also[3];
  memset(from, 1, sizeof from);
  to[sizeof from] = 9;
  gpuhash_copy parts[] = {{there, more, sizeof more, 0}, {to, from, sizeof from, 1}, {NULL, NULL, 0, 1}};
  EXPECT(gpuhash_copies_end(gpuhash_copies_begin(3, parts, 0, 0)) == 1);
  EXPECT(memcmp(to, from, sizeof from) == 0);
  EXPECT(to[sizeof from] == 9);
  EXPECT(memcmp(there, more, sizeof more) == 0);
  from[sizeof from - 1] = 2;
  parts[0].flags = GPUHASH_COPY_LOOK | GPUHASH_COPY_STREAM;
  EXPECT(gpuhash_copies_end(gpuhash_copies_begin(3, parts, 2, 0)) == 7);
  EXPECT(gpuhash_copies_end(gpuhash_copies_begin(0, NULL, 1, 0)) == 0);
  const gpuhash_copy other = {also, more, sizeof more, GPUHASH_COPY_LOOK};
  for (uint32_t threads = 1; threads < 4; ++threads) {
    memset(to, 0, sizeof to);
    memset(also, 0, sizeof also);
    gpuhash_copies *first = gpuhash_copies_begin(2, parts, threads, 1);
    gpuhash_copies *second = gpuhash_copies_begin(1, &other, threads, 0);
    if (threads == 1) {
      EXPECT(gpuhash_copies_help(first, 0) == 0);
      EXPECT(to[0] == 0);
      EXPECT(gpuhash_copies_help(first, 2) == 0); /* the three bytes, and a piece of the rest */
      EXPECT(to[0] == 1);
    }
    while (gpuhash_copies_help(first, 1) == 0);
    EXPECT(memcmp(to, from, sizeof from) == 0);
    EXPECT(gpuhash_copies_end(second) == 4);
    EXPECT(memcmp(also, more, sizeof more) == 0);
    EXPECT(gpuhash_copies_end(first) == 7);
  }
  memset(to, 0, sizeof from);
  EXPECT(gpuhash_copy_parts(3, parts, 2) == 7);
  EXPECT(memcmp(to, from, sizeof from) == 0);
  int calls = 0;
  for (uint32_t more = 0; more < 2; ++more) {
    memset(to, 0, sizeof from);
    EXPECT(gpuhash_copy_parts_beside(3, parts, 2, more, count_calls, &calls) == 7);
    EXPECT(memcmp(to, from, sizeof from) == 0);
  }
  EXPECT(gpuhash_copy_parts_beside(0, NULL, 2, 0, count_calls, &calls) == 0);
  EXPECT(calls == 3);
  gpuhash_copy pages = {to, NULL, sizeof to, GPUHASH_COPY_TOUCH};
  EXPECT(gpuhash_copies_end(gpuhash_copies_begin(1, &pages, 2, 0)) == 0);
  EXPECT(memcmp(to, from, sizeof from) == 0);
}

int main(int argc, char **argv) {
  if (argc < 2) return 2;
  if (argc > 2) OK(gpuhash_backend_open(argv[2], NULL, &err));
  OK(gpuhash_backend_probe(argv[1], (gpuhash_device){GPUHASH_CPU, 0}, &err));
  pairs(argv[1]);
  counting(argv[1]);
  set(argv[1]);
  copies();
  return finish();
}
