"""hive near the end of its room: loads that it has to reach, keys that all collide, dead slots, stashes of any size."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

import pygpuhash as gh

KEYS = np.random.default_rng(5).permutation(1 << 20).astype(np.uint32)


def table(n: int, **options: object) -> gh.Table:
    known = {"key_dtype": "uint32", "value_dtype": "uint32", "device": "cpu", "grow": False, "seed": 7}
    return gh.Table("hive", capacity=n, **(known | options))


def fill(t: gh.Table, keys: np.ndarray) -> np.ndarray:
    """Which of these keys found room."""
    status = np.zeros(len(keys), np.uint8)
    try:
        t.insert(keys, keys)
        return np.ones(len(keys), bool)
    except gh.TableFull:
        del status
        return t.find(keys)[1]


@pytest.mark.usual_sizes("the load that is reached depends on the length of searches")
@pytest.mark.parametrize(("bucket", "ways", "load"), [(8, 2, 0.95), (8, 3, 0.97), (16, 2, 0.97), (32, 2, 0.97)])
def test_load_without_a_stash(bucket: int, ways: int, load: float) -> None:
    with table(100_000, bucket=bucket, ways=ways, stash=0, max_load_factor=load) as t:
        assert fill(t, KEYS[:100_000]).all()
        assert t.stats()["stash_slots"] == 0
        assert 0.01 < t.stats()["outside"] < 0.5
        values, found = t.find(KEYS[:100_000])
        assert found.all()
        assert (values == KEYS[:100_000]).all()
        assert not t.find(KEYS[200_000:300_000])[1].any()
        t.check()


def test_overfull_table_keeps_what_it_took() -> None:
    """More keys than slots: those that found no room say so, and all others are there."""
    with table(20_000, max_load_factor=1.0) as t:
        keys = KEYS[:30_000]
        there = fill(t, keys)
        slots = t.stats()["slots"]
        assert 0.97 * slots < there.sum() <= slots
        assert t.stats()["stashed"] > 0
        assert len(t) == there.sum()
        t.check()
        assert t.erase(keys[there][:5000]).all()
        assert len(t) == there.sum() - 5000
        absent = keys[~there][:3000]
        again = fill(t, absent)  # dead slots take other keys
        assert again.mean() > 0.5
        t.check()


@pytest.mark.usual_sizes("the load that is reached depends on the length of searches")
@pytest.mark.parametrize("claim", ["swap", "commit"])
def test_loads_by_the_steps_that_an_insert_may_use(claim: str) -> None:
    """Without evictions and stash a key has its two buckets; each of them lets it go further, and nothing is lost."""
    held = {}
    for evictions in (0, 1, 8):
        for stash in (0, 1 / 64):
            with table(100_000, max_load_factor=1.0, evictions=evictions, stash=stash, claim=claim) as t:
                for part in np.array_split(KEYS[:100_000], 1000):  # to the first one that does not fit
                    if not fill(t, part).all():
                        break
                stats = t.stats()
                held[evictions, stash > 0] = len(t) / (stats["buckets"] * stats["bucket"])
                keys, values = t.export()
                assert (keys == values).all()
                assert np.isin(keys, KEYS[:100_000]).all()
                assert t.find(keys)[1].all()
                assert (stats["stashed"] > 0) == (stash > 0)
                t.check()
    assert held[0, False] < 0.6 < 0.7 < held[0, True] < 0.82 < held[1, False] < 0.9 < held[8, False], held
    assert held[0, True] < held[1, True] <= held[8, True], held


def test_a_table_grows_without_evictions() -> None:
    """Elements without room are tried again after growth, at whatever load they come."""
    for options in ({"evictions": 0}, {"evictions": 0, "stash": 0}, {"evictions": 0, "stash": 0, "claim": "commit"}):
        with table(64, grow=True, **options) as t:
            for part in np.array_split(KEYS[:400_000], 40):
                assert t.insert(part, part).all()
            t.check()
            values, found = t.find(KEYS[:400_000])
            assert found.all()
            assert (values == KEYS[:400_000]).all()
            assert not t.contains(KEYS[400_000:500_000]).any()
            assert t.erase(KEYS[:390_000]).all()
            t.shrink()
            t.check()
            assert t.contains(KEYS[390_000:400_000]).all()


@pytest.mark.parametrize("evictions", [1, 2, 8])
def test_an_insert_uses_no_more_than_one_slot(evictions: int) -> None:
    """An eviction makes a slot vacant for a key that takes it, and for no other reason."""
    with table(2000, max_load_factor=1.0, threads=1, evictions=evictions) as t:
        before = 0
        for key in KEYS[:2100]:
            there = fill(t, np.array([key]))
            used = t.info["used"]
            assert used - before <= 1
            assert there[0] or used == before
            before = used
        assert t.stats()["dead"] == 0
        t.check()


def hashes_of(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The hashes of the first and the second bucket in a table with seed 3."""
    homes, others = keys ^ np.uint32(3), keys.copy()
    for k, shifts, factors in (
        (homes, (16, 13, 16), (0x85EBCA6B, 0xC2B2AE35)),
        (others, (16, 15, 16), (0x7FEB352D, 0x846CA68B)),
    ):
        for shift, factor in zip(shifts, (*factors, 1), strict=True):
            k ^= k >> np.uint32(shift)
            k *= np.uint32(factor)
    return homes, others


