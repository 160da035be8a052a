"""What a call costs before the first key: one key in, one out, per operation."""

import statistics
import time

import numpy as np

import pygpuhash as gh

from .common import BACKENDS, DEVICES, require, require_backend

CALLS = 2000

# What is called, of a table `t`, with arrays of one key `k`, its value `v`, an output `o` and a mask `m`.
ARRAYS = {
    "find": lambda t, k, v, o, m: t.find(k),
    "find, out": lambda t, k, v, o, m: t.find(k, out=o, found=m),
    "contains": lambda t, k, v, o, m: t.contains(k),
    "get": lambda t, k, v, o, m: t.get(k),
    "t[k]": lambda t, k, v, o, m: t[k],
    "insert": lambda t, k, v, o, m: t.insert(k, v),
    "insert, one value": lambda t, k, v, o, m: t.insert(k, 42),
    "insert_or_assign": lambda t, k, v, o, m: t.insert_or_assign(k, v),
    "accumulate": lambda t, k, v, o, m: t.accumulate(k, 0),
    "erase and insert": lambda t, k, v, o, m: (t.erase(k), t.insert(k, v)),
    "find, signed keys": lambda t, k, v, o, m: t.find(v),
    "count": lambda t, k, v, o, m: t.count(k),
}
NUMBERS = {
    "find": lambda t: t.find(42),
    "contains": lambda t: t.contains(42),
    "k in t": lambda t: 42 in t,
    "get": lambda t: t.get(42),
    "t[k]": lambda t: t[42],
    "t[k] = v": lambda t: t.__setitem__(42, 42),
    "insert": lambda t: t.insert(42, 42),
    "insert_or_assign": lambda t: t.insert_or_assign(42, 42),
    "accumulate": lambda t: t.accumulate(42, 0),
    "erase": lambda t: t.erase(1042),
    "count": lambda t: t.count(42),
}


def microseconds(call, wait):
    """Median over batches of 100 calls, the device waited for at the end of each batch."""
    batches = []
    for _ in range(CALLS // 100):
        wait()
        start = time.perf_counter()
        for _ in range(100):
            call()
        wait()
        batches.append((time.perf_counter() - start) / 100)
    return statistics.median(batches) * 1e6


class OneKey:
    params = (BACKENDS, DEVICES, list(ARRAYS))
    param_names = ("backend", "device", "call")
    unit = "us"
    version = "2"

    def setup(self, backend, device, call):
        self.on = require(device)
        require_backend(backend, device)
        xp = self.on.xp
        self.table = gh.Table(backend, capacity=1000, device=device)
        self.table.insert(xp.arange(100, dtype="u8"), xp.arange(100, dtype="i8"))
        self.arrays = xp.asarray(np.array([42], "u8")), xp.asarray(np.array([42], "i8"))
        self.outputs = xp.empty(1, "i8"), xp.empty(1, bool)

    def teardown(self, backend, device, call):
        if hasattr(self, "table"):
            self.table.close()

    def track_array_us(self, backend, device, call):
        run = ARRAYS[call]
        result = microseconds(lambda: run(self.table, *self.arrays, *self.outputs), self.on.wait)
        assert int(self.table.find(self.arrays[0])[0][0]) == 42
        return result


class OneNumber:
    """On the CPU: a number is copied to a device, which is not what these measure."""

    params = (BACKENDS, list(NUMBERS))
    param_names = ("backend", "call")
    unit = "us"
    version = "1"

    def setup(self, backend, call):
        require_backend(backend, "cpu")
        self.table = gh.Table(backend, capacity=1000, device="cpu")
        self.table.insert(np.arange(100), np.arange(100))

    def teardown(self, backend, call):
        if hasattr(self, "table"):
            self.table.close()

    def track_number_us(self, backend, call):
        run = NUMBERS[call]
        result = microseconds(lambda: run(self.table), lambda: None)
        assert int(self.table[42]) == 42
        return result
