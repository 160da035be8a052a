"""Python objects as a column: one strict pass with one kind for all elements.

====================================  =====================  ==========================================================
kind                                  Arrow                  keys come back as
====================================  =====================  ==========================================================
int                                   int64, or uint64       int64, uint64
float, integers that are exact        float64                float64
numpy's numbers of one dtype          that dtype             that dtype
bool, complex                         bool, struct           bool, complex128
str, bytes                            large text, bytes      U, S; objects where a key ends in NUL, which numpy cannot
                                                             have, or where padding would take most of the memory
date                                  date32                 datetime64[D]
datetime, without a time zone         timestamp us           datetime64[us]
datetime, with time zones             timestamp us, UTC      objects: datetimes in UTC
time                                  time64 us              objects
timedelta                             duration us            timedelta64[us]
datetime64, timedelta64               the finest unit in     that unit
                                      which all are exact
Decimal                               decimal128             objects
tuples of one length                  struct                 a list of tuples
====================================  =====================  ==========================================================

None, pandas' NA and NaT and numpy's NaT are null; NaN is a float among floats, and null in an array of objects. A null
key makes an array of objects, with None, so that it does not become NaN; among datetime64 and timedelta64 it is NaT.
Keys of an array of objects are an array of objects, with the first null that was there.
"""

from __future__ import annotations

import datetime
import sys
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np

from pygpuhash.columns import _objects, _utf8, numpy_arrays
from pygpuhash.columns._buffers import View
from pygpuhash.columns.column import Array, Column, fixed, in_shape, nothing, struct, text

__all__ = ["decimal_of", "integers", "object_array", "read", "read_objects", "text_array"]

_EPOCH = datetime.datetime(1970, 1, 1)
_EPOCH_UTC = _EPOCH.replace(tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)
_UNITS = ("as", "fs", "ps", "ns", "us", "ms", "s", "m", "h", "D", "W", "M", "Y")
_DIGITS = 38  # of decimal128
_ROOM, _WASTE = 1 << 20, 16  # bytes of padded text that are always fine; times the text beyond them

Objects = Callable[[View], list[Any]]


def read(given: list[Any] | tuple[Any, ...] | range, what: str) -> Column:
    """A column of a list, or of a tuple of single elements, or a range.

    Raises TypeError for objects without an equality here and for two kinds, naming both and the element; OverflowError
    for a number that the column's type lacks.
    """
    if isinstance(given, range) and all(-(2**63) <= n < 2**63 for n in (given.start, given.stop, given.step)):
        return numpy_arrays.read(np.arange(given.start, given.stop, given.step, dtype=np.int64), what)
    values = list(given)
    column = _numpy_scalars(values, what)
    return _column(values, False, what)[0] if column is None else column


def integers(given: list[int], what: str) -> Array:
    """Python's integers as int64, or as uint64 where they are beyond it."""
    array: Array = _objects.integers(given, None, what)
    return array


def _numpy_scalars(values: list[Any], what: str) -> Column | None:
    """numpy's numbers of one type in their own dtype; None for anything else."""
    if not values or not isinstance(values[0], np.generic) or values[0].dtype.kind not in "biufc":
        return None
    return numpy_arrays.read(np.array(values, values[0].dtype), what) if len(set(map(type, values))) == 1 else None


def read_objects(given: Array, what: str) -> Column:
    """A column of an array of objects, in which NaN is null, too. Keys come back as an array of objects."""
    if given.ndim == 0:
        raise TypeError(f"{what} has no dimension: pass {what}.reshape(1)")
    values = np.ma.getdata(given).reshape(-1).tolist()
    masked = isinstance(given, np.ma.MaskedArray) and np.ma.getmaskarray(given).reshape(-1)
    if masked is not False:
        values = [None if gone else value for value, gone in zip(values, masked.tolist(), strict=True)]
    column, objects, null = _column(values, True, what)

    def give(keys: Any) -> Array:
        view = View(keys)
        array = object_array([null if value is None else value for value in objects(view)])
        nulls = view.nulls()
        return array if masked is False else np.ma.MaskedArray(array, mask=False if nulls is None else nulls)

    column.shape = given.shape
    column.give, column.give_numbers, column.stored = give, in_shape(given.shape), None
    return column


