/* Counts the words of a text: an index of <gpuhash/columns.h>, fed with Arrow structs that this program makes itself.
 *
 *     words [FILE]      prints the ten most frequent words and how often each occurs
 *
 * Without a file it counts a sentence of its own and checks what comes out, so that it is a test as well.
 */
#include <gpuhash/columns.h>

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void keep_schema(struct ArrowSchema *s) { s->release = NULL; }
static void keep_array(struct ArrowArray *a) { a->release = NULL; }

static int fail(const gpuhash_error *err) {
  fprintf(stderr, "%s\n", err->message);
  return 1;
}

static char *read_all(const char *path, size_t *n) {
  FILE *f = fopen(path, "rb");
  char *text = NULL;
  size_t room = 0;
  *n = 0;
  if (!f) return NULL;
  for (;;) {
    if (*n == room) text = realloc(text, room = room ? 2 * room : 65536);
    size_t got = text ? fread(text + *n, 1, room - *n, f) : 0;
    *n += got;
    if (got == 0) break;
  }
  fclose(f);
  return text;
}

static const int64_t *counts_of_order;
static int by_count(const void *a, const void *b) {
  int64_t x = counts_of_order[*(const int64_t *)a], y = counts_of_order[*(const int64_t *)b];
  return x < y ? 1 : x > y ? -1 : 0;
}

int main(int argc, char **argv) {
  const char *sentence = "the cat and the dog and the cat";
  size_t n = strlen(sentence), words = 0;
  char *text = argc > 1 ? read_all(argv[1], &n) : memcpy(malloc(n), sentence, n);
  if (!text) return fprintf(stderr, "%s cannot be read\n", argv[1]), 1;

  /* Arrow's text: all bytes one after the other, and where each word begins. Words are moved together in place. */
  int32_t *offsets = malloc((n + 2) * sizeof *offsets), end = 0;
  offsets[0] = 0;
  for (size_t i = 0; i <= n; ++i) {
    if (i < n && !isspace((unsigned char)text[i]))
      text[end++] = text[i];
    else if (end > offsets[words])
      offsets[++words] = end;
  }
  const void *buffers[3] = {NULL, offsets, text};
  struct ArrowSchema type = {"u", "word", NULL, 0, 0, NULL, NULL, keep_schema, NULL};
  struct ArrowArray column = {(int64_t)words, 0, 0, 3, 0, buffers, NULL, NULL, keep_array, NULL};

  gpuhash_error err = GPUHASH_ERROR_INIT;
  gpuhash_index_config config = GPUHASH_INDEX_CONFIG_INIT;
  gpuhash_index_info info = {sizeof info, 0, 0, 0};
  gpuhash_index *index = NULL;
  config.counts = 1;
  if (gpuhash_index_create(&type, &config, &index, &err) || gpuhash_index_add(index, &type, &column, NULL, &err) ||
      gpuhash_index_get_info(index, &info, &err))
    return fail(&err);

  struct ArrowSchema key_type;
  struct ArrowArray keys;
  int64_t *counts = malloc((info.size + 1) * sizeof *counts), *order = malloc((info.size + 1) * sizeof *order);
  if (gpuhash_index_counts(index, 0, info.size, counts, &err) ||
      gpuhash_index_keys(index, 0, info.size, &key_type, &keys, &err))
    return fail(&err);
  gpuhash_index_destroy(index); /* the keys stay */

  for (uint64_t i = 0; i < info.size; ++i) order[i] = (int64_t)i;
  counts_of_order = counts;
  qsort(order, info.size, sizeof *order, by_count);
  const int32_t *at = keys.buffers[1];
  const char *bytes = keys.buffers[2];
  printf("%zu words, %llu distinct\n", words, (unsigned long long)info.size);
  for (uint64_t i = 0; i < info.size && i < 10; ++i)
    printf("%10lld  %.*s\n", (long long)counts[order[i]], (int)(at[order[i] + 1] - at[order[i]]), bytes + at[order[i]]);
  int wrong = argc == 1 && (words != 8 || info.size != 4 || counts[0] != 3 || memcmp(bytes + at[0], "the", 3) != 0);
  printf("%d failed\n", wrong);
  key_type.release(&key_type);
  keys.release(&keys);
  free(text), free(offsets), free(counts), free(order);
  return wrong;
}
