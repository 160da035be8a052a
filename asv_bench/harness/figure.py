"""The arguments that the script of a paper's figure takes, and the result that it returns."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from .charts import Chart
from .devices import Device
from .results import markdown_table


@dataclass
class Settings:
    """Where and how large. `n` and `slots` are None for the figure's own default."""

    device: Device
    n: int | None
    slots: int | None
    repeats: int
    threads: int | None
    options: dict[str, str]

    @property
    def on_cuda(self) -> bool:
        """Sizes of figures differ between a GPU and a CPU."""
        return self.device.name != "cpu"

    def record(self) -> dict[str, Any]:
        """For the JSON file, without the folder in which compiled modules are kept."""
        options = {key: value for key, value in self.options.items() if key != "modules"}
        return {"n": self.n, "slots": self.slots, "repeats": self.repeats, "threads": self.threads, **options}


@dataclass
class Figure:
    """Rows of numbers, the plot that is drawn from them, and what to print where the rows are too many."""

    rows: list[dict[str, Any]]
    chart: Chart
    summary: list[dict[str, Any]] = field(default_factory=list)

    def text(self) -> str:
        """The summary, or else the rows, as a Markdown table under the title."""
        shown = self.summary or self.rows
        columns = list(dict.fromkeys(key for row in shown for key in row))
        lines = [[_cell(row.get(column, "")) for column in columns] for row in shown]
        return f"## {self.chart.title}\n\n{markdown_table(columns, lines)}"


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def series(rows: Sequence[dict[str, Any]], chart: Chart, x: str, y: str, by: Sequence[str]) -> Chart:
    """Draw column y over column x with its spread, one line for every combination of the columns `by`."""
    for key in dict.fromkeys(tuple(row[column] for column in by) for row in rows):
        own = [row for row in rows if tuple(row[column] for column in by) == key]
        spread = all("min" in row and row["min"] <= row[y] <= row["max"] for row in own)  # it may be of another column
        columns = (x, y, "min", "max") if spread else (x, y)
        points = [tuple(row[column] for column in columns) for row in own]
        chart.line(", ".join(map(_word, by, key)), points)
    return chart


def _word(column: str, value: Any) -> str:
    """Of a line's label: what a number is of."""
    return value if isinstance(value, str) else f"{column} {value}"


def rates(n: int, seconds: Sequence[float]) -> dict[str, float]:
    """Million per second: median, minimum, maximum."""
    return {
        "M_per_s": n / statistics.median(seconds) / 1e6,
        "min": n / max(seconds) / 1e6,
        "max": n / min(seconds) / 1e6,
    }


def wall(device: Device, work: Callable[[], Any]) -> float:
    """Seconds from the call until the device is done, with everything that the host does in between."""
    device.wait()
    start = time.perf_counter()
    work()
    device.wait()
    return time.perf_counter() - start
