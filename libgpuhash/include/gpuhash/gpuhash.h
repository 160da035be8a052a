/* gpuhash: concurrent dictionaries for GPUs and CPUs, chosen by name.
 *
 * This is the header a user of tables includes. It is C11, needs no CUDA header, and every symbol begins with gpuhash_.
 *
 *     gpuhash_config config = GPUHASH_CONFIG_INIT;
 *     config.backend = "linear_probe";
 *     config.key_bytes = config.value_bytes = 8;
 *     gpuhash_table *table;                                      // NULL unless the next call answers GPUHASH_OK
 *     if (gpuhash_table_create(&config, &table, NULL) != GPUHASH_OK) ...
 *     gpuhash_insert(table, n, keys, values, NULL, NULL, NULL);
 *     gpuhash_find(table, n, keys, values, found, NULL, NULL);
 *     gpuhash_table_destroy(table);
 *
 * Promises:
 *   - Every key and every value is legal; no bit pattern is reserved.
 *   - Each element of a batch takes effect atomically at one point during its call; batches of other threads or
 *     streams may run on the same table at the same time.
 *   - Nothing is lost silently: an element that found no room is reported by its status byte and by the call's status,
 *     all other elements are carried out, and the table stays valid.
 *   - On CUDA every call is ordered by its stream and returns before the work is done, unless it says otherwise; on
 *     the CPU a call has finished when it returns.
 *   - The caller keeps a stream open from the beginning of a call to its end: the driver reads the memory at the
 *     stream's address, and the process may end if the stream was destroyed or never was one. No call needs the stream
 *     of an earlier call.
 *   - Structs begin with struct_size and only ever grow at the end.
 */
#ifndef GPUHASH_GPUHASH_H
#define GPUHASH_GPUHASH_H

#include <stddef.h>
#include <stdint.h>

#define GPUHASH_VERSION_MAJOR 0
#define GPUHASH_VERSION_MINOR 1
#define GPUHASH_VERSION_PATCH 0

#if defined(__GNUC__)
#define GPUHASH_API __attribute__((visibility("default")))
#else
#define GPUHASH_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- status ---------------------------------------------------------------------------------------------------- */

typedef int32_t gpuhash_status;
enum gpuhash_status_code {
  GPUHASH_OK = 0,
  GPUHASH_INVALID_ARGUMENT = 1, /* refused before anything was touched; execute says where it differs */
  GPUHASH_UNSUPPORTED = 2,      /* the backend does not have this operation, width or device */
  GPUHASH_NO_MEMORY = 3,        /* an allocation failed; finished elements stay */
  GPUHASH_FULL = 4,             /* some elements found no room; finished elements stay */
  GPUHASH_NOT_FOUND = 5,        /* no such backend, option, file */
  GPUHASH_DEVICE_ERROR = 6,     /* the device or its driver reported an error, or is absent */
  GPUHASH_POISONED = 7,         /* an earlier device fault left the table unusable; only destroy works */
  GPUHASH_FORKED = 8,           /* the table was created before a fork, in the parent process */
  GPUHASH_PLUGIN_ERROR = 9,     /* a plugin could not be loaded or answered wrongly */
  GPUHASH_CORRUPT = 10,         /* check found a broken invariant */
  GPUHASH_INTERNAL = 11
};

/* Status byte of one element. 0 and 1 read as a boolean mask; 2 and above mean that the element was not carried out.
 * The call reports such an element by its own status. A call that did not wait for its batch (CUDA, no counts) cannot:
 * then the next call that waits for the whole table reports it, once, instead of doing its own work. In a growing table
 * an element finds no room only if memory fails, or if keys were chosen to collide. */
enum gpuhash_element_status {
  GPUHASH_NO = 0,  /* insert, find_or_insert: present already; assign, accumulate: updated; find, erase, pop: absent */
  GPUHASH_YES = 1, /* insert, find_or_insert, assign, accumulate: inserted; find: found; erase, pop: erased */
  GPUHASH_ELEMENT_FULL = 2,      /* no room within the probe limit */
  GPUHASH_ELEMENT_NO_MEMORY = 3, /* the table's allocator is exhausted */
  GPUHASH_ELEMENT_BAD_OP = 4     /* execute: an op code that the table does not have */
};

/* Every function that takes an err (which may be NULL) sets it: after a call that is OK, code is GPUHASH_OK and the
 * message is empty, whatever was in it before. */
typedef struct gpuhash_error {
  size_t struct_size;
  gpuhash_status code;
  char message[512]; /* one sentence: what was wrong, with which value, and what to do */
} gpuhash_error;
#define GPUHASH_ERROR_INIT {sizeof(gpuhash_error), 0, {0}}

GPUHASH_API const char *gpuhash_status_name(gpuhash_status status);
GPUHASH_API void gpuhash_version(uint32_t *major, uint32_t *minor, uint32_t *patch);
/* Sets the default number of threads that a call on the CPU uses at most: 1 to 4096, for tables and indexes that are
 * made, and calls that begin, from then on. 0: the number in the environment variable GPUHASH_THREADS; without it the
 * number of CPUs that the process may use, or that of OMP_NUM_THREADS if it is less. The environment is read once. */
