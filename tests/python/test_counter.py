"""`gh.Counter` and `gh.GroupBy`: against collections.Counter, Python and pandas, and what a batch that fails leaves."""

import _thread
import collections
import os
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pygpuhash as gh
from pygpuhash import group_by, partial
from pygpuhash.columns import _engine

TEXT = st.one_of(st.text(max_size=3), st.sampled_from(["a" * 12, "a" * 13, "a\0", "é" * 20]))
BATCHES = st.one_of(
    st.lists(st.lists(TEXT, max_size=12), max_size=6),
    st.lists(st.lists(st.integers(-3, 3), max_size=12), max_size=6),
    st.lists(st.lists(st.tuples(st.integers(0, 2), TEXT), min_size=1, max_size=8), max_size=6),
    st.lists(st.lists(st.one_of(st.none(), TEXT), max_size=12), max_size=6).map(lambda some: [["a"], *some]),
)
ALL = {"n": "count", "s": "sum", "low": "min", "high": "max", "mean": "mean"}


@pytest.fixture
def small_pieces():
    was = _engine.piece(7)
    yield
    _engine.piece(was)


def listed_of(keys):
    if isinstance(keys, tuple):
        return list(zip(*keys, strict=True))
    return keys.tolist() if hasattr(keys, "tolist") else list(keys)


def results_of(groups):
    """{key: (results)}, and the dtypes."""
    keys, results = groups.result()
    listed = listed_of(keys)
    assert all(len(column) == len(listed) for column in results.values())
    rows = zip(*(column.tolist() for column in results.values()), strict=True)
    return dict(zip(listed, rows, strict=True)), [column.dtype.str for column in results.values()]


# ---- counters --------------------------------------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(BATCHES)
def test_counts_are_those_of_a_counter(batches):
    counter, model = gh.Counter(threads=1), collections.Counter()
    for batch in batches:
        assert counter.add(batch) is None
        model.update(batch)
        assert (len(counter), counter.total) == (len(model), model.total())
    assert dict(zip(counter, counter.counts.tolist(), strict=True)) == model
    assert list(counter) == list(counter.keys) == list(model)
    assert counter.counts.dtype == np.int64
    assert all(counter[key] == n and key in counter for key, n in model.items())
    for n in (None, 0, 1, 2, len(model), 100):
        keys, counts = counter.most_common(n)
        assert list(zip(listed_of(keys), counts.tolist(), strict=True)) == model.most_common(n)
    other = gh.Counter([key for batch in reversed(batches) for key in batch] or None)
    other.merge(counter)
    assert dict(zip(other, other.counts.tolist(), strict=True)) == {key: 2 * n for key, n in model.items()}


@pytest.mark.parametrize("nulls", ["group", "drop", "refuse"])
def test_nulls_of_a_counter(nulls):
    counter = gh.Counter(str, nulls=nulls)
    if nulls == "refuse":
        with pytest.raises(TypeError, match="null"):
            counter.add(["a", None])
        assert (len(counter), counter["a"]) == (0, 0)
        return
    counter.add(["a", "b", None, None, None])
    assert counter.counts.tolist() == ([1, 1, 3] if nulls == "group" else [1, 1])
    assert counter.get([None, "b"]).tolist() == ([3, 1] if nulls == "group" else [0, 1])
    taken = gh.Counter(nulls="drop")
    taken.merge(counter)
    assert taken.counts.tolist() == [1, 1]


@pytest.mark.parametrize("floats", ["numbers", "bits"])
def test_floats_of_a_counter(floats):
    counter = gh.Counter(np.array([0.0, -0.0, np.nan, np.nan]), floats=floats)
    assert counter.counts.tolist() == ([2, 2] if floats == "numbers" else [1, 1, 2])


def test_counts_of_a_column_have_its_library_and_shape():
    counter = gh.Counter(np.array([[1, 2], [2, 2]]))
    assert counter.get(np.array([[2, 5], [1, 2**40]])).tolist() == [[3, 0], [1, 0]]
    assert isinstance(counter[2], int)
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    assert counter.get(pd.Series([2, 7], index=["x", "y"])).tolist() == [3, 0]
    words = gh.Counter(pd.Series(["b", "a", "b"], name="word"))
    keys, counts = words.most_common()
    assert (type(keys), keys.name, list(keys), counts.tolist()) == (pd.Series, "word", ["b", "a"], [2, 1])
    merged = gh.Counter(str)
    with pytest.raises(TypeError, match="int64 here and text there"):
        merged.merge(gh.Counter(pd.Series([1, 2])))
    merged.add(["x"])
    assert type(merged.keys[:]) is np.ndarray  # nothing of the one that was refused
    fresh = gh.Counter()
    fresh.merge(words)
    assert type(fresh.keys[:]) is pd.Series


