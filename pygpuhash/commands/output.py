"""Rows out: as text, CSV, TSV, JSON lines or parquet, to standard output or to a file that is written as a whole."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pygpuhash.columns import _utf8
from pygpuhash.commands._print import digits, joined, json_strings, quoted
from pygpuhash.commands.batches import Text
from pygpuhash.keyfile import InputError
from pygpuhash.saved import disk

__all__ = ["ERRORS", "FORMATS", "Cells", "Output", "opened"]

FORMATS = ("text", "csv", "tsv", "jsonl", "parquet")
ERRORS = ("strict", "replace", "ignore", "backslashreplace")
_SUFFIXES = {".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
_SEPARATORS = {"csv": b",", "tsv": b"\t", "text": b"\t"}

Write = Callable[[Any], object]


class Cells:
    """A column of what is printed.

    text : (offsets, bytes). nulls : where it is null. number : it is a number, without quotes in JSON. array : the
    column for parquet, an array of pyarrow or something with `__arrow_c_array__`; None: made of the text.
    """

    def __init__(
        self, text: Text | None, nulls: NDArray[np.bool_] | None = None, number: bool = False, array: Any = None
    ) -> None:
        self.text, self.nulls, self.number, self.array = text, nulls, number, array

    @staticmethod
    def numbers(values: NDArray[np.int64], width: int = 0) -> Cells:
        """A column of integers."""
        return Cells(digits(values, width), number=True, array=values)


class Output:
    """Writes rows. names : of the columns. marked : in text, a blank follows the first column, which is no key."""

    def __init__(self, write: Write, format: str, names: Sequence[str], errors: str, marked: bool = False) -> None:
        self._write, self.format, self.names, self._errors, self.marked = write, format, list(names), errors, marked
        self._parquet: Any = None
        if format in ("csv", "tsv"):
            header = [
                _quoted(_utf8.texts([name.encode()], None, "name"), _SEPARATORS[format], len(names)) for name in names
            ]
            self._rows(1, header, _SEPARATORS[format], b"\n")

    def rows(self, cells: Sequence[Cells]) -> None:
        """Print rows."""
        first = cells[0]
        n = len(first.array) if first.text is None else len(first.text[0]) - 1
        if n == 0:
            return
        if self.format == "parquet":
            self._table(cells)
        elif self.format == "jsonl":
            self._json(n, cells)
        else:
            self._lines(n, cells)

    def _lines(self, n: int, cells: Sequence[Cells]) -> None:
        columns: list[Any] = [cell.text for cell in cells]
        between = _SEPARATORS[self.format]
        if self.format != "text":
            columns = [cell.text if cell.number else _quoted(cell.text, between, len(cells)) for cell in cells]
        elif self.marked:  # as uniq -c and diff do: a number or a mark, a blank, the key
            parts = [columns[0], b" ", *_between(columns[1:], between), b"\n"]
            self._write(joined(n, tuple(parts)))
            return
        self._rows(n, columns, between, b"\n")

    def _rows(self, n: int, columns: Sequence[Any], between: bytes, end: bytes) -> None:
        self._write(joined(n, (*_between(columns, between), end)))

    def _json(self, n: int, cells: Sequence[Cells]) -> None:
        parts: list[Any] = []
        for i, (name, cell) in enumerate(zip(self.names, cells, strict=True)):
            key, none = json_strings(*_utf8.texts([name.encode()], None, "name"))[1].tobytes(), np.empty(0, np.uint8)
            parts.append((b"{" if i == 0 else b", ") + key + b": ")
            assert cell.text is not None
            shown = cell.text if cell.number else json_strings(*_decodable(cell.text, name, self._errors))
            parts.append(shown if cell.nulls is None else _nulls(shown, cell.nulls, none))
        self._write(joined(n, (*parts, b"}\n")))

    def _table(self, cells: Sequence[Cells]) -> None:
        pa = importlib.import_module("pyarrow")
        arrays = [self._array(pa, cell, name) for cell, name in zip(cells, self.names, strict=True)]
        table = pa.Table.from_arrays(arrays, self.names)
        if self._parquet is None:
            sink = pa.PythonFile(_Sink(self._write), "w")
            self._parquet = importlib.import_module("pyarrow.parquet").ParquetWriter(sink, table.schema)
        self._parquet.write_table(table.cast(self._parquet.schema))

    def _array(self, pa: Any, cell: Cells, name: str) -> Any:
        """A column for parquet: bytes are text there."""
        if cell.array is not None:
            array = cell.array if isinstance(cell.array, pa.Array) else pa.array(cell.array)
            kind = array.type
            if not (pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
                return array
            cell = Cells(_of_binary(pa, array), np.asarray(array.is_null()) if array.null_count else None)
        assert cell.text is not None
        offsets, data = _decodable(cell.text, name, self._errors)
        whole = pa.LargeStringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(data))
        return whole if cell.nulls is None else pa.compute.if_else(pa.array(~cell.nulls), whole, None)

    def finish(self, empty: Callable[[], Sequence[Cells]] | None = None) -> None:
        """End the output. empty : makes cells without rows, which tell the columns where no row was printed."""
        if self.format == "parquet":
            if self._parquet is None and empty is not None:
                self._table(empty())
            if self._parquet is not None:
                self._parquet.close()


def _between(columns: Sequence[Any], between: bytes) -> list[Any]:
    parts: list[Any] = []
    for column in columns:
        parts += [column] if not parts else [between, column]
    return parts


def _quoted(text: Text | None, separator: bytes, columns: int) -> Text:
    assert text is not None
    return quoted(text[0], text[1], separator[0], columns == 1)


def _of_binary(pa: Any, array: Any) -> Text:
    cells = array.cast(pa.large_binary())
    cells = cells.fill_null(b"") if cells.null_count else cells
    _, offsets, data = cells.buffers()
    ends = np.frombuffer(offsets, np.int64)[cells.offset : cells.offset + len(cells) + 1]
    return ends, np.frombuffer(data, np.uint8) if data is not None and data.size else np.empty(0, np.uint8)


def _decodable(text: Text, name: str, errors: str) -> Text:
    """Text in UTF-8. Raises InputError for what is not, unless `errors` says what becomes of it."""
    offsets, data = text
    inner = offsets[(offsets > offsets[0]) & (offsets < offsets[-1])]
    with contextlib.suppress(UnicodeDecodeError):
        bytes(data[offsets[0] : offsets[-1]]).decode()
        if not ((data[inner] & 0xC0) == 0x80).any():
            return text
    whole = bytes(data)
    cells = [whole[a:b] for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)]
    try:
        return _utf8.texts([cell.decode("utf-8", errors) for cell in cells], None, name)
    except UnicodeDecodeError as error:
        broken = bytes(error.object[:40])
        raise InputError(
            f"{name} {broken!r} is not UTF-8: pass --errors replace, or print text, which takes any bytes"
        ) from None


def _nulls(text: Text, nulls: NDArray[np.bool_], none: Any) -> Text:
    """The column with JSON's word null where an element is null."""
    offsets, data = text
    whole = data.tobytes()
    ends = offsets.tolist()
    cells = [b"null" if no else whole[ends[i] : ends[i + 1]] for i, no in enumerate(nulls.tolist())]
    return _utf8.texts(cells, None, "null")


