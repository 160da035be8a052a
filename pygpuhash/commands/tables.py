"""Rows of CSV, TSV, JSON lines, parquet and Arrow, batch by batch.

Cells of CSV and TSV are bytes, as they are in the file: 7 and 07 are two keys. A value of JSON lines is the text, or,
of what is none, its JSON. Those of parquet and Arrow have their types. CSV is read by pyarrow where it is installed,
else by the standard library.
"""

from __future__ import annotations

import contextlib
import csv
import importlib
import io
import itertools
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pygpuhash.commands import _words, sources
from pygpuhash.commands.batches import Arrow, Batch, Lists
from pygpuhash.commands.sources import BLOCK, Source
from pygpuhash.keyfile import InputError

__all__ = ["FORMATS", "Rows", "format_of", "open_rows"]

FORMATS = ("text", "csv", "tsv", "jsonl", "parquet", "arrow", "fasta", "fastq")
_SUFFIXES = {
    **dict.fromkeys(("csv", "tsv", "jsonl", "parquet", "arrow", "fasta", "fastq"), ""),
    **{"tab": "tsv", "ndjson": "jsonl", "feather": "arrow", "ipc": "arrow"},
    **{"fa": "fasta", "fna": "fasta", "fq": "fastq"},
}
_ROWS = 1 << 14  # of a batch
_OBJECTS = 4  # a row as objects of Python, in eighths of --memory
_HEADER = 1 << 24  # bytes
_SEPARATORS = {"csv": ",", "tsv": "\t"}


def format_of(name: str) -> str:
    """The format that a file's name says: "text" where it says none."""
    suffixes = Path(name).suffixes
    if suffixes and suffixes[-1].lower() in (".gz", ".zst"):
        suffixes.pop()
    suffix = suffixes[-1][1:].lower() if suffixes else ""
    return _SUFFIXES.get(suffix, "text") or suffix


class Rows:
    """A table that is read batch by batch."""

    def __init__(self, name: str, columns: list[str], batches: Iterator[Batch]) -> None:
        self.name, self.columns, self._batches = name, columns, batches
        self.done: Callable[[], float] = lambda: 0.0

    def chosen(self, names: list[str]) -> list[str]:
        """The names of columns; a number from 1 stands for a column where none has it as its name."""
        found = []
        for name in names:
            if name not in self.columns and name.isascii() and name.isdigit() and 1 <= int(name) <= len(self.columns):
                name = self.columns[int(name) - 1]
            if name not in self.columns:
                some = ", ".join(repr(one) for one in self.columns[:20]) + (", ..." if len(self.columns) > 20 else "")
                raise InputError(f"{self.name}: has no column {name!r}: there are {some or 'none'}{self._hint(name)}")
            if self.columns.count(name) > 1:
                raise InputError(f"{self.name}: has two columns {name!r}: choose one by its number, from 1")
            found.append(name)
        return found

    def _hint(self, name: str) -> str:
        if set(name.split(",")) <= set(self.columns):
            return f": pass --column {' --column '.join(name.split(','))}"
        found = [mark for mark in ";|\t" if len(self.columns) == 1 and mark in self.columns[0]]
        way = "--format tsv" if found == ["\t"] else f"--separator '{found[0]}'" if found else ""
        return f": if {found[0]!r} is what separates its cells, pass {way}" if found else ""

    def batches(self) -> Iterator[Batch]:
        """All rows."""
        return self._batches


