# cython: language_level=3, boundscheck=False, wraparound=False, embedsignature=True, freethreading_compatible=True
"""Streams, and the short path of device arrays.

An array of CuPy or PyTorch, or of our own, that is on the table's device, of the stored dtype, C-contiguous, and
whose library's current stream is the stream of the call, needs no conversion, no waiting and no questions. It is
described by its library's table of C functions for DLPack where there is one (PyTorch 2.10 and newer), else by its
attributes. Every other array is left to `_device_arrays.py`, which also finds the words for what cannot be taken.
"""
from cpython.exc cimport PyErr_Clear
from cpython.long cimport PyLong_AsUnsignedLongLong, PyLong_Check
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid
from libc.stdint cimport int32_t, int64_t, uintptr_t

import sys

import numpy

from pygpuhash import errors

__all__ = ["own_arrays", "stream_handle"]

cdef object ndarray = numpy.ndarray


# ---- streams ---------------------------------------------------------------------------------------------------------


def stream_handle(stream):
    """The address of a CUDA stream: from `__cuda_stream__`, `.cuda_stream`, `.ptr`, or an int; 0 for None."""
    return handle_of(stream)


cdef uintptr_t handle_of(object stream) except? 1:
    if stream is None:
        return 0
    handle = stream
    if not PyLong_Check(stream):
        protocol = getattr(stream, "__cuda_stream__", None)
        if protocol is not None:
            pair = protocol() if callable(protocol) else protocol
            if len(pair) != 2 or pair[0] != 0:
                raise errors.InvalidArgument(f"stream={stream!r} answers __cuda_stream__ with {pair!r}: version 0 is "
                                             "understood")
            handle = pair[1]
            if not handle and getattr(stream, "is_closed", False):
                raise errors.InvalidArgument(f"stream={stream!r} is closed: pass one that is open")
        else:
            for name in ("cuda_stream", "ptr"):
                if hasattr(stream, name):
                    handle = getattr(stream, name)
                    break
    if isinstance(handle, bool) or not isinstance(handle, (int, numpy.integer)):
        raise TypeError(f"stream={stream!r} is not a stream: pass an object with __cuda_stream__, .cuda_stream or "
                        ".ptr")
    if not 0 <= handle < 1 << 64:
        raise errors.InvalidArgument(f"stream={stream!r}: {int(handle)} is not an address")
    return <uintptr_t>PyLong_AsUnsignedLongLong(int(handle))


# ---- libraries of arrays ---------------------------------------------------------------------------------------------

cdef dict LIBRARIES = {}            # of the types of arrays that were met


cdef class Library:
    """How arrays of one type are described, and new ones made."""

    cdef bint current_stream(self, int32_t device, uintptr_t *stream) except -1:
        """The stream on which the library would launch work now: its arrays are ready for it. False: unknown.

        An array of our own brings its stream, which is left as it is.
        """
        cdef void *found = NULL
        if self.way == EXCHANGE:
            if self.exchange.current_stream(ON_CUDA, device, &found) != 0:
                PyErr_Clear()
                return False
            stream[0] = <uintptr_t>found
        elif self.way == CUPY:
            stream[0] = self.stream_of(device).ptr
        return True

    cdef bint look(self, object array, object dtype, int code, uintptr_t stream, Seen *seen) except -1:
        """Is this an array of the dtype that can be passed as it is? Then where it lies is written to `seen`."""
        cdef gh_dl_tensor t
        cdef int i
        if self.way == EXCHANGE:
            if self.exchange.describe(<void *>array, &t) != 0:
                PyErr_Clear()
                return False
            if (t.device.type != ON_CUDA or t.dtype.lanes != 1 or (<int>t.dtype.code << 8 | t.dtype.bits) != code
                    or t.ndim > MOST_DIMENSIONS or not rows_follow(&t)):
                return False
            if t.dtype.code == 2 and getattr(array, "requires_grad", False):
                return False
            seen.at = <char *>t.data + t.byte_offset
            seen.device = t.device.id
            seen.dimensions = t.ndim
            for i in range(t.ndim):
                seen.shape[i] = t.shape[i]
            return True
        if <void *>array.dtype != <void *>dtype:
            return False
        if self.way == CUPY:
            if not (array._c_contiguous if self.says_contiguous else array.flags.c_contiguous):
                return False
            data = array.data
            seen.at = <char *><uintptr_t>data.ptr
            seen.device = data.device_id
        else:
            if <uintptr_t>array.stream != stream:
                return False
            seen.at = <char *><uintptr_t>array.ptr
            seen.device = array.device
        cdef tuple shape = array.shape
        seen.dimensions = len(shape)
        if seen.dimensions > MOST_DIMENSIONS:
            return False
        for i in range(seen.dimensions):
            seen.shape[i] = shape[i]
        return True

    cdef object like(self, object array, object dtype, int32_t device):
        """A new array of the shape of another, usable on the library's current stream; None where that is not sure."""
        if self.make is None:
            return None
        if self.way == EXCHANGE:
            return self.make(array, dtype=self.own_dtype(dtype))
        return self.make(array.shape, dtype) if self.current_device() == device else None

    cdef object own_dtype(self, object dtype):
        """PyTorch's."""
        own = self.dtypes.get(dtype)
        if own is None:
            own = self.dtypes[dtype] = getattr(self.module, dtype.name)
        return own

    cdef object filled(self, object array, object number, object dtype, int32_t device):
        """As `like`, with one number for all elements."""
        if self.make is None:
            return None
        if self.way == EXCHANGE:
            return self.module.full_like(array, number, dtype=self.own_dtype(dtype))
        new = self.like(array, dtype, device)
        if new is not None:
            new.fill(number)
        return new


