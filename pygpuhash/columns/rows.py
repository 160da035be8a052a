"""Rows of columns of any library: some of them by their numbers, and those of several columns one after the other.

No library is imported here: a column of one can only come from a program that has imported it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pygpuhash import _tensors
from pygpuhash.columns import frames, plain
from pygpuhash.columns._buffers import describe
from pygpuhash.columns.column import Array
from pygpuhash.columns.numpy_arrays import FORMATS
from pygpuhash.columns.reading import is_column, read

__all__ = ["concat", "cut", "library", "take"]

_DTYPES = {format: np.dtype(code) for code, format in FORMATS.items()}


def library(given: Any) -> str:
    """ "numpy", "list", "tuple" (of columns), "pandas", "polars", "torch", "jax", "pyarrow": whose column this is."""
    if isinstance(given, np.ndarray):
        return "numpy"
    if isinstance(given, tuple) and given and all(map(is_column, given)):
        return "tuple"
    if isinstance(given, (list, tuple, range)):
        return "list"
    name = frames.library(given) or _tensors.array_library(given) or type(given).__module__.partition(".")[0]
    if name not in ("pandas", "polars", "torch", "jax", "pyarrow"):
        raise TypeError(f"rows of a {type(given).__name__} cannot be taken: pass numpy's, pandas', polars' or Arrow's")
    return name


def take(given: Any, rows: Array) -> Any:
    """The rows of a column, a frame or a tuple of columns by their numbers, in the caller's library."""
    name = library(given)
    if name == "tuple":
        return tuple(take(part, rows) for part in given)
    if name == "list":
        return [given[i] for i in rows.tolist()]
    if name == "pandas":
        return given.iloc[rows] if hasattr(given, "iloc") else given.take(rows)
    if name == "pyarrow":
        return given.take(sys.modules["pyarrow"].array(rows))
    return given[sys.modules["torch"].from_numpy(rows)] if name == "torch" else given[rows]


def cut(given: Any, start: int, stop: int) -> Any:
    """Rows start to stop - 1."""
    name = library(given)
    if name == "tuple":
        return tuple(cut(part, start, stop) for part in given)
    if name == "pandas" and hasattr(given, "iloc"):
        return given.iloc[start:stop]
    return given.slice(start, stop - start) if name in ("polars", "pyarrow") else given[start:stop]


def concat(parts: Sequence[Any], what: str) -> Any:
    """Columns of one library and type, one after the other. Integers of several widths become the widest of them.

    Parts without rows and without a type, as [] is, are left out.

    Raises TypeError for parts of two libraries, and of two types, by name: of a column that is float in one part and
    integer in another, rows would be equal or not by what else is there.
    """
    names = [library(part) for part in parts]
    for i, name in enumerate(names):
        if name != names[0]:
            raise TypeError(f"{what}[{i}] is {name}'s, {what}[0] {names[0]}'s: pass columns of one library")
    if names[0] == "tuple":
        return tuple(concat(fields, f"{what}[:][{i}]") for i, fields in enumerate(zip(*parts, strict=True)))
    if hasattr(parts[0], "columns"):
        return _frames(parts, names[0], what)
    return _columns(parts, names[0], what)


def _frames(parts: Sequence[Any], name: str, what: str) -> Any:
    """Frames of pandas and polars, tables of Arrow, whose columns have the same names in the same order."""
    labels = [list(part.column_names if name == "pyarrow" else part.columns) for part in parts]
    for i, own in enumerate(labels):
        if own != labels[0]:
            raise TypeError(f"{what}[{i}] has the columns {own}, {what}[0] {labels[0]}: pass frames of the same ones")
    each = [
        _columns([_field(part, name, i) for part in parts], name, f"column {label!r} of {what}")
        for i, label in enumerate(labels[0])
    ]
    if name == "pyarrow":
        return sys.modules["pyarrow"].table(each, names=labels[0])
    if name == "polars":
        return sys.modules["polars"].DataFrame(each)
    frame = sys.modules["pandas"].DataFrame(dict(enumerate(each)), copy=False)
    frame.columns = parts[0].columns
    return frame


def _field(frame: Any, name: str, i: int) -> Any:
    if name == "pandas":
        return frame.iloc[:, i].reset_index(drop=True)
    return frame.column(i) if name == "pyarrow" else frame.to_series(i)


