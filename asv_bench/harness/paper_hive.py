"""Polak, Troendle, Jang, "Hive Hash Table": figures 3 and 5 to 9, the load that is reached, growth and shrinking."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any

import numpy as np

import pygpuhash as gh

from . import hashes, hive_hashes, hive_steps
from .ceilings import Ceilings, label
from .charts import Chart
from .figure import Figure, Settings, rates, series
from .hive_price import price
from .keys import random_keys, shuffled
from .modules import arch_of
from .runs import POISON, TableRun, Wrong

LOAD = 0.95  # of the paper's tables in figures 5 to 8
LOADS = (0.55, 0.65, 0.75, 0.85, 0.9, 0.95, 0.97)  # of figure 9, and of the sweep
STEPS = 128
MIXTURE = (0.5, 0.3, 0.2)  # figure 8: inserts or replaces, finds, erases
# Figure 5: the paper's pairs and triples of what is computed and what is looked up. The default comes first.
HASHES = [
    "bithash1+bithash2",
    "murmur+city",
    "crc32+crc64",
    "bithash1+bithash2+city",
    "bithash1+murmur+city",
    "crc32+crc64+murmur",
]


def achieved_load(settings: Settings) -> Figure:
    """Keys by slots of the buckets after the last step in which every element found room, without growth."""
    on, xp = settings.device, settings.device.xp
    n = settings.n or (1 << 25 if settings.on_cuda else 1 << 21)
    rows: list[dict[str, Any]] = []
    for bucket, ways, evictions, stash in product((8, 16, 32), (2, 3), (0, 1, 8), (0.0, 1 / 64)):
        options = {"bucket": bucket, "ways": ways, "evictions": evictions, "stash": stash} | settings.options
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
        if not slots // (2 if evictions else 8) < held <= len(table) <= table.info["slots"]:
            raise Wrong(f"hive holds {held} keys, then {len(table)}, in {slots} slots and a stash")
        rows.append(
            {
                "bucket": bucket,
                "ways": ways,
                "evictions": evictions,
                "stash": float(stash),
                "load_factor": held / slots,
                "outside": float(stats["outside"]),
                "stashed": int(stats["stashed"]),
                "keys": held,
            }
        )
        table.check()
        table.close()
    note = f"{n:,} slots, keys of 4 + 4 bytes, two buckets for a key, filled in steps of 1/{STEPS}"
    chart = Chart("Load before the first element without room", "slots of a bucket", "load factor", note)
    return Figure(
        rows, series([row for row in rows if row["ways"] == 2], chart, "bucket", "load_factor", ["evictions", "stash"])
    )


def collision_speedup(settings: Settings) -> Figure:
    """Figure 3: expected by observed collisions (CSR) of n keys in 512^2 buckets, for each hash function."""
    buckets, rng = 512**2, np.random.default_rng(1)
    sizes = [settings.n] if settings.n else [512 << 2 * step for step in range(7)]
    rows: list[dict[str, Any]] = []
    for n in sizes:
        random = rng.choice(2**32 - 2, n, replace=False).astype(np.uint32)
        for what, keys in (("random", random), ("0 .. n-1", np.arange(n, dtype=np.uint32))):
            expected = hashes.expected_collisions(n, buckets)
            for name, function in hashes.FUNCTIONS.items():
                seen = []
                for seed in range(settings.repeats):  # keyed as a table keys them
                    low, high = rng.integers(0, 2**32, 2, dtype=np.uint32) if seed else (np.uint32(0), np.uint32(0))
                    seen.append(hashes.collisions(function(keys ^ low) ^ high, buckets))
                ratios = [expected / max(y, 1) for y in seen]
                rows.append(
                    {
                        "function": name,
                        "keys": what,
                        "n": n,
                        "csr": float(np.median(ratios)),
                        "min": min(ratios),
                        "max": max(ratios),
                        "collisions": int(np.median(seen)),
                        "expected": expected,
                    }
                )
    note = f"{buckets:,} buckets, hash mod buckets; median of {settings.repeats} seeds; no collision counts as one"
    chart = Chart("Figure 3: collision speed-up ratio", "keys", "CSR", note, "log")
    random_rows = [row for row in rows if row["keys"] == "random"]
    groups = dict.fromkeys((row["keys"], row["n"], row["expected"]) for row in rows)
    summary = [
        {"keys": keys, "n": n, "E[Y]": expected}
        | {row["function"]: row["csr"] for row in rows if (row["keys"], row["n"]) == (keys, n)}
        for keys, n, expected in groups
    ]
    return Figure(rows, series(random_rows, chart, "n", "csr", ["function"]), summary)


def _sizes(settings: Settings) -> list[int]:
    return [settings.n] if settings.n else [1 << bits for bits in range(20, 26 if settings.on_cuda else 23)]


def _with_ceiling(settings: Settings, needs: dict[str, float], n: int, table_bytes: int, rate: float) -> dict[str, Any]:
    """The ceiling of these accesses in this run, and the share of it that the rate is."""
    ceilings = Ceilings(settings.device.name, n, min(settings.repeats, 3), settings.threads or 0)
    seconds = sum(share * float(np.median(ceilings.seconds(what, table_bytes))) for what, share in needs.items())
    return {"ceiling": 1e-6 / seconds, "ratio": rate * 1e6 * seconds, "accesses": label(needs)}


def _over_sizes(settings: Settings, operation: str, title: str) -> Figure:
    rows: list[dict[str, Any]] = []
    needs = {"gather8" if operation.startswith("find") else "cas64": 1.0}
    for backend in ("hive", "linear_probe"):
        for n in _sizes(settings):
            options = settings.options if backend == "hive" else {}
            run = TableRun(settings.device, backend, LOAD, n, (4, 4), settings.threads, **options)
            row = {"backend": backend, "n": n} | rates(n, run.measure([operation], settings.repeats)[operation])
            rows.append(row | _with_ceiling(settings, needs, n, int(run.table.nbytes), row["M_per_s"]))
            run.table.close()
    note = f"load {LOAD}, keys of 4 + 4 bytes, median of {settings.repeats}"
    chart = Chart(title, "keys", "M keys/s", note, "log")
    return Figure(rows, series(rows, chart, "n", "M_per_s", ["backend"]))


def hash_pairs(settings: Settings) -> Figure:
    """Figure 5: inserts of n keys into an empty table, by the hash functions of its buckets."""
    rows: list[dict[str, Any]] = []
    tables = hive_hashes.tables_of(settings, HASHES)
    for n in _sizes(settings):
        runs = {
            names: TableRun(settings.device, backend, LOAD, n, (4, 4), settings.threads, **options)
            for names, (backend, options) in tables.items()
        }
        seconds: dict[str, list[float]] = {names: [] for names in runs}
        for repeat in range(settings.repeats + 1):  # in turn, so that a busy moment is not one pair's alone
            for names, run in runs.items():
                run.bring_to_start("insert")
                taken = run.insert()
                if repeat:
                    seconds[names].append(taken)
        for names, run in runs.items():
            row = {"hashes": names, "n": n} | rates(n, seconds[names])
            stats = run.table.stats()
            row |= {"outside": float(stats["outside"]), "stashed": int(stats["stashed"])}
            rows.append(row | _with_ceiling(settings, {"cas64": 1.0}, n, int(run.table.nbytes), row["M_per_s"]))
            run.table.close()
    note = f"load {LOAD}, keys of 4 + 4 bytes, median of {settings.repeats}"
    chart = Chart("Figure 5: inserts by hash functions", "keys", "M keys/s", note, "log")
    return Figure(rows, series(rows, chart, "n", "M_per_s", ["hashes"]))


def mixture(settings: Settings) -> Figure:
    """Figure 8: n operations in one batch on a table of n keys: 0.5 insert or replace, 0.3 find, 0.2 erase."""
    on, xp = settings.device, settings.device.xp
    rows: list[dict[str, Any]] = []
    shares = np.cumsum(MIXTURE)
    for backend in ("hive", "linear_probe"):
        for n in _sizes(settings):
            options = settings.options if backend == "hive" else {}
            run = TableRun(on, backend, LOAD, n, (4, 4), settings.threads, **options)
            ends = [int(share * n) for share in shares]
            order = shuffled(xp, n).astype(np.int64)
            ops = xp.empty(n, np.uint8)
            for op, begin, end in zip((gh.Op.ASSIGN, gh.Op.FIND, gh.Op.ERASE), [0, *ends], ends, strict=False):
                ops[order[begin:end]] = int(op)
            # Half of the inserts are of keys that are not there. With all of them the table is at its load.
            there, values = xp.sort(order[ends[0] // 2 :]), run.values ^ np.uint32(7)
            assigns, finds = ops == int(gh.Op.ASSIGN), ops == int(gh.Op.FIND)
            fresh = xp.zeros(n, bool)
            fresh[order[: ends[0] // 2]] = True
            seconds = []
            for repeat in range(settings.repeats + 1):
                run.table.clear()
                run.table.insert(run.keys[there], run.values[there])
                run.mask.view(np.uint8).fill(POISON)
                work = partial(run.table.execute, ops, run.keys, values, out=run.out, found=run.mask)
                taken = on.time(work)
                status = run.mask.view(np.uint8)
                right = (status == xp.where(assigns, fresh, True)).all() & (run.out == run.values)[finds].all()
                if not bool(right) or len(run.table) != ends[1]:
                    raise Wrong(f"{backend}: a mixture of {n} operations gave a wrong answer")
                if repeat:
                    seconds.append(taken)
            row = {"backend": backend, "n": n} | rates(n, seconds)
            needs = {"cas64": MIXTURE[0] + MIXTURE[2], "gather8": MIXTURE[1]}
            rows.append(row | _with_ceiling(settings, needs, n, int(run.table.nbytes), row["M_per_s"]))
            run.table.close()
    note = f"0.5 insert or replace, 0.3 find, 0.2 erase, in one batch; load {LOAD}, median of {settings.repeats}"
    chart = Chart("Figure 8: a mixture", "operations", "M operations/s", note, "log")
    return Figure(rows, series(rows, chart, "n", "M_per_s", ["backend"]))


def insertion_steps(settings: Settings) -> Figure:
    """Figure 9: the share of each step in the time to fill a table, by the load; locks, evictions, chains."""
    n = settings.n or (1 << 24 if settings.on_cuda else 1 << 20)
    bucket, ways = (int(settings.options.get(option, default)) for option, default in (("bucket", 8), ("ways", 2)))
    arch = arch_of(settings) if settings.on_cuda else None
    rows: list[dict[str, Any]] = []
    summary: list[dict[str, Any]] = []
    for load, trials in hive_steps.run(n, bucket, ways, LOADS, settings.repeats, arch).items():
        line: dict[str, Any] = {"load": load}
        for step in hive_steps.STEPS:
            shares = [trial[step] / sum(trial[other] for other in hive_steps.STEPS) for trial in trials]
            line[step] = float(np.median(shares))
            rows.append({"load": load, "step": step, "share": line[step], "min": min(shares), "max": max(shares)})
        counted = trials[0]  # the same in each, of one thread
        line |= {f"{what}/insert": counted[what] / counted["inserts"] for what in hive_steps.PER_INSERT}
        line |= {what: counted[what] for what in (*hive_steps.CHAINS, "longest", "stashed", "full", "inserts")}
        summary.append(line)
        rows.append(line)
    who = "warps of an element each, their cycles added up" if settings.on_cuda else "one thread"
    note = f"filled from empty to this load, {n:,} slots, {who}; {hive_steps.NOTE}"
    chart = Chart("Figure 9: time of an insert by its steps", "load factor", "share of time", note)
    return Figure(rows, series([row for row in rows if "step" in row], chart, "load", "share", ["step"]), summary)


def bulk_insert(settings: Settings) -> Figure:
    """Figure 6: n keys into an empty table."""
    return _over_sizes(settings, "insert", "Figure 6: inserts")


def bulk_query(settings: Settings) -> Figure:
    """Figure 7: n keys that are there."""
    return _over_sizes(settings, "find_hit", "Figure 7: finds")


def resizing(settings: Settings) -> Figure:
    """Time of each batch while a table grows, and rates of growing and shrinking; segment=whole: by rebuilds."""
    on, xp = settings.device, settings.device.xp
    batch = 1 << 16
    n = -(-(settings.n or (1 << 26 if settings.on_cuda else 1 << 24)) // batch) * batch  # whole batches
    rows: list[dict[str, Any]] = []
    summary: list[dict[str, Any]] = []
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
        expansion = (large - small) / seconds / 1e6
        rows.append({"segment": segment, "phase": "expansion", "keys": n, "M_per_s": expansion})
        seconds = on.time(table.shrink)
        left = int(table.info["slots"])
        if len(table) != n or left > large // 2:
            raise Wrong(f"a table of {len(table)} keys has {left} slots after a shrink")
        contraction = (large - left) / seconds / 1e6
        rows.append({"segment": segment, "phase": "contraction", "keys": n, "M_per_s": contraction})
        summary.append(
            {"segment": segment, "batches": len(times), "median_ms": median * 1e3}
            | {"p99_ms": float(np.quantile(times, 0.99)) * 1e3, "longest_ms": longest * 1e3}
            | {"longest_but_first_ms": max(times[1:], default=0.0) * 1e3}
            | {"expansion_M_per_s": expansion, "contraction_M_per_s": contraction}
        )
        table.check()
        table.close()
    note = f"batches of {batch:,} keys of 4 + 4 bytes; rates in slots that come or go"
    chart = Chart("Batches while the table grows", "keys", "ms", note)
    drawn = series([row for row in rows if row["phase"] == "batch"], chart, "keys", "ms", ["segment"])
    return Figure(rows, drawn, summary)


FIGURES = {
    "load": achieved_load,
    "price": price,
    "resizing": resizing,
    "3": collision_speedup,
    "5": hash_pairs,
    "6": bulk_insert,
    "7": bulk_query,
    "8": mixture,
    "9": insertion_steps,
}
