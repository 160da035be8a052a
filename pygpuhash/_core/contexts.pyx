# cython: language_level=3, boundscheck=False, wraparound=False, embedsignature=True, freethreading_compatible=True
"""Switches of the driver's context: two calls of each method that works on a GPU, at the cost of calls in C."""
from libc.stdint cimport uintptr_t

__all__ = ["ContextSwitch"]

ctypedef int (*push_type)(void *context) noexcept nogil
ctypedef int (*pop_type)(void **context) noexcept nogil


cdef class ContextSwitch:
    """Makes a context current in this thread, and puts the old one back.

    context : its handle. push, pop : the addresses of cuCtxPushCurrent and cuCtxPopCurrent. fails : a function, called
    with the name of one of them and its arguments when it has returned an error: it calls it again, and raises.
    """

    cdef void *context
    cdef push_type push
    cdef pop_type pop
    cdef object fails

    def __cinit__(self, uintptr_t context, uintptr_t push, uintptr_t pop, fails):
        self.context, self.fails = <void *>context, fails
        self.push, self.pop = <push_type>push, <pop_type>pop

    def __enter__(self):
        if self.push(self.context):
            self.fails("cuCtxPushCurrent", <uintptr_t>self.context)

    def __exit__(self, kind, error, trace):
        cdef void *old = NULL
        if self.pop(&old):
            self.fails("cuCtxPopCurrent")
