"""Nanoseconds of processor time per slab of 128 bytes: allocate and free a million, one per element of a batch."""

from .common import SLABS, require, slab_seconds, use_one_cpu


class SlabAllocator:
    params = (["slab_alloc", "slab_alloc_light"],)
    param_names = ("kind",)
    unit = "ns"
    version = "1"

    def setup(self, kind):
        use_one_cpu()
        self.seconds = slab_seconds(require("cpu").of_one_thread(), kind)

    def track_allocate_ns(self, kind):
        return min(self.seconds["allocate"]) / SLABS * 1e9

    def track_free_ns(self, kind):
        return min(self.seconds["free"]) / SLABS * 1e9
