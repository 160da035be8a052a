/* An export in parts: the pairs of all parts are the table's, and a table that has changed meanwhile is refused.
 * Arguments: the backend's name, and the path of its module. */
#include <stdlib.h>

#include "expect.h"

enum { n = 3000 };
static const char *backend;
static uint8_t seen[2 * n];

static gpuhash_table *make(uint32_t key_bytes, uint32_t value_bytes, const gpuhash_option *options, size_t n_options) {
  gpuhash_config config = GPUHASH_CONFIG_INIT;
  config.backend = backend;
  config.key_bytes = key_bytes;
  config.value_bytes = value_bytes;
  config.options = options;
  config.n_options = n_options;
  gpuhash_table *table = NULL;
  OK(gpuhash_table_create(&config, &table, &err));
  return table;
}

/* Elements of 4 or 8 bytes. Keys are n - 2, n - 3, ..., 0, and the two largest, which some structures keep beside. */
static void put(void *to, uint32_t width, size_t i, uint64_t value) { memcpy((char *)to + i * width, &value, width); }
static uint64_t get(const void *from, uint32_t width, size_t i) {
  uint64_t value = 0;
  memcpy(&value, (const char *)from + i * width, width);
  return value;
}

static void *room_for(size_t pairs, uint32_t width) { return calloc(pairs + 1, width ? width : 1); }

/* All parts in an order, with room for so many pairs at a time. */
static void parts(gpuhash_table *table, uint32_t kb, uint32_t vb, size_t room, uint32_t order, size_t want) {
  void *keys = room_for(n, kb), *values = room_for(n, vb);
  gpuhash_export_cursor cursor = GPUHASH_EXPORT_CURSOR_INIT;
  cursor.order = order;
  uint64_t largest = kb == 4 ? UINT32_MAX : UINT64_MAX, before = 0;
  size_t all = 0, calls = 0;
  gpuhash_table_info info = {.struct_size = sizeof info};
  OK(gpuhash_table_get_info(table, &info, &err));
  memset(seen, 0, sizeof seen);
  while (cursor.state != GPUHASH_EXPORT_DONE && calls++ < 4 * n) {
    size_t some = room < n ? room : n;
    const size_t behind = some;
    const uint64_t pattern = 0x0707070707070707u >> (kb == 4 ? 32 : 0);
    put(keys, kb, behind, pattern);
    const gpuhash_status s = gpuhash_export_part(table, &cursor, &some, keys, vb ? values : NULL, NULL, &err);
    EXPECT(get(keys, kb, behind) == pattern); /* nothing is written where there is no room */
    EXPECT(cursor.order == order);
    if (s == GPUHASH_INVALID_ARGUMENT && some > room) { /* a bucket of slab_hash */
      EXPECT(strstr(err.message, "which come at once") != NULL);
      room = some;
      continue;
    }
    OK(s);
    if (s != GPUHASH_OK) break;
    EXPECT(some <= room);
    EXPECT(some > 0 || cursor.state == GPUHASH_EXPORT_DONE);
    for (size_t i = 0; i < some; ++i) {
      const uint64_t key = get(keys, kb, i);
      const uint64_t number = key >= largest - 1 ? n - 1 - (largest - key) : key;
      EXPECT(number < n && !seen[number]);
      if (number < n) seen[number] = 1;
      if (vb) EXPECT(get(values, vb, i) == 3 * number);
      if (info.traits & GPUHASH_TRAIT_ORDERED) EXPECT(all + i == 0 || key > before);
      before = key;
    }
    all += some;
    EXPECT(cursor.pairs == want);
    EXPECT(cursor.given == all);
    OK(gpuhash_contains(table, 1, keys, seen + n, NULL, &err)); /* reads may come between */
  }
  EXPECT(all == want);
  size_t none = 5;
  OK(gpuhash_export_part(table, &cursor, &none, keys, NULL, NULL, &err));
  EXPECT(none == 0);
  free(keys);
  free(values);
}

