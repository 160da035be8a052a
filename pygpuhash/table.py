"""`Table`: keys to values, or a set of keys, on a device, by a backend chosen by name."""

from __future__ import annotations

import enum
import inspect
import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, cast, overload

import numpy as np

from pygpuhash import (
    _arguments,
    _arrays,
    _batch,
    _core,
    _cuda,
    _dedup,
    _device_batch,
    _device_queries,
    _devices,
    _exports,
    _mapping,
    _ordered,
    _streams,
    _table_arguments,
    _value_lists,
    registry,
)
from pygpuhash._arguments import whole
from pygpuhash._stage import Stage
from pygpuhash.errors import GpuHashError, InvalidArgument, OptionNotFound, Unsupported

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pygpuhash._typing import (
        Column,
        DeviceName,
        ElementType,
        Mask,
        Memory,
        Out,
        Scalar,
        Stream,
        SupportsArray,
        SupportsDlpack,
        TableInfo,
        Tensor,
        Values,
    )

__all__ = ["Op", "Table"]


class Op(enum.IntEnum):
    """Operation codes for the `ops` of `Table.execute`, as uint8."""

    NOP = 0
    INSERT = _core.OP_INSERT
    ASSIGN = _core.OP_ASSIGN
    ACCUMULATE = _core.OP_ACCUMULATE
    FIND = _core.OP_FIND
    ERASE = _core.OP_ERASE


