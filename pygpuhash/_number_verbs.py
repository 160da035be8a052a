"""Verbs over numpy's numbers as they lie: dense integers, and few numbers, which need no column and no table.

All give None for what they do not take: other things than contiguous one-dimensional arrays of numbers, `few` numbers
or more that are not dense, and calls with arguments that ask for a table.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pygpuhash import _arguments
from pygpuhash.columns import _direct
from pygpuhash.columns._engine import CoreIndex
from pygpuhash.columns.numpy_arrays import SCHEMAS

__all__ = ["OF_INDEX", "factorize", "isin", "join", "of_index", "unique", "value_counts"]

OF_INDEX = frozenset(("threads", "seed", "capacity", "device"))  # arguments that an index takes
Array = np.ndarray[Any, Any]
_INDEX = np.dtype(np.int64)


def unique(keys: Any, floats: str, table: dict[str, Any], few: int) -> Array | None:
    """The distinct keys, in the order of their first appearance, as everywhere here."""
    if not _takes(table, keys):
        return None
    found = _direct.unique(keys) if keys.dtype.kind != "f" else None
    if found is not None or keys.size >= few:
        return found
    index = _index(keys, floats, table)
    index.add_numbers(SCHEMAS[keys.dtype], keys)
    return index.numbers(keys.dtype)


def value_counts(keys: Any, floats: str, table: dict[str, Any], few: int) -> tuple[Array, Array] | None:
    """(distinct keys, how often each occurs)."""
    if not _takes(table, keys):
        return None
    found = _direct.value_counts(keys) if keys.dtype.kind != "f" else None
    if found is not None or keys.size >= few:
        return found
    index = _index(keys, floats, table, counts=True)
    index.add_numbers(SCHEMAS[keys.dtype], keys)
    return index.numbers(keys.dtype), index.counts()


def factorize(keys: Any, floats: str, table: dict[str, Any], few: int) -> tuple[Array, Array] | None:
    """(codes, distinct keys)."""
    if not _takes(table, keys):
        return None
    found = _direct.factorize(keys) if keys.dtype.kind != "f" else None
    if found is not None or keys.size >= few:
        return found
    index = _index(keys, floats, table)
    codes = np.empty(keys.size, _INDEX)
    index.add_numbers(SCHEMAS[keys.dtype], keys, codes)
    return codes, index.numbers(keys.dtype)


def isin(keys: Any, among: Any, floats: str, table: dict[str, Any], few: int) -> Array | None:
    """Which keys are among others."""
    if not _takes(table, keys, among):
        return None
    some_floats = "f" in (keys.dtype.kind, among.dtype.kind)
    found = None if some_floats else _direct.isin(keys, among)
    if found is not None or keys.size >= few or among.size >= few:
        return found
    if some_floats and floats == "bits" and keys.dtype != among.dtype:
        return None  # two types, which are refused by name
    index = _index(among, floats, table)
    index.add_numbers(SCHEMAS[among.dtype], among)
    mask = np.empty(keys.size, np.bool_)
    index.contains_numbers(SCHEMAS[keys.dtype], keys, mask)
    return mask


def join(left: Any, right: Any, table: dict[str, Any]) -> tuple[Array, Array | None] | None:
    """(codes of the left column, -1 where absent; codes of the right one, None where none repeats)."""
    if not _takes(table, left, right) or "f" in (left.dtype.kind, right.dtype.kind):
        return None
    return _direct.join(left, right)


def of_index(table: dict[str, Any]) -> tuple[int | None, int, int]:
    """(threads, capacity, seed) of the arguments, checked."""
    threads, capacity = table.get("threads"), table.get("capacity")
    if threads is not None:
        threads = _arguments.whole("threads", threads, 4096, least=1)
    expected = 0 if capacity is None else _arguments.whole("capacity", capacity, 2**64 - 1)
    return threads, expected, _arguments.seed(table.get("seed"))


def _takes(table: dict[str, Any], *columns: Any) -> bool:
    for column in columns:
        if type(column) is not np.ndarray or column.ndim != 1 or column.dtype not in SCHEMAS:
            return False
        flags = column.flags
        if not (flags.c_contiguous and flags.aligned):
            return False
    if table:
        if not OF_INDEX.issuperset(table) or table.get("device", "cpu") not in ("auto", "cpu"):
            return False
        of_index(table)
    return True


def _index(keys: Array, floats: str, table: dict[str, Any], counts: bool = False) -> CoreIndex:
    """An empty index for a few numbers, which one thread serves as fast as many."""
    _, capacity, seed = of_index(table) if table else (None, 0, 0)
    return CoreIndex(SCHEMAS[keys.dtype], "group", floats, 1, counts, min(capacity, keys.size), seed)
