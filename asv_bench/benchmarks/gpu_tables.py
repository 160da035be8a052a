"""Nanoseconds per key of every operation on a GPU, median of events. runs.py says what each does, and verifies it."""

import statistics

from harness.card import key_ceilings
from harness.card_courses import CardCourse, card_sizes, median_times
from harness.courses import OPERATIONS
from harness.runs import TableRun

from . import common
from .common import BACKENDS, LOADS, REPEATS, WIDTHS, build_under_test, pair, power, require, require_backend

VERY_FULL = 0.95  # of these
FILLED_SO = ["hive", "linear_probe"]


class _Operation:
    params = (BACKENDS, ["2^20", "2^27"], [*LOADS, VERY_FULL], WIDTHS)
    param_names = ("backend", "keys", "load", "key+value bytes")
    unit = "ns/key"
    version = "1"
    operation = ""

    def setup(self, backend, keys, load, widths):
        on = require("cuda")
        require_backend(backend, "cuda")
        if load == VERY_FULL and backend not in FILLED_SO:
            raise NotImplementedError(f"{backend} is not filled to {load}")
        self.run = TableRun(on, backend, load, power(keys), pair(widths))
        if self.operation not in self.run.operations:
            raise NotImplementedError(f"{backend} cannot {self.operation}")

    def teardown(self, backend, keys, load, widths):
        if hasattr(self, "run"):
            self.run.close()

    def track_ns_per_key(self, backend, keys, load, widths):
        seconds = self.run.measure([self.operation], REPEATS)[self.operation]
        return statistics.median(seconds) / self.run.count(self.operation) * 1e9


class Insert(_Operation):
    operation = "insert"


class FindHit(_Operation):
    operation = "find_hit"


class FindMiss(_Operation):
    operation = "find_miss"


class Assign(_Operation):
    operation = "assign"


class Accumulate(_Operation):
    operation = "accumulate"


class Erase(_Operation):
    operation = "erase"


class Mixed(_Operation):
    operation = "mixed"


class Tables(common._Courses):
    """The five structures alike, through the C library alone: what asv_bench.campaign measures of many commits."""

    params = (BACKENDS, list(OPERATIONS), [CardCourse("", *size).label for size in card_sizes()])

    def setup_cache(self):
        try:
            require("cuda")
        except NotImplementedError as error:  # of each benchmark: one of setup_cache would be a failure
            why = NotImplementedError, str(error)
            return {(backend, label): why for backend in BACKENDS for label in self.params[2]}
        courses = (CardCourse(backend, *size) for backend in BACKENDS for size in card_sizes())
        measured = self.measure(build_under_test(), courses, median_times)
        return measured | {("ceiling", *key): ns for key, ns in key_ceilings().items()}

    def track_times_ceiling(self, measured, backend, operation, label):
        return measured[backend, operation, label] / measured["ceiling", operation, label]

    track_times_ceiling.unit = "times the ceiling"
