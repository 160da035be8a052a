/* Rows by shard: gpuhash_partition gives what gpuhash_hash_rows and its contract say, any result may be NULL, and every bad
 * argument is refused. */
#include <stdlib.h>

#include "expect.h"
#include "gpuhash/columns.h"

enum { N = 200003, SHARDS = 257 };

static void keep_schema(struct ArrowSchema *s) { s->release = NULL; }
static void keep_array(struct ArrowArray *a) { a->release = NULL; }

static int64_t keys[N], out_keys[N], order[N], offsets[SHARDS + 1];
static uint64_t hashes[N];
static int32_t shards[N];
static char values[N][3], out_values[N][3];
static const void *buffers[3] = {NULL, keys, NULL};
static struct ArrowSchema type;
static struct ArrowArray rows;

static gpuhash_partition_request whole(void) {
  gpuhash_partition_request r = GPUHASH_PARTITION_REQUEST_INIT;
  type = (struct ArrowSchema){.format = "l", .name = "", .flags = ARROW_FLAG_NULLABLE, .release = keep_schema};
  rows = (struct ArrowArray){.length = N, .n_buffers = 2, .buffers = buffers, .release = keep_array};
  buffers[0] = NULL;
  buffers[1] = keys;
  r.type = &type;
  r.keys = &rows;
  r.shards = SHARDS;
  r.seed = 7;
  return r;
}

static void uses(uint32_t threads) {
  gpuhash_partition_request r = whole();
  r.threads = threads;
  r.out_shards = shards;
  OK(gpuhash_partition(&r, &err));
  OK(gpuhash_hash_rows(&type, &rows, 64, 7 ^ GPUHASH_PARTITION_SALT, 1, hashes, &err));
  int contract = 1, stable = 1, grouped = 1;
  for (int i = 0; i < N; ++i) contract &= shards[i] == (int32_t)((hashes[i] >> 32) * SHARDS >> 32);
  EXPECT(contract);

  r = whole();
  r.threads = threads;
  r.values = values;
  r.value_bytes = sizeof values[0];
  r.out_offsets = offsets;
  r.out_order = order;
  r.out_keys = out_keys;
  r.out_values = out_values;
  OK(gpuhash_partition(&r, &err));
  EXPECT(offsets[0] == 0 && offsets[SHARDS] == N);
  for (int s = 0; s < SHARDS; ++s)
    for (int64_t i = offsets[s]; i < offsets[s + 1]; ++i) {
      stable &= shards[order[i]] == s && (i == offsets[s] || order[i - 1] < order[i]);
      grouped &= out_keys[i] == keys[order[i]] && !memcmp(out_values[i], values[order[i]], 3);
    }
  EXPECT(stable);
  EXPECT(grouped);
}

/* Each result alone, from row 5 on, and none. */
static void parts(void) {
  gpuhash_partition_request r = whole();
  OK(gpuhash_partition(&r, &err));
  OK(gpuhash_partition(&r, NULL));
  rows.offset = 5;
  rows.length = 100;
  r.out_keys = out_keys;
  OK(gpuhash_partition(&r, &err));
  r.out_keys = NULL;
  r.out_order = order;
  OK(gpuhash_partition(&r, &err));
  int same = 1;
  for (int i = 0; i < 100; ++i) same &= out_keys[i] == keys[5 + order[i]];
  EXPECT(same);
  r.out_order = NULL;
  r.out_offsets = offsets;
  rows.length = 0;
  offsets[SHARDS] = 77;
  OK(gpuhash_partition(&r, &err));
  EXPECT(offsets[0] == 0 && offsets[SHARDS] == 0);
}

