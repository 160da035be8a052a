"""Rows by shard: numbers of shards, and keys with values grouped, by how many shards there are.

    python -m asv_bench.partition                       10^7 pairs of 8 and 8 bytes, 2 to 65,536 shards
    python -m asv_bench.partition --n 100000 --shards 8

Processor time of one thread, into arrays that are there already; before, every result is compared with numpy's. The
ceiling is a copy of the keys, from the same run. Prints the table.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence

import numpy as np

import pygpuhash as gh
from pygpuhash.columns import read
from pygpuhash.columns._engine import partition_rows

from .harness.arguments import one_sentence, whole
from .harness.results import circumstances, markdown_table

HEADER = ("shards", "operation", "median", "min", "max", "of a copy")


def rates(n: int, repeats: int, call: Callable[[], object]) -> tuple[float, float, float]:
    """Million rows per second of processor time: median, minimum, maximum."""
    seconds = []
    for _ in range(repeats):
        start = time.thread_time()
        call()
        seconds.append(time.thread_time() - start)
    ordered = (statistics.median(seconds), max(seconds), min(seconds))
    median, least, most = (n / one / 1e6 for one in ordered)
    return median, least, most


def check(keys: np.ndarray, shards: int) -> None:
    """Raises AssertionError where rows are not those that numpy groups."""
    made, ids = gh.partition(keys, shards, values=keys), gh.shard_of(keys, shards)
    assert np.array_equal(made.order, np.argsort(ids, kind="stable")), "wrong order"
    assert np.array_equal(made.keys, keys[made.order]), "wrong keys"
    assert np.array_equal(made.values, made.keys), "wrong values"


@one_sentence
def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m asv_bench.partition", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--n", type=whole(1), default=10**7, help="rows; default: 10^7")
    parser.add_argument("--shards", type=whole(1, 65536), action="append", help="may be repeated")
    parser.add_argument("--repeats", type=whole(1), default=7)
    args = parser.parse_args(arguments)
    keys = np.random.default_rng(0).integers(0, 2**62, args.n)
    column = read(keys, "keys")
    (chunk,) = column.chunks
    ids, to, values, order = (np.zeros(args.n, dtype) for dtype in ("i4", "i8", "i8", "i8"))
    copy = rates(args.n, args.repeats, lambda: np.copyto(to, keys))
    rows = [("", "copy of 8 bytes", *copy)]
    for shards in args.shards or (2, 8, 64, 256, 1024, 4096, 65536):
        check(keys, shards)
        offsets = np.zeros(shards + 1, np.int64)
        how = (column.schema, chunk, shards, 0, 1)
        calls = {
            "ids": lambda how=how: partition_rows(*how, ids=ids),
            "pairs": lambda how=how, o=offsets: partition_rows(*how, offsets=o, keys=to, values=keys, grouped=values),
            "order": lambda how=how, o=offsets: partition_rows(*how, offsets=o, order=order),
        }
        rows += [(f"{shards:,}", name, *rates(args.n, args.repeats, call)) for name, call in calls.items()]
    about = circumstances({})
    print(f"{args.n:,} rows; million rows per second of processor time; {about['date']}, {about['commit'][:8]}\n")
    print(
        markdown_table(HEADER, [(*row[:2], *(f"{x:,.0f}" for x in row[2:]), f"{row[2] / copy[0]:.2f}") for row in rows])
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
