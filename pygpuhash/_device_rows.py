"""Several columns on a GPU as one column of keys: a key stands for what all columns have in a row.

Equal rows have equal keys, and other rows have other ones, so that every verb and every table takes them. Two columns
of 4 bytes become the halves of a key; `_packed` makes keys of all others. The columns are CuPy's or PyTorch's, which
are asked for arithmetic on whole columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pygpuhash import _arrays, _core, _cuda, _device_groups, _packed, _table_verbs, _tensors
from pygpuhash._packed import LONG, Part, viewed
from pygpuhash._table_verbs import KeyColumn
from pygpuhash.errors import Unsupported

__all__ = ["as_keys", "both_as_keys", "columns"]

_LIBRARIES = ("cupy", "torch")
_SHORT = np.dtype(np.int32)


def columns(given: tuple[Any, ...], what: str, read: Callable[[Any, str], KeyColumn]) -> list[KeyColumn]:
    """The columns of a tuple, each by `read`.

    Raises TypeError and ValueError unless they are of one place, library and length, and Unsupported for libraries
    other than CuPy and PyTorch.
    """
    found: list[KeyColumn] = []
    for i, part in enumerate(given):
        name = f"{what}[{i}]"
        if not _arrays.on_device(part):
            raise TypeError(
                f"{name} is on the host and another column of {what} on a GPU: copy one to the other's place"
            )
        if _tensors.library_of(part) not in _LIBRARIES:
            raise Unsupported(
                f"{name} is a {type(part).__name__}: pass arrays of CuPy or PyTorch, or make one key of rows"
            )
        column = read(part, name)
        if len(column.shape) != 1:
            raise ValueError(f"{name} has shape {column.shape}: pass one-dimensional columns")
        found.append(column)
        first = found[0]
        if type(part) is not type(given[0]):
            raise TypeError(
                f"{what}[0] is a {type(given[0]).__name__}, {name} a {type(part).__name__}: pass one library's"
            )
        if column.ordinal != first.ordinal:
            raise TypeError(f"{what}[0] is on cuda:{first.ordinal}, {name} on cuda:{column.ordinal}: copy one of them")
        if column.size != first.size:
            raise ValueError(f"{what}[0] has {first.size} elements, {name} {column.size}: pass columns of one length")
    return found


def as_keys(given: Sequence[KeyColumn], stream: Any) -> KeyColumn:
    """The rows of columns as a column of keys, which are given back as a tuple of columns.

    stream: that of the call; None for the one on which the columns' library works.
    """
    ordinal = _ordinal(given)
    with _cuda.current(ordinal):
        part = _together(given, stream)

    def give(distinct: Any) -> tuple[Any, ...]:
        with _cuda.current(ordinal):
            return tuple(column.give(array) for column, array in zip(given, part.back(distinct), strict=True))

    dtype = _SHORT if part.numbers.dtype == _device_groups.own_dtype(part.numbers, _SHORT) else LONG
    return _part_of(KeyColumn(part.numbers, dtype, (0,), give, ordinal), part.numbers)


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
