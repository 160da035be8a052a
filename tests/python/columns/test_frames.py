"""Columns and frames of pandas and polars: Series in, Series out."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from decimal import Decimal

import numpy as np
import pytest
from oracle import chunks, engine_keys, kind, values

import pygpuhash as gh
from pygpuhash import _verb_inputs, verbs
from pygpuhash.columns import _engine, read


@pytest.fixture
def pd():
    return pytest.importorskip("pandas", reason="pandas is not installed")


@pytest.fixture
def pl():
    return pytest.importorskip("polars", reason="polars is not installed")


def back(given):
    column = read(given, "keys")
    return column.give(engine_keys(column))


# ---- pandas ----------------------------------------------------------------------------------------------------------


def pandas_columns(pd):
    text = ["b", "a\0", None, "b"]
    zone = pd.date_range("2020-10-25", periods=3, freq="30min", tz="Europe/Berlin").append(
        pd.DatetimeIndex([None], tz="Europe/Berlin")
    )
    return {
        "int8": pd.Series([1, 2, 1], dtype="int8"),
        "float": pd.Series([0.5, np.nan, 0.5]),
        "bool": pd.Series([True, False, True]),
        "times": pd.Series(np.array(["2020-01-01", "NaT"], "M8[s]")),
        "lengths": pd.Series(np.array([1, 2, 1], "m8[ns]")),
        "zone": pd.Series(zone),
        "offset": pd.Series([dt.datetime(2020, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=-5)))]),
        "objects": pd.Series(text, dtype=object),
        "decimals": pd.Series([Decimal("1.5"), None], dtype=object),
        "str": pd.Series(text),
        "string": pd.Series(text, dtype="string"),
        "python string": pd.Series(text, dtype=pd.StringDtype("python")),
        "Int64": pd.Series([2**60 + 1, None, 2**60], dtype="Int64"),
        "UInt8": pd.Series([1, None, 255], dtype="UInt8"),
        "Float32": pd.Series([0.1, None], dtype="Float32"),
        "boolean": pd.Series([True, None, False], dtype="boolean"),
        "category": pd.Series(text, dtype="category"),
        "ordered": pd.Series(pd.Categorical([3, None, 0], categories=[0, 2, 3], ordered=True)),
        "category of times": pd.Series(zone).astype("category"),
        "category of objects": pd.Series(pd.Categorical(["a", "b"], categories=pd.Index(["b", "a"], dtype=object))),
        "no categories": pd.Series(pd.Categorical([None, None], categories=[])),
        "arrow": pd.Series([1, None], dtype="int32[pyarrow]"),
        "arrow text": pd.Series(text, dtype="string[pyarrow]"),
    }


@pytest.mark.parametrize(
    "name",
    [
        "int8", "float", "bool", "times", "lengths", "zone", "offset", "objects", "decimals", "str", "string",
        "python string", "Int64", "UInt8", "Float32", "boolean", "category", "ordered", "category of times",
        "category of objects", "no categories", "arrow", "arrow text",
    ],
)  # fmt: skip
def test_series_in_series_out(pd, name):
    given = pandas_columns(pd)[name].rename("n")
    given.index = given.index + 7
    for column in (given, given.iloc[:0], given.iloc[::-1]):
        want = pd.Series(column.unique(), dtype=column.dtype, name="n").reset_index(drop=True)
        got = back(column)
        pd.testing.assert_series_equal(got, want)
        assert type(got.index) is pd.RangeIndex
        assert [x is None for x in values(read(column, "keys"))] == [bool(x) for x in column.isna()] or name == "float"


@pytest.mark.parametrize("name", ["int8", "str", "zone", "category", "Int64", "objects", "arrow", "times"])
def test_indexes_and_arrays_come_back_as_they_are(pd, name):
    series = pandas_columns(pd)[name]
    index = pd.Index(series, name="n")
    got = back(index)
    assert type(got) is type(index)
    pd.testing.assert_index_equal(got, index.unique())
    if not isinstance(series.dtype, np.dtype):
        got = back(series.array)
        assert type(got) is type(series.array)
        assert got.dtype == series.dtype


def test_an_index_of_several_levels(pd):
    given = pd.MultiIndex.from_tuples(
        [(2**60 + 1, "a"), (2**60, None), (2**60 + 1, "a"), (None, "b")], names=["p", None]
    )
    rows = values(read(given[:2], "keys"))
    assert rows[0] == (int(given[0][0]), "a")
    ints = pd.MultiIndex(levels=[[2**60, 2**60 + 1], ["a"]], codes=[[1, -1, 0, 1], [0, 0, -1, 0]], names=["p", "p"])
    assert values(read(ints, "keys")) == [(2**60 + 1, "a"), (None, "a"), (2**60, None), (2**60 + 1, "a")]
    got = back(ints)
    assert got.equals(ints[:3])
    assert got.names == ["p", "p"]
    assert back(given).equals(given.unique())


def test_frames_are_rows(pd):
    given = pd.DataFrame(
        {"a": [1, 1, 1], "b": ["x", "x", None], 3: pd.array([2**60 + 1, 2**60 + 1, None], dtype="Int64")}
    )
    given[4] = pd.Categorical(["u", "u", "v"])
    given.columns = ["a", "a", 3, ("t", 1)]
    assert values(read(given, "keys")) == [(1, "x", 2**60 + 1, "u"), (1, "x", 2**60 + 1, "u"), (1, None, None, "v")]
    pd.testing.assert_frame_equal(back(given), given.drop_duplicates().reset_index(drop=True))
    pd.testing.assert_frame_equal(back(given[:0]), given[:0].reset_index(drop=True), check_index_type=False)
    with pytest.raises(TypeError, match="without columns"):
        read(pd.DataFrame(index=[1, 2]), "keys")


def test_integers_and_floats_of_a_frame_stay_what_they_are(pd):
    given = pd.DataFrame({"a": [2**53, 2**53 + 1], "b": [0.5, 0.5]})
    assert len(set(values(read(given, "keys")))) == 2
    assert back(given).dtypes.tolist() == given.dtypes.tolist()


def test_what_pandas_has_and_columns_lack_is_refused(pd):
    for given, words in (
        (pd.Series(pd.period_range("2020", periods=2)), r"period\[D\].*keys.dt.to_timestamp"),
        (pd.Series(pd.interval_range(0, 2)), r"interval.*keys.array.left"),
        (pd.interval_range(0, 2), "interval"),
        (pd.Series([1, 0], dtype="Sparse[int]"), "to_dense"),
        (pd.Series([1, "1"]), r"keys\[0\] is of kind int, keys\[1\] of kind str"),
        (pd.DataFrame({"a": [1], "b": [[1]]}), r"keys\['b'\]\[0\] is a list"),
        (pd.Series(pd.Categorical(pd.period_range("2020", periods=2))), "the categories of keys|keys has dtype period"),
        (pd.Series([1, [2]], dtype=object), r"keys\[1\] is a list"),
    ):
        with pytest.raises(TypeError, match=words):
            read(given, "keys")


@pytest.mark.parametrize("dtype", ["Int64", "UInt8", "Float64", "boolean"])
def test_long_columns_of_nullable_numbers(pd, dtype):
    """So long that a table takes them, which gives numpy's arrays of keys."""
    given = pd.Series(np.arange(1 << 14) % 2, name="n").astype(dtype)
    distinct = gh.unique(given, order="first")
    pd.testing.assert_series_equal(distinct, given[:2])
    codes, again = gh.factorize(given)
    pd.testing.assert_series_equal(again, distinct)
    assert codes.tolist() == given.astype(int).tolist()


