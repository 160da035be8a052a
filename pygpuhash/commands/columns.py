"""The columns that commands count: words, lines, k-mers or columns of tables, as Arrow capsules, chunk by chunk."""

from __future__ import annotations

import collections
import importlib
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pygpuhash.columns import View, _buffers
from pygpuhash.commands import _words, sources, tables
from pygpuhash.commands._kmers import Kmers, letters
from pygpuhash.commands.batches import Batch, Lists, Text, plain_array, text_of
from pygpuhash.commands.output import Cells
from pygpuhash.commands.sources import Source, blocks, named
from pygpuhash.keyfile import InputError

__all__ = ["Kind", "ahead", "kind_of", "row_cells"]


class Chunk(NamedTuple):
    """Rows: a schema, arrays, and the bytes that these hold. kmers : of k-mers, the k-mers as numbers."""

    schema: object
    arrays: list[object]
    nbytes: int
    kmers: NDArray[np.uint64] | None = None


_AHEAD = 1 << 24  # bytes of chunks that wait, or are counted


class Kind:
    """What is counted.

    names : of the columns that a key has. read : (file, report) gives its chunks; report(share) hears how far it is.
    print : the cells of keys, of what a tally gives. k : of k-mers.
    """

    def __init__(
        self,
        names: list[str],
        read: Callable[[str, Callable[[float], None]], Iterator[Chunk]],
        cells: Callable[[Any, bool], list[Cells]],
        k: int | None = None,
    ) -> None:
        self.names, self.read, self.cells, self.k = names, read, cells, k


def kind_of(options: Any, longest: int) -> Kind:
    """The kind of keys that the command line asks for. longest : bytes of a line or a word."""
    formats = {options.format or tables.format_of(name) for name in options.files if name != "-" or options.format}
    if options.k is not None or formats & {"fasta", "fastq"}:
        return _kmers(options)
    if options.canonical:
        raise InputError("--canonical is for k-mers: pass --k, too")
    if options.column:
        return _table(options, longest)
    if options.separator:
        raise InputError("--separator is for columns of CSV: pass --column, too")
    table = formats & {"csv", "tsv", "jsonl", "parquet", "arrow"}
    if (table and not options.lines) or table & {"parquet", "arrow"}:
        raise InputError(f"{options.files[0]}: is a table: choose a column with --column, or its lines with --lines")
    name, split = ("line", _words.lines) if options.lines else ("word", _words.words)

    def read(file: str, report: Callable[[float], None]) -> Iterator[Chunk]:
        schema = _buffers.schema("vz")
        for block, views in _reported(file, split, report, name, longest):
            sizes = np.array([block.size], np.int64)
            if len(views):
                arrays: list[object] = [_buffers.array(len(views), (None, views, block, sizes))]
                yield Chunk(schema, arrays, block.nbytes + views.nbytes)

    return Kind([name], read, _bytes_cells)


def _reported(
    file: str, split: Any, report: Callable[[float], None], what: str, longest: int, step: int | None = None
) -> Iterator[Any]:
    with Source(file) as source:
        for found in blocks(source, split, what, longest, step=step):
            report(source.done)
            yield found


def _bytes_cells(keys: Any, arrays: bool) -> list[Cells]:
    text, nulls = text_of(View(keys))
    return [Cells(text, nulls)]


# ---- k-mers ----------------------------------------------------------------------------------------------------------


