"""Lists of parameters and helpers that the benchmarks share. The lists are fixed, so that every machine discovers the
same parameters."""

import os
import statistics
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from harness.allocators import measure_slab_allocator
from harness.builds import Build
from harness.courses import TableCourse
from harness.devices import Device, Unavailable, device
from harness.runs import TableRun

import pygpuhash as gh

BACKENDS = ["hive", "linear_probe", "skiplist", "slab_hash", "stadium"]
LOADS = [0.5, 0.8, 0.9]
WIDTHS = ["4+4", "8+8"]
ACCESSES = ["gather8", "gather16", "gather32", "gather64", "gather128", "cas64"]
SLABS = 1 << 20
REPEATS = 5  # of a median on a GPU
MANY = 15  # of a minimum on the CPU


def build_under_test():
    """The library of the installed package."""
    return Build(Path(gh.__file__).parent, "this build")


class _Courses:
    """The courses of tables. One process measures all, since tables take long to fill."""

    unit = "ns"
    version = "1"
    timeout = 1200
    param_names = ("backend", "operation", "bytes and keys")

    def measure(
        self, build: Build, courses: Iterable[TableCourse], times: Callable[[TableCourse, Build, int], dict[str, float]]
    ) -> dict[tuple[str, ...], Any]:
        """(backend, operation, label) -> nanoseconds; (backend, label) -> the exception of a course that failed."""
        measured: dict[tuple[str, ...], Any] = {}
        for course in courses:
            try:
                if course.backend not in build.modules:
                    raise NotImplementedError(f"{course.backend} was not built")
                for operation, seconds in times(course, build, 3).items():
                    measured[course.backend, operation, course.label] = seconds / course.count(operation) * 1e9
            except NotImplementedError as error:
                measured[course.backend, course.label] = (NotImplementedError, str(error))
            except Exception:
                measured[course.backend, course.label] = (AssertionError, traceback.format_exc())
        return measured

    def setup(self, measured, backend, operation, label):
        if (backend, label) in measured:
            kind, words = measured[backend, label]
            raise kind(words)

    def track_key_ns(self, measured, backend, operation, label):
        return measured[backend, operation, label]


def require(name: str) -> Device:
    """The device, or "not applicable" for asv."""
    try:
        return device(name)
    except Unavailable as error:
        raise NotImplementedError(str(error)) from error


def require_backend(backend: str, name: str) -> None:
    """The backend must have been built for the device."""
    built_for = {b.name: b.devices for b in gh.backends()}.get(backend, [])
    if name not in built_for:
        raise NotImplementedError(f"{backend} was not built for {name}")


def pair(widths: str) -> tuple[int, int]:
    """ "4+8" -> (4, 8)."""
    key, _, value = widths.partition("+")
    return int(key), int(value)


def power(text: str) -> int:
    """ "2^17" -> 131072."""
    return 1 << int(text.removeprefix("2^"))


def use_one_cpu() -> None:
    """Keep this process on one CPU: batches have as many threads as a process may use CPUs."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def least_processor_time(work: Callable[[], object], before: Callable[[], object] = lambda: None) -> float:
    """Least seconds of processor time of many calls, after one that does not count."""
    seconds = []
    for _ in range(MANY + 1):
        before()
        start = time.process_time_ns()
        work()
        seconds.append((time.process_time_ns() - start) / 1e9)
    return min(seconds[1:])


def slab_seconds(on: Device, kind: str) -> dict[str, list[float]]:
    """Seconds of each repeat of allocating and freeing a million slabs."""
    try:
        return measure_slab_allocator(on, kind, SLABS, 128, MANY if on.name == "cpu" else REPEATS)
    except (gh.Unsupported, gh.BackendNotFound, gh.NotFound) as error:
        raise NotImplementedError(str(error)) from error


def bytes_per_key(on: Device, backend: str, load: float, n: int, widths: str) -> float:
    """Memory of a table with n keys."""
    run = TableRun(on, backend, load, n, pair(widths))
    try:
        run.bring_to_start("find_hit")
        return run.table.nbytes / len(run.table)
    finally:
        run.close()


def median_ceiling(what: str, name: str, table_bytes: int, n: int) -> float:
    """Median seconds of n accesses."""
    return statistics.median(gh.measure_ceiling(what, device=name, table_bytes=table_bytes, n=n, repeats=REPEATS))
