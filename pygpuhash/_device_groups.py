"""Verbs on a column on a GPU, from the column as it lies: groups, with counts, codes and aggregates, isin, and
joins.

Everything is queued on one stream; what comes back to the host is the number of groups alone. Results and temporaries
are arrays of the column's library.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pygpuhash import _arguments, _core, _cuda, _device_arrays, _streams, _tensors
from pygpuhash._core import part, pointer
from pygpuhash.errors import NoMemory, Unsupported

__all__ = [
    "Groups",
    "Place",
    "Values",
    "group",
    "is_memory_short",
    "isin",
    "join",
    "maker",
    "own_dtype",
    "plain",
    "serves",
    "serves_isin",
    "serves_values",
]

MOST = 2**31  # rows of one call
KERNELS = not _core.build_info().endswith("CUDA: off")  # that this build of the library has
OWN = "pygpuhash"  # the library of DeviceArray, and of columns of Arrow
_LIBRARIES = ("cupy", "torch", OWN)  # that can be asked for arrays, parts of arrays, and copies
_TAKEN = frozenset(("stream", "seed", "device"))  # arguments that do not ask for a table
_INDEX, _BYTE = np.dtype(np.int64), np.dtype(np.uint8)
_MOST_LISTED = 1 << 30  # right rows of a join
_TOO_OFTEN = 2  # GPUHASH_JOIN_TOO_OFTEN
_NOTHING = contextlib.nullcontext()
_CARDS = {"cuda": 0} | {f"cuda:{i}": i for i in range(64)}  # those with other names take more than a look
_MOST_OTHERS = 1 << 29  # of isin
_IN_CACHE = 1 << 24  # bytes of others whose table the cache of a GPU holds for the most part


@dataclass
class Groups:
    """Arrays of the column's library; those that were not asked for are None."""

    distinct: Any
    counts: Any
    codes: Any
    aggregates: dict[str, Any]  # by "sum", "mean", "min", "max"
    rows: Any = None  # the first row of each group


@dataclass
class Values:
    """A value for each row, and which aggregates groups have of them."""

    array: Any
    dtype: np.dtype[Any]
    ops: tuple[str, ...]


def serves(library: str | None, dtype: np.dtype[Any], rows: int, ordinal: int, table: dict[str, Any]) -> bool:
    """Are groups found in the column itself? Else a table serves it, which takes every array and argument."""
    own = (f"cuda:{ordinal}", "cuda") if ordinal == 0 else (f"cuda:{ordinal}",)
    return (
        KERNELS
        and library in _LIBRARIES
        and dtype.kind in "iuf"
        and dtype.itemsize in (4, 8)
        and rows <= MOST
        and _TAKEN.issuperset(table)
        and table.get("device", own[0]) in own
    )


def serves_values(library: str | None, given: Any, dtype: np.dtype[Any], sums: np.dtype[Any] | None) -> bool:
    """Does the call that finds groups take these values, too? sums: the dtype of their sums, if any is asked for."""
    return (
        (_tensors.library_of(given) in (library, OWN) or library == OWN)
        and dtype.kind in "iuf"
        and dtype.itemsize in (4, 8)
        and (sums is None or sums == _core.result_of("sum", dtype))  # a dtype of floats equals None
    )


def serves_isin(
    library: str | None, dtype: np.dtype[Any], rows: int, others: int, ordinal: int, table: dict[str, Any]
) -> bool:
    """Are so many others of so many rows looked up without a `Table`?"""
    if not serves(library, dtype, 0, ordinal, table) or others > _MOST_OTHERS:
        return False
    return others * dtype.itemsize <= _IN_CACHE or rows + others <= MOST


def is_memory_short(error: Exception) -> bool:
    """Was there no memory for an array of CuPy or PyTorch, or for one of ours?"""
    return isinstance(error, NoMemory) or type(error).__name__ == "OutOfMemoryError"


