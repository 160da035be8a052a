"""CUDA arrays in, arrays of the same library out, in the order of a stream; and host arrays on a CUDA table.

An input is anything with `__dlpack__` (asked to make its data ready for our stream) or `__cuda_array_interface__`
(version 3: its stream is waited for). Results come from the library of the keys where it can be asked to make an array
(CuPy, PyTorch, Numba); otherwise they are `pygpuhash.DeviceArray`.

Which stream: the `stream=` of the call, else that of the table, else the current stream of the keys' library, else the
default stream. The caller keeps inputs alive until the stream has passed the call, as with any asynchronous library.
"""

from __future__ import annotations

import contextlib
import math
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from pygpuhash import _arrays, _core, _cuda, _records, _tensors
from pygpuhash.errors import InvalidArgument, TableFull

__all__ = ["DeviceView", "batch", "current_stream", "empty_like", "stream_handle", "to_host", "view"]

_MAX_HANDLE = 2**64 - 1
_DLPACK_KIND = {0: "i", 1: "u", 2: "f", 6: "b"}


# ---- streams ---------------------------------------------------------------------------------------------------------


def stream_handle(stream: Any) -> int:
    """The address of a CUDA stream: from `__cuda_stream__`, `.cuda_stream`, `.ptr`, or an int; 0 for None."""
    if stream is None:
        return 0
    handle = stream
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        pair = protocol() if callable(protocol) else protocol
        if len(pair) != 2 or pair[0] != 0:
            raise InvalidArgument(f"stream={stream!r} answers __cuda_stream__ with {pair!r}: version 0 is understood")
        handle = pair[1]
    else:
        for name in ("cuda_stream", "ptr"):
            if hasattr(stream, name):
                handle = getattr(stream, name)
                break
    if isinstance(handle, bool) or not isinstance(handle, (int, np.integer)):
        raise TypeError(
            f"stream={stream!r} is not a stream: pass an object with __cuda_stream__, .cuda_stream or .ptr, or the "
            "stream's address as an int"
        )
    handle = int(handle)
    if not 0 <= handle <= _MAX_HANDLE:
        raise InvalidArgument(f"stream={stream!r}: {handle} is not an address")
    return handle


# ---- reading arrays --------------------------------------------------------------------------------------------------


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


def view(array: Any, device: int, stream: int, what: str) -> DeviceView:
    """Memory of a device array, ready for `stream`."""
    if hasattr(array, "__dlpack__"):
        found, ordinal, strides, order_bytes = _from_dlpack(array, stream, what)
    else:
        found, ordinal, strides, order_bytes = _from_interface(array, device, stream, what)
    if ordinal is not None and ordinal != device:
        raise InvalidArgument(f"{what} are on cuda:{ordinal}, the table on cuda:{device}: copy them there first")
    if strides is not None and not _contiguous(found.shape, strides, order_bytes):
        raise ValueError(f"{what} are strided: pass a C-contiguous copy, for example {what}.copy()")
    return found


def _from_dlpack(array: Any, stream: int, what: str) -> tuple[DeviceView, int | None, Any, int]:
    # DLPack's numbers for the two default streams; 0 would be ambiguous and is not allowed.
    capsule = array.__dlpack__(stream=stream or 1)
    ptr, shape, strides, code, bits, kind, ordinal, owner = _core.dlpack_read(capsule)
    if kind not in (2, 13):
        raise InvalidArgument(f"{what} are not on a CUDA device: pass all arrays of one call on the same device")
    if code not in _DLPACK_KIND or bits not in (8, 16, 32, 64):
        raise TypeError(f"{what} have a DLPack dtype (code {code}, {bits} bits) that numpy does not know: convert them")
    dtype = np.dtype(f"{_DLPACK_KIND[code]}{bits // 8}")
    return DeviceView(ptr, shape, dtype, owner), ordinal if kind == 2 else None, strides, 1


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
        _cuda.synchronize(device, producer)
    ptr = interface["data"][0] or 0
    found = DeviceView(ptr, tuple(interface["shape"]), dtype, array)
    if found.size == 0:
        return found, None, None, 1
    kind, ordinal = _core.pointer_device(ptr)
    if kind != _core.CUDA:
        raise InvalidArgument(f"{what} are not on a CUDA device: pass all arrays of one call on the same device")
    return found, ordinal, interface.get("strides"), dtype.itemsize


