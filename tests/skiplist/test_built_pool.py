"""Chunks behind those that a build writes are empty, whatever was in their memory: splits take them as they are."""

import numpy as np
import pytest

import pygpuhash as gh


class Dirty:
    """Memory in which something is."""

    def __init__(self):
        self.held = {}

    def allocate(self, nbytes, alignment, stream):
        array = np.full(nbytes + alignment, 0x2A, np.uint8)
        address = -(-array.ctypes.data // alignment) * alignment
        self.held[address] = array
        return address

    def deallocate(self, address, nbytes, alignment, stream):
        del self.held[address]


@pytest.mark.parametrize("chunk", [8, 16, 32])
@pytest.mark.parametrize("n", [1, 5, 6, 14, 30, 31, 170, 4000, 20_000])
@pytest.mark.parametrize(
    "way", ["key by key", "flush", "shrink", "ascending", "random", "in place", "ascending in place"]
)
def test_chunks_that_were_not_handed_out_are_empty(way, n, chunk):
    rng = np.random.default_rng(n + chunk)
    keys = np.sort(rng.choice(2**20, n, replace=False).astype("u8"))
    other = np.setdiff1d(rng.choice(2**20, 2 * n, replace=False).astype("u8"), keys)
    build = "never" if way in ("key by key", "flush", "shrink") else "always"
    room = 4 * n if way.endswith("in place") else 0
    known = {"value_dtype": "u8", "device": "cpu", "chunk": chunk, "memory": Dirty(), "threads": 1}
    with gh.Table("skiplist", build=build, capacity=room, **known) as t:
        if way.endswith("in place"):  # over more chunks than are built
            t.insert(other, other)
            t.erase(other)
        rebuilds = t.info["rebuilds"]
        some = keys if way.startswith("ascending") else rng.permutation(keys)
        t.insert(some, some)
        if way in ("flush", "shrink"):
            getattr(t, way)()
        if way.endswith("in place"):
            assert t.info["rebuilds"] == rebuilds
        t.check()
        assert t.keys().tolist() == keys.tolist()
        assert t.values().tolist() == keys.tolist()
        some = rng.permutation(other)
        for part in np.array_split(some, 1 + n // 50):
            t.insert(part, part)
        t.check()
        assert t.keys().tolist() == sorted({*keys.tolist(), *other.tolist()})


def test_a_batch_that_only_seems_to_ascend_leaves_no_chunk_behind():
    """What a look at some of its keys does not see: nearly all others are one key, which takes far fewer chunks."""
    n = 6400
    keys = np.full(n, 7, "u8")
    keys[::101] = np.arange(n)[::101]
    with gh.Table("skiplist", value_dtype=None, build="always", capacity=n, device="cpu", threads=1) as t:
        t.insert(keys)
        t.check()
        for part in np.array_split(np.random.default_rng(1).permutation(np.arange(n, 4 * n)), 50):
            t.insert(part)
        t.check()
        assert t.keys().tolist() == [*np.unique(keys), *range(n, 4 * n)]


def test_a_batch_that_ascends_in_pieces_only_is_sorted():
    """Threads write pieces of whole chunks of names, 13 of 13 keys each: somewhere one piece ends above the next."""
    n = 60 * 169
    for end in range(169, n, 169):
        keys = 2 * np.arange(n, dtype="u8")
        keys[end - 1] += np.uint64(3)
        with gh.Table("skiplist", value_dtype=None, build="always", capacity=n, device="cpu", threads=2) as t:
            assert t.insert(keys).all()
            assert t.contains(keys).all()
            t.check()
