"""Large batches that add, divided by parts of the table, and one element after the other: what `parts=auto` follows.

    python -m asv_bench.by_parts                                         all that CUDA's rule was taken from
    python -m asv_bench.by_parts --backend hive --bytes 4+4 --n 4194304  a first look

Each batch has n distinct keys, or the last n/2 or n/4 of them, of a table for n keys at its usual load. Those that are
there before are spread over the batch. With and without an array for statuses. After each batch the size of the table
is compared with what it has to be, and so is the number of elements whose status says that they are new. Prints the
table, and writes <output>/<machine>/by-parts-<device>.md and .json.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pygpuhash as gh

from .harness.devices import Unavailable, device
from .harness.keys import random_keys
from .harness.results import RESULTS, circumstances, machine_name, markdown_table, write_report
from .harness.runs import table_options
from .skew import repeated

LOADS = {"linear_probe": 0.8, "hive": 0.8, "slab_hash": 0.6}
WIDTHS = {"4+4": (4, 4), "8+8": (8, 8), "4+0": (4, 0), "8+0": (8, 0), "4+8": (4, 8)}
VERBS = ("insert", "insert_or_assign", "accumulate")
# What the table has before, and the batch, in sixteenths of the n keys.
CASES = {
    "empty table": (0, 0, 16),
    "1/16 of them there": (1, 0, 16),
    "1/8 of them there": (2, 0, 16),
    "1/4 of them there": (4, 0, 16),
    "1/2 of them there": (8, 0, 16),
    "3/4 of them there": (12, 0, 16),
    "all of them there": (16, 0, 16),
    "the 2nd half, beside the 1st": (8, 8, 16),
    "the last 1/4, beside the others": (12, 12, 16),
}
HEADER = ("backend", "bytes", "n", "batch", "statuses", "keys", "by parts", "one by one", "ratio")
Row = tuple[str, str, int, str, str, str, float, float, float]


def batch_of(xp: Any, keys: Any, case: str) -> tuple[Any, Any]:
    """(the keys that the table has before, those of the batch)"""
    before, begin, end = (x * keys.size // 16 for x in CASES[case])
    batch = keys[begin:end]
    if begin or before in (0, keys.size):
        return keys[:before], batch
    return keys[:before], xp.ascontiguousarray(batch.reshape(16, -1).T.ravel())  # both kinds in turn


def measure(on: Any, args: argparse.Namespace) -> Iterator[Row]:
    """Rows of every backend, size and case. Raises AssertionError at a wrong answer."""
    xp = on.xp
    for backend, n, widths in itertools.product(args.backend, args.n, args.bytes):
        of_key, of_value = WIDTHS[widths]
        keys = random_keys(xp, xp.arange(n, dtype="u8"), of_key)
        values = xp.ones(n, f"u{of_value}") if of_value else None
        mask = xp.empty(n, bool)
        for verb, with_statuses, case in itertools.product(VERBS if of_value else VERBS[:1], (True, False), CASES):
            before, batch = batch_of(xp, keys, case)
            fresh = batch.size - (0 if CASES[case][1] else before.size)
            rates = []
            for parts in ("always", "never"):
                with gh.Table(
                    backend,
                    key_dtype=keys.dtype,
                    value_dtype=None if values is None else values.dtype,
                    capacity=n,
                    grow=False,
                    device=on.name,
                    parts=parts,
                    **table_options(backend, LOADS[backend]),
                ) as table:
                    arrays = [(k,) if values is None else (k, values[: k.size]) for k in (before, batch)]

                    def prepare(table: Any = table, arrays: Any = arrays) -> None:
                        table.clear()
                        if arrays[0][0].size:
                            table.insert(*arrays[0], out=False)

                    out = mask[: batch.size] if with_statuses else False
                    work = functools.partial(getattr(table, verb), *arrays[1], out=out)
                    rates.append(batch.size / statistics.median(repeated(on, args.repeats, prepare, work)) / 1e9)
                    assert len(table) == before.size + fresh, f"{backend}, {case}: {len(table)} keys"
                    assert not with_statuses or int(mask[: batch.size].sum()) == fresh, (
                        f"{backend}, {case}: wrong statuses"
                    )
            yield backend, widths, n, verb, "yes" if with_statuses else "no", case, *rates, rates[0] / rates[1]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m asv_bench.by_parts", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--device", default="cuda", help="cuda (default), or cpu, whose parts are something else")
    parser.add_argument("--backend", action="append", choices=list(LOADS), help="may be repeated; default: all")
    parser.add_argument("--bytes", action="append", choices=list(WIDTHS), help="key+value; may be repeated")
    parser.add_argument("--n", type=int, action="append", help="a multiple of 256; default: 2^21, 2^24 and 2^26")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", type=Path, default=RESULTS, help=f"default: {RESULTS}")
    args = parser.parse_args(arguments)
    args.backend, args.bytes = args.backend or list(LOADS), args.bytes or list(WIDTHS)
    args.n = args.n or [1 << 21, 1 << 24, 1 << 26]
    for n in args.n:
        if n < 1024 or n % 256:
            parser.error(f"--n {n}: use a multiple of 256 from 1024 on")
    try:
        on = device(args.device)
    except Unavailable as error:
        print(f"by_parts: {error}", file=sys.stderr)
        return 2
    rows = []
    for row in measure(on, args):
        rows.append(row)
        print(" ".join(f"{x:.2f}" if isinstance(x, float) else str(x) for x in row), file=sys.stderr, flush=True)
    about = circumstances({on.name: on.model})
    cells = [(b, w, f"{n:,}", v, s, k, *(f"{x:.2f}" for x in r)) for b, w, n, v, s, k, *r in rows]
    text = f"# Batches by parts of the table\n\n{on.model}; {about['date']}; commit {about['commit'][:8]}.\n"
    text += "\nBillion elements per second.\n\n" + markdown_table(HEADER, cells)
    stem = args.output / machine_name() / f"by-parts-{on.name.partition(':')[0]}"
    write_report(stem, text, about, [dict(zip(HEADER, row, strict=True)) for row in rows])
    return 0


if __name__ == "__main__":
    sys.exit(main())
