"""Columns of keys as verbs over tables take them: arrays of the host, and of a GPU.

A column says how its distinct keys become elements of its own library again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pygpuhash import (
    _arrays,
    _arrow_devices,
    _core,
    _cuda,
    _device_arrays,
    _device_groups,
    _streams,
    _views,
)

__all__ = [
    "Kept",
    "KeyColumn",
    "as_others",
    "converted",
    "equal_numbers",
    "numbers_dtype",
    "on_device",
    "on_host",
    "ordinal_of",
    "ready_on_device",
    "seen",
    "settle",
    "view_of",
]

Array = np.ndarray[Any, Any]
_INDEX = np.dtype(np.int64)


@dataclass
class Kept:
    """Rows of a column that its keys are of, where others are dropped.

    shape : of the column.
    take : (an array of the column's shape, its dtype) -> what the rows that are kept have of it.
    spread : codes of the rows that are kept -> those of all rows, negative elsewhere.
    """

    shape: tuple[int, ...]
    take: Callable[[Any, np.dtype[Any]], Any]
    spread: Callable[[Any], Any]


@dataclass
class KeyColumn:
    """A column as a table takes it, and how distinct keys become elements of the column's library again."""

    array: Any
    dtype: np.dtype[Any]  # of the table's keys
    shape: tuple[int, ...]
    give: Callable[[Any], Any]  # keys of the table, as the user has them
    ordinal: int | None = None  # of the GPU
    ready: tuple[int, int] | None = None  # where the array lies, and its library's current stream, if that is all
    known: _device_groups.Groups | None = None  # its groups by first appearance, of which give(None) gives the keys
    kept: Kept | None = None
    drops: bool = False  # is a row with a negative key to be dropped?

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def on_device(self) -> bool:
        return self.ordinal is not None

    def as_index(self, numbers: Any, table: dict[str, Any]) -> Any:
        """Counts or codes as int64."""
        if self.ordinal is None:
            return numbers.astype(_INDEX, copy=False)
        if numbers_dtype(self) == _INDEX:
            return numbers
        settle(self, table)
        return converted(numbers, _INDEX, self.ordinal, "numbers")


def on_host(array: Array) -> KeyColumn:
    """A host array of a dtype that tables have."""
    return KeyColumn(array, array.dtype, array.shape, lambda keys: keys)


def as_others(given: Any, dtype: np.dtype[Any], what: str) -> KeyColumn:
    """A host column for a table of this dtype, which is that of a column on a device."""
    return on_host(_arrays.to_base(_arrays.column(given, what), dtype, what))


def ready_on_device(given: Any) -> KeyColumn | None:
    """An array of CuPy or PyTorch on a GPU that a verb can take as it lies, found by one look; None of all else."""
    plain = _core.ready(given)
    if plain is None or plain[2].itemsize < 4:
        return None
    at, shape, dtype, ordinal, stream = plain
    return KeyColumn(given, dtype, shape, _as_it_is, ordinal=ordinal, ready=(at, stream))


def _as_it_is(keys: Any) -> Any:
    return keys


def on_device(given: Any, what: str) -> KeyColumn:
    """An array on a GPU. Elements of 1 and 2 bytes are made 4 wide by their library, and narrow again."""
    ready = ready_on_device(given)
    if ready is not None:
        return ready
    given = _arrow_devices.numbers(given, what)
    ordinal = ordinal_of(given)
    seen = view_of(given, ordinal, what)
    dtype = _arrays.table_dtype(seen.dtype, f"the dtype of {what}")
    wide = np.dtype(np.float32) if dtype == np.float16 else _stored(dtype)
    if wide == dtype:
        return KeyColumn(given, dtype, seen.shape, lambda keys: keys, ordinal=ordinal)
    return KeyColumn(
        converted(given, wide, ordinal, what),
        wide,
        seen.shape,
        lambda keys: converted(keys, dtype, ordinal, what),
        ordinal=ordinal,
    )


def equal_numbers(column: KeyColumn) -> KeyColumn:
    """Of floats on a GPU, equal numbers have equal bits: one zero, one NaN. Only CuPy and PyTorch can be asked."""
    if column.dtype.kind != "f" or not _device_arrays.converts(column.array):
        return column
    array = column.array + 0
    array[array != array] = math.nan
    return replace(column, array=array, ready=None)


def seen(array: Any, what: str) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """The dtype and the shape of an array on a GPU."""
    plain = _core.ready(array)
    if plain is not None:
        return plain[2], plain[1]
    view = view_of(array, ordinal_of(array), what)
    return view.dtype, view.shape


def _stored(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return _arrays.store_dtype(dtype, keys=True)


def view_of(array: Any, ordinal: int, what: str) -> _views.DeviceView:
    with _cuda.current(ordinal):
        return _device_arrays.view(array, ordinal, _streams.current_stream(array, ordinal), what)


def ordinal_of(array: Any) -> int:
    """The number of the GPU on which an array lies."""
    if hasattr(array, "__dlpack_device__"):
        return int(array.__dlpack_device__()[1])
    return int(_core.pointer_device(array.__cuda_array_interface__["data"][0])[1])


def converted(array: Any, dtype: np.dtype[Any], ordinal: int, what: str) -> Any:
    with _cuda.current(ordinal):
        return _device_arrays.astype(array, dtype, ordinal, _streams.current_stream(array, ordinal), what)


def settle(column: KeyColumn, given: dict[str, Any]) -> None:
    """Wait for the table's calls, if they were on a stream that the column's library does not work on."""
    if column.ordinal is not None and given.get("stream") is not None:
        _cuda.synchronize(column.ordinal, _streams.usable_stream(given["stream"], column.ordinal)[1])


def numbers_dtype(column: KeyColumn) -> np.dtype[Any]:
    """The dtype of counts, codes and positions in a table: narrow slots are faster. They are given back as int64."""
    narrow = column.size < 2**31 and (not column.on_device or _device_arrays.converts(column.array))
    return np.dtype(np.int32) if narrow else _INDEX
