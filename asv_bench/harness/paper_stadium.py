"""Khorasani et al. 2015: figures 13 to 19 and Table I, and what batches of a table in host memory take by their size.

Figure 19 (a) and (c) are tables in the memory of the device, (b) and (d) in that of the host. The cuckoo table of
figures 14 and 16 and of Table I is in cuckoo.py.
"""

from __future__ import annotations

import csv
import io
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import pygpuhash as gh

from .charts import Chart
from .cuckoo import EMPTY, Cuckoo
from .devices import Unavailable
from .figure import Figure, Settings, rates, series
from .runs import Wrong

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


def _table(settings: Settings, n: int, load: float, sizes: tuple[int, int] = (8, 8), **options: str) -> gh.Table:
    """An empty table for n pairs of these sizes in bytes, n of them at that load; options of the command line win.

    Paths are the paper's: from bucket to bucket, here from group to group.
    """
    key, value = sizes
    return gh.Table(
        "stadium",
        key_dtype=_dtype(key),
        value_dtype=_dtype(value),
        capacity=n,
        max_load_factor=load,
        grow=False,
        device=settings.device.name,
        threads=settings.threads,
        seed=1,
        **({"line": "1"} | options | settings.options),
    )


def _measure(settings: Settings, n: int, ticket: int, key: int, value: int, **options: str) -> list[dict[str, Any]]:
    on, xp = settings.device, settings.device.xp
    keys, values = _elements(xp, 0, n, key), _elements(xp, 7, n, value)
    half = xp.concatenate([keys[: n // 2], _elements(xp, n, n - n // 2, key)])
    table = _table(settings, n, LOAD, (key, value), ticket=str(ticket), **options)
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


def _over_sizes(settings: Settings, title: str, n: int, **options: str) -> Figure:
    rows = [row for ticket in TICKETS for sizes in SIZES for row in _measure(settings, n, ticket, *sizes, **options)]
    note = f"{n:,} elements, load {LOAD}, median of {settings.repeats}"
    chart = Chart(title, "bytes of key and value", "M/s", note)
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


def sizes(settings: Settings) -> Figure:
    """Insert, retrieve, retrieve half absent and delete; n elements, load 0.85, in the memory of the device."""
    n = settings.n or (1 << 25 if settings.on_cuda else 1 << 20)
    return _over_sizes(settings, "Sizes of keys and values", n)


def sizes_on_host(settings: Settings) -> Figure:
    """The same in the memory of the host, of fewer elements than the paper's 2^25: tickets of 2 bits take long."""
    if not settings.on_cuda:
        raise Unavailable(
            "figure 19b is of tables behind a GPU's bus, a CPU's memory is the host's: pass --device cuda"
        )
    return _over_sizes(settings, "Sizes of keys and values, in host memory", settings.n or 1 << 21, placement="host")


def _rate(rows: list[dict[str, Any]], like: dict[str, Any], ticket: int) -> float:
    """Of the row that differs in its ticket only."""
    same = ("operation", "key", "value")
    found = [r["M_per_s"] for r in rows if r["ticket"] == ticket and all(r[c] == like[c] for c in same)]
    return float(statistics.median(found))


# ---- tables in host memory -------------------------------------------------------------------------------------------

ORDERS = {"in windows": {"ordered_from": "1"}, "as they come": {"ordered_from": "0"}}  # the latter is the paper's
OUT_OF_CORE_LOAD = 0.8


def _pairs_of(settings: Settings, n: int) -> tuple[Any, Any]:
    """Pairs 0..n-1 of 8 and 8 bytes, in no order that the table knows."""
    return _elements(settings.device.xp, 0, n, 8), _elements(settings.device.xp, 7, n, 8)


def _host_table(settings: Settings, n: int, ticket: int, order: str) -> gh.Table:
    """An empty table for n pairs of 8 and 8 bytes, at load 0.8."""
    return _table(settings, n, OUT_OF_CORE_LOAD, placement="host", ticket=str(ticket), **ORDERS[order])


def _checked(what: str, mask: Any, yes: int, figure: str) -> None:
    if int(mask.sum()) != yes:
        raise Wrong(f"{figure}: {what} says yes {int(mask.sum())} times, expected {yes}")


def out_of_core(settings: Settings) -> Figure:
    """Figure 17: rates of a table in host memory by the number of pairs; everything in one batch, load 0.8.

    At most 2^25 pairs on a GPU: a repetition with 2^27 takes more than a minute, most of it with tickets of 2 bits.
    """
    on, xp = settings.device, settings.device.xp
    most = settings.n or (1 << 25 if settings.on_cuda else 1 << 20)
    rows: list[dict[str, Any]] = []
    for n in (most >> 4, most >> 2, most):
        keys, values = _pairs_of(settings, n)
        half = xp.concatenate([keys[: n // 2], _elements(xp, n, n - n // 2, 8)])
        mask = xp.empty(n, bool)
        for order in ORDERS:
            for ticket in TICKETS:
                seconds: dict[str, list[float]] = {"insert": [], "retrieve": [], "retrieve, half absent": []}
                with _host_table(settings, n, ticket, order) as table:
                    for _ in range(settings.repeats + 1):  # the first one does not count
                        table.clear()
                        seconds["insert"].append(
                            on.time(lambda t=table, k=keys, v=values, m=mask: t.insert(k, v, out=m))
                        )
                        _checked("insert", mask, n, "figure 17")
                        seconds["retrieve"].append(on.time(lambda t=table, k=keys, m=mask: t.find(k, found=m)))
                        _checked("retrieve", mask, n, "figure 17")
                        seconds["retrieve, half absent"].append(
                            on.time(lambda t=table, k=half, m=mask: t.find(k, found=m))
                        )
                        _checked("retrieve, half absent", mask, n // 2, "figure 17")
                    if not bool((table.find(keys)[0] == values).all()):
                        raise Wrong("figure 17: stadium found other values than were inserted")
                common = {"order": order, "ticket": ticket, "keys": n}
                rows += [{"operation": name, **common, **rates(n, all_[1:])} for name, all_ in seconds.items()]
    chart = Chart(
        "Table in host memory",
        "pairs",
        "M/s",
        f"at most {most:,} pairs of 8+8 bytes, load {OUT_OF_CORE_LOAD}, median of {settings.repeats}",
    )
    return Figure(rows, series(rows, chart, "keys", "M_per_s", ["operation", "order", "ticket"]))


def batches(settings: Settings) -> Figure:
    """Rates of a table in host memory by the size of batches, in both orders: where `ordered_from` should lie."""
    on, xp = settings.device, settings.device.xp
    n = settings.n or (1 << 28 if settings.on_cuda else 1 << 20)
    keys, values = _pairs_of(settings, n)
    rows: list[dict[str, Any]] = []
    for order in ORDERS:
        # Filled in windows in any case, which takes less time.
        settings_filled = {"ordered_from": "1"} if order == "in windows" else {"ordered_from": str(n // 2)}
        with _table(settings, n, OUT_OF_CORE_LOAD, placement="host", **settings_filled) as table:
            table.insert(keys[: n // 2], values[: n // 2])
            done = n // 2
            for size in (1 << p for p in range(10, 26, 3) if (1 << p) < n // 8):
                seconds: dict[str, list[float]] = {"insert": [], "hit": [], "miss": []}
                mask = xp.empty(size, bool)
                for r in range(settings.repeats + 1):
                    at = (r * size * 7919) % (n // 2 - size)
                    hit, fresh = keys[at : at + size], keys[done : done + size]
                    miss = _elements(xp, n + at, size, 8)
                    seconds["hit"].append(on.time(lambda t=table, k=hit, m=mask: t.find(k, found=m)))
                    _checked("hit", mask, size, "batches")
                    seconds["miss"].append(on.time(lambda t=table, k=miss, m=mask: t.find(k, found=m)))
                    _checked("miss", mask, 0, "batches")
                    if done + size > n:
                        continue
                    fresh_values = values[done : done + size]
                    seconds["insert"].append(
                        on.time(lambda t=table, k=fresh, v=fresh_values, m=mask: t.insert(k, v, out=m))
                    )
                    _checked("insert", mask, size, "batches")
                    done += size
                for name, all_ in seconds.items():
                    if len(all_) > 1:
                        rows.append({"operation": name, "order": order, "batch": size, **rates(size, all_[1:])})
    chart = Chart(
        "Batches of a table in host memory",
        "keys of a batch",
        "M/s",
        f"8+8 bytes, {n:,} pairs, median of {settings.repeats}",
    )
    return Figure(rows, series(rows, chart, "batch", "M_per_s", ["operation", "order"]))


# ---- collaborative lanes ---------------------------------------------------------------------------------------------

SAMPLES = 50
FULL_LOAD = 0.95


def _filling(settings: Settings, keys: Any, values: Any, inserts: str) -> list[float]:
    """Seconds of each of 50 batches of inserts, up to a load of 0.95; medians over the repetitions."""
    on, n = settings.device, len(keys)
    part = n // SAMPLES
    mask = on.xp.empty(part, bool)
    seconds: list[list[float]] = [[] for _ in range(SAMPLES)]
    for r in range(settings.repeats + 1):
        with _table(settings, n, FULL_LOAD, inserts=inserts) as table:
            for s in range(SAMPLES):
                k, v = keys[s * part : (s + 1) * part], values[s * part : (s + 1) * part]
                one = on.time(lambda t=table, k=k, v=v: t.insert(k, v, out=mask))
                _checked("insert", mask, part, "figure 13")
                if r:  # the first one does not count
                    seconds[s].append(one)
    return [statistics.median(s) for s in seconds]


def hybrid(settings: Settings) -> Figure:
    """Figure 13: time of clStash minus that of Stash by the load, and the load from which clStash is the faster one.

    The load is the second root of a polynomial of second order through the differences, as in the paper: the value for
    the options `inserts=hybrid, hybrid_from=...`.
    """
    if not settings.on_cuda:
        raise Unavailable("figure 13 compares how warps serve inserts, a CPU serves both alike: pass --device cuda")
    n = (settings.n or 1 << 26) // SAMPLES * SAMPLES
    keys, values = _pairs_of(settings, n)
    stash, clstash = (_filling(settings, keys, values, how) for how in ("stash", "clstash"))
    loads = [FULL_LOAD * (s + 0.5) / SAMPLES for s in range(SAMPLES)]
    rows = [
        {
            "load": load,
            "stash_M_per_s": n / SAMPLES / one / 1e6,
            "clstash_M_per_s": n / SAMPLES / other / 1e6,
            "difference_us": (one - other) * 1e6,
            "series": "Stash - clStash",
        }
        for load, one, other in zip(loads, stash, clstash, strict=True)
    ]
    curve = np.polynomial.Polynomial.fit(loads, [float(r["difference_us"]) for r in rows], 2)
    roots = [float(x.real) for x in curve.roots() if abs(x.imag) < 1e-9 and 0 <= x.real <= FULL_LOAD]
    roots = sorted(x for x in roots if curve.deriv()(x) > 0)  # from there on clStash is the faster one
    said = f"{roots[-1]:.3f}" if roots else "no load: one of them is the faster one throughout"
    chart = Chart(
        "clStash against Stash",
        "load",
        "us saved",
        f"{n:,} pairs of 8+8 bytes in {SAMPLES} batches, median of {settings.repeats}; hybrid_from: {said}",
    )
    summary = [{"hybrid_from": said, "faster at the end": "clstash" if rows[-1]["difference_us"] > 0 else "stash"}]
    summary_rows = [{k: v for k, v in row.items() if k != "series"} for row in rows[4::5]]
    return Figure(rows, series(rows, chart, "load", "difference_us", ["series"]), summary_rows + summary)


# ---- concurrency -----------------------------------------------------------------------------------------------------


def concurrency(settings: Settings) -> Figure:
    """Figure 15: time of a batch of inserts and one of finds, over that of one batch of both; load 0.8."""
    on, xp = settings.device, settings.device.xp
    most = settings.n or (1 << 25 if settings.on_cuda else 1 << 20)
    rows = []
    for n in (most >> 2, most):
        keys, values = _pairs_of(settings, n)
        ops = xp.zeros(n, "u1")
        ops[: n // 2] = int(gh.Op.FIND)
        ops[n // 2 :] = int(gh.Op.INSERT)
        order = xp.asarray(np.random.default_rng(1).permutation(n))
        mixed_keys, mixed_values, mixed_ops = keys[order], values[order], ops[order]
        apart, both = [], []
        for _ in range(settings.repeats + 1):
            for together in (False, True):
                with _table(settings, n, OUT_OF_CORE_LOAD) as table:
                    table.insert(keys[: n // 2], values[: n // 2])
                    if together:
                        both.append(
                            on.time(lambda t=table, o=mixed_ops, k=mixed_keys, v=mixed_values: t.execute(o, k, v))
                        )
                    else:
                        later, then = keys[n // 2 :], values[n // 2 :]
                        one = on.time(lambda t=table, k=later, v=then: t.insert(k, v))
                        apart.append(one + on.time(lambda t=table, k=keys[: n // 2]: t.find(k)))
                    if len(table) != n or not bool((table.find(keys)[0] == values).all()):
                        raise Wrong("figure 15: stadium lost pairs")
        rows.append(
            {
                "keys": n,
                "apart_ms": statistics.median(apart[1:]) * 1e3,
                "together_ms": statistics.median(both[1:]) * 1e3,
                "efficiency": statistics.median(apart[1:]) / statistics.median(both[1:]),
                "operation": "insert and find",
            }
        )
    chart = Chart("Concurrency efficiency", "pairs", "apart / together", f"8+8 bytes, median of {settings.repeats}")
    return Figure(rows, series(rows, chart, "keys", "efficiency", ["operation"]))


# ---- beside a cuckoo table -------------------------------------------------------------------------------------------


class _Phases:
    """n pairs of 4+4 bytes, inserted and looked up; every answer is compared."""

    def __init__(self, settings: Settings, figure: str, n: int) -> None:
        self.settings, self.figure, self.n, self.xp = settings, figure, n, settings.device.xp
        self.keys, self.values = _elements(self.xp, 1, n, 4), _elements(self.xp, 7, n, 4)
        self.half = self.xp.concatenate([self.keys[: n // 2], _elements(self.xp, n + 1, n - n // 2, 4)])
        assert not bool((self.keys == EMPTY).any())
        self.out, self.mask = self.xp.empty(n, "u4"), self.xp.empty(n, bool)

    def looked_up(self, what: str, find: Callable[[Any], Any], asked: Any, yes: int) -> float:
        """Seconds of one batch of finds."""
        self.out.fill(7)
        seconds = float(self.settings.device.time(lambda: find(asked)))
        _checked(what, self.mask, yes, f"figure {self.figure}")
        if not bool((self.out == self.xp.where(self.mask, self.values, np.uint32(0))).all()):
            raise Wrong(f"figure {self.figure}: {what} found other values than were inserted")
        return seconds

    def measure(
        self, insert: Callable[[], Any], find: Callable[[Any], Any], clear: Callable[[], Any]
    ) -> dict[str, list[float]]:
        """Seconds of each phase."""
        seconds: dict[str, list[float]] = {"insert": [], "retrieve": [], "retrieve, half absent": []}
        for _ in range(self.settings.repeats + 1):  # the first one does not count
            clear()
            seconds["insert"].append(float(self.settings.device.time(insert)))
            seconds["retrieve"].append(self.looked_up("retrieve", find, self.keys, self.n))
            seconds["retrieve, half absent"].append(
                self.looked_up("retrieve, half absent", find, self.half, self.n // 2)
            )
        return {name: all_[1:] for name, all_ in seconds.items()}

    def of_cuckoo(self, on_host: bool) -> dict[str, list[float]]:
        """A cuckoo table of load 0.8."""
        table = Cuckoo(self.xp, int(self.n / OUT_OF_CORE_LOAD), on_host)
        seconds = self.measure(
            lambda: table.insert(self.keys, self.values),
            lambda asked: table.find(asked, self.out, self.mask),
            table.clear,
        )
        if int(table.failed[0]):
            raise Wrong(f"figure {self.figure}: the cuckoo table found no place for {int(table.failed[0])} pairs")
        return seconds

    def of_stadium(self, **options: str) -> dict[str, list[float]]:
        """A table of stadium of the same load."""
        with _table(self.settings, self.n, OUT_OF_CORE_LOAD, (4, 4), **options) as table:
            return self.measure(
                lambda: table.insert(self.keys, self.values, out=self.mask),
                lambda asked: table.find(asked, out=self.out, found=self.mask),
                table.clear,
            )


def _beside_cuckoo(settings: Settings, figure: str, on_host: bool, default: int) -> Figure:
    """Rates over those of a cuckoo table of as many slots, both in one memory; 4+4 bytes, load 0.8."""
    if not settings.on_cuda:
        raise Unavailable(f"figure {figure} compares with a cuckoo table that is written for CUDA: pass --device cuda")
    rows: list[dict[str, Any]] = []
    most = settings.n or default
    for n in (most >> 4, most >> 2, most):
        phases = _Phases(settings, figure, n)
        cuckoo = {name: rates(n, seconds)["M_per_s"] for name, seconds in phases.of_cuckoo(on_host).items()}
        for order in ORDERS if on_host else [""]:
            for ticket in TICKETS:
                place = {"placement": "host", "order": order} if on_host else {}
                options = {"placement": "host", **ORDERS[order]} if on_host else {}
                for name, seconds in phases.of_stadium(ticket=str(ticket), **options).items():
                    mine = rates(n, seconds)
                    common = {"operation": name, "ticket": ticket, "keys": n, **place}
                    theirs = cuckoo[name]
                    rows.append({**common, **mine, "cuckoo": theirs, "speedup": mine["M_per_s"] / theirs})
    where = "host" if on_host else "device"
    chart = Chart(
        f"Beside a cuckoo table, in {where} memory",
        "pairs",
        "speedup",
        f"4+4 bytes, load {OUT_OF_CORE_LOAD}, median of {settings.repeats}",
    )
    by = ["operation", "order", "ticket"] if on_host else ["operation", "ticket"]
    return Figure(rows, series(rows, chart, "keys", "speedup", by))


def beside_cuckoo(settings: Settings) -> Figure:
    """Figure 14: both tables in device memory."""
    return _beside_cuckoo(settings, "14", False, 1 << 27)


def beside_cuckoo_out_of_core(settings: Settings) -> Figure:
    """Figure 16: both tables in pinned memory of the host."""
    return _beside_cuckoo(settings, "16", True, 1 << 25)


def tickets_and_lanes(settings: Settings) -> Figure:
    """Figure 18: what tickets and collaborative lanes give, in either memory; 8+8 bytes, load 0.85.

    The paper's version whose retrievals do without the ticket-board is the one here with tickets of 2 bits, which know
    nothing of the key: each pair on the path is compared.
    """
    on, xp = settings.device, settings.device.xp
    n = settings.n or (1 << 25 if settings.on_cuda else 1 << 20)
    keys, values = _pairs_of(settings, n)
    half = xp.concatenate([keys[: n // 2], _elements(xp, n, n - n // 2, 8)])
    mask = xp.empty(n, bool)
    rows: list[dict[str, Any]] = []
    ways = [("host", "as they come", ORDERS["as they come"]), ("host", "in windows", ORDERS["in windows"])]
    ways += [("device", how, {"inserts": how}) for how in ("stash", "clstash")]
    for placement, how, more in ways:
        for ticket in TICKETS:
            seconds: dict[str, list[float]] = {"insert": [], "retrieve": [], "retrieve, half absent": []}
            with _table(settings, n, LOAD, placement=placement, ticket=str(ticket), **more) as table:
                for _ in range(settings.repeats + 1):  # the first one does not count
                    table.clear()
                    seconds["insert"].append(on.time(lambda t=table: t.insert(keys, values, out=mask)))
                    _checked("insert", mask, n, "figure 18")
                    seconds["retrieve"].append(on.time(lambda t=table: t.find(keys, found=mask)))
                    _checked("retrieve", mask, n, "figure 18")
                    seconds["retrieve, half absent"].append(on.time(lambda t=table: t.find(half, found=mask)))
                    _checked("retrieve, half absent", mask, n // 2, "figure 18")
                if not bool((table.find(keys)[0] == values).all()):
                    raise Wrong("figure 18: stadium found other values than were inserted")
            common = {"slots": placement, "how": how, "ticket": ticket, "keys": n}
            rows += [{"operation": name, **common, **rates(n, all_[1:])} for name, all_ in seconds.items()]
    chart = Chart("Tickets and lanes", "bits of a ticket", "M/s", f"8+8 bytes, {n:,} pairs, load {LOAD}")
    return Figure(rows, series(rows, chart, "ticket", "M_per_s", ["operation", "slots", "how"]))


LOADS = (0.8, 0.85, 0.9, 0.95)
ACTIVE = "smsp__thread_inst_executed_per_inst_executed.ratio"
KERNELS = {"cuckoo": "cuckoo_insert", "stash": "serve_elements", "clstash": "insert_by_stack"}


def _active_lanes(name: str, load: float, n: int) -> float:
    """Lanes of 32 that are active in an instruction of the inserts of n pairs, as the profiler counts them."""
    ncu = shutil.which("ncu")
    if ncu is None:
        raise Unavailable("Table I is counted by the profiler ncu of Nsight Compute, which is not on PATH")
    command = [ncu, "--csv", "--clock-control", "none", "--metrics", ACTIVE, "-k", f"regex:{KERNELS[name]}"]
    command += [sys.executable, "-m", "asv_bench.harness.stadium_inserts", name, str(load), str(n)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    lines = done.stdout.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if done.returncode or start is None:
        raise Unavailable(f"ncu counted nothing (status {done.returncode}): {(done.stdout + done.stderr)[-500:]}")
    counted = [float(row["Metric Value"]) for row in csv.DictReader(io.StringIO("\n".join(lines[start:])))]
    return statistics.mean(counted)


def lanes(settings: Settings) -> Figure:
    """Table I: warp execution efficiency of inserts into an empty table, by the load at the end; 4+4 bytes."""
    if not settings.on_cuda:
        raise Unavailable("Table I is about the warps of a GPU: pass --device cuda")
    n = settings.n or 1 << 22
    rows: list[dict[str, Any]] = []
    for load in LOADS:
        for name in KERNELS:
            percent = _active_lanes(name, load, n) / 32 * 100
            rows.append({"table": name, "load": load, "keys": n, "active_percent": percent})
    chart = Chart("Warp execution efficiency of inserts", "load", "% of lanes", f"{n:,} pairs of 4+4 bytes")
    return Figure(rows, series(rows, chart, "load", "active_percent", ["table"]))


FIGURES = {
    "13": hybrid,
    "14": beside_cuckoo,
    "15": concurrency,
    "16": beside_cuckoo_out_of_core,
    "17": out_of_core,
    "18": tickets_and_lanes,
    "19": sizes,
    "19b": sizes_on_host,
    "I": lanes,
    "batches": batches,
}
