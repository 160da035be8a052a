"""Ageing: millions of mixed operations against sorted arrays, and the memory of a skiplist whose keys come and go."""

from __future__ import annotations

import math
import threading
import time

import numpy as np
import pytest

import pygpuhash as gh

OPS = np.array([gh.Op.INSERT, gh.Op.ASSIGN, gh.Op.ACCUMULATE, gh.Op.FIND, gh.Op.ERASE], np.uint8)
NEIGHBOURS = ("lower_bound", "successor", "floor", "predecessor")
WRITERS = 3


def universe(rng, n, dtype):
    """So many keys in the order of the table, with its ends."""
    if np.dtype(dtype).kind == "f":
        finite = np.unique(rng.standard_normal(n).astype(dtype))
        return np.concatenate([[-np.inf], finite[np.isfinite(finite)], [np.inf]]).astype(dtype)
    info = np.iinfo(dtype)
    ends = np.array([info.min, info.max - 1, info.max], dtype)
    return np.unique(np.append(rng.integers(info.min, info.max, n, dtype), ends))


class Reference:
    """Which of a sorted array's keys are there, and with which values."""

    def __init__(self, rng, keys, value_dtype):
        self.rng, self.keys = rng, keys
        self.there, self.value = np.zeros(len(keys), bool), np.zeros(len(keys), value_dtype)

    def values(self, n):
        return self.rng.integers(0, np.iinfo(self.value.dtype).max, n, self.value.dtype, endpoint=True)

    def places(self, n, own=(0, 1)):
        """Numbers of n keys, of every own[1]-th from own[0] on: random, skewed, or one beside the other."""
        first, step = own
        many = len(range(first, len(self.keys), step))
        kind = self.rng.choice(["random", "skewed", "ascending", "descending"])
        if kind == "random":
            at = self.rng.integers(0, many, n)
        elif kind == "skewed":  # half of them among a thousandth of the keys
            at = (many * self.rng.random(n) ** 10).astype(np.int64)
        else:
            at = np.sort((self.rng.integers(0, many) + np.arange(n)) % many)
            at = at[::-1] if kind == "descending" else at
        return at * step + first


