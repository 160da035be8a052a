/* A module of the kit in a host of plugin ABI 1.0, which has no team of threads: it serves everything on the calling
 * thread. Arguments: the path of the module, and how much the host offers: 1.0 or 1.1. */
#define _DEFAULT_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "expect.h"
#include "gpuhash/plugin.h"

/* The core empties err before each call, and there is no core here. */
#define PASSES(call) EXPECT((call) == GPUHASH_OK)

enum { n = 300000 };

static uint64_t keys[n], values[n], outputs[n];
static int calls, most_threads;

static gpuhash_status fail(gpuhash_error *e, gpuhash_status code, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  if (e != NULL) e->code = code, vsnprintf(e->message, sizeof e->message, format, arguments);
  va_end(arguments);
  return code;
}

static void *allocate(void *context, size_t bytes, size_t alignment, void *stream) {
  (void)context, (void)stream;
  return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}
static void deallocate(void *context, void *p, size_t bytes, size_t alignment, void *stream) {
  (void)context, (void)bytes, (void)alignment, (void)stream;
  free(p);
}

static void parallel(uint32_t threads, size_t pieces, void (*body)(void *, size_t), void *context) {
  ++calls;
  if ((int)threads > most_threads) most_threads = (int)threads;
  while (pieces-- > 0) body(context, pieces); /* in another order than usual */
}
static uint32_t default_threads(void) { return 5; }

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  const int old = strcmp(argv[2], "1.0") == 0;
  const gpuhash_memory memory = {sizeof memory, NULL, allocate, deallocate};
  const gpuhash_host_api host = {old ? offsetof(gpuhash_host_api, parallel) : offsetof(gpuhash_host_api, check_memory),
                                 1,
                                 old ? 0 : 1,
                                 0,
                                 1,
                                 0,
                                 fail,
                                 &memory,
                                 old ? NULL : parallel,
                                 old ? NULL : default_threads,
                                 NULL, /* of 1.4: this host is of 1.1 at most */
                                 NULL};
  void *module = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  EXPECT(module != NULL);
  if (module == NULL) return finish();
  gpuhash_status (*init)(uint32_t, uint32_t, const gpuhash_host_api *, gpuhash_backend_v1 *, gpuhash_error *);
  *(void **)&init = dlsym(module, "gpuhash_plugin_init_v1");
  gpuhash_backend_v1 b = {.struct_size = sizeof b};
  PASSES(init(1, old ? 0 : 1, &host, &b, &err));

  for (uint64_t i = 0; i < n; ++i) keys[i] = i, values[i] = i + 1;
  gpuhash_config config = GPUHASH_CONFIG_INIT;
  config.device.kind = GPUHASH_CPU, config.key_bytes = config.value_bytes = 8, config.seed = 7;
  config.capacity = 4 * n;
  for (uint32_t threads = 0; threads <= 4; threads += 4) {
    void *table = NULL;
    calls = most_threads = 0;
    config.threads = threads;
    PASSES(b.create(&config, &table, &err));
    gpuhash_batch batch = GPUHASH_BATCH_INIT;
    batch.op = GPUHASH_OP_INSERT, batch.n = n, batch.keys = keys, batch.values = values;
    PASSES(b.run(table, &batch, &err));
    batch.op = GPUHASH_OP_FIND, batch.values = NULL, batch.out_values = outputs;
    PASSES(b.run(table, &batch, &err));
    PASSES(b.check(table, &err));
    size_t size = 0;
    PASSES(b.export_pairs(table, &size, NULL, NULL, NULL, &err));
    EXPECT(size == n && memcmp(outputs, values, sizeof values) == 0);
    b.destroy(table);
    EXPECT(old ? calls == 0 : calls >= 3);
    EXPECT(most_threads == (old ? 0 : threads == 0 ? 5 : 4)); /* the whole of a call, filling memory too */
  }
  config.threads = 1, calls = 0;
  void *table = NULL;
  PASSES(b.create(&config, &table, &err));
  EXPECT(calls == 0); /* threads=1 bounds the filling of memory too */
  b.destroy(table);

  int threads_here = 0;
  DIR *tasks = opendir("/proc/self/task");
  for (const struct dirent *d; (d = readdir(tasks)) != NULL;) threads_here += d->d_name[0] != '.';
  closedir(tasks);
  EXPECT(threads_here == 1);
  return finish();
}
