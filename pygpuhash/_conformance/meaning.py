"""What operations mean: accumulate, execute, and several values per key."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np

from pygpuhash._conformance.arrays import Array, patterns, skewed, unique_keys, values_for
from pygpuhash._conformance.harness import Skipped, Target, check, expect, same, same_set
from pygpuhash.table import Op

UFUNCS = {"add": np.add, "min": np.minimum, "max": np.maximum}
NUMBERS = ("uint32", "uint64", "int32", "int64", "float32", "float64")


@check("insert", "accumulate")
def accumulate(target: Target) -> None:
    """Add, min and max over unsigned, signed and float values of 4 and 8 bytes; few and many equal keys in a batch."""
    n = target.pick(20_000, 200_000, 2_000_000)
    for key, value, op in itertools.product(("uint32", "uint64"), NUMBERS, UFUNCS):
        if (key, f"uint{np.dtype(value).itemsize * 8}") not in target.formats:
            continue
        rng = target.rng(f"{key}{value}{op}")
        distinct = np.unique(np.concatenate([unique_keys(rng, n // 20, key), patterns(key)]))
        with target.table(key, value) as t:
            state: dict[str, Array] = {}
            for at in (rng.integers(0, len(distinct), n), skewed(rng, len(distinct), n)):
                operands = _operands(rng, n, value)
                where = f"accumulate {op} of {value} values by {key} keys"
                fresh = t.accumulate(distinct[at], operands, op=op)
                _expect_accumulated(t, state, distinct, at, operands, op, fresh, where)


def _operands(rng: np.random.Generator, n: int, dtype: str) -> Array:
    """Operands over the whole range of integers (sums wrap around); whole floats, whose sums do not depend on order."""
    if np.dtype(dtype).kind == "f":
        return rng.integers(-1000, 1000, n).astype(dtype)
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, n, dtype=dtype, endpoint=True)


def _expect_accumulated(
    t: Any, state: dict[str, Array], keys: Array, at: Array, operands: Array, op: str, fresh: Array, where: str
) -> None:
    """Compare with numpy; `state` goes from call to call."""
    there = state.setdefault("there", np.zeros(len(keys), bool))
    if "values" not in state:
        neutral = {"add": 0, "min": _most(operands.dtype), "max": _least(operands.dtype)}[op]
        state["values"] = np.full(len(keys), neutral, operands.dtype)
    touched = np.bincount(at, minlength=len(keys)) > 0
    with np.errstate(over="ignore"):
        UFUNCS[op].at(state["values"], at, operands)
    reports = np.bincount(at[fresh], minlength=len(keys))
    same(f"{where}: reports of inserted", reports, (touched & ~there).astype(int), keys)
    there |= touched
    got, found = t.find(keys)
    same(f"{where}: found", found, there, keys)
    same(f"{where}: values", got[there], state["values"][there], keys[there])


@check("insert", "accumulate")
def accumulate_nan(target: Target) -> None:
    """A NaN operand of min and max loses, also among equal keys of a batch; a stored NaN stays."""
    n = target.pick(100_000, 200_000, 1_000_000)
    for key, value, op in itertools.product(("uint32", "uint64"), ("float32", "float64"), ("min", "max")):
        if (key, f"uint{np.dtype(value).itemsize * 8}") not in target.formats:
            continue
        rng = target.rng(f"{key}{value}{op}")
        keys = unique_keys(rng, n // 20, key)
        state = rng.integers(-1000, 1000, len(keys)).astype(value)
        state[rng.random(len(keys)) < 0.1] = np.nan
        at, operands = skewed(rng, len(keys), n), rng.integers(-2000, 2000, n).astype(value)
        operands[rng.random(n) < 0.3] = np.nan
        with target.table(key, value) as t:
            t.insert(keys, state)
            expect(not t.accumulate(keys[at], operands, op=op).any(), f"accumulate {op}: keys were inserted twice")
            stays = np.isnan(state)
            {"min": np.fmin, "max": np.fmax}[op].at(state, at, operands)
            state[stays] = np.nan
            same(f"accumulate {op} of {value} values with NaN by {key} keys", t.find(keys)[0], state, keys)


def _most(dtype: Any) -> Any:
    return np.inf if np.dtype(dtype).kind == "f" else np.iinfo(dtype).max


def _least(dtype: Any) -> Any:
    return -np.inf if np.dtype(dtype).kind == "f" else np.iinfo(dtype).min


@check("insert", "accumulate")
def accumulate_patterns(target: Target) -> None:
    """Accumulate reads and writes every bit pattern as a value."""
    for key, value in target.formats:
        if value is None:
            continue
        keys, stored = patterns(key), np.resize(patterns(value), len(patterns(key)))
        for turn in range(0, len(patterns(value)), target.pick(60, 10, 1)):
            operands = np.resize(np.roll(patterns(value), turn), len(keys))
            for op, ufunc in UFUNCS.items():
                with target.table(key, value, capacity=2 * len(keys)) as t:
                    t.insert(keys, stored)
                    t.accumulate(keys, operands, op=op)
                    with np.errstate(over="ignore"):
                        same(f"accumulate {op} of patterns", t.find(keys)[0], ufunc(stored, operands), keys)


@check("insert")
def execute_distinct(target: Target) -> None:
    """A mixed batch over distinct keys does what the operations do one by one."""
    n = target.pick(20_000, 200_000, 2_000_000)
    for key, value in target.formats:
        rng = target.rng(f"{key}{value}")
        keys = rng.permutation(np.unique(np.concatenate([unique_keys(rng, n, key), patterns(key)])))
        there = rng.random(len(keys)) < 0.5
        old, new = values_for(keys, value), values_for(keys, value, 1)
        ops = rng.choice(_mixed_ops(target, value), len(keys)).astype(np.uint8)
        with target.table(key, value, capacity=len(keys)) as t:
            t.insert(keys[there], None if old is None else old[there])
            got, mask = t.execute(ops, keys, new)
            adds, erases, finds = np.isin(ops, [Op.INSERT, Op.ASSIGN, Op.ACCUMULATE]), ops == Op.ERASE, ops == Op.FIND
            where = f"execute with {key} keys and {value} values"
            same(f"{where}: the mask", mask, np.where(adds, ~there, (erases | finds) & there), keys)
            after = (there | adds) & ~erases
            same(f"{where}: contains", t.contains(keys), after, keys)
            if old is None or new is None:
                continue
            same(f"{where}: found values", got[finds], np.where(there, old, 0)[finds], keys[finds])
            with np.errstate(over="ignore"):
                stored = np.where(ops == Op.ASSIGN, new, np.where(ops == Op.ACCUMULATE, old + new, old))
            same(f"{where}: values", t.find(keys)[0], np.where(after, np.where(there, stored, new), 0), keys)


def _mixed_ops(target: Target, value: str | None) -> list[Op]:
    ops = [Op.NOP, Op.INSERT, Op.ASSIGN, Op.FIND, Op.ERASE]
    return [*ops, Op.ACCUMULATE] if value is not None and "accumulate" in target.traits else ops


@check("insert")
def execute_linearizes(target: Target) -> None:
    """Several operations on one key in a mixed batch take effect in some serial order, whatever the key's bits are."""
    n, most = target.pick(1500, 15_000, 150_000), 4
    pairs = [f for f in target.among(("uint32", "uint32")) if f[1] is not None]
    if not pairs:
        raise Skipped("the backend holds sets only")
    key, value = pairs[0]
    most_value = int(np.iinfo(str(value)).max)
    rng = target.rng()
    keys = np.unique(np.concatenate([unique_keys(rng, n, key), patterns(key)]))
    batch = rng.permutation(np.repeat(keys, rng.integers(1, most + 1, len(keys))))
    ops = rng.choice(_mixed_ops(target, value), len(batch)).astype(np.uint8)
    operands = np.arange(1, len(batch) + 1).astype(value)
    there = rng.random(len(keys)) < 0.5
    with target.table(key, value, capacity=len(keys)) as t:
        t.insert(keys[there], keys[there].astype(value))
        got, mask = t.execute(ops, batch, operands)
        final, found = t.find(keys)
    order = np.argsort(batch, kind="stable")
    starts = np.searchsorted(batch[order], keys)
    for i, mine in enumerate(np.split(order, starts[1:])):
        before = int(keys[i].astype(value)) if there[i] else None
        after = int(final[i]) if found[i] else None
        history = [(Op(ops[j]), int(operands[j]), bool(mask[j]), int(got[j])) for j in mine]
        expect(
            _serial_order_exists(before, history, after, most_value),
            f"key {int(keys[i]):#x} was {before} before the batch and is {after} after it, and no order of "
            f"{[(o.name, v, m, g) for o, v, m, g in history]} (op, operand, mask, value found) explains it",
        )


