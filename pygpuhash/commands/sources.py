"""Files and standard input as streams of bytes, decompressed where they are compressed."""

from __future__ import annotations

import contextlib
import gzip
import importlib
import io
import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from pygpuhash.keyfile import InputError

__all__ = ["BLOCK", "Source", "blocks", "named", "names_of"]

BLOCK = 1 << 20  # bytes that are read at a time
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"

Bytes = NDArray[np.uint8]
# split(block, size, whole): what it found, and the bytes that were used.
Split = Callable[[Bytes, int, bool], tuple[Any, int]]


def names_of(files: list[str]) -> list[str]:
    """The files of a command line; standard input if there are none."""
    if files.count("-") > 1:
        raise InputError("standard input, -, is named twice: it can be read once")
    return files or ["-"]


class Source(io.RawIOBase):
    """One input, open: bytes as they were before compression. `done` is the share that was read."""

    def __init__(self, name: str) -> None:
        self.name = "standard input" if name == "-" else name
        self._size = 0
        try:
            if name == "-":
                self._file: Any = io.FileIO(0, closefd=False)
            else:
                if Path(name).is_dir():
                    raise InputError(f"{name}: is a folder: pass the files in it")
                self._file = Path(name).open("rb", buffering=0)  # noqa: SIM115
                self._size = os.fstat(self._file.fileno()).st_size
        except OSError as error:
            raise InputError(f"{name}: cannot be read: {error.strerror or error}") from None
        self._read = 0
        self._stream: Any = io.BufferedReader(_Counted(self), BLOCK)
        with self._said():
            start = self._stream.peek(4)[:4]
        self.compressed = start[:2] == _GZIP or start == _ZSTD
        if start[:2] == _GZIP:
            self._stream = gzip.GzipFile(fileobj=self._stream)
        elif start == _ZSTD:
            self._stream = _zstd(self._stream, self.name)

    @property
    def done(self) -> float:
        """How much of the file was read; 0 where that is not known."""
        return min(self._read / self._size, 1.0) if self._size else 0.0

    def readable(self) -> bool:
        """Yes."""
        return True

    def readinto(self, room: Any) -> int:
        """Fill memory with the next bytes; 0 at the end."""
        with self._said():
            if hasattr(self._stream, "readinto"):
                return int(self._stream.readinto(room))
            data = self._stream.read(len(room))
            room[: len(data)] = data
            return len(data)

    def close(self) -> None:
        """Close the input."""
        if not self.closed and self.name != "standard input":
            self._file.close()
        super().close()

    @contextlib.contextmanager
    def _said(self) -> Iterator[None]:
        try:
            yield
        except EOFError:
            raise InputError(f"{self.name}: the compressed data end early: the file was cut off") from None
        except (gzip.BadGzipFile, zlib.error) as error:
            raise InputError(f"{self.name}: is no whole file of gzip: {error}") from None
        except OSError as error:
            if error.errno is None:  # of pyarrow
                text = str(error).rstrip(".")
                early = "Truncated" in text or "end" in text.lower()
                fault = "end early: the file was cut off" if early else f"are broken: {text}"
                raise InputError(f"{self.name}: the compressed data {fault}") from None
            raise InputError(f"{self.name}: cannot be read: {error.strerror or error}") from None


class _Counted(io.RawIOBase):
    """The bytes of the file itself, counted."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def readable(self) -> bool:
        return True

    def readinto(self, room: Any) -> int | None:
        n: int | None = self._source._file.readinto(room)
        self._source._read += n or 0
        return n


def _zstd(stream: IO[bytes], name: str) -> Any:
    for module in ("compression.zstd", "pyarrow"):
        with contextlib.suppress(ImportError):
            found: Any = importlib.import_module(module)
            return found.ZstdFile(stream) if module != "pyarrow" else found.CompressedInputStream(stream, "zstd")
    raise InputError(f"{name}: is compressed by zstd: pip install 'gpuhash[files]', or pipe it through zstd -dc")


@contextlib.contextmanager
def named(file: str) -> Iterator[None]:
    """A context in which a refusal of a column names the file."""
    try:
        yield
    except TypeError as error:
        raise InputError(f"{file}: {error}") from None


def blocks(
    source: Any, split: Split, what: str, longest: int, at: int = 0, step: int | None = None
) -> Iterator[tuple[Bytes, Any]]:
    """(a block, what `split` found in it), one after the other. What `split` leaves begins the next block.

    what : "line", "word" or "row". longest : raises InputError, with its place, for one of more bytes than this and a
        block. at : the bytes before. step : bytes that are read at a time.
    """
    step = step or BLOCK
    block, size = np.empty(step, np.uint8), 0
    number = 1  # of the line or the word that the block begins, whose first byte is number `at`
    while True:
        ended = False
        while size < block.size and not ended:
            got = source.readinto(block.data[size:])
            size, ended = size + got, not got
        found, used = split(block, size, ended)
        rest = size - used
        if not ended and rest > longest:
            quote = " or a quote without its end," if what == "row" else ""
            raise InputError(
                f"{source.name}: {what} {number + len(found):,}, which begins at byte {at + used:,}, has more than "
                f"{longest:,} bytes,{quote} an eighth of --memory, but 2 GiB at most: pass a larger --memory, or cut it"
            )
        yield block, found
        if ended:
            return
        at, number = at + used, number + len(found)
        # Half as much again for what is long, so that it is read anew few times.
        room = rest + max(step, min(rest // 2, longest + step - rest))
        if used == 0:
            block.resize(room, refcheck=False)  # nothing was found in it, so that nothing refers to it
        else:
            before, block = block, np.empty(room, np.uint8)
            block[:rest] = before[used:size]
            del before
        size = rest
