"""What a table holds: lifecycle, widths, batch sizes, bit patterns, duplicates within a batch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from pygpuhash._conformance.arrays import Array, patterns, unique_keys, values_for
from pygpuhash._conformance.harness import Skipped, Target, audit, check, expect, same, same_set
from pygpuhash.errors import ClosedTable

BATCH_SIZES = (0, 1, 2, 3, 7, 8, 9, 31, 32, 33, 63, 64, 65, 1000)


@check("insert")
def lifecycle(target: Target) -> None:
    """Empty tables, capacities that are kept, tables closed with and without contents."""
    for key, value in target.formats:
        with target.table(key, value) as t:
            absent = np.array([0, 1, 7], key)
            expect(len(t) == 0 and not t, f"a new table has {len(t)} keys")
            same("contains in an empty table", t.contains(absent), [False] * 3)
            same("erase from an empty table", t.erase(absent), [False] * 3)
            expect(len(t.export()[0]) == 0, "an empty table exports pairs")
            for call in (*([t.flush] if "flush" in target.traits else []), t.shrink, t.clear, t.check):
                call()
            expect(len(t) == 0, "maintenance of an empty table has put keys into it")
    key, value = target.pair
    for capacity in (1, 2, 63, 64, 65, 1000, 50_000):
        with target.table(key, value, capacity=capacity, grow=False) as t:
            expect(t.capacity >= capacity, f"capacity={capacity} was asked for, {t.capacity} is given")
            keys = unique_keys(target.rng("capacity"), capacity, key)
            fresh = t.insert(keys, values_for(keys, value))
            same(f"insert of as many keys as capacity={capacity}", fresh, np.ones(capacity, bool), keys)
            same("contains", t.contains(keys), np.ones(capacity, bool), keys)
    t.close()  # the second time
    try:
        t.contains(np.zeros(1, key))
    except ClosedTable:
        return
    expect(False, "find on a closed table did not raise ClosedTable")


class CountedMemory:
    """A memory resource that counts the bytes that are allocated."""

    def __init__(self) -> None:
        self.blocks: dict[int, tuple[Any, int]] = {}
        self.wrong: list[str] = []

    def allocate(self, nbytes: int, alignment: int, stream: int) -> int:
        """Bytes of a numpy array, aligned."""
        array = np.empty(nbytes + alignment, np.uint8)
        address = -(-int(array.ctypes.data) // alignment) * alignment
        self.blocks[address] = array, nbytes
        return address

    def deallocate(self, address: int, nbytes: int, alignment: int, stream: int) -> None:
        """Give a block back."""
        _, given = self.blocks.pop(address, (None, -1))
        if given != nbytes:
            self.wrong.append(f"{nbytes} bytes at {address:#x} were given back, {given} had been taken there")

    @property
    def held(self) -> int:
        """Bytes that are allocated."""
        return sum(nbytes for _, nbytes in self.blocks.values())


@check("insert")
def memory_is_given_back(target: Target) -> None:
    """A memory resource gets back what it gave, through growth, shrinking and closing; nbytes tells what is held."""
    target.honours("memory")
    if "cpu" not in target.kinds:
        raise Skipped("the memory resource of this check has host memory, and the backend is not built for the CPU")
    target = replace(target, device="cpu")
    memory = CountedMemory()
    key, value = target.pair
    keys = unique_keys(target.rng(), 20_000, key)
    for _ in range(3):
        with target.table(key, value, memory=memory, capacity=0 if "grow" in target.traits else len(keys)) as t:
            t.insert(keys, values_for(keys, value))
            expect(memory.held > 0, "the table takes nothing from the memory resource that it was given")
            expect(
                0.5 * memory.held <= t.nbytes <= 2 * memory.held,
                f"nbytes is {t.nbytes}, but the memory resource has given {memory.held}",
            )
            t.erase(keys[:-10])
            t.shrink()
            same("contains after shrinking", t.contains(keys[-10:]), np.ones(10, bool), keys[-10:])
        expect(not memory.blocks, f"a closed table keeps {len(memory.blocks)} blocks of {memory.held} bytes")
    expect(not memory.wrong, "; ".join(memory.wrong[:2]))


@check("insert")
def widths(target: Target) -> None:
    """Every operation with every width of keys and values."""
    for key, value in target.formats:
        rng = target.rng(f"{key}{value}")
        keys, others = np.split(unique_keys(rng, 3000, key), [2000])
        first, second = values_for(keys, value), values_for(keys, value, 1)
        where = f"with {key} keys and {value} values"
        with target.table(key, value, capacity=4000) as t:
            same(f"insert {where}", t.insert(keys, first), np.ones(2000, bool), keys)
            same(f"second insert {where}", t.insert(keys, second), np.zeros(2000, bool), keys)
            _holds(t, keys, first, where)
            same(f"insert_or_assign {where}", t.insert_or_assign(keys[:900], _part(second, 900)), np.zeros(900, bool))
            same(f"contains {where}", t.contains(others), np.zeros(1000, bool), others)
            if value is not None:
                missed, found = t.find(others)
                same(f"found of absent keys {where}", found, np.zeros(1000, bool), others)
                same(f"values of absent keys {where}", missed, np.zeros(1000, value), others)
                first = np.concatenate([second[:900], first[900:]])  # type: ignore[index]
            same(f"erase {where}", t.erase(keys[1500:]), np.ones(500, bool))
            same(f"second erase {where}", t.erase(keys[1500:]), np.zeros(500, bool))
            _holds(t, keys[:1500], _part(first, 1500), where)
            same(f"contains of erased keys {where}", t.contains(keys[1500:]), np.zeros(500, bool), keys[1500:])


def _part(values: Array | None, n: int) -> Array | None:
    return None if values is None else values[:n]


def _holds(t: Any, keys: Array, values: Array | None, where: str) -> None:
    """The table holds exactly these pairs."""
    same(f"contains {where}", t.contains(keys), np.ones(len(keys), bool), keys)
    exported, with_values = t.export()
    same_set(f"exported keys {where}", exported.tolist(), keys.tolist())
    expect(len(t) == len(keys), f"the size {where} is {len(t)}, expected {len(keys)}")
    if values is None:
        expect(with_values is None, f"a set exports values {where}")
        return
    got, found = t.find(keys)
    same(f"found {where}", found, np.ones(len(keys), bool), keys)
    same(f"values {where}", got, values, keys)
    order, wanted = np.argsort(exported, kind="stable"), np.argsort(keys, kind="stable")
    same(f"exported values {where}", with_values[order], values[wanted], keys[wanted])


@check("insert")
def batch_sizes(target: Target) -> None:
    """Batches of no key, of one, of a few around the widths of tiles and rows, and of very many."""
    sizes = [*BATCH_SIZES, target.pick(100_000, 1_000_000, 10_000_000)]
    for key, value in target.formats:
        for n in sizes if value in (None, key) else sizes[:-1]:
            keys = unique_keys(target.rng(f"{n}"), n, key)
            values = values_for(keys, value)
            where = f"of {n} {key} keys with {value} values"
            with target.table(key, value, capacity=n) as t:
                same(f"insert {where}", t.insert(keys, values), np.ones(n, bool), keys)
                same(f"second insert {where}", t.insert(keys, values), np.zeros(n, bool), keys)
                if values is not None:
                    same(f"find {where}", t.find(keys)[0], values, keys)
                same(f"contains {where}", t.contains(keys), np.ones(n, bool), keys)
                expect(len(t) == n, f"the size after insert {where} is {len(t)}")
                same(f"erase {where}", t.erase(keys[n // 2 :]), np.ones(n - n // 2, bool), keys[n // 2 :])
                same(f"contains after erase {where}", t.contains(keys), np.arange(n) < n // 2, keys)


@check("insert")
def every_pattern(target: Target) -> None:
    """Every bit pattern is a legal key and a legal value, in every operation, also after it was erased."""
    for key, value in target.formats:
        keys = patterns(key)
        where = f"of patterns as {key} keys with {value} values"
        with target.table(key, value, capacity=4 * len(keys)) as t:
            for n_round in range(3):
                stored = _pattern_values(keys, value, n_round)
                same(f"insert {where}, round {n_round}", t.insert(keys, stored), np.ones(len(keys), bool), keys)
                same(
                    f"insert again {where}", t.insert(keys, _pattern_values(keys, value, 9)), np.zeros(len(keys)), keys
                )
                _holds(t, keys, stored, where)
                same(f"count {where}", t.count(keys), np.ones(len(keys)), keys)
                _patterns_one_by_one(t, keys, stored, where)
                same(f"erase {where}", t.erase(keys), np.ones(len(keys), bool), keys)
                same(f"erase again {where}", t.erase(keys), np.zeros(len(keys), bool), keys)
                same(f"contains after erase {where}", t.contains(keys), np.zeros(len(keys), bool), keys)
                expect(len(t) == 0, f"{len(t)} keys are left after erase {where}")
            if n_round == 2 and "flush" in target.traits:
                t.flush()


def _pattern_values(keys: Array, dtype: str | None, turn: int) -> Array | None:
    """Patterns as values, turned against the keys."""
    return None if dtype is None else np.resize(np.roll(patterns(dtype), 7 * turn + 1), len(keys))


def _patterns_one_by_one(t: Any, keys: Array, stored: Array | None, where: str) -> None:
    """Erase one pattern at a time: its neighbours stay."""
    for i in range(0, len(keys), 5):
        key = keys[i : i + 1]
        same(f"erase one {where}", t.erase(key), [True], key)
        rest = np.arange(len(keys)) != i
        same(f"contains of the others {where}", t.contains(keys), rest, keys)
        same(f"insert one {where}", t.insert(key, None if stored is None else stored[i : i + 1]), [True], key)
    if stored is not None:
        same(f"values {where}", t.find(keys)[0], stored, keys)


@check("insert")
def every_pattern_as_value(target: Target) -> None:
    """Every pattern as a key takes and gives back every pattern as a value, by insert_or_assign."""
    for key, value in target.formats:
        if value is None:
            continue
        keys, all_values = patterns(key), patterns(value)
        step = target.pick(5, 1, 1)
        with target.table(key, value, capacity=4 * len(keys)) as t:
            t.insert(keys, np.zeros(len(keys), value))
            for turn in range(0, len(all_values), step):
                values = np.resize(np.roll(all_values, turn), len(keys))
                same("insert_or_assign", t.insert_or_assign(keys, values), np.zeros(len(keys), bool), keys)
                same(f"{value} patterns of {key} patterns", t.find(keys)[0], values, keys)


@check("insert")
def patterns_alone(target: Target) -> None:
    """A table that holds one pattern only, for every pattern: nothing else appears in it."""
    for key, value in target.formats:
        keys = patterns(key)[:: target.pick(3, 1, 1)]
        keys = np.unique(np.concatenate([keys, patterns(key)[-5:], patterns(key)[:3]]))
        with target.table(key, value) as t:
            for i in range(len(keys)):
                t.insert(keys[i : i + 1], None if value is None else np.array([i], value))
                same(f"contains with one {key} key", t.contains(keys), np.arange(len(keys)) == i, keys)
                same("the only key", t.export()[0], keys[i : i + 1])
                t.clear()


@check("insert")
def floats_by_bits(target: Target) -> None:
    """Float keys and values keep their bits: NaN with payloads, infinities, negative zero."""
    for dtype, bits in (("float32", "uint32"), ("float64", "uint64")):
        if (bits, bits) not in target.formats:
            continue
        raw = patterns(bits)
        with target.table(dtype, dtype, capacity=2 * len(raw)) as t:
            same(f"insert of {dtype} keys", t.insert(raw.view(dtype), raw[::-1].copy().view(dtype)), np.ones(len(raw)))
            same(f"{dtype} values by bits", t.find(raw.view(dtype))[0].view(bits), raw[::-1], raw)


@check("insert")
def duplicates_in_a_batch(target: Target) -> None:
    """Of equal keys in a batch exactly one reports inserted, and its value is the one that is stored."""
    n, copies = target.pick(3000, 30_000, 300_000), 9
    for key, value in target.formats:
        rng = target.rng(f"{key}{value}")
        keys = np.concatenate([unique_keys(rng, n, key), patterns(key)])
        keys = np.unique(keys)
        batch = rng.permutation(np.repeat(keys, copies))
        values = None if value is None else np.arange(1, len(batch) + 1).astype(value)
        where = f"of {copies} equal {key} keys each, {value} values"
        with target.table(key, value, capacity=len(keys)) as t:
            fresh = t.insert(batch, values)
            _one_winner(f"insert {where}", t, batch, values, fresh, keys)
            gone = t.erase(batch)
            _exactly_one(f"erase {where}", batch, gone, keys)
            expect(len(t) == 0, f"{len(t)} keys are left after erase {where}")
            fresh = t.insert_or_assign(batch, values)
            _exactly_one(f"insert_or_assign {where}", batch, fresh, keys)
            if values is not None:
                stored, _ = t.find(keys)
                same(f"keys of the values after insert_or_assign {where}", batch[stored.astype(np.int64) - 1], keys)
                t.insert_or_assign(batch, values, dedup="last")
                last = dict(zip(batch.tolist(), values.tolist(), strict=True))
                same(f"dedup='last' {where}", t.find(keys)[0], [last[k] for k in keys.tolist()], keys)


def _exactly_one(what: str, batch: Array, mask: Array, keys: Array) -> None:
    reported = np.bincount(np.searchsorted(keys, batch[mask]), minlength=len(keys))
    same(f"{what}: reports per key", reported, np.ones(len(keys), int), keys)


def _one_winner(what: str, t: Any, batch: Array, values: Array | None, fresh: Array, keys: Array) -> None:
    _exactly_one(what, batch, fresh, keys)
    if values is None:
        return
    winners = np.flatnonzero(fresh)
    order = np.argsort(batch[winners], kind="stable")
    same(
        f"{what}: the stored value is that of the element that reports inserted",
        t.find(keys)[0],
        values[winners][order],
        keys,
    )
    audit(t, unique=True)


@check("insert")
def one_hot_key(target: Target) -> None:
    """A batch of one key over and over: one wins, and the others see it."""
    n = target.pick(20_000, 200_000, 2_000_000)
    for key, value in target.formats:
        for hot in (5, np.iinfo(key).max, np.iinfo(key).max - 1):
            batch = np.full(n, hot, key)
            with target.table(key, value) as t:
                values = None if value is None else np.arange(n).astype(value)
                fresh = t.insert(batch, values)
                expect(fresh.sum() == 1, f"{fresh.sum()} of {n} inserts of one {key} key report inserted")
                if values is not None:
                    same("its value", t.find(batch[:1])[0], values[fresh])
                gone = t.erase(batch)
                expect(gone.sum() == 1, f"{gone.sum()} of {n} erases of one {key} key report erased")
