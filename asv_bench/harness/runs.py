"""One table under test: every operation timed and its result verified.

A `TableRun` holds n keys and goes through the states empty -> loaded -> halved. `measure` brings the table into the
state that an operation starts from, outside the clock, and times the operation. Before each call the outputs are
poisoned; after it every element is compared with what it must be, on the device.

    insert       n absent keys into the empty table
    find_hit     all n keys, in another order
    find_miss    n absent keys
    assign       insert_or_assign of all n keys, all present
    accumulate   adds 1 to all n values
    erase        half of the keys, which leaves the table halved
    mixed        n operations in one concurrent batch on the halved table, in random order, no key twice: 20 % insert
                 (of erased keys), 20 % erase, 30 % find of present keys, 30 % find of absent keys
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

import pygpuhash as gh

from .devices import Device
from .keys import dtype_of, random_keys, shuffled

OPERATIONS = ("insert", "find_hit", "find_miss", "assign", "accumulate", "erase", "mixed")
STARTS = {"insert": (), "erase": ("insert",), "mixed": ("insert", "erase")}  # others: ("insert",), and they keep it
MIXTURE = (0.2, 0.2, 0.3, 0.3)  # insert, erase, find present, find absent
FLIP = 0x5A5A5A5A
POISON = 0xA5


class Wrong(AssertionError):
    """A table returned something else than it must."""


def table_options(backend: str, load: float) -> dict[str, Any]:
    """The arguments of `Table` that make `capacity` keys fill a table of this backend to `load`."""
    if backend == "slab_hash":
        return {"utilization": load}
    return {"max_load_factor": load}


def make_table(
    backend: str, device: Device, load: float, n: int, widths: tuple[int, int], grow: bool = False, **more: Any
) -> gh.Table:
    """A table that n keys fill to `load`. Options in `more` win; None leaves an option out."""
    options = {key: value for key, value in (table_options(backend, load) | more).items() if value is not None}
    return gh.Table(
        backend,
        key_dtype=dtype_of(widths[0]),
        value_dtype=dtype_of(widths[1]),
        capacity=n,
        device=device.name,
        grow=grow,
        **options,
    )


class TableRun:
    """A table of `backend` on `device` that n keys fill to `load`, with its batches and their answers."""

    def __init__(
        self,
        device: Device,
        backend: str,
        load: float,
        n: int,
        widths: tuple[int, int] = (4, 4),
        threads: int | None = None,
        **options: Any,
    ) -> None:
        xp = device.xp
        self.device, self.backend, self.load, self.n, self.widths = device, backend, load, n, widths
        self.table = make_table(backend, device, load, n, widths, threads=threads, seed=1, **options)
        self.values = xp.arange(n, dtype=dtype_of(widths[1]))
        self.keys = random_keys(xp, self.values, widths[0])
        self.order = shuffled(xp, n)
        self.queries = random_keys(xp, self.order, widths[0])
        self.out = xp.empty(n, dtype_of(widths[1]))
        self.mask = xp.empty(n, bool)
        self.state = ""
        self.stored: Callable[[Any], Any] = lambda index: index  # index of a key -> its value in the table
        self._absent: Any = None
        self._mixed: Any = None

    def close(self) -> None:
        """Free the table."""
        self.table.close()

    @property
    def operations(self) -> tuple[str, ...]:
        """What this backend can do."""
        skip = () if "accumulate" in self.table.traits else ("accumulate",)
        return tuple(operation for operation in OPERATIONS if operation not in skip)

    def count(self, operation: str) -> int:
        """Keys in one batch of this operation."""
        return self.n // 2 if operation == "erase" else self.n

    # ---- measuring

    def measure(self, operations: Iterable[str], repeats: int, skip_full: bool = False) -> dict[str, list[float]]:
        """Seconds of each repeat of each operation, after one repeat that does not count.

        skip_full: leave out operations on a table that was filled before, and that find no room there. Of some
        structures the slots of erased keys are free after a flush only.
        """
        seconds: dict[str, list[float]] = {operation: [] for operation in operations}
        for repeat in range(repeats + 1):
            for operation in list(seconds):
                self.bring_to_start(operation)
                try:
                    taken = getattr(self, operation)()
                except gh.TableFull:
                    if not skip_full or not STARTS.get(operation, ("insert",)):
                        raise
                    del seconds[operation]
                    self.state = "full"
                    continue
                if repeat:
                    seconds[operation].append(taken)
        return seconds

    def bring_to_start(self, operation: str) -> None:
        """Do what has to be done before the operation."""
        steps = STARTS.get(operation, ("insert",))
        if self.state == (steps[-1] if steps else "empty"):
            return
        self.table.clear()
        self.state, self.stored = "empty", lambda index: index
        for step in steps:
            getattr(self, step)()

    def _time(self, call: Callable[[Any], Any], n: int) -> tuple[float, Any]:
        mask = self.mask[:n]
        mask.view(np.uint8).fill(POISON)
        seconds = self.device.time(lambda: call(mask))
        return seconds, mask.view(np.uint8)

    # ---- the operations: each leaves the table in a known state and returns its seconds

    def insert(self) -> float:
        """All keys into the empty table."""
        seconds, status = self._time(lambda mask: self.table.insert(self.keys, self.values, out=mask), self.n)
        self._all("insert: inserted", status == 1)
        self.state = "insert"
        return seconds

    def find_hit(self) -> float:
        """All keys, in another order than they were inserted in."""
        return self._find(self.queries, self.order)

    def find_miss(self) -> float:
        """As many absent keys."""
        self._poison_values()
        seconds, status = self._time(lambda mask: self.table.find(self.absent, out=self.out, found=mask), self.n)
        self._all("find: absent", status == 0)
        self._all("find: value 0 for an absent key", self.out == 0)
        return seconds

    def assign(self) -> float:
        """New values for all keys."""
        flipped = self.values ^ self.values.dtype.type(FLIP)
        seconds, status = self._time(lambda mask: self.table.insert_or_assign(self.keys, flipped, out=mask), self.n)
        self._all("assign: present", status == 0)
        self.stored = lambda index: index ^ FLIP
        self._find(self.queries, self.order)
        return seconds

    def accumulate(self) -> float:
        """Add 1 to all values."""
        ones = self.device.xp.ones(self.n, self.values.dtype)
        seconds, status = self._time(lambda mask: self.table.accumulate(self.keys, ones, out=mask), self.n)
        self._all("accumulate: present", status == 0)
        before = self.stored
        self.stored = lambda index: before(index) + 1
        self._find(self.queries, self.order)
        return seconds

    def erase(self) -> float:
        """The first half of the queries."""
        half = self.queries[: self.n // 2]
        seconds, status = self._time(lambda mask: self.table.erase(half, out=mask), len(half))
        self._all("erase: erased", status == 1)
        self.state = "erase"
        return seconds

    def mixed(self) -> float:
        """All kinds of operations in one batch."""
        ops, keys, values, index = self.mixture
        self._poison_values()
        seconds, status = self._time(
            lambda mask: self.table.execute(ops, keys, values, out=self.out, found=mask), self.n
        )
        self.state = "mixed"
        found = index >= 0
        self._all("mixed: status", status == found)
        is_hit = (ops == int(gh.Op.FIND)) & found
        expected = self.stored(index.astype(self.out.dtype)).astype(self.out.dtype)
        self._all("mixed: values", self.out == self.device.xp.where(is_hit, expected, self.out.dtype.type(0)))
        return seconds

    def _find(self, keys: Any, index: Any) -> float:
        self._poison_values()
        seconds, status = self._time(lambda mask: self.table.find(keys, out=self.out, found=mask), len(keys))
        self._all("find: found", status == 1)
        self._all("find: value", self.out == self.stored(index.astype(self.out.dtype)).astype(self.out.dtype))
        return seconds

    # ---- batches and verification

    @property
    def absent(self) -> Any:
        """n keys that are not in the table."""
        if self._absent is None:
            index = self.device.xp.arange(self.n, 2 * self.n, dtype=np.uint64)
            self._absent = random_keys(self.device.xp, index, self.widths[0])
        return self._absent

    @property
    def mixture(self) -> tuple[Any, Any, Any, Any]:
        """(op codes, keys, values, index of each key or -1 where the status must be 0) of the mixed batch."""
        if self._mixed is None:
            self._mixed = self._make_mixture()
        return self._mixed

    def _make_mixture(self) -> tuple[Any, Any, Any, Any]:
        xp, half = self.device.xp, self.n // 2
        inserts, erases = (math.floor(self.n * share) for share in MIXTURE[:2])
        hits = min(math.floor(self.n * MIXTURE[2]), self.n - half - erases)  # the halved table has no more keys
        misses = self.n - inserts - erases - hits
        parts = ((gh.Op.INSERT, inserts), (gh.Op.ERASE, erases), (gh.Op.FIND, hits + misses))
        ops = xp.concatenate([xp.full(many, int(op), np.uint8) for op, many in parts])
        present = xp.concatenate([self.order[:inserts], self.order[half : half + erases + hits]]).astype(np.int64)
        keys = xp.concatenate([random_keys(xp, present, self.widths[0]), self.absent[:misses]])
        index = xp.concatenate([present, xp.full(misses, -1, np.int64)])
        place = shuffled(xp, self.n, salt=7).astype(np.int64)
        index = index[place]
        return ops[place], keys[place], index.astype(self.values.dtype), index

    def _poison_values(self) -> None:
        self.out.view(np.uint8).fill(POISON)

    def _all(self, what: str, correct: Any) -> None:
        if not bool(correct.all()):
            bad = int(correct.size - correct.sum())
            where = f"{self.backend} on {self.device.name}, load {self.load}"
            raise Wrong(f"{where}: {what}: {bad} of {correct.size} elements are wrong")
