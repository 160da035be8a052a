"""A skiplist on the CPU beside sorted arrays: finds, ranges, and the build of sorted pairs.

    python -m asv_bench.ordered                       2^22 and 2^24 keys
    python -m asv_bench.ordered --keys 262144         a first look

Keys and values have 4 bytes. `find` and its like are random queries of present keys; `range` is ranges of 16 and of
1,000 pairs at random places; `build` inserts pairs into an empty table, `flush` writes dense chunks again. Every answer
is compared with the sorted array. The lines of others are numpy.searchsorted on a sorted array, and one call per key of
`bisect_left` of the module bisect on a list, and of sortedcontainers.SortedList. Streams of memory are read (by an
or of its words) and copied by the same number of threads. Prints the table, and writes
<output>/<machine>/ordered-cpu.md and .json.
"""

from __future__ import annotations

import argparse
import bisect
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import pygpuhash as gh

from .harness.arguments import one_sentence, pair, whole
from .harness.devices import device
from .harness.keys import random_keys
from .harness.results import RESULTS, circumstances, machine_name, markdown_table, write_report

HEADER = ("keys", "what", "threads", "Mkeys_per_s", "min", "max", "compared with", "ratio", "goal")
QUERIES, PER_KEY, SHORT, LONG = 1 << 20, 1 << 16, 16, 1000
Row = tuple[Any, ...]


def timed(work: Callable[[], Any], repeats: int, before: Callable[[], Any] = lambda: None) -> list[float]:
    """Seconds of each repeat; one more comes first."""
    seconds = []
    for _ in range(repeats + 1):
        before()
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return seconds[1:]


