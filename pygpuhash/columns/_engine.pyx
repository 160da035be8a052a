# cython: language_level=3, boundscheck=False, wraparound=False, embedsignature=True, freethreading_compatible=True
"""The index and the hash of <gpuhash/columns.h> for Python: rows as Arrow capsules in, ids, keys and hashes out.

A batch is passed on in pieces, between which signals are handled, so that Ctrl-C is heard. The GIL is released while
the library runs; the library's own lock orders the calls of several threads.
"""
from cpython.bytes cimport PyBytes_AsString
from cpython.exc cimport PyErr_CheckSignals
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset
from numpy cimport PyArray_DATA, import_array, ndarray as Array

from pygpuhash.columns.structs cimport *
from pygpuhash.gpuhash cimport (
    GPUHASH_INVALID_ARGUMENT, GPUHASH_OK, GPUHASH_UNSUPPORTED, gpuhash_error, gpuhash_status
)

import re

import numpy

from pygpuhash import _core

__all__ = ["HASH_VERSION", "MOST_SHARDS", "CoreIndex", "Keys", "hash_rows", "partition_rows", "rows_by_id"]

import_array()

NULLS = {"group": GPUHASH_NULLS_GROUP, "drop": GPUHASH_NULLS_DROP, "refuse": GPUHASH_NULLS_REFUSE}
FLOATS = {"numbers": GPUHASH_FLOATS_NUMBERS, "bits": GPUHASH_FLOATS_BITS}

HASH_VERSION = GPUHASH_HASH_VERSION
MOST_SHARDS = GPUHASH_MOST_SHARDS

cdef int64_t PIECE = 1 << 20  # rows per call into the library
cdef int64_t DICTIONARY_PIECE = 1 << 26  # of a column with a dictionary, all of whose values each call looks at


def piece(int64_t rows=0):
    """Rows per call into the library; a number above 0 changes it, for tests. Returns what it was."""
    global PIECE
    was = PIECE
    if rows:
        PIECE = rows
    return was


cdef void start(gpuhash_error *err) noexcept nogil:
    err.struct_size = sizeof(gpuhash_error)
    err.code = GPUHASH_OK
    err.message[0] = 0


cdef int check(gpuhash_status status, gpuhash_error *err, int64_t passed=0) except -1:
    """Types and elements that do not belong together are TypeErrors, as everywhere in the package.

    passed : rows of the column before those of the call, whose message counts from its own first row.
    """
    if status == GPUHASH_OK:
        return 0
    message = (<bytes>err.message).decode("utf-8", "replace")
    if passed:
        message = re.sub(r"^row (\d+)", lambda row: f"row {int(row[1]) + passed}", message)
    if status == GPUHASH_INVALID_ARGUMENT or status == GPUHASH_UNSUPPORTED:
        raise TypeError(message)
    raise _core.exception_of(status, message)


cdef void release_schema(object capsule) noexcept:
    cdef ArrowSchema *s = <ArrowSchema *>PyCapsule_GetPointer(capsule, "arrow_schema")
    if s.release != NULL:
        s.release(s)
    free(s)


cdef void release_array(object capsule) noexcept:
    cdef ArrowArray *a = <ArrowArray *>PyCapsule_GetPointer(capsule, "arrow_array")
    if a.release != NULL:
        a.release(a)
    free(a)


cdef ArrowArray piece_of(const ArrowArray *whole, int64_t done, int64_t most) noexcept nogil:
    """The next rows of a column, `most` at most, of which `done` were served."""
    cdef ArrowArray part = whole[0]
    if whole.length > most and whole.release != NULL:
        part.offset += done
        part.length = min(most, whole.length - done)
        if part.null_count != 0:
            part.null_count = -1  # not counted
    return part


cdef enum Request:  # what a batch asks the index for: ids, but of CONTAINS a byte for each row
    ADD, FIND, CONTAINS


cdef int64_t bytes_of(Request request) noexcept nogil:
    return 1 if request == CONTAINS else 8


cdef void keep_schema(ArrowSchema *schema) noexcept nogil:
    pass  # it is the caller's


cdef void keep_array(ArrowArray *array) noexcept nogil:
    pass


class Keys:
    """Keys of an index, as an Arrow array, which one consumer of `__arrow_c_array__` takes over."""

    def __init__(self, schema, array):
        self._pair = schema, array

    def __arrow_c_array__(self, requested_schema=None):
        return self._pair

    def __arrow_c_schema__(self):
        return self._pair[0]


