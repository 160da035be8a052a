# cython: language_level=3, boundscheck=False, wraparound=False, embedsignature=True, freethreading_compatible=True
"""Rows by shard on a CUDA device, on addresses."""
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memset

from pygpuhash.gpuhash cimport *
from pygpuhash._core.status cimport check, start_error


cdef void keep_schema(ArrowSchema *schema) noexcept nogil:
    pass


cdef void keep_array(ArrowArray *array) noexcept nogil:
    pass


def partition(int32_t ordinal, const char *format, int64_t n, uintptr_t keys, uint32_t shards, uint64_t seed,
              uintptr_t values=0, size_t value_bytes=0, uintptr_t ids=0, uintptr_t offsets=0, uintptr_t order=0,
              uintptr_t out_keys=0, uintptr_t out_values=0, uintptr_t scratch=0, size_t nbytes=0, uintptr_t stream=0,
              bint asks=False):
    """Queue everything on the stream. asks: nothing is queued; the bytes of scratch that this takes.

    format : Arrow's, of the keys. Results whose address is 0 are not asked for.
    """
    cdef ArrowSchema type
    cdef ArrowArray rows
    cdef const void *buffers[2]
    cdef gpuhash_partition_request r
    cdef gpuhash_error err
    cdef gpuhash_status status
    cdef size_t taken = 0
    memset(&type, 0, sizeof(type))
    memset(&rows, 0, sizeof(rows))
    memset(&r, 0, sizeof(r))
    buffers[0], buffers[1] = NULL, <const void *>keys
    type.format, type.name, type.release = format, b"", keep_schema
    rows.length, rows.n_buffers, rows.buffers, rows.release = n, 2, buffers, keep_array
    r.struct_size = sizeof(r)
    r.type, r.keys, r.shards, r.seed = &type, &rows, shards, seed
    r.values, r.value_bytes = <const void *>values, value_bytes
    r.out_shards, r.out_offsets, r.out_order = <int32_t *>ids, <int64_t *>offsets, <int64_t *>order
    r.out_keys, r.out_values = <void *>out_keys, <void *>out_values
    r.device.kind, r.device.ordinal, r.stream = GPUHASH_CUDA, ordinal, <void *>stream
    r.scratch, r.scratch_bytes = <void *>scratch, nbytes
    start_error(&err)
    with nogil:
        status = gpuhash_partition_scratch(&r, &taken, &err) if asks else gpuhash_partition(&r, &err)
    check(status, &err)
    return taken


def ungroup(int32_t ordinal, size_t n, uintptr_t order, uintptr_t rows, size_t row_bytes, uintptr_t to,
            uintptr_t stream=0):
    """Queue the way back: row order[i] of `to` becomes row i of `rows`. ordinal : of a GPU, or -1 for the CPU."""
    cdef gpuhash_device device
    cdef gpuhash_error err
    cdef gpuhash_status status
    memset(&device, 0, sizeof(device))
    device.kind = GPUHASH_CPU if ordinal < 0 else GPUHASH_CUDA
    device.ordinal = max(ordinal, 0)
    start_error(&err)
    with nogil:
        status = gpuhash_ungroup(n, <const int64_t *>order, <const void *>rows, row_bytes, <void *>to, device,
                                 <void *>stream, &err)
    check(status, &err)
