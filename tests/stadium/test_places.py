"""Where keys of stadium go: the number of lines, what a hash is made of, and paths on which a rebuild finds no room."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

import pygpuhash as gh


def primes_below(n):
    sieve = np.ones(n, bool)
    sieve[:2] = False
    for i in range(2, int(n**0.5) + 1):
        sieve[i * i :: i] &= not sieve[i]
    return np.flatnonzero(sieve)


def test_the_number_of_lines_is_the_next_prime():
    """Also behind products of primes that are all large, and squares."""
    primes = primes_below(10_000)
    large = primes[(primes > 37) & (primes < 100)]
    wanted = {int(a * b) for a in large for b in large[::3] if a <= b}
    wanted |= {8, 9, 25, 1024, 1681, 2047, 3277, 4033, 4681, 8321}  # of which some are strong pseudoprimes
    for lines in sorted(wanted):
        with gh.Table("stadium", ticket=8, line=1, capacity=8 * lines, max_load_factor=1.0, device="cpu") as t:
            assert t.info["slots"] == 8 * primes[np.searchsorted(primes, lines)], lines


@pytest.mark.parametrize("words", [3, 4, 5])
@pytest.mark.parametrize("ticket", [16, 2])
def test_keys_that_differ_in_one_word_only(words, ticket):
    """Whichever it is: they are told apart, and have places of their own."""
    numbers = np.arange(1, 1501, dtype="u4")
    with gh.Table("stadium", key_dtype=("u4", words), device="cpu", ticket=ticket, line=1, seed=1, threads=1) as t:
        for at in range(words):
            keys = np.full((len(numbers), words), 7, "u4")
            keys[:, at] = numbers + 10
            assert t.insert(keys, numbers + at).all()
            keys[:, at] += 5000
            assert not t.contains(keys).any()
        assert t.stats()["probe_mean"] < 1
        for at in range(words):
            keys = np.full((len(numbers), words), 7, "u4")
            keys[:, at] = numbers + 10
            assert (t[keys] == numbers + at).all()
        t.check()


@pytest.mark.parametrize("key", ["u4", "u8", ("u4", 3)])
def test_a_rebuild_that_finds_no_room_for_all_takes_more(key):
    """Short paths, in a table as full as it becomes: not every order in which keys come fits again."""
    numbers = np.random.default_rng(3).permutation(20_000).astype("u4")
    wide = isinstance(key, tuple)
    keys = np.repeat(numbers[:, None], 3, 1) if wide else numbers.astype(key)
    known = {"key_dtype": key, "value_dtype": "u4", "device": "cpu", "threads": 1, "seed": 2}
    with gh.Table("stadium", probe_limit=16, capacity=8000, max_load_factor=1.0, grow=False, **known) as t:
        for part in np.array_split(np.arange(len(keys)), 20):
            with contextlib.suppress(gh.TableFull):
                t.insert(keys[part], numbers[part])
        there = t.contains(keys)
        before = t.info
        assert there.sum() == len(t) > 0.9 * before["slots"]
        t.flush()
        assert t.info["slots"] > 1.5 * before["slots"]
        assert np.array_equal(t.contains(keys), there)
        assert (t[keys[there]] == numbers[there]).all()
        t.check()


@pytest.mark.parametrize("key", ["u4", "u8", ("u4", 3)])
@pytest.mark.parametrize("verb", ["insert", "insert_or_assign", "accumulate", "execute"])
def test_only_what_found_no_room_is_tried_again(key, verb):
    """Short paths, in a table that grows when one of them is full: the others of the batch have taken effect."""
    numbers = np.random.default_rng(4).permutation(12_000).astype("u4")
    keys = np.repeat(numbers[:, None], 3, 1) if isinstance(key, tuple) else numbers.astype(key)
    known = {"key_dtype": key, "value_dtype": "u4", "device": "cpu", "threads": 1, "seed": 2}
    with gh.Table("stadium", probe_limit=16, capacity=len(keys), max_load_factor=1.0, **known) as t:
        slots = t.info["slots"]
        if verb == "execute":
            new = t.execute(np.full(len(keys), gh.Op.ACCUMULATE, "u1"), keys, numbers)[1]
        else:
            new = getattr(t, verb)(keys, numbers)
        assert t.info["slots"] > slots
        assert new.all()
        assert (t[keys] == numbers).all()
        t.check()


@pytest.mark.parametrize("key", ["u4", "u8", ("u4", 3)])
@pytest.mark.parametrize("line", [1, 2, 4, 8])
@pytest.mark.parametrize("ticket", [16, 8, 4, 2])
def test_a_table_takes_as_many_keys_as_it_has_slots(ticket, line, key):
    """Every path meets every slot, the last one, too; and then it is over, also for keys that are not there."""
    known = {"key_dtype": key, "value_dtype": "u4", "device": "cpu", "threads": 1, "seed": 6}
    with gh.Table("stadium", ticket=ticket, line=line, capacity=64, max_load_factor=1.0, grow=False, **known) as t:
        slots = t.info["slots"]
        numbers = np.arange(2 * slots, dtype="u4")
        keys = np.repeat(numbers[:, None], 3, 1) if isinstance(key, tuple) else numbers.astype(key)
        assert t.insert(keys[:slots], numbers[:slots]).all()
        assert len(t) == slots == t.capacity
        with pytest.raises(gh.TableFull) as full:
            t.insert(keys[slots - 1 :], 5)
        assert full.value.failed.tolist() == [False] + [True] * slots
        assert t.contains(keys).tolist() == [True] * slots + [False] * slots
        assert t.count(keys).tolist() == [1] * slots + [0] * slots
        assert not t.erase(keys[slots:]).any()
        assert (t[keys[:slots]] == numbers[:slots]).all()
        t.check()
