"""Numbers and times of any sort as an array of one dtype, when no element changes.

An array is taken as it is when its dtype is the wanted one, its bytes are in native order, and it is C-contiguous and
aligned. A strided or misaligned array is copied. An array of another dtype is converted when no element changes:
integers of another width or sign are looked through once, times of another unit converted there and back, and the first
element that does not fit is named. Floats are never rounded, nor made integers. Python numbers and (nested) lists of
them have no dtype: every element is checked against the range of the wanted dtype. Columns of pandas, polars and Arrow
are read from their own memory by their own type (columns/flat.py); a frame is no column of numbers.
"""

from __future__ import annotations

import datetime
import operator
import re
from typing import Any

import numpy as np

from pygpuhash import _tensors
from pygpuhash.columns import flat, lists

__all__ = [
    "DoesNotFit",
    "column",
    "from_stranger",
    "lossless",
    "masked",
    "objects",
    "to_base",
]

_OTHERS_OF_LISTS = (list, tuple, np.ndarray, complex, np.complexfloating)  # that columns/lists.py does not read here
_SINGLE = (int, float, complex, str, bytes, np.generic, datetime.date, datetime.timedelta, type(None))
_WAYS_OUT = {
    "UUID": "pass np.frombuffer(x.bytes, 'u4') of each to a table of rows, ('u4', 4)",
    "Decimal": "pass int(x) or float(x) of each, once you know that it is exact",
    "Fraction": "pass int(x) or float(x) of each, once you know that it is exact",
    "Period": "pass x.ordinal of each, or x.to_timestamp()",
    "Interval": "pass codes, or rows of x.left and x.right",
} | dict.fromkeys(("NoneType", "NAType", "NaTType"), "leave out what is missing, or fill it in")
_ISO = re.compile(r"-?\d{4,}(-\d\d(-\d\d(T\d\d(:\d\d(:\d\d(\.\d{1,18})?)?)?)?)?)?")
_ZONE = re.compile(r"[T ].*([zZ]|[+-]\d\d:?\d*)$")


class DoesNotFit(TypeError):
    """An element is of the right sort, but not one that the table's dtype has."""


def to_base(given: Any, dtype: np.dtype[Any], what: str) -> np.ndarray[Any, Any]:
    """`given` as an array of `dtype`, when no element changes: the numbers of which records are made."""
    return _as_dtype(given, dtype, what)


def column(given: Any, what: str) -> np.ndarray[Any, Any]:
    """A host column of whatever dtype it has; text and bytes in objects become numpy's."""
    if isinstance(given, (set, frozenset, dict)):
        raise TypeError(f"{what} is a {type(given).__name__}, which has no order: pass list({what})")
    if type(given) is list and set(map(type, given)) == {int}:
        return lists.integers(given, what)
    plain = None if isinstance(given, (np.ndarray, list, tuple)) else flat.plain_numbers(given)
    if plain is not None:
        return plain
    if isinstance(given, (list, tuple)):
        given = _single_elements(given, what)
        if not any(issubclass(sort, _OTHERS_OF_LISTS) for sort in set(map(type, given))):
            given = flat.of_column(lists.read(given, what), what, "leave them out, or fill them in")
    if isinstance(given, (list, tuple)):
        try:
            array = np.asarray(given)
        except ValueError:
            array = _ragged(what)
        if array.dtype.kind == "f":
            for value in np.array(given, dtype=object).flat:
                if isinstance(value, (int, np.integer)) and int(float(value)) != value:
                    raise DoesNotFit(f"{what}: the integer {value} has no exact {array.dtype}: pass integers alone")
    else:
        array = given if isinstance(given, np.ndarray) else from_stranger(given, what)
    if type(array) is not np.ndarray and isinstance(array, np.ma.MaskedArray):  # np.ma takes 50 ms to import
        raise TypeError(masked(what))
    array = np.asarray(array)
    if array.dtype.kind in "OT" and array.size:
        sorts = {type(x) for x in array.flat}
        if sorts <= {str, np.str_}:
            return array.astype(object).astype("U")
        if sorts <= {bytes, np.bytes_}:
            return array.astype("S")
        names = " and ".join(sorted(sort.__name__ for sort in sorts))
        raise TypeError(
            f"{what} are Python objects ({names}): pass numbers, text or bytes alone, and times as "
            f"np.array({what}, 'datetime64[us]')"
        )
    return array


