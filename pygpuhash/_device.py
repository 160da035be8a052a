"""CUDA arrays in, arrays of the same library out, in the order of a stream; and host arrays on a CUDA table.

An input is anything with `__dlpack__` (asked to make its data ready for our stream) or `__cuda_array_interface__`
(version 3: its stream is waited for, on the device). Results come from the library of the keys where it can be asked to
make an array (CuPy, PyTorch, Numba) or to take one over (JAX); otherwise they are `pygpuhash.DeviceArray`.

Which stream: the `stream=` of the call, else that of the table, else the current stream of the keys' library, else the
default stream. The caller keeps inputs alive until the stream has passed the call, as with any asynchronous library.

The table's device is made current before the library of an array is asked anything: PyTorch hands out a tensor of the
current device only. What is plain and ready never comes here, see `CoreTable._on_device`.
"""

from __future__ import annotations

import contextlib
import math
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from pygpuhash import _arrays, _core, _cuda, _host, _records, _tensors, _views
from pygpuhash._core import stream_handle
from pygpuhash._views import DeviceView
from pygpuhash.errors import DeviceError, InvalidArgument, TableFull

__all__ = [
    "DeviceView",
    "batch",
    "check_results",
    "converts",
    "cupy_stream",
    "current_stream",
    "empty_like",
    "fail",
    "find_all",
    "give",
    "neighbors",
    "pairs",
    "range_of",
    "stream_handle",
    "to_host",
    "usable_stream",
    "view",
    "with_default",
    "working_on",
]


# ---- streams ---------------------------------------------------------------------------------------------------------


def usable_stream(stream: Any, device: int, *known: Any) -> tuple[Any, int]:
    """(what keeps a stream that was named, its handle); refused if it is of another device, or may not be a stream.

    The driver reads the memory at a handle: that of a stream that is gone ends the process. So a number alone is taken
    where something that lives has it: a stream that is current, or is `known` to the call.
    """
    handle = stream_handle(stream)
    if handle <= _cuda.DEFAULT_STREAMS:
        return stream, handle
    stream = _cuda.keeper(stream, device, *known)
    if not _cuda.is_capturing(handle):  # a capture would not survive the question
        try:
            found = int(_cuda.call("cuStreamGetDevice", handle))
        except DeviceError as error:
            raise InvalidArgument(f"stream={stream!r} cannot be used: {error}") from error
        if found != device:
            raise InvalidArgument(
                f"stream={stream!r} is of cuda:{found}, the table on cuda:{device}: pass a stream of that device"
            )
    return stream, handle


def stream_of_call(table: Any, stream: Any, array: Any = None) -> tuple[Any, int]:
    """(what keeps the stream of a call, its handle): the one that was named, that of the table, or that of an array."""
    if stream is not None:
        return usable_stream(stream, table._ordinal, table._stream, getattr(array, "_keeps", None))
    if table._stream is not None or array is None:
        return usable_stream(table._stream, table._ordinal)
    owner = stream_keeper(array, table._ordinal)
    return owner, stream_handle(owner)


# ---- reading arrays --------------------------------------------------------------------------------------------------


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


def to_host(array: Any, device: int, stream: int, what: str) -> np.ndarray[Any, Any]:
    """A copy on the host of a device array of any library, made when the stream has come to it."""
    with _cuda.current(device):
        return _download(view(array, device, stream, what), device, stream)


# ---- the libraries whose arrays come in and go out -------------------------------------------------------------------


def stream_keeper(array: Any, device: int) -> Any:
    """What keeps the stream on which the array's library would launch work now; 0 for the default stream."""
    name = _tensors.library_of(array)
    if name == "cupy":
        return sys.modules["cupy"].cuda.get_current_stream(device)
    if name == "torch":
        return sys.modules["torch"].cuda.current_stream(device)
    return array._stream_keeper() if isinstance(array, _cuda.DeviceArray) else 0


def current_stream(array: Any, device: int) -> int:
    """The handle of the stream on which the array's library would launch work now."""
    return stream_handle(stream_keeper(array, device))


