"""numpy's arrays as columns: without a copy where Arrow has the same memory.

==============================  ==================================  =============================================
dtype                           Arrow                               memory
==============================  ==================================  =============================================
integers, f2, f4, f8            the same                            shared; strided, misaligned and swapped: copied
bool                            bool                                copied: bits
datetime64, timedelta64         timestamp, duration; NaT is null    s, ms, us, ns: shared; other units: copied into
                                                                    the nearest that holds every element, days as
                                                                    date32
U, S, StringDType               large text, bytes                   copied; U and S without trailing NULs, as numpy
                                                                    compares them
V                               bytes of fixed width                shared
complex64, complex128           struct of two floats                copied
structured                      struct; padding is left out         copied, field by field
==============================  ==================================  =============================================

Keys come back in the dtype that was given. Masked elements are null, and come back masked.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pygpuhash.columns import _buffers, _utf8
from pygpuhash.columns._buffers import View
from pygpuhash.columns.column import Array, Column, Give, fixed, in_shape, struct, text

__all__ = ["FORMATS", "SCHEMAS", "as_dtype", "column", "read"]

_NATIVE = "<" if np.little_endian else ">"
FORMATS = {
    np.dtype(code).str: format
    for code, format in zip(
        ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"), "cCsSiIlLefg", strict=True
    )
}
SCHEMAS = {np.dtype(code): _buffers.schema(format) for code, format in FORMATS.items()}  # of numbers
# The units of Arrow that may hold elements of a unit: the nearest first.
_TARGETS = dict.fromkeys("YMWD", ("D", "s")) | dict.fromkeys("hm", ("s",)) | dict.fromkeys(("ps", "fs", "as"), ("ns",))
_TARGETS |= {unit: (unit,) for unit in ("s", "ms", "us", "ns")}


def read(given: Array, what: str) -> Column:
    """A column of an array of one or more dimensions, which count in C order.

    Raises TypeError for dtypes without an equality here, OverflowError for times that no unit of Arrow holds.
    """
    if type(given) is np.ndarray and given.ndim == 1:
        return column(given, what)
    if given.ndim == 0:
        raise TypeError(f"{what} has no dimension: pass {what}.reshape(1)")
    nulls = None
    shape = given.shape
    if type(given) is not np.ndarray and isinstance(given, np.ma.MaskedArray):  # np.ma takes 50 ms to import
        if given.dtype.names:
            raise TypeError(f"{what} is a masked array of several fields: pass a tuple of columns")
        nulls = np.ma.getmaskarray(given).reshape(-1)
        given = np.ma.getdata(given)
    array = np.asarray(given)
    if array.ndim > 1:
        array = array.reshape(-1)
    if nulls is not None:
        out = column(array, what, nulls if nulls.any() else None)
        out.give = _masked(out.give)
        out.stored = None
    else:
        out = column(array, what)
    out.shape = shape
    out.give_numbers = in_shape(shape)
    return out


def _masked(give: Give) -> Give:
    def masked(keys: Any) -> Any:
        view = View(keys)
        nulls = view.nulls()
        return np.ma.MaskedArray(give(view), mask=False if nulls is None else nulls)

    return masked


def column(array: Array, what: str, nulls: Array | None = None) -> Column:
    """A column of a one-dimensional array, null where `nulls` is True."""
    dtype = array.dtype
    if dtype in SCHEMAS:
        return _plain(FORMATS[dtype.str], array, what, nulls)
    if not dtype.isnative and dtype.names is None:
        out = column(array.astype(dtype.newbyteorder("=")), what, nulls)
        native = out.give
        out.give, out.stored = lambda keys: native(keys).astype(dtype), None
        return out
    if dtype.kind in "mM":
        return _times(array, what, nulls)
    if dtype.names is not None:
        return _structured(array, what, nulls)
    array = _contiguous(array)
    format = FORMATS.get(dtype.str)
    if dtype.type is np.void:
        if dtype.itemsize == 0:
            raise TypeError(f"{what} has dtype {dtype} of no bytes: pass elements of one byte or more")
        format = f"w:{dtype.itemsize}"
    elif dtype.kind == "V":  # numbers that numpy does not know
        format = None
    if format is not None:
        return _plain(format, array, what, nulls)
    if dtype.kind == "b":
        bits = np.packbits(array, bitorder="little")
        out = fixed("b", bits, what, lambda keys: _values(keys, dtype), nulls, len(array))
        out.stored = dtype
        return out
    if dtype.kind in "US":
        made = _utf8.from_fixed_text(array, what)
        return text("U" if dtype.kind == "U" else "Z", made, what, lambda keys: View(keys).padded(dtype), nulls)
    if dtype.kind == "T":
        return _string_dtype(array, what, nulls)
    if dtype.kind == "c" and dtype.itemsize <= 16:
        return _complex(array, what, nulls)
    raise TypeError(f"{what} has dtype {dtype}, which has no equality here: {_way_out(dtype, what)}")


def _plain(format: str, array: Array, what: str, nulls: Array | None) -> Column:
    """A column of cells as they lie in the array."""
    array, dtype = _contiguous(array), array.dtype
    out = fixed(format, array, what, lambda keys: _values(keys, dtype), nulls)
    out.stored = dtype
    out.memory = array if nulls is None else None
    return out


def _way_out(dtype: np.dtype[Any], what: str) -> str:
    if dtype.kind == "O":
        return f"pass a tuple of columns, or {what}.tolist()"
    if dtype.kind in "fc":
        return f"pass {what}.astype('{'f8' if dtype.kind == 'f' else 'c16'}') where no digit is lost, or text"
    return f"pass {what}.astype('f4')" if dtype.kind == "V" else "pass numbers, text, bytes or times"


def _contiguous(array: Array) -> Array:
    if array.flags.c_contiguous and array.flags.aligned:
        return array
    return np.array(array, order="C", copy=True)


def _values(keys: Any, dtype: np.dtype[Any]) -> Array:
    """Keys of a fixed type: an array of the dtype over the memory of Arrow's, or the array that they are."""
    if isinstance(keys, np.ndarray):
        return keys if keys.dtype == dtype else keys.view(dtype)
    return View(keys).values(dtype)


