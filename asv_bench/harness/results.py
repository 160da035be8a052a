"""Rows of results, and the files that they are written to: JSON, asv's JSON, Markdown, CSV."""

from __future__ import annotations

import csv
import datetime
import json
import os
import platform
import statistics
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import pygpuhash as gh

RESULTS = Path(__file__).resolve().parent.parent / "results"


@dataclass
class Row:
    """One operation of one table (or of another library) on one device."""

    backend: str
    device: str
    operation: str
    n: int  # keys per repeat
    seconds: list[float]
    key_bytes: int
    value_bytes: int
    load: float | None = None
    options: dict[str, str] = field(default_factory=dict)
    ceiling: str = ""  # which accesses; "" where there is none to compare with
    ceiling_ns: float | None = None  # per key, in the same run
    bytes_per_key: float | None = None

    @property
    def ns(self) -> float:
        """Nanoseconds per key, median."""
        return statistics.median(self.seconds) / self.n * 1e9

    @property
    def rates(self) -> tuple[float, float, float]:
        """Million keys per second: median, minimum, maximum."""
        ordered = (statistics.median(self.seconds), max(self.seconds), min(self.seconds))
        median, least, most = (self.n / seconds / 1e6 for seconds in ordered)
        return median, least, most

    @property
    def ratio(self) -> float | None:
        """Rate as a share of the ceiling's."""
        return None if self.ceiling_ns is None else self.ceiling_ns / self.ns

    @property
    def name(self) -> str:
        """The backend with its options."""
        return " ".join([self.backend, *(f"{key}={value}" for key, value in self.options.items())])


def machine_name() -> str:
    """Directory of this machine's results: GPUHASH_BENCH_MACHINE, or the host's name."""
    return os.environ.get("GPUHASH_BENCH_MACHINE") or platform.node() or "unknown"


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=RESULTS.parent, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def cards(devices: Iterable[str]) -> dict[str, Any]:
    """The model and the memory of each card of a run."""
    from .card import identity

    found = {name: identity(name) for name in devices if name.startswith("cuda")}
    return {"cards": found} if found else {}


def circumstances(devices: dict[str, str]) -> dict[str, Any]:
    """What has to be known about a run besides its rows. `devices`: name -> model."""
    return {
        "commit": _git("rev-parse", "HEAD"),
        "commit_date": int(_git("show", "-s", "--format=%at", "HEAD") or 0) * 1000,  # milliseconds, as asv has them
        "modified": bool(_git("status", "--porcelain", "--untracked-files=no")),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": machine_name(),
        "devices": devices,
        **cards(devices),
        "build": gh.show_config(mode="dict")["build"],
        "python": platform.python_version(),
        "numpy": np.__version__,
        "system": platform.platform(),
    }


def write_json(path: Path, run: dict[str, Any], rows: Iterable[Row]) -> None:
    """Everything that was measured, with the derived figures."""
    records = [asdict(row) | {"ns_per_key": row.ns, "ratio": row.ratio} for row in rows]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(run | {"rows": records}, indent=1) + "\n")


def write_report(stem: Path, text: str, run: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    """Print a text, and write it as <stem>.md with its rows as <stem>.json."""
    print(text)
    stem.parent.mkdir(parents=True, exist_ok=True)
    stem.with_suffix(".json").write_text(json.dumps(run | {"rows": rows}, indent=1) + "\n")
    stem.with_suffix(".md").write_text(text)


def write_csv(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """One line per row; columns are the keys of all rows, in the order of their first use."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def rate(million: float) -> str:
    """A rate with three digits that mean something."""
    return f"{million:,.0f}" if million >= 100 else f"{million:.3g}"


def markdown_table(header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A Markdown table, aligned so that it reads well as text too; all columns but the first two to the right."""
    cells = [list(header), *map(list, lines)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(header))]

    def text(line: Sequence[str]) -> str:
        padded = (c.ljust(w) if i < 2 else c.rjust(w) for i, (c, w) in enumerate(zip(line, widths, strict=True)))
        return f"| {' | '.join(padded)} |"

    rule = [("-" * w if i < 2 else "-" * (w - 1) + ":") for i, w in enumerate(widths)]
    return "\n".join([text(cells[0]), f"| {' | '.join(rule)} |", *map(text, cells[1:])]) + "\n"
