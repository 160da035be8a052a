# Statuses of the library as exceptions. `device`: the number of the one whose driver has refused memory, or -1.
from pygpuhash.gpuhash cimport GPUHASH_OK, gpuhash_error, gpuhash_status

cdef object exception(gpuhash_status status, gpuhash_error *err, int device=*)
cdef object batch_exception(gpuhash_status status, gpuhash_error *err, int device=*)
cdef int check(gpuhash_status status, gpuhash_error *err, int device=*) except -1
cdef str text(const char *s)
cdef bytes encode(str s, str what)


cdef inline void start_error(gpuhash_error *err) noexcept nogil:
    err.struct_size = sizeof(gpuhash_error)
    err.code = GPUHASH_OK
    err.message[0] = 0
