"""Builds of the library by their folders, any number of them in one process, through the C ABI.

A build is a folder with libgpuhash.so.0 and its modules: an install prefix, a folder that meson builds in, or the
package. The linker takes libraries with different paths for different ones, and neither they nor their modules show a
symbol to each other, so that two builds run side by side. Nothing here needs the package.
"""

from __future__ import annotations

import ctypes
import shutil
from ctypes import c_char, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any

import numpy as np

LIBRARY = "libgpuhash.so.0"
LIBRARY_FOLDERS = (".", "lib*", "lib*/*", "pygpuhash")
MODULE_FOLDERS = ("gpuhash/plugins-v1", "../plugins")  # from the library: installed, and where meson builds
OK, YES, ADD, UINT = 0, 1, 0, 0
CPU, CUDA = 1, 2  # as in gpuhash.h


class BadBuild(RuntimeError):
    """This folder has no build, or one that cannot be measured; the message says why."""


class Error(ctypes.Structure):
    _fields_ = (("struct_size", c_size_t), ("code", c_int32), ("message", c_char * 512))


class Config(ctypes.Structure):
    _fields_ = (
        ("struct_size", c_size_t),
        ("backend", c_char_p),
        ("device_kind", c_int32),
        ("device_ordinal", c_int32),
        ("key_bytes", c_uint32),
        ("value_bytes", c_uint32),
        ("capacity", c_uint64),
        ("max_load_factor", c_double),
        ("seed", c_uint64),
        ("grow", c_uint32),
        ("threads", c_uint32),
        ("memory", c_void_p),
        ("options", c_void_p),
        ("n_options", c_size_t),
        ("stream", c_void_p),
    )


class IndexConfig(ctypes.Structure):
    _fields_ = (
        ("struct_size", c_size_t),
        ("nulls", c_uint32),
        ("floats", c_uint32),
        ("threads", c_uint32),
        ("counts", c_uint32),
        ("expected", c_uint64),
        ("seed", c_uint64),
    )


class ArrowSchema(ctypes.Structure):
    _fields_ = (
        ("format", c_char_p),
        ("name", c_char_p),
        ("metadata", c_char_p),
        ("flags", c_int64),
        ("n_children", c_int64),
        ("children", c_void_p),
        ("dictionary", c_void_p),
        ("release", c_void_p),
        ("private_data", c_void_p),
    )


class ArrowArray(ctypes.Structure):
    _fields_ = (
        ("length", c_int64),
        ("null_count", c_int64),
        ("offset", c_int64),
        ("n_buffers", c_int64),
        ("n_children", c_int64),
        ("buffers", ctypes.POINTER(c_void_p)),
        ("children", c_void_p),
        ("dictionary", c_void_p),
        ("release", c_void_p),
        ("private_data", c_void_p),
    )


NO_RELEASE = ctypes.CFUNCTYPE(None, c_void_p)(lambda of: None)  # the arrays belong to numpy


def address(array: Any) -> int:
    """Where the first element of an array of numpy or CuPy is; 0, which is NULL, for none."""
    if array is None:
        return 0
    return int(array.ctypes.data if isinstance(array, np.ndarray) else array.data.ptr)


class Column:
    """Rows for gpuhash_index_add: integers of four bytes, or text."""

    def __init__(self, rows: np.ndarray[Any, Any] | list[str]) -> None:
        if isinstance(rows, list):
            cells = [row.encode() for row in rows]
            ends = np.cumsum([0, *map(len, cells)], dtype=np.int32)
            self.buffers: list[Any] = [None, ends, np.frombuffer(b"".join(cells), np.uint8)]
        else:
            self.buffers = [None, np.ascontiguousarray(rows, np.uint32)]
        addresses = [0 if of is None else of.ctypes.data for of in self.buffers]
        self.addresses = (c_void_p * len(addresses))(*addresses)
        self.n = len(rows)
        release = ctypes.cast(NO_RELEASE, c_void_p)
        self.schema = ArrowSchema(format=b"u" if isinstance(rows, list) else b"I", name=b"", release=release)
        self.array = ArrowArray(length=self.n, n_buffers=len(addresses), buffers=self.addresses, release=release)
        self.ids = np.zeros(self.n, np.int64)


def _one(paths: set[Path], folder: Path) -> Path:
    """The only library below a folder."""
    if not paths:
        raise BadBuild(
            f"{folder} has no {LIBRARY}: name an install prefix, a folder that meson has built in, or a built package"
        )
    if len(paths) > 1:
        raise BadBuild(f"{folder} has several libraries ({', '.join(map(str, sorted(paths)))}): name the folder of one")
    return next(iter(paths))


