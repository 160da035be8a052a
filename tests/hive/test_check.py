"""check() tells which invariant of the slots is broken (plugins/hive/layout.hpp)."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

import pygpuhash as gh

EMPTY, DEAD = (1 << 64) - 1, (1 << 32) - 2
KEYS = np.arange(1, 61, dtype="u4") * np.uint32(77_777)


def parts_of(memory, buckets: int, stash_slots: int) -> tuple[np.ndarray, ...]:
    """Of a table's memory: slots, stash, locks, filter, note."""
    block = max(memory.blocks.values(), key=len)
    words = block.view("u8")
    slots, stash = words[: 8 * buckets], words[8 * buckets :][:stash_slots]
    rest = block.view("u4")[2 * (len(slots) + len(stash)) :]
    n = (buckets + 3) // 4  # words of the filter; the locks before it are a power of two
    return slots.reshape(-1, 8), stash, rest[:64], rest[64 : 64 + n], rest[64 + n : 65 + n]


def tombstone(key):
    return int(key) << 32 | DEAD


@pytest.fixture
def table(memory):
    """A table of which every key is in its home, and each home has an EMPTY slot."""
    known = {"key_dtype": "u4", "value_dtype": "u4", "device": "cpu", "threads": 1, "memory": memory}
    with gh.Table("hive", capacity=500, stash=0.1, seed=3, grow=False, **known) as t:
        t.insert(KEYS, KEYS)
        t.check()
        stats = t.stats()
        assert stats["outside"] == 0
        parts = parts_of(memory, int(stats["buckets"]), int(stats["stash_slots"]))
        slots, stash, locks, filters, note = parts
        assert set((slots[slots != EMPTY] & 0xFFFFFFFF).tolist()) == set(KEYS.tolist())
        assert (stash == EMPTY).all()
        assert (slots[:, -1] == EMPTY).all()
        assert all((part == 0xFFFFFFFF).all() for part in (locks, filters, note))
        yield t, *parts


@contextlib.contextmanager
def changed(array, at, now):
    before = array[at].copy()
    array[at] = now
    yield
    array[at] = before


def refuses(t, what):
    with pytest.raises(gh.Corrupt, match=what):
        t.check()


def said(t):
    with pytest.raises(gh.Corrupt) as error:
        t.check()
    return str(error.value)


@contextlib.contextmanager
def left(slots, key):
    """The key's slot has the tombstone of no key, and so have the EMPTY ones of its home."""
    home = int(np.flatnonzero((slots & 0xFFFFFFFF == key).any(1))[0])
    row = slots[home].copy()
    gone = (row == EMPTY) | (row & 0xFFFFFFFF == key)
    with changed(slots, home, np.where(gone, np.uint64(tombstone(DEAD)), row)):
        yield home


def test_buckets(table):
    """Of all others, one is a key's too, where it may be as soon as its home is full, and the filter says so."""
    t, slots, _, _, filters, _ = table
    for key in KEYS[:5]:
        pair = int(key) << 32 | int(key)
        home = int(np.flatnonzero((slots == pair).any(1))[0])
        seconds = []
        for b in set(range(len(slots))) - {home}:
            without = np.where(slots[home] == pair, np.uint64(EMPTY), slots[home])
            with changed(slots, home, without), changed(slots, (b, 7), pair):
                what = said(t)
            if "a key lies in a bucket that is not its own" not in what:
                assert "a key lies outside of its home, which has an empty slot (H2)" in what
                seconds.append(b)
        assert len(seconds) == 1
        with left(slots, key), changed(slots, (seconds[0], 7), pair):
            refuses(t, r"a key lies outside of its home, and the filter does not say so \(H3\)")
            with changed(filters, home // 4, 0):
                refuses(t, "the counters say 60 live and 60 used, the slots 60 and ")
    t.check()


def test_a_key_and_its_traces(table):
    t, slots, stash, _, _, note = table
    for key in KEYS[:5]:
        home, at = (int(i[0]) for i in np.nonzero(slots & 0xFFFFFFFF == key))
        free = int(np.flatnonzero(slots[home] == EMPTY)[0])
        with changed(slots, (home, free), tombstone(key)):
            refuses(t, r"a live key has a tombstone in its home \(H6\)")
        with changed(slots, (home, free), slots[home, at]):
            refuses(t, r"a key has two slots \(H7\)")
        with changed(stash, slice(None), slots[home, at]), changed(note, 0, 0):
            refuses(t, r"a key has two slots \(H7\)")
    t.check()


def test_the_stash(table):
    """A key of the stash is where it is looked for first, and the note says that there is one."""
    t, slots, stash, _, filters, note = table
    for key in KEYS[:5]:
        pair = int(key) << 32 | int(key)
        with changed(stash, 0, pair):
            refuses(t, "a key lies outside of its home, which has an empty slot|a key has two slots")
        with left(slots, key) as home:
            reached = []
            for at in range(len(stash)):
                with changed(stash, at, pair):
                    what = said(t)
                    if "a key of the stash cannot be found there" in what:
                        continue
                    assert "the stash holds a key, and the note says that it never did" in what
                    reached.append(at)
                    with changed(note, 0, 0):
                        refuses(t, r"the filter does not say so \(H3\)")
                        with changed(filters, home // 4, 0):
                            refuses(t, "the counters say 60 live and 60 used")
            assert len(reached) == 1
    t.check()


def test_locks_and_counters(table):
    t, slots, _, locks, _, _ = table
    for at in (0, len(locks) - 1):
        with changed(locks, at, 0xFFFFFFFE):
            refuses(t, f"lock {at} breaks an invariant: it was left locked")
    home, at = (int(i[0]) for i in np.nonzero(slots == slots[slots != EMPTY][-1]))
    with changed(slots, (home, at), tombstone(DEAD)):
        refuses(t, "the counters say 60 live and 60 used, the slots 59 and 60")
    free = int(np.flatnonzero(slots[home] == EMPTY)[0])
    with changed(slots, (home, free), tombstone(DEAD)):
        refuses(t, "the counters say 60 live and 60 used, the slots 60 and 61")
    t.check()


def test_what_it_says_of_full_buckets_and_of_the_filter(memory):
    """The shares in stats() are those of its memory: a dead slot is not EMPTY; each home has a byte of the filter."""
    known = {"key_dtype": "u4", "value_dtype": "u4", "device": "cpu", "threads": 1, "memory": memory}
    keys = np.random.default_rng(1).permutation(20_000).astype("u4")[:1700]
    with gh.Table("hive", capacity=1700, evictions=0, max_load_factor=0.9, seed=3, grow=False, **known) as t:
        t.insert(keys, keys)
        for _ in range(2):
            stats = t.stats()
            buckets = int(stats["buckets"])
            slots, _, _, filters, _ = parts_of(memory, buckets, int(stats["stash_slots"]))
            assert stats["full_buckets"] == (slots != EMPTY).all(1).sum() / buckets > 0.2
            cleared = (~filters.view("u1")[:buckets, None] >> np.arange(8, dtype="u1")) & np.uint8(1)
            assert stats["filter_bits"] == cleared.sum() / (8 * buckets) > 0.05
            assert stats["dead"] == (slots & np.uint64(0xFFFFFFFF) == DEAD).sum()
            t.erase(keys[:600])
        assert stats["dead"] == 600
