# cython: language_level=3
"""The C interface of libgpuhash, as gpuhash/gpuhash.h declares it."""
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t


cdef extern from "gpuhash/gpuhash.h" nogil:
    ctypedef int32_t gpuhash_status

    enum:
        GPUHASH_OK
        GPUHASH_INVALID_ARGUMENT
        GPUHASH_UNSUPPORTED
        GPUHASH_NO_MEMORY
        GPUHASH_FULL
        GPUHASH_NOT_FOUND
        GPUHASH_DEVICE_ERROR
        GPUHASH_POISONED
        GPUHASH_FORKED
        GPUHASH_PLUGIN_ERROR
        GPUHASH_CORRUPT
        GPUHASH_INTERNAL

    enum:
        GPUHASH_NO
        GPUHASH_YES
        GPUHASH_ELEMENT_FULL
        GPUHASH_ELEMENT_NO_MEMORY

    ctypedef struct gpuhash_error:
        size_t struct_size
        gpuhash_status code
        char message[512]

    const char *gpuhash_status_name(gpuhash_status status)
    void gpuhash_version(uint32_t *major, uint32_t *minor, uint32_t *patch)
    const char *gpuhash_build_info()
    gpuhash_status gpuhash_set_threads(uint32_t threads, gpuhash_error *err)

    # ---- devices
    enum:
        GPUHASH_CPU
        GPUHASH_CUDA

    ctypedef struct gpuhash_device:
        int32_t kind
        int32_t ordinal

    ctypedef struct gpuhash_device_info:
        size_t struct_size
        char name[128]
        uint64_t memory_bytes
        uint32_t compute_major
        uint32_t compute_minor
        uint32_t units
        uint32_t driver_version

    int32_t gpuhash_device_count(int32_t kind, gpuhash_error *err)
    gpuhash_status gpuhash_device_get_info(gpuhash_device device, gpuhash_device_info *out, gpuhash_error *err)
    gpuhash_device gpuhash_pointer_device(const void *p)

    ctypedef struct gpuhash_memory:
        size_t struct_size
        void *context
        void *(*allocate)(void *context, size_t bytes, size_t alignment, void *stream) noexcept
        void (*deallocate)(void *context, void *p, size_t bytes, size_t alignment, void *stream) noexcept

    # ---- backends
    enum:
        GPUHASH_TRAIT_INSERT
        GPUHASH_TRAIT_ACCUMULATE
        GPUHASH_TRAIT_MULTI
        GPUHASH_TRAIT_ORDERED
        GPUHASH_TRAIT_GROW
        GPUHASH_TRAIT_WIDE
        GPUHASH_TRAIT_FLUSH
        GPUHASH_TRAIT_ANSWERS

    ctypedef struct gpuhash_option_info:
        const char *key
        const char *choices
        const char *help

    ctypedef struct gpuhash_backend_info:
        size_t struct_size
        const char *name
        const char *version
        const char *summary
        const char *path
        const char *error
        uint64_t traits
        uint32_t loaded
        uint32_t key_widths
        uint32_t value_widths
        uint32_t devices
        uint32_t origin
        const gpuhash_option_info *options
        size_t n_options

    size_t gpuhash_backend_count()
    gpuhash_status gpuhash_backend_get(size_t index, gpuhash_backend_info *out, gpuhash_error *err)
    gpuhash_status gpuhash_backend_load(const char *name, gpuhash_backend_info *out, gpuhash_error *err)
    gpuhash_status gpuhash_backend_open(const char *path, gpuhash_backend_info *out, gpuhash_error *err)
    gpuhash_status gpuhash_backend_probe(const char *name, gpuhash_device device, gpuhash_error *err)

    # ---- tables
    ctypedef struct gpuhash_option:
        const char *key
        const char *value

    ctypedef struct gpuhash_config:
        size_t struct_size
        const char *backend
        gpuhash_device device
        uint32_t key_bytes
        uint32_t value_bytes
        uint64_t capacity
        double max_load_factor
        uint64_t seed
        uint32_t grow
        uint32_t threads
        const gpuhash_memory *memory
        const gpuhash_option *options
        size_t n_options
        void *stream

    ctypedef struct gpuhash_table:
        pass

    gpuhash_status gpuhash_table_create(const gpuhash_config *config, gpuhash_table **out, gpuhash_error *err)
    void gpuhash_table_destroy(gpuhash_table *table)

    ctypedef struct gpuhash_table_info:
        size_t struct_size
        const char *backend
        gpuhash_device device
        uint32_t key_bytes
        uint32_t value_bytes
        uint64_t traits
        uint64_t size
        uint64_t used
        uint64_t slots
        uint64_t capacity
        uint64_t bytes
        uint64_t seed
        uint64_t rebuilds
        double max_load_factor

    gpuhash_status gpuhash_table_get_info(gpuhash_table *table, gpuhash_table_info *out, gpuhash_error *err)

    # ---- batches
    enum:
        GPUHASH_OP_NOP
        GPUHASH_OP_INSERT
        GPUHASH_OP_ASSIGN
        GPUHASH_OP_ACCUMULATE
        GPUHASH_OP_FIND
        GPUHASH_OP_ERASE
        GPUHASH_OP_INSERT_MULTI
        GPUHASH_OP_COUNT
        GPUHASH_OP_ERASE_ALL
        GPUHASH_OP_EXECUTE
        GPUHASH_OP_POP
        GPUHASH_OP_FIND_OR_INSERT

    enum:
        GPUHASH_FACT_ADDS
        GPUHASH_FACT_ERASES
        GPUHASH_FACT_CHANGES
        GPUHASH_FACT_TAKES_VALUES
        GPUHASH_FACT_ANSWERS_VALUES
        GPUHASH_FACT_ANSWERS_COUNTS
        GPUHASH_FACT_IN_EXECUTE

    ctypedef struct gpuhash_op_info:
        size_t struct_size
        const char *name
        uint64_t trait
        uint32_t facts

    gpuhash_status gpuhash_op_get_info(uint32_t op, gpuhash_op_info *out, gpuhash_error *err)

    enum:
        GPUHASH_ADD
        GPUHASH_MIN
        GPUHASH_MAX

    enum:
        GPUHASH_UINT
        GPUHASH_INT
        GPUHASH_FLOAT

    enum:
        GPUHASH_DEDUP_LAST

    ctypedef struct gpuhash_counts:
        uint64_t yes
        uint64_t failed

    ctypedef struct gpuhash_batch:
        size_t struct_size
        uint32_t op
        uint32_t flags
        size_t n
        const void *keys
        const void *values
        void *out_values
        uint8_t *out_status
        const uint8_t *ops
        uint32_t combine
        uint32_t value_type
        void *stream
        gpuhash_counts *counts

    gpuhash_status gpuhash_run(gpuhash_table *table, const gpuhash_batch *batch, gpuhash_error *err)
    gpuhash_status gpuhash_find_all(gpuhash_table *table, size_t n, const void *keys, uint64_t *offsets,
                                    void *out_values, size_t max_values, void *stream, gpuhash_error *err)
    gpuhash_status gpuhash_lower_bound(gpuhash_table *table, size_t n, const void *keys, void *out_keys,
                                       void *out_values, uint8_t *found, void *stream, gpuhash_error *err)
    gpuhash_status gpuhash_neighbors(gpuhash_table *table, uint32_t which, size_t n, const void *keys, void *out_keys,
                                     void *out_values, uint8_t *found, void *stream, gpuhash_error *err)
    gpuhash_status gpuhash_range_pairs(gpuhash_table *table, size_t n, const void *low, const void *high,
                                       const uint64_t *offsets, size_t max_pairs, void *out_keys, void *out_values,
                                       uint64_t *counts, void *stream, gpuhash_error *err)
    gpuhash_status gpuhash_range_all(gpuhash_table *table, size_t n, const void *low, const void *high,
                                     uint64_t *offsets, size_t max_pairs, void *out_keys, void *out_values,
                                     void *stream, gpuhash_error *err)
    gpuhash_status gpuhash_range(gpuhash_table *table, size_t n, const void *low, const void *high,
                                 size_t max_per_range, void *out_keys, void *out_values, uint64_t *counts,
                                 void *stream, gpuhash_error *err)

    # ---- exclusive operations
    gpuhash_status gpuhash_export(gpuhash_table *table, size_t *n, void *keys, void *out_values, void *stream,
                                  gpuhash_error *err)

    ctypedef struct gpuhash_export_cursor:
        size_t struct_size
        uint32_t state
        uint32_t order
        uint64_t pairs
        uint64_t given

    enum:
        GPUHASH_EXPORT_DONE
        GPUHASH_EXPORT_CHANGED
        GPUHASH_EXPORT_AS_STORED

    gpuhash_status gpuhash_export_part(gpuhash_table *table, gpuhash_export_cursor *cursor, size_t *n, void *keys,
                                       void *out_values, void *stream, gpuhash_error *err)
    gpuhash_status gpuhash_size(gpuhash_table *table, uint64_t *size, gpuhash_error *err)
    gpuhash_status gpuhash_clear(gpuhash_table *table, void *stream, gpuhash_error *err)
    gpuhash_status gpuhash_reserve(gpuhash_table *table, uint64_t keys, void *stream, gpuhash_error *err)
    gpuhash_status gpuhash_shrink(gpuhash_table *table, void *stream, gpuhash_error *err)
    gpuhash_status gpuhash_flush(gpuhash_table *table, void *stream, gpuhash_error *err)
    gpuhash_status gpuhash_flush_range(gpuhash_table *table, uint64_t first, uint64_t count, void *stream,
                                       gpuhash_error *err)
    gpuhash_status gpuhash_check(gpuhash_table *table, gpuhash_error *err)

    ctypedef struct gpuhash_stat:
        char name[32]
        double value

    gpuhash_status gpuhash_stats(gpuhash_table *table, size_t *n, gpuhash_stat *out, gpuhash_error *err)
    gpuhash_status gpuhash_histogram(gpuhash_table *table, size_t n, uint64_t *counts, gpuhash_error *err)

    gpuhash_status gpuhash_measure_ceiling(gpuhash_device device, const char *what, uint64_t table_bytes, size_t n,
                                           size_t repeats, uint32_t threads, double *seconds, gpuhash_error *err)

    # ---- copies of host memory
    enum:
        GPUHASH_COPY_LOOK
        GPUHASH_COPY_STREAM
        GPUHASH_COPY_TOUCH

    ctypedef struct gpuhash_copy:
        void *to
        const void *from_ "from"
        size_t bytes
        uint32_t flags

    ctypedef struct gpuhash_copies:
        pass

    gpuhash_copies *gpuhash_copies_begin(size_t n, const gpuhash_copy *parts, uint32_t threads, uint32_t more)
    uint32_t gpuhash_copies_help(gpuhash_copies *copies, uint32_t pieces)
    uint8_t gpuhash_copies_end(gpuhash_copies *copies)

    # ---- SlabAlloc
    ctypedef struct gpuhash_slab_allocator:
        pass

    ctypedef struct gpuhash_slab_config:
        size_t struct_size
        const char *kind
        gpuhash_device device
        uint32_t unit_bytes
        uint32_t super_blocks
        uint32_t max_super_blocks
        uint32_t memory_blocks
        uint64_t seed
        uint32_t threads
        uint32_t wipe
        const gpuhash_memory *memory
        void *stream

    ctypedef struct gpuhash_slab_stats:
        size_t struct_size
        uint64_t units
        uint64_t allocated
        uint64_t bytes
        uint32_t super_blocks
        uint32_t full_blocks

    gpuhash_status gpuhash_slab_allocator_create(const gpuhash_slab_config *config, gpuhash_slab_allocator **out,
                                                 gpuhash_error *err)
    void gpuhash_slab_allocator_destroy(gpuhash_slab_allocator *allocator)
    gpuhash_status gpuhash_slab_allocate(gpuhash_slab_allocator *allocator, size_t n, uint32_t *units, void *stream,
                                         gpuhash_error *err)
    gpuhash_status gpuhash_slab_free(gpuhash_slab_allocator *allocator, size_t n, const uint32_t *units,
                                     uint8_t *status, void *stream, gpuhash_error *err)
    gpuhash_status gpuhash_slab_translate(gpuhash_slab_allocator *allocator, size_t n, const uint32_t *units,
                                          void **addresses, void *stream, gpuhash_error *err)
    gpuhash_status gpuhash_slab_get_stats(gpuhash_slab_allocator *allocator, gpuhash_slab_stats *out,
                                          gpuhash_error *err)


