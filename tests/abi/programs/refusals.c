/* Every bad argument that gpuhash.h's contract names is refused with its code and a sentence that names the value.
 * Arguments: a group of tests, the path of the module of toy (a few traits), of echo (all traits), and of an echo that
 * is named slab_hash. Built as C11 against the installed headers alone. */
#include <float.h>
#include <stdalign.h>
#include <stdlib.h>

#include "expect.h"

enum { n = 8, room = 3 * n }; /* in words: elements have up to 20 bytes here */
static alignas(64) uint64_t keys[room], values[room], outputs[room], more[room];
static alignas(64) uint8_t status[64], ops[n];
static void *const a_stream = &keys;

#define INVALID GPUHASH_INVALID_ARGUMENT
static void *off(void *p, size_t bytes) { return (char *)p + bytes; }

static gpuhash_table *make(const char *backend, uint32_t key_bytes, uint32_t value_bytes) {
  gpuhash_config config = GPUHASH_CONFIG_INIT;
  config.backend = backend;
  config.key_bytes = key_bytes;
  config.value_bytes = value_bytes;
  gpuhash_table *table = NULL;
  OK(gpuhash_table_create(&config, &table, &err));
  if (table == NULL) exit(finish());
  return table;
}

/* ---- configuration ----------------------------------------------------------------------------------------------- */

static gpuhash_config config;
static gpuhash_table *table = (gpuhash_table *)1;

static void *allocate(void *context, size_t bytes, size_t alignment, void *stream) {
  (void)context, (void)alignment, (void)stream;
  return malloc(bytes);
}

/* Change one field of a good configuration. */
#define BAD_CONFIG(code, sentence, change)                                \
  do {                                                                    \
    config = (gpuhash_config)GPUHASH_CONFIG_INIT;                         \
    config.backend = "toy";                                               \
    table = (gpuhash_table *)1;                                           \
    change;                                                               \
    REFUSED(code, sentence, gpuhash_table_create(&config, &table, &err)); \
    EXPECT(table == NULL);                                                \
  } while (0)

static void configuration(void) {
  REFUSED(INVALID, "config is NULL", gpuhash_table_create(NULL, &table, &err));
  config = (gpuhash_config)GPUHASH_CONFIG_INIT;
  REFUSED(INVALID, "out is NULL", gpuhash_table_create(&config, NULL, &err));
  BAD_CONFIG(INVALID, "struct_size is 0, at least", config.struct_size = 0);
  BAD_CONFIG(INVALID, "GPUHASH_CONFIG_INIT", config.struct_size = 12);
  BAD_CONFIG(INVALID, "struct_size is 4097, which no version has", config.struct_size = 4097);
  BAD_CONFIG(INVALID, "config.backend is NULL", config.backend = NULL);
  BAD_CONFIG(GPUHASH_NOT_FOUND, "backend 'toi' is not known; did you mean 'toy'?", config.backend = "toi");
  BAD_CONFIG(GPUHASH_NOT_FOUND, "backend '' is not known", config.backend = "");
  BAD_CONFIG(GPUHASH_NOT_FOUND, "did you mean 'toy'?", config.backend = "TOY");
  BAD_CONFIG(GPUHASH_NOT_FOUND, "'./toy.so' is a relative path", config.backend = "./toy.so");
  BAD_CONFIG(INVALID, "device kind 7 is unknown", config.device.kind = 7);
  BAD_CONFIG(INVALID, "device cpu:1 does not exist", config.device.ordinal = 1);
  BAD_CONFIG(INVALID, "device cpu:-1 does not exist", config.device.ordinal = -1);
  BAD_CONFIG(INVALID, "key_bytes is 0", config.key_bytes = 0);
  BAD_CONFIG(GPUHASH_UNSUPPORTED, "key_bytes is 5; backend 'toy' takes 4 or 8", config.key_bytes = 5);
  BAD_CONFIG(GPUHASH_UNSUPPORTED, "key_bytes is 36; backend 'toy' takes 4 or 8", config.key_bytes = 36);
  BAD_CONFIG(GPUHASH_UNSUPPORTED, "value_bytes is 16; backend 'toy' takes 0 or 4 or 8", config.value_bytes = 16);
  BAD_CONFIG(GPUHASH_UNSUPPORTED, "key_bytes is 6; backend 'echo' takes multiples of 4",
             (config.backend = "echo", config.key_bytes = 6));
  BAD_CONFIG(INVALID, "capacity is 18446744073709551615", config.capacity = UINT64_MAX);
  BAD_CONFIG(INVALID, "would overflow the address space", config.capacity = (uint64_t)1 << 60);
  BAD_CONFIG(INVALID, "pairs of 8 + 8 bytes would overflow", config.capacity = ((uint64_t)1 << 58) + 64);
  BAD_CONFIG(INVALID, "overflows the address space",
             (config.capacity = (uint64_t)1 << 40, config.max_load_factor = 1e-6));
  BAD_CONFIG(INVALID, "max_load_factor is 1.5", config.max_load_factor = 1.5);
  BAD_CONFIG(INVALID, "max_load_factor is -0.5", config.max_load_factor = -0.5);
  BAD_CONFIG(INVALID, "max_load_factor is inf", config.max_load_factor = 2 * DBL_MAX);
  BAD_CONFIG(INVALID, "nan", (config.max_load_factor = 2 * DBL_MAX, config.max_load_factor -= 2 * DBL_MAX));
  BAD_CONFIG(INVALID, "grow is 2", config.grow = 2);
  BAD_CONFIG(INVALID, "threads is 4294967295", config.threads = UINT32_MAX);
  BAD_CONFIG(INVALID, "threads is 4097; at most 4096", config.threads = 4097);
  config.threads = 4096;
  OK(gpuhash_table_create(&config, &table, &err));
  gpuhash_table_destroy(table);
  table = NULL;
  BAD_CONFIG(INVALID, "has no streams", config.stream = a_stream);
  table = make("toy", 8, 8); /* kind 0 stands for the CPU */
  gpuhash_table_info info = {.struct_size = sizeof info};
  OK(gpuhash_table_get_info(table, &info, &err));
  EXPECT(info.device.kind == GPUHASH_CPU);
  gpuhash_table_destroy(table);
}

