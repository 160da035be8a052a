"""Verbs on whole columns: nanoseconds of processor time per element, each result's size compared with numpy's."""

import numpy as np

from .common import least_processor_time, use_one_cpu
from .verbs_shared import KEYS, VERBS, N, columns


class Columns:
    params = (list(VERBS), KEYS)
    param_names = ("verb", "keys")
    unit = "ns"
    version = "1"

    def setup(self, verb, keys):
        use_one_cpu()
        self.keys, self.values, self.distinct = columns(np, keys)

    def track_element_ns(self, verb, keys):
        found = set()
        seconds = least_processor_time(lambda: found.add(VERBS[verb](self.keys, self.values)))
        assert found <= {None, self.distinct}, f"{verb} found {found} of {self.distinct} keys"
        return seconds / N * 1e9
