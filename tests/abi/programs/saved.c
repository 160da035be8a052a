/* A program that keeps its tables: gpuhash_table_save and gpuhash_table_load with a file of the C library.
 *
 *     saved save FILE BACKEND PAIRS [DUPLICATES]   a table of so many pairs, in blocks
 *     saved load FILE [BACKEND]                    says what is in it, or why there is nothing
 *     saved fuzz FILE N SEED                       N changed copies with checksums that fit, of which none may do harm
 *     saved check                                  arguments that are wrong, and callbacks that fail */
#include <inttypes.h>
#include <stdlib.h>

#include "expect.h"
#include "gpuhash/saved.h"

enum { most_pairs = 100000 };

static int put(void *file, const void *data, size_t bytes) { return fwrite(data, 1, bytes, file) == bytes ? 0 : 5; }
static int get(void *file, uint64_t offset, void *to, size_t bytes) {
  if (fseek(file, (long)offset, SEEK_SET) != 0) return 29;
  return fread(to, 1, bytes, file) == bytes ? 0 : 5;
}

static gpuhash_table *made(const char *backend, size_t pairs, int duplicates) {
  if (pairs > most_pairs) abort();
  const gpuhash_option option = {"duplicates", "1"};
  gpuhash_config config = GPUHASH_CONFIG_INIT;
  config.backend = backend;
  config.options = &option;
  config.n_options = (size_t)duplicates;
  gpuhash_table *table = NULL;
  OK(gpuhash_table_create(&config, &table, &err));
  static uint64_t keys[most_pairs], values[most_pairs];
  for (uint64_t i = 0; i < pairs; ++i) keys[i] = (duplicates ? i / 2 : i) * 0x9E3779B97F4A7C15u, values[i] = i;
  if (duplicates)
    OK(gpuhash_insert_multi(table, pairs, keys, values, NULL, NULL, &err));
  else
    OK(gpuhash_insert(table, pairs, keys, values, NULL, NULL, &err));
  return table;
}

static int save(const char *path, const char *backend, size_t pairs, int duplicates) {
  gpuhash_table *table = made(backend, pairs, duplicates);
  FILE *file = fopen(path, "wb");
  if (file == NULL) return 2;
  const gpuhash_saved_writer writer = {put, file};
  gpuhash_saved_types types = GPUHASH_SAVED_TYPES_INIT;
  types.value_type = GPUHASH_INT;
  types.block_bytes = 4 * pairs;
  OK(gpuhash_table_save(table, &types, &writer, &err));
  fclose(file);
  gpuhash_table_destroy(table);
  return finish();
}

static int load(const char *path, const char *backend) {
  FILE *file = fopen(path, "rb");
  if (file == NULL || fseek(file, 0, SEEK_END) != 0) return 2;
  const gpuhash_saved_reader reader = {get, file, (uint64_t)ftell(file)};
  gpuhash_config config = GPUHASH_CONFIG_INIT;
  config.backend = backend;
  gpuhash_table *table = NULL;
  const gpuhash_status status = gpuhash_table_load(&config, &reader, &table, &err);
  fclose(file);
  if (status != GPUHASH_OK) {
    printf("%s\t%s\n", gpuhash_status_name(status), err.message);
    return table != NULL;
  }
  gpuhash_table_info info = {.struct_size = sizeof info};
  OK(gpuhash_table_get_info(table, &info, &err));
  OK(gpuhash_check(table, &err));
  printf("OK\t%s\t%" PRIu64 "\t%u\t%u\n", info.backend, info.size, info.key_bytes, info.value_bytes);
  gpuhash_table_destroy(table);
  return failures != 0;
}

/* ---- hostile files ---- */

struct memory {
  unsigned char *data;
  size_t size, room, most; /* most: bytes of the largest read */
};
static int remember(void *to, const void *data, size_t bytes) {
  struct memory *m = to;
  if (m->size + bytes > m->room) return 7;
  memcpy(m->data + m->size, data, bytes);
  m->size += bytes;
  return 0;
}
static int recall(void *from, uint64_t offset, void *to, size_t bytes) {
  struct memory *m = from;
  if (offset > m->size || bytes > m->size - offset) abort(); /* what the header rules out */
  memcpy(to, m->data + offset, bytes);
  if (bytes > m->most) m->most = bytes;
  return 0;
}

