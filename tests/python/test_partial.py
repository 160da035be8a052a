"""`gh.partial`: aggregates in parts are those of the whole, in any division, and whatever is done twice."""

from __future__ import annotations

import copy
import pickle
import random

import numpy as np
import pytest

import pygpuhash as gh
from pygpuhash import partial

OPS = {
    "count": len,
    "sum": sum,
    "min": min,
    "max": max,
    "mean": lambda x: sum(x) / len(x),
    "first": lambda x: x[0],
    "nunique": lambda x: len(set(x)),
}


def rows_of(seed, n, distinct=7):
    random_ = np.random.default_rng(seed)
    return random_.integers(0, distinct, n), random_.integers(-50, 50, n)


def every_aggregate(values):
    return {op: op if op == "count" else (op, values) for op in OPS}


def by_python(keys, values):
    """{key: {op: result}}, in the order of first appearance."""
    groups = {}
    for key, value in zip(keys, values, strict=True):
        groups.setdefault(key, []).append(value)
    return {key: {op: f(group) for op, f in OPS.items()} for key, group in groups.items()}


def as_dict(finished):
    keys, results = finished
    return {key: {op: column[i] for op, column in results.items()} for i, key in enumerate(listed(keys))}


def listed(column):
    if isinstance(column, tuple):
        return list(zip(*map(listed, column), strict=True))
    return column.tolist() if hasattr(column, "tolist") else list(column)


def plain(given):
    """What a task was given or gave, bit for bit, as something that compares."""
    if isinstance(given, np.ndarray):
        return str(given.dtype), given.shape, given.tobytes()
    if isinstance(given, partial.Partial):
        return plain(given.keys), plain(given.states)
    if isinstance(given, partial.State):
        return given.op, plain(given.columns)
    if isinstance(given, dict):
        return {name: plain(part) for name, part in given.items()}
    return [plain(part) for part in given] if isinstance(given, (list, tuple)) else given


def same(a, b):
    return plain(a) == plain(b)


@pytest.mark.parametrize("parts", [1, 2, 5])
@pytest.mark.parametrize("shards", [None, 1, 3, 129, 257])
def test_parts_are_the_whole(parts, shards):
    keys, values = rows_of(3, 400, 40)
    cut = np.array_split(np.arange(400), parts) if parts > 1 else [np.arange(400)]
    started = [partial.start(keys[i], every_aggregate(values[i])) for i in cut]
    wanted = by_python(keys.tolist(), values.tolist())
    if shards is None:
        found = as_dict(partial.finish(partial.merge(started)))
        assert list(found) == list(wanted)
    else:
        merged = [partial.merge(part) for part in zip(*(partial.split(p, shards) for p in started), strict=True)]
        assert len(merged) == shards
        found = {}
        for i, part in enumerate(merged):
            own = as_dict(partial.finish(part))
            assert not own or set(gh.shard_of(np.array(list(own)), shards).tolist()) == {i}
            found |= own
    assert found == wanted


def run_twice(function, *arguments):
    """As a system does that loses a worker: both results are equal, and one of them is thrown away."""
    before = copy.deepcopy(arguments)
    results = [function(*pickle.loads(pickle.dumps(arguments))), function(*arguments)]
    assert same(results[0], results[1])
    assert same(arguments, before)
    return random.choice(results)


@pytest.mark.parametrize("seed", range(5))
def test_every_task_may_run_twice(seed):
    random.seed(seed)
    keys, values = rows_of(seed, 3000, 500)
    floats = values * 0.1
    started = [
        run_twice(partial.start, keys[i], every_aggregate(values[i]) | {"floats": ("sum", floats[i])})
        for i in np.array_split(np.arange(3000), 6)
    ]
    split = [run_twice(partial.split, part, 4) for part in started]
    merged = [run_twice(partial.merge, list(shard)) for shard in zip(*split, strict=True)]
    found = {}
    for part in merged:
        found |= as_dict(run_twice(partial.finish, part))
    sums = {key: group.pop("floats") for key, group in found.items()}
    assert found == by_python(keys.tolist(), values.tolist())
    assert all(abs(sums[key] - floats[keys == key].sum()) < 1e-9 for key in sums)


