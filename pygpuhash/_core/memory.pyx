# cython: language_level=3, boundscheck=False, wraparound=False, embedsignature=True, freethreading_compatible=True
"""Memory resources: where the storage of tables and allocators is taken from.

A Python object with allocate(nbytes, alignment, stream) -> address (0 or None: no memory) and
deallocate(address, nbytes, alignment, stream). An exception in allocate is reported as unraisable, and the library
sees that there was no memory.
"""
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport uint64_t, uintptr_t

from pygpuhash.gpuhash cimport gpuhash_memory
from pygpuhash._core.process cimport fork_count, is_ending

import operator


cdef void *memory_allocate(void *context, size_t nbytes, size_t alignment, void *stream) noexcept with gil:
    try:
        got = (<object>context).allocate(nbytes, alignment, <uintptr_t>stream)
    except MemoryError:
        return NULL
    cdef uintptr_t place = 0 if got is None else operator.index(got)
    if place % alignment:
        (<object>context).deallocate(place, nbytes, alignment, <uintptr_t>stream)
        raise ValueError(f"memory.allocate returned {place:#x}, which is no multiple of {alignment}: align it")
    return <void *>place


cdef void deallocate_now(void *context, void *p, size_t nbytes, size_t alignment, void *stream) noexcept with gil:
    (<object>context).deallocate(<uintptr_t>p, nbytes, alignment, <uintptr_t>stream)


cdef void memory_deallocate(void *context, void *p, size_t nbytes, size_t alignment, void *stream) noexcept nogil:
    if not is_ending():
        deallocate_now(context, p, nbytes, alignment, stream)


cdef int start_memory(gpuhash_memory *memory, object resource) except -1:
    """Fill in the callbacks and take a reference, which `end_memory` gives back after the last callback."""
    for name in ("allocate", "deallocate"):
        if not callable(getattr(resource, name, None)):
            raise TypeError(f"memory={resource!r} has no method {name}: pass an object with "
                            "allocate(nbytes, alignment, stream) and deallocate(address, nbytes, alignment, stream)")
    memory.struct_size = sizeof(gpuhash_memory)
    memory.context = <void *>resource
    memory.allocate = memory_allocate
    memory.deallocate = memory_deallocate
    Py_INCREF(resource)
    return 0


cdef void end_memory(gpuhash_memory *memory, uint64_t made_in) noexcept:
    if memory.context != NULL and not is_ending() and made_in == fork_count():
        Py_DECREF(<object>memory.context)
    memory.context = NULL
