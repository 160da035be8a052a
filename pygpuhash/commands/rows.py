"""`dedup`: rows whose key was not there before, in their order. `join A B --on`: rows of A beside those of B."""

from __future__ import annotations

import importlib
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np

from pygpuhash.columns._engine import CoreIndex, pairs, rows_by_id
from pygpuhash.commands import counting, tables
from pygpuhash.commands.batches import Arrow, Batch, Lists
from pygpuhash.commands.columns import row_cells
from pygpuhash.commands.output import Cells, Output
from pygpuhash.commands.progress import Bar
from pygpuhash.commands.running import printing
from pygpuhash.commands.settings import memory_of
from pygpuhash.commands.sources import named, names_of
from pygpuhash.commands.spill import Temporary, temporary
from pygpuhash.commands.tally import Tally
from pygpuhash.keyfile import InputError

__all__ = ["dedup", "join"]


def dedup(options: Any) -> int:
    """Rows, each the first one that has its key."""
    if not options.column:
        options.lines = not options.words and options.k is None
        return counting.unique(options)
    if options.lines or options.words or options.k:
        raise InputError("--column chooses rows by a column: leave out --lines, --words and --k")
    options.files = names_of(options.files)
    formats = {options.format or tables.format_of(file) for file in options.files}
    if len(formats) > 1:
        raise InputError(f"the files are {' and '.join(sorted(formats))}: pass files of one format")
    return _Dedup(options, formats.pop()).run()


class _Dedup:
    """One run: rows that are met first go out; once there are temporary files, those that may be do so at the end."""

    def __init__(self, options: Any, format: str) -> None:
        self._options, self._format = options, format
        self._memory = memory_of(options)
        self._tally, self._waiting = Tally(self._memory, keys=False), _Waiting(self._memory.folder)
        if format == "jsonl" and options.to not in (None, "jsonl"):
            raise InputError(f"--to {options.to}: rows of JSON lines stay what they are: leave it out")
        if options.to is None and options.output is None:
            options.to = format if format in ("csv", "tsv") else "text" if format == "jsonl" else "csv"
        if format == "jsonl":
            options.to = "text"  # the lines, as they are

    def run(self) -> int:
        """Read, print."""
        bar, options = Bar(self._options.output is None), self._options
        with self._opened(options.files[0]) as first:
            columns = [""] if self._format == "jsonl" else first.columns
            with printing(options, columns) as out:
                try:
                    for i, file in enumerate(options.files):
                        with self._opened(file) as rows:
                            if rows.columns != first.columns:
                                raise InputError(f"{file}: has other columns than {options.files[0]}")
                            for batch in self._chosen(rows, file):
                                bar(f"reading {file}", (i + rows.done()) / len(options.files))
                                self._print(out, batch)
                finally:
                    bar.clear()
                if self._tally.spilled:
                    for batch in self._waiting.chosen(self._tally.survivors()):
                        self._print(out, batch)
        return 0

    def _opened(self, file: str) -> Any:
        return tables.open_rows(file, self._format, self._options.column if self._format == "jsonl" else None)

    def _chosen(self, rows: tables.Rows, file: str) -> Iterator[Batch]:
        names = rows.chosen(self._options.column)
        for batch in rows.batches():
            with named(file):
                key = batch.key(names)
                if not key.chunks:
                    continue
                mask, sure = self._tally.first_rows(key.schema, key.chunks, key.length)
            taken = batch.take(np.flatnonzero(mask))
            if sure:
                yield taken
            else:
                self._waiting.add(taken)

    def _print(self, out: Output, batch: Batch) -> None:
        cells = row_cells(batch, out.format == "parquet")
        if batch.rows:
            out.rows(cells[-1:] if self._format == "jsonl" else cells)


class _Waiting:
    """Rows on the disk, numbered in their order."""

    def __init__(self, folder: str) -> None:
        self._folder, self._sizes = folder, [0]
        self._file: Temporary | None = None

    def add(self, batch: Batch) -> None:
        """Append rows."""
        if self._file is None:
            self._file = temporary(self._folder)
        self._file.write(pickle.dumps((batch.rows, batch), 5))
        self._sizes.append(self._file.size)

    def chosen(self, mask: Any) -> Iterator[Batch]:
        """Rows by a mask of all of them."""
        at = 0
        for begin, end in zip(self._sizes[:-1], self._sizes[1:], strict=True):
            assert self._file is not None
            rows, batch = pickle.loads(self._file.read(begin, end - begin).data)
            yield batch.take(np.flatnonzero(mask[at : at + rows]))
            at += rows
        if self._file is not None:
            self._file.close()


