"""Verbs on whole columns, against Python's dict and lists."""

import collections
import datetime
import math
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import pygpuhash as gh
from pygpuhash import _core, _cuda, _device_groups, _number_verbs, _table_verbs, _verb_inputs
from pygpuhash.columns import _direct

sys.path.insert(0, str(Path(__file__).resolve().parent))
import fake_cuda
import fake_libraries

RNG = np.random.default_rng(5)
N = 3_000  # of columns below, a few hundred keys of which are distinct


def numbers(dtype):
    """Frequent and rare elements, among them the smallest, the largest and those whose bits are all alike."""
    info = np.iinfo(dtype)
    some = RNG.integers(info.min, info.max, 300, dtype, endpoint=True)
    some[:3] = info.min, info.max, 0
    return some[RNG.integers(0, 300, N) * RNG.integers(0, 2, N)]


def floats(dtype):
    some = RNG.standard_normal(200).astype(dtype)
    some[:6] = 0.0, -0.0, math.inf, -math.inf, math.nan, -math.nan
    return some[RNG.integers(0, 200, N)]


WORDS = np.array(["", "a", "b", "ab", "Straße", "日本", "a longer one", "\N{GRINNING FACE}", *map(str, range(200))])

COLUMNS = {
    **{name: numbers(name) for name in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")},
    **{name: floats(name) for name in ("float16", "float32", "float64")},
    "bool": RNG.integers(0, 2, N).astype(bool),
    "datetime64": RNG.integers(0, 99, N).astype("M8[ms]"),
    "timedelta64": RNG.integers(0, 99, N).astype("m8[s]"),
    "complex128": (floats("float64") + 1j * 0).astype("complex128"),
    "strided": numbers("int32")[::2],
    "two dimensions": numbers("uint32").reshape(30, 100),
    "text": RNG.choice(WORDS, N),
    "wide text": RNG.choice(WORDS, 90).astype("U64"),
    "big-endian text": RNG.choice(WORDS, N).astype(">U12"),
    "text in objects": RNG.choice(WORDS, N).astype(object),
    "bytes": RNG.choice(np.array([b"", b"x", b"xy", b"12345"]), N),
    "bytes in objects": RNG.choice(np.array([b"", b"x", b"xy", b"12345"]), N).astype(object),
    "records": np.array(list(zip(RNG.integers(0, 9, N), RNG.integers(0, 9, N), strict=True)), "i4, u8"),
    "list": RNG.integers(-20, 20, 500).tolist(),
    "list of text": RNG.choice(WORDS, 500).tolist(),
    "range": range(100),
    "two columns": (numbers("int16") % 7, RNG.choice(WORDS, N)),
    "two narrow columns": (RNG.integers(0, 9, N).astype("uint8"), floats("float16")),
    "three columns": (RNG.integers(0, 3, N), floats("float32") > 0, RNG.integers(0, 5, N).astype("M8[D]")),
    "a tuple of one": (numbers("int64"),),
    "nothing": np.zeros(0, "int16"),
    "one": [7],
    "all alike": np.full(N, 3.5),
}
NAMES = pytest.mark.parametrize("name", COLUMNS)


@pytest.fixture
def no_range():
    """No integers are looked up in an array over their range."""
    was = _direct.bounds(0, 0)
    yield
    _direct.bounds(*was)


@pytest.fixture(params=["table", "index", "range"])
def either(request, monkeypatch):
    """Numbers go to a table however few they are, to an index however many, or to an array over their range."""
    monkeypatch.setattr(_verb_inputs, "FEW", 0 if request.param == "table" else 1 << 40)
    monkeypatch.setattr(_number_verbs, "_ALONE", 0)
    if request.param != "range":
        request.getfixturevalue("no_range")
    return request.param


@pytest.fixture
def table(monkeypatch, no_range):
    monkeypatch.setattr(_verb_inputs, "FEW", 0)
    monkeypatch.setattr(_number_verbs, "_ALONE", 0)


def elements(column):
    """What can be compared: the bits of numbers, of which equal ones have equal bits; text as it is."""
    if isinstance(column, tuple):
        return list(zip(*map(elements, column), strict=True))
    array = np.asarray(column)
    if array.dtype.kind in "fc":
        parts = np.ascontiguousarray(array).view(array.real.dtype) + array.real.dtype.type(0)
        parts[parts != parts] = math.nan
        array = parts.view(array.dtype)
    if array.dtype == object or array.dtype.kind in "US":
        return array.reshape(-1).tolist()
    return [x.tobytes() for x in array.reshape(-1)]


def dtype_of(column):
    """That of keys which come back: numpy's for what was no array."""
    if isinstance(column, tuple):
        return [dtype_of(part) for part in column]
    array = np.asarray(column)
    return array.astype("U" if isinstance(array[0], str) else "S").dtype if array.dtype == object else array.dtype


def appearance(column):
    return list(dict.fromkeys(elements(column)))


@NAMES
def test_unique(name, either):
    column = COLUMNS[name]
    first = gh.unique(column, order="first", device="cpu")
    assert elements(first) == appearance(column)
    assert len(elements(first)) == 0 or dtype_of(first) == dtype_of(column)
    some = gh.unique(column, device="cpu")
    assert np.asarray(some[0] if isinstance(some, tuple) else some).ndim == 1
    assert sorted(elements(some)) == sorted(appearance(column))


@NAMES
@pytest.mark.parametrize("order", ["any", "first"])
def test_value_counts(name, order, either):
    column = COLUMNS[name]
    wanted = collections.Counter(elements(column))
    distinct, counts = gh.value_counts(column, order=order, device="cpu")
    assert counts.dtype == np.int64
    assert dict(zip(elements(distinct), counts.tolist(), strict=True)) == wanted
    if order == "first":
        assert elements(distinct) == list(wanted)


@NAMES
@pytest.mark.parametrize("order", ["any", "first"])
def test_factorize(name, order, either):
    column = COLUMNS[name]
    codes, distinct = gh.factorize(column, order=order, device="cpu")
    assert codes.dtype == np.int64
    assert codes.shape == np.asarray(column[0] if isinstance(column, tuple) else column).shape
    words = elements(distinct)
    assert len(set(words)) == len(words)
    assert [words[code] for code in codes.reshape(-1)] == elements(column)
    if order == "first":
        assert words == appearance(column)


LATE = {
    "few, then others": np.r_[RNG.integers(0, 5, 300), RNG.permutation(200) + 3],
    "others, then few": np.r_[RNG.permutation(200) + 3, RNG.integers(0, 5, 300)],
    "now and then": np.where(np.arange(700) % 31 == 0, np.arange(700) // 31 % 9 + 10, np.arange(700) % 3),
    "always": RNG.permutation(500),
    "once": np.arange(1),
}


@pytest.mark.parametrize("first", [1, 16, 100])
@pytest.mark.parametrize("piece", [8, 64])
@pytest.mark.parametrize("name", [*LATE, "uint64", "float32"])
def test_the_order_of_appearance_in_pieces(monkeypatch, table, name, first, piece):
    """Wherever a piece ends, and whether its keys are known."""
    column = LATE.get(name, COLUMNS.get(name))
    monkeypatch.setattr(_table_verbs, "_FIRST_PIECE", first)
    monkeypatch.setattr(_table_verbs, "_PIECE", piece)
    codes, distinct = gh.factorize(column, device="cpu")
    words = elements(distinct)
    assert words == appearance(column)
    assert [words[code] for code in codes] == elements(column)
    assert elements(gh.unique(column, order="first", device="cpu")) == words


def test_known_keys_are_looked_up_and_not_put_in_order(monkeypatch, table):
    """Which is what makes few keys fast: of 1,000 elements 62 are put in order, and those that are new."""
    put = []
    accumulate = gh.Table.accumulate
    monkeypatch.setattr(_table_verbs, "_FIRST_PIECE", 16)
    monkeypatch.setattr(_table_verbs, "_PIECE", 100)
    monkeypatch.setattr(
        _table_verbs.Table, "accumulate", lambda t, keys, *a, **k: put.append(len(keys)) or accumulate(t, keys, *a, **k)
    )
    column = np.arange(1000) % 5
    column[700] = 9
    assert gh.factorize(column, device="cpu")[1].tolist() == [0, 1, 2, 3, 4, 9]
    assert put == [62, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]


def test_the_default_order_of_codes_is_that_of_appearance():
    codes, distinct = gh.factorize([30, 10, 30, 20], device="cpu")
    assert codes.tolist() == [0, 1, 0, 2]
    assert distinct.tolist() == [30, 10, 20]


@NAMES
def test_isin(name, either):
    column = COLUMNS[name]
    words = elements(column)
    part = tuple(c[::3] for c in column) if isinstance(column, tuple) else column[::3]
    wanted = set(elements(part))
    mask = gh.isin(column, part, device="cpu")
    assert mask.dtype == bool
    assert mask.shape == np.asarray(column[0] if isinstance(column, tuple) else column).shape
    assert mask.reshape(-1).tolist() == [word in wanted for word in words]


@pytest.mark.parametrize("make", [set, frozenset, lambda elements: dict.fromkeys(elements).keys()])
def test_a_set_may_be_among(make):
    """Its order does not matter. Keys have one, and so have the elements that others are looked up among."""
    assert gh.isin(["a", "c", "b"], make(["b", "a"])).tolist() == [True, False, True]
    assert gh.isin(np.arange(4), make([3, 1, 7])).tolist() == [False, True, False, True]
    assert gh.isin([1, 2], make([])).tolist() == [False, False]
    assert gh.isin(7, make([7]))
    with pytest.raises(TypeError, match="of kind"):
        gh.isin([1, 2], make([1, "1"]))
    with pytest.raises(TypeError, match=r"which has no order|not a column"):
        gh.isin(make([1]), [1, 2])


@pytest.mark.parametrize(
    ("keys", "among", "wanted"),
    [
        (np.array([1, 2, 300], "uint16"), [2, 300, 70_000, -1], [False, True, True]),
        (np.array([1, 2], "int8"), np.array([2, 1 << 40]), [False, True]),
        (np.array([-1, 5], "int64"), np.array([5], "uint64"), [False, True]),
        (np.array([1 << 63, 5], "uint64"), np.array([5, 6], "int64"), [False, True]),
        (np.array([-5, 5], "int32"), np.array([5, 1 << 31], "uint32"), [False, True]),
        (np.array([1.5, 2], "float32"), np.array([1.5, 1e300]), [True, False]),
        (np.array([1.5, 2], "float64"), np.array([2], "float32"), [False, True]),
        (np.array([1, 2], "int32"), [2.0, 2.5], [False, True]),
        (np.array([True, False]), [True], [True, False]),
        (np.array([-1, 5]), np.array([5, 1 << 63], "uint64"), [False, True]),
        ([1, 2], [2.5, 2.0], [False, True]),
        (np.array([2**53, 2**53 + 1]), [float(2**53)], [True, False]),
        ([0.0, -0.0, math.nan], [0, math.nan], [True, True, True]),
        (np.array([1], "float32"), np.array([2**53 + 1, 1]), [True]),
        ([None, "a"], ["a", None], [True, True]),
        (np.array(["2020-01-01"], "M8[D]"), np.array(["2020-01-01T00:00:01", "NaT"], "M8[s]"), [False]),
        (["a", "bcd"], ["bcd", "something longer"], [False, True]),
        ([b"a", b"bcd"], np.array([b"bcd", b"a longer one"]), [False, True]),
        (([1, 2], ["x", "y"]), ([2, 1], ["yy", "x"]), [True, False]),
        (np.array(["2020-01-01", "2020-01-02"], "M8[D]"), np.array(["2020-01-02"], "M8[s]"), [False, True]),
        ([], [1, 2**53 + 1], []),
        ((), [1], []),
        ((np.int8(1), np.int8(2)), [2], [False, True]),
        ([1, 2], [], [False, False]),
        (2, [1, 2], True),
        (np.array(["2020-01-01", "2020-01-02"], "M8[D]"), datetime.datetime(2020, 1, 2), [False, True]),
        (np.array([[1], [9]]), 9, [[False], [True]]),
    ],
)
def test_isin_of_two_dtypes(keys, among, wanted, either):
    assert gh.isin(keys, among, device="cpu").tolist() == wanted


# ---- group_reduce ----------------------------------------------------------------------------------------------------


def reduced(keys, values, reduce):
    groups = {}
    for key, value in zip(elements(keys), values.reshape(-1), strict=True):
        groups.setdefault(key, []).append(value)
    return {key: reduce(np.array(group)) for key, group in groups.items()}


def check_groups(got, wanted):
    keys, results = got
    assert list(map(repr, results.tolist())) == [repr(wanted[key].item()) for key in elements(keys)]
    assert len(results) == len(wanted)


@pytest.mark.parametrize("order", ["any", "first"])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64", "bool"])
def test_sums_and_extremes_of_integers(dtype, order, either):
    keys = numbers("int16")
    values = RNG.integers(0, 2, N).astype(bool) if dtype == "bool" else numbers(dtype)
    wide = np.uint64 if dtype.startswith("u") else np.int64
    with np.errstate(over="ignore"):
        found = gh.group_reduce(keys, values, order=order, device="cpu")
        check_groups(found, reduced(keys, values, lambda group: group.sum(dtype=wide)))
    assert found[1].dtype == wide
    if order == "first":
        assert elements(found[0]) == appearance(keys)
    for op in ("min", "max"):
        found = gh.group_reduce(keys, values, op, order=order, device="cpu")
        assert found[1].dtype == dtype
        check_groups(found, reduced(keys, values, getattr(np, op)))
    check_groups(
        gh.group_reduce(keys, values, "count", order=order, device="cpu"),
        reduced(keys, values, lambda g: np.int64(g.size)),
    )


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_floats(dtype, either):
    """Sums of few small whole numbers are exact in any order."""
    keys = RNG.integers(0, 150, N)
    values = RNG.integers(-99, 99, N).astype(dtype)
    values[RNG.integers(0, N, 40)] = math.nan
    values[keys == 3] = math.nan
    found = gh.group_reduce(keys, values, device="cpu")
    assert found[1].dtype == np.float64
    check_groups(found, reduced(keys, values, lambda group: group.sum(dtype="float64")))
    found = gh.group_reduce(keys, values, "mean", order="first", device="cpu")
    assert found[1].dtype == np.float64
    assert elements(found[0]) == appearance(keys)
    check_groups(found, reduced(keys, values, lambda group: group.mean(dtype="float64")))
    for op, ignoring in (("min", np.fmin), ("max", np.fmax)):
        found = gh.group_reduce(keys, values, op, device="cpu")
        assert found[1].dtype == dtype
        check_groups(found, reduced(keys, values, ignoring.reduce))


def test_sums_in_another_dtype(either):
    keys = [1, 1, 2]
    found = gh.group_reduce(keys, [0.5, 1.5, 3.0], dtype="float32", order="first", device="cpu")
    assert found[1].dtype == np.float32
    assert found[1].tolist() == [2.0, 3.0]
    wrapped = gh.group_reduce(keys, np.full(3, 2**31 - 1), dtype="int32", order="first", device="cpu")
    assert wrapped[1].tolist() == [-2, 2**31 - 1]
    exact = gh.group_reduce(keys, np.full(3, 2**24 + 1, "int32"), dtype="float64", order="first", device="cpu")
    assert exact[1].tolist() == [2 * (2**24 + 1), 2**24 + 1]


def test_means_of_large_integers_do_not_wrap(either):
    found = gh.group_reduce(["a", "a"], np.array([2**62, 2**63 - 1]), "mean", device="cpu")
    assert found[1].tolist() == [(2.0**62 + 2.0**63) / 2]


def test_times(either):
    keys = [1, 2, 1]
    spans = np.array([5, 6, 7], "m8[s]")
    assert gh.group_reduce(keys, spans, order="first", device="cpu")[1].tolist() == [
        datetime.timedelta(seconds=12),
        datetime.timedelta(seconds=6),
    ]
    days = np.array(["2020-01-05", "2020-01-06", "2020-01-01"], "M8[D]")
    found = gh.group_reduce(keys, days, "min", order="first", device="cpu")
    assert found[1].dtype == days.dtype
    assert found[1].tolist() == [datetime.date(2020, 1, 1), datetime.date(2020, 1, 6)]


@pytest.mark.parametrize(("op", "wanted"), [("sum", [5, 0]), ("min", [2, "NaT"]), ("max", [3, "NaT"])])
def test_times_that_are_missing_are_left_out(op, wanted, either):
    spans = np.array([3, "NaT", "NaT", 2, "NaT"], "m8[s]")
    keys = [1, 1, 2, 1, 2]
    found = gh.group_reduce(keys, spans, op, order="first", device="cpu")
    assert found[0].tolist() == [1, 2]
    assert str(found[1].tolist()) == str(np.array(wanted, "m8[s]").tolist())
    if op != "sum":
        found = gh.group_reduce(keys, spans.view("i8").view("M8[s]"), op, order="first", device="cpu")
        assert str(found[1].tolist()) == str(np.array(wanted, "m8[s]").view("M8[s]").tolist())


@pytest.mark.parametrize("op", ["add", "min", "max"])
def test_a_table_refuses_to_combine_times_that_are_missing(op):
    with gh.Table(key_dtype="i8", value_dtype="m8[s]", device="cpu") as t:
        for values in (np.array([1, "NaT"], "m8[s]"), np.timedelta64("NaT")):
            with pytest.raises(ValueError, match=r"values have NaT .* leave it out"):
                t.accumulate([1, 2], values, op=op)
        assert len(t) == 0


@pytest.mark.parametrize("op", ["sum", "min", "max", "mean"])
@pytest.mark.parametrize("value", [3, 2.5, np.uint8(200), math.nan])
def test_one_value_for_all(op, value, either):
    found, results = gh.group_reduce(["x", "y", "x"], value, op, order="first", device="cpu")
    assert found.tolist() == ["x", "y"]
    wanted = [2 * float(value) if op == "sum" else float(value), float(value)]
    assert list(map(str, results.astype("float64"))) == list(map(str, np.array(wanted)))


def test_groups_of_nothing(either):
    for op, dtype in (("sum", "int64"), ("min", "int32"), ("mean", "float64"), ("count", "int64")):
        found, results = gh.group_reduce(np.zeros(0, "uint8"), np.zeros(0, "int32"), op, device="cpu")
        assert found.dtype == np.uint8
        assert results.dtype == dtype
        assert found.shape == results.shape == (0,)


# ---- join_indexer ----------------------------------------------------------------------------------------------------


def partners(left, right, how):
    by_key = {}
    for j, key in enumerate(elements(right)):
        by_key.setdefault(key, []).append(j)
    nobody = [-1] if how == "left" else []
    return [(i, j) for i, key in enumerate(elements(left)) for j in by_key.get(key, nobody)]


@pytest.mark.parametrize("how", ["inner", "left"])
@pytest.mark.parametrize(
    ("left", "right"),
    [
        (RNG.integers(0, 500, 2_000), RNG.integers(250, 900, 1_500)),
        (RNG.integers(0, 500, 2_000), RNG.permutation(400)),
        (RNG.permutation(400).astype("uint16"), RNG.permutation(800)[:300].astype("uint16")),
        (np.full(60, 5.5), np.full(50, 5.5)),
        (RNG.choice(WORDS, 300), RNG.choice(WORDS, 300)),
        ((RNG.integers(0, 9, 400), RNG.choice(WORDS[:5], 400)), (RNG.integers(0, 9, 300), RNG.choice(WORDS[:5], 300))),
        ([1, 2, 3], [4, 5, 4]),
        ([1, 2, 3], [4, 5]),
        ([1, 2, 3], []),
        ([], [1, 1]),
        ([], []),
    ],
    ids=[
        "repeated",
        "keyed",
        "subset",
        "all",
        "text",
        "tuples",
        "none repeated",
        "none",
        "right empty",
        "left empty",
        "empty",
    ],
)
def test_join_indexer(left, right, how, either):
    i, j = gh.join_indexer(left, right, how, device="cpu")
    assert i.dtype == j.dtype == np.int64
    assert list(zip(i.tolist(), j.tolist(), strict=True)) == partners(left, right, how)


# ---- tables ----------------------------------------------------------------------------------------------------------


def test_large_columns_on_several_threads():
    keys = RNG.zipf(1.2, 400_000).astype("uint64") * np.uint64(0x9E3779B97F4A7C15)
    wanted, inverse, counts = np.unique(keys, return_inverse=True, return_counts=True)
    assert (np.sort(gh.unique(keys, device="cpu", threads=4)) == wanted).all()
    found, got = gh.value_counts(keys, device="cpu", threads=4)
    assert (found[np.argsort(found)] == wanted).all()
    assert (got[np.argsort(found)] == counts).all()
    codes, distinct = gh.factorize(keys, device="cpu", threads=4)
    assert (distinct[codes] == keys).all()
    first = np.unique(keys, return_index=True)[1]
    assert (distinct == keys[np.sort(first)]).all()
    found, sums = gh.group_reduce(keys, np.arange(keys.size), device="cpu", threads=4)
    assert (sums[np.argsort(found)] == np.bincount(inverse, np.arange(keys.size)).astype("int64")).all()


def test_arguments_go_to_the_table(backend, monkeypatch):
    made = []

    class Recorded(gh.Table):
        __slots__ = ()

        def __init__(self, *args, **arguments):
            super().__init__(*args, **arguments)
            made.append((self, arguments))

    monkeypatch.setattr(_table_verbs, "Table", Recorded)
    asked = {"backend": backend, "device": "cpu", "threads": 2, "seed": 3}
    keys = np.array([4, 4, 9], "uint32")
    assert gh.unique(keys, order="first", **asked).tolist() == [4, 9]
    assert gh.value_counts(keys, order="first", **asked)[1].tolist() == [2, 1]
    assert gh.factorize(keys, **asked)[0].tolist() == [0, 0, 1]
    assert gh.factorize(keys, order="any", **asked)[0].tolist() in ([0, 0, 1], [1, 1, 0])
    assert gh.isin(keys, np.array([9], "uint8"), **asked).tolist() == [False, False, True]
    assert gh.group_reduce(keys, [1, 2, 3], "mean", order="first", **asked)[1].tolist() == [1.5, 3]
    assert [part.tolist() for part in gh.join_indexer(keys, keys, **asked)] == [[0, 0, 1, 1, 2], [0, 1, 0, 1, 2]]
    with pytest.raises(OverflowError):
        gh.group_reduce(keys, [1, 2, 1 << 40], dtype="int32", **asked)
    for table, arguments in made:
        assert table.closed
        assert asked.items() <= arguments.items()
        assert arguments["key_dtype"] == np.uint32


def test_tensors_on_the_cpu(monkeypatch):
    """Results are tensors of the same library; text and tuples have none."""

    class Tensor:
        requires_grad = False
        device = SimpleNamespace(type="cpu")

        def __init__(self, array):
            self.array, self.ndim = array, array.ndim

        def numpy(self):
            return self.array

        def __dlpack_device__(self):
            return 1, 0

    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(Tensor=Tensor, from_numpy=Tensor))
    keys = Tensor(np.array([7, 5, 7], "int16"))
    there = {"device": "cpu", "order": "first"}
    results = [
        gh.unique(keys, **there),
        *gh.value_counts(keys, **there),
        *gh.factorize(keys, **there),
        gh.isin(keys, [5], device="cpu"),
        *gh.group_reduce(keys, Tensor(np.array([1.5, 2, 3])), **there),
        *gh.join_indexer(keys, [5, 5], device="cpu"),
    ]
    assert all(isinstance(result, Tensor) for result in results)
    assert [result.array.tolist() for result in results] == [
        [7, 5],
        *([7, 5], [2, 1]),
        *([0, 1, 0], [7, 5]),
        [False, True, False],
        *([7, 5], [4.5, 2.0]),
        *([1, 1], [0, 1]),
    ]
    assert isinstance(gh.isin([5], keys, device="cpu"), np.ndarray)
    (numbers, words), counts = gh.value_counts((keys, ["x", "y", "x"]), **there)
    assert isinstance(numbers, Tensor)
    assert numbers.array.tolist() == [7, 5]
    assert words.tolist() == ["x", "y"]
    assert counts.array.tolist() == [2, 1]


@pytest.mark.parametrize("column", [[1, 2], ["a", "b"], np.arange(1 << 15)], ids=["few", "text", "many"])
@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"threads": 1.5}, TypeError, "threads=1.5 is not an integer"),
        ({"threads": 0}, gh.InvalidArgument, "threads=0 is out of range: pass 1 to 4096"),
        ({"threads": "2"}, TypeError, "threads='2' is not an integer"),
        ({"capacity": -1}, gh.InvalidArgument, "capacity=-1 is out of range"),
        ({"capacity": "x"}, TypeError, "capacity='x' is not an integer"),
        ({"seed": 2**64}, gh.InvalidArgument, "seed=18446744073709551616 is out of range"),
    ],
)
def test_bad_numbers_are_refused_whatever_the_column(column, arguments, error, said):
    with pytest.raises(error, match=said):
        gh.unique(column, **arguments)


