"""Nanoseconds per key of the backend cuckoo and of gpuhash's default, on the same keys: `asv run --python=same`."""

import time

import numpy as np
import pygpuhash as gh

N, ROUNDS = 1 << 18, 5


class Batches:
    """One call with 2^18 random keys, the median of five."""

    params = (["cuckoo", "linear_probe"],)
    param_names = ("backend",)
    unit = "ns per key"

    def setup(self, backend):
        self.keys = np.random.default_rng(1).permutation(2 * N).astype("u8")
        self.table = gh.Table(backend, key_dtype="u8", value_dtype="u8", capacity=N, device="cpu")
        self.table.insert(self.keys[:N], self.keys[:N])

    def teardown(self, backend):
        self.table.close()

    def _median(self, call, prepare=lambda: None):
        seconds = []
        for _ in range(ROUNDS + 1):  # the first one is not counted
            prepare()
            start = time.perf_counter()
            call()
            seconds.append(time.perf_counter() - start)
        return float(np.median(seconds[1:])) / N * 1e9

    def track_insert(self, backend):
        return self._median(lambda: self.table.insert(self.keys[:N], self.keys[:N]), self.table.clear)

    def track_find_present(self, backend):
        return self._median(lambda: self.table.find(self.keys[:N]))

    def track_find_absent(self, backend):
        return self._median(lambda: self.table.find(self.keys[N:]))


for _method in (Batches.track_insert, Batches.track_find_present, Batches.track_find_absent):
    _method.unit = Batches.unit
