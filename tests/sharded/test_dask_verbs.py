"""Verbs on collections of Dask, against pandas; each task may run twice, on other workers, and workers may die."""

from __future__ import annotations

import os
import pickle
import random
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

dask = pytest.importorskip("dask", reason="dask is not installed")
pd = pytest.importorskip("pandas", reason="pandas is not installed")
dd = pytest.importorskip("dask.dataframe", reason="dask.dataframe is not installed")

import dask.array as da  # noqa: E402

import pygpuhash as gh  # noqa: E402
import pygpuhash.dask as ghd  # noqa: E402
from pygpuhash import _dask_tasks  # noqa: E402


@pytest.fixture(autouse=True)
def here():
    """Tasks run in this thread, where a test does not say otherwise."""
    with dask.config.set(scheduler="synchronous"):
        yield


def frame_of(n=500, seed=1):
    random_ = np.random.default_rng(seed)
    words = np.array(["a", "bb", "", "ccc" * 9, "é", None], object)
    return pd.DataFrame(
        {
            "n": random_.integers(0, 40, n),
            "w": pd.Series(words[random_.integers(0, 6, n)], dtype="string[pyarrow]"),
            "x": random_.integers(-9, 9, n),
            "f": random_.random(n),
        }
    )


FRAME = frame_of()
SHARDS = [None, 3]


def dask_frame(parts=4, frame=FRAME):
    return dd.from_pandas(frame, npartitions=parts)


def rows(frame):
    """The rows of a frame as text that compares; floats to ten digits."""
    return sorted(
        repr([None if x is pd.NA or x != x else round(x, 10) if isinstance(x, float) else x for x in row])
        for row in frame.astype(object).itertuples(index=False, name=None)
    )


def agree(found, wanted):
    """A collection and a frame have the same rows, dtypes and names, and its parts are as its meta says."""
    assert [str(d) for d in found.dtypes] == [str(d) for d in found.compute().dtypes]
    computed = found.compute()
    assert list(computed.columns) == list(wanted.columns)
    assert rows(computed) == rows(wanted)


@pytest.mark.parametrize("shards", SHARDS)
@pytest.mark.parametrize("name", ["n", "w"])
def test_value_counts_unique_and_nunique(name, shards):
    column = dask_frame()[name]
    wanted = FRAME[name].value_counts(dropna=False).reset_index()
    agree(ghd.value_counts(column, shards=shards), wanted)
    found = ghd.unique(column, shards=shards)
    assert found.dtype == FRAME[name].dtype
    assert found.name == name
    assert rows(found.compute().to_frame()) == rows(wanted[[name]])
    assert ghd.nunique(column, shards=shards).compute() == len(wanted)
    assert ghd.nunique(column, shards=shards, nulls="drop").compute() == FRAME[name].nunique()


@pytest.mark.parametrize("shards", [1, 129, 257])
def test_more_shards_than_keys(shards):
    column = dask_frame(2)["n"]
    assert ghd.unique(column, shards=shards).npartitions == shards
    agree(ghd.value_counts(column, shards=shards), FRAME["n"].value_counts().reset_index())


def test_more_shards_than_keys_of_other_verbs():
    frame, column, shards = dask_frame(2), dask_frame(2)["n"], 65
    agree(ghd.drop_duplicates(frame, "n", shards=shards), FRAME.drop_duplicates("n"))
    means = FRAME.groupby("n")["f"].mean().rename("f").reset_index()
    agree(ghd.group_by(frame, "n", {"f": ("mean", "f")}, shards=shards), means)
    codes, distinct = ghd.factorize(column, shards=shards)
    assert distinct.compute().iloc[codes.compute()].tolist() == FRAME["n"].tolist()