def working_on(array: Any, device: int, stream: int) -> Any:
    """A context in which the array's library allocates and works on a stream."""
    name = _tensors.library_of(array)
    if name == "cupy":
        return cupy_stream(sys.modules["cupy"], stream, device)
    if name == "torch":
        torch = sys.modules["torch"]
        if stream == torch.cuda.current_stream(device).cuda_stream:
            return contextlib.nullcontext()  # entering a stream's context takes longer than an allocation
        here = torch.cuda.ExternalStream(stream, device=device) if stream else torch.cuda.default_stream(device)
        return torch.cuda.stream(here)
    return contextlib.nullcontext()


def empty_like(array: Any, shape: tuple[int, ...], dtype: np.dtype[Any], device: int, stream: Any) -> Any:
    """A new array of the same library on the same device, usable in the order of `stream`; for JAX one of our own."""
    name, handle = _tensors.library_of(array), stream_handle(stream)
    with working_on(array, device, handle):
        if name == "cupy":
            return sys.modules["cupy"].empty(shape, dtype)
        if name == "torch":
            torch = sys.modules["torch"]
            return torch.empty(shape, dtype=getattr(torch, dtype.name), device=f"cuda:{device}")
    if name == "numba":
        cuda = sys.modules["numba"].cuda
        return cuda.device_array(shape, dtype, stream=cuda.external_stream(handle) if handle else 0)
    return _cuda.DeviceArray(shape, dtype, device, stream)


def cupy_stream(cupy: Any, stream: int, device: int) -> Any:
    """A context in which CuPy's pool allocates for a stream."""
    if stream == cupy.cuda.get_current_stream(device).ptr:
        return contextlib.nullcontext()
    if not stream:
        return cupy.cuda.Stream.null
    if hasattr(cupy.cuda.Stream, "from_external"):  # CuPy 14
        return cupy.cuda.Stream.from_external(_cuda.Address(stream))
    return cupy.cuda.ExternalStream(stream, device)


def converts(array: Any) -> bool:
    """Can the array's library be asked to convert it?"""
    return _tensors.library_of(array) in ("cupy", "torch", "jax")


def astype(array: Any, dtype: np.dtype[Any], device: int, stream: int, what: str) -> Any:
    """The array in another dtype, by its own library."""
    if not converts(array):
        raise TypeError(
            f"{what} are a {type(array).__name__}, which cannot be asked to convert to {dtype}: convert them"
        )
    with working_on(array, device, stream):
        return (
            array.to(getattr(sys.modules["torch"], dtype.name))
            if _tensors.library_of(array) == "torch"
            else array.astype(dtype)
        )


def _filled(keys: Any, shape: tuple[int, ...], one: np.ndarray[Any, Any], device: int, stream: Any) -> DeviceView:
    """One value for all keys, as bits; by the library of the keys, so that a graph can capture it."""
    name, handle = _tensors.library_of(keys), stream_handle(stream)
    if name not in ("cupy", "torch") or one.itemsize > 8:
        return _as_view(_cuda.full(shape, one, device, stream))
    bits = one.reshape(1).view(f"i{one.dtype.itemsize}")
    with working_on(keys, device, handle):
        if name == "cupy":
            filled = sys.modules["cupy"].full(shape, bits[0], bits.dtype)
            ptr = filled.data.ptr
        else:
            torch = sys.modules["torch"]
            kind = getattr(torch, bits.dtype.name)
            filled = torch.full(shape, int(bits[0]), dtype=kind, device=f"cuda:{device}")
            ptr = filled.data_ptr()
    return DeviceView(ptr, shape, one.dtype, filled)


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


# ---- calls that are not batches --------------------------------------------------------------------------------------


