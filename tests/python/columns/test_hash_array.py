"""`hash_array` on the columns of every library, against the reference in plain Python."""

from __future__ import annotations

import contextlib
import datetime as dt
import sys
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import oracle
import pytest
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st
from oracle import COLUMNS, LONG, pa
from test_every_reader import ELEMENTS, LIBRARIES, Lacks

import pygpuhash as gh

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "columns"))
import hash_reference as reference

DAY = 86400 * 10**9
TIMES = {"timestamp": "instant", "instant": "zoned instant", "time64": "time of day", "duration": "duration"}


def cell(x):
    """The reference's cell of an element as `oracle` has it."""
    if x is None:
        return None
    if isinstance(x, tuple) and x[0] in TIMES:
        return TIMES[x[0]], x[1]
    if isinstance(x, tuple):
        return "row", [cell(field) for field in x]
    if isinstance(x, dt.date):
        return "instant", (x - dt.date(1970, 1, 1)).days * DAY
    if isinstance(x, Decimal):
        sign, digits, exponent = x.as_tuple()
        return "decimal", (int("".join(map(str, digits))) * (-1 if sign else 1), -exponent)
    kind = {bool: "boolean", int: "integer", float: "float", str: "text", bytes: "bytes"}[type(x)]
    return kind, x.encode() if kind == "text" else x


def check(library, elements, kind, seed):
    given = LIBRARIES[library](elements, kind)
    wanted = [reference.hash_cell(cell(x), seed) for x in oracle.python(pa.array(elements, kind))]
    both = gh.hash_array(given, 128, seed)
    assert isinstance(both, np.ndarray)
    assert both.dtype == np.uint64
    assert both.shape == (len(elements), 2)
    assert [tuple(row) for row in both.tolist()] == wanted
    one = gh.hash_array(given, seed=seed)
    if hasattr(one, "to_pylist"):
        assert one.to_pylist() == [first for first, _ in wanted]
    else:
        assert list(one) == [first for first, _ in wanted]


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("library", LIBRARIES)
def test_columns_of_every_library_have_the_hashes_of_the_reference(library, name):
    try:
        check(library, *COLUMNS[name], seed=0)
    except Lacks:
        assert library != "Arrow"


@pytest.mark.parametrize("library", LIBRARIES)
@settings(max_examples=25, deadline=None)
@for_all(data=st.data(), seed=st.integers(0, 2**64 - 1))
def test_any_column_of_any_library(library, data, seed):
    name = data.draw(st.sampled_from(sorted(ELEMENTS)))
    elements = data.draw(st.lists(st.none() | ELEMENTS[name], max_size=12))
    with contextlib.suppress(Lacks):
        check(library, elements, COLUMNS[name][1], seed)


# ---- what is equal, and what is not ----------------------------------------------------------------------------------


def hashes(columns, **how):
    return np.asarray(gh.hash_array(columns, **how)).tolist()


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", ">i4", ">f8"])
def test_numbers_of_any_width_are_their_value(dtype):
    assert hashes(np.array([7, 0, 100], dtype)) == hashes([7, 0, 100])
    if np.dtype(dtype).kind != "u":
        assert hashes(np.array([-7], dtype)) == hashes([-7])


def test_numbers_at_the_ends_of_their_types():
    assert hashes(np.array([2**63], "u8")) == hashes([2.0**63]) == hashes([2**63])
    assert hashes(np.array([-(2**63)], "i8")) == hashes([-(2.0**63)])
    assert hashes(np.array([2**64 - 2048], "u8")) == hashes([2.0**64 - 2048])
    assert hashes(np.array([2**53 + 1])) != hashes([float(2**53 + 1)])
    assert hashes(np.array([-1])) != hashes(np.array([2**64 - 1], "u8"))
    assert hashes([0.0]) == hashes([-0.0]) == hashes([0])
    assert hashes(np.array([np.nan, -np.nan, np.float32(np.nan)], "f4")) == hashes([np.nan] * 3)
    assert len(set(hashes([0.5, -0.5, 1.5, 1e300, -1e300, np.inf, -np.inf, np.nan]))) == 8


