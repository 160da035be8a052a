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

Elements compare by their bits. Bytes that end in NUL are refused, as numpy's "S" gives them back without it: rows of
bytes, ("u1", 16), have every one. Rows also come from frames of as many columns, each read by its own type.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pygpuhash import _numbers
from pygpuhash.columns import flat

__all__ = ["base_and_shape", "check", "from_store", "is_record", "store", "to_store", "wrong_shape"]

Array = np.ndarray[Any, Any]


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
    if dtype.kind == "V" and not issubclass(dtype.type, np.void):
        raise TypeError(
            f"{what}={dtype} is a type of {dtype.type.__module__}, not of numpy: pass a wider one, 'float32' or 'int8'"
        )
    if dtype.kind == "V" and dtype.names is None and dtype.subdtype is None:
        raise TypeError(f"{what}={dtype} has no fields: pass for example ('u4', {max(dtype.itemsize // 4, 1)})")
    base = base_and_shape(dtype)[0]
    if base.kind == "S" and base.itemsize == 0:
        raise TypeError(f"{what}={dtype} has no width: pass how many bytes an element has at most, for example 'S16'")
    if not base.isnative:
        raise TypeError(f"{what}={dtype} is not in native byte order: pass {base.newbyteorder('=')!r}")
    if _packed(dtype) != dtype.itemsize:
        long = any(one.char in "gG" for one in _numbers_of(dtype))
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


def _numbers_of(dtype: np.dtype[Any]) -> list[np.dtype[Any]]:
    """The dtypes of the numbers in an element."""
    base = base_and_shape(dtype)[0]
    if base.fields is None:
        return [base]
    return [one for name in base.names or () for one in _numbers_of(base.fields[name][0])]


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


def to_store(given: Any, dtype: np.dtype[Any], stored: np.dtype[Any], what: str) -> Array:
    """`given` as a C-contiguous, aligned array of `stored`; no copy where none is due."""
    base, shape = base_and_shape(dtype)
    array = _as_base(given, base, shape, what)
    if array.size == 0 and array.ndim == 1:
        array = array.reshape(0, *shape)  # of no elements
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


def wrong_shape(given: tuple[int, ...], element: tuple[int, ...], what: str) -> str:
    """A sentence for an array whose last dimensions are not those of an element."""
    return f"{what} have shape {given}, and an element has shape {element}: pass shape {('n', *element)}".replace(
        "'", ""
    )


def _as_base(given: Any, base: np.dtype[Any], shape: tuple[int, ...], what: str) -> Array:
    """An array of the dtype `base`, when no element changes."""
    if not isinstance(given, np.ndarray) and flat.is_foreign(given):
        given = _of_columns(given, base, shape, what)
    if base.kind not in "SVc":
        return _numbers.to_base(given, base, what)
    if isinstance(given, np.ma.MaskedArray):
        raise TypeError(_numbers.masked(what))
    plain_python = isinstance(given, (list, tuple, str, bytes, complex, float, int))
    if base.kind == "S" and plain_python:
        return _bytes(given, base, what)
    if base.kind == "c" and plain_python:
        return _complexes(given, base, what)
    if plain_python and base.kind == "V":
        _check_fields(given, base, what)
    try:
        array = np.array(given, base) if plain_python and base.kind == "V" else np.asarray(given)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{what} cannot be read as {base}: {error}") from error
    if array.dtype == base:
        return array
    if array.size == 0 and array.dtype.kind in "biufmMO":
        return np.empty(array.shape, base)
    if base.kind == "S":
        return _bytes(array.tolist() if array.dtype == object else array, base, what)
    if base.kind == "c" and array.dtype.kind in "biuf":
        return _numbers.to_base(array, np.dtype(f"f{base.itemsize // 2}"), what).astype(base)
    if base.kind == "c" and array.dtype.kind == "c" and np.can_cast(array.dtype, base, "safe"):
        return array.astype(base)
    raise TypeError(f"{what} have dtype {array.dtype}, the table holds {base}: {_way_out(given, array, base, what)}")


def _of_columns(given: Any, base: np.dtype[Any], shape: tuple[int, ...], what: str) -> Array:
    """A column of pandas, polars or Arrow as an array of numpy; the columns of a frame as rows of as many numbers."""
    parts = flat.columns_of(given)
    if parts is None:
        return _numbers.from_stranger(given, what)
    if shape != (len(parts),) or base.kind in "SV":
        element = np.dtype((base, shape)) if shape else base
        raise TypeError(
            f"{what} is a {type(given).__name__} of {len(parts)} columns, and an element of the table is {element}: "
            f"{_way_out(given, np.empty(0), base, what) if base.names else 'pass as many columns, or one array'}"
        )
    columns = [_as_base(part, base, (), f"{what}[{name!r}]") for name, part in parts]
    return np.stack(columns, axis=1)


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


def _check_fields(given: Any, base: np.dtype[Any], what: str) -> None:
    """Refuse what fields do not hold: numpy would round it, cut it, or write one number into every field."""
    tuples: list[Any] = []
    _find_tuples(given, base, what, tuples)
    names = base.names or ()
    for element in tuples:
        if len(element) != len(names):
            raise TypeError(f"{what}: {element!r} is no element of {base}: pass a tuple of {len(names)} for each")
    for i, name in enumerate(names):
        column = [element[i] for element in tuples]
        if column and not (len(column) == 1 and _is_plain(column[0], base[name])):
            _check_field(column, base[name], f"{what}, field {name!r}")


