"""Columns of Arrow's C device interface on a CUDA device: read where they lie, and given back.

`__arrow_c_device_array__` gives a schema and an array with the number of its device and an event after which its memory
is written (https://arrow.apache.org/docs/format/CDeviceDataInterface.html). Numbers of 4 and 8 bytes without nulls are
`Numbers`, memory of `__cuda_array_interface__`, whose keys come back as those of an array of no library, a
`DeviceArray`. All others are `Bytes`, rows of bytes that may be null, whose keys come back as a `DeviceColumn`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from pygpuhash import _arrays, _cuda, _tensors
from pygpuhash.columns import Column, _buffers
from pygpuhash.columns._buffers import View
from pygpuhash.columns.numpy_arrays import FORMATS

__all__ = ["Bytes", "DeviceColumn", "Numbers", "column", "kind_of", "numbers", "of_host", "of_numbers"]

_DTYPES = {format: np.dtype(code) for code, format in FORMATS.items()}
_FORMATS = {dtype: format for format, dtype in _DTYPES.items()}
_OFFSETS = {"u": 4, "z": 4, "U": 8, "Z": 8}
_WIDE = re.compile(r"ts[smun]:.*|tD[smun]|tdm|tt[un]", re.DOTALL)
_WIDE_DECIMAL = re.compile(r"d:\d+,-?\d+(,128)?")
_KINDS = {"u": "text", "U": "text", "z": "bytes", "Z": "bytes"}


class Numbers:
    """The elements of a column, whose memory lives as long as this object."""

    def __init__(self, owner: object, address: int, length: int, dtype: np.dtype[Any]) -> None:
        self._owner = owner
        self.dtype, self.shape = dtype, (length,)
        self.__cuda_array_interface__ = {
            "version": 3, "shape": (length,), "typestr": dtype.str, "data": (address, True), "strides": None
        }  # fmt: skip

    def __len__(self) -> int:
        return self.shape[0]


@dataclass(frozen=True)
class Bytes:
    """A column of rows of bytes, whose memory lives as long as `owner`. Addresses are 0 where there is no such buffer.

    first : the number of the first row in the buffers.
    offset_bytes : of an offset; 0: all rows have `width` bytes.
    """

    owner: object
    format: str
    ordinal: int
    n: int
    data: int
    first: int = 0
    offsets: int = 0
    validity: int = 0
    offset_bytes: int = 0
    width: int = 0

    def place(self, floats: str) -> tuple[int, int, int, int, int, int, int, bool]:
        """What the library's calls take. floats: "numbers" or "bits"."""
        equal = floats == "numbers" and self.format in ("e", "f", "g")
        return self.n, self.first, self.data, self.offsets, self.validity, self.offset_bytes, self.width, equal


class DeviceColumn:
    """A column of text, bytes, or elements of one width with nulls on a CUDA device, as verbs give the keys of such
    columns back.

    It has Arrow's `__arrow_c_device_array__`, so that any library that knows it takes it over without a copy; `get()`
    copies it to the host.

    Attributes: `format` (Arrow's), `device` (ordinal), `buffers` (of Arrow: `DeviceArray`, or None).
    """

    is_cpu = False  # as pyarrow says it: who asks this takes no structs to know where the column lies

    def __init__(self, format: str, length: int, buffers: tuple[_cuda.DeviceArray | None, ...], device: int) -> None:
        self.format, self.device, self.buffers = format, device, buffers
        self._length = length

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        return f"<DeviceColumn cuda:{self.device} format={self.format!r} length={self._length}>"

    def __arrow_c_device_array__(self, requested_schema: object = None, **_: object) -> tuple[object, object]:
        present = [buffer for buffer in self.buffers if buffer is not None]
        for stream in {buffer.stream for buffer in present}:
            _cuda.synchronize(self.device, stream)
        addresses = tuple(0 if buffer is None else buffer.ptr for buffer in self.buffers)
        nulls = 0 if self.buffers[0] is None else -1
        return _buffers.schema(self.format), _buffers.on_cuda(self._length, addresses, nulls, self.device, self.buffers)

    def get(self) -> View:
        """A copy on the host, an object with `__arrow_c_array__`, as verbs give for columns of no library there."""
        host = tuple(None if buffer is None else buffer.get() for buffer in self.buffers)
        return View(_OnHost(self.format, self._length, host))


@dataclass
class _OnHost:
    format: str
    length: int
    buffers: tuple[np.ndarray[Any, Any] | None, ...]

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        return _buffers.schema(self.format), _buffers.array(self.length, self.buffers)


