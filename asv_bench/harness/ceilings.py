"""Ceilings: the accesses that an operation cannot do without, timed in the same run as the operation.

A find has to read one slot at a random place, an insert, assign, accumulate or erase has to change one atomically. The
ratio of a table to its ceiling tells how much its hashing, comparing and probing cost beyond that; it can be compared
between machines, a rate cannot.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field

import pygpuhash as gh

from .runs import MIXTURE


def accesses(operation: str, slot_bytes: int) -> dict[str, float]:
    """How many accesses of which kind one key needs at least."""
    gather = f"gather{slot_bytes}"
    if operation in ("find_hit", "find_miss"):
        return {gather: 1.0}
    if operation == "mixed":
        changes = MIXTURE[0] + MIXTURE[1]
        return {"cas64": changes, gather: 1 - changes}
    return {"cas64": 1.0}


def label(needs: Mapping[str, float]) -> str:
    """ "cas64", or "0.4 cas64 + 0.6 gather8"."""
    return " + ".join(what if share == 1 else f"{share:g} {what}" for what, share in needs.items())


@dataclass
class Ceilings:
    """The ceilings of one device, each measured when it is first asked for. Sizes round up to the next 1/8 of a power
    of two, so that tables of nearly one size share a measurement."""

    device: str
    n: int
    repeats: int
    threads: int = 0
    measured: dict[tuple[str, int], list[float]] = field(default_factory=dict)

    def seconds(self, what: str, table_bytes: int) -> list[float]:
        """Seconds per access, of each repeat."""
        unit = max(1 << max(table_bytes.bit_length() - 4, 0), 128)
        size = -(-table_bytes // unit) * unit
        if (what, size) not in self.measured:
            times = gh.measure_ceiling(
                what, device=self.device, table_bytes=size, n=self.n, repeats=self.repeats, threads=self.threads
            )
            self.measured[what, size] = [float(t) / self.n for t in times]
        return self.measured[what, size]

    def per_key(self, operation: str, slot_bytes: int, table_bytes: int) -> float:
        """Seconds that one key of this operation needs at least: medians, in the order of `accesses`."""
        needs = accesses(operation, slot_bytes)
        return sum(share * statistics.median(self.seconds(what, table_bytes)) for what, share in needs.items())
