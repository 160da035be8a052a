"""Tables of stadium whose slots lie in host memory: every operation, in order of windows and as batches come."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest

import pygpuhash as gh

pytestmark = pytest.mark.gpu

N = 1 << 20


def elements(first, n, words):
    """Distinct rows of so many words, equal but for the last ones of each."""
    if words <= 2:
        return np.arange(first, first + n, dtype=f"u{4 * words}") * np.array(2654435761, f"u{4 * words}")
    rows = np.zeros((n, words), "u4")
    rows[:, -1] = np.arange(first, first + n)
    rows[:, 0] = rows[:, -1] % 3
    return rows


def dtype(words):
    return {0: None, 1: "u4", 2: "u8"}.get(words, ("u4", words))


@pytest.mark.parametrize(
    "options", [{}, {"ordered_from": 0}, {"ordered_from": 1, "window": 4096, "ticket": 4}], ids=str
)
@pytest.mark.parametrize(("key", "value"), [(1, 1), (2, 2), (3, 1), (4, 16), (1, 0), (16, 64)])
def test_every_operation(key, value, options):
    n = N if key < 16 else N // 16
    keys, absent = elements(0, n, key), elements(n, n, key)
    values = elements(7, n, value) if value else None
    with gh.Table(
        "stadium", placement="host", key_dtype=dtype(key), value_dtype=dtype(value), device="cuda:0", seed=1, **options
    ) as t:
        assert t.insert(keys, values).all()  # grows on the way
        assert not t.insert(keys[::3], None if values is None else values[::3]).any()
        assert len(t) == n
        assert t.contains(keys).all()
        assert not t.contains(absent).any()
        if value:
            got, found = t.find(np.concatenate([keys[: n // 2], absent[: n // 2]]))
            assert found.tolist() == [True] * (n // 2) + [False] * (n // 2)
            assert (got[: n // 2] == values[: n // 2]).all()
            assert not got[n // 2 :].any()
            t[keys[: n // 4]] = values[n // 4 : n // 2]
            assert (t[keys[: n // 4]] == values[n // 4 : n // 2]).all()
        if value in (1, 2):
            hot = np.repeat(keys[-8:], 1000, axis=0)
            before = t[keys[-8:]]
            t.accumulate(hot, 1, op="add")
            assert (t[keys[-8:]] == before + np.array(1000, before.dtype)).all()
            t.accumulate(absent[:100], 5, op="max")
            assert (t[absent[:100]] == 5).all()
            assert t.erase(absent[:100]).all()
        assert t.erase(keys[: n // 2]).all()
        assert not t.erase(keys[: n // 2]).any()
        t.check()
        t.flush()
        t.check()
        out, _ = t.export()
        left = keys[n // 2 :]
        assert len(out) == len(left) == len(t)
        if key <= 2:
            assert (np.sort(out) == np.sort(left)).all()


def test_lengths_around_the_switch():
    with gh.Table("stadium", placement="host", device="cuda:0", ordered_from=1000, window=256) as t:
        done = 0
        for n in (1, 31, 33, 999, 1000, 1001, 70000):
            keys = np.arange(done, done + n)
            assert t.insert(keys, -keys).all()
            assert (t[keys] == -keys).all()
            done += n
        assert len(t) == done
        t.check()


def test_a_full_table_says_so():
    with gh.Table("stadium", placement="host", device="cuda:0", capacity=5000, grow=False, max_load_factor=1.0) as t:
        keys = np.arange(200_000)
        with pytest.raises(gh.TableFull):
            t.insert(keys, keys)
        n = len(t)
        assert n >= 5000
        assert int(t.contains(keys).sum()) == n
        t.check()


def test_pinned_memory_that_is_refused():
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with pytest.raises(gh.NoMemory, match=r"bytes of pinned host memory cannot be had: .* has \d+ (available|left)"):
        gh.Table("stadium", placement="host", capacity=max(1 << 33, memory // 8), device="cuda:0")  # of 16 bytes


def test_both_orders_agree_with_each_other():
    rng = np.random.default_rng(5)
    ordered = gh.Table("stadium", placement="host", device="cuda:0", ordered_from=1, window=1 << 16)
    as_they_come = gh.Table("stadium", placement="host", device="cuda:0", ordered_from=0)
    with ordered, as_they_come:
        for _ in range(10):
            keys = rng.permutation(1 << 18)[: 1 << 17]
            ops = rng.choice([gh.Op.INSERT, gh.Op.ASSIGN, gh.Op.FIND, gh.Op.ERASE], len(keys)).astype("u1")
            one = ordered.execute(ops, keys, keys * 3)
            two = as_they_come.execute(ops, keys, keys * 3)
            assert (one[0] == two[0]).all()
            assert (one[1] == two[1]).all()
        assert len(ordered) == len(as_they_come)
        ordered.check()
        as_they_come.check()


@pytest.mark.parametrize("ordered_from", [0, 1], ids=["as they come", "in windows"])
@pytest.mark.parametrize("window", [256, 1 << 14, 1 << 30])
def test_batches_of_all_densities_agree_with_a_model(window, ordered_from):
    """From a key every thousand rows to several a row: windows of all sizes, added up at once and by parts."""
    rng = np.random.default_rng(7)
    n = 1 << 20
    keys = rng.permutation(n).astype("u8") * np.uint64(0x9E3779B97F4A7C15)
    values = rng.integers(1, 1 << 60, n, "u8")
    with gh.Table(
        "stadium",
        key_dtype="u8",
        value_dtype="u8",
        capacity=n,
        grow=False,
        placement="host",
        window=window,
        ordered_from=ordered_from,
        device="cuda:0",
    ) as t:
        there = np.zeros(n, bool)
        for size in (1, 1000, n // 1000, n // 20, n // 4, n):
            some = rng.integers(0, n, size)
            fresh = np.unique(some)
            assert t.insert(keys[fresh], values[fresh]).tolist() == (~there[fresh]).tolist()
            there[fresh] = True
            got, found = t.find(keys[some])
            assert found.all()
            assert (got == values[some]).all()
            got, found = t.find(keys)
            assert (found == there).all()
            assert (got == np.where(there, values, 0)).all()
            gone = rng.integers(0, n, size // 3)
            assert t.erase(keys[np.unique(gone)]).tolist() == there[np.unique(gone)].tolist()
            there[gone] = False
        assert len(t) == there.sum()
        t.check()


@pytest.mark.slow
def test_ten_to_the_eighth_pairs_in_more_memory_than_the_gpu_may_give():
    sys.path.append(str(Path(__file__).resolve().parents[2]))  # at the end, so that pygpuhash is the installed one
    larger = pytest.importorskip(
        "asv_bench.larger_than_memory", reason="asv_bench is in a checkout of the repository only"
    )
    assert larger.main(["--device", "cuda:0"]) == 0
