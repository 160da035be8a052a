"""Makes tables, indexes, counters and groups from the record and the columns of a container."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from pygpuhash import _arguments, _core, _devices, _progress
from pygpuhash.errors import InvalidArgument
from pygpuhash.saved import by_id, columns, elements
from pygpuhash.saved.chunk import Chunk, Cursor
from pygpuhash.saved.container import Reader
from pygpuhash.saved.flatbuffers import Malformed
from pygpuhash.saved.record import Record, options_for
from pygpuhash.saved.types import Type
from pygpuhash.table import Table
from pygpuhash.text_table import TextTable

__all__ = ["made_of"]

_TEXTS: dict[Any, tuple[type, str]] = {"str": (str, "U"), "bytes": (bytes, "Z")}
AT_ONCE = 1 << 15  # rows for a table in order, which is built of a batch and of some of its pairs
LEAST_LOAD = 0.25  # a smaller maximum load factor of a file would ask for more memory than its keys need


def made_of(reader: Reader, backend: Any, device: Any, arguments: dict[str, Any], cls: type | None = None) -> Any:
    """The table, the index, the counter or the groups of a container.

    cls : of a copy, its class; it has all options that the original has. None: of a file, which is not trusted.
    """
    record = reader.refused("the footer", lambda: Record.read(reader.record))
    if record.kind in by_id.KINDS:
        if backend is not None or device is not None:
            what = by_id.KINDS[record.kind][1]
            raise InvalidArgument(f"the file has {what}, without a backend and a device: leave them out")
        seed = _seed(record, arguments.get("seed", None if cls is None else "saved"))
        return by_id.made_of(reader, record, _chunks(reader, record), {**arguments, "seed": seed}, cls)
    for name in ("key_dtype", "value_dtype"):
        if name in arguments:
            raise InvalidArgument(f"{name}={arguments[name]!r}: the file says which dtype it has, leave it out")
    key, value, types = reader.refused("the footer", lambda: _dtypes(record))
    _want_types(reader, types)
    asked = {**_tuning(record, backend, cls is not None), **arguments, "key_dtype": key, "value_dtype": value}
    asked["seed"] = _seed(record, arguments.get("seed", None if cls is None else "saved"))
    asked["device"] = device if device is not None else _device(record, cls is not None)
    capacity = _arguments.whole("capacity", arguments.get("capacity", 0), 2**64 - 1)
    asked["capacity"] = max(_room(reader, record, key), capacity)
    return _filled(reader, record, _new(cls or Table, backend or record.backend, asked), types)


def _dtypes(record: Record) -> tuple[Any, np.dtype[Any] | None, tuple[Type, ...]]:
    """(dtype of the keys, dtype of the values, columns) that the record describes."""
    value = None if record.value is None else elements.read_dtype(record.value)
    second = () if value is None else (elements.type_of(value, "value"),)
    if record.kind == "text":
        if record.key not in _TEXTS:
            raise Malformed(f"its record has keys of {record.key!r:.80}, which is no text")
        key, format = _TEXTS[record.key]
        return key, value, (Type(format, "key"), *second)
    dtype = elements.read_dtype(record.key)
    return dtype, value, (elements.type_of(dtype, "key"), *second)


def _want_types(reader: Reader, types: tuple[Type, ...]) -> None:
    if reader.types != types:
        there, wanted = ("; ".join(map(str, some)) for some in (reader.types, types))
        reader.refused("the footer", lambda: _raise(f"it has the columns {there}, and its record {wanted}"))


def _raise(words: str) -> None:
    raise Malformed(words)


# ---- how -------------------------------------------------------------------------------------------------------------


def _tuning(record: Record, backend: Any, whole: bool) -> dict[str, Any]:
    """Options, and of a copy everything else that the original was made with."""
    name = record.backend if backend is None else backend
    asked: dict[str, Any] = {}
    if isinstance(name, str) and name != "auto":
        asked |= options_for(record, name, whole=whole)
    elif record.options.get("duplicates") == "1":
        asked["needs"] = ["multi"]
    least = 0 if whole else LEAST_LOAD
    if name == record.backend and record.max_load_factor is not None and least <= record.max_load_factor <= 1:
        asked["max_load_factor"] = record.max_load_factor
    return asked


def _seed(record: Record, given: Any) -> int | None:
    return (record.seed or None) if isinstance(given, str) and given == "saved" else given


def _device(record: Record, same: bool) -> str:
    """Of a copy (`same`) the device of the original, if this machine has it; of a file from a GPU "auto"."""
    if record.device == "cpu":
        return "cpu"
    if not same:
        return "auto"
    ordinal = _devices.parse_device(record.device)[1]
    return record.device if ordinal < _core.device_count(_core.CUDA)[0] else "auto"


def _room(reader: Reader, record: Record, key: Any) -> int:
    """Keys to make room for at once: as many as the file says, if it can have them."""
    width = key.itemsize if isinstance(key, np.dtype) else 8
    distinct = 2 if key == np.dtype(bool) else 2 ** min(8 * width, 64)
    if record.options.get("duplicates") == "1":
        distinct = 2**64
    return min(record.rows, distinct, 4 * reader.nbytes // width)


def _new(cls: type, backend: Any, asked: dict[str, Any]) -> Any:
    made = cls.__new__(cls, backend, **asked)
    base: Any = TextTable if isinstance(made, TextTable) else Table
    if isinstance(made, base):  # else it is the object of a backend that is a class of Python
        base.__init__(made, backend, **asked)
    return made


# ---- rows ------------------------------------------------------------------------------------------------------------


def _filled(reader: Reader, record: Record, table: Any, types: tuple[Type, ...]) -> Any:
    """The table with all rows; closed, if they are not what they should be."""

    def rows(chunk: Chunk) -> tuple[Any, Any]:
        cursor = Cursor(chunk)
        if record.kind == "text":
            keys: Any = columns.take(cursor, types[0], chunk.rows)
        else:
            keys = elements.take(cursor, types[0], table.key_dtype, chunk.rows)
        return keys, None if len(types) == 1 else elements.take(cursor, types[1], table.value_dtype, chunk.rows)

    def parts(keys: Any, values: Any) -> Iterator[tuple[Any, Any]]:
        if record.kind == "text" or "ordered" not in table.traits:
            yield keys, values
            return
        for first in range(0, len(keys), AT_ONCE):
            rows = slice(first, first + AT_ONCE)
            yield keys[rows], None if values is None else values[rows]

    insert = table.insert_multi if "multi" in table.traits else table.insert
    try:
        for name, chunk in _chunks(reader, record):
            keys, values = reader.refused(name, lambda chunk=chunk: rows(chunk))  # type: ignore[misc]
            with _progress.quiet():
                new = sum(int(np.count_nonzero(insert(*part))) for part in parts(keys, values))
            if new != chunk.rows and record.options.get("duplicates") == "1":
                raise InvalidArgument(
                    f"the file has several values of some keys ({name}), and a table of {table.backend} one of each: "
                    f"load it with backend={record.backend!r}"
                )
            if new != chunk.rows:
                reader.refused(name, lambda: _raise(f"it repeats {chunk.rows - new} keys"))  # noqa: B023
    except BaseException:
        table.close()
        raise
    return table


def _chunks(reader: Reader, record: Record) -> Iterator[tuple[str, Chunk]]:
    """All blocks, which have as many rows as the record says; `progress` hears of them."""
    report, done = _progress.current(), 0
    for name, chunk in reader.chunks():
        done += chunk.rows
        if done > record.rows:
            break
        yield name, chunk
        if report is not None:
            report(done, record.rows)
    if done != record.rows:
        raise_rows = f"the blocks have {done} rows or more, and its record {record.rows}"
        reader.refused("the footer", lambda: _raise(raise_rows))