GPUHASH_API gpuhash_status gpuhash_set_threads(uint32_t threads, gpuhash_error *err);
GPUHASH_API const char *gpuhash_build_info(void); /* compiler, instruction sets, CUDA architectures: one line */

/* ---- devices --------------------------------------------------------------------------------------------------- */

enum gpuhash_device_kind { GPUHASH_CPU = 1, GPUHASH_CUDA = 2 }; /* DLPack's numbering */

typedef struct gpuhash_device {
  int32_t kind;
  int32_t ordinal;
} gpuhash_device;

typedef struct gpuhash_device_info {
  size_t struct_size;
  char name[128];
  uint64_t memory_bytes;
  uint32_t compute_major, compute_minor; /* CUDA only, else 0 */
  uint32_t units;                        /* CPU: threads that a batch will use; CUDA: multiprocessors */
  uint32_t driver_version;               /* CUDA only: 1000 * major + 10 * minor */
} gpuhash_device_info;

/* Number of devices of this kind; 0 for CUDA when there is no driver (err then says why). Never fails. */
GPUHASH_API int32_t gpuhash_device_count(int32_t kind, gpuhash_error *err);
GPUHASH_API gpuhash_status gpuhash_device_get_info(gpuhash_device device, gpuhash_device_info *out, gpuhash_error *err);

/* Where a pointer lives. Host memory that CUDA does not know is GPUHASH_CPU. */
GPUHASH_API gpuhash_device gpuhash_pointer_device(const void *p);

/* Memory for a table's storage. Both callbacks are called from the thread that called the table. stream is NULL on
 * the CPU. allocate returns NULL when there is no memory. */
typedef struct gpuhash_memory {
  size_t struct_size;
  void *context;
  void *(*allocate)(void *context, size_t bytes, size_t alignment, void *stream);
  void (*deallocate)(void *context, void *p, size_t bytes, size_t alignment, void *stream);
} gpuhash_memory;

/* ---- backends -------------------------------------------------------------------------------------------------- */

/* Traits: the operations that a backend has. A caller (and the conformance suite) asks before relying on one. */
enum gpuhash_trait {
  GPUHASH_TRAIT_INSERT = 1u << 0, /* insert, insert_or_assign, find, contains, erase, execute */
  GPUHASH_TRAIT_ACCUMULATE = 1u << 1,
  GPUHASH_TRAIT_MULTI = 1u << 2,   /* insert_multi, count > 1, find_all, erase_all */
  GPUHASH_TRAIT_ORDERED = 1u << 3, /* range, lower_bound, ordered export */
  GPUHASH_TRAIT_GROW = 1u << 4,    /* grows by itself when the config asks for it */
  GPUHASH_TRAIT_WIDE = 1u << 5,    /* keys and values of any multiple of 4 bytes */
  GPUHASH_TRAIT_FLUSH = 1u << 6,   /* flush compacts and gives memory back */
  GPUHASH_TRAIT_ANSWERS = 1u << 7  /* pop, find_or_insert */
};

/* An option that a backend takes by name: see gpuhash_config.options. */
typedef struct gpuhash_option_info {
  const char *key;
  const char *choices; /* "8|16", "uint", ...: shown when a value is refused */
  const char *help;
} gpuhash_option_info;

typedef struct gpuhash_backend_info {
  size_t struct_size;
  const char *name;    /* what a config's backend field takes: a name, or an absolute path */
  const char *version; /* the plugin's own; NULL before it is loaded */
  const char *summary; /* one line */
  const char *path;    /* the module */
  const char *error;   /* NULL when usable; else why not */
  uint64_t traits;
  uint32_t loaded;                    /* 0: known by file name only, loaded on first use */
  uint32_t key_widths;                /* bit b set: keys of b bytes (b = 4, 8) */
  uint32_t value_widths;              /* bit b set: values of b bytes (b = 0, 4, 8) */
  uint32_t devices;                   /* bit k set: built for device kind k */
  uint32_t origin;                    /* GPUHASH_BUILT_IN, _ON_PATH, _OPENED */
  const gpuhash_option_info *options; /* n_options of them; NULL while the module is not loaded */
  size_t n_options;
} gpuhash_backend_info;

/* Backends are modules gpuhash_<name>.so. An absolute path always names its module. A name stands for the first of:
 *   1. the module in <directory of libgpuhash>/gpuhash/plugins-v1, so that no other module takes a built-in's name
 *   2. the one in the first directory of GPUHASH_PLUGIN_PATH that has it (colon separated, absolute; ignored in
 *      set-user-id programs)
 *   3. the module of that name that was opened by its path first
 * A name keeps its meaning once it was used. A module whose name stands for another module is used by its path, and its
 * gpuhash_backend_info has that path as its name. Modules are never looked for in the working directory. */
