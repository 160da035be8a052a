"""Memory of device arrays, and what DLPack says of an array of any library."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from pygpuhash import _core
from pygpuhash.errors import InvalidArgument

__all__ = ["DeviceView", "checked", "elsewhere", "from_dlpack"]

_DLPACK_KIND = {0: "i", 1: "u", 2: "f", 6: "b"}


@dataclass
class DeviceView:
    """C-contiguous device memory, and what keeps it alive."""

    ptr: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    owner: Any

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize


def from_dlpack(array: Any, stream: int, what: str) -> tuple[DeviceView, int | None, Any, int]:
    """(the view, the device's number if it is certain, strides, the bytes that a stride of 1 stands for)."""
    # DLPack's numbers for the two default streams; 0 would be ambiguous and is not allowed.
    capsule = array.__dlpack__(stream=stream or 1)
    ptr, shape, strides, code, bits, kind, ordinal, owner = _core.dlpack_read(capsule)
    if kind not in (2, 13):
        raise InvalidArgument(f"{what} are not on a CUDA device: pass all arrays of one call on the same device")
    if code not in _DLPACK_KIND or bits not in (8, 16, 32, 64):
        raise TypeError(f"{what} have a DLPack dtype (code {code}, {bits} bits) that numpy does not know: convert them")
    dtype = np.dtype(f"{_DLPACK_KIND[code]}{bits // 8}")
    return DeviceView(ptr, shape, dtype, owner), ordinal if kind == 2 else None, strides, 1


def checked(found: DeviceView, ordinal: int | None, strides: Any, unit: int, device: int, what: str) -> DeviceView:
    """The view, if it is of this device and C-contiguous."""
    if ordinal is not None and ordinal != device:
        raise elsewhere(what, ordinal, device)
    if strides is not None and not _contiguous(found.shape, strides, unit):
        raise ValueError(f"{what} are strided: pass a C-contiguous copy, for example {what}.copy()")
    return found


def elsewhere(what: str, there: int, device: int) -> InvalidArgument:
    return InvalidArgument(f"{what} are on cuda:{there}, the table on cuda:{device}: copy them there first")


def _contiguous(shape: tuple[int, ...], strides: tuple[int, ...], unit: int) -> bool:
    if 0 in shape:
        return True
    expected = unit
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size > 1 and stride != expected:
            return False
        expected *= size
    return True