@pytest.mark.parametrize("rows", [0, 3])
@pytest.mark.parametrize("shards", [1, 3])
def test_parts_without_rows(rows, shards):
    """All parts, or all but one."""
    few = FRAME.assign(number=range(len(FRAME)))
    frame = dd.from_pandas(few, npartitions=4).query(f"number < {rows}")
    few = few[:rows]
    assert set(frame.map_partitions(len).compute()) == {0, rows}
    aggregates = {"rows": "count", "mean": ("mean", "f"), "low": ("min", "x"), "kinds": ("nunique", "w")}
    wanted = few.groupby("n").agg(
        rows=("x", "size"), mean=("f", "mean"), low=("x", "min"), kinds=("w", lambda w: w.nunique(dropna=False))
    )
    agree(ghd.group_by(frame, "n", aggregates, shards=shards), wanted.astype({"kinds": "int64"}).reset_index())
    agree(ghd.value_counts(frame["w"], shards=shards), few["w"].value_counts(dropna=False).reset_index())
    agree(ghd.drop_duplicates(frame, ["n", "w"], shards=shards), few.drop_duplicates(["n", "w"]))
    agree(ghd.join(frame, FRAME[["n", "f"]], "n"), few.merge(FRAME[["n", "f"]], "inner", "n"))
    assert ghd.nunique(frame["n"], shards=shards).compute() == few["n"].nunique()
    assert ghd.isin(frame["n"], [1, 2]).compute().equals(few["n"].isin([1, 2]))
    assert ghd.isin(dask_frame()["n"], frame["n"]).compute().equals(FRAME["n"].isin(few["n"]))
    codes, distinct = ghd.factorize(frame["n"], shards=shards)
    assert distinct.compute().iloc[codes.compute()].tolist() == few["n"].tolist()


@pytest.mark.parametrize("shards", SHARDS)
def test_group_by_several_columns_and_aggregates(shards):
    aggregates = {
        "rows": "count",
        "total": ("sum", "x"),
        "low": ("min", "f"),
        "high": ("max", "x"),
        "mean": ("mean", "f"),
        "kinds": ("nunique", "n"),
    }
    wanted = FRAME.groupby(["n", "w"], dropna=False).agg(
        rows=("x", "size"), total=("x", "sum"), low=("f", "min"), high=("x", "max"),
        mean=("f", "mean"), kinds=("n", "nunique"),
    )  # fmt: skip
    agree(ghd.group_by(dask_frame(), ["n", "w"], aggregates, shards=shards), wanted.reset_index())
    first = ghd.group_by(dask_frame(), "n", {"first": ("first", "w")}, shards=shards)
    agree(first, FRAME.groupby("n")["w"].apply(lambda w: w.iloc[0]).rename("first").reset_index())


@pytest.mark.parametrize("op", ["sum", "min", "max", "mean", "count", "nunique"])
def test_group_reduce(op):
    wanted = FRAME.groupby("n")["f"].agg(op).rename(op).reset_index()
    agree(ghd.group_reduce(dask_frame()["n"], dask_frame()["f"], op, shards=2), wanted)


@pytest.mark.parametrize("shards", SHARDS)
@pytest.mark.parametrize("name", ["n", "w"])
def test_factorize_gives_codes_of_all_parts(name, shards):
    codes, distinct = ghd.factorize(dask_frame()[name], shards=shards)
    numbers, keys = codes.compute(), distinct.compute()
    assert numbers.dtype == np.int64
    assert numbers.index.equals(FRAME.index)
    assert codes.divisions == dask_frame().divisions
    assert sorted(set(numbers)) == list(range(len(keys)))
    assert keys.iloc[numbers].reset_index(drop=True).equals(FRAME[name])
    dropped, _ = ghd.factorize(dask_frame()[name], shards=shards, nulls="drop")
    assert (dropped.compute() == -1).equals(FRAME[name].isna())