static void refusals(void) {
  REFUSED(GPUHASH_INVALID_ARGUMENT, "request is NULL", gpuhash_partition(NULL, &err));
  gpuhash_partition_request r = whole();
  r.struct_size = 8;
  REFUSED(GPUHASH_INVALID_ARGUMENT, "GPUHASH_PARTITION_REQUEST_INIT", gpuhash_partition(&r, &err));
  r = whole();
  r.shards = 0;
  REFUSED(GPUHASH_INVALID_ARGUMENT, "request.shards is 0; pass 1 to 65536", gpuhash_partition(&r, &err));
  r.shards = GPUHASH_MOST_SHARDS + 1;
  REFUSED(GPUHASH_INVALID_ARGUMENT, "request.shards is 65537", gpuhash_partition(&r, &err));
  r = whole();
  r.values = values;
  REFUSED(GPUHASH_INVALID_ARGUMENT, "request.value_bytes is 0", gpuhash_partition(&r, &err));
  r = whole();
  r.out_values = out_values;
  REFUSED(GPUHASH_INVALID_ARGUMENT, "request.out_values is set, and values is NULL", gpuhash_partition(&r, &err));
  r = whole();
  r.type = NULL;
  EXPECT(gpuhash_partition(&r, &err) == GPUHASH_INVALID_ARGUMENT);
  r = whole();
  r.keys = NULL;
  EXPECT(gpuhash_partition(&r, &err) == GPUHASH_INVALID_ARGUMENT);
  r = whole();
  type.format = "+l";
  EXPECT(gpuhash_partition(&r, &err) == GPUHASH_UNSUPPORTED);
  const uint8_t validity = 0xfb;
  r = whole();
  rows.length = 8;
  rows.null_count = 1;
  buffers[0] = &validity;
  r.out_keys = out_keys;
  REFUSED(GPUHASH_UNSUPPORTED, "row 2 is null; take keys by out_order", gpuhash_partition(&r, &err));
  rows.length = 2;
  OK(gpuhash_partition(&r, &err));
  const int32_t ends[3] = {0, 1, 2};
  r = whole();
  type.format = "u";
  rows.length = 2;
  rows.n_buffers = 3;
  buffers[1] = ends;
  buffers[2] = "ab";
  r.out_order = order;
  OK(gpuhash_partition(&r, &err));
  r.out_keys = out_keys;
  REFUSED(GPUHASH_UNSUPPORTED, "keys are text, not cells of fixed width", gpuhash_partition(&r, &err));
}

/* Places are the inverse of the order. */
static void places(void) {
  static uint32_t place[N];
  gpuhash_partition_request r = whole();
  r.out_order = order;
  r.out_places = place;
  OK(gpuhash_partition(&r, &err));
  for (int i = 0; i < N; ++i) EXPECT(place[order[i]] == (uint32_t)i);
  memset(place, 0xff, sizeof(place));
  r.out_order = NULL;
  OK(gpuhash_partition(&r, &err));
  for (int i = 0; i < N; ++i) EXPECT(place[order[i]] == (uint32_t)i);
  rows.length = (int64_t)1 << 32;
  REFUSED(GPUHASH_INVALID_ARGUMENT, "there are 4294967296 rows; pass fewer than 2^32", gpuhash_partition(&r, &err));
  void *const spread[3] = {out_keys, out_keys, out_keys};
  r = whole();
  r.shard_keys = spread;
  REFUSED(GPUHASH_UNSUPPORTED, "request.shard_keys is set, and the device is the CPU", gpuhash_partition(&r, &err));
  r.shard_keys = NULL;
  r.shard_values = spread;
  REFUSED(GPUHASH_UNSUPPORTED, "request.shard_values is set, and the device is the CPU", gpuhash_partition(&r, &err));
  r.device.kind = GPUHASH_CUDA;
  r.shards = 3;
  r.out_values = out_values;
  REFUSED(GPUHASH_INVALID_ARGUMENT, "request.shard_values and request.out_values are both set",
          gpuhash_partition(&r, &err));
  r.shards = GPUHASH_MOST_SPREAD + 1;
  REFUSED(GPUHASH_UNSUPPORTED, "there are 17 shards; at most 16 have places of their own", gpuhash_partition(&r, &err));
  r.shards = 3;
  r.values = NULL;
  r.out_values = NULL;
  REFUSED(GPUHASH_INVALID_ARGUMENT, "request.shard_values is set, and values is NULL", gpuhash_partition(&r, &err));
}

/* The way back; rows that are not named stay what they were. */
static void back(void) {
  const gpuhash_device cpu = {GPUHASH_CPU, 0};
  const int64_t to_rows[3] = {4, 0, 2};
  const char grouped[] = "aabbcc";
  char rows_of_two[] = "0123456789";
  OK(gpuhash_ungroup(3, to_rows, grouped, 2, rows_of_two, cpu, NULL, &err));
  EXPECT(!memcmp(rows_of_two, "bb23cc67aa", 10));
  OK(gpuhash_ungroup(0, NULL, NULL, 2, NULL, cpu, NULL, NULL));
  REFUSED(GPUHASH_INVALID_ARGUMENT, "bytes is 0; a row has at least one byte",
          gpuhash_ungroup(3, to_rows, grouped, 0, rows_of_two, cpu, NULL, &err));
  REFUSED(GPUHASH_INVALID_ARGUMENT, "order is NULL, and n is 3",
          gpuhash_ungroup(3, NULL, grouped, 2, rows_of_two, cpu, NULL, &err));
  REFUSED(GPUHASH_INVALID_ARGUMENT, "from is NULL", gpuhash_ungroup(3, to_rows, NULL, 2, rows_of_two, cpu, NULL, &err));
  REFUSED(GPUHASH_INVALID_ARGUMENT, "to is NULL", gpuhash_ungroup(3, to_rows, grouped, 2, NULL, cpu, NULL, &err));
  const gpuhash_device none = {7, 0};
  EXPECT(gpuhash_ungroup(3, to_rows, grouped, 2, rows_of_two, none, NULL, &err) != GPUHASH_OK);
}

