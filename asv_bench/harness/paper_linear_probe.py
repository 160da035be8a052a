"""Farrell 2020: inserts against the load factor, and probe lengths."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

import numpy as np

import pygpuhash as gh

from .charts import Chart
from .figure import Figure, Settings, series
from .keys import random_keys
from .runs import POISON, Wrong

STEPS = 32  # the source fills 128 Mi slots by 4 Mi keys at a time, and stops one batch before the end
LAYOUTS: dict[str, dict[str, str]] = {
    "source's layout": {"row": "1", "hash": "blog", "indexing": "mask"},
    "default layout": {},
}


def _slots(settings: Settings) -> int:
    slots = settings.slots or (1 << 27 if settings.on_cuda else 1 << 24)
    if slots & (slots - 1) or slots < 1 << 12:
        raise gh.InvalidArgument(f"--slots {slots}: use a power of two, at least 4096, as the source does")
    return slots


def _table(settings: Settings, slots: int, options: dict[str, str]) -> gh.Table:
    """A table with this many slots that holds all batches without growing."""
    table = gh.Table(
        "linear_probe",
        key_dtype="uint32",
        value_dtype="uint32",
        capacity=slots * (STEPS - 1) // STEPS,
        max_load_factor=(STEPS - 1) / STEPS,
        device=settings.device.name,
        grow=False,
        threads=settings.threads,
        seed=1,
        **(options | settings.options),
    )
    if "indexing" in options and table.info["slots"] != slots:
        raise Wrong(f"linear_probe has {table.info['slots']} slots where {slots} were asked for")
    return table


def _fill(settings: Settings, table: gh.Table, slots: int) -> Iterator[tuple[float, float]]:
    """Insert batch after batch: (load factor before the batch, its seconds)."""
    on, xp, batch = settings.device, settings.device.xp, slots // STEPS
    inserted = xp.empty(batch, bool)
    for step in range(STEPS - 1):
        values = xp.arange(step * batch, (step + 1) * batch, dtype=np.uint32)
        keys = random_keys(xp, values, 4)
        inserted.view(np.uint8).fill(POISON)
        seconds = on.time(lambda keys=keys, values=values: table.insert(keys, values, out=inserted))
        if not bool((inserted.view(np.uint8) == 1).all()):
            raise Wrong("linear_probe did not report every new key as inserted")
        yield step / STEPS, seconds


def table_of_inserts(settings: Settings) -> Figure:
    """The source's table: time and rate of each batch of slots/32 inserts, from empty to 31/32."""
    slots = _slots(settings)
    rows: list[dict[str, Any]] = []
    for layout, options in LAYOUTS.items():
        table = _table(settings, slots, options)
        trials = []
        for _ in range(settings.repeats + 1):  # the first one does not count
            table.clear()
            trials.append(list(_fill(settings, table, slots)))
        table.close()
        for step in range(STEPS - 1):
            median = statistics.median(trial[step][1] for trial in trials[1:])
            rows.append(
                {
                    "layout": layout,
                    "load_factor": trials[0][step][0],
                    "keys": slots // STEPS,
                    "ms": median * 1e3,
                    "M_per_s": slots // STEPS / median / 1e6,
                }
            )
    note = f"{slots // STEPS:,} keys at a time into {slots:,} slots, median of {settings.repeats}"
    chart = Chart("Inserts against the load factor", "load factor before the batch", "M keys/s", note)
    return Figure(rows, series(rows, chart, "load_factor", "M_per_s", ["layout"]))


def probe_lengths(settings: Settings) -> Figure:
    """Mean and longest distance from home at load 1/2 and 31/32, and how often each distance occurs."""
    slots = _slots(settings)
    rows: list[dict[str, Any]] = []
    chart = Chart("Probe lengths", "probe length", "share of the keys", f"{slots:,} slots", "linear", "log")
    for layout, options in LAYOUTS.items():
        table = _table(settings, slots, options)
        for load, _ in _fill(settings, table, slots):
            after = load + 1 / STEPS
            if after not in (0.5, (STEPS - 1) / STEPS):
                continue
            stats, counts = table.stats(), table.histogram(64)
            rows.append(
                {
                    "layout": layout,
                    "load_factor": after,
                    "mean": float(stats["probe_mean"]),
                    "longest": int(stats["probe_max"]),
                    "slots_per_probe": int(stats["row"]),
                    "keys": len(table),
                }
            )
            shares = [(i, float(count) / len(table)) for i, count in enumerate(counts[:-1]) if count]
            if len(shares) > 1:
                chart.line(f"{layout}, load {after:.2f}", shares)
        table.close()
    return Figure(rows, chart)


FIGURES = {"table": table_of_inserts, "probe": probe_lengths}
