"""numpy's arrays as columns: exact, shared where Arrow has the same memory, and back in their dtype."""

from __future__ import annotations

import gc
import warnings
import weakref

import numpy as np
import pytest
from oracle import chunks, engine_keys, kind, pa, values

from pygpuhash.columns import read

NUMBERS = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"]


def without_unit(value):
    """A timedelta of no unit, of whose making numpy 2.5 warns."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return np.array([value], "m8")


def back(given):
    column = read(given, "keys")
    return column.give(engine_keys(column))


@pytest.mark.parametrize("dtype", [*NUMBERS, "M8[s]", "M8[ms]", "M8[us]", "M8[ns]", "m8[s]", "m8[ns]", "V3"])
def test_contiguous_memory_is_shared(dtype):
    given = np.arange(12, dtype="u1").repeat(8)[: np.dtype(dtype).itemsize * 12].view(dtype)
    for array in (given, given.reshape(3, 4), given[2:]):
        array.flags.writeable = False
        column = read(array, "keys")
        assert chunks(column)[0].buffers()[1].address == array.ctypes.data
        assert column.shape == array.shape
        assert column.length == array.size


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("change", ["strided", "reversed", "misaligned", "swapped", "transposed"])
def test_other_memory_is_copied_exactly(dtype, change):
    array = np.arange(24, dtype=dtype)
    if change == "strided":
        array = array[::2]
    elif change == "reversed":
        array = array[::-1]
    elif change == "misaligned":
        memory = np.zeros(array.nbytes + 1, "u1")[1:]
        memory[:] = array.view("u1")
        array = memory.view(dtype)
    elif change == "swapped":
        array = array.astype(array.dtype.newbyteorder())
    else:
        array = array.reshape(4, 6).T
    assert values(read(array, "keys")) == array.reshape(-1).tolist()
    keys = back(array)
    assert keys.dtype == array.dtype
    assert keys.tolist() == array.reshape(-1).tolist()


def test_memory_lives_as_long_as_a_struct_of_it():
    class Owner(np.ndarray):
        pass

    given = np.arange(5).view(Owner)
    gone = weakref.ref(given)
    column = read(given, "keys")
    arrays = chunks(column)
    del given, column
    gc.collect()
    assert gone() is not None or arrays[0].to_pylist() == [0, 1, 2, 3, 4]
    assert arrays[0].to_pylist() == [0, 1, 2, 3, 4]
    del arrays
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize(
    ("given", "type"),
    [
        (np.array(["2020-02-29", "NaT"], "M8[D]"), "date32[day]"),
        (np.array([2**31], "M8[D]"), "timestamp[s]"),
        (np.array(["2020", "1969", "NaT"], "M8[Y]"), "date32[day]"),
        (np.array(["2020-02"], "M8[M]"), "date32[day]"),
        (np.array([5, -3], "M8[W]"), "date32[day]"),
        (np.array([5, -3], "M8[h]"), "timestamp[s]"),
        (np.array([5, -3], "M8[25s]"), "timestamp[s]"),
        (np.array([5, -3], "M8[7ns]"), "timestamp[ns]"),
        (np.array([5000, -3000], "M8[ps]"), "timestamp[ns]"),
        (np.array([5, -3], "m8[W]"), "duration[s]"),
        (np.array([5, -3], "m8[D]"), "duration[s]"),
        (np.array([5, -3], "m8[m]"), "duration[s]"),
        (np.array([5 * 10**9], "m8[as]"), "duration[ns]"),
        (without_unit("NaT"), "duration[s]"),
        (np.array([-(2**63) + 1, 2**63 - 1], "M8[ns]"), "timestamp[ns]"),
        (np.array([1, 2], ">M8[ns]"), "timestamp[ns]"),
    ],
)
def test_times_of_any_unit(given, type):
    column = read(given, "keys")
    assert str(kind(column)) == type
    keys = column.give(engine_keys(column))
    assert keys.dtype == given.dtype
    assert np.array_equal(keys, given, equal_nan=True)
    assert [x is None for x in values(column)] == np.isnat(given).tolist()
    if type != "date32[day]" and not np.isnat(given).any():
        seconds = chunks(column)[0].view(pa.int64()).to_numpy()
        unit = np.dtype(f"{given.dtype.kind}8[{type.partition('[')[2][:-1]}]")
        assert np.array_equal(seconds, given.astype(unit).astype("i8"))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (np.array([0, 2**62], "M8[Y]"), r"keys\[1\] is 4611686018427387904 of datetime64\[Y\]"),
        (np.array([0, 2**60], "m8[D]"), r"keys\[1\] is"),
        (np.array([1000, 1001], "m8[ps]"), r"keys\[1\] is 1001 of timedelta64\[ps\]"),
    ],
)
def test_times_that_no_unit_holds_are_refused(given, words):
    with pytest.raises(OverflowError, match=words):
        read(given, "keys")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (np.array([1], "m8[Y]"), "years and months have no length"),
        (np.array([1], "m8[M]"), "years and months have no length"),
        (without_unit(1), "without a unit"),
        (np.array([1], np.longdouble), "keys has dtype float128|keys has dtype longdouble"),
        (np.array([1], np.clongdouble), "astype\\('c16'\\)"),
        (np.array(5), "no dimension"),
        (np.array("a", object), "no dimension"),
        (np.zeros(2, [("a", object)]), r"keys\['a'\] has dtype object"),
        (np.zeros(2, []), "no fields"),
        (np.zeros(2, "V0"), "no bytes"),
        (np.zeros(2, [("a", "i4", (0,))]), "no elements"),
        (np.ma.MaskedArray(np.zeros(2, [("a", "i4")])), "several fields"),
    ],
)
def test_what_has_no_equality_is_refused(given, words):
    with pytest.raises(TypeError, match=words):
        read(given, "keys")


def test_numbers_that_numpy_does_not_know_are_refused():
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")
    with pytest.raises(TypeError, match="bfloat16"):
        read(np.zeros(2, ml_dtypes.bfloat16), "keys")


@pytest.mark.parametrize("order", "<>")
def test_text_is_what_numpy_has(order):
    words = [
        "",
        "a",
        "b\0c",
        "ü",
        "\u07ff",
        "\u0800",
        "\ud7ff",
        "\ue000",
        "\uffff",
        "\U00010000",
        "\U0010ffff",
        "x" * 9,
    ]
    given = np.array(words, f"{order}U9")
    assert values(read(given, "keys")) == words
    assert back(given).dtype == given.dtype
    assert back(given).tolist() == words
    assert values(read(given.reshape(3, 4)[:, ::2], "keys")) == given.reshape(3, 4)[:, ::2].reshape(-1).tolist()


def test_codes_that_are_no_characters_are_refused():
    with pytest.raises(TypeError, match=r"keys\[1\] has the code 0x110000"):
        read(np.array([65, 0x110000], "u4").view("U1"), "keys")


def test_bytes_are_what_numpy_has():
    given = np.array([b"a\0", b"\0b\0", b"", b"abc"], "S5")
    assert values(read(given, "keys")) == [b"a", b"\0b", b"", b"abc"] == given.tolist()
    assert back(given).dtype == "S5"
    assert values(read(given.view("V5"), "keys"))[0] == b"a\0\0\0\0"
    assert values(read(np.array([], "U0"), "keys")) == values(read(np.array([], "S0"), "keys")) == []
    assert back(np.zeros(2, "S0")).tolist() == [b""]


@pytest.mark.parametrize("missing", [None, np.nan, "missing"])
def test_strings_of_any_length(missing):
    dtypes = pytest.importorskip("numpy", minversion="2.0", reason="numpy has StringDType from 2.0 on").dtypes
    given = np.array(["a", "a\0", "a", "x" * 50], dtypes.StringDType(na_object=missing))
    given[2] = missing
    want = ["a", "a\0", "missing" if missing == "missing" else None, "x" * 50]
    assert values(read(given, "keys")) == want
    assert back(given).dtype == given.dtype
    assert repr(back(given).tolist()) == repr(given.tolist())


def test_booleans_of_any_length():
    for n in (0, 1, 7, 8, 9, 64, 100):
        given = np.arange(n) % 3 == 0
        assert values(read(given, "keys")) == given.tolist()


@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_complex_numbers_are_two_floats(dtype):
    given = np.array([1 + 2j, 1 - 0.0j, 1 + 2j, complex("nan"), 3], dtype)[::-1]
    assert len(values(read(given, "keys"))) == 5
    assert back(given).dtype == dtype
    assert back(given)[0] == 3


def test_rows_of_a_structured_dtype_without_their_padding():
    dtype = np.dtype([("a", "u1"), ("b", ">i8"), ("c", "U2"), ("d", "f4", (2, 2)), ("e", [("f", "M8[D]")])], align=True)
    given = np.zeros(4, dtype)
    given.view("u1").reshape(4, -1)[1, 1:8] = 255  # padding alone
    given["b"][2], given["c"][3] = 2**60 + 1, "z"
    got = values(read(given, "keys"))
    assert got[0] == got[1]
    assert got[2][1] == 2**60 + 1
    assert back(given).dtype == dtype
    assert (back(given) == given[[0, 2, 3]]).all()


@pytest.mark.parametrize("dtype", ["i4", "f8", "?", "U3", "S3", "M8[s]", "M8[D]", "c16", "V2"])
def test_masked_elements_are_null_and_come_back_masked(dtype):
    plain = np.array([1, 2, 1, 0]).astype("u2").view("V2") if dtype == "V2" else np.array([1, 2, 1, 0]).astype(dtype)
    given = np.ma.MaskedArray(plain, [False, True, False, True])
    got = values(read(given, "keys"))
    assert [x is None for x in got] == [False, True, False, True]
    keys = back(given)
    assert keys.dtype == given.dtype
    assert keys.mask.tolist() == [False, True]
    assert keys[0] == plain[0]
    assert not np.ma.getmaskarray(back(np.ma.MaskedArray(plain))).any()


def test_times_that_are_masked_and_times_that_are_not_a_time_are_null():
    given = np.ma.MaskedArray(np.array([1, "NaT", 2], "M8[s]"), [False, False, True])
    assert [x is None for x in values(read(given, "keys"))] == [False, True, True]


def test_keys_may_be_given_as_an_array_of_the_stored_dtype():
    for given in (
        np.array([3, 1], ">i2"),
        np.array([True]),
        np.array([1], "M8[h]"),
        np.array([1.5], "f4"),
        np.array(["a"]),
    ):
        column = read(given, "keys")
        if column.stored is not None and given.dtype != bool:
            stored = chunks(column)[0].to_numpy(zero_copy_only=False) if given.dtype.kind not in "mM" else None
            stored = chunks(column)[0].view(pa.int64()).to_numpy() if stored is None else stored
            assert stored.dtype == column.stored
            assert column.give(stored).tolist() == given.tolist()
            assert column.give(stored).dtype == given.dtype
    assert read(np.array([True]), "keys").give(np.array([False])).tolist() == [False]
    assert read(np.array(["a"]), "keys").stored is None


def test_numbers_of_rows_have_the_shape_of_the_column():
    column = read(np.zeros((2, 3)), "keys")
    assert column.give_numbers(np.arange(6), True).shape == (2, 3)
    assert column.give_numbers(np.arange(6), False).shape == (6,)