class Place:
    """Where a call works: on which device and stream, by whose library."""

    def __init__(self, ordinal: int, array: Any, ready: tuple[int, int] | None, table: dict[str, Any]) -> None:
        """ready: where the array lies, and its library's current stream, for which it is ready; None: not known."""
        self.ordinal, self.array = ordinal, array
        self.seed = _arguments.seed(table.get("seed")) or int.from_bytes(os.urandom(8), "little")
        self._given = table.get("stream")
        if ready is not None and self._given is None:
            self._at, self.stream = ready
            self.is_current = True
        else:
            self.stream = _streams.usable_stream(self.keeper(), ordinal)[1]
            self.is_current = False

    def keeper(self) -> Any:
        """The object that keeps the stream open."""
        return _streams.stream_keeper(self.array, self.ordinal) if self._given is None else self._given

    def address(self) -> int:
        """The address of the array, which is ready for the stream then."""
        return self._at if self.is_current else self.address_of(self.array, "keys")

    def address_of(self, array: Any, what: str) -> int:
        """The address of another array of the call, which is ready for the stream then."""
        if self.is_current:
            plain = _core.ready(array)
            if plain is not None and plain[3:] == (self.ordinal, self.stream):
                return plain[0]
        return _device_arrays.view(array, self.ordinal, self.stream, what).ptr

    def on_device(self) -> Any:
        """A context in which calls may be made, of which the library's allocate on the device."""
        if self.is_current:
            library = sys.modules[_tensors.library_of(self.array)]
            asks = library.cuda.current_device if library.__name__ == "torch" else library.cuda.runtime.getDevice
            if asks() == self.ordinal:
                return _NOTHING
        return _cuda.current(self.ordinal)

    def allocating(self) -> Any:
        """A context in which the library allocates and works on the stream."""
        if self.is_current:
            return _NOTHING
        return _streams.working_on(self.array, self.ordinal, self.stream)


def group(where: Place, dtype: np.dtype[Any], first: bool, **asked: Any) -> Groups:
    """The groups of an array, which `serves` has allowed, in the order of first appearance or in any; within
    `where.on_device()`. asked: as of `begin`."""
    return begin(where, dtype, first, waits=True, **asked)()


def begin(
    where: Place,
    dtype: np.dtype[Any],
    first: bool,
    *,
    counts: bool = False,
    codes: bool = False,
    values: Values | None = None,
    rows: bool = False,
    waits: bool = False,
) -> Callable[[], Groups]:
    """Queue what finds the groups, which the function that it gives waits for, within the same context.

    rows : their first rows, too, of groups in the order of first appearance.
    waits : for the stream at once, which takes less time.
    """
    shape = tuple(where.array.shape)
    call = _core.Grouping(where.ordinal, where.stream, where.seed, shape, dtype, first, counts, codes, rows, waits)
    if values is not None:
        call.reduce(
            where.address_of(values.array, "values"),
            values.dtype,
            _core.VALUE_TYPE[values.dtype.kind],
            [(op, _core.result_of(op, values.dtype)) for op in values.ops],
        )
    keys = where.address()
    with where.allocating():
        call.start(keys, maker(where.array, where.ordinal, where.keeper), _cuda.copy)

    def finish() -> Groups:
        if not waits:
            call.wait(_cuda.numbers_at)
        with where.allocating():
            found = call.give()
        return Groups(
            found.pop("distinct"), found.pop("counts", None), call.codes, rows=found.pop("rows", None), aggregates=found
        )

    return finish


def plain(keys: Any, order: str, table: dict[str, Any], **asked: Any) -> tuple[Any, Any, Any] | None:
    """(distinct, counts or aggregates, codes) of an array of integers of CuPy or PyTorch, in less time than `group`
    takes; None of everything else. table: the arguments of the call that ask for one, of which this takes a device.
    asked: as of `plain_groups`."""
    device = table.get("device")
    ordinal = _CARDS.get(device) if isinstance(device, str) else None if table else -1
    if ordinal is None or len(table) > 1 or not KERNELS:
        return None
    seed = int.from_bytes(os.urandom(8), "little")
    try:
        return _core.plain_groups(keys, ordinal, order == "first", seed, _cuda.copy, _cuda.is_capturing, **asked)
    except Unsupported:  # by a device with little shared memory
        return None


