/* gpuhash for columns: distinct rows of any type get dense ids that stay.
 *
 * Columns come and go as structs of Arrow's C data interface, a published and stable ABI: a program that has Arrow
 * arrays, in any language, has everything here. The two structs are declared below unless another header has declared
 * them already.
 *
 *     gpuhash_index *words;
 *     gpuhash_index_create(&schema, NULL, &words, &error);       // the type of the rows
 *     gpuhash_index_add(words, &schema, &array, ids, &error);    // ids[i]: the number of row i, 0, 1, 2, ... as they appear
 *     gpuhash_index_keys(words, 0, n, &schema_out, &keys, &error);
 *     gpuhash_index_destroy(words);
 *
 * What is equal:
 *   - integers of any width and sign: the same number; booleans among booleans
 *   - floats: the same number. 0.0 and -0.0 are one key, all NaNs are one key (GPUHASH_FLOATS_BITS: the same bits).
 *     Integers and floats: the same number, exactly
 *   - dates, times, timestamps, durations: the same instant or length, whatever their unit. A date is the instant at which
 *     it begins. With and without a time zone are two types
 *   - decimals: the same number. Text, bytes: the same bytes; text and bytes are two types
 *   - dictionaries: their values. Structs: all fields. Null: null, where nulls are a group
 * Everything else is refused by name: lists, maps, unions, intervals, run-end encoded and extension storage of these.
 *
 * Structs of Arrow do not have the sizes of their buffers, so that a wrong length reads beyond them, as everywhere in Arrow.
 * All else is checked before it is used: counts of buffers and children, offsets, lengths, views, dictionary indices.
 */
#ifndef GPUHASH_COLUMNS_H
#define GPUHASH_COLUMNS_H

#include <gpuhash/gpuhash.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE

#define ARROW_FLAG_DICTIONARY_ORDERED 1
#define ARROW_FLAG_NULLABLE 2
#define ARROW_FLAG_MAP_KEYS_SORTED 4

struct ArrowSchema {
  const char *format;
  const char *name;
  const char *metadata;
  int64_t flags;
  int64_t n_children;
  struct ArrowSchema **children;
  struct ArrowSchema *dictionary;
  void (*release)(struct ArrowSchema *);
  void *private_data;
};

struct ArrowArray {
  int64_t length;
  int64_t null_count;
  int64_t offset;
  int64_t n_buffers;
  int64_t n_children;
  const void **buffers;
  struct ArrowArray **children;
  struct ArrowArray *dictionary;
  void (*release)(struct ArrowArray *);
  void *private_data;
};

#endif

/* Distinct rows and their ids. Any number of threads may call: an add waits for other calls and holds them back, finds
 * run side by side. */
typedef struct gpuhash_index gpuhash_index;

/* Rows that are null, or in a struct of columns have a field that is null. */
enum gpuhash_null_rows {
  GPUHASH_NULLS_GROUP = 0, /* equal to each other; a struct of columns has as many keys as it has combinations */
  GPUHASH_NULLS_DROP = 1,  /* their id is -1, and they are no key */
  GPUHASH_NULLS_REFUSE = 2 /* the call is INVALID_ARGUMENT and names the first one; nothing was added */
};
enum gpuhash_floats { GPUHASH_FLOATS_NUMBERS = 0, GPUHASH_FLOATS_BITS = 1 };

typedef struct gpuhash_index_config {
  size_t struct_size;
  uint32_t nulls;
  uint32_t floats;
  uint32_t threads;  /* of a call; 0: one for each CPU that this process may use */
  uint32_t counts;   /* 1: count how often each key was added (gpuhash_index_counts) */
  uint64_t expected; /* number of keys for which memory is taken at once; 0: none, the index grows */
  uint64_t seed;     /* of the hash; 0: drawn at random */
} gpuhash_index_config;
#define GPUHASH_INDEX_CONFIG_INIT {sizeof(gpuhash_index_config), 0, 0, 0, 0, 0, 0}

/* An index for rows of this type: of one column, or of a struct whose children are the columns. config NULL: the
 * defaults. UNSUPPORTED names a type that has no equality here, and the column. */
GPUHASH_API gpuhash_status gpuhash_index_create(const struct ArrowSchema *type, const gpuhash_index_config *config,
                                                gpuhash_index **out, gpuhash_error *err);
