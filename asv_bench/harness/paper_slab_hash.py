"""Ashkiani, Farach-Colton, Owens 2018, section VI: figures 4 to 7 for slab_hash."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

import numpy as np

import pygpuhash as gh

from .charts import Chart
from .devices import Unavailable
from .figure import Figure, Settings, rates, series, wall
from .keys import random_keys, shuffled
from .one_thread_each import OneThreadEach, lists
from .runs import POISON, TableRun, Wrong, make_table

UTILISATIONS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9)
AVERAGE_SLABS = (0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.0, 1.2, 1.5, 2.0, 3.0, 4.0, 6.0, 10.0)  # beta
PAIRS_PER_SLAB = 15  # 128 bytes: 15 pairs and a pointer (section IV-B)
OPTIONS = {"slab_bytes": "128"}
LISTS = "chained"
STATIC = "linear_probe"  # built from scratch, as the paper's cuckoo table is
LABELS = {"insert": "build", "find_hit": "all exist", "find_miss": "none exist"}


def _size(settings: Settings, default: int) -> int:
    return settings.n or default


def _operations(settings: Settings, backend: str, load: float, n: int, operations: list[str]) -> list[dict[str, Any]]:
    """One row per operation: rates of a table that n keys fill to `load`."""
    options = settings.options if backend == "slab_hash" else {}
    run = TableRun(settings.device, backend, load, n, threads=settings.threads, **options)
    measured = run.measure(operations, settings.repeats)
    run.bring_to_start("find_hit")
    stats = run.table.stats()
    achieved = float(stats.get("utilization", load))
    extra = {"beta": float(stats["beta"])} if "beta" in stats else {}
    run.close()
    return [
        {"table": backend, "operation": LABELS[operation], "asked": load, "utilisation": achieved, "n": n}
        | extra
        | rates(n, seconds)
        for operation, seconds in measured.items()
    ]


def _against_utilisation(settings: Settings, operations: list[str], title: str) -> Figure:
    n = _size(settings, 1 << 22)
    rows = [
        row
        for backend in ("slab_hash", STATIC)
        for utilisation in UTILISATIONS
        for row in _operations(settings, backend, utilisation, n, operations)
    ]
    chart = Chart(title, "memory utilisation", "M keys/s", f"{n:,} elements, median of {settings.repeats}")
    return Figure(rows, series(rows, chart, "utilisation", "M_per_s", ["table", "operation"]))


def figure_4a(settings: Settings) -> Figure:
    """Build rate against memory utilisation."""
    return _against_utilisation(settings, ["insert"], "Figure 4a: build rate against memory utilisation")


def figure_4b(settings: Settings) -> Figure:
    """Search rate against memory utilisation, when all and when none of the queries exist."""
    operations = ["find_hit", "find_miss"]
    return _against_utilisation(settings, operations, "Figure 4b: search rate against memory utilisation")


def figure_4c(settings: Settings) -> Figure:
    """Achieved memory utilisation against the average slab count beta = n / (M B)."""
    n = _size(settings, 1 << 22)
    rows = []
    for beta in AVERAGE_SLABS:
        buckets = max(1, round(n / (PAIRS_PER_SLAB * beta)))
        options = {"buckets": buckets} | settings.options
        run = TableRun(settings.device, "slab_hash", 0.6, n, threads=settings.threads, utilization=None, **options)
        run.bring_to_start("find_hit")
        stats = run.table.stats()
        run.close()
        rows.append(
            {"buckets": buckets, "beta": float(stats["beta"]), "utilisation": float(stats["utilization"]), "n": n}
        )
    chart = Chart("Figure 4c: achieved utilisation", "average slab count", "memory utilisation", f"{n:,} elements")
    chart.line("slab_hash", [(row["beta"], row["utilisation"]) for row in rows])
    return Figure(rows, chart)


def figure_5(settings: Settings) -> Figure:
    """Build and search rates against the number of elements, at 60 % utilisation."""
    largest = _size(settings, 1 << 27 if settings.on_cuda else 1 << 24)
    sizes = [1 << i for i in range(16, largest.bit_length()) if 1 << i <= largest]
    if not sizes:
        raise gh.InvalidArgument(f"--n {largest}: figure 5 begins at 65536 elements")
    rows = [
        row
        for backend in ("slab_hash", STATIC)
        for n in sizes
        for row in _operations(settings, backend, 0.6, n, ["insert", "find_hit", "find_miss"])
    ]
    note = f"60 % memory utilisation, median of {settings.repeats}"
    chart = Chart("Figure 5: rates against the number of elements", "elements", "M keys/s", note, "log2")
    return Figure(rows, series(rows, chart, "n", "M_per_s", ["table", "operation"]))


# ---- figure 6: incremental batches -----------------------------------------------------------------------------------

BATCHES = (32 << 10, 64 << 10, 128 << 10)
FINAL_LOAD = 0.65


def _incremental(settings: Settings, keys: Any, values: Any, batch: int, way: str) -> list[float]:
    """Seconds of every step that makes the table hold `batch` more of the keys."""
    on, total = settings.device, len(keys)
    seconds: list[float] = []
    table: list[gh.Table] = []

    def make(n: int, backend: str) -> None:
        options = settings.options if backend == "slab_hash" else {}
        table[:] = [make_table(backend, on, FINAL_LOAD, n, (4, 4), threads=settings.threads, seed=1, **options)]

    def step(end: int) -> None:
        if way == "slab_hash":
            if not table:
                make(total, "slab_hash")
            table[0].insert(keys[end - batch : end], values[end - batch : end])
        elif way == "rebuilt":
            make(end, STATIC)
            table[0].insert(keys[:end], values[:end])
        else:
            if not table:
                table[:] = [_growing(settings, batch)]
            table[0].insert(keys[end - batch : end], values[end - batch : end])

    for end in range(batch, total + 1, batch):
        seconds.append(wall(on, lambda end=end: step(end)))
    if len(table[0]) != total:
        raise Wrong(f"figure 6, {way}: {len(table[0])} keys in the table, {total} were inserted")
    table[0].close()
    return seconds


def _growing(settings: Settings, batch: int) -> gh.Table:
    return gh.Table(
        STATIC,
        key_dtype="uint32",
        value_dtype="uint32",
        capacity=batch,
        max_load_factor=FINAL_LOAD,
        device=settings.device.name,
        threads=settings.threads,
        seed=1,
    )


WAYS = {"slab_hash": "slab_hash", "rebuilt": f"{STATIC} rebuilt", "grows": f"{STATIC} that grows"}


def figure_6(settings: Settings) -> Figure:
    """Time to reach 2 million elements by batches: insert into one table, or build a static one anew each time."""
    xp, total = settings.device.xp, _size(settings, 2 << 20)
    if total % BATCHES[-1]:
        raise gh.InvalidArgument(f"--n {total}: use a multiple of {BATCHES[-1]} for figure 6")
    values = xp.arange(total, dtype=np.uint32)
    keys = random_keys(xp, values, 4)
    rows: list[dict[str, Any]] = []
    summary: list[dict[str, Any]] = []
    for batch in BATCHES:
        final: dict[str, float] = {}
        for way, name in WAYS.items():
            trials = [_incremental(settings, keys, values, batch, way) for _ in range(settings.repeats + 1)][1:]
            so_far = np.cumsum([statistics.median(step) for step in zip(*trials, strict=True)])
            final[way] = float(so_far[-1])
            rows += [
                {"table": name, "batch": f"{batch >> 10}k", "n": (i + 1) * batch, "ms": float(seconds) * 1e3}
                for i, seconds in enumerate(so_far)
            ]
        milliseconds = {f"{name}, ms": final[way] * 1e3 for way, name in WAYS.items()}
        speedup = final["rebuilt"] / final["slab_hash"]
        summary.append({"batch": f"{batch >> 10}k", "n": total} | milliseconds | {"speed-up over rebuilding": speedup})
    note = f"final utilisation {FINAL_LOAD:.0%}, median of {settings.repeats}"
    chart = Chart("Figure 6: incremental batches", "elements in the table", "time so far, ms", note, y_scale="log")
    return Figure(rows, series(rows, chart, "n", "ms", ["table", "batch"]), summary)


# ---- figure 7: concurrent mixtures -----------------------------------------------------------------------------------

# Shares of: insert a new key, erase a key, find a key that is there, find one that is not.
MIXTURES = ((0.5, 0.5, 0.0, 0.0), (0.2, 0.2, 0.3, 0.3), (0.1, 0.1, 0.4, 0.4))
MIXTURE_UTILISATIONS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.65, 0.7, 0.8, 0.9)


def _mixed_batches(xp: Any, n: int, size: int, shares: tuple[float, ...], many: int) -> Iterator[Any]:
    """(op codes, keys, values, expected status, expected values) of consecutive batches on a table with keys 0 .. n-1.

    Keys are inserted at the end of the range of indices and erased at its beginning, so the table keeps n keys, and no
    key occurs twice in a batch.
    """
    inserts, erases, hits = (int(size * share) for share in shares[:3])
    misses = size - inserts - erases - hits
    parts = ((gh.Op.INSERT, inserts), (gh.Op.ERASE, erases), (gh.Op.FIND, hits + misses))
    ops = xp.concatenate([xp.full(count, int(op), np.uint8) for op, count in parts])
    present = xp.concatenate([xp.full(count, flag, bool) for flag, count in ((True, size - misses), (False, misses))])
    for batch in range(many):
        first, last = batch * erases, n + batch * inserts
        live = first + erases + shuffled(xp, last - first - erases, salt=batch)[:hits]
        absent = xp.arange(1 << 31, (1 << 31) + misses, dtype=np.uint64)
        added = xp.arange(last, last + inserts, dtype=np.uint64)
        removed = xp.arange(first, first + erases, dtype=np.uint64)
        index = xp.concatenate([added, removed, live, absent])
        values = index.astype(np.uint32)
        expected = xp.where((ops == int(gh.Op.FIND)) & present, values, np.uint32(0))
        place = shuffled(xp, size, salt=batch).astype(np.int64)
        keys = random_keys(xp, index, 4)
        yield tuple(array[place] for array in (ops, keys, values, present, expected))


def _mixture_seconds(
    settings: Settings, utilisation: float, n: int, size: int, shares: Any
) -> tuple[float, list[float]]:
    """(utilisation before the first batch, seconds of each batch but the first)."""
    chosen = {"threads": settings.threads, "seed": 1} | settings.options
    sized = make_table("slab_hash", settings.device, utilisation, n, (4, 4), **chosen)
    buckets = int(sized.stats()["buckets"])
    sized.close()
    # Erased slots are not taken again before FLUSH, so chains grow: super blocks are added, buckets stay as they are.
    with make_table(
        "slab_hash", settings.device, utilisation, n, (4, 4), grow=True, buckets=buckets, **chosen
    ) as table:
        fill(settings, table, n)
        return float(table.stats()["utilization"]), _batch_seconds(settings, table, n, size, shares)


def fill(settings: Settings, table: gh.Table | OneThreadEach, n: int) -> None:
    """Put keys 0 .. n-1 into a table."""
    xp = settings.device.xp
    values = xp.arange(n, dtype=np.uint32)
    keys = random_keys(xp, values, 4)
    if isinstance(table, OneThreadEach):
        if int(table.serve_all("insert", keys).sum()) != n:
            raise Wrong(f"figure 7b: lists do not take {n:,} keys")
    else:
        table.insert(keys, values)


def _batch_seconds(settings: Settings, table: gh.Table | OneThreadEach, n: int, size: int, shares: Any) -> list[float]:
    """Seconds of each mixed batch but the first, on a table with keys 0 .. n-1. Each answer is compared."""
    on, xp = settings.device, settings.device.xp
    out, mask = xp.empty(size, np.uint32), xp.empty(size, bool)
    seconds = []
    for ops, keys, given, present, expected in _mixed_batches(xp, n, size, shares, settings.repeats + 1):
        out.view(np.uint8).fill(POISON)
        mask.view(np.uint8).fill(POISON)
        status = mask.view(np.uint8)
        if isinstance(table, OneThreadEach):
            seconds.append(on.time(lambda b=(ops, keys, status): table.serve(*b)))
        else:
            seconds.append(on.time(lambda b=(ops, keys, given): table.execute(*b, out=out, found=mask)))
            if not bool((out == expected).all()):
                raise Wrong(f"figure 7: {table.backend} finds wrong values in a mixed batch")
        if not bool((status == present).all()):
            raise Wrong(f"figure 7: {table.backend} answers a mixed batch wrongly")
    return seconds[1:]


def figure_7(settings: Settings) -> Figure:
    """Rate of concurrent batches of mixed operations against the utilisation before them (figure 7a)."""
    n = _size(settings, 1 << 22)
    size = n // 4
    rows = []
    for shares in MIXTURES:
        for utilisation in MIXTURE_UTILISATIONS:
            before, seconds = _mixture_seconds(settings, utilisation, n, size, shares)
            name = "(" + ", ".join(f"{share:g}" for share in shares) + ")"
            rows.append({"mixture": name, "utilisation": before, "n": n, "batch": size} | rates(size, seconds))
    note = f"batches of {size:,} operations on {n:,} elements, median of {settings.repeats}"
    chart = Chart("Figure 7: concurrent mixtures", "initial memory utilisation", "M operations/s", note)
    return Figure(rows, series(rows, chart, "utilisation", "M_per_s", ["mixture"]))


NODES_PER_BUCKET = (1.0, 0.5, 0.25)  # of the table of lists, whose buckets these numbers are


def _lists(settings: Settings, share: float, nodes: int) -> gh.Table | OneThreadEach:
    """Lists with so many nodes from the beginning to the end, by the nodes of a bucket."""
    if settings.on_cuda:
        return lists(settings, int(nodes / share), nodes)
    if LISTS not in {backend.name for backend in gh.backends()}:
        raise Unavailable(f"figure 7b compares with {LISTS}: pip install ./plugins/examples/chained")
    return make_table(LISTS, settings.device, share, nodes, (4, 4), threads=settings.threads, seed=1)


def figure_7b(settings: Settings) -> Figure:
    """The same mixtures beside lock-free lists with a node per key, by buckets, of which both tables have as many.

    Those lists are after Misra and Chaudhuri: on a CPU plugins/examples/chained, on CUDA one_thread_each.cpp, whose
    keys have no values, as theirs have none. Like theirs, either has a node for each insertion of all batches.
    """
    n = size = _size(settings, 1 << 20)
    rows = []
    for shares in MIXTURES:
        nodes = n + int(size * shares[0]) * (settings.repeats + 1)
        name = "(" + ", ".join(f"{share:g}" for share in shares) + ")"
        for share in NODES_PER_BUCKET:
            buckets = int(nodes / share)
            beside = _lists(settings, share, nodes)
            chosen = {"threads": settings.threads, "seed": 1, "grow": True, "buckets": buckets} | OPTIONS
            slabs = make_table("slab_hash", settings.device, 0.5, n, (4, 4), **chosen)
            for table in (slabs, beside):
                fill(settings, table, n)
                row = {"table": table.backend, "mixture": name, "buckets": buckets, "n": n, "batch": size}
                rows.append(row | rates(size, _batch_seconds(settings, table, n, size, shares)))
                table.close()
    values = "; the lists have keys alone" if settings.on_cuda else ""
    note = f"batches of {size:,} operations on {n:,} elements, median of {settings.repeats}{values}"
    chart = Chart("Figure 7b: beside lock-free lists", "buckets", "M operations/s", note)
    return Figure(rows, series(rows, chart, "buckets", "M_per_s", ["table", "mixture"]))


FIGURES = {
    "4a": figure_4a,
    "4b": figure_4b,
    "4c": figure_4c,
    "5": figure_5,
    "6": figure_6,
    "7": figure_7,
    "7b": figure_7b,
}
