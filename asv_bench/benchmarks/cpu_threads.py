"""The gain of more threads: nanoseconds per key by the wall clock, with the named number of threads."""

import os

from harness.runs import TableRun

from .common import BACKENDS, MANY, require, require_backend


class Threads:
    """Finding all keys of a table of 2^20. The least of many, on a machine that does nothing else."""

    params = (BACKENDS, [1, 2, 4, 8, 16])
    param_names = ("backend", "threads")
    unit = "ns"
    version = "1"

    def setup(self, backend, threads):
        require_backend(backend, "cpu")
        if threads > len(os.sched_getaffinity(0)):
            raise NotImplementedError(f"this process may use {len(os.sched_getaffinity(0))} CPUs")
        self.run = TableRun(require("cpu"), backend, 0.8, 1 << 20, threads=threads)
        self.run.bring_to_start("find_hit")

    def teardown(self, backend, threads):
        if hasattr(self, "run"):
            self.run.close()

    def track_wall_key_ns(self, backend, threads):
        return min(self.run.measure(["find_hit"], MANY)["find_hit"]) / self.run.n * 1e9