def isin(where: Place, among: Any, dtype: np.dtype[Any]) -> Any:
    """Which elements of an array, which `serves_isin` has allowed, are among another one's; within
    `where.on_device()`."""
    shape, others = tuple(where.array.shape), math.prod(among.shape)
    n = math.prod(shape)
    nbytes = _core.isin_scratch(n, others, dtype.itemsize)
    keys, there = where.address(), where.address_of(among, "among")
    with where.allocating():
        empty = maker(where.array, where.ordinal, where.keeper)
        mask = empty(shape, np.dtype(np.bool_))
        scratch = empty((nbytes,), _BYTE) if nbytes else None
        _core.isin(
            where.ordinal, n, keys, others, there, dtype.itemsize, where.seed, pointer(mask),
            pointer(scratch), nbytes, where.stream,
        )  # fmt: skip
        return mask


def join(where: Place, right: Any, dtype: np.dtype[Any], keep: bool) -> tuple[tuple[Any, Any] | None, Any]:
    """(pairs of left and right rows, None); or (None, the first rows of keys) where a key has very many right rows.

    The left column is that of `where`; within `where.on_device()`. First rows are those of the right column with the
    left one behind it, each an int32. Pairs are as `_device_joins.pairs` gives them, `keep`, too.
    """
    if len(right) <= _MOST_LISTED:
        pairs, _ = _join(where, right, dtype, keep, lists=True)
        if pairs is not None:
            return pairs, None
    return _join(where, right, dtype, keep, lists=False)


def _join(
    where: Place, right: Any, dtype: np.dtype[Any], keep: bool, lists: bool
) -> tuple[tuple[Any, Any] | None, Any]:
    n, m = len(where.array), len(right)
    nbytes = _core.join_scratch(n, m, dtype.itemsize, lists)
    one, other = where.address(), where.address_of(right, "right")
    with where.allocating():
        empty = maker(where.array, where.ordinal, where.keeper)
        first = None if lists else empty((m + n,), np.dtype(np.int32))
        left_rows, right_rows = empty((n,), _INDEX), empty((n,), _INDEX)
        scratch = empty((nbytes + 2 * _INDEX.itemsize,), _BYTE)  # what is known of the result is behind the temporaries
        at = pointer(scratch)
        call = _core.Join(
            where.ordinal, n, one, m, other, dtype.itemsize, keep, where.seed, pointer(first), at + nbytes, at, nbytes,
            where.stream,
        )  # fmt: skip
        pairs, repeats = call.start(pointer(left_rows), pointer(right_rows))
        if not repeats:
            left_rows, right_rows = (
                part(rows, _INDEX, pairs, n, empty, where.stream, _cuda.copy) for rows in (left_rows, right_rows)
            )
            return (left_rows, right_rows), None
        if not lists or repeats == _TOO_OFTEN:
            return None, first
        del left_rows, right_rows
        left_rows, right_rows = empty((pairs,), _INDEX), empty((pairs,), _INDEX)
        call.write_pairs(pairs, pointer(left_rows), pointer(right_rows))
        return (left_rows, right_rows), None


def maker(
    array: Any, ordinal: int, keeper: Callable[[], Any] = lambda: None
) -> Callable[[tuple[int, ...], np.dtype[Any]], Any]:
    """What makes a new array of the library of `array`, on the stream that is current there.

    keeper: gives that stream, to arrays of no library.
    """
    like = _core.maker_like(array, ordinal)
    if like is not None:
        return like
    library = sys.modules[_tensors.library_of(array) or ""]
    if library.__name__ == OWN:
        stream = keeper()
        return lambda shape, dtype: _cuda.DeviceArray(shape, dtype, ordinal, stream)
    if library.__name__ == "cupy":  # of a class that derives from its
        return library.empty  # type: ignore[no-any-return]
    device = _torch_device(library, ordinal)
    return lambda shape, dtype: library.empty(shape, dtype=_torch_dtype(library, dtype), device=device)


def joined(arrays: list[Any]) -> Any:
    """Arrays of CuPy or PyTorch, one after the other."""
    return sys.modules[_tensors.library_of(arrays[0])].concatenate(arrays)


def own_dtype(array: Any, dtype: np.dtype[Any]) -> Any:
    """A dtype as the library of an array, numpy, CuPy or PyTorch, names it."""
    return _torch_dtype(sys.modules["torch"], dtype) if _tensors.library_of(array) == "torch" else dtype


@functools.cache
def _torch_dtype(torch: Any, dtype: np.dtype[Any]) -> Any:
    return getattr(torch, dtype.name)


@functools.cache
def _torch_device(torch: Any, ordinal: int) -> Any:
    return torch.device("cuda", ordinal)