GPUHASH_API void gpuhash_index_destroy(gpuhash_index *index); /* NULL is allowed */

/* Adds the rows that are new, and gives the id of each row: ids count from 0 in the order of first appearance, and
 * stay. ids may be NULL. Rows of another type than the index's are converted: INVALID_ARGUMENT names the first row that
 * the index's type cannot hold, and nothing was added. NO_MEMORY: the rows whose id is -2 were not added, all others
 * were. Neither struct is released. */
GPUHASH_API gpuhash_status gpuhash_index_add(gpuhash_index *index, const struct ArrowSchema *type,
                                             const struct ArrowArray *rows, int64_t *ids, gpuhash_error *err);
/* The id of each row, -1 where it is absent: also where the index's type cannot hold the row, as 2^63 among int64. */
GPUHASH_API gpuhash_status gpuhash_index_find(gpuhash_index *index, const struct ArrowSchema *type,
                                              const struct ArrowArray *rows, int64_t *ids, gpuhash_error *err);
/* Is each row a key? A byte for each, 1 or 0. */
GPUHASH_API gpuhash_status gpuhash_index_contains(gpuhash_index *index, const struct ArrowSchema *type,
                                                  const struct ArrowArray *rows, uint8_t *mask, gpuhash_error *err);

/* Keys first .. first + count - 1, by id, in the type of the index: dictionaries as their values, views, and text and
 * bytes of 2 GiB and more, with 64-bit offsets ("U", "Z"). The caller releases both structs, which stay valid when the
 * index is destroyed. */
GPUHASH_API gpuhash_status gpuhash_index_keys(gpuhash_index *index, uint64_t first, uint64_t count,
                                              struct ArrowSchema *type, struct ArrowArray *keys, gpuhash_error *err);
/* Keys by these ids, in any order and any number of times, as gpuhash_index_keys gives them. INVALID_ARGUMENT names the
 * first id that the index does not have; -1, an absent row, is none either. */
GPUHASH_API gpuhash_status gpuhash_index_take(gpuhash_index *index, size_t n, const int64_t *ids,
                                              struct ArrowSchema *type, struct ArrowArray *keys, gpuhash_error *err);
/* How often each of these keys was added; for an index with counts. */
GPUHASH_API gpuhash_status gpuhash_index_counts(gpuhash_index *index, uint64_t first, uint64_t count, int64_t *counts,
                                                gpuhash_error *err);

/* Adds keys first .. first + count - 1 of another index, each as often as it was added there. ids[i] is the id here of
 * key first + i; ids may be NULL. from may be the index itself. Keys are copied in pieces, and neither index is locked
 * while the other one is: threads may merge two indexes into each other. Refusals are those of gpuhash_index_add, whose
 * rows are the ids of from: INVALID_ARGUMENT, and nothing was added; NO_MEMORY, and keys whose id is -2 were not added.
 * UNSUPPORTED: index counts and from does not. */
GPUHASH_API gpuhash_status gpuhash_index_merge(gpuhash_index *index, gpuhash_index *from, uint64_t first,
                                               uint64_t count, int64_t *ids, gpuhash_error *err);

typedef struct gpuhash_index_info {
  size_t struct_size;
  uint64_t size;  /* keys */
  uint64_t bytes; /* memory held */
  int64_t null;   /* the id of the row that is null, in an index of one column; -1: there is none */
} gpuhash_index_info;
GPUHASH_API gpuhash_status gpuhash_index_get_info(gpuhash_index *index, gpuhash_index_info *out, gpuhash_error *err);

/* The hash of each row: a published contract, which docs/hash.md specifies and test vectors show. Equal rows, as above
 * (floats by their numbers), have equal hashes, in any type that holds them, on every processor, device and platform,
 * and in every version of the library that has this version of the hash. Null has a hash, too. The hash is for shards
 * and files, and no protection against adversaries: a caller who knows the seed can make rows whose hashes are equal.
 *
 * bits: 64, one word of out for each row, or 128, two: the first is the hash of 64 bits. threads: 0: one for each CPU
 * that this process may use. Neither struct is released. Tables and indexes never place their keys by this function, so
 * that a table of the keys of one shard is as fast as any. */
