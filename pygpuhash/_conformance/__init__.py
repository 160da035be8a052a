"""The conformance suite: what every backend has to do, checked through `Table` alone.

harness.py      targets, checks, failures, and the run of all checks
arrays.py       keys, values, bit patterns
contents.py     lifecycle, widths, batch sizes, bit patterns, duplicates of a batch
meaning.py      accumulate, execute, several values per key
ordered.py      neighbours, ranges and slices against a sorted list
room.py         full tables, growth, ageing, maintenance, memory
concurrency.py  several threads on one table
differential.py random programs of operations against a dict
wide.py         keys and values of any multiple of 4 bytes
claims.py       what a manifest says

A check is a function of a `Target`, registered by `@check`. Only a trait that the backend does not have lets a check be
skipped.
"""

from pygpuhash._conformance import claims, concurrency, contents, differential, meaning, ordered, room, wide
from pygpuhash._conformance.harness import CHECKS, Failure, Outcome, Target, run

__all__ = [
    "CHECKS",
    "Failure",
    "Outcome",
    "Target",
    "claims",
    "concurrency",
    "contents",
    "differential",
    "meaning",
    "ordered",
    "room",
    "run",
    "wide",
]