cdef extern from "gpuhash/staging.h" nogil:
    ctypedef struct gpuhash_slot:
        void *host
        void *device
        void *uploaded
        void *downloaded

    ctypedef struct gpuhash_staging_calls:
        void *memcpy_async      # functions, all of them
        void *run

    enum:
        GPUHASH_STAGING_NEW_VALUES
        GPUHASH_STAGING_NEW_STATUS
        GPUHASH_STAGING_PAST_CACHES
        GPUHASH_MOST_SLOTS

    ctypedef struct gpuhash_staging:
        size_t struct_size
        const gpuhash_slot *slots
        uint32_t n_slots
        uint32_t flags
        size_t slot_bytes
        void *up
        void *down
        size_t most_keys
        size_t first_keys
        const void *device_values
        int32_t (*tell)(void *context, size_t done, size_t n) noexcept
        void *context
        const gpuhash_staging_calls *calls
        size_t done
        uint32_t in_doubt

    gpuhash_status gpuhash_run_staged(gpuhash_table *table, const gpuhash_batch *batch, gpuhash_staging *staging,
                                      gpuhash_error *err)


cdef extern from "gpuhash/columns.h" nogil:
    # ---- groups of a column on a device
    enum:
        GPUHASH_ORDER_FIRST

    ctypedef struct gpuhash_group_request:
        size_t struct_size
        size_t n
        const void *keys
        uint32_t key_bytes
        uint32_t order
        uint64_t seed
        void *out_keys
        int64_t *out_counts
        int64_t *out_codes
        uint64_t *groups
        void *scratch
        size_t scratch_bytes
        gpuhash_device device
        void *stream
        const void *values
        uint32_t value_bytes
        uint32_t value_type
        void *out_sums
        double *out_means
        void *out_low
        void *out_high
        uint64_t *host_groups
        int64_t *out_first
        void (*meanwhile)(void *context) noexcept nogil
        void *context

    gpuhash_status gpuhash_group_scratch(const gpuhash_group_request *request, size_t *bytes, gpuhash_error *err)
    gpuhash_status gpuhash_group(const gpuhash_group_request *request, gpuhash_error *err)

    ctypedef struct gpuhash_isin_request:
        size_t struct_size
        size_t n
        const void *keys
        size_t n_among
        const void *among
        uint32_t key_bytes
        uint64_t seed
        uint8_t *out
        void *scratch
        size_t scratch_bytes
        gpuhash_device device
        void *stream

    gpuhash_status gpuhash_isin_scratch(const gpuhash_isin_request *request, size_t *bytes, gpuhash_error *err)
    gpuhash_status gpuhash_isin(const gpuhash_isin_request *request, gpuhash_error *err)

    ctypedef struct gpuhash_bytes_column:
        uint64_t n
        uint64_t first
        const void *data
        const void *offsets
        const uint8_t *validity
        uint32_t offset_bytes
        uint32_t width
        uint32_t floats

    ctypedef struct gpuhash_bytes_request:
        size_t struct_size
        gpuhash_bytes_column one
        gpuhash_bytes_column other
        void *scratch
        size_t scratch_bytes
        gpuhash_device device
        void *stream

    gpuhash_status gpuhash_bytes_scratch(uint64_t rows, size_t *bytes, gpuhash_error *err)
    gpuhash_status gpuhash_bytes_hash(const gpuhash_bytes_request *request, uint64_t seed, uint64_t *hashes,
                                      uint64_t *host_null, gpuhash_error *err)
    gpuhash_status gpuhash_bytes_check(const gpuhash_bytes_request *request, const int64_t *codes, uint64_t groups,
                                       int64_t *out_first, uint64_t *host_other, gpuhash_error *err)
    gpuhash_status gpuhash_bytes_keep(const gpuhash_bytes_request *request, int64_t *out_rows, uint64_t *host_rows,
                                      gpuhash_error *err)
    gpuhash_status gpuhash_bytes_place(const gpuhash_bytes_request *request, const int64_t *rows, uint64_t n,
                                       void *out_offsets, uint64_t *host_bytes, gpuhash_error *err)
    gpuhash_status gpuhash_bytes_take(const gpuhash_bytes_request *request, const int64_t *rows, uint64_t n,
                                      const void *offsets, void *out_data, uint8_t *out_validity, gpuhash_error *err)

    ctypedef struct gpuhash_join_request:
        size_t struct_size
        size_t n_left
        const void *left
        size_t n_right
        const void *right
        uint32_t key_bytes
        uint32_t keep
        uint64_t seed
        int32_t *out_first
        int64_t *out_left
        int64_t *out_right
        uint64_t *out_facts
        void *scratch
        size_t scratch_bytes
        gpuhash_device device
        void *stream
        uint64_t *host_facts

    gpuhash_status gpuhash_join_scratch(const gpuhash_join_request *request, size_t *bytes, gpuhash_error *err)
    gpuhash_status gpuhash_join(const gpuhash_join_request *request, gpuhash_error *err)
    gpuhash_status gpuhash_join_pairs(const gpuhash_join_request *request, uint64_t pairs, gpuhash_error *err)

    # ---- rows by shard on a device
    struct ArrowSchema:
        const char *format
        const char *name
        void (*release)(ArrowSchema *) noexcept nogil

    struct ArrowArray:
        int64_t length
        int64_t n_buffers
        const void **buffers
        void (*release)(ArrowArray *) noexcept nogil

    ctypedef struct gpuhash_partition_request:
        size_t struct_size
        const ArrowSchema *type
        const ArrowArray *keys
        uint32_t shards
        uint64_t seed
        const void *values
        size_t value_bytes
        int32_t *out_shards
        int64_t *out_offsets
        int64_t *out_order
        void *out_keys
        void *out_values
        gpuhash_device device
        void *stream
        void *scratch
        size_t scratch_bytes
        uint32_t *out_places
        void *const *shard_keys
        void *const *shard_values
        int counted

    ctypedef struct gpuhash_collected:
        const void *const *from_ "from"
        size_t bytes
        void *to

    ctypedef struct gpuhash_collect_request:
        size_t struct_size
        size_t n
        const uint32_t *places
        uint32_t shards
        const int64_t *offsets
        uint32_t arrays
        gpuhash_collected collected[2]
        gpuhash_device device
        void *stream

    enum:
        GPUHASH_MOST_SPREAD
    gpuhash_status gpuhash_partition_scratch(const gpuhash_partition_request *request, size_t *bytes,
                                             gpuhash_error *err)
    gpuhash_status gpuhash_partition(const gpuhash_partition_request *request, gpuhash_error *err)
    gpuhash_status gpuhash_ungroup(size_t n, const int64_t *order, const void *rows, size_t bytes, void *to,
                                   gpuhash_device device, void *stream, gpuhash_error *err)
    gpuhash_status gpuhash_collect(const gpuhash_collect_request *request, gpuhash_error *err)
