"""Checks of ordered backends: every ordered answer against a sorted list."""

from __future__ import annotations

import threading
from typing import Any, Literal

import numpy as np

from pygpuhash._conformance.arrays import patterns, unique_keys
from pygpuhash._conformance.harness import Failure, Target, check, expect, same

Array = np.ndarray[Any, Any]


def _sort_key(keys: Array) -> Array:
    """Unsigned numbers of the order in which a table keeps `keys`: floats as IEEE 754's totalOrder has them."""
    bits = keys.view(f"u{keys.dtype.itemsize}")
    top = bits.dtype.type(1) << bits.dtype.type(8 * keys.dtype.itemsize - 1)
    if keys.dtype.kind in "imM":
        return np.asarray(bits ^ top)
    if keys.dtype.kind == "f":
        return np.asarray(np.where(bits & top, ~bits, bits | top))
    return np.asarray(bits)


class _Model:
    """Sorted keys with their values."""

    def __init__(self, keys: Array, values: Array | None) -> None:
        order = np.argsort(_sort_key(keys), kind="stable")
        self.keys = keys[order]
        self.values: Any = None if values is None else values[order]
        self.rank = _sort_key(self.keys)

    def neighbor(self, which: str, asked: Array) -> tuple[Array, Array | None, Array]:
        ranks = _sort_key(asked)
        side: Literal["left", "right"] = "left" if which in ("lower_bound", "predecessor") else "right"
        at = np.searchsorted(self.rank, ranks, side) - (which in ("floor", "predecessor"))
        found = (at >= 0) & (at < len(self.keys))
        if not len(self.keys):
            zeros = np.zeros(len(asked), self.keys.dtype)
            return zeros, None if self.values is None else np.zeros(len(asked), self.values.dtype), found
        inside = np.where(found, at, 0)
        keys = np.where(found, self.keys[inside].view(self.rank.dtype), 0).astype(self.rank.dtype)
        values = None if self.values is None else np.where(found, self.values[inside], 0).astype(self.values.dtype)
        return keys.view(self.keys.dtype), values, found

    def between(self, low: Any, high: Any) -> slice:
        first = 0 if low is None else int(np.searchsorted(self.rank, _sort_key(np.atleast_1d(low)), "left")[0])
        end = (
            len(self.keys)
            if high is None
            else int(np.searchsorted(self.rank, _sort_key(np.atleast_1d(high)), "left")[0])
        )
        return slice(first, max(first, end))


