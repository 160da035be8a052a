"""Verbs on whole columns of a GPU: median nanoseconds per element, each result's size compared with numpy's."""

import statistics
import time

from .common import REPEATS, require
from .verbs_shared import KEYS, VERBS, N, columns

ON_GPU = [verb for verb in VERBS if verb != "join_indexer"]  # which takes host columns


class Columns:
    params = (ON_GPU, KEYS)
    param_names = ("verb", "keys")
    unit = "ns"
    version = "1"

    def setup(self, verb, keys):
        self.on = require("cuda")
        self.keys, self.values, self.distinct = columns(self.on.xp, keys)

    def track_element_ns(self, verb, keys):
        seconds = []
        for _ in range(REPEATS + 1):
            self.on.wait()
            start = time.perf_counter()
            found = VERBS[verb](self.keys, self.values)
            self.on.wait()
            seconds.append(time.perf_counter() - start)
            assert found in (None, self.distinct), f"{verb} found {found} of {self.distinct} keys"
        return statistics.median(seconds[1:]) / N * 1e9
