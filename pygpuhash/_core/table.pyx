# cython: language_level=3, boundscheck=False, wraparound=False, embedsignature=True, freethreading_compatible=True
"""Batches of a table: arrays and numbers of Python in, results of the same library out.

What is an acceptable array is decided in `_arrays.py` (host) and `_stored_views.py` (CUDA); this module has the short
paths for arrays that can be passed as they are: of numpy, so that a call costs about a microsecond, and of CuPy and
PyTorch, so that Python adds little to what the driver takes for a launch.

Rules that hold for every batch:
  - a host batch longer than a piece (`piece`) is passed in pieces, and signals are handled in between, so that Ctrl-C
    works;
  - a status byte becomes part of a mask only when it is 0 or 1: one of 2 or above raises.
"""
from cpython.buffer cimport PyBUF_WRITABLE
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memcpy, memset
from numpy cimport (
    NPY_BOOL, PyArray_BYTES, PyArray_DIMS, PyArray_EMPTY, PyArray_NDIM, PyArray_SIZE, dtype as Dtype, import_array,
    ndarray as Array, npy_intp
)

from pygpuhash.gpuhash cimport *
from pygpuhash._core.device_arrays cimport *
from pygpuhash._core.handle cimport TableHandle
from pygpuhash._core.host_arrays cimport (
    address, all_true, empty_like, output, plain, plain_but_for_sign, same_shape
)
from pygpuhash._core.process cimport refuse_forked
from pygpuhash._core.scalars cimport NOT_PLAIN, fill, read_number
from pygpuhash._core.status cimport batch_exception, exception, start_error

cdef extern from * nogil:
    int add_fetch "__atomic_add_fetch"(int *number, int change, int order)
    int RELAXED "__ATOMIC_RELAXED"

cdef extern from "numpy/arrayobject.h":
    object PyArray_Scalar(void *data, Dtype dtype, object base)

import re
from time import monotonic

import numpy

from pygpuhash import _arrays, _records, _tensors, errors
from pygpuhash._core.host_arrays import check_ops, refuse_overlaps
from pygpuhash._core.library import ADDING

__all__ = ["CoreTable", "piece", "run_counted", "tell_progress_to", "watched"]

cdef object ndarray = numpy.ndarray
cdef object BOOL = numpy.dtype(bool)
cdef object UINT8 = numpy.dtype(numpy.uint8)
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
cdef dict COMBINE = {"add": GPUHASH_ADD, "min": GPUHASH_MIN, "max": GPUHASH_MAX}

# What the library says of the elements of one call, which may be a piece of a batch.
OF_A_PIECE = re.compile(r"^[0-9]+ of [0-9]+ elements")


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


cdef int WATCHED = 0  # contexts in which a caller watches the progress of batches; changes atomically
cdef object REPORT = None


def watched(int change):
    """For `progress`, which enters and leaves contexts."""
    add_fetch(&WATCHED, change, RELAXED)


def tell_progress_to(current):
    """current : gives the function that watches batches of this context, or None."""
    global REPORT
    REPORT = current


cdef int tell(size_t done, size_t n) except -1:
    """Pass the progress of a batch to the function that watches this context."""
    report = REPORT()
    if report is not None:
        report(done, n)
    return 0


cdef class CoreTable(TableHandle):
    """The batches of a table. `pygpuhash.Table` adds everything that is not hot, and the slow paths."""

    # ---- the batch

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
            return self._slow_batch(op, keys, values, ops, out, mask, stream, out_dtype, flags, combine)
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
        """One batch of device arrays that are plain and ready (see above); None for all others."""
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
        cdef object statuses = mask
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
            statuses = None
        else:
            if mask is None:
                statuses = library.like(keys, BOOL, self._ordinal)
            if (type(statuses) is not kind or not library.look(statuses, BOOL, CODE_OF_BOOL, s, &other)
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
        if not self._grow and op in ADDING and not self._is_capturing(s):
            batch.counts = &counts
        start_error(&err)
        self._enter()
        with nogil:
            status = gpuhash_run(self.handle, &batch, &err)
        self._leave()
        if status != GPUHASH_OK or counts.failed:
            failure = batch_exception(status, &err, self._driver() if self._grow else -1)
            self._fail(failure, statuses, mask is not None, s)
        return result, statuses

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
        """Are these one key and its value that take the short path? None is the value of a set."""
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

    def pop(self, keys, *, out=None, found=None, stream=None):
        """Remove keys and give their values back (trait "answers").

        Returns (values, found), as `find` does: values of `value_dtype`, 0 where a key was absent, None for a set; and
        a bool mask: erased by this call. Of equal keys in one batch one is erased, and the others are absent.
        """
        cdef uint64_t key, value = 0
        cdef int yes
        if out is None and found is None and self.value_plain and self._key(keys, &key):
            yes = self._one(GPUHASH_OP_POP, &key, NULL, &value)
            return self._scalar(&value), TRUE if yes else FALSE
        return self._batch(GPUHASH_OP_POP, keys, None, None, out, found, stream, self.value_dtype)

    def find_or_insert(self, keys, values=None, *, out=None, inserted=None, stream=None):
        """Add the pairs whose key is absent, and look all keys up, both at one moment for each key (trait "answers").

        `values` is one value per key, or a scalar; None for a set. Returns (values, inserted): the values that are in
        the table then, None for a set; and a bool mask: inserted by this element. Of equal keys in one batch one is
        inserted, and the others have its value. Raises `TableFull` as `insert` does.
        """
        cdef uint64_t key, value = 0, there = 0
        cdef int yes
        if out is None and inserted is None and self.value_plain and self._pair(keys, values, &key, &value):
            yes = self._one(GPUHASH_OP_FIND_OR_INSERT, &key, &value, &there)
            return self._scalar(&there), TRUE if yes else FALSE
        self._want_values(values)
        return self._batch(GPUHASH_OP_FIND_OR_INSERT, keys, values, None, out, inserted, stream, self.value_dtype)

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
