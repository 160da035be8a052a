# An object with allocate and deallocate as the library's memory resource.
from libc.stdint cimport uint64_t

from pygpuhash.gpuhash cimport gpuhash_memory

cdef int start_memory(gpuhash_memory *memory, object resource) except -1
cdef void end_memory(gpuhash_memory *memory, uint64_t made_in) noexcept
