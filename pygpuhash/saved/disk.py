"""A file that takes the place of another as a whole: written beside it, synced, renamed.

D1  A name leads to the old file until the new one is complete and on the disk (fsync before rename or link).
D2  When `replaced` has left its block without an exception, the name leads to the new file, also after a crash of the
    system (fsync of the folder).
D3  Whatever ends the block otherwise, the new file is gone, and what was there before is there still. Only a process
    that is killed leaves a file beside, .gpuhash-*.saving.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

__all__ = ["System", "existing", "path_of", "replaced"]


class System:
    """The calls of the system that saving makes. Tests put an object in its place that records and fails them."""

    def create(self, path: str, mode: int) -> int:
        """A new file, open for writing."""
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)

    def write(self, file: int, data: Any) -> int:
        """How many bytes were written."""
        return os.write(file, data)

    def begin_sync(self, file: int, offset: int, size: int) -> None:
        """The disk may begin with these bytes, so that fsync has less to wait for. Nothing depends on it."""
        with contextlib.suppress(OSError):
            os.posix_fadvise(file, offset, size, os.POSIX_FADV_DONTNEED)  # Linux writes the dirty pages, and keeps them

    def fsync(self, file: int) -> None:
        """A file's bytes are on the disk when this returns."""
        os.fsync(file)

    def close(self, file: int) -> None:
        """Close a file."""
        os.close(file)

    def rename(self, old: str, new: str) -> None:
        """A name takes the place of another."""
        Path(old).rename(new)

    def link(self, old: str, new: str) -> None:
        """A second name, which must not exist."""
        os.link(old, new)

    def unlink(self, path: str) -> None:
        """Remove a name."""
        Path(path).unlink()

    def sync_folder(self, path: str) -> None:
        """The names in a folder are on the disk when this returns."""
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # of file systems that have nothing to sync
                raise
        finally:
            os.close(folder)


system = System()


def path_of(given: Any) -> Path:
    """The path of a file, "~" being the home of the user; a symbolic link stands for what it leads to."""
    if not isinstance(given, (str, bytes, os.PathLike)):
        raise TypeError(f"path={given!r} is a {type(given).__name__}: pass a text or a path")
    text = os.fsdecode(given)
    if "\0" in text or not text:
        raise ValueError(f"path={text!r} is no name of a file")
    return Path(os.path.realpath(Path(text).expanduser()))


def existing(path: Path, overwrite: bool) -> os.stat_result | None:
    """The file that a new one would replace, or None. Refuses what must not be replaced."""
    try:
        there = path.stat()
    except FileNotFoundError:
        if not path.parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, "there is no such folder: make it first", str(path.parent)) from None
        return None
    if stat.S_ISDIR(there.st_mode):
        raise IsADirectoryError(errno.EISDIR, "the path is a folder: pass the name of a file in it", str(path))
    if not stat.S_ISREG(there.st_mode):
        raise OSError(errno.EINVAL, "the path is no file but a device, a pipe or a socket", str(path))
    if not overwrite:
        raise _exists(path)
    return there


def _exists(path: Path) -> FileExistsError:
    return FileExistsError(errno.EEXIST, "the file exists: pass overwrite=True, or another name", str(path))


@contextlib.contextmanager
def replaced(path: Path, overwrite: bool) -> Iterator[Callable[[Any], None]]:
    """Gives write(bytes). When the block ends, what it wrote is the file."""
    there = existing(path, overwrite)
    temporary = str(path.parent / f".gpuhash-{secrets.token_hex(8)}.saving")
    with _said(path):
        try:
            mode = 0o666 if there is None else stat.S_IMODE(there.st_mode)
            file = system.create(temporary, mode)
            try:
                yield _Writer(file)
                system.fsync(file)
            finally:
                system.close(file)
            if overwrite:
                system.rename(temporary, str(path))
            else:
                _link(temporary, path)
        finally:
            with contextlib.suppress(FileNotFoundError):
                system.unlink(temporary)
    try:
        system.sync_folder(str(path.parent))
    except OSError as error:
        words = f"the file was saved, and a crash may lose it, since the folder was not synced: {error.strerror}"
        raise OSError(error.errno, words, str(path)) from error


class _Writer:
    """Writes bytes at the end of a file; the disk begins with them while further ones are made."""

    AT_ONCE = 1 << 24

    def __init__(self, file: int) -> None:
        self._file = file
        self._size = self._begun = 0

    def __call__(self, data: Any) -> None:
        rest = memoryview(data).cast("B") if len(data) else memoryview(b"")
        while rest:
            done = system.write(self._file, rest[: self.AT_ONCE])
            rest = rest[done:]
            self._size += done
            if self._size - self._begun >= self.AT_ONCE // 2:
                system.begin_sync(self._file, self._begun, self._size - self._begun)
                self._begun = self._size


def _link(temporary: str, path: Path) -> None:
    """Give the new file its name, unless another process was faster."""
    try:
        system.link(temporary, str(path))
    except FileExistsError:
        raise _exists(path) from None
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS):
            raise
        existing(path, False)  # of a file system without links
        system.rename(temporary, str(path))


@contextlib.contextmanager
def _said(path: Path) -> Iterator[None]:
    """A context in which errors of the system name the file that was to be saved, and say that nothing was lost."""
    try:
        yield
    except FileExistsError:
        raise
    except OSError as error:
        if error.errno is None:
            raise
        what = {
            errno.ENOSPC: "the disk is full",
            errno.EDQUOT: "the quota of the user is full",
            errno.EACCES: "the folder does not permit new files",
            errno.EPERM: "the folder does not permit new files",
            errno.EROFS: "the file system is read-only",
        }.get(error.errno, os.strerror(error.errno))
        words = f"{what}: nothing was saved, and what was there before is there still"
        raise OSError(error.errno, words, str(path)) from error