def _serial_order_exists(
    before: int | None, history: list[tuple[Op, int, bool, int]], after: int | None, most: int
) -> bool:
    return any(_replays(before, order, after, most) for order in itertools.permutations(history))


def _replays(state: int | None, order: tuple[tuple[Op, int, bool, int], ...], after: int | None, most: int) -> bool:
    for op, operand, mask, value in order:
        adds = op in (Op.INSERT, Op.ASSIGN, Op.ACCUMULATE)
        if mask != (False if op == Op.NOP else (state is None) if adds else (state is not None)):
            return False
        if op == Op.FIND and value != (state or 0):
            return False
        if op == Op.ERASE:
            state = None
        elif op == Op.ASSIGN or (adds and state is None):
            state = operand
        elif op == Op.ACCUMULATE and state is not None:
            state = (state + operand) & most
    return state == after


# ---- operations that write and answer a value ------------------------------------------------------------------------


@check("insert", "answers")
def pop(target: Target) -> None:
    """Of equal keys in a batch one is erased and has the value; the others, and absent keys, have 0."""
    n = target.pick(5_000, 50_000, 500_000)
    for key, value in target.formats:
        rng = target.rng(f"{key}{value}")
        keys = rng.permutation(np.unique(np.concatenate([unique_keys(rng, n, key), patterns(key)])))
        there, asked = rng.random(len(keys)) < 0.5, rng.random(len(keys)) < 0.7
        values = values_for(keys, value)
        where = f"pop with {key} keys and {value} values"
        with target.table(key, value, capacity=len(keys)) as t:
            t.insert(keys[there], None if values is None else values[there])
            at = rng.permutation(np.repeat(np.flatnonzero(asked), rng.integers(1, 4, np.count_nonzero(asked))))
            got, mask = t.pop(keys[at])
            popped = np.bincount(at[mask], minlength=len(keys))
            same(f"{where}: elements that popped, per key", popped, (there & asked).astype(int), keys)
            same(f"{where}: contains", t.contains(keys), there & ~asked, keys)
            expect(len(t) == np.count_nonzero(there & ~asked), f"{where}: the size is {len(t)}")
            if values is None:
                expect(got is None, f"{where}: a set has answered values")
            else:
                same(f"{where}: values", got, np.where(mask, values[at], np.zeros_like(values[at])), keys[at])
                kept = there & ~asked
                same(f"{where}: values that stay", t.find(keys)[0][kept], values[kept], keys[kept])