class _Sink:
    """A file that pyarrow writes to."""

    closed = False

    def __init__(self, write: Write) -> None:
        self._write, self._at = write, 0

    def write(self, data: Any) -> int:
        """Pass bytes on."""
        view = memoryview(data)
        self._write(np.frombuffer(view, np.uint8) if len(view) else b"")
        self._at += len(view)
        return len(view)

    def writable(self) -> bool:
        """Yes."""
        return True

    def tell(self) -> int:
        """Bytes that were written so far."""
        return self._at

    def flush(self) -> None:
        """Do nothing: no byte is held back."""

    def close(self) -> None:
        """Do nothing: the owner of the file closes it."""


def format_of(path: str | None, asked: str | None) -> str:
    """The format of the output: what is asked for, else what the file's suffix says, else text."""
    found = asked or (_SUFFIXES.get(Path(path).suffix.lower()) if path else None) or "text"
    if found == "parquet":
        try:
            importlib.import_module("pyarrow")
        except ImportError:
            raise InputError("--to parquet needs pyarrow: pip install 'gpuhash[files]'") from None
        if path is None and sys.stdout.isatty():
            raise InputError("--to parquet is nothing for a terminal: pass --output FILE, or a pipe")
    return found


@contextlib.contextmanager
def opened(path: str | None, overwrite: bool) -> Iterator[Write]:
    """write(bytes) to a file, which is there as a whole when the block ends, or to standard output."""
    if path is None:
        yield _to_standard_output
        return
    try:
        with disk.replaced(disk.path_of(path), overwrite) as write:
            yield write
    except FileExistsError:
        raise InputError(f"{path}: exists: pass --overwrite, or another name") from None
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InputError(f"{error.filename or path}: cannot be written: {error.strerror or error}") from None


def _to_standard_output(data: Any) -> None:
    rest = memoryview(data).cast("B") if len(data) else memoryview(b"")
    try:
        while rest:
            rest = rest[os.write(1, rest[: 1 << 20]) :]
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InputError(f"standard output cannot be written: {error.strerror or error}") from None