static void memory_and_options(void) {
  const gpuhash_memory uninitialised = {0}, no_allocate = {.struct_size = sizeof no_allocate},
                       no_deallocate = {.struct_size = sizeof no_deallocate, .allocate = allocate};
  BAD_CONFIG(INVALID, "memory: struct_size is 0", config.memory = &uninitialised);
  BAD_CONFIG(INVALID, "memory: allocate is NULL", config.memory = &no_allocate);
  BAD_CONFIG(INVALID, "memory: deallocate is NULL", config.memory = &no_deallocate);

  gpuhash_option options[] = {{"load", "dense"}, {"load", "sparse"}};
  BAD_CONFIG(INVALID, "options is NULL, but n_options is 1", config.n_options = 1);
  BAD_CONFIG(INVALID, "option 'load' is given twice ('dense' and 'sparse')",
             (config.options = options, config.n_options = 2));
  options[0].key = "laod";
  BAD_CONFIG(GPUHASH_NOT_FOUND, "option 'laod' is unknown to backend 'toy'; did you mean 'load'?",
             (config.options = options, config.n_options = 1));
  char long_key[700];
  memset(long_key, '@', sizeof long_key - 1);
  long_key[sizeof long_key - 1] = 0;
  options[0].key = long_key;
  BAD_CONFIG(GPUHASH_NOT_FOUND, "option '@@@", (config.options = options, config.n_options = 1));
  options[0].key = NULL;
  BAD_CONFIG(INVALID, "the key of option 0 is NULL", (config.options = options, config.n_options = 1));
  options[0] = (gpuhash_option){"load", NULL};
  BAD_CONFIG(INVALID, "the value of option 'load' is NULL", (config.options = options, config.n_options = 1));
  options[0].value = "heavy"; /* the plugin's own check */
  BAD_CONFIG(INVALID, "option load is 'heavy'", (config.options = options, config.n_options = 1));
  options[0].value = "dense";
  BAD_CONFIG(GPUHASH_NOT_FOUND, "unknown to backend 'echo', which takes none",
             (config.backend = "echo", config.options = options, config.n_options = 1));
}

/* A struct from a newer header is fine as long as what is new in it is zero. */
static void newer_callers(void) {
  struct {
    gpuhash_config config;
    uint64_t later;
  } newer = {GPUHASH_CONFIG_INIT, 0};
  newer.config.struct_size = sizeof newer;
  newer.config.backend = "toy";
  table = NULL;
  OK(gpuhash_table_create(&newer.config, &table, &err));
  newer.later = 1;
  gpuhash_table *second = NULL;
  REFUSED(GPUHASH_UNSUPPORTED, "is set, but this library", gpuhash_table_create(&newer.config, &second, &err));
  struct {
    gpuhash_batch batch;
    uint64_t later;
  } batch = {GPUHASH_BATCH_INIT, 0};
  batch.batch.struct_size = sizeof batch;
  batch.batch.op = GPUHASH_OP_FIND;
  batch.batch.n = n;
  batch.batch.keys = keys;
  OK(gpuhash_run(table, &batch.batch, &err));
  batch.later = 1;
  REFUSED(GPUHASH_UNSUPPORTED, "is set, but this library", gpuhash_run(table, &batch.batch, &err));
  struct {
    gpuhash_table_info info;
    uint64_t later;
  } info = {{.struct_size = sizeof info}, 1};
  OK(gpuhash_table_get_info(table, &info.info, &err));
  EXPECT(info.info.struct_size == sizeof info);
  EXPECT(info.later == 0);
  gpuhash_table_info shorter = {.struct_size = offsetof(gpuhash_table_info, size), .size = 77};
  OK(gpuhash_table_get_info(table, &shorter, &err));
  EXPECT(shorter.key_bytes == 8);
  EXPECT(shorter.size == 77);
  gpuhash_table_destroy(table);
}

/* ---- batches ------------------------------------------------------------------------------------------------------- */

static gpuhash_batch batch;

/* Change a good batch of one operation. */
#define BAD_BATCH(code, sentence, on, operation, change)    \
  do {                                                      \
    batch = good_batch(operation);                          \
    change;                                                 \
    REFUSED(code, sentence, gpuhash_run(on, &batch, &err)); \
  } while (0)

