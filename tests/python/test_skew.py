"""Keys that come again and again, on the CPU: equal keys are combined before they reach the table where that pays, a
batch that one thread serves has the table to itself, and a batch that does not fit says how many distinct keys it has.
None of it may be seen in what a batch does and answers.
"""

from __future__ import annotations

import threading

import numpy as np
import pytest

import pygpuhash as gh
from pygpuhash import _core

BACKENDS = ["hive", "linear_probe", "slab_hash"]
WAYS = [{}, {"parts": "always"}, {"parts": "never"}]
N = 70_000  # several times what a cache of frequent keys takes, and blocks that are not full


def keys_of(kind: str, n: int, dtype: str) -> np.ndarray:
    random = np.random.default_rng(5)
    top = np.iinfo(dtype).max
    ranks = {
        "distinct": lambda: random.permutation(n),
        "uniform": lambda: random.integers(0, n // 2, n),
        "zipf": lambda: random.zipf(1.3, n) % 1_000_003,
        "steep": lambda: random.zipf(2.0, n) % 1_000_003,
        "one": lambda: np.full(n, 3),
        "two": lambda: np.arange(n) % 2,
        "some": lambda: random.integers(0, 5000, n),
        "short runs": lambda: np.arange(n) // 20 % 1000,
        "runs": lambda: np.arange(n) // 1000,
        "late": lambda: np.where(np.arange(n) < n // 2, np.arange(n), 7),  # skewed after what the sample has seen
    }[kind]().astype(dtype)
    keys = ranks * np.array(0x9E3779B1, dtype)
    keys[ranks == 3] = top  # keys of the side slots are hot as well
    keys[ranks == 2] = top - 1
    return keys


KINDS = ["distinct", "uniform", "zipf", "steep", "one", "two", "some", "runs", "short runs", "late"]


def table(backend: str = "linear_probe", dtype: str = "uint64", value: str | None = "int64", **options) -> gh.Table:
    options.setdefault("capacity", N)
    return gh.Table(backend, key_dtype=dtype, value_dtype=value, device="cpu", seed=11, **options)


def same_as_numpy(t: gh.Table, keys: np.ndarray, values: np.ndarray, join: np.ufunc) -> None:
    distinct, which = np.unique(keys, return_inverse=True)
    start = {np.add: 0, np.minimum: np.inf, np.maximum: -np.inf}[join]
    if values.dtype.kind == "f" or join is np.add:
        expected = np.full(len(distinct), start, values.dtype)
    else:
        limits = np.iinfo(values.dtype)
        expected = np.full(len(distinct), limits.max if join is np.minimum else limits.min, values.dtype)
    join.at(expected, which, values)
    got_keys, got = t.export()
    order = np.argsort(got_keys)
    assert np.array_equal(got_keys[order], distinct)
    assert np.array_equal(got[order], expected)
    t.check()


def once_for_each(keys: np.ndarray, mask: np.ndarray, already: np.ndarray) -> None:
    """Exactly one element of each new key is True, and none of keys that were there."""
    new = np.setdiff1d(keys, already)
    assert np.array_equal(np.sort(keys[mask]), new)


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["uint32", "uint64"])
@pytest.mark.parametrize("threads", [1, 2])
def test_sums_and_masks(kind: str, dtype: str, threads: int, way: dict) -> None:
    keys = keys_of(kind, N, dtype)
    values = np.random.default_rng(1).integers(-(2**62), 2**62, N)  # sums wrap
    already = keys[:: N // 50]
    with table(dtype=dtype, threads=threads, **way) as t:
        t.accumulate(already, values[: len(already)])
        once_for_each(keys, t.accumulate(keys, values), already)
        same_as_numpy(t, np.concatenate([already, keys]), np.concatenate([values[: len(already)], values]), np.add)
        assert not t.accumulate(keys, 0).any()


@pytest.mark.parametrize("structure", BACKENDS)
@pytest.mark.parametrize("kind", ["zipf", "steep", "one", "runs"])
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_other_structures(structure: str, kind: str, way: dict) -> None:
    keys = keys_of(kind, N, "uint64")
    values = np.arange(N)
    for threads in (1, 2):
        with table(structure, threads=threads, capacity=100, **way) as t:
            once_for_each(keys, t.accumulate(keys, values), keys[:0])
            same_as_numpy(t, keys, values, np.add)
            once_for_each(np.append(keys, np.uint64(1)), t.insert(np.append(keys, np.uint64(1)), 5), keys)


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize(("op", "join"), [("add", np.add), ("min", np.minimum), ("max", np.maximum)])
@pytest.mark.parametrize("value", ["int32", "uint32", "int64", "uint64", "float32", "float64"])
@pytest.mark.parametrize("dtype", ["uint32", "uint64"])
def test_every_way_to_combine(dtype: str, value: str, op: str, join: np.ufunc, way: dict) -> None:
    keys = keys_of("steep", N, dtype)
    random = np.random.default_rng(2)
    if value.startswith("f"):
        values = random.integers(-50, 50, N).astype(value)  # sums of which are exact
    else:
        limits = np.iinfo(value)
        values = random.integers(limits.min, limits.max, N, value, endpoint=True)
    with table(dtype=dtype, value=value, **way) as t:
        t.accumulate(keys, values, op=op)
        same_as_numpy(t, keys, values, join)


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", ["uint32", "uint64"])
def test_insert_keeps_the_value_of_the_element_that_was_inserted(kind: str, value: str, way: dict) -> None:
    keys, values = keys_of(kind, N, "uint64"), np.arange(N, dtype=value)
    with table(value=value, **way) as t:
        t.insert(keys[7], 9)
        mask = t.insert(keys, values)
        once_for_each(keys, mask, keys[7:8])
        assert np.array_equal(t[keys[mask]], values[mask])
        assert t[keys[7]] == 9
        t.check()


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_assigned_values_are_of_their_keys(kind: str, way: dict) -> None:
    keys, values = keys_of(kind, N, "uint64"), np.arange(N)
    with table(threads=1, **way) as t:
        once_for_each(keys, t.insert_or_assign(keys, values), keys[:0])
        assert np.array_equal(keys[t[keys]], keys)
        # One after the other, the last one would win. Here it is one that no later one of its chunk follows.
        if kind == "one":
            assert N - t[keys[0]] <= 4096


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["uint32", "uint64"])
def test_sets(kind: str, dtype: str, way: dict) -> None:
    keys = keys_of(kind, N, dtype)
    with table(dtype=dtype, value=None, capacity=64, **way) as t:
        once_for_each(keys, t.insert(keys), keys[:0])
        assert np.array_equal(np.sort(t.keys()), np.unique(keys))
        t.check()


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("kind", ["distinct", "uniform", "zipf", "steep", "late"])
@pytest.mark.parametrize("operation", ["accumulate", "insert", "insert_or_assign"])
def test_of_keys_without_room_every_element_says_so(operation: str, kind: str, way: dict) -> None:
    keys, values = keys_of(kind, N, "uint64"), np.random.default_rng(3).integers(1, 100, N)
    with table(capacity=64, grow=False, max_load_factor=1.0, threads=1, **way) as t:
        with pytest.raises(gh.TableFull, match="elements found no room") as raised:
            getattr(t, operation)(keys, values)
        status = raised.value.status
        there = t.contains(keys)
        assert set(np.unique(status)) <= {0, 1, 2}
        assert f"{(status == 2).sum()} of {N} elements" in str(raised.value)
        assert t.stats()["failed"] == (status == 2).sum()
        assert np.array_equal(np.sort(keys[status == 1]), np.unique(keys[there]))
        assert np.all(status[~there] == 2)  # a key that found room later may have failed before
        if operation == "accumulate":
            taken = status < 2
            same_as_numpy(t, keys[taken], values[taken], np.add)
        t.check()


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_what_found_no_room_is_forgotten(way: dict) -> None:
    """Elements that fail, then some of keys that are there, then others that fail, as one thread meets them."""
    random = np.random.default_rng(7)
    numbers = np.arange(1, 30_001, dtype=np.uint64) * np.uint64(0x9E3779B1)
    there, absent = numbers[:4096], numbers[4096:]
    with table(capacity=4096, grow=False, max_load_factor=1.0, threads=1, **way) as t:
        t.insert(there, 1)
        room = t.stats()["slots"] - len(t)
        if room:
            t.insert(np.arange(1, room + 1, dtype=np.uint64) * np.uint64(1 << 50), 1)
        keys = np.concatenate([np.repeat(absent, 2)[: 1 << 15], random.choice(there, 1 << 14), np.repeat(absent, 2)])
        with pytest.raises(gh.TableFull) as raised:
            t.accumulate(keys, 1)
        assert np.array_equal(raised.value.status, np.where(np.isin(keys, there), 0, 2))


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_nan_and_infinities(way: dict) -> None:
    keys = np.zeros(N, np.uint64)
    values = np.random.default_rng(4).random(N)
    values[1::3] = np.nan
    with table(value="float64", **way) as t:
        t.accumulate(np.uint64(0), 0.5)
        t.accumulate(keys, values, op="min")
        assert t[0] == np.nanmin(np.append(values, 0.5))
        t.accumulate(keys, values, op="max")
        assert t[0] == np.nanmax(values)
        t.accumulate(keys, values)
        assert np.isnan(t[0])
    huge = np.where(np.arange(N) % 2, 1e308, -1e308)
    with table(value="float64", threads=1, **way) as t:
        t.accumulate(np.uint64(0), -1e308)
        t.accumulate(keys, -huge)  # each after the other stays within the range of numbers; the sum of a half does not
        assert t[0] == -1e308
    with table(value="float32", threads=1, **way) as t:
        t.accumulate(keys, np.float32(np.inf))
        assert t[0] == np.inf


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("before", [0, 20_000])
def test_operands_whose_sum_overflows_are_added_one_by_one(before: int, dtype: str, way: dict) -> None:
    """With what is stored, every order of them stays within the range of numbers. Many others may come `before`."""
    most = np.finfo(dtype).max
    values = np.zeros(N, dtype)
    places = before + np.array([10, 20, 40_000, 40_010])
    values[places] = [0.6 * most, 0.5 * most, -0.6 * most, -0.5 * most]
    for part in (values[:40_000], values[40_000:]):
        with table(value=dtype, threads=1, **way) as t:
            start = np.array([-0.9 if part.max() > 0 else 0.9], dtype) * most
            t.accumulate(np.uint64([7]), start)
            t.accumulate(np.full(len(part), 7, np.uint64), part)
            np.testing.assert_allclose(t[7] / most, -0.2 * np.sign(start[0]), rtol=1e-5)


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_of_floats(kind: str, dtype: str, way: dict) -> None:
    keys = keys_of(kind, N, "uint64")
    with table(value=dtype, **way) as t:
        values = np.random.default_rng(6).integers(-9, 99, N).astype(dtype)  # of which every sum is exact
        t.accumulate(keys, values)
        same_as_numpy(t, keys, values, np.add)


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("threads", [1, 2])
def test_growth_in_the_middle(kind: str, threads: int, way: dict) -> None:
    keys = keys_of(kind, 150_000, "uint64")
    with table(capacity=64, threads=threads, **way) as t:
        for part in np.array_split(keys, 3):
            t.accumulate(part, 1)
        same_as_numpy(t, keys, np.ones(len(keys), np.int64), np.add)
        stats = t.stats()
        assert stats["load_factor"] <= 0.81
        assert stats["slots"] <= 6 * max(len(np.unique(keys)), 1024)


@pytest.mark.usual_sizes("how often a table grows depends on the length of its pieces")
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("dtype", ["uint32", "uint64"])
@pytest.mark.parametrize("kind", ["uniform", "numbers", "late", "early"])
def test_a_large_batch_grows_its_table_once(kind: str, dtype: str, threads: int) -> None:
    """By an estimate of how many distinct keys it has, wherever they are; with threads, each has a share of it."""
    n = 300_000
    keys = {
        "uniform": lambda: keys_of("uniform", n, dtype),
        "numbers": lambda: np.arange(n, dtype=dtype),
        "late": lambda: np.maximum(np.arange(n) - n // 2, np.arange(n) % 3000).astype(dtype),
        "early": lambda: np.maximum(n // 2 - np.arange(n), np.arange(n) % 3000).astype(dtype),
    }[kind]()
    with table(capacity=1000, dtype=dtype, threads=threads) as t:
        t.accumulate(keys, 1)
        assert t.stats()["rebuilds"] == 1
        assert t.stats()["slots"] < 2.5 * len(np.unique(keys))
        slots = t.stats()["slots"]
        t.accumulate(keys, 1)  # keys that are there need no room
        assert t.stats()["slots"] == slots


@pytest.mark.parametrize("capacity", [1000, 4_600_000])
def test_more_keys_than_are_estimated_at_a_time(capacity: int) -> None:
    """Those behind the first four million need their room as well."""
    keys = np.arange(5_500_000, dtype="uint32")
    was = _core.piece(1 << 25)  # so that the library gets them at once
    try:
        with table(value=None, dtype="uint32", capacity=capacity) as t:
            t.insert(keys, out=False)
            assert len(t) == len(keys) <= t.capacity
    finally:
        _core.piece(was)


@pytest.mark.parametrize(
    ("structure", "way"), [("hive", {}), *((s, way) for s in ("linear_probe", "slab_hash") for way in WAYS)], ids=str
)
def test_beside_other_threads(structure: str, way: dict) -> None:
    """Batches that would be alone meet, and readers see sums that only rise."""
    keys = keys_of("steep", 5000, "uint64")
    hot = keys[:1]
    with table(structure, threads=1, capacity=64, **way) as t:
        done = threading.Event()
        failed = []

        def read() -> None:
            last = 0
            while not done.is_set():
                now = int(t.get(hot, 0)[0])
                if now < last:
                    failed.append((last, now))
                last = now

        def write() -> None:
            for size in (1, 10, 100, 5000) * 10:
                t.accumulate(keys[:size], 1)

        writers = [threading.Thread(target=write) for _ in range(3)]
        reader = threading.Thread(target=read)
        for thread in [reader, *writers]:
            thread.start()
        for thread in writers:
            thread.join()
        done.set()
        reader.join()
        assert not failed
        added = np.concatenate([keys[:size] for size in (1, 10, 100, 5000)] * 30)
        same_as_numpy(t, added, np.ones(len(added), np.int64), np.add)


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("n", [255, 256, 4097, N])
@pytest.mark.parametrize(
    ("dtype", "value"), [("uint32", "int32"), ("uint32", "int64"), ("uint64", "int32"), ("uint64", "int64")]
)
def test_mixed_batches_sorted_by_kind(dtype: str, value: str, n: int, threads: int, way: dict) -> None:
    """Each key once, so that there is one right answer for every element."""
    random = np.random.default_rng(6)
    keys = keys_of("distinct", n, dtype)
    old, new = random.integers(1, 2**31, (2, n)).astype(value)
    there = random.random(n) < 0.5
    ops = random.integers(0, 6, n).astype(np.uint8)  # NOP among them
    is_op = {op: ops == op for op in gh.Op if op <= gh.Op.ERASE}
    with table(dtype=dtype, value=value, threads=threads, capacity=64, **way) as t:
        t.insert(keys[there], old[there])
        values, mask = t.execute(ops, keys, new)
        finds = is_op[gh.Op.FIND] & there
        adds = is_op[gh.Op.INSERT] | is_op[gh.Op.ASSIGN] | is_op[gh.Op.ACCUMULATE]
        assert np.array_equal(values, np.where(finds, old, 0))
        assert np.array_equal(mask, finds | (is_op[gh.Op.ERASE] & there) | (adds & ~there))
        with np.errstate(over="ignore"):
            joined = np.where(is_op[gh.Op.ACCUMULATE], old + new, np.where(is_op[gh.Op.ASSIGN], new, old))
        after, found = t.find(keys)
        assert np.array_equal(found, (there & ~is_op[gh.Op.ERASE]) | adds)
        assert np.array_equal(after, np.where(found, np.where(there, joined, new), 0))
        t.check()


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize(
    ("structure", "options"), [("linear_probe", {"probe_limit": 128, "row": 1}), ("slab_hash", {"buckets": 40})]
)
@pytest.mark.parametrize("mixed", [True, False])
def test_what_is_tried_again_takes_effect_once(structure: str, options: dict, mixed: bool, way: dict) -> None:
    """Some elements find no room, the table grows, and those alone are served again."""
    keys = np.append(np.arange(1, 40_000, dtype="uint64") * np.uint64(0x9E3779B97F4A7C15), np.uint64(2**64 - 1))
    with table(structure, value="uint64", capacity=64, max_load_factor=1.0, **options, **way) as t:
        added = np.zeros(len(keys), "uint64")
        for part in np.array_split(np.arange(len(keys)), 20):
            old = part - len(part) // 2
            batch = np.random.default_rng(1).permutation(np.append(part, old[old >= 0]))
            if mixed:
                _, fresh = t.execute(np.full(len(batch), gh.Op.ACCUMULATE, np.uint8), keys[batch], np.uint64(1))
            else:
                fresh = t.accumulate(keys[batch], np.uint64(1))
            assert fresh.sum() == np.count_nonzero(added[np.unique(batch)] == 0)
            np.add.at(added, batch, np.uint64(1))
        assert t.info["rebuilds"] or structure == "slab_hash"
        assert np.array_equal(t[keys], added)
        t.check()


def test_mixed_batches_that_go_in_parts() -> None:
    """Of few keys, into a small table: as much of them at a time as there is room for."""
    keys = np.arange(60, dtype="uint64") * np.uint64(0x9E3779B1)
    batch = np.tile(keys, 1000)
    ops = np.where(np.isin(batch, keys[:30]), gh.Op.FIND, gh.Op.INSERT).astype(np.uint8)
    with table(capacity=64) as t:
        t.insert(keys[:30], np.arange(30))
        values, mask = t.execute(ops, batch, np.arange(len(batch)))
        assert np.array_equal(values, np.where(ops == gh.Op.FIND, np.tile(np.arange(60), 1000), 0))
        assert mask.sum() == 30 * 1000 + 30
        inserted = mask & (ops == gh.Op.INSERT)
        assert np.array_equal(t[batch[inserted]], np.flatnonzero(inserted))


def test_mixed_batches_on_a_set() -> None:
    keys = keys_of("distinct", N, "uint64")
    ops = np.array([gh.Op.INSERT, gh.Op.FIND, gh.Op.ERASE], np.uint8)[np.arange(N) % 3]
    with table(value=None) as t:
        t.insert(keys[: N // 2])
        there = np.arange(N) < N // 2
        _, mask = t.execute(ops, keys)
        assert np.array_equal(mask, np.where(ops == gh.Op.INSERT, ~there, there))
        assert len(t) == np.count_nonzero((there & (ops != gh.Op.ERASE)) | (ops == gh.Op.INSERT))


def test_mixed_batches_on_a_full_table() -> None:
    """What found no room says so, and what needs none is done."""
    keys = keys_of("distinct", N, "uint64")
    ops = np.where(np.arange(N) % 2, gh.Op.INSERT, gh.Op.FIND).astype(np.uint8)
    with table(capacity=64, grow=False, max_load_factor=1.0) as t:
        with pytest.raises(gh.TableFull) as raised:
            t.execute(ops, keys, 1)
        status = raised.value.status
        inserts = ops == gh.Op.INSERT
        assert np.array_equal(t.contains(keys), inserts & (status == 1))
        assert np.all(status[~inserts] <= 1)
        assert np.count_nonzero(status == 2) == np.count_nonzero(inserts) - len(t)


def few_keys(distinct: int, n: int, dtype: str) -> np.ndarray:
    """So many distinct keys in no order, each of them about as often; zero and all ones are among them."""
    keys = np.arange(distinct, dtype=dtype) * np.array(0x9E3779B1, dtype)
    keys[-1] = np.iinfo(dtype).max
    if distinct > 1:
        keys[-2] = np.iinfo(dtype).max - 1
    return np.random.default_rng(8).permutation(np.resize(keys, n))


FEW = 3 << 11  # keys that the cache of few keys takes
LISTED = 1 << 12  # and a table that has no room for a batch
CHUNK = 1 << 17  # elements from one clearing of it to the next


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("distinct", [1, 2, 1000, FEW - 1, FEW, FEW + 1, FEW + 600, 3 * FEW])
@pytest.mark.parametrize(("dtype", "value"), [("uint32", "int32"), ("uint64", "int32"), ("uint64", "int64")])
def test_few_keys_are_counted_and_told(dtype: str, value: str, distinct: int, threads: int) -> None:
    """Around what the cache of few keys takes, and chunks of it that are full, and one that is not."""
    n = 2 * CHUNK + 32_768 + 77
    keys = few_keys(distinct, n, dtype)
    keys[: 1 << 13] = keys[0]  # so that a sample takes them for few
    limits = np.iinfo(value)
    values = np.random.default_rng(1).integers(limits.min, limits.max, n, value, endpoint=True)
    with table(dtype=dtype, value=value, threads=threads, capacity=FEW) as t:
        already = keys[:: n // 20]
        t.accumulate(already, values[: len(already)])
        once_for_each(keys, t.accumulate(keys, values), already)
        with np.errstate(over="ignore"):
            same_as_numpy(t, np.append(already, keys), np.append(values[: len(already)], values), np.add)
        assert not t.accumulate(keys, 0).any()


@pytest.mark.parametrize(("op", "join"), [("add", np.add), ("min", np.minimum), ("max", np.maximum)])
@pytest.mark.parametrize("value", ["int32", "uint32", "int64", "uint64", "float32", "float64"])
@pytest.mark.parametrize("dtype", ["uint32", "uint64"])
def test_few_keys_are_combined_in_every_way(dtype: str, value: str, op: str, join: np.ufunc) -> None:
    n = CHUNK + 40_000
    keys = few_keys(700, n, dtype)
    random = np.random.default_rng(2)
    if value.startswith("f"):
        values = random.integers(-50, 50, n).astype(value)  # sums of which are exact
    else:
        limits = np.iinfo(value)
        values = random.integers(limits.min, limits.max, n, value, endpoint=True)
    with table(dtype=dtype, value=value, threads=1) as t:
        t.accumulate(keys, values, op=op)
        with np.errstate(over="ignore"):
            same_as_numpy(t, keys, values, join)


@pytest.mark.parametrize("operation", ["insert", "insert_or_assign"])
@pytest.mark.parametrize("value", ["uint32", "uint64", None])
@pytest.mark.parametrize("distinct", [1, 900, FEW + 1])
def test_few_keys_are_inserted_and_assigned(distinct: int, value: str | None, operation: str) -> None:
    n = CHUNK + 50_000
    keys = few_keys(distinct, n, "uint64")
    keys[: 1 << 13] = keys[0]
    values = None if value is None else np.arange(n, dtype=value)
    with table(value=value, threads=1, capacity=FEW) as t:
        mask = getattr(t, operation)(keys) if value is None else getattr(t, operation)(keys, values)
        once_for_each(keys, mask, keys[:0])
        assert np.array_equal(np.sort(t.keys()), np.unique(keys))
        if value is not None:
            assert np.array_equal(keys[t[keys]], keys)  # of an element that had the key
            if operation == "insert":
                assert np.array_equal(t[keys[mask]], values[mask])
            elif distinct == 1:
                assert t[keys[0]] == n - 1
        t.check()


@pytest.mark.parametrize("operation", ["accumulate", "insert"])
@pytest.mark.parametrize("with_statuses", [True, False])
@pytest.mark.parametrize("distinct", [900, FEW - 1, FEW + 100])
@pytest.mark.parametrize("order", ["none", "runs"])
def test_few_keys_without_room_say_so(distinct: int, with_statuses: bool, operation: str, order: str) -> None:
    """In several chunks: what failed in one of them is forgotten in the next, where other keys may fail."""
    n = 2 * CHUNK + 50_000
    keys = few_keys(distinct, n, "uint64")
    keys = keys if order == "none" else np.sort(keys)
    keys[: 1 << 13] = keys[0]
    values = np.random.default_rng(3).integers(1, 100, n)
    with table(capacity=64, grow=False, max_load_factor=1.0, threads=1) as t:
        with pytest.raises(gh.TableFull, match="elements found no room") as raised:
            getattr(t, operation)(keys, values, **({} if with_statuses else {"out": False}))
        there = t.contains(keys)
        assert f"{np.count_nonzero(~there)} of {n} elements" in str(raised.value)
        assert t.stats()["failed"] == np.count_nonzero(~there)
        if with_statuses:
            status = raised.value.status
            assert np.array_equal(status == 2, ~there)
            assert np.array_equal(np.sort(keys[status == 1]), np.unique(keys[there]))
        if operation == "accumulate":
            same_as_numpy(t, keys[there], values[there], np.add)
        t.check()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("first", [1.0, 0.0, np.nan])
def test_few_keys_with_operands_that_follow_nobody(first: float, dtype: str) -> None:
    """Numbers so large that their sum would overflow, one after the other, among others that are joined."""
    n = 1 << 16
    keys = few_keys(50, n, "uint64")
    most = float(np.finfo(dtype).max)
    values = np.ones(n, dtype)
    large = np.flatnonzero(keys == keys[100])
    large = large[: len(large) // 4 * 4]
    values[large] = np.resize(np.array([0.9, 0.9, -0.9, -0.9]) * most, len(large))
    start = np.array(-0.9 * most, dtype)
    if first:  # a small operand, or one of those, is the first of its key
        values[large[0] - 1], keys[large[0] - 1] = first, keys[100]
    with table(value=dtype, threads=1) as t:
        t.accumulate(keys[100:101], start.reshape(1))
        t.accumulate(keys, values)
        sums = dict(zip(*t.export(), strict=True))
    for key in np.unique(keys):
        if key != keys[100]:
            assert sums[key] == np.count_nonzero(keys == key)
    assert np.isnan(sums[keys[100]]) if np.isnan(first) else sums[keys[100]] == pytest.approx(float(start))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_sum_of_few_keys_that_has_become_large_waits_for_nobody(dtype: str) -> None:
    """Small operands, then a large one: taken first, it would leave the range of numbers."""
    most = float(np.finfo(dtype).max)
    parts = np.random.default_rng(1).random(1 << 15) / 2**18  # of the largest number
    parts[-1] = -0.1
    with table(value=dtype, threads=1) as t:
        t.accumulate(np.uint64([7]), np.array([-0.95 * most], dtype))
        t.accumulate(np.full(len(parts), 7, np.uint64), (parts * most).astype(dtype))
        assert t[7] / most == pytest.approx(parts.sum() - 0.95, rel=1e-4)


@pytest.mark.usual_sizes("how often a table grows depends on the length of its pieces")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", ["uint32", "uint64"])
@pytest.mark.parametrize("structure", BACKENDS)
@pytest.mark.parametrize("distinct", [1, 500, LISTED, LISTED + 1, 2 * LISTED])
def test_few_keys_find_their_room_at_once(distinct: int, structure: str, dtype: str, threads: int) -> None:
    """By their number where they are few; keys that are there need none."""
    keys = few_keys(distinct, 300_000, dtype)
    if distinct > 1000:
        keys[: 1 << 13] = keys[0]  # so that a sample takes them for few
    with table(structure, capacity=1000, dtype=dtype, threads=threads) as t:
        most = max(t.stats()["slots"], 4 * distinct)
        t.accumulate(keys, 1)
        assert len(t) == distinct
        slots = t.stats()["slots"]
        assert slots <= most
        rebuilds = t.info["rebuilds"]
        assert rebuilds <= (1 if distinct <= LISTED else 2) or structure == "hive"
        t.accumulate(keys, 1)  # keys that are there need no room
        assert (t.stats()["slots"], t.info["rebuilds"]) == (slots, rebuilds)
        same_as_numpy(t, keys, np.full(len(keys), 2), np.add)


def test_few_keys_of_each_thread_that_are_many_together() -> None:
    """Two threads count a half each, and neither half has more than are listed."""
    i = np.arange(300_000, dtype="uint32")
    keys = i % 3000 + 3000 * (i >= len(i) // 2)
    keys[: 1 << 13] = 0  # so that a sample takes them for few
    with table(capacity=1000, dtype="uint32", threads=2) as t:
        t.accumulate(keys, 1)
        assert len(t) == 6000 <= t.capacity


@pytest.mark.usual_sizes("how often a table grows depends on the length of its pieces")
@pytest.mark.parametrize("dtype", ["uint32", "uint64"])
def test_room_for_those_of_few_keys_that_are_new(dtype: str) -> None:
    """No less, or the table would grow twice, and not for those that are there."""
    old, new = np.split(np.arange(1, 2801, dtype=dtype) * np.array(0x9E3779B1, dtype), [700])
    with table(capacity=1000, dtype=dtype, threads=1) as t:
        t.accumulate(old, 1)
        t.accumulate(np.append(np.resize(old, 100_000), np.resize(new, 100_000)), 1)
        assert len(t) == 2800
        assert t.info["rebuilds"] == 1
        t.check()


@pytest.mark.parametrize("dtype", ["uint32", "uint64"])
def test_few_keys_of_which_most_are_there_grow_nothing(dtype: str) -> None:
    """All of them would not fit, but the new ones do."""
    with table(capacity=1000, dtype=dtype, threads=1) as t:
        keys = np.arange(1, t.capacity - 49, dtype=dtype) * np.array(0x9E3779B1, dtype)
        t.accumulate(keys[:-200], 1)
        t.accumulate(np.random.default_rng(1).permutation(np.resize(keys, 200_000)), 1)
        assert len(t) == len(keys)
        assert t.info["rebuilds"] == 0


def test_room_for_keys_that_an_estimate_shows_to_fit() -> None:
    """Not few, but fewer than there is room for: nothing grows."""
    keys = few_keys(9000, 700_000, "uint64")
    with table(capacity=300_000, threads=1) as t:
        slots = t.stats()["slots"]
        t.accumulate(keys, 1)
        assert (t.stats()["slots"], t.info["rebuilds"]) == (slots, 0)
        same_as_numpy(t, keys, np.ones(len(keys), np.int64), np.add)
