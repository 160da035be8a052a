"""`SlabAllocator`: units of fixed size by 32-bit handle, allocated by many threads at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from pygpuhash import _arguments, _arrays, _core, _cuda, _devices, _memory, _streams
from pygpuhash._stage import Stage

__all__ = ["SlabAllocator"]

NO_UNIT = 0xFFFFFFFF
_HANDLE = np.dtype(np.uint32)
_MOST_SUPER_BLOCKS = 255
_MOST_MEMORY_BLOCKS = 16384  # of a super block


class SlabAllocator(_core.CoreSlabAllocator):
    """The slab hash's allocator, usable on its own.

    Parameters
    ----------
    kind : "slab_alloc" or "slab_alloc_light".
    unit_bytes : 64, 128 or 256.
    super_blocks : created at once; `max_super_blocks` is how many there may be (0: as many as the layout allows).
    memory_blocks : per super block, of 1024 units each (0: 256).
    device, seed, threads, memory, stream : as for `Table`.
    wipe : fill units with ones before they are handed out again.

    Handles, statuses and addresses are numpy arrays, also for an allocator on a device: they are for the host. All
    calls return when their work is done.
    """

    __slots__ = ("__weakref__", "_kind", "_ordinal", "_stream")

    def __init__(
        self,
        kind: str = "slab_alloc",
        *,
        device: str = "cpu",
        unit_bytes: int = 128,
        super_blocks: int = 0,
        max_super_blocks: int = 0,
        memory_blocks: int = 0,
        seed: int | None = None,
        threads: int | None = None,
        wipe: bool = False,
        memory: Any = None,
        stream: Any = None,
    ) -> None:
        if not isinstance(kind, str):
            raise TypeError(f"kind={kind!r} is a {type(kind).__name__}: pass 'slab_alloc' or 'slab_alloc_light'")
        self._kind, self._ordinal = _devices.parse_device(device)
        if self._kind == _core.CUDA:
            _cuda.require()
        self._stream, handle = (
            _streams.usable_stream(stream, self._ordinal) if self._kind == _core.CUDA else (stream, 0)
        )
        self._create(
            kind,
            self._kind,
            self._ordinal,
            _arguments.whole("unit_bytes", unit_bytes, 256, least=64),
            _arguments.whole("super_blocks", super_blocks, _MOST_SUPER_BLOCKS),
            _arguments.whole("max_super_blocks", max_super_blocks, _MOST_SUPER_BLOCKS),
            _arguments.whole("memory_blocks", memory_blocks, _MOST_MEMORY_BLOCKS),
            _arguments.seed(seed),
            0 if threads is None else _arguments.whole("threads", threads, 4096),
            _arguments.flag("wipe", wipe),
            _memory.adapt(memory, self._kind, self._ordinal),
            handle,
        )

    def allocate(self, n: int) -> np.ndarray[Any, Any]:
        """`n` units: uint32 handles. Raises `NoMemory`, and keeps nothing, when there are not so many."""
        n = _arguments.whole("n", n, 2**64 - 1)
        stage = self._stage()
        units = stage.room(n, _HANDLE)
        failure = self._call("allocate", n, units.ptr, 0, stage.stream)
        if failure is not None:
            handles = units.get()
            self.free(handles[handles != NO_UNIT])
            raise failure
        return np.asarray(units.get())

    def free(self, units: Any) -> None:
        """Give units back. A foreign or freed handle raises `InvalidArgument`, whose `status` is 0 for such handles."""
        stored = _arrays.to_store(units, _HANDLE, _HANDLE, "units").reshape(-1)
        stage = self._stage()
        status = stage.room(stored.size, np.uint8)
        failure = self._call("free", stored.size, stage.upload(stored), status.ptr, stage.stream)
        if failure is not None:
            failure.status = status.get()
            raise failure

    def translate(self, units: Any) -> np.ndarray[Any, Any]:
        """Where units lie on the device: uint64 addresses, 0 for a foreign handle."""
        stored = _arrays.to_store(units, _HANDLE, _HANDLE, "units").reshape(-1)
        stage = self._stage()
        addresses = stage.room(stored.size, np.uint64)
        failure = self._call("translate", stored.size, stage.upload(stored), addresses.ptr, stage.stream)
        if failure is not None:
            raise failure
        return np.asarray(addresses.get())

    def _stage(self) -> Stage:
        self._refuse_forked()
        stream = _streams.usable_stream(self._stream, self._ordinal)[1] if self._kind == _core.CUDA else 0
        return Stage(self._kind, self._ordinal, stream)

    def __enter__(self) -> SlabAllocator:
        return self

    def __reduce__(self) -> Any:
        raise TypeError("an allocator cannot be pickled or copied: make one in the process that uses it")

    def __exit__(self, *exception: object) -> None:
        self.close()
