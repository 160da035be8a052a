"""Median nanoseconds per slab of 128 bytes on a GPU: allocate and free a million, one per element of a batch."""

import statistics

from .common import SLABS, require, slab_seconds


class SlabAllocator:
    params = (["slab_alloc", "slab_alloc_light"],)
    param_names = ("kind",)
    unit = "ns"
    version = "1"

    def setup(self, kind):
        self.seconds = slab_seconds(require("cuda"), kind)

    def track_allocate_ns(self, kind):
        return statistics.median(self.seconds["allocate"]) / SLABS * 1e9

    def track_free_ns(self, kind):
        return statistics.median(self.seconds["free"]) / SLABS * 1e9
