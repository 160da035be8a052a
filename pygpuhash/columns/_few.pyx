# cython: language_level=3, boundscheck=False, wraparound=False, embedsignature=True, freethreading_compatible=True
"""Verbs on integers of which few are distinct: one small table of slots, which stays in the processor's cache.

A slot has a key, its number by first appearance, from 1 on, and its count. All functions give None where more than a
fourth of the slots would be used, or where many keys want the same slots. Arrays are one-dimensional, contiguous, of
native integers of 4 or 8 bytes. piece: elements between two looks at signals.
"""
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int64_t, uint32_t, uint64_t
from numpy cimport PyArray_DATA, import_array, ndarray as Array

import numpy

import_array()

__all__ = ["factorize", "unique", "value_counts"]

cdef object INT64 = numpy.dtype("i8")
cdef object SLOT = numpy.dtype("u8,u4,u4")

cdef enum:
    PIECE = 1 << 22  # elements between two looks at signals
cdef uint64_t FACTOR = <uint64_t>0x9e3779b97f4a7c15  # 2^64 by the golden ratio: Fibonacci hashing

cdef struct slot:
    uint64_t key
    uint32_t number, count

cdef fused cell:
    uint32_t
    uint64_t


cdef int64_t number(
    const cell *p, int64_t n, slot *slots, int bits, uint32_t *places, int64_t known, int64_t *codes
) noexcept nogil:
    """Number and count the keys; places[number - 1]: the slot. Returns how many there are; -1: too many.

    codes : NULL, or the number of each element, less 1.
    """
    cdef int64_t i, left = 2 * n + 1024  # slots that may be passed by
    cdef uint64_t key, at, mask = (<uint64_t>1 << bits) - 1
    cdef int64_t most = <int64_t>(mask >> 2)
    for i in range(n):
        key = p[i]
        at = key * FACTOR >> (64 - bits)
        while slots[at].key != key or slots[at].number == 0:
            if slots[at].number == 0:
                if known == most:
                    return -1
                slots[at].key = key
                places[known] = <uint32_t>at
                known += 1
                slots[at].number = <uint32_t>known
                break
            at = (at + 1) & mask
            left -= 1
            if left < 0:
                return -1
        slots[at].count += 1
        if codes != NULL:
            codes[i] = <int64_t>slots[at].number - 1
    return known


cdef tuple numbered(Array column, int bits, Array codes, int64_t piece):
    """(slots, the slots of the keys in the order of their first appearance), or None."""
    cdef object given = <object>column
    cdef int64_t n = given.size, start = 0, some, known = 0
    cdef bint wide = given.itemsize == 8
    cdef const char *data = <const char *>PyArray_DATA(column)
    cdef int64_t *to = NULL
    if not 3 <= bits <= 20 or n >= <int64_t>1 << 32:
        return None
    slots, places = numpy.zeros(1 << bits, SLOT), numpy.empty(1 << bits, numpy.uint32)
    cdef slot *p = <slot *>PyArray_DATA(<Array>slots)
    cdef uint32_t *found = <uint32_t *>PyArray_DATA(<Array>places)
    if codes is not None:
        to = <int64_t *>PyArray_DATA(codes)
    while start < n:
        some = min(piece, n - start)
        with nogil:
            if wide:
                known = number(<const uint64_t *>data + start, some, p, bits, found, known, to)
            else:
                known = number(<const uint32_t *>data + start, some, p, bits, found, known, to)
        if known < 0:
            return None
        PyErr_CheckSignals()
        start += some
        if to != NULL:
            to += some
    return slots, places[:known]


cdef object keys_of(tuple found, object dtype):
    slots, places = found
    return slots["f0"][places].astype(f"u{dtype.itemsize}", copy=False).view(dtype)


def unique(Array column not None, int bits, int64_t piece=PIECE):
    """The distinct integers in the order of their first appearance, with 2^bits slots."""
    found = numbered(column, bits, None, piece)
    return None if found is None else keys_of(found, (<object>column).dtype)


def value_counts(Array column not None, int bits, int64_t piece=PIECE):
    """(distinct integers in the order of their first appearance, how often each occurs)."""
    found = numbered(column, bits, None, piece)
    if found is None:
        return None
    return keys_of(found, (<object>column).dtype), found[0]["f2"][found[1]].astype(INT64)


def factorize(Array column not None, int bits, int64_t piece=PIECE):
    """(codes, distinct integers in the order of their first appearance)."""
    codes = numpy.empty((<object>column).size, INT64)
    found = numbered(column, bits, codes, piece)
    return None if found is None else (codes, keys_of(found, (<object>column).dtype))