def test_isin():
    column = dask_frame()["n"]
    for among in (
        [3, 5, 99],
        np.array([3, 5, 99]),
        pd.Series([3, 5]),
        dd.from_pandas(pd.Series([3, 5, 5, 99]), npartitions=2),
    ):
        found = ghd.isin(column, among)
        assert found.dtype == bool
        pd.testing.assert_series_equal(found.compute(), FRAME["n"].isin([3, 5, 99]))
    assert ghd.isin(dask_frame()["w"], ["é", None]).compute().equals(FRAME["w"].isin(["é", None]))


@pytest.mark.parametrize("how", ["inner", "left"])
@pytest.mark.parametrize("lazy", [False, True])
def test_join(how, lazy):
    right = pd.DataFrame(
        {"n": [3, 5, 5, 99], "x": [1, 2, 3, 4], "name": pd.Series(["t", "f", "g", "no"], dtype="string[pyarrow]")}
    )
    other = dd.from_pandas(right, npartitions=2) if lazy else right
    agree(ghd.join(dask_frame(), other, "n", how), FRAME.merge(right, "left" if how == "left" else "inner", "n"))
    two = right.rename(columns={"x": "k"}).assign(w=right["name"].replace("t", "a"))[["n", "w", "k"]]
    agree(ghd.join(dask_frame(), two, ["n", "w"], how), FRAME.merge(two, how, ["n", "w"]))


def test_joins_of_several_columns_in_one_process():
    """Each has an index of its own."""
    for lazy in (False, True):
        for keys in ([3, 5], [3], [7, 7]):
            right = pd.DataFrame({"n": keys, "z": range(len(keys))})
            other = dd.from_pandas(right, npartitions=1) if lazy else right
            agree(ghd.join(dask_frame(), other, "n"), FRAME.merge(right, "inner", "n"))


def test_drop_duplicates_keeps_first_rows():
    agree(ghd.drop_duplicates(dask_frame(), "n", shards=3), FRAME.drop_duplicates("n"))
    agree(ghd.drop_duplicates(dask_frame(), ["n", "w"]), FRAME.drop_duplicates(["n", "w"]))
    agree(ghd.drop_duplicates(dask_frame()[["n", "w"]]), FRAME[["n", "w"]].drop_duplicates())


def test_arrays():
    numbers = FRAME["n"].to_numpy()
    array = da.from_array(numbers, chunks=130)
    assert sorted(ghd.unique(array).compute().tolist()) == sorted(set(numbers.tolist()))
    keys, counts = ghd.value_counts(array, shards=3)
    found = dict(zip(keys.compute().tolist(), counts.compute().tolist(), strict=True))
    assert found == FRAME["n"].value_counts().to_dict()
    keys, sums = ghd.group_reduce(array, array * 2, shards=3)
    assert keys.dtype == sums.dtype == np.int64
    codes, distinct = ghd.factorize(array)
    assert codes.chunks == array.chunks
    assert distinct.compute()[codes.compute()].tolist() == numbers.tolist()
    assert ghd.isin(array, [3, 5]).compute().tolist() == np.isin(numbers, [3, 5]).tolist()


def test_delayed_columns_of_polars_and_arrow():
    pl, pa = (pytest.importorskip(name, reason=f"{name} is not installed") for name in ("polars", "pyarrow"))
    for kind, listed in ((pl.Series, list), (pa.array, lambda a: a.to_pylist())):
        parts = [dask.delayed(kind)(words) for words in (["a", None, "b"], ["b", "c"], ["c"])]
        found = [word for part in dask.compute(*ghd.unique(parts, shards=2)) for word in listed(part)]
        assert sorted(found, key=str) == ["None", "a", "b", "c"] or set(found) == {None, "a", "b", "c"}
        pairs = dask.compute(*ghd.value_counts(parts, shards=2))
        counts = {word: n for keys, own in pairs for word, n in zip(listed(keys), own.tolist(), strict=True)}
        assert counts == {"a": 1, None: 1, "b": 2, "c": 2}
        assert ghd.nunique(parts).compute() == 4


