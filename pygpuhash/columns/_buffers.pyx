# cython: language_level=3, boundscheck=False, wraparound=False, embedsignature=True
"""Arrow's C data structs: made of numpy's buffers without a copy, and read; and the strict pass over Python objects.

An array that is made here holds references to the objects whose memory it names, and drops them, with the GIL, when its
consumer releases it, from any thread. Structs are moved as Arrow's specification says: a capsule whose struct was moved
has a struct without a release function.
"""
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_AsUnsignedLongLong
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy, memset, strlen
from numpy cimport (
    NPY_UINT8, PyArray_BYTES, PyArray_ScalarAsCtype, PyArray_SetBaseObject, PyArray_SimpleNewFromData, import_array,
    ndarray, npy_intp
)

cdef extern from *:
    """
    #ifndef ARROW_C_DATA_INTERFACE
    #define ARROW_C_DATA_INTERFACE
    #define ARROW_FLAG_DICTIONARY_ORDERED 1
    #define ARROW_FLAG_NULLABLE 2
    #define ARROW_FLAG_MAP_KEYS_SORTED 4
    struct ArrowSchema {
      const char *format;
      const char *name;
      const char *metadata;
      int64_t flags;
      int64_t n_children;
      struct ArrowSchema **children;
      struct ArrowSchema *dictionary;
      void (*release)(struct ArrowSchema *);
      void *private_data;
    };
    struct ArrowArray {
      int64_t length;
      int64_t null_count;
      int64_t offset;
      int64_t n_buffers;
      int64_t n_children;
      const void **buffers;
      struct ArrowArray **children;
      struct ArrowArray *dictionary;
      void (*release)(struct ArrowArray *);
      void *private_data;
    };
    #endif
    #ifndef ARROW_C_STREAM_INTERFACE
    #define ARROW_C_STREAM_INTERFACE
    struct ArrowArrayStream {
      int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *out);
      int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *out);
      const char *(*get_last_error)(struct ArrowArrayStream *);
      void (*release)(struct ArrowArrayStream *);
      void *private_data;
    };
    #endif
    """
    cdef struct ArrowSchema:
        const char *format
        const char *name
        const char *metadata
        int64_t flags
        int64_t n_children
        ArrowSchema **children
        ArrowSchema *dictionary
        void (*release)(ArrowSchema *) noexcept nogil
        void *private_data
    cdef struct ArrowArray:
        int64_t length
        int64_t null_count
        int64_t offset
        int64_t n_buffers
        int64_t n_children
        const void **buffers
        ArrowArray **children
        ArrowArray *dictionary
        void (*release)(ArrowArray *) noexcept nogil
        void *private_data
    cdef struct ArrowArrayStream:
        int (*get_schema)(ArrowArrayStream *, ArrowSchema *) noexcept nogil
        int (*get_next)(ArrowArrayStream *, ArrowArray *) noexcept nogil
        const char *(*get_last_error)(ArrowArrayStream *) noexcept nogil
        void (*release)(ArrowArrayStream *) noexcept nogil
        void *private_data

cdef extern from "Python.h":
    int Py_IsInitialized() nogil
    PyObject *PyList_GetItem(object values, Py_ssize_t i)
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL
    int PyBytes_AsStringAndSize(object data, char **at, Py_ssize_t *size) except -1
    object PyUnicode_DecodeUTF8(const char *at, Py_ssize_t size, const char *errors)
    object PyBytes_FromStringAndSize(const char *at, Py_ssize_t size)

import sys
from datetime import date, datetime, time, timedelta
from decimal import Decimal

import numpy

import_array()

cdef object empty = numpy.empty
cdef object generic = numpy.generic
cdef object BOOL = numpy.dtype(bool)
cdef object INT64 = numpy.dtype("i8")
cdef object UINT64 = numpy.dtype("u8")
cdef object FLOAT64 = numpy.dtype("f8")
cdef object UINT8 = numpy.dtype("u1")


# ---- making structs --------------------------------------------------------------------------------------------------

cdef void release_schema(ArrowSchema *schema) noexcept nogil:
    cdef int64_t i
    for i in range(schema.n_children):
        if schema.children[i] != NULL:
            if schema.children[i].release != NULL:
                schema.children[i].release(schema.children[i])
            free(schema.children[i])
    free(schema.children)
    if schema.dictionary != NULL:
        if schema.dictionary.release != NULL:
            schema.dictionary.release(schema.dictionary)
        free(schema.dictionary)
    free(<void *>schema.format)
    free(<void *>schema.name)
    schema.release = NULL


cdef void release_array(ArrowArray *array) noexcept nogil:
    cdef int64_t i
    for i in range(array.n_children):
        if array.children[i] != NULL:
            if array.children[i].release != NULL:
                array.children[i].release(array.children[i])
            free(array.children[i])
    free(array.children)
    if array.dictionary != NULL:
        if array.dictionary.release != NULL:
            array.dictionary.release(array.dictionary)
        free(array.dictionary)
    free(array.buffers)
    array.release = NULL
    if array.private_data != NULL and Py_IsInitialized():
        with gil:
            Py_DECREF(<object>array.private_data)


