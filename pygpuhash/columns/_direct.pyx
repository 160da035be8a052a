# cython: language_level=3, boundscheck=False, wraparound=False, embedsignature=True, freethreading_compatible=True
"""Verbs on dense integers: a table with one place for each integer from the smallest to the largest, and no hashing.

A column is dense if its range is at most a small multiple of its length; all functions give None for others, and for
empty ones. Memory: up to `VALUES` numbers of 4 bytes, or `BITS` bits, for each element. Arrays are one-dimensional,
contiguous, of native integers.

Integers are read as unsigned ones of their width, less that of the smallest integer. So the offset of an integer in the
table is one subtraction, which wraps, whatever the sign, and integers outside of the range have an offset beyond it.
Each offset is checked where it is used: a column may change while it is read.
"""
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from numpy cimport PyArray_DATA, import_array, ndarray as Array

import numpy

import_array()

__all__ = ["factorize", "isin", "join", "steps", "unique", "value_counts"]

cdef object UINT8 = numpy.dtype("u1")
cdef object UINT32 = numpy.dtype("u4")
cdef object INT64 = numpy.dtype("i8")
cdef object BOOL = numpy.dtype(bool)

cdef int64_t PIECE = 1 << 22  # elements between two looks at signals
cdef int64_t FIRST = 256  # elements of which the step between integers is guessed
cdef uint64_t VALUES = 4, BITS = 32  # integers of the range for each element, of tables of numbers and of bits
cdef uint64_t MOST = 1 << 31  # elements and integers: their numbers are of 32 bits

ctypedef const uint8_t *cells1
ctypedef const uint16_t *cells2
ctypedef const uint32_t *cells4
ctypedef const uint64_t *cells8

cdef fused cell:
    uint8_t
    uint16_t
    uint32_t
    uint64_t


def piece(int64_t elements=0):
    """Elements per piece; a number above 0 changes it, for tests. Returns what it was."""
    global PIECE
    was = PIECE
    if elements:
        PIECE = elements
    return was


def bounds(values, bits):
    """Change how many integers a range may have for each element, for tests; 0: no column is dense."""
    global VALUES, BITS
    was = VALUES, BITS
    VALUES, BITS = values, bits
    return was


# ---- loops over elements ---------------------------------------------------------------------------------------------

cdef bint extend(const cell *p, int64_t n, cell bias, uint64_t most, uint64_t *least, uint64_t *largest) noexcept nogil:
    """Widen least .. largest, integers of which all have `bias` added, by n elements. False: it exceeds `most`."""
    cdef int64_t i, start = 0, end
    cdef cell low = <cell>least[0], high = <cell>largest[0], x
    while start < n:
        end = min(start + 4096, n)
        for i in range(start, end):
            x = p[i] ^ bias
            low = min(low, x)
            high = max(high, x)
        if <uint64_t>(high - low) > most:
            return False
        start = end
    least[0], largest[0] = low, high
    return True


cdef int64_t see(
    const cell *p, int64_t n, cell base, uint64_t last, uint8_t *seen, cell *keys, int64_t known
) noexcept nogil:
    """Append the integers to the keys whose bit is not set yet, and set it; `keys` has room for one more."""
    cdef int64_t i
    cdef uint64_t o
    cdef uint8_t byte
    for i in range(n):
        o = min(<uint64_t><cell>(p[i] - base), last)
        byte = seen[o >> 3]
        keys[known] = p[i]
        known += ~(byte >> (o & 7)) & 1
        seen[o >> 3] = byte | <uint8_t>(1 << (o & 7))
    return known


cdef int64_t count(
    const cell *p, int64_t n, cell base, uint64_t last, uint32_t *counts, cell *keys, int64_t known
) noexcept nogil:
    """The same with a count for each integer."""
    cdef int64_t i
    cdef uint64_t o
    for i in range(n):
        o = min(<uint64_t><cell>(p[i] - base), last)
        keys[known] = p[i]
        known += counts[o] == 0
        counts[o] += 1
    return known


