"""Several columns on a GPU as one column of keys: a key stands for what all columns have in a row.

Equal rows have equal keys, and other rows have other ones, so that every verb and every table takes them. Two columns
of 4 bytes become the halves of a key; `_packed` makes keys of all others. The columns are CuPy's or PyTorch's, which
are asked for arithmetic on whole columns.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pygpuhash import (
    _arrays,
    _arrow_devices,
    _core,
    _cuda,
    _device_arrays,
    _device_groups,
    _packed,
    _table_verbs,
    _tensors,
)
from pygpuhash._packed import LONG, Part, viewed
from pygpuhash._table_verbs import Kept, KeyColumn
from pygpuhash.errors import Unsupported

__all__ = ["as_keys", "both_as_keys", "columns"]

_LIBRARIES = ("cupy", "torch")
_SHORT = np.dtype(np.int32)


def columns(given: tuple[Any, ...], what: str, read: Callable[[Any, str], KeyColumn]) -> list[KeyColumn]:
    """The columns of a tuple, each by `read`; those of Arrow as arrays of the library of the others.

    Raises TypeError and ValueError unless they are of one place, library and length, and Unsupported for libraries
    other than CuPy and PyTorch.
    """
    found: list[KeyColumn] = []
    arrays = [part for part in given if _tensors.library_of(part) in _LIBRARIES]
    for i, part in enumerate(given):
        name = f"{what}[{i}]"
        if not _arrays.on_device(part):
            raise TypeError(
                f"{name} is on the host and another column of {what} on a GPU: copy one to the other's place"
            )
        if _tensors.library_of(part) in _LIBRARIES:
            if type(part) is not type(arrays[0]):
                other = f"{what}[{next(j for j, other in enumerate(given) if other is arrays[0])}]"
                raise TypeError(
                    f"{other} is a {type(arrays[0]).__name__}, {name} a {type(part).__name__}: pass one library's"
                )
            column = read(part, name)
        elif isinstance(part, _cuda.DeviceArray) or _arrays.is_arrow_on_device(part):
            column = _of_arrow(part, name, arrays[0] if arrays else None, read)
        else:
            raise Unsupported(
                f"{name} is a {type(part).__name__}: pass arrays of CuPy or PyTorch or columns of Arrow, or make one "
                "key of rows"
            )
        if len(column.shape) != 1:
            raise ValueError(f"{name} has shape {column.shape}: pass one-dimensional columns")
        found.append(column)
        first_column = found[0]
        if column.ordinal != first_column.ordinal:
            raise TypeError(
                f"{what}[0] is on cuda:{first_column.ordinal}, {name} on cuda:{column.ordinal}: copy one of them"
            )
        if column.size != first_column.size:
            raise ValueError(
                f"{what}[0] has {first_column.size} elements, {name} {column.size}: pass columns of one length"
            )
    return found


def _of_arrow(part: Any, name: str, like: Any, read: Callable[[Any, str], KeyColumn]) -> KeyColumn:
    """A column of Arrow as an array of CuPy or PyTorch, which can be asked for arithmetic."""
    library = _device_arrays.library_that_is_there() if like is None else _tensors.library_of(like)
    if library is None:
        raise Unsupported(
            f"{name} is a {type(part).__name__}, and rows of several columns of Arrow on a GPU take the arithmetic of "
            "CuPy or PyTorch: import one of them"
        )
    seen = _arrow_devices.column(part, name)
    if not isinstance(seen, _arrow_devices.Bytes):
        column = read(_device_arrays.in_library(library, seen), name)
        return replace(column, give=lambda keys: _cuda.DeviceArray.from_dlpack(column.give(keys)))
    column = read(seen, name)
    return replace(column, array=_device_arrays.in_library(library, column.array), ready=None)


def as_keys(given: Sequence[KeyColumn], stream: Any) -> KeyColumn:
    """The rows of columns as a column of keys, which are given back as a tuple of columns.

    stream: that of the call; None for the one on which the columns' library works.
    """
    ordinal = _ordinal(given)
    given, kept = _without_dropped(given)
    with _cuda.current(ordinal):
        part = _together(given, stream)

    def give(distinct: Any) -> tuple[Any, ...]:
        with _cuda.current(ordinal):
            return tuple(column.give(array) for column, array in zip(given, part.back(distinct), strict=True))

    dtype = _SHORT if part.numbers.dtype == _device_groups.own_dtype(part.numbers, _SHORT) else LONG
    return _part_of(KeyColumn(part.numbers, dtype, (0,), give, ordinal, kept=kept), part.numbers)


def _without_dropped(given: Sequence[KeyColumn]) -> tuple[Sequence[KeyColumn], Kept | None]:
    """The rows of which no column has a negative number that says that they are dropped."""
    valid = None
    for column in given:
        if column.drops:
            these = column.array >= 0
            valid = these if valid is None else valid & these
    if valid is None:
        return given, None
    n, ordinal = given[0].size, _ordinal(given)
    with _cuda.current(ordinal):
        library = sys.modules[_tensors.library_of(valid)]
        rows = library.flatnonzero(valid) if hasattr(library, "flatnonzero") else library.nonzero(valid).reshape(-1)

        def spread(codes: Any) -> Any:
            with _cuda.current(ordinal):
                all_codes = _device_groups.maker(valid, ordinal)((n,), LONG)
                all_codes[:] = -1
                all_codes[rows] = codes
                return all_codes

        def take(array: Any, dtype: np.dtype[Any]) -> Any:
            with _cuda.current(ordinal):
                name = _tensors.library_of(array)
                return (array if name in _LIBRARIES else _device_arrays.in_library(library.__name__, array))[rows]

        return [_part_of(column, column.array[rows]) for column in given], Kept((n,), take, spread)


def both_as_keys(given: Sequence[KeyColumn], others: Sequence[KeyColumn], stream: Any) -> tuple[KeyColumn, KeyColumn]:
    """The rows of two tuples of columns, of the same dtypes: keys of equal rows are equal."""
    n = given[0].size
    with _cuda.current(_ordinal(given)):
        arrays = [_device_groups.joined([a.array, b.array]) for a, b in zip(given, others, strict=True)]
    together = [KeyColumn(a, c.dtype, (len(a),), c.give, c.ordinal) for a, c in zip(arrays, given, strict=True)]
    column = as_keys(together, stream)
    return _part_of(column, column.array[:n]), _part_of(column, column.array[n:])


def _ordinal(given: Sequence[KeyColumn]) -> int:
    assert given[0].ordinal is not None
    return given[0].ordinal


def _part_of(column: KeyColumn, keys: Any) -> KeyColumn:
    plain = _core.ready(keys)
    return replace(column, array=keys, shape=(len(keys),), ready=None if plain is None else (plain[0], plain[4]))


# ---- rows to integers, and back --------------------------------------------------------------------------------------


def _together(given: Sequence[KeyColumn], stream: Any) -> Part:
    if len(given) == 2 and all(column.dtype.itemsize == _SHORT.itemsize for column in given):
        return _halves(given)
    ordinal = _ordinal(given)
    _table_verbs.refuse_capture(given[0].array, ordinal, stream)  # numbers come to the host
    table = {} if stream is None else {"stream": stream}

    def number(numbers: Any) -> tuple[Any, Any]:
        column = _part_of(KeyColumn(numbers, LONG, (0,), lambda keys: keys, ordinal), numbers)
        return _table_verbs.factorize(column, "any", table)

    return _packed.pack([_packed.distances(column.array, column.dtype) for column in given], number)


def _halves(given: Sequence[KeyColumn]) -> Part:
    """Two columns of 4 bytes as the halves of a key."""
    numbers = _device_groups.maker(given[0].array, _ordinal(given))((given[0].size,), LONG)
    halves = viewed(numbers, _SHORT).reshape((-1, 2))
    for i, column in enumerate(given):
        halves[:, i] = viewed(column.array, _SHORT)

    def back(numbers: Any) -> list[Any]:
        halves = viewed(numbers, _SHORT).reshape((-1, 2))
        return [viewed(_copy(halves[:, i]), column.dtype) for i, column in enumerate(given)]

    return Part(numbers, 64, back)


def _copy(array: Any) -> Any:
    return array.copy() if hasattr(array, "copy") else array.contiguous()
