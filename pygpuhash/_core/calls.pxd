# Calls that are inside a handle, and whether it is closed, in one word: either `close` or the last call that leaves is
# told to free the handle. Where Python has no global lock, the word changes atomically.
from libc.stdint cimport uint64_t


cdef extern from *:
    """
    #define GH_CLOSED ((uint64_t)1 << 63) /* the other bits count calls */

    #ifdef Py_GIL_DISABLED
    static inline int gh_enter(uint64_t *calls) {
      uint64_t seen = __atomic_load_n(calls, __ATOMIC_RELAXED);
      do {
        if (seen & GH_CLOSED) return 0;
      } while (!__atomic_compare_exchange_n(calls, &seen, seen + 1, 1, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED));
      return 1;
    }
    static inline int gh_leave(uint64_t *calls) {
      return __atomic_sub_fetch(calls, 1, __ATOMIC_ACQ_REL) == GH_CLOSED;
    }
    static inline int gh_close(uint64_t *calls) {
      return __atomic_fetch_or(calls, GH_CLOSED, __ATOMIC_ACQ_REL) == 0;
    }
    static inline int gh_is_closed(uint64_t *calls) {
      return (__atomic_load_n(calls, __ATOMIC_RELAXED) & GH_CLOSED) != 0;
    }
    #else
    static inline int gh_enter(uint64_t *calls) {
      if (*calls & GH_CLOSED) return 0;
      ++*calls;
      return 1;
    }
    static inline int gh_leave(uint64_t *calls) { return --*calls == GH_CLOSED; }
    static inline int gh_close(uint64_t *calls) {
      uint64_t seen = *calls;
      *calls = seen | GH_CLOSED;
      return seen == 0;
    }
    static inline int gh_is_closed(uint64_t *calls) { return (*calls & GH_CLOSED) != 0; }
    #endif
    """
    bint enter "gh_enter"(uint64_t *calls) noexcept         # begin a call; False: the handle is closed
    bint leave "gh_leave"(uint64_t *calls) noexcept         # end a call; True: free the handle now
    bint close_calls "gh_close"(uint64_t *calls) noexcept   # let no call begin any more; True: free the handle now
    bint is_closed "gh_is_closed"(uint64_t *calls) noexcept
