"""Ceilings of the machine's CPU. A change of one is not the library's, and no regression is looked for."""

from .common import ACCESSES, median_ceiling

N = 1 << 17


class Ceiling:
    """Random accesses over as much memory as a table of 8-byte slots at load 0.8 takes, by all threads."""

    params = (ACCESSES,)
    param_names = ("access",)
    unit = "ns"
    version = "1"

    def track_access_ns(self, access):
        return median_ceiling(access, "cpu", N * 10, N) / N * 1e9


class Copy:
    """Streaming: bytes read and written."""

    unit = "ns"
    version = "1"

    def track_kib_ns(self):
        return median_ceiling("copy", "cpu", N * 20, N * 10) / (N * 20 / 1024) * 1e9
