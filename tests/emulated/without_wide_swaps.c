/* On a processor that cannot swap 16 bytes, narrow pairs work and wide ones are refused. Argument: a backend. */
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

  config.key_bytes = config.value_bytes = 8;
  const gpuhash_status status_of_wide = gpuhash_table_create(&config, &table, &err);
  puts(err.message);
  expect_status(__LINE__, "wide pairs", GPUHASH_UNSUPPORTED, "use 4-byte keys and values, a set", status_of_wide);
  config.value_bytes = 0;
  OK(gpuhash_table_create(&config, &table, &err));
  gpuhash_table_destroy(table);
  return finish();
}