# ---- text ------------------------------------------------------------------------------------------------------------


def _string_dtype(array: Array, what: str, nulls: Array | None) -> Column:
    dtype: Any = array.dtype
    values = array.astype(object).tolist()
    if hasattr(dtype, "na_object") and not isinstance(dtype.na_object, str):
        missing = np.array([not isinstance(value, str) for value in values], bool)
        nulls = missing if nulls is None else nulls | missing
        nulls = nulls if nulls.any() else None

    def give(keys: Any) -> Array:
        texts = View(keys).objects()
        return np.array([getattr(dtype, "na_object", "") if x is None else x for x in texts], dtype)

    return text("U", _utf8.texts(values, nulls, what), what, give, nulls)


# ---- times -----------------------------------------------------------------------------------------------------------


def _times(array: Array, what: str, nulls: Array | None) -> Column:
    """In the unit of the dtype, or the nearest one of Arrow that holds every element."""
    dtype = array.dtype
    unit, count = np.datetime_data(dtype)
    missing = np.isnat(array)
    nulls = missing if nulls is None else nulls | missing
    nulls = nulls if nulls.any() else None
    if unit == "generic":
        if not missing.all():
            raise TypeError(f"{what} has dtype {dtype} without a unit: pass {what}.astype('{dtype.kind}8[s]')")
        targets: tuple[str, ...] = ("s",)
    elif dtype.kind == "m" and unit in "YM":
        raise TypeError(
            f"{what} has dtype {dtype}: years and months have no length in seconds: pass the numbers, "
            f"{what}.astype('i8')"
        )
    else:
        targets = tuple(target for target in _TARGETS[unit] if dtype.kind == "M" or target != "D")
    for target in targets:
        same = unit == target and count == 1
        moved = _contiguous(array) if same else as_dtype(array, np.dtype(f"{dtype.kind}8[{target}]"))
        if moved is not None and (target != "D" or _fits_date32(moved)):
            return _of_unit(moved, target, dtype, what, nulls)
    worst = next(
        i for i in range(len(array)) if as_dtype(array[i : i + 1], np.dtype(f"{dtype.kind}8[{targets[-1]}]")) is None
    )
    raise OverflowError(
        f"{what}[{worst}] is {array[worst].astype('i8')} of {dtype}, which no unit of Arrow holds exactly: pass the "
        f"numbers, {what}.astype('i8')"
    )


