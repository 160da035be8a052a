"""Memory for one call on either device: numpy arrays for the CPU, copies and scratch arrays for CUDA."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np

from pygpuhash import _core, _cuda
from pygpuhash.errors import NoMemory

__all__ = ["Stage"]


class _HostRoom:
    """A numpy array with the two things that a `DeviceArray` has, too."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array
        self.ptr = int(array.ctypes.data)

    def get(self) -> np.ndarray[Any, Any]:
        return self.array


def _memory_of_the_machine() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


class Stage:
    """Where the arrays of a call go. Everything it hands out lives until the stage does."""

    def __init__(self, kind: int, ordinal: int, stream: int) -> None:
        self.kind, self.ordinal, self.stream = kind, ordinal, stream
        self._kept: list[Any] = []

    def upload(self, array: np.ndarray[Any, Any]) -> int:
        """Address of a host array's elements on the device."""
        if self.kind == _core.CPU:
            return int(self._keep(_HostRoom(array)).ptr)
        return int(self._keep(_cuda.from_host(array, self.ordinal, _cuda.Address(self.stream))).ptr)

    def room(self, shape: int | tuple[int, ...], dtype: Any) -> Any:
        """An uninitialised array with `.ptr` on the device, and `.get()`, which returns it on the host."""
        shape = (shape,) if isinstance(shape, int) else shape
        if self.kind == _core.CPU:
            nbytes = math.prod(shape) * np.dtype(dtype).itemsize
            if nbytes > _memory_of_the_machine():  # where the system promises any memory, and kills who uses it
                raise NoMemory(f"no memory for results of shape {shape}, {nbytes:,} bytes: ask for fewer at a time")
            try:
                return self._keep(_HostRoom(np.empty(shape, dtype)))
            except (MemoryError, ValueError) as error:  # ValueError: more than addresses tell apart
                raise NoMemory(f"no memory for results of shape {shape}: ask for fewer at a time") from error
        return self._keep(_cuda.DeviceArray(shape, dtype, self.ordinal, _cuda.Address(self.stream)))

    def of(self, array: np.ndarray[Any, Any]) -> Any:
        """A C-contiguous array of the caller's with `.ptr` and `.get()`, as `room` has them; for the CPU."""
        return self._keep(_HostRoom(array))

    def _keep(self, array: Any) -> Any:
        self._kept.append(array)
        return array
