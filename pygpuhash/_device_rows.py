"""Several columns on a GPU as one column of keys: a key stands for what all columns have in a row.

Equal rows have equal keys, and other rows have other ones, so that every verb and every table takes them. Two columns
of 4 bytes become the halves of a key. All others become numbers of as few bits as they need, which lie side by side in
the key: the distance of an element from the least one of its column, or, where that would take more than the 64 bits
of a key, the code of the element among the distinct ones of its column.

The columns are CuPy's or PyTorch's, which are asked for arithmetic on whole columns.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pygpuhash import _arrays, _core, _cuda, _device_groups, _table_verbs, _tensors
from pygpuhash._table_verbs import KeyColumn
from pygpuhash.errors import Unsupported

__all__ = ["as_keys", "both_as_keys", "columns"]

_LIBRARIES = ("cupy", "torch")
_SHORT, _LONG = np.dtype(np.int32), np.dtype(np.int64)
_KEY_BITS = 64


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
        part = _packed(given, stream)
        small = part.bits < 8 * _SHORT.itemsize
        dtype = _SHORT if small else _LONG
        keys = _cast(part.numbers, dtype)

    def give(distinct: Any) -> tuple[Any, ...]:
        with _cuda.current(ordinal):
            arrays = part.back(_cast(distinct, _LONG))
            return tuple(column.give(_viewed(array, column.dtype)) for column, array in zip(given, arrays, strict=True))

    return _part_of(KeyColumn(keys, dtype, (len(keys),), give, ordinal), keys)


def both_as_keys(given: Sequence[KeyColumn], others: Sequence[KeyColumn], stream: Any) -> tuple[KeyColumn, KeyColumn]:
    """The rows of two tuples of columns, of the same dtypes: keys of equal rows are equal."""
    n = given[0].size
    with _cuda.current(_ordinal(given)):
        arrays = [_joined(a.array, b.array) for a, b in zip(given, others, strict=True)]
    together = [KeyColumn(a, c.dtype, (len(a),), c.give, c.ordinal) for a, c in zip(arrays, given, strict=True)]
    column = as_keys(together, stream)
    return _part_of(column, column.array[:n]), _part_of(column, column.array[n:])


def _ordinal(given: Sequence[KeyColumn]) -> int:
    assert given[0].ordinal is not None
    return given[0].ordinal


def _part_of(column: KeyColumn, keys: Any) -> KeyColumn:
    plain = _core.ready(keys)
    return replace(column, array=keys, shape=(len(keys),), ready=None if plain is None else (plain[0], plain[4]))


# ---- rows to numbers, and back ---------------------------------------------------------------------------------------


@dataclass
class _Part:
    """Numbers that stand for the elements of one column, or for the rows of several: int64 of so many bits."""

    numbers: Any
    bits: int
    back: Callable[[Any], list[Any]]  # from numbers to the bits of elements, as signed integers of their size
    coded: bool = False


def _packed(given: Sequence[KeyColumn], stream: Any) -> _Part:
    if len(given) == 2 and all(column.dtype.itemsize == _SHORT.itemsize for column in given):
        return _halves(given)
    _table_verbs.refuse_capture(given[0].array, _ordinal(given), stream)  # numbers come to the host
    parts = [_distances(column) for column in given]
    while sum(part.bits for part in parts) > _KEY_BITS:
        plain = [i for i, part in enumerate(parts) if not part.coded]
        if plain:
            widest = max(plain, key=lambda i: parts[i].bits)
            parts[widest] = _codes(parts[widest], _ordinal(given), stream)
        else:
            parts[:2] = [_codes(_side_by_side(parts[:2]), _ordinal(given), stream)]
    return _side_by_side(parts)


def _halves(given: Sequence[KeyColumn]) -> _Part:
    numbers = _device_groups.maker(given[0].array, _ordinal(given))((given[0].size,), _LONG)
    halves = _viewed(numbers, _SHORT).reshape((-1, 2))
    for i, column in enumerate(given):
        halves[:, i] = _viewed(column.array, _SHORT)

    def back(numbers: Any) -> list[Any]:
        halves = _viewed(numbers, _SHORT).reshape((-1, 2))
        return [_copy(halves[:, i]) for i in range(2)]

    return _Part(numbers, _KEY_BITS, back)


def _distances(column: KeyColumn) -> _Part:
    """Of each element, as an integer, from the least one."""
    own = _SHORT if column.dtype.itemsize == _SHORT.itemsize else _LONG
    integers = _viewed(column.array, own)
    low, high = (int(integers.min()), int(integers.max())) if column.size else (0, 0)
    numbers = _cast(integers, _LONG) - low  # modulo 2^64
    return _Part(numbers, (high - low).bit_length(), lambda numbers: [_cast(numbers + low, own)])


def _codes(part: _Part, ordinal: int, stream: Any) -> _Part:
    """Of each number among the distinct ones."""
    column = _part_of(KeyColumn(part.numbers, _LONG, (0,), lambda keys: keys, ordinal), part.numbers)
    codes, distinct = _table_verbs.factorize(column, "any", {} if stream is None else {"stream": stream})
    return _Part(codes, max(len(distinct) - 1, 0).bit_length(), lambda codes: part.back(distinct[codes]), coded=True)


def _side_by_side(parts: Sequence[_Part]) -> _Part:
    """All of at most 64 bits together; the last part in the lowest bits."""
    numbers, bits = parts[0].numbers, parts[0].bits
    for part in parts[1:]:
        numbers = numbers << part.bits | part.numbers if bits else part.numbers
        bits += part.bits

    def back(numbers: Any) -> list[Any]:
        found: list[Any] = []
        for part in reversed(parts):
            if part.bits < _KEY_BITS:
                found[:0] = part.back(numbers & (1 << part.bits) - 1)
                numbers = numbers >> part.bits
            else:
                found[:0] = part.back(numbers)
                numbers = numbers * 0
        return found

    return _Part(numbers, bits, back)


# ---- CuPy and PyTorch ------------------------------------------------------------------------------------------------


def _viewed(array: Any, dtype: np.dtype[Any]) -> Any:
    """The same bits."""
    return array.view(_device_groups.own_dtype(array, dtype))


def _cast(array: Any, dtype: np.dtype[Any]) -> Any:
    """The same integers."""
    if hasattr(array, "astype"):
        return array.astype(dtype, copy=False)
    return array.to(_device_groups.own_dtype(array, dtype))


def _copy(array: Any) -> Any:
    return array.copy() if hasattr(array, "copy") else array.contiguous()


def _joined(a: Any, b: Any) -> Any:
    return sys.modules[_tensors.library_of(a) or ""].concatenate((a, b))
