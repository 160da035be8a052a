# cython: language_level=3, boundscheck=False, wraparound=False, embedsignature=True
"""The extension module: libgpuhash's handles and calls, its status codes as exceptions, array pointers.

What is an acceptable array is decided in `_arrays.py` (host) and `_device.py` (CUDA); this module has the short paths
for arrays that can be passed as they are: of numpy, so that a call costs about a microsecond, and of CuPy and PyTorch,
so that Python adds little to what the driver takes for a launch.

Rules that hold for every call:
  - the GIL is released while libgpuhash runs;
  - a host batch longer than a piece (`piece`) is passed in pieces, and signals are handled in between, so that Ctrl-C
    works;
  - a status byte becomes part of a mask only when it is 0 or 1: one of 2 or above raises;
  - a table that is closed while another thread is inside a call is destroyed by the last call that leaves.
"""
from cpython.buffer cimport PyBUF_C_CONTIGUOUS, PyBUF_WRITABLE, Py_buffer, PyBuffer_Release, PyObject_GetBuffer
from cpython.exc cimport PyErr_CheckSignals, PyErr_Clear
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_AsUnsignedLongLong, PyLong_Check
from cpython.pycapsule cimport (
    PyCapsule_GetPointer, PyCapsule_IsValid, PyCapsule_New, PyCapsule_SetName
)
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free
from libc.math cimport isinf
from libc.string cimport memcpy, memset
from numpy cimport (
    NPY_ARRAY_ALIGNED, NPY_ARRAY_C_CONTIGUOUS, NPY_ARRAY_WRITEABLE, NPY_BOOL, PyArray_BYTES,
    PyArray_CHKFLAGS, PyArray_DESCR, PyArray_DIM, PyArray_DIMS, PyArray_EMPTY, PyArray_ITEMSIZE, PyArray_NBYTES,
    PyArray_NDIM, PyArray_ScalarAsCtype, PyArray_SIZE, import_array, npy_intp
)
from numpy cimport dtype as Dtype, ndarray as Array

from pygpuhash.gpuhash cimport *

cdef extern from "numpy/arrayobject.h":
    object PyArray_Scalar(void *data, Dtype dtype, object base)

import atexit
import operator
import re
import sys
from time import monotonic

import numpy

from pygpuhash import _arguments, errors

__all__ = ["CoreSlabAllocator", "CoreTable"]

cdef object ndarray = numpy.ndarray
cdef object empty = numpy.empty
cdef object BOOL = numpy.dtype(bool)
cdef object UINT8 = numpy.dtype(numpy.uint8)
cdef object UINT64 = numpy.dtype(numpy.uint64)
cdef object INT64 = numpy.dtype(numpy.int64)
cdef object INT32 = numpy.dtype(numpy.int32)
cdef object TRUE = numpy.True_
cdef object FALSE = numpy.False_

import_array()

cdef size_t PIECE = 1 << 21  # host keys per call into the library: a fraction of a second even on a busy machine
cdef size_t FULL_PIECE = 1 << 17  # of a table that may be full: what finds no room there may take microseconds each
cdef size_t LEAST_PIECE = 1 << 14
cdef double SLOW = 0.5  # seconds: after a piece that took longer the next one is a quarter as long
cdef double FAST = 0.06  # after one that took less it is twice as long
cdef size_t PIECES_AT_ONCE = 8  # of a batch that adds keys to a backend that sorts them
cdef object MERGED = (GPUHASH_OP_INSERT, GPUHASH_OP_ASSIGN, GPUHASH_OP_ACCUMULATE)


def piece(size_t keys=0, size_t full=0):
    """Host keys per call into the library, and of a table that may be full; numbers above 0 change them, for tests.

    Returns what the first one was.
    """
    global PIECE, FULL_PIECE, LEAST_PIECE
    was = PIECE
    if keys:
        PIECE = keys
    if full:
        FULL_PIECE = full
        LEAST_PIECE = min(LEAST_PIECE, full)
    return was


cdef int WATCHED = 0  # contexts in which somebody wants to be told how far batches have come


def watched(int change):
    """For `progress`, which enters and leaves contexts."""
    global WATCHED
    WATCHED += change


cdef int tell(size_t done, size_t n) except -1:
    """How far a batch has come, to whoever asked for it in this context."""
    from pygpuhash import _progress

    report = _progress.current()
    if report is not None:
        report(done, n)
    return 0


OP_INSERT = GPUHASH_OP_INSERT
OP_ASSIGN = GPUHASH_OP_ASSIGN
OP_ACCUMULATE = GPUHASH_OP_ACCUMULATE
OP_FIND = GPUHASH_OP_FIND
OP_ERASE = GPUHASH_OP_ERASE
OP_INSERT_MULTI = GPUHASH_OP_INSERT_MULTI
OP_COUNT = GPUHASH_OP_COUNT
OP_ERASE_ALL = GPUHASH_OP_ERASE_ALL
OP_EXECUTE = GPUHASH_OP_EXECUTE
DEDUP_LAST = GPUHASH_DEDUP_LAST
CPU = GPUHASH_CPU
CUDA = GPUHASH_CUDA

ADDING = frozenset((OP_INSERT, OP_ASSIGN, OP_ACCUMULATE, OP_INSERT_MULTI, OP_EXECUTE))
cdef dict COMBINE = {"add": GPUHASH_ADD, "min": GPUHASH_MIN, "max": GPUHASH_MAX}
cdef dict VALUE_TYPE = {"u": GPUHASH_UINT, "i": GPUHASH_INT, "f": GPUHASH_FLOAT}  # by the kind of the stored dtype
TRAITS = {
    "insert": GPUHASH_TRAIT_INSERT,
    "accumulate": GPUHASH_TRAIT_ACCUMULATE,
    "multi": GPUHASH_TRAIT_MULTI,
    "ordered": GPUHASH_TRAIT_ORDERED,
    "grow": GPUHASH_TRAIT_GROW,
    "wide": GPUHASH_TRAIT_WIDE,
    "flush": GPUHASH_TRAIT_FLUSH,
}

# ---- the end of the process, and forks -------------------------------------------------------------------------------
# What a library of the device holds for this package is given back neither in the child of a fork, where the driver of
# the parent would be called, nor while the interpreter ends, when the modules of that library may be gone.

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
    """Never let an object go."""
    Py_INCREF(thing)


cdef int refuse_forked(uint64_t made_in, str what) except -1:
    """Before anything of the driver is touched, which could only say that it is not initialised; as in fork.hpp."""
    if made_in != FORKS:
        raise errors.Forked(f"this {what} was created before a fork and belongs to the parent process; create a new "
                            "one in the child")
    return 0

# ---- errors ----------------------------------------------------------------------------------------------------------

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
# What the library says of the elements of one call, which may be a piece of a batch.
OF_A_PIECE = re.compile(r"^[0-9]+ of [0-9]+ elements")


cdef void start_error(gpuhash_error *err) noexcept nogil:
    err.struct_size = sizeof(gpuhash_error)
    err.code = GPUHASH_OK
    err.message[0] = 0


cdef object exception(gpuhash_status status, gpuhash_error *err, int device=-1):
    """`device`: the number of the one whose driver has refused memory, if it was a driver."""
    cdef str message = text(err.message)
    if not message:
        message = "libgpuhash answered " + text(gpuhash_status_name(status))
    if status == GPUHASH_NO_MEMORY and device >= 0:
        message += _cuda.cached_memory(device)
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
        return errors.HeapFull(message + _cuda.cached_memory(device) if device >= 0 else message)
    return exception(status, err)


cdef str text(const char *s):
    return None if s == NULL else (<bytes>s).decode("utf-8", "replace")


cdef int check(gpuhash_status status, gpuhash_error *err, int device=-1) except -1:
    if status != GPUHASH_OK:
        raise exception(status, err, device)
    return 0

# ---- array pointers --------------------------------------------------------------------------------------------------


cdef char *address(object array, int flags) except? NULL:
    """Where a C-contiguous array lies. The caller holds the array, so the memory outlives the buffer."""
    cdef Py_buffer view
    PyObject_GetBuffer(array, &view, PyBUF_C_CONTIGUOUS | flags)
    cdef char *p = <char *>view.buf
    PyBuffer_Release(&view)
    return p


def check_ops(ops, bint accumulates):
    """Refuse op codes that execute does not have, in a C-contiguous uint8 array, before anything is touched."""
    cdef size_t n = ops.size, i
    cdef const uint8_t *p = <const uint8_t *>address(ops, 0)
    cdef uint8_t most = GPUHASH_OP_ERASE
    cdef uint8_t bad = 0
    with nogil:
        for i in range(n):
            bad |= (p[i] > most) | ((p[i] == GPUHASH_OP_ACCUMULATE) & (not accumulates))
    if not bad:
        return
    for i in range(n):
        if p[i] > most:
            raise errors.InvalidArgument(f"ops[{i}] is {p[i]}, which execute does not have: use the codes of "
                                         "pygpuhash.Op from NOP (0) to ERASE (5)")
        if p[i] == GPUHASH_OP_ACCUMULATE and not accumulates:
            raise errors.InvalidArgument(f"ops[{i}] is ACCUMULATE (3), but this table is a set "
                                         "(value_dtype=None), or its values are no single numbers")


