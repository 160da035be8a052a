/* Pointers of the wrong device are refused, pinned and managed memory is taken on both sides, device information.
 * Arguments: a backend for the CPU with the path of its module, and optionally one for CUDA with its path. Exits with 77
 * and the reason where there is no CUDA device. Uses the driver API through dlopen: no toolkit is needed to build it. */
#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

#include "expect.h"

enum { n = 8, bytes = n * 8, skipped = 77 };

static struct {
  int (*init)(unsigned);
  int (*retain)(void **context, int device);
  int (*set_current)(void *context);
  int (*alloc)(unsigned long long *p, size_t bytes);
  int (*alloc_managed)(unsigned long long *p, size_t bytes, unsigned flags);
  int (*alloc_host)(void **p, size_t bytes, unsigned flags);
} cuda;

static int bind(void) {
  const struct {
    void *function;
    const char *name;
  } all[] = {
      {&cuda.init, "cuInit"},
      {&cuda.retain, "cuDevicePrimaryCtxRetain"},
      {&cuda.set_current, "cuCtxSetCurrent"},
      {&cuda.alloc, "cuMemAlloc_v2"},
      {&cuda.alloc_managed, "cuMemAllocManaged"},
      {&cuda.alloc_host, "cuMemHostAlloc"},
  };
  void *library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == NULL) return 0;
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) {
    void *symbol = dlsym(library, all[i].name);
    if (symbol == NULL) return 0;
    memcpy(all[i].function, &symbol, sizeof symbol);
  }
  return 1;
}

static gpuhash_table *make(const char *backend, int32_t kind) {
  gpuhash_config config = GPUHASH_CONFIG_INIT;
  config.backend = backend;
  config.device.kind = kind;
  gpuhash_table *table = NULL;
  OK(gpuhash_table_create(&config, &table, &err));
  if (table == NULL) exit(finish());
  return table;
}

static void *device, *managed, *pinned;
static uint64_t host[n], values[n];

static void on_cpu(const char *backend) {
  gpuhash_table *t = make(backend, GPUHASH_CPU);
  REFUSED(GPUHASH_INVALID_ARGUMENT, "is memory of cuda:0, but the table is on cpu",
          gpuhash_insert(t, n, device, values, NULL, NULL, &err));
  REFUSED(GPUHASH_INVALID_ARGUMENT, "out_values (0x", gpuhash_find(t, n, host, device, NULL, NULL, &err));
  REFUSED(GPUHASH_INVALID_ARGUMENT, "counts (0x", gpuhash_histogram(t, n, device, &err));
  size_t room = n;
  REFUSED(GPUHASH_INVALID_ARGUMENT, "is memory of cuda:0", gpuhash_export(t, &room, device, NULL, NULL, &err));
  OK(gpuhash_insert(t, n, pinned, values, NULL, NULL, &err));
  OK(gpuhash_insert(t, n, managed, values, NULL, NULL, &err));
  OK(gpuhash_insert(t, n, host, values, NULL, NULL, &err));
  struct timespec start, end;
  const int calls = 100000;
  clock_gettime(CLOCK_MONOTONIC, &start);
  for (int i = 0; i < calls; ++i) gpuhash_find(t, 1, host, values, NULL, NULL, NULL);
  clock_gettime(CLOCK_MONOTONIC, &end);
  const double ns = (double)(end.tv_sec - start.tv_sec) * 1e9 + (double)(end.tv_nsec - start.tv_nsec);
  printf("find of one key on the CPU, with the driver in use: %.0f ns\n", ns / calls);
  gpuhash_table_destroy(t);
}

static void on_cuda(const char *backend) {
  gpuhash_backend_info built = {.struct_size = sizeof built};
  OK(gpuhash_backend_load(backend, &built, &err));
  if ((built.devices >> GPUHASH_CUDA & 1) == 0) return; /* the prefix was built without CUDA */
  gpuhash_table *t = make(backend, GPUHASH_CUDA);
  REFUSED(GPUHASH_INVALID_ARGUMENT, "is memory of cpu, but the table is on cuda:0",
          gpuhash_insert(t, n, host, device, NULL, NULL, &err));
  REFUSED(GPUHASH_INVALID_ARGUMENT, "out_values (0x", gpuhash_find(t, n, device, host, NULL, NULL, &err));
  OK(gpuhash_insert(t, n, pinned, managed, NULL, NULL, &err));
  OK(gpuhash_find(t, n, pinned, device, NULL, NULL, &err));
  OK(gpuhash_check(t, &err));
  gpuhash_table_destroy(t);
}

int main(int argc, char **argv) {
  if (argc != 3 && argc != 5) return 2;
  if (gpuhash_device_count(GPUHASH_CUDA, &err) == 0 || !bind()) {
    puts(err.message);
    return skipped;
  }
  void *context = NULL;
  unsigned long long address[2];
  EXPECT(cuda.init(0) == 0 && cuda.retain(&context, 0) == 0 && cuda.set_current(context) == 0);
  EXPECT(cuda.alloc(&address[0], bytes) == 0);
  EXPECT(cuda.alloc_managed(&address[1], bytes, 1) == 0);
  EXPECT(cuda.alloc_host(&pinned, bytes, 0) == 0);
  if (failures != 0) return finish();
  memcpy(&device, &address[0], sizeof device);
  memcpy(&managed, &address[1], sizeof managed);
  for (uint64_t i = 0; i < n; ++i) host[i] = ((uint64_t *)pinned)[i] = ((uint64_t *)managed)[i] = i;

  gpuhash_device_info info = {.struct_size = sizeof info};
  OK(gpuhash_device_get_info((gpuhash_device){GPUHASH_CUDA, 0}, &info, &err));
  EXPECT(info.name[0] != 0 && info.memory_bytes > 0 && info.compute_major >= 7 && info.units > 0);
  printf("%s, %u.%u, %u multiprocessors, driver %u\n", info.name, info.compute_major, info.compute_minor, info.units,
         info.driver_version);
  EXPECT(gpuhash_pointer_device(device).kind == GPUHASH_CUDA && gpuhash_pointer_device(device).ordinal == 0);
  EXPECT(gpuhash_pointer_device(pinned).kind == GPUHASH_CPU);
  EXPECT(gpuhash_pointer_device(host).kind == GPUHASH_CPU);
  for (int i = 1; i < argc; i += 2) OK(gpuhash_backend_open(argv[i + 1], NULL, &err));
  on_cpu(argv[1]);
  if (argc == 5) on_cuda(argv[3]);
  return finish();
}
