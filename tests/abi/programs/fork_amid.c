/* Forks of a process in which other threads are in the library: in its registry, in batches, in a table's creation. The
 * child makes tables of its own, with all threads. Arguments: the backend's name and the path of its module. */
#define _DEFAULT_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"

enum { small = 3000, large = 1000000 /* its storage is filled by the team */ };

static atomic_int stop;
static const char *backend;
static uint64_t keys[large], values[large];

static gpuhash_table *create(uint64_t capacity) {
  gpuhash_config config = GPUHASH_CONFIG_INIT;
  config.backend = backend, config.capacity = capacity, config.threads = 3;
  gpuhash_table *table = NULL;
  return gpuhash_table_create(&config, &table, NULL) == GPUHASH_OK ? table : NULL;
}

/* 0: the table of this many keys works. */
static int use(uint64_t n, uint64_t capacity) {
  gpuhash_table *table = create(capacity);
  if (table == NULL) return 1;
  uint64_t size = 0;
  int bad = gpuhash_insert(table, n, keys, values, NULL, NULL, NULL) != GPUHASH_OK;
  bad |= gpuhash_size(table, &size, NULL) != GPUHASH_OK || size != n;
  bad |= gpuhash_check(table, NULL) != GPUHASH_OK;
  gpuhash_table_destroy(table);
  return bad;
}

static void *churn(void *unused) {
  while (!stop) gpuhash_backend_count();
  return unused;
}

static void *batches(void *unused) {
  gpuhash_table *table = create(large);
  while (!stop && table != NULL) gpuhash_insert(table, 100000, keys, values, NULL, NULL, NULL);
  gpuhash_table_destroy(table);
  return unused;
}

static void *creation(void *unused) {
  while (!stop) gpuhash_table_destroy(create(large));
  return unused;
}

static int forks(int n, uint64_t keys_of_child, uint64_t capacity) {
  int hung = 0;
  for (int i = 0; i < n && hung == 0; ++i) {
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
      alarm(30);
      _exit(use(keys_of_child, capacity));
    }
    int code = 0;
    EXPECT(waitpid(child, &code, 0) == child);
    EXPECT(WIFEXITED(code) && WEXITSTATUS(code) == 0);
    if (WIFSIGNALED(code)) ++hung;
  }
  return hung;
}

static void amid(void *(*work)(void *), int n) {
  pthread_t thread[2];
  stop = 0;
  for (int i = 0; i < 2; ++i) EXPECT(pthread_create(thread + i, NULL, work, NULL) == 0);
  usleep(20000);
  EXPECT(forks(n, small, small) == 0);
  EXPECT(forks(1, 50000, large) == 0);
  stop = 1;
  for (int i = 0; i < 2; ++i) pthread_join(thread[i], NULL);
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  backend = argv[1];
  OK(gpuhash_backend_open(argv[2], NULL, &err));
  for (uint64_t i = 0; i < large; ++i) keys[i] = i * 3, values[i] = i;
  EXPECT(forks(2, 50000, large) == 0); /* before any use */
  EXPECT(use(50000, large) == 0);
  EXPECT(forks(2, 50000, large) == 0); /* above 8 MiB after the same in the parent */
  EXPECT(forks(2, small, small) == 0);
  amid(churn, 40);
  amid(batches, 8);
  amid(creation, 8);
  EXPECT(use(50000, large) == 0);
  return finish();
}
