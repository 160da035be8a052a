"""`join A B --on`: rows of A, each beside the rows of B whose key is equal.

B is in memory if it takes, with its index, at most half of --memory. A larger one is cut into pieces, which go to
temporary files, and so does A. Each piece meets all rows of A, and what it makes of them is kept with the numbers of
these rows. In the end all of it is merged by these numbers, and of one row in the order of the pieces: so the output is
the same, in the same order, whatever the memory.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pygpuhash.columns._engine import CoreIndex, pairs, rows_by_id
from pygpuhash.commands import tables
from pygpuhash.commands.batches import Arrow, Batch, Lists
from pygpuhash.commands.columns import row_cells
from pygpuhash.commands.output import Cells, Output
from pygpuhash.commands.progress import Bar
from pygpuhash.commands.running import printing
from pygpuhash.commands.settings import memory_of
from pygpuhash.commands.sources import named, names_of
from pygpuhash.commands.spill import Pile
from pygpuhash.commands.tally import Memory
from pygpuhash.keyfile import InputError

__all__ = ["join"]

_INDEXED = 96  # bytes of a row of B in the index and in the order of its ids
_ROWS = 1 << 14  # of a block on the disk, which ends with the last pair of a row of A


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
        with tables.open_rows(options.files[1], formats[1], memory.longest, separator=options.separator) as other:
            right_names = other.chosen(options.on)
            pieces = _Pieces(other, right_names, memory, bar)
        with tables.open_rows(options.files[0], formats[0], memory.longest, separator=options.separator) as rows:
            left_names = rows.chosen(options.on)
            added = [i for i, name in enumerate(other.columns) if name not in right_names]
            names = rows.columns + [_new_name(other.columns[i], rows.columns) for i in added]
            with printing(options, names) as out:
                _Join(options, left_names, added, memory, bar).run(rows, pieces, out)
    finally:
        bar.clear()
    return 0


def _new_name(name: str, taken: list[str]) -> str:
    while name in taken:
        name += "_2"
    return name


class _Right:
    """Rows of B in memory, found by their keys."""

    def __init__(self, batches: list[Batch], names: list[str], file: str, threads: int | None) -> None:
        self.batch = _concatenated(batches)
        batches.clear()
        with named(file):
            key = self.batch.key(names)
            self._index = CoreIndex(key.schema, "drop", "numbers", threads)
            ids = np.empty(key.length, np.int64)
            self._index.add(key.schema, key.chunks, ids)
        self._offsets, self._rows = rows_by_id(ids, self._index.size)

    def meet(self, key: Any, n: int, all_of_left: bool) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(places in n keys, rows of B) of all pairs with equal keys; row -1: no row of B has the key."""
        at = np.full(n, -1, np.int64)
        if key.chunks:
            self._index.find(key.schema, key.chunks, at)
        return pairs(at, self._offsets, self._rows, all_of_left)


class _Pieces:
    """All rows of B: in memory, or as pieces on the disk."""

    def __init__(self, rows: tables.Rows, names: list[str], memory: Memory, bar: Bar) -> None:
        self._names, self._file, self._memory = names, rows.name, memory
        self._there: list[Batch] = []
        self._piles: list[Pile] = []
        size = 0
        for batch in rows.batches():
            bar(f"reading {rows.name}", rows.done())
            self._there.append(batch)
            size += _bytes_of(batch) + _INDEXED * batch.rows
            if 2 * size > memory.limit:
                self._spill()
                size = 0
        if self._piles and self._there:
            self._spill()

    def _spill(self) -> None:
        if not self._piles:
            self._memory.say(
                f"{self._file} fills its share of --memory {self._memory.limit >> 20}M: the join goes through "
                f"temporary files in {self._memory.folder}"
            )
        self._piles.append(Pile(self._memory.folder, map(_by_itself, self._there)))
        self._there = []

    @property
    def on_disk(self) -> int:
        """How many pieces are on the disk."""
        return len(self._piles)

    def each(self) -> Iterator[_Right]:
        """The pieces, one after the other."""
        if self._there:
            yield self._right(self._there)
        for pile in self._piles:
            yield self._right(list(pile.take()))

    def _right(self, batches: list[Batch]) -> _Right:
        return _Right(batches, self._names, self._file, self._memory.threads)


