"""Concurrent hash tables on GPUs and CPUs, chosen by name.

    import numpy as np, pygpuhash as gh

    table = gh.Table("linear_probe", key_dtype="uint32", value_dtype="float32")
    table.insert(np.array([1, 2, 3], "uint32"), np.array([0.1, 0.2, 0.3], "float32"))
    values, found = table.find(np.array([2, 7], "uint32"))

`backends()` lists the structures, `devices()` the devices, `show_config()` how this installation was built.
"""

import importlib as _importlib
import inspect as _inspect  # noqa: F401  what Cython made asks it first, and crashes where a file shadows what it imports
from typing import TYPE_CHECKING as _TYPE_CHECKING

try:
    from pygpuhash._core import version as _library_version
except ModuleNotFoundError as _error:
    if _error.name != "pygpuhash._core":
        raise
    raise ImportError(
        f"{__file__} is source code that was not built. Start Python in another directory to use an installed "
        "gpuhash, or build this one in place with `pip install -e .`"
    ) from None
from pygpuhash._arrow_devices import DeviceColumn
from pygpuhash._cuda import DeviceArray
from pygpuhash._devices import Device, devices, measure_ceiling, set_threads
from pygpuhash._progress import progress
from pygpuhash.backend import Backend
from pygpuhash.config import (
    get_cmake_dir,
    get_include,
    get_libraries,
    get_library_dirs,
    get_pkgconfig_dir,
    show_config,
)
from pygpuhash.counter import Counter
from pygpuhash.errors import (
    BackendNotFound,
    ClosedTable,
    Corrupt,
    DeviceError,
    Forked,
    GpuHashError,
    HeapFull,
    InvalidArgument,
    NoMemory,
    NotFound,
    OptionNotFound,
    PluginError,
    Poisoned,
    ShardLost,
    TableFull,
    Unsupported,
)
from pygpuhash.group_by import GroupBy
from pygpuhash.hashing import HASH_VERSION, hash_array
from pygpuhash.index import Index, IndexKeys
from pygpuhash.registry import BackendInfo, backends, open_backend
from pygpuhash.saved import load
from pygpuhash.shards import Partition, partition, shard_of
from pygpuhash.slab import SlabAllocator
from pygpuhash.table import Op, Table
from pygpuhash.text_table import TextTable
from pygpuhash.verbs import factorize, group_reduce, isin, join_indexer, unique, value_counts

__version__: str = _library_version()


if _TYPE_CHECKING:
    from pygpuhash import partial, sharded


def __getattr__(name: str) -> object:  # imported on first use: most programs have one table
    if name in ("partial", "sharded"):
        return _importlib.import_module(f"pygpuhash.{name}")
    raise AttributeError(f"module 'pygpuhash' has no attribute {name!r}")


__all__ = [
    "HASH_VERSION",
    "Backend",
    "BackendInfo",
    "BackendNotFound",
    "ClosedTable",
    "Corrupt",
    "Counter",
    "Device",
    "DeviceArray",
    "DeviceColumn",
    "DeviceError",
    "Forked",
    "GpuHashError",
    "GroupBy",
    "HeapFull",
    "Index",
    "IndexKeys",
    "InvalidArgument",
    "NoMemory",
    "NotFound",
    "Op",
    "OptionNotFound",
    "Partition",
    "PluginError",
    "Poisoned",
    "ShardLost",
    "SlabAllocator",
    "Table",
    "TableFull",
    "TextTable",
    "Unsupported",
    "backends",
    "devices",
    "factorize",
    "get_cmake_dir",
    "get_include",
    "get_libraries",
    "get_library_dirs",
    "get_pkgconfig_dir",
    "group_reduce",
    "hash_array",
    "isin",
    "join_indexer",
    "load",
    "measure_ceiling",
    "open_backend",
    "partial",
    "partition",
    "progress",
    "set_threads",
    "shard_of",
    "sharded",
    "show_config",
    "unique",
    "value_counts",
]