@pytest.mark.parametrize(
    ("element", "column", "wanted"),
    [
        (np.array(3), np.arange(5), True),
        (np.array(7, "uint8"), np.arange(5), False),
        (np.array("b"), ["a", "b"], True),
        (np.array("b", object), ["a", "b"], True),
        (np.void(b"ab"), np.array([b"ab"], "V2"), True),
        (np.array([(1, 2)], "i4, i4")[0], np.array([(1, 2)], "i4, i4"), True),
    ],
)
def test_isin_takes_arrays_without_a_dimension(element, column, wanted):
    assert gh.isin(element, column) == wanted
    assert gh.isin(column, element).tolist() == [wanted and x == element for x in column]


# ---- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda: gh.unique([1], order="last"), ValueError, "order='last' is neither 'any' nor 'first'"),
        (lambda: gh.value_counts([1], order=1), ValueError, "order=1 is neither"),
        (lambda: gh.group_reduce([1], 1, "median"), ValueError, "op='median' is none of sum, min, max, count, mean"),
        (
            lambda: gh.group_reduce([1], 1, "max", dtype="int8"),
            ValueError,
            "dtype='int8' is for op='sum': leave it out",
        ),
        (lambda: gh.join_indexer([1], [1], "outer"), ValueError, "how='outer' is neither 'inner' nor 'left'"),
        (lambda: gh.unique([1], key_dtype="int8"), TypeError, "key_dtype= is decided by the verb: leave it out"),
        (lambda: gh.isin([1], [1], value_dtype=None), TypeError, "value_dtype= is decided"),
        (lambda: gh.unique([1], grow=False), TypeError, "grow= is decided"),
        (lambda: gh.unique([1], needs=["multi"]), TypeError, "needs= is decided"),
        (lambda: gh.unique({1, 2}), TypeError, "keys is a set, which has no order: pass list"),
        (lambda: gh.unique([1], nulls="keep"), ValueError, "nulls='keep' is none of 'group', 'drop', 'refuse'"),
        (lambda: gh.unique([1.5], floats="exact"), ValueError, "floats='exact' is neither 'numbers' nor 'bits'"),
        (
            lambda: gh.unique([1], sort=True),
            LookupError,
            "unique has no keyword 'sort'.* It takes keys, order, nulls, floats",
        ),
        (
            lambda: gh.unique(["a"], backend="hive"),
            gh.Unsupported,
            "backend='hive' is for keys that are single numbers",
        ),
        (lambda: gh.unique(["a"], device="cuda"), gh.Unsupported, "device='cuda' is for keys that are single numbers"),
        (lambda: gh.unique(["a", None], nulls="refuse"), TypeError, "row 1 is null"),
        (lambda: gh.unique([[1], [1, 2]]), TypeError, r"keys\[0\] is a list, which has no equality here"),
        (lambda: gh.unique([1, "1"]), TypeError, r"keys\[0\] is of kind int, keys\[1\] of kind str"),
        (lambda: gh.unique([2**63 + 1, -1]), OverflowError, "9223372036854775809, which int64 lacks"),
        (lambda: gh.unique([2**53 + 1, 0.5]), OverflowError, "9007199254740993, which float64 lacks"),
        (lambda: gh.unique(([1, 2], [1])), ValueError, r"keys\[1\] has shape \(1,\), keys\[0\] \(2,\)"),
        (lambda: gh.unique((np.arange(3), 5)), TypeError, r"keys\[0\] is a column and keys\[1\] a single int: pass"),
        (lambda: gh.unique((None, np.arange(3))), TypeError, r"keys\[1\] is a column and keys\[0\] a single NoneType"),
        (lambda: gh.unique(["a", None], nulls="refuse"), TypeError, "^keys: row 1 is null"),
        (lambda: gh.isin(["a"], [None], nulls="refuse"), TypeError, "^among: row 0 is null"),
        (lambda: gh.factorize((np.arange(1),) * 5000), TypeError, "^keys: rows of more than 4096 columns"),
        (lambda: gh.isin([1], ["a"]), TypeError, "keys beside among: the column is int64 here and text there"),
        (lambda: gh.isin([b"a"], ["a"]), TypeError, "bytes here and text there"),
        (lambda: gh.isin([True], [1]), TypeError, "keys beside among: .* bool here and int64 there"),
        (lambda: gh.isin(["1", "x" * 41], [1]), TypeError, "text here and int64 there"),
        (lambda: gh.isin(([1], [2]), [1]), TypeError, "a struct of 2 fields here and int64 there"),
        (lambda: gh.isin(([1],), ([1], [2])), TypeError, "a struct of 1 fields here and a struct of 2 fields there"),
        (lambda: gh.join_indexer([1], ["a"]), TypeError, "left beside right: .* int64 here and text there"),
        (lambda: gh.join_indexer(np.ones((1, 1)), [1]), ValueError, r"left has shape \(1, 1\): pass a one-dimensional"),
        (lambda: gh.join_indexer([1], 1), TypeError, "right is a int, not a column"),
        (lambda: gh.group_reduce([1, 2], [1]), ValueError, r"values have shape \(1,\), keys \(2,\): pass one value"),
        (lambda: gh.group_reduce([1, 2], [1], "count"), ValueError, "values have shape"),
        (lambda: gh.group_reduce([1], ["a"]), TypeError, "values have dtype <U1: pass single numbers"),
        (lambda: gh.group_reduce([1], [1j]), TypeError, "values have dtype complex128"),
        (lambda: gh.group_reduce([1], np.array([1], "M8[s]")), TypeError, r"dtype datetime64\[s\] have no sum"),
        (lambda: gh.group_reduce([1], np.array([1], "M8[s]"), "mean"), TypeError, "have no mean"),
        (lambda: gh.group_reduce([1], np.array([1], "m8[s]"), "mean"), TypeError, "have no mean: use 'min' or 'max'"),
        (lambda: gh.group_reduce([1], [0.5], dtype="int32"), TypeError, "values"),
        (lambda: gh.group_reduce([1], 1, dtype="nothing"), TypeError, "dtype='nothing' is not a dtype"),
        (lambda: gh.unique([1], backend="nobody"), LookupError, "nobody"),
    ],
)
def test_bad_input(call, error, said):
    with pytest.raises(error, match=said):
        call()


