"""Targets of this distribution's `pygpuhash.backends` entry points: each returns the path of a module."""

from __future__ import annotations

from pathlib import Path

__all__ = ["hive", "linear_probe", "skiplist", "slab_hash", "stadium"]

_PLUGINS = Path(__file__).parent / "gpuhash" / "plugins-v1"


def hive() -> str:
    """Bucketed cuckoo hashing with a stash, for high load factors and for misses."""
    return str(_PLUGINS / "gpuhash_hive.so")


def linear_probe() -> str:
    """Open addressing with linear probing over rows of slots."""
    return str(_PLUGINS / "gpuhash_linear_probe.so")


def skiplist() -> str:
    """Keys in order: chunks of sorted entries, reached through levels of such chunks."""
    return str(_PLUGINS / "gpuhash_skiplist.so")


def slab_hash() -> str:
    """Chaining over slabs, on an allocator of its own; duplicates on request."""
    return str(_PLUGINS / "gpuhash_slab_hash.so")


def stadium() -> str:
    """Double hashing with a board of tickets beside the table; keys and values of any size."""
    return str(_PLUGINS / "gpuhash_stadium.so")