cdef bint has_dictionary(const ArrowSchema *type) noexcept:
    cdef int64_t i
    if type.dictionary != NULL:
        return True
    for i in range(type.n_children):
        if has_dictionary(type.children[i]):
            return True
    return False


cdef class CoreIndex:
    """Distinct rows of one type, numbered 0, 1, 2, ... in the order of their first appearance.

    schema : a capsule "arrow_schema". nulls : "group", "drop" or "refuse". floats : "numbers" or "bits".
    """

    cdef gpuhash_index *handle

    def __init__(self, schema, str nulls="group", str floats="numbers", threads=None, bint counts=False,
                 uint64_t expected=0, uint64_t seed=0):
        cdef gpuhash_index_config config
        cdef gpuhash_error err
        if self.handle != NULL:
            raise TypeError("this index was made already")
        memset(&config, 0, sizeof(config))
        config.struct_size = sizeof(config)
        config.nulls = NULLS[nulls]
        config.floats = FLOATS[floats]
        config.threads = threads or 0
        config.counts = counts
        config.expected = expected
        config.seed = seed
        start(&err)
        check(gpuhash_index_create(<ArrowSchema *>PyCapsule_GetPointer(schema, "arrow_schema"), &config, &self.handle,
                                   &err), &err)

    def __dealloc__(self):
        gpuhash_index_destroy(self.handle)

    def add(self, schema, list chunks, Array ids=None):
        """Give each row of the chunks (capsules "arrow_array") an id; ids, of int64, receives them."""
        self._serve(schema, chunks, ids, ADD)

    def find(self, schema, list chunks, Array ids):
        """The id of each row, -1 where it is absent."""
        self._serve(schema, chunks, ids, FIND)

    def contains(self, schema, list chunks, Array mask):
        """Is each row a key? mask, of bool, receives the answers."""
        self._serve(schema, chunks, mask, CONTAINS)

    def add_numbers(self, schema, Array numbers, Array ids=None):
        """The same for a contiguous array of numbers, none of which is null."""
        self._serve_numbers(schema, numbers, ids, ADD)

    def contains_numbers(self, schema, Array numbers, Array mask):
        self._serve_numbers(schema, numbers, mask, CONTAINS)

    cdef int _serve_numbers(self, schema, Array numbers, Array out, Request request) except -1:
        cdef const void *buffers[2]
        cdef ArrowArray whole
        cdef int64_t passed = 0
        if out is not None and (<object>out).size < (<object>numbers).size:
            raise ValueError(f"the results have {out.size} elements, numbers {numbers.size}")
        buffers[0], buffers[1] = NULL, PyArray_DATA(numbers)
        memset(&whole, 0, sizeof(whole))
        whole.length = (<object>numbers).size
        whole.n_buffers = 2
        whole.buffers = buffers
        whole.release = keep_array
        return self._serve_chunk(
            <ArrowSchema *>PyCapsule_GetPointer(schema, "arrow_schema"), &whole,
            NULL if out is None else <char *>PyArray_DATA(out), request, &passed
        )

    cdef int _serve(self, schema, list chunks, Array out, Request request) except -1:
        cdef object given
        cdef ArrowSchema *type = <ArrowSchema *>PyCapsule_GetPointer(schema, "arrow_schema")
        cdef char *to = NULL if out is None else <char *>PyArray_DATA(out)
        cdef int64_t size = 0, passed = 0
        cdef ArrowArray *whole
        if out is not None:
            for chunk in chunks:
                size += (<ArrowArray *>PyCapsule_GetPointer(chunk, "arrow_array")).length
            given, wanted = <object>out, numpy.bool_ if request == CONTAINS else numpy.int64
            if given.dtype != wanted or given.ndim != 1 or given.size < size or not given.flags.c_contiguous:
                raise ValueError(
                    f"the results are {given.dtype} of shape {given.shape}: pass {wanted.__name__} of {size} elements"
                )
        for chunk in chunks:
            whole = <ArrowArray *>PyCapsule_GetPointer(chunk, "arrow_array")
            self._serve_chunk(type, whole, to, request, &passed)
            if to != NULL:
                to += whole.length * bytes_of(request)
        return 0

    def one(self, key, bint adds):
        """The id of a single str or bytes, of an index of such: -1 where it is absent; `adds`: it is added then."""
        cdef ArrowSchema type
        cdef ArrowArray row
        cdef Py_ssize_t size = 0
        cdef int64_t number = -1
        cdef int64_t[2] offsets
        cdef const void *buffers[3]
        cdef gpuhash_error err
        cdef gpuhash_status status
        cdef bint text = isinstance(key, str)
        memset(&type, 0, sizeof(type))
        memset(&row, 0, sizeof(row))
        buffers[0] = NULL
        buffers[1] = offsets
        buffers[2] = PyUnicode_AsUTF8AndSize(key, &size) if text else PyBytes_AsString(key)
        offsets[0] = 0
        offsets[1] = size if text else len(<bytes>key)
        type.format = b"U" if text else b"Z"
        type.release = keep_schema
        row.length = 1
        row.n_buffers = 3
        row.buffers = buffers
        row.release = keep_array
        start(&err)
        with nogil:
            if adds:
                status = gpuhash_index_add(self.handle, &type, &row, &number, &err)
            else:
                status = gpuhash_index_find(self.handle, &type, &row, &number, &err)
        check(status, &err)
        return number

    def merge(self, CoreIndex other, uint64_t count, Array ids):
        """Add the first `count` keys of another index; ids, of int64, receives their ids here."""
        cdef int64_t *to = <int64_t *>PyArray_DATA(ids)
        cdef uint64_t done = 0, n
        cdef gpuhash_error err
        cdef gpuhash_status status
        cdef object given = <object>ids
        if given.dtype != numpy.int64 or given.shape != (count,) or not given.flags.c_contiguous:
            raise ValueError(f"ids are {given.dtype} of shape {given.shape}: pass int64 of {count} elements")
        while True:
            n = min(<uint64_t>PIECE, count - done)
            start(&err)
            with nogil:
                status = gpuhash_index_merge(self.handle, other.handle, done, n, to + done, &err)
            check(status, &err)
            done += n
            if done >= count:
                return
            PyErr_CheckSignals()

    cdef int _serve_chunk(
        self, ArrowSchema *type, ArrowArray *whole, char *to, Request request, int64_t *passed
    ) except -1:
        cdef int64_t most = DICTIONARY_PIECE if has_dictionary(type) else PIECE
        cdef int64_t done = 0
        cdef ArrowArray part
        cdef gpuhash_error err
        cdef gpuhash_status status
        cdef gpuhash_index *index = self.handle
        while True:
            part = piece_of(whole, done, most)
            start(&err)
            with nogil:
                if request == ADD:
                    status = gpuhash_index_add(index, type, &part, <int64_t *>to, &err)
                elif request == FIND:
                    status = gpuhash_index_find(index, type, &part, <int64_t *>to, &err)
                else:
                    status = gpuhash_index_contains(index, type, &part, <uint8_t *>to, &err)
            check(status, &err, passed[0])
            done += part.length
            passed[0] += part.length
            if to != NULL:
                to += part.length * bytes_of(request)
            if done >= whole.length:
                return 0
            PyErr_CheckSignals()

    def keys(self, uint64_t first, uint64_t count):
        """Keys first .. first + count - 1, by id."""
        return self._keys(first, count, NULL)

    def take(self, Array ids):
        """Keys by these ids, which are C-contiguous int64 of one dimension."""
        cdef object given = <object>ids
        if given.dtype != numpy.int64 or given.ndim != 1 or not given.flags.c_contiguous:
            raise ValueError(f"ids are {given.dtype} of shape {given.shape}: pass int64 of one dimension")
        return self._keys(0, given.size, <const int64_t *>PyArray_DATA(ids))

    cdef object _keys(self, uint64_t first, uint64_t count, const int64_t *ids):
        cdef gpuhash_error err
        cdef gpuhash_status status
        cdef ArrowSchema *s = <ArrowSchema *>malloc(sizeof(ArrowSchema))
        cdef ArrowArray *a = <ArrowArray *>malloc(sizeof(ArrowArray))
        if s == NULL or a == NULL:
            free(s)
            free(a)
            raise MemoryError("no memory for the keys")
        s.release = NULL
        a.release = NULL
        schema = PyCapsule_New(s, "arrow_schema", release_schema)
        array = PyCapsule_New(a, "arrow_array", release_array)
        start(&err)
        with nogil:
            if ids == NULL:
                status = gpuhash_index_keys(self.handle, first, count, s, a, &err)
            else:
                status = gpuhash_index_take(self.handle, count, ids, s, a, &err)
        check(status, &err)
        return Keys(schema, array)

    def numbers(self, dtype):
        """All keys as an array of a dtype of their width, of an index of numbers without nulls."""
        cdef gpuhash_error err
        cdef ArrowSchema s
        cdef ArrowArray a
        cdef uint64_t n = self._info().size
        cdef Array out = numpy.empty(n, dtype)
        cdef size_t bytes = (<object>out).nbytes
        start(&err)
        check(gpuhash_index_keys(self.handle, 0, n, &s, &a, &err), &err)
        memcpy(PyArray_DATA(out), a.buffers[1], bytes)
        s.release(&s)
        a.release(&a)
        return out

    def counts(self):
        """How often each key was added: int64, by id."""
        cdef gpuhash_error err
        cdef gpuhash_index_info info = self._info()
        out = numpy.empty(info.size, numpy.int64)
        start(&err)
        check(gpuhash_index_counts(self.handle, 0, info.size, <int64_t *>PyArray_DATA(<Array>out), &err), &err)
        return out

    cdef gpuhash_index_info _info(self) except *:
        cdef gpuhash_index_info info
        cdef gpuhash_error err
        memset(&info, 0, sizeof(info))
        info.struct_size = sizeof(info)
        start(&err)
        check(gpuhash_index_get_info(self.handle, &info, &err), &err)
        return info

    @property
    def size(self):
        """Keys."""
        return self._info().size

    @property
    def nbytes(self):
        """Bytes of memory that are held."""
        return self._info().bytes

    @property
    def null(self):
        """The id of the row that is null, in an index of one column; -1: there is none."""
        return self._info().null