cdef void counted(
    const cell *keys, int64_t n, cell base, uint64_t last, const uint32_t *counts, int64_t *out
) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        out[i] = counts[min(<uint64_t><cell>(keys[i] - base), last)]


cdef int64_t number(
    const cell *p, int64_t n, cell base, uint64_t last, uint32_t *numbers, cell *keys, int64_t known, int64_t *codes
) noexcept nogil:
    """Integers get the numbers 1, 2, ... as they appear; codes[i]: that of element i, less 1."""
    cdef int64_t i
    cdef uint64_t o
    cdef uint32_t found
    for i in range(n):
        o = min(<uint64_t><cell>(p[i] - base), last)
        keys[known] = p[i]
        found = numbers[o]
        if found == 0:
            known += 1
            found = <uint32_t>known
            numbers[o] = found
        codes[i] = <int64_t>found - 1
    return known


cdef void contains(
    const cell *p, int64_t n, cell base, uint64_t last, const uint8_t *seen, uint64_t shift, uint8_t *mask
) noexcept nogil:
    """Which elements are base .. base + last, with their bit set: that of base is number `shift`."""
    cdef int64_t i
    cdef uint64_t o, at
    for i in range(n):
        o = <cell>(p[i] - base)
        at = min(o, last) + shift
        mask[i] = <uint8_t>((o <= last) & (seen[at >> 3] >> (at & 7)))


cdef void look_up(
    const cell *p, int64_t n, cell base, uint64_t last, const uint32_t *numbers, uint64_t shift, int64_t *codes
) noexcept nogil:
    cdef int64_t i
    cdef uint64_t o
    for i in range(n):
        o = <cell>(p[i] - base)
        codes[i] = <int64_t>numbers[o + shift] - 1 if o <= last else -1


# ---- a column, and its table -----------------------------------------------------------------------------------------

cdef class Range:
    """A dense column, least .. least + last, and the loops for its width."""
    cdef Array column
    cdef const char *data
    cdef int64_t n
    cdef int width
    cdef uint64_t base, last

    cdef const char *at(self, int64_t start) noexcept nogil:
        return self.data + start * self.width


cdef uint64_t bias_of(object dtype):
    """What makes the order of signed integers that of unsigned ones."""
    return <uint64_t>1 << (8 * <int>dtype.itemsize - 1) if dtype.kind == "i" else 0


cdef Range opened(Array column, uint64_t base, uint64_t last):
    cdef Range r = Range.__new__(Range)
    r.column = column
    r.data = <const char *>PyArray_DATA(column)
    r.n = (<object>column).size
    r.width = (<object>column).itemsize
    r.base, r.last = base, last
    return r


cdef Range dense(Array column, uint64_t values, uint64_t elements):
    """None: the column is empty, or its range has more than `values` integers for each of so many elements."""
    cdef Range r = opened(column, 0, 0)
    cdef object dtype = (<object>column).dtype
    cdef uint64_t bias = bias_of(dtype), least = <uint64_t>-1, largest = 0, most
    cdef int64_t start = 0, n
    cdef bint fits
    if r.n == 0 or values == 0 or elements >= MOST:
        return None
    most = min(values * elements, MOST) - 1
    least >>= 64 - 8 * r.width
    if r.width <= 2 and least <= most:  # all integers of the type
        r.base, r.last = bias, least
        return r
    while start < r.n:
        n = min(PIECE, r.n - start)
        with nogil:
            if r.width == 1:
                fits = extend(<cells1>r.at(start), n, <uint8_t>bias, most, &least, &largest)
            elif r.width == 2:
                fits = extend(<cells2>r.at(start), n, <uint16_t>bias, most, &least, &largest)
            elif r.width == 4:
                fits = extend(<cells4>r.at(start), n, <uint32_t>bias, most, &least, &largest)
            else:
                fits = extend(<cells8>r.at(start), n, bias, most, &least, &largest)
        if not fits:
            return None
        PyErr_CheckSignals()
        start += n
    r.base, r.last = least ^ bias, largest - least
    return r


