"""Device arrays as a table stores their elements: of its dtypes, converted by their own library, or refused."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from pygpuhash import _arrays, _cuda, _device_arrays, _records, _streams, _tensors
from pygpuhash._core import stream_handle
from pygpuhash._views import DeviceView


def filled(keys: Any, shape: tuple[int, ...], one: np.ndarray[Any, Any], device: int, stream: Any) -> DeviceView:
    """One value for all keys, as bits; by the library of the keys, so that a graph can capture it."""
    name, handle = _tensors.library_of(keys), stream_handle(stream)
    if name not in ("cupy", "torch") or one.itemsize > 8:
        return _device_arrays.as_view(_cuda.full(shape, one, device, stream))
    bits = one.reshape(1).view(f"i{one.dtype.itemsize}")
    with _streams.working_on(keys, device, handle):
        if name == "cupy":
            filled = sys.modules["cupy"].full(shape, bits[0], bits.dtype)
            ptr = filled.data.ptr
        else:
            torch = sys.modules["torch"]
            kind = getattr(torch, bits.dtype.name)
            filled = torch.full(shape, int(bits[0]), dtype=kind, device=f"cuda:{device}")
            ptr = filled.data_ptr()
    return DeviceView(ptr, shape, one.dtype, filled)


def shown(dtype: Any, store: Any) -> tuple[Any, tuple[int, ...]]:
    """The dtype of an array of results as the device has it, and its dimensions beside those of the keys."""
    return _records.base_and_shape(dtype) if _records.is_record(dtype) else (store, ())


def stored_view(
    array: Any, dtype: np.dtype[Any], store: np.dtype[Any], device: int, stream: int, what: str
) -> DeviceView:
    found = _device_arrays.view(array, device, stream, what)
    if _records.is_record(dtype):
        return _record_view(found, dtype, store, what)
    if found.dtype == store:
        if dtype != store and dtype.kind not in "mM":
            raise TypeError(f"{what} have dtype {found.dtype}, the table holds {dtype}: convert them to {dtype}")
        return found
    if found.dtype.kind == "i" and dtype == store and dtype.kind == "u" and found.dtype.itemsize <= dtype.itemsize:
        return _unsigned_view(array, found, store, device, stream, what)
    if found.dtype != dtype and not _arrays.lossless(found.dtype, dtype):
        raise TypeError(f"{what} have dtype {found.dtype}, the table holds {dtype}: convert them to {dtype}")
    if dtype == np.float16 and store == np.uint32:
        raise TypeError("float16 keys are not supported on a device: use a float32 table, or pass their bits as uint16")
    if _tensors.cuts(_tensors.library_of(array), store):
        raise TypeError(
            f"{what} have dtype {found.dtype}, the table holds {dtype}, and JAX converts to 32 bits only: call "
            f"jax.config.update('jax_enable_x64', True), or make the table with a dtype of 4 bytes"
        )
    return _device_arrays.view(_device_arrays.astype(array, store, device, stream, what), device, stream, what)


def _record_view(found: DeviceView, dtype: np.dtype[Any], store: np.dtype[Any], what: str) -> DeviceView:
    base, shape = _records.base_and_shape(dtype)
    lead = len(found.shape) - len(shape)
    if found.dtype != base:
        raise TypeError(f"{what} have dtype {found.dtype}, the table holds {dtype}: convert them to {base}")
    if lead < 0 or found.shape[lead:] != shape:
        raise ValueError(_records.wrong_shape(found.shape, shape, what))
    return DeviceView(found.ptr, found.shape[:lead], store, found.owner)


def _unsigned_view(
    array: Any, found: DeviceView, store: np.dtype[Any], device: int, stream: int, what: str
) -> DeviceView:
    """Signed integers that are not negative, which the array's library finds out; this waits for its answer."""
    if not _device_arrays.converts(array):
        raise TypeError(f"{what} have dtype {found.dtype}, the table holds {store}: convert them to {store}")
    with _streams.working_on(array, device, stream):
        negative = bool(found.size) and bool((array < 0).any())
    if negative:
        _arrays.to_store(_device_arrays.to_host(array, device, stream, what), store, store, what)  # names the first one
    signed = np.dtype(f"i{store.itemsize}")
    if found.dtype != signed:
        found = _device_arrays.view(_device_arrays.astype(array, signed, device, stream, what), device, stream, what)
    return DeviceView(found.ptr, found.shape, store, found.owner)


def ops_view(ops: Any, k: DeviceView, device: int, stream: int) -> DeviceView:
    if _arrays.on_device(ops):
        o = _device_arrays.view(ops, device, stream, "ops")
    else:
        o = _device_arrays.as_view(_cuda.from_host(ops, device, _cuda.Address(stream)))
    if o.dtype != np.uint8:
        raise TypeError(f"ops have dtype {o.dtype}: pass uint8 operation codes")
    if o.shape != k.shape:
        raise ValueError(f"ops have shape {o.shape}, keys {k.shape}: pass one operation per key")
    return o
