"""Rows of several columns for `asv_bench.everyday`: verbs and objects, beside pandas, polars, pyarrow and duckdb.

A frame is {name: column}, and each library gets it as its own type. What objects do is done to a new one each time:
`Index.add` numbers the rows, `Counter.add` counts them, `GroupBy.add` sums a value of each.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

import pygpuhash as gh

__all__ = ["OURS", "ROWS", "TAKES", "VERBS", "distinct", "is_right"]

Frame = dict[str, Any]
VALUE = "value"  # what is summed, which is no part of the rows


def integers(distinct: int) -> Callable[[np.random.Generator, int], Frame]:
    """An int64 of 31 bits and an int32 below 97."""

    def made(random: np.random.Generator, n: int) -> Frame:
        ids = random.integers(0, distinct or n // 8, n)
        return {"a": ids * 2654435761 % 2**31, "b": (ids % 97).astype("i4"), VALUE: random.integers(0, 1000, n)}

    return made


def text(random: np.random.Generator, n: int) -> Frame:
    """One of 10,000 names, and a day of a year."""
    names = np.array([f"name-{i}" for i in range(10_000)])
    ids = random.integers(0, 10_000, n)
    return {"a": names[ids], "b": (ids * 7 % 365).astype("i4"), VALUE: random.integers(0, 1000, n)}


def three(random: np.random.Generator, n: int) -> Frame:
    """A small int64, a float64 and a time of microseconds."""
    ids = random.integers(0, n // 8, n)
    days = (ids % 3000).astype("M8[D]").astype("M8[us]")
    return {"a": ids % 50, "b": ids * 0.37, "c": days, VALUE: random.integers(0, 1000, n)}


ROWS: dict[str, Callable[[np.random.Generator, int], Frame]] = {
    "rows of two integers, 2,000 distinct": integers(2000),
    "rows of two integers": integers(0),
    "rows of a name and a day": text,
    "rows of three columns": three,
}
TAKES: dict[str, Callable[[Any, Frame], Any]] = {
    "pandas": lambda pd, frame: pd.DataFrame({k: list(c) if c.dtype.kind == "U" else c for k, c in frame.items()}),
    "polars": lambda pl, frame: pl.DataFrame(frame),
    "pyarrow": lambda pa, frame: pa.table(frame),
    "duckdb": lambda duckdb, frame: duckdb.from_arrow(importlib.import_module("pyarrow").table(frame)),
}


def names_of(table: Any) -> list[str]:
    """The columns that are part of the rows."""
    return [name for name in getattr(table, "column_names", None) or list(table.columns) if name != VALUE]


def keys_of(table: Any) -> Any:
    return table.select(names_of(table))


Ways = dict[str, Callable[[Any, Any], Any]]
COUNTS: Ways = {
    "pandas.value_counts": lambda pd, c: c.value_counts(names_of(c), sort=False),
    "polars.group_by": lambda pl, c: c.group_by(names_of(c)).len(),
    "pyarrow.group_by": lambda pa, c: c.group_by(names_of(c)).aggregate([([], "count_all")]),
    "duckdb.group_by": lambda duckdb, c: c.aggregate(f"{', '.join(names_of(c))}, count(*)").to_arrow_table(),
}
NUMBERS: Ways = {"pandas.ngroup": lambda pd, c: c.groupby(names_of(c), sort=False).ngroup()}
SUMS: Ways = {
    "pandas.groupby": lambda pd, c: c.groupby(names_of(c), sort=False)[VALUE].sum(),
    "polars.group_by": lambda pl, c: c.group_by(names_of(c)).agg(pl.col(VALUE).sum()),
    "pyarrow.group_by": lambda pa, c: c.group_by(names_of(c)).aggregate([(VALUE, "sum")]),
    "duckdb.group_by": lambda duckdb, c: c.aggregate(f"{', '.join(names_of(c))}, sum({VALUE})").to_arrow_table(),
}
AMONG: Ways = {"polars.semi_join": lambda pl, c: c.join(c[:1000], on=names_of(c), how="semi")}
VERBS: dict[str, Ways] = {
    "value_counts": COUNTS,
    "factorize": NUMBERS,
    "isin": AMONG,
    "group_reduce": SUMS,
    "Index.add": NUMBERS,
    "Counter.add": COUNTS,
    "GroupBy.add": SUMS,
}


def index(table: Any, threads: int) -> Any:
    rows = gh.Index(threads=threads)
    return rows.add(keys_of(table)), rows.keys[:]


def counter(table: Any, threads: int) -> Any:
    rows = gh.Counter(threads=threads)
    rows.add(keys_of(table))
    return rows.keys[:], rows.counts


def group_by(table: Any, threads: int) -> Any:
    groups = gh.GroupBy({VALUE: "sum"}, threads=threads)
    groups.add(keys_of(table), **{VALUE: table[VALUE].to_numpy()})
    keys, results = groups.result()
    return keys, results[VALUE]


OURS: dict[str, Callable[[Any, int], Any]] = {
    "value_counts": lambda c, threads: gh.value_counts(keys_of(c), threads=threads),
    "factorize": lambda c, threads: gh.factorize(keys_of(c), threads=threads),
    "isin": lambda c, threads: gh.isin(keys_of(c), keys_of(c)[:1000], threads=threads),
    "group_reduce": lambda c, threads: gh.group_reduce(keys_of(c), c[VALUE].to_numpy(), threads=threads),
    "Index.add": index,
    "Counter.add": counter,
    "GroupBy.add": group_by,
}


def tuples(frame: Frame) -> list[tuple[Any, ...]]:
    return list(zip(*(column.tolist() for name, column in frame.items() if name != VALUE), strict=True))


def distinct(frame: Frame) -> int:
    return len(set(tuples(frame)))


def is_right(verb: str, found: Any, frame: Frame) -> bool:
    """Does our result, as Arrow has it, agree with what a dict says?"""
    rows = tuples(frame)
    if verb == "isin":
        some = set(rows[:1000])
        return bool(np.asarray(found).tolist() == [row in some for row in rows])
    if verb in ("factorize", "Index.add"):
        codes, order = np.asarray(found[0]), rows_of(found[1])
        return order == list(dict.fromkeys(rows)) and [order[code] for code in codes.tolist()] == rows
    wanted: Any = Counter(rows)
    if verb in ("group_reduce", "GroupBy.add"):
        wanted = dict.fromkeys(rows, 0)
        for row, value in zip(rows, frame[VALUE].tolist(), strict=True):
            wanted[row] += value
    keys = rows_of(found[0])
    return dict(zip(keys, np.asarray(found[1]).tolist(), strict=True)) == wanted and len(keys) == len(wanted)


def rows_of(table: Any) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))
