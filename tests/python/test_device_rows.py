"""Verbs on several columns of a GPU: rows as keys, over a library and kernels that are not here."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pygpuhash as gh
from pygpuhash import _core, _device_rows

sys.path.insert(0, str(Path(__file__).resolve().parent))
import fake_kernels
from fake_kernels import host

Array = np.ndarray[Any, Any]
N = 600


@pytest.fixture
def put(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    with fake_kernels.installed(monkeypatch) as (put, _):
        yield put


def tuples(columns: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """Rows; NaNs as None, which equals itself."""
    lists = [[None if x != x else x for x in host(column).tolist()] for column in columns]
    return list(zip(*lists, strict=True))


def drawn(dtypes: tuple[str, ...], n: int = N, few: int = 5) -> tuple[Array, ...]:
    """Columns of few distinct elements, far apart from each other: the smallest and largest of their dtypes, too."""
    rng = np.random.default_rng(len(dtypes) + n)
    found = []
    for dtype in map(np.dtype, dtypes):
        if dtype.kind == "f":
            some = np.array([0.0, -0.0, np.nan, -1.5, 3e30, np.inf, *range(few)], dtype)
        elif dtype.kind == "b":
            some = np.array([False, True])
        else:
            ends = np.iinfo(dtype)
            some = np.array([ends.min, ends.max, 0, 1, *range(2, few)], dtype)
        found.append(some[rng.integers(0, len(some), n)])
    return tuple(found)


COLUMNS = [
    ("i4", "i4"),  # halves of a key
    ("f4", "u4"),
    ("i2", "i1"),  # made 4 bytes wide by their library
    ("i2", "u1", "b1"),  # short distances
    ("i8", "i8"),  # codes
    ("i8", "i4", "f4"),
    ("u8", "f8", "i4"),
    ("i4",),
    ("f8",),
    ("i8",) * 7,
]


@pytest.mark.parametrize("order", ["any", "first"])
@pytest.mark.parametrize("dtypes", COLUMNS)
def test_groups(put: Any, dtypes: tuple[str, ...], order: Any) -> None:
    given = drawn(dtypes)
    rows = tuples(given)
    wanted = {row: rows.count(row) for row in rows}  # in the order of their first appearance; -0.0 is 0.0
    keys = tuple(put(column) for column in given)

    def check(found: Any) -> list[tuple[Any, ...]]:
        assert isinstance(found, tuple)
        assert [host(column).dtype for column in found] == list(dtypes)
        assert all(type(column) is type(keys[0]) and host(column).flags.c_contiguous for column in found)
        distinct = tuples(found)
        assert len(distinct) == len(wanted)
        assert distinct == list(wanted) if order == "first" else set(distinct) == set(wanted)
        return distinct

    check(gh.unique(keys, order=order))
    found, counts = gh.value_counts(keys, order=order)
    assert dict(zip(check(found), host(counts).tolist(), strict=True)) == wanted
    codes, found = gh.factorize(keys, order=order)
    distinct = check(found)
    assert [distinct[code] for code in host(codes)] == rows
    values = np.arange(N, dtype="i8")
    found, (sums, counts) = gh.group_reduce(keys, put(values), ("sum", "count"), order=order)
    distinct = check(found)
    for row, total, many in zip(distinct, host(sums), host(counts), strict=True):
        assert total == sum(i for i, other in enumerate(rows) if other == row)
        assert many == wanted[row]


@pytest.mark.parametrize("dtypes", COLUMNS)
def test_of_two_tuples(put: Any, dtypes: tuple[str, ...]) -> None:
    """Rows of one tuple that the other one has not, whose elements are beyond those of the other one."""
    left, right = drawn(dtypes), drawn(dtypes, 40, few=2)
    some, others = tuples(left), tuples(right)
    keys, among = tuple(map(put, left)), tuple(map(put, right))
    assert host(gh.isin(keys, among)).tolist() == [row in others for row in some]
    pairs = [(i, j) for i, row in enumerate(some) for j, other in enumerate(others) if row == other]
    for how in ("inner", "left"):
        wanted = pairs + [(i, -1) for i, row in enumerate(some) if row not in others] * (how == "left")
        numbered = {row: i for i, row in enumerate(dict.fromkeys(others))}
        right_once = tuple(put(np.array([column[others.index(row)] for row in numbered])) for column in right)
        one, other = gh.join_indexer(keys, right_once, how)
        met = [
            (i, others.index(list(numbered)[j]) if j >= 0 else -1) for i, j in zip(host(one), host(other), strict=True)
        ]
        assert met == [pair for pair in sorted(wanted) if pair[1] < 0 or others.index(others[pair[1]]) == pair[1]]


def test_floats_by_their_bits(put: Any) -> None:
    given = (np.array([0.0, -0.0, 0.0], "f8"), np.array([1, 1, 1], "i8"))
    assert len(host(gh.unique(tuple(map(put, given)), floats="bits")[0])) == 2
    assert len(host(gh.unique(tuple(map(put, given)))[0])) == 1


@pytest.mark.parametrize("dtypes", COLUMNS)
def test_of_no_rows(put: Any, dtypes: tuple[str, ...]) -> None:
    keys = tuple(put(np.empty(0, dtype)) for dtype in dtypes)
    assert [(host(found).shape, host(found).dtype) for found in gh.unique(keys)] == [((0,), dtype) for dtype in dtypes]
    codes, _ = gh.factorize(keys)
    assert host(codes).shape == (0,)
    assert host(gh.isin(keys, keys)).shape == (0,)


def test_short_keys(put: Any) -> None:
    """Keys of 31 bits and less have 4 bytes, which are grouped twice as fast."""
    column = np.array([0, 2**15 - 1], "i8")
    for last, wanted in ((2**16 - 1, "i4"), (2**16, "i8")):
        keys = tuple(map(put, (column + 5, np.array([0, last], "i8") - 2**62)))
        rows = _device_rows.as_keys(_device_rows.columns(keys, "keys", _column), None)
        assert rows.dtype == wanted
        assert host(rows.array).tolist() == [0, 2**15 - 1 << last.bit_length() | last]


def _column(given: Any, what: str) -> Any:
    from pygpuhash import _table_verbs

    return _table_verbs.on_device(given, what)


def test_refusals(put: Any) -> None:
    a, b = np.arange(4, dtype="i4"), np.arange(4, dtype="i8")
    with pytest.raises(TypeError, match=r"keys\[1\] is on the host and another column of keys on a GPU: copy one"):
        gh.unique((put(a), b))
    with pytest.raises(TypeError, match=r"keys\[0\] is on the host and another column of keys on a GPU: copy one"):
        gh.unique((a, put(b)))
    with pytest.raises(ValueError, match=r"keys\[0\] has 4 elements, keys\[1\] 3: pass columns of one length"):
        gh.value_counts((put(a), put(b[:3])))
    with pytest.raises(ValueError, match=r"keys\[1\] has shape \(2, 2\): pass one-dimensional columns"):
        gh.factorize((put(a), put(b.reshape(2, 2))))
    with pytest.raises(TypeError, match=r"keys are rows of 2 columns, among a ndarray: pass a tuple, too"):
        gh.isin((put(a), put(b)), put(a))
    with pytest.raises(TypeError, match=r"right are rows of 1 columns, left a ndarray: pass a tuple, too"):
        gh.join_indexer(put(a), (put(a),))
    with pytest.raises(TypeError, match=r"keys has 2 columns, among 1: pass the same ones of both"):
        gh.isin((put(a), put(b)), (put(a),))
    with pytest.raises(TypeError, match=r"left\[1\] has dtype int64, right\[1\] int32: convert one of them"):
        gh.join_indexer((put(a), put(b)), (put(a), put(a)))
    with pytest.raises(TypeError, match=r"among\[0\] is on the host and another column of among on a GPU"):
        gh.isin((put(a), put(b)), (a, put(b)))
    with pytest.raises(TypeError, match=r"among\[0\] is on the host"):
        gh.isin((put(a), put(b)), (a, b))

    class Tensor:
        """An array on a GPU of a library that has no arithmetic."""

        def __init__(self, array: Any) -> None:
            self.__dlpack_device__, self.__dlpack__ = array.__dlpack_device__, array.__dlpack__

    with pytest.raises(gh.Unsupported, match=r"keys\[0\] is a Tensor: pass arrays of CuPy or PyTorch"):
        gh.unique((Tensor(put(a)), put(b)))


def test_captured_stream(put: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Distances come to the host, which a stream that is being captured cannot do."""
    monkeypatch.setattr(_device_rows._cuda, "is_capturing", lambda stream: True)
    keys = tuple(put(np.arange(4)) for _ in range(2))
    with pytest.raises(gh.InvalidArgument, match="the stream is being captured into a graph"):
        gh.unique(keys)


def test_keys_that_are_ready(put: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows take the short way of arrays that are ready on their library's current stream."""
    seen = []
    ready = _core.ready
    monkeypatch.setattr(_core, "ready", lambda array: seen.append(ready(array)) or seen[-1])
    gh.unique(tuple(put(np.arange(4)) for _ in range(2)))
    assert seen
    assert None not in seen