static gpuhash_batch good_batch(uint32_t op) {
  gpuhash_batch b = GPUHASH_BATCH_INIT;
  const int inserts = op == GPUHASH_OP_INSERT || op == GPUHASH_OP_ASSIGN || op == GPUHASH_OP_ACCUMULATE ||
                      op == GPUHASH_OP_INSERT_MULTI || op == GPUHASH_OP_EXECUTE;
  b.op = op;
  b.n = n;
  b.keys = keys;
  b.values = inserts ? values : NULL;
  b.out_values = op == GPUHASH_OP_FIND || op == GPUHASH_OP_COUNT || op == GPUHASH_OP_EXECUTE ? outputs : NULL;
  b.out_status = status;
  b.ops = op == GPUHASH_OP_EXECUTE ? ops : NULL;
  return b;
}

static void batches(void) {
  gpuhash_table *toy = make("toy", 8, 8), *toy_set = make("toy", 4, 0), *echo = make("echo", 12, 20);
  for (uint32_t op = GPUHASH_OP_INSERT; op <= GPUHASH_OP_EXECUTE; ++op) {
    batch = good_batch(op);
    if (op != GPUHASH_OP_INSERT_MULTI && op != GPUHASH_OP_ERASE_ALL) OK(gpuhash_run(toy, &batch, &err));
    BAD_BATCH(INVALID, "table is NULL", NULL, op, (void)0);
    BAD_BATCH(INVALID, "keys is NULL, but 8 elements of 12 bytes", echo, op, batch.keys = NULL);
    BAD_BATCH(INVALID, "keys: 9223372036854775807 elements", echo, op, batch.n = SIZE_MAX / 2);
    BAD_BATCH(INVALID, "elements of 12 bytes overflow", echo, op, batch.n = SIZE_MAX);
    BAD_BATCH(INVALID, "keys: 8 elements of 12 bytes overflow", echo, op, batch.keys = (void *)(UINTPTR_MAX - 63));
    BAD_BATCH(INVALID, "is not aligned to its elements of 4 bytes", echo, op, batch.keys = off(keys, 2));
    BAD_BATCH(INVALID, "flags is 0x2", echo, op, batch.flags = 2);
    BAD_BATCH(INVALID, "has no streams", echo, op, batch.stream = a_stream);
    BAD_BATCH(INVALID, "batch: struct_size is 8", echo, op, batch.struct_size = 8);
    BAD_BATCH(INVALID, "overlaps keys", echo, op, batch.out_status = (uint8_t *)keys);
    batch = (gpuhash_batch){.struct_size = sizeof batch, .op = op}; /* n = 0: nothing is needed */
    gpuhash_counts counts = {5, 5};
    batch.counts = &counts;
    OK(gpuhash_run(echo, &batch, &err));
    EXPECT(counts.yes == 0 && counts.failed == 0);
  }
  REFUSED(INVALID, "batch is NULL", gpuhash_run(toy, NULL, &err));
  BAD_BATCH(INVALID, "op is 0; operations of a batch are 1 to 11", toy, GPUHASH_OP_NOP, (void)0);
  BAD_BATCH(INVALID, "op is 12", toy, 12, (void)0);
  BAD_BATCH(GPUHASH_UNSUPPORTED, "does not have pop: choose one with the trait ANSWERS", toy, GPUHASH_OP_POP, (void)0);
  BAD_BATCH(GPUHASH_UNSUPPORTED, "backend 'toy' does not have insert_multi: choose one with the trait MULTI", toy,
            GPUHASH_OP_INSERT_MULTI, (void)0);
  BAD_BATCH(GPUHASH_UNSUPPORTED, "backend 'toy' does not have erase_all", toy, GPUHASH_OP_ERASE_ALL, (void)0);

  BAD_BATCH(INVALID, "values is NULL", toy, GPUHASH_OP_INSERT, batch.values = NULL);
  BAD_BATCH(INVALID, "keys is NULL", toy_set, GPUHASH_OP_INSERT, (batch.keys = NULL, batch.values = NULL));
  BAD_BATCH(INVALID, "values is given, but find takes none", toy, GPUHASH_OP_FIND, batch.values = values);
  BAD_BATCH(INVALID, "values is given, but erase takes none", toy, GPUHASH_OP_ERASE, batch.values = values);
  BAD_BATCH(INVALID, "out_values is given, but insert takes none", toy, GPUHASH_OP_INSERT, batch.out_values = outputs);
  BAD_BATCH(INVALID, "ops is given, but find takes none", toy, GPUHASH_OP_FIND, batch.ops = ops);
  BAD_BATCH(INVALID, "ops is NULL", toy, GPUHASH_OP_EXECUTE, batch.ops = NULL);
  BAD_BATCH(INVALID, "out_values is NULL", toy, GPUHASH_OP_COUNT, batch.out_values = NULL);

  BAD_BATCH(INVALID, "combine is 3", toy, GPUHASH_OP_ACCUMULATE, batch.combine = 3);
  BAD_BATCH(INVALID, "value_type is 3", toy, GPUHASH_OP_ACCUMULATE, batch.value_type = 3);
  BAD_BATCH(INVALID, "the table is a set", toy_set, GPUHASH_OP_ACCUMULATE, (void)0);

  BAD_BATCH(INVALID, "keys (0x", toy, GPUHASH_OP_FIND, batch.keys = off(keys, 4));
  BAD_BATCH(INVALID, "is not aligned to its elements of 8 bytes", toy, GPUHASH_OP_FIND, batch.keys = off(keys, 4));
  BAD_BATCH(INVALID, "values (0x", toy, GPUHASH_OP_INSERT, batch.values = off(values, 1));
  BAD_BATCH(INVALID, "out_values (0x", toy, GPUHASH_OP_FIND, batch.out_values = off(outputs, 1));
  BAD_BATCH(INVALID, "out_values (0x", toy_set, GPUHASH_OP_COUNT, batch.out_values = off(outputs, 4));

  BAD_BATCH(INVALID, "overlaps keys", toy, GPUHASH_OP_FIND, batch.out_values = keys);
  BAD_BATCH(INVALID, "out_status", toy, GPUHASH_OP_FIND, batch.out_status = off(outputs, 63));
  BAD_BATCH(INVALID, "overlaps values", toy, GPUHASH_OP_INSERT, batch.out_status = (uint8_t *)values);
  BAD_BATCH(INVALID, "overlaps ops", toy, GPUHASH_OP_EXECUTE, batch.out_status = ops);
  batch = good_batch(GPUHASH_OP_INSERT); /* inputs may share memory, and neighbours do not overlap */
  batch.values = keys;
  batch.out_status = (uint8_t *)(keys + n - 1);
  batch.n = n - 1;
  OK(gpuhash_run(toy, &batch, &err));
  gpuhash_table_destroy(toy);
  gpuhash_table_destroy(toy_set);
  gpuhash_table_destroy(echo);
  gpuhash_table_destroy(NULL);
}

