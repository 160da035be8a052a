/* The published hash of each line of tests/columns/hash_vectors.tsv, which argument 1 names. Each cell is a column of one
 * row, or a field of one, in memory of Arrow's layout. */
#include <stdio.h>
#include <stdlib.h>

#include "expect.h"
#include "gpuhash/columns.h"

enum { MOST = 16, ROOM = 1024 };

static void keep_schema(struct ArrowSchema *s) { s->release = NULL; }
static void keep_array(struct ArrowArray *a) { a->release = NULL; }

/* A column of one row. */
typedef struct column {
  struct ArrowSchema type;
  struct ArrowArray array;
  uint8_t validity;
  uint8_t content[ROOM + 1]; /* from 1 on, so that text begins at an odd address */
  uint64_t cell[2];
  int32_t narrow[2];
  int64_t wide[2], heap_size;
  const void *buffers[4];
} column;

static size_t from_hex(const char *text, uint8_t *out) {
  size_t n = 0;
  unsigned byte;
  for (; n < ROOM && sscanf(text + 2 * n, "%2x", &byte) == 1; ++n) out[n] = (uint8_t)byte;
  return n;
}

static void make(column *c, const char *format, const char *text) {
  memset(c, 0, sizeof *c);
  const int null = !strcmp(text, "null");
  const size_t n = null || text[0] == '-' ? 0 : from_hex(text, c->content + 1);
  c->type = (struct ArrowSchema){.format = format, .name = "", .flags = ARROW_FLAG_NULLABLE, .release = keep_schema};
  c->array = (struct ArrowArray){
      .length = 1, .null_count = null, .n_buffers = 2, .buffers = c->buffers, .release = keep_array};
  c->validity = (uint8_t)!null;
  c->buffers[0] = &c->validity;
  if (!strcmp(format, "n")) {
    c->array.n_buffers = 0;
  } else if (strchr("uz", format[0]) || strchr("UZ", format[0])) {
    c->narrow[1] = (int32_t)n;
    c->wide[1] = (int64_t)n;
    c->buffers[1] = strchr("uz", format[0]) ? (const void *)c->narrow : (const void *)c->wide;
    c->buffers[2] = c->content + 1;
    c->array.n_buffers = 3;
  } else if (format[0] == 'v') { /* up to 12 bytes beside their number, or where they lie */
    const int32_t length = (int32_t)n;
    memcpy(c->cell, &length, 4);
    memcpy((char *)c->cell + 4, c->content + 1, n <= 12 ? n : 4);
    c->heap_size = (int64_t)n;
    c->buffers[1] = c->cell;
    c->buffers[2] = c->content + 1;
    c->buffers[3] = &c->heap_size;
    c->array.n_buffers = 4;
  } else if (format[0] == 'w') {
    c->buffers[1] = c->content + 1;
  } else {
    memcpy(c->cell, c->content + 1, n < 16 ? n : 16);
    c->buffers[1] = c->cell;
  }
}

/* Divides text at each of these characters; returns how many parts there are. */
static int split(char *text, char at, char **parts) {
  int n = 0;
  for (char *p = text; p && n < MOST; ++n) {
    parts[n] = p;
    p = strchr(p, at);
    if (p) *p++ = 0;
  }
  return n;
}

static void check_line(char *line) {
  static column columns[MOST];
  char *parts[MOST], *formats[MOST], *cells[MOST];
  if (split(line, '\t', parts) != 5) {
    EXPECT(!"a line has five parts");
    return;
  }
  const int rows = !strncmp(parts[0], "+s", 2);
  char *const names = rows ? parts[0] + 3 : parts[0];
  const int n = split(names, ' ', formats);
  EXPECT(split(parts[1], ' ', cells) == n && (rows || n == 1));
  struct ArrowSchema *types[MOST];
  struct ArrowArray *arrays[MOST];
  for (int i = 0; i < n; ++i) {
    make(&columns[i], formats[i], cells[i]);
    types[i] = &columns[i].type;
    arrays[i] = &columns[i].array;
  }
  const void *none[1] = {NULL};
  struct ArrowSchema type = {.format = "+s", .name = "", .n_children = n, .children = types, .release = keep_schema};
  struct ArrowArray array = {
      .length = 1, .n_buffers = 1, .n_children = n, .buffers = none, .children = arrays, .release = keep_array};
  const uint64_t seed = strtoull(parts[2], NULL, 10);
  const uint64_t first = strtoull(parts[3], NULL, 16), second = strtoull(parts[4], NULL, 16);
  uint64_t one[2] = {0, 42}, both[3] = {0, 0, 42};
  OK(gpuhash_hash_rows(rows ? &type : types[0], rows ? &array : arrays[0], 64, seed, 1, one, &err));
  OK(gpuhash_hash_rows(rows ? &type : types[0], rows ? &array : arrays[0], 128, seed, 1, both, &err));
  EXPECT(one[0] == first && one[1] == 42);
  EXPECT(both[0] == first && both[1] == second && both[2] == 42);
  if (one[0] != first || both[1] != second) printf("  of %s %s\n", names, parts[1]);
}

static void refused(void) {
  column c;
  uint64_t out[2];
  make(&c, "l", "0700000000000000");
  REFUSED(GPUHASH_INVALID_ARGUMENT, "bits is 32; a hash has 64 or 128",
          gpuhash_hash_rows(&c.type, &c.array, 32, 0, 1, out, &err));
  REFUSED(GPUHASH_INVALID_ARGUMENT, "out is NULL", gpuhash_hash_rows(&c.type, &c.array, 64, 0, 1, NULL, &err));
  REFUSED(GPUHASH_INVALID_ARGUMENT, "the ArrowSchema", gpuhash_hash_rows(NULL, &c.array, 64, 0, 1, out, &err));
  REFUSED(GPUHASH_INVALID_ARGUMENT, "the ArrowArray is NULL", gpuhash_hash_rows(&c.type, NULL, 64, 0, 1, out, &err));
  c.type.format = "+l";
  REFUSED(GPUHASH_UNSUPPORTED, "a list", gpuhash_hash_rows(&c.type, &c.array, 64, 0, 1, out, &err));
  c.type.format = "l";
  c.array.length = 0;
  OK(gpuhash_hash_rows(&c.type, &c.array, 64, 0, 0, NULL, &err));
}

int main(int argc, char **argv) {
  static char line[8 * ROOM];
  FILE *f = argc > 1 ? fopen(argv[1], "r") : NULL;
  int lines = 0;
  if (!f) return fprintf(stderr, "pass the file of test vectors\n"), 2;
  while (fgets(line, sizeof line, f)) {
    line[strcspn(line, "\n")] = 0;
    if (line[0] == '#' || line[0] == 0) continue;
    check_line(line);
    ++lines;
  }
  fclose(f);
  EXPECT(lines > 300);
  refused();
  return finish();
}
