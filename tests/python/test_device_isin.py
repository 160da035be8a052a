"""`isin` of columns on a GPU without a table: the rule, the temporaries, refusals, and memory that is short.

The kernels are those of `fake_kernels.py`, in memory of the host; the real ones, as in `test_device_groups.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import pygpuhash as gh
from pygpuhash import _core, _device_groups, _verb_inputs

sys.path.insert(0, str(Path(__file__).resolve().parent))
import fake_kernels
from fake_kernels import host


@pytest.fixture
def put(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    with fake_kernels.installed(monkeypatch) as made:
        yield made


def test_rule_for_isin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_device_groups, "KERNELS", True)
    for dtype, few in (("int32", 2**22), ("float64", 2**21)):
        for rows, others, wanted in (
            (0, 0, True),
            (2**32, few, True),
            (2**31 - few - 1, few + 1, True),
            (2**31 - few, few + 1, False),  # rows of both columns are more than a division takes
            (0, 2**29, True),
            (0, 2**29 + 1, False),
        ):
            assert _device_groups.serves_isin("torch", np.dtype(dtype), rows, others, 0, {}) is wanted
    assert not _device_groups.serves_isin("torch", np.dtype("int16"), 10, 10, 0, {})
    assert not _device_groups.serves_isin("torch", np.dtype("int32"), 10, 10, 0, {"backend": "hive"})


def test_refusals_of_isin() -> None:
    assert [_core.isin_scratch(10, n, 4) for n in (0, 2048, 2049)] == [0, 0, 256 + 4 * 16384]
    assert _core.isin_scratch(10, 2**22, 4) == 256 + 4 * 2**24  # 16 MiB of others, the most that a table serves
    assert _core.isin_scratch(10, 2**22 + 1, 4) < 17 * 2**22
    assert _core.isin_scratch(2**31, 2**29, 8) == 256 + 8 * 2**31  # a table, as rows of both are too many to divide
    least, most = ((2**20 + 2**24) * x for x in (8 + 8 + 1 + 2 + 2, 25))  # hashes twice, answers, places twice
    assert least <= _core.isin_scratch(2**20, 2**24, 8) < most
    with pytest.raises(gh.Unsupported, match=r"n_among is 536870913; one call takes at most 2\^29 others: use a table"):
        _core.isin_scratch(1, 2**29 + 1, 4)
    with pytest.raises(gh.InvalidArgument, match=r"request[.]key_bytes is 2; keys have 4 or 8 bytes"):
        _core.isin_scratch(1, 1, 2)

    def isin(**changed: int) -> None:
        given = {"keys": 4096, "others": 5000, "among": 4096, "out": 4096, "scratch": 4096, "nbytes": 1 << 20} | changed
        _core.isin(
            0, 10, given["keys"], given["others"], given["among"], 4, 1, given["out"], given["scratch"],
            given["nbytes"], 0,
        )  # fmt: skip

    for name in ("keys", "among", "out"):
        with pytest.raises(gh.InvalidArgument, match="keys, among or out is NULL"):
            isin(**{name: 0})
    for name in ("keys", "among"):
        with pytest.raises(gh.InvalidArgument, match="keys are aligned to 4 bytes"):
            isin(**{name: 4098})
    with pytest.raises(gh.InvalidArgument, match=r"scratch_bytes is 16, and the call takes 131328: ask gpuhash_isin"):
        isin(nbytes=16)
    with pytest.raises(gh.InvalidArgument, match=r"request[.]scratch is NULL"):
        isin(scratch=0)
    with pytest.raises(gh.InvalidArgument, match="scratch is 0x1010, which is not aligned to 256 bytes"):
        isin(scratch=4112)


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32"])
def test_isin(put: Any, dtype: str) -> None:
    array, calls = put
    keys, few = np.arange(60, dtype=dtype).reshape(6, 10), np.arange(0, 60, 7, dtype=dtype)
    for others in (few, array(few), few.copy() if few.dtype.kind == "f" else few.tolist()):
        mask = gh.isin(array(keys), others, seed=3)
        assert (host(mask).dtype, host(mask).shape) == (np.bool_, (6, 10))
        assert np.array_equal(host(mask), keys % 7 == 0)
    assert [call[:4] for call in calls] == [(60, 9, keys.itemsize, 3)] * 3


def test_isin_with_temporaries(put: Any) -> None:
    """Their bytes, which the kernels' stand-in computes again, are those of so many others, not of so many keys."""
    array, calls = put
    keys, many = np.arange(60), np.arange(30, 5000)
    assert np.array_equal(host(gh.isin(array(keys), array(many))), keys >= 30)
    assert [call[:2] for call in calls] == [(60, 4970)]


def test_sizes_of_the_rule(put: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    array, calls = put
    monkeypatch.setattr(_device_groups, "_IN_CACHE", 8 * 20)
    monkeypatch.setattr(_device_groups, "MOST", 50)
    gh.isin(array(np.arange(60)), array(np.arange(20)))
    gh.isin(array(np.arange(20)), array(np.arange(30)))
    assert [call[:2] for call in calls] == [(60, 20), (20, 30)]
    with pytest.raises(TypeError, match="NoneType"):  # which stands for Table here
        gh.isin(array(np.arange(21)), array(np.arange(30)))


def test_memory_is_short(put: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table serves the column then, which takes less; another error is the caller's."""

    class OutOfMemoryError(Exception):
        pass

    array, _ = put
    raised: list[Exception] = [OutOfMemoryError(), gh.NoMemory("of this library"), ValueError("of another one")]

    def isin(*_: Any) -> Any:
        raise raised[0]

    monkeypatch.setattr(_device_groups, "isin", isin)
    with pytest.raises(TypeError, match="NoneType"):  # which stands for Table here
        gh.isin(array(np.arange(9)), array(np.arange(5)))
    with pytest.raises(OutOfMemoryError):
        gh.isin(array(np.arange(9)), array(np.arange(0)))  # where a table would not help
    del raised[0]
    with pytest.raises(TypeError, match="NoneType"):
        gh.isin(array(np.arange(9)), array(np.arange(5)))
    del raised[0]
    with pytest.raises(ValueError, match="of another one"):
        gh.isin(array(np.arange(9)), array(np.arange(5)))


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("i4", "i4", True),
        ("u8", "u8", True),
        ("i4", "i8", False),
        ("i4", "u4", False),
        ("f4", "f4", False),  # equal numbers may have different bits
        (None, "i4", False),
        ("i4", None, False),
    ],
)
def test_columns_that_are_ready_alike(
    monkeypatch: pytest.MonkeyPatch, one: str | None, other: str | None, alike: bool
) -> None:
    def ready(dtype: str | None) -> Any:
        return None if dtype is None else SimpleNamespace(dtype=np.dtype(dtype))

    monkeypatch.setattr(_verb_inputs._table_verbs, "ready_on_device", ready)
    monkeypatch.setattr(_verb_inputs._tensors, "library_of", lambda given: "cupy")
    pair = _verb_inputs.ready_alike(one, other)
    assert (pair is not None) is alike
    if pair is not None:
        assert [column.dtype for column in pair] == [one, other]
    monkeypatch.setattr(_verb_inputs._tensors, "library_of", lambda given: "jax")
    assert _verb_inputs.ready_alike(one, other) is None
