"""Chunks of the pool: when they are merged, what a pool keeps that is fuller than it promises, what is given back."""

from __future__ import annotations

import math

import numpy as np
import pytest

import pygpuhash as gh

KNOWN = {"key_dtype": "u4", "value_dtype": "u4", "device": "cpu", "threads": 1}


@pytest.mark.parametrize("chunk", [8, 16, 32])
@pytest.mark.parametrize("merge", [0, 0.2, 1 / 3, 0.5])
def test_the_chunk_that_is_merged(merge, chunk):
    """The first one that is less full than that share; and one without entries at any. Its neighbour's have to fit."""
    entries = chunk - 2
    below = max(1, math.ceil(merge * entries))
    for beside in (1, entries - below + 1, min(entries, entries - below + 2)):
        with gh.Table("skiplist", chunk=chunk, merge=merge, build="never", **KNOWN) as t:
            t.insert(np.arange(entries + beside, dtype="u4"), 1)  # a full chunk, and those
            assert t.stats()["chunks"] == 2
            left = entries
            while left and t.stats()["zombies"] == 0:
                t.erase(np.uint32(entries - left))
                left -= 1
            fits = min(below - 1, entries - beside)
            assert (left, t.stats()["zombies"]) == (fits, 1)
            assert t.stats()["chunks"] == 1
            t.check()


@pytest.mark.parametrize("way", ["flush", "shrink"])
def test_a_pool_that_holds_more_than_it_promises(way):
    """Keys in ascending order fill chunks to the brim."""
    keys = np.arange(40_000, dtype="u4")
    with gh.Table("skiplist", grow=False, capacity=3000, build="never", **KNOWN) as t:
        with pytest.raises(gh.TableFull):
            t.insert(keys, keys)
        there = t.keys()
        assert len(there) > 1.5 * t.capacity
        getattr(t, way)()
        t.check()
        assert np.array_equal(t.keys(), there)
        assert np.array_equal(t.values(), there)


def test_a_pool_in_many_steps():
    """It has 24 segments at most: where they run out, one takes the place of all."""
    with gh.Table("skiplist", **KNOWN) as t:
        t.insert(np.arange(50, dtype="u4"), 1)
        segments = []
        for _ in range(80):
            t.reserve(t.capacity + 1)
            segments.append(t.stats()["segments"])
        assert max(segments) > segments[-1] > 1
        t.check()
        assert t.keys().tolist() == list(range(50))


def test_shrink_gives_back_what_few_keys_less_need():
    keys = np.random.default_rng(1).permutation(30_000).astype("u4")
    with gh.Table("skiplist", capacity=30_000, **KNOWN) as t:
        t.insert(keys[:25_000], 1)
        before = t.stats()
        t.shrink()
        after = t.stats()
        assert after["pool_chunks"] < 0.9 * before["pool_chunks"]
        assert after["bytes"] < 0.9 * before["bytes"]
        t.shrink()
        assert t.stats()["rebuilds"] == after["rebuilds"]  # there is nothing to give back
        t.check()


@pytest.mark.parametrize(("first", "count"), [(0, 5), (1, 1), (2**64 - 1, 0)])
def test_there_are_no_buckets_to_flush(first, count):
    with gh.Table("skiplist", **KNOWN) as t:
        with pytest.raises(gh.Unsupported, match="a skiplist is flushed as a whole"):
            t.flush(first, count)
        assert t.stats()["rebuilds"] == 0


@pytest.mark.usual_sizes("how often a table is rebuilt depends on the length of its pieces")
def test_rebuilds_are_counted():
    """A batch that is built into a table that has room for it is none."""
    keys = np.random.default_rng(2).permutation(50_000).astype("u4")
    for batch in (keys, np.sort(keys)):
        for capacity, rebuilds in ((0, 1), (len(keys), 0)):
            with gh.Table("skiplist", build="always", capacity=capacity, **KNOWN) as t:
                t.insert(batch, batch)
                assert t.info["rebuilds"] == rebuilds
                t.flush()
                assert t.info["rebuilds"] == rebuilds + 1


