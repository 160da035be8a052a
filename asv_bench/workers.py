"""Plots of the simulated group-bys of `asv_bench.schedules`, by how many workers there are.

    python -m asv_bench.workers                         into docs/images: workers-*.svg, and workers.csv, their numbers
    python -m asv_bench.workers --most 10 --output DIR  up to ten workers

Three plots are of the same rows, 1.2*10^9 in 64 parts and 16 shards: seconds, memory of the largest worker and bytes
that are moved, without a loss, when a tenth of the workers is lost, and when a tenth has a tenth of the speed. The
fourth has four parts for each worker, and says where the scheduler takes the time. Rows are those of seed 1, schedules
of seeds 1 to 5: lines are their medians, and areas go from the least to the most. Every result is compared with that of
one process.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from .harness.arguments import one_sentence, whole
from .harness.charts import Chart, require_matplotlib
from .harness.results import markdown_table, write_csv
from .schedules import SCHEDULER, Simulation, Work, in_one_process, sampled

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
SEEDS = range(1, 6)
PARTS, SHARDS, SCALE = 64, 16, 1e5  # of the first plots; their parts have 200 rows on average, each for 10^5
OF_A_WORKER, ROWS = 4, 20  # of the last plot: parts, and rows of a part, each for 10^6
MOST_PIECES = 400_000  # that are worked out, one for each part and shard
COUNTS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)

SAME = {  # lines: what happens, by the number of workers
    "no loss": lambda workers: (0, 0.0),
    "a tenth of the workers lost": lambda workers: (workers // 10 + 1, 0.0),
    "a tenth ten times slower": lambda workers: (0, 0.1),
}
GROWING = {  # lines: (shards, are neighbours merged before they are split?)
    "16 shards, a piece for each part": lambda workers: (16, False),
    "16 shards, neighbours merged first": lambda workers: (16, True),
    "a shard a worker, a piece for each part": lambda workers: (workers, False),
    "a shard a worker, neighbours merged first": lambda workers: (workers, True),
}
PLOTS = {  # of the same rows: (title, label, column, scale of y)
    "seconds": ("Seconds of a group-by", "seconds", "seconds", "log"),
    "memory": ("Memory of the largest worker", "GB", "GB of a worker", "log"),
    "moved": ("Bytes between workers", "GB", "GB moved", "linear"),
}
TABLE = ("workers", "line", "seconds", "of the scheduler", "runs of tasks", "GB moved", "GB of a worker")
Record = dict[str, Any]


def record(rows: str, line: str, one: Simulation) -> Record:
    """The numbers of a run."""
    return {
        "rows": rows, "line": line, "workers": one.workers, "shards": one.shards, "fan": one.fan, "losses": one.losses,
        "slow": one.slow, "seed": one.seed, "seconds": round(one.now, 3), "of the scheduler": round(one.scheduled, 3),
        "runs of tasks": one.runs, "GB moved": round(one.moved / 1e9, 3), "GB of a worker": round(one.peak / 1e9, 3),
    }  # fmt: skip


def of_the_same_rows(most: int) -> Iterator[Record]:
    """Runs on the same rows, by any number of workers."""
    parts = sampled(PARTS, 200, 1)
    wanted, work = in_one_process(parts), Work(parts, SHARDS)
    for line, how in SAME.items():
        for workers in (count for count in COUNTS if count <= most):
            for seed in SEEDS:
                one = Simulation(parts, SHARDS, workers, seed, *how(workers), scale=SCALE, work=work)
                assert one.run() == wanted, f"{workers} workers, {line}, seed {seed}: another result"
                yield record("same", line, one)


def fan_of(parts: int, shards: int) -> int:
    """How many neighbours pygpuhash.dask merges before it splits them."""
    return int(__import__("pygpuhash.dask").dask._fan(parts, shards))


def of_more_rows(most: int) -> Iterator[Record]:
    """Runs with four parts for each worker, without a loss."""
    for workers in (count for count in COUNTS if count <= most):
        parts = sampled(OF_A_WORKER * workers, ROWS, 1)
        wanted = in_one_process(parts)
        for line, how in GROWING.items():
            shards, merged = how(workers)
            fan = fan_of(len(parts), shards) if merged else 1
            if len(parts) // fan * shards > MOST_PIECES:
                continue
            one = Simulation(parts, shards, workers, 1, scale=1e6, fan=fan, work=Work(parts, shards, fan))
            assert one.run() == wanted, f"{workers} workers, {line}: another result"
            yield record("growing", line, one)


def summary(rows: Sequence[Record], columns: Sequence[str]) -> Iterator[tuple[str, int, list[tuple[float, ...]]]]:
    """(line, workers, (median, least, most) of each column) of every point."""
    for line, workers in dict.fromkeys((row["line"], row["workers"]) for row in rows):
        own = [row for row in rows if (row["line"], row["workers"]) == (line, workers)]
        of = [[row[column] for row in own] for column in columns]
        yield line, workers, [(statistics.median(values), min(values), max(values)) for values in of]


def charts(rows: Sequence[Record]) -> dict[str, Chart]:
    """The plots by their names."""
    same = [row for row in rows if row["rows"] == "same"]
    growing = [row for row in rows if row["rows"] == "growing"]
    note = f"simulated: 1.2*10^9 rows in {PARTS} parts, {SHARDS} shards; rows of seed 1, schedules of seeds 1 to 5"
    made = {}
    for name, (title, label, column, scale) in PLOTS.items():
        chart = made[name] = Chart(title, "workers", label, note, "log", scale)
        draw(chart, same, column)
    note = (
        f"simulated, without a loss: {OF_A_WORKER} parts of 2*10^7 rows on average for each worker, seed 1; "
        f"the scheduler takes {SCHEDULER * 1e3} ms for a task and for each of its inputs"
    )
    title = "Where tasks stop: four parts for each worker"
    made["tasks"] = Chart(title, "workers", "seconds", note, "log", "log")
    draw(made["tasks"], growing, "seconds")
    return made


def draw(chart: Chart, rows: Sequence[Record], column: str) -> None:
    """A line of each kind."""
    points: dict[str, list[tuple[float, ...]]] = {}
    for line, workers, ((median, least, most),) in summary(rows, [column]):
        points.setdefault(line, []).append((workers, median, least, most))
    for line, own in points.items():
        chart.line(line, own)


def tables(rows: Sequence[Record]) -> str:
    """The numbers of the plots, medians, of 1, 10, 100 and 1,000 workers."""
    text = ""
    for kind in ("same", "growing"):
        own = [row for row in rows if row["rows"] == kind]
        shown = [
            (f"{workers:,}", line, *(f"{value:,.1f}" for value, *_ in of[:2]), f"{of[2][0]:,.0f}",
             *(f"{value:,.1f}" for value, *_ in of[3:]))
            for line, workers, of in summary(own, TABLE[2:]) if workers in (1, 10, 100, 1000)
        ]  # fmt: skip
        text += f"{markdown_table(TABLE, shown)}\n"
    return text


@one_sentence
def main(arguments: Sequence[str] | None = None) -> int:
    """Simulate, draw and print."""
    parser = argparse.ArgumentParser(prog="python -m asv_bench.workers", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--most", type=whole(1, 1000), default=1000, help="workers; default: 1000")
    parser.add_argument("--output", type=Path, default=IMAGES, help="a folder; default: docs/images")
    args = parser.parse_args(arguments)
    require_matplotlib()
    rows = [*of_the_same_rows(args.most), *of_more_rows(args.most)]
    write_csv(args.output / "workers.csv", rows)
    for name, chart in charts(rows).items():
        chart.save(args.output / f"workers-{name}.svg")
    print(tables(rows), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
