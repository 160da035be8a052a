# cython: language_level=3, boundscheck=False, wraparound=False, embedsignature=True, freethreading_compatible=True
"""Columns of bytes on a CUDA device, on addresses: hashes of rows, their comparison, and columns of picked rows."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t, uintptr_t
from libc.string cimport memset

from pygpuhash.gpuhash cimport *
from pygpuhash._core.status cimport check, start_error

NO_ROW = 2**64 - 1


def bytes_scratch(uint64_t rows):
    """Bytes of temporaries that calls of `BytesCall` take for so many rows, of columns or picked ones."""
    cdef size_t nbytes
    cdef gpuhash_error err
    start_error(&err)
    check(gpuhash_bytes_scratch(rows, &nbytes, &err), &err)
    return nbytes


cdef void fill(gpuhash_bytes_column *c, tuple given):
    n, first, data, offsets, validity, offset_bytes, width, floats = given
    c.n = n
    c.first = first
    c.data = <void *><uintptr_t>data
    c.offsets = <void *><uintptr_t>offsets
    c.validity = <uint8_t *><uintptr_t>validity
    c.offset_bytes = offset_bytes
    c.width = width
    c.floats = floats


cdef class BytesCall:
    """Calls on two columns, each (rows, first row, data, offsets, validity, bytes of an offset, width, are they
    floats); the second one may have no rows. Rows of the second column have the numbers behind those of the first."""

    cdef gpuhash_bytes_request r

    def __init__(self, int32_t ordinal, tuple one not None, tuple other not None, uintptr_t scratch, size_t nbytes,
                 uintptr_t stream):
        memset(&self.r, 0, sizeof(self.r))
        self.r.struct_size = sizeof(self.r)
        fill(&self.r.one, one)
        fill(&self.r.other, other)
        self.r.scratch = <void *>scratch
        self.r.scratch_bytes = nbytes
        self.r.device.kind = GPUHASH_CUDA
        self.r.device.ordinal = ordinal
        self.r.stream = <void *>stream

    def hash(self, uint64_t seed, uintptr_t hashes, bint nulls):
        """Queue the hash of each row. nulls: gives the first row that is null or None, and waits for the stream."""
        cdef uint64_t null = NO_ROW
        cdef gpuhash_error err
        cdef gpuhash_status status
        start_error(&err)
        with nogil:
            status = gpuhash_bytes_hash(&self.r, seed, <uint64_t *>hashes, &null if nulls else NULL, &err)
        check(status, &err)
        return None if null == NO_ROW else null

    def check(self, uintptr_t codes, uint64_t groups, uintptr_t first):
        """The first row of each group; whether all rows of a group have its bytes. Waits for the stream."""
        cdef uint64_t other = 0
        cdef gpuhash_error err
        cdef gpuhash_status status
        start_error(&err)
        with nogil:
            status = gpuhash_bytes_check(&self.r, <int64_t *>codes, groups, <int64_t *>first, &other, &err)
        check(status, &err)
        return other == 0

    def keep(self, uintptr_t rows):
        """The rows that are not null, and how many there are. Waits for the stream."""
        cdef uint64_t many = 0
        cdef gpuhash_error err
        cdef gpuhash_status status
        start_error(&err)
        with nogil:
            status = gpuhash_bytes_keep(&self.r, <int64_t *>rows, &many, &err)
        check(status, &err)
        return many

    def place(self, uintptr_t rows, uint64_t n, uintptr_t offsets):
        """Where each of n picked rows begins in a column of them; how many bytes they have. Waits for the stream."""
        cdef uint64_t many = 0
        cdef gpuhash_error err
        cdef gpuhash_status status
        start_error(&err)
        with nogil:
            status = gpuhash_bytes_place(&self.r, <int64_t *>rows, n, <void *>offsets, &many, &err)
        check(status, &err)
        return many

    def take(self, uintptr_t rows, uint64_t n, uintptr_t offsets, uintptr_t data, uintptr_t validity):
        """Queue the column of n picked rows."""
        cdef gpuhash_error err
        cdef gpuhash_status status
        start_error(&err)
        with nogil:
            status = gpuhash_bytes_take(&self.r, <int64_t *>rows, n, <void *>offsets, <void *>data,
                                        <uint8_t *>validity, &err)
        check(status, &err)
