"""Temporary files of keys and numbers. They have no name: nothing is left of them, whatever ends the process."""

from __future__ import annotations

import errno
import os
import pickle
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from pygpuhash.columns import View
from pygpuhash.keyfile import InputError
from pygpuhash.saved import columns, elements
from pygpuhash.saved.chunk import Array, Chunk, Cursor
from pygpuhash.saved.container import Reader, Writer
from pygpuhash.saved.types import Type

__all__ = ["Columns", "Keep", "Pile", "temporary"]

_INT64 = np.dtype(np.int64)

Columns = columns.Column


class Temporary:
    """A file without a name: appended to, then read."""

    def __init__(self, folder: str) -> None:
        self.folder, self.size = folder, 0
        try:
            self.file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115
        except OSError as error:
            raise _said(error, folder) from None

    def write(self, data: Any) -> int:
        """Append bytes."""
        rest = memoryview(data).cast("B") if len(data) else memoryview(b"")
        size = len(rest)
        try:
            while rest:
                rest = rest[self.file.write(rest) :]
        except OSError as error:
            raise _said(error, self.folder) from None
        self.size += size
        return size

    def read(self, offset: int, size: int) -> Array:
        """The bytes at an offset."""
        data, done = np.empty(size, np.uint8), 0
        while done < size:
            got = os.preadv(self.file.fileno(), [data.data[done : done + (1 << 28)]], offset + done)
            if not got:
                raise InputError(f"a temporary file in {self.folder} has become shorter")
            done += got
        return data

    def close(self) -> None:
        """Give the disk back."""
        self.file.close()


def temporary(folder: str) -> Temporary:
    """A new temporary file."""
    return Temporary(folder)


def _said(error: OSError, folder: str) -> InputError:
    what = "the disk is full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else error.strerror or str(error)
    return InputError(
        f"temporary files in {folder}: {what}: pass a larger --memory, or --temporary with another folder"
    )


class Keep:
    """Blocks of a column of keys beside columns of int64, on the disk in the order in which they came."""

    def __init__(self, schema: object, numbers: int, folder: str) -> None:
        """numbers : columns of int64."""
        self._key = columns.type_of(schema, "key")
        self._numbers = [Type("l", f"number {i}") for i in range(numbers)]
        self._file = temporary(folder)
        self._writer = Writer(self._file.write, [self._key, *self._numbers], {}, None)
        self.rows = 0

    def add(self, keys: Any, numbers: Sequence[Array]) -> None:
        """Append a block: something with `__arrow_c_array__`, and an array for each column of numbers."""
        view = View(keys)
        if view.length == 0:
            return
        chunk = Chunk(view.length)
        columns.add(chunk, view, self._key)
        for array in numbers:
            elements.add(chunk, np.ascontiguousarray(array, _INT64), _INT64)
        self._writer.block(chunk)
        self.rows += view.length

    def blocks(self) -> Iterator[tuple[Columns, int, list[Array]]]:
        """(keys, their number, numbers) of each block. The file is gone afterwards."""
        try:
            self._writer.finish()
            reader = Reader(self._file.read, self._file.size, "a temporary file")
            for _, chunk in reader.chunks():
                cursor = Cursor(chunk)
                keys = columns.take(cursor, self._key, chunk.rows)
                numbers = [elements.take(cursor, type, _INT64, chunk.rows) for type in self._numbers]
                yield keys, chunk.rows, numbers
        finally:
            self.close()

    def close(self) -> None:
        """Give the disk back."""
        self._file.close()


class Pile:
    """Batches of rows, or tuples with batches, on the disk in the order in which they came."""

    def __init__(self, folder: str, given: Iterable[Any] = ()) -> None:
        self._file, self._sizes = temporary(folder), [0]
        for one in given:
            self.add(one)

    def add(self, given: Any) -> None:
        """Append a batch."""
        self._file.write(pickle.dumps(given, 5))
        self._sizes.append(self._file.size)

    def each(self) -> Iterator[Any]:
        """All batches."""
        for begin, end in zip(self._sizes[:-1], self._sizes[1:], strict=True):
            yield pickle.loads(self._file.read(begin, end - begin).data)

    def take(self) -> Iterator[Any]:
        """All batches. The file is gone afterwards."""
        yield from self.each()
        self.close()

    def close(self) -> None:
        """Give the disk back."""
        self._file.close()
