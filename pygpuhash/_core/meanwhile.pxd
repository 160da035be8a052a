# What the library calls while it waits, where that is a Python callable: the context is a list of it, to which an
# exception is appended that the caller has to raise.


cdef inline void run_meanwhile(void *context) noexcept with gil:
    cdef list call = <list>context
    try:
        call[0]()
    except BaseException as error:
        call.append(error)