def masked(what: str) -> str:
    """A sentence for an array with a mask, which would be lost."""
    return f"{what} is a masked array, and a table has no masked elements: pass {what}.compressed()"


# ---- from what is given to an array of the table's dtype -------------------------------------------------------------


def _as_dtype(given: Any, dtype: np.dtype[Any], what: str) -> np.ndarray[Any, Any]:
    if isinstance(given, np.generic) and given.dtype.kind in "biuf" and given.dtype != dtype:
        given = given.item()
    if isinstance(given, (int, float, list, tuple, range, str, bytes, set, frozenset, dict)) or given is None:
        return _from_python(given, dtype, what)
    if dtype.kind in "mM" and _is_moment(given):
        return _moments(np.array(given, dtype=object), dtype, what)
    array = given if isinstance(given, np.ndarray) else from_stranger(given, what)
    if type(array) is not np.ndarray and isinstance(array, np.ma.MaskedArray):  # np.ma takes 50 ms to import
        raise TypeError(masked(what))
    array = np.asarray(array)  # a matrix stays of two dimensions, whatever its new shape is
    return array if array.dtype == dtype else _convert(array, dtype, what)


def from_stranger(given: Any, what: str) -> np.ndarray[Any, Any]:
    """An object that is not numpy's: a tensor, a column of a data frame, anything that numpy or DLPack can read."""
    library = _tensors.array_library(given)
    if library is not None:
        return _tensors.read(given, library, what)
    if flat.is_foreign(given):
        parts = flat.columns_of(given)
        if parts is None:
            return flat.read(given, what, _drop(given, what))
        raise TypeError(
            f"{what} is a {type(given).__name__} of {len(parts)} columns, and an element of the table is one number: "
            f"pass one column, or pass it to a table of rows, as of dtype ('i8', {len(parts)})"
        )
    nulls = getattr(given, "null_count", 0)  # an attribute of Arrow's arrays, a method of polars'
    nulls = nulls() if callable(nulls) else nulls
    if isinstance(nulls, int) and nulls:  # a frame says more than one number
        raise TypeError(f"{what} has missing elements ({nulls}), and a table has none: {_drop(given, what)}")
    if not hasattr(given, "__array__") and hasattr(given, "__dlpack__"):
        return np.from_dlpack(given)
    sort = getattr(given, "dtype", getattr(given, "type", None))
    if any(getattr(sort, name, None) is not None for name in ("tz", "time_zone")):  # pandas and Arrow, polars
        raise TypeError(f"{what} has a time zone, a datetime64 has none: convert it to UTC and drop the zone")
    array = np.asarray(given)
    if array.dtype == object and array.ndim == 0:
        name = type(given).__name__
        way_out = f"pass list({what})" if hasattr(given, "__iter__") else "pass an array, a list or a number"
        way_out = _WAYS_OUT.get(name, way_out).replace(" of each", "")
        raise TypeError(f"{what} is a {name}, not an array: {way_out}")
    if array.dtype.kind in "fO" and not isinstance(getattr(given, "dtype", array.dtype), np.dtype):
        missing = np.asarray(given.isna()) if hasattr(given, "isna") else np.zeros(0, bool)
        if missing.any():
            raise TypeError(
                f"{what} has missing elements ({int(missing.sum())}, the first at {int(missing.argmax())}), and a "
                f"table has none: {_drop(given, what)}"
            )
    return array


def _drop(given: Any, what: str) -> str:
    for name in ("drop_nulls", "drop_null", "dropna"):
        if hasattr(given, name):
            return f"pass {what}.{name}(), or fill them in"
    return "leave them out, or fill them in"


