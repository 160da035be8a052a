"""Devices by name: "cpu", "cuda", "cuda:1", "auto"."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from pygpuhash import _arguments, _core, _cuda
from pygpuhash.errors import DeviceError, GpuHashError, InvalidArgument

__all__ = ["Device", "best_device", "device_name", "devices", "measure_ceiling", "parse_device", "set_threads"]


@dataclass(frozen=True)
class Device:
    """One row of `devices()`. `units`: threads that a batch uses on the CPU, multiprocessors on CUDA."""

    name: str
    model: str
    memory_bytes: int
    units: int
    compute_capability: tuple[int, int] | None = None
    driver_version: int | None = None


def parse_device(given: str) -> tuple[int, int]:
    """(kind, ordinal) of a device's name."""
    match = re.fullmatch(r"(cpu|cuda)(?::(\d{1,6}))?", given) if isinstance(given, str) else None
    if match is None:
        raise InvalidArgument(f"device={given!r} is not a device: pass 'auto', 'cpu', 'cuda' or 'cuda:0'")
    kind = _core.CPU if match[1] == "cpu" else _core.CUDA
    ordinal = int(match[2] or 0)
    count, reason = _core.device_count(kind)
    if ordinal >= count:
        number = f"there {'is' if count == 1 else 'are'} {count} of its kind"
        there_are = number if count else reason or "there is none of its kind"
        error = DeviceError if kind == _core.CUDA else InvalidArgument
        raise error(f"device={given!r} cannot be used: {there_are}")
    return kind, ordinal


def device_name(kind: int, ordinal: int) -> str:
    """The inverse of `parse_device`."""
    return "cpu" if kind == _core.CPU else f"cuda:{ordinal}"


def best_device(backend: str) -> tuple[int, int]:
    """The first CUDA device that the backend (a name of the C library) can use, else the CPU.

    The CPU as well, with a warning, where cuda-python is not installed.
    """
    for ordinal in range(_core.device_count(_core.CUDA)[0]):
        if _core.backend_probe(backend, _core.CUDA, ordinal) is None:
            if (why := _cuda.missing()) is None:
                return _core.CUDA, ordinal
            warnings.warn(f"cuda:{ordinal} is left out, and the CPU is used: {why}", RuntimeWarning, stacklevel=2)
            break
    return _core.CPU, 0


def set_threads(threads: int | None) -> None:
    """How many threads a call on the CPU uses at most where it has no `threads` of its own, in the whole process.

    threads : 1 to 4096, for tables made and calls begun from then on. None: the number in GPUHASH_THREADS, or else one
        for each CPU that the process may use, or fewer where OMP_NUM_THREADS says so, as for workers of Dask. The
        environment is read once.

    `gh.devices()[0].units` is the number that is used.
    """
    _core.set_threads(0 if threads is None else _arguments.whole("threads", threads, 4096, least=1))


def devices() -> list[Device]:
    """All devices of this machine that can be asked for their properties."""
    rows = []
    for kind in (_core.CPU, _core.CUDA):
        for ordinal in range(_core.device_count(kind)[0]):
            try:
                info = _core.device_info(kind, ordinal)
            except GpuHashError:
                continue
            rows.append(
                Device(
                    name=device_name(kind, ordinal),
                    model=info["name"],
                    memory_bytes=info["memory_bytes"],
                    units=info["units"],
                    compute_capability=info["compute_capability"] if kind == _core.CUDA else None,
                    driver_version=info["driver_version"] if kind == _core.CUDA else None,
                )
            )
    return rows


def measure_ceiling(
    what: str, *, device: str = "cpu", table_bytes: int = 1 << 28, n: int = 1 << 24, repeats: int = 3, threads: int = 0
) -> np.ndarray[Any, Any]:
    """Time what this machine can do at best, now: `n` independent accesses at random places.

    Parameters
    ----------
    what : "gather8", "gather16", "gather32", "gather64" or "gather128" (reads of rows of so many bytes), "cas64"
        (64-bit compare-and-swap), "copy" (n bytes streamed), or "launch" (on a CUDA device: the host's time for n
        launches of a kernel that does nothing).
    device : where.
    table_bytes : how much memory the places are drawn from.
    threads : on the CPU; 0 for one on each CPU that the process may use.

    Returns
    -------
    float64 array of `repeats` times in seconds; a warm-up is not among them.
    """
    kind, ordinal = parse_device(device)
    for name, value in (("table_bytes", table_bytes), ("n", n), ("repeats", repeats)):
        if value <= 0:
            raise InvalidArgument(f"{name}={value} must be at least 1")
    return _core.measure_ceiling(kind, ordinal, what, table_bytes, n, repeats, threads)