class _Join:
    """One run of the command."""

    def __init__(self, options: Any, names: list[str], added: list[int], memory: Memory, bar: Bar) -> None:
        self._file, self._names, self._added, self._memory, self._bar = options.files[0], names, added, memory, bar
        self._all_of_left = options.how == "left"
        self._met: list[Any] = []  # --how left: of each batch of A, bits of the rows that met one of an earlier piece

    def run(self, rows: tables.Rows, pieces: _Pieces, out: Output) -> None:
        """Print all rows."""
        if pieces.on_disk:
            for block in _merged(self._through_files(rows, pieces)):
                self._print(out, *block)
            return
        right = next(pieces.each(), None)
        for batch in self._read(rows):
            if right is not None:
                left, met = self._meet(right, batch, self._all_of_left)
                if left.size:
                    self._print(out, batch.take(left), self._beside(right, met))
            elif self._all_of_left and batch.rows:
                self._print(out, batch, None)

    def _read(self, rows: tables.Rows) -> Iterator[Batch]:
        for batch in rows.batches():
            self._bar(f"joining {rows.name}", rows.done())
            yield batch

    def _meet(self, right: _Right, batch: Batch, all_of_left: bool) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        with named(self._file):
            return right.meet(batch.key(self._names), batch.rows, all_of_left)

    def _beside(self, right: _Right, met: Any) -> Batch:
        return right.batch.only(self._added).take(met)

    def _print(self, out: Output, left: Batch, right: Batch | None) -> None:
        parquet, n = out.format == "parquet", left.rows
        nothing = (np.zeros(n + 1, np.int64), np.empty(0, np.uint8)), np.ones(n, bool)
        beside = [Cells(*nothing) for _ in self._added] if right is None else row_cells(right, parquet)
        out.rows([*row_cells(left, parquet), *beside])

    # ---- B on the disk

    def _through_files(self, rows: tables.Rows, pieces: _Pieces) -> list[Iterator[_Block]]:
        """Join each piece of B with all rows of A, which wait on the disk, too."""
        left, made = Pile(self._memory.folder), []
        for batch in self._read(rows):
            left.add(_by_itself(batch))
        for i, right in enumerate(pieces.each()):
            self._bar("joining", i / pieces.on_disk)
            made.append(Pile(self._memory.folder, self._blocks(left.each(), right, i + 1 == pieces.on_disk)))
        left.close()
        return [pile.take() for pile in made]

    def _blocks(self, batches: Iterable[Batch], right: _Right, last: bool) -> Iterator[_Block]:
        first = 0
        for i, batch in enumerate(batches):
            left, met = self._meet(right, batch, last and self._all_of_left)
            if self._all_of_left:
                if i == len(self._met):
                    self._met.append(np.packbits(np.zeros(batch.rows, bool)))
                before = np.unpackbits(self._met[i], count=batch.rows).astype(bool)
                fresh = (met >= 0) | ~before[left]
                before[left[met >= 0]] = True
                self._met[i] = np.packbits(before)
                left, met = left[fresh], met[fresh]
            ends = np.unique(np.searchsorted(left, left[_ROWS - 1 :: _ROWS], "right"))
            for some, others in zip(np.split(left, ends), np.split(met, ends), strict=True):
                if some.size:
                    yield first + some, batch.take(some), self._beside(right, others)
            first += batch.rows


_Block = tuple[NDArray[np.int64], Batch, Batch]  # numbers of rows of A, which ascend; these rows; those beside them


class _Head:
    """A stream of blocks, of which the first one is being merged."""

    def __init__(self, stream: Iterator[_Block]) -> None:
        self._stream, self._at = stream, 0
        self._block = next(stream, None)

    @property
    def last(self) -> int | None:
        """The highest number of the block; None where the stream has ended."""
        return None if self._block is None else int(self._block[0][-1])

    def up_to(self, limit: int) -> _Block:
        """Rows with these numbers."""
        assert self._block is not None
        numbers, left, right = self._block
        begin, end = self._at, int(np.searchsorted(numbers, limit, "right"))
        some = np.arange(begin, end)
        self._at = end
        if end == len(numbers):
            self._block, self._at = next(self._stream, None), 0
        return numbers[some], left.take(some), right.take(some)


def _merged(streams: list[Iterator[_Block]]) -> Iterator[tuple[Batch, Batch]]:
    """Blocks by ascending numbers, of one number in the order of the streams. No stream has a number in two blocks."""
    heads = [_Head(stream) for stream in streams]
    while lasts := [head.last for head in heads if head.last is not None]:
        parts = [head.up_to(min(lasts)) for head in heads if head.last is not None]
        order = np.argsort(np.concatenate([numbers for numbers, _, _ in parts]), kind="stable")
        left, right = _concatenated([part[1] for part in parts]), _concatenated([part[2] for part in parts])
        yield left.take(order), right.take(order)


def _concatenated(batches: list[Any]) -> Batch:
    first = batches[0]
    if isinstance(first, Lists):
        columns = [[cell for batch in batches for cell in batch.columns[i]] for i in range(len(first.names))]
        return Lists(first.names, columns)
    pa: Any = importlib.import_module("pyarrow")

    whole = [pa.chunked_array([batch.columns[i] for batch in batches]) for i in range(len(first.names))]
    return Arrow(first.names, [pa.concat_arrays(one.chunks) for one in whole])


def _by_itself(batch: Batch) -> Batch:
    """The same rows, without the buffers of which they are a slice: on the disk these would be there as a whole."""
    return batch.take(np.arange(batch.rows))


def _bytes_of(batch: Any) -> int:
    if isinstance(batch, Lists):
        return sum(64 + len(cell or b"") for cells in batch.columns for cell in cells)
    return sum(cells.nbytes for cells in batch.columns)