cdef bint plain(object array, object dtype) noexcept:
    """Can this be passed on as it is: a numpy array of this very dtype, C-contiguous and aligned?"""
    return (
        type(array) is ndarray
        and <void *>PyArray_DESCR(<Array>array) == <void *>dtype
        and PyArray_CHKFLAGS(<Array>array, NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED)
    )


cdef bint plain_but_for_sign(object array, object twin) noexcept:
    """The same for an array of the twin of the dtype, signed or unsigned, whose numbers all mean the same in both."""
    cdef const char *p
    cdef uint64_t seen = 0
    cdef npy_intp i, n
    if twin is None or not plain(array, twin):
        return False
    p = PyArray_BYTES(<Array>array)
    n = PyArray_SIZE(<Array>array)
    if PyArray_ITEMSIZE(<Array>array) == 8:
        with nogil:
            for i in range(n):
                seen |= (<const uint64_t *>p)[i]
        return seen >> 63 == 0
    with nogil:
        for i in range(n):
            seen |= (<const uint32_t *>p)[i]
    return seen >> 31 == 0


cdef bint all_true(object mask) noexcept:
    """Is this a mask of ours in host memory, and true everywhere?"""
    cdef const uint8_t *p
    cdef npy_intp i
    cdef uint8_t all_of_them = 1
    if mask is TRUE:
        return True
    if not plain(mask, BOOL):
        return False
    p = <const uint8_t *>PyArray_BYTES(<Array>mask)
    for i in range(PyArray_SIZE(<Array>mask)):
        all_of_them &= p[i]
    return all_of_them


cdef bint same_shape(Array a, Array b) noexcept:
    cdef int i
    if PyArray_NDIM(a) != PyArray_NDIM(b):
        return False
    for i in range(PyArray_NDIM(a)):
        if PyArray_DIM(a, i) != PyArray_DIM(b, i):
            return False
    return True


cdef Array output(object given, object dtype, Array keys, str what):
    """The memory that results are written to, or an error that says what is wrong with it."""
    if plain(given, dtype) and PyArray_CHKFLAGS(<Array>given, NPY_ARRAY_WRITEABLE) and same_shape(<Array>given, keys):
        return <Array>given
    return _arrays.output(given, dtype, (<object>keys).shape, what)


cdef Array empty_like(Array like, object dtype):
    """An array of this shape. Of void dtypes, numpy's number does not tell the size."""
    if dtype.kind == "V":
        return numpy.empty((<object>like).shape, dtype)
    return PyArray_EMPTY(PyArray_NDIM(like), PyArray_DIMS(like), dtype.num, 0)


cdef int refuse_overlap(Array out, str what, Array other, str other_what) except -1:
    """Outputs lie apart from inputs and from each other. All of them are C-contiguous."""
    cdef char *a
    cdef char *b
    if out is None or other is None:
        return 0
    a = PyArray_BYTES(out)
    b = PyArray_BYTES(other)
    if a < b + PyArray_NBYTES(other) and b < a + PyArray_NBYTES(out):
        raise errors.InvalidArgument(f"{what} overlaps {other_what}: pass an array of its own")
    return 0


def refuse_overlaps(tuple inputs, tuple outputs):
    """The same for C-contiguous inputs (keys, values, ops) and outputs (out, mask), of which any may be None."""
    for given, what in zip(outputs, ("out", "the mask")):
        for other, other_what in zip(inputs, ("keys", "values", "ops")):
            refuse_overlap(given, what, other, other_what)
    refuse_overlap(outputs[1], "the mask", outputs[0], "out")


# ---- single numbers --------------------------------------------------------------------------------------------------
# The short path of t[5] and of t.insert(keys, 1): a Python number, or a numpy scalar of the very dtype, that the dtype
# holds as it is becomes its bytes. Everything else goes through `_arrays.to_store`, which also finds the words for what
# does not fit.

cdef enum Plain:
    NOT_PLAIN, U4, U8, I4, I8, F4, F8

cdef dict PLAIN = {"u4": U4, "u8": U8, "i4": I4, "i8": I8, "f4": F4, "f8": F8}


cdef bint read_integer(object given, int kind, void *cell) except -1:
    cdef int overflow = 0
    cdef long long i = PyLong_AsLongLongAndOverflow(given, &overflow)
    if overflow:
        if overflow < 0 or kind != U8:
            return False
        try:
            (<uint64_t *>cell)[0] = PyLong_AsUnsignedLongLong(given)
        except OverflowError:
            return False
        return True
    if kind == I8:
        (<int64_t *>cell)[0] = i
        return True
    if kind == U8:
        (<uint64_t *>cell)[0] = <uint64_t>i
        return i >= 0
    if kind == I4:
        (<int32_t *>cell)[0] = <int32_t>i
        return -2147483648 <= i <= 2147483647
    if kind == U4:
        (<uint32_t *>cell)[0] = <uint32_t>i
        return 0 <= i <= 4294967295
    if kind == F4:
        (<float *>cell)[0] = <float>i
        return -(1 << 24) <= i <= 1 << 24
    (<double *>cell)[0] = <double>i
    return -(1LL << 53) <= i <= 1LL << 53


cdef bint read_float(object given, int kind, void *cell) except -1:
    cdef double f
    if kind != F4 and kind != F8:
        return False
    f = given
    if kind == F8:
        (<double *>cell)[0] = f
        return True
    (<float *>cell)[0] = <float>f
    return isinf(f) or not isinf(<double>(<float *>cell)[0])


cdef bint read_number(object given, int kind, object scalar_type, void *cell) except -1:
    """Is this a number that an element holds? Then its bytes are in the cell, which has room for 8."""
    cdef object t = type(given)
    if kind == NOT_PLAIN:
        return False
    if t is int:
        return read_integer(given, kind, cell)
    if t is float:
        return read_float(given, kind, cell)
    if t is scalar_type:
        PyArray_ScalarAsCtype(given, cell)
        return True
    return False


cdef void fill(char *p, size_t n, size_t bytes_each, const void *cell) noexcept nogil:
    cdef size_t i
    if bytes_each == 8:
        for i in range(n):
            (<uint64_t *>p)[i] = (<const uint64_t *>cell)[0]
    else:
        for i in range(n):
            (<uint32_t *>p)[i] = (<const uint32_t *>cell)[0]


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

# ---- device arrays: the short path -----------------------------------------------------------------------------------
# An array of CuPy or PyTorch, or of our own, that is on the table's device, of the stored dtype, C-contiguous, and
# whose library's current stream is the stream of the call, needs no conversion, no waiting and no questions. It is
# described by its library's table of C functions for DLPack where there is one (PyTorch 2.10 and newer), else by its
# attributes. Every other array is left to `_device.py`, which also finds the words for what cannot be taken.

cdef extern from *:
    """
    typedef struct { int32_t type, id; } gh_dl_device;
    typedef struct { uint8_t code, bits; uint16_t lanes; } gh_dl_dtype;
    typedef struct {
      void *data; gh_dl_device device; int32_t ndim; gh_dl_dtype dtype; int64_t *shape, *strides; uint64_t byte_offset;
    } gh_dl_tensor;
    typedef struct gh_dl_managed {
      gh_dl_tensor tensor; void *context; void (*deleter)(struct gh_dl_managed *);
    } gh_dl_managed;
    static void gh_dl_delete(gh_dl_managed *m) { if (m->deleter) m->deleter(m); }
    typedef struct gh_dl_exchange {
      uint32_t major, minor;
      struct gh_dl_exchange *older;
      void *allocate, *export_array, *import_array;
      int (*describe)(void *array, gh_dl_tensor *out);
      int (*current_stream)(int32_t device_type, int32_t device, void **out);
    } gh_dl_exchange;
    """
    ctypedef struct gh_dl_device:
        int32_t type
        int32_t id
    ctypedef struct gh_dl_dtype:
        uint8_t code
        uint8_t bits
        uint16_t lanes
    ctypedef struct gh_dl_tensor:
        void *data
        gh_dl_device device
        int32_t ndim
        gh_dl_dtype dtype
        int64_t *shape
        int64_t *strides
        uint64_t byte_offset
    ctypedef struct gh_dl_managed:
        gh_dl_tensor tensor
        void *context
        void (*deleter)(gh_dl_managed *) noexcept nogil
    void gh_dl_delete(gh_dl_managed *m)
    ctypedef struct gh_dl_exchange:
        uint32_t major
        int (*describe)(void *array, gh_dl_tensor *out)
        int (*current_stream)(int32_t device_type, int32_t device, void **out)

cdef enum:
    MOST_DIMENSIONS = 8
    ON_CUDA = 2                     # DLPack's numbers: the device,
    CODE_OF_BOOL = 6 << 8 | 8       # and dtypes, as the code and the bits
    CODE_OF_UINT8 = 1 << 8 | 8
    CODE_OF_INT64 = 0 << 8 | 64
    CODE_OF_INT32 = 0 << 8 | 32

cdef enum Way:
    EXCHANGE, CUPY, OWN

