"""Memory of other libraries, as what a table takes: `allocate` and `deallocate` on addresses, in the order of a stream.

Nothing is imported here: an object of a library, or its name, can only come from a program that has imported it.
"""

from __future__ import annotations

import sys
from typing import Any

from pygpuhash import _core, _cuda, _streams, _tensors
from pygpuhash.errors import InvalidArgument

__all__ = ["adapt"]


class _Held:
    """Memory that lives as long as an object of its library: that object is kept by its address."""

    def __init__(self, resource: Any, device: int) -> None:
        self.resource, self.device = resource, device
        self.held: dict[int, Any] = {}

    def _keep(self, address: int, owner: Any) -> int:
        self.held[address] = owner
        return address


class CoreMemory(_Held):
    """A `cuda.core.MemoryResource`."""

    def allocate(self, nbytes: int, alignment: int, stream: int) -> int | None:
        with _cuda.current(self.device), _cuda.translate_errors:
            buffer = self.resource.allocate(nbytes, stream=_cuda.stream_at(stream))
        return self._keep(int(buffer.handle), buffer)

    def deallocate(self, address: int, nbytes: int, alignment: int, stream: int) -> None:
        with _cuda.current(self.device):
            self.held.pop(address).close(_cuda.stream_at(stream))


class CupyMemory(_Held):
    """A memory pool of CuPy, or its current allocator."""

    def allocate(self, nbytes: int, alignment: int, stream: int) -> int | None:
        cupy = sys.modules["cupy"]
        malloc = cupy.cuda.alloc if self.resource is None else self.resource.malloc
        with _cuda.current(self.device), _streams.cupy_stream(cupy, stream, self.device):
            try:
                memory = malloc(nbytes)
            except cupy.cuda.memory.OutOfMemoryError:
                return None
        return self._keep(int(memory.ptr), memory)

    def deallocate(self, address: int, nbytes: int, alignment: int, stream: int) -> None:
        # A pool hands memory that was freed out again on the stream that it was allocated for; elsewhere, later.
        cupy = sys.modules["cupy"]
        with _cuda.current(self.device):
            _cuda.synchronize(self.device, stream)
            with _streams.cupy_stream(cupy, stream, self.device):
                del self.held[address]


class TorchMemory(_Held):
    """PyTorch's caching allocator."""

    def allocate(self, nbytes: int, alignment: int, stream: int) -> int | None:
        torch = sys.modules["torch"]
        try:
            return int(torch.cuda.caching_allocator_alloc(nbytes, self.device, stream))
        except torch.cuda.OutOfMemoryError:
            return None

    def deallocate(self, address: int, nbytes: int, alignment: int, stream: int) -> None:
        _cuda.synchronize(self.device, stream)  # the allocator reuses it on the stream that it was allocated for
        sys.modules["torch"].cuda.caching_allocator_delete(address)


class RmmMemory(_Held):
    """A memory resource of RMM, or the one that is current for the device."""

    def allocate(self, nbytes: int, alignment: int, stream: int) -> int | None:
        return int(self._resource().allocate(nbytes, self._stream(stream)))

    def deallocate(self, address: int, nbytes: int, alignment: int, stream: int) -> None:
        self._resource().deallocate(address, nbytes, self._stream(stream))

    def _resource(self) -> Any:
        if self.resource is None:  # and stays that, so that memory is given back to where it came from
            self.resource = sys.modules["rmm"].mr.get_per_device_resource(self.device)
        return self.resource

    @staticmethod
    def _stream(stream: int) -> Any:
        return sys.modules["rmm"].pylibrmm.stream.Stream(_cuda.Address(stream))


_BY_NAME = {"cupy": CupyMemory, "torch": TorchMemory, "rmm": RmmMemory}


def adapt(memory: Any, kind: int, ordinal: int) -> Any:
    """The object that the C library's callbacks call, for a `memory` of `Table`; None for the library's own memory."""
    if memory is None:
        return None
    found = _adapter(memory)
    if found is None:
        return memory
    if kind != _core.CUDA:
        raise InvalidArgument(f"memory={memory!r} is memory of a CUDA device, the table is on the CPU: leave it out")
    return found(None if isinstance(memory, str) else memory, ordinal)


def _adapter(memory: Any) -> Any:
    if isinstance(memory, str):
        if memory not in _BY_NAME:
            raise InvalidArgument(
                f"memory={memory!r} is none of {', '.join(map(repr, _BY_NAME))}: pass one, or an object"
            )
        if memory not in sys.modules:
            raise InvalidArgument(f"memory={memory!r}, but {memory} is not imported: import it first")
        return _BY_NAME[memory]
    core = sys.modules.get("cuda.core")
    if core is not None and isinstance(memory, core.MemoryResource):
        return CoreMemory
    library = _tensors.library_of(memory)
    if library == "rmm":
        return RmmMemory
    return CupyMemory if library == "cupy" and hasattr(memory, "malloc") else None