def object_array(values: list[Any]) -> Array:
    """One element for each, also where they are tuples."""
    array = np.empty(len(values), object)
    for i, value in enumerate(values):
        array[i] = value
    return array


def _column(values: list[Any], nan_is_null: bool, what: str) -> tuple[Column, Objects, Any]:
    """(the column, which gives numpy's arrays; keys as Python objects; the first null)."""
    kind, nulls, null = _objects.classify(values, nan_is_null, what)
    if kind == "None":
        column = nothing(len(values), what, lambda keys: _no_kind(View(keys).length))
        return column, lambda view: [None] * view.length, null
    column, objects = _READERS[kind](values, nulls, what)
    plain = column.give
    if column.stored is None or nulls is not None:

        def give(keys: Any) -> Any:
            view = View(keys)
            return plain(view) if view.nulls() is None else object_array(objects(view))

        if nulls is not None:
            column.stored = None
        if kind not in ("datetime64", "timedelta64", "tuple", "date", "datetime", "timedelta"):
            column.give, column.stored = give, None
    return column, objects, null


def _no_kind(length: int) -> Array:
    """Keys of a column in which there is nothing, or only nulls."""
    return object_array([None] * length) if length else np.empty(0)


# ---- a reader for each kind: (values, nulls, what) -> (the column, keys as objects) ---------------------------------

Made = tuple[Column, Objects]


def _with_nulls(values: list[Any], nulls: Array | None) -> list[Any]:
    if nulls is not None:
        for i in np.flatnonzero(nulls).tolist():
            values[i] = None
    return values


def _filled(values: list[Any], nulls: Array | None, filler: Any) -> list[Any]:
    """The elements, with something else for nulls."""
    if nulls is None:
        return values
    return [filler if null else x for x, null in zip(values, nulls.tolist(), strict=True)]


def _from_array(array: Array, nulls: Array | None, what: str) -> Made:
    column = numpy_arrays.column(array, what, nulls)
    give = column.give
    return column, lambda view: _with_nulls(give(view).tolist(), view.nulls())


def _bool(values: list[Any], nulls: Array | None, what: str) -> Made:
    return _from_array(_objects.booleans(values, nulls), nulls, what)


def _int(values: list[Any], nulls: Array | None, what: str) -> Made:
    return _from_array(_objects.integers(values, nulls, what), nulls, what)


def _float(values: list[Any], nulls: Array | None, what: str) -> Made:
    return _from_array(_objects.floats(values, nulls, what), nulls, what)


def _complex(values: list[Any], nulls: Array | None, what: str) -> Made:
    return _from_array(np.array(_filled(values, nulls, 0), "c16"), nulls, what)


def _is(nulls: Array | None, i: int) -> bool:
    return nulls is not None and bool(nulls[i])


def _text(values: list[Any], nulls: Array | None, what: str) -> Made:
    made = _utf8.texts(values, nulls, what)
    format = "U" if isinstance(next(x for i, x in enumerate(values) if not _is(nulls, i)), str) else "Z"
    return text(format, made, what, lambda keys: text_array(View(keys)), nulls), View.objects


def text_array(view: View) -> Array:
    """Text or bytes as U or S; as objects where these would lose a NUL or a null, or take much memory."""
    kind = "U" if view.format in ("u", "U", "vu") else "S"
    most, trailing, total = view.widest()
    width = most * (4 if kind == "U" else 1)
    if trailing or view.length * width > max(_ROOM, _WASTE * total) or view.nulls() is not None:
        return object_array(view.objects())
    return view.padded(f"{kind}{max(most, 1)}")


def _from_numbers(
    format: str, dtype: str, numbers: Any, nulls: Array | None, what: str, back: Callable[[int], Any]
) -> Made:
    """Numbers that are Python objects again by `back`."""

    def objects(view: View) -> list[Any]:
        return _with_nulls([back(number) for number in view.values(dtype).tolist()], view.nulls())

    give = lambda keys: object_array(objects(View(keys)))  # noqa: E731
    return fixed(format, np.array(numbers, dtype), what, give, nulls), objects


