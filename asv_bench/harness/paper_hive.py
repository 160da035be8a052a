"""Polak, Troendle, Jang, "Hive Hash Table": the load that is reached, figures 6 and 7, and growth and shrinking."""

from __future__ import annotations

from functools import partial
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


def resizing(settings: Settings) -> Figure:
    """Time of each batch while a table grows, and rates of growing and shrinking; segment=whole: by rebuilds."""
    on, xp = settings.device, settings.device.xp
    n = settings.n or (1 << 26 if settings.on_cuda else 1 << 24)
    batch = 1 << 16
    rows: list[dict[str, Any]] = []
    for segment in ("auto", "whole"):
        options: dict[str, Any] = {"segment": segment} | settings.options
        table = gh.Table(
            "hive",
            key_dtype="uint32",
            value_dtype="uint32",
            capacity=1 << 16,
            device=on.name,
            threads=settings.threads,
            seed=1,
            **options,
        )

        times = []
        for first in range(0, n, batch):
            values = xp.arange(first, first + batch, dtype=np.uint32)
            keys = random_keys(xp, values, 4)
            on.wait()
            times.append(on.time(partial(table.insert, keys, values)))
            rows.append({"segment": segment, "phase": "batch", "keys": first + batch, "ms": times[-1] * 1e3})
        median, longest = float(np.median(times)), max(times)
        rows.append({"segment": segment, "phase": "pause", "keys": n, "ms": (longest - median) * 1e3})
        small = int(table.info["slots"])
        seconds = on.time(partial(table.reserve, 4 * n))
        large = int(table.info["slots"])
        if large < 2 * small:
            raise Wrong(f"a table of {small} slots has {large} after a reserve of {4 * n} keys")
        rows.append({"segment": segment, "phase": "expansion", "keys": n, "M_per_s": (large - small) / seconds / 1e6})
        seconds = on.time(table.shrink)
        left = int(table.info["slots"])
        if len(table) != n or left > large // 2:
            raise Wrong(f"a table of {len(table)} keys has {left} slots after a shrink")
        rows.append({"segment": segment, "phase": "contraction", "keys": n, "M_per_s": (large - left) / seconds / 1e6})
        table.check()
        table.close()
    note = f"batches of {batch:,} keys of 4 + 4 bytes; rates in slots that come or go"
    chart = Chart("Batches while the table grows", "keys", "ms", note)
    return Figure(rows, series([row for row in rows if row["phase"] == "batch"], chart, "keys", "ms", ["segment"]))


FIGURES = {"resizing": resizing, "load": achieved_load, "6": bulk_insert, "7": bulk_query}