def test_memory_of_pandas_is_shared(pd):
    numbers = np.arange(10)
    assert chunks(read(pd.Series(numbers, copy=False), "keys"))[0].buffers()[1].address == numbers.ctypes.data
    nullable = pd.array(numbers, dtype="Int64")
    assert chunks(read(nullable, "keys"))[0].buffers()[1].address == np.asarray(nullable._data).ctypes.data
    category = pd.Categorical.from_codes(np.zeros(10, "i1"), ["a"])
    assert chunks(read(category, "keys"))[0].indices.buffers()[1].address == category.codes.ctypes.data
    moments = pd.Series(pd.date_range("2020", periods=3, tz="UTC"))
    assert chunks(read(moments, "keys"))[0].buffers()[1].address == moments.array.asi8.ctypes.data


def test_times_with_a_zone_are_instants(pd):
    assert (
        str(kind(read(pd.Series(pd.date_range("2020", periods=2, tz="Asia/Tokyo", unit="s")), "keys")))
        == "timestamp[s, tz=UTC]"
    )
    assert str(kind(read(pd.Series(pd.date_range("2020", periods=2, unit="s")), "keys"))) == "timestamp[s]"


def test_a_dictionary_keeps_its_categories_once(pd):
    given = pd.Series(["x" * 100, "y"] * 1000, dtype="category")
    (chunk,) = chunks(read(given, "keys"))
    assert len(chunk.dictionary) == 2
    assert chunk.indices.type == "int8"


