"""What is an acceptable host array, and how its elements are stored.

Most tables store keys and values of 4 or 8 bytes; `_records` has those of several numbers. `store_dtype` says which
dtype the library sees:

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

How elements get there without a change is `_numbers`'.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pygpuhash import _records, _tensors
from pygpuhash._numbers import (
    DoesNotFit,
    column,
    from_stranger,
    lossless,
    masked,
    objects,
    to_base,
)
from pygpuhash.columns import _buffers, flat
from pygpuhash.errors import InvalidArgument

__all__ = [
    "DoesNotFit",
    "column",
    "from_store",
    "from_stranger",
    "holds",
    "is_single",
    "lossless",
    "masked",
    "objects",
    "on_device",
    "operands",
    "output",
    "refuse_short",
    "step_of_sample",
    "store_dtype",
    "table_dtype",
    "to_base",
    "to_store",
    "two_outputs",
]

_NEVER_ON_DEVICE = (int, float, bool, list, tuple, str, bytes, range, np.generic, np.ndarray)
_DLPACK_CUDA = (2, 13)  # kDLCUDA, kDLCUDAManaged


def table_dtype(given: Any, what: str) -> np.dtype[Any]:
    """The dtype of a table's keys or values, or an error that says what can be had."""
    name = _tensors.dtype_name(flat.dtype_of(given, what))
    try:
        if given is None:
            raise TypeError("which numpy takes for float64")
        dtype: np.dtype[Any] = np.dtype(name)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{what}={given!r} is not a dtype: pass for example 'uint64' or 'float32'") from error
    if _records.is_record(dtype):
        _records.check(dtype, what)
        return dtype
    if dtype.kind == "U":
        raise TypeError(f"{what}={given!r} is text, and tables hold bytes: pass 'S16', and np.char.encode(text)")
    if dtype.kind in "mM" and np.datetime_data(dtype)[0] == "generic":
        raise TypeError(f"{what}={given!r} has no unit: pass for example '{dtype.name}[us]'")
    if dtype.kind not in "biufmM" or dtype.itemsize > 8:
        raise TypeError(
            f"{what}={dtype} is not supported: pass an integer, float, bool, datetime64 or timedelta64 dtype of 1, 2, "
            "4 or 8 bytes, or for wider elements rows like ('u4', 3), a structured dtype, 'S16' or complex128"
        )
    if not dtype.isnative:
        raise TypeError(f"{what}={dtype.str!r} is not in native byte order: pass {dtype.newbyteorder('=').str!r}")
    return dtype


def store_dtype(dtype: np.dtype[Any], *, keys: bool) -> np.dtype[Any]:
    """The dtype that a table stores for elements of `dtype`: of 4 or 8 bytes, or a void one of more (_records)."""
    if _records.is_record(dtype):
        return _records.store(dtype)
    if dtype.kind in "mM":
        return np.dtype(np.int64)
    if dtype.itemsize >= 4:
        return dtype
    if dtype.kind == "f":
        return np.dtype(np.uint32 if keys else np.float32)
    return np.dtype(np.int32 if dtype.kind == "i" else np.uint32)


def step_of_sample(rows: int, sample: int) -> int:
    """How far apart the rows of a sample are: with no small factor, so that they do not meet one place of a period."""
    most = rows // sample
    return max((step for step in range(max(most - 12, 1), most + 1) if math.gcd(step, 2 * 3 * 5 * 7) == 1), default=1)


def to_store(given: Any, dtype: np.dtype[Any], store: np.dtype[Any], what: str) -> np.ndarray[Any, Any]:
    """`given` as a C-contiguous, aligned array of `store`, which stands for elements of `dtype`."""
    if _records.is_record(dtype):
        return _records.to_store(given, dtype, store, what)
    array = to_base(given, dtype, what)
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
    if _records.is_record(dtype):
        return _records.from_store(stored, dtype)
    if dtype.kind in "mM":
        return stored.view(dtype)
    if dtype == np.float16 and stored.dtype == np.uint32:
        return stored.astype(np.uint16).view(dtype)
    if stored.dtype == dtype:
        return stored
    return stored.astype(dtype)


_ON_HOST = frozenset(("pandas", "polars"))  # whose objects take microseconds to say that they have no such attribute


def on_device(array: Any) -> bool:
    """Does this object offer memory of a CUDA device?"""
    if isinstance(array, _NEVER_ON_DEVICE) or type(array).__module__.partition(".")[0] in _ON_HOST:
        return False
    device = getattr(array, "__dlpack_device__", None)
    if device is not None:
        try:
            return device()[0] in _DLPACK_CUDA
        except Exception:  # a tensor of no memory, or of a device that DLPack does not know
            return False
    return hasattr(array, "__cuda_array_interface__") or is_arrow_on_device(array)


