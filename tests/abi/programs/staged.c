/* Batches of host arrays on a table of a GPU (<gpuhash/staging.h>), over a fake driver (plugins/driver.c). Arguments: a test,
 * and the path of a module that agrees to everything, on every device, and leaves the arrays as they are. */
#include <dlfcn.h>
#include <stdlib.h>

#include "expect.h"
#include "gpuhash/staging.h"

enum { n = 5000, n_slots = 3, slot_bytes = 1 << 13 };
#define INVALID GPUHASH_INVALID_ARGUMENT

static uint64_t keys[n], values[n], found[n];
static uint8_t status[n], ops[n];
static _Alignas(256) unsigned char host[n_slots][slot_bytes], device[n_slots][slot_bytes];
static char events[2 * n_slots], streams[3];
static gpuhash_slot slots[n_slots];

static gpuhash_staging ready(void) {
  gpuhash_staging staging = GPUHASH_STAGING_INIT;
  for (int i = 0; i < n_slots; ++i) slots[i] = (gpuhash_slot){host[i], device[i], &events[2 * i], &events[2 * i + 1]};
  staging.slots = slots;
  staging.n_slots = n_slots;
  staging.slot_bytes = slot_bytes;
  staging.up = &streams[0];
  staging.down = &streams[1];
  staging.first_keys = 50;
  return staging;
}
static gpuhash_batch of(uint32_t op) {
  gpuhash_batch batch = GPUHASH_BATCH_INIT;
  batch.op = op;
  batch.n = n;
  batch.keys = keys;
  batch.out_status = status;
  if (op == GPUHASH_OP_INSERT || op == GPUHASH_OP_EXECUTE) batch.values = values;
  if (op == GPUHASH_OP_FIND || op == GPUHASH_OP_EXECUTE) batch.out_values = found;
  if (op == GPUHASH_OP_EXECUTE) batch.ops = ops;
  batch.stream = &streams[2];
  return batch;
}
static gpuhash_table *make(const char *backend, int32_t kind, uint64_t capacity) {
  gpuhash_config config = GPUHASH_CONFIG_INIT;
  config.backend = backend;
  config.device.kind = kind;
  config.capacity = capacity;
  config.grow = capacity == 0;
  gpuhash_table *table = NULL;
  OK(gpuhash_table_create(&config, &table, &err));
  if (table == NULL) exit(finish());
  return table;
}
static void *symbol(const char *name) { return dlsym(dlopen("libcuda.so.1", RTLD_NOW), name); }
static int *number(const char *name) { return symbol(name); }
static void place_device(void) {
  void (*place)(const void *, size_t, unsigned, int, int) = NULL;
  void *const found = symbol("fake_place");
  memcpy(&place, &found, sizeof found);
  place(device, sizeof device, 2, 0, 0);
}

/* ---- over the driver */

static void driven(void) {
  gpuhash_table *table = make("anywhere", GPUHASH_CUDA, 0);
  gpuhash_staging staging = ready();
  gpuhash_batch batch = of(GPUHASH_OP_FIND);
  memset(status, 9, n);
  memset(found, 9, sizeof found);
  const int before = *number("fake_copies");
  /* The backend has written no statuses: then the elements were not carried out. */
  REFUSED(GPUHASH_NO_MEMORY, "5000 of 5000 elements found no room", gpuhash_run_staged(table, &batch, &staging, &err));
  EXPECT(staging.done == n && staging.in_doubt == 0);
  EXPECT(*number("fake_copies") - before > 2 * 8);
  for (size_t i = 0; i < n; ++i) EXPECT(status[i] == GPUHASH_ELEMENT_NO_MEMORY);
  *number("fake_capturing") = 1;
  REFUSED(INVALID, "the stream is being captured into a graph", gpuhash_run_staged(table, &batch, &staging, &err));
  EXPECT(staging.done == 0);
  gpuhash_table_destroy(table);
}

/* The environment says which function of the driver fails. */
static void failing(void) {
  gpuhash_table *table = make("anywhere", GPUHASH_CUDA, 0);
  gpuhash_staging staging = ready();
  gpuhash_batch batch = of(GPUHASH_OP_FIND);
  char sentence[64];
  snprintf(sentence, sizeof sentence, "%s says: the fake refuses (700)", getenv("FAKE_FAILS"));
  REFUSED(GPUHASH_DEVICE_ERROR, sentence, gpuhash_run_staged(table, &batch, &staging, &err));
  EXPECT(staging.done < n && staging.in_doubt == 0);
  for (size_t i = 0; i < n; ++i) EXPECT(status[i] == GPUHASH_ELEMENT_NO_MEMORY);
  gpuhash_table_destroy(table);
}

