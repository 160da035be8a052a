"""Finds and counts on the CPU, which go through the upper levels 64 at a time."""

import threading

import numpy as np
import pytest

import pygpuhash as gh


def held_and_absent(dtype, n, seed):
    """Keys of a table, with the ends of the type, and keys that are not there."""
    rng = np.random.default_rng(seed)
    bits = np.dtype(f"u{np.dtype(dtype).itemsize}")
    ends = np.array([0, 1, 2**63 - 1 if bits.itemsize == 8 else 2**31 - 1], bits)
    ends = np.concatenate([ends, ~ends, ~(ends ^ bits.type(1))])
    some = np.unique(np.concatenate([rng.integers(0, np.iinfo(bits).max, 3 * n + 40, bits), ends]))
    some = rng.permutation(some)
    return some[: len(some) // 2].view(dtype), some[len(some) // 2 :].view(dtype)


@pytest.mark.parametrize("chunk", [8, 16, 32])
@pytest.mark.parametrize("dtype", ["u4", "i4", "f4", "u8", "i8", "f8"])
@pytest.mark.parametrize("n", [0, 40, 3000])
def test_every_key_and_no_other_is_found(chunk, dtype, n):
    held, absent = held_and_absent(dtype, n, n + chunk)
    values = np.arange(1, len(held) + 1, dtype="u4")
    with gh.Table("skiplist", key_dtype=dtype, value_dtype="u4", device="cpu", chunk=chunk, build="never") as t:
        t.insert(held, values)
        rng = np.random.default_rng(n)
        for size in (1, 2, 63, 64, 65, 130, 1000):
            for order in ("random", "sorted", "one key"):
                at = rng.integers(0, len(held) + len(absent), size)
                at = {"random": at, "sorted": np.sort(at), "one key": np.full(size, at[0])}[order]
                asked = np.concatenate([held, absent])[at]
                there = at < len(held)
                got, found = t.find(asked)
                assert np.array_equal(found, there)
                assert np.array_equal(got, np.where(there, at + 1, 0))
                assert np.array_equal(t.contains(asked), there)
                assert np.array_equal(t.count(asked), there)


def test_finds_beside_writers():
    """Keys that stay are found with their values, and keys that never come are not, while chunks split and merge."""
    stays = np.arange(0, 60_000, 6, dtype="u8")
    never = stays + np.uint64(1)
    moving = np.setdiff1d(np.arange(60_000, dtype="u8"), np.concatenate([stays, never]))
    wrong, stop = [], threading.Event()
    with gh.Table("skiplist", value_dtype="u8", device="cpu", threads=1, build="never") as t:
        t.insert(stays, stays)

        def look(seed):
            rng = np.random.default_rng(seed)
            while not stop.is_set():
                asked = rng.permutation(np.concatenate([stays, never]))[:2000]
                values, found = t.find(asked)
                there = asked % np.uint64(6) == 0
                if not (np.array_equal(found, there) and np.array_equal(values, np.where(there, asked, 0))):
                    wrong.append(asked[found != there])
                if not np.array_equal(t.count(np.sort(asked)), np.sort(asked) % np.uint64(6) == 0):
                    wrong.append("count")

        readers = [threading.Thread(target=look, args=(seed,)) for seed in range(2)]
        for reader in readers:
            reader.start()
        try:
            for _ in range(12):
                t.insert(moving, moving)
                t.erase(moving)
        finally:
            stop.set()
            for reader in readers:
                reader.join()
        assert not wrong
        t.check()