cdef void drop_schema(object capsule) noexcept:
    cdef ArrowSchema *schema = <ArrowSchema *>PyCapsule_GetPointer(capsule, "arrow_schema")
    if schema.release != NULL:
        schema.release(schema)
    free(schema)


cdef void drop_array(object capsule) noexcept:
    cdef ArrowArray *array = <ArrowArray *>PyCapsule_GetPointer(capsule, "arrow_array")
    if array.release != NULL:
        array.release(array)
    free(array)


cdef void *cleared(size_t count, size_t size) except NULL:
    cdef void *memory = calloc(count if count else 1, size)
    if memory == NULL:
        raise MemoryError()
    return memory


cdef object schema_capsule(ArrowSchema **out):
    """A capsule of an empty struct, which its owner may fill."""
    out[0] = <ArrowSchema *>cleared(1, sizeof(ArrowSchema))
    return PyCapsule_New(out[0], "arrow_schema", drop_schema)


cdef object array_capsule(ArrowArray **out):
    out[0] = <ArrowArray *>cleared(1, sizeof(ArrowArray))
    return PyCapsule_New(out[0], "arrow_array", drop_array)


cdef ArrowSchema *schema_at(object capsule) except NULL:
    """The struct of a capsule, which may have been moved out of it."""
    cdef ArrowSchema *schema = <ArrowSchema *>PyCapsule_GetPointer(capsule, "arrow_schema")
    if schema.release == NULL:
        raise ValueError("the schema was moved or released before: read the column again")
    return schema


cdef ArrowArray *array_at(object capsule) except NULL:
    cdef ArrowArray *array = <ArrowArray *>PyCapsule_GetPointer(capsule, "arrow_array")
    if array.release == NULL:
        raise ValueError("the array was moved or released before: read the column again")
    return array


cdef ArrowArray *moved_array(object capsule) except NULL:
    cdef ArrowArray *source = array_at(capsule)
    cdef ArrowArray *array = <ArrowArray *>cleared(1, sizeof(ArrowArray))
    array[0] = source[0]
    source.release = NULL
    return array


cdef char *copied_text(const char *text) except NULL:
    cdef size_t size = strlen(text) + 1
    cdef char *copy = <char *>cleared(size, 1)
    memcpy(copy, text, size)
    return copy


def schema(str format not None, str name not None="", children=(), names=(), dictionary=None, int64_t flags=2):
    """A capsule "arrow_schema". Children are copied, and have these names; their metadata is left out."""
    cdef ArrowSchema *out
    capsule = schema_capsule(&out)
    out.release = release_schema
    out.flags = flags
    out.format = copied_text(format.encode())
    out.name = named(name)
    out.children = <ArrowSchema **>cleared(len(children), sizeof(void *))
    for child, child_name in zip(children, names, strict=True):
        out.children[out.n_children] = <ArrowSchema *>cleared(1, sizeof(ArrowSchema))
        out.n_children += 1
        copy_schema(out.children[out.n_children - 1], schema_at(child))
        free(<void *>out.children[out.n_children - 1].name)
        out.children[out.n_children - 1].name = named(child_name)
    if dictionary is not None:
        out.dictionary = <ArrowSchema *>cleared(1, sizeof(ArrowSchema))
        copy_schema(out.dictionary, schema_at(dictionary))
    return capsule


cdef char *named(str name) except NULL:
    """A name in C; what UTF-8 or C's strings lack is left out, as names are for messages."""
    return copied_text(name.replace("\0", "").encode("utf-8", "replace"))


def array(int64_t length, tuple buffers not None, children=(), dictionary=None, int64_t null_count=-1):
    """A capsule "arrow_array" over the memory of these buffers: contiguous numpy arrays, or None.

    The structs of children and dictionary are moved out of their capsules.
    """
    cdef ArrowArray *out
    capsule = array_capsule(&out)
    out.release = release_array
    out.length = length
    out.null_count = 0 if buffers and buffers[0] is None else null_count
    Py_INCREF(buffers)
    out.private_data = <void *>buffers
    out.buffers = <const void **>cleared(len(buffers), sizeof(void *))
    for buffer in buffers:
        if buffer is not None:
            out.buffers[out.n_buffers] = PyArray_BYTES(<ndarray?>buffer)
        out.n_buffers += 1
    out.children = <ArrowArray **>cleared(len(children), sizeof(void *))
    for child in children:
        out.children[out.n_children] = moved_array(child)
        out.n_children += 1
    if dictionary is not None:
        out.dictionary = moved_array(dictionary)
    return capsule