/* The spelled-out functions pass on what they are given. */
static void spelled_out(void) {
  gpuhash_table *t = make("echo", 8, 8);
  OK(gpuhash_insert(t, n, keys, values, status, NULL, &err));
  OK(gpuhash_insert_multi(t, n, keys, values, status, NULL, &err));
  OK(gpuhash_count(t, n, keys, outputs, NULL, &err));
  OK(gpuhash_erase_all(t, n, keys, status, NULL, &err));
  OK(gpuhash_execute(t, n, ops, keys, values, outputs, status, NULL, &err));
  REFUSED(INVALID, "values is NULL", gpuhash_insert(t, n, keys, NULL, status, NULL, &err));
  REFUSED(INVALID, "values is NULL", gpuhash_insert_or_assign(t, n, keys, NULL, status, NULL, &err));
  REFUSED(INVALID, "values is NULL", gpuhash_insert_multi(t, n, keys, NULL, status, NULL, &err));
  REFUSED(INVALID, "combine is 9", gpuhash_accumulate(t, n, keys, values, 9, 0, status, NULL, &err));
  REFUSED(INVALID, "value_type is 9", gpuhash_accumulate(t, n, keys, values, 0, 9, status, NULL, &err));
  REFUSED(INVALID, "overlaps keys", gpuhash_find(t, n, keys, keys, status, NULL, &err));
  REFUSED(INVALID, "out_status", gpuhash_contains(t, n, keys, (uint8_t *)keys, NULL, &err));
  REFUSED(INVALID, "out_values is NULL", gpuhash_count(t, n, keys, NULL, NULL, &err));
  REFUSED(INVALID, "keys is NULL", gpuhash_erase(t, n, NULL, status, NULL, &err));
  REFUSED(INVALID, "keys is NULL", gpuhash_erase_all(t, n, NULL, status, NULL, &err));
  REFUSED(INVALID, "ops is NULL", gpuhash_execute(t, n, NULL, keys, values, outputs, status, NULL, &err));
  REFUSED(INVALID, "has no streams", gpuhash_find(t, n, keys, outputs, status, a_stream, &err));
  EXPECT(gpuhash_find(t, n, NULL, outputs, status, NULL, NULL) == INVALID); /* err may be NULL */
  gpuhash_table_destroy(t);
}

