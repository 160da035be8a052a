"""Columns of every library as keys and values of a `Table`: elements arrive bit for bit, or the column is refused."""

from __future__ import annotations

import contextlib
import datetime as dt
import sys
import uuid
from decimal import Decimal
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import oracle
import pytest
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st
from makers import ELEMENTS, LIBRARIES, Lacks
from oracle import COLUMNS, all_same, distinct, pa, values

import pygpuhash as gh
from pygpuhash.columns import read

# The dtypes of tables that have the elements of a column, by its name.
DTYPES = {
    **{f"{sign}int{bits}": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    **{"halves": "f2", "singles": "f4", "doubles": "f8", "booleans": "?", "bytes": "S72"},
    **{"dates": "M8[D]", "datetimes": "M8[us]", "lengths": "m8[us]"},
}
IN_NUMPY = {"dates", "datetimes", "lengths"}  # where numpy and pandas have NaT


def table(key_dtype, value_dtype="i8") -> gh.Table:
    return gh.Table("stadium", key_dtype=key_dtype, value_dtype=value_dtype, device="cpu")


def elements_of(array) -> list:
    """The elements of a result, in the form of the oracle."""
    if array.dtype.kind == "S":
        return array.tolist()
    return values(read(array, "result")) if len(array) else []


def refused(library: str, name: str, elements: list) -> str | None:
    """What the refusal of a column says, or None where a table takes it."""
    words = []
    if None in elements and not (name in IN_NUMPY and library in ("numpy", "pandas")):
        words.append("missing|None|masked")
    if name not in DTYPES and (elements or library == "numpy"):
        words.append(
            "rectangular|the table holds|no dtype of a table|time zone|not an integer|no equality|structs|is a "
        )
    if name == "bytes" and any(x is not None and x.endswith(b"\0") for x in elements):
        words.append("ends in NUL")
    return "|".join(words) or None


def check(library: str, name: str, elements: list, kind) -> None:
    given = LIBRARIES[library](elements, kind)
    dtype = DTYPES.get(name, "i8")
    words = refused(library, name, elements)
    count = np.arange(len(elements))
    if words is not None:
        for keys in (dtype, "i8"):
            with table(keys) as t:
                with pytest.raises((TypeError, OverflowError), match=words if keys == dtype else None):
                    t.insert(given, 1)
                assert len(t) == 0
        return
    want = oracle.python(pa.array(elements, kind))
    with table(dtype) as t:
        fresh = t.insert(given, count)
        assert fresh.shape == (len(elements),)
        assert int(fresh.sum()) == len(t) == len(distinct(want))
        assert t.contains(given).all()
        assert sorted(map(repr, all_same(elements_of(t.keys())))) == sorted(map(repr, all_same(distinct(want))))
        at = t.get(given, default=-1)
        assert all_same([want[i] for i in at.tolist()]) == all_same(want)
        assert t.erase(given).sum() == len(distinct(want))
    with table("i8", dtype) as t:
        t.insert(count, given)
        assert all_same(elements_of(t[count])) == all_same(want)


@pytest.mark.parametrize("name", [n for n in COLUMNS if not (n.endswith(" and nulls") or n.startswith("no"))])
@pytest.mark.parametrize("nulls", ["", " and nulls"])
@pytest.mark.parametrize("library", LIBRARIES)
def test_columns_of_every_library(library, name, nulls):
    elements, kind = COLUMNS.get(name + nulls, COLUMNS[name])
    if name == "bytes":
        elements = [x for x in elements if x is None or not x.endswith(b"\0")]
    if name in ("halves", "singles", "doubles"):
        elements = [x for x in elements if x is None or x == x]  # a NaN of other bits is another key of a table
    try:
        check(library, name, elements, kind)
    except Lacks:
        assert library != "Arrow"


@pytest.mark.parametrize("library", LIBRARIES)
@settings(max_examples=15, deadline=None)
@for_all(data=st.data())
def test_any_column_of_any_library(library, data):
    name = data.draw(st.sampled_from(sorted(ELEMENTS)))
    element = ELEMENTS[name].filter(lambda x: x == x)
    elements = data.draw(st.lists(element if data.draw(st.booleans()) else element | st.none(), max_size=12))
    with contextlib.suppress(Lacks):
        check(library, name, elements, COLUMNS[name][1])


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("name", [name for name in COLUMNS if name.startswith("no")])
def test_empty_columns(library, name):
    """A column without an element has none that does not fit; only numpy's text has a type that says otherwise."""
    elements, kind = COLUMNS[name]
    try:
        given = LIBRARIES[library](elements, kind)
    except Lacks:
        return
    if name == "no rows" and library != "list":
        with table("i8") as t, pytest.raises(TypeError, match=r"columns|structs"):
            t.insert(given, 1)
        return
    if library == "numpy" and name == "no text":
        with table("i8") as t, pytest.raises(TypeError, match="StringDType"):
            t.insert(given, 1)
        return
    for dtype in ("i8", "f4", "M8[s]", "?"):
        with table(dtype, dtype) as t:
            assert t.insert(given, given).shape == t.contains(given).shape == (0,)
            assert t.find(given)[0].dtype == np.dtype(dtype)
    with table(("i8", 2), "S4") as t:
        assert t.insert(given, given).shape == (0,)
        assert t[given].shape == (0,)


# ---- what is refused, by every method --------------------------------------------------------------------------------


def pandas():
    return pytest.importorskip("pandas", reason="pandas is not installed")


def polars():
    return pytest.importorskip("polars", reason="polars is not installed")


def calls(t: gh.Table, given, n: int) -> dict:
    """Each method of a table with the column as keys."""
    ops = [gh.Op.INSERT] * n
    return {
        "insert": lambda: t.insert(given, 1),
        "insert_or_assign": lambda: t.insert_or_assign(given, 1),
        "last": lambda: t.insert_or_assign(given, 1, dedup="last"),
        "accumulate": lambda: t.accumulate(given, 1),
        "execute": lambda: t.execute(ops, given, 1),
        "t[k] = v": lambda: t.__setitem__(given, 1),
        "find": lambda: t.find(given),
        "get": lambda: t.get(given, 5),
        "contains": lambda: t.contains(given),
        "t[k]": lambda: t[given],
        "erase": lambda: t.erase(given),
        "del": lambda: t.__delitem__(given),
        "count": lambda: t.count(given),
    }


def calls_of_values(t: gh.Table, given, n: int) -> dict:
    keys = np.arange(n)
    all_of = {
        "insert": lambda: t.insert(keys, given),
        "insert_or_assign": lambda: t.insert_or_assign(keys, given),
        "last": lambda: t.insert_or_assign(keys, given, dedup="last"),
        "execute": lambda: t.execute([gh.Op.INSERT] * n, keys, given),
        "t[k] = v": lambda: t.__setitem__(keys, given),
        "get": lambda: t.get(keys, given),
    }
    if t.value_dtype.kind in "biufm" and t.value_dtype.subdtype is None:
        all_of["accumulate"] = lambda: t.accumulate(keys, given)
    return all_of


TWO = {"a": [1, 2], "b": [3, 4]}
NUL = r"b'a\\x00' ends in NUL \(element 1\).*a table of rows, \('u1', 4\)"
GONE = r"has missing elements \(1, the first at 1\)"
UUID, PERIOD = uuid.UUID(int=5), "2020"
FIELDS = np.dtype([("k", "S4"), ("v", "i4")])
# dtype of the table, the column, words of the refusal
REFUSED = {
    "frame of pandas": ("i8", lambda: pandas().DataFrame(TWO), "is a DataFrame of 2 columns"),
    "frame of polars": ("i8", lambda: polars().DataFrame(TWO), "is a DataFrame of 2 columns"),
    "frame of floats": ("f8", lambda: polars().DataFrame({"a": [2**53 + 1], "b": [0.5]}), "of 2 columns"),
    "table of Arrow": ("i8", lambda: pa.table(TWO), "is a Table of 2 columns"),
    "batch of Arrow": ("i8", lambda: pa.record_batch(TWO), "is a RecordBatch of 2 columns"),
    "index of levels": ("i8", lambda: pandas().MultiIndex.from_arrays([[1], [2]]), "MultiIndex of 2 columns"),
    "Struct of polars": ("i8", lambda: polars().DataFrame(TWO).to_struct("s"), "is a Series of 2 columns"),
    "Array of polars": ("i8", lambda: polars().Series([[1, 2]], dtype=polars().Array(int, 2)), "of 2 columns"),
    "List of polars": ("i8", lambda: polars().Series([[1, 2]]), "is a column of list"),
    "struct of Arrow": ("i8", lambda: pa.array([{"a": 1}], pa.struct({"a": pa.int64()})), "of 1 columns"),
    "lists of Arrow": ("i8", lambda: pa.array([[1, 2]], pa.list_(pa.int64(), 2)), "is a column of list"),
    "structs of pandas": (
        "i8",
        lambda: pandas().Series([{"a": 1}], dtype=pandas().ArrowDtype(pa.struct({"a": pa.int64()}))),
        "column of structs",
    ),
    "decimals of polars": ("f8", lambda: polars().Series([Decimal("1.5")]), "column of decimals"),
    "times of Arrow": ("m8[us]", lambda: pa.array([dt.time(1)]), "column of times of the day"),
    "time of polars": ("i8", lambda: polars().Series([dt.time(1)]), "column of times of the day"),
    "text of polars": ("i8", lambda: polars().Series(["1"]), "the table holds int64"),
    "categories of polars": ("i8", lambda: polars().Series(["1"], dtype=polars().Categorical), "the table holds int64"),
    "null in Array": ("f8", lambda: polars().Series([[1.0, None]], dtype=polars().Array(float, 2)), "of 2 columns"),
    "null in rows": (("f8", 2), lambda: polars().DataFrame({"a": [0.5, None], "b": [1.0, 2.0]}), rf"\['a'\] {GONE}"),
    "null in rows of an Array": (
        ("f8", 2),
        lambda: polars().Series([[1.0, 2.0], [1.0, None]], dtype=polars().Array(float, 2)),
        GONE,
    ),
    "null in rows of pandas": (
        ("f8", 2),
        lambda: pandas().DataFrame({"a": pandas().array([1, None], dtype="Int64"), "b": [1.0, 2.0]}),
        rf"\['a'\] {GONE}",
    ),
    "rounded in rows": (
        ("f8", 2),
        lambda: pandas().DataFrame({"a": [2**53 + 1], "b": [0.5]}),
        rf"\['a'\]: element 0 is {2**53 + 1}, which has no exact float64",
    ),
    "rows of another width": (("i8", 3), lambda: polars().DataFrame(TWO), "of 2 columns"),
    "null of Int64": ("i8", lambda: pandas().Series([1, None], dtype="Int64"), GONE),
    "null of Float64": ("f8", lambda: pandas().Series([1, None], dtype="Float64"), GONE),
    "null of categories": ("f8", lambda: pandas().Series([1.5, None], dtype="category"), GONE),
    "null of times in categories": (
        "M8[ns]",
        lambda: pandas().Series([pandas().Timestamp(0), None]).astype("category"),
        GONE,
    ),
    "null of pandas over Arrow": (
        "M8[ns]",
        lambda: pandas().Series([pandas().Timestamp(0), None], dtype="timestamp[ns][pyarrow]"),
        GONE,
    ),
    "null of polars": ("f8", lambda: polars().Series([1.5, None]), GONE),
    "null of times": ("m8[us]", lambda: polars().Series([dt.timedelta(1), None]), GONE),
    "null of chunks": ("i8", lambda: pa.chunked_array([[1], [None, 2]]), GONE),
    "null of a dictionary": ("i8", lambda: pa.array([1, None]).dictionary_encode(), GONE),
    "null of bytes": ("S4", lambda: pa.array([b"a", None]), GONE),
    "nothing but nulls": ("i8", lambda: pa.nulls(2), r"missing elements \(2, the first at 0\)"),
    "periods": ("i8", lambda: pandas().Series(pandas().period_range(PERIOD, periods=2)), r"period.*to_timestamp"),
    "intervals": ("i8", lambda: pandas().Series(pandas().interval_range(0, 2)), "interval"),
    "instants": ("M8[us]", lambda: polars().Series([dt.datetime(2020, 1, 1, tzinfo=dt.UTC)]), "has a time zone"),
    "instant and null": (
        "M8[us]",
        lambda: pandas().Series([pandas().Timestamp(0, tz="UTC"), None]),
        "has a time zone",
    ),
    # lists
    "text beside numbers": ("i8", lambda: [1, "1"], r"'1' is not an integer, the table holds int64 \(element 1\)"),
    "a length beside numbers": ("m8[s]", lambda: [1, np.timedelta64(5, "s")], r"1 is not of .* \(element 0\)"),
    "lengths as floats": ("f8", lambda: [np.timedelta64(5, "s")], r"is not a number.*\(element 0\)"),
    "None": ("i8", lambda: [1, None], r"None is not an integer.*\(element 1\): leave out what is missing"),
    "None in rows": (("f8", 2), lambda: [[1.0, None]], r"None is not a number.*\(element \(0, 1\)\): leave out"),
    "Decimal": ("f8", lambda: [1.0, Decimal("1.5")], r"not a number.*\(element 1\): pass int\(x\) or float\(x\)"),
    "Fraction": ("i8", lambda: [Fraction(1, 2)], r"not an integer.*\(element 0\): pass int\(x\)"),
    "UUID": ("i8", lambda: [UUID], r"not an integer.*np.frombuffer\(x.bytes, 'u4'\)"),
    "one UUID": ("i8", lambda: UUID, r"is a UUID, not an array: pass np.frombuffer\(x.bytes, 'u4'\)"),
    "Period": ("i8", lambda: [pandas().Period(PERIOD)], "x.ordinal of each"),
    "Period as a time": ("M8[D]", lambda: [pandas().Period(PERIOD)], r"is not of .* \(element 0\): pass x.ordinal"),
    "rounded array of no dimension": ("f8", lambda: [0.5, np.array(2**53 + 1)], "has no exact float64"),
    "long double": ("f8", lambda: [np.longdouble(1) / 3], "element 0 is .*, which has no exact float64"),
    "columns in a list": ("f8", lambda: [polars().Series([0.5, None])], r"keys\[0\] is a Series: pass one column"),
    "frames in a list": ("i8", lambda: [pandas().DataFrame(TWO)], r"keys\[0\] is a DataFrame"),
    "arrays of Arrow in a list": ("f8", lambda: [[pa.array([0.5])]], r"keys\[0\]\[0\] is a DoubleArray"),
    "a tuple of columns": ("i8", lambda: (np.array([1]), np.array([2])), "is a tuple of 2 arrays"),
    "a rounded array in a list": ("f4", lambda: [np.array([0.1])], r"keys\[0\] have dtype float64"),
    "arrays of two lengths": ("i8", lambda: [np.array([1]), np.array([2, 3])], "rows of one length"),
    "ragged": ("M8[D]", lambda: [[dt.date(2020, 1, 1)], []], "rows of one length"),
    # times
    "a time cut": ("M8[s]", lambda: ["2020-01-01T00:00:00.5"], r"keys\[0\] is 2020-.*which is no datetime64\[s\]"),
    "hours in days": ("M8[D]", lambda: "2020-01-01T12", r"is 2020-01-01T12, which is no datetime64\[D\]"),
    "text with a zone": ("M8[s]", lambda: ["2020-01-01T00:00:00+02:00"], "has a time zone"),
    "text in UTC": ("M8[s]", lambda: ["2020-01-01T00:00:00Z"], "has a time zone"),
    "now": ("M8[s]", lambda: ["now"], "'now' is not of the table's"),
    "no month": ("M8[s]", lambda: ["2020-13-01"], "'2020-13-01' is not of the table's"),
    "a year beyond nanoseconds": ("M8[ns]", lambda: "9999-01-01T00:00:00.123456789", "is not of the table's"),
    "text as a length": ("m8[s]", lambda: ["5"], "'5' is not of the table's"),
    "units that wrap": (
        "M8[ns]",
        lambda: [np.datetime64("1600-01-01"), np.datetime64("2020-01-01", "ns")],
        r"keys\[0\] is 1600-01-01, which is no datetime64\[ns\]",
    ),
    "a length without a unit": ("m8[s]", lambda: np.timedelta64(5), "without a unit"),
    "lengths without a unit": ("m8[s]", lambda: np.array([5], "m8"), "without a unit"),
    # bytes, fields, complex numbers
    "NUL": ("S4", lambda: [b"a", b"a\0"], NUL),
    "NUL of objects": ("S4", lambda: np.array([b"a", b"a\0"], object), NUL),
    "NUL of Arrow": ("S4", lambda: pa.array([b"a", b"a\0"]), NUL),
    "NUL of polars": ("S4", lambda: polars().Series([b"a", b"a\0"]), NUL),
    "NUL of pandas": ("S4", lambda: pandas().Series([b"a", b"a\0"]), NUL),
    "NUL in four bytes": ("S4", lambda: pa.array([b"abc\0"], pa.binary(4)), "ends in NUL"),
    "NUL of one": ("S4", lambda: b"a\0", r"b'a\\x00' ends in NUL, "),
    "NUL in two dimensions": ("S4", lambda: [[b"a", b"b"], [b"a", b"a\0"]], r"ends in NUL \(element \(1, 1\)\)"),
    "long bytes": ("S4", lambda: [b"a", b"abcde"], r"has 5 bytes, the table's have at most 4 \(element 1\)"),
    "text as bytes": ("S4", lambda: [b"a", "b"], r"are bytes and str \(element 1\)"),
    "None among bytes": ("S4", lambda: [b"a", None], r"NoneType and bytes \(element 1\)"),
    "long bytes in a field": (FIELDS, lambda: [(b"abcdef", 1)], "field 'k': an element has 6 bytes"),
    "NUL in a field": (FIELDS, lambda: [(b"a\0", 1)], "field 'k': .* ends in NUL"),
    "text in a field": (FIELDS, lambda: [("a", 1)], "field 'k' are text"),
    "a number in bytes of a field": (FIELDS, lambda: [(5, 1)], "field 'k' are int"),
    "long text in a field": ([("x", "U2")], lambda: [("abc",)], "field 'x': 'abc' is no element"),
    "NUL in text of a field": ([("x", "U2")], lambda: [("a\0",)], "field 'x': .* is no element"),
    "short bytes in a field": ([("x", "V4")], lambda: [(b"abc",)], "field 'x': b'abc' is no element"),
    "floats in a field of rows": ([("x", "i4", 2)], lambda: [([1.5, 2],)], "field 'x': 1.5 is not an integer"),
    "large in a field of rows": ([("x", "u1", 4)], lambda: [([1, 2, 3, 300],)], "field 'x': 300 does not fit uint8"),
    "one number for a field of rows": ([("x", "i4", 2)], lambda: [(5,)], r"field 'x' has shape \(\)"),
    "rounded in a complex field": ([("x", "c8")], lambda: [(2**24 + 1,)], "field 'x': .* has no exact float32"),
    "infinite in a complex field": ([("x", "c8")], lambda: [(1e300,)], "field 'x': .* does not fit float32"),
    "another struct in a list": (
        FIELDS,
        lambda: [np.zeros((), [("k", "S8"), ("v", "i4")])[()]],
        "an element has dtype",
    ),
    "frame as fields": ([("a", "i4"), ("b", "i4")], lambda: polars().DataFrame(TWO), "pass np.rec.fromarrays"),
    "integers as complex": ("c16", lambda: np.array([2**53 + 1]), "has no exact float64"),
    "integers beside complex": ("c16", lambda: [1j, 2**53 + 1], "has no exact float64"),
    "large complex": ("c8", lambda: [complex(0, 1e300)], "does not fit float32"),
    "null as complex": ("c16", lambda: polars().Series([1.0, None]), GONE),
    "None as complex": ("c16", lambda: [1j, None], "None is not a number"),
    "a length as complex": ("c16", lambda: [np.timedelta64(1, "s")], "is not a number"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_by_every_method(case):
    dtype, make, words = REFUSED[case]
    given = make()
    n = 1 if isinstance(given, (str, bytes, uuid.UUID, np.timedelta64)) else len(given)
    with table(dtype) as t:
        for name, call in calls(t, given, n).items():
            with pytest.raises((TypeError, OverflowError), match=words):
                call()
            assert len(t) == 0, name
    with table("i8", dtype) as t:
        for name, call in calls_of_values(t, given, n).items():
            with pytest.raises((TypeError, OverflowError), match=words.replace("keys", "(values|default)")):
                call()
            assert len(t) == 0, name


@pytest.mark.parametrize("dtype", ["i8", "f4", "M8[D]", "S4", ("i8", 2), [("a", "i4"), ("b", "i4")]])
def test_no_words_of_numpy(dtype):
    """`in` takes one key: what is none is refused in words of this package."""
    with table(dtype) as t:
        for odd in ([[1], [2, 3]], [[1, 2], 3], [[], [1]], [1, [2]], {"a": 1}, UUID, Decimal(1)):
            with pytest.raises((TypeError, ValueError)) as caught:
                odd in t  # noqa: B015
            assert "inhomogeneous" not in str(caught.value)
            with pytest.raises((TypeError, ValueError)) as caught:
                t[odd] = 1
            assert "inhomogeneous" not in str(caught.value)


def test_one_key_among_others():
    with table("i8") as t:
        for several in ([1, 2], (1, 2), range(2), pa.array([1, 2]), np.array([1, 2])):
            with pytest.raises(TypeError, match="'in' takes one key, 2 were given"):
                several in t  # noqa: B015
    with table("S4") as t:
        t[b"a"] = 1
        assert b"a" in t
        assert b"a\0" not in t  # no key of this table ends in NUL


# ---- what is taken ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda: pandas().DataFrame({"a": [1, 3], "b": np.array([2, 2**40], "u8")}),
        lambda: polars().DataFrame({"a": [1, 3], "b": [2, 2**40]}),
        lambda: polars().DataFrame({"a": [1, 3], "b": [2, 2**40]}).to_struct("s"),
        lambda: polars().Series([[1, 2], [3, 2**40]], dtype=polars().Array(int, 2)),
        lambda: pa.table({"a": [1, 3], "b": pa.array([2, 2**40], pa.uint64())}),
        lambda: pa.record_batch({"a": [1, 3], "b": [2, 2**40]}),
        lambda: pa.array([(1, 2), (3, 2**40)], pa.struct([("a", pa.int64()), ("b", pa.int64())])),
        lambda: pandas().MultiIndex.from_arrays([[1, 3], [2, 2**40]]),
    ],
)
def test_frames_are_rows_column_by_column(make):
    given = make()
    with table(("i8", 2)) as t:
        assert t.insert(given, [5, 6]).tolist() == [True, True]
        assert t[np.array([[1, 2], [3, 2**40]])].tolist() == [5, 6]
        assert t.get(given).tolist() == [5, 6]
    with table("i8", ("i8", 2)) as t:
        t[[0, 1]] = given
        assert t[[1, 0]].tolist() == [[3, 2**40], [1, 2]]


def test_columns_that_were_read_through_floats():
    large = [2**53 + 1, 2**53, -(2**63)]
    with table("i8") as t:
        for given in (
            pandas().Series(large, dtype="category"),
            pandas().Series(large, dtype="Int64"),
            pandas().Index(large, dtype="int64[pyarrow]"),
            pandas().arrays.SparseArray(large),
            pa.array(large).dictionary_encode(),
            pa.chunked_array([large[:1], [], large[1:]]),
            polars().Series(large),
            [np.array(x) for x in large],
            [np.array(large[:2]), np.array(large[1:])],
        ):
            t.clear()
            assert t.insert(given, 1).all() or len(given) == 2
            assert sorted(t.keys().tolist()) == sorted(large)


def test_times_of_several_units_in_a_list():
    moments = [np.datetime64("1600-01-01"), np.datetime64("2020-01-01", "ns"), dt.date(1, 1, 1), "2020-02-29"]
    with table("M8[D]") as t:
        assert t.insert(moments, 1).all()
        assert sorted(t.keys().tolist()) == sorted(
            [dt.date(1600, 1, 1), dt.date(2020, 1, 1), dt.date(1, 1, 1), dt.date(2020, 2, 29)]
        )
        assert t.contains([[dt.date(1600, 1, 1)], [dt.date(1600, 1, 2)]]).tolist() == [[True], [False]]
        assert t.contains([np.array(["1600-01-01", "2020-01-01"], "M8[s]")]).all()
        assert t.contains(["1600", "1600-01", "1600-01-01T00", "1600-01-01 00:00:00.000"]).all()
        assert t.find("NaT")[1] == np.False_


def test_what_python_s_numbers_are_rounded_to_stays():
    """Python's floats have no precision of their own: they are rounded to the table's, as its complex numbers are."""
    with table("c8", "f4") as t:
        t[0.1 + 0.1j] = 0.1
        assert t[np.complex64(0.1 + 0.1j)] == np.float32(0.1)
        assert t.insert([1, 2.5, np.float64(3), True], [0.5, 1, np.float32(2), np.array(3.5)]).tolist() == [
            True
        ] * 3 + [False]
        assert t.insert(np.array([5, 6], "u2"), 1).all()
        assert t.insert(np.array([7.5], "f4"), 1).all()


def test_fields_that_hold_their_elements():
    dtype = [("s", "S4"), ("u", "U2"), ("v", "V4"), ("m", "i4", (2, 2)), ("c", "c8"), ("t", "M8[s]")]
    row = (b"abcd", "ab", b"\0\0\0\0", [[1, 2], [3, 4]], 1j, np.datetime64("2020"))
    with table(dtype) as t:
        assert t.insert([row], 5).all()
        assert t[row] == 5
        assert t[t.keys()].tolist() == [5]
        assert t[[t.keys()[0]]].tolist() == [5]
        assert t.keys()["t"].tolist() == [dt.datetime(2020, 1, 1)]


def test_bytes_of_rows_end_in_nul():
    """The way out of the refusal."""
    keys = [b"a\0\0\0", b"a\0\0b", b"\0\0\0\0"]
    with table(("u1", 4)) as t:
        assert t.insert(np.frombuffer(b"".join(keys), "u1").reshape(-1, 4), [1, 2, 3]).all()
        assert sorted(row.tobytes() for row in t.keys())  # noqa: SIM118 == sorted(keys)


# ---- times that are combined -----------------------------------------------------------------------------------------

NATS = {
    "array": lambda: np.array([5, "NaT"], "m8[s]"),
    "another unit": lambda: np.array([5, "NaT"], "m8[ms]") * 1000,
    "list": lambda: [np.timedelta64(5, "s"), np.timedelta64("NaT")],
    "list of two kinds": lambda: [dt.timedelta(seconds=5), np.timedelta64("NaT")],
    "list of pandas": lambda: [pandas().Timedelta(5, "s"), pandas().NaT],
    "pandas": lambda: pandas().Series(np.array([5, "NaT"], "m8[s]")),
    "two dimensions": lambda: np.array([[5, "NaT"]], "m8[s]"),
    "one": lambda: np.timedelta64("NaT"),
}


@pytest.mark.parametrize("op", ["add", "min", "max"])
@pytest.mark.parametrize("name", NATS)
def test_nat_is_not_combined(name, op):
    given = NATS[name]()
    keys = np.ones(np.shape(given) or 2, int)
    where = 0 if np.ndim(given) == 0 else 1
    with table("i8", "m8[s]") as t:
        with pytest.raises(gh.InvalidArgument, match=rf"values have NaT \(the first at index {where}\)"):
            t.accumulate(keys, given, op=op)
        ops = np.full(keys.shape, gh.Op.ACCUMULATE, "u1")
        with pytest.raises(gh.InvalidArgument, match="values have NaT"):
            t.execute(ops, keys, given, op=op)
        assert len(t) == 0
        ops[..., 1] = gh.Op.ASSIGN
        if where:
            t.execute(ops, keys, given, op=op)
            assert len(t) == 1


def test_times_are_combined():
    with table("i8", "m8[s]") as t:
        t.accumulate([1, 1, 2], [dt.timedelta(seconds=1), np.timedelta64(2, "m"), np.timedelta64(3, "s")])
        assert t[1] == np.timedelta64(121, "s")
        assert t[2] == np.timedelta64(3, "s")
        t.execute([gh.Op.ACCUMULATE, gh.Op.FIND], [1, 2], np.timedelta64(1, "s"))
        assert t[1] == np.timedelta64(122, "s")
        with pytest.raises(ValueError, match="values have shape"):
            t.execute([gh.Op.ACCUMULATE], [1], np.array([1, "NaT"], "m8[s]"))


# ---- arguments -------------------------------------------------------------------------------------------------------


class Tensor:
    """As much of a PyTorch tensor as the package asks for."""

    requires_grad = False
    layout = "strided"
    device = SimpleNamespace(type="cpu")

    def __init__(self, array):
        assert np.asarray(array).dtype.kind in "biufc"  # PyTorch has no others
        self.array, self.dtype, self.ndim = np.asarray(array), np.asarray(array).dtype, np.ndim(array)

    def numpy(self):
        return self.array

    def all(self):
        return self.array.all()

    def __dlpack_device__(self):
        return 1, 0


@pytest.mark.parametrize("value_dtype", ["f8", "i2", ("f4", 2), ("f4", (2, 2)), ("f4", 4), "c8", "m8[s]", "S4", FIELDS])
def test_get_with_tensors_is_get(monkeypatch, value_dtype):
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(Tensor=Tensor, from_numpy=Tensor))
    dtype = np.dtype(value_dtype)
    stored = np.frombuffer(np.arange(1, 1 + 2 * dtype.itemsize, dtype="u1").tobytes(), dtype)
    defaults = [0] if dtype.kind in "mSV" and dtype.subdtype is None else [0, stored[0]]
    with table("i8", dtype) as t:
        t.insert([1, 2], stored)
        for default in defaults:
            for keys in (np.array([1, 2, 3]), np.array([[3], [1]]), np.array(2), np.array(3)):
                want, got = t.get(keys, default), t.get(Tensor(keys), default)
                got = got.array if isinstance(got, Tensor) else got
                assert np.shape(got) == np.shape(want)
                assert np.asarray(got).tobytes() == np.asarray(want, np.asarray(got).dtype).tobytes()
        found, there = t.find(Tensor(np.array([1, 3])))
        assert np.shape(getattr(found, "array", found)) == (2, *np.shape(stored[0]))
        assert there.array.tolist() == [True, False]


