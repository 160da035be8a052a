"""Ranges whose ends lie on the GPU, and batches that are built at once, at sizes that fill it."""

from __future__ import annotations

import numpy as np
import pytest

import pygpuhash as gh
from pygpuhash import _cuda

pytestmark = pytest.mark.gpu

N = 1 << 20


def on_gpu(array):
    return _cuda.from_host(array, 0)


@pytest.fixture
def held():
    keys = np.sort(np.random.default_rng(1).choice(2**32, N, replace=False).astype("u4"))
    with gh.Table("skiplist", key_dtype="u4", value_dtype="u4", device="cuda:0") as t:
        t.insert(keys, ~keys)
        yield t, keys


@pytest.mark.parametrize("ends", ["both", "low", "high"])
def test_ranges_of_any_length(held, ends):
    t, keys = held
    random = np.random.default_rng(2)
    low = random.integers(0, 2**32, 3000 if ends == "both" else 5, "u4")
    high = low + random.integers(0, 2**22, len(low), "u4") if ends == "both" else low
    begin = np.zeros(len(low), int) if ends == "high" else np.searchsorted(keys, low)
    end = np.full(len(low), N) if ends == "low" else np.searchsorted(keys, high)
    expected = np.concatenate([keys[a : max(a, b)] for a, b in zip(begin, end, strict=True)])
    given = [None if ends == other else on_gpu(a) for a, other in ((low, "high"), (high, "low"))]
    found, values, offsets = (a.get() for a in t.range(*given))
    assert offsets.tolist() == np.cumsum([0, *np.maximum(end - begin, 0)]).tolist()
    assert np.array_equal(found, expected)
    assert np.array_equal(values, ~expected)


