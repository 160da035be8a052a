/* On a processor that cannot swap 16 bytes, narrow pairs work. Wide ones are refused, but by backends whose elements are
 * of any width: those never swap a pair at once. Argument: a backend. */
#include "../abi/programs/expect.h"

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  gpuhash_config config = GPUHASH_CONFIG_INIT;
  gpuhash_table *table = NULL;
  config.backend = argv[1];
  config.key_bytes = config.value_bytes = 4;
  OK(gpuhash_table_create(&config, &table, &err));
  const uint32_t keys[3] = {1, 2, 2}, values[3] = {5, 6, 6};
  uint8_t status[3];
  OK(gpuhash_insert(table, 3, keys, values, status, NULL, &err));
  EXPECT(status[0] + status[1] + status[2] == 2);
  gpuhash_table_destroy(table);

  gpuhash_backend_info info = {.struct_size = sizeof info};
  OK(gpuhash_backend_load(argv[1], &info, &err));
  config.key_bytes = config.value_bytes = 8;
  if (info.traits & GPUHASH_TRAIT_WIDE) {
    const uint64_t wide_keys[3] = {1, 2, 2}, wide_values[3] = {5, 6, 6};
    OK(gpuhash_table_create(&config, &table, &err));
    OK(gpuhash_insert(table, 3, wide_keys, wide_values, status, NULL, &err));
    EXPECT(status[0] + status[1] + status[2] == 2);
    gpuhash_table_destroy(table);
  } else {
    REFUSED(GPUHASH_UNSUPPORTED, "use 4-byte keys and values, a set", gpuhash_table_create(&config, &table, &err));
    REFUSED(GPUHASH_UNSUPPORTED, "which cpu:0 lacks", gpuhash_table_create(&config, &table, &err));
  }
  config.value_bytes = 0;
  OK(gpuhash_table_create(&config, &table, &err));
  gpuhash_table_destroy(table);
  return finish();
}
