"""Work on a CPU, alone and beside busy processes: small batches by number of threads, and aggregations by library.

    python -m asv_bench.beside_others [--keys N] [--batches N] [--rounds N] [--busy N] [--only batches|aggregations]
                                      [--elements N ...] [--key-bytes 4|8 ...] [--kinds NAME ...] [--tasks NAME ...]

Prints two tables. Of small batches: seconds of wall-clock and processor time for inserting and finding `batches`
batches of `keys` keys, the median and the range of `rounds` rounds. The settings take turns, so that what else the
machine does meets all of them. What it shows is whether threads cost more than they bring where other processes want
the cores.

Of aggregations: value_counts, dedup and group-by (a sum, of integers and of floats) of 64-bit keys (or 32-bit ones),
10^6 of them by default: uniform, Zipf of several exponents, one key, sorted runs of 1,000 equal keys, all distinct, and
uniform over few keys; by this package with the default and with one thread, by pandas and by polars (each where it is
installed). Each makes its result anew, from numpy arrays; results are compared first. Milliseconds by the clock, and
the least processor time, which says more where others want the cores. Few keys:

    python -m asv_bench.beside_others --only aggregations --busy 0 --elements 2000000 \
                                      --kinds "10 keys" "100 keys" "1000 keys" "10000 keys" "100000 keys"
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import pygpuhash as gh

from .harness.arguments import one_sentence, whole


def burn() -> None:
    """Keep one core busy."""
    while True:
        pass


def one_run(backend: str, keys: np.ndarray, size: int, threads: int | None) -> tuple[float, float]:
    """Wall-clock and processor seconds of all batches."""
    with gh.Table(backend, device="cpu", threads=threads, capacity=len(keys), seed=1) as table:
        wall, used = time.perf_counter(), time.process_time()
        for first in range(0, len(keys), size):
            part = keys[first : first + size]
            table.insert(part, 1)
            table.find(part)
        return time.perf_counter() - wall, time.process_time() - used


def measure(arguments: argparse.Namespace, busy: int) -> dict[int | None, list[tuple[float, float]]]:
    """Rounds of every setting, with so many busy processes beside."""
    random = np.random.default_rng(0)
    keys = random.permutation(np.arange(arguments.keys * arguments.batches, dtype=np.uint64))
    results: dict[int | None, list[tuple[float, float]]] = defaultdict(list)
    settings = [None, *range(1, len(os.sched_getaffinity(0)) + 1)]
    with busy_beside(busy):
        for _ in range(arguments.rounds):
            for threads in settings:
                results[threads].append(one_run(arguments.backend, keys, arguments.keys, threads))
    return results


def aggregations() -> dict[str, dict[str, Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray | None]]]]:
    """By task and library: functions of keys and values, which return the distinct keys and a number for each."""

    def ours(threads: int | None) -> dict[str, Callable[..., Any]]:
        def table(values: Any, n: int, key_dtype: Any) -> gh.Table:
            return gh.Table(key_dtype=key_dtype, value_dtype=values, device="cpu", threads=threads, capacity=n // 4)

        def dedup(k: np.ndarray, _: np.ndarray) -> tuple[np.ndarray, None]:
            with table(None, len(k), k.dtype) as t:
                return k[t.insert(k)], None

        def total(k: np.ndarray, v: Any, dtype: Any = np.int64) -> tuple[np.ndarray, np.ndarray]:
            with table(dtype, len(k), k.dtype) as t:
                t.accumulate(k, v)
                return t.export()

        return {
            "value_counts": lambda k, _: total(k, 1),
            "dedup": dedup,
            "group-by": total,
            "float sums": lambda k, v: total(k, v, np.float64),
        }

    found = {"gpuhash": ours(None), "gpuhash, 1 thread": ours(1)}
    with contextlib.suppress(ImportError):
        import pandas as pd

        def of_series(series: Any) -> tuple[np.ndarray, np.ndarray]:
            return series.index.to_numpy(), series.to_numpy()

        found["pandas"] = {
            "value_counts": lambda k, _: of_series(pd.Series(k).value_counts(sort=False)),
            "dedup": lambda k, _: (pd.unique(k), None),
            "group-by": lambda k, v: of_series(pd.Series(v).groupby(k, sort=False).sum()),
        }
        found["pandas"]["float sums"] = found["pandas"]["group-by"]
    with contextlib.suppress(ImportError):
        import polars as pl

        def of_frame(frame: Any) -> tuple[np.ndarray, np.ndarray]:
            return frame["k"].to_numpy(), frame.to_series(1).to_numpy()

        found["polars"] = {
            "value_counts": lambda k, _: of_frame(pl.Series("k", k).value_counts()),
            "dedup": lambda k, _: (pl.Series("k", k).unique().to_numpy(), None),
            "group-by": lambda k, v: of_frame(pl.DataFrame({"k": k, "v": v}).group_by("k").agg(pl.col("v").sum())),
        }
        found["polars"]["float sums"] = found["polars"]["group-by"]
    return {task: {name: tasks[task] for name, tasks in found.items()} for task in TASKS}


def in_order(result: tuple[np.ndarray, np.ndarray | None]) -> list[np.ndarray]:
    """A result that can be compared with another library's."""
    keys, numbers = result
    order = np.argsort(keys)
    return [keys[order]] if numbers is None else [keys[order], numbers[order].astype(np.int64)]