def _agrees(t: Any, model: _Model, asked: Array, where: str) -> None:
    """Every ordered verb of the table says what the model says."""
    keys, values = t.export()
    same(f"exported keys {where}", keys, model.keys)
    if values is not None:
        same(f"exported values {where}", values, model.values, keys)
    for verb in ("lower_bound", "successor", "floor", "predecessor"):
        got = getattr(t, verb)(asked)
        wanted = model.neighbor(verb, asked)
        same(f"{verb} finds {where}", got[2], wanted[2], asked)
        same(f"keys of {verb} {where}", got[0], wanted[0], asked)
        if values is not None:
            same(f"values of {verb} {where}", got[1], wanted[1], asked)
    if len(model.keys):
        for verb, i in (("min", 0), ("max", -1)):
            key, value = getattr(t, verb)()
            same(f"{verb} {where}", np.array([key]), model.keys[i : i + 1 or None])
            expect(values is None or value == model.values[i], f"the value of {verb} {where} is {value}")
    low, high = asked[:-1], asked[1:]
    for limit in (1, 5):
        got_keys, got_values, counts = t.range(low, high, limit)
        for i in range(len(low)):
            want = model.between(low[i], high[i])
            n = min(limit, want.stop - want.start)
            expect(counts[i] == n, f"range {i} {where} with limit {limit}: {counts[i]} pairs, expected {n}")
            same(f"range {i} {where} with limit {limit}", got_keys[i, :n], model.keys[want][:n])
            if values is not None:
                same(f"values of range {i} {where}", got_values[i, :n], model.values[want][:n])
    got_keys, got_values, offsets = t.range(low, high)
    expect(offsets[0] == 0 and offsets[-1] == len(got_keys), f"offsets of ranges {where} end at {offsets[-1]}")
    for i in range(len(low)):
        want = model.between(low[i], high[i])
        mine = slice(int(offsets[i]), int(offsets[i + 1]))
        same(f"all of range {i} {where}", got_keys[mine], model.keys[want])
        if values is not None:
            same(f"all values of range {i} {where}", got_values[mine], model.values[want])
    middle = asked[len(asked) // 2]
    for low_end, high_end in ((None, None), (middle, None), (None, middle)):
        got_keys, got_values = t[low_end:high_end]
        same(f"slice {low_end}:{high_end} {where}", got_keys, model.keys[model.between(low_end, high_end)])


def _asked(rng: np.random.Generator, keys: Array, count: int) -> Array:
    """Keys to ask for, in no order: keys of the table, their neighbours in bits, and others."""
    bits = keys.view(f"u{keys.dtype.itemsize}")
    some = bits[rng.integers(0, len(bits), count)] if len(bits) else bits
    one = bits.dtype.type(1)
    every = patterns(bits.dtype.name)
    mixed = np.concatenate([some, some + one, some - one, every[rng.integers(0, len(every), count)]])
    return rng.permutation(mixed).view(keys.dtype)


ORDERED_DTYPES = ("uint32", "uint64", "int32", "int64", "float32", "float64")


@check("insert", "ordered")
def ordered_answers(target: Target) -> None:
    """Neighbours, ranges, slices, export, min and max against a sorted list, over key dtypes, widths and patterns."""
    n = target.pick(2000, 30_000, 300_000)
    for dtype in ORDERED_DTYPES:
        for key, value in target.formats:
            if np.dtype(key).itemsize != np.dtype(dtype).itemsize:
                continue
            rng = target.rng(f"ordered {dtype}{value}")
            bits = np.unique(np.concatenate([unique_keys(rng, n, key), patterns(key)]))
            keys = rng.permutation(bits).view(dtype)
            values = None if value is None else rng.integers(1, 1 << 31, len(keys)).astype(value)
            where = f"with {dtype} keys and {value} values"
            asked = _asked(rng, keys, 40)
            with target.table(dtype, value) as t:
                _agrees(t, _Model(keys[:0], None if values is None else values[:0]), asked, f"{where}, empty")
                for error in (t.min, t.max):
                    _raises_value_error(error, where)
                t.insert(keys, values)
                _agrees(t, _Model(keys, values), asked, where)
                gone = rng.random(len(keys)) < 0.8
                t.erase(keys[gone])
                left = _Model(keys[~gone], None if values is None else values[~gone])
                _agrees(t, left, asked, f"{where}, after erase")
                if "flush" in target.traits:
                    t.flush()
                    _agrees(t, left, asked, f"{where}, after flush")


def _raises_value_error(call: Any, where: str) -> None:
    try:
        call()
    except ValueError:
        return
    raise Failure(f"{call.__name__} of an empty table {where} raised no ValueError")


@check("insert", "ordered")
def ordered_runs(target: Target) -> None:
    """Keys in ascending and descending order, and queues and stacks of them, keep their order."""
    n = target.pick(3000, 50_000, 500_000)
    key, value = target.pair
    up = np.arange(1, n + 1).astype(key)
    for name, batch in (("ascending", up), ("descending", up[::-1].copy())):
        with target.table(key, value) as t:
            values = None if value is None else batch.astype(value)
            for part in np.array_split(np.arange(n), 50):
                t.insert(batch[part], None if values is None else values[part])
            model = _Model(batch, values)
            _agrees(t, model, _asked(target.rng(name), batch, 20), name)
            # A queue gives the least keys up, a stack the largest; both then take new ones.
            for which, gone in (("queue", up[: n // 2]), ("stack", up[: n // 2 : -1])):
                for part in np.array_split(gone, 30):
                    t.erase(part)
                here = up[~np.isin(up, gone)]
                _agrees(
                    t,
                    _Model(here, None if value is None else here.astype(value)),
                    _asked(target.rng(which), up, 20),
                    f"{name}, a {which} half gone",
                )
                t.insert(gone, None if value is None else gone.astype(value))
            _agrees(t, model, _asked(target.rng("again"), up, 20), f"{name}, again")


@check("insert", "ordered")
def ordered_beside_writers(target: Target) -> None:
    """Neighbours and ranges beside writers of other keys: keys that no batch touches are seen, in order, once."""
    n = target.pick(4000, 40_000, 400_000)
    key, value = target.pair
    fixed = (np.arange(n) * 8).astype(key)
    moving = (np.arange(n) * 8 + 3).astype(key)
    with target.table(key, value) as t:
        t.insert(fixed, None if value is None else fixed.astype(value))
        stop = threading.Event()
        failure: list[BaseException] = []

        def write() -> None:
            rng = target.rng("writer")
            try:
                while not stop.is_set():
                    some = rng.permutation(moving)[: n // 2]
                    t.insert(some, None if value is None else some.astype(value))
                    t.erase(some)
            except BaseException as error:
                failure.append(error)

        writer = threading.Thread(target=write)
        writer.start()
        try:
            rng = target.rng("reader")
            for _ in range(target.pick(10, 30, 100)):
                starts = rng.integers(0, n - 40, 200)
                found, values, there = t.lower_bound(fixed[starts])
                expect(there.all(), "lower_bound lost keys that were not erased")
                same("lower_bound of keys that are there", found, fixed[starts])
                keys, values, offsets = t.range(fixed[starts], fixed[starts + 32])
                for i, start in enumerate(starts):
                    mine = keys[offsets[i] : offsets[i + 1]]
                    expect((np.diff(mine.astype(np.int64)) > 0).all(), f"range {i} is not in order, or has a key twice")
                    same("the keys that stay", mine[mine % 8 == 0], fixed[start : start + 32])
                    if values is not None:
                        same("their values", values[offsets[i] : offsets[i + 1]], mine.astype(value), mine)
        finally:
            stop.set()
            writer.join()
        if failure:
            raise failure[0]
