"""Every value of each key, of host arrays (trait "multi"): a list of offsets, and one of values."""

from __future__ import annotations

from typing import Any

import numpy as np

from pygpuhash import _arrays, _core, _tensors
from pygpuhash.errors import InvalidArgument, Unsupported

_OFFSET = np.dtype(np.int64)


def find_all(table: Any, keys: Any, stream: Any) -> tuple[Any, Any]:
    """`Table.find_all` for host arrays: (offsets, values)."""
    stored, library = _stored(table, keys), _tensors.array_library(keys)
    for dtype in (_OFFSET, table.value_dtype):
        _tensors.check_results(library, dtype)
    step = _core.piece() if table._kind == _core.CPU else max(stored.size, 1)
    starts = range(0, max(stored.size, 1), step)
    pieces = [_find_all_of(table, stored[start : start + step], stream) for start in starts]
    offsets, values = pieces[0]
    if len(pieces) > 1:
        ends = np.cumsum([own[-1] for own, _ in pieces])
        rest = [own[1:] + end for (own, _), end in zip(pieces[1:], ends[:-1], strict=True)]
        offsets = np.concatenate([offsets, *rest])
        values = None if values is None else np.concatenate([part for _, part in pieces])
    if library is None:
        return offsets, values
    return _tensors.give(library, offsets), _tensors.give(library, values)


def _find_all_of(table: Any, stored: np.ndarray[Any, Any], stream: Any) -> tuple[np.ndarray[Any, Any], Any]:
    """All values of keys as the table stores them: `find_all` in one call of the library, or two."""
    stage = table._stage(stream)
    k = stage.upload(stored)
    offsets = stage.room(stored.size + 1, _OFFSET)
    failure = table._find_all(stored.size, k, offsets.ptr, 0, 0, stage.stream)
    while True:
        if failure is not None and not isinstance(failure, InvalidArgument):
            raise failure
        need = int(offsets.get()[-1])
        if failure is None and table._value_store is None:
            return offsets.get(), None
        values = stage.room(need, table._value_store or np.uint32)
        failure = table._find_all(stored.size, k, offsets.ptr, values.ptr, need, stage.stream)
        if failure is None:
            there = int(offsets.get()[-1])  # pairs erased, or keys that changed, in between
            return offsets.get(), _arrays.from_store(values.get()[:there], table.value_dtype)
        if int(offsets.get()[-1]) <= need:  # refused for another reason than pairs inserted in between
            raise failure


def _stored(table: Any, keys: Any) -> np.ndarray[Any, Any]:
    if _arrays.on_device(keys):
        raise Unsupported("keys are on a device, this method takes host arrays: copy them to the host first")
    return np.atleast_1d(_arrays.to_store(keys, table.key_dtype, table._key_store, "keys")).reshape(-1)
