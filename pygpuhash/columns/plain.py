"""Keys of any type as numpy's arrays, and types without a column.

`in_numpy` is the way back where no library gave the column, or where its own way back does not hold all keys.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from pygpuhash import _tensors
from pygpuhash.columns import _buffers
from pygpuhash.columns._buffers import View, describe
from pygpuhash.columns.column import Column, Give
from pygpuhash.columns.lists import decimal_of, object_array, text_array
from pygpuhash.columns.numpy_arrays import FORMATS
from pygpuhash.columns.reading import read

__all__ = ["given_back", "in_numpy", "same_type", "schema_of"]

_DTYPES = {format: np.dtype(code) for code, format in FORMATS.items()} | {"b": np.dtype(bool)}
_OF_PYTHON: dict[Any, str] = {str: "U", bytes: "Z", bool: "b", int: "l", float: "g"}
_UNITS = {"D": "D", "s": "s", "m": "ms", "u": "us", "n": "ns"}
_ONE_LAYOUT = {"u": "U", "vu": "U", "z": "Z", "vz": "Z"}


def in_numpy(view: View) -> Any:
    """Keys as an array, masked where numbers are null, of objects where others are; of structs, a tuple of arrays.

    Instants are datetime64 in UTC, times of day timedelta64 since midnight.
    """
    format, nulls = view.format, view.nulls()
    if format == "+s":
        return tuple(in_numpy(view.child(i)) for i in range(view.columns))
    if format == "n":
        return object_array([None] * view.length)
    if format[0] in "uUzZvw":
        return text_array(view)
    if format[0] == "d":
        scale = int(format[2:].split(",")[1])
        width = {"32": 4, "64": 8}.get(format.partition(",")[2].partition(",")[2], 16)
        values = [decimal_of(cell, scale) for cell in view.values(f"V{width}").tolist()]
        return object_array(
            values if nulls is None else [None if no else x for x, no in zip(values, nulls, strict=True)]
        )
    if format[0] == "t":
        kind = "M" if format[1] in "ds" else "m"
        days = view.values("i4" if format in ("tdD", "tts", "ttm") else "i8").astype("i8")
        times = days.view(f"{kind}8[{_UNITS[format[2]]}]")
        if nulls is not None:
            times[nulls] = "NaT"
        return times
    numbers = view.values(_DTYPES[format])
    return numbers if nulls is None else np.ma.MaskedArray(numbers, mask=nulls)


def schema_of(given: Any) -> object | None:
    """The schema of a type: `str`, `int`, a dtype or its name, a type of Arrow, polars or pandas; None for a column."""
    library = _tensors.library_of(given) if not isinstance(given, type) else given.__module__.partition(".")[0]
    if library == "polars" and not hasattr(given, "__len__") and not hasattr(given, "collect"):
        return read(sys.modules["polars"].Series([], dtype=given), "the type").schema
    extension = sys.modules["pandas"].api.extensions.ExtensionDtype if library == "pandas" else ()
    if isinstance(given, type) and extension and issubclass(given, extension):
        given = given()  # as pandas takes it
    if isinstance(given, extension):
        return read(sys.modules["pandas"].Series([], dtype=given), "the type").schema
    if hasattr(given, "__arrow_c_schema__") and not isinstance(given, type):
        held = hasattr(given, "__arrow_c_array__") or hasattr(given, "__arrow_c_stream__")
        schema: object = None if held else given.__arrow_c_schema__()
        return schema
    if isinstance(given, type) and given in _OF_PYTHON:
        return _buffers.schema(_OF_PYTHON[given])
    if isinstance(given, (type, np.dtype, str)) or (type(given).__module__ == "torch" and not hasattr(given, "shape")):
        dtype = np.dtype(_tensors.dtype_name(given))
        if dtype.kind == "O":
            raise TypeError(f"{given!r} is no type of keys: pass a dtype, str, bytes, or a type of Arrow")
        return read(np.empty(0, dtype), "the type").schema
    return None


def given_back(give: Give, view: View, held: Callable[[Column], bool]) -> Any | None:
    """Keys by a library's way back; None where that library, type or dtype does not hold them all.

    held : of the keys that came back, read again: are they all the same?
    """
    try:
        given = give(view)
        return given if held(read(given, "keys")) else None
    except (TypeError, ValueError, OverflowError):  # text beyond a width, a null, a number beyond a dtype
        return None
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in ("polars", "pyarrow", "pandas"):  # which have their own
            raise
        return None


def same_type(one: object, other: object) -> bool:
    """Do two schemas have cells of one kind, whatever their layout, their dictionaries and the names of fields?"""
    return _cells(describe(one)) == _cells(describe(other))


def _cells(described: tuple[str, str, tuple[Any, ...], Any]) -> tuple[Any, ...]:
    format, _, children, dictionary = described
    if dictionary is not None:
        return _cells(dictionary)
    return (_ONE_LAYOUT.get(format, format), *map(_cells, children))