cdef struct Seen:
    char *at
    int32_t device
    int dimensions
    int64_t shape[MOST_DIMENSIONS]

cdef dict LIBRARIES = {}            # of the types of arrays that were met


cdef class Library:
    """How arrays of one type are described, and new ones made."""

    cdef Way way
    cdef gh_dl_exchange *exchange
    cdef object stream_of           # CuPy's current stream on a device
    cdef object current_device      # CuPy's
    cdef object make                # CuPy: a new array of a shape and a dtype; PyTorch: one like another, of a dtype
    cdef object module              # PyTorch: where its dtypes are
    cdef dict dtypes                # of PyTorch, by numpy's, as keyword arguments
    cdef bint writable              # its arrays may be written to
    cdef bint says_contiguous       # CuPy: has the attribute behind `flags`, whose object takes longer to make

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
            arguments = self.dtypes.get(dtype)
            if arguments is None:
                arguments = self.dtypes[dtype] = {"dtype": getattr(self.module, dtype.name)}
            return self.make(array, **arguments)
        return self.make(array.shape, dtype) if self.current_device() == device else None

    cdef object filled(self, object array, object number, object dtype, int32_t device):
        """The same, of one number."""
        if self.make is None:
            return None
        if self.way == EXCHANGE:
            return self.module.full_like(array, number, dtype=getattr(self.module, dtype.name))
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


cdef Library new_library(object kind):
    cdef Library library = Library()
    cdef gh_dl_exchange *exchange
    name = f"{kind.__module__.partition('.')[0]}.{kind.__name__}"
    if kind is _cuda.DeviceArray:
        library.way = OWN
        library.writable = True
    elif name == "cupy.ndarray":
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

# ---- devices and backends --------------------------------------------------------------------------------------------


def version():
    """Version of the loaded libgpuhash, for example "0.1.0"."""
    cdef uint32_t major, minor, patch
    gpuhash_version(&major, &minor, &patch)
    return f"{major}.{minor}.{patch}"


def build_info():
    """Compiler, instruction sets and CUDA architectures of the loaded libgpuhash: one line."""
    return text(gpuhash_build_info())


def device_count(int kind):
    """Number of devices of a kind, and, when there is none, the reason (else an empty string)."""
    cdef gpuhash_error err
    cdef int32_t n
    start_error(&err)
    with nogil:
        n = gpuhash_device_count(kind, &err)
    return n, text(err.message)


def device_info(int kind, int ordinal):
    """Name, memory, compute capability, units and driver version of one device, as a dict."""
    cdef gpuhash_error err
    cdef gpuhash_device device
    cdef gpuhash_device_info info
    start_error(&err)
    memset(&info, 0, sizeof(info))
    info.struct_size = sizeof(info)
    device.kind = kind
    device.ordinal = ordinal
    check(gpuhash_device_get_info(device, &info, &err), &err)
    return {
        "name": text(info.name),
        "memory_bytes": info.memory_bytes,
        "compute_capability": (info.compute_major, info.compute_minor),
        "units": info.units,
        "driver_version": info.driver_version,
    }


def pointer_device(uintptr_t p):
    """(kind, ordinal) of the memory at an address."""
    cdef gpuhash_device device = gpuhash_pointer_device(<void *>p)
    return device.kind, device.ordinal


cdef dict describe(gpuhash_backend_info *info):
    return {
        "name": text(info.name),
        "version": text(info.version),
        "summary": text(info.summary),
        "path": text(info.path),
        "error": text(info.error),
        "traits": frozenset([name for name, bit in TRAITS.items() if info.traits & bit]),
        "loaded": bool(info.loaded),
        "key_widths": tuple([b for b in range(32) if info.key_widths >> b & 1]),
        "value_widths": tuple([b for b in range(32) if info.value_widths >> b & 1]),
        "devices": tuple([kind for kind in (GPUHASH_CPU, GPUHASH_CUDA) if info.devices >> kind & 1]),
        "origin": ("built in", "on the path", "opened")[info.origin],
        "options": tuple([
            (text(info.options[i].key), text(info.options[i].choices) or "", text(info.options[i].help) or "")
            for i in range(info.n_options)
        ]),
    }


cdef void start_backend_info(gpuhash_backend_info *info) noexcept:
    memset(info, 0, sizeof(gpuhash_backend_info))
    info.struct_size = sizeof(gpuhash_backend_info)


def backend_list():
    """What the library's registry knows, one dict per backend."""
    cdef gpuhash_error err
    cdef gpuhash_backend_info info
    rows = []
    for i in range(gpuhash_backend_count()):
        start_error(&err)
        start_backend_info(&info)
        check(gpuhash_backend_get(i, &info, &err), &err)
        rows.append(describe(&info))
    return rows


def backend_load(str name):
    """Load a backend by name and describe it."""
    cdef gpuhash_error err
    cdef gpuhash_backend_info info
    cdef gpuhash_status status
    cdef bytes encoded = encode(name, "the backend's name")
    start_error(&err)
    start_backend_info(&info)
    status = gpuhash_backend_load(encoded, &info, &err)
    if status == GPUHASH_NOT_FOUND:
        raise errors.BackendNotFound(text(err.message))
    check(status, &err)
    return describe(&info)


def backend_open(str path):
    """Load the module at an absolute path and describe the backend in it."""
    cdef gpuhash_error err
    cdef gpuhash_backend_info info
    cdef gpuhash_status status
    cdef bytes encoded = encode(path, "the module's path")
    start_error(&err)
    start_backend_info(&info)
    status = gpuhash_backend_open(encoded, &info, &err)
    if status == GPUHASH_NOT_FOUND:
        raise errors.PluginError(text(err.message))
    check(status, &err)
    return describe(&info)


def backend_probe(str name, int kind, int ordinal):
    """None when the backend is usable on the device, else the library's reason."""
    cdef gpuhash_error err
    cdef gpuhash_device device
    cdef gpuhash_status status
    cdef bytes encoded = encode(name, "the backend's name")
    cdef const char *c_name = encoded
    device.kind = kind
    device.ordinal = ordinal
    start_error(&err)
    with nogil:
        status = gpuhash_backend_probe(c_name, device, &err)
    return None if status == GPUHASH_OK else str(exception(status, &err))


cdef bytes encode(str s, str what):
    if "\0" in s:
        raise errors.InvalidArgument(f"{what} {s!r} contains a null character")
    return s.encode("utf-8", "surrogateescape")


def measure_ceiling(int kind, int ordinal, str what, uint64_t table_bytes, size_t n, size_t repeats, uint32_t threads):
    """Seconds of each of `repeats` runs, as a float64 array."""
    cdef gpuhash_error err
    cdef gpuhash_device device
    cdef gpuhash_status status
    cdef bytes encoded = encode(what, "the ceiling's name")
    cdef const char *name = encoded
    seconds = empty(repeats, numpy.float64)
    cdef double *p = <double *>address(seconds, PyBUF_WRITABLE)
    device.kind = kind
    device.ordinal = ordinal
    start_error(&err)
    with nogil:
        status = gpuhash_measure_ceiling(device, name, table_bytes, n, repeats, threads, p, &err)
    check(status, &err)
    return seconds


COPY_LOOK, COPY_STREAM = 1, 2  # GPUHASH_COPY_...


ctypedef void (*callback)(void *) noexcept nogil


cdef void run_meanwhile(void *context) noexcept with gil:
    cdef list call = <list>context
    try:
        call[0]()
    except BaseException as error:  # for whoever has called copy_parts
        call.append(error)


def copy_parts(list parts, uint32_t threads=0, meanwhile=None, bint more=False):
    """Copy host memory on several threads: (to, from, bytes, flags) of each part.

    Flags: COPY_LOOK, COPY_STREAM. Returns the bitwise or of the bytes that were looked at. `meanwhile()` is called
    while other threads copy; what it raises is raised when all is copied. `more`: another call follows at once.
    """
    cdef gpuhash_copy rows[8]
    cdef size_t i, n = len(parts)
    cdef uint8_t seen
    if n > 8:
        raise ValueError(f"{n} parts are more than the 8 of one call")
    for i in range(n):
        to, source, size, flags = parts[i]
        rows[i].to = <void *><uintptr_t>to
        rows[i].from_ = <void *><uintptr_t>source
        rows[i].bytes = size
        rows[i].flags = flags
    cdef list call = [meanwhile]
    cdef void *context = <void *>call
    cdef callback beside = NULL
    if meanwhile is not None:
        beside = run_meanwhile
    with nogil:
        seen = gpuhash_copy_parts_beside(n, rows, threads, more, beside, context)
    if len(call) > 1:
        raise call[1]
    return seen


# ---- memory resources ------------------------------------------------------------------------------------------------
# A Python object with allocate(nbytes, alignment, stream) -> address (0 or None: no memory) and
# deallocate(address, nbytes, alignment, stream). An exception in allocate is reported as unraisable, and the library
# sees that there was no memory.