class _Call:
    """The stream of a call with device arrays, and memory for its results."""

    def __init__(self, table: Any, keys: Any, stream: Any) -> None:
        if table._kind != _core.CUDA:
            raise InvalidArgument(
                f"keys are a {type(keys).__name__} on a CUDA device, the table is on the CPU: copy the keys to the "
                "host, or create the table with device='cuda'"
            )
        table._refuse_forked()
        self.table, self.keys, self.device = table, keys, table._ordinal
        self.owner, self.stream = stream_of_call(table, stream, keys)

    def view(self, array: Any, what: str) -> DeviceView:
        if not _arrays.on_device(array):
            raise InvalidArgument(f"keys are on a CUDA device and {what} on the host: copy {what} to the device")
        return _stored_view(array, self.table.key_dtype, self.table._key_store, self.device, self.stream, what)

    def room(self, shape: tuple[int, ...], dtype: np.dtype[Any], what: str) -> tuple[Any, DeviceView]:
        array = empty_like(self.keys, shape, dtype, self.device, self.owner)
        return array, view(array, self.device, self.stream, what)

    def result(self, array: Any, dtype: np.dtype[Any], what: str) -> Any:
        """As the user sees it: of the table's dtype, in the library of the keys."""
        given = give(self.keys, array)
        found = np.dtype(str(given.dtype).removeprefix("torch."))
        if dtype.kind in "mM" or found == dtype or _records.is_record(dtype):
            return given
        return astype(given, dtype, self.device, self.stream, what)

    def check(self, *dtypes: Any) -> None:
        """Refuse results that the library of the keys has no way to hold, before anything is done."""
        check_results(self.keys, *dtypes)
        for dtype in dtypes:
            store = None if dtype is None or _records.is_record(dtype) else _arrays.store_dtype(dtype, keys=False)
            if store is not None and store != dtype and dtype.kind not in "mM" and not converts(self.keys):
                raise TypeError(f"{dtype} results need CuPy, PyTorch or JAX arrays: pass those, or host arrays")


def find_all(table: Any, keys: Any, stream: Any) -> tuple[Any, Any]:
    """`Table.find_all` for device arrays: (offsets, values)."""
    call = _Call(table, keys, stream)
    call.check(np.dtype(np.int64), table.value_dtype)
    with _cuda.current(call.device):
        k = call.view(keys, "keys")
        offsets, o = call.room((k.size + 1,), np.dtype(np.int64), "the offsets")
        failure = table._find_all(k.size, k.ptr, o.ptr, 0, 0, call.stream)
        while True:
            if failure is not None and not isinstance(failure, InvalidArgument):
                raise failure
            need = _last(o, call)
            if table._value_store is None:
                if failure is not None:
                    raise failure
                return give(keys, offsets), None
            shown, inner = _shown(table.value_dtype, table._value_store)
            values, v = call.room((need, *inner), shown, "the values")
            failure = table._find_all(k.size, k.ptr, o.ptr, v.ptr or o.ptr, need, call.stream)
            there = _last(o, call)  # pairs erased or inserted in between
            if failure is None:
                shorter = values if there == need else _head(values, there, call)
                return give(keys, offsets), call.result(shorter, table.value_dtype, "values")
            if there <= need:  # refused for another reason than pairs inserted in between
                raise failure


def _last(offsets: DeviceView, call: _Call) -> int:
    end = np.empty((), np.int64)
    _cuda.copy_to_host(end, offsets.ptr + 8 * (offsets.size - 1), call.device, call.stream)
    return int(end)


def _head(values: Any, n: int, call: _Call) -> Any:
    """The first n rows of an array."""
    if not isinstance(values, _cuda.DeviceArray):
        return values[:n]
    array = _cuda.DeviceArray((n, *values.shape[1:]), values.dtype, call.device, call.owner)
    _cuda.copy(array.ptr, values.ptr, array.nbytes, call.stream)
    return array


def _shown(dtype: Any, store: Any) -> tuple[Any, tuple[int, ...]]:
    """The dtype of an array of results as the device has it, and its dimensions beside those of the keys."""
    return _records.base_and_shape(dtype) if _records.is_record(dtype) else (store, ())


