"""Ranges on the CPU that are so long that several threads read them."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import pygpuhash as gh

N = 200_000


def table_of(keys, how, threads=3, **options):
    t = gh.Table("skiplist", key_dtype=keys.dtype, value_dtype="u4", device="cpu", threads=threads, **options)
    values = np.arange(len(keys), dtype="u4")
    parts = (
        [np.arange(len(keys))] if how == "built" else np.array_split(np.random.default_rng(2).permutation(len(keys)), 9)
    )
    for part in parts:
        t.insert(keys[part], values[part])
    return t, values


def some_keys(dtype):
    rng = np.random.default_rng(1)
    if dtype == "without gaps":
        return np.arange(1000, N, dtype="u4")
    if np.dtype(dtype).kind == "f":
        return np.unique(rng.standard_normal(N).astype(dtype))
    info = np.iinfo(dtype)
    return np.unique(
        np.append(rng.integers(info.min, info.max, N, dtype), np.array([info.min, info.max, info.max - 1], dtype))
    )


@pytest.mark.parametrize("how", ["built", "inserted"])
@pytest.mark.parametrize(
    ("dtype", "options"),
    [
        ("u4", {}),
        ("i4", {"chunk": "8"}),
        ("f4", {"chunk": "32"}),
        ("i8", {}),
        ("u8", {"p_chunk": "0.3"}),
        ("without gaps", {}),
    ],
)
def test_against_a_sorted_array(dtype, options, how):
    keys = some_keys(dtype)
    n = len(keys)
    t, values = table_of(keys, how, **options)
    with t:
        for low, high in (
            (0, n - 1),
            (1, n - 1),
            (n // 9, n - n // 7),
            (n // 3, n // 3 + 20_000),
            (n // 2, n // 2),
            (9, 5),
        ):
            expected = slice(low, max(low, high))
            got, with_them, offsets = t.range(keys[[low]], keys[[high]])
            assert np.array_equal(got, keys[expected])
            assert np.array_equal(with_them, values[expected])
            assert offsets.tolist() == [0, expected.stop - low]
            for limit in (1, 16_400, 50_001, n, n + 7):
                rows, with_them, counts = t.range(keys[[low]], keys[[high]], limit)
                here = min(limit, expected.stop - low)
                assert counts.tolist() == [here]
                assert np.array_equal(rows[0, :here], keys[low : low + here])
                assert np.array_equal(with_them[0, :here], values[low : low + here])
        for part, expected in ((t[:], slice(None)), (t[keys[7] :], slice(7, None)), (t[: keys[-3]], slice(-3))):
            assert np.array_equal(part[0], keys[expected])
            assert np.array_equal(part[1], values[expected])
        # Several: the long one among short ones, and more than are served one by one
        for many in (3, 200):
            low = np.random.default_rng(3).integers(0, n - 1000, many)
            high = low + np.arange(many) % 50
            low[1], high[1] = 5, n - 5
            got, with_them, offsets = t.range(keys[low], keys[high])
            assert np.array_equal(got, np.concatenate([keys[a:b] for a, b in zip(low, high, strict=True)]))
            assert np.array_equal(with_them, np.concatenate([values[a:b] for a, b in zip(low, high, strict=True)]))
            assert np.array_equal(np.diff(offsets), high - low)


@pytest.mark.parametrize("missing", [0, 1, 9, 70_000, N])
def test_room_for_less(missing):
    """What does not fit is counted, and written nowhere."""
    keys = some_keys("u4")
    t, values = table_of(keys, "inserted")
    n, gap = len(keys), 3
    room = max(n - missing, 0)
    out, with_them = np.full(n + 2 * gap, 77, "u4"), np.full(n + 2 * gap, 77, "u4")
    offsets, counts = np.array([gap, gap + room], "u8"), np.zeros(1, "u8")
    with t:
        t._range_pairs(
            1, 0, 0, offsets.ctypes.data, gap + room, out.ctypes.data, with_them.ctypes.data, counts.ctypes.data
        )
    assert counts.tolist() == [n]
    assert np.array_equal(out[gap : gap + room], keys[:room])
    assert np.array_equal(with_them[gap : gap + room], values[:room])
    for array in (out, with_them):
        assert (array[:gap] == 77).all()
        assert (array[gap + room :] == 77).all()


@pytest.mark.parametrize(("many", "rounds"), [(20_000, 150), (N, 12)])
def test_beside_writers(many, rounds):
    """Keys that nobody touches are in the range, once and in order; others are those that come and go."""
    fixed = np.arange(many, dtype="u4") * 16
    moving = np.random.default_rng(4).permutation(fixed[::3]) + np.uint32(5)
    t, values = table_of(fixed, "inserted", threads=2)
    stop = threading.Event()

    def write():
        while not stop.is_set():
            for part in np.array_split(moving, 20):
                t.insert(part, part)
                t.erase(part)

    with t:
        writer = threading.Thread(target=write)
        writer.start()
        try:
            for how in ("all", "limit") * rounds:
                ends = fixed[[3]], fixed[[many - 3]]
                keys, with_them, third = t.range(*ends) if how == "all" else t.range(*ends, 2 * many)
                if how == "limit":
                    keys, with_them = keys[0, : third[0]], with_them[0, : third[0]]
                assert (np.diff(keys.astype("i8")) > 0).all()
                stays = keys % 16 == 0
                assert np.array_equal(keys[stays], fixed[3 : many - 3])
                assert np.array_equal(with_them[stays], values[3 : many - 3])
                assert np.isin(keys[~stays], moving).all()
                assert np.array_equal(keys[~stays], with_them[~stays])
        finally:
            stop.set()
            writer.join()
        t.check()
