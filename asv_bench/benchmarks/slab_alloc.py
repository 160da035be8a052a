"""Nanoseconds per slab of 128 bytes: allocate and free a million, one per element of a batch."""

import statistics

from harness.allocators import measure_slab_allocator

import pygpuhash as gh

from .common import DEVICES, REPEATS, require

SLABS = 1 << 20


class SlabAllocator:
    params = (["slab_alloc", "slab_alloc_light"], DEVICES)
    param_names = ("kind", "device")
    unit = "ns/slab"
    version = "1"

    def setup(self, kind, device):
        self.on = require(device)
        try:
            self.seconds = measure_slab_allocator(self.on, kind, SLABS, 128, REPEATS)
        except (gh.Unsupported, gh.BackendNotFound, gh.NotFound) as error:
            raise NotImplementedError(str(error)) from error

    def track_allocate_ns(self, kind, device):
        return statistics.median(self.seconds["allocate"]) / SLABS * 1e9

    def track_free_ns(self, kind, device):
        return statistics.median(self.seconds["free"]) / SLABS * 1e9
