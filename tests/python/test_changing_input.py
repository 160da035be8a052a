"""Arrays that another thread writes to while a batch reads them.

Which elements are taken is not defined, but each is taken as a whole, and the table stays in order.
"""

import threading

import numpy as np
import pytest

import pygpuhash as gh

N = 100_000
OPERATIONS = ["insert", "insert_or_assign", "accumulate", "erase", "execute"]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_keys_that_change_during_a_call(backend: str, operation: str, threads: int) -> None:
    table = gh.Table(backend, device="cpu", seed=7, threads=threads, capacity=40 * N)
    keys = np.arange(1, N + 1, dtype=np.uint64)
    values, ops = np.ones(N, dtype=np.uint64), np.full(N, gh.Op.INSERT, dtype=np.uint8)
    other = np.array([gh.Op.ERASE, gh.Op.INSERT], dtype=np.uint8)
    stop = threading.Event()

    def scribble() -> None:
        step = 0
        while not stop.is_set():
            np.add(keys, np.uint64(1 << 40), out=keys)
            ops.fill(other[step % 2])
            step += 1

    thread = threading.Thread(target=scribble)
    thread.start()
    try:
        for _ in range(5):
            if operation == "erase":
                table.erase(keys)
                table.insert(keys, values)
            elif operation == "execute":
                table.execute(ops, keys, values)
            else:
                getattr(table, operation)(keys, values)
    finally:
        stop.set()
        thread.join()
    table.check()
    held = table.keys()
    assert len(held) == len(table) == len(np.unique(held))
    assert table.contains(held).all()
    table.close()


def test_keys_that_change_while_their_values_are_found() -> None:
    """find_all counts first, and writes then: to the places of a key that it has counted, and to no others."""
    table = gh.Table("slab_hash", device="cpu", seed=7, duplicates=1)
    table.insert_multi(np.uint64(1), 1)
    table.insert_multi(np.full(20, 2, dtype=np.uint64), 2)
    keys = np.where(np.arange(20_000) % 2, np.uint64(1), np.uint64(2))
    swapped, stop = np.uint64(3) - keys, threading.Event()
    both = [keys.copy(), swapped]

    def scribble() -> None:
        step = 0
        while not stop.is_set():
            keys[:] = both[step % 2]
            step += 1

    thread = threading.Thread(target=scribble)
    thread.start()
    room = 20 * len(keys)
    offsets, values = np.zeros(len(keys) + 1, dtype=np.uint64), np.empty(room + 20, dtype=np.uint64)
    try:
        for _ in range(20):
            values.fill(7)
            assert table._find_all(len(keys), keys.ctypes.data, offsets.ctypes.data, values.ctypes.data, room) is None
            end = int(offsets[-1])
            assert np.isin(values[:end], [0, 1, 2]).all()  # 0: a place that was counted for a key with fewer values
            assert (values[end:] == 7).all()  # behind the places of the last key, which may have 20 values by now
    finally:
        stop.set()
        thread.join()
    table.check()
    assert (table.find_all(both[0])[1] == np.repeat(both[0], np.where(both[0] == 1, 1, 20))).all()
    table.close()


@pytest.mark.parametrize("threads", [1, 2])
def test_few_keys_that_change_while_they_are_counted(threads: int) -> None:
    """Each element counts once, for one key, and each key is new once: the key of an element is read once."""
    n = 3 << 17
    numbers = np.arange(600, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    random = np.random.default_rng(1)
    keys, values = numbers[random.integers(0, 300, n)], np.full(n, 3, dtype=np.int64)
    others = [keys.copy(), numbers[random.integers(300, 600, n)]]
    stop = threading.Event()

    def scribble() -> None:
        step = 0
        while not stop.is_set():
            keys[:] = others[step % 2]
            values[:] = 3 + 2 * (step % 2)
            step += 1

    thread = threading.Thread(target=scribble)
    with gh.Table("linear_probe", key_dtype="uint64", value_dtype="int64", device="cpu", threads=threads) as table:
        thread.start()
        try:
            new = sum(int(table.accumulate(keys, values).sum()) for _ in range(10))
        finally:
            stop.set()
            thread.join()
        table.check()
        held, sums = table.export()
        assert new == len(held) == len(np.unique(held))
        assert np.isin(held, numbers).all()
        assert 3 * 10 * n <= sums.sum() <= 5 * 10 * n
        assert sums.sum() % 2 == 0  # 10 n operands, each of them 3 or 5
