"""Lists, tuples, ranges and arrays of objects: one strict pass with one kind."""

from __future__ import annotations

import datetime as dt
import enum
import math
import uuid
from decimal import Decimal
from fractions import Fraction
from ipaddress import ip_address
from pathlib import Path, PureWindowsPath

import numpy as np
import oracle
import pytest
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st
from oracle import distinct, engine_keys, kind, pa, values

from pygpuhash.columns import read

PARIS = dt.timezone(dt.timedelta(hours=2))


class Nowhere(dt.tzinfo):
    def utcoffset(self, when):
        return None


def type_of(given) -> str:
    return str(kind(read(given, "keys")))


def back(given):
    column = read(given, "keys")
    return column.give(engine_keys(column))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([1, "1"], r"keys\[0\] is of kind int, keys\[1\] of kind str"),
        ([None, True, "True"], r"keys\[1\] is of kind bool, keys\[2\] of kind str"),
        ([b"a", "a"], r"kind bytes, keys\[1\] of kind str.*encode the text"),
        ([True, 1], r"keys\[0\] is of kind bool, keys\[1\] of kind int"),
        ([1, 2.5, True], r"keys\[1\] is of kind float, keys\[2\] of kind bool|keys\[0\].*keys\[2\] of kind bool"),
        ([0.5, np.True_], r"kind float, keys\[1\] of kind bool"),
        ([Decimal(1), 1], r"kind Decimal, keys\[1\] of kind int"),
        ([dt.date(2020, 1, 1), dt.datetime(2020, 1, 1)], r"kind date, keys\[1\] of kind datetime"),
        (
            [dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, tzinfo=PARIS)],
            "pass all of them with a time zone, or none",
        ),
        ([np.datetime64("2020"), dt.datetime(2020, 1, 1)], r"kind datetime64, keys\[1\] of kind datetime"),
        ([(1, 2), 3], r"kind tuple, keys\[1\] of kind int"),
        ([1j, 1], r"kind complex, keys\[1\] of kind int"),
        ([(1, "a"), ("1", "a")], r"keys, field 0,\[0\] is of kind int"),
    ],
)
def test_two_kinds_are_refused_with_both_and_their_places(given, words):
    for column in (given, *([] if isinstance(given[0], tuple) else [np.array(given, object)])):
        with pytest.raises(TypeError, match=words):
            read(column, "keys")


@pytest.mark.parametrize(
    ("x", "words"),
    [
        (uuid.UUID(int=1), r"keys\[1\] is a UUID, .*x\.bytes"),
        ([1, 2], r"keys\[1\] is a list, .*pass tuples"),
        (np.array(1), r"keys\[1\] is a ndarray"),
        ({1: 2}, r"keys\[1\] is a dict"),
        (Fraction(1, 2), r"keys\[1\] is a Fraction, .*numerator"),
        (object(), r"keys\[1\] is a object, which has no equality here: pass"),
        (np.longdouble(1), r"keys\[1\] is a longdouble"),
        (dt.datetime(2020, 1, 1, tzinfo=Nowhere()), r"keys\[1\] is a datetime with .*replace\(tzinfo=None"),
        (dt.time(1, tzinfo=PARIS), r"keys\[1\] is a time with a time zone"),
        (enum.Enum("Colour", "RED").RED, r"keys\[1\] is a Colour, .*x\.value"),
        (np.void(b"ab"), r"keys\[1\] is a void"),
        (Path("a"), r"keys\[1\] is a PosixPath, .*str\(x\) of each"),
        (PureWindowsPath("a"), r"keys\[1\] is a PureWindowsPath, .*str\(x\) of each"),
        (ip_address("::1"), r"keys\[1\] is a IPv6Address, .*x\.packed"),
        (range(3), r"keys\[1\] is a range, .*tuple\(x\)"),
        (memoryview(b"ab"), r"keys\[1\] is a memoryview, .*bytes\(x\)"),
        (int, r"keys\[1\] is a type, .*__name__"),
    ],
)
def test_objects_of_no_kind_are_refused_with_their_own_way_out(x, words):
    with pytest.raises(TypeError, match=words):
        read([None, x], "keys")