def rows_by_id(Array ids, uint64_t size):
    """(offsets, rows): the rows of id i are rows[offsets[i]:offsets[i + 1]], ascending. Ids below 0 are left out."""
    cdef gpuhash_error err
    cdef gpuhash_status status
    cdef int64_t *p
    cdef int64_t *to
    cdef int64_t *row
    cdef size_t n = (<object>ids).size
    offsets = numpy.empty(size + 1, numpy.int64)
    rows = numpy.empty(n, numpy.int64)
    p = <int64_t *>PyArray_DATA(ids)
    to = <int64_t *>PyArray_DATA(<Array>offsets)
    row = <int64_t *>PyArray_DATA(<Array>rows)
    start(&err)
    with nogil:
        status = gpuhash_rows_by_id(n, p, size, to, row, &err)
    check(status, &err)
    return offsets, rows[:offsets[size]]


def hash_rows(schema, list chunks, uint32_t bits, uint64_t seed, threads, Array out):
    """The published hash of each row of the chunks (capsules "arrow_array"): bits / 64 words of `out` each.

    schema : a capsule "arrow_schema". out : one-dimensional uint64.
    """
    cdef ArrowSchema *type = <ArrowSchema *>PyCapsule_GetPointer(schema, "arrow_schema")
    cdef uint64_t *to = <uint64_t *>PyArray_DATA(out)
    cdef int64_t most = DICTIONARY_PIECE if has_dictionary(type) else PIECE
    cdef uint32_t own_threads = threads or 0
    cdef int64_t done, size = 0
    cdef ArrowArray part
    cdef ArrowArray *whole
    cdef gpuhash_error err
    cdef gpuhash_status status
    cdef object given = <object>out
    for chunk in chunks:
        size += (<ArrowArray *>PyCapsule_GetPointer(chunk, "arrow_array")).length
    size *= bits // 64
    if given.dtype != numpy.uint64 or given.ndim != 1 or given.size < size or not given.flags.c_contiguous:
        raise ValueError(f"out is {given.dtype} of shape {given.shape}: pass uint64 of {size} elements")
    for chunk in chunks:
        whole = <ArrowArray *>PyCapsule_GetPointer(chunk, "arrow_array")
        done = 0
        while True:
            part = piece_of(whole, done, most)
            start(&err)
            with nogil:
                status = gpuhash_hash_rows(type, &part, bits, seed, own_threads, to, &err)
            check(status, &err)
            done += part.length
            to += part.length * (bits // 64)
            if done >= whole.length:
                break
            PyErr_CheckSignals()


cdef void *memory_of(Array array, int64_t least, dtype) except? NULL:
    """The memory of a result, which has room for so many elements; NULL of one that is not asked for."""
    cdef object given = <object>array
    if array is None:
        return NULL
    if not given.flags.c_contiguous or given.ndim == 0 or len(given) < least or dtype not in (None, given.dtype):
        raise ValueError(f"a result is {given.dtype} of shape {given.shape}: pass {dtype or 'an array'} of {least}")
    return PyArray_DATA(array)


def partition_rows(schema, chunk, uint32_t shards, uint64_t seed, threads, Array ids=None, Array offsets=None,
                   Array order=None, Array keys=None, Array values=None, Array grouped=None):
    """Group the rows of a chunk by shard. Each result is written that is given.

    ids : int32, the shard of each row. offsets : int64, shards + 1. order : int64, the numbers of the rows, grouped.
    keys : as many bytes as the chunk's cells of fixed width. values, grouped : C-contiguous, of one dtype and shape.
    """
    cdef gpuhash_partition_request request
    cdef gpuhash_error err
    cdef gpuhash_status status
    cdef ArrowArray *rows = <ArrowArray *>PyCapsule_GetPointer(chunk, "arrow_array")
    cdef int64_t n = rows.length
    memset(&request, 0, sizeof(request))
    request.struct_size = sizeof(request)
    request.type = <ArrowSchema *>PyCapsule_GetPointer(schema, "arrow_schema")
    request.keys = rows
    request.shards, request.seed, request.threads = shards, seed, threads or 0
    request.out_shards = <int32_t *>memory_of(ids, n, numpy.dtype(numpy.int32))
    request.out_offsets = <int64_t *>memory_of(offsets, shards + 1, numpy.dtype(numpy.int64))
    request.out_order = <int64_t *>memory_of(order, n, numpy.dtype(numpy.int64))
    request.out_keys = memory_of(keys, n, None)
    if values is not None:
        given = <object>values
        request.values = memory_of(values, n, None)
        request.out_values = memory_of(grouped, n, given.dtype)
        request.value_bytes = given.nbytes // len(given) if len(given) else 1
    start(&err)
    with nogil:
        status = gpuhash_partition(&request, &err)
    check(status, &err)


def pairs(Array at, Array offsets, Array rows, bint all_of_left):
    """(left, right): element i meets rows[offsets[id]:offsets[id + 1]], where id = at[i].

    at : ids from -1 to less than len(offsets) - 1; an element whose id is -1 meets none, or -1 with `all_of_left`.
    """
    cdef int64_t n = (<object>at).size, i, j, k = 0, size = 0
    cdef const int64_t *ids = <const int64_t *>PyArray_DATA(at)
    cdef const int64_t *starts = <const int64_t *>PyArray_DATA(offsets)
    cdef const int64_t *row = <const int64_t *>PyArray_DATA(rows)
    cdef int64_t *one
    cdef int64_t *other
    with nogil:
        for i in range(n):
            if ids[i] >= 0:
                size += starts[ids[i] + 1] - starts[ids[i]]
            elif all_of_left:
                size += 1
    left, right = numpy.empty(size, numpy.int64), numpy.empty(size, numpy.int64)
    one, other = <int64_t *>PyArray_DATA(<Array>left), <int64_t *>PyArray_DATA(<Array>right)
    with nogil:
        for i in range(n):
            if ids[i] >= 0:
                for j in range(starts[ids[i]], starts[ids[i] + 1]):
                    one[k] = i
                    other[k] = row[j]
                    k += 1
            elif all_of_left:
                one[k] = i
                other[k] = -1
                k += 1
    return left, right


def canonical(Array floats):
    """Floats whose equal numbers have equal bits: one zero, one NaN. The array itself where they have already.

    floats : C-contiguous float16, float32 or float64.
    """
    cdef size_t n = (<object>floats).size, i
    cdef int width = (<object>floats).itemsize
    cdef const char *p = <const char *>PyArray_DATA(floats)
    cdef uint64_t odd = 0
    cdef uint16_t h
    cdef uint32_t s
    cdef uint64_t d
    with nogil:
        if width == 2:
            for i in range(n):
                h = (<const uint16_t *>p)[i]
                odd |= (h == 0x8000) | (((h & 0x7fff) > 0x7c00) & (h != 0x7e00))
        elif width == 4:
            for i in range(n):
                s = (<const uint32_t *>p)[i]
                odd |= (s == 0x80000000u) | (((s & 0x7fffffffu) > 0x7f800000u) & (s != 0x7fc00000u))
        else:
            for i in range(n):
                d = (<const uint64_t *>p)[i]
                odd |= (d == <uint64_t>1 << 63) | (
                    ((d << 1) > <uint64_t>0xffe0000000000000u) & (d != <uint64_t>0x7ff8000000000000u))
    if not odd:
        return floats
    given = <object>floats
    result = given + given.dtype.type(0)
    result[given != given] = numpy.nan
    return result