static void queries(void) {
  gpuhash_table *toy = make("toy", 8, 8), *t = make("echo", 8, 8);
  const size_t huge = SIZE_MAX / 2;
  REFUSED(GPUHASH_UNSUPPORTED, "does not have find_all: choose one with the trait MULTI",
          gpuhash_find_all(toy, n, keys, more, outputs, n, NULL, &err));
  REFUSED(GPUHASH_UNSUPPORTED, "does not have lower_bound: choose one with the trait ORDERED",
          gpuhash_lower_bound(toy, n, keys, outputs, NULL, status, NULL, &err));
  REFUSED(GPUHASH_UNSUPPORTED, "does not have range",
          gpuhash_range(toy, 1, keys, values, 1, outputs, NULL, more, NULL, &err));
  OK(gpuhash_find_all(t, n, keys, more, outputs, n, NULL, &err));
  OK(gpuhash_find_all(t, 0, NULL, more, NULL, 0, NULL, &err));
  REFUSED(INVALID, "table is NULL", gpuhash_find_all(NULL, n, keys, more, outputs, n, NULL, &err));
  REFUSED(INVALID, "keys is NULL", gpuhash_find_all(t, n, NULL, more, outputs, n, NULL, &err));
  REFUSED(INVALID, "offsets is NULL", gpuhash_find_all(t, 0, NULL, NULL, NULL, 0, NULL, &err));
  REFUSED(INVALID, "offsets has n + 1 entries", gpuhash_find_all(t, SIZE_MAX, keys, more, outputs, n, NULL, &err));
  REFUSED(INVALID, "overlaps offsets", gpuhash_find_all(t, n, keys, more, more + n, n, NULL, &err));
  REFUSED(INVALID, "out_values: 9223372036854775807", gpuhash_find_all(t, n, keys, more, outputs, huge, NULL, &err));
  REFUSED(INVALID, "has no streams", gpuhash_find_all(t, n, keys, more, outputs, n, a_stream, &err));

  OK(gpuhash_lower_bound(t, n, keys, outputs, values, status, NULL, &err));
  OK(gpuhash_lower_bound(t, 0, NULL, NULL, NULL, NULL, NULL, &err));
  REFUSED(INVALID, "table is NULL", gpuhash_lower_bound(NULL, n, keys, outputs, NULL, status, NULL, &err));
  REFUSED(INVALID, "keys is NULL", gpuhash_lower_bound(t, n, NULL, outputs, NULL, status, NULL, &err));
  REFUSED(INVALID, "overlaps keys", gpuhash_lower_bound(t, n, keys, keys, NULL, status, NULL, &err));
  REFUSED(INVALID, "out_values (0x", gpuhash_lower_bound(t, n, keys, outputs, off(values, 3), status, NULL, &err));
  REFUSED(INVALID, "has no streams", gpuhash_lower_bound(t, n, keys, outputs, NULL, status, a_stream, &err));

  OK(gpuhash_range(t, 2, keys, values, 4, outputs, NULL, more, NULL, &err));
  REFUSED(INVALID, "table is NULL", gpuhash_range(NULL, 2, keys, values, 4, outputs, NULL, more, NULL, &err));
  REFUSED(INVALID, "low is NULL", gpuhash_range(t, 2, NULL, values, 4, outputs, NULL, more, NULL, &err));
  REFUSED(INVALID, "high is NULL", gpuhash_range(t, 2, keys, NULL, 4, outputs, NULL, more, NULL, &err));
  REFUSED(INVALID, "counts is NULL", gpuhash_range(t, 2, keys, values, 4, outputs, NULL, NULL, NULL, &err));
  REFUSED(INVALID, "overlaps high", gpuhash_range(t, 2, keys, values, 4, values, NULL, more, NULL, &err));
  REFUSED(INVALID, "4 ranges of up to", gpuhash_range(t, 4, keys, values, huge, outputs, NULL, more, NULL, &err));
  REFUSED(INVALID, "has no streams", gpuhash_range(t, 2, keys, values, 4, outputs, NULL, more, a_stream, &err));
  /* This plugin is ordered and has no entry of ABI 1.2. */
  REFUSED(GPUHASH_UNSUPPORTED, "does not have neighbors, but lower_bound and range",
          gpuhash_neighbors(t, GPUHASH_BELOW, n, keys, outputs, NULL, status, NULL, &err));
  REFUSED(GPUHASH_UNSUPPORTED, "does not have range_pairs, but lower_bound and range",
          gpuhash_range_pairs(t, 2, keys, values, NULL, 0, NULL, NULL, more, NULL, &err));
  REFUSED(GPUHASH_UNSUPPORTED, "does not have neighbors",
          gpuhash_neighbors(toy, GPUHASH_BELOW, n, keys, outputs, NULL, status, NULL, &err));
  REFUSED(GPUHASH_UNSUPPORTED, "does not have range_all, but range",
          gpuhash_range_all(t, 2, keys, values, more, 0, NULL, NULL, NULL, &err));
  REFUSED(GPUHASH_UNSUPPORTED, "does not have range_all",
          gpuhash_range_all(toy, 2, keys, values, more, 0, NULL, NULL, NULL, &err));
  REFUSED(INVALID, "table is NULL", gpuhash_range_all(NULL, 2, NULL, NULL, more, 0, NULL, NULL, NULL, &err));
  REFUSED(INVALID, "table is NULL", gpuhash_neighbors(NULL, 0, n, keys, outputs, NULL, status, NULL, &err));
  REFUSED(INVALID, "table is NULL", gpuhash_range_pairs(NULL, 2, NULL, NULL, NULL, 0, NULL, NULL, more, NULL, &err));
  gpuhash_table_destroy(toy);
  gpuhash_table_destroy(t);
}