cdef int share(ArrowArray *out, ArrowArray *source, object owner) except -1:
    """Fill `out` with what `source` names, which `owner` keeps alive."""
    cdef int64_t i
    out[0] = source[0]
    out.n_children = 0
    out.dictionary = NULL
    out.children = NULL
    out.buffers = NULL
    out.release = release_array
    Py_INCREF(owner)
    out.private_data = <void *>owner
    out.buffers = <const void **>cleared(source.n_buffers, sizeof(void *))
    for i in range(source.n_buffers):
        out.buffers[i] = source.buffers[i]
    out.children = <ArrowArray **>cleared(source.n_children, sizeof(void *))
    for i in range(source.n_children):
        out.children[i] = <ArrowArray *>cleared(1, sizeof(ArrowArray))
        out.n_children = i + 1
        share(out.children[i], source.children[i], owner)
    if source.dictionary != NULL:
        out.dictionary = <ArrowArray *>cleared(1, sizeof(ArrowArray))
        share(out.dictionary, source.dictionary, owner)
    return 0


cdef int copy_schema(ArrowSchema *out, ArrowSchema *source) except -1:
    """Fill `out` with a schema like `source`, without its metadata."""
    cdef int64_t i
    out.release = release_schema
    out.flags = source.flags
    out.format = copied_text(source.format)
    if source.name != NULL:
        out.name = copied_text(source.name)
    out.children = <ArrowSchema **>cleared(source.n_children, sizeof(void *))
    for i in range(source.n_children):
        out.children[i] = <ArrowSchema *>cleared(1, sizeof(ArrowSchema))
        out.n_children = i + 1
        copy_schema(out.children[i], source.children[i])
    if source.dictionary != NULL:
        out.dictionary = <ArrowSchema *>cleared(1, sizeof(ArrowSchema))
        copy_schema(out.dictionary, source.dictionary)
    return 0


def sliced(capsule, int64_t start, int64_t length):
    """A capsule "arrow_array" of `length` elements from `start` on, over the memory of another."""
    cdef ArrowArray *source = array_at(capsule)
    cdef ArrowArray *out
    if start < 0 or length < 0 or start + length > source.length:
        raise IndexError(f"elements {start} to {start + length} of {source.length}")
    view = array_capsule(&out)
    share(out, source, capsule)
    out.offset += start
    out.length = length
    if out.null_count:
        out.null_count = -1
    return view


def length(capsule):
    """How many elements the array of a capsule has."""
    return array_at(capsule).length


def read_stream(capsule, str what not None):
    """(capsule "arrow_schema", [capsules "arrow_array"]) of a capsule "arrow_array_stream", which is used up."""
    cdef ArrowArrayStream *stream = <ArrowArrayStream *>PyCapsule_GetPointer(capsule, "arrow_array_stream")
    cdef ArrowSchema *schema
    cdef ArrowArray *array
    cdef int status
    cdef list chunks = []
    if stream.release == NULL:
        raise ValueError(f"{what}: the stream was read before: pass a new one")
    type_capsule = schema_capsule(&schema)
    with nogil:
        status = stream.get_schema(stream, schema)
    if status:
        raise failure(stream, status, what)
    while True:
        chunk = array_capsule(&array)
        with nogil:
            status = stream.get_next(stream, array)
        if status:
            raise failure(stream, status, what)
        if array.release == NULL:
            break
        if array.length:
            chunks.append(chunk)
    with nogil:
        stream.release(stream)
    return type_capsule, chunks


cdef object failure(ArrowArrayStream *stream, int status, str what):
    cdef const char *words = stream.get_last_error(stream)
    said = f"errno {status}" if words == NULL else (<bytes>words).decode(errors="replace")
    return ValueError(f"{what}: its library failed to give the column: {said}")


def describe(capsule):
    """(format, name, children, dictionary) of a schema, nested."""
    return described(schema_at(capsule))


cdef tuple described(ArrowSchema *schema):
    cdef int64_t i
    return (
        (<bytes>schema.format).decode(),
        "" if schema.name == NULL else (<bytes>schema.name).decode(errors="replace"),
        tuple([described(schema.children[i]) for i in range(schema.n_children)]),
        None if schema.dictionary == NULL else described(schema.dictionary),
    )


# ---- reading structs -------------------------------------------------------------------------------------------------

cdef object over_memory(const void *at, int64_t bytes, object owner):
    """A numpy array of bytes over memory that `owner` keeps alive."""
    cdef npy_intp dims = bytes
    if at == NULL or bytes == 0:
        return empty(0, UINT8)
    array = PyArray_SimpleNewFromData(1, &dims, NPY_UINT8, <void *>at)
    Py_INCREF(owner)  # which the array takes over
    PyArray_SetBaseObject(array, owner)
    return array


cdef object bits(const void *at, int64_t start, int64_t length, object owner):
    """A bool array of the bits of a bitmap."""
    cdef int64_t first = start >> 3
    if length == 0:
        return empty(0, BOOL)
    packed = over_memory(<const uint8_t *>at + first, ((start + length + 7) >> 3) - first, owner)
    return numpy.unpackbits(packed, bitorder="little")[start & 7:][:length].view(BOOL)


