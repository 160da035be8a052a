"""Dtypes of keys and values: what is stored, what comes back, what is refused."""

import numpy as np
import pytest

import pygpuhash as gh

INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
FLOATS = ["float16", "float32", "float64"]
TIMES = ["datetime64[ns]", "timedelta64[s]"]


def extremes(dtype):
    """All there is at the ends of a dtype."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind == "f":
        info = np.finfo(dtype)
        return np.array([0, 1, -1, info.max, info.min, info.tiny, np.inf, -np.inf], dtype)
    if dtype.kind in "mM":
        return np.array([0, 1, -1, 2**62, "NaT"], dtype)
    info = np.iinfo(dtype)
    return np.unique(np.array([info.min, info.max, info.min + 1, info.max - 1, 0, 1], dtype))


@pytest.mark.parametrize("dtype", ["bool", *INTEGERS, *FLOATS, *TIMES])
def test_every_dtype_comes_back(backend, dtype):
    ends = extremes(dtype)
    with gh.Table(backend, key_dtype=dtype, value_dtype=dtype, device="cpu") as table:
        assert table.insert(ends, ends[::-1]).all()
        values, found = table.find(ends)
        assert found.all()
        assert values.dtype == dtype
        assert values.tobytes() == ends[::-1].tobytes()
        keys, values = table.export()
        assert keys.dtype == values.dtype == dtype
        width = f"u{keys.dtype.itemsize}"
        assert set(keys.view(width).tolist()) == set(ends.view(width).tolist())
        out = np.empty(len(ends), dtype)
        assert table.find(ends, out=out)[0] is out
        assert out.tobytes() == ends[::-1].tobytes()
        assert table.erase(ends).all()


def test_float_keys_compare_by_their_bits(backend):
    with gh.Table(backend, key_dtype="float64", value_dtype="int32", device="cpu") as table:
        quiet, other = np.array([0x7FF8000000000000, 0x7FF8000000000001], np.uint64).view(np.float64)
        assert table.insert([0.0, -0.0], [1, 2]).all()
        assert table.insert(np.array([quiet, other]), [3, 4]).all()
        assert table[np.array([0.0, -0.0, quiet, other])].tolist() == [1, 2, 3, 4]


def test_every_bit_pattern_of_a_small_dtype_is_a_key(backend):
    every = np.arange(65536, dtype=np.uint16)
    for dtype in ("uint16", "int16", "float16"):
        with gh.Table(backend, key_dtype=dtype, value_dtype="uint16", device="cpu") as table:
            assert table.insert(every.view(dtype), every).all()
            assert (table[every.view(dtype)] == every).all()


def test_small_integers_wrap_when_they_are_read(backend):
    with gh.Table(backend, key_dtype="uint8", value_dtype="int8", device="cpu") as table:
        table.accumulate(np.ones(200, np.uint8), 1)
        assert table[1] == np.array(200).astype(np.int8)


def test_values_of_times(backend):
    days = np.array(["2024-02-29", "2000-01-01"], "datetime64[D]")
    with gh.Table(backend, key_dtype="datetime64[D]", value_dtype="timedelta64[s]", device="cpu") as table:
        table[days] = np.array([60, 3600], "timedelta64[s]")
        assert table["2024-02-29"] == np.timedelta64(60, "s")
        table.accumulate(days, np.timedelta64(1, "s"))
        assert table[days].tolist() == np.array([61, 3601], "timedelta64[s]").tolist()
        assert table.get(np.array(["1999-01-01"], days.dtype), default=np.timedelta64(5, "s"))[0].astype(int) == 5
        assert table.get(np.array(["1999-01-01"], days.dtype))[0] == np.timedelta64(0, "s")  # what find has
        with pytest.raises(TypeError, match=r"default: .*5.* is not of the table's timedelta64"):  # a number is no time
            table.get(np.array(["1999-01-01"], days.dtype), default=5)
        with pytest.raises(TypeError, match="not of the table's"):
            table.find([5])
    with (
        gh.Table(backend, value_dtype="datetime64[D]", device="cpu") as table,
        pytest.raises(TypeError, match="cannot be added"),
    ):
        table.accumulate([1], days[:1])


@pytest.mark.parametrize(
    ("given", "dtype"),
    [
        ("uint8", "uint64"),
        ("int32", "int64"),
        ("uint32", "int64"),
        ("bool", "uint8"),
        ("float32", "float64"),
        ("uint16", "float32"),
        ("int32", "float64"),
    ],
)
def test_safe_casts_are_made(backend, given, dtype):
    keys = extremes(given)[:4]
    with gh.Table(backend, key_dtype=dtype, device="cpu") as table:
        table.insert(keys, 1)
        assert table.contains(keys.astype(dtype)).all()


@pytest.mark.parametrize(
    ("key", "dtype", "error", "words"),
    [
        (-1, "uint64", OverflowError, "-1 does not fit uint64"),
        (2**64, "uint64", OverflowError, "18446744073709551616 does not fit uint64"),
        ([1, 2**70], "int64", OverflowError, "does not fit int64"),
        ([2**63, -1], "uint64", OverflowError, "-1 does not fit uint64"),
        (256, "uint8", OverflowError, r"256 does not fit uint8 \(0 to 255\)"),
        (2, "bool", OverflowError, "2 does not fit bool"),
        (1.5, "uint64", TypeError, "1.5 is not an integer"),
        ([1, 2.0], "int32", TypeError, "is not an integer"),
        ("abc", "uint64", TypeError, "'abc' is not an integer"),
        (None, "uint64", TypeError, "None is not an integer"),
        ([1, None], "float32", TypeError, "None is not a number"),
        (1e300, "float32", OverflowError, "does not fit float32"),
        (2**24 + 1, "float32", TypeError, "16777217 has no exact float32"),
        ([1, 2**64 + 1], "float64", TypeError, "the integer 18446744073709551617 has no exact float64"),
        ([-(2**70) + 1, 0.5], "float32", TypeError, "the integer -1180591620717411303423 has no exact float32"),
        ([[0.5, 2**53 + 1]], "float64", TypeError, "the integer 9007199254740993 has no exact float64"),
        ([1e30, 2**24 + 1], "float32", TypeError, "the integer 16777217 has no exact float32"),
        ([2**63 + 1, -1], "float64", TypeError, "the integer 9223372036854775809 has no exact float64"),
        (10**400, "float64", OverflowError, "does not fit float64"),
        ([[1, 2], [3]], "uint64", TypeError, "rectangular"),
        ({1, 2}, "uint64", TypeError, "which has no order"),
        (np.array(["a"]), "uint64", TypeError, "pass an array of numbers"),
        (np.array([1 + 2j]), "uint64", TypeError, "complex128"),
        (np.array([None]), "uint64", TypeError, "object"),
        (np.zeros(2, [("a", "i4")]), "uint64", TypeError, "pass an array of numbers"),
        (np.arange(3, dtype=">u8"), "uint64", TypeError, "not in native byte order.*newbyteorder"),
        (np.array([[1, -2]]).view(np.matrix), "uint64", OverflowError, r"element \(0, 1\) is -2"),
        (np.ma.array([1, 2], mask=[0, 1]), "int64", TypeError, "masked array.*compressed"),
    ],
)
def test_numbers_that_do_not_fit_are_named(backend, key, dtype, error, words):
    with gh.Table(backend, key_dtype=dtype, device="cpu") as table:
        with pytest.raises(error, match=words):
            table.find(key)
        with pytest.raises(error, match=words):
            table.insert(key, 0)
        assert len(table) == 0


def test_python_numbers_that_fit(backend):
    with gh.Table(backend, key_dtype="uint64", value_dtype="float32", device="cpu") as table:
        table.insert([0, 2**64 - 1], [0.1, 2])
        assert table[2**64 - 1] == 2
        assert table[0] == np.float32(0.1)
        assert table.contains((0, True)).tolist() == [True, False]
        assert table.contains(range(2)).tolist() == [True, False]
        assert table.contains(np.int8(0))
        assert table.contains([np.uint8(0)]).all()
        large = [2**64, -(2**100), 1e30, float("inf"), np.float32(2**24), 2**24]
        table.insert_or_assign(range(6), large)
        assert table[range(6)].tolist() == np.array(large, np.float32).tolist()


@pytest.mark.parametrize("dtype", ["complex256", "S6", "U2", "object", "float128", [("a", "i2")], ">u4", "nonsense"])
def test_dtypes_that_a_table_cannot_hold(backend, dtype):
    with pytest.raises(TypeError, match="key_dtype="):
        gh.Table(backend, key_dtype=dtype, device="cpu")
    with pytest.raises(TypeError, match="value_dtype="):
        gh.Table(backend, value_dtype=dtype, device="cpu")


def test_text_is_no_dtype_and_bytes_are():
    with pytest.raises(TypeError, match=r"key_dtype='U4' is text, and tables hold bytes: pass 'S16'"):
        gh.Table(key_dtype="U4", device="cpu")
