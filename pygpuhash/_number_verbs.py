"""Verbs over numpy's numbers as they lie: dense integers, those a step apart, and few numbers, which need no table.

All give None for what they do not take: other things than contiguous one-dimensional arrays of numbers, most columns of
`few` numbers or more that are not dense, and calls with arguments that ask for a table.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pygpuhash import _arguments, _arrays, _devices
from pygpuhash.columns import _direct, _few, _reduce
from pygpuhash.columns._engine import CoreIndex
from pygpuhash.columns.numpy_arrays import SCHEMAS

__all__ = ["OF_INDEX", "factorize", "group_reduce", "isin", "join", "of_index", "reduce", "unique", "value_counts"]

OF_INDEX = frozenset(("threads", "seed", "capacity", "device"))  # arguments that an index takes
Array = np.ndarray[Any, Any]
_INDEX = np.dtype(np.int64)
_FLOAT = np.dtype(np.float64)
_LONG = 1 << 12  # elements from which it pays to look for a step
_SAMPLE = 1 << 14  # elements
_CACHED, _MANY = 0.24, 0.7  # parts of a sample that are different: a table combines so few in a cache; keys are many
_KEYS_OF_FEW = 1 << 12  # which are counted in slots that stay in cache, 16 for each
_UNSEEN = 64  # rows among which one may have a key that a sample does not show
_ALONE = 2  # threads above which a table takes more rows a second than one thread does with an index
_THREADS = 4  # above which a table reduces more rows a second than one thread does whose keys need no table


def unique(keys: Any, floats: str, table: dict[str, Any], few: int) -> Array | None:
    """The distinct keys, in the order of their first appearance, as everywhere here."""
    if not _takes(table, keys):
        return None
    found = _direct.unique(keys) if keys.dtype.kind != "f" else None
    if found is None and (steps := _steps(keys)) is not None:
        numbers = _direct.unique(steps[0])
        found = None if numbers is None else _integers(numbers, steps, keys)
    if found is None and not few and (bits := _bits_for_few(keys, table)):
        found = _few.unique(keys, bits)
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
    if found is None and (steps := _steps(keys)) is not None:
        found = _direct.value_counts(steps[0])
        found = found and (_integers(found[0], steps, keys), found[1])
    if found is None and not few and (bits := _bits_for_few(keys, table)):
        found = _few.value_counts(keys, bits)
    if found is not None:
        return found
    index = _index_of(keys, floats, table, few, counts=True)
    return None if index is None else (index.numbers(keys.dtype), index.counts())


def factorize(
    keys: Any, floats: str, table: dict[str, Any], few: int, if_few_keys: bool = False
) -> tuple[Array, Array] | None:
    """(codes, distinct keys). if_few_keys: only where these are few."""
    if not _takes(table, keys):
        return None
    found = _direct.factorize(keys) if keys.dtype.kind != "f" else None
    if found is None and (steps := _steps(keys)) is not None:
        found = _direct.factorize(steps[0])
        found = found and (found[0], _integers(found[1], steps, keys))
    if found is None and not few and (bits := _bits_for_few(keys, table)):
        found = _few.factorize(keys, bits)
    if found is not None:
        return found
    codes = np.empty(keys.size, _INDEX)
    index = _index_of(keys, floats, table, few, codes=codes, if_few_keys=if_few_keys)
    return None if index is None else (codes, index.numbers(keys.dtype))


def group_reduce(
    keys: Any, values: Any, op: str, stored: np.dtype[Any], floats: str, table: dict[str, Any], few: int
) -> tuple[Array, Array] | None:
    """(distinct keys, what the values of each come to); stored: the dtype of these."""
    if not _takes(table, keys):
        return None
    if keys.size >= few and (table.get("threads") or _devices.devices()[0].units) > _THREADS:
        return None
    pair = factorize(keys, floats, table, few, op != "mean")  # which takes two tables
    return pair and (pair[1], reduce(pair[0], len(pair[1]), values, op, stored))


def reduce(ids: Array, groups: int, values: Any, op: str, stored: np.dtype[Any]) -> Array:
    """What the values of each id come to; rows with an id below 0 are left out. values: one for each id, or for all."""
    given = np.asarray(values)
    if given.shape != ids.shape:
        given = np.broadcast_to(given.reshape(-1) if given.ndim else given, ids.shape)
    if op == "mean":
        return _reduce.sums(ids, groups, np.ascontiguousarray(given, _FLOAT)) / _reduce.counts(ids, groups)
    if op == "sum":
        given = _arrays.to_base(given, stored, "values") if stored.kind in "iu" else given.astype(stored, copy=False)
        sums = _reduce.sums(ids, groups, _widened(given), stored.kind == "m")
        if stored.kind == "m" or sums.dtype == stored:
            return sums.view(stored)
        with np.errstate(over="ignore"):  # sums of floats may be infinite
            return sums.astype(stored)
    extremes = _reduce.extremes(ids, groups, _widened(given), op == "max", given.dtype.kind in "mM")
    return extremes.view(stored) if stored.kind in "mM" else extremes.astype(stored)


def _widened(values: Array) -> Array:
    """Contiguous float64, int64 or uint64; times as int64."""
    values = np.ascontiguousarray(values)
    if values.dtype.kind in "mM":
        return values.view(np.int64)
    return values.astype({"f": np.float64, "i": np.int64}.get(values.dtype.kind, np.uint64), copy=False)


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


def _steps(keys: Array) -> tuple[Array, int, int] | None:
    return _direct.steps(keys) if keys.size >= _LONG and keys.dtype.kind != "f" else None


def _integers(numbers: Array, steps: tuple[Array, int, int], keys: Array) -> Array:
    """The integers that numbers of steps stand for."""
    found = numbers.astype(np.uint64)
    found *= np.uint64(steps[2])
    found += np.uint64(steps[1])
    return found.view(keys.dtype)


def _bits_for_few(keys: Array, table: dict[str, Any]) -> int:
    """Of how many bits the number of slots is for a long column that seems to have few keys; 0: it has many."""
    if keys.dtype.kind not in "iu" or keys.itemsize < 4 or keys.size < _LONG or not _is_for_one_thread(keys, table):
        return 0
    most = max(keys.size >> 5, _LONG >> 3)  # elements that are looked at
    sample = keys[:: _arrays.step_of_sample(keys.size, min(most, _SAMPLE))].copy()
    found = _few.value_counts(sample, sample.size.bit_length())  # which gives up at half as many keys, or fewer
    if found is None or found[0].size > min(_KEYS_OF_FEW, sample.size >> 2):
        return 0
    alone = np.count_nonzero(found[1] == 1)  # by Good and Turing, so many rows in a sample's have keys that it lacks
    return _few_bits(found[0].size) if alone * _UNSEEN <= sample.size else 0


def _few_bits(keys: int) -> int:
    return min(max(keys, 1 << 6), _KEYS_OF_FEW).bit_length() + 4


def _index_of(
    keys: Array,
    floats: str,
    table: dict[str, Any],
    few: int,
    *,
    counts: bool = False,
    codes: Array | None = None,
    if_few_keys: bool = True,
) -> CoreIndex | None:
    """An index of the keys, whose ids become the codes; None where a table is faster. few = 0: it may be long."""
    if keys.size >= few:
        if few or not _is_for_one_thread(keys, table):
            return None
        if if_few_keys and not _gains_by_index(keys, floats, table):
            return None
    index = _index(keys, floats, table, counts)
    index.add_numbers(SCHEMAS[keys.dtype], keys, codes)
    return index


def _gains_by_index(keys: Array, floats: str, table: dict[str, Any]) -> bool:
    """Does a column that is counted or reduced gain by an index, by a sample of the whole?

    A table combines equal keys in a cache if they are very few, and has what belongs to a key beside it, which is
    faster if most keys are different.
    """
    if keys.size < 2 * _SAMPLE:
        return True
    sample = keys[:: _arrays.step_of_sample(keys.size, _SAMPLE)].copy()
    index = _index(sample, floats, table)
    index.add_numbers(SCHEMAS[keys.dtype], sample)
    return _CACHED * sample.size < index.size <= _MANY * sample.size


def _is_for_one_thread(keys: Array, table: dict[str, Any]) -> bool:
    """Is an index of one thread as fast as a table with all threads of the call?"""
    return keys.size < 2**31 and (table.get("threads") or _devices.devices()[0].units) <= _ALONE


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
