# cython: language_level=3, boundscheck=False, wraparound=False, embedsignature=True, freethreading_compatible=True
"""numpy's arrays for the library: which are passed on as they are, where they lie, which overlap.

What else is an acceptable array is decided in `_arrays.py`.
"""
from cpython.buffer cimport PyBUF_C_CONTIGUOUS, Py_buffer, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from numpy cimport (
    NPY_ARRAY_ALIGNED, NPY_ARRAY_C_CONTIGUOUS, NPY_ARRAY_WRITEABLE, PyArray_BYTES, PyArray_CHKFLAGS, PyArray_DESCR,
    PyArray_DIM, PyArray_DIMS, PyArray_EMPTY, PyArray_ITEMSIZE, PyArray_NBYTES, PyArray_NDIM, PyArray_SIZE,
    import_array, ndarray as Array, npy_intp
)

from pygpuhash.gpuhash cimport GPUHASH_OP_ACCUMULATE, GPUHASH_OP_ERASE

import numpy

from pygpuhash import _arrays, errors

__all__ = ["check_ops", "refuse_overlaps"]

cdef object ndarray = numpy.ndarray
cdef object BOOL = numpy.dtype(bool)
cdef object TRUE = numpy.True_

import_array()


cdef char *address(object array, int flags) except? NULL:
    """Where a C-contiguous array lies. The caller holds the array, so the memory outlives the buffer."""
    cdef Py_buffer view
    PyObject_GetBuffer(array, &view, PyBUF_C_CONTIGUOUS | flags)
    cdef char *p = <char *>view.buf
    PyBuffer_Release(&view)
    return p


def check_ops(ops, bint accumulates):
    """Refuse op codes that execute does not have, in a C-contiguous uint8 array, before anything is touched."""
    cdef size_t n = ops.size, i
    cdef const uint8_t *p = <const uint8_t *>address(ops, 0)
    cdef uint8_t most = GPUHASH_OP_ERASE
    cdef uint8_t bad = 0
    with nogil:
        for i in range(n):
            bad |= (p[i] > most) | ((p[i] == GPUHASH_OP_ACCUMULATE) & (not accumulates))
    if not bad:
        return
    for i in range(n):
        if p[i] > most:
            raise errors.InvalidArgument(f"ops[{i}] is {p[i]}, which execute does not have: use the codes of "
                                         "pygpuhash.Op from NOP (0) to ERASE (5)")
        if p[i] == GPUHASH_OP_ACCUMULATE and not accumulates:
            raise errors.InvalidArgument(f"ops[{i}] is ACCUMULATE (3), but this table is a set "
                                         "(value_dtype=None), or its values are no single numbers")


cdef bint plain(object array, object dtype) noexcept:
    """Can this be passed on as it is: a numpy array of this very dtype, C-contiguous and aligned?"""
    return (
        type(array) is ndarray
        and <void *>PyArray_DESCR(<Array>array) == <void *>dtype
        and PyArray_CHKFLAGS(<Array>array, NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED)
    )


cdef bint plain_but_for_sign(object array, object twin) noexcept:
    """Can an array of the dtype's twin, signed or unsigned, be passed on, as all its numbers mean the same in both?"""
    cdef const char *p
    cdef uint64_t seen = 0
    cdef npy_intp i, n
    if twin is None or not plain(array, twin):
        return False
    p = PyArray_BYTES(<Array>array)
    n = PyArray_SIZE(<Array>array)
    if PyArray_ITEMSIZE(<Array>array) == 8:
        with nogil:
            for i in range(n):
                seen |= (<const uint64_t *>p)[i]
        return seen >> 63 == 0
    with nogil:
        for i in range(n):
            seen |= (<const uint32_t *>p)[i]
    return seen >> 31 == 0


cdef bint all_true(object mask) noexcept:
    """Is this a mask of ours in host memory, and true everywhere?"""
    cdef const uint8_t *p
    cdef npy_intp i
    cdef uint8_t all_of_them = 1
    if mask is TRUE:
        return True
    if not plain(mask, BOOL):
        return False
    p = <const uint8_t *>PyArray_BYTES(<Array>mask)
    for i in range(PyArray_SIZE(<Array>mask)):
        all_of_them &= p[i]
    return all_of_them


cdef bint same_shape(Array a, Array b) noexcept:
    cdef int i
    if PyArray_NDIM(a) != PyArray_NDIM(b):
        return False
    for i in range(PyArray_NDIM(a)):
        if PyArray_DIM(a, i) != PyArray_DIM(b, i):
            return False
    return True


cdef Array output(object given, object dtype, Array keys, str what):
    """The memory that results are written to, or an error that says what is wrong with it."""
    if plain(given, dtype) and PyArray_CHKFLAGS(<Array>given, NPY_ARRAY_WRITEABLE) and same_shape(<Array>given, keys):
        return <Array>given
    return _arrays.output(given, dtype, (<object>keys).shape, what)


cdef Array empty_like(Array like, object dtype):
    """An array of this shape. Of void dtypes, numpy's number does not tell the size."""
    if dtype.kind == "V":
        return numpy.empty((<object>like).shape, dtype)
    return PyArray_EMPTY(PyArray_NDIM(like), PyArray_DIMS(like), dtype.num, 0)


cdef int refuse_overlap(Array out, str what, Array other, str other_what) except -1:
    """Refuse an output that overlaps another array of the call. Both are C-contiguous, or None."""
    cdef char *a
    cdef char *b
    if out is None or other is None:
        return 0
    a = PyArray_BYTES(out)
    b = PyArray_BYTES(other)
    if a < b + PyArray_NBYTES(other) and b < a + PyArray_NBYTES(out):
        raise errors.InvalidArgument(f"{what} overlaps {other_what}: pass an array of its own")
    return 0


def refuse_overlaps(tuple inputs, tuple outputs):
    """Refuse outputs (out, mask) that overlap inputs (keys, values, ops). All are C-contiguous; any may be None."""
    for given, what in zip(outputs, ("out", "the mask")):
        for other, other_what in zip(inputs, ("keys", "values", "ops")):
            refuse_overlap(given, what, other, other_what)
    refuse_overlap(outputs[1], "the mask", outputs[0], "out")
