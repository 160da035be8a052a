# cython: language_level=3, boundscheck=False, wraparound=False, embedsignature=True, freethreading_compatible=True
"""The end of the process, and forks.

What a library of the device holds for this package is given back neither in the child of a fork, where the driver of
the parent would be called, nor while the interpreter ends, when the modules of that library may be gone.
"""
from cpython.ref cimport Py_INCREF
from libc.stdint cimport uint64_t

import atexit

from pygpuhash import errors

__all__ = ["abandoned", "forks", "keep"]

cdef extern from "<pthread.h>" nogil:
    int pthread_atfork(void (*prepare)() noexcept nogil, void (*parent)() noexcept nogil,
                       void (*child)() noexcept nogil)

cdef uint64_t FORKS = 0  # between the process that has imported this module and this one
cdef bint ENDING = False


cdef void count_fork() noexcept nogil:
    global FORKS
    FORKS += 1


pthread_atfork(NULL, NULL, count_fork)


@atexit.register
def _begin_end():
    global ENDING
    ENDING = True


def forks():
    """How many forks lie between the process that has imported this module and this one."""
    return FORKS


def abandoned(uint64_t made_in):
    """Is what was made after so many forks the parent's, or the interpreter at its end?"""
    return ENDING or made_in != FORKS


def keep(thing):
    """Keep an object until the process ends."""
    Py_INCREF(thing)


cdef uint64_t fork_count() noexcept nogil:
    return FORKS


cdef bint is_ending() noexcept nogil:
    return ENDING


cdef int refuse_forked(uint64_t made_in, str what) except -1:
    """Refuse a parent's object in a forked child, before the driver, which is not initialised there, is called."""
    if made_in != FORKS:
        raise errors.Forked(f"this {what} was created before a fork and belongs to the parent process; create a new "
                            "one in the child")