def _contiguous(shape: tuple[int, ...], strides: tuple[int, ...], unit: int) -> bool:
    expected = unit
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size > 1 and stride != expected:
            return False
        expected *= size
    return True


def to_host(array: Any, device: int, stream: int, what: str) -> np.ndarray[Any, Any]:
    """A copy on the host of a device array of any library, made when the stream has come to it."""
    return _download(view(array, device, stream, what), device, stream)


# ---- the libraries whose arrays come in and go out -------------------------------------------------------------------


def _library(array: Any) -> str:
    name = type(array).__module__.partition(".")[0]
    return "numba" if name == "numba_cuda" else name


def current_stream(array: Any, device: int) -> int:
    """The stream on which the array's library would launch work now."""
    name = _library(array)
    if name == "cupy":
        return int(sys.modules["cupy"].cuda.get_current_stream().ptr)
    if name == "torch":
        return int(sys.modules["torch"].cuda.current_stream(device).cuda_stream)
    return array.stream if isinstance(array, _cuda.DeviceArray) else 0


def empty_like(array: Any, shape: tuple[int, ...], dtype: np.dtype[Any], device: int, stream: int) -> Any:
    """A new array of the same library on the same device, usable in the order of `stream`."""
    name = _library(array)
    if name == "cupy":
        cupy = sys.modules["cupy"]
        with cupy.cuda.Device(device), _cupy_stream(cupy, stream, device):
            return cupy.empty(shape, dtype)
    if name == "torch":
        torch = sys.modules["torch"]
        here = torch.cuda.ExternalStream(stream, device=device) if stream else torch.cuda.default_stream(device)
        with torch.cuda.stream(here):
            return torch.empty(shape, dtype=getattr(torch, dtype.name), device=f"cuda:{device}")
    if name == "numba":
        cuda = sys.modules["numba"].cuda
        return cuda.device_array(shape, dtype, stream=cuda.external_stream(stream) if stream else 0)
    return _cuda.DeviceArray(shape, dtype, device, stream)


class _Address:
    """A stream's address as an object of the stream protocol."""

    def __init__(self, address: int) -> None:
        self.address = address

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.address


def _cupy_stream(cupy: Any, stream: int, device: int) -> Any:
    """A context in which CuPy's pool allocates for a stream."""
    if stream == cupy.cuda.get_current_stream().ptr:
        return contextlib.nullcontext()
    if not stream:
        return cupy.cuda.Stream.null
    if hasattr(cupy.cuda.Stream, "from_external"):  # CuPy 14
        return cupy.cuda.Stream.from_external(_Address(stream))
    return cupy.cuda.ExternalStream(stream, device)


def astype(array: Any, dtype: np.dtype[Any], what: str) -> Any:
    """The array in another dtype, by its own library."""
    if _library(array) == "cupy":
        return array.astype(dtype)
    if _library(array) == "torch":
        return array.to(getattr(sys.modules["torch"], dtype.name))
    raise TypeError(f"{what} are a {type(array).__name__}, which cannot be asked to convert to {dtype}: convert them")


# ---- the batch -------------------------------------------------------------------------------------------------------


def batch(
    table: Any,
    op: int,
    keys: Any,
    values: Any,
    ops: Any,
    out: Any,
    mask: Any,
    stream: Any,
    out_dtype: np.dtype[Any] | None,
    flags: int,
    combine: int,
) -> tuple[Any, Any]:
    """`CoreTable._batch` for every case but host arrays on a CPU table."""
    if not _arrays.on_device(keys):
        return _host_batch(table, op, keys, values, ops, out, mask, stream, out_dtype, flags, combine)
    if table._kind != _core.CUDA:
        raise InvalidArgument(
            f"keys are a {type(keys).__name__} on a CUDA device, the table is on the CPU: copy the keys to the host, "
            "or create the table with device='cuda'"
        )
    return _device_batch(table, op, keys, values, ops, out, mask, stream, out_dtype, flags, combine)


_ADDING = frozenset({_core.OP_INSERT, _core.OP_ASSIGN, _core.OP_ACCUMULATE, _core.OP_INSERT_MULTI, _core.OP_EXECUTE})


