# cython: language_level=3, boundscheck=False, wraparound=False, embedsignature=True, freethreading_compatible=True
"""Verbs on a column on a CUDA device, on addresses: groups with counts, codes and aggregates, isin, and joins."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memset

from cpython.exc cimport PyErr_Clear

import numpy

from pygpuhash.gpuhash cimport *
from pygpuhash._core.device_arrays cimport *
from pygpuhash._core.dlpack cimport *
from pygpuhash._core.meanwhile cimport run_meanwhile
from pygpuhash._core.status cimport check, start_error

NAMES = ("b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")
cdef dict DTYPES = {dlpack_code(dtype): dtype for dtype in map(numpy.dtype, NAMES)}


def ready(array):
    """(address, shape, dtype, device, stream) of a C-contiguous array of CuPy or PyTorch, on whose current stream it is
    ready; None for every other one, which is left to `_device_arrays.py`."""
    cdef Library library = library_of(type(array))
    cdef gh_dl_tensor t
    cdef Seen seen
    cdef uintptr_t stream = 0
    cdef int i
    cdef object dtype
    if library is None or library.way == OWN or not library.writable:
        return None
    if library.way == EXCHANGE:
        if library.exchange.describe(<void *>array, &t) != 0:
            PyErr_Clear()
            return None
        dtype = DTYPES.get(<int>t.dtype.code << 8 | t.dtype.bits)
    else:
        dtype = array.dtype
        if dtype is not DTYPES.get(dlpack_code(dtype)):
            return None
    if dtype is None or not library.look(array, dtype, dlpack_code(dtype), 0, &seen):
        return None
    if not library.current_stream(seen.device, &stream):
        return None
    return <uintptr_t>seen.at, tuple([seen.shape[i] for i in range(seen.dimensions)]), dtype, seen.device, stream


cdef void fill(gpuhash_group_request *r, size_t n, uint32_t key_bytes, bint first, uintptr_t counts, uintptr_t codes):
    memset(r, 0, sizeof(r[0]))
    r.struct_size = sizeof(r[0])
    r.n = n
    r.key_bytes = key_bytes
    r.order = GPUHASH_ORDER_FIRST if first else 0
    r.out_counts = <int64_t *>counts
    r.out_codes = <int64_t *>codes


cdef void fill_values(gpuhash_group_request *r, uint32_t value_bytes, uint32_t value_type, uintptr_t sums,
                      uintptr_t means, uintptr_t low, uintptr_t high):
    r.value_bytes = value_bytes
    r.value_type = value_type
    r.out_sums = <void *>sums
    r.out_means = <double *>means
    r.out_low = <void *>low
    r.out_high = <void *>high


def group_scratch(size_t n, uint32_t key_bytes, bint first, bint counts, bint codes, uint32_t value_bytes=0,
                  uint32_t value_type=0, bint sums=False, bint means=False, bint low=False, bint high=False):
    """Bytes of temporaries that `group` takes for so many rows."""
    cdef gpuhash_group_request r
    cdef gpuhash_error err
    cdef size_t nbytes
    fill(&r, n, key_bytes, first, counts, codes)  # 1 is an address as good as any: nothing is read or written there
    fill_values(&r, value_bytes, value_type, sums, means, low, high)
    start_error(&err)
    check(gpuhash_group_scratch(&r, &nbytes, &err), &err)
    return nbytes


def group(int32_t ordinal, size_t n, uintptr_t keys, uint32_t key_bytes, bint first, uint64_t seed, uintptr_t distinct,
          uintptr_t counts, uintptr_t codes, uintptr_t size, uintptr_t scratch, size_t nbytes, uintptr_t stream,
          uintptr_t values=0, uint32_t value_bytes=0, uint32_t value_type=0, uintptr_t sums=0, uintptr_t means=0,
          uintptr_t low=0, uintptr_t high=0, uintptr_t first_rows=0, bint waits=True, meanwhile=None):
    """How many groups there are, which is at the address `size` on the device, too. waits: for the stream; otherwise
    the answer is 0. `meanwhile()` is called before it waits; what it raises is raised when it has waited."""
    cdef uint64_t groups = 0
    cdef list call = [meanwhile]
    cdef gpuhash_group_request r
    cdef gpuhash_error err
    cdef gpuhash_status status
    fill(&r, n, key_bytes, first, counts, codes)
    fill_values(&r, value_bytes, value_type, sums, means, low, high)
    r.keys = <void *>keys
    r.values = <void *>values
    r.seed = seed
    r.out_keys = <void *>distinct
    r.groups = <uint64_t *>size
    r.scratch = <void *>scratch
    r.scratch_bytes = nbytes
    r.device.kind = GPUHASH_CUDA
    r.device.ordinal = ordinal
    r.stream = <void *>stream
    r.host_groups = &groups if waits else NULL
    r.out_first = <int64_t *>first_rows
    if meanwhile is not None:
        r.meanwhile = run_meanwhile
        r.context = <void *>call
    start_error(&err)
    with nogil:
        status = gpuhash_group(&r, &err)
    check(status, &err)
    if len(call) > 1:
        raise call[1]
    return groups


def isin_scratch(size_t n, size_t others, uint32_t key_bytes):
    """Bytes of temporaries that `isin` takes for so many keys and others."""
    cdef gpuhash_isin_request r
    cdef gpuhash_error err
    cdef size_t nbytes
    memset(&r, 0, sizeof(r))
    r.struct_size = sizeof(r)
    r.n = n
    r.n_among = others
    r.key_bytes = key_bytes
    start_error(&err)
    check(gpuhash_isin_scratch(&r, &nbytes, &err), &err)
    return nbytes


def isin(int32_t ordinal, size_t n, uintptr_t keys, size_t others, uintptr_t among, uint32_t key_bytes, uint64_t seed,
         uintptr_t out, uintptr_t scratch, size_t nbytes, uintptr_t stream):
    """Queue everything on the stream: a byte of 0 or 1 for each key."""
    cdef gpuhash_isin_request r
    cdef gpuhash_error err
    cdef gpuhash_status status
    memset(&r, 0, sizeof(r))
    r.struct_size = sizeof(r)
    r.n = n
    r.keys = <void *>keys
    r.n_among = others
    r.among = <void *>among
    r.key_bytes = key_bytes
    r.seed = seed
    r.out = <uint8_t *>out
    r.scratch = <void *>scratch
    r.scratch_bytes = nbytes
    r.device.kind = GPUHASH_CUDA
    r.device.ordinal = ordinal
    r.stream = <void *>stream
    start_error(&err)
    with nogil:
        status = gpuhash_isin(&r, &err)
    check(status, &err)


def join_scratch(size_t left, size_t right, uint32_t key_bytes, bint lists):
    """Bytes of temporaries that `join` takes for so many rows; lists: it is called without `first`."""
    cdef gpuhash_join_request r
    cdef gpuhash_error err
    cdef size_t nbytes
    memset(&r, 0, sizeof(r))
    r.struct_size = sizeof(r)
    r.n_left = left
    r.n_right = right
    r.key_bytes = key_bytes
    r.out_first = NULL if lists else <int32_t *>&r  # it is not read
    start_error(&err)
    check(gpuhash_join_scratch(&r, &nbytes, &err), &err)
    return nbytes


cdef class Join:
    """A join of two columns: what it takes, and where its results go, for both of its calls."""

    cdef gpuhash_join_request r

    def __init__(self, int32_t ordinal, size_t n_left, uintptr_t left, size_t n_right, uintptr_t right,
                 uint32_t key_bytes, bint keep, uint64_t seed, uintptr_t first, uintptr_t facts, uintptr_t scratch,
                 size_t nbytes, uintptr_t stream):
        """first: where the first row of each key goes; 0: right rows are listed."""
        memset(&self.r, 0, sizeof(self.r))
        self.r.struct_size = sizeof(self.r)
        self.r.n_left = n_left
        self.r.left = <void *>left
        self.r.n_right = n_right
        self.r.right = <void *>right
        self.r.key_bytes = key_bytes
        self.r.keep = keep
        self.r.seed = seed
        self.r.out_first = <int32_t *>first
        self.r.out_facts = <uint64_t *>facts
        self.r.scratch = <void *>scratch
        self.r.scratch_bytes = nbytes
        self.r.device.kind = GPUHASH_CUDA
        self.r.device.ordinal = ordinal
        self.r.stream = <void *>stream

    def start(self, uintptr_t left_rows, uintptr_t right_rows):
        """(pairs, whether right rows repeat), and all results but pairs of those. Waits for the stream."""
        cdef uint64_t facts[2]
        cdef gpuhash_error err
        cdef gpuhash_status status
        self.r.out_left = <int64_t *>left_rows
        self.r.out_right = <int64_t *>right_rows
        self.r.host_facts = facts
        start_error(&err)
        with nogil:
            status = gpuhash_join(&self.r, &err)
        self.r.host_facts = NULL
        check(status, &err)
        return facts[0], facts[1]

    def write_pairs(self, uint64_t pairs, uintptr_t left_rows, uintptr_t right_rows):
        """Queue the pairs of right rows that were listed."""
        cdef gpuhash_error err
        cdef gpuhash_status status
        self.r.out_left = <int64_t *>left_rows
        self.r.out_right = <int64_t *>right_rows
        start_error(&err)
        with nogil:
            status = gpuhash_join_pairs(&self.r, pairs, &err)
        check(status, &err)
