"""The tables of docs/performance.md under "Rates of all structures", from the results that are committed.

    python -m asv_bench.rates_table             write them
    python -m asv_bench.rates_table --check     are they what the results say? status 1 if not

Before each table of docs/performance.md a comment names its file of results; another comment ends the table.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .harness.committed import Broken, load
from .harness.results import RESULTS, rate

PAGE = Path(__file__).resolve().parents[1] / "docs" / "performance.md"
TABLE = re.compile(r"(<!-- asv_bench/results/(\S+\.json) -->\n).*?(<!-- end of the table -->\n)", re.DOTALL)
OPERATIONS = {"insert": "insert", "find_hit": "find, present", "find_miss": "find, absent"}
SHOWN = {  # structure -> loads: those that it is taken for
    "linear_probe": (0.5, 0.8),
    "hive": (0.8, 0.9),
    "slab_hash": (0.5,),
    "stadium": (0.8,),
    "skiplist": (0.5,),
}


def cell(rows: Sequence[dict[str, Any]], name: str, load_factor: float | None, operation: str) -> str:
    """The median rate, and in brackets its share of the ceiling; nothing where it was not measured."""
    like = {"backend": name, "load": load_factor, "operation": operation, "options": {}}
    found = [row for row in rows if all(row[key] == value for key, value in like.items())]
    if not found:
        return ""
    [row] = found
    text = rate(row["n"] / statistics.median(row["seconds"]) / 1e6)
    return text if row["ratio"] is None else f"{text} ({100 * row['ratio']:.0f} %)"


def table(path: Path) -> str:
    """Every structure, then other libraries, of one file of asv_bench.report."""
    run = load(path)
    rows = run["rows"]
    others = sorted({row["backend"] for row in rows if row["load"] is None})
    names: list[tuple[str, str, float | None]] = [
        (f"`{of}`, load {load_factor}", of, load_factor) for of, loads in SHOWN.items() for load_factor in loads
    ]
    lines = [
        (label, *(cell(rows, of, load_factor, operation) for operation in OPERATIONS))
        for label, of, load_factor in [*names, *((of, of, None) for of in others)]
    ]
    empty = [label for label, *cells in lines[: len(names)] if not all(cells)]
    if empty:
        raise Broken(f"it lacks {', '.join(empty)}")
    [device] = run["devices"].values()
    most = max(row["n"] for row in rows)
    head = (f"{device}, {most:,} keys; {run['date'][:10]}, commit {run['commit'][:8]}", *OPERATIONS.values())
    ruled = [head, ("---", *["---:"] * len(OPERATIONS)), *lines]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in ruled)


def written(text: str, results: Path) -> str:
    """The text with its tables written anew."""
    if not TABLE.search(text):
        raise Broken("docs/performance.md has no table that names its file of results")

    def anew(found: re.Match[str]) -> str:
        try:
            return f"{found[1]}\n{table(results / found[2])}\n{found[3]}"
        except (Broken, KeyError, ValueError) as error:
            raise Broken(f"asv_bench/results/{found[2]}: {error}") from error

    return TABLE.sub(anew, text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the tables, or compare them."""
    parser = argparse.ArgumentParser(prog="python -m asv_bench.rates_table", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--check", action="store_true", help="write nothing; status 1 if a table is stale")
    args = parser.parse_args(arguments)
    before = PAGE.read_text()
    try:
        after = written(before, RESULTS)
    except Broken as error:
        print(f"rates_table: {error}", file=sys.stderr)
        return 2
    if not args.check:
        PAGE.write_text(after)
    elif after != before:
        print("docs/performance.md is stale: python -m asv_bench.rates_table", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
