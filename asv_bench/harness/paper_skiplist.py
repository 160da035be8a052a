"""Moscovici, Cohen, Petrank 2017, section V: figures 8, 9 and 10 and table II for skiplist, and its memory."""

from __future__ import annotations

import ctypes
import dataclasses
import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import pygpuhash as gh

from .charts import Chart
from .devices import Unavailable
from .figure import Figure, Settings, rates, series
from .modules import OF_SOURCE, ROOT, link
from .runs import Wrong

RANGES = (10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000, 30_000_000, 100_000_000)
MIXTURES = ((1, 1, 98), (5, 5, 90), (10, 10, 80), (20, 20, 60))  # percent: insert, erase, find
SINGLE = {"insert": gh.Op.INSERT, "erase": gh.Op.ERASE, "find": gh.Op.FIND}
OURS, CLASSIC = "skiplist", "a node per key"


class Classic:
    """The classic skiplist: classic_skiplist.cpp, compiled when it is needed. On the CPU, 4-byte keys, no values."""

    def __init__(self, settings: Settings, nodes: int) -> None:
        if settings.on_cuda:
            raise Unavailable("the classic skiplist runs on the CPU only: use --device cpu for this figure")
        self.functions, self.threads = _library(), settings.threads or len(_cpus())
        self.list = self.functions.classic_make(nodes)
        if not self.list:
            raise Unavailable(f"no memory for a skiplist of {nodes:,} nodes; ask for fewer elements with --n")

    def close(self) -> None:
        """Free the list."""
        self.functions.classic_drop(self.list)

    def serve(self, ops: Any, keys: Any) -> Any:
        """Status of each operation, 0 or 1."""
        status = np.empty(len(keys), np.uint8)
        at = [array.ctypes.data_as(ctypes.c_void_p) for array in (ops, keys, status)]
        self.functions.classic_serve(self.list, ctypes.c_size_t(len(keys)), *at, self.threads)
        if int(status.max(initial=0)) > 1:
            raise Wrong("the classic skiplist ran out of nodes")
        return status


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


def _cpus() -> set[int]:
    return os.sched_getaffinity(0)


@cache
def _library() -> Any:
    compiler = shutil.which("c++")
    if compiler is None:
        raise Unavailable("the classic skiplist needs a C++ compiler on PATH (c++)")
    target = Path(tempfile.mkdtemp(prefix="gpuhash-classic-")) / "classic.so"
    source = Path(__file__).with_name("classic_skiplist.cpp")
    command = [compiler, "-std=c++20", "-O3", "-march=native", "-pthread", "-shared", "-fPIC", source, "-o", target]
    subprocess.run([str(part) for part in command], check=True)
    library = ctypes.CDLL(str(target))
    library.classic_make.restype = ctypes.c_void_p
    library.classic_make.argtypes = [ctypes.c_size_t]
    library.classic_drop.argtypes = [ctypes.c_void_p]
    library.classic_serve.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_void_p] * 3, ctypes.c_uint]
    return library


def _operations(settings: Settings) -> int:
    n = settings.n or (10_000_000 if settings.on_cuda else 1_000_000)
    if n < RANGES[0] // 10:
        raise gh.InvalidArgument(f"--n {n}: use at least {RANGES[0] // 10} operations")
    return n


def _ranges(settings: Settings) -> list[int]:
    return [r for r in RANGES if r <= 10 * _operations(settings)]


def _timed(settings: Settings, table: Any, ops: Any, keys: Any, present: int) -> tuple[float, int]:
    """(seconds, keys that are there afterwards): what every inserted and erased key says has to add up."""
    answer: list[Any] = []
    seconds = settings.device.time(lambda: answer.append(table.serve(ops, keys)))
    yes = answer[0] != 0
    after = present + int((yes & (ops == int(gh.Op.INSERT))).sum()) - int((yes & (ops == int(gh.Op.ERASE))).sum())
    if isinstance(table, Ours) and len(table.table) != after:
        raise Wrong(f"skiplist has {len(table.table)} keys where its answers add up to {after}")
    return seconds, after


