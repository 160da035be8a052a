# Which of numpy's arrays are passed on as they are, and where they lie.
from numpy cimport ndarray as Array

cdef char *address(object array, int flags) except? NULL
cdef bint plain(object array, object dtype) noexcept
cdef bint plain_but_for_sign(object array, object twin) noexcept
cdef bint all_true(object mask) noexcept
cdef bint same_shape(Array a, Array b) noexcept
cdef Array output(object given, object dtype, Array keys, str what)
cdef Array empty_like(Array like, object dtype)