def _kmers(options: Any) -> Kind:
    k = options.k
    if k is None:
        raise InputError(f"{options.files[0]}: has sequences: choose the length of k-mers with --k, as in --k 21")
    if not 1 <= k <= 32:
        raise InputError(f"--k {k}: a k-mer has 1 to 32 bases")
    if options.column or options.lines:
        raise InputError("--k counts k-mers: leave out --column and --lines")

    def read(file: str, report: Callable[[float], None]) -> Iterator[Chunk]:
        schema, reader = _buffers.schema("L"), Kmers(k, options.canonical)
        shown = "standard input" if file == "-" else file

        def split(block: Any, size: int, whole: bool) -> tuple[Any, int]:
            return reader.read(block, size), size

        try:
            # Eight bytes of k-mers for each that is read.
            for _, found in _reported(file, split, report, "line", sources.BLOCK, sources.BLOCK // 4):
                if len(found):
                    yield Chunk(schema, [_buffers.array(len(found), (None, found))], found.nbytes, found)
            reader.finish()
        except ValueError as error:
            raise InputError(f"{shown}: {error}") from None

    def cells(keys: Any, arrays: bool) -> list[Cells]:
        return [Cells(letters(View(keys).values(np.uint64), k))]

    return Kind(["kmer"], read, cells, k)


# ---- columns of tables -----------------------------------------------------------------------------------------------


def _table(options: Any, longest: int) -> Kind:
    if options.lines:
        raise InputError("--lines and --column: choose one of them")

    def read(file: str, report: Callable[[float], None]) -> Iterator[Chunk]:
        format = options.format or tables.format_of(file)
        with tables.open_rows(file, format, longest, options.column, options.separator) as rows:
            names = rows.chosen(options.column)
            for batch in rows.batches():
                with named(rows.name):
                    key = batch.key(names)
                report(rows.done())
                if key.chunks:
                    yield Chunk(key.schema, key.chunks, batch.nbytes)

    def cells(keys: Any, arrays: bool) -> list[Cells]:
        view = View(keys)
        parts = [view.child(i) for i in range(view.columns)] if view.format == "+s" and several else [view]
        return [_cells(part, arrays) for part in parts]

    several = len(options.column) > 1
    return Kind(list(options.column), read, cells)


def _cells(view: View, arrays: bool) -> Cells:
    format = view.format
    number = format[0] in "cCsSiIlLefg"
    if arrays and format not in ("z", "Z"):
        pa: Any = importlib.import_module("pyarrow")

        return Cells(None, array=pa.array(view))
    text, nulls = text_of(view)
    if format == "b":
        text, number = _lowered(text), True
    return Cells(text, nulls, number)


def row_cells(batch: Batch, arrays: bool) -> list[Cells]:
    """The cells of whole rows."""
    if isinstance(batch, Lists):
        return [Cells(text, nulls) for text, nulls in batch.texts()]
    return [Cells(None, array=one) if arrays else _cells(View(plain_array(one)), False) for one in batch.arrays()]


def _lowered(text: Text) -> Text:
    return text[0], np.frombuffer(text[1].tobytes().lower(), np.uint8)


# ---- reading ahead ---------------------------------------------------------------------------------------------------


def ahead(chunks: Iterator[Chunk]) -> Iterator[Chunk]:
    """The same chunks, read by a thread of its own while those before are counted.

    Two wait at most, and of large ones none beside the one that is counted and the one that is read.
    """
    waiting: collections.deque[tuple[Chunk | None, BaseException | None]] = collections.deque()
    change = threading.Condition()
    held = 0  # bytes of those that wait, and of the one that is counted
    ended = False

    def put(chunk: Chunk | None, error: BaseException | None = None) -> bool:
        nonlocal held
        size = 0 if chunk is None else chunk.nbytes
        with change:
            while not ended and (len(waiting) == 2 or (held and held + size > _AHEAD)):
                change.wait()
            waiting.append((chunk, error))
            held += size
            change.notify_all()
            return not ended

    def read() -> None:
        try:
            for chunk in chunks:
                if not put(chunk):
                    return
            put(None)
        except BaseException as error:
            put(None, error)

    threading.Thread(target=read, daemon=True).start()
    try:
        while True:
            with change:
                while not waiting:
                    change.wait()
                chunk, error = waiting.popleft()
                change.notify_all()
            if error is not None:
                raise error
            if chunk is None:
                return
            size = chunk.nbytes
            yield chunk
            del chunk
            with change:
                held -= size
                change.notify_all()
    finally:
        with change:
            ended = True
            change.notify_all()