class Table(_core.CoreTable):
    """A concurrent hash table.

    Parameters
    ----------
    backend : name of a structure, "distribution:name" where two distributions use one name, or "auto": the first of
        linear_probe, hive, slab_hash, skiplist and stadium that has what dtypes, `needs`, options and `device` ask
        for; hive before linear_probe for a `max_load_factor` of 0.95 and more, or where `needs` names "misses" of 0.9
        and more, on a GPU 0.8, which is linear_probe's default.
    key_dtype, value_dtype : integer, float, bool, datetime64 or timedelta64 of 1, 2, 4 or 8 bytes; or elements of
        several numbers: rows `("u4", 3)`, structured dtypes, `"S16"`, `"complex128"`. Keys compare by their bits.
        `key_dtype=str` or `bytes`: text or bytes of any length, on the CPU (`TextTable`).
        `value_dtype=None` makes a set.
    capacity : keys that must fit before the table grows.
    device : "auto" (the first CUDA device that the backend can use, else the CPU), "cpu", "cuda" or "cuda:1".
    grow : grow and retry when the table is full; otherwise a full table raises `TableFull`.
    max_load_factor : from 0.01 to 1; None for the backend's default.
    seed : of the hash; None for a random one. 0 stands for a fixed number. The property `seed` tells
        the one that is used.
    stream : CUDA stream of the initialisation and of every call that names none: an object with `__cuda_stream__`,
        `.cuda_stream` or `.ptr`; an int only if it is that of a default or a current stream. Ignored on the CPU, here
        and in every call.
    memory : what the storage is taken from: a memory resource of `cuda.core` or RMM, a memory pool of CuPy, "cupy",
        "torch" or "rmm" for what that library uses now; or an object with `allocate(nbytes, alignment, stream) ->
        address` and `deallocate(address, nbytes, alignment, stream)`.
    threads : threads per batch on the CPU; None for one on each CPU that the process may use.
    needs : for "auto", words: "accumulate", "multi" (several values per key), "ordered" (ranges and neighbours),
        "misses" (most lookups will be of absent keys).
    backend_options : options of the backend, by name.

    Arrays that this table returns are of the library of the keys: numpy, PyTorch, JAX, CuPy or Numba. Where a method
    returns values, a set returns None.

    If the backend's name stands for a Python class (see `registry`), that class is called with the same keyword
    arguments and its object is returned.

    Raises
    ------
    BackendNotFound, PluginError, OptionNotFound, InvalidArgument, Unsupported, NoMemory, DeviceError
    """

    __slots__ = ("__weakref__",)  # no others, so that a misspelt attribute is refused
    __reversed__ = None  # a mapping: t[len(t) - 1] is not its last key
    __signature__: ClassVar[inspect.Signature]
    _of_text: ClassVar[Any] = None  # the class of tables with keys of text, which sets this
    _saving: ClassVar[Any] = None  # (save, reduce) of pygpuhash.saved, which sets this

    def __new__(cls, backend: str = "auto", **arguments: Any) -> Self:
        """A table, or the object of a backend that is a Python class."""
        target = None if isinstance(backend, str) and backend == "auto" else registry.resolve(backend)
        if isinstance(target, type):
            _table_arguments.refuse_unmet(target, backend, arguments.pop("needs", None))
            return cast("Self", target(**arguments))
        of_text = cls is Table and cls._of_text is not None and cls._of_text.takes(arguments.get("key_dtype"))
        return cast("Self", super().__new__(cls._of_text if of_text else cls))

    def __init__(
        self,
        backend: str = "auto",
        *,
        key_dtype: ElementType = "uint64",
        value_dtype: ElementType | None = "int64",
        capacity: int = 0,
        device: DeviceName = "auto",
        grow: bool = True,
        max_load_factor: float | None = None,
        seed: int | None = None,
        stream: Stream = None,
        memory: Memory | None = None,
        threads: int | None = None,
        needs: Iterable[str] | None = (),
        **backend_options: str | int | float | bool | os.PathLike[str],
    ) -> None:
        arguments = _table_arguments.of_core(
            backend, key_dtype, value_dtype, capacity, device, grow, max_load_factor, seed, stream, memory, threads,
            needs, backend_options,
        )  # fmt: skip
        try:
            self._create(*arguments)
        except OptionNotFound as error:
            hint = "" if "did you mean" in str(error) else _table_arguments.hint(backend_options)
            raise OptionNotFound(f"{error}{hint}") from None

    # ---- batches that are not hot

    @overload
    def insert_or_assign(
        self,
        keys: Any,
        values: Values | None = None,
        *,
        dedup: Literal["last"] | None = None,
        out: Literal[False],
        stream: Stream = None,
    ) -> None: ...
    @overload
    def insert_or_assign(
        self,
        keys: Scalar,
        values: Values | None = None,
        *,
        dedup: Literal["last"] | None = None,
        out: Out | None = None,
        stream: Stream = None,
    ) -> np.bool_: ...
    @overload
    def insert_or_assign(
        self,
        keys: Column,
        values: Values | None = None,
        *,
        dedup: Literal["last"] | None = None,
        out: Out | None = None,
        stream: Stream = None,
    ) -> Mask: ...
    @overload
    def insert_or_assign(
        self,
        keys: Tensor,
        values: Values | None = None,
        *,
        dedup: Literal["last"] | None = None,
        out: Out | None = None,
        stream: Stream = None,
    ) -> Tensor: ...
    @overload
    def insert_or_assign(
        self,
        keys: SupportsArray,
        values: Values | None = None,
        *,
        dedup: Literal["last"] | None = None,
        out: Out | None = None,
        stream: Stream = None,
    ) -> Mask: ...
    def insert_or_assign(
        self,
        keys: Any,
        values: Any = None,
        *,
        dedup: Literal["last"] | None = None,
        out: Any = None,
        stream: Stream = None,
    ) -> Any:
        """Add each pair, or replace the value of a key that is present. Returns a bool mask: newly inserted; None
        with `out=False`.

        Of equal keys in one batch one wins, in no fixed order. With `dedup="last"` the last one in array order wins,
        and its place in the mask says whether the key was new. Backends that cannot do so themselves get a batch
        without the earlier ones; that is done on the host, and only for host arrays.
        """
        if dedup not in (None, "last"):
            raise InvalidArgument(f"dedup={dedup!r} is not known: pass 'last', or None for any order")
        if dedup is None:
            return self._assign(keys, values, 0, out, stream)
        try:
            return self._assign(keys, values, _core.DEDUP_LAST, out, stream)
        except Unsupported:
            if _arrays.on_device(keys):
                raise
            mask = _dedup.assign_last(self, keys, values, None if out is False else out, stream)
            return None if out is False else mask

    @overload
    def find_all(self, keys: Scalar | Column, *, stream: Stream = None) -> tuple[NDArray[np.int64], NDArray[Any]]: ...
    @overload
    def find_all(self, keys: Tensor, *, stream: Stream = None) -> tuple[Tensor, Tensor]: ...
    @overload
    def find_all(self, keys: SupportsArray, *, stream: Stream = None) -> tuple[NDArray[np.int64], NDArray[Any]]: ...
    def find_all(self, keys: Any, *, stream: Stream = None) -> tuple[Any, Any]:
        """Every value of every key (trait "multi"): (offsets, values). On a device this waits for the number of values.

        The values of key i are `values[offsets[i]:offsets[i + 1]]`; offsets is int64 of n + 1 entries.
        """
        if _arrays.on_device(keys):
            return _device_queries.find_all(self, keys, stream)
        return _value_lists.find_all(self, keys, stream)

    # ---- in the order of the keys (trait "ordered")

    # Keys and the ends of ranges may also be arrays on the table's CUDA device; then so are the results.

    def lower_bound(self, keys: Any, *, stream: Stream = None) -> tuple[Any, Any, Any]:
        """The smallest key at or above each of `keys`: (keys, values, found), of the shape of `keys`.

        Where there is none, found is False, and key and value are 0. Raises `Unsupported` where the backend keeps no
        order.
        """
        return _ordered.neighbors(self, _ordered.AT_LEAST, keys, stream)

    def floor(self, keys: Any, *, stream: Stream = None) -> tuple[Any, Any, Any]:
        """The largest key at or below each of `keys`, as `lower_bound` returns it."""
        return _ordered.neighbors(self, _ordered.AT_MOST, keys, stream)

    def successor(self, keys: Any, *, stream: Stream = None) -> tuple[Any, Any, Any]:
        """The smallest key above each of `keys`, which need not be in the table, as `lower_bound` returns it."""
        return _ordered.neighbors(self, _ordered.ABOVE, keys, stream)

    def predecessor(self, keys: Any, *, stream: Stream = None) -> tuple[Any, Any, Any]:
        """The largest key below each of `keys`, which need not be in the table, as `lower_bound` returns it."""
        return _ordered.neighbors(self, _ordered.BELOW, keys, stream)

    def min(self) -> tuple[Any, Any]:
        """(key, value) of the smallest key; value None for a set. Raises `ValueError` for an empty table."""
        return _ordered.extreme(self, False)

    def max(self) -> tuple[Any, Any]:
        """(key, value) of the largest key; value None for a set. Raises `ValueError` for an empty table."""
        return _ordered.extreme(self, True)

    def range(
        self,
        low: Any,
        high: Any,
        limit: int | None = None,
        *,
        out: tuple[Out, Out | None] | None = None,
        stream: Stream = None,
    ) -> tuple[Any, Any, Any]:
        """Pairs with low[i] <= key < high[i], ascending; none where low[i] >= high[i].

        With `limit`, at most so many of each range: (keys, values, counts), keys and values of shape (n, limit), of
        which row i has counts[i] entries. Without it all of them: (keys, values, offsets), those of range i at
        [offsets[i] : offsets[i + 1]]. Either end may be None: the ranges go on to that end of the table.

        `out=(keys, values)` receives the pairs instead of new arrays, whose fresh pages cost as much time as reading a
        long range; of a set `out=(keys, None)`. The arrays are as the `out` of `find`, of shape (m, limit) with m >= n,
        without `limit` of shape (m,), and may be longer than the results: their part with the results is returned, and
        without `limit` what they hold behind it is not defined. If they are too short, `InvalidArgument` says how many
        pairs there are, and the table is as it was: call again with arrays for so many, or without `out`. One range is
        then read in one pass; the pairs of several are counted first, as without `out`, which takes half as long as
        reading them again.

        Beside writers each chunk of neighbouring keys is read as it was at one moment, a range as a whole not; on a
        GPU ranges without a limit are all read as they are at one moment, which writers wait for.
        """
        return _ordered.ranges(self, low, high, limit, out, stream)

    def _slice(self, keys: slice) -> tuple[Any, Any]:
        # t[low:high]: (keys, values) of one range
        _ordered.refuse_unordered(self.key_dtype)
        if keys.step is not None:
            raise TypeError(f"t[low:high] takes no step, and {keys.step!r} was given")
        for end in (keys.start, keys.stop):
            if end is not None and (tuple(end.shape) if _arrays.on_device(end) else np.shape(end)) != ():
                raise TypeError("t[low:high] takes two numbers: for several ranges use range(low, high)")
        found, values, _ = _ordered.pairs(self, keys.start, keys.stop, None)
        return found, values

    # ---- the whole table

    @overload
    def export(self, *, like: None = None, stream: Stream = None) -> tuple[NDArray[Any], NDArray[Any]]: ...
    @overload
    def export(self, *, like: Tensor, stream: Stream = None) -> tuple[Tensor, Tensor]: ...
    def export(self, *, like: SupportsDlpack | None = None, stream: Stream = None) -> tuple[Any, Any]:
        """All pairs: (keys, values), one-dimensional, in no order unless the backend is ordered; values None for a set.

        numpy arrays, or arrays of the library of `like`: of a CUDA array, for a table on its device, or of a tensor on
        the CPU. The table is read in one call, which Ctrl-C does not end.
        """
        return _exports.export(self, like, stream)

    def export_parts(
        self, size: int = 1 << 20, *, stream: Stream = None
    ) -> Iterator[tuple[NDArray[Any], NDArray[Any] | None]]:
        """All pairs, `size` at a time at most: tuples (keys, values) of numpy arrays, as `export` gives them at once.

        The arrays of a part are all that is needed beside the table. They often have fewer pairs than `size`; of a
        bucket of slab_hash that has more, all pairs come at once.

        Raises InvalidArgument where the table was changed since the first part: the parts belong to one moment.
        """
        room, cursor = _arguments.whole("size", size, 2**40, least=1), _core.ExportCursor()
        return self._parts(room, cursor, self._stream_of(None, stream))

    def _parts(self, size: int, cursor: _core.ExportCursor, s: int, turns: int = 0) -> Iterator[tuple[Any, Any]]:
        return _exports.parts(self, size, cursor, s, turns)

    def keys(self) -> NDArray[Any]:
        """All keys, as a numpy array."""
        return self.export()[0]

    def values(self) -> NDArray[Any]:
        """All values, as a numpy array in the order of a simultaneous `export`; None for a set."""
        return self.export()[1]

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Pairs of numpy scalars from one export; (key, None) for a set."""
        keys, values = self.export()
        return zip(keys, values if values is not None else [None] * len(keys), strict=True)

    def save(self, path: str | os.PathLike[str], overwrite: bool = False, compression: str | None = None) -> None:
        """Write all pairs, as they are at one moment, to a file that `gh.load` reads.

        path : of the file; "~" is the home. overwrite : may it exist? compression : None, "zstd" or "lz4", for which
        pyarrow is needed.

        The file is Arrow IPC with the columns "key" and "value": pyarrow, polars and duckdb read it. It is written
        under another name, and takes its own when it is complete and on the disk: a crash, Ctrl-C or a full disk leave
        what was there before. Some blocks of the file are in memory beside the table; where other threads write to it
        meanwhile, all pairs. `gh.progress` hears of the rows.

        Raises OSError with what the system says: `FileExistsError`, `PermissionError`, a full disk.
        """
        self._saving[0](self, path, overwrite, compression)

    def clear(self, *, stream: Stream = None) -> None:
        """Remove every key; the storage stays."""
        self._maintain("clear", 0, self._stream_of(None, stream))

    def reserve(self, keys: int, *, stream: Stream = None) -> None:
        """Make room for `keys` keys in all; never shrinks."""
        self._maintain("reserve", whole("keys", keys, 2**64 - 1), self._stream_of(None, stream))

    def shrink(self, *, stream: Stream = None) -> None:
        """Keep only as much storage as the keys need at the maximum load factor."""
        self._maintain("shrink", 0, self._stream_of(None, stream))

    def flush(self, first: int | None = None, count: int | None = None, *, stream: Stream = None) -> None:
        """Drop what erased keys left behind; a chaining backend gives slabs that are no longer needed to its allocator.

        When this returns, all pairs of a table in a file are on the disk; what the disk refuses is `NoMemory`.

        With `first` and `count` only the buckets first .. first + count - 1 of a chaining backend are flushed. Raises
        `InvalidArgument` for buckets that do not exist, and `Unsupported` where the backend has none.
        """
        s = self._stream_of(None, stream)
        if first is None and count is None:
            self._maintain("flush", 0, s)
            return
        if first is None or count is None:
            raise TypeError("a range of buckets has both ends: pass first and count, or neither")
        self._maintain("flush_range", whole("first", first, 2**64 - 1), s, whole("count", count, 2**64 - 1))

    def check(self) -> None:
        """Test every invariant of the structure. Raises `Corrupt` with the first one that is broken."""
        self._maintain("check")

    def _stage(self, stream: Any) -> Stage:
        return Stage(self._kind, self._ordinal, self._stream_of(None, stream))

    def _stream_of(self, like: Any, stream: Any) -> int:
        if self._kind == _core.CPU:
            return 0
        self._refuse_forked()
        if stream is None and self._stream is None and like is not None:
            return _streams.current_stream(like, self._ordinal)
        return _streams.stream_of_call(self, stream)[1]

    # ---- as a mapping

    # The core's methods end up here when their key is not one plain number, or arrays are not plain and ready.

    def _slow_batch(self, *batch: Any) -> Any:
        return _batch.batch(self, _batch.Call(*batch))

    def _fail(self, failure: Exception, status: Any, given: bool, stream: int) -> None:
        _device_batch.fail(self, failure, status, given, stream)

    def _is_capturing(self, stream: int) -> bool:
        return _cuda.is_capturing(stream)

    def _set_all(self, keys: Any, values: Any) -> None:
        one = _arrays.is_single(keys) or _arrays.on_device(keys)
        self.insert_or_assign(keys, values, dedup=None if one else "last")

    def _get(self, keys: Any, default: Any, stream: Any) -> Any:
        return _mapping.get(self, keys, default, stream)

    def _contains(self, key: Any) -> bool:
        return _mapping.contains(self, key)

    def _want_all(self, keys: Any, mask: Any) -> None:
        _mapping.want_all(self, keys, mask)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.keys())

    def __bool__(self) -> bool:
        return len(self) > 0

    # ---- properties

    @property
    def backend(self) -> str:
        """Name of the structure."""
        return str(self._info()["backend"])

    @property
    def device(self) -> str:
        """ "cpu" or, for example, "cuda:0"."""
        return _devices.device_name(self._kind, self._ordinal)

    @property
    def stream(self) -> Any:
        """The stream of calls that name none, as a `cuda.core.Stream`; None on the CPU.

        Where no `stream=` was given it is the default stream, which calls with device arrays follow only if their
        library works on it.
        """
        if self._kind == _core.CPU:
            return None
        if isinstance(self._stream, _cuda.core().Stream):
            return self._stream
        return _cuda.stream_at(_core.stream_handle(self._stream))

    @property
    def size(self) -> int:
        """Live keys."""
        return len(self)

    @property
    def capacity(self) -> int:
        """Keys that fit before the table grows or reports that it is full."""
        return int(self._info()["capacity"])

    @property
    def load_factor(self) -> float:
        """Live keys per slot."""
        info = self._info()
        return float(info["size"] / info["slots"]) if info["slots"] else 0.0

    @property
    def max_load_factor(self) -> float:
        """Load factor beyond which the table grows."""
        return float(self._info()["max_load_factor"])

    @property
    def nbytes(self) -> int:
        """Memory held, in bytes."""
        return int(self._info()["bytes"])

    @property
    def seed(self) -> int:
        """Seed of the hash."""
        return int(self._info()["seed"])

    @property
    def traits(self) -> frozenset[str]:
        """What this table does, for example "accumulate" or "ordered"; with other dtypes and options it may be more."""
        return self.info["traits"]

    @property
    def info(self) -> TableInfo:
        """Size, used slots, slots, capacity, bytes, seed, rebuilds, maximum load factor and traits at one moment."""
        info = self._info()
        if not _ordered.has_order(self.key_dtype):
            info["traits"] -= {"ordered"}
        if not self._accumulates():
            info["traits"] -= {"accumulate"}
        return info

    def __enter__(self) -> Table:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __reduce_ex__(self, protocol: Any) -> Any:
        made_with = {"grow": self._grow, "capacity": self.capacity, "threads": self._threads or None}
        return self._saving[1](self, made_with, protocol)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)  # of a subclass; a table has no attributes

    def __repr__(self) -> str:
        if self.closed:
            return "<pygpuhash.Table, closed>"
        if self.key_dtype is None:
            return "<pygpuhash.Table, never made>"
        kinds = f"{self.key_dtype}" + ("" if self.value_dtype is None else f" -> {self.value_dtype}")
        try:
            info = self._info()
        except GpuHashError as error:
            return f"<pygpuhash.Table {kinds} on {self.device}, unusable: {error}>"
        size, capacity = info["size"], info["capacity"]
        filled = f"{size} of {capacity} keys" if size <= capacity else f"{size} keys, above its capacity of {capacity}"
        return f"<pygpuhash.Table {info['backend']!r} {kinds} on {self.device}, {filled}>"


def _signature() -> inspect.Signature:
    """What `inspect.signature(Table)` shows: the arguments of __init__, not those of __new__."""
    whole = inspect.signature(Table.__init__)
    return whole.replace(parameters=[*whole.parameters.values()][1:], return_annotation=inspect.Signature.empty)


Table.__signature__ = _signature()
