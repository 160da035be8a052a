"""Several threads on one table.

Interleavings do not repeat with a seed; a failure says what was seen. The explorer tests interleavings systematically.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from pygpuhash._conformance.arrays import Array, patterns, skewed, unique_keys, values_for
from pygpuhash._conformance.harness import Target, audit, check, expect, same, same_set
from pygpuhash.table import Op


def in_threads(*work: Callable[[], None]) -> None:
    """Run all functions at once; raise the first error. A thread that does not end within minutes is an error too."""
    errors: list[BaseException] = []
    barrier = threading.Barrier(len(work))

    def guarded(one: Callable[[], None]) -> None:
        barrier.wait()
        try:
            one()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(one,), daemon=True) for one in work]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 300
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    if errors:
        raise errors[0]
    expect(not any(thread.is_alive() for thread in threads), "a thread did not come back within 300 s")


def _one_inserter(what: str, keys: Array, masks: list[Array]) -> None:
    same(f"{what}: threads that report inserted, per key", np.sum(masks, axis=0), np.ones(len(keys), int), keys)


@check("insert")
def adversarial_batches(target: Target) -> None:
    """In one mixed batch, and in three threads: erase A while two insert B. B is there once, A is gone."""
    for key, value in target.among(("uint32", "uint32"), ("uint64", "uint64"), ("uint32", None)):
        rng = target.rng(f"{key}{value}")
        for n in (24, target.pick(2000, 20_000, 200_000)):
            a, b = np.split(rng.permutation(unique_keys(rng, 2 * n, key)), 2)
            rounds = target.pick(400, 2000, 20_000) if n == 24 else 10
            # Nearly full: the keys of a round compete for the same few rows.
            with target.table(key, value, capacity=2 * n) as t:
                t.insert(a, values_for(a, value))
                for r in range(rounds):
                    play = _by_execute if r % 2 else _by_threads
                    play(t, rng, a, b, value, r)
                    same(f"contains of the erased keys, round {r}", t.contains(a), np.zeros(n, bool), a)
                    same(f"contains of the inserted keys, round {r}", t.contains(b), np.ones(n, bool), b)
                    audit(t, unique=True)
                    a, b = b, a
                    target.tidy(t)


def _by_execute(t: Any, rng: np.random.Generator, a: Array, b: Array, value: str | None, r: int) -> None:
    n = len(a)
    ops = np.concatenate([np.full(n, Op.ERASE), np.full(2 * n, Op.INSERT)]).astype(np.uint8)
    keys = np.concatenate([a, b, b])
    # The three operations of a pair lie side by side.
    order = np.arange(3 * n).reshape(3, n).T.reshape(-1)
    order = rng.permuted(order.reshape(n, 3), axis=1).reshape(-1)
    values = None if value is None else np.arange(1, 3 * n + 1).astype(value)
    _, mask = t.execute(ops[order], keys[order], None if values is None else values[order])
    back = np.empty(3 * n, bool)
    back[order] = mask
    same(f"erase in a mixed batch, round {r}", back[:n], np.ones(n, bool), a)
    _one_inserter(f"mixed batch, round {r}", b, [back[n : 2 * n], back[2 * n :]])
    if values is not None:
        winner = np.where(back[n : 2 * n], values[n : 2 * n], values[2 * n :])
        same(f"value of the insert that reports inserted, round {r}", t.find(b)[0], winner, b)


def _by_threads(t: Any, rng: np.random.Generator, a: Array, b: Array, value: str | None, r: int) -> None:
    masks: dict[str, Array] = {}
    first, second = values_for(b, value, 1), values_for(b, value, 2)
    piece = max(8, len(b) // 16)

    def insert(name: str, values: Array | None) -> Callable[[], None]:
        def work() -> None:
            parts = [slice(i, i + piece) for i in range(0, len(b), piece)]
            masks[name] = np.concatenate([t.insert(b[p], None if values is None else values[p]) for p in parts])

        return work

    def erase() -> None:
        masks["erase"] = np.concatenate([t.erase(a[i : i + piece]) for i in range(0, len(a), piece)])

    in_threads(insert("first", first), insert("second", second), erase)
    same(f"erase in a thread, round {r}", masks["erase"], np.ones(len(a), bool), a)
    _one_inserter(f"threads, round {r}", b, [masks["first"], masks["second"]])
    if first is not None and second is not None:
        same(
            f"value of the thread that reports inserted, round {r}",
            t.find(b)[0],
            np.where(masks["first"], first, second),
            b,
        )


@check("insert")
def growth_under_finds(target: Target) -> None:
    """While a table grows, and is rebuilt, a find of a key that is there never misses, and its value is right."""
    for key, value in target.among(("uint64", "uint64"), ("uint32", "uint32"), ("uint32", None)):
        _grow_under_finds(target, key, value)


def _grow_under_finds(target: Target, key: str, value: str | None) -> None:
    n, step = target.pick(150_000, 1_000_000, 6_000_000), 2000
    rng = target.rng(f"{key}{value}")
    keys = rng.permutation(np.unique(np.concatenate([unique_keys(rng, n, key), patterns(key)])))
    values = values_for(keys, value)
    done = 0
    begun, over = threading.Event(), threading.Event()

    def write() -> None:
        nonlocal done
        try:
            for i in range(0, len(keys), step):
                part = slice(i, i + step)
                t.insert(keys[part], None if values is None else values[part])
                done = min(i + step, len(keys))
                begun.set()
                if "flush" in target.traits and i % (10 * step) == 0:
                    t.flush()
        finally:
            over.set()
            begun.set()

    def read(seed: int) -> None:
        mine = np.random.default_rng(seed)
        begun.wait()  # or it would take the interpreter from a first insert that imports cuda-python
        while not over.is_set():
            at = mine.integers(0, max(done, 1), 300)
            at = at[at < done]
            where = f"while the table grows to {len(keys)} {key} keys, at least {done} of them inserted"
            same(f"contains {where}", t.contains(keys[at]), np.ones(len(at), bool), keys[at])
            if values is not None:
                same(f"values {where}", t.find(keys[at])[0], values[at], keys[at])

    with target.table(key, value, capacity=0 if "grow" in target.traits else len(keys)) as t:
        in_threads(write, lambda: read(1), lambda: read(2))


@check("insert", "answers", "accumulate")
def popping_from_threads(target: Target) -> None:
    """What some threads add, others pop: all of it is popped once, or is in the table at the end."""
    for key, value in target.among(("uint64", "uint64"), ("uint32", "uint32")):
        _pop_what_others_add(target, key, value)


def _pop_what_others_add(target: Target, key: str, value: str | None) -> None:
    keys, calls = unique_keys(target.rng(), 40, key), target.pick(300, 3000, 30_000)
    taken, added = np.zeros(2, np.int64), np.zeros(2, np.int64)
    over = threading.Semaphore(0)

    def add(i: int) -> None:
        rng = target.rng(f"thread {i}")
        try:
            for _ in range(calls):
                chosen = rng.choice(keys, int(rng.integers(1, 60)))
                t.accumulate(chosen, 1)
                added[i] += len(chosen)
        finally:
            over.release()

    def take(i: int) -> None:
        rng = target.rng(f"popping thread {i}")
        while not over.acquire(timeout=0.001):
            values, mask = t.pop(rng.choice(keys, int(rng.integers(1, 60))))
            expect(not values[~mask].any(), "an absent key has a value")
            taken[i] += int(values.sum())

    with target.table(key, value) as t:
        in_threads(*[partial(work, i) for i in range(2) for work in (add, take)])
        left = int(t.find(keys)[0].sum())
    expect(
        int(added.sum()) == int(taken.sum()) + left,
        f"{key} keys: {added.sum()} were added, {taken.sum()} popped, and {left} are left",
    )


@check("insert", "answers")
def one_value_for_all(target: Target) -> None:
    """Threads that find or insert the same keys at once, each with values of its own, all have the same values."""
    for key, value in target.among(("uint64", "uint64"), ("uint32", "uint32")):
        _find_or_insert_the_same(target, key, value)


def _find_or_insert_the_same(target: Target, key: str, value: str | None) -> None:
    keys, n_threads = unique_keys(target.rng(key), target.pick(20_000, 200_000, 2_000_000), key), 3
    answers: list[Any] = [None] * n_threads

    def work(i: int) -> None:
        parts = np.array_split(keys, 50)
        both = [t.find_or_insert(part, np.arange(len(part), dtype=value) * n_threads + i) for part in parts]
        answers[i] = [np.concatenate(each) for each in zip(*both, strict=True)]

    with target.table(key, value) as t:
        in_threads(*[partial(work, i) for i in range(n_threads)])
        _one_inserter("find_or_insert in threads", keys, [mask for _, mask in answers])
        stored = t.find(keys)[0]
        for i, (values, mask) in enumerate(answers):
            same(f"values of thread {i}", values, stored, keys)
            same(f"whose values those of thread {i} are", values % n_threads == i, mask, keys)


@check("insert")
def conservation(target: Target) -> None:
    """Every operation from several threads on the same few keys, with maintenance in between: no report is wrong."""
    for key, value in target.among(("uint64", "uint64"), ("uint32", "uint32"), ("uint32", "uint64"), ("uint64", None)):
        _conserve(target, key, value)


def _conserve(target: Target, key: str, value: str | None) -> None:
    pool = np.unique(np.concatenate([unique_keys(target.rng(), 300, key), patterns(key)[-60:]]))
    n_threads, calls = 4, target.pick(400, 2000, 20_000)
    changes = np.zeros((n_threads, len(pool)), np.int64)
    left = threading.Semaphore(0)

    def work(i: int) -> None:
        rng = target.rng(f"thread {i}")
        try:
            for _ in range(calls):
                _one_call(t, rng, pool, value, changes[i], "accumulate" in target.traits)
        finally:
            left.release()

    def maintain() -> None:
        for _ in range(n_threads):
            while not left.acquire(timeout=0.002):
                _maintain_once(target, t, pool)

    with target.table(key, value) as t:
        in_threads(*[partial(work, i) for i in range(n_threads)], maintain)
        there = t.contains(pool)
        what = f"keys inserted less keys erased, {key} keys and {value} values"
        same(what, changes.sum(axis=0), there.astype(np.int64), pool)
        if value is not None:
            low = t.find(pool)[0] & np.dtype(value).type(1023)
            same("the key that a value belongs to, at the end", low[there], np.flatnonzero(there), pool[there])


def _maintain_once(target: Target, t: Any, pool: Array) -> None:
    t.check()
    keys, _ = t.export()
    same_set("exported keys while threads write", keys.tolist(), set(keys.tolist()))
    t.reserve(len(pool) * 2)
    if "grow" in target.traits:  # else the next batches would find no room
        t.shrink()
    if "flush" in target.traits:
        t.flush()
    expect(0 <= len(t) <= len(pool), f"the size is {len(t)}, there are {len(pool)} different keys")


def _own_values(rng: np.random.Generator, at: Array, value: str) -> Array:
    """Values whose low bits name their key, so that a value that belongs to another key is noticed."""
    with np.errstate(over="ignore"):
        own: Array = rng.integers(0, 1 << 20, len(at)).astype(value) * np.dtype(value).type(1024) + at.astype(value)
        return own


def _one_call(
    t: Any, rng: np.random.Generator, pool: Array, value: str | None, changes: Array, accumulates: bool
) -> None:
    """One random batch; `changes` counts the keys that it reports as inserted (+1) and erased (-1)."""
    at = rng.integers(0, len(pool), int(rng.choice([1, 8, 33, 300])))
    keys = pool[at]
    values = None if value is None else _own_values(rng, at, value)
    kind = rng.choice(["insert", "assign", "accumulate", "erase", "find", "execute"])
    if kind == "accumulate" and (values is None or not accumulates):
        kind = "erase"
    if kind == "find":
        if value is not None:
            got, found = t.find(keys)
            low = got[found] & np.dtype(value).type(1023)
            same("the key that a found value belongs to, under concurrent writes", low, at[found], keys[found])
    elif kind == "execute":
        ops = rng.choice([Op.NOP, Op.INSERT, Op.ASSIGN, Op.FIND, Op.ERASE], len(keys)).astype(np.uint8)
        _, mask = t.execute(ops, keys, values)
        np.add.at(changes, at[mask & np.isin(ops, [Op.INSERT, Op.ASSIGN])], 1)
        np.add.at(changes, at[mask & (ops == Op.ERASE)], -1)
    elif kind == "erase":
        np.add.at(changes, at[t.erase(keys)], -1)
    else:
        call = {"insert": t.insert, "assign": t.insert_or_assign}.get(kind)
        mask = call(keys, values) if call else t.accumulate(keys, values, op="max")
        np.add.at(changes, at[mask], 1)


@check("insert", "accumulate")
def counting_from_threads(target: Target) -> None:
    """Threads that count the same keys lose no count, while the table grows."""
    for key, value in target.formats:
        if value is not None:
            _count_from_threads(target, key, value)


def _count_from_threads(target: Target, key: str, value: str) -> None:
    n, rounds = target.pick(20_000, 50_000, 500_000), target.pick(20, 50, 200)
    pool = np.unique(np.concatenate([unique_keys(target.rng(), n // 4, key), patterns(key)]))
    totals = [np.zeros(len(pool), np.int64) for _ in range(4)]

    def work(i: int) -> None:
        rng = target.rng(f"thread {i}")
        for _ in range(rounds):
            at = skewed(rng, len(pool), n)
            t.accumulate(pool[at], 1)
            np.add.at(totals[i], at, 1)

    with target.table(key, value, capacity=0 if "grow" in target.traits else len(pool)) as t:
        in_threads(*[partial(work, i) for i in range(4)])
        same(f"counts of {key} keys, {value} values", t.find(pool)[0], np.sum(totals, axis=0), pool)


@check("insert")
def tables_side_by_side(target: Target) -> None:
    """Threads with a table each, made and closed over and over, do not meet."""

    key, value = target.pair

    def work(i: int) -> None:
        keys = unique_keys(target.rng(f"{i}"), 500, key)
        for r in range(target.pick(20, 200, 2000)):
            values = values_for(keys, value, r)
            with target.table(key, value, capacity=500) as t:
                same("insert", t.insert(keys, values), np.ones(500, bool))
                if values is not None:
                    same("values", t.find(keys)[0], values, keys)

    in_threads(*[partial(work, i) for i in range(4)])
