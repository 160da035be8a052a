"""Verbs on columns of random shapes and lengths on a GPU, against numpy; GPUHASH_GPU_ROUNDS: how many of each seed."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pygpuhash as gh

pytestmark = pytest.mark.gpu
ROUNDS = int(os.environ.get("GPUHASH_GPU_ROUNDS", "12"))
MOST_PAIRS = 1 << 24
Array = np.ndarray[Any, Any]
Put = Callable[[Array], Any]


def column(rng: np.random.Generator, n: int, dtype: str) -> Array:
    """Random, sorted, clustered, with one frequent key, skewed, or each key as often; of small keys or of all."""
    distinct = max(1, int(n * 10 ** -rng.uniform(0, 4)))
    shape = rng.integers(6)
    if shape == 0:
        keys = rng.integers(0, distinct, n)
    elif shape == 1:
        keys = np.sort(rng.integers(0, distinct, n))
    elif shape == 2:
        keys = np.arange(n) // rng.integers(1, 300)
    elif shape == 3:
        keys = np.where(rng.random(n) < rng.random(), 3, rng.integers(0, distinct, n))
    elif shape == 4:
        keys = np.minimum(rng.zipf(1.2, n), 1 << 30)
    else:
        keys = rng.permutation(n) >> rng.integers(0, 9)
    factor = np.array(0x9E3779B1 if rng.integers(2) else 1, "u8")
    return (keys.astype("u8") * factor).astype(f"u{np.dtype(dtype).itemsize}").view(dtype)


def length(rng: np.random.Generator, most: float) -> int:
    return 0 if rng.random() < 0.05 else int(2 ** rng.uniform(0, most))


def check_groups(rng: np.random.Generator, host: Array, put: Put, get: Callable[[Any], Array]) -> None:
    keys, amounts = put(host), rng.integers(-100, 100, len(host))
    wanted, first, inverse, counts = np.unique(host, return_index=True, return_inverse=True, return_counts=True)
    lowest = np.full(len(wanted), 100)
    np.minimum.at(lowest, inverse, amounts)
    appear = np.argsort(first)
    order: Any = ("any", "first")[rng.integers(2)]
    for aggregates in (None, ("sum", "min")):
        if aggregates is None:
            found, many = gh.value_counts(keys, order=order)
            results = [(many, counts)]
        else:
            found, (sums, least) = gh.group_reduce(keys, put(amounts), aggregates, order=order)
            results = [(sums, np.bincount(inverse, amounts, len(wanted)).astype("i8")), (least, lowest)]
        sort = np.argsort(get(found))
        assert np.array_equal(get(found)[sort], wanted)
        assert order == "any" or np.array_equal(get(found), wanted[appear])
        for result, right in results:
            assert np.array_equal(get(result)[sort], right)
    codes, found = gh.factorize(keys, order=order)
    assert len(found) == len(wanted)
    assert np.array_equal(get(found)[get(codes)], host)
    assert order == "any" or np.array_equal(get(found), wanted[appear])


def check_two(rng: np.random.Generator, host: Array, other: Array, put: Put, get: Callable[[Any], Array]) -> None:
    assert np.array_equal(get(gh.isin(put(host), put(other))), np.isin(host, other))
    keys, times = np.unique(other, return_counts=True)
    at = np.minimum(np.searchsorted(keys, host), max(len(keys) - 1, 0))
    partners = np.where(keys[at] == host, times[at], 0) if len(keys) else np.zeros(len(host), int)
    if partners.sum() > MOST_PAIRS:
        return
    how: Any = ("inner", "left")[rng.integers(2)]
    left, right = map(get, gh.join_indexer(put(host), put(other), how))
    pairs = np.maximum(partners, 1) if how == "left" else partners
    assert np.array_equal(left, np.repeat(np.arange(len(host)), pairs))
    meets = right >= 0
    assert meets.sum() == partners.sum()
    assert not partners[left[~meets]].any()
    assert np.array_equal(other[right[meets]], host[left[meets]])
    assert (right[1:] > right[:-1])[left[1:] == left[:-1]].all()  # those of a left row, each once and in order


def check_round(rng: np.random.Generator, put: Put, get: Callable[[Any], Array], most: float = 22) -> None:
    dtype = ("int32", "int64", "uint32")[rng.integers(3)]
    host = column(rng, length(rng, most), dtype)
    check_groups(rng, host, put, get)
    other = column(rng, length(rng, most - 1), dtype)
    if len(host) and rng.integers(2):  # keys of the other column
        other[: len(host)] = rng.choice(host, min(len(host), len(other)))
        rng.shuffle(other)
    check_two(rng, host, other, put, get)


@pytest.mark.parametrize("seed", range(8))
def test_random_columns(seed: int) -> None:
    cupy = pytest.importorskip("cupy", reason="needs CuPy for arrays on the device")
    rng = np.random.default_rng(seed)
    for _ in range(ROUNDS):
        check_round(rng, cupy.asarray, cupy.asnumpy)