static gpuhash_table *filled(uint32_t kb, uint32_t vb) {
  gpuhash_table *table = make(kb, vb, NULL, 0);
  void *keys = room_for(n, kb), *values = room_for(n, vb);
  for (size_t i = 0; i < n; ++i) {
    put(keys, kb, i, i < n - 2 ? n - 3 - i : ~(uint64_t)0 - (n - 1 - i));
    if (vb) put(values, vb, i, 3 * (i < n - 2 ? n - 3 - i : i));
  }
  OK(gpuhash_insert(table, n, keys, vb ? values : NULL, NULL, NULL, &err));
  free(keys);
  free(values);
  return table;
}

static void all_pairs(uint32_t kb, uint32_t vb) {
  gpuhash_table *table = make(kb, vb, NULL, 0);
  parts(table, kb, vb, 7, GPUHASH_EXPORT_SPREAD, 0);
  gpuhash_table_destroy(table);
  table = filled(kb, vb);
  const size_t rooms[] = {1, 2, 63, 64, 1000, n - 1, n, 2 * n};
  for (size_t i = 0; i < sizeof rooms / sizeof *rooms; ++i) {
    parts(table, kb, vb, rooms[i], GPUHASH_EXPORT_SPREAD, n);
    parts(table, kb, vb, rooms[i], GPUHASH_EXPORT_AS_STORED, n);
  }
  gpuhash_table_destroy(table);
}

/* What changes a table, each between two parts. */
static gpuhash_status change(gpuhash_table *table, int what, const void *key, const void *value, const uint8_t *op) {
  switch (what) {
    case 0: return gpuhash_insert(table, 1, key, value, NULL, NULL, &err); /* of a key that is there */
    case 1: return gpuhash_insert_or_assign(table, 1, key, value, NULL, NULL, &err);
    case 2: return gpuhash_accumulate(table, 1, key, value, GPUHASH_ADD, GPUHASH_UINT, NULL, NULL, &err);
    case 3: return gpuhash_erase(table, 1, key, NULL, NULL, &err);
    case 4: return gpuhash_execute(table, 1, op, key, value, NULL, NULL, NULL, &err);
    case 5: return gpuhash_reserve(table, 8 * n, NULL, &err);
    case 6: return gpuhash_shrink(table, NULL, &err);
    case 7: return gpuhash_clear(table, NULL, &err);
    default: {
      const gpuhash_status s = gpuhash_flush(table, NULL, &err);
      return s == GPUHASH_UNSUPPORTED ? gpuhash_reserve(table, 9 * n, NULL, &err) : s;
    }
  }
}

static void changes(void) {
  for (int what = 0; what < 9; ++what) {
    gpuhash_table *table = filled(8, 8);
    uint64_t keys[64], values[64], one = 1;
    const uint8_t op = GPUHASH_OP_ERASE;
    gpuhash_export_cursor cursor = GPUHASH_EXPORT_CURSOR_INIT, other = GPUHASH_EXPORT_CURSOR_INIT;
    size_t some = 64;
    OK(gpuhash_export_part(table, &cursor, &some, keys, values, NULL, &err));
    some = 64;
    OK(gpuhash_export_part(table, &other, &some, keys, values, NULL, &err)); /* two at a time are none of a change */
    some = 64;
    OK(gpuhash_export_part(table, &cursor, &some, keys, values, NULL, &err));
    OK(change(table, what, &one, &one, &op));
    some = 64;
    REFUSED(GPUHASH_INVALID_ARGUMENT, "the table has changed since the export's first part",
            gpuhash_export_part(table, &cursor, &some, keys, values, NULL, &err));
    EXPECT(cursor.state == GPUHASH_EXPORT_CHANGED);
    some = 64;
    REFUSED(GPUHASH_INVALID_ARGUMENT, "begin with GPUHASH_EXPORT_CURSOR_INIT",
            gpuhash_export_part(table, &cursor, &some, keys, values, NULL, &err));
    cursor = (gpuhash_export_cursor)GPUHASH_EXPORT_CURSOR_INIT; /* a new one does not revive the other */
    some = 64;
    OK(gpuhash_export_part(table, &cursor, &some, keys, values, NULL, &err));
    some = 64;
    REFUSED(GPUHASH_INVALID_ARGUMENT, "has changed",
            gpuhash_export_part(table, &other, &some, keys, values, NULL, &err));
    gpuhash_table_destroy(table);
  }
}

