"""`pygpuhash compare`: every backend on the same real keys, timed, and every result checked exactly.

Phases, each in one batch call:

count    accumulate 1 for every key
lookup   find every key
absent   find as many keys that are not in the table
erase    erase half of the distinct keys
mixed    find, insert, assign and erase in one concurrent batch

A phase is repeated, and the table put back in between, untimed; the median counts. Arrays are on the table's device
before the clock starts, and results are written to memory that exists already. Beside each rate stands its share of
what this machine does at best, measured right before and right after the phase, of which the better counts, over as
much memory as the table holds: random reads of a pair for lookups, random 64-bit compare-and-swaps for the phases that
write. Skewed keys may exceed it, since the places of frequent keys stay in cache.

A GPU is given work: there, the keys of each batch are repeated until it has at least 2^24, in the same order again and
again, and the results are checked for that. What a short call takes is a figure of its own.

What other processes take of the CPUs meanwhile is in the result, so that the report can say when the machine was busy.
"""

from __future__ import annotations

import os
import statistics
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pygpuhash import _core, _cuda, _devices, registry
from pygpuhash.errors import GpuHashError
from pygpuhash.table import Op, Table
from pygpuhash.workload import Array, Workload, bits

__all__ = ["PHASES", "SHORT", "Others", "Result", "ceiling_of", "compare", "run_backend"]

PHASES = ("count", "lookup", "absent", "erase", "mixed")
_MIN_RUNS, _MAX_RUNS, _ENOUGH_SECONDS = 3, 25, 0.5
# Accesses of a ceiling: at most so many, on the CPU as few as a small table needs.
_CEILING_N, _CEILING_LEAST, _CEILING_RUNS = 1 << 22, 1 << 18, 5
_LEAST_BATCH = {_core.CPU: 1, _core.CUDA: 1 << 24}  # keys; shorter batches repeat theirs
SHORT, _SHORT_RUNS = 1024, 200  # keys in a short call, and how many are timed


class Mismatch(Exception):
    """A table's answer is not the expected one."""


@dataclass
class Phase:
    """One phase's timings: `n` keys per call, `runs` calls; median, fastest and slowest in seconds."""

    n: int
    runs: int
    median: float
    fastest: float
    slowest: float
    ceiling: str
    ceiling_rate: float  # accesses per second

    @property
    def rate(self) -> float:
        """Keys per second."""
        return self.n / self.median

    @property
    def share(self) -> float:
        """Rate over the ceiling's rate."""
        return self.rate / self.ceiling_rate


@dataclass
class Result:
    """One backend on one device."""

    backend: str
    device: str
    distinct: int
    phases: dict[str, Phase] = field(default_factory=dict)
    bytes_per_key: float | None = None
    load_factor: float | None = None
    verified: bool = False
    error: str | None = None
    cpus: int = 0  # that this process may use
    others: float | None = None  # CPUs that other processes took of them; None where the system does not say
    repeats: dict[str, int] = field(default_factory=dict)  # by phase: how often a batch has the keys, if more than once
    short_call: dict[str, float] = field(default_factory=dict)  # on a GPU: seconds until a call of few keys is done

    def as_json(self) -> dict[str, Any]:
        """With rates and shares spelled out."""
        row = asdict(self)
        for name, phase in self.phases.items():
            row["phases"][name] |= {"keys_per_second": phase.rate, "share_of_ceiling": phase.share}
        return row


