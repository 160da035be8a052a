"""Verbs on Dask whose parts lie on GPUs, one worker for each, and a table in shards there: results compared, and rates.

    python -m asv_bench.dask_cards                      2^24 rows in 8 parts on each of two cards
    python -m asv_bench.dask_cards --device cpu --n 100000

Parts are arrays of CuPy; the same verbs then have the same parts as arrays of numpy, on the same workers. These are
those of dask-cuda's LocalCUDACluster or, with --nannies or without dask-cuda, Dask's own, each with its own variable
CUDA_VISIBLE_DEVICES. Every result is compared with numpy's. Writes <output>/<machine>/dask-cards.json and .md.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.util
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import pygpuhash as gh

from .harness.arguments import one_sentence, whole
from .harness.results import RESULTS, circumstances, machine_name, markdown_table, write_report

HEADER = ("what", "parts", "million rows", "s, best", "s, worst", "M rows/s")
FACTOR = 0x9E3779B1  # keys are products with it, of which some bits are taken


def library(name: str) -> Any:
    """A module that is imported where it is asked for."""
    return importlib.import_module(name)


@contextlib.contextmanager
def client_of(device: str, workers: int, nannies: bool) -> Iterator[Any]:
    """A client of a fresh cluster of this machine, with a worker for each card."""
    distributed = library("distributed")
    if device == "cpu":
        made = distributed.LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None)
    elif importlib.util.find_spec("dask_cuda") is not None and not nannies:
        made = library("dask_cuda").LocalCUDACluster(
            n_workers=workers, threads_per_worker=1, protocol="tcp", dashboard_address=None
        )
    else:
        each = {
            i: {
                "cls": distributed.Nanny,
                "options": {"nthreads": 1, "env": {"CUDA_VISIBLE_DEVICES": str(i)}},
            }
            for i in range(workers)
        }
        scheduler = {"cls": distributed.Scheduler, "options": {"dashboard_address": ":0", "host": "127.0.0.1"}}
        made = distributed.SpecCluster(workers=each, scheduler=scheduler)
    with made, distributed.Client(made) as client:
        client.wait_for_workers(workers)
        yield client


def card() -> str:
    """Of this process: the card that it sees as its first."""
    return str(library("cupy").cuda.Device(0).pci_bus_id)


def numbers(name: str, start: int, n: int, distinct: int) -> tuple[Any, Any]:
    """Keys and values of rows `start` to `start + n - 1`, arrays of a library."""
    xp = library(name)
    rows = xp.arange(start, start + n, dtype=xp.int64)
    return (rows * FACTOR % (1 << 32) >> 3) % distinct, rows % 1000 - 499


def first(pair: tuple[Any, Any]) -> Any:
    return pair[0]


def second(pair: tuple[Any, Any]) -> Any:
    return pair[1]


class Parts:
    """Keys and values as dask.arrays of a library, whose parts are with the workers, and what they come to."""

    def __init__(self, client: Any, name: str, n: int, parts: int, distinct: int) -> None:
        dask, da, xp = library("dask"), library("dask.array"), library(name)
        self.n, self.distinct, self.name = n * parts, distinct, name
        workers = sorted(client.nthreads())
        pairs = [
            client.submit(numbers, name, i * n, n, distinct, workers=[workers[i % len(workers)]], pure=False)
            for i in range(parts)
        ]
        columns = []
        for of in (first, second):
            each = [client.submit(of, pair, workers=[workers[i % len(workers)]]) for i, pair in enumerate(pairs)]
            library("distributed").wait(each)
            meta = xp.empty(0, xp.int64)
            arrays = [da.from_delayed(dask.delayed(one), shape=(n,), dtype=np.int64, meta=meta) for one in each]
            columns.append(da.concatenate(arrays))
        self.keys, self.values = columns
        kinds = client.gather([client.submit(lambda pair: type(pair[0]).__module__, pair) for pair in pairs])
        assert all(kind.partition(".")[0] == name for kind in kinds), f"parts are of {set(kinds)}"

    def wanted(self) -> tuple[Any, Any]:
        """How often each key occurs, and what its values come to, by numpy."""
        keys, values = numbers("numpy", 0, self.n, self.distinct)
        counts = np.bincount(keys, minlength=self.distinct)
        return counts, np.bincount(keys, values, self.distinct).astype(np.int64)

    def host(self, array: Any) -> Any:
        """A computed result as an array of numpy. Raises AssertionError where it is of another library."""
        kind = type(array).__module__.partition(".")[0]
        assert kind == self.name, f"a result is {kind}'s"
        return array.get() if self.name == "cupy" else array


def verbs(parts: Parts, counts: Any, sums: Any) -> Iterator[tuple[str, Callable[[], Any], Callable[[Any], bool]]]:
    """(verb, what to time, whether its result is right)."""
    ghd, dask = library("pygpuhash.dask"), library("dask")
    there = np.flatnonzero(counts)

    def pairs(wanted: Any) -> Callable[[Any], bool]:
        def right(found: Any) -> bool:
            keys, results = map(parts.host, found)
            order = np.argsort(keys)
            return np.array_equal(keys[order], there) and np.array_equal(results[order], wanted[there])

        return right

    def codes(found: Any) -> bool:
        keys = numbers("numpy", 0, parts.n, parts.distinct)[0]
        return np.array_equal(parts.host(found[1])[parts.host(found[0])], keys)

    among = np.arange(0, parts.distinct, 7)
    keys, values = parts.keys, parts.values
    yield "value_counts", lambda: dask.compute(*ghd.value_counts(keys)), pairs(counts)
    yield "group sum", lambda: dask.compute(*ghd.group_reduce(keys, values)), pairs(sums)
    mean = np.divide(sums, counts, where=counts > 0, out=np.zeros(len(sums)))
    yield "group mean", lambda: dask.compute(*ghd.group_reduce(keys, values, "mean")), pairs(mean)
    yield "nunique", lambda: ghd.nunique(keys).compute(), lambda found: found == len(there)
    yield "unique", lambda: ghd.unique(keys).compute(), lambda found: np.array_equal(np.sort(parts.host(found)), there)
    yield "isin", lambda: ghd.isin(keys, among).sum().compute(), lambda found: int(found) == counts[among].sum()
    yield "factorize", lambda: dask.compute(*ghd.factorize(keys)), codes


def table(client: Any, device: str, n: int) -> Iterator[tuple[str, Callable[[], Any], Callable[[Any], bool]]]:
    """A table in shards on the workers' cards: (operation, what to time, whether its answer is right)."""
    where = "cpu" if device == "cpu" else "cuda:0"
    made = gh.sharded.Table("linear_probe", key_dtype="int64", transport=gh.sharded.Dask(client, device=where))
    keys = np.random.default_rng(3).permutation(n).astype(np.int64)
    with made:
        yield "insert", lambda: made.insert(keys, keys * 3), lambda mask: bool(mask.all()) and len(made) == n
        yield "accumulate", lambda: made.accumulate(keys, 1), lambda mask: not mask.any()
        yield (
            "find",
            lambda: made.find(np.concatenate([keys, ~keys])),
            lambda found: found[1].sum() == n and np.array_equal(found[0][:n], keys * 3 + 1),
        )
        yield "erase", lambda: made.erase(keys[::2]), lambda mask: bool(mask.all()) and len(made) == n // 2
        made.check()
        places = {shard["device"] for shard in made.stats["shards"]}
        assert {place.partition(":")[0] for place in places} == {device.partition(":")[0]}, f"shards are on {places}"