#define GPUHASH_HASH_VERSION 1
GPUHASH_API gpuhash_status gpuhash_hash_rows(const struct ArrowSchema *type, const struct ArrowArray *rows,
                                             uint32_t bits, uint64_t seed, uint32_t threads, uint64_t *out,
                                             gpuhash_error *err);

/* Rows by id: rows[offsets[id] .. offsets[id + 1]) are the row numbers i with ids[i] == id, ascending. offsets has size
 * + 1 entries, rows as many as there are ids of 0 and above; rows whose id is below 0 are left out, ids of size and
 * above are INVALID_ARGUMENT. Joins and group-bys are made of this. */
GPUHASH_API gpuhash_status gpuhash_rows_by_id(size_t n, const int64_t *ids, uint64_t size, int64_t *offsets,
                                              int64_t *rows, gpuhash_error *err);

/* Groups rows by the shard that they belong to, so that a program can send them to other tables, files, devices and
 * machines.
 *
 * The shard of a row is a published contract, as its hash is: with h the hash of 64 bits of the row for the seed seed ^
 * GPUHASH_PARTITION_SALT, it is the upper half of the product of 64 bits of h >> 32 and shards. So equal rows are of
 * one shard in any type that holds them, in every process and on every machine. No table and no index places keys by
 * this hash, whatever its seed: a table of the keys of one shard is as fast as any.
 *
 * All results may be NULL. Rows are grouped by shard and, in each shard, keep their order: rows out_offsets[s] to
 * out_offsets[s + 1] - 1 of the grouped arrays are those of shard s. Keys and type as of gpuhash_hash_rows. Copies of
 * keys are made where they are one column of cells of fixed width without nulls, others are UNSUPPORTED: take them by
 * out_order.
 *
 * With a CUDA device in `device` all buffers of the keys, values and results lie there, but for the structs. Keys are
 * then one column without nulls, of integers, floats or times of up to 8 bytes, or of bytes of one width. Everything is
 * queued on the stream, which may be one that is being captured into a graph; nothing comes back to the host, and nothing
 * is allocated: temporaries lie in memory of the caller, of gpuhash_partition_scratch bytes and aligned to 256. That is up
 * to 2 MiB, and 20 bytes more for each row with more than 256 shards. Results are those of the CPU, bit for bit. */
#define GPUHASH_PARTITION_SALT 0x452821e638d01377u
#define GPUHASH_MOST_SHARDS 65536u
#define GPUHASH_MOST_SPREAD 16u

typedef struct gpuhash_partition_request {
  size_t struct_size;
  const struct ArrowSchema *type;
  const struct ArrowArray *keys;
  uint32_t shards;  /* 1 to GPUHASH_MOST_SHARDS */
  uint32_t threads; /* 0: one for each CPU that this process may use */
  uint64_t seed;
  const void *values;   /* value_bytes for each row */
  size_t value_bytes;   /* at least 1 where values are given */
  int32_t *out_shards;  /* of each row, in the order in which the rows come */
  int64_t *out_offsets; /* shards + 1 */
  int64_t *out_order;   /* the numbers of the rows, grouped */
  void *out_keys;       /* grouped */
  void *out_values;     /* grouped */
  gpuhash_device device;
  void *stream; /* this field and the two below are for a CUDA device */
  void *scratch;
  size_t scratch_bytes;
  uint32_t *out_places; /* where each row is among the grouped ones; of fewer than 2^32 rows */
  /* Of a CUDA device and at most GPUHASH_MOST_SPREAD shards: */
  void *const *shard_keys;   /* instead of out_keys: where the keys of each shard go, which may be another device */
  void *const *shard_values; /* instead of out_values */
  int counted; /* not 0: a call with the same keys, shards, seed and scratch, on this stream, gave out_offsets before */
} gpuhash_partition_request;
#define GPUHASH_PARTITION_REQUEST_INIT \
  {sizeof(gpuhash_partition_request),  \
   NULL,                               \
   NULL,                               \
   0,                                  \
   0,                                  \
   0,                                  \
   NULL,                               \
   0,                                  \
   NULL,                               \
   NULL,                               \
   NULL,                               \
   NULL,                               \
   NULL,                               \
   {0, 0},                             \
   NULL,                               \
   NULL,                               \
   0,                                  \
   NULL,                               \
   NULL,                               \
   NULL,                               \
   0}