def _mixture(settings: Settings, make: Callable[[int], Any], span: int, shares: tuple[int, ...]) -> list[float]:
    """Seconds of each batch of random operations on a table that half of the keys were inserted into."""
    xp, n = settings.device.xp, _operations(settings)
    rng = np.random.default_rng(span + shares[0])
    table = make(span // 2 + (settings.repeats + 1) * n)
    start = xp.asarray(rng.permutation(span)[: span // 2].astype("u4"))
    _, there = _timed(settings, table, xp.full(len(start), int(gh.Op.INSERT), np.uint8), start, 0)
    seconds = []
    for _ in range(settings.repeats + 1):  # the first one does not count
        share = np.array(shares) / 100
        ops = xp.asarray(rng.choice(np.array([int(op) for op in SINGLE.values()], np.uint8), n, p=share))
        keys = xp.asarray(rng.integers(0, span, n, dtype="u4"))
        taken, there = _timed(settings, table, ops, keys, there)
        seconds.append(taken)
    table.close()
    return seconds[1:]


def _single(settings: Settings, make: Callable[[int], Any], span: int, operation: str) -> list[float]:
    """Seconds of inserting a range's keys into an empty table, erasing them, or finding random ones."""
    xp, n = settings.device.xp, _operations(settings)
    rng = np.random.default_rng(span)
    seconds = []
    for _ in range(settings.repeats + 1):
        table = make(span)
        keys = xp.asarray(rng.permutation(span).astype("u4"))
        ops = xp.full(span, int(gh.Op.INSERT), np.uint8)
        taken, there = _timed(settings, table, ops, keys, 0)
        if operation != "insert":
            count = n if operation == "find" else span
            keys = xp.asarray(rng.integers(0, span, n, dtype="u4")) if operation == "find" else keys[::-1].copy()
            ops = xp.full(count, int(SINGLE[operation]), np.uint8)
            taken, there = _timed(settings, table, ops, keys, there)
        if there != (0 if operation == "erase" else span):
            raise Wrong(f"{operation}: {there} keys are there afterwards")
        table.close()
        seconds.append(taken)
    return seconds[1:]


def _makers(settings: Settings, classic: bool) -> dict[str, Callable[[int], Any]]:
    makers: dict[str, Callable[[int], Any]] = {OURS: lambda keys: Ours(settings, min(keys, 1 << 28))}
    if classic:
        makers[CLASSIC] = lambda nodes: Classic(settings, nodes)
    return makers


def _mixtures(settings: Settings, classic: bool) -> list[dict[str, Any]]:
    n = _operations(settings)
    return [
        {"table": name, "operation": f"[{', '.join(map(str, shares))}]", "range": span}
        | rates(n, _mixture(settings, make, span, shares))
        for shares in MIXTURES
        for name, make in _makers(settings, classic).items()
        for span in _ranges(settings)
    ]


def _singles(settings: Settings, classic: bool) -> list[dict[str, Any]]:
    n = _operations(settings)
    return [
        {"table": name, "operation": operation, "range": span}
        | rates(n if operation == "find" else span, _single(settings, make, span, operation))
        for operation in SINGLE
        for name, make in _makers(settings, classic).items()
        for span in _ranges(settings)
    ]


def _note(settings: Settings) -> str:
    return f"{_operations(settings):,} operations, median of {settings.repeats}"


def figure_8(settings: Settings) -> Figure:
    """How many times as fast as a skiplist with a node per key, against the range of keys."""
    measured = _mixtures(settings, True) + _singles(settings, True)
    rate = {(row["table"], row["operation"], row["range"]): row["M_per_s"] for row in measured}
    rows = [
        {"operation": operation, "range": span, "ratio": value / rate[CLASSIC, operation, span]}
        for (table, operation, span), value in rate.items()
        if table == OURS
    ]
    chart = Chart("Figure 8: ratio to a node per key", "range of keys", "ratio", _note(settings), "log", "log")
    return Figure(rows, series(rows, chart, "range", "ratio", ["operation"]))


def figure_9(settings: Settings) -> Figure:
    """Rates of mixtures [insert, erase, find] in percent against the range of keys."""
    rows = _mixtures(settings, not settings.on_cuda)
    chart = Chart("Figure 9: mixtures", "range of keys", "M operations/s", _note(settings), "log")
    return Figure(rows, series(rows, chart, "range", "M_per_s", ["table", "operation"]))


def figure_10(settings: Settings) -> Figure:
    """Rates of one kind of operation against the range of keys: all keys inserted, all erased, random ones found."""
    rows = _singles(settings, not settings.on_cuda)
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
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        raise Unavailable("table II compiles the structure for each number of warps: put nvcc on PATH")
    includes = [f"-I{ROOT / folder_}" for folder_ in ("plugins/skiplist", ".", "libgpuhash/include")]
    own = folder / str(warps)  # a module is called after its structure
    own.mkdir()
    sizes = own / "sizes.hpp"
    sizes.write_text(f'#define GPUHASH_SIZES {{"cuda.block_warps", {warps}}}\n')
    common = ["-std=c++20", "-O3", "-DNDEBUG", "-DGPUHASH_WITH_CUDA=1", "-include", str(sizes), *includes]
    common += ["-DGPUHASH_WITHOUT_AVX2=1", "-DGPUHASH_WITHOUT_AVX512=1", "-Xcompiler=-fPIC"]
    common += [f"-arch={arch}", "--expt-relaxed-constexpr", "-Xcompiler=-fvisibility=hidden", "--resource-usage"]
    if platform.machine() == "x86_64":
        common.append("-Xcompiler=-mcx16")
    objects, said = [], ""
    for source in ("plugin.cpp", "plugin_host.cpp", "plugin_cuda.cu"):
        objects.append(own / f"{source}.o")
        command = [nvcc, *common, *OF_SOURCE.get(source, []), "-c", str(ROOT / "plugins/skiplist" / source)]
        command += ["-o", str(objects[-1])]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            errors = [line for line in done.stderr.splitlines() if "error" in line]
            raise Unavailable(f"nvcc does not compile {source} for {warps} warps: {chr(10).join(errors)[:500]}")
        said += done.stderr + done.stdout
    module = own / "gpuhash_skiplist.so"
    link(nvcc, [str(target) for target in objects], module)
    return module, registers_of(said, warps)


def table_ii(settings: Settings) -> Figure:
    """Table II: warps of a block, the registers and blocks that follow, and the rate of the mixture [10, 10, 80]."""
    if not settings.on_cuda:
        raise Unavailable("table II is about the warps of a GPU: pass --device cuda")
    span = min(1_000_000, 10 * _operations(settings))
    rows: list[dict[str, Any]] = []
    folder, arch = Path(tempfile.mkdtemp(prefix="gpuhash-warps-")), settings.options.get("arch", "sm_90")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        modules = list(pool.map(lambda warps: module_with(warps, folder, arch), WARPS))
    options = {key: value for key, value in settings.options.items() if key != "arch"}
    own = dataclasses.replace(settings, options=options)
    for warps, (module, registers) in zip(WARPS, modules, strict=True):

        def make(keys: int, module: Path = module, own: Settings = own) -> Any:
            return Ours(own, keys, backend=str(module), build="never")

        seconds = _mixture(own, make, span, MIXTURES[2])
        blocks = blocks_of(registers, warps)
        row = {"warps": warps, "registers": registers, "blocks": blocks, "range": span}
        rows.append(row | {"occupancy": blocks * warps * 32 / SM_THREADS} | rates(_operations(settings), seconds))
    chart = Chart("Table II: warps of a block", "warps", "M operations/s", f"{_note(settings)}, [10, 10, 80]")
    return Figure(rows, series(rows, chart, "warps", "M_per_s", ["range"]))


FIGURES = {"8": figure_8, "9": figure_9, "10": figure_10, "II": table_ii, "memory": memory}
