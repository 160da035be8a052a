"""`Counter`: distinct keys of any type, and how often each was added."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, ClassVar, Literal

import numpy as np

from pygpuhash import _arguments, _tensors
from pygpuhash.columns import plain
from pygpuhash.group_by import GroupBy
from pygpuhash.index import Ids, IndexKeys, read_host

__all__ = ["Counter"]

COUNTS = np.dtype(np.int64)
COUNT = "count"  # the name of its only aggregate, and of the column of a saved file


class Counter:
    """How often each key was added, over any number of batches: `collections.Counter` for columns.

        words = gh.Counter()
        for batch in batches:
            words.add(batch)
        keys, counts = words.most_common(10)

    Keys are numbered as they first appear, and are the columns that `Index` takes. A batch that fails is not counted at
    all. Any number of threads may add to one counter.

    Parameters
    ----------
    keys : a type, as `Index` takes it, or a column, which is added. None: the type is that of the first batch.
    nulls, floats, threads, seed, capacity : as for `Index`.
    """

    __slots__ = ("__weakref__", "_groups")
    _saving: ClassVar[Any] = None  # (save, reduce) of pygpuhash.saved, which sets this

    def __init__(
        self,
        keys: Any = None,
        *,
        nulls: Literal["group", "drop", "refuse"] = "group",
        floats: Literal["numbers", "bits"] = "numbers",
        threads: int | None = None,
        seed: int | None = None,
        capacity: int = 0,
    ) -> None:
        kind = None if keys is None or plain.schema_of(keys) is None else keys
        self._groups = GroupBy(
            {COUNT: "count"}, kind, nulls=nulls, floats=floats, threads=threads, seed=seed, capacity=capacity
        )
        if keys is not None and kind is None:
            self.add(keys)

    def add(self, keys: Any) -> None:
        """Count each element of a column.

        Raises what `Index.add` raises, and has then counted none of them; so it is after Ctrl-C.
        """
        self._groups.add(keys)

    def merge(self, other: Counter) -> None:
        """Add all keys of another counter, each as often as it was added there. Two threads may merge two crosswise."""
        if not isinstance(other, Counter):
            raise TypeError(f"other is a {type(other).__name__}, not a Counter: use add for a column")
        self._groups.merge(other._groups)

    # ---- counts

    @property
    def keys(self) -> IndexKeys:
        """The keys in the order of their first appearance, as `Index.keys` has them."""
        return self._groups.keys

    @property
    def counts(self) -> Ids:
        """How often each key was added: int64, in the order of `keys`. A copy, as of now."""
        return self._groups._snapshot()[2][COUNT][0]

    def most_common(self, n: int | None = None) -> tuple[Any, Ids]:
        """(keys, counts) of the n most frequent keys, or of all; equally frequent ones as they first appeared."""
        index, groups, states = self._groups._snapshot()
        counts = states[COUNT][0]
        wanted = groups if n is None else min(_arguments.whole("n", n, 2**63 - 1), groups)
        places = np.arange(groups)
        if 0 < wanted < groups:  # only those that may be among them are sorted
            places = np.flatnonzero(counts >= np.partition(counts, groups - wanted)[groups - wanted])
        ids = places[np.argsort(-counts[places], kind="stable")[:wanted]]
        return IndexKeys(index)[ids], counts[ids]

    def get(self, keys: Any) -> Any:
        """How often each element of a column was added, 0 where it was not: int64, as `Index` gives ids."""
        _tensors.check_results(_tensors.array_library(keys), COUNTS)
        column = read_host(keys, "keys")
        ids, states = self._groups._found(column)
        found = ids >= 0
        counts = np.zeros(column.length, COUNTS)
        if states:
            counts[found] = states[COUNT][0][ids[found]]
        return column.give_numbers(counts, True)

    def __getitem__(self, key: Any) -> int:
        """How often this one element was added; 0 if it was not."""
        return int(np.asarray(self.get([key]))[0])

    @property
    def total(self) -> int:
        """How many elements were added; nulls that are dropped are none."""
        counts = self.counts
        return (int((counts >> 32).sum()) << 32) + int((counts & 0xFFFFFFFF).sum())  # exact beyond 2^63, too

    def __len__(self) -> int:
        return len(self._groups)

    def __contains__(self, key: object) -> bool:
        """Was this one element added?"""
        return key in self._groups

    def __iter__(self) -> Iterator[Any]:
        return iter(self.keys)

    @property
    def nbytes(self) -> int:
        """Memory held, in bytes."""
        return self._groups.nbytes

    def save(self, path: str | os.PathLike[str], overwrite: bool = False, compression: str | None = None) -> None:
        """Write keys and counts to a file that `gh.load` reads, and counts on with, as `Table.save` does.

        Keys of the loaded counter come back as numpy's arrays, whichever library the first batch was of.
        """
        self._saving[0](self, path, overwrite, compression)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self._saving[1](self, {"threads": self._groups._index._settings[2]}, protocol)

    def __repr__(self) -> str:
        size = len(self)
        return f"<pygpuhash.Counter of {size} key{'' if size == 1 else 's'}, {self.nbytes} bytes>"
