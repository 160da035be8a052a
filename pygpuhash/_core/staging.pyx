# cython: language_level=3, boundscheck=False, wraparound=False, embedsignature=True, freethreading_compatible=True
"""Batches of host arrays on a CUDA table, through slots of pinned and device memory that Python owns."""
from cpython.buffer cimport PyBUF_WRITABLE
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int32_t, uint8_t, uint32_t, uintptr_t
from libc.string cimport memset

from pygpuhash.gpuhash cimport *
from pygpuhash._core.handle cimport TableHandle
from pygpuhash._core.host_arrays cimport address
from pygpuhash._core.status cimport batch_exception, start_error

__all__ = ["STAGING_NEW_STATUS", "STAGING_NEW_VALUES", "STAGING_PAST_CACHES", "run_staged"]

STAGING_NEW_VALUES, STAGING_NEW_STATUS = GPUHASH_STAGING_NEW_VALUES, GPUHASH_STAGING_NEW_STATUS
STAGING_PAST_CACHES = GPUHASH_STAGING_PAST_CACHES


cdef int32_t told(void *context, size_t done, size_t n) noexcept with gil:
    """The context is a list: what to call, and then an exception that the caller has to raise."""
    cdef list call = <list>context
    try:
        PyErr_CheckSignals()
        call[0](done, n)
    except BaseException as error:
        call.append(error)
        return 1
    return 0


def run_staged(TableHandle table, uint32_t op, size_t n, tuple arrays not None, tuple how not None,
               tuple staged not None, tuple chunks not None, uintptr_t device_values, uint32_t flags, object tell,
               uintptr_t calls=0):
    """Carry out a batch; returns when its results are there: (elements done, whether to drop the slots, exception).

    arrays : keys, values, ops, values that are found, statuses: of n elements as the library has them, contiguous; None
        where there is none.
    how : flags, combine and stream of the batch.
    staged : a list of slots, at most 16, (host, device, event, event) of each; bytes of a slot; the streams for
        copies up, and down. All of them are addresses.
    chunks : keys of a chunk at most, and of the first one.
    tell : called as tell(done, n) before each chunk is launched. What it raises ends the batch, and is raised when all
        that was launched is collected; so is what a signal raises.
    calls : address of a `gpuhash_staging_calls`, for tests; 0: those of the driver.

    The exception is of elements that found no room (`TableFull`), or of the call.
    """
    cdef gpuhash_slot rows[GPUHASH_MOST_SLOTS]
    cdef gpuhash_batch batch
    cdef gpuhash_staging staging
    cdef gpuhash_error err
    cdef gpuhash_status status
    cdef list call = [tell]
    cdef size_t i
    memset(&batch, 0, sizeof(batch))
    memset(&staging, 0, sizeof(staging))
    batch.struct_size, staging.struct_size = sizeof(batch), sizeof(staging)
    batch.op, batch.n = op, n
    keys, values, ops, out_values, out_status = arrays
    batch.keys = address(keys, 0)
    batch.values = NULL if values is None else address(values, 0)
    batch.ops = NULL if ops is None else <uint8_t *>address(ops, 0)
    batch.out_values = NULL if out_values is None else address(out_values, PyBUF_WRITABLE)
    batch.out_status = <uint8_t *>address(out_status, PyBUF_WRITABLE)
    batch.flags, batch.combine, batch.stream = how[0], how[1], <void *><uintptr_t>how[2]
    batch.value_type = table.value_kind
    cdef list slots = staged[0]
    if len(slots) > GPUHASH_MOST_SLOTS:
        raise ValueError(f"{len(slots)} slots are more than {GPUHASH_MOST_SLOTS}")
    for i, (host, device, uploaded, downloaded) in enumerate(slots):
        rows[i].host, rows[i].device = <void *><uintptr_t>host, <void *><uintptr_t>device
        rows[i].uploaded, rows[i].downloaded = <void *><uintptr_t>uploaded, <void *><uintptr_t>downloaded
    staging.slots, staging.n_slots, staging.slot_bytes = rows, <uint32_t>len(slots), staged[1]
    staging.up, staging.down = <void *><uintptr_t>staged[2], <void *><uintptr_t>staged[3]
    staging.most_keys, staging.first_keys = chunks
    staging.device_values, staging.flags = <void *>device_values, flags
    staging.tell, staging.context = told, <void *>call
    staging.calls = <gpuhash_staging_calls *>calls
    start_error(&err)
    table._enter()
    with nogil:
        status = gpuhash_run_staged(table.handle, &batch, &staging, &err)
    table._leave()
    if len(call) > 1:
        return staging.done, staging.in_doubt != 0, call[1]
    if status == GPUHASH_OK:
        return staging.done, staging.in_doubt != 0, None
    failure = batch_exception(status, &err, table._driver() if table._grow else -1)
    return staging.done, staging.in_doubt != 0, failure