@pytest.mark.parametrize("ascending", [True, False])
@pytest.mark.parametrize("held", [[2**32 - 1], [2**32 - 2, 2**32 - 1]])
def test_a_batch_that_is_built_beside_the_keys_of_side_slots(held, ascending):
    """They are in no chunk, so that the batch meets chunks without a key."""
    batch = np.arange(1000, dtype="u4")
    with gh.Table("skiplist", build="always", **KNOWN) as t:
        t.insert(np.array(held, "u4"), 1)
        assert t.insert(batch if ascending else batch[::-1], 2).all()
        assert len(t) == 1000 + len(held)
        t.check()
        assert t.keys().tolist() == [*range(1000), *held]
        assert t.values().tolist() == [2] * 1000 + [1] * len(held)


@pytest.mark.parametrize("chunk", [8, 16, 32])
def test_figures_of_full_chunks(chunk):
    """Keys in ascending order, as many as fill one chunk of names, and one more."""
    entries = chunk - 2
    n = entries * entries
    with gh.Table("skiplist", chunk=chunk, build="never", capacity=2 * n, **KNOWN) as t:
        t.insert(np.arange(n, dtype="u4"), 1)
        before = t.stats()
        t.insert(np.uint32(n), 1)
        after = t.stats()
        heads = before["names"] - entries + 2  # a head names the one below it
        figures = ("levels", "chunks", "chunks_above", "names", "pool_taken", "zombies", "segments")
        assert [before[name] for name in figures] == [2, entries, 1, entries + heads - 2, heads + entries - 1, 0, 1]
        assert before["fill"] == 1
        above = entries + 1 + 2 + heads - 3
        assert [after[name] for name in figures] == [3, entries + 1, 3, above, heads + entries + 1, 0, 1]
        assert after["fill"] == (n + 1) / (entries * (entries + 1))
        assert np.flatnonzero(t.histogram(40)).tolist() == [1, entries]


@pytest.mark.parametrize("chunk", [8, 16, 32])
def test_more_chunks_than_a_table_can_have(chunk):
    with pytest.raises(gh.InvalidArgument, match=rf"^\d+ chunks of {chunk - 2} entries are more than a table can have"):
        gh.Table("skiplist", chunk=chunk, capacity=2**40, **KNOWN)


@pytest.mark.parametrize("held", [[2**32 - 2], [2**32 - 1], [2**32 - 2, 2**32 - 1]])
def test_limits_of_ranges_that_reach_the_keys_of_side_slots(held):
    keys = np.array([5, 6, 7, *held], "u4")
    with gh.Table("skiplist", **KNOWN) as t:
        t.insert(keys, ~keys)
        for low in (0, 6, 8, 2**32 - 2, 2**32 - 1):
            for high in (None, 2**32 - 2, 2**32 - 1):
                here = keys[(keys >= low) & (keys < (2**32 if high is None else high))]
                for limit in range(1, 7):
                    found, values, counts = t.range([low], None if high is None else [high], limit)
                    assert counts.tolist() == [min(limit, len(here))]
                    assert found[0, : counts[0]].tolist() == here[:limit].tolist()
                    assert values[0, : counts[0]].tolist() == (~here[:limit]).tolist()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"merge": 0.51}, "option merge=0.51: give a number from 0 to 0.5"),
        ({"merge": -0.1}, "option merge=-0.1: give a number from 0 to 0.5"),
        ({"p_chunk": 1.01}, "option p_chunk=1.01: give a number from 0 to 1"),
        ({"chunk": 64}, r"option chunk=64: choose one of auto\|8\|16\|32"),
        ({"build": "maybe"}, r"option build=maybe: choose one of auto\|always\|never"),
        ({"order": "other"}, r"option order=other: choose one of unsigned\|signed\|float"),
    ],
)
def test_bad_options_are_refused(options, words):
    with pytest.raises(gh.InvalidArgument, match=words):
        gh.Table("skiplist", **options, **KNOWN)


def test_ascending_keys_beside_those_of_side_slots():
    top = 2**32 - 1
    with gh.Table("skiplist", **KNOWN) as t:
        t.insert(np.array([top, top - 1], "u4"), 1)
        t.insert(np.arange(10_000, dtype="u4"), 1)
        assert len(t) == 10_002
        t.check()
        assert t.export()[0].tolist() == [*range(10_000), top - 1, top]
