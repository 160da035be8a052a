"""Calls with device arrays that are no batches: all values of keys, neighbours, ranges, and values by default."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

from pygpuhash import _arrays, _core, _cuda, _device_arrays, _records, _stored_views, _streams, _tensors
from pygpuhash._views import DeviceView
from pygpuhash.errors import InvalidArgument


class _Query:
    """The stream of a call with device arrays, and memory for its results."""

    def __init__(self, table: Any, keys: Any, stream: Any) -> None:
        if table._kind != _core.CUDA:
            raise InvalidArgument(
                f"keys are a {type(keys).__name__} on a CUDA device, the table is on the CPU: copy the keys to the "
                "host, or create the table with device='cuda'"
            )
        table._refuse_forked()
        self.table, self.keys, self.device = table, keys, table._ordinal
        self.owner, self.stream = _streams.stream_of_call(table, stream, keys)

    def view(self, array: Any, what: str) -> DeviceView:
        if not _arrays.on_device(array):
            raise InvalidArgument(f"keys are on a CUDA device and {what} on the host: copy {what} to the device")
        return _stored_views.stored_view(
            array, self.table.key_dtype, self.table._key_store, self.device, self.stream, what
        )

    def room(self, shape: tuple[int, ...], dtype: np.dtype[Any], what: str) -> tuple[Any, DeviceView]:
        array = _device_arrays.empty_like(self.keys, shape, dtype, self.device, self.owner)
        return array, _device_arrays.view(array, self.device, self.stream, what)

    def result(self, array: Any, dtype: np.dtype[Any], what: str) -> Any:
        """As the user sees it: of the table's dtype, in the library of the keys."""
        given = _device_arrays.give(self.keys, array)
        found = np.dtype(str(given.dtype).removeprefix("torch."))
        if dtype.kind in "mM" or found == dtype or _records.is_record(dtype):
            return given
        return _device_arrays.astype(given, dtype, self.device, self.stream, what)

    def check(self, *dtypes: Any) -> None:
        """Refuse results that the library of the keys has no way to hold, before anything is done."""
        _device_arrays.check_results(self.keys, *dtypes)
        for dtype in dtypes:
            store = None if dtype is None or _records.is_record(dtype) else _arrays.store_dtype(dtype, keys=False)
            if (
                store is not None
                and store != dtype
                and dtype.kind not in "mM"
                and not _device_arrays.converts(self.keys)
            ):
                raise TypeError(f"{dtype} results need CuPy, PyTorch or JAX arrays: pass those, or host arrays")


def find_all(table: Any, keys: Any, stream: Any) -> tuple[Any, Any]:
    """`Table.find_all` for device arrays: (offsets, values)."""
    call = _Query(table, keys, stream)
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
                return _device_arrays.give(keys, offsets), None
            shown, inner = _stored_views.shown(table.value_dtype, table._value_store)
            values, v = call.room((need, *inner), shown, "the values")
            failure = table._find_all(k.size, k.ptr, o.ptr, v.ptr or o.ptr, need, call.stream)
            there = _last(o, call)  # pairs erased or inserted in between
            if failure is None:
                shorter = values if there == need else _head(values, there, call)
                return _device_arrays.give(keys, offsets), call.result(shorter, table.value_dtype, "values")
            if there <= need:  # refused for another reason than pairs inserted in between
                raise failure


def _last(offsets: DeviceView, call: _Query) -> int:
    end = np.empty((), np.int64)
    _cuda.copy_to_host(end, offsets.ptr + 8 * (offsets.size - 1), call.device, call.stream)
    return int(end)


def _head(values: Any, n: int, call: _Query) -> Any:
    """The first n rows of an array."""
    if not isinstance(values, _cuda.DeviceArray):
        return values[:n]
    array = _cuda.DeviceArray((n, *values.shape[1:]), values.dtype, call.device, call.owner)
    _cuda.copy(array.ptr, values.ptr, array.nbytes, call.stream)
    return array