def test_numbers_for_pandas(pd):
    given = pd.Series([1, 2, 1], index=[5, 6, 7], name="n")
    column = read(given, "keys")
    mask, codes, counts = np.array([True, False, True]), np.array([0, 1, 0]), np.array([2, 1])
    pd.testing.assert_series_equal(column.give_numbers(mask, True), given.isin([1]))
    assert type(column.give_numbers(codes, True)) is type(given.factorize()[0])
    got = column.give_numbers(counts, False)
    assert got.name == given.value_counts().name == "count"
    assert got.tolist() == [2, 1]
    frame = given.to_frame()
    assert read(frame, "keys").give_numbers(mask, True).index.tolist() == [5, 6, 7]
    for index in (pd.Index([1, 2, 1]), pd.array([1, 2, 1])):
        assert type(read(index, "keys").give_numbers(mask, True)) is np.ndarray


OLD = """
import sys
sys.modules["pyarrow"] = None
import pandas as pd
from pygpuhash.columns import View, read, _buffers
assert "pyarrow" not in {k for k, v in sys.modules.items() if v}

class Keys:
    def __init__(self, column):
        self.column = column
    def __arrow_c_array__(self, requested_schema=None):
        n = self.column.length
        schema = _buffers.schema("+s", children=[self.column.schema], names=["x"])
        return schema, _buffers.array(n, (None,), children=[_buffers.sliced(self.column.chunks[0], 0, n)])

for given in (
    pd.Series(["b", "a\\0", None], name="n"), pd.Series(["b", None], dtype="string"),
    pd.Series(["b", None], dtype=object), pd.Series([1, None], dtype="Int64"),
    pd.Series(pd.date_range("2020", periods=2, tz="UTC")), pd.Series([1.5, 2.5]),
):
    column = read(given, "keys")
    pd.testing.assert_series_equal(column.give(View(Keys(column)).child(0)), given)
category = pd.Series(["b", None, "a"], dtype="category")
assert _buffers.describe(read(category, "keys").schema)[3][0] == "U"
print(pd.Series(["a"]).dtype)
"""


def test_pandas_without_pyarrow(pd):
    done = subprocess.run([sys.executable, "-P", "-c", OLD], capture_output=True, text=True)
    assert done.stdout.strip() in ("str", "object"), done.stderr


# ---- polars ----------------------------------------------------------------------------------------------------------