def test_pandas_periods_and_intervals_in_a_list_are_refused_with_their_own_way_out():
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    for x, words in ((pd.Period("2020"), "to_timestamp"), (pd.Interval(0, 1), r"\(x.left, x.right\)")):
        with pytest.raises(TypeError, match=words):
            read([x], "keys")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([1, 2**63, -1, 2**64], r"keys\[3\] is 18446744073709551616|keys\[1\] is 9223372036854775808"),
        ([-1, 2**63], r"keys\[1\] is 9223372036854775808"),
        ([2**63, -1], r"keys\[0\] is 9223372036854775808"),
        ([-(2**63) - 1], r"keys\[0\] is -9223372036854775809"),
        ([None, 0.5, 2**53 + 1], r"keys\[2\] is 9007199254740993, which float64 lacks"),
        ([0.5, 10**400], r"keys\[1\] is 1000"),
        ([Decimal("1e38")], r"keys\[0\] is 1E\+38, which has more than 38 digits"),
        ([Decimal("1e37"), Decimal("0.01")], r"keys\[0\] is 1E\+37"),
        ([Decimal("1e-39")], r"keys\[0\] is 1E-39"),
        ([dt.timedelta.max], r"keys\[0\] is datetime.timedelta"),
        (
            [np.datetime64("1600-01-01"), np.datetime64("2020-01-01T00:00:00.000000001", "ns")],
            r"keys\[0\] has dtype datetime64\[D\], keys\[1\] datetime64\[ns\]",
        ),
        ([np.timedelta64(2**62, "h")], r"keys\[0\] is 4611686018427387904 of timedelta64\[h\]"),
    ],
)
def test_numbers_beyond_the_range_are_refused(given, words):
    with pytest.raises(OverflowError, match=words):
        read(given, "keys")


@pytest.mark.parametrize("given", [["a", "\ud800"], np.array(["a", "\ud800"]), np.array(["a", "\ud800"], object)])
def test_lone_surrogates_are_refused(given):
    with pytest.raises(TypeError, match=r"keys\[1\] has a lone surrogate.*surrogatepass"):
        read(given, "keys")


def test_decimals_that_are_no_numbers_are_refused():
    for x in ("NaN", "sNaN", "-Infinity"):
        with pytest.raises(TypeError, match=r"keys\[1\] is "):
            read([Decimal(1), Decimal(x)], "keys")


def test_tuples_of_two_lengths_are_refused():
    with pytest.raises(TypeError, match=r"keys\[2\] is a tuple of 1, keys\[1\] of 2"):
        read([None, (1, 2), (1,)], "keys")
    with pytest.raises(TypeError, match=r"keys\[0\] is a tuple of nothing"):
        read([()], "keys")


def test_the_type_of_a_list():
    assert type_of([1, -1]) == type_of([np.int8(1), np.int16(1)]) == type_of([None, 1]) == "int64"
    assert type_of([0, 2**63]) == "uint64"
    assert type_of([1, 0.5]) == type_of([np.float32(1), 1]) == "double"
    assert type_of([np.float32(1), np.float32(2)]) == "float"
    assert type_of([np.uint8(1)]) == "uint8"
    assert type_of([True, None]) == type_of([np.True_]) == "bool"
    assert type_of(["a", np.str_("b")]) == "large_string"
    assert type_of([b"a", np.bytes_(b"b")]) == "large_binary"
    assert type_of([dt.datetime(2020, 1, 1, tzinfo=PARIS)]) == "timestamp[us, tz=UTC]"
    assert type_of([Decimal("1.5"), Decimal("-0.25")]) == "decimal128(38, 2)"
    assert type_of([]) == type_of(()) == type_of([None]) == "null"
    assert type_of(range(3)) == "int64"
    assert type_of(range(2**63, 2**63 + 2)) == "uint64"
    assert type_of([Decimal("1e-38")]) == "decimal128(38, 38)"
    assert type_of([Decimal(10**38 - 1)]) == "decimal128(38, 0)"
    assert type_of([np.timedelta64(1, "D"), np.timedelta64(1, "s")]) == "duration[s]"


def test_times_of_several_units_do_not_wrap():
    column = read([np.datetime64("1600-01-01"), np.datetime64("2020-01-01", "ns")], "keys")
    assert str(kind(column)) == "timestamp[us]"
    assert oracle.chunks(column)[0].to_pylist() == [dt.datetime(1600, 1, 1), dt.datetime(2020, 1, 1)]
    assert back([np.datetime64("1600-01-01"), np.datetime64("2020-01-01", "ns")]).dtype == "M8[us]"
    assert values(read([np.datetime64("NaT"), np.datetime64(1, "s")], "keys")) == [None, ("timestamp", 10**9)]


def test_pandas_timestamps_keep_their_nanoseconds():
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    given = [pd.Timestamp("2020-01-01T00:00:00.000000001"), pd.NaT, dt.datetime(2020, 1, 1)]
    base = 1577836800 * 10**9
    assert values(read(given, "keys")) == [("timestamp", base + 1), None, ("timestamp", base)]
    objects = back(np.array(given, object))
    assert objects[0] == given[0]
    assert type(objects[0]) is pd.Timestamp
    assert objects[1] is pd.NaT
    with pytest.raises(TypeError, match="nanoseconds and a time zone"):
        read([pd.Timestamp(1, tz="UTC")], "keys")
    assert values(read([pd.Timedelta(5), pd.NA], "keys")) == [("duration", 5), None]