class Mixture:
    """Batches of one operation each, or of several, on a table and its reference. `done` counts what was asked for.

    Keys repeat in a batch but for `execute`, whose operations would have no order.
    """

    def __init__(self, table, model, own=(0, 1)):
        self.table, self.model, self.own, self.done = table, model, own, 0

    def batch(self, verb, n):
        at = self.model.places(n, self.own)
        getattr(self, verb)(np.unique(at) if verb == "execute" else at)
        self.done += n if verb != "execute" else len(np.unique(at))

    def fresh_once(self, at, said, was):
        """Of the elements that name a key which was not there exactly one says that it added it."""
        assert not said[was].any()
        added = at[said]
        assert len(np.unique(added)) == len(added)
        assert np.array_equal(np.sort(added), np.unique(at[~was]))

    def insert(self, at):
        m = self.model
        was, values = m.there[at], m.values(len(m.keys))[at]  # equal ones for equal keys
        self.fresh_once(at, self.table.insert(m.keys[at], values), was)
        m.value[at[~was]] = values[~was]
        m.there[at] = True

    def assign(self, at):
        """Of equal keys any element may be the last: which one was, is what the table says, but it has to be one."""
        m = self.model
        was, values = m.there[at], np.arange(len(at)).astype(m.value.dtype)
        self.fresh_once(at, self.table.insert_or_assign(m.keys[at], values), was)
        last, found = self.table.find(m.keys[at])
        assert found.all()
        assert (last < len(at)).all()
        assert (at[last.astype(np.int64)] == at).all()
        m.value[at] = last
        m.there[at] = True

    def accumulate(self, at):
        m = self.model
        was, values = m.there[at], m.values(len(at))
        self.fresh_once(at, self.table.accumulate(m.keys[at], values), was)
        m.value[at[~was]] = 0
        np.add.at(m.value, at, values)  # which wraps
        m.there[at] = True

    def erase(self, at):
        m = self.model
        said = self.table.erase(m.keys[at])
        gone = at[said]
        assert len(np.unique(gone)) == len(gone)
        assert np.array_equal(np.sort(gone), np.unique(at[m.there[at]]))
        m.there[at] = False

    def find(self, at):
        m = self.model
        values, found = self.table.find(m.keys[at])
        assert np.array_equal(found, m.there[at])
        assert np.array_equal(values[found], m.value[at][found])
        assert np.array_equal(self.table.contains(m.keys[at]), m.there[at])

    def execute(self, at):
        m = self.model
        ops, values = m.rng.choice(OPS, len(at)), m.values(len(at))
        got, said = self.table.execute(ops, m.keys[at], values)
        was, old = m.there[at], m.value[at]
        insert, assign, add, find, erase = (ops == op for op in OPS)
        assert np.array_equal(said, np.where(find | erase, was, ~was))
        assert np.array_equal(got[find & was], old[find & was])
        m.value[at] = np.where(insert & ~was | assign | add & ~was, values, np.where(add, old + values, old))
        m.there[at] = (was | insert | assign | add) & ~erase

    # ---- answers by order, of a table that nobody changes meanwhile

    def held(self):
        return np.flatnonzero(self.model.there)

    def pairs(self, places, keys, values):
        assert np.array_equal(keys, self.model.keys[places])
        assert np.array_equal(values, self.model.value[places])

    def neighbours(self, at):
        held = self.held()
        for verb, asked in zip(NEIGHBOURS, np.array_split(at, 4), strict=True):
            left, before = verb in ("lower_bound", "predecessor"), verb in ("floor", "predecessor")
            want = np.searchsorted(held, asked, "left" if left else "right") - before
            there = (want >= 0) & (want < len(held))
            keys, values, found = getattr(self.table, verb)(self.model.keys[asked])
            assert np.array_equal(found, there), verb
            self.pairs(held[want[there]], keys[there], values[there])

    def range(self, at):
        """Some short ones of a limit, one after the other, some without, and one long one."""
        m, held = self.model, self.held()
        width = int(m.rng.integers(1, 4000))
        low, high = at, np.minimum(at + width, len(m.keys) - 1)
        first, end = np.searchsorted(held, low), np.searchsorted(held, high)
        keys, values, counts = self.table.range(m.keys[low], m.keys[high], 4)
        assert np.array_equal(counts, np.clip(end - first, 0, 4))
        inside = np.arange(4) < counts[:, None]
        self.pairs(held[(first[:, None] + np.arange(4))[inside]], keys[inside], values[inside])
        low, high, first, end = (some[:10] for some in (low, high, first, end))
        keys, values, offsets = self.table.range(m.keys[low], m.keys[high])
        assert np.array_equal(np.diff(offsets), end - first)
        self.pairs(np.concatenate([held[a:b] for a, b in zip(first, end, strict=True)]), keys, values)
        low, high = np.sort(m.rng.integers(0, len(m.keys), 2))
        self.pairs(held[slice(*np.searchsorted(held, [low, high]))], *self.table[m.keys[low] : m.keys[high]])

    def ends(self, at):
        held = self.held()
        if not len(held):
            with pytest.raises(ValueError, match="the table is empty"):
                self.table.min()
            return
        for place, (key, value) in ((held[0], self.table.min()), (held[-1], self.table.max())):
            self.pairs([place], [key], [value])

    def whole(self):
        self.table.check()
        held = self.held()
        assert len(self.table) == len(held)
        self.pairs(held, *self.table.export())


def beside_each_other(table, model, n):
    """Writers of keys that lie among one another's, and one who asks for neighbours.

    Returns how many operations: those of the writers, and those of the other one, which nobody knows beforehand.
    """
    # Of WRITERS + 1 keys in a row one is nobody's; those of them that are there stay there.
    step, done, wrong = WRITERS + 1, threading.Event(), []
    fixed = np.flatnonzero(model.there & (np.arange(len(model.keys)) % step == WRITERS))
    asked, beside = [0], np.random.default_rng(model.rng.integers(1 << 32))

    def write(mixture):
        try:
            for _ in range(4):
                for verb in ("insert", "erase", "assign", "execute", "accumulate", "erase", "find"):
                    mixture.batch(verb, n)
        except BaseException as error:
            wrong.append(error)

    def look():
        try:
            while not done.is_set() and len(fixed):
                at = beside.integers(0, len(model.keys), 100)
                keys, _, found = table.lower_bound(model.keys[at])
                i = np.searchsorted(fixed, at)  # the key that is found lies before this one, or is it
                inside = i < len(fixed)
                assert found[inside].all()
                assert (keys >= model.keys[at])[inside].all()
                assert (keys[inside] <= model.keys[fixed[i[inside]]]).all()
                keys, values, counts = table.range(model.keys[at[:1]], model.keys[[-1]], 50)
                keys, values = keys[0, : counts[0]], values[0, : counts[0]]
                assert (keys[1:] > keys[:-1]).all()
                mine = fixed[slice(*np.searchsorted(model.keys[fixed], keys[[0, -1]]))] if len(keys) else fixed[:0]
                at_them = np.searchsorted(keys, model.keys[mine])
                assert np.array_equal(keys[at_them], model.keys[mine])
                assert np.array_equal(values[at_them], model.value[mine])
                asked[0] += 101
        except BaseException as error:
            wrong.append(error)

    # A generator is one thread's: each writer has a view of the model with one of its own.
    mixtures = []
    for i in range(WRITERS):
        part = Reference(np.random.default_rng(model.rng.integers(1 << 32)), model.keys, model.value.dtype)
        part.there, part.value = model.there, model.value
        mixtures.append(Mixture(table, part, (i, step)))
    writers = [threading.Thread(target=write, args=(mixture,)) for mixture in mixtures]
    reader = threading.Thread(target=look)
    for thread in [reader, *writers]:
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    reader.join()
    if wrong:
        raise wrong[0]
    return sum(mixture.done for mixture in mixtures), asked[0]


