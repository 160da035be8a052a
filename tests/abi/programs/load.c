/* Loads plugins as it is told, and prints what the library says, one line per command:
 *   open PATH | load NAME | list */
#include <stdio.h>
#include <string.h>

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
    else
      return 2;
  }
  return 0;
}
