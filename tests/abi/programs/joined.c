/* accumulate with equal keys close to each other. What it answers must not depend, but for the rounding of floats, on
 * whether the elements reach the table one by one or together, which GPUHASH_TEST_JOIN decides: the caller runs this program
 * with either. Arguments: the backend's name and the path of its module. */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>

#include "expect.h"

enum { block = 64, many = 40000 };

static const char *backend;

static gpuhash_table *create(uint32_t bytes, uint64_t capacity, uint32_t grow) {
  gpuhash_config config = GPUHASH_CONFIG_INIT;
  config.backend = backend, config.capacity = capacity, config.grow = grow;
  config.key_bytes = config.value_bytes = bytes, config.seed = 7, config.threads = 2;
  gpuhash_table *table = NULL;
  OK(gpuhash_table_create(&config, &table, &err));
  if (table == NULL) exit(finish());
  return table;
}

/* `stored` and then n operands of one key, between elements of other keys; the key's value afterwards. */
static double joined(uint64_t key, double stored, int n, const double *operand, uint32_t combine) {
  gpuhash_table *table = create(8, 1000, 1);
  uint64_t keys[block];
  double values[block], got = 0;
  uint8_t found = 0;
  for (int i = 0; i < block; ++i) keys[i] = 1 + (uint64_t)(i % 3), values[i] = 1;
  for (int i = 0; i < n; ++i) keys[5 + 9 * i] = key, values[5 + 9 * i] = operand[i];
  OK(gpuhash_insert(table, 1, &key, &stored, NULL, NULL, &err));
  OK(gpuhash_accumulate(table, block, keys, values, combine, GPUHASH_FLOAT, NULL, NULL, &err));
  OK(gpuhash_find(table, 1, &key, &got, &found, NULL, &err));
  EXPECT(found == GPUHASH_YES);
  gpuhash_table_destroy(table);
  return got;
}

static float joined_float(uint32_t bits_stored, int n, const float *operand) {
  gpuhash_table *table = create(4, 1000, 1);
  uint32_t keys[block], key = 77;
  float values[block] = {0}, got = 0;
  for (uint32_t i = 0; i < block; ++i) keys[i] = 1 + i % 3;
  for (int i = 0; i < n; ++i) keys[5 + 9 * i] = key, values[5 + 9 * i] = operand[i];
  OK(gpuhash_insert(table, 1, &key, &bits_stored, NULL, NULL, &err));
  OK(gpuhash_accumulate(table, block, keys, values, GPUHASH_ADD, GPUHASH_FLOAT, NULL, NULL, &err));
  OK(gpuhash_find(table, 1, &key, &got, NULL, NULL, &err));
  gpuhash_table_destroy(table);
  return got;
}

static void floats(void) {
  const uint64_t any[] = {99, ~(uint64_t)0, ~(uint64_t)0 - 1};
  for (int k = 0; k < 3; ++k) {
    const double large[] = {1e308, 1e308}, three[] = {1e308, -1e308, 1e308};
    EXPECT(joined(any[k], -1e308, 2, large, GPUHASH_ADD) == 1e308); /* the sum of the operands overflows */
    EXPECT(joined(any[k], -1.5e308, 3, three, GPUHASH_ADD) == -5e307);
    const double infinite[] = {INFINITY, 1};
    EXPECT(joined(any[k], 2, 2, infinite, GPUHASH_ADD) == INFINITY);
    const double both[] = {INFINITY, -INFINITY, 1};
    EXPECT(isnan(joined(any[k], 2, 3, both, GPUHASH_ADD)));
    /* One by one 2^53 takes no ones in; of those that reach it together it takes the sum. */
    const double ones[] = {1, 1, 1, 1, 1, 1};
    const double more = joined(any[k], 9007199254740992.0, 6, ones, GPUHASH_ADD) - 9007199254740992.0;
    EXPECT(more >= 0 && more <= 6);
    const double with_nan[] = {NAN, 3, NAN, 2, NAN}, nans[] = {NAN, NAN}, nan_last[] = {3, 2, NAN};
    EXPECT(joined(any[k], 5, 5, with_nan, GPUHASH_MIN) == 2);
    EXPECT(joined(any[k], 1, 5, with_nan, GPUHASH_MAX) == 3);
    EXPECT(joined(any[k], 5, 3, nan_last, GPUHASH_MIN) == 2);
    EXPECT(joined(any[k], 5, 2, nans, GPUHASH_MIN) == 5 && joined(any[k], 5, 2, nans, GPUHASH_MAX) == 5);
    EXPECT(isnan(joined(any[k], NAN, 5, with_nan, GPUHASH_MIN)));
  }
  const float large[] = {3e38f, 3e38f};
  const float stored = -3e38f;
  uint32_t bits;
  memcpy(&bits, &stored, sizeof bits);
  EXPECT(joined_float(bits, 2, large) == 3e38f);
}

