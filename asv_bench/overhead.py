"""What one call with one key costs on the CPU, per operation: arrays of one key, and plain numbers.

    python -m asv_bench.overhead [--backend NAME ...] [--rounds N]

Prints a table in microseconds: the least of `rounds` medians of 2000 calls, and the range of those medians. The load of
the machine is printed first: one busy process beside is enough to move all of it.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

import pygpuhash as gh

from .harness.arguments import one_sentence, whole

sys.path.insert(0, str(Path(__file__).resolve().parent))  # as asv runs them
from benchmarks.calls import ARRAYS, NUMBERS, microseconds


def calls(table: gh.Table) -> list[tuple[str, str, Callable[[], object]]]:
    """(kind, operation, call) for all there are."""
    arrays = np.array([42], "u8"), np.array([42], "i8"), np.empty(1, "i8"), np.empty(1, bool)
    rows = [("array", name, lambda run=run: run(table, *arrays)) for name, run in ARRAYS.items()]
    return rows + [("number", name, lambda run=run: run(table)) for name, run in NUMBERS.items()]


@one_sentence
def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m asv_bench.overhead", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--backend", nargs="+", default=[b.name for b in gh.backends() if b.state == "usable"])
    parser.add_argument("--rounds", type=whole(1), default=5)
    args = parser.parse_args(arguments)
    print(f"load of the machine before: {os.getloadavg()[0]:.1f}\n")
    print("backend        kind    operation            least us   range of medians")
    for backend in args.backend:
        with gh.Table(backend, capacity=1000, device="cpu") as table:
            table.insert(np.arange(100), np.arange(100))
            for kind, name, call in calls(table):
                medians = sorted(microseconds(call, lambda: None) for _ in range(args.rounds))
                assert int(table[42]) == 42
                print(
                    f"{backend:<13}  {kind:<6}  {name:<19}  {medians[0]:8.2f}   {medians[0]:.2f} to {medians[-1]:.2f}"
                )
    return 0


if __name__ == "__main__":
    sys.exit(main())
