# cython: language_level=3, boundscheck=False, wraparound=False, embedsignature=True, freethreading_compatible=True
"""One table of the library: made, asked, called on addresses, destroyed.

Rules that hold for every call:
  - the GIL is released while libgpuhash runs;
  - a table that is closed while another thread is inside a call is destroyed by the last call that leaves.
"""
from cpython.buffer cimport PyBUF_WRITABLE
from libc.stdint cimport uint8_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from pygpuhash.gpuhash cimport *
from pygpuhash._core.calls cimport close_calls, enter, is_closed, leave
from pygpuhash._core.device_arrays cimport dlpack_code
from pygpuhash._core.host_arrays cimport address
from pygpuhash._core.memory cimport end_memory, start_memory
from pygpuhash._core.process cimport fork_count, refuse_forked
from pygpuhash._core.scalars cimport F4, F8, I4, I8, NOT_PLAIN, U4, U8
from pygpuhash._core.status cimport batch_exception, check, encode, exception, start_error, text

import numpy

from pygpuhash import _arguments, errors
from pygpuhash._core.library import TRAITS

__all__ = ["ExportCursor", "TableHandle", "stats_raw"]

cdef object UINT64 = numpy.dtype(numpy.uint64)
VALUE_TYPE = {"u": GPUHASH_UINT, "i": GPUHASH_INT, "f": GPUHASH_FLOAT}  # by the kind of the stored dtype
cdef dict PLAIN = {"u4": U4, "u8": U8, "i4": I4, "i8": I8, "f4": F4, "f8": F8}
cdef dict TWINS = {numpy.dtype(a): numpy.dtype(b) for a, b in (("u8", "i8"), ("i8", "u8"), ("u4", "i4"), ("i4", "u4"))}


cdef tuple number_kind(object dtype):
    """What `read_number` needs to know of a dtype."""
    if dtype is None or not dtype.isnative:
        return NOT_PLAIN, None
    return PLAIN.get(f"{dtype.kind}{dtype.itemsize}", NOT_PLAIN), dtype.type


cdef class ExportCursor:
    """Where an export in parts is. as_stored: pairs come in the order of the storage, for what is not inserted."""
    cdef gpuhash_export_cursor cursor

    def __cinit__(self, bint as_stored=False):
        memset(&self.cursor, 0, sizeof(self.cursor))
        self.cursor.struct_size = sizeof(self.cursor)
        if as_stored:
            self.cursor.order = GPUHASH_EXPORT_AS_STORED

    @property
    def done(self):
        return self.cursor.state == GPUHASH_EXPORT_DONE

    @property
    def changed(self):
        """The table has changed since the first part."""
        return self.cursor.state == GPUHASH_EXPORT_CHANGED

    @property
    def pairs(self):
        """The number of pairs of the table, since the first part."""
        return self.cursor.pairs


cdef class TableHandle:
    """One gpuhash_table and the dtypes that its bits stand for. `CoreTable` adds batches."""

    def __cinit__(self):
        self.forks = fork_count()

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
        self._options, self._threads = dict(options), threads

        self._behind_bus = options.get("placement") == "host"
        # A piece goes through the whole file once (plugins/stadium/page_order.hpp).
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
        if self.handle == NULL or not enter(&self.calls):
            self._want_made()
            raise errors.ClosedTable("this table is closed: create a new one")
        return 0

    cdef int _leave(self) except -1:
        if leave(&self.calls):
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
        if close_calls(&self.calls):
            self._destroy()

    @property
    def closed(self):
        return is_closed(&self.calls)

    # ---- calls on addresses; `_batch.py` and `table.py` wrap them

    def _raw(self, uint32_t op, size_t n, uintptr_t keys, uintptr_t values=0, uintptr_t out_values=0,
             uintptr_t out_status=0, uintptr_t ops=0, uint32_t flags=0, uint32_t combine=0, uintptr_t stream=0,
             bint wait=False):
        """One call of gpuhash_run on addresses of the table's device; returns the exception, or None."""
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
        self._leave()
        if status == GPUHASH_OK and not (wait and counts.failed):
            return None
        return batch_exception(status, &err, self._driver() if self._grow else -1)

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

    def _export_part(self, ExportCursor cursor not None, size_t room, uintptr_t keys, uintptr_t values,
                     uintptr_t stream=0):
        """(pairs of this part, or how many it needs room for; None or the exception)."""
        cdef gpuhash_error err
        cdef gpuhash_status status
        cdef size_t n = room
        start_error(&err)
        self._enter()
        with nogil:
            status = gpuhash_export_part(self.handle, &cursor.cursor, &n, <void *>keys, <void *>values, <void *>stream,
                                         &err)
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


def stats_raw(TableHandle table, size_t room):
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