UP = (["insert", "assign", "accumulate", "execute", "find", "erase"], [0.3, 0.2, 0.2, 0.1, 0.1, 0.1])
DOWN = (["insert", "assign", "accumulate", "execute", "find", "erase"], [0.03, 0.03, 0.04, 0.1, 0.1, 0.7])


def age(total, space, largest, key, value, **options):
    """`total` operations by batches of 1 to `largest` keys, which fill a table from empty and drain it, in turn."""
    print("seed 21")
    rng = np.random.default_rng(21)
    model = Reference(rng, universe(rng, space, key), value)
    sizes, batches, beside, asked = [], 0, 0, 0
    with gh.Table(
        "skiplist", capacity=64, key_dtype=key, value_dtype=value, device="cpu", threads=2, **options
    ) as table:
        mixture = Mixture(table, model)
        while mixture.done < total:
            verbs, weights = UP if mixture.done * 6 // total % 2 == 0 else DOWN
            mixture.batch(rng.choice(verbs, p=weights), round(math.exp(rng.uniform(0, math.log(largest)))))
            batches += 1
            sizes.append(int(model.there.sum()))
            if batches % 4 == 0:
                mixture.batch(rng.choice(["neighbours", "range", "ends"]), int(rng.integers(1, 2000)))
            if batches % 100 == 0:
                mixture.whole()
            if batches % 200 == 0:
                more, answers = beside_each_other(table, model, largest // 20)
                mixture.done, beside, asked = mixture.done + more, beside + more, asked + answers
                mixture.whole()
        mixture.whole()
        grown = table.stats()
        table.flush()
        mixture.whole()
        table.shrink()
        mixture.whole()
        assert max(sizes) > space / 3
        assert min(sizes[np.argmax(sizes) :]) < max(sizes) / 2
        assert beside > total / 20
        assert asked > 1000
        return (
            f"{key}, {options}: {mixture.done:,} operations in {batches:,} batches, {beside:,} of them by threads"
            f" beside each other, {asked:,} by one that asks meanwhile; up to {max(sizes):,} keys, {len(table):,} at"
            f" the end; the pool grew to {grown['pool_chunks']:,.0f} chunks, {grown['rebuilds']:.0f} rebuilds"
        )


@pytest.mark.parametrize(
    ("key", "value", "options"),
    [
        ("u4", "u4", {}),
        ("i8", "u4", {"chunk": "8", "build": "never"}),
        ("f4", "u8", {"chunk": "32", "merge": "0.1"}),
        ("u8", "u8", {"p_chunk": "0.3", "build": "always"}),
    ],
)
def test_mixed_operations_agree_with_sorted_arrays(key, value, options):
    print(age(600_000, 20_000, 6_000, key, value, **options))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("key", "value", "options"), [("u4", "u4", {}), ("f8", "u4", {"chunk": "8", "build": "never"})], ids=["u4", "f8"]
)
def test_ten_million_operations(key, value, options, capsys):
    said = age(10_000_000, 500_000, 100_000, key, value, **options)
    with capsys.disabled():
        print(f"\n{said}")


# ---- memory


def held(table):
    """Bytes in chunks that were handed out."""
    stats = table.stats()
    return stats["pool_taken"] * (stats["chunk_entries"] + 2) * 8