@contextlib.contextmanager
def open_rows(
    name: str, format: str, longest: int, only: list[str] | None = None, separator: str | None = None
) -> Iterator[Rows]:
    """Open a table, whose rows are read batch by batch.

    separator : of the cells of CSV, instead of a comma.

    longest : bytes of a row; the standard library's readers make more of one, and are given fewer.
    only : columns that are needed, of JSON lines, which have no header.
    """
    shown = "standard input" if name == "-" else name
    if separator and format != "csv":
        raise InputError(f"{shown}: is read as {format}: --separator is for CSV: leave it out, or pass --format csv")
    if format in ("parquet", "arrow"):
        with _arrow_file(name, shown, format, only, longest) as rows:
            yield rows
        return
    source = Source(name)
    try:
        if format == "jsonl":
            rows = Rows(shown, only or ["line"], _json_lines(source, only or [], longest // _OBJECTS))
        elif format in _SEPARATORS:
            rows = _separated(source, separator or _SEPARATORS[format], longest)
        else:
            raise InputError(f"{shown}: is read as {format}, which has no columns: pass --format csv, or another one")
        rows.done = lambda: source.done
        yield rows
    finally:
        source.close()


# ---- CSV, TSV --------------------------------------------------------------------------------------------------------


def _separated(source: Source, separator: str, longest: int) -> Rows:
    stream = io.BufferedReader(source, BLOCK)
    header, begin = _header(stream, source.name, separator)
    pyarrow = _found("pyarrow.csv")
    batches: Iterator[Batch]
    if pyarrow is None:
        batches = _separated_by_python(stream, source.name, header, separator, longest // _OBJECTS)
    else:
        batches = _separated_by_arrow(pyarrow, stream, header, separator, longest, begin)
    return Rows(source.name, header, batches)


def _found(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        return None


def _header(stream: Any, name: str, separator: str) -> tuple[list[str], int]:
    """The first row, and where the next one begins."""
    left = _HEADER
    if stream.peek(2)[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise InputError(f"{name}: is UTF-16: pipe it through iconv -f UTF-16 -t UTF-8, and pass --format csv")

    def lines() -> Iterator[str]:
        nonlocal left
        for number in itertools.count():
            line = stream.readline(left + 1)
            left -= len(line)
            if left < 0:
                raise InputError(
                    f"{name}: its first row, which has to name the columns, has more than {_HEADER:,} bytes"
                )
            if not line:
                return
            if number == 0:
                line = line.removeprefix(b"\xef\xbb\xbf")
            yield line.decode("utf-8", "replace")

    try:
        header = next(csv.reader(lines(), delimiter=separator), None)
    except csv.Error as error:
        raise InputError(f"{name}: has no header of CSV in its first line: {error}") from None
    if header is None:
        raise InputError(f"{name}: is empty: its first line has to name the columns")
    return header, _HEADER - left


def _separated_by_arrow(
    module: Any, stream: Any, header: list[str], separator: str, longest: int, begin: int
) -> Iterator[Batch]:
    """pyarrow parses whole rows that are in memory.

    Its own reader of streams reads ahead in threads, which go on after an error, even while the process ends.
    """
    pa: Any = importlib.import_module("pyarrow")

    names = [str(i) for i in range(len(header))]
    parse = module.ParseOptions(delimiter=separator, newlines_in_values=True)
    convert = module.ConvertOptions(column_types=dict.fromkeys(names, pa.binary()), strings_can_be_null=False)
    row = 1

    def split(block: sources.Bytes, size: int, whole: bool) -> tuple[Any, int]:
        ends, used = _words.rows(block, size, whole, ord(separator))
        return _Rows(ends, used), used

    for block, found in sources.blocks(stream, split, "row", longest, begin):
        if not found.used:
            continue
        read = module.ReadOptions(use_threads=False, block_size=max(found.used, 1 << 12), column_names=names)
        try:
            table = module.read_csv(pa.py_buffer(block[: found.used]), read, parse, convert)
        except pa.ArrowInvalid as error:
            reason = str(error).splitlines()[0].removeprefix("CSV parse error: ")
            if place := re.match(r"Row #(\d+)", reason):
                reason = f"row {row + int(place[1]):,}{reason[place.end() :]}"
            columns = f"{len(header)} columns, as its first line has"
            raise InputError(f"{stream.name}: is no CSV of {columns}: {reason}") from None
        row += table.num_rows
        for batch in table.to_batches():
            yield Arrow(header, batch.columns)


class _Rows:
    """Whole rows of a block."""

    def __init__(self, ends: int, used: int) -> None:
        self._ends, self.used = ends, used

    def __len__(self) -> int:
        return self._ends


class _Lines:
    """The lines of a text. size : characters since it was set to 0, of one row, which ends where lines end."""

    def __init__(self, stream: Any, name: str, longest: int) -> None:
        self._text = io.TextIOWrapper(stream, "utf-8", "surrogateescape", newline="")
        self._name, self._longest, self._number, self.size = name, longest, 1, 0

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        self._number += 1
        line = self._text.readline(self._longest + 1 - self.size)
        self.size += len(line)
        if self.size > self._longest:
            raise too_long(self._name, self._number, self._longest)
        if not line:
            raise StopIteration
        return line


def too_long(name: str, number: int, longest: int) -> InputError:
    """A row that has more than these bytes."""
    return InputError(
        f"{name}: the row in line {number:,} has more than {longest:,} bytes, a {8 * _OBJECTS}nd of --memory, or a "
        "quote without its end: pass a larger --memory, or cut it"
    )


def _some_rows(reader: Any, lines: _Lines) -> list[list[str]]:
    """Rows of the standard library's reader: so many, or so long ones, as are a batch."""
    rows, size = [], 0
    for row in reader:
        if row:
            rows.append(row)
        size, lines.size = size + lines.size, 0
        if len(rows) == _ROWS or size > 4 * sources.BLOCK:
            break
    return rows


def _separated_by_python(stream: Any, name: str, header: list[str], separator: str, longest: int) -> Iterator[Batch]:
    csv.field_size_limit(sys.maxsize)
    lines = _Lines(stream, name, longest)
    reader = csv.reader(lines, delimiter=separator)
    try:
        while rows := _some_rows(reader, lines):
            for row in rows:
                if len(row) != len(header):
                    columns = f"{len(header)} columns, as its first line has"
                    raise InputError(f"{name}: is no CSV of {columns}: there is a row of {len(row)}")
            cells = [[cell.encode("utf-8", "surrogateescape") for cell in column] for column in zip(*rows, strict=True)]
            yield Lists(header, cells)
    except csv.Error as error:
        raise InputError(f"{name}: is no CSV: line {reader.line_num + 1}: {error}") from None


# ---- JSON lines ------------------------------------------------------------------------------------------------------


def _json_lines(source: Source, only: list[str], longest: int) -> Iterator[Batch]:
    """The columns `only`, and the line itself as the last one, without a name."""
    stream = io.BufferedReader(source, BLOCK)
    known: dict[str, None] = {}
    met = dict.fromkeys(only, False)
    number = 0
    while stream.peek(1):
        columns: list[list[bytes | None]] = [[] for _ in range(len(only) + 1)]
        size = 0
        while size < sources.BLOCK and (line := stream.readline(longest + 1)):
            number, size = number + 1, size + len(line)
            if len(line) > longest:
                raise too_long(source.name, number, longest)
            if line.isspace():
                continue
            row = _json_object(line, source.name, number)
            if len(known) < 100:
                known.update(dict.fromkeys(row))
            for name, cells in zip(only, columns, strict=False):
                cells.append(_json_cell(row.get(name)))
                met[name] |= name in row
            columns[-1].append(line.rstrip(b"\r\n"))
        if columns[-1]:
            yield Lists([*only, ""], columns)
    absent = [name for name in only if not met[name]]
    if absent and known:
        some = ", ".join(repr(one) for one in list(known)[:20])
        raise InputError(f"{source.name}: has no column {absent[0]!r}: there are {some}")


def _json_object(line: bytes, name: str, number: int) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name}: line {number} is no JSON: {error}") from None
    if not isinstance(row, dict):
        raise InputError(f"{name}: line {number} is no object of JSON: its columns are those of an object")
    return row


def _json_cell(value: Any) -> bytes | None:
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "surrogatepass")


# ---- parquet, Arrow --------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _arrow_file(name: str, shown: str, format: str, only: list[str] | None, longest: int) -> Iterator[Rows]:
    pa = _found("pyarrow")
    if pa is None:
        raise InputError(f"{shown}: is {format}, which needs pyarrow: pip install 'gpuhash[files]'")
    source = Source(name)
    if name == "-" and format == "parquet":
        raise InputError("standard input: parquet is read from its end on: pass the name of a file")
    source.close()
    try:
        if format == "parquet":
            yield _parquet(importlib.import_module("pyarrow.parquet"), name, shown, only, longest)
        else:
            yield _ipc(pa, name, shown, longest)
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None and not isinstance(error, pa.ArrowException):
            raise
        raise InputError(f"{shown}: is no whole file of {format}: {str(error).splitlines()[0]}") from None


def _parquet(module: Any, name: str, shown: str, only: list[str] | None, longest: int) -> Rows:
    metadata = module.read_metadata(name)
    schema = metadata.schema.to_arrow_schema()
    texts = _with_dictionaries(schema, metadata, longest)
    file = module.ParquetFile(name, metadata=metadata, read_dictionary=texts, buffer_size=BLOCK)
    at = [0]

    def batches() -> Iterator[Batch]:
        wanted = None if only is None else rows.chosen(only)
        for i in range(metadata.num_row_groups):
            group = metadata.row_group(i)
            some = min(4 * _ROWS, max(group.num_rows * (longest // 4) // max(group.total_byte_size, 1), 1))
            for batch in file.iter_batches(some, row_groups=[i], columns=wanted):
                yield from _slices(batch, longest, shown, at[0], texts)
                at[0] += batch.num_rows

    rows = Rows(shown, schema.names, batches())
    rows.done = lambda: at[0] / max(metadata.num_rows, 1)
    return rows


def _with_dictionaries(schema: Any, metadata: Any, longest: int) -> list[str]:
    """Columns whose texts are read once each, and repeated when rows are cut to size.

    In these a batch may be much larger than in the file: a row takes less than the length of a text would, or a text is
    long, and the column is not. Other columns are read faster without, and take less memory.
    """
    names = {field.name for field in schema if _is_text(field.type)}
    found = set()
    for i in range(metadata.num_row_groups):
        group = metadata.row_group(i)
        for chunk in map(group.column, range(group.num_columns)):
            size, rows = chunk.total_uncompressed_size, max(chunk.num_values, 1)
            if size < 4 * rows or 64 * rows <= size <= longest:
                found.add(chunk.path_in_schema)
    return sorted(found & names)


def _is_text(kind: Any) -> bool:
    types: Any = importlib.import_module("pyarrow.types")
    return bool(
        types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind) or types.is_large_binary(kind)
    )


def _slices(batch: Any, longest: int, shown: str, before: int, decoded: Sequence[str] = ()) -> Iterator[Batch]:
    """Rows of a batch, of at most a fourth of `longest` bytes in all, or one row.

    before : rows of the file before it. decoded : columns that are to have texts instead of a dictionary.
    """
    compute: Any = importlib.import_module("pyarrow.compute")
    sizes = np.zeros(batch.num_rows, np.int64)
    for name, cells in zip(batch.schema.names, batch.columns, strict=True):
        indices = getattr(cells, "indices", None)
        texts = cells if indices is None else cells.dictionary
        if not _is_text(texts.type):
            continue
        lengths = compute.fill_null(compute.binary_length(texts), 0)
        if indices is not None:
            lengths = compute.fill_null(lengths.take(indices), 0)
        own = np.asarray(lengths, np.int64)
        if own.size and own.max() > longest:
            raise InputError(
                f"{shown}: row {before + int(own.argmax()) + 1:,} has {int(own.max()):,} bytes in column {name!r}, "
                f"more than {longest:,}, an eighth of --memory, but 2 GiB at most: pass a larger --memory"
            )
        sizes += own
    ends = np.cumsum(sizes)
    begin = 0
    while begin < batch.num_rows:
        end = int(np.searchsorted(ends, longest // 4 + (ends[begin - 1] if begin else 0), "right"))
        end = min(max(end, begin + 1), begin + 4 * _ROWS)
        some = batch.slice(begin, end - begin)
        pairs = zip(some.schema.names, some.columns, strict=True)
        yield Arrow(
            some.schema.names, [cells.dictionary_decode() if name in decoded else cells for name, cells in pairs]
        )
        begin = end


def _ipc(pa: Any, name: str, shown: str, longest: int) -> Rows:
    stream = Source(name)
    start = io.BufferedReader(stream, BLOCK)
    if name != "-" and not stream.compressed and start.peek(6)[:6] == b"ARROW1":
        file = pa.ipc.open_file(pa.memory_map(name))
        read = (file.get_batch(i) for i in range(file.num_record_batches))
        return Rows(shown, file.schema.names, _bounded(read, longest, shown))
    reader = pa.ipc.open_stream(pa.PythonFile(start, "r"))
    return Rows(shown, reader.schema.names, _bounded(reader, longest, shown))


def _bounded(batches: Iterator[Any], longest: int, shown: str) -> Iterator[Batch]:
    before = 0
    for batch in batches:
        yield from _slices(batch, longest, shown, before)
        before += batch.num_rows