/* ---- over functions of the caller, on a table of the CPU */

static size_t launches, largest;
static int copied(uintptr_t to, uintptr_t from, size_t bytes, void *stream) {
  memcpy((void *)to, (const void *)from, bytes);
  return stream == NULL;
}
static int filled(uintptr_t to, unsigned char byte, size_t bytes, void *stream) {
  memset((void *)to, byte, bytes);
  return stream == NULL;
}
static int recorded(void *event, void *stream) { return event == NULL || stream == NULL; }
static int waited[3];
static int drained(void *stream) { return ++waited[(char *)stream - streams], 0; }
static int happened(void *event) { return event == NULL; }
static int followed(void *stream, void *event, unsigned flags) { return stream == NULL || event == NULL || flags != 0; }
static int not_captured(void *stream, int *answer) { return *answer = 0, stream == NULL; }
/* Launch number fail_at answers fail_with and does nothing. */
static size_t fail_at;
static gpuhash_status fail_with;
static gpuhash_status launch(gpuhash_table *table, const gpuhash_batch *given, gpuhash_error *error) {
  gpuhash_batch batch = *given;
  if (launches + 1 == fail_at) {
    ++launches;
    error->code = fail_with;
    strcpy(error->message, "the backend says so");
    return fail_with;
  }
  EXPECT(batch.stream == &streams[2] && batch.counts == NULL);
  batch.stream = NULL;
  ++launches;
  largest = batch.n > largest ? batch.n : largest;
  return gpuhash_run(table, &batch, error);
}
static const gpuhash_staging_calls calls = {sizeof calls, copied,   filled,  recorded,     happened,
                                            happened,     followed, drained, not_captured, launch};

static void refused(void) {
  gpuhash_table *table = make("anywhere", GPUHASH_CUDA, 0), *cpu = make("anywhere", GPUHASH_CPU, 0);
  const gpuhash_batch good = of(GPUHASH_OP_INSERT);
  gpuhash_batch batch = good;
  gpuhash_staging staging = ready();
#define REFUSES(sentence, ...)                                                     \
  do {                                                                             \
    staging = ready();                                                             \
    batch = good;                                                                  \
    __VA_ARGS__;                                                                   \
    staging.done = staging.in_doubt = 7;                                           \
    REFUSED(INVALID, sentence, gpuhash_run_staged(table, &batch, &staging, &err)); \
  } while (0)
  REFUSES("n_slots is 0; a staged batch needs 1 to 16", staging.n_slots = 0);
  REFUSES("n_slots is 17; a staged batch needs 1 to 16", staging.n_slots = 17);
  REFUSES("slots is NULL, but n_slots is 3", staging.slots = NULL);
  REFUSES("slots[1] lacks memory or an event", slots[1].host = NULL);
  REFUSES("slots[2] lacks memory or an event", slots[2].device = NULL);
  REFUSES("slots[0] lacks memory or an event", slots[0].uploaded = NULL);
  REFUSES("slots[0] lacks memory or an event", slots[0].downloaded = NULL);
  REFUSES("slots[0].device (0x", slots[0].device = &device[0][1]);
  REFUSES("slots[0] and slots[2] share memory", slots[2].host = host[0]);
  REFUSES("slots[1] and slots[2] share memory", slots[2].device = &device[1][slot_bytes - 8]);
  REFUSES("ops[70] is 77, which execute does not have: 0 (NOP) to 5 (ERASE) are legal; nothing was carried out",
          batch = of(GPUHASH_OP_EXECUTE), ops[70] = 77);
  ops[70] = 0;
  gpuhash_staging_calls some = calls;
  some.memset_async = NULL;
  REFUSES("calls lacks a function; all are needed", staging.calls = &some);
  some.struct_size = 8;
  REFUSES("calls: struct_size is 8", staging.calls = &some);
  REFUSES("flags is 0x8; only 0x7 are known", staging.flags = 8);
  REFUSES("a staged batch needs two streams of its own", staging.up = NULL);
  REFUSES("a staged batch needs two streams of its own", staging.down = NULL);
  REFUSES("a staged batch needs two streams of its own", staging.down = staging.up);
  REFUSES("slot_bytes is 1280, which is too little for one element", staging.slot_bytes = 1280);
  REFUSES("slot_bytes is 0, which is too little for one element", staging.slot_bytes = 0);
  REFUSES("out_status is NULL", batch.out_status = NULL);
  REFUSES("keys is NULL", batch.keys = NULL);
  REFUSES("values is NULL", batch.values = NULL);
  REFUSES("overlaps", batch.out_status = (uint8_t *)keys);
  REFUSES("device_values is given: pass NULL for batch.values", staging.device_values = device);
  REFUSES("device_values is given, but find takes no values", staging.device_values = device,
          batch = of(GPUHASH_OP_FIND));
  REFUSES("op is 77", batch.op = 77);
  REFUSES("staging: struct_size is 8", staging.struct_size = 8);
  REFUSES("batch: struct_size is 8", batch.struct_size = 8);
  staging = ready();
  batch = good;
  REFUSED(INVALID, "staging is NULL", gpuhash_run_staged(table, &batch, NULL, &err));
  REFUSED(INVALID, "batch is NULL", gpuhash_run_staged(table, NULL, &staging, &err));
  REFUSED(INVALID, "table is NULL", gpuhash_run_staged(NULL, &batch, &staging, &err));
  REFUSED(INVALID, "host arrays need no staging: call gpuhash_run", gpuhash_run_staged(cpu, &batch, &staging, &err));
  staging.slot_bytes = 1280 + 17; /* one element at a time */
  batch.n = 40;
  REFUSED(GPUHASH_NO_MEMORY, "40 of 40", gpuhash_run_staged(table, &batch, &staging, &err));
  EXPECT(staging.done == 40);
  batch.n = 0;
  gpuhash_counts counts = {7, 7};
  batch.counts = &counts;
  OK(gpuhash_run_staged(table, &batch, &staging, &err));
  EXPECT(staging.done == 0 && counts.yes == 0 && counts.failed == 0);
  gpuhash_table_destroy(table);
  gpuhash_table_destroy(cpu);
}