def test_parts_without_rows_and_of_other_widths():
    parts = [dask.delayed(np.array)(x, d) for x, d in (([], "i8"), ([1, 2], "i4"), ([2, 3], "i8"), ([], "i8"))]
    assert sorted(k for part in dask.compute(*ghd.unique(parts, shards=5)) for k in part.tolist()) == [1, 2, 3]
    mixed = [dask.delayed(np.array)([1, 2], d) for d in ("i8", "f8")]
    with pytest.raises(TypeError, match=r"keys of partials\[1\] has type float64, keys of partials\[0\] int64"):
        dask.compute(*ghd.unique(mixed, shards=2))
    few = dask_frame(2).query("n < 0")
    assert ghd.nunique(few["n"]).compute() == 0
    assert len(ghd.value_counts(few["w"]).compute()) == 0


@pytest.mark.parametrize(
    ("parts", "shards", "fan"),
    [
        (1, 1, 1),
        (20, 5, 1),
        (50, 5, 1),
        (51, 5, 2),
        (100, 16, 7),
        (1000, 2, 8),
        (100, 64, 4),
        (400, 64, 13),
        (3, 3000, 5),
    ],
)
def test_how_many_neighbours_are_merged(parts, shards, fan):
    """Down to 250 pieces, but no more than the parts of a shard; and always down to 2,000."""
    assert ghd._fan(parts, shards) == fan


def test_many_parts_do_not_make_many_tasks(monkeypatch):
    wanted = FRAME["n"].value_counts().reset_index()
    few = ghd.value_counts(dask_frame(100)["n"], shards=8)
    assert sum(str(key).startswith("item") for key in few.__dask_graph__()) == 25 * 8
    agree(few, wanted)
    column = dask_frame(20)["n"]
    monkeypatch.setattr(ghd, "MOST_TASKS", 30)
    found = ghd.value_counts(column, shards=8)
    assert len(dict(found.__dask_graph__())) < 20 * 8
    agree(found, wanted)
    monkeypatch.setattr(ghd, "FEW_TASKS", 1)
    agree(ghd.value_counts(column, shards=2), wanted)
    first = ghd.group_by(dask_frame(20), "n", {"first": ("first", "x")}, shards=2)
    agree(first, FRAME.drop_duplicates("n")[["n", "x"]].rename(columns={"x": "first"}))
    codes, distinct = ghd.factorize(column)
    assert distinct.compute().iloc[codes.compute()].tolist() == FRAME["n"].tolist()


def test_files_that_dask_reads_together(tmp_path):
    """Of narrow columns of wide files Dask makes fewer parts, each column its own number of them."""
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    wide = FRAME.assign(**{f"wide {i}": f"{i}" * 100 for i in range(9)})
    for name, frame in (("a", wide), ("b", FRAME[["x"]])):
        (tmp_path / name).mkdir()
        for i in range(10):
            frame[i * 50 : i * 50 + 50].to_parquet(tmp_path / name / f"{i}.parquet")
    files, others = dd.read_parquet(tmp_path / "a"), dd.read_parquet(tmp_path / "b")
    together = [column.optimize().npartitions for column in (files["n"], files["wide 3"], others["x"])]
    assert together[0] < 8 < files.npartitions == 10 == together[2]
    assert ghd.unique(files["n"]).npartitions == 1  # a fourth of what is read
    codes, distinct = ghd.factorize(files["n"])
    assert distinct.compute().iloc[codes.compute()].tolist() == FRAME["n"].tolist()
    assert ghd.isin(files["n"], [3, 5]).compute().tolist() == FRAME["n"].isin([3, 5]).tolist()
    agree(ghd.value_counts(files["n"], shards=2), FRAME["n"].value_counts().reset_index())
    sums = FRAME.groupby("n")["x"].sum().rename("sum").reset_index()
    for values in (files["x"], others["x"], files["x"] + 0):
        agree(ghd.group_reduce(files["n"], values, shards=2), sums)
    found = ghd.group_reduce(files["n"], da.from_array(FRAME["x"].to_numpy(), chunks=50), shards=2)
    agree(found, sums)
    kinds = wide.groupby("n")["wide 3"].nunique().rename("nunique").reset_index()
    agree(ghd.group_reduce(files["n"], files["wide 3"], "nunique"), kinds)


