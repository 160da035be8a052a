"""`dedup="last"`: batches in which the last of equal keys wins, on backends that give elements no order."""

from __future__ import annotations

from typing import Any

import numpy as np

from pygpuhash import _arrays, _tensors
from pygpuhash.errors import GpuHashError


def assign_last(table: Any, keys: Any, values: Any, out: Any, stream: Any) -> Any:
    """`Table.insert_or_assign(dedup="last")` for host arrays: a batch without the earlier ones of equal keys."""
    stored = _arrays.to_store(keys, table.key_dtype, table._key_store, "keys")
    flat = stored.reshape(-1)
    words = flat.view("u4").reshape(flat.size, -1) if flat.dtype.itemsize > 8 else None
    bits = flat.view(f"u{flat.dtype.itemsize}") if words is None else words
    kept = flat.size - 1 - np.unique(bits[::-1], axis=None if words is None else 0, return_index=True)[1]
    given = _arrays.from_store(flat[kept], table.key_dtype)
    if out is None:
        mask = np.zeros(stored.shape, bool)
    else:
        mask = _arrays.output(out, np.dtype(bool), stored.shape, "out")
        mask[...] = False
    if values is not None:
        array = _arrays.to_store(values, table.value_dtype, table._value_store, "values")
        if array.ndim and array.shape != stored.shape:
            raise ValueError(f"values have shape {array.shape}, keys {stored.shape}: pass one value per key")
        values = _arrays.from_store(array.reshape(-1)[kept] if array.ndim else array, table.value_dtype)
    try:
        mask.reshape(-1)[kept] = table._assign(given, values, 0, None, stream)
    except GpuHashError as error:
        if error.status is not None:
            status = np.zeros(flat.size, np.uint8)
            status[kept] = error.status
            error.status = status.reshape(stored.shape)
            mask[...] = error.status == 1
        raise
    library = _tensors.array_library(keys)
    if out is not None:
        return out
    if library is not None:
        return _tensors.give(library, mask)
    return mask[()] if mask.ndim == 0 else mask