static size_t told, last_done, stop_at;
static int32_t tell(void *context, size_t done, size_t all) {
  EXPECT(context == &told && done >= last_done && all == n);
  last_done = done;
  return ++told == stop_at ? 5 : 0;
}

static void carried_out(void) {
  gpuhash_table *table = make("linear_probe", GPUHASH_CPU, 0);
  gpuhash_staging staging = ready();
  gpuhash_counts counts = {7, 7};
  staging.calls = &calls;
  staging.tell = tell;
  staging.context = &told;
  for (size_t i = 0; i < n; ++i)
    keys[i] = 3 * i, values[i] = ~keys[i], ops[i] = i % 2 ? GPUHASH_OP_FIND : GPUHASH_OP_ERASE;

  /* Stopped before the first chunk, when copies of the second one have begun and no other thread carries them out: they are
   * ended when the call returns. */
  gpuhash_batch batch = of(GPUHASH_OP_INSERT);
  OK(gpuhash_set_threads(1, &err));
  stop_at = 1;
  memset(host, 0xee, sizeof host);
  REFUSED(INVALID, "tell answered 5 after 0 of 5000 elements", gpuhash_run_staged(table, &batch, &staging, &err));
  EXPECT(launches == 0 && staging.done == 0 && staging.in_doubt == 0);
  EXPECT(memcmp(host[1], &keys[50], sizeof *keys * 50) == 0);
  for (size_t i = 0; i < n; ++i) EXPECT(status[i] == GPUHASH_ELEMENT_NO_MEMORY);
  OK(gpuhash_set_threads(0, &err));
  told = 0;

  /* Stopped before the fourth chunk. */
  batch.counts = &counts;
  stop_at = 4;
  REFUSED(INVALID, "tell answered 5 after ", gpuhash_run_staged(table, &batch, &staging, &err));
  const size_t done = staging.done;
  EXPECT(launches == 3 && done > 0 && done < n && staging.in_doubt == 0);
  EXPECT(counts.yes == done && counts.failed == n - done);
  for (size_t i = 0; i < n; ++i) EXPECT(status[i] == (i < done ? GPUHASH_YES : GPUHASH_ELEMENT_NO_MEMORY));
  stop_at = last_done = told = 0;

  OK(gpuhash_run_staged(table, &batch, &staging, &err));
  EXPECT(staging.done == n && counts.yes == n - done && counts.failed == 0);
  EXPECT(told == launches - 3);
  for (size_t i = 0; i < n; ++i) EXPECT(status[i] == (i >= done));
  last_done = 0;

  /* Flags change no answer; chunks are no longer than asked. */
  staging.flags = GPUHASH_STAGING_NEW_VALUES | GPUHASH_STAGING_NEW_STATUS | GPUHASH_STAGING_PAST_CACHES;
  staging.most_keys = 77;
  batch = of(GPUHASH_OP_FIND);
  largest = 0;
  OK(gpuhash_run_staged(table, &batch, &staging, &err));
  EXPECT(largest == 77);
  for (size_t i = 0; i < n; ++i) EXPECT(status[i] == GPUHASH_YES && found[i] == ~keys[i]);
  last_done = 0;

  batch = of(GPUHASH_OP_EXECUTE);
  OK(gpuhash_run_staged(table, &batch, &staging, &err));
  for (size_t i = 0; i < n; ++i) EXPECT(status[i] == GPUHASH_YES && found[i] == (i % 2 ? ~keys[i] : 0));
  last_done = 0;

  /* The same values for each chunk. */
  static uint64_t on_device[77];
  for (int i = 0; i < 77; ++i) on_device[i] = 42;
  batch = of(GPUHASH_OP_INSERT);
  batch.values = NULL;
  staging.device_values = on_device;
  OK(gpuhash_run_staged(table, &batch, &staging, &err));
  for (size_t i = 0; i < n; ++i) EXPECT(status[i] == (i % 2 == 0));
  staging.device_values = NULL;
  last_done = 0;
  batch = of(GPUHASH_OP_FIND);
  OK(gpuhash_run_staged(table, &batch, &staging, &err));
  for (size_t i = 0; i < n; ++i) EXPECT(found[i] == (i % 2 ? ~keys[i] : 42));
  gpuhash_table_destroy(table);

  /* A table that may not grow. */
  table = make("linear_probe", GPUHASH_CPU, 1000);
  staging.tell = NULL;
  batch = of(GPUHASH_OP_INSERT);
  batch.counts = &counts;
  REFUSED(GPUHASH_FULL, "elements found no room", gpuhash_run_staged(table, &batch, &staging, &err));
  EXPECT(staging.done == n && counts.yes >= 1000 && counts.yes + counts.failed == n);
  uint64_t size = 0;
  OK(gpuhash_size(table, &size, &err));
  EXPECT(size == counts.yes);
  gpuhash_table_destroy(table);
}