def _convert(array: np.ndarray[Any, Any], dtype: np.dtype[Any], what: str) -> np.ndarray[Any, Any]:
    """An array of another dtype, when no element changes; otherwise an error that names one that would."""
    kinds = array.dtype.kind + dtype.kind
    if array.size == 0 and kinds[0] in "biufmMO":
        return np.empty(array.shape, dtype)
    if kinds[0] == "O" and kinds[1] in "mM":
        return _moments(array, dtype, what)
    if kinds[0] not in "biufmM":
        raise TypeError(_not_numbers(array, dtype, what))
    if not array.dtype.isnative:
        raise TypeError(
            f"{what} have dtype {array.dtype.str!r}, which is not in native byte order: "
            f"pass {what}.astype({what}.dtype.newbyteorder('='))"
        )
    if kinds in ("mm", "MM"):
        return _times(array, dtype, what)
    if "m" in kinds or "M" in kinds:
        counts = f"pass {what}.astype('{dtype}') if they count in its unit" if kinds[0] in "iu" else "convert them"
        raise TypeError(f"{what} have dtype {array.dtype}, the table holds {dtype}: {counts}")
    if np.can_cast(array.dtype, dtype, "safe") and not (kinds[0] in "iu" and kinds[1] == "f"):
        return array.astype(dtype)
    if kinds[0] == "f":
        raise TypeError(_float_refusal(array, dtype, what))
    return _integers_as_floats(array, dtype, what) if kinds[1] == "f" else _integers(array, dtype, what)


def _integers(array: np.ndarray[Any, Any], dtype: np.dtype[Any], what: str) -> np.ndarray[Any, Any]:
    """Integers of another width or sign: one pass over them looks for the smallest, the largest, or both."""
    low, high = _limits(dtype)
    from_low, from_high = _limits(array.dtype)
    wrong = (low > from_low and int(array.min()) < low) or (high < from_high and int(array.max()) > high)
    if wrong:
        outside = np.zeros(array.shape, bool)
        if low > from_low:
            outside |= array < low
        if high < from_high:
            outside |= array > high
        raise OverflowError(f"{_first(array, outside, what)}, which does not fit {dtype} ({low} to {high})")
    return array.view(dtype) if array.dtype.itemsize == dtype.itemsize else array.astype(dtype)


def _limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    return (0, 1) if dtype.kind == "b" else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))


def _integers_as_floats(array: np.ndarray[Any, Any], dtype: np.dtype[Any], what: str) -> np.ndarray[Any, Any]:
    """Integers that the floats hold exactly: all up to 2 to the number of their digits, and some beyond."""
    exact = 2 ** (np.finfo(dtype).nmant + 1)
    low, high = _limits(array.dtype)
    with np.errstate(over="ignore"):
        result = array.astype(dtype)
    if (low < -exact and int(array.min()) < -exact) or (high > exact and int(array.max()) > exact):
        rounded = result.astype(np.longdouble) != array.astype(np.longdouble)  # holds all 64 bits, and infinity
        if rounded.any():
            raise DoesNotFit(
                f"{_first(array, rounded, what)}, which has no exact {dtype}: pass {what}.astype('{dtype}') to round"
            )
    return result


def _first(array: np.ndarray[Any, Any], where: np.ndarray[Any, Any], what: str) -> str:
    """Words for the first of some elements: "keys: element 3 is -5"."""
    at = int(where.reshape(-1).argmax())
    if array.ndim == 0:
        return f"{what} is {array}"
    index = at if array.ndim == 1 else tuple(int(i) for i in np.unravel_index(at, array.shape))
    return f"{what}: element {index} is {array.reshape(-1)[at]}"


def _float_refusal(array: np.ndarray[Any, Any], dtype: np.dtype[Any], what: str) -> str:
    have = f"{what} have dtype {array.dtype}, the table holds {dtype}"
    if dtype.kind == "f":
        return f"{have}, to which they would be rounded: pass {what}.astype('{dtype}') if that is what you want"
    gaps = np.isnan(array)
    if gaps.any():
        return (
            f"{have}, and {int(gaps.sum())} of them are NaN: {_first(array, gaps, what)}. If NaN stands for a missing "
            f"element, leave those out first: {what}[~np.isnan({what})]"
        )
    broken = np.floor(array) != array
    if broken.any():
        return f"{have}: {_first(array, broken, what)}, which is not an integer"
    return f"{have}: all are whole numbers, so pass {what}.astype('{dtype}') once you know that they fit"