/* Bytes of scratch for a request on a CUDA device; the length of the keys and shards are read, and which results are
 * not NULL. */
GPUHASH_API gpuhash_status gpuhash_partition_scratch(const gpuhash_partition_request *request, size_t *bytes,
                                                     gpuhash_error *err);
GPUHASH_API gpuhash_status gpuhash_partition(const gpuhash_partition_request *request, gpuhash_error *err);

/* Brings grouped rows, such as the answers of tables for the keys of each shard, back into the order of the rows: row
 * order[i] of `to` becomes row i of `from`, of n rows of `bytes` bytes each; rows of `to` that order does not name do
 * not change. order: row numbers, of which no two are equal, as out_order of a partition. On a CUDA device all three
 * arrays lie there and everything is queued on the stream, which may be one that is being captured; on the CPU stream
 * is NULL. `from` and `to` have no byte in common. */
GPUHASH_API gpuhash_status gpuhash_ungroup(size_t n, const int64_t *order, const void *from, size_t bytes, void *to,
                                           gpuhash_device device, void *stream, gpuhash_error *err);

/* The same by places instead of order, of rows that lie apart, shard by shard: those of shard s lie at from[s] on, and
 * have the places offsets[s] to offsets[s + 1] - 1. Row i of `to` becomes the row at places[i]. One pass brings up to two
 * arrays. */
typedef struct gpuhash_collected {
  const void *const *from; /* of each shard, which may be on another device; NULL: rows of the shard become 0 */
  size_t bytes;            /* of a row */
  void *to;                /* n rows; no byte of it is in `from` */
} gpuhash_collected;

typedef struct gpuhash_collect_request {
  size_t struct_size;
  size_t n;
  const uint32_t *places; /* of each row, less than n, as out_places of a partition */
  uint32_t shards;        /* 1 to GPUHASH_MOST_SPREAD; rows of more shards lie in one array: as those of one shard */
  const int64_t *offsets; /* shards + 1, of which the last one is n, in memory of the host */
  uint32_t arrays;        /* 1 or 2 */
  gpuhash_collected collected[2];
  gpuhash_device device; /* of places and `to`; everything is queued on the stream, also one that is being captured */
  void *stream;          /* NULL for the CPU */
} gpuhash_collect_request;
#define GPUHASH_COLLECT_REQUEST_INIT \
  {sizeof(gpuhash_collect_request), 0, NULL, 1, NULL, 1, {{NULL, 0, NULL}, {NULL, 0, NULL}}, {0, 0}, NULL}

GPUHASH_API gpuhash_status gpuhash_collect(const gpuhash_collect_request *request, gpuhash_error *err);

/* Groups of a column that lies on a CUDA device: its distinct elements of 4 or 8 bytes, how many rows each has, and the
 * number of each row's group. Elements are equal if their bits are. Nothing comes back to the host, unless host_groups
 * is given, and nothing is allocated: everything is queued on the stream, which without host_groups may be one that is
 * being captured into a graph, and temporaries lie in memory of the caller, of gpuhash_group_scratch bytes and aligned
 * to 256: about twice the column, and with counts or codes in the order of first appearance, or codes, 8 bytes more for
 * each row. The result does not depend on the seed, but for the order of groups where that is ANY. Keys that were
 * chosen for a known seed take quadratic time at worst; they are never wrong.
 *
 * With values, one for each row, groups have their aggregates, as many as results are asked for, in one pass: sums,
 * means, the smallest and the largest value. Sums of integers are modulo 2^64. Floats are added as doubles in no fixed
 * order, so that their sums and means differ in the last bits from call to call; all other results are the same in
 * every call. A sum or mean with a NaN is NaN; out_low and out_high leave NaNs out, unless a group has nothing else.
 * Scratch is then about twice the keys and the values, and in the order of first appearance has room for all results
 * once more. */
enum gpuhash_order { GPUHASH_ORDER_ANY = 0, GPUHASH_ORDER_FIRST = 1 };

