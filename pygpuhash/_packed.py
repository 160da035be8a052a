"""Rows of several columns as single integers: equal rows have equal ones, and other rows have other ones.

Each column becomes a `Part`, numbers of as few bits as it needs: the distance of an element from the least one of its
column, or its code among the distinct elements. The integer of a row has the bits of all parts side by side. Where
these are more than 64, the widest parts become codes, and then rows of codes do.

Arrays are numpy's, CuPy's or PyTorch's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pygpuhash import _device_groups

__all__ = ["BITS", "LONG", "Part", "cast", "codes", "distances", "pack", "side_by_side", "viewed"]

LONG = np.dtype(np.int64)
BITS = 64  # of a row's integer, at most
_SHORT_BITS = 31  # that an int32 has for numbers from 0 on
_OF_SIZE = {size: np.dtype(f"i{size}") for size in (1, 2, 4, 8)}

Number = Callable[[Any], tuple[Any, Any]]  # int64 numbers -> (the code of each, the distinct ones)


@dataclass
class Part:
    """Numbers from 0 on that stand for the elements of one column, or for the rows of several.

    numbers : integers of so many bits; those of less than 32 may be of 4 bytes, all others are int64.
    back : from such numbers to columns: a list with what they stand for.
    """

    numbers: Any
    bits: int
    back: Callable[[Any], list[Any]]
    coded: bool = False


def distances(array: Any, dtype: np.dtype[Any]) -> Part:
    """The distance of each element of so many bytes, read as a signed integer, from the least one."""
    own = _OF_SIZE[dtype.itemsize]
    integers = viewed(array, own)
    low, high = (int(integers.min()), int(integers.max())) if len(integers) else (0, 0)
    numbers = cast(integers, LONG) - low  # modulo 2^64
    return Part(numbers, (high - low).bit_length(), lambda numbers: [viewed(cast(numbers + low, own), dtype)])


def codes(numbers: Any, distinct: int, back: Callable[[Any], Any]) -> Part:
    """Codes, 0 to distinct - 1, of a column's elements."""
    return Part(numbers, max(distinct - 1, 0).bit_length(), lambda numbers: [back(numbers)], coded=True)


def pack(parts: Sequence[Part], number: Number) -> Part:
    """All columns as one part; of less than 32 bits as int32."""
    parts = list(parts)
    while sum(part.bits for part in parts) > BITS:
        plain = [i for i, part in enumerate(parts) if not part.coded]
        if plain:
            widest = max(plain, key=lambda i: parts[i].bits)
            parts[widest] = _coded(parts[widest], number)
        else:
            parts[:2] = [_coded(_joined(parts[:2]), number)]
    return side_by_side(parts)


def side_by_side(parts: Sequence[Part]) -> Part:
    """Columns of at most 64 bits together as one part; of less than 32 bits as int32."""
    part = _joined(parts)
    if part.bits > _SHORT_BITS:
        return replace(part, numbers=cast(part.numbers, LONG))
    return Part(cast(part.numbers, _OF_SIZE[4]), part.bits, lambda numbers: part.back(cast(numbers, LONG)))


def _coded(part: Part, number: Number) -> Part:
    numbers, distinct = number(part.numbers)
    bits = max(len(distinct) - 1, 0).bit_length()
    return Part(numbers, bits, lambda numbers: part.back(distinct[numbers]), coded=True)


def _joined(parts: Sequence[Part]) -> Part:
    """The last part in the lowest bits."""
    numbers, bits = parts[0].numbers, parts[0].bits
    for part in parts[1:]:
        numbers = cast(numbers, LONG) << part.bits | part.numbers if bits else part.numbers
        bits += part.bits

    def back(numbers: Any) -> list[Any]:
        found: list[Any] = []
        for part in reversed(parts):
            if part.bits < BITS:
                found[:0] = part.back(numbers & (1 << part.bits) - 1)
                numbers = numbers >> part.bits
            else:  # all others have none
                found[:0] = part.back(numbers)
                numbers = numbers * 0
        return found

    return Part(numbers, bits, back)


def viewed(array: Any, dtype: np.dtype[Any]) -> Any:
    """The same bits."""
    return array.view(_device_groups.own_dtype(array, dtype))


def cast(array: Any, dtype: np.dtype[Any]) -> Any:
    """The same integers."""
    if hasattr(array, "astype"):
        return array.astype(dtype, copy=False)
    return array.to(_device_groups.own_dtype(array, dtype))
