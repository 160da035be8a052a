"""The verbs of ordered backends: neighbours, ranges and slices, for host arrays and for those of the table's device."""

from __future__ import annotations

from typing import Any

import numpy as np

from pygpuhash import _arrays, _core, _device, _records, _tensors
from pygpuhash._arguments import whole
from pygpuhash.errors import InvalidArgument, Unsupported

__all__ = [
    "ABOVE",
    "AT_LEAST",
    "AT_MOST",
    "BELOW",
    "extreme",
    "key_order",
    "neighbors",
    "pairs",
    "pairs_at_once",
    "ranges",
]

AT_LEAST, ABOVE, AT_MOST, BELOW = 0, 1, 2, 3
_OFFSET = np.dtype(np.int64)


def key_order(keys: np.dtype[Any], options: tuple[str, ...]) -> str | None:
    """The option `order` for keys of this dtype, of a backend with these options; None to leave it out."""
    if "order" not in options or keys == np.float16:
        return None
    return {"i": "signed", "m": "signed", "M": "signed", "f": "float"}.get(keys.kind)


def neighbors(table: Any, which: int, keys: Any, stream: Any) -> tuple[Any, Any, Any]:
    """(keys, values, found) of the shape of `keys`."""
    _refuse_unordered(table)
    if _arrays.on_device(keys):
        return _device.neighbors(table, which, keys, stream)
    library = _library_of((keys,), table.key_dtype, table.value_dtype)
    stored = _arrays.to_store(keys, table.key_dtype, table._key_store, "keys")
    stage = table._stage(stream)
    out_keys = stage.room(stored.size, table._key_store)
    out_values = None if table._value_store is None else stage.room(stored.size, table._value_store)
    found = stage.room(stored.size, np.uint8)
    values_ptr = 0 if out_values is None else out_values.ptr
    asked = stage.upload(stored.reshape(-1))
    table._neighbors(which, stored.size, asked, out_keys.ptr, values_ptr, found.ptr, stage.stream)
    results = _given(table, out_keys.get(), None if out_values is None else out_values.get(), found.get() == 1)
    k, v, f = (None if part is None else part.reshape(stored.shape + part.shape[1:])[()] for part in results)
    return _give(library, k, v, f)


def ranges(table: Any, low: Any, high: Any, limit: Any, stream: Any) -> tuple[Any, Any, Any]:
    """With a limit (keys, values, counts) of shape (n, limit); without one (keys, values, offsets)."""
    _refuse_unordered(table)
    if limit is None:
        return pairs(table, low, high, stream)
    most = whole("limit", limit, 2**63 - 1, least=1)
    if _arrays.on_device(low) != _arrays.on_device(high):
        raise TypeError("low and high are on different sides: pass both on the device, or both on the host")
    if _arrays.on_device(low):
        return _device.range_of(table, low, high, most, stream)
    library = _library_of((low, high), table.key_dtype, table.value_dtype, _OFFSET)
    first, last = _ends(table.key_dtype)
    lows = _host_keys(table, first if low is None else low, "low")
    highs = _host_keys(table, last if high is None else high, "high")
    if low is None or high is None:
        n = max(lows.size, highs.size) if lows.size and highs.size else 0
        lows, highs = (np.resize(ends, n) for ends in (lows, highs))
    _same_shape(lows.shape, highs.shape)
    stage = table._stage(stream)
    shape = (lows.size, most)
    out_keys = stage.room(shape, table._key_store)
    out_values = None if table._value_store is None else stage.room(shape, table._value_store)
    counts = stage.room(lows.size, _OFFSET)
    values_ptr = 0 if out_values is None else out_values.ptr
    low_ptr, high_ptr = stage.upload(lows), stage.upload(highs)
    table._range(lows.size, low_ptr, high_ptr, most, out_keys.ptr, values_ptr, counts.ptr, stage.stream)
    keys, values, there = _given(table, out_keys.get(), None if out_values is None else out_values.get(), counts.get())
    if high is None and table.contains(last)[0]:  # the last key of all, which no end is above
        rows = np.flatnonzero(there < most)
        keys[rows, there[rows]] = last
        if values is not None:
            values[rows, there[rows]] = table.find(last)[0]
        there[rows] += 1
    if (there < most).any():
        behind = np.arange(most) >= there[:, None]  # of which the library says nothing
        for part in (keys, values):
            if part is not None:
                part[behind] = np.zeros((), part.dtype)
    return _give(library, keys, values, there)