# ---- arrays of a device ----------------------------------------------------------------------------------------------


@pytest.fixture
def gpu(monkeypatch):
    """cuda:0, whose memory is the host's."""
    with fake_cuda.installed(monkeypatch) as cuda:

        class Table(gh.Table):
            __slots__ = ()

            def __new__(cls, *args, **arguments):
                return super().__new__(cls)

            def __init__(self, *args, device, **arguments):
                assert device == "cuda:0"
                super().__init__(*args, device="cpu", **arguments)
                self._pretend(_core.CUDA)

            def _raw(self, *args, stream=0, **rest):
                cuda.bring(stream)
                return super()._raw(*args, **rest)

            def _export(self, room, keys, values, stream=0):
                cuda.bring(stream)
                return super()._export(room, keys, values)

        monkeypatch.setattr(_table_verbs, "Table", Table)
        monkeypatch.setattr(_device_groups, "KERNELS", False)  # which would look for the device
        yield cuda


@pytest.fixture
def cupy(gpu, monkeypatch):
    return fake_libraries.cupy(monkeypatch).asarray


@pytest.fixture(params=["cupy", "torch"])
def library(request, gpu, monkeypatch):
    """A function that makes an array of the library."""
    if request.param == "cupy":
        return fake_libraries.cupy(monkeypatch).asarray
    return fake_libraries.torch(monkeypatch).Tensor


