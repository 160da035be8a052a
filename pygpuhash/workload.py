"""What `pygpuhash compare` runs: keys, and for every phase the exact result."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pygpuhash.keyfile import InputError
from pygpuhash.table import Op

__all__ = ["Workload", "make", "synthetic"]

Array = np.ndarray[Any, Any]
SEED = 20240229  # of everything random here, so that two runs do the same


@dataclass(frozen=True)
class Workload:
    """Keys in the order given, the distinct ones, and the batches that are made of them.

    The mixed batch has every key at most once, so that its results do not depend on the order in which a concurrent
    table carries it out: of four random quarters of the distinct keys, one is erased, one gets new values and two are
    looked up, and as many new keys as a quarter are inserted.
    """

    title: str
    keys: Array
    unique: Array
    counts: Array  # of `unique`, in the table's value dtype
    inverse: Array  # keys == unique[inverse]
    absent: Array  # keys that are not in `unique`, as many as `keys` where there are so many
    erased: Array  # indices into `unique`: a random half
    ops: Array
    mixed_keys: Array
    mixed_values: Array
    mixed_found: Array  # expected values
    mixed_mask: Array  # expected status
    after: tuple[Array, Array]  # expected pairs after the mixed batch, sorted by the key's bits
    text: dict[int, str] = field(default_factory=dict, repr=False)
    counter: Counter[str] | None = field(default=None, repr=False)

    @property
    def key_dtype(self) -> np.dtype[Any]:
        """Dtype of the keys."""
        return np.dtype(self.keys.dtype)

    @property
    def value_dtype(self) -> np.dtype[Any]:
        """Dtype of the counts: as wide as the stored keys."""
        return np.dtype(self.counts.dtype)

    def most_frequent(self, n: int = 10) -> list[tuple[str, int]]:
        """The n most frequent keys as text, with their counts."""
        order = np.argsort(-self.counts.astype(np.int64), kind="stable")[:n]
        return [(self.text.get(int(self.unique[i]), str(self.unique[i])), int(self.counts[i])) for i in order]


def bits(keys: Array) -> Array:
    """Keys as unsigned integers of their width: what equality of keys means, also for floats."""
    return keys.view(f"u{keys.dtype.itemsize}")


def synthetic(n: int) -> Array:
    """n uniform random uint64 keys."""
    if n < 1:
        raise InputError(f"--n={n} is too small: pass at least 1")
    try:
        return np.random.default_rng(SEED).integers(0, 2**64, n, np.uint64)
    except (MemoryError, ValueError, OverflowError) as error:
        raise InputError(f"--n={n} keys do not fit this machine's memory: pass a smaller number") from error


def make(title: str, keys: Array, text: dict[int, str] | None = None, counter: Counter[str] | None = None) -> Workload:
    """All batches and their expected results for some keys."""
    rng = np.random.default_rng(SEED)
    flat, inverse, counts = np.unique(bits(keys), return_inverse=True, return_counts=True)
    counts = counts.astype(np.uint64 if keys.dtype.itemsize == 8 else np.uint32)
    absent = _absent(flat, keys.size, rng)
    order = rng.permutation(flat.size)
    erase, assign, find, find_too = np.array_split(order, 4)
    find = np.concatenate([find, find_too])
    new = _distinct(absent)[: len(erase)]
    assigned = counts[assign] + counts.dtype.type(1)
    inserted = np.arange(1, len(new) + 1, dtype=counts.dtype)
    zeros = np.zeros(len(erase), counts.dtype), np.zeros(len(find), counts.dtype)
    # One row per part: op, keys, values, expected value, expected mask.
    parts = [
        (Op.ERASE, flat[erase], zeros[0], zeros[0], True),
        (Op.ASSIGN, flat[assign], assigned, np.zeros_like(assigned), False),
        (Op.FIND, flat[find], zeros[1], counts[find], True),
        (Op.INSERT, new, inserted, np.zeros_like(inserted), True),
    ]
    shuffle = rng.permutation(sum(len(part[1]) for part in parts))
    after_keys = np.concatenate([flat[assign], flat[find], new])
    after_values = np.concatenate([assigned, counts[find], inserted])
    by_key = np.argsort(after_keys)
    return Workload(
        title=title,
        keys=keys,
        unique=flat.view(keys.dtype),
        counts=counts,
        inverse=inverse.reshape(-1),
        absent=absent.view(keys.dtype),
        erased=order[: flat.size // 2],
        ops=np.concatenate([np.full(len(part[1]), part[0], np.uint8) for part in parts])[shuffle],
        mixed_keys=np.concatenate([part[1] for part in parts])[shuffle].view(keys.dtype),
        mixed_values=np.concatenate([part[2] for part in parts])[shuffle],
        mixed_found=np.concatenate([part[3] for part in parts])[shuffle],
        mixed_mask=np.concatenate([np.full(len(part[1]), part[4]) for part in parts])[shuffle],
        after=(after_keys[by_key].view(keys.dtype), after_values[by_key]),
        text=text or {},
        counter=counter,
    )


def _absent(unique: Array, n: int, rng: np.random.Generator) -> Array:
    """n random keys that are not in `unique` (sorted); of narrow keys as many as there are, repeated."""
    top = 2 ** (8 * unique.dtype.itemsize)
    if unique.dtype.itemsize <= 2:
        free = np.setdiff1d(np.arange(top, dtype=np.uint64), unique).astype(unique.dtype)
        return free[rng.integers(0, len(free), n)] if len(free) else free
    if 2 * len(unique) > top:
        raise InputError(f"{len(unique)} distinct keys leave too few absent keys of {unique.dtype.itemsize} bytes")
    kept: list[Array] = []
    have = 0
    while have < n:
        drawn = np.sort(rng.integers(0, top, n - have, np.uint64).astype(unique.dtype))  # sorted queries stay in cache
        place = np.minimum(np.searchsorted(unique, drawn), len(unique) - 1)
        kept.append(drawn[unique[place] != drawn])
        have += len(kept[-1])
    absent = np.concatenate(kept)
    rng.shuffle(absent)
    return absent


def _distinct(keys: Array) -> Array:
    """The distinct keys, sorted. numpy.unique without counts hashes, which takes ten times as long for random keys."""
    ordered = np.sort(keys)
    first = np.ones(ordered.size, bool)
    first[1:] = ordered[1:] != ordered[:-1]
    return ordered[first]
