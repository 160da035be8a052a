"""The exceptions of pygpuhash: one class per status of the C library, each also a built-in exception where one fits.

The message is the library's own sentence: what was wrong, with which value, and what to do.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "BackendNotFound",
    "ClosedTable",
    "Corrupt",
    "DeviceError",
    "Forked",
    "GpuHashError",
    "HeapFull",
    "InvalidArgument",
    "NoMemory",
    "NotFound",
    "OptionNotFound",
    "PluginError",
    "Poisoned",
    "ShardLost",
    "TableFull",
    "Unsupported",
]


class GpuHashError(Exception):
    """Base of all errors of this package.

    Attributes
    ----------
    status : array of uint8, or None
        For `TableFull`: one byte per element, 0 and 1 as in the mask that the call would have returned, 2 (no room) and
        3 (no memory) for the elements that were not carried out.
    """

    status: Any = None

    @property
    def failed(self) -> Any:
        """Mask of the elements that were not carried out, or None when the error is not about elements."""
        return None if self.status is None else self.status >= 2


class InvalidArgument(GpuHashError, ValueError):
    """An argument was refused before anything was touched."""


class ClosedTable(InvalidArgument):
    """The table was closed."""


class Unsupported(GpuHashError, NotImplementedError):
    """The backend does not have this operation, width or device."""


class NoMemory(GpuHashError, MemoryError):
    """An allocation failed."""


class TableFull(GpuHashError, RuntimeError):
    """Some elements of a batch found no room, whatever the backend; finished elements stay, `failed` is the others."""


class HeapFull(TableFull, NoMemory):
    """`TableFull` because memory ran out: the fixed heap of a chaining backend is full, or the table could not grow."""


class NotFound(GpuHashError, LookupError):
    """No such thing by this name."""


class BackendNotFound(NotFound):
    """No backend has this name, or more than one distribution provides it."""


class OptionNotFound(NotFound, TypeError):
    """The backend has no option of this name."""


class DeviceError(GpuHashError, RuntimeError):
    """The device or its driver reported an error, or is absent."""


class Poisoned(DeviceError):
    """An earlier device fault left the table unusable; only close works."""


class ShardLost(GpuHashError, RuntimeError):
    """A shard of a sharded table is gone with its keys; the message names it and the last snapshot."""


class Forked(GpuHashError, RuntimeError):
    """The table was created before a fork, in the parent process."""


class PluginError(GpuHashError, ImportError):
    """A plugin could not be loaded or answered wrongly."""


class Corrupt(GpuHashError, RuntimeError):
    """`check` found a broken invariant."""