static uint32_t crc(const unsigned char *p, size_t n) {
  uint32_t c = ~0u;
  for (size_t i = 0; i < n; ++i) {
    c ^= p[i];
    for (int b = 0; b < 8; ++b) c = c & 1 ? c >> 1 ^ 0xedb88320u : c >> 1;
  }
  return ~c;
}
/* Checksums that fit: those of a file of `blocks` blocks whose places are those of the original. */
static void seal(struct memory *m, size_t sums, size_t blocks, const uint64_t *places) {
  char text[16];
  for (size_t i = 0; i <= blocks; ++i) {
    const uint64_t begin = i ? places[3 * i - 3] : 0;
    const uint64_t end = i ? begin + places[3 * i - 2] + places[3 * i - 1] : places[0];
    snprintf(text, sizeof text, "%08x", crc(m->data + begin, end - begin));
    memcpy(m->data + sums + 9 * i, text, 8);
  }
  const size_t own = sums + 9 * (blocks + 1);
  int32_t length;
  memcpy(&length, m->data + m->size - 10, 4);
  memcpy(m->data + own, "00000000", 8);
  snprintf(text, sizeof text, "%08x", crc(m->data + m->size - 10 - length, (size_t)length));
  memcpy(m->data + own, text, 8);
}

static uint64_t state;
static uint64_t draw(uint64_t n) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (state >> 33) % n;
}

static int fuzz(const char *path, long executions, uint64_t seed) {
  FILE *file = fopen(path, "rb");
  if (file == NULL) return 2;
  static unsigned char original[1 << 20], changed[1 << 20];
  struct memory m = {changed, fread(original, 1, sizeof original, file), sizeof changed, 0};
  fclose(file);
  /* Where the checksums are, and the blocks, of which every place is in the footer. */
  size_t sums = 0, blocks = 0;
  int32_t length;
  memcpy(&length, original + m.size - 10, 4);
  const size_t footer = m.size - 10 - (size_t)length;
  for (size_t i = footer; i + 18 < m.size - 10; ++i)
    if (memcmp(original + i, "gpuhash.checksums", 18) == 0) sums = i;
  if (!sums) return 3;
  static uint64_t places[3 * 64];
  for (size_t at = footer - 8, i = 8; i + 24 <= (size_t)length; i += 4) { /* the structs end at the end mark */
    uint64_t p[3];
    memcpy(p, original + footer + i, sizeof p);
    p[1] &= 0xffffffff;
    if (p[0] >= at || p[1] > at || p[2] > at || p[0] + p[1] + p[2] > at || p[0] < 16 || p[1] < 16 || p[0] % 8) continue;
    if (blocks == 64 || (blocks && p[0] != places[3 * blocks - 3] + places[3 * blocks - 2] + places[3 * blocks - 1]))
      continue;
    memcpy(places + 3 * blocks++, p, sizeof p);
    i += 20;
  }
  /* The text of the sums: in front of its name or behind it. */
  size_t text = 0;
  for (size_t i = footer; i + 9 * (blocks + 2) - 1 <= m.size - 10 && !text; ++i) {
    size_t k = 0;
    while (k < 9 * (blocks + 2) - 1 &&
           (k % 9 == 8 ? original[i + k] == ' ' : strchr("0123456789abcdef", original[i + k]) && original[i + k]))
      ++k;
    if (k == 9 * (blocks + 2) - 1) text = i;
  }
  memcpy(changed, original, m.size);
  if (!blocks || !text) return 4;
  seal(&m, text, blocks, places);
  EXPECT(memcmp(changed, original, m.size) == 0);
  long counts[GPUHASH_INTERNAL + 1] = {0};
  state = seed;
  for (long e = 0; e < executions; ++e) {
    memcpy(changed, original, m.size);
    for (uint64_t times = 1 + draw(4); times; --times) {
      const uint64_t width = (uint64_t)1 << draw(4), at = draw(m.size - 18);
      uint64_t value = draw(3) == 0 ? draw(UINT32_MAX) << 32 | draw(UINT32_MAX) : draw(2) ? draw(5) : ~draw(5);
      if (draw(3) == 0) {
        uint64_t there;
        memcpy(&there, changed + at, 8);
        value = there + (draw(2) ? 1 + 7 * draw(2) : ~(7 * draw(2)));
      }
      memcpy(changed + at, &value, width);
    }
    if (draw(8)) seal(&m, text, blocks, places);
    const gpuhash_saved_reader reader = {recall, &m, m.size};
    gpuhash_config config = GPUHASH_CONFIG_INIT;
    config.backend = draw(2) ? NULL : "linear_probe";
    gpuhash_table *table = NULL;
    const gpuhash_status status = gpuhash_table_load(&config, &reader, &table, NULL);
    ++counts[status];
    EXPECT((status == GPUHASH_OK) == (table != NULL));
    EXPECT(m.most <= m.size);
    gpuhash_table_destroy(table);
  }
  for (int s = 0; s <= GPUHASH_INTERNAL; ++s)
    if (counts[s]) printf("%s %ld\n", gpuhash_status_name((gpuhash_status)s), counts[s]);
  EXPECT(counts[GPUHASH_OK] + counts[GPUHASH_CORRUPT] + counts[GPUHASH_INVALID_ARGUMENT] + counts[GPUHASH_UNSUPPORTED] +
             counts[GPUHASH_NOT_FOUND] ==
         executions);
  EXPECT(counts[GPUHASH_CORRUPT] > 0);
  return finish();
}

