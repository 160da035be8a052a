"""Numbers and times of Arrow and polars, which verbs take where they lie, as they take numpy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pygpuhash as gh
from pygpuhash.columns import read

pa = pytest.importorskip("pyarrow", reason="its columns are what is read")
N = 20_000  # of which none is short
SOME = np.random.default_rng(1).integers(-60, 60, N)
TYPES: dict[str, Any] = {
    name: getattr(pa, name)()
    for name in ("int8", "int16", "int32", "int64", "float16", "float32", "float64", "date32", "date64")
}
TYPES |= {name: getattr(pa, name)() for name in ("uint8", "uint16", "uint32", "uint64")}
TYPES |= {f"timestamp[{unit}]": pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")}
TYPES |= {"with a zone": pa.timestamp("us", "Europe/Oslo"), "duration": pa.duration("ms")}
TYPES |= {"time32": pa.time32("s"), "milliseconds": pa.time32("ms"), "time64": pa.time64("us")}


def column(kind: Any, numbers: Any = SOME) -> Any:
    """Whole days of date64; no negative numbers where there are none."""
    numbers = np.abs(numbers) if str(kind).startswith(("u", "time3", "time6")) else np.asarray(numbers)
    if kind == pa.date64():
        numbers = numbers * 86_400_000
    if str(kind) in ("halffloat", "float", "double"):
        return pa.array(numbers.astype(kind.to_pandas_dtype()))
    width = pa.int32() if kind.bit_width == 32 and str(kind)[:4] in ("date", "time") else pa.int64()
    return pa.array(numbers).cast(width).cast(kind)


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("library", ["pyarrow", "polars"])
def test_every_verb(name: str, library: str) -> None:
    keys = given = column(TYPES[name])
    if library == "polars":
        pl = pytest.importorskip("polars", reason="makes Series of these")
        if name in ("float16", "date64", "time32", "milliseconds"):
            pytest.skip("polars has no such type")
        if name == "timestamp[ns]":
            pytest.skip("Python's times, which polars gives, have no nanoseconds")
        given = pl.Series("k", keys)
    assert read(given, "keys").stored is not None
    some = keys.to_pylist()
    order, rows = list(dict.fromkeys(some)), {value: i for i, value in enumerate(some[:50])}

    def plain(found: Any) -> list[Any]:
        assert found.type == keys.type if library == "pyarrow" else (found.dtype, found.name) == (given.dtype, "k")
        return found.to_pylist() if library == "pyarrow" else found.to_list()

    assert plain(gh.unique(given, order="first")) == order
    found, counts = gh.value_counts(given, order="first")
    assert plain(found) == order
    assert np.asarray(counts).tolist() == [some.count(value) for value in order]
    codes, found = gh.factorize(given)
    assert plain(found) == order
    assert [order[code] for code in np.asarray(codes)] == some
    assert np.asarray(gh.isin(given, given[:50])).tolist() == [value in rows for value in some]
    found, sums = gh.group_reduce(given, np.ones(N, "i4"), order="first")
    assert plain(found) == order
    assert np.asarray(sums).tolist() == np.asarray(counts).tolist()
    left, right = (np.asarray(part) for part in gh.join_indexer(given, gh.unique(given[:50], order="first")))
    first = list(dict.fromkeys(some[:50]))
    assert [first[j] for j in right] == [some[i] for i in left]
    assert len(left) == sum(value in rows for value in some)


def test_two_units_are_instants() -> None:
    """2 seconds are no 2 milliseconds, however the columns lie in memory."""
    seconds, other = column(pa.timestamp("s"), np.arange(N)), column(pa.timestamp("ms"), np.arange(N))
    assert int(np.sum(np.asarray(gh.isin(other, seconds)))) == 20
    assert int(np.sum(np.asarray(gh.isin(other[:30], seconds[:30])))) == 1
    assert len(gh.join_indexer(other[:4000], seconds[:30])[0]) == 4
    with pytest.raises(TypeError, match="never equal"):
        gh.isin(seconds, pa.array(np.arange(N)))
    with pytest.raises(TypeError, match="never equal"):
        gh.isin(seconds[:9], pa.array(np.arange(9)))
    mixed = gh.isin(pa.array(np.arange(9)), pa.array([2, 300, 5], pa.uint16()))
    assert np.asarray(mixed).tolist() == [i in (2, 5) for i in range(9)]


def test_what_does_not_lie_as_numbers() -> None:
    whole = pa.array(SOME)
    column = read(whole.slice(5, 100), "keys")
    assert column.numbers is not None
    assert np.shares_memory(column.numbers, np.asarray(whole))
    assert column.numbers.tolist() == SOME[5:105].tolist()
    assert read(column_of_times(), "keys").numbers is None  # whose unit numbers do not have
    for other in (
        pa.array([1, None]),
        pa.array([True, False]),
        pa.array(["a"]),
        pa.array([1, 2]).dictionary_encode(),
        pa.chunked_array([[1], [2]]),
        pa.nulls(3),
        pa.array([], pa.int64()),
        pa.table({"a": [1]}),
        pa.array([{"a": 1}]),
    ):
        assert read(other, "keys").stored is None


def column_of_times() -> Any:
    return column(pa.timestamp("s"))


def test_memory_that_is_not_aligned() -> None:
    """A buffer of another program may begin anywhere."""
    memory = np.arange(5000, dtype="i8").tobytes()
    keys = pa.Array.from_buffers(pa.int64(), 4999, [None, pa.py_buffer(b"x" + memory).slice(1)])
    assert gh.unique(keys).to_pylist() == list(range(4999))


def test_values_with_nulls_are_refused() -> None:
    """A null is no number, and NaN is one."""
    pl = pytest.importorskip("polars", reason="makes Series with nulls")
    with pytest.raises(TypeError, match=r"values has missing elements \(1, the first at 1\)"):
        gh.group_reduce([1, 1, 2], pl.Series([5, None, 7]))
    assert gh.group_reduce([1, 1, 2], pl.Series([5, 6, 7]))[1].tolist() == [11, 7]
    sums = gh.group_reduce([1, 1, 2], pl.Series([5.0, float("nan"), 7.0]))[1]
    assert np.array_equal(sums, [np.nan, 7.0], equal_nan=True)