static void whole_table(void) {
  gpuhash_table *t = make("toy", 8, 8);
  size_t count = n;
  uint64_t size = 0;
  gpuhash_table_info no_info = {0};
  REFUSED(INVALID, "table is NULL", gpuhash_export(NULL, &count, keys, NULL, NULL, &err));
  REFUSED(INVALID, "n is NULL", gpuhash_export(t, NULL, keys, NULL, NULL, &err));
  REFUSED(INVALID, "keys is NULL", gpuhash_export(t, &count, NULL, outputs, NULL, &err));
  REFUSED(INVALID, "is not aligned", gpuhash_export(t, &count, off(keys, 1), NULL, NULL, &err));
  REFUSED(INVALID, "overlaps keys", gpuhash_export(t, &count, keys, keys + 1, NULL, &err));
  REFUSED(INVALID, "has no streams", gpuhash_export(t, &count, keys, NULL, a_stream, &err));
  gpuhash_export_cursor cursor = GPUHASH_EXPORT_CURSOR_INIT;
  REFUSED(INVALID, "table is NULL", gpuhash_export_part(NULL, &cursor, &count, keys, NULL, NULL, &err));
  REFUSED(GPUHASH_UNSUPPORTED, "does not have export_part, but export",
          gpuhash_export_part(t, &cursor, &count, keys, NULL, NULL, &err));
  REFUSED(INVALID, "table is NULL", gpuhash_size(NULL, &size, &err));
  REFUSED(INVALID, "size is NULL", gpuhash_size(t, NULL, &err));
  REFUSED(INVALID, "table is NULL", gpuhash_table_get_info(NULL, &no_info, &err));
  REFUSED(INVALID, "out is NULL", gpuhash_table_get_info(t, NULL, &err));
  REFUSED(INVALID, "out: struct_size is 0", gpuhash_table_get_info(t, &no_info, &err));
  no_info.struct_size = SIZE_MAX; /* a struct that was not initialised */
  REFUSED(INVALID, "out: struct_size is 18446744073709551615", gpuhash_table_get_info(t, &no_info, &err));
  REFUSED(INVALID, "table is NULL", gpuhash_clear(NULL, NULL, &err));
  REFUSED(INVALID, "has no streams", gpuhash_clear(t, a_stream, &err));
  REFUSED(INVALID, "table is NULL", gpuhash_reserve(NULL, 1, NULL, &err));
  REFUSED(INVALID, "keys is 18446744073709551615", gpuhash_reserve(t, UINT64_MAX, NULL, &err));
  REFUSED(GPUHASH_NO_MEMORY, "no memory for", gpuhash_reserve(t, (uint64_t)1 << 56, NULL, &err));
  REFUSED(INVALID, "has no streams", gpuhash_reserve(t, 1, a_stream, &err));
  REFUSED(INVALID, "table is NULL", gpuhash_shrink(NULL, NULL, &err));
  REFUSED(INVALID, "has no streams", gpuhash_shrink(t, a_stream, &err));
  REFUSED(INVALID, "table is NULL", gpuhash_flush(NULL, NULL, &err));
  REFUSED(INVALID, "has no streams", gpuhash_flush(t, a_stream, &err));
  REFUSED(INVALID, "table is NULL", gpuhash_flush_range(NULL, 0, 1, NULL, &err));
  REFUSED(GPUHASH_UNSUPPORTED, "does not have flush_range", gpuhash_flush_range(t, 0, 1, NULL, &err));
  REFUSED(INVALID, "has no streams", gpuhash_flush_range(t, 0, 1, a_stream, &err));
  gpuhash_table *echo = make("echo", 8, 8);
  OK(gpuhash_flush_range(echo, 0, UINT64_MAX, NULL, &err));
  REFUSED(INVALID, "18446744073709551615 buckets from bucket 1 on",
          gpuhash_flush_range(echo, 1, UINT64_MAX, NULL, &err));
  gpuhash_table_destroy(echo);
  REFUSED(INVALID, "table is NULL", gpuhash_check(NULL, &err));
  REFUSED(INVALID, "table is NULL", gpuhash_stats(NULL, &count, NULL, &err));
  REFUSED(INVALID, "n is NULL", gpuhash_stats(t, NULL, NULL, &err));
  REFUSED(INVALID, "promises room for 8 figures", gpuhash_stats(t, &count, NULL, &err));
  REFUSED(INVALID, "table is NULL", gpuhash_histogram(NULL, n, more, &err));
  REFUSED(INVALID, "n is 0", gpuhash_histogram(t, 0, more, &err));
  REFUSED(INVALID, "counts is NULL", gpuhash_histogram(t, n, NULL, &err));
  REFUSED(INVALID, "is not aligned", gpuhash_histogram(t, n, off(more, 4), &err));
  /* A refused call has changed nothing. */
  OK(gpuhash_insert(t, n, keys, values, NULL, NULL, &err));
  OK(gpuhash_size(t, &size, &err));
  EXPECT(size == 1);
  count = 0;
  REFUSED(INVALID, "room for 0 pairs, but there are 1", gpuhash_export(t, &count, keys, NULL, NULL, &err));
  EXPECT(count == 1);
  count = 0;
  OK(gpuhash_stats(t, &count, NULL, &err));
  EXPECT(count == 2);
  OK(gpuhash_check(t, &err));
  gpuhash_table_destroy(t);
}

/* ---- backends, devices, the allocator ------------------------------------------------------------------------------ */

static void backends(void) {
  gpuhash_backend_info info = {.struct_size = sizeof info}, no_size = {0};
  const gpuhash_device cpu = {GPUHASH_CPU, 0};
  REFUSED(INVALID, "name is NULL", gpuhash_backend_load(NULL, &info, &err));
  REFUSED(INVALID, "out: struct_size is 0", gpuhash_backend_load("toy", &no_size, &err));
  REFUSED(GPUHASH_NOT_FOUND, "is not known", gpuhash_backend_load("quantum_hash", NULL, &err));
  REFUSED(GPUHASH_NOT_FOUND, "'../../evil' is a relative path", gpuhash_backend_load("../../evil", NULL, &err));
  REFUSED(INVALID, "path is NULL", gpuhash_backend_open(NULL, &info, &err));
  REFUSED(INVALID, "'gpuhash_toy.so' is not absolute", gpuhash_backend_open("gpuhash_toy.so", &info, &err));
  REFUSED(INVALID, "is out of range", gpuhash_backend_get(SIZE_MAX, &info, &err));
  REFUSED(INVALID, "is out of range", gpuhash_backend_get(gpuhash_backend_count(), &info, &err));
  REFUSED(INVALID, "out is NULL", gpuhash_backend_get(0, NULL, &err));
  REFUSED(INVALID, "name is NULL", gpuhash_backend_probe(NULL, cpu, &err));
  REFUSED(INVALID, "device kind 9", gpuhash_backend_probe("toy", (gpuhash_device){9, 0}, &err));
  OK(gpuhash_backend_probe("toy", cpu, &err));
  REFUSED(GPUHASH_NOT_FOUND, "cannot be read: No such file", gpuhash_backend_load("/none/gpuhash_x.so", &info, &err));
  OK(gpuhash_backend_load("toy", &info, &err));
  OK(gpuhash_backend_load(info.path, &info, &err)); /* a path stands for its module */
  EXPECT(strcmp(info.name, "toy") == 0 && info.loaded == 1 && info.error == NULL);
  EXPECT(info.key_widths == ((1u << 4) | (1u << 8)));
}