def neighbors(table: Any, which: int, keys: Any, stream: Any) -> tuple[Any, Any, Any]:
    """`Table.lower_bound` and its like for device arrays: (keys, values, found)."""
    call = _Call(table, keys, stream)
    call.check(table.key_dtype, table.value_dtype)
    with _cuda.current(call.device):
        k = call.view(keys, "keys")
        out_keys, ok = call.room(k.shape, table._key_store, "keys")
        out_values, ov = None, None
        if table._value_store is not None:
            shown, inner = _shown(table.value_dtype, table._value_store)
            out_values, ov = call.room(k.shape + inner, shown, "values")
        found, f = call.room(k.shape, np.dtype(bool), "found")
        table._neighbors(which, k.size, k.ptr, ok.ptr, ov.ptr if ov else 0, f.ptr, call.stream)
        values = None if out_values is None else call.result(out_values, table.value_dtype, "values")
        return call.result(out_keys, table.key_dtype, "keys"), values, give(keys, found)


class _Pairs:
    """Keys and values of ranges on the device: new arrays, or those that the caller gave as `out`."""

    def __init__(self, call: _Call, out: Any, shape: tuple[int, ...]) -> None:
        """Results of this shape; the caller's arrays may have more rows."""
        table = call.table
        self.call = call
        self.row = shape[1:]
        self.dtypes = (table.key_dtype, table.value_dtype)
        self.stores = (table._key_store, table._value_store)
        self.out = _arrays.two_outputs(out, table.value_dtype)
        self.given: list[Any] = [None, None]
        self.rooms: list[Any] = [None, None]
        for i, array in enumerate(self.out or ()):
            if array is None:
                continue
            shown, inner = self._shown(i)
            if self._narrow(i) and not converts(array):
                raise TypeError(
                    f"{self.dtypes[i]} results need CuPy or PyTorch arrays: pass those as out, or leave it out"
                )
            dtype = self.dtypes[i] if self._narrow(i) else shown
            self.given[i] = _output(array, dtype, shape + inner, call.device, call.stream, f"out[{i}]", longer=True)
        # Pairs that the caller's arrays have room for, or None.
        self.most = None if self.out is None else min(view.shape[0] for view in self.given if view is not None)

    def room(self, rows: int) -> tuple[int, int]:
        """Addresses for so many rows; 0 for the values of a set."""
        _arrays.refuse_short(self.most, rows)
        addresses = [0, 0]
        for i, what in enumerate(("keys", "values")):
            if self.stores[i] is None:
                continue
            if self.given[i] is not None and not self._narrow(i):
                addresses[i] = self.given[i].ptr
            else:
                shown, inner = self._shown(i)
                self.rooms[i], view_of = self.call.room((rows, *self.row, *inner), shown, what)
                addresses[i] = view_of.ptr
        return addresses[0], addresses[1]

    def give(self, rows: int) -> list[Any]:
        """The first so many rows, in the arrays of the caller or as arrays of the library of the ends."""
        return [None if store is None else self._given(i, rows) for i, store in enumerate(self.stores)]

    def _given(self, i: int, rows: int) -> Any:
        room, view_of, what = self.rooms[i], self.given[i], ("keys", "values")[i]
        if room is not None:
            room = self.call.result(
                room if room.shape[0] == rows else _head(room, rows, self.call), self.dtypes[i], what
            )
        if self.out is None:
            return room
        out = self.out[i]
        if room is not None:
            with working_on(out, self.call.device, self.call.stream):
                out[:rows] = room
        if isinstance(out, _cuda.DeviceArray):
            out._write_on(self.call.owner)
        if hasattr(out, "__getitem__"):
            return out[:rows]
        return _cuda.DeviceArray._over(view_of, (rows, *view_of.shape[1:]), self.call.device, self.call.owner)

    def _shown(self, i: int) -> tuple[np.dtype[Any], tuple[int, ...]]:
        """The dtype of an array of such elements, and its dimensions beside those of the ranges."""
        return _shown(self.dtypes[i], self.stores[i])

    def _narrow(self, i: int) -> bool:
        """Does the table store wider elements, which are converted afterwards?"""
        dtype = self.dtypes[i]
        return not _records.is_record(dtype) and dtype.kind not in "mM" and dtype != self.stores[i]