class Others:
    """What other processes take of the CPUs that this one may use, from the construction on."""

    def __init__(self) -> None:
        self.cpus = len(os.sched_getaffinity(0))
        self.start = self._now()

    @staticmethod
    def _now() -> tuple[float, float, float]:
        """Seconds by the clock, of all CPUs at work, and of this process at work."""
        try:
            fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
            user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, fields)
        except (OSError, ValueError):
            return time.perf_counter(), float("nan"), 0.0
        busy = user + nice + system + irq + softirq + steal
        own = os.times()
        return time.perf_counter(), busy / os.sysconf("SC_CLK_TCK"), own.user + own.system

    def taken(self) -> float | None:
        """CPUs, on average; what may have run on CPUs that this process cannot use does not count."""
        wall, busy, own = (b - a for a, b in zip(self.start, self._now(), strict=True))
        if wall <= 0 or busy != busy:
            return None
        elsewhere = (os.cpu_count() or self.cpus) - self.cpus
        return min(max((busy - own) / wall - elsewhere, 0.0), float(self.cpus))


class Place:
    """Where a table's arrays are: in host memory as they are, or copied to a device."""

    def __init__(self, device: str) -> None:
        self.kind, self.ordinal = _devices.parse_device(device)

    def put(self, array: Array) -> Any:
        """The array on the device."""
        array = np.ascontiguousarray(array)
        return array if self.kind == _core.CPU else _cuda.from_host(array, self.ordinal)

    def room(self, n: int, dtype: Any) -> Any:
        """An array for results, with its pages touched."""
        return self.put(np.ones(n, dtype))

    def get(self, array: Any) -> Array:
        """The array on the host."""
        return np.asarray(array if self.kind == _core.CPU else array.get())

    def wait(self) -> None:
        """Wait until the device has finished."""
        if self.kind == _core.CUDA:
            _cuda.synchronize(self.ordinal)


def compare(
    work: Workload, names: list[str], device: str, progress: Callable[[str, float], None] = lambda what, done: None
) -> list[Result]:
    """Run the workload on each of some backends. `device` is a name or "auto": the best that each backend can use."""
    results = []
    for i, name in enumerate(names):

        def step(phase: str, done: float, name: str = name, i: int = i) -> None:
            progress(f"{name}: {phase}", (i + done) / len(names))

        results.append(run_backend(work, name, device, step))
    return results


def run_backend(
    work: Workload, name: str, device: str, progress: Callable[[str, float], None] = lambda phase, done: None
) -> Result:
    """All phases on one backend; an error or a wrong answer ends up in the result."""
    result = Result(name, device, len(work.unique))
    others = Others()
    try:
        if device == "auto":
            target = registry.resolve(name)
            auto = "cpu" if isinstance(target, type) else _devices.device_name(*_devices.best_device(target))
            result.device = auto
        with Table(
            name,
            key_dtype=work.key_dtype,
            value_dtype=work.value_dtype,
            capacity=len(work.unique),
            device=result.device,
        ) as table:
            _Run(work, table, result, progress).all()
        result.verified = True
    except (GpuHashError, Mismatch, MemoryError) as error:
        result.error = str(error) or type(error).__name__
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever a third-party class may raise must not end the run of the others
        if not isinstance(registry.resolve(name), type):
            raise
        result.error = f"{type(error).__name__}: {error}"
    result.cpus, result.others = others.cpus, others.taken()
    return result