def test_many_rows_and_threads_are_repeatable():
    keys, values = rows_of(9, 60_000, 30_000)
    one, other = (partial.start(keys, {"s": ("sum", values * 0.1), "f": ("first", values)}, threads=t) for t in (1, 4))
    assert same(one, other)
    assert one.keys.tolist() == list(dict.fromkeys(keys.tolist()))


def test_columns_of_every_library():
    pd, pl, pa = (
        pytest.importorskip(name, reason=f"{name} is not installed") for name in ("pandas", "polars", "pyarrow")
    )
    words = ["b", None, "a", "b", None, "c" * 30] * 3
    numbers = list(range(18))
    for kind in (
        lambda x: pd.Series(x, dtype="str"),
        pl.Series,
        pa.array,
        lambda x: pa.chunked_array([x]),
        lambda x: np.array(x, object),
    ):
        parts = [
            partial.start(kind(words[i : i + 6]), every_aggregate(np.array(numbers[i : i + 6]))) for i in (0, 6, 12)
        ]
        split = [partial.split(pickle.loads(pickle.dumps(p)), 3) for p in parts]
        whole = partial.merge(partial.merge(list(shard)) for shard in zip(*split, strict=True))
        keys, results = partial.finish(whole)
        assert type(keys) is type(partial.start(kind(words), {}).keys)
        plain = [
            x if isinstance(x, str) else None for x in (keys.to_pylist() if hasattr(keys, "to_pylist") else list(keys))
        ]
        found = {key: {op: column[i] for op, column in results.items()} for i, key in enumerate(plain)}
        assert found == by_python(words, numbers)


def test_frames_and_several_columns():
    pd, pl = (pytest.importorskip(name, reason=f"{name} is not installed") for name in ("pandas", "polars"))
    a, b, values = [1, 1, 2, 1, 2, 1], list("xyxyxx"), [5, 6, 7, 8, 9, 5]
    wanted = by_python(list(zip(a, b, strict=True)), values)
    for kind in (
        lambda x, y: pd.DataFrame({"a": x, "b": y}),
        lambda x, y: pl.DataFrame({"a": x, "b": y}),
        lambda x, y: (np.array(x), y),
    ):
        parts = [partial.start(kind(a[i : i + 3], b[i : i + 3]), every_aggregate(values[i : i + 3])) for i in (0, 3)]
        split = [partial.split(p, 2) for p in parts]
        keys, results = partial.finish(partial.merge([partial.merge(list(s)) for s in zip(*split, strict=True)]))
        rows = list(
            zip(*(listed(part) for part in (keys if isinstance(keys, tuple) else (keys["a"], keys["b"]))), strict=True)
        )
        assert {key: {op: column[i] for op, column in results.items()} for i, key in enumerate(rows)} == wanted


def test_first_and_nunique_of_any_column():
    keys = np.array([1, 2, 1, 2, 1])
    words = ["a", None, "b", None, "a"]
    part = partial.start(keys, {"first": ("first", words), "n": ("nunique", words)})
    assert partial.finish(partial.merge([part, part]))[1]["first"] == ["a", None]
    assert partial.finish(partial.merge([part, part]))[1]["n"].tolist() == [2, 1]


def test_nulls():
    keys = [1, None, 1, None]
    values = np.array([1, 2, 3, 4])
    dropped = partial.start(keys, every_aggregate(values), nulls="drop")
    assert as_dict(partial.finish(partial.merge([dropped, dropped]))) == by_python([1, 1, 1, 1], [1, 3, 1, 3])
    assert len(partial.start(keys, {"n": "count"}, nulls="drop")) == 1
    with pytest.raises(TypeError, match="null"):
        partial.start(keys, {}, nulls="refuse")


def test_nans_and_times():
    keys = np.array([1, 1, 2])
    part = partial.start(
        keys, {"low": ("min", np.array([np.nan, 2.0, np.nan])), "sum": ("sum", np.array([1, "NaT", "NaT"], "m8[s]"))}
    )
    results = partial.finish(partial.merge([part, part]))[1]
    assert results["low"][0] == 2.0
    assert np.isnan(results["low"][1])
    assert results["sum"].tolist() == np.array([2, 0], "m8[s]").tolist()


