"""`Index`: distinct keys of any type, and ids for them that stay."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from typing import Any, ClassVar, Literal, overload

import numpy as np
from numpy.typing import NDArray

from pygpuhash import _arguments, _arrays, _tensors
from pygpuhash.columns import Column, View, plain, read
from pygpuhash.columns._buffers import describe
from pygpuhash.columns._engine import CoreIndex, Keys
from pygpuhash.errors import InvalidArgument, NoMemory, Unsupported

__all__ = ["Index", "IndexKeys", "read_host"]

_ID = np.dtype(np.int64)
_MOST = 2**32 - 2  # keys of an index
_NOT_ADDED = -2
Ids = NDArray[np.int64]


def read_host(keys: Any, what: str) -> Column:
    """A column of keys that are on the host."""
    for part in keys if isinstance(keys, tuple) else (keys,):
        if _arrays.on_device(part):
            raise Unsupported(f"{what} are on a GPU, and an index is on the CPU: copy them to the host first")
    return read(keys, what)


class Index:
    """Distinct keys, numbered 0, 1, 2, ... in the order of their first appearance. Ids stay as long as the index.

    A column of keys is what the verbs take: numbers, times, text and bytes of any length, decimals, structs, tuples of
    columns, rows of frames; of numpy, lists, pandas, polars, Arrow. What is equal is the same, too. Any number of
    threads may use one index: each key has one id, whichever thread has added it.

    Parameters
    ----------
    keys : a type (`str`, `bytes`, `int`, a dtype or its name, a type of Arrow, polars or pandas), or a column, which is
        added. None: the type is that of the first column that is added.
    nulls : "group" (all nulls are one key), "drop" (a row with a null is no key, its id is -1) or "refuse".
    floats : "numbers" (0.0 and -0.0 are one key, all NaNs are one), or "bits".
    threads : of a call; None for one on each CPU that the process may use.
    seed : of the hash; None for a random one.
    capacity : keys for which memory is taken at once.

    Raises TypeError for types without an equality here, by name.
    """

    __slots__ = ("__weakref__", "_core", "_give", "_lock", "_settings")
    __reversed__ = None
    _saving: ClassVar[Any] = None  # (save, reduce) of pygpuhash.saved, which sets this

    def __init__(
        self,
        keys: Any = None,
        *,
        nulls: Literal["group", "drop", "refuse"] = "group",
        floats: Literal["numbers", "bits"] = "numbers",
        threads: int | None = None,
        seed: int | None = None,
        capacity: int = 0,
    ) -> None:
        if nulls not in ("group", "drop", "refuse"):
            raise InvalidArgument(f"nulls={nulls!r} is none of 'group', 'drop', 'refuse'")
        if floats not in ("numbers", "bits"):
            raise InvalidArgument(f"floats={floats!r} is neither 'numbers' nor 'bits'")
        if threads is not None:
            threads = _arguments.whole("threads", threads, 4096, least=1)
        expected = _arguments.whole("capacity", capacity, _MOST)
        self._settings = (nulls, floats, threads, False, expected, _arguments.seed(seed))
        self._core: CoreIndex | None = None
        self._give: Any = None  # the way back to the library of the first column, of a column of the index's type
        self._lock = threading.Lock()  # held by a call that adds keys
        schema = None if keys is None else plain.schema_of(keys)
        if schema is not None:
            self._core = self._make(schema, "the type")
        elif keys is not None:
            self.add(keys)

    def _make(self, schema: object, what: str) -> CoreIndex:
        if describe(schema)[0] == "n":
            raise TypeError(
                f"{what} has nothing but nulls, and what takes it has no type yet: make it with one, such as str"
            )
        with _named(what):
            return CoreIndex(schema, *self._settings)

    # ---- adding and finding

    @overload
    def add(self, keys: Any, *, new: Literal[False] = False) -> Any: ...
    @overload
    def add(self, keys: Any, *, new: Literal[True]) -> tuple[Any, Any]: ...
    def add(self, keys: Any, *, new: bool = False) -> Any:
        """The id of each key, which is added if it is new: int64, -1 for nulls that are dropped.

        With `new=True` (ids, mask): True where a key appears for the first time. Ids and mask are of the library of the
        keys, of their shape.

        Raises TypeError for keys that are never equal to those of the index and for the first one that its type cannot
        hold, and `NoMemory`, whose `failed` are the keys that were not added. Ctrl-C is heard; what was added stays.
        """
        _arguments.flag("new", new)
        _tensors.check_results(_tensors.array_library(keys), _ID)
        column, ids, before = self.added(keys)
        return self._results(column, ids, before, new)

    def added(self, keys: Any) -> tuple[Column, Ids, int]:
        """(the column that was added, the id of each element, how many keys there were before)."""
        column = read_host(keys, "keys")
        ids = np.full(column.length, _NOT_ADDED, _ID)
        self._refuse_forked()
        with self._lock:
            core = self._core
            if core is None:
                if column.length == 0 and describe(column.schema)[0] == "n":  # an empty list has no type
                    return column, ids, 0
                core = self._make(column.schema, column.what)
            before = core.size
            with _named(column.what):
                try:
                    core.add(column.schema, column.chunks, ids)
                except NoMemory as error:
                    error.status = np.where(ids == _NOT_ADDED, 3, 0).astype(np.uint8).reshape(column.shape)
                    raise
                finally:
                    if self._core is None and (core.size or not column.length):
                        self._core = core
            self._core = core
            if self._give is None and before == 0 and core.size:
                self._give = _way_back(keys, column, core)
        return column, ids, before

    @staticmethod
    def _results(column: Column, ids: Ids, before: int, new: bool) -> Any:
        given = column.give_numbers(ids, True)
        if not new:
            return given
        # New ids count upwards, so that a key appears for the first time where its id is above all before it.
        highest = np.maximum.accumulate(np.concatenate(([before - 1], ids)))[:-1]
        return given, column.give_numbers(ids > highest, True)

    def get_indexer(self, keys: Any) -> Any:
        """The id of each key, -1 where it is absent: also where the index's type cannot hold it."""
        _tensors.check_results(_tensors.array_library(keys), _ID)
        column = read_host(keys, "keys")
        return column.give_numbers(self._find(column), True)

    def _find(self, column: Column) -> Ids:
        ids = np.full(column.length, -1, _ID)
        if self._core is not None:
            with _named(column.what):
                self._core.find(column.schema, column.chunks, ids)
        return ids

    def merge(self, other: Index) -> Ids:
        """Add all keys of another index. Returns their ids here: `ids[i]` is that of its key i, -1 of dropped nulls.

        Two threads may merge two indexes into each other.
        """
        if not isinstance(other, Index):
            raise TypeError(f"other is a {type(other).__name__}, not an Index: use add for a column")
        theirs = other._core
        if theirs is None:
            return np.empty(0, _ID)
        count = theirs.size
        ids = np.full(count, _NOT_ADDED, _ID)
        self._refuse_forked()
        with self._lock:
            if self._core is None:
                self._core = self._make(theirs.keys(0, 0).__arrow_c_schema__(), "other")
            if self._give is None and self._core.size == 0:
                self._give = other._give
            with _named("other"):
                self._core.merge(theirs, count, ids)
        return ids

    def _refuse_forked(self) -> None:
        # A thread of the parent may have held the lock.
        if self._core is not None:
            self._core.size  # noqa: B018

    # ---- keys

    @property
    def keys(self) -> IndexKeys:
        """The keys by their ids: `index.keys[ids]`, `index.keys[:]`, `index.keys[5]`."""
        return IndexKeys(self)

    def _given(self, keys: Keys, ids: Any) -> Any:
        """Keys of these ids in the caller's library, if its way back holds every one of them."""
        view = View(keys)
        if self._give is None:
            return plain.in_numpy(view)
        given = plain.given_back(self._give, view, lambda column: np.array_equal(self._find(column), ids))
        return plain.in_numpy(view) if given is None else given

    # ---- the whole index

    def __len__(self) -> int:
        return 0 if self._core is None else self._core.size

    def __contains__(self, key: object) -> bool:
        """Is this one element a key?"""
        return bool(self._find(read_host([key], "key"))[0] >= 0)

    @property
    def nbytes(self) -> int:
        """Memory held, in bytes."""
        return 0 if self._core is None else self._core.nbytes

    def save(self, path: str | os.PathLike[str], overwrite: bool = False, compression: str | None = None) -> None:
        """Write all keys, in the order of their ids, to a file that `gh.load` reads, as `Table.save` does.

        Keys of the loaded index come back as numpy's arrays, whichever library the first column was of.
        """
        self._saving[0](self, path, overwrite, compression)

    def __reduce_ex__(self, protocol: Any) -> Any:
        self._refuse_forked()
        return self._saving[1](self, {"threads": self._settings[2]}, protocol)

    def __repr__(self) -> str:
        if self._core is None:
            return "<pygpuhash.Index without a type, 0 keys>"
        format, _, children, _ = describe(self._core.keys(0, 0).__arrow_c_schema__())
        kind = f"rows of {len(children)} columns" if format == "+s" else _KINDS.get(format[0], format)
        size = len(self)
        return f"<pygpuhash.Index of {kind}, {size} key{'' if size == 1 else 's'}, {self.nbytes} bytes>"


