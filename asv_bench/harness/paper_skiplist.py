"""Moscovici, Cohen, Petrank 2017, section V: figures 8, 9 and 10 and table II for skiplist, and its memory."""

from __future__ import annotations

import dataclasses
import os
import re
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import pygpuhash as gh

from .charts import Chart
from .devices import Unavailable
from .figure import Figure, Settings, rates, series
from .keys import drawn
from .modules import arch_of, compile_module
from .one_thread_each import skiplist
from .runs import Wrong

RANGES = (10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000, 30_000_000, 100_000_000)
MIXTURES = ((1, 1, 98), (5, 5, 90), (10, 10, 80), (20, 20, 60))  # percent: insert, erase, find
CLASSIC_RANGES = 10_000_000  # up to which the paper has the other list, whose nodes then used up its memory
SINGLE = {"insert": gh.Op.INSERT, "erase": gh.Op.ERASE, "find": gh.Op.FIND}
OURS, CLASSIC = "skiplist", "a node per key"


class Ours:
    """A skiplist of this library with keys of 4 bytes and no values, behind the same interface."""

    def __init__(self, settings: Settings, keys: int, backend: str = "skiplist", **options: str) -> None:
        self.table = gh.Table(
            backend,
            key_dtype="u4",
            value_dtype=None,
            capacity=keys,
            device=settings.device.name,
            threads=settings.threads,
            **(options | settings.options),
        )

    def close(self) -> None:
        """Free the table."""
        self.table.close()

    def serve(self, ops: Any, keys: Any) -> Any:
        """Status of each operation, 0 or 1."""
        return self.table.execute(ops, keys)[1]

    def serve_all(self, operation: str, keys: Any) -> Any:
        """The same of one operation for all keys, by the call that is for it."""
        return {"insert": self.table.insert, "erase": self.table.erase, "find": self.table.contains}[operation](keys)

    def holds(self, keys: Any) -> Any:
        """Is each of the keys there?"""
        return self.table.contains(keys)


def _operations(settings: Settings) -> int:
    n = settings.n or (10_000_000 if settings.on_cuda else 1_000_000)
    if n < RANGES[0] // 10:
        raise gh.InvalidArgument(f"--n {n}: use at least {RANGES[0] // 10} operations")
    return n


def _ranges(settings: Settings) -> list[int]:
    return [r for r in RANGES if r <= 10 * _operations(settings)]


def _timed(settings: Settings, serve: Callable[[], Any]) -> tuple[float, Any]:
    """(seconds, status of each operation)."""
    answer: list[Any] = []
    seconds = settings.device.time(lambda: answer.append(serve()))
    if bool((answer[0].view(np.uint8) > 1).any()):
        raise Wrong("the skiplist with a node per key ran out of nodes")
    return seconds, answer[0]


def _counted(settings: Settings, table: Any, span: int, there: int) -> None:
    """Answers have to add up to the keys that are there in the end."""
    found = int(table.holds(settings.device.xp.arange(span, dtype=np.uint32)).sum())
    if found != there:
        raise Wrong(f"{found:,} keys are there, and the answers add up to {there:,}")