def test_columns_that_a_group_by_does_not_need_are_not_read(monkeypatch):
    seen, start = set(), _dask_tasks.start_frame
    monkeypatch.setattr(
        _dask_tasks, "start_frame", lambda frame, **how: seen.update(frame.columns) or start(frame, **how)
    )
    aggregates = {"rows": "count", "x": ("sum", "x"), "high": ("max", "x"), "same": ("max", "n")}
    wanted = FRAME.groupby("n").agg(rows=("x", "size"), x=("x", "sum"), high=("x", "max"), same=("n", "max"))
    agree(ghd.group_by(dask_frame(), "n", aggregates), wanted.reset_index())
    assert seen == {"n", "x"}


# ---- what runs twice, and what is lost -------------------------------------------------------------------------------


class Twice:
    """A task that a system runs again: both results are equal, and one is thrown away."""

    def __init__(self, function):
        self.function = function

    def __call__(self, *given):
        results = [self.function(*pickle.loads(pickle.dumps(given))), self.function(*given)]
        assert repr(results[0]) == repr(results[1])
        return random.choice(results)


def every_verb(frame):
    codes, distinct = ghd.factorize(frame["w"], shards=3)
    return [
        ghd.value_counts(frame["n"], shards=3),
        ghd.unique(frame["w"], shards=3),
        ghd.group_reduce(frame["n"], frame["f"], shards=3),
        ghd.group_by(frame, ["w"], {"s": ("sum", "f"), "k": ("nunique", "n"), "f": ("first", "x")}, shards=2),
        codes,
        distinct,
        ghd.isin(frame["n"], [1, 2]),
        ghd.join(frame, FRAME[["n", "x"]].drop_duplicates("n"), "n"),
        ghd.drop_duplicates(frame, "n", shards=3),
    ]


def test_every_task_may_run_twice(monkeypatch):
    wanted = dask.compute(*every_verb(dask_frame()))
    call, each = ghd._call, ghd._Given.each
    monkeypatch.setattr(ghd, "_call", lambda function, *given: call(Twice(function), *given))
    monkeypatch.setattr(ghd._Given, "each", lambda self, function, *beside: each(self, Twice(function), *beside))
    random.seed(7)
    for found, one in zip(dask.compute(*every_verb(dask_frame())), wanted, strict=True):
        assert found.equals(one)


