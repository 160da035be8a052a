"""How a table answers when memory is refused: tables.py BACKEND; GPUHASH_TEST_MEMORY names an empty folder."""

from __future__ import annotations

import ctypes
import functools
import os
import resource
import sys
import time
from pathlib import Path

import numpy as np

import pygpuhash as gh

MiB = 1 << 20
FOLDER = Path(os.environ["GPUHASH_TEST_MEMORY"])
WIDTHS = [("uint32", None), ("uint32", "uint32"), ("uint64", None), ("uint64", "uint64"), ("uint32", "uint64")]
TOO_MANY = [2**28, 2**30, 2**33, 2**40, 2**56, 2**60, 2**62, 2**63, 2**64 - 1]


def system_has(nbytes: int) -> None:
    (FOLDER / "proc").mkdir(exist_ok=True)
    (FOLDER / "proc" / "meminfo").write_text(f"MemAvailable: {nbytes >> 10} kB\n")


def resident() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def refused(call, keys: int) -> str:
    """What is said to so many keys, at once and without taking memory."""
    before, since = resident(), time.monotonic()
    said = ""
    try:
        call(keys)
    except (gh.NoMemory, gh.InvalidArgument) as error:
        said = f"{type(error).__name__}: {error}"
    assert said, f"{keys} keys were taken"
    assert time.monotonic() - since < 5, (keys, time.monotonic() - since)
    assert resident() - before < 32 * MiB, (keys, resident() - before)
    return said


def check_capacities(backend: str) -> None:
    for key, value in WIDTHS:
        system_has(300 * MiB)
        make = functools.partial(_make, backend, key, value)
        for keys in TOO_MANY:
            said = refused(make, keys)
            if keys <= 2**30:
                assert said.startswith("NoMemory: "), said
                assert "the system has 314572800 available" in said
            elif keys >= 2**62:
                assert said.startswith("InvalidArgument: "), said
                assert str(keys) in said


def _make(backend: str, key: str, value: str | None, keys: int) -> None:
    gh.Table(backend, device="cpu", key_dtype=key, value_dtype=value, capacity=keys)


def check_reserve(backend: str) -> None:
    for key, value in WIDTHS:
        for grow in (True, False):
            system_has(300 * MiB)
            k = np.arange(1000, dtype=key)
            with gh.Table(backend, device="cpu", key_dtype=key, value_dtype=value, capacity=2000, grow=grow) as t:
                t.insert(k, None if value is None else k)
                before = (len(t), t.nbytes, t.capacity)
                for keys in TOO_MANY:
                    refused(t.reserve, keys)
                    assert (len(t), t.nbytes, t.capacity) == before, keys
                t.check()
                assert t.contains(k).all()
                more = np.arange(1000, 2000, dtype=key)
                assert t.insert(more, None if value is None else more).all()


def check_what_fits(backend: str) -> None:
    """A large block comes into being when it is had; what a table takes is little more than it says."""
    system_has(300 * MiB)
    with gh.Table(backend, device="cpu", capacity=4 << 20) as t:
        assert 64 * MiB < t.nbytes < 300 * MiB
        t.check()
        wanted = 2 * t.nbytes
        system_has(t.nbytes)  # reserve would have old and new, or more
        refused(t.reserve, 5 * t.capacity)
        system_has(16 * wanted)
        t.reserve(t.capacity + t.capacity // 8)


def check_resource(backend: str) -> None:
    """The caller's resource alone says what there is."""
    libc = ctypes.CDLL(None)
    libc.aligned_alloc.restype, libc.aligned_alloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t] * 2
    libc.free.argtypes = [ctypes.c_void_p]

    class Memory:
        taken = 0

        def allocate(self, nbytes, alignment, stream):
            self.taken += nbytes
            return libc.aligned_alloc(alignment, -(-nbytes // alignment) * alignment)

        def deallocate(self, address, nbytes, alignment, stream):
            libc.free(address)

    memory = Memory()
    system_has(0)
    with gh.Table(backend, device="cpu", capacity=5 << 20, memory=memory) as t:
        assert memory.taken >= t.nbytes - 4096 > 64 * MiB


def check_slabs() -> None:
    system_has(100 * MiB)
    make = functools.partial(gh.SlabAllocator, device="cpu", memory_blocks=256, unit_bytes=128)
    assert "the system has 104857600 available" in refused(lambda n: make(super_blocks=n), 100)
    with gh.SlabAllocator(device="cpu", super_blocks=1, memory_blocks=16, unit_bytes=128) as slabs:
        assert "the system has 104857600 available" in refused(slabs.allocate, 4 << 20)
        assert slabs.stats()["super_blocks"] == 1


if __name__ == "__main__":
    if sys.argv[1] == "slabs":
        check_slabs()
    else:
        for check in (check_capacities, check_reserve, check_what_fits, check_resource):
            check(sys.argv[1])
