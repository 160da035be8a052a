"""Sums that change where they are, on one stream, while others insert and erase keys in the same lines."""

from __future__ import annotations

import numpy as np
import pytest

import pygpuhash as gh

pytestmark = pytest.mark.gpu

HOT, ALL, ROUNDS = 2_000, 1 << 19, 16
KEEPS_DEAD = {"stadium", "skiplist"}  # what an erased key took is free after a flush only


@pytest.mark.parametrize("grow", [False, True])
@pytest.mark.parametrize("backend", ["linear_probe", "slab_hash", "hive", "stadium", "skiplist"])
def test_sums_are_exact_beside_erasures_of_other_keys(backend: str, grow: bool) -> None:
    cp = pytest.importorskip("cupy")
    rng = np.random.default_rng(5)
    keys = rng.choice(1 << 30, size=2 * ALL, replace=False).astype(np.uint32)
    counted, others = keys[:ALL], cp.asarray(keys[ALL:])
    skewed = counted[np.minimum(rng.zipf(1.3, ALL) - 1, HOT - 1)]  # frequent keys, and some of all others
    skewed[::4] = counted[::4]
    expected = dict(zip(*np.unique(skewed, return_counts=True), strict=True))
    k, one = cp.asarray(skewed), cp.ones(ALL, cp.uint32)
    streams = [cp.cuda.Stream(non_blocking=True) for _ in range(4)]
    capacity = 1000 if grow else 2 * ALL * (ROUNDS if backend in KEEPS_DEAD else 1)
    with gh.Table(backend, key_dtype="u4", value_dtype="u4", capacity=capacity, grow=grow, device="cuda:0") as t:
        cp.cuda.Device().synchronize()
        for i in range(ROUNDS):
            t.accumulate(k, one, out=False, stream=streams[0])
            t.accumulate(k, one, stream=streams[1])
            t.insert(others, one, out=False, stream=streams[2])
            t.erase(others, out=False, stream=streams[3])
            if i % 3 == 0:
                t.erase(others[:1000], out=False, stream=streams[1])
                t.find(k, stream=streams[2])
        cp.cuda.Device().synchronize()
        t.check()
        sums, found = t.find(np.fromiter(expected, np.uint32))
        assert found.all()
        np.testing.assert_array_equal(sums, 2 * ROUNDS * np.fromiter(expected.values(), np.uint32))


@pytest.mark.parametrize("backend", ["linear_probe", "slab_hash"])
def test_a_table_stays_whole_while_counted_keys_are_erased(backend: str) -> None:
    cp = pytest.importorskip("cupy")
    keys = cp.arange(ALL, dtype=cp.uint32) % HOT
    hot, one = keys[:HOT], cp.ones(ALL, cp.uint32)
    streams = [cp.cuda.Stream(non_blocking=True) for _ in range(3)]
    with gh.Table(backend, key_dtype="u4", value_dtype="u4", capacity=ALL, grow=False, device="cuda:0") as t:
        cp.cuda.Device().synchronize()
        for _ in range(20):
            t.accumulate(keys, one, out=False, stream=streams[0])
            t.erase(hot, out=False, stream=streams[1])
            t.insert_or_assign(hot, hot, out=False, stream=streams[2])
        cp.cuda.Device().synchronize()
        t.check()
        kept, _ = t.export()
        assert len(np.unique(np.asarray(kept))) == len(kept) == len(t)
        assert set(np.asarray(kept).tolist()) <= set(range(HOT))