cdef ArrowSchema NO_TYPE
cdef ArrowArray NO_ARRAY
memset(&NO_TYPE, 0, sizeof(NO_TYPE))
memset(&NO_ARRAY, 0, sizeof(NO_ARRAY))
NO_TYPE.format = "n"


cdef class View:
    """An array of Arrow's C data interface for Python: what `__arrow_c_array__` gives, as numpy arrays and objects.

    `format` is that of Arrow, `length` the number of elements. The producer's memory lives as long as the views of it.
    """
    cdef object owner
    cdef ArrowSchema *type
    cdef ArrowArray *array
    cdef int64_t start
    cdef readonly int64_t length

    def __cinit__(self, *arguments):
        self.type = &NO_TYPE  # until it is made: a column of nulls without an element
        self.array = &NO_ARRAY

    def __init__(self, giver):
        schema, array = giver.__arrow_c_array__()
        self.owner = (schema, array)
        self.type = schema_at(schema)
        self.array = array_at(array)
        self.start = self.array.offset
        self.length = self.array.length

    @property
    def format(self):
        return (<bytes>self.type.format).decode()

    @property
    def columns(self):
        """How many children there are."""
        return self.array.n_children

    def child(self, int64_t i):
        """The view of a child of a struct. An element whose struct is null is what the child says."""
        if not 0 <= i < self.array.n_children:
            raise IndexError(f"child {i} of {self.array.n_children}")
        return self.part(self.type.children[i], self.array.children[i])

    cdef View part(self, ArrowSchema *schema, ArrowArray *array):
        cdef View view = View.__new__(View)
        view.owner = self
        view.type = schema
        view.array = array
        view.start = self.start + array.offset
        view.length = self.length
        return view

    def __arrow_c_array__(self, requested_schema=None):
        cdef ArrowSchema *schema
        cdef ArrowArray *array
        first, second = schema_capsule(&schema), array_capsule(&array)
        copy_schema(schema, self.type)
        share(array, self.array, self)
        array.offset = self.start
        array.length = self.length
        if array.null_count:
            array.null_count = -1
        return first, second

    def nulls(self):
        """A bool array with True where an element is null; None where none is."""
        if self.type.format[0] == b"n":
            return numpy.ones(self.length, BOOL) if self.length else None
        if self.array.null_count == 0 or self.array.buffers[0] == NULL:
            return None
        mask = ~bits(self.array.buffers[0], self.start, self.length, self)
        return mask if mask.any() else None

    def values(self, dtype):
        """The elements of a type of fixed width as an array of a numpy dtype of that width, without a copy.

        Booleans are a copy. Nulls are whatever is there.
        """
        dtype = numpy.dtype(dtype)
        if self.type.format[0] == b"n":
            return numpy.zeros(self.length, dtype)
        if self.type.format[0] == b"b":
            return bits(self.array.buffers[1], self.start, self.length, self)
        cdef int64_t width = dtype.itemsize
        if self.length == 0:
            return empty(0, dtype)
        return over_memory(<const char *>self.array.buffers[1] + self.start * width, self.length * width, self).view(
            dtype
        )

    cdef const char *cell(self, int64_t i, int64_t *size) except? NULL:
        """The bytes of element i of a type of text or bytes."""
        cdef const char *format = self.type.format
        cdef const void **buffers = self.array.buffers
        cdef const int32_t *view
        cdef int64_t first
        i += self.start
        if format[0] == b"v":
            view = <const int32_t *>buffers[1] + 4 * i
            size[0] = view[0]
            if size[0] <= 12:
                return <const char *>(view + 1)
            return <const char *>buffers[2 + view[2]] + view[3]
        if format[0] == b"w":
            size[0] = int(format[2:])
            return <const char *>buffers[1] + size[0] * i
        if format[0] == b"U" or format[0] == b"Z":
            first = (<const int64_t *>buffers[1])[i]
            size[0] = (<const int64_t *>buffers[1])[i + 1] - first
        elif format[0] == b"u" or format[0] == b"z":
            first = (<const int32_t *>buffers[1])[i]
            size[0] = (<const int32_t *>buffers[1])[i + 1] - first
        else:
            raise TypeError(f"Arrow type {self.format!r} is neither text nor bytes")
        return <const char *>buffers[2] + first

    def objects(self):
        """The elements of text or bytes as a list of str or bytes, nulls as None."""
        cdef int64_t i, size = 0
        cdef const char *at
        cdef bint text = b"u" in self.type.format or b"U" in self.type.format
        cdef list out = [None] * self.length
        nulls = self.nulls()
        cdef uint8_t *null = mask_of(nulls)
        for i in range(self.length):
            if null == NULL or not null[i]:
                at = self.cell(i, &size)
                out[i] = PyUnicode_DecodeUTF8(at, size, NULL) if text else PyBytes_FromStringAndSize(at, size)
        return out

    def widest(self):
        """(characters of the longest text, or bytes; whether one ends in NUL; bytes of all)."""
        cdef int64_t i, j, size = 0, most = 0, count, total = 0
        cdef bint trailing = False, text = b"u" in self.type.format or b"U" in self.type.format
        cdef const char *at
        nulls = self.nulls()
        cdef uint8_t *null = mask_of(nulls)
        for i in range(self.length):
            if null != NULL and null[i]:
                continue
            at = self.cell(i, &size)
            count = size
            total += size
            trailing |= size > 0 and at[size - 1] == 0
            if text and size > most:
                for j in range(size):
                    count -= (<uint8_t>at[j] & 0xC0) == 0x80
            most = max(most, count)
        return most, trailing, total

    def padded(self, dtype):
        """The elements of text or bytes as an array of a dtype of kind U or S; what is longer raises ValueError."""
        cdef int64_t i, j, size = 0, width
        cdef const uint8_t *at
        cdef uint32_t *letter
        cdef uint32_t code
        cdef char *out
        dtype = numpy.dtype(dtype)
        cdef bint text = dtype.kind == "U"
        array = numpy.zeros(self.length, dtype)
        width = array.dtype.itemsize // 4 if text else array.dtype.itemsize
        out = PyArray_BYTES(<ndarray>array)
        nulls = self.nulls()
        cdef uint8_t *null = mask_of(nulls)
        for i in range(self.length):
            if null != NULL and null[i]:
                continue
            at = <const uint8_t *>self.cell(i, &size)
            if not text:
                if size > width:
                    raise ValueError(f"key {i} has {size} bytes, {dtype} {width}")
                memcpy(out + i * width, at, size)
                continue
            letter = <uint32_t *>out + i * width
            j = 0
            code = 0
            while j < size:
                if letter == <uint32_t *>out + (i + 1) * width:
                    raise ValueError(f"key {i} has more than {width} characters")
                if at[j] < 0x80:
                    code = at[j]
                    j += 1
                elif at[j] < 0xE0 and j + 1 < size:
                    code = (at[j] & 0x1F) << 6 | (at[j + 1] & 0x3F)
                    j += 2
                elif at[j] < 0xF0 and j + 2 < size:
                    code = (at[j] & 0x0F) << 12 | (at[j + 1] & 0x3F) << 6 | (at[j + 2] & 0x3F)
                    j += 3
                elif j + 3 < size:
                    code = (at[j] & 7) << 18 | (at[j + 1] & 0x3F) << 12 | (at[j + 2] & 0x3F) << 6 | (at[j + 3] & 0x3F)
                    j += 4
                else:
                    raise ValueError(f"key {i} is not UTF-8")
                letter[0] = code
                letter += 1
        return array


