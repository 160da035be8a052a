# Forks between the process that has imported the package and this one; whether the interpreter ends.
from libc.stdint cimport uint64_t

cdef uint64_t fork_count() noexcept nogil
cdef bint is_ending() noexcept nogil
cdef int refuse_forked(uint64_t made_in, str what) except -1