def _date(values: list[Any], nulls: Array | None, what: str) -> Made:
    return _from_array(_objects.days(values, nulls).view("M8[D]"), None, what)


def _datetime(values: list[Any], nulls: Array | None, what: str) -> Made:
    if any(hasattr(sort, "to_datetime64") for sort in set(map(type, values))):
        scalars = [x if x is None else _datetime64(x) for x in _filled(values, nulls, None)]
        return _pandas_scalars(scalars, nulls, what)
    return _from_array(_objects.microseconds(values, nulls, _EPOCH, what).view("M8[us]"), None, what)


def _datetime64(x: Any) -> Any:
    return x.to_datetime64() if hasattr(x, "to_datetime64") else np.datetime64(x, "us")


def _aware(values: list[Any], nulls: Array | None, what: str) -> Made:
    for i, x in enumerate(values):
        if getattr(x, "nanosecond", 0) and not _is(nulls, i):
            raise TypeError(f"{what}[{i}] has nanoseconds and a time zone: pass pandas' Series, pd.Series({what})")
    micros = _objects.microseconds(values, nulls, _EPOCH_UTC, what)
    return _from_numbers("tsu:UTC", "i8", micros, nulls, what, lambda n: _EPOCH_UTC + n * _MICROSECOND)


def _time(values: list[Any], nulls: Array | None, what: str) -> Made:
    day = datetime.datetime.combine
    micros = [(day(_EPOCH, x) - _EPOCH) // _MICROSECOND for x in _filled(values, nulls, datetime.time())]
    return _from_numbers("ttu", "i8", micros, nulls, what, lambda n: (_EPOCH + n * _MICROSECOND).time())


def _timedelta(values: list[Any], nulls: Array | None, what: str) -> Made:
    if any(hasattr(sort, "to_timedelta64") for sort in set(map(type, values))):
        scalars = [x if x is None else _timedelta64(x, what) for x in _filled(values, nulls, None)]
        return _pandas_scalars(scalars, nulls, what)
    return _from_array(_objects.microseconds(values, nulls, None, what).view("m8[us]"), None, what)


def _timedelta64(x: Any, what: str) -> Any:
    if hasattr(x, "to_timedelta64"):
        return x.to_timedelta64()
    return np.timedelta64(int(_objects.microseconds([x], None, None, what)[0]), "us")


def _scalars(values: list[Any], nulls: Array | None, what: str) -> Made:
    """numpy's times, of any units, in the finest one in which all of them are exact."""
    kept = values if nulls is None else [x for x in _filled(values, nulls, None) if x is not None]
    dtypes = {x.dtype for x in kept}
    if len(dtypes) == 1:
        array = _objects.ticks(values, nulls).view(kept[0].dtype)
    else:
        groups = [np.array([x for x in kept if x.dtype == dtype], dtype) for dtype in dtypes]
        common = next((unit for unit in _units(dtypes) if _all(groups, unit)), None)
        if common is None:
            first, other = kept[0].dtype, next(x.dtype for x in kept if x.dtype != kept[0].dtype)
            places = [next(i for i, x in enumerate(values) if getattr(x, "dtype", None) == d) for d in (first, other)]
            raise OverflowError(
                f"{what}[{places[0]}] has dtype {first}, {what}[{places[1]}] {other}, and no unit holds all elements "
                "exactly: pass columns of one unit"
            )
        array = np.full(len(values), "NaT", common)
        array[slice(None) if nulls is None else ~nulls] = [x.astype(common) for x in kept]
    column = numpy_arrays.column(array, what)
    give = column.give
    return column, lambda view: _with_nulls(list(give(view)), view.nulls())


def _pandas_scalars(values: list[Any], nulls: Array | None, what: str) -> Made:
    """Timestamps or Timedeltas of pandas, given as numpy's times; as objects they are pandas' again."""
    pandas = sys.modules["pandas"]
    column, objects = _scalars(values, nulls, what)
    sort = pandas.Timestamp if column.give(np.zeros(0, "i8")).dtype.kind == "M" else pandas.Timedelta
    return column, lambda view: [x if x is None else sort(x) for x in objects(view)]


def _units(dtypes: set[np.dtype[Any]]) -> list[np.dtype[Any]]:
    """The unit that numpy has for all of these, then the coarser ones."""
    try:
        finest = np.result_type(*dtypes)
    except TypeError:  # months and days have none
        return []
    coarser = _UNITS[_UNITS.index(np.datetime_data(finest)[0]) + 1 :]
    return [finest, *(np.dtype(f"{finest.kind}8[{unit}]") for unit in coarser)]


def _all(groups: list[Array], unit: np.dtype[Any]) -> bool:
    return all(numpy_arrays.as_dtype(group, unit) is not None for group in groups)


def _decimal(values: list[Any], nulls: Array | None, what: str) -> Made:
    parts = [x if x is None else x.as_tuple() for x in _filled(values, nulls, None)]
    for i, part in enumerate(parts):
        if part is not None and isinstance(part.exponent, str):
            raise TypeError(f"{what}[{i}] is {values[i]}, which decimals of a column lack: pass None, or floats")
    scale = max(0, *(-part.exponent for part in parts if part is not None), 0)
    numbers = []
    for i, part in enumerate(parts):
        number = 0
        if part is not None:
            digits = int("".join(map(str, part.digits)))
            number = digits * 10 ** min(part.exponent + scale, _DIGITS) if digits else 0
        if number >= 10**_DIGITS or (part is not None and -part.exponent > _DIGITS):
            raise OverflowError(
                f"{what}[{i}] is {values[i]}, which has more than {_DIGITS} digits with the column's {scale} decimal "
                f"places: pass text, [str(x) for x in {what}]"
            )
        numbers.append(-number if part is not None and part.sign else number)
    words = np.frombuffer(b"".join(n.to_bytes(16, "little", signed=True) for n in numbers), "u8")

    def objects(view: View) -> list[Any]:
        cells = view.values("V16").tolist()
        return _with_nulls([decimal_of(cell, scale) for cell in cells], view.nulls())

    give = lambda keys: object_array(objects(View(keys)))  # noqa: E731
    column = fixed(f"d:{_DIGITS},{scale}", words.view("V16"), what, give, nulls)
    return column, objects


def decimal_of(cell: bytes, scale: int) -> Decimal:
    """The number of a cell of decimals."""
    number = int.from_bytes(cell, "little", signed=True)
    return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale))


