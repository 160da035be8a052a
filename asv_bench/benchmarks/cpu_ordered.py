"""Nanoseconds of processor time per key of ordered queries and builds of a skiplist."""

import numpy as np
from harness.keys import random_keys

import pygpuhash as gh

from .common import least_processor_time, require_backend, use_one_cpu

RANGE = 16
SCAN = 1000


class Ordered:
    """A skiplist on the CPU; every result is compared with what a sorted array says."""

    params = (
        [1 << 18, 1 << 22],
        ["find", "lower_bound", "range", "scan", "flush", "build sorted", "build", "insert"],
    )
    param_names = ("keys", "what")
    version = "1"
    timeout = 600

    def setup(self, n, what):
        use_one_cpu()
        require_backend("skiplist", "cpu")
        self.keys = random_keys(np, np.arange(n), 4)
        self.sorted = np.sort(self.keys)
        self.asked = np.random.default_rng(2).permutation(self.keys)[: 1 << 20]
        self.table = None
        if what in ("build sorted", "build", "insert"):  # a batch at once, and key by key
            how = "never" if what == "insert" else "auto"
            self.table = gh.Table(
                "skiplist", key_dtype="uint32", value_dtype="uint32", capacity=n, device="cpu", build=how
            )
            return
        self.table = gh.Table("skiplist", key_dtype="uint32", value_dtype="uint32", capacity=n, device="cpu")
        self.table.insert(self.keys, self.keys)

    def teardown(self, n, what):
        if self.table is not None:
            self.table.close()

    def track_ns_per_key(self, n, what):
        work, keys = self.work(what)
        empties = what in ("build sorted", "build", "insert")
        return least_processor_time(work, self.table.clear if empties else lambda: None) / keys * 1e9

    track_ns_per_key.unit = "ns/key"

    def work(self, what):
        """What is timed, and by how many keys its time is divided."""
        table, asked, n = self.table, self.asked, len(self.keys)
        if what == "find":
            values, found = table.find(asked)
            assert found.all()
            assert (values == asked).all()
            return lambda: table.find(asked), len(asked)
        if what == "lower_bound":
            assert (table.lower_bound(asked)[0] == asked).all()
            return lambda: table.lower_bound(asked), len(asked)
        if what == "range":
            at = np.searchsorted(self.sorted, asked)
            at = at[at < n - RANGE][: 1 << 16]
            low, high = self.sorted[at], self.sorted[at + RANGE]
            keys, _, counts = table.range(low, high, RANGE)
            assert (counts == RANGE).all()
            assert (keys == self.sorted[at[:, None] + np.arange(RANGE)]).all()
            return lambda: table.range(low, high, RANGE), len(low) * RANGE
        if what == "scan":
            at = np.searchsorted(self.sorted, asked)
            at = at[at < n - SCAN][: 1 << 12]
            low, high = self.sorted[at], self.sorted[at + SCAN]
            keys, _, counts = table.range(low, high, SCAN)
            assert (counts == SCAN).all()
            assert (keys == self.sorted[at[:, None] + np.arange(SCAN)]).all()
            return lambda: table.range(low, high, SCAN), len(low) * SCAN
        if what in ("build sorted", "build", "insert"):
            keys = self.sorted if what == "build sorted" else self.keys
            assert table.insert(keys, keys).all()
            assert (table.keys() == self.sorted).all()
            return lambda: table.insert(keys, keys), n
        return table.flush, n
