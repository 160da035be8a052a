"""`gh.Index`: against dict, with columns of every library, from many threads, and wrong input."""

import _thread
import gc
import itertools
import os
import re
import threading
import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pygpuhash as gh
from pygpuhash.columns import _engine

WORDS = ["b", "a", "b", "longer than twelve bytes", "", "a\0", "é"]


@pytest.fixture
def small_pieces():
    was = _engine.piece(7)
    yield
    _engine.piece(was)


# ---- against dict ----------------------------------------------------------------------------------------------------

TEXT = st.one_of(st.text(max_size=3), st.sampled_from(["a" * 12, "a" * 13, "a\0", "é" * 20]))
KEYS = st.one_of(
    st.lists(st.lists(TEXT, max_size=12), max_size=6),
    st.lists(st.lists(st.integers(-3, 3), max_size=12), max_size=6),
    st.lists(st.lists(st.tuples(st.integers(0, 2), TEXT), min_size=1, max_size=8), max_size=6),
    st.lists(st.lists(st.binary(max_size=3), max_size=12), max_size=6),
)


@settings(max_examples=20, deadline=None)
@given(KEYS)
def test_ids_are_those_of_a_dict(batches):
    index, model = gh.Index(threads=1), {}
    for batch in batches:
        absent = [model.get(key, -1) for key in batch]
        assert index.get_indexer(batch).tolist() == absent
        ids, new = index.add(batch, new=True)
        first = [key not in batch[:i] and key not in model for i, key in enumerate(batch)]
        assert new.tolist() == first
        assert ids.tolist() == [model.setdefault(key, len(model)) for key in batch]
        assert len(index) == len(model)
    assert list(index.keys) == list(model)
    assert all(key in index for key in model)
    if model:
        ids = [i % len(model) for i in range(0, 20, 3)]
        assert list(index.keys[ids]) == [list(model)[i] for i in ids]
    other = gh.Index([key for batch in reversed(batches) for key in batch] or None)
    theirs = list(other.keys)
    assert other.merge(index).tolist() == [
        theirs.index(key) if key in theirs else i for i, key in _after(theirs, model)
    ]


def _after(theirs, model):
    """Keys of a dict, with the id that each gets behind those of a list."""
    fresh = len(theirs)
    for key in model:
        yield fresh, key
        fresh += key not in theirs


# ---- columns of libraries --------------------------------------------------------------------------------------------


def columns():
    """(name, a column, what its distinct keys are in its library, as a list)."""
    rows = [("numpy", np.array([3, 1, 3], "i4")), ("U", np.array(["b", "a", "b"])), ("list", ["b", "a", "b"])]
    rows += [("floats", np.array([1.5, np.nan, np.nan])), ("times", np.array([5, 6, 5], "M8[s]"))]
    rows += [("tuple", (np.array([1, 2, 1]), ["a", "b", "a"])), ("tuples", [(1, "a"), (2, "b")])]
    rows += [("masked", np.ma.array([1, 2, 1], mask=[0, 1, 0])), ("range", range(4)), ("bool", [True, False])]
    try:
        import pandas as pd

        rows += [("Series", pd.Series(["b", "a", "b"], name="word")), ("Int64", pd.Series([1, None], dtype="Int64"))]
        rows += [("category", pd.Series(["b", "a"], dtype="category")), ("Index", pd.Index([4, 5], name="n"))]
        rows += [
            ("frame", pd.DataFrame({"x": [1, 1], "y": ["a", "b"]})),
            ("object", pd.Series([1, None], dtype=object)),
        ]
    except ImportError:
        pass
    try:
        import polars as pl

        rows += [
            ("polars", pl.Series("word", ["b", None, "b"])),
            ("rows", pl.DataFrame({"x": [1, 2], "y": ["a", "b"]})),
        ]
        rows += [("Enum", pl.Series(["b", "a"], dtype=pl.Enum(["a", "b", "c"])))]
    except ImportError:
        pass
    try:
        import pyarrow as pa

        rows += [("Array", pa.array(["b", None])), ("Table", pa.table({"x": [1, 2], "y": ["a", "b"]}))]
        rows += [("chunks", pa.chunked_array([["b"], ["a", "b"]])), ("batch", pa.record_batch({"x": [1, 2]}))]
    except ImportError:
        pass
    return rows


