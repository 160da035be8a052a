"""The verbs of ordered backends: neighbours, ranges and slices, for host arrays and for those of the table's device."""

from __future__ import annotations

from typing import Any

import numpy as np

from pygpuhash import _arrays, _core, _cuda, _device_queries, _records, _tensors
from pygpuhash._arguments import whole
from pygpuhash.errors import InvalidArgument, Unsupported

__all__ = [
    "ABOVE",
    "AT_LEAST",
    "AT_MOST",
    "BELOW",
    "extreme",
    "has_order",
    "key_order",
    "neighbors",
    "pairs",
    "pairs_at_once",
    "ranges",
    "refuse_unordered",
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
    refuse_unordered(table.key_dtype)
    if _arrays.on_device(keys):
        return _device_queries.neighbors(table, which, keys, stream)
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


class _Pairs:
    """Keys and values of ranges on the host: new arrays, or those that the caller gave as `out`."""

    def __init__(self, table: Any, out: Any, shape: tuple[int, ...], inputs: tuple[Any, ...] = ()) -> None:
        """Results of this shape; the caller's arrays may have more rows."""
        self.dtypes = (table.key_dtype, table.value_dtype)
        self.stores = (table._key_store, table._value_store)
        self.row = shape[1:]
        self.out = _arrays.two_outputs(out, table.value_dtype)
        self.given: list[Any] = [None, None]
        self.rooms: list[Any] = [None, None]
        for i, array in enumerate(self.out or ()):
            if array is not None:
                self.given[i] = _arrays.output(array, self.dtypes[i], shape, f"out[{i}]", longer=True)
                for other in (*inputs, *self.given[:i]):
                    if other is not None and np.may_share_memory(self.given[i], other):
                        raise InvalidArgument(f"out[{i}] overlaps another array of the call: pass one of its own")
        # Pairs that the caller's arrays have room for, or None.
        self.most = None if self.out is None else min(len(array) for array in self.given if array is not None)

    def room(self, stage: Any, rows: int) -> tuple[int, int]:
        """Addresses for so many rows; 0 for the values of a set."""
        _arrays.refuse_short(self.most, rows)
        for i, store in enumerate(self.stores):
            if store is None:
                continue
            if stage.kind == _core.CPU and self._as_stored(i):
                self.rooms[i] = stage.of(self.given[i])
            else:
                self.rooms[i] = stage.room((max(rows, 1), *self.row), store)
        keys, values = (0 if room is None else room.ptr for room in self.rooms)
        return keys, values

    def got(self, rows: int, kept: Any = None) -> list[Any]:
        """The first so many rows of keys and values, or those `kept` of them, as arrays to be changed in place."""
        arrays: list[Any] = []
        for i, room in enumerate(self.rooms):
            if room is None:
                arrays.append(None)
                continue
            given = self.given[i]
            if not self._as_stored(i):
                array = room.get()[:rows]
            else:
                array = given[:rows]
                if isinstance(room, _cuda.DeviceArray):
                    _cuda.copy_to_host(array, room.ptr, room.device, room.stream)
            if kept is not None:
                array = array[kept]
            arrays.append(array if self._as_stored(i) else _arrays.from_store(array, self.dtypes[i]))
        return arrays

    def _as_stored(self, i: int) -> bool:
        """Are there arrays of the caller whose elements have the bits that the table stores?"""
        return self.given[i] is not None and self.dtypes[i].itemsize == self.stores[i].itemsize

    def give(self, library: str | None, arrays: list[Any]) -> list[Any]:
        """Those rows as the call returns them."""
        if self.out is None:
            return [array if library is None else _tensors.give(library, array) for array in arrays]
        for array, given in zip(arrays, self.given, strict=True):
            if given is not None and not np.may_share_memory(array, given):
                given[: len(array)] = array
        return [None if out is None else out[: len(array)] for out, array in zip(self.out, arrays, strict=True)]


def ranges(table: Any, low: Any, high: Any, limit: Any, out: Any, stream: Any) -> tuple[Any, Any, Any]:
    """With a limit (keys, values, counts) of shape (n, limit); without one (keys, values, offsets)."""
    refuse_unordered(table.key_dtype)
    if limit is None:
        return pairs(table, low, high, stream, out)
    most = whole("limit", limit, 2**63 - 1, least=1)
    if _arrays.on_device(low) != _arrays.on_device(high):
        raise TypeError("low and high are on different sides: pass both on the device, or both on the host")
    if _arrays.on_device(low):
        return _device_queries.range_of(table, low, high, most, stream, out)
    library = _library_of((low, high), table.key_dtype, table.value_dtype, _OFFSET)
    first, last = _ends(table.key_dtype)
    lows = _host_keys(table, first if low is None else low, "low")
    highs = _host_keys(table, last if high is None else high, "high")
    if low is None or high is None:
        n = max(lows.size, highs.size) if lows.size and highs.size else 0
        lows, highs = (np.resize(ends, n) for ends in (lows, highs))
    _same_shape(lows.shape, highs.shape)
    results = _Pairs(table, out, (lows.size, most), (lows, highs))
    stage = table._stage(stream)
    out_keys, out_values = results.room(stage, lows.size)
    counts = stage.room(lows.size, _OFFSET)
    low_ptr, high_ptr = stage.upload(lows), stage.upload(highs)
    table._range(lows.size, low_ptr, high_ptr, most, out_keys, out_values, counts.ptr, stage.stream)
    there = counts.get()
    keys, values = results.got(lows.size)
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
    k, v = results.give(library, [keys, values])
    return k, v, there if library is None else _tensors.give(library, there)


def pairs(table: Any, low: Any, high: Any, stream: Any, out: Any = None) -> tuple[Any, Any, Any]:
    """(keys, values, offsets) of ranges of any length: those of range i are [offsets[i] : offsets[i + 1]].

    `low` or `high` None: that end is open. The table is read twice, first to count; on a GPU no batch
    writes in between. One range for which there are arrays is read once.
    """
    refuse_unordered(table.key_dtype)
    sides = {_arrays.on_device(end) for end in (low, high) if end is not None}
    if len(sides) > 1:
        raise TypeError("low and high are on different sides: pass both on the device, or both on the host")
    if True in sides:
        return _device_queries.pairs(table, low, high, stream, out)
    library = _library_of((low, high), table.key_dtype, table.value_dtype, _OFFSET)
    lows = None if low is None else _host_keys(table, low, "low")
    highs = None if high is None else _host_keys(table, high, "high")
    if lows is not None and highs is not None:
        _same_shape(lows.shape, highs.shape)
    n = lows.size if lows is not None else highs.size if highs is not None else 1
    results = _Pairs(table, out, (0,), (lows, highs))
    stage = table._stage(stream)
    low_ptr = 0 if lows is None else stage.upload(lows)
    high_ptr = 0 if highs is None else stage.upload(highs)
    offsets = pairs_at_once(table, n, low_ptr, high_ptr, stage, results) if stage.kind == _core.CUDA else None
    if offsets is not None:
        k, v = results.give(library, results.got(int(offsets[-1])))
        return k, v, offsets if library is None else _tensors.give(library, offsets)
    counts = stage.room(n, _OFFSET)
    if n == 1 and results.most is not None:
        room = np.array([results.most])
    else:
        table._range_pairs(n, low_ptr, high_ptr, 0, 0, 0, 0, counts.ptr, stage.stream)
        room = np.array(counts.get())
    while True:
        places = _offsets(room)
        total = int(places[-1])
        out_keys, out_values = results.room(stage, total)
        at = stage.upload(places)
        table._range_pairs(n, low_ptr, high_ptr, at, total, out_keys, out_values, counts.ptr, stage.stream)
        there = np.array(counts.get())
        if (there <= room).all():
            break
        room = there + there // 8 + 8  # pairs inserted since they were counted: some more may follow
        if results.most is not None and room.sum() > results.most:
            room = there + max(results.most - int(there.sum()), 0) // n
    offsets = _offsets(there)
    if (there[:-1] == room[:-1]).all():
        arrays = results.got(int(offsets[-1]))
    else:
        arrays = results.got(total, np.arange(total) - np.repeat(places[:-1], room) < np.repeat(there, room))
    k, v = results.give(library, arrays)
    return k, v, offsets if library is None else _tensors.give(library, offsets)


def pairs_at_once(table: Any, n: int, low: int, high: int, stage: Any, results: Any) -> Any:
    """Read ranges at one moment, of ends on the device: the offsets; None if the backend cannot do so."""
    offsets = stage.room(n + 1, _OFFSET)
    failure = table._range_all(n, low, high, offsets.ptr, 0, 0, 0, stage.stream)
    if isinstance(failure, Unsupported):
        return None
    if failure is not None:
        raise failure
    while True:
        need = int(offsets.get()[-1])
        out_keys, out_values = results.room(stage, need)
        failure = table._range_all(n, low, high, offsets.ptr, need, out_keys, out_values, stage.stream)
        there = int(offsets.get()[-1])  # pairs erased or inserted in between
        if failure is None:
            break
        if not isinstance(failure, InvalidArgument) or there <= need:  # refused for another reason
            raise failure
    return np.array(offsets.get())


def _offsets(counts: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.concatenate([np.zeros(1, _OFFSET), np.cumsum(counts, dtype=_OFFSET)])


def extreme(table: Any, greatest: bool) -> tuple[Any, Any]:
    """(key, value) of the smallest or the largest key, as numpy scalars; value None for a set."""
    refuse_unordered(table.key_dtype)
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


def has_order(dtype: np.dtype[Any]) -> bool:
    """Is the order of such keys one of those that the library knows?"""
    return bool(dtype != np.float16) and not _records.is_record(dtype)


def refuse_unordered(dtype: np.dtype[Any]) -> None:
    """Keys whose order is not that of the bits that the library sees."""
    if not has_order(dtype):
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
