"""Batches of inserts that a skiplist sorts and merges with all of its pairs at once, and those that it does not."""

from __future__ import annotations

import ctypes
import mmap
import sys
import threading
from collections.abc import Callable

import numpy as np
import pytest

import pygpuhash as gh

OPERATIONS = ["insert", "insert_or_assign", "accumulate"]


def serially(operation: str, held: dict, keys: np.ndarray, values: np.ndarray) -> list[bool]:
    """What each element answers, and what `held` is afterwards, one element after the other."""
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


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("value_dtype", ["u4", "i8", None])
@pytest.mark.parametrize("key_dtype", ["u4", "i4", "f4", "u8", "i8", "f8"])
def test_a_batch_takes_effect_in_its_order(key_dtype: str, value_dtype: str | None, threads: int) -> None:
    rng = np.random.default_rng(threads)
    fields = {"key_dtype": key_dtype, "value_dtype": value_dtype, "threads": threads, "device": "cpu"}
    with gh.Table("skiplist", build="always", chunk=8, **fields) as t:
        held: dict = {}
        # Few keys many times, many keys, in order, backwards; small beside what is there, and large.
        for i, (n, span, arrange) in enumerate(
            [(300, 7, None), (20_000, 40_000, None), (9_000, 5_000, np.sort), (5, 10**6, None), (9_000, 10**5, np.flip)]
        ):
            keys = (rng.integers(0, span, n) - (0 if key_dtype[0] == "u" else span // 2)).astype(key_dtype)
            if key_dtype[0] != "f":  # the last three of the order, two of which live in side slots
                keys[rng.integers(0, n, 4)] = np.iinfo(key_dtype).max - rng.integers(0, 3, 4).astype(key_dtype)
            keys = arrange(np.sort(keys)) if arrange else keys
            values = rng.integers(0, 1000, n).astype(value_dtype or "u4")
            operation = OPERATIONS[i % 3] if value_dtype else "insert"
            expected = serially(operation, held, keys, values)
            fresh = getattr(t, operation)(keys, values) if value_dtype else t.insert(keys)
            assert fresh.tolist() == expected
            t.check()
            exported = t.export()
            assert exported[0].tolist() == sorted(held)
            assert value_dtype is None or exported[1].tolist() == [held[k] for k in sorted(held)]
            assert len(t) == len(held)


def test_keys_with_equal_digits_and_one_that_differs() -> None:
    """Passes of the sort are left out where no two keys differ."""
    base = np.uint64(0x1234_5678_0000_0000)
    for digit in range(8):
        keys = base + (np.arange(256, dtype="u8")[::-1] << np.uint64(8 * digit))
        with gh.Table("skiplist", key_dtype="u8", value_dtype="u8", build="always", device="cpu") as t:
            assert t.insert(keys, keys).all()
            assert t.keys().tolist() == sorted(keys.tolist())


@pytest.mark.parametrize("arrange", [np.sort, np.random.default_rng(1).permutation])
def test_keys_of_one_thread_that_are_all_less_than_those_of_another(arrange: Callable) -> None:
    """What each thread's keys have in common is no common digit, and where each one's ascend, they do not."""
    keys = np.concatenate([high + arrange(np.arange(4096, dtype="u4")) for high in np.uint32([3 << 24, 0, 1 << 16])])
    with gh.Table("skiplist", key_dtype="u4", value_dtype="u4", build="always", device="cpu", threads=3) as t:
        assert t.insert(keys, keys).all()
        t.check()
        assert np.array_equal(t.keys(), np.sort(keys))


def fill(keys: np.ndarray, **options: object) -> float:
    """How full the chunks are after one insert: a table that was built leaves one entry of a chunk free."""
    with gh.Table("skiplist", key_dtype="u4", value_dtype="u4", device="cpu", chunk=16, **options) as t:
        t.insert(keys, keys)
        t.check()
        return t.stats()["fill"]


@pytest.mark.usual_sizes("which batches are built at once depends on the length of pieces")
def test_large_batches_are_built_at_once_unless_told_otherwise() -> None:
    keys = np.random.default_rng(1).permutation(20_000).astype("u4")
    dense = 13 / 14
    assert fill(keys) == pytest.approx(dense, abs=0.01)
    assert fill(keys, build="never") < 0.8
    assert fill(keys[:200]) < 0.8
    assert fill(keys[:1000], build="always") == pytest.approx(dense, abs=0.02)


@pytest.mark.usual_sizes("which batches are built at once depends on the length of pieces")
def test_batches_that_are_small_beside_the_table_are_not() -> None:
    keys = np.random.default_rng(2).permutation(80_000).astype("u4")
    with gh.Table("skiplist", key_dtype="u4", value_dtype="u4", device="cpu", capacity=200_000, chunk=16) as t:
        t.insert(keys[:50_000], keys[:50_000])
        dense = t.stats()["fill"]
        t.insert(keys[50_000:55_000], keys[50_000:55_000])
        assert t.stats()["fill"] < dense  # chunks were split
        t.insert(keys[55_000:], keys[55_000:])
        assert t.stats()["fill"] == pytest.approx(13 / 14, abs=0.01)
        t.check()
        assert len(t) == len(keys)
        assert (t.find(keys)[0] == keys).all()


def test_fewer_levels_than_before() -> None:
    """A table that has shrunk is built over: what was above its new top is as in an empty table."""
    with gh.Table("skiplist", key_dtype="u4", value_dtype="u4", device="cpu", chunk=8, build="always") as t:
        keys = np.arange(50_000, dtype="u4")
        t.insert(keys, keys)
        t.erase(keys[10:])
        t.insert(keys[:20], keys[:20])
        t.check()
        assert t.stats()["levels"] < 4
        assert t.stats()["zombies"] == 0
        assert t.keys().tolist() == list(range(20))
        t.clear()
        t.insert(keys, keys)
        t.check()
        assert len(t) == len(keys)


def test_a_table_that_may_not_grow_takes_what_fits() -> None:
    keys = np.random.default_rng(3).permutation(50_000).astype("u4")
    with gh.Table("skiplist", key_dtype="u4", value_dtype="u4", device="cpu", capacity=5_000, grow=False) as t:
        with pytest.raises(gh.TableFull) as caught:
            t.insert(keys, keys)
        taken = caught.value.status == 1
        assert 5_000 <= taken.sum() < len(keys)
        assert (t.contains(keys) == taken).all()
        t.check()
        before = t.nbytes
        t.clear()
        assert t.insert(keys[:5_000], keys[:5_000]).all()
        t.check()
        assert t.nbytes == before


def test_beside_other_threads() -> None:
    """A batch that is built has the table to itself; others wait, and lose nothing."""
    rounds, n = 6, 6_000
    with gh.Table("skiplist", key_dtype="u4", value_dtype="u8", device="cpu", threads=1) as t:
        keys = np.arange(n, dtype="u4")

        def work(step: int) -> None:
            for _ in range(rounds):
                t.accumulate(keys[::step], np.ones(n, "u8")[::step].copy())
                assert t.contains(keys[::step]).all()

        threads = [threading.Thread(target=work, args=(step,)) for step in (1, 1, 7, 100)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        expected = rounds * (2 + (keys % 7 == 0).astype("u8") + (keys % 100 == 0))
        assert (t.find(keys)[0] == expected).all()
        t.check()


# ---- at length -------------------------------------------------------------------------------------------------------


def mixed_rounds(rounds: int, batch: int, span: int, seed: int, choose: Callable[[np.random.Generator], str]) -> None:
    """Random batches against arrays that have the value and the presence of each possible key."""
    rng = np.random.default_rng(seed)
    there, value = np.zeros(span, bool), np.zeros(span, "u4")
    with gh.Table("skiplist", key_dtype="u4", value_dtype="u4", device="cpu") as t:
        for r in range(rounds):
            keys = rng.choice(span, batch, replace=False).astype("u4")
            values = rng.integers(0, 1 << 32, batch, dtype="u4")
            operation = choose(rng)
            was = there[keys]
            if operation == "erase":
                assert (t.erase(keys) == was).all()
                there[keys] = False
            elif operation == "find":
                got, found = t.find(keys)
                assert (found == was).all()
                assert (got[was] == value[keys][was]).all()
            else:
                assert (getattr(t, operation)(keys, values) == ~was).all()
                changed = ~was if operation == "insert" else np.ones(batch, bool)
                value[keys[changed]] = values[changed]
                there[keys] = True
            if r % 8 == 0:
                low, high = np.sort(rng.integers(0, span, 2))
                held = np.flatnonzero(there)
                some = t[int(low) : int(high)]
                expected = held[(held >= low) & (held < high)]
                assert (some[0] == expected).all()
                assert (some[1] == value[expected]).all()
                asked = rng.integers(0, span, 100).astype("u4")
                at = np.searchsorted(held, asked, "right")
                above = at < len(held)
                got, _, found = t.successor(asked)
                assert (found == above).all()
                assert (got[above] == held[at[above]]).all()
        t.check()
        assert (t.keys() == np.flatnonzero(there)).all()


def any_operation(rng: np.random.Generator) -> str:
    return str(rng.choice(["insert", "insert_or_assign", "erase", "find"], p=[0.3, 0.1, 0.4, 0.2]))


def test_mixed_operations_against_a_sorted_reference() -> None:
    mixed_rounds(rounds=60, batch=3_000, span=40_000, seed=1, choose=any_operation)


@pytest.mark.slow
def test_ten_million_mixed_operations_against_a_sorted_reference() -> None:
    mixed_rounds(rounds=1_000, batch=10_000, span=200_000, seed=2, choose=any_operation)


def age(rounds: int, n: int, part: int) -> None:
    """Random keys leave and others come, so that the table has n keys all the time."""
    rng = np.random.default_rng(rounds)
    fields = {"key_dtype": "u4", "value_dtype": "u4", "device": "cpu"}
    with gh.Table("skiplist", capacity=n, **fields) as t:
        keys = rng.choice(1 << 32, n, replace=False).astype("u4")
        t.insert(keys, keys)
        fresh = t.nbytes
        most = fresh
        for r in range(rounds):
            gone = rng.choice(n, part, replace=False)
            assert t.erase(keys[gone]).all()
            new = np.setdiff1d(rng.integers(0, 1 << 32, 2 * part, dtype="u4"), keys)
            keys[gone] = rng.permutation(new)[:part]
            assert t.insert(keys[gone], keys[gone]).all()
            most = max(most, t.nbytes)
            if r % 50 == 0:
                assert (t.keys() == np.sort(keys)).all()
        t.check()
        assert len(t) == n
        assert (t.find(keys)[0] == keys).all()
        assert most <= 4 * fresh
        t.flush()
        assert t.stats()["zombies"] == 0
        assert t.stats()["fill"] == pytest.approx(
            (t.stats()["chunk_entries"] - 1) / t.stats()["chunk_entries"], abs=0.02
        )
        t.shrink()
        t.check()
        assert t.nbytes <= 1.05 * fresh
        assert (t.keys() == np.sort(keys)).all()


def test_ageing_at_constant_size() -> None:
    age(rounds=100, n=5_000, part=500)


@pytest.mark.slow
def test_ageing_for_a_thousand_rounds_at_constant_size() -> None:
    age(rounds=1_000, n=50_000, part=5_000)


def ascending(key: str, n: int) -> np.ndarray:
    """Keys that ascend in the order of their type, its least one among them."""
    keys = np.arange(n, dtype=np.int64) * 7
    return keys.astype(key) if key[0] == "u" else (keys - 7 * (n // 2)).astype(key)


@pytest.mark.parametrize("chunk", [8, 16, 32])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(("key", "value"), [("u4", "u4"), ("i4", None), ("f8", "u8"), ("i8", "u4")])
@pytest.mark.parametrize("n", [1, 13, 14, 30_000])
def test_ascending_keys_into_an_empty_table(chunk, threads, key, value, n):
    keys = ascending(key, n)
    values = None if value is None else np.arange(n, dtype=value)
    fields = {"key_dtype": key, "value_dtype": value, "device": "cpu", "threads": threads}
    with gh.Table("skiplist", chunk=chunk, build="always", **fields) as t:
        for _ in range(2):  # in a new pool, and in the one that is there
            assert t.insert(keys, values).all()
            t.check()
            assert t.keys().tobytes() == keys.tobytes()
            if values is not None:
                assert np.array_equal(t.find(keys)[0], values)
            assert t.successor(keys[:-1])[0].tobytes() == keys[1:].tobytes()
            stats = t.stats()
            assert stats["chunks"] == -(-n // (chunk - 3))
            assert stats["zombies"] == 0
            assert len(t) == n
            assert not t.insert(keys, values).any()
            t.clear()


def one_falls(keys):
    keys[1234], keys[1235] = keys[1235], keys[1234]


def one_twice(keys):
    keys[20_001] = keys[20_000]


def twice_where_pieces_meet(keys):
    """At the first key of every chunk: one of them begins what another thread writes."""
    keys[13::13] = keys[12:-1:13]


def side_keys(keys):
    keys[-2:] = [2**32 - 2, 2**32 - 1]


def the_lesser_side_key(keys):
    keys[-1] = 2**32 - 2


@pytest.mark.parametrize("spoil", [one_falls, one_twice, twice_where_pieces_meet, side_keys, the_lesser_side_key])
@pytest.mark.parametrize("verb", ["insert", "insert_or_assign", "accumulate"])
@pytest.mark.parametrize("threads", [1, 3])
def test_keys_that_seem_to_ascend(spoil, verb, threads):
    """What a look at some keys does not show is noticed as they are written; the batch means the same."""
    keys = np.arange(1, 30_001, dtype="u4") * np.uint32(3)
    spoil(keys)
    values = np.arange(len(keys), dtype="u4")
    expected: dict[int, int] = {}
    for k, v in zip(keys.tolist(), values.tolist(), strict=True):
        old = expected.get(k)
        later = {"insert": old, "insert_or_assign": v, "accumulate": (old or 0) + v}[verb]
        expected[k] = v if old is None else later
    fields = {"key_dtype": "u4", "value_dtype": "u4", "device": "cpu", "threads": threads}
    with gh.Table("skiplist", chunk=16, build="always", **fields) as t:
        assert getattr(t, verb)(keys, values).sum() == len(expected)
        t.check()
        found, held = t.export()
        assert found.tolist() == sorted(expected)
        assert held.tolist() == [expected[k] for k in sorted(expected)]


def test_one_key_twice_where_two_pieces_meet():
    """Each thread's keys ascend. Pieces end where a chunk of level 1 does, at some of these places."""
    n = 20_000
    fields = {"key_dtype": "u4", "value_dtype": "u4", "device": "cpu", "threads": 3}
    with gh.Table("skiplist", chunk=16, build="always", capacity=n, **fields) as t:
        for place in range(13 * 13, n, 13 * 13):
            keys = np.arange(n, dtype="u4")
            keys[place] = place - 1
            assert t.insert(keys, keys).sum() == n - 1
            assert np.array_equal(t.keys(), np.delete(keys, place))
            t.clear()


@pytest.mark.parametrize("threads", [1, 3])
def test_what_was_written_of_keys_that_seemed_to_ascend_is_taken_back(threads):
    """In a table that has room for them: the chunks of the attempt are handed out again later, and have to be empty."""
    keys = np.repeat(np.arange(1, 40_001, 2, dtype="u4"), 2)
    more = np.random.default_rng(1).permutation(np.arange(2, 40_001, 2, dtype="u4"))
    fields = {"key_dtype": "u4", "value_dtype": "u4", "device": "cpu", "threads": threads, "capacity": len(keys)}
    with gh.Table("skiplist", **fields) as t:
        assert t.insert(keys, keys).sum() == len(keys) // 2
        assert t.info["rebuilds"] == 0
        t.check()
        for part in np.array_split(more, 40):
            assert t.insert(part, part).all()
        assert t.info["rebuilds"] == 0
        t.check()
        found, held = t.export()
        assert np.array_equal(found, np.arange(1, 40_001))
        assert np.array_equal(found, held)


@pytest.mark.skipif(sys.platform != "linux", reason="mprotect by way of the process's own symbols")
def test_nothing_is_read_behind_ascending_keys():
    """They end where a page does that may not be read: chunks are filled by whole registers."""
    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, 2 * page)
    whole = np.frombuffer(memory, "u4")
    protect = ctypes.CDLL(None).mprotect
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    assert protect(whole.ctypes.data + page, page, 0) == 0
    for n in range(1, 50):
        keys = whole[page // 4 - n : page // 4]
        keys[:] = np.arange(n)
        with gh.Table("skiplist", key_dtype="u4", value_dtype=None, chunk=16, build="always", device="cpu") as t:
            assert t.insert(keys).all()
            assert np.array_equal(t.keys(), keys)


def test_ascending_keys_that_a_table_has_no_room_for():
    keys = np.arange(50_000, dtype="u4")
    with gh.Table("skiplist", key_dtype="u4", value_dtype=None, capacity=100, grow=False, device="cpu") as t:
        with pytest.raises(gh.TableFull) as caught:
            t.insert(keys)
        t.check()
        assert len(t) == (caught.value.status == 1).sum()


def test_a_sorted_batch_of_many_pieces_is_built_once():
    """Pieces that are merged one after the other would rebuild the table each time."""
    n = 200_000
    was = gh._core.piece(10_000)
    try:
        with gh.Table("skiplist", key_dtype="u4", value_dtype="u4", capacity=n, device="cpu") as t:
            keys = np.arange(n, dtype="u4")
            assert t.insert(keys, keys).all()
            assert t.stats()["fill"] > 0.9
            assert t.insert(keys, 5).sum() == 0  # one value, of which a piece has copies
            assert np.array_equal(t.find(keys)[0], keys)
            t.clear()
            assert t.insert(keys, 5).all()
            assert (t.find(keys)[0] == 5).all()
            t.check()
    finally:
        gh._core.piece(was)