def test_times_are_their_instant():
    days = np.array(["1970-01-01", "2020-02-29", "1900-01-01", "NaT"], "M8[D]")
    for unit in ("h", "m", "s", "ms", "us", "ns"):
        assert hashes(days.astype(f"M8[{unit}]")) == hashes(days)
        assert hashes((days - days[0]).astype(f"m8[{unit}]")) == hashes((days - days[0]).astype("m8[s]"))
    assert hashes(days)[:1] == hashes([dt.datetime(1970, 1, 1)]) == hashes([dt.date(1970, 1, 1)])
    assert hashes([dt.datetime(2020, 7, 1, 12, tzinfo=dt.UTC)]) == hashes(
        [dt.datetime(2020, 7, 1, 14, tzinfo=dt.timezone(dt.timedelta(hours=2)))]
    )
    assert hashes(np.array([2**62], "M8[s]")) != hashes(np.array([2**62 * 10**9 % 2**64], "M8[ns]"))


def test_text_and_bytes_are_their_content():
    words = ["the", "", "a longer word than sixteen"]
    assert hashes(np.array(words, "U40")) == hashes(np.array(words, "U30")) == hashes(words)
    same = [w.encode() for w in words]
    assert hashes(np.array(same, "S30")) == hashes(np.array(same, "S40")) == hashes(same)
    assert set(hashes(words)).isdisjoint(hashes(same))
    assert hashes(["a"]) != hashes(["a\0"])
    assert hashes([b"", b"\0", b"\0" * 16, b"\0" * 17]) == hashes([b""]) + hashes([b"\0", b"\0" * 16, b"\0" * 17])


def test_kinds_have_hashes_of_their_own():
    columns = [[0], [False], [Decimal(0)], np.zeros(1, "M8[s]"), np.zeros(1, "m8[s]"), [dt.time()], [""], [b""]]
    columns += [[None], [dt.datetime(1970, 1, 1, tzinfo=dt.UTC)], ([0],), ([None],), ([0], [0])]
    assert len({hashes(column)[0] for column in columns}) == len(columns)
    assert hashes([None]) == hashes([None, 7])[:1] == hashes([None, "a"])[:1] == hashes([None, b"a"])[:1]


def test_rows():
    a, b = np.array([1, 2], "i1"), ["x", "y"]
    rows = hashes((a, b))
    pandas, polars = (pytest.importorskip(name, reason=f"{name} is not installed") for name in ("pandas", "polars"))
    assert hashes(pandas.DataFrame({"a": a, "b": b})) == rows
    assert hashes(polars.DataFrame({"c": a, "d": b})) == rows
    assert hashes(pa.table({"a": a, "b": b})) == rows
    assert hashes([(1, "x"), (2, "y")]) == rows
    assert hashes((b, a)) != rows
    assert hashes((a, a)) == hashes((a.astype("f8"), a.astype("u8")))
    assert hashes(((a, b), a)) != hashes((a, (b, a)))


def test_categories_are_their_values_each_hashed_once():
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    few = pandas.Series(["b", None, "a", "b"], dtype="category")
    assert hashes(few) == hashes(["b", None, "a", "b"])
    assert hashes(few.cat.set_categories(["z" * 30, *map(str, range(99)), "a", "b"])) == hashes(few)
    assert hashes((few, [1, 2, 3, 4])) == hashes((["b", None, "a", "b"], [1, 2, 3, 4]))


# ---- arguments and results -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "element",
    [
        *(7, 7.0, 0.5, True, "text", b"bytes", LONG, Decimal("1.5"), dt.date(2020, 1, 1), dt.timedelta(1), dt.time(1)),
        *(np.int8(7), np.float32(0.5), np.datetime64("2020-01-01"), np.bytes_(b"a"), np.array(7), np.array("a")),
    ],
)
def test_an_element_has_the_hash_of_a_column_of_it(element):
    one = gh.hash_array(element, seed=3)
    both = gh.hash_array(element, 128, 3)
    column = element.reshape(1) if isinstance(element, np.ndarray) else [element]
    first, second = gh.hash_array(column, 128, 3)[0].tolist()
    assert type(one) is type(both) is int
    assert (one, both) == (first, first | second << 64)


