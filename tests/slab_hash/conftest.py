"""Tables of slab_hash on the CPU, checked when a test ends, and a multimap to compare them with."""

from collections import Counter

import numpy as np
import pytest

import pygpuhash as gh

WIDTHS = [("uint32", None), ("uint32", "uint32"), ("uint64", None), ("uint64", "uint64"), ("uint32", "uint64")]


class Multimap:
    """A table of duplicates, as a Counter of (key, value)."""

    def __init__(self):
        self.pairs = Counter()

    def insert_multi(self, keys, values):
        self.pairs.update(zip(keys.tolist(), values.tolist(), strict=True))

    def erase_all(self, keys):
        gone = set(keys.tolist())
        self.pairs = Counter({pair: n for pair, n in self.pairs.items() if pair[0] not in gone})

    def values_of(self, key):
        return sorted(v for (k, v), n in self.pairs.items() if k == key for _ in range(n))

    def counts(self):
        counts = Counter()
        for (key, _), n in self.pairs.items():
            counts[key] += n
        return counts


@pytest.fixture
def make():
    """make(**arguments): a slab_hash table with a fixed seed."""
    tables = []

    def made(**arguments):
        arguments = {"device": "cpu", "seed": 7, **arguments}
        tables.append(gh.Table("slab_hash", **arguments))
        return tables[-1]

    yield made
    for t in tables:
        if not t.closed:
            t.check()
            t.close()


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture
def multimap():
    return Multimap()


@pytest.fixture(params=WIDTHS, ids=lambda w: f"{w[0]}-{w[1]}")
def widths(request):
    """Keyword arguments for the widths of keys and values."""
    return dict(zip(("key_dtype", "value_dtype"), request.param, strict=True))