@pytest.mark.parametrize("limit", [20_000, N, 2 * N])
def test_few_long_ranges_with_a_limit(held, limit):
    t, keys = held
    ends = [(0, N - 1), (N // 3, N // 2), (77, 77), (N - 9, N - 3), (9, 4)]
    low, high = (on_gpu(keys[[e[i] for e in ends]]) for i in (0, 1))
    found, values, counts = (a.get() for a in t.range(low, high, limit))
    assert counts.tolist() == [min(max(b - a, 0), limit) for a, b in ends]
    for (a, _), n, row, with_it in zip(ends, counts, found, values, strict=True):
        assert np.array_equal(row[:n], keys[a : a + n])
        assert np.array_equal(with_it[:n], ~keys[a : a + n])


def test_slices_of_host_arrays(held):
    t, keys = held
    for part, expected in ((t[keys[1000] : keys[-1000]], keys[1000:-1000]), (t[: keys[5]], keys[:5]), (t[:], keys)):
        assert np.array_equal(part[0], expected)
        assert np.array_equal(part[1], ~expected)


def test_slices(held):
    t, keys = held
    low, high = (on_gpu(np.array(keys[i])) for i in (1000, N - 1000))
    for part, expected in ((t[low:high], keys[1000:-1000]), (t[:low], keys[:1000]), (t[high:], keys[-1000:])):
        assert np.array_equal(part[0].get(), expected)
        assert np.array_equal(part[1].get(), ~expected)


@pytest.mark.parametrize("distinct", [1, 1000, N])
@pytest.mark.parametrize("value", ["u4", "i8", "f4"])
def test_sums_of_batches_at_once(distinct, value):
    """Small numbers, so that floats are exact in any order."""
    random = np.random.default_rng(3)
    keys, values = random.integers(0, distinct, N, "u4"), random.integers(0, 9, N).astype(value)
    if distinct == N:
        keys[: N // 2] = 2**32 - 1  # a key that has its place beside the table
    expected = np.zeros(2 * N, value)
    np.add.at(expected, np.minimum(keys, N), values)
    with gh.Table("skiplist", key_dtype="u4", value_dtype=value, device="cuda:0", build="always") as t:
        for times in (1, 2):
            fresh = t.accumulate(keys, values)
            assert fresh.sum() == (len(np.unique(keys)) if times == 1 else 0)
            there, sums = t.export()
            assert np.array_equal(sums, (expected * np.array(times, value))[np.minimum(there, N)])
        t.check()


@pytest.mark.parametrize("arrange", [np.sort, np.random.default_rng(4).permutation], ids=["in order", "shuffled"])
@pytest.mark.parametrize("n", [1 << 10, 1 << 12, 1 << 16, 1 << 18])
@pytest.mark.parametrize("build", ["auto", "always", "never"])
def test_batches_behind_the_end(build, n, arrange):
    """Key by key or at once, into a table that is larger than they are and grows by them."""
    first = np.arange(N, dtype="u4")
    with gh.Table("skiplist", key_dtype="u4", value_dtype="u4", device="cuda:0", build=build, capacity=N + n) as t:
        t.insert(on_gpu(first), on_gpu(~first))
        end = N
        for _ in range(4):
            keys = arrange(np.arange(end - 3, end + n, dtype="u4"))  # three of them are there
            end += n
            fresh = t.insert(on_gpu(keys), on_gpu(~keys)).get()
            assert np.array_equal(fresh != 0, keys >= end - n)
            t.check()
        if build == "always":  # auto looks at some of the batches only
            assert t.stats()["fill"] > 0.8  # of six entries of a chunk five, in any order
        keys, values = t.export()
        assert np.array_equal(keys, np.arange(end, dtype="u4"))
        assert np.array_equal(values, ~keys)
        assert len(t) == end


@pytest.mark.parametrize(("key", "value"), [("i4", "u4"), ("f8", "i8"), ("u8", "u8")])
def test_counts_behind_the_end(key, value):
    """Equal keys of a batch are joined, with the pairs of the last chunk as well."""
    random = np.random.default_rng(5)
    first = (np.arange(N) - N // 2).astype(key) if key[0] != "u" else np.arange(N, dtype=key)
    counts = dict.fromkeys(range(8 * N), 0)
    with gh.Table("skiplist", key_dtype=key, value_dtype=value, device="cuda:0") as t:
        t.insert(first, np.ones(N, value))
        end = int(first[-1])
        for step in range(3):
            some = random.integers(0, 5_000, 1 << 15) + step * 4_000
            np.add.at(expected := np.zeros(20_000, "i8"), some, 1)
            for k in np.flatnonzero(expected).tolist():
                counts[k] += int(expected[k])
            t.accumulate((some + end).astype(key), np.ones(len(some), value))
            t.check()
        found, there = t.find((np.arange(13_000) + end).astype(key))
        wanted = np.array([counts[k] for k in range(13_000)])
        wanted[0] += 1  # the last key of before
        assert np.array_equal(there, wanted > 0)
        assert np.array_equal(found[there].astype("i8"), wanted[there])


def test_batches_all_over_the_table_beside_batches_behind_the_end():
    """Which of them is looked at changes with what came before; the table is the same."""
    random = np.random.default_rng(6)
    n = 1 << 13
    first = np.arange(N, dtype="u4") * np.uint32(4)
    held = set(first.tolist())
    with gh.Table("skiplist", key_dtype="u4", value_dtype="u4", device="cuda:0") as t:
        t.insert(on_gpu(first), on_gpu(first))
        end = 4 * N
        for step in range(40):
            if step % 20 < 12:
                keys = random.choice(4 * N, n, replace=False).astype("u4")
            else:
                keys = random.permutation(n).astype("u4") + np.uint32(end)
                end += n
            fresh = t.insert(on_gpu(keys), on_gpu(keys)).get()
            assert int((fresh != 0).sum()) == len(set(keys.tolist()) - held)
            held.update(keys.tolist())
        t.check()
        assert np.array_equal(t.keys(), np.array(sorted(held), "u4"))
