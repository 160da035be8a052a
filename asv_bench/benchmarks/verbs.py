"""Verbs on whole columns: ns per key, each result's size compared with numpy's."""

import time

import numpy as np
from harness.keys import random_keys

import pygpuhash as gh

from .common import DEVICES, REPEATS, require

N = 1 << 20

VERBS = {
    "unique": lambda k, v: len(gh.unique(k)),
    "unique, first": lambda k, v: len(gh.unique(k, order="first")),
    "value_counts": lambda k, v: len(gh.value_counts(k)[1]),
    "factorize": lambda k, v: len(gh.factorize(k)[1]),
    "isin": lambda k, v: int(gh.isin(k, k[:1000]).sum() > 0) and None,
    "group_reduce": lambda k, v: len(gh.group_reduce(k, v)[1]),
    "join_indexer": lambda k, v: int(len(gh.join_indexer(k, k[:1000])[0]) > 0) and None,
}


class Columns:
    params = (DEVICES, list(VERBS), ["1000 keys", "n/2 keys"])
    param_names = ("device", "verb", "keys")
    unit = "ns"
    version = "1"

    def setup(self, device, verb, keys):
        if device != "cpu" and verb == "join_indexer":
            raise NotImplementedError("join_indexer takes host columns")
        self.on = require(device)
        xp = self.on.xp
        several = 1000 if keys == "1000 keys" else N // 2
        host = np.random.default_rng(1).integers(0, several, N).astype(np.uint32)
        self.distinct = len(np.unique(host))
        self.keys, self.values = random_keys(xp, xp.asarray(host), 4), xp.arange(N, dtype="i8")

    def track_key_ns(self, device, verb, keys):
        seconds = []
        for _ in range(REPEATS + 1):
            self.on.wait()
            start = time.perf_counter()
            found = VERBS[verb](self.keys, self.values)
            self.on.wait()
            seconds.append(time.perf_counter() - start)
            assert found in (None, self.distinct), f"{verb} found {found} of {self.distinct} keys"
        return min(seconds[1:]) / N * 1e9
