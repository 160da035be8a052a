/* Plugins that a host must refuse, and one that it must take: -DCASE=... chooses. Otherwise they are echo. */
#define REFUSES 1          /* the host's ABI is not good enough */
#define REFUSES_SILENTLY 2 /* the same without a reason */
#define UNDEFINED_SYMBOL 3
#define NO_ENTRY 4
#define WRONG_NAME 5 /* is called "other", whatever the file is called */
#define ILLEGAL_NAME 6
#define NO_NAME 7
#define NO_RUN 8     /* a mandatory entry is NULL */
#define NO_RANGE 9   /* an entry is NULL that the traits promise */
#define TOO_SHORT 10 /* fills less than version 1.0 */
#define TOO_LONG 11  /* fills more than the host has offered */
#define OLDER 12     /* fills what version 1.0 demands of a plugin with few traits: fine */
#define NO_WIDTHS 13
#define NO_DEVICE 14
#define NO_OPTIONS 15 /* announces options that are not there */
#define NO_OPTION_KEY 16
#define LATER_ABI 17 /* has the entry point of another major version */

#if CASE == NO_ENTRY
int something_else(void) { return 0; }
#elif CASE == LATER_ABI
__attribute__((visibility("default"))) int gpuhash_plugin_init_v2(void);
int gpuhash_plugin_init_v2(void) { return 0; }
#else
#define gpuhash_plugin_init_v1 init_of_echo
#include <string.h>

#include "echo.c"
#undef gpuhash_plugin_init_v1

#if CASE == UNDEFINED_SYMBOL
extern int gpuhash_symbol_that_nobody_defines(void);
#endif

GPUHASH_API gpuhash_status gpuhash_plugin_init_v1(uint32_t major, uint32_t minor, const gpuhash_host_api *host,
                                                  gpuhash_backend_v1 *out, gpuhash_error *err) {
  static const gpuhash_option_info nameless = {0};
  const size_t offered = out->struct_size;
  init_of_echo(major, minor, host, out, err);
  (void)offered, (void)nameless;
#if CASE == REFUSES
  return host->fail(err, GPUHASH_UNSUPPORTED, "needs ABI 2.%d", 7);
#elif CASE == REFUSES_SILENTLY
  return GPUHASH_UNSUPPORTED;
#elif CASE == UNDEFINED_SYMBOL
  return gpuhash_symbol_that_nobody_defines();
#elif CASE == WRONG_NAME
  out->name = "other";
#elif CASE == ILLEGAL_NAME
  out->name = "Two Words";
#elif CASE == NO_NAME
  out->name = NULL;
#elif CASE == NO_RUN
  out->run = NULL;
#elif CASE == NO_RANGE
  out->range = NULL;
#elif CASE == TOO_SHORT
  out->struct_size = offsetof(gpuhash_backend_v1, run);
#elif CASE == TOO_LONG
  out->struct_size = offered + 8;
#elif CASE == OLDER
  out->traits = GPUHASH_TRAIT_INSERT;
  out->flush = NULL;
  out->key_widths = out->value_widths = 1u << 8;
  out->struct_size = offsetof(gpuhash_backend_v1, find_all);
  memset(&out->find_all, 1, sizeof out->find_all); /* behind the end of what it fills: must not be read */
#elif CASE == NO_WIDTHS
  out->traits = GPUHASH_TRAIT_INSERT;
#elif CASE == NO_DEVICE
  out->devices = 0;
#elif CASE == NO_OPTIONS
  out->n_options = 2;
#elif CASE == NO_OPTION_KEY
  out->n_options = 1;
  out->options = &nameless;
#endif
  return GPUHASH_OK;
}
#endif
