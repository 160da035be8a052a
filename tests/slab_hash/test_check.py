"""check() tells which invariant of the chains and of the heap is broken (plugins/slab_hash/layout.hpp)."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

import pygpuhash as gh

KEYS = np.arange(1, 101, dtype="u4") * np.uint32(77_777)
LINK = 15  # the last word of a slab of 128 bytes
UNITS = 1024  # of a memory block of the heap


@pytest.fixture
def chains(memory):
    """A table of two chains; the slabs of its buckets and of its heap, the heap's bitmaps, the tails."""
    known = {"key_dtype": "u4", "value_dtype": "u4", "device": "cpu", "threads": 1, "memory": memory, "seed": 3}
    with gh.Table("slab_hash", buckets=2, duplicates=1, capacity=100, **known) as t:
        t.insert_multi(KEYS, KEYS)
        t.check()
        base = next(b for b in memory.blocks.values() if len(b) == 4 * (128 + 4))
        heap = max(memory.blocks.values(), key=len)
        blocks = len(heap) // (UNITS * 128)
        units, rest = np.split(heap[:-128], [blocks * UNITS * 128])
        yield t, base[:512].view("u8").reshape(4, 16), units.view("u8").reshape(-1, 16), rest, base[512:].view("u4")


@contextlib.contextmanager
def changed(array, at, now):
    before = array[at].copy()
    array[at] = now
    yield
    array[at] = before


def refuses(t, what):
    with pytest.raises(gh.Corrupt, match=what):
        t.check()


def handles(base):
    """The first slab of the heap on each chain."""
    return base[:2, LINK] & np.uint64(0xFFFFFFFF)


def test_links(chains):
    t, base, units, _, _ = chains
    first = int(handles(base)[0])
    for handle in (first, 254 << 24):
        with changed(units, (first, LINK), np.uint64(0xFFFFFFFF << 32 | handle)):
            refuses(t, "bucket 0 breaks an invariant: a link leads nowhere, or in a circle")
    with changed(base, (0, 7), np.uint64((1 << 64) - 1)):
        refuses(t, "bucket 0 breaks an invariant: a key follows an empty slot")


def test_units_of_the_heap(chains):
    t, base, _, bitmaps, _ = chains
    taken = np.unpackbits(bitmaps, bitorder="little")
    first, free = int(handles(base)[1]), int(np.flatnonzero(taken == 0)[0])
    with changed(bitmaps, first // 8, bitmaps[first // 8] ^ (1 << first % 8)):
        refuses(t, "bucket 1 breaks an invariant: a linked slab is not taken")
    n = taken.sum()
    with changed(bitmaps, free // 8, bitmaps[free // 8] | 1 << free % 8):
        refuses(t, f"{n + 1} slabs are taken and {n} are on chains")


def test_tails(chains):
    t, base, _, _, tails = chains
    other = handles(base)[1]
    with changed(tails, 0, other.astype("u4")):
        refuses(t, "bucket 0 breaks an invariant: its tail is a slab of another chain")
    t.check()
