"""Rows as a result file of asv: on a GPU under the names of benchmarks/gpu_tables.py, on a CPU as `wall_clock`.

The number of keys is a parameter. The file sits beside those that `asv run` writes.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import platform
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pygpuhash as gh

from .results import Row
from .runs import OPERATIONS

VERSION = "1"  # of the benchmarks in benchmarks/gpu_tables.py: a result of another version is not shown beside them
COLUMNS = ["result", "params", "version", "started_at", "duration"]


def _title(operation: str) -> str:
    return f"{operation.title().replace('_', '')}.track_ns_per_key"


TABLES = tuple(map(_title, OPERATIONS))  # FindHit.track_ns_per_key and so on


def benchmark_name(operation: str, device: str) -> str:
    """find_hit on cuda -> gpu_tables.FindHit.track_ns_per_key."""
    return f"{'wall_clock' if device == 'cpu' else 'gpu_tables'}.{_title(operation)}"


def facts(name: str) -> dict[str, Any]:
    """What asv's machine.json holds: what stays as it is while the machine does, so that it is one series."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    models = [device.model for device in gh.devices()]
    return {
        "arch": platform.machine(),
        "cpu": ", ".join(dict.fromkeys(models)),
        "machine": name,
        "num_cpu": str(os.cpu_count()),
        "os": platform.system(),
        "ram": f"{memory / 1e9:.0f} GB",
        "version": 1,
    }


def series(machine: Mapping[str, Any], python: str) -> dict[str, str]:
    """The parameters of a result file, which tell asv's series apart."""
    return {key: value for key, value in machine.items() if key != "version"} | {"python": python}


def _result(rows: list[Row], n: int, started: int) -> list[Any]:
    """The line of one benchmark: a value for every combination of its parameters, NaN where there was none, as asv has
    what is not applicable; null is a failure."""
    axes = [
        sorted({row.backend for row in rows}),
        [f"2^{n.bit_length() - 1}" if n & (n - 1) == 0 else str(n)],
        sorted({row.load or 0.0 for row in rows}),
        sorted({f"{row.key_bytes}+{row.value_bytes}" for row in rows}),
    ]
    values = {(row.backend, axes[1][0], row.load, f"{row.key_bytes}+{row.value_bytes}"): row.ns for row in rows}
    return [
        [values.get(combination, math.nan) for combination in itertools.product(*axes)],
        [[repr(value) for value in axis] for axis in axes],
        VERSION,
        started,
        None,
    ]


def write(directory: Path, run: dict[str, Any], rows: Iterable[Row], n: int) -> Path:
    """Write the rows of backends with their default options into `directory` (the machine's) and return the file."""
    plain = [row for row in rows if row.load is not None and not row.options]
    started = int(time.time() * 1000)
    names = {benchmark_name(row.operation, row.device) for row in plain}
    by_name = {
        name: [row for row in plain if benchmark_name(row.operation, row.device) == name] for name in sorted(names)
    }
    directory.mkdir(parents=True, exist_ok=True)
    about = directory / "machine.json"
    if not about.exists():
        about.write_text(json.dumps(facts(run["machine"]), indent=1) + "\n")
    python = ".".join(run["python"].split(".")[:2])
    environment = f"report-n{n}"
    record = {
        "version": 2,
        "commit_hash": run["commit"],
        "env_name": environment,
        "date": run["commit_date"],
        "params": series(json.loads(about.read_text()), python),
        "python": python,
        "requirements": {"numpy": run["numpy"]},
        "env_vars": {},
        "result_columns": COLUMNS,
        "results": {name: _result(of, n, started) for name, of in by_name.items()},
        "durations": {},
        **({"card": next(iter(run["cards"].values()))} if run.get("cards") else {}),
    }
    path = directory / f"{run['commit'][:8]}-{environment}.json"
    path.write_text(json.dumps(record, indent=1) + "\n")
    return path
