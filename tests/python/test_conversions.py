"""Arrays of another dtype than the table's: what goes in unchanged, and how the element that does not is named."""

import datetime
from types import SimpleNamespace

import numpy as np
import pytest

import pygpuhash as gh
from pygpuhash import _arrays

INTEGERS = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]


def limits(dtype):
    return (0, 1) if dtype == "bool" else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("given", INTEGERS)
def test_integers_go_in_when_every_one_fits(given, dtype):
    low, high = max(limits(given)[0], limits(dtype)[0]), min(limits(given)[1], limits(dtype)[1])
    keys = np.unique(np.array([low, 0, 1, high // 2, high], given)).reshape(1, -1)
    with gh.Table(key_dtype=dtype, value_dtype=dtype, device="cpu") as table:
        assert table.insert(keys[:, ::-1], keys[:, ::-1]).all()
        assert table.keys().dtype == dtype
        assert sorted(map(int, table.keys())) == sorted(map(int, keys.reshape(-1)))
        assert (table[keys] == keys.astype(dtype)).all()
        least, most = limits(given)
        for outside in {x for x in (least, low - 1, high + 1, most) if least <= x <= most and not low <= x <= high}:
            wrong = np.array([[1, 1, 1], [1, outside, outside]], given)
            words = rf"keys: element \(1, 1\) is {outside}, which does not fit {dtype} \({limits(dtype)[0]} to"
            with pytest.raises(OverflowError, match=words):
                table.insert(wrong, 1)
            with pytest.raises(OverflowError, match=rf"values: element 4 is {outside}, which"):
                table.insert(np.zeros(6, dtype), wrong.reshape(-1))
        assert len(table) == keys.size


@pytest.mark.parametrize("given", ["int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize(("n", "at"), [(1, 0), (9, 0), (9, 4), (9, 8)])
def test_one_element_of_the_other_sign(given, n, at):
    """Arrays of the table's width go in as they are, but for this one, wherever it is."""
    dtype = given[1:] if given.startswith("u") else f"u{given}"
    array = np.arange(1, n + 1, dtype=given)
    with gh.Table(key_dtype=dtype, value_dtype=dtype, device="cpu") as table:
        assert table.insert(array, array).all()
        array[at] = -5 if given.startswith("i") else np.iinfo(given).max - 4
        for call in (lambda: table.contains(array), lambda: table.insert(np.arange(n, dtype=dtype), array)):
            with pytest.raises(OverflowError, match=rf"element {at} is {array[at]}, which does not fit {dtype}"):
                call()


def test_the_first_lines_that_one_writes():
    table = gh.Table(device="cpu")
    assert table.insert(np.arange(5), 1).all()
    assert table.value_dtype == np.int64
    table.accumulate(np.array([1, 1, 3]))
    values = table[np.arange(5)]
    assert values.tolist() == [1, 3, 1, 2, 1]
    assert np.repeat(np.arange(5), values).size == 8
    assert np.repeat(np.arange(5), table.count(np.arange(5))).size == 5
    assert (values - 4).tolist() == [-3, -1, -3, -2, -3]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_integers_go_into_floats_when_they_are_exact(dtype):
    exact = 2 ** (np.finfo(dtype).nmant + 1)
    with gh.Table(value_dtype=dtype, device="cpu") as table:
        fits = np.array([0, exact, -exact, 2 * exact] if dtype != "float16" else [0, 2048, -2048, 4096])
        assert table.insert(np.arange(4), fits).all()
        assert table[np.arange(4)].astype(int).tolist() == fits.tolist()
        with pytest.raises(TypeError, match=rf"element 1 is {exact + 1}, which has no exact {dtype}"):
            table.insert(np.arange(2), np.array([1, exact + 1]))
        with pytest.raises(TypeError, match=rf"element 0 is {2**64 - 1}, which has no exact {dtype}"):
            table.insert(np.arange(1), np.array([2**64 - 1], np.uint64))
        assert len(table) == 4


@pytest.mark.parametrize("given", ["int8", "uint64", "float32", "float64", "bool", "object", "datetime64[s]"])
@pytest.mark.parametrize("dtype", ["uint64", "int32", "float32", "datetime64[D]"])
def test_empty_arrays_are_empty_batches(given, dtype):
    with gh.Table(key_dtype=dtype, value_dtype=dtype, device="cpu") as table:
        empty = np.empty((3, 0), given)
        assert table.insert(empty, empty).shape == (3, 0)
        values, found = table.find(empty)
        assert values.dtype == dtype
        assert values.shape == found.shape == (3, 0)


@pytest.mark.parametrize(
    ("keys", "error", "words"),
    [
        (np.array([1.0, np.nan, 2.0]), TypeError, r"1 of them are NaN: keys: element 1 is nan.*keys\[~np.isnan\(keys"),
        (np.array([1.0, 2.5]), TypeError, "keys: element 1 is 2.5, which is not an integer"),
        (np.array([1.0, 2.0]), TypeError, r"all are whole numbers, so pass keys.astype\('uint64'\)"),
        ((i for i in range(3)), TypeError, r"keys is a generator, not an array: pass list\(keys\)"),
        ({1: 2}.keys(), TypeError, r"keys is a dict_keys, not an array: pass list\(keys\)"),
        (slice(1, 3), TypeError, "keys is a slice, not an array: pass an array, a list or a number"),
        (object(), TypeError, "keys is a object, not an array"),
        (datetime.date(2024, 2, 29), TypeError, "keys is a date, not an array"),
        (np.array([1, "a", 2], object), TypeError, "pass an array of numbers; keys: element 1 is a"),
        (np.array([1, 2], object), TypeError, r"dtype object.*keys.astype\('uint64'\)"),
        (np.array(["2024"], "M8[D]"), TypeError, r"datetime64\[D\], the table holds uint64"),
        (np.empty(0, "U3"), TypeError, "dtype <U3, the table holds uint64: pass an array of numbers"),
    ],
)
def test_what_is_refused_and_why(keys, error, words):
    with gh.Table(device="cpu") as table:
        with pytest.raises(error, match=words) as caught:
            table.find(keys)
        if "NaN" in words:
            assert "astype" not in str(caught.value)
        assert len(table) == 0


@pytest.mark.parametrize("large", [1e39, -1e39, 10**39, -(10**39)])
def test_numbers_that_would_become_infinite(large):
    with gh.Table(key_dtype="float32", value_dtype="float32", device="cpu") as table:
        for given in (large, [1, large]):
            with pytest.raises(OverflowError, match="fit float32"):
                table.contains(given)
            with pytest.raises(OverflowError, match="fit float32"):
                table.insert(np.zeros(np.shape(given), "f4"), given)
        assert len(table) == 0
        table[[np.inf, -np.inf]] = [-np.inf, np.inf]
        assert table[np.inf] == -np.inf


def test_floats_are_not_rounded_unasked():
    with (
        gh.Table(value_dtype="float32", device="cpu") as table,
        pytest.raises(TypeError, match=r"float64, the table holds float32, to which they would be rounded: pass val"),
    ):
        table.insert(np.arange(2), np.array([0.5, 0.1]))


def test_a_key_that_the_dtype_lacks_is_not_in_the_table():
    with gh.Table(device="cpu") as table:
        table.insert([5, 0], 1)
        for absent in (-5, 2**64, 5.5, float("nan"), float("inf"), np.int64(-5), np.float32(0.5)):
            assert absent not in table
        for present in (5, 5.0, np.int8(5), np.float64(5), True - 1, np.array(5)):
            assert present in table
        for odd in ("5", None, b"5"):
            with pytest.raises(TypeError):
                odd in table  # noqa: B015
    with gh.Table(key_dtype="float32", device="cpu") as table:
        table.insert([2.0**24, 0.1], 1)
        assert 2**24 in table
        assert 2**24 + 1 not in table
        assert 0.1 in table  # rounded as it was when it went in
    with gh.Table(key_dtype="datetime64[D]", device="cpu") as table:
        table["2024-02-29"] = 1
        assert datetime.date(2024, 2, 29) in table
        assert datetime.datetime(2024, 2, 29) in table
        assert datetime.datetime(2024, 2, 29, 12) not in table


# ---- times -----------------------------------------------------------------------------------------------------------

NOON = datetime.datetime(2024, 2, 29, 12)


def test_times_of_python():
    with gh.Table(key_dtype="datetime64[s]", value_dtype="timedelta64[ms]", device="cpu") as table:
        table[NOON] = datetime.timedelta(seconds=1)
        table[[NOON.date(), NOON]] = [datetime.timedelta(0), np.timedelta64("NaT")]
        assert table[np.datetime64("2024-02-29T12:00", "us")].astype(int) == np.timedelta64("NaT").astype(int)
        assert table.find(np.datetime64("NaT"))[1] == np.False_
        table[np.datetime64("NaT")] = np.timedelta64(5, "s")
        assert table[np.datetime64("NaT")] == np.timedelta64(5000, "ms")
        assert np.datetime64("NaT") in table
        assert len(table) == 3
        with pytest.raises(TypeError, match=r"(is|element \d is) \S+, which is no datetime64"):
            table.find(NOON.replace(microsecond=1))
        with pytest.raises(TypeError, match=r"has a time zone.*UTC"):
            table.find(NOON.replace(tzinfo=datetime.UTC))
        with pytest.raises(TypeError, match="not of the table's"):
            table.find(datetime.timedelta(1))
        with pytest.raises(TypeError, match="5 is not of the table's"):
            table.find([NOON, 5])


def test_times_of_another_unit():
    days = np.array(["2024-02-29", "NaT", "1969-12-31"], "M8[D]")
    with gh.Table(key_dtype="datetime64[s]", device="cpu") as table:
        assert table.insert(days, 1).all()
        assert table.contains(days.astype("M8[ms]")).all()
        with pytest.raises(TypeError, match=r"element 2 is 2024-02-29T00:00:00.001, which is no datetime64\[s\]"):
            table.find(np.concatenate([days[:2], days[:1]]).astype("M8[ms]") + np.array([0, 0, 1], "m8[ms]"))
    with (
        gh.Table(key_dtype="datetime64[ns]", device="cpu") as table,
        pytest.raises((TypeError, OverflowError), match="datetime64"),
    ):
        table.find(np.array(["9999-12-31"], "M8[D]"))
    with (
        gh.Table(key_dtype="timedelta64[D]", device="cpu") as table,
        pytest.raises(TypeError, match="convert them"),
    ):
        table.find(np.array([1], "m8[Y]"))


def test_times_of_pandas():
    pandas = pytest.importorskip("pandas")
    stamp = pandas.Timestamp("2024-02-29 12:00:00.123456789")
    with gh.Table(key_dtype="datetime64[ns]", value_dtype="timedelta64[ns]", device="cpu") as table:
        table[stamp] = pandas.Timedelta("1ns")
        table[pandas.NaT] = pandas.NaT
        assert table[stamp] == np.timedelta64(1, "ns")
        assert stamp in table
        assert pandas.NaT in table
        column = pandas.Series([stamp, pandas.NaT])
        assert table.contains(column).all()
        assert table.contains(column.tolist()).all()
        assert not table.contains(pandas.Series(pandas.to_datetime(["2024-02-29"]))).any()
        with pytest.raises(TypeError, match="has a time zone"):
            table.find(column.dt.tz_localize("UTC"))


class NotATime:
    """As NaT of pandas, which is of neither sort."""

    def to_datetime64(self):
        return np.datetime64("NaT")


@pytest.mark.parametrize("dtype", ["datetime64[s]", "timedelta64[s]"])
def test_what_is_no_time_goes_into_times_of_either_sort(dtype):
    with gh.Table(key_dtype=dtype, device="cpu") as table:
        assert table.insert([np.array("NaT", dtype)[()]], 1).all()
        assert NotATime() in table
        assert table.contains([NotATime()]).all()


class Column:
    """A column, or a frame, which says of itself what polars' and Arrow's do."""

    def __init__(self, array, **says):
        self.array = array
        self.__dict__.update(says)

    def __array__(self, dtype=None, copy=None):
        return self.array


@pytest.mark.parametrize("says", [{"dtype": SimpleNamespace(time_zone="UTC")}, {"type": SimpleNamespace(tz="UTC")}])
def test_times_with_a_zone_of_polars_and_arrow(says):
    with gh.Table(key_dtype="datetime64[s]", device="cpu") as table:
        with pytest.raises(TypeError, match="has a time zone"):
            table.insert(Column(np.array([NOON], "M8[us]"), **says), 1)
        nothing = {sort: SimpleNamespace(**dict.fromkeys(vars(kind))) for sort, kind in says.items()}
        assert table.insert(Column(np.array([NOON], "M8[us]"), **nothing), 1).all()


def test_a_frame_says_its_missing_elements_column_by_column():
    class Ambiguous:
        def __bool__(self):
            raise TypeError("the truth value is ambiguous")

    with gh.Table(device="cpu") as table:
        assert table.insert(Column(np.array([[1], [2]]), null_count=Ambiguous), 1).all()


def test_where_an_element_is_missing():
    column = Column(np.array([1, 2, None, None], object), dtype="Int64", isna=lambda: [False, False, True, True])
    words = r"keys has missing elements \(2, the first at 2\), and a table has none: leave them out, or fill them in"
    with gh.Table(device="cpu") as table, pytest.raises(TypeError, match=words):
        table.find(column)


@pytest.mark.parametrize("says", [1, lambda: 1])
def test_one_missing_element(says):
    with gh.Table(device="cpu") as table:
        with pytest.raises(TypeError, match=r"keys has missing elements \(1\), and a table has none: pass keys.drop_"):
            table.find(Column(np.array([1, 2]), null_count=says, drop_nulls=None))
        assert table.insert(Column(np.array([1, 2]), null_count=0), 1).all()


def exact(given, wanted):
    """Does every value of a dtype come through another one unchanged, as far as its ends and its last bits tell?"""
    if given.kind == "f":
        info = np.finfo(given)
        values = np.array([info.max, info.min, info.tiny, 1 + info.eps, -0.1], given)
    else:
        low, high = limits(given.name)
        values = np.array([low, high, max(high - 1, 0), high // 2], given)
    with np.errstate(all="ignore"):
        there = values.astype(wanted)
        back = there.astype(given)
        return bool((back == values).all() and ((there < 0) == (values < 0)).all())


@pytest.mark.parametrize("wanted", [*INTEGERS[1:], "float32", "float64"])
@pytest.mark.parametrize("given", [*INTEGERS[1:], "float32", "float64"])
def test_which_dtypes_are_converted_on_a_device(given, wanted):
    """There every element would have to be looked at, so a dtype goes in that has no element which would not."""
    given, wanted = np.dtype(given), np.dtype(wanted)
    to_integer = given.kind == "f" and wanted.kind in "iu"
    rounds = given.itemsize == 8 and given.kind in "iu" and wanted.kind == "f"
    assert _arrays.lossless(given, wanted) == (exact(given, wanted) and not to_integer and not rounds)


@pytest.mark.parametrize(
    ("given", "wanted", "goes"),
    [("M8[s]", "M8[s]", True), ("M8[s]", "M8[ms]", False), ("M8[s]", "m8[s]", False), ("i8", "M8[s]", False)],
)
def test_times_are_not_converted_on_a_device(given, wanted, goes):
    assert _arrays.lossless(np.dtype(given), np.dtype(wanted)) is goes
