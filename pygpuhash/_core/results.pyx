# cython: language_level=3, boundscheck=False, wraparound=False, embedsignature=True, freethreading_compatible=True
"""Arrays of results that have an element for each group of a column on a GPU. The arrays are made before the number of
groups is known.

Each has room for as many elements as the column has rows. It is an array of its own, of which the result is a part; or
it lies behind the temporaries, if the groups are expected to be few, as they were in the last column of about as many
rows. Then its first elements are copied while the kernels still run, twice as many as there were groups, and the copy
is the result, so that a short column takes no longer than its kernels.
"""
from cpython.exc cimport PyErr_Clear
from libc.stdint cimport int64_t, uintptr_t

import numpy

from pygpuhash._core.device_arrays cimport *
from pygpuhash._core.dlpack cimport *

__all__ = ["Maker", "expected", "maker_like", "part", "pointer"]

cdef enum:
    SHORT = 1 << 22                 # rows of a column
    LONG = 1 << 26                  # the same, of which few groups may be expected at all
    LEAST = 1 << 6                  # elements that are copied,
    MOST_OF_LONG = 1 << 16          # and of longer columns than short ones
    ALIGNMENT = 256                 # of arrays behind temporaries

cdef object BYTE = numpy.dtype(numpy.uint8)

# Where the groups of the last column were few: how many elements are copied the next time, by how many bits its number
# of rows has.
expected = {}


# ---- arrays of a library ---------------------------------------------------------------------------------------------


cdef class Maker:
    """Makes arrays of CuPy or PyTorch on the device of another one, on the stream that is current there."""

    def __call__(self, shape, dtype):
        if len(shape) == 1:
            return self.vector(shape[0], dtype)
        if self.library.way == CUPY:
            return self.library.make(shape, dtype)
        return self.like.new_empty(shape, dtype=self.library.own_dtype(dtype))

    cdef object vector(self, int64_t n, object dtype):
        if self.library.way == CUPY:
            return self.library.make((n,), dtype)
        if n == self.n:
            return self.library.like(self.like, dtype, self.device)  # of all ways the fastest one
        return self.like.new_empty(n, dtype=self.library.own_dtype(dtype))


def maker_like(array, int ordinal):
    """A `Maker` for an array of CuPy or PyTorch on this device, which is current; None for every other one."""
    cdef Library library = library_of(type(array))
    cdef gh_dl_tensor t
    if library is None or library.way == OWN or library.make is None:
        return None
    if library.way == CUPY:
        return maker_of(library, array, ordinal, -1)
    if library.exchange.describe(<void *>array, &t) != 0 or t.device.type != ON_CUDA or t.device.id != ordinal:
        PyErr_Clear()
        return None
    return maker_of(library, array, ordinal, t.shape[0] if t.ndim == 1 else -1)


cdef Maker maker_of(Library library, object array, int ordinal, int64_t n):
    """n: its elements, if it has one dimension; else -1."""
    cdef Maker maker = Maker.__new__(Maker)
    maker.library, maker.like, maker.device, maker.n = library, array, ordinal, n
    return maker


def pointer(array):
    """The address of an array of CuPy, of PyTorch or of ours; 0 of None."""
    return address_of(array)


cdef uintptr_t address_of(object array) except? 1:
    cdef Library library
    if array is None:
        return 0
    library = library_of(type(array))
    if library is None or library.way == EXCHANGE:
        return array.data_ptr()
    return array.ptr if library.way == OWN else array.data.ptr


cdef object first_of(object array, size_t n):
    """The first n elements of an array that the caller has made, over the same memory."""
    cdef Library library = library_of(type(array))
    if library is None:
        return array.narrow(0, 0, n)
    if library.way == EXCHANGE:
        return array.resize_(n)  # which takes a quarter of the time that a view of it takes
    return array[:n] if library.way == CUPY else array._first(n)


def part(array, dtype, size_t n, size_t rows, empty, uintptr_t stream, copy):
    """The first n elements of so many, or a copy of them if they would keep too much memory for the others.

    empty(shape, dtype) makes an array, copy(to, source, bytes, stream) queues a copy."""
    if not leaves_too_much(n, rows):
        return first_of(array, n)
    new = empty((n,), dtype)
    copy(address_of(new), address_of(array), n * <size_t>dtype.itemsize, stream)
    return new


cdef bint leaves_too_much(size_t n, size_t rows) noexcept:
    """Of short columns the copies take as long as the verb, and the memory is little."""
    return n * (16 if rows <= SHORT else 4) < rows


# ---- results ---------------------------------------------------------------------------------------------------------


cdef class Results:
    """The results of a call, by numbers. They are added, then there are temporaries and addresses, then the number of
    groups is noted and they are given; all of this where `empty` allocates."""

    cdef int begin(self, object empty, size_t n, size_t nbytes, uintptr_t stream, bint waits, object copy) except -1:
        """Results of n rows, with temporaries of so many bytes. waits: `copy_first` is called before the call waits."""
        cdef size_t copied = expected.get(bits_of(n), 0) if waits and n <= LONG else 0
        self.empty, self.copy = empty, copy
        self.maker = empty if isinstance(empty, Maker) else None
        self.n, self.end, self.stream, self.copied = n, nbytes, stream, min(copied, n)
        self.dtypes, self.arrays, self.starts = [], [], []
        return 0

    cdef object vector(self, size_t n, object dtype):
        return self.empty((n,), dtype) if self.maker is None else self.maker.vector(n, dtype)

    cdef int add(self, object dtype) except -1:
        """A result that the call writes. Results are numbered as they are added."""
        cdef size_t start = (self.end + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
        self.dtypes.append(dtype)
        if self.copied:
            self.starts.append(start)
            self.end = start + self.n * <size_t>dtype.itemsize
        else:
            self.arrays.append(self.vector(self.n, dtype))
        return 0

    cdef uintptr_t scratch(self) except? 1:
        """The address of the temporaries, when all results have been added."""
        self.temporaries = self.vector(self.end, BYTE)  # which live until the results are copied
        return address_of(self.temporaries)

    cdef uintptr_t address(self, int i) except? 1:
        """Where the call writes a result."""
        return address_of(self.temporaries) + <size_t>self.starts[i] if self.copied else address_of(self.arrays[i])

    def copy_first(self):
        """Copy as many elements as there may be groups."""
        cdef int i
        for i in range(len(self.dtypes)):
            self.arrays.append(self.copy_of(i, self.copied))

    cdef object copy_of(self, int i, size_t n):
        """A copy of the first elements of a result, by the driver: a kernel of their library starts later."""
        cdef object dtype = self.dtypes[i], new = self.vector(n, dtype)
        self.copy(address_of(new), self.address(i), n * <size_t>dtype.itemsize, self.stream)
        return new

    cdef object give(self, int i, size_t groups):
        """A result, as an array of so many elements."""
        if not self.copied:
            return part(self.arrays[i], self.dtypes[i], groups, self.n, self.empty, self.stream, self.copy)
        return first_of(self.arrays[i], groups) if groups <= self.copied else self.copy_of(i, groups)

    cdef int note(self, size_t groups) except -1:
        """How many groups there are."""
        cdef size_t copied = max(LEAST, 2 * groups)
        if self.n <= LONG and leaves_too_much(groups, self.n) and (self.n <= SHORT or copied <= MOST_OF_LONG):
            expected[bits_of(self.n)] = copied
        else:
            expected.pop(bits_of(self.n), None)
        return 0


cdef int bits_of(size_t n) noexcept:
    cdef int bits = 0
    while n >> bits:
        bits += 1
    return bits
