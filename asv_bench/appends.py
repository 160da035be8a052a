"""Batches behind the end of a skiplist, as time stamps are: built at once, and key by key.

    python -m asv_bench.appends --device cuda      2^12 to 2^20 keys behind 2^22; seconds
    python -m asv_bench.appends                    2^8 to 2^16 keys behind 2^20, on the CPU

Keys and values have 4 bytes. All keys of a batch are larger than those that are there, in order or shuffled; each batch
is waited for, and the table is compared with what went in. "at once" is a growing table with `build="auto"`, "key by
key" one with `build="never"`. The first batch does not count. Prints the table, and writes
<output>/<machine>/appends-<device>.md and .json.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import pygpuhash as gh

from .harness.arguments import one_sentence, whole
from .harness.devices import device
from .harness.results import RESULTS, circumstances, machine_name, markdown_table, write_report

HEADER = ("there", "elements", "in the batch", "how", "Mkeys_per_s", "min", "max")
Row = tuple[int, int, str, str, float, float, float]


def measure(on: Any, there: int, sizes: Sequence[int], repeats: int) -> Iterator[Row]:
    """Rows of every size. Raises AssertionError where a pair is missing, or a status is wrong."""
    xp = on.xp
    first = xp.asarray(np.random.default_rng(1).permutation(there).astype(np.uint32))
    for n in sizes:
        for arranged, arrange in (("in order", np.sort), ("shuffled", np.random.default_rng(2).permutation)):
            for how, build in (("key by key", "never"), ("at once", "auto")):
                types: dict[str, Any] = {"key_dtype": "u4", "value_dtype": "u4"}
                room = there + (repeats + 1) * n
                with gh.Table("skiplist", device=on.name, capacity=room, build=build, **types) as t:
                    t.insert(first, ~first)
                    seconds = []
                    for i in range(repeats + 1):
                        keys = xp.asarray(arrange(np.arange(n, dtype=np.uint32)) + np.uint32(there + i * n))
                        fresh = xp.empty(n, bool)
                        on.wait()
                        seconds.append(on.time(lambda k=keys, new=fresh, table=t: table.insert(k, ~k, out=new)))
                        assert bool(fresh.all()), "a key behind the end was there"
                    keys, values = t.export()
                    assert np.array_equal(keys, np.arange(room, dtype=np.uint32)), "keys are missing"
                    assert np.array_equal(values, ~keys), "a value is wrong"
                rates = [n / s / 1e6 for s in seconds[1:]]
                yield there, n, arranged, how, statistics.median(rates), min(rates), max(rates)


@one_sentence
def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m asv_bench.appends", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--device", default="cpu", help="cpu (default) or cuda")
    parser.add_argument("--there", type=whole(1), help="keys of the table before; default: 2^22, 2^20 on the CPU")
    parser.add_argument("--n", type=whole(1), action="append", help="keys of a batch; may be repeated")
    parser.add_argument("--repeats", type=whole(1), default=5)
    parser.add_argument("--output", type=Path, default=RESULTS, help=f"default: {RESULTS}")
    args = parser.parse_args(arguments)
    on = device(args.device)
    gpu = on.name != "cpu"
    sizes = args.n or [1 << i for i in (range(12, 21, 2) if gpu else range(8, 17, 2))]
    rows = []
    for row in measure(on, args.there or 1 << (22 if gpu else 20), sizes, args.repeats):
        rows.append(row)
        print(f"{row[1]:,} {row[2]}, {row[3]}: {row[4]:.1f} ({row[5]:.1f} .. {row[6]:.1f}) M/s", file=sys.stderr)
    about = circumstances({on.name: on.model})
    text = f"# Batches behind the end of a skiplist\n\n{on.model}; {about['date']}; commit {about['commit'][:8]}.\n\n"
    cells = [(f"{row[0]:,}", f"{row[1]:,}", row[2], row[3], *(f"{rate:.1f}" for rate in row[4:])) for row in rows]
    text += markdown_table(HEADER, cells)
    stem = args.output / machine_name() / f"appends-{on.name.partition(':')[0]}"
    write_report(stem, text, about, [dict(zip(HEADER, row, strict=True)) for row in rows])
    return 0


if __name__ == "__main__":
    sys.exit(main())
