# cython: language_level=3, boundscheck=False, wraparound=False, embedsignature=True, freethreading_compatible=True
"""Words and lines of a block of bytes, as the views of Arrow's layout "vz": no byte of a long one is copied.

A view has 16 bytes: the length, and up to 12 bytes, or the first four, the number of the buffer and the offset in it.
"""
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memchr, memcpy, memset
from numpy cimport PyArray_BYTES, import_array, ndarray

import sys

import numpy

__all__ = ["LONGEST", "lines", "rows", "words"]

import_array()

cdef extern from *:
    int __builtin_ctzll(unsigned long long) nogil
    int __builtin_popcountll(unsigned long long) nogil

assert sys.byteorder == "little"

LONGEST = (1 << 31) - 1  # bytes of a block, so that offsets fit into views

cdef struct view:
    uint64_t low  # length, first four bytes
    uint64_t high

# What stays of the four and the eight bytes at an element of each length up to 12.
cdef uint64_t[13] FIRST
cdef uint64_t[13] REST
cdef int n_
for n_ in range(13):
    FIRST[n_] = (<uint64_t>1 << 8 * min(n_, 4)) - 1
    REST[n_] = 0 if n_ <= 4 else ~<uint64_t>0 >> 8 * (12 - n_)


cdef inline void put(view *to, const char *block, int64_t begin, int64_t end, int64_t size) noexcept nogil:
    """The view of block[begin:end], of a block of this size."""
    cdef int64_t length = end - begin
    cdef uint32_t head = 0
    cdef uint64_t rest = 0
    cdef char[16] cell
    if length > 12:
        memcpy(&head, block + begin, 4)
        to.low = <uint64_t>length | <uint64_t>head << 32
        to.high = <uint64_t>begin << 32
    elif begin + 12 <= size:
        memcpy(&head, block + begin, 4)
        memcpy(&rest, block + begin + 4, 8)
        to.low = <uint64_t>length | (<uint64_t>head & FIRST[length]) << 32
        to.high = rest & REST[length]
    else:
        memset(cell, 0, 16)
        memcpy(cell + 4, block + begin, length)
        memcpy(to, cell, 16)
        to.low |= <uint64_t>length


cdef inline uint64_t white(const uint8_t *p) noexcept nogil:
    """A bit for each of 64 bytes that is white space in the C locale: blank, \\t, \\n, \\v, \\f, \\r."""
    cdef uint8_t[64] flag
    cdef uint64_t eight, bits = 0
    cdef int i
    for i in range(64):
        flag[i] = (p[i] == 32) | (<uint8_t>(p[i] - 9) < 5)
    for i in range(8):
        memcpy(&eight, flag + 8 * i, 8)
        bits |= ((eight * <uint64_t>0x0102040810204080) >> 56) << 8 * i
    return bits


cdef inline uint64_t white_at(const uint8_t *p, int64_t at, int64_t size) noexcept nogil:
    """The same of the bytes from `at` on; those beyond the block are white."""
    cdef uint8_t[64] tail
    if at + 64 <= size:
        return white(p + at)
    memset(tail, 32, 64)
    memcpy(tail, p + at, size - at)
    return white(tail)


cdef int64_t split_words(const char *block, int64_t size, view *out, int64_t *last) noexcept nogil:
    """Views of the words; with NULL they are counted. last: where the last one begins."""
    cdef const uint8_t *p = <const uint8_t *>block
    cdef int64_t at = 0, count = 0, begin = 0
    cdef uint64_t bits, edges, before = 1
    cdef bint inside = False
    while at < size:
        bits = white_at(p, at, size)
        edges = bits ^ (bits << 1 | before)
        before = bits >> 63
        if out == NULL:
            count += __builtin_popcountll(edges & ~bits)
            at += 64
            continue
        while edges:
            if inside:
                put(out + count, block, begin, at + __builtin_ctzll(edges), size)
                count += 1
            else:
                begin = at + __builtin_ctzll(edges)
            inside = not inside
            edges &= edges - 1
        at += 64
    if out != NULL:
        if inside:
            put(out + count, block, begin, size, size)
            count += 1
        last[0] = begin
    return count


