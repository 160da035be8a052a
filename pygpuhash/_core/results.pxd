# Arrays of results that have an element for each group.
from libc.stdint cimport int64_t, uintptr_t

from pygpuhash._core.device_arrays cimport Library


cdef class Maker:
    cdef Library library            # CuPy's or PyTorch's
    cdef object like
    cdef int device
    cdef int64_t n                  # elements of `like`, if it has one dimension; else -1

    cdef object vector(self, int64_t n, object dtype)


cdef class Results:
    cdef object empty, copy, temporaries
    cdef Maker maker                # `empty`, if it is one
    cdef size_t n, end, copied      # rows; bytes of temporaries and of what lies behind them; elements that are copied
    cdef uintptr_t stream
    cdef list dtypes, arrays, starts

    cdef int begin(self, object empty, size_t n, size_t nbytes, uintptr_t stream, bint waits, object copy) except -1
    cdef object vector(self, size_t n, object dtype)
    cdef int add(self, object dtype) except -1
    cdef uintptr_t scratch(self) except? 1
    cdef uintptr_t address(self, int i) except? 1
    cdef object copy_of(self, int i, size_t n)
    cdef object give(self, int i, size_t groups)
    cdef int note(self, size_t groups) except -1


cdef Maker maker_of(Library library, object array, int ordinal, int64_t n)
cdef uintptr_t address_of(object array) except? 1
