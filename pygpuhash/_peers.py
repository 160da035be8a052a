"""Memory of GPUs that other GPUs of the host read and write, and copies from one to another.

Each device has one pool for this, which is of this package alone: the pool that other libraries allocate from keeps its
settings. What was given back stays in the pool for the next batch, until `trim`.

Where two devices reach each other, copies run between them alone, over NVLink or PCI Express. Where they do not, the
driver takes the same copies over memory of the host, which is slower; `reaches` says which it is.
"""

from __future__ import annotations

import functools
import threading

from pygpuhash import _core, _cuda

__all__ = ["Memory", "copy", "memory", "reaches", "rooms", "trim"]

_ALIGNMENT = 256
_pools: dict[int, _Pool] = {}
_one_at_a_time = threading.Lock()


@functools.cache
def reaches(device: int, other: int) -> bool:
    """Do copies between these devices run without the host?"""
    if device == other:
        return True
    here, there = _cuda.call("cuDeviceGet", device), _cuda.call("cuDeviceGet", other)
    return bool(int(_cuda.call("cuDeviceCanAccessPeer", here, there)))


class _Pool:
    """Memory of one device, that all devices which reach it may use; the device's context is current."""

    def __init__(self, device: int) -> None:
        library = _cuda.driver()
        self.device, self.forks = device, _core.forks()
        place = library.CUmemLocation()
        place.type, place.id = library.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE, device
        kind = library.CUmemPoolProps()
        kind.allocType = library.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        kind.handleTypes = library.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_NONE
        kind.location = place
        self.handle = _cuda.call("cuMemPoolCreate", kind)
        keep = library.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
        _cuda.call("cuMemPoolSetAttribute", self.handle, keep, library.cuuint64_t(2**64 - 1))
        self.open_to: set[int] = {device}

    def let(self, other: int) -> None:
        """Let another device read and write memory of this pool."""
        if other in self.open_to:
            return
        if reaches(other, self.device):
            library = _cuda.driver()
            place = library.CUmemLocation()
            place.type, place.id = library.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE, other
            access = library.CUmemAccessDesc()
            access.location = place
            access.flags = library.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
            _cuda.call("cuMemPoolSetAccess", self.handle, [access], 1)
        self.open_to.add(other)


def _pool(device: int, others: tuple[int, ...]) -> _Pool:
    with _one_at_a_time:
        found = _pools.get(device)
        if found is None or found.forks != _core.forks():
            found = _pools[device] = _Pool(device)
        for other in others:
            found.let(other)
        return found


class Memory:
    """Bytes of a device, there in the order of the stream that they were asked for on."""

    def __init__(self, device: int, nbytes: int, address: int) -> None:
        self.device, self.nbytes, self.ptr = device, nbytes, address

    def free(self, stream: int) -> None:
        """Give the bytes back when the stream has come to this call."""
        address, self.ptr = self.ptr, 0
        if address:
            _cuda.call("cuMemFreeAsync", address, stream)


def memory(device: int, nbytes: int, stream: int, others: tuple[int, ...] = ()) -> Memory:
    """Memory that other devices may use as well; the context of the device is current."""
    if not nbytes:
        return Memory(device, 0, 0)
    pool = _pool(device, others)
    return Memory(device, nbytes, int(_cuda.call("cuMemAllocFromPoolAsync", nbytes, pool.handle, stream)))


def rooms(*nbytes: int) -> tuple[list[int], int]:
    """(where each of several arrays begins in one piece of memory, the bytes of all)."""
    begins, end = [], 0
    for size in nbytes:
        begins.append(end)
        end += -(-size // _ALIGNMENT) * _ALIGNMENT
    return begins, end


def copy(to: tuple[int, int], source: tuple[int, int], nbytes: int, stream: int) -> None:
    """Queue a copy from one (device, address) to another one; the stream is of the current device."""
    if not nbytes:
        return
    if to[0] == source[0]:
        _cuda.copy(to[1], source[1], nbytes, stream)
        return
    contexts = _cuda._primary_context(to[0]), _cuda._primary_context(source[0])
    _cuda.call("cuMemcpyPeerAsync", to[1], contexts[0], source[1], contexts[1], nbytes, stream)


def trim(device: int) -> None:
    """Give memory that no array uses back to the device."""
    with _one_at_a_time:
        pool = _pools.get(device)
        if pool is not None and pool.forks == _core.forks():
            with _cuda.current(device):
                _cuda.call("cuCtxSynchronize")
                _cuda.call("cuMemPoolTrimTo", pool.handle, 0)
