"""All pairs of a table, at once and in parts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pygpuhash import _arrays, _core, _cuda, _device_arrays, _tensors
from pygpuhash._stage import Stage
from pygpuhash.errors import InvalidArgument


def export(table: Any, like: Any, stream: Any) -> tuple[Any, Any]:
    """`Table.export`: (keys, values)."""
    library = None if like is None or _arrays.on_device(like) else _tensors.array_library(like)
    if library is not None:
        for dtype in (table.key_dtype, table.value_dtype):
            _tensors.check_results(library, dtype)
        keys, values = export(table, None, stream)
        return _tensors.give(library, keys), _tensors.give(library, values)
    s = table._stream_of(like, stream)
    room, failure = table._export(0, 0, 0, s)
    if failure is not None:
        raise failure
    while True:
        keys, values, need, failure = _export_to(table, room, like, s)
        if failure is None:
            return keys, values
        if not isinstance(failure, InvalidArgument) or need <= room:
            raise failure
        room = need  # another thread has inserted in between: ask again


def _export_to(table: Any, room: int, like: Any, s: int) -> tuple[Any, Any, int, Any]:
    """(keys, values, pairs in the table, None or the exception), with room for so many pairs."""
    if like is not None and _arrays.on_device(like):
        return _export_like(table, room, like, s)
    stage = Stage(table._kind, table._ordinal, s)
    keys = stage.room(max(room, 1), table._key_store)
    values = None if table._value_store is None else stage.room(max(room, 1), table._value_store)
    n, failure = table._export(room, keys.ptr, 0 if values is None else values.ptr, s)
    if failure is not None:
        return None, None, n, failure
    out = None if values is None else _arrays.from_store(values.get()[:n], table.value_dtype)
    return _arrays.from_store(keys.get()[:n], table.key_dtype), out, n, None


def _export_like(table: Any, n: int, like: Any, s: int) -> tuple[Any, Any, int, Any]:
    if table._kind != _core.CUDA:
        raise InvalidArgument("like= is on a CUDA device, the table is on the CPU: leave it out")
    for dtype, store in ((table.key_dtype, table._key_store), (table.value_dtype, table._value_store)):
        if dtype != store:
            raise TypeError(f"{dtype} is stored as {store}: export to the host, without like=")
    _device_arrays.check_results(like, table.key_dtype, table.value_dtype)
    with _cuda.current(table._ordinal):
        keys = _device_arrays.empty_like(like, (n,), table._key_store, table._ordinal, s)
        values: Any = None
        if table._value_store is not None:
            values = _device_arrays.empty_like(like, (n,), table._value_store, table._ordinal, s)
        k = _device_arrays.view(keys, table._ordinal, s, "keys")
        v = None if values is None else _device_arrays.view(values, table._ordinal, s, "values")
        got, failure = (0, None) if n == 0 else table._export(n, k.ptr, 0 if v is None else v.ptr, s)
        if failure is None and got < n:
            return _export_like(table, got, like, s)  # another thread has erased in between
        return _device_arrays.give(like, keys), _device_arrays.give(like, values), got, failure


def parts(table: Any, size: int, cursor: _core.ExportCursor, s: int, turns: int = 0) -> Iterator[tuple[Any, Any]]:
    """`Table.export_parts` from where a cursor is: tuples (keys, values) of so many pairs at most.

    turns : a part lies in the arrays of the part so many before; 0, in its own
    """
    room = size
    kept: list[Any] = []
    while not cursor.done:
        if room == size and 0 < turns == len(kept):
            keys, values = kept.pop(0)
        else:
            stage = Stage(table._kind, table._ordinal, s)
            keys = stage.room(room, table._key_store)
            values = None if table._value_store is None else stage.room(room, table._value_store)
        n, failure = table._export_part(cursor, room, keys.ptr, 0 if values is None else values.ptr, s)
        if failure is not None:
            if cursor.changed or not isinstance(failure, InvalidArgument) or n <= room:
                raise failure
            room = n  # of a bucket
            continue
        if turns and room == size:
            kept.append((keys, values))
        room = size
        if n:
            out = None if values is None else _arrays.from_store(values.get()[:n], table.value_dtype)
            yield _arrays.from_store(keys.get()[:n], table.key_dtype), out
