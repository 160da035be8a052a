"""Courses, which compare_builds measures: each is a few operations in turn on one table or index of each build.

A course is opened on a build, which gives it a table of its own, and then goes around: every round is the same work for
every build, all of it by one thread, and `step` returns the processor time of one operation. Results are verified.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from .builds import CPU, YES, Build, Column
from .keys import dtype_of, random_keys, shuffled

OPERATIONS = ("insert", "find_hit", "find_miss", "accumulate", "erase")
ROUNDS = 6  # at most, of one table: a large table has keys to erase and room to insert for so many


class Wrong(AssertionError):
    """A build returned something else than it must."""


def processor_time(work: Callable[[], int]) -> tuple[float, int]:
    """(seconds of processor time, result) of a call."""
    start = time.process_time_ns()
    result = work()
    return (time.process_time_ns() - start) / 1e9, result


class TableCourse:
    """Batches on a table for 2^bits keys.

    A table of 2^17 keys is emptied and filled by one batch. A larger one is filled once, and a batch is small against
    it: it finds room in a table that is nearly full, and its lines are in no cache. No key is inserted after it was
    erased, since not every structure has the slot of an erased key again before it is flushed.
    """

    operations = OPERATIONS
    function = "table_create"  # that a build needs

    def __init__(self, backend: str, bits: int, batch_bits: int, widths: tuple[int, int]) -> None:
        self.backend, self.n, self.m, self.widths = backend, 1 << bits, 1 << batch_bits, widths
        self.label = f"{widths[0]}+{widths[1]}, 2^{bits} keys"
        self.whole = bits == batch_bits
        reserved = 0 if self.whole else ROUNDS * self.m
        self.filled = self.n - (self.n if self.whole else reserved)
        self.erased_below = reserved  # keys that some round erases; finds look for others
        self._data: dict[str, Any] = {}

    def name(self, operation: str) -> str:
        """ "hive insert, 4+4, 2^17 keys"."""
        return f"{self.backend} {operation}, {self.label}"

    def count(self, operation: str) -> int:
        """Keys in a batch of this operation."""
        return self.m // 2 if self.whole and operation == "erase" else self.m

    def keys(self, index: Any) -> Any:
        """The keys of these numbers."""
        return random_keys(np, np.asarray(index, np.uint64), self.widths[0])

    @property
    def data(self) -> dict[str, Any]:
        """The batches, which all builds share."""
        if not self._data:
            asked = self.n if self.whole else self.filled
            held = np.arange(self.erased_below, asked)
            hits = held[shuffled(np, len(held))[: self.m].astype(np.int64)]
            # Zipf's law with exponent 1: the logarithm of a rank is evenly distributed.
            ranks = np.exp(np.random.default_rng(1).random(self.m) * np.log(len(held))).astype(np.int64) - 1
            zipf = held[shuffled(np, len(held), salt=3)[ranks].astype(np.int64)]
            values = dtype_of(self.widths[1])
            self._data = {
                "hit": self.keys(hits),
                "hit_values": hits.astype(values),
                "added_per_round": np.bincount(zipf, minlength=asked)[hits].astype(values),
                "miss": self.keys(np.arange(self.n, self.n + self.m)),
                "zipf": self.keys(zipf),
                "ones": np.ones(self.m, values),
            }
        return self._data

    def slice(self, operation: str, turn: int) -> Any:
        """Numbers of the keys that a round inserts, or erases."""
        if self.whole:
            return np.arange(self.m) if operation == "insert" else np.arange(self.m // 2)
        begin = turn * self.m + (self.filled if operation == "insert" else 0)
        return np.arange(begin, begin + self.m)

    def open(self, build: Build) -> TableRunner:
        """A table of this build, filled."""
        return TableRunner(self, build)


class TableRunner:
    """A course on the table of one build."""

    device = CPU

    def __init__(self, course: TableCourse, build: Build) -> None:
        self.course, self.build = course, build
        self.table = build.table(course.backend, course.widths, course.n, device=self.device)
        self.out = self.there(np.zeros(course.m, dtype_of(course.widths[1])))
        self.status = self.there(np.zeros(course.m, np.uint8))
        if course.filled:
            index = np.arange(course.filled)
            keys, values = self.there(course.keys(index)), self.there(index.astype(self.out.dtype))
            build.done(self.table.work("insert", keys, values, None)())

    def there(self, array: Any) -> Any:
        """An array of numpy where the table is."""
        return array

    def here(self, array: Any) -> Any:
        """An array that the table's device has written, for numpy."""
        return array

    def time(self, work: Callable[[], int]) -> tuple[float, int]:
        """(seconds, result) of a call: processor time."""
        return processor_time(work)

    def close(self) -> None:
        """Free the table."""
        self.table.close()

    def step(self, operation: str, turn: int) -> float:
        """Seconds of one operation, after which each element was what it must be."""
        data, course = self.course.data, self.course
        if operation == "insert" and course.whole:
            self.table.clear()
        if operation in ("insert", "erase"):
            index = course.slice(operation, turn)
            call, keys, values = operation, course.keys(index), index.astype(self.out.dtype)
        else:
            call = "accumulate" if operation == "accumulate" else "find"
            keys = data[{"find_hit": "hit", "find_miss": "miss", "accumulate": "zipf"}[operation]]
            values = data["ones"] if call == "accumulate" else self.out
        status = self.status[: len(keys)]
        status.fill(0xA5)
        values = values if values is self.out else self.there(values)
        seconds, code = self.time(self.table.work(call, self.there(keys), values, status))
        self.build.done(code)
        self.verify(operation, turn, self.here(status))
        return seconds

    def verify(self, operation: str, turn: int, status: Any) -> None:
        """Compare statuses, and the values of a find."""
        expected = YES if operation in ("insert", "find_hit", "erase") else 0
        right = status == expected
        if operation == "find_hit":
            rounds = 0 if self.course.whole else turn
            values = self.course.data["hit_values"] + self.course.data["added_per_round"] * self.out.dtype.type(rounds)
            right &= self.here(self.out) == values
        if not right.all():
            bad = int(right.size - right.sum())
            raise Wrong(f"{self.build.name}: {self.course.name(operation)}: {bad} of {right.size} elements are wrong")


