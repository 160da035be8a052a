"""Room: full tables, growth, ageing, and the operations that have the table to themselves."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from pygpuhash import _core
from pygpuhash._conformance.arrays import Array, patterns, unique_keys, values_for
from pygpuhash._conformance.concurrency import in_threads
from pygpuhash._conformance.contents import CountedMemory
from pygpuhash._conformance.harness import Skipped, Target, check, expect, same, same_set
from pygpuhash.errors import NoMemory, TableFull
from pygpuhash.table import Op


@check("insert")
def full(target: Target) -> None:
    """A full table that may not grow: each element says what became of it, nothing is lost, a retry completes."""
    for key, value in target.formats:
        calls = ["insert", "insert_or_assign"]
        if value is not None and "accumulate" in target.traits:
            calls.append("accumulate")
        for call in calls:
            with target.table(key, value, capacity=1000, grow=False) as t:
                _fill(target, t, key, value, call)
    key, value = target.among(("uint32", "uint32"))[0]
    with target.table(key, value, capacity=1, grow=False) as t:
        _fill(target, t, key, value, "insert")


def _fill(target: Target, t: Any, key: str, value: str | None, call: str) -> None:
    step = max(200, t.info["slots"] // 4)
    keys = unique_keys(target.rng(f"{key}{value}{call}"), 10 * step, key)
    values = values_for(keys, value)
    done = np.zeros(len(keys), bool)
    where = f"{call} with {key} keys and {value} values"
    for start in range(0, len(keys), step):
        part = slice(start, start + step)
        error = _try(t, call, keys[part], None if values is None else values[part], done[part])
        _holds_done(t, keys, values, done, where)
        if error is not None:
            break
    else:
        expect(False, f"{where}: {len(keys)} keys went into {t.info['slots']} slots of a table that may not grow")
    expect(done.sum() >= t.capacity, f"{where}: full at {done.sum()} keys, the capacity is {t.capacity}")
    t.check()
    present = np.flatnonzero(done)[:50]
    same(
        f"{where}: insert of keys that a full table has",
        t.insert(keys[present], _at(values, present)),
        np.zeros(len(present)),
    )
    t.reserve(2 * int(part.stop))
    retry = np.flatnonzero(~done[: part.stop])
    again = np.zeros(len(retry), bool)
    error = _try(t, call, keys[retry], _at(values, retry), again)
    expect(error is None and again.all(), f"{where}: the retry after reserve says {error!r}")
    done[retry] = True
    _holds_done(t, keys, values, done, f"{where}, after the retry")


def _at(values: Array | None, index: Array) -> Array | None:
    return None if values is None else values[index]


def _try(t: Any, call: str, keys: Array, values: Array | None, done: Array) -> Exception | None:
    """Call, and note in `done` which elements report that they were inserted."""
    try:
        done |= getattr(t, call)(keys, values)
    except (TableFull, NoMemory) as error:
        status = error.status
        expect(
            status is not None and status.shape == keys.shape, f"{call} raised {error!r} without a status per element"
        )
        expect((status >= 2).any(), f"{call} raised {error!r}, but no element's status says so")
        expect((status <= 3).all(), f"{call} set the status {status.max()}, which has no meaning")
        if not isinstance(error, NoMemory):  # where memory was the reason, elements say 2 or 3
            expect((status == 2).any(), f"{call} raised {error!r}, but no element has the status 2 (full)")
        done |= status == 1
        return error
    return None


def _holds_done(t: Any, keys: Array, values: Array | None, done: Array, where: str) -> None:
    same(f"{where}: contains", t.contains(keys), done, keys)
    expect(len(t) == done.sum(), f"{where}: the size is {len(t)}, {done.sum()} elements report inserted")
    if values is not None:
        same(f"{where}: values", t.find(keys)[0], np.where(done, values, 0), keys)


@check("insert")
def full_by_execute(target: Target) -> None:
    """A mixed batch that does not fit: finds and erases are carried out, inserts say which of them were."""
    rng = target.rng()
    key, value = target.pair
    with target.table(key, value, capacity=500, grow=False) as t:
        keys = unique_keys(rng, 3 * t.info["slots"] + 400, key)
        old, new = keys[:400], keys[400:]
        t.insert(old, values_for(old, value))
        ops = rng.permutation(np.concatenate([np.full(len(new), 1), np.full(200, 4), np.full(200, 5)])).astype(np.uint8)
        batch = np.empty(len(ops), key)
        batch[ops == 1], batch[ops == 4], batch[ops == 5] = new, old[:200], old[200:]
        try:
            t.execute(ops, batch, values_for(batch, value))
        except (TableFull, NoMemory) as error:
            status = np.asarray(error.status)
        else:
            expect(False, f"{len(new)} inserts of a mixed batch went into {t.info['slots']} slots")
        same("finds of a mixed batch that does not fit", status[ops == 4], np.ones(200), old[:200])
        same("erases of a mixed batch that does not fit", status[ops == 5], np.ones(200), old[200:])
        same("inserts of a mixed batch that does not fit", t.contains(new), status[ops == 1] == 1, new)
        same("keys that were there", t.contains(old), np.arange(400) < 200, old)


@check("insert", "grow")
def growth(target: Target) -> None:
    """A table that starts small takes any number of keys, in small batches and in one large one, and keeps them all."""
    n = target.pick(60_000, 1_000_000, 10_000_000)
    for key, value in target.formats:
        keys = np.unique(np.concatenate([unique_keys(target.rng(f"{key}{value}"), n, key), patterns(key)]))
        keys = target.rng("order").permutation(keys)
        values = values_for(keys, value)
        for step in (n // 37, len(keys)):
            with target.table(key, value) as t:
                for start in range(0, len(keys), step):
                    part = slice(start, start + step)
                    fresh = t.insert(keys[part], _at(values, np.arange(len(keys))[part]))
                    same(f"insert in batches of {step}", fresh, np.ones(len(fresh), bool), keys[part])
                same(f"contains after growth in batches of {step}", t.contains(keys), np.ones(len(keys), bool), keys)
                if values is not None:
                    same(f"values after growth in batches of {step}", t.find(keys)[0], values, keys)


@check("insert")
def ageing(target: Target) -> None:
    """Rounds of erase and insert at a constant size: the table equals a dict, and its memory stays bounded."""
    rounds, live = target.pick(100, 1000, 10_000), 2000
    for key, value in target.among(("uint64", "uint64"), ("uint32", "uint32"), ("uint32", None)):
        rng = target.rng(f"{key}{value}")
        pool = np.unique(np.concatenate([unique_keys(rng, 8 * live, key), patterns(key)]))
        alive = np.zeros(len(pool), bool)
        stored = np.zeros(len(pool), value or key)
        early = 0
        with target.table(key, value, capacity=live) as t:
            for r in range(rounds):
                _one_round(target, t, rng, pool, alive, stored, value, live)
                if r % 20 == 19 or r == rounds - 1:
                    where = f"round {r + 1} of ageing with {key} keys and {value} values"
                    same(f"contains in {where}", t.contains(pool), alive, pool)
                    if value is not None:
                        same(f"values in {where}", t.find(pool)[0], np.where(alive, stored, 0), pool)
                    expect(len(t) == alive.sum(), f"the size in {where} is {len(t)}, expected {alive.sum()}")
                    t.check()
                if r == rounds // 4:
                    early = t.nbytes
            bound = 2 * early
            expect(t.nbytes <= bound, f"memory grew from {early} to {t.nbytes} bytes at a constant number of keys")


def _one_round(
    target: Target,
    t: Any,
    rng: np.random.Generator,
    pool: Array,
    alive: Array,
    stored: Array,
    value: str | None,
    live: int,
) -> None:
    """Erase a fifth of the live keys, then fill up to `live` again, partly with keys that were erased before."""
    there = np.flatnonzero(alive)
    gone = rng.choice(there, len(there) // 5, replace=False)
    same("erase", t.erase(pool[gone]), np.ones(len(gone), bool), pool[gone])
    alive[gone] = False
    target.tidy(t)
    fresh = rng.choice(np.flatnonzero(~alive), live - int(alive.sum()), replace=False)
    new = rng.integers(0, np.iinfo(stored.dtype).max, len(fresh), dtype=stored.dtype, endpoint=True)
    same("insert", t.insert(pool[fresh], None if value is None else new), np.ones(len(fresh), bool), pool[fresh])
    alive[fresh], stored[fresh] = True, new


@check("insert")
def maintenance(target: Target) -> None:
    """reserve, shrink, flush and clear keep every pair, or none, and say so in size, capacity and memory."""
    n = target.pick(20_000, 200_000, 2_000_000)
    for key, value in target.formats:
        keys = np.unique(np.concatenate([unique_keys(target.rng(f"{key}{value}"), n, key), patterns(key)]))
        values = values_for(keys, value)
        few = np.arange(0, len(keys), 50)
        with target.table(key, value, capacity=len(keys)) as t:
            t.insert(keys, values)
            t.reserve(3 * len(keys))
            _exactly(t, keys, values, "reserve")
            expect(t.capacity >= 3 * len(keys), f"reserve({3 * len(keys)}) left a capacity of {t.capacity}")
            large = t.nbytes
            t.erase(np.delete(keys, few))
            _exactly(t, keys[few], _at(values, few), "erase")
            if "flush" in target.traits:
                t.flush()
                _exactly(t, keys[few], _at(values, few), "flush")
            t.shrink()
            _exactly(t, keys[few], _at(values, few), "shrink")
            expect(t.nbytes < large, f"shrink to a fiftieth of the keys left {t.nbytes} of {large} bytes")
            t.clear()
            _exactly(t, keys[:0], _at(values, few[:0]), "clear")
            t.reserve(len(keys))
            same("insert after clear", t.insert(keys, values), np.ones(len(keys), bool), keys)
            _exactly(t, keys, values, "insert after clear")


def _exactly(t: Any, keys: Array, values: Array | None, after: str) -> None:
    t.check()
    exported, with_values = t.export()
    same_set(f"keys after {after}", exported.tolist(), keys.tolist())
    expect(len(t) == len(keys), f"the size after {after} is {len(t)}, expected {len(keys)}")
    if values is not None:
        order = np.argsort(exported)
        same(f"values after {after}", with_values[order], values[np.argsort(keys)], np.sort(keys))
        same(f"values found after {after}", t.find(keys)[0], values, keys)


@check("insert", "flush")
def flush_frees_room(target: Target) -> None:
    """Without growth, erased keys give their room back by flush: the table can be filled again and again."""
    key, value = target.pair
    with target.table(key, value, capacity=1000, grow=False) as t:
        for r in range(target.pick(20, 100, 1000)):
            keys = unique_keys(target.rng(f"{r}"), 1000, key)
            same(f"insert in round {r}", t.insert(keys, values_for(keys, value)), np.ones(1000, bool), keys)
            same(f"erase in round {r}", t.erase(keys), np.ones(1000, bool), keys)
            t.flush()


@check("insert")
def figures(target: Target) -> None:
    """stats, histogram, info and load factor are finite numbers that fit the contents."""
    key, value = target.pair
    keys = unique_keys(target.rng(), 5000, key)
    with target.table(key, value, capacity=5000) as t:
        t.insert(keys, values_for(keys, value))
        t.erase(keys[:1000])
        figures_of = t.stats()
        expect(len(figures_of) > 0, "stats is empty")
        for name, x in figures_of.items():
            expect(np.isfinite(x), f"stats()[{name!r}] is {x}")
        expect(figures_of.get("size", 4000) == 4000, f"stats()['size'] is {figures_of.get('size')}, expected 4000")
        for n in (1, 2, 64):
            counts = t.histogram(n)
            expect(counts.shape == (n,) and counts.sum() > 0, f"histogram({n}) is {counts}")
        same("the sums of histograms", [t.histogram(n).sum() for n in (1, 2, 64)], [t.histogram(7).sum()] * 3)
        info = t.info
        expect(info["size"] == 4000, f"info says {info['size']} keys, expected 4000")
        expect(
            info["used"] >= 4000 and info["slots"] >= info["used"], f"info says {info['used']} of {info['slots']} used"
        )
        expect(0 < t.load_factor <= 1, f"the load factor is {t.load_factor}")
        pair_bytes = keys.itemsize + (0 if value is None else np.dtype(value).itemsize)
        expect(t.nbytes >= 4000 * pair_bytes, f"{t.nbytes} bytes cannot hold 4000 pairs of {pair_bytes} bytes")


@check("insert")
def stats_of_the_c_abi(target: Target) -> None:
    """gpuhash_stats says how many figures there are, writes as many as there is room for, and gives each a name."""
    key, value = target.pair
    keys = unique_keys(target.rng(), 500, key)
    with target.table(key, value, capacity=500) as t:
        if not isinstance(t, _core.CoreTable):
            raise Skipped("the backend is a Python class")
        t.insert(keys, values_for(keys, value))
        there, none = _core.stats_raw(t, 0)
        expect(not none and there > 0, f"without room stats says {there} figures")
        names = []
        for room in (1, there, there + 3):
            n, rows = _core.stats_raw(t, room)
            expect(n == there, f"with room for {room} figures stats says {n}, without room {there}")
            expect(len(rows) == min(room, there), f"stats wrote {len(rows)} of {there} figures into room for {room}")
            names = [name for name, _ in rows]
        for name in names:
            expect(name.isidentifier(), f"the name of a figure is {name!r}; use letters, digits and underscores")
        same_set("the names of figures", names, set(names))


@check("insert")
def seeds(target: Target) -> None:
    """A seed is kept and repeats a table; another seed gives another one; without a seed, tables differ."""
    target.honours("seed")
    key, value = target.pair
    keys = unique_keys(target.rng(), 3000, key)

    one_thread: dict[str, Any] = {"threads": 1} if target.device == "cpu" else {}

    def layout(seed: int | None) -> tuple[int, Array, Array]:
        with target.table(key, value, seed=seed, capacity=len(keys), **one_thread) as t:
            t.insert(keys, values_for(keys, value))
            t.erase(keys[::3])
            return t.seed, t.export()[0], t.histogram(64)

    seed, exported, histogram = layout(12345)
    expect(seed == 12345, f"seed=12345 was asked for, the table says {seed}")
    if target.device == "cpu":  # on a GPU the order of a batch is not fixed
        _, again, histogram_again = layout(12345)
        same("export of two tables with one seed", again, exported)
        same("histogram of two tables with one seed", histogram_again, histogram)
    if "ordered" not in target.traits and "hash" not in target.fields:  # the sources' own hashes take no seed
        _, other, histogram_other = layout(54321)
        expect(
            not np.array_equal(other, exported) or not np.array_equal(histogram_other, histogram),
            "tables with the seeds 12345 and 54321 have the same order of export and the same histogram: the seed does "
            "not reach the hash",
        )
    drawn = {layout(None)[0] for _ in range(3)}
    expect(len(drawn) == 3 and 0 not in drawn, f"three tables without a seed have drawn {sorted(drawn)}")


# ---- counts, statuses and limits that only show at the edge ----------------------------------------------------------


@check("insert")
def counts(target: Target) -> None:
    """gpuhash_counts agrees with the status bytes: in every operation, after growth, and of elements without room."""
    if target.device != "cpu":
        raise Skipped("this check passes host arrays, as they are, to tables on the CPU")
    for key, value in target.formats:
        keys = unique_keys(target.rng(f"{key}{value}"), 30_000, key)
        values = values_for(keys, value)
        with target.table(key, value, **({} if "grow" in target.traits else {"capacity": len(keys)})) as t:
            _count_all(t, "insert of new keys, through growth", Op.INSERT, keys, values, len(keys))
            _count_all(t, "insert of keys that are there", Op.INSERT, keys, values, 0)
            _count_all(t, "insert_or_assign", Op.ASSIGN, keys, values, 0)
            _count_all(t, "find", Op.FIND, np.roll(keys, 1), None, len(keys))
            _count_all(t, "erase", Op.ERASE, keys[::3], None, len(keys[::3]))
            _count_all(t, "erase again", Op.ERASE, keys[::3], None, 0)
            _count_all(t, "find of erased keys and others", Op.FIND, keys, None, len(keys) - len(keys[::3]))
            duplicates = np.repeat(keys[:300:3], 5)
            _count_all(t, "insert of equal keys", Op.INSERT, duplicates, values_for(duplicates, value), 100)
        with target.table(key, value, capacity=500, grow=False) as t:
            many = unique_keys(target.rng("full"), 4 * t.info["slots"] + 1000, key)
            status = _counted(t, "insert into a full table", Op.INSERT, many, values_for(many, value))
            expect((status >= 2).any(), f"{len(many)} keys went into {t.info['slots']} slots")
            same("keys of a full table, by their status", t.contains(many), status == 1, many)


def _count_all(t: Any, what: str, op: Op, keys: Array, values: Array | None, yes: int) -> None:
    status = _counted(t, what, op, keys, values)
    expect((status <= 1).all(), f"{what}: an element has the status {status.max()}")
    expect((status == 1).sum() == yes, f"{what}: {(status == 1).sum()} elements have the status 1, expected {yes}")


def _counted(t: Any, what: str, op: Op, keys: Array, values: Array | None) -> Array:
    """One batch with counts: the status bytes, after they were compared."""
    if not isinstance(t, _core.CoreTable):
        raise Skipped("the backend is a Python class")
    status: Array
    error, yes, failed, status = _core.run_counted(t, int(op), keys, values)
    expect(yes == (status == 1).sum(), f"{what}: counts.yes is {yes}, {(status == 1).sum()} elements have the status 1")
    wrong = int((status >= 2).sum())
    expect(failed == wrong, f"{what}: counts.failed is {failed}, {wrong} elements have a status of 2 or above")
    expect((error is None) == (wrong == 0), f"{what}: {wrong} elements failed, and the call says {error!r}")
    if error is not None and not isinstance(error, (TableFull, NoMemory)):
        raise error
    return status


class LimitedMemory(CountedMemory):
    """Host memory that is refused when more than `most` bytes would be out."""

    most = 1 << 62

    def allocate(self, nbytes: int, alignment: int, stream: int) -> int:
        """The address of a block; 0 when too few bytes are left."""
        return 0 if self.held + nbytes > self.most else super().allocate(nbytes, alignment, stream)


@check("insert", "grow")
def growth_without_memory(target: Target) -> None:
    """A table that cannot get memory to grow says so, keeps what it has, and goes on growing when there is memory."""
    target.honours("memory")
    if "cpu" not in target.kinds:
        raise Skipped("the memory resource of this check has host memory, and the backend is not built for the CPU")
    target = replace(target, device="cpu")
    for key, value in target.formats:
        memory = LimitedMemory()
        with target.table(key, value, memory=memory, capacity=1000) as t:
            memory.most = memory.held + (memory.held >> 1)  # less than a table of twice the size needs
            pair_bytes = np.dtype(key).itemsize + (0 if value is None else np.dtype(value).itemsize)
            n = memory.most // pair_bytes + 1000
            if n > 4_000_000:
                raise Skipped(f"a small table takes {memory.held} bytes at once, more than this check fills")
            step = max(500, n // 100)
            keys = unique_keys(target.rng(f"{key}{value}"), n, key)
            values = values_for(keys, value)
            done = np.zeros(len(keys), bool)
            error = None
            for start in range(0, len(keys), step):
                part = slice(start, start + step)
                error = _try(t, "insert", keys[part], _at(values, np.arange(len(keys))[part]), done[part])
                if error is not None:
                    break
            where = f"growth without memory, {key} keys and {value} values"
            expect(error is not None, f"{where}: {len(keys)} keys went into {memory.held} bytes")
            expect(memory.held <= memory.most, f"{where}: {memory.held} bytes are held")
            _holds_done(t, keys, values, done, where)
            t.check()
            capacity = t.capacity
            expect(capacity <= t.info["slots"], f"{where}: the capacity is {capacity} of {t.info['slots']} slots")
            memory.most = 1 << 62
            rest = np.flatnonzero(~done)
            fresh = t.insert(keys[rest], _at(values, rest))
            same(f"{where}: insert when there is memory again", fresh, np.ones(len(rest), bool), keys[rest])
            _holds_done(t, keys, values, np.ones(len(keys), bool), f"{where}, when there is memory again")
        expect(not memory.blocks, f"a closed table keeps {len(memory.blocks)} blocks")


@check("insert", "grow")
def load_limit_under_threads(target: Target) -> None:
    """Threads that add at the same time do not fill a growing table beyond the capacity at which it grows."""
    key, value = target.pair
    n_threads, n = 4, 700
    for r in range(target.pick(30, 200, 2000)):
        keys = unique_keys(target.rng(f"{r}"), n_threads * n, key)

        def work(i: int, keys: Array = keys) -> None:
            mine = keys[i * n : (i + 1) * n]
            same(f"insert in thread {i}", t.insert(mine, values_for(mine, value)), np.ones(n, bool), mine)

        with target.table(key, value, capacity=1500) as t:
            in_threads(*[partial(work, i) for i in range(n_threads)])
            info = t.info
            expect(info["size"] == len(keys), f"{info['size']} of {len(keys)} keys are in the table")
            expect(
                info["size"] <= info["capacity"],
                f"{info['size']} keys are in a growing table whose capacity is {info['capacity']}, round {r}",
            )