def _tuple(values: list[Any], nulls: Array | None, what: str) -> Made:
    first = next(i for i in range(len(values)) if not _is(nulls, i))
    width = len(values[first])
    if width == 0:
        raise TypeError(f"{what}[{first}] is a tuple of nothing: pass tuples of one element or more")
    rows = _filled(values, nulls, (None,) * width)
    if set(map(len, rows)) != {width}:
        i = next(i for i, row in enumerate(rows) if len(row) != width)
        raise TypeError(
            f"{what}[{i}] is a tuple of {len(rows[i])}, {what}[{first}] of {width}: pass tuples of one length, with "
            "None for what is absent"
        )
    made = [_column([row[j] for row in rows], False, f"{what}, field {j},") for j in range(width)]

    def objects(view: View) -> list[Any]:
        rows = list(zip(*(make[1](view.child(j)) for j, make in enumerate(made)), strict=True))
        return _with_nulls(rows, view.nulls())

    names = [str(j) for j in range(width)]
    return struct([make[0] for make in made], names, what, objects, nulls), objects


_READERS: dict[str, Callable[[list[Any], Array | None, str], Made]] = {
    "bool": _bool,
    "int": _int,
    "float": _float,
    "complex": _complex,
    "str": _text,
    "bytes": _text,
    "date": _date,
    "datetime": _datetime,
    "datetime with a time zone": _aware,
    "time": _time,
    "timedelta": _timedelta,
    "datetime64": _scalars,
    "timedelta64": _scalars,
    "Decimal": _decimal,
    "tuple": _tuple,
}
