"""The backend `sorted` of gpuhash, in Python: an array of keys in order, which binary searches go through.

No hash table, but the baseline that one has to beat: a lookup is log2(n) accesses, a batch of new keys sorts the table
anew. It is the same code on the CPU, with numpy, and on a GPU, with CuPy. Threads share the table one call at a time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pygpuhash as gh


class Backend(gh.Backend):
    """`pygpuhash.Table("sorted", ...)`; what it needs to do for that is here, all else is the base class's."""

    name = "sorted"
    version = "0.1.0"
    summary = "a sorted array and binary search, with numpy or CuPy"
    devices = ("cpu", "cuda")
    traits = ("insert", "accumulate", "grow")

    def start(self) -> None:
        """An empty table. `grow=False` with no capacity is a table of 64 keys."""
        self.capacity = max(self.capacity, 64)
        self._sorted = self.xp.zeros(0, self.key_store)
        self._held = None if self.value_store is None else self.xp.zeros(0, self.value_store)

    def __len__(self) -> int:
        return len(self._sorted)

    def pairs(self) -> tuple[Any, Any]:
        """All keys and values, in the order of the keys' bits."""
        return self._sorted, self._held

    def run(self, op: gh.Op, keys: Any, values: Any, combine: str) -> tuple[Any, Any]:
        """One operation on each key."""
        at, there = self._search(keys)
        status = there.astype(np.uint8)
        if op == gh.Op.FIND:
            return status, None if self._held is None else self._values_at(at, there)
        if op == gh.Op.ERASE:
            return self._erase(keys, at, there), None
        status = self._insert(keys, values, there)
        rest = self.xp.flatnonzero(status == 0)  # what was there, and equal keys of those that were inserted
        if op != gh.Op.INSERT and self._held is not None and len(rest):
            self._update(op, self._search(keys[rest])[0], values[rest], combine)
        return status, None

    def check(self) -> None:
        """Raise `Corrupt` if the keys are not in order, or one is there twice."""
        keys = self._sorted
        if not bool((keys[1:] > keys[:-1]).all()):
            raise gh.Corrupt("sorted: a key is not larger than the one before it")

    def _search(self, keys: Any) -> tuple[Any, Any]:
        """Where keys are, or would have to be, and whether they are there."""
        at = self.xp.searchsorted(self._sorted, keys)
        if not len(self):
            return at, self.xp.zeros(len(keys), bool)
        at = self.xp.minimum(at, len(self) - 1)
        return at, self._sorted[at] == keys

    def _values_at(self, at: Any, there: Any) -> Any:
        if not len(self):
            return self.xp.zeros(len(at), self.value_store)
        return self.xp.where(there, self._held[at], self._held.dtype.type(0))

    def _insert(self, keys: Any, values: Any, there: Any) -> Any:
        """Put in what is absent and has room; of equal keys, one. Statuses of an insert."""
        status = self.xp.zeros(len(keys), np.uint8)
        absent = self.xp.flatnonzero(~there)
        new, first = self.xp.unique(keys[absent], return_index=True)
        if not self.grow and len(self) + len(new) > self.capacity:
            status[absent] = 2  # and those that have room, below
            new, first = new[: self.capacity - len(self)], first[: self.capacity - len(self)]
            status[absent[self.xp.isin(keys[absent], new)]] = 0
        status[absent[first]] = 1
        merged = self.xp.concatenate([self._sorted, new])
        order = self.xp.argsort(merged)
        self._sorted = merged[order]
        if self._held is not None:
            self._held = self.xp.concatenate([self._held, values[absent[first]]])[order]
        self.capacity = max(self.capacity, len(self))
        return status

    def _erase(self, keys: Any, at: Any, there: Any) -> Any:
        status = self.xp.zeros(len(keys), np.uint8)
        present = self.xp.flatnonzero(there)
        _, first = self.xp.unique(keys[present], return_index=True)
        status[present[first]] = 1
        stays = self.xp.ones(len(self), bool)
        stays[at[present]] = False
        self._sorted = self._sorted[stays]
        self._held = None if self._held is None else self._held[stays]
        return status

    def _update(self, op: gh.Op, at: Any, values: Any, combine: str) -> None:
        if op == gh.Op.ASSIGN:
            self._held[at] = values
        elif combine != "add":  # a NaN operand changes nothing, and a stored NaN stays
            counts = values == values
            ufunc = self.xp.minimum if combine == "min" else self.xp.maximum
            with np.errstate(invalid="ignore"):
                ufunc.at(self._held, at[counts], values[counts])
        elif values.dtype.kind == "f":
            self.xp.add.at(self._held, at, values)
        else:  # integers wrap, signed ones as their bits do
            bits = f"u{values.itemsize}"
            self.xp.add.at(self._held.view(bits), at, values.view(bits))
