"""check() tells which invariant of the tickets is broken (plugins/stadium/layout.hpp)."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

import pygpuhash as gh

NEVER, BUSY, DEAD, LIVE = range(4)
KEYS = np.arange(1, 601, dtype="u4") * np.uint32(77_777)


@pytest.fixture
def table(memory):
    """A table, its tickets of 8 bits, and the keys of the slots that go with them."""
    known = {"key_dtype": "u4", "value_dtype": "u4", "device": "cpu", "threads": 1, "memory": memory}
    with gh.Table("stadium", ticket=8, line=1, probe_limit=16, capacity=1000, seed=2, **known) as t:
        t.insert(KEYS, KEYS)
        t.check()
        sizes = t.info["slots"], t.info["slots"] * 8
        tickets, slots = (next(b for b in memory.blocks.values() if len(b) == size) for size in sizes)
        keys = slots.view("u4")[::2]
        assert set(keys[tickets & 3 == LIVE]) == set(KEYS)
        yield t, tickets, keys


@contextlib.contextmanager
def changed(array, at, now):
    before = array[at].copy()
    array[at] = now
    yield
    array[at] = before


def refuses(t, what):
    with pytest.raises(gh.Corrupt, match=what):
        t.check()


def exchanged(tickets, keys):
    """Slots of two groups with the same ticket, whose keys are each in the other's place."""
    live = np.flatnonzero(tickets & 3 == LIVE)
    one = live[0]
    other = live[(tickets[live] == tickets[one]) & (live // 8 != one // 8)][-1]
    return changed(keys, [one, other], keys[[other, one]])


def test_tickets_of_no_key(table):
    t, tickets, _ = table
    never = np.flatnonzero(tickets == NEVER)[[0, -1]]
    for at in never:
        with changed(tickets, at, NEVER | 4):
            refuses(t, f"slot {at} breaks an invariant: a ticket that was never booked has info bits")
        with changed(tickets, at, BUSY):
            refuses(t, f"slot {at} breaks .*a ticket is booked, but no insert is writing its pair")
        with changed(tickets, at, DEAD):
            refuses(t, "the counters say 600 live and 600 used, the tickets 600 and 601")
    t.check()


def test_tickets_of_other_keys(table):
    t, tickets, keys = table
    live = np.flatnonzero(tickets & 3 == LIVE)[[0, 9, -1]]
    for at in live:
        for bit in (4, 128):
            with changed(tickets, at, tickets[at] ^ bit):
                refuses(t, f"slot {at} breaks an invariant: a ticket's info bits are not its key's")
        with changed(keys, at, keys[at] + np.uint32(1)):
            refuses(t, f"slot {at} breaks an invariant")
        with changed(tickets, at, tickets[at] ^ LIVE ^ DEAD):
            refuses(t, "the counters say 600 live and 600 used, the tickets 599 and 600")
    t.check()


def test_keys_that_are_not_where_they_belong(table):
    t, tickets, keys = table
    with exchanged(tickets, keys):
        refuses(t, "a group before a key's own has a ticket that was never booked")
    # Where every ticket was booked once, paths are of 16 groups.
    with changed(tickets, tickets == NEVER, DEAD), exchanged(tickets, keys):
        refuses(t, "a key lies beyond its path")
    t.check()


def test_a_key_twice(table):
    """In one group, or in two of its path."""
    t, tickets, keys = table
    live = np.flatnonzero(tickets & 3 == LIVE)
    group = live[np.flatnonzero(np.diff(live // 8) == 0)[0]]
    with changed(keys, group + 1, keys[group]), changed(tickets, group + 1, tickets[group]):
        refuses(t, "a key has two live slots")
    t.check()
