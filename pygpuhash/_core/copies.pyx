# cython: language_level=3, boundscheck=False, wraparound=False, embedsignature=True, freethreading_compatible=True
"""Copies of host memory on the threads that serve batches on the CPU, while the caller does something else."""
from libc.stdint cimport uint8_t, uint32_t, uintptr_t

from pygpuhash.gpuhash cimport *

__all__ = ["COPY_LOOK", "COPY_STREAM", "COPY_TOUCH", "Copies"]

COPY_LOOK, COPY_STREAM, COPY_TOUCH = GPUHASH_COPY_LOOK, GPUHASH_COPY_STREAM, GPUHASH_COPY_TOUCH


cdef class Copies:
    """Copies that begin now, in the order in which they are made: (to, from, bytes, flags) of each part, at most 8.

    Flags: COPY_LOOK, COPY_STREAM, COPY_TOUCH. `more`: others follow at once. The memory has to stay until `end`; an
    object that is dropped before is ended first.
    """
    cdef gpuhash_copies *handle

    def __cinit__(self, list parts, uint32_t threads=0, bint more=False):
        cdef gpuhash_copy rows[8]
        cdef size_t i, n = len(parts)
        if n > 8:
            raise ValueError(f"{n} parts are more than the 8 of one call")
        for i in range(n):
            to, source, size, flags = parts[i]
            rows[i].to = <void *><uintptr_t>to
            rows[i].from_ = <void *><uintptr_t>source
            rows[i].bytes = size
            rows[i].flags = flags
        with nogil:
            self.handle = gpuhash_copies_begin(n, rows, threads, more)
        if self.handle == NULL:
            raise MemoryError("no memory to begin copies of host memory")

    def done(self):
        """Whether everything is copied."""
        return self.handle == NULL or gpuhash_copies_help(self.handle, 0) == 1

    def help(self):
        """Copy a little on this thread, or look for about a microsecond if others have begun all that is left."""
        if self.handle != NULL:
            with nogil:
                gpuhash_copies_help(self.handle, 1)

    def end(self):
        """Copy what is left. Returns the bitwise or of the bytes that were looked at; 0 when called again."""
        return self._end()

    def __dealloc__(self):
        self._end()

    cdef uint8_t _end(self) noexcept:
        cdef gpuhash_copies *handle = self.handle
        cdef uint8_t seen = 0
        self.handle = NULL
        if handle != NULL:
            with nogil:
                seen = gpuhash_copies_end(handle)
        return seen