cdef object room_for_keys(Range r):
    """An array for distinct keys, and one that is written and does not count."""
    return numpy.empty(min(<uint64_t>r.n, r.last + 1) + 1, (<object>r.column).dtype)


cdef object cut(object keys, int64_t known):
    keys.resize(known, refcheck=False)
    return keys


cdef object bitmap(Range r):
    return numpy.zeros((r.last >> 3) + 1, UINT8)


cdef int64_t see_all(Range r, Array bits, Array keys) except -1:
    """Set the bits of a column; the number of distinct keys."""
    cdef uint8_t *seen = <uint8_t *>PyArray_DATA(bits)
    cdef void *out = PyArray_DATA(keys)
    cdef int64_t known = 0, start = 0, n
    while start < r.n:
        n = min(PIECE, r.n - start)
        with nogil:
            if r.width == 1:
                known = see(<cells1>r.at(start), n, <uint8_t>r.base, r.last, seen, <uint8_t *>out, known)
            elif r.width == 2:
                known = see(<cells2>r.at(start), n, <uint16_t>r.base, r.last, seen, <uint16_t *>out, known)
            elif r.width == 4:
                known = see(<cells4>r.at(start), n, <uint32_t>r.base, r.last, seen, <uint32_t *>out, known)
            else:
                known = see(<cells8>r.at(start), n, r.base, r.last, seen, <uint64_t *>out, known)
        PyErr_CheckSignals()
        start += n
    return known


cdef int64_t number_all(Range r, Array table, Array keys, Array out_codes) except -1:
    cdef uint32_t *numbers = <uint32_t *>PyArray_DATA(table)
    cdef void *out = PyArray_DATA(keys)
    cdef int64_t *to = <int64_t *>PyArray_DATA(out_codes)
    cdef int64_t known = 0, start = 0, n
    cdef int64_t *codes
    while start < r.n:
        n = min(PIECE, r.n - start)
        codes = to + start
        with nogil:
            if r.width == 1:
                known = number(<cells1>r.at(start), n, <uint8_t>r.base, r.last, numbers, <uint8_t *>out, known, codes)
            elif r.width == 2:
                known = number(<cells2>r.at(start), n, <uint16_t>r.base, r.last, numbers, <uint16_t *>out, known, codes)
            elif r.width == 4:
                known = number(<cells4>r.at(start), n, <uint32_t>r.base, r.last, numbers, <uint32_t *>out, known, codes)
            else:
                known = number(<cells8>r.at(start), n, r.base, r.last, numbers, <uint64_t *>out, known, codes)
        PyErr_CheckSignals()
        start += n
    return known


cdef tuple shared(Array column, Range others):
    """(the column with the part of the range that its type has, where that begins in the range); None: no part."""
    cdef object dtype = (<object>column).dtype, smallest = others.base, one = 1
    cdef object end = one << 8 * dtype.itemsize, half = end >> 1, others_end = one << 8 * others.width
    least, most = (-half, half - 1) if dtype.kind == "i" else (0, end - 1)
    if (<object>others.column).dtype.kind == "i" and 2 * smallest >= others_end:
        smallest -= others_end
    first, last = max(least, smallest), min(most, smallest + others.last)
    if first > last:
        return None
    return opened(column, first & 0xffffffffffffffff, last - first), first - smallest


# ---- integers that are a step apart ----------------------------------------------------------------------------------

cdef uint64_t step_of(const uint64_t *p, int64_t n, uint64_t bias) noexcept nogil:
    """The greatest common divisor of what n integers are apart."""
    cdef uint64_t step = 0, a, b
    cdef int64_t i
    for i in range(1, n):
        a, b = p[0] ^ bias, p[i] ^ bias
        a, b = step, a - b if a > b else b - a
        while b != 0:
            a, b = b, a % b
        step = a
        if step == 1:
            break
    return step


