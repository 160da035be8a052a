"""Batches whose sample misleads a growing table about its distinct keys: no element may be lost for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pygpuhash as gh

cp = pytest.importorskip("cupy", reason="needs CuPy for arrays on the device")
pytestmark = pytest.mark.gpu

N = 1 << 21
MANY = 1 << 14  # keys that are looked up before a batch for which there is little room (kit/distinct.hpp)


def looked_at() -> Any:
    """Which keys of a batch these are (kit/device.hpp)."""
    return cp.arange(MANY, dtype=cp.int64) * (N - 1) // (MANY - 1)


def batches() -> dict[str, Any]:
    """Distinct keys where the sample looks and few elsewhere, the reverse, and halves of either kind."""
    i = cp.arange(N, dtype=cp.uint32)
    few, rare = i % cp.uint32(100), i + cp.uint32(1 << 30)
    sampled = cp.zeros(N, bool)
    sampled[looked_at()] = True
    return {
        "looks distinct": cp.where(sampled, rare, few),
        "looks like few keys": cp.where(sampled, few, rare),
        "looks like one key": cp.where(sampled, cp.uint32(7), rare),
        "looks like few and some rare ones": cp.where(sampled & (i % 64 != 0), few, rare),
        "distinct, then few": cp.where(i < N // 2, rare, few),
        "few, then distinct": cp.where(i < N // 2, few, rare),
    }


@pytest.mark.parametrize("wide", [False, True], ids=["u4", "u8"])
@pytest.mark.parametrize("with_statuses", [False, True], ids=["without statuses", "with statuses"])
def test_a_misleading_sample(backend: str, wide: bool, with_statuses: bool) -> None:
    dtype = np.dtype("u8" if wide else "u4")
    for name, keys in batches().items():
        keys = keys.astype(dtype)
        distinct = int(cp.unique(keys).size)
        with gh.Table(backend, key_dtype=dtype, value_dtype=dtype, device="cuda:0") as table:
            for round in range(2):  # into a table of default size, and into one that has them all
                fresh = table.insert(keys, ~keys, out=None if with_statuses else False)
                if with_statuses:
                    assert int(fresh.sum()) == (0 if round else distinct), name
                assert len(table) == distinct, name
            values, found = table.find(keys)
            assert bool(found.all()), name
            assert bool((values == ~keys).all()), name
            assert table.stats()["failed"] == 0, name
            table.check()


def test_keys_that_are_only_looked_for_need_no_room(backend: str) -> None:
    there = cp.arange(1 << 18, dtype=cp.uint32)
    i = cp.arange(N, dtype=cp.uint32)
    looks = i % 5 < 3
    ops = cp.where(looks, int(gh.Op.FIND), int(gh.Op.ASSIGN)).astype(cp.uint8)
    keys = cp.where(looks, i + cp.uint32(1 << 30), i % cp.uint32(there.size))
    with gh.Table(backend, capacity=there.size, device="cuda:0") as table:
        table.insert(there, there)
        before = table.capacity
        _, found = table.execute(ops, keys, keys + cp.uint32(1))
        assert int(found.sum()) == 0
        assert (len(table), table.capacity) == (there.size, before)
        assert bool((table.find(there)[0] == there + cp.uint32(1)).all())


def test_keys_that_are_erased_and_inserted_by_one_batch_find_room(backend: str) -> None:
    there = cp.arange(1 << 18, dtype=cp.uint32) * cp.uint32(2654435761)
    ops = cp.full(2 * there.size, int(gh.Op.ERASE), cp.uint8)
    ops[there.size :] = int(gh.Op.INSERT)
    keys = cp.concatenate([there, there])
    with gh.Table(backend, capacity=there.size, device="cuda:0") as table:
        for _ in range(4):
            table.insert(there, ~there)
            table.execute(ops, keys, ~keys)
            table.insert(there, ~there)  # would tell of elements that found no room
            assert len(table) == there.size
            assert bool((table.find(there)[0] == ~there).all())
        table.check()