def polars_columns(pl):
    text = ["b", "a\0", None, "b", "x" * 50]
    return {
        "Int8": pl.Series([1, None, 1], dtype=pl.Int8),
        "UInt64": pl.Series([2**64 - 1, 0], dtype=pl.UInt64),
        "Float32": pl.Series([0.5, None, 0.5], dtype=pl.Float32),
        "Boolean": pl.Series([True, None, False] * 5),
        "String": pl.Series(text),
        "Binary": pl.Series([b"\x99", b"\x99\0", None]),
        "Categorical": pl.Series(text, dtype=pl.Categorical),
        "Enum": pl.Series(["b", None, "a"], dtype=pl.Enum(["c", "b", "a"])),
        "Date": pl.Series([dt.date(2020, 1, 1), None]),
        "Datetime": pl.Series([dt.datetime(2020, 1, 1), None], dtype=pl.Datetime("ms")),
        "zone": pl.Series([dt.datetime(2020, 1, 1), None], dtype=pl.Datetime("ns", "Europe/Berlin")),
        "Duration": pl.Series([dt.timedelta(1), None], dtype=pl.Duration("us")),
        "Time": pl.Series([dt.time(1, 2, 3, 4), None]),
        "Decimal": pl.Series([Decimal("1.50"), None], dtype=pl.Decimal(20, 2)),
        "Null": pl.Series([None, None]),
        "Struct": pl.Series([{"a": 1, "b": "x"}, {"a": 1, "b": None}, {"a": 1, "b": "x"}]),
        "Struct of Categorical": pl.DataFrame({"a": pl.Series(["u", "v"], dtype=pl.Categorical)}).to_struct(),
    }


@pytest.mark.parametrize(
    "name",
    [
        "Int8", "UInt64", "Float32", "Boolean", "String", "Binary", "Categorical", "Enum", "Date", "Datetime", "zone",
        "Duration", "Time", "Decimal", "Null", "Struct", "Struct of Categorical",
    ],
)  # fmt: skip
def test_polars_series_in_series_out(pl, name):
    given = polars_columns(pl)[name].alias("n")
    for column in (given, given[:0], given[1:], pl.concat([given, given[:1]], rechunk=False)):
        got = back(column)
        assert got.dtype == given.dtype
        assert got.name == "n"
        assert got.to_list() == column.unique(maintain_order=True).to_list()


def test_chunks_of_polars_stay_chunks(pl):
    given = pl.concat([pl.Series(["a", "b"]), pl.Series(["c"])], rechunk=False)
    column = read(given, "keys")
    assert given.n_chunks() == len(column.chunks) == 2
    assert values(column) == ["a", "b", "c"]


def test_polars_frames_are_rows(pl):
    given = pl.DataFrame({"a": [2**53, 2**53 + 1, 2**53], "b": [0.5, 1.0, 0.5], "c": ["x", None, "x"]})
    assert values(read(given, "keys")) == given.rows()
    assert back(given).equals(given.unique(maintain_order=True))
    assert back(given.select("c")).equals(given.select("c").unique(maintain_order=True))


def test_what_polars_has_and_columns_lack_is_refused(pl):
    for given, words in (
        (pl.Series([[1]]), "keys is a column of list, .*pass a struct"),
        (pl.Series([[1, None]], dtype=pl.Array(pl.Int64, 2)), "list of fixed size, .*pass a struct"),
        (pl.Series([{"a": [1]}]), r"keys\.a is a column of list"),
        (pl.DataFrame({"a": [1]}).lazy(), r"LazyFrame of polars, .*keys\.collect\(\)"),
        (pl.Series([object()]), "dtype Object of polars"),
        (pl.Series([1], dtype=pl.Int128), "_pli128"),
        (pl.DataFrame(), "without columns"),
        (pl.col("a"), "Expr of polars"),
    ):
        with pytest.raises(TypeError, match=words):
            read(given, "keys")


def test_numbers_for_polars(pl):
    column = read(pl.Series("n", ["a", "b"]), "keys")
    assert column.give_numbers(np.array([True, False]), True).equals(pl.Series("n", [True, False]), check_names=True)
    assert column.give_numbers(np.array([1, 1]), False).equals(pl.Series("count", [1, 1]), check_names=True)