def pairs(table: Any, low: Any, high: Any, stream: Any) -> tuple[Any, Any, Any]:
    """(keys, values, offsets) of ranges of any length: those of range i are [offsets[i] : offsets[i + 1]].

    `low` or `high` None: that end is open. The table is read twice, first to count; on a GPU nobody writes in between.
    """
    _refuse_unordered(table)
    sides = {_arrays.on_device(end) for end in (low, high) if end is not None}
    if len(sides) > 1:
        raise TypeError("low and high are on different sides: pass both on the device, or both on the host")
    if True in sides:
        return _device.pairs(table, low, high, stream)
    library = _library_of((low, high), table.key_dtype, table.value_dtype, _OFFSET)
    lows = None if low is None else _host_keys(table, low, "low")
    highs = None if high is None else _host_keys(table, high, "high")
    if lows is not None and highs is not None:
        _same_shape(lows.shape, highs.shape)
    n = lows.size if lows is not None else highs.size if highs is not None else 1
    stage = table._stage(stream)
    low_ptr = 0 if lows is None else stage.upload(lows)
    high_ptr = 0 if highs is None else stage.upload(highs)
    if stage.kind == _core.CUDA:
        at_once = pairs_at_once(table, n, low_ptr, high_ptr, stage)
        if at_once is not None:
            return _give(library, *at_once)
    counts = stage.room(n, _OFFSET)
    table._range_pairs(n, low_ptr, high_ptr, 0, 0, 0, 0, counts.ptr, stage.stream)
    room = np.array(counts.get())
    while True:
        places = _offsets(room)
        total = int(places[-1])
        keys = stage.room(max(total, 1), table._key_store)
        values = None if table._value_store is None else stage.room(max(total, 1), table._value_store)
        values_ptr = 0 if values is None else values.ptr
        at = stage.upload(places)
        table._range_pairs(n, low_ptr, high_ptr, at, total, keys.ptr, values_ptr, counts.ptr, stage.stream)
        there = np.array(counts.get())
        if (there <= room).all():
            break
        room = there + there // 8 + 8  # pairs inserted since they were counted: some more may follow
    k, v = keys.get()[:total], None if values is None else values.get()[:total]
    offsets = _offsets(there)
    if (there != room).any():
        kept = np.arange(total) - np.repeat(places[:-1], room) < np.repeat(there, room)
        k, v = k[kept], None if v is None else v[kept]
    return _give(library, *_given(table, k, v, offsets))


def pairs_at_once(table: Any, n: int, low: int, high: int, stage: Any) -> tuple[Any, Any, Any] | None:
    """The same as they are at one moment, of ends on the device; None if the backend does not have that."""
    offsets = stage.room(n + 1, _OFFSET)
    failure = table._range_all(n, low, high, offsets.ptr, 0, 0, 0, stage.stream)
    if isinstance(failure, Unsupported):
        return None
    if failure is not None:
        raise failure
    while True:
        need = int(offsets.get()[-1])
        keys = stage.room(max(need, 1), table._key_store)
        values = None if table._value_store is None else stage.room(max(need, 1), table._value_store)
        values_ptr = 0 if values is None else values.ptr
        failure = table._range_all(n, low, high, offsets.ptr, need, keys.ptr, values_ptr, stage.stream)
        there = int(offsets.get()[-1])  # pairs erased or inserted in between
        if failure is None:
            break
        if not isinstance(failure, InvalidArgument) or there <= need:  # refused for another reason
            raise failure
    given = None if values is None else values.get()[:there]
    return _given(table, keys.get()[:there], given, np.array(offsets.get()))


def _offsets(counts: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.concatenate([np.zeros(1, _OFFSET), np.cumsum(counts, dtype=_OFFSET)])


def extreme(table: Any, greatest: bool) -> tuple[Any, Any]:
    """(key, value) of the smallest or the largest key, as numpy scalars; value None for a set."""
    _refuse_unordered(table)
    end = _ends(table.key_dtype)[greatest].reshape(())
    key, value, found = neighbors(table, AT_MOST if greatest else AT_LEAST, end, None)
    if not found:
        raise ValueError("the table is empty, so that it has no smallest and no largest key")
    return key, value


def _ends(dtype: np.dtype[Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The first and the last key of a dtype in its order; of floats the NaNs with all bits set."""
    if dtype.kind == "f":
        top = np.array([-1], f"i{dtype.itemsize}").view(dtype)
        return top, np.array([np.iinfo(f"i{dtype.itemsize}").max], f"i{dtype.itemsize}").view(dtype)
    if dtype.kind in "mM":
        info = np.iinfo(np.int64)
        return np.array([info.min]).view(dtype), np.array([info.max]).view(dtype)
    if dtype.kind == "b":
        return np.array([False]), np.array([True])
    return np.array([np.iinfo(dtype).min], dtype), np.array([np.iinfo(dtype).max], dtype)


def _library_of(given: tuple[Any, ...], *results: np.dtype[Any] | None) -> str | None:
    """Whose tensors on the host the results become; refuses results that it would cut."""
    library = next((name for part in given if (name := _tensors.array_library(part)) is not None), None)
    for dtype in results:
        _tensors.check_results(library, dtype)
    return library


def _give(library: str | None, keys: Any, values: Any, third: Any) -> tuple[Any, Any, Any]:
    if library is None:
        return keys, values, third
    return _tensors.give(library, keys), _tensors.give(library, values), _tensors.give(library, third)


def _refuse_unordered(table: Any) -> None:
    """Keys whose order is not that of the bits that the library sees."""
    dtype = table.key_dtype
    if dtype == np.float16 or _records.is_record(dtype):
        raise Unsupported(
            f"{dtype} keys are not kept in the order of their values: use integers, times, float32 or float64"
        )


def _host_keys(table: Any, keys: Any, what: str) -> np.ndarray[Any, Any]:
    return np.atleast_1d(_arrays.to_store(keys, table.key_dtype, table._key_store, what)).reshape(-1)


def _same_shape(low: tuple[int, ...], high: tuple[int, ...]) -> None:
    if low != high:
        raise ValueError(f"low has shape {low}, high {high}: pass one of each per range")


def _given(table: Any, keys: Any, values: Any, third: Any) -> tuple[Any, Any, Any]:
    out = None if values is None else _arrays.from_store(values, table.value_dtype)
    return _arrays.from_store(keys, table.key_dtype), out, third
