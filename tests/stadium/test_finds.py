"""Finds and counts of stadium on the CPU where tickets say little of the keys."""

from __future__ import annotations

import numpy as np
import pytest

import pygpuhash as gh
from pygpuhash import _core


@pytest.mark.parametrize("ticket", [16, 4, 2])
@pytest.mark.parametrize("line", [1, 8])
def test_keys_whose_tickets_are_those_of_others(ticket, line):
    """They are found by another look at their group, which has to say so everywhere."""
    keys = np.random.default_rng(5).permutation(20_000).astype("u8")
    there = keys < 10_000
    with gh.Table("stadium", device="cpu", ticket=ticket, line=line, seed=3, max_load_factor=0.9) as t:
        t.insert(keys[there], keys[there])
        assert (t.count(keys) == there).all()
        values, found = t.find(keys)
        assert (found == there).all()
        assert (values == np.where(there, keys, 0)).all()
        failure, yes, failed, status = _core.run_counted(t, _core.OP_FIND, keys, None)
        assert (failure, yes, failed) == (None, 10_000, 0)
        assert (status == there).all()
