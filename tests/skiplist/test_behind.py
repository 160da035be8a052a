"""Batches behind the end of a table: sorted, and merged with the pairs of its last chunk alone."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import pygpuhash as gh

KNOWN = {"key_dtype": "u4", "value_dtype": "u4", "device": "cpu"}
OPERATIONS = ["insert", "insert_or_assign", "accumulate"]


def serially(operation, held, keys, values):
    """What each element answers, one after the other; `held` is afterwards what the table is to have."""
    fresh = []
    for k, v in zip(keys.tolist(), values.tolist(), strict=True):
        fresh.append(k not in held)
        if operation == "insert":
            held.setdefault(k, v)
        elif operation == "insert_or_assign":
            held[k] = v
        else:
            held[k] = held.get(k, 0) + v
    return fresh


def expect(t, held):
    """Invariants, counters, pairs in order, ranges, neighbours."""
    t.check()
    order = sorted(held)
    keys, values = t.export()
    assert keys.tolist() == order
    assert len(t) == len(order)
    if t.value_dtype is not None:
        assert values.tolist() == [held[k] for k in order]
    if not order:
        return
    middle = keys[len(order) // 2]
    assert t[middle:][0].tolist() == order[len(order) // 2 :]
    assert t.successor(keys[:-1])[0].tolist() == order[1:]
    assert t.predecessor(keys[1:])[0].tolist() == order[:-1]


def kept(t, keys, held, width):
    """Erase these, and forget them."""
    if len(keys):
        assert t.erase(np.array(keys, width)).all()
    for k in keys:
        del held[k]


def from_the_end(rng, held):
    """Keys from somewhere to the end, all of them or most."""
    order = sorted(held)
    last = order[rng.integers(0, len(order) + 1) :]
    some = rng.random() < 0.5
    return [k for k in last if not some or rng.random() < 0.8]


def some_batch(rng, held, width):
    """Of any size, around the end, some keys several times; from time to time the last keys of all."""
    n = int(rng.choice([1, 2, 5, 6, 7, 13, 14, 15, 30, 60, 400]))
    end = max((k for k in held if k < 2**30), default=0)
    low = int(end) - int(rng.integers(-3, 9)) if rng.random() < 0.9 else 0
    keys = rng.integers(low, low + rng.integers(1, 3 * n + 1), n)
    if width[0] == "u":
        keys = np.maximum(keys, 0)
    keys = keys.astype(width)
    if width[0] != "f" and rng.random() < 0.2:
        keys[rng.integers(0, n)] = np.iinfo(width).max - int(rng.integers(0, 2))
    return np.sort(keys) if rng.random() < 0.3 else keys


@pytest.mark.parametrize("chunk", [8, 16, 32])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    ("key", "value"), [("u4", "u4"), ("i4", None), ("f4", "u4"), ("u8", "u8"), ("i8", "i4"), ("f8", "u8")]
)
def test_batches_around_the_end(key, value, threads, chunk):
    """Between them keys leave from there, so that chunks are merged, and names are left behind."""
    for seed in range(6):
        print("seed", seed)
        rng = np.random.default_rng(seed)
        options = {"merge": [1 / 3, 0.5, 0][seed % 3], "p_chunk": [1, 0.5][seed // 3 % 2]}
        fields = {"key_dtype": key, "value_dtype": value, "device": "cpu", "threads": threads, "chunk": chunk}
        with gh.Table("skiplist", build="always", **options, **fields) as t:
            held: dict = {}
            for _ in range(20):
                if held and rng.random() < 0.2:
                    kept(t, from_the_end(rng, held), held, key)
                else:
                    keys = some_batch(rng, held, key)
                    values = rng.integers(0, 100, len(keys)).astype(value or "u4")
                    operation = OPERATIONS[rng.integers(0, 3)] if value else "insert"
                    expected = serially(operation, held, keys, values)
                    assert getattr(t, operation)(keys, *([values] if value else [])).tolist() == expected
                expect(t, held)


def chunks_after(t, keys):
    """How many chunks of level 0 a batch adds."""
    before = t.stats()["chunks"]
    t.insert(keys, keys)
    t.check()
    return t.stats()["chunks"] - before


@pytest.mark.parametrize("chunk", [8, 16, 32])
def test_the_last_chunk_is_filled_and_others_follow(chunk):
    """Every size of the batch, and of what is in the last chunk, which a build leaves with one entry free."""
    per = chunk - 3
    for there in range(1, 2 * per + 2):
        for n in (1, 2, per - 1, per, per + 1, 3 * per, per * per, per * per + 1):
            with gh.Table("skiplist", chunk=chunk, build="always", **KNOWN) as t:
                first = np.arange(per * per + there, dtype="u4")
                t.insert(first, first)
                parts = np.array_split(np.arange(n, dtype="u4") + first[-1] + np.uint32(1), max(1, n // 7))
                for part in parts:
                    t.insert(part, part)
                t.check()
                assert t.keys().tolist() == list(range(len(first) + n))
                assert t.stats()["chunks"] == -(-(len(first) + n) // per)


@pytest.mark.usual_sizes("which batches are taken at once depends on the least length of one")
@pytest.mark.parametrize("arrange", [np.sort, np.random.default_rng(1).permutation])
def test_large_tables_take_them_at_once(arrange):
    """Key by key, keys in no order would leave chunks half empty, and one that falls short of the end goes that way."""
    first, n = np.arange(200_000, dtype="u4") * np.uint32(2), 3_000
    for build, dense in (("auto", True), ("never", False)):
        with gh.Table("skiplist", chunk=16, build=build, **KNOWN) as t:
            t.insert(first, first)
            t.flush()
            added = chunks_after(t, arrange(np.arange(n, dtype="u4") + first[-1] + np.uint32(1)))
            assert (added < n / 12.9) == (dense or arrange is np.sort)
    with gh.Table("skiplist", chunk=16, **KNOWN) as t:
        t.insert(first, first)
        t.flush()
        low = first[len(first) // 13 * 13]  # of the last chunk
        assert len(first) % 13
        short = arrange(np.append(np.arange(n, dtype="u4") + first[-1] + np.uint32(1), low - np.uint32(1)))
        if arrange is not np.sort:
            assert chunks_after(t, short) > n / 12.9


@pytest.mark.usual_sizes("which batches are taken at once depends on the least length of one")
def test_from_the_low_of_the_last_chunk_on():
    """Its first key is a key behind the end still; the one before is not."""
    first, n = np.arange(50_000, dtype="u4") * np.uint32(2), 2_000
    low = int(first[len(first) // 13 * 13])
    for key, dense in ((low, True), (low - 1, False)):
        with gh.Table("skiplist", chunk=16, **KNOWN) as t:
            t.insert(first, first)
            rng = np.random.default_rng(2)
            keys = rng.permutation(np.append(np.arange(n, dtype="u4") + first[-1] + np.uint32(1), np.uint32(key)))
            assert (chunks_after(t, keys) < n / 12.9) == dense


@pytest.mark.usual_sizes("how often a batch is looked at depends on the length of a look")
def test_batches_all_over_the_table_are_looked_at_seldom():
    """After many of them it takes a while until a batch behind the end is noticed, and the next ones are at once."""
    rng = np.random.default_rng(3)
    n, end = 1024, 1 << 20
    first = np.arange(100_000, dtype="u4") * np.uint32(8)
    with gh.Table("skiplist", chunk=16, **KNOWN) as t:
        t.insert(first, first)
        for _ in range(200):
            some = rng.choice(800_000, n, replace=False).astype("u4")
            t.insert(some, some)
        dense = []
        for _ in range(70):
            keys = rng.permutation(n).astype("u4") + np.uint32(end)
            end += n
            dense.append(bool(chunks_after(t, keys) < n / 12.9))
        assert not dense[0]
        noticed = dense.index(True)
        assert noticed < 64
        assert all(dense[noticed:])


@pytest.mark.usual_sizes("how far a table grows depends on the length of its pieces")
@pytest.mark.parametrize("build", ["auto", "always"])
@pytest.mark.parametrize("n", [1_100, 5_000])
def test_a_table_grows_by_them_in_few_steps(build, n):
    rng = np.random.default_rng(4)
    with gh.Table("skiplist", build=build, **KNOWN) as t:
        end = 0
        sizes = []
        while end < 400_000:
            keys = rng.permutation(n).astype("u4") + np.uint32(end)
            assert t.insert(keys, keys).all()
            end += n
            sizes.append(t.nbytes)
        t.check()
        assert t.keys().tolist() == list(range(end))
        steps = np.count_nonzero(np.diff(sizes))
        assert steps <= 14
        assert t.info["rebuilds"] <= 8
        assert t.nbytes < 50 * end


def test_from_nothing_and_after_everything_has_left():
    rng = np.random.default_rng(5)
    with gh.Table("skiplist", chunk=8, build="always", **KNOWN) as t:
        held: dict = {}
        for end in (0, 0, 50, 7):
            for n in (3, 40, 1, 500):
                keys = rng.permutation(n).astype("u4") + np.uint32(end)
                end += n
                assert t.insert(keys, keys + np.uint32(1)).tolist() == serially("insert", held, keys, keys + 1)
                expect(t, held)
            kept(t, sorted(held), held, "u4")
            expect(t, held)
            if end % 2:
                t.clear()


@pytest.mark.parametrize("held", [[2**32 - 1], [2**32 - 2], [2**32 - 2, 2**32 - 1]])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_nothing_but_the_keys_of_side_slots(operation, held):
    first = np.arange(1_000, dtype="u4")
    with gh.Table("skiplist", chunk=8, build="always", **KNOWN) as t:
        t.insert(first, first)
        model = {k: k for k in first.tolist()}
        keys = np.array(held * 3, "u4")
        values = np.arange(len(keys), dtype="u4")
        for _ in range(2):
            assert getattr(t, operation)(keys, values).tolist() == serially(operation, model, keys, values)
            expect(t, model)


@pytest.mark.parametrize("grow", [True, False])
@pytest.mark.parametrize("chunk", [8, 16])
def test_a_window_that_moves_on(chunk, grow):
    """Chunks of keys that have left are used again after a rebuild only; the pool has none left for some batch."""
    n, window = 100, 2_000
    fields = {"chunk": chunk, "capacity": 3_000, "grow": grow, "build": "always", "threads": 1}
    with gh.Table("skiplist", **fields, **KNOWN) as t:
        before = t.nbytes
        full = 0
        for i in range(150):
            keys = np.arange(i * n, (i + 1) * n, dtype="u4")
            assert t.insert(keys[::-1], keys[::-1]).all()
            full = max(full, t.stats()["pool_taken"] / t.stats()["pool_chunks"])
            if (i + 1) * n > window:
                assert t.erase(keys - np.uint32(window)).all()
            t.check()
        assert t.keys().tolist() == list(range(150 * n - window, 150 * n))
        assert np.array_equal(t.values(), t.keys())
        assert full > 0.9
        assert t.nbytes <= 2.1 * before


class Failing:
    """Memory of which the i-th block cannot be had."""

    def __init__(self):
        self.left = -1
        self.held = {}

    def allocate(self, nbytes, alignment, stream):
        if self.left == 0:
            self.left = -1
            raise MemoryError
        self.left -= self.left > 0
        array = np.empty(nbytes + alignment, np.uint8)
        address = -(-array.ctypes.data // alignment) * alignment
        self.held[address] = array
        return address

    def deallocate(self, address, nbytes, alignment, stream):
        del self.held[address]


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(("build", "n"), [("always", 9), ("always", 300), ("always", 1_500), ("auto", 1_500)])
def test_without_memory_the_batch_means_the_same(build, n, operation):
    """Whichever allocation fails, also where the table has to grow for the batch."""
    first = np.arange(5_000, dtype="u4")
    rng = np.random.default_rng(6)
    failed = 0
    for i in range(40):
        memory = Failing()
        with gh.Table("skiplist", chunk=8, build=build, memory=memory, threads=1, **KNOWN) as t:
            t.insert(first, first)
            held = {k: k for k in first.tolist()}
            for step in range(3):
                # No key twice: key by key, they would answer in any order.
                keys = rng.choice(2 * n, n, replace=False).astype("u4") + np.uint32(len(first) - 3 + 2 * n * step)
                values = rng.integers(0, 9, n).astype("u4")
                memory.left = i
                assert getattr(t, operation)(keys, values).tolist() == serially(operation, held, keys, values)
                failed += memory.left < 0
                memory.left = -1
                expect(t, held)
    assert failed > 5


@pytest.mark.parametrize("build", ["always", "auto"])
def test_a_table_that_may_not_grow_is_filled_to_the_last_chunk(build):
    rng = np.random.default_rng(7)
    n = 1_200
    with gh.Table("skiplist", chunk=8, build=build, grow=False, capacity=6_000, threads=1, **KNOWN) as t:
        before = t.nbytes
        there: list[int] = []
        refused = 0
        for step in range(12):
            keys = rng.permutation(n).astype("u4") + np.uint32(step * n)
            try:
                fresh = t.insert(keys, keys)
            except gh.TableFull as full:
                fresh = full.status == 1
                others = full.status[~fresh]
                refused += 1
            else:
                others = np.array([3])
            assert (others == 3).all()
            there += keys[np.asarray(fresh, bool)].tolist()
            t.check()
            assert t.keys().tolist() == sorted(there)
            assert t.nbytes == before
        assert refused
        assert len(there) >= 6_000


def test_beside_other_threads():
    """One writes behind the end, one all over the table; two read what is there for good."""
    n, rounds = 1_500, 40
    first = np.arange(60_000, dtype="u4") * np.uint32(2)
    with gh.Table("skiplist", threads=2, **KNOWN) as t:
        t.insert(first, first)
        over = threading.Event()
        wrong: list[str] = []

        def behind():
            for i in range(rounds):
                keys = np.arange(n, dtype="u4") + np.uint32(200_000 + i * n)
                if not t.insert(keys, keys).all():
                    wrong.append("a key was there")
            over.set()

        def all_over():
            rng = np.random.default_rng(8)
            while not over.is_set():
                some = rng.choice(first, n, replace=False) + np.uint32(1)
                t.insert(some, some)
                t.erase(some)

        def reads():
            while not over.is_set():
                found, there = t.find(first[::7])
                if not there.all() or not np.array_equal(found, first[::7]):
                    wrong.append("a key was missed")
                last = t[200_000:][0]
                if not np.array_equal(last, np.arange(len(last)) + 200_000):
                    wrong.append("a range has gaps")

        threads = [threading.Thread(target=work) for work in (behind, all_over, reads, reads)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []
        t.check()
        assert np.array_equal(t[200_000:][0], np.arange(rounds * n) + 200_000)
