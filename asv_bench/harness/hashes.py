"""The hash functions of libgpuhash/hash/functions.hpp for arrays of 4-byte keys, written a second time, with numpy.

For figure 3 of the Hive paper, and for the tests of those functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Words = NDArray[Any]


def wang(k: Words) -> Words:
    """BitHash1 of the paper."""
    k = ~k + (k << 15)
    k = k ^ (k >> 12)
    k = k + (k << 2)
    k = k ^ (k >> 4)
    k = k * np.uint32(2057)
    return k ^ (k >> 16)


def jenkins(k: Words) -> Words:
    """BitHash2 of the paper."""
    k = k + np.uint32(0x7ED55D16) + (k << 12)
    k = k ^ np.uint32(0xC761C23C) ^ (k >> 19)
    k = k + np.uint32(0x165667B1) + (k << 5)
    k = (k + np.uint32(0xD3A2646C)) ^ (k << 9)
    k = k + np.uint32(0xFD7046C5) + (k << 3)
    return k ^ np.uint32(0xB55A4F09) ^ (k >> 16)


def murmur(k: Words) -> Words:
    """The finaliser of MurmurHash3."""
    k = (k ^ (k >> 16)) * np.uint32(0x85EBCA6B)
    k = (k ^ (k >> 13)) * np.uint32(0xC2B2AE35)
    return k ^ (k >> 16)


def _rotated(k: Words, n: int) -> Words:
    return (k >> n) | (k << (32 - n))


def _join(a: Words, h: Words) -> Words:
    h = h ^ _rotated(a * np.uint32(0xCC9E2D51), 17) * np.uint32(0x1B873593)
    return _rotated(h, 19) * np.uint32(5) + np.uint32(0xE6546B64)


def city(k: Words) -> Words:
    """CityHash32 of 4 bytes."""
    b, c = np.zeros_like(k), np.full_like(k, 9)
    for i in range(4):
        b = b * np.uint32(0xCC9E2D51) + (k >> 8 * i).astype(np.int8).astype(np.uint32)
        c = c ^ b
    return murmur(_join(b, _join(np.full_like(k, 4), c)))


def _crc(k: Words, width: int, polynomial: int) -> Words:
    """A CRC of the bytes of the keys, bit by bit."""
    word = np.dtype(f"u{width}").type
    c = np.full(k.shape, ~word(0))
    for i in range(k.dtype.itemsize):
        c = c ^ ((k >> 8 * i) & 255).astype(word)
        for _ in range(8):
            c = (c >> 1) ^ np.where(c & 1, word(polynomial), word(0))
    return ~c


def crc32(k: Words) -> Words:
    """CRC-32/ISO-HDLC, that of zlib, of keys of any width."""
    return _crc(k, 4, 0xEDB88320)


def crc64(k: Words) -> Words:
    """CRC-64/XZ of keys of any width, all 64 bits."""
    return _crc(k, 8, 0xC96C5795D7870F42)


def _crc64_high(k: Words) -> Words:
    return (crc64(k) >> 32).astype(np.uint32)


FUNCTIONS: dict[str, Callable[[Words], Words]] = {
    "bithash1": wang,
    "bithash2": jenkins,
    "murmur": murmur,
    "city": city,
    "crc32": crc32,
    "crc64": _crc64_high,
}


def expected_collisions(n: int, buckets: int) -> float:
    """E[Y] of n keys in so many buckets, each drawn uniformly: keys that find another one in their bucket."""
    return float(n + buckets * np.expm1(n * np.log1p(-1 / buckets)))


def collisions(hashes: Words, buckets: int) -> int:
    """Y: keys less buckets that have any."""
    return len(hashes) - int(np.count_nonzero(np.bincount(hashes % np.uint32(buckets), minlength=buckets)))