# ---- numpy's text ----------------------------------------------------------------------------------------------------

cdef class Bytes:
    """Memory that grows, and becomes a numpy array."""
    cdef char *at
    cdef int64_t size, room

    def __dealloc__(self):
        free(self.at)

    cdef char *more(self, int64_t n) except NULL:
        """Room for n bytes at the end, which count as written."""
        cdef int64_t room = self.room
        cdef char *moved
        if self.at == NULL or self.size + n > room:
            room = max(2 * room, self.size + n, 64)
            moved = <char *>realloc(self.at, room)
            if moved == NULL:
                raise MemoryError()
            self.at = moved
            self.room = room
        self.size += n
        return self.at + self.size - n

    cdef object whole(self):
        return over_memory(self.at, self.size, self) if self.size else numpy.zeros(1, UINT8)


def from_fixed_text(ndarray given not None, str what not None):
    """(offsets, bytes) of a contiguous array of kind U or S: elements without trailing NULs, text in UTF-8."""
    cdef bint text = given.dtype.kind == "U"
    cdef int64_t n = given.size, i, j, width = given.dtype.itemsize // (4 if text else 1)
    cdef const char *cells = PyArray_BYTES(given)
    cdef const uint32_t *letters
    cdef uint32_t code
    cdef int64_t used
    cdef uint8_t *out
    cdef Bytes data = Bytes()
    offsets = empty(n + 1, INT64)
    cdef int64_t *offset = <int64_t *>PyArray_BYTES(<ndarray>offsets)
    offset[0] = 0
    for i in range(n):
        used = width
        if not text:
            while used and cells[i * width + used - 1] == 0:
                used -= 1
            memcpy(data.more(used), cells + i * width, used)
        else:
            letters = <const uint32_t *>cells + i * width
            while used and letters[used - 1] == 0:
                used -= 1
            out = <uint8_t *>data.more(4 * used)
            data.size -= 4 * used
            for j in range(used):
                code = letters[j]
                if code < 0x80:
                    out[0] = <uint8_t>code
                    out += 1
                elif code < 0x800:
                    out[0] = <uint8_t>(0xC0 | code >> 6)
                    out[1] = <uint8_t>(0x80 | code & 0x3F)
                    out += 2
                elif code < 0x10000:
                    if 0xD800 <= code < 0xE000:
                        raise surrogate(what, i)
                    out[0] = <uint8_t>(0xE0 | code >> 12)
                    out[1] = <uint8_t>(0x80 | code >> 6 & 0x3F)
                    out[2] = <uint8_t>(0x80 | code & 0x3F)
                    out += 3
                elif code < 0x110000:
                    out[0] = <uint8_t>(0xF0 | code >> 18)
                    out[1] = <uint8_t>(0x80 | code >> 12 & 0x3F)
                    out[2] = <uint8_t>(0x80 | code >> 6 & 0x3F)
                    out[3] = <uint8_t>(0x80 | code & 0x3F)
                    out += 4
                else:
                    raise TypeError(f"{what}[{i}] has the code {code:#x}, which is no character: pass text, or numbers")
            data.size = <char *>out - data.at
        offset[i + 1] = data.size
    return offsets, data.whole()


