/* Devices and pointers as the library sees them through a fake CUDA driver (plugins/driver.c). Arguments: a test, and
 * the path of a module that agrees to everything, on every device. */
#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"

enum { n = 512, pages = 4096 };
#define INVALID GPUHASH_INVALID_ARGUMENT

/* Pages of their own, since the library remembers pages. */
static _Alignas(4096) unsigned char host[4 * pages], here[pages], there[pages], managed[pages], pinned[pages];

static void *loaded(void) { return dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD); }
static int counter(const char *name) {
  const int *found = dlsym(loaded(), name);
  return found == NULL ? -1 : *found;
}
static void place_all(void) {
  void (*place)(const void *, size_t, unsigned, int, int) = NULL;
  void *symbol = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "fake_place");
  memcpy(&place, &symbol, sizeof symbol);
  if (place == NULL) exit(2);
  place(here, sizeof here, 2, 0, 0);
  place(there, sizeof there, 2, 0, 1);
  place(managed, sizeof managed, 2, 1, 0);
  place(pinned, sizeof pinned, 1, 0, 0);
}
static gpuhash_table *make(int32_t kind, int32_t ordinal) {
  gpuhash_config config = GPUHASH_CONFIG_INIT;
  config.backend = "anywhere";
  config.device = (gpuhash_device){kind, ordinal};
  gpuhash_table *table = NULL;
  OK(gpuhash_table_create(&config, &table, &err));
  if (table == NULL) exit(finish());
  return table;
}

static void described(void) {
  gpuhash_device_info info = {.struct_size = sizeof info};
  EXPECT(gpuhash_device_count(GPUHASH_CUDA, &err) == 2 && err.message[0] == 0);
  for (int i = 0; i < 2; ++i) {
    OK(gpuhash_device_get_info((gpuhash_device){GPUHASH_CUDA, i}, &info, &err));
    EXPECT(strcmp(info.name, i == 0 ? "fake 40" : "fake 41") == 0);
    EXPECT(info.memory_bytes == ((uint64_t)(40 + i) << 32) + 5);
    EXPECT(info.compute_major == 7540u + (unsigned)i && info.compute_minor == 7640u + (unsigned)i);
    EXPECT(info.units == 1640u + (unsigned)i && info.driver_version == 13010);
  }
  REFUSED(INVALID, "device cuda:2 does not exist; ordinals here are 0 to 1",
          gpuhash_device_get_info((gpuhash_device){GPUHASH_CUDA, 2}, &info, &err));
  REFUSED(INVALID, "device cuda:-1 does not exist",
          gpuhash_device_get_info((gpuhash_device){GPUHASH_CUDA, -1}, &info, &err));
  EXPECT(counter("fake_inits") == 1);
  for (int attribute = 1; attribute < 100; ++attribute) {
    char text[8];
    snprintf(text, sizeof text, "%d", attribute);
    setenv("FAKE_ATTRIBUTE", text, 1);
    if (attribute == 16 || attribute == 75 || attribute == 76)
      REFUSED(GPUHASH_DEVICE_ERROR, "the driver does not describe cuda:1",
              gpuhash_device_get_info((gpuhash_device){GPUHASH_CUDA, 1}, &info, &err));
    else
      OK(gpuhash_device_get_info((gpuhash_device){GPUHASH_CUDA, 1}, &info, &err));
  }
}

/* Whose memory: before the library has asked for the driver, as a framework hands us its first array, and then. */
static void pointers(void) {
  EXPECT(gpuhash_pointer_device(here).kind == GPUHASH_CPU);
  EXPECT(loaded() == NULL); /* nobody has loaded it, and asking for a pointer does not */
  place_all();
  for (int opened = 0; opened < 2; ++opened) {
    EXPECT(gpuhash_pointer_device(here).kind == GPUHASH_CUDA && gpuhash_pointer_device(here).ordinal == 0);
    EXPECT(gpuhash_pointer_device(there).kind == GPUHASH_CUDA && gpuhash_pointer_device(there).ordinal == 1);
    EXPECT(gpuhash_pointer_device(there + pages - 1).ordinal == 1);
    EXPECT(gpuhash_pointer_device(managed).kind == GPUHASH_CPU);
    EXPECT(gpuhash_pointer_device(pinned).kind == GPUHASH_CPU);
    EXPECT(gpuhash_pointer_device(host).kind == GPUHASH_CPU);
    EXPECT(gpuhash_pointer_device(NULL).kind == GPUHASH_CPU);
    EXPECT(counter("fake_inits") == opened); /* it was borrowed as it was */
    EXPECT(gpuhash_device_count(GPUHASH_CUDA, &err) == 2);
  }
}

