"""Finding keys in tables of which a cache holds all or much: one large batch, by size of the table.

    python -m asv_bench.in_cache --device cuda                         2^14 to 2^22 keys, batches of 2^24
    python -m asv_bench.in_cache --keys 16384 --queries 1048576        a first look, on the CPU
    python -m asv_bench.in_cache --device cuda --option row=8 --option row=16

The queries are keys of the table, each as often as any other, in random order; then as many absent keys. Every answer
is compared. The ceiling is one read of a slot's bytes at a random place of memory as large as the table, from the same
run. Prints the table, and writes <output>/<machine>/in-cache-<device>.md and .json.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .harness.arguments import one_sentence, pair, real, whole
from .harness.ceilings import Ceilings
from .harness.devices import device
from .harness.keys import random_keys
from .harness.results import RESULTS, circumstances, machine_name, markdown_table, write_report
from .harness.runs import make_table
from .skew import rates, repeated

HEADER = ("backend", "load", "keys", "operation", "median", "min", "max", "ceiling", "ratio")
Row = tuple[str, float, int, str, float, float, float, float, float]


def measure(on: Any, args: argparse.Namespace) -> Iterator[Row]:
    """Rows of every backend, load and size. Raises AssertionError at a wrong answer."""
    xp, n = on.xp, args.queries
    out, found = xp.empty(n, np.uint32), xp.empty(n, bool)
    ceilings = Ceilings(on.name, n, args.repeats)
    for backend in args.backend or ["linear_probe"]:
        for load in args.load or [0.5, 0.8]:
            for keys in args.keys or [1 << 14, 1 << 17, 1 << 20, 1 << 22]:
                for options in args.option:
                    who = " ".join([backend, *(f"{key}={value}" for key, value in options.items())])
                    index = xp.random.randint(0, keys, n).astype(np.uint32)
                    with make_table(backend, on, load, keys, (4, 4), **options) as table:
                        all_ = xp.arange(keys, dtype=np.uint32)
                        assert bool(table.insert(random_keys(xp, all_, 4), all_).all())
                        least = ceilings.seconds("gather8", table.nbytes)
                        ceiling = 1 / statistics.median(least) / 1e6
                        for operation, first in (("hit", 0), ("miss", keys)):
                            queries = random_keys(xp, index + np.uint32(first), 4)
                            out.fill(7)
                            look = functools.partial(table.find, queries, out=out, found=found)
                            seconds = repeated(on, args.repeats, lambda: None, look)
                            right = found & (out == index) if operation == "hit" else ~found & (out == 0)
                            assert bool(right.all()), f"{who}: wrong answers"
                            median, slowest, fastest = rates(n, seconds)
                            yield who, load, keys, operation, median, slowest, fastest, ceiling, median / ceiling


@one_sentence
def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m asv_bench.in_cache", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--device", default="cpu", help="cpu (default) or cuda")
    parser.add_argument("--backend", action="append", help="default: linear_probe; may be repeated")
    parser.add_argument("--keys", type=whole(1), action="append", help="keys of a table; may be repeated")
    parser.add_argument("--load", type=real(0.05, 0.99), action="append", help="may be repeated; default: 0.5 and 0.8")
    parser.add_argument("--queries", type=whole(1), default=1 << 24, help="keys of a batch; default: 2^24")
    parser.add_argument(
        "--option", type=pair, action="append", help="an option of the table instead of its default, key=value"
    )
    parser.add_argument("--repeats", type=whole(1), default=7)
    parser.add_argument("--output", type=Path, default=RESULTS, help=f"default: {RESULTS}")
    args = parser.parse_args(arguments)
    args.option = [dict([o]) for o in args.option or []] or [{}]
    on = device(args.device)
    rows = []
    for row in measure(on, args):
        rows.append(row)
        print(" ".join(f"{x:.3g}" if isinstance(x, float) else str(x) for x in row), file=sys.stderr, flush=True)
    about = circumstances({on.name: on.model})
    cells = [(w, f"{load:g}", f"{k:,}", o, *(f"{x:,.0f}" for x in r[:4]), f"{r[4]:.2f}") for w, load, k, o, *r in rows]
    text = f"# Finding keys in tables of a cache's size\n\n{on.model}; {about['date']}; commit {about['commit'][:8]}.\n"
    text += f"\n{args.queries:,} keys of 4 bytes per batch, with values of 4. Million keys per second.\n\n"
    text += markdown_table(HEADER, cells)
    stem = args.output / machine_name() / f"in-cache-{on.name.partition(':')[0]}"
    write_report(stem, text, about, [dict(zip(HEADER, row, strict=True)) for row in rows])
    return 0


if __name__ == "__main__":
    sys.exit(main())