class Export:
    """All pairs of a table of a thousand keys, a hundred times."""

    operations = ("export",)
    function = "export"
    n, calls = 1000, 100

    def __init__(self, backend: str) -> None:
        self.backend = backend

    def name(self, operation: str) -> str:
        """ "hive export, 4+4, 1000 keys"."""
        return f"{self.backend} {operation}, 4+4, {self.n} keys"

    def open(self, build: Build) -> ExportRunner:
        """A table of this build with a thousand keys."""
        return ExportRunner(self, build)


class ExportRunner:
    """The exports of one build."""

    def __init__(self, course: Export, build: Build) -> None:
        self.course, self.build = course, build
        self.table = build.table(course.backend, (4, 4), course.n)
        self.keys = random_keys(np, np.arange(course.n), 4)
        build.done(self.table.work("insert", self.keys, np.arange(course.n, dtype=np.uint32), None)())
        self.out = np.zeros(course.n, np.uint32), np.zeros(course.n, np.uint32)
        self.export = self.table.export(*self.out)

    def close(self) -> None:
        """Free the table."""
        self.table.close()

    def step(self, operation: str, turn: int) -> float:
        """Processor time of all exports."""
        seconds, code = processor_time(lambda: max(self.export() for _ in range(self.course.calls)))
        self.build.done(code)
        order = np.argsort(self.out[1])
        if not (self.out[0][order] == self.keys).all():
            raise Wrong(f"{self.build.name}: {self.course.name(operation)}: the pairs are wrong")
        return seconds


class Distinct:
    """The verb: rows get ids by an index of the library, as `unique`, `factorize` and `value_counts` of columns do."""

    operations = ("index",)
    function = "index_create"

    def __init__(self, kind: str) -> None:
        numbers = np.random.default_rng(1).integers(0, 1 << 15, 1 << 16)
        keys = random_keys(np, numbers, 4)
        self.kind = kind
        self.column = Column([f"word {key}" for key in keys] if kind == "text" else keys)
        _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        rank = np.empty(len(first), np.int64)
        rank[np.argsort(first)] = np.arange(len(first))
        self.ids = rank[inverse]

    def name(self, operation: str) -> str:
        """ "index of text, 2^16 rows"."""
        return f"{operation} of {self.kind}, 2^16 rows"

    def open(self, build: Build) -> DistinctRunner:
        """Nothing is kept between rounds."""
        return DistinctRunner(self, build)


class DistinctRunner:
    """The indices of one build, a new one in each round."""

    def __init__(self, course: Distinct, build: Build) -> None:
        self.course, self.build = course, build

    def close(self) -> None:
        """There is nothing to free."""

    def step(self, operation: str, turn: int) -> float:
        """Processor time of adding all rows."""
        index, column = self.build.index(self.course.column), self.course.column
        column.ids.fill(-7)
        try:
            seconds, code = processor_time(index.add(column))
        finally:
            index.close()
        self.build.done(code)
        if not (column.ids == self.course.ids).all():
            raise Wrong(f"{self.build.name}: {self.course.name(operation)}: the ids are wrong")
        return seconds


Course = TableCourse | Export | Distinct


def sizes() -> list[tuple[int, int, tuple[int, int]]]:
    """(bits of keys, bits of a batch, bytes): a table in a cache; in what the last cache still holds; beyond it."""
    return [(17, 17, (4, 4)), (20, 15, (8, 8)), (23, 16, (4, 4))]


def all_courses(backends: list[str]) -> list[Course]:
    """The fixed short list."""
    courses: list[Course] = []
    for backend in backends:
        courses += [*(TableCourse(backend, *size) for size in sizes()), Export(backend)]
    return [*courses, Distinct("numbers"), Distinct("text")]


def all_times(course: Course, build: Build, tables: int) -> dict[str, list[float]]:
    """Seconds of each operation in the rounds of several tables, without the first round of each."""
    found: dict[str, list[float]] = {operation: [] for operation in course.operations}
    for _ in range(tables):
        runner = course.open(build)
        try:
            for turn in range(ROUNDS):
                for operation in course.operations:
                    seconds = runner.step(operation, turn)
                    found[operation] += [seconds] if turn else []
        finally:
            runner.close()
    return found


def least_times(course: Course, build: Build, tables: int) -> dict[str, float]:
    """Least seconds of each operation over the rounds of several tables."""
    return {operation: min(seconds) for operation, seconds in all_times(course, build, tables).items()}