cdef object surrogate(str what, int64_t i):
    return TypeError(
        f"{what}[{i}] has a lone surrogate, which UTF-8 lacks: pass bytes, "
        f"[x.encode('utf-8', 'surrogatepass') for x in {what}]"
    )


# ---- Python objects --------------------------------------------------------------------------------------------------

# Kinds of elements. Those up to FIXED follow from the element's type alone.
cdef enum Kind:
    BOOLEAN
    INTEGER
    TEXT
    BYTES
    DATE
    TIME
    TIMEDELTA
    DECIMAL
    COMPLEX
    TUPLE
    FIXED
    FLOAT
    DATETIME
    AWARE
    DATETIME64
    TIMEDELTA64
    NOTHING
    OTHER
    KINDS

cdef tuple NAMES = (
    "bool", "int", "str", "bytes", "date", "time", "timedelta", "Decimal", "complex", "tuple", "", "float",
    "datetime", "datetime with a time zone", "datetime64", "timedelta64", "None", "",
)
cdef dict WAYS_OUT = {
    "list": "pass tuples for rows, or numpy's array for a column of two dimensions",
    "ndarray": "pass tuples for rows, or numpy's array for a column of two dimensions",
    "dict": "pass tuples of its values",
    "set": "pass tuples, sorted",
    "frozenset": "pass tuples, sorted",
    "UUID": "pass x.bytes of each, or str(x)",
    "Period": "pass x.to_timestamp() of each, or x.ordinal",
    "Interval": "pass tuples (x.left, x.right)",
    "Fraction": "pass tuples (x.numerator, x.denominator)",
    "PosixPath": "pass str(x) of each",
    "longdouble": "pass np.float64 where no digit is lost, or str(x)",
    "clongdouble": "pass complex where no digit is lost",
    "Series": "pass a tuple of columns",
    "bytearray": "pass bytes(x) of each",
}


cdef dict OF_NUMPY = {
    "b": BOOLEAN, "i": INTEGER, "u": INTEGER, "f2": FLOAT, "f4": FLOAT, "f8": FLOAT, "c8": COMPLEX, "c16": COMPLEX,
    "U": TEXT, "S": BYTES, "M": DATETIME64, "m": TIMEDELTA64,
}
cdef object DATE_TYPE = date
cdef object DATETIME_TYPE = datetime
cdef object TIMEDELTA_TYPE = timedelta
cdef object DECIMAL_TYPE = Decimal
cdef object DATETIME64_TYPE = numpy.datetime64
cdef object TIMEDELTA64_TYPE = numpy.timedelta64


cdef int64_t NAT = (<int64_t>1) << 63


cdef inline int64_t raw_time(object x):
    """The number in a datetime64 or timedelta64."""
    cdef int64_t raw
    PyArray_ScalarAsCtype(x, &raw)
    return raw


cdef bint is_missing(object x):
    """pandas' NA and NaT."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and (x is getattr(pandas, "NA", pandas) or x is getattr(pandas, "NaT", pandas))


cdef int slow_kind(object x) except -1:
    """The kind of an object whose type is none of Python's own."""
    if x is None or is_missing(x):
        return NOTHING
    if isinstance(x, generic):
        code = OF_NUMPY.get(x.dtype.kind + str(x.dtype.itemsize), OF_NUMPY.get(x.dtype.kind, OTHER))
        return NOTHING if (code == DATETIME64 or code == TIMEDELTA64) and raw_time(x) == NAT else code
    if isinstance(x, int):
        return INTEGER
    if isinstance(x, float):
        return FLOAT
    if isinstance(x, str):
        return TEXT
    if isinstance(x, bytes):
        return BYTES
    if isinstance(x, datetime):
        return DATETIME if x.tzinfo is None else AWARE if x.utcoffset() is not None else OTHER
    if isinstance(x, date):
        return DATE
    if isinstance(x, time):
        return OTHER if x.tzinfo is not None else TIME
    if isinstance(x, timedelta):
        return TIMEDELTA
    if isinstance(x, Decimal):
        return DECIMAL
    if isinstance(x, tuple):
        return TUPLE
    return COMPLEX if isinstance(x, complex) else OTHER