def test_nulls_alone_have_no_type():
    with pytest.raises(TypeError, match=r"nothing but nulls, .* has no type yet: make it with one, such as str"):
        gh.Counter([None])
    counter = gh.Counter(str)
    counter.add([None, None])
    assert counter.counts.tolist() == [2]


def test_an_empty_counter():
    counter = gh.Counter()
    counter.add([])
    assert (len(counter), counter.total, list(counter), counter.counts.tolist()) == (0, 0, [], [])
    assert [part.tolist() for part in counter.most_common()] == [[], []]
    assert counter.get(["a"]).tolist() == [0]
    assert "a" not in counter
    counter.merge(gh.Counter())
    counter.merge(gh.Counter(str))
    counter.add([5])  # no type was given yet
    assert repr(counter) == f"<pygpuhash.Counter of 1 key, {counter.nbytes} bytes>"
    assert counter.nbytes > 0


def test_total_beyond_64_bits():
    counter = gh.Counter(["a", "b"])
    counter._groups._state[1]["count"][0][:] = 2**62 + 1
    counter.merge(gh.Counter(["c"]))
    counter._groups._state[1]["count"][0][2] = 2**62
    assert counter.total == 3 * 2**62 + 2


# ---- groups ----------------------------------------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(BATCHES, st.randoms(use_true_random=False), st.sampled_from(["i8", "u1", "f8", "i2"]))
def test_groups_are_those_of_python_in_any_division(batches, random, dtype):
    groups, model = gh.GroupBy(ALL, threads=1), {}
    for batch in batches:
        values = np.array([random.randrange(100) for _ in batch], dtype)
        groups.add(batch, s=values, low=values, high=values, mean=values)
        for key, value in zip(batch, values.tolist(), strict=True):
            model.setdefault(key, []).append(value)
    found, dtypes = results_of(groups)
    assert found == {key: (len(own), sum(own), min(own), max(own), sum(own) / len(own)) for key, own in model.items()}
    assert list(found) == list(model)
    assert len(groups) == len(model)
    assert all(key in groups for key in model)
    if model:
        wanted = {"i8": "<i8", "i2": "<i8", "u1": "<u8", "f8": "<f8"}[dtype]
        assert dtypes == ["<i8", wanted, values.dtype.str, values.dtype.str, "<f8"]


VALUES = {
    "floats": np.array([1.5, np.nan, -0.25, np.nan, 3e300, 3e300], "f8"),
    "small floats": np.array([1, np.inf, -np.inf, np.nan, 2, 3], "f2"),
    "unsigned": np.array([2**64 - 1, 1, 5, 0, 7, 9], "u8"),
    "bools": np.array([True, False, True, True, False, False]),
}


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("cut", [0, 1, 3, 5])
def test_groups_are_those_of_partial(name, cut):
    values, keys = VALUES[name], np.array(["a", "b", "a", "c", "b", "c"])
    groups = gh.GroupBy(ALL)
    for rows in (slice(cut), slice(cut, None)):
        groups.add(keys[rows], s=values[rows], low=values[rows], high=values[rows], mean=values[rows])
    wanted = partial.finish(partial.start(keys, {n: op if op == "count" else (op, values) for n, op in ALL.items()}))
    found = groups.result()
    assert found[0].tolist() == wanted[0].tolist()
    assert [c.dtype for c in found[1].values()] == [c.dtype for c in wanted[1].values()]
    assert repr(found[1]) == repr(wanted[1])


def test_times():
    groups = gh.GroupBy({"long": "sum", "first": "min", "last": "max"})
    for day in ("2020-01-02", "NaT", "1999-12-31"):
        step = np.timedelta64(5, "s") if day != "NaT" else np.timedelta64("NaT", "s")
        groups.add(["a"], long=np.array([step]), first=np.array([day], "M8[D]"), last=np.array([day], "M8[D]"))
    _, results = groups.result()
    assert [str(column[0]) for column in results.values()] == ["10 seconds", "1999-12-31", "2020-01-02"]


