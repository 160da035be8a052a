"""Arrays of any library on a CUDA device: the memory of those that come in, and new ones of the same library.

An input is anything with `__dlpack__` (asked to make its data ready for our stream) or `__cuda_array_interface__`
(version 3: its stream is waited for, on the device). Results come from the library of the keys where it can be asked to
make an array (CuPy, PyTorch, Numba) or to take one over (JAX); otherwise they are `pygpuhash.DeviceArray`. The caller
keeps inputs alive until the stream has passed the call, as with any asynchronous library.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from pygpuhash import _arrays, _core, _cuda, _streams, _tensors, _views
from pygpuhash._core import stream_handle
from pygpuhash._views import DeviceView
from pygpuhash.errors import InvalidArgument


def view(array: Any, device: int, stream: int, what: str) -> DeviceView:
    """Memory of a device array, ready for `stream`."""
    if hasattr(array, "__dlpack__"):
        # Asked first: PyTorch exports nothing of a device that is not the current one.
        kind, there = array.__dlpack_device__() if hasattr(array, "__dlpack_device__") else (0, device)
        if kind == _core.CUDA and there != device:
            raise _views.elsewhere(what, int(there), device)
        return _views.checked(*_views.from_dlpack(array, stream, what), device, what)
    return _views.checked(*_from_interface(array, device, stream, what), device, what)


def _from_interface(array: Any, device: int, stream: int, what: str) -> tuple[DeviceView, int | None, Any, int]:
    interface = getattr(array, "__cuda_array_interface__", None)
    if interface is None:
        raise TypeError(f"{what} is a {type(array).__name__}, the keys are on a device: pass a device array as well")
    if interface.get("mask") is not None:
        raise TypeError(f"{what} have a mask, and a table has no masked elements: pass the unmasked ones")
    dtype = np.dtype(interface["typestr"])
    if not dtype.isnative:
        raise TypeError(f"{what} have dtype {dtype.str!r}, which is not in native byte order: convert them")
    producer = interface.get("stream")
    if producer is not None and producer != (stream or 1):
        with _cuda.current(device), _cuda.translate_errors:
            _cuda.stream_at(stream or 1).wait(_cuda.stream_at(producer))
    ptr = interface["data"][0] or 0
    found = DeviceView(ptr, tuple(interface["shape"]), dtype, array)
    if found.size == 0:
        return found, None, None, 1
    kind, ordinal = _core.pointer_device(ptr)
    if kind != _core.CUDA:
        raise InvalidArgument(f"{what} are not on a CUDA device: pass all arrays of one call on the same device")
    return found, ordinal, interface.get("strides"), dtype.itemsize


def as_view(array: _cuda.DeviceArray) -> DeviceView:
    return DeviceView(array.ptr, array.shape, array.dtype, array)


def library_that_is_there() -> str | None:
    """Of the libraries that can be asked for arithmetic, one that is imported."""
    return next((name for name in ("cupy", "torch") if name in sys.modules), None)


def in_library(library: str, array: Any) -> Any:
    """An array of no library as one of CuPy or PyTorch, over the same memory."""
    if not isinstance(array, _cuda.DeviceArray):
        ptr = array.__cuda_array_interface__["data"][0]
        ordinal = int(_core.pointer_device(ptr)[1])
        array = _cuda.DeviceArray._over(DeviceView(ptr, array.shape, array.dtype, array), array.shape, ordinal, None)
    return sys.modules["cupy"].asarray(array) if library == "cupy" else sys.modules["torch"].from_dlpack(array)


def download(found: DeviceView, device: int, stream: int) -> np.ndarray[Any, Any]:
    host = np.empty(found.shape, found.dtype)
    _cuda.copy_to_host(host, found.ptr, device, stream)
    return host


def to_host(array: Any, device: int, stream: int, what: str) -> np.ndarray[Any, Any]:
    """A copy on the host of a device array of any library, made when the stream has come to it."""
    with _cuda.current(device):
        return download(view(array, device, stream, what), device, stream)


def empty_like(array: Any, shape: tuple[int, ...], dtype: np.dtype[Any], device: int, stream: Any) -> Any:
    """A new array of the same library on the same device, usable in the order of `stream`; for JAX one of our own."""
    name, handle = _tensors.library_of(array), stream_handle(stream)
    with _streams.working_on(array, device, handle):
        if name == "cupy":
            return sys.modules["cupy"].empty(shape, dtype)
        if name == "torch":
            torch = sys.modules["torch"]
            return torch.empty(shape, dtype=getattr(torch, dtype.name), device=f"cuda:{device}")
    if name == "numba":
        cuda = sys.modules["numba"].cuda
        return cuda.device_array(shape, dtype, stream=cuda.external_stream(handle) if handle else 0)
    return _cuda.DeviceArray(shape, dtype, device, stream)


def output(
    array: Any,
    dtype: np.dtype[Any],
    shape: tuple[int, ...],
    device: int,
    stream: int,
    what: str,
    longer: bool = False,
) -> DeviceView:
    if not _arrays.on_device(array):
        raise TypeError(f"{what} is a {type(array).__name__} on the host, the keys are not: pass a device array")
    if _tensors.library_of(array) == "jax":
        raise TypeError(f"{what} is a JAX array, which cannot be written: leave it out")
    interface = getattr(array, "__cuda_array_interface__", None)
    if interface is not None and interface["data"][1]:
        raise ValueError(f"{what} is read-only: pass an array that can be written")
    found = view(array, device, stream, what)
    if found.dtype != dtype:
        raise TypeError(f"{what} has dtype {found.dtype}, the results {dtype}: pass an array of {dtype}")
    if longer and not _arrays.holds(found.shape, shape):
        raise ValueError(f"{what} has shape {found.shape}: pass one of shape {shape}, or of more rows")
    if not longer and found.shape != shape:
        raise ValueError(f"{what} has shape {found.shape}, keys {shape}: pass an array of shape {shape}")
    return found


def converts(array: Any) -> bool:
    """Can the array's library be asked to convert it?"""
    return _tensors.library_of(array) in ("cupy", "torch", "jax")


def astype(array: Any, dtype: np.dtype[Any], device: int, stream: int, what: str) -> Any:
    """The array in another dtype, by its own library."""
    if not converts(array):
        raise TypeError(
            f"{what} are a {type(array).__name__}, which cannot be asked to convert to {dtype}: convert them"
        )
    with _streams.working_on(array, device, stream):
        return (
            array.to(getattr(sys.modules["torch"], dtype.name))
            if _tensors.library_of(array) == "torch"
            else array.astype(dtype)
        )


def give(like: Any, array: Any) -> Any:
    """A result as the library of the keys has it: JAX takes ours over."""
    if array is None or _tensors.library_of(like) != "jax" or not isinstance(array, _cuda.DeviceArray):
        return array
    jax = sys.modules["jax"]
    return jax.dlpack.from_dlpack(array) if array.size else jax.numpy.empty(array.shape, array.dtype)


def check_results(like: Any, *dtypes: Any) -> None:
    """Refuse what the library of the keys cannot hold, before the call."""
    for dtype in dtypes:
        _tensors.check_results(_tensors.library_of(like), dtype)