cdef inline int kind_of(object x) except -1:
    cdef object sort = type(x)
    if sort is int:
        return INTEGER
    if sort is str:
        return TEXT
    if sort is float:
        return FLOAT
    if sort is bool:
        return BOOLEAN
    if sort is bytes:
        return BYTES
    if sort is tuple:
        return TUPLE
    if x is None:
        return NOTHING
    if sort is DATETIME_TYPE:
        return DATETIME if x.tzinfo is None else AWARE if x.utcoffset() is not None else OTHER
    if sort is DATE_TYPE:
        return DATE
    if sort is TIMEDELTA_TYPE:
        return TIMEDELTA
    if sort is DECIMAL_TYPE:
        return DECIMAL
    if sort is DATETIME64_TYPE:
        return NOTHING if raw_time(x) == NAT else DATETIME64
    if sort is TIMEDELTA64_TYPE:
        return NOTHING if raw_time(x) == NAT else TIMEDELTA64
    return slow_kind(x)


def classify(list values not None, bint nan_is_null, str what not None):
    """(kind, nulls, the first null) of a list: "int", "float", "str", ..., "None" of a list without an element.

    nulls is None or a bool array. None, pandas' NA and NaT, and numpy's NaT are null, with `nan_is_null` NaN, too.
    Integers among floats are "float". Raises TypeError for two kinds, and for objects that are of no kind.
    """
    cdef int64_t n = len(values), i
    cdef int64_t first[KINDS]
    cdef int kind, found = NOTHING
    cdef object x, sort, last = None, null = None
    cdef uint8_t *is_null = NULL
    nulls = None
    for kind in range(KINDS):
        first[kind] = -1
    for i in range(n):
        x = <object>PyList_GetItem(values, i)
        sort = type(x)
        if sort is last:
            continue
        kind = kind_of(x)
        if nan_is_null and kind == FLOAT and x != x:
            kind = NOTHING
        if kind == NOTHING:
            if nulls is None:
                nulls, null = numpy.zeros(n, BOOL), x
                is_null = <uint8_t *>PyArray_BYTES(<ndarray>nulls)
            is_null[i] = 1
            continue
        if kind < FIXED or (kind == FLOAT and not nan_is_null):
            last = sort
        if first[kind] < 0:
            first[kind] = i
        if kind == OTHER:
            raise no_kind(x, what, i)
        if kind == found:
            continue
        if found == NOTHING:
            found = kind
        elif (kind == INTEGER and found == FLOAT) or (kind == FLOAT and found == INTEGER):
            found = FLOAT
        else:
            before = first[found] if first[found] >= 0 else first[<int>INTEGER]
            raise two_kinds(what, i, NAMES[kind], before, NAMES[found])
    return NAMES[found], nulls, null


cdef object no_kind(object x, str what, int64_t i):
    name = type(x).__name__
    way_out = WAYS_OUT.get(name, "pass numbers, text, bytes, times, or tuples of these")
    if name == "time":
        name, way_out = "time with a time zone", "pass times without one"
    if isinstance(x, datetime):
        name, way_out = "datetime with a time zone that has no offset", "pass x.replace(tzinfo=None) of each"
    if hasattr(x, "name") and hasattr(x, "value"):
        way_out = "pass x.value of each, or x.name"
    return TypeError(f"{what}[{i}] is a {name}, which has no equality here: {way_out}")


cdef object two_kinds(str what, int64_t i, str kind, int64_t j, str other):
    way_out = "convert them, or pass tuples (type(x).__name__, str(x)), which differ"
    if kind.startswith("date") and other.startswith("date"):
        way_out = "pass all of them with a time zone, or none, as datetimes"
    elif {kind, other} <= {"str", "bytes"}:
        way_out = "encode the text, or decode the bytes"
    return TypeError(
        f"{what}[{j}] is of kind {other}, {what}[{i}] of kind {kind}, and a column has one kind: {way_out}"
    )


cdef uint8_t *mask_of(object nulls):
    return NULL if nulls is None else <uint8_t *>PyArray_BYTES(<ndarray>nulls)


def integers(list values not None, nulls, str what not None):
    """Integers as int64, or as uint64 where one needs that and none is negative; else OverflowError names one."""
    cdef int64_t n = len(values), i, first = -1
    cdef int overflow = 0
    cdef bint negative = False
    cdef uint8_t *null = mask_of(nulls)
    out = numpy.zeros(n, INT64)
    cdef int64_t *at = <int64_t *>PyArray_BYTES(<ndarray>out)
    for i in range(n):
        if null != NULL and null[i]:
            continue
        x = <object>PyList_GetItem(values, i)
        if not isinstance(x, int):
            x = x.item()
        at[i] = PyLong_AsLongLongAndOverflow(x, &overflow)
        if overflow == 0:
            negative |= at[i] < 0
        elif overflow < 0 or negative or x >= 2 ** 64:
            raise OverflowError(too_large(what, i, x))
        else:
            (<uint64_t *>at)[i] = PyLong_AsUnsignedLongLong(x)
            first = i if first < 0 else first
    if first < 0:
        return out
    if negative:
        raise OverflowError(too_large(what, first, values[first]))
    return out.view(UINT64)


