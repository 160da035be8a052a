"""hive on a GPU grows and shrinks where it is, by splitting and merging segments."""

from __future__ import annotations

import time

import numpy as np
import pytest

import pygpuhash as gh

pytestmark = pytest.mark.gpu


def distinct(begin: int, end: int, dtype: str) -> np.ndarray:
    return (np.arange(begin, end, dtype=np.uint64) * np.uint64(2654435761) % np.uint64(1 << 32)).astype(dtype)


def same(t: gh.Table, keys: np.ndarray, present: int, absent: np.ndarray) -> None:
    t.check()
    assert len(t) == present
    if t.value_dtype is None:
        assert t.contains(keys[:present]).all()
    else:
        values, found = t.find(keys[:present])
        assert found.all()
        assert (values == keys[:present] * 7).all()
    assert not t.contains(absent).any()
    assert not t.contains(keys[present:]).any()


@pytest.mark.parametrize(
    ("key", "value", "options"),
    [
        ("uint32", "uint32", {}),
        ("uint64", "uint64", {"ways": 3}),
        ("uint64", None, {"bucket": 16, "stash": 0}),
        ("uint32", None, {"bucket": 32, "max_load_factor": 0.8}),
    ],
)
def test_rounds_up_and_down(key: str, value: str | None, options: dict) -> None:
    n = 3_000_000
    keys, absent = distinct(1, n + 1, key), distinct(n + 1, n + 50_000, key)
    segments = []
    with gh.Table("hive", key_dtype=key, value_dtype=value, device="cuda:0", capacity=1000, seed=3, **options) as t:
        for part in np.array_split(keys, 23):
            assert (t.insert(part, part * 7) if value else t.insert(part)).all()
            segments.append(int(t.stats()["segments"]))
        same(t, keys, n, absent)
        assert segments == sorted(segments)
        assert len({s for s in segments if s & (s - 1)}) >= 3, "some sizes are inside of a round"
        largest = t.nbytes
        for left in (n * 9 // 10, n // 2, n // 3, n // 5, n // 8, n // 16, 2000):
            assert t.erase(keys[left : len(t)]).all()
            same(t, keys, left, absent)
        assert t.nbytes < largest / 20
        (t.insert(keys, keys * 7) if value else t.insert(keys))
        same(t, keys, n, absent)
        t.flush()
        t.shrink()
        same(t, keys, n, absent)


def test_a_batch_waits_for_few_segments() -> None:
    """Batches of 2^16 keys while the table grows from 2^16 to 2^24: none takes much longer than most."""
    cupy = pytest.importorskip("cupy")
    keys = cupy.asarray(distinct(1, (1 << 24) + 1, "uint32"))
    longest = []
    for _ in range(3):  # the first time memory for the work is had
        with gh.Table("hive", key_dtype="uint32", value_dtype="uint32", device="cuda:0", capacity=1 << 16) as t:
            times = []
            for begin in range(0, len(keys), 1 << 16):
                part = keys[begin : begin + (1 << 16)]
                start = time.perf_counter()
                t.insert(part, part)
                cupy.cuda.Device().synchronize()
                times.append(time.perf_counter() - start)
            assert len(t) == len(keys)
        longest.append(max(times) - float(np.median(times)))
    print("longest beyond the median, ms:", [round(1e3 * x, 3) for x in longest])
    assert min(longest) < 0.02
