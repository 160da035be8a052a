"""Groups of columns on a GPU without a table: the rule, the temporaries, and the verbs over a library that is not here.

`group` below stands for the kernels: it does what they do, in memory of the host. The kernels themselves are tried on a
card (tests/gpu/test_verbs.py).
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pygpuhash as gh
from pygpuhash import _core, _cuda, _device_groups, _table_verbs

sys.path.insert(0, str(Path(__file__).resolve().parent))
import fake_cuda
import fake_libraries

Array = np.ndarray[Any, Any]


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


# ---- the C ABI -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key_bytes", [4, 8])
@pytest.mark.parametrize("rows", [1, 2048, 2049, 10**6, 2**20, 2**20 + 1, 2**24, 2**25 + 1, 2**28 + 7, 2**31])
def test_temporaries_are_bounded(key_bytes: int, rows: int) -> None:
    """Twice the column, row numbers twice where they travel along, and a few bytes per bin, sample and word of bits."""
    for first in (False, True):
        for counts in (False, True):
            for codes in (False, True):
                nbytes = _core.group_scratch(rows, key_bytes, first, counts, codes)
                numbers = 8 if first or codes else 0
                assert key_bytes * rows <= nbytes <= (2 * key_bytes + numbers) * rows * 1.05 + 6_000_000
                assert nbytes % 256 == 0


def test_refusals() -> None:
    assert _core.group_scratch(0, 4, False, True, True) == 0
    with pytest.raises(
        gh.Unsupported, match=r"request.n is 2147483649; one call takes at most 2\^31 rows: use a table"
    ):
        _core.group_scratch(2**31 + 1, 4, False, False, False)
    with pytest.raises(gh.InvalidArgument, match=r"request[.]key_bytes is 2; keys have 4 or 8 bytes"):
        _core.group_scratch(10, 2, False, False, False)

    def group(**changed: int) -> None:
        given = {"keys": 4096, "distinct": 4096, "size": 4096, "scratch": 4096, "nbytes": 1 << 20} | changed
        _core.group(
            0, 10, given["keys"], 4, False, 1, given["distinct"], 0, 0, given["size"], given["scratch"],
            given["nbytes"], 0,
        )  # fmt: skip

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
def put(monkeypatch: pytest.MonkeyPatch) -> Any:
    """(a function that makes an array of CuPy, what `group` was asked for)."""
    with fake_cuda.installed(monkeypatch) as cuda:
        calls: list[tuple[Any, ...]] = []

        def group(
            ordinal: int, n: int, keys: int, key_bytes: int, first: bool, seed: int, distinct: int, counts: int,
            codes: int, size: int, scratch: int, nbytes: int, stream: int,
        ) -> None:  # fmt: skip
            calls.append((n, key_bytes, first, seed, stream))
            assert nbytes == _core.group_scratch(n, key_bytes, first, counts != 0, codes != 0)
            cuda.bring(stream)
            find(n, keys, key_bytes, first, distinct, counts, codes, size)

        monkeypatch.setattr(_core, "group", group)
        monkeypatch.setattr(_device_groups, "KERNELS", True)
        monkeypatch.setattr(_table_verbs, "Table", None)
        yield fake_libraries.cupy(monkeypatch).asarray, calls


def at(address: int, n: int, nbytes: int) -> Array:
    return np.frombuffer((ctypes.c_char * (n * nbytes)).from_address(address), f"i{nbytes}")


def find(n: int, keys: int, key_bytes: int, first: bool, distinct: int, counts: int, codes: int, size: int) -> None:
    """What the kernels do: by appearance, or from the largest one down where any order will do."""
    found, where, inverse, many = np.unique(
        at(keys, n, key_bytes), return_index=True, return_inverse=True, return_counts=True
    )
    order = np.argsort(where) if first else np.arange(len(found))[::-1]
    at(distinct, len(found), key_bytes)[:] = found[order]
    if counts:
        at(counts, len(found), 8)[:] = many[order]
    if codes:
        at(codes, n, 8)[:] = np.argsort(order)[inverse]
    at(size, 1, 8)[:] = len(found)


def host(array: Any) -> Array:
    return np.asarray(getattr(array, "array", array))


@pytest.mark.parametrize("order", ["any", "first"])
@pytest.mark.parametrize("dtype", ["int32", "int64", "float32"])
@pytest.mark.parametrize("distinct", [3, 900])  # far fewer than rows, and most of them
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
        assert (there.base is None) == (distinct == 3)  # a copy where the rest would keep memory for nothing
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

    def group(*_: Any) -> None:
        raise gh.Unsupported("cuda:0 has 1024 bytes of shared memory for a block")

    monkeypatch.setattr(_core, "group", group)
    with pytest.raises(TypeError, match="NoneType"):
        gh.unique(array(np.arange(10, dtype="int32")))


def test_a_table_serves_what_is_left(put: Any) -> None:
    array, calls = put
    for arguments in ({"backend": "hive"}, {"memory": "torch"}):
        with pytest.raises(TypeError, match="NoneType"):  # which stands for Table here
            gh.unique(array(np.arange(10, dtype="int32")), **arguments)
    assert calls == []