@pytest.mark.parametrize("dtype", ["int32", "uint64", "float32"])
def test_keys_on_a_device(library, dtype):
    host = COLUMNS[dtype]
    keys = library(host)
    words = elements(host)
    for order in ("any", "first"):
        found = gh.unique(keys, order=order)
        assert type(found) is type(keys)
        assert found.array.dtype == dtype
        distinct, counts = gh.value_counts(keys, order=order)
        assert dict(zip(elements(distinct.array), counts.array.tolist(), strict=True)) == collections.Counter(words)
        assert counts.array.dtype == np.int64
        codes, names = gh.factorize(keys, order=order)
        assert codes.array.dtype == np.int64
        known = elements(names.array)
        assert [known[code] for code in codes.array] == words
        sums = gh.group_reduce(keys, library(np.arange(N)), order=order)
        check_groups([part.array for part in sums], reduced(host, np.arange(N), np.sum))
        for there in (found, distinct, names, sums[0]):
            if order == "first":
                assert elements(there.array) == appearance(host)
            assert sorted(elements(there.array)) == sorted(appearance(host))
    mask = gh.isin(keys, library(host[::5].copy()))
    wanted = set(words[::5])
    assert mask.array.tolist() == [word in wanted for word in words]


def test_a_subclass_is_an_array_of_its_library(library):
    """Results are plain arrays of that library, on its current stream."""
    plain = type(library(np.arange(3)))
    kind = type("Image", (plain,), {"__module__": "somewhere.tensors"})
    arguments = (lambda a: (0, 0, a)) if plain is fake_libraries.ndarray else (lambda a: (a,))
    keys = kind(*arguments(COLUMNS["int32"]))
    for found in (
        gh.unique(keys),
        gh.unique(keys, order="first"),
        *gh.value_counts(keys),
        *gh.factorize(keys),
        *gh.group_reduce(keys, library(np.arange(N))),
        gh.isin(keys, keys),
    ):
        assert type(found) is plain
    assert sorted(elements(gh.unique(keys).array)) == sorted(appearance(COLUMNS["int32"]))


