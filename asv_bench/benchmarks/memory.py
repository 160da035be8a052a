"""Bytes that a table holds per key."""

from harness.runs import TableRun
from harness.sizes import keys_for

from .common import BACKENDS, DEVICES, LOADS, WIDTHS, pair, require, require_backend


class Memory:
    params = (BACKENDS, DEVICES, LOADS, WIDTHS)
    param_names = ("backend", "device", "load", "key+value bytes")
    unit = "bytes/key"
    version = "1"

    def setup(self, backend, device, load, widths):
        on = require(device)
        require_backend(backend, device)
        self.run = TableRun(on, backend, load, keys_for(device), pair(widths))
        self.run.bring_to_start("find_hit")

    def teardown(self, backend, device, load, widths):
        if hasattr(self, "run"):
            self.run.close()

    def track_bytes_per_key(self, backend, device, load, widths):
        return self.run.table.nbytes / len(self.run.table)
