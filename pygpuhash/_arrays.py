"""What is an acceptable host array, and how its elements are stored.

A table stores keys and values of 4 or 8 bytes. `store_dtype` says which dtype the library sees:

=====================  ==========================================================================
given                  stored
=====================  ==========================================================================
4 or 8 bytes           the same bits
bool, uint8, uint16    uint32
int8, int16            int32
float16                keys: their 16 bits as uint32; values: float32
datetime64, timedelta  their 8 bytes as int64
=====================  ==========================================================================

Keys compare by their bits: -0.0 and 0.0 are different keys, and a NaN equals a NaN of the same bits.

An array is taken as it is when its dtype is the table's, its bytes are in native order, and it is C-contiguous and
aligned. A strided or misaligned array is copied. An array of another dtype is converted when no element can change
(a safe cast); otherwise it is refused. Python numbers and (nested) lists of them have no dtype: every element is
checked against the range of the table's dtype.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from pygpuhash.errors import InvalidArgument

__all__ = [
    "check_out",
    "from_store",
    "lossless",
    "on_device",
    "refuse_overlap",
    "store_dtype",
    "table_dtype",
    "to_store",
]

_NEVER_ON_DEVICE = (int, float, bool, list, tuple, str, bytes, range, np.generic, np.ndarray)
_DLPACK_CUDA = (2, 13)  # kDLCUDA, kDLCUDAManaged


def table_dtype(given: Any, what: str) -> np.dtype[Any]:
    """The dtype of a table's keys or values, or an error that says what can be had."""
    try:
        dtype: np.dtype[Any] = np.dtype(given)
    except TypeError as error:
        raise TypeError(f"{what}={given!r} is not a dtype: pass for example 'uint64' or 'float32'") from error
    if dtype.kind not in "biufmM" or dtype.itemsize > 8 or dtype.subdtype:
        raise TypeError(
            f"{what}={dtype} is not supported: pass an integer, float, bool, datetime64 or timedelta64 dtype of 1, 2, "
            "4 or 8 bytes"
        )
    if not dtype.isnative:
        raise TypeError(f"{what}={dtype.str!r} is not in native byte order: pass {dtype.newbyteorder('=').str!r}")
    return dtype


def store_dtype(dtype: np.dtype[Any], *, keys: bool) -> np.dtype[Any]:
    """The dtype of 4 or 8 bytes that a table stores for elements of `dtype`."""
    if dtype.kind in "mM":
        return np.dtype(np.int64)
    if dtype.itemsize >= 4:
        return dtype
    if dtype.kind == "f":
        return np.dtype(np.uint32 if keys else np.float32)
    return np.dtype(np.int32 if dtype.kind == "i" else np.uint32)


def to_store(given: Any, dtype: np.dtype[Any], store: np.dtype[Any], what: str) -> np.ndarray[Any, Any]:
    """`given` as a C-contiguous, aligned array of `store`, which stands for elements of `dtype`."""
    array = _as_dtype(given, dtype, what)
    if dtype.kind in "mM":
        array = array.view(store)
    elif dtype == np.float16 and store == np.uint32:
        array = array.view(np.uint16).astype(store)
    elif array.dtype != store:
        array = array.astype(store)
    if array.dtype is not store:
        array = array.view(store)
    if not (array.flags.c_contiguous and array.flags.aligned):
        array = np.array(array, order="C", copy=True)
    return array