def measure(client: Any, args: argparse.Namespace) -> Iterator[tuple[Any, ...]]:
    """Rows of the table."""
    n, parts = args.n // args.parts, args.parts * args.workers
    for name in ("numpy",) if args.device == "cpu" else ("cupy", "numpy"):
        given = Parts(client, name, n, parts, args.distinct)
        wanted = given.wanted()
        for verb, work, right in verbs(given, *wanted):
            seconds = []
            for _ in range(args.repeats + 1):  # the first one imports and compiles
                start = time.perf_counter()
                found = work()
                seconds.append(time.perf_counter() - start)
                assert right(found), f"{verb} of {name}'s parts is wrong"
            yield verb, name, given.n / 1e6, min(seconds[1:]), max(seconds[1:]), given.n / min(seconds[1:]) / 1e6
        del given
    pairs = args.n // 4
    for operation, work, right in table(client, args.device, pairs):
        start = time.perf_counter()
        found = work()
        spent = time.perf_counter() - start
        assert right(found), f"{operation} is wrong"
        rows = pairs * {"find": 2, "erase": 0.5}.get(operation, 1)
        yield f"table in shards: {operation}", "numpy", rows / 1e6, spent, spent, rows / spent / 1e6


@one_sentence
def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m asv_bench.dask_cards", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--n", type=whole(1000), default=1 << 24, help="rows of each worker; default: 2^24")
    parser.add_argument("--parts", type=whole(1), default=8, help="of each worker; default: 8")
    parser.add_argument("--distinct", type=whole(1), default=10**5, help="keys; default: 10^5")
    parser.add_argument("--workers", type=whole(1), default=2)
    parser.add_argument("--repeats", type=whole(1), default=3)
    parser.add_argument("--nannies", action="store_true", help="Dask's own workers, without dask-cuda")
    parser.add_argument("--output", type=Path, default=RESULTS, help=f"default: {RESULTS}")
    args = parser.parse_args(arguments)
    rows = []
    with client_of(args.device, args.workers, args.nannies) as client:
        kind = type(client.cluster).__name__
        seen = sorted((client.run(card) if args.device == "cuda" else client.run(os.getpid)).values())
        assert len(set(seen)) == args.workers, f"workers see the cards {seen}"
        print(f"{kind}: {args.workers} workers, {seen}", file=sys.stderr, flush=True)
        for row in measure(client, args):
            rows.append(row)
            print(*row[:2], f"{row[5]:.1f} M rows/s", file=sys.stderr, flush=True)
    about = circumstances({}) | {"cluster": kind, "workers": args.workers, "distinct": args.distinct, "seen": seen}
    text = f"# Verbs on Dask, a worker for each card\n\n{kind}; {about['date']}; commit {about['commit'][:8]}.\n\n"
    text += f"{args.workers} workers on {args.device}, {args.parts} parts each, {args.distinct:,} keys; the best of "
    text += f"{args.repeats} runs, one of tables.\n\n"
    cells = [(*row[:2], f"{row[2]:.1f}", f"{row[3]:.3f}", f"{row[4]:.3f}", f"{row[5]:,.1f}") for row in rows]
    stem = args.output / machine_name() / "dask-cards"
    write_report(
        stem, text + markdown_table(HEADER, cells), about, [dict(zip(HEADER, row, strict=True)) for row in rows]
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
