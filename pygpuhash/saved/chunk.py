"""Rows of a file on their way: the buffers of all columns, as a record batch of Arrow has them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pygpuhash.saved.flatbuffers import Malformed
from pygpuhash.saved.types import Type, buffers_of, width

__all__ = ["Array", "Chunk", "Cursor", "packed"]

Array = np.ndarray[Any, Any]
_NOTHING = np.empty(0, np.uint8)


@dataclass
class Chunk:
    """Rows of some columns; nodes are (length, nulls), in the order of `types.layout`, buffers bytes of numpy."""

    rows: int
    nodes: list[tuple[int, int]] = field(default_factory=list)
    buffers: list[Array] = field(default_factory=list)

    def add(self, length: int, *buffers: Array, nulls: Array | None = None) -> None:
        """The next column by itself. nulls: a bool array, or None where no element is null."""
        self.nodes.append((length, 0 if nulls is None else int(np.count_nonzero(nulls))))
        self.buffers.append(_NOTHING if nulls is None else packed(~nulls))
        self.buffers.extend(_bytes(buffer) for buffer in buffers)


class Cursor:
    """A chunk that is read, column by column; what does not fit together is Malformed."""

    def __init__(self, chunk: Chunk) -> None:
        self._nodes, self._buffers = iter(chunk.nodes), iter(chunk.buffers)

    def take(self, type: Type, length: int) -> tuple[Array | None, list[Array]]:
        """(nulls or None, buffers) of the next column, of this type and length. Texts are checked."""
        there, count = next(self._nodes)
        if there != length:
            raise Malformed(f"column {type.name!r} has {there} elements instead of {length}")
        validity, *buffers = (next(self._buffers) for _ in range(buffers_of(type)))
        nulls = None
        if count or validity.size:
            nulls = ~_bits(validity, length, type.name)
            if not type.nullable or count != np.count_nonzero(nulls):
                raise Malformed(f"column {type.name!r} says that it has {count} nulls")
        if type.format == "b":
            _expect(buffers[0], (length + 7) // 8, type.name)
        elif len(buffers) == 1:
            _expect(buffers[0], length * width(type.format), type.name)
        elif buffers:
            _check_text(type, buffers[0], buffers[1], length)
        return nulls, buffers


def packed(flags: Array) -> Array:
    """Arrow's bitmap of a bool array."""
    return np.packbits(flags, bitorder="little")


def unpacked(bitmap: Array, length: int) -> Array:
    """The bool array of a bitmap."""
    return np.unpackbits(bitmap, count=length, bitorder="little").view(bool)


def _bits(bitmap: Array, length: int, name: str) -> Array:
    _expect(bitmap, (length + 7) // 8, name)
    return unpacked(bitmap, length)


def _bytes(array: Array) -> Array:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8) if array.size else _NOTHING


def _expect(buffer: Array, size: int, name: str) -> None:
    if buffer.size != size:
        raise Malformed(f"column {name!r} has {buffer.size} bytes instead of {size}")


def _check_text(type: Type, offsets: Array, data: Array, length: int) -> None:
    step = 8 if type.format in "UZ" else 4
    _expect(offsets, (length + 1) * step, type.name)
    ends = offsets.view(f"i{step}")
    if ends[0] != 0 or ends[-1] != data.size or (ends[1:] < ends[:-1]).any():
        raise Malformed(f"column {type.name!r} has offsets that do not ascend from 0 to its {data.size} bytes")
    if type.format in "uU":
        check_utf8(data, ends, type.name)


def check_utf8(data: Array, ends: Array, name: str) -> None:
    """Refuse texts that are not UTF-8, each by itself."""
    if not (data >= 0x80).any():
        return
    inner = ends[(ends > 0) & (ends < data.size)]
    if ((data[inner] & 0xC0) == 0x80).any():
        raise Malformed(f"column {name!r} has a text that begins in the middle of a character")
    first, step = 0, 1 << 20
    while first < data.size:
        end = min(first + step, data.size)
        while end < data.size and end > first and (data[end] & 0xC0) == 0x80:
            end -= 1
        try:
            bytes(data[first : max(end, first + 1)]).decode()
        except UnicodeDecodeError as error:
            raise Malformed(f"column {name!r} has text that is not UTF-8, at byte {first + error.start}") from None
        first = max(end, first + 1)