typedef struct gpuhash_group_request {
  size_t struct_size;
  size_t n; /* rows, at most 2^31: else UNSUPPORTED */
  const void *keys;
  uint32_t key_bytes;  /* 4 or 8, to which all arrays of keys are aligned */
  uint32_t order;      /* of groups: GPUHASH_ORDER_ANY, or as they first appear */
  uint64_t seed;       /* of the hash; draw it at random */
  void *out_keys;      /* of each group, with room for n */
  int64_t *out_counts; /* rows of each group, with room for n; NULL: they are not counted */
  int64_t *out_codes;  /* the number of each row's group; NULL: not asked for */
  uint64_t *groups;    /* how many there are; on the device, as all other arrays */
  void *scratch;
  size_t scratch_bytes;
  gpuhash_device device;
  void *stream;
  const void *values;   /* one for each row, aligned to value_bytes; not together with out_codes */
  uint32_t value_bytes; /* 4 or 8; 0: there are no values, and no aggregates */
  uint32_t value_type;  /* GPUHASH_UINT, _INT, _FLOAT */
  void *out_sums;       /* uint64_t, int64_t or double, as value_type says; NULL, as all below: not asked for */
  double *out_means;
  void *out_low, *out_high; /* of the type of the values */
  uint64_t *host_groups;    /* on the host; NULL, or the call waits for the stream, and *groups is copied here */
  int64_t *out_first;       /* the first row of each group, with room for n; with GPUHASH_ORDER_FIRST alone. NULL: not
                             * asked for */
  void (*meanwhile)(
      void *); /* called with `context` when everything is queued, before the call waits for host_groups, with
                              * the device as the current one; NULL: nothing is */
  void *context;
} gpuhash_group_request;
#define GPUHASH_GROUP_REQUEST_INIT \
  {sizeof(gpuhash_group_request),  \
   0,                              \
   NULL,                           \
   0,                              \
   0,                              \
   0,                              \
   NULL,                           \
   NULL,                           \
   NULL,                           \
   NULL,                           \
   NULL,                           \
   0,                              \
   {0, 0},                         \
   NULL,                           \
   NULL,                           \
   0,                              \
   0,                              \
   NULL,                           \
   NULL,                           \
   NULL,                           \
   NULL,                           \
   NULL,                           \
   NULL,                           \
   NULL,                           \
   NULL}

/* Bytes of scratch for a request; n, key_bytes, order, value_bytes and value_type are read, and which results are not
 * NULL. */
GPUHASH_API gpuhash_status gpuhash_group_scratch(const gpuhash_group_request *request, size_t *bytes,
                                                 gpuhash_error *err);
GPUHASH_API gpuhash_status gpuhash_group(const gpuhash_group_request *request, gpuhash_error *err);

/* Which elements of a column on a CUDA device are among those of another one: out[i] is 1 or 0. Elements have 4 or 8
 * bytes, and are equal if their bits are. As for gpuhash_group, everything is queued on the stream. Up to 2,048 others
 * are kept in the memory of every block, without scratch; more, in a table in scratch memory of at most 8 elements for
 * each. Others of more than 16 MiB, whose table would not stay in the cache of a device, are divided into bins together with
 * the keys, by which scratch is up to about 25 bytes for each row of both columns; if these are more than 2^31, it is the
 * table again. */
typedef struct gpuhash_isin_request {
  size_t struct_size;
  size_t n;
  const void *keys;
  size_t n_among; /* at most 2^29: else UNSUPPORTED */
  const void *among;
  uint32_t key_bytes; /* 4 or 8, to which both columns are aligned */
  uint32_t reserved;  /* 0 */
  uint64_t seed;      /* of the hash; draw it at random */
  uint8_t *out;
  void *scratch; /* aligned to 256 */
  size_t scratch_bytes;
  gpuhash_device device;
  void *stream;
} gpuhash_isin_request;
#define GPUHASH_ISIN_REQUEST_INIT {sizeof(gpuhash_isin_request), 0, NULL, 0, NULL, 0, 0, 0, NULL, NULL, 0, {0, 0}, NULL}

/* Bytes of scratch for a request; n, n_among and key_bytes are read. */
GPUHASH_API gpuhash_status gpuhash_isin_scratch(const gpuhash_isin_request *request, size_t *bytes, gpuhash_error *err);
GPUHASH_API gpuhash_status gpuhash_isin(const gpuhash_isin_request *request, gpuhash_error *err);