cdef void *memory_allocate(void *context, size_t nbytes, size_t alignment, void *stream) noexcept with gil:
    try:
        got = (<object>context).allocate(nbytes, alignment, <uintptr_t>stream)
    except MemoryError:
        return NULL
    cdef uintptr_t place = 0 if got is None else operator.index(got)
    if place % alignment:
        (<object>context).deallocate(place, nbytes, alignment, <uintptr_t>stream)
        raise ValueError(f"memory.allocate returned {place:#x}, which is no multiple of {alignment}: align it")
    return <void *>place


cdef void deallocate_now(void *context, void *p, size_t nbytes, size_t alignment, void *stream) noexcept with gil:
    (<object>context).deallocate(<uintptr_t>p, nbytes, alignment, <uintptr_t>stream)


cdef void memory_deallocate(void *context, void *p, size_t nbytes, size_t alignment, void *stream) noexcept nogil:
    if not ENDING:
        deallocate_now(context, p, nbytes, alignment, stream)


cdef int start_memory(gpuhash_memory *memory, object resource) except -1:
    """Fill in the callbacks and take a reference, which `end_memory` gives back after the last callback."""
    for name in ("allocate", "deallocate"):
        if not callable(getattr(resource, name, None)):
            raise TypeError(f"memory={resource!r} has no method {name}: pass an object with "
                            "allocate(nbytes, alignment, stream) and deallocate(address, nbytes, alignment, stream)")
    memory.struct_size = sizeof(gpuhash_memory)
    memory.context = <void *>resource
    memory.allocate = memory_allocate
    memory.deallocate = memory_deallocate
    Py_INCREF(resource)
    return 0


cdef void end_memory(gpuhash_memory *memory, uint64_t made_in) noexcept:
    if memory.context != NULL and not ENDING and made_in == FORKS:
        Py_DECREF(<object>memory.context)
    memory.context = NULL

# ---- tables ----------------------------------------------------------------------------------------------------------


cdef dict TWINS = {numpy.dtype(a): numpy.dtype(b) for a, b in (("u8", "i8"), ("i8", "u8"), ("u4", "i4"), ("i4", "u4"))}


cdef tuple number_kind(object dtype):
    """What `read_number` needs to know of a dtype."""
    if dtype is None or not dtype.isnative:
        return NOT_PLAIN, None
    return PLAIN.get(f"{dtype.kind}{dtype.itemsize}", NOT_PLAIN), dtype.type