enum gpuhash_origin { GPUHASH_BUILT_IN = 0, GPUHASH_ON_PATH = 1, GPUHASH_OPENED = 2 };
GPUHASH_API size_t gpuhash_backend_count(void);
GPUHASH_API gpuhash_status gpuhash_backend_get(size_t index, gpuhash_backend_info *out, gpuhash_error *err);
/* Load a backend by name or absolute path; on success out (may be NULL) describes it. An unknown name suggests the
 * nearest one. */
GPUHASH_API gpuhash_status gpuhash_backend_load(const char *name, gpuhash_backend_info *out, gpuhash_error *err);
/* Load a module by its absolute path and register it. out (may be NULL) describes it. */
GPUHASH_API gpuhash_status gpuhash_backend_open(const char *path, gpuhash_backend_info *out, gpuhash_error *err);
/* Is this backend usable on this device? GPUHASH_OK, or why not. */
GPUHASH_API gpuhash_status gpuhash_backend_probe(const char *name, gpuhash_device device, gpuhash_error *err);

/* ---- tables ---------------------------------------------------------------------------------------------------- */

typedef struct gpuhash_option {
  const char *key;
  const char *value;
} gpuhash_option;

typedef struct gpuhash_config {
  size_t struct_size;
  const char *backend;          /* "linear_probe", "slab_hash", ..., or the absolute path of a module */
  gpuhash_device device;        /* kind 0: CPU */
  uint32_t key_bytes;           /* 4 or 8; with the trait WIDE any multiple of 4 (stadium: up to 256) */
  uint32_t value_bytes;         /* 0 (a set), or as key_bytes */
  uint64_t capacity;            /* keys that must fit without growing; 0: the backend's minimum */
  double max_load_factor;       /* 0: the backend's default */
  uint64_t seed;                /* of the hash; 0: drawn at random (info reports it) */
  uint32_t grow;                /* 1: grow and retry by itself; 0: report FULL */
  uint32_t threads;             /* CPU: threads per batch; 0: one for each CPU that this process may use */
  const gpuhash_memory *memory; /* NULL: the default of the device */
  const gpuhash_option *options;
  size_t n_options;
  void *stream; /* CUDA: stream of the initialisation */
} gpuhash_config;
#define GPUHASH_CONFIG_INIT \
  {sizeof(gpuhash_config), "linear_probe", {GPUHASH_CPU, 0}, 8, 8, 0, 0.0, 0, 1, 0, NULL, NULL, 0, NULL}
/* The same defaults for languages without C's macros. struct_size: the caller's sizeof(gpuhash_config). gpuhash_error
 * and gpuhash_batch need no such function: their defaults are zeros after struct_size. */
GPUHASH_API void gpuhash_config_init(gpuhash_config *config, size_t struct_size);

typedef struct gpuhash_table gpuhash_table;

GPUHASH_API gpuhash_status gpuhash_table_create(const gpuhash_config *config, gpuhash_table **out, gpuhash_error *err);
/* Waits for the table's work, then frees it. NULL is allowed. Works on a poisoned table. A table in a file is written
 * to the disk; if the disk refuses that, the next open reports it. To learn it at once, call gpuhash_flush first. */
GPUHASH_API void gpuhash_table_destroy(gpuhash_table *table);

typedef struct gpuhash_table_info {
  size_t struct_size;
  const char *backend;
  gpuhash_device device;
  uint32_t key_bytes, value_bytes;
  uint64_t traits;   /* those of its backend that this table has */
  uint64_t size;     /* live keys; reading it waits for the table's running batches */
  uint64_t used;     /* slots that are not empty: live and dead ones. Up to 2 keys may live outside the slots */
  uint64_t slots;    /* slots in all; at least used */
  uint64_t capacity; /* keys that fit before the table grows or reports FULL */
  uint64_t bytes;    /* memory held */
  uint64_t seed;
  uint64_t rebuilds; /* growths and in-place rebuilds so far */
  double max_load_factor;
} gpuhash_table_info;
GPUHASH_API gpuhash_status gpuhash_table_get_info(gpuhash_table *table, gpuhash_table_info *out, gpuhash_error *err);

/* ---- operations on arrays of n elements ------------------------------------------------------------------------ */

/* Op codes: of gpuhash_batch.op, and of the elements of execute. */
enum gpuhash_op {
  GPUHASH_OP_NOP = 0,
  GPUHASH_OP_INSERT = 1,
  GPUHASH_OP_ASSIGN = 2, /* insert_or_assign */
  GPUHASH_OP_ACCUMULATE = 3,
  GPUHASH_OP_FIND = 4,
  GPUHASH_OP_ERASE = 5,
  GPUHASH_OP_INSERT_MULTI = 6,
  GPUHASH_OP_COUNT = 7,     /* out_values receives uint64 counts */
  GPUHASH_OP_ERASE_ALL = 8, /* erases every pair of the key */
  GPUHASH_OP_EXECUTE = 9,   /* one op code per element, run concurrently */
  GPUHASH_OP_POP = 10,      /* erases, and answers the value */
  GPUHASH_OP_FIND_OR_INSERT = 11
};