def words(ndarray block not None, int64_t size, bint whole):
    """(views, bytes that were used) of the runs of bytes that are not white space in block[:size].

    whole : the text ends here; else a word that touches the end is left for the next block.
    """
    cdef const char *p = PyArray_BYTES(block)
    cdef int64_t count, last = 0
    cdef view *to
    checked(block, size)
    with nogil:
        count = split_words(p, size, NULL, &last)
    views = numpy.empty((count, 2), numpy.uint64)
    if count == 0:
        return views, size
    to = <view *>PyArray_BYTES(<ndarray>views)
    with nogil:
        split_words(p, size, to, &last)
    if whole or last + <int64_t>(to[count - 1].low & <uint64_t>0xffffffff) < size:
        return views, size
    return views[:count - 1], last


def lines(ndarray block not None, int64_t size, bint whole):
    """(views, bytes that were used) of the lines of block[:size], without their newlines.

    whole : the text ends here, and what follows the last newline is a line, unless it is empty.
    """
    cdef const char *p = PyArray_BYTES(block)
    cdef const char *found
    cdef int64_t count = 0, begin = 0, i
    cdef view *to
    checked(block, size)
    cdef int64_t most = 1
    with nogil:
        for i in range(size):
            most += p[i] == 10
    views = numpy.empty((most, 2), numpy.uint64)
    to = <view *>PyArray_BYTES(<ndarray>views)
    with nogil:
        while begin < size:
            found = <const char *>memchr(p + begin, 10, size - begin)
            if found == NULL:
                break
            put(to + count, p, begin, found - p, size)
            count += 1
            begin = found - p + 1
        if whole and begin < size:
            put(to + count, p, begin, size, size)
            count += 1
            begin = size
    return views[:count], begin


def rows(ndarray block not None, int64_t size, bint whole, int separator):
    """(rows of CSV that end in block[:size], bytes that they have), as pyarrow's parser and Python's see them.

    A quote begins a quoted cell only where a cell begins, and there two of them are one. whole : the text ends here.
    """
    cdef const uint8_t *p = <const uint8_t *>PyArray_BYTES(block)
    cdef int64_t i = 0, used = 0, count = 0
    cdef uint8_t letter
    cdef bint quoted = False, begins = True
    checked(block, size)
    with nogil:
        if memchr(p, 34, size) == NULL and memchr(p, 13, size) == NULL:
            for i in range(size):
                count += p[i] == 10
            used = size
            while used > 0 and p[used - 1] != 10:
                used -= 1
            i = size
        while i < size:
            letter = p[i]
            if quoted:
                if letter == 34:
                    if i + 1 == size and not whole:
                        break  # the first of two?
                    if i + 1 < size and p[i + 1] == 34:
                        i += 1
                    else:
                        quoted = False
                i += 1
                continue
            if letter == 34 and begins:
                quoted, begins = True, False
            elif letter == 10 or letter == 13:
                if letter == 13 and i + 1 == size and not whole:
                    break  # the first of CR LF?
                if letter == 13 and i + 1 < size and p[i + 1] == 10:
                    i += 1
                used, begins = i + 1, True
                count += 1
            else:
                begins = letter == separator
            i += 1
        if whole and used < size:
            count += 1
            used = size
    return count, used


cdef int checked(object block, int64_t size) except -1:
    if block.dtype != numpy.uint8 or block.ndim != 1 or not block.flags.c_contiguous or not 0 <= size <= block.size:
        raise ValueError(f"the block is {block.dtype} of shape {block.shape}: pass uint8 of at least {size} elements")
    if size > LONGEST:
        raise ValueError(f"a block has {LONGEST} bytes at most, not {size}")
    return 0