@pytest.mark.parametrize("argument", ["key_dtype", "value_dtype"])
def test_types_of_other_libraries(argument):
    pd, pl = pandas(), polars()
    taken = {
        "i8": [pl.Int64, pl.Int64(), pa.int64(), pd.Int64Dtype(), pd.Int64Dtype, pd.ArrowDtype(pa.int64())],
        "u1": [pl.UInt8, pa.uint8(), pd.UInt8Dtype()],
        "f4": [pl.Float32, pa.float32(), pd.Float32Dtype()],
        "f2": [pa.float16()],
        "?": [pl.Boolean, pa.bool_(), pd.BooleanDtype()],
        "M8[D]": [pl.Date, pa.date32()],
        "M8[ms]": [pa.date64(), pa.timestamp("ms"), pl.Datetime("ms"), pd.ArrowDtype(pa.timestamp("ms"))],
        "m8[ns]": [pl.Duration("ns"), pa.duration("ns")],
        "S16": [pa.binary(16)],
    }
    refused = {
        "time zone": [pl.Datetime("us", "UTC"), pa.timestamp("s", "UTC"), pd.DatetimeTZDtype(tz="UTC")],
        "is text": [pl.String, pa.string(), pa.large_string(), pd.StringDtype()],
        "has no width": [pl.Binary, pa.binary()],
        "tables do not have|not a dtype": [
            *(pl.Decimal(9, 2), pl.List(int), pl.Struct({"a": int}), pl.Categorical, pl.Null, pl.Time, pl.Int128),
            *(pa.decimal128(9), pa.list_(pa.int8()), pa.dictionary(pa.int8(), pa.int64()), pa.null(), pa.time32("s")),
            *(pd.CategoricalDtype(), pd.PeriodDtype("D"), pd.IntervalDtype()),
        ],
        "not supported": [pl.Object],
        "has no unit": ["M8", "m8", np.dtype("m8")],
    }
    for dtype, given in taken.items():
        for one in given:
            with gh.Table("stadium", **{argument: one}, device="cpu") as t:
                assert getattr(t, argument) == np.dtype(dtype), one
    if argument == "key_dtype":  # tables of text
        for words, key in (("is text", str), ("has no width", bytes)):
            for one in refused.pop(words):
                with gh.Table("stadium", key_dtype=one, device="cpu") as t:
                    assert t.key_dtype is key
    for words, given in refused.items():
        for one in given:
            with pytest.raises(TypeError, match=f"{argument}.*({words})"):
                gh.Table("stadium", **{argument: one}, device="cpu")


def test_floats_that_are_integers_are_sizes():
    with gh.Table(capacity=1e3, threads=1.0, seed=np.float32(5), device="cpu") as t:
        assert t.capacity >= 1000
        assert t.seed == 5
        t.reserve(1e4)
        assert t.capacity >= 10_000
    for odd in (1.5, float("inf"), float("nan"), "1e6", 1e6 + 0j):
        with pytest.raises(TypeError, match=r"capacity=.* is not an integer"):
            gh.Table(capacity=odd, device="cpu")
    with pytest.raises(gh.InvalidArgument, match="capacity=-1 is out of range"):
        gh.Table(capacity=-1.0, device="cpu")