def test_parts_without_rows():
    keys, values = rows_of(1, 10)
    none = partial.start(keys[:0], every_aggregate(values[:0]))
    assert len(none) == 0
    assert [len(p) for p in partial.split(none, 5)] == [0] * 5
    some = partial.start(keys, every_aggregate(values))
    assert as_dict(partial.finish(partial.merge([none, some, none]))) == as_dict(partial.finish(some))
    assert len(partial.merge([none, none])) == 0


# ---- what is refused -------------------------------------------------------------------------------------------------


def keyed(dtype):
    return partial.start(np.array([1, 2, 2]).astype(dtype), {"n": "count"})


def test_integers_of_several_widths_are_the_same_keys():
    keys, results = partial.finish(partial.merge([keyed("i4"), keyed("i8"), keyed("u1")]))
    assert keys.dtype == np.int64
    assert keys.tolist() == [1, 2]
    assert results["n"].tolist() == [3, 6]


@pytest.mark.parametrize(
    ("one", "other", "message"),
    [
        ("i4", "f8", r"keys of partials\[1\] has type float64, keys of partials\[0\] int32: convert one"),
        ("f4", "u8", "has type uint64"),
        ("i8", "u8", "int64 and uint64, which no integer holds both"),
        ("i8", "S3", r"keys of partials\[1\] has type bytes, "),
        ("?", "i8", "has type int64"),
        (
            "M8[s]",
            "M8[ns]",
            r"has type datetime64\[ns\], keys of partials\[0\] datetime64\[s\]: convert one of them to the type of the",
        ),
    ],
)
def test_keys_of_two_types_are_refused_by_name(one, other, message):
    with pytest.raises(TypeError, match=message):
        partial.merge([keyed(one), keyed(other)])


def test_the_type_of_keys_counts_without_rows():
    """Whether columns of two types are refused does not depend on where rows happen to be."""
    with pytest.raises(TypeError, match=r"keys of partials\[1\] has type float64, keys of partials\[0\] int64"):
        partial.merge([keyed("i8"), partial.start(np.empty(0), {"n": "count"})])


def test_values_of_two_types_are_refused_by_name():
    parts = [partial.start([1], {"paid": ("sum", np.array([1], dtype))}) for dtype in ("i8", "f8")]
    with pytest.raises(
        TypeError, match=r"values of 'paid' in partials\[1\] has type float64, values of 'paid' in partials"
    ):
        partial.merge(parts)


def test_what_is_refused():
    keys = np.arange(3)
    for aggregates, error, message in [
        ({"x": "median"}, gh.InvalidArgument, "aggregate 'x' is 'median': pass 'count', or a pair"),
        ({"x": "sum"}, gh.InvalidArgument, "aggregate 'x' is 'sum' without values"),
        ({"x": ("count", keys)}, gh.InvalidArgument, "aggregate 'x' is 'count' with values"),
        ({"x": ("sum",)}, gh.InvalidArgument, "pass 'count', or a pair"),
        ({"x": ("sum", [1])}, ValueError, r"values\['x'\] have shape"),
        ({"x": ("first", [1])}, ValueError, "values of 'x' have 1 rows, keys 3"),
        ({"x": ("sum", ["a", "b", "c"])}, TypeError, "values"),
        ({"x": ("mean", np.zeros(3, "M8[s]"))}, TypeError, "have no mean"),
    ]:
        with pytest.raises(error, match=message):
            partial.start(keys, aggregates)
    with pytest.raises(gh.InvalidArgument, match="partials is empty"):
        partial.merge([])
    with pytest.raises(TypeError, match=r"partials\[1\] is a int, not a Partial"):
        partial.merge([keyed("i8"), 7])
    with pytest.raises(gh.InvalidArgument, match=r"partials\[1\] has the aggregates"):
        partial.merge([keyed("i8"), partial.start(keys, {})])
    with pytest.raises(TypeError, match=r"partials\[1\] is list's, keys of partials\[0\] numpy's"):
        partial.merge([partial.start(keys, {}), partial.Partial([1, 2], {})])
    with pytest.raises(gh.InvalidArgument, match="shards=0 is out of range"):
        partial.split(keyed("i8"), 0)