# ---- join ------------------------------------------------------------------------------------------------------------


def join(options: Any) -> int:
    """Rows of A, each beside the rows of B whose key is equal; null equals nothing."""
    formats = [options.format or tables.format_of(file) for file in options.files]
    for file, format in zip(options.files, formats, strict=True):
        if format not in ("csv", "tsv", "parquet", "arrow"):
            raise InputError(f"{file}: is read as {format}: a join takes csv, tsv, parquet and arrow: pass --format")
    names_of(options.files)
    if options.to is None and options.output is None:
        options.to = formats[0] if formats[0] == "tsv" else "csv"
    memory, bar = memory_of(options), Bar(options.output is None)
    try:
        with tables.open_rows(options.files[1], formats[1]) as other:
            right_names = other.chosen(options.on)
            right = _whole(other, memory.limit, bar)
        with tables.open_rows(options.files[0], formats[0]) as rows:
            left_names = rows.chosen(options.on)
            added = [i for i, name in enumerate(other.columns) if name not in right_names]
            names = rows.columns + [_new_name(other.columns[i], rows.columns) for i in added]
            with printing(options, names) as out:
                _joined(out, rows, left_names, right, right_names, added, options, bar)
    finally:
        bar.clear()
    return 0


def _new_name(name: str, taken: list[str]) -> str:
    while name in taken:
        name += "_2"
    return name


def _whole(rows: tables.Rows, limit: int, bar: Bar) -> Batch | None:
    """All rows of a table, as one batch."""
    batches: list[Any] = []
    size = 0
    for batch in rows.batches():
        bar(f"reading {rows.name}", rows.done())
        batches.append(batch)
        size += _bytes_of(batch)
        if 2 * size > limit:
            raise InputError(
                f"{rows.name}: the second table of a join is larger than half of --memory {limit >> 20}M: pass the "
                "smaller table second, or a larger --memory"
            )
    if not batches:
        return None
    if isinstance(batches[0], Lists):
        columns = [[cell for batch in batches for cell in batch.columns[i]] for i in range(len(rows.columns))]
        return Lists(rows.columns, columns)
    pa: Any = importlib.import_module("pyarrow")

    whole = [pa.chunked_array([batch.columns[i] for batch in batches]) for i in range(len(rows.columns))]
    return Arrow(rows.columns, [pa.concat_arrays(one.chunks) for one in whole])


def _bytes_of(batch: Any) -> int:
    if isinstance(batch, Lists):
        return sum(64 + len(cell or b"") for cells in batch.columns for cell in cells)
    return sum(cells.nbytes for cells in batch.columns)


def _joined(
    out: Output,
    rows: tables.Rows,
    left_names: list[str],
    right: Batch | None,
    right_names: list[str],
    added: list[int],
    options: Any,
    bar: Bar,
) -> None:
    index, offsets, by_id = None, np.zeros(1, np.int64), np.empty(0, np.int64)
    if right is not None:
        with named(options.files[1]):
            key = right.key(right_names)
            index = CoreIndex(key.schema, "drop", "numbers", options.threads)
            ids = np.empty(key.length, np.int64)
            index.add(key.schema, key.chunks, ids)
        offsets, by_id = rows_by_id(ids, index.size)
    for batch in rows.batches():
        bar(f"joining {rows.name}", rows.done())
        at = np.full(batch.rows, -1, np.int64)
        with named(options.files[0]):
            key = batch.key(left_names)
            if index is not None and key.chunks:
                index.find(key.schema, key.chunks, at)
        left, met = pairs(at, offsets, by_id, options.how == "left")
        if not len(left):
            continue
        cells = row_cells(batch.take(left), out.format == "parquet")
        out.rows([*cells, *_right_cells(out, right, met, added, len(left))])


def _right_cells(out: Output, right: Batch | None, met: Any, added: list[int], n: int) -> list[Cells]:
    if right is None:
        nothing = np.zeros(n + 1, np.int64), np.empty(0, np.uint8)
        return [Cells(nothing, np.ones(n, bool)) for _ in added]
    cells = row_cells(right.take(met), out.format == "parquet")
    return [cells[i] for i in added]
