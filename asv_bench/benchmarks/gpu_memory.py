"""Bytes that a table in a GPU's memory holds per key."""

from .common import BACKENDS, LOADS, WIDTHS, bytes_per_key, require, require_backend


class Memory:
    params = (BACKENDS, LOADS, WIDTHS)
    param_names = ("backend", "load", "key+value bytes")
    unit = "bytes"
    version = "1"

    def track_bytes_per_key(self, backend, load, widths):
        on = require("cuda")
        require_backend(backend, "cuda")
        return bytes_per_key(on, backend, load, 1 << 20, widths)