def slowly(part):
    time.sleep(0.05)
    return part


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_a_worker_is_killed(seed):
    distributed = pytest.importorskip("distributed", reason="distributed is not installed")
    frame = frame_of(20_000)
    wanted = dask.compute(*every_verb(dask_frame(12, frame)))
    random.seed(seed)
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 20}),
        distributed.LocalCluster(n_workers=2, threads_per_worker=2, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        parts = dask_frame(12, frame).map_partitions(slowly, meta=frame.iloc[:0])
        victim = client.run(os.getpid)
        timer = threading.Timer(
            random.uniform(0.1, 1.0), os.kill, (random.choice(list(victim.values())), signal.SIGKILL)
        )
        timer.start()
        found = client.gather(client.compute(every_verb(parts)))
        timer.join()
    for one, other in zip(found, wanted, strict=True):
        assert one.equals(other)


def test_one_index_in_a_process(monkeypatch):
    """All tasks of a process look up in one index; of many columns the last few are kept."""
    made = []
    index = _dask_tasks.Index
    monkeypatch.setattr(_dask_tasks, "Index", lambda *given, **how: made.append(1) or index(*given, **how))
    _dask_tasks.indexes.clear()
    with dask.config.set(scheduler="threads"):
        ghd.isin(dask_frame(8)["n"], [1, 2, 3]).compute()
    assert len(made) == 1
    for i in range(6):
        ghd.isin(dask_frame(2)["n"], [i]).compute()
    assert len(_dask_tasks.indexes) <= _dask_tasks.KEPT


# ---- what is refused -------------------------------------------------------------------------------------------------


def test_what_is_refused():
    frame = dask_frame()
    for call, error, message in [
        (lambda: ghd.unique(FRAME["n"]), TypeError, "keys is a Series: pass a collection of dask"),
        (lambda: ghd.unique(da.zeros((4, 4))), ValueError, "keys has 2 dimensions"),
        (lambda: ghd.unique([]), TypeError, "keys is a list"),
        (lambda: ghd.unique(frame["n"], shards=0), gh.InvalidArgument, "shards=0 is out of range"),
        (lambda: ghd.group_by(frame, "z", {}), gh.InvalidArgument, "the frame has no column 'z': it has"),
        (lambda: ghd.group_by(frame, "n", {"a": ("sum", "z")}), gh.InvalidArgument, "no column 'z'"),
        (lambda: ghd.group_by(frame, "n", {"a": ("median", "x")}), gh.InvalidArgument, "aggregate 'a' is"),
        (lambda: ghd.group_by(frame["n"], "n", {}), TypeError, "frame is a Series"),
        (lambda: ghd.group_reduce(frame["n"], dask_frame(2)["x"]), ValueError, "values have 2 parts, keys 4"),
        (lambda: ghd.group_reduce(frame["n"], frame["x"], "median"), gh.InvalidArgument, "op='median' is none of"),
        (lambda: ghd.join(frame, FRAME, "n", "outer"), gh.InvalidArgument, "how='outer'"),
        (lambda: ghd.join(frame, FRAME[["x"]], "n"), gh.InvalidArgument, "right has no column 'n'"),
        (lambda: ghd.drop_duplicates(frame, "z"), gh.InvalidArgument, "no column 'z'"),
        (lambda: ghd.drop_duplicates(frame, []), gh.InvalidArgument, "subset is empty: pass the name of a column"),
        (lambda: ghd.group_by(frame, [], {"rows": "count"}), gh.InvalidArgument, "by is empty: pass the name"),
        (lambda: ghd.group_by(frame, "n", {"n": "count"}), gh.InvalidArgument, "aggregate 'n' has the name of a col"),
        (lambda: ghd.join(frame, FRAME, []), gh.InvalidArgument, "on is empty: pass the name of a column"),
    ]:
        with pytest.raises(error, match=message):
            call()


def test_workers_with_another_version_are_refused(monkeypatch):
    """Tasks carry the versions of the client; here the process that runs them becomes another one."""
    frame, column = dask_frame(), dask_frame()["n"]
    lazy = [
        ghd.nunique(column, shards=2),
        ghd.factorize(column, shards=2)[0],
        ghd.unique(column, shards=1),
        ghd.value_counts(dask_frame(400)["n"], shards=10),  # neighbours are merged first
        ghd.group_by(frame, "n", {"x": ("sum", "x")}, shards=1),
        ghd.group_reduce(da.from_array(FRAME["n"].to_numpy(), chunks=130), da.zeros(500, chunks=130))[1],
        ghd.drop_duplicates(frame, "n", shards=1),
        ghd.isin(column, [1]),
        ghd.join(frame, FRAME[["n", "x"]], "n"),
    ]
    for other in (("9.9.9", _dask_tasks.VERSIONS[1]), (_dask_tasks.VERSIONS[0], 2)):
        monkeypatch.setattr(_dask_tasks, "VERSIONS", other)
        for one in lazy:
            with pytest.raises(gh.Unsupported, match="install one version everywhere"):
                one.compute()


def test_the_package_does_not_import_dask():
    code = (
        "import sys, pygpuhash; assert not [m for m in sys.modules if m.partition('.')[0] in ('dask', 'distributed')]"
    )
    subprocess.run([sys.executable, "-P", "-c", code], check=True)
