# cython: language_level=3, boundscheck=False, wraparound=False, embedsignature=True, freethreading_compatible=True
"""The library's status codes as exceptions, its text as Python's, and Python's text for it."""
from pygpuhash.gpuhash cimport *

import re

from pygpuhash import errors

__all__ = ["exception_of", "explain_no_memory"]

cdef dict EXCEPTIONS = {
    GPUHASH_INVALID_ARGUMENT: errors.InvalidArgument,
    GPUHASH_UNSUPPORTED: errors.Unsupported,
    GPUHASH_NO_MEMORY: errors.NoMemory,
    GPUHASH_FULL: errors.TableFull,
    GPUHASH_NOT_FOUND: errors.NotFound,
    GPUHASH_DEVICE_ERROR: errors.DeviceError,
    GPUHASH_POISONED: errors.Poisoned,
    GPUHASH_FORKED: errors.Forked,
    GPUHASH_PLUGIN_ERROR: errors.PluginError,
    GPUHASH_CORRUPT: errors.Corrupt,
}

# The library's way out is a trait; here there is an argument for it.
CHOOSE = re.compile("choose one with the trait (ACCUMULATE|MULTI|ORDERED)$")

cdef object CACHED_MEMORY = lambda device: ""


def explain_no_memory(cached_memory):
    """cached_memory : makes, of a device's number, a sentence on memory that other libraries hold there, or ""."""
    global CACHED_MEMORY
    CACHED_MEMORY = cached_memory


cdef object exception(gpuhash_status status, gpuhash_error *err, int device=-1):
    """The exception of an error. device : the GPU whose driver has refused memory, if a driver did."""
    cdef str message = text(err.message)
    if not message:
        message = "libgpuhash answered " + text(gpuhash_status_name(status))
    if status == GPUHASH_NO_MEMORY and device >= 0:
        message += CACHED_MEMORY(device)
    if status == GPUHASH_UNSUPPORTED:
        message = CHOOSE.sub(lambda found: f"create the table with needs=['{found[1].lower()}']", message)
    return EXCEPTIONS.get(status, errors.GpuHashError)(message)


def exception_of(gpuhash_status status, str message):
    """The exception of a status code, with this message."""
    return EXCEPTIONS.get(status, errors.GpuHashError)(message)


cdef object batch_exception(gpuhash_status status, gpuhash_error *err, int device=-1):
    """As `exception`, for a call in which single elements can fail."""
    if status == GPUHASH_OK:
        return errors.TableFull("the backend found no room for some elements, yet called the batch a success")
    if status == GPUHASH_NO_MEMORY:
        message = text(err.message) or "the table's memory is exhausted"
        return errors.HeapFull(message + CACHED_MEMORY(device) if device >= 0 else message)
    return exception(status, err)


cdef str text(const char *s):
    return None if s == NULL else (<bytes>s).decode("utf-8", "replace")


cdef int check(gpuhash_status status, gpuhash_error *err, int device=-1) except -1:
    if status != GPUHASH_OK:
        raise exception(status, err, device)
    return 0


cdef bytes encode(str s, str what):
    if "\0" in s:
        raise errors.InvalidArgument(f"{what} {s!r} contains a null character")
    return s.encode("utf-8", "surrogateescape")
