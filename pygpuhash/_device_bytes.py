"""Columns of text and bytes, and columns with nulls, on a GPU: as numbers that are equal where rows are.

A kernel hashes each row to 64 bits, keyed by a seed; the groups of these numbers are those of the rows, unless
different rows have equal hashes. So another kernel compares the bytes of each row with those of the first row of its
group, and if any differ, all is done again with another seed. The codes of the groups are numbers that every verb
takes, and the first row of a group has the key that its code stands for.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pygpuhash import (
    _arguments,
    _arrays,
    _arrow_devices,
    _core,
    _cuda,
    _device_arrays,
    _device_groups,
    _streams,
    _table_verbs,
)
from pygpuhash._arrow_devices import Bytes, DeviceColumn, kind_of
from pygpuhash._cuda import DeviceArray
from pygpuhash._table_verbs import KeyColumn
from pygpuhash._views import DeviceView
from pygpuhash.columns import read
from pygpuhash.errors import DeviceError, Unsupported

__all__ = ["as_keys", "as_member", "both_as_keys", "check_alike", "join", "of_array"]

_TRIES = 4  # seeds; the first is enough, but for about one call in 2^64 / rows^2
_NEXT_SEED = 0xD1B54A32D192ED03
_INDEX, _BYTE = np.dtype(np.int64), np.dtype(np.uint8)
_NOTHING = Bytes(None, "z", 0, 0, 0, width=1)
_DROPPED, _DROPPED_OF_OTHER = 0xFF, 0xFE  # the bytes of the codes of rows that are dropped, which are never equal


def as_keys(column: Bytes, what: str, nulls: str, floats: str, table: dict[str, Any]) -> KeyColumn:
    """The rows of a column as numbers; with nulls="drop" those that are not null."""
    call = _Call(column, _NOTHING, floats, table)
    with _cuda.current(call.ordinal):
        found = _numbered(call, nulls, what, what)

        def give(codes: Any) -> DeviceColumn:
            with _cuda.current(call.ordinal):
                return call.take(found.rows if codes is None else call.pick(found.rows, codes))

        known = _device_groups.Groups(None, found.counts, found.codes, {})
        keys = KeyColumn(found.of_kept, _INDEX, found.of_kept.shape, give, call.ordinal, known=known)
        kept = found.kept
        if kept is None:
            return keys

        def take(array: Any, dtype: np.dtype[Any]) -> DeviceArray:
            with _cuda.current(call.ordinal):
                at = _device_arrays.view(array, call.ordinal, call.stream, "values")
                return call.pick_from(at.ptr, dtype, column.n, kept)

        def spread(codes: Any) -> DeviceArray:
            with _cuda.current(call.ordinal):
                return _spread(call, codes, kept)

        return replace(keys, kept=_table_verbs.Kept((column.n,), take, spread))


def as_member(column: Bytes, what: str, nulls: str, floats: str, table: dict[str, Any]) -> KeyColumn:
    """The same for one of several columns: there is a number for each row, which is negative where it is dropped."""
    keys = as_keys(column, what, nulls, floats, table)
    assert keys.known is not None
    return replace(keys, array=keys.known.codes, shape=(column.n,), known=None, kept=None, drops=keys.kept is not None)


def both_as_keys(
    keys: Bytes, others: Bytes, names: tuple[str, str], nulls: str, floats: str, table: dict[str, Any]
) -> tuple[KeyColumn, KeyColumn]:
    """The rows of two columns as numbers, of which those of equal rows are equal."""
    call = _Call(others, keys, floats, table)
    with _cuda.current(call.ordinal):
        codes = _numbered(call, nulls, names[1], names[0]).codes

    def part(start: int, n: int) -> KeyColumn:
        return KeyColumn(_part(codes, start, n), _INDEX, (n,), lambda keys: keys, call.ordinal)

    return part(others.n, keys.n), part(0, others.n)


def of_array(given: Any, like: Bytes, what: str, there: str, table: dict[str, Any]) -> Bytes:
    """An array of numbers on the same GPU as another column, or a column of the host, as a column like that."""
    call = _Call(like, _NOTHING, "bits", table)
    with _cuda.current(like.ordinal):
        if not _arrays.on_device(given):
            return _arrow_devices.of_host(read(given, what), like, call.keeper)
        if like.offset_bytes or np.dtype(_table_verbs.seen(given, what)[0]).kind not in "iuf":
            raise TypeError(
                f"{what} is a {type(given).__name__} of numbers, {there} a column of {kind_of(like.format)}: "
                "convert one of them"
            )
        return _arrow_devices.of_numbers(_device_arrays.view(given, like.ordinal, call.stream, what), like.ordinal)


def check_alike(one: Bytes, other: Bytes, what: str, there: str) -> None:
    """Refuse columns that have no common numbers."""
    kinds = kind_of(one.format), kind_of(other.format)
    if kinds[0] != kinds[1]:
        raise TypeError(f"{what} is a column of {kinds[0]}, {there} of {kinds[1]}: convert one of them")
    if one.width != other.width:
        raise TypeError(f"{what} has elements of {one.width} bytes, {there} of {other.width}: convert one of them")
    if one.ordinal != other.ordinal:
        raise TypeError(f"{what} is on cuda:{one.ordinal}, {there} on cuda:{other.ordinal}: copy one of them")


def join(one: KeyColumn, other: KeyColumn, how: str, given: dict[str, Any]) -> tuple[Any, Any]:
    """A join of arrays of no library, which cannot be asked for arithmetic: what takes it is left to one that can."""
    assert one.ordinal is not None
    if _device_groups.serves(_device_groups.OWN, one.dtype, one.size + other.size, one.ordinal, given):
        where = _device_groups.Place(one.ordinal, one.array, one.ready, given)
        with where.on_device():
            _table_verbs.refuse_captured(where.stream)
            pairs, _ = _device_groups.join(where, other.array, one.dtype, how == "left")
        if pairs is not None:
            return pairs
    library = _device_arrays.library_that_is_there()
    if library is None:
        raise Unsupported(
            "a join of columns of Arrow on a GPU with more than 2^31 rows, 2^18 right rows of one key, or other "
            "arguments than stream, seed and device takes the arithmetic of CuPy or PyTorch: import one of them"
        )
    with _cuda.current(one.ordinal):
        a, b = (replace(c, array=_device_arrays.in_library(library, c.array), ready=None) for c in (one, other))
    left, right = _table_verbs.join_on_device(a, b, how, given)
    return DeviceArray.from_dlpack(left), DeviceArray.from_dlpack(right)


@dataclass
class _Numbered:
    """Rows as numbers: those that are dropped have a negative one.

    kept : the rows that are not dropped, and `of_kept` their numbers; None: all rows.
    rows, counts : the first row of each number, and how many rows have it.
    """

    codes: DeviceArray
    of_kept: DeviceArray
    kept: DeviceArray | None
    rows: DeviceArray
    counts: DeviceArray


class _Call:
    """The columns, the device and the stream of a call, and memory for its results."""

    def __init__(self, one: Bytes, other: Bytes, floats: str, table: dict[str, Any]) -> None:
        self.one, self.ordinal, self.table = one, one.ordinal, table
        self.n = one.n + other.n
        self._places = one.place(floats), other.place(floats)
        stream = table.get("stream")
        self.keeper, self.stream = _streams.usable_stream(0 if stream is None else stream, self.ordinal)
        with _cuda.current(self.ordinal):
            _table_verbs.refuse_captured(self.stream)

    def room(self, n: int, dtype: np.dtype[Any] = _INDEX) -> DeviceArray:
        return DeviceArray((n,), dtype, self.ordinal, self.keeper)

    def of(self, one: Any, other: Any, rows: int) -> tuple[Any, DeviceArray]:
        """(calls on two columns, temporaries for so many rows, which have to live meanwhile)."""
        scratch = self.room(_core.bytes_scratch(rows), _BYTE)
        return _core.BytesCall(self.ordinal, one, other, scratch.ptr, scratch.nbytes, self.stream), scratch

    def on_columns(self, picked: int = 0) -> tuple[Any, DeviceArray]:
        return self.of(*self._places, max(self.n, picked))

    def pick_from(self, at: int, dtype: np.dtype[Any], n: int, rows: DeviceArray) -> DeviceArray:
        """The elements that these rows have, of n at an address."""
        source = replace(_NOTHING, n=n, data=at, width=dtype.itemsize)
        found = self.room(rows.size, dtype)
        call, _scratch = self.of(source.place("bits"), _NOTHING.place("bits"), max(rows.size, n))
        call.take(rows.ptr, rows.size, 0, found.ptr, 0)
        return found

    def pick(self, numbers: DeviceArray, at: Any) -> DeviceArray:
        """numbers[at]. at: an array of any library."""
        where = _device_arrays.view(at, self.ordinal, self.stream, "keys")
        rows = DeviceArray._over(where, where.shape, self.ordinal, self.keeper)
        return self.pick_from(numbers.ptr, numbers.dtype, numbers.size, rows)

    def take(self, rows: DeviceArray) -> DeviceColumn:
        """The column of the rows of the first column that are picked."""
        n, column = rows.size, self.one
        call, _scratch = self.on_columns(n)
        validity = self.room((n + 7) // 8, _BYTE) if column.validity else None
        offsets = None
        nbytes = n * column.width
        if column.offset_bytes:
            offsets = self.room(n + 1, np.dtype(f"i{column.offset_bytes}"))
            nbytes = call.place(rows.ptr, n, offsets.ptr)
        data = self.room(nbytes, _BYTE)
        call.take(rows.ptr, n, 0 if offsets is None else offsets.ptr, data.ptr, 0 if validity is None else validity.ptr)
        buffers = (validity, data) if offsets is None else (validity, offsets, data)
        return DeviceColumn(column.format, n, buffers, self.ordinal)


def _numbered(call: _Call, nulls: str, indexed: str, keys: str) -> _Numbered:
    """The rows of both columns as numbers.

    indexed, keys: the names of the columns, of which the first one must have no nulls where these are refused.
    """
    calls, _scratch = call.on_columns()
    may_be_null = any(place[4] for place in call._places)
    hashes, kept = call.room(call.n), None
    seed = _arguments.seed(call.table.get("seed")) or int.from_bytes(os.urandom(8), "little")
    for attempt in range(_TRIES):
        null = calls.hash((seed + attempt * _NEXT_SEED) % 2**64, hashes.ptr, may_be_null)
        if null is not None and nulls == "refuse" and null < call.one.n:
            raise TypeError(f"{indexed}: row {null} is null; drop nulls, or take them for a group")
        grouped = hashes
        if null is not None and nulls == "drop":
            if kept is None:
                kept = call.room(call.n)
                kept = _part(kept, 0, calls.keep(kept.ptr))
            grouped = call.pick(hashes, kept)
        own = {name: call.table[name] for name in ("stream", "seed") if call.table.get(name) is not None}
        place = _device_groups.Place(call.ordinal, grouped, None, own)
        groups = _device_groups.group(place, _INDEX, True, counts=True, codes=True)
        codes = groups.codes if kept is None else _spread(call, groups.codes, kept)
        rows = call.room(groups.distinct.size)
        if calls.check(codes.ptr, rows.size, rows.ptr):
            return _Numbered(codes, groups.codes, kept, rows, groups.counts)
    raise DeviceError(
        f"different rows of {' or '.join(dict.fromkeys((indexed, keys)))} had equal hashes with {_TRIES} seeds, as is "
        "so where something writes to the column meanwhile: leave it as it is until the call has returned"
    )


def _spread(call: _Call, codes: DeviceArray, kept: DeviceArray) -> DeviceArray:
    """Codes of the rows that are kept as codes of all rows, which are negative elsewhere."""
    spread = call.room(call.n)
    for start, many, byte in ((0, call.one.n, _DROPPED), (call.one.n, call.n - call.one.n, _DROPPED_OF_OTHER)):
        if many:
            _cuda.call("cuMemsetD8Async", spread.ptr + 8 * start, byte, 8 * many, call.stream)
    if kept.size:
        _core.ungroup(call.ordinal, kept.size, kept.ptr, codes.ptr, 8, spread.ptr, call.stream)
    return spread


def _part(array: DeviceArray, start: int, n: int) -> DeviceArray:
    view = DeviceView(array.ptr + start * array.dtype.itemsize, (n,), array.dtype, array)
    return DeviceArray._over(view, (n,), array.device, array._stream_keeper())
