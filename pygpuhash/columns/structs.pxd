# Arrow's structs, and the part of <gpuhash/columns.h> that the package uses. The header has two of the structs.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from pygpuhash.gpuhash cimport gpuhash_error, gpuhash_status


cdef extern from "gpuhash/columns.h":
    struct ArrowSchema:
        const char *format
        const char *name
        const char *metadata
        int64_t flags
        int64_t n_children
        ArrowSchema **children
        ArrowSchema *dictionary
        void (*release)(ArrowSchema *) noexcept nogil
        void *private_data

    struct ArrowArray:
        int64_t length
        int64_t null_count
        int64_t offset
        int64_t n_buffers
        int64_t n_children
        const void **buffers
        ArrowArray **children
        ArrowArray *dictionary
        void (*release)(ArrowArray *) noexcept nogil
        void *private_data

    ctypedef struct gpuhash_index:
        pass

    enum:
        GPUHASH_NULLS_GROUP
        GPUHASH_NULLS_DROP
        GPUHASH_NULLS_REFUSE
        GPUHASH_FLOATS_NUMBERS
        GPUHASH_FLOATS_BITS

    enum:
        GPUHASH_HASH_VERSION

    ctypedef struct gpuhash_index_config:
        size_t struct_size
        uint32_t nulls
        uint32_t floats
        uint32_t threads
        uint32_t counts
        uint64_t expected
        uint64_t seed

    ctypedef struct gpuhash_index_info:
        size_t struct_size
        uint64_t size
        uint64_t bytes
        int64_t null

    gpuhash_status gpuhash_index_create(const ArrowSchema *, const gpuhash_index_config *, gpuhash_index **,
                                        gpuhash_error *) nogil
    void gpuhash_index_destroy(gpuhash_index *) nogil
    gpuhash_status gpuhash_index_add(gpuhash_index *, const ArrowSchema *, const ArrowArray *, int64_t *,
                                     gpuhash_error *) nogil
    gpuhash_status gpuhash_index_find(gpuhash_index *, const ArrowSchema *, const ArrowArray *, int64_t *,
                                      gpuhash_error *) nogil
    gpuhash_status gpuhash_index_contains(gpuhash_index *, const ArrowSchema *, const ArrowArray *, uint8_t *,
                                          gpuhash_error *) nogil
    gpuhash_status gpuhash_index_keys(gpuhash_index *, uint64_t, uint64_t, ArrowSchema *, ArrowArray *,
                                      gpuhash_error *) nogil
    gpuhash_status gpuhash_index_take(gpuhash_index *, size_t, const int64_t *, ArrowSchema *, ArrowArray *,
                                      gpuhash_error *) nogil
    gpuhash_status gpuhash_index_merge(gpuhash_index *, gpuhash_index *, uint64_t, uint64_t, int64_t *,
                                       gpuhash_error *) nogil
    gpuhash_status gpuhash_index_counts(gpuhash_index *, uint64_t, uint64_t, int64_t *, gpuhash_error *) nogil
    gpuhash_status gpuhash_index_get_info(gpuhash_index *, gpuhash_index_info *, gpuhash_error *) nogil
    gpuhash_status gpuhash_rows_by_id(size_t, const int64_t *, uint64_t, int64_t *, int64_t *, gpuhash_error *) nogil
    gpuhash_status gpuhash_hash_rows(const ArrowSchema *, const ArrowArray *, uint32_t, uint64_t, uint32_t, uint64_t *,
                                     gpuhash_error *) nogil

    enum:
        GPUHASH_MOST_SHARDS

    ctypedef struct gpuhash_partition_request:
        size_t struct_size
        const ArrowSchema *type
        const ArrowArray *keys
        uint32_t shards
        uint32_t threads
        uint64_t seed
        const void *values
        size_t value_bytes
        int32_t *out_shards
        int64_t *out_offsets
        int64_t *out_order
        void *out_keys
        void *out_values

    gpuhash_status gpuhash_partition(const gpuhash_partition_request *, gpuhash_error *) nogil


cdef extern from *:
    """
    #ifndef ARROW_C_DEVICE_DATA_INTERFACE
    #define ARROW_C_DEVICE_DATA_INTERFACE
    struct ArrowDeviceArray {
      struct ArrowArray array;
      int64_t device_id;
      int32_t device_type;
      void *sync_event;
      int64_t reserved[3];
    };
    #endif
    """
    struct ArrowDeviceArray:
        ArrowArray array
        int64_t device_id
        int32_t device_type
        void *sync_event


cdef extern from *:
    """
    #ifndef ARROW_C_STREAM_INTERFACE
    #define ARROW_C_STREAM_INTERFACE
    struct ArrowArrayStream {
      int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *out);
      int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *out);
      const char *(*get_last_error)(struct ArrowArrayStream *);
      void (*release)(struct ArrowArrayStream *);
      void *private_data;
    };
    #endif
    """
    struct ArrowArrayStream:
        int (*get_schema)(ArrowArrayStream *, ArrowSchema *) noexcept nogil
        int (*get_next)(ArrowArrayStream *, ArrowArray *) noexcept nogil
        const char *(*get_last_error)(ArrowArrayStream *) noexcept nogil
        void (*release)(ArrowArrayStream *) noexcept nogil
        void *private_data
