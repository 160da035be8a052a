"""Rebuilds of linear_probe where paths are short, and where the new table is a small part of the old one."""

from __future__ import annotations

import numpy as np
import pytest

import pygpuhash as gh


def keys_with_hashes(hashes, seed):
    """Keys of 4 bytes by the hash that they have in a table of this seed: hash/hash.hpp, backwards."""
    k = hashes.astype(np.uint32)
    k = k ^ k >> np.uint32(16)
    k = k * np.uint32(pow(0xC2B2AE35, -1, 1 << 32))
    k = k ^ k >> np.uint32(13) ^ k >> np.uint32(26)
    k = k * np.uint32(pow(0x85EBCA6B, -1, 1 << 32))
    return (k ^ k >> np.uint32(16)) ^ np.uint32(seed)


ROW, LINE = 8, 16  # slots of 8 bytes: a home every 8, and a path begins where a line of 128 bytes does
SHORT = {"key_dtype": "u4", "value_dtype": "u4", "device": "cpu", "threads": 1, "seed": 5, "row": ROW}


def groups_of(capacity, **options):
    with gh.Table("linear_probe", capacity=capacity, **SHORT, **options) as t:
        return t.info["slots"] // ROW


def hashes_of(n, wanted):
    """So many consecutive ones, with homes as `wanted` says: a function of the group, for each number of groups."""
    step = 1 << 12
    for h in range(0, 1 << 32, step):
        ends = {g: (h * g >> 32, (h + n) * g >> 32) for g in wanted}
        if all(a == b and wanted[g](a) for g, (a, b) in ends.items()):
            return np.arange(h, h + n, dtype=np.uint64)
    raise AssertionError("no home is like that")


def even(group):
    return group % 2 == 0


def odd(group):
    return group % 2 == 1


def test_a_rebuild_tries_larger_and_larger_ones():
    """Keys of one home that begins a line, as many as its path is long. In the next two sizes it does not begin one."""
    n, limit, capacity = 124, 128, 2_000
    sizes = [groups_of(c, probe_limit=limit) for c in (capacity, 4_000, 8_000, 16_000)]
    keys = keys_with_hashes(hashes_of(n, dict(zip(sizes, (even, odd, odd, even), strict=True))), 5)
    with gh.Table("linear_probe", capacity=capacity, probe_limit=limit, **SHORT) as t:
        assert t.insert(keys, keys).all()
        assert t.info["slots"] == sizes[0] * ROW
        t.reserve(4_000)
        assert t.info["slots"] == sizes[3] * ROW
        assert (t.find(keys)[0] == keys).all()
        t.check()


@pytest.mark.parametrize("threads", [1, 2])
def test_a_rebuild_puts_no_key_where_no_find_looks(threads):
    """Keys of the last home run over the end of a smaller table, whose first slots are taken, beyond its path."""
    limit = 4096 + 256  # slots; with fewer a rebuild goes another way
    taken, large = 2048, 20_000
    of_home = (
        limit - 4 - taken
    )  # in the smaller table a path of this home is 8 slots shorter, in the larger one it is not
    small = groups_of(taken + of_home, probe_limit=limit)
    groups = groups_of(large, probe_limit=limit)
    last = {groups: even, small: lambda group: odd(group) and group == small - 1}
    first = np.concatenate([((g << 32) // small + (1 << 20) + np.arange(ROW)) for g in range(taken // ROW)])
    keys = keys_with_hashes(np.concatenate([hashes_of(of_home, last), first.astype(np.uint64)]), 5)
    with gh.Table("linear_probe", capacity=large, probe_limit=limit, **{**SHORT, "threads": threads}) as t:
        assert t.insert(keys, keys).all()
        assert t.info["slots"] == groups * ROW
        t.shrink()
        assert t.info["slots"] < groups * ROW
        t.check()
        assert (t.find(keys)[0] == keys).all()


def test_more_runs_over_a_piece_than_is_kept():
    """Keys of the last home of the first of four pieces, more than 4096 of which run over its end."""
    n, capacity, large, limit = 4096 + 500, 20_000, 300_000, 16_384
    groups = groups_of(large, probe_limit=limit)
    keys = keys_with_hashes(hashes_of(n, {groups: lambda group: group == -(-groups // 4) - 1}), 5)
    assert groups * ROW >= 1 << 18  # a smaller table is one piece
    with gh.Table("linear_probe", capacity=capacity, probe_limit=limit, **SHORT) as t:
        assert t.insert(keys, keys).all()
        t.reserve(large)
        t.check()
        assert len(t) == n
        assert (t.find(keys)[0] == keys).all()


@pytest.mark.parametrize("row", [1, 4, 16])
@pytest.mark.parametrize("factor", [60, 250, 300, 2100, 4200])
@pytest.mark.parametrize("dtypes", [("uint32", None), ("uint64", "uint64")], ids=["set32", "pair64"])
def test_shrinks_to_a_small_part(dtypes, factor, row):
    """A window of the new table belongs to many slots of the old one, also to more than are read at a time."""
    keys = np.arange(6000, dtype=dtypes[0])
    values = None if dtypes[1] is None else keys.astype(dtypes[1])
    with gh.Table(
        "linear_probe", key_dtype=dtypes[0], value_dtype=dtypes[1], device="cpu", capacity=len(keys) * factor, row=row
    ) as t:
        t.insert(keys) if values is None else t.insert(keys, values)
        t.shrink()
        assert t.capacity < 2 * len(keys)
        t.check()
        assert len(t) == len(keys)
        assert t.contains(keys).all()
        if values is not None:
            assert np.array_equal(t.find(keys)[0], values)