static void operations(void) {
  gpuhash_op_info info = {.struct_size = sizeof info}, no_size = {0};
  REFUSED(INVALID, "out is NULL", gpuhash_op_get_info(GPUHASH_OP_FIND, NULL, &err));
  REFUSED(INVALID, "struct_size", gpuhash_op_get_info(GPUHASH_OP_FIND, &no_size, &err));
  REFUSED(INVALID, "op is 0; operations of a batch are 1 to", gpuhash_op_get_info(GPUHASH_OP_NOP, &info, &err));
  REFUSED(INVALID, "op is 99; operations of a batch are 1 to", gpuhash_op_get_info(99, &info, &err));
  OK(gpuhash_op_get_info(GPUHASH_OP_ASSIGN, &info, &err));
  EXPECT(strcmp(info.name, "insert_or_assign") == 0 && info.trait == GPUHASH_TRAIT_INSERT);
  EXPECT(info.facts ==
         (GPUHASH_FACT_ADDS | GPUHASH_FACT_CHANGES | GPUHASH_FACT_TAKES_VALUES | GPUHASH_FACT_IN_EXECUTE));
}

static void devices(void) {
  gpuhash_device_info info = {.struct_size = sizeof info}, no_size = {0};
  EXPECT(gpuhash_device_count(GPUHASH_CPU, &err) == 1);
  EXPECT(gpuhash_device_count(5, &err) == 0);
  EXPECT(strstr(err.message, "device kind 5 is unknown") != NULL);
  REFUSED(INVALID, "out is NULL", gpuhash_device_get_info((gpuhash_device){GPUHASH_CPU, 0}, NULL, &err));
  REFUSED(INVALID, "struct_size", gpuhash_device_get_info((gpuhash_device){GPUHASH_CPU, 0}, &no_size, &err));
  REFUSED(INVALID, "device kind 5", gpuhash_device_get_info((gpuhash_device){5, 0}, &info, &err));
  REFUSED(INVALID, "device cpu:2", gpuhash_device_get_info((gpuhash_device){GPUHASH_CPU, 2}, &info, &err));
  OK(gpuhash_device_get_info((gpuhash_device){GPUHASH_CPU, 0}, &info, &err));
  EXPECT(info.name[0] != 0 && info.memory_bytes > 0 && info.units > 0);
  const int32_t count = gpuhash_device_count(GPUHASH_CUDA, &err);
  const gpuhash_device beyond = {GPUHASH_CUDA, count};
  if (count == 0) {
    EXPECT(err.code == GPUHASH_DEVICE_ERROR && err.message[0] != 0); /* says why there is none */
    REFUSED(GPUHASH_DEVICE_ERROR, "device cuda:0 cannot be used: ", gpuhash_device_get_info(beyond, &info, &err));
  } else {
    REFUSED(INVALID, "does not exist; ordinals here are 0 to", gpuhash_device_get_info(beyond, &info, &err));
  }
  double seconds[4] = {-1, -1, -1, -1}; /* a time for each run, and no more */
  OK(gpuhash_measure_ceiling((gpuhash_device){GPUHASH_CPU, 0}, "gather8", 1 << 16, 1000, 3, 1, seconds, &err));
  EXPECT(seconds[0] > 0 && seconds[1] > 0 && seconds[2] > 0 && seconds[3] == -1);
  const gpuhash_device home = gpuhash_pointer_device(keys);
  EXPECT(home.kind == GPUHASH_CPU && home.ordinal == 0);
  EXPECT(gpuhash_pointer_device(NULL).kind == GPUHASH_CPU);
}

