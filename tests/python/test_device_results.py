"""Results of groups on a GPU before their number is known, over host memory."""

from __future__ import annotations

import ctypes
import weakref
from typing import Any, ClassVar

import numpy as np
import pytest

from pygpuhash import _core

LONG, LEAST, INDEX = 1 << 20, 64, np.dtype(np.int64)
KEY = np.dtype(np.uint32)
STREAM = 77


class HostArray:
    """As one of a library that is not known; results are made here."""

    made: ClassVar[list[weakref.ref[HostArray]]] = []  # by asking for memory

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array, self.dtype = array, array.dtype

    def data_ptr(self) -> int:
        return self.array.ctypes.data

    def narrow(self, dimension: int, start: int, length: int) -> HostArray:
        return HostArray(self.array[start : start + length])

    @classmethod
    def empty(cls, shape: tuple[int, ...], dtype: np.dtype[Any]) -> HostArray:
        new = cls(np.full(shape, 0x55, dtype))
        cls.made.append(weakref.ref(new))
        return new


@pytest.fixture(autouse=True)
def none_known(monkeypatch: pytest.MonkeyPatch) -> None:
    _core.results.expected.clear()
    monkeypatch.setattr(HostArray, "made", [])


def copy(to: int, source: int, nbytes: int, stream: int) -> None:
    assert stream == STREAM
    ctypes.memmove(to, source, nbytes)


def bytes_at(address: int, nbytes: int) -> np.ndarray[Any, Any]:
    return np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address))


def call(n: int, groups: int, waits: bool = True) -> tuple[np.ndarray[Any, Any], ...]:
    """The keys and counts that a call gives, and how often memory was asked for before the kernels ended."""
    before = []

    def kernels(of: _core.Grouping, meanwhile: Any) -> None:
        asked = of.arguments()
        bytes_at(asked["scratch"], asked["nbytes"])[:] = 0xEE
        bytes_at(asked["size"], 8)[:] = 0xDD
        for name, dtype in (("distinct", KEY), ("counts", INDEX)):
            assert meanwhile is None or asked[name] % 256 == 0
            bytes_at(asked[name], n * dtype.itemsize).view(dtype)[:] = np.arange(n) * dtype.itemsize
        assert asked["aggregates"] == (0, 0, 0, 0)
        assert (bytes_at(asked["scratch"], asked["nbytes"]) == 0xEE).all(), "a result lies among the temporaries"
        assert (bytes_at(asked["size"], 8) == 0xDD).all(), "a result lies where their number is"
        assert asked["waits"] == waits or meanwhile is None
        if meanwhile:
            meanwhile()
        before.append(len(HostArray.made))
        assert all(array() is not None for array in HostArray.made[-3:]), "the kernels still write there"
        of.found = groups

    asked = _core.Grouping(0, STREAM, 1, (n,), KEY, False, counts=True, waits=waits)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(_core.groups, "group", kernels)
        asked.start(4096, aligned, copy)
    given = list(asked.give().values())
    assert np.array_equal(given[0].array, np.arange(groups) * 4)
    assert np.array_equal(given[1].array, np.arange(groups) * 8)
    assert [array.dtype for array in given] == [KEY, INDEX]
    return given[0].array, given[1].array, np.array(before[0])


def aligned(shape: tuple[int, ...], dtype: np.dtype[Any]) -> HostArray:
    """Temporaries begin where the memory of a device does."""
    if dtype != np.uint8:
        return HostArray.empty(shape, dtype)
    room = np.full(shape[0] + 256, 0x55, np.uint8)
    start = -room.ctypes.data % 256
    new = HostArray(room[start : start + shape[0]])
    HostArray.made.append(weakref.ref(new))
    return new


def kept(array: np.ndarray[Any, Any]) -> int:
    """Elements that the memory behind an array has."""
    return array.size if array.base is None else array.base.size


def test_short_results_are_copied_while_the_kernels_run() -> None:
    distinct, counts, before = call(LONG, 1000)
    assert kept(distinct) == kept(counts) == 1000
    assert before == 3  # two results and temporaries; the copies come later
    assert len(HostArray.made) == 5
    HostArray.made.clear()
    distinct, counts, before = call(LONG, 900)
    assert before == 3  # temporaries with the results behind them, and two copies
    assert len(HostArray.made) == 3
    assert kept(distinct) == kept(counts) == 2000
    distinct, counts, _ = call(LONG, 2000)  # what was copied before is twice 900, and too short
    assert kept(distinct) == kept(counts) == 2000
    HostArray.made.clear()
    call(LONG, 4000)  # and now as long as the result
    assert len(HostArray.made) == 3