_KINDS = {
    "u": "text",
    "U": "text",
    "z": "bytes",
    "Z": "bytes",
    "w": "bytes",
    "b": "bool",
    "d": "decimals",
    "t": "times",
}
_KINDS |= {"c": "int8", "C": "uint8", "s": "int16", "S": "uint16", "i": "int32", "I": "uint32", "l": "int64"}
_KINDS |= {"L": "uint64", "e": "float16", "f": "float32", "g": "float64"}


class IndexKeys:
    """The keys of an index, by id: in the library of the first column that was added, with its type and name.

    Where that library, type or dtype does not hold them all, as numpy's integers a null, they are numpy's arrays,
    masked where numbers are null. Also an iterable, and an array of Arrow and numpy.
    """

    __slots__ = ("_index",)

    def __init__(self, index: Index) -> None:
        self._index = index

    def __len__(self) -> int:
        return len(self._index)

    def __getitem__(self, ids: Any) -> Any:
        """Keys of ids: an int, a slice, a column of integers, or a mask with an element for each key.

        Raises IndexError for ids that the index does not have, which -1 is.
        """
        index, core = self._index, self._index._core
        size = len(index)
        if isinstance(ids, slice):
            start, stop, step = ids.indices(size)
            places = np.arange(start, stop, step, dtype=_ID)
        elif hasattr(ids, "__index__") and getattr(ids, "ndim", 0) == 0:
            return _first(self[np.array([ids.__index__()])])
        else:
            places = _places(ids, size)
        flat = np.ascontiguousarray(places.reshape(-1), _ID)
        if core is None:
            if flat.size:
                raise IndexError(f"ids[0] is {flat[0]}, and the index has no keys")
            return np.empty(0, object)
        try:
            keys = core.take(flat)
        except TypeError as error:
            absent = "; leave out absent keys, whose id is -1, by ids[ids >= 0]" if flat.min() < 0 else ""
            raise IndexError(f"{error}{absent}") from None
        given = index._given(keys, flat)
        return given.reshape(places.shape) if places.ndim != 1 and isinstance(given, np.ndarray) else given

    def __iter__(self) -> Iterator[Any]:
        for start in range(0, len(self), 1 << 12):
            given = self[start : start + (1 << 12)]
            if isinstance(given, tuple) or hasattr(given, "num_columns"):
                yield from zip(*(given if isinstance(given, tuple) else given.columns), strict=True)
            elif hasattr(given, "itertuples"):
                yield from given.itertuples(index=False, name=None)
            else:
                yield from given.rows() if hasattr(given, "rows") else given

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        given = self[:]
        if isinstance(given, tuple):
            raise TypeError("keys of several columns are no array: use index.keys[:], a tuple of columns")
        return np.asarray(given, dtype)

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        core = self._index._core
        if core is None:
            raise TypeError("the index has no type yet: add a column")
        return core.keys(0, core.size).__arrow_c_array__(requested_schema)

    def __repr__(self) -> str:
        return f"<keys of {self._index!r}>"