KINDS = ("uniform", "zipf 0.5", "zipf 1.05", "zipf 1.3", "zipf 2.0", "one key", "runs")
FEW_KINDS = ("distinct", "10 keys", "100 keys", "1000 keys", "10000 keys", "100000 keys")
TASKS = ("value_counts", "dedup", "group-by", "float sums")


def keys_of(kind: str, n: int, key_bytes: int) -> np.ndarray:
    """n keys. Those of Zipf lie anywhere: each rank has a key of its own, and they are not in order of their ranks."""
    random = np.random.default_rng(0)
    name, _, exponent = kind.partition(" ")
    if kind == "uniform":
        ranks = random.integers(0, n, n, np.uint64)
    elif kind == "distinct":
        ranks = random.permutation(np.arange(n, dtype=np.uint64))
    elif exponent == "keys":
        ranks = random.integers(0, int(name), n, np.uint64) * np.uint64(7919)
    elif kind == "one key":
        ranks = np.ones(n, np.uint64)
    elif kind == "runs":
        ranks = np.arange(n, dtype=np.uint64) // np.uint64(1000)
    elif float(exponent) < 1:  # of n ranks, by the inverse of the distribution's integral
        ranks = (n * random.random(n) ** (1 / (1 - float(exponent)))).astype(np.uint64)
    else:
        ranks = random.zipf(float(exponent), n).astype(np.uint64)
    if name == "zipf":
        ranks *= np.uint64(0x9E3779B97F4A7C15)
    return ranks if key_bytes == 8 else (ranks >> np.uint64(32 if name == "zipf" else 0)).astype(np.uint32)


def measure_aggregations(arguments: argparse.Namespace, busy: int) -> None:
    """Print a line for each task, size and kind of keys, and library."""
    with busy_beside(busy):
        for task, calls in aggregations().items():
            if task not in arguments.tasks:
                continue
            for n in arguments.elements:
                values = np.random.default_rng(1).integers(0, 100, n)
                if task == "float sums":
                    values = values.astype(np.float64)
                for key_bytes in arguments.key_bytes:
                    for kind in arguments.kinds:
                        name = f"{busy:>11}  {task:<12}  {n:>8}  {key_bytes}  {kind:<11}"
                        measure_task(name, calls, keys_of(kind, n, key_bytes), values, arguments.rounds)


