"""The base class of backends that are written in Python."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Literal

import numpy as np

from pygpuhash import _arguments, _arrays, _devices, _records
from pygpuhash.errors import (
    ClosedTable,
    HeapFull,
    InvalidArgument,
    OptionNotFound,
    PluginError,
    TableFull,
    Unsupported,
)
from pygpuhash.table import Op

__all__ = ["Backend"]

Array = Any  # of `Backend.xp`
_ELEMENT_FULL = 2  # statuses from here on are of elements that were not carried out
_ONLY_NO_MEMORY = {0, 1, 3}


class Backend:
    """A backend in Python: subclass it, announce the class as an entry point, and `Table(name, ...)` makes its objects.

    A subclass defines `start`, `run`, `pairs` and `__len__`. It works on flat arrays of `xp`, which is numpy for a
    table of the CPU and cupy for one of a GPU. What else a `Table` has for one value per key is here: conversions,
    scalars, `out=`, mixed batches, masks, errors with statuses, and a lock, so that one of `start`, `run` and `pairs`
    runs at a time. Other methods of a subclass hold `lock` where they need it.

    Class attributes
    ----------------
    name, version, summary : of the backend
    devices : "cpu", "cuda"
    traits : what it can do, of "insert", "accumulate", "grow", "flush"; "memory" and "seed" where it honours these
        arguments. "ordered", "multi" and "answers" stand for methods that a subclass brings itself
    key_widths, value_widths : bytes of keys, 4 and 8, and of values, also 0 for sets
    options : (name, choices, help) of each keyword argument of its own

    Attributes of an object
    -----------------------
    key_dtype, value_dtype : of the arguments; value_dtype is None for a set
    key_store, value_store : of what `run` gets: 4 or 8 bytes; value_store is None for a set
    device, xp, capacity, grow, memory, threads, seed, max_load_factor, given : the arguments, `given` the options
    """

    name: ClassVar[str] = ""
    version: ClassVar[str] = "0"
    summary: ClassVar[str] = ""
    devices: ClassVar[tuple[str, ...]] = ("cpu",)
    traits: ClassVar[tuple[str, ...]] = ("insert",)
    key_widths: ClassVar[tuple[int, ...]] = (4, 8)
    value_widths: ClassVar[tuple[int, ...]] = (0, 4, 8)
    options: ClassVar[tuple[tuple[str, str, str], ...]] = ()

    def __init__(
        self,
        *,
        key_dtype: Any = "uint64",
        value_dtype: Any = "int64",
        capacity: int = 0,
        device: str = "auto",
        grow: bool = True,
        max_load_factor: float | None = None,
        seed: int | None = None,
        stream: Any = None,
        memory: Any = None,
        threads: int | None = None,
        **given: Any,
    ) -> None:
        self.key_dtype = _arrays.table_dtype(key_dtype, "key_dtype")
        self.value_dtype = None if value_dtype is None else _arrays.table_dtype(value_dtype, "value_dtype")
        self._key_store = self._stored(self.key_dtype, self.key_widths, "keys")
        self.key_store = np.dtype(f"u{self._key_store.itemsize}")
        self.value_store = (
            None if self.value_dtype is None else self._stored(self.value_dtype, self.value_widths, "values")
        )
        if self.value_dtype is None and 0 not in self.value_widths:
            raise Unsupported(f"{self._who()} has no sets: pass a value_dtype")
        self.device, self.xp = self._place(device)
        self.capacity = _arguments.whole("capacity", capacity, 2**64 - 1)
        self.grow = _arguments.flag("grow", grow)
        self.max_load_factor = _arguments.load_factor(max_load_factor) or 1.0
        self.seed = _arguments.seed(seed) or int.from_bytes(os.urandom(8), "little") or 1
        self.memory, self.threads, self.given = memory, threads, given
        known = [row[0] for row in self.options]
        for option in given:
            if option not in known:
                raise OptionNotFound(f"{self._who()} has no option {option!r}; it has {', '.join(known) or 'none'}")
        self._refuse_stream(stream)
        self.lock = threading.RLock()
        self._open = True
        self.start()

    # ---- what a subclass defines

    def start(self) -> None:
        """Become an empty table of these arguments; called at first, and when the table is cleared or closed."""
        raise NotImplementedError(f"{type(self).__qualname__} does not define start()")

    def run(self, op: Op, keys: Array, values: Array | None, combine: str) -> tuple[Array, Array | None]:
        """Carry one operation out on each key: INSERT, ASSIGN, ACCUMULATE, FIND or ERASE.

        `keys` are of `key_store`, unsigned integers: the bits of keys, of which every pattern is a key. `values` are
        of `value_store`, one per key; None for a set, and for FIND and ERASE. `combine`
        is "add", "min" or "max". Returns (statuses, values): uint8, 1 where the key was inserted, found or erased, else
        0, and 2 (no room) or 3 (no memory) where it was not carried out; and for FIND values, 0 where a key is absent,
        else None. Of equal keys in one batch exactly one is inserted, and exactly one erased. Arrays that are passed
        may be the caller's own: neither keep nor change them.
        """
        raise NotImplementedError(f"{type(self).__qualname__} does not define run(op, keys, values, combine)")

    def pairs(self) -> tuple[Array, Array | None]:
        """All keys and values, as `run` takes them, in any order."""
        raise NotImplementedError(f"{type(self).__qualname__} does not define pairs()")

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__qualname__} does not define __len__()")

    # ---- what it may define

    def reserve(self, keys: int) -> None:
        """Make room for so many keys."""
        self.capacity = max(self.capacity, _arguments.whole("keys", keys, 2**64 - 1))

    def shrink(self) -> None:
        """Give back memory that the keys do not need."""
        self.capacity = len(self)

    def flush(self) -> None:
        """Give back what erased keys hold."""

    def check(self) -> None:
        """Raise `Corrupt` if an invariant is broken."""

    def stats(self) -> dict[str, float]:
        """Figures by name."""
        return {"size": float(len(self))}

    def histogram(self, n: int = 64) -> np.ndarray[Any, Any]:
        """How many keys are how far from where they are looked for first; here, all are there."""
        counts = np.zeros(n, np.uint64)
        counts[0] = len(self)
        return counts

    @property
    def nbytes(self) -> int:
        """Bytes that the table holds."""
        with self._entered():
            return sum(int(array.nbytes) for array in self._two_of_pairs() if array is not None)

    # ---- batches

    def insert(self, keys: Any, values: Any = None, *, out: Any = None, stream: Any = None) -> Any:
        """Add the pairs whose key is absent. Returns a mask: newly inserted."""
        return self._add(Op.INSERT, keys, values, out, stream)

    def insert_or_assign(
        self,
        keys: Any,
        values: Any = None,
        *,
        dedup: Literal["last"] | None = None,
        out: Any = None,
        stream: Any = None,
    ) -> Any:
        """Add each pair, or replace the value; dedup="last": of equal keys the last one. Mask: newly inserted."""
        if dedup not in (None, "last"):
            raise InvalidArgument(f"dedup={dedup!r} is neither None nor 'last'")
        return self._add(Op.ASSIGN, keys, values, out, stream, last=dedup == "last")

    def accumulate(self, keys: Any, values: Any = 1, *, op: str = "add", out: Any = None, stream: Any = None) -> Any:
        """Add to the values, or take the minimum or maximum. Mask: newly inserted."""
        if "accumulate" not in self.traits:
            raise Unsupported(f"{self._who()} does not have the trait accumulate")
        if self.value_dtype is not None and self.value_dtype.kind in "mM":
            values = _arrays.operands(values, self.value_dtype)
        return self._add(Op.ACCUMULATE, keys, values, out, stream, _combine(op))

    def find(self, keys: Any, *, out: Any = None, found: Any = None, stream: Any = None) -> tuple[Any, Any]:
        """Values, 0 where a key is absent (None for a set), and a mask: found."""
        stored, shape = self._keys(keys, stream)
        status, values = self._run(Op.FIND, stored, None)
        return self._values(values, shape, out), self._mask(status, shape, found)

    def contains(self, keys: Any, *, out: Any = None, stream: Any = None) -> Any:
        """Mask: found."""
        stored, shape = self._keys(keys, stream)
        return self._mask(self._run(Op.FIND, stored, None)[0], shape, out)

    def count(self, keys: Any, *, out: Any = None, stream: Any = None) -> Any:
        """How many pairs each key has: 0 or 1."""
        stored, shape = self._keys(keys, stream)
        return self._given(self._run(Op.FIND, stored, None)[0].astype(np.int64), shape, out, np.dtype(np.int64), "out")

    def erase(self, keys: Any, *, out: Any = None, stream: Any = None) -> Any:
        """Remove the keys. Mask: erased."""
        stored, shape = self._keys(keys, stream)
        return self._mask(self._run(Op.ERASE, stored, None)[0], shape, out)

    def execute(
        self,
        ops: Any,
        keys: Any,
        values: Any = None,
        *,
        op: str = "add",
        out: Any = None,
        found: Any = None,
        stream: Any = None,
    ) -> tuple[Any, Any]:
        """An operation of its own for each key, here one kind after the other. Values of FIND elements, and a mask."""
        stored, shape = self._keys(keys, stream)
        codes = self.xp.asarray(ops).reshape(-1)
        if len(codes) != len(stored):
            raise InvalidArgument(f"ops has {len(codes)} elements, keys {len(stored)}: pass one operation per key")
        operands = None if self.value_dtype is None else self._operands(0 if values is None else values, shape)
        status = self.xp.zeros(len(stored), np.uint8)
        results = None if self.value_store is None else self.xp.zeros(len(stored), self.value_store)
        adds_up = operands is not None and "accumulate" in self.traits
        known = [int(kind) for kind in Op if kind != Op.ACCUMULATE or adds_up]
        unknown = ~self.xp.isin(codes, self.xp.asarray(known))
        with self._entered():
            for kind in (Op.FIND, Op.ERASE, Op.INSERT, Op.ASSIGN, Op.ACCUMULATE):
                at = self.xp.flatnonzero(codes == int(kind))
                if not len(at) or int(kind) not in known:
                    continue
                wanted = operands if kind in (Op.INSERT, Op.ASSIGN, Op.ACCUMULATE) else None
                status[at], answered = self._run(kind, stored[at], None if wanted is None else wanted[at], _combine(op))
                if results is not None and answered is not None:
                    results[at] = answered
        answer = self._values(results, shape, out), self._mask(status, shape, found)
        self._raise_if_full(status, shape)
        if bool(unknown.any()):
            raise InvalidArgument(f"ops has the code {codes[unknown][0]}, which is no operation: see pygpuhash.Op")
        return answer

    # ---- the whole table

    def export(self, *, like: Any = None, stream: Any = None) -> tuple[Any, Any]:
        """All keys and their values (None for a set), in any order."""
        self._refuse_stream(stream)
        with self._entered():
            keys, values = self._two_of_pairs()
            keys, values = keys.copy(), None if values is None else values.copy()
            return self._decoded(keys, self._key_store, self.key_dtype), self._values(values, keys.shape, None)

    def export_parts(self, size: int = 1 << 20, *, stream: Any = None) -> Any:
        """All pairs of one export, `size` at a time at most."""
        room = _arguments.whole("size", size, 2**40, least=1)
        keys, values = self.export(stream=stream)
        ends = (slice(first, first + room) for first in range(0, len(keys), room))
        return ((keys[rows], None if values is None else values[rows]) for rows in ends)

    def clear(self) -> None:
        """Remove all keys."""
        with self._entered():
            self.start()

    def keys(self) -> Any:
        """All keys."""
        return self.export()[0]

    def values(self) -> Any:
        """All values, in the order of `keys`."""
        return self.export()[1]

    @property
    def info(self) -> dict[str, Any]:
        """What `Table.info` has."""
        with self._entered():
            size = len(self)
            return {
                "backend": self.name or type(self).__name__,
                "device": self.device,
                "traits": frozenset(self.traits),
                "size": size,
                "used": size,
                "slots": max(size, self.capacity),
                "capacity": max(size, self.capacity),
                "bytes": self.nbytes,
                "seed": self.seed,
                "rebuilds": 0,
                "max_load_factor": self.max_load_factor,
            }

    @property
    def load_factor(self) -> float:
        """Keys by slots."""
        info = self.info
        return info["used"] / info["slots"] if info["slots"] else 0.0

    def close(self) -> None:
        """Give the memory back; a second time does nothing."""
        with self.lock:
            if self._open:
                self.start()
            self._open = False

    def __enter__(self) -> Backend:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __bool__(self) -> bool:
        return len(self) > 0

    def __iter__(self) -> Iterator[Any]:
        return iter(self.keys())

    def __contains__(self, key: Any) -> bool:
        return bool(self.contains(key))

    def __getitem__(self, keys: Any) -> Any:
        values, found = self.find(keys)
        if not bool(self.xp.all(found)):
            raise KeyError(f"{keys!r} is not in the table")
        return values

    def __setitem__(self, keys: Any, values: Any) -> None:
        self.insert_or_assign(keys, values, out=False)

    def __delitem__(self, keys: Any) -> None:
        if not bool(self.xp.all(self.erase(keys))):
            raise KeyError(f"{keys!r} is not in the table")

    # ---- between users' arrays and those of `run`

    def _who(self) -> str:
        return f"backend {self.name or type(self).__name__!r}"

    def _stored(self, dtype: np.dtype[Any], widths: Iterable[int], what: str) -> np.dtype[Any]:
        store = _arrays.store_dtype(dtype, keys=what == "keys")
        if _records.is_record(dtype) or store.itemsize not in widths:
            instead = "; keep rows in an array, and their numbers as values" if what == "values" else ""
            sizes = " or ".join(str(width) for width in sorted(widths) if width)
            raise Unsupported(
                f"{self._who()} has no {what} of the type {dtype}: it takes numbers of {sizes or 'no'} bytes{instead}"
            )
        return store

    def _place(self, device: Any) -> tuple[str, Any]:
        """The name of the table's device, and the module of its arrays."""
        if isinstance(device, str) and device == "auto":
            device = "cpu" if "cpu" in self.devices else "cuda:0"
        if isinstance(device, str) and device.partition(":")[0] in {"cpu", "cuda"} - set(self.devices):
            raise Unsupported(f"{self._who()} is for {' and '.join(self.devices)}: device={device!r} cannot be used")
        named = _devices.device_name(*_devices.parse_device(device))
        if named == "cpu":
            return named, np
        if named != "cuda:0":
            raise Unsupported(f"device={device!r}: a backend in Python uses cuda:0, the current device of CuPy")
        try:
            import cupy
        except ImportError as error:
            raise Unsupported(
                f"device={device!r} needs CuPy, for example pip install cupy-cuda13x ({error})"
            ) from error
        return named, cupy

    def _refuse_stream(self, stream: Any) -> None:
        if stream is not None:
            raise Unsupported(f"stream={stream!r}: {self._who()} works on the current stream: leave it out")

    def _entered(self) -> threading.RLock:
        """The lock, to be held, of a table that is open."""
        if not self._open:
            raise ClosedTable("this table is closed: create a new one")
        return self.lock

    def _encoded(self, given: Any, dtype: np.dtype[Any], store: np.dtype[Any], what: str) -> Array:
        if self.xp is np:
            return _arrays.to_store(given, dtype, store, what)
        array = self.xp.asarray(given)
        if not np.can_cast(array.dtype, dtype, "same_kind") and array.dtype.kind not in "iu":
            raise TypeError(f"{what} are {array.dtype}, the table's are {dtype}: convert them")
        return self.xp.ascontiguousarray(array.astype(dtype).astype(store))

    def _decoded(self, stored: Array, store: np.dtype[Any], dtype: np.dtype[Any]) -> Array:
        stored = stored.view(store)
        return _arrays.from_store(stored, dtype) if self.xp is np else stored.astype(dtype)

    def _keys(self, keys: Any, stream: Any) -> tuple[Array, tuple[int, ...]]:
        """The bits of keys, and their shape."""
        self._refuse_stream(stream)
        stored = self._encoded(keys, self.key_dtype, self._key_store, "keys")
        return stored.reshape(-1).view(self.key_store), stored.shape

    def _operands(self, values: Any, shape: tuple[int, ...]) -> Array:
        assert self.value_dtype is not None
        assert self.value_store is not None
        stored = self._encoded(values, self.value_dtype, self.value_store, "values")
        if stored.shape not in ((), shape):
            raise InvalidArgument(f"values have the shape {stored.shape}, keys {shape}: pass one per key, or a scalar")
        return self.xp.ascontiguousarray(self.xp.broadcast_to(stored, shape)).reshape(-1)

    def _add(
        self, op: Op, keys: Any, values: Any, out: Any, stream: Any, combine: str = "add", last: bool = False
    ) -> Any:
        if self.value_dtype is None and values is not None and op != Op.ACCUMULATE:
            raise TypeError("this table is a set (value_dtype=None): pass no values")
        if self.value_dtype is None and op == Op.ACCUMULATE:
            raise TypeError("this table is a set (value_dtype=None), which has no values to accumulate")
        if self.value_dtype is not None and values is None:
            raise TypeError(f"this table holds {self.value_dtype} values: pass values, one per key or a scalar")
        stored, shape = self._keys(keys, stream)
        operands = None if self.value_dtype is None else self._operands(values, shape)
        if last:  # the others are as if they had come before
            chosen = len(stored) - 1 - self.xp.unique(stored[::-1], return_index=True)[1]
            status = self.xp.zeros(len(stored), np.uint8)
            status[chosen], _ = self._run(op, stored[chosen], None if operands is None else operands[chosen])
        else:
            status, _ = self._run(op, stored, operands, combine)
        mask = self._mask(status, shape, out)
        self._raise_if_full(status, shape)
        return mask

    def _run(self, op: Op, keys: Array, values: Array | None, combine: str = "add") -> tuple[Array, Array | None]:
        """`run`, with what it answers checked."""
        with self._entered():
            status, answered = self._two(
                self.run(op, keys, values, combine), f"run(Op.{op.name})", "(statuses, values)"
            )
        self._want_shape(op, keys, status, np.dtype(np.uint8), "statuses")
        wants = op == Op.FIND and self.value_store is not None
        if wants:
            self._want_shape(op, keys, answered, self.value_store, "values")
        return status, answered if wants else None

    def _two_of_pairs(self) -> tuple[Array, Array | None]:
        return self._two(self.pairs(), "pairs()", "(keys, values)")

    def _two(self, answer: Any, method: str, expected: str) -> tuple[Any, Any]:
        """The tuple of two that a method answered; an array of two elements is none."""
        if isinstance(answer, tuple) and len(answer) == 2:
            return answer
        found = f"a tuple of {len(answer)}" if isinstance(answer, tuple) else f"a {type(answer).__name__}"
        raise PluginError(f"{self._who()}: {method} answered {found}: it has to answer the tuple {expected}")

    def _want_shape(self, op: Op, keys: Array, answer: Any, dtype: Any, what: str) -> None:
        """Refuse what `run` answered where it is not one element per key."""
        if getattr(answer, "dtype", None) == dtype and answer.shape == keys.shape:
            return
        found = f"{answer.size} of {answer.dtype}" if hasattr(answer, "dtype") else f"a {type(answer).__name__}"
        raise PluginError(
            f"{self._who()}: run(Op.{op.name}) of {len(keys)} keys answered {found} for {what}: "
            f"it has to answer an array of {len(keys)} of {dtype}"
        )

    def _raise_if_full(self, status: Array, shape: tuple[int, ...]) -> None:
        failed = int((status >= _ELEMENT_FULL).sum())
        if not failed:
            return
        kinds = set(self.xp.unique(status).tolist())
        error = (HeapFull if kinds <= _ONLY_NO_MEMORY else TableFull)(
            f"{self._who()}: {failed} of {len(status)} keys found no room; reserve more and repeat them"
        )
        error.status = status.reshape(shape)
        raise error

    def _mask(self, status: Array, shape: tuple[int, ...], out: Any) -> Any:
        return self._given(status == 1, shape, out, np.dtype(bool), "out")

    def _values(self, stored: Array | None, shape: tuple[int, ...], out: Any) -> Any:
        if self.value_dtype is None or self.value_store is None:
            return None
        return self._given(
            self._decoded(stored, self.value_store, self.value_dtype), shape, out, self.value_dtype, "out"
        )

    def _given(self, flat: Array, shape: tuple[int, ...], out: Any, dtype: np.dtype[Any], what: str) -> Any:
        """An answer: a new array, a scalar for a scalar, or what was passed to take it; None where out=False."""
        if out is False:
            return None
        if out is None:
            return flat.reshape(shape) if shape else flat.reshape(shape)[()]
        target = _arrays.output(out, dtype, shape, what) if self.xp is np else out
        target[...] = flat.reshape(shape)
        return out


def _combine(op: Any) -> str:
    if op not in ("add", "min", "max"):
        raise InvalidArgument(f"op={op!r} is none of 'add', 'min', 'max'")
    return str(op)
