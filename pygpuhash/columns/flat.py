"""Columns of pandas, polars and Arrow as one array of numpy, which is what tables take.

Elements are numbers, bool and times; text and bytes are an array of objects. A missing element has no place in an array
of numbers: the column is refused, with the first place where one is. NaN and NaT that pandas has in numpy's memory are
elements.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pygpuhash.columns import _buffers, arrow, frames
from pygpuhash.columns._buffers import View
from pygpuhash.columns.column import Array, Column

__all__ = ["columns_of", "dtype_of", "is_foreign", "missing", "of_column", "plain_numbers", "read"]

_NUMBERS = dict(zip("cCsSiIlLefg", ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"), strict=True))
_NUMBERS |= {"b": "?", "tdD": "M8[D]", "tdm": "M8[ms]"}
_OF_POLARS = frozenset(("Int8", "UInt8", "Int16", "UInt16", "Int32", "UInt32", "Int64", "UInt64", "Float32", "Float64"))
_TIMES = re.compile(r"t([sD])([smun])(:?)(.*)")
_UNITS = {"s": "s", "m": "ms", "u": "us", "n": "ns"}


def is_foreign(given: Any) -> bool:
    """Is this a column or a frame of pandas or polars, or has it Arrow's capsules?"""
    arrows = hasattr(given, "__arrow_c_array__") or hasattr(given, "__arrow_c_stream__")
    return arrows or frames.library(given) is not None


def plain_numbers(given: Any) -> Array | None:
    """The elements of a Series that is nothing but numbers of numpy's dtypes, as `read` gives them; None of others."""
    library = frames.library(given)
    if library == "pandas" and type(given) is sys.modules["pandas"].Series:
        dtype = given.dtype
        return np.asarray(given.values) if isinstance(dtype, np.dtype) and dtype.kind in "biuf" else None
    if library == "polars" and type(given) is sys.modules["polars"].Series:
        found: Array | None = given.to_numpy() if str(given.dtype) in _OF_POLARS and not given.null_count() else None
        return found
    return None


def columns_of(given: Any) -> list[tuple[Any, Any]] | None:
    """(name, column) of each column of a frame, or of a column of structs or of arrays of polars; None for others."""
    library = type(given).__module__.partition(".")[0]
    if library == "polars":
        return _columns_of_polars(sys.modules["polars"], given)
    if frames.library(given) == "pandas":
        pd = sys.modules["pandas"]
        if isinstance(given, pd.DataFrame):
            return [(label, given.iloc[:, i]) for i, label in enumerate(given.columns)]
        if isinstance(given, pd.MultiIndex):
            return [(name, given.get_level_values(i)) for i, name in enumerate(given.names)]
        return None
    if library != "pyarrow":
        return None
    pa = sys.modules["pyarrow"]
    if isinstance(given, (pa.Table, pa.RecordBatch)):
        return list(zip(given.schema.names, given.columns, strict=True))
    if isinstance(given, (pa.Array, pa.ChunkedArray)) and pa.types.is_struct(given.type):
        return list(zip((field.name for field in given.type), given.flatten(), strict=True))
    return None


def _columns_of_polars(pl: Any, given: Any) -> list[tuple[Any, Any]] | None:
    if isinstance(given, pl.Series) and isinstance(given.dtype, pl.Array):
        given = given.arr.to_struct()
    if isinstance(given, pl.Series) and isinstance(given.dtype, pl.Struct):
        given = given.struct.unnest()
    return [(part.name, part) for part in given.get_columns()] if isinstance(given, pl.DataFrame) else None


def read(given: Any, what: str, way_out: str) -> Array:
    """The elements of a column that `is_foreign` and is no frame.

    way_out : what to do about missing elements, for the message.

    Raises TypeError for missing elements, times with a zone, and elements that no dtype of numpy has.
    """
    library = frames.library(given)
    if library == "pandas":
        dtype = getattr(given, "dtype", None)
        if isinstance(dtype, np.dtype) or type(dtype).__name__ == "SparseDtype":
            return np.asarray(given)
        pd = sys.modules["pandas"]
        if isinstance(dtype, pd.CategoricalDtype):
            return _categories(pd, given, what, way_out)
        if isinstance(dtype, pd.ArrowDtype):
            return read(getattr(given, "array", given).__arrow_array__(), what, way_out)
    given = _decoded(given)
    column = frames.read(given, library, what) if library else arrow.read_capsules(given, what)
    return of_column(column, what, way_out)


def _categories(pd: Any, given: Any, what: str, way_out: str) -> Array:
    """The values of a categorical, each by its code."""
    codes = np.asarray((given.array if isinstance(given, (pd.Series, pd.Index)) else given).codes)
    absent = codes < 0
    if absent.any():
        raise missing(what, absent, way_out)
    return read(given.dtype.categories, what, way_out)[codes] if codes.size else np.empty(0)