cdef str too_large(str what, int64_t i, object x):
    return (
        f"{what}[{i}] is {x}, which int64 lacks, and uint64 where a number is negative or this one is 2^64 or more: "
        f"pass text, [str(x) for x in {what}]"
    )


def floats(list values not None, nulls, str what not None):
    """Floats as float64, integers among them if they are exact; TypeError names the first that is not."""
    cdef int64_t n = len(values), i
    cdef uint8_t *null = mask_of(nulls)
    out = numpy.zeros(n, FLOAT64)
    cdef double *at = <double *>PyArray_BYTES(<ndarray>out)
    for i in range(n):
        if null != NULL and null[i]:
            continue
        x = <object>PyList_GetItem(values, i)
        if type(x) is not float:
            if isinstance(x, generic):
                x = x.item()
            try:
                exact = float(x) == x or x != x
            except OverflowError:
                exact = False
            if not exact:
                raise OverflowError(
                    f"{what}[{i}] is {x}, which float64 lacks, and there are floats: pass integers alone, or text"
                )
        at[i] = x
    return out


def booleans(list values not None, nulls):
    """Booleans as an array of bool."""
    cdef int64_t n = len(values), i
    cdef uint8_t *null = mask_of(nulls)
    out = numpy.zeros(n, BOOL)
    cdef uint8_t *at = <uint8_t *>PyArray_BYTES(<ndarray>out)
    for i in range(n):
        if null == NULL or not null[i]:
            at[i] = bool(<object>PyList_GetItem(values, i))
    return out


def texts(list values not None, nulls, str what not None):
    """(offsets, bytes) of text, in UTF-8, or of bytes."""
    cdef int64_t n = len(values), i
    cdef Py_ssize_t size = 0
    cdef const char *cell
    cdef uint8_t *null = mask_of(nulls)
    cdef Bytes data = Bytes()
    offsets = empty(n + 1, INT64)
    cdef int64_t *offset = <int64_t *>PyArray_BYTES(<ndarray>offsets)
    offset[0] = 0
    for i in range(n):
        if null == NULL or not null[i]:
            x = <object>PyList_GetItem(values, i)
            if isinstance(x, str):
                try:
                    cell = PyUnicode_AsUTF8AndSize(x, &size)
                except UnicodeEncodeError:
                    raise surrogate(what, i) from None
            else:
                PyBytes_AsStringAndSize(x, <char **>&cell, &size)
            memcpy(data.more(size), cell, size)
        offset[i + 1] = data.size
    return offsets, data.whole()


def microseconds(list values not None, nulls, epoch, str what not None):
    """Timedeltas, or datetimes since an epoch, in microseconds: int64, NaT where null; OverflowError names one."""
    cdef int64_t n = len(values), i, days
    cdef uint8_t *null = mask_of(nulls)
    out = empty(n, INT64)
    cdef int64_t *at = <int64_t *>PyArray_BYTES(<ndarray>out)
    for i in range(n):
        at[i] = NAT
        if null != NULL and null[i]:
            continue
        x = <object>PyList_GetItem(values, i)
        passed = x if epoch is None else x - epoch
        days = passed.days
        if not -106_751_991 < days < 106_751_991:
            raise OverflowError(
                f"{what}[{i}] is {x!r}, of more microseconds than int64 has: pass numpy's timedelta64[s], or numbers"
            )
        at[i] = days * 86_400_000_000 + <int64_t>passed.seconds * 1_000_000 + <int64_t>passed.microseconds
    return out


def days(list values not None, nulls):
    """Dates in days since 1970: int64, NaT where null."""
    cdef int64_t n = len(values), i
    cdef uint8_t *null = mask_of(nulls)
    out = empty(n, INT64)
    cdef int64_t *at = <int64_t *>PyArray_BYTES(<ndarray>out)
    for i in range(n):
        at[i] = NAT if null != NULL and null[i] else <int64_t>(<object>PyList_GetItem(values, i)).toordinal() - 719_163
    return out


def ticks(list values not None, nulls):
    """The numbers in datetime64 or timedelta64 of one unit: int64, NaT where null."""
    cdef int64_t n = len(values), i
    cdef uint8_t *null = mask_of(nulls)
    out = empty(n, INT64)
    cdef int64_t *at = <int64_t *>PyArray_BYTES(<ndarray>out)
    for i in range(n):
        at[i] = NAT if null != NULL and null[i] else raw_time(<object>PyList_GetItem(values, i))
    return out
