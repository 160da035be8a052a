"""Bytes that a table holds per key."""

from .common import BACKENDS, LOADS, WIDTHS, bytes_per_key, require, require_backend


class Memory:
    params = (BACKENDS, LOADS, WIDTHS)
    param_names = ("backend", "load", "key+value bytes")
    unit = "bytes"
    version = "1"

    def track_bytes_per_key(self, backend, load, widths):
        require_backend(backend, "cpu")
        return bytes_per_key(require("cpu"), backend, load, 1 << 17, widths)