def _check_field(column: list[Any], field: np.dtype[Any], what: str) -> None:
    inner, shape = base_and_shape(field)
    if inner.names is not None:
        _check_fields(column, inner, what)
    elif inner.kind == "U" or (inner.kind == "V" and field.subdtype is None):
        sort, width = (str, inner.itemsize // 4) if inner.kind == "U" else (bytes, inner.itemsize)
        for i, x in enumerate(column):
            fits = isinstance(x, sort) and (len(x) <= width if sort is str else len(x) == width)
            if not fits or (sort is str and x.endswith("\0")):
                raise TypeError(f"{what}: {x!r} is no element of {inner} (element {i}): convert it")
    elif inner.kind == "V":
        raise TypeError(f"{what} has dtype {field}: pass an array of dtype {field}")
    else:
        array = _as_base(column, inner, (), what)
        if array.shape != (len(column), *shape):
            raise TypeError(f"{what} has shape {array.shape[1:]}, and an element has shape {shape}: pass {shape}")


def _is_plain(value: Any, field: np.dtype[Any]) -> bool:
    """Does the field certainly hold this value unchanged? False where that takes longer to find out."""
    if field.kind == "f":
        return type(value) is float and abs(value) < 1 << 15  # of more, some become infinite
    return type(value) is int and field.kind in "iu" and 0 <= value < 1 << 8 * field.itemsize - 1


def _find_tuples(given: Any, base: np.dtype[Any], what: str, found: list[Any]) -> None:
    if isinstance(given, list):
        for element in given:
            _find_tuples(element, base, what, found)
    elif isinstance(given, tuple):
        found.append(given)
    elif isinstance(given, (np.void, np.ndarray)) and given.dtype != base:
        raise TypeError(
            f"{what}: an element has dtype {given.dtype}, the table holds {base}: pass tuples, or one array"
        )
    elif not isinstance(given, (np.void, np.ndarray)):
        raise TypeError(f"{what}: {given!r} is no element of {base}: pass a tuple of {len(base.names or ())} for each")


def _bytes(given: Any, base: np.dtype[Any], what: str) -> Array:
    """Bytes of any width as those of a table; Python's are looked at for NULs at their ends, which numpy drops."""
    array = given if isinstance(given, np.ndarray) else _numbers.objects(given, what)
    if array.dtype.kind == "S":
        lengths = np.char.str_len(array)
    else:
        _refuse_others(array, base, what)
        if not array.size:
            return np.empty(array.shape, base)
        lengths = np.fromiter(map(len, array.flat), np.int64, array.size).reshape(array.shape)
    if lengths.max(initial=0) > base.itemsize:
        raise OverflowError(
            f"{what}: an element has {lengths[lengths > base.itemsize].flat[0]} bytes, the table's have at most "
            f"{base.itemsize}{_place(array, lengths > base.itemsize)}"
        )
    result = array.astype(base)
    cut = np.asarray(np.char.str_len(result) != lengths)
    if cut.any():
        raise _numbers.DoesNotFit(
            f"{what}: {array[cut].flat[0]!r} ends in NUL{_place(array, cut)}, which numpy's {base} does not give back: "
            f"make a table of rows, ('u1', {base.itemsize}), and pass np.frombuffer(..., 'u1')"
        )
    return result


def _place(array: Array, where: Array) -> str:
    """Words for where the first of some elements is, to follow a sentence about it."""
    at = int(np.argmax(where))
    if array.ndim == 0:
        return ""
    return f" (element {at if array.ndim == 1 else tuple(int(k) for k in np.unravel_index(at, array.shape))})"


def _refuse_others(array: Array, base: np.dtype[Any], what: str) -> None:
    """Refuse elements that are no bytes."""
    sorts = {type(x) for x in array.flat} if array.dtype == object else {array.dtype.type}
    if sorts <= {bytes, np.bytes_}:
        return
    if sorts <= {str, np.str_}:
        raise TypeError(f"{what} are text, the table holds bytes: pass np.char.encode(np.asarray({what}, str))")
    names = " and ".join(sorted(sort.__name__ for sort in sorts))
    odd = np.array([not isinstance(x, bytes) for x in array.flat], bool).reshape(array.shape)
    raise TypeError(
        f"{what} are {names}{_place(array, odd)}, the table holds {base}: pass bytes, and nothing that is missing"
    )


def _complexes(given: Any, base: np.dtype[Any], what: str) -> Array:
    """Python's numbers as complex ones, each part by the rules for floats."""
    array = _numbers.objects(given, what)
    numbers = [x if isinstance(x, (complex, np.complexfloating)) else None for x in array.flat]
    half = np.dtype(f"f{base.itemsize // 2}")
    real = [x if z is None else z.real for x, z in zip(array.flat, numbers, strict=True)]
    result = np.empty(array.size, base)
    result.real = _numbers.to_base(real, half, what)
    result.imag = _numbers.to_base([0.0 if z is None else z.imag for z in numbers], half, what)
    return result.reshape(array.shape)