@check("insert", "answers")
def find_or_insert(target: Target) -> None:
    """Of equal keys in a batch one is inserted, and all have the value that is in the table then."""
    n = target.pick(5_000, 50_000, 500_000)
    for key, value in target.formats:
        rng = target.rng(f"{key}{value}")
        keys = rng.permutation(np.unique(np.concatenate([unique_keys(rng, n, key), patterns(key)])))
        there = rng.random(len(keys)) < 0.5
        at = rng.permutation(np.repeat(np.arange(len(keys)), rng.integers(0, 4, len(keys))))
        old, new = values_for(keys, value), values_for(np.arange(len(at)).astype(key), value, 1)
        where = f"find_or_insert with {key} keys and {value} values"
        with target.table(key, value, capacity=len(keys)) as t:
            t.insert(keys[there], None if old is None else old[there])
            got, mask = t.find_or_insert(keys[at], new)
            asked = np.bincount(at, minlength=len(keys)) > 0
            added = np.bincount(at[mask], minlength=len(keys))
            same(f"{where}: elements that inserted, per key", added, (asked & ~there).astype(int), keys)
            same(f"{where}: contains", t.contains(keys), there | asked, keys)
            if old is None or new is None:
                expect(got is None, f"{where}: a set has answered values")
                continue
            own = old.copy()
            own[at[mask]] = new[mask]
            same(f"{where}: values", got, own[at], keys[at])
            same(f"{where}: values that stay", t.find(keys)[0], np.where(there | asked, own, 0), keys)


# ---- several values per key ------------------------------------------------------------------------------------------


