/* The i-th allocation of the process's own heap fails while a plugin is found and loaded and a table is made and used,
 * for every i, each in a child of its own. No call may crash, and what fails must say so with a code.
 * The backend is "toy", found through GPUHASH_PLUGIN_PATH. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpuhash/gpuhash.h"

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);

static volatile long countdown = -1; /* below 0: no failure is armed, or it has happened */

static int fails(void) {
  if (countdown < 0 || countdown-- != 0) return 0;
  errno = ENOMEM;
  return 1;
}

/* These take the place of the C library's own. */
void *malloc(size_t bytes) { return fails() ? NULL : __libc_malloc(bytes); }
void *calloc(size_t n, size_t bytes) { return fails() ? NULL : __libc_calloc(n, bytes); }
void *realloc(void *p, size_t bytes) { return fails() ? NULL : __libc_realloc(p, bytes); }

enum { fine = 0, wrong = 1, not_reached = 2 };

/* A first use of the library. */
static int use(void) {
  const uint64_t key = 1, value = 2;
  gpuhash_error err = GPUHASH_ERROR_INIT;
  gpuhash_config config = GPUHASH_CONFIG_INIT;
  gpuhash_table *table = NULL;
  config.backend = "toy";
  gpuhash_backend_count();
  if (gpuhash_table_create(&config, &table, &err) != GPUHASH_OK) {
    const int known =
        err.code == GPUHASH_NO_MEMORY || err.code == GPUHASH_PLUGIN_ERROR || err.code == GPUHASH_NOT_FOUND;
    if (!known || table != NULL || err.message[0] == 0) return wrong;
    countdown = -1;
    err = (gpuhash_error)GPUHASH_ERROR_INIT;
    if (gpuhash_table_create(&config, &table, &err) != GPUHASH_OK) { /* a second attempt finds memory */
      fprintf(stderr, "second attempt: %s\n", err.message);
      return wrong;
    }
  }
  if (gpuhash_insert(table, 1, &key, &value, NULL, NULL, &err) != GPUHASH_OK) return wrong;
  gpuhash_table_destroy(table);
  return countdown >= 0 ? not_reached : fine;
}

int main(void) {
  for (long i = 0; i < 100000; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      countdown = i;
      _exit(use());
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) return 2;
    if (WIFEXITED(status) && WEXITSTATUS(status) == not_reached) {
      printf("%ld allocations failed in turn\n", i);
      return i < 10; /* a first use allocates more than that */
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != fine) {
      printf("allocation %ld: the child %s %d\n", i, WIFEXITED(status) ? "returned" : "was killed by signal",
             WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
      return 1;
    }
  }
  return 2;
}