/* Facts about an operation; for execute, about all operations that its elements may be. */
enum gpuhash_fact {
  GPUHASH_FACT_ADDS = 1u << 0,           /* puts a pair there where the key is absent */
  GPUHASH_FACT_ERASES = 1u << 1,         /* takes pairs away */
  GPUHASH_FACT_CHANGES = 1u << 2,        /* changes the value of a pair that is there */
  GPUHASH_FACT_TAKES_VALUES = 1u << 3,   /* batch.values */
  GPUHASH_FACT_ANSWERS_VALUES = 1u << 4, /* batch.out_values: of the table's values */
  GPUHASH_FACT_ANSWERS_COUNTS = 1u << 5, /* batch.out_values: of 8 bytes */
  GPUHASH_FACT_IN_EXECUTE = 1u << 6      /* may be an element of execute */
};
typedef struct gpuhash_op_info {
  size_t struct_size;
  const char *name; /* of the function: gpuhash_<name> */
  uint64_t trait;   /* of the backends that have it */
  uint32_t facts;   /* GPUHASH_FACT_ADDS, ... */
} gpuhash_op_info;
/* INVALID_ARGUMENT: op is none of the op codes of a batch, which follow each other from 1 on. */
GPUHASH_API gpuhash_status gpuhash_op_get_info(uint32_t op, gpuhash_op_info *out, gpuhash_error *err);

enum gpuhash_combine { GPUHASH_ADD = 0, GPUHASH_MIN = 1, GPUHASH_MAX = 2 };
enum gpuhash_value_kind { GPUHASH_UINT = 0, GPUHASH_INT = 1, GPUHASH_FLOAT = 2 }; /* how accumulate reads values */
/* Of equal keys the last in the array wins; UNSUPPORTED by the built-ins. */
enum gpuhash_dedup { GPUHASH_DEDUP_LAST = 1u << 0 };

typedef struct gpuhash_counts {
  uint64_t yes;    /* elements whose status is GPUHASH_YES */
  uint64_t failed; /* elements whose status is 2 or above */
} gpuhash_counts;

/* One batch. accumulate of floats: an element whose key is present replaces the stored value s by what s and its
 * operand give, one element at a time in some order, as for integers; overflow, infinities and NaN mean what they mean
 * in that order. Operands to add whose keys are equal may be added to each other first, if none is within a factor of
 * 2^18 of the largest number, an infinity or NaN: the result is then rounded otherwise, and overflows only where s and
 * the operands add up to more than the largest number. GPUHASH_MIN and _MAX: a NaN operand changes nothing, a stored
 * NaN stays.
 *
 * Each element of an input array is read once: if it changes during the call, either the old or the new element counts,
 * as a whole. In a table that grows, an element that did not find room at first may be read again.
 *
 * Arrays are of the table's device, aligned to their element, and may be NULL where noted. Duplicate keys in a batch
 * take some serial order. Outputs must not overlap inputs or each other. */
typedef struct gpuhash_batch {
  size_t struct_size;
  uint32_t op;
  uint32_t flags;
  size_t n;
  const void *keys;   /* n * key_bytes */
  const void *values; /* n * value_bytes: insert, assign, accumulate, execute, find_or_insert; else NULL */
  void *out_values; /* n * value_bytes: find, pop, execute (0 where absent), find_or_insert; count: n * 8; else NULL */
  uint8_t *out_status;    /* n, or NULL */
  const uint8_t *ops;     /* n: execute only; GPUHASH_OP_NOP to GPUHASH_OP_ERASE, see below */
  uint32_t combine;       /* accumulate, execute: GPUHASH_ADD, _MIN, _MAX */
  uint32_t value_type;    /* accumulate, execute: GPUHASH_UINT, _INT, _FLOAT */
  void *stream;           /* CUDA stream; NULL: the default stream. 2 (cudaStreamPerThread) is another stream in each
                           * thread: calls on it are ordered with those of the same thread only */
  gpuhash_counts *counts; /* host memory, or NULL; when given, the call waits for the batch */
} gpuhash_batch;
#define GPUHASH_BATCH_INIT {sizeof(gpuhash_batch), 0, 0, 0, NULL, NULL, NULL, NULL, NULL, 0, 0, NULL, NULL}

/* CUDA graphs. A batch on a stream that is being captured goes into the graph, if the table has grow 0 or the batch is a
 * find or count, and no counts are asked for; every other call answers GPUHASH_INVALID_ARGUMENT, and the capture goes on.
 *   - While such a graph lives the table's storage does not move: reserve, shrink and flush answer INVALID_ARGUMENT, and
 *     a table that would have to grow answers FULL. To end that, destroy the graph and everything instantiated from it.
 *   - A launch runs beside other batches, and after every call before it that had the table to itself (export, clear, ...).
 *     The library does not see launches: order such a call after a launch yourself, by giving it the launch's stream or by
 *     waiting for that first; and wait for the last launch before the table is destroyed.
 *   - Elements of a launch that find no room have that status, and the next call that waits reports them. */