/* The way back of rows that lie where their shards are. */
static void collected(void) {
  const uint32_t place[5] = {4, 0, 2, 1, 3};
  const int64_t offsets[4] = {0, 2, 2, 5};
  const void *const words[3] = {"aabb", NULL, "ccddee"}, *const bytes[3] = {NULL, NULL, "xyz"};
  char to[11] = "0123456789", flags[6] = "01234";
  const gpuhash_collected two[2] = {{words, 2, to}, {bytes, 1, flags}};
  gpuhash_collect_request r = GPUHASH_COLLECT_REQUEST_INIT;
  OK(gpuhash_collect(&r, &err));
  r.n = 5;
  REFUSED(GPUHASH_INVALID_ARGUMENT, "request.places is NULL, and n is 5", gpuhash_collect(&r, &err));
  r.places = place;
  REFUSED(GPUHASH_INVALID_ARGUMENT, "request.offsets is NULL, and n is 5", gpuhash_collect(&r, &err));
  r.offsets = offsets;
  REFUSED(GPUHASH_INVALID_ARGUMENT, "request.offsets are from 0 to 2; they are from 0 to n, 5",
          gpuhash_collect(&r, &err));
  r.shards = 3;
  REFUSED(GPUHASH_INVALID_ARGUMENT, "request.collected[0].bytes is 0", gpuhash_collect(&r, &err));
  r.collected[0] = two[0];
  OK(gpuhash_collect(&r, &err));
  EXPECT(!memcmp(to, "eeaaccbbdd", 10));
  memset(to, '-', 10);
  r.arrays = 2;
  REFUSED(GPUHASH_INVALID_ARGUMENT, "request.collected[1].bytes is 0", gpuhash_collect(&r, &err));
  r.collected[1] = two[1];
  OK(gpuhash_collect(&r, &err));
  EXPECT(!memcmp(to, "eeaaccbbdd", 10));
  EXPECT(!memcmp(flags, "z\0x\0y", 5));
  r.collected[1].to = NULL;
  REFUSED(GPUHASH_INVALID_ARGUMENT, "request.collected[1].to is NULL", gpuhash_collect(&r, &err));
  r.collected[1] = two[1];
  r.collected[1].from = NULL;
  REFUSED(GPUHASH_INVALID_ARGUMENT, "request.collected[1].from is NULL", gpuhash_collect(&r, &err));
  const int64_t backwards[4] = {0, 3, 2, 5};
  r.offsets = backwards;
  REFUSED(GPUHASH_INVALID_ARGUMENT, "request.offsets[1] is 3, more than the next one", gpuhash_collect(&r, &err));
  r.arrays = 3;
  REFUSED(GPUHASH_INVALID_ARGUMENT, "request.arrays is 3; pass 1 or 2", gpuhash_collect(&r, &err));
  r.shards = 17;
  REFUSED(GPUHASH_INVALID_ARGUMENT, "request.shards is 17; pass 1 to 16", gpuhash_collect(&r, &err));
  r.shards = 0;
  REFUSED(GPUHASH_INVALID_ARGUMENT, "request.shards is 0", gpuhash_collect(&r, &err));
  r.n = (size_t)1 << 32;
  REFUSED(GPUHASH_INVALID_ARGUMENT, "request.n is 4294967296; pass fewer than 2^32 rows", gpuhash_collect(&r, &err));
  const gpuhash_device none = {7, 0};
  r.n = 5, r.shards = 3, r.arrays = 1, r.offsets = offsets, r.device = none;
  EXPECT(gpuhash_collect(&r, &err) != GPUHASH_OK);
}

int main(void) {
  for (int i = 0; i < N; ++i) {
    keys[i] = (int64_t)i * i % 1000003 - 5;
    memcpy(values[i], &i, 3);
  }
  places();
  back();
  collected();
  uses(1);
  uses(3);
  uses(0);
  parts();
  refusals();
  return finish();
}
