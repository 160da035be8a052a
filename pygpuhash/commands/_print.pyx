# cython: language_level=3, boundscheck=False, wraparound=False, embedsignature=True, freethreading_compatible=True
"""Rows as lines of text. A column of text is (offsets of int64, bytes of uint8), with one more offset than rows."""
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy
from numpy cimport PyArray_BYTES, import_array, ndarray

import numpy

__all__ = ["digits", "joined", "json_strings", "quoted"]

import_array()

cdef struct part:
    const int64_t *offsets  # NULL: every row has the same bytes
    const char *data
    int64_t size


def joined(int64_t rows, tuple parts not None):
    """The bytes of rows, each the bytes of its parts: a column of text, or bytes that all rows have."""
    cdef int64_t total = 0, i, size
    cdef int n = len(parts), j
    cdef char *to
    cdef const char *of
    cdef part *p = <part *>malloc(sizeof(part) * (n + 1))
    if p == NULL:
        raise MemoryError()
    try:
        for j in range(n):
            if isinstance(parts[j], bytes):
                p[j].offsets, p[j].data, p[j].size = NULL, <const char *>parts[j], len(parts[j])
                total += p[j].size * rows
            else:
                offsets, data = parts[j]
                if offsets.dtype != numpy.int64 or offsets.size != rows + 1:
                    raise ValueError(f"part {j} has {offsets.size} offsets of {offsets.dtype} for {rows} rows")
                p[j].offsets = <const int64_t *>PyArray_BYTES(<ndarray?>offsets)
                p[j].data = PyArray_BYTES(<ndarray?>data)
                total += p[j].offsets[rows] - p[j].offsets[0]
        out = numpy.empty(total, numpy.uint8)
        to = PyArray_BYTES(<ndarray>out)
        with nogil:
            for i in range(rows):
                for j in range(n):
                    of, size = p[j].data, p[j].size
                    if p[j].offsets != NULL:
                        of += p[j].offsets[i]
                        size = p[j].offsets[i + 1] - p[j].offsets[i]
                    memcpy(to, of, size)
                    to += size
    finally:
        free(p)
    return out


def digits(ndarray numbers not None, int width):
    """Integers of int64 as text, with blanks before those that are shorter than `width`."""
    cdef int64_t n = numbers.size, i, at = 0
    cdef const int64_t *p = <const int64_t *>PyArray_BYTES(numbers)
    cdef uint64_t rest
    cdef char[24] text
    cdef int used
    offsets, data = numpy.empty(n + 1, numpy.int64), numpy.empty(n * max(width, 20), numpy.uint8)
    cdef int64_t *offset = <int64_t *>PyArray_BYTES(<ndarray>offsets)
    cdef char *to = PyArray_BYTES(<ndarray>data)
    offset[0] = 0
    with nogil:
        for i in range(n):
            rest = <uint64_t>p[i] if p[i] >= 0 else <uint64_t>0 - <uint64_t>p[i]
            used = 0
            while rest or used == 0:
                used += 1
                text[24 - used] = 48 + rest % 10
                rest //= 10
            if p[i] < 0:
                used += 1
                text[24 - used] = 45
            while used < width:
                used += 1
                text[24 - used] = 32
            memcpy(to + at, text + 24 - used, used)
            at += used
            offset[i + 1] = at
    return offsets, data[:at]


def quoted(ndarray offsets not None, ndarray data not None, uint8_t separator, bint alone):
    """Text as cells of CSV: in quotes, which are doubled inside, where a cell has a separator, a quote, CR or LF.

    alone : it is the only column, whose empty cells need quotes, too: an empty line is no row.
    """
    cdef int64_t n = offsets.size - 1, i, j, at = 0
    cdef const int64_t *p = <const int64_t *>PyArray_BYTES(offsets)
    cdef const uint8_t *d = <const uint8_t *>PyArray_BYTES(data)
    cdef uint8_t *to
    cdef bint plain = True
    with nogil:
        for j in range(p[0], p[n]):
            plain &= d[j] != 34 and d[j] != separator and d[j] != 10 and d[j] != 13
        if alone:
            for i in range(n):
                plain &= p[i] != p[i + 1]
    if plain:
        return offsets, data
    out, ends = numpy.empty(2 * (p[n] - p[0]) + 2 * n, numpy.uint8), numpy.empty(n + 1, numpy.int64)
    to = <uint8_t *>PyArray_BYTES(<ndarray>out)
    cdef int64_t *end = <int64_t *>PyArray_BYTES(<ndarray>ends)
    end[0] = 0
    with nogil:
        for i in range(n):
            plain = not alone or p[i] != p[i + 1]
            for j in range(p[i], p[i + 1]):
                plain &= d[j] != 34 and d[j] != separator and d[j] != 10 and d[j] != 13
            if not plain:
                to[at] = 34
                at += 1
            for j in range(p[i], p[i + 1]):
                to[at] = d[j]
                at += 1
                if d[j] == 34:
                    to[at] = 34
                    at += 1
            if not plain:
                to[at] = 34
                at += 1
            end[i + 1] = at
    return ends, out[:at]


def json_strings(ndarray offsets not None, ndarray data not None):
    """Text as strings of JSON, in quotes; UTF-8 stays as it is."""
    cdef int64_t n = offsets.size - 1, i, j, at = 0
    cdef const int64_t *p = <const int64_t *>PyArray_BYTES(offsets)
    cdef const uint8_t *d = <const uint8_t *>PyArray_BYTES(data)
    out, ends = numpy.empty(6 * (p[n] - p[0]) + 2 * n, numpy.uint8), numpy.empty(n + 1, numpy.int64)
    cdef uint8_t *to = <uint8_t *>PyArray_BYTES(<ndarray>out)
    cdef int64_t *end = <int64_t *>PyArray_BYTES(<ndarray>ends)
    end[0] = 0
    with nogil:
        for i in range(n):
            to[at] = 34
            at += 1
            for j in range(p[i], p[i + 1]):
                if d[j] == 34 or d[j] == 92:
                    to[at] = 92
                    to[at + 1] = d[j]
                    at += 2
                elif d[j] < 32:
                    memcpy(to + at, b"\\u00", 4)
                    to[at + 4] = b"0123456789abcdef"[d[j] >> 4]
                    to[at + 5] = b"0123456789abcdef"[d[j] & 15]
                    at += 6
                else:
                    to[at] = d[j]
                    at += 1
            to[at] = 34
            at += 1
            end[i + 1] = at
    return ends, out[:at]
