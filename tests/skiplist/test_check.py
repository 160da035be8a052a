"""check() tells which invariant of the chunks is broken (plugins/skiplist/layout.hpp)."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

import pygpuhash as gh

CHUNK, NEXT, LOCK = 8, 6, 7  # words of a chunk; where two of them lie
GONE = 1 << 31
EMPTY = (1 << 64) - 1
KEYS = np.arange(1, 201, dtype="u4") * np.uint32(10)


def word(key: int, value: int) -> int:
    return value << 32 | key


class Pool:
    """The chunks of a table, and its counters, in its memory."""

    def __init__(self, memory) -> None:
        self.blocks = memory.blocks

    @property
    def chunks(self) -> np.ndarray:
        return max(self.blocks.values(), key=len).view("u8").reshape(-1, CHUNK)

    @property
    def counters(self) -> np.ndarray:
        """`top`, and 64 bytes behind it `taken`."""
        return min(self.blocks.values(), key=len).view("u4")[:17:16]

    def key(self, chunk: int, at: int) -> int:
        return int(self.chunks[chunk, at]) & 0xFFFFFFFF

    def value(self, chunk: int, at: int) -> int:
        return int(self.chunks[chunk, at]) >> 32

    def level(self, head: int) -> list[int]:
        """The chunks of a level, from the left."""
        found = [head]
        while self.value(found[-1], NEXT) != GONE - 1:
            found.append(self.value(found[-1], NEXT))
        return found


@pytest.fixture
def table(memory):
    """Two hundred keys in chunks of six, of which some are zombies."""
    known = {"key_dtype": "u4", "value_dtype": "u4", "device": "cpu", "threads": 1, "capacity": 2000, "memory": memory}
    with gh.Table("skiplist", chunk=CHUNK, build="never", **known) as t:
        t.insert(KEYS, KEYS)
        t.erase(KEYS[60:120])
        t.check()
        assert t.stats()["zombies"] > 3
        assert t.stats()["levels"] > 2
        yield t, Pool(memory)


@contextlib.contextmanager
def changed(words: np.ndarray, at: object, now: object):
    before = words[at].copy()
    words[at] = now
    yield
    words[at] = before


def says(t: gh.Table, pool: Pool, at: tuple[int, int], now: int, what: str) -> None:
    with changed(pool.chunks, at, now), pytest.raises(gh.Corrupt, match=what):
        t.check()
    t.check()


def test_of_a_level(table):
    """G1, G7: chunks, their links, their ends and their locks."""
    t, pool = table
    first, second, third, *_, last = pool.level(0)
    low, high = pool.key(first, NEXT) + 1, pool.key(second, NEXT)
    says(t, pool, (first, NEXT), word(low - 1, 1 << 20), "G1: level 0.*is not of this pool")
    says(t, pool, (first, NEXT), word(low - 1, len(pool.chunks)), "G1: level 0.*is not of this pool")
    says(t, pool, (first, NEXT), word(low - 1, 1 << 26), "G1: level 0.*is not of this pool")  # of the next segment
    says(t, pool, (second, NEXT), word(high, first), "G1: level 0.*two links lead here")
    says(t, pool, (second, NEXT), word(high, third | GONE), "G1: level 0.*a zombie is on the level")
    says(t, pool, (second, NEXT), word(low - 1, third), "G1: level 0.*its max is below its low")
    says(t, pool, (last, NEXT), word((1 << 32) - 2, GONE - 1), "G1: level 0.*the last chunk does not reach to the end")
    says(t, pool, (second, LOCK), word(pool.key(second, LOCK) | 1, 0), f"G7: level 0, chunk {second}: is locked")
    says(t, pool, (second, LOCK), word(pool.key(second, LOCK), 1), "G1: level 0.*says that it is on another level")


def test_of_the_entries_of_a_chunk(table):
    """G3: their order, and that they lie where their chunk says."""
    t, pool = table
    second = pool.level(0)[1]
    low, high = pool.key(pool.level(0)[0], NEXT) + 1, pool.key(second, NEXT)
    n = np.count_nonzero(pool.chunks[second, :NEXT] != EMPTY)
    entries = [pool.key(second, i) for i in range(n)]
    assert n > 2
    says(t, pool, (second, 0), EMPTY, "G3: level 0.*an empty word lies before an entry")
    says(t, pool, (second, 1), word(entries[0], 5), "G3: level 0.*its entries are not sorted")  # twice
    says(t, pool, (second, 1), word(entries[2] + 1, 5), "G3: level 0.*its entries are not sorted")
    says(t, pool, (second, 0), word(low - 1, 5), "G3: level 0.*an entry lies outside low and max")
    says(t, pool, (second, n - 1), word(high + 1, 5), "G3: level 0.*an entry lies outside low and max")


def test_of_names(table):
    """G4, G5: what is above level 0."""
    t, pool = table
    names = pool.level(1)
    first, second = names[:2]
    key = [pool.key(second, i) for i in range(2)]
    to = [pool.value(second, i) for i in range(2)]
    says(t, pool, (second, 1), word(key[1], 1 << 20), "G4: level 1.*an entry names no chunk")
    says(t, pool, (second, 1), word(key[1], first), "G4: level 1.*an entry names a chunk of another level")
    says(t, pool, (second, 0), word(key[0], to[1]), "G4: level 1.*an entry names a chunk that begins behind it")
    says(t, pool, (second, 0), word(key[0] + 1, to[0]), "G5: level 1.*its first entry's key is not its low")
    says(t, pool, (second, slice(0, NEXT)), EMPTY, "G5: level 1.*its first entry's key is not its low")
    above = int(t.stats()["levels"])  # the head of the level above the top
    says(t, pool, (above, 1), word(7, above - 1), f"G5: level {above}.*it is above the top level and has entries")


def test_of_zombies(table):
    """G6: their links lead to chunks that live."""
    t, pool = table
    zombies = [i for i in range(len(pool.chunks)) if pool.key(i, NEXT) == 0 and pool.value(i, NEXT) & GONE]
    for link in (zombies[0], 1 << 20, GONE - 1):
        says(t, pool, (zombies[0], NEXT), word(0, link | GONE), "G6: zombie .* leads to no live chunk")


def test_of_the_pool(table):
    """G8, and what was not handed out; the counters beside it."""
    t, pool = table
    stats = {name: int(number) for name, number in t.stats().items()}
    assert pool.counters.tolist() == [stats["levels"] - 1, stats["pool_taken"]]
    with changed(pool.counters, 0, 30), pytest.raises(gh.Corrupt, match="the top level is 30 of"):
        t.check()
    with changed(pool.counters, 1, stats["pool_taken"] - 1), pytest.raises(gh.Corrupt, match="invariant is broken"):
        t.check()
    for at in (0, 3, LOCK):
        says(t, pool, (len(pool.chunks) - 1, at), EMPTY - 1, "was not handed out and is not empty")
    says(t, pool, (stats["pool_taken"], 5), 0, f"chunk {stats['pool_taken']} was not handed out and is not empty")


def test_of_a_chunk_that_nobody_leads_to(memory):
    """G8. Without names above, nothing else says that a chunk is missing."""
    known = {"key_dtype": "u4", "value_dtype": "u4", "device": "cpu", "capacity": 2000, "memory": memory}
    with gh.Table("skiplist", chunk=CHUNK, p_chunk=0, build="never", **known) as t:
        t.insert(KEYS, 1)
        t.check()
        pool = Pool(memory)
        first, second, third, *_ = pool.level(0)
        skipped = word(pool.key(second, NEXT), third)
        says(t, pool, (first, NEXT), skipped, "G8: .* chunks were handed out, .* are on levels")