/* execute: an element whose op code is none of 0 to 5, or ACCUMULATE in a table without values or of a backend without
 * that trait, is left out and gets the status GPUHASH_ELEMENT_BAD_OP; all others are carried out. The call then answers
 * GPUHASH_INVALID_ARGUMENT, unless a worse error has happened. */
GPUHASH_API gpuhash_status gpuhash_run(gpuhash_table *table, const gpuhash_batch *batch, gpuhash_error *err);

/* A function for each operation of gpuhash_run. status, stream and err may be NULL. */
GPUHASH_API gpuhash_status gpuhash_insert(gpuhash_table *table, size_t n, const void *keys, const void *values,
                                          uint8_t *status, void *stream, gpuhash_error *err);
GPUHASH_API gpuhash_status gpuhash_insert_or_assign(gpuhash_table *table, size_t n, const void *keys,
                                                    const void *values, uint8_t *status, void *stream,
                                                    gpuhash_error *err);
GPUHASH_API gpuhash_status gpuhash_insert_multi(gpuhash_table *table, size_t n, const void *keys, const void *values,
                                                uint8_t *status, void *stream, gpuhash_error *err);
GPUHASH_API gpuhash_status gpuhash_accumulate(gpuhash_table *table, size_t n, const void *keys, const void *values,
                                              uint32_t combine, uint32_t value_type, uint8_t *status, void *stream,
                                              gpuhash_error *err);
GPUHASH_API gpuhash_status gpuhash_find(gpuhash_table *table, size_t n, const void *keys, void *out_values,
                                        uint8_t *found, void *stream, gpuhash_error *err);
GPUHASH_API gpuhash_status gpuhash_contains(gpuhash_table *table, size_t n, const void *keys, uint8_t *found,
                                            void *stream, gpuhash_error *err);
GPUHASH_API gpuhash_status gpuhash_count(gpuhash_table *table, size_t n, const void *keys, uint64_t *counts,
                                         void *stream, gpuhash_error *err);
GPUHASH_API gpuhash_status gpuhash_erase(gpuhash_table *table, size_t n, const void *keys, uint8_t *erased,
                                         void *stream, gpuhash_error *err);
GPUHASH_API gpuhash_status gpuhash_erase_all(gpuhash_table *table, size_t n, const void *keys, uint8_t *erased,
                                             void *stream, gpuhash_error *err);
/* Erases each key and gives the value back that it had when it was erased, 0 where it was absent (trait ANSWERS). Of
 * equal keys one is erased, and the others are absent. In a table with several pairs per key: one of them. out_values
 * may be NULL. In stadium, where a value lies apart from the ticket that says whether it is live, a pop has the table
 * to itself: it cannot be captured into a CUDA graph. */
GPUHASH_API gpuhash_status gpuhash_pop(gpuhash_table *table, size_t n, const void *keys, void *out_values,
                                       uint8_t *popped, void *stream, gpuhash_error *err);
/* Adds the pairs whose key is absent, and answers for each key the value that is in the table then: the element's own
 * value if inserted[i] is 1, else that of the pair that was there. Each element does both at one point (trait ANSWERS).
 * out_values may be NULL; for an element that was not carried out its value is not defined. */
GPUHASH_API gpuhash_status gpuhash_find_or_insert(gpuhash_table *table, size_t n, const void *keys, const void *values,
                                                  void *out_values, uint8_t *inserted, void *stream,
                                                  gpuhash_error *err);
GPUHASH_API gpuhash_status gpuhash_execute(gpuhash_table *table, size_t n, const uint8_t *ops, const void *keys,
                                           const void *values, void *out_values, uint8_t *status, void *stream,
                                           gpuhash_error *err);

/* Every value of every key (trait MULTI). offsets receives n + 1 entries; values of key i are
 * out_values[offsets[i] .. offsets[i + 1]). With out_values NULL only offsets are computed. Returns
 * GPUHASH_INVALID_ARGUMENT when max_values is too small (offsets[n] then holds the need). Waits. */
GPUHASH_API gpuhash_status gpuhash_find_all(gpuhash_table *table, size_t n, const void *keys, uint64_t *offsets,
                                            void *out_values, size_t max_values, void *stream, gpuhash_error *err);

/* Smallest key >= keys[i] with its value (trait ORDERED). */
GPUHASH_API gpuhash_status gpuhash_lower_bound(gpuhash_table *table, size_t n, const void *keys, void *out_keys,
                                               void *out_values, uint8_t *found, void *stream, gpuhash_error *err);
/* The key that is next to each of keys (trait ORDERED, ordered plugins since 1.2; older ones are UNSUPPORTED), with its
 * value. found[i] is 0, and the other outputs are 0, where there is none. out_keys, out_values and found may be NULL.
 */
