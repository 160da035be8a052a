"""Columns of Arrow's C device interface on a CUDA device, as arrays of numbers.

`__arrow_c_device_array__` gives a schema and an array with the number of its device and an event after which its memory
is written (https://arrow.apache.org/docs/format/CDeviceDataInterface.html). Numbers without nulls are read where they
lie, as memory of `__cuda_array_interface__`; keys come back as those of an array of no library, a `DeviceArray`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pygpuhash import _arrays, _cuda
from pygpuhash.columns import _buffers
from pygpuhash.columns.numpy_arrays import FORMATS

__all__ = ["Numbers", "numbers"]

_DTYPES = {format: np.dtype(code) for code, format in FORMATS.items()}


class Numbers:
    """The elements of a column, whose memory lives as long as this object."""

    def __init__(self, owner: object, address: int, length: int, dtype: np.dtype[Any]) -> None:
        self._owner = owner
        self.dtype, self.shape = dtype, (length,)
        self.__cuda_array_interface__ = {
            "version": 3, "shape": (length,), "typestr": dtype.str, "data": (address, True), "strides": None
        }  # fmt: skip


def numbers(given: Any, what: str) -> Any:
    """A column of Arrow on a CUDA device as `Numbers`; what is none, as it is.

    Raises TypeError for columns of other types than numbers, and for columns with nulls.
    """
    if hasattr(given, "__cuda_array_interface__") or not _arrays.is_arrow_on_device(given):
        return given
    schema, there = given.__arrow_c_device_array__()
    format, _, _, dictionary = _buffers.describe(schema)
    dtype = _DTYPES.get(format) if dictionary is None else None
    if dtype is None:
        kind = "a dictionary" if dictionary is not None else f"type {format!r} of Arrow"
        raise TypeError(f"{what} is a column of {kind} on a GPU, where keys are numbers: copy it to the host")
    array, event = _buffers.of_device(there)
    length, nulls, first, (validity, address) = _buffers.addresses(array)
    if validity and nulls:
        counted = "has nulls" if nulls > 0 else "may have nulls, which its library did not count"
        raise TypeError(f"{what} {counted}: drop or fill them, or copy the column to the host")
    if event:
        _cuda.call("cuEventSynchronize", event)
    return Numbers(array, address + first * dtype.itemsize if length else 0, length, dtype)
