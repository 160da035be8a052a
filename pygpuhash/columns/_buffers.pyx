# cython: language_level=3, boundscheck=False, wraparound=False, embedsignature=True, freethreading_compatible=True
"""Arrow's C data structs: made of numpy's buffers without a copy, and read.

An array that is made here holds references to the objects whose memory it names. It drops them, with the GIL, when the
library that consumes the array releases it, from any thread. Structs are moved as Arrow's specification says: a
capsule whose struct was moved has a struct without a release function.
"""
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uintptr_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset, strlen
from numpy cimport (
    NPY_UINT8, PyArray_BYTES, PyArray_SetBaseObject, PyArray_SimpleNewFromData, import_array, ndarray, npy_intp
)

from pygpuhash.columns.structs cimport ArrowArray, ArrowArrayStream, ArrowDeviceArray, ArrowSchema

cdef extern from "Python.h":
    int Py_IsInitialized() nogil
    object PyUnicode_DecodeUTF8(const char *at, Py_ssize_t size, const char *errors)
    object PyBytes_FromStringAndSize(const char *at, Py_ssize_t size)

import numpy

import_array()

cdef object empty = numpy.empty
cdef object BOOL = numpy.dtype(bool)
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


def device_of(capsule):
    """(type, number) of the device of a capsule "arrow_device_array", whose types are those of DLPack."""
    cdef ArrowDeviceArray *there = <ArrowDeviceArray *>PyCapsule_GetPointer(capsule, "arrow_device_array")
    return there.device_type, there.device_id


def of_device(capsule):
    """(capsule "arrow_array", address of the event after which its memory is written, 0: none), out of a device's.

    The event lives as long as the array.
    """
    cdef ArrowDeviceArray *there = <ArrowDeviceArray *>PyCapsule_GetPointer(capsule, "arrow_device_array")
    cdef ArrowArray *array
    if there.array.release == NULL:
        raise ValueError("the array was moved or released before: read the column again")
    out = array_capsule(&array)
    array[0] = there.array
    there.array.release = NULL
    return out, 0 if there.sync_event == NULL else <uintptr_t>(<void **>there.sync_event)[0]


cdef void drop_device_array(object capsule) noexcept:
    cdef ArrowDeviceArray *there = <ArrowDeviceArray *>PyCapsule_GetPointer(capsule, "arrow_device_array")
    if there.array.release != NULL:
        there.array.release(&there.array)
    free(there)


def on_cuda(int64_t length, tuple addresses not None, int64_t null_count, int64_t ordinal, object owner):
    """A capsule "arrow_device_array" over buffers of a CUDA device at these addresses, which `owner` keeps alive.

    They are written, so that there is no event to wait for.
    """
    cdef ArrowDeviceArray *there = <ArrowDeviceArray *>cleared(1, sizeof(ArrowDeviceArray))
    capsule = PyCapsule_New(there, "arrow_device_array", drop_device_array)
    there.device_type = 2  # ARROW_DEVICE_CUDA
    there.device_id = ordinal
    there.array.release = release_array
    there.array.length = length
    there.array.null_count = null_count
    Py_INCREF(owner)
    there.array.private_data = <void *>owner
    there.array.buffers = <const void **>cleared(len(addresses), sizeof(void *))
    for address in addresses:
        there.array.buffers[there.array.n_buffers] = <void *><uintptr_t>address
        there.array.n_buffers += 1
    return capsule


def addresses(capsule):
    """(elements, nulls or -1 where they were not counted, first element, addresses of the buffers) of an array."""
    cdef ArrowArray *array = array_at(capsule)
    cdef int64_t i
    return array.length, array.null_count, array.offset, [<uintptr_t>array.buffers[i] for i in range(array.n_buffers)]


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

    def text(self):
        """(offsets as int64 from 0 on, bytes) of text or bytes with offsets; the bytes are no copy."""
        width = {"u": "i4", "z": "i4", "U": "i8", "Z": "i8"}[self.format]
        if self.length == 0:
            return numpy.zeros(1, "i8"), empty(0, UINT8)
        cdef int64_t step = 4 if width == "i4" else 8
        offsets = over_memory(
            <const char *>self.array.buffers[1] + self.start * step, (self.length + 1) * step, self
        ).view(width)
        cdef int64_t first = offsets[0], last = offsets[-1]
        return offsets.astype("i8") - first, over_memory(
            <const char *>self.array.buffers[2] + first, last - first, self
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


cdef uint8_t *mask_of(object nulls):
    return NULL if nulls is None else <uint8_t *>PyArray_BYTES(<ndarray>nulls)