def test_groups_are_those_of_pandas():
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    rng = np.random.default_rng(4)
    frame = pd.DataFrame(
        {"x": rng.integers(0, 9, 5000), "y": rng.integers(0, 3, 5000), "v": rng.integers(-99, 99, 5000)}
    )
    groups = gh.GroupBy(ALL)
    for start in range(0, 5000, 700):
        rows = frame.iloc[start : start + 700]
        groups.add(rows[["x", "y"]], s=rows["v"], low=rows["v"], high=rows["v"], mean=rows["v"])
    keys, results = groups.result()
    wanted = frame.groupby(["x", "y"], sort=False)["v"].agg(["count", "sum", "min", "max", "mean"]).reset_index()
    assert keys.equals(wanted[["x", "y"]])
    for name, op in ALL.items():
        assert results[name].tolist() == pytest.approx(wanted[op].tolist())


def test_one_value_for_all_and_wider_values():
    groups = gh.GroupBy({"s": "sum", "low": "min"})
    groups.add(["a", "b", "a"], s=2, low=np.array([1, 2, 3], "i1"))
    groups.add(["b", "c"], s=[3, 4], low=np.array([1000, -1000], "i4"))
    assert results_of(groups) == ({"a": (4, 1), "b": (5, 2), "c": (4, -1000)}, ["<i8", "<i4"])
    groups.add([], s=[], low=[])  # of floats, as lists without elements are
    assert len(groups) == 3


@pytest.mark.parametrize("nulls", ["group", "drop"])
def test_nulls_of_groups(nulls):
    groups = gh.GroupBy({"s": "sum", "n": "count"}, str, nulls=nulls)
    groups.add([None, None], s=[1, 2])
    groups.add(["a", None], s=[5, 6])
    found, _ = results_of(groups)
    assert found == ({None: (9, 3), "a": (5, 1)} if nulls == "group" else {"a": (5, 1)})


def test_groups_before_the_first_batch():
    groups = gh.GroupBy(ALL)
    assert results_of(groups) == ({}, ["<i8", "<f8", "<f8", "<f8", "<f8"])
    assert len(groups) == 0
    assert "a" not in groups
    assert groups.aggregates == ALL
    groups.merge(gh.GroupBy(ALL))
    assert "GroupBy of n: count, s: sum," in repr(groups)


def test_results_stay_what_they_were():
    counter, groups = gh.Counter(["a", "b"]), filled()
    counts, (_, results) = counter.counts, groups.result()
    counter.add(["a"])
    groups.add(["a"], s=[5], low=[0.0])
    assert counts.tolist() == [1, 1]
    assert [column.tolist() for column in results.values()] == [[1, 2], [1.5, 2.5], [1, 1]]


def test_groups_are_merged():
    rng = np.random.default_rng(5)
    one, other, whole = (gh.GroupBy(ALL) for _ in range(3))
    for into in (one, other, one, other):
        keys, values = rng.integers(0, 40, 100), rng.integers(-50, 50, 100)
        for groups in (into, whole):
            groups.add(keys, s=values, low=values, high=values, mean=values)
    one.merge(other)
    assert results_of(one)[0] == results_of(whole)[0]
    fresh = gh.GroupBy(ALL)
    fresh.merge(one)
    assert results_of(fresh) == results_of(one)
    one.merge(one)
    assert [2 * n for n in results_of(fresh)[0][5][:2]] == list(results_of(one)[0][5][:2])
    with pytest.raises(gh.InvalidArgument, match="other has the aggregates"):
        one.merge(gh.GroupBy({"n": "count"}))
    with pytest.raises(TypeError, match="other is a list, not a GroupBy"):
        one.merge([])
    with pytest.raises(TypeError, match="other is a list, not a Counter: use add"):
        gh.Counter().merge(["a"])


# ---- a batch that fails ----------------------------------------------------------------------------------------------


def filled():
    groups = gh.GroupBy({"s": "sum", "low": "min", "n": "count"})
    groups.add(["a", "b"], s=[1, 2], low=[1.5, 2.5])
    return groups


