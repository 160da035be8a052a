# cython: language_level=3, boundscheck=False, wraparound=False, embedsignature=True
"""Groups of a column on a CUDA device, on addresses: distinct keys, counts and codes."""
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memset

from pygpuhash.gpuhash cimport *
from pygpuhash._core.status cimport check, start_error


cdef void fill(gpuhash_group_request *r, size_t n, uint32_t key_bytes, bint first, uintptr_t counts, uintptr_t codes):
    memset(r, 0, sizeof(r[0]))
    r.struct_size = sizeof(r[0])
    r.n = n
    r.key_bytes = key_bytes
    r.order = GPUHASH_ORDER_FIRST if first else 0
    r.out_counts = <int64_t *>counts
    r.out_codes = <int64_t *>codes


def group_scratch(size_t n, uint32_t key_bytes, bint first, bint counts, bint codes):
    """Bytes of temporaries that `group` takes for so many rows."""
    cdef gpuhash_group_request r
    cdef gpuhash_error err
    cdef size_t nbytes
    fill(&r, n, key_bytes, first, counts, codes)  # 1 is an address as good as any: nothing is read or written there
    start_error(&err)
    check(gpuhash_group_scratch(&r, &nbytes, &err), &err)
    return nbytes


def group(int32_t ordinal, size_t n, uintptr_t keys, uint32_t key_bytes, bint first, uint64_t seed, uintptr_t distinct,
          uintptr_t counts, uintptr_t codes, uintptr_t size, uintptr_t scratch, size_t nbytes, uintptr_t stream):
    """Queue everything on the stream; how many groups there are is at the address `size` then."""
    cdef gpuhash_group_request r
    cdef gpuhash_error err
    cdef gpuhash_status status
    fill(&r, n, key_bytes, first, counts, codes)
    r.keys = <void *>keys
    r.seed = seed
    r.out_keys = <void *>distinct
    r.groups = <uint64_t *>size
    r.scratch = <void *>scratch
    r.scratch_bytes = nbytes
    r.device.kind = GPUHASH_CUDA
    r.device.ordinal = ordinal
    r.stream = <void *>stream
    start_error(&err)
    with nogil:
        status = gpuhash_group(&r, &err)
    check(status, &err)
