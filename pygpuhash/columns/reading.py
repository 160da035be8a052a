"""`read`: finds the library that a column belongs to, and has that library's reader make the `Column`."""

from __future__ import annotations

from typing import Any

import numpy as np

from pygpuhash import _tensors
from pygpuhash.columns import arrow, frames, lists, numpy_arrays
from pygpuhash.columns._buffers import View
from pygpuhash.columns.column import Array, Column, struct

__all__ = ["is_column", "read"]


def read(given: Any, what: str) -> Column:
    """A column of host memory from numpy, pandas, polars, Arrow, PyTorch, JAX, a list, a range, a buffer.

    A tuple whose parts are all columns is one column of several (`is_column`): its keys are a tuple again. Every
    element arrives as it is, or the column is refused with its name, the first element that does not fit, and the way
    out.

    what : the argument's name, for messages.

    Raises TypeError for what is no column, for elements without an equality here and for elements of two kinds;
    OverflowError for elements beyond the ranges of Arrow's types; ValueError for columns of unequal lengths.
    """
    if type(given) is np.ndarray and given.dtype != object:
        return numpy_arrays.read(given, what)
    if isinstance(given, np.ndarray):
        return lists.read_objects(given, what) if given.dtype == object else numpy_arrays.read(given, what)
    if isinstance(given, tuple) and given:
        if all(is_column(part) for part in given):
            return _several(given, what)
        _refuse_part(given, what)
    if isinstance(given, (list, tuple, range)):
        return lists.read(given, what)
    library = frames.library(given)
    if library is not None:
        return frames.read(given, library, what)
    tensor = _tensors.array_library(given)
    if tensor is not None:
        return _tensor(given, tensor, what)
    if any(hasattr(given, f"__arrow_c_{form}__") for form in ("array", "stream", "device_array")):
        return arrow.read(given, what)
    return _other(given, what)


def is_column(given: Any) -> bool:
    """Is this part of a tuple a column: has it a length, and is it neither text, bytes nor a scalar?"""
    if isinstance(given, (str, bytes)):
        return False
    if hasattr(given, "ndim"):
        return bool(given.ndim > 0)
    return hasattr(given, "__len__") or hasattr(given, "__arrow_c_stream__")


def _refuse_part(given: tuple[Any, ...], what: str) -> None:
    """Refuse a tuple of columns of which one part is none."""
    one = next((i for i, x in enumerate(given) if is_column(x) and not isinstance(x, (tuple, list))), None)
    if one is not None:
        other = next(i for i, x in enumerate(given) if not is_column(x))
        raise TypeError(
            f"{what}[{one}] is a column and {what}[{other}] a single {type(given[other]).__name__}: pass columns of "
            "one length, or single elements alone"
        )


def _several(given: tuple[Any, ...], what: str) -> Column:
    parts = [read(part, f"{what}[{i}]") for i, part in enumerate(given)]
    for part in parts:
        if part.shape != parts[0].shape:
            raise ValueError(
                f"{part.what} has shape {part.shape}, {parts[0].what} {parts[0].shape}: pass columns of one length"
            )

    def give(keys: View) -> tuple[Any, ...]:
        return tuple(part.give(keys.child(i)) for i, part in enumerate(parts))

    column = struct(parts, [str(i) for i in range(len(parts))], what, give)
    column.shape, column.give_numbers = parts[0].shape, parts[0].give_numbers
    return column


def _tensor(given: Any, library: str, what: str) -> Column:
    """A tensor on the CPU; keys and numbers are tensors."""
    column = numpy_arrays.read(_tensors.read(given, library, what), what)
    give, shape = column.give, column.shape

    def numbers(array: Array, like_rows: bool) -> Any:
        return _tensors.give(library, array.reshape(shape) if like_rows else array)

    column.give, column.give_numbers = lambda keys: _tensors.give(library, give(keys)), numbers
    return column


def _other(given: Any, what: str) -> Column:
    """What numpy can read: buffers, arrays of other libraries on the host."""
    name = type(given).__name__
    if isinstance(given, (set, frozenset, dict)):
        raise TypeError(f"{what} is a {name}, which has no order: pass list({what})")
    if given is None or isinstance(given, (str, bytes, int, float, complex, np.generic)):
        raise TypeError(f"{what} is a {name}, not a column: pass [{what}]")
    array: Array | None = None
    if hasattr(given, "__array__") or hasattr(given, "__array_interface__"):
        array = np.asarray(given)
    elif hasattr(given, "__dlpack__"):
        array = np.from_dlpack(given)
    else:
        try:
            array = np.asarray(memoryview(given))
        except TypeError:
            way_out = f"pass list({what})" if hasattr(given, "__iter__") else "pass an array, a list or a Series"
            raise TypeError(f"{what} is a {name}, not a column: {way_out}") from None
    return read(array, what)
