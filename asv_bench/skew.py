"""Counting keys of which some are frequent: `accumulate` of ones, by distribution, beside what else counts them.

    python -m asv_bench.skew --device cuda                        2^27 and 2^24 keys, about a minute
    python -m asv_bench.skew --n 1048576 --repeats 3              a first look, on the CPU

The table is empty before each batch and has room for the distinct keys at its default load; every count is compared
with an exact one. "no mask" is with `out=False`. Peers, on a GPU: `unique` of CuPy and of PyTorch, at sizes up to
--peers-at-most; on the CPU: numpy's. Prints the table, and writes <output>/<machine>/skew-<device>.md and .json.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import itertools
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import pygpuhash as gh

from .harness.arguments import one_sentence, pair, whole
from .harness.devices import device
from .harness.keys import random_keys
from .harness.results import RESULTS, circumstances, machine_name, markdown_table, write_report

Row = tuple[str, int, int, str, float, float, float]  # distribution, n, distinct, who, rates: median, least, most


def zipf(xp: Any, n: int, exponent: float) -> Any:
    """Ranks 1 .. 2^31 - 1, of which k comes about k^-exponent times as often as 1 (the continuous law, inverted)."""
    e = 1 - exponent
    u = xp.random.random(n)
    return xp.clip((1 + u * ((2.0**31) ** e - 1)) ** (1 / e), 1, 2**31 - 1).astype(np.uint32)


DISTRIBUTIONS: dict[str, Callable[[Any, int], Any]] = {
    "distinct": lambda xp, n: xp.arange(n, dtype=np.uint32),
    "uniform over n/2": lambda xp, n: xp.random.randint(0, n // 2, n).astype(np.uint32),
    "uniform over 2^20": lambda xp, n: xp.random.randint(0, 1 << 20, n).astype(np.uint32),
    "Zipf 1.05": lambda xp, n: zipf(xp, n, 1.05),
    "Zipf 1.3": lambda xp, n: zipf(xp, n, 1.3),
    "Zipf 2.0": lambda xp, n: zipf(xp, n, 2.0),
    "one key": lambda xp, n: xp.full(n, 77, np.uint32),
    "two keys in turn": lambda xp, n: xp.arange(n, dtype=np.uint32) % np.uint32(2),
    "runs of 1000": lambda xp, n: xp.arange(n, dtype=np.uint32) // np.uint32(1000),
}


def rates(n: int, seconds: Sequence[float]) -> tuple[float, float, float]:
    """Million keys per second: median, minimum, maximum."""
    return n / statistics.median(seconds) / 1e6, n / max(seconds) / 1e6, n / min(seconds) / 1e6


def repeated(on: Any, repeats: int, before: Callable[[], Any], work: Callable[[], Any]) -> list[float]:
    """Seconds of each repeat; one more goes before them, which does not count."""
    seconds = []
    for _ in range(repeats + 1):
        before()
        on.wait()
        seconds.append(on.time(work))
    return seconds[1:]


def peers(on: Any, keys: Any) -> dict[str, Callable[[], Any]]:
    """What else counts keys here."""
    found = {f"{on.xp.__name__}.unique": lambda: on.xp.unique(keys, return_counts=True)}
    if on.name != "cpu":
        try:
            torch = importlib.import_module("torch")
        except ImportError:
            return found
        same = torch.as_tensor(keys.view(on.xp.int32), device=on.name)
        found["torch.unique"] = lambda: torch.unique(same, return_counts=True)
    return found


def measure(on: Any, args: argparse.Namespace) -> Iterator[Row]:
    """Rows of every distribution and size. Raises AssertionError at a wrong count."""
    xp = on.xp
    for n in args.n:
        ones, fresh = xp.ones(n, np.uint32), xp.empty(n, bool)
        for name in args.distribution or DISTRIBUTIONS:
            keys = random_keys(xp, DISTRIBUTIONS[name](xp, n), 4)
            distinct, exact = xp.unique(keys, return_counts=True)
            m = int(distinct.size)
            for options, mask in itertools.product(args.option, (fresh, False)):
                size = {"capacity": max(m, 1000), "grow": False}
                types = {"key_dtype": "uint32", "value_dtype": "uint32"}
                with gh.Table(args.backend, device=on.name, **size, **types, **options) as table:
                    count = functools.partial(table.accumulate, keys, ones, out=mask)
                    seconds = repeated(on, args.repeats, table.clear, count)
                    counts, there = table.find(distinct)
                    assert bool(there.all()), f"{name}: keys are missing"
                    assert bool((counts == exact.astype(np.uint32)).all()), f"{name}: a count is wrong"
                    new = m if mask is False else int(fresh.sum())
                    assert len(table) == m == new, f"{name}: {len(table)} keys, {new} of them new"
                who = " ".join([args.backend, *(f"{key}={value}" for key, value in options.items())])
                yield name, n, m, who + (", no mask" if mask is False else ""), *rates(n, seconds)
            if n <= args.peers_at_most:
                for who, work in peers(on, keys).items():
                    yield name, n, m, who, *rates(n, repeated(on, args.repeats, lambda: None, work))


@one_sentence
def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m asv_bench.skew", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--device", default="cpu", help="cpu (default) or cuda")
    parser.add_argument("--backend", default="linear_probe")
    parser.add_argument("--n", type=whole(1), action="append", help="keys of a batch; may be repeated")
    parser.add_argument("--distribution", action="append", choices=list(DISTRIBUTIONS), help="may be repeated")
    parser.add_argument(
        "--option", type=pair, action="append", help="an option of the table beside its defaults, key=value"
    )
    parser.add_argument("--peers-at-most", type=whole(0), default=1 << 24, metavar="N", help="default: 2^24")
    parser.add_argument("--repeats", type=whole(1), default=5)
    parser.add_argument("--output", type=Path, default=RESULTS, help=f"default: {RESULTS}")
    args = parser.parse_args(arguments)
    args.n = args.n or ([1 << 27, 1 << 24] if args.device != "cpu" else [1 << 22])
    args.option = [{}, *(dict([o]) for o in args.option or [])]
    on = device(args.device)
    found = []
    for row in measure(on, args):
        found.append(row)
        print(f"{row[0]}, n {row[1]:,}, {row[3]}: {row[4]:,.0f} ({row[5]:,.0f} .. {row[6]:,.0f}) M/s", file=sys.stderr)
    about = circumstances({on.name: on.model})
    header = ("distribution", "n", "distinct", "who", "median", "min", "max")
    cells = [(d, f"{n:,}", f"{m:,}", who, *(f"{rate:,.0f}" for rate in all_)) for d, n, m, who, *all_ in found]
    text = f"# Counting skewed keys\n\n{on.model}; {about['date']}; commit {about['commit'][:8]}.\n\n"
    text += "Million keys per second.\n\n"
    text += markdown_table(header, cells)
    stem = args.output / machine_name() / f"skew-{on.name.partition(':')[0]}"
    write_report(stem, text, about, [dict(zip(header, row, strict=True)) for row in found])
    return 0


if __name__ == "__main__":
    sys.exit(main())
