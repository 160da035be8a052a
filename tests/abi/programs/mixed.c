/* A mixed batch for which the heap has no memory is carried out all the same: its elements are served as they come.
 * Arguments: the backend's name and the path of its module. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>

#include "expect.h"

enum { many = 20000, too_large = 1 << 16 };

extern void *__libc_malloc(size_t);

static volatile int armed, refused;

/* Takes the place of the C library's own. */
void *malloc(size_t bytes) {
  if (!armed || bytes < too_large) return __libc_malloc(bytes);
  refused = 1;
  errno = ENOMEM;
  return NULL;
}

int main(int count, char **argument) {
  static uint8_t ops[many], status[many];
  static uint64_t keys[many], values[many], found[many];
  gpuhash_config config = GPUHASH_CONFIG_INIT;
  gpuhash_table *table = NULL;
  uint64_t size = 0;
  if (count != 3) return 2;
  OK(gpuhash_backend_open(argument[2], NULL, &err));
  config.backend = argument[1], config.capacity = 2 * many, config.grow = 0, config.threads = 2, config.seed = 7;
  config.key_bytes = config.value_bytes = 8;
  OK(gpuhash_table_create(&config, &table, &err));
  if (table == NULL) return finish();
  for (uint64_t i = 0; i < many; ++i) keys[i] = i, values[i] = 3 * i;
  OK(gpuhash_insert(table, many / 2, keys, values, NULL, NULL, &err)); /* the first half is there */
  for (uint64_t i = 0; i < many; ++i) {
    const uint8_t kinds[] = {GPUHASH_OP_FIND, GPUHASH_OP_INSERT, GPUHASH_OP_ERASE, GPUHASH_OP_ACCUMULATE,
                             GPUHASH_OP_NOP};
    ops[i] = kinds[i % 5], values[i] = i + 1;
  }
  armed = 1;
  OK(gpuhash_execute(table, many, ops, keys, values, found, status, NULL, &err));
  armed = 0;
  EXPECT(refused); /* or nothing was tried */
  int right = 0;
  for (uint64_t i = 0; i < many; ++i) {
    const int there = i < many / 2, adds = ops[i] == GPUHASH_OP_INSERT || ops[i] == GPUHASH_OP_ACCUMULATE;
    const int yes = ops[i] != GPUHASH_OP_NOP && (adds ? !there : there);
    right += status[i] == yes && found[i] == (ops[i] == GPUHASH_OP_FIND && there ? 3 * i : 0);
  }
  EXPECT(right == many);
  OK(gpuhash_find(table, many, keys, found, status, NULL, &err));
  for (uint64_t i = right = 0; i < many; ++i) {
    const int there = i < many / 2, adds = ops[i] == GPUHASH_OP_INSERT || ops[i] == GPUHASH_OP_ACCUMULATE;
    const uint64_t sum = ops[i] == GPUHASH_OP_ACCUMULATE ? 3 * i + i + 1 : 3 * i;
    right +=
        status[i] == (there ? ops[i] != GPUHASH_OP_ERASE : adds) && (!status[i] || found[i] == (there ? sum : i + 1));
  }
  EXPECT(right == many);
  OK(gpuhash_size(table, &size, &err));
  EXPECT(size ==
         many / 2 - many / 10 + many / 5); /* a fifth of the first half goes, two fifths of the other one come */
  OK(gpuhash_check(table, &err));
  gpuhash_table_destroy(table);
  return finish();
}
