"""Arrays and clocks of one device: numpy on the CPU, CuPy on CUDA.

Both libraries have the same functions, so everything else is written once, over `Device.xp`.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import pygpuhash as gh


class Unavailable(RuntimeError):
    """This benchmark cannot run here; the message says why."""


class Device:
    """The CPU. `name` is what `pygpuhash.Table(device=...)` takes, `xp` the array library."""

    name = "cpu"
    xp: Any = np

    def time(self, work: Callable[[], Any]) -> float:
        """Seconds that `work` takes, all of it done."""
        start = time.perf_counter()
        work()
        return time.perf_counter() - start

    def wait(self) -> None:
        """Until everything that was started is done."""

    def of_one_thread(self) -> Device:
        """The CPU with another clock, for work of one thread."""
        return OneThread()

    @property
    def model(self) -> str:
        """Name of the processor, with the number of threads that a batch uses."""
        cpu = next(d for d in gh.devices() if d.name == "cpu")
        return f"{cpu.model}, {cpu.units} threads"


class OneThread(Device):
    """The CPU as one thread sees it: times are processor time of this process."""

    def time(self, work: Callable[[], Any]) -> float:
        """Seconds that processors were busy with `work`."""
        start = time.process_time_ns()
        work()
        return (time.process_time_ns() - start) / 1e9


class CudaDevice(Device):
    """A CUDA device. Times are those between two events on CuPy's current stream."""

    def __init__(self, name: str) -> None:
        self.name = name
        try:
            self.xp = importlib.import_module("cupy")
        except ImportError as error:
            raise Unavailable(f"benchmarks on {name} keep their arrays in CuPy: pip install cupy-cuda13x") from error
        self.ordinal = int(name.partition(":")[2] or 0)
        self.xp.cuda.Device(self.ordinal).use()

    def time(self, work: Callable[[], Any]) -> float:
        """Seconds between an event before `work` and one after it.

        Nothing waits between the work that the caller has queued before (the poisoning of outputs) and the first
        event, so the time that Python needs to launch does not count while the device is still busy with that.
        """
        start, stop = self.xp.cuda.Event(), self.xp.cuda.Event()
        start.record()
        work()
        stop.record()
        stop.synchronize()
        return float(self.xp.cuda.get_elapsed_time(start, stop)) / 1e3

    def wait(self) -> None:
        """Until everything that was queued on the device is done."""
        self.xp.cuda.Device(self.ordinal).synchronize()

    @property
    def model(self) -> str:
        """Name of the device."""
        return next(d.model for d in gh.devices() if d.name == f"cuda:{self.ordinal}")


def settle(most: float = 0.5) -> None:
    """Wait, for so many seconds at most, until no other thread of this process is at work.

    Those that numpy's BLAS keeps spin for up to a tenth of a second after they were made, in which a benchmark in a
    process of its own is over: with two CPUs it would have one. Linux tells; elsewhere nothing is waited for.
    """
    end, quiet = time.monotonic() + most, 0
    while quiet < 2 and time.monotonic() < end:
        try:
            stats = [file.read_text() for file in Path("/proc/self/task").glob("*/stat")]
        except OSError:  # a thread has ended meanwhile
            continue
        running = sum(stat.rpartition(")")[2].split()[0] == "R" for stat in stats)
        quiet = quiet + 1 if running <= 1 else 0  # this one is
        time.sleep(0.005)


@cache
def device(name: str) -> Device:
    """A device by name: "cpu", "cuda", "cuda:1". Raises `Unavailable` with the reason where there is none."""
    if name == "cpu":
        settle()
        return Device()
    if not any(d.name.startswith("cuda") for d in gh.devices()):
        raise Unavailable(f"there is no CUDA device here ({gh.show_config(mode='dict')['cuda']})")
    return CudaDevice(name)


def available(name: str) -> list[str]:
    """The devices that a command line asks for: "cpu", "cuda", "cuda:1", or "all"."""
    if name != "all":
        device(name)
        return [name]
    found = ["cpu"]
    try:
        device("cuda")
        found.append("cuda")
    except Unavailable:
        pass
    return found
