"""Verbs on Dask beside dask's own and one process: processor seconds of client, scheduler and workers together.

    python -m asv_bench.dask_verbs                      2*10^7 rows in 20 files, two workers of one thread
    python -m asv_bench.dask_verbs --n 200000 --parts 4

The rows are Parquet files of a temporary folder, which every side reads. Results are compared. Needs distributed and
pyarrow. Memory is the largest that a worker had. Writes <output>/<machine>/dask-verbs-<n>.json and .md.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import math
import os
import resource
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import pygpuhash as gh

from .harness.arguments import one_sentence, whole
from .harness.devices import device
from .harness.results import RESULTS, circumstances, machine_name, markdown_table, write_report

KEYS = ("uniform", "zipf", "words")
MERGED = 16  # partials that one process keeps
SIDES = ("one process", "pygpuhash.dask", "dask")
HEADER = ("verb", "keys", "side", "processor s", "wall s", "MiB of a worker")
TABLE = ("verb", "keys", *SIDES, "dask / pygpuhash.dask")


def write_files(folder: Path, n: int, parts: int, names: Sequence[str]) -> dict[str, list[Path]]:
    """Files of uniform and Zipf keys, and of words."""
    pandas = __import__("pandas")
    random, files = np.random.default_rng(1), {}
    for name in names:
        files[name] = [folder / f"{name}-{i:03}.parquet" for i in range(parts)]
        for path in files[name]:
            rows = n // parts
            keys: Any = random.integers(0, n // 10, rows)
            if name != "uniform":
                keys = random.zipf(1.1, 2 * rows)
                keys = keys[keys < n // 10][:rows]
            if name == "words":
                keys = pandas.array([f"word-{key:x}" for key in keys.tolist()], dtype="string[pyarrow]")
            pandas.DataFrame({"k": keys, "v": np.arange(len(keys))}).to_parquet(path, index=False)
    return files


def spent() -> float:
    """Processor seconds of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def peak() -> float:
    """MiB that this process had at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@contextlib.contextmanager
def cluster(workers: int) -> Iterator[Any]:
    """A client of a fresh cluster, whose scheduler is in this process."""
    distributed = __import__("distributed")
    with (
        distributed.LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as made,
        distributed.Client(made) as client,
    ):
        for module in ("pygpuhash.dask", "dask.dataframe", "pyarrow.parquet"):
            client.run(__import__, module)
        yield client


def on_dask(workers: int, work: Callable[[], Any]) -> tuple[Any, float, float, float]:
    """(result, processor seconds, wall seconds, MiB): None and three times nan where workers ran out of memory."""
    with cluster(workers) as client:
        before, start = sum(client.run(spent).values()) + spent(), time.perf_counter()
        try:
            result = work()
        except (MemoryError, __import__("distributed").KilledWorker) as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            return None, math.nan, math.nan, math.nan
        wall = time.perf_counter() - start
        return result, sum(client.run(spent).values()) + spent() - before, wall, max(client.run(peak).values())


def in_one_process(work: Callable[[], Any]) -> tuple[Any, float, float, float]:
    """The same of a forked child, so that its memory is its own."""
    read, to = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            before, start = spent(), time.perf_counter()
            result = work()
            line = f"{result} {spent() - before} {time.perf_counter() - start} {peak()}"
            os.write(to, line.encode())
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(to)
    os.waitpid(child, 0)
    with os.fdopen(read) as pipe:
        line = pipe.read()
    assert line, "the process has failed"
    result, *numbers = line.split()
    return int(result), *map(float, numbers)


def verbs(paths: list[Path]) -> Iterator[tuple[str, dict[str, Callable[[], int]]]]:
    """(verb, {side: work that gives a number that all sides agree on})."""
    dd, ghd = __import__("dask.dataframe").dataframe, __import__("pygpuhash.dask").dask
    partial = gh.partial

    def frame() -> Any:
        return dd.read_parquet(paths)

    def one(aggregates: Callable[[Any], dict[str, Any]]) -> tuple[Any, dict[str, Any]]:
        parts = (dd.read_parquet(path).compute(scheduler="synchronous") for path in paths)
        kept: list[Any] = []
        for part in parts:
            kept.append(partial.start(part["k"], aggregates(part)))
            if len(kept) == MERGED:
                kept = [partial.merge(kept)]
        return partial.finish(partial.merge(kept))

    yield (
        "value_counts",
        {
            "one process": lambda: int(one(lambda part: {"n": "count"})[1]["n"].max()),
            "pygpuhash.dask": lambda: int(ghd.value_counts(frame()["k"])["count"].max().compute()),
            "dask": lambda: int(frame()["k"].value_counts(split_out=8).max().compute()),
        },
    )
    yield (
        "nunique",
        {
            "one process": lambda: len(one(lambda part: {})[0]),
            "pygpuhash.dask": lambda: int(ghd.nunique(frame()["k"]).compute()),
            "dask": lambda: int(frame()["k"].nunique().compute()),
        },
    )
    yield (
        "group sum",
        {
            "one process": lambda: int(one(lambda part: {"s": ("sum", part["v"])})[1]["s"].max()),
            "pygpuhash.dask": lambda: int(ghd.group_reduce(frame()["k"], frame()["v"])["sum"].max().compute()),
            "dask": lambda: int(frame().groupby("k")["v"].sum(split_out=8).max().compute()),
        },
    )


def table(rows: Sequence[dict[str, Any]]) -> str:
    """A line for each verb and kind of keys: processor seconds and MiB of each side, and how dask compares."""
    lines = []
    for verb, keys in dict.fromkeys((row["verb"], row["keys"]) for row in rows):
        own = {row["side"]: row for row in rows if (row["verb"], row["keys"]) == (verb, keys)}
        seconds = [own[side]["processor s"] for side in SIDES]
        cells = [
            "out of memory" if math.isnan(time) else f"{time:,.1f} s, {own[side]['MiB of a worker']:,.0f}"
            for side, time in zip(SIDES, seconds, strict=True)
        ]
        ratio = seconds[2] / seconds[1]
        lines.append((verb, keys, *cells, "" if math.isnan(ratio) else f"{ratio:.1f}x"))
    return markdown_table(TABLE, lines)


def write(args: argparse.Namespace, rows: list[dict[str, Any]]) -> None:
    """Print, and write both files."""
    on = device("cpu")
    about = circumstances({on.name: on.model}) | {"n": args.n, "parts": args.parts, "workers": args.workers}
    about |= {name: __import__(name).__version__ for name in ("dask", "pandas", "pyarrow")}
    text = f"# Verbs on Dask\n\n{on.model}; {about['date']}; commit {about['commit'][:8]}; dask {about['dask']}.\n\n"
    text += f"{args.n:,} rows in {args.parts} files, {args.workers} workers of one thread: processor seconds, and MiB\n"
    text += "of the larger worker.\n\n"
    write_report(args.output / machine_name() / f"dask-verbs-{args.n}", text + table(rows), about, rows)


@one_sentence
def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m asv_bench.dask_verbs", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--n", type=whole(1000), default=2 * 10**7, help="rows; default: 2*10^7")
    parser.add_argument("--parts", type=whole(1), default=20, help="files; default: 20")
    parser.add_argument("--workers", type=whole(1), default=2)
    parser.add_argument("--keys", choices=KEYS, action="append", help="may be repeated; default: all")
    parser.add_argument("--output", type=Path, default=RESULTS, help=f"default: {RESULTS}")
    args = parser.parse_args(arguments)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for keys, paths in write_files(Path(folder), args.n, args.parts, args.keys or KEYS).items():
            for verb, sides in verbs(paths):
                results = set()
                for side, work in sides.items():
                    how = in_one_process if side == SIDES[0] else functools.partial(on_dask, args.workers)
                    result, *numbers = how(work)
                    results |= {result} - {None}
                    rows.append((verb, keys, side, *numbers))
                    print(*rows[-1], file=sys.stderr, flush=True)
                assert len(results) == 1, f"{verb} of {keys}: {results}"
    write(args, [dict(zip(HEADER, row, strict=True)) for row in rows])
    return 0


if __name__ == "__main__":
    sys.exit(main())