/* Pairs of equal rows of two columns on a CUDA device, where no right row repeats another one. As for gpuhash_group,
 * everything is queued on the stream, and elements are equal if their bits are.
 *
 * out_first has, for each right row and behind these for each left row, the number of the first row that equals it,
 * where left rows have the numbers behind those of the right ones. So a left row meets a right row if that is less than
 * n_right. out_facts[0] is the number of left rows that meet one, or n_left with keep; out_facts[1] is the number of
 * right rows that repeat an earlier one. If none does, out_left and out_right have the pairs of a left row and the
 * right row that it meets, in the order of the left rows. Else nothing is written there: the pairs are those of equal
 * numbers in out_first. Scratch is about 24 bytes for each row of keys of 4 bytes.
 *
 * With NULL as out_first right rows of equal keys are listed in the scratch memory, which is then 4 bytes larger for
 * each left row, and 8 for each right one, of which there are at most 2^30. out_facts[0] is how many pairs there are,
 * with keep as above, and out_facts[1] is GPUHASH_JOIN_WRITTEN: these are in out_left and out_right;
 * GPUHASH_JOIN_LISTED: right rows repeat, and gpuhash_join_pairs writes the pairs; or GPUHASH_JOIN_TOO_OFTEN: more than
 * 2^18 right rows are equal, or have hashes that begin alike, as those of keys that were chosen for a known seed; or
 * the one key whose hash marks empty slots has two right rows. No pairs are given then: call again with out_first. */
#define GPUHASH_JOIN_WRITTEN 0u
#define GPUHASH_JOIN_LISTED 1u
#define GPUHASH_JOIN_TOO_OFTEN 2u

typedef struct gpuhash_join_request {
  size_t struct_size;
  size_t n_left; /* rows of both columns are at most 2^31: else UNSUPPORTED */
  const void *left;
  size_t n_right;
  const void *right;
  uint32_t key_bytes; /* 4 or 8, to which both columns are aligned */
  uint32_t keep;      /* 1: a left row that meets no right row is there once, with -1; else 0 */
  uint64_t seed;      /* of the hash; draw it at random */
  int32_t *out_first; /* with room for n_right + n_left; NULL: right rows are listed */
  int64_t *out_left;  /* as out_right, with room for n_left */
  int64_t *out_right;
  uint64_t *out_facts; /* two; on the device, as all other arrays */
  void *scratch;       /* aligned to 256 */
  size_t scratch_bytes;
  gpuhash_device device;
  void *stream;
  uint64_t *host_facts; /* two, on the host; NULL, or gpuhash_join waits for the stream, and out_facts is copied here */
} gpuhash_join_request;
#define GPUHASH_JOIN_REQUEST_INIT \
  {sizeof(gpuhash_join_request), 0, NULL, 0, NULL, 0, 0, 0, NULL, NULL, NULL, NULL, NULL, 0, {0, 0}, NULL, NULL}

/* Bytes of scratch for a request; n_left, n_right and key_bytes are read, and whether out_first is NULL. */
GPUHASH_API gpuhash_status gpuhash_join_scratch(const gpuhash_join_request *request, size_t *bytes, gpuhash_error *err);
GPUHASH_API gpuhash_status gpuhash_join(const gpuhash_join_request *request, gpuhash_error *err);

/* The pairs of a join whose right rows are listed, by their left rows and then by their right ones. The request is that
 * of gpuhash_join, whose scratch memory and facts are as they were, but out_left and out_right have room for that many
 * pairs, which is out_facts[0]; they may be NULL if there is none. */
GPUHASH_API gpuhash_status gpuhash_join_pairs(const gpuhash_join_request *request, uint64_t pairs, gpuhash_error *err);

/* Columns of bytes on a CUDA device: text and bytes of any length, and elements of one width, with or without nulls, as
 * Arrow has them. The verbs above take numbers; these functions make numbers of such columns, and columns of numbers:
 *
 *   gpuhash_bytes_hash    a number for each row: equal rows have equal ones, and others have other ones but for collisions
 *   gpuhash_bytes_check   the first row of each group of equal numbers, and whether all rows of the group have its bytes
 *   gpuhash_bytes_keep    the rows that are not null
 *   gpuhash_bytes_place   of rows that are picked, where each begins in a column of them, and how many bytes they have
 *   gpuhash_bytes_take    that column
 *
 * Rows of two columns are numbered through: those of `other` come behind those of `one`. Both have the same width, or both
 * have offsets, whose width may differ. So hash, group and check give groups of equal bytes; where a row differs from the
 * first one of its group, which takes 2^32 different rows to be likely, all is done again with another seed.
 *
 * Everything is queued on the stream; functions with a result on the host wait for it. */
