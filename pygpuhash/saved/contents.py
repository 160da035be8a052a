"""The columns and the record that are saved of a table, a table of text, an index, a counter and groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from pygpuhash import _core, _progress
from pygpuhash.columns import View
from pygpuhash.counter import Counter
from pygpuhash.errors import InvalidArgument, Unsupported
from pygpuhash.group_by import GroupBy, columns_of
from pygpuhash.index import Index
from pygpuhash.saved import columns, elements
from pygpuhash.saved.chunk import Chunk
from pygpuhash.saved.record import Record
from pygpuhash.saved.types import Type
from pygpuhash.table import Table
from pygpuhash.text_table import TextTable

__all__ = ["Contents", "contents_of", "written"]

BLOCK_BYTES = 8 << 20  # of the rows of a block, of which one is written while another one is made (behind.py)
BLOCK_ROWS = 1 << 20
IN_MEMORY = 2  # blocks: memory that was used is faster than memory that is new


class Contents:
    """Types, record, and blocks of what is saved, all as it was at one moment."""

    def __init__(self, types: Sequence[Type], record: Record, chunks: Iterable[Chunk]) -> None:
        self.types, self.record = tuple(types), record
        self._chunks = chunks

    def chunks(self) -> Iterator[Chunk]:
        """All rows, once; the buffers of a block are good until `IN_MEMORY` others were made. Raises `Changed`."""
        report, rows, done = _progress.current(), self.record.rows, 0
        for chunk in self._chunks:
            yield chunk
            done += chunk.rows
            if report is not None:
                report(done, rows)


class Changed(Exception):
    """A table was written to while it was read in parts."""


def written(given: Any, write: Callable[[Contents], None]) -> None:
    """write(what is saved), a block at a time; once more, of all pairs at once, where other threads write meanwhile."""
    try:
        write(contents_of(given))
        return
    except Changed:
        pass
    write(contents_of(given, at_once=True))


def contents_of(given: Any, *, at_once: bool = False) -> Contents:
    """What is saved of a table, an index, a counter or groups; at_once: the pairs of a table come from one export."""
    if isinstance(given, Index):
        return _of_index("index", given, 0 if given._core is None else given._core.size)
    if isinstance(given, Counter):
        index, groups, states = given._groups._snapshot()
        return _of_index("counter", index, groups, [(name, own[0]) for name, own in states.items()])
    if isinstance(given, GroupBy):
        return _of_groups(given)
    return _of_text(given, at_once) if isinstance(given, TextTable) else _of_numbers(given, at_once)


def _rows_of_a_block(row_bytes: float) -> int:
    return max(min(int(BLOCK_BYTES / max(row_bytes, 1)), BLOCK_ROWS), 1)


def _pairs(table: Table, step: int, at_once: bool) -> tuple[int, Iterator[tuple[Any, Any]]]:
    """(how many, (keys, values) of so many rows, good until `IN_MEMORY` others were made), all of one moment."""
    if not at_once and isinstance(table, Table):  # not a backend that is a class of Python
        cursor = _core.ExportCursor(as_stored=True)
        parts = table._parts(step, cursor, table._stream_of(None, None), turns=IN_MEMORY)
        try:
            first = list(_until_changed(parts, cursor, 1))
            return cursor.pairs, chain(first, _until_changed(parts, cursor))
        except Unsupported:  # by a backend that has no exports in parts
            pass
    keys, values = table.export()
    ends = (slice(first, first + step) for first in range(0, len(keys), step))
    return len(keys), ((keys[rows], None if values is None else values[rows]) for rows in ends)


def _until_changed(parts: Iterator[Any], cursor: _core.ExportCursor, most: int = -1) -> Iterator[Any]:
    """Parts, `most` of them if it is not negative."""
    while most:
        most -= 1
        try:
            yield next(parts)
        except StopIteration:
            return
        except InvalidArgument:
            if cursor.changed:
                raise Changed from None
            raise


def _of_numbers(table: Table, at_once: bool) -> Contents:
    key, value = table.key_dtype, table.value_dtype
    types = [elements.type_of(key, "key")] + ([] if value is None else [elements.type_of(value, "value")])
    step = _rows_of_a_block(key.itemsize + (0 if value is None else value.itemsize))
    rows, pairs = _pairs(table, step, at_once)

    def chunk(keys: Any, values: Any) -> Chunk:
        made = Chunk(len(keys))
        elements.add(made, keys, key)
        if value is not None:
            elements.add(made, values, value)
        return made

    return Contents(types, _record("table", table, rows, elements.described(key)), (chunk(*pair) for pair in pairs))


def _record(kind: str, table: Table, rows: int, key: Any) -> Record:
    info = table.info
    return Record(
        kind,
        rows,
        info["backend"],
        key,
        elements.described(table.value_dtype),
        info["seed"],
        dict(table._options),
        info["max_load_factor"],
        table._grow,
        table.device,
        "key" if kind == "table" and "ordered" in info["traits"] else None,
    )


def _of_text(table: TextTable, at_once: bool) -> Contents:
    state = table._open()
    value = table.value_dtype
    key = Type("U" if table.key_dtype is str else "Z", "key")
    types = [key] + ([] if value is None else [elements.type_of(value, "value")])

    text_bytes = 8 + state.index.nbytes / max(state.index.size, 1)
    step = _rows_of_a_block(text_bytes + (0 if value is None else value.itemsize))
    rows, pairs = _pairs(state.table, step, at_once)

    def chunk(ids: Any, values: Any) -> Chunk:
        made = Chunk(len(ids))
        columns.add(made, state.keys(ids), key)
        if value is not None:
            elements.add(made, values, value)
        return made

    record = _record("text", state.table, rows, table.key_dtype.__name__)
    return Contents(types, record, (chunk(*pair) for pair in pairs))


def _of_groups(given: GroupBy) -> Contents:
    index, groups, states = given._snapshot()
    ops = given.aggregates
    arrays = [pair for name, own in states.items() for pair in zip(columns_of(name, ops[name]), own, strict=True)]
    contents = _of_index("groups", index, groups, arrays)
    contents.record.aggregates = [[name, op, elements.described(states[name][0].dtype)] for name, op in ops.items()]
    return contents


def _of_index(kind: str, index: Index, rows: int, arrays: Sequence[tuple[str, Any]] = ()) -> Contents:
    """The contents of an index and of what is made of one: keys by id, and arrays beside them by their names."""
    core = index._core
    nulls, floats, _, _, _, seed = index._settings
    record = Record(kind, rows, seed=seed, options={"nulls": nulls, "floats": floats}, order="id")
    if core is None:
        return Contents([], record, ())
    key = columns.type_of(core.keys(0, 0).__arrow_c_schema__(), "key")
    types = [key, *(elements.type_of(array.dtype, name) for name, array in arrays)]

    step = _rows_of_a_block(core.nbytes / max(core.size, 1) + sum(array.itemsize for _, array in arrays))

    def chunk(first: int) -> Chunk:
        count = min(step, rows - first)
        made = Chunk(count)
        columns.add(made, View(core.keys(first, count)), key)
        for _, array in arrays:
            elements.add(made, array[first : first + count], array.dtype)
        return made

    return Contents(types, record, map(chunk, range(0, rows, step)))
