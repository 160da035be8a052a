# cython: language_level=3, boundscheck=False, wraparound=False, embedsignature=True, freethreading_compatible=True
"""Aggregates of the values of each group: one pass over rows, each of which has the number of its group, -1 for none.

Numbers are float64, int64 or uint64, to which others are widened first. Times are int64, of which NAT is none.
"""
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int64_t, uint64_t
from numpy cimport PyArray_DATA, import_array, ndarray as Array

import numpy

import_array()

__all__ = ["counts", "extremes", "piece", "sums"]

cdef int64_t PIECE = 1 << 22  # rows between two looks at signals
cdef int64_t NAT = -0x7fffffffffffffff - 1

cdef fused number:
    int64_t
    uint64_t
    double


def piece(int64_t rows=0):
    """Rows per piece; a number above 0 changes it, for tests. Returns what it was."""
    global PIECE
    was = PIECE
    if rows:
        PIECE = rows
    return was


# ---- loops over rows -------------------------------------------------------------------------------------------------

cdef void add(const int64_t *groups, const number *p, int64_t n, bint times, number *to) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        if groups[i] < 0:
            continue
        if number is int64_t:
            if not (times and p[i] == NAT):
                to[groups[i]] = <int64_t>(<uint64_t>to[groups[i]] + <uint64_t>p[i])  # which may wrap
        else:
            to[groups[i]] += p[i]


cdef void add_one(const int64_t *groups, int64_t n, int64_t *to) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        if groups[i] >= 0:
            to[groups[i]] += 1


cdef void extend(
    const int64_t *groups, const number *p, int64_t n, bint largest, bint times, bint *begun, number *to
) noexcept nogil:
    """A NaN, or NaT, stays where a group has nothing else."""
    cdef int64_t i, g
    cdef number old
    for i in range(n):
        g = groups[i]
        if g < 0:
            continue
        old = to[g]
        if not begun[g] or old != old:
            begun[g] = True
            to[g] = p[i]
            continue
        if number is int64_t:
            if times and (old == NAT or p[i] == NAT):
                to[g] = p[i] if old == NAT else old
                continue
        if p[i] > old if largest else p[i] < old:
            to[g] = p[i]


# ---- arrays ----------------------------------------------------------------------------------------------------------

cdef int check(Array groups, Array values) except -1:
    own, given = <object>groups, <object>values
    if own.dtype != numpy.int64 or own.shape != given.shape or own.ndim != 1:
        raise ValueError(f"groups are {own.dtype} of shape {own.shape}, values of shape {given.shape}")
    if not own.flags.c_contiguous or not given.flags.c_contiguous:
        raise ValueError("groups and values are not contiguous")
    return 0


def counts(Array groups not None, int64_t number_of_groups):
    """How many rows each group has: int64."""
    check(groups, groups)
    cdef Array out = numpy.zeros(number_of_groups, numpy.int64)
    cdef const int64_t *g = <const int64_t *>PyArray_DATA(groups)
    cdef int64_t *to = <int64_t *>PyArray_DATA(out)
    cdef int64_t n = (<object>groups).size, at = 0
    while at < n:
        with nogil:
            add_one(g + at, min(PIECE, n - at), to)
        at += PIECE
        PyErr_CheckSignals()
    return out


def sums(Array groups not None, int64_t number_of_groups, Array values not None, bint times=False):
    """The sum of each group, in the dtype of the values; integers wrap. times: NaTs are left out."""
    check(groups, values)
    cdef object dtype = (<object>values).dtype
    cdef Array out = numpy.zeros(number_of_groups, dtype)
    cdef const int64_t *g = <const int64_t *>PyArray_DATA(groups)
    cdef char *p = <char *>PyArray_DATA(values)
    cdef void *to = PyArray_DATA(out)
    cdef int64_t n = (<object>groups).size, at = 0, most
    cdef int kind = kind_of(dtype)
    while at < n:
        most = min(PIECE, n - at)
        with nogil:
            if kind == b"f":
                add(g + at, <const double *>p + at, most, False, <double *>to)
            elif kind == b"u":
                add(g + at, <const uint64_t *>p + at, most, False, <uint64_t *>to)
            else:
                add(g + at, <const int64_t *>p + at, most, times, <int64_t *>to)
        at += PIECE
        PyErr_CheckSignals()
    return out


def extremes(Array groups not None, int64_t number_of_groups, Array values not None, bint largest, bint times=False):
    """The largest or smallest value of each group, in the dtype of the values; 0 of a group without a row.

    NaNs, and with `times` NaTs, are left out, unless a group has nothing else.
    """
    check(groups, values)
    cdef object dtype = (<object>values).dtype
    cdef Array out = numpy.zeros(number_of_groups, dtype), seen = numpy.zeros(number_of_groups, numpy.int32)
    cdef const int64_t *g = <const int64_t *>PyArray_DATA(groups)
    cdef char *p = <char *>PyArray_DATA(values)
    cdef void *to = PyArray_DATA(out)
    cdef bint *begun = <bint *>PyArray_DATA(seen)
    cdef int64_t n = (<object>groups).size, at = 0, most
    cdef int kind = kind_of(dtype)
    while at < n:
        most = min(PIECE, n - at)
        with nogil:
            if kind == b"f":
                extend(g + at, <const double *>p + at, most, largest, False, begun, <double *>to)
            elif kind == b"u":
                extend(g + at, <const uint64_t *>p + at, most, largest, False, begun, <uint64_t *>to)
            else:
                extend(g + at, <const int64_t *>p + at, most, largest, times, begun, <int64_t *>to)
        at += PIECE
        PyErr_CheckSignals()
    return out


cdef int kind_of(object dtype) except -1:
    if dtype.itemsize != 8 or dtype.kind not in "fiu":
        raise ValueError(f"values are {dtype}: pass float64, int64 or uint64")
    return ord(dtype.kind)