def _places(ids: Any, size: int) -> Ids:
    """Ids, or the places of a mask, as integers."""
    if _arrays.on_device(ids):
        raise Unsupported("ids are on a GPU, and an index is on the CPU: copy them to the host first")
    array = np.asarray(ids)
    if array.dtype.kind == "b":
        if array.shape != (size,):
            raise IndexError(f"the mask has shape {array.shape}, and the index has {size} keys")
        return np.flatnonzero(array)
    if array.size and (array.dtype.kind not in "iu" or array.ndim == 0):
        raise TypeError(f"ids have dtype {array.dtype} and shape {array.shape}: pass integers, a slice or a mask")
    return array.astype(_ID)


def _first(given: Any) -> Any:
    """The element of a column of one."""
    if isinstance(given, tuple):
        return tuple(map(_first, given))
    if hasattr(given, "num_columns"):
        return tuple(column[0] for column in given.columns)
    if hasattr(given, "iloc"):
        row = given.iloc[0]
        return tuple(row) if hasattr(given, "columns") else row
    return given.row(0) if hasattr(given, "row") else given[0]


def _way_back(keys: Any, column: Column, core: CoreIndex) -> Any:
    """How keys become a column of the caller's library, if the index has its type; holds no column if possible."""
    if not plain.same_type(column.schema, core.keys(0, 0).__arrow_c_schema__()):
        return None
    empty = _emptied(keys)
    if empty is not None:
        try:
            other = read(empty, "keys")
        except (TypeError, ValueError):
            return column.give
        if plain.same_type(other.schema, column.schema):
            return other.give
    return column.give


def _emptied(keys: Any) -> Any:
    """A column of the same kind without elements, that shares no memory with it; None where there is none."""
    if isinstance(keys, tuple):
        parts = tuple(map(_emptied, keys))
        return None if any(part is None for part in parts) else parts
    library = type(keys).__module__.partition(".")[0]
    module = sys.modules.get(library)
    if library == "polars":
        return keys.clear()
    if library == "pyarrow" and module is not None:
        if hasattr(keys, "schema"):
            return type(keys).from_pylist([], schema=keys.schema)
        return module.chunked_array([], type=keys.type)
    if library != "pandas" or module is None or isinstance(keys, module.MultiIndex):
        return None
    if isinstance(keys, (module.Series, module.Index)):
        kind = module.Series if isinstance(keys, module.Series) else module.Index
        return kind([], dtype=keys.dtype, name=keys.name)
    if not isinstance(keys, module.DataFrame):
        return None
    frame = module.DataFrame({i: module.Series([], dtype=dtype) for i, dtype in enumerate(keys.dtypes)})
    frame.columns = keys.columns
    return frame


class _named:
    """A context in which a TypeError of the engine names the column."""

    __slots__ = ("_what",)

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, TypeError):
            raise TypeError(f"{self._what}: {error}") from None
