"""Khorasani et al. 2015, figure 19: rates by the sizes of keys and values, and by the size of tickets."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import numpy as np

import pygpuhash as gh

from .figure import Figure, Settings, rates, series
from .runs import Wrong
from .svg import Chart

LOAD = 0.85
TICKETS = (8, 4, 2)  # of the paper's 8, 4, 2 and 1
SIZES = ((4, 4), (8, 4), (8, 8), (16, 8), (16, 16), (32, 32), (64, 64))


def _dtype(size: int) -> Any:
    return {4: "u4", 8: "u8"}.get(size, ("u4", size // 4))


def _elements(xp: Any, first: int, n: int, size: int) -> Any:
    """n distinct elements of so many bytes, random to the eye."""
    if size in (4, 8):
        factor = 0x9E3779B1 if size == 4 else 0x9E3779B97F4A7C15
        return xp.arange(first, first + n, dtype=f"u{size}") * np.dtype(f"u{size}").type(factor)
    words = xp.arange(first, first + n, dtype="u4")[:, None] * np.uint32(0x9E3779B1)
    return xp.ascontiguousarray(words ^ xp.arange(size // 4, dtype="u4")[None, :])


def _measure(settings: Settings, ticket: int, key: int, value: int) -> list[dict[str, Any]]:
    n = settings.n or (1 << 25 if settings.on_cuda else 1 << 20)
    on, xp = settings.device, settings.device.xp
    keys, values = _elements(xp, 0, n, key), _elements(xp, 7, n, value)
    half = xp.concatenate([keys[: n // 2], _elements(xp, n, n - n // 2, key)])
    table = gh.Table(
        "stadium",
        key_dtype=_dtype(key),
        value_dtype=_dtype(value),
        capacity=n,
        max_load_factor=LOAD,
        grow=False,
        device=on.name,
        threads=settings.threads,
        seed=1,
        **({"ticket": str(ticket)} | settings.options),
    )
    mask = xp.empty(n, bool)
    seconds: dict[str, list[float]] = {"insert": [], "retrieve": [], "retrieve, half absent": [], "delete": []}

    def timed(operation: str, work: Callable[[], Any], yes: int) -> None:
        mask[...] = False
        seconds[operation].append(on.time(work))
        if int(mask.sum()) != yes:
            raise Wrong(f"figure 19: {operation} says yes {int(mask.sum())} times, expected {yes}")

    for _ in range(settings.repeats + 1):  # the first one does not count
        table.clear()
        timed("insert", lambda: table.insert(keys, values, out=mask), n)
        timed("retrieve", lambda: table.find(keys, found=mask), n)
        timed("retrieve, half absent", lambda: table.find(half, found=mask), n // 2)
        if not bool((table.find(keys)[0] == values).all()):
            raise Wrong("figure 19: stadium found other values than were inserted")
        timed("delete", lambda: table.erase(keys, out=mask), n)
    table.close()
    common = {"key": key, "value": value, "bytes": key + value, "ticket": ticket}
    return [{"operation": name, **common, "keys": n, **rates(n, all_[1:])} for name, all_ in seconds.items()]


def sizes(settings: Settings) -> Figure:
    """Insert, retrieve, retrieve half absent and delete; n elements, load 0.85, in the memory of the device."""
    rows = [row for ticket in TICKETS for key, value in SIZES for row in _measure(settings, ticket, key, value)]
    chart = Chart(
        "Sizes of keys and values",
        "bytes of key and value",
        "M/s",
        f"{rows[0]['keys']:,} elements, load {LOAD}, median of {settings.repeats}",
    )
    summary = [
        {
            "operation": row["operation"],
            "key+value": f"{row['key']}+{row['value']}",
            **{f"ticket {t}": _rate(rows, row, t) for t in TICKETS},
        }
        for row in rows
        if row["ticket"] == TICKETS[0]
    ]
    return Figure(rows, series(rows, chart, "bytes", "M_per_s", ["operation", "ticket"]), summary)


def _rate(rows: list[dict[str, Any]], like: dict[str, Any], ticket: int) -> float:
    """Of the row that differs in its ticket only."""
    same = ("operation", "key", "value")
    found = [r["M_per_s"] for r in rows if r["ticket"] == ticket and all(r[c] == like[c] for c in same)]
    return float(statistics.median(found))


FIGURES = {"19": sizes}