def colliding(keys: np.ndarray, buckets: int) -> np.ndarray:
    """Those of these keys that have bucket 3 and bucket 5, in a table of one segment with seed 3."""
    home, other = (h.astype(np.uint64) * np.uint64(buckets) >> np.uint64(32) for h in hashes_of(keys))
    return keys[(home == 3) & (other == 5) | (home == 5) & (other == 3)]


@pytest.mark.parametrize("options", [{}, {"evictions": 64}, {"evictions": 0}, {"stash": 0}, {"claim": "commit"}])
def test_keys_that_all_collide_are_bounded(options: dict) -> None:
    """Keys of two buckets and no others: as many as these and the stash hold, then FULL; the statistics say so."""
    with table(500, seed=3, max_load_factor=0.9, **({"stash": 0.25} | options)) as t:
        empty = t.stats()
        keys = colliding(np.arange(1, 1 << 22, dtype=np.uint32), int(empty["buckets"]))
        assert len(keys) > 1000
        there = fill(t, keys)
        stats = t.stats()
        assert stats["stashed"] == stats["stash_slots"] == (0 if options.get("stash") == 0 else 192)
        assert there.sum() == len(t) == 16 + stats["stashed"]
        assert stats["full_buckets"] == pytest.approx(2 / stats["buckets"])
        assert stats["outside"] >= stats["stashed"] / len(t)
        found, values = t.find(keys[there])[1], t.find(keys[there])[0]
        assert found.all()
        assert (values == keys[there]).all()
        t.check()
        assert t.erase(keys[there]).all()
        assert fill(t, keys[~there][:16]).all(), "dead slots take other keys"
        t.check()


def test_keys_that_all_collide_in_a_table_that_grows() -> None:
    """It grows until they do not, and no further than a few times."""
    with table(500, seed=3, grow=True) as t:
        keys = colliding(np.arange(1, 1 << 22, dtype=np.uint32), int(t.stats()["buckets"]))
        for part in np.array_split(keys, 50):
            assert t.insert(part, part).all()
        assert t.find(keys)[1].all()
        assert t.stats()["slots"] < 64 * len(keys)
        t.check()


def test_ageing_at_a_high_load() -> None:
    """Rounds of erasing and inserting others: dead slots are taken again, and nothing is lost or doubled."""
    rng = np.random.default_rng(3)
    n = 20_000
    with table(n, max_load_factor=0.9) as t:
        there = set(KEYS[:n].tolist())
        assert fill(t, KEYS[:n]).all()
        for _ in range(30):
            old = rng.choice(np.fromiter(there, np.uint32, len(there)), 1000, replace=False)
            assert t.erase(old).all()
            there -= set(old.tolist())
            fresh = rng.choice(KEYS[n:], 1000, replace=False)
            before = np.fromiter((k in there for k in fresh.tolist()), bool, len(fresh))
            found = fill(t, fresh)
            there |= set(fresh[found].tolist())
            assert found.mean() > 0.95
            assert found[before].all()
        keys = np.fromiter(there, np.uint32, len(there))
        assert t.find(keys)[1].all()
        assert len(t) == len(there)
        t.check()


