"""Sums and means of floats whose bits are the same whatever the order of the rows, the threads and the device.

Each value is cut into three integers of 30 bits, counted from the exponent of its group's largest value. Sums of
integers have no order, and are exact here for up to 2^31 rows; the sum of a group is put together from its three. So it
depends on nothing but the values of the group. What a value has below 2^-90 of its group's largest one is left out: the
error is a few units in the last place of the sum, or of 2^-59 of the largest value where the sum is smaller than that.

That a common exponent makes sums reproducible is from J. Demmel and H. D. Nguyen, "Parallel Reproducible Summation",
IEEE Transactions on Computers 64 (2015). The arithmetic is on whole arrays, of numpy, CuPy or PyTorch.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any, Literal

import numpy as np

from pygpuhash import _cuda, _device_arrays, _device_groups, _table_verbs, _tensors
from pygpuhash._table_verbs import KeyColumn
from pygpuhash.columns import _reduce
from pygpuhash.errors import Unsupported

__all__ = ["on_device", "on_host"]

Array = np.ndarray[Any, Any]

_INTEGER, _DOUBLE = np.dtype(np.int64), np.dtype(np.float64)
_BITS = 30  # of an integer that a value is cut into
_MASK, _UNIT = (1 << _BITS) - 1, 2.0**-_BITS
_FRACTION, _BIAS = 52, 1023  # of doubles: the bits of the fraction, and what is added to the exponent
_LEAST = 32  # the least exponent, with the bias, that values are cut by, so that no factor is infinite


def on_host(codes: Array, values: Any, op: str, dtype: np.dtype[Any]) -> Array:
    """The sums or means of groups, in a dtype of floats. codes: the group of each row, or -1: it is left out.

    values : a float for each row, or one for all rows.
    """
    groups = int(codes.max(initial=-1)) + 1
    amounts = np.broadcast_to(np.asarray(values, _DOUBLE), codes.shape)
    codes, amounts = codes[codes >= 0], np.ascontiguousarray(amounts[codes >= 0])

    def reduce(numbers: Array, op: str) -> Array:
        if op == "sum":
            return _reduce.sums(codes, groups, numbers)
        return _reduce.extremes(codes, groups, numbers, True)

    with np.errstate(over="ignore"):  # sums may be infinite
        sums: Array = _sums(np, codes, amounts, reduce, _INTEGER, _DOUBLE)
        if op == "mean":
            sums = sums / _reduce.counts(codes, groups)
        return sums.astype(dtype, copy=False)


def on_device(
    column: KeyColumn, values: Any, op: str, dtype: np.dtype[Any], order: Literal["any", "first"], table: dict[str, Any]
) -> tuple[Any, Any]:
    """(distinct keys, the sums or means of their values in a dtype of floats), of arrays of CuPy or PyTorch.

    Keys and values of no library become those of one that is imported, and results are of none again. Of a column of
    which rows are dropped the values are of the others.
    """
    column = replace(column, known=None, kept=None)
    is_own = _tensors.library_of(column.array) == _device_groups.OWN
    column, values = _in_library(column, values)
    library = _tensors.library_of(column.array)
    if library not in ("cupy", "torch"):
        name = type(column.array).__name__
        raise Unsupported(f"reproducible=True takes arrays of CuPy or PyTorch on a GPU, keys are a {name}: copy them")
    xp, ordinal = sys.modules[library], column.ordinal
    assert ordinal is not None
    codes, distinct = _table_verbs.factorize(column, order, table)
    integer, double = (_device_groups.own_dtype(column.array, dtype) for dtype in (_INTEGER, _DOUBLE))
    with _cuda.current(ordinal):
        codes = codes.reshape((-1,))
        narrow = np.dtype(np.int32) if column.size <= 2**31 else _INTEGER
        of_codes = _table_verbs.on_device(_converted(codes, _device_groups.own_dtype(codes, narrow)), "codes")
        if np.ndim(values):
            amounts = _converted(values.reshape((-1,)), double)
        else:
            amounts = _converted(codes, double) * 0.0 + float(values)

        def by_code(found: Any, results: Any) -> Any:
            placed = xp.zeros_like(results)
            placed[_converted(found, integer)] = results
            return placed

        def reduce(numbers: Any, op: Any) -> Any:
            dtype = _INTEGER if numbers.dtype == integer else _DOUBLE
            return by_code(*_table_verbs.group_reduce(of_codes, numbers, dtype, op, dtype, "any", table))

        sums = _sums(xp, codes, amounts, reduce, integer, double)
        if op == "mean":
            sums = sums / by_code(*_table_verbs.value_counts(of_codes, "any", table))
        sums = _converted(sums, _device_groups.own_dtype(sums, dtype))
        return distinct, _cuda.DeviceArray.from_dlpack(sums) if is_own else sums


def _in_library(column: KeyColumn, values: Any) -> tuple[KeyColumn, Any]:
    """Keys and values that are of no library as arrays of CuPy or PyTorch, where one of them is imported."""
    names = [_tensors.library_of(array) for array in (column.array, values)]
    library = next((name for name in names if name in ("cupy", "torch")), _device_arrays.library_that_is_there())
    if library is None or column.ordinal is None:
        return column, values
    with _cuda.current(column.ordinal):
        if names[0] == _device_groups.OWN:
            column = replace(column, array=_device_arrays.in_library(library, column.array), ready=None)
        if names[1] == _device_groups.OWN:
            values = _device_arrays.in_library(library, values)
    return column, values


def _sums(xp: ModuleType, codes: Any, values: Any, reduce: Callable[[Any, str], Any], integer: Any, double: Any) -> Any:
    """The sum of the values of each group.

    reduce : gives the "sum" of integers and doubles, and the "max" of doubles, for each group, in the order of codes.
    integer, double : int64 and float64 as the library `xp` names them.
    """
    finite = xp.isfinite(values)
    special = None
    if not bool(finite.all()):
        nothing = xp.zeros_like(values)
        special = reduce(xp.where(finite, nothing, values), "sum")  # in any order: zeros, NaNs and infinite values
        special = xp.where(special == special, special, xp.full_like(special, math.nan))
        values = xp.where(finite, values, nothing)
    exponents = (reduce(abs(values), "max").view(integer) >> _FRACTION).clip(_LEAST, None)
    # The values of a group are below 2 to the power of (its exponent - bias + 1). Times this factor: below 2^30.
    factors = (2 * _BIAS - 1 + _BITS - exponents << _FRACTION).view(double)
    rest, parts = values * factors[codes], []
    for last in (False, False, True):
        whole = xp.round(rest)
        parts.append(reduce(_converted(whole, integer), "sum"))
        if not last:
            rest = (rest - whole) / _UNIT  # exact, as is all above
    high, middle, low = parts
    middle = middle + (low >> _BITS)
    high = high + (middle >> _BITS)
    below = (_converted(low & _MASK, double) * _UNIT + _converted(middle & _MASK, double)) * _UNIT
    sums = (_converted(high, double) + below) * (exponents + 1 - _BITS << _FRACTION).view(double)
    return sums if special is None else xp.where(special == 0, sums, special)


def _converted(array: Any, dtype: Any) -> Any:
    return array.astype(dtype) if hasattr(array, "astype") else array.to(dtype)
