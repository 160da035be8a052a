# Single numbers: the short path of t[5] and of t.insert(keys, 1).
#
# The short path of t[5] and of t.insert(keys, 1): a Python number, or a numpy scalar of the very dtype, that the dtype
# holds as it is becomes its bytes. Everything else goes through `_arrays.to_store`, which also finds the words for what
# does not fit.
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_AsUnsignedLongLong
from libc.math cimport isinf
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from numpy cimport PyArray_ScalarAsCtype


cdef enum Plain:
    NOT_PLAIN, U4, U8, I4, I8, F4, F8


cdef inline bint read_integer(object given, int kind, void *cell) except -1:
    cdef int overflow = 0
    cdef long long i = PyLong_AsLongLongAndOverflow(given, &overflow)
    if overflow:
        if overflow < 0 or kind != U8:
            return False
        try:
            (<uint64_t *>cell)[0] = PyLong_AsUnsignedLongLong(given)
        except OverflowError:
            return False
        return True
    if kind == I8:
        (<int64_t *>cell)[0] = i
        return True
    if kind == U8:
        (<uint64_t *>cell)[0] = <uint64_t>i
        return i >= 0
    if kind == I4:
        (<int32_t *>cell)[0] = <int32_t>i
        return -2147483648 <= i <= 2147483647
    if kind == U4:
        (<uint32_t *>cell)[0] = <uint32_t>i
        return 0 <= i <= 4294967295
    if kind == F4:
        (<float *>cell)[0] = <float>i
        return -(1 << 24) <= i <= 1 << 24
    (<double *>cell)[0] = <double>i
    return -(1LL << 53) <= i <= 1LL << 53


cdef inline bint read_float(object given, int kind, void *cell) except -1:
    cdef double f
    if kind != F4 and kind != F8:
        return False
    f = given
    if kind == F8:
        (<double *>cell)[0] = f
        return True
    (<float *>cell)[0] = <float>f
    return isinf(f) or not isinf(<double>(<float *>cell)[0])


cdef inline bint read_number(object given, int kind, object scalar_type, void *cell) except -1:
    """Is this a number that an element holds? Then its bytes are in the cell, which has room for 8."""
    cdef object t = type(given)
    if kind == NOT_PLAIN:
        return False
    if t is int:
        return read_integer(given, kind, cell)
    if t is float:
        return read_float(given, kind, cell)
    if t is scalar_type:
        PyArray_ScalarAsCtype(given, cell)
        return True
    return False


cdef inline void fill(char *p, size_t n, size_t bytes_each, const void *cell) noexcept nogil:
    cdef size_t i
    if bytes_each == 8:
        for i in range(n):
            (<uint64_t *>p)[i] = (<const uint64_t *>cell)[0]
    else:
        for i in range(n):
            (<uint32_t *>p)[i] = (<const uint32_t *>cell)[0]
