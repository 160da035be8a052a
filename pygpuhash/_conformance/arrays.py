"""Keys and values of the conformance suite: random ones, and the bit patterns that structures like to reserve."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["Array", "patterns", "unique_keys", "values_for"]

Array = np.ndarray[Any, Any]


def unique_keys(rng: np.random.Generator, n: int, dtype: str = "uint64") -> Array:
    """n distinct random keys."""
    bits = np.dtype(dtype).itemsize * 8
    factor = np.uint64(rng.integers(1 << 20, 1 << min(bits, 62), dtype=np.uint64) | np.uint64(1))
    start = np.uint64(rng.integers(0, 1 << 32, dtype=np.uint64))
    # A product with an odd number is a bijection of the integers modulo a power of two.
    with np.errstate(over="ignore"):
        return ((np.arange(n, dtype=np.uint64) + start) * factor).astype(dtype)


def skewed(rng: np.random.Generator, among: int, n: int) -> Array:
    """n indices below `among`: half of them uniform, half of them below 3."""
    return np.where(rng.random(n) < 0.5, rng.integers(0, among, n), rng.integers(0, min(among, 3), n))


def values_for(keys: Array, dtype: str | None, salt: int = 0) -> Array | None:
    """A value that tells its key and the salt; None for a set."""
    if dtype is None:
        return None
    with np.errstate(over="ignore"):
        wide = (keys.astype(np.uint64) + np.uint64(salt)) * np.uint64(0x9E3779B97F4A7C15)
    return (wide >> np.uint64(64 - np.dtype(dtype).itemsize * 8)).astype(dtype)


def patterns(dtype: str) -> Array:
    """Distinct bit patterns: zeros, ones, signs, single bits, single holes, stripes, and the neighbours of these."""
    bits = np.dtype(dtype).itemsize * 8
    top = (1 << bits) - 1
    half = bits // 2
    stems = {0, top, top >> 1, 1 << (bits - 1), top // 3, top // 3 * 2, (1 << half) - 1, top ^ ((1 << half) - 1)}
    stems |= {1 << b for b in range(bits)} | {top ^ (1 << b) for b in range(bits)}
    near = {(s + d) & top for s in stems for d in (-3, -2, -1, 0, 1, 2)}
    return np.array(sorted(near), dtype=dtype)