def test_numbers_of_a_subclass_are_converted_by_its_library(gpu, monkeypatch):
    fake_libraries.cupy(monkeypatch)
    kind = type("Quantity", (fake_libraries.ndarray,), {"__module__": "somewhere.units"})
    keys, values = kind(0, 0, COLUMNS["int32"]), kind(0, 0, np.arange(N, dtype="f4"))
    for op in ("min", "max", "mean"):
        distinct, results = gh.group_reduce(keys, values, op)
        assert isinstance(results, fake_libraries.ndarray)
        assert len(distinct) == len(set(COLUMNS["int32"].tolist()))


def test_a_verb_is_not_captured(library, gpu, monkeypatch):
    """The way out is one that a verb's user has: grow= is no argument of it."""
    keys = library(COLUMNS["int32"])
    for call in (gh.unique, gh.value_counts, gh.factorize, lambda k, **more: gh.group_reduce(k, k, **more)):
        for current, stream in ((7, None), (0, fake_cuda.Stream(7))):  # the default stream is never captured
            gpu.capturing = {7}
            if isinstance(library, type):  # PyTorch's Tensor, which says which stream is current
                monkeypatch.setattr(library, "stream", current)
            with (
                fake_libraries.Stream(current),
                pytest.raises(gh.InvalidArgument, match=r"a verb gives results of a size .* outside of the capture"),
            ):
                call(keys, stream=stream)
    with pytest.raises(gh.InvalidArgument, match="a verb gives results of a size"):
        gh.isin(keys, keys, stream=fake_cuda.Stream(7))