def from_store(stored: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """The inverse of `to_store`. Values that were combined beyond the range of a small dtype wrap."""
    if dtype.kind in "mM":
        return stored.view(dtype)
    if dtype == np.float16 and stored.dtype == np.uint32:
        return stored.astype(np.uint16).view(dtype)
    if stored.dtype == dtype:
        return stored
    return stored.astype(dtype)


def on_device(array: Any) -> bool:
    """Does this object offer memory of a CUDA device?"""
    if isinstance(array, _NEVER_ON_DEVICE):
        return False
    device = getattr(array, "__dlpack_device__", None)
    if device is not None:
        return device()[0] in _DLPACK_CUDA
    return hasattr(array, "__cuda_array_interface__")


def check_out(out: Any, dtype: np.dtype[Any], shape: tuple[int, ...], what: str) -> None:
    """Refuse an output array that results cannot be written into."""
    if not isinstance(out, np.ndarray):
        raise TypeError(f"{what} is a {type(out).__name__}: pass a numpy array of {dtype}")
    if out.dtype != dtype:
        raise TypeError(f"{what} has dtype {out.dtype}, the results {dtype}: pass np.empty({shape}, '{dtype}')")
    if out.shape != shape:
        raise ValueError(f"{what} has shape {out.shape}, keys {shape}: pass np.empty({shape}, '{dtype}')")
    if not out.flags.writeable:
        raise ValueError(f"{what} is read-only: pass an array that can be written")
    if not (out.flags.c_contiguous and out.flags.aligned):
        raise ValueError(f"{what} is strided or misaligned: pass a C-contiguous array, np.empty({shape}, '{dtype}')")


def refuse_overlap(inputs: dict[str, Any], outputs: dict[str, Any]) -> None:
    """Refuse outputs that share memory with an input or with each other."""
    seen = {name: array for name, array in inputs.items() if array is not None}
    for name, array in outputs.items():
        if array is None:
            continue
        for other_name, other in seen.items():
            if array.size and other.size and np.may_share_memory(array, other):
                raise InvalidArgument(f"{name} overlaps {other_name}: pass an array of its own")
        seen[name] = array


def _as_dtype(given: Any, dtype: np.dtype[Any], what: str) -> np.ndarray[Any, Any]:
    if isinstance(given, np.generic) and given.dtype.kind in "biuf" and given.dtype != dtype:
        given = given.item()
    if isinstance(given, (int, float, list, tuple, range, str, bytes, set, frozenset, dict)) or given is None:
        return _from_python(given, dtype, what)
    if isinstance(given, np.ma.MaskedArray):
        raise TypeError(f"{what} is a masked array, and a table has no masked elements: pass {what}.compressed()")
    array = given if isinstance(given, np.ndarray) else np.asarray(given)
    if array.dtype == dtype:
        return array
    if array.dtype.kind not in "biufmM":
        raise TypeError(f"{what} have dtype {array.dtype}, the table holds {dtype}: pass an array of numbers")
    if not array.dtype.isnative:
        raise TypeError(
            f"{what} have dtype {array.dtype.str!r}, which is not in native byte order: "
            f"pass {what}.astype({what}.dtype.newbyteorder('='))"
        )
    if not lossless(array.dtype, dtype):
        raise TypeError(
            f"{what} have dtype {array.dtype}, the table holds {dtype}, and the conversion could change elements: "
            f"pass {what}.astype('{dtype}') if that is what you want"
        )
    return array.astype(dtype)


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
    try:
        array = np.asarray(given)
    except (ValueError, OverflowError):
        array = np.array(given, dtype=object) if isinstance(given, int) else _ragged(what)
    if array.size == 0 and array.dtype.kind == "f":
        return np.empty(array.shape, dtype)
    if dtype.kind in "mM":
        return _times(given, array, dtype, what)
    if dtype.kind == "f":
        return _floats(array, dtype, what)
    if array.dtype.kind not in "biu":  # numpy turns a list of large and negative integers into floats: look again
        array = np.array(given, dtype=object)
        for value in array.flat:
            try:
                operator.index(value)
            except TypeError:
                raise TypeError(f"{what}: {value!r} is not an integer, the table holds {dtype}") from None
    low, high = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    for value in (array.min(), array.max()):
        if not low <= int(value) <= high:
            raise OverflowError(f"{what}: {int(value)} does not fit {dtype} ({low} to {high})")
    return array.astype(dtype)


def _ragged(what: str) -> np.ndarray[Any, Any]:
    raise TypeError(f"{what} is not a rectangular sequence of numbers: pass rows of one length")


def _floats(array: np.ndarray[Any, Any], dtype: np.dtype[Any], what: str) -> np.ndarray[Any, Any]:
    """Floats are rounded to the table's precision; what would become infinite, or an integer that would, is refused."""
    if array.dtype.kind not in "biuf":
        for value in array.flat:
            if not isinstance(value, (int, float)):
                raise TypeError(f"{what}: {value!r} is not a number, the table holds {dtype}")
    with np.errstate(over="ignore"):
        try:
            result = array.astype(dtype)
        except OverflowError:
            raise OverflowError(f"{what}: an integer does not fit {dtype}: pass smaller numbers") from None
    lost = np.isinf(result) & ~np.isinf(array.astype(np.float64))
    if lost.any():
        raise OverflowError(f"{what}: {array[lost].flat[0]} does not fit {dtype}: the largest is {np.finfo(dtype).max}")
    if array.dtype.kind in "iuO":
        for value, rounded in zip(array.flat, result.flat, strict=True):
            if isinstance(value, (int, np.integer)) and int(rounded) != int(value):
                raise TypeError(f"{what}: the integer {value} has no exact {dtype}: pass a float")
    return result


def _times(given: Any, array: np.ndarray[Any, Any], dtype: np.dtype[Any], what: str) -> np.ndarray[Any, Any]:
    if array.dtype.kind not in (dtype.kind, "U", "O"):
        raise TypeError(f"{what}: {given!r} is not of the table's {dtype}: pass np.array(..., '{dtype}')")
    try:
        return np.asarray(given, dtype=dtype)
    except (ValueError, TypeError) as error:
        raise TypeError(f"{what}: {given!r} is not of the table's {dtype}: {error}") from error