/* What is true when a launch fails. */
static void cut_short(void) {
  const gpuhash_status codes[] = {GPUHASH_NO_MEMORY, GPUHASH_DEVICE_ERROR, GPUHASH_POISONED};
  for (size_t i = 0; i < n; ++i) keys[i] = 3 * i, values[i] = ~keys[i];
  for (int full = 0; full < 2; ++full)
    for (int c = 0; c < 3; ++c) {
      const int ends = codes[c] != GPUHASH_NO_MEMORY;
      gpuhash_table *table = make("linear_probe", GPUHASH_CPU, full ? 100 : 0);
      gpuhash_staging staging = ready();
      gpuhash_counts counts = {7, 7};
      gpuhash_batch batch = of(GPUHASH_OP_INSERT);
      batch.counts = &counts;
      staging.calls = &calls;
      memset(status, 9, n);
      memset(device, 1, sizeof device); /* statuses of an earlier batch would be YES */
      memset(waited, 0, sizeof waited);
      launches = 0;
      fail_at = 8;
      fail_with = codes[c];
      const gpuhash_status answer = gpuhash_run_staged(table, &batch, &staging, &err);
      EXPECT(answer == codes[c] || (full && !ends && answer == GPUHASH_FULL));
      EXPECT(ends ? staging.done < n && strstr(err.message, "the backend says so") != NULL : staging.done == n);
      EXPECT(staging.in_doubt == 0);
      for (int s = 0; s < 3; ++s) EXPECT(waited[s] == ends);
      uint64_t size = 0;
      OK(gpuhash_size(table, &size, &err));
      EXPECT(size == counts.yes && counts.yes + counts.failed == n && counts.failed > 0);
      static uint8_t there[n];
      OK(gpuhash_contains(table, n, keys, there, NULL, &err));
      EXPECT(full || (launches > 8) == !ends);
      for (size_t i = 0; i < n; ++i) EXPECT(there[i] == (status[i] == GPUHASH_YES));
      gpuhash_table_destroy(table);
    }
  fail_at = 0;
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  const struct {
    const char *name;
    void (*run)(void);
  } groups[] = {{"driven", driven},
                {"failing", failing},
                {"refused", refused},
                {"carried_out", carried_out},
                {"cut_short", cut_short}};
  OK(gpuhash_backend_open(argv[2], NULL, &err));
  if (strcmp(argv[1], "carried_out") != 0 && strcmp(argv[1], "cut_short") != 0) place_device();
  for (size_t i = 0; i < sizeof groups / sizeof *groups; ++i)
    if (strcmp(groups[i].name, argv[1]) == 0) {
      groups[i].run();
      return finish();
    }
  return 2;
}
