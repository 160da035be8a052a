"""How often each key is there, in bounded memory.

Keys go into an index until that takes its share of the memory. From then on it is closed: its keys are counted on, and
new ones are gathered in small indexes, each of which, when it is full, goes to the disk as a whole: its keys in their
order, numbered on and on (the order file), and each key with its number and its counts to one of some files, by its
hash. Afterwards these are counted one by one; the number at which a key was met first has all of its counts, and what
the order file has at numbers with counts, is what there is. So keys come out in the order of their first appearance,
whatever the memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pygpuhash.columns._engine import CoreIndex, hash_rows
from pygpuhash.commands._words import LONGEST
from pygpuhash.commands.spill import Keep, temporary

__all__ = ["Memory", "Tally", "chosen", "step_of"]

Counts = NDArray[np.int64]

_FILES = 32  # by hash
_STEP, _STEP_BYTES = 1 << 16, 1 << 23  # keys that come out at a time
_SEED = 0x5EED


class Memory:
    """What a tally may take, and where it goes beyond that."""

    def __init__(self, limit: int, folder: str, threads: int | None, say: Callable[[str], None]) -> None:
        self.limit, self.folder, self.threads, self.say = limit, folder, threads, say

    @property
    def index(self) -> int:
        """Bytes at which the index is closed; while it doubled just before, it was there one and a half times."""
        return self.limit // 3

    @property
    def part(self) -> int:
        """Bytes at which a small index goes to the disk."""
        return max(self.limit // 16, 1 << 18)

    @property
    def longest(self) -> int:
        """Bytes of a line or a word: it is in some blocks, in the index and in what is printed at the same time."""
        return min(self.limit // 8, LONGEST - (1 << 22))


class Tally:
    """Distinct keys and their counts, one for each side.

    sides : inputs that are counted by themselves: `next_side` begins the second one. keys : does `results` follow? Else
        `first_rows` is what tells new keys.
    """

    def __init__(self, memory: Memory, sides: int = 1, keys: bool = True) -> None:
        self._memory, self._sides, self._side, self._keeps = memory, sides, 0, keys
        self._schema: object = None
        self._core: CoreIndex | None = None
        self._before: Counts | None = None  # counts of the first side
        self._extra: Counts | None = None  # of keys of the closed index: (keys, sides)
        self._part: CoreIndex | None = None
        self._order: Keep | None = None
        self._files: list[Keep | None] = []
        self._numbered = 0

    def _index(self, schema: object) -> CoreIndex:
        return CoreIndex(schema, "group", "numbers", self._memory.threads, True)

    @property
    def spilled(self) -> bool:
        """Are there keys on the disk?"""
        return bool(self._files)

    def add(self, schema: object, chunks: list[object]) -> None:
        """Count rows: capsules of Arrow."""
        if self._core is None:
            self._schema, self._core = schema, self._index(schema)
        if self._extra is None:
            self._core.add(schema, chunks)
            if self._core.nbytes > self._memory.index:
                self._close()
            return
        if self._part is None:
            self._part = self._index(self._schema)
        self._part.add(schema, chunks)
        if self._part.nbytes > self._memory.part:
            self._flush()

    def first_rows(self, schema: object, chunks: list[object], rows: int) -> tuple[NDArray[np.bool_], bool]:
        """(where a key is met for the first time, True) while the index is open.

        Afterwards (rows that may be so, False): they are numbered on and on, and `survivors` tells which of them are.
        """
        if self._core is None:
            self._schema, self._core = schema, self._index(schema)
        ids = np.empty(rows, np.int64)
        is_open = self._extra is None
        if not is_open and self._part is not None and self._part.nbytes > self._memory.part:
            self._flush()
        if not is_open and self._part is None:
            self._part = self._index(self._schema)
        index = self._core if is_open else self._part
        assert index is not None
        before = index.size
        index.add(schema, chunks, ids)
        if is_open and index.nbytes > self._memory.index:
            self._close()
        return fresh_of(ids, before), is_open

    def survivors(self) -> NDArray[np.bool_]:
        """Which of the numbered rows are the first ones of their keys."""
        self._flush()
        return np.asarray(self._totals()[: self._numbered].any(axis=1))

    def keys_from(self, first: int, count: int) -> Any:
        """Keys of the index by their ids."""
        assert self._core is not None
        return self._core.keys(first, count)

    @property
    def known(self) -> int:
        """Keys of the index, not those on the disk."""
        return 0 if self._core is None else self._core.size

    def next_side(self) -> None:
        """Begin the second side: keys that are added from here on are counted there."""
        self._flush()
        if self._core is not None:
            self._before = self._core.counts()
        self._side = 1

    def _close(self) -> None:
        assert self._core is not None
        self._extra = np.zeros((self._core.size, self._sides), np.int64)
        self._memory.say(
            f"{self._core.size:,} distinct keys fill their share of --memory {self._memory.limit >> 20}M: others go "
            f"through temporary files in {self._memory.folder}"
        )
        folder = self._memory.folder
        schema = self._core.keys(0, 0).__arrow_c_schema__()
        self._order = Keep(schema, 0, folder) if self._keeps else None
        self._files = [Keep(schema, 2, folder) for _ in range(_FILES)]

    def _flush(self) -> None:
        """The small index goes to the disk."""
        part, core = self._part, self._core
        self._part = None
        if part is None or part.size == 0:
            return
        assert core is not None
        assert self._extra is not None
        n, counts = part.size, part.counts()
        schema, array = part.keys(0, n).__arrow_c_array__()
        known, hashes = np.empty(n, np.int64), np.empty(n, np.uint64)
        core.find(schema, [array], known)
        hash_rows(schema, [array], 64, _SEED, self._memory.threads, hashes)
        here = known >= 0
        self._extra[known[here], self._side] += counts[here]  # ids of distinct keys are distinct
        if self._order is not None:
            self._order.add(part.keys(0, n), [])
        files = np.where(here, _FILES, (hashes % np.uint64(_FILES)).astype(np.int64))
        order = np.argsort(files, kind="stable")
        ends = np.searchsorted(files[order], np.arange(_FILES + 1))
        for i, file in enumerate(self._files):
            assert file is not None
            ids = order[ends[i] : ends[i + 1]]
            # Counts of the second side are negative.
            file.add(part.take(ids), [self._numbered + ids, -counts[ids] if self._side else counts[ids]])
        self._numbered += n

    # ---- results

    def results(self) -> Iterator[tuple[Any, int, Counts]]:
        """(keys, their number, their counts of shape (number, sides)), in the order of first appearance."""
        self._flush()
        core = self._core
        if core is None:
            return
        counts = self._counts(core)
        step = step_of(core)
        for first in range(0, core.size, step):
            n = min(step, core.size - first)
            yield core.keys(first, n), n, counts[first : first + n]
        del core, counts
        yield from self._beyond()

    def beyond(self) -> Iterator[Any]:
        """Keys that are not in the index, in the order of first appearance."""
        self._flush()
        return (keys for keys, _, _ in self._beyond())

    def _beyond(self) -> Iterator[tuple[Any, int, Counts]]:
        if self._order is None:
            return
        self._core = self._extra = None  # their memory is for the keys on the disk
        totals = self._totals()
        at = 0
        for keys, n, _ in self._order.blocks():
            yield from self._chosen(keys, totals[at : at + n])
            at += n

    def _counts(self, core: CoreIndex) -> Counts:
        total = core.counts()
        counts = total[:, None] if self._sides == 1 else np.zeros((core.size, self._sides), np.int64)
        if self._side:
            first = np.zeros(core.size, np.int64)
            if self._before is not None:
                first[: len(self._before)] = self._before
            counts[:, 0], counts[:, 1] = first, total - first
        elif self._sides == 2:
            counts[:, 0] = total
        if self._extra is not None:
            counts += self._extra
        return counts

    def _totals(self) -> Counts:
        """By number: the counts of a key at its first number, 0 at others; in a file that is mapped."""
        file = temporary(self._memory.folder)
        file.file.truncate(max(self._numbered, 1) * self._sides * 8)
        totals = np.memmap(file.file, np.int64, "r+", shape=(max(self._numbered, 1), self._sides))
        file.close()  # the map stays
        for i, left in enumerate(self._files):
            self._files[i] = None
            assert left is not None
            while left.rows:
                left = self._count_file(left, totals)
            left.close()
        return totals

    def _count_file(self, file: Keep, totals: Counts) -> Keep:
        """Count the keys of a file for which there is memory. Returns what is left of it."""
        index = CoreIndex(self._schema, "group", "numbers", self._memory.threads)
        left = Keep(index.keys(0, 0).__arrow_c_schema__(), 2, self._memory.folder)
        numbers, open_ = np.empty(0, np.int64), True
        for keys, n, (number, count) in file.blocks():
            schema, array = keys.__arrow_c_array__()
            ids = np.empty(n, np.int64)
            if open_:
                before = index.size
                index.add(schema, [array], ids)
                numbers = np.concatenate((numbers, number[fresh_of(ids, before)]))
                open_ = index.nbytes <= self._memory.index
            else:
                index.find(schema, [array], ids)
                absent = np.flatnonzero(ids < 0)
                if absent.size:
                    left.add(_Distinct(schema, array).take(absent), [number[absent], count[absent]])
            here = ids >= 0
            sides = (count < 0).astype(np.int64)
            np.add.at(totals, (numbers[ids[here]], sides[here]), np.abs(count[here]))
        return left

    def _chosen(self, keys: Any, totals: Counts) -> Iterator[tuple[Any, int, Counts]]:
        distinct, places = _Distinct(*keys.__arrow_c_array__()), np.flatnonzero(totals.any(axis=1))
        for first in range(0, places.size, _STEP):
            some = places[first : first + _STEP]
            yield distinct.take(some), some.size, np.array(totals[some])


def step_of(index: CoreIndex) -> int:
    """Keys of an index to print at a time."""
    return max(min(_STEP, _STEP_BYTES * index.size // max(index.nbytes, 1)), 1)


def chosen(keys: Any, places: Counts) -> Any:
    """Some of a column of distinct keys, by their places."""
    return _Distinct(*keys.__arrow_c_array__()).take(places)


def fresh_of(ids: Counts, before: int) -> NDArray[np.bool_]:
    """Where an id appears for the first time, of an index that had `before` keys: new ids count upwards."""
    highest: Counts = np.maximum.accumulate(np.concatenate(([before - 1], ids)))[:-1]
    return np.asarray(ids > highest)


class _Distinct:
    """A column of distinct keys, by their places."""

    def __init__(self, schema: object, array: object) -> None:
        self._index = CoreIndex(schema, "group", "bits", 1)
        self._index.add(schema, [array])

    def take(self, places: Counts) -> Any:
        return self._index.take(np.ascontiguousarray(places, np.int64))
