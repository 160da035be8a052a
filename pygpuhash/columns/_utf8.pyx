# cython: language_level=3, boundscheck=False, wraparound=False, embedsignature=True, freethreading_compatible=True
"""Text and bytes of numpy and Python, as Arrow has them: (offsets, bytes), text in UTF-8."""
from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy
from numpy cimport PyArray_BYTES, import_array, ndarray

from pygpuhash.columns._buffers cimport mask_of, over_memory
from pygpuhash.columns.list_item cimport item

cdef extern from "Python.h":
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL
    int PyBytes_AsStringAndSize(object data, char **at, Py_ssize_t *size) except -1

import numpy

__all__ = ["from_fixed_text", "texts"]

import_array()

cdef object empty = numpy.empty
cdef object INT64 = numpy.dtype("i8")
cdef object UINT8 = numpy.dtype("u1")


cdef class Bytes:
    """Memory that grows, and becomes a numpy array."""
    cdef char *at
    cdef int64_t size, room

    def __dealloc__(self):
        free(self.at)

    cdef char *more(self, int64_t n) except NULL:
        """Room for n bytes at the end, which count as written."""
        cdef int64_t room = self.room
        cdef char *moved
        if self.at == NULL or self.size + n > room:
            room = max(2 * room, self.size + n, 64)
            moved = <char *>realloc(self.at, room)
            if moved == NULL:
                raise MemoryError()
            self.at = moved
            self.room = room
        self.size += n
        return self.at + self.size - n

    cdef object whole(self):
        return over_memory(self.at, self.size, self) if self.size else numpy.zeros(1, UINT8)


def from_fixed_text(ndarray given not None, str what not None):
    """(offsets, bytes) of a contiguous array of kind U or S: elements without trailing NULs, text in UTF-8."""
    cdef bint text = given.dtype.kind == "U"
    cdef int64_t n = given.size, i, j, width = given.dtype.itemsize // (4 if text else 1)
    cdef const char *cells = PyArray_BYTES(given)
    cdef const uint32_t *letters
    cdef uint32_t code
    cdef int64_t used
    cdef uint8_t *out
    cdef Bytes data = Bytes()
    offsets = empty(n + 1, INT64)
    cdef int64_t *offset = <int64_t *>PyArray_BYTES(<ndarray>offsets)
    offset[0] = 0
    for i in range(n):
        used = width
        if not text:
            while used and cells[i * width + used - 1] == 0:
                used -= 1
            memcpy(data.more(used), cells + i * width, used)
        else:
            letters = <const uint32_t *>cells + i * width
            while used and letters[used - 1] == 0:
                used -= 1
            out = <uint8_t *>data.more(4 * used)
            data.size -= 4 * used
            for j in range(used):
                code = letters[j]
                if code < 0x80:
                    out[0] = <uint8_t>code
                    out += 1
                elif code < 0x800:
                    out[0] = <uint8_t>(0xC0 | code >> 6)
                    out[1] = <uint8_t>(0x80 | code & 0x3F)
                    out += 2
                elif code < 0x10000:
                    if 0xD800 <= code < 0xE000:
                        raise surrogate(what, i)
                    out[0] = <uint8_t>(0xE0 | code >> 12)
                    out[1] = <uint8_t>(0x80 | code >> 6 & 0x3F)
                    out[2] = <uint8_t>(0x80 | code & 0x3F)
                    out += 3
                elif code < 0x110000:
                    out[0] = <uint8_t>(0xF0 | code >> 18)
                    out[1] = <uint8_t>(0x80 | code >> 12 & 0x3F)
                    out[2] = <uint8_t>(0x80 | code >> 6 & 0x3F)
                    out[3] = <uint8_t>(0x80 | code & 0x3F)
                    out += 4
                else:
                    raise TypeError(f"{what}[{i}] has the code {code:#x}, which is no character: pass text, or numbers")
            data.size = <char *>out - data.at
        offset[i + 1] = data.size
    return offsets, data.whole()


def texts(list values not None, nulls, str what not None):
    """(offsets, bytes) of text, in UTF-8, or of bytes."""
    cdef int64_t n = len(values), i
    cdef Py_ssize_t size = 0
    cdef const char *cell
    cdef uint8_t *null = mask_of(nulls)
    cdef Bytes data = Bytes()
    offsets = empty(n + 1, INT64)
    cdef int64_t *offset = <int64_t *>PyArray_BYTES(<ndarray>offsets)
    offset[0] = 0
    for i in range(n):
        if null == NULL or not null[i]:
            x = item(values, i)
            if isinstance(x, str):
                try:
                    cell = PyUnicode_AsUTF8AndSize(x, &size)
                except UnicodeEncodeError:
                    raise surrogate(what, i) from None
            else:
                PyBytes_AsStringAndSize(x, <char **>&cell, &size)
            memcpy(data.more(size), cell, size)
        offset[i + 1] = data.size
    return offsets, data.whole()


cdef object surrogate(str what, int64_t i):
    return TypeError(
        f"{what}[{i}] has a lone surrogate, which UTF-8 lacks: pass bytes, "
        f"[x.encode('utf-8', 'surrogatepass') for x in {what}]"
    )