JAX_CALLS = [
    (gh.value_counts, "int64", "jax_enable_x64', True\\), or pass numpy arrays"),
    (gh.factorize, "int64", "jax_enable_x64"),
    (lambda k: gh.factorize(k, order="any"), "int64", "jax_enable_x64"),
    (lambda k: gh.group_reduce(k, k), "int64", "jax_enable_x64', True\\), pass dtype='int32' or another of 4 bytes"),
    (lambda k: gh.group_reduce(k, k, "count"), "int64", "jax_enable_x64"),
    (lambda k: gh.group_reduce(k, k, "mean"), "float64", "jax_enable_x64"),
]


@pytest.mark.parametrize("where", ["gpu", "cpu"])
@pytest.mark.parametrize(("call", "dtype", "words"), JAX_CALLS)
def test_results_that_jax_would_cut(gpu, monkeypatch, where, call, dtype, words):
    """They are refused before anything is done; JAX itself only warns."""
    jax, host = fake_libraries.jax(monkeypatch, gpu), np.array([5, -1, 5, 7], np.int32)
    keys = jax.Array(0, 0, host)
    if where == "cpu":

        class Array:
            def __init__(self, array):
                self.array = array

            def __array__(self, dtype=None, copy=None):
                return self.array

        jax.Array, keys = Array, Array(host)
        jax.numpy.asarray = Array
    with pytest.raises(TypeError, match=f"results have dtype {dtype}, which JAX cuts to 32 bits.*{words}"):
        call(keys)