def as_dtype(array: Array, dtype: np.dtype[Any]) -> Array | None:
    """Times in another unit, or None when one of them would change."""
    try:
        moved = array.astype(dtype)
        back = moved.astype(array.dtype)
    except (OverflowError, TypeError, ValueError):
        return None
    return moved if bool(((back.view("i8") == _contiguous(array).view("i8")) | np.isnat(array)).all()) else None


def _fits_date32(days: Array) -> bool:
    numbers = days.view("i8")
    return bool(((numbers == numbers.astype("i4")) | np.isnat(days)).all())


def _of_unit(array: Array, unit: str, dtype: np.dtype[Any], what: str, nulls: Array | None) -> Column:
    """A column of times in a unit of Arrow; keys come back as `dtype`."""
    days = unit == "D"
    numbers = array.view("i8").astype("i4") if days else array.view("i8")
    format = "tdD" if days else f"t{'s' if dtype.kind == 'M' else 'D'}{unit[0]}{':' if dtype.kind == 'M' else ''}"

    def in_dtype(values: Array) -> Array:
        return values.astype(dtype, copy=False) if np.datetime_data(dtype)[0] != "generic" else values.view(dtype)

    def give(keys: Any) -> Array:
        if isinstance(keys, np.ndarray):
            return in_dtype(keys.astype("i8", copy=False).view(array.dtype))
        view = View(keys)
        absent = view.nulls()
        values = view.values(numbers.dtype).astype("i8", copy=absent is not None).view(array.dtype)
        if absent is not None:
            values[absent] = "NaT"
        return in_dtype(values)

    out = fixed(format, numbers, what, give, nulls)
    out.stored = numbers.dtype
    return out


# ---- several numbers in an element -----------------------------------------------------------------------------------


def _complex(array: Array, what: str, nulls: Array | None) -> Column:
    dtype = array.dtype
    half = np.dtype(f"f{dtype.itemsize // 2}")
    parts = [column(array.view(half)[i::2], f"{what}.{name}") for i, name in enumerate(("real", "imag"))]

    def give(keys: View) -> Array:
        pairs = np.empty((keys.length, 2), half)
        pairs[:, 0], pairs[:, 1] = keys.child(0).values(half), keys.child(1).values(half)
        return pairs.view(dtype).reshape(-1)

    return struct(parts, ("real", "imag"), what, give, nulls)


def _structured(array: Array, what: str, nulls: Array | None) -> Column:
    """A struct of the fields; those of a subarray dtype are a struct of its elements."""
    dtype = array.dtype
    names = dtype.names or ()
    if not names:
        raise TypeError(f"{what} has dtype {dtype} of no fields: pass a dtype with one or more")
    parts = [_field(array[name], f"{what}[{name!r}]") for name in names]

    def give(keys: View) -> Array:
        rows = np.zeros(keys.length, dtype)
        for i, name in enumerate(names):
            rows[name] = parts[i].give(keys.child(i))
        return rows

    return struct(parts, names, what, give, nulls)


def _field(array: Array, what: str) -> Column:
    if array.ndim == 1:
        return column(array, what)
    width = int(np.prod(array.shape[1:]))
    if width == 0:
        raise TypeError(f"{what} has shape {array.shape[1:]} of no elements: leave the field out")
    rows = array.reshape(len(array), width)
    parts = [column(rows[:, i], f"{what}[{i}]") for i in range(width)]

    def give(keys: View) -> Array:
        values = np.stack([parts[i].give(keys.child(i)) for i in range(width)], axis=1)
        return values.reshape(-1, *array.shape[1:])

    return struct(parts, [str(i) for i in range(width)], what, give)