def _columns(parts: Sequence[Any], name: str, what: str) -> Any:
    wide = _common(parts, what)
    typed = [part for part in parts if len(part) or describe(read(part, what).schema)[0] != "n"] or list(parts[:1])
    return _JOINED[name](typed, wide)


def _common(parts: Sequence[Any], what: str) -> np.dtype[Any] | None:
    """The dtype that numbers of several types become; None where all parts are of one type."""
    schemas = [read(part, f"{what}[{i}]").schema for i, part in enumerate(parts)]
    typed = [i for i, schema in enumerate(schemas) if describe(schema)[0] != "n" or len(parts[i])]
    differing = [i for i in typed if not plain.same_type(schemas[i], schemas[typed[0]])]
    if not differing:
        return None
    formats = [describe(schemas[i])[0] for i in typed]
    for i, format in zip(typed, formats, strict=True):
        dtype, first = _DTYPES.get(format), _DTYPES.get(formats[0])
        if format != formats[0] and (dtype is None or first is None or (dtype.kind == "f") != (first.kind == "f")):
            raise TypeError(
                f"{what}[{i}] has type {_spelled(parts[i], format)}, {what}[{typed[0]}] "
                f"{_spelled(parts[typed[0]], formats[0])}: convert one of them to the type of the other"
            )
    if any(format not in _DTYPES for format in formats):
        raise TypeError(f"{what}[{differing[0]}] has another type than {what}[{typed[0]}]: convert one of them")
    wide = np.result_type(*(_DTYPES[format] for format in formats))
    if wide.kind == "f" and _DTYPES[formats[0]].kind != "f":
        raise TypeError(f"{what} are int64 and uint64, which no integer holds both: convert them to one of the two")
    return wide


def _spelled(part: Any, format: str) -> str:
    """The type of a column for people, of Arrow's format."""
    if format in _DTYPES:
        return str(_DTYPES[format])
    own = getattr(part, "dtype", getattr(part, "type", None))
    return {"u": "text", "U": "text", "vu": "text", "z": "bytes", "Z": "bytes", "vz": "bytes", "b": "bool"}.get(
        format
    ) or str(own or format)


# ---- by library ------------------------------------------------------------------------------------------------------


def _of_numpy(parts: Sequence[Array], wide: np.dtype[Any] | None) -> Any:
    if any(isinstance(part, np.ma.MaskedArray) for part in parts):
        joined: Any = np.ma.concatenate(parts)  # type: ignore[no-untyped-call]
        return joined
    return np.concatenate(parts)


def _of_pandas(parts: Sequence[Any], wide: Any) -> Any:
    pd = sys.modules["pandas"]
    if isinstance(parts[0], pd.Series):
        return pd.concat(parts, ignore_index=True)
    if isinstance(parts[0], pd.Index):
        return parts[0].append(list(parts[1:]))
    return pd.concat([pd.Series(part) for part in parts], ignore_index=True).array


def _of_polars(parts: Sequence[Any], wide: Any) -> Any:
    pl = sys.modules["polars"]
    if wide is not None:
        kind = getattr(pl, wide.name.replace("uint", "UInt").replace("int", "Int").replace("float", "Float"))
        parts = [part.cast(kind) for part in parts]
    return pl.concat(parts)


def _of_arrow(parts: Sequence[Any], wide: Any) -> Any:
    pa = sys.modules["pyarrow"]
    kind = parts[0].type if wide is None else pa.from_numpy_dtype(wide)
    cast = [part if part.type == kind else part.cast(kind) for part in parts]
    chunks = [chunk for part in cast for chunk in (part.chunks if hasattr(part, "chunks") else [part])]
    whole = pa.chunked_array(chunks, type=kind)
    return whole if hasattr(parts[0], "chunks") else whole.combine_chunks()


def _of_torch(parts: Sequence[Any], wide: Any) -> Any:
    return sys.modules["torch"].cat(list(parts))


def _of_jax(parts: Sequence[Any], wide: Any) -> Any:
    return sys.modules["jax"].numpy.concatenate(parts)


def _of_lists(parts: Sequence[Any], wide: Any) -> Any:
    return [element for part in parts for element in part]


_JOINED: dict[str, Callable[[Sequence[Any], Any], Any]] = {
    "numpy": _of_numpy,
    "pandas": _of_pandas,
    "polars": _of_polars,
    "pyarrow": _of_arrow,
    "torch": _of_torch,
    "jax": _of_jax,
    "list": _of_lists,
}