class Build:
    """The library of one folder, with the modules beside it by their names."""

    def __init__(self, folder: str | Path, name: str = "") -> None:
        self.folder, self.name = Path(folder).absolute(), name or str(folder)
        found = (path.resolve() for where in LIBRARY_FOLDERS for path in self.folder.glob(f"{where}/{LIBRARY}"))
        self.path = _one(set(found), self.folder)
        modules = [p for where in MODULE_FOLDERS for p in (self.path.parent / where).glob("gpuhash_*.so")]
        self.modules = {p.stem.removeprefix("gpuhash_"): p.resolve() for p in sorted(modules)}
        if not self.modules:
            raise BadBuild(f"{self.path} has no modules beside it: build or install all of them")
        self.error = Error(struct_size=ctypes.sizeof(Error))
        try:
            self.library = ctypes.CDLL(str(self.path))
            self.library["gpuhash_table_create"]
        except (OSError, AttributeError) as error:
            raise BadBuild(f"{self.path} is no library of gpuhash: {error}") from error

    def copy(self, folder: Path) -> Build:
        """The same library and modules in files of their own, and so in other pages of memory."""
        modules = folder / MODULE_FOLDERS[0]
        modules.mkdir(parents=True)
        shutil.copyfile(self.path, folder / LIBRARY)
        for module in self.modules.values():
            shutil.copyfile(module, modules / module.name)
        return Build(folder, self.name)

    def has(self, name: str) -> bool:
        """Is there such a function? An older build may lack it."""
        return hasattr(self.library, f"gpuhash_{name}")

    def call(self, name: str, *given: int, keeps: object = None) -> Call:
        """A call of the C ABI with its arguments; the last one, the error, is added here."""
        return Call(self, f"gpuhash_{name}", (*given, ctypes.addressof(self.error)), keeps)

    def done(self, status: int) -> None:
        """Raise what the library says unless it says OK."""
        if status != OK:
            raise BadBuild(f"{self.name}: {self.error.message.decode(errors='replace')} (status {status})")

    def destroy(self, what: str, handle: int) -> None:
        """Free a table or an index."""
        function = self.library[f"gpuhash_{what}_destroy"]
        function.argtypes, function.restype = [c_void_p], None
        function(handle)

    def table(
        self, backend: str, widths: tuple[int, int], capacity: int, load: float = 0, device: int = CPU
    ) -> BuildTable:
        """A table of this build for one thread, that so many keys fill to this load (0: the structure's own)."""
        return BuildTable(self, backend, widths, capacity, load, device)

    def index(self, column: Column) -> BuildIndex:
        """An index of this build for one thread, of the type of a column."""
        return BuildIndex(self, column)


class Call:
    """A call that is ready to be timed, and returns the library's status. It keeps what the arguments are addresses of.

    All arguments are integers and addresses, which are passed alike.
    """

    def __init__(self, build: Build, name: str, given: tuple[int, ...], keeps: object) -> None:
        self.function, self.given, self.keeps = build.library[name], given, keeps
        self.function.argtypes, self.function.restype = [c_void_p] * len(given), c_int32

    def __call__(self) -> int:
        return int(self.function(*self.given))


class BuildTable:
    """A table of a build. Its batches are arrays of numpy, on CUDA of CuPy, and CUDA's default stream has them."""

    def __init__(
        self, build: Build, backend: str, widths: tuple[int, int], capacity: int, load: float, device: int
    ) -> None:
        self.build, handle = build, c_void_p()
        config = Config(
            struct_size=ctypes.sizeof(Config),
            backend=str(build.modules[backend]).encode(),
            device_kind=device,
            key_bytes=widths[0],
            value_bytes=widths[1],
            capacity=capacity,
            max_load_factor=load,
            seed=1,
            threads=1,
        )
        build.done(build.call("table_create", ctypes.addressof(config), ctypes.addressof(handle))())
        self.handle = handle.value or 0

    def close(self) -> None:
        """Free the table."""
        self.build.destroy("table", self.handle)
        self.handle = 0

    def work(self, name: str, keys: Any, values: Any, status: Any) -> Call:
        """A batch: insert, find, accumulate, erase."""
        given = [self.handle, len(keys), address(keys)]
        if name != "erase":
            given.append(address(values))
        if name == "accumulate":
            given += [ADD, UINT]
        return self.build.call(name, *given, address(status), 0, keeps=(keys, values, status))

    def clear(self) -> None:
        """Empty the table."""
        self.build.done(self.build.call("clear", self.handle, 0)())

    def export(self, keys: Any, values: Any) -> Call:
        """All pairs into these arrays."""
        room = c_size_t(len(keys))
        given = (self.handle, ctypes.addressof(room), address(keys), address(values), 0)
        return self.build.call("export", *given, keeps=(room, keys, values))


class BuildIndex:
    """An index of a build."""

    def __init__(self, build: Build, column: Column) -> None:
        self.build, handle = build, c_void_p()
        config = IndexConfig(struct_size=ctypes.sizeof(IndexConfig), threads=1, seed=1)
        given = (ctypes.addressof(column.schema), ctypes.addressof(config), ctypes.addressof(handle))
        build.done(build.call("index_create", *given)())
        self.handle = handle.value or 0

    def close(self) -> None:
        """Free the index."""
        self.build.destroy("index", self.handle)
        self.handle = 0

    def add(self, column: Column) -> Call:
        """Add the rows and write their ids."""
        given = (self.handle, ctypes.addressof(column.schema), ctypes.addressof(column.array), address(column.ids))
        return self.build.call("index_add", *given, keeps=column)


def common_backends(a: Build, b: Build) -> list[str]:
    """The structures that both builds have."""
    names = sorted(set(a.modules) & set(b.modules))
    if not names:
        raise BadBuild(f"no structure is in both builds: {', '.join(a.modules)}; {', '.join(b.modules)}")
    return names
