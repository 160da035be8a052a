"""The verbs that both devices have, and the columns that they are measured on."""

import numpy as np
from harness.keys import random_keys

import pygpuhash as gh

N = 1 << 20
KEYS = ["1000 keys", "n/2 keys"]

VERBS = {
    "unique": lambda k, v: len(gh.unique(k)),
    "unique, first": lambda k, v: len(gh.unique(k, order="first")),
    "value_counts": lambda k, v: len(gh.value_counts(k)[1]),
    "factorize": lambda k, v: len(gh.factorize(k)[1]),
    "isin": lambda k, v: int(gh.isin(k, k[:1000]).sum() > 0) and None,
    "group_reduce": lambda k, v: len(gh.group_reduce(k, v)[1]),
    "join_indexer": lambda k, v: int(len(gh.join_indexer(k, k[:1000])[0]) > 0) and None,
}


def columns(xp, keys):
    """(keys, values, number of distinct keys) of N elements."""
    several = 1000 if keys == "1000 keys" else N // 2
    host = np.random.default_rng(1).integers(0, several, N).astype(np.uint32)
    return random_keys(xp, xp.asarray(host), 4), xp.arange(N, dtype="i8"), len(np.unique(host))
