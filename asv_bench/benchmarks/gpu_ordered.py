"""Nanoseconds per key of ordered queries, builds and updates of a skiplist on a GPU."""

import numpy as np

import pygpuhash as gh

from .common import REPEATS, require, require_backend

RANGE = 16
ON_GPU = ["find", "absent", "find, random inserts", "absent, random inserts", "lower_bound", "predecessor", "range"]
ON_GPU += ["build sorted", "build", "merge sorted", "insert", "erase"]


class OrderedOnGpu:
    """A skiplist on a GPU, 4-byte keys and values; every result is compared with what a sorted array says."""

    params = ([1 << 20, 1 << 22, 1 << 25], ON_GPU)
    param_names = ("keys", "what")
    version = "1"
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