static void arrays(void) {
  place_all();
  gpuhash_table *cuda[2];
  gpuhash_table *cpu = make(GPUHASH_CPU, 0);
  for (int i = 0; i < 2; ++i) cuda[i] = make(GPUHASH_CUDA, i);
  void *const own[] = {here, there};
  for (int i = 0; i < 2; ++i) {
    OK(gpuhash_insert(cuda[i], n / 2, own[i], (char *)own[i] + pages / 2, NULL, NULL, &err));
    OK(gpuhash_insert(cuda[i], n, managed, pinned, NULL, NULL, &err));
    OK(gpuhash_find(cuda[i], n, pinned, own[i], NULL, NULL, &err));
    OK(gpuhash_check(cuda[i], &err));
    REFUSED(INVALID,
            i == 0 ? "is memory of cuda:1, but the table is on cuda:0; copy it there first"
                   : "is memory of cuda:0, but the table is on cuda:1; copy it there first",
            gpuhash_insert(cuda[i], n, own[1 - i], pinned, NULL, NULL, &err));
    REFUSED(INVALID, i == 0 ? "keys (0x" : "is memory of cpu, but the table is on cuda:1",
            gpuhash_insert(cuda[i], n, host, own[i], NULL, NULL, &err));
    REFUSED(INVALID, "values (0x", gpuhash_insert(cuda[i], n, own[i], host, NULL, NULL, &err));
    REFUSED(INVALID, "status (0x", gpuhash_insert(cuda[i], n, own[i], pinned, host, NULL, &err));
  }
  OK(gpuhash_insert(cpu, n, host, host + pages, host + 2 * pages, NULL, &err));
  OK(gpuhash_insert(cpu, n, pinned, managed, NULL, NULL, &err));
  REFUSED(INVALID, "is memory of cuda:0, but the table is on cpu",
          gpuhash_insert(cpu, n, here, pinned, NULL, NULL, &err));
  REFUSED(INVALID, "is memory of cuda:1, but the table is on cpu", gpuhash_find(cpu, n, host, there, NULL, NULL, &err));
  /* The CPU's pages are remembered, and no others: they were asked about once each. */
  const int asked = counter("fake_questions");
  for (int i = 0; i < 10; ++i) OK(gpuhash_insert(cpu, n, host, host + pages, host + 2 * pages, NULL, &err));
  EXPECT(counter("fake_questions") == asked);
  for (int i = 0; i < 2; ++i)
    REFUSED(INVALID, "is memory of cuda:0", gpuhash_insert(cpu, n, here, host + pages, NULL, NULL, &err));
  EXPECT(counter("fake_questions") > asked);
  for (int i = 0; i < 2; ++i) gpuhash_table_destroy(cuda[i]);
  gpuhash_table_destroy(cpu);
}

/* CUDA cannot be used in the child of a fork. */
static void forked(void) {
  EXPECT(gpuhash_device_count(GPUHASH_CUDA, &err) == 2);
  gpuhash_table *table = make(GPUHASH_CUDA, 1);
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    gpuhash_device_info info = {.struct_size = sizeof info};
    EXPECT(gpuhash_device_count(GPUHASH_CUDA, &err) == 0);
    EXPECT(strstr(err.message, "was forked after CUDA had been initialised; start it with spawn") != NULL);
    REFUSED(GPUHASH_DEVICE_ERROR, "device cuda:0 cannot be used: this process was forked",
            gpuhash_device_get_info((gpuhash_device){GPUHASH_CUDA, 0}, &info, &err));
    gpuhash_table *own = make(GPUHASH_CPU, 0);
    OK(gpuhash_insert(own, n, host, host + pages, NULL, NULL, &err));
    gpuhash_table_destroy(own);
    _exit(finish());
  }
  int code = 0;
  EXPECT(waitpid(child, &code, 0) == child && WIFEXITED(code) && WEXITSTATUS(code) == 0);
  EXPECT(gpuhash_device_count(GPUHASH_CUDA, &err) == 2);
  OK(gpuhash_check(table, &err));
  gpuhash_table_destroy(table);
}

/* A driver of no use: in the environment FAKE_SENTENCE is why. Everything else goes on as without one. */
static void useless(void) {
  gpuhash_device_info info = {.struct_size = sizeof info};
  const char *sentence = getenv("FAKE_SENTENCE");
  for (int i = 0; i < 2; ++i) {
    EXPECT(gpuhash_device_count(GPUHASH_CUDA, &err) == 0 && err.code == GPUHASH_DEVICE_ERROR);
    if (strstr(err.message, sentence) == NULL) printf("it says '%s', not '%s'\n", err.message, sentence);
    EXPECT(strstr(err.message, sentence) != NULL);
    REFUSED(GPUHASH_DEVICE_ERROR, sentence, gpuhash_device_get_info((gpuhash_device){GPUHASH_CUDA, 0}, &info, &err));
  }
  EXPECT(counter("fake_inits") <= 1);
  gpuhash_table *cpu = make(GPUHASH_CPU, 0);
  OK(gpuhash_insert(cpu, n, host, host + pages, NULL, NULL, &err));
  gpuhash_table_destroy(cpu);
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  const struct {
    const char *name;
    void (*run)(void);
  } groups[] = {
      {"described", described}, {"pointers", pointers}, {"arrays", arrays}, {"forked", forked}, {"useless", useless}};
  OK(gpuhash_backend_open(argv[2], NULL, &err));
  for (size_t i = 0; i < sizeof groups / sizeof *groups; ++i)
    if (strcmp(groups[i].name, argv[1]) == 0) {
      groups[i].run();
      return finish();
    }
  return 2;
}
