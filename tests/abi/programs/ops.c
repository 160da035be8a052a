/* Op codes of execute that a table does not have are refused element by element, the rest is carried out. Arguments: a
 * backend, the path of its module. */
#include <stdlib.h>

#include "expect.h"

enum { n = 1000 };
static uint32_t keys[n], values[n], outputs[n];
static uint8_t ops[n], status[n];

static gpuhash_table *make(const char *backend, uint32_t value_bytes) {
  gpuhash_config config = GPUHASH_CONFIG_INIT;
  config.backend = backend;
  config.key_bytes = 4;
  config.value_bytes = value_bytes;
  gpuhash_table *table = NULL;
  OK(gpuhash_table_create(&config, &table, &err));
  if (table == NULL) exit(finish());
  return table;
}

static void fill(uint8_t op) {
  for (uint32_t i = 0; i < n; ++i) {
    keys[i] = i;
    values[i] = 3 * i;
    ops[i] = op;
    status[i] = 0xee;
  }
}

/* Element `at` has a bad code, all others insert. */
static void one_bad_code(const char *backend, uint32_t at, uint8_t code) {
  gpuhash_table *t = make(backend, 4);
  uint64_t size = 0;
  gpuhash_counts counts = {7, 7};
  char sentence[64];
  fill(GPUHASH_OP_INSERT);
  ops[at] = code;
  gpuhash_batch batch = GPUHASH_BATCH_INIT;
  batch.op = GPUHASH_OP_EXECUTE;
  batch.n = n;
  batch.keys = keys;
  batch.values = values;
  batch.ops = ops;
  batch.out_status = status;
  batch.counts = &counts;
  snprintf(sentence, sizeof sentence, "ops[%u] is %u, which execute does not have", at, code);
  REFUSED(GPUHASH_INVALID_ARGUMENT, sentence, gpuhash_run(t, &batch, &err));
  EXPECT(counts.yes == n - 1 && counts.failed == 1);
  int agree = 1;
  for (uint32_t i = 0; i < n; ++i) agree &= status[i] == (i == at ? GPUHASH_ELEMENT_BAD_OP : GPUHASH_YES);
  EXPECT(agree);
  OK(gpuhash_find(t, n, keys, outputs, status, NULL, &err));
  for (uint32_t i = 0; i < n; ++i)
    agree &= status[i] == (i == at ? GPUHASH_NO : GPUHASH_YES) && outputs[i] == (i == at ? 0 : 3 * i);
  EXPECT(agree);
  OK(gpuhash_size(t, &size, &err));
  EXPECT(size == n - 1);
  /* Without status bytes and counts the call still says so. */
  REFUSED(GPUHASH_INVALID_ARGUMENT, sentence, gpuhash_execute(t, n, ops, keys, values, NULL, NULL, NULL, &err));
  ops[at] = GPUHASH_OP_NOP; /* is legal */
  OK(gpuhash_execute(t, n, ops, keys, values, NULL, status, NULL, &err));
  EXPECT(status[at] == GPUHASH_NO);
  gpuhash_table_destroy(t);
}

/* Elements that find no room count beside those with a bad code. */
static void bad_codes_in_a_full_table(const char *backend) {
  gpuhash_config config = GPUHASH_CONFIG_INIT;
  config.backend = backend;
  config.key_bytes = 4;
  config.value_bytes = 4;
  config.capacity = 16;
  config.grow = 0;
  gpuhash_table *t = NULL;
  OK(gpuhash_table_create(&config, &t, &err));
  if (t == NULL) exit(finish());
  gpuhash_counts counts = {7, 7};
  fill(GPUHASH_OP_INSERT);
  ops[0] = ops[n - 1] = 99;
  ops[1] = GPUHASH_OP_EXECUTE;
  gpuhash_batch batch = GPUHASH_BATCH_INIT;
  batch.op = GPUHASH_OP_EXECUTE;
  batch.n = n;
  batch.keys = keys;
  batch.values = values;
  batch.ops = ops;
  batch.out_status = status;
  batch.counts = &counts;
  EXPECT(gpuhash_run(t, &batch, &err) != GPUHASH_OK);
  size_t yes = 0, no_room = 0, bad = 0;
  for (uint32_t i = 0; i < n; ++i) {
    yes += status[i] == GPUHASH_YES;
    no_room += status[i] == GPUHASH_ELEMENT_FULL || status[i] == GPUHASH_ELEMENT_NO_MEMORY;
    bad += status[i] == GPUHASH_ELEMENT_BAD_OP;
  }
  EXPECT(bad == 3 && yes >= 16 && yes + no_room + bad == n);
  EXPECT(counts.yes == yes && counts.failed == no_room + bad);
  gpuhash_table_destroy(t);
}

/* accumulate within execute: not in a set, and with a combine and a value type that exist. */
static void accumulate_within(const char *backend) {
  gpuhash_table *set = make(backend, 0), *t = make(backend, 4);
  fill(GPUHASH_OP_INSERT);
  ops[3] = GPUHASH_OP_ACCUMULATE;
  REFUSED(GPUHASH_INVALID_ARGUMENT, "ops[3] is 3, which needs values",
          gpuhash_execute(set, n, ops, keys, NULL, NULL, status, NULL, &err));
  EXPECT(status[2] == GPUHASH_YES && status[3] == GPUHASH_ELEMENT_BAD_OP && status[4] == GPUHASH_YES);
  OK(gpuhash_contains(set, 5, keys, status, NULL, &err));
  EXPECT(status[2] == 1 && status[3] == 0 && status[4] == 1);
  for (uint32_t i = 0; i < n; ++i) outputs[i] = 77;
  OK(gpuhash_find(set, n, keys, outputs, NULL, NULL, &err)); /* has no values to write */
  for (uint32_t i = 0; i < n; ++i) EXPECT(outputs[i] == 77);
  ops[n - 1] = 99; /* the first one is named */
  REFUSED(GPUHASH_INVALID_ARGUMENT, "ops[3] is 3, which needs values",
          gpuhash_execute(set, n, ops, keys, NULL, NULL, status, NULL, &err));
  ops[n - 1] = GPUHASH_OP_INSERT;
  gpuhash_batch batch = GPUHASH_BATCH_INIT;
  batch.op = GPUHASH_OP_EXECUTE;
  batch.n = n;
  batch.keys = keys;
  batch.values = values;
  batch.ops = ops;
  batch.combine = 77;
  REFUSED(GPUHASH_INVALID_ARGUMENT, "combine is 77", gpuhash_run(t, &batch, &err));
  batch.combine = GPUHASH_MAX;
  batch.value_type = 99;
  REFUSED(GPUHASH_INVALID_ARGUMENT, "value_type is 99", gpuhash_run(t, &batch, &err));
  uint64_t size = 1;
  OK(gpuhash_size(t, &size, &err));
  EXPECT(size == 0); /* refused before anything was touched */
  batch.value_type = GPUHASH_FLOAT;
  OK(gpuhash_run(t, &batch, &err));
  gpuhash_table_destroy(set);
  gpuhash_table_destroy(t);
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  OK(gpuhash_backend_open(argv[2], NULL, &err));
  one_bad_code(argv[1], 0, GPUHASH_OP_INSERT_MULTI);
  one_bad_code(argv[1], 500, GPUHASH_OP_EXECUTE);
  one_bad_code(argv[1], n - 1, 255);
  bad_codes_in_a_full_table(argv[1]);
  accumulate_within(argv[1]);
  return finish();
}
