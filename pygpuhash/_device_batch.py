"""A batch of device arrays on a CUDA table, in the order of a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pygpuhash import _arrays, _core, _cuda, _device_arrays, _records, _stored_views, _streams
from pygpuhash._views import DeviceView
from pygpuhash.errors import InvalidArgument, TableFull

if TYPE_CHECKING:
    from pygpuhash._batch import Call


def serve(table: Any, call: Call) -> tuple[Any, Any]:
    device = table._ordinal
    keys, values, ops, out, mask, out_dtype = call.keys, call.values, call.ops, call.out, call.mask, call.out_dtype
    owner, s = _streams.stream_of_call(table, call.stream, keys)
    _device_arrays.check_results(keys, out_dtype)
    k = _stored_views.stored_view(keys, table.key_dtype, table._key_store, device, s, "keys")
    v = None
    if values is not None and _arrays.on_device(values):
        v = _stored_views.stored_view(values, table.value_dtype, table._value_store, device, s, "values")
        if v.shape != k.shape:
            raise ValueError(f"values have shape {v.shape}, keys {k.shape}: pass one value per key, or a scalar")
    elif values is not None:
        one = _arrays.to_store(values, table.value_dtype, table._value_store, "values")
        if one.ndim:
            raise InvalidArgument("keys are on a CUDA device and values on the host: copy the values to the device")
        v = _stored_views.filled(keys, k.shape, one, device, owner)
    if ops is not None and not _arrays.on_device(ops):
        ops = _arrays.to_store(ops, np.dtype(np.uint8), np.dtype(np.uint8), "ops")
        _core.check_ops(ops, table._accumulates())
    o = None if ops is None else _stored_views.ops_view(ops, k, device, s)

    store = table._value_store if out_dtype is table.value_dtype else out_dtype
    record = _records.is_record(out_dtype)
    # The array of the results, as the caller sees it.
    shown, inner = _stored_views.shown(out_dtype, store)
    shape = k.shape + inner
    narrow = out_dtype is not None and not record and store != out_dtype and out_dtype.kind not in "mM"
    r = None
    if narrow and not _device_arrays.converts(keys if out is None else out):
        raise TypeError(f"{out_dtype} results need CuPy, PyTorch or JAX arrays: pass those, or host arrays")
    if out is not None and out_dtype is not None and shown is not None:
        r = _device_arrays.output(out, out_dtype if narrow else shown, shape, device, s, "out")
    result = out
    if shown is not None and (out is None or narrow):
        result = _device_arrays.empty_like(keys if out is None else out, shape, shown, device, owner)
        r = _device_arrays.view(result, device, s, "out")
    m = status = None
    if mask is not False:
        status = mask if mask is not None else _device_arrays.empty_like(keys, k.shape, np.dtype(bool), device, owner)
        m = _device_arrays.output(status, np.dtype(bool), k.shape, device, s, "the mask")
    # Only what adds keys can find no room, and only where the table does not grow; nothing else has to be waited for.
    wait = not table._grow and call.op in _core.ADDING and not _cuda.is_capturing(s)
    failure = _raw(table, call.op, k, v, o, r, m, call.flags, call.combine, s, wait=wait)
    if failure is not None:
        fail(table, failure, status, mask is not None, s)
    for given in (out, mask):
        if isinstance(given, _cuda.DeviceArray):
            given._write_on(owner)
    if narrow and out_dtype is not None:
        result = _device_arrays.astype(_device_arrays.give(keys, result), out_dtype, device, s, "values")
        if out is not None:
            with _streams.working_on(out, device, s):
                out[...] = result
            result = out
    if out is None:
        result = _device_arrays.give(keys, result)
    return result, _device_arrays.give(keys, status) if mask is None else status


def fail(table: Any, failure: Exception, status: Any, given: bool, stream: int) -> None:
    """Raise what a batch on device arrays has ended with; a `TableFull` has the status of every element."""
    if isinstance(failure, TableFull) and status is not None:
        device = table._ordinal
        with _cuda.current(device):
            m = _device_arrays.view(status, device, stream, "the mask")
            failure.status = _device_arrays.download(m, device, stream).view(np.uint8)
            if given:  # the caller's: leave booleans in it
                _cuda.copy_from_host(failure.status == 1, m.ptr, device, stream)
    raise failure


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