def test_results_have_the_shape_and_the_library_of_the_column():
    square = np.arange(6).reshape(2, 3)
    assert gh.hash_array(square).tolist() == gh.hash_array(square.ravel()).reshape(2, 3).tolist()
    assert gh.hash_array(square, 128).shape == (2, 3, 2)
    assert gh.hash_array([]).shape == (0,)
    assert gh.hash_array([], 128).shape == (0, 2)
    assert gh.hash_array(square[:, ::2].T).tolist() == gh.hash_array(square).T[::2].tolist()
    assert pa.types.is_uint64(gh.hash_array(pa.array([1, None])).type)
    pandas, polars = (pytest.importorskip(name, reason=f"{name} is not installed") for name in ("pandas", "polars"))
    series = gh.hash_array(polars.Series("n", [1, 2]))
    assert (series.name, series.dtype, series.to_list()) == ("n", polars.UInt64, hashes([1, 2]))
    for given in (pandas.Series([1, 2], index=[5, 6]), pandas.Index([1, 2]), pandas.array([1, 2])):
        assert isinstance(gh.hash_array(given), np.ndarray)
        assert hashes(given) == hashes([1, 2])


def test_results_of_tensors():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    result = gh.hash_array(torch.tensor([[1, 2]]))
    assert result.dtype == torch.uint64
    assert result.numpy().tolist() == [hashes([1, 2])]
    assert gh.hash_array(torch.tensor(7)) == gh.hash_array(7)


def test_results_that_jax_would_cut_are_refused():
    jax = pytest.importorskip("jax", reason="jax is not installed")
    if jax.config.jax_enable_x64:
        pytest.skip("this JAX has 64 bits")
    for columns in (jax.numpy.arange(3), (jax.numpy.arange(3), [1, 2, 3])):
        with pytest.raises(TypeError, match="the results have dtype uint64, which JAX cuts to 32 bits"):
            gh.hash_array(columns)
        assert gh.hash_array(columns, 128).shape == (3, 2)


@pytest.mark.parametrize("threads", [None, 1, 3])
def test_threads(threads):
    numbers = np.arange(100_000)
    assert hashes(numbers, threads=threads) == hashes(numbers[:50_000]) + hashes(numbers[50_000:])


def test_what_is_refused():
    refusals = [
        ({"bits": 32}, gh.InvalidArgument, "bits=32 is neither 64 nor 128"),
        ({"bits": -64}, gh.InvalidArgument, "bits=-64 is neither"),
        ({"bits": 64.5}, TypeError, "bits=64.5 is not an integer"),
        ({"bits": "64"}, TypeError, "bits='64' is not an integer"),
        ({"seed": -1}, gh.InvalidArgument, "seed=-1 is out of range: pass 0 to 18446744073709551615"),
        ({"seed": 2**64}, gh.InvalidArgument, "seed=18446744073709551616 is out of range"),
        ({"seed": None}, TypeError, "seed=None is not an integer"),
        ({"threads": 0}, gh.InvalidArgument, "threads=0 is out of range"),
    ]
    for how, kind, said in refusals:
        with pytest.raises(kind, match=said):
            gh.hash_array([1], **how)
    for columns, said in [
        ([[1], [2]], r"columns\[0\]"),
        (None, "columns is a NoneType"),
        (([1], [1, 2]), "columns of one length"),
        (pa.array([[1]]), "columns is a column of list"),
    ]:
        with pytest.raises((TypeError, ValueError), match=said):
            gh.hash_array(columns)


def test_arrays_of_a_device_are_refused_by_name():
    there = SimpleNamespace(
        __cuda_array_interface__={"shape": (1,), "typestr": "<i8", "data": (256, False), "version": 3}
    )
    for columns, what in ((there, "columns"), (([1], there), r"columns\[1\]")):
        with pytest.raises(gh.Unsupported, match=f"{what} is on a GPU, where this hash is not computed: copy it"):
            gh.hash_array(columns)


def test_the_version_is_that_of_the_page():
    assert gh.HASH_VERSION == 1