cdef class CoreTable:
    """One gpuhash_table and the dtypes that its bits stand for. `pygpuhash.Table` adds everything that is not hot."""

    cdef gpuhash_table *handle
    cdef gpuhash_memory memory
    cdef uint64_t forks         # before it was made
    cdef int calls              # threads inside the library with this handle; changes under the GIL only
    cdef readonly bint closed
    cdef readonly object key_dtype, value_dtype      # what the user asked for
    cdef readonly object _key_store, _value_store    # what the library sees: 4 or 8 bytes
    cdef readonly object _stream                     # default stream of the calls, and its owner
    cdef readonly int _kind, _ordinal
    cdef readonly bint _grow
    cdef readonly bint _behind_bus                   # slots in memory of the host: larger batches reach them faster
    cdef int _piece_shift                            # pieces of host batches are so many times longer
    cdef uint32_t key_bytes, value_bytes
    cdef uint32_t value_kind                         # how accumulate reads the stored values
    cdef int key_plain, value_plain                  # how a Python number becomes an element
    cdef object key_type, value_type                 # numpy's scalars of the dtypes
    cdef object key_twin, value_twin                 # the integer dtypes of the other sign, or None
    cdef int key_code, value_code                    # of the dtypes, as DLPack has them

    def __cinit__(self):
        self.forks = FORKS

    def _create(self, str name, int kind, int ordinal, dtypes, uint64_t capacity, double max_load_factor,
                uint64_t seed, bint grow, uint32_t threads, object memory, dict options, object stream,
                uintptr_t stream_handle):
        cdef gpuhash_config config
        cdef gpuhash_error err
        cdef gpuhash_status status
        if self.handle != NULL:
            raise errors.InvalidArgument("this table was created already: make a new Table")
        self.key_dtype, self._key_store, self.value_dtype, self._value_store = dtypes
        kind_of_value = None if self._value_store is None else self._value_store.kind
        self.value_kind = VALUE_TYPE.get(kind_of_value, GPUHASH_UINT)
        self.key_plain, self.key_type = number_kind(self.key_dtype)
        self.value_plain, self.value_type = number_kind(self.value_dtype)
        self.key_twin, self.value_twin = TWINS.get(self.key_dtype), TWINS.get(self.value_dtype)
        self.key_code, self.value_code = dlpack_code(self.key_dtype), dlpack_code(self.value_dtype)
        self.key_bytes = self._key_store.itemsize
        self.value_bytes = 0 if self._value_store is None else self._value_store.itemsize
        self._kind, self._ordinal, self._grow, self._stream = kind, ordinal, grow, stream

        self._behind_bus = options.get("placement") == "host"
        # A piece goes through the whole file once (plugins/stadium/serve_host.hpp).
        self._piece_shift = 2 if options.get("placement") == "file" else 0
        encoded = encode(name, "the backend's name")
        pairs = [(encode(k, "the option"), encode(v, f"the value of {k}")) for k, v in options.items()]
        memset(&config, 0, sizeof(config))
        config.struct_size = sizeof(config)
        config.backend = encoded
        config.device.kind = kind
        config.device.ordinal = ordinal
        config.key_bytes = self.key_bytes
        config.value_bytes = self.value_bytes
        config.capacity = capacity
        config.max_load_factor = max_load_factor
        config.seed = seed
        config.grow = grow
        config.threads = threads
        config.stream = <void *>stream_handle
        if memory is not None:
            start_memory(&self.memory, memory)
            config.memory = &self.memory
        cdef gpuhash_option *array = NULL
        try:
            if pairs:
                array = <gpuhash_option *>calloc(len(pairs), sizeof(gpuhash_option))
                if array == NULL:
                    raise MemoryError("no memory for the backend's options")
                for i, pair in enumerate(pairs):
                    array[i].key = <bytes>pair[0]
                    array[i].value = <bytes>pair[1]
            config.options = array
            config.n_options = len(pairs)
            start_error(&err)
            with nogil:
                status = gpuhash_table_create(&config, &self.handle, &err)
        finally:
            free(array)
        if status != GPUHASH_OK:
            self.handle = NULL
            end_memory(&self.memory, self.forks)
            if status == GPUHASH_NOT_FOUND:
                raise errors.OptionNotFound(text(err.message))
            raise exception(status, &err, self._driver())

    def __dealloc__(self):
        self._destroy()

    cdef void _destroy(self) noexcept:
        cdef gpuhash_table *handle = self.handle
        self.handle = NULL
        if handle != NULL:
            with nogil:
                gpuhash_table_destroy(handle)
        end_memory(&self.memory, self.forks)

    cdef int _enter(self) except -1:
        if self.closed or self.handle == NULL:
            self._want_made()
            raise errors.ClosedTable("this table is closed: create a new one")
        self.calls += 1
        return 0

    cdef int _leave(self) except -1:
        self.calls -= 1
        if self.closed and self.calls == 0:
            self._destroy()
        return 0

    cdef int _driver(self) noexcept:
        """The number of the device whose driver this table has its memory from, or -1."""
        return self._ordinal if self._kind == GPUHASH_CUDA and self.memory.allocate == NULL else -1

    cdef int _want_made(self) except -1:
        if self.key_dtype is None:
            raise errors.ClosedTable("this table was never made: a subclass has to call super().__init__")
        return 0

    def _refuse_forked(self):
        refuse_forked(self.forks, "table")

    def _pretend(self, int kind):
        """For tests: from now on Python takes this for a table on another kind of device. Returns itself."""
        self._kind = kind
        return self

    def close(self):
        """Free the table's memory. Calls that run in other threads finish first. Closing twice is allowed.

        A table in a file is written to the disk. This cannot report what the disk refuses: call `flush` before it.
        """
        self.closed = True
        if self.calls == 0:
            self._destroy()

    # ---- the batch

    def _raw(self, uint32_t op, size_t n, uintptr_t keys, uintptr_t values=0, uintptr_t out_values=0,
             uintptr_t out_status=0, uintptr_t ops=0, uint32_t flags=0, uint32_t combine=0, uintptr_t stream=0,
             bint wait=False, list log=None):
        """One call of gpuhash_run on addresses of the table's device; returns the exception, or None.

        The status is added to `log` before a signal can be handled.
        """
        cdef gpuhash_batch batch
        cdef gpuhash_counts counts
        cdef gpuhash_error err
        cdef gpuhash_status status
        memset(&batch, 0, sizeof(batch))
        batch.struct_size = sizeof(batch)
        batch.op = op
        batch.flags = flags
        batch.n = n
        batch.keys = <void *>keys
        batch.values = <void *>values
        batch.out_values = <void *>out_values
        batch.out_status = <uint8_t *>out_status
        batch.ops = <uint8_t *>ops
        batch.combine = combine
        batch.value_type = self.value_kind
        batch.stream = <void *>stream
        memset(&counts, 0, sizeof(counts))
        if wait:
            batch.counts = &counts
        start_error(&err)
        self._enter()
        with nogil:
            status = gpuhash_run(self.handle, &batch, &err)
        if log is not None:
            log.append(status)
        self._leave()
        if status == GPUHASH_OK and not (wait and counts.failed):
            return None
        return batch_exception(status, &err, self._driver() if self._grow else -1)

    cdef tuple _batch(self, uint32_t op, object keys, object values, object ops, object out, object mask,
                      object stream, object out_dtype, uint32_t flags=0, uint32_t combine=0):
        """One batch. Returns (values or None, mask), shaped like the keys; scalars for a scalar key.

        With False for a mask there is none: the library writes no statuses where it can do without.
        """
        cdef object library = None
        if self.key_dtype is None:
            self._want_made()
        if mask is False and (self._kind == GPUHASH_CPU or not _arrays.on_device(keys)):
            return self._batch(op, keys, values, ops, out, None, stream, out_dtype, flags, combine)[0], None
        if self._kind != GPUHASH_CPU:
            refuse_forked(self.forks, "table")
            answer = self._on_device(op, keys, values, ops, out, mask, stream, out_dtype, flags, combine)
            if answer is not None:
                return answer
        if self._kind != GPUHASH_CPU or (type(keys) is not ndarray and _arrays.on_device(keys)):
            return _device.batch(self, op, keys, values, ops, out, mask, stream, out_dtype, flags, combine)
        if type(keys) is not ndarray:
            library = _tensors.array_library(keys)
            _tensors.check_results(library, out_dtype)
        cdef Array k = self._input(keys, self.key_dtype, self._key_store, self.key_twin, "keys")
        cdef size_t n = PyArray_SIZE(k)
        cdef Array v = None
        cdef Array o = None
        cdef uint64_t cell = 0
        cdef char *v_at = NULL
        cdef size_t v_step = 0
        if values is not None:
            if not read_number(values, self.value_plain, self.value_type, &cell):
                v = self._input(values, self.value_dtype, self._value_store, self.value_twin, "values")
                if PyArray_NDIM(v) == 0 and self.value_bytes > sizeof(cell):
                    v = numpy.full((<object>k).shape, v)
                if PyArray_NDIM(v) == 0 and self.value_bytes <= sizeof(cell):
                    memcpy(&cell, PyArray_BYTES(v), self.value_bytes)
                elif not same_shape(v, k):
                    raise ValueError(f"values have shape {(<object>v).shape}, keys {(<object>k).shape}: "
                                     "pass one value per key, or a scalar")
                else:
                    v_step = self.value_bytes
            if v_step:
                v_at = PyArray_BYTES(v)
            else:
                v = self._repeated(&cell, n)
                v_at = <char *>&cell if v is None else PyArray_BYTES(v)
        if ops is not None:
            o = self._input(ops, UINT8, UINT8, None, "ops")
            if not same_shape(o, k):
                raise ValueError(f"ops have shape {(<object>o).shape}, keys {(<object>k).shape}: "
                                 "pass one operation per key")
            check_ops(o, self._accumulates())
        cdef object store = self._value_store if out_dtype is self.value_dtype else out_dtype
        cdef Array target = None  # what out= stands for
        cdef Array result = None
        cdef Array status
        if out is not None:
            if out_dtype is None:
                raise TypeError("this table is a set (value_dtype=None) and has no values for out=: leave it out")
            target = output(out, out_dtype, k, "out")
        if out_dtype is not None:
            if target is not None and store is out_dtype:
                result = target
            else:
                result = empty_like(k, store)
        if mask is None:
            status = PyArray_EMPTY(PyArray_NDIM(k), PyArray_DIMS(k), NPY_BOOL, 0)
        else:
            status = output(mask, BOOL, k, "the mask")
        if out is not None or mask is not None:
            self._refuse_overlaps(k, v if v_step else None, o, target, None if mask is None else status)
        if n <= 1:
            flags &= ~<uint32_t>GPUHASH_DEDUP_LAST  # one key has no earlier ones
        self._run_host(op, n, PyArray_BYTES(k), v_at, v_step, NULL if o is None else PyArray_BYTES(o),
                       NULL if result is None else PyArray_BYTES(result), 0 if result is None else store.itemsize,
                       PyArray_BYTES(status), status, flags, combine)
        cdef object found = result
        if store is not out_dtype:
            found = _arrays.from_store(result, out_dtype)
            if target is not None:
                target[...] = found
        if library is not None:
            return (out if out is not None else _tensors.give(library, found),
                    mask if mask is not None else _tensors.give(library, status))
        if PyArray_NDIM(k) == 0:
            return (None if found is None else found[()]), (<object>status)[()]
        return (found if out is None else out), (status if mask is None else mask)

    cdef tuple _on_device(self, uint32_t op, object keys, object values, object ops, object out, object mask,
                          object stream, object out_dtype, uint32_t flags, uint32_t combine):
        """The same for device arrays that are plain and ready, see above; None for all others."""
        cdef object kind = type(keys)
        cdef Library library = library_of(kind)
        cdef object store = self._value_store if out_dtype is self.value_dtype else out_dtype
        if library is None or self.key_dtype is not self._key_store or store is not out_dtype:
            return None
        cdef uintptr_t s = keys.stream if library.way == OWN else 0
        cdef Seen k, other
        if not library.look(keys, self.key_dtype, self.key_code, s, &k) or k.device != self._ordinal:
            return None
        if not library.current_stream(self._ordinal, &s):
            return None
        cdef object owner = stream if stream is not None else self._stream
        if owner is not None and handle_of(owner) != s:
            return None
        cdef gpuhash_batch batch
        cdef gpuhash_counts counts
        cdef gpuhash_error err
        cdef gpuhash_status status
        cdef uint64_t cell = 0
        cdef object given = values          # what is alive until the call is made
        cdef object dtype = self.value_dtype
        cdef int code = self.value_code
        memset(&batch, 0, sizeof(batch))
        if values is not None:
            if self.value_dtype is not self._value_store:
                return None
            if type(values) is not kind:    # a number becomes an array of its bits
                if not read_number(values, self.value_plain, self.value_type, &cell):
                    return None
                dtype, code = (INT64, CODE_OF_INT64) if self.value_bytes == 8 else (INT32, CODE_OF_INT32)
                given = <int64_t>cell if self.value_bytes == 8 else (<int32_t *>&cell)[0]
                given = library.filled(keys, given, dtype, self._ordinal)
            if (type(given) is not kind or not library.look(given, dtype, code, s, &other)
                    or not same_size(&k, &other)):
                return None
            batch.values = other.at
        if ops is not None:
            if (type(ops) is not kind or not library.look(ops, UINT8, CODE_OF_UINT8, s, &other)
                    or not same_size(&k, &other)):
                return None
            batch.ops = <uint8_t *>other.at
        cdef object result = out
        cdef object told = mask
        if (out is not None or (mask is not None and mask is not False)) and not library.writable:
            return None
        if out_dtype is not None:
            if out is None:
                result = library.like(keys, out_dtype, self._ordinal)
            if (type(result) is not kind
                    or not library.look(result, out_dtype, CODE_OF_INT64 if out_dtype is INT64 else self.value_code, s,
                                        &other)
                    or not same_size(&k, &other)):
                return None
            batch.out_values = other.at
        elif out is not None:
            return None
        if mask is False:
            told = None
        else:
            if mask is None:
                told = library.like(keys, BOOL, self._ordinal)
            if (type(told) is not kind or not library.look(told, BOOL, CODE_OF_BOOL, s, &other)
                    or not same_size(&k, &other)):
                return None
            batch.out_status = <uint8_t *>other.at
        batch.struct_size = sizeof(batch)
        batch.op = op
        batch.flags = flags
        batch.n = elements(&k)
        batch.keys = k.at
        batch.combine = combine
        batch.value_type = self.value_kind
        batch.stream = <void *>s
        # Only what adds keys can find no room, and only where the table does not grow; nothing else has to wait.
        # What is captured into a graph runs later: the next call on the whole table tells of elements without room.
        memset(&counts, 0, sizeof(counts))
        if not self._grow and op in ADDING and not _cuda.is_capturing(s):
            batch.counts = &counts
        start_error(&err)
        self._enter()
        with nogil:
            status = gpuhash_run(self.handle, &batch, &err)
        self._leave()
        if status != GPUHASH_OK or counts.failed:
            failure = batch_exception(status, &err, self._driver() if self._grow else -1)
            _device.fail(self, failure, told, mask is not None, s)
        return result, told

    cdef Array _repeated(self, void *cell, size_t n):
        """One value for all keys: a piece's worth of copies, used again and again. None for a single key."""
        cdef npy_intp copies = min(n, PIECE << self._piece_shift)
        if n <= 1 or self.value_bytes == 0:
            return None
        cdef Array v = PyArray_EMPTY(1, &copies, self._value_store.num, 0)
        fill(PyArray_BYTES(v), copies, self.value_bytes, cell)
        return v

    cdef int _refuse_overlaps(self, Array k, Array v, Array o, Array out, Array mask) except -1:
        refuse_overlaps((k, v, o), (out, mask))
        return 0

    cdef Array _input(self, object array, object dtype, object store, object twin, str what):
        """The array as the library takes it: C-contiguous, aligned, of the stored dtype or its twin. No copy where none
        is due.
        """
        if dtype is store and (plain(array, dtype) or plain_but_for_sign(array, twin)):
            return <Array>array
        return _arrays.to_store(array, dtype, store, what)

    cdef int _run_host(self, uint32_t op, size_t n, char *keys, char *values, size_t value_step, char *ops,
                       char *results, size_t result_step, char *statuses, object status, uint32_t flags,
                       uint32_t combine) except -1:
        """The batch in pieces. `statuses` is where the array `status` lies; the caller keeps all other memory alive."""
        cdef gpuhash_batch batch
        cdef gpuhash_error err
        cdef gpuhash_status code
        cdef size_t done = 0, m, piece = PIECE << self._piece_shift
        cdef object failure = None
        # Sorted as a whole it is merged once. One value for all keys lies there as often as a piece needs it.
        if n > PIECE and not WATCHED and (values == NULL or value_step) and op in MERGED:
            if "ordered" in self._info()["traits"]:
                piece *= PIECES_AT_ONCE
        cdef bint wary = n > FULL_PIECE and not self._grow and piece == PIECE
        cdef size_t room = 0, careful = min(piece, FULL_PIECE)
        cdef double took = 0
        memset(&batch, 0, sizeof(batch))
        batch.struct_size = sizeof(batch)
        batch.op = op
        batch.flags = flags
        batch.combine = combine
        batch.value_type = self.value_kind
        self._enter()
        try:
            while True:
                m = min(n - done, piece)
                if wary:
                    room = self._without_refusals(op)
                    m = min(m, max(room, careful))
                    took = -monotonic()
                batch.n = m
                batch.keys = keys + done * self.key_bytes
                batch.values = values + done * value_step if values != NULL else NULL
                batch.ops = <uint8_t *>(ops + done) if ops != NULL else NULL
                batch.out_values = results + done * result_step if results != NULL else NULL
                batch.out_status = <uint8_t *>(statuses + done)
                # What an element says that the library never came to.
                memset(statuses + done, GPUHASH_ELEMENT_NO_MEMORY, m)
                start_error(&err)
                with nogil:
                    code = gpuhash_run(self.handle, &batch, &err)
                if code != GPUHASH_OK:
                    if failure is None:
                        failure = batch_exception(code, &err)
                    if code != GPUHASH_FULL and code != GPUHASH_NO_MEMORY:
                        raise failure
                done += m
                if WATCHED and m < n:
                    tell(done, n)
                if done >= n:
                    break
                PyErr_CheckSignals()
                if wary and m > room:
                    took += monotonic()
                    if took > SLOW:
                        careful = max(m // 4, min(m, LEAST_PIECE))
                    elif took < FAST:
                        careful = min(2 * m, piece)
        finally:
            self._leave()
            if done < n or failure is not None:  # the mask may be the caller's: leave booleans in it
                memset(statuses + done, GPUHASH_ELEMENT_NO_MEMORY, n - done)
                codes = status.view(UINT8)
                if failure is not None and (done or isinstance(failure, errors.TableFull)):
                    failure.status = codes.copy()
                    if done > m or m < n:  # the library speaks of a piece
                        whole = f"{numpy.count_nonzero(codes > GPUHASH_YES)} of {n} elements"
                        failure.args = (OF_A_PIECE.sub(whole, str(failure), count=1),)
                codes[...] = codes == GPUHASH_YES
        if failure is not None:
            raise failure
        return 0

    cdef size_t _without_refusals(self, uint32_t op) except? 0:
        """How many elements this table, which does not grow, takes without long searches."""
        cdef dict info = self._info()
        cdef size_t size = info["size"], capacity = info["capacity"]
        if size > capacity:
            return 0
        return capacity - size if op in ADDING else PIECE

    cdef int _one(self, uint32_t op, void *key, void *value, void *result, uint32_t flags=0,
                  uint32_t combine=0) except -1:
        """One element on the CPU, without any array: its status, 0 or 1. Raises as a batch does."""
        cdef gpuhash_batch batch
        cdef gpuhash_error err
        cdef gpuhash_status code
        cdef uint8_t status = GPUHASH_ELEMENT_NO_MEMORY
        memset(&batch, 0, sizeof(batch))
        batch.struct_size = sizeof(batch)
        batch.op = op
        batch.flags = flags
        batch.n = 1
        batch.keys = key
        batch.values = value
        batch.out_values = result
        batch.out_status = &status
        batch.combine = combine
        batch.value_type = self.value_kind
        start_error(&err)
        self._enter()
        with nogil:
            code = gpuhash_run(self.handle, &batch, &err)
        self._leave()
        if code != GPUHASH_OK or status > GPUHASH_YES:
            failure = batch_exception(code, &err)
            if isinstance(failure, errors.TableFull):
                failure.status = numpy.array(status, UINT8)
            raise failure
        return status

    cdef bint _key(self, object given, void *cell) except -1:
        """Is this one key of a table on the CPU that takes the short path?"""
        return self._kind == GPUHASH_CPU and read_number(given, self.key_plain, self.key_type, cell)

    cdef bint _pair(self, object key, object value, void *key_cell, void *value_cell) except -1:
        """The same for a key and its value; None is the value of a set."""
        if not self._key(key, key_cell):
            return False
        if self.value_dtype is None or value is None:
            return value is None and self.value_dtype is None
        return read_number(value, self.value_plain, self.value_type, value_cell)

    cdef object _scalar(self, void *cell):
        return PyArray_Scalar(cell, self._value_store, None)

    # ---- operations: hot ones first. The shape of every result is the shape of `keys`.

    def find(self, keys, *, out=None, found=None, stream=None):
        """Look keys up.

        Returns (values, found): values of `value_dtype` (0 where a key is absent; None for a set) and a bool mask.
        A scalar key gives scalars. `out` and `found` receive the results instead of new arrays.
        """
        cdef uint64_t key, value = 0
        cdef int yes
        if out is None and found is None and self.value_plain and self._key(keys, &key):
            yes = self._one(GPUHASH_OP_FIND, &key, NULL, &value)
            return self._scalar(&value), TRUE if yes else FALSE
        return self._batch(GPUHASH_OP_FIND, keys, None, None, out, found, stream, self.value_dtype)

    def contains(self, keys, *, out=None, stream=None):
        """Which keys are in the table: a bool mask."""
        cdef uint64_t key
        if out is False:
            raise TypeError("out=False: contains has no other answer than its mask")
        if out is None and self._key(keys, &key):
            return TRUE if self._one(GPUHASH_OP_FIND, &key, NULL, NULL) else FALSE
        return self._batch(GPUHASH_OP_FIND, keys, None, None, None, out, stream, None)[1]

    def get(self, keys, default=0, *, stream=None):
        """Values of keys, with `default` (a scalar, or one for each key) where a key is absent."""
        cdef uint64_t key, value = 0
        if self.value_plain and self._key(keys, &key):
            return self._scalar(&value) if self._one(GPUHASH_OP_FIND, &key, NULL, &value) else default
        return self._get(keys, default, stream)

    def insert(self, keys, values=None, *, out=None, stream=None):
        """Add the pairs whose key is absent; a key that is present keeps its value.

        `values` is one value per key, or a scalar; None for a set. Returns a bool mask: newly inserted. Of equal keys
        in one batch exactly one is inserted. Raises `TableFull` when elements found no room; its `status` says for
        every element what became of it, and all others are done.

        With `out=False` nothing is returned: on a GPU large batches are faster then, and a `TableFull` has no status.
        So it is for `insert_or_assign`, `accumulate`, `erase`, and for `found=False` of `find` and `execute`.
        """
        return self._add(GPUHASH_OP_INSERT, keys, values, out, stream, 0, 0)

    def _assign(self, keys, values, flags, out, stream):
        return self._add(GPUHASH_OP_ASSIGN, keys, values, out, stream, flags, 0)

    def accumulate(self, keys, values=1, *, op="add", out=None, stream=None):
        """Combine values into the table: `op` is "add", "min" or "max"; an absent key is inserted with its value.

        `values` is one value per key, or a scalar. Returns a bool mask: newly inserted. Integers wrap; values of 1 and
        2 bytes are combined in 32 bits and wrap when they are read. Addition of floats is in no fixed order. NaT among
        times is refused (ValueError).
        """
        combine = COMBINE.get(op) if isinstance(op, str) else None
        if combine is None:
            raise errors.InvalidArgument(f"op={op!r} is none of 'add', 'min', 'max'")
        if self.value_dtype is not None and not self._accumulates():
            raise TypeError(f"{self.value_dtype} values cannot be accumulated: only single numbers can")
        if combine == GPUHASH_ADD and self.value_dtype is not None and self.value_dtype.kind == "M":
            raise TypeError(f"{self.value_dtype} values cannot be added: use op='min' or op='max'")
        if self.value_dtype is not None and self.value_dtype.kind in "mM":
            values = _arrays.operands(values, self.value_dtype)
        return self._add(GPUHASH_OP_ACCUMULATE, keys, values, out, stream, 0, combine)

    def erase(self, keys, *, out=None, stream=None):
        """Remove keys. Returns a bool mask: erased by this call."""
        cdef uint64_t key
        if out is None and self._key(keys, &key):
            return TRUE if self._one(GPUHASH_OP_ERASE, &key, NULL, NULL) else FALSE
        return self._batch(GPUHASH_OP_ERASE, keys, None, None, None, out, stream, None)[1]

    def execute(self, ops, keys, values=None, *, op="add", out=None, found=None, stream=None):
        """Carry out a mixed batch concurrently: one op code (uint8, see `pygpuhash.Op`) per key.

        `op` is how accumulate elements combine. Returns (values, mask): the value found for FIND elements (0
        elsewhere), and what the operation of each element returns in its own batch call. Operations on the same key in
        one batch take some serial order.
        """
        combine = COMBINE.get(op) if isinstance(op, str) else None
        if combine is None:
            raise errors.InvalidArgument(f"op={op!r} is none of 'add', 'min', 'max'")
        if ops is None:
            raise TypeError("ops is None: pass one operation per key, as in [pygpuhash.Op.INSERT]")
        if self.value_dtype is None:
            self._want_values(values)
        elif values is None:
            values = 0 if self.value_plain else numpy.zeros((), self.value_dtype)
        elif self.value_dtype.kind in "mM" and not _arrays.on_device(ops):
            combined = _arrays.to_base(ops, UINT8, "ops") == GPUHASH_OP_ACCUMULATE
            values = _arrays.operands(values, self.value_dtype, combined)
        return self._batch(GPUHASH_OP_EXECUTE, keys, values, ops, out, found, stream, self.value_dtype, 0, combine)

    def count(self, keys, *, out=None, stream=None):
        """How many pairs each key has: int64."""
        cdef uint64_t key
        cdef int64_t pairs = 0
        if out is None and self._key(keys, &key):
            self._one(GPUHASH_OP_COUNT, &key, NULL, &pairs)
            return PyArray_Scalar(&pairs, INT64, None)
        return self._batch(GPUHASH_OP_COUNT, keys, None, None, out, None, stream, INT64)[0]

    def insert_multi(self, keys, values=None, *, out=None, stream=None):
        """Add every pair, duplicates of a key included (trait "multi")."""
        return self._add(GPUHASH_OP_INSERT_MULTI, keys, values, out, stream, 0, 0)

    def erase_all(self, keys, *, out=None, stream=None):
        """Remove every pair of each key (trait "multi"). Returns a bool mask: erased by this call."""
        return self._batch(GPUHASH_OP_ERASE_ALL, keys, None, None, None, out, stream, None)[1]

    def _accumulates(self):
        """Has this table single numbers for values?"""
        return self.value_dtype is not None and (self.value_plain != NOT_PLAIN
                                                 or not _records.is_record(self.value_dtype))

    cdef object _add(self, uint32_t op, object keys, object values, object out, object stream, uint32_t flags,
                     uint32_t combine):
        """A batch that adds pairs: its mask."""
        cdef uint64_t key, value = 0
        cdef int yes
        if out is None and self._pair(keys, values, &key, &value):
            flags &= ~<uint32_t>GPUHASH_DEDUP_LAST  # one key has no earlier ones
            yes = self._one(op, &key, NULL if self.value_dtype is None else &value, NULL, flags, combine)
            return TRUE if yes else FALSE
        self._want_values(values)
        return self._batch(op, keys, values, None, None, out, stream, None, flags, combine)[1]

    def __getitem__(self, keys):
        cdef uint64_t key, value = 0
        if self.value_plain and self._key(keys, &key):
            if self._one(GPUHASH_OP_FIND, &key, NULL, &value):
                return self._scalar(&value)
            raise KeyError(f"{keys!r} is not in the table")
        if isinstance(keys, slice):
            return self._slice(keys)
        if self.value_dtype is None:
            self._want_made()
            raise TypeError("this table is a set (value_dtype=None) and has no values: use contains")
        values, found = self._batch(GPUHASH_OP_FIND, keys, None, None, None, None, None, self.value_dtype)
        if not all_true(found):
            self._want_all(keys, found)
        return values

    def __setitem__(self, keys, values):
        cdef uint64_t key, value = 0
        if self._pair(keys, values, &key, &value):
            self._one(GPUHASH_OP_ASSIGN, &key, NULL if self.value_dtype is None else &value, NULL)
        else:
            self._set_all(keys, values)

    def __delitem__(self, keys):
        cdef uint64_t key
        if not self._key(keys, &key):
            erased = self._batch(GPUHASH_OP_ERASE, keys, None, None, None, None, None, None)[1]
            if not all_true(erased):
                self._want_all(keys, erased)
        elif not self._one(GPUHASH_OP_ERASE, &key, NULL, NULL):
            raise KeyError(f"{keys!r} is not in the table")

    def __contains__(self, key):
        cdef uint64_t cell
        if self._key(key, &cell):
            return self._one(GPUHASH_OP_FIND, &cell, NULL, NULL) == GPUHASH_YES
        return self._contains(key)

    cdef int _want_values(self, object values) except -1:
        self._want_made()
        if values is None and self.value_dtype is not None:
            raise TypeError(f"this table holds {self.value_dtype} values: pass values, one per key or a scalar")
        if values is not None and self.value_dtype is None:
            raise TypeError("this table is a set (value_dtype=None): pass no values")
        return 0

    # ---- calls on addresses; `_device.py` and `table.py` wrap them

    def _find_all(self, size_t n, uintptr_t keys, uintptr_t offsets, uintptr_t values, size_t room,
                  uintptr_t stream=0):
        """None, or the exception."""
        cdef gpuhash_error err
        cdef gpuhash_status status
        start_error(&err)
        self._enter()
        with nogil:
            status = gpuhash_find_all(self.handle, n, <void *>keys, <uint64_t *>offsets, <void *>values, room,
                                      <void *>stream, &err)
        self._leave()
        return None if status == GPUHASH_OK else exception(status, &err, self._driver())

    def _range(self, size_t n, uintptr_t low, uintptr_t high, size_t limit, uintptr_t out_keys, uintptr_t out_values,
               uintptr_t counts, uintptr_t stream=0):
        cdef gpuhash_error err
        cdef gpuhash_status status
        start_error(&err)
        self._enter()
        with nogil:
            status = gpuhash_range(self.handle, n, <void *>low, <void *>high, limit, <void *>out_keys,
                                   <void *>out_values, <uint64_t *>counts, <void *>stream, &err)
        self._leave()
        check(status, &err, self._driver())

    def _neighbors(self, uint32_t which, size_t n, uintptr_t keys, uintptr_t out_keys, uintptr_t out_values,
                   uintptr_t found, uintptr_t stream=0):
        cdef gpuhash_error err
        cdef gpuhash_status status
        start_error(&err)
        self._enter()
        with nogil:
            if which == 0:
                status = gpuhash_lower_bound(self.handle, n, <void *>keys, <void *>out_keys, <void *>out_values,
                                             <uint8_t *>found, <void *>stream, &err)
            else:
                status = gpuhash_neighbors(self.handle, which, n, <void *>keys, <void *>out_keys, <void *>out_values,
                                           <uint8_t *>found, <void *>stream, &err)
        self._leave()
        check(status, &err, self._driver())

    def _range_pairs(self, size_t n, uintptr_t low, uintptr_t high, uintptr_t offsets, size_t room,
                     uintptr_t out_keys, uintptr_t out_values, uintptr_t counts, uintptr_t stream=0):
        cdef gpuhash_error err
        cdef gpuhash_status status
        start_error(&err)
        self._enter()
        with nogil:
            status = gpuhash_range_pairs(self.handle, n, <void *>low, <void *>high, <uint64_t *>offsets, room,
                                         <void *>out_keys, <void *>out_values, <uint64_t *>counts, <void *>stream,
                                         &err)
        self._leave()
        check(status, &err, self._driver())

    def _range_all(self, size_t n, uintptr_t low, uintptr_t high, uintptr_t offsets, size_t room, uintptr_t out_keys,
                   uintptr_t out_values, uintptr_t stream=0):
        """None, or the exception."""
        cdef gpuhash_error err
        cdef gpuhash_status status
        start_error(&err)
        self._enter()
        with nogil:
            status = gpuhash_range_all(self.handle, n, <void *>low, <void *>high, <uint64_t *>offsets, room,
                                       <void *>out_keys, <void *>out_values, <void *>stream, &err)
        self._leave()
        return None if status == GPUHASH_OK else exception(status, &err, self._driver())

    def _export(self, size_t room, uintptr_t keys, uintptr_t values, uintptr_t stream=0):
        """(pairs in the table, None or the exception)."""
        cdef gpuhash_error err
        cdef gpuhash_status status
        cdef size_t n = room
        start_error(&err)
        self._enter()
        with nogil:
            status = gpuhash_export(self.handle, &n, <void *>keys, <void *>values, <void *>stream, &err)
        self._leave()
        return n, None if status == GPUHASH_OK else exception(status, &err, self._driver())

    def _maintain(self, str what, uint64_t keys=0, uintptr_t stream=0, uint64_t count=0):
        # keys: those to reserve for; of flush_range the first bucket, and count how many of them
        cdef gpuhash_error err
        cdef gpuhash_status status
        cdef int which = ("clear", "reserve", "shrink", "flush", "flush_range", "check").index(what)
        start_error(&err)
        self._enter()
        with nogil:
            if which == 0:
                status = gpuhash_clear(self.handle, <void *>stream, &err)
            elif which == 1:
                status = gpuhash_reserve(self.handle, keys, <void *>stream, &err)
            elif which == 2:
                status = gpuhash_shrink(self.handle, <void *>stream, &err)
            elif which == 3:
                status = gpuhash_flush(self.handle, <void *>stream, &err)
            elif which == 4:
                status = gpuhash_flush_range(self.handle, keys, count, <void *>stream, &err)
            else:
                status = gpuhash_check(self.handle, &err)
        self._leave()
        check(status, &err, self._driver())

    def __len__(self):
        cdef gpuhash_error err
        cdef gpuhash_status status
        cdef uint64_t size = 0
        start_error(&err)
        self._enter()
        with nogil:
            status = gpuhash_size(self.handle, &size, &err)
        self._leave()
        check(status, &err, self._driver())
        return size

    def _info(self):
        cdef gpuhash_error err
        cdef gpuhash_status status
        cdef gpuhash_table_info info
        memset(&info, 0, sizeof(info))
        info.struct_size = sizeof(info)
        start_error(&err)
        self._enter()
        with nogil:
            status = gpuhash_table_get_info(self.handle, &info, &err)
        self._leave()
        check(status, &err, self._driver())
        return {
            "backend": text(info.backend), "size": info.size, "used": info.used, "slots": info.slots,
            "capacity": info.capacity, "bytes": info.bytes, "seed": info.seed, "rebuilds": info.rebuilds,
            "max_load_factor": info.max_load_factor,
            "traits": frozenset([name for name, bit in TRAITS.items() if info.traits & bit]),
        }

    def stats(self):
        """Named figures of the structure, for example the mean and the longest probe, as a dict of floats."""
        cdef gpuhash_error err
        cdef gpuhash_status status
        cdef gpuhash_stat figures[64]
        cdef size_t n = 64
        memset(figures, 0, sizeof(figures))
        start_error(&err)
        self._enter()
        with nogil:
            status = gpuhash_stats(self.handle, &n, figures, &err)
        self._leave()
        check(status, &err, self._driver())
        return {text(figures[i].name): figures[i].value for i in range(min(n, 64))}

    def histogram(self, n=32):
        """Live keys by their distance from home in rows (chaining: buckets by slabs): uint64 of n entries.

        The last entry takes the rest.
        """
        cdef gpuhash_error err
        cdef gpuhash_status status
        cdef size_t entries = _arguments.whole("n", n, 1 << 30, least=1)
        counts = numpy.zeros(entries, UINT64)
        cdef uint64_t *p = <uint64_t *>address(counts, PyBUF_WRITABLE)
        start_error(&err)
        self._enter()
        with nogil:
            status = gpuhash_histogram(self.handle, entries, p, &err)
        self._leave()
        check(status, &err, self._driver())
        return counts

# ---- SlabAlloc -------------------------------------------------------------------------------------------------------


cdef class CoreSlabAllocator:
    """One gpuhash_slab_allocator; the calls take addresses of the allocator's device."""

    cdef gpuhash_slab_allocator *handle
    cdef gpuhash_memory memory
    cdef uint64_t forks
    cdef int calls
    cdef readonly bint closed

    def __cinit__(self):
        self.forks = FORKS

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
        if self.closed or self.handle == NULL:
            raise errors.ClosedTable("this allocator is closed: create a new one")
        self.calls += 1
        return 0

    cdef int _leave(self) except -1:
        self.calls -= 1
        if self.closed and self.calls == 0:
            self._destroy()
        return 0

    def close(self):
        """Free the allocator's memory. Closing twice is allowed."""
        self.closed = True
        if self.calls == 0:
            self._destroy()

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

# ---- DLPack ----------------------------------------------------------------------------------------------------------

cdef class DlpackOwner:
    """Keeps an imported DLPack tensor until the last view of it is gone."""
    cdef gh_dl_managed *managed

    def __dealloc__(self):
        if self.managed != NULL:
            gh_dl_delete(self.managed)


def dlpack_read(capsule):
    """(address, shape, strides in elements or None, dtype code, bits, device kind, device ordinal, owner)."""
    if not PyCapsule_IsValid(capsule, "dltensor"):
        raise TypeError("__dlpack__() did not return a fresh DLPack capsule: export the array again")
    cdef gh_dl_managed *managed = <gh_dl_managed *>PyCapsule_GetPointer(capsule, "dltensor")
    PyCapsule_SetName(capsule, "used_dltensor")
    cdef DlpackOwner owner = DlpackOwner()
    owner.managed = managed
    cdef gh_dl_tensor *t = &managed.tensor
    if t.dtype.lanes != 1:
        raise TypeError(f"DLPack elements of {t.dtype.lanes} lanes are not supported: pass an array of scalars")
    shape = tuple([t.shape[i] for i in range(t.ndim)])
    strides = None if t.strides == NULL else tuple([t.strides[i] for i in range(t.ndim)])
    return (<uintptr_t>t.data + t.byte_offset, shape, strides, t.dtype.code, t.dtype.bits, t.device.type, t.device.id,
            owner)


cdef void dlpack_delete_now(gh_dl_managed *managed) noexcept with gil:
    if managed.context != NULL:
        Py_DECREF(<object>managed.context)
    free(managed.tensor.shape)
    free(managed)


cdef void dlpack_delete(gh_dl_managed *managed) noexcept nogil:
    if not ENDING:  # the interpreter may be gone
        dlpack_delete_now(managed)


cdef void dlpack_drop(object capsule) noexcept:
    if PyCapsule_IsValid(capsule, "dltensor"):
        gh_dl_delete(<gh_dl_managed *>PyCapsule_GetPointer(capsule, "dltensor"))


def dlpack_write(owner, uintptr_t data, tuple shape, int code, int bits, int kind, int ordinal):
    """A DLPack capsule over C-contiguous memory that `owner` keeps alive."""
    cdef gh_dl_managed *managed = <gh_dl_managed *>calloc(1, sizeof(gh_dl_managed))
    cdef int64_t *sizes = <int64_t *>calloc(len(shape) or 1, sizeof(int64_t))
    if managed == NULL or sizes == NULL:
        free(managed)
        free(sizes)
        raise MemoryError("no memory for a DLPack capsule")
    for i, size in enumerate(shape):
        sizes[i] = size
    managed.tensor.data = <void *>data
    managed.tensor.device.type = kind
    managed.tensor.device.id = ordinal
    managed.tensor.ndim = len(shape)
    managed.tensor.dtype.code = code
    managed.tensor.dtype.bits = bits
    managed.tensor.dtype.lanes = 1
    managed.tensor.shape = sizes
    managed.context = <void *>owner
    managed.deleter = dlpack_delete
    Py_INCREF(owner)
    return PyCapsule_New(managed, "dltensor", dlpack_drop)

# ---- what only the conformance suite asks: outputs of the C ABI that no method returns


def run_counted(CoreTable table, uint32_t op, object keys, object values):
    """One host batch of the table's dtypes with gpuhash_counts: (exception or None, yes, failed, status bytes)."""
    cdef gpuhash_batch batch
    cdef gpuhash_counts counts
    cdef gpuhash_error err
    cdef gpuhash_status code
    cdef object k = table._input(keys, table.key_dtype, table._key_store, table.key_twin, "keys")
    cdef object v = None
    if values is not None:
        v = table._input(values, table.value_dtype, table._value_store, table.value_twin, "values")
    cdef object status = numpy.full(k.size, 255, UINT8)
    memset(&batch, 0, sizeof(batch))
    batch.struct_size = sizeof(batch)
    batch.op = op
    batch.n = k.size
    batch.keys = address(k, 0)
    batch.values = NULL if v is None else address(v, 0)
    batch.out_status = <uint8_t *>address(status, PyBUF_WRITABLE)
    batch.counts = &counts
    start_error(&err)
    table._enter()
    with nogil:
        code = gpuhash_run(table.handle, &batch, &err)
    table._leave()
    return None if code == GPUHASH_OK else exception(code, &err), counts.yes, counts.failed, status


def stats_raw(CoreTable table, size_t room):
    """gpuhash_stats with room for so many figures: (figures that there are, those that were written by name)."""
    cdef gpuhash_error err
    cdef gpuhash_status code
    cdef size_t n = room, i
    cdef gpuhash_stat *rows = <gpuhash_stat *>calloc(room or 1, sizeof(gpuhash_stat))
    if rows == NULL:
        raise MemoryError("no memory for statistics")
    try:
        start_error(&err)
        table._enter()
        with nogil:
            code = gpuhash_stats(table.handle, &n, rows, &err)
        table._leave()
        check(code, &err)
        return n, [(text(rows[i].name), rows[i].value) for i in range(min(room, n)) if rows[i].name[0] != 0]
    finally:
        free(rows)


from pygpuhash import _arrays, _cuda, _device, _records, _tensors  # noqa: E402  they import names of this module