def test_a_few_elements_are_copied_however_few_the_last_groups_were() -> None:
    for groups in (0, 1):
        call(LONG, groups)
        distinct, _, _ = call(LONG, groups)
        assert kept(distinct) == LEAST


def test_more_groups_than_were_expected() -> None:
    call(LONG, 10)
    distinct, counts, _ = call(LONG, LONG - 1)
    assert kept(distinct) == kept(counts) == LONG - 1
    HostArray.made.clear()
    distinct, _, before = call(LONG, LONG - 1)  # now many are expected
    assert before == len(HostArray.made) == 3
    assert kept(distinct) == LONG


@pytest.mark.parametrize("groups", [0, 1, 64, 65, 2000, 2001, LONG // 16 - 1, LONG // 16])
def test_every_number_of_groups(groups: int) -> None:
    for expected in (1, 1000, LONG // 17, LONG):
        call(LONG, expected)
        distinct, _, _ = call(LONG, groups)
        copied = 2 * expected if 16 * expected < LONG else 0
        assert kept(distinct) <= max(16 * groups, copied, LEAST)
        distinct, _, _ = call(LONG, groups)  # now it is expected
        assert kept(distinct) <= max(16 * groups, LEAST)


@pytest.mark.parametrize("n", [1, 2, 5, 31, 1000, 40000])
def test_columns_shorter_than_what_is_copied(n: int) -> None:
    for groups in (1, n, 1):
        for _ in range(2):
            distinct, counts, _ = call(n, groups)
            assert max(kept(distinct), kept(counts)) <= n


def test_only_columns_of_about_as_many_rows_are_expected_to_be_alike() -> None:
    call(LONG, 5)
    HostArray.made.clear()
    call(LONG // 2, LONG // 2)
    assert len(HostArray.made) == 3


@pytest.mark.parametrize(("n", "groups", "again"), [
    (1 << 22, 5, 64), (1 << 22, 40_000, 80_000), ((1 << 22) + 1, 5, 64), ((1 << 22) + 1, 1 << 15, 1 << 16),
    ((1 << 22) + 1, (1 << 15) + 1, (1 << 15) + 1), ((1 << 22) + 1, 1 << 20, 1 << 20),
])  # fmt: skip
def test_of_longer_columns_fewer_groups_are_expected(n: int, groups: int, again: int) -> None:
    """Twice the groups are copied while the kernels run, or as many as there are when these have ended."""
    distinct, counts, _ = call(n, groups)
    assert kept(distinct) == kept(counts) == groups
    distinct, counts, _ = call(n, groups)
    assert kept(distinct) == kept(counts) == again
    assert list(_core.results.expected.values()) == ([again] if again != groups else [])


@pytest.mark.parametrize(("n", "expects"), [(1 << 26, True), ((1 << 26) + 1, False)])
def test_very_long_columns_have_arrays_of_their_own(monkeypatch: pytest.MonkeyPatch, n: int, expects: bool) -> None:
    class Nowhere:
        def data_ptr(self) -> int:
            return 4096

        def narrow(self, *_: int) -> Nowhere:
            return self

    def kernels(of: _core.Grouping, meanwhile: Any) -> None:
        if meanwhile:
            meanwhile()
        at.append(len(made))
        of.found = 5

    def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Nowhere:
        made.append(shape[0])
        return Nowhere()

    monkeypatch.setattr(_core.groups, "group", kernels)
    at: list[int] = []
    for _ in range(2):
        made: list[int] = []
        asked = _core.Grouping(0, STREAM, 1, (n,), KEY, False)
        asked.start(4096, empty, lambda *given: None)
        asked.give()
    assert made[-1] == (LEAST if expects else 5)
    assert at == [2, 2]
    assert bool(_core.results.expected) is expects


def test_a_call_that_does_not_wait_has_nothing_to_do_meanwhile() -> None:
    call(LONG, 5)
    HostArray.made.clear()
    distinct, _, before = call(LONG, 5, waits=False)
    assert before == 3
    assert kept(distinct) == 5
