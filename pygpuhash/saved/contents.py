"""What is written of a table, a table of text and an index."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pygpuhash import _progress
from pygpuhash.columns import View
from pygpuhash.index import Index
from pygpuhash.saved import columns, elements
from pygpuhash.saved.chunk import Chunk
from pygpuhash.saved.record import Record
from pygpuhash.saved.types import Type
from pygpuhash.table import Table
from pygpuhash.text_table import TextTable

__all__ = ["Contents", "contents_of"]

BLOCK_BYTES = 16 << 20  # of the rows of a block
BLOCK_ROWS = 1 << 20


class Contents:
    """Types, record, and blocks of what is saved, all as it was at one moment."""

    def __init__(
        self, types: Sequence[Type], record: Record, row_bytes: float, chunk: Callable[[int, int], Chunk]
    ) -> None:
        """chunk(first, end) gives these rows; row_bytes is what one takes."""
        self.types, self.record = tuple(types), record
        self._step = max(min(int(BLOCK_BYTES / max(row_bytes, 1)), BLOCK_ROWS), 1)
        self._chunk = chunk

    def chunks(self) -> Iterator[Chunk]:
        """All rows."""
        report, rows = _progress.current(), self.record.rows
        for first in range(0, rows, self._step):
            end = min(first + self._step, rows)
            yield self._chunk(first, end)
            if report is not None:
                report(end, rows)


def contents_of(given: Any) -> Contents:
    """What is saved of a table, a table of text or an index."""
    if isinstance(given, Index):
        return _of_index(given)
    return _of_text(given) if isinstance(given, TextTable) else _of_numbers(given)


def _of_numbers(table: Table) -> Contents:
    keys, values = table.export()
    key, value = table.key_dtype, table.value_dtype
    types = [elements.type_of(key, "key")] + ([] if value is None else [elements.type_of(value, "value")])

    def chunk(first: int, end: int) -> Chunk:
        made = Chunk(end - first)
        elements.add(made, keys[first:end], key)
        if value is not None:
            elements.add(made, values[first:end], value)
        return made

    record = _record("table", table, len(keys), elements.described(key))
    return Contents(types, record, key.itemsize + (0 if value is None else value.itemsize), chunk)


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


def _of_text(table: TextTable) -> Contents:
    state = table._open()
    ids, values = state.table.export()
    value = table.value_dtype
    key = Type("U" if table.key_dtype is str else "Z", "key")
    types = [key] + ([] if value is None else [elements.type_of(value, "value")])

    def chunk(first: int, end: int) -> Chunk:
        made = Chunk(end - first)
        columns.add(made, state.keys(ids[first:end]), key)
        if value is not None:
            elements.add(made, values[first:end], value)
        return made

    record = _record("text", state.table, len(ids), table.key_dtype.__name__)
    text_bytes = 8 + state.index.nbytes / max(state.index.size, 1)
    return Contents(types, record, text_bytes + (0 if value is None else value.itemsize), chunk)


def _of_index(index: Index) -> Contents:
    core = index._core
    nulls, floats, _, _, _, seed = index._settings
    rows = 0 if core is None else core.size
    record = Record("index", rows, seed=seed, options={"nulls": nulls, "floats": floats}, order="id")
    if core is None:
        return Contents([], record, 1, lambda first, end: Chunk(0))
    key = columns.type_of(core.keys(0, 0).__arrow_c_schema__(), "key")

    def chunk(first: int, end: int) -> Chunk:
        made = Chunk(end - first)
        columns.add(made, View(core.keys(first, end - first)), key)
        return made

    return Contents([key], record, core.nbytes / max(rows, 1), chunk)