def plain(column):
    """A column as a list, whatever its library."""
    if isinstance(column, tuple):
        return list(zip(*map(plain, column), strict=True))
    if hasattr(column, "num_columns"):
        return list(zip(*(c.to_pylist() for c in column.columns), strict=True))
    if hasattr(column, "rows"):
        return column.rows()
    if hasattr(column, "itertuples"):
        return list(column.itertuples(index=False, name=None))
    if hasattr(column, "to_pylist"):
        return column.to_pylist()
    return column.tolist() if hasattr(column, "tolist") else column.to_list() if hasattr(column, "to_list") else column


@pytest.mark.parametrize(("name", "column"), columns(), ids=lambda x: x if isinstance(x, str) else "")
def test_keys_are_of_the_library_of_the_first_column(name, column):
    index = gh.Index(column)
    again = gh.unique(column, order="first")
    assert type(index.keys[:]) is type(again)
    assert re.sub("0x[0-9a-f]+", "", repr(index.keys[:])) == re.sub("0x[0-9a-f]+", "", repr(again))
    ids = np.asarray(index.get_indexer(column))
    assert ids.min() >= 0
    assert repr(plain(index.keys[ids])) == repr(plain(column)) or name in ("range", "list")
    assert len(list(index.keys)) == len(index) == len(plain(again))
    first = index.keys[0], next(iter(index.keys))
    assert str(first[0]) == str(first[1]) or first[0] == first[1]
    # In steps, from the end, by a mask, none.
    everything = plain(index.keys[:])
    assert repr(plain(index.keys[::-1])) == repr(everything[::-1])
    assert repr(plain(index.keys[np.arange(len(index)) > 0])) == repr(everything[1:])
    assert plain(index.keys[[]]) == []


def test_the_first_column_is_not_kept():
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    index, series = gh.Index(), pd.Series(["a", "b"])
    index.add(series)
    seen = weakref.ref(series)
    del series
    gc.collect()
    assert seen() is None
    assert index.keys[:].tolist() == ["a", "b"]


def test_keys_that_the_first_column_cannot_hold_are_numpys():
    index = gh.Index(np.array(["b", "a"]))  # U1
    index.add(["longer", "a\0"])
    assert index.keys[:].tolist() == ["b", "a", "longer", "a\0"]
    index = gh.Index("int8")
    index.add(np.array([1, 2]))
    assert index.keys[:].dtype == np.int8
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    index = gh.Index(np.array([1, 2]))
    index.add(pd.Series([None, 3], dtype="Int64"))
    assert index.keys[:].tolist() == [1, 2, None, 3]
    index = gh.Index(pd.Series(["b", "a"], dtype="category"))
    index.add(["c"])
    assert list(index.keys) == ["b", "a", "c"]
    index = gh.Index(pd.Series([1, 2]))  # numpy's integers, which have no null
    index.add(pd.Series([None], dtype="Int64"))
    assert list(index.keys)[:2] == [1, 2]
    assert np.ma.is_masked(index.keys[2])


@pytest.mark.parametrize(
    ("kind", "words", "column"),
    [
        (str, "text", ["a"]),
        (bytes, "bytes", [b"a"]),
        (int, "int64", [1]),
        (float, "float64", [1.5]),
        (bool, "bool", [True]),
        ("uint8", "uint8", [1]),
        (np.float32, "float32", [1.5]),
        (np.dtype("M8[ms]"), "times", np.array(["2020-01-01"], "M8[D]")),
        ("S5", "bytes", [b"longer than five"]),
    ],
)
def test_types(kind, words, column):
    index = gh.Index(kind)
    assert words in repr(index)
    assert len(index) == len(index.keys[:]) == 0
    assert index.add(column).tolist() == [0]
    assert list(index.keys) == list(column)


def test_types_of_libraries():
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    pl = pytest.importorskip("polars", reason="polars is not installed")
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    for kind in (pa.string(), pa.large_string(), pl.String, pl.String(), pd.StringDtype()):
        assert "text" in repr(gh.Index(kind)), kind
    schema = pa.schema([("x", pa.int8()), ("y", pa.decimal128(9, 2))])
    assert "rows of 2 columns" in repr(gh.Index(schema))
    for kind in (pa.decimal128(9, 2), pa.time64("ns"), pa.date32(), pa.timestamp("us", "UTC"), pl.Date, pl.Int8()):
        array = gh.Index(kind).keys[:]
        assert len(array) == 0
    index = gh.Index(pa.array([None, 1], pa.decimal128(9, 2)))
    index._give = None
    assert str(index.keys[:].tolist()) == "[None, Decimal('1.00')]"
    index = gh.Index(pa.array([None, 61], pa.time32("s")))
    index._give = None
    assert index.keys[:].astype("i8")[1] == 61
    assert np.isnat(index.keys[0])