def range_of(table: Any, low: Any, high: Any, limit: int, stream: Any, out: Any = None) -> tuple[Any, Any, Any]:
    """`Table.range` for device arrays: (keys, values, counts)."""
    call = _Call(table, low, stream)
    call.check(table.key_dtype, table.value_dtype, np.dtype(np.int64))
    with _cuda.current(call.device):
        lows, highs = call.view(low, "low"), call.view(high, "high")
        if lows.shape != highs.shape:
            raise ValueError(f"low has shape {lows.shape}, high {highs.shape}: pass one of each per range")
        results = _Pairs(call, out, (lows.size, limit))
        out_keys, out_values = results.room(lows.size)
        counts, c = call.room((lows.size,), np.dtype(np.int64), "the counts")
        table._range(lows.size, lows.ptr, highs.ptr, limit, out_keys, out_values, c.ptr, call.stream)
        keys, values = results.give(lows.size)
        return keys, values, give(low, counts)


def pairs(table: Any, low: Any, high: Any, stream: Any, out: Any = None) -> tuple[Any, Any, Any]:
    """`Table.range` without a limit for device arrays: (keys, values, offsets). Waits for the number of pairs."""
    like = high if low is None else low
    call = _Call(table, like, stream)
    call.check(table.key_dtype, table.value_dtype, np.dtype(np.int64))
    with _cuda.current(call.device):
        ends = [None if end is None else call.view(end, what) for end, what in ((low, "low"), (high, "high"))]
        shapes = [end.shape for end in ends if end is not None]
        if shapes[0] != shapes[-1]:
            raise ValueError(f"low has shape {shapes[0]}, high {shapes[1]}: pass one of each per range")
        n = math.prod(shapes[0])
        low_ptr, high_ptr = (0 if end is None else end.ptr for end in ends)
        results = _Pairs(call, out, (0,))
        offsets, o = call.room((n + 1,), np.dtype(np.int64), "the offsets")
        need = there = results.most or 0
        failure = None
        if not need:
            failure = table._range_all(n, low_ptr, high_ptr, o.ptr, 0, 0, 0, call.stream)
            if failure is not None:
                raise failure
            need = there = _last(o, call)
        while True:
            out_keys, out_values = results.room(need)
            if need:
                failure = table._range_all(n, low_ptr, high_ptr, o.ptr, need, out_keys, out_values, call.stream)
                there = _last(o, call)  # pairs erased or inserted in between
            if failure is None:
                break
            if not isinstance(failure, InvalidArgument) or there <= need:  # refused for another reason
                raise failure
            need = there
        keys, values = results.give(there)
        return keys, values, give(like, offsets)


def with_default(table: Any, values: Any, found: Any, default: Any, stream: Any) -> Any:
    """The values of a `find` on a device, with `default` (a number, or an array like them) where none was found."""
    name = _tensors.library_of(values)
    device = table._ordinal
    s = stream_of_call(table, stream, values)[1]
    if not _arrays.on_device(default):
        host = _arrays.to_store(default, table.value_dtype, table._value_store, "default")
        default = _arrays.from_store(host, table.value_dtype)
        if default.ndim:
            raise InvalidArgument("values are on a CUDA device and default on the host: copy default to the device")
    if name in ("cupy", "torch", "jax"):
        array = sys.modules["jax"].numpy if name == "jax" else sys.modules[name]
        with _cuda.current(device), working_on(values, device, s):
            found = found.reshape(tuple(found.shape) + (1,) * (len(values.shape) - len(found.shape)))  # of rows
            if name != "torch":
                one = default[()] if isinstance(default, np.ndarray) else default  # CuPy takes scalars, not host arrays
                return array.where(found, values, one).astype(values.dtype)
            if isinstance(default, np.ndarray):
                return values.masked_fill_(~found, default.item())
            return array.where(found, values, default.to(values.dtype))
    # No library to ask: over the host, which waits.
    there = to_host(found, device, s, "found")
    other = to_host(default, device, s, "default") if _arrays.on_device(default) else default
    chosen = np.where(there, to_host(values, device, s, "values"), other).astype(values.dtype)
    view_of = view(values, device, s, "values")
    _cuda.copy_from_host(np.ascontiguousarray(chosen), view_of.ptr, device, s)
    return values


