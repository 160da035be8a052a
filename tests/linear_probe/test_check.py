"""check() of a linear_probe names the invariant (layout.hpp) that its slots break."""

from __future__ import annotations

import numpy as np
import pytest

import pygpuhash as gh

KEYS = np.random.default_rng(1).choice(1 << 31, 3000, replace=False).astype("u4")


@pytest.fixture
def linear(memory):
    """A set of linear_probe with short paths, and its slots."""
    known = {"key_dtype": "u4", "value_dtype": None, "memory": memory, "device": "cpu", "threads": 1, "seed": 3}
    with gh.Table("linear_probe", capacity=len(KEYS), probe_limit=128, max_load_factor=0.8, **known) as t:
        t.insert(KEYS)
        t.check()
        yield t, next(b for b in memory.blocks.values() if len(b) == 4 * t.info["slots"]).view("u4")


EMPTY, DEAD = 0xFFFFFFFF, 0xFFFFFFFE


def test_a_slot_that_nobody_has_used_up(linear):
    t, slots = linear
    slots[np.flatnonzero(slots == EMPTY)[0]] = DEAD
    with pytest.raises(gh.Corrupt, match="the counters say 3000 live and 3000 used, the slots 3000 and 3001"):
        t.check()


def test_a_key_beyond_its_path(linear):
    """Where no slot is empty only its distance from home tells."""
    t, slots = linear
    slots[slots == EMPTY] = DEAD
    at = np.flatnonzero(slots != DEAD)[[10, -50]]
    slots[at] = slots[at[::-1]]
    with pytest.raises(gh.Corrupt, match="a key lies beyond the probe limit"):
        t.check()


def test_a_gap_before_a_key(linear):
    """Of some runs of slots in use a later key passes the first one on its way."""
    t, slots = linear
    used = slots != EMPTY
    says = set()
    for at in np.flatnonzero(~used[:-2] & used[1:-1] & used[2:]) + 1:
        key, slots[at] = slots[at], EMPTY
        with pytest.raises(gh.Corrupt) as refused:
            t.check()
        says.add(str(refused.value).partition(": ")[2])
        slots[at] = key
    assert "an empty slot lies between a key and its home (I2)" in says
    t.check()


def test_a_key_that_has_two_slots(linear):
    t, slots = linear
    at = np.flatnonzero((slots[:-1] < DEAD) & (slots[1:] == EMPTY))[0]
    slots[at + 1] = slots[at]
    with pytest.raises(gh.Corrupt, match=r"a key has two slots \(I3\)"):
        t.check()
