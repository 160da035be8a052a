# Calls that are inside a handle, and whether it is closed, in one word that changes atomically: with or without Python's
# global lock, exactly one of `close`, the last call that leaves, and the object's end is told to free the handle.
from libc.stdint cimport uint64_t


cdef extern from *:
    """
    #define GH_CLOSED ((uint64_t)1 << 63) /* the other bits count calls */

    /* Begin a call; 0: the handle is closed. */
    static inline int gh_enter(uint64_t *calls) {
      uint64_t seen = __atomic_load_n(calls, __ATOMIC_RELAXED);
      do {
        if (seen & GH_CLOSED) return 0;
      } while (!__atomic_compare_exchange_n(calls, &seen, seen + 1, 1, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED));
      return 1;
    }

    /* End a call. Is the handle to be freed now? */
    static inline int gh_leave(uint64_t *calls) {
      return __atomic_sub_fetch(calls, 1, __ATOMIC_ACQ_REL) == GH_CLOSED;
    }

    /* Let no call begin from now on. Is the handle to be freed now? */
    static inline int gh_close(uint64_t *calls) {
      return __atomic_fetch_or(calls, GH_CLOSED, __ATOMIC_ACQ_REL) == 0;
    }

    static inline int gh_is_closed(uint64_t *calls) {
      return (__atomic_load_n(calls, __ATOMIC_RELAXED) & GH_CLOSED) != 0;
    }
    """
    bint enter "gh_enter"(uint64_t *calls) noexcept nogil
    bint leave "gh_leave"(uint64_t *calls) noexcept nogil
    bint close_calls "gh_close"(uint64_t *calls) noexcept nogil
    bint is_closed "gh_is_closed"(uint64_t *calls) noexcept nogil
