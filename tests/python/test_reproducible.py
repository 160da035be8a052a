"""Sums and means of floats with `reproducible=True`: the same bits in any order of rows, on all threads and devices."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pygpuhash as gh
from pygpuhash import _reproducible

sys.path.insert(0, str(Path(__file__).resolve().parent))
import fake_kernels
from fake_kernels import host

Array = np.ndarray[Any, Any]


@pytest.fixture
def put(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    with fake_kernels.installed(monkeypatch) as (put, _):
        yield put


def bits(pair: tuple[Any, Any]) -> dict[int, bytes]:
    """The bits of each key's result."""
    return {int(key): np.float64(result).tobytes() for key, result in zip(*map(host, pair), strict=True)}


def draw(n: int, exponents: int = 40, groups: int = 100, seed: int = 1) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    scale = np.ldexp(1.0, rng.integers(-exponents, exponents + 1, n))
    return rng.integers(0, groups, n), rng.standard_normal(n) * scale


@pytest.mark.parametrize("op", ["sum", "mean"])
def test_the_order_of_rows_does_not_matter(op: Any) -> None:
    keys, values = draw(20_000)
    wanted = bits(gh.group_reduce(keys, values, op, reproducible=True))
    plain = bits(gh.group_reduce(keys, values, op, order="first"))
    differs = False
    for seed in range(5):
        rows = np.random.default_rng(seed).permutation(len(keys))
        assert bits(gh.group_reduce(keys[rows], values[rows], op, reproducible=True)) == wanted
        differs |= bits(gh.group_reduce(keys[rows], values[rows], op, order="first")) != plain
    assert differs  # these columns tell sums in any order from each other


def test_rows_of_other_groups_do_not_matter() -> None:
    """Nor does how many there are: a result depends on the values of its group alone."""
    keys, values = draw(20_000)
    wanted = bits(gh.group_reduce(keys, values, reproducible=True))
    some = keys < 7
    alone = bits(gh.group_reduce(keys[some], values[some], reproducible=True))
    assert alone == {key: wanted[key] for key in range(7)}
    more, huge = np.append(keys, np.full(40_000, 1000)), np.append(values, np.full(40_000, 1e300))
    found = bits(gh.group_reduce(more, huge, reproducible=True))
    assert {key: found[key] for key in wanted} == wanted


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("table", [{}, {"backend": "hive"}, {"backend": "slab_hash"}])
def test_threads_and_structures_do_not_matter(threads: int, table: Any) -> None:
    keys, values = draw(30_000)
    wanted = bits(gh.group_reduce(keys, values, reproducible=True))
    assert bits(gh.group_reduce(keys, values, reproducible=True, threads=threads, **table)) == wanted


@pytest.mark.parametrize("op", ["sum", "mean"])
@pytest.mark.parametrize("order", ["any", "first"])
@pytest.mark.parametrize("kind", ["f4", "f8"])
def test_a_gpu_gives_the_same_bits(put: Any, op: Any, order: Any, kind: str) -> None:
    keys, values = draw(5_000)
    values = values.astype(kind)
    values[::501] = np.inf
    values[7::1001] = np.nan
    wanted = gh.group_reduce(keys, values, op, reproducible=True, order="first")
    found = gh.group_reduce(put(keys), put(values), op, reproducible=True, order=order)
    assert all(isinstance(part, type(put(keys))) for part in found)
    assert bits(found) == bits(wanted)
    if order == "first":
        assert np.array_equal(host(found[0]), wanted[0])


@pytest.mark.parametrize("exponents", [0, 20, 60, 300])
def test_sums_are_those_of_exact_arithmetic(exponents: int) -> None:
    """A unit in the last place, and what is below 2^-90 of the largest value, for each row."""
    keys, values = draw(30_000, exponents, groups=50)
    found = gh.group_reduce(keys, values, reproducible=True)
    for key, result in zip(*found, strict=True):
        mine = values[keys == key]
        exact = math.fsum(mine)
        assert abs(result - exact) <= np.spacing(abs(exact)) + len(mine) * np.abs(mine).max() * 2.0**-89


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([], None),
        ([0.0], 0.0),
        ([-0.0, -0.0], 0.0),
        ([5e-324] * 3, 15e-324),  # the smallest numbers there are
        ([5e-324, 1.0, -1.0], 0.0),  # 2^-1074 is left out beside 1
        ([2.0**-80, 1.0, -1.0], 2.0**-80),  # and this is not
        ([2.0**-89, 1.0, -1.0], 2.0**-89),
        ([2.0**-1022, 2.0**-1074], 2.0**-1022 + 2.0**-1074),
        ([2.0**-995] * 5, 5 * 2.0**-995),
        ([1.7e308, 1.7e308, -1.7e308], 1.7e308),  # no sum in between is infinite
        ([1.7e308, 1.7e308], math.inf),
        ([-1.7e308, -1.7e308], -math.inf),
        ([math.inf, 1.7e308, 1.7e308], math.inf),
        ([-math.inf, 1.0], -math.inf),
        ([math.inf, -math.inf], math.nan),
        ([math.nan, 1.0], math.nan),
        ([1e16, 1.0, -1e16], 1.0),
        ([0.1] * 10, 1.0),
        ([2.0**53, 1.0, 1.0], 2.0**53 + 2),
        ([1.0, 2.0**-53, 2.0**-53], 1 + 2.0**-52),
        ([-1.0, 2.0**-60], -1 + 2.0**-60),
    ],
)
def test_values_at_extremes(values: list[float], wanted: float | None) -> None:
    for rows in (values, values[::-1]):
        distinct, sums = gh.group_reduce(np.zeros(len(rows), "i4"), np.array(rows, "f8"), reproducible=True)
        assert distinct.tolist() == ([] if wanted is None else [0])
        if wanted is not None:
            assert sums.tobytes() == np.array([wanted]).tobytes()


