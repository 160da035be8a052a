"""Unique keys: the paper's REPLACE, DELETE and SEARCH."""

import numpy as np
import pytest

import pygpuhash as gh


def test_replace_keeps_one_pair_per_key(make, rng):
    table = make(buckets=8)
    keys = rng.integers(0, 300, 5000, np.uint64)
    fresh = table.insert_or_assign(keys, np.arange(5000, dtype=np.uint64))
    assert fresh.sum() == len(np.unique(keys)) == len(table)
    values, found = table.find(np.unique(keys))
    assert found.all()
    assert (keys[values] == np.unique(keys)).all()  # the value is one that was given with this key
    assert (table.count(np.unique(keys)) == 1).all()


def test_replace_finds_a_key_behind_slots_that_were_erased(make):
    """A tombstone in front of a key must not attract its next insert, or the key would be there twice."""
    table = make(buckets=1)
    keys = np.arange(100, dtype=np.uint64)
    table.insert(keys, keys)
    table.erase(keys[:50])
    assert not table.insert_or_assign(keys[50:], keys[50:] + 1).any()
    assert len(table) == 50
    assert (table[keys[50:]] == keys[50:] + 1).all()


def test_an_erased_key_comes_back_to_its_own_slot(make):
    table = make(buckets=1)
    keys = np.arange(100, dtype=np.uint64)
    table.insert(keys, keys)
    for round_ in range(20):
        assert table.erase(keys).all()
        assert table.insert(keys, keys + round_).all()
    assert table.info["used"] == 100
    assert (table[keys] == keys + 19).all()


def test_in_a_set_an_erased_slot_is_used_up(make):
    """A set's tombstone has no room for the key, so that each return takes a new slot until FLUSH."""
    table = make(value_dtype=None, buckets=1)
    keys = np.arange(10, dtype=np.uint64)
    for _ in range(5):
        assert table.insert(keys).all()
        assert table.erase(keys).all()
    assert (table.info["used"], len(table)) == (50, 0)
    table.flush()
    assert table.info["used"] == 0


def test_every_pattern_is_a_key_and_a_value(make, widths):
    table = make(**widths)
    bits = 8 * table.key_dtype.itemsize
    keys = np.array([0, 1, 2**31, 2 ** (bits - 1), 2**bits - 1, 2**bits - 2, 2**bits - 3, 2**32 - 1], "uint64")
    keys = np.unique(keys.astype(table.key_dtype))
    if table.value_dtype is None:
        assert table.insert(keys).all()
        assert table.contains(keys).all()
    else:
        ones = np.iinfo(table.value_dtype).max
        for value in (0, 1, ones, ones - 1):
            table.insert_or_assign(keys, np.full(keys.shape, value, table.value_dtype))
            assert (table[keys] == value).all()
            table.check()
        exported = dict(zip(*(a.tolist() for a in table.export()), strict=True))
        assert exported == dict.fromkeys(keys.tolist(), ones - 1)
    assert table.erase(keys).all()
    assert not table.erase(keys).any()
    assert not table.contains(keys).any()


def test_accumulate(make):
    table = make(key_dtype="uint32", value_dtype="uint32", buckets=4)
    keys = np.repeat(np.append(np.arange(100, dtype=np.uint32), np.uint32(2**32 - 1)), 40)
    assert table.accumulate(keys, 1).sum() == 101
    assert (table[np.unique(keys)] == 40).all()


def test_insert_multi_is_refused_and_changes_nothing(make):
    table = make()
    with pytest.raises(gh.Unsupported, match="duplicates=1"):
        table.insert_multi(np.array([1, 1], np.uint64), 5)
    assert len(table) == 0
