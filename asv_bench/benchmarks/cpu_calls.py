"""What a call costs before the first key: microseconds of processor time, the least of batches of a hundred calls."""

import time

import numpy as np

from .calls import ARRAYS, NUMBERS, batches, small_table
from .common import BACKENDS, require_backend, use_one_cpu


def least(call):
    """Microseconds of a call."""
    return min(batches(call, lambda: None, time.process_time))


class OneKey:
    params = (BACKENDS, list(ARRAYS))
    param_names = ("backend", "call")
    unit = "us"
    version = "1"

    def setup(self, backend, call):
        use_one_cpu()
        require_backend(backend, "cpu")
        self.table, self.arrays, self.outputs = small_table(np, backend, "cpu")

    def teardown(self, backend, call):
        if hasattr(self, "table"):
            self.table.close()

    def track_array_us(self, backend, call):
        result = least(lambda: ARRAYS[call](self.table, *self.arrays, *self.outputs))
        assert int(self.table.find(self.arrays[0])[0][0]) == 42
        return result


class OneNumber:
    params = (BACKENDS, list(NUMBERS))
    param_names = ("backend", "call")
    unit = "us"
    version = "1"

    def setup(self, backend, call):
        use_one_cpu()
        require_backend(backend, "cpu")
        self.table, *_ = small_table(np, backend, "cpu")

    def teardown(self, backend, call):
        if hasattr(self, "table"):
            self.table.close()

    def track_number_us(self, backend, call):
        result = least(lambda: NUMBERS[call](self.table))
        assert int(self.table[42]) == 42
        return result
