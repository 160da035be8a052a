/* toy with less: -DSHAPE=... leaves out traits and widths. Each is a legal backend, and passes the conformance suite. */
#define ONLY_8 1    /* keys of 8 bytes with values of 8 bytes */
#define ONLY_SETS 2 /* keys of 4 bytes without values */
#define NO_GROWTH 3 /* tables keep their size */
#define NO_SUMS 4   /* no accumulate */
#define LEAST 5     /* all of that: INSERT alone, keys and values of 4 bytes */

#define gpuhash_plugin_init_v1 init_of_toy
#include "toy.c"
#undef gpuhash_plugin_init_v1

GPUHASH_API gpuhash_status gpuhash_plugin_init_v1(uint32_t major, uint32_t minor, const gpuhash_host_api *api,
                                                  gpuhash_backend_v1 *out, gpuhash_error *err) {
  const gpuhash_status status = init_of_toy(major, minor, api, out, err);
  out->name = "narrow";
  out->flush = NULL;
#if SHAPE == ONLY_8
  out->key_widths = out->value_widths = 1u << 8;
#elif SHAPE == ONLY_SETS
  out->key_widths = 1u << 4;
  out->value_widths = 1u;
  out->traits = GPUHASH_TRAIT_INSERT | GPUHASH_TRAIT_GROW;
#elif SHAPE == NO_GROWTH
  out->traits = GPUHASH_TRAIT_INSERT | GPUHASH_TRAIT_ACCUMULATE;
#elif SHAPE == NO_SUMS
  out->traits = GPUHASH_TRAIT_INSERT | GPUHASH_TRAIT_GROW;
#elif SHAPE == LEAST
  out->key_widths = out->value_widths = 1u << 4;
  out->traits = GPUHASH_TRAIT_INSERT;
#endif
  return status;
}
