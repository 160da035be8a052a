# Device arrays that can be passed on as they are, and streams.
from libc.stdint cimport int32_t, int64_t, uintptr_t

from pygpuhash._core.dlpack cimport *

cdef enum:
    MOST_DIMENSIONS = 8
    ON_CUDA = 2                     # DLPack's numbers: the device,
    CODE_OF_BOOL = 6 << 8 | 8       # and dtypes, as the code and the bits
    CODE_OF_UINT8 = 1 << 8 | 8
    CODE_OF_INT64 = 0 << 8 | 64
    CODE_OF_INT32 = 0 << 8 | 32

cdef enum Way:
    EXCHANGE, CUPY, OWN

cdef struct Seen:
    char *at
    int32_t device
    int dimensions
    int64_t shape[MOST_DIMENSIONS]


cdef class Library:
    cdef Way way
    cdef gh_dl_exchange *exchange
    cdef object stream_of           # CuPy's current stream on a device
    cdef object current_device      # of CuPy and PyTorch
    cdef object make                # CuPy: a new array of a shape and a dtype; PyTorch: one like another, of a dtype
    cdef object module              # PyTorch: where its dtypes are
    cdef dict dtypes                # of PyTorch, by numpy's
    cdef bint writable              # its arrays may be written to
    cdef bint says_contiguous       # CuPy: has the attribute behind `flags`, whose object takes longer to make

    cdef bint current_stream(self, int32_t device, uintptr_t *stream) except -1
    cdef bint look(self, object array, object dtype, int code, uintptr_t stream, Seen *seen) except -1
    cdef object like(self, object array, object dtype, int32_t device)
    cdef object own_dtype(self, object dtype)
    cdef object filled(self, object array, object number, object dtype, int32_t device)


cdef uintptr_t handle_of(object stream) except? 1
cdef Library library_of(object kind)
cdef bint same_size(Seen *a, Seen *b) noexcept
cdef size_t elements(Seen *a) noexcept
cdef int dlpack_code(object dtype)
