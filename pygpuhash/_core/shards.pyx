# cython: language_level=3, boundscheck=False, wraparound=False, embedsignature=True, freethreading_compatible=True
"""Rows by shard on a CUDA device, on addresses."""
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memset

from pygpuhash.gpuhash cimport *
from pygpuhash._core.status cimport check, start_error


MOST_SPREAD = GPUHASH_MOST_SPREAD  # shards whose rows have places of their own


cdef int addresses(given, uint32_t shards, void **found) except -1:
    """The address of each shard."""
    cdef uint32_t i
    if len(given) != shards or shards > GPUHASH_MOST_SPREAD:
        raise ValueError(f"{len(given)} addresses for {shards} shards: pass one for each of at most {MOST_SPREAD}")
    for i in range(shards):
        found[i] = <void *><uintptr_t>given[i]
    return 0


cdef void keep_schema(ArrowSchema *schema) noexcept nogil:
    pass


cdef void keep_array(ArrowArray *array) noexcept nogil:
    pass


def partition(int32_t ordinal, const char *format, int64_t n, uintptr_t keys, uint32_t shards, uint64_t seed,
              uintptr_t values=0, size_t value_bytes=0, uintptr_t ids=0, uintptr_t offsets=0, uintptr_t order=0,
              uintptr_t out_keys=0, uintptr_t out_values=0, uintptr_t scratch=0, size_t nbytes=0, uintptr_t stream=0,
              bint asks=False, uintptr_t places=0, shard_keys=None, shard_values=None, bint counted=False):
    """Queue everything on the stream. asks: nothing is queued; the bytes of scratch that this takes.

    format : Arrow's, of the keys. Results whose address is 0 are not asked for.
    shard_keys, shard_values : addresses, one for each of at most MOST_SPREAD shards.
    """
    cdef ArrowSchema type
    cdef ArrowArray rows
    cdef const void *buffers[2]
    cdef gpuhash_partition_request r
    cdef gpuhash_error err
    cdef gpuhash_status status
    cdef size_t taken = 0
    cdef void *spread_keys[GPUHASH_MOST_SPREAD]
    cdef void *spread_values[GPUHASH_MOST_SPREAD]
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
    r.out_places, r.counted = <uint32_t *>places, counted
    if shard_keys is not None:
        addresses(shard_keys, shards, spread_keys)
        r.shard_keys = spread_keys
    if shard_values is not None:
        addresses(shard_values, shards, spread_values)
        r.shard_values = spread_values
    start_error(&err)
    with nogil:
        status = gpuhash_partition_scratch(&r, &taken, &err) if asks else gpuhash_partition(&r, &err)
    check(status, &err)
    return taken


def collect(int32_t ordinal, size_t n, uintptr_t places, offsets, arrays, uintptr_t stream=0):
    """Queue the way back of one array or two: (addresses of the rows of each shard, bytes of a row, results' address).

    ordinal : of a GPU, or -1 for the CPU. offsets : where the places of each of up to MOST_SPREAD shards begin, and n.
    Rows of a shard whose address is 0 become 0.
    """
    cdef gpuhash_collect_request r
    cdef int64_t begins[GPUHASH_MOST_SPREAD + 1]
    cdef void *rows[2][GPUHASH_MOST_SPREAD]
    cdef gpuhash_error err
    cdef gpuhash_status status
    cdef uint32_t shards = len(offsets) - 1, i
    if not 1 <= shards <= GPUHASH_MOST_SPREAD:
        raise ValueError(f"offsets are of {shards} shards: pass 1 to {MOST_SPREAD}")
    memset(&r, 0, sizeof(r))
    r.struct_size = sizeof(r)
    for i in range(shards + 1):
        begins[i] = offsets[i]
    r.n, r.places, r.shards, r.offsets = n, <const uint32_t *>places, shards, begins
    r.arrays = len(arrays)
    for i, (sources, row_bytes, to) in enumerate(arrays):
        addresses(sources, shards, rows[i])
        r.collected[i].from_, r.collected[i].bytes, r.collected[i].to = rows[i], row_bytes, <void *><uintptr_t>to
    r.device.kind = GPUHASH_CPU if ordinal < 0 else GPUHASH_CUDA
    r.device.ordinal = max(ordinal, 0)
    r.stream = <void *>stream
    start_error(&err)
    with nogil:
        status = gpuhash_collect(&r, &err)
    check(status, &err)


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