def streams(n_bytes: int, threads: int, repeats: int) -> dict[str, float]:
    """Bytes per second that threads read, and that they copy (bytes read and bytes written)."""
    source, target = np.ones(n_bytes // 8, np.uint64), np.zeros(n_bytes // 8, np.uint64)
    cuts = [slice(len(source) * i // threads, len(source) * (i + 1) // threads) for i in range(threads)]
    with ThreadPoolExecutor(threads) as pool:

        def all_of(work: Callable[[slice], Any]) -> None:
            list(pool.map(work, cuts))

        read = timed(partial(all_of, lambda part: np.bitwise_or.reduce(source[part])), repeats)
        copy = timed(partial(all_of, lambda part: np.copyto(target[part], source[part])), repeats)
    return {"read": n_bytes / statistics.median(read), "copy": 2 * n_bytes / statistics.median(copy)}


class Case:
    """Tables of so many keys by so many threads, and what is asked of them."""

    def __init__(self, n: int, threads: int, repeats: int, options: dict[str, str]) -> None:
        self.n, self.threads, self.repeats, self.options = n, threads, repeats, options
        self.keys = random_keys(np, np.arange(n), 4)
        self.sorted = np.sort(self.keys)
        rng = np.random.default_rng(2)
        self.at = rng.integers(0, n - LONG, QUERIES)
        self.asked = self.sorted[self.at]

    def table(self) -> Any:
        """An empty one."""
        fields = {"key_dtype": "u4", "value_dtype": "u4", "capacity": self.n, "device": "cpu", "threads": self.threads}
        return gh.Table("skiplist", **fields, **self.options)

    def measure(self) -> Iterator[tuple[str, int, list[float]]]:
        """(what, keys, seconds of each repeat)."""
        values = ~self.sorted
        with self.table() as t:
            yield "build", self.n, timed(lambda: t.insert(self.keys, self.keys), self.repeats, t.clear)
            yield "build sorted", self.n, timed(lambda: t.insert(self.sorted, values), self.repeats, t.clear)
            assert all(map(np.array_equal, t.export(), (self.sorted, values)))
            yield "flush", self.n, timed(t.flush, self.repeats)
            yield from self.queries(t, "")
        with self.table() as t:
            parts = np.array_split(self.keys, 32)  # key by key but for the first ones
            for part in parts:
                t.insert(part, ~part)
            yield from self.queries(t, ", random inserts")

    def queries(self, t: Any, where: str) -> Iterator[tuple[str, int, list[float]]]:
        """Those of a table with all keys."""
        values, found = t.find(self.asked)
        assert bool(found.all())
        assert np.array_equal(values, ~self.asked)
        yield "find" + where, QUERIES, timed(lambda: t.find(self.asked), self.repeats)
        assert not t.contains(self.asked + np.uint32(1))[~np.isin(self.asked + np.uint32(1), self.sorted)].any()
        keys, values, found = t.lower_bound(self.asked)
        assert np.array_equal(keys, self.asked)
        yield "lower_bound" + where, QUERIES, timed(lambda: t.lower_bound(self.asked), self.repeats)
        for length in (SHORT, LONG):
            at = self.at[: QUERIES // length * 4]
            low, high = self.sorted[at], self.sorted[at + length]
            keys, values, counts = t.range(low, high, length)
            assert bool((counts == length).all())
            assert np.array_equal(keys, self.sorted[at[:, None] + np.arange(length)])
            assert np.array_equal(values, ~keys)
            work = partial(t.range, low, high, length)
            yield f"range of {length:,}{where}", len(at) * length, timed(work, self.repeats)

    def others(self) -> Iterator[tuple[str, int, list[float]]]:
        """The same by other means, in one thread."""
        yield "numpy.searchsorted", QUERIES, timed(lambda: np.searchsorted(self.sorted, self.asked), self.repeats)
        few, held = self.asked[:PER_KEY].tolist(), self.sorted.tolist()
        yield "bisect", PER_KEY, timed(lambda: [bisect.bisect_left(held, k) for k in few], self.repeats)
        try:
            from sortedcontainers import SortedList  # type: ignore[import-untyped,unused-ignore]
        except ImportError:
            print("ordered: sortedcontainers is not installed, and left out", file=sys.stderr)
            return
        listed = SortedList(held)
        yield "sortedcontainers", PER_KEY, timed(lambda: [listed.bisect_left(k) for k in few], self.repeats)


def goals(
    rate: dict[str, float], bandwidth: dict[str, float], entry_bytes: float
) -> Iterator[tuple[str, str, float, float]]:
    """(what, compared with, ratio, goal), of rates in keys per second."""
    for other, goal in (("numpy.searchsorted", 3.0), ("bisect", 4.0), ("sortedcontainers", 4.0)):
        if other in rate:
            for what in ("find", "lower_bound", "find, random inserts", "lower_bound, random inserts"):
                yield what, other, rate[what] / rate[other], goal
    moved = 8 + entry_bytes  # a pair is read, and written into its chunk
    yield "build sorted", "copy", rate["build sorted"] * moved / bandwidth["copy"], 0.5
    yield "flush", "copy", rate["flush"] * 2 * entry_bytes / bandwidth["copy"], 0.5
    for what in (f"range of {LONG:,}", f"range of {LONG:,}, random inserts"):
        yield what, "read", rate[what] * entry_bytes / bandwidth["read"], 0.3


@one_sentence
def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m asv_bench.ordered", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--keys", type=whole(1), action="append", help="may be repeated; default: 2^22 and 2^24")
    parser.add_argument("--threads", type=whole(1, 4096), action="append", help="may be repeated; default: 1, and all")
    parser.add_argument(
        "--option", type=pair, action="append", help="an option of the table instead of its default, key=value"
    )
    parser.add_argument("--repeats", type=whole(1), default=5)
    parser.add_argument("--output", type=Path, default=RESULTS, help=f"default: {RESULTS}")
    args = parser.parse_args(arguments)
    options = dict(args.option or [])
    all_threads = len(os.sched_getaffinity(0))
    rows: list[Row] = []
    for n in args.keys or [1 << 22, 1 << 24]:
        if n <= 2 * LONG:
            parser.error(f"--keys {n}: use more than {2 * LONG}")
        found_others: list[tuple[str, int, list[float]]] = []
        for threads in args.threads or dict.fromkeys((1, all_threads)):
            case = Case(n, threads, args.repeats, options)
            found_others = found_others or list(case.others())
            measured = [*case.measure(), *found_others]
            bandwidth = streams(max(16 * n, 1 << 26), threads, args.repeats)
            rate = {what: count / statistics.median(seconds) for what, count, seconds in measured}
            words = int(options.get("chunk", 16))
            compared = {}
            for what, other, ratio, goal in goals(rate, bandwidth, 8 * words / (words - 3)):
                compared.setdefault(what, []).append((other, ratio, goal))
            for what, count, seconds in measured:
                figures = [count / s / 1e6 for s in (statistics.median(seconds), max(seconds), min(seconds))]
                own = 1 if (what, count, seconds) in found_others else threads
                for other, ratio, goal in compared.get(what, [("", 0.0, 0.0)]):
                    rows.append((n, what, own, *figures, other, ratio, goal))
            for what, rate_of in bandwidth.items():
                rows.append((n, f"{what}, GB/s", threads, rate_of / 1e9, 0.0, 0.0, "", 0.0, 0.0))
    cells = [
        (f"{n:,}", what, f"{threads}", *(f"{x:.4g}" if x else "" for x in figures), other)
        + ((f"{ratio:.2f}", f"{goal:g}") if other else ("", ""))
        for n, what, threads, *figures, other, ratio, goal in rows
    ]
    about = circumstances({"cpu": device("cpu").model})
    text = f"# A skiplist beside sorted arrays\n\n{device('cpu').model}; {about['date']}; "
    text += f"commit {about['commit'][:8]}.\n\n"
    text += markdown_table(HEADER, cells)
    print(text)
    stem = args.output / machine_name() / "ordered-cpu"
    write_report(stem, text, about, [dict(zip(HEADER, row, strict=True)) for row in rows])
    return 0


if __name__ == "__main__":
    sys.exit(main())
