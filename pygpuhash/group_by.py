"""`GroupBy`: aggregates of groups that take rows batch after batch."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial as bound
from operator import call, setitem
from typing import Any, ClassVar, Literal, Never

import numpy as np
from numpy.typing import NDArray

from pygpuhash import partial, verbs
from pygpuhash.columns import Column, plain
from pygpuhash.errors import InvalidArgument, NoMemory
from pygpuhash.index import Ids, Index, IndexKeys, read_host

__all__ = ["OPS", "GroupBy", "columns_of"]

OPS = ("count", "sum", "min", "max", "mean")
_INDEX = np.dtype(np.int64)
_FLOAT = np.dtype(np.float64)
Array = np.ndarray[Any, Any]
States = dict[str, tuple[Array, ...]]


def columns_of(name: str, op: str) -> tuple[str, ...]:
    """The names of an aggregate's arrays: a mean has sums, and the rows that they are of."""
    return (f"{name}.sum", f"{name}.rows") if op == "mean" else (name,)


class GroupBy:
    """Distinct keys, and for each of them aggregates of the values that came with it, over any number of batches.

        paid = gh.GroupBy({"rows": "count", "paid": "sum", "low": "min"})
        for batch in batches:
            paid.add(batch["user"], paid=batch["price"], low=batch["price"])
        users, results = paid.result()          # results["paid"], results["low"]

    A batch that fails, whatever it is that fails, leaves the groups as they were before it. Any number of threads may
    add to one; a batch is added as a whole.

    Parameters
    ----------
    aggregates : {name: op}, of "count", "sum", "min", "max" and "mean". Dtypes of results are those of `gh.partial`.
    keys : the type of the keys, as `Index` takes it; None for that of the first batch.
    nulls, floats, threads, seed, capacity : as for `Index`.
    """

    __slots__ = ("__weakref__", "_index", "_lock", "_make", "_ops", "_state")
    _saving: ClassVar[Any] = None  # (save, reduce) of pygpuhash.saved, which sets this

    def __init__(
        self,
        aggregates: Mapping[str, str],
        keys: Any = None,
        *,
        nulls: Literal["group", "drop", "refuse"] = "group",
        floats: Literal["numbers", "bits"] = "numbers",
        threads: int | None = None,
        seed: int | None = None,
        capacity: int = 0,
    ) -> None:
        self._ops = _checked(aggregates)
        if keys is not None and plain.schema_of(keys) is None:
            raise TypeError(f"keys is a {type(keys).__name__}, not a type such as str: pass columns to add")
        self._make: Callable[[], Index] = bound(
            Index, keys, nulls=nulls, floats=floats, threads=threads, seed=seed, capacity=capacity
        )
        self._index = self._make()  # has more keys than there are groups only while a batch is added
        self._state: tuple[int, States] = (0, {})  # groups; arrays with room for them, {} before the first rows
        self._lock = threading.Lock()

    # ---- adding

    def add(self, keys: Any, /, *unnamed: Never, **values: Any) -> None:
        """Add rows: keys as `Index` takes them, and for each aggregate but counts its values, by its name.

        Values are one number or time for each key, or one for all. Those of every batch have one type; integers, and
        floats, may be of several widths.

        Raises InvalidArgument for names that do not fit the aggregates, ValueError for values of another length,
        TypeError for keys and values of types that do not belong together, and `NoMemory`.
        """
        if unnamed:
            raise TypeError("values have no names: pass each by its aggregate's, as add(keys, paid=values)")
        self._check_names(values)
        counts_only = all(op == "count" for op in self._ops.values())
        with self._held():
            ids, shape = self._added(keys)
            if counts_only:
                self._count(ids if ids.min(initial=0) >= 0 else ids[ids >= 0])
                return
            if len(shape) != 1:
                raise ValueError(f"keys have shape {shape}: pass a one-dimensional column")
            codes, touched = _renumbered(ids, self._index._settings[2])
            parts = {
                name: partial.started(op, values.get(name), codes, touched.size, name).columns
                for name, op in self._ops.items()
            }
            if ids.size:  # an empty list of values has no type
                self._put(touched, parts)

    def merge(self, other: GroupBy) -> None:
        """Add all rows that another one with the same aggregates has had. Two threads may merge two crosswise."""
        if not isinstance(other, GroupBy):
            raise TypeError(f"other is a {type(other).__name__}, not a GroupBy: use add for columns")
        if other._ops != self._ops:
            raise InvalidArgument(f"other has the aggregates {other._ops}, and this has {self._ops}: make both alike")
        index, groups, states = other._snapshot()
        if not groups:
            return
        with self._held():
            assert index._core is not None
            empty = not len(self._index)
            self._append(index._core.keys(0, groups), states)
            if empty:
                self._index._give = index._give

    def _append(self, keys: Any, states: States, check: Callable[[Ids], None] = lambda _: None) -> None:
        """Add distinct keys, for each of which there are states; within `_held`. check: of their ids, may raise."""
        ids, _ = self._added(keys)
        check(ids)
        kept = np.flatnonzero(ids >= 0)  # not nulls that are dropped here
        self._put(ids[kept], {name: tuple(array[kept] for array in own) for name, own in states.items()})

    def _check_names(self, values: dict[str, Any]) -> None:
        for name in values:
            op = self._ops.get(name)
            if op is None:
                raise InvalidArgument(f"{name}= is no aggregate: there are {', '.join(map(repr, self._ops))}")
            if op == "count":
                raise InvalidArgument(f"{name}= is a count, which has no values: leave it out")
        for name, op in self._ops.items():
            if op != "count" and values.get(name) is None:
                raise InvalidArgument(f"{op} {name!r} is without values: pass {name}=values, one for each key")

    @contextmanager
    def _held(self) -> Iterator[None]:
        """No other thread changes anything meanwhile; what fails leaves no key behind."""
        self._index._refuse_forked()
        with self._lock:
            self._forget()  # what an earlier batch had no memory to forget
            try:
                yield
            except BaseException:
                with suppress(MemoryError):
                    self._forget()
                raise

    def _forget(self) -> None:
        """Take a new index, where a batch has failed after some of its keys were added."""
        groups = self._state[0]
        if len(self._index) == groups:
            return
        fresh = self._make()
        if groups:
            assert self._index._core is not None
            fresh.add(self._index._core.keys(0, groups))
            fresh._give = self._index._give
        self._index = fresh

    def _added(self, keys: Any) -> tuple[Ids, tuple[int, ...]]:
        """(the id of each element, the shape of the column)."""
        try:
            column, ids, _ = self._index.added(keys)
            return ids, column.shape
        except NoMemory as error:
            if error.status is not None:
                error.status = np.full_like(error.status, 3)  # no key at all was added
            raise

    def _count(self, ids: Ids) -> None:
        groups = len(self._index)
        old = self._state[1]
        states: States = {name: (_with_room(old[name][0] if old else None, groups, _INDEX),) for name in self._ops}
        self._commit([bound(np.add.at, own[0], ids, 1) for own in states.values()], groups, states)

    def _put(self, ids: Ids, parts: States) -> None:
        """Combine the states of some groups, each of which is named once, with what there is."""
        old, _ = self._state
        groups = len(self._index)
        known = np.flatnonzero(ids < old)
        both = np.concatenate((known, np.arange(ids.size)))
        starts = np.array([0, known.size])
        states, writes = {}, []
        for name, op in self._ops.items():
            new = parts[name]
            own = self._state[1].get(name)
            if own is not None and (known.size or own[0].dtype != new[0].dtype):
                there = tuple(array[ids[known]] for array in own)
                new = _combined(op, name, [there, new], both, ids.size, starts)
            held = own or (None,) * len(new)
            states[name] = tuple(_with_room(to, groups, part.dtype) for to, part in zip(held, new, strict=True))
            writes += [bound(setitem, to, ids, part) for to, part in zip(states[name], new, strict=True)]
        self._commit(writes, groups, states)

    def _commit(self, writes: Sequence[Callable[[], Any]], groups: int, states: States) -> None:
        # None of these fails, and between calls that map makes no signal is handled: Ctrl-C finds all done, or none.
        steps: list[Any] = [*writes, bound(setattr, self, "_state", (groups, states))]
        list(map(call, steps))

    # ---- results

    def result(self) -> tuple[Any, dict[str, Array]]:
        """(distinct keys, {name: an array}), in the order in which keys first appeared.

        Keys are of the library of the first batch, as `Index.keys` has it.
        """
        index, groups, states = self._snapshot()
        known = {name: partial.State(op, states[name]) for name, op in self._ops.items()}
        return partial.finish(partial.Partial(IndexKeys(index)[:groups], known))

    def _snapshot(self) -> tuple[Index, int, States]:
        """(index, groups, copies of the states), all of one moment; arrays of floats where nothing was added yet."""
        with self._held():
            groups, states = self._state
            if not states:
                return self._index, 0, {name: _nothing(op) for name, op in self._ops.items()}
            return (
                self._index,
                groups,
                {name: tuple(array[:groups].copy() for array in own) for name, own in states.items()},
            )

    @property
    def keys(self) -> IndexKeys:
        """The keys in the order of their first appearance, as `Index.keys` has them."""
        with self._held():
            return IndexKeys(self._index)

    @property
    def aggregates(self) -> dict[str, str]:
        """{name: op}."""
        return dict(self._ops)

    def __len__(self) -> int:
        self._index._refuse_forked()
        return self._state[0]

    def __contains__(self, key: object) -> bool:
        """Is this one element a key?"""
        return bool(self._found(read_host([key], "key"))[0][0] >= 0)

    def _found(self, column: Column) -> tuple[Ids, States]:
        """(ids of keys, -1 where they are absent; the states, {} where there are none), without waiting for a batch."""
        groups, states = self._state  # before the index, whose first keys stay whatever fails
        ids = self._index._find(column)
        ids[ids >= groups] = -1
        return ids, states

    @property
    def nbytes(self) -> int:
        """Memory held, in bytes."""
        return self._index.nbytes + sum(array.nbytes for own in self._state[1].values() for array in own)

    def save(self, path: str | os.PathLike[str], overwrite: bool = False, compression: str | None = None) -> None:
        """Write keys and states to a file that `gh.load` reads, and goes on with, as `Table.save` does.

        Keys of what is loaded come back as numpy's arrays, whichever library the first batch was of.
        """
        self._saving[0](self, path, overwrite, compression)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self._saving[1](self, {"threads": self._index._settings[2]}, protocol)

    def __repr__(self) -> str:
        ops = ", ".join(f"{name}: {op}" for name, op in self._ops.items())
        return f"<pygpuhash.GroupBy of {ops}; {len(self)} group{'' if len(self) == 1 else 's'}, {self.nbytes} bytes>"