static void slab_allocator(void) {
  gpuhash_slab_config c;
  gpuhash_slab_allocator *a = NULL;
#define BAD_SLAB_CONFIG(code, sentence, change)                           \
  do {                                                                    \
    c = (gpuhash_slab_config)GPUHASH_SLAB_CONFIG_INIT;                    \
    change;                                                               \
    REFUSED(code, sentence, gpuhash_slab_allocator_create(&c, &a, &err)); \
  } while (0)
  REFUSED(INVALID, "config is NULL", gpuhash_slab_allocator_create(NULL, &a, &err));
  BAD_SLAB_CONFIG(INVALID, "GPUHASH_SLAB_CONFIG_INIT", c.struct_size = 0);
  BAD_SLAB_CONFIG(INVALID, "config.kind is NULL", c.kind = NULL);
  BAD_SLAB_CONFIG(GPUHASH_NOT_FOUND, "did you mean 'slab_alloc'?", c.kind = "slab_aloc");
  BAD_SLAB_CONFIG(INVALID, "unit_bytes is 100", c.unit_bytes = 100);
  BAD_SLAB_CONFIG(INVALID, "max_super_blocks is 1, less than", (c.super_blocks = 2, c.max_super_blocks = 1));
  BAD_SLAB_CONFIG(INVALID, "wipe is 2", c.wipe = 2);
  BAD_SLAB_CONFIG(INVALID, "device kind 3", c.device.kind = 3);
  BAD_SLAB_CONFIG(INVALID, "has no streams", c.stream = a_stream);
  BAD_SLAB_CONFIG(INVALID, "threads is 5000", c.threads = 5000);
  c = (gpuhash_slab_config)GPUHASH_SLAB_CONFIG_INIT;
  REFUSED(INVALID, "out is NULL", gpuhash_slab_allocator_create(&c, NULL, &err));
  OK(gpuhash_slab_allocator_create(&c, &a, &err));
  uint32_t units[n];
  void *addresses[n];
  gpuhash_slab_stats stats = {.struct_size = sizeof stats}, no_size = {0};
  OK(gpuhash_slab_allocate(a, n, units, NULL, &err));
  OK(gpuhash_slab_allocate(a, 0, NULL, NULL, &err));
  OK(gpuhash_slab_free(a, n, units, status, NULL, &err));
  OK(gpuhash_slab_translate(a, n, units, addresses, NULL, &err));
  OK(gpuhash_slab_get_stats(a, &stats, &err));
  EXPECT(stats.units >= stats.allocated);
  REFUSED(INVALID, "allocator is NULL", gpuhash_slab_allocate(NULL, n, units, NULL, &err));
  REFUSED(INVALID, "units is NULL", gpuhash_slab_allocate(a, n, NULL, NULL, &err));
  REFUSED(INVALID, "is not aligned", gpuhash_slab_allocate(a, 1, off(units, 1), NULL, &err));
  REFUSED(INVALID, "has no streams", gpuhash_slab_allocate(a, n, units, a_stream, &err));
  REFUSED(INVALID, "allocator is NULL", gpuhash_slab_free(NULL, n, units, NULL, NULL, &err));
  REFUSED(INVALID, "units is NULL", gpuhash_slab_free(a, n, NULL, NULL, NULL, &err));
  REFUSED(INVALID, "overlaps units", gpuhash_slab_free(a, n, units, (uint8_t *)units, NULL, &err));
  REFUSED(INVALID, "allocator is NULL", gpuhash_slab_translate(NULL, n, units, addresses, NULL, &err));
  REFUSED(INVALID, "addresses is NULL", gpuhash_slab_translate(a, n, units, NULL, NULL, &err));
  REFUSED(INVALID, "overlaps units", gpuhash_slab_translate(a, n / 2, (uint32_t *)addresses, addresses, NULL, &err));
  REFUSED(INVALID, "overflow", gpuhash_slab_translate(a, SIZE_MAX / 4, units, addresses, NULL, &err));
  REFUSED(INVALID, "allocator is NULL", gpuhash_slab_get_stats(NULL, &stats, &err));
  REFUSED(INVALID, "out is NULL", gpuhash_slab_get_stats(a, NULL, &err));
  REFUSED(INVALID, "out: struct_size is 0", gpuhash_slab_get_stats(a, &no_size, &err));
  gpuhash_slab_allocator_destroy(a);
  gpuhash_slab_allocator_destroy(NULL);
}

/* An error struct of another size is written within its bounds. */
static void short_errors(void) {
  struct {
    gpuhash_error err;
    char guard[8];
  } e = {{.struct_size = offsetof(gpuhash_error, message) + 6}, "intact"};
  memset(e.err.message, 'x', sizeof e.err.message);
  EXPECT(gpuhash_check(NULL, &e.err) == INVALID);
  EXPECT(strcmp(e.err.message, "table") == 0);
  EXPECT(e.err.message[6] == 'x');
  EXPECT(strcmp(e.guard, "intact") == 0);
  e.err = (gpuhash_error){0};
  EXPECT(gpuhash_check(NULL, &e.err) == INVALID);
  EXPECT(e.err.code == 0 && e.err.message[0] == 0);
  EXPECT(strcmp(gpuhash_status_name(GPUHASH_POISONED), "POISONED") == 0);
  EXPECT(strcmp(gpuhash_status_name(-1), "UNKNOWN_STATUS") == 0);
}

int main(int argc, char **argv) {
  if (argc != 5) return 2;
  for (int i = 2; i < 5; ++i) OK(gpuhash_backend_open(argv[i], NULL, &err));
  const struct {
    const char *name;
    void (*run)(void);
  } groups[] = {
      {"configuration", configuration},   {"memory_and_options", memory_and_options},
      {"newer_callers", newer_callers},   {"batches", batches},
      {"spelled_out", spelled_out},       {"queries", queries},
      {"whole_table", whole_table},       {"backends", backends},
      {"operations", operations},         {"devices", devices},
      {"slab_allocator", slab_allocator}, {"short_errors", short_errors},
  };
  for (size_t i = 0; i < sizeof groups / sizeof *groups; ++i)
    if (strcmp(groups[i].name, argv[1]) == 0) {
      groups[i].run();
      return finish();
    }
  return 2;
}
