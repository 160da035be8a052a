"""Equal keys of batches on GPUs, combined before they travel to their shards.

`accumulate` of a table in shards sends one row for each key of a batch, with what its values come to, where a sample
says that most rows repeat a key: their card finds the groups in a third of the time that rows take to their shards and
in tables. The answer is that of the first row of each key; all other rows have found it there. All cards work at the
same time: each step is queued for all batches before the host waits for the first.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from pygpuhash import _arrays, _core, _cuda, _device_arrays, _device_groups, _routes, _streams, _tensors
from pygpuhash.errors import GpuHashError, TableFull

__all__ = ["accumulate"]

_LIBRARIES = ("cupy", "torch")  # that can be asked for arithmetic
_FEWEST = 1 << 25  # rows of a batch: of fewer, a sample takes too large a part of the call
_SAMPLE = 1 << 15
_REPEATED = 2  # rows of each key, from which on it pays
_DONE, _NOT = 1, 0  # statuses of a row that has added its key, and of one that has not
_SIGNED: dict[int, np.dtype[Any]] = {4: np.dtype(np.int32), 8: np.dtype(np.int64)}


def accumulate(
    kinds: _routes.Kinds, keys: Any, values: Any, op: Any, call: Callable[[Any, Any], Any]
) -> tuple[Any] | None:
    """(what the call answers for these keys,) with combined rows; None where these are not combined.

    keys, values : of `accumulate`. call : carries out rows, and gives their mask, or one for each batch.
    """
    several = isinstance(keys, (list, tuple))
    found = list(_batches(kinds, keys if several else [keys], values, op))
    batches = [batch for batch in found if batch is not None]
    if not batches or len(batches) < len(found):
        return None
    try:
        if not _repeat(batches):
            return None
        _combine(batches, kinds, op)
    except Exception as error:
        if _device_groups.is_memory_short(error):
            return None  # rows that are not combined take less
        raise
    rows = [batch.distinct for batch in batches]
    totals = [batch.totals for batch in batches]
    amounts = totals if several and _arrays.on_device(totals[0]) else totals[0]
    try:
        masks = call(rows if several else rows[0], amounts)
    except TableFull as error:
        error.status = _statuses(batches, error.status)
        if not several:
            error.status = error.status.reshape(batches[0].shape)
        raise
    answers = _spread(batches, masks if several else [masks])
    return (answers if several else answers[0],)


def _batches(kinds: _routes.Kinds, keys: Any, values: Any, op: Any) -> Iterator[_Batch | None]:
    """What can be combined; None where a batch, or an argument, is left to the calls of each row."""
    each = isinstance(values, (list, tuple))
    if not _device_groups.KERNELS or (each and len(values) != len(keys)) or not _served(kinds, op):
        yield None
        return
    for i, array in enumerate(keys):
        given = values[i] if each else values
        yield _Batch.of(kinds, array, given) if _tensors.library_of(array) in _LIBRARIES else None


def _served(kinds: _routes.Kinds, op: Any) -> bool:
    """Are keys and values numbers as groups have them, and does the operation give the same in two steps?"""
    values = kinds.values
    if values is None or op not in ("add", "min", "max"):
        return False
    plain = all(
        dtype.kind in "iuf" and dtype.itemsize in _SIGNED and dtype == store
        for dtype, store in ((kinds.keys, kinds.key_store), (values, kinds.value_store))
    )
    return plain and (op == "add" or values.kind in "iu")


class _Batch:
    """The rows of a batch, and one row for each of its keys."""

    def __init__(self, array: Any, ordinal: int, given: Any, one: Any) -> None:
        """given : values, one for each row; None: `one` is that of all rows."""
        self.array, self.ordinal, self.given, self.one = array, ordinal, given, one
        self.shape, self.n = tuple(array.shape), math.prod(array.shape)
        self.keeper = _streams.stream_keeper(array, ordinal)
        with _cuda.current(ordinal):
            self.bits = _signed(array.reshape((-1,)))  # libraries have most functions for signed integers alone
        self.distinct: Any = None
        self.totals: Any = None

    @classmethod
    def of(cls, kinds: _routes.Kinds, array: Any, values: Any) -> _Batch | None:
        found = _core.ready(array)
        assert kinds.values is not None
        assert kinds.value_store is not None
        if found is None or found[2] != kinds.keys or not _FEWEST <= math.prod(found[1]) <= _device_groups.MOST:
            return None
        _, shape, _, ordinal, stream = found
        if _cuda.is_capturing(stream):
            return None
        if _arrays.on_device(values):
            own = _core.ready(values)
            if own is None or own[1:] != (shape, kinds.values, ordinal, stream):
                return None
            return cls(array, ordinal, values, None)
        try:
            one = _arrays.to_store(values, kinds.values, kinds.value_store, "values")
        except (GpuHashError, TypeError, ValueError):
            return None  # the call says so
        return None if one.ndim else cls(array, ordinal, None, one)

    def place(self, array: Any) -> _device_groups.Place:
        found = _core.ready(array)
        return _device_groups.Place(self.ordinal, array, None if found is None else (found[0], found[4]), {})

    def groups(self, array: Any, first: bool, **asked: Any) -> Callable[[], _device_groups.Groups]:
        """Queue what finds the groups of an array on the card."""
        where = self.place(array)
        with where.on_device():
            finish = _device_groups.begin(where, _SIGNED[array.dtype.itemsize], first, **asked)

        def wait() -> _device_groups.Groups:
            with where.on_device():
                return finish()

        return wait

    def on_host(self, array: Any) -> np.ndarray[Any, Any]:
        stream = _core.stream_handle(self.keeper)
        return _device_arrays.to_host(array, self.ordinal, stream, "results").reshape(-1)

    def sample(self) -> Callable[[], _device_groups.Groups]:
        """Queue counts of a sample's keys."""
        with _cuda.current(self.ordinal):
            part = self.bits[:: _arrays.step_of_sample(self.n, _SAMPLE)]
            part = part.contiguous() if _tensors.library_of(part) == "torch" else part.copy()
        return self.groups(part, False, counts=True)

    def keys_at_least(self, sample: _device_groups.Groups) -> float:
        """How many keys the batch has, by Chao's estimate for what is in a sample once and twice.

        A. Chao, "Nonparametric estimation of the number of classes in a population", 1984.
        """
        times = self.on_host(sample.counts)
        once, twice = int((times == 1).sum()), int((times == 2).sum())
        if once and not twice:
            return float(self.n)  # however many there are
        return len(times) + once * once / (2 * max(twice, 1))

    def begin(self, dtype: np.dtype[Any], op: str) -> Callable[[], _device_groups.Groups]:
        """Queue the groups, with what their values come to."""
        if self.given is None:
            return self.groups(self.bits, False, counts=op == "add")
        with _cuda.current(self.ordinal):
            flat = self.given.reshape((-1,))
        return self.groups(self.bits, False, values=_device_groups.Values(flat, dtype, (_result(op),)))

    def take(self, found: _device_groups.Groups, dtype: np.dtype[Any], op: str) -> None:
        """One row for each group."""
        with _cuda.current(self.ordinal):
            self.distinct = found.distinct.view(self.array.dtype)
            if self.given is not None:
                self.totals = _as_values(found.aggregates[_result(op)], dtype)
            elif op == "add":
                self.totals = _times(found.counts, self.one, dtype)
            else:
                self.totals = self.one

    # ---- the way back

    def begin_added(self, mask: Any) -> Any:
        """Queue which rows have a key that the call has added; None where there is none, True for all rows."""
        with _cuda.current(self.ordinal):
            bits = _signed(self.distinct)
            added = bits[mask]
        if not len(added) or len(added) == len(bits):
            return len(added) != 0 or None
        where = self.place(self.bits)
        with where.on_device():
            return _device_groups.isin(where, added, _SIGNED[added.dtype.itemsize])

    def begin_first(self, added: Any) -> tuple[Any, Callable[[], _device_groups.Groups]]:
        """(numbers of these rows, or None for all; the groups of their keys, queued)."""
        if added is True:
            return None, self.groups(self.bits, True, rows=True)
        with _cuda.current(self.ordinal):
            library = sys.modules[_tensors.library_of(added)]
            rows = library.flatnonzero(added) if hasattr(library, "flatnonzero") else library.nonzero(added)[:, 0]
            keys = self.bits[rows]
        return rows, self.groups(keys, True, rows=True)

    def answers(self, first: tuple[Any, Callable[[], _device_groups.Groups]] | None) -> Any:
        """True for the first row of each key that the call has added."""
        found = None if first is None else first[1]().rows
        with _cuda.current(self.ordinal):
            answers = _device_groups.maker(self.array, self.ordinal)((self.n,), np.dtype(bool))
            answers[:] = False
            if first is not None:
                answers[found if first[0] is None else first[0][found]] = True
            return answers.reshape(self.shape)

    def statuses(self, of_keys: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """The statuses of all rows, on the host: rows of a key that has none of its own have found it there."""
        found = self.groups(self.bits, False, codes=True)()
        codes, order = self.on_host(found.codes), np.argsort(self.on_host(found.distinct))
        own = np.empty_like(of_keys)
        own[order] = of_keys[np.argsort(self.on_host(_signed(self.distinct)))]
        first = np.empty(len(own), np.int64)
        first[codes[::-1]] = np.arange(self.n)[::-1]
        status: np.ndarray[Any, Any] = np.where(own == _DONE, _NOT, own).astype(own.dtype)[codes]
        status[first] = own
        return status


def _repeat(batches: list[_Batch]) -> bool:
    """Do so many rows repeat a key that it pays to combine them?"""
    samples = [batch.sample() for batch in batches]
    keys = sum(batch.keys_at_least(sample()) for batch, sample in zip(batches, samples, strict=True))
    return bool(keys * _REPEATED <= sum(batch.n for batch in batches))


def _combine(batches: list[_Batch], kinds: _routes.Kinds, op: str) -> None:
    assert kinds.values is not None
    begun = [batch.begin(kinds.values, op) for batch in batches]
    for batch, finish in zip(batches, begun, strict=True):
        batch.take(finish(), kinds.values, op)


def _spread(batches: list[_Batch], masks: list[Any]) -> list[Any]:
    """The answers of all rows from those of their keys."""
    added = [batch.begin_added(mask) for batch, mask in zip(batches, masks, strict=True)]
    firsts = [None if own is None else batch.begin_first(own) for batch, own in zip(batches, added, strict=True)]
    return [batch.answers(first) for batch, first in zip(batches, firsts, strict=True)]


def _statuses(batches: list[_Batch], of_keys: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    found, first = [], 0
    for batch in batches:
        found.append(batch.statuses(of_keys.reshape(-1)[first : first + len(batch.distinct)]))
        first += len(batch.distinct)
    return np.concatenate(found)


def _result(op: str) -> str:
    return "sum" if op == "add" else op


def _signed(array: Any) -> Any:
    """The same bits as integers, for which libraries have more functions than for others."""
    return array.view(_device_groups.own_dtype(array, _SIGNED[array.dtype.itemsize]))


def _times(counts: Any, one: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> Any:
    """So many times one value, as a table adds it up: integers modulo their width."""
    return _as_values(counts * (float(one) if dtype.kind == "f" else int(one.astype(np.int64))), dtype)


def _as_values(totals: Any, dtype: np.dtype[Any]) -> Any:
    """Totals of 8 bytes, or extremes, in the dtype of a table; integers modulo its width."""
    if dtype.kind != "f":
        narrow = _converted(_signed(totals), _SIGNED[dtype.itemsize])
        return narrow.view(_device_groups.own_dtype(narrow, dtype))
    return _converted(totals, dtype)


def _converted(array: Any, dtype: np.dtype[Any]) -> Any:
    own = _device_groups.own_dtype(array, dtype)
    return array.to(own) if _tensors.library_of(array) == "torch" else array.astype(own)
