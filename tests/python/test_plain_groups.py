"""Verbs on arrays of a GPU that one look finds ready (`_core.plain_groups`), over fake libraries of arrays: they give
what the other way gives, and whatever takes more than a look is left to that.

The kernels are those of `fake_kernels.py`. The real ones are tried on a card (tests/gpu/test_verbs.py).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pygpuhash as gh
from pygpuhash import _core, _cuda, _device_groups

sys.path.insert(0, str(Path(__file__).resolve().parent))
import fake_kernels
import fake_libraries
from fake_kernels import host


@pytest.fixture
def put(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    with fake_kernels.installed(monkeypatch) as made:
        yield made


def of_library(library: str, monkeypatch: pytest.MonkeyPatch, array: Any) -> Any:
    """What makes an array of a fake library."""
    return array if library == "cupy" else fake_libraries.torch(monkeypatch).Tensor


@pytest.mark.parametrize("shape", [(1000,), (20, 50), (1000, 1), ()])
@pytest.mark.parametrize("distinct", [3, 900])
@pytest.mark.parametrize("dtype", ["int32", "uint64"])
@pytest.mark.parametrize("library", ["cupy", "torch"])
def test_short_arrays_of_integers_take_one_look(
    put: Any, monkeypatch: pytest.MonkeyPatch, library: str, dtype: str, distinct: int, shape: tuple[int, ...]
) -> None:
    """And give what they give by the other way, which a seed asks for; results of the library, on its device."""
    array, calls = put
    make = of_library(library, monkeypatch, array)
    given = np.random.default_rng(distinct).integers(0, distinct, shape).astype(dtype)
    keys = make(given)
    for verb in (gh.unique, gh.value_counts, gh.factorize):
        for order in ("any", "first"):
            for _ in range(2):  # few are expected in the second call, if they are few
                wanted, found = verb(keys, order=order, seed=5), None
                with monkeypatch.context() as alone:
                    alone.setattr(_device_groups, "Place", None)
                    found = verb(keys, order=order)
                    for device in ("cuda", "cuda:0"):
                        verb(keys, order=order, device=device)
                pairs = list(zip(wanted, found, strict=True)) if isinstance(found, tuple) else [(wanted, found)]
                for one, other in pairs:
                    assert type(other) is type(keys)
                    assert host(other).dtype == host(one).dtype
                    assert np.array_equal(host(other), host(one))
            assert calls[-1][:3] == (given.size, given.itemsize, order == "first")
    assert len({call[3] for call in calls}) == 1 + len(calls) * 3 // 4, "a seed is drawn for each call"
    _core.results.expected.clear()
    codes, _ = gh.factorize(keys)
    assert host(codes).shape == shape
    assert bool(_core.results.expected) is (distinct == 3 and given.size == 1000)


@pytest.mark.parametrize("op", ["sum", "mean", "min", "max"])
@pytest.mark.parametrize("dtype", ["int32", "uint32", "float32", "int64", "float64"])
@pytest.mark.parametrize("library", ["cupy", "torch"])
def test_aggregates_of_arrays_that_take_one_look(
    put: Any, monkeypatch: pytest.MonkeyPatch, library: str, dtype: str, op: Any
) -> None:
    array, _ = put
    make = of_library(library, monkeypatch, array)
    rng = np.random.default_rng(1)
    given = rng.integers(0, 1000, (20, 50)) - (500 if dtype[0] != "u" else 0)
    keys, values = make(rng.integers(0, 70, (20, 50))), make(given.astype(dtype))
    for order in ("any", "first"):
        wanted = gh.group_reduce(keys, values, op, order=order, seed=5)
        with monkeypatch.context() as alone:
            alone.setattr(_device_groups, "Place", None)
            found = gh.group_reduce(keys, values, op, order=order)
            if op == "sum":
                with pytest.raises(TypeError, match="NoneType"):  # by the other way, which is not there
                    gh.group_reduce(keys, values, op, dtype="i4")
                with pytest.raises(TypeError, match="NoneType"):
                    gh.group_reduce(keys, make(np.ones((20, 50), "f4")), op, reproducible=True)
        for one, other in zip(wanted, found, strict=True):
            assert type(other) is type(keys)
            assert host(other).dtype == host(one).dtype
            assert np.array_equal(host(other), host(one))


@pytest.mark.parametrize("library", ["cupy", "torch"])
def test_values_that_take_more_than_one_look(put: Any, monkeypatch: pytest.MonkeyPatch, library: str) -> None:
    array, _ = put
    make = of_library(library, monkeypatch, array)
    keys = make(np.arange(10))

    def one_look(values: Any) -> Any:
        return _core.plain_groups(keys, -1, False, 1, _cuda.copy, lambda stream: False, values=values, op="sum")

    assert one_look(make(np.arange(10))) is not None
    for values in (
        make(np.arange(5)),
        make(np.arange(10).reshape(2, 5)),
        make(np.arange(20)[::2]),
        make(np.arange(10, dtype="i2")),
        make(np.arange(10) > 3),
        np.arange(10),
        1,
        None,
        [1] * 10,
    ):
        assert one_look(values) is None
    other = fake_libraries.torch(monkeypatch).Tensor if library == "cupy" else array
    assert one_look(other(np.arange(10))) is None
    elsewhere = make(np.arange(10))
    if library == "cupy":
        elsewhere.data.device_id = 1
    else:
        elsewhere.device = 1
    assert one_look(elsewhere) is None
    with pytest.raises((TypeError, ValueError)):
        gh.group_reduce(keys, None)  # type: ignore[arg-type]


@pytest.mark.parametrize("library", ["cupy", "torch"])
def test_arrays_that_take_more_than_one_look(put: Any, monkeypatch: pytest.MonkeyPatch, library: str) -> None:
    array, _ = put
    make = of_library(library, monkeypatch, array)

    def one_look(keys: Any, first: bool = False, stream: Any = lambda stream: False) -> Any:
        return _core.plain_groups(keys, -1, first, 1, _cuda.copy, stream)

    assert one_look(make(np.arange(10, dtype="i4"))) is not None
    for dtype in ("int8", "int16", "float32", "float64", "bool"):
        assert one_look(make(np.arange(2).astype(dtype))) is None
    assert one_look(make(np.arange(0))) is None
    assert one_look(make(np.arange(20)[::2])) is None
    assert one_look(np.arange(10)) is None
    assert one_look([1, 2]) is None
    assert one_look(make(np.arange(10)), stream=lambda stream: True) is None  # is refused by the other way
    assert one_look(make(np.zeros((1 << 22) + 1, "i4"))) is not None
    assert one_look(make(np.zeros((1 << 28) + 1, "i4"))) is None
    alike = {name: _device_groups.plain(make(np.arange(10)), "any", table) for name, table in {
        "none": {}, "named": {"device": "cuda:0"}, "other": {"device": "cuda:1"}, "strange": {"device": ["cuda"]},
        "cpu": {"device": "cpu"}, "seed": {"seed": 1}, "both": {"device": "cuda:0", "seed": 1},
        "threads": {"device": "cuda", "threads": 2},
    }.items()}  # fmt: skip
    assert [name for name, found in alike.items() if found is not None] == ["none", "named"]
    monkeypatch.setattr(_device_groups, "KERNELS", False)
    assert _device_groups.plain(make(np.arange(10)), "any", {}) is None
    asked: list[int] = []
    assert one_look(make(np.arange(10)), stream=asked.append) is not None
    assert asked == [0]


@pytest.mark.parametrize("library", ["cupy", "torch"])
def test_an_array_that_is_not_on_the_current_device(put: Any, monkeypatch: pytest.MonkeyPatch, library: str) -> None:
    """Its device is the current one in the call: copies of results are queued on the default stream of that."""
    array, _ = put
    make = of_library(library, monkeypatch, array)
    keys = make(np.arange(2000) % 3)
    gh.unique(keys, order="first")
    monkeypatch.setattr(fake_libraries.ndarray if library == "cupy" else make, "current_device", 1)
    assert _core.plain_groups(keys, -1, False, 1, _cuda.copy, lambda stream: False) is None
    driver, copy, names, before = _cuda.call, _cuda.copy, list[str](), list[list[str]]()

    def call(name: str, *arguments: Any) -> Any:
        names.append(name)
        return driver(name, *arguments)

    def copied(*arguments: Any) -> None:
        before.append(names[-1:])
        copy(*arguments)

    monkeypatch.setattr(_cuda, "call", call)
    monkeypatch.setattr(_cuda, "copy", copied)
    for _ in range(2):
        _core.results.expected.clear()  # the copy is made after the kernels, and while they run
        for _ in range(2):
            assert host(gh.unique(keys, order="first")).tolist() == [0, 1, 2]
    assert before == [["cuCtxPushCurrent"]] * 4