/* ---- arguments ---- */

static int check(void) {
  gpuhash_table *table = made("linear_probe", most_pairs, 0), *out = NULL;
  static unsigned char data[4 << 20];
  struct memory m = {data, 0, 1000, 0};
  const gpuhash_saved_writer small = {remember, &m}, none = {NULL, NULL};
  gpuhash_saved_types types = GPUHASH_SAVED_TYPES_INIT;
  REFUSED(GPUHASH_INVALID_ARGUMENT, "table is NULL", gpuhash_table_save(NULL, NULL, &small, &err));
  REFUSED(GPUHASH_INVALID_ARGUMENT, "writer is NULL", gpuhash_table_save(table, NULL, NULL, &err));
  REFUSED(GPUHASH_INVALID_ARGUMENT, "writer is NULL", gpuhash_table_save(table, NULL, &none, &err));
  types.key_type = 3;
  REFUSED(GPUHASH_INVALID_ARGUMENT, "3 is no type", gpuhash_table_save(table, &types, &small, &err));
  types.struct_size = 1;
  REFUSED(GPUHASH_INVALID_ARGUMENT, "struct_size is 1", gpuhash_table_save(table, &types, &small, &err));
  REFUSED(GPUHASH_INVALID_ARGUMENT, "the writer answered 7 at byte", gpuhash_table_save(table, NULL, &small, &err));
  m.size = 0;
  m.room = sizeof data;
  OK(gpuhash_table_save(table, NULL, &small, &err));
  gpuhash_config config = GPUHASH_CONFIG_INIT;
  gpuhash_saved_reader reader = {recall, &m, m.size};
  REFUSED(GPUHASH_INVALID_ARGUMENT, "out is NULL", gpuhash_table_load(&config, &reader, NULL, &err));
  REFUSED(GPUHASH_INVALID_ARGUMENT, "config is NULL", gpuhash_table_load(NULL, &reader, &out, &err));
  REFUSED(GPUHASH_INVALID_ARGUMENT, "reader is NULL", gpuhash_table_load(&config, NULL, &out, &err));
  config.device.kind = GPUHASH_CUDA;
  REFUSED(GPUHASH_UNSUPPORTED, "are loaded on the CPU", gpuhash_table_load(&config, &reader, &out, &err));
  config.device.kind = GPUHASH_CPU;
  config.n_options = 1;
  REFUSED(GPUHASH_INVALID_ARGUMENT, "options is NULL", gpuhash_table_load(&config, &reader, &out, &err));
  config.n_options = 0;
  FILE *file = tmpfile();
  reader = (gpuhash_saved_reader){get, file, m.size};
  REFUSED(GPUHASH_INVALID_ARGUMENT, "the reader answered 5 for 8 bytes at byte 0",
          gpuhash_table_load(&config, &reader, &out, &err));
  fclose(file);
  reader = (gpuhash_saved_reader){recall, &m, m.size};
  OK(gpuhash_table_load(&config, &reader, &out, &err));
  uint64_t size = 0;
  OK(gpuhash_size(out, &size, &err));
  EXPECT(size == most_pairs);
  gpuhash_table_destroy(out);
  gpuhash_table_destroy(table);
  return finish();
}

int main(int argc, char **argv) {
  if (argc >= 5 && strcmp(argv[1], "save") == 0) return save(argv[2], argv[3], (size_t)atol(argv[4]), argc > 5);
  if (argc >= 3 && strcmp(argv[1], "load") == 0) return load(argv[2], argc > 3 ? argv[3] : NULL);
  if (argc == 5 && strcmp(argv[1], "fuzz") == 0) return fuzz(argv[2], atol(argv[3]), (uint64_t)atol(argv[4]));
  if (argc == 2 && strcmp(argv[1], "check") == 0) return check();
  return 2;
}