static void mistakes(void) {
  gpuhash_table *table = filled(8, 8), *another = filled(8, 8);
  uint64_t keys[64], values[64]; /* of a bucket all pairs come at once: 9 of some seeds */
  size_t some = 0;
  gpuhash_export_cursor cursor = {0};
  REFUSED(GPUHASH_INVALID_ARGUMENT, "cursor is NULL",
          gpuhash_export_part(table, NULL, &some, keys, values, NULL, &err));
  REFUSED(GPUHASH_INVALID_ARGUMENT, "cursor is none of this version",
          gpuhash_export_part(table, &cursor, &some, keys, values, NULL, &err));
  cursor = (gpuhash_export_cursor)GPUHASH_EXPORT_CURSOR_INIT;
  cursor.state = 4;
  REFUSED(GPUHASH_INVALID_ARGUMENT, "cursor is none of this version",
          gpuhash_export_part(table, &cursor, &some, keys, values, NULL, &err));
  cursor.state = 0;
  cursor.order = 2;
  REFUSED(GPUHASH_INVALID_ARGUMENT, "2 is no order; pass GPUHASH_EXPORT_SPREAD",
          gpuhash_export_part(table, &cursor, &some, keys, values, NULL, &err));
  cursor.order = 0;
  REFUSED(GPUHASH_INVALID_ARGUMENT, "n is NULL", gpuhash_export_part(table, &cursor, NULL, keys, values, NULL, &err));
  REFUSED(GPUHASH_INVALID_ARGUMENT, "*n is 0", gpuhash_export_part(table, &cursor, &some, keys, values, NULL, &err));
  some = 4;
  REFUSED(GPUHASH_INVALID_ARGUMENT, "keys is NULL",
          gpuhash_export_part(table, &cursor, &some, NULL, values, NULL, &err));
  REFUSED(GPUHASH_INVALID_ARGUMENT, "overlaps keys",
          gpuhash_export_part(table, &cursor, &some, keys, keys + 1, NULL, &err));
  some = 64;
  OK(gpuhash_export_part(table, &cursor, &some, keys, values, NULL, &err));
  REFUSED(GPUHASH_INVALID_ARGUMENT, "cursor is of another table",
          gpuhash_export_part(another, &cursor, &some, keys, values, NULL, &err));
  gpuhash_table_destroy(table);
  gpuhash_table_destroy(another);
}

/* Of one key any number of values, which one bucket has. */
static void long_bucket(void) {
  const gpuhash_option duplicates = {"duplicates", "1"};
  gpuhash_table *table = make(8, 8, &duplicates, 1);
  static uint64_t keys[n], values[n];
  size_t some = 100, all = 0;
  for (size_t i = 0; i < n; ++i) keys[i] = 7, values[i] = i;
  OK(gpuhash_insert_multi(table, n, keys, values, NULL, NULL, &err));
  gpuhash_export_cursor cursor = GPUHASH_EXPORT_CURSOR_INIT;
  REFUSED(GPUHASH_INVALID_ARGUMENT, "a bucket has 3000 pairs, which come at once, and the arrays have room for 100",
          gpuhash_export_part(table, &cursor, &some, keys, values, NULL, &err));
  EXPECT(some == n);
  EXPECT(cursor.state == GPUHASH_EXPORT_BEGINS);
  while (cursor.state != GPUHASH_EXPORT_DONE) {
    some = n;
    OK(gpuhash_export_part(table, &cursor, &some, keys, values, NULL, &err));
    all += some;
  }
  EXPECT(all == n);
  gpuhash_table_destroy(table);
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  backend = argv[1];
  OK(gpuhash_backend_open(argv[2], NULL, &err));
  const uint32_t widths[][2] = {{4, 0}, {8, 0}, {4, 4}, {8, 8}, {8, 4}, {4, 8}};
  for (size_t i = 0; i < sizeof widths / sizeof *widths; ++i) all_pairs(widths[i][0], widths[i][1]);
  changes();
  mistakes();
  if (strcmp(backend, "slab_hash") == 0) long_bucket();
  return finish();
}