def _not_numbers(array: np.ndarray[Any, Any], dtype: np.dtype[Any], what: str) -> str:
    have = f"{what} have dtype {array.dtype}, the table holds {dtype}"
    if array.dtype.name == "bfloat16":
        return f"{have}, and numpy has no bfloat16: pass {what}.astype('float32')"
    if array.dtype != object:
        return f"{have}: pass an array of numbers"
    odd = np.array([not isinstance(x, (int, float, np.number)) for x in array.reshape(-1)], bool)
    if odd.any():
        return f"{have}: pass an array of numbers; {_first(array, odd, what)}"
    return f"{have}: pass an array of numbers, for example {what}.astype('{dtype}')"


def lossless(given: np.dtype[Any], wanted: np.dtype[Any]) -> bool:
    """numpy's safe casts, less those that round or overflow all the same: 8-byte integers to floats, other units."""
    if given.kind in "mM" or wanted.kind in "mM":
        return given == wanted
    if given.kind in "iu" and given.itemsize == 8 and wanted.kind == "f":
        return False
    return np.can_cast(given, wanted, "safe")


def _from_python(given: Any, dtype: np.dtype[Any], what: str) -> np.ndarray[Any, Any]:
    """Python numbers, or sequences of them, each checked against `dtype`."""
    if isinstance(given, (set, frozenset, dict)):
        raise TypeError(f"{what} is a {type(given).__name__}, which has no order: pass list({what})")
    if isinstance(given, (list, tuple)) and not _all_single(given):
        given = _single_elements(given, what)
        if any(isinstance(part, np.ndarray) for part in given):
            return _stacked([_as_dtype(part, dtype, f"{what}[{i}]") for i, part in enumerate(given)], what)
    if dtype.kind in "mM":
        return _times_of_python(given, dtype, what)
    try:
        array = np.asarray(given)
    except (ValueError, OverflowError):
        array = np.array(given, dtype=object) if isinstance(given, int) else _ragged(what)
    except RuntimeError:  # of PyTorch, for a list of tensors
        raise TypeError(f"{what} is a {type(given).__name__} of arrays: pass them as one array") from None
    if array.size == 0 and array.dtype.kind == "f":
        return np.empty(array.shape, dtype)
    if dtype.kind == "f":
        result = _floats(array, dtype, what)
        # numpy makes floats of integers that stand beside floats, or beside integers of the other sign: look again.
        if array.dtype.kind == "f" and (np.abs(array) > 2.0 ** np.finfo(dtype).nmant).any():
            _refuse_rounded(np.array(given, dtype=object), result, what)
        return result
    if array.dtype.kind not in "biu":  # numpy turns a list of large and negative integers into floats: look again
        array = np.array(given, dtype=object)
        for i, value in enumerate(array.flat):
            try:
                operator.index(value)
            except TypeError:
                raise TypeError(
                    f"{what}: {value!r} is not an integer, the table holds {dtype}{_place(array, i)}{_way_out(value)}"
                ) from None
    low, high = _limits(dtype)
    if not low <= int(array.min()) <= int(array.max()) <= high:
        i, value = next((i, int(value)) for i, value in enumerate(array.flat) if not low <= int(value) <= high)
        raise OverflowError(f"{what}: {value} does not fit {dtype} ({low} to {high}){_place(array, i)}")
    return array.astype(dtype)


def _all_single(given: list[Any] | tuple[Any, ...]) -> bool:
    """Is no element of a sequence a sequence, an array or a column itself?"""
    return all(issubclass(sort, _SINGLE) for sort in set(map(type, given)))


def _single_elements(given: list[Any] | tuple[Any, ...], what: str) -> list[Any] | tuple[Any, ...]:
    """A sequence with numpy's scalars for arrays of no dimension; columns and frames in it are refused."""
    if _all_single(given):
        return given
    found: list[Any] = []
    for i, x in enumerate(given):
        if isinstance(x, (list, tuple)):
            found.append(_single_elements(x, f"{what}[{i}]"))
        elif not isinstance(x, (np.ndarray, np.generic)) and flat.is_foreign(x):
            raise TypeError(f"{what}[{i}] is a {type(x).__name__}: pass one column, or a frame to a table of rows")
        else:
            found.append(x[()] if isinstance(x, np.ndarray) and x.ndim == 0 else x)
    if isinstance(given, tuple) and all(isinstance(x, np.ndarray) for x in found):
        raise TypeError(
            f"{what} is a tuple of {len(given)} arrays, which are columns elsewhere: pass np.stack({what}, axis=-1) to "
            f"a table of rows, or np.stack({what}) for keys in two dimensions"
        )
    return found