def test_sets_and_wide_pairs_at_a_high_load() -> None:
    for key, value in [("uint32", None), ("uint64", None), ("uint64", "uint64"), ("uint32", "uint64")]:
        with table(30_000, key_dtype=key, value_dtype=value, max_load_factor=0.95) as t:
            keys = KEYS[:30_000].astype(key)
            assert (t.insert(keys, keys) if value else t.insert(keys)).all()
            assert t.erase(keys[::3]).all()
            assert (keys[::3].size + len(t)) == 30_000
            assert not t.find(keys[::3])[1].any() if value else not t.contains(keys[::3]).any()
            t.check()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"bucket": 12}, "option bucket=12"),
        ({"ways": 4}, "option ways=4"),
        ({"stash": 0.5}, "option stash=0.5"),
        ({"segment": "half"}, "option segment=half"),
        ({"evictions": 65}, "option evictions=65: give a whole number from 0 to 64"),
        ({"evictions": -1}, "option evictions=-1: give a whole number"),
        ({"evictions": "some"}, "option evictions=some"),
        ({"claim": "mask"}, "option claim=mask: choose one of swap|commit"),
    ],
)
def test_bad_options_are_refused(options: dict, words: str) -> None:
    with pytest.raises(gh.InvalidArgument, match=words):
        table(100, **options)


@pytest.mark.parametrize("key", ["u4", "u8"])
def test_a_rebuild_that_finds_no_room_for_all_takes_more(key: str) -> None:
    """Without a stash and evictions not every order in which keys come fits into a full table again."""
    keys = np.random.default_rng(3).permutation(40_000).astype(key)
    full = {"stash": 0, "evictions": 0, "max_load_factor": 1.0, "grow": False, "seed": 2, "threads": 1}
    with gh.Table("hive", capacity=8000, key_dtype=key, value_dtype="u4", device="cpu", **full) as t:
        for part in np.array_split(keys, 40):
            with contextlib.suppress(gh.TableFull):
                t.insert(part, part)
        there, slots = t.contains(keys), t.info["slots"]
        assert there.sum() == len(t) > 0.95 * slots
        t.flush()
        assert t.info["slots"] > 1.5 * slots
        assert np.array_equal(t.contains(keys), there)
        assert (t[keys[there]] == keys[there]).all()
        t.check()


@pytest.mark.usual_sizes("the load that is reached depends on the length of searches")
def test_a_stash_that_is_too_small_for_what_is_in_it_stays_as_it_was() -> None:
    """Shrinking to fewer segments wants a smaller stash, and keys whose buckets are all full have no other place."""
    with table(200_000, seed=3, grow=True, contract=0) as t:
        stats = t.stats()
        base, per_segment = (np.uint64(n) for n in (stats["segments"], stats["buckets"] / stats["segments"]))
        small = stats["stash_slots"]
        t.reserve(800_000)
        assert t.stats()["segments"] == 4 * base
        # Keys of 320 buckets of the first segment, however many there are, and of no others.
        keys = np.arange(1, 1 << 24, dtype=np.uint32)
        homes, others = (h.astype(np.uint64) for h in hashes_of(keys))
        first = homes * base >> np.uint64(32) == 0
        place = (homes * base & np.uint64(0xFFFFFFFF)) * per_segment >> np.uint64(32)
        near = (homes % np.uint64(4) == 0) & (place < 320) & (others * per_segment >> np.uint64(32) < 320)
        close = keys[first & near]
        keys = np.concatenate([keys[~first][:185_000], close])
        assert t.insert(keys, keys).all()
        stats = t.stats()
        assert 2.1 * small < len(close) - 320 * 8 == stats["stashed"] < stats["stash_slots"]
        t.shrink()
        assert t.stats()["segments"] < 2.1 * base, "all but the first could be merged"
        assert t.stats()["stash_slots"] == stats["stash_slots"]
        assert t.stats()["stashed"] == stats["stashed"]
        t.check()
        values, found = t.find(keys)
        assert found.all()
        assert (values == keys).all()
        # When they have gone it is as small as it should be.
        assert t.erase(close).all()
        t.shrink()
        assert t.stats()["segments"] == base
        assert t.stats()["stash_slots"] == small
        t.check()
