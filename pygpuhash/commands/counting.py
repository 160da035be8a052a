"""`count`, `unique`, `top`: distinct keys, how often each one is there, and the most frequent ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from pygpuhash.columns._engine import CoreIndex
from pygpuhash.commands.columns import Kind, kind_of
from pygpuhash.commands.output import Cells, Output
from pygpuhash.commands.progress import Bar
from pygpuhash.commands.running import chunks_of, counted, printing
from pygpuhash.commands.settings import memory_of
from pygpuhash.commands.sorted_kmers import SortedKmers
from pygpuhash.commands.sources import named, names_of
from pygpuhash.commands.tally import Memory, Tally, step_of

__all__ = ["count", "top", "unique"]

_WIDTH = 7  # of counts, as uniq -c has it


def _begun(options: Any) -> tuple[Kind, Memory]:
    options.files = names_of(options.files)
    memory = memory_of(options)
    return kind_of(options, memory.longest), memory


def _tally(kind: Kind, memory: Memory) -> Tally | SortedKmers:
    return Tally(memory) if kind.k is None else SortedKmers(memory, kind.k)


def count(options: Any) -> int:
    """Each key once, with its count, in the order of first appearance; k-mers in ascending order."""
    kind, memory = _begun(options)
    tally = _tally(kind, memory)
    with printing(options, ["count", *kind.names], marked=True) as out:
        counted(options.files, kind, tally)
        for keys, _, counts in tally.results():
            _print(out, kind, keys, counts[:, 0])
    return 0


def _print(out: Output, kind: Kind, keys: Any, counts: Any) -> None:
    width = _WIDTH if out.format == "text" else 0
    out.rows([Cells.numbers(np.ascontiguousarray(counts), width), *kind.cells(keys, out.format == "parquet")])


def unique(options: Any) -> int:
    """Each key once, printed when it is met first."""
    kind, memory = _begun(options)
    tally, bar, shown = Tally(memory), Bar(options.output is None), 0
    with printing(options, kind.names) as out:
        try:
            for file, chunk in chunks_of(options.files, kind, bar):
                with named(file):
                    tally.add(chunk.schema, chunk.arrays)
                if tally.known > shown:
                    out.rows(kind.cells(tally.keys_from(shown, tally.known - shown), out.format == "parquet"))
                    shown = tally.known
        finally:
            bar.clear()
        for keys in tally.beyond():
            out.rows(kind.cells(keys, out.format == "parquet"))
    return 0


def top(options: Any) -> int:
    """The keys with the highest counts, the highest first; of equal ones those that `count` prints first."""
    kind, memory = _begun(options)
    tally = _tally(kind, memory)
    with printing(options, ["count", *kind.names], marked=True) as out:
        counted(options.files, kind, tally)
        best = _Best(options.number, memory.part)
        for keys, n, counts in tally.results():
            best.add(keys, n, counts[:, 0])
        for keys, counts in best.results():
            _print(out, kind, keys, counts)
    return 0


class _Best:
    """The K keys with the highest counts. most : bytes beside them, beyond which others are left out."""

    def __init__(self, number: int, most: int) -> None:
        self._number, self._most, self._kept = number, most, 0
        self._index: CoreIndex | None = None
        self._counts = np.empty(0, np.int64)
        self._schema: Any = None

    def add(self, keys: Any, n: int, counts: Any) -> None:
        """Take keys that were not there before."""
        schema, array = keys.__arrow_c_array__()
        if self._index is None:
            self._schema, self._index = schema, CoreIndex(schema, "group", "bits", 1)
        self._index.add(schema, [array])
        self._counts = np.concatenate((self._counts, counts))
        many = len(self._counts) > 2 * self._number + (1 << 17)
        if many or (self._index.nbytes > self._kept + self._most and len(self._counts) > self._number):
            self._keep(np.sort(self._order()))

    def _order(self) -> Any:
        """Ids of the K best, the best first."""
        return np.argsort(-self._counts, kind="stable")[: self._number]

    def _keep(self, ids: Any) -> None:
        assert self._index is not None
        kept = self._index.take(ids)
        self._counts, self._index = self._counts[ids], CoreIndex(self._schema, "group", "bits", 1)
        schema, array = kept.__arrow_c_array__()
        self._index.add(schema, [array])
        self._kept = self._index.nbytes

    def results(self) -> Any:
        """(keys, counts), some at a time."""
        if self._index is not None:
            order, step = self._order(), step_of(self._index)
            for first in range(0, len(order), step):
                ids = np.ascontiguousarray(order[first : first + step])
                yield self._index.take(ids), self._counts[ids]
