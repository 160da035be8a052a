"""A batch of host arrays on a CUDA table: the call returns when the results are on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pygpuhash import _arrays, _core, _cuda, _host, _streams, _tensors
from pygpuhash.errors import InvalidArgument

if TYPE_CHECKING:
    from pygpuhash._batch import Call


def serve(table: Any, call: Call) -> tuple[Any, Any]:
    """Host arrays on a CUDA table: returns when the results are on the host."""
    keys, values, ops, out, mask, out_dtype = call.keys, call.values, call.ops, call.out, call.mask, call.out_dtype
    s = _streams.stream_of_call(table, call.stream)[1]
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
        new = results is not target, given_mask is None
        how = call.flags, call.combine
        failure = _host.run(table, call.op, inputs, (_flat(results), statuses), new, how, s)
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
