"""How large a benchmark is: small by default, so that the whole suite takes less than a minute on two cores;
GPUHASH_BENCH_SIZE=large for the published sizes."""

from __future__ import annotations

import os

SIZES = {
    "small": {"cpu": 1 << 17, "cuda": 1 << 20},
    "large": {"cpu": 1 << 24, "cuda": 1 << 27},
}


def size_name() -> str:
    """ "small" or "large"."""
    name = os.environ.get("GPUHASH_BENCH_SIZE", "small")
    if name not in SIZES:
        raise ValueError(f"GPUHASH_BENCH_SIZE={name} is not known: use small or large")
    return name


def keys_for(device: str) -> int:
    """Keys per table on this device."""
    return SIZES[size_name()][device.partition(":")[0]]
