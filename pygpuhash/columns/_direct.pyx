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

__all__ = ["factorize", "isin", "join", "offsets", "steps", "unique", "value_counts"]

cdef object UINT8 = numpy.dtype("u1")
cdef object UINT32 = numpy.dtype("u4")
cdef object INT32 = numpy.dtype("i4")
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

cdef bint extend(
    const cell *p, const uint8_t *nulls, int64_t n, cell bias, uint64_t most, uint64_t *least, uint64_t *largest
) noexcept nogil:
    """Widen least .. largest, integers of which all have `bias` added, by n elements. False: it exceeds `most`.

    nulls : NULL, or a byte for each element: 1 where it does not count.
    """
    cdef int64_t i, start = 0, end
    cdef cell low = <cell>least[0], high = <cell>largest[0], x, null
    while start < n:
        end = min(start + 4096, n)
        if nulls == NULL:
            for i in range(start, end):
                x = p[i] ^ bias
                low = min(low, x)
                high = max(high, x)
        else:
            for i in range(start, end):
                x = p[i] ^ bias
                null = <cell>0 - <cell>nulls[i]
                low = min(low, x | null)
                high = max(high, x & ~null)
        if high > low and <uint64_t>(high - low) > most:
            return False
        start = end
    least[0], largest[0] = low, high
    return True


cdef void subtract(const cell *p, const uint8_t *nulls, int64_t n, cell base, uint32_t *out) noexcept nogil:
    """out: how much each integer is above base; with nulls, one more, and 0 of a null."""
    cdef int64_t i
    if nulls == NULL:
        for i in range(n):
            out[i] = <uint32_t><cell>(p[i] - base)
    else:
        for i in range(n):
            out[i] = (<uint32_t><cell>(p[i] - base) + 1) & (<uint32_t>nulls[i] - 1)


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


cdef const uint8_t *beside(const uint8_t *nulls, int64_t start) noexcept nogil:
    if nulls == NULL:
        return NULL
    return nulls + start


cdef bint extend_by(
    Range r, const uint8_t *nulls, int64_t start, int64_t n, uint64_t bias, uint64_t most,
    uint64_t *least, uint64_t *largest
) noexcept nogil:
    cdef const char *p = r.at(start)
    if r.width == 1:
        return extend(<cells1>p, nulls, n, <uint8_t>bias, most, least, largest)
    if r.width == 2:
        return extend(<cells2>p, nulls, n, <uint16_t>bias, most, least, largest)
    if r.width == 4:
        return extend(<cells4>p, nulls, n, <uint32_t>bias, most, least, largest)
    return extend(<cells8>p, nulls, n, bias, most, least, largest)


cdef bint extend_by_all(
    Range r, const uint8_t *nulls, uint64_t bias, uint64_t most, uint64_t *least, uint64_t *largest
) except -1:
    """Widen least .. largest by a column; with nulls, a byte for each element, by those that are none."""
    cdef int64_t start = 0, n
    cdef bint fits = True
    while fits and start < r.n:
        n = min(PIECE, r.n - start)
        with nogil:
            fits = extend_by(r, beside(nulls, start), start, n, bias, most, least, largest)
        PyErr_CheckSignals()
        start += n
    return fits


cdef Range dense(Array column, uint64_t values, uint64_t elements):
    """None: the column is empty, or its range has more than `values` integers for each of so many elements."""
    cdef Range r = opened(column, 0, 0)
    cdef object dtype = (<object>column).dtype
    cdef uint64_t bias = bias_of(dtype), least = <uint64_t>-1, largest = 0, most
    if r.n == 0 or values == 0 or elements >= MOST:
        return None
    most = min(values * elements, MOST) - 1
    least >>= 64 - 8 * r.width
    if r.width <= 2 and least <= most:  # all integers of the type
        r.base, r.last = bias, least
        return r
    if not extend_by_all(r, NULL, bias, most, &least, &largest):
        return None
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
    const uint64_t *p, const uint8_t *nulls, int64_t n, uint64_t base, uint64_t step, uint64_t last, uint32_t *out
) noexcept nogil:
    """`subtract` by steps: how many of them each integer is above base. False: one is none, or more than `last`."""
    cdef uint64_t odd = step, inverse, wrong = 0, o, q, valid
    cdef int64_t i, shift = 0
    while odd & 1 == 0:
        odd >>= 1
        shift += 1
    inverse = odd  # modulo 8; each round doubles the bits
    while inverse * odd != 1:
        inverse *= 2 - odd * inverse
    if nulls == NULL:
        for i in range(n):
            o = p[i] - base
            q = (o >> shift) * inverse
            wrong |= (q > last) | (q * step != o)
            out[i] = <uint32_t>q
    else:
        for i in range(n):
            o = p[i] - base
            q = (o >> shift) * inverse
            valid = <uint64_t>nulls[i] - 1
            wrong |= ((q > last) | (q * step != o)) & valid
            out[i] = <uint32_t>(q + 1) & <uint32_t>valid
    return wrong == 0


