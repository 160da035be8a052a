"""Verbs on columns of text, verbs and objects on rows of several columns, beside pandas, polars, pyarrow and duckdb.

    python -m asv_bench.everyday                2^21 rows, one and two threads of ours; ten minutes

Columns: words by Zipf's law, the same with one word of 10^5 characters among them, addresses of web pages, and short
identifiers that are all distinct; rows of two and three columns (`harness/everyday_rows.py`). Each library gets the
column as its own type, and makes its result anew; every result is compared with a dict's. Seconds are processor time of
all threads, the least and the largest of the repeats: on a busy machine the clock says little. The ceiling is the time
of what a probe cannot do without, a random read of 8 bytes for the slot and one of 32 for the entry, over the memory of
the index, on one thread: a column whose frequent keys stay in cache can be above it. Prints the table, and writes
<output>/<machine>/everyday.md and .json.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import pygpuhash as gh

from .harness import everyday_rows
from .harness.arguments import one_sentence, whole
from .harness.ceilings import Ceilings
from .harness.devices import device
from .harness.results import RESULTS, circumstances, machine_name, markdown_table, write_report

HEADER = ("verb", "column", "n", "distinct", "who", "least", "largest", "M/s", "ceiling", "share")
LETTERS = np.array(list("abcdefghijklmnopqrstuvwxyz"))


def words(random: np.random.Generator, n: int) -> list[str]:
    """Zipf's law over a quarter of a million words of 2 to 15 letters."""
    many = max(n // 8, 16)
    some = ["".join(random.choice(LETTERS, length)) for length in random.integers(2, 16, many)]
    weights = 1 / np.arange(1, many + 1) ** 1.05
    return [some[i] for i in np.searchsorted(np.cumsum(weights) / weights.sum(), random.random(n))]


def one_long_word(random: np.random.Generator, n: int) -> list[str]:
    column = words(random, n)
    column[n // 2] = "x" * 100_000
    return column


COLUMNS: dict[str, Callable[[np.random.Generator, int], list[str]]] = {
    "words": words,
    "words and a long one": one_long_word,
    "web pages": lambda random, n: [f"https://example.org/{i:016d}" for i in random.integers(0, n // 5 + 1, n)],
    "identifiers": lambda random, n: [f"{i:014x}" for i in random.permutation(n)],
}

# "library": how it takes a list of text; "library.what": a verb, called with the library and the column.
TAKES: dict[str, Callable[[Any, list[str]], Any]] = {
    "pandas": lambda pd, column: pd.Series(column, dtype="str"),
    "polars": lambda pl, column: pl.Series("k", column),
    "pyarrow": lambda pa, column: pa.array(column),
    "duckdb": lambda duckdb, column: duckdb.from_arrow(importlib.import_module("pyarrow").table({"k": column})),
}
Ways = dict[str, Callable[[Any, Any], Any]]
VERBS: dict[str, Ways] = {
    "value_counts": {
        "pandas.value_counts": lambda pd, c: c.value_counts(sort=False),
        "polars.value_counts": lambda pl, c: c.value_counts(),
        "pyarrow.value_counts": lambda pa, c: c.value_counts(),
        "duckdb.group_by": lambda duckdb, c: c.aggregate("k, count(*) as n").to_arrow_table(),
    },
    "factorize": {
        "pandas.factorize": lambda pd, c: pd.factorize(c),
        "polars.cast": lambda pl, c: c.cast(pl.Categorical).to_physical(),
        "pyarrow.dictionary_encode": lambda pa, c: c.dictionary_encode(),
    },
    "isin": {
        "pandas.isin": lambda pd, c: c.isin(c[:1000]),
        "polars.is_in": lambda pl, c: c.is_in(c[:1000].implode()),
        "pyarrow.is_in": lambda pa, c: importlib.import_module("pyarrow.compute").is_in(c, c[:1000]),
    },
}
OURS: dict[str, Callable[[Any, int], Any]] = {
    "value_counts": lambda c, threads: gh.value_counts(c, threads=threads),
    "factorize": lambda c, threads: gh.factorize(c, threads=threads),
    "isin": lambda c, threads: gh.isin(c, c[:1000], threads=threads),
}


def is_right(verb: str, found: Any, column: list[str]) -> bool:
    """Does our result, as Arrow has it, agree with what a dict says?"""
    if verb == "isin":
        some = set(column[:1000])
        return bool(found.to_pylist() == [word in some for word in column])
    one, other = (part.to_pylist() for part in found)
    if verb == "value_counts":
        return dict(zip(one, other, strict=True)) == Counter(column) and len(one) == len(set(one))
    return other == list(dict.fromkeys(column)) and [other[code] for code in one] == column


class Kind(NamedTuple):
    """Columns of one kind: how they are made, how libraries take them, and what is done with them."""

    columns: dict[str, Callable[[np.random.Generator, int], Any]]
    takes: dict[str, Callable[[Any, Any], Any]]
    verbs: dict[str, Ways]
    ours: dict[str, Callable[[Any, int], Any]]
    is_right: Callable[[str, Any, Any], bool]
    distinct: Callable[[Any], int]


KINDS = (
    Kind(COLUMNS, TAKES, VERBS, OURS, is_right, lambda column: len(set(column))),
    Kind(
        everyday_rows.ROWS,
        everyday_rows.TAKES,
        everyday_rows.VERBS,
        everyday_rows.OURS,
        everyday_rows.is_right,
        everyday_rows.distinct,
    ),
)
NAMES = [name for kind in KINDS for name in kind.columns]


def seconds(ways: dict[str, Callable[[], Any]], repeats: int) -> dict[str, tuple[float, float]]:
    """Processor time of each, least and largest, run in turns; a first call does not count."""
    times: dict[str, list[float]] = {who: [] for who in ways}
    for turn in range(repeats + 1):
        for who, call in ways.items():
            start = time.process_time()
            call()
            if turn:
                times[who].append(time.process_time() - start)
    return {who: (min(some), max(some)) for who, some in times.items()}


def libraries() -> dict[str, Any]:
    found = {}
    for name in TAKES:
        try:
            found[name] = importlib.import_module(name)
        except ImportError:
            print(f"{name} is not installed", file=sys.stderr)
    return found


def measure(args: argparse.Namespace) -> Iterator[tuple[Any, ...]]:
    """Rows of every verb and column. Raises AssertionError at a wrong result."""
    known, ceilings = libraries(), Ceilings("cpu", args.n, 3, threads=1)
    for kind in KINDS:
        for name in [name for name in args.column or kind.columns if name in kind.columns]:
            column = kind.columns[name](np.random.default_rng(1), args.n)
            given = {library: kind.takes[library](module, column) for library, module in known.items()}
            distinct = kind.distinct(column)
            memory = 64 * distinct + (1 << 12)
            ceiling = 1 / sum(float(np.median(ceilings.seconds(what, memory))) for what in ("gather8", "gather32"))
            for verb in [verb for verb in args.verb or kind.verbs if verb in kind.verbs]:
                for who, (low, high) in seconds(ways_of(kind, verb, name, column, known, given), args.repeats).items():
                    rate = args.n / low
                    yield verb, name, args.n, distinct, who, low, high, rate / 1e6, ceiling / 1e6, rate / ceiling


def ways_of(
    kind: Kind, verb: str, name: str, column: Any, known: dict[str, Any], given: dict[str, Any]
) -> dict[str, Callable[[], Any]]:
    """Who does it: ours by one thread and by two, whose results are right, and the libraries."""
    ways: dict[str, Callable[[], Any]] = {}
    ours = given["pyarrow"]
    for threads in (1, 2):
        assert kind.is_right(verb, kind.ours[verb](ours, threads), column), f"{verb} of {name}: a wrong result"
        ways[f"gh.{verb}, threads={threads}"] = lambda t=threads: kind.ours[verb](ours, t)
    for who, way in kind.verbs[verb].items():
        library = who.partition(".")[0]
        if library in known:
            ways[who] = lambda way=way, module=known[library], c=given[library]: way(module, c)
    return ways


@one_sentence
def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m asv_bench.everyday", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--n", type=whole(1000), default=1 << 21, help="rows of a column; default: 2^21")
    parser.add_argument("--verb", action="append", choices=list(VERBS | everyday_rows.VERBS), help="may be repeated")
    parser.add_argument("--column", action="append", choices=NAMES, help="may be repeated")
    parser.add_argument("--repeats", type=whole(1), default=9)
    parser.add_argument("--output", type=Path, default=RESULTS, help=f"default: {RESULTS}")
    args = parser.parse_args(arguments)
    rows = []
    for row in measure(args):
        rows.append(row)
        print(f"{row[0]}, {row[1]}, {row[4]}: {row[7]:.1f} M/s", file=sys.stderr)
    on = device("cpu")
    about = circumstances({on.name: on.model})
    text = f"# Verbs on columns of text and on rows\n\n{on.model}; {about['date']}; commit {about['commit'][:8]}.\n\n"
    text += "Seconds of processor time, million rows per second of it; share: of the ceiling of a probe's accesses.\n\n"
    cells = [
        (
            *row[:2],
            f"{row[2]:,}",
            f"{row[3]:,}",
            row[4],
            *(f"{x:.3f}" for x in row[5:7]),
            *(f"{x:.1f}" for x in row[7:9]),
            f"{row[9]:.0%}",
        )
        for row in rows
    ]
    text += markdown_table(HEADER, cells)
    stem = args.output / machine_name() / "everyday"
    write_report(stem, text, about, [dict(zip(HEADER, row, strict=True)) for row in rows])
    return 0


if __name__ == "__main__":
    sys.exit(main())
