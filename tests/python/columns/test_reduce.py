"""Values of groups on the host, however their keys are numbered, against Python's sums and extremes."""

from __future__ import annotations

import math

import numpy as np
import pytest

import pygpuhash as gh
from pygpuhash.columns import _reduce

DTYPES = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "?"]
KEYS = {
    "dense": np.array([3, 1, 3, 2, 1, 3, 9]),
    "few": np.array([3, 1, 3, 2, 1, 3, 9]) << 40,
    "text": ["c", "a", "c", "b", "a", "c", "z"],
    "with a null": ["c", "a", "c", None, "a", "c", "z"],
}


def expected(keys, values, op):
    groups: dict[object, list[object]] = {}
    for key, value in zip(keys, values, strict=True):
        if key is not None:
            groups.setdefault(key, []).append(value)
    reduced = {"sum": sum, "min": min, "max": max, "mean": lambda v: sum(v) / len(v)}[op]
    return {key: reduced(some) for key, some in groups.items()}


@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS.keys())
@pytest.mark.parametrize("op", ["sum", "min", "max", "mean"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_of_each_dtype(keys, op, dtype):
    values = np.array([5, 1, 0, 1, 0, 9, 120]).astype(dtype)
    if np.dtype(dtype).kind in "if":
        values[[0, 4]] = -7, -3
    distinct, results = gh.group_reduce(keys, values, op, nulls="drop")
    assert dict(zip(np.asarray(distinct).tolist(), results.tolist(), strict=True)) == expected(
        np.asarray(keys).tolist(), values.tolist(), op
    )
    assert results.dtype == gh.group_reduce(keys, values, op, nulls="drop", device="cpu")[1].dtype
    if op in ("min", "max"):
        assert results.dtype == dtype


@pytest.mark.parametrize("keys", [KEYS["dense"], KEYS["text"]], ids=["dense", "text"])
def test_numbers_that_are_none(keys):
    nan = math.nan
    values = np.array([nan, nan, 4, 2, nan, -1, nan])
    for op, by_key in (("min", [-1, nan, 2, nan]), ("max", [4, nan, 2, nan])):
        np.testing.assert_array_equal(gh.group_reduce(keys, values, op)[1], np.array(by_key, float))
    np.testing.assert_array_equal(gh.group_reduce(keys, values)[1], [nan, nan, 2, nan])
    times = np.array(["NaT", "NaT", 4, 2, "NaT", -1, "NaT"], "m8[s]")
    for op, by_key in (("min", [-1, "NaT", 2, "NaT"]), ("max", [4, "NaT", 2, "NaT"]), ("sum", [3, 0, 2, 0])):
        np.testing.assert_array_equal(gh.group_reduce(keys, times, op)[1], np.array(by_key, "m8[s]"))
    smallest = np.array([-(2**63)] * 7)  # of integers, a number
    assert gh.group_reduce(keys, smallest, "max")[1].tolist() == [-(2**63)] * 4


def test_sums_wrap_and_overflow_as_those_of_numpy():
    keys = np.array([0, 0, 1])
    assert gh.group_reduce(keys, np.array([2**63 - 1, 1, 5]))[1].tolist() == [-(2**63), 5]
    assert gh.group_reduce(keys, np.array([2**64 - 1, 2, 5], "u8"))[1].tolist() == [1, 5]
    assert gh.group_reduce(keys, np.array([3e38, 3e38, 5], "f4"), dtype="f4")[1].tolist() == [math.inf, 5]
    assert gh.group_reduce(keys, np.array([127, 2, 5], "i1"), dtype="i1")[1].tolist() == [-127, 5]


def test_values_of_any_layout():
    keys = np.array([5, 6, 5, 6])
    for values in (np.arange(8)[::2], np.arange(4).astype(">i8"), np.arange(4).astype(">f4"), 3, np.float32(1.5)):
        model = np.broadcast_to(values, 4)
        assert gh.group_reduce(keys, values)[1].tolist() == [model[0] + model[2], model[1] + model[3]]
    days = np.array([5, 1, 3, 4], ">m8[D]")
    assert gh.group_reduce(keys, days, "max")[1].tolist() == [days[0].item(), days[3].item()]
    assert gh.group_reduce(keys.reshape(2, 2), np.arange(4).reshape(2, 2))[1].tolist() == [2, 4]


def test_many_rows_and_more_threads_than_columns_need_no_other_answer():
    random = np.random.default_rng(5)
    keys, values = random.integers(-300, 300, 100_000), random.integers(-100, 100, 100_000)
    model = np.zeros(600, np.int64)
    np.add.at(model, keys + 300, values)
    for threads in (1, 4, 5):
        distinct, sums = gh.group_reduce(keys, values, threads=threads)
        assert (model[distinct + 300] == sums).all()
        assert distinct.size == 600


@pytest.mark.parametrize("rows", [1, 3, 64])
def test_pieces(rows):
    """A column longer than a piece, of every kind of loop."""
    random = np.random.default_rng(rows)
    ids = random.integers(-1, 5, 200)
    was = _reduce.piece(rows)
    try:
        for dtype in ("i8", "u8", "f8"):
            values = random.integers(1, 1000, 200).astype(dtype)
            parts = [values[ids == group] for group in range(5)]
            assert _reduce.sums(ids, 5, values).tolist() == [part.sum() for part in parts]
            assert _reduce.extremes(ids, 5, values, True).tolist() == [part.max() for part in parts]
            assert _reduce.extremes(ids, 5, values, False).tolist() == [part.min() for part in parts]
        assert _reduce.counts(ids, 5).tolist() == [part.size for part in parts]
    finally:
        _reduce.piece(was)


def test_what_is_no_array_of_the_module():
    ids, values = np.array([0, 1]), np.array([1.0, 2.0])
    for bad_ids, bad_values in ((ids.astype("i4"), values), (ids, values[:1]), (np.array([0, 1, 2, 3])[::2], values)):
        with pytest.raises(ValueError, match="groups"):
            _reduce.sums(bad_ids, 2, bad_values)
    with pytest.raises(ValueError, match="values are float32: pass float64"):
        _reduce.extremes(ids, 2, values.astype("f4"), True)
    assert _reduce.counts(np.array([1, -1, 1, 0]), 3).tolist() == [1, 2, 0]
