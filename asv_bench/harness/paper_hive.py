"""Polak, Troendle, Jang, "Hive Hash Table": the load that is reached, and figures 6 and 7."""

from __future__ import annotations

from typing import Any

import numpy as np

import pygpuhash as gh

from .figure import Figure, Settings, rates, series
from .keys import random_keys
from .runs import TableRun, Wrong
from .svg import Chart

LOAD = 0.95  # of the paper's tables in figures 6 and 7
STEPS = 128


def achieved_load(settings: Settings) -> Figure:
    """Keys by slots of the buckets after the last step in which every element found room, without growth."""
    on, xp = settings.device, settings.device.xp
    n = settings.n or (1 << 25 if settings.on_cuda else 1 << 21)
    rows: list[dict[str, Any]] = []
    for bucket in (8, 16, 32):
        for ways in (2, 3):
            for stash in (0.0, 1 / 64):
                options = {"bucket": bucket, "ways": ways, "stash": stash} | settings.options
                table = gh.Table(
                    "hive",
                    key_dtype="uint32",
                    value_dtype="uint32",
                    capacity=n,
                    max_load_factor=1.0,
                    device=on.name,
                    grow=False,
                    threads=settings.threads,
                    seed=1,
                    **options,
                )
                slots = int(table.stats()["buckets"]) * bucket
                batch = slots // STEPS
                for step in range(STEPS + 4):
                    held = len(table)
                    values = xp.arange(step * batch, (step + 1) * batch, dtype=np.uint32)
                    try:
                        table.insert(random_keys(xp, values, 4), values)
                    except gh.TableFull:
                        break
                stats = table.stats()
                if not slots // 2 < held <= len(table) <= table.info["slots"]:
                    raise Wrong(f"hive holds {held} keys, then {len(table)}, in {slots} slots and a stash")
                rows.append(
                    {
                        "bucket": bucket,
                        "ways": ways,
                        "stash": float(stash),
                        "load_factor": held / slots,
                        "outside": float(stats["outside"]),
                        "stashed": int(stats["stashed"]),
                        "keys": held,
                    }
                )
                table.check()
                table.close()
    note = f"{n:,} slots, keys of 4 + 4 bytes, filled in steps of 1/{STEPS}"
    chart = Chart("Load before the first element without room", "slots of a bucket", "load factor", note)
    return Figure(rows, series(rows, chart, "bucket", "load_factor", ["ways", "stash"]))


def _over_sizes(settings: Settings, operation: str, title: str) -> Figure:
    sizes = [settings.n] if settings.n else [1 << bits for bits in range(20, 26 if settings.on_cuda else 24)]
    rows: list[dict[str, Any]] = []
    for backend in ("hive", "linear_probe"):
        for n in sizes:
            options = settings.options if backend == "hive" else {}
            run = TableRun(settings.device, backend, LOAD, n, (4, 4), settings.threads, **options)
            seconds = run.measure([operation], settings.repeats)[operation]
            rows.append({"backend": backend, "n": n} | rates(run.count(operation), seconds))
            run.table.close()
    note = f"load {LOAD}, keys of 4 + 4 bytes, median of {settings.repeats}"
    chart = Chart(title, "keys", "M keys/s", note, "log")
    return Figure(rows, series(rows, chart, "n", "M_per_s", ["backend"]))


def bulk_insert(settings: Settings) -> Figure:
    """Figure 6: n keys into an empty table."""
    return _over_sizes(settings, "insert", "Figure 6: inserts")


def bulk_query(settings: Settings) -> Figure:
    """Figure 7: n keys that are there."""
    return _over_sizes(settings, "find_hit", "Figure 7: finds")


FIGURES = {"load": achieved_load, "6": bulk_insert, "7": bulk_query}
