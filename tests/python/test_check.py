"""check() says so when a table's memory is not as the structure has left it."""

from __future__ import annotations

import time

import numpy as np
import pytest

import pygpuhash as gh

KEYS = np.random.default_rng(1).choice(1 << 31, 3000, replace=False).astype("u4")
NOTHING = (1 << 64) - 1  # an EMPTY slot


@pytest.fixture
def filled(backend, memory):
    """A table with KEYS that are their own values; its slots as words, and which of these have a pair."""
    with gh.Table(
        backend, key_dtype="u4", value_dtype="u4", capacity=len(KEYS), memory=memory, device="cpu", seed=3
    ) as t:
        t.insert(KEYS, KEYS)
        t.check()
        pair = KEYS.astype("u8") << np.uint64(32) | KEYS
        words, at = max(
            ((b.view("u8"), np.flatnonzero(np.isin(b.view("u8"), pair))) for b in memory.blocks.values()),
            key=lambda found: len(found[1]),
        )
        assert len(at) > len(KEYS) / 2
        yield t, words, at


def says(t, words, at, what):
    """check() refuses the words that are there now, and is content when those of before are back."""
    now = words[at].copy()
    words[at] = what
    with pytest.raises(gh.Corrupt, match=r"breaks an invariant|invariant is broken"):
        t.check()
    words[at] = now
    t.check()


def test_pairs_that_are_where_they_do_not_belong(filled):
    t, words, at = filled
    far = at[[10, len(at) - 50]]
    says(t, words, far, words[far][::-1])  # exchanged
    says(t, words, far, words[far[1]])  # twice, far from each other
    says(t, words, at[10:12], words[at[10]])  # twice, side by side


def test_a_pair_that_is_gone(backend, memory):
    with gh.Table(backend, key_dtype="u4", value_dtype="u4", memory=memory, device="cpu") as t:
        t.insert(np.uint32(77), np.uint32(77))
        t.check()
        for words in [block.view("u8") for block in memory.blocks.values()]:
            words[words == 77 << 32 | 77] = NOTHING
            if backend == "stadium" and np.count_nonzero(words) == 1:  # its ticket, without which a slot has no owner
                words[:] = 0
        with pytest.raises(gh.Corrupt, match="the counters say 1 live"):
            t.check()


def seconds_of_check(backend, n):
    """Processor time for a table at its capacity, the least of three."""
    with gh.Table(backend, key_dtype="u8", value_dtype=None, capacity=n, grow=False, device="cpu") as t:
        t.insert(np.arange(n, dtype="u8") * np.uint64(7919))
        times = []
        for _ in range(3):
            begin = time.process_time()
            t.check()
            times.append(time.process_time() - begin)
        return min(times)


def test_the_time_goes_with_the_number_of_keys(backend):
    """Eight times the keys: 64 times the time, if the search for each went through a part of the table."""
    assert seconds_of_check(backend, 1 << 18) < 32 * seconds_of_check(backend, 1 << 15)