# ---- the batch -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Call:
    """One batch as the caller has given it.

    out, mask : arrays for values and for statuses, or None; mask may be False: no statuses.
    out_dtype : of the values that come back, None where none do.
    """

    op: int
    keys: Any
    values: Any
    ops: Any
    out: Any
    mask: Any
    stream: Any
    out_dtype: np.dtype[Any] | None
    flags: int
    combine: int


def batch(table: Any, call: Call) -> tuple[Any, Any]:
    """`CoreTable._batch` for every case but host arrays on a CPU table."""
    keys = call.keys
    if not _arrays.on_device(keys):
        return _host_batch(table, call)
    if table._kind != _core.CUDA:
        raise InvalidArgument(
            f"keys are a {type(keys).__name__} on a CUDA device, the table is on the CPU: copy the keys to the host, "
            "or create the table with device='cuda'"
        )
    with _cuda.current(table._ordinal):
        return _device_batch(table, call)


def _device_batch(table: Any, call: Call) -> tuple[Any, Any]:
    device = table._ordinal
    keys, values, ops, out, mask, out_dtype = call.keys, call.values, call.ops, call.out, call.mask, call.out_dtype
    owner, s = stream_of_call(table, call.stream, keys)
    check_results(keys, out_dtype)
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
        v = _filled(keys, k.shape, one, device, owner)
    if ops is not None and not _arrays.on_device(ops):
        ops = _arrays.to_store(ops, np.dtype(np.uint8), np.dtype(np.uint8), "ops")
        _core.check_ops(ops, table._accumulates())
    o = None if ops is None else _ops_view(ops, k, device, s)

    store = table._value_store if out_dtype is table.value_dtype else out_dtype
    record = _records.is_record(out_dtype)
    # The array of the results, as the caller sees it.
    shown, inner = _shown(out_dtype, store)
    shape = k.shape + inner
    narrow = out_dtype is not None and not record and store != out_dtype and out_dtype.kind not in "mM"
    r = None
    if narrow and not converts(keys if out is None else out):
        raise TypeError(f"{out_dtype} results need CuPy, PyTorch or JAX arrays: pass those, or host arrays")
    if out is not None and out_dtype is not None and shown is not None:
        r = _output(out, out_dtype if narrow else shown, shape, device, s, "out")
    result = out
    if shown is not None and (out is None or narrow):
        result = empty_like(keys if out is None else out, shape, shown, device, owner)
        r = view(result, device, s, "out")
    m = status = None
    if mask is not False:
        status = mask if mask is not None else empty_like(keys, k.shape, np.dtype(bool), device, owner)
        m = _output(status, np.dtype(bool), k.shape, device, s, "the mask")
    # Only what adds keys can find no room, and only where the table does not grow; nothing else has to be waited for.
    wait = not table._grow and call.op in _core.ADDING and not _cuda.is_capturing(s)
    failure = _raw(table, call.op, k, v, o, r, m, call.flags, call.combine, s, wait=wait)
    if failure is not None:
        fail(table, failure, status, mask is not None, s)
    for given in (out, mask):
        if isinstance(given, _cuda.DeviceArray):
            given._write_on(owner)
    if narrow and out_dtype is not None:
        result = astype(give(keys, result), out_dtype, device, s, "values")
        if out is not None:
            with working_on(out, device, s):
                out[...] = result
            result = out
    if out is None:
        result = give(keys, result)
    return result, give(keys, status) if mask is None else status


def fail(table: Any, failure: Exception, status: Any, given: bool, stream: int) -> None:
    """Raise what a batch on device arrays has ended with; a `TableFull` has the status of every element."""
    if isinstance(failure, TableFull) and status is not None:
        device = table._ordinal
        with _cuda.current(device):
            m = view(status, device, stream, "the mask")
            failure.status = _download(m, device, stream).view(np.uint8)
            if given:  # the caller's: leave booleans in it
                _cuda.copy_from_host(failure.status == 1, m.ptr, device, stream)
    raise failure


