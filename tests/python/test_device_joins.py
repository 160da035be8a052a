"""Pairs of rows of a join on a GPU, by the arithmetic of whole arrays; numpy stands for CuPy here."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pygpuhash import _device_joins

XP = _device_joins.operations(np)
# PyTorch can repeat each row without taking the counts to the host.
SPREADING = SimpleNamespace(**{**vars(XP), "spread": lambda many, total: np.repeat(np.arange(len(many)), many)})


def wanted(at: Any, codes: Any, keep: bool) -> list[tuple[int, int]]:
    met = []
    for i, code in enumerate(at):
        rows = [j for j, other in enumerate(codes) if other == code]
        met += [(i, j) for j in rows] or ([(i, -1)] if keep else [])
    return met


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize(
    ("n", "m", "groups"), [(0, 0, 0), (5, 0, 0), (0, 5, 2), (40, 30, 1), (40, 30, 7), (30, 60, 25)]
)
@pytest.mark.parametrize("piece", [1, 7, 1000])
def test_pairs(n: int, m: int, groups: int, keep: bool, piece: int) -> None:
    rng = np.random.default_rng(n + m + groups)
    codes = np.concatenate([np.arange(groups), rng.integers(0, max(groups, 1), max(m - groups, 0))])
    rng.shuffle(codes)
    at = rng.integers(-1, groups, n) if groups else np.full(n, -1)
    for xp in (XP, SPREADING):
        left, right = _device_joins.pairs(xp, at, codes, groups, keep, piece)
        assert list(zip(left.tolist(), right.tolist(), strict=True)) == wanted(at, codes, keep)
        assert (left.dtype, right.dtype) == (np.int64, np.int64)


@pytest.mark.parametrize("keep", [False, True])
def test_pairs_with_rows_that_do_not_repeat(keep: bool) -> None:
    at = np.array([3, -1, 0, 3, -1])
    left, right = _device_joins.pairs(XP, at, None, 4, keep)
    assert list(zip(left.tolist(), right.tolist(), strict=True)) == wanted(at, range(4), keep)
    left, right = _device_joins.pairs(XP, np.array([], np.int64), None, 0, keep)
    assert (len(left), len(right)) == (0, 0)


def first_rows(array: Any) -> Any:
    """The first row of the key of each row."""
    _, first, inverse = np.unique(array, return_index=True, return_inverse=True)
    return first[inverse].astype(np.int32)


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("repeats", [1, 3])  # of right rows
@pytest.mark.parametrize(("n", "m"), [(0, 0), (7, 0), (0, 6), (1, 1), (60, 30), (30, 60)])
def test_columns_meet(n: int, m: int, repeats: int, keep: bool) -> None:
    rng = np.random.default_rng(n + m + repeats)
    right = np.arange(m) // repeats * 7
    rng.shuffle(right)
    left = rng.integers(0, 7 * m + 8, n) if n < m else np.resize(np.arange(7 * m + 8), n)
    for xp in (XP, SPREADING):
        met = _device_joins.meet(xp, first_rows(np.concatenate((right, left))), m, keep)
        assert list(zip(*(found.tolist() for found in met), strict=True)) == wanted(left, right, keep)
