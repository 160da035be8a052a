"""Neighbours and short ranges on the CPU, where the walks of many queries go down together."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import pygpuhash as gh

VERBS = ("lower_bound", "successor", "floor", "predecessor")
COUNTS = (0, 1, 2, 63, 64, 65, 700, 1025, 4999)  # beside a group's 64, and what several threads share


def ranks(keys):
    """Unsigned numbers in the order of these keys."""
    bits = keys.view(f"u{keys.dtype.itemsize}")
    top = bits.dtype.type(1) << bits.dtype.type(8 * keys.dtype.itemsize - 1)
    if keys.dtype.kind == "f":
        return np.where(bits & top, ~bits, bits | top)
    return bits ^ top if keys.dtype.kind == "i" else bits


def expected(held, verb, asked):
    """(places in the sorted keys, found)."""
    at = np.searchsorted(ranks(held), ranks(asked), "left" if verb in ("lower_bound", "predecessor") else "right")
    at = at - (verb in ("floor", "predecessor"))
    return at, (at >= 0) & (at < len(held))


def agrees(t, held, values, asked):
    for verb in VERBS:
        keys, with_them, found = getattr(t, verb)(asked)
        at, there = expected(held, verb, asked)
        assert np.array_equal(found, there), verb
        assert np.array_equal(ranks(keys)[there], ranks(held[at[there]])), verb
        assert np.array_equal(with_them[there], values[at[there]]), verb
    low, high = asked, np.roll(asked, 1)
    keys, with_them, counts = t.range(low, high, 5)
    first = expected(held, "lower_bound", low)[0]
    here = np.clip(expected(held, "lower_bound", high)[0] - first, 0, 5)
    assert np.array_equal(counts, here)
    inside = np.arange(5) < here[:, None]
    places = (first[:, None] + np.arange(5))[inside]
    assert np.array_equal(ranks(keys[inside]), ranks(held[places]))
    assert np.array_equal(with_them[inside], values[places])


def questions(rng, keys, n):
    """Keys that were there, what is beside them, both ends of the key type and what is beside those, in no order."""
    bits = keys.view(f"u{keys.dtype.itemsize}")
    one = bits.dtype.type(1)
    top = one << bits.dtype.type(8 * keys.dtype.itemsize - 1)
    some = bits[rng.integers(0, len(bits), n)] + rng.integers(-1, 2, n).astype(bits.dtype)
    ends = np.array([0, 1, 2, top - one, top, top + one], bits.dtype)
    ends = np.concatenate([ends, ~ends])
    return rng.permutation(np.concatenate([some, ends]))[:n].view(keys.dtype)


@pytest.mark.parametrize("how", ["built", "inserted"])
@pytest.mark.parametrize(
    ("dtype", "value", "options"),
    [
        ("u4", "u4", {}),
        ("i4", "u4", {"chunk": "8"}),
        ("f4", "u8", {"chunk": "32"}),
        ("u8", "u8", {"p_chunk": "0.3"}),
        ("i8", "u4", {"chunk": "32", "p_chunk": "0"}),
        ("f8", "u8", {"chunk": "8", "merge": "0.01"}),
    ],
)
def test_against_a_sorted_array(dtype, value, options, how):
    rng = np.random.default_rng(5)
    bits = np.dtype(dtype).itemsize * 8
    some = rng.integers(0, 2**bits, 6_000, f"u{bits // 8}", endpoint=False)
    some = np.unique(np.append(some, ~some.dtype.type(0) - np.arange(2, dtype=some.dtype)))  # and some of the ends
    keys = some.view(dtype)[np.argsort(ranks(some.view(dtype)))]
    values = rng.integers(0, 1000, len(keys)).astype(value)
    with gh.Table("skiplist", key_dtype=dtype, value_dtype=value, device="cpu", threads=3, **options) as t:
        agrees(t, keys[:0], values[:0], questions(rng, keys, 100))  # an empty table
        for part in np.array_split(np.arange(len(keys)) if how == "built" else rng.permutation(len(keys)), 9):
            t.insert(keys[part], values[part])
        for n in COUNTS:
            agrees(t, keys, values, questions(rng, keys, n))
        agrees(t, keys, values, keys[2000:2130])  # in order, and near each other
        agrees(t, keys, values, np.repeat(keys[77], 70))
        # Chunks without their least entries, empty and merged ones: walks go on to the left and to the right.
        gone = (np.arange(len(keys)) % 300 < 200) | (rng.random(len(keys)) < 0.3)
        gone[-1] = False
        t.erase(keys[gone])
        for n in COUNTS[-3:]:
            agrees(t, keys[~gone], values[~gone], questions(rng, keys, n))
        t.erase(keys[:-1])
        agrees(t, keys[-1:], values[-1:], questions(rng, keys, 200))
        t.check()


@pytest.mark.parametrize("held", [[2], [2, 0], [2, 1, 0], [9, 1], [9, 0]])
def test_what_is_next_to_the_keys_of_side_slots(held):
    """The greatest of all other keys, or one further off, with and without those that it lies beside."""
    keys = np.uint32(2**32 - 1) - np.array(held, "u4")
    with gh.Table("skiplist", key_dtype="u4", value_dtype="u4", device="cpu") as t:
        t.insert(keys, 1)
        agrees(t, keys, np.ones(len(keys), "u4"), np.uint32(2**32 - 1) - np.arange(12, dtype="u4"))


@pytest.mark.parametrize(("chunk", "p_chunk"), [(8, 1), (16, 0.4)])
def test_beside_writers(chunk, p_chunk):
    """The nearest of the keys that stay bounds every answer; what lies nearer is a key that comes and goes."""
    n, far = 600, 64
    stays = np.arange(1, n + 1, dtype="u4") * far
    with gh.Table(
        "skiplist",
        key_dtype="u4",
        value_dtype="u4",
        device="cpu",
        chunk=chunk,
        p_chunk=p_chunk,
        build="never",
        threads=1,
    ) as t:
        t.insert(stays, ~stays)
        stop = threading.Event()

        def write(seed):
            rng = np.random.default_rng(seed)
            while not stop.is_set():  # a run of keys fills chunks to the brim, and leaves them empty
                start = np.uint32(rng.integers(0, n - 20) * far)
                some = start + np.arange(10 * far, dtype="u4")
                some = some[(some % far != 0) & (some % 2 == seed)]
                t.insert(some, ~some)
                t.erase(some)

        writers = [threading.Thread(target=write, args=(seed,)) for seed in range(2)]
        for writer in writers:
            writer.start()
        try:
            rng = np.random.default_rng(9)
            for _ in range(15):
                asked = rng.integers(0, (n + 2) * far, 1000, "u4")
                for verb in VERBS:
                    keys, values, found = getattr(t, verb)(asked)
                    at, there = expected(stays, verb, asked)
                    nearest = stays[np.clip(at, 0, n - 1)]
                    assert found[there].all(), verb
                    assert np.array_equal(values[found], ~keys[found]), verb
                    k, a, b = (x[found].astype("i8") for x in (keys, asked, nearest))
                    right_side = {
                        "lower_bound": k >= a, "successor": k > a, "floor": k <= a, "predecessor": k < a
                    }[verb]  # fmt: skip
                    assert right_side.all(), verb
                    bounded = k <= b if verb in ("lower_bound", "successor") else k >= b
                    assert bounded[there[found]].all(), verb
                keys, values, counts = t.range(asked, asked + np.uint32(3 * far), 300)
                inside = np.arange(300) < counts[:, None]
                assert (np.diff(keys.astype("i8"), axis=1)[inside[:, 1:]] > 0).all()
                assert np.array_equal(values[inside], ~keys[inside])
                mine = (keys % far == 0) & inside
                first, end = (expected(stays, "lower_bound", x)[0] for x in (asked, asked + np.uint32(3 * far)))
                assert np.array_equal(mine.sum(1), end - first)
        finally:
            stop.set()
            for writer in writers:
                writer.join()
        t.check()


@pytest.mark.parametrize("dtype", ["u4", "u8"])
def test_in_a_chunk_that_is_written_all_the_time(dtype):
    """Entries that move to other places in their chunk, while it is read, are neither lost nor taken for others."""
    stays = np.arange(2, 14, dtype=dtype) * 10
    comes = np.repeat(stays[:4] + stays.dtype.type(5), 2)
    asked = np.random.default_rng(1).choice(stays, 4000)
    with gh.Table("skiplist", key_dtype=dtype, value_dtype=dtype, device="cpu", chunk=32, threads=1) as t:
        t.insert(stays, ~stays)
        stop = threading.Event()
        ops = np.array([gh.Op.INSERT, gh.Op.ERASE] * 100, "u1")  # fewer than are sorted by kind
        keys = np.resize(comes, len(ops))

        def write():
            while not stop.is_set():
                t.execute(ops, keys, ~keys)

        writer = threading.Thread(target=write)
        writer.start()
        try:
            for _ in range(25):
                for verb in ("lower_bound", "floor"):
                    got, values, found = getattr(t, verb)(asked)
                    assert found.all(), verb
                    assert np.array_equal(got, asked), verb
                    assert np.array_equal(values, ~asked), verb
                got, values, counts = t.range(asked[:500], np.full(500, stays[-1]), 20)
                inside = np.arange(20) < counts[:, None]
                assert np.array_equal(((got % 10 == 0) & inside).sum(1), (stays[-1] - asked[:500]) // 10)
                assert (np.diff(got.astype("i8"), axis=1)[inside[:, 1:]] > 0).all()
                assert np.array_equal(values[inside], ~got[inside])
        finally:
            stop.set()
            writer.join()
        t.check()


@pytest.mark.parametrize("verb", VERBS)
def test_keys_that_change_during_a_call(verb):
    """An element that is one of two keys when it is read is answered as one of the two."""
    there = np.arange(20_000, dtype="u8") * 10
    rng = np.random.default_rng(3)
    both = [rng.choice(there[1:-1], 5000) for _ in range(2)]
    asked, stop = both[0].copy(), threading.Event()
    with gh.Table("skiplist", key_dtype="u8", value_dtype="u8", device="cpu", threads=2) as t:
        t.insert(there, there + np.uint64(1))
        right = [getattr(t, verb)(keys)[0] for keys in both]

        def scribble():
            while not stop.is_set():
                asked[:] = both[1]
                asked[:] = both[0]

        thread = threading.Thread(target=scribble)
        thread.start()
        try:
            for _ in range(15):
                keys, values, found = getattr(t, verb)(asked)
                assert found.all()
                assert ((keys == right[0]) | (keys == right[1])).all()
                assert np.array_equal(values, keys + np.uint64(1))
        finally:
            stop.set()
            thread.join()