# ---- without a type --------------------------------------------------------------------------------------------------


def test_an_index_without_a_type():
    index = gh.Index()
    assert len(index) == 0
    assert "a" not in index
    assert index.nbytes == 0
    assert list(index.keys) == []
    assert index.get_indexer(["a"]).tolist() == [-1]
    assert index.add([]).tolist() == []
    assert index.merge(gh.Index()).tolist() == []
    assert "without a type" in repr(index)
    with pytest.raises(TypeError, match=r"nothing but nulls.* make it with one, such as str"):
        index.add([None])
    with pytest.raises(IndexError, match="no keys"):
        index.keys[0]
    with pytest.raises(TypeError, match="no type yet"):
        index.keys.__arrow_c_array__()
    with pytest.raises(TypeError):
        index.add([1, "1"])
    index.add(["a"])  # none of these has given it a type
    assert "a" in index
    other = gh.Index()
    assert other.merge(index).tolist() == [0]
    assert other.keys[:].tolist() == ["a"]


# ---- nulls and floats ------------------------------------------------------------------------------------------------


def test_nulls():
    grouped, dropped = gh.Index(), gh.Index(nulls="drop")
    assert grouped.add(["a", None, "b", None]).tolist() == [0, 1, 2, 1]
    assert None in grouped
    assert dropped.add(["a", None, "b", None], new=True)[0].tolist() == [0, -1, 1, -1]
    assert dropped.add([None, "c", None, "c"], new=True)[1].tolist() == [False, True, False, False]
    assert None not in dropped
    assert dropped.merge(grouped).tolist() == [0, -1, 1]
    assert grouped.merge(dropped).tolist() == [0, 2, 3]
    refusing = gh.Index(str, nulls="refuse")
    with pytest.raises(TypeError, match="keys: row 1 is null"):
        refusing.add(["a", None])
    with pytest.raises(TypeError, match="other: row 1 is null"):
        refusing.merge(grouped)
    assert len(refusing) == 0


def test_floats():
    values = np.array([0.0, -0.0, np.nan, -np.nan, 1.5])
    assert gh.Index().add(values).tolist() == [0, 0, 1, 1, 2]
    assert gh.Index(floats="bits").add(values).tolist() == [0, 1, 2, 3, 4]


# ---- merging ---------------------------------------------------------------------------------------------------------


def test_merge_in_pieces(small_pieces):
    one, other = gh.Index(range(50)), gh.Index(np.arange(100, 20, -1, dtype="i2"))
    ids = one.merge(other)
    assert one.keys[ids].tolist() == list(range(100, 20, -1))
    assert len(one) == 101
    assert one.merge(one).tolist() == list(range(101))
    assert other.merge(one).tolist()[100] == 50
    with pytest.raises(TypeError, match=r"other: .* is int64 here and text there"):
        gh.Index(str).merge(one)
    small = gh.Index("int8")
    with pytest.raises(TypeError, match="other: row 2 is nothing that an index of int8 can hold"):
        small.merge(gh.Index([5, 6, 300]))
    assert len(small) == 0


# ---- threads and signals ---------------------------------------------------------------------------------------------


def test_threads_add_and_each_key_is_new_once(in_threads):
    index = gh.Index(str)
    words = [f"word {i}" for i in range(3000)]
    found = [None] * 4

    def work(i):
        ids, new = index.add(words[i * 500 :] + words[: i * 500], new=True)
        found[i] = np.roll(ids, i * 500), np.roll(new, i * 500)
        assert index.keys[ids[:3]].tolist() == (words[i * 500 :] + words)[:3]

    in_threads(work, 4)
    assert len(index) == len(words)
    assert np.sum([new for _, new in found], axis=0).tolist() == [1] * len(words)
    assert all((ids == found[0][0]).all() for ids, _ in found)


def test_threads_merge_crosswise(in_threads):
    pair = [gh.Index(range(2000)), gh.Index(range(1000, 4000))]

    def work(i):
        for step in range(5):
            pair[i % 2].add(range(5000 + 100 * i, 5000 + 100 * i + step))
            pair[i % 2].merge(pair[1 - i % 2])

    in_threads(work, 4)
    for index in pair:
        assert sorted(set(index.keys[:].tolist())) == sorted(index.keys[:].tolist())
        assert set(range(4000)) <= set(index.keys[:].tolist())


