# cython: language_level=3, boundscheck=False, wraparound=False, embedsignature=True, freethreading_compatible=True
"""k-mers of FASTA and FASTQ, two bits a base in a uint64: A 0, C 1, G 2, T and U 3, the first base the highest."""
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memchr, memcpy, memset
from numpy cimport PyArray_BYTES, import_array, ndarray

import numpy

__all__ = ["Kmers", "letters", "merged", "parted"]

import_array()

cdef enum:
    OTHER = 4
    SKIP = 5

cdef uint8_t[256] BASE
memset(BASE, OTHER, 256)
cdef int i_
for i_, name in enumerate("ACGT"):
    BASE[ord(name)] = BASE[ord(name.lower())] = i_
BASE[ord("U")] = BASE[ord("u")] = 3
BASE[ord("\n")] = BASE[ord("\r")] = BASE[ord(" ")] = SKIP


cdef class Kmers:
    """Reads a file block by block. A base other than ACGTU, and the end of a sequence, are in no k-mer.

    canonical : of a k-mer and its reverse complement, the lesser one.
    """

    cdef int k, have, line  # bases of the k-mer so far; line of a FASTQ record
    cdef bint canonical, fastq, begun, at_start
    cdef uint64_t forward, backward, mask
    cdef int64_t number, bases, qualities  # of the line; of the FASTQ record

    def __init__(self, int k, bint canonical):
        if not 1 <= k <= 32:
            raise ValueError(f"k is {k}: 1 to 32 bases fit into 64 bits")
        self.k, self.canonical = k, canonical
        self.mask = ~<uint64_t>0 >> (64 - 2 * k)
        self.begun, self.at_start, self.number = False, True, 1

    def read(self, ndarray block not None, int64_t size):
        """The k-mers that end in block[:size]. Raises ValueError, with the line, for what is neither format."""
        cdef const uint8_t *p = <const uint8_t *>PyArray_BYTES(block)
        cdef int64_t i = 0, count = 0
        cdef uint64_t *to
        out = numpy.empty(size, numpy.uint64)
        to = <uint64_t *>PyArray_BYTES(<ndarray>out)
        while not self.begun and i < size:
            if p[i] == b">" or p[i] == b"@":
                self.fastq, self.begun = p[i] == b"@", True
            elif p[i] == b"\n" or p[i] == b"\r":
                self.number += p[i] == b"\n"
                i += 1
            else:
                raise ValueError(f"line {self.number} begins neither with '>' (FASTA) nor with '@' (FASTQ)")
        with nogil:
            if self.fastq:
                i = self.fastq_lines(p, i, size, to, &count)
            else:
                i = self.fasta_lines(p, i, size, to, &count)
        if i < 0:
            raise self.broken()
        return out[:count]

    def finish(self):
        """Raises ValueError if a record is not whole."""
        cdef bint whole = self.line == 0 and self.at_start
        whole |= self.line == 3 and not self.at_start and self.qualities == self.bases  # without a newline at the end
        if self.begun and self.fastq and not whole:
            raise ValueError(f"the file ends within a record of FASTQ, in line {self.number}")

    cdef object broken(self):
        if self.line == 3:
            return ValueError(
                f"line {self.number}: a record of FASTQ has {self.bases} bases and {self.qualities} qualities"
            )
        mark = "+" if self.line == 2 else "@"
        return ValueError(f"line {self.number} does not begin with {mark!r}, as records of FASTQ in four lines do")

    cdef int64_t fasta_lines(self, const uint8_t *p, int64_t i, int64_t size, uint64_t *to,
                             int64_t *count) noexcept nogil:
        """`line` is 1 in a header. The loop over a line's bases keeps the k-mer in registers."""
        cdef const void *found
        while i < size:
            if self.at_start and p[i] == b">":
                self.line, self.have = 1, 0
            self.at_start = False
            found = memchr(p + i, 10, size - i)
            if self.line == 0:
                self.bases_of(p, i, size if found == NULL else <const uint8_t *>found - p, to, count)
            if found == NULL:
                return size
            i = <const uint8_t *>found - p + 1
            self.line, self.at_start = 0, True
            self.number += 1
        return size

    cdef int64_t fastq_lines(self, const uint8_t *p, int64_t i, int64_t size, uint64_t *to,
                             int64_t *count) noexcept nogil:
        """-1: a line is not what its record needs."""
        cdef const void *found
        cdef int64_t end, letters
        while i < size:
            if self.at_start:
                if self.line == 0 and (p[i] == b"\n" or p[i] == b"\r"):  # an empty line between records
                    self.number += p[i] == b"\n"
                    i += 1
                    continue
                if self.line == 0 and p[i] != b"@" or self.line == 2 and p[i] != b"+":
                    return -1
                if self.line == 0:
                    self.have = 0
                    self.bases = self.qualities = 0
            self.at_start = False
            found = memchr(p + i, 10, size - i)
            end = size if found == NULL else <const uint8_t *>found - p
            letters = end - i
            if letters > 0 and p[end - 1] == b"\r":
                letters -= 1
            if self.line == 1:
                self.bases_of(p, i, end, to, count)
                self.bases += letters
            elif self.line == 3:
                self.qualities += letters
            if found == NULL:
                return size
            if self.line == 3 and self.qualities != self.bases:
                return -1
            i = end + 1
            self.line = self.line + 1 & 3
            self.at_start = True
            self.number += 1
        return size

    cdef void bases_of(self, const uint8_t *p, int64_t i, int64_t end, uint64_t *to, int64_t *count) noexcept nogil:
        cdef uint64_t forward = self.forward, backward = self.backward, mask = self.mask
        cdef int64_t n = count[0]
        cdef int have = self.have, k = self.k, shift = 2 * (self.k - 1)
        cdef bint canonical = self.canonical
        cdef uint8_t code
        while i < end:
            code = BASE[p[i]]
            i += 1
            if code >= OTHER:
                if code == OTHER:
                    have = 0
                continue
            forward = (forward << 2 | code) & mask
            backward = backward >> 2 | <uint64_t>(3 - code) << shift
            have += have < k
            to[n] = min(forward, backward) if canonical else forward
            n += have == k
        self.forward, self.backward, self.have = forward, backward, have
        count[0] = n