def _device_batch(
    table: Any,
    op: int,
    keys: Any,
    values: Any,
    ops: Any,
    out: Any,
    mask: Any,
    stream: Any,
    out_dtype: np.dtype[Any] | None,
    flags: int,
    combine: int,
) -> tuple[Any, Any]:
    device = table._ordinal
    owner = stream if stream is not None else table._stream
    s = stream_handle(owner) if owner is not None else current_stream(keys, device)
    k = _stored_view(keys, table.key_dtype, table._key_store, device, s, "keys")
    v = None
    if values is not None and _arrays.on_device(values):
        v = _stored_view(values, table.value_dtype, table._value_store, device, s, "values")
        if v.shape != k.shape:
            raise ValueError(f"values have shape {v.shape}, keys {k.shape}: pass one value per key, or a scalar")
    elif values is not None:
        one = _arrays.to_store(values, table.value_dtype, table._value_store, "values")
        if one.ndim:
            raise InvalidArgument("keys are on a CUDA device and values on the host: copy the values to the device")
        v = _as_view(_repeated(k.shape, one, device, s))
    if ops is not None and not _arrays.on_device(ops):
        ops = _arrays.to_store(ops, np.dtype(np.uint8), np.dtype(np.uint8), "ops")
        _core.check_ops(ops, table._accumulates())
    o = None if ops is None else _ops_view(ops, k, device, s)

    store = table._value_store if out_dtype is table.value_dtype else out_dtype
    record = _records.is_record(out_dtype)
    if out_dtype is not None and store != out_dtype and out is not None and not record:
        raise TypeError(f"out= is not supported for {out_dtype} on a device: leave it out, or use a 4-byte value_dtype")
    result = out
    # The array of the results, as the caller sees it.
    shown, inner = _records.base_and_shape(out_dtype) if record and out_dtype is not None else (store, ())
    if shown is not None and result is None:
        result = empty_like(keys, k.shape + inner, shown, device, s)
    status = mask if mask is not None else empty_like(keys, k.shape, np.dtype(bool), device, s)
    r = None if shown is None or result is None else _output(result, shown, k.shape + inner, device, s, "out")
    m = _output(status, np.dtype(bool), k.shape, device, s, "the mask")
    # Only what adds keys can find no room, and only where the table does not grow; nothing else has to be waited for.
    wait = not table._grow and op in _ADDING
    failure = _raw(table, op, k, v, o, r, m, flags, combine, s, wait=wait)
    if failure is not None:
        if isinstance(failure, TableFull):
            failure.status = _download(m, device, s).view(np.uint8)
            if mask is not None:  # the caller's: leave booleans in it
                _cuda.copy_from_host(failure.status == 1, m.ptr, device, s)
        raise failure
    if out_dtype is not None and store != out_dtype and not record:
        result = astype(result, out_dtype, "values")
    return result, status


def _host_batch(
    table: Any,
    op: int,
    keys: Any,
    values: Any,
    ops: Any,
    out: Any,
    mask: Any,
    stream: Any,
    out_dtype: np.dtype[Any] | None,
    flags: int,
    combine: int,
) -> tuple[Any, Any]:
    """Host arrays on a CUDA table: copy there, run, copy back; returns when the results are on the host."""
    device = table._ordinal
    s = stream_handle(stream if stream is not None else table._stream)
    library = _tensors.library(keys)
    _tensors.check_results(library, out_dtype)
    host = _arrays.to_store(keys, table.key_dtype, table._key_store, "keys")
    shape = host.shape
    given = None
    if values is not None:
        given = _arrays.to_store(values, table.value_dtype, table._value_store, "values")
        if given.ndim and given.shape != shape:
            raise ValueError(f"values have shape {given.shape}, keys {shape}: pass one value per key, or a scalar")
    if out is not None and out_dtype is None:
        raise TypeError("this table is a set (value_dtype=None) and has no values for out=: leave it out")
    target = None if out is None or out_dtype is None else _arrays.output(out, out_dtype, shape, "out")
    told = None if mask is None else _arrays.output(mask, np.dtype(bool), shape, "the mask")
    k = _as_view(_cuda.from_host(host, device, s))
    v = None
    if given is not None:
        v = _as_view(_cuda.from_host(given, device, s) if given.ndim else _repeated(shape, given, device, s))
    o = None
    if ops is not None:
        codes = _arrays.to_store(ops, np.dtype(np.uint8), np.dtype(np.uint8), "ops")
        if codes.shape != shape:
            raise ValueError(f"ops have shape {codes.shape}, keys {shape}: pass one operation per key")
        _core.check_ops(codes, table._accumulates())
        o = _as_view(_cuda.from_host(codes, device, s))
    store = table._value_store if out_dtype is table.value_dtype else out_dtype
    r = None if out_dtype is None else _as_view(_cuda.DeviceArray(shape, store, device, s))
    m = _as_view(_cuda.DeviceArray(shape, np.dtype(bool), device, s))
    failure = _raw(table, op, k, v, o, r, m, flags, combine, s, wait=True)
    codes = _download(m, device, s).view(np.uint8)
    if failure is None and (codes > 1).any():
        failure = TableFull("the backend found no room for some elements, yet called the batch a success")
    if failure is not None:
        if isinstance(failure, TableFull):
            failure.status = codes
            if told is not None:
                told[...] = codes == 1
        raise failure
    result = None
    if r is not None and out_dtype is not None:
        result = _arrays.from_store(_download(r, device, s), out_dtype)
    return _given_or_new(out, target, result, library), _given_or_new(mask, told, codes == 1, library)


