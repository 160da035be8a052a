"""Nanoseconds per key of ordered queries beside those of sorted arrays: numpy.searchsorted, and bisect on a list."""

import bisect

import numpy as np
from harness.devices import device
from harness.keys import random_keys
from harness.sizes import size_name

import pygpuhash as gh

from .common import DEVICES, REPEATS, require, require_backend

RANGE = 16
SCAN = 1000
ON_GPU = ["find", "absent", "find, random inserts", "absent, random inserts", "lower_bound", "predecessor", "range"]
ON_GPU += ["build sorted", "build", "merge sorted", "insert", "erase"]


class Ordered:
    """A skiplist on the CPU; every result is compared with what a sorted array says."""

    params = (
        [1 << 18] if size_name() == "small" else [1 << 18, 1 << 22],
        ["find", "lower_bound", "range", "scan", "flush", "build sorted", "build", "insert", "searchsorted", "bisect"],
    )
    param_names = ("keys", "what")
    timeout = 600

    def setup(self, n, what):
        self.on = device("cpu")
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
        if what not in ("searchsorted", "bisect"):
            self.table = gh.Table("skiplist", key_dtype="uint32", value_dtype="uint32", capacity=n, device="cpu")
            self.table.insert(self.keys, self.keys)

    def teardown(self, n, what):
        if self.table is not None:
            self.table.close()

    def track_ns_per_key(self, n, what):
        work, keys = self.work(what)
        best = float("inf")
        for _ in range(REPEATS):
            if what in ("build sorted", "build", "insert"):
                self.table.clear()
            best = min(best, self.on.time(work))
        return best / keys * 1e9

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
        if what == "flush":
            return table.flush, n
        if what == "searchsorted":
            return lambda: np.searchsorted(self.sorted, asked), len(asked)
        few, held = asked[: 1 << 16].tolist(), self.sorted.tolist()
        return lambda: [bisect.bisect_left(held, k) for k in few], len(few)


class OrderedOnGpu:
    """A skiplist on a GPU, 4-byte keys and values; every result is compared with what a sorted array says."""

    params = ([1 << 20] if size_name() == "small" else [1 << 22, 1 << 25], ON_GPU if "cuda" in DEVICES else ON_GPU[:1])
    param_names = ("keys", "what")
    timeout = 600

    def setup(self, n, what):
        self.on = require("cuda")
        require_backend("skiplist", "cuda")
        xp, self.step = self.on.xp, 0xFFFF0000 // n
        self.numbers = xp.arange(n, dtype="u4")
        self.sorted = self.numbers * xp.uint32(self.step) + xp.uint32(self.step)
        self.order = xp.asarray(np.random.default_rng(7).permutation(n).astype("u4"))
        self.keys = self.sorted[self.order]
        self.values, self.mask = xp.empty(n, "u4"), xp.empty(n, bool)
        key_by_key = {"build": "never"} if "random" in what or what in ("insert", "erase") else {}
        self.table = gh.Table(
            "skiplist", key_dtype="uint32", value_dtype="uint32", capacity=n, device="cuda:0", **key_by_key
        )
        if key_by_key:
            self.table.insert(self.keys, self.order, out=self.mask)
        else:
            self.table.insert(self.sorted, self.numbers, out=self.mask)
        assert len(self.table) == n

    def teardown(self, n, what):
        if hasattr(self, "table"):
            self.table.close()

    def track_ns_per_key(self, n, what):
        before, work, keys = self.work(n, what)
        best = float("inf")
        for _ in range(REPEATS + 1):
            before()
            self.on.wait()
            best = min(best, self.on.time(work))
        return best / keys * 1e9

    track_ns_per_key.unit = "ns/key"

    def work(self, n, what):
        """What is done before each round, what is timed, and by how many keys its time is divided."""
        xp, table, step = self.on.xp, self.table, self.step
        kind = what.partition(",")[0]
        nothing, out = (lambda: None), {"out": self.mask}
        if kind in ("find", "absent"):
            asked = self.keys if kind == "find" else self.keys + xp.uint32(step // 2)
            table.find(asked, out=self.values, found=self.mask)
            assert bool((self.mask == (kind == "find")).all())
            assert kind == "absent" or bool((self.values == self.order).all())
            return nothing, lambda: table.find(asked, out=self.values, found=self.mask), n
        if kind in ("lower_bound", "predecessor"):
            asked = self.keys + xp.uint32(step // 2) if kind == "predecessor" else self.keys - xp.uint32(step // 3)
            query = getattr(table, kind)
            keys, values, found = query(asked)
            assert bool(found.all())
            assert bool((keys == self.keys).all())
            assert bool((values == self.order).all())
            return nothing, lambda: query(asked), n
        if kind == "range":
            at = self.order[self.order < n - RANGE][: 1 << 22].astype("i8")
            low, high = self.sorted[at], self.sorted[at + RANGE]
            keys, _, counts = table.range(low, high, RANGE)
            assert bool((counts == RANGE).all())
            assert bool((keys == self.sorted[at[:, None] + xp.arange(RANGE)]).all())
            return nothing, lambda: table.range(low, high, RANGE), len(low)
        if kind in ("build sorted", "build"):
            keys, values = (self.sorted, self.numbers) if kind == "build sorted" else (self.keys, self.order)
            return table.clear, lambda: table.insert(keys, values, **out), n
        if kind == "merge sorted":
            half, other = self.sorted[::2].copy(), self.sorted[1::2].copy()

            def with_half():
                table.clear()
                table.insert(half, half)

            return with_half, lambda: table.insert(other, other), len(other)
        some = self.keys[: n // 8].copy()
        insert, erase = (lambda: table.insert(some, some)), (lambda: table.erase(some))
        return (erase, insert, len(some)) if kind == "insert" else (insert, erase, len(some))