def column(given: Any, what: str, narrow: bool = False) -> Any:
    """A column of Arrow on a CUDA device as `Numbers` or `Bytes`; what is none, as it is.

    narrow : numbers of 1 and 2 bytes are `Numbers`, too, which no verb takes for keys.

    Raises TypeError for columns of types that verbs do not take on a GPU.
    """
    if _tensors.library_of(given) in ("cupy", "torch") or hasattr(given, "__cuda_array_interface__"):
        return given
    if not _arrays.is_arrow_on_device(given):
        return given
    schema, there = given.__arrow_c_device_array__()
    format, _, _, dictionary = _buffers.describe(schema)
    offset_bytes, width = _OFFSETS.get(format, 0), _width(format)
    if dictionary is not None or not offset_bytes + width:
        kind = "a dictionary" if dictionary is not None else f"type {format!r} of Arrow"
        raise TypeError(
            f"{what} is a column of {kind} on a GPU, where columns are numbers, times, text and bytes with offsets, or "
            "bytes of one width: convert it, or copy it to the host"
        )
    ordinal = _buffers.device_of(there)[1]
    array, event = _buffers.of_device(there)
    length, nulls, first, (validity, *buffers) = _buffers.addresses(array)
    if event:
        _cuda.call("cuEventSynchronize", event)
    if format in _DTYPES and (narrow or width >= 4) and not (validity and nulls):
        dtype = _DTYPES[format]
        return Numbers(array, buffers[0] + first * dtype.itemsize if length else 0, length, dtype)
    return Bytes(
        array, format, ordinal, length, buffers[-1], first, buffers[0] if offset_bytes else 0,
        validity if nulls else 0, offset_bytes, width,
    )  # fmt: skip


def numbers(given: Any, what: str) -> Any:
    """A column of numbers without nulls of Arrow on a CUDA device as `Numbers`; what is no column of Arrow, as it is.

    Raises TypeError for columns of other types, and for columns with nulls.
    """
    found = column(given, what, narrow=True)
    if not isinstance(found, Bytes):
        return found
    if found.format not in _DTYPES:
        raise TypeError(
            f"{what} is a column of type {found.format!r} of Arrow on a GPU, where {what} are numbers: convert it, or "
            "copy it to the host"
        )
    raise TypeError(f"{what} has nulls, or its library did not count them: drop or fill them, or copy it to the host")


def of_numbers(view: Any, ordinal: int) -> Bytes:
    """Numbers of an array on a GPU, as rows of bytes. view: their memory, ready for the stream of the call."""
    dtype = np.dtype(view.dtype)
    return Bytes(view.owner, _FORMATS[dtype], ordinal, view.size, view.ptr, width=dtype.itemsize)


def of_host(given: Column, like: Bytes, keeper: Any) -> Bytes:
    """A copy of a column of the host on the GPU of another column. Nulls alone, which have no type, have that one's.

    Raises TypeError for types that `column` does not take.
    """
    format = _buffers.describe(given.schema)[0]
    views = [View(_Chunk(given.schema, chunk)) for chunk in given.chunks]
    nulls = [np.zeros(view.length, bool) if view.nulls() is None else view.nulls() for view in views]
    validity = ~np.concatenate([np.zeros(0, bool), *nulls])
    width, sizes = _width(format), np.zeros(0, np.int64)
    if format == "n":
        format, width, sizes = like.format, like.width, np.zeros(given.length, np.int64)
        data = np.zeros(given.length * width, np.uint8)
    elif format in _OFFSETS:
        texts = [view.text() for view in views]  # of nulls, too, which no kernel reads
        sizes = np.concatenate([sizes, *(np.diff(offsets) for offsets, _ in texts)])
        data = np.concatenate([np.zeros(0, np.uint8), *(letters for _, letters in texts)])
        format, width = format.upper(), 0
    elif format in ("vu", "vz"):
        elements = [element for view in views for element in view.objects()]
        cells = [b"" if x is None else x.encode() if isinstance(x, str) else x for x in elements]
        sizes = np.array([len(cell) for cell in cells], np.int64)
        data = np.frombuffer(b"".join(cells), np.uint8)
        format, width = format[-1].upper(), 0
    elif width:
        data = np.concatenate([np.zeros(0, np.uint8), *(view.values(f"V{width}").view(np.uint8) for view in views)])
    else:
        raise TypeError(f"{given.what} is a column of type {format!r} of Arrow, which has no like on a GPU: convert it")
    arrays = [np.concatenate([[0], np.cumsum(sizes)]), data, np.packbits(validity, bitorder="little")]
    there = [_cuda.from_host(array, like.ordinal, keeper) for array in arrays]
    offsets, bits = 0 if width else there[0].ptr, 0 if validity.all() else there[2].ptr
    offset_bytes = 0 if width else 8
    return Bytes(there, format, like.ordinal, given.length, there[1].ptr, 0, offsets, bits, offset_bytes, width)


@dataclass
class _Chunk:
    schema: object
    chunk: object

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        return self.schema, self.chunk


def kind_of(format: str) -> str:
    """The kind of a column: columns of one kind have elements that may be equal."""
    if format.startswith("ts"):
        return format[:3]
    return _KINDS.get(format, format if format not in _DTYPES else _DTYPES[format].name)


def _width(format: str) -> int:
    """The bytes of an element of a type of one width; 0 for other types."""
    if format in _DTYPES:
        return _DTYPES[format].itemsize
    if format in ("tdD", "tts", "ttm"):
        return 4
    if _WIDE.fullmatch(format):
        return 8
    if _WIDE_DECIMAL.fullmatch(format):
        return 16
    return int(format[2:]) if format.startswith("w:") else 0
