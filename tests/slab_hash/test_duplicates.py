"""Duplicates: the paper's INSERT, SEARCHALL, DELETE and DELETEALL against a multimap."""

import threading
import time

import numpy as np
import pytest

import pygpuhash as gh

SIDE = [0, 1, 2]  # distance from the largest key: ~0 and ~0-1 have chains of their own


def of_multimap(table, model):
    keys, values = table.export()
    assert len(keys) == len(table)
    got = sorted(zip(keys.tolist(), values.tolist(), strict=True))
    assert got == sorted(model.pairs.elements())


def draw(rng, n, dtype):
    """Keys that repeat, the three largest ones among them."""
    keys = rng.integers(0, 60, n).astype(dtype)
    return np.where(keys < len(SIDE), np.iinfo(dtype).max - keys, keys).astype(dtype)


@pytest.mark.parametrize(("key", "value"), [("uint32", "uint32"), ("uint64", "uint64"), ("uint32", "uint64")])
@pytest.mark.parametrize("slab_bytes", [64, 256])
def test_random_operations_agree_with_a_multimap(make, rng, multimap, key, value, slab_bytes):
    table = make(key_dtype=key, value_dtype=value, duplicates=1, slab_bytes=slab_bytes)
    every = np.unique(draw(rng, 5000, key))
    for _ in range(40):
        keys = draw(rng, 300, key)
        match rng.integers(4):
            case 0 | 1:
                values = rng.integers(0, 2**32, 300).astype(value)
                assert table.insert_multi(keys, values).all()
                multimap.insert_multi(keys, values)
            case 2:
                some = np.unique(keys)[:7]
                counts = multimap.counts()
                assert table.erase_all(some).tolist() == [counts[k] > 0 for k in some.tolist()]
                multimap.erase_all(some)
            case 3:
                table.flush()
        counts = multimap.counts()
        assert table.count(every).tolist() == [counts[k] for k in every.tolist()]
        offsets, values = table.find_all(every)
        for i, k in enumerate(every.tolist()):
            assert sorted(values[offsets[i] : offsets[i + 1]].tolist()) == multimap.values_of(k)
        table.check()
    of_multimap(table, multimap)


@pytest.mark.parametrize("distance", SIDE)
def test_delete_takes_one_pair_and_deleteall_the_rest(make, distance):
    key = np.array([np.iinfo(np.uint64).max - distance], np.uint64)
    table = make(duplicates=1)
    table.insert_multi(np.repeat(key, 100), np.arange(100, dtype=np.uint64))
    assert table.erase(np.repeat(key, 30)).sum() == 30
    assert table.count(key) == 70
    assert len(table.find_all(key)[1]) == len(set(table.find_all(key)[1].tolist())) == 70
    assert table.erase_all(np.repeat(key, 3)).sum() >= 1  # several elements may share the pairs among them
    assert table.count(key) == len(table) == 0
    assert not table.erase_all(key).any()


def test_a_set_of_duplicates_counts(make, rng):
    table = make(key_dtype="uint32", value_dtype=None, duplicates=1)
    keys = draw(rng, 5000, "uint32")
    assert table.insert_multi(keys).all()
    unique, counts = np.unique(keys, return_counts=True)
    assert table.count(unique).tolist() == counts.tolist()
    offsets, values = table.find_all(unique)
    assert values is None
    assert np.diff(offsets).tolist() == counts.tolist()


def test_insert_adds_a_key_only_when_absent(make):
    table = make(duplicates=1)
    table.insert_multi([1, 1, 1], [5, 6, 7])
    assert table.insert([1, 2], [8, 9]).tolist() == [False, True]
    assert table.count([1, 2, 3]).tolist() == [3, 1, 0]
    assert table.find(1)[0] in (5, 6, 7)


def test_erased_slots_are_not_taken_before_flush(make):
    """A reader that passed an erased slot must not miss a key that is put into it (README.md)."""
    table = make(duplicates=1, buckets=1)
    keys = np.arange(50, dtype=np.uint64)
    table.insert_multi(keys, keys)
    table.erase_all(keys)
    table.insert_multi(keys + 100, keys)
    assert (table.info["used"], len(table)) == (100, 50)
    table.flush()
    assert (table.info["used"], len(table)) == (50, 50)


def test_rebuilding_keeps_duplicates(make, rng, multimap):
    table = make(duplicates=1)
    keys = draw(rng, 20_000, "uint64")
    values = np.arange(20_000, dtype=np.uint64)
    table.insert_multi(keys, values)
    multimap.insert_multi(keys, values)
    assert table.info["rebuilds"] > 0
    table.reserve(200_000)
    of_multimap(table, multimap)
    table.shrink()
    of_multimap(table, multimap)


@pytest.mark.parametrize("allocator", ["slab_alloc", "slab_alloc_light"])
def test_what_a_rebuild_has_moved_it_moves_once(make, allocator):
    """The paper's hash is rebuilt by inserts, and some of them find the heap full: one key has most slabs."""
    table = make(duplicates=1, hash="paper", allocator=allocator)
    table.insert_multi(np.full(60_000, 7, "u8"), np.arange(60_000, dtype="u8"))
    table.flush()
    table.reserve(200_000)
    assert np.sort(table.find_all([7])[1]).tolist() == list(range(60_000))
    table.shrink()
    assert np.sort(table.find_all([7])[1]).tolist() == list(range(60_000))
    assert len(table) == 60_000
    table.check()


def test_no_keys(make):
    table = make(duplicates=1)
    empty = np.empty(0, np.uint64)
    assert table.insert_multi(empty, empty).size == table.erase_all(empty).size == table.count(empty).size == 0
    offsets, values = table.find_all(empty)
    assert (offsets.tolist(), values.size) == ([0], 0)