enum gpuhash_neighbor {
  GPUHASH_AT_LEAST = 0, /* the smallest key >= keys[i], as lower_bound */
  GPUHASH_ABOVE = 1,    /* the smallest key > keys[i]: its successor */
  GPUHASH_AT_MOST = 2,  /* the largest key <= keys[i] */
  GPUHASH_BELOW = 3     /* the largest key < keys[i]: its predecessor */
};
GPUHASH_API gpuhash_status gpuhash_neighbors(gpuhash_table *table, uint32_t which, size_t n, const void *keys,
                                             void *out_keys, void *out_values, uint8_t *found, void *stream,
                                             gpuhash_error *err);
/* Up to max_per_range pairs with low[i] <= key < high[i], ascending (trait ORDERED). counts receives n entries. The
 * contents of a range's places behind its pairs are not defined. */
GPUHASH_API gpuhash_status gpuhash_range(gpuhash_table *table, size_t n, const void *low, const void *high,
                                         size_t max_per_range, void *out_keys, void *out_values, uint64_t *counts,
                                         void *stream, gpuhash_error *err);

/* Ranges of any length (trait ORDERED, ordered plugins since 1.2). low NULL: from the smallest key on; high NULL: up to
 * and with the largest key. With offsets NULL the pairs are counted: counts receives n entries. With offsets, n + 1
 * ascending numbers, the pairs of range i go to out[offsets[i] .. offsets[i + 1]), as many as there is room for; none
 * go beyond max_pairs. counts may then be NULL, or receives the number of pairs that each range has by now. Other
 * batches may write meanwhile: if a range has fewer pairs than room, the rest of its places is unused; if it has more,
 * the first pairs are written. */
GPUHASH_API gpuhash_status gpuhash_range_pairs(gpuhash_table *table, size_t n, const void *low, const void *high,
                                               const uint64_t *offsets, size_t max_pairs, void *out_keys,
                                               void *out_values, uint64_t *counts, void *stream, gpuhash_error *err);

/* ---- exclusive operations: they wait for the table's running batches and hold back new ones --------------------- */

/* All pairs of n ranges as they are at one moment (trait ORDERED, ordered plugins since 1.3). low and high as for
 * gpuhash_range_pairs. The pairs of range i go to out[offsets[i] .. offsets[i + 1]), ascending; offsets is written and
 * has n + 1 entries. With out_keys and out_values NULL only offsets is written, and nothing is waited for. If max_pairs
 * is less than offsets[n]: INVALID_ARGUMENT, and only offsets is written. n is less than 2^32 - 1. */
GPUHASH_API gpuhash_status gpuhash_range_all(gpuhash_table *table, size_t n, const void *low, const void *high,
                                             uint64_t *offsets, size_t max_pairs, void *out_keys, void *out_values,
                                             void *stream, gpuhash_error *err);

/* All live pairs, in no order unless the backend is ORDERED. *n: in, room in pairs; out, pairs in the table. With
 * keys NULL only *n is set. keys and out_values are of the table's device; out_values may be NULL. Waits. */
GPUHASH_API gpuhash_status gpuhash_export(gpuhash_table *table, size_t *n, void *keys, void *out_values, void *stream,
                                          gpuhash_error *err);

/* The state of an export in parts. Before the first part the caller sets struct_size and order, and all else to zero;
 * after it only the library changes the struct. */
typedef struct gpuhash_export_cursor {
  size_t struct_size;
  gpuhash_table *table; /* whose pairs are exported */
  uint32_t state;       /* GPUHASH_EXPORT_BEGINS, _GOES_ON, _DONE or _CHANGED */
  uint32_t order;       /* set before the first part: GPUHASH_EXPORT_SPREAD or _AS_STORED */
  uint64_t pairs;       /* of the table, since the first part */
  uint64_t given;       /* pairs of all parts so far */
  uint64_t at;          /* where the next part begins: a cell or a key, as the backend has it */
  uint64_t stamp;       /* of the table's contents when the first part was made */
} gpuhash_export_cursor;
#define GPUHASH_EXPORT_CURSOR_INIT {sizeof(gpuhash_export_cursor), NULL, 0, 0, 0, 0, 0, 0}

enum gpuhash_export_state {
  GPUHASH_EXPORT_BEGINS = 0,
  GPUHASH_EXPORT_GOES_ON = 1,
  GPUHASH_EXPORT_DONE = 2,   /* all parts were made; further calls give no pairs */
  GPUHASH_EXPORT_CHANGED = 3 /* the table has changed meanwhile: begin anew */
};

/* The order of the pairs, unless the backend is ORDERED. AS_STORED is read faster, and meant for a save. But if the
 * pairs are inserted into a growing table of the same hash and seed, they all crowd in one corner of it: SPREAD avoids
 * that. */
enum gpuhash_export_order { GPUHASH_EXPORT_SPREAD = 0, GPUHASH_EXPORT_AS_STORED = 1 };

