"""Columns of text, and keys of an index, as they are in a file: from Arrow's C structs, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from pygpuhash.columns import View, _buffers
from pygpuhash.columns._buffers import describe
from pygpuhash.errors import Unsupported
from pygpuhash.saved.chunk import Array, Chunk, Cursor, check_utf8, packed
from pygpuhash.saved.flatbuffers import Malformed
from pygpuhash.saved.types import Type, width

__all__ = ["Column", "add", "schema_of", "take", "type_of"]

_TEXTS = {"u": "U", "z": "Z"}  # 64-bit offsets for all
_REFUSED = ("n", "w:0")


class Column:
    """A column that was read, for everything that takes Arrow's capsules; one consumer takes it over."""

    def __init__(self, schema: object, array: object) -> None:
        self._pair = schema, array

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        return self._pair


class _Schema:
    """A type, for everything that takes Arrow's capsule of one."""

    def __init__(self, capsule: object) -> None:
        self._capsule = capsule

    def __arrow_c_schema__(self) -> object:
        return self._capsule


def type_of(schema: object, name: str) -> Type:
    """The type of a column by its capsule. Raises Unsupported for one that no file has."""
    return _type(describe(schema), name)


def _type(described: tuple[str, str, tuple[Any, ...], Any], name: str) -> Type:
    format, _, children, _ = described
    if format in _REFUSED:
        kind = "nulls alone" if format == "n" else "elements of no bytes"
        raise Unsupported(f"column {name!r} of the keys has {kind}, a type that no saved file has: nothing was saved")
    return Type(_TEXTS.get(format, format), name, tuple(_type(child, child[1]) for child in children), True)


def schema_of(type: Type) -> object:
    """An object with the capsule of a type."""
    return _Schema(_capsule(type))


def _capsule(type: Type) -> object:
    children = [_capsule(child) for child in type.children]
    return _buffers.schema(type.format, children=children, names=[child.name for child in type.children])


def add(chunk: Chunk, view: View, type: Type) -> None:
    """Append a column. Raises Malformed for text that is not UTF-8."""
    nulls = view.nulls()
    if type.format in "UZ":
        offsets, data = view.text()
        if type.format == "U":
            check_utf8(data, offsets, type.name)
        chunk.add(view.length, offsets, data, nulls=nulls)
    elif type.format == "+s":
        chunk.add(view.length, nulls=nulls)
        for i, child in enumerate(type.children):
            add(chunk, view.child(i), child)
    elif type.format == "b":
        chunk.add(view.length, packed(view.values(bool)), nulls=nulls)
    else:
        chunk.add(view.length, view.values(f"V{width(type.format)}"), nulls=nulls)


def take(cursor: Cursor, type: Type, length: int) -> Column:
    """The inverse of `add`."""
    return Column(_capsule(type), _array(cursor, type, length))


def _array(cursor: Cursor, type: Type, length: int) -> object:
    if type.format[:2] == "+w" or type.format in _REFUSED:
        raise Malformed(f"column {type.name!r} has a type that is no type of keys")
    nulls, buffers = cursor.take(type, length)
    validity: Array | None = None if nulls is None else packed(~nulls)
    children = [_array(cursor, child, length) for child in type.children]
    return _buffers.array(length, (validity, *map(_aligned, buffers)), children=children)


def _aligned(buffer: Array) -> Array:
    """Bytes at an address that every number may have; a buffer without any is some memory, too."""
    return buffer if buffer.size and buffer.ctypes.data % 16 == 0 else _copied(buffer)


def _copied(buffer: Array) -> Array:
    room = np.zeros(buffer.size + 32, np.uint8)
    start = -room.ctypes.data % 16
    room[start : start + buffer.size] = buffer
    return room[start : start + max(buffer.size, 1)]
