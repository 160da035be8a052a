"""Keys and values of any multiple of 4 bytes (trait "wide"): contents against a dict, growth, full tables, threads."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from pygpuhash._conformance.arrays import Array
from pygpuhash._conformance.concurrency import in_threads
from pygpuhash._conformance.harness import Target, audit, check, expect, same
from pygpuhash.errors import TableFull
from pygpuhash.table import Op

# Bytes of keys and values.
SIZES = ((12, 4), (16, 64), (64, 256), (4, 12), (8, 16), (12, 8), (20, 0), (256, 256))


def _dtype(size: int) -> Any:
    if size in (0, 4, 8):
        return {0: None, 4: "u4", 8: "u8"}[size]
    return ("u4", size // 4)


def _rows(rng: np.random.Generator, n: int, size: int) -> Array:
    """n distinct elements of so many bytes: half of them differ from the others in a single bit of a single word."""
    words = rng.integers(0, 1 << 32, (n, size // 4), dtype=np.uint32)
    words[:, 0] = np.arange(n) // 2  # a pair of neighbours is alike
    words[1::2] = words[: n // 2 * 2 : 2]
    flipped = rng.integers(0, size // 4, n // 2)
    bits = rng.integers(20, 32, n // 2).astype(np.uint32)
    words[np.arange(1, n, 2), flipped] ^= np.uint32(1) << bits
    return _shaped(words, size)


def _values(keys: Array, size: int, salt: int = 0) -> Array | None:
    """Values that tell their key and the salt; every word of a wide one is the same."""
    if size == 0:
        return None
    words = keys.reshape(-1).view(np.uint32).reshape(len(keys), keys.nbytes // max(len(keys), 1) // 4)
    with np.errstate(over="ignore"):
        odd = np.arange(1, 2 * words.shape[1], 2, dtype=np.uint32)
        mark = (words * odd).sum(axis=1, dtype=np.uint32) * np.uint32(0x9E3779B1) + np.uint32(salt)
    return _shaped(np.repeat(mark[:, None], size // 4, axis=1), size)


def _shaped(words: Array, size: int) -> Array:
    words = np.ascontiguousarray(words)
    if size in (4, 8):
        return words.view(f"u{size}").reshape(-1)
    return words


def _same_bits(what: str, got: Any, expected: Any) -> None:
    """`same`, for rows."""
    expect(np.asarray(got).dtype == np.asarray(expected).dtype, f"{what}: got dtype {np.asarray(got).dtype}")
    same(what, got, expected)


@check("wide", "insert")
def wide_batches(target: Target) -> None:
    """Keys and values of many sizes, in batches of many sizes: every operation, then export and maintenance."""
    for key, value in SIZES:
        rng = target.rng(f"{key}+{value}")
        with target.table(_dtype(key), _dtype(value)) as t:
            for n in (0, 1, 2, 31, 32, 33, 65, 1000):
                t.clear()
                keys = _rows(rng, 2 * n, key)
                there = keys[:n]
                values, others = _values(there, value), _values(there, value, 1)
                what = f"{key}+{value} bytes, {n} elements: "
                if "answers" in target.traits:
                    own, fresh = t.find_or_insert(there, values)
                    same(what + "find_or_insert", fresh, np.ones(n, bool))
                    held, fresh = t.find_or_insert(there, others)
                    same(what + "find_or_insert again", fresh, np.zeros(n, bool))
                    if values is not None:
                        _same_bits(what + "values inserted", own, values)
                        _same_bits(what + "values found", held, values)
                    t.clear()
                same(what + "insert", t.insert(there, values), np.ones(n, bool))
                same(what + "insert again", t.insert(there, others), np.zeros(n, bool))
                found, mask = t.find(keys)
                same(what + "find", mask, np.arange(2 * n) < n)
                if values is not None and others is not None:
                    _same_bits(what + "values", found[:n], values)
                    expect(not np.asarray(found[n:]).any(), what + "an absent key's value is not zeros")
                    same(what + "assign", t.insert_or_assign(there, others), np.zeros(n, bool))
                    _same_bits(what + "assigned values", t.find(there)[0], others)
                same(what + "count", t.count(keys), (np.arange(2 * n) < n).astype(np.int64))
                if "answers" in target.traits:
                    gone, popped = t.pop(keys[n // 2 :])
                    same(what + "pop", popped, np.arange(2 * n - n // 2) < n - n // 2)
                    if others is not None:
                        _same_bits(what + "popped values", gone[: n - n // 2], others[n // 2 :])
                        expect(not np.asarray(gone[n - n // 2 :]).any(), what + "an absent key's value is not zeros")
                    t.insert(there[n // 2 :], None if others is None else others[n // 2 :])
                same(what + "erase", t.erase(keys[n // 2 :]), np.arange(2 * n - n // 2) < n - n // 2)
                same(what + "contains", t.contains(keys), np.arange(2 * n) < n // 2)
                same(
                    what + "insert after erase",
                    t.insert(there[n // 2 :], _values(there[n // 2 :], value, 2)),
                    [True] * (n - n // 2),
                )
                expect(len(t) == n, what + f"the size is {len(t)}")
            t.shrink()
            audit(t)
            same("contains after shrink", t.contains(there), np.ones(len(there), bool))


@check("wide", "insert")
def wide_against_a_dict(target: Target) -> None:
    """Random batches of single and mixed operations on a growing table, beside a dict of bytes."""
    for key, value in SIZES[: target.pick(4, 8, 8)]:
        rng = target.rng(f"dict {key}+{value}")
        pool = _rows(rng, 3000, key)
        oracle: dict[bytes, bytes] = {}
        with target.table(_dtype(key), _dtype(value)) as t:
            for r in range(target.pick(25, 100, 1000)):
                chosen = rng.choice(len(pool), int(rng.integers(1, 900)), replace=False)
                keys, values = pool[chosen], _values(pool[chosen], value, r)
                ops = rng.choice([Op.INSERT, Op.ASSIGN, Op.FIND, Op.ERASE], len(keys)).astype(np.uint8)
                if r % 3 == 0:
                    ops[:] = ops[0]
                _one_batch(t, ops, keys, values, oracle, f"{key}+{value} bytes, round {r}")
            got, got_values = t.export()
            pairs = dict(zip(_bytes(got), _bytes(got_values, len(got)), strict=True))
            expect(pairs == oracle, f"{key}+{value} bytes: export differs from the dict")


def _bytes(rows: Array | None, n: int = 0) -> list[bytes]:
    return [b""] * n if rows is None else [row.tobytes() for row in np.asarray(rows)]


def _one_batch(t: Any, ops: Array, keys: Array, values: Array | None, oracle: dict[bytes, bytes], what: str) -> None:
    single = {Op.INSERT: t.insert, Op.ASSIGN: t.insert_or_assign, Op.ERASE: t.erase}
    found = None
    if (ops == ops[0]).all() and ops[0] != Op.FIND:
        done = single[Op(ops[0])](keys) if ops[0] == Op.ERASE else single[Op(ops[0])](keys, values)
    elif (ops == ops[0]).all():
        found, done = t.find(keys)
    else:
        found, done = t.execute(ops, keys, values)
    expected = np.zeros(len(ops), bool)
    shown = _bytes(found, len(ops))
    given = _bytes(values, len(ops))
    for i, (op, k) in enumerate(zip(ops.tolist(), _bytes(keys), strict=True)):
        there = oracle.get(k)
        expected[i] = (there is None) == (op in (Op.INSERT, Op.ASSIGN))
        if op == Op.FIND and there is not None:
            expect(shown[i] == there, f"{what}: element {i} is found with another value")
        elif found is not None:
            expect(not any(shown[i]), f"{what}: element {i} shows a value though it finds none")
        if op == Op.ERASE:
            oracle.pop(k, None)
        elif op == Op.ASSIGN or (op == Op.INSERT and there is None):
            oracle[k] = given[i]
    same(f"{what}: answers", done, expected)
    expect(len(t) == len(oracle), f"{what}: the size is {len(t)}, the dict has {len(oracle)}")


@check("wide", "insert")
def wide_full(target: Target) -> None:
    """A table that may not grow: elements without room say so, the others are done, and room lets them in."""
    for key, value in ((12, 4), (16, 64), (64, 256)):
        with target.table(_dtype(key), _dtype(value), capacity=200, grow=False) as t:
            keys = _rows(target.rng(), 4 * t.info["slots"], key)
            values = _values(keys, value)
            status = np.ones(len(keys), np.uint8)
            try:
                t.insert(keys, values)
                expect(False, f"{len(keys)} keys found room in {t.info['slots']} slots")
            except TableFull as error:
                status = np.asarray(error.status)
            kept = status == 1
            expect(set(status.tolist()) <= {1, 2, 3}, f"elements of a full table have status {set(status.tolist())}")
            expect(len(t) == kept.sum(), f"{kept.sum()} elements were inserted, the size is {len(t)}")
            found, there = t.find(keys)
            same("contains in a full table", there, kept)
            if values is not None:
                _same_bits("values in a full table", found[kept], values[kept])
            t.reserve(len(keys))
            expect(bool(t.insert(keys[~kept], None if values is None else values[~kept]).all()), "reserve made no room")
            same("after reserve", t.contains(keys), np.ones(len(keys), bool))


@check("wide", "insert")
def wide_threads(target: Target) -> None:
    """Threads that insert the same keys, find and erase, in a growing table: one wins, and no value is torn."""
    for key, value in ((12, 4), (16, 64), (64, 256)):
        keys = _rows(target.rng(f"{key}+{value}"), target.pick(6000, 30_000, 300_000), key)
        with target.table(_dtype(key), _dtype(value)) as t:
            _insert_and_erase_in_threads(t, keys, np.asarray(_values(keys, value)), f"{key}+{value} bytes")


def _insert_and_erase_in_threads(t: Any, keys: Array, values: Array, what: str) -> None:
    n = len(keys)
    step = n // 12
    inserted, erased, wrong = [], [], []

    def insert(first: int) -> None:
        mask = np.zeros(n, bool)
        for start in [*range(first, n, step), *range(0, first, step)]:
            part = slice(start, min(start + step, n))
            mask[part] |= t.insert(keys[part], values[part])
        inserted.append(mask)

    def look() -> None:
        for _ in range(12):
            found, there = t.find(keys)
            wrong.append(int((np.asarray(found)[there] != values[there]).sum()))

    def erase() -> None:
        erased.append(t.erase(keys))

    in_threads(partial(insert, 0), partial(insert, step * 5), look)
    same("threads that report inserted, per key", np.sum(inserted, axis=0), np.ones(n, int))
    expect(not any(wrong), f"{what}: values were found in pieces, or of another key")
    _same_bits("values", t.find(keys)[0], values)
    in_threads(erase, erase, look)
    same("threads that report erased, per key", np.sum(erased, axis=0), np.ones(n, int))
    expect(not any(wrong), f"{what}: erased keys were found with another value")
    expect(len(t) == 0, f"{len(t)} keys are left")
