"""Tables in shards for tests, and a group of two processes that is in one."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from pygpuhash import sharded

sys.path.insert(0, str(Path(__file__).resolve().parent))
import fake_torch


class Together:
    """Two ranks of `sharded.Torch`, of which the second one makes the calls of the first with batches of no keys."""

    travels = leads = True

    def __init__(self):
        self.group = fake_torch.Group(2)
        self.ranks = [sharded.Torch(self.group.of(rank)) for rank in range(2)]
        self.devices = self.ranks[0].devices
        self.in_order = threading.Lock()  # processes make the same calls in the same order

    def both(self, first, second):
        with self.in_order, ThreadPoolExecutor(2) as pool:
            results = [pool.submit(first), pool.submit(second)]
        return results[0].result(), results[1].result()

    def open(self, shards, make):
        one, other = self.ranks
        self.both(lambda: one.open(shards, make), lambda: other.open(shards, make))

    def call(self, calls):
        one, other = self.ranks
        results, nothing = self.both(lambda: one.call(calls), lambda: other.call([]))
        assert nothing == []
        return results

    def agreed(self, value):
        found = self.both(lambda: self.ranks[0].agreed(value), lambda: self.ranks[1].agreed("another value"))
        assert found == (value, value)
        return value

    def another(self):
        return self.ranks[0].another()

    def close(self):
        for rank in self.ranks:
            rank.close()


def contents(table):
    keys, values = table.export()
    assert len(set(keys.tolist())) == len(keys) == len(table)
    return dict(zip(keys.tolist(), values.tolist(), strict=True)) if values is not None else set(keys.tolist())


def filled(n=1000, **how):
    table = sharded.Table(**({"shards": 3} | how))
    table.insert(np.arange(n), np.arange(n) * 2)
    return table