def _repeated(shape: tuple[int, ...], one: np.ndarray[Any, Any], device: int, stream: int) -> _cuda.DeviceArray:
    """One value for all keys."""
    if one.itemsize > 8:
        return _cuda.from_host(np.full(shape, one), device, stream)
    return _cuda.full(shape, one, device, stream)


def _given_or_new(given: Any, target: Any, computed: Any, library: str | None) -> Any:
    """A result in the array that was given for it (`target` is its memory), or as one of the keys' library."""
    if given is not None:
        target[...] = computed
        return given
    if computed is None or library is not None:
        return computed if library is None else _tensors.give(library, computed)
    return computed[()]  # a scalar, if it has no dimensions


def _raw(
    table: Any,
    op: int,
    k: DeviceView,
    v: DeviceView | None,
    o: DeviceView | None,
    r: DeviceView | None,
    m: DeviceView,
    flags: int,
    combine: int,
    stream: int,
    wait: bool,
) -> Any:
    return table._raw(
        op,
        k.size,
        k.ptr,
        values=v.ptr if v else 0,
        out_values=r.ptr if r else 0,
        out_status=m.ptr,
        ops=o.ptr if o else 0,
        flags=flags,
        combine=combine,
        stream=stream,
        wait=wait,
    )


def _as_view(array: _cuda.DeviceArray) -> DeviceView:
    return DeviceView(array.ptr, array.shape, array.dtype, array)


def _download(found: DeviceView, device: int, stream: int) -> np.ndarray[Any, Any]:
    host = np.empty(found.shape, found.dtype)
    _cuda.copy_to_host(host, found.ptr, device, stream)
    return host


def _stored_view(
    array: Any, dtype: np.dtype[Any], store: np.dtype[Any], device: int, stream: int, what: str
) -> DeviceView:
    found = view(array, device, stream, what)
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
    return view(astype(array, store, what), device, stream, what)


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
    if _library(array) not in ("cupy", "torch"):
        raise TypeError(f"{what} have dtype {found.dtype}, the table holds {store}: convert them to {store}")
    if found.size and bool((array < 0).any()):
        _arrays.to_store(to_host(array, device, stream, what), store, store, what)  # names the first one
    signed = np.dtype(f"i{store.itemsize}")
    if found.dtype != signed:
        found = view(astype(array, signed, what), device, stream, what)
    return DeviceView(found.ptr, found.shape, store, found.owner)


def _ops_view(ops: Any, k: DeviceView, device: int, stream: int) -> DeviceView:
    o = view(ops, device, stream, "ops") if _arrays.on_device(ops) else _as_view(_cuda.from_host(ops, device, stream))
    if o.dtype != np.uint8:
        raise TypeError(f"ops have dtype {o.dtype}: pass uint8 operation codes")
    if o.shape != k.shape:
        raise ValueError(f"ops have shape {o.shape}, keys {k.shape}: pass one operation per key")
    return o


def _output(
    array: Any, dtype: np.dtype[Any], shape: tuple[int, ...], device: int, stream: int, what: str
) -> DeviceView:
    if not _arrays.on_device(array):
        raise TypeError(f"{what} is a {type(array).__name__} on the host, the keys are not: pass a device array")
    interface = getattr(array, "__cuda_array_interface__", None)
    if interface is not None and interface["data"][1]:
        raise ValueError(f"{what} is read-only: pass an array that can be written")
    found = view(array, device, stream, what)
    if found.dtype != dtype:
        raise TypeError(f"{what} has dtype {found.dtype}, the results {dtype}: pass an array of {dtype}")
    if found.shape != shape:
        raise ValueError(f"{what} has shape {found.shape}, keys {shape}: pass an array of shape {shape}")
    return found