cdef bint divide_all(
    Range r, const uint8_t *nulls, uint64_t base, uint64_t step, uint64_t last, Array numbers
) except -1:
    cdef uint32_t *to = <uint32_t *>PyArray_DATA(numbers)
    cdef int64_t start = 0, n
    cdef bint fits = True
    while fits and start < r.n:
        n = min(PIECE, r.n - start)
        with nogil:
            fits = divide(<cells8>r.at(start), beside(nulls, start), n, base, step, last, to + start)
        PyErr_CheckSignals()
        start += n
    return fits


cdef int subtract_all(Range r, const uint8_t *nulls, uint64_t base, Array numbers) except -1:
    cdef uint32_t *to = <uint32_t *>PyArray_DATA(numbers)
    cdef int64_t start = 0, n
    cdef const uint8_t *null
    while start < r.n:
        n = min(PIECE, r.n - start)
        with nogil:
            null = beside(nulls, start)
            if r.width == 1:
                subtract(<cells1>r.at(start), null, n, <uint8_t>base, to + start)
            elif r.width == 2:
                subtract(<cells2>r.at(start), null, n, <uint16_t>base, to + start)
            elif r.width == 4:
                subtract(<cells4>r.at(start), null, n, <uint32_t>base, to + start)
            else:
                subtract(<cells8>r.at(start), null, n, base, to + start)
        PyErr_CheckSignals()
        start += n
    return 0


cdef tuple in_steps(Range r, const uint8_t *absent, uint64_t step, uint64_t most):
    """(numbers of 4 bytes, least, step, largest - least); None where that is more than `most` steps, or of nulls."""
    cdef uint64_t bias = bias_of((<object>r.column).dtype), least = <uint64_t>-1 >> (64 - 8 * r.width), largest = 0
    cdef uint64_t widest = most * step if step <= <uint64_t>-1 // most else <uint64_t>-1
    if not extend_by_all(r, absent, bias, widest, &least, &largest) or largest < least:
        return None
    numbers = numpy.empty(r.n, INT32)
    if step > 1 and divide_all(r, absent, least ^ bias, step, most, numbers):
        return numbers, least ^ bias, step, largest - least
    if largest - least > most:
        return None
    subtract_all(r, absent, least ^ bias, numbers)
    return numbers, least ^ bias, 1, largest - least


def steps(Array column not None):
    """(numbers, least, step) of a column of 8 bytes whose integers are least + step * number modulo 2^64, and dense.

    None of other columns, also where the first integers are equal, or no step but 1 apart.
    """
    cdef Range r = opened(column, 0, 0)
    cdef uint64_t most, step
    if r.width != 8 or r.n == 0 or VALUES == 0 or <uint64_t>r.n >= MOST:
        return None
    step = step_of(<cells8>r.data, min(FIRST, r.n), bias_of((<object>column).dtype))
    most = min(VALUES * <uint64_t>r.n, MOST) - 1
    if step < 2 or most > <uint64_t>-1 // step:
        return None
    found = in_steps(r, NULL, step, most)
    return None if found is None or found[2] == 1 else (found[0].view(UINT32), *found[1:3])


def offsets(Array column not None, Array nulls=None):
    """(numbers, least, step, largest number): an integer is least + step * number, modulo 2^bits of its dtype.

    nulls : a bool array; numbers of elements are one more then, and 0 of nulls, which may lie anywhere.

    The numbers are int32, from 0 on. None where they would have more bits, and where all elements are null.
    """
    cdef Range r = opened(column, 0, 0)
    cdef const uint8_t *absent = NULL
    cdef uint64_t step = 1
    cdef object given = <object>nulls, head = (<object>column)[:FIRST]
    if given is not None:
        if given.dtype != BOOL or given.size != r.n or not given.flags.c_contiguous:
            raise ValueError(f"nulls are {given.dtype} of shape {given.shape}: pass bool of {r.n} elements")
        absent = <const uint8_t *>PyArray_DATA(nulls)
        head = head[~given[:FIRST]]
    if r.width == 8 and VALUES:
        step = step_of(<cells8>PyArray_DATA(<Array>head), head.size, bias_of(head.dtype))
    found = in_steps(r, absent, max(step, <uint64_t>1), MOST - 2)
    if found is None:
        return None
    numbers, least, by, width = found
    return numbers, least, by, width // by + (given is not None)


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
