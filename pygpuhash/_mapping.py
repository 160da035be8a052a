"""A table as a mapping of Python: `get`, `in`, and keys that are missing."""

from __future__ import annotations

from typing import Any

import numpy as np

from pygpuhash import _arrays, _device_arrays, _device_queries, _records, _tensors


def get(table: Any, keys: Any, default: Any, stream: Any) -> Any:
    """`Table.get`: values, and `default` where a key is absent."""
    if table.value_dtype is None:
        table._info()  # one that was never made says so
        raise TypeError("this table is a set (value_dtype=None) and has no values: use contains")
    library = _tensors.array_library(keys)
    if library is not None and not _arrays.on_device(keys):
        _tensors.check_results(library, table.value_dtype)
        values = table.get(_tensors.read(keys, library, "keys"), default, stream=stream)
        base = _records.base_and_shape(table.value_dtype)[0]  # a dtype of rows would make rows of each number
        return values if values is None else _tensors.give(library, np.asarray(values, base))
    values, found = table.find(keys, stream=stream)
    on_device = _arrays.on_device(found)
    # Where a key is absent, find has what 0 stands for: of times the first, of bytes and rows those of zeros.
    number = table.value_dtype.kind in "biuf"
    zero = isinstance(default, (int, float) if number else int) and default == 0
    if not on_device and np.ndim(found) == 0:
        return values if found or (zero and not number) else default
    if default is None:
        raise TypeError("default=None does not fit an array of values: pass a number, or use find")
    if zero:
        return values
    if on_device:
        return _device_queries.with_default(table, values, found, default, stream)
    default = _arrays.from_store(
        _arrays.to_store(default, table.value_dtype, table._value_store, "default"), table.value_dtype
    )
    if default.shape not in (values.shape, values.shape[found.ndim :]):  # one for each key, or one
        raise ValueError(f"default has shape {default.shape}, keys {found.shape}: pass one value per key, or a scalar")
    values[~found] = default[~found] if default.shape == values.shape else default
    return values


def contains(table: Any, key: Any) -> bool:
    """Is one key in the table?"""
    if _records.is_record(table.key_dtype):
        try:
            found = table.contains(key)
        except (OverflowError, _arrays.DoesNotFit):
            return False
        if np.ndim(found):
            raise TypeError(f"'in' takes one key, {np.size(found)} were given: use contains, which returns a mask")
        return bool(found)
    if not _arrays.is_single(key):
        n = len(key) if hasattr(key, "__len__") else "several"
        raise TypeError(f"'in' takes one key, {n} were given: use contains, which returns a mask")
    if isinstance(key, (float, np.floating)) and table.key_dtype.kind in "biu":
        if not np.isfinite(key) or key != int(key):
            return False
        key = int(key)
    try:
        return bool(table.contains(key))
    except (OverflowError, _arrays.DoesNotFit):
        return False  # no key of this dtype, hence none of this table


def want_all(table: Any, keys: Any, mask: Any) -> None:
    """Raise KeyError unless all is true; for keys on a device this waits for their stream."""
    if not _arrays.on_device(mask):
        if not mask.all():
            raise KeyError(absent(keys, np.asarray(mask)))
        return
    s = table._stream_of(keys, None)
    there = _device_arrays.to_host(mask, table._ordinal, s, "the mask")
    if not there.all():
        raise KeyError(absent(_device_arrays.to_host(keys, table._ordinal, s, "keys"), there))


def absent(keys: Any, found: np.ndarray[Any, Any]) -> str:
    """A sentence for a KeyError: how many keys, and which one is the first."""
    if np.ndim(found) == 0:
        return f"{keys!r} is not in the table"
    there = found.reshape(-1)
    at = int(there.argmin())
    given = np.asarray(keys)
    first = given.reshape(-1)[at] if given.size == found.size else given.reshape(found.size, -1)[at]
    return f"{found.size - np.count_nonzero(there)} of {found.size} keys are not in the table, the first is {first}"
