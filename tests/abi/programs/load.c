/* Loads plugins as it is told, and prints what the library says, one line per command:
 *   open PATH | load NAME-OR-PATH | list | table NAME-OR-PATH (what the table says of itself, and its size after an
 *   insert) | link FROM TO (into a directory that is made, instead of what is there) */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gpuhash/gpuhash.h"

static void say(gpuhash_status status, const gpuhash_backend_info *info, const gpuhash_error *err) {
  printf("%s\t%s\n", gpuhash_status_name(status), status == GPUHASH_OK ? info->path : err->message);
}

static void list(void) {
  const size_t n = gpuhash_backend_count();
  for (size_t i = 0; i < n; ++i) {
    gpuhash_backend_info info = {.struct_size = sizeof info};
    if (gpuhash_backend_get(i, &info, NULL) != GPUHASH_OK) continue;
    printf("%s\t%s\t%s\t%s\n", info.name, info.loaded ? "loaded" : "found", info.path, info.error ? info.error : "");
  }
}

static void make_table(const char *backend) {
  const uint64_t key = 7;
  uint64_t size = 0;
  gpuhash_config config = GPUHASH_CONFIG_INIT;
  gpuhash_table_info info = {.struct_size = sizeof info};
  gpuhash_error err = GPUHASH_ERROR_INIT;
  gpuhash_table *table;
  config.backend = backend;
  const gpuhash_status status = gpuhash_table_create(&config, &table, &err);
  if (status != GPUHASH_OK) {
    printf("%s\t%s\n", gpuhash_status_name(status), err.message);
    return;
  }
  gpuhash_insert(table, 1, &key, &key, NULL, NULL, NULL);
  gpuhash_size(table, &size, NULL);
  const gpuhash_status told = gpuhash_table_get_info(table, &info, &err);
  printf("%s\t%s\t%d\n", gpuhash_status_name(told), info.backend, (int)size);
  gpuhash_table_destroy(table);
}

static void link_to(const char *from, const char *to) {
  char folder[4096] = "";
  strncpy(folder, to, (size_t)(strrchr(to, '/') - to));
  mkdir(folder, 0777);
  unlink(to);
  printf("%s\n", symlink(from, to) == 0 ? "linked" : "not linked");
}

int main(int argc, char **argv) {
  for (int i = 1; i < argc; ++i) {
    gpuhash_backend_info info = {.struct_size = sizeof info};
    gpuhash_error err = GPUHASH_ERROR_INIT;
    if (strcmp(argv[i], "list") == 0)
      list();
    else if (strcmp(argv[i], "open") == 0 && i + 1 < argc)
      say(gpuhash_backend_open(argv[++i], &info, &err), &info, &err);
    else if (strcmp(argv[i], "load") == 0 && i + 1 < argc)
      say(gpuhash_backend_load(argv[++i], &info, &err), &info, &err);
    else if (strcmp(argv[i], "table") == 0 && i + 1 < argc)
      make_table(argv[++i]);
    else if (strcmp(argv[i], "link") == 0 && i + 2 < argc) {
      link_to(argv[i + 1], argv[i + 2]);
      i += 2;
    } else
      return 2;
  }
  return 0;
}