@check("insert", "multi")
def multi(target: Target) -> None:
    """insert_multi, count, find_all, erase and erase_all against a multiset, over all widths and patterns."""
    n = target.pick(3000, 30_000, 300_000)
    for key, value in target.formats:
        rng = target.rng(f"{key}{value}")
        keys = np.unique(np.concatenate([unique_keys(rng, n, key), patterns(key)]))
        batch = rng.permutation(np.repeat(keys, rng.integers(0, 6, len(keys))))
        values = None if value is None else rng.integers(0, 4, len(batch)).astype(value)
        where = f"with {key} keys and {value} values"
        with target.multi_table(key, value) as t:
            same(f"insert_multi {where}", t.insert_multi(batch, values), np.ones(len(batch), bool), batch)
            held = _multiset(batch, values)
            _holds_multi(t, keys, held, where)
            same(f"insert of keys that are there {where}", t.insert(batch, values), np.zeros(len(batch), bool), batch)
            _erase_one_each(t, keys, held, where)
            gone = keys[::2]
            times = np.array([sum(held[k].values()) for k in gone.tolist()])
            same(f"erase_all {where}", t.erase_all(gone), times > 0, gone)
            for k in gone.tolist():
                held[k] = Counter()
            _holds_multi(t, keys, held, where)
            if "flush" in target.traits:
                t.flush()
                _holds_multi(t, keys, held, f"{where}, after flush")
            t.clear()
            same(f"count after clear {where}", t.count(keys), np.zeros(len(keys)), keys)


Multiset = dict[int, Counter[int]]


def _multiset(batch: Array, values: Array | None) -> Multiset:
    held: Multiset = {k: Counter() for k in batch.tolist()}
    for k, v in zip(batch.tolist(), [0] * len(batch) if values is None else values.tolist(), strict=True):
        held[k][v] += 1
    return held


def _holds_multi(t: Any, keys: Array, held: Multiset, where: str) -> None:
    """The table holds this multiset: by count, contains, find, find_all, export and size."""
    for k in keys.tolist():
        held.setdefault(k, Counter())
    times = np.array([sum(held[k].values()) for k in keys.tolist()])
    expect(len(t) == times.sum(), f"the size {where} is {len(t)}, expected {times.sum()}")
    same(f"count {where}", t.count(keys), times, keys)
    same(f"contains {where}", t.contains(keys), times > 0, keys)
    offsets, values = t.find_all(keys)
    same(f"lengths of find_all {where}", np.diff(offsets), times, keys)
    exported, with_values = t.export()
    pairs = Counter(
        zip(exported.tolist(), [0] * len(exported) if values is None else with_values.tolist(), strict=True)
    )
    wanted = Counter({(k, v): c for k, values_of in held.items() for v, c in values_of.items() if c})
    expect(
        pairs == wanted,
        f"export {where}: extra {list((pairs - wanted).items())[:3]}, missing {list((wanted - pairs).items())[:3]}",
    )
    if values is None:
        return
    one, _ = t.find(keys)
    for i, k in enumerate(keys.tolist()):
        mine = Counter(values[int(offsets[i]) : int(offsets[i + 1])].tolist())
        expect(mine == +held[k], f"find_all {where} of key {k:#x}: got {dict(mine)}, expected {dict(+held[k])}")
        expect(
            not times[i] or int(one[i]) in held[k], f"find {where} of key {k:#x}: got {one[i]}, which was not inserted"
        )


def _erase_one_each(t: Any, keys: Array, held: Multiset, where: str) -> None:
    """erase takes one pair of the key, whichever."""
    times = np.array([sum(held[k].values()) for k in keys.tolist()])
    same(f"erase {where}", t.erase(keys), times > 0, keys)
    same(f"count after erase {where}", t.count(keys), np.maximum(times, 1) - 1, keys)
    offsets, values = t.find_all(keys)
    for i, k in enumerate(keys.tolist()):
        count = int(offsets[i + 1] - offsets[i])
        left = Counter([0] * count if values is None else values[int(offsets[i]) : int(offsets[i + 1])].tolist())
        expect(left <= held[k], f"erase {where} of key {k:#x} left {dict(left)} of {dict(held[k])}")
        held[k] = left


@check("insert", "multi")
def multi_one_hot_key(target: Target) -> None:
    """One key with very many pairs: all are counted, found and erased."""
    n = target.pick(2000, 20_000, 100_000)
    for key in sorted({key for key, value in target.formats if key == value}):
        for hot in (7, np.iinfo(key).max):
            batch = np.full(n, hot, key)
            with target.multi_table(key, key) as t:
                same("insert_multi of one key", t.insert_multi(batch, np.arange(n).astype(key)), np.ones(n, bool))
                same("its count", t.count(batch[:1]), [n])
                same_set("its values", t.find_all(batch[:1])[1].tolist(), range(n))
                gone = t.erase(batch[: n // 2])
                same("erase of half of its pairs", gone, np.ones(n // 2, bool))
                same("its count after erase", t.count(batch[:1]), [n - n // 2])
                same("erase_all", t.erase_all(batch[:1]), [True])
                same("its count after erase_all", t.count(batch[:1]), [0])
                expect(len(t) == 0, f"{len(t)} pairs are left after erase_all")
