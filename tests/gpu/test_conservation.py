"""A thousand million operations on a GPU: what was inserted and not erased is there, and nothing else.

Keys come from a range twice as large as the table usually holds, so that inserts meet present keys and erases absent
ones, and every batch holds several operations of most keys at once.
"""

from __future__ import annotations

import pytest

import pygpuhash as gh

cp = pytest.importorskip("cupy", reason="needs CuPy for arrays on the device")
pytestmark = pytest.mark.gpu

KEYS, BATCH, ROUNDS = 1 << 25, 1 << 26, 16  # 2^30 operations


def test_conservation(backend: str) -> None:
    rng = cp.random.default_rng(1)
    with gh.Table(backend, key_dtype="uint32", value_dtype="uint32", capacity=KEYS, device="cuda:0", seed=3) as table:
        live = 0
        for _ in range(ROUNDS):
            keys = rng.integers(0, KEYS, BATCH, dtype=cp.uint32) * cp.uint32(2654435761)  # odd factor: a bijection
            ops = rng.integers(0, 4, BATCH, dtype=cp.uint8)
            ops = cp.array([gh.Op.INSERT, gh.Op.ERASE, gh.Op.FIND, gh.Op.ASSIGN], dtype=cp.uint8)[ops]
            values, status = table.execute(ops, keys, ~keys)
            added = status & ((ops == int(gh.Op.INSERT)) | (ops == int(gh.Op.ASSIGN)))
            live += int(added.sum()) - int((status & (ops == int(gh.Op.ERASE))).sum())
            found = (ops == int(gh.Op.FIND)) & status
            assert bool((values[found] == ~keys[found]).all())
            assert len(table) == live
        stored, values = table.export()
        assert stored.size == live == int(cp.unique(stored).size)
        assert bool((values == ~stored).all())
        everything = cp.arange(KEYS, dtype=cp.uint32) * cp.uint32(2654435761)
        assert int(table.contains(everything).sum()) == live
        table.check()
        assert int(table.erase(everything).sum()) == live
        assert len(table) == 0
        assert table.stats()["failed"] == 0
