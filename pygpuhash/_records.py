"""Keys and values of several numbers: rows of arrays, structured dtypes, bytes of fixed width, complex numbers.

An element is as many bytes as its dtype has, which have to be a multiple of 4. The library sees elements of 4 bytes as
uint32, of 8 as uint64, and wider ones as void dtypes of their size:

=====================  ===============================  ==================================
dtype                  an array of n elements           for example
=====================  ===============================  ==================================
("u4", 3)              shape (n, 3), dtype u4           coordinates, embeddings
[("x", "i4"), ...]     shape (n,), that dtype           composite keys; fields are packed
"S16"                  shape (n,), bytes up to 16       identifiers; shorter ones end in 0
complex64, complex128  shape (n,), that dtype
=====================  ===============================  ==================================

Elements compare by their bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["base_and_shape", "check", "from_store", "is_record", "masked", "store", "to_store", "wrong_shape"]

Array = np.ndarray[Any, Any]
Numbers = Callable[[Any, np.dtype[Any], str], Array]


def is_record(dtype: np.dtype[Any] | None) -> bool:
    """Is this the dtype of elements that are more than one number?"""
    return dtype is not None and (dtype.subdtype is not None or dtype.kind in "SVc")


def base_and_shape(dtype: np.dtype[Any]) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """The dtype of an array of such elements, and the dimensions that it has for each of them."""
    return dtype.subdtype if dtype.subdtype is not None else (dtype, ())


def check(dtype: np.dtype[Any], what: str) -> None:
    """Refuse a dtype whose bits are not all an element's own, or not a multiple of 4 bytes."""
    if dtype.hasobject:
        raise TypeError(f"{what}={dtype} holds Python objects, which have no bits: use numbers or bytes")
    if dtype.kind == "V" and dtype.names is None and dtype.subdtype is None:
        raise TypeError(f"{what}={dtype} has no fields: pass for example ('u4', {max(dtype.itemsize // 4, 1)})")
    base = base_and_shape(dtype)[0]
    if base.kind == "S" and base.itemsize == 0:
        raise TypeError(f"{what}={dtype} has no width: pass how many bytes an element has at most, for example 'S16'")
    if not base.isnative:
        raise TypeError(f"{what}={dtype} is not in native byte order: pass {base.newbyteorder('=')!r}")
    if _packed(dtype) != dtype.itemsize:
        long = any(one.char in "gG" for one in _numbers(dtype))
        way_out = "leave align=True out, or make the gaps fields"
        raise TypeError(
            f"{what}={dtype} has {dtype.itemsize - _packed(dtype)} bytes of padding, by which equal elements would "
            f"differ: {'pass float64 or complex128' if long else way_out}"
        )
    if dtype.itemsize == 0 or dtype.itemsize % 4:
        raise TypeError(
            f"{what}={dtype} has {dtype.itemsize} bytes, elements have a multiple of 4: make it "
            f"{dtype.itemsize // 4 * 4 + 4} bytes wide"
        )


def _numbers(dtype: np.dtype[Any]) -> list[np.dtype[Any]]:
    """The dtypes of the numbers in an element."""
    base = base_and_shape(dtype)[0]
    if base.fields is None:
        return [base]
    return [one for name in base.names or () for one in _numbers(base.fields[name][0])]


def _packed(dtype: np.dtype[Any]) -> int:
    """Bytes of the numbers in an element."""
    base, shape = base_and_shape(dtype)
    one = {"g": 10, "G": 20}.get(base.char, base.itemsize)  # long doubles have 80 bits
    if base.fields is not None:
        one = sum(_packed(base.fields[name][0]) for name in base.names or ())
    return one * math.prod(shape)