def test_the_type_of_a_categorical_is_a_dictionary(pl):
    assert str(kind(read(pl.Series(["a"], dtype=pl.Categorical), "keys"))).startswith("dictionary<values=string_view")


def test_results_of_verbs_are_named_by_what_they_are(pd, pl):
    for library in (pd, pl):
        keys, values = library.Series(["a", "b", "a"]), library.Series([1, 2, 4])
        for op in ("sum", "min", "max", "mean", "count"):
            assert gh.group_reduce(keys, values, op)[1].name == op
        assert [indices.name for indices in gh.join_indexer(keys, keys)] == ["left", "right"]


def test_the_row_of_a_null_counts_over_all_chunks(pl):
    chunks = pl.concat([pl.Series([1, 2]), pl.Series([3, None])], rechunk=False)
    assert chunks.n_chunks() == 2
    with pytest.raises(TypeError, match=r"^keys: row 3 is null"):
        gh.unique(chunks, nulls="refuse")
    was = _engine.piece(1000)
    try:
        with pytest.raises(TypeError, match=r"^keys: row 2500 is null"):
            gh.unique(pl.Series([*range(2500), None]), nulls="refuse")
    finally:
        _engine.piece(was)


@pytest.mark.parametrize("nulls", ["group", "drop"])
@pytest.mark.parametrize(
    ("categories", "coded"),
    [
        (["b", "", "a\0", "ü"], True),
        ([3, -1, 2**40], True),
        ([0.5, -0.0, np.inf], True),
        (np.array([5, 0, 7], "M8[s]"), True),
        ([Decimal("1.5"), Decimal(0), Decimal(7)], False),
    ],
    ids=["text", "integers", "floats", "times", "decimals"],
)
def test_categoricals_whose_values_differ_are_their_codes(pd, categories, coded, nulls):
    kind = pd.CategoricalDtype(pd.Index(categories), ordered=True)
    codes = np.array([2, 0, -1, 2, 1, -1, 2], "i1")
    for given in (
        pd.Series(pd.Categorical.from_codes(codes, dtype=kind), name="x"),
        pd.Index(pd.Categorical.from_codes(codes[::2], dtype=kind), name="x"),
        pd.Categorical.from_codes(codes[:0], dtype=kind),
    ):
        column = read(given, "keys")
        assert (column.coded is not None) == coded
        own = np.asarray(getattr(given, "array", given).codes).tolist()
        order = [code for code in dict.fromkeys(own) if code >= 0 or nulls == "group"]
        numbers = [order.index(code) if code in order else -1 for code in own]
        for verb in (gh.unique, gh.value_counts, gh.factorize):
            results = (
                verb(given, order="first", nulls=nulls) if verb is not gh.unique else gh.unique(given, nulls=nulls)
            )
            found = results if verb is gh.unique else results[verb is gh.factorize]
            assert type(found) is type(given)
            assert found.dtype == kind
            assert getattr(found, "name", None) == getattr(given, "name", None)
            assert np.asarray(getattr(found, "array", found).codes).tolist() == order
            if verb is gh.value_counts:
                assert np.asarray(results[1]).tolist() == [own.count(code) for code in order]
            if verb is gh.factorize:
                assert np.asarray(results[0]).tolist() == numbers


def test_a_long_categorical_has_an_array_over_its_codes(pd, monkeypatch):
    given = pd.Series(pd.Categorical.from_codes(np.arange(40_000) % 7 - 1, categories=list("abcdef")))
    monkeypatch.setattr(_verb_inputs, "CoreIndex", None)
    monkeypatch.setattr(verbs._table_verbs, "Table", None)
    distinct, counts = gh.value_counts(given)
    assert distinct.isna().tolist() == [True] + [False] * 6
    assert counts.sum() == 40_000
    keys, sums = gh.value_counts(given), gh.factorize(given)
    assert (len(keys[0]), sums[0].max()) == (7, 6)
