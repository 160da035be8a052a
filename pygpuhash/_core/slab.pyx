# cython: language_level=3, boundscheck=False, wraparound=False, embedsignature=True, freethreading_compatible=True
"""SlabAlloc: one allocator of the library."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memset

from pygpuhash.gpuhash cimport *
from pygpuhash._core.calls cimport close_calls, enter, is_closed, leave
from pygpuhash._core.memory cimport end_memory, start_memory
from pygpuhash._core.process cimport fork_count, refuse_forked
from pygpuhash._core.status cimport check, encode, exception, start_error, text

from pygpuhash import errors

__all__ = ["CoreSlabAllocator"]


cdef class CoreSlabAllocator:
    """One gpuhash_slab_allocator; the calls take addresses of the allocator's device."""

    cdef gpuhash_slab_allocator *handle
    cdef gpuhash_memory memory
    cdef uint64_t forks
    cdef uint64_t calls

    def __cinit__(self):
        self.forks = fork_count()

    def _create(self, str kind, int device_kind, int ordinal, uint32_t unit_bytes, uint32_t super_blocks,
                uint32_t max_super_blocks, uint32_t memory_blocks, uint64_t seed, uint32_t threads, bint wipe,
                object memory, uintptr_t stream):
        cdef gpuhash_slab_config config
        cdef gpuhash_error err
        cdef gpuhash_status status
        if self.handle != NULL:
            raise errors.InvalidArgument("this allocator was created already: make a new SlabAllocator")
        encoded = encode(kind, "the allocator's kind")
        memset(&config, 0, sizeof(config))
        config.struct_size = sizeof(config)
        config.kind = encoded
        config.device.kind = device_kind
        config.device.ordinal = ordinal
        config.unit_bytes = unit_bytes
        config.super_blocks = super_blocks
        config.max_super_blocks = max_super_blocks
        config.memory_blocks = memory_blocks
        config.seed = seed
        config.threads = threads
        config.wipe = wipe
        config.stream = <void *>stream
        if memory is not None:
            start_memory(&self.memory, memory)
            config.memory = &self.memory
        start_error(&err)
        with nogil:
            status = gpuhash_slab_allocator_create(&config, &self.handle, &err)
        if status != GPUHASH_OK:
            self.handle = NULL
            end_memory(&self.memory, self.forks)
            if status == GPUHASH_NOT_FOUND:
                raise errors.BackendNotFound(text(err.message))
            raise exception(status, &err)

    def __dealloc__(self):
        self._destroy()

    cdef void _destroy(self) noexcept:
        cdef gpuhash_slab_allocator *handle = self.handle
        self.handle = NULL
        if handle != NULL:
            with nogil:
                gpuhash_slab_allocator_destroy(handle)
        end_memory(&self.memory, self.forks)

    cdef int _enter(self) except -1:
        if self.handle == NULL or not enter(&self.calls):
            raise errors.ClosedTable("this allocator is closed: create a new one")
        return 0

    cdef int _leave(self) except -1:
        if leave(&self.calls):
            self._destroy()
        return 0

    def close(self):
        """Free the allocator's memory. Closing twice is allowed."""
        if close_calls(&self.calls):
            self._destroy()

    @property
    def closed(self):
        return is_closed(&self.calls)

    def _refuse_forked(self):
        refuse_forked(self.forks, "allocator")

    def _call(self, str what, size_t n, uintptr_t units, uintptr_t out=0, uintptr_t stream=0):
        """"allocate", "free" (out: status) or "translate" (out: addresses). None, or the exception."""
        cdef gpuhash_error err
        cdef gpuhash_status status
        cdef int which = ("allocate", "free", "translate").index(what)
        start_error(&err)
        self._enter()
        with nogil:
            if which == 0:
                status = gpuhash_slab_allocate(self.handle, n, <uint32_t *>units, <void *>stream, &err)
            elif which == 1:
                status = gpuhash_slab_free(self.handle, n, <uint32_t *>units, <uint8_t *>out, <void *>stream, &err)
            else:
                status = gpuhash_slab_translate(self.handle, n, <uint32_t *>units, <void **>out, <void *>stream, &err)
        self._leave()
        return None if status == GPUHASH_OK else exception(status, &err)

    def stats(self):
        """Units, allocated units, bytes, super blocks and full memory blocks, as a dict of ints."""
        cdef gpuhash_error err
        cdef gpuhash_status status
        cdef gpuhash_slab_stats figures
        memset(&figures, 0, sizeof(figures))
        figures.struct_size = sizeof(figures)
        start_error(&err)
        self._enter()
        with nogil:
            status = gpuhash_slab_get_stats(self.handle, &figures, &err)
        self._leave()
        check(status, &err)
        return {"units": figures.units, "allocated": figures.allocated, "bytes": figures.bytes,
                "super_blocks": figures.super_blocks, "full_blocks": figures.full_blocks}