def built_of(keys, values):
    """(bytes in chunks, bytes of the table) of a table that is built of these pairs."""
    options = {"capacity": len(keys), "key_dtype": "u4", "value_dtype": "u4", "device": "cpu", "build": "always"}
    with gh.Table("skiplist", **options) as table:
        table.insert(keys, values)
        table.shrink()
        return held(table), table.nbytes


def age_at_constant_size(n, rounds, how):
    """A tenth of n keys leaves and as many others come, so often. Says what the memory was."""
    print("seed 22")
    rng = np.random.default_rng(22)
    part, space = n // 10, 1 << 31
    odd = np.uint32(2654435761)  # numbers that are counted up become keys that are all different
    made = n
    numbers = np.arange(n, dtype=np.uint32)

    def names(of):
        return of * odd if how == "random" else of * np.uint32(space // (n + rounds * part))

    with gh.Table("skiplist", capacity=n, key_dtype="u4", value_dtype="u4", device="cpu", threads=2) as table:
        table.insert(rng.permutation(names(numbers)), 0)
        table.insert_or_assign(names(numbers), numbers)
        fresh, fresh_all = built_of(*(some[np.argsort(names(numbers))] for some in (names(numbers), numbers)))
        taken, every, after = [held(table)], [table.nbytes], []
        for round_ in range(1, rounds + 1):
            gone = rng.permutation(n)[:part] if how == "random" else np.arange(part)
            assert table.erase(names(numbers[gone])).all()
            assert not table.find(names(numbers[gone]))[1].any()
            come = np.arange(made, made + part, dtype=np.uint32)
            made += part
            assert table.insert(names(come), come).all()
            numbers = np.concatenate([np.delete(numbers, gone), come])
            values, found = table.find(names(numbers))
            assert found.all()
            assert np.array_equal(values, numbers)
            assert len(table) == n
            taken.append(held(table))
            every.append(table.nbytes)
            if round_ % (rounds // 5) == 0:
                table.check()
                table.flush()
                after.append(held(table))
                order = np.argsort(names(numbers))
                keys, values = table.export()
                assert np.array_equal(keys, names(numbers)[order])
                assert np.array_equal(values, numbers[order])
                table.check()
        table.shrink()
        table.check()
        small = table.nbytes
    # FLUSH leaves as many chunks as a table has that was built of as many pairs, however many rounds were before, and a
    # shrink such a pool, but for the fiftieth for which it moves nothing. In between the pool is doubled only while
    # dense chunks would need more than half of it, hence twice at most.
    assert set(after) == {fresh}
    assert small <= 1.02 * fresh_all
    assert max(taken) <= max(every)
    assert max(every) <= 4 * every[0]
    return (
        f"{how}: {n:,} keys, a tenth replaced {rounds:,} times: chunks had {taken[0] / n:.1f} bytes a key at first, up"
        f" to {max(taken) / n:.1f}, {max(after) / n:.2f} after flush (built of as many keys: {fresh / n:.2f}); the"
        f" table {every[0] / n:.1f}, up to {max(every) / n:.1f}, {small / n:.2f} after shrink (built:"
        f" {fresh_all / n:.2f})"
    )


@pytest.mark.parametrize("how", ["random", "window"])
def test_memory_at_constant_size(how):
    age_at_constant_size(4_000, 100, how)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["random", "window"])
def test_memory_after_a_thousand_rounds(how, capsys):
    said = age_at_constant_size(200_000, 1_000, how)
    with capsys.disabled():
        print(f"\n{said}")


def test_finds_where_neighbouring_keys_have_left():
    """In descending order each chunk is merged into the next one that is: finds must not go that way each time."""
    keys = np.arange(200_000, dtype="u4") * 1000
    gone = keys[50_000:150_000]
    rng = np.random.default_rng(23)
    asked = rng.permutation(gone)[:20_000]

    def seconds(table):
        taken = []
        for _ in range(7):
            start = time.thread_time()
            table.find(asked)
            taken.append(time.thread_time() - start)
        return min(taken)

    with gh.Table(
        "skiplist", capacity=len(keys), key_dtype="u4", value_dtype="u4", device="cpu", threads=1, build="never"
    ) as table:
        table.insert(rng.permutation(keys), 0)
        before = seconds(table)
        for part in np.array_split(gone[::-1].copy(), 100):
            assert table.erase(part).all()
        assert table.stats()["zombies"] > 1000
        assert seconds(table) < 20 * before  # with a chain of zombies some thousand times
        table.check()
