# cython: language_level=3, boundscheck=False, wraparound=False, embedsignature=True, freethreading_compatible=True
"""Verbs on a column on a CUDA device, on addresses: groups with counts, codes and aggregates, isin, and joins."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memset

from cpython.exc cimport PyErr_Clear

import numpy

from pygpuhash.gpuhash cimport *
from pygpuhash._core.device_arrays cimport *
from pygpuhash._core.dlpack cimport *
from pygpuhash._core.handle import VALUE_TYPE
from pygpuhash._core.meanwhile cimport run_meanwhile
from pygpuhash._core.results cimport Results, address_of, maker_of
from pygpuhash._core.status cimport check, start_error

NAMES = ("b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")
cdef object INDEX = numpy.dtype(numpy.int64), FLOAT = numpy.dtype(numpy.float64)
cdef enum:
    MOST_PLAIN = 1 << 28            # rows; in pieces of so many or fewer nothing would take less memory
cdef dict DTYPES = {dlpack_code(dtype): dtype for dtype in map(numpy.dtype, NAMES)}


# ---- groups ----------------------------------------------------------------------------------------------------------


def ready(array):
    """(address, shape, dtype, device, stream) of a C-contiguous array of CuPy or PyTorch, on whose current stream it is
    ready; None for every other one, which is left to `_device_arrays.py`."""
    cdef Seen seen
    cdef uintptr_t stream = 0
    cdef object dtype = look(library_of(type(array)), array, &seen, &stream)
    return None if dtype is None else (<uintptr_t>seen.at, shape_of(&seen), dtype, seen.device, stream)


cdef object look(Library library, object array, Seen *seen, uintptr_t *stream):
    """The dtype of such an array; None of every other one."""
    cdef gh_dl_tensor t
    cdef object dtype
    if library is None or library.way == OWN or not library.writable:
        return None
    if library.way == EXCHANGE:
        if library.exchange.describe(<void *>array, &t) != 0:
            PyErr_Clear()
            return None
        dtype = DTYPES.get(<int>t.dtype.code << 8 | t.dtype.bits)
    else:
        dtype = array.dtype
        if dtype is not DTYPES.get(dlpack_code(dtype)):
            return None
    if dtype is None or not library.look(array, dtype, dlpack_code(dtype), 0, seen):
        return None
    return dtype if library.current_stream(seen.device, stream) else None


cdef tuple shape_of(Seen *seen):
    cdef int i
    return tuple([seen.shape[i] for i in range(seen.dimensions)])


cdef class Grouping:
    """A call that finds the groups of a column: what it takes, and the arrays of its results."""

    cdef gpuhash_group_request r
    cdef public uint64_t found          # how many groups there are, when the call has waited
    cdef Results results
    cdef readonly object codes          # of the column's shape; None: they were not asked for
    cdef tuple shape
    cdef list names, dtypes             # of the results with an element for each group
    cdef void **places[7]               # where the request has their addresses

    def __init__(self, int32_t ordinal, uintptr_t stream, uint64_t seed, tuple shape, dtype, bint first,
                 bint counts=False, bint codes=False, bint rows=False, bint waits=True):
        """first: in the order of first appearance. rows: the first row of each group. waits: for the stream."""
        cdef size_t n = 1
        for length in shape:
            n *= <size_t>length
        memset(&self.r, 0, sizeof(self.r))
        self.r.struct_size = sizeof(self.r)
        self.r.n = n
        self.r.key_bytes = dtype.itemsize
        self.r.order = GPUHASH_ORDER_FIRST if first else 0
        self.r.seed = seed
        self.r.device.kind = GPUHASH_CUDA
        self.r.device.ordinal = ordinal
        self.r.stream = <void *>stream
        self.r.host_groups = &self.found if waits else NULL
        self.shape, self.names, self.dtypes = shape, [], []
        self.add("distinct", dtype, &self.r.out_keys)
        if counts:
            self.add("counts", INDEX, <void **>&self.r.out_counts)
        if rows:
            self.add("rows", INDEX, <void **>&self.r.out_first)
        if codes:
            self.r.out_codes = <int64_t *>&self.r  # it is not read

    cdef int add(self, name, dtype, void **place) except -1:
        self.places[len(self.names)] = place
        place[0] = &self.r  # as of any other result: temporaries are of those that are not NULL
        self.names.append(name)
        self.dtypes.append(dtype)
        return 0

    def reduce(self, uintptr_t values, dtype, uint32_t kind, list wanted):
        """Take values, one for each row, for aggregates: [(its name, its dtype)], also of one name more than once.
        kind: GPUHASH_UINT, _INT or _FLOAT."""
        self.r.values = <void *>values
        self.r.value_bytes = dtype.itemsize
        self.r.value_type = kind
        for name, result in wanted:
            if name in self.names:
                continue
            if name == "sum":
                self.add(name, result, &self.r.out_sums)
            elif name == "mean":
                self.add(name, result, <void **>&self.r.out_means)
            elif name == "min":
                self.add(name, result, &self.r.out_low)
            elif name == "max":
                self.add(name, result, &self.r.out_high)
            else:
                raise ValueError(f"{name!r} is none of sum, mean, min, max")

    def temporaries(self):
        """How many bytes of them the call takes."""
        cdef gpuhash_error err
        cdef size_t nbytes
        start_error(&err)
        check(gpuhash_group_scratch(&self.r, &nbytes, &err), &err)
        return nbytes

    def start(self, uintptr_t keys, empty, copy):
        """Make the arrays by `empty(shape, dtype)`, and queue the kernels. copy(to, source, bytes, stream) queues a
        copy."""
        cdef size_t nbytes = self.temporaries()
        cdef uintptr_t at
        cdef int i
        self.results = Results.__new__(Results)
        # The number of groups is behind the temporaries.
        self.results.begin(empty, self.r.n, nbytes + sizeof(uint64_t), <uintptr_t>self.r.stream,
                           self.r.host_groups != NULL, copy)
        for dtype in self.dtypes:
            self.results.add(dtype)
        if self.r.out_codes != NULL:
            self.codes = empty(self.shape, INDEX)
        at = self.results.scratch()
        self.place(keys, [self.results.address(i) for i in range(len(self.names))], address_of(self.codes), at, nbytes,
                   at + nbytes)
        if self.r.n:
            group(self, self.results.copy_first if self.results.copied else None)

    def place(self, uintptr_t keys, list results, uintptr_t codes, uintptr_t scratch, size_t nbytes, uintptr_t size):
        """Where everything lies: the results in the order in which they were asked for, and their number at `size`."""
        cdef int i
        self.r.keys = <void *>keys
        self.r.out_codes = <int64_t *>codes
        self.r.scratch = <void *>scratch
        self.r.scratch_bytes = nbytes
        self.r.groups = <uint64_t *>size
        for i in range(len(self.names)):
            self.places[i][0] = <void *><uintptr_t>results[i]

    def wait(self, numbers_at):
        """Wait for the number of groups, if the call has not. numbers_at(address, how many, stream) gives numbers."""
        if self.r.n:
            self.found = numbers_at(<uintptr_t>self.r.groups, 1, <uintptr_t>self.r.stream)[0]

    def give(self):
        """{name: array} of the results, when the number of groups is known."""
        cdef int i
        self.results.note(self.found)
        return {self.names[i]: self.results.give(i, self.found) for i in range(len(self.names))}

    def arguments(self):
        """What the kernels are asked for, by name. Addresses of what they are not asked for are 0."""
        cdef gpuhash_group_request *r = &self.r
        return {
            "n": r.n, "keys": <uintptr_t>r.keys, "key_bytes": r.key_bytes, "first": r.order == GPUHASH_ORDER_FIRST,
            "seed": r.seed, "distinct": <uintptr_t>r.out_keys, "counts": <uintptr_t>r.out_counts,
            "codes": <uintptr_t>r.out_codes, "size": <uintptr_t>r.groups, "scratch": <uintptr_t>r.scratch,
            "nbytes": r.scratch_bytes, "stream": <uintptr_t>r.stream, "values": <uintptr_t>r.values,
            "value_bytes": r.value_bytes, "value_type": r.value_type, "first_rows": <uintptr_t>r.out_first,
            "aggregates": (<uintptr_t>r.out_sums, <uintptr_t>r.out_means, <uintptr_t>r.out_low, <uintptr_t>r.out_high),
            "waits": r.host_groups != NULL, "ordinal": r.device.ordinal,
        }  # fmt: skip


def group(Grouping call, meanwhile=None):
    """Queue the kernels, and wait for the stream if the call does. `meanwhile()` is called before it waits; what it
    raises is raised when it has waited."""
    cdef list context = [meanwhile]
    cdef gpuhash_error err
    cdef gpuhash_status status
    if meanwhile is not None:
        call.r.meanwhile = run_meanwhile
        call.r.context = <void *>context
    start_error(&err)
    with nogil:
        status = gpuhash_group(&call.r, &err)
    check(status, &err)
    if len(context) > 1:
        raise context[1]


def plain_groups(array, int ordinal, bint first, uint64_t seed, copy, is_capturing, bint counts=False,
                 bint codes=False, values=None, op=None):
    """(distinct, counts or aggregates, codes) of an array of integers of CuPy or PyTorch that can be taken as it lies,
    on its library's current stream; None of everything else, which takes more than one look. Results that are not
    asked for are None.

    ordinal : of the device that is asked for; -1: whichever the array is on.
    copy : as of `Grouping.start`.
    is_capturing : is a stream being captured into a graph?
    values : one for each row, for the aggregate op: "sum", "mean", "min" or "max"; of dtypes of 4 and 8 bytes.
    """
    cdef Library library = library_of(type(array))
    cdef Seen seen, seen_values
    cdef uintptr_t stream = 0
    cdef Grouping call
    cdef object dtype = look(library, array, &seen, &stream), of_values = None
    if dtype is None or dtype.kind not in "iu" or dtype.itemsize < 4 or not 0 < elements(&seen) <= MOST_PLAIN:
        return None
    if op is not None:
        of_values = look(library_of(type(values)), values, &seen_values, &stream)
        if (of_values is None or of_values.itemsize < 4 or type(values) is not type(array)
                or not same_size(&seen, &seen_values)):
            return None
    if ordinal not in (-1, seen.device) or library.current_device() != seen.device:  # on which copies are made
        return None
    if is_capturing(stream):
        return None
    call = Grouping(seen.device, stream, seed, shape_of(&seen), dtype, first, counts, codes)
    if op is not None:
        kind = VALUE_TYPE[of_values.kind]
        call.reduce(<uintptr_t>seen_values.at, of_values, kind, [(op, result_of(op, of_values))])
    maker = maker_of(library, array, seen.device, seen.shape[0] if seen.dimensions == 1 else -1)
    call.start(<uintptr_t>seen.at, maker, copy)
    call.results.note(call.found)
    second = call.results.give(1, call.found) if len(call.names) > 1 else None
    return call.results.give(0, call.found), second, call.codes


def result_of(op, dtype):
    """The dtype of an aggregate of values of a dtype."""
    if op in ("min", "max"):
        return dtype
    return DTYPES[dlpack_code(dtype) & 0xFF00 | 64] if op == "sum" else FLOAT


# ---- isin ------------------------------------------------------------------------------------------------------------


def isin_scratch(size_t n, size_t others, uint32_t key_bytes):
    """Bytes of temporaries that `isin` takes for so many keys and others."""
    cdef gpuhash_isin_request r
    cdef gpuhash_error err
    cdef size_t nbytes
    memset(&r, 0, sizeof(r))
    r.struct_size = sizeof(r)
    r.n = n
    r.n_among = others
    r.key_bytes = key_bytes
    start_error(&err)
    check(gpuhash_isin_scratch(&r, &nbytes, &err), &err)
    return nbytes


def isin(int32_t ordinal, size_t n, uintptr_t keys, size_t others, uintptr_t among, uint32_t key_bytes, uint64_t seed,
         uintptr_t out, uintptr_t scratch, size_t nbytes, uintptr_t stream):
    """Queue everything on the stream: a byte of 0 or 1 for each key."""
    cdef gpuhash_isin_request r
    cdef gpuhash_error err
    cdef gpuhash_status status
    memset(&r, 0, sizeof(r))
    r.struct_size = sizeof(r)
    r.n = n
    r.keys = <void *>keys
    r.n_among = others
    r.among = <void *>among
    r.key_bytes = key_bytes
    r.seed = seed
    r.out = <uint8_t *>out
    r.scratch = <void *>scratch
    r.scratch_bytes = nbytes
    r.device.kind = GPUHASH_CUDA
    r.device.ordinal = ordinal
    r.stream = <void *>stream
    start_error(&err)
    with nogil:
        status = gpuhash_isin(&r, &err)
    check(status, &err)


# ---- joins -----------------------------------------------------------------------------------------------------------


def join_scratch(size_t left, size_t right, uint32_t key_bytes, bint lists):
    """Bytes of temporaries that `join` takes for so many rows; lists: it is called without `first`."""
    cdef gpuhash_join_request r
    cdef gpuhash_error err
    cdef size_t nbytes
    memset(&r, 0, sizeof(r))
    r.struct_size = sizeof(r)
    r.n_left = left
    r.n_right = right
    r.key_bytes = key_bytes
    r.out_first = NULL if lists else <int32_t *>&r  # it is not read
    start_error(&err)
    check(gpuhash_join_scratch(&r, &nbytes, &err), &err)
    return nbytes


cdef class Join:
    """A join of two columns: what it takes, and where its results go, for both of its calls."""

    cdef gpuhash_join_request r

    def __init__(self, int32_t ordinal, size_t n_left, uintptr_t left, size_t n_right, uintptr_t right,
                 uint32_t key_bytes, bint keep, uint64_t seed, uintptr_t first, uintptr_t facts, uintptr_t scratch,
                 size_t nbytes, uintptr_t stream):
        """first: where the first row of each key goes; 0: right rows are listed."""
        memset(&self.r, 0, sizeof(self.r))
        self.r.struct_size = sizeof(self.r)
        self.r.n_left = n_left
        self.r.left = <void *>left
        self.r.n_right = n_right
        self.r.right = <void *>right
        self.r.key_bytes = key_bytes
        self.r.keep = keep
        self.r.seed = seed
        self.r.out_first = <int32_t *>first
        self.r.out_facts = <uint64_t *>facts
        self.r.scratch = <void *>scratch
        self.r.scratch_bytes = nbytes
        self.r.device.kind = GPUHASH_CUDA
        self.r.device.ordinal = ordinal
        self.r.stream = <void *>stream

    def start(self, uintptr_t left_rows, uintptr_t right_rows):
        """(pairs, whether right rows repeat), and all results but pairs of those. Waits for the stream."""
        cdef uint64_t facts[2]
        cdef gpuhash_error err
        cdef gpuhash_status status
        self.r.out_left = <int64_t *>left_rows
        self.r.out_right = <int64_t *>right_rows
        self.r.host_facts = facts
        start_error(&err)
        with nogil:
            status = gpuhash_join(&self.r, &err)
        self.r.host_facts = NULL
        check(status, &err)
        return facts[0], facts[1]

    def write_pairs(self, uint64_t pairs, uintptr_t left_rows, uintptr_t right_rows):
        """Queue the pairs of right rows that were listed."""
        cdef gpuhash_error err
        cdef gpuhash_status status
        self.r.out_left = <int64_t *>left_rows
        self.r.out_right = <int64_t *>right_rows
        start_error(&err)
        with nogil:
            status = gpuhash_join_pairs(&self.r, pairs, &err)
        check(status, &err)