def measure_task(what: str, calls: dict[str, Callable[..., Any]], keys: np.ndarray, values: Any, rounds: int) -> None:
    """The lines of one task."""
    expected = in_order(calls["gpuhash"](keys, values))
    for call in calls.values():
        assert all(map(np.array_equal, expected, in_order(call(keys, values)))), "results differ"
    times: dict[str, list[float]] = defaultdict(list)
    used: dict[str, list[float]] = defaultdict(list)
    for _ in range(rounds):
        for name, call in calls.items():
            start, start_used = time.perf_counter(), time.process_time()
            call(keys, values)
            times[name].append((time.perf_counter() - start) * 1e3)
            used[name].append((time.process_time() - start_used) * 1e3)
    ours = statistics.median(times["gpuhash"])
    for name, all_times in times.items():
        spread = f"({min(all_times):.2f} to {max(all_times):.2f})"
        median = statistics.median(all_times)
        print(f"{what}  {name:<17}  {median:9.2f} {spread:<20} {min(used[name]):8.2f} {median / ours:8.2f}", flush=True)


@contextlib.contextmanager
def busy_beside(busy: int) -> Iterator[None]:
    """So many busy processes beside, as long as this lasts."""
    others = [multiprocessing.get_context("spawn").Process(target=burn, daemon=True) for _ in range(busy)]
    for process in others:
        process.start()
    time.sleep(1.0 if busy else 0.0)
    try:
        yield
    finally:
        for process in others:
            process.terminate()


@one_sentence
def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m asv_bench.beside_others",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--backend", default="linear_probe")
    parser.add_argument("--keys", type=whole(1), default=20_000, help="keys per batch; default: 20000")
    parser.add_argument("--batches", type=whole(1), default=100, help="batches per run; default: 100")
    parser.add_argument("--rounds", type=whole(1), default=7, help="runs of each setting; default: 7")
    parser.add_argument("--busy", type=whole(0, 1000), default=2, help="busy processes of the second part; default: 2")
    parser.add_argument("--only", choices=("batches", "aggregations"), help="default: both tables")
    parser.add_argument(
        "--elements", type=whole(1), nargs="+", default=[1_000_000], help="of aggregations; default: 10^6"
    )
    parser.add_argument("--key-bytes", type=int, nargs="+", default=[8], choices=(4, 8), help="default: 8")
    kinds = (*KINDS, *FEW_KINDS)
    parser.add_argument("--kinds", nargs="+", default=KINDS, choices=kinds, help=f"kinds of keys; default: {KINDS}")
    parser.add_argument("--tasks", nargs="+", default=TASKS, choices=TASKS, help="default: all")
    args = parser.parse_args(arguments)
    if args.only != "batches":
        print(f"{args.rounds} rounds; load of the machine before: {os.getloadavg()[0]:.1f}\n")
        print("busy beside  task          elements  bytes, kind  library", end="")
        print("                   ms (range)         processor   / ours")
        for busy in sorted({0, args.busy}):
            measure_aggregations(args, busy)
        print()
    if args.only != "aggregations":
        measure_batches(args)
    return 0


def measure_batches(arguments: argparse.Namespace) -> None:
    """Print the table of small batches."""
    print(f"{arguments.backend}, {arguments.batches} batches of {arguments.keys:,} keys, inserted and found;")
    print(f"{arguments.rounds} rounds; load of the machine before: {os.getloadavg()[0]:.1f}\n")
    print("busy beside  threads   wall, s (range)            cpu, s   wall / best")
    for busy in (0, arguments.busy):
        results = measure(arguments, busy)
        walls = {threads: [wall for wall, _ in runs] for threads, runs in results.items()}
        best = min(statistics.median(w) for w in walls.values())
        for threads, runs in results.items():
            wall, used = statistics.median(walls[threads]), statistics.median(used for _, used in runs)
            spread = f"({min(walls[threads]):.3f} to {max(walls[threads]):.3f})"
            name = "default" if threads is None else threads
            print(f"{busy:>11}  {name:>7}   {wall:.3f} {spread:<20} {used:.3f}   {wall / best:.2f}")


if __name__ == "__main__":
    sys.exit(main())