class _Run:
    """The phases on one table, in order; each leaves its timings in the result and raises if an answer is wrong."""

    def __init__(self, work: Workload, table: Table, result: Result, progress: Callable[[str, float], None]) -> None:
        self.work, self.table, self.result, self.progress = work, table, result, progress
        self.place = Place(result.device)
        self.unique, self.counts = self.place.put(work.unique), self.place.put(work.counts)
        self.times = self.repeat("count", len(work.keys))  # so often each key is counted
        self.keys = self.place.put(np.tile(work.keys, self.times))

    def all(self) -> None:
        for i, (name, phase) in enumerate(zip(PHASES, self.phases(), strict=True)):
            self.progress(name, i / len(PHASES))
            phase()
        self.table.check()
        self.progress("done", 1.0)

    def phases(self) -> tuple[Callable[[], None], ...]:
        return self.count, self.lookup, self.absent, self.erase, self.mixed

    def repeat(self, phase: str, n: int) -> int:
        """How often a phase's batch has its n keys, so that it is long enough."""
        times = max(-(-_LEAST_BATCH[self.place.kind] // n), 1) if n else 1
        if times > 1:
            self.result.repeats[phase] = times
        return times

    def count(self) -> None:
        work, table, place, n = self.work, self.table, self.place, len(self.work.keys) * self.times
        ones, mask = place.put(np.ones(n, work.value_dtype)), place.room(n, bool)
        timed = self.time(n, "cas64", table.clear, lambda: table.accumulate(self.keys, ones, out=mask))
        expect("count: newly inserted keys", int(place.get(mask).sum()), len(work.unique))
        keys, values = sorted_pairs(table)
        expect("count: distinct keys", bits(keys), bits(work.unique))
        expect("count: values", values, work.counts * values.dtype.type(self.times))
        if work.counter is not None:
            named = zip(keys.tolist(), values.tolist(), strict=True)
            counter = Counter({work.text[key]: n // self.times for key, n in named})
            expect("count: Counter", counter, work.counter)
        self.result.bytes_per_key = table.nbytes / len(work.unique)
        self.result.load_factor = table.load_factor
        self.record("count", timed)

    def lookup(self) -> None:
        work, n = self.work, len(self.work.keys) * self.times
        values, found = self.find("lookup", self.keys, n)
        expect("lookup: found", found, np.ones(n, bool))
        each = work.counts[work.inverse] * values.dtype.type(self.times)
        expect("lookup: values", values, np.tile(each, self.times))
        if self.times > 1:
            self.result.repeats["lookup"] = self.times
        if _LEAST_BATCH[self.place.kind] > 1:
            self.short_calls()

    def short_calls(self) -> None:
        """How long a call of few keys takes, until its results are there; nothing in the table changes."""
        work, table, place, n = self.work, self.table, self.place, min(SHORT, len(self.work.keys))
        keys, zeros = place.put(work.keys[:n]), place.put(np.zeros(n, work.value_dtype))
        values, mask = place.room(n, work.value_dtype), place.room(n, bool)
        calls: dict[str, Callable[[], object]] = {
            "count": lambda: table.accumulate(keys, zeros, out=mask),
            "lookup": lambda: table.find(keys, out=values, found=mask),
        }
        for name, call in calls.items():
            call()
            place.wait()
            seconds = []
            for _ in range(_SHORT_RUNS):
                start = time.perf_counter()
                call()
                place.wait()
                seconds.append(time.perf_counter() - start)
            self.result.short_call[name] = statistics.median(seconds)

    def absent(self) -> None:
        times = self.repeat("absent", len(self.work.absent))
        n = len(self.work.absent) * times
        values, found = self.find("absent", self.place.put(np.tile(self.work.absent, times)), n)
        expect("absent: found", found, np.zeros(n, bool))
        expect("absent: values", values, np.zeros(n, self.work.value_dtype))

    def find(self, name: str, keys: Any, n: int) -> tuple[Array, Array]:
        values, found = self.place.room(n, self.work.value_dtype), self.place.room(n, bool)
        ceiling = "gather8" if self.work.key_dtype.itemsize <= 4 else "gather16"
        timed = self.time(n, ceiling, lambda: None, lambda: self.table.find(keys, out=values, found=found))
        self.record(name, timed)
        return self.place.get(values), self.place.get(found)

    def erase(self) -> None:
        work, table, place = self.work, self.table, self.place
        times = self.repeat("erase", len(work.erased))
        n = len(work.erased) * times
        keys, values = place.put(work.unique[work.erased]), place.put(work.counts[work.erased])
        repeated, mask = place.put(np.tile(work.unique[work.erased], times)), place.room(n, bool)
        timed = self.time(n, "cas64", lambda: table.insert(keys, values), lambda: table.erase(repeated, out=mask))
        once = np.ones(len(work.erased), np.int64)
        expect("erase: how often each key was erased", place.get(mask).reshape(times, -1).sum(0), once)
        left = np.ones(len(work.unique), bool)
        left[work.erased] = False
        expect("erase: keys left", place.get(table.contains(self.unique)), left)
        expect("erase: size", len(table), int(left.sum()))
        self.record("erase", timed)

    def mixed(self) -> None:
        work, table, place = self.work, self.table, self.place
        times = self.repeat("mixed", len(work.ops))
        n = len(work.ops) * times
        parts = work.ops, work.mixed_keys, work.mixed_values
        ops, keys, values = (place.put(np.tile(part, times)) for part in parts)
        out, mask = place.room(n, work.value_dtype), place.room(n, bool)

        def restore() -> None:
            table.clear()
            table.insert(self.unique, self.counts)

        timed = self.time(n, "cas64", restore, lambda: table.execute(ops, keys, values, out=out, found=mask))
        expect("mixed: values found", place.get(out), np.tile(work.mixed_found, times))
        found = work.ops == Op.FIND  # is so each time; the others insert and erase a key once
        expected = np.where(found, times, 1) * work.mixed_mask
        expect("mixed: mask", place.get(mask).reshape(times, -1).sum(0), expected)
        keys_after, values_after = sorted_pairs(table)
        expect("mixed: keys afterwards", bits(keys_after), bits(work.after[0]))
        expect("mixed: values afterwards", values_after, work.after[1])
        self.record("mixed", timed)

    # ---- measuring

    def time(self, n: int, ceiling: str, prepare: Callable[[], object], run: Callable[[], object]) -> Phase | None:
        """Some runs, `prepare` before each not counted, after one that is not counted either; None of no keys."""
        if n == 0:
            prepare()
            run()
            return None
        before = self.ceiling(ceiling)
        seconds: list[float] = []
        first = True
        while len(seconds) < _MIN_RUNS or (sum(seconds) < _ENOUGH_SECONDS and len(seconds) < _MAX_RUNS):
            prepare()
            self.place.wait()
            start = time.perf_counter()
            run()
            self.place.wait()
            if not first:
                seconds.append(time.perf_counter() - start)
            first = False
        best = max(before, self.ceiling(ceiling))
        return Phase(n, len(seconds), statistics.median(seconds), min(seconds), max(seconds), ceiling, best)

    def record(self, name: str, timed: Phase | None) -> None:
        if timed is not None:
            self.result.phases[name] = timed

    def ceiling(self, what: str) -> float:
        return ceiling_of(what, self.result.device, self.table.nbytes)


def ceiling_of(what: str, device: str, table_bytes: int) -> float:
    """Accesses per second that this machine makes at best over so much memory, measured now."""
    n = _CEILING_N if device != "cpu" else min(_CEILING_N, max(_CEILING_LEAST, table_bytes // 4))
    seconds = _devices.measure_ceiling(
        what, device=device, table_bytes=max(table_bytes, 1 << 16), n=n, repeats=_CEILING_RUNS
    )
    return n / float(np.min(seconds))


def sorted_pairs(table: Table) -> tuple[Array, Array]:
    """All pairs on the host, by the bits of the key."""
    keys, values = table.export()
    order = np.argsort(bits(keys))
    return keys[order], values[order]


def expect(what: str, got: Any, wanted: Any) -> None:
    """Raise `Mismatch` unless both are equal, element for element."""
    if isinstance(wanted, np.ndarray):
        if got.shape != wanted.shape:
            raise Mismatch(f"{what}: {got.size} elements instead of {wanted.size}")
        wrong = np.flatnonzero(got != wanted)
        if wrong.size:
            at = int(wrong[0])
            raise Mismatch(f"{what}: {wrong.size} of {wanted.size} differ, at {at} {got[at]} instead of {wanted[at]}")
    elif got != wanted:
        shown = f"{got} instead of {wanted}" if isinstance(wanted, int) else "the counts differ"
        raise Mismatch(f"{what}: {shown}")
