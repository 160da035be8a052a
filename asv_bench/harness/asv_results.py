"""Rows as a result file of asv, under the names of the benchmarks in benchmarks/tables.py.

The environment's name holds n, so that asv keeps series of different sizes apart, and the file sits beside those that
`asv run` writes.
"""

from __future__ import annotations

import itertools
import json
import os
import platform
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .results import Row

VERSION = "1"  # of the benchmarks in benchmarks/tables.py: a result of another version is not shown beside them
COLUMNS = ["result", "params", "version", "started_at", "duration"]


def benchmark_name(operation: str) -> str:
    """find_hit -> tables.FindHit.track_ns_per_key."""
    return f"tables.{operation.title().replace('_', '')}.track_ns_per_key"


def machine(name: str) -> dict[str, Any]:
    """What asv's machine.json holds."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 1024
    system = platform.uname()
    return {
        "arch": system.machine,
        "cpu": system.processor,
        "machine": name,
        "num_cpu": str(os.cpu_count()),
        "os": f"{system.system} {system.release}",
        "ram": str(memory),
        "version": 1,
    }


def _result(rows: list[Row], started: int) -> list[Any]:
    """The line of one benchmark: a value for every combination of its parameters, null where there was none."""
    axes = [
        sorted({row.backend for row in rows}),
        sorted({row.device for row in rows}),
        sorted({row.load or 0.0 for row in rows}),
        sorted({f"{row.key_bytes}+{row.value_bytes}" for row in rows}),
    ]
    values = {(row.backend, row.device, row.load, f"{row.key_bytes}+{row.value_bytes}"): row.ns for row in rows}
    return [
        [values.get(combination) for combination in itertools.product(*axes)],
        [[repr(value) for value in axis] for axis in axes],
        VERSION,
        started,
        None,
    ]


def write(directory: Path, run: dict[str, Any], rows: Iterable[Row], n: int) -> Path:
    """Write the rows of backends with their default options into `directory` (the machine's) and return the file."""
    plain = [row for row in rows if row.load is not None and not row.options]
    started = int(time.time() * 1000)
    by_operation = {row.operation: [r for r in plain if r.operation == row.operation] for row in plain}
    host = machine(run["machine"])
    environment = f"report-n{n}"
    record = {
        "version": 2,
        "commit_hash": run["commit"],
        "env_name": environment,
        "date": started,
        "params": {k: v for k, v in host.items() if k != "version"} | {"python": run["python"], "n": str(n)},
        "python": run["python"],
        "requirements": {"numpy": run["numpy"]},
        "env_vars": {},
        "result_columns": COLUMNS,
        "results": {benchmark_name(operation): _result(of, started) for operation, of in by_operation.items()},
        "durations": {},
    }
    path = directory / f"{run['commit'][:8]}-{environment}.json"
    directory.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1) + "\n")
    about = directory / "machine.json"
    if not about.exists():
        about.write_text(json.dumps(host, indent=1) + "\n")
    return path