def test_floats_on_a_device(cupy):
    host = RNG.integers(0, 150, N)
    values = RNG.integers(-99, 99, N).astype("float32")
    values[RNG.integers(0, N, 40)] = math.nan
    values[host == 3] = math.nan
    keys = cupy(host)
    for op, ignoring in (("min", np.fmin), ("max", np.fmax)):
        for some in (values, np.nan_to_num(values)):
            found = gh.group_reduce(keys, cupy(some), op)
            assert found[1].array.dtype == np.float32
            check_groups([part.array for part in found], reduced(host, some, ignoring.reduce))
    found = gh.group_reduce(keys, cupy(values), "mean", order="first")
    assert elements(found[0].array) == appearance(host)
    check_groups([part.array for part in found], reduced(host, values, lambda group: group.mean(dtype="float64")))
    found = gh.group_reduce(keys, cupy(values), dtype="float64")
    assert found[1].array.dtype == np.float64
    check_groups([part.array for part in found], reduced(host, values, lambda group: group.sum(dtype="float64")))
    assert gh.group_reduce(keys, 2)[1].array.sum() == 2 * N


@pytest.mark.parametrize("name", ["int8", "uint16", "float16", "two dimensions"])
def test_narrow_keys_on_a_device(cupy, name):
    host = np.nan_to_num(COLUMNS[name])  # NaNs become others on their way through float32
    keys = cupy(host)
    found = gh.unique(keys, order="first")
    assert found.array.dtype == host.dtype
    assert elements(found.array) == appearance(host)
    codes, distinct = gh.factorize(keys, order="any")
    assert codes.array.shape == host.shape
    assert elements(distinct.array[codes.array]) == elements(host)