def _decoded(given: Any) -> Any:
    """Dictionaries of pyarrow and polars as their values."""
    pa, pl = sys.modules.get("pyarrow"), sys.modules.get("polars")
    if pl is not None and isinstance(given, pl.Series) and isinstance(given.dtype, (pl.Categorical, pl.Enum)):
        return given.cast(pl.String)
    if pa is not None and isinstance(given, (pa.Array, pa.ChunkedArray)) and pa.types.is_dictionary(given.type):
        return given.cast(given.type.value_type)
    return given


class _Chunk:
    """A chunk of a column, for a View."""

    def __init__(self, schema: object, chunk: object) -> None:
        self.pair = schema, _buffers.sliced(chunk, 0, _buffers.length(chunk))

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        return self.pair


def of_column(column: Column, what: str, way_out: str) -> Array:
    """The elements of a column that has one number, time, text or bytes each; as `read`."""
    format, _, _, dictionary = _buffers.describe(column.schema)
    if format == "+s":
        raise TypeError(f"{what} is a column of structs, and an element of the table is none: pass one of its fields")
    if not column.length:
        return np.empty(0)
    if column.numbers is not None:
        return column.numbers
    if dictionary is not None:
        raise TypeError(f"{what} is a dictionary of Arrow: decode it, or pass a column of its values")
    elements = None if format == "n" else _reader(format, what)
    views = [View(_Chunk(column.schema, chunk)) for chunk in column.chunks]
    masks = [view.nulls() for view in views]
    if any(mask is not None for mask in masks):
        whole = [np.zeros(v.length, bool) if m is None else m for v, m in zip(views, masks, strict=True)]
        raise missing(what, np.concatenate(whole), way_out)
    assert elements is not None
    arrays = [elements(view) for view in views]
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _reader(format: str, what: str) -> Callable[[View], Array]:
    """How elements of a type of Arrow are read."""
    dtype = _dtype(format, what)
    if format == "tdD":
        return lambda view: view.values("i4").astype("i8").view("M8[D]")
    if dtype is not None:
        return lambda view: view.values(dtype)
    if format[0] in "uUzZvw":
        return lambda view: _objects(view.objects())
    sort = {"d": "decimals", "t": "times of the day"}[format[0]]
    raise TypeError(f"{what} is a column of {sort}, which no dtype of a table has: pass its numbers, as integers")


def _dtype(format: str, what: str) -> str | None:
    """numpy's name of a type of Arrow that is a number or a time."""
    times = _TIMES.fullmatch(format)
    if times is None:
        return _NUMBERS.get(format)
    if times[4]:
        raise TypeError(f"{what} has a time zone, a datetime64 has none: convert it to UTC and drop the zone")
    return f"{'M' if times[1] == 's' else 'm'}8[{_UNITS[times[2]]}]"


def dtype_of(given: Any, what: str) -> Any:
    """numpy's dtype of a type of pandas, polars or Arrow; anything else as it is."""
    module = (given if isinstance(given, type) else type(given)).__module__.partition(".")[0]
    if module == "pandas":
        given = given() if isinstance(given, type) else given
        if isinstance(given, sys.modules["pandas"].StringDtype):
            return "U"
        given = getattr(given, "pyarrow_dtype", getattr(given, "numpy_dtype", given))
        if getattr(given, "tz", None) is not None and not hasattr(given, "__arrow_c_schema__"):
            raise TypeError(f"{what} has a time zone, a datetime64 has none: pass 'datetime64[{given.unit}]'")
    if module == "polars" and given != sys.modules["polars"].Object:
        schema, _ = _buffers.read_stream(sys.modules["polars"].Series([], dtype=given).__arrow_c_stream__(), what)
    elif hasattr(given, "__arrow_c_schema__"):
        schema = given.__arrow_c_schema__()
    else:
        return given
    format, _, _, dictionary = _buffers.describe(schema)
    dtype = None if dictionary is not None else _dtype(format, what)
    if format[:2] == "w:":
        dtype = f"S{format[2:]}"
    if dtype is None and format[0] in "uUzZv":
        dtype = "U" if "u" in format.lower() else "S"
    if dtype is None:
        raise TypeError(f"{what}={given!r} is a type that tables do not have: pass that of numbers or times")
    return dtype


def _objects(values: Sequence[Any]) -> Array:
    array = np.empty(len(values), object)
    array[:] = values
    return array


def missing(what: str, where: Array, way_out: str) -> TypeError:
    """An error about missing elements: those where an array of bool is True."""
    return TypeError(
        f"{what} has missing elements ({int(where.sum())}, the first at {int(where.argmax())}), and a table has none: "
        f"{way_out}"
    )
