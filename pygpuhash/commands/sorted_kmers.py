"""How often each k-mer is there, in bounded memory: in ascending order, 9 bytes for each.

k-mers go into one of up to 256 parts by their highest bits. A part is two arrays, its k-mers in order and their counts,
and a buffer of those that came since, half as long: when it is full, it is sorted and merged. So a part is moved
whenever it has become half as large again, and what moves at a time is little beside all of them. Where the parts take
their share of the memory, all of them go to the disk as they are, and in the end those of equal bits are merged.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pygpuhash.columns import _buffers
from pygpuhash.commands._kmers import merged, parted
from pygpuhash.commands.spill import Temporary, temporary
from pygpuhash.commands.tally import Memory

__all__ = ["SortedKmers"]

Keys = NDArray[np.uint64]
Counts = NDArray[Any]  # of uint8, uint32 or uint64, as much as a part's highest one needs

_BITS = 8  # of parts
_LEAST = 1 << 10  # k-mers of a buffer
_STEP = 1 << 16  # k-mers that come out at a time


class _Part:
    """k-mers with equal highest bits."""

    def __init__(self) -> None:
        self.keys, self.counts = np.empty(0, np.uint64), np.empty(0, np.uint8)
        self._buffer, self._used = np.empty(0, np.uint64), 0

    @property
    def nbytes(self) -> int:
        return self.keys.nbytes + self.counts.nbytes + self._buffer.nbytes

    def add(self, kmers: Keys) -> None:
        """Count k-mers."""
        while kmers.size:
            if self._used == self._buffer.size:
                self.merge()
                self._buffer = np.empty(max(_LEAST, self.keys.size // 2), np.uint64)
            some = min(kmers.size, self._buffer.size - self._used)
            self._buffer[self._used : self._used + some] = kmers[:some]
            self._used += some
            kmers = kmers[some:]

    def merge(self) -> None:
        """The buffer's k-mers are among the others, and there is no buffer."""
        come = self._buffer[: self._used]
        come.sort()
        self.keys, self.counts = merged(self.keys, self.counts, come, None)
        self._buffer, self._used = np.empty(0, np.uint64), 0


class _Run:
    """Where a part is on the disk."""

    def __init__(self, file: Temporary, part: _Part) -> None:
        self._file, self._at, self._dtype, self._size = file, file.size, part.counts.dtype, part.keys.size
        file.write(part.keys)
        file.write(part.counts)

    def read(self) -> tuple[Keys, Counts]:
        """(k-mers, counts)."""
        keys = self._file.read(self._at, 8 * self._size).view(np.uint64)
        return keys, self._file.read(self._at + keys.nbytes, self._dtype.itemsize * self._size).view(self._dtype)


def _all_of(lists: list[tuple[Keys, Counts]], runs: list[_Run]) -> tuple[Keys, Counts]:
    """The k-mers of all runs, merged. Runs of about one size are merged first, so that each k-mer moves few times."""
    for run in runs:
        lists.append(run.read())
        while len(lists) > 1 and lists[-2][0].size <= lists[-1][0].size:
            lists.append(merged(*lists.pop(), *lists.pop()))
    while len(lists) > 1:
        lists.append(merged(*lists.pop(), *lists.pop()))
    return lists[0]


class SortedKmers:
    """Counts of k-mers; what `Tally` is for other keys, without sides."""

    def __init__(self, memory: Memory, k: int) -> None:
        self._memory, self._shift = memory, max(2 * k - _BITS, 0)
        self._parts = [_Part() for _ in range(1 << _BITS)]
        self._file: Temporary | None = None
        self._runs: list[list[_Run]] = [[] for _ in self._parts]

    def add(self, kmers: Keys) -> None:
        """Count k-mers."""
        grouped, ends = parted(kmers, self._shift, len(self._parts))
        begin = 0
        for part, end in zip(self._parts, ends.tolist(), strict=True):
            if end > begin:
                part.add(grouped[begin:end])
            begin = end
        if sum(part.nbytes for part in self._parts) > self._memory.index:
            self._flush()

    def _flush(self) -> None:
        distinct = 0
        if (file := self._file) is None:
            file = temporary(self._memory.folder)
        for i, part in enumerate(self._parts):
            part.merge()
            distinct += part.keys.size
            self._runs[i].append(_Run(file, part))
            self._parts[i] = _Part()
        if self._file is None:
            self._memory.say(
                f"{distinct:,} distinct keys fill their share of --memory {self._memory.limit >> 20}M: others go "
                f"through temporary files in {self._memory.folder}"
            )
        self._file = file

    def results(self) -> Iterator[tuple[Any, int, NDArray[np.int64]]]:
        """(k-mers, their number, their counts of shape (number, 1)), in ascending order."""
        for i, part in enumerate(self._parts):
            self._parts[i] = _Part()
            part.merge()
            keys, counts = _all_of([(part.keys, part.counts)], self._runs[i])
            del part
            for first in range(0, keys.size, _STEP):
                some = keys[first : first + _STEP]
                yield _Numbers(some), some.size, counts[first : first + _STEP].astype(np.int64)[:, None]
        if self._file is not None:
            self._file.close()


class _Numbers:
    """An array as a column of Arrow."""

    def __init__(self, values: Keys) -> None:
        self._values = values

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        return _buffers.schema("L"), _buffers.array(self._values.size, (None, self._values))