def cost_of_a_pair(table, keys):
    """CPU seconds per pair that inserting takes; the least of three tries, since the machine may be busy."""
    best = float("inf")
    for _ in range(3):
        table.clear()
        begin = time.process_time()
        assert table.insert_multi(keys, np.arange(len(keys), dtype=np.uint64)).all()
        best = min(best, time.process_time() - begin)
    return best / len(keys)


@pytest.mark.parametrize("allocator", ["slab_alloc", "slab_alloc_light"])
def test_pairs_of_one_key_cost_as_much_as_those_of_many(make, allocator):
    """A walk along the whole chain for each pair would read 3,000 slabs for the last ones."""
    table = make(duplicates=1, allocator=allocator, capacity=40_000, grow=False, threads=1)
    several = cost_of_a_pair(table, np.arange(40_000, dtype=np.uint64))
    one = cost_of_a_pair(table, np.full(40_000, 5, np.uint64))
    assert one < 30 * several  # measured: 3; with the walk: 300
    assert table.count([5]).tolist() == [40_000]
    table.check()


def test_three_hundred_thousand_pairs_of_one_key(make):
    """In a growing table, whose rebuilds move them: over a minute if each of them walked past the others."""
    n = 300_000
    table = make(duplicates=1)
    assert table.insert_multi(np.full(n, 5, np.uint64), np.arange(n, dtype=np.uint64)).all()
    table.reserve(2 * n)
    assert np.array_equal(np.sort(table.find_all([5])[1]), np.arange(n))
    table.check()


@pytest.mark.parametrize("clear", ["flush", "clear", "shrink"])
def test_the_way_to_the_end_of_a_chain_is_found_again(make, clear):
    """What remembered the end of a chain must not outlive its slabs."""
    table = make(duplicates=1, buckets=3)
    key = np.full(1000, 5, np.uint64)
    for round_ in range(4):
        values = np.arange(1000, dtype=np.uint64) + np.uint64(1000 * round_)
        table.insert_multi(key, values)
        if round_ % 2:
            table.insert_multi(key + 1 + round_, values)
        table.check()
        keep = table.insert_multi([5] * 100, np.arange(100, dtype=np.uint64) + np.uint64(10**6))
        assert keep.all()
        table.erase(key[:900])
        getattr(table, clear)()
        table.check()
        assert table.insert_multi(key[:50], values[:50]).all()
        table.check()
        table.erase_all([5])
    assert table.count([5]).tolist() == [0]


def test_threads_append_pairs_of_one_key_beside_each_other(make):
    """Lost swaps and links, tails that lag: every pair is there once, and no slot between them is empty (check)."""
    table = make(duplicates=1, threads=1, buckets=2)

    def work(first):
        for i in range(first, first + 10_000, 1000):
            values = np.arange(i, i + 1000, dtype=np.uint64)
            assert table.insert_multi(np.full(1000, 5, np.uint64), values).all()
            table.insert(values + 100, values)

    threads = [threading.Thread(target=work, args=(10_000 * i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    table.check()
    assert np.array_equal(np.sort(table.find_all([5])[1]), np.arange(40_000))


class Meanwhile(gh.Table):
    """A table to which something happens between two calls of the library."""

    happens = ()

    def _find_all(self, *arguments):
        answer = super()._find_all(*arguments)
        if self.happens:
            self.happens.pop(0)()
        return answer


@pytest.mark.parametrize("what", ["fewer", "more", "none left", "more twice"])
def test_find_all_of_a_table_that_changes_between_counting_and_copying(what):
    keys = np.repeat(np.arange(40, dtype="u4"), 5)
    with Meanwhile("slab_hash", duplicates=1, key_dtype="u4", value_dtype="u4", device="cpu") as t:
        t.insert_multi(keys, np.arange(len(keys), dtype="u4"))
        t.happens = {
            "fewer": [lambda: t.erase(keys[::10])],
            "more": [lambda: t.insert_multi(keys, keys)],
            "none left": [t.clear],
            "more twice": [lambda: t.insert_multi(keys, keys), lambda: t.insert_multi(keys[:7], keys[:7])],
        }[what]
        asked = np.arange(50, dtype="u4")
        offsets, values = t.find_all(asked)
        assert not t.happens
        assert np.diff(offsets).tolist() == t.count(asked).tolist()
        held, with_them = t.export()
        assert offsets[-1] == len(values) == len(held)
        for i in range(50):
            assert sorted(values[offsets[i] : offsets[i + 1]]) == sorted(with_them[held == i])


def test_find_all_into_less_room_than_it_needs(make):
    """It is refused, and nothing is written; with just enough, nothing behind."""
    table = make(key_dtype="uint32", value_dtype="uint32", duplicates=1)
    keys = np.array([3, 4, 5], "u4")
    table.insert_multi(np.repeat(keys, 4), np.arange(12, dtype="u4"))
    for room in (1, 6, 11, 12, 13):
        offsets, values = np.zeros(4, "u8"), np.full(16, 77, "u4")
        failure = table._find_all(3, keys.ctypes.data, offsets.ctypes.data, values.ctypes.data, room)
        assert offsets.tolist() == [0, 4, 8, 12]
        if room < 12:
            assert isinstance(failure, gh.InvalidArgument)
            assert f"the keys have 12 values and the array has room for {room}" in str(failure)
            assert (values == 77).all()
        else:
            assert failure is None
            assert sorted(values[:12]) == list(range(12))
            assert (values[12:] == 77).all()
