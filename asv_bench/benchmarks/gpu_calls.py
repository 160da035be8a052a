"""A GPU as its users drive it: the host time of small calls, host arrays, growth from empty."""

import importlib
import itertools
import statistics
import time

import numpy as np

import pygpuhash as gh

from .calls import ARRAYS, CALLS, microseconds, small_table
from .common import BACKENDS, require, require_backend

BATCH = 1 << 20


class OneKey:
    """Arrays of one key: the device is waited for at the end of each batch of calls."""

    params = (BACKENDS, list(ARRAYS))
    param_names = ("backend", "call")
    unit = "us"
    version = "1"

    def setup(self, backend, call):
        self.on = require("cuda")
        require_backend(backend, "cuda")
        self.table, self.arrays, self.outputs = small_table(self.on.xp, backend, "cuda:0")

    def teardown(self, backend, call):
        if hasattr(self, "table"):
            self.table.close()

    def track_array_us(self, backend, call):
        result = microseconds(lambda: ARRAYS[call](self.table, *self.arrays, *self.outputs), self.on.wait)
        assert int(self.table.find(self.arrays[0])[0][0]) == 42
        return result


class SmallCall:
    """Time until a call with arrays of a library returns; the device is waited for in between.

    One process measures all of them: most of a process's time would go into loading the libraries.
    """

    params = (BACKENDS, ["cupy", "torch"], [1, 1 << 10, 1 << 16], ["find", "find, out", "insert", "insert, out"])
    param_names = ("backend", "library", "keys", "call")
    unit = "us"
    version = "2"
    rounds = CALLS // 100

    def setup_cache(self):
        measured = {}
        for backend, library in itertools.product(*self.params[:2]):
            try:
                require("cuda")
                require_backend(backend, "cuda")
                lib = importlib.import_module(library)
            except (ImportError, NotImplementedError) as error:
                measured[backend, library] = str(error)
                continue
            for n in self.params[2]:
                for call, us in self.microseconds(backend, lib, n):
                    measured[backend, library, n, call] = us
        return measured

    def microseconds(self, backend, lib, n):
        torch = lib.__name__ == "torch"
        wait = lib.cuda.synchronize if torch else lib.cuda.Device(0).synchronize
        with gh.Table(backend, key_dtype="int64", value_dtype="int64", capacity=1 << 20, device="cuda:0") as table:
            k = lib.arange(n, device="cuda") if torch else lib.arange(n)
            table.insert(k, k)
            v, f = table.find(k)
            calls = {
                "find": lambda: table.find(k),
                "find, out": lambda: table.find(k, out=v, found=f),
                "insert": lambda: table.insert(k, k),
                "insert, out": lambda: table.insert(k, k, out=f),
            }
            for name, call in calls.items():
                rounds = []
                for _ in range(self.rounds):
                    wait()
                    start = time.perf_counter()
                    for _ in range(100):
                        call()
                    rounds.append((time.perf_counter() - start) / 100)
                wait()
                yield name, statistics.median(rounds) * 1e6
            assert len(table) == n

    def setup(self, measured, backend, library, n, call):
        if (backend, library) in measured:
            raise NotImplementedError(measured[backend, library])

    def track_host_us(self, measured, backend, library, n, call):
        return measured[backend, library, n, call]


class HostArrays:
    """numpy arrays of 2^24 keys and values of 4 bytes in and out of a table on the GPU."""

    params = (BACKENDS, ["insert", "find", "find, new arrays"])
    param_names = ("backend", "call")
    unit = "ns"
    version = "1"
    n = 1 << 24

    def setup(self, backend, call):
        require("cuda")
        require_backend(backend, "cuda")
        self.keys = np.random.default_rng(1).permutation(self.n).astype("u4")
        self.out, self.mask = np.zeros(self.n, "u4"), np.zeros(self.n, bool)
        self.table = gh.Table(backend, key_dtype="uint32", value_dtype="uint32", capacity=self.n, device="cuda:0")
        self.table.insert(self.keys, self.keys)

    def teardown(self, backend, call):
        if hasattr(self, "table"):
            self.table.close()

    def track_key_ns(self, backend, call):
        seconds = []
        for _ in range(5):
            if call == "insert":
                self.table.clear()
            start = time.perf_counter()
            if call == "insert":
                self.table.insert(self.keys, self.keys, out=self.mask)
            elif call == "find":
                self.table.find(self.keys, out=self.out, found=self.mask)
            else:
                values, _ = self.table.find(self.keys)
            seconds.append(time.perf_counter() - start)
        if call != "insert":
            assert np.array_equal(self.out if call == "find" else values, self.keys)
        assert len(self.table) == self.n
        return statistics.median(seconds) / self.n * 1e9


class GrowthFromEmpty:
    """2^26 keys in batches of 2^20 into a table that starts empty: the time for a key, and the longest batch."""

    params = (BACKENDS,)
    param_names = ("backend",)
    version = "1"
    n = 1 << 26

    def setup(self, backend):
        self.on = require("cuda")
        require_backend(backend, "cuda")
        xp = self.on.xp
        self.keys = xp.arange(self.n, dtype="u4") * xp.uint32(2654435761)
        self.mask = xp.empty(BATCH, bool)

    def fill(self, backend, waiting):
        """Seconds of each batch, or of all where nothing is waited for."""
        seconds = []
        with gh.Table(backend, key_dtype="uint32", value_dtype="uint32", device="cuda:0") as table:
            self.on.wait()
            begin = time.perf_counter()
            for at in range(0, self.n, BATCH):
                start = time.perf_counter()
                table.insert(self.keys[at : at + BATCH], self.keys[at : at + BATCH], out=self.mask)
                if waiting:
                    self.on.wait()
                    seconds.append(time.perf_counter() - start)
            self.on.wait()
            seconds = seconds or [time.perf_counter() - begin]
            assert len(table) == self.n
        return seconds

    def track_key_ns(self, backend):
        return min(sum(self.fill(backend, waiting=False)) for _ in range(3)) / self.n * 1e9

    track_key_ns.unit = "ns"

    def track_longest_batch_ms(self, backend):
        return 1e3 * min(max(self.fill(backend, waiting=True)) for _ in range(3))

    track_longest_batch_ms.unit = "ms"
