"""What the machine can do at best. A change here is a change of the machine, not of the library."""

import statistics

from harness.sizes import keys_for

import pygpuhash as gh

from .common import DEVICES, REPEATS, require


class Ceiling:
    """Random accesses over as much memory as a table of 8-byte slots at load 0.8 takes."""

    params = (["gather8", "gather16", "gather32", "gather64", "gather128", "cas64"], DEVICES)
    param_names = ("access", "device")
    unit = "ns/access"
    version = "1"

    def setup(self, access, device):
        require(device)

    def track_ns_per_access(self, access, device):
        n = keys_for(device)
        times = gh.measure_ceiling(access, device=device, table_bytes=n * 10, n=n, repeats=REPEATS)
        return statistics.median(times) / n * 1e9


class Copy:
    """Streaming: bytes read and written."""

    params = (DEVICES,)
    param_names = ("device",)
    unit = "ns/KiB"
    version = "1"

    def setup(self, device):
        require(device)

    def track_ns_per_kib(self, device):
        n = keys_for(device) * 10
        times = gh.measure_ceiling("copy", device=device, table_bytes=2 * n, n=n, repeats=REPEATS)
        return statistics.median(times) / (2 * n / 1024) * 1e9