def is_arrow_on_device(array: Any) -> bool:
    """Is this a column with Arrow's device interface on a CUDA device?"""
    if not hasattr(array, "__arrow_c_device_array__"):
        return False
    on_host = getattr(array, "is_cpu", None)  # pyarrow's
    if on_host is not None:
        return not on_host
    return _buffers.device_of(array.__arrow_c_device_array__()[1])[0] in _DLPACK_CUDA


def output(
    out: Any, dtype: np.dtype[Any], shape: tuple[int, ...], what: str, *, longer: bool = False
) -> np.ndarray[Any, Any]:
    """The numpy array over the memory of an output, or an error that says why results cannot be written there.

    With `longer` its first dimension may be larger than that of the results.
    """
    if dtype.subdtype is not None:
        base, inner = _records.base_and_shape(dtype)
        return output(out, base, shape + inner, what, longer=longer)
    array = out
    if not isinstance(out, np.ndarray):
        library = _tensors.array_library(out)
        if library == "jax":
            raise TypeError(f"{what} is a JAX array, which cannot be written: leave it out")
        if library is None:
            raise TypeError(f"{what} is a {type(out).__name__}: pass a numpy array or a PyTorch tensor of {dtype}")
        array = _tensors.read(out, library, what)
    if array.dtype != dtype:
        raise TypeError(f"{what} has dtype {array.dtype}, the results {dtype}: pass {_example(dtype, shape, longer)}")
    if longer and not holds(array.shape, shape):
        raise ValueError(f"{what} has shape {array.shape}: pass one of shape {shape}, or of more rows")
    if not longer and array.shape != shape:
        raise ValueError(f"{what} has shape {array.shape}, keys {shape}: pass {_example(dtype, shape, longer)}")
    if not array.flags.writeable:
        raise ValueError(f"{what} is read-only: pass an array that can be written")
    if not (array.flags.c_contiguous and array.flags.aligned):
        raise ValueError(
            f"{what} is strided or misaligned: pass a C-contiguous array, {_example(dtype, shape, longer)}"
        )
    return np.asarray(array)


def _example(dtype: np.dtype[Any], shape: tuple[int, ...], longer: bool) -> str:
    asked = str(("n", *shape[1:])).replace("'", "") if longer else str(shape)
    return f"np.empty({asked}, '{dtype}')"


def holds(given: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Is this shape `shape`, but for a first dimension that may be larger?"""
    return len(given) == len(shape) and given[0] >= shape[0] and given[1:] == shape[1:]


def two_outputs(out: Any, value_dtype: Any) -> tuple[Any, Any] | None:
    """What `out=` of a range has for keys and values; None for a set."""
    if out is None:
        return None
    if not isinstance(out, (tuple, list)) or len(out) != 2:
        raise TypeError(f"out is a {type(out).__name__}: pass a tuple of two arrays, (keys, values)")
    if value_dtype is None and out[1] is not None:
        raise TypeError("this table is a set (value_dtype=None) and has no values for out=: pass (keys, None)")
    if out[0] is None or (out[1] is None and value_dtype is not None):
        raise TypeError(
            f"out has no array for the {'keys' if out[0] is None else 'values'}: pass both, or leave it out"
        )
    return out[0], out[1]


def refuse_short(most: int | None, rows: int) -> None:
    """Refuse arrays of a caller that have room for `most` pairs."""
    if most is not None and rows > most:
        raise InvalidArgument(
            f"the ranges have {rows} pairs and out has room for {most}: pass longer arrays, or leave it out"
        )


def operands(given: Any, dtype: np.dtype[Any], combined: Any = True) -> Any:
    """Times of which some, or all, are combined with others.

    Raises InvalidArgument for NaT, which is a pattern of bits that no combination of numbers leaves what it is.
    """
    if on_device(given):
        return given
    times = to_base(given, dtype, "values")
    nats = np.isnat(times)
    if np.ndim(combined) == 0 or np.ndim(nats) == 0 or np.shape(nats) == np.shape(combined):  # else refused later
        nats = nats & combined
        if nats.any():
            raise InvalidArgument(
                f"values have NaT (the first at index {int(np.argmax(nats))}), which cannot be combined: leave it out, "
                "as values[~np.isnat(values)] with their keys, or insert it"
            )
    return times


def is_single(given: Any) -> bool:
    """Is this one key, not a sequence, an array or a column?"""
    if isinstance(given, (list, tuple, range)) or flat.is_foreign(given):
        return False
    return len(given.shape) == 0 if on_device(given) else bool(np.ndim(given) == 0)