FAILING = {
    "length": (
        lambda g: g.add(["c", "a"], s=[1], low=[1, 2]),
        ValueError,
        r"values\['s'\] have shape \(1,\), keys",
    ),
    "second length": (
        lambda g: g.add(["c", "a"], s=[1, 1], low=[1.0, 2, 3]),
        ValueError,
        r"values\['low'\] have shape \(3,",
    ),
    "keys": (lambda g: g.add([5], s=[1], low=[1.0]), TypeError, "keys: the column is int64 here and text there"),
    "sum's type": (lambda g: g.add(["c"], s=[1.5], low=[1.0]), TypeError, "the sum 's' of these rows is float64, and"),
    "min's type": (lambda g: g.add(["c"], s=[1], low=[1]), TypeError, "the min 'low' of these rows is int64, and that"),
    "text": (lambda g: g.add(["c"], s=["x"], low=[1.0]), TypeError, "values"),
    "times": (lambda g: g.add(["c"], s=np.array([5], "M8[s]"), low=[1.0]), TypeError, "have no sum"),
    "shape": (lambda g: g.add(np.array([["c"]]), s=1, low=1.0), ValueError, r"keys have shape \(1, 1\)"),
    "missing": (lambda g: g.add(["c"], s=[1]), gh.InvalidArgument, r"min 'low' is without values: pass low=values"),
    "extra": (lambda g: g.add(["c"], s=[1], low=[1.0], x=[1]), gh.InvalidArgument, "x= is no aggregate: there are 's'"),
    "counted": (lambda g: g.add(["c"], s=[1], low=[1.0], n=[1]), gh.InvalidArgument, "n= is a count, which has no"),
    "nulls": (
        lambda g: g.add(["c"], s=[None], low=[1.0]),
        TypeError,
        r"values\['s'\] has missing elements",
    ),
    "unnamed": (
        lambda g: g.add(["c"], [1], low=[1.0]),
        TypeError,
        r"values have no names: pass each by .* add\(keys, ",
    ),
    "no column": (lambda g: g.add("c", s=[1], low=[1.0]), TypeError, "keys is a str, not a column"),
}


@pytest.mark.parametrize("name", FAILING)
def test_a_batch_that_fails_leaves_groups_as_they_were(name):
    call, error, words = FAILING[name]
    groups = filled()
    before = results_of(groups)
    with pytest.raises(error, match=words):
        call(groups)
    assert results_of(groups) == before
    assert (len(groups), list(groups.keys), "c" in groups) == (2, ["a", "b"], False)
    groups.add(["d", "a"], s=[7, 1], low=[0.5, 9])
    assert results_of(groups)[0] == {"a": (2, 1.5, 2), "b": (2, 2.5, 1), "d": (7, 0.5, 1)}


def test_a_key_is_absent_until_its_batch_is_counted(monkeypatch):
    counter, groups, seen = gh.Counter(["a"]), filled(), []
    counts, numbers = gh.GroupBy._count, group_by._renumbered
    monkeypatch.setattr(gh.GroupBy, "_count", lambda *given: (seen.append(counter["c"]), counts(*given)))
    counter.add(["c", "a"])
    monkeypatch.undo()
    monkeypatch.setattr(group_by, "_renumbered", lambda *given: (seen.append("c" in groups), numbers(*given))[1])
    groups.add(["c"], s=[1], low=[1.0])
    assert seen == [0, False]
    assert (counter["c"], "c" in groups) == (1, True)


def test_a_first_batch_that_fails_gives_no_type():
    groups = gh.GroupBy({"s": "sum"})
    with pytest.raises(ValueError, match=r"values\['s'\] have shape"):
        groups.add(["a"], s=[1, 2])
    groups.add([5], s=[1.5])
    assert results_of(groups)[0] == {5: (1.5,)}


def test_a_piece_that_fails_is_not_counted_nor_those_before(small_pieces):
    counter = gh.Counter("int8")
    counter.add(np.arange(5))
    with pytest.raises(TypeError, match="row 30 is nothing that an index of int8 can hold"):
        counter.add([3] * 20 + [9] * 10 + [300])
    assert (list(counter), counter.counts.tolist()) == ([0, 1, 2, 3, 4], [1] * 5)
    counter.add([9, 3])
    assert (list(counter), counter.counts.tolist()) == ([0, 1, 2, 3, 4, 9], [1, 1, 1, 2, 1, 1])


def test_memory_that_runs_out(monkeypatch):
    counter = gh.Counter(["a"])
    added = gh.Index.added

    def short(index, keys):
        added(index, keys)
        error = gh.NoMemory("no memory for more")
        error.status = np.array([0, 3], np.uint8)
        raise error

    monkeypatch.setattr(gh.Index, "added", short)
    with pytest.raises(gh.NoMemory) as caught:
        counter.add(["b", "c"])
    monkeypatch.undo()
    assert caught.value.failed.tolist() == [True, True]  # none of them was counted
    assert (list(counter), counter.counts.tolist()) == (["a"], [1])
    groups = filled()
    before = results_of(groups)
    monkeypatch.setattr("pygpuhash.group_by._with_room", lambda *given: (_ for _ in ()).throw(MemoryError("no room")))
    with pytest.raises(MemoryError, match="no room"):
        groups.add(["x"], s=[1], low=[1.0])
    monkeypatch.undo()
    assert results_of(groups) == before
    assert len(groups._index) == 2


