"""`table.save(path)` and `gh.load(path)`: saved tables in files."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from pygpuhash import _arguments
from pygpuhash.errors import Corrupt
from pygpuhash.saved import codecs, disk
from pygpuhash.saved.behind import Behind, behind
from pygpuhash.saved.chunk import Array
from pygpuhash.saved.container import Reader, Writer
from pygpuhash.saved.contents import Contents, written
from pygpuhash.saved.flatbuffers import Malformed
from pygpuhash.saved.made import made_of

__all__ = ["load", "save"]

MANY = 1 << 18  # rows that are worth a thread
Write = Callable[[Any], object]


def save(given: Any, path: Any, overwrite: bool = False, compression: str | None = None) -> None:
    """See `Table.save`."""
    target = disk.path_of(path)
    replaces = _arguments.flag("overwrite", overwrite)
    codec = codecs.codec_of(compression)
    disk.existing(target, replaces)  # before the work

    def to_disk(contents: Contents) -> None:
        with disk.replaced(target, replaces) as write, _writing(write, contents.record.rows) as put:
            writer = Writer(put, contents.types, contents.record.given(), codec)
            try:
                for chunk in contents.chunks():
                    writer.block(chunk)
                    if isinstance(put, Behind):
                        put.end_block()
            except Malformed as error:  # text that came as Arrow's, and is none
                raise ValueError(f"{error}: nothing was saved") from None
            writer.finish()

    written(given, to_disk)


@contextmanager
def _writing(write: Write, rows: int) -> Iterator[Behind | Write]:
    """A function that takes the bytes of a file; where there are many rows a thread writes them."""
    if rows <= MANY or not threading.main_thread().is_alive():  # a process that ends starts no threads
        yield write
        return
    with behind(write) as put:
        yield put


def load(path: Any, /, backend: str | None = None, device: Any = None, **arguments: Any) -> Any:
    """See `pygpuhash.load`."""
    target = disk.path_of(path)
    with _opened(target) as reader:
        return made_of(reader, backend, device, arguments)


@contextmanager
def _opened(path: Path) -> Iterator[Reader]:
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        raise FileNotFoundError(errno.ENOENT, "there is no such file", str(path)) from None
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, "the path is a folder: pass the name of a file in it", str(path))
        if not path.is_file():
            raise OSError(errno.EINVAL, "the path is no file but a device, a pipe or a socket", str(path))

        def read(offset: int, size: int) -> Array:
            data, done = np.empty(size, np.uint8), 0
            while done < size:
                got = os.preadv(file, [data.data[done : done + (1 << 28)]], offset + done)
                if not got:
                    raise Corrupt(f"{path} has become shorter while it was read")
                done += got
            return data

        yield Reader(read, os.fstat(file).st_size, str(path))
    finally:
        os.close(file)