typedef struct gpuhash_bytes_column {
  uint64_t n;     /* rows; of both columns at most 2^31: else UNSUPPORTED */
  uint64_t first; /* the first row has this number in the buffers (Arrow's offset) */
  const void *data;
  const void *offsets;     /* row i has the bytes from offsets[i] to offsets[i + 1]; NULL: each has `width` bytes */
  const uint8_t *validity; /* bit i is 0 where row i is null (Arrow's bitmap); NULL: no row is */
  uint32_t offset_bytes;   /* 4 or 8, to which offsets are aligned; 0 without offsets */
  uint32_t width;          /* 0 with offsets */
  uint32_t floats;         /* 1: elements are floats of 2, 4 or 8 bytes; 0.0 and -0.0 are equal, as are all NaNs */
  uint32_t reserved;       /* 0 */
} gpuhash_bytes_column;

typedef struct gpuhash_bytes_request {
  size_t struct_size;
  gpuhash_bytes_column one, other; /* other.n may be 0 */
  void *scratch;                   /* of gpuhash_bytes_scratch bytes, aligned to 256 */
  size_t scratch_bytes;
  gpuhash_device device;
  void *stream;
} gpuhash_bytes_request;
#define GPUHASH_BYTES_REQUEST_INIT       \
  {sizeof(gpuhash_bytes_request),        \
   {0, 0, NULL, NULL, NULL, 0, 0, 0, 0}, \
   {0, 0, NULL, NULL, NULL, 0, 0, 0, 0}, \
   NULL,                                 \
   0,                                    \
   {0, 0},                               \
   NULL}

/* Bytes of scratch for calls with so many rows, of columns or picked ones, whichever are more. */
GPUHASH_API gpuhash_status gpuhash_bytes_scratch(uint64_t rows, size_t *bytes, gpuhash_error *err);

/* host_null: on the host; the first row that is null, UINT64_MAX where none is. NULL: not asked for. */
GPUHASH_API gpuhash_status gpuhash_bytes_hash(const gpuhash_bytes_request *request, uint64_t seed, uint64_t *hashes,
                                              uint64_t *host_null, gpuhash_error *err);

/* codes: the number of each row's group, less than `groups`; rows with a negative one are left out. out_first: the first
 * row of each group. host_other: on the host; 1 where some row differs from the first one of its group, else 0. */
GPUHASH_API gpuhash_status gpuhash_bytes_check(const gpuhash_bytes_request *request, const int64_t *codes,
                                               uint64_t groups, int64_t *out_first, uint64_t *host_other,
                                               gpuhash_error *err);

/* out_rows has room for all rows; host_rows: on the host, how many are not null. */
GPUHASH_API gpuhash_status gpuhash_bytes_keep(const gpuhash_bytes_request *request, int64_t *out_rows,
                                              uint64_t *host_rows, gpuhash_error *err);

/* Of n picked rows, which may repeat: out_offsets has n + 1 elements as wide as the offsets of `one`; host_bytes: on the
 * host, how many bytes the picked rows have, which fit there if the caller sees to it. */
GPUHASH_API gpuhash_status gpuhash_bytes_place(const gpuhash_bytes_request *request, const int64_t *rows, uint64_t n,
                                               void *out_offsets, uint64_t *host_bytes, gpuhash_error *err);

/* offsets: those of gpuhash_bytes_place; NULL where columns have none. out_validity: a bitmap of n bits; NULL: not asked
 * for. The bytes of a null of one width are 0. Floats that are equal are alike. */
GPUHASH_API gpuhash_status gpuhash_bytes_take(const gpuhash_bytes_request *request, const int64_t *rows, uint64_t n,
                                              const void *offsets, void *out_data, uint8_t *out_validity,
                                              gpuhash_error *err);

#ifdef __cplusplus
}
#endif
#endif