def test_ctrl_c_counts_nothing():
    was = _engine.piece(1000)
    counter = gh.Counter([7, 7])
    stopper = threading.Timer(0.01, _thread.interrupt_main)

    def interrupted():
        stopper.start()
        counter.add(range(4_000_000))

    try:
        with pytest.raises(KeyboardInterrupt):
            interrupted()
        stopper.join()
    finally:
        _engine.piece(was)
    assert (list(counter), counter.counts.tolist()) == ([7], [2])


# ---- threads and processes -------------------------------------------------------------------------------------------


def test_threads_add_at_once(in_threads):
    counter, groups = gh.Counter(str), gh.GroupBy({"n": "count", "s": "sum", "high": "max"})
    words = [f"word {i}" for i in range(2000)]

    def work(i):
        for step in range(5):
            own = words[i * 300 + step :]
            counter.add(own)
            groups.add(own, s=[i] * len(own), high=np.arange(len(own)))
            assert counter[own[0]] >= 1
            if step == 3:
                with pytest.raises(TypeError, match="int64 here and text there"):
                    counter.add([5])

    in_threads(work, 4)
    model = collections.Counter(word for i in range(4) for step in range(5) for word in words[i * 300 + step :])
    assert dict(zip(counter, counter.counts.tolist(), strict=True)) == model
    keys, results = groups.result()
    assert dict(zip(keys, results["n"].tolist(), strict=True)) == model
    assert results["s"].sum() == sum(5 * i * (2000 - i * 300) - 10 * i for i in range(4))


def test_threads_merge_crosswise(in_threads):
    pair = [gh.Counter(range(2000)), gh.Counter(range(1000, 4000))]

    def work(i):
        for _ in range(3):
            pair[i % 2].add(range(5000, 5000 + 100 * i))
            pair[i % 2].merge(pair[1 - i % 2])

    in_threads(work, 4)
    for counter in pair:
        assert len(counter) == len(set(counter)) == counter.counts.size
        assert counter.counts.min() >= 1


def test_a_forked_child_is_refused():
    if not hasattr(os, "fork"):
        pytest.skip("this system does not fork")
    counter = gh.Counter(["a"])
    child = os.fork()
    if child == 0:
        refused = 0
        try:
            calls = [lambda: counter.add(["b"]), lambda: counter["a"], lambda: counter.counts, lambda: len(counter)]
            for call in calls:
                try:
                    call()
                except gh.Forked:
                    refused += 1
        finally:
            os._exit(refused)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 4


# ---- wrong input -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: gh.GroupBy({}), gh.InvalidArgument, "aggregates={}: pass a dict of one at least"),
        (lambda: gh.GroupBy("count"), gh.InvalidArgument, "aggregates='count': pass a dict of one"),
        (lambda: gh.GroupBy({5: "count"}), TypeError, "the aggregate 5 has no name"),
        (lambda: gh.GroupBy({"x": "first"}), gh.InvalidArgument, "'x' is 'first', whose state .* use gh.partial"),
        (lambda: gh.GroupBy({"x": "nunique"}), gh.InvalidArgument, "'x' is 'nunique', .* use gh.partial"),
        (lambda: gh.GroupBy({"x": "median"}), gh.InvalidArgument, "'x' is 'median': pass one of 'count', 'sum'"),
        (lambda: gh.GroupBy({"x": ("sum", [1])}), gh.InvalidArgument, r"'x' is \('sum', \[1\]\): pass one of"),
        (lambda: gh.GroupBy({"key": "count"}), gh.InvalidArgument, "'key' would be the column 'key' of a saved file"),
        (lambda: gh.GroupBy({"x": "mean", "x.rows": "sum"}), gh.InvalidArgument, "would be the column 'x.rows'"),
        (lambda: gh.GroupBy({"n": "count"}, ["a"]), TypeError, "keys is a list, not a type such as str"),
        (lambda: gh.GroupBy({"n": "count"}, nulls="keep"), gh.InvalidArgument, "nulls='keep'"),
        (lambda: gh.Counter(threads=0), gh.InvalidArgument, "threads=0"),
        (lambda: gh.Counter("no type"), TypeError, "no type"),
        (lambda: gh.Counter(["a"]).most_common(-1), gh.InvalidArgument, "n=-1 is out of range"),
        (lambda: gh.Counter(["a"]).get([5]), TypeError, "keys: the column is int64 here and text there"),
    ],
)
def test_wrong_input(make, error, words):
    with pytest.raises(error, match=words):
        make()