/* New keys, equal ones apart and side by side: one inserts, the others update, and every operand counts. */
static void reports(void) {
  static uint64_t keys[many], values[many], sums[1000];
  static uint8_t status[many];
  int inserted[1000] = {0};
  gpuhash_table *table = create(8, 4000, 1);
  for (uint64_t i = 0; i < many; ++i) {
    keys[i] = i % 7 < 3 ? ~(uint64_t)0 - i % 2 : i % 5 ? i % 11 : i / 53, values[i] = i;
    if (keys[i] < 1000) sums[keys[i]] += i;
  }
  gpuhash_counts counts = {0, 0};
  gpuhash_batch batch = GPUHASH_BATCH_INIT;
  batch.op = GPUHASH_OP_ACCUMULATE, batch.n = many, batch.keys = keys, batch.values = values;
  batch.out_status = status, batch.counts = &counts;
  OK(gpuhash_run(table, &batch, &err));
  uint64_t yes = 0, size = 0;
  for (int i = 0; i < many; ++i) {
    EXPECT(status[i] <= GPUHASH_YES);
    yes += status[i];
    if (keys[i] < 1000) inserted[keys[i]] += status[i];
  }
  OK(gpuhash_size(table, &size, &err));
  EXPECT(yes == size && counts.yes == yes && counts.failed == 0);
  for (uint64_t k = 0; k < 1000; ++k) {
    uint64_t got = 0;
    uint8_t found = 0;
    OK(gpuhash_find(table, 1, &k, &got, &found, NULL, &err));
    EXPECT(found == (inserted[k] > 0) && inserted[k] <= 1 && got == sums[k]);
  }
  OK(gpuhash_check(table, &err));
  gpuhash_table_destroy(table);
}

/* A table without room: of equal keys that find none, each says so; those that are in the table are updated. */
static void failures_are_everybodys(void) {
  static uint64_t keys[many], values[many], before[many], after[many];
  static uint8_t status[many];
  static uint64_t absent[many], present[many];
  gpuhash_table *table = create(8, 500, 0);
  for (uint64_t i = 0; i < many; ++i) keys[i] = 1 + i, values[i] = i;
  EXPECT(gpuhash_insert(table, many, keys, values, status, NULL, NULL) != GPUHASH_OK);
  size_t n_absent = 0, n_present = 0;
  for (int i = 0; i < many; ++i)
    if (status[i] > GPUHASH_YES)
      absent[n_absent++] = keys[i];
    else
      present[n_present++] = keys[i];
  EXPECT(n_absent > 8000 && n_present >= 400);
  OK(gpuhash_find(table, n_present, present, before, NULL, NULL, &err));
  /* Each absent key five times, each time beside a present one. */
  const size_t groups = 3000, n = groups * 10;
  for (size_t i = 0; i < n; ++i) {
    const size_t group = i / 10;
    keys[i] = i % 2 ? present[group % n_present] : absent[group], values[i] = 1;
  }
  gpuhash_counts counts = {0, 0};
  gpuhash_batch batch = GPUHASH_BATCH_INIT;
  batch.op = GPUHASH_OP_ACCUMULATE, batch.n = n, batch.keys = keys, batch.values = values;
  batch.out_status = status, batch.counts = &counts;
  EXPECT(gpuhash_run(table, &batch, &err) != GPUHASH_OK);
  int failed = 0, updated = 0;
  for (size_t i = 0; i < n; ++i) {
    if (i % 2 == 0 && status[i] > GPUHASH_YES) ++failed;
    if (i % 2 == 1 && status[i] == GPUHASH_NO) ++updated;
  }
  EXPECT(failed == (int)(n / 2) && updated == (int)(n / 2));
  EXPECT(counts.yes == 0 && counts.failed == n / 2);
  OK(gpuhash_find(table, n_present, present, after, NULL, NULL, &err));
  uint64_t added = 0;
  for (size_t i = 0; i < n_present; ++i) added += after[i] - before[i];
  EXPECT(added == n / 2);
  gpuhash_table_destroy(table);
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  backend = argv[1];
  OK(gpuhash_backend_open(argv[2], NULL, &err));
  floats();
  reports();
  failures_are_everybodys();
  return finish();
}
