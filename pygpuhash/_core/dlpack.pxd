# DLPack's structs, and the table of C functions that libraries of arrays offer for them.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

cdef extern from *:
    """
    typedef struct { int32_t type, id; } gh_dl_device;
    typedef struct { uint8_t code, bits; uint16_t lanes; } gh_dl_dtype;
    typedef struct {
      void *data; gh_dl_device device; int32_t ndim; gh_dl_dtype dtype; int64_t *shape, *strides; uint64_t byte_offset;
    } gh_dl_tensor;
    typedef struct gh_dl_managed {
      gh_dl_tensor tensor; void *context; void (*deleter)(struct gh_dl_managed *);
    } gh_dl_managed;
    static void gh_dl_delete(gh_dl_managed *m) { if (m->deleter) m->deleter(m); }
    typedef struct gh_dl_exchange {
      uint32_t major, minor;
      struct gh_dl_exchange *older;
      void *allocate, *export_array, *import_array;
      int (*describe)(void *array, gh_dl_tensor *out);
      int (*current_stream)(int32_t device_type, int32_t device, void **out);
    } gh_dl_exchange;
    """
    ctypedef struct gh_dl_device:
        int32_t type
        int32_t id
    ctypedef struct gh_dl_dtype:
        uint8_t code
        uint8_t bits
        uint16_t lanes
    ctypedef struct gh_dl_tensor:
        void *data
        gh_dl_device device
        int32_t ndim
        gh_dl_dtype dtype
        int64_t *shape
        int64_t *strides
        uint64_t byte_offset
    ctypedef struct gh_dl_managed:
        gh_dl_tensor tensor
        void *context
        void (*deleter)(gh_dl_managed *) noexcept nogil
    void gh_dl_delete(gh_dl_managed *m)
    ctypedef struct gh_dl_exchange:
        uint32_t major
        int (*describe)(void *array, gh_dl_tensor *out)
        int (*current_stream)(int32_t device_type, int32_t device, void **out)
