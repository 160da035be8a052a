"""`dedup`: rows whose key was not there before, in their order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from pygpuhash.commands import counting, tables
from pygpuhash.commands.batches import Batch
from pygpuhash.commands.columns import row_cells
from pygpuhash.commands.output import Output
from pygpuhash.commands.progress import Bar
from pygpuhash.commands.running import printing
from pygpuhash.commands.settings import memory_of
from pygpuhash.commands.sources import named, names_of
from pygpuhash.commands.spill import Pile
from pygpuhash.commands.tally import Tally
from pygpuhash.keyfile import InputError

__all__ = ["dedup"]


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
        """Read all rows, and print the first one of each key."""
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
        only = self._options.column if self._format == "jsonl" else None
        return tables.open_rows(file, self._format, self._memory.longest, only, self._options.separator)

    def _chosen(self, rows: tables.Rows, file: str) -> Iterator[Batch]:
        names = rows.chosen(self._options.column)
        for batch in rows.batches():
            with named(file):
                key = batch.key(names)
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
        self._folder = folder
        self._pile: Pile | None = None

    def add(self, batch: Batch) -> None:
        """Append rows."""
        if self._pile is None:
            self._pile = Pile(self._folder)
        self._pile.add(batch)

    def chosen(self, mask: Any) -> Iterator[Batch]:
        """Rows by a mask of all of them."""
        at = 0
        for batch in () if self._pile is None else self._pile.take():
            yield batch.take(np.flatnonzero(mask[at : at + batch.rows]))
            at += batch.rows
