"""FLUSH, whole and by buckets: what it drops, and the slabs that come back."""

import numpy as np
import pytest

import pygpuhash as gh


def slabs_taken(table):
    return int(table.stats()["heap_taken"])


def test_flush_returns_every_slab_that_is_not_needed(make, widths):
    table = make(**widths, buckets=50)
    keys = np.arange(20_000).astype(table.key_dtype)
    table.insert(keys, None if table.value_dtype is None else keys)
    table.erase(keys[1000:])
    before, units = slabs_taken(table), table.stats()["heap_units"]
    live = 1000
    assert table.info["used"] == 20_000
    table.flush()
    assert table.info["used"] == len(table) == live
    # Fewest slabs per bucket, from the number of its keys: what FLUSH promises.
    histogram = table.histogram(1000)
    assert slabs_taken(table) == sum((i - 1) * n for i, n in enumerate(histogram.tolist()) if i)
    assert slabs_taken(table) < before / 4
    assert table.stats()["heap_units"] == units
    assert table.contains(keys[:1000]).all()
    assert not table.contains(keys[1000:]).any()
    table.erase(keys[:1000])
    table.flush()
    assert slabs_taken(table) == table.info["used"] == 0


def test_slabs_that_came_back_are_handed_out_again(make):
    """With grow=False the heap's units are all there is, so round after round has to use the same ones."""
    table = make(buckets=10, grow=False)
    units = int(table.stats()["heap_units"])
    n = units * 7 // 2
    for round_ in range(6):
        keys = np.arange(n, dtype=np.uint64) + np.uint64(round_ * n)
        assert table.insert(keys, keys).all()
        assert (table[keys] == keys).all()
        assert table.erase(keys).all()
        table.flush()
        table.check()
    assert table.stats()["heap_units"] == units


def test_flush_of_a_range_leaves_the_other_buckets_alone(make, rng):
    table = make(buckets=64)
    keys = np.arange(10_000, dtype=np.uint64)
    table.insert(keys, keys)
    table.erase(keys[::2])
    table.flush(0, 16)
    part = table.info["used"]
    assert 5000 < part < 10_000
    table.check()
    table.flush(0, 16)
    assert table.info["used"] == part  # there was nothing left to drop
    for first in (16, 32, 48):
        table.flush(first, 16)
    assert table.info["used"] == len(table) == 5000
    assert (table[keys[1::2]] == keys[1::2]).all()


def test_flush_reaches_the_chains_of_the_two_largest_keys(make):
    table = make(duplicates=1, buckets=8)
    largest = np.repeat(np.array([2**64 - 1, 2**64 - 2], np.uint64), 100)
    table.insert_multi(largest, 1)
    table.erase_all(largest)
    table.flush(0, 8)
    assert table.info["used"] == 200
    table.flush(8, 1)
    assert table.info["used"] == 100
    table.flush(9, 1)
    assert table.info["used"] == 0
    assert slabs_taken(table) == 0


@pytest.mark.parametrize(("first", "count"), [(11, 0), (0, 11), (10, 1), (2**64 - 1, 1)])
def test_buckets_that_do_not_exist_are_refused(make, first, count):
    table = make(buckets=8)  # and two for the largest keys
    with pytest.raises(gh.InvalidArgument, match="buckets"):
        table.flush(first, count)


def test_an_empty_range_is_allowed(make):
    table = make(buckets=8)
    table.insert([1, 2], [1, 2])
    table.erase(1)
    table.flush(3, 0)
    table.flush(10, 0)
    assert table.info["used"] == 2


def test_half_a_range_is_refused(make):
    with pytest.raises(TypeError, match="first and count"):
        make().flush(3)


def test_buckets_of_open_addressing_are_refused():
    with gh.Table("linear_probe", device="cpu") as table, pytest.raises(gh.Unsupported, match="flush"):
        table.flush(0, 1)


def test_flush_of_many_buckets_by_many_threads(make, rng):
    table = make(capacity=300_000, threads=4)
    keys = rng.permutation(300_000).astype(np.uint64)
    table.insert(keys, keys)
    table.erase(keys[:200_000])
    table.flush()
    assert table.info["used"] == 100_000
    assert (table[keys[200_000:]] == keys[200_000:]).all()


@pytest.mark.parametrize("whole", [True, False])
def test_chains_of_the_last_two_keys_are_flushed_too(make, whole):
    """They lie behind the buckets."""
    table = make(key_dtype="uint32", value_dtype="uint32", duplicates=1)
    for key in (2**32 - 1, 2**32 - 2):
        table.insert_multi(np.full(1000, key, "u4"), np.arange(1000, dtype="u4"))
    assert table.stats()["heap_taken"] > 60
    table.erase_all(np.array([2**32 - 1, 2**32 - 2], "u4"))
    buckets = int(table.stats()["buckets"])
    table.flush(*(() if whole else (buckets, 2)))
    assert table.stats()["heap_taken"] == table.info["used"] == 0
    with pytest.raises(gh.InvalidArgument, match="do not exist"):
        table.flush(buckets, 3)
