"""Verbs on a column on a GPU, from the column as it lies: groups, with counts, codes and aggregates, and isin.

Everything is queued on one stream; what comes back to the host is the number of groups alone. Results and temporaries
are arrays of the column's library.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pygpuhash import _arguments, _core, _cuda, _device, _tensors

__all__ = ["Groups", "Values", "group", "isin", "serves", "serves_isin", "serves_values"]

MOST = 2**31  # rows of one call
KERNELS = not _core.build_info().endswith("CUDA: off")  # that this build of the library has
_LIBRARIES = ("cupy", "torch")  # that can be asked for arrays, parts of arrays, and copies
_TAKEN = frozenset(("stream", "seed", "device"))  # arguments that do not ask for a table
_INDEX, _FLOAT, _BYTE = np.dtype(np.int64), np.dtype(np.float64), np.dtype(np.uint8)
_TYPES = {"u": 0, "i": 1, "f": 2}  # GPUHASH_UINT, _INT, _FLOAT
_IN_CACHE = 1 << 24  # bytes of others whose table the cache of a GPU holds for the most part; a Table is faster beyond


@dataclass
class Groups:
    """Arrays of the column's library; those that were not asked for are None."""

    distinct: Any
    counts: Any
    codes: Any
    aggregates: dict[str, Any]  # by "sum", "mean", "min", "max"


@dataclass
class Values:
    """A value for each row, and which aggregates groups have of them."""

    array: Any
    dtype: np.dtype[Any]
    ops: tuple[str, ...]

    def result(self, op: str) -> np.dtype[Any]:
        """The dtype of an aggregate."""
        if op == "sum":
            return np.dtype(f"{self.dtype.kind}8")
        return _FLOAT if op == "mean" else self.dtype


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
        _tensors.library_of(given) == library
        and dtype.kind in "iuf"
        and dtype.itemsize in (4, 8)
        and (sums is None or sums == Values(given, dtype, ()).result("sum"))  # a dtype of floats equals None
    )


def serves_isin(library: str | None, dtype: np.dtype[Any], others: int, ordinal: int, table: dict[str, Any]) -> bool:
    """Are so many others looked up without a table of their own, which is faster for very many?"""
    return serves(library, dtype, 0, ordinal, table) and others * dtype.itemsize <= _IN_CACHE


def group(
    array: Any,
    dtype: np.dtype[Any],
    ordinal: int,
    table: dict[str, Any],
    first: bool,
    *,
    counts: bool,
    codes: bool,
    values: Values | None = None,
) -> Groups:
    """The groups of an array, which `serves` has allowed, in the order of first appearance or in any."""
    ops = () if values is None else values.ops
    seed, stream = _seed(table), _stream(array, ordinal, table)
    with _cuda.current(ordinal):
        keys = _device.view(array, ordinal, stream, "keys")
        amounts = 0 if values is None else _device.view(values.array, ordinal, stream, "values").ptr
        kind = (0, 0) if values is None else (values.dtype.itemsize, _TYPES[values.dtype.kind])
        wanted = [op in ops for op in ("sum", "mean", "min", "max")]
        n, nbytes = keys.size, _core.group_scratch(keys.size, dtype.itemsize, first, counts, codes, *kind, *wanted)
        with _device.working_on(array, ordinal, stream):
            empty = _maker(array, ordinal)
            distinct = empty((n,), dtype)
            many = empty((n,), _INDEX) if counts else None
            numbers = empty(keys.shape, _INDEX) if codes else None
            results = {op: empty((n,), values.result(op)) for op in ops} if values is not None else {}
            if n == 0:
                return Groups(distinct, many, numbers, results)
            scratch = empty((nbytes + _INDEX.itemsize,), _BYTE)  # the number of groups is behind the temporaries
            size = _pointer(scratch) + nbytes
            _core.group(
                ordinal, n, keys.ptr, dtype.itemsize, first, seed, _pointer(distinct), _pointer(many),
                _pointer(numbers), size, _pointer(scratch), nbytes, stream, amounts, *kind,
                *(_pointer(results.get(op)) for op in ("sum", "mean", "min", "max")),
            )  # fmt: skip
            found = np.empty(1, _INDEX)
            _cuda.copy_to_host(found, size, ordinal, stream)
            groups = int(found[0])
            parts = {op: _part(result, groups) for op, result in results.items()}
            return Groups(_part(distinct, groups), _part(many, groups), numbers, parts)


def isin(array: Any, others: Any, dtype: np.dtype[Any], ordinal: int, table: dict[str, Any]) -> Any:
    """Which elements of an array, which `serves_isin` has allowed, are among those of another one on the device."""
    seed, stream = _seed(table), _stream(array, ordinal, table)
    with _cuda.current(ordinal):
        keys, among = _device.view(array, ordinal, stream, "keys"), _device.view(others, ordinal, stream, "among")
        nbytes = _core.isin_scratch(among.size, dtype.itemsize)
        with _device.working_on(array, ordinal, stream):
            empty = _maker(array, ordinal)
            mask = empty(keys.shape, np.dtype(np.bool_))
            scratch = empty((nbytes,), _BYTE) if nbytes else None
            _core.isin(
                ordinal, keys.size, keys.ptr, among.size, among.ptr, dtype.itemsize, seed, _pointer(mask),
                _pointer(scratch), nbytes, stream,
            )  # fmt: skip
            return mask


def _seed(table: dict[str, Any]) -> int:
    return _arguments.seed(table.get("seed")) or int.from_bytes(os.urandom(8), "little")


def _stream(array: Any, ordinal: int, table: dict[str, Any]) -> int:
    """The handle of the stream of the call."""
    given = table.get("stream")
    return _device.usable_stream(_device.stream_keeper(array, ordinal) if given is None else given, ordinal)[1]


def _maker(array: Any, ordinal: int) -> Callable[[tuple[int, ...], np.dtype[Any]], Any]:
    """What makes a new array of the library of `array`, on the stream that is current there."""
    library = sys.modules[_tensors.library_of(array) or ""]
    if library.__name__ == "cupy":
        return library.empty  # type: ignore[no-any-return]
    return lambda shape, dtype: library.empty(shape, dtype=getattr(library, dtype.name), device=f"cuda:{ordinal}")


def _pointer(array: Any) -> int:
    if array is None:
        return 0
    return int(array.data_ptr() if _tensors.library_of(array) == "torch" else array.data.ptr)


def _part(array: Any, n: int) -> Any:
    """The first n elements; a copy where the rest would keep more memory than they take."""
    if array is None or 2 * n >= len(array):
        return None if array is None else array[:n]
    return array[:n].clone() if _tensors.library_of(array) == "torch" else array[:n].copy()