def test_ambiguous_times_are_two_instants():
    zoneinfo = pytest.importorskip("zoneinfo")
    zone = zoneinfo.ZoneInfo("Europe/Berlin")
    first, second = (dt.datetime(2020, 10, 25, 2, 30, tzinfo=zone, fold=fold) for fold in (0, 1))
    assert values(read([first, second], "keys"))[1][1] - values(read([first], "keys"))[0][1] == 3600 * 10**9


def test_keys_of_lists_are_arrays_of_numpy():
    assert back([3, 1, 3]).dtype == "i8"
    assert back(["b", "a", "b"]).dtype == "U1"
    assert back([b"b", b"aa"]).dtype == "S2"
    assert back([""]).tolist() == [""]
    assert back([True, False, True]).tolist() == [True, False]
    assert back([dt.date(2020, 1, 1)]).dtype == "M8[D]"
    assert back([1j, 2j]).dtype == "c16"
    assert back([(1, "a"), (1, "a"), (2, None)]) == [(1, "a"), (2, None)]
    assert back([dt.time(1)]).tolist() == [dt.time(1)]
    assert back([Decimal("1.5")]).tolist() == [Decimal("1.5")]
    assert back([None, None]).tolist() == [None]


def test_keys_that_numpy_text_cannot_have_are_objects():
    assert back(["a", "a\0"]).tolist() == ["a", "a\0"]
    assert back([b"a", b"a\0"]).tolist() == [b"a", b"a\0"]


def test_one_long_text_does_not_make_all_keys_long():
    words = [f"word{i}" for i in range(1000)] + ["x" * 10**5]
    keys = back(words)
    assert keys.dtype == object
    assert keys.tolist() == words


@pytest.mark.parametrize("elements", [[1, None], [0.5, None], ["a", None], [True, None], [b"a", None], [1j, None]])
def test_a_null_key_is_none_and_never_nan(elements):
    assert back(elements).dtype == object
    assert back(elements).tolist() == elements


def test_a_null_among_times_is_nat():
    for x in (dt.datetime(2020, 1, 1), dt.date(2020, 1, 1), dt.timedelta(1), np.datetime64(1, "ns")):
        keys = back([x, None])
        assert keys.dtype.kind in "mM"
        assert np.isnat(keys).tolist() == [False, True]


def test_nan_is_a_float_in_a_list_and_null_among_objects():
    assert math.isnan(values(read([math.nan, 1.0], "keys"))[0])
    assert values(read([math.nan, None], "keys"))[1] is None
    assert values(read(np.array([math.nan, "a", None], object), "keys")) == [None, "a", None]
    assert back(np.array([math.nan, "a", None], object)).tolist()[1] == "a"
    assert math.isnan(back(np.array([math.nan, "a", None], object))[0])
    with pytest.raises(TypeError, match=r"keys\[0\] is of kind float, keys\[1\] of kind str"):
        read([math.nan, "a"], "keys")


def test_objects_come_back_as_objects():
    given = np.array([(1, "a"), None, (1, "a")], object)
    keys = back(given)
    assert keys.dtype == object
    assert keys.tolist() == [(1, "a"), None]
    assert read(np.array([[1, 2], [3, 4]], object), "keys").shape == (2, 2)
    assert back(np.array([2**63, 1], object)).tolist() == [2**63, 1]
    masked = np.ma.MaskedArray(np.array(["a", "b"], object), [False, True])
    assert values(read(masked, "keys")) == ["a", None]
    assert back(masked).mask.tolist() == [False, True]


def test_a_list_that_is_changed_meanwhile_is_read_as_it_was():
    class Clears(dt.tzinfo):
        def utcoffset(self, when):
            given.clear()
            return dt.timedelta(0)

    given = [dt.datetime(2020, 1, 1, tzinfo=Clears()), dt.datetime(2020, 1, 2, tzinfo=Clears())]
    assert read(given, "keys").length == 2


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=5), st.binary(max_size=5),
    st.dates(), st.datetimes(), st.tuples(st.integers(0, 3), st.text(max_size=2)),
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@for_all(st.lists(SCALARS, max_size=4))
def test_a_list_is_read_exactly_or_refused(elements):
    """No list becomes a column in which an element is another, or two elements that differ are one."""
    try:
        column = read(elements, "keys")
    except (TypeError, OverflowError):
        return
    kinds = {type(x) for x in elements if x is not None}
    assert len(kinds) <= 1 or kinds == {int, float}
    plain = [float(x) if kinds == {int, float} and x is not None else x for x in elements]
    want = oracle.python(pa.array([x if type(x) is not tuple else dict(zip("01", x, strict=True)) for x in plain]))
    assert [x == y or x != x for x, y in zip(values(column), want, strict=True)] == [True] * len(elements)
    assert len(distinct(values(column))) == len(distinct(want))
