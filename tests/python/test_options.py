"""Options of the structures do what they say: a table with one differs from one without it, by what it is for."""

from __future__ import annotations

import numpy as np
import pytest

import pygpuhash as gh

N = 20_000
KEYS = np.random.default_rng(1).choice(1 << 31, N, replace=False).astype("u4")
MORE = np.append(KEYS, np.arange(1 << 31, (1 << 31) + N, dtype="u4"))


def table(structure, **options):
    known = {"key_dtype": "u4", "value_dtype": "u4", "capacity": N, "device": "cpu", "seed": 3, "threads": 1}
    return gh.Table(structure, **(known | options))


def held(structure, **options):
    """How many keys find room in a table for N that is filled as far as it goes, in small batches."""
    with table(structure, grow=False, max_load_factor=1.0, **options) as t:
        for part in np.array_split(MORE, 200):
            try:
                t.insert(part, part)
            except gh.TableFull:
                break
        t.check()
        return len(t)


def after_inserts(structure, **options):
    with table(structure, **options) as t:
        for part in np.array_split(KEYS, 20):  # a skiplist is built of a large batch
            t.insert(part, part)
        t.check()
        return t.stats()


def after_erasing(structure, **options):
    with table(structure, **options) as t:
        for part in np.array_split(KEYS, 20):
            t.insert(part, part)
        t.erase(KEYS[N // 4 :])
        t.check()
        return t.stats()


STATED = [
    ("linear_probe", {"row": 4}, {"row": 4}),
    ("linear_probe", {"row": 16}, {"row": 16}),
    ("linear_probe", {"indexing": "mask"}, {"slots": 32768}),
    ("linear_probe", {"probe_limit": 4096}, {"probe_limit": 4096}),
    ("hive", {"bucket": 32}, {"bucket": 32}),
    ("hive", {"stash": 0}, {"stash_slots": 0}),
    ("hive", {"segment": "whole"}, {"segments": 1}),
    ("slab_hash", {"buckets": 777}, {"buckets": 777}),
    ("slab_hash", {"slab_bytes": 256}, {"slab_slots": 31}),
    ("skiplist", {"chunk": 32}, {"chunk_entries": 30}),
    ("stadium", {"ticket": 4}, {"ticket_bits": 4}),
    ("stadium", {"line": 2}, {"line_groups": 2}),
    ("stadium", {"line": 1, "probe_limit": 100}, {"probe_limit": 100}),
    ("stadium", {"line": 8, "probe_limit": 100}, {"probe_limit": 104}),  # whole lines
]


@pytest.mark.parametrize(("structure", "option", "stated"), STATED, ids=str)
def test_what_a_table_says_of_its_options(structure, option, stated):
    size = {"capacity": 500_000} if "segment" in option else {}
    with table(structure, **size, **option) as t:
        stats = t.stats()
        assert {name: stats[name] for name in stated} == stated
    with table(structure, **size) as t:
        stats = t.stats()
        assert {name: stats[name] for name in stated} != stated


@pytest.mark.parametrize(
    ("structure", "options", "load"),
    [
        ("linear_probe", {}, 0.8),
        ("stadium", {}, 0.8),
        ("slab_hash", {}, 1),
        ("skiplist", {}, 1),
        ("hive", {}, 0.9),
        ("hive", {"stash": 0}, 0.9),
        ("hive", {"evictions": 7}, 0.9),
        ("hive", {"evictions": 7, "stash": 0.015}, 0.75),
        ("hive", {"evictions": 8, "stash": 0}, 0.9),
        ("hive", {"evictions": 0}, 0.7),
        ("hive", {"evictions": 0, "stash": 0.015}, 0.25),
        ("hive", {"evictions": 0, "max_load_factor": 0.5}, 0.5),
    ],
    ids=str,
)
def test_how_full_a_table_may_be(structure, options, load):
    """Unless the caller sets it, as full as it becomes without trouble (README.md of the structures)."""
    with table(structure, **options) as t:
        assert t.info["max_load_factor"] == load


def test_paths_end_at_the_limit():
    for structure, options, short, long in (
        ("linear_probe", {"row": 1}, 128, 1024),
        ("stadium", {}, 16, 60),
    ):
        few, some = (held(structure, probe_limit=limit, **options) for limit in (short, long))
        assert N / 3 < few < some < held(structure, **options)


def test_the_stash_of_hive_is_as_large_as_asked():
    for share in (1 / 64, 0.25):
        with table("hive", stash=share) as t:
            stats = t.stats()
            assert stats["stash_slots"] == pytest.approx(stats["buckets"] * 8 * share, abs=64)


def test_chunks_above_others_are_as_many_as_asked():
    """p_chunk is the chance of a new chunk to be named above."""
    names = {p: after_inserts("skiplist", build="never", p_chunk=p) for p in (0, 0.3, 1)}
    assert names[0]["levels"] == 1 < names[0.3]["levels"]
    assert names[0.3]["names"] / names[0.3]["chunks"] == pytest.approx(0.3, abs=0.05)
    assert names[1]["names"] >= names[1]["chunks"]


def test_chunks_are_merged_below_the_share_asked_for():
    fill = [after_erasing("skiplist", merge=share)["fill"] for share in (0, 0.25, 0.5)]
    assert fill[0] < 0.3 < fill[1] < fill[2]
    assert fill[2] > 0.6


def test_the_hash_of_the_source_takes_no_seed():
    def order(**options):
        with table("linear_probe", **options) as t:
            t.insert(KEYS, KEYS)
            return t.keys()

    assert (order(hash="blog", seed=1) == order(hash="blog", seed=2)).all()
    assert (order(seed=1) == order(seed=1)).all()
    assert (order(seed=1) != order(seed=2)).any()
    assert (order(seed=1) != order(hash="blog", seed=1)).any()


def test_options_that_only_reproduce_figures_say_so():
    """Of others a user may expect something: space, speed, or another promise."""
    expected = {
        "hive": ["claim", "segment", "hashes"],
        "linear_probe": ["hash", "indexing"],
        "skiplist": ["p_chunk"],
        "slab_hash": ["allocator", "hash", "tile"],
        "stadium": ["inserts", "hybrid_from"],
    }
    built_in = [row for row in gh.backends() if row.name in expected]  # others may have been opened by other tests
    assert expected == {
        row.name: [o.name for o in row.options if o.help.startswith("For reproduction. ")] for row in built_in
    }
