"""Saving a table, beside numpy.save, feather, and what one copy of the memory and the disk allow.

    python -m asv_bench.saving                   8 million pairs of 16 bytes, every structure of the CPU; a minute
    python -m asv_bench.saving --folder DIR      on the disk that DIR is on

All ways write keys and values to a new file that takes the name of the one before, and wait until the file is on the
disk (fsync). They are run in turns, and the least seconds of the repeats are printed. The ceiling is a copy of the
pairs in memory and a file of the same bytes, one after the other; what else a save does is to read the table's slots
(`export` is that alone, without a file), to leave out those that are empty, and a checksum of every byte. A saved table
is loaded and compared first.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

import pygpuhash as gh

from .harness.arguments import one_sentence, whole
from .harness.devices import device
from .harness.results import RESULTS, circumstances, machine_name, markdown_table, write_report

HEADER = ("what", "seconds", "CPU seconds", "of the ceiling", "GB/s")
Way = Callable[[], object]


def pairs_of(n: int) -> tuple[Any, Any]:
    """Keys in no order, and values."""
    return np.random.default_rng(1).permutation(n).astype("u8"), np.arange(n, dtype="u8")


def filled(backend: str, keys: Any, values: Any) -> gh.Table:
    """A table with these pairs."""
    table = gh.Table(backend, device="cpu", capacity=len(keys))
    for first in range(0, len(keys), 1 << 20):
        some = slice(first, first + (1 << 20))
        table.insert(keys[some], values[some])
    return table


def synced(path: Path, write: Callable[[Any], object]) -> None:
    """write(file) to a new file, which takes the name of what was there."""
    beside = path.with_suffix(".new")
    with beside.open("wb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())
    beside.rename(path)


def others(folder: Path, keys: Any, values: Any) -> dict[str, Way]:
    """What does not know tables."""
    copy = np.empty((2, len(keys)), "u8")
    path = folder / "other"

    def copied() -> None:
        copy[0], copy[1] = keys, values

    def both(write: Callable[[Any, Any], object]) -> Way:
        return lambda: synced(path, lambda file: [write(file, array) for array in (keys, values)])

    ways: dict[str, Way] = {
        "a copy in memory": copied,
        "a file of these bytes": both(lambda file, array: file.write(array.data)),
        "a checksum of these bytes": lambda: [zlib.crc32(array.data) for array in (keys, values)],
        "numpy.save": both(np.save),
    }
    try:
        feather: Any = importlib.import_module("pyarrow.feather")
        pa: Any = importlib.import_module("pyarrow")
    except ImportError:
        return ways

    def to_feather(file: Any) -> None:
        feather.write_feather(pa.table({"key": keys, "value": values}), file, compression="uncompressed")

    return {**ways, "feather": lambda: synced(path, to_feather)}


def verified(table: gh.Table, path: Path) -> None:
    """Raises AssertionError unless the saved table is equal to the one in memory."""
    table.save(path, overwrite=True)
    with gh.load(path) as loaded:
        assert len(loaded) == len(table), f"{table.backend}: {len(loaded)} of {len(table)} pairs came back"
        keys, values = table.export()
        found, there = loaded.find(keys)
        assert there.all(), f"{table.backend}: some keys did not come back"
        assert (found == values).all(), f"{table.backend}: other values came back"


def measure(ways: dict[str, Way], repeats: int) -> dict[str, tuple[float, float]]:
    """The least (seconds, CPU seconds) of each way, run in turns."""
    least = dict.fromkeys(ways, (np.inf, np.inf))
    for _ in range(repeats):
        for name, way in ways.items():
            wall, cpu = time.perf_counter(), time.process_time()
            way()
            least[name] = min(least[name], (time.perf_counter() - wall, time.process_time() - cpu))
    return least


def rows_of(args: argparse.Namespace) -> list[tuple[Any, ...]]:
    """Rows of the table."""
    keys, values = pairs_of(args.pairs)
    with tempfile.TemporaryDirectory(dir=args.folder) as name, ExitStack() as stack:
        folder = Path(name)
        ways = others(folder, keys, values)
        for backend in args.backend or [row.name for row in gh.backends() if "cpu" in row.devices]:
            table = stack.enter_context(filled(backend, keys, values))
            path = folder / f"{backend}.arrow"
            verified(table, path)
            ways[f"{backend}: export"] = table.export
            ways[f"{backend}: save"] = lambda table=table, path=path: table.save(path, overwrite=True)  # type: ignore[misc]
        least = measure(ways, args.repeats)
    ceiling = least["a copy in memory"][0] + least["a file of these bytes"][0]
    size = keys.nbytes + values.nbytes
    return [(name, wall, cpu, ceiling / wall, size / wall / 1e9) for name, (wall, cpu) in least.items()]


@one_sentence
def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m asv_bench.saving", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--pairs", type=whole(1), default=8_000_000)
    parser.add_argument("--backend", action="append", help="may be repeated; default: all of the CPU")
    parser.add_argument("--repeats", type=whole(1), default=5)
    parser.add_argument("--folder", default=tempfile.gettempdir(), help="for the files; default: TMPDIR, or /tmp")
    parser.add_argument("--output", type=Path, default=RESULTS, help=f"default: {RESULTS}")
    args = parser.parse_args(arguments)
    rows = rows_of(args)
    on = device("cpu")
    about = circumstances({on.name: on.model})
    text = f"# Saving a table\n\n{on.model}; {about['date']}; commit {about['commit'][:8]}; {args.pairs:,} pairs.\n\n"
    text += "Ceiling: a copy in memory, and a file of the same bytes, one after the other.\n\n"
    shown = [(row[0], *(f"{x:.3f}" for x in row[1:3]), f"{row[3]:.2f}", f"{row[4]:.2f}") for row in rows]
    text += markdown_table(HEADER, shown)
    write_report(
        args.output / machine_name() / "saving", text, about, [dict(zip(HEADER, row, strict=True)) for row in rows]
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
