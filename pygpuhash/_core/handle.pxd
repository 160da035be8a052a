# One gpuhash_table, and the dtypes that its bits stand for.
from libc.stdint cimport uint32_t, uint64_t

from pygpuhash.gpuhash cimport gpuhash_memory, gpuhash_table


cdef class TableHandle:
    cdef gpuhash_table *handle
    cdef gpuhash_memory memory
    cdef uint64_t forks         # before it was made
    cdef uint64_t calls         # threads inside the library with this handle, and whether it is closed: calls.pxd
    cdef readonly object key_dtype, value_dtype      # what the user asked for
    cdef readonly object _key_store, _value_store    # what the library sees: 4 or 8 bytes
    cdef readonly object _stream                     # default stream of the calls, and its owner
    cdef readonly int _kind, _ordinal
    cdef readonly bint _grow
    cdef readonly dict _options                      # of the backend, as texts
    cdef readonly uint32_t _threads                  # of a batch on the CPU; 0: one on each CPU
    cdef readonly bint _behind_bus                   # slots in memory of the host: larger batches reach them faster
    cdef int _piece_shift                            # pieces of host batches are so many times longer
    cdef uint32_t key_bytes, value_bytes
    cdef uint32_t value_kind                         # how accumulate reads the stored values
    cdef int key_plain, value_plain                  # how a Python number becomes an element
    cdef object key_type, value_type                 # numpy's scalars of the dtypes
    cdef object key_twin, value_twin                 # the integer dtypes of the other sign, or None
    cdef int key_code, value_code                    # of the dtypes, as DLPack has them

    cdef void _destroy(self) noexcept
    cdef int _enter(self) except -1
    cdef int _leave(self) except -1
    cdef int _driver(self) noexcept
    cdef int _want_made(self) except -1
