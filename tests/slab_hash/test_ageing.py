"""Ageing: millions of mixed operations against a reference, and the memory that FLUSH gives back."""

import numpy as np
import pytest

from pygpuhash import Op

KEYS = 200_000
OPS = np.array([Op.INSERT, Op.ASSIGN, Op.ACCUMULATE, Op.FIND, Op.ERASE], np.uint8)


class Reference:
    """present and value per key, as arrays: a dict would take minutes."""

    def __init__(self, n):
        self.present, self.value = np.zeros(n, bool), np.zeros(n, np.uint32)

    def execute(self, ops, keys, values):
        """Keys are distinct, so that their order does not matter. Returns what execute should."""
        was, old = self.present[keys], self.value[keys]
        insert, assign, add, find, erase = (ops == op for op in OPS)
        self.value[keys] = np.where(insert & ~was | assign | add & ~was, values, np.where(add, old + values, old))
        self.present[keys] = (was | insert | assign | add) & ~erase
        return np.where(find & was, old, 0), np.where(find | erase, was, ~was)


def age(make, total, **options):
    """`total` operations in batches that first fill the table, then drain it, round after round."""
    rng = np.random.default_rng(11)
    table = make(key_dtype="uint32", value_dtype="uint32", **options)
    names = (np.arange(KEYS, dtype=np.uint64) * 2654435761 % 2**32).astype(np.uint32)  # distinct: the factor is odd
    names[:2] = 2**32 - 1, 2**32 - 2
    assert len(np.unique(names)) == KEYS
    model = Reference(KEYS)
    batch, done = KEYS // 4, 0
    while done < total:
        filling = done // (10 * batch) % 2 == 0
        weights = [0.35, 0.2, 0.15, 0.2, 0.1] if filling else [0.05, 0.03, 0.02, 0.2, 0.7]
        keys = rng.permutation(KEYS)[:batch]
        ops, values = rng.choice(OPS, batch, p=weights), rng.integers(0, 2**32, batch, np.uint32)
        got_values, got = table.execute(ops, names[keys], values)
        want_values, want = model.execute(ops, keys, values)
        assert (got == want).all()
        assert (got_values == want_values).all()
        done += batch
        if done % (20 * batch) == 0:
            table.check()
    table.check()
    values, found = table.find(names)
    assert (found == model.present).all()
    assert (values[found] == model.value[found]).all()
    assert len(table) == model.present.sum()
    return table, names, model


def drain(table, names, model):
    """Erase most keys, FLUSH, and say how many slabs were taken before and after."""
    doomed = np.flatnonzero(model.present)[1000:]
    assert table.erase(names[doomed]).all()
    before = table.stats()
    table.flush()
    table.check()
    after = table.stats()
    assert after["used"] == after["size"] == model.present.sum() - len(doomed) == len(table)
    assert before["used"] > after["used"]
    needed = sum((slabs - 1) * n for slabs, n in enumerate(table.histogram(1000).tolist()) if slabs)
    assert after["heap_taken"] - needed <= 2  # the chains of the two largest keys
    return before, after


@pytest.mark.parametrize("options", [{}, {"buckets": 2000}, {"buckets": 2000, "allocator": "slab_alloc_light"}])
def test_mixed_operations_agree_with_a_reference(make, options):
    table, names, model = age(make, 1_000_000, **options)
    before, after = drain(table, names, model)
    if "buckets" in options:
        assert after["heap_taken"] < before["heap_taken"] / 10


@pytest.mark.slow
def test_ten_million_operations(make, capsys):
    table, names, model = age(make, 10_000_000, buckets=5000)
    before, after = drain(table, names, model)
    held = table.nbytes
    table.shrink()
    with capsys.disabled():
        print(
            f"\n10^7 operations: FLUSH took used slots from {before['used']:.0f} to {after['used']:.0f}, slabs from"
            f" {before['heap_taken']:.0f} to {after['heap_taken']:.0f} ({128 * before['heap_taken']:.0f} to"
            f" {128 * after['heap_taken']:.0f} bytes); shrink took the table from {held} to {table.nbytes} bytes"
        )
    assert after["heap_taken"] < before["heap_taken"] / 10
    assert held - table.nbytes > 128 * before["heap_taken"]


def test_rebuilds_that_drop_dead_slots_do_not_add_buckets(make, rng):
    table = make(capacity=2000)
    keys = rng.permutation(20_000).astype(np.uint64)
    table.insert(keys[:2000], 0)
    buckets = []
    for start in range(0, 18_000, 400):  # 400 keys leave, 400 others come
        table.erase(keys[start : start + 400])
        table.insert(keys[start + 2000 : start + 2400], 0)
        buckets.append(table.stats()["buckets"])
    assert table.stats()["rebuilds"] > 4
    assert buckets[-1] == buckets[5]
    assert buckets[-1] <= 2 * buckets[0]
