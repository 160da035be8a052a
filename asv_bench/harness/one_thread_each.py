"""Lock-free sets with a node for each key, to compare with: one_thread_each.cpp, compiled when it is needed.

Keys have 4 bytes and no values. On a GPU a thread serves an operation, in blocks of 16 warps.
"""

from __future__ import annotations

import ctypes
import os
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import pygpuhash as gh

from .figure import Settings
from .modules import arch_of, compile_source
from .runs import Wrong

MOST_WORDS = 1 << 31  # a link is twice the number of a word
MOST_LEVELS = 24


@cache
def library(arch: str | None) -> Any:
    """The functions, for CUDA or, without an architecture, for the CPU."""
    target = Path(tempfile.mkdtemp(prefix="gpuhash-nodes-")) / "one_thread_each.so"
    compile_source("one_thread_each.cpp", target, arch, ["-shared"], ["-fPIC", "-pthread"])
    functions = ctypes.CDLL(str(target))
    for function in (functions.skiplist_serve, functions.lists_serve):
        function.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_size_t]
        function.argtypes += [*[ctypes.c_void_p] * 3, ctypes.c_uint32, ctypes.c_uint, ctypes.c_void_p]
    return functions


class OneThreadEach:
    """An empty set in so many words. `shape`: the levels of a skiplist, the buckets of a table of lists."""

    backend = "a node per key"

    def __init__(self, settings: Settings, kind: str, words: int, shape: int) -> None:
        if words >= MOST_WORDS:
            raise gh.InvalidArgument(f"{words:,} words of nodes are more than 2^31: ask for fewer elements with --n")
        self.device, self.shape, self.calls = settings.device, shape, 0
        self.function = getattr(library(arch_of(settings) if settings.on_cuda else None), f"{kind}_serve")
        self.threads = settings.threads or len(os.sched_getaffinity(0))
        self.words = self.device.xp.zeros(words, np.uint32)

    def close(self) -> None:
        """Free the set."""
        self.words = self.words[:0].copy()

    def serve(self, ops: Any, keys: Any, status: Any = None) -> Any:
        """Status of each operation: 0 or 1; 3, when there was no node for a key."""
        xp = self.device.xp
        status = xp.empty(len(keys), np.uint8) if status is None else status
        stream = 0 if xp is np else xp.cuda.get_current_stream().ptr
        at = [array.ctypes.data if xp is np else array.data.ptr for array in (self.words, ops, keys, status)]
        self.calls += 1
        error = self.function(at[0], len(self.words), self.shape, len(keys), *at[1:], self.calls, self.threads, stream)
        if error:
            raise Wrong(f"CUDA error {error} at a batch of {len(keys):,} operations")
        return status

    def serve_all(self, operation: str, keys: Any) -> Any:
        """The same of one operation for all keys: "insert", "erase" or "find"."""
        return self.serve(self.device.xp.full(len(keys), int(gh.Op[operation.upper()]), np.uint8), keys)

    def holds(self, keys: Any) -> Any:
        """Is each of the keys there?"""
        return self.serve_all("find", keys) == 1


def skiplist(settings: Settings, keys: int, nodes: int) -> OneThreadEach:
    """A skiplist for so many keys at one time, and so many nodes from the beginning to the end; p_key = 0.5."""
    return OneThreadEach(
        settings, "skiplist", 4 * nodes + nodes // 8 + (1 << 18), max(2, min(keys.bit_length(), MOST_LEVELS))
    )


def lists(settings: Settings, buckets: int, nodes: int) -> OneThreadEach:
    """A table of so many lists with so many nodes from the beginning to the end."""
    return OneThreadEach(settings, "lists", 1 + buckets + 2 * nodes, buckets)
