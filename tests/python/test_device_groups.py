"""Verbs on columns on a GPU without a table: the rule, the temporaries, and the verbs over a fake library of arrays.

The kernels are those of `fake_kernels.py`, in memory of the host. The real ones are tried on warps that the CPU plays
(tests/warp/test_columns.py) and on a card (tests/gpu/test_verbs.py).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pygpuhash as gh
from pygpuhash import _core, _cuda, _device_groups, _device_pieces, _table_verbs

sys.path.insert(0, str(Path(__file__).resolve().parent))
import fake_kernels
import fake_libraries
from fake_kernels import host

# ---- the rule --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("library", "dtype", "rows", "ordinal", "table", "wanted"),
    [
        ("cupy", "int32", 1, 0, {}, True),
        ("torch", "uint64", 2**31, 0, {}, True),
        ("torch", "float32", 1000, 0, {"stream": 7, "seed": 3}, True),
        ("cupy", "int64", 1000, 0, {"device": "cuda"}, True),
        ("cupy", "int64", 1000, 1, {"device": "cuda:1"}, True),
        ("cupy", "int64", 1000, 1, {"device": "cuda"}, False),  # whichever that is
        ("cupy", "int64", 1000, 0, {"device": "cuda:1"}, False),  # which a table refuses by name
        ("cupy", "int32", 0, 0, {}, True),
        ("cupy", "int32", 2**31 + 1, 0, {}, False),
        ("cupy", "int16", 1000, 0, {}, False),
        ("cupy", "M8[s]", 1000, 0, {}, False),
        ("jax", "int32", 1000, 0, {}, False),
        ("numba", "int32", 1000, 0, {}, False),
        ("pygpuhash", "int32", 1000, 0, {}, True),
        (None, "int32", 1000, 0, {}, False),
        ("cupy", "int32", 1000, 0, {"backend": "hive"}, False),
        ("torch", "int32", 1000, 0, {"memory": "torch"}, False),
        ("torch", "int32", 1000, 0, {"capacity": 10}, False),
    ],
)
def test_rule(
    monkeypatch: pytest.MonkeyPatch, library: str, dtype: str, rows: int, ordinal: int, table: Any, wanted: bool
) -> None:
    monkeypatch.setattr(_device_groups, "KERNELS", True)
    assert _device_groups.serves(library, np.dtype(dtype), rows, ordinal, table) is wanted
    monkeypatch.setattr(_device_groups, "KERNELS", False)
    assert not _device_groups.serves(library, np.dtype(dtype), rows, ordinal, table)


@pytest.mark.parametrize(
    ("values", "dtype", "sums", "wanted"),
    [
        ("cupy", "float32", "float64", True),
        ("cupy", "int32", "int64", True),
        ("cupy", "uint32", "uint64", True),
        ("cupy", "uint64", None, True),
        ("cupy", "int64", "int32", False),  # which a table adds up
        ("cupy", "int32", "float64", False),
        ("cupy", "int16", "int64", False),
        ("cupy", "bool", None, False),
        ("torch", "float32", "float64", False),
        ("pygpuhash", "float32", "float64", True),  # an array of no library, or a column of Arrow
        (None, "float32", "float64", False),
    ],
)
def test_rule_for_values(
    monkeypatch: pytest.MonkeyPatch, values: str | None, dtype: str, sums: str | None, wanted: bool
) -> None:
    monkeypatch.setattr(_device_groups._tensors, "library_of", lambda given: given)
    stored = None if sums is None else np.dtype(sums)
    assert _device_groups.serves_values("cupy", values, np.dtype(dtype), stored) is wanted


# ---- the C ABI -------------------------------------------------------------------------------------------------------

AGGREGATES = ("sum", "mean", "min", "max")
LEAST = 64  # elements of a copy


def grouping(
    rows: int,
    key_bytes: int = 4,
    first: bool = False,
    counts: bool = False,
    codes: bool = False,
    value_bytes: int = 0,
    value_type: int = 2,
    *aggregates: bool,
    values: int = 4096,
) -> _core.Grouping:
    keys, of_values = np.dtype(f"i{key_bytes}"), np.dtype(f"V{value_bytes}")
    call = _core.Grouping(0, 0, 1, (rows,), keys, first, counts, codes)
    wanted = [(name, of_values) for name, asked in zip(AGGREGATES, aggregates, strict=False) if asked]
    if value_bytes or wanted:
        call.reduce(values, of_values, value_type, wanted)
    return call


def temporaries(*asked: Any) -> int:
    return grouping(*asked).temporaries()


@pytest.mark.parametrize("key_bytes", [4, 8])
@pytest.mark.parametrize("rows", [1, 2048, 2049, 10**6, 2**20, 2**20 + 1, 2**24, 2**25 + 1, 2**28 + 7, 2**31])
def test_temporaries_are_bounded(key_bytes: int, rows: int) -> None:
    """Twice the column, row numbers twice where they travel along, codes of bins, two places for each row and at most
    4 bytes for runs, and a few bytes per bin, sample and word of bits."""
    for first in (False, True):
        for counts in (False, True):
            for codes in (False, True):
                nbytes = temporaries(rows, key_bytes, first, counts, codes)
                numbers = (8 if first else 4 if codes else 0) + (8 if codes or (first and counts) else 0)
                assert key_bytes * rows <= nbytes <= (2 * key_bytes + numbers) * rows * 1.05 + 6_000_000
                assert nbytes % 256 == 0


@pytest.mark.parametrize("rows", [1, 10**6, 2**24, 2**31])
def test_temporaries_with_values_are_bounded(rows: int) -> None:
    """Keys and values twice, and in the order of first appearance all results once more."""
    for key_bytes, value_bytes in ((4, 4), (4, 8), (8, 4), (8, 8)):
        for results in range(16):
            wanted = [bool(results >> i & 1) for i in range(4)]
            nbytes = temporaries(rows, key_bytes, False, True, False, value_bytes, 2, *wanted)
            assert (key_bytes + value_bytes) * rows <= nbytes <= 2 * (key_bytes + value_bytes) * rows * 1.05 + 6_000_000
            listed = temporaries(rows, key_bytes, True, True, False, value_bytes, 2, *wanted)
            sizes = (8, 8, value_bytes, value_bytes)
            each = 2 * key_bytes + 8 + sum(n for n, asked in zip(sizes, wanted, strict=True) if asked)
            assert listed <= each * rows * 1.05 + 6_000_000


def test_refusals_of_values() -> None:
    def scratch(codes: bool = False, value_bytes: int = 8, value_type: int = 2, sums: bool = True) -> int:
        return temporaries(10, 4, False, False, codes, value_bytes, value_type, sums)

    assert scratch() > 0
    with pytest.raises(gh.InvalidArgument, match=r"value_bytes is 0, and aggregates take values: set it to 4 or 8"):
        scratch(value_bytes=0)
    with pytest.raises(gh.InvalidArgument, match=r"request[.]value_bytes is 2; values have 4 or 8 bytes"):
        scratch(value_bytes=2)
    with pytest.raises(gh.InvalidArgument, match=r"request[.]value_type is 3; it is GPUHASH_UINT, _INT or _FLOAT"):
        scratch(value_type=3)
    with pytest.raises(gh.Unsupported, match=r"values and out_codes: ask for the codes in a call of their own"):
        scratch(codes=True)
    for values, said in ((0, r"request[.]values is NULL"), (4100, "values are aligned to 8 bytes")):
        call = grouping(10, 4, False, False, False, 8, 2, True, values=values)
        call.place(4096, [4096, 4096], 0, 4096, 1 << 20, 4096)
        with pytest.raises(gh.InvalidArgument, match=said):
            _core.group(call)


def test_refusals() -> None:
    assert temporaries(0, 4, False, True, True) == 0
    with pytest.raises(
        gh.Unsupported, match=r"request.n is 2147483649; one call takes at most 2\^31 rows: use a table"
    ):
        temporaries(2**31 + 1, 4, False, False, False)
    with pytest.raises(gh.InvalidArgument, match=r"request[.]key_bytes is 2; keys have 4 or 8 bytes"):
        temporaries(10, 2, False, False, False)

    def group(**changed: int) -> None:
        given = {"keys": 4096, "distinct": 4096, "size": 4096, "scratch": 4096, "nbytes": 1 << 20} | changed
        call = grouping(10)
        call.place(given["keys"], [given["distinct"]], 0, given["scratch"], given["nbytes"], given["size"])
        _core.group(call)

    with pytest.raises(gh.InvalidArgument, match=r"request[.]groups is NULL"):
        group(size=0)
    with pytest.raises(
        gh.InvalidArgument, match=r"scratch_bytes is 16, and the call takes \d+: ask gpuhash_group_scratch"
    ):
        group(nbytes=16)
    for name in ("keys", "distinct", "scratch"):
        with pytest.raises(gh.InvalidArgument, match=r"request[.]keys, out_keys or scratch is NULL"):
            group(**{name: 0})
    with pytest.raises(gh.InvalidArgument, match="scratch is 0x1010, which is not aligned to 256 bytes"):
        group(scratch=4112)
    with pytest.raises(gh.InvalidArgument, match="keys are aligned to 4 bytes"):
        group(keys=4098)


# ---- the verbs -------------------------------------------------------------------------------------------------------


@pytest.fixture
def put(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    with fake_kernels.installed(monkeypatch) as made:
        yield made


@pytest.mark.parametrize("order", ["any", "first"])
@pytest.mark.parametrize("dtype", ["int32", "int64", "float32"])
@pytest.mark.parametrize("distinct", [3, 60, 70, 900])  # less and more than a sixteenth of the rows
def test_verbs(put: Any, dtype: str, order: Any, distinct: int) -> None:
    array, calls = put
    given = np.random.default_rng(distinct).integers(0, distinct, (20, 50)).astype(dtype)
    wanted, first, many = np.unique(given, return_index=True, return_counts=True)
    keys = array(given)
    for verb in (gh.unique, gh.value_counts, gh.factorize):
        found = verb(keys, order=order, seed=5)
        results = found if isinstance(found, tuple) else (found,)
        assert all(type(result) is type(keys) for result in results)
        there = host(results[0] if verb is not gh.factorize else results[1])
        assert there.dtype == dtype
        assert np.array_equal(np.sort(there), wanted)
        # A copy where the rest would keep memory for nothing, but for a few elements.
        assert there.base is None or there.base.size <= max(16 * len(there), LEAST)
        assert distinct <= 60 or there.base.size == given.size
        if order == "first":
            assert np.array_equal(there, given.reshape(-1)[np.sort(first)])
        if verb is gh.value_counts:
            assert host(results[1]).dtype == np.int64
            assert np.array_equal(host(results[1])[np.argsort(there)], many)
        if verb is gh.factorize:
            assert host(results[0]).dtype == np.int64
            assert np.array_equal(there[host(results[0])], given)
    assert [call[:4] for call in calls] == [(1000, given.itemsize, order == "first", 5)] * 3


def test_stream_and_seed(put: Any) -> None:
    """A seed is drawn for each call, and a stream that was named is the one of the call and its results."""
    array, calls = put
    keys = array(np.arange(10, dtype="int32"))
    for _ in range(2):
        gh.unique(keys)
    assert calls[0][3] != calls[1][3]
    gh.unique(keys, stream=_cuda.core().Stream.from_handle(7))
    assert [call[4] for call in calls][-1] == 7


def test_of_no_rows(put: Any) -> None:
    array, calls = put
    keys = array(np.empty((0, 3), "int64"))
    assert host(gh.unique(keys)).shape == (0,)
    assert [host(found).shape for found in (*gh.value_counts(keys), *gh.factorize(keys))] == [(0,), (0,), (0, 3), (0,)]
    assert calls == []


def test_a_table_serves_a_device_with_little_shared_memory(put: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    array, _ = put

    def group(*_: Any, **__: Any) -> None:
        raise gh.Unsupported("cuda:0 has 1024 bytes of shared memory for a block")

    monkeypatch.setattr(_core.groups, "group", group)
    for dtype in ("int32", "float32"):
        with pytest.raises(TypeError, match="NoneType"):
            gh.unique(array(np.arange(10, dtype=dtype)))


def test_a_table_serves_what_is_left(put: Any) -> None:
    array, calls = put
    for arguments in ({"backend": "hive"}, {"memory": "torch"}):
        with pytest.raises(TypeError, match="NoneType"):  # which stands for Table here
            gh.unique(array(np.arange(10, dtype="int32")), **arguments)
    assert calls == []


@pytest.mark.parametrize("order", ["any", "first"])
@pytest.mark.parametrize("given", ["float32", "int32", "uint64"])
def test_aggregates(put: Any, given: str, order: Any) -> None:
    """Each alone, and all of them by one call."""
    array, calls = put
    rng = np.random.default_rng(3)
    host_keys, host_values = rng.integers(0, 50, (20, 50)), rng.integers(0, 1000, (20, 50)).astype(given)
    keys, values = array(host_keys), array(host_values)
    ops = ("max", "count", "sum", "mean", "min")
    alone = {op: gh.group_reduce(keys, values, op, order=order) for op in ops}
    distinct, together = gh.group_reduce(keys, values, ops, order=order)
    assert len(calls) == 6
    assert isinstance(together, tuple)
    wide = np.dtype(f"{np.dtype(given).kind}8")
    dtypes = {"max": given, "count": "int64", "sum": wide, "mean": "float64", "min": given}
    for op, result in zip(ops, together, strict=True):
        assert type(result) is type(keys)
        assert np.array_equal(host(distinct), host(alone[op][0]))
        assert np.array_equal(host(result), host(alone[op][1]))
        assert host(result).dtype == dtypes[op]
        of = {"max": np.max, "count": np.size, "sum": np.sum, "mean": np.mean, "min": np.min}[op]
        wanted = [of(host_values[host_keys == key].astype(wide)) for key in host(distinct)]
        assert np.allclose(host(result).astype(float), wanted)


def test_aggregates_that_are_asked_for_often(put: Any) -> None:
    array, calls = put
    keys = array(np.arange(100) % 3)
    ops: Any = ("sum",) * 9 + ("max", "count", "sum", "count", "min", "mean", "max")
    _, results = gh.group_reduce(keys, keys, ops)
    distinct, alone = gh.group_reduce(keys, keys, ("sum", "max", "count", "min", "mean"))
    assert len(calls) == 2
    wanted = dict(zip(("sum", "max", "count", "min", "mean"), map(host, alone), strict=True))
    assert host(distinct).tolist() == wanted["max"].tolist()
    for op, result in zip(ops, results, strict=True):
        assert np.array_equal(host(result), wanted[op])
    with pytest.raises(ValueError, match="'count' is none of sum, mean, min, max"):
        grouping(10).reduce(4096, np.dtype("i4"), 1, [("count", np.dtype("i8"))])


def test_aggregates_of_no_rows(put: Any) -> None:
    array, calls = put
    distinct, (sums, low) = gh.group_reduce(array(np.empty(0, "i4")), array(np.empty(0, "f4")), ("sum", "min"))
    assert [host(found).shape for found in (distinct, sums, low)] == [(0,)] * 3
    assert (host(sums).dtype, host(low).dtype) == (np.float64, np.float32)
    assert calls == []


def test_several_aggregates_are_checked(put: Any) -> None:
    array, _ = put
    keys, values = array(np.arange(4)), array(np.arange(4))
    with pytest.raises(gh.InvalidArgument, match=r"op\[1\]='median' is none of sum, min, max, count, mean"):
        gh.group_reduce(keys, values, ("sum", "median"))  # type: ignore[call-overload]
    with pytest.raises(gh.InvalidArgument, match=r"op=\(\) asks for nothing: name one aggregate or more"):
        gh.group_reduce(keys, values, ())
    with pytest.raises(gh.InvalidArgument, match=r"dtype='f8' is for 'sum', which op=\('min', 'max'\) does not have"):
        gh.group_reduce(keys, values, ("min", "max"), dtype="f8")
    with pytest.raises(ValueError, match=r"values have shape \(3,\), keys \(4,\)"):
        gh.group_reduce(keys, array(np.arange(3)), ("min", "max"))


def test_several_aggregates_of_host_columns() -> None:
    keys, values = ["b", "a", "b"], [1.5, 2.0, 3.0]
    distinct, (sums, low, many) = gh.group_reduce(keys, values, ["sum", "min", "count"])
    assert (list(distinct), list(sums), list(low), list(many)) == (["b", "a"], [4.5, 2.0], [1.5, 2.0], [2, 1])
    distinct, (sums,) = gh.group_reduce(np.arange(40_000) % 3, np.ones(40_000, "i4"), ("sum",), dtype="i4")
    assert sums.dtype == np.int32
    assert sums.tolist() == [13334, 13333, 13333]


def test_what_a_call_asks_for(put: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an array that is plain and ready neither an export nor anything that the driver would have to say twice."""
    array, _ = put
    keys, driver, names = array(np.arange(100)), _cuda.call, list[str]()
    gh.unique(keys)  # the first call finds the device

    def call(name: str, *arguments: Any) -> Any:
        names.append(name)
        return driver(name, *arguments)

    monkeypatch.setattr(_cuda, "call", call)
    gh.factorize(keys, order="first")
    assert fake_libraries.asked == []
    assert names == []
    names.clear()
    gh.factorize(keys, order="first", stream=_cuda.core().Stream.from_handle(7))
    assert "cuStreamIsCapturing" in names
    assert not [name for name in names if "Memcpy" in name]  # the library waits for the number of groups
    gh.unique(array(np.arange(8, dtype="i2")))  # which its library makes wider
    assert fake_libraries.asked


