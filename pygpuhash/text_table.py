"""Tables whose keys are text or bytes of any length: `gh.Table(key_dtype=str)`, `gh.Table(key_dtype=bytes)`.

An index (`pygpuhash.columns._engine`) gives each key an id, and ids are the keys of an ordinary table. Both are one
`_State`, which is replaced as a whole: by `clear`, and by a compaction, which leaves out the keys of the index that the
table no longer has. A call that reads takes the state once, so that index and table belong together; calls that write
hold a lock, so that none of them writes to a state that is being replaced.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from pygpuhash import _arguments, _arrays, _core, _devices
from pygpuhash._mapping import absent
from pygpuhash.columns import Column, View, plain, read
from pygpuhash.columns._buffers import describe, length, sliced
from pygpuhash.columns._engine import CoreIndex, Keys
from pygpuhash.columns.lists import object_array
from pygpuhash.errors import ClosedTable, Corrupt, GpuHashError, Unsupported
from pygpuhash.table import Table

__all__ = ["TextTable", "kind_of_text"]

Array = np.ndarray[Any, Any]

_FORMATS: dict[Any, str] = {str: "U", bytes: "Z"}
_NO_ID = 2**32 - 1  # of an absent key, as uint32: an index has fewer keys
_MOST = 2**32 - 2
_FEW = 1024  # erased keys that are not worth a compaction


def kind_of_text(key_dtype: Any) -> type[str] | type[bytes] | None:
    """`str` or `bytes` for a type of text or bytes of any length; None for any other dtype."""
    if isinstance(key_dtype, type) and issubclass(key_dtype, (str, bytes)):
        return str if issubclass(key_dtype, str) else bytes
    if getattr(key_dtype, "kind", None) == "T":  # numpy's StringDType
        return str
    bases = key_dtype.__mro__ if isinstance(key_dtype, type) else type(key_dtype).__mro__
    if not {"polars", "pandas", "pyarrow", "nanoarrow"} & {base.__module__.partition(".")[0] for base in bases}:
        return None
    try:
        schema = plain.schema_of(key_dtype)
    except (TypeError, ValueError):  # of a type without an equality, which tables of numbers refuse by name
        return None
    format = "" if schema is None else describe(schema)[0]
    return str if format in ("u", "U", "vu") else bytes if format in ("z", "Z", "vz") else None


class _State:
    """An index and the table of its ids."""

    __slots__ = ("index", "table")

    def __init__(self, index: CoreIndex, table: Table) -> None:
        self.index = index
        self.table = table

    def find(self, column: Column) -> Array:
        """The ids of keys, as the table has them."""
        ids = np.full(column.length, -1, np.int64)
        self.index.find(column.schema, column.chunks, ids)
        return ids.astype(np.uint32)

    def add(self, column: Column) -> Array:
        ids = np.full(column.length, -1, np.int64)
        self.index.add(column.schema, column.chunks, ids)
        return ids.astype(np.uint32)

    def one(self, key: str | bytes, adds: bool) -> int:
        """The id of a single key."""
        try:
            return self.index.one(key, adds) & _NO_ID
        except UnicodeEncodeError:
            read([key], "keys")  # says what is wrong, and the way out
            raise

    def keys(self, ids: Array) -> View:
        return View(self.index.take(ids.astype(np.int64)))


class TextTable(Table):
    """A table whose keys are text (`str`) or bytes of any length. Made by `Table(backend, key_dtype=str)`.

    It has the operations of `Table`, on the CPU. Keys are a text or bytes, or a column of numpy (also `StringDType`), a
    list, a column of pandas, polars or Arrow; null is no key. Equal are keys of the same bytes. Values are what `Table`
    takes. Masks and values are numpy's arrays of the shape of the keys; keys come back as numpy arrays of `str` or
    `bytes` objects, or with `export(like=column)` in the library of a column.

    The bytes of erased keys stay until the table has erased more keys than it holds, or is shrunk, flushed or cleared:
    then index and table are built anew, for which both are in memory twice. Where memory is short they stay as they
    are. Calls of several threads that write wait for each other; calls that read do not wait.

    What it lacks: GPUs and streams, mixed batches (`execute`), order, tables that live in files (`save` writes one).
    """

    __slots__ = ("_closed", "_dead", "_key", "_lock", "_make", "_room", "_state", "_value_dtype")

    @staticmethod
    def takes(key_dtype: Any) -> bool:
        """Is this a type of text or bytes of any length?"""
        return kind_of_text(key_dtype) is not None

    def __init__(
        self,
        backend: str = "auto",
        *,
        key_dtype: Any = str,
        value_dtype: Any = "int64",
        capacity: int = 0,
        device: Any = "auto",
        seed: int | None = None,
        stream: Any = None,
        threads: int | None = None,
        needs: Iterable[str] | None = (),
        **arguments: Any,
    ) -> None:
        key = kind_of_text(key_dtype)
        if key is None:
            raise TypeError(f"key_dtype={key_dtype!r} is neither text nor bytes: use gh.Table")
        named = device if isinstance(device, str) else ""
        if named.startswith("cuda") or (named != "auto" and _devices.parse_device(device)[0] != _core.CPU):
            raise Unsupported(
                f"device={device!r}: a table of text is on the CPU. Leave device out, or give the keys ids by gh.Index "
                "and make a table of these ids on the GPU"
            )
        _refuse_stream(stream)
        if "ordered" in ([needs] if isinstance(needs, str) else needs or ()):
            raise Unsupported("needs=['ordered']: a table of text keeps no order; sort its keys()")
        if arguments.get("placement") == "file":
            raise Unsupported("placement='file': a table of text is in memory; save it with save(path)")
        expected = _arguments.whole("capacity", capacity, _MOST)
        settings = ("refuse", "numbers", threads, False, expected, _arguments.seed(seed))
        schema = plain.schema_of(key)
        arguments |= {"value_dtype": value_dtype, "device": "cpu", "seed": seed, "threads": threads, "needs": needs}

        def make(keys: int, expected: int) -> _State:
            """An empty state. keys: room in the table; expected: room in the index."""
            table = Table(backend, key_dtype="uint32", capacity=keys, **arguments)
            return _State(CoreIndex(schema, *settings[:4], expected, settings[5]), table)

        self._key = key
        self._make = make
        self._lock = threading.Lock()
        self._closed = False
        self._room = expected  # keys that were asked for
        self._dead = 0  # keys of the index that may be erased, at most
        self._state: _State | None = make(expected, expected)
        self._value_dtype = self._state.table.value_dtype

    # ---- keys

    def _open(self) -> _State:
        """The state of a table that can be used."""
        if not hasattr(self, "_state"):
            raise ClosedTable("this table was never made: a subclass has to call super().__init__")
        state = self._state
        if state is None or self._closed:
            raise ClosedTable("this table is closed: create a new one")
        state.table._refuse_forked()
        return state

    def _replace(self, state: _State) -> None:
        self._state = state
        self._dead = 0
        if self._closed:  # meanwhile, by another thread
            state.table.close()
            self._state = None

    def _column(self, keys: Any, stream: Any = None) -> tuple[Column, bool]:
        """(a column of keys, whether it stands for a single one)."""
        _refuse_stream(stream)
        for part in keys if isinstance(keys, tuple) else (keys,):
            if _arrays.on_device(part):
                raise Unsupported("keys are on a GPU, and a table of text is on the CPU: copy them to the host first")
        if isinstance(keys, slice):
            _refuse_order("t[low:high]")
        plain_one = keys is None or isinstance(keys, (str, bytes, int, float, complex))
        single = plain_one or getattr(keys, "ndim", 1) == 0
        column = read(([keys] if plain_one else [keys.item()]) if single else keys, "keys")
        self._refuse_nulls(column)
        return column, single

    def _refuse_nulls(self, column: Column) -> None:
        passed = 0
        for chunk in column.chunks:
            view = View(Keys(column.schema, sliced(chunk, 0, length(chunk))))
            nulls = view.nulls()
            if nulls is not None:
                at = passed + int(nulls.argmax())
                raise TypeError(f"{column.what}[{at}] is null, and null is no key of a table: leave it out or fill it")
            passed += view.length

    def _refused(self, error: TypeError, column: Column) -> TypeError:
        return TypeError(f"{column.what}: {error}; the keys of this table are {self._words()}")

    def _words(self) -> str:
        return "text" if self._key is str else "bytes"

    # ---- calls

    def _read(self, keys: Any, stream: Any, call: Callable[[Table, Any], Any]) -> Any:
        """call(table of ids, ids), which changes nothing."""
        if self._is_one(keys):
            _refuse_stream(stream)
            state = self._open()
            return call(state.table, state.one(keys, False))
        column, single = self._column(keys, stream)
        state = self._open()
        ids = self._ids(state, column, single, False)
        return call(state.table, ids)

    def _is_one(self, keys: Any) -> bool:
        """Is this a single key, for which no column is made?"""
        self._open()
        return type(keys) is self._key

    def _ids(self, state: _State, column: Column, single: bool, adds: bool) -> Any:
        try:
            ids = state.add(column) if adds else state.find(column)
        except TypeError as error:
            raise self._refused(error, column) from None
        return int(ids[0]) if single else ids.reshape(column.shape)

    def _write(self, keys: Any, stream: Any, call: Callable[[Table, Any], Any], adds: bool) -> Any:
        """call(table of ids, ids), which adds keys or erases some."""
        one = self._is_one(keys)
        if not one:
            column, single = self._column(keys, stream)
        _refuse_stream(stream)
        with self._lock:
            state = self._open()
            done = False
            try:
                result = call(state.table, state.one(keys, adds) if one else self._ids(state, column, single, adds))
                done = adds
            finally:
                if not done:  # keys were erased, or the index has some that the table did not take
                    self._dead += 1 if one else column.length
                    self._compact_if_it_pays(state)
            return result

    def insert(self, keys: Any, values: Any = None, *, out: Any = None, stream: Any = None) -> Any:
        """Add each pair whose key is absent. Returns a bool mask: newly inserted; None with `out=False`."""
        return self._write(keys, stream, lambda table, ids: table.insert(ids, values, out=out), True)

    def find_or_insert(
        self, keys: Any, values: Any = None, *, out: Any = None, inserted: Any = None, stream: Any = None
    ) -> Any:
        """Add each pair whose key is absent, and look all keys up, as `Table.find_or_insert`: (values, inserted)."""
        return self._write(
            keys, stream, lambda table, ids: table.find_or_insert(ids, values, out=out, inserted=inserted), True
        )

    def insert_or_assign(
        self, keys: Any, values: Any = None, *, dedup: Any = None, out: Any = None, stream: Any = None
    ) -> Any:
        """Add each pair, or replace the value of a key that is present, as `Table.insert_or_assign`."""
        return self._write(
            keys, stream, lambda table, ids: table.insert_or_assign(ids, values, dedup=dedup, out=out), True
        )

    def insert_multi(self, keys: Any, values: Any = None, *, out: Any = None, stream: Any = None) -> Any:
        """Add each pair, also where the key is present (trait "multi")."""
        return self._write(keys, stream, lambda table, ids: table.insert_multi(ids, values, out=out), True)

    def accumulate(self, keys: Any, values: Any = 1, *, op: Any = "add", out: Any = None, stream: Any = None) -> Any:
        """Combine each value with that of its key, or add the pair. Returns a bool mask: newly inserted."""
        return self._write(keys, stream, lambda table, ids: table.accumulate(ids, values, op=op, out=out), True)

    def erase(self, keys: Any, *, out: Any = None, stream: Any = None) -> Any:
        """Remove keys. Returns a bool mask: erased; None with `out=False`."""
        return self._write(keys, stream, lambda table, ids: table.erase(ids, out=out), False)

    def erase_all(self, keys: Any, *, out: Any = None, stream: Any = None) -> Any:
        """Remove all pairs of each key (trait "multi"). Returns a bool mask: erased."""
        return self._write(keys, stream, lambda table, ids: table.erase_all(ids, out=out), False)

    def find(self, keys: Any, *, out: Any = None, found: Any = None, stream: Any = None) -> Any:
        """(values, found); 0 where a key is absent."""
        return self._read(keys, stream, lambda table, ids: table.find(ids, out=out, found=found))

    def pop(self, keys: Any, *, out: Any = None, found: Any = None, stream: Any = None) -> Any:
        """Remove keys and give their values back, as `Table.pop`: (values, found)."""
        return self._write(keys, stream, lambda table, ids: table.pop(ids, out=out, found=found), False)

    def contains(self, keys: Any, *, out: Any = None, stream: Any = None) -> Any:
        """A bool mask: which keys are in the table."""
        return self._read(keys, stream, lambda table, ids: table.contains(ids, out=out))

    def get(self, keys: Any, default: Any = 0, *, stream: Any = None) -> Any:
        """Values, `default` where a key is absent."""
        return self._read(keys, stream, lambda table, ids: table.get(ids, default))

    def count(self, keys: Any, *, out: Any = None, stream: Any = None) -> Any:
        """How many values each key has: int64."""
        return self._read(keys, stream, lambda table, ids: table.count(ids, out=out))

    def find_all(self, keys: Any, *, stream: Any = None) -> Any:
        """Every value of every key (trait "multi"): (offsets, values), as `Table.find_all`."""
        return self._read(keys, stream, lambda table, ids: table.find_all(ids))

    def __getitem__(self, keys: Any, /) -> Any:
        if self.value_dtype is None:
            raise TypeError("this table is a set (value_dtype=None) and has no values: use contains")
        if self._is_one(keys):
            state = self._open()
            try:
                return state.table[state.one(keys, False)]
            except KeyError:
                raise KeyError(f"{keys!r} is not in the table") from None
        values, found = self.find(keys)
        if not np.all(found):
            raise KeyError(absent(keys, np.asarray(found)))
        return values

    def __setitem__(self, keys: Any, values: Any, /) -> None:
        self._write(keys, None, lambda table, ids: table.__setitem__(ids, values), True)

    def __delitem__(self, keys: Any, /) -> None:
        erased = self.erase(keys)
        if not np.all(erased):
            raise KeyError(absent(keys, np.asarray(erased)))

    def __contains__(self, key: object, /) -> bool:
        if not isinstance(key, (str, bytes)) and np.ndim(key):  # type: ignore[arg-type]
            raise TypeError(f"'in' takes one key, {np.size(key)} were given: use contains")  # type: ignore[arg-type]
        return bool(self.contains(key))

    # ---- the whole table

    def export(self, *, like: Any = None, stream: Any = None) -> Any:
        """All pairs: (keys, values), one-dimensional, in no order; values None for a set.

        Keys are a numpy array of `str` or `bytes` objects, or a column of the library of `like`, a column of text.
        """
        _refuse_stream(stream)
        state = self._open()
        ids, values = state.table.export()
        keys = state.keys(ids)
        if like is None:
            return object_array(keys.objects()), values
        column = read(like, "like")
        if not plain.same_type(column.schema, keys.__arrow_c_array__()[0]):
            raise TypeError(f"like is no column of {self._words()}, as the keys are")
        given = plain.given_back(column.give, keys, lambda back: np.array_equal(state.find(back), ids))
        if given is None:
            raise TypeError(f"like is a {type(like).__name__} whose type does not hold all keys: leave it out")
        return given, values

    def export_parts(self, size: int = 1 << 20, *, stream: Any = None) -> Any:
        """All pairs, `size` at a time at most: tuples (keys, values), as `export` gives them at once. See `Table`."""
        _refuse_stream(stream)
        state = self._open()
        parts = state.table.export_parts(size)
        return ((object_array(state.keys(ids).objects()), values) for ids, values in parts)

    def values(self) -> Any:
        """All values, in the order of a simultaneous `export`; None for a set."""
        return self._open().table.values()

    def clear(self, *, stream: Any = None) -> None:
        """Remove every key, and give back what their bytes took."""
        _refuse_stream(stream)
        self._open()
        with self._lock:
            self._open()
            self._replace(self._make(self._room, 0))

    def reserve(self, keys: int, *, stream: Any = None) -> None:
        """Make room for `keys` keys in all in the table; the index grows as it has to."""
        _refuse_stream(stream)
        self._open()
        with self._lock:
            self._open().table.reserve(keys)
            self._room = max(self._room, keys)

    def shrink(self, *, stream: Any = None) -> None:
        """Keep only as much storage as the keys need, and drop the bytes of erased ones."""
        _refuse_stream(stream)
        self._open()
        with self._lock:
            made = self._compacted(self._open(), 0)
            made.table.shrink()
            self._room = 0
            self._replace(made)

    def flush(self, first: int | None = None, count: int | None = None, *, stream: Any = None) -> None:
        """Drop what erased keys left behind, their bytes, too; of a range of buckets, only in the table of ids."""
        _refuse_stream(stream)
        self._open()
        with self._lock:
            state = self._open()
            state.table.flush(first, count)
            if first is None and state.index.size > len(state.table):
                self._replace(self._compacted(state, self._room))

    def check(self) -> None:
        """Test every invariant of index and table. Raises `Corrupt` with the first one that is broken."""
        self._open()
        with self._lock:
            state = self._open()
            state.table.check()
            ids = state.table.keys()
            if ids.size and int(ids.max()) >= state.index.size:
                raise Corrupt(f"the table has the id {ids.max()}, and the index {state.index.size} keys")
            keys = self._as_column(state, ids)
            if not (state.find(keys) == ids).all():
                raise Corrupt("the index finds other ids for its own keys")

    @staticmethod
    def _as_column(state: _State, ids: Array) -> Column:
        """The keys of ids as a column."""
        schema, array = state.keys(ids).__arrow_c_array__()
        shape = (len(ids),)
        return Column(schema, [array], len(ids), shape, "keys", lambda keys: keys, lambda numbers, like_rows: numbers)

    # ---- compaction, by a thread that holds the lock

    def _compact_if_it_pays(self, state: _State) -> None:
        size = state.index.size
        if self._dead <= max(size // 2, _FEW) or self._closed:
            return
        live = len(state.table)
        self._dead = max(size - live, 0)
        if self._dead <= max(size // 2, _FEW):
            return
        self._dead = 0  # where memory is short, the next attempt comes when as many keys have been erased again
        with contextlib.suppress(GpuHashError, MemoryError):  # which leave all as it was
            self._replace(self._compacted(state, self._room))

    def _compacted(self, state: _State, capacity: int) -> _State:
        """A state that has the pairs of another one, and no other keys."""
        ids, values = state.table.export()
        made = self._make(max(capacity, len(ids)), len(ids))
        step = 1 << 16
        for at in range(0, len(ids), step):
            some = ids[at : at + step]
            new = made.add(self._as_column(state, some))
            insert = made.table.insert_multi if "multi" in made.table.traits else made.table.insert
            insert(new, None if values is None else values[at : at + step])
        return made

    # ---- what a table of text does not do

    def execute(self, *arguments: Any, **named: Any) -> Any:
        """Refused: a mixed batch would add keys for its lookups."""
        raise Unsupported("a table of text has no mixed batches: call insert, accumulate, find and erase by themselves")

    def lower_bound(self, keys: Any, *, stream: Any = None) -> Any:
        """Refused: there is no order."""
        return _refuse_order("lower_bound")

    def floor(self, keys: Any, *, stream: Any = None) -> Any:
        """Refused: there is no order."""
        return _refuse_order("floor")

    def successor(self, keys: Any, *, stream: Any = None) -> Any:
        """Refused: there is no order."""
        return _refuse_order("successor")

    def predecessor(self, keys: Any, *, stream: Any = None) -> Any:
        """Refused: there is no order."""
        return _refuse_order("predecessor")

    def min(self) -> Any:
        """Refused: there is no order."""
        return _refuse_order("min")

    def max(self) -> Any:
        """Refused: there is no order."""
        return _refuse_order("max")

    def range(self, *arguments: Any, **named: Any) -> Any:
        """Refused: there is no order."""
        return _refuse_order("range")

    # ---- figures

    def __len__(self) -> int:
        return len(self._open().table)

    def stats(self) -> dict[str, float]:
        """Figures of the table of ids, and keys (erased ones, too) and bytes of the index."""
        state = self._open()
        return state.table.stats() | {"index_keys": float(state.index.size), "index_bytes": float(state.index.nbytes)}

    def histogram(self, n: int = 32) -> Any:
        """The histogram of the table of ids."""
        return self._open().table.histogram(n)

    def _info(self) -> Any:
        state = self._open()
        info = state.table.info
        info["bytes"] += state.index.nbytes
        info["traits"] -= {"ordered"}
        return info

    def _accumulates(self) -> bool:
        return "accumulate" in self._open().table.traits

    @property
    def info(self) -> Any:
        """As `Table.info`; bytes are those of table and index."""
        return self._info()

    @property
    def key_dtype(self) -> Any:
        """`str` or `bytes`."""
        return self._key

    @property
    def value_dtype(self) -> Any:
        """The dtype of the values; None for a set."""
        return self._value_dtype

    @property
    def device(self) -> str:
        """ "cpu"."""
        return "cpu"

    @property
    def stream(self) -> None:
        """None: a table of text is on the CPU."""
        return

    @property
    def closed(self) -> bool:
        """Was the table closed?"""
        return self._closed

    def close(self) -> None:
        """Free the memory. Calls that run in other threads finish first. Closing twice is allowed."""
        self._closed = True
        state, self._state = self._state, None
        if state is not None:
            state.table.close()

    def __reduce_ex__(self, protocol: Any) -> Any:
        table = self._open().table
        return self._saving[1](self, {"grow": table._grow, "threads": table._threads or None}, protocol)

    def __repr__(self) -> str:
        if self.closed:
            return "<pygpuhash.Table, closed>"
        info = self._info()
        kinds = self._key.__name__ + ("" if self.value_dtype is None else f" -> {self.value_dtype}")
        size = info["size"]
        return f"<pygpuhash.Table {info['backend']!r} {kinds} on cpu, {size} key{'' if size == 1 else 's'}>"


def _refuse_stream(stream: Any) -> None:
    if stream is not None:
        raise Unsupported(f"stream={stream!r}: a table of text is on the CPU, where calls have no stream: leave it out")


def _refuse_order(what: str) -> Any:
    raise Unsupported(f"{what}: a table of text keeps no order; sort its keys()")


Table._of_text = TextTable
