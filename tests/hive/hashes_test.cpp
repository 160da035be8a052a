// The hash functions that hive takes by name, and the buckets of keys by them:
//   hashes_test < lines "key seed"
// For each line and each function: the hash of the key's 4 bytes and of its 8. For each pair and triple of functions the
// buckets of the key's 4 bytes in a table of 64 buckets. They lie in one segment, if there are several.
#include <stdio.h>

#include "libgpuhash/tile/host.hpp"
#include "plugins/hive/layout.hpp"

int main() {
  using namespace gpuhash;
  u64 key, seed;
  while (scanf("%llx %llx", &key, &seed) == 2) {
    for (u32 f = by_bithash1; f <= by_crc64; ++f)
      printf("%s %x %llx\n", hash_function_names[f], hash_by(f, u32(key), seed), hash_by(f, key, seed));
    hive_table<pair32> t{};
    t.base = 1, t.segment_buckets = 64, t.seed = seed;
    for (u32 a = by_bithash1; a <= by_crc64; ++a)
      for (u32 b = by_bithash1; b <= by_crc64; ++b)
        for (u32 c = 0; c <= by_crc64; ++c) {
          if (a == b || a == c || b == c) continue;
          t.ways = c ? 3 : 2, t.functions = a | b << 4 | c << 8;
          const u32 home = t.home(u32(key));
          printf("%s+%s+%s %u %u %u\n", hash_function_names[a], hash_function_names[b], hash_function_names[c], home,
                 t.bucket_of(u32(key), home, 1), c ? t.bucket_of(u32(key), home, 2) : 64);
          hive_table<pair32> parted = t;
          parted.base = 5;
          const u32 there = parted.home(u32(key)), segment = there / 64;
          for (u32 way = 1; way < t.ways; ++way)
            if (parted.bucket_of(u32(key), there, way) / 64 != segment) printf("a bucket in another segment\n");
        }
  }
}
