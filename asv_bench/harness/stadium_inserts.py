"""Inserts into one table of stadium, with one value of the option `inserts`, for a profiler.

python -m asv_bench.harness.stadium_inserts NAME LOAD N
"""

from __future__ import annotations

import sys

import pygpuhash as gh

from .cuckoo import Cuckoo
from .devices import device
from .keys import random_keys


def main(name: str, load: float, n: int) -> None:
    """NAME is cuckoo, stash or clstash."""
    on = device("cuda")
    xp = on.xp
    keys = random_keys(xp, xp.arange(n, dtype="u4"), 4)
    if name == "cuckoo":
        keys[keys == 0xFFFFFFFF] = 0xFFFFFFFE
        other = Cuckoo(xp, int(n / load))
        other.insert(keys, keys)
        print(int(other.failed[0]), "found no place")
        return
    with gh.Table(
        "stadium",
        key_dtype="u4",
        value_dtype="u4",
        capacity=n,
        max_load_factor=load,
        grow=False,
        device=on.name,
        seed=1,
        inserts=name,
    ) as table:
        assert bool(table.insert(keys, keys).all())


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]))