def store(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype that the library sees."""
    return np.dtype({4: "u4", 8: "u8"}.get(dtype.itemsize, f"V{dtype.itemsize}"))


def to_store(given: Any, dtype: np.dtype[Any], stored: np.dtype[Any], what: str, numbers: Numbers) -> Array:
    """`given` as a C-contiguous, aligned array of `stored`; no copy where none is due.

    numbers : `_arrays.to_base`, which knows when no number changes.
    """
    base, shape = base_and_shape(dtype)
    array = _as_base(given, base, what, numbers)
    lead = array.ndim - len(shape)
    if array.shape[lead:] != shape:  # of too few dimensions the slice is shorter
        raise ValueError(wrong_shape(array.shape, shape, what))
    array = np.ascontiguousarray(array).reshape(array.shape)  # which makes one dimension of none
    unit = 8 if stored.itemsize == 8 else 4
    if array.ctypes.data % unit:
        array = array.copy()
    return np.ndarray(array.shape[:lead], stored, buffer=array.reshape(-1).view(np.uint8))


def from_store(array: Array, dtype: np.dtype[Any]) -> Array:
    """The inverse of `to_store`."""
    base, shape = base_and_shape(dtype)
    return np.ascontiguousarray(array).reshape(-1).view(base).reshape(array.shape + shape)


def masked(what: str) -> str:
    """A sentence for an array with a mask, which would be lost."""
    return f"{what} is a masked array, and a table has no masked elements: pass {what}.compressed()"


def wrong_shape(given: tuple[int, ...], element: tuple[int, ...], what: str) -> str:
    """A sentence for an array whose last dimensions are not those of an element."""
    return f"{what} have shape {given}, and an element has shape {element}: pass shape {('n', *element)}".replace(
        "'", ""
    )


def _as_base(given: Any, base: np.dtype[Any], what: str, numbers: Numbers) -> Array:
    """An array of the dtype `base`, when no element changes."""
    if base.kind not in "SVc":
        return numbers(given, base, what)
    if isinstance(given, np.ma.MaskedArray):
        raise TypeError(masked(what))
    plain_python = isinstance(given, (list, tuple, bytes, complex, float, int))
    if plain_python and base.kind == "V":
        _check_fields(given, base, what, numbers)
    try:
        array = np.array(given, base) if plain_python and base.kind == "V" else np.asarray(given)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{what} cannot be read as {base}: {error}") from error
    if array.dtype == base:
        return array
    if array.size == 0 and array.dtype.kind in "biufmMO":
        return np.empty(array.shape, base)
    if base.kind == "S":
        array = _as_bytes(array, base, what)
        if array.dtype.itemsize > base.itemsize and np.char.str_len(array).max(initial=0) > base.itemsize:
            longest = int(np.char.str_len(array).max())
            raise OverflowError(f"{what}: an element has {longest} bytes, the table's have at most {base.itemsize}")
        return array.astype(base)
    if base.kind == "c" and (np.can_cast(array.dtype, base, "safe") or (plain_python and array.dtype.kind in "biufc")):
        return array.astype(base)
    raise TypeError(f"{what} have dtype {array.dtype}, the table holds {base}: {_way_out(given, array, base, what)}")


def _way_out(given: Any, array: Array, base: np.dtype[Any], what: str) -> str:
    """How an array of another dtype is made one of records."""
    names = list(base.names or ())
    if names and array.dtype.names is not None and set(array.dtype.names) == set(names):
        return f"pass {what}[{names}].astype({base}), once you know that they fit"
    if names and hasattr(given, "to_records"):  # pandas
        return f"pass {what}[{names}].to_records(index=False).astype({base}), once you know that they fit"
    if names:
        return (
            f"pass np.rec.fromarrays(columns, dtype={base}) with a column for each field, once you know that they fit"
        )
    return f"pass {what}.astype('{base}')" if base.kind == "c" and array.dtype.kind in "biufc" else "convert them"


def _check_fields(given: Any, base: np.dtype[Any], what: str, numbers: Numbers) -> None:
    """Refuse Python's numbers that fields do not hold: numpy would round them, or write one into every field."""
    tuples: list[Any] = []
    _find_tuples(given, base, what, tuples)
    names = base.names or ()
    for element in tuples:
        if len(element) != len(names):
            raise TypeError(f"{what}: {element!r} is no element of {base}: pass a tuple of {len(names)} for each")
    for i, name in enumerate(names):
        field = base[name]
        column = [element[i] for element in tuples]
        if field.names is not None:
            _check_fields(column, field, f"{what}, field {name!r}", numbers)
        elif field.kind in "biufmM" and column and not (len(column) == 1 and _is_plain(column[0], field)):
            numbers(column, field, f"{what}, field {name!r}")


def _is_plain(value: Any, field: np.dtype[Any]) -> bool:
    """Is this certain to be held as it is? It need not be found out for all that are: it only saves time."""
    if field.kind == "f":
        return type(value) is float and abs(value) < 1 << 15  # of more, some become infinite
    return type(value) is int and field.kind in "iu" and 0 <= value < 1 << 8 * field.itemsize - 1


def _find_tuples(given: Any, base: np.dtype[Any], what: str, found: list[Any]) -> None:
    if isinstance(given, list):
        for element in given:
            _find_tuples(element, base, what, found)
    elif isinstance(given, tuple):
        found.append(given)
    elif not isinstance(given, (np.void, np.ndarray)):
        raise TypeError(f"{what}: {given!r} is no element of {base}: pass a tuple of {len(base.names or ())} for each")


def _as_bytes(array: Array, base: np.dtype[Any], what: str) -> Array:
    """Bytes of any width; those of a column are Python objects."""
    sorts = {type(x) for x in array.flat} if array.dtype == object else {array.dtype.type}
    if sorts <= {bytes, np.bytes_}:
        return array.astype("S")
    if sorts <= {str, np.str_}:
        raise TypeError(f"{what} are text, the table holds bytes: pass np.char.encode(np.asarray({what}, str))")
    names = " and ".join(sorted(sort.__name__ for sort in sorts))
    raise TypeError(f"{what} are {names}, the table holds {base}: pass bytes")
