"""Ceilings of the card. A change of one is not the library's, and no regression is looked for."""

from harness.card import key_ceilings
from harness.card_courses import CardCourse, card_sizes
from harness.courses import OPERATIONS

from .common import ACCESSES, median_ceiling, require

N = 1 << 27


class Ceiling:
    """Random accesses over as much memory as a table of 8-byte slots at load 0.8 takes."""

    params = (ACCESSES,)
    param_names = ("access",)
    unit = "ns"
    version = "1"

    def track_access_ns(self, access):
        require("cuda")
        return median_ceiling(access, "cuda", N * 10, N) / N * 1e9


class Copy:
    """Streaming: bytes read and written."""

    unit = "ns"
    version = "1"

    def track_kib_ns(self):
        require("cuda")
        return median_ceiling("copy", "cuda", N * 20, N * 10) / (N * 20 / 1024) * 1e9


class TableCeiling:
    """What a key of a batch in `gpu_tables.Tables` needs at least, by its accesses at random places."""

    params = (list(OPERATIONS), [CardCourse("", *size).label for size in card_sizes()])
    param_names = ("operation", "bytes and keys")
    unit = "ns"
    version = "1"

    def setup_cache(self):
        try:
            require("cuda")
        except NotImplementedError:  # of each benchmark: one of setup_cache would be a failure
            return {}
        return key_ceilings()

    def track_key_ns(self, measured, operation, label):
        require("cuda")
        return measured[operation, label]
