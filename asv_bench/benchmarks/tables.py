"""Nanoseconds per key of every operation of every backend. Results are verified; runs.py says what each does."""

import statistics

from harness.asv_results import VERSION
from harness.runs import TableRun
from harness.sizes import keys_for

from .common import BACKENDS, DEVICES, LOADS, REPEATS, WIDTHS, pair, require, require_backend


class _Operation:
    params = (BACKENDS, DEVICES, LOADS, WIDTHS)
    param_names = ("backend", "device", "load", "key+value bytes")
    unit = "ns/key"
    version = VERSION
    operation = ""

    def setup(self, backend, device, load, widths):
        on = require(device)
        require_backend(backend, device)
        self.run = TableRun(on, backend, load, keys_for(device), pair(widths))
        if self.operation not in self.run.operations:
            raise NotImplementedError(f"{backend} cannot {self.operation}")

    def teardown(self, backend, device, load, widths):
        if hasattr(self, "run"):
            self.run.close()

    def track_ns_per_key(self, backend, device, load, widths):
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