def test_ctrl_c_is_heard():
    was = _engine.piece(1000)
    index = gh.Index(int)
    stopper = threading.Timer(0.01, _thread.interrupt_main)

    def interrupted():
        stopper.start()
        index.add(range(4_000_000))

    try:
        with pytest.raises(KeyboardInterrupt):
            interrupted()
        stopper.join()
    finally:
        _engine.piece(was)
    size = len(index)
    assert size % 1000 == 0  # whole pieces were added, not all
    assert size < 4_000_000
    assert index.add([0, 10**9]).tolist() == [0, max(size, 1)]


def test_a_forked_child_is_refused():
    if not hasattr(os, "fork"):
        pytest.skip("this system does not fork")
    index = gh.Index(["a"])
    child = os.fork()
    if child == 0:
        status = 1
        try:
            index.add(["b"])
        except gh.Forked:
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0


# ---- memory ----------------------------------------------------------------------------------------------------------


def test_memory_is_said():
    index = gh.Index([f"{i:020d}" for i in range(5000)])
    assert 5000 * (20 + 32 + 16) < index.nbytes < 5000 * 250
    assert gh.Index(int, capacity=10**5).nbytes > 10**6
    assert f"{index.nbytes} bytes" in repr(index)


def test_keys_that_were_not_added_are_said(monkeypatch):
    index = gh.Index(["a"])

    class Short:
        size = 1

        def add(self, schema, chunks, ids):
            ids[:2] = 0, -1
            raise gh.NoMemory("no memory for more")

    monkeypatch.setattr(index, "_core", Short())
    with pytest.raises(gh.NoMemory) as caught:
        index.add(np.array([["a", "b"], ["c", "d"]]))
    assert caught.value.failed.tolist() == [[False, False], [True, True]]


# ---- wrong input -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda index: index.add([1]), TypeError, "keys: the column is int64 here and text there"),
        (lambda index: index.add("a"), TypeError, r"keys is a str, not a column: pass \[keys\]"),
        (lambda index: index.add(None), TypeError, "keys is a NoneType"),
        (lambda index: index.add([["a"]]), TypeError, r"keys\[0\] is a list"),
        (lambda index: index.add(["a"], new="yes"), TypeError, "new='yes' is neither True nor False"),
        (lambda index: index.get_indexer([b"a"]), TypeError, "keys: the column is bytes here and text there"),
        (lambda index: index.merge(["a"]), TypeError, "other is a list, not an Index: use add"),
        (lambda index: 5 in index, TypeError, "key: the column is int64 here and text there"),
        (lambda index: index.keys[-1], IndexError, r"ids\[0\] is -1, .*leave out absent keys"),
        (lambda index: index.keys[[0, 9]], IndexError, r"ids\[1\] is 9, and the index has 1 keys$"),
        (lambda index: index.keys[2**70], TypeError, "ids have dtype object"),
        (lambda index: index.keys[1.5], TypeError, "ids have dtype float64"),
        (lambda index: index.keys["a"], TypeError, "ids have dtype <U1"),
        (lambda index: index.keys[[True, False]], IndexError, r"the mask has shape \(2,\), and the index has 1 keys"),
        (lambda index: gh.Index("int8").add([1, 300]), TypeError, "row 1 is nothing that an index of int8 can hold"),
        (lambda index: gh.Index(list), TypeError, "is no type of keys"),
        (lambda index: gh.Index(np.dtype("O")), TypeError, "is no type of keys"),
        (lambda index: gh.Index(nulls="keep"), gh.InvalidArgument, "nulls='keep' is none of"),
        (lambda index: gh.Index(floats="f4"), gh.InvalidArgument, "floats='f4' is neither"),
        (lambda index: gh.Index(threads=0), gh.InvalidArgument, "threads=0 is out of range"),
        (lambda index: gh.Index(capacity=2**32), gh.InvalidArgument, "capacity=4294967296 is out of range"),
        (lambda index: gh.Index(seed="x"), TypeError, "seed='x' is not an integer"),
        (lambda index: reversed(index), TypeError, "not reversible"),
        (lambda index: np.asarray(gh.Index(([1], ["a"])).keys), TypeError, "keys of several columns"),
    ],
)
def test_wrong_input(call, error, words):
    index = gh.Index(["a"])
    with pytest.raises(error, match=words):
        call(index)
    assert len(index) == 1
    assert index.add(["a"]).tolist() == [0]


def test_what_the_type_cannot_hold_is_absent():
    index = gh.Index(np.array([1, 2], "i4"))
    assert index.get_indexer([1, 2**40, 2]).tolist() == [0, -1, 1]
    assert index.get_indexer([1.0, 1.5]).tolist() == [0, -1]
    assert 2**63 not in index