cdef bint rows_follow(gh_dl_tensor *t) noexcept:
    """Is it C-contiguous?"""
    cdef int64_t expected = 1
    cdef int i
    cdef bint follow = True
    if t.strides == NULL:
        return True
    for i in range(t.ndim - 1, -1, -1):
        if t.shape[i] > 1 and t.strides[i] != expected:
            follow = False
        expected *= t.shape[i]
    return follow or expected == 0


cdef Library library_of(object kind):
    """The library of arrays of this type, if they can take the short path; else None."""
    if kind is ndarray or kind is int:
        return None
    found = LIBRARIES.get(kind)
    return found if found is not None else new_library(kind)


def own_arrays(kind):
    """Introduce the type of the package's own device arrays, which bring their stream."""
    cdef Library library = Library()
    library.way = OWN
    library.writable = True
    LIBRARIES[kind] = library


cdef Library new_library(object kind):
    cdef Library library = Library()
    cdef gh_dl_exchange *exchange
    name = f"{kind.__module__.partition('.')[0]}.{kind.__name__}"
    if name == "cupy.ndarray":
        cuda = sys.modules["cupy"].cuda
        library.way = CUPY
        library.stream_of = cuda.get_current_stream
        library.current_device = cuda.runtime.getDevice
        library.make = kind
        library.writable = True
        library.says_contiguous = hasattr(kind, "_c_contiguous")
    else:
        capsule = vars(kind).get("__dlpack_c_exchange_api__")  # of this very type, not of one that it derives from
        if not PyCapsule_IsValid(capsule, "dlpack_exchange_api"):
            return None
        exchange = <gh_dl_exchange *>PyCapsule_GetPointer(capsule, "dlpack_exchange_api")
        if exchange.major != 1 or exchange.describe == NULL or exchange.current_stream == NULL:
            return None
        library.way = EXCHANGE
        library.exchange = exchange
        if name == "torch.Tensor":
            library.module = sys.modules["torch"]
            library.make = library.module.empty_like
            library.current_device = library.module.cuda.current_device
            library.dtypes = {}
            library.writable = True
    LIBRARIES[kind] = library
    return library


cdef bint same_size(Seen *a, Seen *b) noexcept:
    cdef int i
    if a.dimensions != b.dimensions:
        return False
    for i in range(a.dimensions):
        if a.shape[i] != b.shape[i]:
            return False
    return a.device == b.device


cdef size_t elements(Seen *a) noexcept:
    cdef size_t n = 1
    cdef int i
    for i in range(a.dimensions):
        n *= <size_t>a.shape[i]
    return n


cdef int dlpack_code(object dtype):
    """The code and the bits of a dtype, as DLPack has them; -1 for what it does not have."""
    cdef object code = None if dtype is None else {"i": 0, "u": 1, "f": 2, "b": 6}.get(dtype.kind)
    return -1 if code is None else code << 8 | dtype.itemsize * 8
