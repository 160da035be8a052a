"""The courses of tables on a CUDA device: batches are CuPy's arrays, and times are those between two events.

Nothing here needs the package, so that builds of any age are measured alike. The median is the figure, not the least
time: a card's clock moves both ways.
"""

from __future__ import annotations

import importlib
import statistics
from collections.abc import Callable
from typing import Any

from .builds import CUDA, Build
from .courses import TableCourse, TableRunner, all_times


class CardCourse(TableCourse):
    """Batches on a table of a card."""

    def open(self, build: Build) -> CardRunner:
        """A table of this build on the first CUDA device, filled."""
        return CardRunner(self, build)


class CardRunner(TableRunner):
    """A course on the table of one build on a card."""

    device = CUDA

    def __init__(self, course: TableCourse, build: Build) -> None:
        self.cupy: Any = importlib.import_module("cupy")
        super().__init__(course, build)

    def there(self, array: Any) -> Any:
        """The array on the device."""
        return self.cupy.asarray(array)

    def here(self, array: Any) -> Any:
        """The array on the host."""
        return self.cupy.asnumpy(array)

    def time(self, work: Callable[[], int]) -> tuple[float, int]:
        """(seconds between two events around the call, its result)."""
        start, stop = self.cupy.cuda.Event(), self.cupy.cuda.Event()
        start.record()
        result = work()
        stop.record()
        stop.synchronize()
        return float(self.cupy.cuda.get_elapsed_time(start, stop)) / 1e3, result


def card_sizes() -> list[tuple[int, int, tuple[int, int]]]:
    """(bits of keys, bits of a batch, bytes): a table in the card's cache; two that are beyond it."""
    return [(20, 20, (4, 4)), (24, 20, (8, 8)), (26, 22, (4, 4))]


def median_times(course: TableCourse, build: Build, tables: int) -> dict[str, float]:
    """Median seconds of each operation over the rounds of several tables."""
    return {operation: statistics.median(seconds) for operation, seconds in all_times(course, build, tables).items()}