def _mixture(settings: Settings, make: Callable[[int, int], Any], span: int, shares: tuple[int, ...]) -> list[float]:
    """Seconds of each batch of random operations on a table that half of the keys were inserted into."""
    xp, n = settings.device.xp, _operations(settings)
    table = make(span, span // 2 + (settings.repeats + 1) * n)
    start = _in_any_order(settings, span)[: span // 2]
    there = int(table.serve_all("insert", start).sum())
    seconds = []
    for repeat in range(settings.repeats + 1):  # the first one does not count
        share = drawn(xp, n, 100, salt=2 * repeat + 1)
        ops = xp.full(n, int(gh.Op.FIND), np.uint8)
        ops[share < shares[0] + shares[1]] = int(gh.Op.ERASE)
        ops[share < shares[0]] = int(gh.Op.INSERT)
        keys = drawn(xp, n, span, salt=2 * repeat + 2)
        taken, status = _timed(settings, partial(table.serve, ops, keys))
        seconds.append(taken)
        inserted, erased = (int(status[ops == int(SINGLE[name])].sum()) for name in ("insert", "erase"))
        there += inserted - erased
    _counted(settings, table, span, there)
    table.close()
    return seconds[1:]


def _in_any_order(settings: Settings, span: int) -> Any:
    xp = settings.device.xp
    return xp.argsort(drawn(xp, span, 1 << 32)).astype(np.uint32)


def _single(settings: Settings, make: Callable[[int, int], Any], span: int, operation: str) -> list[float]:
    """Seconds of inserting a range's keys into an empty table, erasing them, or finding random ones."""
    xp, n = settings.device.xp, _operations(settings)
    seconds = []
    keys = _in_any_order(settings, span)
    for repeat in range(settings.repeats + 1):
        table = make(span, span)
        taken, status = _timed(settings, partial(table.serve_all, "insert", keys))
        if operation == "find":
            asked = drawn(xp, n, span, salt=repeat + 1)
            taken, status = _timed(settings, partial(table.serve_all, "find", asked))
        if operation == "erase":
            taken, status = _timed(settings, partial(table.serve_all, "erase", keys[::-1].copy()))
        if not bool((status == 1).all()):
            raise Wrong(f"{operation}: {int((status != 1).sum()):,} answers of {len(status):,} are wrong")
        _counted(settings, table, span, 0 if operation == "erase" else span)
        table.close()
        seconds.append(taken)
    return seconds[1:]


def _makers(settings: Settings, span: int) -> dict[str, Callable[[int, int], Any]]:
    """A table for so many keys at one time, and so many insertions, by its name."""
    makers: dict[str, Callable[[int, int], Any]] = {
        OURS: lambda _, nodes: Ours(settings, min(nodes, 1 << 28), build="never"),  # the algorithm, not a sort
    }
    if span <= CLASSIC_RANGES:
        makers[CLASSIC] = lambda keys, nodes: skiplist(settings, keys, nodes)
    return makers


_seen: dict[str, list[dict[str, Any]]] = {}  # figure 8 is drawn from the same measurement as 9 and 10


def _measured(settings: Settings, what: str, rows: Callable[[Settings], list[dict[str, Any]]]) -> list[dict[str, Any]]:
    key = f"{what} on {settings.device.name}: {settings.record()}"
    if key not in _seen:
        _seen[key] = rows(settings)
    return _seen[key]


def _mixtures(settings: Settings) -> list[dict[str, Any]]:
    n = _operations(settings)
    return [
        {"table": name, "operation": f"[{', '.join(map(str, shares))}]", "range": span}
        | rates(n, _mixture(settings, make, span, shares))
        for shares in MIXTURES
        for span in _ranges(settings)
        for name, make in _makers(settings, span).items()
    ]


def _singles(settings: Settings) -> list[dict[str, Any]]:
    n = _operations(settings)
    return [
        {"table": name, "operation": operation, "range": span}
        | rates(n if operation == "find" else span, _single(settings, make, span, operation))
        for operation in SINGLE
        for span in _ranges(settings)
        for name, make in _makers(settings, span).items()
    ]


def _note(settings: Settings) -> str:
    return f"{_operations(settings):,} operations, median of {settings.repeats}"


def figure_8(settings: Settings) -> Figure:
    """How many times as fast as a skiplist with a node per key, against the range of keys."""
    measured = _measured(settings, "mixtures", _mixtures) + _measured(settings, "singles", _singles)
    rate = {(row["table"], row["operation"], row["range"]): row["M_per_s"] for row in measured}
    rows = [
        {"operation": operation, "range": span, "ratio": value / rate[CLASSIC, operation, span]}
        for (table, operation, span), value in rate.items()
        if table == OURS and (CLASSIC, operation, span) in rate
    ]
    chart = Chart("Figure 8: ratio to a node per key", "range of keys", "ratio", _note(settings), "log", "log")
    return Figure(rows, series(rows, chart, "range", "ratio", ["operation"]))


def figure_9(settings: Settings) -> Figure:
    """Rates of mixtures [insert, erase, find] in percent against the range of keys."""
    rows = _measured(settings, "mixtures", _mixtures)
    chart = Chart("Figure 9: mixtures", "range of keys", "M operations/s", _note(settings), "log")
    return Figure(rows, series(rows, chart, "range", "M_per_s", ["table", "operation"]))


def figure_10(settings: Settings) -> Figure:
    """Rates of one kind of operation against the range of keys: all keys inserted, all erased, random ones found."""
    rows = _measured(settings, "singles", _singles)
    chart = Chart("Figure 10: single operations", "range of keys", "M operations/s", _note(settings), "log")
    return Figure(rows, series(rows, chart, "range", "M_per_s", ["table", "operation"]))


def memory(settings: Settings) -> Figure:
    """Bytes per key in chunks that were handed out: after random inserts, ageing at constant size, and flush."""
    xp, n = settings.device.xp, settings.n or (10_000_000 if settings.on_cuda else 1_000_000)
    rng = np.random.default_rng(1)
    table = Ours(settings, n, build="never").table
    keys = rng.choice(1 << 32, n, replace=False).astype("u4") if n < 1 << 20 else _distinct(rng, n)
    rows: list[dict[str, Any]] = []

    def note(when: str) -> None:
        stats = table.stats()
        chunk = (stats["chunk_entries"] + 2) * 8
        rows.append(
            {"round": len(rows), "when": when, "n": len(table), "fill": stats["fill"], "zombies": int(stats["zombies"])}
            | {"bytes_per_key": stats["pool_taken"] * chunk / n, "allocated_per_key": table.nbytes / n}
        )

    table.insert(xp.asarray(keys))
    note("random inserts")
    part = n // 10
    for round_ in range(20):
        gone = rng.permutation(n)[:part]
        table.erase(xp.asarray(keys[gone]))
        keys[gone] = np.setdiff1d(_distinct(rng, 2 * part), keys)[rng.permutation(part)]
        table.insert(xp.asarray(keys[gone]))
        note(f"a tenth replaced {round_ + 1} times")
    table.flush()
    note("flush")
    if len(table) != n or not bool(table.contains(xp.asarray(keys)).all()):
        raise Wrong("skiplist has other keys than were inserted")
    table.close()
    chart = Chart("Memory of a skiplist", "round", "bytes per key", f"{n:,} keys of 4 bytes, values of none")
    for column in ("bytes_per_key", "allocated_per_key"):
        chart.line(column.replace("_", " "), [(row["round"], row[column]) for row in rows])
    return Figure(rows, chart)


def _distinct(rng: np.random.Generator, n: int) -> Any:
    return rng.permutation(np.unique(rng.integers(0, 1 << 32, n + n // 4 + 1000, dtype="u4")))[:n]


# ---- table II: warps of a block --------------------------------------------------------------------------------------

WARPS = (2, 4, 8, 16)
SM_THREADS, SM_REGISTERS, SM_BLOCKS = 2048, 65536, 32  # of a multiprocessor of compute capability 8.0 and 9.0
MIXED = 9  # the kind of operation of the kernel that serves mixtures


def registers_of(usage: str, warps: int) -> int:
    """Registers of the kernel of mixtures, of 4-byte keys and chunks of 8 words, as nvcc --resource-usage has them."""
    entry = ""
    for line in usage.splitlines():
        if "Compiling entry function" in line or "Function properties for" in line:
            entry = line
        found = re.search(r"Used (\d+) registers", line)
        mine = "serve_batch" in entry and "skip_update" in entry and "pair32" in entry
        if found and mine and "Li8E" in entry and f"Lj{MIXED}E" in entry:
            return int(found[1])
    raise Unavailable(f"nvcc said nothing of the kernel of mixtures with {warps} warps to a block: {usage[-500:]}")


def blocks_of(registers: int, warps: int) -> int:
    """Blocks that a multiprocessor has room for: registers are given out to warps, 256 at a time."""
    of_warp = -(-registers * 32 // 256) * 256
    return min(SM_REGISTERS // (of_warp * warps), SM_THREADS // (32 * warps), SM_BLOCKS)


def module_with(warps: int, folder: Path, arch: str) -> tuple[Path, int]:
    """skiplist with so many warps to a block, compiled here: (module, registers of the kernel of mixtures)."""
    sizes = folder / f"sizes_{warps}.hpp"
    sizes.write_text(f'#define GPUHASH_SIZES {{"cuda.block_warps", {warps}}}\n')
    flags = ["-include", str(sizes), "--resource-usage"]
    module, said = compile_module("skiplist", folder / str(warps), arch, flags)
    return module, registers_of(said, warps)


def table_ii(settings: Settings) -> Figure:
    """Table II: warps of a block, the registers and blocks that follow, and the rate of the mixture [10, 10, 80]."""
    if not settings.on_cuda:
        raise Unavailable("table II is about the warps of a GPU: pass --device cuda")
    span = min(1_000_000, 10 * _operations(settings))
    rows: list[dict[str, Any]] = []
    folder, arch = Path(tempfile.mkdtemp(prefix="gpuhash-warps-")), arch_of(settings)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        modules = list(pool.map(lambda warps: module_with(warps, folder, arch), WARPS))
    options = {key: value for key, value in settings.options.items() if key != "arch"}
    own = dataclasses.replace(settings, options=options)
    for warps, (module, registers) in zip(WARPS, modules, strict=True):

        def make(_: int, nodes: int, module: Path = module, own: Settings = own) -> Any:
            return Ours(own, nodes, backend=str(module), build="never")

        seconds = _mixture(own, make, span, MIXTURES[2])
        blocks = blocks_of(registers, warps)
        row = {"warps": warps, "registers": registers, "blocks": blocks, "range": span}
        rows.append(row | {"occupancy": blocks * warps * 32 / SM_THREADS} | rates(_operations(settings), seconds))
    chart = Chart("Table II: warps of a block", "warps", "M operations/s", f"{_note(settings)}, [10, 10, 80]")
    return Figure(rows, series(rows, chart, "warps", "M_per_s", ["range"]))


FIGURES = {"8": figure_8, "9": figure_9, "10": figure_10, "II": table_ii, "memory": memory}
