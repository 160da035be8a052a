"""The cost of hive's protocol: its module beside one that is compiled with the mistakes of the paper's protocol."""

from __future__ import annotations

import statistics
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import pygpuhash as gh

from .charts import Chart
from .figure import Figure, Settings, series
from .modules import arch_of, compile_module
from .runs import TableRun

# What the paper's inserts and misses do without (tests/model/mutants/hive.def). They still go to the home first and
# ask the filter, which the paper's do not: so nothing but locks, second looks and the order of accesses is measured.
MISTAKES = (
    "unlocked_home",
    "unlocked_victim",
    "unlocked_destination",
    "unlocked_reuse",
    "one_glance",
    "impatient_miss",
    "unchecked_miss",
    "relaxed_row",
)
LOADS = (0.8, 0.9)
ROUNDS = ("insert", "find_hit", "find_miss", "assign", "erase")
AMONG_WRITERS = ("execute_hit", "execute_miss")  # finds that a batch of several kinds may have writers beside


def module_with(mistakes: str, folder: Path, arch: str | None) -> Path:
    """hive compiled here, with these mistakes; for CUDA, too, if there is an architecture."""
    flags = [f'-DGPUHASH_PLANTED="{mistakes}"', "-DGPUHASH_PAIR32_ONLY"]
    return compile_module("hive", folder / ("mistaken" if mistakes else "right"), arch, flags, ["-march=native"])[0]


class Counting(TableRun):
    """A run that counts wrong answers: the mistakes are some."""

    wrong = 0

    def _all(self, what: str, correct: Any) -> None:
        del what
        self.wrong += int(correct.size - correct.sum())

    def _execute(self, keys: Any) -> float:
        ops = self.device.xp.full(self.n, int(gh.Op.FIND), np.uint8)
        call = partial(self.table.execute, ops, keys, self.values, out=self.out, found=self.mask)
        return self.device.time(call)

    def execute_hit(self) -> float:
        """All keys, by the kernel of batches of several kinds."""
        seconds = self._execute(self.queries)
        self._all("execute: found", self.mask)
        return seconds

    def execute_miss(self) -> float:
        """As many absent keys."""
        seconds = self._execute(self.absent)
        self._all("execute: absent", ~self.mask)
        return seconds


def price(settings: Settings) -> Figure:
    """Time of each operation by that of a module with the mistakes, minus one. In turn: a busy moment is both's."""
    n, on = settings.n or (1 << 26 if settings.on_cuda else 1 << 21), settings.device
    given = {key: value for key, value in settings.options.items() if key != "arch"}
    options = {"parts": "never"} | given  # the protocol, element by element
    arch = arch_of(settings) if settings.on_cuda else None
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="gpuhash-price-") as folder, ThreadPoolExecutor(2) as pool:
        built = pool.map(lambda mistakes: module_with(mistakes, Path(folder), arch), ("", " ".join(MISTAKES)))
        modules = [str(module) for module in built]
        for load in LOADS:
            runs = [Counting(on, module, load, n, (4, 4), settings.threads, **options) for module in modules]
            for operation in (*ROUNDS, *AMONG_WRITERS):
                taken: list[list[float]] = [[], []]
                for repeat in range(settings.repeats + 1):
                    for run, seconds in zip(runs, taken, strict=True):
                        run.bring_to_start("find_hit" if operation in AMONG_WRITERS else operation)
                        seconds.append(getattr(run, operation)())
                    if not repeat:
                        taken = [[], []]
                ratios = [right / mistaken - 1 for right, mistaken in zip(*taken, strict=True)]
                many = runs[0].count(operation)
                rows.append(
                    {"load": load, "operation": operation, "price": statistics.median(ratios)}
                    | {"min": min(ratios), "max": max(ratios)}
                    | {"M_per_s": many / statistics.median(taken[0]) / 1e6}
                    | {"M_per_s_mistaken": many / statistics.median(taken[1]) / 1e6}
                )
            if runs[0].wrong:
                raise AssertionError(f"hive gave {runs[0].wrong} wrong answers")
            rows += [{"load": load, "operation": "all", "wrong_mistaken": runs[1].wrong}]
            for run in runs:
                run.close()
    note = f"{n:,} keys of 4 + 4 bytes, {settings.threads or 'all'} threads, median of {settings.repeats}"
    chart = Chart("Price of the protocol", "load factor", "time by that with mistakes - 1", note)
    return Figure(rows, series([row for row in rows if "price" in row], chart, "load", "price", ["operation"]))