/* The next pairs of an export in parts, which needs no memory but its arrays (plugins since 1.6; older ones are
 * UNSUPPORTED). *n: in, room in pairs, 1 or more; out, pairs of this part, at least 1 unless it is the last one and
 * often less than the room. Call until cursor->state is GPUHASH_EXPORT_DONE: the parts together are what gpuhash_export
 * gives at once, in order if the backend is ORDERED. If anything was written to the table since the first part, or it
 * was rebuilt, the call answers INVALID_ARGUMENT and sets the state to GPUHASH_EXPORT_CHANGED; writes of CUDA graphs
 * are not seen, as above. Where all pairs of a bucket have to come at once (chaining backends) and there is less room:
 * INVALID_ARGUMENT, *n is the need, and the cursor stays where it is. Finds, and other exports, may come between.
 * Waits. */
GPUHASH_API gpuhash_status gpuhash_export_part(gpuhash_table *table, gpuhash_export_cursor *cursor, size_t *n,
                                               void *keys, void *out_values, void *stream, gpuhash_error *err);
GPUHASH_API gpuhash_status gpuhash_size(gpuhash_table *table, uint64_t *size, gpuhash_error *err); /* waits */
GPUHASH_API gpuhash_status gpuhash_clear(gpuhash_table *table, void *stream, gpuhash_error *err);
/* Makes room for `keys` keys in all; never shrinks. With grow 0, slots of erased keys are freed if that is enough. */
GPUHASH_API gpuhash_status gpuhash_reserve(gpuhash_table *table, uint64_t keys, void *stream, gpuhash_error *err);
/* Smallest storage that holds the live keys at the maximum load factor. */
GPUHASH_API gpuhash_status gpuhash_shrink(gpuhash_table *table, void *stream, gpuhash_error *err);
/* Drop dead slots: a rebuild in place (slab_hash: FLUSH, which returns slabs to the allocator). After OK, all pairs of
 * a table in a file are on the disk. */
GPUHASH_API gpuhash_status gpuhash_flush(gpuhash_table *table, void *stream, gpuhash_error *err);
/* The same for buckets first .. first + count - 1 of a chaining backend; UNSUPPORTED elsewhere. */
GPUHASH_API gpuhash_status gpuhash_flush_range(gpuhash_table *table, uint64_t first, uint64_t count, void *stream,
                                               gpuhash_error *err);
/* Test every invariant of the structure. GPUHASH_CORRUPT names the first one that is broken. Waits. */
GPUHASH_API gpuhash_status gpuhash_check(gpuhash_table *table, gpuhash_error *err);

typedef struct gpuhash_stat {
  char name[32];
  double value;
} gpuhash_stat;
/* Named figures, for example probe_mean and probe_max. *n: in, room; out, how many there are. Waits. */
GPUHASH_API gpuhash_status gpuhash_stats(gpuhash_table *table, size_t *n, gpuhash_stat *out, gpuhash_error *err);
/* counts[i]: live keys whose distance from home is i rows (chaining: buckets of i slabs); the last entry takes the
 * rest. Waits. */
GPUHASH_API gpuhash_status gpuhash_histogram(gpuhash_table *table, size_t n, uint64_t *counts, gpuhash_error *err);

/* ---- ceilings: what this machine can do at best, measured now -------------------------------------------------- */

/* Time `n` independent accesses, `repeats` times, over `table_bytes` of memory of the device, at random places.
 * what: "gather8", "gather16", "gather32", "gather64", "gather128" (read rows of so many bytes), "cas64" (64-bit
 * compare-and-swap), "copy" (n bytes streamed from one half to the other), "launch" (CUDA: the host's time for n
 * launches of a kernel that does nothing). CPU: with prefetch, by `threads` threads (0: one for each CPU). seconds
 * receives `repeats` times, a warm-up not among them. */
GPUHASH_API gpuhash_status gpuhash_measure_ceiling(gpuhash_device device, const char *what, uint64_t table_bytes,
                                                   size_t n, size_t repeats, uint32_t threads, double *seconds,
                                                   gpuhash_error *err);

/* ---- copies of host memory, for staging ------------------------------------------------------------------------ */

enum gpuhash_copy_hint {
  GPUHASH_COPY_LOOK = 1,   /* the result of the copies covers these bytes */
  GPUHASH_COPY_STREAM = 2, /* the copy is not read soon: it is written past the caches, where the processor can */
  /* Nothing is copied, and `from` is not read: the system's pages of `to` are brought in. What is written to that memory
   * before, meanwhile or after stays. */
  GPUHASH_COPY_TOUCH = 4
};

typedef struct gpuhash_copy {
  void *to;
  const void *from;
  size_t bytes;
  uint32_t flags;
} gpuhash_copy;

/* Copies that the threads which serve batches on the CPU carry out, while the caller does something else. One thread
 * copies 5 to 20 GB/s, less than a bus to a GPU moves. */
typedef struct gpuhash_copies gpuhash_copies;