def _host_batch(table: Any, call: Call) -> tuple[Any, Any]:
    """Host arrays on a CUDA table: returns when the results are on the host."""
    keys, values, ops, out, mask, out_dtype = call.keys, call.values, call.ops, call.out, call.mask, call.out_dtype
    s = stream_of_call(table, call.stream)[1]
    if s and _cuda.is_capturing(s):
        raise InvalidArgument(
            "the stream is being captured into a graph, and host arrays are copied now: pass device arrays, or call "
            "outside of the capture"
        )
    library = _tensors.array_library(keys)
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
    given_mask = None if mask is None else _arrays.output(mask, np.dtype(bool), shape, "the mask")
    codes = None
    if ops is not None:
        codes = _arrays.to_store(ops, np.dtype(np.uint8), np.dtype(np.uint8), "ops")
        if codes.shape != shape:
            raise ValueError(f"ops have shape {codes.shape}, keys {shape}: pass one operation per key")
        _core.check_ops(codes, table._accumulates())
    _core.refuse_overlaps((host, given, codes), (target, given_mask))
    store = table._value_store if out_dtype is table.value_dtype else out_dtype
    results = None
    if out_dtype is not None:
        results = target if target is not None and store == out_dtype else np.empty(shape, store)
    status = given_mask if given_mask is not None else np.empty(shape, bool)
    statuses = status.view(np.uint8).reshape(-1)
    inputs = host.reshape(-1), _flat(given), _flat(codes)
    try:
        failure = _host.run(table, call.op, inputs, (_flat(results), statuses), (call.flags, call.combine), s)
    except BaseException:
        statuses[...] = statuses == 1  # the mask may be the caller's: leave booleans in it
        raise
    if failure is not None:
        if failure.status is not None:
            failure.status = failure.status.reshape(shape)
        statuses[...] = statuses == 1
        raise failure
    found = None
    if results is not None and out_dtype is not None:
        found = results if results is target else _arrays.from_store(results, out_dtype)
    return _given_or_new(out, target, found, library), _given_or_new(mask, given_mask, status, library)


def _flat(array: Any) -> Any:
    """One-dimensional, but for one value that stands for all."""
    return array if array is None or array.ndim == 0 else array.reshape(-1)


def _given_or_new(given: Any, target: Any, computed: Any, library: str | None) -> Any:
    """A result in the array that was given for it (`target` is its memory), or as one of the keys' library."""
    if given is not None:
        if computed is not target:
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
    m: DeviceView | None,
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
        out_status=m.ptr if m else 0,
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
    if _tensors.cuts(_tensors.library_of(array), store):
        raise TypeError(
            f"{what} have dtype {found.dtype}, the table holds {dtype}, and JAX converts to 32 bits only: call "
            f"jax.config.update('jax_enable_x64', True), or make the table with a dtype of 4 bytes"
        )
    return view(astype(array, store, device, stream, what), device, stream, what)


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
    if not converts(array):
        raise TypeError(f"{what} have dtype {found.dtype}, the table holds {store}: convert them to {store}")
    with working_on(array, device, stream):
        negative = bool(found.size) and bool((array < 0).any())
    if negative:
        _arrays.to_store(to_host(array, device, stream, what), store, store, what)  # names the first one
    signed = np.dtype(f"i{store.itemsize}")
    if found.dtype != signed:
        found = view(astype(array, signed, device, stream, what), device, stream, what)
    return DeviceView(found.ptr, found.shape, store, found.owner)


def _ops_view(ops: Any, k: DeviceView, device: int, stream: int) -> DeviceView:
    if _arrays.on_device(ops):
        o = view(ops, device, stream, "ops")
    else:
        o = _as_view(_cuda.from_host(ops, device, _cuda.Address(stream)))
    if o.dtype != np.uint8:
        raise TypeError(f"ops have dtype {o.dtype}: pass uint8 operation codes")
    if o.shape != k.shape:
        raise ValueError(f"ops have shape {o.shape}, keys {k.shape}: pass one operation per key")
    return o


def _output(
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