def objects(given: Any, what: str) -> np.ndarray[Any, Any]:
    """Python objects, or sequences of them of one length, as an array of objects."""
    try:
        array = np.array(given, dtype=object)
    except ValueError:
        return _ragged(what)
    return _ragged(what) if any(isinstance(x, (list, tuple)) for x in array.flat) else array


def _stacked(parts: list[np.ndarray[Any, Any]], what: str) -> np.ndarray[Any, Any]:
    return np.stack(parts) if len({part.shape for part in parts}) == 1 else _ragged(what)


def _place(array: np.ndarray[Any, Any], i: int) -> str:
    """Words for where element i of an array is, to follow a sentence about it; none for a single number."""
    if array.ndim == 0:
        return ""
    return f" (element {i if array.ndim == 1 else tuple(int(k) for k in np.unravel_index(i, array.shape))})"


def _way_out(value: Any) -> str:
    """What to do about an object that is no number."""
    way_out = _WAYS_OUT.get(type(value).__name__)
    return f": {way_out}" if way_out else ""


def _ragged(what: str) -> np.ndarray[Any, Any]:
    raise TypeError(f"{what} is not a rectangular sequence of numbers: pass rows of one length")


def _floats(array: np.ndarray[Any, Any], dtype: np.dtype[Any], what: str) -> np.ndarray[Any, Any]:
    """Floats are rounded to the table's precision; what would become infinite, or an integer that would, is refused."""
    if array.dtype.kind not in "biuf":
        for i, value in enumerate(array.flat):
            if not isinstance(value, (int, float, np.integer, np.floating)) or isinstance(value, np.timedelta64):
                raise TypeError(
                    f"{what}: {value!r} is not a number, the table holds {dtype}{_place(array, i)}{_way_out(value)}"
                )
    with np.errstate(over="ignore"):
        try:
            result = array.astype(dtype)
        except OverflowError:
            raise OverflowError(f"{what}: an integer does not fit {dtype}: pass smaller numbers") from None
    lost = np.isinf(result) & ~np.isinf(array.astype(np.float64))
    if lost.any():
        i = int(lost.reshape(-1).argmax())
        raise OverflowError(
            f"{what}: {array[lost].flat[0]} does not fit {dtype}: the largest is {np.finfo(dtype).max}"
            f"{_place(array, i)}"
        )
    if array.dtype.kind in "iuO":
        _refuse_rounded(array, result, what)
    elif array.dtype == np.longdouble:
        rounded = (result.astype(np.longdouble) != array) & ~np.isnan(array)
        if rounded.any():
            raise DoesNotFit(f"{_first(array, rounded, what)}, which has no exact {dtype}: pass float(x) of each")
    return result


def _refuse_rounded(array: np.ndarray[Any, Any], result: np.ndarray[Any, Any], what: str) -> None:
    """Integers that the floats of the result do not hold."""
    for i, (value, rounded) in enumerate(zip(array.flat, result.flat, strict=True)):
        if isinstance(value, (int, np.integer)) and int(rounded) != int(value):
            raise DoesNotFit(f"{what}: the integer {value} has no exact {result.dtype}: pass a float{_place(array, i)}")


# ---- times -----------------------------------------------------------------------------------------------------------


def _times(array: np.ndarray[Any, Any], dtype: np.dtype[Any], what: str) -> np.ndarray[Any, Any]:
    """Times of another unit, when each is a whole number of the table's."""
    if array.dtype == dtype:
        return array
    if np.datetime_data(array.dtype)[0] == "generic" and not np.isnat(array).all():
        raise TypeError(
            f"{what} have dtype {array.dtype} without a unit, the table holds {dtype}: pass {what}.astype('{dtype}') "
            "if they count in its unit"
        )
    if np.can_cast(array.dtype, dtype, "same_kind"):
        try:
            result = array.astype(dtype)
            back = result.astype(array.dtype)
        except OverflowError:
            raise OverflowError(f"{what}: a time of dtype {array.dtype} does not fit {dtype}") from None
        changed = np.asarray(back.view(np.int64) != array.view(np.int64))  # bits: a NaT equals a NaT
        if not changed.any():
            return result
        raise DoesNotFit(f"{_first(array, changed, what)}, which is no {dtype}: pass {what}.astype('{dtype}') to round")
    raise TypeError(f"{what} have dtype {array.dtype}, the table holds {dtype}: convert them")


