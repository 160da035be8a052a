"""What a table says of itself agrees: stats(), histogram(), info and properties, and what was put into it."""

from __future__ import annotations

import numpy as np
import pytest

import pygpuhash as gh

N = 6000
LAST = 2**32 - 1  # it and the one below have slots of their own
KEYS = np.append(np.random.default_rng(1).choice(LAST - 1, N, replace=False), [LAST - 1, LAST]).astype("u4")
GONE = KEYS[: N // 7]

SHAPES = [
    ("linear_probe", {}),
    ("linear_probe", {"row": 1, "max_load_factor": 0.95}),
    ("hive", {}),
    ("hive", {"ways": 3, "stash": 0.1, "evictions": 0, "max_load_factor": 0.95}),
    ("slab_hash", {}),
    ("slab_hash", {"buckets": 60}),
    ("skiplist", {}),
    ("skiplist", {"chunk": 32, "merge": 0}),
    ("stadium", {}),
    ("stadium", {"ticket": 4, "max_load_factor": 0.95}),
]


def close(*numbers):
    assert np.allclose(numbers, numbers[0], rtol=1e-12), numbers


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("value", ["u4", None])
def test_figures_agree(shape, value):
    structure, options = shape
    with gh.Table(structure, key_dtype="u4", value_dtype=value, capacity=N + 2, device="cpu", seed=3, **options) as t:
        t.insert(KEYS, *([KEYS] if value else []))
        t.erase(GONE)
        stats, info = t.stats(), t.info
        live = len(KEYS) - len(GONE)
        in_slots = live if structure == "stadium" else live - 2
        assert len(t) == t.size == info["size"] == stats["size"] == live
        assert info["used"] == stats["used"] >= in_slots
        assert info["slots"] == stats["slots"]
        assert t.nbytes == info["bytes"] == stats["bytes"]
        assert info["rebuilds"] == stats["rebuilds"] == 0
        assert stats["failed"] == 0
        close(stats["load_factor"], info["used"] / info["slots"])
        close(t.load_factor, live / info["slots"])
        counts = t.histogram(1000)
        assert counts[-1] == 0
        {
            "linear_probe": probes,
            "stadium": probes,
            "hive": ways,
            "slab_hash": chains,
            "skiplist": chunks,
        }[structure](stats, counts, np.arange(1000) @ counts, in_slots)
        assert t.histogram(3).tolist() == [*counts[:2], counts[2:].sum()]


@pytest.mark.parametrize("structure", ["linear_probe", "hive", "stadium"])
@pytest.mark.parametrize("threads", [1, 2])
def test_few_keys_are_at_home(structure, threads):
    with gh.Table(structure, key_dtype="u4", device="cpu", capacity=200_000, seed=3, threads=threads) as t:
        t.insert(KEYS[:5], 1)
        assert t.histogram(9).tolist() == [5, 0, 0, 0, 0, 0, 0, 0, 0]
        assert all(t.stats().get(name, 0) == 0 for name in ("probe_mean", "probe_max", "outside", "stashed"))


def probes(stats, counts, weighted, live):
    """Keys by their distance from home."""
    assert counts.sum() == live
    close(stats["probe_mean"], weighted / live)
    assert stats["probe_max"] == np.flatnonzero(counts)[-1] > 0


def ways(stats, counts, weighted, live):
    """Keys by the number of their bucket, and then those of the stash."""
    assert counts.sum() == live
    close(stats["outside"], counts[1:].sum() / live)
    assert stats["stashed"] == (counts[3] or counts[2])
    assert counts[4:].sum() == 0
    assert counts[0] > counts[1] > 0
    assert stats["dead"] == stats["used"] - live
    assert stats["slots"] == stats["buckets"] * stats["bucket"] + stats["stash_slots"]
    assert 0 < stats["filter_bits"] < stats["full_buckets"] < 1


def chains(stats, counts, weighted, live):
    """Buckets by their slabs. The two keys that have slots of their own lie in chains beside them."""
    buckets, slots = stats["buckets"], stats["slab_slots"]
    assert counts.sum() == buckets
    assert counts[0] == 0
    assert stats["slabs"] == weighted == buckets + stats["heap_taken"]
    assert stats["chain_max"] == np.flatnonzero(counts)[-1] > 1
    close(stats["beta"], (live + 2) / (slots * buckets))
    close(stats["utilization"], (live + 2) / ((slots + 1) * weighted))
    assert stats["slots"] == (buckets + 2 + stats["heap_units"]) * slots  # two chains are those of the side keys


def chunks(stats, counts, weighted, live):
    """Chunks by their entries."""
    assert counts.sum() == stats["chunks"]
    assert stats["used"] == weighted == live
    close(stats["fill"], live / (stats["chunks"] * stats["chunk_entries"]))
    assert np.flatnonzero(counts)[-1] <= stats["chunk_entries"]
    assert stats["chunks"] + stats["chunks_above"] + stats["zombies"] <= stats["pool_taken"] <= stats["pool_chunks"]
    assert stats["names"] >= stats["chunks"] - 1
