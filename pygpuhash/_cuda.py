"""The few CUDA driver calls that Python needs: memory and copies for arrays on the host and outputs of our own.

The driver library is opened on first use through ctypes, so that nothing here needs a CUDA package, and importing
needs no driver. All calls use the device's primary context, the one that the CUDA runtime and every framework use.
"""

from __future__ import annotations

import ctypes
import functools
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from pygpuhash.errors import DeviceError, InvalidArgument, NoMemory

__all__ = ["DeviceArray", "copy_from_host", "copy_to_host", "from_host", "full", "synchronize"]

_OUT_OF_MEMORY = 2
_DLPACK_CODE = {"i": 0, "u": 1, "f": 2, "b": 6}


@functools.cache
def _driver() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise DeviceError(f"there is no CUDA driver on this machine ({error})") from error
    _check(library, "cuInit", library.cuInit(0))
    return library


def _check(library: ctypes.CDLL, name: str, code: int) -> None:
    if code == 0:
        return
    sentence = ctypes.c_char_p()
    library.cuGetErrorString(code, ctypes.byref(sentence))
    message = f"{name} failed: {(sentence.value or b'unknown error').decode()} ({code})"
    raise NoMemory(message) if code == _OUT_OF_MEMORY else DeviceError(message)


def _call(name: str, *arguments: Any) -> None:
    library = _driver()
    function: Callable[..., int] = getattr(library, name)
    _check(library, name, function(*arguments))


@functools.cache
def _primary_context(ordinal: int) -> ctypes.c_void_p:
    device = ctypes.c_int()
    _call("cuDeviceGet", ctypes.byref(device), ctypes.c_int(ordinal))
    context = ctypes.c_void_p()
    _call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    return context


class _Current:
    """Makes a device's primary context current, and puts the old one back."""

    def __init__(self, ordinal: int) -> None:
        self.context = _primary_context(ordinal)

    def __enter__(self) -> None:
        _call("cuCtxPushCurrent_v2", self.context)

    def __exit__(self, *exception: object) -> None:
        _call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))


class DeviceArray:
    """A C-contiguous array on a CUDA device, for results whose producer's library cannot be asked to make one.

    It offers `__cuda_array_interface__` and `__dlpack__`, so that any library can take it over without a copy:
    `cupy.asarray(a)`, `torch.from_dlpack(a)`. `get()` (and `numpy.asarray`) copies it to the host.

    Attributes: `shape`, `dtype` (numpy), `ptr` (address), `device` (ordinal), `stream` (address of the stream that
    last wrote it).
    """

    __array_priority__ = 100

    def __init__(self, shape: tuple[int, ...], dtype: Any, device: int, stream: int = 0) -> None:
        self.ptr = 0
        self.shape = tuple(shape)
        self.dtype = np.dtype(dtype)
        self.device = device
        self.stream = stream
        self.size = math.prod(self.shape)
        self.nbytes = self.size * self.dtype.itemsize
        if self.nbytes:
            address = ctypes.c_void_p()
            with _Current(device):
                _call("cuMemAllocAsync", ctypes.byref(address), ctypes.c_size_t(self.nbytes), ctypes.c_void_p(stream))
            self.ptr = address.value or 0

    def __del__(self) -> None:
        if getattr(self, "ptr", 0) and not sys.is_finalizing():
            with _Current(self.device):
                _driver().cuMemFreeAsync(ctypes.c_void_p(self.ptr), ctypes.c_void_p(self.stream))
            self.ptr = 0

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array of no dimensions has no length")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<DeviceArray cuda:{self.device} shape={self.shape} dtype={self.dtype}>"

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.ptr, False),
            "strides": None,
            "stream": self.stream or 1,
            "version": 3,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self.device

    def __dlpack__(self, *, stream: int | None = None, **_: Any) -> Any:
        from pygpuhash import _core

        if stream != -1 and (stream or 1) != (self.stream or 1):
            synchronize(self.device, self.stream)
        code = _DLPACK_CODE[self.dtype.kind]
        return _core.dlpack_write(self, self.ptr, self.shape, code, 8 * self.dtype.itemsize, 2, self.device)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if copy is False:
            raise ValueError("an array on a device cannot become a numpy array without a copy")
        return self.get() if dtype is None else self.get().astype(dtype)

    def get(self) -> np.ndarray[Any, Any]:
        """A copy on the host; waits for the stream that wrote the array."""
        host = np.empty(self.shape, self.dtype)
        copy_to_host(host, self.ptr, self.device, self.stream)
        return host


def synchronize(device: int, stream: int = 0) -> None:
    """Wait for all work of a stream."""
    with _Current(device):
        _call("cuStreamSynchronize", ctypes.c_void_p(stream))


def copy_to_host(host: np.ndarray[Any, Any], address: int, device: int, stream: int) -> None:
    """Fill a C-contiguous host array from device memory; returns when it is there."""
    if not host.nbytes:
        return
    with _Current(device):
        _call(
            "cuMemcpyDtoHAsync_v2",
            ctypes.c_void_p(host.ctypes.data),
            ctypes.c_void_p(address),
            ctypes.c_size_t(host.nbytes),
            ctypes.c_void_p(stream),
        )
        _call("cuStreamSynchronize", ctypes.c_void_p(stream))


def from_host(host: np.ndarray[Any, Any], device: int, stream: int = 0) -> DeviceArray:
    """A copy of a C-contiguous host array on the device; the host array may be changed when this returns."""
    array = DeviceArray(host.shape, host.dtype, device, stream)
    copy_from_host(host, array.ptr, device, stream)
    return array


def copy_from_host(host: np.ndarray[Any, Any], address: int, device: int, stream: int) -> None:
    """Fill device memory from a C-contiguous host array; returns when it is there."""
    if not host.nbytes:
        return
    with _Current(device):
        _call(
            "cuMemcpyHtoDAsync_v2",
            ctypes.c_void_p(address),
            ctypes.c_void_p(host.ctypes.data),
            ctypes.c_size_t(host.nbytes),
            ctypes.c_void_p(stream),
        )
        _call("cuStreamSynchronize", ctypes.c_void_p(stream))


def full(shape: tuple[int, ...], value: np.ndarray[Any, Any], device: int, stream: int) -> DeviceArray:
    """An array of one value, written on the device by copying what is there until it is full.

    Nothing waits: the driver has taken the one element from pageable memory when its first call returns.
    """
    if value.size != 1:
        raise InvalidArgument(f"{value.size} values were passed to fill an array: pass one")
    array = DeviceArray(shape, value.dtype, device, stream)
    if not array.nbytes:
        return array
    first = np.ascontiguousarray(value).reshape(1)
    with _Current(device):
        _call(
            "cuMemcpyHtoDAsync_v2",
            ctypes.c_void_p(array.ptr),
            ctypes.c_void_p(first.ctypes.data),
            ctypes.c_size_t(first.nbytes),
            ctypes.c_void_p(stream),
        )
        done = first.nbytes
        while done < array.nbytes:
            step = min(done, array.nbytes - done)
            _call(
                "cuMemcpyDtoDAsync_v2",
                ctypes.c_void_p(array.ptr + done),
                ctypes.c_void_p(array.ptr),
                ctypes.c_size_t(step),
                ctypes.c_void_p(stream),
            )
            done += step
    return array