def test_many_equal_rows() -> None:
    """As many carries as there can be between what values are cut into."""
    n = 1 << 16
    for value in (1 + 2.0**-52, -(2 - 2.0**-52), 1 / 3, 2.0**-30 - 2.0**-82):
        sums = gh.group_reduce(np.zeros(n, "i4"), np.full(n, value), reproducible=True)[1]
        assert sums[0] == n * value


def test_as_many_rows_as_there_may_be() -> None:
    """Each row stands for 2^25: the sums of what values are cut into have up to 61 bits, more than a double has."""
    keys, values = draw(2000, exponents=1, groups=40)
    values = np.abs(values)

    def reduce(many: int) -> Any:
        def of(numbers: Array, op: str) -> Array:
            if op == "sum":
                sums: Array = np.bincount(keys, numbers.astype("f8")).astype(numbers.dtype)
                return sums * numbers.dtype.type(many)
            largest = np.zeros(40)
            np.maximum.at(largest, keys, numbers)
            return largest

        return of

    once, often = (
        _reproducible._sums(np, keys, values, reduce(many), np.dtype("i8"), np.dtype("f8")) for many in (1, 2**25)
    )
    assert np.array_equal(once, [math.fsum(values[keys == key]) for key in range(40)])
    assert np.array_equal(often, once * 2.0**25)


def test_several_aggregates_of_one_call() -> None:
    """They are those of a call each, in any order of rows."""
    keys, values = draw(5000)
    wanted = [bits(gh.group_reduce(keys, values, op, reproducible=True)) for op in ("mean", "sum")]
    for seed in range(3):
        rows = np.random.default_rng(seed).permutation(len(keys))
        distinct, results = gh.group_reduce(keys[rows], values[rows], ("mean", "sum"), reproducible=True)
        assert [bits((distinct, result)) for result in results] == wanted


def test_other_libraries() -> None:
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    keys, values = draw(3_000)
    words = np.array([f"k{key}" for key in keys])
    wanted = bits(gh.group_reduce(keys, values, reproducible=True))
    by_word = {f"k{key}": sums for key, sums in wanted.items()}
    found, sums = gh.group_reduce(pd.Series(words), pd.Series(values), reproducible=True)
    assert isinstance(sums, pd.Series)
    assert {word: np.float64(total).tobytes() for word, total in zip(found, sums, strict=True)} == by_word
    found, sums = gh.group_reduce(pl.Series(words), pl.Series(values), reproducible=True)
    assert isinstance(sums, pl.Series)
    assert {word: np.float64(total).tobytes() for word, total in zip(found, sums, strict=True)} == by_word
    (found, same), sums = gh.group_reduce((keys, words), values, reproducible=True)
    assert bits((found, sums)) == wanted
    assert same.tolist() == [f"k{key}" for key in found]


def test_nulls_that_are_dropped() -> None:
    keys = [1, None, 2, 1]
    found, sums = gh.group_reduce(keys, [1.0, 1e300, 2.0, 4.0], nulls="drop", reproducible=True)
    assert dict(zip(found, sums, strict=True)) == {1: 5.0, 2: 2.0}


def test_results(put: Any) -> None:
    """Their dtype, one value for all rows, several aggregates, and values that are no floats."""
    keys = np.array([3, 4, 3, 3])
    for k in (keys, put(keys)):
        sums = host(gh.group_reduce(k, 0.5, reproducible=True, order="first")[1])
        assert sums.tolist() == [1.5, 0.5]
        floats = np.array([0.5, 1, 2, 4], "f4")
        values = floats if k is keys else put(floats)
        narrow = host(gh.group_reduce(k, values, dtype="f4", reproducible=True, order="first")[1])
        assert (narrow.dtype, narrow.tolist()) == (np.float32, [6.5, 1.0])
        distinct, several = gh.group_reduce(k, values, ("sum", "count", "mean", "max"), reproducible=True)
        assert host(distinct).tolist() == [3, 4]
        assert [host(one).tolist() for one in several] == [[6.5, 1], [3, 1], [6.5 / 3, 1], [4, 1]]
    assert gh.group_reduce(keys, np.array([2**62, 1, 2**62, 2**62]), reproducible=True)[1].dtype == np.int64


def test_refused(put: Any) -> None:
    class Tensor:
        def __init__(self, array: Any) -> None:
            self.__dlpack_device__, self.__dlpack__ = array.__dlpack_device__, array.__dlpack__

    keys = put(np.arange(4))
    with pytest.raises(gh.Unsupported, match=r"reproducible=True takes arrays of CuPy or PyTorch on a GPU, keys are a"):
        gh.group_reduce(Tensor(keys), Tensor(put(np.ones(4))), reproducible=True)