/* Begin to copy n parts, which do not overlap (parts to touch may overlap others), on at most `threads` threads (0: one
 * for each CPU that this process may use), of which the caller's is one while it helps and when it ends the copies. Several
 * may be open at once, and are carried out in the order in which they were begun. more: 1 if others follow at once, for
 * which the threads then wait awake, for a fifth of a millisecond at most; else 0. The memory of the parts has to stay
 * until gpuhash_copies_end. NULL: no memory for this call's own bookkeeping; nothing was copied. In a forked child the
 * copies of its parent are left as they are: help returns 1, and end 0, at once. */
GPUHASH_API gpuhash_copies *gpuhash_copies_begin(size_t n, const gpuhash_copy *parts, uint32_t threads, uint32_t more);

/* Copy at most `pieces` pieces of 128 KiB on the calling thread, or look for about a microsecond if others have begun all
 * that is left; with 0 pieces it returns at once. Returns 1 when everything is copied, else 0. For one thread at a time. */
GPUHASH_API uint32_t gpuhash_copies_help(gpuhash_copies *copies, uint32_t pieces);

/* Copy what is left, and free `copies`, which is not used any more. Returns the bitwise or of all bytes copied with
 * GPUHASH_COPY_LOOK: for status bytes, 0 or 1 means that no element failed. */
GPUHASH_API uint8_t gpuhash_copies_end(gpuhash_copies *copies);

/* Copies that are ended before the call returns; `meanwhile(context)`, unless it is NULL, is called while they run. */
GPUHASH_API uint8_t gpuhash_copy_parts(size_t n, const gpuhash_copy *parts, uint32_t threads);
GPUHASH_API uint8_t gpuhash_copy_parts_beside(size_t n, const gpuhash_copy *parts, uint32_t threads, uint32_t more,
                                              void (*meanwhile)(void *context), void *context);

/* ---- SlabAlloc, usable on its own ------------------------------------------------------------------------------ */

typedef struct gpuhash_slab_allocator gpuhash_slab_allocator;

typedef struct gpuhash_slab_config {
  size_t struct_size;
  const char *kind; /* "slab_alloc" or "slab_alloc_light" */
  gpuhash_device device;
  uint32_t unit_bytes;   /* 64, 128 or 256 */
  uint32_t super_blocks; /* created at once; 0: 1 */
  uint32_t
      max_super_blocks; /* slab_alloc adds up to this many by itself between batches; 0: as many as the layout allows */
  uint32_t memory_blocks; /* per super block; 0: 256. A memory block is 1024 units. */
  uint64_t seed;
  uint32_t threads;
  uint32_t wipe; /* 1: units are filled with all ones before they are handed out again */
  const gpuhash_memory *memory;
  void *stream;
} gpuhash_slab_config;
#define GPUHASH_SLAB_CONFIG_INIT \
  {sizeof(gpuhash_slab_config), "slab_alloc", {GPUHASH_CPU, 0}, 128, 0, 0, 0, 0, 0, 0, NULL, NULL}
GPUHASH_API void gpuhash_slab_config_init(gpuhash_slab_config *config, size_t struct_size);

typedef struct gpuhash_slab_stats {
  size_t struct_size;
  uint64_t units;     /* in all super blocks */
  uint64_t allocated; /* handed out */
  uint64_t bytes;
  uint32_t super_blocks;
  uint32_t full_blocks; /* memory blocks with no free unit */
} gpuhash_slab_stats;

GPUHASH_API gpuhash_status gpuhash_slab_allocator_create(const gpuhash_slab_config *config,
                                                         gpuhash_slab_allocator **out, gpuhash_error *err);
GPUHASH_API void gpuhash_slab_allocator_destroy(gpuhash_slab_allocator *allocator);
/* Allocates n units; units[i] is a 32-bit handle, or GPUHASH_NO_UNIT if there was none (the call then answers
 * NO_MEMORY). */
#define GPUHASH_NO_UNIT 0xffffffffu
GPUHASH_API gpuhash_status gpuhash_slab_allocate(gpuhash_slab_allocator *allocator, size_t n, uint32_t *units,
                                                 void *stream, gpuhash_error *err);
/* Frees units. A handle that is foreign, unallocated or freed already is refused: status[i] (may be NULL) is then
 * GPUHASH_NO, the call answers INVALID_ARGUMENT and names the first such handle; all other handles are freed. */
GPUHASH_API gpuhash_status gpuhash_slab_free(gpuhash_slab_allocator *allocator, size_t n, const uint32_t *units,
                                             uint8_t *status, void *stream, gpuhash_error *err);
/* addresses[i]: where units[i] lies on the device; NULL for GPUHASH_NO_UNIT and foreign handles. */
GPUHASH_API gpuhash_status gpuhash_slab_translate(gpuhash_slab_allocator *allocator, size_t n, const uint32_t *units,
                                                  void **addresses, void *stream, gpuhash_error *err);
GPUHASH_API gpuhash_status gpuhash_slab_get_stats(gpuhash_slab_allocator *allocator, gpuhash_slab_stats *out,
                                                  gpuhash_error *err);

#ifdef __cplusplus
}
#endif
#endif