def test_results_are_waited_for_before_their_library_works_on_them(cupy, gpu, monkeypatch):
    """The table's calls are on the stream that was given, CuPy's on its own."""
    waited, host = [], COLUMNS["int32"]
    keys = cupy(host)
    monkeypatch.setattr(_cuda, "synchronize", lambda *stream: waited.append(stream))
    for call in (
        lambda **more: gh.value_counts(keys, order="first", **more),
        lambda **more: gh.factorize(keys, **more),
        lambda **more: gh.group_reduce(keys, cupy(np.ones(N)), "mean", **more),
    ):
        waited.clear()
        call()
        assert waited == []
        call(stream=fake_cuda.Stream(7))
        assert waited == [(0, 7)]


def test_one_column_on_a_device_and_one_on_the_host(cupy):
    keys = np.array([1, 2, 3, 2])
    assert gh.isin(cupy(keys), np.array([2])).array.tolist() == [False, True, False, True]
    assert gh.isin(cupy(keys.astype("uint8")), [2, 300]).array.tolist() == [False, True, False, True]
    mask = gh.isin(keys, cupy(np.array([2])))
    assert isinstance(mask, np.ndarray)
    assert mask.tolist() == [False, True, False, True]


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda k: gh.isin(k, k.astype("int64")), TypeError, "keys have dtype uint32, among int64: convert one"),
        (lambda k: gh.isin(k, [1.5]), TypeError, "among"),
        (lambda k: gh.isin([-1], k), OverflowError, "keys.*-1"),
        (lambda k: gh.join_indexer([1.5], k), TypeError, "left is on the host and right on a GPU: copy one of them"),
        (lambda k: gh.join_indexer(k, [1]), TypeError, "right is on the host and left on a GPU: copy one of them"),
        (lambda k: gh.join_indexer(k, k.astype("int64")), TypeError, "left has dtype uint32, right int64: convert one"),
        (lambda k: gh.join_indexer(k, k.reshape((3, 1))), ValueError, r"right has shape \(3, 1\): pass a one-dim"),
        (lambda k: gh.unique((k, [1])), TypeError, r"keys\[1\] is on the host and another column of keys on a GPU"),
        (lambda k: gh.group_reduce(k, np.zeros(3)), TypeError, "keys are on a GPU and values on the host"),
        (lambda k: gh.group_reduce([1, 2, 3], k), TypeError, "keys are on the host and values on a GPU"),
        (lambda k: gh.group_reduce(k, k[:2]), ValueError, r"values have shape \(2,\), keys \(3,\)"),
        (lambda k: gh.unique(k, order="none"), ValueError, "order='none'"),
    ],
)
def test_bad_input_on_a_device(cupy, call, error, said):
    with pytest.raises(error, match=said):
        call(cupy(np.arange(3, dtype="uint8")))


def test_arrays_that_cannot_be_converted(gpu):
    """Of pygpuhash's own kind, which have no arithmetic."""
    host = COLUMNS["int64"]
    keys = _cuda.from_host(host, 0)
    distinct, counts = gh.value_counts(keys, order="first")
    assert elements(distinct.get()) == appearance(host)
    assert counts.dtype == np.int64
    assert counts.get().tolist() == list(collections.Counter(elements(host)).values())
    codes, distinct = gh.factorize(keys)
    assert codes.dtype == np.int64
    assert (distinct.get()[codes.get()] == host).all()
    assert gh.isin(keys, keys).get().all()
    floats = _cuda.from_host(np.ones(N), 0)
    assert gh.group_reduce(keys, floats)[1].get().sum() == N
    with pytest.raises(gh.Unsupported, match="'min' of floats in a DeviceArray cannot leave out NaNs"):
        gh.group_reduce(keys, floats, "min")
    with pytest.raises(TypeError, match="keys are a DeviceArray, which cannot be asked to convert to uint32"):
        gh.unique(_cuda.from_host(COLUMNS["uint8"], 0))
    with pytest.raises(TypeError, match="'mean' of a DeviceArray"):
        gh.group_reduce(keys, floats, "mean")


@pytest.mark.parametrize("verb", [gh.unique, gh.value_counts, gh.factorize, lambda k, **o: gh.group_reduce(k, 1, **o)])
def test_an_unknown_order_is_refused_before_a_table_is_made(monkeypatch, verb):
    monkeypatch.setattr(_table_verbs, "Table", None)
    with pytest.raises(gh.InvalidArgument, match="order='last' is neither"):
        verb([1, 2], order="last")