def letters(ndarray kmers not None, int k):
    """(offsets, bytes) of k-mers as text."""
    cdef int64_t n = kmers.size, i
    cdef const uint64_t *p = <const uint64_t *>PyArray_BYTES(kmers)
    cdef uint8_t *to
    cdef int j
    data = numpy.empty(n * k, numpy.uint8)
    to = <uint8_t *>PyArray_BYTES(<ndarray>data)
    with nogil:
        for i in range(n):
            for j in range(k):
                to[i * k + j] = b"ACGT"[p[i] >> 2 * (k - 1 - j) & 3]
    return numpy.arange(0, (n + 1) * k, k, dtype=numpy.int64)[:n + 1], data


def parted(ndarray kmers not None, int shift, int64_t parts):
    """(k-mers ordered by kmer >> shift, where each of so many parts ends)."""
    cdef int64_t n = kmers.size, i, at = 0, size
    cdef const uint64_t *p = <const uint64_t *>PyArray_BYTES(kmers)
    cdef uint64_t *to
    cdef int64_t *end
    out, ends = numpy.empty(n, numpy.uint64), numpy.zeros(parts, numpy.int64)
    to, end = <uint64_t *>PyArray_BYTES(<ndarray>out), <int64_t *>PyArray_BYTES(<ndarray>ends)
    with nogil:
        for i in range(n):
            end[p[i] >> shift] += 1
        for i in range(parts):
            size, end[i] = end[i], at
            at += size
        for i in range(n):
            to[end[p[i] >> shift]] = p[i]
            end[p[i] >> shift] += 1
    return out, ends


ctypedef fused number:
    uint8_t
    uint32_t
    uint64_t


cdef int64_t merge(const uint64_t *a, const number *counts, int64_t n, const uint64_t *b, const number *others,
                   int64_t m, uint64_t *to, number *sums) noexcept nogil:
    """Both lists ascend; b may repeat k-mers, each of which counts once where `others` is NULL.

    Returns the number of k-mers; -1: a count does not fit.
    """
    cdef int64_t i = 0, j = 0, o = 0
    cdef uint64_t key, sum
    while j < m:
        key, sum = b[j], 0
        while j < m and b[j] == key:
            sum += 1 if others == NULL else others[j]
            j += 1
        while i < n and a[i] < key:
            to[o], sums[o] = a[i], counts[i]
            i += 1
            o += 1
        if i < n and a[i] == key:
            sum += counts[i]
            i += 1
        to[o], sums[o] = key, <number>sum
        if sums[o] != sum:
            return -1
        o += 1
    memcpy(to + o, a + i, (n - i) * sizeof(uint64_t))
    memcpy(sums + o, counts + i, (n - i) * sizeof(number))
    return o + n - i


cdef int64_t merge_arrays(ndarray keys, ndarray counts, ndarray others, ndarray their, ndarray out, ndarray sums):
    cdef int64_t n = keys.size, m = others.size, size
    cdef const uint64_t *a = <const uint64_t *>PyArray_BYTES(keys)
    cdef const uint64_t *b = <const uint64_t *>PyArray_BYTES(others)
    cdef uint64_t *to = <uint64_t *>PyArray_BYTES(out)
    cdef const void *c = PyArray_BYTES(counts)
    cdef const void *d = NULL if their is None else <const void *>PyArray_BYTES(their)
    cdef void *e = PyArray_BYTES(sums)
    cdef int width = sums.dtype.itemsize
    with nogil:
        if width == 1:
            size = merge[uint8_t](a, <const uint8_t *>c, n, b, <const uint8_t *>d, m, to, <uint8_t *>e)
        elif width == 4:
            size = merge[uint32_t](a, <const uint32_t *>c, n, b, <const uint32_t *>d, m, to, <uint32_t *>e)
        else:
            size = merge[uint64_t](a, <const uint64_t *>c, n, b, <const uint64_t *>d, m, to, <uint64_t *>e)
    return size


def merged(ndarray keys not None, ndarray counts not None, ndarray others not None, ndarray their):
    """(k-mers, counts) of two ascending lists; their: counts of the second one, None where it has one entry for each.

    Counts are of uint8, uint32 or uint64, of the first of these that none of them exceeds, and no given ones do.
    """
    cdef int64_t size
    least = counts.dtype.itemsize if their is None else max(counts.dtype.itemsize, their.dtype.itemsize)
    out = numpy.empty(keys.size + others.size, numpy.uint64)
    for kind in (numpy.uint8, numpy.uint32, numpy.uint64):
        if numpy.dtype(kind).itemsize < least:
            continue
        sums = numpy.empty(out.size, kind)
        wide = None if their is None else numpy.ascontiguousarray(their, kind)
        size = merge_arrays(keys, numpy.ascontiguousarray(counts, kind), others, wide, out, sums)
        if size >= 0:
            break
    out.resize(size, refcheck=False)
    sums.resize(size, refcheck=False)
    return out, sums
