"""What a call costs before the first key: one key in, one out."""

import statistics
import time

import numpy as np

import pygpuhash as gh

from .common import BACKENDS, DEVICES, require, require_backend

CALLS = 2000


class OneKey:
    params = (BACKENDS, DEVICES, ["array", "out", "scalar"])
    param_names = ("backend", "device", "call")
    unit = "us"
    version = "1"

    def setup(self, backend, device, call):
        self.on = require(device)
        require_backend(backend, device)
        if call == "scalar" and device != "cpu":
            raise NotImplementedError("a scalar is copied to the device; the array calls are what is measured there")
        xp = self.on.xp
        self.table = gh.Table(backend, key_dtype="uint64", value_dtype="uint64", capacity=1000, device=device)
        self.table.insert(xp.arange(100, dtype="u8"), xp.arange(100, dtype="u8"))
        self.key = 42 if call == "scalar" else xp.asarray(np.array([42], "u8"))
        self.out, self.found = xp.empty(1, "u8"), xp.empty(1, bool)

    def teardown(self, backend, device, call):
        if hasattr(self, "table"):
            self.table.close()

    def track_find_us(self, backend, device, call):
        """Median over batches of 100 calls, the device waited for at the end of each batch."""
        if call == "out":
            find = lambda: self.table.find(self.key, out=self.out, found=self.found)  # noqa: E731
        else:
            find = lambda: self.table.find(self.key)  # noqa: E731
        batches = []
        for _ in range(CALLS // 100):
            self.on.wait()
            start = time.perf_counter()
            for _ in range(100):
                find()
            self.on.wait()
            batches.append((time.perf_counter() - start) / 100)
        value, found = self.table.find(self.key)
        if call != "scalar":
            value, found = value[0], found[0]
        assert int(value) == 42
        assert bool(found)
        return statistics.median(batches) * 1e6