def _is_moment(given: Any) -> bool:
    """A single point in time, or span, of Python or pandas."""
    return isinstance(given, (datetime.date, datetime.timedelta)) or hasattr(given, "to_datetime64")


def _times_of_python(given: Any, dtype: np.dtype[Any], what: str) -> np.ndarray[Any, Any]:
    """Times of a list, each by its own unit, or a single one."""
    array = objects(given, what)
    if array.size == 0:
        return np.empty(array.shape, dtype)
    sorts = {x.dtype if isinstance(x, (np.datetime64, np.timedelta64)) else None for x in array.flat}
    sort = sorts.pop()
    if sort is not None and sort.kind == dtype.kind and not sorts:
        return _times(array.astype(sort), dtype, what)
    if set(map(type, array.flat)) == {datetime.timedelta if dtype.kind == "m" else datetime.datetime}:
        column = lists.read(array.reshape(-1).tolist(), what)
        return _times(flat.of_column(column, what, "").reshape(array.shape), dtype, what)
    return _moments(array, dtype, what)


def _moments(array: np.ndarray[Any, Any], dtype: np.dtype[Any], what: str) -> np.ndarray[Any, Any]:
    """Times as objects of Python, numpy and pandas, or as text."""
    result = np.empty(array.shape, dtype)
    flat = result.reshape(-1)
    for i, given in enumerate(array.reshape(-1)):
        name = what if array.ndim == 0 else f"{what}[{', '.join(map(str, np.unravel_index(i, array.shape)))}]"
        moment = _moment(given, dtype, name)
        if not isinstance(moment, (np.datetime64, np.timedelta64)) or (
            moment.dtype.kind != dtype.kind and not np.isnat(moment)
        ):
            said = given.item() if isinstance(given, np.number) else given
            way_out = _WAYS_OUT.get(type(given).__name__, f"pass np.array(..., '{dtype}')")
            raise TypeError(f"{what}: {said!r} is not of the table's {dtype}{_place(array, i)}: {way_out}")
        flat[i] = np.array("NaT", dtype) if np.isnat(moment) else _times(np.asarray(moment), dtype, name)
    return result


def _moment(given: Any, dtype: np.dtype[Any], what: str) -> Any:
    """numpy's scalar for a time of Python or pandas; what is none, as it is."""
    if getattr(given, "tzinfo", None) is not None:
        raise TypeError(
            f"{what}: {given!r} has a time zone, a datetime64 has none: convert it to UTC and drop the zone"
        )
    if isinstance(given, str):
        return _moment_of_text(given, dtype, what)
    for method in ("to_datetime64", "to_timedelta64"):  # before Python's classes: pandas' derive from those
        if hasattr(given, method):
            return getattr(given, method)()
    if isinstance(given, datetime.date):
        return np.datetime64(given)
    return np.timedelta64(given) if isinstance(given, datetime.timedelta) else given


def _moment_of_text(given: str, dtype: np.dtype[Any], what: str) -> Any:
    """The time of a text as ISO 8601 has it, in the unit of its last digit."""
    if given.lower() == "nat":
        return np.array("NaT", dtype)[()]
    if _ZONE.search(given):
        raise TypeError(
            f"{what}: {given!r} has a time zone, a datetime64 has none: convert it to UTC and drop the zone"
        )
    text = given.strip().replace(" ", "T")
    if dtype.kind == "M" and _ISO.fullmatch(text):
        try:
            moment = np.datetime64(text)
        except ValueError as error:
            raise TypeError(f"{what}: {given!r} is not of the table's {dtype}: {error}") from None
        if text.rstrip("0") == str(moment).rstrip("0"):  # beyond its range numpy has another one
            return moment
    way_out = "pass text such as '2024-02-29T12:00'" if dtype.kind == "M" else "pass np.timedelta64(5, 's')"
    raise TypeError(f"{what}: {given!r} is not of the table's {dtype}: {way_out}")