def test_arrays_on_a_gpu_are_refused():
    class There:
        def __init__(self):
            self.__cuda_array_interface__ = {"shape": (1,), "typestr": "<i4", "data": (0, False), "version": 3}

    for call in (gh.Index(int).add, gh.Index(int).get_indexer, lambda ids: gh.Index([1]).keys[ids], gh.Index):
        with pytest.raises((gh.Unsupported, TypeError), match=r"GPU|CUDA"):
            call(There())
    with pytest.raises(gh.Unsupported, match="GPU"):
        gh.Index(([1], There()))


def test_shapes():
    index = gh.Index()
    ids = index.add(np.array([["a", "b"], ["b", "a"]]))
    assert ids.tolist() == [[0, 1], [1, 0]]
    assert index.keys[ids].tolist() == [["a", "b"], ["b", "a"]]


def test_words():
    index = gh.Index()
    assert index.add(WORDS).tolist() == [0, 1, 0, 2, 3, 4, 5]
    assert list(index.keys) == [word for i, word in enumerate(WORDS) if i != 2]
    assert np.asarray(index.keys).tolist() == list(index.keys)


# ---- rows of several columns -----------------------------------------------------------------------------------------


def test_rows_of_other_types_have_the_ids_of_equal_rows():
    """Integers of another width or sign, times of another unit, floats: by value, column by column."""
    own = (
        np.array([-1, 5, 200, 2**40]),
        np.array([1000, 2000, 3000, 4000], "M8[us]"),
        np.array([0.5, 1.0, 2.0, 1e300]),
    )
    index = gh.Index(own)
    names = ["i1", "i2", "i4", "u8"]
    for first, second, third in itertools.product(names, ["M8[ms]", "M8[us]", "M8[ns]"], ["f2", "f4", "f8", "i4"]):
        integers = np.array([5, 5, 6]).astype(first)
        times = np.array([2000, 3000, 2000], "M8[us]").astype(second)
        numbers = np.array([1, 1, 1]).astype(third)
        assert index.get_indexer((integers, times, numbers)).tolist() == [1, -1, -1]
        assert index.add((integers[:1], times[:1], numbers[:1])).tolist() == [1]
    assert index.get_indexer((np.array([255, 200], "u1"), own[1][[0, 2]], own[2][[0, 2]])).tolist() == [-1, 2]
    assert index.get_indexer((np.array([-1, -56], "i1"), own[1][[0, 2]], own[2][[0, 2]])).tolist() == [0, -1]
    above = np.array([2**64 - 1, 5], "u8")
    assert index.get_indexer((above, own[1][:2], own[2][:2])).tolist() == [-1, 1]
    narrow = gh.Index((np.array([5], "i4"), np.array([2], "M8[ms]"), np.array([1], "f4")))
    assert narrow.get_indexer(own).tolist() == [-1, 0, -1, -1]
    with pytest.raises(TypeError, match="row 3 is nothing that an index of"):
        narrow.add(tuple(column[[1, 1, 1, 3]] for column in own))
    assert len(narrow) == 1


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_floats_of_rows(dtype):
    floats = np.array([0.0, -0.0, np.nan, -np.nan, 1.5], dtype)
    rows = (np.zeros(5, "i2"), floats)
    assert gh.Index().add(rows).tolist() == [0, 0, 1, 1, 2]
    assert gh.Index(floats="bits").add(rows).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("nulls", ["group", "drop"])
def test_many_rows_of_text_and_numbers(nulls, threads):
    """In pieces and slices, against a dict; short and long texts, in chunks, with nulls."""
    pa = pytest.importorskip("pyarrow", reason="has columns in chunks")
    rng = np.random.default_rng(threads)
    n = 70_000
    some = ["", "a", "twelve bytes", "sixteen bytes ..", "seventeen bytes .", "x" * 300, None]
    words = [some[i] for i in rng.integers(0, len(some), n)]
    numbers = [None if i == 0 else int(i) for i in rng.integers(0, 900, n)]
    column = pa.chunked_array([words[:101], words[101:65_000], words[65_000:]], pa.string_view())
    index = gh.Index(nulls=nulls, threads=threads)
    known = {}
    wanted = []
    for row in zip(words, numbers, words, strict=True):
        kept = nulls == "group" or None not in row
        wanted.append(known.setdefault(row, len(known)) if kept else -1)
    keys = (column, pa.array(numbers, pa.int16()), pa.array(words))
    assert np.asarray(index.add(keys)).tolist() == wanted
    assert np.asarray(index.get_indexer(keys)).tolist() == wanted
    assert list(zip(*(part.to_pylist() for part in index.keys[:]), strict=True)) == list(known)