def _checked(aggregates: Any) -> dict[str, str]:
    if not isinstance(aggregates, Mapping) or not aggregates:
        raise InvalidArgument(f"aggregates={aggregates!r:.80}: pass a dict of one at least, as {{'rows': 'count'}}")
    used = {"key"}
    for name, op in aggregates.items():
        if not isinstance(name, str):
            raise TypeError(f"the aggregate {name!r} has no name: names are text")
        if op in ("first", "nunique"):
            raise InvalidArgument(
                f"aggregate {name!r} is {op!r}, whose state is no number for each group: use gh.partial, which has it"
            )
        if op not in OPS:
            raise InvalidArgument(f"aggregate {name!r} is {op!r}: pass one of {', '.join(map(repr, OPS))}")
        for column in columns_of(name, op):
            if column in used:
                raise InvalidArgument(
                    f"aggregate {name!r} would be the column {column!r} of a saved file, which another one is: "
                    "choose another name"
                )
            used.add(column)
    return dict(aggregates)


def _renumbered(ids: Ids, threads: int | None) -> tuple[Ids, Ids]:
    """(the number of each row's group among those of the batch, -1 for none; the ids of these)."""
    codes = np.full(ids.size, -1, _INDEX)
    kept: Any = slice(None) if ids.min(initial=0) >= 0 else ids >= 0
    how: dict[str, Any] = {} if threads is None else {"threads": threads}
    given, touched = verbs.factorize(ids[kept], order="first", **how)
    codes[kept] = given
    return codes, np.asarray(touched, _INDEX)


def _combined(op: str, name: str, parts: list[Any], codes: Ids, groups: int, starts: NDArray[np.int64]) -> Any:
    try:
        return partial.combined(op, name, parts, codes, groups, starts).columns
    except TypeError:
        before, now = (own[0].dtype for own in parts)
        raise TypeError(
            f"the {op} {name!r} of these rows is {now}, and that of those before {before}: pass values of one type"
        ) from None


def _with_room(array: Array | None, size: int, dtype: np.dtype[Any]) -> Array:
    """The array in this dtype, with room for so many elements; zeros follow the elements that it had."""
    if array is not None and array.size >= size and array.dtype == dtype:
        return array
    held = 0 if array is None else array.size
    out = np.zeros(held if held >= size else max(size, held + held // 2), dtype)
    if array is not None:
        out[:held] = array
    return out


def _nothing(op: str) -> tuple[Array, ...]:
    """The states of no group."""
    dtypes = {"count": (_INDEX,), "mean": (_FLOAT, _INDEX)}.get(op, (_FLOAT,))
    return tuple(np.empty(0, dtype) for dtype in dtypes)