def neighbors(table: Any, which: int, keys: Any, stream: Any) -> tuple[Any, Any, Any]:
    """`Table.lower_bound` and its like for device arrays: (keys, values, found)."""
    call = _Query(table, keys, stream)
    call.check(table.key_dtype, table.value_dtype)
    with _cuda.current(call.device):
        k = call.view(keys, "keys")
        out_keys, ok = call.room(k.shape, table._key_store, "keys")
        out_values, ov = None, None
        if table._value_store is not None:
            shown, inner = _stored_views.shown(table.value_dtype, table._value_store)
            out_values, ov = call.room(k.shape + inner, shown, "values")
        found, f = call.room(k.shape, np.dtype(bool), "found")
        table._neighbors(which, k.size, k.ptr, ok.ptr, ov.ptr if ov else 0, f.ptr, call.stream)
        values = None if out_values is None else call.result(out_values, table.value_dtype, "values")
        return call.result(out_keys, table.key_dtype, "keys"), values, _device_arrays.give(keys, found)


class _Pairs:
    """Keys and values of ranges on the device: new arrays, or those that the caller gave as `out`."""

    def __init__(self, call: _Query, out: Any, shape: tuple[int, ...]) -> None:
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
            if self._narrow(i) and not _device_arrays.converts(array):
                raise TypeError(
                    f"{self.dtypes[i]} results need CuPy or PyTorch arrays: pass those as out, or leave it out"
                )
            dtype = self.dtypes[i] if self._narrow(i) else shown
            self.given[i] = _device_arrays.output(
                array, dtype, shape + inner, call.device, call.stream, f"out[{i}]", longer=True
            )
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
            with _streams.working_on(out, self.call.device, self.call.stream):
                out[:rows] = room
        if isinstance(out, _cuda.DeviceArray):
            out._write_on(self.call.owner)
        if hasattr(out, "__getitem__"):
            return out[:rows]
        return _cuda.DeviceArray._over(view_of, (rows, *view_of.shape[1:]), self.call.device, self.call.owner)

    def _shown(self, i: int) -> tuple[np.dtype[Any], tuple[int, ...]]:
        """The dtype of an array of such elements, and its dimensions beside those of the ranges."""
        return _stored_views.shown(self.dtypes[i], self.stores[i])

    def _narrow(self, i: int) -> bool:
        """Does the table store wider elements, which are converted afterwards?"""
        dtype = self.dtypes[i]
        return not _records.is_record(dtype) and dtype.kind not in "mM" and dtype != self.stores[i]


def range_of(table: Any, low: Any, high: Any, limit: int, stream: Any, out: Any = None) -> tuple[Any, Any, Any]:
    """`Table.range` for device arrays: (keys, values, counts)."""
    call = _Query(table, low, stream)
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
        return keys, values, _device_arrays.give(low, counts)


def pairs(table: Any, low: Any, high: Any, stream: Any, out: Any = None) -> tuple[Any, Any, Any]:
    """`Table.range` without a limit for device arrays: (keys, values, offsets). Waits for the number of pairs."""
    like = high if low is None else low
    call = _Query(table, like, stream)
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
        return keys, values, _device_arrays.give(like, offsets)


def with_default(table: Any, values: Any, found: Any, default: Any, stream: Any) -> Any:
    """The values of a `find` on a device, with `default` (a number, or an array like them) where none was found."""
    name = _tensors.library_of(values)
    device = table._ordinal
    s = _streams.stream_of_call(table, stream, values)[1]
    if not _arrays.on_device(default):
        host = _arrays.to_store(default, table.value_dtype, table._value_store, "default")
        default = _arrays.from_store(host, table.value_dtype)
        if default.ndim:
            raise InvalidArgument("values are on a CUDA device and default on the host: copy default to the device")
    if name in ("cupy", "torch", "jax"):
        array = sys.modules["jax"].numpy if name == "jax" else sys.modules[name]
        with _cuda.current(device), _streams.working_on(values, device, s):
            found = found.reshape(tuple(found.shape) + (1,) * (len(values.shape) - len(found.shape)))  # of rows
            if name != "torch":
                one = default[()] if isinstance(default, np.ndarray) else default  # CuPy takes scalars, not host arrays
                return array.where(found, values, one).astype(values.dtype)
            if isinstance(default, np.ndarray):
                return values.masked_fill_(~found, default.item())
            return array.where(found, values, default.to(values.dtype))
    # No library to ask: over the host, which waits.
    there = _device_arrays.to_host(found, device, s, "found")
    other = _device_arrays.to_host(default, device, s, "default") if _arrays.on_device(default) else default
    chosen = np.where(there, _device_arrays.to_host(values, device, s, "values"), other).astype(values.dtype)
    view_of = _device_arrays.view(values, device, s, "values")
    _cuda.copy_from_host(np.ascontiguousarray(chosen), view_of.ptr, device, s)
    return values
