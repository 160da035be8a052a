"""Integers of which few are distinct: slots in cache, and how they are chosen."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import pygpuhash as gh
from pygpuhash import _number_verbs
from pygpuhash.columns import _few

PIECES = pytest.mark.parametrize("piece", [1, 7, 1 << 22])


def agrees(column: Any, bits: int, piece: int) -> bool:
    """Do all verbs say what a dict says? False: all of them leave it."""
    keys = list(dict.fromkeys(column.tolist()))
    found = tuple(verb(column, bits, piece) for verb in (_few.unique, _few.value_counts, _few.factorize))
    if found[0] is None:
        assert found == (None, None, None)
        return False
    assert found[0].dtype == found[1][0].dtype == found[2][1].dtype == column.dtype
    assert found[0].tolist() == found[1][0].tolist() == found[2][1].tolist() == keys
    assert dict(zip(keys, found[1][1].tolist(), strict=True)) == Counter(column.tolist())
    assert found[1][1].dtype == found[2][0].dtype == np.int64
    assert found[2][1][found[2][0]].tolist() == column.tolist()
    return True


@PIECES
@pytest.mark.parametrize("dtype", ["i4", "u4", "i8", "u8"])
def test_random_integers(dtype: str, piece: int) -> None:
    seed = int(np.random.default_rng().integers(2**32))
    print("seed", seed)
    random = np.random.default_rng(seed)
    info = np.iinfo(dtype)
    for distinct in (1, 2, 60, 64):
        some = random.integers(info.min, info.max, distinct, dtype, endpoint=True)
        some[: distinct // 2] = [info.min, info.max, *range(distinct)][: distinct // 2]
        assert agrees(some[random.integers(0, distinct, 900)], 8, piece) or len(set(some)) > 63
    assert agrees(np.zeros(5, dtype), 8, piece)
    assert agrees(np.empty(0, dtype), 8, piece)


@PIECES
def test_more_keys_than_a_fourth_of_the_slots(piece: int) -> None:
    for many in (63, 64):
        assert agrees(np.arange(many) << 50, 8, piece) == (many == 63)
    assert _few.unique(np.arange(5), 2) is None
    assert _few.unique(np.arange(5), 21) is None


def test_keys_that_want_one_slot() -> None:
    """Multiples of the factor's inverse share their slot: an index with a seed of its own takes the column."""
    undoing = pow(0x9E3779B97F4A7C15, -1, 2**64)
    keys = np.array([i * undoing % 2**64 for i in range(4000)], "u8")
    assert _few.unique(np.tile(keys, 20), 16) is None
    assert sorted(gh.unique(np.tile(keys, 20)).tolist()) == sorted(keys.tolist())


@pytest.mark.parametrize("verb", ["unique", "value_counts", "factorize"])
def test_verbs_take_the_slots(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []
    real = getattr(_few, verb)
    monkeypatch.setattr(_few, verb, lambda column, bits: taken.append((column.size, bits)) or real(column, bits))
    random = np.random.default_rng(1)
    for distinct, expected in ((3, 11), (600, 14), (30_000, 0), (2**62, 0)):
        taken.clear()
        column = (random.integers(0, distinct, 1 << 17) * 0x5851F42D4C957F2D) % 2**61
        getattr(gh, verb)(column, threads=1)
        assert dict(taken).get(column.size, 0) == expected
    taken.clear()
    getattr(gh, verb)(column % 7 << 40, threads=3)
    getattr(gh, verb)((column % 7).astype("f8") / 3, threads=1)
    assert not taken


def test_a_sample_that_does_not_show_all() -> None:
    """Few keys at places of the sample, and many elsewhere: the column is counted in another way."""
    column = np.random.default_rng(2).integers(0, 2**62, 1 << 17)
    column[:: _number_verbs._arrays.step_of_sample(column.size, column.size >> 5)] = 7
    keys, counts = gh.value_counts(column, threads=1)
    assert dict(zip(keys.tolist(), counts.tolist(), strict=True)) == Counter(column.tolist())
    codes, distinct = gh.factorize(column, threads=1)
    assert (distinct[codes] == column).all()
