"""Batches that stadium serves in the order of the slots' pages (CPU, placement=file, ordered_from)."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import pygpuhash as gh

OP = gh.Op
DTYPES = [("u4", "u4"), ("u8", "u8"), (("u4", 3), "u8"), (("u4", 4), ("u4", 15)), (("u4", 16), ("u4", 64))]


def table(path, key="u8", value="u8", **more) -> gh.Table:
    options = {"ordered_from": 1} | more
    return gh.Table("stadium", placement="file", path=path, device="cpu", key_dtype=key, value_dtype=value, **options)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "table.stadium"


def elements(numbers, dtype):
    """An element of the dtype for each number."""
    kind, words = dtype if isinstance(dtype, tuple) else (dtype, 0)
    numbers = np.asarray(numbers, "u8")
    if not words:
        return (numbers * np.uint64(0x9E3779B97F4A7C15 if kind == "u8" else 0x9E3779B1)).astype(kind)
    return (numbers[:, None] * np.uint64(0x9E3779B1) ^ np.arange(words, dtype="u8")).astype(kind)


def shuffled(rng, numbers):
    return rng.permutation(np.asarray(numbers))


@pytest.mark.parametrize("window", [256, 4096, 1 << 20])
@pytest.mark.parametrize(("key", "value"), DTYPES)
def test_every_operation(path, key, value, window):
    n = 20_000 if window == 4096 else 3_000
    rng = np.random.default_rng(window)
    every, most = np.arange(n), n // 3

    def keys(numbers):
        return elements(numbers, key)

    def values(numbers):
        return elements(np.asarray(numbers) + 7, value)

    with table(path, key, value, capacity=n, grow=False, window=window) as t:
        twice = shuffled(rng, np.concatenate([every, every[:most]]))
        assert t.insert(keys(twice), values(twice)).sum() == n
        assert len(t) == n
        t.check()
        asked = shuffled(rng, np.arange(2 * n))
        got, found = t.find(keys(asked), out=elements(asked, value))
        assert (found == (asked < n)).all()
        assert (got[found] == values(asked[found])).all()
        assert not got[~found].any()
        assert (t.contains(keys(asked)) == (asked < n)).all()
        assert (t.count(keys(asked), out=np.full(2 * n, 7)) == (asked < n)).all()
        t[keys(twice[twice < most])] = values(twice[twice < most] + n)
        assert (t[keys(every)] == values(np.where(every < most, every + n, every))).all()
        gone = t.erase(keys(twice))
        assert gone.sum() == n
        assert len(t) == 0
        assert not t.contains(keys(every)).any()
        t.check()


@pytest.mark.parametrize("op", ["add", "min", "max"])
@pytest.mark.parametrize("value", ["u4", "u8", "f4"])
def test_accumulate(path, op, value):
    rng = np.random.default_rng(1)
    numbers, amounts = rng.integers(0, 500, 30_000), rng.integers(0, 100, 30_000).astype(value)
    with table(path, "u4", value) as t:
        t.accumulate(elements(numbers, "u4"), amounts, op=op)
        join = {"add": np.add, "min": np.minimum, "max": np.maximum}[op]
        for number in range(0, 500, 50):
            expected = join.reduce(amounts[numbers == number])
            assert t[int(elements([number], "u4")[0])] == expected
        assert len(t) == len(np.unique(numbers))


def test_mixed_batches(path):
    n = 5_000
    rng = np.random.default_rng(2)
    order = shuffled(rng, np.arange(5 * n))
    kind = np.array([OP.FIND, OP.ERASE, OP.INSERT, OP.ASSIGN, OP.NOP], "u1")[order // n]  # on keys of its own each
    keys = elements(order, "u8")
    with table(path, capacity=6 * n) as t:
        t.insert(elements(np.arange(2 * n), "u8"), np.arange(2 * n, dtype="u8"))
        t.insert(elements(np.arange(3 * n, 4 * n), "u8"), np.zeros(n, "u8"))
        result = t.execute(kind, keys, order.astype("u8"))
        values, status = result[0], result[1]
        assert (status == np.isin(kind, [OP.FIND, OP.ERASE, OP.INSERT])).all()
        assert (values == np.where(kind == OP.FIND, order, 0)).all()
        here, found = t.find(elements(np.arange(5 * n), "u8"))
        numbers = np.arange(5 * n)
        assert (found == ((numbers < n) | ((numbers >= 2 * n) & (numbers < 4 * n)))).all()
        assert (here == np.where(found, numbers, 0)).all()
        t.check()


def test_a_batch_that_takes_every_slot(path):
    """Most elements find their slots taken by others of the batch, and are served in a later round."""
    with table(path, "u4", "u4", capacity=20_000, grow=False, max_load_factor=1.0) as t:
        slots = t.info["slots"]
        keys = elements(np.arange(slots + 500), "u4")
        with pytest.raises(gh.TableFull) as raised:
            t.insert(keys, np.arange(slots + 500, dtype="u4"))
        there = raised.value.status == 1
        assert there.sum() == slots
        assert (raised.value.status[~there] == 2).all()
        assert len(t) == slots
        values, found = t.find(keys)
        assert (found == there).all()
        assert (values == np.where(there, np.arange(slots + 500), 0)).all()
        t.check()


def test_what_is_tried_again_takes_effect_once(path):
    """Of a batch for which the table grows, with paths so short that some of it finds no room below the load limit."""
    n = 30_000
    with table(path, probe_limit=16, max_load_factor=0.99, seed=1) as t:
        counts = np.zeros(n, "u8")
        for part in np.array_split(np.arange(n), 12):
            batch = np.random.default_rng(1).permutation(np.append(part, part // 2))
            t.accumulate(elements(batch, "u8"), np.uint64(1))
            np.add.at(counts, batch, np.uint64(1))
        assert t.info["rebuilds"] > 3
        assert (t[elements(np.arange(n), "u8")] == counts).all()
        t.check()


def test_an_erasure_is_not_tried_again(path):
    """Where inserts of its batch are: it would find its key gone, and say so."""
    rng = np.random.default_rng(1)
    with table(path, probe_limit=16, max_load_factor=0.99, seed=1) as t:
        gone = np.arange(0)
        for part in np.array_split(np.arange(60_000), 24):
            numbers = rng.permutation(np.append(part, gone))
            kind = np.where(np.isin(numbers, gone), OP.ERASE, OP.INSERT).astype("u1")
            assert t.execute(kind, elements(numbers, "u8"), 1)[1].all()
            gone = part[::5]
        assert t.info["rebuilds"] > 3
        t.check()


def test_a_frequent_key(path):
    numbers = np.zeros(50_000, "u8")
    numbers[::10] = np.arange(1, 5_001)
    keys = elements(numbers, "u8")
    with table(path, capacity=6_000, grow=False) as t:
        assert t.insert(keys, keys).sum() == 5_001
        t.accumulate(keys, 1)
        assert len(t) == 5_001
        assert t[int(keys[1])] == keys[1] + np.uint64(45_000)
        t.check()


def test_batches_of_several_threads(path):
    """Ordered batches beside each other: each key is inserted once, and erased once."""
    n, threads = 60_000, 3
    keys = elements(np.arange(n), "u8")
    did = []
    with table(path, capacity=n) as t:

        def work(seed):
            mine = keys[np.random.default_rng(seed).permutation(n)]
            fresh = int(t.insert(mine, mine).sum())
            values, found = t.find(mine)
            did.append((fresh, bool(found.all() and (values == mine).all())))

        workers = [threading.Thread(target=work, args=(seed,)) for seed in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert sum(fresh for fresh, _ in did) == n
        assert all(good for _, good in did)
        assert len(t) == n
        t.check()


def test_pages_that_are_not_in_memory(path):
    """The default: batches from 65536 elements on, while pages of the file are missing in memory."""
    n = 70_000
    keys = elements(np.arange(n), "u8")
    with table(path, capacity=n, ordered_from=65536) as t:
        t.insert(keys, keys)
    with gh.Table("stadium", placement="file", path=path, device="cpu", key_dtype="u8", value_dtype="u8") as t:
        file = os.open(path, os.O_RDONLY)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)
        for _ in range(2):
            values, found = t.find(np.concatenate([keys, keys + np.uint64(1)]))
            assert (found == (np.arange(2 * n) < n)).all()
            assert (values[:n] == keys).all()


def test_without_memory_for_the_lists(path):
    """Then a batch is served as it comes."""
    program = """
import resource, sys
import numpy as np
import pygpuhash as gh
n = 1 << 21
keys = np.arange(n, dtype="u4") * np.uint32(0x9E3779B1)
out, mask = np.zeros(n, "u4"), np.zeros(n, bool)
with gh.Table("stadium", placement="file", path=sys.argv[1], device="cpu", key_dtype="u4", value_dtype="u4",
              capacity=n, ordered_from=1) as t:
    t.insert(keys[:8192], keys[:8192])
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (4 << 20), resource.RLIM_INFINITY))
    try:
        np.zeros(16 << 20, "u1")
        raise SystemExit("there is memory")
    except MemoryError:
        pass
    t.insert(keys, keys, out=mask)
    assert mask.sum() == n - 8192
    t.find(keys, out=out, found=mask)
    assert mask.all() and (out == keys).all()
"""
    done = subprocess.run([sys.executable, "-P", "-c", program, str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