cdef bint divide(
    const uint64_t *p, int64_t n, uint64_t base, uint64_t step, uint64_t last, uint32_t *out
) noexcept nogil:
    """out: how many steps each integer is above base. False: one of them is none, or more than `last`."""
    cdef uint64_t odd = step, inverse, wrong = 0, o, q
    cdef int64_t i, shift = 0
    while odd & 1 == 0:
        odd >>= 1
        shift += 1
    inverse = odd  # modulo 8; each round doubles the bits
    while inverse * odd != 1:
        inverse *= 2 - odd * inverse
    for i in range(n):
        o = p[i] - base
        q = (o >> shift) * inverse
        wrong |= (q > last) | (q * step != o)
        out[i] = <uint32_t>q
    return wrong == 0


def steps(Array column not None):
    """(numbers, least, step) of a column of 8 bytes whose integers are least + step * number modulo 2^64, and dense.

    None of other columns, also where the first integers are equal, or no step but 1 apart.
    """
    cdef object dtype = (<object>column).dtype
    cdef Range r = opened(column, 0, 0)
    cdef uint64_t bias = bias_of(dtype), least = <uint64_t>-1, largest = 0, most, step
    cdef int64_t start = 0, n
    cdef bint fits = True
    if r.width != 8 or r.n == 0 or VALUES == 0 or <uint64_t>r.n >= MOST:
        return None
    step = step_of(<cells8>r.data, min(FIRST, r.n), bias)
    most = min(VALUES * <uint64_t>r.n, MOST) - 1
    if step < 2 or most > <uint64_t>-1 // step:
        return None
    while fits and start < r.n:
        n = min(PIECE, r.n - start)
        with nogil:
            fits = extend(<cells8>r.at(start), n, bias, most * step, &least, &largest)
        PyErr_CheckSignals()
        start += n
    numbers = numpy.empty(r.n, UINT32)
    cdef uint32_t *to = <uint32_t *>PyArray_DATA(<Array>numbers)
    start = 0
    while fits and start < r.n:
        n = min(PIECE, r.n - start)
        with nogil:
            fits = divide(<cells8>r.at(start), n, least ^ bias, step, most, to + start)
        PyErr_CheckSignals()
        start += n
    if not fits:
        return None
    return numbers, least ^ bias, step


# ---- verbs -----------------------------------------------------------------------------------------------------------

def unique(Array column not None):
    """The distinct integers in the order of their first appearance."""
    cdef Range r = dense(column, BITS, (<object>column).size)
    if r is None:
        return None
    keys = room_for_keys(r)
    return cut(keys, see_all(r, bitmap(r), keys))


def value_counts(Array column not None):
    """(distinct integers in the order of their first appearance, how often each occurs)."""
    cdef Range r = dense(column, VALUES, (<object>column).size)
    cdef int64_t known = 0, start = 0, n
    if r is None:
        return None
    keys = room_for_keys(r)
    table = numpy.zeros(r.last + 1, UINT32)
    cdef uint32_t *counts = <uint32_t *>PyArray_DATA(<Array>table)
    cdef void *out = PyArray_DATA(<Array>keys)
    while start < r.n:
        n = min(PIECE, r.n - start)
        with nogil:
            if r.width == 1:
                known = count(<cells1>r.at(start), n, <uint8_t>r.base, r.last, counts, <uint8_t *>out, known)
            elif r.width == 2:
                known = count(<cells2>r.at(start), n, <uint16_t>r.base, r.last, counts, <uint16_t *>out, known)
            elif r.width == 4:
                known = count(<cells4>r.at(start), n, <uint32_t>r.base, r.last, counts, <uint32_t *>out, known)
            else:
                known = count(<cells8>r.at(start), n, r.base, r.last, counts, <uint64_t *>out, known)
        PyErr_CheckSignals()
        start += n
    keys = cut(keys, known)
    out = PyArray_DATA(<Array>keys)
    numbers = numpy.empty(known, INT64)
    cdef int64_t *to = <int64_t *>PyArray_DATA(<Array>numbers)
    with nogil:
        if r.width == 1:
            counted(<uint8_t *>out, known, <uint8_t>r.base, r.last, counts, to)
        elif r.width == 2:
            counted(<uint16_t *>out, known, <uint16_t>r.base, r.last, counts, to)
        elif r.width == 4:
            counted(<uint32_t *>out, known, <uint32_t>r.base, r.last, counts, to)
        else:
            counted(<uint64_t *>out, known, r.base, r.last, counts, to)
    return keys, numbers


