"""Large batches by parts of the table, and mixed ones kind by kind, against a reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pygpuhash as gh

pytestmark = pytest.mark.gpu

BACKENDS = ["linear_probe", "slab_hash", "hive"]
N = 1 << 22


@pytest.fixture
def cp() -> Any:
    return pytest.importorskip("cupy")


@pytest.mark.parametrize("with_statuses", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
def test_sums_of_8_bytes_carry(cp: Any, backend: str, with_statuses: bool) -> None:
    """Operands beyond 2^32, keys of every frequency, more than once into the same table."""
    rng = np.random.default_rng(7)
    keys = np.minimum(rng.zipf(1.2, N), 1 << 21).astype(np.uint64)
    keys[::3] = rng.integers(1 << 40, (1 << 40) + N, len(keys[::3]), dtype=np.uint64)
    values = rng.integers(0, 1 << 63, N, dtype=np.uint64)
    distinct, place = np.unique(keys, return_inverse=True)
    sums = np.zeros(len(distinct), np.uint64)
    np.add.at(sums, place, values)
    k, v = cp.asarray(keys), cp.asarray(values)
    with gh.Table(
        backend, key_dtype="u8", value_dtype="u8", capacity=len(distinct), grow=False, device="cuda:0", parts="always"
    ) as t:
        for times in (1, 2, 3):
            fresh = t.accumulate(k, v, out=None if with_statuses else False)
            if with_statuses:
                assert int(fresh.sum()) == (len(distinct) if times == 1 else 0)
            got, there = t.find(distinct)
            assert there.all()
            np.testing.assert_array_equal(got, sums * np.uint64(times))
        assert len(t) == len(distinct)
        t.check()


@pytest.mark.parametrize("value_bytes", [0, 4, 8])
@pytest.mark.parametrize("key_bytes", [4, 8])
@pytest.mark.parametrize("backend", BACKENDS)
def test_mixed_batches_kind_by_kind(cp: Any, backend: str, key_bytes: int, value_bytes: int) -> None:
    """Each key has one operation, so that each answer is known; with the keys at the ends of their type."""
    rng = np.random.default_rng(key_bytes + value_bytes)
    top = np.iinfo(f"u{key_bytes}").max
    keys = rng.integers(0, top, N, dtype=f"u{key_bytes}")
    keys = rng.permutation(np.unique(np.concatenate([keys, np.array([0, 1, top - 1, top], keys.dtype)])))
    n = len(keys)
    values = rng.integers(1, 1 << 32, n, dtype=f"u{value_bytes or 4}")
    resident = rng.random(n) < 0.5
    ops = rng.integers(0, 6, n).astype(np.uint8)
    op = gh.Op
    if not value_bytes:
        ops[ops == op.ACCUMULATE] = op.INSERT
        values[:] = 0
    adds = np.isin(ops, [op.INSERT, op.ASSIGN, op.ACCUMULATE])
    reads = np.isin(ops, [op.FIND, op.ERASE])
    yes = (adds & ~resident) | (reads & resident)
    found = np.where((ops == op.FIND) & resident, values, 0)
    after = np.where(resident, values, values + values.dtype.type(1))
    after = np.where((ops == op.ASSIGN), values + values.dtype.type(1), after)
    after = np.where((ops == op.ACCUMULATE) & resident, 2 * values + values.dtype.type(1), after)
    kept = (resident | adds) & (ops != op.ERASE)
    makes = {"key_dtype": keys.dtype, "value_dtype": values.dtype if value_bytes else None}
    with gh.Table(backend, capacity=n, grow=False, device="cuda:0", parts="always", **makes) as t:
        for masked in (True, False):
            t.clear()
            first, given = cp.asarray(keys[resident]), cp.asarray(values[resident])
            t.insert(first, given) if value_bytes else t.insert(first)
            operands = cp.asarray(values + values.dtype.type(1)) if value_bytes else None
            got, mask = t.execute(cp.asarray(ops), cp.asarray(keys), operands, found=None if masked else False)
            if masked:
                np.testing.assert_array_equal(mask.get(), yes)
            if value_bytes:
                np.testing.assert_array_equal(got.get(), found)
            assert len(t) == int(kept.sum())
            t.check()
            if value_bytes:
                there, is_there = t.find(keys)
                np.testing.assert_array_equal(is_there, kept)
                np.testing.assert_array_equal(there, np.where(kept, after, 0))
            else:
                np.testing.assert_array_equal(t.contains(keys), kept)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_growing_table_takes_mixed_batches_kind_by_kind(cp: Any, backend: str) -> None:
    """Counted keys, some of which are erased and found in the same batch: what is left is what was added after that."""
    rng = np.random.default_rng(3)
    model: dict[int, int] = {}
    with gh.Table(backend, key_dtype="u4", value_dtype="u4", capacity=1000, device="cuda:0", parts="always") as t:
        for turn in range(6):
            keys = rng.permutation(1 << 20)[: 1 << 19].astype(np.uint32)
            ops = rng.choice([gh.Op.ACCUMULATE, gh.Op.ERASE, gh.Op.FIND], len(keys), p=[0.6, 0.2, 0.2]).astype(np.uint8)
            got, mask = t.execute(cp.asarray(ops), cp.asarray(keys), cp.full(len(keys), turn + 1, cp.uint32))
            rows = zip(keys.tolist(), ops.tolist(), got.get().tolist(), mask.get().tolist(), strict=True)
            for k, code, value, yes in rows:
                if code == gh.Op.ACCUMULATE:
                    assert yes == (k not in model)
                    model[k] = model.get(k, 0) + turn + 1
                else:
                    assert (yes, value) == (k in model, model.get(k, 0) if code == gh.Op.FIND else 0)
                    if code == gh.Op.ERASE:
                        model.pop(k, None)
            assert len(t) == len(model)
            t.check()


@pytest.mark.parametrize("repeats", [3, 40])
@pytest.mark.parametrize("backend", BACKENDS)
def test_no_element_fails_whose_key_found_room(cp: Any, backend: str, repeats: int) -> None:
    """An element may find no room where another one of its key does later: it is carried out at last."""
    distinct = 1 << 16
    rng = np.random.default_rng(repeats)
    keys = rng.integers(0, distinct, distinct * repeats, dtype=np.uint64)
    values = rng.integers(0, 1 << 20, keys.size, dtype=np.uint64)
    with gh.Table(
        backend, key_dtype="u8", value_dtype="u8", capacity=distinct // 2, grow=False, device="cuda:0", parts="always"
    ) as t:
        with pytest.raises(gh.TableFull) as full:
            t.accumulate(cp.asarray(keys), cp.asarray(values))
        sums, there = t.find(np.arange(distinct, dtype=np.uint64))
        assert 0 < there.sum() < distinct
        np.testing.assert_array_equal(np.asarray(full.value.failed), ~there[keys])
        expected = np.zeros(distinct, np.uint64)
        np.add.at(expected, keys, values)
        np.testing.assert_array_equal(sums, np.where(there, expected, 0))
        t.check()
