"""Keys: unique, random, made where they are used, the same on every device.

Key i is a bijective mixer of i (the finaliser of MurmurHash3), so keys 0 .. n-1 are distinct, keys n .. 2n-1 are absent
from them, and nothing needs to be sorted, compared or copied from the host. An order other than 0 .. n-1 comes from
i -> (a i + b) mod n with a and n coprime.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

# shift, multiplier, shift, multiplier, shift
MIXERS = {
    4: (16, 0x85EBCA6B, 13, 0xC2B2AE35, 16),
    8: (33, 0xFF51AFD7ED558CCD, 33, 0xC4CEB9FE1A85EC53, 33),
}


def dtype_of(width: int) -> np.dtype[Any]:
    """The unsigned dtype of 4 or 8 bytes."""
    return np.dtype(f"u{width}")


def random_keys(xp: Any, index: Any, width: int) -> Any:
    """The keys of these indices, as unsigned integers of `width` bytes."""
    dtype = dtype_of(width)
    a, m, b, k, c = MIXERS[width]
    x = index.astype(dtype) + dtype.type(1)
    x ^= x >> dtype.type(a)
    x *= dtype.type(m)
    x ^= x >> dtype.type(b)
    x *= dtype.type(k)
    x ^= x >> dtype.type(c)
    return x


def shuffled(xp: Any, n: int, salt: int = 0) -> Any:
    """0 .. n-1 in another order, as uint64. `salt` picks the order."""
    step = (0x9E3779B1 + 2 * salt) % n or 1
    while math.gcd(step, n) != 1:
        step += 1
    index = xp.arange(n, dtype=np.uint64)
    index *= np.uint64(step)
    index += np.uint64(n // 3 + salt)
    index %= np.uint64(n)
    return index


def drawn(xp: Any, n: int, below: int, salt: int = 0) -> Any:
    """n numbers below `below`, at most 2^32, random to the eye, as uint32. `salt` picks others."""
    index = xp.arange(n, dtype=np.uint64)
    index += np.uint64(salt << 32)
    numbers = random_keys(xp, index, 8)
    numbers >>= np.uint64(32)
    numbers *= np.uint64(below)
    numbers >>= np.uint64(32)
    return numbers.astype(np.uint32)
