/* The functions that write defaults, as a language without macros calls them: what they write is what the macros say, and
 * a caller whose struct is shorter or longer than the library's gets what both know. */
#include <stddef.h>

#include "expect.h"

static void of_tables(void) {
  const gpuhash_config wanted = GPUHASH_CONFIG_INIT;
  struct {
    gpuhash_config config;
    unsigned char more[16];
  } held;

  memset(&held, 0xa5, sizeof held);
  gpuhash_config_init(&held.config, sizeof held.config);
  EXPECT(held.config.struct_size == sizeof(gpuhash_config));
  EXPECT(strcmp(held.config.backend, wanted.backend) == 0);
  EXPECT(held.config.device.kind == GPUHASH_CPU && held.config.device.ordinal == 0);
  EXPECT(held.config.key_bytes == wanted.key_bytes && held.config.value_bytes == wanted.value_bytes);
  EXPECT(held.config.capacity == 0 && held.config.max_load_factor == 0 && held.config.seed == 0);
  EXPECT(held.config.grow == wanted.grow && held.config.threads == 0);
  EXPECT(held.config.memory == NULL && held.config.options == NULL && held.config.n_options == 0);
  EXPECT(held.config.stream == NULL);
  EXPECT(held.more[0] == 0xa5);
  gpuhash_table *table;
  OK(gpuhash_table_create(&held.config, &table, &err));
  gpuhash_table_destroy(table);

  memset(&held, 0xa5, sizeof held); /* of a newer header: zeros ask for nothing */
  gpuhash_config_init(&held.config, sizeof held);
  EXPECT(held.config.struct_size == sizeof held && held.more[0] == 0 && held.more[15] == 0);
  OK(gpuhash_table_create(&held.config, &table, &err));
  gpuhash_table_destroy(table);

  memset(&held, 0xa5, sizeof held); /* of an older one */
  gpuhash_config_init(&held.config, offsetof(gpuhash_config, stream));
  EXPECT(held.config.struct_size == offsetof(gpuhash_config, stream) && held.config.n_options == 0);
  EXPECT(held.config.stream != NULL);
}

static void of_slabs(void) {
  gpuhash_slab_config config;
  memset(&config, 0xa5, sizeof config);
  gpuhash_slab_config_init(&config, sizeof config);
  EXPECT(config.struct_size == sizeof config && strcmp(config.kind, "slab_alloc") == 0);
  EXPECT(config.device.kind == GPUHASH_CPU && config.unit_bytes == 128 && config.super_blocks == 0);
  EXPECT(config.max_super_blocks == 0 && config.memory_blocks == 0 && config.seed == 0 && config.threads == 0);
  EXPECT(config.wipe == 0 && config.memory == NULL && config.stream == NULL);
}

static void of_sizes_that_no_struct_has(void) {
  gpuhash_config config;
  const size_t sizes[] = {0, 7, 4097, (size_t)-1};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
    memset(&config, 0xa5, sizeof config);
    gpuhash_config_init(&config, sizes[i]);
    gpuhash_table *table = (gpuhash_table *)1;
    EXPECT(((unsigned char *)&config)[0] == 0xa5);
    REFUSED(GPUHASH_INVALID_ARGUMENT, "initialise it with GPUHASH_CONFIG_INIT",
            gpuhash_table_create(&config, &table, &err));
    EXPECT(table == NULL);
  }
  gpuhash_config_init(NULL, sizeof config);
}

int main(void) {
  of_tables();
  of_slabs();
  of_sizes_that_no_struct_has();
  return finish();
}