def factorize(Array column not None):
    """(codes, distinct integers in the order of their first appearance)."""
    cdef Range r = dense(column, VALUES, (<object>column).size)
    if r is None:
        return None
    keys, codes = room_for_keys(r), numpy.empty(r.n, INT64)
    return codes, cut(keys, number_all(r, numpy.zeros(r.last + 1, UINT32), keys, codes))


def isin(Array column not None, Array among not None):
    """Which elements are among others."""
    cdef Range others = dense(among, BITS, (<object>column).size + (<object>among).size), r
    cdef int64_t start = 0, n
    cdef uint64_t shift
    if others is None:
        return None
    part = shared(column, others)
    if part is None:
        return numpy.zeros((<object>column).size, BOOL)
    bits, mask = bitmap(others), numpy.empty((<object>column).size, BOOL)
    see_all(others, bits, room_for_keys(others))
    r, shift = part
    cdef const uint8_t *seen = <const uint8_t *>PyArray_DATA(<Array>bits)
    cdef uint8_t *to = <uint8_t *>PyArray_DATA(<Array>mask)
    while start < r.n:
        n = min(PIECE, r.n - start)
        with nogil:
            if r.width == 1:
                contains(<cells1>r.at(start), n, <uint8_t>r.base, r.last, seen, shift, to + start)
            elif r.width == 2:
                contains(<cells2>r.at(start), n, <uint16_t>r.base, r.last, seen, shift, to + start)
            elif r.width == 4:
                contains(<cells4>r.at(start), n, <uint32_t>r.base, r.last, seen, shift, to + start)
            else:
                contains(<cells8>r.at(start), n, r.base, r.last, seen, shift, to + start)
        PyErr_CheckSignals()
        start += n
    return mask


def join(Array left not None, Array right not None):
    """(codes of the left column, -1 where absent; codes of the right one): numbers among the right column's integers.

    Codes of the right column are None where no integer repeats in it: then they are the positions.
    """
    cdef Range others = dense(right, VALUES, (<object>right).size), r
    cdef int64_t start = 0, n, known
    cdef uint64_t shift
    if others is None:
        return None
    table, codes = numpy.zeros(others.last + 1, UINT32), numpy.empty(others.n, INT64)
    known = number_all(others, table, room_for_keys(others), codes)
    if known == others.n:
        codes = None
    part = shared(left, others)
    if part is None:
        return numpy.full((<object>left).size, -1, INT64), codes
    at = numpy.empty((<object>left).size, INT64)
    r, shift = part
    cdef const uint32_t *numbers = <const uint32_t *>PyArray_DATA(<Array>table)
    cdef int64_t *to = <int64_t *>PyArray_DATA(<Array>at)
    while start < r.n:
        n = min(PIECE, r.n - start)
        with nogil:
            if r.width == 1:
                look_up(<cells1>r.at(start), n, <uint8_t>r.base, r.last, numbers, shift, to + start)
            elif r.width == 2:
                look_up(<cells2>r.at(start), n, <uint16_t>r.base, r.last, numbers, shift, to + start)
            elif r.width == 4:
                look_up(<cells4>r.at(start), n, <uint32_t>r.base, r.last, numbers, shift, to + start)
            else:
                look_up(<cells8>r.at(start), n, r.base, r.last, numbers, shift, to + start)
        PyErr_CheckSignals()
        start += n
    return at, codes