def test_others_of_the_host_are_copied_to_the_device_of_the_column(put: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which may not be the current one: PyTorch's calls name theirs."""
    array, _ = put
    driver, copy, names, before = _cuda.call, _cuda.from_host, list[str](), list[list[str]]()

    def call(name: str, *arguments: Any) -> Any:
        names.append(name)
        return driver(name, *arguments)

    def from_host(*arguments: Any) -> Any:
        before.append(names.copy())
        return copy(*arguments)

    keys = array(np.arange(100))
    monkeypatch.setattr(_cuda, "call", call)
    monkeypatch.setattr(_cuda, "from_host", from_host)
    assert host(gh.isin(keys, [3, 200])).sum() == 1
    assert [asked[-1:] for asked in before] == [["cuCtxPushCurrent"]]


def test_captures_are_refused(put: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory of a call goes back to the library when the call ends, and a graph would write it later."""
    array, calls = put
    keys = array(np.arange(10))
    monkeypatch.setattr(_cuda, "is_capturing", lambda stream: True)
    for verb in (
        lambda: gh.unique(keys),
        lambda: gh.factorize(keys),
        lambda: gh.group_reduce(keys, keys, ("sum", "max")),
        lambda: gh.isin(keys, keys),
        lambda: gh.isin(keys, [1]),
        lambda: gh.join_indexer(keys, keys),
    ):
        with pytest.raises(gh.InvalidArgument, match="the stream is being captured into a graph"):
            verb()
    assert calls == []


@pytest.mark.parametrize("how", ["inner", "left"])
@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32", "float32"])
@pytest.mark.parametrize("repeats", [1, 3, 11])  # of right rows; the last is more often than the fake lists
def test_joins(put: Any, dtype: str, how: Any, repeats: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where right rows repeat very often, numpy does the arithmetic on whole arrays that CuPy does on a GPU."""
    array, calls = put
    fake_kernels.arithmetic(monkeypatch, array)
    rng = np.random.default_rng(repeats)
    left, right = rng.integers(0, 120, 70).astype(dtype), rng.permutation(90).astype(dtype) // repeats
    for one, other in ((left, right), (left[:0], right), (left, right[:0]), (left[:0], left[:0])):
        keys = array(one)
        found = gh.join_indexer(keys, array(other), how, seed=4)
        for rows, wanted in zip(found, gh.join_indexer(one, other, how), strict=True):
            assert type(rows) is type(keys)
            assert np.array_equal(host(rows), wanted)
        assert {call[:5] for call in calls} == {(len(one), len(other), one.itemsize, how == "left", 4)}
        often = repeats == 11 and len(other) > 0
        assert [call[6] for call in calls] == [False, True][: 2 if often else 1]  # first rows are asked for at last
        calls.clear()


def test_joins_of_very_many_right_rows(put: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than are listed: first rows are asked for at once."""
    array, calls = put
    monkeypatch.setattr(_device_groups, "_MOST_LISTED", 20)
    for m in (20, 21):
        left, right = gh.join_indexer(array(np.arange(50)), array(np.arange(m)))
        assert host(left).tolist() == host(right).tolist() == list(range(m))
    assert [call[6] for call in calls] == [False, True]


def test_refusals_of_joins() -> None:
    assert _core.join_scratch(0, 0, 4, False) == 0
    assert _core.join_scratch(2**30, 2**30, 8, False) > 2**31 * 8
    for rows in ((2**31 + 1, 0), (0, 2**31 + 1), (2**30 + 1, 2**30), (2**63, 2**63 + 5)):
        with pytest.raises(
            gh.Unsupported, match=rf"n_left is {rows[0]} and n_right {rows[1]}; one call .* use a table"
        ):
            _core.join_scratch(*rows, 4, True)
    with pytest.raises(gh.InvalidArgument, match=r"request[.]key_bytes is 2; keys have 4 or 8 bytes"):
        _core.join_scratch(1, 1, 2, True)
    with pytest.raises(gh.Unsupported, match=r"n_right is 1073741825; without out_first .* 2\^30 .* give out_first"):
        _core.join_scratch(1, 2**30 + 1, 4, True)
    assert _core.join_scratch(1, 2**30, 4, True) > _core.join_scratch(1, 2**30, 4, False)

    def join(**changed: int) -> None:
        names = ("left", "right", "first", "left_rows", "right_rows", "facts", "scratch")
        given = dict.fromkeys(names, 4096) | {"nbytes": 1 << 20} | changed
        call = _core.Join(
            0, 10, given["left"], 10, given["right"], 4, False, 1, given["first"], given["facts"], given["scratch"],
            given["nbytes"], 0,
        )  # fmt: skip
        call.start(given["left_rows"], given["right_rows"])

    for name, said in {
        "facts": "out_facts is NULL",
        "right": "right or scratch is NULL",
        "scratch": "right or scratch is NULL",
        "left": "left, out_left or out_right is NULL",
        "left_rows": "left, out_left or out_right is NULL",
        "right_rows": "left, out_left or out_right is NULL",
        "nbytes": r"scratch_bytes is 0, and the call takes \d+: ask gpuhash_join_scratch",
    }.items():
        with pytest.raises(gh.InvalidArgument, match=said):
            join(**{name: 0})
    with pytest.raises(gh.InvalidArgument, match="scratch is 0x1010, which is not aligned to 256 bytes"):
        join(scratch=4112)
    for name in ("left", "right"):
        with pytest.raises(gh.InvalidArgument, match="keys are aligned to 4 bytes"):
            join(**{name: 4098})
    call = _core.Join(0, 10, 4096, 10, 4096, 4, False, 1, 4096, 4096, 4096, 1 << 20, 0)
    with pytest.raises(gh.InvalidArgument, match="out_first is 0x1000; pairs are those of a gpuhash_join without it"):
        call.write_pairs(1, 4096, 4096)
    with pytest.raises(gh.InvalidArgument, match="out_left or out_right is NULL"):
        _core.Join(0, 10, 4096, 10, 4096, 4, False, 1, 0, 4096, 4096, 1 << 20, 0).write_pairs(1, 4096, 0)


# ---- more rows than one call takes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("n", [0, 1, 1000])
def test_first_rows(put: Any, n: int, waits: bool) -> None:
    """Of groups that are begun and waited for later, too; twice, since a column is expected to be like the last one."""
    array, _ = put
    keys = np.arange(n, dtype="i4") // 7 % 40
    for _ in range(2):
        where = _device_groups.Place(0, array(keys), None, {})
        with where.on_device():
            found = _device_groups.begin(where, keys.dtype, True, rows=True, waits=waits)()
        distinct, first = np.unique(keys, return_index=True)
        assert np.array_equal(host(found.distinct), distinct)
        assert np.array_equal(host(found.rows), first)
        assert found.counts is None
        assert found.codes is None
    assert list(_core.results.expected) == ([] if n <= 1 else [10])


@pytest.mark.parametrize("order", ["any", "first"])
@pytest.mark.parametrize("most", [100, 333, 999])
def test_pieces(put: Any, monkeypatch: pytest.MonkeyPatch, most: int, order: Any) -> None:
    """What comes out is what one call gives."""
    array, calls = put
    rng = np.random.default_rng(most)
    keys, values = rng.integers(0, 40, (20, 50)), rng.integers(-1000, 1000, (20, 50)).astype("i4")
    ops = ("max", "sum", "mean", "min", "count")
    wanted, numbers = gh.group_reduce(array(keys), array(values), ops, order="first")
    wanted, by_key = host(wanted), dict(zip(host(wanted).tolist(), zip(*map(host, numbers), strict=True), strict=True))
    del calls[:]
    monkeypatch.setattr(_device_groups, "MOST", most)
    found, results = gh.group_reduce(array(keys), array(values), ops, order=order)
    assert max(call[0] for call in calls) <= most
    assert [host(result).dtype for result in results] == [host(number).dtype for number in numbers]
    rows = dict(zip(host(found).tolist(), zip(*map(host, results), strict=True), strict=True))
    assert rows.keys() == by_key.keys()
    for key, row in rows.items():
        assert np.allclose(row, by_key[key], rtol=1e-12)
    codes, of_codes = map(host, gh.factorize(array(keys), order=order))
    assert codes.shape == keys.shape
    assert np.array_equal(of_codes[codes], keys)
    alone = host(gh.unique(array(keys), order=order))
    counted, counts = map(host, gh.value_counts(array(keys), order=order))
    for some in (host(found), of_codes, alone, counted):
        assert np.array_equal(some, wanted) if order == "first" else set(some) == set(wanted)
    assert dict(zip(counted.tolist(), counts.tolist(), strict=True)) == {k: row[4] for k, row in by_key.items()}


def test_pieces_with_too_many_keys(put: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table serves them."""
    array, _ = put
    monkeypatch.setattr(_device_groups, "MOST", 100)
    with pytest.raises(TypeError, match="NoneType"):  # which stands for Table here
        gh.unique(array(np.arange(101)), seed=1)
    assert len(host(gh.unique(array(np.arange(101) % 99), seed=1))) == 99  # one more is 100


def test_pieces_where_memory_is_short(put: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a long column; a short one has the library's error."""

    class OutOfMemoryError(Exception):
        pass

    array, calls = put
    make, most = _device_groups.maker, [10_000]

    def maker(like: Any, ordinal: int, keeper: Any = None) -> Any:
        def empty(shape: Any, dtype: Any) -> Any:
            if dtype == np.uint8 and shape[0] > most[0]:
                raise OutOfMemoryError
            return make(like, ordinal)(shape, dtype)

        return empty

    monkeypatch.setattr(_device_groups, "maker", maker)
    keys = np.arange(2000) % 70
    most[0] = temporaries(300, 8, True, True, True) + 8
    with pytest.raises(OutOfMemoryError):
        gh.factorize(array(keys), seed=1)
    monkeypatch.setattr(_device_pieces, "PIECE", 300)
    del calls[:]
    codes, distinct = map(host, gh.factorize(array(keys), seed=1))
    assert [call[0] for call in calls[:7]] == [300] * 6 + [200]
    assert np.array_equal(distinct, np.arange(70))
    assert np.array_equal(codes, keys)


@pytest.mark.parametrize("how", ["inner", "left"])
@pytest.mark.parametrize("most", [80, 101, 170])
def test_joins_in_pieces(put: Any, monkeypatch: pytest.MonkeyPatch, most: int, how: Any) -> None:
    array, calls = put
    rng = np.random.default_rng(most)
    left, right = rng.integers(0, 50, 160), rng.integers(0, 30, 40)
    for other in (right, np.unique(right)):
        wanted = [host(rows) for rows in gh.join_indexer(array(left), array(other), how)]
        with monkeypatch.context() as limited:
            limited.setattr(_device_groups, "MOST", most)
            del calls[:]
            found = [host(rows) for rows in gh.join_indexer(array(left), array(other), how)]
        assert max(call[0] + call[1] for call in calls) <= most
        assert len(calls) > 1
        for rows, those in zip(found, wanted, strict=True):
            assert np.array_equal(rows, those)


def test_joins_in_pieces_and_what_is_asked_for(put: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are counted on when those of a stream that was named are there; a table that is asked for takes all rows."""
    array, calls = put
    settled: list[Any] = []
    monkeypatch.setattr(_device_groups, "MOST", 100)
    monkeypatch.setattr(_table_verbs, "settle", lambda column, given: settled.append(given["stream"]))
    left, right = array(np.arange(160) % 50), array(np.arange(40))
    stream = _cuda.core().Stream.from_handle(7)
    rows, _ = gh.join_indexer(left, right, stream=stream)
    assert host(rows).tolist() == [i for i in range(160) if i % 50 < 40]
    assert settled == [stream]
    del calls[:]
    with pytest.raises(AttributeError, match="arange"):  # that joins over tables ask of CuPy, which has none here
        gh.join_indexer(left, right, backend="hive")
    assert calls == []
