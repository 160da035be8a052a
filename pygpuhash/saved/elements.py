"""Keys and values of tables of numbers as columns of Arrow, and their dtypes in the record."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from pygpuhash._records import base_and_shape
from pygpuhash.columns.numpy_arrays import FORMATS
from pygpuhash.saved.chunk import Array, Chunk, Cursor, packed, unpacked
from pygpuhash.saved.flatbuffers import Malformed
from pygpuhash.saved.types import Type

__all__ = ["add", "described", "read_dtype", "take", "type_of"]

_LETTERS = {np.dtype(code): letter for code, letter in FORMATS.items()}
_UNITS = {"s": "s", "ms": "m", "us": "u", "ns": "n"}
_NAME = re.compile(r"<[iuf][248]|[|]([iu]1|b1)|<c(8|16)|[|][SV]\d{1,9}|<U\d{1,9}|<[mM]8\[\d{0,9}[a-zA-Z]{1,2}\]")
_DEEPEST = 12


def type_of(dtype: np.dtype[Any], name: str) -> Type:
    """The column of elements of a dtype: lists of fixed size for rows, structs for fields."""
    base, shape = base_and_shape(dtype)
    if shape:
        return Type(f"+w:{math.prod(shape)}", name, (type_of(base, "item"),))
    if base.names is not None:
        return Type("+s", name, tuple(type_of(base[field], field) for field in base.names))
    if base.kind == "c":
        return Type("+w:2", name, (type_of(np.dtype(f"f{base.itemsize // 2}"), "item"),))
    if base.kind in "SUV":
        return Type(f"w:{base.itemsize}", name)
    if base.kind in "mM":
        unit, step = np.datetime_data(base)
        letter = _UNITS.get(unit) if step == 1 else None  # of the others Arrow has no type
        return Type("l" if letter is None else f"ts{letter}:" if base.kind == "M" else f"tD{letter}", name)
    return Type("b" if base.kind == "b" else _LETTERS[base], name)


def add(chunk: Chunk, array: Array, dtype: np.dtype[Any]) -> None:
    """Append the columns of elements: an array of shape (n, ...) as a table gives it."""
    base, shape = base_and_shape(dtype)
    length = len(array)
    if shape:
        chunk.add(length)
        add(chunk, array.reshape(length * math.prod(shape)), base)
    elif base.names is not None:
        chunk.add(length)
        for name in base.names:
            add(chunk, np.ascontiguousarray(array[name]), base[name])
    elif base.kind == "c":
        chunk.add(length)
        add(chunk, np.ascontiguousarray(array).view(f"f{base.itemsize // 2}"), np.dtype(f"f{base.itemsize // 2}"))
    else:
        chunk.add(length, packed(array) if base.kind == "b" else array)


def take(cursor: Cursor, type: Type, dtype: np.dtype[Any], length: int) -> Array:
    """The inverse of `add`, of a type that is `type_of(dtype)`."""
    base, shape = base_and_shape(dtype)
    nulls, buffers = cursor.take(type, length)
    if nulls is not None:
        raise Malformed(f"column {type.name!r} has nulls")
    if shape:
        return take(cursor, type.children[0], base, length * math.prod(shape)).reshape(length, *shape)
    if base.names is not None:
        array = np.empty(length, base)
        for name, child in zip(base.names, type.children, strict=True):
            array[name] = take(cursor, child, base[name], length)
        return array
    if base.kind == "c":
        return take(cursor, type.children[0], np.dtype(f"f{base.itemsize // 2}"), 2 * length).view(base)
    if base.kind == "b":
        return unpacked(buffers[0], length)
    return buffers[0].view(base)


# ---- dtypes in the record --------------------------------------------------------------------------------------------


def described(dtype: np.dtype[Any] | None) -> Any:
    """A dtype for JSON: its name, {"of": dtype, "shape": [...]}, or {"fields": [[name, dtype], ...]}."""
    if dtype is None:
        return None
    base, shape = base_and_shape(dtype)
    if shape:
        return {"of": described(base), "shape": list(shape)}
    if base.names is not None:
        return {"fields": [[name, described(base[name])] for name in base.names]}
    return base.str


def read_dtype(given: Any, depth: int = 0) -> np.dtype[Any]:
    """The dtype that `described` wrote. Raises Malformed."""
    try:
        if isinstance(given, str) and _NAME.fullmatch(given):
            return np.dtype(given)
        if isinstance(given, dict) and depth < _DEEPEST:
            if set(given) == {"of", "shape"} and all(type(n) is int and 0 < n < 2**31 for n in given["shape"]):
                return np.dtype((read_dtype(given["of"], depth + 1), tuple(given["shape"])))
            if set(given) == {"fields"} and all(isinstance(name, str) for name, _ in given["fields"]):
                return np.dtype([(name, read_dtype(field, depth + 1)) for name, field in given["fields"]])
    except (TypeError, ValueError, OverflowError) as error:
        raise Malformed(f"its record has a dtype that numpy does not have: {str(error)[:80]}") from None
    raise Malformed(f"its record has the dtype {str(given)[:80]}")
