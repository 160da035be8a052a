"""Flatbuffers, the encoding of Arrow's metadata: as much of it as schemas, record batches and footers need.

A table is written as a list of its fields in the order of their ids: None where a field is absent. What a file says is
not trusted: each position is checked before it is read, and `Malformed` says what is wrong.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Malformed", "Number", "Structs", "Table", "built"]

_VTABLE = 4  # bytes of a vtable before its fields: its size, and that of the table
LONGEST = 1 << 20  # bytes of one text


class Malformed(ValueError):
    """Bytes that are no metadata of Arrow."""


# ---- writing ---------------------------------------------------------------------------------------------------------


@dataclass
class Number:
    """A scalar field, of a format of `struct`."""

    format: str
    value: int


@dataclass
class Structs:
    """A vector of structs of 8-byte alignment: their bytes."""

    count: int
    data: bytes


Field = Number | Structs | str | list[Any] | tuple[Any, ...] | None  # a list is a table, a tuple a vector of tables


def built(root: Sequence[Field]) -> bytes:
    """The bytes of a table and everything below it, a multiple of 8."""
    out = bytearray(8)
    struct.pack_into("<I", out, 0, _table(out, root))
    _align(out, 8)
    return bytes(out)


def _align(out: bytearray, unit: int, offset: int = 0) -> None:
    out.extend(bytes((offset - len(out)) % unit))


def _table(out: bytearray, fields: Sequence[Field]) -> int:
    """Append a table; returns where it begins."""
    sizes = [struct.calcsize(field.format) if isinstance(field, Number) else 4 for field in fields]
    places, end = [0] * len(fields), 4
    for i in sorted(range(len(fields)), key=lambda i: -sizes[i]):  # the widest first
        if fields[i] is not None:
            end += -end % sizes[i]
            places[i], end = end, end + sizes[i]
    vtable_size = _VTABLE + 2 * len(fields)
    _align(out, 8, -vtable_size)  # so that the table, behind its vtable, begins at a multiple of 8
    out.extend(struct.pack(f"<HH{len(fields)}H", vtable_size, end, *places))
    at = len(out)
    out.extend(bytes(end))
    struct.pack_into("<i", out, at, vtable_size)
    for place, field in zip(places, fields, strict=True):
        if isinstance(field, Number):
            struct.pack_into("<" + field.format, out, at + place, field.value)
        elif field is not None:
            struct.pack_into("<I", out, at + place, _part(out, field) - (at + place))
    return at


def _part(out: bytearray, field: Any) -> int:
    """Append what a field refers to; returns where it begins."""
    if isinstance(field, list):
        return _table(out, field)
    if isinstance(field, str):
        data = field.encode()
        _align(out, 4)
        out.extend(struct.pack("<I", len(data)) + data + b"\0")
        return len(out) - len(data) - 5
    if isinstance(field, Structs):
        _align(out, 8, 4)
        out.extend(struct.pack("<I", field.count) + field.data)
        return len(out) - len(field.data) - 4
    _align(out, 4)
    at = len(out)
    out.extend(struct.pack("<I", len(field)) + bytes(4 * len(field)))
    for i, table in enumerate(field):
        place = at + 4 + 4 * i
        struct.pack_into("<I", out, place, _table(out, table) - place)
    return at


# ---- reading ---------------------------------------------------------------------------------------------------------


class Table:
    """A table in the bytes of a file."""

    __slots__ = ("_at", "_data", "_places")

    def __init__(self, data: bytes, at: int) -> None:
        self._data, self._at = data, at
        vtable = at - _number(data, "i", at)
        size, whole = _number(data, "H", vtable), _number(data, "H", vtable + 2)
        if size < _VTABLE or size % 2 or at + whole > len(data):
            raise Malformed(f"the table at byte {at} of the metadata has no vtable")
        _check(data, vtable, size)
        self._places = struct.unpack_from(f"<{size // 2 - 2}H", data, vtable + _VTABLE)

    @classmethod
    def root(cls, data: bytes) -> Table:
        """The table that the bytes begin with."""
        return cls(data, _number(data, "I", 0))

    def _place(self, field: int) -> int:
        """Where a field is; 0 if it is absent."""
        place = self._places[field] if field < len(self._places) else 0
        return self._at + place if place else 0

    def _target(self, field: int) -> int:
        at = self._place(field)
        return at and at + _number(self._data, "I", at)

    def number(self, field: int, format: str, default: int = 0) -> int:
        """A scalar."""
        at = self._place(field)
        return _number(self._data, format, at) if at else default

    def text_place(self, field: int) -> tuple[int, int]:
        """(where a text begins, its bytes); (0, 0) if it is absent."""
        at = self._target(field)
        if not at:
            return 0, 0
        size = _number(self._data, "I", at)
        _check(self._data, at + 4, size)
        if size > LONGEST:
            raise Malformed(f"a text of the metadata has {size} bytes, and {LONGEST} are the most")
        return at + 4, size

    def text(self, field: int) -> str:
        """A text, "" if it is absent."""
        at, size = self.text_place(field)
        try:
            return self._data[at : at + size].decode()
        except UnicodeDecodeError:
            raise Malformed("a text of the metadata is not UTF-8") from None

    def table(self, field: int) -> Table | None:
        """A table that a field refers to."""
        at = self._target(field)
        return Table(self._data, at) if at else None

    def count(self, field: int) -> int:
        """How many elements a vector has."""
        at = self._target(field)
        return _number(self._data, "I", at) if at else 0

    def element(self, field: int, i: int) -> Table:
        """Table number i of a vector."""
        place = self._target(field) + 4 + 4 * i
        return Table(self._data, place + _number(self._data, "I", place))

    def structs(self, field: int, format: str) -> list[tuple[int, ...]]:
        """All structs of a vector."""
        count, size = self.count(field), struct.calcsize("<" + format)
        if not count:
            return []
        at = self._target(field) + 4
        _check(self._data, at, count * size)
        return list(struct.iter_unpack("<" + format, self._data[at : at + count * size]))


def _check(data: bytes, at: int, size: int) -> None:
    if at < 0 or at + size > len(data):
        raise Malformed(f"{size} bytes at byte {at} of the metadata are not in its {len(data)} bytes")


def _number(data: bytes, format: str, at: int) -> int:
    _check(data, at, struct.calcsize("<" + format))
    return int(struct.unpack_from("<" + format, data, at)[0])
